//! Passes that are queued in order on one or two streams, or captured as one graph.

use crate::gemm::DeviceArray;
use std::sync::Arc;
use warpbook_device::{CudaDevice, Event, Graph, Result, Stream};

/// Something that is queued on a stream.
pub(super) type Launch = Box<dyn Fn(&Stream) -> Result<()> + Send + Sync>;

/// Which stream an operation runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum On {
    /// The first.
    Main,
    /// The second, once the first has got here.
    Side,
    /// The first, once the second has got here.
    Both,
}

/// An operation's launches.
pub(super) struct Pass {
    /// As "conv1 forward".
    pub name: String,
    /// What it leaves for the operations after it: `None` of all but the network's forward passes.
    pub output: Option<DeviceArray>,
    pub on: On,
    pub launch: Launch,
}

impl Pass {
    pub fn queue(&self, stream: &Stream) -> Result<()> {
        (self.launch)(stream)
    }
}

impl std::fmt::Debug for Pass {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}

/// A second stream, and the events that order it and the first.
#[derive(Debug)]
pub(super) struct Side {
    stream: Stream,
    forked: Event,
    joined: Event,
}

impl Side {
    pub fn new(device: &CudaDevice) -> Result<Self> {
        Ok(Self { stream: device.stream()?, forked: device.event()?, joined: device.event()? })
    }

    /// As [`Stream::make_dependent`].
    pub fn make_dependent(&self) {
        self.stream.make_dependent();
    }

    fn queue(&self, main: &Stream, passes: &[Pass]) -> Result<()> {
        let mut is_forked = false;
        for pass in passes {
            match pass.on {
                On::Main => pass.queue(main)?,
                On::Side => {
                    self.forked.record(main)?;
                    self.stream.wait(&self.forked)?;
                    pass.queue(&self.stream)?;
                    is_forked = true;
                }
                On::Both => {
                    if is_forked {
                        self.joined.record(&self.stream)?;
                        main.wait(&self.joined)?;
                    }
                    is_forked = false;
                    pass.queue(main)?;
                }
            }
        }
        Ok(())
    }
}

/// A step, or the evaluation of a batch.
#[derive(Debug)]
pub(super) struct Program {
    pub passes: Arc<Vec<Pass>>,
    side: Option<Arc<Side>>,
    graph: Option<Graph>,
}

fn queue_all(main: &Stream, side: Option<&Side>, passes: &[Pass]) -> Result<()> {
    match side {
        Some(side) => side.queue(main, passes),
        None => passes.iter().try_for_each(|p| p.queue(main)),
    }
}

impl Program {
    /// Captures the passes, if they are to be one graph.
    pub fn new(
        (stream, side): (&Stream, Option<&Arc<Side>>),
        name: &str,
        passes: Vec<Pass>,
        as_graph: bool,
    ) -> Result<Self> {
        let (passes, side) = (Arc::new(passes), side.cloned());
        let capture = || {
            stream.capture_owning(name, (passes.clone(), side.clone()), |(passes, side)| {
                queue_all(stream, side.as_deref(), passes)
            })
        };
        let graph = as_graph.then(capture).transpose()?;
        Ok(Self { passes, side, graph })
    }

    pub fn queue(&self, stream: &Stream) -> Result<()> {
        match &self.graph {
            Some(graph) => graph.launch(stream),
            None => queue_all(stream, self.side.as_deref(), &self.passes),
        }
    }
}
