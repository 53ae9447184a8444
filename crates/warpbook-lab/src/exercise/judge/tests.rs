//! Tests that wrong code does not pass, with small exercises that exist only for these tests.

use super::super::*;
use super::{spec, wrong_on_gpu};
use crate::Lab;
use std::path::Path;

const SIZES: &[Size] = &[[300, 1, 1], [1, 1, 1], [31, 1, 1], [2000, 1, 1]];

/// Number of elements of the timed case.
const LARGE: u32 = 1 << 24;

const SCALE: Definition = Definition {
    id: "E97",
    folder: "E97_scale",
    lesson: "99_tests",
    title: "Scale",
    task: Task::Kernel(KernelTask {
        entry: "scale",
        signature: "extern \"C\" __global__ void scale(const float* x, float* y, int n)",
        sizes: SIZES,
        case: |[n, ..], draw| {
            let x = draw.floats(n as usize);
            let expected: Vec<f32> = x.iter().map(|x| 3.0 * x).collect();
            // A GPU starts about one block per clock, so small blocks would limit a large case.
            let threads = if n == LARGE { 256 } else { 64 };
            Case::new(format!("n = {n}"))
                .over(n, threads)
                .input("x", x)
                .output("y", expected, Tolerance::Within { relative: 1e-6, scale: 1e-6 })
                .int("n", n)
        },
        targets: &[
            Target::at_most("bytes an element", 8.0, Costs::bytes_per_element),
            Target::at_most("sectors a request", 4.0, Costs::sectors_per_request)
                .because("strided", "Threads that are neighbours touch elements that are far apart."),
        ],
        time: Some(TimeTarget { size: [LARGE, 1, 1], work: 8 * LARGE as u64, ceiling: Ceiling::Copy, share: 0.3 }),
        mistakes: &[
            Mistake::new("doubled", "The factor is 2 and should be 3.", |wrong| {
                let x = wrong.input("x");
                wrong.looks_like(|i| 2.0 * x[i])
            }),
            Mistake::new("no_block_index", "Only the first block's elements were written.", |wrong| {
                wrong.written_only(|i| i < 64)
            }),
        ],
        faults: &[("out_of_bounds", "Compare `i` with `n`.")],
    }),
};

/// Sums of blocks of 64 elements. The result must have the same bits in every order.
const SUM: Definition = Definition {
    id: "E98",
    folder: "E98_sum",
    lesson: "99_tests",
    title: "Sum",
    task: Task::Kernel(KernelTask {
        entry: "sum",
        signature: "extern \"C\" __global__ void sum(const float* x, float* y, int n)",
        sizes: &[[5000, 1, 1]],
        case: |[n, ..], draw| {
            let x = draw.floats(n as usize);
            let sum: f64 = x.iter().map(|x| f64::from(*x)).sum();
            Case::new(format!("n = {n}"))
                .over(n, 64)
                .input("x", x)
                .update("y", vec![0.0f32], vec![sum as f32], Tolerance::Within { relative: 1e-3, scale: 10.0 })
                .int("n", n)
                .same_bits()
        },
        targets: &[],
        time: None,
        mistakes: &[],
        faults: &[],
    }),
};

const STUB: &str = "extern \"C\" __global__ void scale(const float* x, float* y, int n)\n{\n    // TODO\n}\n";
const RIGHT: &str = "int i = blockIdx.x * blockDim.x + threadIdx.x;\nif (i < n) y[i] = 3 * x[i];";

/// Creates a folder with the texts of both exercises.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, stub) in [("E97_scale", STUB.to_owned()), ("E98_sum", STUB.replace("scale", "sum"))] {
        let texts = folder.path().join("exercises").join(name);
        std::fs::create_dir_all(&texts).unwrap();
        std::fs::write(texts.join("task.md"), "# E97: Scale\n").unwrap();
        std::fs::write(texts.join("stub.cu"), stub).unwrap();
        std::fs::write(texts.join("hints.toml"), "hints = ['What?', '''Which\nline?''']\n").unwrap();
        std::fs::write(texts.join("solution.cu"), kernel(RIGHT)).unwrap();
    }
    folder
}

fn open(folder: &Path, definition: Definition) -> Exercise {
    let lab = Lab::open("cpu").unwrap().with_author("ada");
    let progress = Some(folder.join("progress"));
    Exercise::in_folders(&lab, definition, &folder.join("exercises"), progress).unwrap()
}

