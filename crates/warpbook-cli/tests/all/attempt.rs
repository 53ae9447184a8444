//! Tests of `warpbook attempt` with right and wrong kernels of users. Kernels that are timed need a GPU; the other
//! kernels run in the emulator.

use crate::common::program;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use warpbook::device::testing;
use warpbook::kernels::matmul;
use warpbook_record::{Outcome, Run};

/// Returns the source of a rung.
fn source(rung: &str) -> String {
    let found = matmul::rungs().into_iter().find(|r| r.id == rung).unwrap();
    found.kernels()[0].source.to_string()
}

/// Returns a rung's source with one more line, so that the attempt differs from the rung.
fn tried(rung: &str) -> String {
    format!("{}\nconstexpr int TRIED = 1;\n", source(rung))
}

/// Returns a rung's source with one passage replaced; the passage must exist.
fn changed(rung: &str, passage: &str, by: &str) -> String {
    let text = source(rung);
    assert_eq!(text.matches(passage).count(), 1, "{passage}");
    text.replace(passage, by)
}

struct Place {
    program: PathBuf,
    folder: TempDir,
}

struct Done {
    code: Option<i32>,
    out: String,
    err: String,
    seconds: f64,
}

impl Place {
    fn new() -> Option<Self> {
        Some(Self { program: program()?, folder: tempfile::tempdir().unwrap() })
    }

    fn attempt(&self, text: &str, words: &[&str], settings: &[(&str, &str)]) -> Done {
        let file = self.folder.path().join("own.cu");
        fs::write(&file, text).unwrap();
        let begun = Instant::now();
        let mut command = Command::new(&self.program);
        command.arg("attempt").arg(&file).args(words).args(["--samples", "3", "--budget", "0.2"]);
        command.envs(settings.iter().copied()).env("TMPDIR", self.folder.path()).stdin(Stdio::null());
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let Output { status, stdout, stderr } = ended_within(child, Duration::from_secs(90));
        let text = |b: Vec<u8>| String::from_utf8(b).unwrap();
        Done { code: status.code(), out: text(stdout), err: text(stderr), seconds: begun.elapsed().as_secs_f64() }
    }
}

