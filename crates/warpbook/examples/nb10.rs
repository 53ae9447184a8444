#![allow(unused, warnings)]
use warpbook::prelude::*;
fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    eprintln!("--- cell 1");
use warpbook::prelude::*;

// A lab is a device and a way of timing. This one times quickly, for a first look.
let first_look: Lab = Lab::new()?.with_bench(Bench::quick()).with_listener(notebook_progress());
    println!("[[1]] {}", Show::text(&{ 
first_look }));
    eprintln!("--- cell 3");
let few = ["cpu_1_thread", "cpu_all_threads", "01_unfused", "04_fused_graph", "06_on_chip"];
let teaser: Run = first_look.run(&Regression::new().points([1_000_000]).rungs(few).parts(false))?;
    println!("[[3]] {}", Show::text(&{ 
ladder(&teaser, teaser.main_problem().unwrap(), Quantity::Time) }));
    eprintln!("--- cell 5");
use warpbook::record::{DeviceKind, Peaks};

let lab: Lab = Lab::new()?;
let on_gpu: bool = lab.device().info().kind == DeviceKind::Cuda;
// On a processor most of the lines would only say "skipped".
let lab: Lab = if on_gpu { lab.with_listener(notebook_progress()) } else { lab };

// The record that this repository publishes, measured on an H200.
const PUBLISHED: &str = "../data/results/regression-h200.json";
let published: Option<Run> = read_record(PUBLISHED).ok();

let name: String = lab.device().info().name.clone();
    println!("[[5]] {}", Show::text(&{ 
match (&published, on_gpu) {
    (_, true) => format!("Everything below is measured here, on {name}."),
    (Some(record), false) => format!(
        "There is no GPU in this lab: it runs on the processor ({name}), measures the CPU rungs and skips those of the GPU. \
         So that you still see them, the figures and charts of GPU rungs below come from the published record {PUBLISHED}, \
         measured on {}, and each says so.",
        record.environment.device.name
    ),
    (None, false) => format!(
        "There is no GPU in this lab: it runs on the processor ({name}), measures the CPU rungs and skips those of the GPU. \
         No published record is at {PUBLISHED} to stand in for them, so their cells say that nothing was measured. \
         The outputs committed with this notebook come from an H200."
    ),
} }));
    eprintln!("--- cell 7");
use warpbook::DataSet;

/// 200 epochs of gradient descent, as simply as can be.
fn descend(x: &[f32], y: &[f32]) -> (f32, f32) {
    let (mut w, mut b) = (0.83_f32, 0.7645_f32);
    for _epoch in 0..200 {
        let (mut sum_ex, mut sum_e) = (0.0_f32, 0.0_f32);
        for (x, y) in x.iter().zip(y) {
            let e = w * x + b - y;
            sum_ex += e * x;
            sum_e += e;
        }
        let step = 0.01 * 2.0 / x.len() as f32;
        w -= step * sum_ex;
        b -= step * sum_e;
    }
    (w, b)
}

// 10,000 points with one feature, x; each feature is a column of its own.
let small: DataSet = DataSet::draw(10_000, 1, 0.1, 1);
let (w, b): (f32, f32) = descend(small.training().0[0], small.training().1);
let points: Vec<String> = small.x[0].iter().zip(&small.y).take(4).map(|(x, y)| format!("({x:.3}, {y:.3})")).collect();
    println!("[[7]] {}", Show::text(&{ 
Panel::column([
    &format!("The first points: {} ...", points.join(", ")),
    &format!("After 200 epochs: w = {w:.4}, b = {b:.4}"),
]) }));
    eprintln!("--- cell 9");
let here: Peaks = lab.peaks()?;
    println!("[[9]] {}", Show::text(&{ 
match &published {
    Some(record) if !on_gpu => Panel::column([
        &format!("The ceilings of {name}:"),
        &here,
        &format!("The ceilings of {}:", record.environment.device.name),
        &record.peaks,
    ]),
    _ => Panel::column([&format!("The ceilings of {name}:"), &here]),
} }));
    eprintln!("--- cell 11");
