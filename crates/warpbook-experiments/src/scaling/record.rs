//! The record of the measurements: one problem for each number of ranks and batch size, and one rung for each way to
//! train.

use super::network::Net;
use super::{Growth, Measured, Scaling, ScalingWay, timeline};
use warpbook_charts::Table;
use warpbook_charts::words as figures;
use warpbook_lab::{Lab, driver};
use warpbook_ranks::Wire;
use warpbook_record::{
    Baseline, ChartKind, Column, Descriptor, DeviceKind, Dtype, Inputs, L2State, Measurement, Outcome, Policy, Problem,
    Quantity, Run, Rung, Runner, Schedule, SweepAxis, SweepPoint, TimedBy, count, setting,
};

impl Scaling {
    pub(super) fn problem(&self, network: Net, growth: Growth, batch: u64, world: usize) -> Problem {
        let global = Self::global(growth, batch, world);
        let (base, [samples, _]) = (self.step_problem(network, global), self.samples_of(network));
        let each = global / world as u64;
        let (title, ranks) = (network.title(), if world == 1 { "1 rank".to_owned() } else { format!("{world} ranks") });
        let line = match growth {
            Growth::Weak => format!("{title}, {batch} a rank"),
            Growth::Strong => format!("{title}, {batch} in all"),
        };
        let mut sizes = vec![
            setting("network", network.name()),
            setting("scaling", growth.name()),
            count("ranks", world as u64, ""),
            count("batch", global, "samples"),
        ];
        if network.is_rows() {
            sizes.push(count("features", self.features as u64, ""));
        }
        let label = format!("{title} on {ranks}, {each} samples each, {} scaling, {}", growth.name(), samples);
        Problem::new(label, format!("{} {world} × {each}", network.name()), sizes, Dtype::F32).with(|p| {
            (p.flops, p.bytes, p.written_bytes) = (base.flops, base.bytes, base.written_bytes);
            p.working_set_bytes = base.working_set_bytes;
            p.items = Some(global);
            p.sweep = Some(SweepPoint { size: world as u64, line });
        })
    }

    pub(super) fn measurement(&self, problem: &Problem, measured: &Measured) -> Measurement {
        let outcome = match &measured.error {
            Some(error) => Outcome::Failed { error: error.clone() },
            None => Outcome::Measured,
        };
        let mut m = Measurement::without_samples(measured.way.clone(), problem.clone(), outcome);
        m.set_samples(measured.samples_us.clone(), measured.samples_us.clone());
        (m.check, m.choice, m.gradients) = (measured.check.clone(), measured.choice.clone(), measured.gradients);
        m
    }

    /// Creates the record of the ranks' measurements; `a_rank` describes what a rank was, such as "a process".
    #[must_use]
    pub fn record(&self, lab: &Lab, measured: &[Measured], command: String, a_rank: &str) -> Run {
        let on_gpu = lab.device().info().kind == DeviceKind::Cuda;
        let mut run = self.empty(lab, command);
        let ways = self.ways(on_gpu);
        run.rungs = ways.iter().map(|way| rung(way, on_gpu)).collect();
        for network in &self.networks {
            for batch in self.batches_of(*network) {
                for (growth, world) in self.growths.iter().flat_map(|g| self.worlds.iter().map(move |w| (g, *w))) {
                    let problem = self.problem(*network, *growth, batch, world);
                    let is = |m: &&Measured| {
                        m.network == network.name() && m.ranks == world && Some(m.batch) == problem.count("batch")
                    };
                    let of_problem: Vec<&Measured> = measured.iter().filter(is).collect();
                    run.measurements.extend(of_problem.iter().map(|m| self.measurement(&problem, m)));
                    let recorded = of_problem.iter().filter(|m| !m.moments.is_empty());
                    run.spans.extend(recorded.flat_map(|m| timeline::spans(&m.moments, &m.way, &problem)));
                    run.problems.push(problem);
                }
            }
        }
        run.main_problem = main_problem(&run.problems).map(|p| p.id.clone());
        let most = self.worlds.iter().copied().max().unwrap_or(1);
        if on_gpu {
            run.notes.push(format!("Each rank was {a_rank} with its own GPU; gradients were reduced by NCCL."));
        } else {
            let threads = self.threads_a_rank(lab);
            let threads = if threads == 1 { "1 thread".to_owned() } else { format!("{threads} threads") };
            run.notes.push(format!(
                "Each rank was {a_rank} on the CPU that computed with {threads}, whatever the number of ranks; gradients were reduced by a ring over \
                 TCP. The ranks share {} cores and their memory, so that {most} ranks are no {most} machines.",
                lab.cpu_threads()
            ));
        }
        run.notes.push("A sample is some steps, queued and waited for, by the host's clock; of each sample the slowest rank counts.".into());
        if self.growths.len() > 1 {
            run.notes.push("On 1 rank weak and strong scaling are the same work: it was measured once.".into());
        }
        let mut whys: Vec<&String> = measured.iter().filter_map(|m| m.note.as_ref()).collect();
        whys.dedup();
        run.notes.extend(whys.into_iter().cloned());
        run
    }

