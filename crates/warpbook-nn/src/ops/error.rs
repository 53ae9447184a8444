use warpbook_device::Slice;
use warpbook_gemm::DeviceArray;
use warpbook_gemm::cpu::GemmError;
use warpbook_record::Dtype;

/// The reason why an operation cannot be computed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpError {
    /// A size is zero.
    #[error("{op}: {name} must be at least 1; it is 0.")]
    Zero {
        /// Name of the operation.
        op: &'static str,
        /// Name of the size.
        name: &'static str,
    },
    /// A slice does not have the length of its shape.
    #[error("{op}: {name} has the shape {shape}, so it takes {needed} elements; the slice has {len}.")]
    Length {
        /// Name of the operation.
        op: &'static str,
        /// Name of the slice.
        name: &'static str,
        /// Shape of the slice, such as `[2][3]`.
        shape: String,
        /// Number of elements that the shape has.
        needed: usize,
        /// Number of elements that the slice has.
        len: usize,
    },
    /// A window is larger than the image.
    #[error(
        "{op}: a window of {window} does not fit into a {side} of {size} padded by {padding} at each end. Use a smaller window or more padding."
    )]
    Window {
        /// Name of the operation.
        op: &'static str,
        /// Side of the image: "height" or "width".
        side: &'static str,
        /// Elements of the window along this side.
        window: usize,
        /// Elements of the image along this side.
        size: usize,
        /// Elements added at each end.
        padding: usize,
    },
    /// A setting is out of range.
    #[error("{op}: {name} is {value}; it must be {allowed}.")]
    Value {
        /// Name of the operation.
        op: &'static str,
        /// Name of the setting.
        name: &'static str,
        /// Rejected value.
        value: String,
        /// Permitted values.
        allowed: &'static str,
    },
    /// An index or a label is out of range.
    #[error("{op}: {name} {at} is {value}; there are {count}, so it must be at most {}.", count.saturating_sub(1))]
    Index {
        /// Name of the operation.
        op: &'static str,
        /// Kind of the rejected value: "label" or "index".
        name: &'static str,
        /// Position of the rejected value in the batch.
        at: usize,
        /// Rejected value.
        value: usize,
        /// Number of valid values, which start at 0.
        count: usize,
    },
    /// An array on a device has another type than the kernels were loaded for.
    #[error(
        "{op}: {name} holds {found:?}, but the kernels were loaded for {needed:?}. Load kernels for {found:?}, or convert the array."
    )]
    Type {
        /// Name of the operation.
        op: &'static str,
        /// Name of the array.
        name: &'static str,
        /// Type of the array's elements.
        found: Dtype,
        /// Type that the kernels were loaded for.
        needed: Dtype,
    },
    /// The matrix product reports an error.
    #[error(transparent)]
    Gemm(#[from] GemmError),
}

/// The result of an operation.
pub type Result<T> = std::result::Result<T, OpError>;

/// Wraps the error for functions that queue kernels.
impl From<OpError> for warpbook_device::Error {
    fn from(error: OpError) -> Self {
        let text = error.to_string();
        let text = text.trim_end_matches('.');
        let (what, why) = text.split_once(' ').unwrap_or((text, ""));
        Self::Unsupported { what: what.to_owned(), why: why.to_owned() }
    }
}

/// Returns the number of elements of an array of this shape; `usize::MAX`, a length that no slice has, on overflow.
pub(crate) fn elements(shape: &[usize]) -> usize {
    shape.iter().fold(1, |product, size| product.saturating_mul(*size))
}

/// The checks of one operation; errors contain its name.
#[derive(Clone, Copy)]
pub(crate) struct Check(pub &'static str);

impl Check {
    /// Checks that all sizes are at least 1.
    ///
    /// # Errors
    /// If a size is 0.
    pub fn positive(self, sizes: &[(&'static str, usize)]) -> Result<()> {
        match sizes.iter().find(|(_, size)| *size == 0) {
            Some((name, _)) => Err(OpError::Zero { op: self.0, name }),
            None => Ok(()),
        }
    }

    /// Checks that every slice has exactly the elements of its shape.
    ///
    /// # Errors
    /// If a slice has another length than its shape.
    pub fn lengths(self, slices: &[(&'static str, usize, &[usize])]) -> Result<()> {
        let wrong = slices.iter().find(|(_, len, shape)| *len != elements(shape));
        wrong.map_or(Ok(()), |(name, len, shape)| {
            let text = shape.iter().map(|size| format!("[{size}]")).collect();
            Err(OpError::Length { op: self.0, name, shape: text, needed: elements(shape), len: *len })
        })
    }

    /// Checks that every array on a device has the type that the kernels were loaded for, and exactly the elements of its shape.
    ///
    /// # Errors
    /// If an array has another type, or another length than its shape.
    pub fn arrays(self, dtype: Dtype, arrays: &[(&'static str, &DeviceArray, &[usize])]) -> Result<()> {
        for (name, array, shape) in arrays {
            if array.dtype() != dtype {
                return Err(OpError::Type { op: self.0, name, found: array.dtype(), needed: dtype });
            }
            self.lengths(&[(name, array.len(), shape)])?;
        }
        Ok(())
    }

    /// Converts a size to the kernels' 32 bits.
    ///
    /// # Errors
    /// If the size is 2^32 or more.
    pub fn word(self, name: &'static str, value: usize) -> Result<u32> {
        u32::try_from(value).map_err(|_| OpError::Value {
            op: self.0,
            name,
            value: value.to_string(),
            allowed: "below 2^32 on a GPU",
        })
    }

    /// Checks that a setting is in its range.
    ///
    /// # Errors
    /// If `holds` is false.
    pub fn value(
        self,
        name: &'static str,
        value: impl std::fmt::Display,
        holds: bool,
        allowed: &'static str,
    ) -> Result<()> {
        if holds { Ok(()) } else { Err(OpError::Value { op: self.0, name, value: value.to_string(), allowed }) }
    }
}

/// Checks that a kernel's scalar on the device has one element.
pub(crate) fn one<T>(check: Check, name: &'static str, slice: Option<&Slice<T>>) -> Result<()> {
    slice.map_or(Ok(()), |slice| check.lengths(&[(name, slice.len(), &[1])]))
}
