//! Integer arithmetic and logic.

use super::{Compute, OpcodeRow, Word, each, ones, rows};

pub(super) fn add_rows(out: &mut Vec<OpcodeRow>) {
    arithmetic(out);
    wide(out);
    logic(out);
    shifts(out);
    bit_fields(out);
}

/// Adds the table rows of arithmetic. For a division by zero the quotient is all ones and the remainder is the dividend; PTX leaves the results undefined.
fn arithmetic(out: &mut Vec<OpcodeRow>) {
    macro_rules! of_type {
        ($($t:ident $suffix:literal),*) => {$(rows! { out, $t, $suffix;
            "add" |a, b| a.wrapping_add(b);
            "sub" |a, b| a.wrapping_sub(b);
            "mul.lo" |a, b| a.wrapping_mul(b);
            "mad.lo" |a, b, c| a.wrapping_mul(b).wrapping_add(c);
            "div" |a, b| if b == 0 { !0 } else { a.wrapping_div(b) };
            "rem" |a, b| if b == 0 { a } else { a.wrapping_rem(b) };
            "min" |a, b| a.min(b);
            "max" |a, b| a.max(b);
        })*};
    }
    of_type!(u16 ".u16", i16 ".s16", u32 ".u32", i32 ".s32", u64 ".u64", i64 ".s64");
    macro_rules! of_signed {
        ($($t:ident $suffix:literal),*) => {$(rows! { out, $t, $suffix;
            "neg" |a| a.wrapping_neg();
            "abs" |a| a.wrapping_abs();
        })*};
    }
    of_signed!(i16 ".s16", i32 ".s32", i64 ".s64");
    rows! { out, i32, ".s32";
        "add.sat" |a, b| a.saturating_add(b);
        "sub.sat" |a, b| a.saturating_sub(b);
        "sad" |a, b, c| a.abs_diff(b).wrapping_add(c.cast_unsigned());
    }
    rows! { out, u32, ".u32";
        "sad" |a, b, c| a.abs_diff(b).wrapping_add(c);
        "mul24.lo" |a, b| (a & 0xff_ffff).wrapping_mul(b & 0xff_ffff);
        "mad24.lo" |a, b, c| (a & 0xff_ffff).wrapping_mul(b & 0xff_ffff).wrapping_add(c);
    }
    rows! { out, i32, ".s32";
        "mul24.lo" |a, b| (a << 8 >> 8).wrapping_mul(b << 8 >> 8);
        "mad24.lo" |a, b, c| (a << 8 >> 8).wrapping_mul(b << 8 >> 8).wrapping_add(c);
    }
}

/// Adds the table rows of products with twice the width, and of the upper halves of products.
#[allow(clippy::cast_possible_truncation, clippy::cast_lossless)]
fn wide(out: &mut Vec<OpcodeRow>) {
    macro_rules! of_type {
        ($($t:ident $twice:ident $suffix:literal),*) => {$(rows! { out, $t, $suffix;
            "mul.wide" |a, b| a as $twice * b as $twice;
            "mul.hi" |a, b| ((a as $twice * b as $twice) >> $t::BITS) as $t;
            "mad.hi" |a, b, c| (((a as $twice * b as $twice) >> $t::BITS) as $t).wrapping_add(c);
        })*};
    }
    of_type!(u16 u32 ".u16", i16 i32 ".s16", u32 u64 ".u32", i32 i64 ".s32");
    macro_rules! add_wide {
        ($($t:ident $twice:ident $name:literal),*) => {$(
            rows! { out, u64, ""; $name |a, b, c|
                ($t::take(a) as $twice * $t::take(b) as $twice).wrapping_add($twice::take(c)); }
        )*};
    }
    add_wide!(u16 u32 "mad.wide.u16", i16 i32 "mad.wide.s16", u32 u64 "mad.wide.u32", i32 i64 "mad.wide.s32");
    rows! { out, u64, ".u64"; "mul.hi" |a, b| ((u128::from(a) * u128::from(b)) >> 64) as u64; }
    rows! { out, i64, ".s64"; "mul.hi" |a, b| ((i128::from(a) * i128::from(b)) >> 64) as i64; }
}

