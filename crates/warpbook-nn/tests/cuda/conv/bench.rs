//! Arrays on a GPU with guards around them, and comparison of two runs of a pass.

use half::{bf16, f16};
use warpbook_data::philox::gaussian;
use warpbook_device::{Buffer, CudaDevice, Slice, Stream};
use warpbook_gemm::storage::rounded;
use warpbook_gemm::{DeviceArray, Gemm, Workspace};
use warpbook_nn::ops::Layout;
use warpbook_record::Dtype;

/// Guard elements before and after an array, which no kernel may write; they fill whole vectors of 16 bytes.
const GUARD: usize = 64;

pub const LAYOUTS: [Layout; 2] = [Layout::Nhwc, Layout::Nchw];

pub const TYPES: [Dtype; 4] = [Dtype::F32, Dtype::Tf32, Dtype::F16, Dtype::Bf16];

pub fn stored(dtype: Dtype) -> Dtype {
    if dtype == Dtype::Tf32 { Dtype::F32 } else { dtype }
}

/// An array with guards around it, initially filled with bytes of 0xff.
pub struct Guarded {
    whole: Buffer<u8>,
    dtype: Dtype,
    len: usize,
}

impl Guarded {
    pub fn new(device: &CudaDevice, len: usize, dtype: Dtype) -> Self {
        let size = dtype.bytes() as usize;
        Self { whole: device.zeros((len + 2 * GUARD) * size).unwrap(), dtype: stored(dtype), len }
    }

    pub fn bytes(&self) -> Slice<u8> {
        let size = self.dtype.bytes() as usize;
        self.whole.range(GUARD * size..(GUARD + self.len) * size)
    }

    pub fn array(&self) -> DeviceArray {
        match self.dtype {
            Dtype::F16 => (&self.bytes().cast::<f16>()).into(),
            Dtype::Bf16 => (&self.bytes().cast::<bf16>()).into(),
            _ => (&self.f32()).into(),
        }
    }

    pub fn f32(&self) -> Slice<f32> {
        self.bytes().cast()
    }

    /// Runs a pass twice, checks that bits repeat and guards are unchanged, and returns the result; workspaces are poisoned first.
    pub fn written(&self, what: &str, b: &Bench<'_>, workspace: &Poisoned, pass: impl Fn()) -> Vec<f32> {
        self.written_by(true, what, b, workspace, pass)
    }

    /// Like [`Self::written`], but bits may differ between runs if `same` is false.
    pub fn written_by(&self, same: bool, what: &str, b: &Bench<'_>, workspace: &Poisoned, pass: impl Fn()) -> Vec<f32> {
        let once = || {
            self.whole.fill_bytes(0xff).unwrap();
            workspace.0.fill_bytes(0xff).unwrap();
            pass();
            b.stream.synchronize().unwrap_or_else(|e| panic!("{what}: {e}"));
            let size = self.dtype.bytes() as usize;
            let bytes = self.whole.to_vec().unwrap();
            let (before, after) = (&bytes[..GUARD * size], &bytes[(GUARD + self.len) * size..]);
            assert!(before.iter().chain(after).all(|byte| *byte == 0xff), "{what}: wrote outside of the array");
            self.array().to_f32().unwrap()
        };
        let (first, second) = (once(), once());
        let bits = |v: &[f32]| v.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        assert!(!same || bits(&first) == bits(&second), "{what}: other bits on a second run");
        first
    }
}

/// A workspace that can be filled with invalid values before a pass.
pub struct Poisoned(Buffer<u8>);

impl Poisoned {
    pub fn new(device: &CudaDevice, bytes: u64) -> Self {
        Self(device.zeros(bytes as usize).unwrap())
    }

    pub fn workspace(&self) -> Workspace {
        Workspace::from_slice(self.0.range(..))
    }
}

pub struct Bench<'a> {
    pub device: &'a CudaDevice,
    pub gemm: Gemm,
    pub stream: Stream,
}

impl<'a> Bench<'a> {
    pub fn new(device: &'a CudaDevice) -> Self {
        Self { device, gemm: Gemm::new(device), stream: device.stream().unwrap() }
    }

    /// An array with NaN around it.
    pub fn input(&self, values: &[f32], dtype: Dtype) -> DeviceArray {
        let guard = [f32::NAN; GUARD];
        // Guards are whole vectors, since compute-sanitizer assumes that a cp.async which reads fewer bytes reads all of them.
        let values = [&guard[..], values, &guard].concat();
        let whole: DeviceArray = match dtype {
            Dtype::F16 => (&self.buffer(&values.iter().map(|v| f16::from_f32(*v)).collect::<Vec<_>>())).into(),
            Dtype::Bf16 => (&self.buffer(&values.iter().map(|v| bf16::from_f32(*v)).collect::<Vec<_>>())).into(),
            _ => (&self.buffer(&values)).into(),
        };
        whole.range(GUARD..values.len() - GUARD)
    }

    pub fn buffer<T: warpbook_device::Element>(&self, values: &[T]) -> Buffer<T> {
        self.device.buffer_from(values).unwrap()
    }
}

pub fn random(n: usize, stream: u32, dtype: Dtype) -> Vec<f32> {
    (0..n as u64).map(|i| rounded(gaussian(23, i, stream), dtype)).collect()
}
