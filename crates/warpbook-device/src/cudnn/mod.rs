//! Convolutions by cuDNN, loaded from wherever it is.
//!
//! As cuBLAS, and for the same reasons: cudarc panics where there is none, and pip puts it where no loader looks. What is called are the
//! functions of version 7's interface, which version 9 still has: three passes, a list of algorithms for each, no graphs.
//! Signatures and numbers are those of cudnn_graph.h, cudnn_ops.h and cudnn_cnn.h of version 9.

mod library;

use crate::capture::{between_captures, relaxed};
use crate::cublas::{launched, version};
use crate::cuda::Inner;
use crate::memory::Allocation;
use crate::trial::Trial;
use crate::{CudaDevice, Error, Result, Slice, Stream};
use library::{Create, Cudnn9, Descriptor, Destroy, Handle, Status, Suggestion};
use std::ffi::c_int;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use warpbook_record::Dtype;

/// `CUDNN_DATA_FLOAT`, `_HALF` and `_BFLOAT16`.
const FLOAT: c_int = 0;
const HALF: c_int = 2;
const BFLOAT16: c_int = 9;
/// `CUDNN_TENSOR_NCHW` and `_NHWC`.
const NCHW: c_int = 0;
const NHWC: c_int = 1;
/// `CUDNN_CROSS_CORRELATION`.
const CROSS_CORRELATION: c_int = 1;
/// `CUDNN_DEFAULT_MATH`, by which fp32 may be TF32, `CUDNN_TENSOR_OP_MATH` and `CUDNN_FMA_MATH`.
const DEFAULT_MATH: c_int = 0;
const TENSOR_OP_MATH: c_int = 1;
const FMA_MATH: c_int = 3;
/// `CUDNN_DETERMINISTIC`.
const DETERMINISTIC: c_int = 1;
/// Algorithms that are asked for: more than there are of a pass.
const SUGGESTIONS: usize = 16;
/// Algorithms of each pass that take most shapes, where the library suggests nothing.
const USUAL: [[c_int; 2]; 3] = [[1, 0], [1, 0], [1, 0]];
/// Their names, as `CUDNN_CONVOLUTION_FWD_ALGO_GEMM`.
const FORWARD: [&str; 8] = [
    "implicit GEMM",
    "implicit precomputed GEMM",
    "GEMM",
    "direct",
    "FFT",
    "tiled FFT",
    "Winograd",
    "Winograd, not fused",
];
const INPUT: [&str; 6] = ["algorithm 0", "algorithm 1", "FFT", "tiled FFT", "Winograd", "Winograd, not fused"];
const WEIGHT: [&str; 7] =
    ["algorithm 0", "algorithm 1", "FFT", "algorithm 3", "Winograd", "Winograd, not fused", "tiled FFT"];

