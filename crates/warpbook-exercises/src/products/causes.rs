//! Causes of wrong products, most of them found by the same rules that judge a learner's kernel in the ladder.

use warpbook_gemm::{Evidence, FlawKind};
use warpbook_lab::exercise::{Mistake, Wrong};
use warpbook_record::Dtype;

pub(super) const C_TRANSPOSED: Mistake = Mistake::new(
    "c_transposed",
    "C is transposed: row and column are exchanged where it is written. Its element is `c[row * n + col]`.",
    |wrong| is(wrong, FlawKind::CTransposed),
);
pub(super) const A_TRANSPOSED: Mistake = Mistake::new(
    "a_transposed",
    "A is read transposed: its row and `i` are exchanged. Its element is `a[row * k + i]`.",
    |wrong| is(wrong, FlawKind::ATransposed),
);
pub(super) const B_TRANSPOSED: Mistake = Mistake::new(
    "b_transposed",
    "B is read transposed: `i` and its column are exchanged. Its element is `b[i * n + col]`.",
    |wrong| is(wrong, FlawKind::BTransposed),
);
pub(super) const BOTH_TRANSPOSED: Mistake =
    Mistake::new("both_transposed", "A and B are both read transposed.", |wrong| is(wrong, FlawKind::BothTransposed));
pub(super) const EXCHANGED: Mistake =
    Mistake::new("b_times_a", "This is B times A: the two are exchanged.", |wrong| is(wrong, FlawKind::Exchanged));
pub(super) const OTHER_ROW: Mistake = Mistake::new(
    "other_row",
    "A row of C holds the values of another row. Which row of A does this thread multiply, and where does it write?",
    |wrong| is(wrong, FlawKind::OtherRow),
);
pub(super) const OTHER_COLUMN: Mistake = Mistake::new(
    "other_column",
    "A column of C holds the values of another column. Which column of B does this thread multiply, and where does it write?",
    |wrong| is(wrong, FlawKind::OtherColumn),
);
pub(super) const FIRST_TERMS_ONLY: Mistake = Mistake::new(
    "first_terms_only",
    "Only the first products of each sum were added. Where does the loop end?",
    |wrong| is(wrong, FlawKind::FirstTermsOnly),
);
pub(super) const FIRST_TERMS_MISSING: Mistake = Mistake::new(
    "first_terms_missing",
    "The first products of each sum are missing. Where does the loop begin, and is a sum overwritten on the way?",
    |wrong| is(wrong, FlawKind::FirstTermsMissing),
);
pub(super) const SCALED: Mistake = Mistake::new(
    "scaled",
    "All wrong elements are the same multiple of what they should be. Is a product added more than once?",
    |wrong| is(wrong, FlawKind::Scaled),
);
pub(super) const A_ROW_LENGTH: Mistake = Mistake::new(
    "a_row_length",
    "Rows of A were taken to have `n` elements. They have `k`: element `a[row * k + i]`.",
    |wrong| is_with_rows(wrong, ["n", "n"]),
);
pub(super) const B_ROW_LENGTH: Mistake = Mistake::new(
    "b_row_length",
    "Rows of B were taken to have `k` elements. They have `n`: element `b[i * n + col]`.",
    |wrong| is_with_rows(wrong, ["k", "k"]),
);

/// Returns true if the result is the product that these row lengths of A and of B give. Returns false if n equals k, since the mistake then has no effect.
fn is_with_rows(wrong: &Wrong, lengths: [&str; 2]) -> bool {
    let [n, k] = ["n", "k"].map(|name| wrong.number(name) as usize);
    let [of_a, of_b] = lengths.map(|name| wrong.number(name) as usize);
    let (a, b) = (wrong.input("a"), wrong.input("b"));
    let at = |all: &[f64], place: usize| all.get(place).copied().unwrap_or(f64::NAN);
    let term = |row: usize, col: usize, i: usize| at(&a, row * of_a + i) * at(&b, i * of_b + col);
    n != k && wrong.looks_like(|c| (0..k).map(|i| term(c / n, c % n, i)).sum())
}

/// Returns true if the fp32 product has this kind of flaw.
fn is(wrong: &Wrong, kind: FlawKind) -> bool {
    let sizes = ["m", "n", "k"].map(|name| wrong.number(name) as usize);
    let single = |all: &[f64]| -> Vec<f32> { all.iter().map(|v| *v as f32).collect() };
    let (a, b, got) = (single(&wrong.input("a")), single(&wrong.input("b")), single(wrong.got()));
    let unwritten: Vec<bool> = (0..got.len()).map(|i| !wrong.is_written(i)).collect();
    let evidence = Evidence {
        sizes,
        tile: [1; 3],
        dtype: Dtype::F32,
        out: Dtype::F32,
        a: &a,
        b: &b,
        got: &got,
        unwritten: &unwritten,
        // The emulator detects races itself, so no second result is needed.
        again: &got,
    };
    evidence.examine().is_some_and(|flaw| flaw.kind == Some(kind))
}
