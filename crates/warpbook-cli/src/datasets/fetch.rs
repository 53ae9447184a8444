//! The commands `warpbook data fetch` and `warpbook data list`.

use super::download::{self, Failed, Got, Step, Wanted};
use crate::args::{DataArgs, DataCommand, FetchArgs};
use crate::failure::Failure;
use crate::output::{say, warn};
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use warpbook::data::{Recipe, RemoteFile, folder_for, recipe, recipes};
use warpbook::figures;

/// Runs `warpbook data fetch` and `warpbook data list`.
pub fn data(args: &DataArgs) -> Result<ExitCode, Failure> {
    match &args.what {
        DataCommand::Fetch(args) => fetch(args),
        DataCommand::List => {
            list();
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn fetch(args: &FetchArgs) -> Result<ExitCode, Failure> {
    let names = || recipes().iter().map(|r| r.name).collect::<Vec<_>>().join(", ");
    let recipe = recipe(&args.name).ok_or_else(|| {
        Failure::usage(format!("`{}` is not a data set that can be loaded; choose one of {}.", args.name, names()))
    })?;
    let stall = args.stall().map_err(Failure::usage)?;
    let mirrors = args.mirrors().map_err(Failure::usage)?;
    let folder = match &args.dir {
        Some(dir) => dir.clone(),
        None => folder_for(recipe.name)
            .ok_or_else(|| Failure::usage("No folder for data: the home folder is unknown. Choose one with --dir."))?,
    };
    for file in recipe.files {
        let wanted = wanted(file, &mirrors);
        let mut bar = Bar::new(&wanted);
        let got = download::fetch(&wanted, &folder, stall, &mut |step| bar.show(step));
        bar.end();
        let how = match got {
            Ok(Got::Present) => "was there",
            Ok(Got::Loaded(_)) => "loaded",
            Err(Failed::Mirrors(why)) => return Err(Failure::usage(by_hand(&why, file, &folder))),
            Err(Failed::Here(why)) => return Err(Failure::usage(why)),
        };
        say(&format!("{:<28} {:>9}  {how}, as published (SHA-256)", file.name, figures::bytes(file.bytes)));
    }
    say(&format!("{} is in {}", recipe.title, folder.display()));
    Ok(ExitCode::SUCCESS)
}

fn wanted(file: &RemoteFile, mirrors: &[String]) -> Wanted {
    let public = || file.mirrors.iter().map(|m| (*m).to_owned()).collect();
    let mirrors = if mirrors.is_empty() { public() } else { mirrors.to_vec() };
    let urls = mirrors.iter().map(|m| format!("{m}{}", file.name)).collect();
    Wanted { name: file.name.to_owned(), bytes: file.bytes, sha256: file.sha256.to_owned(), urls }
}

/// Describes why a download failed, and how to get the file by hand.
fn by_hand(why: &str, file: &RemoteFile, folder: &Path) -> String {
    format!(
        "{why}\nRun this again to go on. Or load {} in another way, for instance on another computer, and put it into {}; \
         run this again to check it. Files that lie elsewhere are named with --data DIR. The `synthetic` digits need no files.",
        file.name,
        folder.display()
    )
}

fn list() {
    for recipe in recipes() {
        let bytes = recipe.files.iter().map(|f| f.bytes).sum();
        say(&format!("{:<14} {}: {}", recipe.name, recipe.title, recipe.about));
        say(&format!("{:<14} {} to load; {}", "", figures::bytes(bytes), recipe.source));
        say(&format!("{:<14} {}", "", state(recipe)));
    }
    say(&format!("{:<14} digits drawn by a program, grey images of 28 x 28, 10 classes; no files", "synthetic"));
    say(&format!("{:<14} the same digits in colours, images of 32 x 32; no files", "synthetic-colours"));
}

/// Describes whether a data set's files are where `fetch` would put them.
fn state(recipe: &Recipe) -> String {
    let Some(folder) = folder_for(recipe.name) else { return "no place for it is known; name one with --dir".into() };
    let size = |f: &RemoteFile| std::fs::metadata(folder.join(f.name)).ok().map(|m| m.len());
    let there = recipe.files.iter().filter(|f| size(f) == Some(f.bytes)).count();
    let (of, folder) = (recipe.files.len(), folder.display());
    match there {
        0 => format!("not there; load it with: warpbook data fetch {}", recipe.name),
        n if n == of => format!("in {folder}"),
        n => format!("{n} of {of} files in {folder}; load the others with: warpbook data fetch {}", recipe.name),
    }
}

/// A file's progress: a bar on a terminal, plain lines elsewhere.
struct Bar {
    name: String,
    bar: Option<ProgressBar>,
    /// The last failure of a mirror, which becomes part of the error message.
    failed: Option<String>,
}

impl Bar {
    fn new(wanted: &Wanted) -> Self {
        let name = wanted.name.clone();
        if !std::io::stderr().is_terminal() {
            return Self { name, bar: None, failed: None };
        }
        let bar = ProgressBar::new(wanted.bytes).with_message(name.clone());
        if let Ok(style) =
            ProgressStyle::with_template("{msg} {bar:30} {bytes} of {total_bytes}, {bytes_per_sec}, {eta}")
        {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(120));
        Self { name, bar: Some(bar), failed: None }
    }

    fn show(&mut self, step: Step) {
        let at = match step {
            Step::At(bytes) => bytes,
            Step::Asking { url, from } => {
                if let Some(why) = self.failed.take() {
                    self.line(&why);
                }
                let on = if from > 0 { format!(", from byte {from} on") } else { String::new() };
                self.line(&format!("... {} from {url}{on}", self.name));
                from
            }
            Step::Failed { url, why } => {
                self.failed = Some(format!("{url}: {why}"));
                return;
            }
        };
        if let Some(bar) = &self.bar {
            bar.set_position(at);
        }
    }

    fn line(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| warn(text)),
            None => warn(text),
        }
    }

    fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
