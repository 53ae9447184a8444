use crate::format::real::Real;
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// The element type of the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Dtype {
    /// IEEE binary64 (double precision).
    F64,
    /// IEEE binary32 (single precision).
    F32,
    /// NVIDIA's 19-bit format for tensor cores (tf32), stored as `f32`.
    Tf32,
    /// IEEE binary16 (half precision).
    F16,
    /// bfloat16, the upper 16 bits of a binary32.
    Bf16,
    /// A type that this version does not know.
    #[serde(other)]
    Other,
}

impl Dtype {
    /// Returns the bytes of one element in memory.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        match self {
            Self::F64 => 8,
            Self::F32 | Self::Tf32 | Self::Other => 4,
            Self::F16 | Self::Bf16 => 2,
        }
    }

    /// Returns the name for headings, such as "bf16".
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::F64 => "fp64",
            Self::F32 => "fp32",
            Self::Tf32 => "tf32",
            Self::F16 => "fp16",
            Self::Bf16 => "bf16",
            Self::Other => "another type",
        }
    }

    /// Returns the distance from 1 to the next larger number of the type (2^-23 for `f32`).
    #[must_use]
    pub fn epsilon(self) -> f64 {
        match self {
            Self::F64 => f64::EPSILON,
            Self::F32 | Self::Other => f64::from(f32::EPSILON),
            Self::Tf32 | Self::F16 => 2f64.powi(-10),
            Self::Bf16 => 2f64.powi(-7),
        }
    }
}

/// The value of a problem's size.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum SizeValue {
    /// A count, such as a number of points.
    Count(u64),
    /// A real number, such as a learning rate.
    Real(Real),
    /// A word, such as the name of a network.
    Text(String),
}

impl<'de> Deserialize<'de> for SizeValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl Visitor<'_> for Any {
            type Value = SizeValue;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a number or a word")
            }
            fn visit_u64<E: Error>(self, n: u64) -> Result<SizeValue, E> {
                Ok(n.into())
            }
            fn visit_i64<E: Error>(self, n: i64) -> Result<SizeValue, E> {
                Ok((n as f64).into())
            }
            fn visit_f64<E: Error>(self, v: f64) -> Result<SizeValue, E> {
                Ok(v.into())
            }
            fn visit_str<E: Error>(self, t: &str) -> Result<SizeValue, E> {
                Ok(Real::named(t).map_or_else(|| t.into(), SizeValue::Real))
            }
        }
        deserializer.deserialize_any(Any)
    }
}

impl fmt::Display for SizeValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(n) => write!(f, "{n}"),
            Self::Real(v) => write!(f, "{}", v.0),
            Self::Text(t) => f.write_str(t),
        }
    }
}

impl From<u64> for SizeValue {
    fn from(n: u64) -> Self {
        Self::Count(n)
    }
}

impl From<f64> for SizeValue {
    fn from(v: f64) -> Self {
        Self::Real(Real(v))
    }
}

impl From<&str> for SizeValue {
    fn from(t: &str) -> Self {
        Self::Text(t.into())
    }
}

/// A named size of a problem, such as `points` or `k`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Size {
    /// Name of the size in the usual notation of its field.
    pub name: String,
    /// Value of the size.
    pub value: SizeValue,
    /// Unit of a count, such as "rows"; absent for a pure number or a word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
}

/// The position of a problem on a line of a sweep.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SweepPoint {
    /// The value along the sweep's axis.
    pub size: u64,
    /// Description of what is constant along the line, such as "200 epochs" or "bf16, B transposed".
    pub line: String,
}

