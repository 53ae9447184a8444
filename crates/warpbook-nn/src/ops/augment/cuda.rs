//! Gathers and augments batches on a GPU, for both layouts of the batch.
#![allow(unsafe_code)]

use super::{Augment, Draw, OP};
use crate::ops::Layout;
use crate::ops::error::Check;
use crate::ops::error::one;
use warpbook_device::{Buffer, CudaDevice, Kernel, KernelArg, Result, Slice, Stream};
use warpbook_gemm::DeviceArray;
use warpbook_gemm::kernel_args::load;
use warpbook_kernels::Launch;
use warpbook_record::Dtype;

/// Number of the mode "no mirroring" in `kernels/nn/augment.cu`.
const FLIP_NONE: u32 = 0;
const FLIP_RANDOM: u32 = 1;
const FLIP_ALL: u32 = 2;
const FLIP_ALTERNATING: u32 = 3;

/// Number of blocks of 256 threads that fit on a multiprocessor.
const BLOCKS_PER_MULTIPROCESSOR: u32 = 8;

/// Returns the number of blocks that share an image of `len` elements: at most `room`, and so few that each block has at least one element.
fn shared_by(len: usize, threads: usize, room: u32) -> u32 {
    let most = u16::try_from(len.div_ceil(threads)).unwrap_or(u16::MAX);
    room.clamp(1, u32::from(most).max(1))
}

/// The kernel that gathers batches, loaded for the settings of one data set, one element type and one layout.
#[derive(Debug, Clone)]
pub struct Gather {
    dtype: Dtype,
    kernel: Kernel,
    /// Number of blocks that the device runs at once.
    at_once: u32,
    sizes: [u32; 3],
    padding: u32,
    flip: u32,
    reflect: u32,
    /// The crop and flip of every image, if they are not random.
    view: Option<[u32; 2]>,
    /// Steps per epoch, for alternating flips.
    steps_per_epoch: u32,
    /// Position of the first image in its batch, which selects the random numbers.
    first: u32,
    seed: u64,
    /// Normalised value of each possible pixel byte, f32 `[channels][256]`.
    values: Slice<f32>,
}

impl Gather {
    /// Compiles and loads the kernel, and computes the normalised value of each u8 value per channel, as the CPU does. [`Augment::step`] is
    /// ignored; for alternating flips [`Gather::steps_per_epoch`] determines the epoch.
    ///
    /// # Errors
    /// If a size is zero, or a setting is out of range; if compiling fails or the device reports an error.
    pub fn new(device: &CudaDevice, a: &Augment<'_>, dtype: Dtype, layout: Layout) -> Result<Self> {
        a.check(0, &[], 0)?;
        let check = Check(OP);
        let allowed = "below 2^30 on a GPU";
        for size in [a.channels, a.height, a.width, a.image_len()] {
            check.value("a size of an image", size, size < 1 << 30, allowed)?;
        }
        let [kernel] = load(device, [warpbook_kernels::nn::gather(dtype, layout)])?;
        let of_channel = |c: usize| (0..=255u8).map(move |value| a.normalised(value, c));
        let values: Vec<f32> = (0..a.channels).flat_map(of_channel).collect();
        let values: Buffer<f32> = device.buffer_from(&values)?;
        let word = |size| check.word("a size", size);
        Ok(Self {
            dtype,
            kernel,
            at_once: device.info().multiprocessors * BLOCKS_PER_MULTIPROCESSOR,
            sizes: [word(a.channels)?, word(a.height)?, word(a.width)?],
            padding: word(a.padding)?,
            flip: match (a.view, a.flip, a.epoch) {
                (Some(Draw { flip: true, .. }), ..) => FLIP_ALL,
                (Some(_), ..) | (None, false, _) => FLIP_NONE,
                (None, true, None) => FLIP_RANDOM,
                (None, true, Some(_)) => FLIP_ALTERNATING,
            },
            reflect: a.reflect.into(),
            view: a.view.map(|v| Ok::<_, warpbook_device::Error>([word(v.row)?, word(v.column)?])).transpose()?,
            steps_per_epoch: 1,
            first: 0,
            seed: a.seed,
            values: values.range(..),
        })
    }

    /// Sets the number of steps per epoch, at least 1, from which alternating flips compute the epoch.
    #[must_use]
    pub fn steps_per_epoch(self, steps: u32) -> Self {
        Self { steps_per_epoch: steps.max(1), ..self }
    }

    /// Sets the position of the first image if only a part of a batch is gathered, because images draw random numbers by position.
    #[must_use]
    pub fn from_sample(self, first: u32) -> Self {
        Self { first, ..self }
    }

