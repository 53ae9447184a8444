use warpbook_record::Dtype;
use warpbook_record::matmul::Form;

/// C = f(alpha op(A) op(B) + beta C), row-major.
///
/// op(A) is `m` x `k`, op(B) `k` x `n`, C `m` x `n`; each is stored with its leading dimension, the number of elements from one row
/// to the next. A transposed A is stored `k` x `m`, a transposed B `n` x `k`. Sums are in f32. C is read only where beta is not 0;
/// A and B are read whatever alpha is, so a NaN in them comes through. The bias has `n` elements of f32; the mask has the shape, the
/// type and the leading dimension of C.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Product {
    /// Rows of C, from 1 up.
    pub m: u32,
    /// Columns of C, from 1 up.
    pub n: u32,
    /// Terms of each sum, from 1 up.
    pub k: u32,
    /// From one row of A as it is stored to the next.
    pub lda: u32,
    /// From one row of B as it is stored to the next.
    pub ldb: u32,
    /// From one row of C to the next.
    pub ldc: u32,
    /// Types, transpositions and the last step.
    pub form: Form,
    /// Factor of the product.
    pub alpha: f32,
    /// Factor of what C holds.
    pub beta: f32,
}

/// A product that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub(crate) String);

impl Product {
    /// C = op(A) op(B) without gaps between rows.
    #[must_use]
    pub fn new(m: u32, n: u32, k: u32, form: Form) -> Self {
        let (lda, ldb) = (if form.trans_a { m } else { k }, if form.trans_b { k } else { n });
        Self { m, n, k, lda, ldb, ldc: n, form, alpha: 1.0, beta: 0.0 }
    }

    /// The same with these leading dimensions.
    #[must_use]
    pub fn leading(self, lda: u32, ldb: u32, ldc: u32) -> Self {
        Self { lda, ldb, ldc, ..self }
    }

    /// The same with these factors.
    #[must_use]
    pub fn scaled(self, alpha: f32, beta: f32) -> Self {
        Self { alpha, beta, ..self }
    }

    /// Rows and columns of A as it is stored.
    #[must_use]
    pub fn stored_a(&self) -> (u32, u32) {
        if self.form.trans_a { (self.k, self.m) } else { (self.m, self.k) }
    }

    /// Rows and columns of B as it is stored.
    #[must_use]
    pub fn stored_b(&self) -> (u32, u32) {
        if self.form.trans_b { (self.n, self.k) } else { (self.k, self.n) }
    }

    /// The elements that A, B and C take with their leading dimensions, up to the last one of their last row.
    #[must_use]
    pub fn elements(&self) -> [usize; 3] {
        let of =
            |(rows, columns): (u32, u32), ld: u32| (rows as usize).saturating_sub(1) * ld as usize + columns as usize;
        [of(self.stored_a(), self.lda), of(self.stored_b(), self.ldb), of((self.m, self.n), self.ldc)]
    }

    /// An error unless sizes, leading dimensions and types go together.
    ///
    /// # Errors
    /// A sentence that names what does not.
    pub fn validate(&self) -> Result<(), Malformed> {
        let wrong = |text: String| Err(Malformed(text));
        if self.m == 0 || self.n == 0 || self.k == 0 {
            return wrong(format!(
                "A product of {} x {} x {} has nothing in it: each size is at least 1.",
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
            return wrong(format!("There is no product of {} into {}.", dtype.label(), out.label()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
