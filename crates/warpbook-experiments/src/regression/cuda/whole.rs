//! Rungs that run all epochs in one or two launches.

use super::{Descent, DescentState, DevicePoints, Settings, choose_tile, launch};
use warpbook_device::{Buffer, CudaDevice, Kernel};
use warpbook_kernels::Launch;
use warpbook_kernels::regression::{
    self, CLUSTER_BLOCKS, LOG_EVERY, Placement, Residency, Room, choose_placement, multivariate_points_at_once,
    multivariate_split,
};
use warpbook_lab::{Error, Result};
use warpbook_record::{Define, KernelSpec, KernelStats, Rung, Tile};

/// Number of 64-bit words in a block's slot of `PairExchange`, and the number of alternating rounds.
const SLOT_WORDS: usize = 8;
const ROUNDS: usize = 2;
/// Seconds after which a block stops waiting for another block; no epoch takes nearly as long.
const LIMIT_S: f64 = 2.0;

/// A rung that is ready to run.
pub(in crate::regression) struct WholeDescent<'a> {
    pub(super) state: DescentState<'a>,
    rung: String,
    plan: DescentPlan,
    /// Describes the choice of a rule, with the reason.
    pub(super) choice: Option<String>,
    pub(super) placement: Option<Placement>,
}

#[allow(clippy::large_enum_variant, reason = "one a rung, in a box")]
enum DescentPlan {
    /// A grid whose blocks exchange their sums: `05_persistent`, or `06_on_chip` over the whole grid.
    Grid { kernel: Kernel, shape: Launch, loss_partial: Buffer<f32>, barrier: Barrier },
    /// One thread block cluster.
    Cluster { kernel: Kernel, shape: Launch },
    /// A pass that writes moments, f64 `[5][blocks]`, and a descent that uses only the moments.
    Statistics { moments: Kernel, descend: Kernel, partial: Buffer<f64> },
    /// A descent with several features. The arrays are `of_blocks[features + 2][blocks]` and `of_all[features + 1]`.
    Multivariate { kernel: Kernel, shape: Launch, of_blocks: Buffer<u64>, of_all: Buffer<u64>, barrier: Barrier },
}

/// Memory shared by blocks that wait for each other.
pub(super) struct Barrier {
    /// Words that contain a value and the number of its round.
    pub(super) words: Buffer<u64>,
    /// The number of rounds in earlier launches, and the round that timed out.
    pub(super) control: Buffer<u32>,
    /// Number of blocks that exchange their sums.
    pub(super) blocks: u32,
    pub(super) limit_ns: u64,
}

impl Barrier {
    fn new(device: &CudaDevice, words: usize, blocks: u32) -> Result<Self> {
        let limit_ns = (LIMIT_S * 1e9) as u64;
        Ok(Self { words: device.zeros(words)?, control: device.zeros(2)?, blocks, limit_ns })
    }
}

/// Builds a rung's plan.
struct Maker<'m> {
    device: &'m CudaDevice,
    state: &'m DescentState<'m>,
    rung: &'m str,
    settings: &'m Settings<'m>,
}