/// A self-contained description of a piece of work. It contains the results of the experiment's formulas, so that
/// readers of a record need no formulas.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProblemData {
    /// Identifier of the problem within a record and across records, made of the sizes and the type.
    pub id: String,
    /// Label of a few words, such as "5 M points, 200 epochs".
    pub label: String,
    /// Size in a few characters, such as "5 M" or "4096³".
    pub short: String,
    /// Sizes by name.
    #[serde(default)]
    pub sizes: Vec<Size>,
    /// Element type of the work.
    pub dtype: Dtype,
    /// Number of floating-point operations of the whole work.
    #[serde(default)]
    pub flops: u64,
    /// Number of bytes read and written if every pass moves the inputs and results once and keeps nothing.
    #[serde(default)]
    pub bytes: u64,
    /// Number of bytes written, which are part of `bytes`, if they are counted. Work that writes at least a third of
    /// its bytes is compared with the bandwidth of copies.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub written_bytes: u64,
    /// Size of the inputs and results in bytes, which decides whether they stay in L2 between passes.
    #[serde(default)]
    pub working_set_bytes: u64,
    /// Number of passes over the inputs, such as epochs; usually 1.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub passes: u64,
    /// Number of processed items, such as images, if their rate matters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub items: Option<u64>,
    /// Position in a sweep; absent if the problem is not part of a sweep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep: Option<SweepPoint>,
}

/// A [`ProblemData`] that is cheap to clone. Two problems are equal if their ids are.
#[derive(Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Problem(Arc<ProblemData>);

impl Problem {
    /// Creates a problem from sizes and a type, which also form its id. [`Problem::with`] sets work, passes and sweep.
    #[must_use]
    pub fn new(label: impl Into<String>, short: impl Into<String>, sizes: Vec<Size>, dtype: Dtype) -> Self {
        let mut id: String = sizes.iter().map(|s| format!("{}={} ", s.name, s.value)).collect();
        id += dtype.label();
        Self(Arc::new(ProblemData {
            id,
            label: label.into(),
            short: short.into(),
            sizes,
            dtype,
            flops: 0,
            bytes: 0,
            written_bytes: 0,
            working_set_bytes: 0,
            passes: 1,
            items: None,
            sweep: None,
        }))
    }

    /// Returns the problem with `change` applied to a copy of its data.
    #[must_use]
    pub fn with(&self, change: impl FnOnce(&mut ProblemData)) -> Self {
        let mut data = ProblemData::clone(self);
        change(&mut data);
        Self(Arc::new(data))
    }

    /// Creates a placeholder for the problem with this id, which is used until the record's list of problems is read.
    fn named(id: String) -> Self {
        Self::new("", "", Vec::new(), Dtype::Other).with(|p| p.id = id)
    }
}

impl ProblemData {
    fn value(&self, name: &str) -> Option<&SizeValue> {
        self.sizes.iter().find(|s| s.name == name).map(|s| &s.value)
    }

    /// Returns the size with this name, if it is a count.
    #[must_use]
    pub fn count(&self, name: &str) -> Option<u64> {
        match self.value(name)? {
            SizeValue::Count(n) => Some(*n),
            _ => None,
        }
    }

    /// Returns the size with this name as a real number, if it is a number.
    #[must_use]
    pub fn real(&self, name: &str) -> Option<f64> {
        match self.value(name)? {
            SizeValue::Count(n) => Some(*n as f64),
            SizeValue::Real(v) => Some(v.0),
            SizeValue::Text(_) => None,
        }
    }

    /// Returns the size with this name, if it is a word.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.value(name)? {
            SizeValue::Text(t) => Some(t),
            _ => None,
        }
    }

    /// Returns the value along the sweep's axis; 0 for a problem that is not part of a sweep.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.sweep.as_ref().map_or(0, |s| s.size)
    }

    /// Returns the written share of the bytes, from 0 to 1.
    #[must_use]
    pub fn written_part(&self) -> f64 {
        if self.bytes == 0 { 0.0 } else { self.written_bytes as f64 / self.bytes as f64 }
    }

    /// Returns true if both problems are on the same line of a sweep.
    #[must_use]
    pub fn same_line(&self, other: &Self) -> bool {
        let on_one = self.sweep.as_ref().zip(other.sweep.as_ref()).is_some_and(|(a, b)| a.line == b.line);
        on_one && self.dtype == other.dtype
    }
}

impl Deref for Problem {
    type Target = ProblemData;

    fn deref(&self) -> &ProblemData {
        &self.0
    }
}

impl From<ProblemData> for Problem {
    fn from(data: ProblemData) -> Self {
        Self(Arc::new(data))
    }
}

