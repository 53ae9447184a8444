//! Tests the softmax kernels of Warpbook's example.

use crate::machine::{Machine, assert_close, over_items, real};
use warpbook_emulator::Argument;
use warpbook_record::{Grid, KernelSpec, Source, Tile};

const NAIVE: Source =
    Source { path: "softmax/naive.cu", text: include_str!("../../../warpbook/examples/softmax/naive.cu") };
pub const WARP: Source =
    Source { path: "softmax/warp.cu", text: include_str!("../../../warpbook/examples/softmax/warp.cu") };
const ONLINE: Source =
    Source { path: "softmax/online.cu", text: include_str!("../../../warpbook/examples/softmax/online.cu") };

/// Runs a kernel that uses `lanes` lanes per row, and checks its results.
pub fn check(source: Source, lanes: i64, vectors: i64, [rows, columns]: [usize; 2]) -> Machine {
    let tile = Tile::new("t256", &[("THREADS", 256), ("LANES", lanes), ("VECTORS", vectors)]);
    let spec = KernelSpec::new(source, "softmax", std::slice::from_ref(&tile), Grid::Cover);
    let x: Vec<f32> = real(rows * columns, 9).iter().map(|v| 8.0 * v).collect();
    let mut machine = Machine::default();
    let (on_x, on_y) = (machine.put(&x), machine.room::<f32>(rows * columns));
    let shape = over_items(&spec, &tile, rows * lanes as usize);
    let arguments = [on_x, on_y.clone(), Argument::U32(rows as u32), Argument::U32(columns as u32)];
    machine.run(&spec, &tile, shape, &arguments);
    let want = x.chunks(columns).flat_map(|row| {
        let largest = row.iter().fold(f32::MIN, |a, b| a.max(*b));
        let powers: Vec<f64> = row.iter().map(|v| f64::from(v - largest).exp()).collect();
        let sum: f64 = powers.iter().sum();
        powers.into_iter().map(move |power| power / sum)
    });
    assert_close(source.path, &machine.get(&on_y, rows * columns), &want.collect::<Vec<_>>(), 1e-5);
    machine
}

#[test]
fn rows_are_normalised() {
    for (source, lanes, vectors) in [(NAIVE, 1, 1), (WARP, 32, 1), (ONLINE, 32, 8)] {
        for sizes in [[37, 100], [301, 509]] {
            check(source, lanes, vectors, sizes);
        }
    }
}
