//! The form of a matrix product that a kernel is compiled for: types, transpositions and epilogue.

use warpbook_record::{Dtype, KernelSpec};

/// The epilogue: a function that is applied to v = alpha (op(A) op(B))ij + beta Cij before the result is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Epilogue {
    /// Stores v unchanged.
    #[default]
    None,
    /// Stores v plus the column's bias.
    Bias,
    /// Stores max(v + bias, 0) with the column's bias.
    BiasRelu,
    /// Stores v if the mask is above 0, and 0 otherwise. This is the gradient through a ReLU.
    ReluMask,
    /// Stores gelu(v) = v Φ(v), where Φ is the cumulative distribution function of the standard normal distribution. This is the exact form
    /// with erf, the default of `torch.nn.GELU`.
    Gelu,
    /// Stores gelu(v + bias) with the column's bias.
    BiasGelu,
}

impl Epilogue {
    /// All epilogues, in the order of their declaration.
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

    /// Returns the number that stands for this epilogue in the macro `EPILOGUE` of `kernels/matmul/gemm.cuh`.
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

/// The form of a product that a kernel is compiled for, in addition to its tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Form {
    /// Type of the elements of A and B: `F32`, `Tf32`, `F16` or `Bf16`.
    pub dtype: Dtype,
    /// Type of the elements of C.
    pub out: Dtype,
    /// True if A is stored transposed.
    pub trans_a: bool,
    /// True if B is stored transposed.
    pub trans_b: bool,
    /// The function applied to each element of C before it is stored.
    pub epilogue: Epilogue,
}

impl Form {
    /// Returns the form with a single type, no transposition and no epilogue.
    #[must_use]
    pub const fn plain(dtype: Dtype) -> Self {
        Self { dtype, out: dtype, trans_a: false, trans_b: false, epilogue: Epilogue::None }
    }

    /// Returns the row of a kernel with the macros that compile it for this form.
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

/// Returns the number that stands for a type in `kernels/matmul/gemm.cuh`.
pub(crate) fn type_number(dtype: Dtype) -> i64 {
    match dtype {
        Dtype::F16 => 1,
        Dtype::Bf16 => 2,
        _ => 0,
    }
}

/// The form in which operands are passed to a kernel, which determines the kernel's parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operands {
    /// By address, with any leading dimension and alignment.
    Addresses,
    /// By tensor maps for TMA, which require rows aligned to 16 bytes. Operands with other rows are copied first.
    TensorMaps,
    /// Like [`Operands::TensorMaps`], with an additional tensor map for C if its rows allow that.
    TensorMapsAndC,
    /// Like [`Operands::TensorMaps`], but tiles of B are loaded into registers, so 32-bit tiles of B are contiguous along n.
    BInRegisters,
}

impl Operands {
    /// Returns the form that the kernel is compiled for. 32-bit tiles that tensor cores read from shared memory must be contiguous along k, and
    /// those that are loaded through registers must be contiguous along n. Operands stored in another way are copied first.
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
            // For example, BiasRelu becomes BIAS_RELU.
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
