//! The matrices of one problem on a GPU, and the rungs that multiply them.

use super::{EMULATED_WORKSPACE, Matmul, cpu, is_standard, launch, product_of};
use std::cell::RefCell;
use std::sync::Arc;
use warpbook_data::parallel::collect;
use warpbook_device::{Bench, Buffer, Cublas, CublasLt, CudaDevice, LtPlan, Stream};
use warpbook_gemm::philox::gaussians;
use warpbook_gemm::storage::Storage;
use warpbook_gemm::{Gemm, Judge, Plan, Product, Rehearsed, Verdict, rehearse};
use warpbook_kernels::matmul::{Body, Form, LT_ALGORITHMS, Row, WORKSPACE_BYTES, rows};
use warpbook_lab::experiment::{Candidate, Checked, Details, Prepared, Trials};
use warpbook_lab::{Error, Event, Lab, Result};
use warpbook_record::{Check, Dtype, KernelSpec, Part, PartGroup, Problem, Run, Rung, Tile};

/// The arrays of a product on the device, and the reference for results.
pub(super) struct Inputs {
    pub(super) product: Product,
    pub(super) a: Storage,
    pub(super) b: Storage,
    pub(super) c: Storage,
    pub(super) workspace: Buffer<u8>,
    pub(super) judge: Judge,
    pub(super) stream: Stream,
}

/// The implementation that runs a rung.
pub(super) enum ProductPlan {
    Ours(Arc<Plan>),
    Cublas(Cublas),
    CublasLt(LtPlan),
}

/// The matrices of one problem, which all rungs share.
pub(super) struct GpuMatrices<'a> {
    experiment: &'a Matmul,
    device: &'a CudaDevice,
    problem: Problem,
    on_gpu: Inputs,
    on_cpu: cpu::CpuMatrices<'a>,
    /// Id of a learner's rung that was wrong on the small products in the emulator, with the error.
    wrong: RefCell<Option<(String, String)>>,
}

/// Compiles kernels with their tiles on all threads, so that they are in the compiler's cache. A failure is reported
/// only when the kernel is used.
pub(super) fn compile_into_cache(device: &CudaDevice, jobs: &[(KernelSpec, Tile)]) {
    let Ok(compiler) = device.compiler() else { return };
    collect(jobs.len(), &|i| {
        let (spec, tile) = &jobs[i];
        let _ = compiler.compile(spec, tile, &device.architecture_of(spec));
    });
}

impl<'a> GpuMatrices<'a> {
    pub(super) fn draw(experiment: &'a Matmul, lab: &Lab, device: &'a CudaDevice, problem: &Problem) -> Result<Self> {
        lab.tell(&Event::Preparing(&format!("drawing {} and the reference", problem.label)));
        let product = product_of(problem)?;
        let [a, b, c] = product.elements();
        let dtype = product.form.dtype;
        let matrix = |stream, elements| -> Result<Storage> {
            let drawn = gaussians(device, experiment.seed, stream, elements)?;
            Ok(match dtype {
                Dtype::F16 | Dtype::Bf16 => Storage::from_f32(device, &drawn.to_vec()?, dtype)?,
                _ => Storage::F32(drawn),
            })
        };
        let (a, b) = (matrix(0, a)?, matrix(1, b)?);
        let c = Storage::zeros(device, c, product.form.out)?;
        let judge = Judge::new(device, &product, &a, &b)?;
        let workspace = if device.is_emulated() { EMULATED_WORKSPACE } else { WORKSPACE_BYTES };
        let workspace = device.zeros(workspace as usize)?;
        let on_gpu = Inputs { product, a, b, c, workspace, judge, stream: device.stream()? };
        let on_cpu = cpu::CpuMatrices::new(experiment, &product);
        Ok(Self { experiment, device, problem: problem.clone(), on_gpu, on_cpu, wrong: RefCell::default() })
    }

    /// Returns the tiles of a row to try.
    fn wanted_tiles(&self, row: &Row) -> Vec<Tile> {
        let permitted = row.kernel().map(|k| k.tiles.clone()).unwrap_or_default();
        let asked = self.experiment.selection.tile.as_deref();
        match asked.and_then(|id| permitted.iter().find(|t| t.id == id)) {
            Some(tile) => vec![tile.clone()],
            None if self.experiment.tiles => permitted,
            None => permitted.into_iter().take(1).collect(),
        }
    }

