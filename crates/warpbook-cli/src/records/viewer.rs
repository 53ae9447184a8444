//! The viewer, a single HTML file: finding it, and embedding records in it.

use super::read::Record;
use crate::failure::Failure;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use warpbook::device::read_file;

/// The compressed viewer that the program was built with.
#[cfg(viewer_inside)]
const INSIDE: Option<&[u8]> = Some(include_bytes!("../../viewer/warpbook.html.gz"));
#[cfg(not(viewer_inside))]
const INSIDE: Option<&[u8]> = None;

/// The size limit of a viewer in bytes.
const LARGEST: u64 = 64 << 20;
/// The element of the viewer's page that contains the records.
const EMBEDDED: &str = "<script type=\"application/json\" id=\"warpbook-embedded\">";
const SCRIPT: (&str, &str) = ("<script>", "</script>");
const STYLE: (&str, &str) = ("<style>", "</style>");
/// Text before and after the page's security policy.
const POLICY: (&str, &str) = ("<meta http-equiv=\"Content-Security-Policy\" content=\"", "\"");
/// Error message if there is no viewer.
pub const NOT_BUILT: &str = "The viewer is not built: `cargo xtask web` builds it, and the program has it inside once it is \
    built again. Or name the viewer's file in WARPBOOK_VIEWER.";

/// Where the viewer comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Viewer {
    /// A file on disk.
    File(PathBuf),
    /// The viewer inside the program.
    Inside,
}

impl Viewer {
    /// Finds the viewer: the file named by `WARPBOOK_VIEWER`, otherwise the viewer inside the program, otherwise
    /// `web/dist/warpbook.html` in a folder above the working directory or the program. An empty `WARPBOOK_VIEWER`
    /// disables the viewer.
    pub fn find() -> Option<Self> {
        if let Some(named) = std::env::var_os("WARPBOOK_VIEWER") {
            return (!named.is_empty()).then(|| Self::File(named.into()));
        }
        if INSIDE.is_some() {
            return Some(Self::Inside);
        }
        let from = [std::env::current_dir(), std::env::current_exe()];
        let above = from.iter().flatten().flat_map(|p| p.ancestors());
        above.map(|a| a.join("web/dist/warpbook.html")).find(|p| p.is_file()).map(Self::File)
    }

    /// Returns the path of the viewer, if it is a file.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            Self::Inside => None,
        }
    }

    /// Returns the viewer's text.
    pub fn text(&self) -> Result<String, Failure> {
        let unreadable = |e: std::io::Error| Failure::usage(format!("The viewer {self} cannot be read: {e}."));
        match self {
            Self::File(path) => {
                let bytes = read_file(path, LARGEST).map_err(unreadable)?;
                String::from_utf8(bytes).map_err(|_| self.is_none())
            }
            Self::Inside => {
                let mut text = String::new();
                let mut file = flate2::read::GzDecoder::new(INSIDE.unwrap_or_default());
                file.read_to_string(&mut text).map_err(unreadable)?;
                Ok(text)
            }
        }
    }

    /// Returns the viewer with these records instead of the records in it.
    pub fn with(&self, records: &[Record]) -> Result<String, Failure> {
        embed(&self.text()?, &content(records)).ok_or_else(|| self.is_none())
    }

    /// Returns the viewer with these records as a file to share: its policy allows its script and style by their
    /// hashes, and no connections.
    pub fn sealed(&self, records: &[Record]) -> Result<String, Failure> {
        sealed(&self.with(records)?).ok_or_else(|| self.is_none())
    }

    /// Returns the viewer without records, which polls its server for them.
    pub fn live(&self) -> Result<String, Failure> {
        let content = json!({ "live": true, "index": { "records": [] }, "records": {} });
        embed(&self.text()?, &content).ok_or_else(|| self.is_none())
    }

    fn is_none(&self) -> Failure {
        Failure::usage(format!("{self} is not a viewer of Warpbook. `cargo xtask web` builds it anew."))
    }
}

