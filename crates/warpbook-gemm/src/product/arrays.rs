//! The arrays that a product on a device reads and writes.

use crate::product::storage::Storage;
use crate::product::{ArraySpec, ArraySpecs};
use crate::{Malformed, Plan};
use std::ops::Range;
use warpbook_device::{Buffer, CudaDevice, DevicePtr, Element, Result, Slice};
use warpbook_record::Dtype;

/// An element of a matrix: f32, f16 or bf16.
pub trait MatrixElement: Element {
    /// Type of the element; products in `Tf32` use f32 elements.
    const DTYPE: Dtype;
}
impl MatrixElement for f32 {
    const DTYPE: Dtype = Dtype::F32;
}
impl MatrixElement for half::f16 {
    const DTYPE: Dtype = Dtype::F16;
}
impl MatrixElement for half::bf16 {
    const DTYPE: Dtype = Dtype::Bf16;
}

/// Addresses of a product's arrays on the device. Arrays that the product does not use are not accessed, and may be null.
#[derive(Debug, Clone, Copy)]
pub struct Arrays {
    /// A in its stored layout.
    pub a: DevicePtr,
    /// B in its stored layout.
    pub b: DevicePtr,
    /// Address of C.
    pub c: DevicePtr,
    /// Bias f32 `[n]`, for an epilogue with a bias.
    pub bias: DevicePtr,
    /// Mask with the shape, type and leading dimension of C, for an epilogue with a mask.
    pub mask: DevicePtr,
    /// Bias gradient f32 `[n]`, for a product with one.
    pub bias_gradient: DevicePtr,
    /// Workspace of at least [`Plan::workspace_bytes`], at a multiple of [`Workspace::ALIGNMENT`] bytes.
    pub workspace: DevicePtr,
}

impl Arrays {
    /// Creates the arrays of a product that needs only A, B and C.
    #[must_use]
    pub fn new(a: DevicePtr, b: DevicePtr, c: DevicePtr) -> Self {
        let null = DevicePtr::NULL;
        Self { a, b, c, bias: null, mask: null, bias_gradient: null, workspace: null }
    }
}

/// An array on a device with its type and length: a slice of f32, f16 or bf16. It co-owns the memory.
#[derive(Debug, Clone)]
pub struct DeviceArray {
    bytes: Slice<u8>,
    dtype: Dtype,
}

impl<T: MatrixElement> From<&Slice<T>> for DeviceArray {
    fn from(slice: &Slice<T>) -> Self {
        Self { bytes: slice.cast(), dtype: T::DTYPE }
    }
}

impl<T: MatrixElement> From<&Buffer<T>> for DeviceArray {
    fn from(buffer: &Buffer<T>) -> Self {
        (&**buffer).into()
    }
}

impl From<&Storage> for DeviceArray {
    fn from(storage: &Storage) -> Self {
        match storage {
            Storage::F32(b) => b.into(),
            Storage::F16(b) => b.into(),
            Storage::Bf16(b) => b.into(),
        }
    }
}

impl DeviceArray {
    /// Returns a range of the array's elements.
    ///
    /// # Panics
    /// If the range ends past the end of the array.
    #[must_use]
    pub fn range(&self, range: Range<usize>) -> Self {
        let size = self.dtype.bytes() as usize;
        Self { bytes: self.bytes.range(range.start * size..range.end * size), dtype: self.dtype }
    }

    /// Returns the address of the first element.
    #[must_use]
    pub fn address(&self) -> DevicePtr {
        self.bytes.at(0)
    }

    /// Returns the type of the elements.
    #[must_use]
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// Returns the number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len() / self.dtype.bytes() as usize
    }

    /// Returns true if there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the values as f32. It does not wait for streams.
    ///
    /// # Errors
    /// If the driver reports an error.
    pub fn to_f32(&self) -> Result<Vec<f32>> {
        Ok(match self.dtype {
            Dtype::F16 => self.bytes.cast::<half::f16>().to_vec()?.iter().map(|v| v.to_f32()).collect(),
            Dtype::Bf16 => self.bytes.cast::<half::bf16>().to_vec()?.iter().map(|v| v.to_f32()).collect(),
            _ => self.bytes.cast::<f32>().to_vec()?,
        })
    }

    /// Copies values to the array, rounded to its type.
    ///
    /// # Errors
    /// If the driver reports an error.
    ///
    /// # Panics
    /// If the number of values differs from the number of elements.
    pub fn write_f32(&self, values: &[f32]) -> Result<()> {
        match self.dtype {
            Dtype::F16 => {
                let halves: Vec<half::f16> = values.iter().map(|v| half::f16::from_f32(*v)).collect();
                self.bytes.cast().write(&halves)
            }
            Dtype::Bf16 => {
                let halves: Vec<half::bf16> = values.iter().map(|v| half::bf16::from_f32(*v)).collect();
                self.bytes.cast().write(&halves)
            }
            _ => self.bytes.cast::<f32>().write(values),
        }
    }

    /// Returns the bytes, as an argument of a kernel or a library that keeps the memory alive.
    #[must_use]
    pub fn bytes(&self) -> &Slice<u8> {
        &self.bytes
    }

    /// Interprets bytes as elements of a type that is stored as f32, f16 or bf16.
    ///
    /// # Panics
    /// If the bytes are not a whole number of elements.
    pub fn of_bytes(bytes: &Slice<u8>, dtype: Dtype) -> Self {
        match dtype {
            Dtype::F16 => (&bytes.cast::<half::f16>()).into(),
            Dtype::Bf16 => (&bytes.cast::<half::bf16>()).into(),
            _ => (&bytes.cast::<f32>()).into(),
        }
    }

    pub(crate) fn spec(&self) -> ArraySpec {
        ArraySpec { dtype: self.dtype, len: self.len() }
    }
}

