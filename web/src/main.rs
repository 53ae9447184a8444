//! A page that shows records: static files that run in the browser and send nothing anywhere.
//!
//! Each module uses only the modules named before it. `text`, `plot` and `record` compute what is shown, `address`
//! encodes the view in the address, `library` stores the records, and `tables` and `report` build tables and reports;
//! all of these are plain Rust and tested on any machine. `browser` wraps the browser, `app` holds the state, `view`
//! draws it, and `page` joins both in one component.
#![forbid(unsafe_code)]

mod address;
mod app;
mod browser;
mod library;
mod page;
mod plot;
mod record;
mod report;
mod tables;
#[cfg(test)]
mod testing;
mod text;
mod view;

fn main() {
    if cfg!(target_arch = "wasm32") {
        // The script in index.html tells the reader about a panic.
        yew::set_custom_panic_hook(Box::new(|_| {}));
        if let Some(root) = browser::document().get_element_by_id("warpbook") {
            yew::Renderer::<app::App>::with_root(root).render();
        }
    } else {
        eprintln!("This is the viewer's page, which runs in a browser: build it with `cargo xtask web`.");
    }
}
