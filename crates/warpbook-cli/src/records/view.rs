//! The command `warpbook view`.

use super::live::{Live, announce};
use super::read::{Record, files, read_all};
use super::viewer::{NOT_BUILT, Viewer};
use crate::args::ViewArgs;
use crate::failure::{Failure, USAGE};
use crate::files::{Files, Kind};
use crate::output::{say, warn};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, SystemTime};
use warpbook::charts::{Quantity, draw};
use warpbook::device::write_atomic;
use warpbook::{Panel, Show};

/// The file name of the page that a browser opens.
const PAGE: &str = "warpbook.html";
/// The beginning of the page's folder name among the temporary files.
const PAGE_FOLDER: &str = "warpbook-view-";
/// The age at which a page is removed by a later call; until then a browser may reload it.
const PAGE_LASTS: Duration = Duration::from_secs(24 * 3600);

/// Opens records in a browser, or prints them.
pub fn view(args: &ViewArgs) -> Result<ExitCode, Failure> {
    if args.live {
        return live(args);
    }
    if let Some(path) = &args.html {
        let mut known = Files::reading("the record", files(&args.files)?);
        Viewer::find().iter().filter_map(Viewer::file).for_each(|file| known.reads("the viewer", file));
        known.output("--html", path, Kind::Page)?;
    }
    let (records, refused) = read_all(&args.files)?;
    if records.is_empty() && !args.files.is_empty() {
        return Ok(ExitCode::from(USAGE));
    }
    if args.text {
        say(&records.iter().map(|r| format!("{}\n{}", r.name, r.run.text())).collect::<Vec<_>>().join("\n\n\n"));
    } else if let Some(path) = &args.html {
        write(path, &report(&records))?;
        say(&path.display().to_string());
    } else {
        let page = page(&records)?;
        say(&page.display().to_string());
        if !args.no_open && !open(page.as_os_str()) {
            warn("No browser could be started here: open that file in one.");
        }
    }
    // The readable records were shown; unreadable ones are still an error.
    Ok(if refused > 0 { ExitCode::from(USAGE) } else { ExitCode::SUCCESS })
}

/// Serves the records until the program ends.
fn live(args: &ViewArgs) -> Result<ExitCode, Failure> {
    let viewer = Viewer::find().ok_or_else(|| Failure::usage(NOT_BUILT))?;
    let live = Live::new(viewer.live()?, &args.files, args.port)?;
    announce(&live);
    if !args.no_open && !open(live.url().as_ref()) {
        warn("No browser could be started here: open that address in one.");
    }
    live.serve()?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the page to open: the viewer with these records, the empty viewer, or the report.
fn page(records: &[Record]) -> Result<PathBuf, Failure> {
    let text = match (Viewer::find(), records) {
        (None, []) => {
            return Err(Failure::usage(format!("{NOT_BUILT} Or name records, as in `warpbook view regression.json`.")));
        }
        (Some(Viewer::File(path)), []) => return Ok(path),
        (Some(viewer), []) => viewer.text()?,
        (Some(viewer), _) => viewer.with(records)?,
        (None, _) => {
            warn(&format!("A simpler page takes the viewer's place. {NOT_BUILT}"));
            report(records)
        }
    };
    remove_old_pages();
    let stamp = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |d| d.as_nanos());
    let folder = std::env::temp_dir().join(format!("{PAGE_FOLDER}{}-{stamp}", std::process::id()));
    // `create_dir_all` would accept an existing folder, which may belong to another user.
    std::fs::create_dir(&folder).map_err(|e| {
        Failure::usage(format!("{} cannot be made: {e}. Name another folder in TMPDIR.", folder.display()))
    })?;
    let path = folder.join(PAGE);
    write(&path, &text)?;
    Ok(path)
}

/// Removes pages of earlier calls. Other users' folders cannot be removed, and neither can folders with other files.
fn remove_old_pages() {
    for entry in std::fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
        let age = entry.metadata().and_then(|m| m.modified()).ok().and_then(|at| at.elapsed().ok());
        let is_page = entry.file_name().to_string_lossy().starts_with(PAGE_FOLDER);
        if is_page && age.is_some_and(|age| age > PAGE_LASTS) {
            let _ = std::fs::remove_file(entry.path().join(PAGE));
            let _ = std::fs::remove_dir(entry.path());
        }
    }
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    write_atomic(path, text.as_bytes())
        .map_err(|e| Failure::usage(format!("{} cannot be written: {e}. Choose another place.", path.display())))
}

/// Returns a self-contained page with the records' charts and tables.
fn report(records: &[Record]) -> String {
    let mut panel = Panel::column([]);
    for Record { name, run } in records {
        panel = panel.and(&name.as_str()).and(run);
        let Some(problem) = run.main_problem() else { continue };
        let bandwidth = run.descriptor.quantities.contains(&Quantity::Bandwidth) && !run.measurements.is_empty();
        // A record may lack data for a chart that it names.
        let charts = run.descriptor.charts.iter().filter_map(|kind| draw().chart(run, problem, *kind).ok());
        for chart in charts.chain(bandwidth.then(|| draw().ladder(run, problem, Quantity::Bandwidth).ok()).flatten()) {
            panel = panel.and(&chart);
        }
        panel = panel.and(&run.environment);
    }
    panel.page("Warpbook: records")
}

/// Opens a file or an address in the desktop's browser; returns true if there is one.
fn open(what: &OsStr) -> bool {
    let there = |name: &str| std::env::var_os(name).is_some_and(|v| !v.is_empty());
    let mut command = if cfg!(target_os = "macos") {
        Command::new("open")
    } else if cfg!(windows) {
        let mut c = Command::new("cmd");
        c.args(["/C", "start", ""]);
        c
    } else if there("DISPLAY") || there("WAYLAND_DISPLAY") || there("BROWSER") || there("WSL_DISTRO_NAME") {
        Command::new("xdg-open")
    } else {
        return false;
    };
    command.arg(what).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().is_ok()
}
