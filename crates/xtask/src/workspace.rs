//! Paths in the workspace, and writing files.

use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Component, Path, PathBuf};

/// The checkout that a command works on.
#[derive(Debug, Clone)]
pub struct Workspace {
    /// The folder of the root `Cargo.toml`.
    pub root: PathBuf,
    /// Cargo's build folder.
    pub target: PathBuf,
    /// True if missing programs may be installed.
    pub may_install: bool,
}

impl Workspace {
    /// Finds the checkout around the working directory, or else the one that contains this crate.
    pub fn find(may_install: bool) -> Result<Self> {
        let here = std::env::current_dir().context("the working directory cannot be read")?;
        let crate_dir = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
        let root = [Some(here), crate_dir]
            .into_iter()
            .flatten()
            .find_map(|start| start.ancestors().find(|d| is_root(d)).map(Path::to_path_buf));
        let Some(root) = root else {
            bail!("no Warpbook checkout is around the working directory: run this from inside of one");
        };
        let target = std::env::var_os("CARGO_TARGET_DIR")
            .map_or_else(|| root.join("target"), |dir| root.join(PathBuf::from(dir)));
        Ok(Self { root, target, may_install })
    }

    /// Returns the path of a file or folder below the root.
    pub fn path(&self, below_root: &str) -> PathBuf {
        self.root.join(below_root)
    }

    /// Formats a path for people, relative to the root if possible.
    pub fn show(&self, path: &Path) -> String {
        path.strip_prefix(&self.root).unwrap_or(path).display().to_string()
    }

    /// Returns the path of a program's log, `target/xtask/logs/<name>.log`.
    pub fn log(&self, name: &str) -> PathBuf {
        self.target.join("xtask/logs").join(format!("{name}.log"))
    }
}

fn is_root(dir: &Path) -> bool {
    dir.join("crates/xtask").is_dir()
        && fs::read_to_string(dir.join("Cargo.toml")).is_ok_and(|t| t.lines().any(|l| l.trim() == "[workspace]"))
}

/// Writes a file atomically: readers see either the complete old text or the complete new one. Creates the file's
/// folder.
pub fn write_atomic(path: &Path, contents: impl AsRef<[u8]>) -> Result<()> {
    let folder = path.parent().context("a file's path has a folder")?;
    let name = path.file_name().context("a file's path has a name")?.to_string_lossy().into_owned();
    let part = folder.join(format!(".{name}.{}.part", std::process::id()));
    let write = || {
        fs::create_dir_all(folder)?;
        fs::write(&part, contents.as_ref())?;
        fs::rename(&part, path)
    };
    write().map_err(|e| {
        let _ = fs::remove_file(&part);
        anyhow::anyhow!("{} cannot be written: {e}", path.display())
    })
}

/// Fills a new folder and then moves it into place, so that a failure keeps the old one.
pub fn replace_dir(place: &Path, fill: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let folder = place.parent().context("a folder's path has a parent")?;
    let name = place.file_name().context("a folder's path has a name")?.to_string_lossy().into_owned();
    let aside = |suffix: &str| folder.join(format!(".{name}.{}.{suffix}", std::process::id()));
    let (new, old) = (aside("part"), aside("old.part"));
    let result = (|| {
        fs::create_dir_all(&new).with_context(|| format!("{} cannot be made", new.display()))?;
        fill(&new)?;
        if place.exists() {
            fs::rename(place, &old).with_context(|| format!("{} cannot be moved away", place.display()))?;
        }
        fs::rename(&new, place).with_context(|| format!("{} cannot be put in place", place.display()))
    })();
    if result.is_err() && old.exists() && !place.exists() {
        let _ = fs::rename(&old, place);
    }
    for rest in [new, old] {
        let _ = fs::remove_dir_all(rest);
    }
    result
}

/// Returns all files below a folder, sorted, without hidden files and files below a folder named in `without`.
pub fn files_below(folder: &Path, without: &[&str]) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(&dir).with_context(|| format!("{} cannot be read", dir.display()))? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with('.') || without.contains(&name.as_str()) {
                continue;
            }
            if entry.file_type()?.is_dir() {
                open.push(entry.path());
            } else {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Returns a path without `.` and `..`.
pub fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                normal.pop();
            }
            part => normal.push(part),
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_fill_leaves_the_old_folder() {
        let tmp = tempfile::tempdir().unwrap();
        let place = tmp.path().join("dist");
        replace_dir(&place, |d| write_atomic(&d.join("a"), "1")).unwrap();
        let failed = replace_dir(&place, |d| {
            write_atomic(&d.join("a"), "2")?;
            bail!("no")
        });
        assert!(failed.is_err());
        assert_eq!(fs::read_to_string(place.join("a")).unwrap(), "1");
        replace_dir(&place, |d| write_atomic(&d.join("b"), "3")).unwrap();
        assert!(!place.join("a").exists() && place.join("b").exists());
        assert_eq!(fs::read_dir(tmp.path()).unwrap().count(), 1, "no temporary file is left");
    }

    #[test]
    fn a_written_file_leaves_no_temporary_file() {
        let tmp = tempfile::tempdir().unwrap();
        let file = tmp.path().join("deep/er/file.txt");
        write_atomic(&file, "one").unwrap();
        write_atomic(&file, "two").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "two");
        assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 1);
        assert!(write_atomic(&file.join("below-a-file"), "x").is_err());
    }

    #[test]
    fn hidden_and_excluded_files_are_left_out() {
        let tmp = tempfile::tempdir().unwrap();
        for f in ["b", "a", ".hidden", "dist/c", "sub/d"] {
            write_atomic(&tmp.path().join(f), "").unwrap();
        }
        let names: Vec<_> = files_below(tmp.path(), &["dist"])
            .unwrap()
            .iter()
            .map(|p| p.strip_prefix(tmp.path()).unwrap().display().to_string())
            .collect();
        assert_eq!(names, ["a", "b", "sub/d"]);
    }
}
