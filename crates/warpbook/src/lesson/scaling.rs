//! Sentences of lesson 50 about several GPUs: where it runs, how a guess compares, and the estimate of a step.

use crate::prelude::experiment::*;
use crate::prelude::*;
use warpbook_charts::Table;
use warpbook_device::NcclId;
use warpbook_experiments::scaling::scaling_lines;
use warpbook_record::Measurement;

/// Returns the number of GPUs that can train together here: all of them, or none without NCCL.
#[must_use]
pub fn gpus_together(lab: &Lab) -> usize {
    let Some(device) = lab.device().cuda() else { return 0 };
    let has_nccl = NcclId::new(device).is_ok();
    if has_nccl { Inventory::cuda_devices().map_or(0, |all| all.len()) } else { 0 }
}

/// Returns a sentence for the top of the lesson that says where it measures.
#[must_use]
pub fn place(lab: &Lab, ranks: usize) -> String {
    let (gpus, name) = (gpus_together(lab), &lab.device().info().name);
    if gpus > 1 {
        return format!("There are {gpus} GPUs ({name}) and NCCL: steps are timed on them.");
    }
    let why = match lab.device().cuda() {
        None => format!("There is no GPU in this lab, which runs on the CPU ({name})."),
        Some(_) if gpus == 1 => format!("There is one GPU ({name}), and it takes two to train together."),
        Some(_) => format!("There is a GPU ({name}), and no NCCL, by which GPUs talk: pip install nvidia-nccl-cu13."),
    };
    format!(
        "{why} So {ranks} ranks train on the CPU: the same code from rendezvous to update, with a ring over TCP in place of NCCL. They share \
         its cores and its memory, so their times tell how to measure and not how GPUs scale."
    )
}

/// Returns the measurement of a rung on `ranks` ranks, in the first problem of a scaling record whose name contains the word.
fn found<'r>(run: &'r Run, word: &str, rung: &str, ranks: usize) -> Option<&'r Measurement> {
    let line = scaling_lines(run).into_iter().find(|line| line.contains(word))?;
    let is = |m: &&Measurement| {
        m.rung.starts_with(rung)
            && m.problem.size() == ranks as u64
            && m.problem.sweep.as_ref().is_some_and(|s| s.line == line)
    };
    run.measurements.iter().find(|m| is(m) && run.is_sound(m))
}

/// Returns the time of a step in microseconds: `word` is "a rank" for weak scaling and "in all" for strong scaling.
#[must_use]
pub fn step_us(run: &Run, word: &str, rung: &str, ranks: usize) -> Option<f64> {
    found(run, word, rung, ranks)?.median_us()
}

/// Returns the scaling efficiency in percent.
#[must_use]
pub fn efficiency_percent(run: &Run, word: &str, rung: &str, ranks: usize) -> Option<f64> {
    run.scaling_efficiency(found(run, word, rung, ranks)?).map(|e| 100.0 * e)
}

/// Factor within which the costs of messages and of bytes count as equal.
const ALIKE: f64 = 1.2;

/// Estimate of a training step on many GPUs, from measurements on a few GPUs and from assumptions.
#[derive(Debug, Clone, PartialEq)]
pub struct StepOnPaper {
    /// Forward pass, backward pass and update on one GPU, in microseconds.
    pub compute_us: f64,
    /// Share of `compute_us` that is the backward pass, during which gradients are sent.
    pub backward: f64,
    /// Number of bytes that the gradients have when they are sent.
    pub gradient_bytes: f64,
    /// Number of buckets in which the gradients are sent.
    pub buckets: u32,
    /// Bus bandwidth of an all-reduce within a machine, in bytes a second.
    pub link_bytes_per_s: f64,
    /// Number of GPUs of a machine.
    pub per_machine: u32,
    /// Bandwidth between machines for each GPU, in bytes a second.
    pub network_bytes_per_s: f64,
    /// Time of the shortest message, in microseconds.
    pub latency_us: f64,
    /// Standard deviation of a GPU's time for a step, as a share of that time.
    pub spread: f64,
    /// Hours between two failures of one GPU, including its machine and its network.
    pub hours_between_failures: f64,
}

/// Breakdown of the time of a step, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OnPaper {
    /// Number of GPUs.
    pub gpus: u32,
    /// Time to send the gradients' bytes around a ring, with all buckets one after the other.
    pub bytes_us: f64,
    /// Time of all messages apart from their bytes.
    pub messages_us: f64,
    /// Part of `bytes_us` and `messages_us` that is not hidden behind the backward pass.
    pub exposed_us: f64,
    /// Time that all GPUs wait for the slowest.
    pub waiting_us: f64,
    /// Time of the whole step.
    pub step_us: f64,
    /// Efficiency of weak scaling: the time on one GPU over the time of the step.
    pub efficiency: f64,
    /// Hours between two failures of any GPU.
    pub failure_hours: f64,
}

