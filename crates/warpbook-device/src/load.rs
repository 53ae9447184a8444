//! Compiles and loads kernels.

use crate::xray::rings::Marking;
use crate::{CudaDevice, Kernel, Result};
use warpbook_record::{Emulated, KernelSpec, Tile};

impl CudaDevice {
    /// Compiles and loads a kernel with one of its tiles. While there is an [`Xray`](crate::Xray) for this device, the kernel includes its marks.
    /// Kernels with the same machine code share one module.
    ///
    /// # Errors
    /// Returns an error if the kernel does not compile, or the device refuses it.
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

    /// Runs `work` while the emulator checks every launch for mistakes and counts the kernels' work. A kernel's first launch with
    /// each grid and block runs with three different orders of blocks and warps. A mistake becomes an [`Error::Fault`](crate::Error::Fault). On a GPU, `work` simply runs.
    ///
    /// # Errors
    /// The errors of `work`.
    pub fn checked<R, E>(&self, work: impl FnOnce() -> Result<R, E>) -> Result<(R, Emulated), E> {
        let Some(emulator) = self.0.emulator() else { return work().map(|done| (done, Emulated::default())) };
        emulator.begin_checks();
        let done = work();
        let found = emulator.end_checks();
        Ok((done?, found))
    }

    /// Like [`CudaDevice::kernel`], but always compiles, and does not store the result in the disk cache; see
    /// [`Compiler::compile_anew`](crate::Compiler::compile_anew).
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