fn kernel(body: &str) -> String {
    STUB.replace("// TODO", body)
}

#[test]
fn a_right_kernel_is_on_target_and_its_progress_is_kept() {
    let folder = folder();
    let exercise = open(folder.path(), SCALE);
    assert!(exercise.solution().unwrap_err().to_string().contains("after 3 more tries with different code"));
    let untouched = exercise.try_source(&STUB.replace("TODO", "mine")).unwrap();
    assert_eq!(untouched.verdict, Verdict::Unchanged, "{}", untouched.line());
    let tried = exercise.try_source(&kernel(RIGHT)).unwrap();
    assert_eq!((tried.verdict, tried.cause_id()), (Verdict::RightAndOnTarget, None), "{}", tried.line());
    assert_eq!(tried.targets[0].count, Some(8.0));
    assert!(tried.thread_steps < 1_000_000, "{} instructions", tried.thread_steps);
    assert!(tried.emulated.lines.iter().any(|line| line.file == "live/E97.cu" && line.requests > 0));
    let progress = exercise.progress();
    assert_eq!((progress.count, progress.best(), progress.hints), (2, Some(Verdict::RightAndOnTarget), 0));
    assert_eq!(progress.tries[1].counts.len(), 2);
    assert_eq!(exercise.solution().unwrap().source, kernel(RIGHT));
    assert!(exercise.progress().solution_shown);
}

#[test]
fn an_endless_loop_ends_with_the_instructions_that_a_verdict_may_take() {
    let folder = folder();
    let body = "volatile float v = x[0];\nwhile (v != -1e9f) v = v + 0;\ny[threadIdx.x] = v;";
    let tried = open(folder.path(), SCALE).try_source(&kernel(body)).unwrap();
    assert_eq!(tried.cause_id(), Some("endless"), "{}", tried.line());
    assert!(tried.sentence.contains("has not ended after 10000000 instructions of its threads."), "{}", tried.line());
    // With one active lane, the instructions of warps run out first.
    let tried =
        open(folder.path(), SCALE).try_source(&kernel(&body.replace("while", "if (threadIdx.x == 0) while"))).unwrap();
    assert!(tried.sentence.contains("has not ended after 1000000 instructions of its warps."), "{}", tried.line());
}

#[test]
fn wrong_code_cannot_pass_and_gets_its_cause() {
    let folder = folder();
    let exercise = open(folder.path(), SCALE);
    let check = |body: &str, verdict: Verdict, cause: &str, part: &str| {
        let tried = exercise.try_source(&kernel(body)).unwrap();
        let text = format!("{body}\n{}\n{:?}", tried.line(), tried.cause);
        assert_eq!((tried.verdict, tried.cause_id()), (verdict, Some(cause)), "{text}");
        assert!(tried.sentence.contains(part), "{text}");
    };
    let no = |body: &str, cause: &str, part: &str| check(body, Verdict::NotYet, cause, part);
    const I: &str = "int i = blockIdx.x * blockDim.x + threadIdx.x;\n";
    let each = |body: &str| format!("{I}{body}");
    no(&each("if (i < n) y[i] = x[i];"), "copy", "`y[0]` is");
    no(&each("if (i < n) y[i] = 0;"), "zeros", "is 0 and should be");
    no(&each("if (i < n) y[i] = 0 * (x[i] / 0);"), "nan", "is NaN");
    no(&each("if (i < n && i == -1) y[i] = 0;"), "nothing_written", "no thread wrote it");
    no(&each("if (i < n && i % 2 == 0) y[i] = 3 * x[i];"), "some_not_written", "`y[1]` is NaN");
    no(&each("if (i < n) y[i] = 2 * x[i];"), "doubled", "block (0, 0, 0), thread (0, 0, 0) wrote it");
    no("int i = threadIdx.x; if (i < n && blockIdx.x == 0) y[i] = 3 * x[i];", "no_block_index", "`y[64]` is NaN");
    no(&each("if (n == 300 && i < n) y[i] = 3 * x[i];"), "fixed_size", "At n = 1,");
    no(&each("y[i] = 3 * x[i];"), "out_of_bounds", "At n = 300");
    // The value read beyond the end of the array may happen to be harmless.
    no(&each("float v = x[i]; if (i < n) y[i] = 3 * v; else if (v == 7) y[0] = 7;"), "out_of_bounds", "reads 4 bytes");
    // In one of the orders, the right value is written last.
    no(&each("if (i < n) { float v = 3 * x[i]; y[n - 1 - i] = 7; y[i] = v; }"), "race", "At n = 300");
    no(&each("while (i < n) y[i] = 3 * x[i];"), "endless", "At n = 300");
    no(&each("if (i < n) y[i] += 3 * x[i];"), "unwritten", "At n = 300");
    no(&each("if (threadIdx.x < 32) __syncthreads();\nif (i < n) y[i] = 3 * x[i];"), "barrier", "At n = 300");
    no(&each("if (i < n) { y[i] = 3 * x[i]; const_cast<float*>(x)[i] = 0; }"), "input_changed", "`x`");
    no("y[0] = b;", "does_not_compile", "Line 3");
    no(&each(&format!("{}\nif (i < n) y[i] = 3 * x[i];", "__trap();")), "trap", "At n = 300");
    check(
        &each("if (i < n) { int j = (i * 7) % n; y[i] = 3 * x[i] + 0 * x[j]; }"),
        Verdict::Right,
        "off target",
        "bytes an element 12, target at most 8",
    );
}

