//! Tests the convolutions that run on CUDA cores: direct, as products of unrolled windows, as implicit products, and the reference in f64.

use crate::machine::{Machine, assert_close, real};
use crate::network::{NULL, SIZES, Windows, number, run, structure};
use warpbook_kernels::nn::{Layout, conv2d};
use warpbook_record::{Dim, Dtype, KernelSpec};

#[test]
fn convolutions_are_those_of_the_formula() {
    for g in SIZES {
        let ([oh, ow], Windows { batch, channels: c, filters: o, h, w, .. }) = (g.out(), g);
        let [kh, kw] = g.kernel;
        let mut machine = Machine::default();
        let (from, to, taps) = (batch * h * w * c, batch * oh * ow * o, kh * kw * c);
        let (x, weight, bias, dy) = (real(from, 1), real(o * taps, 2), real(o, 3), real(to, 4));
        let [on_x, on_weight, on_bias, on_dy] = [&x, &weight, &bias, &dy].map(|values| machine.put(values));
        let [y, dx, dweight, dbias] = [to, from, o * taps, o].map(|length| machine.room::<f32>(length));
        let (mut want_y, mut want_dx, mut want_dw, mut want_db) =
            (vec![0.0; to], vec![0.0; from], vec![0.0; o * taps], vec![0.0; o]);
        for (image, filter) in (0..batch).flat_map(|image| (0..o).map(move |filter| (image, filter))) {
            let at = |oy: usize, ox: usize| ((image * oh + oy) * ow + ox) * o + filter;
            for (oy, ox) in (0..oh).flat_map(|oy| (0..ow).map(move |ox| (oy, ox))) {
                want_y[at(oy, ox)] = f64::from(bias[filter]);
                want_db[filter] += f64::from(dy[at(oy, ox)]);
            }
            g.each(|[oy, ox], tap, [row, column]| {
                for channel in 0..c {
                    let (source, of) =
                        (((image * h + row) * w + column) * c + channel, (filter * kh * kw + tap) * c + channel);
                    want_y[at(oy, ox)] += f64::from(x[source]) * f64::from(weight[of]);
                    want_dx[source] += f64::from(dy[at(oy, ox)]) * f64::from(weight[of]);
                    want_dw[of] += f64::from(dy[at(oy, ox)]) * f64::from(x[source]);
                }
            });
        }
        let shape = structure(&[c, h, w, o, oh, ow, kh, kw, g.stride, g.stride, g.padding, g.padding, batch * oh * ow]);
        let [forward, input, weights, biases] = conv2d::direct(Layout::Nhwc);
        run(
            &mut machine,
            &forward,
            to.div_ceil(256),
            &[&shape, &on_x, &on_weight, &on_bias, &number(0), &y, &number(to)],
        );
        assert_close("y", &machine.get(&y, to), &want_y, 1e-5);
        run(&mut machine, &input, from.div_ceil(256), &[&shape, &on_dy, &on_weight, &NULL, &dx, &number(from)]);
        assert_close("dx", &machine.get(&dx, from), &want_dx, 1e-5);
        run(&mut machine, &weights, o * taps, &[&shape, &on_x, &on_dy, &dweight]);
        assert_close("dw", &machine.get(&dweight, o * taps), &want_dw, 1e-5);
        run(&mut machine, &biases, o, &[&shape, &on_dy, &dbias]);
        assert_close("db", &machine.get(&dbias, o), &want_db, 1e-5);
        // Gathers the patches into a matrix, as the implicit matrix product does.
        let divisor = |value: usize| {
            let shift = value.next_power_of_two().trailing_zeros().saturating_sub(1);
            let multiplier = ((1u64 << (32 + shift)) / value as u64 + 1) as usize;
            [value, multiplier, shift as usize]
        };
        let pixels = batch * oh * ow;
        let mut words = vec![pixels, taps, h, w, h * w * c, w * c, c, 1, g.stride, g.stride, g.padding, g.padding];
        words.extend([oh * ow, ow, c, kw, 1, 1].into_iter().flat_map(divisor));
        let patches = structure(&words);
        let (unroll, ld) = (&conv2d::im2col(Dtype::F32, Layout::Nhwc)[0], taps.next_multiple_of(4));
        let columns = machine.room::<f32>(pixels * ld);
        run(
            &mut machine,
            unroll,
            (pixels * ld).div_ceil(256),
            &[&patches, &on_x, &columns, &number(ld), &number(pixels * ld)],
        );
        let mut want = vec![0.0; pixels * ld];
        for image in 0..batch {
            g.each(|[oy, ox], tap, [row, column]| {
                for channel in 0..c {
                    let pixel = (image * oh + oy) * ow + ox;
                    want[pixel * ld + tap * c + channel] = f64::from(x[((image * h + row) * w + column) * c + channel]);
                }
            });
        }
        assert_close("columns", &machine.get(&columns, pixels * ld), &want, 0.0);
        let implicit = &conv2d::Implicit::plain(conv2d::Pass::Forward, Dtype::F32, Layout::Nhwc).spec();
        let tile = &implicit.tiles[0];
        let blocks = pixels.div_ceil(tile.size(Dim::Bm) as usize) * o.div_ceil(tile.size(Dim::Bn) as usize);
        run(&mut machine, implicit, blocks, &[&patches, &on_x, &on_weight, &on_bias, &number(0), &y, &number(o)]);
        assert_close("y of the implicit product", &machine.get(&y, to), &want_y, 1e-5);
        // The gradients as implicit products: of the weights in two parts, and of x, for which the mirrored windows pass over dy.
        let implicit = |pass, dilated| {
            let form = conv2d::Implicit::plain(pass, Dtype::F32, Layout::Nhwc);
            conv2d::Implicit { dilated, ..form }.spec()
        };
        let tiles = |spec: &KernelSpec, rows: usize, columns: usize| {
            let tile = &spec.tiles[0];
            rows.div_ceil(tile.size(Dim::Bm) as usize) * columns.div_ceil(tile.size(Dim::Bn) as usize)
        };
        let spec = implicit(conv2d::Pass::WeightGradient, false);
        let share = pixels.div_ceil(2).next_multiple_of(32);
        let parts = pixels.div_ceil(share);
        let partial = machine.room::<f32>(parts * o * taps);
        let all = [&patches, &on_x, &on_dy, &partial, &number(o), &number(share)];
        run(&mut machine, &spec, tiles(&spec, o, taps) * parts, &all);
        let partial = machine.get::<f32>(&partial, parts * o * taps);
        let sums: Vec<f32> = (0..o * taps).map(|at| partial.iter().skip(at).step_by(o * taps).sum()).collect();
        assert_close("dw of the implicit product", &sums, &want_dw, 1e-5);
        let (sides, before) =
            ([oh, ow].map(|side| (side - 1) * g.stride + 1), g.kernel.map(|k| (k - 1).wrapping_sub(g.padding)));
        let mut words =
            vec![batch * h * w, kh * kw * o, sides[0], sides[1], oh * ow * o, ow * o, o, 1, 1, 1, before[0], before[1]];
        words.extend([h * w, w, o, kw, g.stride, g.stride].into_iter().flat_map(divisor));
        let (mirrored, spec) = (structure(&words), implicit(conv2d::Pass::InputGradient, true));
        let dx = machine.room::<f32>(from);
        let all = [&mirrored, &on_dy, &on_weight, &NULL, &dx, &number(c), &number(o), &number(kh * kw)];
        run(&mut machine, &spec, tiles(&spec, batch * h * w, c), &all);
        assert_close("dx of the implicit product", &machine.get(&dx, from), &want_dx, 1e-5);
        // Folding the matrix of patches adds each element of x as often as windows contain it.
        let [_, fold, exchange] = conv2d::im2col(Dtype::F32, Layout::Nhwc);
        let dx = machine.room::<f32>(from);
        run(&mut machine, &fold, from.div_ceil(256), &[&shape, &columns, &number(ld), &NULL, &dx, &number(from)]);
        let mut want = vec![0.0; from];
        for image in 0..batch {
            g.each(|_, _, [row, column]| {
                (0..c).for_each(|channel| {
                    let at = ((image * h + row) * w + column) * c + channel;
                    want[at] += f64::from(x[at]);
                });
            });
        }
        assert_close("folded columns", &machine.get(&dx, from), &want, 1e-6);
        let sizes = [c, h * w, 0, from].map(number);
        run(&mut machine, &exchange, from.div_ceil(256), &[&on_x, &dx, &sizes[0], &sizes[1], &sizes[2], &sizes[3]]);
        let exchanged = (0..from).map(|at| x[(at / (c * h * w) * h * w + at % (h * w)) * c + at / (h * w) % c]);
        assert_eq!(machine.get::<f32>(&dx, from), exchanged.collect::<Vec<_>>());
        // The reference of the rungs, in f64.
        let lengths = [to, from, o * taps];
        for (spec, (n, operands)) in conv2d::reference(Dtype::F32).iter().zip(lengths.into_iter().zip([
            [&on_x, &on_weight],
            [&on_dy, &on_weight],
            [&on_x, &on_dy],
        ])) {
            let (result, sizes) = (machine.room::<f64>(n), machine.room::<f64>(n));
            let blocks = if spec.entry == "reference_weight_gradient" { n } else { n.div_ceil(256) };
            run(&mut machine, spec, blocks, &[&shape, operands[0], operands[1], &result, &sizes, &number(n)]);
            let got: Vec<f64> = machine.get(&result, n);
            let want: Vec<f64> = match spec.entry.as_ref() {
                "reference_forward" => (0..n).map(|at| want_y[at] - f64::from(bias[at % o])).collect(),
                "reference_input_gradient" => want_dx.clone(),
                _ => want_dw.clone(),
            };
            assert!(got.iter().zip(&want).all(|(got, want)| (got - want).abs() < 1e-9), "{}", spec.entry);
        }
    }
}
