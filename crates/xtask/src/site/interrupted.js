
// When a page is left, Firefox may end the page's process, and with it whatever script still runs: half-way, and without its `finally`. Callbacks that
// are due still come. They find the module's memory half written, so each of them that would enter it again does nothing.
const uninterrupted = (() => {
    let depth = 0;
    let ended = false;
    return (enter) => (...args) => {
        // A call from inside the module has one of the module's functions below it on the stack.
        ended ||= depth > 0 && !new Error().stack.includes("wasm-function[");
        if (ended) return;
        depth++;
        try {
            return enter(...args);
        } finally {
            depth--;
        }
    };
})();