// Each turns counts and measurements into a sentence or a table, so that no figure has to be typed.
use warpbook::lesson::*;
    eprintln!("--- cell 12");
// The lesson's work: 5 M points, 200 epochs.
let problem: Problem = Regression::new().problems().remove(0);
    println!("[[12]] {}", Show::text(&{ 

match &published {
    Some(record) if !on_gpu => balance(&record.peaks, &record.environment.device.name, &problem),
    _ => balance(&here, &name, &problem),
} }));
    eprintln!("--- cell 14");
let processor: Lab = Lab::open("cpu")?.with_listener(notebook_progress());
let cpu: Run = processor.run(&Regression::new().rungs(["cpu_1_thread", "cpu_all_threads"]))?;
    println!("[[14]] {}", Show::text(&{ 
Panel::column([
    &prediction(&cpu, &problem, 2, 2),
    &outcome(&cpu, "cpu_all_threads", 2, 2),
    &against(&cpu, "cpu_all_threads", "cpu_1_thread"),
    &ladder(&cpu, &problem, Quantity::Time),
]) }));
    eprintln!("--- cell 16");
let unfused: KernelView = KernelView::file("regression/01_unfused.cu")?;
    println!("[[16]] {}", Show::text(&{ 
unfused.function("for_each_point")? }));
    eprintln!("--- cell 18");

    println!("[[18]] {}", Show::text(&{ Panel::column([&unfused.function("forward")?, &unfused.function("loss")?, &unfused.headers()]) }));
    eprintln!("--- cell 20");

    println!("[[20]] {}", Show::text(&{ Panel::column([
    &HostCode::function("regression/cuda/launches.rs", "queue_epochs")?,
    &HostCode::function("regression/cuda/launch.rs", "unfused")?,
]) }));
    eprintln!("--- cell 22");
// Your guess: rung 01 is so many times as fast as all CPU threads. Change it before you run on.
let guess_unfused: f64 = 2.0;
    eprintln!("--- cell 24");
// What we learn about the GPU, rung by rung, beginning with the processor beside it.
// Without a GPU, the story is the published one.
let mut story: Run = match (&published, on_gpu) {
    (Some(record), false) => record.clone(),
    (_, true) => lab.run(&Regression::new().rungs(["cpu_1_thread", "cpu_all_threads"]))?,
    (None, false) => lab.run(&Regression::new())?,
};
// The lesson's size, in the words of that record.
let main: Problem = story.main_problem().unwrap_or(&problem).clone();
    println!("[[24]] {}", Show::text(&{ 
prediction(&story, &main, 8, 4) }));
    eprintln!("--- cell 25");
story = learn(&lab, &story, &["01_unfused"])?;
    println!("[[25]] {}", Show::text(&{ 
Panel::column([
    &outcome(&story, "01_unfused", 8, 4),
    &your_guess(&story, &main, "01_unfused", "cpu_all_threads", guess_unfused),
    &guessed(&story, &main, ("01_unfused", "cpu_all_threads"), guess_unfused, &[]),
    &operations(&only(&story, &["01_unfused"]), &main),
]) }));
    eprintln!("--- cell 27");

    println!("[[27]] {}", Show::text(&{ Panel::column([&between_kernels(&story, "01_unfused"), &kernels_against_bytes(&story, &main)]) }));
    eprintln!("--- cell 29");
let mine: LiveKernel = variant("01_unfused")?.named("pieces").replacing(
    "for (unsigned long long i = first; i < groups; i += stride) body(i);",
    // Your edit:
    "for (unsigned long long i = first; i < groups; i += stride) body(i);",
)?;
    println!("[[29]] {}", Show::text(&{ 
attempt(&lab, &mine)? }));
    eprintln!("--- cell 31");
let fused: KernelView = KernelView::file("regression/02_fused.cu")?;
    println!("[[31]] {}", Show::text(&{ 
Panel::column([&fused.function("Accumulator")?, &fused.function("pass")?, &fused.headers()]) }));
    eprintln!("--- cell 33");