    /// Writes the images with these indices, `[batch]`, into `out`, which holds `[batch]` images. `images` is
    /// `[count][channels][height][width]`; `step`, `[1]`, is the training step. An image whose index is out of range becomes NaN.
    ///
    /// # Errors
    /// If an array has the wrong length or type; if the launch fails.
    pub fn gather(
        &self,
        stream: &Stream,
        (images, indices): (&Slice<u8>, &Slice<u32>),
        step: &Slice<u32>,
        out: &DeviceArray,
    ) -> Result<()> {
        let check = Check(OP);
        let [channels, height, width] = self.sizes.map(|size| size as usize);
        let len = channels * height * width;
        let (batch, count) = (indices.len(), images.len() / len);
        check.lengths(&[("images", images.len(), &[count, channels, height, width])])?;
        check.arrays(self.dtype, &[("out", out, &[batch, channels, height, width])])?;
        one(check, "the step", Some(step))?;
        let (count, blocks) = (check.word("the number of images", count)?, check.word("the batch", batch)?);
        if blocks == 0 {
            return Ok(());
        }
        let [c, h, w] = &self.sizes;
        let (drawn, [row, column]) = (u32::from(self.view.is_none()), self.view.unwrap_or_default());
        let args: [&dyn KernelArg; 18] = [
            images,
            &count,
            c,
            h,
            w,
            indices,
            &self.values,
            &self.padding,
            &self.flip,
            &self.seed,
            step,
            &self.reflect,
            &self.steps_per_epoch,
            &drawn,
            &row,
            &column,
            &self.first,
            out.bytes(),
        ];
        let shape = self.kernel.shape(1);
        let shared_by = shared_by(len, shape.block[0] as usize, self.at_once / blocks);
        let shape = Launch { grid: [blocks, shared_by, 1], ..shape };
        // SAFETY: the arguments match `gather(images, count, channels, h, w, indices, values, padding, flip, seed, step, reflect, steps_per_epoch, drawn,
        // fixed_row, fixed_column, first, out)`. The grid has one column of blocks per index, the types and lengths were checked, and the kernel itself
        // compares the indices with `count`.
        unsafe { self.kernel.launch(stream, shape, &args) }
    }
}

/// The kernel that gathers batches of rows, loaded for one element type.
#[derive(Debug, Clone)]
pub struct GatherRows {
    dtype: Dtype,
    kernel: Kernel,
}

impl GatherRows {
    /// Compiles and loads the kernel.
    ///
    /// # Errors
    /// If compiling fails or the device reports an error.
    pub fn new(device: &CudaDevice, dtype: Dtype) -> Result<Self> {
        let [kernel] = load(device, [warpbook_kernels::nn::gather_rows(dtype)])?;
        Ok(Self { dtype, kernel })
    }

    /// Writes the rows with these indices, `[batch]`, into `out`, `[batch][width]`. `rows` is `[count][width]`. A row whose index is out of
    /// range becomes NaN.
    ///
    /// # Errors
    /// If an array has the wrong length or type; if the launch fails.
    pub fn gather(
        &self,
        stream: &Stream,
        (rows, indices): (&Slice<f32>, &Slice<u32>),
        out: &DeviceArray,
    ) -> Result<()> {
        let (check, batch) = (Check(OP), indices.len());
        let width = out.len().checked_div(batch).unwrap_or(0);
        check.positive(&[("the batch", batch), ("the numbers of a row", width)])?;
        let count = rows.len() / width;
        check.lengths(&[("rows", rows.len(), &[count, width])])?;
        check.arrays(self.dtype, &[("out", out, &[batch, width])])?;
        let [count, width, blocks] = [count, width, batch].map(|size| check.word("a size", size));
        let shape = Launch { grid: [blocks?, 1, 1], ..self.kernel.shape(1) };
        let args: [&dyn KernelArg; 5] = [rows, &count?, &width?, indices, out.bytes()];
        // SAFETY: the arguments match `gather_rows(rows, count, width, indices, out)`. The grid has one block per index, the types and lengths were checked,
        // and the kernel itself compares the indices with `count`.
        unsafe { self.kernel.launch(stream, shape, &args) }
    }
}

#[cfg(test)]
mod tests {
    use super::shared_by;

    #[test]
    fn few_images_are_shared_by_several_blocks() {
        // CIFAR-10 at a batch of 128 on 132 multiprocessors: 1056 blocks, at most 12 for 3072 elements.
        assert_eq!(shared_by(3072, 256, 1056 / 128), 8);
        assert_eq!(shared_by(3072, 256, 1056), 12);
        assert_eq!(shared_by(784, 256, 1056 / 2000), 1);
        assert_eq!(shared_by(10, 256, 1056), 1);
        assert_eq!(shared_by(1 << 40, 256, u32::MAX), 65_535, "the most of a grid");
    }
}
