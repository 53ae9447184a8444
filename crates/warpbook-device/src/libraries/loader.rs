//! Finds and loads shared libraries, and declares their functions.
//!
//! cudarc's own loaders do not know library names of CUDA versions later than the one they are pinned to, do not search pip's folders, and panic if a
//! library or one of its functions is missing. Here, both cases are errors with a remedy.

use crate::libraries::library::Library;
use crate::libraries::places::variable;
use crate::{Error, Result};
use std::error::Error as _;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The status code that a library's function returns; 0 means success.
pub(crate) type Status = c_int;
/// A pointer to an object that only the library may access.
pub(crate) type Handle = *mut c_void;
/// The type of `cublasGetProperty`, and of the corresponding functions in other libraries.
pub(crate) type GetProperty = unsafe extern "C" fn(c_int, *mut c_int) -> Status;

/// Declares a struct with the functions of a library that are used, each with its type in the library's header and its exported name. `load` looks up all
/// of them. Functions that older versions lack are marked `optional`.
macro_rules! library {
    (
        $(#[$about:meta])*
        $visibility:vis struct $calls:ident {
            $($(#[$doc:meta])* fn $field:ident($($argument:ty),* $(,)?) $(-> $result:ty)? = $symbol:literal $(, $optional:ident)?;)*
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy)]
        $visibility struct $calls {
            $($(#[$doc])* pub $field: library!(@type ($($optional)?) unsafe extern "C" fn($($argument),*) $(-> $result)?),)*
        }

        impl $calls {
            /// Looks up all functions. The error names the first one that the library lacks.
            $visibility fn load(library: &libloading::Library) -> Result<Self, String> {
                Ok(Self { $($field: library!(@find ($($optional)?) library, $symbol)),* })
            }
        }
    };
    (@type () $function:ty) => { $function };
    (@type (optional) $function:ty) => { Option<$function> };
    (@find () $library:ident, $symbol:literal) => {
        // SAFETY: the field has the type that the library's header declares for the function.
        unsafe { $crate::libraries::loader::function($library, $symbol) }.map_err(|lacks| format!("it {lacks}"))?
    };
    (@find (optional) $library:ident, $symbol:literal) => {
        // SAFETY: the field has the type that the library's header declares for the function.
        unsafe { $crate::libraries::loader::function($library, $symbol) }.ok()
    };
}
pub(crate) use library;

/// Returns a function of a library, or an error if the library lacks it.
///
/// # Safety
/// `F` must be the type of the function.
pub(crate) unsafe fn function<F: Copy>(library: &libloading::Library, name: &str) -> Result<F, String> {
    // SAFETY: the caller guarantees that `F` is the function's type.
    unsafe { library.get::<F>(name) }.map(|function| *function).map_err(|_| format!("lacks {name}"))
}

/// A shared library that stays loaded until this value is dropped. Its functions must not be called after that.
#[derive(Debug)]
pub(crate) struct SharedLibrary {
    pub library: libloading::Library,
    pub path: PathBuf,
}

impl SharedLibrary {
    pub fn open(path: impl AsRef<Path>) -> Result<Self, String> {
        let path = path.as_ref().to_owned();
        // SAFETY: the library is one of NVIDIA's or one that the user has named; loading it runs its initialisers, which have no preconditions.
        let library = unsafe { libloading::Library::new(&path) };
        // The error's own message says only that loading failed; its source gives the reason.
        let library = library.map_err(|e| e.source().map_or_else(|| e.to_string(), ToString::to_string))?;
        Ok(Self { library, path })
    }
}

/// A library from NVIDIA that [`Loaded`] can search for.
pub(crate) trait Loadable: Sized {
    const WHICH: Library;

    /// Loads the library from a file.
    fn open(path: &Path) -> Result<Self, String>;

    /// Returns the major version of the CUDA that the library was built for. The library is skipped if the driver's CUDA is older.
    fn cuda_major(&self) -> Option<u32> {
        None
    }

    /// Returns the library's file in the folder that its environment variable names.
    fn file_in(folder: &Path) -> Result<PathBuf, String> {
        let about = Self::WHICH.about();
        about.files_in(folder).into_iter().next().ok_or_else(|| format!("{} is not in this folder", about.file))
    }
}

/// A library that is searched for on each request until it is found, and then kept for the rest of the process.
pub(crate) struct Loaded<T>(Mutex<Option<Arc<T>>>);

impl<T: Loadable> Loaded<T> {
    pub const fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// Returns the library. If its environment variable is set, only that location is tried; otherwise pip's folders, the system's loader and the
    /// toolkits are searched.
    ///
    /// # Errors
    /// If the library is not found, or no file of it works.
    pub fn load(&self, driver_cuda: Option<(u32, u32)>) -> Result<Arc<T>> {
        let mut loaded = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(library) = &*loaded {
            return Ok(library.clone());
        }
        let about = T::WHICH.about();
        let library = Arc::new(match variable(about.variable) {
            Some(place) => named::<T>(&place)?,
            None => find::<T>(&about.candidates(), driver_cuda)?,
        });
        *loaded = Some(library.clone());
        Ok(library)
    }
}

/// Loads the library from a location that the user named, and tries no other.
fn named<T: Loadable>(place: &Path) -> Result<T> {
    T::file_in(place).and_then(|file| T::open(&file)).map_err(|why| failed::<T>(place, why))
}

/// Loads the first file that works and was not built for a later CUDA than the driver's. If there is none, the error describes the first file that exists
/// but does not work.
fn find<T: Loadable>(candidates: &[PathBuf], driver_cuda: Option<(u32, u32)>) -> Result<T> {
    let fits =
        |library: &T| driver_cuda.zip(library.cuda_major()).is_none_or(|((major, _), made_for)| made_for <= major);
    let mut fault = None;
    for path in candidates {
        match T::open(path) {
            Ok(library) if fits(&library) => return Ok(library),
            // For a bare name, the loader reports only that the library cannot be opened, even if the file exists.
            Err(why) if fault.is_none() && (path.exists() || SharedLibrary::open(path).is_ok()) => {
                fault = Some((path.clone(), why));
            }
            Ok(_) | Err(_) => {}
        }
    }
    Err(Error::Library { which: T::WHICH, driver_cuda, fault })
}

/// Returns the error for a library that exists but does not work.
pub(crate) fn failed<T: Loadable>(place: &Path, why: String) -> Error {
    Error::Library { which: T::WHICH, driver_cuda: None, fault: Some((place.to_owned(), why)) }
}

/// Copies a string that one of NVIDIA's libraries returned; `None` for null, which they return for unknown values.
///
/// # Safety
/// The pointer must be null or point to a zero-terminated string.
pub(crate) unsafe fn text(string: *const c_char) -> Option<String> {
    // SAFETY: the caller guarantees that a pointer that is not null points to a zero-terminated string.
    (!string.is_null()).then(|| unsafe { CStr::from_ptr(string) }.to_string_lossy().into_owned())
}

/// Reads the library's version from its properties `MAJOR_VERSION`, `MINOR_VERSION` and `PATCH_LEVEL`.
pub(crate) fn version(get: GetProperty) -> Option<(u32, u32, u32)> {
    let part = |which| {
        let mut value = 0;
        // SAFETY: the pointer points to `value`, which is live.
        (unsafe { get(which, &raw mut value) } == 0).then(|| value.unsigned_abs())
    };
    Some((part(0)?, part(1)?, part(2)?))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns the library if it is installed; otherwise reports that the test is skipped and returns `None`.
    pub fn installed<T: Loadable>(loaded: &Loaded<T>, test: &str) -> Option<Arc<T>> {
        match loaded.load(None) {
            Ok(library) => Some(library),
            Err(why) if why.is_missing(T::WHICH) => {
                let name = T::WHICH.about().name;
                let needs = format!("needs {name}, which is installed for a GPU");
                crate::testing::skip(&format!("{test} of {name}"), &needs, why);
                None
            }
            Err(why) => panic!("{why}"),
        }
    }

    /// Builds a shared library from C source, with the compiler that Rust uses for linking.
    fn compile(folder: &Path, text: &str, file: &str) {
        std::fs::write(folder.join("library.c"), text).unwrap();
        let mut command = std::process::Command::new("cc");
        let made = command.args(["-shared", "-fPIC", "-o", file, "library.c"]).current_dir(folder).status();
        assert!(made.is_ok_and(|status| status.success()), "cc, with which Rust links, is not there");
    }

    /// Checks the errors for a library that is missing, is not a library, or lacks its functions. `files` are the library's file and those that must be
    /// in the same folder.
    pub fn errors_say_what_to_do<T: Loadable>(files: &[&str]) {
        let about = T::WHICH.about();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(files[0]);
        let nowhere = [PathBuf::from("/nowhere").join(files[0])];
        let missing = |driver| find::<T>(&nowhere, driver).err().map(|e| e.to_string()).unwrap_or_default();
        let [package, of_12] = about.packages.map(|package| format!("`pip install {package}`"));
        assert!(missing(None).contains(&package) && missing(None).contains(about.variable), "{}", missing(None));
        assert!(missing(Some((13, 1))).contains(&package) && missing(Some((12, 4))).contains(&of_12));
        let place = if T::WHICH == Library::Nvrtc { file.as_path() } else { folder.path() };
        let unusable = |error: Option<Error>, why: &str| {
            let sentence = error.map(|e| e.to_string()).unwrap_or_default();
            let parts = [about.name, "cannot be used", &*folder.path().to_string_lossy(), why];
            assert!(parts.iter().all(|part| sentence.contains(part)), "{why}: {sentence}");
            assert!(sentence.contains("pip install --force-reinstall"), "{sentence}");
        };
        unusable(named::<T>(place).err(), if place == file { "cannot open" } else { "in this folder" });
        files.iter().for_each(|file| std::fs::write(folder.path().join(file), "no library").unwrap());
        unusable(named::<T>(place).err(), "");
        unusable(find::<T>(std::slice::from_ref(&file), None).err(), "");
        if cfg!(target_os = "linux") {
            files.iter().for_each(|file| compile(folder.path(), "int none;", file));
            let lacks = ": it lacks ";
            unusable(named::<T>(place).err(), lacks);
            unusable(find::<T>(&[file], None).err(), lacks);
        }
    }

    library! {
        struct AnswerCalls {
            fn answer() -> c_int = "answer";
            fn nothing() -> c_int = "nothing", optional;
        }
    }

    /// A mock library with one function, which returns the CUDA version.
    struct Answer(u32);

    impl Loadable for Answer {
        const WHICH: Library = Library::Nccl;

        fn open(path: &Path) -> Result<Self, String> {
            let file = SharedLibrary::open(path)?;
            let calls = AnswerCalls::load(&file.library)?;
            assert!(calls.nothing.is_none());
            // SAFETY: the library is loaded, and the function has no preconditions.
            Ok(Self(unsafe { (calls.answer)() }.unsigned_abs()))
        }

        fn cuda_major(&self) -> Option<u32> {
            Some(self.0)
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_named_folder_has_the_library_or_says_what_is_wrong() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("libnccl.so.2");
        let sentence = |answer: Result<Answer>| answer.map(|a| a.0).map_err(|e| e.to_string());
        assert!(sentence(named(folder.path())).unwrap_err().contains("libnccl.so.2 is not in this folder"));
        compile(folder.path(), "int question(void) { return 0; }", "libnccl.so.2");
        assert!(sentence(named(folder.path())).unwrap_err().contains("cannot be used: it lacks answer."));
        std::fs::remove_file(&file).unwrap();
        compile(folder.path(), "int answer(void) { return 13; }", "libnccl.so.2");
        assert_eq!(sentence(named(folder.path())), Ok(13));
        // A broken library is skipped if another one works, and reported otherwise.
        let broken = folder.path().join("broken");
        std::fs::write(&broken, "no library").unwrap();
        let all = [PathBuf::from("/nowhere/libnccl.so.2"), broken, file];
        assert_eq!(sentence(find(&all, Some((13, 0)))), Ok(13));
        let older = sentence(find(&all, Some((12, 9)))).unwrap_err();
        assert!(older.contains("broken cannot be used"), "{older}");
        assert!(sentence(find(&all[2..], Some((12, 9)))).unwrap_err().contains("pip install nvidia-nccl-cu12"));
    }
}
