//! What a launch of tiles that are cut along k takes in addition.
#![allow(unsafe_code)]

use super::streamed::ExchangeArgs;
use std::ffi::c_void;
use warpbook_device::KernelArg;

// SAFETY: the layout is that of the kernel's struct: two pointers and a 64-bit number.
unsafe impl KernelArg for ExchangeArgs {
    fn as_arg(&self) -> *mut c_void {
        std::ptr::from_ref(self).cast_mut().cast()
    }
}
