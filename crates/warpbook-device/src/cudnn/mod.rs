//! Convolutions by cuDNN, loaded from wherever it is.
//!
//! As cuBLAS, and for the same reasons: cudarc panics where there is none, and pip puts it where no loader looks. What is called is the graph
//! interface, which PyTorch calls too: a graph of one operation, the engines that the heuristics suggest for it, and a plan of one of them.
//! The older interface, of one function and a few algorithms for each pass, reaches fewer engines: in our layers it was two to ten times
//! slower. Signatures and numbers are those of cudnn_graph.h of version 9.

mod descriptor;
mod library;
mod plan;

use crate::capture::{between_captures, relaxed};
use crate::cublas::version;
use crate::cuda::Inner;
use crate::{CudaDevice, Error, Result};
use descriptor::{ConvolutionMode, DataType, Descriptor, Heuristics, Note, OfHandle};
use library::{Cudnn9, Handle, Status};
use plan::Built;
pub use plan::CudnnPlan;
use std::collections::HashMap;
use std::ffi::c_int;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use warpbook_record::Dtype;

/// `CUDNN_DATA_FLOAT`, `_HALF` and `_BFLOAT16`.
const FLOAT: DataType = DataType(0);
const HALF: DataType = DataType(2);
const BFLOAT16: DataType = DataType(9);
/// `CUDNN_CROSS_CORRELATION`.
const CROSS_CORRELATION: ConvolutionMode = ConvolutionMode(1);
/// `CUDNN_HEUR_MODE_A`, the better of the decision trees, and `_FALLBACK`, engines that take most shapes.
const HEURISTICS: [Heuristics; 2] = [Heuristics(3), Heuristics(2)];
/// Suggestions that are read of each.
const SUGGESTIONS: usize = 32;
/// Engines that [`Cudnn::plans`] builds at most, as PyTorch's `benchmark_limit`: some are compiled, which takes seconds.
const PLANS: usize = 10;
/// What arrays are aligned to, at least, in bytes.
const ALIGNMENT: u64 = 16;

/// Kinds of descriptors, and their attributes.
mod kind {
    use std::ffi::c_int;

    pub const CONVOLUTION: c_int = 1;
    pub const ENGINE: c_int = 2;
    pub const CONFIGURATION: c_int = 3;
    pub const HEURISTICS: c_int = 4;
    pub const PLAN: c_int = 5;
    pub const FORWARD: c_int = 10;
    pub const WEIGHT_GRADIENT: c_int = 11;
    pub const INPUT_GRADIENT: c_int = 12;
    pub const GRAPH: c_int = 15;
    pub const VARIANT_PACK: c_int = 16;
    pub const TENSOR: c_int = 17;
}

mod attribute {
    use std::ffi::c_int;

    pub const COMPUTE_TYPE: c_int = 100;
    pub const MODE: c_int = 101;
    pub const DILATIONS: c_int = 102;
    pub const STRIDES: c_int = 103;
    pub const POST_PADDINGS: c_int = 104;
    pub const PRE_PADDINGS: c_int = 105;
    pub const DIMENSIONS: c_int = 106;
    pub const HEURISTICS_MODE: c_int = 200;
    pub const HEURISTICS_GRAPH: c_int = 201;
    pub const HEURISTICS_RESULTS: c_int = 202;
    pub const CONFIGURATION_ENGINE: c_int = 300;
    pub const PLAN_HANDLE: c_int = 400;
    pub const PLAN_CONFIGURATION: c_int = 401;
    pub const PLAN_WORKSPACE: c_int = 402;
    pub const GRAPH_HANDLE: c_int = 800;
    pub const GRAPH_OPERATIONS: c_int = 801;
    pub const TENSOR_ALIGNMENT: c_int = 900;
    pub const TENSOR_TYPE: c_int = 901;
    pub const TENSOR_SIDES: c_int = 902;
    pub const TENSOR_STRIDES: c_int = 903;
    pub const TENSOR_ID: c_int = 906;
    pub const PACK_IDS: c_int = 1000;
    pub const PACK_ADDRESSES: c_int = 1001;
    pub const PACK_WORKSPACE: c_int = 1003;
    pub const ENGINE_INDEX: c_int = 1301;
    pub const ENGINE_NOTES: c_int = 1303;
}