let reduce: KernelView = KernelView::file("reduce.cuh")?;
    println!("[[33]] {}", Show::text(&{ 
Panel::column([&reduce.function("warp_sum")?, &reduce.function("block_sum")?]) }));
    eprintln!("--- cell 35");

    println!("[[35]] {}", Show::text(&{ Panel::column([
    &HostCode::function("regression/cuda/launch.rs", "pass")?,
    &HostCode::function("regression/cuda/launch.rs", "update")?,
]) }));
    eprintln!("--- cell 37");
// Your guess: rung 02 is so many times as fast as rung 01.
let guess_fused: f64 = 3.0;
    eprintln!("--- cell 38");

    println!("[[38]] {}", Show::text(&{ prediction(&story, &main, 2, 2) }));
    eprintln!("--- cell 39");
story = learn(&lab, &story, &["02_fused"])?;
    println!("[[39]] {}", Show::text(&{ 
Panel::column([
    &outcome(&story, "02_fused", 2, 2),
    &against(&story, "02_fused", "01_unfused"),
    &your_guess(&story, &main, "02_fused", "01_unfused", guess_fused),
    &guessed(&story, &main, ("02_fused", "01_unfused"), guess_fused, &["cpu_all_threads"]),
]) }));
    eprintln!("--- cell 41");
let probes: Run = only(&story, &["02_fused"]);
    println!("[[41]] {}", Show::text(&{ 
Panel::column([&price_of_the_data(&probes), &ablation(&probes, &main)]) }));
    eprintln!("--- cell 43");

    println!("[[43]] {}", Show::text(&{ story.measurement("02_fused", &main).cloned() }));
    eprintln!("--- cell 45");
let mine: LiveKernel = variant("02_fused")?.named("one_lane").replacing(
    "add(0, w, b, x.x, y.x), add(1, w, b, x.y, y.y), add(2, w, b, x.z, y.z), add(3, w, b, x.w, y.w);",
    // Your edit:
    "add(0, w, b, x.x, y.x), add(1, w, b, x.y, y.y), add(2, w, b, x.z, y.z), add(3, w, b, x.w, y.w);",
)?;
    println!("[[45]] {}", Show::text(&{ 
attempt(&lab, &mine)? }));
    eprintln!("--- cell 47");
let staged: KernelView = KernelView::file("regression/02b_fused_staged.cu")?;
    println!("[[47]] {}", Show::text(&{ 
staged.between("The bound is the block's", "const unsigned long long first")? }));
    eprintln!("--- cell 49");
let guess_staged: f64 = 1.0;
    eprintln!("--- cell 50");
story = learn(&lab, &story, &["02b_fused_staged"])?;
    println!("[[50]] {}", Show::text(&{ 
Panel::column([
    &does_it_help(&story, "Does staging through shared memory help?", "02b_fused_staged", "02_fused"),
    &your_guess(&story, &main, "02b_fused_staged", "02_fused", guess_staged),
    &guessed(&story, &main, ("02b_fused_staged", "02_fused"), guess_staged, &[]),
]) }));
    eprintln!("--- cell 52");
let mine: LiveKernel = variant("02b_fused_staged")?.named("no_barriers")
    // Your edit: take `__syncthreads();` out of both second strings.
    .replacing("= y4[i];\n        }\n        __syncthreads();", "= y4[i];\n        }\n        __syncthreads();")?
    .replacing("        __syncthreads();\n    }\n    const", "        __syncthreads();\n    }\n    const")?;
    println!("[[52]] {}", Show::text(&{ 
attempt(&lab, &mine)? }));
    eprintln!("--- cell 54");

    println!("[[54]] {}", Show::text(&{ HostCode::function("regression/cuda/launches.rs", "queue_pass")? }));
    eprintln!("--- cell 56");
// Your guess: rung 03 is so many times as fast as rung 02.
let guess_streams: f64 = 1.0;
    eprintln!("--- cell 57");