#[test]
fn a_picture_knows_how_often_each_element_of_an_input_was_read() {
    let folder = folder();
    let exercise = open(folder.path(), SCALE);
    let runs = |body: &str| {
        let picture = exercise.try_source(&kernel(body)).unwrap().picture.unwrap();
        let [reads] = &picture.reads[..] else { panic!("{:?}", picture.reads) };
        assert_eq!((&*picture.case, &*reads.array), ("n = 300", "x"));
        reads.runs()
    };
    assert_eq!(runs(RIGHT), [(0..300, 1)]);
    let one_block = "int i = threadIdx.x; if (i < n && blockIdx.x == 0) y[i] = 3 * x[i];";
    assert_eq!(runs(one_block), [(0..64, 1), (64..300, 0)]);
    let neighbours = "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i + 1 < n) y[i] = x[i] + x[i + 1];";
    assert_eq!(runs(neighbours), [(0..1, 1), (1..299, 2), (299..300, 1)]);
}

#[test]
fn what_is_kept_from_launch_to_launch_does_not_help() {
    let folder = folder();
    let exercise = open(folder.path(), SCALE);
    let check = |source: &str| {
        let tried = exercise.try_source(source).unwrap();
        assert_eq!((tried.verdict, tried.cause_id()), (Verdict::NotYet, Some("later_launch")), "{}", tried.line());
    };
    // With a flag in global memory, the kernel is right only in its first launch.
    check(&format!(
        "__device__ int blocks;\n{}",
        kernel(&format!(
            "__shared__ int before; if (threadIdx.x == 0) before = atomicAdd(&blocks, 1); __syncthreads(); if (before < gridDim.x) {{ {RIGHT} }}"
        ))
    ));
    // The kernel reuses results of its first launch. The second launch has other inputs, and the third must not reuse
    // these results either.
    check(&format!(
        "__device__ float kept[4000]; __device__ int blocks;\n{}",
        kernel(
            "int i = blockIdx.x * blockDim.x + threadIdx.x; __shared__ int before;\n\
             if (threadIdx.x == 0) before = atomicAdd(&blocks, 1);\n__syncthreads();\n\
             if (i < n) { if (before < gridDim.x) kept[i] = 3 * x[i]; y[i] = kept[i]; }"
        )
    ));
}

#[test]
fn sums_whose_order_is_not_fixed_are_told() {
    let folder = folder();
    let exercise = open(folder.path(), SUM);
    let body = |body: &str| kernel(body).replace("scale", "sum");
    let atomic = exercise
        .try_source(&body("int i = blockIdx.x * blockDim.x + threadIdx.x;\nif (i < n) atomicAdd(y, x[i]);"))
        .unwrap();
    assert_eq!((atomic.verdict, atomic.cause_id()), (Verdict::NotYet, Some("order_not_fixed")), "{}", atomic.line());
    let one = exercise
        .try_source(&body(
            "if (blockIdx.x + threadIdx.x == 0) { float s = 0; for (int i = 0; i < n; ++i) s += x[i]; y[0] = s; }",
        ))
        .unwrap();
    assert_eq!((one.verdict, one.cause_id()), (Verdict::Right, None), "{}", one.line());
}

