//! Writes files atomically: a reader sees either the complete old file or the complete new one.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Number of the next temporary file, which distinguishes the temporary files of one process.
static NUMBER: AtomicU64 = AtomicU64::new(0);
/// Largest number of symbolic links to follow, which is Linux's limit.
const MOST_LINKS: usize = 40;

/// Writes a file under a temporary name in its folder and renames it, so that an older file stays intact until the new one is complete. The contents
/// reach the disk before the rename. Symbolic links are followed, even to a file that does not exist yet, and an older file's permissions are kept.
/// Temporary files left behind in the folder by killed processes are removed.
///
/// # Errors
/// The system's errors, for example if the folder does not exist, permission is denied or the disk is full. The temporary file is then removed.
pub fn write_atomic(path: impl AsRef<Path>, bytes: &[u8]) -> io::Result<()> {
    let path = behind_links(path.as_ref())?;
    let part = TemporaryFile::next_to(&path)?;
    {
        let mut file = part.create(&path)?;
        file.write_all(bytes)?;
        // A full disk may be reported only at this point.
        file.sync_all()?;
    }
    fs::rename(&part.0, &path)
}

/// Checks that [`write_atomic_with_folder`] could write a file of this many bytes now. Leaves nothing behind except the folder.
///
/// # Errors
/// The errors of [`write_atomic`]. Also returns an error if the file is write-protected, or if the path is a folder or anything else that is not a
/// regular file, because a rename could not replace it or could not restore it.
pub fn ensure_writable(path: impl AsRef<Path>, bytes: u64) -> io::Result<()> {
    let path = path.as_ref();
    let names_a_folder = || io::Error::other("it is a folder; name a file in it");
    let name = path.file_name().ok_or_else(names_a_folder)?;
    // Rust's `file_name` ignores the endings of "file/" and "file/.".
    if !path.as_os_str().as_encoded_bytes().ends_with(name.as_encoded_bytes()) {
        return Err(names_a_folder());
    }
    let path = behind_links(path)?;
    match fs::metadata(&path) {
        Ok(m) if m.is_dir() => return Err(names_a_folder()),
        Ok(m) if !m.is_file() => return Err(io::Error::other("it is not a regular file")),
        Ok(_) => drop(File::options().append(true).open(&path)?),
        Err(_) => make_folder_of(&path)?,
    }
    let part = TemporaryFile::next_to(&path)?;
    let mut file = part.create(&path)?;
    let block = vec![0; 1 << 20];
    let mut left = bytes;
    while left > 0 {
        let next = left.min(block.len() as u64);
        file.write_all(&block[..next as usize])?;
        left -= next;
    }
    file.sync_all()
}

/// Like [`write_atomic`], but creates the file's folder if it does not exist.
///
/// # Errors
/// The errors of [`write_atomic`].
pub fn write_atomic_with_folder(path: impl AsRef<Path>, bytes: &[u8]) -> io::Result<()> {
    let path = behind_links(path.as_ref())?;
    make_folder_of(&path)?;
    write_atomic(path, bytes)
}

/// Reads a file of at most `most` bytes. The limit is also at most 256 MiB for anything other than a regular file, such as a pipe or an endless
/// device.
///
/// # Errors
/// The system's errors; also returns an error if the file exceeds the limit.
pub fn read_file(path: impl AsRef<Path>, most: u64) -> io::Result<Vec<u8>> {
    const MOST_OF_NO_FILE: u64 = 256 << 20;
    let file = File::open(path)?;
    let about = file.metadata()?;
    let most = if about.is_file() { most } else { most.min(MOST_OF_NO_FILE) };
    let mut bytes = Vec::new();
    if about.len() <= most {
        file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    }
    if about.len() > most || bytes.len() as u64 > most {
        return Err(io::Error::other(format!("it is longer than {most} bytes")));
    }
    Ok(bytes)
}

