//! Published records of several GPUs, read for lesson 50: training steps with ranks and with one process, the inputs of an estimated step, and a product that
//! uses a link.

use super::scaling::{StepOnPaper, efficiency_percent, step_us};
use crate::figures;
use crate::prelude::*;
use warpbook_charts::{Curve, Table};
use warpbook_experiments::scaling::scaling_lines;
use warpbook_record::{LinkCurve, LinkPoint, Measurement, MemoryLevel, Span};

/// Assumptions about a cluster that were not measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Assumed {
    /// Network bandwidth for each GPU, in bytes per second.
    pub network_bytes_per_s: f64,
    /// Number of GPUs in a machine.
    pub gpus_of_a_machine: u32,
    /// Mean hours between two failures of a GPU.
    pub hours_between_failures: f64,
}

/// Returns the problem that a line of a record's sweep solves on this number of GPUs.
#[must_use]
pub fn work_on(run: &Run, line: &str, gpus: u64) -> Option<Problem> {
    let is_on = |p: &&Problem| p.size() == gpus && p.sweep.as_ref().is_some_and(|s| s.line == line);
    run.problems.iter().find(is_on).cloned()
}

/// Returns the measurement of a rung on this number of GPUs, in a line of the record's sweep.
fn on_gpus<'r>(run: &'r Run, line: &str, way: &str, gpus: u64) -> Option<&'r Measurement> {
    let is_on = |m: &&Measurement| {
        m.rung == way && m.problem.size() == gpus && m.problem.sweep.as_ref().is_some_and(|s| s.line == line)
    };
    run.measurements.iter().find(is_on)
}

/// Shows the time of a step with ranks and with one process, on one, two and four GPUs, for the lines of the record that begin with `word`.
#[must_use]
pub fn ranks_and_one_process(run: &Run, word: &str, precisions: &[&str]) -> Table {
    let mut headers = vec!["work".to_owned(), "precision".to_owned()];
    for on in ["1 GPU", "2 GPUs", "4 GPUs"] {
        headers.extend([format!("{on}: ranks"), format!("{on}: one process")]);
    }
    let mut rows = Vec::new();
    for line in scaling_lines(run).iter().filter(|line| line.starts_with(word)) {
        for precision in precisions {
            let time = |way: &str, gpus: usize| {
                step_us(run, line, &format!("{way}_{precision}"), gpus).map(figures::time).unwrap_or_default()
            };
            let mut row = vec![line.clone(), (*precision).to_owned()];
            for gpus in [1, 2, 4] {
                row.extend([time("ranks", gpus), time("one_process", gpus)]);
            }
            rows.push(row);
        }
    }
    Table { headers, rows }
}

/// Returns the share of a step that is the backward pass: in the recorded step on two GPUs from the end of the loss to the last kernel that does not belong to
/// the update, divided by the step's time on one GPU.
fn backward_share(run: &Run, line: &str, timeline: &str) -> Option<f64> {
    let (one, two) = (on_gpus(run, line, timeline, 1)?, on_gpus(run, line, timeline, 2)?);
    let spans = run.spans_of(timeline, &two.problem);
    let spans: Vec<&Span> = spans.into_iter().filter(|s| s.stream.starts_with("rank 0 compute")).collect();
    let end_of =
        |kernels: &dyn Fn(&str) -> bool| spans.iter().filter(|s| kernels(&s.name)).map(|s| s.end_us()).reduce(f64::max);
    let loss = end_of(&|name| name.starts_with("cross_entropy") || name.starts_with("mse"))?;
    // Names of the update's kernels, including the norm that fp16 checks first and the copies that can undo a step.
    const UPDATE: [&str; 5] = ["adam", "sgd", "sum_squares", "copy", "restore"];
    let last = end_of(&|name| !UPDATE.iter().any(|begin| name.starts_with(begin)))?;
    Some((last - loss) / one.median_us()?)
}

/// Returns the median time of a transfer in microseconds; NaN without samples.
#[must_use]
pub fn transfer_us(point: &LinkPoint) -> f64 {
    warpbook_record::stats::median(&point.samples_us).unwrap_or(f64::NAN)
}

