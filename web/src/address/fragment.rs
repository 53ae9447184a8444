//! Records in the fragment of the page's address, which browsers send to no server: `#record=DATA&name=FILE`, with the data compressed (raw DEFLATE) and in
//! base64 for addresses.

use super::percent::{decode, encode};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// The longest link that the page makes, in characters; browsers accept somewhat longer ones.
pub const MAX_LINK: usize = 128_000;
/// The longest fragment that the page reads, in characters.
const MAX_READ: usize = 2_000_000;
/// Links longer than this, in characters, come with a warning: mail and chat programs may cut them.
const LONG: usize = 8_000;

/// A record carried in a link's fragment.
#[derive(Debug, PartialEq, Eq)]
pub struct Carried {
    /// The record's file name.
    pub name: String,
    /// The record's compressed text.
    pub packed: Vec<u8>,
}

/// Reads a fragment, with or without its `#`; returns `None` if it carries no record.
///
/// # Errors
/// Returns an error, a sentence for the page's reader, if the fragment carries a record that cannot be decoded.
pub fn parse(fragment: &str) -> Option<Result<Carried, String>> {
    let pairs = || fragment.trim_start_matches('#').split('&').filter_map(|pair| pair.split_once('='));
    let (_, data) = pairs().find(|(name, _)| *name == "record")?;
    if data.len() > MAX_READ {
        return Some(Err(format!("It has {} characters; this page reads at most {MAX_READ}.", data.len())));
    }
    let name = pairs().find(|(name, _)| *name == "name").map(|(_, value)| decode(value)).unwrap_or_default();
    let name: String = name.chars().filter(|c| !c.is_control()).take(100).collect();
    let name = if name.trim().is_empty() { "a link".to_owned() } else { name };
    Some(match URL_SAFE_NO_PAD.decode(data) {
        Ok(packed) => Ok(Carried { name, packed }),
        Err(_) => Err("The record in the link is damaged or cut off.".into()),
    })
}

/// Removes the white space between the values of a JSON text.
pub fn compact(text: &str) -> String {
    let (mut is_text, mut is_escaped) = (false, false);
    let keep = |c: &char| {
        is_text ^= *c == '"' && !is_escaped;
        is_escaped = is_text && *c == '\\' && !is_escaped;
        is_text || !matches!(c, ' ' | '\n' | '\t' | '\r')
    };
    text.chars().filter(keep).collect()
}

/// Returns the page's address with a record in it, and a warning if the link is long.
///
/// # Errors
/// Returns an error, a sentence for the page's reader, if the record is too large.
pub fn link(page: &str, name: &str, packed: &[u8]) -> Result<(String, &'static str), String> {
    let link = format!("{page}#record={}&name={}", URL_SAFE_NO_PAD.encode(packed), encode(name));
    match link.len() {
        n if n > MAX_LINK => Err(too_large(&format!("it would have {n} characters, of at most {MAX_LINK}"))),
        n if n > LONG => {
            Ok((link, " Programs for mail and chat may cut a link as long as this; a file is safer then."))
        }
        _ => Ok((link, "")),
    }
}

/// Returns the sentence about a record that is too large for a link.
pub fn too_large(why: &str) -> String {
    format!(
        "The record is too large for a link: {why}. Share it as a file: `warpbook share` makes one of it with the viewer inside."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_between_values_go() {
        let text = "{ \"a b\" : [ 1,\n\t\"\\\" c\\\\\" ] , \"d\": \" \" }";
        assert_eq!(compact(text), "{\"a b\":[1,\"\\\" c\\\\\"],\"d\":\" \"}");
        let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(value(&compact(text)), value(text));
    }

    #[test]
    fn a_record_survives_its_link() {
        let packed: Vec<u8> = (0..=255).collect();
        let (text, said) = link("https://example.org/?tab=table", "a b&c.json", &packed).unwrap();
        assert!(text.starts_with("https://example.org/?tab=table#record=AAECAw") && said.is_empty());
        let (_, fragment) = text.split_once('#').unwrap();
        let expect = Carried { name: "a b&c.json".into(), packed };
        assert_eq!(parse(&format!("#{fragment}")), Some(Ok(expect)));
    }

    #[test]
    fn what_carries_no_record_is_passed_over_and_what_is_broken_is_said() {
        for none in ["", "#", "#main", "#tab=table", "#records=a"] {
            assert_eq!(parse(none), None, "{none}");
        }
        for bad in ["#record=%", "#record=a", "#record=AA==", "#record=a b"] {
            assert!(parse(bad).unwrap().unwrap_err().contains("damaged"), "{bad}");
        }
        assert_eq!(parse("#record=").unwrap().unwrap().packed, b"");
        assert_eq!(parse("#record=AA&name=%00+").unwrap().unwrap().name, "a link");
        let long = format!("#record={}", "A".repeat(MAX_READ + 1));
        assert!(parse(&long).unwrap().unwrap_err().contains("at most"));
    }

    #[test]
    fn a_link_has_a_greatest_length() {
        let linked = |bytes: usize| link("https://example.org/", "a.json", &vec![1; bytes]);
        assert!(linked(100).unwrap().1.is_empty());
        assert!(linked(20_000).unwrap().1.contains("a file is safer"));
        assert!(linked(100_000).unwrap_err().contains("`warpbook share`"));
    }
}
