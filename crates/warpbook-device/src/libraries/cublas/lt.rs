//! Matrix products with cuBLASLt, which can list its algorithms.

use super::library::{
    ALIGNMENT, DESC_TRANSA, DESC_TRANSB, Destroy, LOADED, Libraries, LtDescriptor, LtSuggestion, PREF_ALIGNMENTS,
    PREF_MAX_WORKSPACE, PREF_REDUCTIONS, R_32F, REDUCE_IN_COMPUTE_TYPE, SUGGESTIONS, SetAttribute,
};
use super::product::LibraryGemm;
use crate::cuda::capture::between_captures;
use crate::cuda::context::Inner;
use crate::cuda::context::relaxed;
use crate::libraries::loader::{Handle, Status, version};
use crate::memory::allocation::Allocation;
use crate::memory::trial::Trial;
use crate::{CudaDevice, DevicePtr, Error, Result, Slice, Stream};
use std::ffi::c_int;
use std::sync::{Arc, Mutex, PoisonError};

/// cuBLASLt on a device. It can list its algorithms for a product.
#[derive(Clone)]
pub struct CublasLt(Arc<LtHandle>);

struct LtHandle {
    libraries: Arc<Libraries>,
    device: Arc<Inner>,
    /// The library's handle, which is locked during each call.
    raw: Mutex<Handle>,
    name: Arc<str>,
}

// SAFETY: the library's handle may be used from any thread on which its context is current, but only by one thread at a time, which the lock ensures.
unsafe impl Send for LtHandle {}
// SAFETY: the lock around the library's handle prevents concurrent calls.
unsafe impl Sync for LtHandle {}

impl Drop for LtHandle {
    fn drop(&mut self) {
        if self.device.may_free() {
            let raw = self.raw.get_mut().unwrap_or_else(PoisonError::into_inner);
            // SAFETY: the handle came from `open` and is not used again.
            between_captures(|| unsafe { (self.libraries.lt.destroy)(*raw) });
        }
    }
}

impl std::fmt::Debug for CublasLt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CublasLt({:?} at {})", self.version(), self.0.libraries.file.path.display())
    }
}

/// A descriptor of cuBLASLt, destroyed when this value is dropped.
struct OwnedDescriptor {
    raw: LtDescriptor,
    destroy: Destroy,
    /// Keeps the library loaded, because `destroy` is one of its functions.
    _libraries: Arc<Libraries>,
}

// SAFETY: a descriptor is memory that is not tied to a thread, and it is only read once it has been created.
unsafe impl Send for OwnedDescriptor {}
// SAFETY: a descriptor is only read once it has been created.
unsafe impl Sync for OwnedDescriptor {}

impl Drop for OwnedDescriptor {
    fn drop(&mut self) {
        // SAFETY: `destroy` belongs to the library that created the descriptor, which is not used again.
        unsafe { (self.destroy)(self.raw) };
    }
}

impl LtHandle {
    fn own(
        &self,
        what: &dyn Fn() -> String,
        destroy: Destroy,
        create: impl FnOnce(*mut LtDescriptor) -> Status,
    ) -> Result<OwnedDescriptor> {
        let mut raw = std::ptr::null_mut();
        self.libraries.check(&self.device, what, create(&raw mut raw))?;
        Ok(OwnedDescriptor { raw, destroy, _libraries: self.libraries.clone() })
    }

    /// Sets an attribute that has the type `T` in cublasLt.h.
    fn set<T: Copy>(
        &self,
        what: &dyn Fn() -> String,
        set: SetAttribute,
        owned: &OwnedDescriptor,
        attribute: c_int,
        value: T,
    ) -> Result<()> {
        // SAFETY: the descriptor is live and of the kind that `set` expects, and the library copies the value.
        let status = unsafe { set(owned.raw, attribute, (&raw const value).cast(), size_of::<T>()) };
        self.libraries.check(&self.device, what, status)
    }
}

