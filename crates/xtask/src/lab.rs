//! `cargo xtask lab`: first results, then JupyterLab and the viewer.

use crate::LabArgs;
use crate::lessons::jupyter::{self, Jupyter};
use crate::lessons::notebooks;
use crate::process::{cargo, command, run, show};
use crate::publish::{self, Record};
use crate::site::serve;
use crate::site::web;
use crate::steps::{say, seconds};
use crate::tools::nvrtc;
use crate::tools::python::Venv;
use crate::workspace::{Workspace, files_below};
use anyhow::{Context, Result, bail};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use warpbook_record::DeviceKind;
use warpbook_site::Site;

static INTERRUPTED: AtomicBool = AtomicBool::new(false);
/// The prefix of fresh records' names on the page.
const FRESH: &str = "fresh-";

/// Runs the command.
pub fn run_lab(w: &Workspace, args: &LabArgs) -> Result<ExitCode> {
    // Programs started by this command receive Ctrl-C themselves and shut down on their own; a second Ctrl-C ends the command
    // at once.
    ctrlc::set_handler(|| {
        if INTERRUPTED.swap(true, Ordering::SeqCst) {
            std::process::exit(130);
        }
    })?;
    let begin = Instant::now();
    let cuda = nvrtc::Cuda::probe(w);
    // Before the first results, only NVRTC is installed. A GPU needs it for any result; without a GPU it only compiles
    // kernels, which is not worth a Python environment unless notebooks follow.
    let on_gpu = cuda.devices > 0 && args.device.as_deref() != Some("cpu");
    if on_gpu || !args.no_notebooks {
        nvrtc::offer(w, &cuda);
    }
    let fresh = quick_suite(w, args.device.as_deref())?;
    go_on()?;

    let mut failures = Vec::new();
    let mut keep = |what: &str, e: anyhow::Error| failures.push(format!("{what}: {e:#}"));
    let site = viewer(w, &fresh).map_err(|e| keep("the viewer", e)).ok();
    go_on()?;
    let venv = match args.no_notebooks {
        true => None,
        false => notebooks::set_up(w).map_err(|e| keep("the notebooks", e)).ok(),
    };
    go_on()?;
    say(&format!("Set up in {}", seconds(begin.elapsed())));
    for record in &fresh {
        println!("Record:   {}", w.show(record));
    }
    if let Some(site) = &site {
        println!("Viewer:   {} (opens from disk)", w.show(&site.join("warpbook.html")));
    }
    for failure in &failures {
        eprintln!("error: {failure}");
    }
    let code = if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    if args.no_serve || (site.is_none() && venv.is_none()) {
        return Ok(code);
    }
    serve(w, args, site.as_deref(), venv.as_ref(), &fresh)?;
    Ok(code)
}

/// Returns an error after Ctrl-C, so that a wait ends.
pub fn go_on() -> Result<()> {
    if INTERRUPTED.load(Ordering::SeqCst) {
        bail!("interrupted");
    }
    Ok(())
}

fn build_program(w: &Workspace) -> Result<()> {
    run(cargo(w).args(["build", "--release", "--package", "warpbook-cli"]))
}

/// Runs the quick suite; returns its records in the order of the experiments.
fn quick_suite(w: &Workspace, device: Option<&str>) -> Result<Vec<PathBuf>> {
    say("Building the warpbook program (1 to 3 minutes the first time)");
    build_program(w)?;
    say("Running the quick suite (at most 1 minute)");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let folder = w.target.join("lab/records").join(date(now));
    fs::create_dir_all(&folder).with_context(|| format!("{} cannot be made", folder.display()))?;
    let mut suite = command(w.target.join("release/warpbook"));
    suite.current_dir(&w.root).args(["run", "--quick", "--out"]).arg(&folder);
    if let Some(device) = device {
        suite.args(["--device", device]);
    }
    let status = suite.status().with_context(|| format!("`{}` cannot be started", show(&suite)))?;
    let mut records = files_below(&folder, &[])?;
    records.retain(|p| p.extension().is_some_and(|e| e == "json"));
    // Records are sorted by the time when they were written, which gives the order of the experiments.
    records.sort_by_key(|p| p.metadata().and_then(|m| m.modified()).ok());
    if records.is_empty() {
        bail!("the quick suite wrote no record ({status})");
    }
    if !status.success() {
        eprintln!("warning: the quick suite ended early or in part ({status}); its records hold what was finished");
    }
    Ok(records)
}

