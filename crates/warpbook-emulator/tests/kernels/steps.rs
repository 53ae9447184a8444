//! Tests the kernels of a training step around its layers: sums, copies, adjacent pools, the norm of the gradients, counters, and the kernels whose last block
//! continues alone.

use crate::machine::{Machine, assert_close, real, whole};
use crate::network::{NULL, Typed, long, number, run, share, structure};
use warpbook_emulator::Argument;
use warpbook_kernels::nn::{self, Layout};
use warpbook_record::Dtype;

/// Creates a structure argument from its fields, which need no padding.
fn fields(all: &[&Argument]) -> Argument {
    Argument::Bytes(all.iter().flat_map(|argument| argument.bytes().to_vec()).collect())
}

fn exact(v: &[f32]) -> Vec<f64> {
    v.iter().map(|v| f64::from(*v)).collect()
}

#[test]
fn gradients_are_accumulated_and_widened() {
    for (n, channels, pixels) in [(210, 7, 3), (4096, 16, 1)] {
        let mut machine = Machine::default();
        let (x, dy, bias) = (real(n, 1), real(n, 2), real(channels, 3));
        let [on_x, on_dy, on_bias, sum] = [&x, &dy, &bias, &x].map(|values| machine.put(values));
        run(&mut machine, &nn::add(Dtype::F32)[1], 2, &[&on_dy, &on_x, &long(n)]);
        let added: Vec<f32> = x.iter().zip(&dy).map(|(x, dy)| x + dy).collect();
        assert_eq!(machine.get::<f32>(&on_x, n), added);
        // The first of two gradients replaces the sum.
        let weighted = nn::add_weighted(Dtype::F32);
        run(&mut machine, &weighted, 2, &[&on_x, &Argument::F32(0.25), &number(1), &sum, &long(n)]);
        run(&mut machine, &weighted, 2, &[&on_dy, &Argument::F32(0.75), &number(0), &sum, &long(n)]);
        let want: Vec<f32> = added.iter().zip(&dy).map(|(x, dy)| 0.25 * x + 0.75 * dy).collect();
        assert_eq!(machine.get::<f32>(&sum, n), want);
        assert_eq!(machine.get::<f32>(&on_dy, n), want);
        let [bias_forward, _] = nn::library(Dtype::F32);
        let relu = n / 4096;
        let sizes = [channels, pixels, relu, n].map(number);
        run(&mut machine, &bias_forward, 2, &[&sum, &on_bias, &sizes[0], &sizes[1], &sizes[2], &sizes[3]]);
        let biased = want.iter().enumerate().map(|(i, v)| v + bias[i / pixels % channels]);
        let biased: Vec<f32> = biased.map(|v| if relu == 1 { v.max(0.0) } else { v }).collect();
        assert_eq!(machine.get::<f32>(&sum, n), biased);
        for dtype in [Dtype::F16, Dtype::Bf16] {
            let narrow = Typed::new(&mut machine, dtype, &x, channels % 2);
            let wide = machine.room::<f32>(n);
            run(&mut machine, &nn::library(dtype)[1], 2, &[&narrow.at, &wide, &number(n)]);
            assert_eq!(machine.get::<f32>(&wide, n), narrow.values(&mut machine));
        }
    }
}

