//! NVRTC, which compiles CUDA C++ at run time.

use crate::Result;
use crate::libraries::library::Library;
use crate::libraries::loader::{Loadable, Loaded, SharedLibrary, Status, library, text};
use std::ffi::{CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

type Program = *mut c_void;

library! {
    /// The functions of nvrtc.h that are used; NVRTC 11.1 and later has all of them.
    struct NvrtcCalls {
        fn version(*mut c_int, *mut c_int) -> Status = "nvrtcVersion";
        fn error_string(Status) -> *const c_char = "nvrtcGetErrorString";
        fn create(
            *mut Program,
            *const c_char,
            *const c_char,
            c_int,
            *const *const c_char,
            *const *const c_char,
        ) -> Status = "nvrtcCreateProgram";
        fn destroy(*mut Program) -> Status = "nvrtcDestroyProgram";
        fn compile(Program, c_int, *const *const c_char) -> Status = "nvrtcCompileProgram";
        fn log_size(Program, *mut usize) -> Status = "nvrtcGetProgramLogSize";
        fn log(Program, *mut c_char) -> Status = "nvrtcGetProgramLog";
        fn cubin_size(Program, *mut usize) -> Status = "nvrtcGetCUBINSize";
        fn cubin(Program, *mut c_char) -> Status = "nvrtcGetCUBIN";
        fn ptx_size(Program, *mut usize) -> Status = "nvrtcGetPTXSize";
        fn ptx(Program, *mut c_char) -> Status = "nvrtcGetPTX";
    }
}

/// A loaded NVRTC.
#[derive(Clone)]
pub struct Nvrtc(Arc<OpenedNvrtc>);

struct OpenedNvrtc {
    calls: NvrtcCalls,
    file: SharedLibrary,
    version: (u32, u32),
}

impl std::fmt::Debug for Nvrtc {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Nvrtc({}.{} at {})", self.version().0, self.version().1, self.path().display())
    }
}

/// NVRTC is loaded once per process: a library keeps its own state, and a second search would waste time.
static LOADED: Loaded<OpenedNvrtc> = Loaded::new();

impl Loadable for OpenedNvrtc {
    const WHICH: Library = Library::Nvrtc;

    fn open(path: &Path) -> Result<Self, String> {
        preload_builtins(path);
        let file = SharedLibrary::open(path)?;
        let calls = NvrtcCalls::load(&file.library)?;
        let (mut major, mut minor) = (0, 0);
        // SAFETY: both pointers point to live integers.
        let status = unsafe { (calls.version)(&raw mut major, &raw mut minor) };
        if status != 0 {
            return Err(format!("nvrtcVersion returned {status}"));
        }
        Ok(Self { calls, file, version: (major.unsigned_abs(), minor.unsigned_abs()) })
    }

    fn cuda_major(&self) -> Option<u32> {
        Some(self.version.0)
    }

    /// Unlike other libraries' variables, `WARPBOOK_NVRTC` names the file itself, not its folder.
    fn file_in(place: &Path) -> Result<PathBuf, String> {
        Ok(place.to_owned())
    }
}

impl Nvrtc {
    /// Finds and loads NVRTC. If `WARPBOOK_NVRTC` is set, it must name the library's file. Otherwise these are searched in order: a `.venv` above the
    /// working directory, `VIRTUAL_ENV`, `CONDA_PREFIX`, the loader's own search path, `CUDA_HOME`, `CUDA_PATH` and `/usr/local/cuda`.
    ///
    /// `driver_cuda` is the newest CUDA that the driver supports. An NVRTC of a later major version is skipped, because the driver cannot load its code.
    ///
    /// # Errors
    /// [`Error::Library`](crate::Error::Library) if the library was not found, or if `WARPBOOK_NVRTC` names a file that does not load.
    pub fn load(driver_cuda: Option<(u32, u32)>) -> Result<Self> {
        LOADED.load(driver_cuda).map(Self)
    }

