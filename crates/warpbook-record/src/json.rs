//! JSON between its text and a record's types.
//!
//! The text becomes values in one pass, and the types are read from these. An error then says at which path of the file it is, and
//! the code of every type's reader is a fraction of what reading straight from text takes, which is what the page loads most of.

mod number;
mod text;

use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error, Expected, IntoDeserializer, MapAccess,
    SeqAccess, Unexpected, VariantAccess, Visitor, value::StrDeserializer,
};
use serde::forward_to_deserialize_any;
use std::borrow::Cow;
use std::fmt;
use text::Text;

pub use number::number;

/// Reads a value of any type from JSON text.
///
/// # Errors
/// What is wrong with the text, and where.
pub fn read<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    T::deserialize(&Json::parse(text)?).map_err(|e| e.to_string())
}

/// The members of a JSON object in the order of its text: each with the JSON text of its value.
///
/// # Errors
/// What is wrong with the text, and where.
pub fn members(text: &str) -> Result<Vec<(Cow<'_, str>, &str)>, String> {
    Text::new(text).members()
}

/// A text as a JSON string, in its quotes.
#[must_use]
pub fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out += "\\n",
            '\t' => out += "\\t",
            '\r' => out += "\\r",
            ..' ' => out += &format!("\\u{:04x}", u32::from(c)),
            _ => out.push(c),
        }
    }
    out.push('"');
    out
}

/// JSON text without the blanks between its values.
#[must_use]
pub fn compact(text: &str) -> String {
    let (mut is_text, mut is_escaped) = (false, false);
    let keep = |c: &char| {
        is_text ^= *c == '"' && !is_escaped;
        is_escaped = is_text && *c == '\\' && !is_escaped;
        is_text || !matches!(c, ' ' | '\n' | '\t' | '\r')
    };
    text.chars().filter(keep).collect()
}

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
    pub(crate) fn parse(text: &'a str) -> Result<Self, String> {
        Text::new(text).whole()
    }

    /// The value of a key; of several the last.
    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        let Self::Object(fields) = self else { return None };
        fields.iter().rev().find(|(k, _)| k == key).map(|(_, v)| v)
    }

    /// The same, to be changed.
    pub(crate) fn get_mut(&mut self, key: &str) -> Option<&mut Self> {
        let Self::Object(fields) = self else { return None };
        fields.iter_mut().rev().find(|(k, _)| k == key).map(|(_, v)| v)
    }

    /// Takes a key out.
    pub(crate) fn remove(&mut self, key: &str) -> Option<Self> {
        let Self::Object(fields) = self else { return None };
        let at = fields.iter().rposition(|(k, _)| k == key)?;
        Some(fields.remove(at).1)
    }

    /// Gives a key a value, in the place of one that it has.
    pub(crate) fn set(&mut self, key: &'static str, value: Self) {
        self.remove(key);
        if let Self::Object(fields) = self {
            fields.push((key.into(), value));
        }
    }

    pub(crate) fn as_str(&self) -> Option<&str> {
        if let Self::Text(t) = self { Some(t) } else { None }
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
        Self::custom(format_args!("invalid type: {}, expected {expected}", in_words(&found)))
    }

    fn invalid_value(found: Unexpected, expected: &dyn Expected) -> Self {
        Self::custom(format_args!("invalid value: {}, expected {expected}", in_words(&found)))
    }
}

