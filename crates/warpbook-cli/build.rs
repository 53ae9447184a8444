//! Checks whether `cargo xtask web` has built the viewer, so that the program can embed it.

use std::path::Path;

fn main() {
    // The folder always exists; for a missing file, cargo would rerun this script at every build.
    println!("cargo:rerun-if-changed=viewer");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-check-cfg=cfg(viewer_inside)");
    if Path::new("viewer/warpbook.html.gz").is_file() {
        println!("cargo:rustc-cfg=viewer_inside");
    }
}
