//! Arguments of the kernels that end a step or a part of it: the structs of `kernels/nn/step.cuh`, and the arrays to which they point.
#![allow(unsafe_code)]

use super::optimizer::Optimizer;
use super::optimizer::cuda::Control;
use std::any::Any;
use std::ffi::c_void;
use std::sync::Arc;
use warpbook_device::{DevicePtr, KernelArg, Slice};

/// The struct `Settings` of the kernels in `kernels/nn/step.cuh`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Settings {
    momentum_or_beta1: f64,
    beta2: f64,
    epsilon: f64,
    decay: f64,
    method: u32,
    nesterov: u32,
    decoupled: u32,
    unused: u32,
}

// SAFETY: the fields have the layout of the kernel's struct: four f64 and four 32-bit words.
unsafe impl KernelArg for Settings {
    fn as_arg(&self) -> *mut c_void {
        std::ptr::from_ref(self).cast_mut().cast()
    }
}

impl Settings {
    pub fn new(optimizer: &Optimizer) -> Self {
        let adam = |[beta1, beta2]: [f64; 2], epsilon, decay, decoupled| Self {
            momentum_or_beta1: beta1,
            beta2,
            epsilon,
            decay,
            method: 1,
            nesterov: 0,
            decoupled,
            unused: 0,
        };
        match *optimizer {
            Optimizer::Sgd { momentum, nesterov, weight_decay } => {
                Self { method: 0, nesterov: nesterov.into(), ..adam([momentum, 0.0], 0.0, weight_decay, 0) }
            }
            Optimizer::Adam { betas, epsilon, weight_decay } => adam(betas, epsilon, weight_decay, 0),
            Optimizer::AdamW { betas, epsilon, weight_decay } => adam(betas, epsilon, weight_decay, 1),
        }
    }
}

/// The struct `Verdict` of the kernels in `kernels/nn/step.cuh`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct VerdictArgs {
    settings: Settings,
    counters: DevicePtr,
    losses: DevicePtr,
    overflow: DevicePtr,
    found: DevicePtr,
    control: DevicePtr,
    loss_scale: DevicePtr,
    clip: DevicePtr,
    step: DevicePtr,
    withdraws: u64,
}

/// A last block's decision: whether a step changes the weights, and with which numbers. It replaces the kernels `judge_step` and `prepare`.
#[derive(Debug, Clone)]
pub(crate) struct Verdict {
    args: VerdictArgs,
    /// Keeps alive the arrays that `args` points to.
    owner: Option<Arc<dyn Any + Send + Sync>>,
}

// SAFETY: `args` has the layout of the kernel's struct: `Settings`, then eight pointers, each null or to an array of the right type, and a 64-bit word. `owner`
// keeps these arrays alive.
unsafe impl KernelArg for Verdict {
    fn as_arg(&self) -> *mut c_void {
        (&raw const self.args).cast_mut().cast()
    }

    fn arg_bytes(&self) -> usize {
        size_of_val(&self.args)
    }

    fn owner(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        self.owner.clone()
    }
}

impl Verdict {
    /// Returns a verdict that decides nothing.
    pub fn none() -> Self {
        Self { args: VerdictArgs::default(), owner: None }
    }

    /// Creates the verdict of a step: `counters` `[4]` and `losses` are arrays of the training, and `overflow` is a result of the norm. The verdict
    /// writes `control.found`; if that is `None`, nothing is decided.
    pub fn new(
        optimizer: &Optimizer,
        (counters, losses): (&Slice<u32>, &Slice<f64>),
        overflow: Option<&Slice<u32>>,
        control: Control<'_>,
    ) -> Self {
        let Control { rate_and_steps, step, found, loss_scale, clip } = control;
        let lengths = [counters.len(), rate_and_steps.len(), step.len()];
        assert_eq!(lengths, [4, 2, super::optimizer::cuda::STEP_WORDS], "the arrays are those of a training");
        let args = VerdictArgs {
            settings: Settings::new(optimizer),
            counters: counters.at(0),
            losses: losses.at(0),
            overflow: first(overflow),
            found: first(found),
            control: rate_and_steps.at(0),
            loss_scale: first(loss_scale),
            clip: first(clip),
            step: step.at(0),
            withdraws: 0,
        };
        let words = [Some(counters), overflow, found, Some(step)].map(Option::<&Slice<u32>>::cloned);
        let numbers = ([loss_scale, clip].map(Option::<&Slice<f32>>::cloned), losses.clone(), rate_and_steps.clone());
        Self { args, owner: Some(Arc::new((words, numbers))) }
    }

    /// Limits the verdict of a step whose numbers an earlier verdict has already written: now it can only revert the step.
    pub fn withdrawing(mut self) -> Self {
        self.args.withdraws = 1;
        self
    }
}

/// The struct `Scaler` of the kernels, which works like `torch.amp.GradScaler`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scaler {
    pub growth: f32,
    pub backoff: f32,
    pub interval: u32,
    pub unused: u32,
}

/// The struct `End` of the kernels in `kernels/nn/step.cuh`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct EndArgs {
    n: u32,
    count: u32,
    slots: u32,
    unused: u32,
    scaler: Scaler,
    counters: DevicePtr,
    found: DevicePtr,
    scale: DevicePtr,
    grown: DevicePtr,
    norm: DevicePtr,
    skipped: DevicePtr,
    scales: DevicePtr,
    norms: DevicePtr,
}

