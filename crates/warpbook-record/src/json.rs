//! JSON between its text and a record's types.
//!
//! The text becomes values in one pass, and the types are read from these. An error then says at which path of the file it is, and
//! the code of every type's reader is a fraction of what reading straight from text takes, which is what the page loads most of.

use crate::ReadError;
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error, Expected, IntoDeserializer, MapAccess, SeqAccess, Unexpected,
    VariantAccess, Visitor, value::StrDeserializer,
};
use serde::{Deserialize, forward_to_deserialize_any};
use serde_json::{Map, Number, Value};
use std::borrow::Cow;
use std::fmt;

/// A value; texts without escapes are borrowed from the file's.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Json<'a> {
    Null,
    Bool(bool),
    Count(u64),
    Negative(i64),
    Real(f64),
    Text(Cow<'a, str>),
    List(Vec<Json<'a>>),
    /// In the order of the text, with keys that occur more than once.
    Object(Vec<(Cow<'a, str>, Json<'a>)>),
}

impl<'a> Json<'a> {
    pub(crate) fn parse(text: &'a str) -> Result<Self, ReadError> {
        serde_json::from_str(text).map_err(|e| ReadError::NotJson(e.to_string()))
    }

    /// The value of a key; of several the last.
    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        let Self::Object(fields) = self else { return None };
        fields.iter().rev().find(|(k, _)| k == key).map(|(_, v)| v)
    }

    /// The same as serde_json's value, which has each key once.
    pub(crate) fn into_value(self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Bool(b) => Value::Bool(b),
            Self::Count(n) => Value::Number(n.into()),
            Self::Negative(n) => Value::Number(n.into()),
            Self::Real(v) => Number::from_f64(v).map_or(Value::Null, Value::Number),
            Self::Text(t) => Value::String(t.into_owned()),
            Self::List(list) => Value::Array(list.into_iter().map(Self::into_value).collect()),
            Self::Object(fields) => {
                Value::Object(fields.into_iter().map(|(k, v)| (k.into_owned(), v.into_value())).collect::<Map<_, _>>())
            }
        }
    }

    /// What a visitor wanted, and what is here.
    fn not(&self, expected: &dyn Expected) -> Wrong {
        let found = match self {
            Self::Null => Unexpected::Unit,
            Self::Bool(b) => Unexpected::Bool(*b),
            Self::Count(n) => Unexpected::Unsigned(*n),
            Self::Negative(n) => Unexpected::Signed(*n),
            Self::Real(v) => Unexpected::Float(*v),
            Self::Text(t) => Unexpected::Str(t),
            Self::List(_) => Unexpected::Seq,
            Self::Object(_) => Unexpected::Map,
        };
        Wrong::invalid_type(found, expected)
    }
}

impl<'a> From<&'a Value> for Json<'a> {
    fn from(value: &'a Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(b) => Self::Bool(*b),
            Value::Number(n) => match (n.as_u64(), n.as_i64()) {
                (Some(n), _) => Self::Count(n),
                (_, Some(n)) => Self::Negative(n),
                _ => Self::Real(n.as_f64().unwrap_or(f64::NAN)),
            },
            Value::String(t) => Self::Text(t.as_str().into()),
            Value::Array(list) => Self::List(list.iter().map(Self::from).collect()),
            Value::Object(fields) => {
                Self::Object(fields.iter().map(|(k, v)| (k.as_str().into(), Self::from(v))).collect())
            }
        }
    }
}

impl<'de> Deserialize<'de> for Json<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Json<'de>;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("JSON")
            }
            fn visit_unit<E: Error>(self) -> Result<Json<'de>, E> {
                Ok(Json::Null)
            }
            fn visit_bool<E: Error>(self, v: bool) -> Result<Json<'de>, E> {
                Ok(Json::Bool(v))
            }
            fn visit_u64<E: Error>(self, v: u64) -> Result<Json<'de>, E> {
                Ok(Json::Count(v))
            }
            fn visit_i64<E: Error>(self, v: i64) -> Result<Json<'de>, E> {
                Ok(Json::Negative(v))
            }
            fn visit_f64<E: Error>(self, v: f64) -> Result<Json<'de>, E> {
                Ok(Json::Real(v))
            }
            fn visit_borrowed_str<E: Error>(self, v: &'de str) -> Result<Json<'de>, E> {
                Ok(Json::Text(v.into()))
            }
            fn visit_str<E: Error>(self, v: &str) -> Result<Json<'de>, E> {
                Ok(Json::Text(v.to_owned().into()))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json<'de>, A::Error> {
                let mut list = Vec::new();
                while let Some(item) = items.next_element()? {
                    list.push(item);
                }
                Ok(Json::List(list))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Json<'de>, A::Error> {
                let mut fields = Vec::new();
                while let Some(Key(key)) = entries.next_key()? {
                    fields.push((key, entries.next_value()?));
                }
                Ok(Json::Object(fields))
            }
        }
        deserializer.deserialize_any(Any)
    }
}

