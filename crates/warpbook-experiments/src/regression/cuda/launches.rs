//! Rungs that launch kernels for each epoch.

use super::{DescentState, DevicePoints, Settings, choose_tile, launch};
use warpbook_device::{Bench, Buffer, CudaDevice, Event, Graph, Kernel, Samples, Stream};
use warpbook_kernels::Launch;
use warpbook_kernels::regression::{self, LOG_EVERY, NO_POINTS, ONLY_READS, ablations};
use warpbook_lab::Result;
use warpbook_record::{Grid, KernelStats, Rung, Schedule};

/// Number of sums that each block of a pass writes: the loss and two gradients.
const SUMS: usize = 3;
/// Number of launches of the same kernel in the graph that times it.
const REPEATS: u32 = 20;

/// The kernel launches of an epoch.
enum EpochPlan {
    /// Four kernels over the points, with the intermediate arrays pred and err, f32 `[n]` each.
    Unfused { pred: Buffer<f32>, err: Buffer<f32> },
    /// One fused pass.
    Fused,
    /// One pass in slices, each on its own stream. Each slice starts when the previous update is done.
    Streams { streams: Vec<Stream>, updated: Event, passed: Vec<Event> },
}

/// A rung that is ready to run: its kernels, its arrays, and the launches of an epoch.
pub(in crate::regression) struct Launches<'a> {
    pub(super) state: DescentState<'a>,
    pub(super) kernels: Vec<Kernel>,
    plan: EpochPlan,
    /// Launch of a pass over all points, or over one slice.
    pub(super) pass: Launch,
    /// Launch of an update with one block.
    pub(super) step: Launch,
    /// Total number of blocks of all slices.
    pub(super) columns: u32,
    /// Partial sums of all blocks, `[3][columns]`.
    pub(super) partial: Buffer<f32>,
    /// True if a kernel may start before the previous kernel has ended (programmatic dependent launch).
    pub(super) programmatic: bool,
    /// Graph of all epochs, if the rung replays a graph.
    graph: Option<Graph>,
}

impl<'a> Launches<'a> {
    pub(super) fn new(
        device: &CudaDevice,
        points: &'a DevicePoints,
        rung: &Rung,
        plan: regression::Plan,
        settings: &Settings<'_>,
    ) -> Result<Self> {
        let state = DescentState::new(device, points, settings)?;
        let schedule = rung.schedule().unwrap_or(Schedule::Launches);
        let kernels = rung
            .kernels()
            .iter()
            .map(|spec| Ok(device.kernel(spec, choose_tile(spec, settings.tile)?)?))
            .collect::<Result<Vec<_>>>()?;
        let n = points.train;
        let (plan, pass, columns) = match schedule {
            Schedule::Streams(count) => {
                let count = count.max(1);
                let whole = kernels[0].shape(n as u64);
                let grid = whole.grid[0].div_ceil(count);
                let streams = (0..count).map(|_| device.stream()).collect::<Result<Vec<_>, _>>()?;
                let passed = (0..count).map(|_| device.event()).collect::<Result<Vec<_>, _>>()?;
                let plan = EpochPlan::Streams { streams, updated: device.event()?, passed };
                (plan, Launch { grid: [grid, 1, 1], ..whole }, grid * count)
            }
            _ => {
                let pass = kernels[0].shape(n as u64);
                let plan = if plan == regression::Plan::Unfused {
                    EpochPlan::Unfused { pred: device.zeros(n)?, err: device.zeros(n)? }
                } else {
                    EpochPlan::Fused
                };
                (plan, pass, pass.grid[0])
            }
        };
        let overlapped = schedule == Schedule::OverlappedGraph;
        let step = kernels.last().map_or(pass, |update| update.shape(1));
        let mut this = Self {
            state,
            kernels,
            plan,
            pass,
            step,
            columns,
            partial: device.zeros(SUMS * columns as usize)?,
            programmatic: overlapped,
            graph: None,
        };
        if overlapped || schedule == Schedule::Graph {
            this.graph = Some(launch::capture(&this, || this.queue_epochs())?);
        }
        Ok(this)
    }

    /// Resets the weights, and fills the outputs of the descent with poison.
    pub(super) fn reset(&self) -> warpbook_device::Result<()> {
        self.partial.fill_bytes(0xff)?;
        self.state.reset()
    }

    /// Queues the whole descent.
    pub(super) fn queue(&self) -> warpbook_device::Result<()> {
        match &self.graph {
            Some(graph) => graph.launch(&self.state.stream),
            None => self.queue_epochs(),
        }
    }

