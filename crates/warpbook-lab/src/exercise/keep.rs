//! A learner's progress on disk: one file, which notebooks, terminals and `watch` share.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use warpbook_device::{read_file, write_atomic_with_folder};
use warpbook_record::{Guessed, MAX_BYTES, Progress};

/// Maximum length of a file name in characters, without its extension.
const LONGEST: usize = 40;

/// Returns the folder of progress files: `WARPBOOK_PROGRESS`, or `warpbook/exercises` in the user's data folder. `None` if neither is known, or if
/// `WARPBOOK_PROGRESS` is empty, which means that no progress is saved.
#[must_use]
pub fn progress_folder() -> Option<PathBuf> {
    if let Some(set) = std::env::var_os("WARPBOOK_PROGRESS") {
        return (!set.is_empty()).then(|| PathBuf::from(set));
    }
    let variable = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let user = variable("XDG_DATA_HOME")
        .or_else(|| variable("LOCALAPPDATA"))
        .or_else(|| variable("HOME").map(|home| home.join(".local").join("share")));
    user.map(|user| user.join("warpbook").join("exercises"))
}

/// The progress file of one person.
#[derive(Debug, Clone)]
pub(super) struct Keeper {
    person: String,
    /// Path of the file; `None` if no progress is saved.
    path: Option<PathBuf>,
}

impl Keeper {
    /// Creates the handle of a person's progress file in a folder.
    pub(super) fn new(person: Option<&str>, folder: Option<PathBuf>) -> Self {
        let of_system = || ["USER", "USERNAME"].iter().find_map(|name| std::env::var(name).ok());
        let person = person.map(str::to_owned).or_else(of_system).filter(|name| !name.trim().is_empty());
        let person = person.unwrap_or_else(|| "somebody".into());
        let path = folder.map(|folder| folder.join(format!("{}.json", file_name(&person))));
        Self { person, path }
    }

    pub(super) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Reads the progress, which is empty if the person has no file yet.
    pub(super) fn read(&self) -> io::Result<Progress> {
        let Some(path) = self.path.as_ref().filter(|path| path.exists()) else {
            return Ok(Progress::new(&self.person));
        };
        let bytes = read_file(path, MAX_BYTES as u64)?;
        Progress::from_json(&bytes).map_err(io::Error::other)
    }

    /// Changes the progress while a lock keeps other processes from writing. A file that cannot be parsed is renamed.
    pub(super) fn change(&self, change: impl FnOnce(&mut Progress)) -> io::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let lock = File::options().create(true).append(true).open(path.with_extension("lock"))?;
        lock.lock()?;
        let mut progress = match self.read() {
            Ok(progress) => progress,
            Err(why) if path.is_file() && why.kind() == io::ErrorKind::Other => {
                std::fs::rename(path, path.with_extension(format!("damaged-{}.json", now())))?;
                Progress::new(&self.person)
            }
            Err(why) => return Err(why),
        };
        change(&mut progress);
        write_atomic_with_folder(path, progress.to_json().as_bytes())
        // Closing the file releases the lock.
    }
}

/// Saves a person's guesses for a lesson in the progress file, each with the measured value. A guess that was saved before is replaced. The folder is
/// [`progress_folder`], except in tests; without a folder nothing is saved.
///
/// # Errors
/// If the file cannot be written.
pub fn keep_guesses(person: Option<&str>, folder: Option<PathBuf>, guesses: &[Guessed]) -> io::Result<()> {
    if guesses.is_empty() {
        return Ok(());
    }
    Keeper::new(person, folder).change(|progress| note_guesses(progress, guesses))
}

fn note_guesses(progress: &mut Progress, guesses: &[Guessed]) {
    let is_renewed = |old: &Guessed| guesses.iter().any(|new| (&new.lesson, &new.what) == (&old.lesson, &old.what));
    progress.guesses.retain(|old| !is_renewed(old));
    progress.guesses.extend_from_slice(guesses);
}

/// Returns the current time in seconds since 1970 (UTC).
pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Returns a valid file name for a person on every operating system. A name that had to be changed gets a hash of the original name at its end, so that two
/// people do not share a file.
fn file_name(person: &str) -> String {
    let plain = |c: char| if c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' { c } else { '_' };
    let clean: String = person.chars().map(plain).take(LONGEST).collect();
    // On Windows, these names are reserved for devices.
    let is_device =
        ["con", "prn", "aux", "nul"].contains(&&*clean) || clean.starts_with("com") || clean.starts_with("lpt");
    if clean == person && !clean.is_empty() && !is_device {
        return clean;
    }
    format!("{clean}-{:08x}", super::hash_of_bytes(person.as_bytes()) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpbook_record::Answer;

    #[test]
    fn names_become_names_of_files() {
        assert_eq!(file_name("ada-1815"), "ada-1815");
        let changed = |name: &str, start: &str| {
            let file = file_name(name);
            let (clean, number) = file.rsplit_once('-').unwrap();
            assert_eq!((clean, number.len()), (start, 8), "{file}");
        };
        changed("Ada Lovelace", "_da__ovelace");
        changed("../../etc/passwd", "______etc_passwd");
        changed("", "");
        changed("con", "con");
        changed("Größe", "_r__e");
        assert_ne!(file_name("a b"), file_name("a_b"));
        assert_ne!(file_name("Ada"), file_name("ada"));
        assert!(file_name(&"x".repeat(5000)).len() < 60);
    }

    #[test]
    fn a_guess_replaces_the_one_on_the_same_question_of_the_lesson() {
        let guess = |lesson: &str, guess| Guessed {
            lesson: lesson.into(),
            what: "sectors".into(),
            guess: Answer::Number(guess),
            measured: None,
        };
        let mut progress = Progress::new("ada");
        note_guesses(&mut progress, &[guess("01", 4.0), guess("02", 5.0)]);
        note_guesses(&mut progress, &[guess("01", 8.0)]);
        assert_eq!(progress.guesses, [guess("02", 5.0), guess("01", 8.0)]);
    }

    #[test]
    fn two_writers_lose_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let keeper = Keeper::new(Some("ada"), Some(folder.path().join("deep")));
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let keeper = &keeper;
                scope.spawn(move || {
                    for round in 0..10 {
                        let id = format!("E{writer}{round}");
                        keeper.change(|progress| _ = progress.begin(&id, 7)).unwrap();
                    }
                });
            }
        });
        assert_eq!(keeper.read().unwrap().exercises.len(), 40);
        assert_eq!(keeper.read().unwrap().person, "ada");
    }

    #[test]
    fn a_damaged_file_is_put_aside_and_an_empty_setting_keeps_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let keeper = Keeper::new(Some("ada"), Some(folder.path().into()));
        std::fs::write(folder.path().join("ada.json"), "{ cut off").unwrap();
        assert!(keeper.read().is_err());
        keeper.change(|progress| _ = progress.begin("E01", 7)).unwrap();
        assert_eq!(keeper.read().unwrap().exercises.len(), 1);
        let aside = |name: &str| name.starts_with("ada.damaged-");
        let names = std::fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
        assert_eq!(names.filter(|name| aside(name)).count(), 1);
        let nowhere = Keeper::new(Some("ada"), None);
        nowhere.change(|progress| _ = progress.begin("E01", 7)).unwrap();
        assert!(nowhere.read().unwrap().exercises.is_empty());
    }
}