story = learn(&lab, &story, &["03_fused_streams"])?;
    println!("[[57]] {}", Show::text(&{ 
Panel::column([
    &does_it_help(&story, "Do streams help here?", "03_fused_streams", "02_fused"),
    &your_guess(&story, &main, "03_fused_streams", "02_fused", guess_streams),
    &epochs(&story, &["02_fused", "03_fused_streams"]),
    &guessed(&story, &main, ("03_fused_streams", "02_fused"), guess_streams, &[]),
]) }));
    eprintln!("--- cell 59");
let few_points_each: Regression = Regression::new().points([20_000]).rungs(["02_fused", "03_fused_streams"]).parts(false);
let tried: Run = learn_at(&lab, &only(&story, &["02_fused", "03_fused_streams"]), &few_points_each)?;
    println!("[[59]] {}", Show::text(&{ 
against(&at(&tried, &few_points_each.problems()[0]), "03_fused_streams", "02_fused") }));
    eprintln!("--- cell 61");

    println!("[[61]] {}", Show::text(&{ between_kernels(&story, "02_fused") }));
    eprintln!("--- cell 63");
// Your guess: rung 04 is so many times as fast as rung 02.
let guess_graph: f64 = 2.0;
    eprintln!("--- cell 64");
story = learn(&lab, &story, &["04_fused_graph"])?;
    println!("[[64]] {}", Show::text(&{ 
Panel::column([
    &against(&story, "04_fused_graph", "02_fused"),
    &your_guess(&story, &main, "04_fused_graph", "02_fused", guess_graph),
    &epochs(&story, &["02_fused", "04_fused_graph"]),
    &guessed(&story, &main, ("04_fused_graph", "02_fused"), guess_graph, &[]),
]) }));
    eprintln!("--- cell 66");
let epochs_each: u64 = 20;
let shorter: Regression = Regression::new().epochs(epochs_each).rungs(["02_fused", "04_fused_graph"]).parts(false);
let tried: Run = learn_at(&lab, &only(&story, &["02_fused", "04_fused_graph"]), &shorter)?;
    println!("[[66]] {}", Show::text(&{ 
against(&at(&tried, &shorter.problems()[0]), "04_fused_graph", "02_fused") }));
    eprintln!("--- cell 68");
let shared: KernelView = KernelView::file("launch.cuh")?;
    println!("[[68]] {}", Show::text(&{ 
Panel::column([
    &shared.function("wait_for_predecessor")?,
    &shared.function("let_successor_start")?,
    &fused.between("const auto load", "const float w = weights")?,
]) }));
    eprintln!("--- cell 70");
let guess_overlapped: f64 = 1.5;
    eprintln!("--- cell 71");
story = learn(&lab, &story, &["04b_fused_graph_overlapped"])?;
    println!("[[71]] {}", Show::text(&{ 
Panel::column([
    &against(&story, "04b_fused_graph_overlapped", "04_fused_graph"),
    &your_guess(&story, &main, "04b_fused_graph_overlapped", "04_fused_graph", guess_overlapped),
    &epochs(&story, &["02_fused", "04_fused_graph", "04b_fused_graph_overlapped"]),
    &outcome(&story, "04b_fused_graph_overlapped", 2, 2),
    &guessed(&story, &main, ("04b_fused_graph_overlapped", "04_fused_graph"), guess_overlapped, &[]),
]) }));
    eprintln!("--- cell 73");
let mine: LiveKernel = variant("04b_fused_graph_overlapped")?.named("late_loads").replacing(
    "    load(first);\n    wait_for_predecessor();",
    // Your edit:
    "    load(first);\n    wait_for_predecessor();",
)?;
    println!("[[73]] {}", Show::text(&{ 
attempt(&lab, &mine)? }));
    eprintln!("--- cell 76");
let exchange: KernelView = KernelView::file("exchange.cuh")?;
    println!("[[76]] {}", Show::text(&{ 
Panel::column([
    &exchange.function("make_word")?,
    &exchange.function("store_word")?,
    &exchange.between("void publish", "store_word(mine")?,
    &exchange.between("do {", "patience.ended")?,
]) }));
    eprintln!("--- cell 78");
