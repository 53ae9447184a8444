//! Reads each kernel's resource usage from a cubin. A cubin is an ELF file whose section `.nv.info` holds attributes of
//! each entry.
//!
//! The assembler's log has the same numbers and more, but not every NVRTC includes that log in its own.

use object::Endianness;
use object::elf::FileHeader64;
use object::read::elf::{FileHeader, SectionHeader};

/// Attribute for the number of registers per thread.
const REGISTER_COUNT: u8 = 0x2f;
/// Attribute for the size in bytes of a thread's stack frame, where spilled registers are kept.
const FRAME_SIZE: u8 = 0x11;
/// Attribute format in which the value follows the header.
const SIZED: u8 = 0x04;

/// Resource usage of one entry point.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Resources {
    pub(crate) entry: String,
    pub(crate) registers: u32,
    pub(crate) static_shared_bytes: u32,
    pub(crate) frame_bytes: u32,
}

/// Returns the resource usage of each entry; empty if the bytes are not a cubin.
pub(crate) fn resources(cubin: &[u8]) -> Vec<Resources> {
    read(cubin).unwrap_or_default()
}

fn read(cubin: &[u8]) -> Option<Vec<Resources>> {
    let header = FileHeader64::<Endianness>::parse(cubin).ok()?;
    let endian = header.endian().ok()?;
    let sections = header.sections(endian, cubin).ok()?;
    let symbols = sections.symbols(endian, cubin, object::elf::SHT_SYMTAB).ok()?;
    let section = |name: &str| sections.section_by_name(endian, name.as_bytes()).map(|(_, s)| s);
    let mut found: Vec<Resources> = Vec::new();
    for (attribute, symbol, value) in attributes(section(".nv.info")?.data(endian, cubin).ok()?) {
        let Ok(symbol) = symbols.symbol(object::SymbolIndex(symbol as usize)) else { continue };
        let name = String::from_utf8_lossy(symbols.symbol_name(endian, symbol).ok()?).into_owned();
        // Only entry points have a section with this name.
        if section(&format!(".text.{name}")).is_none() {
            continue;
        }
        let at = found.iter().position(|r| r.entry == name).unwrap_or_else(|| {
            let shared = section(&format!(".nv.shared.{name}")).map_or(0, |s| s.sh_size(endian));
            found.push(Resources {
                entry: name.clone(),
                static_shared_bytes: u32::try_from(shared).unwrap_or(u32::MAX),
                ..Resources::default()
            });
            found.len() - 1
        });
        match attribute {
            REGISTER_COUNT => found[at].registers = value,
            FRAME_SIZE => found[at].frame_bytes = value,
            _ => {}
        }
    }
    Some(found)
}

/// Returns the (attribute, symbol, value) triples of `.nv.info`. Each record is a format, an attribute number, a size
/// of 8, and two words.
fn attributes(mut data: &[u8]) -> Vec<(u8, u32, u32)> {
    let word = |b: &[u8]| u32::from_le_bytes([b[0], b[1], b[2], b[3]]);
    let mut found = Vec::new();
    while let Some((head, rest)) = data.split_at_checked(4) {
        // Attributes in other formats store their value in the two bytes of the size.
        let size = if head[0] == SIZED { usize::from(u16::from_le_bytes([head[2], head[3]])) } else { 0 };
        let Some((value, rest)) = rest.split_at_checked(size) else { break };
        if size == 8 {
            found.push((head[1], word(value), word(&value[4..])));
        }
        data = rest;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_cubin_has_no_entries() {
        assert_eq!(resources(b""), []);
        assert_eq!(resources(b"\x7fELF and nothing more"), []);
    }

    #[test]
    fn attributes_of_every_form_are_stepped_over() {
        let data = [&[3u8, 0x1b, 0xff, 0][..], &[4, REGISTER_COUNT, 8, 0, 7, 0, 0, 0, 32, 0, 0, 0], &[4, 9, 99, 0, 1]]
            .concat();
        assert_eq!(attributes(&data), [(REGISTER_COUNT, 7, 32)]);
    }
}