impl Maker<'_> {
    fn load(&self, spec: &KernelSpec) -> Result<Kernel> {
        Ok(self.device.kernel(spec, choose_tile(spec, self.settings.tile)?)?)
    }

    /// Returns an error unless all blocks can be resident at once, which is required because they wait for each other.
    fn ensure_room(&self, kernel: &Kernel, shape: Launch) -> Result<()> {
        let blocks_per_sm = kernel.stats().blocks_per_multiprocessor.unwrap_or(0);
        let room = blocks_per_sm * self.device.info().multiprocessors;
        if shape.grid[0] <= room {
            return Ok(());
        }
        Err(Error::NoRoom { rung: self.rung.to_owned(), blocks: shape.grid[0], room })
    }

    fn grid(&self, mut kernel: Kernel, residency: Option<Residency>) -> Result<DescentPlan> {
        let mut shape = kernel.shape(self.state.points.train as u64);
        if let Some(r) = residency {
            kernel.reserve_shared(r.shared_bytes)?;
            shape = Launch { grid: [r.blocks, 1, 1], dynamic_shared_bytes: r.shared_bytes, ..shape };
        }
        self.ensure_room(&kernel, shape)?;
        let blocks = shape.grid[0];
        let logs = (self.state.epochs / LOG_EVERY).max(1) as usize;
        let loss_partial = self.device.zeros(logs * blocks as usize)?;
        let barrier = Barrier::new(self.device, ROUNDS * SLOT_WORDS * blocks as usize, blocks)?;
        Ok(DescentPlan::Grid { kernel, shape, loss_partial, barrier })
    }

    /// Queries how many blocks fit on the device, applies the rule, and describes the choice.
    fn on_chip(&self, [grid, cluster, persistent]: [&KernelSpec; 3]) -> Result<(DescentPlan, Placement, String)> {
        let (device, settings) = (self.device, self.settings);
        let info = device.info();
        let train = self.state.points.train as u64;
        // A requested tile limits the registers per thread; within that limit, the number of points determines how many
        // are used.
        let most_groups = settings
            .tile
            .and_then(|t| grid.tile(t))
            .or(grid.tiles.first())
            .and_then(|t| t.get("REGISTER_GROUPS"))
            .map_or(u64::MAX, i64::unsigned_abs);
        let of_groups = |spec: &KernelSpec, r: &Residency| -> Result<Kernel> {
            if let Some(tile) = spec.tile(&r.tile_id()) {
                return Ok(device.kernel(spec, tile)?);
            }
            // A learner's kernel has only one tile, possibly with more register groups than the points need.
            let mut tile = choose_tile(spec, None)?.clone();
            tile.set(Define::new("REGISTER_GROUPS", r.register_groups.cast_signed()));
            Ok(device.kernel(spec, &Tile { id: r.tile_id().into(), ..tile })?)
        };
        let room = |cluster_blocks| Room {
            multiprocessors: info.multiprocessors,
            shared_bytes_per_block: info.shared_bytes_per_block.unwrap_or(48 << 10),
            cluster_blocks,
            most_groups,
        };
        let has_clusters = info.compute_capability.is_some_and(|cc| cc >= (9, 0));
        // Some chips do not support clusters of 16, and other work may occupy the SMs, so the device is asked what
        // fits.
        let sizes = if has_clusters { vec![CLUSTER_BLOCKS, 8] } else { Vec::new() };
        for blocks in sizes {
            let (placement, sentence) = choose_placement(train, room(blocks));
            let Placement::Cluster(r) = placement else { break };
            let spec = cluster.clone().define("BLOCKS", i64::from(blocks));
            let mut kernel = of_groups(&spec, &r)?;
            kernel.reserve_shared(r.shared_bytes)?;
            let shape = Launch { grid: [blocks, 1, 1], dynamic_shared_bytes: r.shared_bytes, ..kernel.shape(train) };
            if kernel.resident_clusters(blocks, shape)? > 0 {
                return Ok((DescentPlan::Cluster { kernel, shape }, Placement::Cluster(r), sentence));
            }
        }
        let (placement, sentence) = choose_placement(train, room(0));
        let plan = match &placement {
            Placement::Grid(r) => self.grid(of_groups(grid, r)?, Some(*r)),
            _ => self.grid(self.load(persistent)?, None),
        }?;
        Ok((plan, placement, sentence))
    }

    fn multivariate(&self, spec: &KernelSpec) -> Result<DescentPlan> {
        let points = self.state.points;
        let features = points.features;
        let spec = spec.clone().define("FEATURES", features as i64);
        // If a tile has too few warps per block for these features, use the default tile.
        let split = |tile: &Tile| multivariate_split(tile, features as u64);
        let warps = |tile: &Tile| tile.get("THREADS").map_or(32, i64::unsigned_abs) / 32;
        let mut tile = choose_tile(&spec, self.settings.tile)?;
        if split(tile) > warps(tile) {
            tile = choose_tile(&spec, None)?;
        }
        let kernel = self.device.kernel(&spec, tile)?;
        let shape = kernel.shape(points.train as u64 * split(tile));
        self.ensure_room(&kernel, shape)?;
        let blocks = shape.grid[0];
        Ok(DescentPlan::Multivariate {
            of_blocks: self.device.zeros((features + 2) * blocks as usize)?,
            of_all: self.device.zeros(features + 1)?,
            barrier: Barrier::new(self.device, 1, blocks)?,
            kernel,
            shape,
        })
    }
}

