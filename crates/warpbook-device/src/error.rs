use std::fmt;
use std::path::PathBuf;

/// What can go wrong with a device, each with what to do about it.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no NVIDIA driver.
    #[error(
        "No NVIDIA driver was found (libcuda cannot be loaded). Install the NVIDIA driver, or run on the processor with --device cpu."
    )]
    NoDriver,
    /// The driver is older than the oldest that will do.
    #[error(
        "The NVIDIA driver supports CUDA {found}; Warpbook needs a driver for CUDA {needed} or later. Update the driver, or run with --device cpu."
    )]
    DriverTooOld {
        /// The CUDA version that the driver supports.
        found: String,
        /// The least that will do.
        needed: String,
    },
    /// There is a driver, and it refuses.
    #[error("The NVIDIA driver does not start: {0}. Check it with nvidia-smi, or run with --device cpu.")]
    DriverFailed(String),
    /// NVRTC cannot be loaded.
    #[error(
        "NVRTC, which compiles the kernels, was not found. Install it with `pip install {package}` (or the CUDA toolkit), or name the library in WARPBOOK_NVRTC."
    )]
    NoNvrtc {
        /// The package of pip that fits the driver.
        package: &'static str,
    },
    /// NVRTC is there and does not work.
    #[error(
        "NVRTC at {path} cannot be used: {why}. Install it again with `pip install --force-reinstall nvidia-cuda-nvrtc`."
    )]
    NvrtcFailed {
        /// Which library.
        path: PathBuf,
        /// What it said.
        why: String,
    },
    /// cuBLAS cannot be loaded.
    #[error(
        "cuBLAS, NVIDIA's library of matrix products, was not found. Install it with `pip install {package}` (or the CUDA toolkit), or name the folder with it and cuBLASLt in WARPBOOK_CUBLAS."
    )]
    NoCublas {
        /// The package of pip that fits the driver.
        package: &'static str,
    },
    /// cuBLAS is there and does not work.
    #[error(
        "cuBLAS at {path} cannot be used: {why}. Install it again with `pip install --force-reinstall nvidia-cublas` (nvidia-cublas-cu12 for a driver of CUDA 12)."
    )]
    CublasFailed {
        /// Which library, or which folder.
        path: PathBuf,
        /// What it said.
        why: String,
    },
    /// An index past the last device.
    #[error("There is no device cuda:{index}: {}. `warpbook devices` lists them.", count_sentence(*.count))]
    NoSuchDevice {
        /// The index asked for.
        index: u32,
        /// How many CUDA devices there are.
        count: u32,
    },
    /// A device was named in a way that means nothing.
    #[error("`{0}` names no device. Write cuda:0 (or another number), cpu, or best.")]
    BadChoice(String),
    /// More memory is needed than is free.
    #[error(
        "{what} needs {} of device memory, and {} are free of {}. Choose a smaller size.",
        bytes(*.needed), bytes(*.free), bytes(*.total)
    )]
    OutOfMemory {
        /// For what.
        what: String,
        /// Bytes needed.
        needed: u64,
        /// Bytes free.
        free: u64,
        /// Bytes in all.
        total: u64,
    },
    /// The kernel's source does not compile.
    #[error("{0}")]
    Compile(Box<CompileError>),
    /// A launch was refused or its kernel failed.
    #[error("The kernel {kernel} (grid {grid:?}, block {block:?}, {shared} bytes of dynamic shared memory) failed: {why}.{}", if *.sticky { RESTART } else { "" })]
    Launch {
        /// Its entry.
        kernel: String,
        /// Blocks.
        grid: [u32; 3],
        /// Threads.
        block: [u32; 3],
        /// Dynamic shared memory in bytes.
        shared: u32,
        /// The CUDA error.
        why: String,
        /// Whether the device can no longer be used by this process.
        sticky: bool,
    },
    /// Any other CUDA call failed.
    #[error("{what} failed: {why}.{}", if *.sticky { RESTART } else { "" })]
    Cuda {
        /// What was tried.
        what: String,
        /// The CUDA error.
        why: String,
        /// Whether the device can no longer be used by this process.
        sticky: bool,
    },
    /// An earlier kernel has ended the context.
    #[error("An earlier kernel failed ({0}) and took the CUDA context with it.{RESTART}")]
    ContextLost(String),
    /// Something that a kernel does not take.
    #[error("{what} {why}.")]
    Unsupported {
        /// The kernel, or its rung.
        what: String,
        /// Why not, as the rest of a sentence: "needs ...".
        why: String,
    },
    /// A call that needs a GPU was made on the processor.
    #[error("{0} needs a CUDA device; this lab runs on the processor.")]
    NeedsCuda(&'static str),
    /// The user asked to stop.
    #[error("Interrupted.")]
    Cancelled,
}

