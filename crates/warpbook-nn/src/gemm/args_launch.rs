//! The arguments of the product's kernels that are structs.
#![allow(unsafe_code)]

use super::plan::Copied;
use super::streamed::ExchangeArgs;
use std::ffi::c_void;
use warpbook_device::{DevicePtr, KernelArg};

/// `Epilogue` of `kernels/matmul/gemm.cuh`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct EpilogueArgs {
    pub alpha: f32,
    pub beta: f32,
    pub bias: DevicePtr,
    pub mask: DevicePtr,
}

// SAFETY: the layout is that of the kernel's struct: two floats and two pointers.
unsafe impl KernelArg for EpilogueArgs {
    fn as_arg(&self) -> *mut c_void {
        std::ptr::from_ref(self).cast_mut().cast()
    }
}

/// `Copy` of `kernels/matmul/repack.cu`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct CopyArgs {
    from: DevicePtr,
    to: DevicePtr,
    rows: u32,
    columns: u32,
    ld_from: u32,
    ld_to: u32,
}

impl CopyArgs {
    /// No rows.
    pub const NONE: Self =
        Self { from: DevicePtr::NULL, to: DevicePtr::NULL, rows: 0, columns: 0, ld_from: 0, ld_to: 0 };

    pub fn of(copy: &Copied) -> Self {
        let &Copied { from, to, rows, columns, ld_from, ld_to, .. } = copy;
        Self { from, to, rows, columns, ld_from, ld_to }
    }
}

// SAFETY: the layout is that of the kernel's struct: two pointers and four 32-bit numbers.
unsafe impl KernelArg for CopyArgs {
    fn as_arg(&self) -> *mut c_void {
        std::ptr::from_ref(self).cast_mut().cast()
    }
}

// SAFETY: the layout is that of the kernel's struct: two pointers and a 64-bit number.
unsafe impl KernelArg for ExchangeArgs {
    fn as_arg(&self) -> *mut c_void {
        std::ptr::from_ref(self).cast_mut().cast()
    }
}
