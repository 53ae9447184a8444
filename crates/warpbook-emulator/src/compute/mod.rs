//! What an instruction makes of its operands' bits, one lane at a time.
//!
//! A register is 64 bits wide here: a narrower value is extended with zeros. [`all`] is the one table of what is supported.

mod compare;
mod convert;
mod floats;
mod half;
mod integers;

pub(crate) use compare::{Combine, Compare, combination, comparison};
pub(crate) use convert::Conversion;
pub(crate) use floats::add_single;
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// Lanes of a warp.
pub(crate) const LANES: usize = 32;
/// A value of each lane.
pub(crate) type Lanes = [u64; LANES];

/// A function of the operands of all lanes; the result comes first.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Compute {
    One(fn(&mut Lanes, &Lanes)),
    Two(fn(&mut Lanes, &Lanes, &Lanes)),
    Three(fn(&mut Lanes, &Lanes, &Lanes, &Lanes)),
    Four(fn(&mut Lanes, &Lanes, &Lanes, &Lanes, &Lanes)),
    Convert(Conversion),
}

impl Compute {
    /// How many operands it takes.
    pub(crate) fn operands(self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Two(_) => 2,
            Self::Three(_) => 3,
            Self::Four(_) => 4,
            Self::Convert(conversion) => 1 + usize::from(conversion.is_pair()),
        }
    }

    /// Computes all lanes from the rows of the operands.
    #[inline]
    pub(crate) fn apply(self, into: &mut Lanes, rows: &[Lanes], from: &[u32; 4]) {
        let row = |i: usize| &rows[from[i] as usize];
        match self {
            Self::One(f) => f(into, row(0)),
            Self::Two(f) => f(into, row(0), row(1)),
            Self::Three(f) => f(into, row(0), row(1), row(2)),
            Self::Four(f) => f(into, row(0), row(1), row(2), row(3)),
            // The first operand becomes the upper half.
            Self::Convert(conversion) if conversion.is_pair() => {
                let (high, low) = (row(0), row(1));
                each(into, |lane| conversion.apply(high[lane]) << 16 | conversion.apply(low[lane]));
            }
            Self::Convert(conversion) => {
                let from = row(0);
                each(into, |lane| conversion.apply(from[lane]));
            }
        }
    }
}

/// Sets every lane.
#[inline(always)]
pub(crate) fn each(into: &mut Lanes, value: impl Fn(usize) -> u64) {
    into.iter_mut().enumerate().for_each(|(lane, into)| *into = value(lane));
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
        Compute::One(|into, a| each(into, |lane| { let $a = <$t as Word>::take(a[lane]); Word::put($value) }))
    };
    (@ $t:ident |$a:ident, $b:ident| $value:expr) => {
        Compute::Two(|into, a, b| each(into, |lane| {
            let ($a, $b) = (<$t as Word>::take(a[lane]), <$t as Word>::take(b[lane]));
            Word::put($value)
        }))
    };
    (@ $t:ident |$a:ident, $b:ident, $c:ident| $value:expr) => {
        Compute::Three(|into, a, b, c| each(into, |lane| {
            let ($a, $b, $c) = (<$t as Word>::take(a[lane]), <$t as Word>::take(b[lane]), <$t as Word>::take(c[lane]));
            Word::put($value)
        }))
    };
    (@ $t:ident |$a:ident, $b:ident, $c:ident, $d:ident| $value:expr) => {
        Compute::Four(|into, a, b, c, d| each(into, |lane| {
            let ($a, $b) = (<$t as Word>::take(a[lane]), <$t as Word>::take(b[lane]));
            let ($c, $d) = (<$t as Word>::take(c[lane]), <$t as Word>::take(d[lane]));
            Word::put($value)
        }))
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

/// Opcodes of arithmetic and logic with their modifiers.
pub(crate) fn opcodes() -> impl Iterator<Item = &'static str> {
    all().keys().copied()
}