let persistent: KernelView = KernelView::file("regression/05_persistent.cu")?;
    println!("[[78]] {}", Show::text(&{ 
Panel::column([
    &persistent.between("There is nothing in the points", "if (!descent.step")?,
    &persistent.headers(),
    &HostCode::function("regression/cuda/whole.rs", "ensure_room")?,
    &HostCode::function("regression/cuda/launch.rs", "descend")?,
]) }));
    eprintln!("--- cell 80");
let guess_persistent: f64 = 1.5;
    eprintln!("--- cell 81");
story = learn(&lab, &story, &["05_persistent"])?;
    println!("[[81]] {}", Show::text(&{ 
Panel::column([
    &cycles(&story, 1000),
    &outcome(&story, "05_persistent", 2, 2),
    &against(&story, "05_persistent", "04b_fused_graph_overlapped"),
    &your_guess(&story, &main, "05_persistent", "04b_fused_graph_overlapped", guess_persistent),
    &beyond(&story, &main, &["02_fused", "04_fused_graph", "04b_fused_graph_overlapped", "05_persistent"]),
    &guessed(&story, &main, ("05_persistent", "04b_fused_graph_overlapped"), guess_persistent, &[]),
]) }));
    eprintln!("--- cell 83");
let mine: LiveKernel = variant("05_persistent")?.named("exposed")
    // Your edit: no early load ...
    .replacing("if (!ALTERNATE && parts > 1) load(0);", "if (!ALTERNATE && parts > 1) load(0);")?
    // ... and one at the beginning of every epoch but the first.
    .replacing("if (k > 0) load(part);", "if (k > 0) load(part);")?;
    println!("[[83]] {}", Show::text(&{ 
attempt(&lab, &mine)? }));
    eprintln!("--- cell 85");

    println!("[[85]] {}", Show::text(&{ persistent.between("for (unsigned k = 0; k < parts", "if (k > 0) load(part)")? }));
    eprintln!("--- cell 87");
let guess_alternating: f64 = 1.5;
    eprintln!("--- cell 88");
let ten_million: Regression = Regression::new().points([10_000_000]).rungs(["05_persistent", "05b_persistent_alternating"]).parts(false);
story = learn(&lab, &story, &["05b_persistent_alternating"])?;
story = learn_at(&lab, &story, &ten_million)?;
let larger: Problem = ten_million.problems().remove(0);
    println!("[[88]] {}", Show::text(&{ 
Panel::column([
    &against(&story, "05b_persistent_alternating", "05_persistent"),
    &prediction(&story, &larger, 2, 2),
    &against(&at(&story, &larger), "05b_persistent_alternating", "05_persistent"),
    &your_guess(&story, &larger, "05b_persistent_alternating", "05_persistent", guess_alternating),
    &bounds(&story, &larger, &["05_persistent", "05b_persistent_alternating"]),
    &guessed(&story, &larger, ("05b_persistent_alternating", "05_persistent"), guess_alternating, &[]),
]) }));
    eprintln!("--- cell 90");

    println!("[[90]] {}", Show::text(&{ price_of_the_exchange(&lab, &story, &main, &["05_persistent", "05b_persistent_alternating"])? }));
    eprintln!("--- cell 92");
let mine: LiveKernel = variant("05b_persistent_alternating")?.named("every_second").replacing(
    "ALTERNATE && epoch % 2 == 0",
    // Your edit:
    "ALTERNATE && epoch % 2 == 0",
)?;
    println!("[[92]] {}", Show::text(&{ 
attempt(&lab, &mine)? }));
    eprintln!("--- cell 94");

    println!("[[94]] {}", Show::text(&{ storage(&story.environment.device, &main) }));
    eprintln!("--- cell 96");
let resident: KernelView = KernelView::file("regression/resident.cuh")?;
    println!("[[96]] {}", Show::text(&{ 
resident.between("A thread reads only", "points.total(sums)")? }));
    eprintln!("--- cell 98");
let cluster: KernelView = KernelView::file("regression/06_on_chip_cluster.cu")?;
    println!("[[98]] {}", Show::text(&{ 
Panel::column([
    &cluster.between("After the exchange of halves", "barrier_wait(")?,
    &KernelView::file("cluster.cuh")?.function("store_and_signal")?,
]) }));
    eprintln!("--- cell 100");
