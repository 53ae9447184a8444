pub(crate) mod arrays;
pub(crate) mod epilogue;
pub mod storage;

use warpbook_device::LibraryGemm;
use warpbook_kernels::matmul::{Form, shape_of, transposed};
use warpbook_record::{Dtype, Problem};

/// The product C = f(alpha op(A) op(B) + beta C), row-major.
///
/// op(A) is `m` x `k`, op(B) `k` x `n`, C `m` x `n`; each is stored with its leading dimension, the number of elements from one row
/// to the next. A transposed A is stored `k` x `m`, a transposed B `n` x `k`. Sums are in f32. C is read only if beta is not 0;
/// A and B are read whatever alpha is, so NaN in them propagates. The bias has `n` elements of f32; the mask has the shape, the
/// type and the leading dimension of C.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Product {
    /// Number of rows of C, at least 1.
    pub m: u32,
    /// Number of columns of C, at least 1.
    pub n: u32,
    /// Number of terms in each sum, at least 1.
    pub k: u32,
    /// Number of elements from one stored row of A to the next.
    pub lda: u32,
    /// Number of elements from one stored row of B to the next.
    pub ldb: u32,
    /// Number of elements from one row of C to the next.
    pub ldc: u32,
    /// Types, transpositions and the epilogue.
    pub form: Form,
    /// Factor of the product.
    pub alpha: f32,
    /// Factor of C.
    pub beta: f32,
    /// True if the bias gradient, f32 `[n]`, is computed too: alpha times the column sums of op(B), plus beta times the array's old values. It equals the row
    /// that C would have for a row of ones in op(A). For a weight gradient dW = X^T dY, it is the gradient of the bias.
    pub bias_gradient: bool,
}

/// Error of a product that cannot be computed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub(crate) String);

/// Converts a record's problem to a product without gaps between rows. If the operands are tf32, C is f32.
impl TryFrom<&Problem> for Product {
    type Error = Malformed;

    fn try_from(problem: &Problem) -> Result<Self, Malformed> {
        let wrong = |what: &str| Malformed(format!("The problem `{}` {what}.", problem.label));
        let (m, n, k) = shape_of(problem).ok_or_else(|| wrong("is not a matrix product"))?;
        let side = |v: u64| u32::try_from(v).map_err(|_| wrong("has a side that does not fit into 32 bits"));
        let ((trans_a, trans_b), dtype) = (transposed(problem), problem.dtype);
        let out = if dtype == Dtype::Tf32 { Dtype::F32 } else { dtype };
        Ok(Self::new(side(m)?, side(n)?, side(k)?, Form { trans_a, trans_b, out, ..Form::plain(dtype) }))
    }
}

/// Type and length of an array.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ArraySpec {
    pub dtype: Dtype,
    pub len: usize,
}

impl ArraySpec {
    /// Checks that the array has the needed type and length; `name` is the array's name in the message.
    ///
    /// # Errors
    /// If the array has another type, or is too short.
    pub fn holds(self, name: &str, needed: Self) -> Result<(), Malformed> {
        if stored(self.dtype) != stored(needed.dtype) {
            let (is, takes) = (self.dtype.label(), needed.dtype.label());
            return Err(Malformed(format!(
                "{name} is {is}, but the product takes {takes}; convert it, or change the product's form."
            )));
        }
        if self.len < needed.len {
            return Err(Malformed(format!("{name} has {} elements, but the product needs {}.", self.len, needed.len)));
        }
        Ok(())
    }
}

/// Types and lengths of all arrays of a product.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ArraySpecs {
    pub a: ArraySpec,
    pub b: ArraySpec,
    pub c: ArraySpec,
    pub bias: Option<ArraySpec>,
    pub mask: Option<ArraySpec>,
    pub bias_gradient: Option<ArraySpec>,
}

impl Product {
    /// Returns the product C = op(A) op(B) without gaps between rows.
    #[must_use]
    pub fn new(m: u32, n: u32, k: u32, form: Form) -> Self {
        let (lda, ldb) = (if form.trans_a { m } else { k }, if form.trans_b { k } else { n });
        Self { m, n, k, lda, ldb, ldc: n, form, alpha: 1.0, beta: 0.0, bias_gradient: false }
    }

    /// Sets the leading dimensions.
    #[must_use]
    pub fn leading(self, lda: u32, ldb: u32, ldc: u32) -> Self {
        Self { lda, ldb, ldc, ..self }
    }

