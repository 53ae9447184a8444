//! Hardware counters of each kernel of a part of a program, with the kernels' names.

use crate::{Error, Lab, Result};
use std::cell::RefCell;
use warpbook_device::{Activity, ActivityKind, Counted, Counters, CudaDevice, Recorder};
use warpbook_record::{CounterValue, KernelCounters};

/// Nanoseconds.
pub(crate) const TIME: &str = "gpu__time_duration.sum";
pub(crate) const DRAM_READ: &str = "dram__bytes_read.sum";
pub(crate) const DRAM_WRITTEN: &str = "dram__bytes_write.sum";
pub(crate) const L2: &str = "lts__t_bytes.sum";
/// Per cent.
pub(crate) const L2_HITS: &str = "lts__t_sector_hit_rate.pct";
/// Sectors of 32 bytes, and requests of warps.
pub(crate) const LOADS: [&str; 2] =
    ["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum", "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"];
pub(crate) const STORES: [&str; 2] =
    ["l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum", "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum"];
/// Wavefronts that conflicts add, of loads and stores, and all of shared memory.
pub(crate) const CONFLICTS: [&str; 2] = [
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
];
pub(crate) const WAVEFRONTS: &str = "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum";
/// Per cent of cycles in which a scheduler issues; of the warps that a multiprocessor can hold; of cycles in which the tensor cores compute.
pub(crate) const ISSUE: &str = "smsp__issue_active.avg.pct_of_peak_sustained_active";
pub(crate) const WARPS: &str = "sm__warps_active.avg.pct_of_peak_sustained_active";
pub(crate) const TENSOR: &str = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active";
/// What a reason's metric has around its name: warps that wait for it, of one scheduler, while it issues one instruction.
const STALL: [&str; 2] = ["smsp__average_warps_issue_stalled_", "_per_issue_active.ratio"];

