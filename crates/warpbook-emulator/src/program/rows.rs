//! The kinds of values in the rows of a warp's registers.

/// The initial contents of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum RowKind {
    /// A register with this size in bytes, still unwritten.
    Register(u8),
    /// A constant: all lanes always hold this number.
    Constant(u64),
    /// The address of dynamic shared memory, plus an offset.
    DynamicShared(i64),
    Special(Special),
}

impl RowKind {
    /// Returns a mask of a register's bits; 0 if the row is not a register.
    pub(crate) fn register_mask(self) -> u64 {
        match self {
            Self::Register(bytes) => u64::MAX >> (64 - 8 * bytes),
            _ => 0,
        }
    }
}

/// A register that the hardware sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Special {
    /// Index of the thread in its block, by axis.
    Thread(u8),
    /// Threads of a block.
    Threads(u8),
    Block(u8),
    Blocks(u8),
    Lane,
    Warp,
    Warps,
    Multiprocessor,
    Multiprocessors,
    GridId,
    /// Masks of the lanes in relation to the lane itself.
    MaskEqual,
    MaskLess,
    MaskLessEqual,
    MaskGreater,
    MaskGreaterEqual,
    DynamicSharedBytes,
    SharedBytes,
}

impl Special {
    pub(super) fn parse(name: &str) -> Option<Self> {
        let axis = |name: &str| match name {
            ".x" => Some(0),
            ".y" => Some(1),
            ".z" => Some(2),
            _ => None,
        };
        let of_axis = |prefix: &str, make: fn(u8) -> Self| Some(make(axis(name.strip_prefix(prefix)?)?));
        let simple = match name {
            "%laneid" => Self::Lane,
            "%warpid" => Self::Warp,
            "%nwarpid" => Self::Warps,
            "%smid" => Self::Multiprocessor,
            "%nsmid" => Self::Multiprocessors,
            "%gridid" => Self::GridId,
            "%lanemask_eq" => Self::MaskEqual,
            "%lanemask_lt" => Self::MaskLess,
            "%lanemask_le" => Self::MaskLessEqual,
            "%lanemask_gt" => Self::MaskGreater,
            "%lanemask_ge" => Self::MaskGreaterEqual,
            "%dynamic_smem_size" => Self::DynamicSharedBytes,
            "%total_smem_size" => Self::SharedBytes,
            _ => {
                return of_axis("%tid", Self::Thread)
                    .or_else(|| of_axis("%ntid", Self::Threads))
                    .or_else(|| of_axis("%ctaid", Self::Block))
                    .or_else(|| of_axis("%nctaid", Self::Blocks));
            }
        };
        Some(simple)
    }
}
