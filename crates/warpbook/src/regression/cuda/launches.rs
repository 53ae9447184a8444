//! The rungs whose epochs are kernels of their own.

use super::{Points, Settings, State, choose_tile};
use crate::Result;
use warpbook_device::{Bench, Buffer, CudaDevice, DevicePtr, Event, Graph, Kernel, LaunchOptions, Samples, Stream};
use warpbook_record::regression::{LOG_EVERY, ablations};
use warpbook_record::{KernelStats, Launch, Rung, Schedule};

/// Sums that a pass leaves behind for each block.
const SUMS: usize = 3;
/// Launches of one kernel in the graph that it is timed in alone.
const REPEATS: u32 = 20;

/// What the rungs do in an epoch.
enum Plan {
    /// Four kernels over the points, and their intermediates pred and err, f32 `[n]`.
    Unfused { pred: Buffer<f32>, err: Buffer<f32> },
    /// One pass.
    Fused,
    /// One pass in slices, each on a stream of its own that starts when the update is done.
    Streams { streams: Vec<Stream>, updated: Event, passed: Vec<Event> },
}

/// A rung ready to run: its kernels, its arrays, and what it does in an epoch.
pub(in crate::regression) struct Launches<'a> {
    pub(super) state: State<'a>,
    kernels: Vec<Kernel>,
    plan: Plan,
    /// Blocks of a pass over all points, or of one slice of them.
    pass: Launch,
    /// Blocks of all slices.
    columns: u32,
    /// `[3][columns]`
    partial: Buffer<f32>,
    /// Kernels may begin before their predecessor has ended.
    programmatic: bool,
    /// All epochs, where they are replayed.
    graph: Option<Graph>,
}

