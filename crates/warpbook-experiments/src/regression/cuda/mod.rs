//! The regression's rungs on a GPU.

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
use whole::WholeDescent;

/// Points on a device; the first `train` are the training points.
pub(super) struct DevicePoints {
    /// Features, f32 `[features][pitch]`; each row starts at a multiple of 16 bytes.
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

/// The settings of a descent.
#[derive(Debug, Clone)]
pub(super) struct Settings<'s> {
    /// Id of the requested tile, which applies to the rungs that have such a tile.
    pub(super) tile: Option<&'s str>,
    /// Initial weights: one weight for each feature, then b.
    pub(super) start: Vec<f32>,
    pub(super) epochs: u64,
    pub(super) learning_rate: f32,
}

/// The stream of a rung, and the arrays that every rung writes.
struct DescentState<'a> {
    points: &'a DevicePoints,
    stream: Stream,
    start: Vec<f32>,
    /// Weights: one weight for each feature, then b.
    weights: Buffer<f32>,
    /// Logged losses, f32 `[epochs / LOG_EVERY]`.
    losses: Buffer<f32>,
    epochs: u64,
    learning_rate: f32,
}

impl<'a> DescentState<'a> {
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

    /// Resets the weights and fills the losses with poison, so that old results cannot pass for new ones.
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

/// A rung that is ready to run.
pub(super) enum Descender<'a> {
    /// The rung launches kernels for each epoch.
    Launches(Box<Launches<'a>>),
    /// The rung runs all epochs in one or two launches.
    Whole(Box<WholeDescent<'a>>),
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
            _ => Self::Whole(Box::new(WholeDescent::new(device, points, rung, plan, settings)?)),
        })
    }

    /// Returns the stream on which the rung runs.
    pub(super) fn stream(&self) -> &Stream {
        match self {
            Self::Launches(l) => &l.state.stream,
            Self::Whole(w) => &w.state.stream,
        }
    }

    /// Resets the weights, and fills the outputs of the descent with poison.
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

    /// Returns the compiler's and the device's statistics for each kernel that runs, with its grid.
    pub(super) fn stats(&self) -> Vec<KernelStats> {
        match self {
            Self::Launches(l) => l.stats(),
            Self::Whole(w) => w.stats(),
        }
    }

    /// Returns the tile id of the rung's pass.
    pub(super) fn tile(&self) -> String {
        match self {
            Self::Launches(l) => l.tile(),
            Self::Whole(w) => w.tile(),
        }
    }

    /// Describes the choice that a rule made for this size, with the reason; `None` if there was no choice.
    pub(super) fn choice(&self) -> Option<String> {
        match self {
            Self::Launches(_) => None,
            Self::Whole(w) => w.choice.clone(),
        }
    }

    /// Returns where the points are stored, if a rule chose the place.
    pub(super) fn placement(&self) -> Option<&Placement> {
        match self {
            Self::Launches(_) => None,
            Self::Whole(w) => w.placement.as_ref(),
        }
    }

    /// Returns the number of points that the threads hold in registers at the same time, if the rung alternates its
    /// direction.
    pub(super) fn in_flight(&self) -> u64 {
        match self {
            Self::Launches(_) => 0,
            Self::Whole(w) => w.in_flight(),
        }
    }

    /// Times each kernel of an epoch alone. Empty for a rung without a kernel for each epoch.
    pub(super) fn time_operations(&self, device: &CudaDevice, bench: &Bench) -> Result<Vec<(String, Samples)>> {
        match self {
            Self::Launches(l) => l.time_operations(device, bench),
            Self::Whole(_) => Ok(Vec::new()),
        }
    }

    /// Times the pass with each of its parts left out. Empty for a rung without a kernel for each epoch.
    pub(super) fn time_ablations(&mut self, device: &CudaDevice, bench: &Bench) -> Result<Vec<(String, Samples)>> {
        match self {
            Self::Launches(l) => l.time_ablations(device, bench),
            Self::Whole(_) => Ok(Vec::new()),
        }
    }
}

/// Returns the tile with this id, or the default tile if there is no id or no such tile.
fn choose_tile<'k>(spec: &'k KernelSpec, id: Option<&str>) -> Result<&'k Tile> {
    let wanted = id.and_then(|id| spec.tile(id));
    wanted.or(spec.tiles.first()).ok_or_else(|| Error::Setting(format!("kernels/{} has no tile", spec.file)))
}
