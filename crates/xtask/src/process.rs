//! Other programs: finding, starting and ending them.

use crate::workspace::Workspace;
use anyhow::{Context, Result, bail};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Returns the first program with this name on `PATH`.
pub fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| is_executable(file))
}

/// Returns true if a path is an executable file.
pub fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(file).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

/// Returns true if this process runs as root.
pub fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|o| o.stdout.trim_ascii() == b"0")
}

/// Returns a command with the caller's environment, but without the variables of `cargo run`, since a build with them
/// would differ from the user's own.
pub fn command(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    for (key, _) in std::env::vars_os() {
        let name = key.to_string_lossy();
        let added = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_"].iter().any(|p| name.starts_with(p));
        if added || name == "CARGO" || name == "CARGO_PRIMARY_PACKAGE" {
            command.env_remove(&key);
        }
    }
    command
}

/// Returns a Cargo command in the root of the checkout.
pub fn cargo(w: &Workspace) -> Command {
    let mut cargo = command(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(&w.root);
    cargo
}

/// Returns the trimmed standard output of a program; `None` if it failed.
pub fn output(command: &mut Command) -> Option<String> {
    let out = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    out.status.success().then(|| String::from_utf8_lossy(&out.stdout).trim().to_owned())
}

/// Runs a program with visible output.
pub fn run(command: &mut Command) -> Result<()> {
    let shown = show(command);
    let status = command.status().with_context(|| format!("`{shown}` cannot be started"))?;
    check(&shown, status)
}

/// Runs a program whose output goes to the log.
pub fn run_logged(command: &mut Command, log: &Path, limit: Duration) -> Result<()> {
    let shown = show(command);
    let file = log_file(log)?;
    let child = command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file).spawn();
    let mut child = Guard::new(child.with_context(|| format!("`{shown}` cannot be started"))?);
    match child.wait_for(limit)? {
        Some(status) => check(&shown, status),
        None => bail!("`{shown}` had not ended after {} s", limit.as_secs()),
    }
}

/// Creates a log file and its folder.
pub fn log_file(log: &Path) -> Result<File> {
    if let Some(folder) = log.parent() {
        fs::create_dir_all(folder).with_context(|| format!("{} cannot be made", folder.display()))?;
    }
    File::create(log).with_context(|| format!("{} cannot be written", log.display()))
}

fn check(shown: &str, status: ExitStatus) -> Result<()> {
    if !status.success() {
        bail!("`{shown}` failed ({status})");
    }
    Ok(())
}

/// Returns a command as a user would type it, with long paths and arguments shortened.
pub fn show(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let mut text = program.file_name().unwrap_or(command.get_program()).to_string_lossy().into_owned();
    for arg in command.get_args() {
        let arg = arg.to_string_lossy();
        text.push(' ');
        match arg.char_indices().nth(60) {
            Some((end, _)) => text.extend([&arg[..end], "..."]),
            None => text.push_str(&arg),
        }
    }
    text
}

/// A child process that ends when the guard is dropped.
#[derive(Debug)]
pub struct Guard {
    child: Child,
}

impl Guard {
    /// Takes over a child process.
    pub fn new(child: Child) -> Self {
        Self { child }
    }

    /// Returns the child process.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Returns the exit status of the child process if it ends within the limit.
    pub fn wait_for(&mut self, limit: Duration) -> Result<Option<ExitStatus>> {
        let begin = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(Some(status));
            }
            if begin.elapsed() >= limit {
                return Ok(None);
            }
            thread::sleep(Duration::from_millis(50).min(limit));
        }
    }

    /// Asks the child process to end, and kills it after the grace period.
    pub fn stop(&mut self, grace: Duration) {
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return;
        }
        let _ = Command::new("kill").arg(self.child.id().to_string()).stderr(Stdio::null()).status();
        if !matches!(self.wait_for(grace), Ok(Some(_))) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.stop(Duration::from_secs(5));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_typed() {
        let mut c = Command::new("/usr/bin/pip");
        c.args(["install", &"x".repeat(61)]);
        assert_eq!(show(&c), format!("pip install {}...", "x".repeat(60)));
    }

    #[test]
    fn a_child_over_its_limit_is_ended() {
        let tmp = tempfile::tempdir().unwrap();
        let begin = Instant::now();
        let error = run_logged(Command::new("sleep").arg("30"), &tmp.path().join("log"), Duration::from_millis(100));
        assert!(error.unwrap_err().to_string().contains("had not ended"));
        assert!(begin.elapsed() < Duration::from_secs(5));
    }

    #[test]
    fn output_is_only_that_of_a_success() {
        assert_eq!(output(Command::new("echo").arg("a b")).as_deref(), Some("a b"));
        assert_eq!(output(&mut Command::new("false")), None);
        assert_eq!(output(&mut Command::new("no-such-program-here")), None);
    }

    #[test]
    fn only_executable_files_are_on_the_path() {
        assert!(on_path("sh").is_some());
        assert!(!is_executable(Path::new("/etc/passwd")));
        assert!(!is_executable(Path::new("/")));
    }
}