/// A convolution as the library takes it: a cross-correlation, as in PyTorch. Pairs are height, width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

    fn algorithms(self) -> &'static [&'static str] {
        match self {
            Self::Forward => &FORWARD,
            Self::InputGradient => &INPUT,
            Self::WeightGradient => &WEIGHT,
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

    /// Its sides as the library counts them.
    fn sides(&self, of: Of) -> Result<[c_int; 4]> {
        let sides = self.elements(of).map(|side| c_int::try_from(side).unwrap_or(0));
        if sides.contains(&0) {
            return Err(self.refused(format!("needs sides from 1 to 2^31, and {of:?} has {:?}", self.elements(of))));
        }
        Ok(sides)
    }

    /// Types of the elements and of the arithmetic.
    fn types(&self) -> Result<(c_int, c_int)> {
        match self.dtype {
            Dtype::F32 => Ok((FLOAT, FMA_MATH)),
            Dtype::Tf32 => Ok((FLOAT, DEFAULT_MATH)),
            Dtype::F16 => Ok((HALF, TENSOR_OP_MATH)),
            Dtype::Bf16 => Ok((BFLOAT16, TENSOR_OP_MATH)),
            other => Err(self.refused(format!("is asked for fp32, tf32, fp16 and bf16 here, not for {other:?}"))),
        }
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

/// A descriptor, destroyed with its owner.
struct Owned {
    raw: Descriptor,
    destroy: Destroy,
    /// What `destroy` is in.
    _library: Arc<Cudnn9>,
}

// SAFETY: a descriptor is plain memory of no thread, and is only read after it was made.
unsafe impl Send for Owned {}
// SAFETY: as above.
unsafe impl Sync for Owned {}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: the descriptor was made by the library of `destroy` and is not used again.
        unsafe { (self.destroy)(self.raw) };
    }
}

impl Owned {
    fn new(
        library: &Arc<Cudnn9>,
        (create, destroy): (Create, Destroy),
        set: impl FnOnce(Descriptor) -> Status,
    ) -> Result<Self, Status> {
        let mut raw = std::ptr::null_mut();
        // SAFETY: the pointer is to a live value.
        match unsafe { create(&raw mut raw) } {
            0 => {}
            status => return Err(status),
        }
        let owned = Self { raw, destroy, _library: library.clone() };
        match set(raw) {
            0 => Ok(owned),
            status => Err(status),
        }
    }

    /// An array's.
    fn array(library: &Arc<Cudnn9>, shape: &LibraryConvolution, of: Of) -> Result<Result<Self, Status>> {
        let ([n, c, h, w], (dtype, _)) = (shape.sides(of)?, shape.types()?);
        let (calls, format) = (&library.calls, if shape.channels_last { NHWC } else { NCHW });
        Ok(match of {
            Of::Weight => Self::new(library, calls.filter, |d| {
                // SAFETY: the descriptor is a live one of a filter. Type and format come the other way round than in a tensor's.
                unsafe { (calls.set_filter)(d, dtype, format, n, c, h, w) }
            }),
            // SAFETY: the descriptor is a live one of a tensor.
            _ => Self::new(library, calls.tensor, |d| unsafe { (calls.set_tensor)(d, format, dtype, n, c, h, w) }),
        })
    }

    /// The convolution's, with an arithmetic.
    fn convolution(library: &Arc<Cudnn9>, shape: &LibraryConvolution, math: c_int) -> Result<Self, Status> {
        let calls = &library.calls;
        let [[ph, pw], [sh, sw]] =
            [shape.padding, shape.stride].map(|pair| pair.map(|side| c_int::try_from(side).unwrap_or(c_int::MAX)));
        Self::new(library, calls.convolution, |d| {
            // SAFETY: the descriptor is a live one of a convolution. Sums are in f32 in all types.
            match unsafe { (calls.set_convolution)(d, ph, pw, sh, sw, 1, 1, CROSS_CORRELATION, FLOAT) } {
                // SAFETY: as above.
                0 => unsafe { (calls.set_math)(d, math) },
                status => status,
            }
        })
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

    /// A pass of a convolution by the algorithm that the library's heuristics hold to be the fastest: of those that give the same bits
    /// on every run and need no more than `workspace_bytes`, if there is one, else of all. Nothing is measured, so the choice is the
    /// same every time. The algorithm has been run once, on temporary arrays where there is room for them, so a capture loads nothing.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for a convolution that no algorithm takes; the device's.
    pub fn plan(&self, shape: &LibraryConvolution, pass: ConvolutionPass, workspace_bytes: u64) -> Result<CudnnPlan> {
        let mut candidates = self.candidates(shape, pass)?;
        let too_large = |p: &CudnnPlan| p.workspace_bytes as u64 > workspace_bytes;
        // The sort is stable: the order of the suggestions stays.
        candidates
            .sort_by_key(|p| (too_large(p), if too_large(p) { p.workspace_bytes } else { 0 }, !p.is_deterministic));
        let mut refused = None;
        for plan in candidates {
            match plan.try_out() {
                Ok(()) => return Ok(plan),
                Err(why) if why.is_sticky() => return Err(why),
                Err(why) => refused = Some(why),
            }
        }
        Err(refused.unwrap_or_else(|| shape.refused(format!("has no algorithm for {}", shape.name(pass)))))
    }

    /// The pass by each algorithm that takes it, in the heuristics' order, whether or not it gives the same bits on every run: to be timed.
    /// Each has been run once, as in [`Cudnn::plan`], and needs no more than `workspace_bytes`; there may be none.
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
        for plan in self.candidates(shape, pass)? {
            let is_known = plans.iter().any(|p| (p.algorithm, p.math) == (plan.algorithm, plan.math));
            if is_known || plan.workspace_bytes as u64 > workspace_bytes {
                continue;
            }
            match plan.try_out() {
                Ok(()) => plans.push(plan),
                Err(why) if why.is_sticky() => return Err(why),
                Err(_) => {}
            }
        }
        Ok(plans)
    }

    /// Each algorithm that says which workspace it needs, in the heuristics' order.
    fn candidates(&self, shape: &LibraryConvolution, pass: ConvolutionPass) -> Result<Vec<CudnnPlan>> {
        let Opened { library, device, .. } = &*self.0;
        device.bind()?;
        let check = |status| library.check(device, &|| shape.name(pass), status);
        let array = |of| match Owned::array(library, shape, of)? {
            Ok(owned) => Ok(owned),
            Err(status) => Err(check(status).err().unwrap_or(Error::Cancelled)),
        };
        let [first, second, third] = pass.arrays();
        let arrays = Arc::new([array(first)?, array(second)?, array(third)?]);
        let convolution = |math| {
            Owned::convolution(library, shape, math).map_err(|status| check(status).err().unwrap_or(Error::Cancelled))
        };
        let (_, math) = shape.types()?;
        let asked = convolution(math)?;
        let mut candidates = Vec::new();
        for suggestion in self.suggestions(pass, &arrays, &asked) {
            // Of fp32 the arithmetic stays what was asked for; otherwise it is the algorithm's, with or without tensor cores.
            let math = if math == FMA_MATH { math } else { suggestion.math };
            let plan = CudnnPlan {
                cudnn: self.clone(),
                shape: *shape,
                pass,
                arrays: arrays.clone(),
                convolution: convolution(math)?,
                algorithm: suggestion.algorithm,
                math,
                is_deterministic: suggestion.determinism == DETERMINISTIC,
                workspace_bytes: 0,
            };
            if let Some(bytes) = plan.needed() {
                candidates.push(CudnnPlan { workspace_bytes: bytes, ..plan });
            }
        }
        Ok(candidates)
    }

    /// What the heuristics suggest, the fastest first, and then what takes most shapes.
    fn suggestions(&self, pass: ConvolutionPass, arrays: &[Owned; 3], convolution: &Owned) -> Vec<Suggestion> {
        let Opened { library, raw, .. } = &*self.0;
        let mut found = vec![Suggestion::default(); SUGGESTIONS];
        let mut count = 0;
        let handle = raw.lock().unwrap_or_else(PoisonError::into_inner);
        let [first, second, third] = arrays;
        // SAFETY: handle and descriptors are live; there is room for as many suggestions as are asked for.
        let status = relaxed(|| unsafe {
            (library.calls.passes[pass as usize].suggest)(
                *handle,
                first.raw,
                second.raw,
                convolution.raw,
                third.raw,
                SUGGESTIONS as c_int,
                &raw mut count,
                found.as_mut_ptr(),
            )
        });
        drop(handle);
        found.truncate(if status == 0 { usize::try_from(count).unwrap_or(0) } else { 0 });
        found.retain(|s| s.status == 0);
        let usual = USUAL[pass as usize].into_iter().map(|algorithm| Suggestion {
            algorithm,
            math: DEFAULT_MATH,
            // Algorithm 0 of both gradients adds with atomics.
            determinism: c_int::from(pass == ConvolutionPass::Forward || algorithm != 0),
            ..Suggestion::default()
        });
        found.extend(usual);
        found
    }
}

/// One pass of one convolution by one algorithm.
pub struct CudnnPlan {
    cudnn: Cudnn,
    shape: LibraryConvolution,
    pass: ConvolutionPass,
    arrays: Arc<[Owned; 3]>,
    convolution: Owned,
    algorithm: c_int,
    math: c_int,
    is_deterministic: bool,
    workspace_bytes: usize,
}

impl std::fmt::Debug for CudnnPlan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CudnnPlan({}: {})", self.shape.name(self.pass), self.algorithm())
    }
}