#[test]
fn other_names_and_parameters_are_told() {
    let folder = folder();
    let exercise = open(folder.path(), SCALE);
    let check = |source: &str, cause: &str, part: &str| {
        let tried = exercise.try_source(source).unwrap();
        let text = format!("{}\n{:?}", tried.line(), tried.cause);
        assert_eq!((tried.verdict, tried.cause_id()), (Verdict::NotYet, Some(cause)), "{text}");
        assert!(text.contains(part), "{text}");
    };
    check(&kernel(RIGHT).replace("void scale", "void mine"), "no_such_kernel", "it has mine");
    check(&kernel(RIGHT).replace("extern \"C\" ", ""), "no_such_kernel", "extern");
    check(&kernel("y[0] = n;").replace(", int n", ", int n, int m"), "other_parameters", "keep its signature");
    check("", "no_such_kernel", "it has none");
}

#[test]
fn the_same_seed_gives_the_same_verdict_and_another_other_inputs() {
    let folder = folder();
    let exercise = open(folder.path(), SCALE);
    let source = kernel("int i = blockIdx.x * blockDim.x + threadIdx.x;\nif (i < n) y[i] = 5 * x[i];");
    let sentence = |seed| exercise.try_seeded(&source, seed).unwrap().sentence;
    assert_eq!(sentence(7), sentence(7));
    assert_ne!(sentence(7), sentence(8));
}

#[test]
fn a_learner_s_file_is_never_overwritten() {
    let folder = folder();
    let exercise = open(folder.path(), SCALE);
    assert!(exercise.try_file().unwrap_err().to_string().contains("does not exist yet"));
    let path = exercise.open().unwrap();
    assert_eq!(path, folder.path().join("work").join("E97.cu"));
    assert_eq!(exercise.try_file().unwrap().verdict, Verdict::Unchanged);
    std::fs::write(&path, kernel(RIGHT)).unwrap();
    exercise.open().unwrap();
    assert_eq!(exercise.try_file().unwrap().verdict, Verdict::RightAndOnTarget);
    let aside = exercise.reset().unwrap().unwrap();
    assert_eq!(std::fs::read_to_string(&aside).unwrap(), kernel(RIGHT));
    assert_eq!(exercise.try_file().unwrap().verdict, Verdict::Unchanged);
    std::fs::write(&path, [0xff, 0xfe]).unwrap();
    assert!(exercise.try_file().unwrap_err().to_string().contains("not UTF-8"));
}

#[test]
fn hints_are_counted_and_the_solution_opens_after_three_different_tries() {
    let folder = folder();
    let exercise = open(folder.path(), SCALE);
    assert_eq!(exercise.hint(2).unwrap().text, "Which\nline?");
    assert_eq!(exercise.hint(1).unwrap().of, 2);
    for bad in [0, 3] {
        assert!(exercise.hint(bad).unwrap_err().to_string().contains("its hints are 1 to 2"));
    }
    assert_eq!(exercise.progress().hints, 2);
    for (factor, left) in [(4, "2 more"), (4, "2 more"), (5, "one more")] {
        exercise.try_source(&kernel(&RIGHT.replace('3', &factor.to_string()))).unwrap();
        assert!(exercise.solution_if(false).unwrap_err().to_string().contains(left));
    }
    assert!(exercise.solution_if(true).is_ok(), "an instructor sees it at any time");
    exercise.try_source(&kernel(&RIGHT.replace('3', "6"))).unwrap();
    assert!(exercise.solution_if(false).is_ok());
    std::fs::remove_file(folder.path().join("exercises/E97_scale/solution.cu")).unwrap();
    assert!(exercise.solution_if(true).unwrap_err().to_string().contains("hand-out"));
}

#[test]
fn bad_ids_kinds_and_folders_have_a_remedy() {
    let folder = folder();
    let all = [SCALE, SUM];
    for id in ["E97", "e97", " 97 ", "E97_scale"] {
        assert_eq!(find_exercise(&all, id).unwrap().id, "E97", "{id}");
    }
    let error = find_exercise(&all, "E7").unwrap_err().to_string();
    assert!(error.contains("no exercise `E7`") && error.contains("E97 to E98"), "{error}");
    assert!(find_exercise(&all, "").is_err() && find_exercise(&[], "E01").is_err());
    let exercise = open(folder.path(), SCALE);
    let error = exercise.answer(&["b"]).unwrap_err().to_string();
    assert!(error.contains("asks for a kernel") && error.contains("try_source"), "{error}");
    assert!(exercise.try_with(|lists| lists.to_vec()).is_err());
    let lab = Lab::open("cpu").unwrap();
    let error = Exercise::in_folders(&lab, SCALE, folder.path(), None).unwrap_err().to_string();
    assert!(error.contains("E97 has no folder"), "{error}");
    std::fs::remove_file(folder.path().join("exercises/E97_scale/task.md")).unwrap();
    let error = Exercise::in_folders(&lab, SCALE, &folder.path().join("exercises"), None).unwrap_err().to_string();
    assert!(error.contains("task.md"), "{error}");
}

