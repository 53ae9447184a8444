//! Compiled code that is loaded on a device once, and shared by any number of kernels.

use crate::cuda::context::{Inner, relaxed};
use crate::{CudaDevice, Result};
use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys::{self, CUfunction_attribute_enum as Attribute};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::ffi::CString;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// A device's modules by the hash of their code. A module is unloaded with its last owner, unless [`Modules::keep`] was called.
#[derive(Default)]
pub(crate) struct Modules(Mutex<LoadedModules>);

#[derive(Default)]
struct LoadedModules {
    by_code: HashMap<[u8; 32], Weak<Module>>,
    stay: bool,
}

impl Modules {
    fn lock(&self) -> MutexGuard<'_, LoadedModules> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn loaded(&self) -> usize {
        self.lock().by_code.values().filter(|m| m.strong_count() > 0).count()
    }

    /// Keeps all modules loaded from now on: CUPTI identifies kernels by address, and a new module could reuse an address.
    pub(crate) fn keep(&self) {
        self.lock().stay = true;
    }
}

impl CudaDevice {
    /// Returns the number of modules that kernels of this device (and its clones) keep loaded. Kernels with the same machine code share one
    /// module. A module is unloaded when the last of these kernels, and of the graphs that launch them, is dropped. Once a
    /// [`crate::Recorder`] has been used, modules stay loaded until the context ends.
    #[must_use]
    pub fn loaded_modules(&self) -> usize {
        self.0.extension::<Modules>().loaded()
    }
}

/// A loaded module, unloaded with its last owner.
pub(crate) struct Module {
    pub(crate) device: Arc<Inner>,
    raw: sys::CUmodule,
    /// Dynamic shared memory limit of each function in bytes, for functions whose limit was raised.
    shared_limits: Mutex<HashMap<usize, u32>>,
}

// SAFETY: a module's handle may be used from any thread on which its context is current.
unsafe impl Send for Module {}
// SAFETY: the handle is only read, and the limits of the module's functions are changed only under a lock.
unsafe impl Sync for Module {}

impl Module {
    /// Returns the module with this code, loading it if necessary. Errors refer to the module by `path`.
    pub(crate) fn load(device: &Arc<Inner>, cubin: &[u8], path: &str) -> Result<Arc<Self>> {
        let key: [u8; 32] = Sha256::digest(cubin).into();
        // The lock is held during loading, so that two threads do not load the same code twice.
        let modules = device.extension::<Modules>();
        let mut modules = modules.lock();
        if let Some(module) = modules.by_code.get(&key).and_then(Weak::upgrade) {
            return Ok(module);
        }
        device.bind()?;
        // SAFETY: the image is a cubin, and it lives past the call.
        let raw = unsafe { result::module::load_data(cubin.as_ptr().cast()) }
            .map_err(|e| device.error(format!("Loading {path}"), e))?;
        let module = Arc::new(Self { device: device.clone(), raw, shared_limits: Mutex::default() });
        modules.by_code.retain(|_, m| m.strong_count() > 0);
        modules.by_code.insert(key, Arc::downgrade(&module));
        Ok(module)
    }

    /// Returns the driver's handle, which is valid as long as `self`.
    pub(crate) fn raw(&self) -> sys::CUmodule {
        self.raw
    }

    /// Returns the driver's handle of the kernel with this entry point.
    pub(crate) fn function(&self, entry: &str) -> Result<sys::CUfunction, DriverError> {
        // SAFETY: the module is live, and its context is current, because every caller has bound it.
        unsafe { result::module::get_function(self.raw, CString::new(entry).unwrap_or_default()) }
    }

    /// Allows launches of one of the module's functions with this much dynamic shared memory. The limit is never lowered,
    /// because another kernel of this module may need it.
    pub(crate) fn allow_shared(&self, function: sys::CUfunction, bytes: u32) -> Result<(), DriverError> {
        let mut limits = self.shared_limits.lock().unwrap_or_else(PoisonError::into_inner);
        if limits.get(&(function as usize)).is_some_and(|limit| *limit >= bytes) {
            return Ok(());
        }
        // SAFETY: the function belongs to this module, which is loaded.
        unsafe {
            result::function::set_function_attribute(
                function,
                Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                i32::try_from(bytes).unwrap_or(i32::MAX),
            )
        }?;
        limits.insert(function as usize, bytes);
        Ok(())
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        if self.device.may_free() && !self.device.extension::<Modules>().lock().stay {
            // SAFETY: the handle was created by `load` and is not used again.
            let _ = relaxed(|| unsafe { result::module::unload(self.raw) });
        }
    }
}
