//! The page that shows records: static files, everything in the browser, nothing sent anywhere.
//!
//! `link`, `climb`, `difference`, `strip`, `fragment`, `problems`, `compared`, `origin`, `open`, `library`, `report`, `sheet`, `facts`, `highlight` and `format` are plain Rust and tested on any machine;
//! `browser` asks the browser, `app` holds the state, `view` draws it.
#![forbid(unsafe_code)]

mod app;
mod browser;
mod climb;
mod compared;
mod difference;
mod facts;
mod filter;
mod format;
mod fragment;
mod highlight;
#[cfg(test)]
mod hostile;
mod library;
mod link;
mod marks;
mod open;
mod origin;
mod problems;
mod report;
mod sheet;
#[cfg(test)]
mod softmax;
mod strip;
mod trace;
mod view;
mod zoom;

fn main() {
    if cfg!(target_arch = "wasm32") {
        // The page's own script says so when a panic has stopped it.
        yew::set_custom_panic_hook(Box::new(|_| {}));
        if let Some(root) = browser::document().get_element_by_id("warpbook") {
            yew::Renderer::<app::App>::with_root(root).render();
        }
    } else {
        eprintln!("This is the viewer's page, which runs in a browser: build it with `cargo xtask web`.");
    }
}
