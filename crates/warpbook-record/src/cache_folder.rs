use std::env::var_os;
use std::path::PathBuf;

/// Returns the folder where Warpbook keeps files that it can create or download again, such as compiled kernels and data sets: `WARPBOOK_CACHE`, or `warpbook`
/// in the user's cache folder. Returns `None` if neither folder is known, or if `WARPBOOK_CACHE` is empty, which turns caches off.
#[must_use]
pub fn cache_folder() -> Option<PathBuf> {
    if let Some(set) = var_os("WARPBOOK_CACHE") {
        return (!set.is_empty()).then(|| PathBuf::from(set));
    }
    let variable = |name| var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let user = variable("XDG_CACHE_HOME")
        .or_else(|| variable("LOCALAPPDATA"))
        .or_else(|| variable("HOME").map(|home| home.join(".cache")));
    user.map(|user| user.join("warpbook"))
}