/// A key of an object, borrowed where it has no escapes.
struct Key<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl<'de> Visitor<'de> for Text {
            type Value = Key<'de>;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a key")
            }
            fn visit_borrowed_str<E: Error>(self, v: &'de str) -> Result<Key<'de>, E> {
                Ok(Key(v.into()))
            }
            fn visit_str<E: Error>(self, v: &str) -> Result<Key<'de>, E> {
                Ok(Key(v.to_owned().into()))
            }
        }
        deserializer.deserialize_str(Text)
    }
}

/// A value that a type does not have, and its path.
#[derive(Debug)]
pub(crate) struct Wrong(Box<(String, String)>);

/// As many characters of a file's own key as a message repeats.
const MAX_KEY: usize = 60;

impl Wrong {
    /// What is wrong, without its path.
    pub(crate) fn what(&self) -> &str {
        &self.0.0
    }

    fn in_field(self, key: &str) -> Self {
        let end = key.char_indices().nth(MAX_KEY).map_or(key.len(), |(at, _)| at);
        self.within(&key[..end])
    }

    fn in_item(self, i: usize) -> Self {
        self.within(&format!("[{i}]"))
    }

    /// The path goes on from this part of a value around.
    fn within(mut self, part: &str) -> Self {
        let path = &mut self.0.1;
        if !path.is_empty() && !path.starts_with('[') {
            path.insert(0, '.');
        }
        path.insert_str(0, part);
        self
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let (what, path) = &*self.0;
        if path.is_empty() { f.write_str(what) } else { write!(f, "{what}, at `{path}`") }
    }
}

impl std::error::Error for Wrong {}

impl Error for Wrong {
    fn custom<T: fmt::Display>(what: T) -> Self {
        Self(Box::new((what.to_string(), String::new())))
    }

    fn invalid_type(found: Unexpected, expected: &dyn Expected) -> Self {
        let found = if found == Unexpected::Unit { Unexpected::Other("null") } else { found };
        Self::custom(format_args!("invalid type: {found}, expected {expected}"))
    }
}

impl<'de> Deserializer<'de> for &Json<'_> {
    type Error = Wrong;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        match self {
            Json::Null => visitor.visit_unit(),
            Json::Bool(b) => visitor.visit_bool(*b),
            Json::Count(n) => visitor.visit_u64(*n),
            Json::Negative(n) => visitor.visit_i64(*n),
            Json::Real(v) => visitor.visit_f64(*v),
            Json::Text(t) => visitor.visit_str(t),
            Json::List(_) => self.deserialize_seq(visitor),
            Json::Object(_) => self.deserialize_map(visitor),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        let Json::Bool(b) = self else { return Err(self.not(&visitor)) };
        visitor.visit_bool(*b)
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        match self {
            Json::Count(n) => visitor.visit_u64(*n),
            Json::Negative(n) => visitor.visit_i64(*n),
            Json::Real(v) => visitor.visit_f64(*v),
            _ => Err(self.not(&visitor)),
        }
    }

    fn deserialize_i8<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        self.deserialize_u64(visitor)
    }
    fn deserialize_i16<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        self.deserialize_u64(visitor)
    }
    fn deserialize_i32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        self.deserialize_u64(visitor)
    }
    fn deserialize_i64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        self.deserialize_u64(visitor)
    }
    fn deserialize_u8<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        self.deserialize_u64(visitor)
    }
    fn deserialize_u16<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        self.deserialize_u64(visitor)
    }
    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        self.deserialize_u64(visitor)
    }
    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        self.deserialize_u64(visitor)
    }
    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        self.deserialize_u64(visitor)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        let Json::Text(t) = self else { return Err(self.not(&visitor)) };
        visitor.visit_str(t)
    }
    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        self.deserialize_str(visitor)
    }
    fn deserialize_char<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        self.deserialize_str(visitor)
    }
    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        if matches!(self, Json::Null) { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        if matches!(self, Json::Null) { visitor.visit_unit() } else { Err(self.not(&visitor)) }
    }
    fn deserialize_unit_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Wrong> {
        self.deserialize_unit(visitor)
    }
    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Wrong> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        let Json::List(list) = self else { return Err(self.not(&visitor)) };
        let mut items = Items { list, next: 0 };
        let read = visitor.visit_seq(&mut items)?;
        items.end()?;
        Ok(read)
    }
    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Wrong> {
        self.deserialize_seq(visitor)
    }
    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        let Json::Object(fields) = self else { return Err(self.not(&visitor)) };
        visitor.visit_map(Fields { fields, next: 0 })
    }
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        self.deserialize_map(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        match self {
            Json::Text(name) => visitor.visit_enum(Variant { name, content: None }),
            Json::Object(fields) if fields.len() == 1 => {
                visitor.visit_enum(Variant { name: &fields[0].0, content: Some(&fields[0].1) })
            }
            _ => Err(self.not(&visitor)),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! { i128 u128 bytes byte_buf }
}

/// The items of a list in turn.
struct Items<'j, 'a> {
    list: &'j [Json<'a>],
    next: usize,
}

