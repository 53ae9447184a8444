//! Kernel arguments that are structs of words.
#![allow(unsafe_code)]

use std::ffi::c_void;
use warpbook_device::KernelArg;

/// A struct of `N` 32-bit words.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Words<const N: usize>(pub [u32; N]);

// SAFETY: `as_arg` points to N words, and the kernel's struct consists of the same number of words.
unsafe impl<const N: usize> KernelArg for Words<N> {
    fn as_arg(&self) -> *mut c_void {
        std::ptr::from_ref(self).cast_mut().cast()
    }
}