/// Returns an estimate of a step from a scaling record with a fixed batch per GPU (weak scaling), and a table of its inputs with their origins. `timeline` is
/// the rung whose steps the record has as timelines. Returns `None` if the records lack an input.
#[must_use]
pub fn step_from_records(
    run: &Run,
    all_reduce: &LinkCurve,
    [line, way, timeline]: [&str; 3],
    assumed: &Assumed,
) -> Option<(StepOnPaper, Table)> {
    let (one, two) = (on_gpus(run, line, way, 1)?, on_gpus(run, line, way, 2)?);
    let samples = one.samples_us.len() as f64;
    let mean = one.samples_us.iter().sum::<f64>() / samples;
    let variance = one.samples_us.iter().map(|us| (us - mean).powi(2)).sum::<f64>() / (samples - 1.0);
    let gradients = two.gradients?;
    let (longest, bus) = all_reduce.best()?;
    let shortest = all_reduce.points.first()?;
    let messages = 2 * (all_reduce.gpus - 1);
    let step = StepOnPaper {
        compute_us: one.median_us()?,
        backward: backward_share(run, line, timeline)?,
        gradient_bytes: gradients.bytes as f64,
        buckets: gradients.buckets,
        link_bytes_per_s: bus,
        per_machine: assumed.gpus_of_a_machine,
        network_bytes_per_s: assumed.network_bytes_per_s,
        latency_us: transfer_us(shortest) / f64::from(messages),
        spread: variance.sqrt() / mean,
        hours_between_failures: assumed.hours_between_failures,
    };
    let device = &run.environment.device.name;
    let (scaling, link) = ("measured, the scaling record", "measured, the record of the link");
    let rows = [
        [
            "forward, backward, update".to_owned(),
            figures::time(step.compute_us),
            format!("{scaling}: {line}, {way}, on 1 GPU ({device})"),
        ],
        [
            "share of the backward pass".to_owned(),
            figures::percent(step.backward),
            format!("{scaling}: timeline of {timeline} on 2 GPUs, from the loss to the last gradient"),
        ],
        [
            "gradients".to_owned(),
            format!(
                "{} in {}",
                figures::bytes(gradients.bytes),
                figures::counted(gradients.buckets as usize, "bucket")
            ),
            format!("{scaling}: what travels between 2 GPUs"),
        ],
        [
            "bus bandwidth of a machine".to_owned(),
            figures::bandwidth(bus),
            format!("{link}: all-reduce of {} over {} GPUs", figures::bytes(longest.bytes), all_reduce.gpus),
        ],
        [
            "a message".to_owned(),
            figures::time(step.latency_us),
            format!(
                "{link}: all-reduce of {}, launched by the host, over its {messages} messages",
                figures::bytes(shortest.bytes)
            ),
        ],
        [
            "a GPU's steps vary by".to_owned(),
            figures::percent(step.spread),
            format!(
                "{scaling}: standard deviation of {samples} samples on 1 GPU, each the mean of many steps, so that single steps vary more"
            ),
        ],
        ["network, for each GPU".to_owned(), figures::bandwidth(step.network_bytes_per_s), "ASSUMED".to_owned()],
        ["GPUs of a machine".to_owned(), step.per_machine.to_string(), "ASSUMED".to_owned()],
        [
            "hours between failures of a GPU".to_owned(),
            format!("{:.0}", step.hours_between_failures),
            "published elsewhere, see the cell".to_owned(),
        ],
    ];
    let headers = ["input", "value", "where it comes from"].map(str::to_owned).to_vec();
    Some((step, Table { headers, rows: rows.into_iter().map(Vec::from).collect() }))
}

/// Shows the estimated step times on two and on four GPUs next to the measured times.
#[must_use]
pub fn paper_against_measured(paper: &StepOnPaper, run: &Run, line: &str, way: &str) -> Table {
    let headers = ["GPUs", "a step: on paper", "measured", "paper / measured", "efficiency: on paper", "measured"]
        .map(str::to_owned);
    let row = |gpus: u32| {
        let on = paper.on(gpus);
        let us = step_us(run, line, way, gpus as usize);
        let percent = efficiency_percent(run, line, way, gpus as usize);
        vec![
            gpus.to_string(),
            figures::time(on.step_us),
            us.map(figures::time).unwrap_or_default(),
            us.map(|us| format!("{:.2}", on.step_us / us)).unwrap_or_default(),
            figures::percent(on.efficiency),
            percent.map(|percent| figures::percent(percent / 100.0)).unwrap_or_default(),
        ]
    };
    Table { headers: headers.to_vec(), rows: [2, 4].map(row).to_vec() }
}