/// `CUDNN_NUMERICAL_NOTE_*`: what an engine does to numbers.
mod note {
    use super::Note;

    pub const TENSOR_CORES: Note = Note(0);
    pub const ROUNDS_INPUTS: Note = Note(1);
    pub const SHORT_SUMS: Note = Note(2);
    pub const FFT: Note = Note(3);
    pub const NOT_DETERMINISTIC: Note = Note(4);
    pub const WINOGRAD: [Note; 4] = [Note(5), Note(6), Note(7), Note(8)];
    /// As many as there are.
    pub const COUNT: usize = 10;
}

/// A convolution as the library takes it: a cross-correlation, as in PyTorch. Pairs are height, width.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LibraryConvolution {
    /// Images.
    pub batch: u32,
    /// Channels of x.
    pub channels: u32,
    /// Height and width of x.
    pub x: [u32; 2],
    /// Channels of y.
    pub filters: u32,
    /// Height and width of y.
    pub y: [u32; 2],
    /// Size of a filter.
    pub kernel: [u32; 2],
    /// Step from one window to the next.
    pub stride: [u32; 2],
    /// Zeros added at each end of a side.
    pub padding: [u32; 2],
    /// Of x, y and the weight: `F32`, `Tf32` (stored as f32), `F16` or `Bf16`. Sums are in f32.
    pub dtype: Dtype,
    /// Images are NHWC and the weight is `[filters][kh][kw][channels]`; otherwise NCHW and `[filters][channels][kh][kw]`.
    pub channels_last: bool,
}

/// A pass of a convolution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ConvolutionPass {
    /// y of x and the weight.
    Forward,
    /// dx of the weight and dy.
    InputGradient,
    /// dw, of the type of x, of x and dy.
    WeightGradient,
}

/// The arrays that a descriptor is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Of {
    X,
    Weight,
    Y,
}

impl ConvolutionPass {
    /// Two inputs and the output, in the order of the library's arguments.
    fn arrays(self) -> [Of; 3] {
        match self {
            Self::Forward => [Of::X, Of::Weight, Of::Y],
            Self::InputGradient => [Of::Weight, Of::Y, Of::X],
            Self::WeightGradient => [Of::X, Of::Y, Of::Weight],
        }
    }

    /// The kind of its operation, and the first of the operation's attributes: the factor of the result.
    fn operation(self) -> (c_int, c_int) {
        match self {
            Self::Forward => (kind::FORWARD, 700),
            Self::InputGradient => (kind::INPUT_GRADIENT, 706),
            Self::WeightGradient => (kind::WEIGHT_GRADIENT, 712),
        }
    }
}

impl Of {
    /// Its place after an operation's first attribute, and its name in a graph.
    fn place(self) -> c_int {
        match self {
            Self::Weight => 3,
            Self::X => 4,
            Self::Y => 5,
        }
    }
}

impl LibraryConvolution {
    fn elements(&self, of: Of) -> [u32; 4] {
        match of {
            Of::X => [self.batch, self.channels, self.x[0], self.x[1]],
            Of::Weight => [self.filters, self.channels, self.kernel[0], self.kernel[1]],
            Of::Y => [self.batch, self.filters, self.y[0], self.y[1]],
        }
    }

    fn bytes(&self, of: Of) -> u64 {
        self.elements(of).iter().fold(self.dtype.bytes(), |all, side| all.saturating_mul((*side).into()))
    }

    /// Its sides as the library takes them: images, channels, rows, columns, in whatever order they lie.
    fn sides(&self, of: Of) -> Result<[i64; 4]> {
        let sides = self.elements(of);
        if sides.iter().any(|side| c_int::try_from(*side).unwrap_or(0) == 0) {
            return Err(self.refused(format!("needs sides from 1 to 2^31, and {of:?} has {sides:?}")));
        }
        Ok(sides.map(i64::from))
    }

