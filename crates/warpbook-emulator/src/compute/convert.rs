//! Conversions between integers and floating-point numbers (`cvt`).

use super::{Word, extend, mask};
use crate::ptx::Type;

/// The direction in which a number is rounded if the format cannot represent it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rounding {
    /// To the nearest number; ties go to the even one.
    Nearest,
    /// To the nearest number; ties go away from zero.
    Away,
    Zero,
    Down,
    Up,
}

/// A binary floating-point format narrower than double precision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Format {
    mantissa: u32,
    exponent: u32,
}

pub(crate) const F16: Format = Format { mantissa: 10, exponent: 5 };
pub(crate) const BF16: Format = Format { mantissa: 7, exponent: 8 };
/// TF32: a single-precision number whose lower 13 bits are zero.
const TF32: Format = Format { mantissa: 10, exponent: 8 };
pub(crate) const F32: Format = Format { mantissa: 23, exponent: 8 };

impl Format {
    fn bias(self) -> i32 {
        (1 << (self.exponent - 1)) - 1
    }

    /// Returns the number that the bits represent in this format.
    pub(crate) fn widen(self, bits: u64) -> f64 {
        let sign = if bits >> (self.mantissa + self.exponent) & 1 == 1 { -1.0 } else { 1.0 };
        let (exponent, fraction) =
            (bits >> self.mantissa & ((1 << self.exponent) - 1), bits & ((1 << self.mantissa) - 1));
        let scale = |power: i32| f64::from_bits(u64::from((power + 1023).cast_unsigned()) << 52);
        let fraction_value = f64::from(u32::take(fraction));
        let (lowest, place) = (1 - self.bias(), self.mantissa.cast_signed());
        if exponent == (1 << self.exponent) - 1 {
            return if fraction == 0 { sign * f64::INFINITY } else { f64::NAN };
        }
        if exponent == 0 {
            // Even the smallest denormal of single precision, 2^-149, is a normal number in double precision.
            return sign * fraction_value * scale(lowest - place);
        }
        let power = i32::take(exponent) - self.bias() - place;
        sign * (f64::from(1u32 << self.mantissa) + fraction_value) * scale(power)
    }

    /// Rounds a number to this format and returns its bits. Every NaN becomes the canonical NaN of GPUs.
    pub(crate) fn narrow(self, value: f64, rounding: Rounding) -> u64 {
        let sign = u64::from(value.is_sign_negative()) << (self.mantissa + self.exponent);
        let infinity = ((1u64 << self.exponent) - 1) << self.mantissa;
        if value.is_nan() {
            return (1 << (self.mantissa + self.exponent)) - 1;
        }
        if value.is_infinite() {
            return sign | infinity;
        }
        let bits = value.to_bits();
        let (stored, fraction) = (i32::take(bits >> 52 & 0x7ff), bits & ((1 << 52) - 1));
        let full = if stored == 0 { fraction } else { fraction | 1 << 52 };
        let exponent = stored.max(1) - 1023;
        let lowest = 1 - self.bias();
        let dropped = (52 - self.mantissa + (lowest - exponent).max(0).cast_unsigned()).min(63);
        let (kept, rest, half) = (full >> dropped, full & ((1 << dropped) - 1), 1u64 << (dropped - 1));
        let is_up = match rounding {
            Rounding::Nearest => rest > half || (rest == half && kept & 1 == 1),
            Rounding::Away => rest >= half,
            Rounding::Zero => false,
            Rounding::Down => sign != 0 && rest > 0,
            Rounding::Up => sign == 0 && rest > 0,
        };
        // A carry out of the fraction correctly increments the exponent.
        let above = u64::from((exponent - lowest).max(0).cast_unsigned()) << self.mantissa;
        let magnitude = above + kept + u64::from(is_up);
        if magnitude < infinity {
            return sign | magnitude;
        }
        let stays_finite = match rounding {
            Rounding::Nearest | Rounding::Away => false,
            Rounding::Zero => true,
            Rounding::Down => sign == 0,
            Rounding::Up => sign != 0,
        };
        sign | if stays_finite { infinity - 1 } else { infinity }
    }
}