fn logic(out: &mut Vec<OpcodeRow>) {
    macro_rules! of_type {
        ($($t:ident $suffix:literal),*) => {$(rows! { out, $t, $suffix;
            "and" |a, b| a & b;
            "or" |a, b| a | b;
            "xor" |a, b| a ^ b;
            "not" |a| !a;
            "cnot" |a| $t::from(a == 0);
        })*};
    }
    of_type!(u16 ".b16", u32 ".b32", u64 ".b64");
    rows! { out, u64, ".pred";
        "and" |a, b| a & b;
        "or" |a, b| a | b;
        "xor" |a, b| a ^ b;
        "not" |a| a ^ 1;
    }
    macro_rules! same_bits {
        ($($suffix:literal),*) => {$(rows! { out, u64, $suffix;
            "mov" |a| a;
            "selp" |a, b, p| if p & 1 == 1 { a } else { b };
        })*};
    }
    same_bits!(".b16", ".u16", ".s16", ".b32", ".u32", ".s32", ".f32", ".b64", ".u64", ".s64", ".f64");
    rows! { out, u64, ".pred"; "mov" |a| a; }
}

/// Adds the table rows of shifts. A shift by the operand's width or more fills the result with the sign bit, or with zeros.
fn shifts(out: &mut Vec<OpcodeRow>) {
    macro_rules! shift {
        ($t:ident, $left:literal, $right:literal, $plain:literal) => {
            rows! { out, u64, "";
                $left |a, b| $t::take(a).checked_shl(u32::take(b)).unwrap_or(0);
                $right $plain |a, b| $t::take(a).checked_shr(u32::take(b)).unwrap_or(0);
            }
        };
    }
    shift!(u16, "shl.b16", "shr.u16", "shr.b16");
    shift!(u32, "shl.b32", "shr.u32", "shr.b32");
    shift!(u64, "shl.b64", "shr.u64", "shr.b64");
    macro_rules! signed {
        ($($t:ident $name:literal),*) => {$(
            rows! { out, u64, ""; $name |a, b| $t::take(a) >> u32::take(b).min($t::BITS - 1); }
        )*};
    }
    signed!(i16 "shr.s16", i32 "shr.s32", i64 "shr.s64");
    rows! { out, u32, ".b32";
        "shf.l.wrap" |a, b, c| funnel(a, b, 32 - (c & 31));
        "shf.l.clamp" |a, b, c| funnel(a, b, 32 - c.min(32));
        "shf.r.wrap" |a, b, c| funnel(a, b, c & 31);
        "shf.r.clamp" |a, b, c| funnel(a, b, c.min(32));
    }
}

/// Returns the lower 32 bits of `high:low` shifted right by up to 32 bits.
fn funnel(low: u32, high: u32, by: u32) -> u32 {
    u32::take((u64::from(high) << 32 | u64::from(low)) >> by)
}

fn bit_fields(out: &mut Vec<OpcodeRow>) {
    macro_rules! of_type {
        ($($t:ident $suffix:literal),*) => {$(rows! { out, $t, $suffix;
            "popc" |a| a.count_ones();
            "clz" |a| a.leading_zeros();
            "brev" |a| a.reverse_bits();
        })*};
    }
    of_type!(u32 ".b32", u64 ".b64");
    macro_rules! extract {
        ($($name:literal $width:literal $signed:literal),*) => {$(
            rows! { out, u64, ""; $name |a, b, c| extract(a, b, c, $width, $signed); }
        )*};
    }
    extract!("bfe.u32" 32 false, "bfe.s32" 32 true, "bfe.u64" 64 false, "bfe.s64" 64 true);
    rows! { out, u64, "";
        "bfi.b32" |a, b, c, d| insert(a, b, c, d, 32);
        "bfi.b64" |a, b, c, d| insert(a, b, c, d, 64);
        "bfind.u32" |a| u32::take(a).checked_ilog2().unwrap_or(!0);
        "bfind.u64" |a| a.checked_ilog2().unwrap_or(!0);
        "bfind.s32" |a| (u32::take(a) ^ (i32::take(a) >> 31).cast_unsigned()).checked_ilog2().unwrap_or(!0);
        "bfind.s64" |a| (a ^ (i64::take(a) >> 63).cast_unsigned()).checked_ilog2().unwrap_or(!0);
        "bfind.shiftamt.u32" |a| u32::take(a).checked_ilog2().map_or(!0, |at| 31 - at);
        "bfind.shiftamt.u64" |a| a.checked_ilog2().map_or(!0, |at| 63 - at);
    }
    rows! { out, u32, ".b32";
        "prmt" |a, b, c| permute(a, b, c);
        "lop3" |a, b, c, d| look_up(a, b, c, d);
    }
}