impl CudnnPlan {
    /// The workspace that it needs, in bytes.
    #[must_use]
    pub fn workspace_bytes(&self) -> u64 {
        self.workspace_bytes as u64
    }

    /// Whether it gives the same bits on every run.
    #[must_use]
    pub fn is_deterministic(&self) -> bool {
        self.is_deterministic
    }

    /// The algorithm and its arithmetic in words, as "implicit precomputed GEMM with tensor cores".
    #[must_use]
    pub fn algorithm(&self) -> String {
        let known = usize::try_from(self.algorithm).ok().and_then(|i| self.pass.algorithms().get(i));
        let name = known.map_or_else(|| format!("algorithm {}", self.algorithm), ToString::to_string);
        match self.math {
            FMA_MATH => format!("{name} with fp32 multiply-adds"),
            DEFAULT_MATH => name,
            _ => format!("{name} with tensor cores"),
        }
    }

    /// Whether it transforms its operands (FFT or Winograd), which rounds more than sums of products do.
    #[must_use]
    pub fn transforms(&self) -> bool {
        let name = self.algorithm();
        name.contains("FFT") || name.contains("Winograd")
    }

    /// The workspace that the library asks for; `None` where the algorithm does not take the convolution.
    fn needed(&self) -> Option<usize> {
        let Opened { library, raw, .. } = &*self.cudnn.0;
        let handle = raw.lock().unwrap_or_else(PoisonError::into_inner);
        let [first, second, third] = &*self.arrays;
        let mut bytes = 0;
        // SAFETY: handle and descriptors are live, as is the number.
        let status = relaxed(|| unsafe {
            (library.calls.passes[self.pass as usize].workspace)(
                *handle,
                first.raw,
                second.raw,
                self.convolution.raw,
                third.raw,
                self.algorithm,
                &raw mut bytes,
            )
        });
        (status == 0).then_some(bytes)
    }

