//! Tests with fake NVIDIA libraries, which must not crash any command.

#![cfg(target_os = "linux")]

use crate::common::place::{Done, Place};
use std::process::Command;

/// Builds a libcuda with these functions, using the compiler that Rust links with.
fn driver(place: &Place, functions: &str) {
    place.write("cuda.c", functions);
    let mut command = Command::new("cc");
    command.args(["-shared", "-fPIC", "-o", "libcuda.so.1", "cuda.c"]).current_dir(place.folder.path());
    assert!(command.status().is_ok_and(|status| status.success()), "cc, with which Rust links, is not there");
    // The fake driver is stored under both names, so that the machine's own driver is never found first.
    std::fs::copy(place.path("libcuda.so.1"), place.path("libcuda.so")).unwrap();
}

fn run(place: &Place, words: &[&str]) -> Done {
    let mut command = place.command(words);
    // The cache is empty, so a kernel is compiled, which must not need the driver either.
    command.env("LD_LIBRARY_PATH", place.folder.path()).env("WARPBOOK_CACHE", place.path("no cache yet"));
    Done::new(words, command.output().unwrap())
}

const REGRESSION: [&str; 8] = ["run", "regression", "--points", "1k", "--epochs", "10", "--samples", "1"];

#[test]
fn a_driver_that_lacks_functions_leaves_the_cpu() {
    let Some(place) = Place::new() else { return };
    for (functions, says) in [
        ("int cuInit(unsigned f) { return 0; }", "its library lacks cuDriverGetVersion"),
        (
            "int cuDriverGetVersion(int* v) { *v = 13000; return 0; }",
            "more functions, so it is not NVIDIA's or is incomplete",
        ),
        ("int cuDriverGetVersion(int* v) { *v = 11000; return 0; }", "supports CUDA 11.0"),
        ("int cuDriverGetVersion(int* v) { return 1000; }", "cuDriverGetVersion returned the error 1000"),
    ] {
        driver(&place, functions);
        run(&place, &["devices"]).expect(0, "cpu").expect(0, says);
        run(&place, &[&REGRESSION[..], &["--device", "cuda:0"]].concat()).expect(3, "--device cpu");
    }
    run(&place, &REGRESSION).expect(0, "View it with");
}

#[test]
fn an_error_without_a_name_leaves_the_cpu() {
    let Some(place) = Place::new() else { return };
    let names = warpbook::device::testing::DRIVER_FUNCTIONS.iter();
    let others = names.filter(|name| **name != "cuDriverGetVersion" && **name != "cuInit");
    let all: String = others.map(|name| format!("int {name}() {{ return 1000; }}\n")).collect();
    let version = "int cuDriverGetVersion(int* v) { *v = 13000; return 0; }\n";
    // If the driver cannot count devices, its error code is reported instead of a message that there are no GPUs.
    driver(&place, &format!("{version}int cuInit(unsigned f) {{ return 0; }}\n{}", all.replace("1000", "987654")));
    for words in ["devices", "doctor"] {
        let done = run(&place, &[words]);
        done.expect(0, "the error 987654, for which it has no name");
        assert!(!done.out.contains("CUDA_VISIBLE_DEVICES"), "{}", done.out);
    }
    // The error occurs in the first call, or in the second.
    for init in [1000, 0] {
        driver(&place, &format!("{version}int cuInit(unsigned f) {{ return {init}; }}\n{all}"));
        run(&place, &["devices"]).expect(0, "cpu");
        run(&place, &[&REGRESSION[..], &["--device", "cuda:0"]].concat())
            .expect(3, "the error 1000, for which it has no name");
    }
}
