//! Graphs: captured work that is replayed as a unit.

use crate::cuda::capture::{Capturing, PinnedUse};
use crate::cuda::context::{Inner, describe};
use crate::cuda::stream::{GraphLabel, Keep};
use crate::{Error, Result, Stream};
use cudarc::driver::result;
use cudarc::driver::sys;
use std::sync::{Arc, Mutex, PoisonError};

/// Captured work that can be replayed as a unit.
///
/// The graph owns everything it replays that is known to this crate: the kernels, the slices and buffers passed to them, the memory of fills and copies,
/// and the resources given to [`Stream::capture_owning`].
pub struct Graph {
    device: Arc<Inner>,
    /// The driver does not allow concurrent calls on one graph, hence the lock.
    executable: Mutex<sys::CUgraphExec>,
    nodes: usize,
    label: Arc<GraphLabel>,
    replayed: Replayed,
}

// SAFETY: the graph's handle may be used from any thread, but only by one thread at a time, which the lock ensures.
unsafe impl Send for Graph {}
// SAFETY: the lock around the graph's handle prevents concurrent calls.
unsafe impl Sync for Graph {}

impl std::fmt::Debug for Graph {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Graph({}, {} nodes)", self.label, self.nodes)
    }
}

/// Objects that must live as long as the graph can be launched.
struct Replayed {
    _kept: Vec<Keep>,
    pinned: Vec<PinnedUse>,
    resources: Keep,
}

impl Stream {
    /// Captures the work that `work` queues on this stream, and on streams that it joins to this one by events, as a graph. Nothing runs yet.
    ///
    /// # Errors
    /// The errors of `work`, and the driver's errors if something cannot be captured.
    ///
    /// # Safety
    /// All memory that the captured launches touch must live as long as the graph.
    pub unsafe fn capture(&self, work: impl FnOnce() -> Result<()>) -> Result<Graph> {
        self.capture_owning("unnamed", (), |()| work())
    }

    /// Captures the work that `work` queues on this stream, and on streams that it joins to this one by events, as a graph with this name. The graph owns
    /// `resources`: the arrays, kernels and workspaces that `work` uses. Nothing runs yet.
    ///
    /// This function is safe. The graph owns the memory of fills and copies. Code that launches kernels promises in an unsafe block that everything their
    /// arguments point to lives as long as the graph; the resources and clones of their slices do.
    ///
    /// # Errors
    /// The errors of `work`, and the driver's errors if something cannot be captured.
    pub fn capture_owning<R: Send + Sync + 'static>(
        &self,
        name: impl Into<String>,
        resources: R,
        work: impl FnOnce(&R) -> Result<()>,
    ) -> Result<Graph> {
        let device = &self.device;
        device.bind_for("Graphs")?;
        // The `Arc` gives the resources a fixed address, because captured launches may contain addresses inside them.
        let resources = Arc::new(resources);
        let capturing = Capturing::begin(self)?;
        let worked = work(&resources);
        let (ended, captured) = capturing.end();
        let graph = match (worked, ended) {
            (Ok(()), Ok(graph)) => graph,
            (worked, ended) => {
                if let Ok(graph) = ended {
                    // SAFETY: the graph came from this capture and is not used again.
                    let _ = unsafe { result::graph::destroy(graph) };
                }
                worked?;
                return Err(ended.map_or_else(
                    |e| device.error("Capturing a graph", e),
                    |_| Error::Cuda { what: "Capturing a graph".into(), why: "nothing came".into(), sticky: false },
                ));
            }
        };
        let mut nodes = 0usize;
        // SAFETY: the graph is live; with a null array, the call only writes the number of nodes.
        let counted = unsafe { sys::cuGraphGetNodes(graph, std::ptr::null_mut(), &raw mut nodes) };
        // Makes work from an urgent stream urgent in the graph, too.
        let flags = sys::CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
        // SAFETY: the graph is live.
        let executable = unsafe { result::graph::instantiate(graph, flags) };
        // SAFETY: an executable graph does not need the graph from which it was created.
        let _ = unsafe { result::graph::destroy(graph) };
        let executable = executable.map_err(|e| device.error("Instantiating a graph", e))?;
        let (kept, pinned, kernels) = captured.into_parts();
        let graph = Graph {
            device: device.clone(),
            executable: Mutex::new(executable),
            nodes,
            label: Arc::new(GraphLabel { name: name.into(), kernels }),
            replayed: Replayed { _kept: kept, pinned, resources },
        };
        counted.result().map_err(|e| device.error("Counting a graph's nodes", e))?;
        // SAFETY: the handles of the executable graph and of the stream are live.
        unsafe { result::graph::upload(executable, self.raw) }.map_err(|e| device.error("Uploading a graph", e))?;
        Ok(graph)
    }
}

impl Graph {
    /// Sets the graph's name, which errors mention.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.label = Arc::new(GraphLabel { name: name.into(), kernels: self.label.kernels.clone() });
        self
    }

    /// Returns the graph's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.label.name
    }

    /// Returns the names of the kernels in the graph, each once, in the order of their first launches.
    pub fn kernels(&self) -> impl Iterator<Item = &str> {
        self.label.kernels.iter().map(|k| &**k)
    }

    /// Returns the number of nodes in the graph.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// Returns the resources given to [`Stream::capture_owning`], if they have this type.
    #[must_use]
    pub fn resources<R: Send + Sync + 'static>(&self) -> Option<&R> {
        self.replayed.resources.downcast_ref()
    }

    /// Queues a run of the graph. Runs of one graph never overlap, even on different streams.
    ///
    /// # Errors
    /// [`Error::Graph`] if the driver refuses the launch or the stream is being captured; [`Error::PinnedInUse`] while the host accesses page-locked memory
    /// that the graph copies from or to.
    pub fn launch(&self, stream: &Stream) -> Result<()> {
        self.device.bind()?;
        let queueing = stream.queueing()?;
        if queueing.is_captured() {
            // The launch is refused here, because the driver's own refusal would also invalidate the capture.
            let why = "a graph cannot be launched during a capture; queue its original work instead";
            return Err(self.label.error(why.into(), false));
        }
        let claims = self.replayed.pinned.iter().map(|(m, access)| m.claim(*access, stream, "A launch of a graph"));
        let claims = claims.collect::<Result<Vec<_>>>()?;
        {
            let executable = self.executable.lock().unwrap_or_else(PoisonError::into_inner);
            // SAFETY: the handles of the graph and of the stream are live. The memory that the graph accesses is also live, because the graph owns it, or
            // because the caller of `capture` or of the captured launch has guaranteed it.
            unsafe { result::graph::launch(*executable, stream.raw) }
                .map_err(|e| self.label.error(describe(e), self.device.note(e)))?;
        }
        stream.replayed(&self.label);
        claims.into_iter().try_for_each(|claim| claim.queued(stream))
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        if self.device.may_free() {
            // SAFETY: the handle was created when the graph was captured and is not used again; the driver frees the graph once its last launch has ended.
            let _ = unsafe {
                result::graph::exec_destroy(*self.executable.get_mut().unwrap_or_else(PoisonError::into_inner))
            };
        }
    }
}