    fn candidate_of(&self, row: &Row, way: ProductPlan) -> GpuProduct<'_> {
        let wrong = self.wrong.borrow().clone();
        let error = wrong.filter(|(id, _)| row.rung.id == *id).map(|(_, error)| error);
        GpuProduct { matrices: self, row: row.clone(), way, choice: None, by_rule: false, error }
    }

    /// Returns the fastest algorithm of cuBLASLt that gives the right result.
    fn best_algorithm(&self, row: &Row, trials: &Trials<'_>) -> Result<GpuProduct<'_>> {
        let call = self.on_gpu.product.library_call();
        let plans = CublasLt::open(self.device)?.plans(&call, LT_ALGORITHMS, WORKSPACE_BYTES)?;
        let mut right = Vec::new();
        for plan in plans {
            let candidate = self.candidate_of(row, ProductPlan::CublasLt(plan));
            // The device rejects some algorithms that cuBLASLt suggests.
            if is_right(&candidate)? {
                right.push(candidate);
            }
        }
        let found = right.len();
        let (best, _) = trials.fastest(&right.iter().map(|c| c as &dyn Candidate).collect::<Vec<_>>())?;
        let Some(mut best) = best.and_then(|i| right.into_iter().nth(i)) else {
            let why = "suggested no algorithm that gives the right result".into();
            return Err(warpbook_device::Error::Unsupported { what: "cuBLASLt".into(), why }.into());
        };
        best.choice =
            Some(format!("The fastest of {found} algorithms that it suggested of {LT_ALGORITHMS} asked for."));
        Ok(best)
    }

    /// Returns a candidate with the kernel that `gemm()` chooses, and the row of this kernel.
    fn as_chosen(&self) -> Result<GpuProduct<'_>> {
        let Chosen { row, plan, why } = Chosen::new(&Gemm::untuned(self.device), &self.on_gpu.product)?;
        Ok(GpuProduct { choice: Some(why), by_rule: true, ..self.candidate_of(&row, ProductPlan::Ours(plan)) })
    }

    /// Returns a candidate with the fastest tile of a row, or with the requested tile; the times of all tiles become
    /// parts.
    fn best_tile(&self, row: &Row, trials: &mut Trials<'_>) -> Result<GpuProduct<'_>> {
        let mut plans = Vec::new();
        let mut first_error = None;
        let tiles = match &trials.tile {
            Some(id) => row.kernel().and_then(|k| k.tile(id)).into_iter().cloned().collect(),
            None => self.wanted_tiles(row),
        };
        for tile in tiles {
            match Plan::new(self.device, row, &tile, &self.on_gpu.product, [true; 2]) {
                Ok(plan) => plans.push(self.candidate_of(row, ProductPlan::Ours(Arc::new(plan)))),
                Err(e) if e.is_sticky() => return Err(e.into()),
                // A tile may need more shared memory than the device has.
                Err(e) => first_error = first_error.or(Some(e)),
            }
        }
        let (best, times) = trials.fastest(&plans.iter().map(|c| c as &dyn Candidate).collect::<Vec<_>>())?;
        // In a sweep, the times of the tiles are kept only at the standard size.
        let kept = self.experiment.shapes.len() == 1 || is_standard(&self.problem);
        for (candidate, samples) in plans.iter().zip(times).filter(|_| kept) {
            trials.keep(PartGroup::Tile, candidate.details().tile.unwrap_or_default(), samples.us);
        }
        match (plans.into_iter().nth(best.unwrap_or(0)), first_error) {
            (Some(candidate), _) => Ok(candidate),
            (None, Some(e)) => Err(e.into()),
            (None, None) => Err(Error::Setting(format!("{} has no tile.", row.rung.id))),
        }
    }
}

