//! Tests of `warpbook train`, `eval`, `freeze` and `predict` on a GPU, compared with results of the CPU.

use crate::common::commands::{draw, expect, recipe, warpbook};
use std::collections::BTreeMap;
use std::path::Path;
use warpbook::device::{CudaDevice, testing};
use warpbook::nn::train::Precision;

/// Returns a GPU if there is one and the program exists; otherwise notes the test as skipped.
fn ready(test: &str) -> Option<CudaDevice> {
    let device = testing::gpu(test)?;
    crate::common::program().map(|_| device)
}

/// Returns the output of a command, which must succeed.
fn output(folder: &Path, words: &[&str]) -> String {
    let output = warpbook(folder, words);
    expect(&output, 0, &[]);
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the number between two texts.
fn number(text: &str, before: &str, after: &str) -> f64 {
    let found = text.split_once(before).and_then(|(_, rest)| rest.split_once(after)).map(|(number, _)| number);
    let found = found.unwrap_or_else(|| panic!("nothing between `{before}` and `{after}` in:\n{text}"));
    found.trim().parse().unwrap_or_else(|e| panic!("`{found}`: {e}"))
}

/// Returns the loss and the number of correctly classified images.
fn score(text: &str) -> (f64, f64) {
    (number(text, "test loss ", ","), number(text, " % (", " of 2000)"))
}

/// Returns the first image's classes with their probabilities in percent.
fn classes(text: &str) -> BTreeMap<String, f64> {
    let (_, line) = text.lines().next().unwrap().split_once(": ").unwrap();
    let parts = line.replace("then ", "");
    let class = |part: &str| {
        let (name, rest) = part.split_once(" (").unwrap();
        (name.to_owned(), rest.trim_end_matches(" %)").parse().unwrap())
    };
    parts.split(", ").map(class).collect()
}

/// Returns the allowed effects of rounding on the loss, on the number of right images out of 2000, and on a
/// probability.
fn allowed(precision: Precision) -> (f64, f64, f64) {
    match precision {
        Precision::Fp32 => (3e-4, 2.0, 1e-4),
        Precision::Tf32 | Precision::AmpFp16 => (0.01, 10.0, 0.01),
        Precision::AmpBf16 => (0.03, 40.0, 0.05),
    }
}

fn train(folder: &Path, words: &[&str]) -> String {
    output(folder, &[&["train", "residual.toml", "--log-every", "20"], words].concat())
}

#[test]
fn a_survey_is_right_at_every_random_product_and_repeated_by_its_seed() {
    let Some(_) = ready("a_survey_is_right_at_every_random_product_and_repeated_by_its_seed") else { return };
    let folder = tempfile::tempdir().unwrap();
    let words = ["survey", "matmul", "--random", "24", "--device", "cuda:0", "--out", "survey.json"];
    let text = output(folder.path(), &words);
    let read = || -> serde_json::Value {
        serde_json::from_slice(&std::fs::read(folder.path().join("survey.json")).unwrap()).unwrap()
    };
    let shapes = |report: &serde_json::Value| -> Vec<String> {
        let product = |p: &serde_json::Value| {
            ["m", "n", "k", "dtype", "trans_a", "trans_b"].map(|key| p[key].to_string()).join(" ")
        };
        report["products"].as_array().unwrap().iter().map(product).collect()
    };
    let report = read();
    assert!(!text.contains("FAILED") && shapes(&report).len() == 24, "{text}");
    for product in report["products"].as_array().unwrap() {
        let us = |key: &str| product["times"][key].as_f64().unwrap();
        assert!(us("ours_us") > 0.5 && us("best_us") > 0.5 && us("best_us") <= us("first_us"), "{product}");
        assert!(product["algorithms"].as_u64().unwrap() > 0 && product["error"].is_null(), "{product}");
        assert!(product["choice"].as_str().unwrap().contains(" with the tile "), "{product}");
    }
    // The report has four lines of shares, and all limits.
    for part in ["all ", "multiples of 8 ", "odd ", "multiples of 64 ", "smallest ratio to the best"] {
        assert!(text.contains(part), "`{part}` in:\n{text}");
    }
    let seed = report["seed"].to_string();
    assert!(text.contains(&format!("--seed {seed}")), "{text}");
    output(folder.path(), &[&words[..], &["--seed", &seed]].concat());
    assert_eq!(shapes(&read()), shapes(&report));
}

/// A checkpoint keeps its run's kernels, so that the resumed run gives the same bits even without the findings.
#[test]
fn a_training_goes_on_with_the_kernels_of_its_checkpoint() {
    if ready("a_training_goes_on_with_the_kernels_of_its_checkpoint").is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (folder, home) = (folder.path(), folder.path().join("home"));
    recipe(folder, "residual.toml");
    let run = |tuning: &str, words: &[&str]| {
        let train = ["train", "residual.toml", "--log-every", "20", "--device", "cuda:0", "--precision", "amp-fp16"];
        let mut command = std::process::Command::new(crate::common::program_path());
        command.args(train).args(words).current_dir(folder).env("WARPBOOK_CACHE", &home).env("WARPBOOK_TUNE", tuning);
        expect(&command.output().unwrap(), 0, &[]);
    };
    // This uses `full`, since `quick` leaves such short products to the cost model.
    run("full", &["--steps", "60", "--checkpoint", "whole.safetensors"]);
    run("full", &["--steps", "30", "--checkpoint", "part.safetensors"]);
    let bytes = |name: &str| std::fs::read(folder.join(name)).unwrap();
    let has = |name: &str, text: &str| bytes(name).windows(text.len()).any(|part| part == text.as_bytes());
    assert!(has("whole.safetensors", "\\\"kernels\\\""), "the checkpoint names no kernels");
    std::fs::remove_dir_all(home.join("products")).expect("something was found");
    for tuning in ["off", "quick"] {
        let on = format!("{tuning}.safetensors");
        run(tuning, &["--steps", "60", "--resume", "part.safetensors", "--checkpoint", &on]);
        assert!(bytes(&on) == bytes("whole.safetensors"), "{tuning}: other bits");
    }
    // An unknown word is an error.
    let mut command = std::process::Command::new(crate::common::program_path());
    let output = command.args(["devices"]).env("WARPBOOK_TUNE", "fast").output().unwrap();
    expect(&output, 2, &["WARPBOOK_TUNE: unknown tuning `fast`: choose off, quick or full"]);
}

#[test]
fn a_network_is_judged_frozen_and_used_as_on_the_cpu() {
    let Some(device) = ready("a_network_is_judged_frozen_and_used_as_on_the_cpu") else { return };
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    recipe(folder, "residual.toml");
    draw(&folder.join("a.png"), 2);
    train(folder, &["--steps", "120", "--device", "cpu", "--checkpoint", "c.safetensors"]);
    let freeze = ["freeze", "residual.toml", "c.safetensors", "--out"];
    output(folder, &[&freeze[..], &["cpu.safetensors", "--device", "cpu"]].concat());
    let judge = ["eval", "residual.toml", "c.safetensors"];
    let predict = ["predict", "cpu.safetensors", "a.png", "--top", "10"];
    let on_cpu = ["--device", "cpu"];
    let want = score(&output(folder, &[&judge[..], &on_cpu].concat()));
    let want_classes = classes(&output(folder, &[&predict[..], &on_cpu].concat()));
    assert_eq!(want_classes.len(), 10);
    for precision in Precision::ALL {
        let (loss, images, probability) = allowed(precision);
        let name = precision.to_string();
        let there = ["--device", "cuda:0", "--precision", &name];
        let place = format!(", on {} in {precision}", device.info().name);
        let close = |what: &str, text: &str| {
            let got = score(text);
            let is_close = (got.0 - want.0).abs() <= loss * want.0.max(1.0) && (got.1 - want.1).abs() <= images;
            assert!(is_close && text.contains(&place), "{what} in {precision}: {got:?}, on the CPU {want:?}:\n{text}");
        };
        close("the checkpoint", &output(folder, &[&judge[..], &there].concat()));
        let frozen = output(folder, &[&freeze[..], &["gpu.safetensors", "--repeat", "2"], &there].concat());
        let apart = number(&frozen, "patterns differ by at most ", " from those of the CPU");
        assert!(apart <= probability, "{precision}: {frozen}");
        let timed = ["an image alone: ", " with the launch and the wait (median of 2)", "in batches of 256: "];
        assert!(timed.iter().all(|part| frozen.contains(part)), "{frozen}");
        // The file has fp32 weights, whatever precision the trial uses.
        let bytes = |name: &str| std::fs::read(folder.join(name)).unwrap();
        assert!(bytes("gpu.safetensors") == bytes("cpu.safetensors"), "{precision}: the files differ");
        let judged = output(folder, &[&["eval", "gpu.safetensors", "--repeat", "2"], &there[..]].concat());
        close("the frozen network", &judged);
        assert!(timed.iter().all(|part| judged.contains(part)), "{judged}");
        let got = classes(&output(folder, &[&predict[..], &there].concat()));
        for (class, want) in &want_classes {
            // The program prints percentages with one decimal.
            let apart = (got[class] - want).abs();
            assert!(apart <= 100.0 * probability + 0.11, "{precision}, class {class}: {got:?} and {want_classes:?}");
        }
    }
}

#[test]
fn a_training_on_a_gpu_is_gone_on_with_to_the_same_bits_and_judged_on_the_cpu() {
    let Some(device) = ready("a_training_on_a_gpu_is_gone_on_with_and_judged") else { return };
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    recipe(folder, "residual.toml");
    for precision in Precision::ALL {
        let name = precision.to_string();
        let there = ["--device", "cuda:0", "--precision", &name];
        let run = |words: &[&str]| train(folder, &[words, &there].concat());
        let text = run(&["--steps", "120", "--checkpoint", "whole.safetensors"]);
        let place = format!("on {} in {precision}", device.info().name);
        for part in [place.as_str(), "step 120: loss", "allocated", "reserved", "step 120 is kept"] {
            assert!(text.contains(part), "`{part}` in:\n{text}");
        }
        run(&["--steps", "70", "--checkpoint", "part.safetensors"]);
        let text = run(&["--steps", "120", "--resume", "part.safetensors", "--checkpoint", "part.safetensors"]);
        assert!(text.contains("resuming after step 70"), "{text}");
        let bytes = |name: &str| std::fs::read(folder.join(name)).unwrap();
        assert!(bytes("part.safetensors") == bytes("whole.safetensors"), "{precision}: the files differ");
        for loader in [["--workers", "0", "--pin", "off"], ["--workers", "3", "--pin", "on"]] {
            let words = ["--steps", "120", "--resident", "off", "--checkpoint", "copied.safetensors"];
            run(&[&words[..], &loader].concat());
            assert!(bytes("copied.safetensors") == bytes("whole.safetensors"), "{precision}, {loader:?}: other bits");
        }
        let judge =
            |place: &[&str]| score(&output(folder, &[&["eval", "residual.toml", "whole.safetensors"], place].concat()));
        let ((loss, images, _), got, want) = (allowed(precision), judge(&there), judge(&["--device", "cpu"]));
        let is_close = (got.0 - want.0).abs() <= loss * want.0.max(1.0) && (got.1 - want.1).abs() <= images;
        assert!(is_close, "{precision}: {got:?}, on the CPU {want:?}");
    }
}

#[test]
fn a_loss_that_is_no_number_on_a_gpu_has_its_code_and_keeps_no_checkpoint() {
    if ready("a_loss_that_is_no_number_on_a_gpu_has_its_code").is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    recipe(folder.path(), "residual.toml");
    let words = ["train", "residual.toml", "--steps", "9", "--lr", "1e30", "--device", "cuda:0"];
    let wild = warpbook(folder.path(), &[&words[..], &["--checkpoint", "c.safetensors"]].concat());
    expect(&wild, 1, &["not a finite number is the output of ", "Lower the learning rate"]);
    assert!(!folder.path().join("c.safetensors").exists(), "weights that are lost are not kept");
}

#[test]
fn a_kernel_of_one_s_own_trains_a_network() {
    let Some(_) = ready("a_kernel_of_one_s_own_trains_a_network") else { return };
    let folder = tempfile::tempdir().unwrap();
    let source = output(folder.path(), &["attempt", "--like", "03_shared_tile"]);
    std::fs::write(folder.path().join("mine.cu"), &source).unwrap();
    std::fs::write(folder.path().join("wrong.cu"), source.replace("kk < BK; ++kk", "kk < BK - 1; ++kk")).unwrap();
    let recipe = "data = \"synthetic\"\nbatch = 64\nepochs = 1\nlearning_rate = 0.1\nnetwork = [\"avg_pool 4\", \"flatten\", \
                  \"linear 32\", \"relu\", { layer = \"linear 10\", product = \"mine.cu@03_shared_tile\" }]\n";
    std::fs::write(folder.path().join("small.toml"), recipe).unwrap();
    let score_of = |product: &str, precision: &str| {
        let words = ["train", "small.toml", "--device", "cuda:0", "--product", product, "--precision", precision];
        score(&output(folder.path(), &words))
    };
    for (precision, allowed) in [("fp32", allowed(Precision::Fp32)), ("amp-fp16", allowed(Precision::AmpFp16))] {
        let (own, mine) =
            (score_of("own", precision), score_of("mine.cu@03_shared_tile:BM=16,BN=16,BK=16,THREADS=256", precision));
        assert!(
            (own.0 - mine.0).abs() <= allowed.0 && (own.1 - mine.1).abs() <= allowed.1,
            "{precision}: {own:?} {mine:?}"
        );
    }
    // Convolutions can also be computed as products of columns, in all layers or in one.
    let network = "network = [\"conv2d 8 3x3 padding 1\", \"relu\", \"max_pool 4\", \"flatten\", \"linear 10\"]\n";
    let one = network.replace(
        "\"conv2d 8 3x3 padding 1\"",
        "{ layer = \"conv2d 8 3x3 padding 1\", product = \"mine.cu@03_shared_tile\" }",
    );
    for (name, network) in [("all.toml", network), ("one.toml", &one)] {
        let recipe = format!("data = \"synthetic\"\nbatch = 64\nlearning_rate = 0.1\n{network}");
        std::fs::write(folder.path().join(name), recipe).unwrap();
    }
    let with_convolutions = |words: &str| {
        let words = format!("train {words} --epochs 1 --device cuda:0 --precision fp32");
        score(&output(folder.path(), &words.split(' ').collect::<Vec<_>>()))
    };
    let (ours, allowed) = (with_convolutions("all.toml"), allowed(Precision::Fp32));
    for words in ["all.toml --convolution im2col --product mine.cu@03_shared_tile", "one.toml"] {
        let mine = with_convolutions(words);
        assert!(
            (ours.0 - mine.0).abs() <= allowed.0 && (ours.1 - mine.1).abs() <= allowed.1,
            "{words}: {ours:?} {mine:?}"
        );
    }
    let wrong =
        warpbook(folder.path(), &["train", "small.toml", "--device", "cuda:0", "--product", "wrong.cu@03_shared_tile"]);
    expect(&wrong, 1, &["wrong.cu@03_shared_tile cannot compute a network's products", "elements are wrong"]);

    let words = "run training --network mnist --batch 32 --data synthetic --steps 3 --samples 2 --device cuda:0 --out t.json \
                 --product mine.cu@03_shared_tile --rungs own_products_fp32,own_products_fp16,tiled_products_fp32";
    output(folder.path(), &words.split(' ').collect::<Vec<_>>());
    let run = crate::common::place::read(&folder.path().join("t.json"));
    assert_eq!(run.counts(), (3, 0, 0), "{:?}", run.measurements);
    assert!(run.sources.contains_key("live/mine.cu") && run.command.contains("--product mine.cu@03_shared_tile"));
}