impl CublasLt {
    /// Finds cuBLASLt in the same places where [`Cublas::open`](crate::Cublas::open) looks for cuBLAS, and opens it on a device.
    ///
    /// # Errors
    /// The errors of [`Cublas::open`](crate::Cublas::open).
    pub fn open(device: &CudaDevice) -> Result<Self> {
        device.0.bind_for("Calls of cuBLAS")?;
        let libraries = LOADED.load(Some(device.driver_cuda()))?;
        let raw = libraries.create(&device.0, libraries.lt.create)?;
        let name = Arc::from("of cuBLASLt, which does not tell its shape");
        Ok(Self(Arc::new(LtHandle { libraries, device: device.0.clone(), raw: Mutex::new(raw), name })))
    }

    /// Returns the version of the library: (major, minor, patch).
    #[must_use]
    pub fn version(&self) -> (u32, u32, u32) {
        version(self.0.libraries.lt.property).unwrap_or_default()
    }

    /// Returns the algorithms that the library suggests for a product of arrays aligned to 256 bytes, as buffers are. Returns at most `requested`
    /// algorithms, all of which need at most `workspace_bytes`. The one that the library expects to be fastest comes first.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the library has no algorithm for the product.
    pub fn plans(&self, call: &LibraryGemm, requested: usize, workspace_bytes: u64) -> Result<Vec<LtPlan>> {
        self.plans_at(call, [DevicePtr::NULL; 3], requested, workspace_bytes)
    }

    /// Like [`CublasLt::plans`], but for arrays with the alignment of the given addresses of A, B and C.
    ///
    /// # Errors
    /// The errors of [`CublasLt::plans`].
    pub fn plans_at(
        &self,
        call: &LibraryGemm,
        arrays: [DevicePtr; 3],
        requested: usize,
        workspace_bytes: u64,
    ) -> Result<Vec<LtPlan>> {
        let lt = &self.0;
        let p = call.column_major()?;
        let what = || call.name();
        lt.device.bind()?;
        let calls = &lt.libraries.lt;
        // SAFETY: `own` passes a pointer to a live value, which receives the descriptor.
        let product = lt.own(&what, calls.desc_destroy, |d| unsafe { (calls.desc_create)(d, p.compute, R_32F) })?;
        lt.set(&what, calls.desc_set, &product, DESC_TRANSA, p.ops[0])?;
        lt.set(&what, calls.desc_set, &product, DESC_TRANSB, p.ops[1])?;
        let layout = |which: usize| {
            let ((rows, columns), ld) = (p.stored[which], i64::from(p.lds[which]));
            let elements = if which == 2 { p.out } else { p.data };
            // SAFETY: `own` passes a pointer to a live value, which receives the descriptor.
            lt.own(&what, calls.layout_destroy, |d| unsafe { (calls.layout_create)(d, elements, rows, columns, ld) })
        };
        let layouts = [layout(0)?, layout(1)?, layout(2)?];
        // SAFETY: `own` passes a pointer to a live value, which receives the descriptor.
        let preference = lt.own(&what, calls.preference_destroy, |d| unsafe { (calls.preference_create)(d) })?;
        let alignments = call.alignments(arrays);
        let [a, b, c] = alignments.map(|bytes| bytes as u32);
        for (attribute, bytes) in PREF_ALIGNMENTS.into_iter().zip([b, a, c, c]) {
            lt.set(&what, calls.preference_set, &preference, attribute, bytes)?;
        }
        lt.set(&what, calls.preference_set, &preference, PREF_MAX_WORKSPACE, workspace_bytes)?;
        if call.dtype.bytes() == 2 {
            lt.set(&what, calls.preference_set, &preference, PREF_REDUCTIONS, REDUCE_IN_COMPUTE_TYPE)?;
        }
        let mut suggestions = vec![LtSuggestion::default(); requested.clamp(1, 1024)];
        let mut count = 0;
        let handle = lt.raw.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the handle and the descriptors are live, and there is room for the requested number of suggestions.
        let status = unsafe {
            (calls.suggest)(
                *handle,
                product.raw,
                layouts[0].raw,
                layouts[1].raw,
                layouts[2].raw,
                layouts[2].raw,
                preference.raw,
                suggestions.len() as c_int,
                suggestions.as_mut_ptr(),
                &raw mut count,
            )
        };
        drop(handle);
        lt.libraries.check(&lt.device, &what, status)?;
        suggestions.truncate(usize::try_from(count).unwrap_or(0));
        let problem = Arc::new(LtProblem { lt: lt.clone(), call: *call, product, layouts, alignments });
        let plans: Vec<LtPlan> = suggestions
            .iter()
            .filter(|s| s.state == 0 && s.workspace_bytes as u64 <= workspace_bytes)
            .map(|s| LtPlan {
                problem: problem.clone(),
                algorithm: s.algorithm,
                workspace_bytes: s.workspace_bytes,
                waves: s.waves,
            })
            .collect();
        if plans.is_empty() {
            return Err(Error::Unsupported {
                what: "cuBLASLt".into(),
                why: format!("has no algorithm for {}", call.name()),
            });
        }
        Ok(plans)
    }
}

