//! Compares the choices of `gemm()` with cuBLASLt at random shapes, to see how good the choices are at shapes that are not in the published record.

mod gpu;
mod report;
mod shapes;

pub use report::{Bound, Compared, Picked, Report, Summary, Times};
pub use shapes::{Drawn, MOST_MULTIPLY_ADDS, Sides, draw, published};

use warpbook_device::{Bench, CublasLt};
use warpbook_gemm::{Gemm, Tuning};
use warpbook_lab::{Error, Lab, Result};

/// Maximum number of products in a survey.
const MOST: u32 = 100_000;

/// A survey of random products. Each is computed by the choice of `gemm()`, by cuBLASLt's first choice and by the fastest algorithm that cuBLASLt suggests.
///
/// Sides are log-uniform from 16 to 16384, with at most 2^37 multiply-adds in a product. In a third of the products all sides are multiples of 8, in a third
/// they are odd, and in the rest multiples of 64. The products are in bf16 and fp16, with all four combinations of transposed operands. All implementations are
/// checked, then timed in rounds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Survey {
    of: Of,
    seed: u64,
    tuning: Tuning,
    has_findings: bool,
}

/// The products that a survey compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Of {
    /// This number of random products.
    Random(u32),
    /// The products of the published record; see [`published`].
    Published,
}

impl Survey {
    /// Creates a survey of `count` products drawn from a seed; choices are made without timing.
    #[must_use]
    pub fn new(count: u32, seed: u64) -> Self {
        Self { of: Of::Random(count), seed, tuning: Tuning::Off, has_findings: true }
    }

    /// Uses the products of the published record in 16-bit types instead of random ones. The tuning findings for a device are made from this survey.
    #[must_use]
    pub fn published(self) -> Self {
        Self { of: Of::Published, ..self }
    }

    /// Sets how a product's first plan times kernels.
    #[must_use]
    pub fn tuning(self, tuning: Tuning) -> Self {
        Self { tuning, ..self }
    }

    /// Ignores the tuning findings that are published for the device.
    #[must_use]
    pub fn without_findings(self) -> Self {
        Self { has_findings: false, ..self }
    }

    /// Returns the `gemm` handle whose choices are surveyed.
    fn gemm(&self, device: &warpbook_device::CudaDevice) -> Gemm {
        let gemm = Gemm::with_tuning(device, self.tuning);
        if self.has_findings { gemm } else { gemm.without_published() }
    }

    /// Returns a bench with few samples of many repetitions each, so that 200 products take only a few minutes.
    #[must_use]
    pub fn bench() -> Bench {
        Bench { warmup: 1, samples: 15, budget_s: 0.1, batch_below_us: 200.0, ..Bench::default() }
    }

    /// Draws the products, checks and times each of them, and passes each result to `tell` when it is complete. If cancelled, it returns the results so far.
    ///
    /// # Errors
    /// If the count is out of range ([`Error::Setting`]), there is no GPU or no cuBLASLt, or the device reports an error.
    pub fn run(&self, lab: &Lab, mut tell: impl FnMut(&Compared)) -> Result<Report> {
        let drawn = match self.of {
            Of::Random(count @ 1..=MOST) => draw(self.seed, count),
            Of::Random(count) => {
                return Err(Error::Setting(format!("A survey of {count} products: choose from 1 to {MOST}.")));
            }
            Of::Published => published(),
        };
        let device = lab.device().cuda().ok_or(warpbook_device::Error::NeedsCuda("A survey of products"))?;
        let library = CublasLt::open(device)?;
        let field = gpu::Field::new(lab, device, &library, &drawn, self)?;
        let mut products = Vec::new();
        for drawn in drawn {
            let compared = match field.compare(&drawn) {
                Ok(compared) => compared,
                Err(error) if error.is_cancelled() => break,
                Err(Error::Device(error)) if error.is_sticky() => return Err(error.into()),
                Err(error) => {
                    let error = Some(error.to_string());
                    Compared { drawn, choice: None, picked: None, plan_s: None, algorithms: 0, times: None, error }
                }
            };
            tell(&compared);
            products.push(compared);
        }
        let environment = lab.environment();
        let policy = lab.bench().policy(true, gpu::inputs());
        let created = humantime::format_rfc3339_seconds(std::time::SystemTime::now()).to_string();
        Ok(Report { seed: self.seed, created, environment, policy, cublaslt: library.version(), products })
    }
}
