//! Floating-point numbers that survive JSON.
//!
//! JSON has neither NaN nor infinity, but a diverged run may contain both. They are written as the strings `"NaN"`,
//! `"Infinity"` and `"-Infinity"`; every finite number is a plain JSON number.

use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An `f64` whose JSON form keeps NaN and infinity.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default)]
pub struct Real(pub f64);

impl Real {
    /// Returns NaN or an infinity, given its name in a record; `None` for other names.
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "NaN" => Some(Self(f64::NAN)),
            "Infinity" => Some(Self(f64::INFINITY)),
            "-Infinity" => Some(Self(f64::NEG_INFINITY)),
            _ => None,
        }
    }
}

impl Serialize for Real {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            v if v.is_nan() => serializer.serialize_str("NaN"),
            f64::INFINITY => serializer.serialize_str("Infinity"),
            f64::NEG_INFINITY => serializer.serialize_str("-Infinity"),
            v => serializer.serialize_f64(v),
        }
    }
}

impl<'de> Deserialize<'de> for Real {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Number;
        impl Visitor<'_> for Number {
            type Value = Real;
            fn expecting(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
                f.write_str("a number, \"NaN\", \"Infinity\" or \"-Infinity\"")
            }
            fn visit_f64<E: Error>(self, v: f64) -> Result<Real, E> {
                Ok(Real(v))
            }
            fn visit_i64<E: Error>(self, v: i64) -> Result<Real, E> {
                Ok(Real(v as f64))
            }
            fn visit_u64<E: Error>(self, v: u64) -> Result<Real, E> {
                Ok(Real(v as f64))
            }
            fn visit_str<E: Error>(self, v: &str) -> Result<Real, E> {
                Real::named(v).ok_or_else(|| E::invalid_value(Unexpected::Str(v), &self))
            }
        }
        deserializer.deserialize_any(Number)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Real {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Real".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "A number; NaN and the infinities are strings, since JSON has none.",
            "anyOf": [{ "type": "number" }, { "enum": ["NaN", "Infinity", "-Infinity"] }]
        })
    }
}

/// For use as `#[serde(with = "real::one")]` on an `f64` field.
pub mod one {
    use super::Real;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// Writes one number.
    ///
    /// # Errors
    /// If the serializer fails.
    pub fn serialize<S: Serializer>(v: &f64, s: S) -> Result<S::Ok, S::Error> {
        Real(*v).serialize(s)
    }
    /// Reads one number.
    ///
    /// # Errors
    /// If the deserializer fails, or the value is not a number.
    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<f64, D::Error> {
        Ok(Real::deserialize(d)?.0)
    }
}

/// For use as `#[serde(with = "real::many")]` on a `Vec<f64>` field.
pub mod many {
    use super::Real;
    use serde::{Deserialize, Deserializer, Serializer};

    /// Writes a list of numbers.
    ///
    /// # Errors
    /// If the serializer fails.
    pub fn serialize<S: Serializer>(v: &[f64], s: S) -> Result<S::Ok, S::Error> {
        s.collect_seq(v.iter().map(|x| Real(*x)))
    }
    /// Reads a list of numbers.
    ///
    /// # Errors
    /// If the deserializer fails, or a value is not a number.
    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<f64>, D::Error> {
        Ok(Vec::<Real>::deserialize(d)?.into_iter().map(|r| r.0).collect())
    }
}

/// For use as `#[serde(with = "real::map")]` on a map from names to numbers.
pub mod map {
    use super::Real;
    use serde::{Deserialize, Deserializer, Serializer};
    use std::collections::BTreeMap;

    /// Writes a map of numbers.
    ///
    /// # Errors
    /// If the serializer fails.
    pub fn serialize<S: Serializer>(v: &BTreeMap<String, f64>, s: S) -> Result<S::Ok, S::Error> {
        s.collect_map(v.iter().map(|(k, x)| (k, Real(*x))))
    }
    /// Reads a map of numbers.
    ///
    /// # Errors
    /// If the deserializer fails, or a value is not a number.
    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<BTreeMap<String, f64>, D::Error> {
        Ok(BTreeMap::<String, Real>::deserialize(d)?.into_iter().map(|(k, r)| (k, r.0)).collect())
    }
}