impl fmt::Display for Viewer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Inside => f.write_str("inside the program"),
        }
    }
}

/// Returns the element's content: the index, and each record by name.
fn content(records: &[Record]) -> Value {
    let index: Vec<Value> = records.iter().map(Record::entry).collect();
    let texts: Map<String, Value> =
        records.iter().filter_map(|r| Some((r.name.clone(), serde_json::to_value(&r.run).ok()?))).collect();
    json!({ "index": { "records": index }, "records": texts })
}

/// Returns the viewer with this content in its element; `None` if the element is missing.
fn embed(viewer: &str, content: &Value) -> Option<String> {
    let (before, rest) = viewer.split_once(EMBEDDED)?;
    let after = &rest[rest.find("</script>")?..];
    // JSON contains `<` only in strings; escaping it prevents records from ending their HTML element.
    Some(format!("{before}{EMBEDDED}{}{after}", content.to_string().replace('<', "\\u003c")))
}

/// Returns the page with a policy for its one script and its one style; `None` if the policy, the script or the style
/// is missing.
fn sealed(page: &str) -> Option<String> {
    let hash = |of| Some(format!("'sha256-{}'", STANDARD.encode(Sha256::digest(between(page, of)?))));
    // Charts set their maximum width in a style attribute, which hashes do not cover.
    let policy = format!(
        "default-src 'none'; script-src 'wasm-unsafe-eval' {}; style-src {}; style-src-attr 'unsafe-inline'; img-src data:; \
         connect-src 'none'; base-uri 'none'; form-action 'none'",
        hash(SCRIPT)?,
        hash(STYLE)?
    );
    let (before, rest) = page.split_once(POLICY.0)?;
    let after = &rest[rest.find(POLICY.1)?..];
    Some(format!("{before}{}{policy}{after}", POLICY.0))
}

/// Returns the text between the first `begin` and the next `end`.
fn between<'a>(text: &'a str, (begin, end): (&str, &str)) -> Option<&'a str> {
    let (_, rest) = text.split_once(begin)?;
    Some(rest.split_once(end)?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_without_the_element_is_no_viewer() {
        let nothing = content(&[]);
        assert!(embed("<html></html>", &nothing).is_none());
        assert!(embed(&format!("<html>{EMBEDDED}{{}}"), &nothing).is_none());
        let page = embed(&format!("a{EMBEDDED}old</script>b</script>"), &nothing).unwrap();
        assert_eq!(page, format!("a{EMBEDDED}{{\"index\":{{\"records\":[]}},\"records\":{{}}}}</script>b</script>"));
    }

    #[test]
    fn a_sealed_page_permits_its_own_script_and_no_connection() {
        let page = |policy: &str| format!("<head>{}{policy}\"><style>b{{}}</style><script>alert(1)</script>", POLICY.0);
        let new = sealed(&page("script-src * 'unsafe-inline'; connect-src *")).unwrap();
        let policy = between(&new, POLICY).unwrap();
        // The hash is the output of `printf %s 'alert(1)' | openssl dgst -sha256 -binary | base64`.
        assert!(
            policy.contains("'wasm-unsafe-eval' 'sha256-bhHHL3z2vDgxUt0W3dWQOrprscmda2Y5pLsLg4GF+pI=';"),
            "{policy}"
        );
        assert!(policy.contains("connect-src 'none'") && !policy.contains('*'), "{policy}");
        assert_eq!(new, page(policy), "nothing else changes");
        for lacks in ["<style>", "<script>", "http-equiv"] {
            assert!(sealed(&page("x").replace(lacks, "")).is_none(), "{lacks}");
        }
    }

    /// Checks the embedded viewer, if the build has one.
    #[test]
    fn the_viewer_inside_can_be_read() {
        if INSIDE.is_some() {
            let text = Viewer::Inside.text().unwrap();
            assert!(embed(&text, &content(&[])).is_some_and(|t| sealed(&t).is_some()));
        }
    }
}
