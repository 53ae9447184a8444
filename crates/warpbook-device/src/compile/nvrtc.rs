//! NVRTC, loaded from wherever it is.
//!
//! cudarc's own loader knows the library's names up to the CUDA it is pinned to and panics where there is none; this one
//! also finds later ones, and those that pip installs, and says what is missing.

use crate::libraries::places::{self, Loaded, Search};
use crate::{Error, Result};
use libloading::Library;
use std::ffi::{CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

type Program = *mut c_void;
type Status = c_int;

/// The calls that are used; all are in NVRTC 11.1 and later.
struct Calls {
    version: unsafe extern "C" fn(*mut c_int, *mut c_int) -> Status,
    error_string: unsafe extern "C" fn(Status) -> *const c_char,
    create: unsafe extern "C" fn(
        *mut Program,
        *const c_char,
        *const c_char,
        c_int,
        *const *const c_char,
        *const *const c_char,
    ) -> Status,
    destroy: unsafe extern "C" fn(*mut Program) -> Status,
    compile: unsafe extern "C" fn(Program, c_int, *const *const c_char) -> Status,
    log_size: unsafe extern "C" fn(Program, *mut usize) -> Status,
    log: unsafe extern "C" fn(Program, *mut c_char) -> Status,
    cubin_size: unsafe extern "C" fn(Program, *mut usize) -> Status,
    cubin: unsafe extern "C" fn(Program, *mut c_char) -> Status,
}

/// A loaded NVRTC.
#[derive(Clone)]
pub struct Nvrtc {
    calls: Arc<Calls>,
    /// The library stays loaded as long as its functions can be called.
    _library: Arc<Library>,
    path: PathBuf,
    version: (u32, u32),
}

impl std::fmt::Debug for Nvrtc {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Nvrtc({}.{} at {})", self.version.0, self.version.1, self.path.display())
    }
}

/// Loaded once a process: compilers keep their own state, and a second search is wasted.
static LOADED: Loaded<Nvrtc> = Loaded::new();

const SEARCH: Search = Search {
    variable: "WARPBOOK_NVRTC",
    pip: &["cu13/lib", "cuda_nvrtc/lib", "cu13/bin/x86_64", "cuda_nvrtc/bin"],
    names: if cfg!(windows) {
        &["nvrtc64_130_0.dll", "nvrtc64_120_0.dll"]
    } else {
        &["libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12"]
    },
    toolkit: &["lib64", "targets/x86_64-linux/lib", "bin"],
    is_named: |name| {
        (name.starts_with("libnvrtc.so") || (name.starts_with("nvrtc64_") && name.ends_with(".dll")))
            && !name.contains("alt")
    },
};

impl Nvrtc {
    /// Finds and loads NVRTC: `WARPBOOK_NVRTC`, a `.venv` above the working directory, `VIRTUAL_ENV`, `CONDA_PREFIX`,
    /// the loader's own search, `CUDA_HOME`, `CUDA_PATH` and `/usr/local/cuda`, in this order.
    ///
    /// `driver_cuda` is the newest CUDA that the driver supports: an NVRTC of a later major version makes code that
    /// the driver does not load, so it is passed over.
    ///
    /// # Errors
    /// [`Error::NoNvrtc`] where there is none, [`Error::NvrtcFailed`] where `WARPBOOK_NVRTC` names one that does not load.
    pub fn load(driver_cuda: Option<(u32, u32)>) -> Result<Self> {
        let fits = |n: &Self| driver_cuda.is_none_or(|(major, _)| n.version.0 <= major);
        let named = |path: &Path| Self::open(path).map_err(|why| Error::NvrtcFailed { path: path.to_owned(), why });
        LOADED.or_search(&SEARCH, named, |candidates| {
            places::first(candidates, Self::open, fits).ok_or(Error::NoNvrtc { package: package(driver_cuda) })
        })
    }

    /// Where it was found.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// (major, minor).
    #[must_use]
    pub fn version(&self) -> (u32, u32) {
        self.version
    }

    fn open(path: &Path) -> Result<Self, String> {
        preload_builtins(path);
        // SAFETY: loading NVIDIA's library runs its initialisers, which have no preconditions.
        let library = unsafe { Library::new(path) }.map_err(|e| e.to_string())?;
        macro_rules! call {
            ($name:literal) => {
                // SAFETY: the type of the field is the function's in nvrtc.h.
                *unsafe { library.get($name) }.map_err(|e| e.to_string())?
            };
        }
        let calls = Calls {
            version: call!(b"nvrtcVersion\0"),
            error_string: call!(b"nvrtcGetErrorString\0"),
            create: call!(b"nvrtcCreateProgram\0"),
            destroy: call!(b"nvrtcDestroyProgram\0"),
            compile: call!(b"nvrtcCompileProgram\0"),
            log_size: call!(b"nvrtcGetProgramLogSize\0"),
            log: call!(b"nvrtcGetProgramLog\0"),
            cubin_size: call!(b"nvrtcGetCUBINSize\0"),
            cubin: call!(b"nvrtcGetCUBIN\0"),
        };
        let (mut major, mut minor) = (0, 0);
        // SAFETY: both pointers are to live integers.
        let status = unsafe { (calls.version)(&raw mut major, &raw mut minor) };
        if status != 0 {
            return Err(format!("nvrtcVersion returned {status}"));
        }
        let version = (major.unsigned_abs(), minor.unsigned_abs());
        Ok(Self { calls: Arc::new(calls), _library: Arc::new(library), path: path.to_owned(), version })
    }

