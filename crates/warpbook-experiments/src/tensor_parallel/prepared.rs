//! The matrices of one problem, and the rungs that multiply them.

use super::team::Team;
use super::{ProductWay, ResultTransfer, TensorParallel};
use crate::matmul::as_check;
use std::sync::Arc;
use warpbook_device::Stream;
use warpbook_gemm::philox::gaussians;
use warpbook_gemm::storage::Storage;
use warpbook_gemm::tensor_parallel::{Options, Split, TensorParallel as Over, Timeline};
use warpbook_gemm::{DeviceArrays, Judge, Product};
use warpbook_lab::experiment::{Candidate, Checked, Details, Prepared, Trials};
use warpbook_lab::{Error, Event, Lab, Result};
use warpbook_record::{Dtype, MemoryLevel, Problem, Rung, Traffic};

/// Minimum number of operations on each GPU for a rung to be timed in rounds with others. Shorter runs would be
/// captured into a graph, and copies between GPUs cannot be captured, so these rungs are timed alone.
const SHORT: u64 = 50_000_000_000;

/// Stands in for a problem if there is no GPU; every rung is then skipped.
pub(super) struct Nothing;

impl Prepared for Nothing {
    fn candidate<'p>(&'p self, rung: &Rung, _: &mut Trials<'_>) -> Result<Box<dyn Candidate + 'p>> {
        Err(unknown(rung))
    }
}

fn unknown(rung: &Rung) -> Error {
    Error::UnknownRung { name: rung.id.to_string(), nearest: Vec::new() }
}

/// The matrices A, B and C of a problem on the first GPU, and the reference for results.
pub(super) struct TensorParallelWork {
    team: Arc<Team>,
    problem: Problem,
    product: Product,
    a: Storage,
    b: Storage,
    c: Storage,
    /// Compares results with the reference; `None` if nothing is checked.
    judge: Option<Judge>,
    stream: Stream,
    panels: Option<u64>,
}

impl TensorParallelWork {
    pub fn draw(
        experiment: &TensorParallel,
        lab: &Lab,
        team: Arc<Team>,
        problem: &Problem,
        checked: bool,
    ) -> Result<Self> {
        lab.tell(&Event::Preparing(&format!("drawing {} and the reference", problem.label)));
        let product = Product::try_from(problem).map_err(|malformed| Error::Setting(malformed.to_string()))?;
        let (dtype, device) = (problem.dtype, &team.devices[0]);
        let [a, b, c] = product.elements();
        let matrix = |stream, elements| -> Result<Storage> {
            let drawn = gaussians(device, experiment.seed, stream, elements)?;
            Ok(match dtype {
                Dtype::F16 | Dtype::Bf16 => Storage::from_f32(device, &drawn.to_vec()?, dtype)?,
                _ => Storage::F32(drawn),
            })
        };
        let (a, b) = (matrix(0, a)?, matrix(1, b)?);
        let c = Storage::zeros(device, c, product.form.out)?;
        let judge = checked.then(|| Judge::new(device, &product, &a, &b)).transpose()?;
        let (stream, panels) = (device.stream()?, experiment.panels);
        Ok(Self { team, problem: problem.clone(), product, a, b, c, judge, stream, panels })
    }

    /// Plans the product for one of the ways of computing it.
    fn over(&self, way: ProductWay) -> Result<Over> {
        let devices = if way.split.is_some() { &self.team.devices[..] } else { &self.team.devices[..1] };
        let mut options = Options::new(way.split.unwrap_or(Split::Rows));
        options.link_bytes_per_s = self.team.link_rate();
        options.panels = self.panels.map(|n| u32::try_from(n).unwrap_or(u32::MAX));
        match way.by {
            ResultTransfer::Copies => {}
            ResultTransfer::Stores => options = options.stores(),
            ResultTransfer::Nccl => options = options.nccl(self.team.nccl()?),
        }
        let arrays = DeviceArrays::new(&self.a, &self.b, &self.c);
        Ok(Over::new(devices, &self.product, &arrays, &options)?)
    }

    /// Records the activity of each GPU in one run.
    ///
    /// # Errors
    /// If the product cannot be computed in this way, a kernel does not compile, or a device reports an error.
    pub fn timeline(&self, way: ProductWay) -> Result<Timeline> {
        Ok(self.over(way)?.timeline(&self.stream)?)
    }
}

impl Prepared for TensorParallelWork {
    fn candidate<'p>(&'p self, rung: &Rung, _: &mut Trials<'_>) -> Result<Box<dyn Candidate + 'p>> {
        let way = ProductWay::for_rung(rung).ok_or_else(|| unknown(rung))?;
        Ok(Box::new(OnGpus { work: self, over: self.over(way)? }))
    }
}

/// A rung that is ready to run on one problem, with several GPUs.
struct OnGpus<'p> {
    work: &'p TensorParallelWork,
    over: Over,
}

impl Candidate for OnGpus<'_> {
    fn stream(&self) -> Option<&Stream> {
        Some(&self.work.stream)
    }

    /// Fills C with NaNs, so that an old result cannot pass for a new one.
    fn reset(&self) -> warpbook_device::Result<()> {
        self.work.stream.synchronize()?;
        self.work.c.fill_bytes(0xff)
    }

    fn timed_alone(&self) -> bool {
        self.work.problem.flops / (self.over.gpus() as u64).max(1) < SHORT
    }

    fn launch(&self) -> warpbook_device::Result<()> {
        self.over.queue(&self.work.stream)
    }

    fn check(&self) -> Result<Checked> {
        let work = self.work;
        let judge = work.judge.as_ref().ok_or_else(|| Error::Setting("There is no reference to check with.".into()))?;
        let verdict = judge.judge(&work.stream, &work.c)?;
        let at = verdict.first_wrong.map_or_else(String::new, |(r, c)| format!(", the first in row {r}, column {c}"));
        let error =
            (!verdict.passed()).then(|| format!("{} of {} elements are wrong{at}", verdict.wrong, work.problem.short));
        Ok(Checked { check: as_check(&verdict), error, log: None })
    }

    fn details(&self) -> Details {
        let (gpus, crossing) = (self.over.gpus(), self.over.link_bytes());
        // Apart from arithmetic, a run is limited by the link or, on one GPU, by memory.
        let traffic = if crossing > 0 {
            Traffic { level: MemoryLevel::Link, bytes: crossing }
        } else {
            Traffic { level: MemoryLevel::Dram, bytes: self.work.problem.bytes }
        };
        Details {
            choice: Some(self.over.description()),
            traffic: vec![traffic],
            gpus: (gpus > 1).then(|| u32::try_from(gpus).unwrap_or(u32::MAX)),
            ..Details::default()
        }
    }
}
