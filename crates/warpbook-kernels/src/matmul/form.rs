//! The form of a matrix product for which a kernel is compiled.

use warpbook_record::{Dtype, KernelSpec};

/// The epilogue: the function that is applied to v = alpha (op(A) op(B))ij + beta Cij before it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Epilogue {
    /// Stores v.
    #[default]
    None,
    /// Stores v + the column's bias.
    Bias,
    /// Stores max(v + the column's bias, 0).
    BiasRelu,
    /// Stores v where the mask is above 0, else 0: the gradient through a ReLU.
    ReluMask,
    /// Stores gelu(v) = v Φ(v), where Φ is the distribution function of the standard normal distribution: the exact form by erf, the default of
    /// `torch.nn.GELU`.
    Gelu,
    /// Stores gelu(v + the column's bias).
    BiasGelu,
}

impl Epilogue {
    /// Every epilogue.
    pub const ALL: [Self; 6] = [Self::None, Self::Bias, Self::BiasRelu, Self::ReluMask, Self::Gelu, Self::BiasGelu];

    /// Returns true if the epilogue adds a bias.
    #[must_use]
    pub const fn has_bias(self) -> bool {
        matches!(self, Self::Bias | Self::BiasRelu | Self::BiasGelu)
    }

    /// Returns true if the epilogue reads a mask.
    #[must_use]
    pub const fn has_mask(self) -> bool {
        matches!(self, Self::ReluMask)
    }

    /// Returns the epilogue's value of the macro `EPILOGUE` in `kernels/matmul/gemm.cuh`.
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

/// The form of a product for which a kernel is compiled, in addition to its tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Form {
    /// Type of A and B: `F32`, `Tf32`, `F16` or `Bf16`.
    pub dtype: Dtype,
    /// Type of C.
    pub out: Dtype,
    /// True if A is stored transposed.
    pub trans_a: bool,
    /// True if B is stored transposed.
    pub trans_b: bool,
    /// The epilogue.
    pub epilogue: Epilogue,
}

impl Form {
    /// Returns the form of row-major matrices of one type, without transposition and epilogue.
    #[must_use]
    pub const fn plain(dtype: Dtype) -> Self {
        Self { dtype, out: dtype, trans_a: false, trans_b: false, epilogue: Epilogue::None }
    }

    /// Returns a kernel's row compiled for this form.
    #[must_use]
    pub fn apply_to(self, spec: &KernelSpec) -> KernelSpec {
        spec.clone()
            .define("IN", type_number(self.dtype))
            .define("OUT", type_number(self.out))
            .define("TRANS_A", self.trans_a.into())
            .define("TRANS_B", self.trans_b.into())
            .define("EPILOGUE", self.epilogue.number())
    }
}

/// Returns the number of a type in `kernels/matmul/gemm.cuh`.
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
    /// Addresses, with any leading dimension and alignment.
    Addresses,
    /// Tensor maps for TMA. Rows must begin at multiples of 16 bytes; other operands are copied first.
    TensorMaps,
    /// Like [`Operands::TensorMaps`], and a tensor map for C if its rows allow one.
    TensorMapsAndC,
    /// Like [`Operands::TensorMaps`], but B's tiles go through registers, so 32-bit ones are contiguous along n.
    BInRegisters,
}

impl Operands {
    /// Returns the form for which a kernel is compiled: 32-bit tiles that tensor cores read from shared memory must be contiguous along k, and
    /// those that go through registers along n. Operands stored in other ways are copied.
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
            // BiasRelu becomes BIAS_RELU.
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
