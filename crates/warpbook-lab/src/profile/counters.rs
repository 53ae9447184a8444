//! Hardware counters of each kernel in a part of a program, with kernel names.

use crate::{Error, Lab, Result};
use std::cell::RefCell;
use warpbook_device::{Activity, ActivityKind, Counted, Counters, CudaDevice, Recorder};
use warpbook_record::counters::metric;
use warpbook_record::{CounterValue, KernelCounters};

/// The metrics that [`Lab::counters`] reads, with the names used by Nsight Compute. Metrics that a chip lacks are skipped.
pub const METRICS: [&str; 45] = [
    metric::TIME,
    metric::DRAM[0],
    metric::DRAM[1],
    metric::L2,
    metric::L2_HITS,
    metric::LOADS[0],
    metric::LOADS[1],
    metric::STORES[0],
    metric::STORES[1],
    metric::CONFLICTS[0],
    metric::CONFLICTS[1],
    metric::WAVEFRONTS,
    metric::ISSUE,
    metric::LANES,
    metric::WARPS,
    metric::TENSOR,
    metric::FP32[0].0,
    metric::FP32[1].0,
    metric::FP32[2].0,
    metric::TENSOR_OPS[0].0,
    metric::TENSOR_OPS[1].0,
    metric::TENSOR_OPS[2].0,
    metric::TENSOR_OPS[3].0,
    metric::TENSOR_OPS[4].0,
    metric::TENSOR_OPS[5].0,
    metric::TENSOR_OPS[6].0,
    "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio",
    "smsp__average_warps_issue_stalled_branch_resolving_per_issue_active.ratio",
    "smsp__average_warps_issue_stalled_dispatch_stall_per_issue_active.ratio",
    "smsp__average_warps_issue_stalled_drain_per_issue_active.ratio",
    "smsp__average_warps_issue_stalled_gmma_per_issue_active.ratio",
    "smsp__average_warps_issue_stalled_imc_miss_per_issue_active.ratio",
    "smsp__average_warps_issue_stalled_lg_throttle_per_issue_active.ratio",
    "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio",
    "smsp__average_warps_issue_stalled_math_pipe_throttle_per_issue_active.ratio",
    "smsp__average_warps_issue_stalled_membar_per_issue_active.ratio",
    "smsp__average_warps_issue_stalled_mio_throttle_per_issue_active.ratio",
    "smsp__average_warps_issue_stalled_misc_per_issue_active.ratio",
    "smsp__average_warps_issue_stalled_no_instruction_per_issue_active.ratio",
    "smsp__average_warps_issue_stalled_not_selected_per_issue_active.ratio",
    "smsp__average_warps_issue_stalled_selected_per_issue_active.ratio",
    "smsp__average_warps_issue_stalled_short_scoreboard_per_issue_active.ratio",
    "smsp__average_warps_issue_stalled_sleeping_per_issue_active.ratio",
    "smsp__average_warps_issue_stalled_tex_throttle_per_issue_active.ratio",
    "smsp__average_warps_issue_stalled_wait_per_issue_active.ratio",
];

/// The name under which all kernels of a run are counted together.
const WHOLE: &str = "whole run";

/// The values of hardware counters.
#[derive(Debug, Clone, PartialEq)]
pub struct HardwareCounters {
    /// Name of the library that reads the counters, and the number of passes.
    pub source: String,
    /// Counter values of the kernels, in launch order.
    pub kernels: Vec<KernelCounters>,
    /// Notes needed to read the values.
    pub notes: Vec<String>,
}

