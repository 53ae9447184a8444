//! The gradient of a layer over a large batch: of all its samples at once, or added up over parts of it.

use crate::Result;
use crate::experiment::{Candidate, Details, on_cpu, on_gpu};
use crate::guide::halves::Work;
use crate::guide::prepared::Arrays;
use rayon::prelude::*;
use warpbook_kernels::matmul::Form;
use warpbook_nn::gemm::{DeviceArrays, Gemm, Product, Workspace, cpu};
use warpbook_record::Dtype;

/// Samples of the whole batch, and features and outputs of the layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sizes {
    batch: usize,
    width: usize,
}

impl Sizes {
    fn of(work: &Work) -> Self {
        Self { batch: work.n as usize, width: work.argument as usize }
    }

    /// Elements of the inputs, and of the targets, of so many samples; then those of the weight.
    fn rows(self, samples: usize) -> usize {
        samples * self.width
    }

    fn weight(self) -> usize {
        self.width * self.width
    }
}

/// The work of a batch, whatever its parts.
pub(in crate::guide) const fn work(batch: u64, width: u64) -> Work {
    let (rows, weight) = (batch * width, width * width);
    Work {
        n: batch,
        inputs: 2 * rows + weight,
        outputs: weight,
        flops: 4 * rows * width,
        // Inputs twice, targets, errors written and read, weight and gradient.
        bytes: 4 * (5 * rows + 2 * weight),
        written_bytes: 4 * (rows + weight),
        argument: width,
        array_bytes: 4 * (2 * rows + 2 * weight),
    }
}

/// Inputs `[batch][width]`, targets of the same shape, and the weight `[width][width]`.
fn parts(x: &[f32], s: Sizes) -> [&[f32]; 3] {
    let (inputs, rest) = x.split_at(s.rows(s.batch));
    let (targets, weight) = rest.split_at(s.rows(s.batch));
    [inputs, targets, weight]
}

/// dw = x^T (x w - t) / batch, in f64.
pub(in crate::guide) fn want(x: &[f32], work: &Work, _: u64) -> Vec<f64> {
    let s = Sizes::of(work);
    let [x, t, w] = parts(x, s);
    let error = |(x, t): (&[f32], &[f32])| {
        let mut e: Vec<f64> = t.iter().map(|t| -f64::from(*t)).collect();
        for (x, w) in x.iter().zip(w.chunks(s.width)) {
            e.iter_mut().zip(w).for_each(|(e, w)| *e += f64::from(*x) * f64::from(*w));
        }
        e
    };
    let errors: Vec<f64> = x.par_chunks(s.width).zip(t.par_chunks(s.width)).flat_map_iter(error).collect();
    let row = |i: usize| {
        let mut dw = vec![0.0f64; s.width];
        for (x, e) in x.chunks(s.width).zip(errors.chunks(s.width)) {
            dw.iter_mut().zip(e).for_each(|(dw, e)| *dw += f64::from(x[i]) * e);
        }
        dw.iter_mut().for_each(|dw| *dw /= s.batch as f64);
        dw
    };
    (0..s.width).into_par_iter().flat_map_iter(row).collect()
}

/// The two products of a part of the batch: e = x w - t, where e holds t before; dw = x^T e / batch, added to what dw holds but for the first part.
fn products(s: Sizes, samples: usize) -> [Product; 3] {
    let (m, n) = (samples as u32, s.width as u32);
    let form = Form::plain(Dtype::F32);
    let error = Product::new(m, n, n, form).scaled(1.0, -1.0);
    let gradient = Product::new(n, n, m, Form { trans_a: true, ..form });
    let share = 1.0 / s.batch as f32;
    [error, gradient.scaled(share, 0.0), gradient.scaled(share, 1.0)]
}

/// On the GPU, in so many parts, whose samples come from page-locked memory.
pub(in crate::guide) fn on_the_gpu(arrays: &Arrays, pieces: usize) -> Result<Box<dyn Candidate + '_>> {
    let on = arrays.on_gpu()?;
    let s = Sizes::of(&arrays.work);
    let samples = s.batch / pieces;
    let len = s.rows(samples);
    let [inputs, targets, weight] = parts(&arrays.x, s);
    let (inputs, targets) = (on.device.pinned_from(inputs)?, on.device.pinned_from(targets)?);
    let (x, e) = (on.device.zeros::<f32>(len)?, on.device.zeros::<f32>(len)?);
    let weight = on.device.buffer_from(weight)?;
    let [error, first, next] = products(s, samples);
    let of_error = DeviceArrays::new(&x, &weight, &e);
    let of_gradient = DeviceArrays::new(&x, &e, &on.y);
    let gemm = Gemm::new(&on.device);
    let plans =
        [gemm.plan_for(&error, &of_error)?, gemm.plan_for(&first, &of_gradient)?, gemm.plan_for(&next, &of_gradient)?];
    let workspace = Workspace::for_plans(&on.device, plans.iter().map(|plan| &**plan))?;
    let held = 4 * (2 * len + 2 * s.weight()) as u64 + workspace.bytes();
    let details = Details {
        kernels: plans.iter().take(2).flat_map(|plan| plan.stats()).collect(),
        peak_bytes: Some(held),
        ..Details::default()
    };
    let launch = move || {
        for piece in 0..pieces {
            let range = piece * len..(piece + 1) * len;
            on.stream.copy_to_device(&inputs.range(range.clone()), &x)?;
            on.stream.copy_to_device(&targets.range(range), &e)?;
            gemm.gemm(&on.stream, &error, &of_error, &workspace)?;
            let gradient = if piece == 0 { &first } else { &next };
            gemm.gemm(&on.stream, gradient, &of_gradient, &workspace)?;
        }
        Ok(())
    };
    let check = move || Ok(arrays.check(&on.y.to_vec()?));
    Ok(Box::new(on_gpu(&on.stream, launch, check).poisoning(&on.y).details(details).as_launched()))
}

/// The same on the CPU, by all threads.
pub(in crate::guide) fn on_the_cpu(arrays: &Arrays, pieces: usize) -> Result<Box<dyn Candidate + '_>> {
    let s = Sizes::of(&arrays.work);
    let samples = s.batch / pieces;
    let len = s.rows(samples);
    let launch = move || {
        let [inputs, targets, weight] = parts(&arrays.x, s);
        let mut dw = arrays.out.borrow_mut();
        let mut e = vec![0.0f32; len];
        let share = 1.0 / s.batch as f32;
        let refused =
            |e: cpu::GemmError| warpbook_device::Error::Unsupported { what: "The product".into(), why: e.to_string() };
        for piece in 0..pieces {
            let x = &inputs[piece * len..][..len];
            e.copy_from_slice(&targets[piece * len..][..len]);
            let forward = cpu::Operands {
                a: x,
                b: weight,
                m: samples,
                n: s.width,
                k: s.width,
                lda: s.width,
                ldb: s.width,
                ldc: s.width,
                trans_a: false,
                trans_b: false,
                alpha: 1.0,
                beta: -1.0,
            };
            cpu::library(&forward, &mut e).map_err(refused)?;
            let beta = if piece == 0 { 0.0 } else { 1.0 };
            let backward =
                cpu::Operands { b: &e, m: s.width, k: samples, trans_a: true, alpha: share, beta, ..forward };
            cpu::library(&backward, &mut dw).map_err(refused)?;
        }
        Ok(())
    };
    Ok(Box::new(on_cpu(launch, move || Ok(arrays.check(&arrays.out.borrow())))))
}
