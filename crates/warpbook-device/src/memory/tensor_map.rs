//! Descriptions of arrays for Hopper's copy engine (TMA).

use crate::cuda::context::Inner;
use crate::{CudaDevice, DevicePtr, Error, KernelArg, Result};
use cudarc::driver::sys;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use warpbook_record::Dtype;

/// Describes a matrix or a higher-dimensional array in device memory for TMA, which copies boxes of it to shared memory, with swizzled
/// rows, and back. Elements outside the array are read as zeros and never written.
///
/// See the CUDA driver API, "Tensor Map Object Management". A map is passed to a kernel by value, as `const __grid_constant__`.
#[derive(Clone, Copy)]
pub struct TensorMap(sys::CUtensorMap);

impl std::fmt::Debug for TensorMap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TensorMap")
    }
}

// SAFETY: `as_arg` points to the 128 bytes of the tensor map, which have no padding.
unsafe impl KernelArg for TensorMap {
    fn as_arg(&self) -> *mut c_void {
        std::ptr::from_ref(&self.0).cast_mut().cast()
    }
}

/// Shape and box size of a matrix for [`TensorMap::new`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MatrixShape {
    /// Type of the elements: `F32` (also for `Tf32`), `F16` or `Bf16`.
    pub dtype: Dtype,
    /// Number of rows of the matrix.
    pub rows: u64,
    /// Number of columns of the matrix.
    pub columns: u64,
    /// Leading dimension: number of elements from one row to the next.
    pub ld: u64,
    /// Number of rows in a box, at most 256.
    pub box_rows: u32,
    /// Number of columns in a box, at most 128 bytes.
    pub box_columns: u32,
}

/// Shape and box size of an array for [`TensorMap::of_boxes`]. The first dimension is the one with adjacent elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BoxShape<'a> {
    /// Type of the elements: `F32` (also for `Tf32`), `F16` or `Bf16`.
    pub dtype: Dtype,
    /// Number of elements in each dimension.
    pub sizes: &'a [u64],
    /// Stride in bytes of each dimension except the first.
    pub strides: &'a [u64],
    /// Number of elements of a box in each dimension: at most 256, and in the first dimension at most `swizzle_bytes`.
    pub boxes: &'a [u32],
    /// Number of bytes in each swizzled row: 64 or 128.
    pub swizzle_bytes: u32,
}

/// Shape of images `[n][h][w][c]` for [`TensorMap::of_windows`]. Each load copies, for consecutive windows, some channels of the pixel at
/// one filter tap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowShape {
    /// Type of the elements: `F16` or `Bf16`.
    pub dtype: Dtype,
    /// Sizes in the order channels, width, height, images.
    pub sizes: [u64; 4],
    /// Column and row of the first pixel of the first window, relative to the image, from -128 to 127; negative with padding.
    pub first: [i32; 2],
    /// Number of windows along the width and the height of an image. Adjacent windows are one pixel apart.
    pub windows: [u32; 2],
    /// Number of channels per load, at most 128 bytes.
    pub channels: u32,
    /// Number of windows per load, at most 256.
    pub count: u32,
}

fn malformed(shape: BoxShape<'_>, needs: &str) -> Error {
    Error::Unsupported { what: format!("Describing an array for TMA ({shape:?})"), why: format!("needs {needs}") }
}

/// Element strides within a box: 1 in every dimension.
const STEPS: [u32; 5] = [1; 5];

fn data_type(dtype: Dtype) -> sys::CUtensorMapDataType {
    match dtype {
        Dtype::F16 => sys::CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
        Dtype::Bf16 => sys::CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
        _ => sys::CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
    }
}

impl MatrixShape {
    /// Returns true if TMA supports a matrix with this leading dimension and address: both must be multiples of 16 bytes.
    #[must_use]
    pub fn suits(dtype: Dtype, ld: u64, address: DevicePtr) -> bool {
        address.0.is_multiple_of(16) && (ld * dtype.bytes()).is_multiple_of(16)
    }
}

impl TensorMap {
    /// Describes the matrix at this address.
    ///
    /// # Errors
    /// The driver's errors, for example if the address or the leading dimension is not a multiple of 16 bytes, or a box is too large.
    pub fn new(device: &CudaDevice, address: DevicePtr, shape: MatrixShape) -> Result<Self> {
        let sizes = [shape.columns, shape.rows];
        let strides = [shape.ld * shape.dtype.bytes()];
        let boxes = [shape.box_columns, shape.box_rows];
        let shape =
            BoxShape { dtype: shape.dtype, sizes: &sizes, strides: &strides, boxes: &boxes, swizzle_bytes: 128 };
        Self::of_boxes(device, address, shape)
    }

