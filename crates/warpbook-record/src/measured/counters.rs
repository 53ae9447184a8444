//! Hardware counters of a kernel, and the figures derived from them.

use crate::Dtype;
use serde::{Deserialize, Serialize};

/// The metrics behind the derived figures, named as in NVIDIA's profilers.
pub mod metric {
    use crate::Dtype;

    /// Duration in nanoseconds.
    pub const TIME: &str = "gpu__time_duration.sum";
    /// Bytes read from DRAM, and bytes written to DRAM.
    pub const DRAM: [&str; 2] = ["dram__bytes_read.sum", "dram__bytes_write.sum"];
    /// Bytes between L1 and L2.
    pub const L2: &str = "lts__t_bytes.sum";
    /// L2 hit rate in percent.
    pub const L2_HITS: &str = "lts__t_sector_hit_rate.pct";
    /// Number of 32-byte sectors that loads access, and number of load requests.
    pub const LOADS: [&str; 2] =
        ["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum", "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"];
    /// Number of 32-byte sectors that stores access, and number of store requests.
    pub const STORES: [&str; 2] =
        ["l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum", "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum"];
    /// Wavefronts that bank conflicts add to loads, and to stores.
    pub const CONFLICTS: [&str; 2] = [
        "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
        "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
    ];
    /// All wavefronts of shared memory.
    pub const WAVEFRONTS: &str = "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum";
    /// Percent of cycles in which a scheduler issues an instruction.
    pub const ISSUE: &str = "smsp__issue_active.avg.pct_of_peak_sustained_active";
    /// Average number of threads, of the 32 of a warp, that execute an instruction.
    pub const LANES: &str = "smsp__thread_inst_executed_per_inst_executed.ratio";
    /// Average number of active warps, in percent of the warps that an SM can hold.
    pub const WARPS: &str = "sm__warps_active.avg.pct_of_peak_sustained_active";
    /// Percent of cycles in which the tensor cores compute.
    pub const TENSOR: &str = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active";
    /// A kernel with less than this percentage in `TENSOR` may not have used the tensor cores at all, since an H100 shows 0.13 for a kernel without any
    /// tensor-core instruction.
    pub const IDLE_PIPE: f64 = 1.0;
    /// Metrics of fp32 thread instructions (add, multiply, and fused multiply-add), with the operations of each instruction.
    pub const FP32: [(&str, f64); 3] = [
        ("smsp__sass_thread_inst_executed_op_fadd_pred_on.sum", 1.0),
        ("smsp__sass_thread_inst_executed_op_fmul_pred_on.sum", 1.0),
        ("smsp__sass_thread_inst_executed_op_ffma_pred_on.sum", 2.0),
    ];
    /// Floating-point operations of the tensor cores by input type; a multiplication and an addition count as two. No chip has all of these metrics: Hopper
    /// counts fp16 regardless of the type of its sums, other chips distinguish the type of the sums, and Turing only has the metric for sums in fp32.
    pub const TENSOR_OPS: [(&str, Dtype); 7] = [
        ("sm__ops_path_tensor_src_bf16_dst_fp32.sum", Dtype::Bf16),
        ("sm__ops_path_tensor_src_fp16.sum", Dtype::F16),
        ("sm__ops_path_tensor_src_fp16_dst_fp16.sum", Dtype::F16),
        ("sm__ops_path_tensor_src_fp16_dst_fp32.sum", Dtype::F16),
        ("sm__ops_path_tensor_src_fp16_bf16_tf32_dst_fp32.sum", Dtype::F16),
        ("sm__ops_path_tensor_src_tf32_dst_fp32.sum", Dtype::Tf32),
        ("sm__ops_path_tensor_src_fp64.sum", Dtype::F64),
    ];
    /// Text before and after the name of a stall reason in a metric. The value is the average number of a scheduler's
    /// warps that wait for that reason, per issued instruction.
    pub const STALL: [&str; 2] = ["smsp__average_warps_issue_stalled_", "_per_issue_active.ratio"];
}

/// Hardware counters of a kernel's run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KernelCounters {
    /// Name of the kernel, or a number if the name is unknown. "whole run" stands for all kernels together.
    pub kernel: String,
    /// Grid of blocks; empty if it is unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub grid: Vec<u32>,
    /// Counter values, named as in NVIDIA's profilers.
    pub values: Vec<CounterValue>,
}