let guess_on_chip: f64 = 2.0;
    eprintln!("--- cell 101");
let other_sizes: Regression =
    Regression::new().points([100_000, 10_000_000]).rungs(["05b_persistent_alternating", "06_on_chip"]).parts(false);
story = learn(&lab, &story, &["06_on_chip"])?;
story = learn_at(&lab, &story, &other_sizes)?;
    println!("[[101]] {}", Show::text(&{ 
Panel::column([
    &against(&story, "06_on_chip", "05b_persistent_alternating"),
    &your_guess(&story, &main, "06_on_chip", "05b_persistent_alternating", guess_on_chip),
    &bounds(&story, &main, &["05b_persistent_alternating", "06_on_chip"]),
    &choice(&story, "06_on_chip", &other_sizes.problems()[0]),
    &choice(&story, "06_on_chip", &main),
    &choice(&story, "06_on_chip", &other_sizes.problems()[1]),
    &guessed(&story, &main, ("06_on_chip", "05b_persistent_alternating"), guess_on_chip, &[]),
]) }));
    eprintln!("--- cell 103");
let few_points: Problem = other_sizes.problems().remove(0);
    println!("[[103]] {}", Show::text(&{ 
Panel::column([
    &against(&at(&story, &few_points), "06_on_chip", "05b_persistent_alternating"),
    &beyond(&story, &few_points, &["05b_persistent_alternating", "06_on_chip"]),
]) }));
    eprintln!("--- cell 105");
let mine: LiveKernel = variant("06_on_chip")?.named("always_loss").replacing(
    "points.pass(descent.w, descent.b, logged, sums);",
    // Your edit:
    "points.pass(descent.w, descent.b, logged, sums);",
)?;
    println!("[[105]] {}", Show::text(&{ 
attempt(&lab, &mine)? }));
    eprintln!("--- cell 108");
let statistics: KernelView = KernelView::file("regression/07_sufficient_statistics.cu")?;
    println!("[[108]] {}", Show::text(&{ 
Panel::column([
    &statistics.function("Compensated")?,
    &statistics.between("for (unsigned epoch = 1", "w -= rate")?,
]) }));
    eprintln!("--- cell 110");
let guess_less_work: f64 = 5.0;
    eprintln!("--- cell 111");
story = learn(&lab, &story, &[LESS_WORK])?;
    println!("[[111]] {}", Show::text(&{ 
Panel::column([
    &cycles(&story, 10_000),
    &against(&story, LESS_WORK, "06_on_chip"),
    &your_guess(&story, &main, LESS_WORK, "06_on_chip", guess_less_work),
    &bounds(&story, &main, &[LESS_WORK]),
    &guessed(&story, &main, (LESS_WORK, "06_on_chip"), guess_less_work, &[]),
]) }));
    eprintln!("--- cell 113");
let mine: LiveKernel = variant(LESS_WORK)?.named("plain").replacing(
    "lost = __fadd_rn(lost, __fadd_rn(__fsub_rn(sum, __fsub_rn(total, v_part)), __fsub_rn(v, v_part)));",
    // Your edit:
    "lost = __fadd_rn(lost, __fadd_rn(__fsub_rn(sum, __fsub_rn(total, v_part)), __fsub_rn(v, v_part)));",
)?;
    println!("[[113]] {}", Show::text(&{ 
attempt(&lab, &mine)? }));
    eprintln!("--- cell 115");
let several: KernelView = KernelView::file("regression/08_multivariate.cu")?;
    println!("[[115]] {}", Show::text(&{ 
several.between("for (int f = 0; f < PART; ++f) sums[g] = fma4", "tail[1] = dot4(err, err, tail[1])")? }));
    eprintln!("--- cell 117");
let guess_features: f64 = 50.0;
    eprintln!("--- cell 118");