impl Lab {
    /// Reads hardware counters of each kernel that a part of a program launches: bytes of DRAM and L2, sectors per request, bank conflicts, issue slots, stall
    /// reasons, use of the tensor cores and their operations ([`METRICS`]). The part runs once for each pass of the hardware, about ten times, so it must
    /// launch the same work each time. While counters are read, kernels run one after another. If the kernels of a graph cannot be told apart, the launch of
    /// the graph is counted as a whole.
    ///
    /// ```no_run
    /// # use warpbook_lab::Lab;
    /// # let lab = Lab::new()?;
    /// # let device = lab.device().cuda().expect("a GPU");
    /// # let (stream, x, y) = (device.stream()?, device.zeros::<f32>(1 << 20)?.range(..), device.zeros::<f32>(1 << 20)?.range(..));
    /// let counted = lab.counters(|| Ok(stream.copy(&x, &y)?))?;
    /// println!("{}", counted.text());
    /// # Ok::<(), warpbook_lab::Error>(())
    /// ```
    ///
    /// # Errors
    /// If there is no GPU or no CUPTI of CUDA 12.6 or later, if the driver lets only administrators read counters (the
    /// error says what to do), or if the part fails.
    pub fn counters(&self, part: impl FnMut() -> Result<()>) -> Result<HardwareCounters> {
        self.counters_of(&METRICS, part)
    }

    /// Reads other metrics, with the names used by Nsight Compute (`ncu --query-metrics`).
    ///
    /// # Errors
    /// See [`Lab::counters`].
    pub fn counters_of(&self, metrics: &[&str], part: impl FnMut() -> Result<()>) -> Result<HardwareCounters> {
        self.counters_after(metrics, || Ok(()), part)
    }

    /// Reads the counters, with an uncounted call of `before` ahead of each run.
    pub(crate) fn counters_after(
        &self,
        metrics: &[&str],
        before: impl FnMut() -> Result<()>,
        part: impl FnMut() -> Result<()>,
    ) -> Result<HardwareCounters> {
        let device = self.device().cuda().ok_or(warpbook_device::Error::NeedsCuda("A reading of hardware counters"))?;
        Ok(counted_on(device, metrics, before, part)??)
    }
}

/// Counts a part of a program. The inner error comes from CUPTI, for example because of missing permissions; the outer one comes from the part.
pub(super) fn counted_on(
    device: &CudaDevice,
    metrics: &[&str],
    before: impl FnMut() -> Result<()>,
    part: impl FnMut() -> Result<()>,
) -> Result<warpbook_device::Result<HardwareCounters>> {
    let runs = Runs { before: RefCell::new(before), part: RefCell::new(part), failed: RefCell::new(None) };
    let found = counted(device, metrics, &runs);
    // If the part fails, report its error, whatever CUPTI reports.
    match runs.failed.into_inner() {
        Some(error) => Err(error),
        None => Ok(found),
    }
}

/// A part of a program. If the part fails, its error is kept until CUPTI has finished.
struct Runs<B, P> {
    before: RefCell<B>,
    part: RefCell<P>,
    failed: RefCell<Option<Error>>,
}

impl<B: FnMut() -> Result<()>, P: FnMut() -> Result<()>> Runs<B, P> {
    fn before(&self) -> warpbook_device::Result<()> {
        self.kept((self.before.borrow_mut())())
    }

    fn run(&self) -> warpbook_device::Result<()> {
        self.kept((self.part.borrow_mut())())
    }

    fn kept(&self, done: Result<()>) -> warpbook_device::Result<()> {
        done.map_err(|error| {
            *self.failed.borrow_mut() = Some(error);
            warpbook_device::Error::Cancelled
        })
    }

    fn has_failed(&self) -> bool {
        self.failed.borrow().is_some()
    }
}

fn counted<B: FnMut() -> Result<()>, P: FnMut() -> Result<()>>(
    device: &CudaDevice,
    metrics: &[&str],
    runs: &Runs<B, P>,
) -> warpbook_device::Result<HardwareCounters> {
    let counters = Counters::open(device)?;
    // First-time work, such as loading a kernel, happens outside the counted runs.
    runs.before()?;
    runs.run()?;
    device.synchronize()?;
    let of_kernels = counters.of_kernels(metrics, || runs.before(), || runs.run());
    let (counted, is_whole) = match of_kernels {
        // For a graph that CUPTI cannot inspect, it returns a single range with zero counts.
        Ok(counted) if counted.values.iter().flatten().any(|v| *v > 0.0) => (counted, false),
        Err(error) if runs.has_failed() || error.is_sticky() => return Err(error),
        first => match (counters.of_run(metrics, || runs.before(), || runs.run()), first) {
            (Ok(counted), _) => (counted, true),
            (Err(_), Err(first)) => return Err(first),
            (Err(error), Ok(_)) => return Err(error),
        },
    };
    let source =
        format!("CUPTI {}, range profiler, {} passes on {}", counters.version(), counted.passes, counters.chip());
    // The counters and a recorder cannot be active at the same time.
    drop(counters);
    let names = if is_whole { Ok(Vec::new()) } else { launched(device, runs) };
    Ok(told(source, &counted, is_whole, names))
}