    /// Returns the compiler's and the device's statistics for each kernel, with its grid.
    pub(super) fn stats(&self) -> Vec<KernelStats> {
        self.kernels
            .iter()
            .map(|k| {
                let grid = if k.spec().grid == Grid::One { [1, 1, 1] } else { self.pass.grid };
                KernelStats { grid: Some(grid), ..k.stats().clone() }
            })
            .collect()
    }

    /// Returns the tile id of the rung's pass.
    pub(super) fn tile(&self) -> String {
        self.kernels[0].tile().id.to_string()
    }

    fn queue_epochs(&self) -> warpbook_device::Result<()> {
        for epoch in 1..=self.state.epochs {
            let log = epoch.is_multiple_of(LOG_EVERY).then(|| (epoch / LOG_EVERY - 1) as usize);
            self.queue_pass()?;
            launch::update(self, self.state.learning_rate, log)?;
        }
        Ok(())
    }

    fn queue_pass(&self) -> warpbook_device::Result<()> {
        match &self.plan {
            EpochPlan::Unfused { pred, err } => (0..4).try_for_each(|k| launch::unfused(self, k, pred, err)),
            EpochPlan::Fused => launch::pass(self, &self.state.stream, 0, self.state.points.train, 0),
            EpochPlan::Streams { streams, updated, passed } => {
                updated.record(&self.state.stream)?;
                // Slices start at multiples of four points, as vector loads require.
                let slice = self.state.points.train.div_ceil(streams.len()).next_multiple_of(4);
                for (i, (stream, passed)) in streams.iter().zip(passed).enumerate() {
                    let begin = (i * slice).min(self.state.points.train);
                    let len = slice.min(self.state.points.train - begin);
                    stream.wait(updated)?;
                    launch::pass(self, stream, begin, len, i as u32 * self.pass.grid[0])?;
                    passed.record(stream)?;
                    self.state.stream.wait(passed)?;
                }
                Ok(())
            }
        }
    }

    /// Times each kernel of an epoch alone, back to back in a graph. Returns names and microseconds per launch.
    pub(super) fn time_operations(&self, device: &CudaDevice, bench: &Bench) -> Result<Vec<(String, Samples)>> {
        self.reset()?;
        // Compute valid sums first, or the update would turn the weights into NaN.
        self.queue_pass()?;
        let names = self.kernels.iter().map(|k| k.stats().entry.clone());
        let last = self.kernels.len() - 1;
        let mut timed = Vec::new();
        for (i, name) in names.enumerate() {
            let samples = self.time_launches(device, bench, || match (&self.plan, i == last) {
                // A learning rate of zero leaves the weights unchanged.
                (_, true) => launch::update(self, 0.0, None),
                (EpochPlan::Unfused { pred, err }, false) => launch::unfused(self, i, pred, err),
                _ => self.queue_pass(),
            })?;
            timed.push((name.replace('_', " "), samples));
        }
        Ok(timed)
    }

    /// Times the fused pass with each of its parts left out, and without points, which gives the cost of its launch.
    /// Returns names and microseconds per pass. The result is empty for rungs without the fused pass, whose kernels
    /// have other parameters.
    pub(super) fn time_ablations(&mut self, device: &CudaDevice, bench: &Bench) -> Result<Vec<(String, Samples)>> {
        if !matches!(self.plan, EpochPlan::Fused) {
            return Ok(Vec::new());
        }
        self.reset()?;
        let tile = self.tile();
        let mut timed = Vec::new();
        for (name, spec) in ablations() {
            let variant = device.kernel(&spec, choose_tile(&spec, Some(&tile))?)?;
            let whole = std::mem::replace(&mut self.kernels[0], variant);
            let samples = self.time_launches(device, bench, || self.queue_pass());
            let nothing = (name == ONLY_READS)
                .then(|| self.time_launches(device, bench, || launch::pass(self, &self.state.stream, 0, 0, 0)));
            self.kernels[0] = whole;
            timed.push((name.to_owned(), samples?));
            if let Some(nothing) = nothing {
                timed.push((NO_POINTS.to_owned(), nothing?));
            }
        }
        Ok(timed)
    }

    fn time_launches(
        &self,
        device: &CudaDevice,
        bench: &Bench,
        queue: impl Fn() -> warpbook_device::Result<()>,
    ) -> Result<Samples> {
        let graph = launch::capture(self, || (0..REPEATS).try_for_each(|_| queue()))?;
        let mut samples = bench.cuda(device, &self.state.stream, None, None, || graph.launch(&self.state.stream))?;
        for us in samples.us.iter_mut().chain(&mut samples.wall_us) {
            *us /= f64::from(REPEATS);
        }
        samples.batch *= REPEATS;
        Ok(samples)
    }
}