    /// Runs it once on temporary arrays, which loads its kernels; not at all where they do not fit.
    fn try_out(&self) -> Result<()> {
        let device = &self.cudnn.0.device;
        let [first, second, third] =
            self.pass.arrays().map(|of| usize::try_from(self.shape.bytes(of)).unwrap_or(usize::MAX));
        let arrays = Trial::new(device, [first, second, third, self.workspace_bytes]);
        let Some((_trial, [first, second, third, workspace])) = arrays else { return Ok(()) };
        let stream = Stream::new(&CudaDevice(device.clone()))?;
        // SAFETY: the arrays are as large as their descriptors say, and live until the wait is over.
        let queued = unsafe { self.queue(&stream, [first, second, third], workspace, &[]) };
        let done = queued.and_then(|()| stream.synchronize());
        let Opened { library, raw, .. } = &*self.cudnn.0;
        let handle = raw.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the handle is live, and forgets the stream, which ends here.
        unsafe { (library.calls.set_stream)(*handle, std::ptr::null_mut()) };
        done
    }

    /// Queues the pass: `inputs` are x and the weight, the weight and dy, or x and dy; `output` is y, dx or dw. It allocates nothing
    /// and waits for nothing, and a graph that captures it owns the arrays. Nothing else should use the workspace meanwhile.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where an array is too short or of another device, the output overlaps another array, or the workspace is
    /// too small; a launch that is refused. A failure of the kernel itself shows when the stream is waited for.
    pub fn launch(
        &self,
        stream: &Stream,
        inputs: [&Slice<u8>; 2],
        output: &Slice<u8>,
        workspace: &Slice<u8>,
    ) -> Result<()> {
        let arrays = [inputs[0], inputs[1], output];
        for (of, array) in self.pass.arrays().into_iter().zip(arrays) {
            let needed = self.shape.bytes(of);
            if (array.bytes() as u64) < needed {
                return Err(self
                    .shape
                    .refused(format!("needs {needed} bytes of {of:?}, and is given {}", array.bytes())));
            }
        }
        if workspace.bytes() < self.workspace_bytes {
            let (needed, there) = (self.workspace_bytes, workspace.bytes());
            return Err(self.shape.refused(format!("needs a workspace of {needed} bytes, and is given {there}")));
        }
        let all = [inputs[0], inputs[1], output, workspace];
        if all.iter().any(|s| !Arc::ptr_eq(&s.memory().device, &stream.device)) {
            return Err(self.shape.refused("needs arrays of the stream's device".into()));
        }
        if [inputs[0], inputs[1], workspace].iter().any(|s| s.overlaps(output)) {
            return Err(self.shape.refused("needs an output that overlaps no other array".into()));
        }
        let kept = all.map(Slice::memory);
        // SAFETY: the lengths were checked; freeing memory waits for kernels in flight, and graphs keep it.
        unsafe { self.queue(stream, arrays.map(|s| s.address), workspace.address, &kept) }
    }