#[test]
fn columns_are_summed_and_rows_gathered() {
    for (rows, n, across) in [(37, 20, 1), (300, 264, 8)] {
        let mut machine = Machine::default();
        let x = whole(rows * n, 1);
        let column = |c: usize, rows: std::ops::Range<usize>| rows.map(|r| x[r * n + c]).sum::<f32>();
        let on_x = machine.put(&x);
        let chunk = 64;
        let (parts, tiles) = (rows.div_ceil(chunk), (n / 4usize).div_ceil(across));
        let partial = machine.room::<f32>(parts * n);
        let sizes = [rows, n, chunk, across].map(number);
        let all = [&on_x, &sizes[0], &sizes[1], &sizes[2], &sizes[3], &partial];
        run(&mut machine, &nn::partial_sums(Dtype::F32), parts * tiles, &all);
        let part = |at: usize| column(at % n, at / n * chunk..((at / n + 1) * chunk).min(rows));
        assert_eq!(machine.get::<f32>(&partial, parts * n), (0..parts * n).map(part).collect::<Vec<_>>());
        for (spec, columns) in [(nn::total_sums(), 32), (nn::total_sums_of(1 << 16), 128)] {
            let first = n / 3;
            let (out, rest) = (machine.room::<f32>(first), machine.room::<f32>(n - first));
            let all = [&on_x, &sizes[0], &sizes[1], &number(first), &out, &rest];
            run(&mut machine, &spec, n.div_ceil(columns), &all);
            let got = [machine.get::<f32>(&out, first), machine.get(&rest, n - first)].concat();
            assert_eq!(got, (0..n).map(|c| column(c, 0..rows)).collect::<Vec<_>>(), "{}", spec.entry);
        }
        let indices: Vec<u32> = (0..9).map(|i| i * 7 % rows as u32).chain([rows as u32]).collect();
        let (on_indices, out) = (machine.put(&indices), machine.room::<f32>(10 * n));
        let all = [&on_x, &sizes[0], &sizes[1], &on_indices, &out];
        run(&mut machine, &nn::gather_rows(Dtype::F32), 10, &all);
        let got = machine.get::<f32>(&out, 10 * n);
        for (to, from) in indices[..9].iter().enumerate() {
            assert_eq!(got[to * n..][..n], x[*from as usize * n..][..n]);
        }
        // An index without a row gives NaN.
        assert!(got[9 * n..].iter().all(|v| v.is_nan()));
    }
}

#[test]
fn the_inverse_deviation_is_that_of_a_variance() {
    for channels in [5, 300] {
        let mut machine = Machine::default();
        let variance: Vec<f32> = real(channels, 1).iter().map(|v| v * v).collect();
        let (on_variance, inverse) = (machine.put(&variance), machine.room::<f32>(channels));
        let shape = structure(&[1, channels, 1, 1]);
        let spec = nn::batch_norm(Dtype::F32, Layout::Nhwc).inverse_deviation;
        run(&mut machine, &spec, channels.div_ceil(256), &[&shape, &on_variance, &Argument::F32(1e-3), &inverse]);
        let want: Vec<f64> = variance.iter().map(|v| 1.0 / (f64::from(*v) + 1e-3).sqrt()).collect();
        assert_close("inverse deviation", &machine.get(&inverse, channels), &want, 1e-6);
    }
}

#[test]
fn adjacent_pools_and_their_gradients_are_those_of_the_cpu() {
    for (dtype, [batch, channels, h, w, k]) in [(Dtype::F32, [2, 4, 7, 6, 2]), (Dtype::F16, [3, 16, 9, 10, 3])] {
        let mut machine = Machine::default();
        let (oh, ow, group) = (h / k, w / k, 16 / dtype.bytes() as usize);
        let (from, to) = (batch * h * w * channels, batch * oh * ow * channels);
        let [x, dy, y, dx] = [(from, 1), (to, 2), (to, 3), (from, 4)]
            .map(|(n, seed)| Typed::new(&mut machine, dtype, &real(n, seed), 0));
        let index = machine.room::<u8>(to);
        let shape = structure(&[batch, channels, h, w, oh, ow, k, k, k, k, 0, 0]);
        let [forward, backward] = nn::pool_adjacent(dtype);
        let count = to / group;
        run(&mut machine, &forward, count.div_ceil(256), &[&shape, &x.at, &y.at, &index, &number(count)]);
        let (rows, columns) = (h.div_ceil(k), w.div_ceil(k));
        let count = batch * rows * columns * channels / group;
        let sizes = [rows, columns, count].map(number);
        let all = [&shape, &index, &dy.at, &y.at, &dx.at, &sizes[0], &sizes[1], &sizes[2], &Argument::F32(2.0)];
        run(&mut machine, &backward, count.div_ceil(256), &all);
        let (x, dy) = (x.values(&mut machine), dy.values(&mut machine));
        let (mut want_y, mut want_dx) = (vec![0.0; to], vec![0.0; from]);
        for at in 0..to {
            let (c, ox, oy, image) =
                (at % channels, at / channels % ow, at / channels / ow % oh, at / channels / ow / oh);
            let place = |tap: usize| ((image * h + oy * k + tap / k) * w + ox * k + tap % k) * channels + c;
            let best = (0..k * k).fold(0, |best, tap| if x[place(tap)] > x[place(best)] { tap } else { best });
            want_y[at] = x[place(best)];
            // The gradient passes the ReLU before the pool only where the maximum is positive.
            want_dx[place(best)] = if want_y[at] <= 0.0 { 0.0 } else { 2.0 * f64::from(dy[at]) };
        }
        assert_eq!(y.values(&mut machine), want_y);
        assert_close("dx", &dx.values(&mut machine), &want_dx, share(dtype));
    }
}