impl PartialEq for Problem {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.id == other.id
    }
}

impl Eq for Problem {}

impl fmt::Debug for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Writes a problem as its id: `#[serde(with = "by_id")]`. Reading gives a placeholder, which [`resolve`] replaces
/// later.
pub(crate) mod by_id {
    use super::{Deserialize, Deserializer, Problem, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(problem: &Problem, s: S) -> Result<S::Ok, S::Error> {
        problem.id.serialize(s)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Problem, D::Error> {
        Ok(Problem::named(String::deserialize(d)?))
    }
}

/// Replaces a placeholder by the listed problem with the same id; the error is an id that is not listed.
pub(crate) fn resolve(
    placeholder: &mut Problem,
    known: &std::collections::HashMap<&str, &Problem>,
) -> Result<(), String> {
    let found = known.get(placeholder.id.as_str()).copied().cloned();
    *placeholder = found.ok_or_else(|| placeholder.id.clone())?;
    Ok(())
}

/// Creates a size that is a count.
#[must_use]
pub fn count(name: &str, value: u64, unit: &str) -> Size {
    Size { name: name.into(), value: value.into(), unit: (!unit.is_empty()).then(|| unit.into()) }
}

/// Creates a size that is a pure number or a word.
#[must_use]
pub fn setting(name: &str, value: impl Into<SizeValue>) -> Size {
    Size { name: name.into(), value: value.into(), unit: None }
}

const fn one() -> u64 {
    1
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
const fn is_one(n: &u64) -> bool {
    *n == 1
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
const fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// Formats a count with a metric prefix: 5_000_000 as "5 M", 1_500 as "1.5 k".
#[must_use]
pub fn short_count(n: u64) -> String {
    let (unit, name) = match n {
        0..1_000 => return n.to_string(),
        1_000..1_000_000 => (1e3, "k"),
        1_000_000..1_000_000_000 => (1e6, "M"),
        _ => (1e9, "G"),
    };
    let v = n as f64 / unit;
    let digits = usize::from(v.fract() != 0.0) * if v < 10.0 { 2 } else { 1 };
    let text = format!("{v:.digits$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text} {name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_short() {
        let check = |n: u64, expect: &str| assert_eq!(short_count(n), expect);
        check(7, "7");
        check(1_500, "1.5 k");
        check(100_000, "100 k");
        check(5_000_000, "5 M");
        check(1_250_000, "1.25 M");
        check(200_000_000, "200 M");
        check(3_000_000_000, "3 G");
    }

    #[test]
    fn sizes_are_found_by_name_and_identify_the_problem() {
        let sizes =
            vec![count("points", 5_000_000, "points"), setting("learning_rate", 0.01), setting("network", "mnist")];
        let p = Problem::new("5 M points", "5 M", sizes.clone(), Dtype::F32);
        assert_eq!(p.id, "points=5000000 learning_rate=0.01 network=mnist fp32");
        assert_eq!(
            (p.count("points"), p.real("learning_rate"), p.text("network")),
            (Some(5_000_000), Some(0.01), Some("mnist"))
        );
        assert_eq!((p.count("learning_rate"), p.real("points"), p.count("none")), (None, Some(5e6), None));
        assert_eq!(p, Problem::new("in other words", "", sizes.clone(), Dtype::F32));
        assert_ne!(p, Problem::new("5 M points", "5 M", sizes, Dtype::F16));
    }

    #[test]
    fn a_line_joins_problems_of_one_kind_and_type() {
        let on = |size, line: &str, dtype| {
            Problem::new("", "", vec![count("n", size, "")], dtype)
                .with(|p| p.sweep = Some(SweepPoint { size, line: line.into() }))
        };
        assert!(on(1, "a", Dtype::F32).same_line(&on(2, "a", Dtype::F32)));
        assert!(!on(1, "a", Dtype::F32).same_line(&on(2, "b", Dtype::F32)));
        assert!(!on(1, "a", Dtype::F32).same_line(&on(2, "a", Dtype::F16)));
        let off = Problem::new("", "", Vec::new(), Dtype::F32);
        assert!(!off.same_line(&off));
    }
}
