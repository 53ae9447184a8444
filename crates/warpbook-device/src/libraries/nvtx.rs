//! Marks ranges of the program for NVIDIA's Nsight Systems, by the protocol of NVTX 3.
//!
//! NVTX consists of headers only. A tool names its library in `NVTX_INJECTION64_PATH`. The program loads that library and calls its `InitializeInjectionNvtx2`
//! with a function that returns tables; the tool then writes pointers to its own functions into the slots of these tables. The layouts are from
//! nvtx3/nvtxDetail/nvtxTypes.h. Without a tool nothing is loaded, and a range costs only a comparison.

use crate::libraries::loader::{SharedLibrary, function};
use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Environment variable that a tool sets to the path of its library.
const VARIABLE: &str = "NVTX_INJECTION64_PATH";
/// The table ids `NVTX_ETID_CALLBACKS` and `NVTX_ETID_VERSIONINFO`.
const CALLBACKS: u32 = 1;
const VERSION_INFO: u32 = 3;
/// Number of slots in the tables of the modules `NVTX_CB_MODULE_CORE`, `CUDA`, `OPENCL`, `CUDART`, `CORE2` and `SYNC`, which are numbered from 1. The first
/// slot of each table is unused. Only two functions of `CORE` are called, but a tool may expect the other slots to exist.
const SIZES: [usize; 6] = [16, 9, 15, 7, 16, 7];
const CORE: usize = 0;
/// The slots `NVTX_CBID_CORE_RangePushA` and `NVTX_CBID_CORE_RangePop`.
const PUSH: usize = 9;
const POP: usize = 11;
/// Largest number of slots in any module's table.
const MOST: usize = 16;
/// The protocol version, `NVTX_VERSION`.
const VERSION: u32 = 3;

type Slot = AtomicPtr<c_void>;
type GetExportTable = unsafe extern "C" fn(u32) -> *const c_void;
type Initialize = unsafe extern "C" fn(GetExportTable) -> c_int;
type Push = unsafe extern "C" fn(*const c_char) -> c_int;
type Pop = unsafe extern "C" fn() -> c_int;

/// Function slots, by module, that a tool fills with pointers to its functions.
static SLOTS: [[Slot; MOST]; SIZES.len()] =
    [const { [const { AtomicPtr::new(std::ptr::null_mut()) }; MOST] }; SIZES.len()];

/// The `NvtxFunctionTable` of each module: pointers to its slots, terminated by a null pointer.
#[repr(transparent)]
struct Tables([[*const Slot; MOST + 1]; SIZES.len()]);
// SAFETY: the tables never change, and point only to static variables, which are atomic.
unsafe impl Sync for Tables {}

static TABLES: Tables = {
    let mut tables = [[std::ptr::null::<Slot>(); MOST + 1]; SIZES.len()];
    let mut module = 0;
    while module < SIZES.len() {
        let mut i = 1;
        while i < SIZES[module] {
            tables[module][i] = &raw const SLOTS[module][i];
            i += 1;
        }
        module += 1;
    }
    Tables(tables)
};

/// The struct `NvtxExportTableCallbacks`.
#[repr(C)]
struct Callbacks {
    size: usize,
    table: unsafe extern "C" fn(c_int, *mut *const *const Slot, *mut c_uint) -> c_int,
}

/// The struct `NvtxExportTableVersionInfo`.
#[repr(C)]
struct VersionInfo {
    size: usize,
    version: u32,
    reserved: u32,
    set: unsafe extern "C" fn(u32),
}

static OF_CALLBACKS: Callbacks = Callbacks { size: size_of::<Callbacks>(), table };
static OF_VERSION: VersionInfo =
    VersionInfo { size: size_of::<VersionInfo>(), version: VERSION, reserved: 0, set: heard_version };

/// Gives the tool the slot table of a module; the tool calls this function.
unsafe extern "C" fn table(module: c_int, out: *mut *const *const Slot, size: *mut c_uint) -> c_int {
    let Some(module) = usize::try_from(module).ok().and_then(|m| m.checked_sub(1)).filter(|m| *m < SIZES.len()) else {
        return 0;
    };
    if !size.is_null() {
        // SAFETY: the pointer is not null, and the tool passes a live integer.
        unsafe { size.write(SIZES[module] as c_uint) };
    }
    if !out.is_null() {
        // SAFETY: the pointer is not null, and the tool passes a live pointer.
        unsafe { out.write(TABLES.0[module].as_ptr()) };
    }
    1
}

unsafe extern "C" fn heard_version(_: u32) {}

unsafe extern "C" fn export_table(id: u32) -> *const c_void {
    match id {
        CALLBACKS => (&raw const OF_CALLBACKS).cast(),
        VERSION_INFO => (&raw const OF_VERSION).cast(),
        _ => std::ptr::null(),
    }
}

/// A tool such as `nsys` that records the ranges.
#[derive(Debug)]
pub struct Nvtx {
    path: PathBuf,
    /// The loaded library of the tool; `None` if a test provides the functions.
    _file: Option<SharedLibrary>,
}

