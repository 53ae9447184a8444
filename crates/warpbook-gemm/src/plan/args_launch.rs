//! Arguments of the product's kernels that are structs.
#![allow(unsafe_code)]

use crate::plan::copies::CopyArgs;
use crate::plan::streamed::ExchangeArgs;
use std::ffi::c_void;
use warpbook_device::{DevicePtr, KernelArg};

/// `Epilogue` of `kernels/matmul/gemm.cuh`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct EpilogueArgs {
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
