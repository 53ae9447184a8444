//! A learner's kernel as the product of linear layers, and its check before a training.

use super::LiveKernel;
use crate::{Error, Lab, Matmul, Result};
use warpbook_device::CudaDevice;
use warpbook_kernels::matmul::{Row, rows};
use warpbook_gemm::{OwnProduct, ProductBy};
use warpbook_nn::network::Network;
use warpbook_nn::ops::linear::check_own_product;
use warpbook_nn::train::CudaOptions;
use warpbook_record::{LIVE, Rung, Runner};

/// Edge of the product at which a kernel is tried in a separate process.
const TRIED_AT: u64 = 192;

/// The learner's kernel computes a linear layer: `linear(128).product(&mine)`.
impl From<&LiveKernel> for ProductBy {
    fn from(live: &LiveKernel) -> Self {
        let (id, rung) = (live.id(), live.rung());
        // A kernel of another experiment computes no matrix product: it is refused when a layer is planned.
        let none = || {
            let runner = Runner::Library(id.clone().into());
            Row { rung: Rung { runner, ..rung.clone() }, ..rows().swap_remove(0) }
        };
        OwnProduct::new(&*id, Matmul::new().row_of(&rung).unwrap_or_else(none)).into()
    }
}

/// The learner's kernel computes a linear layer: `linear(128).product(mine)`.
impl From<LiveKernel> for ProductBy {
    fn from(live: LiveKernel) -> Self {
        (&live).into()
    }
}

impl LiveKernel {
    /// The learner's kernel behind a product; `None` if it is a rung as it is.
    fn of_product(own: OwnProduct) -> Option<Self> {
        let rung = &own.row().rung;
        let base = rows().into_iter().find(|row| Some(&row.rung.id) == rung.variant_of.as_ref())?.rung;
        let spec = rung.kernels().first().filter(|spec| spec.file.starts_with(LIVE))?;
        let tile = spec.tiles.first()?.clone();
        let live = Self::variant(&base).ok()?;
        Some(Self { source: spec.source.to_string(), headers: spec.headers.clone(), tile, ..live })
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
            if own.is_right(dtype) {
                continue;
            }
            let wrong =
                |why: &str| Error::WrongProduct(format!("{} cannot compute a network's products: {why}", own.name()));
            // In a separate process, which ends with the kernel if that does not end.
            if let Some(live) = LiveKernel::of_product(own) {
                let none: [&str; 0] = [];
                let small = live.shape(TRIED_AT, TRIED_AT, TRIED_AT).dtype(dtype).against(none);
                let attempt = self.attempt(&small)?;
                attempt.error().map_or(Ok(()), |why| Err(wrong(why)))?;
            }
            if let Some(why) = check_own_product(device, own, dtype)? {
                return Err(wrong(&why));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_live_kernel_is_a_product_and_comes_back() {
        let mine = LiveKernel::of("05_register_2d").unwrap().named("mine").size("BM", 64);
        let own = ProductBy::from(&mine).kernel().unwrap();
        assert_eq!((own.name(), &*own.row().rung.id), ("05_register_2d+mine", "05_register_2d+mine"));
        let again = LiveKernel::of_product(own).unwrap();
        assert_eq!((again.text(), again.id(), &again.tile), (mine.text(), mine.id(), &mine.tile));
        let rung = OwnProduct::read(std::path::Path::new(""), "05_register_2d").unwrap();
        assert!(LiveKernel::of_product(rung).is_none());
        let other = LiveKernel::variant(&crate::trial().rungs().into_iter().find(|r| r.id == "02_fused").unwrap());
        assert!(ProductBy::from(other.unwrap()).rows()[0].kernel().is_none());
    }
}