/// Returns the name of a fresh record on the page.
fn name_on_page(record: &Path) -> String {
    format!("{FRESH}{}", record.file_name().unwrap_or_default().to_string_lossy())
}

/// Pairs each fresh record with the first published one of the same experiment that ran on a GPU.
pub fn put_beside(fresh: &mut [Record], published: &[Record]) {
    for own in fresh {
        let same = |p: &&Record| p.run.experiment == own.run.experiment;
        let on_gpu = |p: &&Record| p.run.environment.device.kind == DeviceKind::Cuda;
        let other = published.iter().filter(same).find(on_gpu).or_else(|| published.iter().find(same));
        own.beside = other.map(|p| (p.file.clone(), warpbook_charts::beside(&own.run, &p.run)));
    }
}

/// Builds the viewer and lays it out with the fresh records first.
fn viewer(w: &Workspace, fresh: &[PathBuf]) -> Result<PathBuf> {
    let built = web::Built::ensure(w)?;
    let mut records = Vec::new();
    for record in fresh {
        let text = fs::read_to_string(record).with_context(|| format!("{} cannot be read", record.display()))?;
        records.push(Record::new(name_on_page(record), text)?);
    }
    let published = publish::records(w)?;
    put_beside(&mut records, &published);
    records.extend(published);
    let site = w.target.join("lab/site");
    web::lay_out(w, &built, &records, &site)?;
    // From now on, `warpbook view` shows the page with all records.
    if web::into_program(w, &built)? {
        say("Building the warpbook program with the viewer inside (about 20 s)");
        build_program(w)?;
    }
    Ok(site)
}

fn serve(w: &Workspace, args: &LabArgs, site: Option<&Path>, venv: Option<&Venv>, fresh: &[PathBuf]) -> Result<()> {
    let viewer = site.map(|folder| serve::with_records(folder, &w.root, args.viewer_port)).transpose()?;
    let page = viewer.as_ref().map(Site::url);
    let mut jupyter = venv.map(|v| notebooks_served(w, v, args.port, page)).transpose()?;
    println!();
    if let Some(jupyter) = &jupyter {
        println!("Notebooks: {}", jupyter.url);
        println!(
            "           their terminals know the program `warpbook`; to keep it: cargo install --path crates/warpbook-cli"
        );
    }
    if let Some(viewer) = &viewer {
        let first = fresh.first().map(|r| name_on_page(r)).unwrap_or_default();
        println!("Viewer:    {}?src=data/{first}", viewer.url());
    }
    println!("Ctrl-C ends both.");
    while !INTERRUPTED.load(Ordering::SeqCst) {
        if let Some(jupyter) = &mut jupyter
            && let Some(status) = jupyter.process.child().try_wait()?
        {
            bail!("JupyterLab ended ({status}): see {}", w.show(&jupyter.log));
        }
        thread::sleep(Duration::from_millis(100));
    }
    println!("\nStopping");
    if let Some(jupyter) = &mut jupyter {
        // JupyterLab needs time to end its kernels.
        jupyter.process.stop(Duration::from_secs(15));
    }
    Ok(())
}

/// Starts JupyterLab with the lessons, marked as trusted. Notebooks are told the page's address, so that they can print
/// a link to it with each record.
fn notebooks_served(w: &Workspace, venv: &Venv, port: u16, page: Option<String>) -> Result<Jupyter> {
    if let Err(e) = jupyter::trust(w, venv, &[], &notebooks::all(w)?) {
        eprintln!(
            "warning: the notebooks could not be signed, so their stored outputs are shown without colours until their cells are run: {e:#}"
        );
    }
    let path = ("PATH", with_program(w, std::env::var_os("PATH").as_deref())?.into());
    let variables: Vec<_> = std::iter::once(path).chain(of_the_page(w, page)).collect();
    Jupyter::start(w, venv, port, &w.path("notebooks"), first_notebook(w).as_deref(), &variables)
}

