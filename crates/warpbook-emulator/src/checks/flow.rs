//! Rules for how unwritten bits propagate from operands to results, as in Valgrind's Memcheck (Seward and Nethercote, 2005).

use crate::compute::{Compute, LANES, Lanes, each};

/// The dependence of a result's bits on the operands' bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    /// Every bit of the result depends on every bit of the operands.
    All,
    /// Every bit depends on every operand bit in the same half of a 32-bit word.
    Halves,
    /// Each bit depends on the operand bits at the same position.
    Bitwise,
    /// Like `Bitwise`, except that `x & 0` is written even if `x` is not.
    And,
    /// Like `Bitwise`, except that `x | 1` is written even if `x` is not.
    Or,
    /// For `lop3`: the dependence follows from its truth table.
    Logic,
    /// Each bit depends on the operand bits at the same and at lower positions, as in sums and products of integers.
    Upwards,
    /// The bits of the first operands (their number is given) move to positions that the remaining operands determine.
    Moved(usize),
    /// For `selp`: each bit depends on the operand that is selected.
    Select,
}

impl Flow {
    /// Returns the rule for an opcode that computes a value.
    pub(super) fn for_opcode(opcode: &str) -> Self {
        let words: Vec<&str> = opcode.split('.').collect();
        let ty = words.last().copied().unwrap_or("");
        let is_integer = |name: &str| matches!(name.split_at_checked(1), Some(("s" | "u" | "b", _)));
        let has = |word: &str| words.contains(&word);
        match words[0] {
            "mov" | "xor" | "not" | "cvta" => Self::Bitwise,
            "and" => Self::And,
            "or" => Self::Or,
            "lop3" => Self::Logic,
            "add" | "sub" | "mul" | "mad" | "neg" if is_integer(ty) && !has("hi") && !has("sat") => Self::Upwards,
            "neg" | "abs" if !is_integer(ty) => Self::Moved(1),
            "shl" | "shr" | "bfe" | "brev" => Self::Moved(1),
            "shf" | "bfi" | "prmt" => Self::Moved(2),
            "selp" => Self::Select,
            "cvt" if words[1..].iter().all(|word| is_integer(word)) && !has("sat") => Self::Moved(1),
            _ if matches!(ty, "f16x2" | "bf16x2") => Self::Halves,
            _ => Self::All,
        }
    }

    /// Returns the unwritten bits of the result, given the operands' values and the operands' unwritten bits.
    pub(super) fn through(self, compute: Compute, values: &[Lanes; 4], bits: &[Lanes; 4]) -> Lanes {
        let any = |lane: usize| bits.iter().fold(0, |all, bits| all | bits[lane]);
        let mut result = [0; LANES];
        match self {
            Self::All => each(&mut result, |lane| if any(lane) == 0 { 0 } else { u64::MAX }),
            Self::Halves => each(&mut result, |lane| {
                let half = |mask: u64| if any(lane) & mask == 0 { 0 } else { mask };
                half(0xffff) | half(0xffff_0000)
            }),
            Self::Bitwise => each(&mut result, any),
            Self::And => each(&mut result, |lane| {
                let ([a, b, ..], [x, y, ..]) = (values, bits);
                (x[lane] | y[lane]) & (x[lane] | a[lane]) & (y[lane] | b[lane])
            }),
            Self::Or => each(&mut result, |lane| {
                let ([a, b, ..], [x, y, ..]) = (values, bits);
                (x[lane] | y[lane]) & (x[lane] | !a[lane]) & (y[lane] | !b[lane])
            }),
            Self::Logic => each(&mut result, |lane| {
                let possible = |is_one: bool| {
                    let rows = (0..8u32).filter(|row| (values[3][lane] >> row & 1 == 1) == is_one);
                    rows.fold(0, |all, row| {
                        let input = |at: usize, bit: u32| {
                            let value = values[at][lane];
                            bits[at][lane] | if row >> bit & 1 == 1 { value } else { !value }
                        };
                        all | input(0, 2) & input(1, 1) & input(2, 0)
                    })
                };
                possible(true) & possible(false)
            }),
            Self::Upwards => each(&mut result, |lane| any(lane) | any(lane).wrapping_neg()),
            Self::Moved(data) => {
                let rows: [Lanes; 4] = std::array::from_fn(|at| if at < data { bits[at] } else { values[at] });
                compute.apply(&mut result, &rows, &[0, 1, 2, 3]);
                let controls = |lane: usize| bits[data..].iter().fold(0, |all, bits| all | bits[lane]);
                (0..LANES).filter(|lane| controls(*lane) != 0).for_each(|lane| result[lane] = u64::MAX);
            }
            Self::Select => each(&mut result, |lane| {
                let [a, b, p, _] = values.map(|values| values[lane]);
                let [x, y, of_p, _] = bits.map(|bits| bits[lane]);
                match (of_p & 1, p & 1) {
                    (0, 1) => x,
                    (0, _) => y,
                    _ => x | y | (a ^ b),
                }
            }),
        }
        result
    }
}

