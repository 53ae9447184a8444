//! Training steps in four precisions on a GPU, next to the CPU and a framework whose memory was not counted.

use super::{empty, measured};
use warpbook_record::{
    Baseline, ChartKind, Column, Descriptor, DeviceKind, Dtype, Problem, Quantity, Requires, Run, Rung, Runner,
    Schedule, SweepAxis, SweepPoint, count,
};

/// Returns the problem of a training step over a batch of images.
pub fn batch(images: u64) -> Problem {
    let sizes = vec![count("batch", images, "images")];
    Problem::new(format!("three layers, batch {images}"), format!("batch {images}"), sizes, Dtype::F32).with(|p| {
        p.flops = 6 * 50_000_000 * images;
        p.items = Some(images);
        p.sweep = Some(SweepPoint { size: images, line: "three layers".into() });
    })
}

/// Rungs as (id, title, microseconds per image, MiB at batches of 128, 512 and 1024).
const RUNGS: [(&str, &str, f64, [u64; 3]); 6] = [
    ("cpu_all_threads", "CPU, all threads", 90.0, [0; 3]),
    ("fp32", "fp32", 6.0, [598, 1240, 2098]),
    ("tf32", "tf32", 1.1, [602, 1255, 2130]),
    ("amp_fp16", "AMP, fp16", 0.75, [512, 1000, 1650]),
    ("amp_bf16", "AMP, bf16", 0.7, [512, 1000, 1649]),
    ("torch", "PyTorch", 1.5, [0; 3]),
];

fn rung((id, title, ..): (&'static str, &'static str, f64, [u64; 3])) -> Rung {
    let (runner, requires) = match id {
        _ if id.starts_with("cpu") => (Runner::Cpu("threads".into()), Requires::Nothing),
        "torch" => (Runner::External("PyTorch 2.11.0".into()), Requires::AtLeast(7, 5)),
        _ => (Runner::Kernels { specs: Vec::new(), schedule: Schedule::Launches }, Requires::AtLeast(7, 5)),
    };
    Rung { id: id.into(), title: title.into(), idea: "".into(), requires, runner, variant_of: None }
}

/// Returns the record of the training steps.
pub fn precisions() -> Run {
    let mut run = empty("NVIDIA H200", DeviceKind::Cuda);
    run.experiment = "training".into();
    run.title = "Training step".into();
    run.descriptor = Descriptor {
        headline: Quantity::ItemRate,
        quantities: vec![Quantity::ItemRate, Quantity::Time, Quantity::PeakMemory],
        baseline: Baseline::Rung("fp32".into()),
        axis: SweepAxis { caption: "batch".into(), unit: "images".into(), doubling: true },
        columns: vec![Column::Median, Column::ItemRate, Column::PeakMemory, Column::Check],
        charts: vec![ChartKind::Ladder, ChartKind::Sweep],
        item: "images".into(),
        ..Descriptor::default()
    };
    run.rungs = RUNGS.map(rung).into();
    for (i, images) in [128, 512, 1024].into_iter().enumerate() {
        for (id, _, us, mib) in RUNGS {
            let mut m = measured(id, &batch(images), us * images as f64, 0.005);
            m.peak_bytes = Some(mib[i] << 20).filter(|bytes| *bytes > 0);
            run.measurements.push(m);
        }
    }
    run.main_problem = Some(batch(512).id.clone());
    run
}