    /// Sets alpha, the factor of the product, and beta, the factor of C.
    #[must_use]
    pub fn scaled(self, alpha: f32, beta: f32) -> Self {
        Self { alpha, beta, ..self }
    }

    /// Returns the product without its epilogue, as a library computes it.
    #[must_use]
    pub fn library_call(&self) -> LibraryGemm {
        LibraryGemm {
            m: self.m,
            n: self.n,
            k: self.k,
            lda: self.lda,
            ldb: self.ldb,
            ldc: self.ldc,
            trans_a: self.form.trans_a,
            trans_b: self.form.trans_b,
            alpha: self.alpha,
            beta: self.beta,
            dtype: self.form.dtype,
            out: self.form.out,
        }
    }

    /// Adds the bias gradient to the results.
    #[must_use]
    pub fn with_bias_gradient(self) -> Self {
        Self { bias_gradient: true, ..self }
    }

    /// Returns the rows and columns of A in its stored layout.
    #[must_use]
    pub fn stored_a(&self) -> (u32, u32) {
        if self.form.trans_a { (self.k, self.m) } else { (self.m, self.k) }
    }

    /// Returns the rows and columns of B in its stored layout.
    #[must_use]
    pub fn stored_b(&self) -> (u32, u32) {
        if self.form.trans_b { (self.n, self.k) } else { (self.k, self.n) }
    }

    /// Returns the number of elements of A, B and C as stored, including gaps between rows, up to the last element of the last row.
    #[must_use]
    pub fn elements(&self) -> [usize; 3] {
        let needed =
            |(rows, columns): (u32, u32), ld: u32| (rows as usize).saturating_sub(1) * ld as usize + columns as usize;
        [needed(self.stored_a(), self.lda), needed(self.stored_b(), self.ldb), needed((self.m, self.n), self.ldc)]
    }

    /// Returns an error unless sizes, leading dimensions and types fit together.
    ///
    /// # Errors
    /// If they do not fit together; the message names the first one that does not.
    pub fn validate(&self) -> Result<(), Malformed> {
        let wrong = |text: String| Err(Malformed(text));
        if self.m == 0 || self.n == 0 || self.k == 0 {
            return wrong(format!(
                "A product of {} x {} x {} is empty: each size is at least 1.",
                self.m, self.n, self.k
            ));
        }
        for (name, ld, (_, columns)) in [
            ("lda", self.lda, self.stored_a()),
            ("ldb", self.ldb, self.stored_b()),
            ("ldc", self.ldc, (self.m, self.n)),
        ] {
            if ld < columns {
                return wrong(format!("{name} is {ld}, but a row has {columns} elements."));
            }
        }
        let known = |d: Dtype| matches!(d, Dtype::F32 | Dtype::Tf32 | Dtype::F16 | Dtype::Bf16);
        let (dtype, out) = (self.form.dtype, self.form.out);
        if !known(dtype) || !known(out) {
            return wrong(format!(
                "Products of {} with a result of {} are not supported: choose fp32, tf32, fp16 or bf16.",
                dtype.label(),
                out.label()
            ));
        }
        Ok(())
    }

    /// Returns an error unless the product is valid and the arrays match it in type and length.
    pub(crate) fn check(&self, arrays: &ArraySpecs) -> Result<(), Malformed> {
        self.validate()?;
        let (form, [a, b, c]) = (self.form, self.elements());
        arrays.a.holds("A", ArraySpec { dtype: form.dtype, len: a })?;
        arrays.b.holds("B", ArraySpec { dtype: form.dtype, len: b })?;
        arrays.c.holds("C", ArraySpec { dtype: form.out, len: c })?;
        let row = ArraySpec { dtype: Dtype::F32, len: self.n as usize };
        let like_c = ArraySpec { dtype: form.out, len: c };
        for (name, is_used, needed, array) in [
            ("bias", form.epilogue.has_bias(), row, arrays.bias),
            ("mask", form.epilogue.has_mask(), like_c, arrays.mask),
            ("bias_gradient", self.bias_gradient, row, arrays.bias_gradient),
        ] {
            match array {
                Some(array) if is_used => array.holds(name, needed)?,
                None if is_used => {
                    let (len, dtype) = (needed.len, needed.dtype.label());
                    return Err(Malformed(format!("{name} is missing: pass {len} elements of {dtype}.")));
                }
                Some(_) => {
                    return Err(Malformed(format!(
                        "{name} is passed, but the product does not use it: change its epilogue or bias_gradient, or leave it out."
                    )));
                }
                None => {}
            }
        }
        Ok(())
    }
}