/// Value of one hardware counter of a kernel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CounterValue {
    /// Name of the metric, such as "dram__bytes_read.sum".
    pub metric: String,
    /// Value in the metric's unit: bytes, sectors, cycles, percent or nanoseconds.
    #[serde(with = "crate::format::real::one")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::format::real::Real"))]
    pub value: f64,
}

impl KernelCounters {
    /// Returns the value of a metric, if it was collected and is a number.
    #[must_use]
    pub fn value(&self, metric: &str) -> Option<f64> {
        self.values.iter().find(|v| v.metric == metric).map(|v| v.value).filter(|v| v.is_finite())
    }

    /// Returns the sum of several metrics; `None` if one is missing.
    #[must_use]
    pub fn sum(&self, metrics: &[&str]) -> Option<f64> {
        metrics.iter().map(|m| self.value(m)).sum()
    }

    /// Returns the ratio of two metrics; `None` if one is missing or the divisor is zero.
    #[must_use]
    pub fn ratio(&self, [over, under]: [&str; 2]) -> Option<f64> {
        let (over, under) = (self.value(over)?, self.value(under)?);
        (under > 0.0).then(|| over / under)
    }

    /// Divides an amount by the kernel's time in seconds.
    #[must_use]
    pub fn per_s(&self, amount: Option<f64>) -> Option<f64> {
        let ns = self.value(metric::TIME).filter(|ns| *ns > 0.0)?;
        Some(amount? / ns * 1e9)
    }

    /// Returns the share of shared memory's wavefronts that bank conflicts add.
    #[must_use]
    pub fn bank_conflicts(&self) -> Option<f64> {
        let all = self.value(metric::WAVEFRONTS).filter(|all| *all > 0.0)?;
        Some(self.sum(&metric::CONFLICTS)? / all)
    }

    /// Returns the floating-point operations of the tensor cores, and the type of most of them; `None` if no such metric was collected.
    #[must_use]
    pub fn tensor_flops(&self) -> Option<(f64, Dtype)> {
        let counted = || metric::TENSOR_OPS.iter().filter_map(|(m, dtype)| Some((self.value(m)?, *dtype)));
        let (_, dtype) = counted().max_by(|a, b| a.0.total_cmp(&b.0))?;
        Some((counted().map(|c| c.0).sum(), dtype))
    }

    /// Returns the floating-point operations, with the type of most of them: tensor-core and fp32 operations together,
    /// or fp32 alone. `None` if they were not counted, as for a kernel that used tensor cores on a chip that does not
    /// count their operations.
    #[must_use]
    pub fn flops(&self) -> Option<(f64, Dtype)> {
        let fp32: Option<f64> = metric::FP32.iter().map(|(m, each)| Some(self.value(m)? * each)).sum();
        let pipe = self.value(metric::TENSOR).unwrap_or(0.0);
        match self.tensor_flops() {
            Some((flops, dtype)) if flops > 0.0 => Some((flops + fp32.unwrap_or(0.0), dtype)),
            // Some tensor-core operations, such as those on 8-bit numbers, have no metric.
            Some(_) if pipe >= metric::IDLE_PIPE => None,
            None if pipe > 0.0 => None,
            _ => Some((fp32?, Dtype::F32)),
        }
    }

