//! A learner's kernel as the product of linear layers: how it is named, and its check before a training.

use super::LiveKernel;
use crate::{Error, Lab, Matmul, Result};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use warpbook_device::CudaDevice;
use warpbook_kernels::matmul::{Row, rows};
use warpbook_nn::gemm::{OwnProduct, ProductBy};
use warpbook_nn::network::Network;
use warpbook_nn::ops::linear::check_own_product;
use warpbook_nn::train::CudaOptions;
use warpbook_record::{Dtype, Runner, nearest};

/// The rung that a file takes the place of, unless another one is named.
const USUAL: &str = "02_coalesced";
/// Edge of the product at which a kernel is tried in a separate process.
const TRIED_AT: u64 = 192;

/// The kernels that became products, each with the learner's settings, by which it is tried in a separate process.
static MADE: Mutex<Vec<(OwnProduct, LiveKernel)>> = Mutex::new(Vec::new());
/// The kernels that were found to be right in this process, in a type.
static RIGHT: Mutex<Vec<(OwnProduct, Dtype)>> = Mutex::new(Vec::new());

impl LiveKernel {
    /// Reads a kernel's name as the command line and recipes have it: a file, `mine.cu`; a file in the place of a rung, `mine.cu@03_shared_tile`; the
    /// same with sizes of its tile, `mine.cu@05_register_2d:BM=64,THREADS=128`; or a rung as it is, `05_register_2d`. A file takes the place of
    /// `02_coalesced` unless a rung is named. Files are looked for in `folder`.
    ///
    /// # Errors
    /// If the file cannot be read, there is no such rung, or a size is no `NAME=N`.
    pub fn named_in(folder: &Path, text: &str) -> Result<Self> {
        let (file, rung, sizes) = parts(text);
        let mut live = Self::of(rung)?;
        if let Some(file) = file {
            live = live.file(folder.join(file))?.named("mine");
        }
        for size in sizes.split(',').filter(|size| !size.is_empty()) {
            let read = size.split_once('=').and_then(|(name, value)| Some((name.trim(), value.trim().parse().ok()?)));
            let (name, value) =
                read.ok_or_else(|| Error::Setting(format!("`{size}` is not a size of a tile: write it as BM=64.")))?;
            live = live.size(name, value);
        }
        live.validate()?;
        Ok(live)
    }

    /// The kernel as what computes linear layers, under a name that messages and commands show.
    fn product_named(&self, name: &str) -> OwnProduct {
        let rung = self.rung();
        // A kernel of another experiment computes no matrix product: it is refused when a layer is planned.
        let none = || Row {
            rung: warpbook_record::Rung { runner: Runner::Library(name.to_owned().into()), ..rung.clone() },
            ..rows().swap_remove(0)
        };
        let own = OwnProduct::new(name, Matmul::new().row_of(&rung).unwrap_or_else(none));
        let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
        if !made.iter().any(|(known, _)| *known == own) {
            made.push((own, self.clone()));
        }
        own
    }
}

/// The learner's kernel computes a linear layer: `linear(128).product(&mine)`.
impl From<&LiveKernel> for ProductBy {
    fn from(live: &LiveKernel) -> Self {
        live.product_named(&live.id()).into()
    }
}

/// The learner's kernel computes a linear layer: `linear(128).product(mine)`.
impl From<LiveKernel> for ProductBy {
    fn from(live: LiveKernel) -> Self {
        (&live).into()
    }
}

/// A kernel's file, its rung and the sizes of its tile.
fn parts(text: &str) -> (Option<&str>, &str, &str) {
    let (what, sizes) = text.rsplit_once(':').filter(|(_, sizes)| sizes.contains('=')).unwrap_or((text, ""));
    match what.rsplit_once('@') {
        Some((file, rung)) => (Some(file), rung, sizes),
        None if Path::new(what).extension().is_some_and(|end| end.eq_ignore_ascii_case("cu")) => {
            (Some(what), USUAL, sizes)
        }
        None => (None, what, sizes),
    }
}

/// Returns the file of a kernel that [`product_by`] read, as it was written.
#[must_use]
pub fn kernel_file(by: ProductBy) -> Option<&'static Path> {
    parts(by.kernel()?.name()).0.map(Path::new)
}

/// Reads what computes linear layers: one of [`ProductBy::ALL`] by its name, or what [`LiveKernel::named_in`] reads.
///
/// # Errors
/// Like [`LiveKernel::named_in`].
pub fn product_by(folder: &Path, text: &str) -> Result<ProductBy> {
    let text = text.trim();
    if let Ok(named) = text.parse::<ProductBy>() {
        return Ok(named);
    }
    if let Some(row) = rows().into_iter().find(|row| row.rung.id == *text && row.kernel().is_some()) {
        return Ok(OwnProduct::new(text, row).into());
    }
    match LiveKernel::named_in(folder, text) {
        Ok(live) => Ok(live.product_named(text).into()),
        Err(Error::UnknownRung { nearest: rungs, .. }) if !text.contains('@') => {
            let names = ProductBy::ALL.map(ProductBy::name);
            let near = nearest(text, names.into_iter().chain(rungs.iter().map(String::as_str)))[0].to_owned();
            Err(Error::Setting(format!(
                "`{text}` computes no linear layer; did you mean `{near}`? Choose one of {}, a rung such as 05_register_2d, or a file such as mine.cu.",
                names.join(", ")
            )))
        }
        Err(other) => Err(other),
    }
}

