//! Runs the products of a survey on a GPU.

use super::Survey;
use super::report::{Compared, Picked, Times};
use super::shapes::Drawn;
use crate::matmul::gpu::{Chosen, as_check, compile_into_cache, is_right};
use std::cell::Cell;
use std::sync::Arc;
use std::time::Instant;
use warpbook_device::{CublasLt, CudaDevice, LtPlan, Stream};
use warpbook_gemm::philox::gaussians;
use warpbook_gemm::storage::Storage;
use warpbook_gemm::{DeviceArray, DeviceArrays, Gemm, Judge, Plan, Product, Tuning, Workspace};
use warpbook_kernels::matmul::{LT_ALGORITHMS, WORKSPACE_BYTES};
use warpbook_lab::experiment::{Candidate, Checked};
use warpbook_lab::{Error, Event, Lab, Result};
use warpbook_record::{Dtype, Inputs, KernelSpec, Tile};

/// Describes the matrices and the sets of arrays that hold them.
pub(super) fn inputs() -> Inputs {
    let sets = "products that fit into L2 go through several sets of arrays in turn, up to 16, so that the inputs of large ones come from DRAM";
    Inputs::of_all("A and B standard Gaussian (Philox), rounded to their type").with("", sets)
}

/// Maximum number of sets of arrays that a product cycles through.
const MOST_SETS: u64 = 16;
/// Alignment of arrays in elements, so that all arrays are aligned to at least 256 bytes.
const ALIGNED_TO: usize = 128;

/// Returns how many sets of arrays are needed to be together at least twice as large as L2.
fn sets_of(drawn: &Drawn, l2_bytes: u64) -> usize {
    let elements: usize = drawn.product().elements().into_iter().sum();
    let bytes = (elements as u64 * drawn.dtype.bytes()).max(1);
    (2 * l2_bytes).div_ceil(bytes).clamp(1, MOST_SETS) as usize
}

/// Returns the distance in elements between two sets of A, B or C.
fn strides(product: &Product) -> [usize; 3] {
    product.elements().map(|n| n.next_multiple_of(ALIGNED_TO))
}

/// Returns the number of elements of A, B and C that are enough for each of these products.
fn needed(drawn: &[Drawn], dtype: Dtype, l2_bytes: u64) -> [usize; 3] {
    let of_type = drawn.iter().filter(|d| d.dtype == dtype);
    let each = of_type.map(|d| strides(&d.product()).map(|stride| stride * sets_of(d, l2_bytes)));
    each.fold([0; 3], |most, of| [0, 1, 2].map(|i| usize::max(most[i], of[i])))
}

/// Memory for matrices of one data type; each product uses the beginning.
struct Pool {
    dtype: Dtype,
    arrays: [DeviceArray; 3],
}

impl Pool {
    /// Allocates the memory; `None` for a data type that no product has.
    fn new(device: &CudaDevice, dtype: Dtype, [a, b, c]: [usize; 3], seed: u64) -> Result<Option<Self>> {
        if c == 0 {
            return Ok(None);
        }
        let matrix = |stream, elements| -> Result<DeviceArray> {
            let drawn = gaussians(device, seed, stream, elements)?.to_vec()?;
            Ok((&Storage::from_f32(device, &drawn, dtype)?).into())
        };
        let arrays = [matrix(0, a)?, matrix(1, b)?, (&Storage::zeros(device, c, dtype)?).into()];
        Ok(Some(Self { dtype, arrays }))
    }

    fn set(&self, product: &Product, number: usize) -> DeviceArrays {
        let (strides, elements) = (strides(product), product.elements());
        let [a, b, c] = [0, 1, 2].map(|i| {
            let start = number * strides[i];
            self.arrays[i].range(start..start + elements[i])
        });
        DeviceArrays::new(a, b, c)
    }
}

/// The resources that a survey's products share.
pub(super) struct Field<'l> {
    lab: &'l Lab,
    device: &'l CudaDevice,
    library: &'l CublasLt,
    gemm: Gemm,
    pools: Vec<Pool>,
    workspace: Workspace,
    stream: Stream,
    l2_bytes: u64,
    /// True if the first plan of a product times several kernels.
    is_tuned: bool,
}