/// Returns a process's output; the process is killed if it hangs.
fn ended_within(mut child: Child, limit: Duration) -> Output {
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if begun.elapsed() > limit {
            child.kill().unwrap();
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.wait_with_output().unwrap()
}

impl Done {
    fn expect(&self, code: i32, parts: &[&str]) {
        let all = format!("code {:?} after {:.1} s\n{}\n{}", self.code, self.seconds, self.out, self.err);
        assert_eq!(self.code, Some(code), "{all}");
        for part in parts {
            assert!(self.out.contains(part), "no `{part}` in: {all}");
        }
        assert!(!self.err.contains("panicked") && !self.err.contains("bug in Warpbook"), "{all}");
    }
}

#[test]
fn a_rung_s_source_is_printed_to_begin_with() {
    let Some(place) = Place::new() else { return };
    let output = Command::new(&place.program).args(["attempt", "--like", "03_shared_tile"]).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap().trim_end(), source("03_shared_tile").trim_end());
    let output = Command::new(&place.program).args(["attempt", "--like", "03_shared"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("03_shared_tile"));
}

#[test]
fn the_compiler_is_heard_without_a_gpu() {
    let Some(place) = Place::new() else { return };
    let cpu = ["--like", "02_coalesced", "--device", "cpu"];
    let broken = changed("02_coalesced", "float sum = 0.0f;", "float sum = zero;");
    let line = broken.lines().position(|l| l.contains("= zero")).unwrap() + 1;
    let place_of = format!("live/own.cu, line {line}: identifier \"zero\"");
    place.attempt(&broken, &cpu, &[]).expect(1, &[&place_of, "float sum = zero;\n", "^"]);
    let record = place.folder.path().join("own.json");
    let out = ["--out", record.to_str().unwrap()];
    let done = place.attempt(&source("02_coalesced"), &[&cpu[..], &out].concat(), &[]);
    done.expect(0, &["registers a thread", "Unchanged: nothing was tried.", "Record: "]);
    let run = Run::from_json(&fs::read(&record).unwrap()).unwrap();
    assert_eq!(run.sources["live/own.cu"], source("02_coalesced"));
    assert_eq!((run.rungs[0].id.as_ref(), run.counts()), ("02_coalesced+own", (0, 1, 0)));
}

#[test]
fn the_emulator_says_what_is_right_and_gives_no_time() {
    let Some(place) = Place::new() else { return };
    let record = place.folder.path().join("own.json");
    let words = ["--like", "02_coalesced", "--emulate"];
    let out = ["--out", record.to_str().unwrap()];
    let done = place.attempt(&tried("02_coalesced"), &[&words[..], &out].concat(), &[]);
    done.expect(0, &["Right: at ", "It ran in the emulator, which has no times"]);
    let run = Run::from_json(&fs::read(&record).unwrap()).unwrap();
    assert!(run.measurements[0].is_right_in_emulator() && run.measurements[0].samples_us.is_empty());
    let wrong = changed("02_coalesced", "b[index_b(kk, column, ldb)]", "b[index_b(column, kk, ldb)]");
    place.attempt(&wrong, &words, &[]).expect(1, &["The emulator stopped the kernel", "live/own.cu, line", "element"]);
    let wrong = changed("02_coalesced", "float sum = 0.0f;", "float sum = 1.0f;");
    place.attempt(&wrong, &words, &[]).expect(1, &["elements are wrong", "It ran in the emulator, not on a GPU."]);
    let by_name = ["--like", "02_coalesced", "--device", "emulator"];
    place.attempt(&tried("02_coalesced"), &by_name, &[]).expect(0, &["It ran in the emulator"]);
    let by_variable = [("WARPBOOK_DEVICE", "emulator")];
    place.attempt(&tried("02_coalesced"), &words[..2], &by_variable).expect(0, &["It ran in the emulator"]);
}

/// Rungs of other experiments for a learner's kernel to replace.
const OF_OTHERS: [&str; 3] = ["regression/02_fused", "coalescing/01_strided", "reduction/03_blocks"];

#[test]
fn rungs_of_other_experiments_are_known() {
    let Some(place) = Place::new() else { return };
    for like in OF_OTHERS {
        let output = Command::new(&place.program).args(["attempt", "--like", like]).output().unwrap();
        let source = String::from_utf8(output.stdout).unwrap();
        assert!(source.contains("__global__"), "{like}");
        let twin = format!("{source}\nconstexpr int TRIED = 1;\n");
        place.attempt(&twin, &["--like", like, "--emulate"], &[]).expect(0, &["Right: at "]);
        if testing::gpu("rungs_of_other_experiments_are_known").is_some() {
            place.attempt(&twin, &["--like", like], &[]).expect(0, &["Right: at ", "as fast as"]);
        }
    }
    let refused = |words: &[&str], why: &str| {
        let output = Command::new(&place.program).arg("attempt").args(words).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && text.contains(why), "{words:?}: {text}");
    };
    refused(&["--like", "regression/02_fuse"], "It has 01_unfused, 02_fused");
    refused(&["--like", "convolution/01_direct"], "cannot be tried by itself");
    refused(&["--like", "nothing/01_direct"], "nothing");
    refused(&["k.cu", "--like", "regression/02_fused", "--shape", "64"], "--shape is for the matrix product");
}

#[test]
fn a_right_kernel_is_timed_with_its_rung() {
    let Some(place) = Place::new() else { return };
    if testing::gpu("a_right_kernel_is_timed_with_its_rung").is_none() {
        return;
    }
    let record = place.folder.path().join("own.json");
    let words = ["--like", "02_coalesced", "--shape", "512", "--against", "01_naive,02_coalesced", "--out"];
    let done = place.attempt(&tried("02_coalesced"), &[&words[..], &[record.to_str().unwrap()]].concat(), &[]);
    done.expect(0, &["Right: at ", "as fast as Coalesced", "blocks at once on a multiprocessor"]);
    let run = Run::from_json(&fs::read(&record).unwrap()).unwrap();
    assert_eq!(run.counts(), (3, 0, 0));
    assert!(run.sources.contains_key("live/own.cu"));
    // The attempt is a tensor-core rung with a pipeline and a different tile.
    let done = place.attempt(&tried("14_overlapped_store"), &["--like", "14_overlapped_store", "--shape", "512"], &[]);
    assert!(done.out.contains("Right:") || done.out.contains("needs a GPU of architecture"), "{}", done.out);
    let words = ["--like", "05_register_2d", "--shape", "300x200x100", "--size", "BM=64", "--size", "THREADS=128"];
    place.attempt(&tried("05_register_2d"), &words, &[]).expect(0, &["Right:"]);
}

