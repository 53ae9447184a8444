use crate::cuda::Inner;
use crate::{Result, Stream};
use cudarc::driver::result;
use cudarc::driver::sys;
use std::sync::{Arc, Mutex, PoisonError};

/// Launches captured once, to be replayed as one.
pub struct Graph {
    device: Arc<Inner>,
    /// The driver asks that calls on one graph come one at a time.
    executable: Mutex<sys::CUgraphExec>,
    nodes: usize,
}

// SAFETY: the handle may be used from any thread, one at a time, which its lock sees to.
unsafe impl Send for Graph {}
// SAFETY: as above.
unsafe impl Sync for Graph {}

impl Stream {
    /// Captures what `work` queues on this stream, and on streams that it joins to it by events, as a graph.
    /// Nothing runs yet.
    ///
    /// # Errors
    /// Those of `work`, and the driver's where something cannot be captured.
    ///
    /// # Safety
    /// What the captured launches touch lives as long as the graph is launched.
    pub unsafe fn capture(&self, work: impl FnOnce() -> Result<()>) -> Result<Graph> {
        let device = &self.device;
        device.bind()?;
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream is live and not being captured: capture ends below in every case.
        unsafe { result::stream::begin_capture(self.raw, mode) }.map_err(|e| device.error("Beginning a capture", e))?;
        let worked = work();
        // SAFETY: the capture was begun above.
        let ended = unsafe { result::stream::end_capture(self.raw) };
        let captured = match (worked, ended) {
            (Ok(()), Ok(graph)) => graph,
            (worked, ended) => {
                if let Ok(graph) = ended {
                    // SAFETY: the graph came from the capture and is not used again.
                    let _ = unsafe { result::graph::destroy(graph) };
                }
                worked?;
                return Err(ended.map_or_else(
                    |e| device.error("Capturing a graph", e),
                    |_| crate::Error::Cuda {
                        what: "Capturing a graph".into(),
                        why: "nothing came".into(),
                        sticky: false,
                    },
                ));
            }
        };
        let mut nodes = 0usize;
        // SAFETY: the graph is live; with a null array only the number is asked for.
        let counted = unsafe { sys::cuGraphGetNodes(captured, std::ptr::null_mut(), &raw mut nodes) };
        // SAFETY: the graph is live.
        let executable = unsafe { result::graph::instantiate(captured, sys::CUgraphInstantiate_flags(0)) };
        // SAFETY: an executable graph does not need the one it came from.
        let _ = unsafe { result::graph::destroy(captured) };
        counted.result().map_err(|e| device.error("Counting a graph's nodes", e))?;
        let executable = executable.map_err(|e| device.error("Instantiating a graph", e))?;
        // SAFETY: both handles are live.
        unsafe { result::graph::upload(executable, self.raw) }.map_err(|e| device.error("Uploading a graph", e))?;
        Ok(Graph { device: device.clone(), executable: Mutex::new(executable), nodes })
    }
}

impl Graph {
    /// Its nodes.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// Queues all of it.
    ///
    /// # Errors
    /// The driver's.
    pub fn launch(&self, stream: &Stream) -> Result<()> {
        self.device.bind()?;
        let executable = self.executable.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: both handles are live; what the graph touches is the promise made to `capture`.
        unsafe { result::graph::launch(*executable, stream.raw) }.map_err(|e| self.device.error("Launching a graph", e))
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        if self.device.may_free() {
            // SAFETY: the handle came from `capture` and is not used again; the driver frees it when its launch is done.
            let _ = unsafe {
                result::graph::exec_destroy(*self.executable.get_mut().unwrap_or_else(PoisonError::into_inner))
            };
        }
    }
}
