//! A batch from a data set of u8 images: gathered, normalised, and cropped and flipped at random.
//!
//! Images are `[n][channels][height][width]` as data sets store them; the batch is NHWC. A value becomes (v / 255 - mean) / deviation. A
//! crop shifts the image by up to `padding` in each direction; pixels from outside are black, v = 0, as in
//! `torchvision.transforms.RandomCrop(size, padding)`. A flip mirrors columns with probability 1/2.
//!
//! With `reflect` the border mirrors the image without its edge, as `torch.nn.functional.pad(mode="reflect")` does. With an epoch flips
//! alternate: epoch 0 mirrors an image with probability 1/2, and every later epoch does the opposite of the one before. Source: Jordan,
//! "94% on CIFAR-10 in 3.29 Seconds on a Single GPU", 2024. The top bit of the first word of the Philox block \[index, 1, 0x61756772, 0\]
//! decides the flip in epoch 0.
//!
//! Slot b of the batch at a step draws the Philox block with the counter \[b, 0, 0x61756772, step\]: its first word gives the row where the
//! crop begins, its second the column, and the top bit of its third decides whether the crop is mirrored.

pub mod cpu;
pub mod cuda;

use super::error::{Check, OpError, Result, elements};
use warpbook_data::philox::philox4x32_4;

pub(crate) const OP: &str = "augment";

/// Word of the Philox counter that separates these random numbers from the random numbers of other operations.
const NAME: u32 = 0x6175_6772;

/// Image shape and settings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Augment<'a> {
    /// Channels per image.
    pub channels: usize,
    /// Rows per image.
    pub height: usize,
    /// Columns per image.
    pub width: usize,
    /// Mean of the values between 0 and 1, `[channels]`.
    pub mean: &'a [f32],
    /// Standard deviation, `[channels]`, above 0.
    pub deviation: &'a [f32],
    /// Largest shift of a crop in pixels; 0 for no crops.
    pub padding: usize,
    /// True if images are mirrored at random.
    pub flip: bool,
    /// True if the border mirrors the image instead of being black; the padding must then be below both sizes.
    pub reflect: bool,
    /// Epoch of alternating flips; `None` if each step draws new flips.
    pub epoch: Option<u32>,
    /// Fixed crop and flip of all images, instead of random ones.
    pub view: Option<Draw>,
    /// Key of the Philox random numbers.
    pub seed: u64,
    /// Index of the training step, which selects the random numbers.
    pub step: u32,
}

/// The crop and flip of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Draw {
    /// Row of the padded image where the crop begins, 0 to 2 `padding`.
    pub row: usize,
    /// Column of the padded image where the crop begins, 0 to 2 `padding`.
    pub column: usize,
    /// True if the crop is mirrored.
    pub flip: bool,
}

impl<'a> Augment<'a> {
    /// Creates settings that only normalise images of this shape, `[channels, height, width]`, without random numbers.
    #[must_use]
    pub fn normalise([channels, height, width]: [usize; 3], mean: &'a [f32], deviation: &'a [f32]) -> Self {
        Self {
            channels,
            height,
            width,
            mean,
            deviation,
            padding: 0,
            flip: false,
            reflect: false,
            epoch: None,
            view: None,
            seed: 0,
            step: 0,
        }
    }

    /// Draws the crop and flip for a slot of the batch.
    #[must_use]
    pub fn draw(&self, slot: u32) -> Draw {
        let words = philox4x32_4(self.seed, [slot, 0, NAME, self.step]);
        let places = 2 * self.padding as u128 + 1;
        let below = |word: u32| ((u128::from(word) * places) >> 32) as usize;
        Draw { row: below(words[0]), column: below(words[1]), flip: self.flip && words[2] >> 31 == 1 }
    }

    /// Draws the crop and flip for the image with this index in a slot of the batch, with alternating flips or the fixed view if set.
    #[must_use]
    pub fn draw_of(&self, slot: u32, index: u32) -> Draw {
        match (self.view, self.epoch) {
            (Some(view), _) => view,
            (None, Some(epoch)) if self.flip => {
                let first = philox4x32_4(self.seed, [index, 1, NAME, 0])[0] >> 31;
                Draw { flip: (first ^ epoch) & 1 == 1, ..self.draw(slot) }
            }
            _ => self.draw(slot),
        }
    }

    /// Normalises a value of a channel.
    pub(crate) fn normalised(&self, value: u8, channel: usize) -> f32 {
        (f32::from(value) / 255.0 - self.mean[channel]) / self.deviation[channel]
    }

    pub(crate) fn image_len(&self) -> usize {
        elements(&[self.channels, self.height, self.width])
    }

    /// Checks sizes, settings, lengths and indices.
    pub(crate) fn check(&self, images: usize, indices: &[u32], out: usize) -> Result<()> {
        let Self { channels, height, width, mean, deviation, padding, .. } = *self;
        let check = Check(OP);
        check.positive(&[("channels", channels), ("height", height), ("width", width)])?;
        check.value("the padding", padding, padding < 1 << 30, "below 2^30")?;
        let fits = !self.reflect || padding < height.min(width);
        check.value("the padding", padding, fits, "less than the image's height and width for reflected borders")?;
        let view = self.view.is_none_or(|v| v.row.max(v.column) <= 2 * padding);
        check.value("the padding", padding, view, "at least half of the view's largest offset")?;
        check.lengths(&[("mean", mean.len(), &[channels]), ("deviation", deviation.len(), &[channels])])?;
        deviation.iter().try_for_each(|d| check.value("a deviation", d, *d > 0.0, "above 0"))?;
        check.value("the batch", indices.len(), u32::try_from(indices.len()).is_ok(), "below 2^32")?;
        let count = images / self.image_len();
        check.lengths(&[
            ("images", images, &[count, channels, height, width]),
            ("out", out, &[indices.len(), height, width, channels]),
        ])?;
        let wrong = indices.iter().position(|index| *index as usize >= count);
        wrong.map_or(Ok(()), |at| Err(OpError::Index { op: OP, name: "index", at, value: indices[at] as usize, count }))
    }
}
