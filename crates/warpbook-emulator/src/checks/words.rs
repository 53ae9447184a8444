//! Words for places: elements of buffers, and lines.

use crate::machine::{Moment, Names, SHARED_WINDOW};
use crate::program::Kernel;

/// The element at a generic address, as a message names it.
pub(super) fn element(address: u64, bytes: u64, moment: &Moment, names: &Names) -> String {
    if address & SHARED_WINDOW != 0 {
        let offset = address ^ SHARED_WINDOW;
        let dynamic = (moment.kernel.shared_bytes, String::new());
        let all = moment.kernel.shared.iter().chain([&dynamic]);
        let (start, name) = all.take_while(|(start, _)| *start <= offset).last().unwrap_or(&dynamic);
        let element = (offset - start) / bytes.max(1);
        return match plain_name(name) {
            "" => format!("element {element} of dynamic shared memory"),
            name => format!("element {element} of the shared variable `{name}`"),
        };
    }
    match moment.memory.find(address) {
        Some(buffer) => {
            let name = names.find(buffer.start).unwrap_or("a buffer");
            format!("element {} of {name}", (address - buffer.start) / bytes.max(1))
        }
        None => format!("address {address:#x}"),
    }
}

/// The last name in a mangled one, such as `tile` in `_ZZ1kE4tile`.
fn plain_name(mangled: &str) -> &str {
    let Some(rest) = mangled.strip_prefix("_Z") else { return mangled };
    let starts = rest.char_indices().filter(|(_, c)| c.is_ascii_digit()).map(|(at, _)| &rest[at..]);
    let mut names = starts.filter_map(|text| {
        let digits = text.find(|c: char| !c.is_ascii_digit())?;
        text[digits..].get(..text[..digits].parse().ok()?)
    });
    names.next_back().unwrap_or(mangled)
}

/// The source line of an instruction, or its line of PTX.
pub(super) fn line(kernel: &Kernel, at: u32) -> String {
    let Some(step) = kernel.steps.get(at as usize) else { return "an unknown line".into() };
    match &step.place {
        Some(place) => format!("line {}", place.line),
        None => format!("line {} of the PTX", step.line),
    }
}
