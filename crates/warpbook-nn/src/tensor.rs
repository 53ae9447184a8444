//! Arrays with a shape and a type, on the CPU or on a GPU.
//!
//! ```
//! use warpbook_nn::tensor::Tensor;
//! use warpbook_record::Dtype;
//!
//! let x = Tensor::new([2, 2], vec![0.1, 1.0, -2.0, 70_000.0])?;
//! let half = x.to_dtype(Dtype::F16)?;
//! assert_eq!(half.to_string(), "fp16 [2, 2] on the CPU: 0.099976, 1, -2, inf");
//! assert_eq!(x.to_vec()?[0], 0.1);
//! # Ok::<(), warpbook_nn::tensor::TensorError>(())
//! ```

use half::{bf16, f16};
use std::fmt;
use std::sync::Arc;
use warpbook_data::parallel;
use warpbook_device::{CudaDevice, Device};
use warpbook_gemm::DeviceArray;
use warpbook_gemm::storage::Storage;
use warpbook_record::Dtype;

/// The reason why a tensor cannot be created, moved or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TensorError {
    /// The device reports an error.
    #[error(transparent)]
    Device(#[from] warpbook_device::Error),
    /// A shape or a type does not match.
    #[error("{0}")]
    Unfit(String),
}

/// An immutable array of f32, f16 or bf16 in row-major order, on the CPU or on a GPU. Clones share its values.
#[derive(Clone)]
pub struct Tensor {
    shape: Vec<usize>,
    values: Values,
}

#[derive(Clone)]
enum Values {
    F32(Arc<[f32]>),
    F16(Arc<[f16]>),
    Bf16(Arc<[bf16]>),
    Cuda(CudaDevice, DeviceArray),
}

/// Number of values that are displayed.
const SHOWN: usize = 6;

impl Tensor {
    /// Creates an f32 tensor on the CPU.
    ///
    /// # Errors
    /// If the number of values is not the product of the shape's sizes.
    pub fn new(shape: impl Into<Vec<usize>>, values: Vec<f32>) -> Result<Self, TensorError> {
        let shape = shape.into();
        let elements = shape.iter().try_fold(1usize, |all, s| all.checked_mul(*s));
        if elements != Some(values.len()) {
            let elements = elements.map_or_else(|| "more elements than fit into memory".into(), |n| n.to_string());
            let why = format!("A tensor of the shape {shape:?} has {elements} elements; {} were given.", values.len());
            return Err(TensorError::Unfit(why));
        }
        Ok(Self { shape, values: Values::F32(values.into()) })
    }

    /// Returns the sizes, the outermost first.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Returns the number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Returns true if there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the type of the elements.
    #[must_use]
    pub fn dtype(&self) -> Dtype {
        match &self.values {
            Values::F32(_) => Dtype::F32,
            Values::F16(_) => Dtype::F16,
            Values::Bf16(_) => Dtype::Bf16,
            Values::Cuda(_, array) => array.dtype(),
        }
    }

