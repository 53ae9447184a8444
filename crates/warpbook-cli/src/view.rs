//! `warpbook view`.

use crate::args::ViewArgs;
use crate::failure::{Failure, USAGE};
use crate::output::{complain, say};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::SystemTime;
use warpbook::charts::{Quantity, chart, ladder};
use warpbook::{Panel, Show, read_record};
use warpbook_record::Run;

/// The element of the viewer that holds the records.
const EMBEDDED: &str = "<script type=\"application/json\" id=\"warpbook-embedded\">";

/// Opens records, or prints them.
pub fn view(args: &ViewArgs) -> Result<ExitCode, Failure> {
    let mut records: Vec<(String, Run)> = Vec::new();
    let mut refused = 0;
    for path in &args.files {
        match read_record(path) {
            Ok(run) => records.push((unique_name(path, &records), run)),
            Err(why) => {
                complain(&why.to_string());
                refused += 1;
            }
        }
    }
    if refused > 0 && records.is_empty() {
        return Ok(ExitCode::from(USAGE));
    }
    if args.text {
        say(&records.iter().map(|(name, run)| format!("{name}\n{}", run.text())).collect::<Vec<_>>().join("\n\n\n"));
    } else if let Some(path) = &args.html {
        write(path, &report(&records))?;
        say(&path.display().to_string());
    } else {
        let page = page(&records)?;
        say(&page.display().to_string());
        if !args.no_open && !open(&page) {
            complain("No browser could be started here: open that file in one.");
        }
    }
    // What could be read was shown; what could not is still an error.
    Ok(if refused > 0 { ExitCode::from(USAGE) } else { ExitCode::SUCCESS })
}

/// The page to open: the viewer with these records in it, the viewer as it is, or the report.
fn page(records: &[(String, Run)]) -> Result<PathBuf, Failure> {
    let viewer = find_viewer();
    if records.is_empty() {
        return viewer.ok_or_else(|| {
            Failure::usage(
                "The viewer is not built. `cargo xtask web` builds it; or name records, as in `warpbook view regression.json`.",
            )
        });
    }
    let text = match &viewer {
        Some(path) => {
            let template = std::fs::read_to_string(path)
                .map_err(|e| Failure::usage(format!("The viewer {} cannot be read: {e}.", path.display())))?;
            embed(&template, records).ok_or_else(|| {
                Failure::usage(format!(
                    "{} is not a viewer of Warpbook. `cargo xtask web` builds it anew.",
                    path.display()
                ))
            })?
        }
        None => {
            complain(
                "The viewer is not built, so a simpler page takes its place; `cargo xtask web` builds the full one.",
            );
            report(records)
        }
    };
    let stamp = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |d| d.as_nanos());
    let folder = std::env::temp_dir().join(format!("warpbook-view-{}-{stamp}", std::process::id()));
    // Not `create_dir_all`: a folder that is there already is somebody else's.
    std::fs::create_dir(&folder).map_err(|e| {
        Failure::usage(format!("{} cannot be made: {e}. Name another folder in TMPDIR.", folder.display()))
    })?;
    let path = folder.join("warpbook.html");
    write(&path, &text)?;
    Ok(path)
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text)
        .map_err(|e| Failure::usage(format!("{} cannot be written: {e}. Choose another place.", path.display())))
}

/// `WARPBOOK_VIEWER`, or `web/dist/warpbook.html` above the working directory or the program.
pub fn find_viewer() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("WARPBOOK_VIEWER") {
        return (!named.is_empty()).then(|| named.into());
    }
    let from = [std::env::current_dir(), std::env::current_exe()];
    let above = from.iter().flatten().flat_map(|p| p.ancestors());
    above.map(|a| a.join("web/dist/warpbook.html")).find(|p| p.is_file())
}

/// The file's name, made different from those before it.
fn unique_name(path: &Path, before: &[(String, Run)]) -> String {
    let name = path.file_name().map_or_else(|| "record.json".into(), |n| n.to_string_lossy().into_owned());
    // The viewer takes plain names only.
    let name = name.trim_start_matches('.').replace(['/', '\\', ':', '\0'], "_");
    let taken = |n: &str| before.iter().any(|(b, _)| b == n);
    let numbered = (2u32..).map(|n| match name.rsplit_once('.') {
        Some((stem, end)) => format!("{stem}-{n}.{end}"),
        None => format!("{name}-{n}"),
    });
    std::iter::once(name.clone()).chain(numbered).find(|n| !taken(n)).unwrap_or(name)
}

/// The viewer with these records instead of its own; `None` where it has no place for them.
fn embed(viewer: &str, records: &[(String, Run)]) -> Option<String> {
    let (before, rest) = viewer.split_once(EMBEDDED)?;
    let after = &rest[rest.find("</script>")?..];
    let entry = |(file, run): &(String, Run)| {
        json!({
            "file": file,
            "experiment": run.experiment,
            "title": run.title,
            "device": run.environment.device.name,
            "created": run.created,
        })
    };
    let index: Vec<Value> = records.iter().map(entry).collect();
    let mut texts = Map::new();
    for (file, run) in records {
        texts.insert(file.clone(), serde_json::to_value(run).ok()?);
    }
    let json = json!({ "index": { "records": index }, "records": texts }).to_string();
    // JSON has `<` in strings only; written so, nothing in a record can end the element it is in.
    Some(format!("{before}{EMBEDDED}{}{after}", json.replace('<', "\\u003c")))
}

/// A page of the records' charts and tables that needs nothing else.
fn report(records: &[(String, Run)]) -> String {
    let mut panel = Panel::column([]);
    for (name, run) in records {
        panel = panel.and(&name.as_str()).and(run);
        let Some(problem) = run.main_problem() else { continue };
        let bandwidth = run.descriptor.quantities.contains(&Quantity::Bandwidth) && !run.measurements.is_empty();
        // A record need not have something for each of the charts that it names.
        let charts = run.descriptor.charts.iter().filter_map(|kind| chart(run, problem, *kind).ok());
        for chart in charts.chain(bandwidth.then(|| ladder(run, problem, Quantity::Bandwidth).ok()).flatten()) {
            panel = panel.and(&chart);
        }
        panel = panel.and(&run.environment);
    }
    panel.page("Warpbook: records")
}

/// Hands a file to the desktop's browser; whether there was something to hand it to.
fn open(path: &Path) -> bool {
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
    command.arg(path).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain_and_differ() {
        assert_eq!(unique_name(Path::new("a/b.json"), &[]), "b.json");
        assert_eq!(unique_name(Path::new("a/.b:c.json"), &[]), "b_c.json");
        assert_eq!(unique_name(Path::new(".."), &[]), "record.json");
    }

    #[test]
    fn a_page_without_the_element_is_no_viewer() {
        assert!(embed("<html></html>", &[]).is_none());
        assert!(embed(&format!("<html>{EMBEDDED}{{}}"), &[]).is_none());
        let page = embed(&format!("a{EMBEDDED}old</script>b</script>"), &[]).unwrap();
        assert_eq!(page, format!("a{EMBEDDED}{{\"index\":{{\"records\":[]}},\"records\":{{}}}}</script>b</script>"));
    }
}
