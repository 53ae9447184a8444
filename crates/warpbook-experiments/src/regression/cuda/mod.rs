//! Rungs of the regression on a GPU.

mod launch;
mod launches;
mod whole;

use super::cpu::Descent;
use super::data;
use launches::Launches;
use warpbook_device::{Bench, Buffer, CudaDevice, Samples, Stream};
use warpbook_kernels::regression::{LOG_EVERY, Line, Placement, Plan, data_kernel, featured_data_kernel};
use warpbook_lab::{Error, Result};
use warpbook_record::{KernelSpec, KernelStats, Rung, Tile};
use whole::Whole;

/// Points on a device; the first `train` are trained on.
pub(super) struct DevicePoints {
    /// Features, f32 `[features][pitch]`, each row at a multiple of 16 bytes.
    x: Buffer<f32>,
    /// Observed values, f32 `[pitch]`.
    y: Buffer<f32>,
    points: usize,
    pitch: usize,
    features: usize,
    train: usize,
}

impl DevicePoints {
    /// Draws the points on the device, with the same bits as [`data::DataSet::around`].
    pub(super) fn draw(
        device: &CudaDevice,
        (points, features): (u64, u64),
        line: &Line,
        noise: f32,
        seed: u64,
    ) -> Result<Self> {
        let pitch = points.next_multiple_of(4);
        let len = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        let drawn = Self {
            x: device.zeros(len(pitch.saturating_mul(features)))?,
            y: device.zeros(len(pitch))?,
            points: len(points),
            pitch: len(pitch),
            features: len(features),
            train: len(data::train_points(points)),
        };
        let spec = if features == 1 { data_kernel() } else { featured_data_kernel() };
        let (kernel, stream) = (device.kernel(&spec, &spec.tiles[0])?, device.stream()?);
        launch::draw(&kernel, &stream, &drawn, (line, noise, seed))?;
        stream.synchronize()?;
        Ok(drawn)
    }

    /// Copies the points to the host.
    pub(super) fn download(&self) -> Result<data::DataSet> {
        let (x, mut y) = (self.x.to_vec()?, self.y.to_vec()?);
        y.truncate(self.points);
        let x = x.chunks(self.pitch).map(|row| row[..self.points].to_vec()).collect();
        Ok(data::DataSet { x, y, train: self.train })
    }
}

/// Settings of a descent.
#[derive(Debug, Clone)]
pub(super) struct Settings<'s> {
    /// Id of a tile, for rungs that have it.
    pub(super) tile: Option<&'s str>,
    /// Initial weights, one a feature, then b.
    pub(super) start: Vec<f32>,
    pub(super) epochs: u64,
    pub(super) learning_rate: f32,
}

/// Arrays that every rung writes to, and the stream that it runs on.
struct State<'a> {
    points: &'a DevicePoints,
    stream: Stream,
    start: Vec<f32>,
    /// Weights, one a feature, then b.
    weights: Buffer<f32>,
    /// Logged losses, `[epochs / LOG_EVERY]`.
    losses: Buffer<f32>,
    epochs: u64,
    learning_rate: f32,
}

impl<'a> State<'a> {
    fn new(device: &CudaDevice, points: &'a DevicePoints, settings: &Settings<'_>) -> Result<Self> {
        Ok(Self {
            points,
            stream: device.stream()?,
            start: settings.start.clone(),
            weights: device.zeros(settings.start.len())?,
            losses: device.zeros((settings.epochs / LOG_EVERY).max(1) as usize)?,
            epochs: settings.epochs,
            learning_rate: settings.learning_rate,
        })
    }

    /// Puts the initial weights back and poisons the losses, so that nothing of the last descent can pass for new.
    fn reset(&self) -> warpbook_device::Result<()> {
        self.losses.fill_bytes(0xff)?;
        self.weights.write(&self.start)
    }

    /// Reads the result of the last descent.
    fn result(&self) -> Result<Descent> {
        self.stream.synchronize()?;
        let mut losses = self.losses.to_vec()?;
        losses.truncate((self.epochs / LOG_EVERY) as usize);
        Ok(Descent { weights: self.weights.to_vec()?, losses })
    }