/// Returns the kernels of a run in launch order.
fn launched<B: FnMut() -> Result<()>, P: FnMut() -> Result<()>>(
    device: &CudaDevice,
    runs: &Runs<B, P>,
) -> warpbook_device::Result<Vec<Activity>> {
    runs.before()?;
    device.synchronize()?;
    let recorder = Recorder::start(device)?;
    runs.run()?;
    device.synchronize()?;
    let mut all = recorder.finish()?.activities;
    all.retain(|a| matches!(a.kind, ActivityKind::Kernel { .. }));
    all.sort_by_key(|a| (a.correlation, a.start_ns));
    Ok(all)
}

/// Adds the names of the kernels to the values, as far as the names are known.
fn told(
    source: String,
    counted: &Counted,
    is_whole: bool,
    names: warpbook_device::Result<Vec<Activity>>,
) -> HardwareCounters {
    let mut notes = Vec::new();
    let count = counted.values.len();
    if is_whole {
        notes.push("The kernels could not be told apart, as in a graph: the counters cover the whole run.".into());
    }
    if counted.dropped > 0 {
        notes.push(format!("Only the first {count} kernels were counted."));
    }
    let names = match names {
        _ if is_whole => Vec::new(),
        Ok(names) if names.len() == count || (counted.dropped > 0 && names.len() >= count) => names,
        Ok(names) => {
            notes.push(format!(
                "{count} kernels were counted and {} recorded, so that they have numbers and no names.",
                names.len()
            ));
            Vec::new()
        }
        Err(why) => {
            notes.push(format!("The kernels' names are not known: {why}"));
            Vec::new()
        }
    };
    let kernel = |(place, values): (usize, &Vec<f64>)| {
        let (name, grid) = match names.get(place) {
            Some(Activity { name, kind: ActivityKind::Kernel { grid, .. }, .. }) => (name.clone(), grid.to_vec()),
            _ if is_whole => (WHOLE.into(), Vec::new()),
            _ => (format!("kernel {}", place + 1), Vec::new()),
        };
        let value = |(metric, value): (&String, &f64)| CounterValue { metric: metric.clone(), value: *value };
        KernelCounters { kernel: name, grid, values: counted.metrics.iter().zip(values).map(value).collect() }
    };
    HardwareCounters { source, kernels: counted.values.iter().enumerate().map(kernel).collect(), notes }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Counted {
        use metric::{CONFLICTS, DRAM, LOADS, STALL, TIME, WAVEFRONTS};
        let stall = |reason: &str| format!("{}{reason}{}", STALL[0], STALL[1]);
        let metrics = [TIME, DRAM[0], DRAM[1], LOADS[0], LOADS[1], CONFLICTS[0], CONFLICTS[1], WAVEFRONTS];
        let stalls = ["long_scoreboard", "barrier", "selected"].map(stall);
        let first = vec![2000.0, 4096.0, 1024.0, 80.0, 10.0, 6.0, 2.0, 16.0, 5.5, 0.25, 1.0];
        let second = vec![1000.0, 64.0, f64::NAN, 0.0, 0.0, 0.0, 0.0, 0.0, 0.5, 1.5, 1.0];
        let metrics = metrics.map(str::to_owned).into_iter().chain(stalls).collect();
        Counted { metrics, values: vec![first, second], passes: 8, dropped: 0 }
    }

    fn launch(name: &str) -> Activity {
        let kind = ActivityKind::Kernel { grid: [4, 2, 1], block: [128, 1, 1], registers: 32, shared_bytes: 0 };
        Activity { kind, name: name.into(), start_ns: 0, duration_ns: 5, stream: 7, correlation: 1, graph: None }
    }

    #[test]
    fn metrics_are_those_that_are_read_and_each_is_there_once() {
        let mut all = METRICS.to_vec();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), METRICS.len());
        let [before, after] = metric::STALL;
        assert_eq!(METRICS.iter().filter(|m| m.starts_with(before) && m.ends_with(after)).count(), 19);
        for (wanted, _) in metric::TENSOR_OPS {
            assert!(METRICS.contains(&wanted), "{wanted}");
        }
    }

    /// Queries the installed library, if there is one; this needs no GPU.
    #[test]
    fn chips_have_every_metric_but_those_of_others() {
        // Chips differ in the metrics of their tensor cores.
        let chips = [
            ("GH100", vec!["bf16_dst_fp32", "fp16", "tf32_dst_fp32", "fp64"]),
            ("GA100", vec!["bf16_dst_fp32", "fp16_dst_fp16", "fp16_dst_fp32", "tf32_dst_fp32", "fp64"]),
        ];
        let all = chips.map(|(chip, ops)| (warpbook_device::counter_passes(chip, &METRICS), chip, ops));
        for (found, chip, ops) in all {
            let (known, passes) = match found {
                Ok(found) => found,
                Err(why) => return skipped(why),
            };
            let names: Vec<String> = ops.iter().map(|o| format!("sm__ops_path_tensor_src_{o}.sum")).collect();
            let counted: Vec<&String> = known.iter().filter(|m| m.contains("ops_path_tensor")).collect();
            assert_eq!(counted, names.iter().collect::<Vec<_>>(), "{chip}");
            println!("{chip}: {passes} passes");
            if chip == "GH100" {
                assert_eq!(known.len(), METRICS.len() - metric::TENSOR_OPS.len() + names.len());
                assert!((2..=20).contains(&passes), "{passes}");
            }
        }
        fn skipped(why: warpbook_device::Error) {
            warpbook_device::testing::skip(
                "chips_have_every_metric_but_those_of_others",
                "needs CUPTI of CUDA 12.6 or later, which is installed for a GPU",
                why,
            );
        }
    }

    #[test]
    fn kernels_have_names_rates_and_what_they_wait_for() {
        let found = told("CUPTI".into(), &sample(), false, Ok(vec![launch("axpy"), launch("late")]));
        assert_eq!((found.notes.len(), found.kernels.len()), (0, 2));
        let [first, second] = &found.kernels[..] else { unreachable!() };
        assert_eq!(
            (first.kernel.as_str(), &first.grid[..], first.value(metric::DRAM[0])),
            ("axpy", &[4, 2, 1][..], Some(4096.0))
        );
        assert_eq!((first.ratio(metric::LOADS), second.ratio(metric::LOADS)), (Some(8.0), None));
        assert_eq!(second.value(metric::DRAM[1]), None, "not a number");
        let text = found.text();
        for part in ["axpy", "late", "long scoreboard 5.50", "barrier 1.50", "8.00", "50 %", "CUPTI"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn kernels_whose_names_are_not_known_have_numbers_and_a_reason() {
        let numbered = |names| told("CUPTI".into(), &sample(), false, names);
        let found = numbered(Ok(vec![launch("axpy")]));
        assert_eq!(found.kernels[1].kernel, "kernel 2");
        assert!(found.notes[0].contains("2 kernels were counted and 1 recorded"), "{:?}", found.notes);
        assert!(numbered(Err(warpbook_device::Error::NoDriver)).notes[0].contains("names are not known"));
        let dropped = Counted { dropped: 3, ..sample() };
        let found = told("CUPTI".into(), &dropped, false, Ok(vec![launch("a"), launch("b"), launch("c")]));
        assert_eq!(
            (found.kernels[1].kernel.as_str(), &*found.notes[0]),
            ("b", "Only the first 2 kernels were counted.")
        );
        let whole = told("CUPTI".into(), &sample(), true, Ok(Vec::new()));
        assert!(whole.kernels[0].kernel == WHOLE && whole.notes[0].contains("could not be told apart"));
    }

    #[test]
    fn without_a_gpu_it_says_so() {
        let lab = Lab::open("cpu").unwrap();
        let said = lab.counters(|| Ok(())).unwrap_err().to_string();
        assert!(said.contains("hardware counters needs a CUDA device"), "{said}");
    }
}
