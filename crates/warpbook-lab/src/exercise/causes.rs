//! Finds likely causes of wrong values.

use super::case::{Case, Role, Tolerance};

/// A mistake that an exercise recognises by the wrong values that it produces.
#[derive(Debug, Clone, Copy)]
pub struct Mistake {
    /// Id, such as "no_block_index"; names of files in `wrong/` begin with the id.
    pub id: &'static str,
    /// The likely cause, as a sentence.
    pub sentence: &'static str,
    /// Returns true if the values look like this mistake.
    pub holds: fn(&Wrong) -> bool,
}

impl Mistake {
    /// Creates a mistake from its id, its sentence and its test.
    #[must_use]
    pub const fn new(id: &'static str, sentence: &'static str, holds: fn(&Wrong) -> bool) -> Self {
        Self { id, sentence, holds }
    }
}

/// The values of the first array of a launch that has a wrong element.
#[derive(Debug)]
pub struct Wrong<'a> {
    pub(crate) case: &'a Case,
    pub(crate) array: &'static str,
    pub(crate) got: Vec<f64>,
    pub(crate) expected: Vec<f64>,
    pub(crate) tolerance: Tolerance,
    /// For each element, whether a thread has written it.
    pub(crate) written: Vec<bool>,
}

impl Wrong<'_> {
    /// Returns the case, with its launch shape and its arguments.
    #[must_use]
    pub fn case(&self) -> &Case {
        self.case
    }

    /// Returns the array's name in the signature.
    #[must_use]
    pub fn array(&self) -> &'static str {
        self.array
    }

    /// Returns the elements of the array after the launch.
    #[must_use]
    pub fn got(&self) -> &[f64] {
        &self.got
    }

    /// Returns the expected elements of the array.
    #[must_use]
    pub fn expected(&self) -> &[f64] {
        &self.expected
    }

    /// Returns the elements of an argument before the launch; empty for a number, an output or an unknown name.
    #[must_use]
    pub fn input(&self, name: &str) -> Vec<f64> {
        self.case.argument(name).and_then(Role::before).map(super::case::Values::numbers).unwrap_or_default()
    }

    /// Returns the value of a scalar argument; NaN for any other name.
    #[must_use]
    pub fn number(&self, name: &str) -> f64 {
        match self.case.argument(name) {
            Some(Role::Int(value)) => f64::from(*value),
            Some(Role::Unsigned(value)) => f64::from(*value),
            Some(Role::Float(value)) => f64::from(*value),
            _ => f64::NAN,
        }
    }

    /// Returns true if the element with this index is wrong.
    #[must_use]
    pub fn is_wrong(&self, i: usize) -> bool {
        !self.tolerance.holds(self.got[i], self.expected[i])
    }

    /// Returns true if a thread has written the element with this index.
    #[must_use]
    pub fn is_written(&self, i: usize) -> bool {
        self.written[i]
    }

    /// Returns the index of the first wrong element.
    #[must_use]
    pub fn first(&self) -> usize {
        (0..self.got.len()).find(|i| self.is_wrong(*i)).unwrap_or(0)
    }

    /// Returns the number of wrong elements.
    #[must_use]
    pub fn count(&self) -> usize {
        (0..self.got.len()).filter(|i| self.is_wrong(*i)).count()
    }

    /// Returns true if the wrong elements are exactly those for which `is_wrong` returns true.
    #[must_use]
    pub fn only(&self, is_wrong: impl Fn(usize) -> bool) -> bool {
        (0..self.got.len()).all(|i| self.is_wrong(i) == is_wrong(i))
    }

    /// Returns true if the written elements are exactly those for which `is_written` returns true.
    #[must_use]
    pub fn written_only(&self, is_written: impl Fn(usize) -> bool) -> bool {
        (0..self.got.len()).all(|i| self.written[i] == is_written(i))
    }

    /// Returns true if every element has the value that `value` computes, within the tolerance of the exercise, or within 1e-5 if results must be exact.
    /// `value` should return the value that the mistake leads to. An infinite value or NaN matches no element.
    #[must_use]
    pub fn looks_like(&self, value: impl Fn(usize) -> f64) -> bool {
        (0..self.got.len()).all(|i| self.is_close(self.got[i], value(i)))
    }

    /// Returns true if there are wrong elements that a thread has written, and all of them have the values that `value` computes.
    #[must_use]
    pub fn wrong_ones_look_like(&self, value: impl Fn(usize) -> f64) -> bool {
        let mut wrong = (0..self.got.len()).filter(|i| self.is_wrong(*i) && self.written[*i]).peekable();
        wrong.peek().is_some() && wrong.all(|i| self.is_close(self.got[i], value(i)))
    }

    fn is_close(&self, got: f64, value: f64) -> bool {
        let (relative, scale) = match self.tolerance {
            Tolerance::Exact => (1e-5, 1e-3),
            Tolerance::Within { relative, scale } => (relative, scale),
        };
        // With an infinite reference, every value would be within the relative tolerance.
        value.is_finite() && Tolerance::Within { relative, scale }.holds(got, value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_is_not_finite_is_like_no_other() {
        let case = Case::new("");
        let tolerance = Tolerance::Within { relative: 1e-5, scale: 1.0 };
        let wrong =
            Wrong { case: &case, array: "y", got: vec![2.0], expected: vec![1.0], tolerance, written: vec![true] };
        assert!(wrong.looks_like(|_| 2.0) && wrong.wrong_ones_look_like(|_| 2.0));
        for value in [3.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN] {
            assert!(!wrong.looks_like(|_| value) && !wrong.wrong_ones_look_like(|_| value), "{value}");
        }
    }
}
