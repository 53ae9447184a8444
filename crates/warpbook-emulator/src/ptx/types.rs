//! The types and state spaces of PTX.

/// A fundamental type of PTX.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Type {
    /// Untyped bits, with their size in bytes.
    Bits(u8),
    /// An unsigned integer, with its size in bytes.
    Unsigned(u8),
    /// A signed integer, with its size in bytes.
    Signed(u8),
    /// A floating-point number, with its size in bytes. The pairs `f16x2` and `bf16x2` count as one number of 4 bytes.
    Float(u8),
    /// A predicate.
    Predicate,
}

impl Type {
    /// Parses the name of a type, without its dot.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "pred" => Self::Predicate,
            "f16x2" | "bf16x2" => Self::Float(4),
            "bf16" => Self::Float(2),
            "tf32" => Self::Float(4),
            _ => {
                let (kind, bits) = name.split_at_checked(1)?;
                let bytes = match bits {
                    "8" => 1,
                    "16" => 2,
                    "32" => 4,
                    "64" => 8,
                    _ => return None,
                };
                match kind {
                    "b" => Self::Bits(bytes),
                    "u" => Self::Unsigned(bytes),
                    "s" => Self::Signed(bytes),
                    "f" if bytes > 1 => Self::Float(bytes),
                    _ => return None,
                }
            }
        })
    }

    /// Returns the size in bytes of a value of this type in memory.
    pub(crate) fn bytes(self) -> u8 {
        match self {
            Self::Bits(bytes) | Self::Unsigned(bytes) | Self::Signed(bytes) | Self::Float(bytes) => bytes,
            Self::Predicate => 1,
        }
    }
}

/// A state space: a kind of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Space {
    /// Any space: the space follows from the address itself.
    Generic,
    Global,
    Const,
    Shared,
    Local,
    Param,
}

impl Space {
    /// Parses the name of a state space, without its dot.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "global" => Self::Global,
            "const" => Self::Const,
            "shared" | "shared::cta" => Self::Shared,
            "local" => Self::Local,
            "param" | "param::entry" | "param::func" => Self::Param,
            _ => return None,
        })
    }
}
