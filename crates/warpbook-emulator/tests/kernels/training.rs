//! Tests training kernels that are not layers: augmentation of images, dropout, and the optimiser Muon.

use crate::machine::{Machine, assert_close, ptx_for, real};
use warpbook_data::philox::philox4x32_4;
use warpbook_emulator::{Argument, Module};
use warpbook_kernels::Launch;
use warpbook_kernels::nn::{self, Layout};
use warpbook_record::{Dim, Dtype, KernelSpec};

fn number(v: usize) -> Argument {
    Argument::U32(v as u32)
}

fn shape(spec: &KernelSpec, grid: [u32; 3]) -> Launch {
    let threads = spec.tiles[0].size(Dim::Threads) as u32;
    Launch { grid, block: [threads, 1, 1], dynamic_shared_bytes: 0 }
}

#[test]
fn dropout_keeps_the_elements_that_the_cpu_keeps() {
    let (seed, name, step, threshold, scale) = (77u64, 5u32, 9u32, 1u32 << 30, 4.0 / 3.0);
    for (n, begin) in [(1000usize, 0u64), (4097, 8 + 3)] {
        let mut machine = Machine::default();
        let spec = nn::dropout(Dtype::F32);
        let x = real(n, 1);
        let (on_x, y, on_step) = (machine.put(&x), machine.room::<f32>(n), machine.put(&[step]));
        let numbers = [Argument::U64(n as u64), Argument::U64(seed), Argument::U32(name)];
        let [count, seed_argument, name_argument] = numbers;
        let arguments = [
            on_x,
            y.clone(),
            count,
            seed_argument,
            name_argument,
            on_step,
            Argument::U32(threshold),
            Argument::F32(scale),
            Argument::U64(begin),
        ];
        machine.run(&spec, &spec.tiles[0], shape(&spec, [3, 1, 1]), &arguments);
        let want = x.iter().enumerate().map(|(i, v)| {
            let element = begin + i as u64;
            let block = element / 4;
            let words = philox4x32_4(seed, [block as u32, (block >> 32) as u32, name, step]);
            if words[element as usize % 4] >= threshold { v * scale } else { 0.0 }
        });
        assert_eq!(machine.get::<f32>(&y, n), want.collect::<Vec<_>>());
    }
}

/// Compares the kernel's augmented images with a reference, for a batch of images of shape `[channels, height, width]`.
fn augmented([channels, h, w]: [usize; 3], layout: Layout, flip: u32, reflect: bool) {
    const NAME: u32 = 0x6175_6772;
    let (count, batch, padding, seed, step, first) = (7usize, 5usize, 2usize, 3u64, 11u32, 20u32);
    let mut machine = Machine::default();
    let spec = nn::gather(Dtype::F32, layout);
    let len = channels * h * w;
    let images: Vec<u8> = (0..count * len).map(|i| (i * 31 % 251) as u8).collect();
    let indices: Vec<u32> = (0..batch as u32).map(|slot| slot * 3 % 7).collect();
    let values = real(channels * 256, 4);
    let [on_images, on_indices] = [machine.put(&images), machine.put(&indices)];
    let (on_values, on_step, out) = (machine.put(&values), machine.put(&[step]), machine.room::<f32>(batch * len));
    let arguments = [
        on_images,
        number(count),
        number(channels),
        number(h),
        number(w),
        on_indices,
        on_values,
        number(padding),
        Argument::U32(flip),
        Argument::U64(seed),
        on_step,
        number(reflect.into()),
        number(4),
        number(1),
        number(0),
        number(0),
        Argument::U32(first),
        out.clone(),
    ];
    machine.run(&spec, &spec.tiles[0], shape(&spec, [batch as u32, 2, 1]), &arguments);
    let mut want = vec![0.0; batch * len];
    for (slot, index) in indices.iter().enumerate() {
        let words = philox4x32_4(seed, [first + slot as u32, 0, NAME, step]);
        let below = |word: u32| ((u64::from(word) * (2 * padding as u64 + 1)) >> 32) as isize;
        let epoch = step / 4;
        let mirrored = match flip {
            1 => words[2] >> 31 == 1,
            3 => (philox4x32_4(seed, [*index, 1, NAME, 0])[0] >> 31 ^ epoch) & 1 == 1,
            _ => false,
        };
        let source = |at: isize, size: usize| match at {
            at if (0..size as isize).contains(&at) => Some(at as usize),
            _ if !reflect => None,
            at if at < 0 => Some((-at) as usize),
            at => Some((2 * size as isize - 2 - at) as usize),
        };
        for (c, y, x) in (0..len).map(|i| (i / (h * w), i / w % h, i % w)) {
            let from_y = source(y as isize + below(words[0]) - padding as isize, h);
            let seen = if mirrored { w - 1 - x } else { x };
            let from_x = source(seen as isize + below(words[1]) - padding as isize, w);
            let byte = from_y.zip(from_x).map_or(0, |(y, x)| images[*index as usize * len + (c * h + y) * w + x]);
            let place = if layout == Layout::Nchw { (c * h + y) * w + x } else { (y * w + x) * channels + c };
            want[slot * len + place] = values[c * 256 + usize::from(byte)];
        }
    }
    assert_eq!(machine.get::<f32>(&out, batch * len), want, "{channels} x {h} x {w}, flip {flip}");
}

#[test]
fn images_are_cropped_and_mirrored_as_on_the_cpu() {
    augmented([1, 9, 9], Layout::Nhwc, 1, false);
    augmented([3, 12, 10], Layout::Nhwc, 3, true);
    augmented([3, 9, 17], Layout::Nchw, 0, false);
}

