//! Sources of records: the index, embedded records of a page from disk, and addresses in a link.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use warpbook_record::json;

/// A record of the index.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct IndexEntry {
    /// The record's file in `data/`.
    pub file: String,
    /// The experiment's name.
    #[serde(default)]
    pub experiment: String,
    /// One line that says what the experiment computes.
    #[serde(default)]
    pub computes: String,
    /// The record's title.
    #[serde(default)]
    pub title: String,
    /// The device's name.
    #[serde(default)]
    pub device: String,
    /// The record's headline: one sentence or more.
    #[serde(default)]
    pub headline: String,
    /// Cells of the record's row in a table.
    #[serde(default)]
    pub cells: Vec<String>,
    /// The ladder of the main problem as heights from 0 to 1.
    #[serde(default)]
    pub ladder: Vec<f64>,
    /// The time when the run started: RFC 3339, UTC.
    #[serde(default)]
    pub created: String,
    /// The start time in indexes of earlier versions.
    #[serde(default)]
    date: String,
    /// The author of the record.
    #[serde(default)]
    pub author: Option<String>,
    /// The published record shown next to this one.
    #[serde(default)]
    pub beside: Option<Beside>,
    /// `true` if the record belongs to the project.
    #[serde(default)]
    pub published: bool,
    /// A tag that changes with the content, from a server whose records may change.
    #[serde(default, rename = "mark")]
    pub etag: String,
}

/// A published record of the same experiment, to compare a reader's record with.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Beside {
    /// The published record's file.
    pub file: String,
    /// The comparison of both records in one sentence.
    pub verdict: String,
}

/// The index of the page's records.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
pub struct Index {
    /// One entry for each record.
    pub records: Vec<IndexEntry>,
}

impl Index {
    /// Reads `index.json`.
    ///
    /// # Errors
    /// Returns an error, a sentence for the page's reader, if the text is not an index.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut index = Self::read(text.trim_start_matches('\u{feff}'))
            .map_err(|e| format!("The page's index of records (data/index.json) cannot be read: {e}."))?;
        index.records.retain(|r| is_plain_name(&r.file));
        Ok(index)
    }

    /// Returns `true` if the records come from several people.
    pub fn has_several_authors(&self) -> bool {
        let mut authors = self.records.iter().filter_map(|r| r.author.as_deref()).filter(|a| !a.trim().is_empty());
        let first = authors.next();
        authors.any(|a| Some(a) != first)
    }

    fn read(text: &str) -> Result<Self, String> {
        json::read(text).map(Self::dated).map_err(|e| e.to_string())
    }

    /// Fills in the dates of earlier versions' indexes.
    fn dated(mut self) -> Self {
        for r in self.records.iter_mut().filter(|r| r.created.is_empty()) {
            r.created = std::mem::take(&mut r.date);
        }
        self
    }
}

/// Records embedded in a page that is opened from disk: the index, and each record's JSON text by file.
#[derive(Debug, Default)]
pub struct Embedded {
    /// The index of the records.
    pub index: Index,
    /// The records' JSON texts by file.
    pub records: BTreeMap<String, String>,
    /// `true` if the records are not embedded but come from the page's own server, where they may change.
    pub live: bool,
}

impl Embedded {
    /// Reads the content of the page's `warpbook-embedded` element.
    ///
    /// # Errors
    /// Returns an error, a sentence for the page's reader, if the content is not valid.
    pub fn parse(text: &str) -> Result<Self, String> {
        Self::read(text).map_err(|e| format!("The records inside this page cannot be read: {e}."))
    }

    fn read(text: &str) -> Result<Self, String> {
        /// Each record stays text until it is opened.
        #[derive(Deserialize)]
        struct Content<'a> {
            index: Option<Index>,
            #[serde(borrow)]
            records: Option<BTreeMap<String, &'a RawValue>>,
            #[serde(default)]
            live: bool,
        }
        let Content { index, records, live } = serde_json::from_str(text).map_err(|e| e.to_string())?;
        let (Some(index), Some(records)) = (index, records) else { return Err("it has no index or no records".into()) };
        let records = records.into_iter().map(|(file, record)| (file, record.get().to_owned())).collect();
        Ok(Self { index: index.dated(), records, live })
    }
}