impl CublasLt {
    /// Returns the version (major, minor, patch) of the library that [`CublasLt::open`] would find.
    ///
    /// # Errors
    /// [`Error::Library`] if the library was not found.
    pub fn find(device: &CudaDevice) -> Result<(u32, u32, u32)> {
        let libraries = LOADED.load(Some(device.driver_cuda()))?;
        Ok(version(libraries.lt.property).unwrap_or_default())
    }

    /// Returns the first suggested algorithm that runs, for arrays aligned to `alignment` bytes. The algorithm has already run once on temporary
    /// arrays, if they fit into memory, so capturing it loads nothing.
    ///
    /// # Errors
    /// The errors of [`CublasLt::plans`].
    pub fn first_plan(&self, call: &LibraryGemm, alignment: u64, workspace_bytes: u64) -> Result<LtPlan> {
        let [a, b, c] = call.bytes().map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        let at = DevicePtr(alignment.clamp(1, ALIGNMENT));
        let mut refused = None;
        for plan in self.plans_at(call, [at; 3], SUGGESTIONS, workspace_bytes)? {
            let arrays = Trial::new(&self.0.device, [a, b, c, plan.workspace_bytes]);
            let Some((_trial, [a, b, c, workspace])) = arrays else { return Ok(plan) };
            let stream = Stream::new(&CudaDevice(self.0.device.clone()))?;
            let workspace = (workspace, plan.workspace_bytes);
            // SAFETY: the arrays have the sizes that the call requires, and live until the stream has been waited for.
            let ran = unsafe { plan.queue(&stream, [a, b, c].map(DevicePtr), workspace, &[]) };
            match ran.and_then(|()| stream.synchronize()) {
                Ok(()) => return Ok(plan),
                Err(why) if why.is_sticky() => return Err(why),
                Err(why) => refused = Some(why),
            }
        }
        Err(refused.unwrap_or_else(|| Error::Unsupported {
            what: "cuBLASLt".into(),
            why: format!("has no algorithm for {}", call.name()),
        }))
    }
}

/// State shared by all algorithms for one product.
struct LtProblem {
    lt: Arc<LtHandle>,
    call: LibraryGemm,
    product: OwnedDescriptor,
    layouts: [OwnedDescriptor; 3],
    alignments: [u64; 3],
}

/// One algorithm of cuBLASLt for one product.
pub struct LtPlan {
    problem: Arc<LtProblem>,
    algorithm: [u64; 8],
    workspace_bytes: usize,
    waves: f32,
}

impl std::fmt::Debug for LtPlan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LtPlan({}, workspace of {} bytes)", self.problem.call.name(), self.workspace_bytes)
    }
}

impl LtPlan {
    /// Returns the number of bytes of workspace that the algorithm needs.
    #[must_use]
    pub fn workspace_bytes(&self) -> usize {
        self.workspace_bytes
    }

    /// Returns the library's estimate of the number of waves: how many times the blocks fill the device.
    #[must_use]
    pub fn waves(&self) -> f32 {
        self.waves
    }

