//! Arenas: single allocations that are divided into arrays.

pub(crate) mod plan;

use crate::memory::allocation::{ALIGNMENT, Allocation};
use crate::memory::arena::plan::ArenaLayout;
use crate::{CudaDevice, Element, Error, Result, Slice};
use std::sync::{Arc, Mutex, PoisonError};

/// A single allocation of device memory that is divided into arrays, so that a training step need not allocate anything.
///
/// Slices are aligned to 256 bytes and initially zero. The memory is freed once the arena and all of its slices have been dropped.
pub struct Arena {
    memory: Arc<Allocation>,
    room: Mutex<Room>,
    layout: ArenaLayout,
}

impl std::fmt::Debug for Arena {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Arena({} of {} bytes used)", self.used(), self.bytes())
    }
}

impl Arena {
    /// Returns an arena of `bytes` bytes, to be divided by [`Arena::slice`].
    ///
    /// # Errors
    /// Returns an error if the arena does not fit into the free memory, which is checked before anything is allocated.
    pub fn new(device: &CudaDevice, bytes: usize) -> Result<Self> {
        let memory = Allocation::zeros(device, bytes, format!("An arena of {bytes} bytes"))?;
        let room = Mutex::new(Room { bytes, used: 0 });
        Ok(Self { memory, room, layout: ArenaLayout::default() })
    }

    /// Returns an arena of the plan's peak size, to be accessed through [`Arena::planned`]; no memory is left for [`Arena::slice`].
    ///
    /// # Errors
    /// The errors of [`Arena::new`].
    pub fn with_layout(device: &CudaDevice, layout: ArenaLayout) -> Result<Self> {
        let arena = Self::new(device, layout.peak_bytes())?;
        arena.room.lock().unwrap_or_else(PoisonError::into_inner).used = layout.peak_bytes();
        Ok(Self { layout, ..arena })
    }

    /// Returns the next `len` elements of the arena as a slice.
    ///
    /// # Errors
    /// [`Error::ArenaFull`], which states the requested and the remaining bytes.
    pub fn slice<T: Element>(&self, len: usize) -> Result<Slice<T>> {
        let mut room = self.room.lock().unwrap_or_else(PoisonError::into_inner);
        let offset = room.take(len.saturating_mul(size_of::<T>())).map_err(|(asked, left)| Error::ArenaFull {
            what: format!("{len} {}", std::any::type_name::<T>()),
            asked,
            left,
            total: room.bytes,
        })?;
        Ok(Slice::new(self.memory.clone(), offset, len))
    }

    /// Returns the array with this name in the arena's plan, with as many elements as fit into its bytes. Arrays that are never in use at the
    /// same time may share memory, so an array's contents are undefined when its first use begins.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the plan has no array of this name.
    pub fn planned<T: Element>(&self, name: &str) -> Result<Slice<T>> {
        let block = self.layout.get(name).ok_or_else(|| {
            let names: Vec<&str> = self.layout.blocks().iter().map(|b| &*b.name).collect();
            let why = match &*names {
                [] => "was made without a plan; use Arena::with_layout".into(),
                names => format!("has no block `{name}` in its plan; there are {}", names.join(", ")),
            };
            Error::Unsupported { what: "The arena".into(), why }
        })?;
        Ok(Slice::new(self.memory.clone(), block.offset, block.bytes / size_of::<T>().max(1)))
    }

    /// Returns the plan of the arena; empty if it was created without one.
    #[must_use]
    pub fn layout(&self) -> &ArenaLayout {
        &self.layout
    }

    /// Returns the size of the arena in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.memory.bytes()
    }

    /// Returns the number of bytes in all slices, including the padding between them.
    #[must_use]
    pub fn used(&self) -> usize {
        self.room.lock().unwrap_or_else(PoisonError::into_inner).used
    }

    /// Returns the size in bytes of the largest slice that still fits.
    #[must_use]
    pub fn left(&self) -> usize {
        self.room.lock().unwrap_or_else(PoisonError::into_inner).left()
    }
}

/// The size of an arena, and how much of it is used.
#[derive(Debug)]
struct Room {
    bytes: usize,
    used: usize,
}

impl Room {
    fn left(&self) -> usize {
        self.bytes.saturating_sub(self.used.next_multiple_of(ALIGNMENT))
    }

    /// Returns the offset of the next `bytes` bytes; the error is the requested and the remaining bytes.
    fn take(&mut self, bytes: usize) -> Result<usize, (usize, usize)> {
        let left = self.left();
        if bytes > left {
            return Err((bytes, left));
        }
        // An empty slice fits even if no bytes are left.
        let offset = self.used.next_multiple_of(ALIGNMENT).min(self.bytes / ALIGNMENT * ALIGNMENT);
        self.used = self.used.max(offset + bytes);
        Ok(offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_aligned_and_do_not_overlap() {
        let mut room = Room { bytes: 1000, used: 0 };
        assert_eq!(room.take(1), Ok(0));
        assert_eq!((room.used, room.left()), (1, 744));
        assert_eq!(room.take(300), Ok(256));
        assert_eq!(room.left(), 232);
        assert_eq!(room.take(233), Err((233, 232)));
        assert_eq!(room.take(usize::MAX), Err((usize::MAX, 232)));
        assert_eq!(room.take(232), Ok(768));
        assert_eq!((room.used, room.left()), (1000, 0));
        // An empty slice always has an offset inside the arena.
        assert_eq!(room.take(0), Ok(768));
        assert_eq!(room.take(1), Err((1, 0)));
        assert_eq!(Room { bytes: 0, used: 0 }.take(0), Ok(0));
    }

    #[test]
    fn a_full_arena_says_what_was_asked_for_and_what_is_left() {
        let error = Error::ArenaFull { what: "1000 f32".into(), asked: 4000, left: 232, total: 1 << 20 };
        let words = error.to_string();
        for part in ["1000 f32", "4000 bytes", "232 of the arena's 1048576 bytes", "larger"] {
            assert!(words.contains(part), "{part}: {words}");
        }
    }
}