impl Items<'_, '_> {
    /// An error where a type of fixed length has left some.
    fn end(&self) -> Result<(), Wrong> {
        if self.next < self.list.len() {
            return Err(Wrong::invalid_length(self.list.len(), &format!("{} items", self.next).as_str()));
        }
        Ok(())
    }
}

impl<'de> SeqAccess<'de> for &mut Items<'_, '_> {
    type Error = Wrong;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Wrong> {
        let Some(item) = self.list.get(self.next) else { return Ok(None) };
        self.next += 1;
        seed.deserialize(item).map(Some).map_err(|e| e.in_item(self.next - 1))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.list.len() - self.next)
    }
}

/// The fields of an object in turn.
struct Fields<'j, 'a> {
    fields: &'j [(Cow<'a, str>, Json<'a>)],
    next: usize,
}

impl<'de> MapAccess<'de> for Fields<'_, '_> {
    type Error = Wrong;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Wrong> {
        let Some((key, _)) = self.fields.get(self.next) else { return Ok(None) };
        self.next += 1;
        seed.deserialize(named(key)).map(Some)
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Wrong> {
        // A value is asked for after its key.
        let (key, value) = &self.fields[self.next.saturating_sub(1)];
        seed.deserialize(value).map_err(|e| e.in_field(key))
    }
}

fn named(name: &str) -> StrDeserializer<'_, Wrong> {
    name.into_deserializer()
}

/// A variant, and what it holds.
struct Variant<'j, 'a> {
    name: &'j str,
    content: Option<&'j Json<'a>>,
}

impl<'j, 'a> Variant<'j, 'a> {
    fn content(&self, expected: &dyn Expected) -> Result<&'j Json<'a>, Wrong> {
        self.content.ok_or_else(|| Wrong::invalid_type(Unexpected::UnitVariant, expected))
    }
}

