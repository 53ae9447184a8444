//! Where NVIDIA's libraries lie that no loader looks for: pip's folders and the toolkit's.

use crate::{Error, Result};
use std::ffi::{CStr, c_char, c_int};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// A library that is looked for until it is found, and then kept for the process.
pub(crate) struct Loaded<T>(Mutex<Option<T>>);

impl<T: Clone> Loaded<T> {
    pub const fn new() -> Self {
        Self(Mutex::new(None))
    }

    pub fn or_find(&self, find: impl FnOnce() -> Result<T>) -> Result<T> {
        let mut loaded = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(there) = &*loaded {
            return Ok(there.clone());
        }
        let found = find()?;
        *loaded = Some(found.clone());
        Ok(found)
    }

    /// The same of one that is searched for: `named` is given the place that the variable has, `find` what else there is to try.
    pub fn or_search(
        &self,
        search: &Search,
        named: impl FnOnce(&Path) -> Result<T>,
        find: impl FnOnce(&[PathBuf]) -> Result<T>,
    ) -> Result<T> {
        self.or_find(|| match variable(search.variable) {
            Some(place) => named(&place),
            None => find(&search.candidates()),
        })
    }
}

/// Where one of NVIDIA's libraries may lie.
pub(crate) struct Search {
    /// The variable of the environment that says where it is: nothing else will do then.
    pub variable: &'static str,
    /// Folders below `nvidia` in pip's.
    pub pip: &'static [&'static str],
    /// What the system's loader is asked for.
    pub names: &'static [&'static str],
    /// Folders of a toolkit.
    pub toolkit: &'static [&'static str],
    /// Whether a file of this name is the library.
    pub is_named: fn(&str) -> bool,
}

impl Search {
    /// The libraries of a folder, the newest first.
    pub fn files_in(&self, folder: &Path) -> Vec<PathBuf> {
        newest_in(folder, self.is_named)
    }

    /// What to try, in this order: pip's folders, the loader, the toolkits.
    pub fn candidates(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for site in site_packages() {
            found.extend(self.pip.iter().flat_map(|folder| self.files_in(&site.join("nvidia").join(folder))));
        }
        found.extend(self.names.iter().map(PathBuf::from));
        for toolkit in toolkits() {
            found.extend(self.toolkit.iter().flat_map(|folder| self.files_in(&toolkit.join(folder))));
        }
        found
    }
}

/// The library of a folder that was named, where nothing else will do: `file` finds it there, or says what is missing. `failed` makes the
/// error of what is wrong with the folder.
pub(crate) fn named<T>(
    folder: &Path,
    file: impl FnOnce(&Path) -> Result<PathBuf, String>,
    open: impl FnOnce(&Path) -> Result<T, String>,
    failed: impl FnOnce(PathBuf, String) -> Error,
) -> Result<T> {
    file(folder).and_then(|file| open(&file)).map_err(|why| failed(folder.to_owned(), why))
}

/// The file of this name in a folder, or that it is missing.
pub(crate) fn file_in(folder: &Path, name: &str) -> Result<PathBuf, String> {
    let file = folder.join(name);
    if file.exists() { Ok(file) } else { Err(format!("{name} is not in this folder")) }
}

/// The first library that loads and fits.
pub(crate) fn first<T>(
    candidates: &[PathBuf],
    open: impl Fn(&Path) -> Result<T, String>,
    fits: impl Fn(&T) -> bool,
) -> Option<T> {
    candidates.iter().filter_map(|path| open(path).ok()).find(fits)
}

/// A text of one of NVIDIA's libraries, which has none for what it does not know.
///
/// # Safety
/// It is null, or ends with a zero.
pub(crate) unsafe fn text(of: *const c_char) -> Option<String> {
    // SAFETY: as the caller says.
    (!of.is_null()).then(|| unsafe { CStr::from_ptr(of) }.to_string_lossy().into_owned())
}

/// `cublasGetProperty`, and the same function of other libraries.
pub(crate) type GetProperty = unsafe extern "C" fn(c_int, *mut c_int) -> c_int;

/// `MAJOR_VERSION`, `MINOR_VERSION` and `PATCH_LEVEL`.
pub(crate) fn version(get: GetProperty) -> Option<(u32, u32, u32)> {
    let part = |which| {
        let mut value = 0;
        // SAFETY: the pointer is to a live integer.
        (unsafe { get(which, &raw mut value) } == 0).then(|| value.unsigned_abs())
    };
    Some((part(0)?, part(1)?, part(2)?))
}

/// The files of a folder whose names are wanted, the newest version first.
pub(crate) fn newest_in(folder: &Path, wanted: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut found: Vec<PathBuf> =
        entries.flatten().filter(|e| wanted(&e.file_name().to_string_lossy())).map(|e| e.path()).collect();
    found.sort();
    found.reverse();
    found
}

/// A variable of the environment that names a path.
pub(crate) fn variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from)
}

/// The folders that pip installs into, of a `.venv` above the working directory and of the active environments.
pub(crate) fn site_packages() -> Vec<PathBuf> {
    let mut environments: Vec<PathBuf> = Vec::new();
    if let Ok(here) = std::env::current_dir() {
        environments.extend(here.ancestors().map(|a| a.join(".venv")));
    }
    environments.extend(["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(variable));
    environments.iter().flat_map(|e| of_environment(e)).collect()
}

fn of_environment(environment: &Path) -> Vec<PathBuf> {
    let mut found = vec![environment.join("Lib/site-packages")];
    if let Ok(entries) = std::fs::read_dir(environment.join("lib")) {
        found.extend(entries.flatten().map(|e| e.path().join("site-packages")));
    }
    found.retain(|p| p.is_dir());
    found
}

/// Where the CUDA toolkit may be.
pub(crate) fn toolkits() -> Vec<PathBuf> {
    [variable("CUDA_HOME"), variable("CUDA_PATH"), Some("/usr/local/cuda".into())].into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_folder_has_the_library_or_says_what_is_wrong() {
        let folder = tempfile::tempdir().unwrap();
        let open = |path: &Path| std::fs::read_to_string(path).map_err(|e| e.to_string());
        let of = |name: &str| {
            let failed = |path: PathBuf, why| Error::NcclFailed { path, why };
            named(folder.path(), |folder| file_in(folder, name), open, failed).map_err(|e| e.to_string())
        };
        std::fs::write(folder.path().join("libx.so"), "x").unwrap();
        std::fs::write(folder.path().join("libbad.so"), [0xff]).unwrap();
        assert_eq!(of("libx.so"), Ok("x".into()));
        let missing = of("liby.so").unwrap_err();
        assert!(missing.contains("liby.so is not in this folder"), "{missing}");
        assert!(missing.contains(&*folder.path().to_string_lossy()), "{missing}");
        assert!(of("libbad.so").unwrap_err().contains("cannot be used: stream did not contain valid UTF-8"));
    }
}
