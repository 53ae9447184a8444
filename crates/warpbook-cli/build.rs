//! Tells the program whether `cargo xtask web` has built the viewer that it can have inside.

use std::path::Path;

fn main() {
    // The folder is always there: cargo would run this again and again for a file that is not.
    println!("cargo:rerun-if-changed=viewer");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-check-cfg=cfg(viewer_inside)");
    if Path::new("viewer/warpbook.html.gz").is_file() {
        println!("cargo:rustc-cfg=viewer_inside");
    }
}