    /// Elements from one index of each side to the next.
    fn strides(&self, [_, c, h, w]: [i64; 4]) -> [i64; 4] {
        if self.channels_last { [c * h * w, 1, w * c, c] } else { [c * h * w, h * w, w, 1] }
    }

    /// The type of its elements.
    fn data_type(&self) -> Result<DataType> {
        match self.dtype {
            Dtype::F32 | Dtype::Tf32 => Ok(FLOAT),
            Dtype::F16 => Ok(HALF),
            Dtype::Bf16 => Ok(BFLOAT16),
            other => Err(self.refused(format!("is asked for fp32, tf32, fp16 and bf16 here, not for {other:?}"))),
        }
    }

    /// Whether an engine computes what its type promises: fp32 without tensor cores, inputs as they are, sums in f32.
    fn permits(&self, notes: &[Note]) -> bool {
        let has = |note| notes.contains(&note);
        let is_wide = matches!(self.dtype, Dtype::F32 | Dtype::Tf32);
        !(has(note::SHORT_SUMS)
            || is_wide && has(note::ROUNDS_INPUTS)
            || self.dtype == Dtype::F32 && has(note::TENSOR_CORES))
    }

    fn refused(&self, why: String) -> Error {
        Error::Unsupported { what: "cuDNN".into(), why }
    }

    fn name(&self, pass: ConvolutionPass) -> String {
        let pass = match pass {
            ConvolutionPass::Forward => "a convolution",
            ConvolutionPass::InputGradient => "the input gradient of a convolution",
            ConvolutionPass::WeightGradient => "the weight gradient of a convolution",
        };
        let layout = if self.channels_last { "NHWC" } else { "NCHW" };
        let Self { batch, channels, x, filters, kernel, stride, padding, dtype, .. } = self;
        format!(
            "{pass} of {batch} images of {channels} x {x:?} with {filters} filters of {kernel:?}, stride {stride:?}, padding \
             {padding:?}, {layout} in {dtype:?}"
        )
    }
}

/// cuDNN on a device.
#[derive(Clone)]
pub struct Cudnn(Arc<Opened>);

struct Opened {
    library: Arc<Cudnn9>,
    device: Arc<Inner>,
    /// One call at a time: stream and convolution belong together.
    raw: Mutex<Handle>,
    name: Arc<str>,
}

// SAFETY: a handle may be used from any thread whose current context is its own, one at a time, which its lock sees to.
unsafe impl Send for Opened {}
// SAFETY: the handle is behind its lock.
unsafe impl Sync for Opened {}

impl Drop for Opened {
    fn drop(&mut self) {
        if self.device.may_free() {
            let raw = self.raw.get_mut().unwrap_or_else(PoisonError::into_inner);
            // SAFETY: the handle came from `open` and is not used again.
            between_captures(|| unsafe { (self.library.calls.destroy)(*raw) });
        }
    }
}

impl std::fmt::Debug for Cudnn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cudnn({:?} at {})", self.version(), self.0.library.path.display())
    }
}

/// The graph of one pass: its operation, with the arrays that it names by [`Of::place`].
fn graph(
    library: &Arc<Cudnn9>,
    handle: Handle,
    shape: &LibraryConvolution,
    pass: ConvolutionPass,
) -> Result<Result<Arc<Descriptor>, Status>> {
    let dtype = shape.data_type()?;
    let sides = [Of::Weight, Of::X, Of::Y].map(|of| shape.sides(of).map(|sides| (of, sides)));
    let sides = sides.into_iter().collect::<Result<Vec<_>>>()?;
    Ok(described(library, handle, shape, pass, dtype, &sides))
}

