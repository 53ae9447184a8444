//! Training commands as users enter them, and their inputs.

use super::cache;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::path::Path;
use std::process::{Command, Output};

/// Runs the program with these words in a folder without data sets, and returns its output.
pub fn warpbook(folder: &Path, words: &[&str]) -> Output {
    let program = super::program_path();
    Command::new(program)
        .args(words)
        .current_dir(folder)
        .env("WARPBOOK_CACHE", cache(folder))
        .env_remove("WARPBOOK_DATA")
        .output()
        .unwrap()
}

/// Checks the exit code and that the output contains these parts.
pub fn expect(output: &Output, code: i32, parts: &[&str]) {
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{text}");
    for part in parts {
        assert!(text.contains(part), "`{part}` in:\n{text}");
    }
}

/// Copies one of the tests' recipes into a folder.
pub fn recipe(folder: &Path, name: &str) {
    let root = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it");
    std::fs::copy(Path::new(&root).join("tests/recipes").join(name), folder.join(name)).unwrap();
}

/// Writes a grey PNG of a synthetic digit, enlarged by `scale`.
pub fn draw(path: &Path, scale: usize) {
    let digits = warpbook::data::synthetic_digits(1, 1, 5).test;
    let side = 28 * scale;
    let pixels: Vec<u8> = (0..side * side).map(|i| digits.image(0)[i / side / scale * 28 + i % side / scale]).collect();
    std::fs::write(path, warpbook::data::png([1, side, side], &pixels).unwrap()).unwrap();
}

/// Returns a page with the text of its pictures, which are data URIs.
pub fn with_pictures(html: &str) -> String {
    let encoded = html.split("data:image/svg+xml;base64,").skip(1).filter_map(|rest| rest.split('"').next());
    let pictures = encoded.map(|picture| String::from_utf8(STANDARD.decode(picture).unwrap()).unwrap());
    std::iter::once(html.to_owned()).chain(pictures).collect()
}
