//! Tests the matrix products 01 to 07, which run on CUDA cores.

use crate::machine::{Machine, assert_close, real};
use warpbook_emulator::{Argument, LIMITS};
use warpbook_kernels::matmul::{Epilogue, Form};
use warpbook_kernels::{matmul, over_tiles};
use warpbook_record::Dtype;

/// Creates the argument `Epilogue` of gemm.cuh: alpha, beta, and the addresses of bias and mask.
fn epilogue(alpha: f32, beta: f32, bias: u64, mask: u64) -> Argument {
    let numbers = [alpha, beta].map(f32::to_le_bytes).concat();
    Argument::Bytes([numbers, bias.to_le_bytes().to_vec(), mask.to_le_bytes().to_vec()].concat())
}

pub const PLAIN: Form = Form::plain(Dtype::F32);

pub fn check(id: &str, [m, n, k]: [usize; 3], form: Form) -> Machine {
    let mut machine = Machine::default();
    let rows = matmul::rows();
    let row = rows.iter().find(|row| row.rung.id == id).unwrap_or_else(|| panic!("{id}"));
    let spec = form.apply_to(row.kernel().unwrap());
    let tile = &spec.tiles[0];
    let (a, b, bias, c) = (real(m * k, 1), real(k * n, 2), real(n, 3), real(m * n, 4));
    let [on_a, on_b, on_bias, on_c] = [&a, &b, &bias, &c].map(|values| machine.put(values));
    let number = |v: usize| Argument::U32(v.try_into().unwrap());
    let Argument::U64(bias_address) = on_bias else { unreachable!() };
    let (alpha, beta) = (0.5, 0.25);
    let [lda, ldb] = [if form.trans_a { m } else { k }, if form.trans_b { k } else { n }];
    let arguments = [
        on_a,
        on_b,
        on_c.clone(),
        number(m),
        number(n),
        number(k),
        number(lda),
        number(ldb),
        number(n),
        epilogue(alpha, beta, bias_address, 0),
    ];
    let shape = over_tiles(&spec, tile, m as u64, n as u64, LIMITS.multiprocessors);
    machine.run(&spec, tile, shape, &arguments);
    let mut want = vec![0.0; m * n];
    for i in 0..m {
        for j in 0..n {
            let left = |p: usize| f64::from(if form.trans_a { a[p * m + i] } else { a[i * k + p] });
            let right = |p: usize| f64::from(if form.trans_b { b[j * k + p] } else { b[p * n + j] });
            let sum: f64 = (0..k).map(|p| left(p) * right(p)).sum();
            let v = f64::from(alpha) * sum + f64::from(beta) * f64::from(c[i * n + j]);
            let with_bias = v + f64::from(bias[j]);
            want[i * n + j] = if form.epilogue == Epilogue::BiasRelu { with_bias.max(0.0) } else { v };
        }
    }
    assert_close(id, &machine.get(&on_c, m * n), &want, 1e-5);
    machine
}

const RUNGS: [&str; 7] =
    ["01_naive", "02_coalesced", "03_shared_tile", "04_register_1d", "05_register_2d", "06_vectorised", "07_warp_tile"];

#[test]
pub fn products_of_whole_tiles_are_those_of_the_cpu() {
    for id in RUNGS {
        check(id, [128, 128, 64], PLAIN);
    }
}

#[test]
fn products_of_odd_sizes_with_transposes_and_epilogues_are_those_of_the_cpu() {
    let form = Form { trans_a: true, trans_b: true, epilogue: Epilogue::BiasRelu, ..PLAIN };
    for id in RUNGS {
        check(id, [37, 53, 29], form);
    }
}
