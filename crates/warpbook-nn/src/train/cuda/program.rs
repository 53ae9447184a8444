//! Passes that are queued in order on one or two streams, or captured as one graph.

use std::ops::Range;
use std::sync::Arc;
use warpbook_device::{CudaDevice, Event, Graph, Result, Stream};
use warpbook_gemm::DeviceArray;
use warpbook_ranks::Shard;

/// The kind of batch that a program is built for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct BatchKind {
    /// Number of samples.
    pub n: usize,
    /// True for a training step, false for an evaluation.
    pub trains: bool,
    /// Part of a global batch that the samples form; `None` if they are a whole batch.
    pub shard: Option<Shard>,
    /// Number of operations at the network's start whose parameters no longer change, so that nothing needs their gradients.
    pub settled: usize,
}

/// A function that queues work on a stream.
pub(super) type Launch = Box<dyn Fn(&Stream) -> Result<()> + Send + Sync>;

/// The stream that an operation runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum On {
    /// The first stream.
    Main,
    /// The second stream, after the first has reached this point.
    Side,
    /// The first stream, after the second has reached this point.
    Both,
    /// The stream of the ranks' reductions, for the reduction with this index, after the first two streams have reached this point.
    Link(usize),
    /// The first stream, after this reduction has ended.
    Reduced(usize),
    /// The first stream, after both other streams have reached this point.
    All,
}

/// The launches of an operation.
pub(super) struct Pass {
    /// Name, such as "conv1 forward".
    pub name: String,
    /// Number of samples: a part's samples if the batch is computed in parts.
    pub n: usize,
    /// Output for the following operations if this is a forward pass of the network; otherwise `None`.
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

/// A second stream, and the events that order it and the first stream.
#[derive(Debug)]
pub(super) struct Side {
    stream: Stream,
    forked: Event,
    joined: Event,
}

impl Side {
    /// Creates the stream. If `is_first`, its kernels get free SMs before the kernels of the first stream, because other ranks wait for the
    /// weight gradients.
    ///
    /// # Errors
    /// If the driver reports an error.
    pub fn new(device: &CudaDevice, is_first: bool) -> Result<Self> {
        let stream = if is_first { device.preferred_stream()? } else { device.stream()? };
        Ok(Self { stream, forked: device.event()?, joined: device.event()? })
    }

    /// Applies [`Stream::make_dependent`] to the stream.
    pub fn make_dependent(&self) {
        self.stream.make_dependent();
    }

    fn fork(&self, main: &Stream) -> Result<&Stream> {
        self.forked.record(main)?;
        self.stream.wait(&self.forked)?;
        Ok(&self.stream)
    }

    fn join(&self, main: &Stream) -> Result<()> {
        self.joined.record(&self.stream)?;
        main.wait(&self.joined)
    }
}

/// The stream of the ranks' reductions, and the events that order it and the other streams.
#[derive(Debug)]
pub(super) struct Link {
    stream: Stream,
    main_is_here: Event,
    side_is_here: Event,
    /// Events, one after each reduction.
    reduced: Vec<Event>,
}

impl Link {
    /// Creates the stream for at most `reductions` reductions per step. Their kernels get free SMs before the kernels of the backward pass,
    /// because all ranks wait for them.
    ///
    /// # Errors
    /// If the driver reports an error.
    pub fn new(device: &CudaDevice, reductions: usize) -> Result<Self> {
        let [main_is_here, side_is_here] = [device.event()?, device.event()?];
        let reduced = (0..reductions).map(|_| device.event()).collect::<Result<_>>()?;
        Ok(Self { stream: device.urgent_stream()?, main_is_here, side_is_here, reduced })
    }

    fn follow(&self, main: &Stream, side: Option<&Side>) -> Result<&Stream> {
        self.main_is_here.record(main)?;
        self.stream.wait(&self.main_is_here)?;
        if let Some(side) = side {
            self.side_is_here.record(&side.stream)?;
            self.stream.wait(&self.side_is_here)?;
        }
        Ok(&self.stream)
    }

    /// Makes a stream wait for a reduction, and therefore for all earlier reductions.
    fn join(&self, main: &Stream, reduction: usize) -> Result<()> {
        main.wait(&self.reduced[reduction])
    }
}

/// All streams except the first.
#[derive(Debug, Clone, Default)]
pub(super) struct Others {
    pub side: Option<Arc<Side>>,
    pub link: Option<Arc<Link>>,
}

/// A step, or the evaluation of a batch.
#[derive(Debug)]
pub(super) struct Program {
    pub passes: Arc<Vec<Pass>>,
    others: Others,
    graph: Option<Graph>,
}

fn queue_all(main: &Stream, others: &Others, passes: &[Pass]) -> Result<()> {
    let (side, link) = (others.side.as_deref(), others.link.as_deref());
    let (mut forked, mut linked) = (None, None);
    for pass in passes {
        match (pass.on, side, link) {
            (On::Side, Some(side), _) => {
                pass.queue(side.fork(main)?)?;
                forked = Some(side);
            }
            (On::Link(reduction), _, Some(link)) => {
                pass.queue(link.follow(main, forked)?)?;
                link.reduced[reduction].record(&link.stream)?;
                linked = Some((link, reduction));
            }
            (on, ..) => {
                if let (On::Both | On::All, Some(side)) = (on, forked) {
                    side.join(main)?;
                    forked = None;
                }
                match (on, linked) {
                    (On::Reduced(reduction), Some((link, _))) => link.join(main, reduction)?,
                    (On::All, Some((link, last))) => {
                        link.join(main, last)?;
                        linked = None;
                    }
                    _ => {}
                }
                pass.queue(main)?;
            }
        }
    }
    // If only a part of a step is queued, joins the streams here.
    linked.map_or(Ok(()), |(link, last)| link.join(main, last))?;
    forked.map_or(Ok(()), |side| side.join(main))
}

impl Program {
    /// Captures the passes as a graph, if requested.
    ///
    /// # Errors
    /// If a pass reports an error or cannot be captured, or if the driver reports an error.
    pub fn new((stream, others): (&Stream, &Others), name: &str, passes: Vec<Pass>, as_graph: bool) -> Result<Self> {
        let (passes, others) = (Arc::new(passes), others.clone());
        let capture = || {
            stream.capture_owning(name, (passes.clone(), others.clone()), |(passes, others)| {
                queue_all(stream, others, passes)
            })
        };
        let graph = as_graph.then(capture).transpose()?;
        Ok(Self { passes, others, graph })
    }

    /// Returns the index of the first pass after the gradients: the norm, the verdict or the update.
    pub fn update_begins(&self) -> usize {
        let is_update = |pass: &Pass| {
            let begins = |with: &&str| pass.name.starts_with(*with);
            pass.name == "check" || ["norm of the gradients", "optimiser"].iter().any(begins)
        };
        self.passes.iter().position(is_update).unwrap_or(self.passes.len())
    }

    /// Queues only a range of the program's passes.
    ///
    /// # Errors
    /// If a pass or the driver reports an error.
    pub fn queue_part(&self, stream: &Stream, part: Range<usize>) -> Result<()> {
        queue_all(stream, &self.others, &self.passes[part])
    }

    pub fn queue(&self, stream: &Stream) -> Result<()> {
        match &self.graph {
            Some(graph) => graph.launch(stream),
            None => queue_all(stream, &self.others, &self.passes),
        }
    }
}