const RESTART: &str = " This process cannot use the GPU any more: restart the kernel (or the program).";

/// The usual result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Whether nothing more can be run on the device by this process.
    #[must_use]
    pub fn is_sticky(&self) -> bool {
        match self {
            Self::Launch { sticky, .. } | Self::Cuda { sticky, .. } => *sticky,
            Self::ContextLost(_) => true,
            _ => false,
        }
    }
}

fn count_sentence(count: u32) -> String {
    match count {
        0 => "the driver shows none".into(),
        1 => "the only one is cuda:0".into(),
        n => format!("they are cuda:0 to cuda:{}", n - 1),
    }
}

/// Bytes as people read them.
pub(crate) fn bytes(n: u64) -> String {
    match n {
        0..1_048_576 => format!("{:.1} KiB", n as f64 / 1024.0),
        1_048_576..1_073_741_824 => format!("{:.1} MiB", n as f64 / f64::from(1 << 20)),
        _ => format!("{:.1} GiB", n as f64 / f64::from(1 << 30)),
    }
}

/// Why a kernel does not compile, with the compiler's own words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompileError {
    /// The file, as in `kernels/regression/02_fused.cu`.
    pub path: String,
    /// The architecture it was compiled for.
    pub architecture: String,
    /// Where the first error is, if the log says so: file, line counted from 1, message.
    pub first: Option<(String, u32, String)>,
    /// The text of that line.
    pub line_text: Option<String>,
    /// The whole log.
    pub log: String,
}

impl CompileError {
    /// Finds the first error in a log of NVRTC, whose lines read `path(line): error: message`.
    pub(crate) fn new(path: String, architecture: String, log: String, sources: &[(&str, &str)]) -> Self {
        let first = log.lines().find_map(|l| {
            let (place, message) = l.split_once("): error")?;
            let (file, line) = place.rsplit_once('(')?;
            Some((file.trim().to_owned(), line.parse().ok()?, message.trim_start_matches([':', ' ']).trim().to_owned()))
        });
        let line_text = first.as_ref().and_then(|(file, line, _)| {
            let text = sources.iter().find(|(name, _)| name == file)?.1;
            text.lines().nth((*line as usize).checked_sub(1)?).map(str::to_owned)
        });
        Self { path, architecture, first, line_text, log }
    }
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.first {
            Some((file, line, message)) => {
                write!(f, "{file}, line {line}: {message}")?;
                if let Some(text) = &self.line_text {
                    write!(f, "\n    {}", text.trim_end())?;
                }
            }
            None => write!(f, "{} does not compile for {}", self.path, self.architecture)?,
        }
        write!(f, "\n{}", self.log.trim_end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_error_is_found_with_its_line() {
        let log =
            "kernels/x.cu(1): warning #1: w\nkernels/x.cu(2): error: identifier \"q\" is undefined\n\n1 error detected";
        let e = CompileError::new(
            "kernels/x.cu".into(),
            "sm_90".into(),
            log.into(),
            &[("kernels/x.cu", "int a;\nint b = q;\n")],
        );
        assert_eq!(e.first, Some(("kernels/x.cu".into(), 2, "identifier \"q\" is undefined".into())));
        assert_eq!(e.line_text.as_deref(), Some("int b = q;"));
        assert!(e.to_string().starts_with("kernels/x.cu, line 2: identifier"));
    }

    #[test]
    fn every_error_says_what_to_do() {
        let check = |e: Error, expect: &str| assert!(e.to_string().contains(expect), "{e}");
        check(Error::NoDriver, "--device cpu");
        check(Error::DriverTooOld { found: "11.4".into(), needed: "12.0".into() }, "Update the driver");
        check(Error::NoNvrtc { package: "nvidia-cuda-nvrtc" }, "pip install nvidia-cuda-nvrtc");
        check(Error::NoCublas { package: "nvidia-cublas" }, "pip install nvidia-cublas");
        check(Error::CublasFailed { path: "/x".into(), why: "y".into() }, "pip install --force-reinstall");
        check(Error::NoSuchDevice { index: 3, count: 1 }, "the only one is cuda:0");
        check(Error::NoSuchDevice { index: 3, count: 2 }, "cuda:0 to cuda:1");
        check(Error::OutOfMemory { what: "x".into(), needed: 2 << 30, free: 1 << 20, total: 1 << 30 }, "2.0 GiB");
        check(Error::ContextLost("illegal address".into()), "restart the kernel");
    }
}