/// Returns the bus bandwidth of an all-reduce in GB/s as a curve over the array's size in KiB.
#[must_use]
pub fn bus_curve(link: &LinkCurve) -> Curve {
    let point = |point: &LinkPoint| Some((point.bytes as f64 / 1024.0, link.bytes_per_s(point)? / 1e9));
    Curve::new(format!("{} GPUs", link.gpus), link.points.iter().filter_map(point).collect::<Vec<_>>())
}

/// Returns the speed-up of a rung over one GPU at the record's main problem.
#[must_use]
pub fn gain_over_one_gpu(run: &Run, way: &str) -> Option<f64> {
    let us = |id: &str| run.measurement(id, run.main_problem()?)?.median_us();
    Some(us("one_gpu")? / us(way)?)
}

/// Returns the least time of a rung's multiplication on its GPUs and the least time of its transfers over the link, both in microseconds.
#[must_use]
pub fn least_us(run: &Run, m: &Measurement) -> Option<(f64, f64)> {
    let multiplication = m.operations() as f64 / (f64::from(m.gpus()) * run.arithmetic(&m.problem)?.flops_per_s());
    let arrives = m.traffic.iter().find(|t| t.level == MemoryLevel::Link)?.bytes;
    Some((multiplication * 1e6, arrives as f64 / run.peaks.level(MemoryLevel::Link)?.bytes_per_s() * 1e6))
}

/// Shows the times of some rungs of each record next to the least times of their parts.
#[must_use]
pub fn limits(runs: &[&Run], ways: &[&str]) -> Table {
    let headers = [
        "way",
        "GPUs",
        "measured",
        "as fast as one GPU",
        "multiplication, at least",
        "link, at least",
        "share of its bound",
    ];
    let row = |run: &Run, way: &str| {
        let m = run.measurement(way, run.main_problem()?)?;
        let (multiplication, link) = least_us(run, m)?;
        Some(vec![
            way.to_owned(),
            m.gpus().to_string(),
            figures::time(m.median_us()?),
            gain_over_one_gpu(run, way).map_or("not measured".to_owned(), figures::times),
            figures::time(multiplication),
            figures::time(link),
            format!("{} ({})", figures::percent(run.fraction_of_bound(m)?), run.bound(m)?.label()),
        ])
    };
    let rows = ways.iter().flat_map(|way| runs.iter().filter_map(move |run| row(run, way))).collect();
    Table { headers: headers.map(str::to_owned).to_vec(), rows }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpbook_record::LinkTransfer;

    fn record(name: &str) -> Run {
        read_record(format!("{}/../../data/results/{name}.json", env!("CARGO_MANIFEST_DIR"))).unwrap()
    }

    #[test]
    fn a_step_on_paper_comes_from_the_published_records() {
        let (scaling, linked) = (record("scaling-h200-x4"), record("tensor-parallel-h200-x2"));
        let link = linked.peaks.link(LinkTransfer::AllReduce).unwrap();
        let assumed = Assumed { network_bytes_per_s: 50e9, gpus_of_a_machine: 8, hours_between_failures: 50_000.0 };
        let asked = ["CIFAR-10 CNN, 512 a rank", "ranks_amp_bf16", "ranks_amp_fp16"];
        let (step, inputs) = step_from_records(&scaling, link, asked, &assumed).unwrap();
        assert!((0.2..0.9).contains(&step.backward) && step.compute_us > 10.0, "{step:?}");
        assert_eq!(inputs.rows.len(), 9);
        let checked = paper_against_measured(&step, &scaling, asked[0], asked[1]);
        assert_eq!(checked.rows.iter().map(|row| &*row[0]).collect::<Vec<_>>(), ["2", "4"]);
        assert!(step_from_records(&linked, link, asked, &assumed).is_none());
        assert!(work_on(&scaling, asked[0], 2).is_some() && work_on(&scaling, asked[0], 3).is_none());
        assert_eq!(ranks_and_one_process(&scaling, "CIFAR-10", &["fp32"]).headers.len(), 8);
    }

    #[test]
    fn limits_compare_a_way_with_its_parts() {
        let (two, four) = (record("tensor-parallel-h200-x2"), record("tensor-parallel-h200-x4"));
        let table = limits(&[&two, &four], &["rows_peer", "k_peer", "none"]);
        let gpus: Vec<&str> = table.rows.iter().map(|row| &*row[1]).collect();
        assert_eq!(gpus, ["2", "4", "2", "4"]);
        assert!(gain_over_one_gpu(&four, "rows_peer").unwrap() > 2.0);
        assert_eq!(bus_curve(two.peaks.link(LinkTransfer::AllReduce).unwrap()).name, "2 GPUs");
    }
}