impl Lab {
    /// Tries the learner's kernels that compute layers of a network, as [`Lab::attempt`] does and then with all that a linear layer asks of them: the
    /// three forms of its products, a bias, a ReLU and a mask. Each is tried once in a process.
    ///
    /// # Errors
    /// [`Error::WrongProduct`] with what is wrong; the compiler's and the device's.
    pub(crate) fn check_products(&self, device: &CudaDevice, options: &CudaOptions, network: &Network) -> Result<()> {
        let dtype = options.precision.products();
        for own in options.own_products(network) {
            let is_right = |all: &[(OwnProduct, Dtype)]| all.contains(&(own, dtype));
            if is_right(&RIGHT.lock().unwrap_or_else(PoisonError::into_inner)) {
                continue;
            }
            let made = MADE.lock().unwrap_or_else(PoisonError::into_inner).iter().find(|m| m.0 == own).cloned();
            let limit_s = made.as_ref().map_or(super::LIMIT_S, |(_, live)| live.limit_s);
            if let Some((_, live)) = made {
                self.try_apart(&live, own, dtype)?;
            }
            if let Some(why) = check_own_product(device, own, dtype, limit_s)? {
                return Err(wrong(own, &why));
            }
            RIGHT.lock().unwrap_or_else(PoisonError::into_inner).push((own, dtype));
        }
        Ok(())
    }

    /// Tries it in a separate process, which ends with it if it does not end.
    fn try_apart(&self, live: &LiveKernel, own: OwnProduct, dtype: Dtype) -> Result<()> {
        let none: [&str; 0] = [];
        let small = live.clone().shape(TRIED_AT, TRIED_AT, TRIED_AT).dtype(dtype).against(none);
        let attempt = self.attempt(&small)?;
        attempt.error().map_or(Ok(()), |why| Err(wrong(own, why)))
    }
}

fn wrong(own: OwnProduct, why: &str) -> Error {
    Error::WrongProduct(format!("{} cannot compute linear layers: {why}", own.name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_product_is_named_by_file_rung_and_sizes() {
        let folder = tempfile::tempdir().unwrap();
        let source = LiveKernel::of("03_shared_tile").unwrap().text().to_owned();
        std::fs::write(folder.path().join("mine.cu"), source).unwrap();
        let by = |text: &str| product_by(folder.path(), text).unwrap();
        assert_eq!(by("stock"), ProductBy::Stock);
        let rung = |text: &str| by(text).rows()[0].rung.clone();
        assert_eq!(&*rung("mine.cu").id, "02_coalesced+mine");
        let tiled = rung("mine.cu@03_shared_tile:BM=16,BN=16,BK=16,THREADS=256");
        let spec = &tiled.kernels()[0];
        assert_eq!((&*tiled.id, &*spec.file), ("03_shared_tile+mine", "live/mine.cu"));
        assert_eq!((spec.tiles.len(), spec.tiles[0].get("THREADS")), (1, Some(256)));
        assert_eq!(by("mine.cu@03_shared_tile").to_string(), "mine.cu@03_shared_tile");
        assert_eq!(by("mine.cu"), by("mine.cu"), "the same kernel is the same product");
        assert_eq!(&*rung("05_register_2d").kernels()[0].file, "matmul/05_register_2d.cu");
    }

    #[test]
    fn the_file_of_a_kernel_is_known() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("mine.cu"), LiveKernel::of("02_coalesced").unwrap().text()).unwrap();
        let file = |text: &str| kernel_file(product_by(folder.path(), text).unwrap());
        assert_eq!(file("mine.cu@02_coalesced:BM=8,BN=32"), Some(Path::new("mine.cu")));
        assert_eq!((file("02_coalesced"), file("own")), (None, None));
    }

    #[test]
    fn what_is_no_product_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let why = |text: &str| product_by(folder.path(), text).unwrap_err().to_string();
        assert!(why("stok").contains("did you mean `stock`?"), "{}", why("stok"));
        assert!(why("none.cu").contains("none.cu cannot be read"), "{}", why("none.cu"));
        std::fs::write(folder.path().join("k.cu"), "").unwrap();
        assert!(why("k.cu@03_shared").contains("There is no rung `03_shared`"), "{}", why("k.cu@03_shared"));
        assert!(why("k.cu:BM=x").contains("`BM=x` is not a size"), "{}", why("k.cu:BM=x"));
        assert!(why("k.cu:BM=0").contains("BM has to be"), "{}", why("k.cu:BM=0"));
    }
}