    /// Describes an array of up to five dimensions at this address.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the lists have the wrong lengths or the swizzle is neither 64 nor 128 bytes; the driver's errors, for
    /// example if the address or a stride is not a multiple of 16 bytes, or a box is too large.
    pub fn of_boxes(device: &CudaDevice, address: DevicePtr, shape: BoxShape<'_>) -> Result<Self> {
        let inner: &Inner = &device.0;
        inner.bind_for("Tensor maps")?;
        let rank = shape.sizes.len();
        let swizzle = match shape.swizzle_bytes {
            64 => sys::CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_64B,
            128 => sys::CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_128B,
            _ => return Err(malformed(shape, "a swizzle of 64 or 128 bytes")),
        };
        if !(1..=5).contains(&rank) || shape.boxes.len() != rank || shape.strides.len() != rank - 1 {
            return Err(malformed(shape, "one to five sizes, the same number of box sizes, and one stride fewer"));
        }
        let mut map = MaybeUninit::<sys::CUtensorMap>::zeroed();
        // SAFETY: `map` is live, and the driver reads one element per dimension from each array, or one fewer from the strides; the lengths were checked above.
        let status = unsafe {
            sys::cuTensorMapEncodeTiled(
                map.as_mut_ptr(),
                data_type(shape.dtype),
                rank as u32,
                address.0 as *mut c_void,
                shape.sizes.as_ptr(),
                shape.strides.as_ptr(),
                shape.boxes.as_ptr(),
                STEPS.as_ptr(),
                sys::CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
                swizzle,
                // With the next larger size, rows that straddle cache lines would request 50% more bytes, and no access pattern would get
                // faster.
                sys::CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                sys::CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
            )
        };
        status.result().map_err(|e| inner.error(format!("Describing an array for TMA ({shape:?})"), e))?;
        // SAFETY: all bytes were initialised with zeros, and the driver has written the map.
        Ok(Self(unsafe { map.assume_init() }))
    }

    /// Describes images for loads in im2col mode. A load copies one filter tap of consecutive windows, first along the width, then along
    /// the height, then over the images. Pixels outside an image, and windows past the last image, are read as zeros. Rows of 128 bytes are
    /// swizzled.
    ///
    /// # Errors
    /// The driver's errors, for example if the address or a stride is not a multiple of 16 bytes, or a number is out of range.
    pub fn of_windows(device: &CudaDevice, address: DevicePtr, shape: WindowShape) -> Result<Self> {
        let inner: &Inner = &device.0;
        inner.bind_for("Tensor maps")?;
        let [channels, width, height, _] = shape.sizes;
        let pixel = channels * shape.dtype.bytes();
        let strides = [pixel, pixel * width, pixel * width * height];
        // The corners bound the first pixels of all windows, and are relative to the corners of the image.
        let last = |side: u64, first: i32, windows: u32| {
            i32::try_from(i64::from(first) + i64::from(windows) - side.cast_signed()).unwrap_or(i32::MAX)
        };
        let upper = [last(width, shape.first[0], shape.windows[0]), last(height, shape.first[1], shape.windows[1])];
        let mut map = MaybeUninit::<sys::CUtensorMap>::zeroed();
        // SAFETY: `map` is live, and the arrays have the lengths that the driver reads: four sizes, three strides, and two numbers for each corner.
        let status = unsafe {
            sys::cuTensorMapEncodeIm2col(
                map.as_mut_ptr(),
                data_type(shape.dtype),
                4,
                address.0 as *mut c_void,
                shape.sizes.as_ptr(),
                strides.as_ptr(),
                shape.first.as_ptr(),
                upper.as_ptr(),
                shape.channels,
                shape.count,
                STEPS.as_ptr(),
                sys::CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
                sys::CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_128B,
                sys::CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                sys::CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
            )
        };
        status.result().map_err(|e| inner.error(format!("Describing images for TMA ({shape:?})"), e))?;
        // SAFETY: all bytes were initialised with zeros, and the driver has written the map.
        Ok(Self(unsafe { map.assume_init() }))
    }
}