/// What [`Lab::counters`] reads, by the names of Nsight Compute. A chip that lacks some is asked for the others.
pub const METRICS: [&str; 37] = [
    TIME,
    DRAM_READ,
    DRAM_WRITTEN,
    L2,
    L2_HITS,
    LOADS[0],
    LOADS[1],
    STORES[0],
    STORES[1],
    CONFLICTS[0],
    CONFLICTS[1],
    WAVEFRONTS,
    ISSUE,
    WARPS,
    TENSOR,
    "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum",
    "smsp__sass_thread_inst_executed_op_fmul_pred_on.sum",
    "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum",
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

/// The name of a kernel that stands for all of a run.
const WHOLE: &str = "whole run";

/// What the hardware counted.
#[derive(Debug, Clone, PartialEq)]
pub struct HardwareCounters {
    /// What counted, and in how many passes.
    pub source: String,
    /// In the order of the launches.
    pub kernels: Vec<KernelCounters>,
    /// What a reader has to know.
    pub notes: Vec<String>,
}

/// Reasons for which warps wait, with how many wait for each while an instruction is issued, the most first. That a warp is chosen ("selected") is no stall.
#[must_use]
pub fn stalls(kernel: &KernelCounters) -> Vec<(String, f64)> {
    let reason = |v: &CounterValue| {
        let name = v.metric.strip_prefix(STALL[0])?.strip_suffix(STALL[1])?;
        Some((name.replace('_', " "), v.value)).filter(|(name, value)| name != "selected" && value.is_finite())
    };
    let mut all: Vec<(String, f64)> = kernel.values.iter().filter_map(reason).collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    all
}

/// Sectors of 32 bytes that a request of a warp leads to; 4 where a warp reads 128 bytes in a row. `None` without a request.
pub(crate) fn sectors_a_request(kernel: &KernelCounters, [sectors, requests]: [&str; 2]) -> Option<f64> {
    let (sectors, requests) = (kernel.value(sectors)?, kernel.value(requests)?);
    (requests > 0.0).then(|| sectors / requests)
}

impl Lab {
    /// Reads hardware counters of each kernel that a part of a program launches: bytes of DRAM and L2, sectors a request, bank conflicts, issue slots, stall
    /// reasons, use of the tensor cores ([`METRICS`]). The part is run once for each pass of the hardware's, about ten times, so that it has to launch the
    /// same each time; kernels run one after the other then. Where a graph's kernels cannot be told apart, its launch is counted as a whole.
    ///
    /// ```no_run
    /// # use warpbook::prelude::*;
    /// # let lab = Lab::new()?;
    /// # let device = lab.device().cuda().expect("a GPU");
    /// # let (stream, x, y) = (device.stream()?, device.zeros::<f32>(1 << 20)?.range(..), device.zeros::<f32>(1 << 20)?.range(..));
    /// let counted = lab.counters(|| Ok(stream.copy(&x, &y)?))?;
    /// println!("{}", counted.text());
    /// # Ok::<(), warpbook::Error>(())
    /// ```
    ///
    /// # Errors
    /// There is no GPU, no CUPTI of CUDA 12.6 or later, or the driver lets only administrators read counters, with what to do; and the part's.
    pub fn counters(&self, part: impl FnMut() -> Result<()>) -> Result<HardwareCounters> {
        self.counters_of(&METRICS, part)
    }

    /// The same with other metrics, by the names of Nsight Compute (`ncu --query-metrics`).
    ///
    /// # Errors
    /// As of [`Lab::counters`].
    pub fn counters_of(&self, metrics: &[&str], part: impl FnMut() -> Result<()>) -> Result<HardwareCounters> {
        self.counters_after(metrics, || Ok(()), part)
    }

    /// The same where something is done before each run that is not counted.
    pub(crate) fn counters_after(
        &self,
        metrics: &[&str],
        before: impl FnMut() -> Result<()>,
        part: impl FnMut() -> Result<()>,
    ) -> Result<HardwareCounters> {
        let device = self.device().cuda().ok_or(warpbook_device::Error::NeedsCuda("A reading of hardware counters"))?;
        let runs = Runs { before: RefCell::new(before), part: RefCell::new(part), failed: RefCell::new(None) };
        let found = counted(device, metrics, &runs);
        // What the part says is what went wrong, whatever CUPTI makes of it.
        match runs.failed.into_inner() {
            Some(error) => Err(error),
            None => Ok(found?),
        }
    }
}

/// A part of a program whose errors are kept while CUPTI is left.
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
    // What is slow once, as loading a kernel, is done outside.
    runs.before()?;
    runs.run()?;
    device.synchronize()?;
    let of_kernels = counters.of_kernels(metrics, || runs.before(), || runs.run());
    let (counted, is_whole) = match of_kernels {
        // Of a graph there is one range, in which nothing was counted.
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
    // There is no recorder next to it.
    drop(counters);
    let names = if is_whole { Ok(Vec::new()) } else { launched(device, runs) };
    Ok(told(source, &counted, is_whole, names))
}

/// The kernels of a run, in the order of their launches.
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

/// Values with the names of their kernels, as far as these are known.
fn told(
    source: String,
    counted: &Counted,
    is_whole: bool,
    names: warpbook_device::Result<Vec<Activity>>,
) -> HardwareCounters {
    let mut notes = Vec::new();
    let count = counted.values.len();
    if is_whole {
        notes.push(
            "The kernels could not be told apart, as in a graph: the counters are those of the whole run.".into(),
        );
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
    use crate::display::Show;

    fn sample() -> Counted {
        let metrics = [
            TIME,
            DRAM_READ,
            DRAM_WRITTEN,
            LOADS[0],
            LOADS[1],
            CONFLICTS[0],
            CONFLICTS[1],
            WAVEFRONTS,
            METRICS[25],
            METRICS[18],
            METRICS[32],
        ];
        let first = vec![2000.0, 4096.0, 1024.0, 80.0, 10.0, 6.0, 2.0, 16.0, 5.5, 0.25, 1.0];
        let second = vec![1000.0, 64.0, f64::NAN, 0.0, 0.0, 0.0, 0.0, 0.0, 0.5, 1.5, 1.0];
        Counted { metrics: metrics.map(str::to_owned).to_vec(), values: vec![first, second], passes: 8, dropped: 0 }
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
        assert_eq!(METRICS.iter().filter(|m| m.starts_with(STALL[0]) && m.ends_with(STALL[1])).count(), 19);
        for wanted in [L2, L2_HITS, STORES[0], STORES[1], ISSUE, WARPS, TENSOR] {
            assert!(METRICS.contains(&wanted), "{wanted}");
        }
    }

    /// By the library itself where it is, which needs no GPU.
    #[test]
    fn hopper_has_every_metric() {
        match warpbook_device::counter_passes("GH100", &METRICS) {
            Ok((known, passes)) => {
                assert_eq!(known, METRICS);
                println!("{passes} passes");
                assert!((2..=16).contains(&passes), "{passes}");
            }
            Err(why) => warpbook_device::testing::skip(
                "hopper_has_every_metric",
                "needs CUPTI of CUDA 12.6 or later, which is installed for a GPU",
                why,
            ),
        }
    }

    #[test]
    fn kernels_have_names_rates_and_what_they_wait_for() {
        let found = told("CUPTI".into(), &sample(), false, Ok(vec![launch("axpy"), launch("late")]));
        assert_eq!((found.notes.len(), found.kernels.len()), (0, 2));
        let [first, second] = &found.kernels[..] else { unreachable!() };
        assert_eq!(
            (first.kernel.as_str(), &first.grid[..], first.value(DRAM_READ)),
            ("axpy", &[4, 2, 1][..], Some(4096.0))
        );
        assert_eq!((sectors_a_request(first, LOADS), sectors_a_request(second, LOADS)), (Some(8.0), None));
        assert_eq!(second.value(DRAM_WRITTEN), None, "not a number");
        assert_eq!(
            stalls(first),
            [("long scoreboard".to_owned(), 5.5), ("barrier".to_owned(), 0.25)],
            "chosen is no stall"
        );
        let text = found.text();
        for part in ["axpy", "late", "long scoreboard 5.50", "barrier 1.50", "8.00", "50 %", "CUPTI"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(found.html().contains("axpy"));
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
