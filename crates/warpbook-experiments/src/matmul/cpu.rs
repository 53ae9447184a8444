//! The matrix product on the CPU.

use super::Matmul;
use std::cell::{OnceCell, RefCell};
use warpbook_data::parallel::collect;
use warpbook_data::philox::gaussian;
use warpbook_gemm::Product;
use warpbook_gemm::cpu::{GemmError, Operands, blocked, library, naive, reference_rows, threaded};
use warpbook_kernels::Tolerance;
use warpbook_kernels::matmul::{Body, CpuBody};
use warpbook_lab::experiment::{Candidate, Checked, Prepared, Trials};
use warpbook_lab::{Error, Lab, Result};
use warpbook_record::{Check, Dtype, Problem, Rung};

/// Maximum expected time in seconds of a CPU rung for one product.
const LIMIT_S: f64 = 4.0;
/// Maximum number of multiplications for which the f64 reference covers all rows; for larger products, only some rows
/// are compared.
const REFERENCE_TERMS: u64 = 1 << 31;

/// Returns the reason why a CPU rung skips a problem; `None` if it runs.
pub(super) fn obstacle(lab: &Lab, body: CpuBody, problem: &Problem) -> Option<String> {
    if problem.dtype != Dtype::F32 {
        return Some(format!("the CPU's rungs are in fp32, not {}", problem.dtype.label()));
    }
    let threads = if body.is_threaded() { lab.cpu_threads() } else { 1 };
    let expected_s = problem.flops as f64 / (body.least_flops_per_s() * f64::from(threads.max(1)));
    (expected_s > LIMIT_S).then(|| format!("would take about {expected_s:.0} s a product"))
}

/// The matrices of one problem, drawn when the first rung needs them.
pub(super) struct CpuMatrices<'a> {
    experiment: &'a Matmul,
    sides: [usize; 3],
    transposed: (bool, bool),
    drawn: OnceCell<[Vec<f32>; 2]>,
}

impl<'a> CpuMatrices<'a> {
    pub(super) fn new(experiment: &'a Matmul, product: &Product) -> Self {
        let (sides, form) = ([product.m, product.n, product.k].map(|v| v as usize), product.form);
        Self { experiment, sides, transposed: (form.trans_a, form.trans_b), drawn: OnceCell::new() }
    }

    fn operands(&self) -> Operands<'_> {
        let [m, n, k] = self.sides;
        let draw =
            |stream, len: usize| -> Vec<f32> { collect(len, &|i| gaussian(self.experiment.seed, i as u64, stream)) };
        let [a, b] = self.drawn.get_or_init(|| [draw(0, m * k), draw(1, k * n)]);
        let (trans_a, trans_b) = self.transposed;
        Operands {
            a,
            b,
            m,
            n,
            k,
            lda: if trans_a { m } else { k },
            ldb: if trans_b { k } else { n },
            ldc: n,
            trans_a,
            trans_b,
            alpha: 1.0,
            beta: 0.0,
        }
    }

    /// Returns a CPU rung, ready to run.
    pub(super) fn candidate(&self, body: CpuBody) -> CpuProduct<'_> {
        let [m, n, _] = self.sides;
        CpuProduct { matrices: self, body, c: RefCell::new(vec![f32::NAN; m * n]) }
    }

    fn check(&self, c: &[f32]) -> Result<Check, GemmError> {
        let ops = self.operands();
        let [m, n, k] = self.sides;
        let row_terms = (n as u64).saturating_mul(k as u64).max(1);
        let rows = usize::try_from(REFERENCE_TERMS / row_terms).unwrap_or(usize::MAX).clamp(1, m);
        let step = m.div_ceil(rows);
        let rows: Vec<usize> = (0..m).step_by(step).collect();
        let want = reference_rows(&ops, &[], &rows)?;
        let absolute = |v: &[f32]| v.iter().map(|v| v.abs()).collect::<Vec<_>>();
        let (a, b) = (absolute(ops.a), absolute(ops.b));
        let magnitudes = reference_rows(&Operands { a: &a, b: &b, ..ops }, &[], &rows)?;
        let Tolerance(tolerance) = Tolerance::product(Dtype::F32, k as u64);
        let (mut worst, mut worst_abs) = (0.0f64, 0.0f64);
        for (i, (want, magnitude)) in want.iter().zip(&magnitudes).enumerate() {
            let error = (f64::from(c[rows[i / n] * n + i % n]) - want).abs();
            let relative = error / magnitude.max(f64::MIN_POSITIVE);
            // `max` would discard a NaN, which has to be kept.
            worst = if relative.is_nan() || worst.is_nan() { f64::NAN } else { worst.max(relative) };
            worst_abs = if error.is_nan() || worst_abs.is_nan() { f64::NAN } else { worst_abs.max(error) };
        }
        let what = if step == 1 { "every element".into() } else { format!("{} of {m} rows", rows.len()) };
        Ok(Check {
            reference: format!("the same product in f64 on the CPU, {what}"),
            max_abs_error: worst_abs,
            max_rel_error: worst,
            tolerance,
            passed: worst <= tolerance,
        })
    }
}

impl Prepared for CpuMatrices<'_> {
    fn candidate<'p>(&'p self, rung: &Rung, _: &mut Trials<'_>) -> Result<Box<dyn Candidate + 'p>> {
        match self.experiment.row_of(rung).map(|r| r.body) {
            Some(Body::Cpu(body)) => Ok(Box::new(self.candidate(body))),
            _ => Err(warpbook_device::Error::NeedsCuda("This rung").into()),
        }
    }
}

/// A CPU rung that is ready to run on one problem.
pub(super) struct CpuProduct<'p> {
    matrices: &'p CpuMatrices<'p>,
    body: CpuBody,
    /// The result C, in f32 `[m][n]`.
    c: RefCell<Vec<f32>>,
}

impl Candidate for CpuProduct<'_> {
    fn launch(&self) -> warpbook_device::Result<()> {
        let multiply = match self.body {
            CpuBody::Naive => naive,
            CpuBody::Blocked => blocked,
            CpuBody::Threaded => threaded,
            CpuBody::Library => library,
        };
        let refused =
            |e: GemmError| warpbook_device::Error::Unsupported { what: "The CPU's product".into(), why: e.to_string() };
        multiply(&self.matrices.operands(), &mut self.c.borrow_mut()).map_err(refused)
    }

    fn check(&self) -> Result<Checked> {
        let check = self.matrices.check(&self.c.borrow()).map_err(|e| Error::Setting(e.to_string()))?;
        Ok(Checked::new(check))
    }
}
