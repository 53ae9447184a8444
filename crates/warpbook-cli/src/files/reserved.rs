//! Reserves default output names by creating empty files.

use super::writable::{check_writable, unwritable};
use crate::failure::Failure;
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Empty files that reserve a name until something is written. They stay locked as long as this process runs, so that
/// an unlocked empty file is known to be left over from a killed process.
static RESERVED: Mutex<Vec<(PathBuf, File)>> = Mutex::new(Vec::new());

/// Reserves the first free name among `stem.end`, `stem-2.end` and so on in a folder, for all `ends`. Empty files are
/// created at once, so that no other process gets these names. Files that are still empty when the program ends are
/// removed. An empty file left by a killed process counts as free.
pub fn reserve<const N: usize>(folder: &Path, stem: &str, ends: [&str; N]) -> Result<[PathBuf; N], Failure> {
    for number in 1u32.. {
        let stem = if number == 1 { stem.to_owned() } else { format!("{stem}-{number}") };
        let paths = ends.map(|end| folder.join(format!("{stem}.{end}")));
        let mut made = Vec::new();
        let failed = paths.iter().find_map(|path| match take(path) {
            Ok(file) => {
                made.push((path.clone(), file));
                None
            }
            Err(e) => Some((path, e)),
        });
        let Some((path, why)) = failed else {
            reserved().extend(made);
            check_writable("--out", &paths[0])?;
            return Ok(paths);
        };
        made.iter().for_each(|(path, _)| drop(fs::remove_file(path)));
        if why.kind() != ErrorKind::AlreadyExists {
            return Err(unwritable("--out", path, &why.to_string()));
        }
    }
    Err(unwritable("--out", &folder.join(stem), "all names are taken"))
}

/// Creates and locks an empty file, or takes over an empty file that no process has locked.
fn take(path: &Path) -> io::Result<File> {
    let taken = || ErrorKind::AlreadyExists.into();
    let (file, is_new) = match File::create_new(path) {
        Err(e) if e.kind() == ErrorKind::AlreadyExists => (File::open(path).map_err(|_| taken())?, false),
        made => (made?, true),
    };
    match file.try_lock() {
        Ok(()) => {}
        // On a file system without locks, an existing file may belong to any process.
        Err(TryLockError::Error(_)) if is_new => return Ok(file),
        Err(_) => return Err(taken()),
    }
    // Before the lock, another process may have written to the file, or taken and removed it.
    let is_own = fs::symlink_metadata(path).is_ok_and(|m| m.is_file() && m.len() == 0) && is_same(path, &file);
    if is_own { Ok(file) } else { Err(taken()) }
}

/// Returns true if a path leads to this open file.
#[cfg(unix)]
fn is_same(path: &Path, file: &File) -> bool {
    use std::os::unix::fs::MetadataExt;
    let number = |m: fs::Metadata| (m.dev(), m.ino());
    fs::metadata(path).ok().map(number) == file.metadata().ok().map(number)
}

/// On other systems, a locked file cannot be replaced.
#[cfg(not(unix))]
fn is_same(_: &Path, _: &File) -> bool {
    true
}

fn reserved() -> std::sync::MutexGuard<'static, Vec<(PathBuf, File)>> {
    RESERVED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A guard that removes reserved files that are still empty when it is dropped.
#[derive(Debug)]
pub struct ReservedNames;

impl Drop for ReservedNames {
    fn drop(&mut self) {
        for (path, _locked) in reserved().drain(..) {
            if fs::symlink_metadata(&path).is_ok_and(|m| m.is_file() && m.len() == 0) {
                let _ = fs::remove_file(path);
            }
        }
    }
}

/// Ends the program at once, even inside a signal handler.
pub fn exit_now(code: u8) -> ! {
    drop(ReservedNames);
    std::process::exit(code.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_names_are_free_ones_and_go_unless_something_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let names = |paths: [PathBuf; 2]| paths.map(|p| p.file_name().unwrap().to_str().unwrap().to_owned());
        fs::write(folder.path().join("x.svg"), "mine").unwrap();
        let mut all: Vec<[String; 2]> = std::thread::scope(|scope| {
            let reserve = || names(reserve(folder.path(), "x", ["json", "svg"]).unwrap());
            let all: Vec<_> = (0..4).map(|_| scope.spawn(reserve)).collect();
            all.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        all.sort();
        let alike = |[a, b]: &[String; 2]| a.replace("json", "svg") == *b && a != "x.json";
        assert!(all.iter().all(alike), "{all:?}");
        all.dedup();
        assert_eq!(all.len(), 4, "{all:?}");
        fs::write(folder.path().join(&all[0][0]), "{}").unwrap();
        // The file of a killed process counts as free; a locked file and a link do not.
        for name in ["y.json", "y-2.json", "y-3.json"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let other = File::open(folder.path().join("y.json")).unwrap();
        other.lock().unwrap();
        let next = || reserve(folder.path(), "y", ["json"]).unwrap()[0].file_name().unwrap().to_owned();
        assert_eq!([next(), next(), next()], ["y-2.json", "y-3.json", "y-4.json"]);
        fs::remove_file(folder.path().join("y.json")).unwrap();
        drop(ReservedNames);
        let mut left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, [all[0][0].as_str(), "x.svg"]);
    }
}