/// Arrays that an epilogue reads.
#[derive(Debug, Clone, Default)]
pub struct EpilogueInputs {
    /// Bias f32 `[n]`.
    pub bias: Option<DeviceArray>,
    /// Mask with the shape, type and leading dimension of C.
    pub mask: Option<DeviceArray>,
}

/// All arrays of a product on a device.
#[derive(Debug, Clone)]
pub struct DeviceArrays {
    /// A in its stored layout.
    pub a: DeviceArray,
    /// B in its stored layout.
    pub b: DeviceArray,
    /// C, which is written.
    pub c: DeviceArray,
    /// Inputs of the epilogue.
    pub epilogue: EpilogueInputs,
    /// Bias gradient f32 `[n]`, which is written, for a product with one.
    pub bias_gradient: Option<DeviceArray>,
}

impl DeviceArrays {
    /// Creates the arrays of a product that needs only A, B and C.
    pub fn new(a: impl Into<DeviceArray>, b: impl Into<DeviceArray>, c: impl Into<DeviceArray>) -> Self {
        let epilogue = EpilogueInputs::default();
        Self { a: a.into(), b: b.into(), c: c.into(), epilogue, bias_gradient: None }
    }

    /// Adds a bias.
    #[must_use]
    pub fn bias(mut self, bias: impl Into<DeviceArray>) -> Self {
        self.epilogue.bias = Some(bias.into());
        self
    }

    /// Adds a mask.
    #[must_use]
    pub fn mask(mut self, mask: impl Into<DeviceArray>) -> Self {
        self.epilogue.mask = Some(mask.into());
        self
    }

    /// Adds an array for the bias gradient.
    #[must_use]
    pub fn bias_gradient(self, bias_gradient: impl Into<DeviceArray>) -> Self {
        Self { bias_gradient: Some(bias_gradient.into()), ..self }
    }

    pub(crate) fn specs(&self) -> ArraySpecs {
        let spec = |array: &Option<DeviceArray>| array.as_ref().map(DeviceArray::spec);
        ArraySpecs {
            a: self.a.spec(),
            b: self.b.spec(),
            c: self.c.spec(),
            bias: spec(&self.epilogue.bias),
            mask: spec(&self.epilogue.mask),
            bias_gradient: spec(&self.bias_gradient),
        }
    }

    pub(crate) fn addresses(&self, workspace: &Workspace) -> Arrays {
        let or_null = |array: &Option<DeviceArray>| array.as_ref().map_or(DevicePtr::NULL, DeviceArray::address);
        Arrays {
            a: self.a.address(),
            b: self.b.address(),
            c: self.c.address(),
            bias: or_null(&self.epilogue.bias),
            mask: or_null(&self.epilogue.mask),
            bias_gradient: or_null(&self.bias_gradient),
            workspace: workspace.0.at(0),
        }
    }
}

/// Device memory for a product's intermediate results: copies of its operands, and partial sums.
///
/// Products that may run at the same time each need their own workspace: create one for each stream, as large as the largest plan launched there needs, or one
/// for each plan. A clone shares the same memory.
#[derive(Debug, Clone)]
pub struct Workspace(Slice<u8>);

impl Workspace {
    /// Alignment of a workspace in bytes.
    pub const ALIGNMENT: u64 = 256;

    /// Returns a workspace of `bytes` bytes.
    ///
    /// # Errors
    /// If the workspace does not fit into device memory.
    pub fn new(device: &CudaDevice, bytes: u64) -> Result<Self> {
        Ok(Self(device.zeros(usize::try_from(bytes).unwrap_or(usize::MAX))?.range(..)))
    }

    /// Returns a workspace in existing memory, such as a slice of an arena.
    #[must_use]
    pub fn from_slice(slice: Slice<u8>) -> Self {
        Self(slice)
    }

    /// Returns a workspace for plans that are launched one after another on a stream.
    ///
    /// # Errors
    /// If the workspace does not fit into device memory.
    pub fn for_plans<'p>(device: &CudaDevice, plans: impl IntoIterator<Item = &'p Plan>) -> Result<Self> {
        Self::new(device, plans.into_iter().map(Plan::workspace_bytes).max().unwrap_or(0))
    }

    /// Returns the size of the workspace in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.0.bytes() as u64
    }

    /// Returns the whole workspace as a slice of bytes, as a library expects it.
    #[must_use]
    pub fn slice(&self) -> &Slice<u8> {
        &self.0
    }

    /// Returns `bytes` bytes of the workspace, starting at `offset`.
    ///
    /// # Panics
    /// If these bytes end past the end of the workspace.
    pub fn part(&self, offset: u64, bytes: u64) -> Slice<u8> {
        let at = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        self.0.range(at(offset)..at(offset.saturating_add(bytes)))
    }

    /// Returns the rest of the workspace after an offset in bytes.
    pub fn after(&self, offset: u64) -> Self {
        Self(self.part(offset, self.bytes().saturating_sub(offset)))
    }

    /// Checks that the workspace has room for this many bytes.
    ///
    /// # Errors
    /// If the workspace is too small, or not aligned.
    pub fn check(&self, needed: u64) -> Result<(), Malformed> {
        if self.bytes() < needed {
            return Err(Malformed(format!(
                "The workspace has {} bytes, but the plan needs {needed}: create it with Workspace::for_plans.",
                self.bytes()
            )));
        }
        if needed > 0 && !self.0.at(0).is_aligned(Self::ALIGNMENT) {
            return Err(Malformed(format!("The workspace is not aligned to {} bytes.", Self::ALIGNMENT)));
        }
        Ok(())
    }
}
