//! The command `warpbook share`.

use super::read::{files, read_all};
use super::viewer::{NOT_BUILT, Viewer};
use crate::args::ShareArgs;
use crate::failure::{Failure, USAGE};
use crate::files::{Files, Kind, reserve};
use crate::output::say;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use warpbook::device::write_atomic;
use warpbook::figures;

/// Writes one HTML file that contains the viewer and the records.
pub fn share(args: &ShareArgs) -> Result<ExitCode, Failure> {
    let viewer = Viewer::find().ok_or_else(|| Failure::usage(NOT_BUILT))?;
    let mut known = Files::reading("the record", files(&args.files)?);
    viewer.file().into_iter().for_each(|file| known.reads("the viewer", file));
    let named = known.optional("--out", args.out.as_deref(), Kind::Page)?;
    let (records, refused) = read_all(&args.files)?;
    if records.is_empty() {
        return Ok(ExitCode::from(USAGE));
    }
    let page = viewer.sealed(&records)?;
    let path = match named {
        Some(path) => path,
        None => reserve(Path::new(""), &name(&args.files), ["html"]).map(|[path]| path)?,
    };
    write_atomic(&path, page.as_bytes())
        .map_err(|e| Failure::usage(format!("{} cannot be written: {e}. Choose another --out.", path.display())))?;
    let count = match records.len() {
        1 => "1 record".to_owned(),
        n => format!("{n} records"),
    };
    let size = figures::bytes(page.len() as u64);
    say(&format!("{}\n{count} and the viewer, {size}: any browser opens it, also from disk.", path.display()));
    // The page has all readable records; unreadable ones are still an error.
    Ok(if refused > 0 { ExitCode::from(USAGE) } else { ExitCode::SUCCESS })
}

/// Returns the page's name without its extension, which is the name of the record or of the folder, even if the folder
/// is given as `.` or `..`.
fn name(named: &[PathBuf]) -> String {
    let [one] = named else { return "records".into() };
    let whole = if one.is_dir() { one.canonicalize().unwrap_or_default() } else { one.clone() };
    let name = whole.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let name = if one.is_dir() { &*name } else { name.strip_suffix(".json").unwrap_or(&name) };
    // A leading dot would hide the file.
    let name = name.trim_start_matches('.');
    if name.is_empty() { "records".into() } else { name.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_the_name_of_what_is_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let class = folder.path().join("v1.2");
        std::fs::create_dir_all(class.join("sub")).unwrap();
        let name_of = |path: PathBuf| name(&[path]);
        assert_eq!(name_of(class.clone()), "v1.2");
        assert_eq!(name_of(class.join("sub/..")), "v1.2");
        assert_eq!(name_of(class.join(".")), "v1.2");
        assert_eq!(name_of("/".into()), "records");
        assert_eq!(name_of("a/one.two.json".into()), "one.two");
        assert_eq!(name_of(".hidden.json".into()), "hidden");
        assert_eq!(name(&["a.json".into(), "b.json".into()]), "records");
    }
}
