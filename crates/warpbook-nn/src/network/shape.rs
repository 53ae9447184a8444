//! The shape of one sample.

use crate::ops::Axis;
use std::fmt;

/// The shape of one sample's activations, without the batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Shape {
    /// An image with channels, rows and columns.
    Image {
        /// Number of channels.
        channels: usize,
        /// Number of rows.
        height: usize,
        /// Number of columns.
        width: usize,
    },
    /// A vector of this many features.
    Vector(usize),
}

impl Shape {
    /// Creates the shape of an image.
    #[must_use]
    pub fn image(channels: usize, height: usize, width: usize) -> Self {
        Self::Image { channels, height, width }
    }

    /// Returns the number of elements, at most `usize::MAX`.
    #[must_use]
    pub fn elements(self) -> usize {
        self.channels().saturating_mul(self.positions())
    }

    /// Returns the number of channels of an image or features of a vector: each has its own bias and mean.
    #[must_use]
    pub fn channels(self) -> usize {
        self.sides()[0]
    }

    /// Returns the number of positions in a channel: the pixels of an image, 1 for a vector.
    #[must_use]
    pub fn positions(self) -> usize {
        let [_, height, width] = self.sides();
        height.saturating_mul(width)
    }

    /// Returns the channels, the height and the width; a vector counts as an image of one pixel.
    #[must_use]
    pub fn sides(self) -> [usize; 3] {
        match self {
            Self::Image { channels, height, width } => [channels, height, width],
            Self::Vector(features) => [features, 1, 1],
        }
    }
}

/// Writes "64 x 12 x 12" (channels, height, width) or "9216".
impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Image { channels, height, width } => write!(f, "{channels} x {height} x {width}"),
            Self::Vector(features) => write!(f, "{features}"),
        }
    }
}

impl From<[usize; 3]> for Shape {
    fn from([channels, height, width]: [usize; 3]) -> Self {
        Self::image(channels, height, width)
    }
}

impl From<usize> for Shape {
    fn from(features: usize) -> Self {
        Self::Vector(features)
    }
}

/// Returns the number of window positions along an extent with a border on both sides; `None` if the window does not fit or the stride is 0.
#[must_use]
pub fn windows(extent: usize, size: usize, stride: usize, padding: usize) -> Option<usize> {
    Axis { size: extent, window: size, stride, padding }.output("network", "side").ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_those_of_a_convolution() {
        let check = |[extent, size, stride, padding]: [usize; 4], expect: Option<usize>| {
            assert_eq!(windows(extent, size, stride, padding), expect, "{extent} {size} {stride} {padding}");
        };
        check([28, 3, 1, 0], Some(26));
        check([32, 3, 1, 1], Some(32));
        check([24, 2, 2, 0], Some(12));
        check([5, 2, 3, 0], Some(2));
        check([1, 3, 1, 1], Some(1));
        check([2, 3, 1, 0], None);
        check([2, 0, 1, 0], None);
        check([2, 1, 0, 0], None);
        check([usize::MAX, 3, 1, 1], None);
    }

    #[test]
    fn shapes_are_written_as_people_do() {
        assert_eq!(Shape::image(64, 12, 13).to_string(), "64 x 12 x 13");
        assert_eq!(Shape::Vector(9216).to_string(), "9216");
        assert_eq!(Shape::image(usize::MAX, 2, 2).elements(), usize::MAX);
    }
}