/// Extracts `c` bits of `a`, beginning at bit `b`. Missing bits become copies of the sign bit, or zeros.
fn extract(a: u64, b: u64, c: u64, width: u64, is_signed: bool) -> u64 {
    let (position, length) = (b & 0xff, c & 0xff);
    if length == 0 {
        return 0;
    }
    let sign = is_signed && a >> (position + length - 1).min(width - 1) & 1 == 1;
    let there = ones(length.min(width.saturating_sub(position)));
    let bits = if position < width { a >> position & there } else { 0 };
    bits | if sign { ones(width) & !there } else { 0 }
}

/// Returns `b` with the lowest `d` bits of `a` inserted at bit `c`.
fn insert(a: u64, b: u64, c: u64, d: u64, width: u64) -> u64 {
    let (position, length) = (c & 0xff, d & 0xff);
    if position >= width {
        return b;
    }
    let there = ones(length.min(width - position)) << position;
    b & !there | a << position & there
}

/// Selects four of the eight bytes of `b:a`, one for each nibble of `c`. The highest bit of a nibble replicates the byte's sign bit.
fn permute(a: u32, b: u32, c: u32) -> u32 {
    let bytes = u64::from(b) << 32 | u64::from(a);
    (0..4).fold(0, |all, i| {
        let nibble = c >> (4 * i) & 0xf;
        let byte = u8::take(bytes >> (8 * (nibble & 7)));
        let chosen = if nibble & 8 == 0 { byte } else { (byte.cast_signed() >> 7).cast_unsigned() };
        all | u32::from(chosen) << (8 * i)
    })
}

/// Applies a logic function of three words that is given as a truth table.
fn look_up(a: u32, b: u32, c: u32, table: u32) -> u32 {
    (0..8).filter(|i| table >> i & 1 == 1).fold(0, |all, i| {
        let pick = |word: u32, bit: u32| if i >> bit & 1 == 1 { word } else { !word };
        all | pick(a, 2) & pick(b, 1) & pick(c, 0)
    })
}

#[cfg(test)]
mod tests {
    use super::super::{LANES, Lanes, find};

    fn value(opcode: &str, operands: &[u64]) -> u64 {
        let compute = find(opcode).unwrap_or_else(|| panic!("{opcode}"));
        let rows: Vec<Lanes> = operands.iter().map(|value| [*value; LANES]).collect();
        let mut into = [0; LANES];
        compute.apply(&mut into, &rows, &[0, 1, 2, 3].map(|row: u32| row.min(operands.len() as u32 - 1)));
        into[7]
    }

    #[test]
    fn integers_wrap_shift_and_extend_as_ptx_says() {
        let minus = |v: u32| u64::from(v.wrapping_neg());
        assert_eq!(value("add.s32", &[0x7fff_ffff, 1]), 0x8000_0000);
        assert_eq!(value("div.s32", &[0x8000_0000, minus(1)]), 0x8000_0000);
        assert_eq!(value("rem.s32", &[minus(7), 3]), minus(1));
        assert_eq!(value("mul.wide.s32", &[minus(2), 3]), (-6i64).cast_unsigned());
        assert_eq!(value("mul.hi.u32", &[0xffff_ffff, 0xffff_ffff]), 0xffff_fffe);
        assert_eq!(value("mad.wide.u32", &[3, 5, 1 << 40]), (1 << 40) + 15);
        assert_eq!(value("shl.b32", &[1, 32]), 0);
        assert_eq!(value("shr.s32", &[0x8000_0000, 99]), 0xffff_ffff);
        assert_eq!(value("shr.u64", &[1 << 63, 63]), 1);
    }

    #[test]
    fn bits_are_taken_and_put() {
        assert_eq!(value("bfe.u32", &[0xabcd_1234, 8, 8]), 0x12);
        assert_eq!(value("bfe.s32", &[0xf0, 4, 4]), 0xffff_ffff);
        assert_eq!(value("bfi.b32", &[0xf, 0, 28, 8]), 0xf000_0000);
        assert_eq!(value("prmt.b32", &[0x0302_0100, 0x0706_0504, 0x3210]), 0x0302_0100);
        assert_eq!(value("prmt.b32", &[0x0000_0080, 0, 0x8888]), 0xffff_ffff);
        assert_eq!(value("lop3.b32", &[0xf0f0, 0xcccc, 0xaaaa, 0x96]), 0xf0f0 ^ 0xcccc ^ 0xaaaa);
        assert_eq!(value("shf.l.wrap.b32", &[0x8000_0000, 1, 1]), 3);
        assert_eq!(value("clz.b32", &[0]), 32);
        assert_eq!(value("bfind.u32", &[0]), 0xffff_ffff);
        assert_eq!(value("bfind.s32", &[0xffff_fff0]), 3);
        assert_eq!(value("bfind.shiftamt.u32", &[1]), 31);
    }
}
