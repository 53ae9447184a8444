//! Words for places: elements of buffers, and lines.

use crate::machine::{Moment, Names, SHARED_WINDOW};
use crate::program::Kernel;

/// The element at a generic address, as a message names it.
pub(super) fn element(address: u64, bytes: u64, moment: &Moment, names: &Names) -> String {
    if address & SHARED_WINDOW != 0 {
        return format!("bytes {} on of shared memory", address ^ SHARED_WINDOW);
    }
    match moment.memory.find(address) {
        Some(buffer) => {
            let name = names.find(buffer.start).unwrap_or("a buffer");
            format!("element {} of {name}", (address - buffer.start) / bytes.max(1))
        }
        None => format!("address {address:#x}"),
    }
}

/// The source line of an instruction, or its line of PTX.
pub(super) fn line(kernel: &Kernel, at: u32) -> String {
    let Some(step) = kernel.steps.get(at as usize) else { return "an unknown line".into() };
    match &step.place {
        Some(place) => format!("line {}", place.line),
        None => format!("line {} of the PTX", step.line),
    }
}