/// The numbers of a step in device memory, as `start_step`, `judge_step`, `prepare` and `finish_step` change them.
struct Step {
    counters: Argument,
    control: Argument,
    losses: Argument,
    overflow: Argument,
    found: Argument,
    scale: Argument,
    grown: Argument,
    clip: Argument,
    norm: Argument,
    numbers: Argument,
    rings: [Argument; 3],
}

const SLOTS: usize = 4;
const COUNTERS: [u32; 4] = [5, 9, 2, 0];
const RATE: f64 = 0.125;
const SCALE: f32 = 8.0;
const MOMENTUM: f64 = 0.5;

impl Step {
    fn new(machine: &mut Machine) -> Self {
        Self {
            counters: machine.put(&COUNTERS),
            control: machine.put(&[RATE, 3.0]),
            losses: machine.put(&[1.0; SLOTS]),
            overflow: machine.put(&[0u32]),
            found: machine.put(&[0u32]),
            scale: machine.put(&[SCALE]),
            grown: machine.put(&[1u32]),
            clip: machine.put(&[0.5f32]),
            norm: machine.put(&[3.0f64]),
            numbers: machine.put(&[0u32; 13]),
            rings: [machine.put(&[9u32; SLOTS]), machine.put(&[9f32; SLOTS]), machine.put(&[9f64; SLOTS])],
        }
    }

    /// Settings of an optimiser: plain SGD with momentum.
    fn settings() -> Argument {
        let doubles = [MOMENTUM, 0.0, 0.0, 0.0].map(|v| Argument::U64(v.to_bits()));
        let zero = [0; 4].map(number);
        fields(&[&doubles[0], &doubles[1], &doubles[2], &doubles[3], &zero[0], &zero[1], &zero[2], &zero[3]])
    }

    fn verdict(&self) -> Argument {
        let Self { counters, control, losses, overflow, found, scale, clip, numbers, .. } = self;
        fields(&[&Self::settings(), counters, losses, overflow, found, control, scale, clip, numbers, &long(0)])
    }

    /// The arguments of `finish`, for a ring of `count` samples.
    fn end(&self, n: usize, count: usize) -> Argument {
        let sizes = [n, count, SLOTS, 0].map(number);
        let scaler = [Argument::F32(2.0), Argument::F32(0.5), number(2), number(0)];
        let [skipped, scales, norms] = &self.rings;
        let sizes = fields(&[&sizes[0], &sizes[1], &sizes[2], &sizes[3]]);
        let scaler = fields(&[&scaler[0], &scaler[1], &scaler[2], &scaler[3]]);
        let Self { counters, found, scale, grown, norm, .. } = self;
        fields(&[&sizes, &scaler, counters, found, scale, grown, norm, skipped, scales, norms])
    }