/// Returns the file that a path leads to: symbolic links are followed to the end, even if the last one points to a file that does not exist.
///
/// # Errors
/// Returns an error if the links form a loop.
pub fn behind_links(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        let Ok(to) = fs::read_link(&path) else { return Ok(path) };
        path = path.parent().unwrap_or(Path::new("")).join(to);
    }
    Err(io::Error::other(format!("the path leads through more than {MOST_LINKS} symbolic links, perhaps in a circle")))
}

fn make_folder_of(path: &Path) -> io::Result<()> {
    path.parent().filter(|p| !p.as_os_str().is_empty()).map_or(Ok(()), fs::create_dir_all)
}

/// A temporary file next to its final location. Dropping it removes the file unless it was renamed.
struct TemporaryFile(PathBuf);

impl TemporaryFile {
    fn next_to(path: &Path) -> io::Result<Self> {
        let file = path.file_name().ok_or_else(|| io::Error::other("it names no file"))?;
        let mut name = OsString::from(".");
        name.push(file);
        // Two processes or threads may write the same file at the same time, so each uses its own temporary name.
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        name.push(format!(".{}-{number}.part", std::process::id()));
        Ok(Self(path.with_file_name(name)))
    }

    /// Opens the temporary file with the permissions of the file that it will replace.
    fn create(&self, path: &Path) -> io::Result<File> {
        remove_left_over(path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new(".")));
        let file = File::create(&self.0)?;
        // The lock is held until the file is closed, and shows other processes that this one is still alive. On a file system without locks, they
        // have to rely on the process id in the name.
        let _ = file.try_lock();
        if let Ok(old) = fs::metadata(path) {
            file.set_permissions(old.permissions())?;
        }
        Ok(file)
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        // The file no longer exists if it was renamed.
        let _ = fs::remove_file(&self.0);
    }
}

