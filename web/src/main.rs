//! The page that shows records: static files, everything in the browser, nothing sent anywhere.
//!
//! Each room uses only those before it: `text`, `plot` and `record` work out what is shown, `address` is what a link says of it, `library` has the
//! records, `tables` and `report` what is made of them; all of these are plain Rust and tested on any machine. `browser` asks the browser, `app` holds the
//! state, `view` draws it, and `page` is both as one component.
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
        // The page's own script says so when a panic has stopped it.
        yew::set_custom_panic_hook(Box::new(|_| {}));
        if let Some(root) = browser::document().get_element_by_id("warpbook") {
            yew::Renderer::<app::App>::with_root(root).render();
        }
    } else {
        eprintln!("This is the viewer's page, which runs in a browser: build it with `cargo xtask web`.");
    }
}