impl<'l> Field<'l> {
    /// Draws the matrices and compiles the kernels that `gemm()` will choose.
    pub(super) fn new(
        lab: &'l Lab,
        device: &'l CudaDevice,
        library: &'l CublasLt,
        drawn: &[Drawn],
        survey: &Survey,
    ) -> Result<Self> {
        let l2_bytes = device.info().l2_bytes.unwrap_or(0);
        let types = [Dtype::Bf16, Dtype::F16];
        let of_types = types.map(|dtype| needed(drawn, dtype, l2_bytes));
        let elements: usize = of_types.iter().flatten().sum();
        let reference = drawn.iter().map(|d| Judge::bytes(&d.product())).max().unwrap_or(0);
        // The numbers are first drawn in fp32, which needs additional memory.
        let drawing = 4 * of_types.iter().flatten().copied().max().unwrap_or(0) as u64;
        let bytes = 2 * elements as u64 + drawing.max(reference) + 2 * WORKSPACE_BYTES;
        device.ensure_free(format!("A survey of {} products", drawn.len()), bytes)?;
        lab.tell(&Event::Preparing("drawing the matrices"));
        let pools = types.iter().zip(of_types).map(|(dtype, needed)| Pool::new(device, *dtype, needed, survey.seed));
        let pools: Vec<Pool> = pools.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect();
        let (gemm, is_tuned) = (survey.gemm(device), survey.tuning != Tuning::Off);
        if !is_tuned {
            lab.tell(&Event::Preparing("compiling the chosen kernels"));
            compile_all(device, &survey.gemm(device), drawn);
        }
        let workspace = Workspace::new(device, WORKSPACE_BYTES)?;
        Ok(Self { lab, device, library, gemm, pools, workspace, stream: device.stream()?, l2_bytes, is_tuned })
    }

    /// Checks and times a product with each implementation.
    pub(super) fn compare(&self, drawn: &Drawn) -> Result<Compared> {
        self.lab.bench().cancel.check()?;
        let product = drawn.product();
        let pool = self.pools.iter().find(|p| p.dtype == drawn.dtype);
        let pool = pool.ok_or_else(|| Error::Setting(format!("{drawn}: there are no matrices of its type.")))?;
        let sets: Vec<DeviceArrays> = (0..sets_of(drawn, self.l2_bytes)).map(|i| pool.set(&product, i)).collect();
        let judge = Judge::new(self.device, &product, sets[0].a.clone(), sets[0].b.clone())?;
        let arena = Arena { field: self, sets, judge };
        let begun = Instant::now();
        let chosen = Chosen::new(&self.gemm, &product)?;
        let mut compared = Compared {
            drawn: *drawn,
            choice: Some(chosen.why),
            picked: Some(Picked { rung: chosen.plan.rung().to_owned(), tile: chosen.plan.tile().to_owned() }),
            plan_s: self.is_tuned.then(|| begun.elapsed().as_secs_f64()),
            algorithms: 0,
            times: None,
            error: None,
        };
        let ours = arena.way(SurveyPlan::Ours(chosen.plan));
        if let Err(why) = arena.verdict(&ours) {
            return why.into_row(compared);
        }
        let mut right = Vec::new();
        for plan in self.library.plans(&product.library_call(), LT_ALGORITHMS, WORKSPACE_BYTES)? {
            let algorithm = arena.way(SurveyPlan::Library(plan));
            // The device rejects some algorithms that cuBLASLt suggests.
            if is_right(&algorithm)? {
                right.push(algorithm);
            }
        }
        compared.algorithms = right.len();
        let (best, _) =
            warpbook_lab::driver::fastest(self.lab, &right.iter().map(|w| w as &dyn Candidate).collect::<Vec<_>>())?;
        let Some(best) = best else {
            compared.error = Some("cuBLASLt suggested no algorithm that gives the right result".into());
            return Ok(compared);
        };
        let mut ways = vec![&ours, &right[0]];
        ways.extend((best > 0).then(|| &right[best]));
        compared.times = Some(self.time(&ways)?);
        match arena.verdict(&ours) {
            Ok(()) => Ok(compared),
            Err(why) => why.into_row(Compared { times: None, ..compared }),
        }
    }

    /// Times the choice of `gemm()`, the library's first choice and its fastest algorithm in rounds. The fastest is
    /// omitted if it is the first choice.
    fn time(&self, ways: &[&SurveyCandidate<'_, '_>]) -> Result<Times> {
        let medians = self.medians(ways)?;
        let median = |i: usize| medians.get(i).copied().unwrap_or(f64::INFINITY);
        // If the first choice and the fastest algorithm are about equally fast, either may win this time.
        Ok(Times { ours_us: median(0), first_us: median(1), best_us: median(1).min(median(2)) })
    }

    /// Returns the median time of each implementation in microseconds; all are timed in rounds.
    fn medians(&self, ways: &[&SurveyCandidate<'_, '_>]) -> Result<Vec<f64>> {
        let regions: Vec<Box<dyn Fn() -> warpbook_device::Result<()> + '_>> =
            ways.iter().map(|way| Box::new(|| way.launch()) as _).collect();
        let regions: Vec<&dyn Fn() -> warpbook_device::Result<()>> = regions.iter().map(|r| &**r).collect();
        let samples = self.lab.bench().cuda_in_turn(self.device, &self.stream, Some(self.lab.watch()), &regions)?;
        Ok(samples.iter().map(|s| s.median_us()).collect())
    }
}

/// Compiles the kernels that `gemm()` chooses for these products.
fn compile_all(device: &CudaDevice, gemm: &Gemm, drawn: &[Drawn]) {
    let mut jobs: Vec<(KernelSpec, Tile)> = Vec::new();
    for product in drawn.iter().map(Drawn::product) {
        let Ok(choice) = gemm.choice(&product) else { continue };
        let Some(spec) = Plan::spec(&choice.row, &product) else { continue };
        if !jobs.iter().any(|(s, t)| *s == spec && *t == choice.tile) {
            jobs.push((spec, choice.tile));
        }
    }
    compile_into_cache(device, &jobs);
}

