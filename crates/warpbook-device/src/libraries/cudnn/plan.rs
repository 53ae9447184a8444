//! One pass of a convolution with one engine, ready to be queued.

use super::constants::{ALIGNMENT, attribute, kind, note};
use super::convolution::{ConvolutionPass, LibraryConvolution};
use super::descriptor::{Address, Descriptor};
use super::handle::{Cudnn, Opened};
use super::suggestion::Suggestion;
use crate::cuda::capture::{UNKNOWN_SHAPE, between_captures};
use crate::cuda::context::relaxed;
use crate::memory::allocation::Allocation;
use crate::memory::trial::Trial;
use crate::{CudaDevice, Result, Slice, Stream};
use cudarc::driver::result;
use std::sync::{Arc, PoisonError};

/// Number of timed runs of an engine in [`Cudnn::fastest`], after an uncounted one, and number of repetitions within each run.
const TIMES: u32 = 5;
const IN_A_ROW: u32 = 4;

/// An engine that is ready to run. A graph that captured it must keep this value alive, because dropping it unloads the kernels.
pub(super) struct BuiltPlan {
    /// Always `Some` until the plan is dropped.
    pub descriptor: Option<Arc<Descriptor>>,
    pub workspace_bytes: usize,
    pub suggestion: Suggestion,
    pub cudnn: Cudnn,
}

impl Drop for BuiltPlan {
    fn drop(&mut self) {
        let device = &self.cudnn.0.device;
        if device.may_free() {
            // The engine's kernels may still be running, so wait for them before they are unloaded.
            between_captures(|| {
                let _ = result::ctx::synchronize();
                self.descriptor = None;
            });
        } else {
            std::mem::forget(self.descriptor.take());
        }
    }
}

/// One pass of one convolution with one engine.
pub struct CudnnPlan {
    pub(super) shape: LibraryConvolution,
    pub(super) pass: ConvolutionPass,
    pub(super) built: Arc<BuiltPlan>,
}

impl std::fmt::Debug for CudnnPlan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CudnnPlan({}: {})", self.shape.name(self.pass), self.algorithm())
    }
}

impl CudnnPlan {
    /// Returns the number of bytes of workspace that the engine needs.
    #[must_use]
    pub fn workspace_bytes(&self) -> u64 {
        self.built.workspace_bytes as u64
    }

    /// Returns true if the engine gives the same bits on every run.
    #[must_use]
    pub fn is_deterministic(&self) -> bool {
        self.built.suggestion.is_deterministic()
    }

    /// Describes the engine, for example "engine 46 on tensor cores". The library numbers its engines but gives no other details.
    #[must_use]
    pub fn algorithm(&self) -> String {
        self.built.suggestion.words()
    }

