//! Windows that move over an image, for convolution and pooling.

use super::error::{Check, OpError, Result};
use std::ops::Range;

/// One side of an image and the windows along it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Axis {
    pub size: usize,
    pub window: usize,
    pub stride: usize,
    pub padding: usize,
}

/// The elements of one window that lie in the image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Taps {
    /// Range within the window of the elements that lie in the image.
    pub inside: Range<usize>,
    /// Position in the image of the first element that lies in the image; 0 if there is none.
    pub first: usize,
}

impl Axis {
    /// Returns the number of windows that fit: floor((size + 2 padding - window) / stride) + 1.
    ///
    /// # Errors
    /// If the size, the window or the stride is 0, the padded size is 2^31 or more, or the window
    /// is larger than the padded size.
    pub fn output(self, op: &'static str, side: &'static str) -> Result<usize> {
        let Self { size, window, stride, padding } = self;
        Check(op).positive(&[(side, size), ("the window", window), ("the stride", stride)])?;
        let padded = size.saturating_add(padding.saturating_mul(2));
        Check(op).value("a padded side", padded, i32::try_from(padded).is_ok(), "below 2^31")?;
        if window > padded {
            return Err(OpError::Window { op, side, window, size, padding });
        }
        Ok((padded - window) / stride + 1)
    }

    /// Returns the elements of the window of an output that lie in the image.
    pub fn taps(self, output: usize) -> Taps {
        let Self { size, window, stride, padding } = self;
        // Computes in coordinates of the padded image.
        let start = output * stride;
        let from = padding.saturating_sub(start).min(window);
        let to = (size + padding).saturating_sub(start).min(window);
        if from >= to {
            return Taps { inside: 0..0, first: 0 };
        }
        Taps { inside: from..to, first: start + from - padding }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taps_are_those_inside() {
        for size in 1..6 {
            for window in 1..5 {
                for stride in 1..4 {
                    for padding in 0..6 {
                        let axis = Axis { size, window, stride, padding };
                        let Ok(outputs) = axis.output("test", "height") else {
                            assert!(window > size + 2 * padding);
                            continue;
                        };
                        for output in 0..outputs {
                            let at = |tap: usize| (output * stride + tap).checked_sub(padding).filter(|i| *i < size);
                            let taps = axis.taps(output);
                            for tap in 0..window {
                                assert_eq!(taps.inside.contains(&tap), at(tap).is_some(), "{axis:?} {output} {tap}");
                            }
                            assert_eq!(taps.first, (0..window).find_map(at).unwrap_or(0), "{axis:?} {output}");
                        }
                        assert!(outputs * stride + window > size + 2 * padding, "one more would fit: {axis:?}");
                    }
                }
            }
        }
    }
}
