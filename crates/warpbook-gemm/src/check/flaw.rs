//! Finds the likely cause of a wrong product from the positions and values of its errors.

use rayon::prelude::*;
use std::fmt;
use warpbook_kernels::Tolerance;
use warpbook_record::Dtype;

/// The result of a kernel and its inputs, on the host, row-major and without gaps between rows.
#[derive(Debug, Clone, Copy)]
pub struct Evidence<'a> {
    /// Sizes m, n and k of the product.
    pub sizes: [usize; 3],
    /// Rows and columns of C that a block computes, and the extent of a step along k, if they are known.
    pub tile: [usize; 3],
    /// Type of A and B, for the tolerance.
    pub dtype: Dtype,
    /// Type of C, for its rounding.
    pub out: Dtype,
    /// op(A), `[m][k]`, rounded as the kernel reads it.
    pub a: &'a [f32],
    /// op(B), `[k][n]`.
    pub b: &'a [f32],
    /// The kernel's result C, `[m][n]`.
    pub got: &'a [f32],
    /// True for each element of C that has not been written, `[m][n]`.
    pub unwritten: &'a [bool],
    /// Result C of a second run, `[m][n]`.
    pub again: &'a [f32],
}

/// Description of the error in a result.
#[derive(Debug, Clone, PartialEq)]
pub struct Flaw {
    /// Sizes m, n and k of the product.
    pub sizes: [usize; 3],
    /// Row and column of the first wrong element.
    pub first: (usize, usize),
    /// Value of the first wrong element; `None` if it was not written.
    pub got: Option<f32>,
    /// Correct value of the first wrong element.
    pub want: f64,
    /// Number of wrong elements and number of all elements.
    pub wrong: (usize, usize),
    /// Kind of the most likely cause, if one was found.
    pub kind: Option<FlawKind>,
    /// The most likely cause, in a sentence or two; empty if none was found.
    pub hint: String,
}

/// Kind of a likely cause of a wrong product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlawKind {
    /// Some elements of C were not written.
    Unwritten,
    /// Some elements are NaN.
    NotANumber,
    /// C is transposed.
    CTransposed,
    /// A row of C contains the values of another row.
    OtherRow,
    /// A column of C contains the values of another column.
    OtherColumn,
    /// A is read transposed.
    ATransposed,
    /// B is read transposed.
    BTransposed,
    /// A and B are both read transposed.
    BothTransposed,
    /// The product is B times A.
    Exchanged,
    /// All wrong elements are 0.
    Zeros,
    /// Only the first terms of each sum were added.
    FirstTermsOnly,
    /// The first terms of each sum are missing.
    FirstTermsMissing,
    /// Terms in the middle of each sum are missing.
    TermsMissing,
    /// All wrong elements are the same multiple of their correct values.
    Scaled,
    /// Some elements differ between two runs.
    Race,
    /// Only tiles that cross the edge of C are wrong.
    Edges,
    /// All elements are nearly right.
    Rounding,
}

/// A likely cause: its kind, and a sentence or two.
type Hint = (FlawKind, String);

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ([m, n, k], (row, column), (wrong, of)) = (self.sizes, self.first, self.wrong);
        write!(
            f,
            "In a product of {m} x {n} x {k}, {wrong} of {of} elements are wrong. The first is C[{row}][{column}]: "
        )?;
        match self.got {
            Some(got) => write!(f, "it is {got} and should be {:.6}.", self.want)?,
            None => write!(f, "it was not written and should be {:.6}.", self.want)?,
        }
        if self.hint.is_empty() { Ok(()) } else { write!(f, " Hint: {}", self.hint) }
    }
}

/// Computes the product and the sums of the magnitudes of its terms, in f64.
struct Reference {
    want: Vec<f64>,
    size: Vec<f64>,
}

