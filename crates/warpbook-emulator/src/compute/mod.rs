//! Arithmetic of instructions on the bits of their operands, lane by lane.
//!
//! Registers are 64 bits wide in the emulator: narrower values are extended with zeros. [`all`] is the table of all supported opcodes.

mod compare;
mod convert;
mod floats;
mod half;
mod integers;

pub(crate) use compare::{Combine, Compare, combination, comparison};
pub(crate) use convert::Conversion;
pub(crate) use floats::{add_single, add_single_flushed};
pub(crate) use half::{add_half, add_halves};
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// Number of lanes in a warp.
pub(crate) const LANES: usize = 32;
/// One value for each lane.
pub(crate) type Lanes = [u64; LANES];

/// A function of up to four operands that computes all lanes. It writes the result to the first parameter.
pub(crate) type Apply = fn(&mut Lanes, &Lanes, &Lanes, &Lanes, &Lanes);

/// The computation of an opcode: a plain function or a conversion.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Compute {
    /// A function with its number of operands.
    Plain(usize, Apply),
    Convert(Conversion),
}

impl Compute {
    /// Returns the number of operands.
    pub(crate) fn operands(self) -> usize {
        match self {
            Self::Plain(operands, _) => operands,
            Self::Convert(conversion) => 1 + usize::from(conversion.is_pair()),
        }
    }

    /// Computes all lanes from the operands' rows, whose indices are in `from`. Unused operands must have a valid index too.
    #[inline]
    pub(crate) fn apply(self, into: &mut Lanes, rows: &[Lanes], from: &[u32; 4]) {
        let [a, b, c, d] = from.map(|row| &rows[row as usize]);
        match self {
            Self::Plain(_, apply) => apply(into, a, b, c, d),
            // The first operand becomes the upper half of the result.
            Self::Convert(conversion) if conversion.is_pair() => {
                each(into, |lane| conversion.apply(a[lane]) << 16 | conversion.apply(b[lane]));
            }
            Self::Convert(conversion) => each(into, |lane| conversion.apply(a[lane])),
        }
    }
}

/// Sets every lane to the value that a function returns for it.
#[inline(always)]
pub(crate) fn each(into: &mut Lanes, value: impl Fn(usize) -> u64) {
    into.iter_mut().enumerate().for_each(|(lane, into)| *into = value(lane));
}

/// Returns a mask of the lowest `bits` bits.
pub(crate) fn ones(bits: u64) -> u64 {
    if bits >= 64 { !0 } else { (1 << bits) - 1 }
}

/// Returns a mask of the lowest one to eight bytes.
pub(crate) fn mask(bytes: u8) -> u64 {
    u64::MAX >> (64 - 8 * bytes)
}

/// Sign-extends an integer of one to eight bytes.
pub(crate) fn extend(bits: u64, bytes: u8) -> i64 {
    let unused = 64 - 8 * bytes;
    (bits << unused).cast_signed() >> unused
}

/// A number that is stored in the bits of a lane.
pub(crate) trait Word: Copy {
    /// Reads a number from the lowest bits.
    fn take(bits: u64) -> Self;
    /// Returns the number's bits, extended with zeros.
    fn put(self) -> u64;
}

macro_rules! words {
    ($($signed:ident $unsigned:ident),*) => {$(
        impl Word for $unsigned {
            #[allow(clippy::cast_possible_truncation)]
            fn take(bits: u64) -> Self {
                bits as $unsigned
            }
            fn put(self) -> u64 {
                u64::from(self)
            }
        }
        impl Word for $signed {
            fn take(bits: u64) -> Self {
                $unsigned::take(bits).cast_signed()
            }
            fn put(self) -> u64 {
                self.cast_unsigned().put()
            }
        }
    )*};
}
words!(i8 u8, i16 u16, i32 u32, i64 u64);

impl Word for f32 {
    fn take(bits: u64) -> Self {
        Self::from_bits(u32::take(bits))
    }
    fn put(self) -> u64 {
        if self.is_nan() { 0x7fff_ffff } else { self.to_bits().into() }
    }
}

impl Word for f64 {
    fn take(bits: u64) -> Self {
        Self::from_bits(bits)
    }
    fn put(self) -> u64 {
        self.to_bits()
    }
}

/// Adds rows to the table, each with one opcode or more. Converts functions of numbers to functions of lanes.
macro_rules! rows {
    ($rows:ident, $type:ident, $suffix:literal; $($($name:literal)+ |$($x:ident),+| $value:expr;)*) => {$(
        let compute = rows!(@ $type |$($x),+| $value);
        $rows.extend([$(concat!($name, $suffix)),+].map(|name| (name, compute)));
    )*};
    (@ $type:ident |$($x:ident),+| $value:expr) => {
        Compute::Plain([$(stringify!($x)),+].len(), |into, a, b, c, d| each(into, |lane| {
            let [$($x,)+ ..] = [a[lane], b[lane], c[lane], d[lane]].map(<$type as Word>::take);
            Word::put($value)
        }))
    };
}
pub(crate) use rows;

/// A row of the table: an opcode with its modifiers, and its function.
pub(crate) type OpcodeRow = (&'static str, Compute);

/// Returns the table that maps each opcode to its function.
fn all() -> &'static BTreeMap<&'static str, Compute> {
    static ALL: OnceLock<BTreeMap<&'static str, Compute>> = OnceLock::new();
    ALL.get_or_init(|| {
        let mut rows = Vec::new();
        integers::add_rows(&mut rows);
        floats::add_rows(&mut rows);
        half::add_rows(&mut rows);
        rows.into_iter().collect()
    })
}

/// Returns the function of an opcode; `None` if it is not supported.
pub(crate) fn find(opcode: &str) -> Option<Compute> {
    all().get(opcode).copied().or_else(|| Conversion::parse(opcode).map(Compute::Convert))
}

/// Returns all opcodes of arithmetic and logic, with their modifiers.
pub(crate) fn opcodes() -> impl Iterator<Item = &'static str> {
    all().keys().copied()
}
