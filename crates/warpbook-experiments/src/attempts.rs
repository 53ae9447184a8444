//! Attempts at the matrix product, and the checks that a learner's kernel must pass before it computes layers in a
//! training run.

use crate::Matmul;
use warpbook_device::CudaDevice;
use warpbook_gemm::check_own_product;
use warpbook_kernels::matmul::Row;
use warpbook_lab::{Attempt, Error, Lab, LiveKernel, Result};
use warpbook_nn::network::Network;
use warpbook_nn::train::CudaOptions;

/// Edge length of the product with which a kernel is tried in a separate process.
const TRIED_AT: u64 = 192;

/// Extends the lab with attempts at the matrix product.
pub trait Attempts {
    /// Compiles a learner's kernel for the matrix product, tries it on small products, compares every element with an
    /// f64 reference, and times it together with the rungs that it names. For other experiments use
    /// [`Lab::attempt_at`].
    ///
    /// # Errors
    /// If a setting is out of range, or the device cannot be used at all.
    fn attempt(&self, live: &LiveKernel) -> Result<Attempt>;

    /// Tries the learner's kernels that compute layers of a network. After the checks of [`attempt`](Self::attempt),
    /// each kernel must handle everything that a linear layer needs: the three forms of its products, a bias, a ReLU
    /// and a mask. Each kernel is tried only once per process.
    ///
    /// # Errors
    /// If the product is wrong ([`Error::WrongProduct`], which names the mistake), or the compiler or the device
    /// reports an error.
    fn check_products(&self, device: &CudaDevice, options: &CudaOptions, network: &Network) -> Result<()>;
}

/// Returns the matrix product that a kernel is timed on.
fn product(live: &LiveKernel) -> Matmul {
    Matmul::new().shapes([live.sides()]).dtypes([live.element_type()]).tiles(false).transfers(false)
}

impl Attempts for Lab {
    fn attempt(&self, live: &LiveKernel) -> Result<Attempt> {
        let product = product(live);
        let problem = product.problems().swap_remove(0);
        if let Some(can) = product.row_of(&live.rung()).as_ref().and_then(Row::capabilities)
            && !can.takes(live.element_type())
        {
            let known: Vec<&str> = can.dtypes.iter().map(|(d, _)| d.label()).collect();
            let (id, dtype) = (&live.base().id, live.element_type().label());
            return Err(Error::Setting(format!("{id} takes {}, not {dtype}.", known.join(", "))));
        }
        self.attempt_at(&product, &problem, live)
    }

    fn check_products(&self, device: &CudaDevice, options: &CudaOptions, network: &Network) -> Result<()> {
        let dtype = options.precision.products();
        for own in options.own_products(network) {
            if own.is_right(dtype) {
                continue;
            }
            let wrong =
                |why: &str| Error::WrongProduct(format!("{} cannot compute a network's products: {why}", own.name()));
            // Try the kernel in a separate process, which can be killed if the kernel hangs.
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