/// The maximum number of records opened from a folder's index.
pub const MAX_FOLDER: usize = 200;

/// Returns the addresses of a folder's records if the bytes at an address are the folder's index (`index.json`) and not
/// a record.
pub fn folder(address: &str, bytes: &[u8]) -> Option<Vec<String>> {
    let text = std::str::from_utf8(bytes).ok()?;
    // These fields distinguish an index from a record.
    #[derive(Deserialize)]
    struct Kind {
        schema: Option<IgnoredAny>,
        records: Option<IgnoredAny>,
    }
    let kind: Kind = serde_json::from_str(text.trim_start_matches('\u{feff}')).ok()?;
    if kind.schema.is_some() || kind.records.is_none() {
        return None;
    }
    let index = Index::parse(text).ok()?;
    let path = address.split(['?', '#']).next().unwrap_or(address);
    let base = path.rfind('/').map_or("", |end| &path[..=end]);
    let files = index.records.iter().take(MAX_FOLDER);
    Some(files.map(|r| format!("{base}{}", crate::address::percent::encode_path(&r.file))).collect())
}

/// Returns the address to fetch, which for a folder is the address of its index.
pub fn fetched(address: &str) -> String {
    let path = address.split(['?', '#']).next().unwrap_or(address);
    if path.ends_with('/') { format!("{path}index.json") } else { address.to_owned() }
}

/// Returns `true` if a name is a file name without a folder.
fn is_plain_name(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\\', ':', '\0'])
}

/// Checks that the page may open an address from a link: http, https, or relative to the page.
///
/// # Errors
/// Returns an error, a sentence for the page's reader, if the page may not open the address.
pub fn check_address(address: &str) -> Result<&str, String> {
    let address = address.trim();
    if address.is_empty() {
        return Err("The link names no address after src=.".into());
    }
    // Browsers drop line breaks and tabs in addresses, which could hide a scheme.
    if address.chars().any(char::is_control) {
        return Err("The link's address has control characters in it; it was not opened.".into());
    }
    let scheme = address.split_once(':').map(|(before, _)| before).filter(|s| is_scheme(s));
    match scheme {
        Some(s) if s.eq_ignore_ascii_case("http") || s.eq_ignore_ascii_case("https") => Ok(address),
        Some(s) => Err(format!(
            "The link's address begins with \"{}:\"; only http:, https: and addresses relative to this page are opened.",
            s.chars().take(20).collect::<String>()
        )),
        None => Ok(address),
    }
}

/// Returns the host of an address that is not on the site `origin`, such as `https://example.org`; `None` on the same
/// site.
pub fn foreign_host(address: &str, origin: &str) -> Option<String> {
    let address = address.trim();
    let lower = address.to_ascii_lowercase().replace('\\', "/");
    let rest = match lower.strip_prefix("https:").or_else(|| lower.strip_prefix("http:")) {
        // Browsers accept any number of slashes after the scheme.
        Some(rest) => rest.trim_start_matches('/'),
        None => lower.strip_prefix("//")?,
    };
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    // The part before an @ is a user name, even if it looks like a host.
    let host = host.rsplit('@').next().unwrap_or(host);
    let scheme = if lower.starts_with("http:") { "http" } else { "https" };
    let own = origin.to_ascii_lowercase();
    let same =
        if lower.starts_with('/') { own.ends_with(&format!("://{host}")) } else { own == format!("{scheme}://{host}") };
    (!same).then(|| host.to_owned())
}

/// Returns `true` if the text before a colon is a scheme (RFC 3986, 3.1) and not part of a path.
fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
}