    fn inverse_n(&self) -> f32 {
        1.0 / self.points.train as f32
    }
}

/// Rung that is ready to run.
pub(super) enum Descender<'a> {
    /// Kernels for each epoch.
    Launches(Box<Launches<'a>>),
    /// One or two launches for all epochs.
    Whole(Box<Whole<'a>>),
}

impl<'a> Descender<'a> {
    pub(super) fn new(
        device: &CudaDevice,
        points: &'a DevicePoints,
        rung: &Rung,
        plan: Plan,
        settings: &Settings<'_>,
    ) -> Result<Self> {
        Ok(match plan {
            Plan::Unfused | Plan::Fused => {
                Self::Launches(Box::new(Launches::new(device, points, rung, plan, settings)?))
            }
            _ => Self::Whole(Box::new(Whole::new(device, points, rung, plan, settings)?)),
        })
    }

    /// Returns the stream that it runs on.
    pub(super) fn stream(&self) -> &Stream {
        match self {
            Self::Launches(l) => &l.state.stream,
            Self::Whole(w) => &w.state.stream,
        }
    }

    /// Puts the initial weights back, and poisons the outputs of the descent.
    pub(super) fn reset(&self) -> warpbook_device::Result<()> {
        match self {
            Self::Launches(l) => l.reset(),
            Self::Whole(w) => w.state.reset(),
        }
    }

    /// Queues the whole descent.
    pub(super) fn queue(&self) -> warpbook_device::Result<()> {
        match self {
            Self::Launches(l) => l.queue(),
            Self::Whole(w) => w.queue(),
        }
    }

    /// Reads the result of the last descent.
    pub(super) fn result(&self) -> Result<Descent> {
        match self {
            Self::Launches(l) => l.state.result(),
            Self::Whole(w) => w.result(),
        }
    }

    /// Returns the figures of the compiler and the device about each kernel that runs, with its grid.
    pub(super) fn stats(&self) -> Vec<KernelStats> {
        match self {
            Self::Launches(l) => l.stats(),
            Self::Whole(w) => w.stats(),
        }
    }

    /// Returns the id of the tile of its pass.
    pub(super) fn tile(&self) -> String {
        match self {
            Self::Launches(l) => l.tile(),
            Self::Whole(w) => w.tile(),
        }
    }

    /// Returns the choice that a rule made for this size, with its reason.
    pub(super) fn choice(&self) -> Option<String> {
        match self {
            Self::Launches(_) => None,
            Self::Whole(w) => w.choice.clone(),
        }
    }

    /// Returns where the points are kept.
    pub(super) fn placement(&self) -> Option<&Placement> {
        match self {
            Self::Launches(_) => None,
            Self::Whole(w) => w.placement.as_ref(),
        }
    }

    /// Returns the points that its threads have in registers at once, if it goes through them in alternating direction.
    pub(super) fn in_flight(&self) -> u64 {
        match self {
            Self::Launches(_) => 0,
            Self::Whole(w) => w.in_flight(),
        }
    }

    /// Times each kernel of an epoch alone; nothing for a rung whose epochs are not kernels.
    pub(super) fn time_operations(&self, device: &CudaDevice, bench: &Bench) -> Result<Vec<(String, Samples)>> {
        match self {
            Self::Launches(l) => l.time_operations(device, bench),
            Self::Whole(_) => Ok(Vec::new()),
        }
    }

    /// Times the pass with each of its parts left out; nothing for a rung whose epochs are not kernels.
    pub(super) fn time_ablations(&mut self, device: &CudaDevice, bench: &Bench) -> Result<Vec<(String, Samples)>> {
        match self {
            Self::Launches(l) => l.time_ablations(device, bench),
            Self::Whole(_) => Ok(Vec::new()),
        }
    }
}

/// Returns the tile of an id, or the default if no id is given or the kernel lacks it.
fn choose_tile<'k>(spec: &'k KernelSpec, id: Option<&str>) -> Result<&'k Tile> {
    let wanted = id.and_then(|id| spec.tile(id));
    wanted.or(spec.tiles.first()).ok_or_else(|| Error::Setting(format!("kernels/{} has no tile", spec.file)))
}
