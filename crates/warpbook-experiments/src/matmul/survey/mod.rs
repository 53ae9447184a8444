//! What `gemm()` picks without tuning, held against cuBLASLt at random shapes: how good the choice is between the published ones.

mod gpu;
mod report;
mod shapes;

pub use report::{Bound, Compared, Picked, Report, Summary, Times, Tried};
pub use shapes::{Drawn, MOST_MULTIPLY_ADDS, Sides, draw, published};

use warpbook_device::{Bench, CublasLt};
use warpbook_gemm::{self, Expected, Product, cheapest_of};
use warpbook_kernels::matmul::{Row, rows};
use warpbook_lab::{Error, Lab, Result};
use warpbook_record::{DeviceInfo, Tile};

/// The most products of a survey.
const MOST: u32 = 100_000;

/// Random products, each computed by what `gemm()` picks without tuning, by cuBLASLt's first choice and by the fastest of the algorithms
/// that it suggests.
///
/// Every product's sides are log-uniform from 16 to 16384, with at most 2^37 multiply-adds: a third multiples of 8, a third odd, the
/// rest multiples of 64; in bf16 and fp16 and in the four transpositions. All ways are checked, then timed in turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Survey {
    of: Of,
    seed: u64,
    candidates: usize,
    only: Vec<Wanted>,
}

/// Which products are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Of {
    /// So many random ones.
    Random(u32),
    /// Those of [`published`].
    Published,
}

/// A rung whose tiles are tried, or one of them.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Wanted {
    rung: String,
    tile: Option<String>,
}

impl Survey {
    /// So many products, drawn from a seed.
    #[must_use]
    pub fn new(count: u32, seed: u64) -> Self {
        Self { of: Of::Random(count), seed, candidates: 0, only: Vec::new() }
    }

    /// The products that the published record has in 16-bit types, in place of random ones: what is trained with a survey's candidates is to know them well.
    #[must_use]
    pub fn published(self) -> Self {
        Self { of: Of::Published, ..self }
    }

    /// The same, with so many of our own tiles timed too: those that the costs find the cheapest, so that costs can be fitted to what
    /// is measured.
    #[must_use]
    pub fn candidates(self, candidates: usize) -> Self {
        Self { candidates, ..self }
    }

    /// The same, with candidates only of these rungs, `15_split_k`, or tiles, `15_split_k/128x128s6k2`: of rungs without costs too, whose
    /// tiles come last. All rungs with costs where none are given.
    ///
    /// # Errors
    /// [`Error::Setting`] for a rung that has no kernel or is not there, and for a tile that it does not have.
    pub fn only(self, names: &[String]) -> Result<Self> {
        let rows = rows();
        let wanted = |name: &String| {
            let (id, tile) = name.split_once('/').map_or((name.as_str(), None), |(id, tile)| (id, Some(tile)));
            let row = rows.iter().find(|row| row.rung.id == id && row.kernel().is_some());
            let Some(kernel) = row.and_then(|row| row.kernel()) else {
                let known: Vec<&str> = rows.iter().filter(|r| r.kernel().is_some()).map(|r| &*r.rung.id).collect();
                return Err(Error::Setting(format!(
                    "There is no rung {id} with a kernel: choose from {}.",
                    known.join(", ")
                )));
            };
            if let Some(tile) = tile.filter(|tile| kernel.tile(tile).is_none()) {
                let known: Vec<&str> = kernel.tiles.iter().map(|tile| &*tile.id).collect();
                return Err(Error::Setting(format!("{id} has no tile {tile}: choose from {}.", known.join(", "))));
            }
            Ok(Wanted { rung: id.to_owned(), tile: tile.map(str::to_owned) })
        };
        let only = names.iter().map(wanted).collect::<Result<_>>()?;
        Ok(Self { only, ..self })
    }

    /// The tiles of ours that are timed for a product.
    fn cheapest(&self, product: &Product, device: &DeviceInfo) -> Vec<Expected> {
        let wanted = |row: &Row, tile: &Tile| {
            self.only.iter().any(|w| w.rung == row.rung.id && w.tile.as_ref().is_none_or(|id| tile.id == *id))
        };
        let wanted: Option<&warpbook_gemm::Wanted<'_>> = if self.only.is_empty() { None } else { Some(&wanted) };
        cheapest_of(product, device, self.candidates, wanted)
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
                    let (choice, picked, times, tried) = (None, None, None, Vec::new());
                    Compared { drawn, choice, picked, algorithms: 0, times, tried, error }
                }
            };
            tell(&compared);
            products.push(compared);
        }
        let environment = lab.environment();
        let policy = lab.bench().policy(true, gpu::INPUTS);
        let created = humantime::format_rfc3339_seconds(std::time::SystemTime::now()).to_string();
        Ok(Report { seed: self.seed, created, environment, policy, cublaslt: library.version(), products })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpbook_kernels::matmul::Form;
    use warpbook_record::{DeviceKind, Dtype};

    fn h200() -> DeviceInfo {
        DeviceInfo {
            kind: DeviceKind::Cuda,
            index: 0,
            name: "NVIDIA H200".into(),
            memory_bytes: 1 << 37,
            multiprocessors: 132,
            compute_capability: Some((9, 0)),
            l2_bytes: None,
            shared_bytes_per_multiprocessor: None,
            shared_bytes_per_block: None,
            registers_per_multiprocessor: None,
            max_sm_mhz: None,
            max_memory_mhz: None,
        }
    }

    #[test]
    fn only_named_tiles_are_candidates() {
        let product = Product::new(896, 320, 15552, Form::plain(Dtype::Bf16));
        let of = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|&n| n.to_owned()).collect();
            let survey = Survey::new(1, 1).candidates(100).only(&names).unwrap();
            let found = survey.cheapest(&product, &h200());
            found.into_iter().map(|e| (format!("{}/{}", e.row.rung.id, e.tile.id), e.us.is_some())).collect::<Vec<_>>()
        };
        assert_eq!(of(&["15_split_k/128x128s6k2"]), [("15_split_k/128x128s6k2".to_owned(), true)]);
        let both = of(&["15d_split_over_workspace", "15_split_k/128x128s6k2"]);
        assert!(both.len() > 5 && both[0].1 && both.iter().all(|(name, _)| name.starts_with("15")), "{both:?}");
        assert!(of(&[]).len() > both.len());
    }

    #[test]
    fn what_is_not_there_is_named_with_what_is() {
        let refused = |name: &str| Survey::new(1, 1).only(&[name.to_owned()]).unwrap_err().to_string();
        assert!(refused("15_splitk").contains("15_split_k, 15b_small_tiles"), "{}", refused("15_splitk"));
        assert!(refused("cublas").contains("no rung cublas with a kernel"));
        assert!(
            refused("15_split_k/1x1").contains("no tile 1x1: choose from 128x128s6k2, "),
            "{}",
            refused("15_split_k/1x1")
        );
    }
}