/// A type that `cvt` supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConvertType {
    /// An unsigned integer, with its size in bytes.
    Unsigned(u8),
    Signed(u8),
    Narrow(Format),
    Double,
    /// Two 16-bit numbers in one register, only as a result. The second operand becomes the lower half.
    Pair(Format),
}

impl ConvertType {
    fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "f16" => Self::Narrow(F16),
            "bf16" => Self::Narrow(BF16),
            "tf32" => Self::Narrow(TF32),
            "f32" => Self::Narrow(F32),
            "f64" => Self::Double,
            "f16x2" => Self::Pair(F16),
            "bf16x2" => Self::Pair(BF16),
            _ => match Type::parse(name)? {
                Type::Unsigned(bytes) => Self::Unsigned(bytes),
                Type::Signed(bytes) => Self::Signed(bytes),
                _ => return None,
            },
        })
    }

    /// Clamps a number to the range of the integer type.
    fn clamp(self, value: i128) -> i128 {
        match self {
            Self::Unsigned(bytes) => value.clamp(0, mask(bytes).into()),
            Self::Signed(bytes) => {
                let most = i128::from(mask(bytes) >> 1);
                value.clamp(-most - 1, most)
            }
            _ => value,
        }
    }

    fn is_integer(self) -> bool {
        matches!(self, Self::Unsigned(_) | Self::Signed(_))
    }

    /// Returns the number of bits in the fraction.
    fn fraction(self) -> u32 {
        match self {
            Self::Narrow(format) | Self::Pair(format) => format.mantissa,
            Self::Double => 52,
            Self::Unsigned(_) | Self::Signed(_) => 0,
        }
    }
}

/// A `cvt` instruction with its modifiers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Conversion {
    from: ConvertType,
    to: ConvertType,
    rounding: Rounding,
    /// True if the value is rounded to an integer, even if the result is a floating-point number.
    to_integer: bool,
    saturates: bool,
    /// Size in bytes of the result's register. A signed integer is sign-extended to this size.
    register_bytes: u8,
}

impl Conversion {
    /// Parses an opcode such as `cvt.rzi.u32.f32`. Returns `None` if it is not a supported conversion.
    pub(crate) fn parse(opcode: &str) -> Option<Self> {
        let mut parts = opcode.strip_prefix("cvt.")?.split('.').peekable();
        let rounding = parts.peek().and_then(|part| match part.strip_suffix('i').unwrap_or(part) {
            "rn" => Some(Rounding::Nearest),
            "rz" => Some(Rounding::Zero),
            "rm" => Some(Rounding::Down),
            "rp" => Some(Rounding::Up),
            "rna" => Some(Rounding::Away),
            _ => None,
        });
        let to_integer = rounding.is_some() && parts.next()?.ends_with('i');
        let saturates = parts.next_if_eq(&"sat").is_some();
        let (to, from) = (ConvertType::parse(parts.next()?)?, ConvertType::parse(parts.next()?)?);
        let is_allowed = match (from.is_integer(), to.is_integer()) {
            // Saturation is allowed if the new type does not hold all values of the old one.
            (true, true) => {
                let holds_all = || [i128::MIN, i128::MAX].map(|v| from.clamp(v)).iter().all(|v| to.clamp(*v) == *v);
                rounding.is_none() && !(saturates && holds_all())
            }
            (true, false) => {
                rounding.is_some()
                    && !to_integer
                    && !saturates
                    && (to != ConvertType::Double || rounding == Some(Rounding::Nearest))
            }
            (false, true) => to_integer && !saturates,
            // A rounding mode is allowed if the conversion loses bits, or if it rounds to an integer in the same format.
            (false, false) if from == to => rounding.is_none() || to_integer,
            (false, false) => rounding.is_some() == (to.fraction() < from.fraction()) && !to_integer,
        };
        let is_simple = |kind| !matches!(kind, ConvertType::Narrow(BF16 | TF32) | ConvertType::Pair(_));
        let is_nearest_or_zero = matches!(rounding, None | Some(Rounding::Nearest | Rounding::Zero));
        let is_supported = match (from, to) {
            (ConvertType::Narrow(BF16), _) => to == ConvertType::Narrow(F32) && !saturates,
            (ConvertType::Narrow(F32), ConvertType::Narrow(TF32)) => rounding == Some(Rounding::Away),
            (ConvertType::Narrow(F32), ConvertType::Narrow(BF16) | ConvertType::Pair(_)) => is_nearest_or_zero,
            _ => is_simple(from) && is_simple(to) && rounding != Some(Rounding::Away),
        };
        let is_supported = is_supported && is_allowed && parts.next().is_none() && (!saturates || is_simple(to));
        is_supported.then_some(Self {
            from,
            to,
            rounding: rounding.unwrap_or(Rounding::Nearest),
            to_integer,
            saturates,
            register_bytes: 0,
        })
    }

