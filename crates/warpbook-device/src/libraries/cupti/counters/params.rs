//! The parameter structs of CUPTI's functions, from cupti_profiler_target.h, cupti_profiler_host.h, cupti_range_profiler.h and cupti_target.h of
//! CUDA 13.0.
//!
//! Each struct begins with its size up to the end of its last field, which is not C's `sizeof`. CUPTI uses the size to tell which fields exist.

use std::ffi::{c_char, c_int, c_void};
use std::mem::offset_of;

/// Declares parameter structs with the sizes that the headers define.
macro_rules! params {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty),* } last $last:ident: $last_type:ty;)*) => { $(
        $(#[$doc])*
        #[repr(C)]
        #[derive(Debug, Clone, Copy)]
        pub(super) struct $name {
            pub size: usize,
            pub private: *mut c_void,
            $(pub $field: $type,)*
            pub $last: $last_type,
        }

        impl $name {
            /// The value that the headers call `..._STRUCT_SIZE`.
            pub const SIZE: usize = offset_of!($name, $last) + size_of::<$last_type>();

            /// Returns the struct with its size set and all other fields zero or null.
            pub const fn new() -> Self {
                // SAFETY: the struct has only integers and pointers, for which zero is a valid value.
                let mut zeros: Self = unsafe { std::mem::zeroed() };
                zeros.size = Self::SIZE;
                zeros
            }
        }
    )* };
}

params! {
    /// `CUpti_Device_GetChipName_Params`.
    ChipName { index: usize } last name: *const c_char;
    /// `CUpti_Profiler_DeviceSupported_Params`. Each field except the device and the interface is a level of support, of which 3 is full
    /// support.
    Supported {
        device: c_int, supported: u32, architecture: u32, sli: u32, virtual_gpu: u32, confidential: u32, mining: u32, wsl: u32
    } last interface: u32;
    /// `CUpti_Profiler_Host_Initialize_Params`.
    HostInitialize { kind: u32, chip: *const c_char, availability: *const u8 } last host: *mut c_void;
    /// `CUpti_Profiler_Host_ConfigAddMetrics_Params`.
    AddMetrics { host: *mut c_void, names: *const *const c_char } last count: usize;
    /// `CUpti_Profiler_Host_GetConfigImageSize_Params`.
    ImageSize { host: *mut c_void } last bytes: usize;
    /// `CUpti_Profiler_Host_GetConfigImage_Params`.
    Image { host: *mut c_void, bytes: usize } last image: *mut u8;
    /// `CUpti_Profiler_Host_GetNumOfPasses_Params`.
    Passes { bytes: usize, image: *const u8 } last passes: usize;
    /// `CUpti_Profiler_Host_EvaluateToGpuValues_Params`.
    Evaluate {
        host: *mut c_void, data: *const u8, bytes: usize, range: usize, names: *const *const c_char, count: usize
    } last values: *mut f64;
    /// `CUpti_RangeProfiler_Enable_Params`.
    Enable { context: *mut c_void } last object: *mut c_void;
    /// `CUpti_RangeProfiler_GetCounterDataSize_Params`.
    DataSize {
        object: *mut c_void, names: *const *const c_char, count: usize, ranges: usize, nodes: u32
    } last bytes: usize;
    /// `CUpti_RangeProfiler_CounterDataImage_Initialize_Params`.
    DataInitialize { object: *mut c_void, bytes: usize } last data: *mut u8;
    /// `CUpti_RangeProfiler_SetConfig_Params`.
    SetConfig {
        object: *mut c_void, image_bytes: usize, image: *const u8, data_bytes: usize, data: *mut u8, range: u32, replay: u32,
        ranges_a_pass: usize, levels: u16, least_level: u16, pass: usize
    } last target_level: u16;
    /// `CUpti_RangeProfiler_PushRange_Params`.
    Push { object: *mut c_void } last name: *const c_char;
    /// `CUpti_RangeProfiler_Stop_Params`.
    Stop { object: *mut c_void, pass: usize, level: usize } last all_submitted: u8;
    /// `CUpti_RangeProfiler_DecodeData_Params`.
    Decode { object: *mut c_void } last dropped: usize;
    /// `CUpti_RangeProfiler_GetCounterDataInfo_Params`.
    DataInfo { data: *const u8, bytes: usize } last ranges: usize;
    /// The parameters of `CUpti_RangeProfiler_Start`, `_PopRange` and `_Disable`, and of `CUpti_Profiler_Host_Deinitialize`, which have the same
    /// layout.
    Object {} last object: *mut c_void;
}

/// `CUpti_Profiler_Initialize_Params` and `CUpti_Profiler_DeInitialize_Params`, which have the same layout.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct Nothing {
    size: usize,
    private: *mut c_void,
}

impl Nothing {
    pub const fn new() -> Self {
        Self { size: size_of::<Self>(), private: std::ptr::null_mut() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected numbers were printed by a C program compiled with the headers of CUDA 13.0.
    #[test]
    fn fields_lie_where_the_headers_have_them() {
        macro_rules! check {
            ($params:ident, $size:literal, [$($field:ident $at:literal),*]) => {
                assert_eq!($params::SIZE, $size, stringify!($params));
                assert_eq!([$(offset_of!($params, $field)),*], [$($at),*], stringify!($params));
                assert_eq!($params::new().size, $size);
                assert!($params::new().private.is_null());
            };
        }
        check!(ChipName, 32, [index 16, name 24]);
        check!(Supported, 52, [device 16, supported 20, architecture 24, sli 28, virtual_gpu 32, confidential 36, wsl 44, interface 48]);
        check!(HostInitialize, 48, [kind 16, chip 24, availability 32, host 40]);
        check!(AddMetrics, 40, [host 16, names 24, count 32]);
        check!(ImageSize, 32, [host 16, bytes 24]);
        check!(Image, 40, [host 16, bytes 24, image 32]);
        check!(Passes, 40, [bytes 16, image 24, passes 32]);
        check!(Evaluate, 72, [host 16, data 24, bytes 32, range 40, names 48, count 56, values 64]);
        check!(Enable, 32, [context 16, object 24]);
        check!(DataSize, 64, [names 24, count 32, ranges 40, nodes 48, bytes 56]);
        check!(DataInitialize, 40, [bytes 24, data 32]);
        check!(SetConfig, 90, [object 16, image_bytes 24, image 32, data_bytes 40, data 48, range 56, replay 60]);
        check!(SetConfig, 90, [ranges_a_pass 64, levels 72, least_level 74, pass 80, target_level 88]);
        check!(Push, 32, [object 16, name 24]);
        check!(Stop, 41, [object 16, pass 24, level 32, all_submitted 40]);
        check!(Decode, 32, [object 16, dropped 24]);
        check!(DataInfo, 40, [data 16, bytes 24, ranges 32]);
        check!(Object, 24, [object 16]);
        assert_eq!(size_of::<Nothing>(), 16);
    }
}
