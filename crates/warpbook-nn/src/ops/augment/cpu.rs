//! Gathers and augments batches on the CPU.

use super::{Augment, Draw};
use crate::ops::error::Result;
use warpbook_data::parallel::chunks;

/// Writes the images with these indices into `out`, `[indices.len()][height][width][channels]`, which is not read.
///
/// # Errors
/// If a size is zero, a setting is out of range, a slice has the wrong length, or an index is out of range.
pub fn gather(a: &Augment<'_>, images: &[u8], indices: &[u32], out: &mut [f32]) -> Result<()> {
    gather_from(a, 0, images, indices, out)
}

/// Like [`gather`], but for a part of a batch whose first image has slot `first`.
///
/// # Errors
/// See [`gather`].
pub fn gather_from(a: &Augment<'_>, first: u32, images: &[u8], indices: &[u32], out: &mut [f32]) -> Result<()> {
    a.check(images.len(), indices, out.len())?;
    let len = a.image_len();
    // This table of all normalised values avoids a division per element, which would take longer than the rest of the work.
    let values: Vec<[f32; 256]> =
        (0..a.channels).map(|c| std::array::from_fn(|value| a.normalised(value as u8, c))).collect();
    chunks(out, len, &|slot, out| {
        let image = &images[indices[slot] as usize * len..][..len];
        write_image(a, image, a.draw_of(first.wrapping_add(slot as u32), indices[slot]), &values, out);
    });
    Ok(())
}

fn write_image(a: &Augment<'_>, image: &[u8], draw: Draw, values: &[[f32; 256]], out: &mut [f32]) {
    let inside = |at: usize, size: usize| match at.checked_sub(a.padding) {
        Some(at) if at >= size => a.reflect.then(|| 2 * size - 2 - at),
        None => a.reflect.then(|| a.padding - at),
        inside => inside,
    };
    for (y, row) in out.chunks_exact_mut(a.width * a.channels).enumerate() {
        let source_row = inside(y + draw.row, a.height);
        for (x, pixel) in row.chunks_exact_mut(a.channels).enumerate() {
            let x = if draw.flip { a.width - 1 - x } else { x };
            let place = source_row.zip(inside(x + draw.column, a.width));
            let place = place.map(|(y, x)| y * a.width + x);
            for (c, (out, values)) in pixel.iter_mut().zip(values).enumerate() {
                let value = place.map_or(0, |place| image[c * a.height * a.width + place]);
                *out = values[usize::from(value)];
            }
        }
    }
}