impl Nvtx {
    /// Returns the tool that this process runs under; it is attached once. `None` if there is no tool.
    #[must_use]
    pub fn tool() -> Option<&'static Self> {
        static TOOL: OnceLock<Result<Nvtx, String>> = OnceLock::new();
        TOOL.get_or_init(|| Self::attach(std::env::var_os(VARIABLE).map(PathBuf::from).as_deref())).as_ref().ok()
    }

    /// Returns the path of the library that the tool provides.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a range on this thread, which ends when the result is dropped. A name that contains a NUL character is not passed to the tool.
    pub fn range(&self, name: &str) -> NvtxRange {
        let push = SLOTS[CORE][PUSH].load(Ordering::Acquire);
        let Some(name) = CString::new(name).ok().filter(|_| !push.is_null()) else { return NvtxRange { open: false } };
        // SAFETY: the tool has written a function of this type to the slot, and the tool's library stays loaded. The name is zero-terminated.
        let depth = unsafe { std::mem::transmute::<*mut c_void, Push>(push)(name.as_ptr()) };
        NvtxRange { open: depth >= 0 }
    }

    fn attach(path: Option<&Path>) -> Result<Self, String> {
        let path = path.filter(|p| !p.as_os_str().is_empty()).ok_or("no tool")?;
        let file = SharedLibrary::open(path)?;
        // SAFETY: the type is NVTX's `NvtxInitializeInjectionNvtxFunc_t`.
        let initialize: Initialize = unsafe { function(&file.library, "InitializeInjectionNvtx2") }?;
        // SAFETY: the function is the tool's entry point, which follows the NVTX protocol.
        if !unsafe { Self::by(initialize) } {
            return Err("it refuses".into());
        }
        Ok(Self { path: path.to_owned(), _file: Some(file) })
    }

    /// Calls a tool's initialisation function, and returns true if the tool wants to take part.
    ///
    /// # Safety
    /// `initialize` must follow the NVTX protocol.
    unsafe fn by(initialize: Initialize) -> bool {
        // SAFETY: the caller guarantees that the function follows the protocol, and the tables that it requests are static.
        unsafe { initialize(export_table) != 0 }
    }
}

/// An open range, which ends when this value is dropped.
#[derive(Debug)]
#[must_use = "the range ends when this is dropped"]
pub struct NvtxRange {
    open: bool,
}

impl Drop for NvtxRange {
    fn drop(&mut self) {
        let pop = SLOTS[CORE][POP].load(Ordering::Acquire);
        if self.open && !pop.is_null() {
            // SAFETY: the tool has written a function of this type to the slot, and the tool's library stays loaded.
            unsafe { std::mem::transmute::<*mut c_void, Pop>(pop)() };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;
    use std::sync::Mutex;

    static HEARD: Mutex<Vec<String>> = Mutex::new(Vec::new());

    unsafe extern "C" fn push(name: *const c_char) -> c_int {
        // SAFETY: `range` passes a zero-terminated string.
        HEARD.lock().unwrap().push(unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned());
        0
    }

    unsafe extern "C" fn pop() -> c_int {
        HEARD.lock().unwrap().push("end".into());
        0
    }

    /// Plays the part of a tool: requests the tables and fills in its functions.
    unsafe extern "C" fn initialize(tables: GetExportTable) -> c_int {
        // SAFETY: these calls follow the NVTX protocol; another test compares the layouts of the structs with NVIDIA's headers.
        unsafe {
            let version = tables(VERSION_INFO).cast::<VersionInfo>().read();
            assert_eq!((version.size, version.version), (24, 3));
            (version.set)(1);
            assert!(tables(2).is_null() && tables(99).is_null());
            let callbacks = tables(CALLBACKS).cast::<Callbacks>().read();
            assert_eq!(callbacks.size, 16);
            let (mut table, mut size) = (std::ptr::null(), 0);
            for module in [-1, 0, 7] {
                assert_eq!((callbacks.table)(module, &raw mut table, &raw mut size), 0, "{module}");
            }
            for (place, functions) in SIZES.into_iter().enumerate().rev() {
                let module = place as c_int + 1;
                assert_eq!((callbacks.table)(module, &raw mut table, &raw mut size), 1);
                assert_eq!(size as usize, functions);
                let places = std::slice::from_raw_parts(table, functions + 1);
                assert!(places[0].is_null() && places[functions].is_null(), "{module}");
                assert!(places[1..functions].iter().all(|p| !p.is_null()), "{module}");
            }
            // `CORE` was requested last, so `table` is its table.
            let places = std::slice::from_raw_parts(table, SIZES[CORE]);
            // Each entry of the table is a pointer to a function pointer.
            (places[PUSH] as *mut *const c_void).write(push as *const c_void);
            (places[POP] as *mut *const c_void).write(pop as *const c_void);
        }
        1
    }

    #[test]
    fn a_tool_hears_ranges_and_nothing_is_loaded_without_one() {
        assert!(Nvtx::attach(None).is_err() && Nvtx::attach(Some(Path::new(""))).is_err());
        assert!(Nvtx::attach(Some(Path::new("/nowhere/libtool.so"))).is_err());
        let tool = Nvtx { path: "fake".into(), _file: None };
        drop(tool.range("before"));
        // SAFETY: `initialize` follows the NVTX protocol.
        assert!(unsafe { Nvtx::by(initialize) });
        {
            let _outer = tool.range("step");
            drop(tool.range("load"));
            drop(tool.range("with a \0 in it"));
        }
        assert_eq!(*HEARD.lock().unwrap(), ["step", "load", "end", "end"]);
    }

    /// The expected numbers are from nvtxTypes.h.
    #[test]
    fn layouts_are_those_of_the_headers() {
        use std::mem::offset_of;
        assert_eq!((size_of::<Callbacks>(), offset_of!(Callbacks, table)), (16, 8));
        assert_eq!((offset_of!(VersionInfo, version), offset_of!(VersionInfo, set)), (8, 16));
        assert_eq!(size_of_val(&TABLES.0[CORE]), 17 * size_of::<usize>());
        assert_eq!(size_of::<Slot>(), size_of::<usize>());
    }
}