    fn empty(&self, lab: &Lab, command: String) -> Run {
        use Column::{Check, ItemRate, Mad, Median, Samples, SpeedUp};
        let inputs = self
            .networks
            .iter()
            .fold(Inputs::default(), |all, network| all.with(network.title(), &*self.samples_of(*network)[1]));
        let bench = lab.bench();
        let policy = Policy {
            timed_by: TimedBy::WallClock,
            l2: L2State::Warm,
            inputs: inputs.with("", format!("weights from seed {}", self.seed)),
            ..bench.policy(false, Inputs::default())
        };
        Run {
            command,
            descriptor: Descriptor {
                headline: Quantity::ItemRate,
                quantities: vec![Quantity::ItemRate, Quantity::Time, Quantity::SpeedUp],
                baseline: Baseline::FirstValid,
                axis: SweepAxis { caption: "ranks".into(), unit: "ranks".into(), doubling: true },
                columns: vec![Median, Mad, ItemRate, SpeedUp, Check, Samples],
                charts: vec![ChartKind::Ladder, ChartKind::Sweep, ChartKind::Timeline],
                item: "samples".into(),
                ..Descriptor::default()
            },
            ..driver::begun(lab, "scaling", "Data-parallel training", policy)
        }
    }
}

/// Returns the main problem: the first network with the largest batch on the most ranks.
fn main_problem(problems: &[Problem]) -> Option<&Problem> {
    let network = problems.first()?.text("network");
    problems.iter().filter(|p| p.text("network") == network).max_by_key(|p| (p.size(), p.count("batch")))
}

fn rung(way: &ScalingWay, on_gpu: bool) -> Rung {
    let types = match way.wire {
        Wire::F32 => way.precision.name().to_owned(),
        Wire::F16 => format!("{}, gradients in fp16", way.precision.name()),
        Wire::Bf16 => format!("{}, gradients in bf16", way.precision.name()),
    };
    let (title, idea) = match way.ranks {
        true => (
            format!("One rank per device, {types}"),
            "Every rank has all weights and a part of the batch; gradients are all-reduced in buckets while the backward pass goes on, and each rank \
             makes the same update.",
        ),
        false => (
            format!("One process, {types}"),
            "One thread drives all devices: in every step it copies the weights to all of them, the gradients back to the first, and updates there.",
        ),
    };
    let schedule = if way.ranks { Schedule::Graph } else { Schedule::Launches };
    Rung {
        id: way.id().into(),
        title: title.into(),
        idea: idea.into(),
        requires: if on_gpu { way.precision.requires() } else { warpbook_record::Requires::Nothing },
        runner: if on_gpu {
            Runner::Kernels { specs: Vec::new(), schedule }
        } else {
            Runner::Cpu(if way.ranks { "a process or thread a rank".into() } else { "one after the other".into() })
        },
        variant_of: None,
    }
}

/// Returns the names of the lines in a scaling chart, such as "CIFAR-10 CNN, 512 a rank".
#[must_use]
pub fn scaling_lines(run: &Run) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for line in run.problems.iter().filter_map(|p| p.sweep.as_ref()).map(|s| &s.line) {
        if !lines.contains(line) {
            lines.push(line.clone());
        }
    }
    lines
}

/// Returns a table with one row for each measurement: ranks, samples per rank, time per step, samples per second, and
/// efficiency.
#[must_use]
pub fn scaling_table(run: &Run) -> Table {
    let headers =
        ["work", "way", "ranks", "samples each", "a step", "samples/s", "efficiency", "what travels"].map(String::from);
    let mut table = Table { headers: headers.into(), rows: Vec::new() };
    for line in scaling_lines(run) {
        for rung in &run.rungs {
            let is = |m: &&Measurement| m.rung == rung.id && m.problem.sweep.as_ref().is_some_and(|s| s.line == line);
            let mut rows: Vec<&Measurement> = run.measurements.iter().filter(is).collect();
            rows.sort_by_key(|m| m.problem.size());
            for m in rows {
                let (ranks, items) = (m.problem.size(), m.problem.items.unwrap_or(0));
                let [time, rate, efficiency] = match &m.outcome {
                    Outcome::Measured => [
                        m.median_us().map(figures::time).unwrap_or_default(),
                        m.items_per_s().map(|rate| format!("{rate:.0}")).unwrap_or_default(),
                        run.scaling_efficiency(m).map(figures::percent).unwrap_or_default(),
                    ],
                    Outcome::Skipped { why } => [format!("skipped: {why}"), String::new(), String::new()],
                    Outcome::Failed { error } => [format!("FAILED: {error}"), String::new(), String::new()],
                };
                let each = items.checked_div(ranks).unwrap_or(0);
                table.rows.push(vec![
                    line.clone(),
                    rung.title.to_string(),
                    ranks.to_string(),
                    each.to_string(),
                    time,
                    rate,
                    efficiency,
                    m.choice.clone().unwrap_or_default(),
                ]);
            }
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_main_problem_is_the_largest_batch_on_the_most_ranks() {
        let problem = |network: &str, scaling: &str, ranks: u64, batch: u64| {
            let sizes = vec![
                setting("network", network),
                setting("scaling", scaling),
                count("ranks", ranks, ""),
                count("batch", batch, "samples"),
            ];
            Problem::new("", "", sizes, Dtype::F32)
                .with(|p| p.sweep = Some(SweepPoint { size: ranks, line: String::new() }))
        };
        let problems = [
            problem("cifar10", "weak", 1, 512),
            problem("cifar10", "weak", 2, 1024),
            problem("cifar10", "strong", 2, 512),
            problem("cifar10", "weak", 2, 256),
            problem("cifar10", "strong", 2, 128),
            problem("mnist", "weak", 2, 4096),
        ];
        assert_eq!(main_problem(&problems), Some(&problems[1]));
        assert_eq!(main_problem(&[]), None);
    }
}
