//! What `gemm()` picks without tuning, held against cuBLASLt at random shapes: how good the choice is between the published ones.

mod gpu;
mod report;
mod shapes;

pub use report::{Bound, Compared, Report, Summary, Times, Tried};
pub use shapes::{Drawn, MOST_MULTIPLY_ADDS, Sides, draw};

use crate::{Error, Lab, Result};
use warpbook_device::{Bench, CublasLt};

/// The most products of a survey.
const MOST: u32 = 100_000;

/// Random products, each computed by what `gemm()` picks without tuning, by cuBLASLt's first choice and by the fastest of the algorithms
/// that it suggests.
///
/// Every product's sides are log-uniform from 16 to 16384, with at most 2^37 multiply-adds: a third multiples of 8, a third odd, the
/// rest multiples of 64; in bf16 and fp16 and in the four transpositions. All ways are checked, then timed in turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Survey {
    count: u32,
    seed: u64,
    candidates: usize,
}

impl Survey {
    /// So many products, drawn from a seed.
    #[must_use]
    pub fn new(count: u32, seed: u64) -> Self {
        Self { count, seed, candidates: 0 }
    }

    /// The same, with so many of our own tiles timed too: those that the costs find the cheapest, so that costs can be fitted to what
    /// is measured.
    #[must_use]
    pub fn candidates(self, candidates: usize) -> Self {
        Self { candidates, ..self }
    }

    /// Samples that are few and of many repetitions: 200 products take a few minutes.
    #[must_use]
    pub fn bench() -> Bench {
        Bench { warmup: 1, samples: 15, budget_s: 0.1, batch_below_us: 200.0, ..Bench::default() }
    }

    /// Draws the products, checks and times each, and tells each as it is done. Asked to stop it gives what it has.
    ///
    /// # Errors
    /// [`Error::Setting`] for a count of no use, the device's; there is no GPU or no cuBLASLt.
    pub fn run(&self, lab: &Lab, mut tell: impl FnMut(&Compared)) -> Result<Report> {
        if self.count == 0 || self.count > MOST {
            return Err(Error::Setting(format!("A survey of {} products: choose from 1 to {MOST}.", self.count)));
        }
        let device = lab.device().cuda().ok_or(warpbook_device::Error::NeedsCuda("A survey of products"))?;
        let library = CublasLt::open(device)?;
        let drawn = draw(self.seed, self.count);
        let field = gpu::Field::new(lab, device, &library, &drawn, self)?;
        let mut products = Vec::new();
        for drawn in drawn {
            let compared = match field.compare(&drawn) {
                Ok(compared) => compared,
                Err(error) if error.is_cancelled() => break,
                Err(Error::Device(error)) if error.is_sticky() => return Err(error.into()),
                Err(error) => {
                    let error = Some(error.to_string());
                    Compared { drawn, choice: None, algorithms: 0, times: None, tried: Vec::new(), error }
                }
            };
            tell(&compared);
            products.push(compared);
        }
        let environment = lab.environment();
        let policy = lab.bench().policy(true, gpu::INPUTS);
        Ok(Report { seed: self.seed, environment, policy, cublaslt: library.version(), products })
    }
}