/// Returns the type that an array of this type is stored in.
pub(crate) fn stored(dtype: Dtype) -> Dtype {
    if dtype == Dtype::Tf32 { Dtype::F32 } else { dtype }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpbook_kernels::matmul::Epilogue;

    #[test]
    fn a_product_knows_its_arrays() {
        let form = Form { trans_b: true, ..Form::plain(Dtype::F32) };
        let p = Product::new(2, 3, 5, form);
        assert_eq!((p.lda, p.ldb, p.ldc), (5, 5, 3));
        assert_eq!(p.elements(), [10, 15, 6]);
        assert_eq!(p.leading(7, 8, 9).elements(), [12, 21, 12]);
        assert!(p.validate().is_ok());
        assert!(p.leading(4, 5, 3).validate().unwrap_err().to_string().contains("lda is 4"));
        assert!(Product::new(0, 1, 1, form).validate().is_err());
    }

    #[test]
    fn a_problem_of_a_record_becomes_a_product() {
        let problem = |shape, dtype| warpbook_kernels::matmul::problem(shape, dtype, (false, true), 1);
        let product = Product::try_from(&problem((2, 3, 5), Dtype::Tf32)).unwrap();
        let form = Form { out: Dtype::F32, trans_b: true, ..Form::plain(Dtype::Tf32) };
        assert_eq!(product, Product::new(2, 3, 5, form));
        let wrong = |problem: &Problem| Product::try_from(problem).unwrap_err().to_string();
        assert!(wrong(&problem((1 << 32, 3, 5), Dtype::F32)).contains("does not fit into 32 bits"));
        let other = Problem::new("5 M points", "5 M", Vec::new(), Dtype::F32);
        assert_eq!(wrong(&other), "The problem `5 M points` is not a matrix product.");
    }

    #[test]
    fn arrays_are_checked_against_the_product() {
        let form = Form { out: Dtype::F32, epilogue: Epilogue::BiasGelu, ..Form::plain(Dtype::Bf16) };
        let p = Product::new(2, 3, 5, form).with_bias_gradient();
        let array = |dtype, len| ArraySpec { dtype, len };
        let all = ArraySpecs {
            a: array(Dtype::Bf16, 10),
            b: array(Dtype::Bf16, 15),
            c: array(Dtype::F32, 6),
            bias: Some(array(Dtype::F32, 3)),
            mask: None,
            bias_gradient: Some(array(Dtype::F32, 3)),
        };
        assert_eq!(p.check(&all), Ok(()));
        let refused = |p: Product, arrays| p.check(&arrays).unwrap_err().to_string();
        let check = |arrays, expect: &str| assert!(refused(p, arrays).contains(expect), "{}", refused(p, arrays));
        check(ArraySpecs { a: array(Dtype::Bf16, 9), ..all }, "A has 9 elements, but the product needs 10");
        check(ArraySpecs { b: array(Dtype::F16, 15), ..all }, "B is fp16, but the product takes bf16");
        check(ArraySpecs { c: array(Dtype::F32, 5), ..all }, "C has 5");
        check(ArraySpecs { bias: None, ..all }, "bias is missing: pass 3 elements of fp32");
        check(ArraySpecs { bias: Some(array(Dtype::F32, 2)), ..all }, "bias has 2");
        check(ArraySpecs { mask: Some(array(Dtype::F32, 6)), ..all }, "mask is passed, but");
        check(ArraySpecs { bias_gradient: None, ..all }, "bias_gradient is missing");
        assert!(refused(Product { bias_gradient: false, ..p }, all).contains("bias_gradient is passed"));
        assert!(refused(p.leading(5, 2, 3), all).contains("ldb is 2"));
        // tf32 is stored as f32.
        let tf32 = Product::new(1, 1, 1, Form { out: Dtype::F32, ..Form::plain(Dtype::Tf32) });
        let one = array(Dtype::F32, 1);
        let plain = ArraySpecs { a: one, b: one, c: one, bias: None, mask: None, bias_gradient: None };
        assert_eq!(tf32.check(&plain), Ok(()));
    }
}