fn described(
    library: &Arc<Cudnn9>,
    handle: Handle,
    shape: &LibraryConvolution,
    pass: ConvolutionPass,
    dtype: DataType,
    sides: &[(Of, [i64; 4])],
) -> Result<Arc<Descriptor>, Status> {
    let pair = |[rows, columns]: [u32; 2]| [i64::from(rows), i64::from(columns)];
    let convolution = Descriptor::new(library, kind::CONVOLUTION)?
        .with(attribute::COMPUTE_TYPE, &[FLOAT])?
        .with(attribute::MODE, &[CROSS_CORRELATION])?
        .with(attribute::DIMENSIONS, &[2i64])?
        .with(attribute::DILATIONS, &[1i64, 1])?
        .with(attribute::STRIDES, &pair(shape.stride))?
        .with(attribute::PRE_PADDINGS, &pair(shape.padding))?
        .with(attribute::POST_PADDINGS, &pair(shape.padding))?
        .finalized()?;
    let (kind, first) = pass.operation();
    // Alpha, beta and the convolution come first. Beta is 0: the result is overwritten.
    let mut operation = Descriptor::new(library, kind)?
        .with(first, &[1f32])?
        .with(first + 1, &[0f32])?
        .with_part(first + 2, &convolution)?;
    for (of, sides) in sides {
        let array = Descriptor::new(library, kind::TENSOR)?
            .with(attribute::TENSOR_TYPE, &[dtype])?
            .with(attribute::TENSOR_SIDES, sides)?
            .with(attribute::TENSOR_STRIDES, &shape.strides(*sides))?
            .with(attribute::TENSOR_ALIGNMENT, &[ALIGNMENT as i64])?
            .with(attribute::TENSOR_ID, &[i64::from(of.place())])?
            .finalized()?;
        operation = operation.with_part(first + of.place(), &array)?;
    }
    Descriptor::new(library, kind::GRAPH)?
        .with(attribute::GRAPH_HANDLE, &[OfHandle(handle)])?
        .with_part(attribute::GRAPH_OPERATIONS, &operation.finalized()?)?
        .finalized()
}

/// An engine that the heuristics suggest, and how it is to be run.
struct Suggestion {
    configuration: Arc<Descriptor>,
    /// What the configuration is of.
    _heuristics: Arc<Descriptor>,
    engine: i64,
    notes: Vec<Note>,
    /// Its place among the suggestions, from 1.
    rank: usize,
}

impl Suggestion {
    fn is_deterministic(&self) -> bool {
        !self.notes.contains(&note::NOT_DETERMINISTIC)
    }

    /// In words, as "engine 46 on tensor cores".
    fn words(&self) -> String {
        let has = |note| self.notes.contains(&note);
        let method = match () {
            () if has(note::FFT) => " by FFT",
            () if note::WINOGRAD.iter().any(|n| has(*n)) => " by Winograd",
            () => "",
        };
        let place = if has(note::TENSOR_CORES) { "on tensor cores" } else { "without tensor cores" };
        format!("engine {}{method} {place}", self.engine)
    }
}

impl Cudnn {
    /// Finds cuDNN 9: `WARPBOOK_CUDNN`, the folder that it is in, or else a `.venv` above the working directory, `VIRTUAL_ENV`,
    /// `CONDA_PREFIX`, the loader's own search, `CUDA_HOME`, `CUDA_PATH` and `/usr/local/cuda`, in this order, one that was made
    /// for a later major version than the driver's CUDA passed over; then opens it on a device.
    ///
    /// # Errors
    /// [`Error::NoCudnn`] where there is none; [`Error::CudnnFailed`] where it does not load or start.
    pub fn open(device: &CudaDevice) -> Result<Self> {
        let library = Cudnn9::load(Some(device.driver_cuda()))?;
        device.0.bind()?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: the pointer is to a live value; the context is current.
        let status = between_captures(|| unsafe { (library.calls.create)(&raw mut raw) });
        if status != 0 {
            return Err(Error::CudnnFailed { path: library.path.clone(), why: library.describe(status) });
        }
        let name = Arc::from("of cuDNN, which does not tell its shape");
        Ok(Self(Arc::new(Opened { library, device: device.0.clone(), raw: Mutex::new(raw), name })))
    }

    /// (major, minor, patch) of the library that [`Cudnn::open`] would find.
    ///
    /// # Errors
    /// [`Error::NoCudnn`] or [`Error::CudnnFailed`].
    pub fn find(device: &CudaDevice) -> Result<(u32, u32, u32)> {
        let library = Cudnn9::load(Some(device.driver_cuda()))?;
        Ok(version(library.calls.property).unwrap_or_default())
    }