    /// Checks what a verdict has prepared: the gradients' factor, the rate, the momentum, and whether the step is skipped.
    fn assert_prepared(&self, machine: &mut Machine, is_skipped: bool) {
        let words = machine.get::<u32>(&self.numbers, 13);
        assert_eq!(words[12], u32::from(is_skipped));
        assert_eq!(machine.get::<u32>(&self.found, 1), [u32::from(is_skipped)]);
        if !is_skipped {
            let clip = machine.get::<f32>(&self.clip, 1)[0];
            let want = [clip / SCALE, RATE as f32, MOMENTUM as f32];
            assert_eq!(words[..3], want.map(f32::to_bits));
        }
        assert_eq!(machine.get::<f64>(&self.control, 2), [RATE, if is_skipped { 3.0 } else { 4.0 }]);
    }

    /// Checks that the step has ended: counters, scale and rings.
    fn assert_finished(&self, machine: &mut Machine, is_skipped: bool, [n, count]: [u32; 2]) {
        assert_eq!(machine.get::<u32>(&self.counters, 4), [(COUNTERS[0] + n) % count, 10, 3, 0]);
        let scale = if is_skipped { SCALE * 0.5 } else { SCALE * 2.0 };
        assert_eq!((machine.get::<f32>(&self.scale, 1), machine.get::<u32>(&self.grown, 1)), (vec![scale], vec![0]));
        let [skipped, scales, norms] = &self.rings;
        assert_eq!(machine.get::<u32>(skipped, SLOTS), [9, 9, u32::from(is_skipped), 9]);
        assert_eq!(machine.get::<f32>(scales, SLOTS), [9.0, 9.0, SCALE, 9.0]);
        assert_eq!(machine.get::<f64>(norms, SLOTS), [9.0, 9.0, 3.0, 9.0]);
    }
}

#[test]
fn a_step_starts_is_judged_prepared_and_ends() {
    let [start, judge, finish, of_parts] = nn::step();
    for (count, n, is_skipped) in [(20, 7, false), (600, 300, true)] {
        let mut machine = Machine::default();
        let step = Step::new(&mut machine);
        let order: Vec<u32> = (0..count as u32).map(|i| i * 7 % count as u32).collect();
        let labels: Vec<u8> = (0..count - 1).map(|i| (i % 10) as u8).collect();
        let running = real(12, 1);
        let rates = machine.put(&[0.0, 0.0, RATE, 0.0]);
        let [on_order, on_labels, on_running] = [machine.put(&order), machine.put(&labels), machine.put(&running)];
        let (indices, batch_labels, before) = (machine.room::<u32>(n), machine.room::<u8>(n), machine.room::<f32>(12));
        let sizes = [count, 1, count - 1, n, 12].map(number);
        let all = [
            &step.counters,
            &rates,
            &step.control,
            &on_order,
            &sizes[0],
            &sizes[1],
            &on_labels,
            &sizes[2],
            &sizes[3],
            &indices,
            &batch_labels,
            &on_running,
            &before,
            &sizes[4],
        ];
        run(&mut machine, &start, n.div_ceil(256), &all);
        let want: Vec<u32> = (0..n).map(|i| order[(6 + i) % count]).collect();
        assert_eq!(machine.get::<u32>(&indices, n), want);
        // A sample without a label gets label 255.
        let want: Vec<u8> = want.iter().map(|index| labels.get(*index as usize).copied().unwrap_or(255)).collect();
        assert_eq!(machine.get::<u8>(&batch_labels, n), want);
        assert_eq!(machine.get::<f32>(&before, 12), running);

        let parts: usize = if is_skipped { 4 } else { 3 };
        let (part_losses, part_hits) = ((0..parts).map(|i| 1.5 * i as f64).collect::<Vec<_>>(), vec![2u32; parts]);
        let (on_losses, on_hits, correct) =
            (machine.put(&part_losses), machine.put(&part_hits), machine.room::<u32>(SLOTS));
        let sizes = [parts, n].map(number);
        let all = [&step.counters, &on_losses, &on_hits, &sizes[0], &sizes[1], &step.losses, &correct];
        run(&mut machine, &of_parts, 1, &all);
        let sum: f64 =
            part_losses.iter().enumerate().map(|(i, v)| v * (n * (i + 1) / parts - n * i / parts) as f64).sum();
        assert_eq!(machine.get::<f64>(&step.losses, SLOTS)[2], sum / n as f64);
        assert_eq!(machine.get::<u32>(&correct, SLOTS)[2], 2 * parts as u32);

        if is_skipped {
            let Argument::U64(overflow) = step.overflow else { panic!("no buffer") };
            machine.gpu.write(overflow, &1u32.to_le_bytes()).unwrap();
        }
        run(&mut machine, &judge, 1, &[&step.counters, &step.losses, &step.overflow, &step.found]);
        let all = [&Step::settings(), &step.control, &step.found, &step.scale, &step.clip, &step.numbers];
        run(&mut machine, &nn::prepare(), 1, &all);
        step.assert_prepared(&mut machine, is_skipped);
        run(&mut machine, &finish, 1, &[&step.end(n, count)]);
        step.assert_finished(&mut machine, is_skipped, [n as u32, count as u32]);
    }
}

