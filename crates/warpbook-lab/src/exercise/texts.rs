//! The texts of an exercise in its folder, and the learner's file.

use super::definition::Definition;
use crate::{Error, Result};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Maximum size of a text file in bytes.
const MOST_BYTES: u64 = 1 << 20;

/// Returns the folder of all exercises: `WARPBOOK_EXERCISES`, or the nearest `notebooks/exercises` in the working directory or one of its parents.
///
/// # Errors
/// If there is no such folder.
pub fn exercises_folder() -> Result<PathBuf> {
    let here = std::env::current_dir().map_err(|why| Error::Read { path: ".".into(), why })?;
    find_folder(std::env::var_os("WARPBOOK_EXERCISES").filter(|set| !set.is_empty()).map(PathBuf::from), &here)
}

fn find_folder(set: Option<PathBuf>, here: &Path) -> Result<PathBuf> {
    if let Some(folder) = set {
        return match folder.is_dir() {
            true => Ok(folder),
            false => Err(Error::Setting(format!(
                "WARPBOOK_EXERCISES is {}, which is not a folder. Set it to the folder that contains E01_first_kernel.",
                folder.display()
            ))),
        };
    }
    let mut candidates = here.ancestors().map(|folder| folder.join("notebooks").join("exercises"));
    candidates.find(|folder| folder.is_dir()).ok_or_else(|| {
        Error::Setting(format!(
            "There is no folder notebooks/exercises in {} or above it. Change to Warpbook's folder, or set WARPBOOK_EXERCISES to the folder of the exercises.",
            here.display()
        ))
    })
}

/// The texts of one exercise.
#[derive(Debug, Clone)]
pub(super) struct Texts {
    id: &'static str,
    folder: PathBuf,
    /// Path of the learner's file.
    work: PathBuf,
}

impl Texts {
    /// Finds the folder of an exercise in the folder of all exercises.
    pub(super) fn find(definition: &Definition, exercises: &Path) -> Result<Self> {
        let folder = exercises.join(definition.folder);
        if !folder.is_dir() {
            return Err(Error::Setting(format!(
                "The exercise {} has no folder {}. Is {} the folder of this version's exercises?",
                definition.id,
                folder.display(),
                exercises.display()
            )));
        }
        let work = exercises.parent().unwrap_or(exercises).join("work").join(format!("{}.cu", definition.id));
        Ok(Self { id: definition.id, folder, work })
    }

    /// Reads a text file of the exercise; `None` if there is no such file.
    fn optional(&self, name: &str) -> Result<Option<String>> {
        let path = self.folder.join(name);
        match path.is_file() {
            true => read_text(&path).map(Some),
            false => Ok(None),
        }
    }

    /// Reads a text file of the exercise, which must exist.
    pub(super) fn read(&self, name: &str) -> Result<String> {
        let missing = || format!("The exercise {} has no file {}.", self.id, self.folder.join(name).display());
        self.optional(name)?.ok_or_else(|| Error::Setting(missing()))
    }

    /// Reads the hints; the first is a question, and the last almost gives the line of code.
    pub(super) fn hints(&self) -> Result<Vec<String>> {
        let path = self.folder.join("hints.toml");
        let Some(text) = self.optional("hints.toml")? else { return Ok(Vec::new()) };
        let wrong = |why: String| Error::Setting(format!("{} cannot be read: {why}", path.display()));
        let table = toml::de::DeTable::parse(&text).map_err(|why| wrong(why.to_string()))?;
        let hints = table.get_ref().get("hints").and_then(|hints| hints.get_ref().as_array());
        let hints = hints.ok_or_else(|| wrong("it has no list `hints`.".into()))?;
        Ok(hints.iter().filter_map(|hint| hint.get_ref().as_str()).map(str::to_owned).collect())
    }

    /// Reads the solution of the exercise.
    pub(super) fn solution(&self) -> Result<String> {
        self.optional("solution.cu")?.ok_or_else(|| {
            Error::Setting(format!(
                "There is no solution of {} here: this is a hand-out. Ask your instructor.",
                self.id
            ))
        })
    }

    /// Returns the path of the learner's file.
    pub(super) fn work(&self) -> &Path {
        &self.work
    }

    /// Copies the stub to the learner's file, unless the file exists.
    pub(super) fn open(&self) -> Result<PathBuf> {
        let stub = self.read("stub.cu")?;
        let error = |why| Error::Write { path: self.work.clone(), why };
        if let Some(folder) = self.work.parent() {
            std::fs::create_dir_all(folder).map_err(error)?;
        }
        // If two processes open the exercise at the same time, only one of them writes, so nobody's work is overwritten.
        match File::create_new(&self.work) {
            Ok(mut file) => file.write_all(stub.as_bytes()).map_err(error)?,
            Err(why) if why.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(why) => return Err(error(why)),
        }
        Ok(self.work.clone())
    }

    /// Renames the learner's file and puts the stub in its place. Returns the new name of the old file.
    pub(super) fn reset(&self) -> Result<Option<PathBuf>> {
        let error = |why| Error::Write { path: self.work.clone(), why };
        let mut aside = None;
        if self.work.is_file() {
            let names = (1u32..).map(|n| self.work.with_file_name(format!("{}.{n}.cu", self.id)));
            let free = names.take(100_000).find(|path| !path.exists());
            let free = free.ok_or_else(|| error(std::io::Error::other("too many old files lie next to it")))?;
            std::fs::rename(&self.work, &free).map_err(error)?;
            aside = Some(free);
        }
        self.open()?;
        Ok(aside)
    }
}

/// Reads a text file of a learner or of an exercise.
pub(super) fn read_text(path: &Path) -> Result<String> {
    let error = |why| Error::Read { path: path.to_owned(), why };
    let bytes = warpbook_device::read_file(path, MOST_BYTES).map_err(error)?;
    String::from_utf8(bytes).map_err(|why| error(std::io::Error::other(format!("it is not UTF-8 text ({why})"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_is_named_or_the_nearest_above() {
        let root = tempfile::tempdir().unwrap();
        let exercises = root.path().join("notebooks").join("exercises");
        let deep = root.path().join("notebooks").join("deep").join("er");
        std::fs::create_dir_all(&exercises).unwrap();
        std::fs::create_dir_all(&deep).unwrap();
        assert_eq!(find_folder(None, &deep).unwrap(), exercises);
        assert_eq!(find_folder(Some(deep.clone()), root.path()).unwrap(), deep);
        let error = find_folder(Some(root.path().join("no")), &deep).unwrap_err().to_string();
        assert!(error.contains("WARPBOOK_EXERCISES is"), "{error}");
        let elsewhere = tempfile::tempdir().unwrap();
        let error = find_folder(None, elsewhere.path()).unwrap_err().to_string();
        assert!(error.contains("notebooks/exercises") && error.contains("WARPBOOK_EXERCISES"), "{error}");
    }
}
