//! Comparisons of `setp`, and the operations that combine their outcome with a third predicate.

use super::{Lanes, Word, each};
use crate::ptx::Type;

/// Compares two operands in all lanes. The first parameter receives 0 or 1 for each lane.
pub(crate) type Compare = fn(&mut Lanes, &Lanes, &Lanes);

/// Possible outcomes of comparing two operands, as bits of a mask.
const LESS: u8 = 1;
const EQUAL: u8 = 2;
const GREATER: u8 = 4;
/// Outcome if one of the operands is NaN.
const UNORDERED: u8 = 8;

/// Compares all lanes. A lane becomes 1 if its outcome is one of the bits of `HOLDS`.
fn lanes<T: Word + PartialOrd, const HOLDS: u8>(into: &mut Lanes, a: &Lanes, b: &Lanes) {
    each(into, |lane| {
        let (a, b) = (T::take(a[lane]), T::take(b[lane]));
        let holds = |outcome: u8, is_so: bool| HOLDS & outcome != 0 && is_so;
        let is_unordered = holds(UNORDERED, a.partial_cmp(&b).is_none());
        u64::from(holds(LESS, a < b) | holds(EQUAL, a == b) | holds(GREATER, a > b) | is_unordered)
    });
}

fn find<T: Word + PartialOrd>(name: &str) -> Option<Compare> {
    Some(match name {
        "eq" => lanes::<T, EQUAL>,
        // Comparisons with NaN are false, including `ne`. Comparisons whose names end in `u` are true.
        "ne" => lanes::<T, { LESS | GREATER }>,
        "lt" | "lo" => lanes::<T, LESS>,
        "le" | "ls" => lanes::<T, { LESS | EQUAL }>,
        "gt" | "hi" => lanes::<T, GREATER>,
        "ge" | "hs" => lanes::<T, { GREATER | EQUAL }>,
        "equ" => lanes::<T, { EQUAL | UNORDERED }>,
        "neu" => lanes::<T, { LESS | GREATER | UNORDERED }>,
        "ltu" => lanes::<T, { LESS | UNORDERED }>,
        "leu" => lanes::<T, { LESS | EQUAL | UNORDERED }>,
        "gtu" => lanes::<T, { GREATER | UNORDERED }>,
        "geu" => lanes::<T, { GREATER | EQUAL | UNORDERED }>,
        "num" => lanes::<T, { LESS | EQUAL | GREATER }>,
        "nan" => lanes::<T, UNORDERED>,
        _ => return None,
    })
}

/// Returns the function for a comparison and a type, such as `ltu` and `f32`.
pub(crate) fn comparison(name: &str, ty: Type) -> Option<Compare> {
    let is_known = match ty {
        // Untyped bits can only be compared for equality.
        Type::Bits(_) => matches!(name, "eq" | "ne"),
        Type::Float(_) => !matches!(name, "lo" | "ls" | "hi" | "hs"),
        Type::Signed(_) => matches!(name, "eq" | "ne" | "lt" | "le" | "gt" | "ge"),
        _ => !matches!(name, "equ" | "neu" | "ltu" | "leu" | "gtu" | "geu" | "num" | "nan"),
    };
    match ty {
        _ if !is_known => None,
        Type::Unsigned(2) | Type::Bits(2) => find::<u16>(name),
        Type::Unsigned(4) | Type::Bits(4) => find::<u32>(name),
        Type::Unsigned(8) | Type::Bits(8) => find::<u64>(name),
        Type::Signed(2) => find::<i16>(name),
        Type::Signed(4) => find::<i32>(name),
        Type::Signed(8) => find::<i64>(name),
        Type::Float(4) => find::<f32>(name),
        Type::Float(8) => find::<f64>(name),
        _ => None,
    }
}

/// Combines the outcome of a comparison with a third predicate.
pub(crate) type Combine = fn(u64, u64) -> u64;

/// Returns the function for a combination, such as `and`.
pub(crate) fn combination(name: &str) -> Option<Combine> {
    match name {
        "and" => Some(|a, b| a & b),
        "or" => Some(|a, b| a | b),
        "xor" => Some(|a, b| a ^ b),
        _ => None,
    }
}