    /// (major, minor, patch).
    #[must_use]
    pub fn version(&self) -> (u32, u32, u32) {
        version(self.0.library.calls.property).unwrap_or_default()
    }

    /// Where it was found.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.library.path
    }

    /// A pass of a convolution by the engine that the library's heuristics hold to be the fastest: of those that give the same bits
    /// on every run and need no more than `workspace_bytes`, if there is one, else of all. Nothing is measured, so the choice is the
    /// same every time. The engine has been run once, on temporary arrays where there is room for them, so a capture loads nothing.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for a convolution that no engine takes; the device's.
    pub fn plan(&self, shape: &LibraryConvolution, pass: ConvolutionPass, workspace_bytes: u64) -> Result<CudnnPlan> {
        let mut suggestions = self.suggestions(shape, pass)?;
        // The sort is stable: the order of the suggestions stays.
        suggestions.sort_by_key(|s| !s.is_deterministic());
        let (mut larger, mut refused): (Option<CudnnPlan>, _) = (None, None);
        for suggestion in suggestions {
            let Some(plan) = self.built(shape, pass, suggestion) else { continue };
            if plan.workspace_bytes() > workspace_bytes {
                if larger.as_ref().is_none_or(|l| plan.workspace_bytes() < l.workspace_bytes()) {
                    larger = Some(plan);
                }
                continue;
            }
            match plan.try_out() {
                Ok(()) => return Ok(plan),
                Err(why) if why.is_sticky() => return Err(why),
                Err(why) => refused = Some(why),
            }
        }
        match larger {
            Some(plan) => plan.try_out().map(|()| plan),
            None => Err(refused.unwrap_or_else(|| shape.refused(format!("has no engine for {}", shape.name(pass))))),
        }
    }

    /// The pass by each of the first ten engines that take it, in the heuristics' order, whether or not they give the same bits on every
    /// run: to be timed. Each has been run once, as in [`Cudnn::plan`], and needs no more than `workspace_bytes`; there may be none.
    ///
    /// # Errors
    /// A convolution that the library cannot describe; the device's, after which it cannot be used.
    pub fn plans(
        &self,
        shape: &LibraryConvolution,
        pass: ConvolutionPass,
        workspace_bytes: u64,
    ) -> Result<Vec<CudnnPlan>> {
        let mut plans: Vec<CudnnPlan> = Vec::new();
        for suggestion in self.suggestions(shape, pass)? {
            if plans.len() == PLANS {
                break;
            }
            let fits = |plan: &CudnnPlan| plan.workspace_bytes() <= workspace_bytes;
            let Some(plan) = self.built(shape, pass, suggestion).filter(fits) else { continue };
            match plan.try_out() {
                Ok(()) => plans.push(plan),
                Err(why) if why.is_sticky() => return Err(why),
                Err(_) => {}
            }
        }
        Ok(plans)
    }

    /// The fastest of [`Cudnn::plans`], each timed on temporary arrays with undefined contents; [`Cudnn::plan`] where none of them could be timed. Later calls
    /// on this device choose the same engine, another process may choose another, and it may give other bits on every run.
    ///
    /// # Errors
    /// Those of [`Cudnn::plans`] and [`Cudnn::plan`].
    pub fn fastest(
        &self,
        shape: &LibraryConvolution,
        pass: ConvolutionPass,
        workspace_bytes: u64,
    ) -> Result<CudnnPlan> {
        let key = (*shape, pass, workspace_bytes);
        if let Some(rank) = self.0.device.fastest_engines.rank(&key) {
            let suggestion = self.suggestions(shape, pass)?.into_iter().find(|s| s.rank == rank);
            if let Some(plan) = suggestion.and_then(|s| self.built(shape, pass, s)) {
                plan.try_out()?;
                return Ok(plan);
            }
        }
        let mut best: Option<(f64, CudnnPlan)> = None;
        for plan in self.plans(shape, pass, workspace_bytes)? {
            let Some(us) = plan.timed()? else { continue };
            if best.as_ref().is_none_or(|(least, _)| us < *least) {
                best = Some((us, plan));
            }
        }
        let Some((_, plan)) = best else { return self.plan(shape, pass, workspace_bytes) };
        self.0.device.fastest_engines.remember(key, plan.rank());
        Ok(plan)
    }

    /// The engines that the heuristics suggest, the fastest first, of those that compute what the type promises.
    fn suggestions(&self, shape: &LibraryConvolution, pass: ConvolutionPass) -> Result<Vec<Suggestion>> {
        let Opened { library, device, raw, .. } = &*self.0;
        device.bind()?;
        let handle = raw.lock().unwrap_or_else(PoisonError::into_inner);
        // Relaxed here and below, since the library may load and unload kernels during a capture.
        let graph = relaxed(|| graph(library, *handle, shape, pass))?
            .map_err(|status| library.error(device, &|| shape.name(pass), status))?;
        let mut found = Vec::new();
        for mode in HEURISTICS {
            // One that knows nothing of the operation says that it is not supported.
            found.extend(relaxed(|| suggested(library, &graph, mode)).unwrap_or_default());
        }
        found.retain(|s| shape.permits(&s.notes));
        found.iter_mut().zip(1..).for_each(|(s, rank)| s.rank = rank);
        Ok(found)
    }

    /// The plan of a suggestion; `None` where the engine does not take the convolution after all.
    fn built(&self, shape: &LibraryConvolution, pass: ConvolutionPass, suggestion: Suggestion) -> Option<CudnnPlan> {
        let Opened { library, raw, .. } = &*self.0;
        let handle = raw.lock().unwrap_or_else(PoisonError::into_inner);
        let make = || {
            let plan = Descriptor::new(library, kind::PLAN)?
                .with(attribute::PLAN_HANDLE, &[OfHandle(*handle)])?
                .with_part(attribute::PLAN_CONFIGURATION, &suggestion.configuration)?
                .finalized()?;
            let workspace = plan.value(attribute::PLAN_WORKSPACE, 0i64)?;
            Ok::<_, Status>((plan, workspace))
        };
        let (descriptor, workspace) = relaxed(make).ok()?;
        let workspace_bytes = usize::try_from(workspace).ok()?;
        let built = Built { descriptor: Some(descriptor), workspace_bytes, suggestion, cudnn: self.clone() };
        Some(CudnnPlan { shape: *shape, pass, built: Arc::new(built) })
    }
}