#[test]
fn a_progress_that_cannot_be_written_costs_no_verdict() {
    let folder = folder();
    // A file blocks the path where the folder of progress files should be created.
    std::fs::write(folder.path().join("progress"), "").unwrap();
    let exercise = open(folder.path(), SCALE);
    let tried = exercise.try_source(&kernel(RIGHT)).unwrap();
    assert_eq!(tried.verdict, Verdict::RightAndOnTarget);
    assert!(tried.remarks[0].contains("not in your progress"), "{:?}", tried.remarks);
}

/// Runs the judge's code for GPUs on the emulated device, which cannot measure times.
#[test]
fn on_a_device_guards_and_values_are_compared_again() {
    let device = warpbook_device::CudaDevice::emulated();
    let Task::Kernel(task) = SCALE.task else { panic!("it asks for a kernel") };
    let wrong = |body: &str| {
        let (spec, tile) = spec(("E97.cu", task.entry), &kernel(body));
        wrong_on_gpu(&device, &device.kernel(&spec, &tile).unwrap(), &task, 7).unwrap()
    };
    const I: &str = "int i = blockIdx.x * blockDim.x + threadIdx.x;\n";
    assert_eq!(wrong(RIGHT), None);
    let check = |body: &str, part: &str| {
        let found = wrong(&format!("{I}{body}")).unwrap();
        assert!(found.contains(part), "{found}");
    };
    check("if (i < n) y[i] = 2 * x[i];", "`y[0]` is");
    check("if (i <= n) y[i] = 3 * (i < n ? x[i] : 1);", "outside of `y`");
    check("if (i < n) { y[i] = 3 * x[i]; const_cast<float*>(x)[i] = 0; }", "`x` has other elements");
}

#[test]
fn a_right_kernel_is_timed_on_a_gpu_and_one_that_fails_at_the_timed_size_is_wrong() {
    let test = "a_right_kernel_is_timed_on_a_gpu_and_one_that_fails_at_the_timed_size_is_wrong";
    if warpbook_device::testing::gpu(test).is_none() {
        return;
    }
    let folder = folder();
    let lab = Lab::open("cuda:0").unwrap();
    let exercise = Exercise::in_folders(&lab, SCALE, &folder.path().join("exercises"), None).unwrap();
    let tried = exercise.try_source(&kernel(RIGHT)).unwrap();
    assert_eq!((tried.verdict, &tried.remarks), (Verdict::RightAndOnTarget, &Vec::new()), "{}", tried.line());
    let time = tried.time.unwrap();
    println!("{}: {:.1} \u{b5}s, {:.3} of a copy", time.gpu, time.us, time.share);
    assert!(time.is_on_target() && time.share < 1.3, "{time:?}");
    let wrong = exercise.try_source(&kernel(&RIGHT.replace("i < n", "i < n && n < 1000000"))).unwrap();
    assert_eq!((wrong.verdict, wrong.cause_id()), (Verdict::NotYet, Some("wrong_on_gpu")), "{}", wrong.line());
    // This kernel counts its launches at the timed size. It is right until it is compared, and writes nothing
    // afterwards.
    let flag = "__device__ unsigned launches;\n";
    let lazy = "__shared__ unsigned before; if (threadIdx.x == 0) before = gridDim.x > 10000 ? atomicAdd(&launches, 1u) : 0; __syncthreads(); \
                if (before < 3u * gridDim.x) { RIGHT }";
    let lazy = exercise.try_source(&format!("{flag}{}", kernel(&lazy.replace("RIGHT", RIGHT)))).unwrap();
    assert_eq!((lazy.verdict, lazy.cause_id()), (Verdict::NotYet, Some("wrong_on_gpu")), "{}", lazy.line());
}
