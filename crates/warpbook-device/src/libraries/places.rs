//! Folders with NVIDIA's libraries that the loader does not search: those of pip and of the CUDA toolkit.

use std::path::{Path, PathBuf};

/// Returns the files of a folder whose names are `wanted`, with the newest version first.
pub(crate) fn newest_in(folder: &Path, wanted: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut found: Vec<PathBuf> =
        entries.flatten().filter(|e| wanted(&e.file_name().to_string_lossy())).map(|e| e.path()).collect();
    found.sort();
    found.reverse();
    found
}

/// Reads an environment variable that names a path.
pub(crate) fn variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from)
}

/// Returns the folders where pip installs packages: those of any `.venv` in or above the working directory, and of the
/// active environments.
pub(crate) fn site_packages() -> Vec<PathBuf> {
    let mut environments: Vec<PathBuf> = Vec::new();
    if let Ok(here) = std::env::current_dir() {
        environments.extend(here.ancestors().map(|a| a.join(".venv")));
    }
    environments.extend(["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(variable));
    environments.iter().flat_map(|e| package_folders(e)).collect()
}

fn package_folders(environment: &Path) -> Vec<PathBuf> {
    let mut found = vec![environment.join("Lib/site-packages")];
    if let Ok(entries) = std::fs::read_dir(environment.join("lib")) {
        found.extend(entries.flatten().map(|e| e.path().join("site-packages")));
    }
    found.retain(|p| p.is_dir());
    found
}

/// Returns the folders that may contain a CUDA toolkit.
pub(crate) fn toolkits() -> Vec<PathBuf> {
    [variable("CUDA_HOME"), variable("CUDA_PATH"), Some("/usr/local/cuda".into())].into_iter().flatten().collect()
}