/// Arrays that the end of a step reads and writes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StepEndArrays<'a> {
    /// Number of samples of the step, and number of samples in the order.
    pub samples: [u32; 2],
    pub scaler: Scaler,
    /// Training counters, `[4]`.
    pub counters: &'a Slice<u32>,
    /// Nonzero if the step was skipped, `[1]`.
    pub found: Option<&'a Slice<u32>>,
    /// The loss scale, and the number of steps since it last changed, `[1]` each.
    pub scale: Option<(&'a Slice<f32>, &'a Slice<u32>)>,
    /// Norm of the gradients, `[1]`.
    pub norm: Option<&'a Slice<f64>>,
    /// Skip flags, loss scales and norms of the steps, `[slots]` each.
    pub skipped: &'a Slice<u32>,
    pub scales: &'a Slice<f32>,
    pub norms: &'a Slice<f64>,
}

/// The end of a step, executed by `finish_step` or by the optimiser's last block.
#[derive(Debug, Clone)]
pub(crate) struct End {
    args: EndArgs,
    /// Keeps alive the arrays that `args` points to.
    owner: Arc<dyn Any + Send + Sync>,
}

// SAFETY: `args` has the layout of the kernel's struct: four words, `Scaler`, then eight pointers, each null or to an array of the right type. `owner` keeps
// these arrays alive.
unsafe impl KernelArg for End {
    fn as_arg(&self) -> *mut c_void {
        (&raw const self.args).cast_mut().cast()
    }

    fn arg_bytes(&self) -> usize {
        size_of_val(&self.args)
    }

    fn owner(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        Some(self.owner.clone())
    }
}

impl End {
    pub fn new(e: StepEndArrays<'_>) -> Self {
        let (slots, [n, count]) = (e.skipped.len(), e.samples);
        assert_eq!([e.counters.len(), e.scales.len(), e.norms.len()], [4, slots, slots], "the rings are as long");
        let args = EndArgs {
            n,
            count,
            slots: u32::try_from(slots).unwrap_or(u32::MAX),
            unused: 0,
            scaler: e.scaler,
            counters: e.counters.at(0),
            found: first(e.found),
            scale: first(e.scale.map(|(scale, _)| scale)),
            grown: first(e.scale.map(|(_, grown)| grown)),
            norm: first(e.norm),
            skipped: e.skipped.at(0),
            scales: e.scales.at(0),
            norms: e.norms.at(0),
        };
        let words = [Some(e.counters), e.found, Some(e.skipped)].map(Option::<&Slice<u32>>::cloned);
        let scale = e.scale.map(|(scale, grown)| (scale.clone(), grown.clone()));
        let numbers = (scale, e.norm.cloned(), e.scales.clone(), e.norms.clone());
        Self { args, owner: Arc::new((words, numbers)) }
    }
}

/// Returns the address of the slice's first element, or null.
fn first<T>(slice: Option<&Slice<T>>) -> DevicePtr {
    slice.map_or(DevicePtr::NULL, |slice| {
        assert!(!slice.is_empty(), "one number at least");
        slice.at(0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::optimizer::cuda::STEP_WORDS;
    use std::mem::{offset_of, size_of};

    #[test]
    fn structs_are_those_of_the_kernels() {
        let sizes = [size_of::<Settings>(), 4 * STEP_WORDS, size_of::<VerdictArgs>(), size_of::<EndArgs>()];
        let [settings, step, verdict, end] = sizes;
        let said = format!(
            "sizeof(Settings) == {settings} && sizeof(Step) == {step} && sizeof(Verdict) == {verdict} && sizeof(End) == {end}"
        );
        let header = warpbook_kernels::HEADERS.iter().find(|h| h.path == "nn/step.cuh").unwrap();
        assert!(header.text.contains(&said), "{said}");
        // The structs have no padding, so only the order of the fields could differ.
        let fields = |name: &str| -> Vec<&str> {
            let body = header.text.split_once(&format!("struct {name} {{\n")).unwrap().1.split_once("};").unwrap().0;
            let name = |line: &'static str| {
                line.split("/*").next().and_then(|l| l.split([' ', ';', '*']).rfind(|w| !w.is_empty()))
            };
            body.lines().filter_map(name).collect()
        };
        let of_verdict = "settings counters losses overflow found control loss_scale clip step withdraws";
        assert_eq!(fields("Verdict").join(" "), of_verdict);
        let [first, last] = [offset_of!(VerdictArgs, counters), offset_of!(VerdictArgs, withdraws)];
        assert_eq!((first, last), (48, 48 + 8 * 8));
        let of_end = ["unused", "scaler", "counters", "found", "scale", "grown", "norm", "skipped", "scales", "norms"];
        assert_eq!(fields("End"), of_end, "the first line has n, count, slots, unused");
        assert_eq!((offset_of!(EndArgs, scaler), offset_of!(EndArgs, norms)), (16, 32 + 7 * 8));
    }

    #[test]
    fn a_verdict_of_nothing_points_nowhere() {
        let none = Verdict::none();
        assert!(none.args.found == DevicePtr::NULL && none.owner().is_none());
    }
}
