//! CPU products of every type with every epilogue that the GPU supports.

use super::super::product::{ArraySpec, ArraySpecs};
use super::super::{Malformed, MatrixElement, Product};
use super::{GemmError, Operands, library};
use crate::product::epilogue::apply;
use crate::product::storage::rounded;
use half::{bf16, f16};
use rayon::prelude::*;
use std::borrow::Cow;
use warpbook_data::parallel::{self, chunks};
use warpbook_kernels::matmul::Epilogue;
use warpbook_record::Dtype;

/// An array of f32, f16 or bf16 on the host. `Tf32` is stored as f32.
#[derive(Debug, Clone, Copy)]
pub enum HostArray<'a> {
    /// An array for `F32` or `Tf32`.
    F32(&'a [f32]),
    /// An array for `F16`.
    F16(&'a [f16]),
    /// An array for `Bf16`.
    Bf16(&'a [bf16]),
}

/// An array on the host that can be written.
#[derive(Debug)]
pub enum HostArrayMut<'a> {
    /// An array for `F32` or `Tf32`.
    F32(&'a mut [f32]),
    /// An array for `F16`.
    F16(&'a mut [f16]),
    /// An array for `Bf16`.
    Bf16(&'a mut [bf16]),
}

macro_rules! arrays_of {
    ($($variant:ident: $t:ty),*) => {
        $(
            impl<'a> From<&'a [$t]> for HostArray<'a> {
                fn from(values: &'a [$t]) -> Self {
                    Self::$variant(values)
                }
            }

            impl<'a> From<&'a mut [$t]> for HostArrayMut<'a> {
                fn from(values: &'a mut [$t]) -> Self {
                    Self::$variant(values)
                }
            }
        )*
    };
}
arrays_of!(F32: f32, F16: f16, Bf16: bf16);

impl<'a> HostArray<'a> {
    fn spec(&self) -> ArraySpec {
        match self {
            Self::F32(v) => ArraySpec { dtype: f32::DTYPE, len: v.len() },
            Self::F16(v) => ArraySpec { dtype: f16::DTYPE, len: v.len() },
            Self::Bf16(v) => ArraySpec { dtype: bf16::DTYPE, len: v.len() },
        }
    }

    fn to_f32(self) -> Cow<'a, [f32]> {
        match self {
            Self::F32(v) => v.into(),
            Self::F16(v) => parallel::from_f16(v).into(),
            Self::Bf16(v) => parallel::from_bf16(v).into(),
        }
    }

    fn at(&self, index: usize) -> f32 {
        match self {
            Self::F32(v) => v[index],
            Self::F16(v) => v[index].to_f32(),
            Self::Bf16(v) => v[index].to_f32(),
        }
    }
}

impl HostArrayMut<'_> {
    fn spec(&self) -> ArraySpec {
        match self {
            Self::F32(v) => HostArray::F32(v).spec(),
            Self::F16(v) => HostArray::F16(v).spec(),
            Self::Bf16(v) => HostArray::Bf16(v).spec(),
        }
    }
}

/// All arrays of a product on the host.
#[derive(Debug)]
pub struct HostArrays<'a> {
    /// A in its stored layout.
    pub a: HostArray<'a>,
    /// B in its stored layout.
    pub b: HostArray<'a>,
    /// C, which is written.
    pub c: HostArrayMut<'a>,
    /// Bias f32 `[n]`, for an epilogue with a bias.
    pub bias: Option<&'a [f32]>,
    /// Mask with the shape, type and leading dimension of C, for an epilogue with a mask.
    pub mask: Option<HostArray<'a>>,
    /// Bias gradient f32 `[n]`, which is written, for a product with one.
    pub bias_gradient: Option<&'a mut [f32]>,
}

impl<'a> HostArrays<'a> {
    /// Creates the arrays of a product that needs only A, B and C.
    pub fn new(a: impl Into<HostArray<'a>>, b: impl Into<HostArray<'a>>, c: impl Into<HostArrayMut<'a>>) -> Self {
        Self { a: a.into(), b: b.into(), c: c.into(), bias: None, mask: None, bias_gradient: None }
    }