    /// Returns the path of the library.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.file.path
    }

    /// Returns the version of the library: (major, minor).
    #[must_use]
    pub fn version(&self) -> (u32, u32) {
        self.0.version
    }

    /// Compiles a source to a cubin. `Ok` includes the log; `Err` is the log of a failed compilation. Threads compile at the same time unless one of
    /// them requests to be `alone`.
    pub(crate) fn compile(
        &self,
        source: &str,
        name: &str,
        headers: &[(&str, &str)],
        options: &[String],
        alone: bool,
    ) -> Result<Compilation, String> {
        static TURNS: RwLock<()> = RwLock::new(());
        static RUNNING: AtomicU64 = AtomicU64::new(0);
        static STARTED: AtomicU64 = AtomicU64::new(0);
        let text = |s: &str| CString::new(s).map_err(|_| format!("{name}: the source holds a zero byte"));
        let (source, c_name) = (text(source)?, text(name)?);
        let header_names = headers.iter().map(|(n, _)| text(n)).collect::<Result<Vec<_>, _>>()?;
        let header_texts = headers.iter().map(|(_, t)| text(t)).collect::<Result<Vec<_>, _>>()?;
        let is_virtual = options.iter().any(|option| option.contains("=compute_"));
        // NVRTC's own cache loads the driver, and crashes if the driver is incomplete.
        let no_cache = (self.version() >= (12, 9)).then_some("--no-cache");
        let options = options.iter().map(String::as_str).chain(no_cache).map(text).collect::<Result<Vec<_>, _>>()?;
        let pointers = |v: &[CString]| v.iter().map(|s| s.as_ptr()).collect::<Vec<_>>();
        let (names, texts, opts) = (pointers(&header_names), pointers(&header_texts), pointers(&options));
        let count = |n: usize| c_int::try_from(n).map_err(|_| "too many headers or options".to_owned());

        let mut program: Program = std::ptr::null_mut();
        // SAFETY: `program` is live, and every other pointer points to a zero-terminated string, or to an array of pointers to such strings, that lives past
        // the call.
        let status = unsafe {
            (self.0.calls.create)(
                &raw mut program,
                source.as_ptr(),
                c_name.as_ptr(),
                count(names.len())?,
                texts.as_ptr(),
                names.as_ptr(),
            )
        };
        self.check(status)?;
        let program = OwnedProgram { program, nvrtc: self };
        let opts_len = count(opts.len())?;
        let _turn = if alone {
            (Some(TURNS.write().unwrap_or_else(PoisonError::into_inner)), None)
        } else {
            (None, Some(TURNS.read().unwrap_or_else(PoisonError::into_inner)))
        };
        let (others, number) = (RUNNING.fetch_add(1, Ordering::SeqCst), STARTED.fetch_add(1, Ordering::SeqCst) + 1);
        // SAFETY: the program and the options are live.
        let compiled = unsafe { (self.0.calls.compile)(program.program, opts_len, opts.as_ptr()) };
        RUNNING.fetch_sub(1, Ordering::SeqCst);
        let was_alone = others == 0 && STARTED.load(Ordering::SeqCst) == number;
        let log = String::from_utf8_lossy(&program.read(self.0.calls.log_size, self.0.calls.log)?).into_owned();
        let log = log.trim_end_matches('\0').to_owned();
        if let Err(why) = self.check(compiled) {
            return Err(if log.trim().is_empty() { why } else { log });
        }
        let code = if is_virtual {
            program.read(self.0.calls.ptx_size, self.0.calls.ptx)?
        } else {
            program.read(self.0.calls.cubin_size, self.0.calls.cubin)?
        };
        Ok(Compilation { code, log, was_alone })
    }

    fn check(&self, status: Status) -> Result<(), String> {
        if status == 0 {
            return Ok(());
        }
        // SAFETY: NVRTC returns a static string, or null for a code that it does not know.
        let text = unsafe { text((self.0.calls.error_string)(status)) };
        Err(text.unwrap_or_else(|| format!("NVRTC returned the error {status}")))
    }
}

/// The result of a successful compilation.
pub(crate) struct Compilation {
    /// A cubin, or PTX with a zero byte at its end.
    pub code: Vec<u8>,
    pub log: String,
    /// True if no other thread compiled at the same time.
    pub was_alone: bool,
}

/// An NVRTC program, destroyed when this value is dropped.
struct OwnedProgram<'a> {
    program: Program,
    nvrtc: &'a Nvrtc,
}

impl OwnedProgram<'_> {
    fn read(
        &self,
        size: unsafe extern "C" fn(Program, *mut usize) -> Status,
        get: unsafe extern "C" fn(Program, *mut c_char) -> Status,
    ) -> Result<Vec<u8>, String> {
        let mut bytes = 0usize;
        // SAFETY: the program is live, and the pointer points to a live integer.
        self.nvrtc.check(unsafe { size(self.program, &raw mut bytes) })?;
        let mut out = vec![0u8; bytes];
        // SAFETY: `out` has the size that NVRTC has just returned.
        self.nvrtc.check(unsafe { get(self.program, out.as_mut_ptr().cast()) })?;
        Ok(out)
    }
}

impl Drop for OwnedProgram<'_> {
    fn drop(&mut self) {
        // SAFETY: the program was created by this NVRTC and is not used again.
        unsafe { (self.nvrtc.0.calls.destroy)(&raw mut self.program) };
    }
}

/// Loads NVRTC's builtins library. NVRTC opens it by its bare name; outside the loader's search path that works only if it is already loaded.
fn preload_builtins(path: &Path) {
    let Some(folder) = path.parent().filter(|p| !p.as_os_str().is_empty()) else { return };
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if (name.starts_with("libnvrtc-builtins.so") || name.starts_with("nvrtc-builtins64")) && !name.contains("alt") {
            // The library is deliberately leaked, so that it stays loaded for the rest of the process.
            let _ = SharedLibrary::open(entry.path()).map(std::mem::forget);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::libraries::loader::tests::errors_say_what_to_do;

    #[test]
    fn a_missing_library_is_an_error_with_its_remedy() {
        errors_say_what_to_do::<OpenedNvrtc>(&["libnvrtc.so.13"]);
    }
}
