//! `warpbook share`.

use crate::args::ShareArgs;
use crate::failure::{Failure, USAGE};
use crate::output::say;
use crate::save::{check_writable, free_name};
use crate::shelf::read_all;
use crate::viewer::{NOT_BUILT, Viewer};
use std::process::ExitCode;
use warpbook::device::write_atomic;
use warpbook::figures;

/// Writes one HTML file with the viewer and the records in it.
pub fn share(args: &ShareArgs) -> Result<ExitCode, Failure> {
    let viewer = Viewer::find().ok_or_else(|| Failure::usage(NOT_BUILT))?;
    let path = args.out.clone().unwrap_or_else(|| match &*args.files {
        [one] => free_name(one.file_stem().unwrap_or_default(), "html"),
        _ => free_name("records".as_ref(), "html"),
    });
    let path = check_writable(&path)?;
    let (records, refused) = read_all(&args.files)?;
    if records.is_empty() {
        return Ok(ExitCode::from(USAGE));
    }
    let page = viewer.sealed(&records)?;
    write_atomic(&path, page.as_bytes())
        .map_err(|e| Failure::usage(format!("{} cannot be written: {e}. Choose another --out.", path.display())))?;
    let count = match records.len() {
        1 => "1 record".to_owned(),
        n => format!("{n} records"),
    };
    let size = figures::bytes(page.len() as u64);
    say(&format!("{}\n{count} and the viewer, {size}: any browser opens it, also from disk.", path.display()));
    // What could be read is in it; what could not is still an error.
    Ok(if refused > 0 { ExitCode::from(USAGE) } else { ExitCode::SUCCESS })
}