impl Reference {
    fn new(e: &Evidence<'_>) -> Self {
        let [_, n, k] = e.sizes;
        let row = |a: &[f32]| {
            let (mut want, mut size) = (vec![0.0; n], vec![0.0; n]);
            for (kk, a) in a.iter().enumerate() {
                for (j, b) in e.b[kk * n..(kk + 1) * n].iter().enumerate() {
                    let term = f64::from(*a) * f64::from(*b);
                    want[j] += term;
                    size[j] += term.abs();
                }
            }
            (want, size)
        };
        let rows: Vec<_> = e.a.par_chunks(k).map(row).collect();
        let (want, size): (Vec<_>, Vec<_>) = rows.into_iter().unzip();
        Self { want: want.concat(), size: size.concat() }
    }
}

impl Evidence<'_> {
    /// Returns true if a value is `want` within the rounding errors of its type.
    fn is_close(&self, got: f32, want: f64, size: f64) -> bool {
        let Tolerance(tolerance) = Tolerance::product(self.dtype, self.sizes[2] as u64);
        let tiny = if self.out == Dtype::F16 { 1e-7 } else { 1e-37 };
        (f64::from(got) - want).abs() <= tolerance * size + 0.5 * self.out.epsilon() * want.abs() + tiny
    }

    /// Returns a description of the error, if the result is wrong.
    #[must_use]
    pub fn examine(&self) -> Option<Flaw> {
        let [_, n, _] = self.sizes;
        let reference = Reference::new(self);
        let right = |i: usize| !self.unwritten[i] && self.is_close(self.got[i], reference.want[i], reference.size[i]);
        let wrong: Vec<usize> = (0..self.got.len()).filter(|i| !right(*i)).collect();
        let first = *wrong.first()?;
        let (kind, hint) = self.hint(&reference, &wrong).unzip();
        Some(Flaw {
            sizes: self.sizes,
            first: (first / n, first % n),
            got: (!self.unwritten[first]).then(|| self.got[first]),
            want: reference.want[first],
            wrong: (wrong.len(), self.got.len()),
            kind,
            hint: hint.unwrap_or_default(),
        })
    }

    fn hint(&self, reference: &Reference, wrong: &[usize]) -> Option<Hint> {
        self.unwritten_parts(wrong)
            .or_else(|| self.not_a_number(wrong))
            .or_else(|| self.other_place(reference, wrong))
            .or_else(|| self.other_operands(reference, wrong))
            .or_else(|| self.other_terms(wrong))
            .or_else(|| self.race(wrong))
            .or_else(|| self.only_edges(wrong))
            .or_else(|| self.nearly(reference, wrong))
    }

    fn unwritten_parts(&self, wrong: &[usize]) -> Option<Hint> {
        let text = self.unwritten_text(wrong)?;
        Some((FlawKind::Unwritten, text))
    }

    fn unwritten_text(&self, wrong: &[usize]) -> Option<String> {
        let [m, n, _] = self.sizes;
        let holes: Vec<usize> = wrong.iter().copied().filter(|i| self.unwritten[*i]).collect();
        if holes.is_empty() {
            return None;
        }
        if holes.len() == m * n {
            return Some(
                "no element of C was written. Does every thread return before its store, or is the store missing?"
                    .into(),
            );
        }
        let empty_row = |r: usize| (0..n).all(|c| self.unwritten[r * n + c]);
        let empty_column = |c: usize| (0..m).all(|r| self.unwritten[r * n + c]);
        let tail = |count: usize, is_empty: &dyn Fn(usize) -> bool| {
            let begin = (0..count).rev().take_while(|i| is_empty(*i)).last()?;
            (holes.len() == (count - begin) * (m * n / count)).then_some(begin)
        };
        if let Some(row) = tail(m, &empty_row) {
            return Some(format!(
                "rows from {row} on were not written. Does the grid cover all {m} rows, and does each block cover its {}?",
                self.tile[0]
            ));
        }
        if let Some(column) = tail(n, &empty_column) {
            return Some(format!(
                "columns from {column} on were not written. Does the grid cover all {n} columns, and does each block cover its {}?",
                self.tile[1]
            ));
        }
        let rows = (0..m).filter(|r| empty_row(*r)).count();
        let columns = (0..n).filter(|c| empty_column(*c)).count();
        Some(match () {
            () if rows * n == holes.len() => {
                format!("{rows} of {m} rows were not written, row {} the first.", holes[0] / n)
            }
            () if columns * m == holes.len() => {
                format!("{columns} of {n} columns were not written, column {} the first.", holes[0] % n)
            }
            () => format!("{} elements were not written. Which thread should store them?", holes.len()),
        })
    }

    fn not_a_number(&self, wrong: &[usize]) -> Option<Hint> {
        let nans = wrong.iter().filter(|i| self.got[**i].is_nan()).count();
        (nans > 0).then(|| {
            let text = format!(
                "{nans} elements are NaN. A, B and C are surrounded by NaNs here, and C holds them at first: something outside A or B was \
                 read, or C was, or shared memory before it was filled."
            );
            (FlawKind::NotANumber, text)
        })
    }

    /// Checks if elements were written to the wrong place; returns a sentence if so.
    fn other_place(&self, reference: &Reference, wrong: &[usize]) -> Option<Hint> {
        let [m, n, _] = self.sizes;
        let close = |at: usize, place: usize| self.is_close(self.got[at], reference.want[place], reference.size[place]);
        let most = |hits: usize, total: usize| hits * 10 >= total * 9 && total > 1;
        let transposed = if m == n {
            wrong.iter().filter(|i| close(**i, **i % n * n + **i / n)).count()
        } else {
            // Counts the wrong elements whose values fit an m x n matrix that was written as n x m.
            wrong.iter().filter(|i| close(**i, **i % m * n + **i / m)).count()
        };
        if most(transposed, wrong.len()) {
            let text = "C is transposed: the indices of row and column are swapped in the store, or in both loads.";
            return Some((FlawKind::CTransposed, text.into()));
        }
        let (row, column) = (wrong[0] / n, wrong[0] % n);
        let row_is =
            |other: &usize| *other != row && most((0..n).filter(|c| close(row * n + c, other * n + c)).count(), n);
        if let Some(other) = (0..m).find(row_is) {
            let text = format!("row {row} holds the values of row {other}: check how the row is computed.");
            return Some((FlawKind::OtherRow, text));
        }
        let column_is = |other: &usize| {
            *other != column && most((0..m).filter(|r| close(r * n + column, r * n + other)).count(), m)
        };
        if let Some(other) = (0..n).find(column_is) {
            let text = format!("column {column} holds the values of column {other}: check how the column is computed.");
            return Some((FlawKind::OtherColumn, text));
        }
        None
    }

    /// Returns a few of the wrong elements, spread over all of them.
    fn sample<'w>(&self, wrong: &'w [usize]) -> impl Iterator<Item = usize> + use<'w> {
        wrong.iter().copied().step_by((wrong.len() / 16).max(1)).take(16)
    }

    /// Checks if A or B was read transposed, or if both were swapped; returns a sentence if so.
    fn other_operands(&self, reference: &Reference, wrong: &[usize]) -> Option<Hint> {
        let [m, n, k] = self.sizes;
        // For other shapes this would read outside the arrays.
        if m != n || n != k {
            return None;
        }
        let (a, b) = (|r: usize, c: usize| self.a[r * k + c], |r: usize, c: usize| self.b[r * k + c]);
        let is = |first: &dyn Fn(usize, usize) -> f32, second: &dyn Fn(usize, usize) -> f32| {
            self.sample(wrong).all(|i| {
                let terms = (0..k).map(|kk| f64::from(first(i / n, kk)) * f64::from(second(kk, i % n)));
                self.is_close(self.got[i], terms.sum(), reference.size[i])
            })
        };
        let (a_t, b_t) = (|r, c| a(c, r), |r, c| b(c, r));
        let hint = |kind, text: &str| Some((kind, text.to_owned()));
        match () {
            () if is(&a_t, &b) => hint(FlawKind::ATransposed, "A is read transposed: its row and k are swapped."),
            () if is(&a, &b_t) => hint(FlawKind::BTransposed, "B is read transposed: its k and column are swapped."),
            () if is(&a_t, &b_t) => hint(FlawKind::BothTransposed, "A and B are both read transposed."),
            () if is(&b, &a) => hint(FlawKind::Exchanged, "this is B times A: the two are swapped."),
            () => None,
        }
    }

    /// Checks if a term is missing or was added twice; returns a sentence if so.
    fn other_terms(&self, wrong: &[usize]) -> Option<Hint> {
        let [_, n, k] = self.sizes;
        let terms = |i: usize| -> Vec<f64> {
            (0..k).map(|kk| f64::from(self.a[i / n * k + kk]) * f64::from(self.b[kk * n + i % n])).collect()
        };
        let sampled: Vec<(f32, Vec<f64>)> = self.sample(wrong).map(|i| (self.got[i], terms(i))).collect();
        let all = |part: &dyn Fn(&[f64]) -> f64| {
            sampled.iter().all(|(got, t)| self.is_close(*got, part(t), t.iter().map(|v| v.abs()).sum()))
        };
        if all(&|_| 0.0) {
            return Some((FlawKind::Zeros, "all of these are 0: was anything summed?".into()));
        }
        for count in 1..k {
            if all(&|t| t[..count].iter().sum()) {
                let text = format!(
                    "only the first {count} of {k} terms of each sum were added: look at the end of the loop over k."
                );
                return Some((FlawKind::FirstTermsOnly, text));
            }
            if all(&|t| t[count..].iter().sum()) {
                let text = format!(
                    "the first {count} of {k} terms of each sum are missing: look at the beginning of the loop over k."
                );
                return Some((FlawKind::FirstTermsMissing, text));
            }
        }
        let step = self.tile[2].max(1);
        if let Some(from) = (0..k).step_by(step).find(|from| {
            let to = (from + step).min(k);
            all(&|t| t[..*from].iter().chain(&t[to..]).sum())
        }) {
            let text = format!("the terms {from} to {} of each sum are missing.", (from + step).min(k) - 1);
            return Some((FlawKind::TermsMissing, text));
        }
        let ratio = sampled.iter().map(|(got, t)| f64::from(*got) / t.iter().sum::<f64>()).next()?;
        let text = format!("every wrong element is {ratio:.4} times the correct value.");
        (ratio.is_finite() && all(&|t| t.iter().sum::<f64>() * ratio)).then_some((FlawKind::Scaled, text))
    }

    fn race(&self, wrong: &[usize]) -> Option<Hint> {
        let differ = wrong.iter().filter(|i| self.got[**i].to_bits() != self.again[**i].to_bits()).count();
        (differ > 0).then(|| {
            let text = format!(
                "{differ} of them differ in a second run of the kernel: threads race. Is a __syncthreads() missing before \
                 shared memory is read, or before it is overwritten?"
            );
            (FlawKind::Race, text)
        })
    }

    fn only_edges(&self, wrong: &[usize]) -> Option<Hint> {
        let ([m, n, _], [bm, bn, _]) = (self.sizes, self.tile);
        let (bm, bn) = (bm.max(1), bn.max(1));
        let (whole_m, whole_n) = (m / bm * bm, n / bn * bn);
        let at_edge = wrong.iter().all(|i| i / n >= whole_m || i % n >= whole_n);
        (at_edge && (whole_m < m || whole_n < n)).then(|| {
            let text = format!(
                "only elements in tiles that cross the edge of C are wrong (rows from {whole_m} on, columns from {whole_n} on, with tiles of {bm} x {bn}): \
                 look at the guards at the edge."
            );
            (FlawKind::Edges, text)
        })
    }

    fn nearly(&self, reference: &Reference, wrong: &[usize]) -> Option<Hint> {
        let near = wrong.iter().all(|i| {
            let error = (f64::from(self.got[*i]) - reference.want[*i]).abs();
            error <= 0.05 * reference.size[*i] / (self.sizes[2] as f64).sqrt()
        });
        near.then(|| {
            let text = "all are nearly correct: does the kernel keep sums or intermediate values in a type less precise than fp32?";
            (FlawKind::Rounding, text.into())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: [usize; 3] = [24, 40, 16];

    fn numbers(count: usize, seed: u32) -> Vec<f32> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / 8_388_608.0 - 1.0
        };
        (0..count).map(|_| next()).collect()
    }

    struct Case {
        sizes: [usize; 3],
        a: Vec<f32>,
        b: Vec<f32>,
    }

    impl Case {
        fn new(sizes: [usize; 3]) -> Self {
            let [m, n, k] = sizes;
            Self { sizes, a: numbers(m * k, 1), b: numbers(k * n, 2) }
        }

        /// Returns the result of a kernel that adds these terms, given by (row, column, k).
        fn product(&self, term: impl Fn(usize, usize, usize) -> f32) -> Vec<f32> {
            let [m, n, k] = self.sizes;
            (0..m * n).map(|i| (0..k).map(|kk| term(i / n, i % n, kk)).sum()).collect()
        }

        fn right(&self) -> Vec<f32> {
            let [_, n, k] = self.sizes;
            self.product(|r, c, kk| self.a[r * k + kk] * self.b[kk * n + c])
        }

        fn flaw_of(&self, got: &[f32], again: &[f32], holes: &[usize]) -> Option<Flaw> {
            let mut unwritten = vec![false; got.len()];
            holes.iter().for_each(|i| unwritten[*i] = true);
            Evidence {
                sizes: self.sizes,
                tile: [16, 16, 8],
                dtype: Dtype::F32,
                out: Dtype::F32,
                a: &self.a,
                b: &self.b,
                got,
                unwritten: &unwritten,
                again,
            }
            .examine()
        }

        fn check(&self, got: &[f32], expect: &str) {
            let flaw = self.flaw_of(got, got, &[]).unwrap();
            assert!(flaw.hint.contains(expect), "{flaw}");
        }
    }

    #[test]
    fn a_right_product_has_no_flaw() {
        let case = Case::new(SIZES);
        assert_eq!(case.flaw_of(&case.right(), &case.right(), &[]), None);
    }

    #[test]
    fn holes_are_described_by_where_they_are() {
        let case = Case::new(SIZES);
        let [m, n, _] = SIZES;
        let check = |holes: Vec<usize>, expect: &str| {
            let got = case.right();
            let flaw = case.flaw_of(&got, &got, &holes).unwrap();
            assert_eq!((flaw.got, flaw.wrong), (None, (holes.len(), m * n)));
            assert!(flaw.hint.contains(expect) && flaw.to_string().contains("it was not written"), "{flaw}");
        };
        check((0..m * n).collect(), "no element of C");
        check((16 * n..m * n).collect(), "rows from 16 on");
        check((0..m * n).filter(|i| i % n >= 32).collect(), "columns from 32 on");
        check((0..m * n).filter(|i| i / n % 2 == 1).collect(), "12 of 24 rows were not written, row 1 the first");
        check((0..m * n).filter(|i| i % n % 4 == 3).collect(), "10 of 40 columns were not written, column 3");
        check(vec![5, 77], "2 elements were not written");
    }

    #[test]
    fn elements_in_the_wrong_place_are_found() {
        let (case, square) = (Case::new(SIZES), Case::new([32, 32, 32]));
        let [m, n, _] = SIZES;
        let right = case.right();
        // The m x n result is stored as an n x m matrix.
        let transposed: Vec<f32> = (0..m * n).map(|i| right[i % m * n + i / m]).collect();
        case.check(&transposed, "C is transposed");
        let right_square = square.right();
        let transposed: Vec<f32> = (0..32 * 32).map(|i| right_square[i % 32 * 32 + i / 32]).collect();
        square.check(&transposed, "C is transposed");
        let shifted: Vec<f32> = (0..m * n).map(|i| right[(i / n + 1) % m * n + i % n]).collect();
        case.check(&shifted, "row 0 holds the values of row 1");
        let shifted: Vec<f32> = (0..m * n).map(|i| right[i / n * n + (i % n + 3) % n]).collect();
        case.check(&shifted, "column 0 holds the values of column 3");
    }

    #[test]
    fn operands_in_the_wrong_order_are_found() {
        let case = Case::new([32, 32, 32]);
        let (a, b) = (&case.a, &case.b);
        case.check(&case.product(|r, c, k| a[k * 32 + r] * b[k * 32 + c]), "A is read transposed");
        case.check(&case.product(|r, c, k| a[r * 32 + k] * b[c * 32 + k]), "B is read transposed");
        case.check(&case.product(|r, c, k| b[r * 32 + k] * a[k * 32 + c]), "B times A");
    }

    #[test]
    fn terms_that_are_missing_or_too_many_are_found() {
        let case = Case::new(SIZES);
        let [_, n, k] = SIZES;
        let term = |r: usize, c: usize, kk: usize| case.a[r * k + kk] * case.b[kk * n + c];
        let only = |keep: &dyn Fn(usize) -> bool| case.product(|r, c, kk| if keep(kk) { term(r, c, kk) } else { 0.0 });
        case.check(&only(&|kk| kk < 15), "only the first 15 of 16 terms");
        case.check(&only(&|kk| kk >= 2), "the first 2 of 16 terms");
        case.check(&only(&|_| false), "all of these are 0");
        let doubled: Vec<f32> = case.right().iter().map(|v| 2.0 * v).collect();
        case.check(&doubled, "2.0000 times");
        assert_eq!(case.flaw_of(&doubled, &doubled, &[]).unwrap().kind, Some(FlawKind::Scaled));
        let long = Case::new([24, 40, 32]);
        let gap = long.product(
            |r, c, kk| {
                if (8..16).contains(&kk) { 0.0 } else { long.a[r * 32 + kk] * long.b[kk * 40 + c] }
            },
        );
        long.check(&gap, "the terms 8 to 15");
    }

    #[test]
    fn races_edges_and_rounding_are_told_apart() {
        let case = Case::new(SIZES);
        let [_, n, _] = SIZES;
        let spoilt = |which: &dyn Fn(usize) -> bool, noise: &[f32]| -> Vec<f32> {
            case.right().iter().enumerate().map(|(i, v)| if which(i) { v + noise[i] } else { *v }).collect()
        };
        let (noise, other) = (numbers(24 * 40, 7), numbers(24 * 40, 9));
        let got = spoilt(&|i| i % 3 == 0, &noise);
        let flaw = case.flaw_of(&got, &spoilt(&|i| i % 3 == 0, &other), &[]).unwrap();
        assert!(flaw.hint.contains("threads race"), "{flaw}");
        case.check(&spoilt(&|i| i % n >= 32, &noise), "tiles that cross the edge of C");
        let small: Vec<f32> = noise.iter().map(|v| v * 1e-3).collect();
        case.check(&spoilt(&|i| i % 3 == 0, &small), "nearly correct");
        case.check(&spoilt(&|i| i == 4, &vec![f32::NAN; 24 * 40]), "1 elements are NaN");
        // There is no hint if no known cause fits the errors.
        let flaw = case.flaw_of(&got, &got, &[]).unwrap();
        assert_eq!((flaw.kind, flaw.hint.as_str()), (None, ""));
    }
}
