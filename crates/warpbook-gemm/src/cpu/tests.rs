use super::*;
use proptest::prelude::*;
use warpbook_data::philox::gaussian;

type Product = fn(&Operands<'_>, &mut [f32]) -> Result<(), GemmError>;

/// Runs the tile chosen for another kind of CPU, which gives the right result on every CPU, if slowly.
fn tiles<const MR: usize, const NR: usize, const FMA: bool>(
    ops: &Operands<'_>,
    c: &mut [f32],
) -> Result<(), GemmError> {
    ops.check(Some(c.len()))?;
    Tiles::<MR, NR, FMA> { arch: Arch::new(), threads: Threads::All }.run(ops, &mut c[..ops.c_len()]);
    Ok(())
}

const ALL: [(&str, Product); 8] = [
    ("naive", naive),
    ("blocked", blocked),
    ("threaded", threaded),
    ("library", library),
    ("AVX-512's tile", tiles::<12, 32, true>),
    ("AVX2's tile", tiles::<6, 16, true>),
    ("Neon's tile", tiles::<8, 8, true>),
    ("the plain tile", tiles::<4, 8, false>),
];

/// Bit pattern of elements that must not be read or written.
const UNTOUCHED: u32 = 0x7fc0_dead;

/// A product to test; `pads` are the leading dimensions minus the length of a row.
#[derive(Debug, Clone, Copy)]
struct Case {
    m: usize,
    n: usize,
    k: usize,
    pads: [usize; 3],
    trans_a: bool,
    trans_b: bool,
    alpha: f32,
    beta: f32,
}

impl Case {
    fn new(m: usize, n: usize, k: usize) -> Self {
        Self { m, n, k, pads: [0; 3], trans_a: false, trans_b: false, alpha: 1.0, beta: 0.0 }
    }

    /// Returns A, B and C as stored, with Gaussian values, and with `UNTOUCHED` in the pads.
    fn matrices(self) -> [Vec<f32>; 3] {
        let matrix = |rows: usize, width: usize, pad: usize, stream| {
            let mut all = vec![f32::from_bits(UNTOUCHED); (rows - 1) * (width + pad) + width];
            for (i, row) in all.chunks_mut(width + pad).enumerate() {
                row[..width].iter_mut().enumerate().for_each(|(j, v)| {
                    *v = gaussian(11, (i * width + j) as u64, stream);
                });
            }
            all
        };
        let Self { m, n, k, pads, .. } = self;
        let a = if self.trans_a { matrix(k, m, pads[0], 0) } else { matrix(m, k, pads[0], 0) };
        let b = if self.trans_b { matrix(n, k, pads[1], 1) } else { matrix(k, n, pads[1], 1) };
        [a, b, matrix(m, n, pads[2], 2)]
    }

    fn operands<'a>(self, a: &'a [f32], b: &'a [f32]) -> Operands<'a> {
        let Self { m, n, k, pads, trans_a, trans_b, alpha, beta } = self;
        let (lda, ldb) = (if trans_a { m } else { k } + pads[0], if trans_b { k } else { n } + pads[1]);
        Operands { a, b, m, n, k, lda, ldb, ldc: n + pads[2], trans_a, trans_b, alpha, beta }
    }
}

/// Checks that every version is within the bound of a sum of k products in any order from the f64 reference (Higham,
/// Accuracy and Stability of Numerical Algorithms, 2nd ed., section 3.1), and that the pads are untouched.
fn check(case: Case) {
    let [a, b, before] = case.matrices();
    let ops = case.operands(&a, &b);
    let rows: Vec<usize> = (0..case.m).collect();
    let want = reference_rows(&ops, &before, &rows).unwrap();
    let abs = |v: &[f32]| v.iter().map(|x| x.abs()).collect::<Vec<f32>>();
    let (abs_a, abs_b, abs_c) = (abs(&a), abs(&b), abs(&before));
    let magnitudes = Operands { a: &abs_a, b: &abs_b, alpha: case.alpha.abs(), beta: case.beta.abs(), ..ops };
    let magnitudes = reference_rows(&magnitudes, &abs_c, &rows).unwrap();
    let bound = (case.k as f64 + 4.0) * f64::from(f32::EPSILON) / 2.0;
    for (name, product) in ALL {
        let mut c = before.clone();
        if case.beta == 0.0 {
            c.fill(f32::from_bits(UNTOUCHED));
        }
        product(&ops, &mut c).unwrap();
        for (i, row) in c.chunks(ops.ldc).enumerate() {
            for (j, got) in row[..case.n].iter().enumerate() {
                let (want, scale) = (want[i * case.n + j], magnitudes[i * case.n + j]);
                let error = (f64::from(*got) - want).abs();
                assert!(error <= bound * scale, "{name}, {case:?}: C[{i}][{j}] is {got}, not {want}");
            }
            let pad = &row[case.n..];
            assert!(pad.iter().all(|v| v.to_bits() == UNTOUCHED), "{name}, {case:?}: wrote behind row {i}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn every_way_is_the_reference(
        (m, n, k) in (1usize..=50, 1usize..=70, 1usize..=40),
        pads in [0usize..4, 0usize..4, 0usize..4],
        (trans_a, trans_b) in any::<(bool, bool)>(),
        alpha in prop_oneof![Just(1.0f32), Just(0.0), -3.0f32..3.0],
        beta in prop_oneof![Just(0.0f32), Just(1.0), -3.0f32..3.0],
    ) {
        check(Case { m, n, k, pads, trans_a, trans_b, alpha, beta });
    }
}

#[test]
fn products_of_several_blocks() {
    for (trans_a, trans_b) in [(false, false), (false, true), (true, false), (true, true)] {
        let case = Case { trans_a, trans_b, pads: [3, 1, 2], alpha: 0.5, beta: -1.5, ..Case::new(MC + 7, 65, KC + 9) };
        check(case);
        check(Case { m: 3, n: NC + 37, k: 2 * KC + 1, beta: 0.0, ..case });
    }
}

#[test]
fn rows_columns_and_single_elements() {
    for (m, n, k) in [(1, 1, 1), (1, 1, 300), (1, 100, 1), (100, 1, 1), (1, 33, 300), (301, 1, 17), (12, 32, 256)] {
        for (trans_a, trans_b) in [(false, false), (false, true), (true, false), (true, true)] {
            check(Case { trans_a, trans_b, pads: [1, 0, 2], beta: 0.25, ..Case::new(m, n, k) });
        }
    }
}

#[test]
fn nan_and_infinity_are_as_ieee_says() {
    let class = |v: f64| (v.is_nan(), v.is_infinite(), v.is_infinite() && v < 0.0);
    for (beta, alpha) in [(0.0, 1.0), (0.5, -2.0), (1.0, 0.0)] {
        let case = Case { alpha, beta, ..Case::new(37, 45, 29) };
        let [mut a, mut b, mut c] = case.matrices();
        a[3 * 29 + 4] = f32::INFINITY;
        a[5 * 29 + 4] = f32::NEG_INFINITY;
        // This sum contains infinities of both signs.
        a[7 * 29] = f32::INFINITY;
        a[7 * 29 + 1] = f32::NEG_INFINITY;
        a[9 * 29 + 28] = f32::NAN;
        // This sum contains infinity times zero.
        b[4 * 45 + 11] = 0.0;
        b[6 * 45 + 44] = f32::INFINITY;
        c[20 * 45 + 20] = f32::NAN;
        c[21 * 45 + 21] = f32::INFINITY;
        let ops = case.operands(&a, &b);
        let rows: Vec<usize> = (0..37).collect();
        let want = reference_rows(&ops, &c, &rows).unwrap();
        assert!(want[3 * 45 + 11].is_nan() && want[7 * 45].is_nan() && want[9 * 45].is_nan());
        assert_eq!(want[20 * 45 + 20].is_nan(), beta != 0.0, "C is not read at beta 0");
        for (name, product) in ALL {
            let mut got = c.clone();
            product(&ops, &mut got).unwrap();
            for (at, (got, want)) in got.iter().zip(&want).enumerate() {
                let place = (at / 45, at % 45);
                assert_eq!(class(f64::from(*got)), class(*want), "{name}, beta {beta}, {place:?}: {got}, {want}");
            }
        }
    }
}

#[test]
fn the_reference_is_the_sum_itself() {
    let case = Case { pads: [1, 2, 3], trans_b: true, alpha: 1.5, beta: 0.5, ..Case::new(70, 130, 9) };
    let [a, b, c] = case.matrices();
    let ops = case.operands(&a, &b);
    let rows: Vec<usize> = (0..70).rev().step_by(2).collect();
    let got = reference_rows(&ops, &c, &rows).unwrap();
    for (r, &i) in rows.iter().enumerate() {
        for j in 0..130 {
            let sum: f64 = (0..9).map(|p| f64::from(a[i * 10 + p]) * f64::from(b[j * 11 + p])).sum();
            let want = 1.5 * sum + 0.5 * f64::from(c[i * 133 + j]);
            assert!((got[r * 130 + j] - want).abs() <= 1e-13, "({i}, {j}): {} {want}", got[r * 130 + j]);
        }
    }
    assert!(reference_rows(&ops, &c, &[]).unwrap().is_empty());
    assert_eq!(reference_rows(&Operands { beta: 0.0, ..ops }, &[], &[3]).unwrap().len(), 130);
}

#[test]
fn what_does_not_fit_is_said() {
    let case = Case { pads: [1, 1, 1], trans_a: true, ..Case::new(4, 5, 6) };
    let [a, b, c] = case.matrices();
    let ops = case.operands(&a, &b);
    let refused = |ops: Operands<'_>, c_len: usize, expect: &str| {
        for (name, product) in ALL {
            let mut c = c[..c_len].to_vec();
            let before = c.clone();
            let error = product(&ops, &mut c).unwrap_err().to_string();
            assert!(error.contains(expect), "{name}: {error}");
            assert!(c.iter().zip(&before).all(|(x, y)| x.to_bits() == y.to_bits()), "{name} wrote to C");
        }
    };
    refused(Operands { k: 0, ..ops }, c.len(), "they are 4, 5 and 0");
    refused(Operands { lda: 3, ..ops }, c.len(), "The rows of A have 4 elements");
    refused(Operands { ldb: 4, ..ops }, c.len(), "The rows of B have 5 elements");
    refused(Operands { ldc: 4, ..ops }, c.len(), "The rows of C have 5 elements");
    refused(Operands { a: &a[1..], ..ops }, c.len(), "A is stored as 6 rows of 4 with a leading dimension of 5");
    refused(Operands { b: &b[1..], ..ops }, c.len(), "takes 35 elements; the slice has 34");
    refused(ops, c.len() - 1, "C is stored as 4 rows of 5");
    refused(Operands { lda: usize::MAX, ..ops }, c.len(), "A is stored as");
    // For a single row the leading dimension does not matter.
    let one = Operands { m: 1, k: 1, lda: usize::MAX, ldb: usize::MAX, ldc: usize::MAX, ..ops };
    for (name, product) in ALL {
        let mut c = [0.0; 5];
        product(&one, &mut c).unwrap();
        assert!(c.iter().zip(&b).all(|(c, b)| *c == a[0] * b), "{name}");
    }
    assert_eq!(reference_rows(&ops, &c, &[0, 4]), Err(GemmError::NoSuchRow { row: 4, m: 4 }));
    assert!(reference_rows(&Operands { beta: 1.0, ..ops }, &[], &[0]).is_err());
}