let of_16: Regression = Regression::new().features(16).rungs(["cpu_all_threads", "08_multivariate"]);
story = learn_at(&lab, &story, &of_16)?;
let wide: Problem = of_16.problems().remove(0);
let wide_story: Run = at(&story, &wide);
    println!("[[118]] {}", Show::text(&{ 
Panel::column([
    &balance(&story.peaks, &story.environment.device.name, &wide),
    &prediction(&story, &wide, 17, 17),
    &outcome(&wide_story, "08_multivariate", 17, 17),
    &against(&wide_story, "08_multivariate", "cpu_all_threads"),
    &your_guess(&story, &wide, "08_multivariate", "cpu_all_threads", guess_features),
    &bounds(&story, &wide, &["08_multivariate"]),
    &guessed(&story, &wide, ("08_multivariate", "cpu_all_threads"), guess_features, &[]),
]) }));
    eprintln!("--- cell 120");
let mine: LiveKernel = variant("08_multivariate")?.named("forwards")
    // Your edit: no epoch goes backwards ...
    .replacing("backwards = epoch % 2 == 0;", "backwards = epoch % 2 == 0;")?
    // ... and every epoch but the first loads its first part.
    .replacing("if (k > 0) load(part);", "if (k > 0) load(part);")?;
    println!("[[120]] {}", Show::text(&{ 
lab.attempt_at(&of_16, &of_16.problems()[0], &mine)? }));
    eprintln!("--- cell 122");
// For a Python of its own, as in an environment with PyTorch, set WARPBOOK_PYTHON before you start.
const SCRIPT: [&str; 3] = ["pytorch/regression.py", "--size", "100k,5M,10M,5Mx16"];
let python: String = std::env::var("WARPBOOK_PYTHON").unwrap_or("python3".to_owned());
let joined: (Run, String) = learn_from(&lab, &story, &python, &SCRIPT);
story = joined.0.clone();
    println!("[[122]] {}", Show::text(&{ 
joined.1.clone() }));
    eprintln!("--- cell 123");

    println!("[[123]] {}", Show::text(&{ ladder(&without(&story, &[LESS_WORK]), &main, Quantity::Time) }));
    eprintln!("--- cell 125");

    println!("[[125]] {}", Show::text(&{ operations(&only(&story, &["01_unfused", "02_fused", "pytorch_eager"]), &main) }));
    eprintln!("--- cell 127");

    println!("[[127]] {}", Show::text(&{ against_each(&story, &[
    // The same plan, a kernel an operation. The difference is what happens between the kernels.
    ("01_unfused", "pytorch_eager"),
    // The same kernels, without Python between them.
    ("pytorch_graph", "pytorch_eager"),
    // Forward and loss fused, but still an epoch at a time from Python.
    ("pytorch_compiled", "pytorch_eager"),
    // A fused pass in a graph, by two ways: a kernel written by hand, or mathematics rewritten until a compiler can fuse it.
    ("04_fused_graph", "pytorch_expert"),
    // What no compiler here has done: keep the points.
    ("06_on_chip", "pytorch_expert"),
    ("06_on_chip", "pytorch_eager"),
]) }));
    eprintln!("--- cell 128");

    println!("[[128]] {}", Show::text(&{ Panel::column([
    &"With 16 features:",
    &against_each(&at(&story, &wide), &[("08_multivariate", "pytorch_expert"), ("08_multivariate", "pytorch_eager")]),
]) }));
    eprintln!("--- cell 130");
const OURS: [&str; 9] = [
    "01_unfused",
    "02_fused",
    "02b_fused_staged",
    "03_fused_streams",
    "04_fused_graph",
    "04b_fused_graph_overlapped",
    "05_persistent",
    "05b_persistent_alternating",
    "06_on_chip",
];
    println!("[[130]] {}", Show::text(&{ 
Panel::column([&roofline(&only(&story, &OURS), &main), &bounds(&story, &main, &OURS)]) }));
    eprintln!("--- cell 132");

    println!("[[132]] {}", Show::text(&{ beyond(&story, &main, &OURS) }));
    eprintln!("--- cell 134");

    println!("[[134]] {}", Show::text(&{ Panel::column([&results(&story), &loss_curve(&story, &main)]) }));
    eprintln!("--- cell 136");
