//! Tests the neural-network kernels on CUDA cores, and an example of a learner's own layer.

use crate::machine::{Machine, assert_close, real};
use warpbook_data::philox::{gaussian, permute, uniform};
use warpbook_emulator::Argument;
use warpbook_kernels::Launch;
use warpbook_kernels::nn::{self, Layout, OwnForm};
use warpbook_record::{Dim, Dtype, KernelSpec};

pub const NULL: Argument = Argument::U64(0);

pub fn long(v: usize) -> Argument {
    Argument::U64(v as u64)
}

pub fn number(v: usize) -> Argument {
    Argument::U32(v as u32)
}

/// Creates a structure argument from 32-bit numbers.
pub fn structure(words: &[usize]) -> Argument {
    Argument::Bytes(words.iter().flat_map(|word| (*word as u32).to_le_bytes()).collect())
}

/// Runs a kernel with this number of blocks.
pub fn run(machine: &mut Machine, spec: &KernelSpec, blocks: usize, arguments: &[&Argument]) {
    let tile = &spec.tiles[0];
    let shape = Launch {
        grid: [blocks as u32, 1, 1],
        block: [tile.size(Dim::Threads) as u32, 1, 1],
        dynamic_shared_bytes: tile.dynamic_shared_bytes() as u32,
    };
    let arguments: Vec<Argument> = arguments.iter().map(|argument| (*argument).clone()).collect();
    machine.run(spec, tile, shape, &arguments);
}

fn f64s(values: &[f32]) -> Vec<f64> {
    values.iter().map(|v| f64::from(*v)).collect()
}