    /// Adds a bias.
    #[must_use]
    pub fn bias(self, bias: &'a [f32]) -> Self {
        Self { bias: Some(bias), ..self }
    }

    /// Adds a mask.
    #[must_use]
    pub fn mask(self, mask: impl Into<HostArray<'a>>) -> Self {
        Self { mask: Some(mask.into()), ..self }
    }

    /// Adds an array for the bias gradient.
    #[must_use]
    pub fn bias_gradient(self, bias_gradient: &'a mut [f32]) -> Self {
        Self { bias_gradient: Some(bias_gradient), ..self }
    }

    fn specs(&self) -> ArraySpecs {
        let row = |len| ArraySpec { dtype: Dtype::F32, len };
        ArraySpecs {
            a: self.a.spec(),
            b: self.b.spec(),
            c: self.c.spec(),
            bias: self.bias.map(|x| row(x.len())),
            mask: self.mask.map(|x| x.spec()),
            bias_gradient: self.bias_gradient.as_ref().map(|x| row(x.len())),
        }
    }
}

/// Computes C = f(alpha op(A) op(B) + beta C), and the bias gradient if the product has one, on all threads of the rayon pool.
///
/// Types and epilogues are the same as for products on a GPU: elements of A and B are converted to f32 (for `Tf32` only the upper 19 bits, which tensor cores
/// read, are used), sums are in f32, and C is rounded to its type at the end.
///
/// # Errors
/// If the product is malformed, or an array is missing, too short or of another type; nothing is written then.
pub fn gemm(product: &Product, arrays: HostArrays<'_>) -> Result<(), Malformed> {
    product.check(&arrays.specs())?;
    let p = product;
    let [a_len, b_len, c_len] = p.elements();
    let (stored_a, stored_b) = (arrays.a.to_f32(), arrays.b.to_f32());
    if let Some(out) = arrays.bias_gradient {
        column_sums(p, &stored_b, &mut out[..p.n as usize]);
    }
    let (a, b) = (as_read(stored_a, p.form.dtype), as_read(stored_b, p.form.dtype));
    let ops = Operands {
        a: &a[..a_len],
        b: &b[..b_len],
        m: p.m as usize,
        n: p.n as usize,
        k: p.k as usize,
        lda: p.lda as usize,
        ldb: p.ldb as usize,
        ldc: p.ldc as usize,
        trans_a: p.form.trans_a,
        trans_b: p.form.trans_b,
        alpha: p.alpha,
        beta: p.beta,
    };
    let inputs = Inputs { product: p, bias: arrays.bias, mask: arrays.mask };
    match arrays.c {
        HostArrayMut::F32(c) => inputs.write_f32(&ops, &mut c[..c_len]),
        HostArrayMut::F16(c) => inputs.write_16_bits(&ops, &mut c[..c_len], f16::to_f32, f16::from_f32),
        HostArrayMut::Bf16(c) => inputs.write_16_bits(&ops, &mut c[..c_len], bf16::to_f32, bf16::from_f32),
    }
    .map_err(|e| Malformed(e.to_string()))
}

/// Returns the elements as the product multiplies them: rounded to tf32 if that is its type.
fn as_read(stored: Cow<'_, [f32]>, dtype: Dtype) -> Cow<'_, [f32]> {
    if dtype == Dtype::Tf32 { stored.par_iter().map(|v| rounded(*v, dtype)).collect() } else { stored }
}

/// Inputs of an epilogue.
struct Inputs<'a> {
    product: &'a Product,
    bias: Option<&'a [f32]>,
    mask: Option<HostArray<'a>>,
}