/// The engines that [`Cudnn::fastest`] found on a device, by their place among the suggestions: a convolution that is prepared again has the same kernels,
/// though others may be as fast.
#[derive(Default)]
pub(crate) struct FastestEngines(Mutex<HashMap<Searched, usize>>);

/// What an engine was looked for: a convolution, its pass and the bytes of workspace.
type Searched = (LibraryConvolution, ConvolutionPass, u64);

impl FastestEngines {
    fn rank(&self, of: &Searched) -> Option<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(of).copied()
    }

    fn remember(&self, of: Searched, rank: usize) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(of, rank);
    }
}

/// What one of the heuristics suggests.
fn suggested(library: &Arc<Cudnn9>, graph: &Arc<Descriptor>, mode: Heuristics) -> Result<Vec<Suggestion>, Status> {
    let heuristics = Descriptor::new(library, kind::HEURISTICS)?
        .with_part(attribute::HEURISTICS_GRAPH, graph)?
        .with(attribute::HEURISTICS_MODE, &[mode])?
        .finalized()?;
    let results = heuristics.descriptors(attribute::HEURISTICS_RESULTS, kind::CONFIGURATION, SUGGESTIONS)?;
    let read = |configuration: Arc<Descriptor>| {
        let engine = configuration.descriptors(attribute::CONFIGURATION_ENGINE, kind::ENGINE, 1)?;
        let engine = engine.first().ok_or(0)?;
        Ok::<_, Status>(Suggestion {
            engine: engine.value(attribute::ENGINE_INDEX, -1i64)?,
            notes: engine.values(attribute::ENGINE_NOTES, [Note::default(); note::COUNT])?,
            configuration,
            _heuristics: heuristics.clone(),
            rank: 0,
        })
    };
    Ok(results.into_iter().filter_map(|configuration| read(configuration).ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape() -> LibraryConvolution {
        LibraryConvolution {
            batch: 2,
            channels: 3,
            x: [7, 5],
            filters: 4,
            y: [4, 3],
            kernel: [3, 3],
            stride: [2, 2],
            padding: [1, 1],
            dtype: Dtype::F16,
            channels_last: true,
        }
    }

    #[test]
    fn arrays_have_their_sides_and_types() {
        let s = shape();
        assert_eq!(s.bytes(Of::X), 2 * 2 * 3 * 7 * 5);
        assert_eq!(s.bytes(Of::Weight), 2 * 4 * 3 * 3 * 3);
        assert_eq!(s.bytes(Of::Y), 2 * 2 * 4 * 4 * 3);
        let of = |dtype| LibraryConvolution { dtype, ..s };
        let types = [Dtype::F32, Dtype::Tf32, Dtype::F16, Dtype::Bf16].map(|dtype| of(dtype).data_type().unwrap());
        assert_eq!(types, [FLOAT, FLOAT, HALF, BFLOAT16]);
        let x = s.sides(Of::X).unwrap();
        assert_eq!((x, s.strides(x)), ([2, 3, 7, 5], [105, 1, 15, 3]));
        assert_eq!(LibraryConvolution { channels_last: false, ..s }.strides(x), [105, 35, 5, 1]);
        let permitted = |note| [Dtype::F32, Dtype::Tf32, Dtype::F16].map(|dtype| of(dtype).permits(&[note]));
        assert_eq!(permitted(note::TENSOR_CORES), [false, true, true], "fp32 is no TF32");
        assert_eq!(permitted(note::ROUNDS_INPUTS), [false, false, true]);
        assert_eq!(permitted(note::SHORT_SUMS), [false; 3]);
        assert_eq!(permitted(note::NOT_DETERMINISTIC), [true; 3]);
        let refused =
            |s: LibraryConvolution| s.data_type().map(drop).and(s.sides(Of::X).map(drop)).unwrap_err().to_string();
        assert!(refused(LibraryConvolution { dtype: Dtype::F64, ..s }).contains("not for F64"));
        assert!(refused(LibraryConvolution { batch: 0, ..s }).contains("sides from 1"));
        assert!(refused(LibraryConvolution { x: [1 << 31, 1], ..s }).contains("2147483648"));
        for pass in [ConvolutionPass::Forward, ConvolutionPass::InputGradient, ConvolutionPass::WeightGradient] {
            let [a, b, c] = pass.arrays();
            assert!(a != b && b != c && a != c);
            assert!(s.name(pass).contains("2 images of 3 x [7, 5] with 4 filters of [3, 3]"), "{}", s.name(pass));
        }
    }

    /// The library says what it made of ours. It loads its engines for that, and they need a driver.
    #[test]
    fn descriptors_are_taken() {
        let Some(_device) = crate::testing::gpu("descriptors_are_taken by cuDNN") else { return };
        let Some(library) = library::tests::installed("descriptors_are_taken by cuDNN") else { return };
        let sides = [2i64, 3, 7, 5];
        let array = |alignment: i64| {
            Descriptor::new(&library, kind::TENSOR)?
                .with(attribute::TENSOR_TYPE, &[HALF])?
                .with(attribute::TENSOR_SIDES, &sides)?
                .with(attribute::TENSOR_STRIDES, &shape().strides(sides))?
                .with(attribute::TENSOR_ALIGNMENT, &[alignment])?
                .with(attribute::TENSOR_ID, &[7i64])?
                .finalized()
        };
        let made = array(16).unwrap_or_else(|status| panic!("{}", library.describe(status)));
        assert_eq!(made.values(attribute::TENSOR_SIDES, [0i64; 8]).unwrap(), sides);
        assert_eq!(made.value(attribute::TENSOR_ID, 0i64).unwrap(), 7);
        assert!(array(0).is_err());
    }

    #[test]
    fn handles_and_plans_may_change_threads() {
        fn check<T: Send + Sync + 'static>() {}
        check::<Cudnn>();
        check::<CudnnPlan>();
    }
}