/// The dependence of a comparison's outcome on its operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Comparing {
    /// True if integers are compared with `eq` or `ne`: a single written bit that differs then decides the outcome.
    is_equality: bool,
    /// The operation that combines the outcome with a third predicate, if there is one.
    combine: Option<Flow>,
}

impl Comparing {
    pub(super) fn for_opcode(opcode: &str) -> Self {
        let words: Vec<&str> = opcode.split('.').collect();
        let is_float = words.last().is_some_and(|ty| ty.starts_with('f'));
        let combine = match words.get(2) {
            Some(&"and") => Some(Flow::And),
            Some(&"or") => Some(Flow::Or),
            Some(&"xor") => Some(Flow::Bitwise),
            _ => None,
        };
        Self { is_equality: matches!(words.get(1), Some(&("eq" | "ne"))) && !is_float, combine }
    }

    /// Returns true if the outcome of comparing `a` with `b` depends on their unwritten bits `x` and `y`.
    pub(super) fn is_open(self, [a, b]: [u64; 2], [x, y]: [u64; 2]) -> bool {
        let is_decided = self.is_equality && (a ^ b) & !(x | y) != 0;
        x | y != 0 && !is_decided
    }

    /// Returns true if the outcome combined with a third predicate is unwritten. Each argument is a value, with true if that value is unwritten.
    pub(super) fn is_combination_open(self, (a, x): (u64, bool), (b, y): (u64, bool)) -> bool {
        match self.combine {
            None => x,
            Some(Flow::And) => (x && (y || b & 1 == 1)) || (y && a & 1 == 1),
            Some(Flow::Or) => (x && (y || b & 1 == 0)) || (y && a & 1 == 0),
            Some(_) => x || y,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compute::find;

    fn unwritten(opcode: &str, operands: &[(u64, u64)]) -> u64 {
        let mut rows = ([[0; LANES]; 4], [[0; LANES]; 4]);
        for (at, (value, bits)) in operands.iter().enumerate() {
            (rows.0[at], rows.1[at]) = ([*value; LANES], [*bits; LANES]);
        }
        Flow::for_opcode(opcode).through(find(opcode).unwrap(), &rows.0, &rows.1)[5]
    }

    #[test]
    fn unwritten_bits_go_where_they_can_change_something() {
        assert_eq!(unwritten("and.b32", &[(0x0f, 0), (0, 0xff)]), 0x0f);
        assert_eq!(unwritten("or.pred", &[(1, 0), (0, 1)]) & 1, 0);
        assert_eq!(unwritten("or.pred", &[(0, 0), (0, 1)]) & 1, 1);
        assert_eq!(unwritten("shl.b32", &[(0, 0xff), (4, 0)]), 0xff0);
        assert_eq!(unwritten("shl.b32", &[(1, 0), (4, 1)]), u64::MAX);
        assert_eq!(unwritten("add.s32", &[(0, 0x10), (1, 0)]) & 0xff, 0xf0);
        assert_eq!(unwritten("cvt.s64.s32", &[(0, 0x8000_0000)]), 0xffff_ffff_8000_0000);
        assert_eq!(unwritten("fma.rn.f32", &[(0, 1), (0, 0), (0, 0)]), u64::MAX);
        assert_eq!(unwritten("add.f16x2", &[(0, 0x0100), (0, 0)]), 0xffff);
        assert_eq!(unwritten("selp.b32", &[(5, 0), (7, 0xff), (1, 0)]), 0);
        assert_eq!(unwritten("selp.b32", &[(5, 0), (5, 0), (0, 1)]), 0);
        assert_eq!(unwritten("lop3.b32", &[(0xff, 0), (0, 0xf0), (0, 0), (0xf0, 0)]), 0, "the first operand only");
        assert_eq!(unwritten("lop3.b32", &[(0xff, 0), (0, 0xf0), (0, 0), (0xc0, 0)]), 0xf0, "a and b");
    }

    #[test]
    fn a_written_bit_that_differs_decides_whether_integers_are_equal() {
        let equal = Comparing::for_opcode("setp.eq.s32");
        assert!(!equal.is_open([1, 0], [0xf0, 0]));
        assert!(equal.is_open([0, 0], [0xf0, 0]));
        assert!(Comparing::for_opcode("setp.lt.s32").is_open([1, 0], [0xf0, 0]));
        let or = Comparing::for_opcode("setp.gt.or.f32");
        assert!(!or.is_combination_open((0, true), (1, false)));
        assert!(or.is_combination_open((0, true), (0, false)));
    }
}