impl Inputs<'_> {
    fn apply(&self, v: f32, row: usize, column: usize) -> f32 {
        let bias = self.bias.map_or(0.0, |x| x[column]);
        let mask = self.mask.map_or(0.0, |x| x.at(row * self.product.ldc as usize + column));
        apply(self.product.form.epilogue, v, bias, mask)
    }

    /// Computes alpha op(A) op(B) + beta C in place, in C.
    fn write_f32(&self, ops: &Operands<'_>, c: &mut [f32]) -> Result<(), GemmError> {
        library(ops, c)?;
        if self.product.form.epilogue != Epilogue::None {
            chunks(c, ops.ldc, &|row, c| {
                c[..ops.n].iter_mut().enumerate().for_each(|(column, c)| *c = self.apply(*c, row, column));
            });
        }
        Ok(())
    }

    /// Computes the product in an array of f32, then rounds it.
    fn write_16_bits<T: Copy + Send>(
        &self,
        ops: &Operands<'_>,
        c: &mut [T],
        to_f32: impl Fn(T) -> f32 + Sync,
        from_f32: impl Fn(f32) -> T + Sync,
    ) -> Result<(), GemmError> {
        let mut products = vec![0.0; ops.m * ops.n];
        library(&Operands { beta: 0.0, ldc: ops.n, ..*ops }, &mut products)?;
        chunks(c, ops.ldc, &|row, c| {
            let products = &products[row * ops.n..][..ops.n];
            for (column, (c, product)) in c.iter_mut().zip(products).enumerate() {
                let v = if ops.beta == 0.0 { *product } else { ops.beta.mul_add(to_f32(*c), *product) };
                *c = from_f32(self.apply(v, row, column));
            }
        });
        Ok(())
    }
}

/// Computes the column sums of op(B) in f32, first over blocks of rows, as on a GPU.
fn column_sums(p: &Product, b: &[f32], out: &mut [f32]) {
    /// Number of columns of a task, which are read together.
    const COLUMNS: usize = 64;
    /// Number of rows in a block.
    const ROWS: usize = 256;
    let (k, ldb) = (p.k as usize, p.ldb as usize);
    chunks(out, COLUMNS, &|task, out| {
        let first = task * COLUMNS;
        let mut totals = [0.0f32; COLUMNS];
        for rows in (0..k).step_by(ROWS).map(|from| from..(from + ROWS).min(k)) {
            let mut sums = [0.0f32; COLUMNS];
            if p.form.trans_b {
                for (j, sum) in sums[..out.len()].iter_mut().enumerate() {
                    *sum = b[(first + j) * ldb..][rows.clone()].iter().sum();
                }
            } else {
                for row in rows {
                    let values = &b[row * ldb + first..][..out.len()];
                    sums.iter_mut().zip(values).for_each(|(sum, v)| *sum += v);
                }
            }
            totals.iter_mut().zip(sums).for_each(|(total, sum)| *total += sum);
        }
        for (out, total) in out.iter_mut().zip(totals) {
            *out = if p.beta == 0.0 { p.alpha * total } else { p.beta.mul_add(*out, p.alpha * total) };
        }
    });
}

#[cfg(test)]
mod tests {
    use super::super::reference_rows;
    use super::*;
    use crate::gelu;
    use warpbook_data::philox::gaussian;
    use warpbook_kernels::Tolerance;
    use warpbook_kernels::matmul::Form;

    /// Value of elements that must not be written.
    const UNTOUCHED: f32 = -7.75;

    enum Stored {
        F32(Vec<f32>),
        F16(Vec<f16>),
        Bf16(Vec<bf16>),
    }

    impl Stored {
        fn new(values: &[f32], dtype: Dtype) -> Self {
            match dtype {
                Dtype::F16 => Self::F16(values.iter().map(|v| f16::from_f32(*v)).collect()),
                Dtype::Bf16 => Self::Bf16(values.iter().map(|v| bf16::from_f32(*v)).collect()),
                _ => Self::F32(values.to_vec()),
            }
        }