impl Prepared for GpuMatrices<'_> {
    fn candidate<'p>(&'p self, rung: &Rung, trials: &mut Trials<'_>) -> Result<Box<dyn Candidate + 'p>> {
        let unknown = || Error::UnknownRung { name: rung.id.to_string(), nearest: Vec::new() };
        let row = self.experiment.row_of(rung).ok_or_else(unknown)?;
        Ok(match &row.body {
            Body::Cpu(body) => Box::new(self.on_cpu.candidate(*body)),
            Body::Cublas => Box::new(self.candidate_of(&row, ProductPlan::Cublas(Cublas::open(self.device)?))),
            Body::CublasLt => Box::new(self.best_algorithm(&row, trials)?),
            Body::Chosen => Box::new(self.as_chosen()?),
            Body::Kernel(_) => Box::new(self.best_tile(&row, trials)?),
        })
    }

    fn compile_ahead(&self, rungs: &[Rung]) {
        let (form, cc) = (self.on_gpu.product.form, self.device.info().compute_capability);
        let rows = rungs.iter().filter_map(|r| self.experiment.row_of(r)).filter(|r| r.obstacle(form, cc).is_none());
        let jobs: Vec<_> = rows
            .flat_map(|row| {
                let spec = Plan::spec(&row, &self.on_gpu.product);
                let tiles = self.wanted_tiles(&row);
                spec.into_iter().flat_map(move |spec| tiles.clone().into_iter().map(move |t| (spec.clone(), t)))
            })
            .collect();
        compile_into_cache(self.device, &jobs);
    }

    /// Tries the kernel on three small products, whose edges tell mistakes apart. In the emulator, a wrong kernel still
    /// runs on the problem, so that its row has counts; its check then fails with the error of the small product.
    fn rehearse(&self, rung: &Rung, limit_s: f64) -> Result<()> {
        let Some(row) = self.experiment.row_of(rung) else { return Ok(()) };
        match try_small(self.device, &row, self.on_gpu.product.form, limit_s) {
            Err(Error::WrongProduct(error)) if self.device.is_emulated() => {
                *self.wrong.borrow_mut() = Some((rung.id.to_string(), error));
                Ok(())
            }
            tried => tried,
        }
    }

    /// Times pageable copies of the matrices to the device and of the result back to the host.
    fn extras(&self, lab: &Lab, _: &Run) -> Result<Vec<Part>> {
        fn copies<T: warpbook_device::Element>(
            bench: &Bench,
            to: &[&Buffer<T>],
            from: &Buffer<T>,
        ) -> Result<[Vec<f64>; 2]> {
            let host: Vec<Vec<T>> = to.iter().map(|b| b.to_vec()).collect::<warpbook_device::Result<_>>()?;
            let there = bench.cpu(|| to.iter().zip(&host).try_for_each(|(b, h)| b.write(h)))?;
            // Copy to memory that was used before, since touching fresh pages would take longer than the copy.
            let mut result = from.to_vec()?;
            let back = bench.cpu(|| from.read(&mut result))?;
            Ok([there.us, back.us])
        }
        if !self.experiment.transfers {
            return Ok(Vec::new());
        }
        let bench =
            Bench { samples: 5.min(lab.bench().samples), budget_s: 0.3, batch_below_us: 0.0, ..lab.bench().clone() };
        let on = &self.on_gpu;
        let times = match (&on.a, &on.b, &on.c) {
            (Storage::F32(a), Storage::F32(b), Storage::F32(c)) => copies(&bench, &[a, b], c)?,
            (Storage::F16(a), Storage::F16(b), Storage::F16(c)) => copies(&bench, &[a, b], c)?,
            (Storage::Bf16(a), Storage::Bf16(b), Storage::Bf16(c)) => copies(&bench, &[a, b], c)?,
            _ => return Ok(Vec::new()),
        };
        // The copies take the same time for every rung.
        let part = |(name, samples_us): (&str, Vec<f64>)| Part {
            rung: String::new(),
            problem: self.problem.clone(),
            group: PartGroup::Transfer,
            name: name.into(),
            samples_us,
        };
        Ok(["to the device", "to the host"].into_iter().zip(times).map(part).collect())
    }
}

/// A plan that the cost model chose for a product.
pub(super) struct Chosen {
    /// Row of the kernel that was chosen.
    pub(super) row: Row,
    pub(super) plan: Arc<Plan>,
    /// Rung, tile and reason, in a sentence.
    pub(super) why: String,
}

impl Chosen {
    /// Prepares the plan that a `gemm` handle chooses for arrays aligned to 16 bytes.
    pub(super) fn new(gemm: &Gemm, product: &Product) -> Result<Self> {
        let choice = gemm.choice(product)?;
        let plan = gemm.plan(product, [true; 2])?;
        let why = if plan.rung() == choice.row.rung.id {
            choice.why
        } else {
            format!("the copies of {} would not fit into the workspace", choice.row.rung.id)
        };
        let unknown = || Error::UnknownRung { name: plan.rung().to_owned(), nearest: Vec::new() };
        let row = rows().into_iter().find(|r| r.rung.id == plan.rung()).ok_or_else(unknown)?;
        let why = format!("{} with the tile {}: {why}.", plan.rung(), plan.tile());
        Ok(Self { row, plan, why })
    }
}