impl<'a> WholeDescent<'a> {
    pub(super) fn new(
        device: &CudaDevice,
        points: &'a DevicePoints,
        rung: &Rung,
        plan: regression::Plan,
        settings: &Settings<'_>,
    ) -> Result<Self> {
        let state = DescentState::new(device, points, settings)?;
        let [first, others @ ..] = rung.kernels() else {
            return Err(Error::Setting(format!("{} has no kernel", rung.id)));
        };
        let maker = Maker { device, state: &state, rung: &rung.id, settings };
        let (mut placement, mut choice) = (None, None);
        let plan = match (plan, others) {
            (regression::Plan::Multivariate, _) => maker.multivariate(first)?,
            (regression::Plan::Persistent, _) => maker.grid(maker.load(first)?, None)?,
            (regression::Plan::Statistics, [second]) => {
                let (moments, descend) = (maker.load(first)?, maker.load(second)?);
                let blocks = moments.shape(points.train as u64).grid[0];
                DescentPlan::Statistics { moments, descend, partial: device.zeros(5 * blocks as usize)? }
            }
            (regression::Plan::OnChip, [cluster, persistent]) => {
                let (plan, chosen, why) = maker.on_chip([first, cluster, persistent])?;
                (placement, choice) = (Some(chosen), Some(why));
                plan
            }
            _ => return Err(Error::Setting(format!("{} does not have the kernels that its plan needs.", rung.id))),
        };
        Ok(Self { state, rung: rung.id.to_string(), plan, choice, placement })
    }

    /// Queues all epochs.
    pub(super) fn queue(&self) -> warpbook_device::Result<()> {
        let state = &self.state;
        match &self.plan {
            DescentPlan::Grid { kernel, shape, loss_partial, barrier } => {
                launch::descend(state, kernel, *shape, loss_partial, barrier)
            }
            DescentPlan::Cluster { kernel, shape } => launch::descend_in_cluster(state, kernel, *shape),
            DescentPlan::Statistics { moments, descend, partial } => {
                launch::descend_on_moments(state, moments, descend, partial)
            }
            DescentPlan::Multivariate { kernel, shape, of_blocks, of_all, barrier } => {
                launch::descend_multivariate(state, kernel, *shape, [of_blocks, of_all], barrier)
            }
        }
    }

    /// Reads the result of the last descent, or the epoch in which it timed out.
    pub(super) fn result(&self) -> Result<Descent> {
        let result = self.state.result()?;
        if let DescentPlan::Grid { barrier, .. } | DescentPlan::Multivariate { barrier, .. } = &self.plan {
            let failed = barrier.control.to_vec()?[1];
            if failed != 0 {
                let limit_s = barrier.limit_ns as f64 * 1e-9;
                return Err(Error::GaveUp { rung: self.rung.clone(), epoch: failed, limit_s });
            }
        }
        Ok(result)
    }

    pub(super) fn stats(&self) -> Vec<KernelStats> {
        let with = |kernel: &Kernel, shape: Launch| KernelStats { grid: Some(shape.grid), ..kernel.stats().clone() };
        match &self.plan {
            DescentPlan::Grid { kernel, shape, .. }
            | DescentPlan::Cluster { kernel, shape }
            | DescentPlan::Multivariate { kernel, shape, .. } => vec![with(kernel, *shape)],
            DescentPlan::Statistics { moments, descend, .. } => {
                vec![with(moments, moments.shape(self.state.points.train as u64)), with(descend, descend.shape(1))]
            }
        }
    }

    /// Returns the number of points that the threads hold in registers at the same time.
    pub(super) fn in_flight(&self) -> u64 {
        match &self.plan {
            DescentPlan::Grid { kernel, shape, .. } => {
                let a_thread = kernel.tile().get("ITEMS").map_or(0, i64::unsigned_abs);
                u64::from(shape.grid[0]) * u64::from(shape.block[0]) * a_thread
            }
            DescentPlan::Multivariate { kernel, shape, .. } => {
                let features = self.state.points.features as u64;
                u64::from(shape.grid[0]) * multivariate_points_at_once(kernel.tile(), features)
            }
            DescentPlan::Cluster { .. } | DescentPlan::Statistics { .. } => 0,
        }
    }

