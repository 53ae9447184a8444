//! Tells the program whether `cargo xtask web` has built the viewer that it can embed.

use std::path::Path;

fn main() {
    // The folder always exists; cargo would run this at every build for a missing file.
    println!("cargo:rerun-if-changed=viewer");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-check-cfg=cfg(viewer_inside)");
    if Path::new("viewer/warpbook.html.gz").is_file() {
        println!("cargo:rustc-cfg=viewer_inside");
    }
}