    /// Queues the product. It neither allocates nor waits, so it can be captured. The first launch loads the kernel, so launch it once before a
    /// capture.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the workspace is too small, an array is less aligned than the algorithm requires, or the device refuses the
    /// algorithm after all. If the kernel itself fails, the error appears when the stream is waited for.
    ///
    /// # Safety
    /// A, B, C and the workspace must stay allocated, and be as large as the call says, until the product has ended and every graph that captured
    /// it is gone. C must not overlap A or B. Nothing else may use the workspace at the same time. The stream must be on the same device.
    pub unsafe fn launch(
        &self,
        stream: &Stream,
        a: DevicePtr,
        b: DevicePtr,
        c: DevicePtr,
        workspace: &Slice<u8>,
    ) -> Result<()> {
        // SAFETY: the caller guarantees the sizes and lifetimes of the arrays and of the workspace.
        unsafe { self.queue(stream, [a, b, c], (workspace.address, workspace.bytes()), &[]) }
    }

    /// Queues the product of slices, like [`LtPlan::launch`]. A graph that captures it owns the slices.
    ///
    /// # Errors
    /// The errors of [`LtPlan::launch`]. Also returns an error if a slice is too short or on another device, or if C overlaps another slice.
    pub fn launch_checked(&self, stream: &Stream, [a, b, c]: [&Slice<u8>; 3], workspace: &Slice<u8>) -> Result<()> {
        let refused = |why: String| Err(Error::Unsupported { what: "A product of cuBLASLt".into(), why });
        for (name, slice, needed) in
            ["A", "B", "C"].into_iter().zip([a, b, c]).zip(self.problem.call.bytes()).map(|((n, s), b)| (n, s, b))
        {
            if (slice.bytes() as u64) < needed {
                return refused(format!("needs {needed} bytes of {name}, but got {}", slice.bytes()));
            }
        }
        let all = [a, b, c, workspace];
        if all.iter().any(|s| !Arc::ptr_eq(&s.memory().device, &stream.device)) {
            return refused("needs arrays of the stream's device".into());
        }
        if [a, b, workspace].iter().any(|s| s.overlaps(c)) {
            return refused("needs a C that overlaps no other array".into());
        }
        let kept = all.map(Slice::memory);
        let pointers = [a, b, c].map(|s| s.at(0));
        // SAFETY: the lengths were checked. The order of the caller's launches ensures that nothing else uses the workspace. Freeing an array waits for running
        // kernels, and a graph that captures the product owns its arrays.
        unsafe { self.queue(stream, pointers, (workspace.address, workspace.bytes()), &kept) }
    }

    /// # Safety
    /// The requirements of [`LtPlan::launch`].
    unsafe fn queue(
        &self,
        stream: &Stream,
        [a, b, c]: [DevicePtr; 3],
        (workspace, workspace_bytes): (u64, usize),
        kept: &[&Arc<Allocation>],
    ) -> Result<()> {
        let LtProblem { lt, call, product, layouts, alignments } = &*self.problem;
        let refused = |why: String| Err(Error::Unsupported { what: "This algorithm of cuBLASLt".into(), why });
        if workspace_bytes < self.workspace_bytes {
            let (needed, there) = (self.workspace_bytes, workspace_bytes);
            return refused(format!("needs a workspace of {needed} bytes, but got {there}"));
        }
        for (name, at, needed) in [("A", a, alignments[0]), ("B", b, alignments[1]), ("C", c, alignments[2])] {
            if !at.is_aligned(needed) {
                return refused(format!(
                    "was chosen for an {name} aligned to {needed} bytes; request plans with the actual address"
                ));
            }
        }
        lt.device.bind()?;
        let (alpha, beta) = (&raw const call.alpha, &raw const call.beta);
        let queueing = stream.queueing()?;
        let handle = lt.raw.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the handle, the descriptors and the algorithm are live and belong together. The factors are f32 and are read before the call returns. The
        // size of the workspace was checked, and the caller guarantees the sizes and lifetimes of the arrays.
        let status = relaxed(|| unsafe {
            (lt.libraries.lt.matmul)(
                *handle,
                product.raw,
                alpha.cast(),
                b.0,
                layouts[0].raw,
                a.0,
                layouts[1].raw,
                beta.cast(),
                c.0,
                layouts[2].raw,
                c.0,
                layouts[2].raw,
                &raw const self.algorithm,
                workspace,
                workspace_bytes,
                stream.raw,
            )
        });
        drop(handle);
        lt.libraries.check(&lt.device, &|| call.name(), status)?;
        queueing.launched_by_library(&lt.name, kept);
        Ok(())
    }
}
