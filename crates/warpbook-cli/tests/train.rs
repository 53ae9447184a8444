//! `warpbook train` and `warpbook eval` as a user starts them, on the CPU and on digits that need no file.

use std::path::Path;
use std::process::{Command, Output};

fn warpbook(folder: &Path, words: &[&str]) -> Output {
    let program = std::env::var_os("CARGO_BIN_EXE_warpbook")
        .map_or_else(|| env!("CARGO_BIN_EXE_warpbook").into(), std::path::PathBuf::from);
    let cache = folder.join("cache");
    Command::new(program)
        .args(words)
        .current_dir(folder)
        .env("WARPBOOK_CACHE", cache)
        .env_remove("WARPBOOK_DATA")
        .output()
        .unwrap()
}

fn expect(output: &Output, code: i32, parts: &[&str]) {
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{text}");
    for part in parts {
        assert!(text.contains(part), "`{part}` in:\n{text}");
    }
}

#[test]
fn a_training_is_kept_gone_on_with_and_judged() {
    let folder = tempfile::tempdir().unwrap();
    let run = |more: &[&str]| {
        let words =
            [&["train", "mnist", "--batch", "32", "--log-every", "2", "--checkpoint", "c.safetensors"], more].concat();
        warpbook(folder.path(), &words)
    };
    // MNIST is not there.
    expect(
        &run(&["--steps", "4"]),
        0,
        &["synthetic digits", "step 2: loss", "step 4: loss", "step 4 is kept", "MiB allocated"],
    );
    expect(&run(&["--steps", "6", "--resume", "c.safetensors"]), 0, &["step 6: loss", "step 6 is kept"]);
    let judged = warpbook(folder.path(), &["eval", "mnist", "c.safetensors"]);
    expect(&judged, 0, &["synthetic digits", "test loss", "of 2000)"]);
    // In one go it comes to the same.
    let whole = folder.path().join("whole.safetensors");
    let words =
        ["train", "mnist", "--batch", "32", "--steps", "6", "--data", "synthetic", "--checkpoint", "whole.safetensors"];
    expect(&warpbook(folder.path(), &words), 0, &["step 6: loss"]);
    let kept = std::fs::read(folder.path().join("c.safetensors")).unwrap();
    assert!(std::fs::read(whole).unwrap() == kept, "the files differ");
}

/// A recipe of the tests, copied into a folder.
fn recipe(folder: &Path, name: &str) {
    let root = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it");
    std::fs::copy(Path::new(&root).join("tests/recipes").join(name), folder.join(name)).unwrap();
}

#[test]
fn a_recipe_from_a_file_is_trained() {
    let folder = tempfile::tempdir().unwrap();
    recipe(folder.path(), "residual.toml");
    let train = |more: &[&str]| {
        let words = [&["train", "residual.toml", "--log-every", "1", "--checkpoint", "c.safetensors"], more].concat();
        warpbook(folder.path(), &words)
    };
    let known = ["synthetic digits", "batches of 32", "step 2: loss", "step 2 is kept"];
    expect(&train(&["--steps", "2"]), 0, &known);
    let first = std::fs::read(folder.path().join("c.safetensors")).unwrap();
    expect(&train(&["--steps", "2", "--seed", "7", "--lr", "0.01"]), 0, &known);
    assert!(std::fs::read(folder.path().join("c.safetensors")).unwrap() == first, "the file's seed is 7");
    // The options win.
    expect(&train(&["--steps", "3", "--seed", "8", "--batch", "16", "--epochs", "1"]), 0, &["batches of 16", "step 3"]);
    assert!(std::fs::read(folder.path().join("c.safetensors")).unwrap() != first, "seed 8 gives other weights");
    expect(&warpbook(folder.path(), &["eval", "residual.toml", "c.safetensors"]), 0, &["test loss", "of 2000)"]);
    let text = std::fs::read_to_string(folder.path().join("residual.toml")).unwrap();
    std::fs::write(folder.path().join("residual.toml"), text.replace("batch =", "bach =")).unwrap();
    expect(&train(&[]), 2, &["residual.toml, line 4", "no key `bach`", "did you mean `batch`?"]);
}

#[test]
fn what_is_wrong_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let check = |words: &[&str], code, parts: &[&str]| expect(&warpbook(folder.path(), words), code, parts);
    check(&["train", "imagenet"], 2, &["`imagenet` is no recipe"]);
    check(&["train", "cifar10"], 2, &["warpbook data fetch cifar10", "--data DIR"]);
    check(&["train", "mnist", "--data", "nowhere"], 2, &["nowhere"]);
    check(&["train", "mnist", "--batch", "0"], 2, &["at least 1"]);
    check(&["train", "mnist", "--lr", "-1"], 2, &["learning rate is -1"]);
    check(&["train", "mnist", "--init", "none.safetensors"], 2, &["none.safetensors"]);
    check(&["eval", "mnist", "none.safetensors"], 2, &["none.safetensors"]);
    check(&["train", "cifar10", "--data", "synthetic"], 2, &["takes 3 x 32 x 32"]);
    let wild = ["train", "mnist", "--batch", "32", "--steps", "9", "--lr", "1e20", "--checkpoint", "c.safetensors"];
    check(&wild, 1, &["no finite number", "Lower the learning rate"]);
    assert!(!folder.path().join("c.safetensors").exists(), "weights that are lost are not kept");
}