#[test]
fn norms_and_mean_losses_are_those_of_the_cpu() {
    for m in [3, 700] {
        let mut machine = Machine::default();
        let partial: Vec<f64> = whole(m, 1).iter().map(|v| f64::from(*v) + 9.0).collect();
        let hits: Vec<u32> = (0..m as u32).collect();
        let [on_partial, scale] = [machine.put(&partial), machine.put(&[2.0f32])];
        let (on_hits, slot) = (machine.put(&hits), machine.put(&[1u32]));
        let (norm, clip, found) = (machine.room::<f64>(1), machine.room::<f32>(1), machine.room::<u32>(1));
        let most = Argument::U64(1.5f64.to_bits());
        let spec = &nn::norm(Dtype::F32)[1];
        run(&mut machine, spec, 1, &[&on_partial, &number(m), &most, &scale, &norm, &clip, &found]);
        let sum: f64 = partial.iter().sum();
        let want = sum.sqrt() / 2.0;
        assert_eq!(machine.get::<f64>(&norm, 1), [want]);
        assert_eq!(machine.get::<f32>(&clip, 1), [(1.5 / (want + 1e-6)).min(1.0) as f32]);
        assert_eq!(machine.get::<u32>(&found, 1), [0]);
        let (losses, correct) = (machine.put(&[0f64; 2]), machine.put(&[0u32; 2]));
        let count = Argument::U64((m as f64).to_bits());
        let all = [&on_partial, &on_hits, &number(m), &count, &slot, &losses, &correct, &number(2)];
        run(&mut machine, &nn::mean_loss(), 1, &all);
        assert_eq!(machine.get::<f64>(&losses, 2), [0.0, sum / m as f64]);
        assert_eq!(machine.get::<u32>(&correct, 2), [0, hits.iter().sum()]);
    }
}