/// Returns the environment variables that tell notebooks the address of the page and the folder of its records;
/// `crates/warpbook-lab/src/page.rs` reads both.
fn of_the_page(w: &Workspace, page: Option<String>) -> impl Iterator<Item = (&'static str, PathBuf)> {
    let folder = w.root.clone();
    page.into_iter()
        .flat_map(move |address| [("WARPBOOK_LAB_PAGE", address.into()), ("WARPBOOK_LAB_FOLDER", folder.clone())])
}

/// Returns a PATH for JupyterLab's terminals and kernels that starts with the folder of the `warpbook` program.
fn with_program(w: &Workspace, path: Option<&OsStr>) -> Result<OsString> {
    let others = path.map(std::env::split_paths).into_iter().flatten();
    std::env::join_paths(std::iter::once(w.target.join("release")).chain(others))
        .with_context(|| format!("{} cannot be put on the PATH", w.target.display()))
}

/// Returns the first lesson's path below `notebooks/`.
fn first_notebook(w: &Workspace) -> Option<String> {
    let folder = w.path("notebooks");
    let files = files_below(&folder, &[]).ok()?;
    let first = files.iter().find(|p| p.extension().is_some_and(|e| e == "ipynb"))?;
    Some(first.strip_prefix(&folder).ok()?.to_string_lossy().replace(' ', "%20"))
}

/// Formats seconds since 1970 (UTC) as 20260131-235959.
fn date(unix_s: u64) -> String {
    let text = humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(unix_s)).to_string();
    text.replace(['-', ':', 'Z'], "").replace('T', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminals_find_the_program_first() {
        let w = Workspace::find(false).unwrap();
        let all = |path: Option<&str>| {
            let path = with_program(&w, path.map(OsStr::new)).unwrap();
            std::env::split_paths(&path).collect::<Vec<_>>()
        };
        let own = w.target.join("release");
        assert_eq!(all(None), std::slice::from_ref(&own));
        let two = std::env::join_paths(["/usr/bin", "/bin"]).unwrap();
        assert_eq!(all(two.to_str()), [own, "/usr/bin".into(), "/bin".into()]);
    }

    #[test]
    fn notebooks_know_the_page_by_the_variables_that_they_read() {
        let w = Workspace::find(false).unwrap();
        assert_eq!(of_the_page(&w, None).count(), 0);
        let variables: Vec<_> = of_the_page(&w, Some("http://127.0.0.1:8000/".into())).collect();
        let reader = fs::read_to_string(w.path("crates/warpbook-lab/src/page.rs")).unwrap();
        assert!(variables.iter().all(|(name, _)| reader.contains(&format!("\"{name}\""))), "{variables:?}");
        let values: Vec<_> = variables.into_iter().map(|(_, value)| value).collect();
        assert_eq!(values, [PathBuf::from("http://127.0.0.1:8000/"), w.root.clone()]);
    }

    #[test]
    fn seconds_become_dates() {
        assert_eq!(date(0), "19700101-000000");
        assert_eq!(date(951_782_400), "20000229-000000");
        assert_eq!(date(1_798_761_599), "20261231-235959");
        assert_eq!(date(4_107_542_400), "21000301-000000");
    }

    #[test]
    fn a_fresh_record_stands_beside_the_published_one_of_its_experiment() {
        let published = publish::records(&Workspace::find(false).unwrap()).unwrap();
        let text = include_str!("../../../web/tests/softmax.json");
        let mut other: serde_json::Value = serde_json::from_str(text).unwrap();
        other["experiment"] = "of nobody else".into();
        let mut fresh = [text.to_owned(), other.to_string()].map(|t| Record::new("fresh-x.json", t).unwrap());
        put_beside(&mut fresh, &published);
        let (file, verdict) = fresh[0].beside.clone().unwrap();
        assert_eq!(file, "softmax-h200.json");
        assert!(verdict.ends_with('.') && verdict.contains("NVIDIA H200"), "{verdict}");
        assert_eq!(fresh[1].beside, None);
        let index = publish::index(&fresh);
        assert_eq!(index["records"][0]["beside"]["file"], "softmax-h200.json");
        assert!(index["records"][1].get("beside").is_none());
    }
}
