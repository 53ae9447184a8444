//! Sums of two arrays on the CPU.

use super::check;
use crate::ops::error::Result;
use warpbook_data::parallel::{CHUNK, chunks, map2};

/// Computes y = a + b. y is not read.
///
/// # Errors
/// If the slices differ in length.
pub fn forward(a: &[f32], b: &[f32], y: &mut [f32]) -> Result<()> {
    check("b", b.len(), a.len())?;
    check("y", y.len(), a.len())?;
    map2(a, b, y, |a, b| a + b);
    Ok(())
}

/// Computes dx += dy.
///
/// # Errors
/// If the slices differ in length.
pub fn accumulate(dy: &[f32], dx: &mut [f32]) -> Result<()> {
    check("dx", dx.len(), dy.len())?;
    chunks(dx, CHUNK, &|chunk, dx| {
        dx.iter_mut().zip(&dy[chunk * CHUNK..]).for_each(|(dx, dy)| *dx += dy);
    });
    Ok(())
}