impl<'a> Launches<'a> {
    pub(super) fn new(device: &CudaDevice, points: &'a Points, rung: &Rung, settings: &Settings<'_>) -> Result<Self> {
        let state = State::new(device, points, settings)?;
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
                let plan = Plan::Streams { streams, updated: device.event()?, passed };
                (plan, Launch { grid: [grid, 1, 1], ..whole }, grid * count)
            }
            _ => {
                let pass = kernels[0].shape(n as u64);
                let plan = if rung.kernel("forward").is_some() {
                    Plan::Unfused { pred: device.zeros(n)?, err: device.zeros(n)? }
                } else {
                    Plan::Fused
                };
                (plan, pass, pass.grid[0])
            }
        };
        let overlapped = schedule == Schedule::OverlappedGraph;
        let mut this = Self {
            state,
            kernels,
            plan,
            pass,
            columns,
            partial: device.zeros(SUMS * columns as usize)?,
            programmatic: overlapped,
            graph: None,
        };
        if overlapped || schedule == Schedule::Graph {
            // SAFETY: the graph is dropped with `this`, whose arrays it touches; a field's address on the device does not
            // change when `this` moves.
            let graph = unsafe { this.state.stream.capture(|| this.queue_epochs()) }?;
            this.graph = Some(graph);
        }
        Ok(this)
    }

    /// Puts the initial weights back and poisons what the descent writes.
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

    /// What the compiler and the device say of each kernel, with its grid.
    pub(super) fn stats(&self) -> Vec<KernelStats> {
        self.kernels
            .iter()
            .map(|k| {
                let grid = if k.stats().entry == "update" { [1, 1, 1] } else { self.pass.grid };
                KernelStats { grid: Some(grid), ..k.stats().clone() }
            })
            .collect()
    }

    /// The id of the tile of its pass.
    pub(super) fn tile(&self) -> String {
        self.kernels[0].tile().id.to_string()
    }

    fn queue_epochs(&self) -> warpbook_device::Result<()> {
        for epoch in 1..=self.state.epochs {
            let loss = if epoch % LOG_EVERY == 0 {
                self.state.losses.at((epoch / LOG_EVERY - 1) as usize)
            } else {
                DevicePtr::NULL
            };
            self.queue_pass()?;
            self.queue_update(self.state.learning_rate, loss)?;
        }
        Ok(())
    }

    fn queue_pass(&self) -> warpbook_device::Result<()> {
        match &self.plan {
            Plan::Unfused { .. } => (0..4).try_for_each(|k| self.queue_unfused(k)),
            Plan::Fused => self.queue_slice(&self.state.stream, 0, self.state.points.train, 0),
            Plan::Streams { streams, updated, passed } => {
                updated.record(&self.state.stream)?;
                // Slices start at multiples of four points, which the vector loads ask for.
                let slice = self.state.points.train.div_ceil(streams.len()).next_multiple_of(4);
                for (i, (stream, passed)) in streams.iter().zip(passed).enumerate() {
                    let begin = (i * slice).min(self.state.points.train);
                    let len = slice.min(self.state.points.train - begin);
                    stream.wait(updated)?;
                    self.queue_slice(stream, begin, len, i as u32 * self.pass.grid[0])?;
                    passed.record(stream)?;
                    self.state.stream.wait(passed)?;
                }
                Ok(())
            }
        }
    }

    fn queue_slice(&self, stream: &Stream, begin: usize, len: usize, first_block: u32) -> warpbook_device::Result<()> {
        let (x, y) = (self.state.points.x.at(begin), self.state.points.y.at(begin));
        let options = LaunchOptions { programmatic: self.programmatic, ..LaunchOptions::default() };
        // SAFETY: pass(x, y, weights, partial, n, columns, first_block); the slice lies within the points, and `partial`
        // has a column for each of its blocks.
        unsafe {
            self.kernels[0].launch_with(
                stream,
                self.pass,
                options,
                &[&x, &y, &self.state.weights, &self.partial, &(len as u64), &self.columns, &first_block],
            )
        }
    }

    fn queue_unfused(&self, kernel: usize) -> warpbook_device::Result<()> {
        let Plan::Unfused { pred, err } = &self.plan else { return Ok(()) };
        let (Points { x, y, train, .. }, partial) = (self.state.points, &self.partial);
        let n = *train as u64;
        let launch = |args: &[&dyn warpbook_device::KernelArg]| {
            // SAFETY: the arguments of each kernel are below; pred and err have n elements, x and y at least as many,
            // `partial` a column for each block.
            unsafe { self.kernels[kernel].launch(&self.state.stream, self.pass, args) }
        };
        match kernel {
            // forward(x, weights, pred, n)
            0 => launch(&[x, &self.state.weights, pred, &n]),
            // loss(pred, y, err, partial, n)
            1 => launch(&[pred, y, err, partial, &n]),
            // gradient_w(err, x, partial, n)
            2 => launch(&[err, x, partial, &n]),
            // gradient_b(err, partial, n)
            _ => launch(&[err, partial, &n]),
        }
    }

    fn queue_update(&self, learning_rate: f32, loss: DevicePtr) -> warpbook_device::Result<()> {
        let Some(kernel) = self.kernels.last() else { return Ok(()) };
        let inverse_n = self.state.inverse_n();
        let options = LaunchOptions { programmatic: self.programmatic, ..LaunchOptions::default() };
        // SAFETY: update(partial, blocks, inverse_n, learning_rate, weights, loss); `loss` is null or an element.
        unsafe {
            kernel.launch_with(
                &self.state.stream,
                kernel.shape(1),
                options,
                &[&self.partial, &self.columns, &inverse_n, &learning_rate, &self.state.weights, &loss],
            )
        }
    }

    /// Times each kernel of an epoch alone, back to back in a graph; by name, in microseconds a launch.
    pub(super) fn time_operations(&self, device: &CudaDevice, bench: &Bench) -> Result<Vec<(String, Samples)>> {
        self.reset()?;
        // The sums have to be numbers, or the update would spoil the weights.
        self.queue_pass()?;
        let names = self.kernels.iter().map(|k| k.stats().entry.clone());
        let last = self.kernels.len() - 1;
        let mut timed = Vec::new();
        for (i, name) in names.enumerate() {
            let samples = self.time_launches(device, bench, || match (&self.plan, i == last) {
                // With a rate of zero the weights stay what they are.
                (_, true) => self.queue_update(0.0, DevicePtr::NULL),
                (Plan::Unfused { .. }, false) => self.queue_unfused(i),
                _ => self.queue_pass(),
            })?;
            timed.push((name.replace('_', " "), samples));
        }
        Ok(timed)
    }

    /// Times the pass with each of its parts left out; by name, in microseconds a pass.
    pub(super) fn time_ablations(&mut self, device: &CudaDevice, bench: &Bench) -> Result<Vec<(String, Samples)>> {
        self.reset()?;
        let tile = self.tile();
        let mut timed = Vec::new();
        for (name, spec) in ablations() {
            let variant = device.kernel(&spec, choose_tile(&spec, Some(&tile))?)?;
            let whole = std::mem::replace(&mut self.kernels[0], variant);
            let samples = self.time_launches(device, bench, || self.queue_pass());
            self.kernels[0] = whole;
            timed.push((name.to_owned(), samples?));
        }
        Ok(timed)
    }

    fn time_launches(
        &self,
        device: &CudaDevice,
        bench: &Bench,
        queue: impl Fn() -> warpbook_device::Result<()>,
    ) -> Result<Samples> {
        // SAFETY: the graph does not outlive this call, and `self` does.
        let graph = unsafe { self.state.stream.capture(|| (0..REPEATS).try_for_each(|_| queue())) }?;
        let mut samples = bench.cuda(device, &self.state.stream, None, None, || graph.launch(&self.state.stream))?;
        for us in samples.us.iter_mut().chain(&mut samples.wall_us) {
            *us /= f64::from(REPEATS);
        }
        samples.batch *= REPEATS;
        Ok(samples)
    }
}
