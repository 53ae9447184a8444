//! What a kernel of the matrix product is compiled for.

use warpbook_record::{Dtype, KernelSpec};

/// The epilogue: the function that is applied to v = alpha (op(A) op(B))ij + beta Cij before it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Epilogue {
    /// v.
    #[default]
    None,
    /// v + bias of the column.
    Bias,
    /// max(v + bias of the column, 0).
    BiasRelu,
    /// 0 where the mask is 0 or less, else v: the gradient through a ReLU.
    ReluMask,
    /// gelu(v) = v Φ(v), Φ being the distribution function of the standard normal distribution: the exact form, by erf, which
    /// `torch.nn.GELU` computes by default.
    Gelu,
    /// gelu(v + bias of the column).
    BiasGelu,
}

impl Epilogue {
    /// Every epilogue.
    pub const ALL: [Self; 6] = [Self::None, Self::Bias, Self::BiasRelu, Self::ReluMask, Self::Gelu, Self::BiasGelu];

    /// Whether it adds a bias.
    #[must_use]
    pub const fn has_bias(self) -> bool {
        matches!(self, Self::Bias | Self::BiasRelu | Self::BiasGelu)
    }

    /// Whether it reads a mask.
    #[must_use]
    pub const fn has_mask(self) -> bool {
        matches!(self, Self::ReluMask)
    }

    /// Its value of the macro `EPILOGUE` in `kernels/matmul/gemm.cuh`.
    const fn number(self) -> i64 {
        match self {
            Self::None => 0,
            Self::Bias => 1,
            Self::BiasRelu => 2,
            Self::ReluMask => 3,
            Self::Gelu => 4,
            Self::BiasGelu => 5,
        }
    }
}

/// What a kernel of the matrix product is compiled for, in addition to its tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Form {
    /// Type of A and B: `F32`, `Tf32`, `F16` or `Bf16`.
    pub dtype: Dtype,
    /// Type of C.
    pub out: Dtype,
    /// Whether A is stored transposed.
    pub trans_a: bool,
    /// Whether B is stored transposed.
    pub trans_b: bool,
    /// The epilogue.
    pub epilogue: Epilogue,
}

impl Form {
    /// Row-major matrices of one type, nothing transposed and nothing added.
    #[must_use]
    pub const fn plain(dtype: Dtype) -> Self {
        Self { dtype, out: dtype, trans_a: false, trans_b: false, epilogue: Epilogue::None }
    }

    /// A kernel's row compiled for this form.
    #[must_use]
    pub fn of(self, spec: &KernelSpec) -> KernelSpec {
        spec.clone()
            .define("IN", type_number(self.dtype))
            .define("OUT", type_number(self.out))
            .define("TRANS_A", self.trans_a.into())
            .define("TRANS_B", self.trans_b.into())
            .define("EPILOGUE", self.epilogue.number())
    }
}

/// The numbers that `kernels/matmul/gemm.cuh` gives the types.
pub(crate) fn type_number(dtype: Dtype) -> i64 {
    match dtype {
        Dtype::F16 => 1,
        Dtype::Bf16 => 2,
        _ => 0,
    }
}

/// How operands are passed to a kernel, which determines its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operands {
    /// By address: any leading dimension and alignment.
    Addresses,
    /// By tensor maps for TMA: rows that begin at multiples of 16 bytes; others are copied first.
    TensorMaps,
    /// The same, and C by a tensor map too, where its rows allow one.
    TensorMapsAndC,
    /// The same, and B's tiles go through registers: 32-bit ones are contiguous along n.
    BInRegisters,
}

impl Operands {
    /// The form that a kernel is compiled for: 32-bit tiles that tensor cores read from shared memory must be contiguous along k, and
    /// those that go through registers along n. Copies provide what is stored otherwise.
    #[must_use]
    pub fn given(self, form: Form) -> Form {
        if self != Self::Addresses && form.dtype.bytes() == 4 {
            Form { trans_a: false, trans_b: self != Self::BInRegisters, ..form }
        } else {
            form
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_has_every_epilogue() {
        let header = crate::HEADERS.iter().find(|h| h.path == "matmul/gemm.cuh").unwrap();
        let numbers: Vec<i64> = Epilogue::ALL.iter().map(|e| e.number()).collect();
        assert_eq!(numbers, (0..6).collect::<Vec<_>>());
        for epilogue in Epilogue::ALL {
            // BiasRelu as BIAS_RELU.
            let mut name = String::new();
            for c in format!("{epilogue:?}").chars() {
                if c.is_uppercase() && !name.is_empty() {
                    name.push('_');
                }
                name.push(c.to_ascii_uppercase());
            }
            let define = format!("#define EPILOGUE_{name} {} ", epilogue.number());
            assert!(header.text.contains(&define), "{define}");
        }
    }
}