    /// Compiles to a cubin; gives the log in either case. `Err` holds the log of a failed compilation. Threads compile at the same time, unless one of
    /// them asks to be `alone`.
    pub(crate) fn compile(
        &self,
        source: &str,
        name: &str,
        headers: &[(&str, &str)],
        options: &[String],
        alone: bool,
    ) -> Result<Built, String> {
        static TURNS: RwLock<()> = RwLock::new(());
        static RUNNING: AtomicU64 = AtomicU64::new(0);
        static STARTED: AtomicU64 = AtomicU64::new(0);
        let text = |s: &str| CString::new(s).map_err(|_| format!("{name}: the source holds a zero byte"));
        let (source, c_name) = (text(source)?, text(name)?);
        let header_names = headers.iter().map(|(n, _)| text(n)).collect::<Result<Vec<_>, _>>()?;
        let header_texts = headers.iter().map(|(_, t)| text(t)).collect::<Result<Vec<_>, _>>()?;
        // NVRTC's own cache loads the driver, and crashes if that is not whole.
        let no_cache = (self.version >= (12, 9)).then_some("--no-cache");
        let options = options.iter().map(String::as_str).chain(no_cache).map(text).collect::<Result<Vec<_>, _>>()?;
        let pointers = |v: &[CString]| v.iter().map(|s| s.as_ptr()).collect::<Vec<_>>();
        let (names, texts, opts) = (pointers(&header_names), pointers(&header_texts), pointers(&options));
        let count = |n: usize| c_int::try_from(n).map_err(|_| "too many headers or options".to_owned());

        let mut program: Program = std::ptr::null_mut();
        // SAFETY: every pointer is to a zero-terminated string or an array of them that lives past the call.
        let status = unsafe {
            (self.calls.create)(
                &raw mut program,
                source.as_ptr(),
                c_name.as_ptr(),
                count(names.len())?,
                texts.as_ptr(),
                names.as_ptr(),
            )
        };
        self.check(status)?;
        let program = Owned { program, nvrtc: self };
        let opts_len = count(opts.len())?;
        let _turn = if alone {
            (Some(TURNS.write().unwrap_or_else(PoisonError::into_inner)), None)
        } else {
            (None, Some(TURNS.read().unwrap_or_else(PoisonError::into_inner)))
        };
        let (others, number) = (RUNNING.fetch_add(1, Ordering::SeqCst), STARTED.fetch_add(1, Ordering::SeqCst) + 1);
        // SAFETY: the program is live, and so are the options.
        let compiled = unsafe { (self.calls.compile)(program.program, opts_len, opts.as_ptr()) };
        RUNNING.fetch_sub(1, Ordering::SeqCst);
        let was_alone = others == 0 && STARTED.load(Ordering::SeqCst) == number;
        let log = String::from_utf8_lossy(&program.read(self.calls.log_size, self.calls.log)?).into_owned();
        let log = log.trim_end_matches('\0').to_owned();
        if let Err(why) = self.check(compiled) {
            return Err(if log.trim().is_empty() { why } else { log });
        }
        Ok(Built { cubin: program.read(self.calls.cubin_size, self.calls.cubin)?, log, was_alone })
    }

    fn check(&self, status: Status) -> Result<(), String> {
        if status == 0 {
            return Ok(());
        }
        // SAFETY: NVRTC returns a static string, or nothing for a code that it does not know.
        let text = unsafe { places::text((self.calls.error_string)(status)) };
        Err(text.unwrap_or_else(|| format!("NVRTC returned the error {status}")))
    }
}

/// What a compilation made.
pub(crate) struct Built {
    pub cubin: Vec<u8>,
    pub log: String,
    /// No other thread compiled meanwhile.
    pub was_alone: bool,
}

/// A program, destroyed with its owner.
struct Owned<'a> {
    program: Program,
    nvrtc: &'a Nvrtc,
}

impl Owned<'_> {
    fn read(
        &self,
        size: unsafe extern "C" fn(Program, *mut usize) -> Status,
        get: unsafe extern "C" fn(Program, *mut c_char) -> Status,
    ) -> Result<Vec<u8>, String> {
        let mut bytes = 0usize;
        // SAFETY: the program is live, the pointer is to a live integer.
        self.nvrtc.check(unsafe { size(self.program, &raw mut bytes) })?;
        let mut out = vec![0u8; bytes];
        // SAFETY: `out` has the size that NVRTC just asked for.
        self.nvrtc.check(unsafe { get(self.program, out.as_mut_ptr().cast()) })?;
        Ok(out)
    }
}

impl Drop for Owned<'_> {
    fn drop(&mut self) {
        // SAFETY: the program was created by this NVRTC and is not used again.
        unsafe { (self.nvrtc.calls.destroy)(&raw mut self.program) };
    }
}

/// The package of pip whose NVRTC fits a driver.
fn package(driver_cuda: Option<(u32, u32)>) -> &'static str {
    match driver_cuda {
        Some((12, _)) => "nvidia-cuda-nvrtc-cu12",
        _ => "nvidia-cuda-nvrtc",
    }
}

/// NVRTC opens its builtins by their bare name; outside the loader's path that only works when they are loaded already.
fn preload_builtins(path: &Path) {
    let Some(folder) = path.parent().filter(|p| !p.as_os_str().is_empty()) else { return };
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if (name.starts_with("libnvrtc-builtins.so") || name.starts_with("nvrtc-builtins64")) && !name.contains("alt") {
            // SAFETY: as of loading NVRTC itself; it is kept for the life of the process.
            if let Ok(library) = unsafe { Library::new(entry.path()) } {
                std::mem::forget(library);
            }
        }
    }
}
