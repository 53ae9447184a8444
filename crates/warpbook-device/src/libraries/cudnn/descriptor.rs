//! Descriptors of cuDNN's graph interface. A descriptor is created, given attributes, finalised, and from then on only
//! read.
//!
//! cudnn_graph.h of version 9 defines the kinds, attributes and value types.

use super::library::{Cudnn9, RawDescriptor};
use crate::libraries::loader::{Handle, Status};
use std::ffi::{c_int, c_void};
use std::sync::Arc;

/// A type of attribute values, with the memory layout that the library expects.
pub(super) trait Value: Copy {
    /// Code of the type in `cudnnBackendAttributeType_t`.
    const TYPE: c_int;
}

/// Declares wrappers for the library's enumeration types.
macro_rules! enumerations {
    ($($(#[$about:meta])* $name:ident = $type:literal;)*) => {
        $(
            $(#[$about])*
            #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
            #[repr(transparent)]
            pub(super) struct $name(pub c_int);

            impl Value for $name {
                const TYPE: c_int = $type;
            }
        )*
    };
}

enumerations! {
    /// The type `cudnnDataType_t`.
    DataType = 1;
    /// The type `cudnnConvolutionMode_t`.
    ConvolutionMode = 7;
    /// The type `cudnnBackendHeurMode_t`.
    Heuristics = 8;
    /// The type `cudnnBackendNumericalNote_t`.
    Note = 11;
}

impl Value for i64 {
    const TYPE: c_int = 3;
}

impl Value for f32 {
    const TYPE: c_int = 4;
}

/// An address in device memory.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub(super) struct Address(pub u64);

impl Value for Address {
    const TYPE: c_int = 6;
}

/// A library handle as the value of an attribute.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub(super) struct OfHandle(pub Handle);

impl Value for OfHandle {
    const TYPE: c_int = 0;
}

/// A pointer to another descriptor, as the value of an attribute.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
struct Other(RawDescriptor);

impl Value for Other {
    const TYPE: c_int = 15;
}

/// A descriptor, destroyed with its last owner.
pub(super) struct Descriptor {
    raw: RawDescriptor,
    library: Arc<Cudnn9>,
    /// Other descriptors that this one may point to.
    parts: Vec<Arc<Descriptor>>,
}

// SAFETY: a descriptor is memory that is not tied to a thread.
unsafe impl Send for Descriptor {}
// SAFETY: a descriptor is only read once it has been finalised.
unsafe impl Sync for Descriptor {}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: the descriptor was created by this library and is not used again.
        unsafe { (self.library.calls.unmake)(self.raw) };
    }
}

/// Converts a status into a `Result`.
fn done(status: Status) -> Result<(), Status> {
    if status == 0 { Ok(()) } else { Err(status) }
}

impl Descriptor {
    /// Creates an empty descriptor of the given kind, a `cudnnBackendDescriptorType_t`.
    ///
    /// # Errors
    /// If cuDNN does not know the kind, or memory runs out.
    pub fn new(library: &Arc<Cudnn9>, kind: c_int) -> Result<Self, Status> {
        let mut raw = std::ptr::null_mut();
        // SAFETY: `raw` is live and receives the descriptor.
        done(unsafe { (library.calls.make)(kind, &raw mut raw) })?;
        Ok(Self { raw, library: library.clone(), parts: Vec::new() })
    }

    pub fn raw(&self) -> RawDescriptor {
        self.raw
    }

    /// Sets an attribute to these values.
    ///
    /// # Errors
    /// If cuDNN refuses the attribute or its values.
    pub fn with<T: Value>(self, attribute: c_int, values: &[T]) -> Result<Self, Status> {
        let (len, first) = (values.len() as i64, values.as_ptr().cast::<c_void>());
        // SAFETY: the values have the layout of the attribute's type, and the library copies them before the call returns.
        done(unsafe { (self.library.calls.set)(self.raw, attribute, T::TYPE, len, first) })?;
        Ok(self)
    }

    /// Sets an attribute to another descriptor, which is kept alive.
    ///
    /// # Errors
    /// If cuDNN refuses the attribute or the other descriptor.
    pub fn with_part(mut self, attribute: c_int, part: &Arc<Self>) -> Result<Self, Status> {
        self.parts.push(part.clone());
        self.with(attribute, &[Other(part.raw)])
    }

    /// Finalises the descriptor: the library checks it, and it cannot change afterwards. For a plan, this compiles or
    /// loads kernels.
    ///
    /// # Errors
    /// If cuDNN does not support what is described, or kernels do not compile or load.
    pub fn finalized(self) -> Result<Arc<Self>, Status> {
        // SAFETY: the descriptor is live.
        done(unsafe { (self.library.calls.finalize)(self.raw) })?;
        Ok(Arc::new(self))
    }

    /// Returns the values of an attribute, at most as many as fit into `room`.
    ///
    /// # Errors
    /// If cuDNN refuses to read the attribute.
    pub fn values<T: Value, const N: usize>(&self, attribute: c_int, mut room: [T; N]) -> Result<Vec<T>, Status> {
        let mut there = 0;
        // SAFETY: `room` has space for the requested number of values, which have the layout of the attribute's type.
        done(unsafe {
            let first = room.as_mut_ptr().cast();
            (self.library.calls.get)(self.raw, attribute, T::TYPE, N as i64, &raw mut there, first)
        })?;
        Ok(room[..usize::try_from(there).unwrap_or(0).min(N)].to_vec())
    }

    /// Returns an attribute that has a single value.
    ///
    /// # Errors
    /// See [`Descriptor::values`].
    pub fn value<T: Value>(&self, attribute: c_int, empty: T) -> Result<T, Status> {
        Ok(self.values(attribute, [empty])?.first().copied().unwrap_or(empty))
    }

    /// Returns up to `most` finalised descriptors of the given kind from an attribute.
    ///
    /// # Errors
    /// If cuDNN does not know the kind, or refuses to read the attribute.
    pub fn descriptors(&self, attribute: c_int, kind: c_int, most: usize) -> Result<Vec<Arc<Self>>, Status> {
        let empty: Vec<Self> = (0..most).map(|_| Self::new(&self.library, kind)).collect::<Result<_, _>>()?;
        // The library writes into existing descriptors, so empty ones are passed.
        let mut given: Vec<Other> = empty.iter().map(|d| Other(d.raw)).collect();
        let mut there = 0;
        // SAFETY: `given` contains as many descriptors of the attribute's kind as are requested.
        done(unsafe {
            let first = given.as_mut_ptr().cast();
            (self.library.calls.get)(self.raw, attribute, Other::TYPE, most as i64, &raw mut there, first)
        })?;
        Ok(empty.into_iter().take(usize::try_from(there).unwrap_or(0)).map(Arc::new).collect())
    }
}