    /// Returns true if the conversion takes two operands, of which the first becomes the upper half.
    pub(crate) fn is_pair(self) -> bool {
        matches!(self.to, ConvertType::Pair(_))
    }

    /// Returns the conversion with a result register of `bytes` bytes.
    pub(crate) fn into_register(self, bytes: u8) -> Self {
        Self { register_bytes: bytes, ..self }
    }

    /// Converts the bits of an operand to the bits of the result.
    pub(crate) fn apply(self, bits: u64) -> u64 {
        let value = self.value(bits);
        match self.to {
            ConvertType::Signed(bytes) if bytes < self.register_bytes => {
                extend(value, bytes).cast_unsigned() & mask(self.register_bytes)
            }
            _ => value,
        }
    }

    fn value(self, bits: u64) -> u64 {
        match self.from {
            ConvertType::Unsigned(bytes) => self.integer_to((bits & mask(bytes)).into()),
            ConvertType::Signed(bytes) => self.integer_to((extend(bits, bytes)).into()),
            ConvertType::Narrow(format) => self.float_to(format.widen(bits)),
            ConvertType::Double => self.float_to(f64::take(bits)),
            ConvertType::Pair(_) => bits,
        }
    }

    fn integer_to(self, value: i128) -> u64 {
        match self.to {
            ConvertType::Unsigned(bytes) | ConvertType::Signed(bytes) => {
                low(if self.saturates { self.to.clamp(value) } else { value }) & mask(bytes)
            }
            ConvertType::Narrow(format) | ConvertType::Pair(format) => format.narrow(to_odd(value), self.rounding),
            #[allow(clippy::cast_precision_loss)]
            ConvertType::Double => (value as f64).put(),
        }
    }

    #[allow(clippy::cast_possible_truncation)]
    fn float_to(self, value: f64) -> u64 {
        let whole = match self.rounding {
            _ if !self.to_integer => value,
            Rounding::Nearest | Rounding::Away => value.round_ties_even(),
            Rounding::Zero => value.trunc(),
            Rounding::Down => value.floor(),
            Rounding::Up => value.ceil(),
        };
        match self.to {
            // NaN becomes 0 or the lowest number, as the PTX ISA specifies.
            ConvertType::Unsigned(bytes) | ConvertType::Signed(bytes) if whole.is_nan() => {
                let is_zero = self.from != ConvertType::Double && bytes < 8;
                if is_zero { 0 } else { 1 << (8 * bytes - 1) }
            }
            ConvertType::Unsigned(bytes) | ConvertType::Signed(bytes) => {
                low(self.to.clamp(whole as i128)) & mask(bytes)
            }
            ConvertType::Narrow(TF32) => TF32.narrow(whole, self.rounding) << 13,
            ConvertType::Narrow(format) | ConvertType::Pair(format) => {
                format.narrow(self.saturated(whole), self.rounding)
            }
            ConvertType::Double => self.saturated(whole).put(),
        }
    }

