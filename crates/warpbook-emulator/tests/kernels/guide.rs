//! Tests the pairs of kernels from the guide. Each kernel takes two arrays, a number of elements, and a size.

use crate::machine::{Element, Machine, assert_close, real, whole};
use warpbook_emulator::{Argument, LIMITS};
use warpbook_kernels::{Launch, guide};
use warpbook_record::{Dim, Grid, KernelSpec};

/// Runs a kernel with at least `threads` threads, and returns the contents of y afterwards.
fn run<T: Element>(spec: &KernelSpec, x: &[T], y: &[f32], [n, size]: [usize; 2], threads: usize) -> Vec<f32> {
    let mut machine = Machine::default();
    // Uses the last tile, which has the most resident threads per SM.
    let tile = spec.tiles.last().unwrap();
    let (on_x, on_y) = (machine.put(x), machine.put(y));
    let a_block = tile.size(Dim::Threads) as usize;
    let resident = (LIMITS.multiprocessors as u64 * tile.size(Dim::BlocksPerSm)) as usize;
    let blocks = match spec.grid {
        Grid::One => 1,
        Grid::Resident => resident.min(threads.div_ceil(a_block)),
        _ => threads.div_ceil(a_block),
    };
    let shape = Launch { grid: [blocks as u32, 1, 1], block: [a_block as u32, 1, 1], dynamic_shared_bytes: 0 };
    let numbers = [n, size].map(|v| Argument::U32(v as u32));
    machine.run(spec, tile, shape, &[on_x, on_y.clone(), numbers[0].clone(), numbers[1].clone()]);
    machine.get(&on_y, y.len())
}

/// Runs a kernel with a thread for every `group` elements, and compares the bits of its results.
fn each(spec: &KernelSpec, n: usize, size: usize, group: usize, want: impl Fn(&[f32], usize) -> f32) {
    let x = real(n, 11);
    let got = run(spec, &x, &vec![f32::NAN; n], [n, size], n / group);
    for (i, got) in got.into_iter().enumerate() {
        let want = want(&x, i);
        assert_eq!(got.to_bits(), want.to_bits(), "{}: element {i} is {got}, not {want}", spec.file);
    }
}

#[test]
pub fn elements_are_scaled_whatever_thread_takes_them() {
    for n in [1024, 6144] {
        let double = |x: &[f32], i: usize| 2.0 * x[i];
        each(&guide::strided(), n, 32, 1, double);
        each(&guide::coalesced(), n, 1, 1, double);
        each(&guide::loads_4(), n, 1, 1, double);
        each(&guide::loads_8(), n, 1, 2, double);
        each(&guide::loads_16(), n, 1, 4, double);
    }
}

#[test]
pub fn matrices_are_transposed() {
    for edge in [32, 96] {
        let turned = |x: &[f32], i: usize| x[i % edge * edge + i / edge];
        each(&guide::transpose_direct(), edge * edge, edge, 1, turned);
        for spec in [guide::transpose_shared(), guide::transpose_padded(), guide::transpose_swizzled()] {
            each(&spec, edge * edge, edge, 4, turned);
        }
    }
}

#[test]
pub fn lanes_that_part_meet_again() {
    for (n, kinds) in [(1280, 5), (2048, 32)] {
        let steps = |x: &[f32], i: usize| {
            let kind = (i % kinds) as f32;
            // Uses `mul_add` because the compiler fuses the product and the sum, here and in the loop.
            let (a, b) = ((-0.001f32).mul_add(kind, 0.99), 0.01 * kind);
            (0..64).fold(x[i], |v, _| a.mul_add(v, b))
        };
        each(&guide::branches_divergent(), n, kinds, 1, steps);
        each(&guide::branches_uniform(), n, kinds, 1, steps);
    }
}

