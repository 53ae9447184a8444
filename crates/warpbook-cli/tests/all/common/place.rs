//! Runs the program in a folder, as users do.

use super::{cache, program};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;
use warpbook_record::Run;

/// A folder to run the program in, without any settings of the user.
pub struct Place {
    program: PathBuf,
    /// The temporary folder.
    pub folder: TempDir,
}

impl Place {
    pub fn new() -> Option<Self> {
        Some(Self { program: program()?, folder: tempfile::tempdir().unwrap() })
    }

    pub fn command(&self, words: &[&str]) -> Command {
        let mut c = Command::new(&self.program);
        c.args(words).current_dir(self.folder.path()).stdin(Stdio::null());
        c.env("TMPDIR", self.folder.path()).env("WARPBOOK_CACHE", cache(self.folder.path())).env("WARPBOOK_VIEWER", "");
        for name in ["WARPBOOK_DEVICE", "RUST_BACKTRACE", "DISPLAY", "WAYLAND_DISPLAY", "BROWSER"] {
            c.env_remove(name);
        }
        c
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        fs::write(self.path(name), bytes).unwrap();
    }

    pub fn run(&self, words: &[&str]) -> Done {
        Done::new(words, self.command(words).output().unwrap())
    }

    /// Runs a small experiment that writes a record, and returns the record.
    pub fn record(&self, name: &str) -> Run {
        let words = ["run", "regression", "--device", "cpu", "--points", "1k,2k", "--epochs", "20", "--samples", "2"];
        self.run(&[&words[..], &["--out", name]].concat()).expect(0, "Record: ");
        read(&self.path(name))
    }
}

/// Reads a record and checks that it is valid.
pub fn read(path: &Path) -> Run {
    Run::from_json(&fs::read(path).unwrap()).unwrap()
}

/// The result of a command.
pub struct Done {
    pub words: String,
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Done {
    pub fn new(words: &[&str], output: Output) -> Self {
        let text = |b: Vec<u8>| String::from_utf8(b).unwrap();
        Self { words: words.join(" "), code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }

    /// Checks the exit code, and that stdout (for code 0) or stderr contains this part and no Rust panic.
    pub fn expect(&self, code: i32, part: &str) -> &Self {
        let all = format!("warpbook {}\ncode {:?}\n{}\n{}", self.words, self.code, self.out, self.err);
        assert_eq!(self.code, Some(code), "{all}");
        let place = if code == 0 { &self.out } else { &self.err };
        assert!(place.contains(part), "no `{part}` in: {all}");
        assert!(!self.err.contains("panicked") && !self.err.contains("bug in Warpbook"), "{all}");
        self
    }
}