#[test]
fn the_last_block_judges_the_loss_and_the_norm() {
    for (batch, classes) in [(13, 10), (70, 33)] {
        let n = batch * classes;
        let (x, target) = (real(n, 1), real(n, 2));
        let labels: Vec<u8> = (0..batch).map(|i| (i * 7 % classes) as u8).collect();
        // Compares the loss of a kernel, and the step that its last block prepared.
        let assert_loss = |machine: &mut Machine, step: &Step, want: f64| {
            let loss = machine.get::<f64>(&step.losses, SLOTS)[2];
            assert!((loss - want).abs() < 1e-5 * want, "{loss} {want}");
            step.assert_prepared(machine, false);
        };
        let mut machine = Machine::default();
        let step = Step::new(&mut machine);
        let [on_x, on_target, arrived] = [&x[..], &target, &[0.0]].map(|values| machine.put(values));
        let (on_labels, slot) = (machine.put(&labels), machine.put(&[2u32]));
        let (dx, blocks) = (machine.room::<f32>(n), batch.div_ceil(8));
        let (partial, hits) = (machine.room::<f64>(blocks), machine.room::<u32>(blocks));
        let (correct, count) = (machine.room::<u32>(SLOTS), Argument::U64((batch as f64).to_bits()));
        let (smoothing, rows, verdict) = (Argument::F32(0.0), Argument::F32(batch as f32), step.verdict());
        let sizes = [batch, classes, SLOTS].map(number);
        let all = [
            &on_x,
            &on_labels,
            &sizes[0],
            &sizes[1],
            &smoothing,
            &rows,
            &NULL,
            &dx,
            &partial,
            &hits,
            &arrived,
            &count,
            &slot,
            &step.losses,
            &correct,
            &sizes[2],
            &verdict,
        ];
        run(&mut machine, &nn::cross_entropy_last(Dtype::F32), blocks, &all);
        let loss = |(row, label): (&[f32], &u8)| {
            exact(row).iter().map(|v| v.exp()).sum::<f64>().ln() - f64::from(row[usize::from(*label)])
        };
        let want: f64 = x.chunks(classes).zip(&labels).map(loss).sum();
        assert_loss(&mut machine, &step, want / batch as f64);
        assert_eq!(machine.get::<u32>(&arrived, 1), [0], "the counter is ready for the next launch");

        let step = Step::new(&mut machine);
        let blocks = n.div_ceil(256 * 16);
        let (factor, count, verdict) = (Argument::F32(0.5), Argument::U64((n as f64).to_bits()), step.verdict());
        let all = [
            &on_x,
            &on_target,
            &long(n),
            &factor,
            &NULL,
            &dx,
            &partial,
            &arrived,
            &count,
            &slot,
            &step.losses,
            &sizes[2],
            &verdict,
        ];
        run(&mut machine, &nn::mse_last(Dtype::F32), blocks, &all);
        let want: f64 = x.iter().zip(&target).map(|(x, t)| (f64::from(*x) - f64::from(*t)).powi(2)).sum();
        assert_loss(&mut machine, &step, want / n as f64);

        let spec = nn::sum_squares_last(Dtype::F32);
        let (mut split, step) = (n / 8 * 4, Step::new(&mut machine));
        let rounded = machine.put(&target[split..]);
        let parts = [split, n - split].map(|n| nn::norm_blocks(&spec.tiles[0], n as u64) as usize);
        let m = parts[0] + parts[1];
        let (partial, verdict, most) = (machine.room::<f64>(m), step.verdict(), Argument::U64(2f64.to_bits()));
        let lengths = [split, n].map(long);
        let all = [
            &on_x,
            &rounded,
            &lengths[0],
            &lengths[1],
            &partial,
            &number(m),
            &arrived,
            &most,
            &step.scale,
            &step.norm,
            &step.clip,
            &step.overflow,
            &verdict,
        ];
        run(&mut machine, &spec, m, &all);
        split = split.min(n);
        let squares: f64 = x[..split].iter().chain(&target[split..]).map(|v| f64::from(*v).powi(2)).sum();
        let norm = squares.sqrt() / f64::from(SCALE);
        assert!((machine.get::<f64>(&step.norm, 1)[0] - norm).abs() < 1e-12 * norm);
        let clip = machine.get::<f32>(&step.clip, 1)[0];
        assert!((f64::from(clip) - (2.0 / (norm + 1e-6)).min(1.0)).abs() < 1e-6);
        step.assert_prepared(&mut machine, false);
    }
}