use warpbook::Moments;

let training: Moments = Moments::of(small.training().0[0], small.training().1);
let best_w: f64 = training.sxy / training.sxx;
let best_b: f64 = training.mean_y - best_w * training.mean_x;
let line = |what: &str, w: f64, b: f64| -> Vec<String> {
    Vec::from([what.to_owned(), format!("{w:.4}"), format!("{b:.4}"), format!("{:.6}", training.loss(w, b))])
};
    println!("[[136]] {}", Show::text(&{ 
table(
    &["the small data set of section 1", "w", "b", "loss"],
    Vec::from([
        line("at the start", 0.83, 0.7645),
        line("after 200 epochs", f64::from(w), f64::from(b)),
        line("the best line", best_w, best_b),
    ]),
) }));
    eprintln!("--- cell 138");
// On a CPU the large sizes would take long, so they are left out.
let mut sizes: Vec<u64> = Vec::from([100_000, 500_000, 1_000_000, 5_000_000]);
if on_gpu {
    sizes.extend([10_000_000, 20_000_000]);
}
let run: Run = lab.run(&Regression::new().points(sizes))?;

let (measured, skipped, failed): (usize, usize, usize) = run.counts();
    println!("[[138]] {}", Show::text(&{ 
format!("{measured} measured, {skipped} skipped, {failed} failed.") }));
    eprintln!("--- cell 139");
// On a GPU what was just measured, with what the story has beside it; else the published record, and below it what was measured here.
let told: Run = match (on_gpu, &published) {
    (true, _) => with(&story, &run),
    (false, Some(_)) => story.clone(),
    (false, None) => run.clone(),
};
let mut charts: Panel = Panel::column([&sweep(&[&told]), &sweep_bandwidth(&[&told])]);
if !on_gpu && published.is_some() {
    charts = charts.and(&sweep(&[&run]));
}
    println!("[[139]] {}", Show::text(&{ 
charts }));
    eprintln!("--- cell 141");

    println!("[[141]] {}", Show::text(&{ small_and_large(&told) }));
    eprintln!("--- cell 143");
let smallest: Problem = told.problems().into_iter().min_by_key(|p| p.size()).unwrap_or(&main).clone();
    println!("[[143]] {}", Show::text(&{ 
beyond(&told, &smallest, &OURS) }));
    eprintln!("--- cell 145");

    println!("[[145]] {}", Show::text(&{ lines_against_speed(&told) }));
    eprintln!("--- cell 148");
let way_up: [(&str, &str); 9] = [
    ("cpu_1_thread", "where we began"),
    ("cpu_all_threads", "all cores"),
    ("01_unfused", "a GPU, one kernel per operation"),
    ("02_fused", "one pass: a quarter of the bytes, two launches for five"),
    ("04_fused_graph", "launches prepared once"),
    ("04b_fused_graph_overlapped", "launches that overlap"),
    ("05_persistent", "one launch, with a barrier in the kernel"),
    ("05b_persistent_alternating", "alternating direction: begins with what is still there"),
    ("06_on_chip", "points that stay on the chip"),
];
    println!("[[148]] {}", Show::text(&{ 
Panel::column([
    &last_word(&told),
    &bought(&told, &way_up),
    &ladder(&without(&told, &[LESS_WORK]), &main, Quantity::SpeedUp),
    &"And apart, with less work:",
    &against(&told, LESS_WORK, "06_on_chip"),
]) }));
    eprintln!("--- cell 150");

    println!("[[150]] {}", Show::text(&{ told }));
    eprintln!("--- cell 152");
std::fs::create_dir_all("../target")?;
let path: std::path::PathBuf = write_record(&run, "../target/regression-notebook.json")?;
let back: Run = read_record(&path)?;
assert!(back.measurements == run.measurements);
    println!("[[152]] {}", Show::text(&{ 
Panel::column([
    &format!("{} holds {} measurements. This repeats them, without Jupyter:", path.display(), back.measurements.len()),
    &back.command,
]) }));
    Ok(())
}
