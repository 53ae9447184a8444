//! Runs small products with a kernel that has never run before.

use crate::check::flaw::{Evidence, Flaw};
use crate::product::storage::{Storage, rounded};
use crate::{DeviceArray, DeviceArrays, Plan, Product, Workspace};
use warpbook_data::philox::fill_gaussians;
use warpbook_device::{CudaDevice, Result, Stream};
use warpbook_kernels::matmul::{Form, Row};
use warpbook_record::{Dim, Tile};

/// Number of elements before and after each matrix that no kernel may access.
const GUARD: usize = 1024;

/// The result of a rehearsal.
#[derive(Debug, Clone, PartialEq)]
pub enum Rehearsed {
    /// Every product was correct.
    Right,
    /// A product was wrong.
    Wrong(Box<Flaw>),
    /// Memory outside of C was written.
    Outside {
        /// The product's m, n and k.
        sizes: [usize; 3],
        /// Number of elements written before C and number written after C.
        elements: (usize, usize),
    },
}

/// Returns shapes (m, n, k) for trying a kernel with this tile: a cube of whole tiles, different sides, then sizes that are not multiples of the
/// tile.
fn shapes(tile: &Tile) -> [[usize; 3]; 3] {
    let sides = [Dim::Bm, Dim::Bn, Dim::Bk].map(|dim| tile.size(dim) as usize);
    let whole = sides.into_iter().fold(1, least_common_multiple);
    // For tiles with odd sizes, a cube of whole tiles would be too large.
    let side = if whole <= 512 { whole * 64usize.div_ceil(whole) } else { 256 };
    [[side, side, side], [side, 2 * side, 3 * side], [side + 3, side + 13, side / 2 + 5]]
}

/// Returns smaller shapes for the emulator: two tiles along one side, two along the other, then sizes that are not multiples of the tile.
fn emulated_shapes(tile: &Tile) -> [[usize; 3]; 3] {
    let side = |dim, least: usize| (tile.size(dim) as usize).clamp(least, 256);
    let [m, n, k] = [side(Dim::Bm, 16), side(Dim::Bn, 16), side(Dim::Bk, 8)];
    [[m, 2 * n, 2 * k], [2 * m, n, 3 * k], [m + 3, n - 3, 2 * k + 5]]
}

fn least_common_multiple(a: usize, b: usize) -> usize {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    a / x * b
}

/// Runs a row's kernel at small shapes, with NaNs around A and B and in C, and checks every element against f64. A kernel that is still
/// running after `limit_s` seconds causes an error after which the device can no longer be used.
///
/// # Errors
/// If the device or the kernel reports an error.
pub fn rehearse(device: &CudaDevice, row: &Row, tile: &Tile, form: Form, limit_s: f64) -> Result<Rehearsed> {
    let stream = device.stream()?;
    for sizes in if device.is_emulated() { emulated_shapes(tile) } else { shapes(tile) } {
        let found = rehearse_at(device, &stream, row, tile, form, sizes, limit_s)?;
        if found != Rehearsed::Right {
            return Ok(found);
        }
    }
    Ok(Rehearsed::Right)
}

fn rehearse_at(
    device: &CudaDevice,
    stream: &Stream,
    row: &Row,
    tile: &Tile,
    form: Form,
    sizes: [usize; 3],
    limit_s: f64,
) -> Result<Rehearsed> {
    let [m, n, k] = sizes;
    // The emulator knows where an array ends, and reports an access outside of it.
    let guard = if device.is_emulated() { 0 } else { GUARD };
    let side = |v: usize| u32::try_from(v).unwrap_or(u32::MAX);
    let product = Product::new(side(m), side(n), side(k), form);
    let plan = Plan::new(device, row, tile, &product, [true; 2])?;
    let [a_len, b_len, c_len] = product.elements();
    let (mut a, mut b) = (vec![0.0; a_len], vec![0.0; b_len]);
    fill_gaussians(&mut a, 11, 0, 0);
    fill_gaussians(&mut b, 11, 1, 0);
    let guarded = |values: &[f32]| -> Result<Storage> {
        let around = vec![f32::NAN; guard];
        Storage::from_f32(device, &[&around[..], values, &around].concat(), form.dtype)
    };
    let (in_a, in_b) = (guarded(&a)?, guarded(&b)?);
    let c = Storage::zeros(device, c_len + 2 * guard, form.out)?;
    let workspace = Workspace::for_plans(device, [&plan])?;
    let inside = |storage: &Storage, len| DeviceArray::from(storage).range(guard..guard + len);
    let arrays = DeviceArrays::new(inside(&in_a, a_len), inside(&in_b, b_len), inside(&c, c_len));
    let once = || -> Result<(Vec<f32>, Vec<bool>)> {
        c.fill_bytes(0xff)?;
        plan.run(stream, &arrays, &workspace, Some(limit_s))?;
        Ok((c.to_f32()?, c.untouched()?))
    };
    let (got, unwritten) = once()?;
    // A second run in the emulator gives the same result.
    let again = if device.is_emulated() { got.clone() } else { once()?.0 };
    let written = |range: std::ops::Range<usize>| unwritten[range].iter().filter(|u| !**u).count();
    let elements = (written(0..guard), written(guard + c_len..guard + c_len + guard));
    if elements != (0, 0) {
        return Ok(Rehearsed::Outside { sizes, elements });
    }
    let inner = guard..guard + c_len;
    let seen = |values: &[f32], transposed: bool, rows: usize, columns: usize| -> Vec<f32> {
        let at = |i: usize| if transposed { i % columns * rows + i / columns } else { i };
        (0..rows * columns).map(|i| rounded(values[at(i)], form.dtype)).collect()
    };
    let evidence = Evidence {
        sizes,
        tile: [Dim::Bm, Dim::Bn, Dim::Bk].map(|dim| tile.size(dim) as usize),
        dtype: form.dtype,
        out: form.out,
        a: &seen(&a, form.trans_a, m, k),
        b: &seen(&b, form.trans_b, k, n),
        got: &got[inner.clone()],
        unwritten: &unwritten[inner.clone()],
        again: &again[inner],
    };
    Ok(evidence.examine().map_or(Rehearsed::Right, |flaw| Rehearsed::Wrong(Box::new(flaw))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_fit_the_tile_and_do_not() {
        let tried = |bm, bn, bk| shapes(&Tile::new("t", &[("BM", bm), ("BN", bn), ("BK", bk)]));
        assert_eq!(tried(8, 32, 1), [[64, 64, 64], [64, 128, 192], [67, 77, 37]]);
        assert_eq!(tried(128, 256, 64)[0], [256, 256, 256]);
        assert_eq!(tried(48, 32, 8)[0], [96, 96, 96]);
        let emulated = |bm, bn, bk| emulated_shapes(&Tile::new("t", &[("BM", bm), ("BN", bn), ("BK", bk)]));
        assert_eq!(emulated(128, 64, 8), [[128, 128, 16], [256, 64, 24], [131, 61, 21]]);
        assert_eq!(emulated(8, 32, 1), [[16, 64, 16], [32, 32, 24], [19, 29, 21]]);
        // Cases: a kernel without a tile, and a kernel with an odd tile.
        assert_eq!(shapes(&Tile::new("t", &[]))[0], [64, 64, 64]);
        assert_eq!(tried(97, 89, 7)[0], [256, 256, 256]);
    }
}