/// The arrays of one product, and the reference for results.
struct Arena<'f, 'l> {
    field: &'f Field<'l>,
    sets: Vec<DeviceArrays>,
    judge: Judge,
}

/// The reason why a result is rejected.
enum Refused {
    /// The result is wrong, for this reason.
    Wrong(String),
    /// The result could not be computed.
    Error(Error),
}

impl Refused {
    fn into_row(self, row: Compared) -> Result<Compared> {
        match self {
            Self::Wrong(error) => Ok(Compared { error: Some(error), ..row }),
            Self::Error(error) => Err(error),
        }
    }
}

impl<'f, 'l> Arena<'f, 'l> {
    fn way<'a>(&'a self, by: SurveyPlan) -> SurveyCandidate<'a, 'l>
    where
        'f: 'a,
    {
        SurveyCandidate { arena: self, by, next: Cell::new(0) }
    }

    /// Runs an implementation once and compares the result with the reference.
    fn verdict(&self, way: &SurveyCandidate<'_, '_>) -> Result<(), Refused> {
        let ran = way.reset().and_then(|()| way.launch()).map_err(Error::from);
        let found = ran.and_then(|()| way.check()).map_err(Refused::Error)?;
        found.failure().map_or(Ok(()), |why| Err(Refused::Wrong(why)))
    }
}

enum SurveyPlan {
    Ours(Arc<Plan>),
    Library(LtPlan),
}

/// One way of computing a product.
struct SurveyCandidate<'a, 'l> {
    arena: &'a Arena<'a, 'l>,
    by: SurveyPlan,
    /// Index of the next set of arrays.
    next: Cell<usize>,
}

impl Candidate for SurveyCandidate<'_, '_> {
    fn stream(&self) -> Option<&Stream> {
        Some(&self.arena.field.stream)
    }

    /// Fills C of the first set with NaNs, and selects this set for the next run.
    fn reset(&self) -> warpbook_device::Result<()> {
        self.arena.field.stream.synchronize()?;
        self.next.set(0);
        self.arena.sets[0].c.bytes().fill_bytes(0xff)
    }

    fn launch(&self) -> warpbook_device::Result<()> {
        let (field, sets) = (self.arena.field, &self.arena.sets);
        let number = self.next.get();
        self.next.set((number + 1) % sets.len());
        let arrays = &sets[number];
        match &self.by {
            SurveyPlan::Ours(plan) => plan.launch_checked(&field.stream, arrays, &field.workspace),
            SurveyPlan::Library(plan) => {
                let matrices = [&arrays.a, &arrays.b, &arrays.c].map(DeviceArray::bytes);
                plan.launch_checked(&field.stream, matrices, field.workspace.slice())
            }
        }
    }

    /// Compares the result in the first set with the reference.
    fn check(&self) -> Result<Checked> {
        let verdict = self.arena.judge.judge(&self.arena.field.stream, self.arena.sets[0].c.clone())?;
        let error = (!verdict.passed()).then(|| {
            let at =
                verdict.first_wrong.map_or_else(String::new, |(r, c)| format!(", the first in row {r}, column {c}"));
            format!("{} elements are wrong{at}", verdict.wrong)
        });
        Ok(Checked { check: as_check(&verdict), error, log: None })
    }
}

#[cfg(test)]
mod tests {
    use super::super::shapes::{Sides, draw};
    use super::*;

    #[test]
    fn small_products_go_through_sets_that_exceed_l2() {
        let cube = |side: u32| Drawn {
            m: side,
            n: side,
            k: side,
            sides: Sides::MultiplesOf8,
            dtype: Dtype::Bf16,
            trans_a: false,
            trans_b: false,
        };
        let l2 = 50 << 20;
        assert_eq!([16, 1024, 2048, 4096, 5120].map(|side| sets_of(&cube(side), l2)), [16, 16, 5, 2, 1]);
        assert_eq!(sets_of(&cube(16), 0), 1);
    }

    #[test]
    fn the_pool_holds_every_set_of_every_product() {
        let (drawn, l2) = (draw(3, 96), 50 << 20);
        for dtype in [Dtype::Bf16, Dtype::F16] {
            let pool = needed(&drawn, dtype, l2);
            for d in drawn.iter().filter(|d| d.dtype == dtype) {
                let (last, stride, elements) = (sets_of(d, l2) - 1, strides(&d.product()), d.product().elements());
                for i in 0..3 {
                    assert!(last * stride[i] + elements[i] <= pool[i], "{d}");
                    assert!(stride[i].is_multiple_of(ALIGNED_TO));
                }
            }
        }
        assert_eq!(needed(&drawn[..1], Dtype::F16, l2), [0; 3]);
    }
}
