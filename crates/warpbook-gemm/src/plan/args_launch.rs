//! Structs that are passed as arguments to the product's kernels.
#![allow(unsafe_code)]

use crate::plan::copies::CopyArgs;
use crate::plan::streamed::ExchangeArgs;
use crate::{DeviceArrays, Workspace};
use std::any::Any;
use std::ffi::c_void;
use std::sync::Arc;
use warpbook_device::{DevicePtr, KernelArg};

/// The struct `Epilogue` of `kernels/matmul/gemm.cuh`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct EpilogueArgs {
    pub alpha: f32,
    pub beta: f32,
    pub bias: DevicePtr,
    pub mask: DevicePtr,
}

// SAFETY: the fields have the layout of the kernel's struct: two floats and two pointers.
unsafe impl KernelArg for EpilogueArgs {
    fn as_arg(&self) -> *mut c_void {
        std::ptr::from_ref(self).cast_mut().cast()
    }
}

// SAFETY: the fields have the layout of the kernel's struct: two pointers and four 32-bit numbers.
unsafe impl KernelArg for CopyArgs {
    fn as_arg(&self) -> *mut c_void {
        std::ptr::from_ref(self).cast_mut().cast()
    }
}

// SAFETY: the fields have the layout of the kernel's struct: two pointers and a 64-bit number.
unsafe impl KernelArg for ExchangeArgs {
    fn as_arg(&self) -> *mut c_void {
        std::ptr::from_ref(self).cast_mut().cast()
    }
}

/// A launch's last argument, together with the arrays of the product, so that a graph that captures the launch keeps them alive. Without the arrays, the graph
/// would see only addresses and tensor maps.
pub(super) struct Keeping<'a, T> {
    pub(super) argument: T,
    pub(super) kept: Option<&'a KeptArrays>,
}

// SAFETY: `as_arg` points to the wrapped argument, which implements this trait correctly.
unsafe impl<T: KernelArg> KernelArg for Keeping<'_, T> {
    fn as_arg(&self) -> *mut c_void {
        self.argument.as_arg()
    }

    fn arg_bytes(&self) -> usize {
        self.argument.arg_bytes()
    }

    fn owner(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        Some(Arc::new(self.kept?.clone()))
    }
}

/// The arrays of a product and its workspace, which a graph keeps alive.
#[derive(Debug, Clone)]
pub(super) struct KeptArrays {
    _arrays: DeviceArrays,
    _workspace: Workspace,
}

impl KeptArrays {
    pub(super) fn new(arrays: &DeviceArrays, workspace: &Workspace) -> Self {
        Self { _arrays: arrays.clone(), _workspace: workspace.clone() }
    }
}