/// Returns the last part of an address, which names a record.
pub fn file_name(address: &str) -> &str {
    let path = address.split(['?', '#']).next().unwrap_or(address).trim_end_matches('/');
    path.rsplit('/').next().filter(|n| !n.is_empty()).unwrap_or(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_web_addresses_are_opened() {
        fn check(address: &str, expect: bool) {
            assert_eq!(check_address(address).is_ok(), expect, "{address:?}");
        }
        check("https://example.org/run.json", true);
        check("HTTP://example.org/run.json", true);
        check("data/run.json", true);
        check("../run.json?a=b:c", true);
        check("//example.org/run.json", true);
        check("./a:b.json", true);
        check("javascript:alert(1)", false);
        check(" JavaScript:alert(1)", false);
        check("java\nscript:alert(1)", false);
        check("data:application/json,{}", false);
        check("blob:https://example.org/1", false);
        check("file:///etc/passwd", false);
        check("ftp://example.org/run.json", false);
        check("", false);
        check("  ", false);
    }

    #[test]
    fn an_index_names_only_files_of_its_folder() {
        let index = Index::parse(
            r#"{"records":[{"file":"a.json","title":"A","date":"2026-11-21T07:00:00Z","future":1},{"file":"../b.json"},{"file":"https://x/c.json"},{"file":""}]}"#,
        )
        .unwrap();
        assert_eq!(index.records.iter().map(|r| r.file.as_str()).collect::<Vec<_>>(), ["a.json"]);
        assert_eq!(index.records[0].created, "2026-11-21T07:00:00Z");
        assert!(Index::parse("[]").is_err());
        assert!(Index::parse("{\"records\":").is_err());
    }

    #[test]
    fn an_embedded_page_has_its_records() {
        let page =
            Embedded::parse(r#"{"index":{"records":[{"file":"a.json"}]},"records":{"a.json":{"schema":1}}}"#).unwrap();
        assert_eq!(page.index.records.len(), 1);
        assert_eq!(page.records["a.json"], "{\"schema\":1}");
        assert!(Embedded::parse("").is_err());
    }

    #[test]
    fn a_folder_s_index_is_its_records() {
        let index = br#"{"records":[{"file":"a b.json"},{"file":"../x.json"},{"file":"c#?.json"}]}"#;
        let files = |address: &str| folder(address, index).unwrap();
        assert_eq!(files("class/index.json?x=/"), ["class/a%20b.json", "class/c%23%3F.json"]);
        assert_eq!(
            files("https://example.org/"),
            ["https://example.org/a%20b.json", "https://example.org/c%23%3F.json"]
        );
        assert_eq!(files("index.json"), ["a%20b.json", "c%23%3F.json"]);
        for other in ["[]", "{", r#"{"schema":2,"records":[]}"#, "{}", "\u{0}"] {
            assert_eq!(folder("a/", other.as_bytes()), None, "{other}");
        }
        assert_eq!(folder("a/", crate::testing::sample().to_string().as_bytes()), None);
        let many: Vec<String> = (0..500).map(|i| format!(r#"{{"file":"{i}"}}"#)).collect();
        let many = format!(r#"{{"records":[{}]}}"#, many.join(","));
        assert_eq!(folder("a/", many.as_bytes()).unwrap().len(), MAX_FOLDER);
        assert_eq!([fetched("class/"), fetched("a.json?b=/")], ["class/index.json", "a.json?b=/"]);
    }

    #[test]
    fn records_are_named_by_the_last_part_of_their_address() {
        assert_eq!(file_name("https://example.org/a/run.json?x=/y#z"), "run.json");
        assert_eq!(file_name("https://example.org/"), "example.org");
        assert_eq!(file_name("run.json"), "run.json");
        assert_eq!(file_name("?"), "?");
    }

    #[test]
    fn another_site_is_told_from_the_own() {
        let host = |address: &str| foreign_host(address, "https://lab.example.org");
        for own in [
            "data/a.json",
            "/a.json",
            "https://lab.example.org/a.json",
            "HTTPS://Lab.Example.org",
            "//lab.example.org/x",
            "?a=//b",
        ] {
            assert_eq!(host(own), None, "{own}");
        }
        let check = |address: &str, expect: &str| assert_eq!(host(address).as_deref(), Some(expect), "{address}");
        check("https://example.com/a.json", "example.com");
        check("http://lab.example.org/a.json", "lab.example.org");
        check("//example.com/a.json", "example.com");
        check("\\\\example.com/a.json", "example.com");
        check("https:/evil.example/a", "evil.example");
        check("https:evil.example/a", "evil.example");
        check("https:///evil.example/a", "evil.example");
        check("https://lab.example.org:8443/", "lab.example.org:8443");
        check("https://lab.example.org@evil.example/a", "evil.example");
        check("https://lab.example.org.evil.example", "lab.example.org.evil.example");
        assert_eq!(foreign_host("http://a/b", "null").as_deref(), Some("a"), "a page from disk has no site");
    }
}
