//! The rungs of the convolution ladder.

use super::layers::Task;
use warpbook_nn::ops::Layout;
use warpbook_nn::ops::conv2d::cuda::{Form, Method, Pass};
use warpbook_record::{Dtype, KernelSpec, Requires, Rung, Runner, Schedule};

/// A GPU rung of the convolution ladder.
#[derive(Debug, Clone, Copy)]
pub(super) struct ConvolutionRung {
    id: &'static str,
    title: &'static str,
    idea: &'static str,
    pub method: Method,
    /// Passes that this rung computes. With shifted windows, the weight gradient needs a different kernel.
    passes: &'static [Pass],
    /// True if the rung is only for fp32, false if it is only for the data types of tensor cores; `None` if it supports
    /// both.
    fp32: Option<bool>,
}

const CPU: &str = "cpu_all_threads";
const LIBRARY: &str = "cudnn";

const ROWS: [ConvolutionRung; 9] = {
    use Pass::{Forward, InputGradient, WeightGradient};
    let all: &[Pass] = &[Forward, InputGradient, WeightGradient];
    [
        ConvolutionRung {
            id: LIBRARY,
            title: "cuDNN, best",
            idea: "The fastest of the ten engines that cuDNN's heuristics suggest first, of those that give the right result.",
            method: Method::Stock,
            passes: all,
            fp32: None,
        },
        ConvolutionRung {
            id: "01_direct",
            title: "Direct",
            idea: "A thread computes an output by the definition.",
            method: Method::Direct,
            passes: all,
            fp32: Some(true),
        },
        ConvolutionRung {
            id: "02_im2col",
            title: "im2col and GEMM",
            idea: "The windows are written out as a matrix, which the matrix product multiplies.",
            method: Method::Im2col,
            passes: all,
            fp32: None,
        },
        ConvolutionRung {
            id: "03_implicit_gemm",
            title: "Implicit GEMM",
            idea: "The product reads the windows from the image itself, on CUDA cores.",
            method: Method::ImplicitGemm,
            passes: all,
            fp32: Some(true),
        },
        ConvolutionRung {
            id: "04_implicit_tensor_cores",
            title: "Implicit GEMM, tensor cores",
            idea: "The same on tensor cores, with copies of 16 bytes where channels permit.",
            method: Method::ImplicitGemm,
            passes: all,
            fp32: Some(false),
        },
        ConvolutionRung {
            id: "05_shifted_windows",
            title: "Shifted windows",
            idea: "A tile of the image is copied to shared memory once, by TMA, and each tap multiplies it shifted, by wgmma.",
            method: Method::ShiftedWindows,
            passes: &[Forward, InputGradient],
            fp32: Some(false),
        },
        ConvolutionRung {
            id: "06_shifted_gradient",
            title: "Shifted gradient",
            idea: "The weight gradient of shifted tiles: a tile of dy is multiplied by the same tile of x for every tap.",
            method: Method::ShiftedWindows,
            passes: &[WeightGradient],
            fp32: Some(false),
        },
        ConvolutionRung {
            id: "07_few_channels",
            title: "Few channels",
            idea: "Windows of few channels are put together in registers.",
            method: Method::FewChannels,
            passes: &[Forward, WeightGradient],
            fp32: Some(false),
        },
        ConvolutionRung {
            id: "08_tma_im2col",
            title: "TMA im2col",
            idea: "TMA copies the windows of many channels tap by tap, and weights pass through shared memory with them.",
            method: Method::ManyChannels,
            passes: &[Forward, InputGradient],
            fp32: Some(false),
        },
    ]
};

/// Returns the entry of a rung; `None` for the CPU rung.
pub(super) fn row_of(rung: &Rung) -> Option<&'static ConvolutionRung> {
    ROWS.iter().find(|row| row.id == rung.id)
}

/// Returns all rungs, with the kernels that these tasks use on a GPU of this compute capability.
pub(super) fn rungs(tasks: &[Task], compute_capability: Option<(u32, u32)>) -> Vec<Rung> {
    let cpu = Rung::cpu(CPU, "CPU", "The same by all threads of the CPU, in fp32.", "all threads");
    std::iter::once(cpu).chain(ROWS.iter().map(|row| row.rung(tasks, compute_capability))).collect()
}

impl ConvolutionRung {
    pub fn form(&self, dtype: Dtype) -> Form {
        Form { method: self.method, dtype, layout: Layout::Nhwc }
    }

    /// Returns the kernels for a task. For im2col, the kernel of the matrix product is not included.
    pub fn kernels(&self, task: &Task, compute_capability: Option<(u32, u32)>) -> Vec<KernelSpec> {
        let is_fp32 = task.dtype == Dtype::F32;
        if !self.passes.contains(&task.pass) || self.fp32.is_some_and(|fp32| fp32 != is_fp32) {
            return Vec::new();
        }
        if self.method == Method::Im2col {
            let stored = if task.dtype == Dtype::Tf32 { Dtype::F32 } else { task.dtype };
            return warpbook_kernels::nn::conv2d::im2col(stored, Layout::Nhwc).into();
        }
        self.form(task.dtype).kernels(task.pass, &task.geometry(), compute_capability).unwrap_or_default()
    }

    fn rung(&self, tasks: &[Task], compute_capability: Option<(u32, u32)>) -> Rung {
        let mut specs: Vec<KernelSpec> = Vec::new();
        for spec in tasks.iter().flat_map(|task| self.kernels(task, compute_capability)) {
            if !specs.contains(&spec) {
                specs.push(spec);
            }
        }
        Rung {
            id: self.id.into(),
            title: self.title.into(),
            idea: self.idea.into(),
            requires: match self.method {
                Method::ShiftedWindows | Method::ManyChannels => Requires::Exactly("sm_90a".into()),
                Method::FewChannels => Requires::AtLeast(8, 0),
                _ => Requires::AtLeast(7, 5),
            },
            runner: match self.method {
                Method::Stock => Runner::Library("cuDNN".into()),
                _ => Runner::Kernels { specs, schedule: Schedule::Launches },
            },
            variant_of: None,
        }
    }

    /// Returns the reason why the row skips a task; `None` if it runs the task.
    pub fn obstacle(&self, task: &Task, compute_capability: Option<(u32, u32)>) -> Option<String> {
        if self.method == Method::Stock || !self.kernels(task, compute_capability).is_empty() {
            return None;
        }
        let why = match (self.fp32, task.dtype) {
            _ if !self.passes.contains(&task.pass) => match self.method {
                Method::ShiftedWindows => "another kernel's idea: rungs 05 and 06 share the passes",
                Method::ManyChannels => "leaves the weight gradient to shifted tiles",
                _ => "leaves the input gradient to the implicit product",
            },
            (Some(true), dtype) if dtype != Dtype::F32 => "is for fp32 only",
            (Some(false), Dtype::F32) => "is for the tensor cores' types: tf32, fp16, bf16",
            (_, Dtype::Tf32) => "is for fp16 and bf16",
            _ if self.method == Method::ShiftedWindows => {
                "takes channels and filters that nearly fill multiples of 32, and weights that leave room in shared memory"
            }
            _ if self.method == Method::ManyChannels => "is for weights that leave shared memory too little room",
            _ => "takes windows of at most 63 elements",
        };
        Some(why.into())
    }
}