    pub(super) fn tile(&self) -> String {
        let (DescentPlan::Grid { kernel, .. }
        | DescentPlan::Cluster { kernel, .. }
        | DescentPlan::Multivariate { kernel, .. }
        | DescentPlan::Statistics { moments: kernel, .. }) = &self.plan;
        kernel.tile().id.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::regression::cuda::Descender;
    use warpbook_device::testing;
    use warpbook_kernels::regression::{Line, RegressionRow, rows};

    fn row(id: &str) -> RegressionRow {
        rows().into_iter().find(|r| r.rung.id == id).unwrap()
    }

    /// Checks that if one block never arrives, the others time out and report it, and the device stays usable.
    #[test]
    fn who_waits_in_vain_gives_up() {
        let Some(device) = testing::gpu("who_waits_in_vain_gives_up") else { return };
        for (id, features) in [("05_persistent", 1), ("06_on_chip", 1), ("08_multivariate", 3)] {
            let points = DevicePoints::draw(&device, (3_000_000, features), &Line::default(), 0.1, 1).unwrap();
            let RegressionRow { rung, plan, .. } = row(id);
            let mut start = vec![0.83; features as usize];
            start.push(0.7645);
            let settings = Settings { tile: None, start, epochs: 20, learning_rate: 0.01 };
            let mut whole = WholeDescent::new(&device, &points, &rung, plan, &settings).unwrap();
            let (DescentPlan::Grid { barrier, .. } | DescentPlan::Multivariate { barrier, .. }) = &mut whole.plan
            else {
                panic!("{id} does not wait");
            };
            assert!(barrier.blocks > 1);
            barrier.limit_ns = 20_000_000;
            let blocks = barrier.blocks;
            // The blocks now wait for one more block than there are. The arrays are doubled so that they contain a slot
            // for the missing block.
            barrier.words = device.zeros(barrier.words.len() * 2).unwrap();
            barrier.blocks += 1;
            if let DescentPlan::Multivariate { of_blocks, .. } = &mut whole.plan {
                *of_blocks = device.zeros(of_blocks.len() * 2).unwrap();
            }
            if let DescentPlan::Grid { loss_partial, .. } = &mut whole.plan {
                *loss_partial = device.zeros(loss_partial.len() * 2).unwrap();
            }
            let begun = std::time::Instant::now();
            whole.state.reset().unwrap();
            whole.queue().unwrap();
            let error = whole.result().unwrap_err();
            assert!(matches!(&error, Error::GaveUp { epoch: 1, .. }), "{id} of {blocks}: {error}");
            assert!(error.to_string().contains("04_fused_graph"), "{error}");
            assert!(begun.elapsed().as_secs_f64() < 2.0, "{id}: {:?}", begun.elapsed());
            // The next descent on the same device works as usual.
            let again = Descender::new(&device, &points, &rung, plan, &settings).unwrap();
            again.reset().unwrap();
            again.queue().unwrap();
            assert!(again.result().unwrap().weights.iter().all(|w| w.is_finite()));
        }
    }

    /// Checks that a grid that cannot be resident at once is refused before the launch.
    #[test]
    fn a_grid_without_room_is_refused() {
        let Some(device) = testing::gpu("a_grid_without_room_is_refused") else { return };
        let points = DevicePoints::draw(&device, (1000, 1), &Line::default(), 0.1, 1).unwrap();
        let RegressionRow { rung, plan, .. } = row("05_persistent");
        let settings = Settings { tile: None, start: vec![0.83, 0.7645], epochs: 2, learning_rate: 0.01 };
        let mut whole = WholeDescent::new(&device, &points, &rung, plan, &settings).unwrap();
        let DescentPlan::Grid { kernel, shape, .. } = &mut whole.plan else { panic!("05 exchanges over the grid") };
        shape.grid[0] = device.info().multiprocessors * 64;
        let (kernel, shape) = (kernel.clone(), *shape);
        let maker = Maker { device: &device, state: &whole.state, rung: "05_persistent", settings: &settings };
        let error = maker.ensure_room(&kernel, shape).unwrap_err().to_string();
        assert!(error.contains("blocks at once") && error.contains("04_fused_graph"), "{error}");
        // The driver also refuses the cooperative launch.
        let error = whole.queue().unwrap_err().to_string();
        assert!(error.contains("COOPERATIVE"), "{error}");
    }
}