#[test]
pub fn chains_of_operations_have_the_same_bits() {
    let operation = |v: f32, number: usize| if number.is_multiple_of(2) { v.mul_add(0.9, 0.1) } else { v.max(0.0) };
    for n in [1000, 5000] {
        each(&guide::one_operation(), n, 3, 1, |x, i| operation(x[i], 3));
        each(&guide::all_operations(), n, 7, 1, |x, i| (0..7).fold(x[i], operation));
        each(&guide::expression(), n, 1, 1, |x, i| x[i]);
        each(&guide::made(), n, 1, 1, |_, i| {
            ((i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as f32 / 8_388_608.0 - 1.0
        });
        for at_a_time in [1, 2, 4, 8] {
            each(&guide::chains(at_a_time), n, 1, 1, |x, i| {
                let ends = (0..8).map(|j| (0..64).fold(x[i] + j as f32, |v, _| 0.99f32.mul_add(v, 0.01)));
                // The kernel adds the results of the chains in this order.
                ends.fold(0.0, |sum, v| sum + v)
            });
        }
    }
}

#[test]
pub fn sums_of_whole_numbers_are_exact() {
    for n in [1024, 20_000] {
        let x = whole(n, 1);
        let sum: f32 = x.iter().sum();
        for spec in [guide::sum_atomics(), guide::sum_warps(), guide::sum_blocks()] {
            assert_eq!(run(&spec, &x, &[0.0], [n, 1], n), [sum], "{}", spec.file);
        }
        let products: f32 = x[..n / 2].iter().zip(&x[n / 2..]).map(|(a, b)| a * b).sum();
        assert_eq!(run(&guide::products(), &x, &[0.0; 3], [n / 2, 1], n / 2), [0.0, products, 0.0]);
    }
}

#[test]
pub fn a_layer_of_neurons_is_that_of_the_cpu() {
    for samples in [3, 70] {
        let x = real(samples * 64, 3);
        let y = run(&guide::dense(), &x, &vec![0.0; samples * 64], [samples, 1], samples * 64);
        let weight = |j: usize, o: usize| ((j * 7 + o * 13) % 17) as f64 / 32.0 - 0.25;
        let want = (0..samples * 64).map(|i| {
            let (sample, o) = (i / 64, i % 64);
            (0..64).map(|j| weight(j, o) * f64::from(x[sample * 64 + j])).sum::<f64>().max(0.0)
        });
        assert_close("dense", &y, &want.collect::<Vec<_>>(), 1e-6);
    }
}

#[test]
pub fn words_from_random_places_are_added() {
    let mixed = |i: u32| {
        let h = i.wrapping_mul(0x9e37_79b1);
        (h ^ h >> 15).wrapping_mul(0x85eb_ca6b) as usize
    };
    for n in [1024, 8192] {
        let x = whole(n, 2);
        for at_a_time in [1, 2, 4, 8] {
            let got = run(&guide::gather(at_a_time), &x, &vec![0.0; n / 8], [n, 1], n / 8);
            let sum = |i: usize| (0..8).map(|j| x[mixed((8 * i + j) as u32) & (n - 1)]).sum::<f32>();
            assert_eq!(got, (0..n / 8).map(sum).collect::<Vec<_>>());
        }
    }
}

/// Returns lines of 32 words. The first word of each line names the next line, and the lines form a
/// single cycle.
fn cycle(lines: usize) -> Vec<u32> {
    let mut x = vec![0; 32 * lines];
    (0..lines).for_each(|line| x[32 * line] = ((line * 5 + 3) % lines) as u32);
    x
}

#[test]
pub fn walks_arrive_where_the_cpu_s_do() {
    for lines in [64, 256] {
        let x = cycle(lines);
        let end = |j: usize| (0..125_000).fold(j * (lines / 8), |at, _| x[32 * at] as usize) as f32;
        let want: Vec<f32> = (0..8).map(end).collect();
        for spec in [guide::chase(1), guide::chase(8), guide::chase_shared()] {
            assert_eq!(run(&spec, &x, &[f32::NAN; 8], [32 * lines, 1], 1), want, "{}", spec.file);
        }
    }
}

#[test]
pub fn lanes_follow_what_one_of_them_read() {
    let place = |h: u32, lines: usize| {
        let h = h.wrapping_mul(0x9e37_79b1);
        (h ^ h >> 15).wrapping_mul(0x85eb_ca6b) as usize & (lines - 1)
    };
    for (n, threads) in [(2048, 128), (8192, 300)] {
        let x: Vec<f32> = whole(n, 3).iter().map(|v| v + 8.0).collect();
        for values in [guide::Walk::Added, guide::Walk::Held, guide::Walk::Bounded] {
            let got = run(&guide::walk(values), &x, &vec![0.0; threads], [n, threads], threads);
            let want = (0..threads).map(|i| {
                let seed = (i / 32 * 128) as u32;
                let mut at = place(seed, n / 32);
                (0..128).fold(0.0, |sum, step| {
                    let held = x[32 * at + i % 32];
                    let named = x[32 * at] as u32;
                    at = place((at as u32 + named) ^ (seed + step + 1), n / 32);
                    sum + held
                })
            });
            assert_eq!(got, want.collect::<Vec<f32>>());
        }
    }
}
