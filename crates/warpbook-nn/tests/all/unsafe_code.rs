//! Unsafe code is limited to small files that launch kernels. A comment on each unsafe block says why the block is sound.

use std::fs;
use std::path::{Path, PathBuf};
use warpbook_device::testing;

/// Largest number of lines of a file with unsafe code.
const SMALL: usize = 280;
/// Files with other names that launch kernels: short operations, and a library's call on the CPU.
const OTHERS: [&str; 9] = [
    "ops/activation/cuda.rs",
    "ops/add/cuda.rs",
    "ops/augment/cuda.rs",
    "ops/args.rs",
    "ops/conv2d/cuda/direct.rs",
    "ops/cross_entropy/cuda.rs",
    "ops/dropout/cuda.rs",
    "ops/mse/cuda.rs",
    "cpu/library.rs",
];

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn unsafe_code_is_in_small_files_that_launch() {
    let crates = testing::manifest_dir(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut allowed = 0;
    for name in ["warpbook-data", "warpbook-gemm", "warpbook-nn", "warpbook-lab", "warpbook-experiments", "warpbook"] {
        let source = crates.join(name).join("src");
        let mut all = Vec::new();
        files(&source, &mut all);
        for path in all {
            let text = fs::read_to_string(&path).unwrap();
            if !text.contains("allow(unsafe_code)") {
                continue;
            }
            allowed += 1;
            let below = path.strip_prefix(&source).unwrap().to_string_lossy().replace('\\', "/");
            let lines = text.lines().count();
            assert!(lines <= SMALL, "{name}/src/{below} allows unsafe code in {lines} lines, more than {SMALL}");
            let launches = below.ends_with("launch.rs") || OTHERS.contains(&&*below);
            assert!(launches, "{name}/src/{below} allows unsafe code and is not a file that only launches");
        }
    }
    assert!(allowed >= OTHERS.len(), "{allowed} files were found: the folders are not those of the sources");
}