impl<'de> EnumAccess<'de> for Variant<'_, '_> {
    type Error = Wrong;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Wrong> {
        Ok((seed.deserialize(named(self.name))?, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'_, '_> {
    type Error = Wrong;

    fn unit_variant(self) -> Result<(), Wrong> {
        match self.content {
            None | Some(Json::Null) => Ok(()),
            Some(other) => Err(other.not(&"unit variant").in_field(self.name)),
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Wrong> {
        seed.deserialize(self.content(&"newtype variant")?).map_err(|e| e.in_field(self.name))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Wrong> {
        self.content(&visitor)?.deserialize_seq(visitor).map_err(|e| e.in_field(self.name))
    }

    fn struct_variant<V: Visitor<'de>>(self, _: &'static [&'static str], visitor: V) -> Result<V::Value, Wrong> {
        self.content(&visitor)?.deserialize_map(visitor).map_err(|e| e.in_field(self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Grid, Problem, Requires, Run, Runner, Schedule};
    use serde::de::DeserializeOwned;
    use std::collections::BTreeMap;

    fn read<T: DeserializeOwned>(text: &str) -> Result<T, String> {
        T::deserialize(&Json::parse(text).map_err(|e| e.to_string())?).map_err(|e| e.to_string())
    }

    #[test]
    fn values_and_back_are_the_same() {
        let text = r#"{"a": [null, true, 1, -2, 1.5, "\u00e9 \"", {}], "b": {"c": 18446744073709551615}}"#;
        let value: Value = serde_json::from_str(text).unwrap();
        assert_eq!(Json::parse(text).unwrap().into_value(), value);
        assert_eq!(Json::from(&value).into_value(), value);
        assert_eq!(Json::parse(r#"{"a": 1, "a": 2}"#).unwrap().get("a"), Some(&Json::Count(2)));
    }

    /// Whatever serde_json reads from the text is read from the value, and what it refuses is refused.
    #[test]
    fn a_value_is_read_as_its_text_is() {
        fn same<T: DeserializeOwned + fmt::Debug + PartialEq>(text: &str) {
            assert_eq!(read::<T>(text).ok(), serde_json::from_str::<T>(text).ok(), "{text}");
        }
        let texts = [
            "null",
            "true",
            "7",
            "-7",
            "7.5",
            "\"launches\"",
            "\"x\"",
            "[]",
            "{}",
            "[1, 2]",
            "[1, 2, 3]",
            "[1]",
            "[1, \"x\"]",
            r#"{"streams": 4}"#,
            r#"{"streams": -4}"#,
            r#"{"graph": null}"#,
            r#"{"graph": 1}"#,
            r#"{"graph": null, "x": 1}"#,
            r#"{"at_least": [9, 0]}"#,
            r#"{"at_least": [9]}"#,
            r#"{"at_least": [9, 0, 1]}"#,
            "\"at_least\"",
            "\"nothing\"",
            r#"{"exactly": "sm_90a"}"#,
            r#"{"library": "cuBLAS"}"#,
            r#"{"kernels": {"specs": [], "schedule": "graph"}}"#,
            r#"{"kernels": {"specs": []}}"#,
            r#"{"kernels": {"specs": [], "specs": [], "schedule": "graph"}}"#,
            "\"kernels\"",
            "\"tiles\"",
            "4294967296",
            "1e300",
            "\"a\"",
        ];
        for text in texts {
            same::<Schedule>(text);
            same::<Requires>(text);
            same::<Runner>(text);
            same::<Grid>(text);
            same::<(u32, u32)>(text);
            same::<[u32; 3]>(text);
            same::<Option<i64>>(text);
            same::<f64>(text);
            same::<u8>(text);
            same::<char>(text);
            same::<()>(text);
            same::<Vec<u64>>(text);
            same::<BTreeMap<String, Option<Vec<u32>>>>(text);
            same::<bool>(text);
            same::<String>(text);
        }
    }

    #[test]
    fn an_error_says_its_path() {
        let why = |text: &str| read::<Run>(text).unwrap_err();
        let golden = include_str!("../tests/golden/run.v2.json");
        assert!(read::<Run>(golden).is_ok());
        let at = |pointer: &str, value: Value| {
            let mut record: Value = serde_json::from_str(golden).unwrap();
            *record.pointer_mut(pointer).unwrap() = value;
            why(&record.to_string())
        };
        let said = at("/measurements/1/problem", 7.into());
        assert_eq!(said, "invalid type: integer `7`, expected a string, at `measurements[1].problem`");
        let said = at("/measurements/1/samples_us/2", "x".into());
        assert!(said.ends_with("at `measurements[1].samples_us[2]`"), "{said}");
        assert_eq!(why("{}"), "missing field `schema`");
        assert_eq!(why("[]"), "invalid type: sequence, expected struct Run");
        let long = format!(r#"{{"schema": 2, "experiment": "x", "sources": {{"{}": 1}}}}"#, "é".repeat(500));
        assert!(why(&long).ends_with(&format!("at `sources.{}`", "é".repeat(MAX_KEY))));
        assert!(read::<Vec<Problem>>(r#"[{"id": 1}]"#).unwrap_err().ends_with("at `[0].id`"));
    }
}