    /// Returns the size in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.len() as u64 * self.dtype().bytes()
    }

    /// Returns the GPU that holds the tensor; `None` on the CPU.
    #[must_use]
    pub fn device(&self) -> Option<&CudaDevice> {
        match &self.values {
            Values::Cuda(device, _) => Some(device),
            _ => None,
        }
    }

    /// Returns the name of the device for display: "the CPU", "cuda:0".
    #[must_use]
    pub fn place(&self) -> String {
        device_name(self.device())
    }

    /// Copies the tensor to a device; if it is already there, the result shares its values.
    ///
    /// # Errors
    /// If the tensor does not fit into device memory, or the driver fails.
    pub fn to(&self, device: &Device) -> Result<Self, TensorError> {
        self.to_place(device.cuda())
    }

    /// Like [`Tensor::to`]; `None` is the CPU.
    pub(crate) fn to_place(&self, device: Option<&CudaDevice>) -> Result<Self, TensorError> {
        let same = match (self.device(), device) {
            (Some(own), Some(other)) => own.info().index == other.info().index,
            (own, other) => own.is_none() && other.is_none(),
        };
        if same {
            return Ok(self.clone());
        }
        let (values, dtype) = (self.to_vec()?, self.dtype());
        let values = match device {
            // f32 represents every value of the other types exactly, so nothing is rounded on the way.
            Some(device) => Values::Cuda(device.clone(), (&Storage::from_f32(device, &values, dtype)?).into()),
            None => Values::rounded(values, dtype),
        };
        Ok(Self { shape: self.shape.clone(), values })
    }

    /// Rounds the elements to f32, f16 or bf16: to the nearest, ties to even. A tensor on a GPU is copied to the host and back.
    ///
    /// # Errors
    /// If the type is none of these, or the driver fails.
    pub fn to_dtype(&self, dtype: Dtype) -> Result<Self, TensorError> {
        if !matches!(dtype, Dtype::F32 | Dtype::F16 | Dtype::Bf16) {
            let why = format!("A tensor's elements are fp32, fp16 or bf16, not {}.", dtype.label());
            return Err(TensorError::Unfit(why));
        }
        if dtype == self.dtype() {
            return Ok(self.clone());
        }
        let host = Self { shape: self.shape.clone(), values: Values::rounded(self.to_vec()?, dtype) };
        host.to_place(self.device())
    }

    /// Returns the values in f32, in row-major order. A tensor on a GPU is copied without waiting for streams.
    ///
    /// # Errors
    /// If the driver fails.
    pub fn to_vec(&self) -> Result<Vec<f32>, TensorError> {
        Ok(match &self.values {
            Values::F32(v) => v.to_vec(),
            Values::F16(v) => parallel::from_f16(v),
            Values::Bf16(v) => parallel::from_bf16(v),
            Values::Cuda(_, array) => array.to_f32()?,
        })
    }

    /// Returns the first values, at most [`SHOWN`] of them.
    fn head(&self) -> Result<Vec<f32>, TensorError> {
        let n = self.len().min(SHOWN);
        Ok(match &self.values {
            Values::F32(v) => v[..n].to_vec(),
            Values::F16(v) => v[..n].iter().map(|v| v.to_f32()).collect(),
            Values::Bf16(v) => v[..n].iter().map(|v| v.to_f32()).collect(),
            Values::Cuda(_, array) => array.range(0..n).to_f32()?,
        })
    }
}

impl Values {
    fn rounded(values: Vec<f32>, dtype: Dtype) -> Self {
        match dtype {
            Dtype::F16 => Self::F16(parallel::to_f16(&values).into()),
            Dtype::Bf16 => Self::Bf16(parallel::to_bf16(&values).into()),
            _ => Self::F32(values.into()),
        }
    }
}

/// Returns the name of a device for display.
pub(crate) fn device_name(device: Option<&CudaDevice>) -> String {
    device.map_or_else(|| "the CPU".into(), |device| format!("cuda:{}", device.info().index))
}

/// Writes type, shape, place and the first values: "fp32 [2, 3] on the CPU: 0.5, 1, ...".
impl fmt::Display for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?} on {}", self.dtype().label(), self.shape, self.place())?;
        let values = match self.head() {
            Ok(values) => values,
            Err(why) => return write!(f, ", which cannot be read: {why}"),
        };
        for (i, v) in values.iter().enumerate() {
            write!(f, "{} {}", if i == 0 { ":" } else { "," }, short(*v))?;
        }
        if self.len() > SHOWN { f.write_str(", ...") } else { Ok(()) }
    }
}

