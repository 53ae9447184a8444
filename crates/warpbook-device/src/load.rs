//! Compiles and loads kernels.

use crate::xray::rings::Marking;
use crate::{CudaDevice, Kernel, Result};
use warpbook_record::{KernelSpec, Tile};

impl CudaDevice {
    /// Compiles and loads a kernel with one of its tiles, and with its marks while an [`Xray`](crate::Xray) of this device lives. Kernels with the same
    /// machine code share one module.
    ///
    /// # Errors
    /// If it does not compile, or the device refuses it.
    pub fn kernel(&self, spec: &KernelSpec, tile: &Tile) -> Result<Kernel> {
        if let Some(emulator) = self.0.emulator() {
            return Kernel::emulate(self, emulator, spec, tile);
        }
        let marking = self.0.extension::<Marking>();
        if let Some(marked) = marking.load(self, spec, tile) {
            return marked;
        }
        let architecture = self.architecture_of(spec);
        let compiled = self.compiler()?.compile(spec, tile, &architecture)?;
        let kernel = Kernel::load(self, spec, tile, &compiled)?;
        Ok(if marking.is_on() { kernel.watched(marking) } else { kernel })
    }

    /// Like [`CudaDevice::kernel`], but always compiles, and keeps nothing on the disk: see [`Compiler::compile_anew`](crate::Compiler::compile_anew).
    ///
    /// # Errors
    /// The errors of [`CudaDevice::kernel`].
    pub fn kernel_anew(&self, spec: &KernelSpec, tile: &Tile) -> Result<Kernel> {
        if let Some(emulator) = self.0.emulator() {
            return Kernel::emulate(self, emulator, spec, tile);
        }
        let architecture = self.architecture_of(spec);
        let compiled = self.compiler()?.compile_anew(spec, tile, &architecture)?;
        Kernel::load(self, spec, tile, &compiled)
    }
}