    /// Returns the position among the heuristics' suggestions, from 1.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.built.suggestion.rank
    }

    /// Returns true if the engine transforms its operands (FFT or Winograd), which gives larger rounding errors than direct sums of products.
    #[must_use]
    pub fn transforms(&self) -> bool {
        let notes = &self.built.suggestion.notes;
        notes.iter().any(|n| *n == note::FFT || note::WINOGRAD.contains(n))
    }

    /// Runs the pass once on temporary arrays, which loads its kernels. Does nothing if the arrays do not fit into memory.
    pub(super) fn try_out(&self) -> Result<()> {
        self.on_trial(|stream, queue| queue().and_then(|()| stream.synchronize())).map(drop)
    }

    /// Times the pass several times on temporary arrays and returns the shortest time in microseconds; `None` if the arrays do not fit into memory.
    pub(super) fn timed(&self) -> Result<Option<f64>> {
        let device = CudaDevice(self.built.cudnn.0.device.clone());
        let [begin, end] = [device.event()?, device.event()?];
        self.on_trial(|stream, queue| {
            let mut least = f64::INFINITY;
            for time in 0..=TIMES {
                begin.record(stream)?;
                for _ in 0..IN_A_ROW {
                    queue()?;
                }
                end.record(stream)?;
                stream.synchronize()?;
                if time > 0 {
                    least = least.min(begin.elapsed_us(&end)? / f64::from(IN_A_ROW));
                }
            }
            Ok(least)
        })
    }

    /// Calls `work` with a stream and a function that queues the pass there on temporary arrays; returns `None` if the arrays do not fit into memory. `work`
    /// has to wait for everything that it queues.
    fn on_trial<T>(&self, work: impl FnOnce(&Stream, &dyn Fn() -> Result<()>) -> Result<T>) -> Result<Option<T>> {
        let Opened { library, device, raw, .. } = &*self.built.cudnn.0;
        let [first, second, third] =
            self.pass.arrays().map(|operand| usize::try_from(self.shape.bytes(operand)).unwrap_or(usize::MAX));
        let arrays = Trial::new(device, [first, second, third, self.built.workspace_bytes]);
        let Some((_trial, [first, second, third, workspace])) = arrays else { return Ok(None) };
        let stream = Stream::new(&CudaDevice(device.clone()))?;
        // SAFETY: the arrays have the sizes that their descriptors state, and live until the stream is waited for below.
        let queue = || unsafe { self.queue(&stream, [first, second, third], workspace, &[]) };
        let done = work(&stream, &queue);
        // `work` may have failed before it waited for its queued passes.
        let waited = stream.synchronize();
        let handle = raw.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the handle is live. It is set to the default stream, because its current stream is destroyed here.
        unsafe { (library.calls.set_stream)(*handle, std::ptr::null_mut()) };
        done.and_then(|done| waited.map(|()| Some(done)))
    }

    /// Queues the pass. `inputs` are x and the weight, the weight and dy, or x and dy; `output` is y, dx or dw, respectively. The call neither allocates nor
    /// waits, and a graph that captures it owns the arrays. Nothing else may use the workspace at the same time.
    ///
    /// # Errors
    /// [`crate::Error::Unsupported`] if an array is too short or on another device, the output overlaps another array, or the workspace is too small; also
    /// returns an error if the launch is refused. If the kernel itself fails, the error appears when the stream is waited for.
    pub fn launch(
        &self,
        stream: &Stream,
        inputs: [&Slice<u8>; 2],
        output: &Slice<u8>,
        workspace: &Slice<u8>,
    ) -> Result<()> {
        let arrays = [inputs[0], inputs[1], output];
        for (operand, array) in self.pass.arrays().into_iter().zip(arrays) {
            let needed = self.shape.bytes(operand);
            if (array.bytes() as u64) < needed {
                return Err(self
                    .shape
                    .refused(format!("needs {needed} bytes of {operand:?}, but got {}", array.bytes())));
            }
        }
        let needed = self.built.workspace_bytes;
        if workspace.bytes() < needed {
            let there = workspace.bytes();
            return Err(self.shape.refused(format!("needs a workspace of {needed} bytes, but got {there}")));
        }
        let all = [inputs[0], inputs[1], output, workspace];
        if all.iter().any(|s| !Arc::ptr_eq(&s.memory().device, &stream.device)) {
            return Err(self.shape.refused("needs arrays of the stream's device".into()));
        }
        if [inputs[0], inputs[1], workspace].iter().any(|s| s.overlaps(output)) {
            return Err(self.shape.refused("needs an output that overlaps no other array".into()));
        }
        // The address of an empty workspace does not matter.
        if arrays.iter().any(|s| !s.address.is_multiple_of(ALIGNMENT))
            || needed > 0 && !workspace.address.is_multiple_of(ALIGNMENT)
        {
            return Err(self.shape.refused(format!("needs arrays that begin at multiples of {ALIGNMENT} bytes")));
        }
        let kept = all.map(Slice::memory);
        // SAFETY: the lengths were checked. Freeing an array waits for running kernels, and a graph that captures the pass owns its arrays.
        unsafe { self.queue(stream, arrays.map(|s| s.address), workspace.address, &kept) }
    }

    /// # Safety
    /// The arrays must be as large as the shape says, and the workspace as large as [`CudnnPlan::workspace_bytes`], until the pass has ended and every graph
    /// that captured it is gone. The output must not overlap any other array.
    unsafe fn queue(
        &self,
        stream: &Stream,
        [a, b, c]: [u64; 3],
        workspace: u64,
        kept: &[&Arc<Allocation>],
    ) -> Result<()> {
        let Opened { library, device, raw, name } = &*self.built.cudnn.0;
        device.bind()?;
        let check = |status| library.check(device, &|| self.shape.name(self.pass), status);
        let plan = self.built.descriptor.as_ref().map_or(std::ptr::null_mut(), |plan| plan.raw());
        let ids = self.pass.arrays().map(|operand| i64::from(operand.id_offset()));
        let pack = || {
            Descriptor::new(library, kind::VARIANT_PACK)?
                .with(attribute::PACK_IDS, &ids)?
                .with(attribute::PACK_ADDRESSES, &[a, b, c].map(Address))?
                .with(attribute::PACK_WORKSPACE, &[Address(workspace)])?
                .finalized()
        };
        let queueing = stream.queueing()?;
        let handle = raw.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the handles of cuDNN and of the stream are live.
        check(relaxed(|| unsafe { (library.calls.set_stream)(*handle, stream.raw) }))?;
        // SAFETY: the handle and the descriptors are live, and the caller guarantees the sizes and lifetimes of the arrays.
        let run = |pack: Arc<Descriptor>| unsafe { (library.calls.execute)(*handle, plan, pack.raw()) };
        let status = relaxed(|| pack().map_or_else(|status| status, run));
        drop(handle);
        check(status)?;
        queueing.launched(name, UNKNOWN_SHAPE, |captured| {
            kept.iter().for_each(|m| captured.keep(Arc::clone(m) as _));
            captured.keep(self.built.clone());
        });
        Ok(())
    }
}