/// A matrix in row-major order.
type Matrix = Vec<f64>;

/// Returns the product of a and the transpose of b.
fn product_transposed(a: &Matrix, b: &Matrix, [rows, columns, depth]: [usize; 3]) -> Matrix {
    let dot = |i: usize, j: usize| (0..depth).map(|k| a[i * depth + k] * b[j * depth + k]).sum();
    (0..rows * columns).map(|at| dot(at / columns, at % columns)).collect()
}

/// Returns a direction after `rounds` rounds of the Newton-Schulz iteration, in double precision.
fn orthogonalised(direction: &[f32], [out, columns]: [usize; 2], rounds: usize) -> Matrix {
    let norm = direction.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>().sqrt();
    let mut x: Matrix = direction.iter().map(|v| f64::from(*v) / norm).collect();
    for _ in 0..rounds {
        let a = product_transposed(&x, &x, [out, out, columns]);
        let aa = product_transposed(&a, &a, [out, out, out]);
        let b: Matrix = a.iter().zip(&aa).map(|(a, aa)| -4.775 * a + 2.0315 * aa).collect();
        let transposed: Matrix = (0..out * columns).map(|at| x[at % out * columns + at / out]).collect();
        let bx = product_transposed(&b, &transposed, [out, columns, out]);
        x = x.iter().zip(&bx).map(|(x, bx)| 3.4445 * x + bx).collect();
    }
    x
}

/// Compares one step of Muon with a reference, for a filter that is not transposed. Returns the gradients and the momentum. The matrix products are compiled
/// for compute capability 7.5, which multiplies bf16 on CUDA cores.
fn muon([out, columns]: [usize; 2], rounds: usize) -> [Vec<f32>; 2] {
    let mut machine = Machine::default();
    let [direction, start, product, update] = nn::muon(Dtype::F32);
    let (n, rows, across) = (out * columns, out.next_multiple_of(64), columns.next_multiple_of(64));
    let chunks = n.div_ceil(256 * 8);
    let (x, square) = (rows * across, rows * rows);
    let places = [0, x, 2 * x, 3 * x, 4 * x, 4 * x + square];
    let filter: Vec<u32> = [&[0, 0, out, columns, rows, across, 0][..], &places, &[0, 0, chunks]]
        .concat()
        .into_iter()
        .map(|word| word as u32)
        .collect();
    let [filters, numbers] = [machine.put(&filter), machine.put(&[0.9f32, 0.0, 1.0, 0.0])];
    // The gradient's first factor is 1. The step is the first one, and is not skipped.
    let mut words = [0u32; 13];
    (words[0], words[11]) = (1f32.to_bits(), 1);
    let step = machine.put(&words);
    let (weights, gradients) = (real(n, 1), real(n, 2));
    let [on_weights, on_gradients] = [machine.put(&weights), machine.put(&gradients)];
    let [momentum, directions] = [machine.put(&vec![0f32; n]), machine.room::<f32>(n)];
    let (partial, factors) = (machine.room::<f64>(2 * chunks), machine.room::<f32>(1));
    let work = machine.room::<u16>(4 * x + 2 * square);
    let (counters, rates) = (machine.put(&[0u32; 4]), machine.put(&[0.05f32]));
    let tile = &direction.tiles[0];
    let blocks = |blocks: usize| shape(&direction, [blocks as u32, 1, 1]);
    let all = [&filters, &numbers, &step, &on_weights, &on_gradients, &momentum, &directions, &partial];
    machine.run(&direction, tile, blocks(chunks), &all.map(Clone::clone));
    let [epsilon, plain] = [Argument::F32(1e-7), number(0)];
    let all = [&filters, &step, &directions, &partial, &epsilon, &plain, &work, &factors];
    machine.run(&start, tile, blocks(x / 4096), &all.map(Clone::clone));
    let module = Module::parse(&ptx_for(&product, tile, "compute_75")).unwrap();
    let product = machine.gpu.load(&module).unwrap().kernel("muon_product").unwrap();
    for round in 0..rounds {
        for (what, tiles) in [square / 4096, square / 4096, x / 4096].into_iter().enumerate() {
            let all = [filters.clone(), step.clone(), number(what), number(round), work.clone()];
            machine.launch(&product, blocks(tiles), false, &all);
        }
    }
    let (groups, iterations, null) = (number(1), number(rounds), Argument::U64(0));
    let all = [&filters, &step, &counters, &rates, &groups, &factors, &iterations, &work, &on_weights, &null];
    machine.run(&update, tile, blocks(chunks), &all.map(Clone::clone));
    let want = orthogonalised(&gradients, [out, columns], rounds);
    let want: Vec<f64> = weights.iter().zip(&want).map(|(w, x)| f64::from(*w) - 0.05 * x).collect();
    let got = machine.get::<f32>(&on_weights, n);
    // X has 8 significant bits, so the update (0.05 times X) is accurate to one per cent.
    let step: Vec<f32> = got.iter().zip(&weights).map(|(w, before)| before - w).collect();
    let want_step: Vec<f64> = want.iter().zip(&weights).map(|(w, before)| f64::from(*before) - w).collect();
    assert_close("muon's update", &step, &want_step, 0.02);
    [gradients, machine.get::<f32>(&momentum, n)]
}

#[test]
fn muon_s_update_is_that_of_the_cpu() {
    for sizes in [[40, 100], [64, 130]] {
        let [gradients, momentum] = muon(sizes, 2);
        assert_eq!(momentum, gradients, "the first step's momentum is the gradient");
    }
}