/// Joins two sentences, or returns the one that exists.
fn joined(first: &Option<String>, second: Option<String>) -> Option<String> {
    let both: Vec<&str> = [first.as_deref(), second.as_deref()].into_iter().flatten().collect();
    (!both.is_empty()).then(|| both.join(" "))
}

/// A GPU rung that is ready to run on one problem.
struct GpuProduct<'p> {
    matrices: &'p GpuMatrices<'p>,
    row: Row,
    way: ProductPlan,
    choice: Option<String>,
    /// True if the rule of `gemm()` chose the row.
    by_rule: bool,
    /// Error of the small products, after which the check fails.
    error: Option<String>,
}

impl Candidate for GpuProduct<'_> {
    fn stream(&self) -> Option<&Stream> {
        Some(&self.matrices.on_gpu.stream)
    }

    /// Fills C with NaNs, so that an old result cannot pass for a new one.
    fn reset(&self) -> warpbook_device::Result<()> {
        self.matrices.on_gpu.stream.synchronize()?;
        self.matrices.on_gpu.c.fill_bytes(0xff)
    }

    fn launch(&self) -> warpbook_device::Result<()> {
        launch::queue(&self.matrices.on_gpu, &self.way)
    }

    fn check(&self) -> Result<Checked> {
        let on = &self.matrices.on_gpu;
        let verdict = on.judge.judge(&on.stream, &on.c)?;
        let at = verdict.first_wrong.map_or_else(String::new, |(r, c)| format!(", the first in row {r}, column {c}"));
        let wrong = || format!("{} of {} elements are wrong{at}", verdict.wrong, self.matrices.problem.short);
        let error = self.error.clone().or_else(|| (!verdict.passed()).then(wrong));
        let mut check = as_check(&verdict);
        check.passed &= self.error.is_none();
        if self.matrices.device.is_emulated() {
            check.reference = check.reference.replace("on the GPU", "in the emulator");
        }
        Ok(Checked { check, error, log: None })
    }

    fn details(&self) -> Details {
        let ProductPlan::Ours(plan) = &self.way else {
            return Details { choice: self.choice.clone(), ..Details::default() };
        };
        let tile = self.row.kernel().and_then(|k| k.tile(plan.tile()));
        Details {
            tile: Some(plan.tile().to_owned()),
            kernels: plan.stats(),
            choice: joined(&self.choice, plan.preparation()),
            chosen: self.by_rule.then(|| self.row.rung.id.to_string()),
            traffic: tile.map(|t| self.row.traffic(t, &self.matrices.problem)).unwrap_or_default(),
            ..Details::default()
        }
    }
}

/// Returns true if a candidate runs and gives the right result.
///
/// # Errors
/// If an error occurs that makes the GPU unusable.
pub(super) fn is_right(candidate: &dyn Candidate) -> Result<bool> {
    let ran = candidate.reset().and_then(|()| candidate.launch()).map_err(Error::from);
    match ran.and_then(|()| candidate.check()) {
        Ok(found) => Ok(found.passed()),
        Err(Error::Device(e)) if e.is_sticky() => Err(e.into()),
        Err(_) => Ok(false),
    }
}

pub(crate) fn as_check(v: &Verdict) -> Check {
    Check {
        reference: "the same product in f64 on the GPU, every element, beyond the rounding to C's type".into(),
        max_abs_error: v.max_abs_error,
        max_rel_error: v.max_error,
        tolerance: v.tolerance,
        passed: v.passed(),
    }
}

/// Tries a learner's kernel on small products, which reveal its mistakes.
fn try_small(device: &CudaDevice, row: &Row, form: Form, limit_s: f64) -> Result<()> {
    for tile in row.kernel().iter().flat_map(|k| k.tiles.first()) {
        match rehearse(device, row, tile, form, limit_s)? {
            Rehearsed::Right => {}
            Rehearsed::Wrong(flaw) => return Err(Error::WrongProduct(flaw.to_string())),
            Rehearsed::Outside { sizes: [m, n, k], elements: (before, after) } => {
                return Err(Error::WrongProduct(format!(
                    "In a product of {m} x {n} x {k}, memory around C was written: {before} elements before it and {after} after it. \
                     Hint: look at the guards of the edge, and whether a row of C begins every ldc elements."
                )));
            }
        }
    }
    Ok(())
}