/// As serde says it, but for its quotes: what it has for these brings tables of all characters that cannot be seen.
fn in_words(found: &Unexpected) -> String {
    match found {
        Unexpected::Unit => "null".into(),
        Unexpected::Bool(b) => format!("boolean `{b}`"),
        Unexpected::Unsigned(n) => format!("integer `{n}`"),
        Unexpected::Signed(n) => format!("integer `{n}`"),
        Unexpected::Float(v) => format!("floating point `{v}`"),
        Unexpected::Str(t) => format!("string {}", quoted(t)),
        Unexpected::Seq => "sequence".into(),
        Unexpected::Map => "map".into(),
        Unexpected::UnitVariant => "unit variant".into(),
        _ => "another value".into(),
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
        names: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        let Json::Object(fields) = self else { return Err(self.not(&visitor)) };
        let mut ordered = Ordered::of(fields, names)?;
        visitor.visit_seq(&mut ordered).map_err(|why| ordered.why(why))
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

/// The values of an object in the order of a type's fields, absent ones too.
///
/// serde's readers take a list as well as an object, and for a list they have a fraction of the code: they need not keep each
/// field until the last has come. That a field is absent they say by the length of the list, so every optional one has
/// `#[serde(default)]`.
struct Ordered<'j, 'a> {
    names: &'static [&'static str],
    values: Vec<Option<&'j Json<'a>>>,
    next: usize,
}

impl<'j, 'a> Ordered<'j, 'a> {
    fn of(fields: &'j [(Cow<'a, str>, Json<'a>)], names: &'static [&'static str]) -> Result<Self, Wrong> {
        let mut values = vec![None; names.len()];
        for (key, value) in fields {
            if let Some(i) = names.iter().position(|n| n == key)
                && values[i].replace(value).is_some()
            {
                return Err(Wrong::duplicate_field(names[i]));
            }
        }
        Ok(Self { names, values, next: 0 })
    }

    /// What is wrong, said by the name of the field that was read last.
    fn why(&self, wrong: Wrong) -> Wrong {
        let last = self.next.wrapping_sub(1);
        match (self.names.get(last), self.values.get(last)) {
            (Some(name), Some(None)) => Wrong::missing_field(name),
            (Some(name), Some(Some(_))) => wrong.in_field(name),
            _ => wrong,
        }
    }
}

impl<'de> SeqAccess<'de> for &mut Ordered<'_, '_> {
    type Error = Wrong;

    // Once for each type of field, not once for each field.
    #[inline(never)]
    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Wrong> {
        let value = self.values.get(self.next).copied().flatten();
        self.next += 1;
        value.map(|value| seed.deserialize(value)).transpose()
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

    fn struct_variant<V: Visitor<'de>>(self, names: &'static [&'static str], visitor: V) -> Result<V::Value, Wrong> {
        self.content(&visitor)?.deserialize_struct("", names, visitor).map_err(|e| e.in_field(self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Grid, Problem, Requires, Run, Runner, Schedule};
    use proptest::prelude::*;
    use serde_json::Value;
    use std::collections::BTreeMap;

    /// The same as serde_json's value, which has each key once.
    fn value_of(json: Json) -> Value {
        match json {
            Json::Null => Value::Null,
            Json::Bool(b) => b.into(),
            Json::Count(n) => n.into(),
            Json::Negative(n) => n.into(),
            Json::Real(v) => v.into(),
            Json::Text(t) => Value::String(t.into_owned()),
            Json::List(list) => list.into_iter().map(value_of).collect(),
            Json::Object(fields) => fields.into_iter().map(|(k, v)| (k.into_owned(), value_of(v))).collect(),
        }
    }

    /// Texts are read, and refused, as serde_json does it.
    fn check_text(text: &str) {
        let (got, expect) = (Json::parse(text), serde_json::from_str::<Value>(text));
        assert_eq!(got.clone().ok().map(value_of), expect.as_ref().ok().cloned(), "{text}: {got:?}, {expect:?}");
        if let (Ok(_), Ok(value)) = (&got, &expect) {
            assert_eq!(serde_json::from_str::<Value>(&compact(text)).unwrap(), *value, "{text}");
        }
    }

    #[test]
    fn the_last_of_a_keys_values_counts() {
        let mut twice = Json::parse(r#"{"a": 1, "a": 2}"#).unwrap();
        assert_eq!(twice.get("a"), Some(&Json::Count(2)));
        twice.set("b", Json::Null);
        assert_eq!((twice.remove("b"), twice.remove("b")), (Some(Json::Null), None));
    }

    #[test]
    fn texts_are_read_as_serde_json_reads_them() {
        let texts = [
            r#"{"a": [null, true, 1, -2, 1.5, "\u00e9 \"", {}], "b": {"c": 18446744073709551615}}"#,
            "",
            " ",
            "null",
            " true\t",
            "false\n",
            "nul",
            "nulll",
            "True",
            "1 2",
            "[1,]",
            "[,1]",
            "[1 2]",
            "[",
            "]",
            "{",
            "}",
            "{}",
            "[ ]",
            "{ }",
            r#"{"a"}"#,
            r#"{"a":}"#,
            r#"{"a":1,}"#,
            r#"{"a" : 1 , "b":[ ] }"#,
            r#"{a: 1}"#,
            "{1: 1}",
            "[1}",
            "0",
            "-0",
            "-0.0",
            "-",
            "+1",
            "01",
            "-01",
            "1.",
            ".5",
            "1.5e",
            "1e+",
            "1e+3",
            "1E-3",
            "1e5.0",
            "1.2.3",
            "1-2",
            "18446744073709551615",
            "18446744073709551616",
            "-9223372036854775808",
            "-9223372036854775809",
            "1e400",
            "-1e400",
            "1e-400",
            "0e400",
            "NaN",
            "Infinity",
            "\"",
            r#""a"#,
            r#""\"#,
            r#""\""#,
            r#""\\""#,
            r#""\/\b\f\n\r\t""#,
            r#""\x""#,
            r#""\u12""#,
            r#""\u12G4""#,
            r#""\u+123""#,
            r#""\ud83d\ude00""#,
            r#""\ud83d""#,
            r#""\ud83dx""#,
            r#""\ud83d\n""#,
            r#""\ude00""#,
            r#""\ud83d\u0041""#,
            "\"a\nb\"",
            "\"\u{1f}\"",
            "\"\u{7f}é😀\"",
            "\u{feff}1",
            "\u{a0}1",
            "/**/1",
            "'a'",
            "[\"a\u{e9}\\u00e9\",\"\"]",
        ];
        texts.into_iter().for_each(check_text);
        for depth in [126, 127, 128, 129] {
            check_text(&format!("{}{}", "[".repeat(depth), "]".repeat(depth)));
            check_text(&format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth)));
        }
        check_text(include_str!("../tests/golden/run.v1.json"));
        check_text(include_str!("../tests/golden/run.v2.json"));
    }

    #[test]
    fn an_error_says_its_line_and_column() {
        let why = |text: &str| Json::parse(text).unwrap_err();
        assert_eq!(why("{\n  \"é\": 1,\n  ]"), "a key in quotes is missing, at line 3 column 3");
        assert_eq!(why("[1"), "the text ends early, at line 1 column 3");
        assert_eq!(why("1 1"), "there is more after its end, at line 1 column 3");
        assert_eq!(why("{\"a\": 1e999}"), "a number is out of range, at line 1 column 12");
    }

    #[test]
    fn members_are_the_texts_of_an_object() {
        let all = members(r#" {"a" : [1, {"b": 2}] , "\u0062": "x" } "#).unwrap();
        assert_eq!(all, [("a".into(), r#"[1, {"b": 2}]"#), ("b".into(), r#""x""#)]);
        assert_eq!(members("{}").unwrap(), []);
        for bad in ["[]", "{\"a\": }", "{\"a\": 1", "{} 1"] {
            assert!(members(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_quoted_and_read(text in ".*") {
            let quoted = quoted(&text);
            assert_eq!(serde_json::from_str::<String>(&quoted).unwrap(), text);
            check_text(&quoted);
        }

        #[test]
        fn almost_json_is_read_as_serde_json_reads_it(text in r#"([\[\]{},: ]|"[a\\ué]{0,3}"|[0-9]|-|\.|e|null|true){0,12}"#) {
            check_text(&text);
        }

        #[test]
        fn a_broken_record_is_read_as_serde_json_reads_it(at in 0..3000usize, with in "[\\[\\]{},:\"\\\\0-9e.\\-]{0,2}") {
            let golden = include_str!("../tests/golden/run.v2.json");
            let mut text: String = golden.chars().take(3000).collect();
            let at = text.char_indices().map(|(i, _)| i).nth(at).unwrap_or(0);
            text.insert_str(at, &with);
            check_text(&text);
            let whole = format!("{}{}{}", &golden[..at], with, &golden[at..]);
            check_text(&whole);
        }
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
        let said = at("/sources", serde_json::json!({ "é".repeat(500): 1 }));
        assert!(said.ends_with(&format!("at `sources.{}`", "é".repeat(MAX_KEY))), "{said}");
        assert!(read::<Vec<Problem>>(r#"[{"id": 1}]"#).unwrap_err().ends_with("at `[0].id`"));
    }
}
