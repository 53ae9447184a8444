use super::{Matmul, failed, is_cpu, sizes, skipped};
use crate::{Error, Event, Lab, Result};
use warpbook_nn::gemm::cpu::{GemmError, Operands, blocked, library, naive, reference_rows, threaded};
use warpbook_nn::philox::gaussian;
use warpbook_record::{Check, Dtype, Measurement, Outcome, Problem, Run, Rung, Tolerance};

/// Operations a second that a rung of the processor does at least, a thread: longer work than the budget allows is not begun.
const AT_LEAST: [(&str, f64); 4] =
    [("cpu_naive", 0.5e9), ("cpu_blocked", 10e9), ("cpu_threaded", 10e9), ("cpu_library", 15e9)];
/// Seconds that a rung of the processor may be expected to take for one product.
const LIMIT_S: f64 = 4.0;
/// Multiplications of the reference in f64, beyond which only some rows are compared.
const REFERENCE_TERMS: u64 = 1 << 31;

type Body = fn(&Operands<'_>, &mut [f32]) -> Result<(), GemmError>;

fn body(rung: &str) -> Option<Body> {
    Some(match rung {
        "cpu_naive" => naive,
        "cpu_blocked" => blocked,
        "cpu_threaded" => threaded,
        "cpu_library" => library,
        _ => return None,
    })
}

/// Why a rung of the processor does not run a problem.
fn obstacle(lab: &Lab, rung: &Rung, problem: &Problem) -> Option<String> {
    let (.., dtype) = sizes(problem);
    if dtype != Dtype::F32 {
        return Some(format!("the processor's rungs are in fp32, not {}", dtype.label()));
    }
    let (_, rate) = AT_LEAST.iter().find(|(id, _)| *id == rung.id)?;
    let threads = if matches!(&*rung.id, "cpu_naive" | "cpu_blocked") { 1 } else { lab.environment().cpu_threads };
    let expected_s = problem.flops() as f64 / (rate * f64::from(threads.max(1)));
    (expected_s > LIMIT_S).then(|| format!("would take about {expected_s:.0} s a product"))
}

/// A processor's row in a GPU's record.
pub(super) fn beside_a_gpu(settings: &Matmul, lab: &Lab, rung: &Rung, problem: &Problem) -> Measurement {
    if let Some(why) = obstacle(lab, rung, problem) {
        return skipped(rung, problem, why);
    }
    match Matrices::draw(settings, problem).map(|m| m.measure(lab, rung, problem)) {
        Ok(Ok(m)) => m,
        Ok(Err(Error::Device(warpbook_device::Error::Cancelled))) => skipped(rung, problem, "interrupted"),
        Ok(Err(e)) => failed(rung, problem, e),
        Err(e) => failed(rung, problem, e),
    }
}

struct Matrices {
    a: Vec<f32>,
    b: Vec<f32>,
    m: usize,
    n: usize,
    k: usize,
    transposed: (bool, bool),
}

impl Matrices {
    fn draw(settings: &Matmul, problem: &Problem) -> Result<Self> {
        use rayon::prelude::*;
        let (m, n, k, _) = sizes(problem);
        let draw = |stream, len: u64| -> Vec<f32> {
            (0..len).into_par_iter().map(|i| gaussian(settings.seed, i, stream)).collect()
        };
        let (m, n, k) = (m as usize, n as usize, k as usize);
        Ok(Self { a: draw(0, (m * k) as u64), b: draw(1, (k * n) as u64), m, n, k, transposed: settings.transposed })
    }

    fn operands(&self) -> Operands<'_> {
        let (trans_a, trans_b) = self.transposed;
        let (m, n, k) = (self.m, self.n, self.k);
        Operands {
            a: &self.a,
            b: &self.b,
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

    fn measure(&self, lab: &Lab, rung: &Rung, problem: &Problem) -> Result<Measurement> {
        let Some(body) = body(&rung.id) else { return Ok(skipped(rung, problem, "is no rung of the processor")) };
        let refused = |e: GemmError| Error::Setting(e.to_string());
        let ops = self.operands();
        let mut c = vec![f32::NAN; self.m * self.n];
        // The first repetition is the one that is checked before the rest are timed.
        let (mut first, mut wrong) = (None, None);
        let samples = lab.bench().cpu(|| {
            if let Err(e) = body(&ops, &mut c) {
                wrong.get_or_insert(e);
            }
            if first.is_none() {
                first = Some(c.clone());
            }
            Ok(())
        })?;
        if let Some(e) = wrong {
            return Err(refused(e));
        }
        let check = |c: &[f32]| self.check(c, &ops);
        let check = check(&first.unwrap_or_default()).map_err(refused)?.worse(check(&c).map_err(refused)?);
        let mut m = Measurement::without_samples(&*rung.id, problem.clone(), Outcome::Measured);
        if !check.passed {
            m.outcome = Outcome::Failed {
                error: format!(
                    "the result is off the reference by {:.1e}, more than {:.1e}",
                    check.max_rel_error, check.tolerance
                ),
            };
        }
        m.check = Some(check);
        m.set_samples(samples.us, samples.wall_us);
        Ok(m)
    }

    fn check(&self, c: &[f32], ops: &Operands<'_>) -> Result<Check, GemmError> {
        let a_row = (self.n as u64).saturating_mul(self.k as u64).max(1);
        let rows = usize::try_from(REFERENCE_TERMS / a_row).unwrap_or(usize::MAX).clamp(1, self.m);
        let step = self.m.div_ceil(rows);
        let rows: Vec<usize> = (0..self.m).step_by(step).collect();
        let want = reference_rows(ops, &[], &rows)?;
        let absolute = |v: &[f32]| v.iter().map(|v| v.abs()).collect::<Vec<_>>();
        let (a, b) = (absolute(ops.a), absolute(ops.b));
        let magnitudes = reference_rows(&Operands { a: &a, b: &b, ..*ops }, &[], &rows)?;
        let Tolerance(tolerance) = Tolerance::product(Dtype::F32, self.k as u64);
        let (mut worst, mut worst_abs) = (0.0f64, 0.0f64);
        for (i, (want, magnitude)) in want.iter().zip(&magnitudes).enumerate() {
            let error = (f64::from(c[rows[i / self.n] * self.n + i % self.n]) - want).abs();
            let relative = error / magnitude.max(f64::MIN_POSITIVE);
            // NaN stays.
            worst = if relative.is_nan() || worst.is_nan() { f64::NAN } else { worst.max(relative) };
            worst_abs = if error.is_nan() || worst_abs.is_nan() { f64::NAN } else { worst_abs.max(error) };
        }
        let what = if step == 1 { "every element".into() } else { format!("{} of {} rows", rows.len(), self.m) };
        Ok(Check {
            reference: format!("the same product in f64 on the processor, {what}"),
            max_abs_error: worst_abs,
            max_rel_error: worst,
            tolerance,
            passed: worst <= tolerance,
        })
    }
}

impl Matmul {
    /// The processor's rungs at one size; the others are skipped, with their registers where there is NVRTC.
    pub(super) fn run_on_cpu(&self, lab: &Lab, problem: &Problem, run: &mut Run) {
        let rungs = run.rungs.clone();
        lab.tell(&Event::Preparing(&format!("drawing {}", problem.label())));
        let wanted = rungs.iter().any(|r| is_cpu(r) && obstacle(lab, r, problem).is_none());
        let matrices = if wanted { Matrices::draw(self, problem).ok() } else { None };
        for rung in &rungs {
            let row = if !is_cpu(rung) {
                let why = lab.obstacle(rung).unwrap_or_else(|| "needs a GPU".into());
                Measurement { kernels: crate::regression::compiled_stats(rung), ..skipped(rung, problem, why) }
            } else if let Some(why) = obstacle(lab, rung, problem) {
                skipped(rung, problem, why)
            } else if lab.bench().cancel.is_cancelled() {
                skipped(rung, problem, "interrupted before it began")
            } else if let Some(matrices) = &matrices {
                lab.tell(&Event::Started { rung, problem });
                match matrices.measure(lab, rung, problem) {
                    Ok(m) => m,
                    Err(Error::Device(warpbook_device::Error::Cancelled)) => skipped(rung, problem, "interrupted"),
                    Err(e) => failed(rung, problem, e),
                }
            } else {
                failed(rung, problem, "the matrices could not be drawn")
            };
            run.measurements.push(row);
            if let Some(measurement) = run.measurements.last() {
                lab.tell(&Event::Finished { measurement, run });
            }
        }
    }
}