impl StepOnPaper {
    /// Estimates a step on this many GPUs, each with the same batch.
    ///
    /// A ring sends 2 (N - 1) / N of the bytes over its slowest link, in 2 (N - 1) messages a bucket (Patarasuk and Yuan, "Bandwidth optimal all-reduce
    /// algorithms for clusters of workstations", 2009). All buckets but the last may hide behind the rest of the backward pass. The slowest of N times that
    /// vary as Gaussian numbers is later than their mean by about sqrt(2 ln N) standard deviations.
    #[must_use]
    pub fn on(&self, gpus: u32) -> OnPaper {
        let (n, buckets) = (f64::from(gpus.max(1)), f64::from(self.buckets.max(1)));
        let bytes_per_s = if gpus <= self.per_machine { self.link_bytes_per_s } else { self.network_bytes_per_s };
        let bytes_us = 2.0 * (n - 1.0) / n * self.gradient_bytes / bytes_per_s * 1e6;
        let messages_us = 2.0 * (n - 1.0) * self.latency_us * buckets;
        let travel_us = bytes_us + messages_us;
        let behind_us = self.backward * self.compute_us * (1.0 - 1.0 / buckets);
        let exposed_us = (travel_us - behind_us).max(travel_us / buckets);
        let waiting_us = (2.0 * n.ln()).sqrt() * self.spread * self.compute_us;
        let step_us = self.compute_us + exposed_us + waiting_us;
        OnPaper {
            gpus,
            bytes_us,
            messages_us,
            exposed_us,
            waiting_us,
            step_us,
            efficiency: self.compute_us / step_us,
            failure_hours: self.hours_between_failures / n,
        }
    }

    /// Returns a table with a row for each number of GPUs.
    #[must_use]
    pub fn table(&self, gpus: &[u32]) -> Table {
        let headers = [
            "GPUs",
            "compute",
            "gradients: bytes",
            "gradients: messages",
            "of that not hidden",
            "waiting for the slowest",
            "a step",
            "efficiency",
            "a failure every",
        ];
        let time = crate::figures::time;
        let row = |gpus: &u32| {
            let p = self.on(*gpus);
            let hours = p.failure_hours;
            vec![
                gpus.to_string(),
                time(self.compute_us),
                time(p.bytes_us),
                time(p.messages_us),
                time(p.exposed_us),
                time(p.waiting_us),
                time(p.step_us),
                crate::figures::percent(p.efficiency),
                if hours < 48.0 { format!("{hours:.1} hours") } else { format!("{:.0} days", hours / 24.0) },
            ]
        };
        Table { headers: headers.map(String::from).into(), rows: gpus.iter().map(row).collect() }
    }

    /// Returns the largest cost apart from computing on `gpus` GPUs in a word: "waiting", "messages", "bytes" or "both".
    #[must_use]
    pub fn breaks_first(&self, gpus: u32) -> &'static str {
        let p = self.on(gpus);
        match p.messages_us / p.bytes_us {
            _ if p.exposed_us <= p.waiting_us => "waiting",
            r if r > ALIKE => "messages",
            r if r < 1.0 / ALIKE => "bytes",
            _ => "both",
        }
    }

    /// Describes the largest cost apart from computing on `gpus` GPUs.
    #[must_use]
    pub fn what_breaks(&self, gpus: u32) -> String {
        let p = self.on(gpus);
        let share = |us: f64| match 100.0 * us / p.step_us {
            share if share > 99.0 => format!("{share:.1} % of the step"),
            share => format!("{share:.0} % of the step"),
        };
        let what = match self.breaks_first(gpus) {
            "waiting" => {
                return format!(
                    "On {gpus} GPUs most is lost to waiting for the slowest of them: {}.",
                    share(p.waiting_us)
                );
            }
            "messages" => "the number of messages",
            "bytes" => "the bytes of the gradients",
            _ => "the number of messages and the bytes of the gradients alike",
        };
        format!(
            "On {gpus} GPUs most is lost to {what}, which the backward pass does not hide: {}.",
            share(p.exposed_us)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step() -> StepOnPaper {
        StepOnPaper {
            compute_us: 1000.0,
            backward: 0.6,
            gradient_bytes: 100e6,
            buckets: 4,
            link_bytes_per_s: 400e9,
            per_machine: 8,
            network_bytes_per_s: 50e9,
            latency_us: 5.0,
            spread: 0.01,
            hours_between_failures: 24.0 * 365.0 * 5.0,
        }
    }

    #[test]
    fn a_step_on_paper_adds_up() {
        let one = step().on(1);
        assert_eq!((one.step_us, one.efficiency, one.exposed_us), (1000.0, 1.0, 0.0));
        let eight = step().on(8);
        // The bytes are 1.75 times 100 MB at 400 GB/s; each of 4 buckets has 14 messages.
        assert!((eight.bytes_us - 437.5).abs() < 1e-9 && (eight.messages_us - 280.0).abs() < 1e-9, "{eight:?}");
        // Three quarters of the backward pass, which are 450 us, hide communication.
        assert!((eight.exposed_us - (717.5 - 450.0)).abs() < 1e-9, "{eight:?}");
        let on = |gpus: u32| step().on(gpus);
        assert!(on(9).bytes_us > 7.0 * on(8).bytes_us, "the slower network");
        assert!(on(1024).efficiency < on(64).efficiency && on(64).efficiency < on(8).efficiency);
        assert!(step().what_breaks(64).contains("the bytes"), "{}", step().what_breaks(64));
        assert!(step().what_breaks(1024).contains("number of messages"), "{}", step().what_breaks(1024));
        assert_eq!([64, 1024].map(|gpus| step().breaks_first(gpus)), ["bytes", "messages"]);
        let quiet = StepOnPaper { gradient_bytes: 1.0, latency_us: 0.0, ..step() };
        assert!(quiet.what_breaks(64).contains("waiting for the slowest"));
        let table = step().table(&[8, 1024]);
        assert!(table.rows.len() == 2 && table.rows[1][8] == "42.8 hours", "{table:?}");
    }
}