#[test]
fn mistakes_are_told_with_their_place_and_likeliest_reason() {
    let Some(place) = Place::new() else { return };
    if testing::gpu("mistakes_are_told_with_their_place_and_likeliest_reason").is_none() {
        return;
    }
    let check = |rung: &str, passage: &str, by: &str, expect: &[&str]| {
        let done = place.attempt(&changed(rung, passage, by), &["--like", rung, "--shape", "256"], &[]);
        done.expect(1, expect);
    };
    let two = "02_coalesced";
    check(
        two,
        "epilogue.store(c, row, column, ldc, sum)",
        "epilogue.store(c, column, row, ldc, sum)",
        &["C is transposed"],
    );
    check(two, "b[index_b(kk, column, ldb)]", "b[index_b(column, kk, ldb)]", &["B is read transposed"]);
    check(two, "kk < k;", "kk < k - 1;", &["only the first 63 of 64 terms", "C[0][0]"]);
    check(
        two,
        "if (row >= m || column >= n) return;",
        "if (row >= m / 2 || column >= n) return;",
        &["rows from 32 on"],
    );
    // Without its guard, the kernel reads past A and B, into NaNs, and writes into the next row.
    check(two, "if (row >= m || column >= n) return;", "", &["67 x 77 x 37", "In a product of"]);
    check("03_shared_tile", "        __syncthreads();\n        MARK(multiply);", "        MARK(multiply);", &["wrong"]);
}

#[test]
fn a_kernel_that_does_not_end_is_stopped() {
    let Some(place) = Place::new() else { return };
    let Some(device) = testing::gpu("a_kernel_that_does_not_end_is_stopped") else { return };
    let endless = changed(
        "02_coalesced",
        "for (unsigned kk = 0; kk < k; ++kk) {",
        "for (unsigned kk = 0; kk < k || sum != 1e30f; kk = (kk + 1) % k) {",
    );
    let words = ["--like", "02_coalesced", "--shape", "256", "--limit", "1"];
    let done = place.attempt(&endless, &words, &[]);
    done.expect(1, &["still running after 1 s", "nothing else was lost"]);
    assert!(done.seconds < 60.0, "{}", done.seconds);
    // The GPU is still usable.
    let buffer = device.buffer_from(&[1.0f32, 2.0]).unwrap();
    assert_eq!(buffer.to_vec().unwrap(), [1.0, 2.0]);
    place.attempt(&tried("02_coalesced"), &words, &[]).expect(0, &["Right:"]);
    // Without a separate process, the message says how to continue.
    let done = place.attempt(&endless, &words, &[("WARPBOOK_WORKER", "")]);
    done.expect(1, &["still running after 1 s", "restart the kernel"]);
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(buffer.to_vec().unwrap(), [1.0, 2.0]);
}

#[test]
fn a_kernel_that_crashes_takes_nothing_with_it() {
    let Some(place) = Place::new() else { return };
    if testing::gpu("a_kernel_that_crashes_takes_nothing_with_it").is_none() {
        return;
    }
    let stray = changed(
        "02_coalesced",
        "epilogue.store(c, row, column, ldc, sum)",
        "epilogue.store((Out*)16, row, column, ldc, sum)",
    );
    let record = place.folder.path().join("own.json");
    let words =
        ["--like", "02_coalesced", "--shape", "256", "--against", "01_naive", "--out", record.to_str().unwrap()];
    place.attempt(&stray, &words, &[]).expect(1, &["CUDA_ERROR", "in a separate process"]);
    let run = Run::from_json(&fs::read(&record).unwrap()).unwrap();
    let outcome = |id: &str| &run.measurements.iter().find(|m| m.rung == id).unwrap().outcome;
    // The rungs before the attempt were still measured.
    assert_eq!(outcome("01_naive"), &Outcome::Measured);
    assert!(matches!(outcome("02_coalesced+own"), Outcome::Failed { .. }));
}