    /// # Safety
    /// The arrays are as large as the shape says and the workspace as [`CudnnPlan::workspace_bytes`], until the pass has ended, or the
    /// graph that has captured it is gone; the output overlaps none of the others.
    unsafe fn queue(
        &self,
        stream: &Stream,
        [a, b, c]: [u64; 3],
        workspace: u64,
        kept: &[&Arc<Allocation>],
    ) -> Result<()> {
        let Opened { library, device, raw, name } = &*self.cudnn.0;
        device.bind()?;
        let check = |status| library.check(device, &|| self.shape.name(self.pass), status);
        let (one, zero) = (1f32, 0f32);
        let [first, second, third] = &*self.arrays;
        let queueing = stream.queueing()?;
        let handle = raw.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: both handles are live.
        check(relaxed(|| unsafe { (library.calls.set_stream)(*handle, stream.raw) }))?;
        // Relaxed, since a library may load a kernel during a capture.
        // SAFETY: handle and descriptors are live; the factors are f32, as of all our types, and are read before the call returns; the
        // arrays are the caller's.
        let status = relaxed(|| unsafe {
            (library.calls.passes[self.pass as usize].run)(
                *handle,
                (&raw const one).cast(),
                first.raw,
                a,
                second.raw,
                b,
                self.convolution.raw,
                self.algorithm,
                workspace,
                self.workspace_bytes,
                (&raw const zero).cast(),
                third.raw,
                c,
            )
        });
        drop(handle);
        check(status)?;
        launched(queueing, name, kept);
        Ok(())
    }
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
        let types = |dtype| LibraryConvolution { dtype, ..s }.types().unwrap();
        assert_eq!(types(Dtype::F32), (0, 3), "fp32 is no TF32");
        assert_eq!(types(Dtype::Tf32), (0, 0));
        assert_eq!(types(Dtype::F16), (2, 1));
        assert_eq!(types(Dtype::Bf16), (9, 1));
        let refused =
            |s: LibraryConvolution| s.types().map(drop).and(s.sides(Of::X).map(drop)).unwrap_err().to_string();
        assert!(refused(LibraryConvolution { dtype: Dtype::F64, ..s }).contains("not for F64"));
        assert!(refused(LibraryConvolution { batch: 0, ..s }).contains("sides from 1"));
        assert!(refused(LibraryConvolution { x: [1 << 31, 1], ..s }).contains("2147483648"));
        for pass in [ConvolutionPass::Forward, ConvolutionPass::InputGradient, ConvolutionPass::WeightGradient] {
            let [a, b, c] = pass.arrays();
            assert!(a != b && b != c && a != c);
            assert!(s.name(pass).contains("2 images of 3 x [7, 5] with 4 filters of [3, 3]"), "{}", s.name(pass));
        }
    }

    /// Descriptors need no device: the library says what it made of ours.
    #[test]
    fn descriptors_are_taken() {
        let Some(library) = library::tests::installed("descriptors_are_taken by cuDNN") else { return };
        for dtype in [Dtype::F32, Dtype::Tf32, Dtype::F16, Dtype::Bf16] {
            for channels_last in [false, true] {
                let s = LibraryConvolution { dtype, channels_last, ..shape() };
                for of in [Of::X, Of::Weight, Of::Y] {
                    assert!(Owned::array(&library, &s, of).unwrap().is_ok(), "{of:?} of {s:?}");
                }
                let (_, math) = s.types().unwrap();
                assert!(Owned::convolution(&library, &s, math).is_ok(), "{s:?}");
            }
        }
        assert!(Owned::convolution(&library, &LibraryConvolution { stride: [0, 1], ..shape() }, FMA_MATH).is_err());
    }

    #[test]
    fn handles_and_plans_may_change_threads() {
        fn check<T: Send + Sync + 'static>() {}
        check::<Cudnn>();
        check::<CudnnPlan>();
    }
}