#[test]
fn updates_whose_last_block_ends_the_step_are_those_of_the_cpu() {
    for n in [100, 5001] {
        let (weights, gradients) = (real(n, 1), real(n, 2));
        let numbers: [f32; 11] = [0.5, 0.1, 0.9, 0.01, 0.1, 0.3, 0.1, 0.9, 0.1, 1e-3, 0.99];
        let decayed = |(w, g): (&f32, &f32)| g * 0.5 + 0.01 * w;
        let plain: Vec<f32> = weights.iter().zip(&gradients).map(|pair| pair.0 - 0.1 * decayed(pair)).collect();
        let adam = weights.iter().zip(&gradients).map(|(w, g)| {
            let w = w * 0.99;
            let g = decayed((&w, g));
            let (m, v) = (0.1 * g, 0.1 * (g * g));
            w - 0.1 * (m / (v.sqrt() / 0.3 + 1e-3))
        });
        let adam: Vec<f32> = adam.collect();
        for (kind, spec) in nn::updates_last(Dtype::F32).iter().enumerate() {
            let mut machine = Machine::default();
            let step = Step::new(&mut machine);
            let words: Vec<u32> = numbers.iter().map(|v| v.to_bits()).chain([1, 0]).collect();
            let (on_numbers, arrived) = (machine.put(&words), machine.put(&[0u32]));
            let [on_weights, on_gradients] = [&weights, &gradients].map(|values| machine.put(values));
            let state = [(); 2].map(|()| machine.put(&vec![0f32; n]));
            let (settings, length, end) = (Step::settings(), long(n), step.end(7, 11));
            let mut all = vec![&settings, &on_numbers, &on_weights, &on_gradients, &NULL, &length];
            all.extend(&state[..kind]);
            all.extend([&NULL, &length, &arrived, &end]);
            run(&mut machine, spec, n.div_ceil(256 * 8), &all);
            let want = if kind == 2 { &adam } else { &plain };
            assert_eq!(&machine.get::<f32>(&on_weights, n), want, "{}", spec.entry);
            step.assert_finished(&mut machine, false, [7, 11]);
        }
        // Groups of parameters: the first cell has the rule above, the second has another rate, and the rest is frozen.
        let mut machine = Machine::default();
        let words: Vec<u32> = numbers.iter().map(|v| v.to_bits()).chain([1, 0]).collect();
        let cells: Vec<u8> = (0..n.div_ceil(64)).map(|cell| [0, 1, 255][cell.min(2)]).collect();
        let [on_cells, on_numbers] = [machine.put(&cells), machine.put(&[0.9f32, 0.01, 0.0, 0.0, 0.9, 0.01, 0.0, 0.0])];
        let (on_step, counters) = (machine.put(&words), machine.put(&[0u32, 0, 1, 0]));
        let rates = machine.put(&[9.0f32, 9.0, 0.1, 0.0]);
        let [on_weights, on_gradients, momentum] =
            [&weights, &gradients, &vec![0.0; n]].map(|values| machine.put(values));
        let (groups, length) = (number(2), long(n));
        let all = [
            &on_cells,
            &on_numbers,
            &on_step,
            &counters,
            &rates,
            &groups,
            &on_weights,
            &on_gradients,
            &NULL,
            &length,
            &momentum,
            &NULL,
            &length,
        ];
        run(&mut machine, &nn::update_groups(Dtype::F32), n.div_ceil(256 * 8), &all);
        let want = [&plain[..64], &weights[64..]].concat();
        assert_eq!(machine.get::<f32>(&on_weights, n), want);
        let momentum = machine.get::<f32>(&momentum, n);
        let kept = |i: usize| if i < 128 { decayed((&weights[i], &gradients[i])) } else { 0.0 };
        assert_eq!(momentum, (0..n).map(kept).collect::<Vec<_>>());

        // Reverts the update, and leaves it alone if nothing was found.
        let kept = machine.put(&[&weights[..], &gradients, &plain].concat());
        for found in [0u32, 1] {
            let (on_found, counters) = (machine.put(&[found]), machine.put(&COUNTERS));
            let [first, second, w] = [&plain, &weights, &adam].map(|values| machine.put(values));
            let all = [&on_found, &counters, &kept, &length, &w, &first, &second, &NULL];
            run(&mut machine, &nn::restore(Dtype::F32), 2, &all);
            let got = [&w, &first, &second].map(|buffer| machine.get::<f32>(buffer, n));
            let want = if found == 1 { [&weights, &gradients, &plain] } else { [&adam, &plain, &weights] };
            assert!(got.iter().zip(want).all(|(got, want)| got == want), "restore with {found}");
        }
    }
}