/// Returns the density and the distribution function of the normal distribution at x, computed with the series of erf.
fn normal(x: f64) -> (f64, f64) {
    let density = (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
    let mut term = x;
    let mut sum = x;
    for k in 1..100 {
        term *= x * x / f64::from(2 * k + 1);
        sum += term;
    }
    (density, 0.5 + density * sum)
}

#[test]
fn activations_and_sums_are_those_of_the_cpu() {
    for n in [77, 5000] {
        let mut machine = Machine::default();
        let (x, dy): (Vec<f32>, Vec<f32>) = (real(n, 1).iter().map(|v| 3.0 * v).collect(), real(n, 2));
        let [on_x, on_dy, out] = [&x, &dy, &x].map(|values| machine.put(values));
        let [relu, relu_back, gelu, gelu_back] = nn::activation(Dtype::F32);
        run(&mut machine, &relu, 3, &[&on_x, &out, &long(n)]);
        assert_eq!(machine.get::<f32>(&out, n), x.iter().map(|v| v.max(0.0)).collect::<Vec<_>>());
        run(&mut machine, &relu_back, 3, &[&on_x, &on_dy, &out, &long(n)]);
        let kept = |(x, dy): (&f32, &f32)| if *x > 0.0 { *dy } else { 0.0 };
        assert_eq!(machine.get::<f32>(&out, n), x.iter().zip(&dy).map(kept).collect::<Vec<_>>());
        run(&mut machine, &gelu, 3, &[&on_x, &out, &long(n)]);
        let want: Vec<f64> = f64s(&x).iter().map(|v| v * normal(*v).1).collect();
        assert_close("gelu", &machine.get(&out, n), &want, 1e-6);
        run(&mut machine, &gelu_back, 3, &[&on_x, &on_dy, &out, &long(n)]);
        let slope = |v: f64| normal(v).1 + v * normal(v).0;
        let want: Vec<f64> = f64s(&x).iter().zip(&dy).map(|(v, dy)| slope(*v) * f64::from(*dy)).collect();
        assert_close("gelu's gradient", &machine.get(&out, n), &want, 1e-6);
        run(&mut machine, &nn::add(Dtype::F32)[0], 3, &[&on_x, &on_dy, &out, &long(n)]);
        assert_eq!(machine.get::<f32>(&out, n), x.iter().zip(&dy).map(|(a, b)| a + b).collect::<Vec<_>>());
    }
}

#[test]
fn losses_and_their_gradients_are_those_of_the_cpu() {
    for (batch, classes) in [(13, 10), (70, 33)] {
        let mut machine = Machine::default();
        let n = batch * classes;
        let (x, labels) = (real(n, 1), (0..batch).map(|i| (i * 7 % classes) as u8).collect::<Vec<_>>());
        let (on_x, on_labels, dx) = (machine.put(&x), machine.put(&labels), machine.room::<f32>(n));
        let blocks = batch.div_ceil(8);
        let (partial, hits) = (machine.room::<f64>(blocks), machine.room::<u32>(blocks));
        let (smoothing, rows) = (Argument::F32(0.1), Argument::F32(batch as f32));
        let arguments =
            [&on_x, &on_labels, &number(batch), &number(classes), &smoothing, &rows, &NULL, &dx, &partial, &hits];
        run(&mut machine, &nn::cross_entropy(Dtype::F32), blocks, &arguments);
        let (mut loss, mut slopes, mut right) = (0.0, Vec::new(), 0);
        for (row, label) in x.chunks(classes).zip(&labels) {
            let sum: f64 = row.iter().map(|v| f64::from(*v).exp()).sum();
            let best = (0..classes).max_by(|a, b| row[*a].total_cmp(&row[*b])).unwrap();
            right += u32::from(best == usize::from(*label));
            for (class, v) in row.iter().enumerate() {
                let target = 0.1 / classes as f64 + if class == usize::from(*label) { 0.9 } else { 0.0 };
                loss -= target * (f64::from(*v) - sum.ln());
                slopes.push((f64::from(*v).exp() / sum - target) / batch as f64);
            }
        }
        assert_close("cross entropy", &machine.get(&dx, n), &slopes, 1e-5);
        assert!((machine.get::<f64>(&partial, blocks).iter().sum::<f64>() - loss).abs() < 1e-4 * loss);
        assert_eq!(machine.get::<u32>(&hits, blocks).iter().sum::<u32>(), right);

        let spec = nn::mse(Dtype::F32);
        let target = real(n, 3);
        let on_target = machine.put(&target);
        let blocks = n.div_ceil(256 * 16);
        run(&mut machine, &spec, blocks, &[&on_x, &on_target, &long(n), &Argument::F32(0.5), &NULL, &dx, &partial]);
        let errors: Vec<f64> = f64s(&x).iter().zip(&target).map(|(x, t)| x - f64::from(*t)).collect();
        let got: f64 = machine.get::<f64>(&partial, blocks).iter().sum();
        let want: f64 = errors.iter().map(|e| e * e).sum();
        assert!((got - want).abs() < 1e-12 * want, "{got} {want}");
        assert_close("mse", &machine.get(&dx, n), &errors.iter().map(|e| 0.5 * e).collect::<Vec<_>>(), 1e-6);
    }
}

#[test]
fn gelu_in_16_bits_is_the_exact_form() {
    for dtype in [Dtype::F16, Dtype::Bf16] {
        let mut machine = Machine::default();
        let n = 1500;
        let (x, dy): (Vec<f32>, Vec<f32>) = (real(n, 1).iter().map(|v| 6.0 * v).collect(), real(n, 2));
        let [x, dy, out] = [&x, &dy, &x].map(|values| Typed::new(&mut machine, dtype, values, 0));
        let (on_x, on_dy) = (f64s(&x.values(&mut machine)), f64s(&dy.values(&mut machine)));
        let [.., gelu, gelu_back] = nn::activation(dtype);
        run(&mut machine, &gelu, 2, &[&x.at, &out.at, &long(n)]);
        let rounded = |got: f32, want: f64| (f64::from(got) - want).abs() <= share(dtype) * want.abs() + 1e-6;
        for (got, x) in out.values(&mut machine).iter().zip(&on_x) {
            assert!(rounded(*got, x * normal(*x).1), "{dtype:?}: gelu of {x} is not {got}");
        }
        run(&mut machine, &gelu_back, 2, &[&x.at, &dy.at, &out.at, &long(n)]);
        for (got, (x, dy)) in out.values(&mut machine).iter().zip(on_x.iter().zip(&on_dy)) {
            let want = dy * (normal(*x).1 + x * normal(*x).0);
            assert!(rounded(*got, want), "{dtype:?}: gelu's gradient at {x} is {want}, not {got}");
        }
    }
}

#[test]
fn a_batch_is_normalised_forwards_and_backwards() {
    let (nhwc, nchw) = (Layout::Nhwc, Layout::Nchw);
    for (dtype, layout, [images, pixels, channels, offset]) in [
        (Dtype::F32, nhwc, [50, 1, 12, 0]),
        (Dtype::F32, nhwc, [37, 9, 40, 0]),
        (Dtype::F32, nhwc, [20, 1, 7, 0]),
        (Dtype::F32, nchw, [7, 9, 5, 0]),
        (Dtype::Bf16, nhwc, [37, 9, 40, 0]),
        (Dtype::Bf16, nhwc, [70, 1, 13, 0]),
        (Dtype::Bf16, nhwc, [30, 4, 16, 1]),
        (Dtype::Bf16, nhwc, [10, 4, 300, 0]),
        (Dtype::F16, nhwc, [26, 5, 264, 0]),
        (Dtype::F16, nchw, [9, 8, 8, 1]),
    ] {
        let (rows, n) = (images * pixels, images * pixels * channels);
        let name = format!("{dtype:?} {layout:?} {rows} x {channels}");
        let mut machine = Machine::default();
        let kernels = nn::batch_norm(dtype, layout);
        let (x, dy, gamma, beta) = (real(n, 1), real(n, 2), real(channels, 3), real(channels, 4));
        let x: Vec<f32> = x.iter().map(|v| v + 1.5).collect();
        let [x, dy, y, dx] = [&x, &dy, &x, &x].map(|values| Typed::new(&mut machine, dtype, values, offset));
        let [on_gamma, on_beta] = [&gamma, &beta].map(|values| machine.put(values));
        let [running_mean, running_variance] = [0.0f32, 1.0].map(|v| machine.put(&vec![v; channels]));
        let [mean, inverse, dgamma, dbeta] = [(); 4].map(|()| machine.room::<f32>(channels));
        let (line, total) = (machine.room::<f32>(3 * channels), machine.room::<f64>(2 * channels));
        let (chunk, chunks) = (64, rows.div_ceil(64));
        let partial = machine.room::<f64>(chunks * 2 * channels);
        let shape = structure(&[rows, channels, if layout == nchw { pixels } else { 1 }, chunk]);
        let tiles = if layout == nchw { channels } else { channels.div_ceil(256) };
        let (blocks, per_channel) = (2 * channels.div_ceil(256), channels.div_ceil(8));
        run(&mut machine, &kernels.sums_forward, chunks * tiles, &[&shape, &x.at, &partial]);
        run(&mut machine, &kernels.totals, per_channel, &[&shape, &partial, &number(1), &total]);
        let [epsilon, momentum] = [1e-5, 0.1].map(Argument::F32);
        let statistics = [&shape, &partial, &epsilon, &momentum, &running_mean, &running_variance, &mean, &inverse];
        run(&mut machine, &kernels.statistics, per_channel, &statistics);
        let vectors = [&shape, &x.at, &on_gamma, &on_beta, &mean, &inverse, &y.at];
        run(&mut machine, &kernels.normalise, blocks, &vectors);
        run(&mut machine, &kernels.sums_backward, chunks * tiles, &[&shape, &x.at, &dy.at, &mean, &inverse, &partial]);
        run(
            &mut machine,
            &kernels.lines,
            per_channel,
            &[&shape, &partial, &on_gamma, &inverse, &dgamma, &dbeta, &line],
        );
        run(&mut machine, &kernels.backward, blocks, &[&shape, &x.at, &dy.at, &mean, &line, &dx.at]);
        let (values, gradients) = (f64s(&x.values(&mut machine)), f64s(&dy.values(&mut machine)));
        let (mut want_y, mut want_dx) = (vec![0.0; n], vec![0.0; n]);
        let mut vectors = [(); 5].map(|()| Vec::new());
        let m = rows as f64;
        let place = |r: usize, c: usize| match layout {
            Layout::Nhwc => r * channels + c,
            Layout::Nchw => (r / pixels * channels + c) * pixels + r % pixels,
        };
        for c in 0..channels {
            let column = |values: &[f64]| (0..rows).map(|r| values[place(r, c)]).collect::<Vec<_>>();
            let (x, dy) = (column(&values), column(&gradients));
            let mean = x.iter().sum::<f64>() / m;
            let variance = x.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / m;
            let deviation = (variance + 1e-5).sqrt();
            let normal: Vec<f64> = x.iter().map(|v| (v - mean) / deviation).collect();
            let products: f64 = normal.iter().zip(&dy).map(|(a, b)| a * b).sum();
            let sum: f64 = dy.iter().sum();
            for r in 0..rows {
                let gamma = f64::from(gamma[c]);
                want_y[place(r, c)] = normal[r] * gamma + f64::from(beta[c]);
                want_dx[place(r, c)] = gamma / deviation * (dy[r] - sum / m - normal[r] * products / m);
            }
            let running = 0.9 + 0.1 * variance * m / (m - 1.0);
            for (vector, want) in vectors.iter_mut().zip([mean, 1.0 / deviation, running, products, sum]) {
                vector.push(want);
            }
            let totals = machine.get::<f64>(&total, 2 * channels);
            let squares: f64 = x.iter().map(|v| v * v).sum();
            assert!((totals[c] - mean * m).abs() < 1e-6 * m && (totals[channels + c] - squares).abs() < 1e-6 * squares);
        }
        let names = ["mean", "inverse deviation", "running variance", "dgamma", "dbeta"];
        let got = [&mean, &inverse, &running_variance, &dgamma, &dbeta];
        for ((what, got), want) in names.iter().zip(got).zip(&vectors) {
            assert_close(&format!("{name}: {what}"), &machine.get(got, channels), want, 1e-6);
        }
        assert_close(&format!("{name}: y"), &y.values(&mut machine), &want_y, share(dtype));
        assert_close(&format!("{name}: dx"), &dx.values(&mut machine), &want_dx, share(dtype));
    }
}

/// Sizes of a convolution or pooling: batch size, channels of x and y, sides of x and of the windows, strides and padding.
#[derive(Clone, Copy)]
pub struct Windows {
    pub batch: usize,
    pub channels: usize,
    pub filters: usize,
    pub h: usize,
    pub w: usize,
    pub kernel: [usize; 2],
    pub stride: usize,
    pub padding: usize,
}

impl Windows {
    pub fn out(&self) -> [usize; 2] {
        [self.h, self.w]
            .map(|side| side)
            .into_iter()
            .zip(self.kernel)
            .map(|(side, k)| (side + 2 * self.padding - k) / self.stride + 1)
            .collect::<Vec<_>>()
            .try_into()
            .unwrap()
    }

    /// Calls `work` for each element of each window of an image, with the output row and column, the index of the element in the window, and its row and column
    /// in x.
    pub fn each(&self, mut work: impl FnMut([usize; 2], usize, [usize; 2])) {
        let [oh, ow] = self.out();
        for (oy, ox) in (0..oh).flat_map(|oy| (0..ow).map(move |ox| (oy, ox))) {
            for (i, j) in (0..self.kernel[0]).flat_map(|i| (0..self.kernel[1]).map(move |j| (i, j))) {
                let (row, column) = (oy * self.stride + i, ox * self.stride + j);
                let inside = |at: usize, side: usize| at.checked_sub(self.padding).filter(|at| *at < side);
                if let (Some(row), Some(column)) = (inside(row, self.h), inside(column, self.w)) {
                    work([oy, ox], i * self.kernel[1] + j, [row, column]);
                }
            }
        }
    }
}

pub const SIZES: [Windows; 2] = [
    Windows { batch: 2, channels: 3, filters: 5, h: 9, w: 7, kernel: [3, 3], stride: 2, padding: 1 },
    Windows { batch: 3, channels: 8, filters: 16, h: 12, w: 10, kernel: [2, 3], stride: 1, padding: 0 },
];

#[test]
fn pools_take_the_maximum_or_the_mean() {
    for g in SIZES {
        let ([oh, ow], Windows { batch, channels: c, h, w, .. }) = (g.out(), g);
        let mut machine = Machine::default();
        let (from, to) = (batch * h * w * c, batch * oh * ow * c);
        let (x, dy) = (real(from, 1), real(to, 2));
        let (on_x, on_dy) = (machine.put(&x), machine.put(&dy));
        let (y, dx, index) = (machine.room::<f32>(to), machine.room::<f32>(from), machine.room::<u8>(to));
        let shape =
            structure(&[batch, c, h, w, oh, ow, g.kernel[0], g.kernel[1], g.stride, g.stride, g.padding, g.padding]);
        let [max, max_back, mean, mean_back] = nn::pool(Dtype::F32, Layout::Nhwc);
        let (size, mut want) =
            ((g.kernel[0] * g.kernel[1]) as f64, [vec![f64::MIN; to], vec![0.0; to], vec![0.0; from], vec![0.0; from]]);
        let mut chosen = vec![0; to];
        for (image, channel) in (0..batch).flat_map(|image| (0..c).map(move |channel| (image, channel))) {
            g.each(|[oy, ox], _, [row, column]| {
                let (at, source) =
                    (((image * oh + oy) * ow + ox) * c + channel, ((image * h + row) * w + column) * c + channel);
                let v = f64::from(x[source]);
                if v > want[0][at] {
                    (want[0][at], chosen[at]) = (v, source);
                }
                want[1][at] += v / size;
                want[3][source] += f64::from(dy[at]) / size;
            });
        }
        chosen.iter().zip(&dy).for_each(|(source, dy)| want[2][*source] += f64::from(*dy));
        let (blocks_y, blocks_x) = (to.div_ceil(256), from.div_ceil(256));
        run(&mut machine, &max, blocks_y, &[&shape, &on_x, &y, &index, &number(to)]);
        assert_close("maximum", &machine.get(&y, to), &want[0], 1e-7);
        run(&mut machine, &max_back, blocks_x, &[&shape, &index, &on_dy, &dx, &number(from)]);
        assert_close("its gradient", &machine.get(&dx, from), &want[2], 1e-6);
        run(&mut machine, &mean, blocks_y, &[&shape, &on_x, &y, &number(to)]);
        assert_close("mean", &machine.get(&y, to), &want[1], 1e-6);
        run(&mut machine, &mean_back, blocks_x, &[&shape, &on_dy, &dx, &number(from)]);
        assert_close("its gradient", &machine.get(&dx, from), &want[3], 1e-6);
    }
}

#[test]
fn parameters_are_updated_and_numbers_drawn_as_on_the_cpu() {
    for n in [100, 3001] {
        let mut machine = Machine::default();
        let (weights, gradients) = (real(n, 1), real(n, 2));
        let (on_gradients, first, second) =
            (machine.put(&gradients), machine.put(&vec![0f32; n]), machine.put(&vec![0f32; n]));
        let settings = Argument::Bytes(vec![0; 48]);
        // Parameters of the optimiser: gradient, rate, momentum, decay, size, root, first, keep_second, second, epsilon, shrink.
        let numbers: [f32; 11] = [0.5, 0.1, 0.9, 0.01, 0.1, 0.3, 0.1, 0.9, 0.1, 1e-3, 0.99];
        let mut words: Vec<u32> = numbers.iter().map(|v| v.to_bits()).collect();
        words.extend([1, 0]);
        let step = machine.put(&words);
        let blocks = n.div_ceil(256 * 8);
        let [sgd, momentum, adam] = nn::updates(Dtype::F32);
        let decayed = |(w, g): (&f32, &f32)| g * 0.5 + 0.01 * w;
        let on_weights = machine.put(&weights);
        run(
            &mut machine,
            &sgd,
            blocks,
            &[&settings, &step, &on_weights, &on_gradients, &NULL, &long(n), &NULL, &long(n)],
        );
        let want: Vec<f32> = weights.iter().zip(&gradients).map(|pair| pair.0 - 0.1 * decayed(pair)).collect();
        assert_eq!(machine.get::<f32>(&on_weights, n), want);
        let on_weights = machine.put(&weights);
        run(
            &mut machine,
            &momentum,
            blocks,
            &[&settings, &step, &on_weights, &on_gradients, &NULL, &long(n), &first, &NULL, &long(n)],
        );
        assert_eq!(machine.get::<f32>(&on_weights, n), want);
        let (on_weights, first) = (machine.put(&weights), machine.put(&vec![0f32; n]));
        let arguments =
            [&settings, &step, &on_weights, &on_gradients, &NULL, &long(n), &first, &second, &NULL, &long(n)];
        run(&mut machine, &adam, blocks, &arguments);
        let want = weights.iter().zip(&gradients).map(|(w, g)| {
            let w = w * 0.99;
            let g = decayed((&w, g));
            let (m, v) = (0.1 * g, 0.1 * (g * g));
            w - 0.1 * (m / (v.sqrt() / 0.3 + 1e-3))
        });
        assert_eq!(machine.get::<f32>(&on_weights, n), want.collect::<Vec<f32>>());
        // The kernel computes one sum of squares for each block.
        let spec = &nn::norm(Dtype::F32)[0];
        let parts = nn::norm_blocks(&spec.tiles[0], n as u64) as usize;
        let partial = machine.room::<f64>(parts);
        run(&mut machine, spec, parts, &[&on_gradients, &long(n), &partial]);
        let want: f64 = f64s(&gradients).iter().map(|g| g * g).sum();
        assert!((machine.get::<f64>(&partial, parts).iter().sum::<f64>() - want).abs() < 1e-12 * want);
        let numbers = machine.room::<f32>(n);
        let arguments = [&numbers, &long(n), &long(99), &number(3), &long(1 << 33)];
        run(&mut machine, &warpbook_kernels::uniforms(), n.div_ceil(256), &arguments);
        let want: Vec<f32> = (0..n as u64).map(|i| uniform(99, (1 << 33) + i, 3)).collect();
        assert_eq!(machine.get::<f32>(&numbers, n), want);
        run(&mut machine, &warpbook_kernels::gaussians(), n.div_ceil(256), &arguments);
        let want: Vec<f32> = (0..n as u64).map(|i| gaussian(99, (1 << 33) + i, 3)).collect();
        assert_eq!(machine.get::<f32>(&numbers, n), want);
        // The last n elements of a permutation of n + 50.
        let (order, all) = (machine.room::<u64>(n), n as u64 + 50);
        let arguments = [&order, &long(n), &long(99), &long(50), &Argument::U64(all)];
        run(&mut machine, &warpbook_kernels::permutation(), n.div_ceil(256), &arguments);
        let want: Vec<u64> = (50..all).map(|i| permute(99, i, all)).collect();
        assert_eq!(machine.get::<u64>(&order, n), want);
    }
}

const SWISH: &str = include_str!("../../../warpbook-nn/tests/custom_layers/swish.cu");

#[test]
fn a_learner_s_layer_runs_in_each_type() {
    for (dtype, n) in [(Dtype::F32, 700), (Dtype::F32, 64), (Dtype::F16, 700), (Dtype::Bf16, 300)] {
        let form = OwnForm { dtype, layout: Layout::Nhwc, input: [10, 1, 1], output: [10, 1, 1], threads: 128 };
        let [forward, backward] = nn::own_layer("swish", SWISH, 1, form);
        let mut machine = Machine::default();
        let (x, dy) = (real(n, 1), real(n, 2));
        let (coded, read) = (|v: f32| coded(dtype, v), |bytes: &[u8]| decoded(dtype, bytes));
        let bytes = dtype.bytes() as usize;
        let [on_x, on_dy] =
            [&x, &dy].map(|values| machine.put(&values.iter().flat_map(|v| coded(*v)).collect::<Vec<u8>>()));
        let [y, dx] = [(); 2].map(|()| machine.room::<u8>(n * bytes));
        let blocks = n.div_ceil(128);
        let (beta, dbeta) = (machine.put(&[1.5f32]), machine.room::<f32>(blocks));
        run(&mut machine, &forward, blocks, &[&on_x, &beta, &y, &number(n)]);
        run(&mut machine, &backward, blocks, &[&on_x, &y, &on_dy, &beta, &dx, &dbeta, &number(n)]);
        let rounded = |v: &f32| f64::from(read(&coded(*v)));
        let s = |v: f64| 1.0 / (1.0 + (-1.5 * v).exp());
        let share = match dtype {
            Dtype::F32 => 1e-6,
            Dtype::F16 => 1e-3,
            _ => 1e-2,
        };
        let mut get = |buffer| machine.get::<u8>(buffer, n * bytes).chunks(bytes).map(read).collect::<Vec<f32>>();
        let (got_y, got_dx) = (get(&y), get(&dx));
        let want: Vec<f64> = x.iter().map(|v| rounded(v) * s(rounded(v))).collect();
        assert_close("y", &got_y, &want, share);
        let pairs = || x.iter().zip(&dy).map(|(x, dy)| (rounded(x), rounded(dy)));
        let want: Vec<f64> = pairs().map(|(v, g)| g * s(v) * (1.0 + 1.5 * v * (1.0 - s(v)))).collect();
        assert_close("dx", &got_dx, &want, share);
        let total: f64 = machine.get::<f32>(&dbeta, blocks).iter().map(|v| f64::from(*v)).sum();
        let want: f64 = pairs().map(|(v, g)| g * v * v * s(v) * (1.0 - s(v))).sum();
        assert!((total - want).abs() < 1e-4, "{total} {want}");
    }
}

/// Returns the bytes of a number, truncated to the given type. A bf16 consists of the upper half of a number in single precision.
fn coded(dtype: Dtype, v: f32) -> Vec<u8> {
    match dtype {
        Dtype::F32 => v.to_le_bytes().to_vec(),
        Dtype::Bf16 => v.to_le_bytes()[2..].to_vec(),
        _ => half(v).to_le_bytes().to_vec(),
    }
}

fn decoded(dtype: Dtype, bytes: &[u8]) -> f32 {
    match dtype {
        Dtype::F32 => f32::from_le_bytes(bytes.try_into().unwrap()),
        Dtype::Bf16 => f32::from_le_bytes([0, 0, bytes[0], bytes[1]]),
        _ => of_half(u16::from_le_bytes(bytes.try_into().unwrap())),
    }
}

/// An array of some type that begins `offset` elements after an address divisible by 16.
pub struct Typed {
    dtype: Dtype,
    pub at: Argument,
    length: usize,
}

impl Typed {
    pub fn new(machine: &mut Machine, dtype: Dtype, values: &[f32], offset: usize) -> Self {
        let values: Vec<f32> = std::iter::repeat_n(0.0, offset).chain(values.iter().copied()).collect();
        let bytes: Vec<u8> = values.iter().flat_map(|v| coded(dtype, *v)).collect();
        let Argument::U64(start) = machine.put(&bytes) else { panic!("no buffer") };
        Self { dtype, at: Argument::U64(start + offset as u64 * dtype.bytes()), length: values.len() - offset }
    }

    pub fn values(&self, machine: &mut Machine) -> Vec<f32> {
        let bytes = self.dtype.bytes() as usize;
        let all = machine.get::<u8>(&self.at, self.length * bytes);
        all.chunks(bytes).map(|bytes| decoded(self.dtype, bytes)).collect()
    }
}

/// Relative tolerance for a type: half a unit in the last place, plus some roundings in f32.
pub fn share(dtype: Dtype) -> f64 {
    match dtype {
        Dtype::F32 => 1e-5,
        Dtype::F16 => 1e-3,
        _ => 5e-3,
    }
}

/// Truncates a single-precision number to half precision.
fn half(v: f32) -> u16 {
    let scaled = (f64::from(v.abs()) * 2f64.powi(24)) as u32;
    if scaled == 0 {
        return 0;
    }
    let shift = scaled.ilog2().saturating_sub(10);
    let exponent = if scaled < 1 << 10 { 0 } else { shift as u16 + 1 };
    (u16::from(v < 0.0) << 15) | exponent << 10 | ((scaled >> shift) as u16 & 0x3ff)
}

fn of_half(bits: u16) -> f32 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f32::from(bits & 0x3ff));
    let size = if exponent == 0 { fraction * 2f32.powi(-24) } else { (1024.0 + fraction) * 2f32.powi(exponent - 25) };
    if bits >> 15 == 1 { -size } else { size }
}