    /// Returns the stall reasons, largest first, each with the average number of a scheduler's warps that wait for this reason per issued instruction. A warp
    /// that was chosen to issue ("selected") is not stalled.
    #[must_use]
    pub fn stalls(&self) -> Vec<(String, f64)> {
        let reason = |v: &CounterValue| {
            let name = v.metric.strip_prefix(metric::STALL[0])?.strip_suffix(metric::STALL[1])?;
            Some((name.replace('_', " "), v.value)).filter(|(name, value)| name != "selected" && value.is_finite())
        };
        let mut all: Vec<(String, f64)> = Vec::new();
        for (name, warps) in self.values.iter().filter_map(reason) {
            let place = all.iter().position(|s| s.1 < warps).unwrap_or(all.len());
            all.insert(place, (name, warps));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(values: &[(&str, f64)]) -> KernelCounters {
        let value = |(metric, value): &(&str, f64)| CounterValue { metric: (*metric).to_owned(), value: *value };
        KernelCounters { kernel: "k".into(), grid: vec![1], values: values.iter().map(value).collect() }
    }

    #[test]
    fn a_sum_needs_all_of_its_metrics() {
        let kernel = kernel(&[("a", 1.0), ("b", 2.0), ("c", f64::NAN)]);
        assert_eq!(
            (kernel.sum(&["a", "b"]), kernel.sum(&["a", "c"]), kernel.sum(&["a", "d"])),
            (Some(3.0), None, None)
        );
        assert_eq!((kernel.value("b"), kernel.ratio(["b", "a"])), (Some(2.0), Some(2.0)));
    }

    #[test]
    fn operations_are_those_of_the_tensor_cores_and_of_fp32() {
        let [add, multiply, both] = metric::FP32.map(|m| m.0);
        let fp32 = [(add, 1.0), (multiply, 2.0), (both, 10.0)];
        let with = |more: &[(&str, f64)]| kernel(&[&fp32[..], more].concat());
        assert_eq!(with(&[]).flops(), Some((23.0, Dtype::F32)));
        assert_eq!(with(&[(metric::TENSOR, 0.0), (metric::TENSOR_OPS[0].0, 0.0)]).flops(), Some((23.0, Dtype::F32)));
        // This chip does not count the operations of the tensor cores.
        assert_eq!(with(&[(metric::TENSOR, 40.0)]).flops(), None);
        let idle = with(&[(metric::TENSOR, 0.13), (metric::TENSOR_OPS[0].0, 0.0), (metric::TENSOR_OPS[1].0, 0.0)]);
        assert_eq!(idle.flops(), Some((23.0, Dtype::F32)), "the pipe shows a little without any of its instructions");
        let flops = |ops: &[(&str, f64)]| with(&[&[(metric::TENSOR, 40.0)], ops].concat()).flops();
        assert_eq!(flops(&[(metric::TENSOR_OPS[0].0, 0.0)]), None, "a type that is not counted");
        assert_eq!(
            flops(&[(metric::TENSOR_OPS[0].0, 0.0), (metric::TENSOR_OPS[1].0, 1e3)]),
            Some((1023.0, Dtype::F16))
        );
        assert_eq!(
            flops(&[(metric::TENSOR_OPS[0].0, 5e3), (metric::TENSOR_OPS[5].0, 1e3)]),
            Some((6023.0, Dtype::Bf16))
        );
        // Instructions are counted for each kernel, so a graph as a whole has no counts.
        assert_eq!(kernel(&[(metric::TENSOR_OPS[5].0, 1e3)]).flops(), Some((1e3, Dtype::Tf32)));
        assert_eq!(kernel(&[]).flops(), None);
    }

    #[test]
    fn reasons_to_wait_are_sorted_and_being_chosen_is_none() {
        let name = |reason: &str| format!("{}{reason}{}", metric::STALL[0], metric::STALL[1]);
        let names = [name("barrier"), name("long_scoreboard"), name("selected"), name("wait")];
        let values = [0.25, 5.5, 1.0, f64::NAN];
        let all: Vec<(&str, f64)> = names.iter().map(String::as_str).zip(values).collect();
        assert_eq!(kernel(&all).stalls(), [("long scoreboard".to_owned(), 5.5), ("barrier".to_owned(), 0.25)]);
    }

    #[test]
    fn rates_and_shares_need_something_to_be_shares_of() {
        let some = kernel(&[(metric::TIME, 2000.0), (metric::CONFLICTS[0], 6.0), (metric::CONFLICTS[1], 2.0)]);
        assert_eq!((some.per_s(Some(4.0)), some.per_s(None), some.bank_conflicts()), (Some(2e6), None, None));
        assert_eq!(kernel(&[(metric::TIME, 0.0)]).per_s(Some(1.0)), None);
        assert_eq!(kernel(&[(metric::LOADS[0], 8.0), (metric::LOADS[1], 0.0)]).ratio(metric::LOADS), None);
    }
}
