//! Random inputs. Every try draws new ones from a seed, which the verdict prints.

use warpbook_data::philox::philox4x32;

/// Draws the inputs of one case: a sequence of random numbers that is determined by a seed.
#[derive(Debug, Clone)]
pub struct Draw {
    seed: u64,
    stream: u32,
    next: u64,
}

impl Draw {
    /// Starts a sequence; the same seed and stream give the same numbers.
    #[must_use]
    pub fn new(seed: u64, stream: u32) -> Self {
        Self { seed, stream, next: 0 }
    }

    /// Draws 32 random bits.
    pub fn bits(&mut self) -> u32 {
        let [word, ..] = philox4x32(self.seed, self.next, self.stream);
        self.next += 1;
        word
    }

    /// Draws a number in (-1, 1), a multiple of 2^-23 that is not 0, so that products and sums of a few numbers can be told from zeros.
    pub fn float(&mut self) -> f32 {
        let magnitude = (self.bits() >> 9 | 1) as f32 / (1u32 << 23) as f32;
        if self.bits() & 1 == 0 { magnitude } else { -magnitude }
    }

    /// Draws `n` numbers like [`Draw::float`].
    pub fn floats(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| self.float()).collect()
    }

    /// Draws `n` small integers from -`most` to `most`, except 0, as floats: their sums are exact in any order.
    pub fn whole_floats(&mut self, n: usize, most: u32) -> Vec<f32> {
        let mut one = || (self.below(most.max(1)) + 1) as f32 * if self.bits() & 1 == 0 { 1.0 } else { -1.0 };
        (0..n).map(|_| one()).collect()
    }

    /// Draws an integer from 0 to `limit` - 1; `limit` must be at least 1.
    pub fn below(&mut self, limit: u32) -> u32 {
        ((u64::from(self.bits()) * u64::from(limit.max(1))) >> 32) as u32
    }

    /// Draws `n` integers from 0 to `limit` - 1.
    pub fn integers(&mut self, n: usize, limit: u32) -> Vec<i32> {
        (0..n).map(|_| self.below(limit).cast_signed()).collect()
    }

    /// Draws a random permutation of the numbers from 0 to `n` - 1.
    pub fn permutation(&mut self, n: u32) -> Vec<u32> {
        let mut all: Vec<u32> = (0..n).collect();
        for i in (1..n).rev() {
            let j = self.below(i + 1);
            all.swap(i as usize, j as usize);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_fixes_its_numbers_and_another_gives_others() {
        let floats = |seed, stream| Draw::new(seed, stream).floats(100);
        assert_eq!(floats(1, 2), floats(1, 2));
        assert_ne!(floats(1, 2), floats(2, 2));
        assert_ne!(floats(1, 2), floats(1, 3));
        assert!(floats(7, 0).iter().all(|v| *v != 0.0 && v.abs() < 1.0));
        assert!(floats(7, 0).iter().any(|v| *v < 0.0) && floats(7, 0).iter().any(|v| *v > 0.0));
    }

    #[test]
    fn whole_numbers_stay_within_their_limits() {
        let mut draw = Draw::new(3, 0);
        let all = draw.integers(1000, 16);
        assert!((0..16).all(|kind| all.contains(&kind)) && all.iter().all(|kind| (0..16).contains(kind)));
        let mut order = draw.permutation(100);
        order.sort_unstable();
        assert_eq!(order, (0..100).collect::<Vec<_>>());
        assert!(draw.whole_floats(100, 4).iter().all(|v| v.fract() == 0.0 && *v != 0.0 && v.abs() <= 4.0));
    }
}
