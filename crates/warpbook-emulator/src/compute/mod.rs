//! What an instruction makes of its operands' bits, one lane at a time.
//!
//! A register is 64 bits wide here: a narrower value is extended with zeros. [`all`] is the one table of what is supported.

mod compare;
mod convert;
mod floats;
mod half;
mod integers;

pub(crate) use compare::{combination, comparison};
pub(crate) use convert::Conversion;
pub(crate) use floats::add_single;
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// A function of a lane's operands.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Compute {
    One(fn(u64) -> u64),
    Two(fn(u64, u64) -> u64),
    Three(fn(u64, u64, u64) -> u64),
    Four(fn(u64, u64, u64, u64) -> u64),
    Convert(Conversion),
}

impl Compute {
    /// How many operands it takes.
    pub(crate) fn operands(self) -> usize {
        match self {
            Self::One(_) | Self::Convert(_) => 1,
            Self::Two(_) => 2,
            Self::Three(_) => 3,
            Self::Four(_) => 4,
        }
    }
}

/// A number as a lane's bits.
pub(crate) trait Word: Copy {
    /// The number that the lowest bits are.
    fn take(bits: u64) -> Self;
    /// The number's bits, extended with zeros.
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

/// Rows of the table: functions of numbers, as functions of bits.
macro_rules! rows {
    ($rows:ident, $type:ident, $suffix:literal; $($name:literal |$($x:ident),+| $value:expr;)*) => {$(
        $rows.push((concat!($name, $suffix), rows!(@ $type |$($x),+| $value)));
    )*};
    (@ $t:ident |$a:ident| $value:expr) => {
        Compute::One(|$a| { let $a = <$t as Word>::take($a); Word::put($value) })
    };
    (@ $t:ident |$a:ident, $b:ident| $value:expr) => {
        Compute::Two(|$a, $b| { let ($a, $b) = (<$t as Word>::take($a), <$t as Word>::take($b)); Word::put($value) })
    };
    (@ $t:ident |$a:ident, $b:ident, $c:ident| $value:expr) => {
        Compute::Three(|$a, $b, $c| {
            let ($a, $b, $c) = (<$t as Word>::take($a), <$t as Word>::take($b), <$t as Word>::take($c));
            Word::put($value)
        })
    };
    (@ $t:ident |$a:ident, $b:ident, $c:ident, $d:ident| $value:expr) => {
        Compute::Four(|$a, $b, $c, $d| {
            let ($a, $b, $c, $d) =
                (<$t as Word>::take($a), <$t as Word>::take($b), <$t as Word>::take($c), <$t as Word>::take($d));
            Word::put($value)
        })
    };
}
pub(crate) use rows;

/// A row: the opcode with its modifiers, and what it computes.
pub(crate) type Row = (&'static str, Compute);

/// The table by opcode.
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

/// What an opcode computes, if it is supported.
pub(crate) fn find(opcode: &str) -> Option<Compute> {
    all().get(opcode).copied().or_else(|| Conversion::parse(opcode).map(Compute::Convert))
}

/// Opcodes of arithmetic and logic that the interpreter supports, sorted; comparisons and conversions are families of their own.
#[must_use]
pub fn supported() -> Vec<&'static str> {
    all().keys().copied().collect()
}