/// Writes the same text as `Display`.
impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Formats five significant digits without trailing zeros.
fn short(v: f32) -> String {
    if v == 0.0 || !v.is_finite() {
        return v.to_string();
    }
    let exponent = v.abs().log10().floor();
    if !(-4.0..7.0).contains(&exponent) {
        return format!("{v:.4e}");
    }
    let text = format!("{v:.*}", (4.0 - exponent).max(0.0) as usize);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpbook_device::{Choice, testing};

    #[test]
    fn a_tensor_shows_type_shape_place_and_values() {
        let check = |shape: &[usize], values: Vec<f32>, expect: &str| {
            let tensor = Tensor::new(shape, values).unwrap();
            assert_eq!(tensor.to_string(), expect);
            assert_eq!(format!("{tensor:?}"), expect);
        };
        check(&[2, 2], vec![1.0, -0.5, 0.123_456_7, 2.5e-9], "fp32 [2, 2] on the CPU: 1, -0.5, 0.12346, 2.5000e-9");
        check(&[7], vec![123_456.0; 7], &format!("fp32 [7] on the CPU: {}, ...", ["123456"; 6].join(", ")));
        check(&[], vec![f32::NAN], "fp32 [] on the CPU: NaN");
        check(&[3, 0], vec![], "fp32 [3, 0] on the CPU");
    }

    #[test]
    fn values_are_rounded_to_a_type_and_keep_their_shape() {
        let x = Tensor::new([1, 3], vec![1.0 + 1.0 / 512.0, 70000.0, -0.1]).unwrap();
        let check = |dtype, expect: [f32; 3]| {
            let rounded = x.to_dtype(dtype).unwrap();
            assert_eq!((rounded.dtype(), rounded.shape(), rounded.bytes()), (dtype, &[1, 3][..], 3 * dtype.bytes()));
            assert_eq!(rounded.to_vec().unwrap(), expect);
            // Converting rounded values back does not change them.
            assert_eq!(rounded.to_dtype(Dtype::F32).unwrap().to_vec().unwrap(), expect);
        };
        check(Dtype::F32, [1.0 + 1.0 / 512.0, 70000.0, -0.1]);
        check(Dtype::F16, [1.0 + 2.0 / 1024.0, f32::INFINITY, f16::from_f32(-0.1).to_f32()]);
        check(Dtype::Bf16, [1.0, 70144.0, bf16::from_f32(-0.1).to_f32()]);
        assert!(x.to_dtype(Dtype::F64).unwrap_err().to_string().contains("not fp64"));
    }

    #[test]
    fn values_and_shape_have_to_agree() {
        let refused = |shape: &[usize], n| Tensor::new(shape, vec![0.0; n]).unwrap_err().to_string();
        assert_eq!(refused(&[2, 3], 5), "A tensor of the shape [2, 3] has 6 elements; 5 were given.");
        assert!(refused(&[usize::MAX, 2], 5).contains("more elements than fit"));
    }

    #[test]
    fn a_tensor_on_the_cpu_stays_there() {
        let x = Tensor::new([2], vec![1.0, 2.0]).unwrap();
        let cpu = Device::open(Choice::Cpu).unwrap();
        let same = x.to(&cpu).unwrap();
        assert!(same.device().is_none() && same.place() == "the CPU");
        let shares = match (&x.values, &same.values) {
            (Values::F32(a), Values::F32(b)) => Arc::ptr_eq(a, b),
            _ => false,
        };
        assert!(shares, "nothing is copied");
    }

    #[test]
    fn a_tensor_goes_to_the_gpu_and_back() {
        let Some(gpu) = testing::gpu("a_tensor_goes_to_the_gpu_and_back") else { return };
        let (gpu, cpu) = (Device::Cuda(gpu), Device::open(Choice::Cpu).unwrap());
        let values: Vec<f32> = (0..1000).map(|i| (i as f32 - 300.0) / 7.0).collect();
        let x = Tensor::new([10, 100], values.clone()).unwrap();
        for dtype in [Dtype::F32, Dtype::F16, Dtype::Bf16] {
            let host = x.to_dtype(dtype).unwrap();
            let there = host.to(&gpu).unwrap();
            assert_eq!((there.place().as_str(), there.dtype(), there.shape()), ("cuda:0", dtype, &[10, 100][..]));
            assert_eq!(there.to_vec().unwrap(), host.to_vec().unwrap(), "{dtype:?}");
            let shown = host.to_string().replace("on the CPU", "on cuda:0");
            assert_eq!(there.to_string(), shown);
            let back = there.to(&cpu).unwrap();
            assert!(back.device().is_none() && back.dtype() == dtype);
            assert_eq!(back.to_vec().unwrap(), host.to_vec().unwrap());
            let wide = there.to_dtype(Dtype::F32).unwrap();
            assert_eq!((wide.place().as_str(), wide.dtype()), ("cuda:0", Dtype::F32));
        }
    }
}