/// Removes temporary files that killed processes left in a folder. It runs only once per folder, because the kernel cache may hold thousands of
/// files.
fn remove_left_over(folder: &Path) {
    static SWEPT: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    let is_first = SWEPT.lock().unwrap_or_else(PoisonError::into_inner).insert(folder.to_owned());
    let Some(entries) = is_first.then(|| fs::read_dir(folder).ok()).flatten() else { return };
    for entry in entries.flatten() {
        let process = entry.file_name().to_str().and_then(process_of);
        if process.is_some_and(is_gone) && File::open(entry.path()).is_ok_and(|file| file.try_lock().is_ok()) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Returns the process id in a temporary file's name, such as 123 in ".c.st.123-0.part".
fn process_of(name: &str) -> Option<u32> {
    let (file, end) = name.strip_prefix('.')?.strip_suffix(".part")?.rsplit_once('.')?;
    let (process, number) = end.split_once('-').filter(|_| !file.is_empty())?;
    number.parse::<u64>().ok()?;
    process.parse().ok()
}

/// Returns true if a process seems to have ended; on systems other than Linux, every other process counts as ended.
fn is_gone(process: u32) -> bool {
    process != std::process::id() && !Path::new("/proc").join(process.to_string()).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let all = fs::read_dir(folder).unwrap();
        let mut all: Vec<String> = all.map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect();
        all.sort();
        all
    }

    #[test]
    fn a_file_is_replaced_whole_and_nothing_else_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        write_atomic(&path, b"old and long").unwrap();
        write_atomic(&path, b"new").unwrap();
        assert_eq!((fs::read(&path).unwrap(), names(folder.path())), (b"new".to_vec(), vec!["a.json".to_owned()]));
    }

    #[test]
    fn what_cannot_be_written_leaves_what_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let (file, taken) = (folder.path().join("file"), folder.path().join("taken"));
        write_atomic(&file, b"text").unwrap();
        fs::create_dir(&taken).unwrap();
        // The cases are a folder in the file's place, a missing folder, a file in the folder's place, and an empty name.
        assert!(write_atomic(&taken, b"x").is_err() && taken.is_dir());
        assert!(write_atomic(folder.path().join("none/a"), b"x").is_err());
        assert!(write_atomic_with_folder(file.join("a"), b"x").is_err());
        assert!(write_atomic("/", b"x").is_err());
        write_atomic_with_folder(folder.path().join("deep/er/a"), b"x").unwrap();
        assert_eq!(names(folder.path()), ["deep", "file", "taken"]);
    }

    #[test]
    fn whether_a_file_can_be_written_is_known_before() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        write_atomic(&file, b"text").unwrap();
        for (name, bytes) in [("file", 0), ("new/one", 3 << 20)] {
            ensure_writable(folder.path().join(name), bytes).unwrap();
        }
        assert_eq!((fs::read(&file).unwrap(), names(&folder.path().join("new"))), (b"text".to_vec(), vec![]));
        let refused = |path: &Path| ensure_writable(path, 1).unwrap_err().to_string();
        assert!(refused(folder.path()).contains("is a folder"));
        // Rust's `file_name` ignores these endings.
        for end in ["/", "/.", "//"] {
            assert!(refused(&folder.path().join(format!("o.json{end}"))).contains("is a folder"), "{end}");
        }
        refused(&file.join("below"));
        refused(Path::new("/"));
        #[cfg(unix)]
        assert!(refused(Path::new("/dev/null")).contains("not a regular file"));
        assert_eq!(names(folder.path()).len(), 2);
    }

    #[test]
    fn a_file_is_read_no_further_than_it_may_be_long() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("five");
        fs::write(&path, "12345").unwrap();
        assert_eq!(read_file(&path, 5).unwrap(), b"12345");
        assert!(read_file(&path, 4).unwrap_err().to_string().contains("longer than 4 bytes"));
        assert!(read_file(folder.path().join("none"), 4).is_err() && read_file(folder.path(), 4).is_err());
        #[cfg(unix)]
        assert!(read_file("/dev/zero", 1 << 20).unwrap_err().to_string().contains("longer than 1048576 bytes"));
    }

    #[cfg(unix)]
    #[test]
    fn links_and_permissions_stay() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("store")).unwrap();
        write_atomic(at("store/real"), b"old").unwrap();
        fs::set_permissions(at("store/real"), fs::Permissions::from_mode(0o600)).unwrap();
        symlink("store/real", at("link")).unwrap();
        symlink("link", at("second")).unwrap();
        symlink("store/to_be_made", at("early")).unwrap();
        symlink("round", at("round")).unwrap();
        ensure_writable(at("second"), 1).unwrap();
        write_atomic(at("second"), b"new").unwrap();
        assert_eq!(fs::read(at("store/real")).unwrap(), b"new");
        assert_eq!(fs::metadata(at("store/real")).unwrap().permissions().mode() & 0o777, 0o600);
        ensure_writable(at("early"), 1).unwrap();
        write_atomic(at("early"), b"made").unwrap();
        assert_eq!(fs::read(at("store/to_be_made")).unwrap(), b"made");
        assert!(["link", "second", "early"].iter().all(|name| at(name).is_symlink()));
        assert!(write_atomic(at("round"), b"x").is_err() && ensure_writable(at("round"), 1).is_err());
        assert_eq!(names(&at("store")), ["real", "to_be_made"]);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_a_killed_process_has_left_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        // No process has these ids, two of the names are not those of temporary files, and one file belongs to a process that is still running.
        let living = format!(".c.st.{}-7.part", std::process::id());
        let stay = [".c.st.x-1.part", "c.st.4294967295-1.part", &living];
        for name in [".c.st.4294967295-0.part", ".other.4294967294-12.part"].iter().chain(&stay) {
            fs::write(at(name), "x").unwrap();
        }
        write_atomic(at("c.st"), b"x").unwrap();
        let mut left = vec!["c.st"];
        left.extend(stay);
        left.sort_unstable();
        assert_eq!(names(folder.path()), left);
    }

    #[test]
    fn several_threads_may_write_the_same_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::thread::scope(|s| {
            for i in 0..8u8 {
                let path = &path;
                s.spawn(move || (0..20).for_each(|_| write_atomic(path, &[i; 5000]).unwrap()));
            }
        });
        let bytes = fs::read(&path).unwrap();
        assert!(bytes.len() == 5000 && bytes.iter().all(|b| *b == bytes[0]));
        assert_eq!(names(folder.path()), ["a"]);
    }
}