    fn saturated(self, value: f64) -> f64 {
        if !self.saturates {
            value
        } else if value > 0.0 {
            value.min(1.0)
        } else {
            0.0
        }
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn low(value: i128) -> u64 {
    value as u64
}

/// Converts an integer to double precision with rounding to odd, so that a second rounding gives the right result.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
fn to_odd(value: i128) -> f64 {
    let near = value as f64;
    let error = value - near as i128;
    if error == 0 || near.to_bits() & 1 == 1 {
        return near;
    }
    if error > 0 { near.next_up() } else { near.next_down() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn convert(opcode: &str, bits: u64) -> u64 {
        Conversion::parse(opcode).unwrap_or_else(|| panic!("{opcode}")).apply(bits)
    }

    #[test]
    fn narrowing_to_single_precision_is_the_cpu_s() {
        let mut state = 1u64;
        for _ in 0..20_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // The exponents cover the range of single precision, including denormals and overflows.
            let value = f64::from_bits(state & !(0x7ff << 52) | ((state >> 40) % 320 + 860) << 52);
            #[allow(clippy::cast_possible_truncation)]
            let expect = value as f32;
            assert_eq!(F32.narrow(value, Rounding::Nearest), u64::from(expect.to_bits()), "{value:e}");
            assert_eq!(F32.widen(expect.to_bits().into()), f64::from(expect));
        }
    }

    #[test]
    fn halves_are_read_and_rounded() {
        assert_eq!(F16.widen(0x3c00), 1.0);
        assert_eq!(F16.widen(0x0001), 2f64.powi(-24));
        assert_eq!(F16.narrow(65504.0, Rounding::Nearest), 0x7bff);
        assert_eq!(F16.narrow(65520.0, Rounding::Nearest), 0x7c00);
        assert_eq!(F16.narrow(65520.0, Rounding::Zero), 0x7bff);
        assert_eq!(BF16.narrow(-1.0, Rounding::Nearest), 0xbf80);
        assert!((0..0x7c00u64).all(|bits| F16.narrow(F16.widen(bits), Rounding::Nearest) == bits));
    }

    #[test]
    fn conversions_saturate_and_take_nan_as_ptx_says() {
        let single = |v: f32| v.put();
        assert_eq!(convert("cvt.rzi.u32.f32", single(-1.5)), 0);
        assert_eq!(convert("cvt.rzi.s32.f32", single(-1.5)), 0xffff_ffff);
        assert_eq!(convert("cvt.rzi.s32.f32", single(3e9)), 0x7fff_ffff);
        assert_eq!(convert("cvt.rni.s32.f32", single(2.5)), 2);
        assert_eq!(convert("cvt.rzi.s32.f32", single(f32::NAN)), 0);
        assert_eq!(convert("cvt.rzi.s64.f32", single(f32::NAN)), 1 << 63);
        assert_eq!(convert("cvt.sat.f32.f32", single(f32::NAN)), 0);
        assert_eq!(convert("cvt.s64.s32", 0xffff_ffff), u64::MAX);
        assert_eq!(convert("cvt.u32.u64", u64::MAX), 0xffff_ffff);
        assert_eq!(convert("cvt.rn.f32.u64", u64::MAX), single(18_446_744_073_709_551_616.0));
        assert_eq!(convert("cvt.rn.f32.s32", 0x8000_0000), single(-2_147_483_648.0));
        assert_eq!(convert("cvt.rna.tf32.f32", 0x3f80_1000), 0x3f80_2000);
        for opcode in
            ["cvt.rn.f32.e4m3", "cvt.rn.u32.u64", "cvt.u32.f32", "cvt.f16.f32", "cvt.rn.f32.f16", "cvt.rn.tf32.f32"]
        {
            assert!(Conversion::parse(opcode).is_none(), "{opcode}");
        }
    }
}