        fn array(&self) -> HostArray<'_> {
            match self {
                Self::F32(v) => (&v[..]).into(),
                Self::F16(v) => (&v[..]).into(),
                Self::Bf16(v) => (&v[..]).into(),
            }
        }

        fn array_mut(&mut self) -> HostArrayMut<'_> {
            match self {
                Self::F32(v) => (&mut v[..]).into(),
                Self::F16(v) => (&mut v[..]).into(),
                Self::Bf16(v) => (&mut v[..]).into(),
            }
        }

        fn values(&self) -> Vec<f32> {
            self.array().to_f32().into_owned()
        }
    }

    fn check(p: &Product) {
        let (m, n, ldc) = (p.m as usize, p.n as usize, p.ldc as usize);
        let [a_len, b_len, c_len] = p.elements();
        let draw = |stream, len: usize| -> Vec<f32> { (0..len).map(|i| gaussian(5, i as u64, stream)).collect() };
        let (a, b) = (draw(0, a_len), draw(1, b_len));
        let (a, b) = (Stored::new(&a, p.form.dtype), Stored::new(&b, p.form.dtype));
        let mut before = draw(2, c_len);
        for row in before.chunks_mut(ldc) {
            row.iter_mut().skip(n).for_each(|v| *v = UNTOUCHED);
        }
        let mut c = Stored::new(&before, p.form.out);
        let before = c.values();
        let (bias, mask) = (draw(3, n), Stored::new(&draw(4, c_len), p.form.out));
        let sums_before = draw(6, n);
        let mut sums = sums_before.clone();
        let mut arrays = HostArrays::new(a.array(), b.array(), c.array_mut());
        arrays.bias = p.form.epilogue.has_bias().then_some(&bias);
        arrays.mask = p.form.epilogue.has_mask().then_some(mask.array());
        arrays.bias_gradient = p.bias_gradient.then_some(&mut sums);
        gemm(p, arrays).unwrap();

        let read = |x: &Stored| x.values().iter().map(|v| rounded(*v, p.form.dtype)).collect::<Vec<_>>();
        let rows: Vec<usize> = (0..m).collect();
        let reference = |a: &[f32], b: &[f32], c: &[f32], alpha, beta| {
            let (lda, ldb) = (p.lda as usize, p.ldb as usize);
            let (trans_a, trans_b) = (p.form.trans_a, p.form.trans_b);
            let ops = Operands { a, b, m, n, k: p.k as usize, lda, ldb, ldc, trans_a, trans_b, alpha, beta };
            reference_rows(&ops, c, &rows).unwrap()
        };
        let abs = |v: &[f32]| v.iter().map(|v| v.abs()).collect::<Vec<_>>();
        let (a_read, b_read) = (read(&a), read(&b));
        let want = reference(&a_read, &b_read, &before, p.alpha, p.beta);
        let scale = reference(&abs(&a_read), &abs(&b_read), &abs(&before), p.alpha.abs(), p.beta.abs());
        let Tolerance(tolerance) = Tolerance::product(p.form.dtype, p.k.into());
        for (i, got) in c.values().iter().enumerate() {
            let (row, column) = (i / ldc, i % ldc);
            if column >= n {
                assert_eq!(*got, UNTOUCHED, "{p:?} wrote behind row {row}");
                continue;
            }
            let (v, magnitude) = (want[row * n + column], scale[row * n + column]);
            let bias = f64::from(bias[column]);
            let want = match p.form.epilogue {
                Epilogue::None => v,
                Epilogue::Bias => v + bias,
                Epilogue::BiasRelu => (v + bias).max(0.0),
                Epilogue::ReluMask => {
                    if mask.array().at(i) <= 0.0 {
                        0.0
                    } else {
                        v
                    }
                }
                Epilogue::Gelu => gelu(v),
                Epilogue::BiasGelu => gelu(v + bias),
            };
            // The slope of gelu is at most 1.13.
            let bound = 1.13 * tolerance * magnitude + p.form.out.epsilon() * (want.abs() + bias.abs()) + 1e-7;
            assert!((f64::from(*got) - want).abs() <= bound, "{p:?}: C[{row}][{column}] is {got}, not {want}");
        }
        let b_stored = b.values();
        for (j, got) in sums.iter().enumerate() {
            let at = |r: usize| b_stored[if p.form.trans_b { j * p.ldb as usize + r } else { r * p.ldb as usize + j }];
            let column: Vec<f64> = (0..p.k as usize).map(|r| f64::from(at(r))).collect();
            let before = f64::from(sums_before[j]);
            let (alpha, beta) = (f64::from(p.alpha), f64::from(p.beta));
            let (want, bound) = if p.bias_gradient {
                let magnitude = column.iter().map(|v| v.abs()).sum::<f64>() * alpha.abs() + (beta * before).abs();
                (alpha * column.iter().sum::<f64>() + beta * before, 3e-7 * (p.k as f64).sqrt() * magnitude)
            } else {
                (before, 0.0)
            };
            assert!((f64::from(*got) - want).abs() <= bound, "{p:?}: bias gradient {j} is {got}, not {want}");
        }
    }

    #[test]
    fn every_type_and_epilogue_is_the_reference() {
        let types = [
            (Dtype::F32, Dtype::F32),
            (Dtype::Tf32, Dtype::F32),
            (Dtype::F16, Dtype::F16),
            (Dtype::Bf16, Dtype::Bf16),
            (Dtype::Bf16, Dtype::F32),
            (Dtype::F32, Dtype::F16),
        ];
        for (i, (dtype, out)) in types.into_iter().enumerate() {
            for (j, epilogue) in Epilogue::ALL.into_iter().enumerate() {
                let (trans_a, trans_b) = ((i + j) % 2 == 1, (i + j) % 4 > 1);
                let form = Form { dtype, out, trans_a, trans_b, epilogue };
                let tight = Product::new(19, 70, 300, form);
                check(&tight);
                let padded = tight.leading(tight.lda + 3, tight.ldb + 1, tight.ldc + 2);
                check(&padded.scaled(-0.5, 2.0).with_bias_gradient());
            }
        }
    }

    #[test]
    fn the_bias_gradient_is_that_of_every_layout() {
        for trans_b in [false, true] {
            let form = Form { trans_a: true, trans_b, out: Dtype::F32, ..Form::plain(Dtype::Bf16) };
            for (n, k) in [(1, 1), (64, 256), (65, 257), (130, 1000)] {
                check(&Product::new(2, n, k, form).with_bias_gradient());
                check(&Product::new(2, n, k, form).scaled(0.25, 1.0).with_bias_gradient());
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_and_nothing_is_written() {
        let p = Product::new(2, 3, 4, Form { epilogue: Epilogue::Bias, ..Form::plain(Dtype::F32) });
        let (a, b, bias) = ([1.0f32; 8], [1.0f32; 12], [0.0f32; 3]);
        let half = [f16::ONE; 12];
        let mut c = [UNTOUCHED; 6];
        let mut refused = |a: HostArray<'_>, b: HostArray<'_>, bias, expect: &str| {
            let arrays = HostArrays { bias, ..HostArrays::new(a, b, &mut c[..]) };
            let error = gemm(&p, arrays).unwrap_err().to_string();
            assert!(error.contains(expect), "{error}");
            assert_eq!(c, [UNTOUCHED; 6]);
        };
        let (a, b, half) = (HostArray::from(&a[..]), HostArray::from(&b[..]), HostArray::from(&half[..]));
        refused(HostArray::F32(&[0.0; 7]), b, Some(&bias), "A has 7 elements");
        refused(a, half, Some(&bias), "B is fp16");
        refused(a, b, None, "bias is missing");
        refused(a, b, Some(&bias[..2]), "bias has 2");
        gemm(&p, HostArrays::new(a, b, &mut c[..]).bias(&bias)).unwrap();
        assert_eq!(c, [4.0; 6]);
    }
}
