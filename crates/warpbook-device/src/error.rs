//! Errors of a device. Every message suggests a remedy.

use crate::libraries::library::Library;
use std::fmt;
use std::path::PathBuf;

/// An error of a device. The message suggests a remedy.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no NVIDIA driver.
    #[error(
        "No NVIDIA driver was found (libcuda cannot be loaded). Install the NVIDIA driver, or run on the CPU with --device cpu."
    )]
    NoDriver,
    /// The driver is older than the oldest version that Warpbook supports.
    #[error(
        "The NVIDIA driver supports CUDA {found}; Warpbook needs a driver for CUDA {needed} or later. Update the driver, or run with --device cpu."
    )]
    DriverTooOld {
        /// The CUDA version that the driver supports.
        found: String,
        /// The oldest supported CUDA version.
        needed: String,
    },
    /// There is a driver, but it fails to start.
    #[error("The NVIDIA driver does not start: {0}. Check it with nvidia-smi, or run with --device cpu.")]
    DriverFailed(String),
    /// One of NVIDIA's libraries cannot be used.
    #[error("{}", which.sentence(*.driver_cuda, .fault.as_ref()))]
    Library {
        /// The library that cannot be used.
        which: Library,
        /// The newest CUDA that the driver supports, which determines the pip package that the message suggests; `None` if there is no
        /// driver or the version does not matter.
        driver_cuda: Option<(u32, u32)>,
        /// The file or folder that was tried, and the problem with it; `None` if no such library was found.
        fault: Option<(PathBuf, String)>,
    },
    /// CUPTI was loaded but cannot record activity.
    #[error("GPU activity cannot be recorded: {why}.")]
    NotRecorded {
        /// The reason and the remedy.
        why: String,
    },
    /// Hardware counters cannot be read.
    #[error("Hardware counters cannot be read: {why}.")]
    NotCounted {
        /// The reason and the remedy.
        why: String,
    },
    /// An index past the last device.
    #[error("There is no device cuda:{index}: {}. `warpbook devices` lists them.", count_sentence(*.count))]
    NoSuchDevice {
        /// The requested index.
        index: u32,
        /// Number of CUDA devices.
        count: u32,
    },
    /// A measurement is impossible with these arguments; the message states which values are allowed.
    #[error("{0}")]
    Argument(String),
    /// The requested device name is unknown.
    #[error("Unknown device `{0}`: write cuda:0 (or another number), cpu, emulator, or best.")]
    BadChoice(String),
    /// More memory is needed than is free.
    #[error(
        "{what} needs {} of device memory, but only {} of {} are free. Choose a smaller size.",
        bytes(*.needed), bytes(*.free), bytes(*.total)
    )]
    OutOfMemory {
        /// Purpose of the memory, as the subject of the message.
        what: String,
        /// Number of bytes needed.
        needed: u64,
        /// Number of free bytes.
        free: u64,
        /// Total device memory in bytes.
        total: u64,
    },
    /// The kernel's source does not compile.
    #[error("{0}")]
    Compile(Box<CompileError>),
    /// A launch was refused or its kernel failed.
    #[error("The kernel {kernel} (grid {grid:?}, block {block:?}, {shared} bytes of dynamic shared memory) failed: {why}.{}", if *.sticky { RESTART } else { "" })]
    Launch {
        /// Entry point of the kernel.
        kernel: String,
        /// Number of blocks.
        grid: [u32; 3],
        /// Number of threads per block.
        block: [u32; 3],
        /// Dynamic shared memory in bytes.
        shared: u32,
        /// The CUDA error.
        why: String,
        /// True if the device can no longer be used by this process.
        sticky: bool,
    },
    /// A graph was refused, or one of its kernels failed.
    #[error("The graph {}, failed: {why}.{}", graph_sentence(.graph, .kernels), if *.sticky { RESTART } else { "" })]
    Graph {
        /// Name that the graph was given when it was captured, or by [`Graph::named`](crate::Graph::named).
        graph: String,
        /// Names of the kernels that the graph launches, each once.
        kernels: Vec<String>,
        /// The CUDA error.
        why: String,
        /// True if the device can no longer be used by this process.
        sticky: bool,
    },
    /// An arena has no room for a slice.
    #[error(
        "{what} needs a slice of {asked} bytes, but only {left} of the arena's {total} bytes are left. Make the arena larger, or let arrays that are not in use at the same time share memory (ArenaPlan)."
    )]
    ArenaFull {
        /// Number and type of the slice's elements, such as "1000 f32".
        what: String,
        /// Requested bytes.
        asked: usize,
        /// Size in bytes of the largest slice that still fits.
        left: usize,
        /// Size of the arena in bytes.
        total: usize,
    },
    /// The operation needs page-locked memory that the host is still accessing.
    #[error(
        "{what} needs page-locked memory that the host is still using: first drop the value that `Pinned::{loan}` returned."
    )]
    PinnedInUse {
        /// The refused operation.
        what: &'static str,
        /// The host's access to the memory: "read" or "write".
        loan: &'static str,
    },
    /// Any other CUDA call failed.
    #[error("{what} failed: {why}.{}", if *.sticky { RESTART } else { "" })]
    Cuda {
        /// The failed operation.
        what: String,
        /// The CUDA error.
        why: String,
        /// True if the device can no longer be used by this process.
        sticky: bool,
    },
    /// An earlier kernel has made the CUDA context unusable.
    #[error("An earlier kernel failed ({0}) and destroyed the CUDA context.{RESTART}")]
    ContextLost(String),
    /// A kernel did not end within its time limit, and CUDA has no call that could stop it.
    #[error(
        "The kernel {kernel} was still running after {limit_s} s. The cause may be an endless loop, or a barrier that not all threads reach. CUDA cannot stop it inside this process: write what you have measured to a file, then restart the kernel (or the program)."
    )]
    StillRunning {
        /// Entry point of the kernel.
        kernel: String,
        /// Time limit in seconds.
        limit_s: f64,
    },
    /// A kernel or library does not support a request.
    #[error("{what} {why}.")]
    Unsupported {
        /// The kernel, rung or library that does not support the request.
        what: String,
        /// The reason, worded as the rest of a sentence, such as "needs ...".
        why: String,
    },
    /// A call that needs a GPU was made on the CPU.
    #[error("{0} needs a CUDA device; this lab runs on the CPU.")]
    NeedsCuda(&'static str),
    /// The emulator does not have this CUDA feature, which is given as a plural noun.
    #[error("{0} are not emulated. Leave them out, or run this on a GPU, as with --device cuda:0.")]
    NotEmulated(&'static str),
    /// The emulator found a mistake in a kernel and stopped it.
    #[error("The emulator stopped the kernel {kernel}. {fault}")]
    Fault {
        /// Entry point of the kernel.
        kernel: String,
        /// The kernel's mistake, with its location and thread.
        fault: Box<warpbook_emulator::Fault>,
    },
    /// The user asked to stop.
    #[error("Interrupted.")]
    Cancelled,
}

const RESTART: &str = " This process cannot use the GPU any more: restart the kernel (or the program).";

/// Result type of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Returns true if the error says that this library is missing, as opposed to present but broken.
    #[must_use]
    pub fn is_missing(&self, library: Library) -> bool {
        matches!(self, Self::Library { which, fault: None, .. } if *which == library)
    }

    /// Returns true if this process can no longer use the device.
    #[must_use]
    pub fn is_sticky(&self) -> bool {
        match self {
            Self::Launch { sticky, .. } | Self::Graph { sticky, .. } | Self::Cuda { sticky, .. } => *sticky,
            Self::ContextLost(_) | Self::StillRunning { .. } => true,
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

/// Describes a graph by its name, followed by a clause that lists its kernels.
pub(crate) fn graph_sentence(graph: &str, kernels: &[String]) -> String {
    const SHOWN: usize = 6;
    let kernels = match kernels {
        [] => "no kernel".into(),
        [one] => one.clone(),
        [most @ .., last] if kernels.len() <= SHOWN => format!("{} and {last}", most.join(", ")),
        _ => format!("{} and {} other kernels", kernels[..SHOWN - 1].join(", "), kernels.len() + 1 - SHOWN),
    };
    format!("`{graph}`, which launches {kernels}")
}

/// Formats a number of bytes in a readable unit.
pub(crate) fn bytes(n: u64) -> String {
    match n {
        0..1_048_576 => format!("{:.1} KiB", n as f64 / 1024.0),
        1_048_576..1_073_741_824 => format!("{:.1} MiB", n as f64 / f64::from(1 << 20)),
        _ => format!("{:.1} GiB", n as f64 / f64::from(1 << 30)),
    }
}

/// A failed compilation, with the compiler's own messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompileError {
    /// Path of the source file, such as `kernels/regression/02_fused.cu`.
    pub path: String,
    /// The architecture that the kernel was compiled for.
    pub architecture: String,
    /// The compiler's messages in their original order, including warnings.
    pub diagnostics: Vec<Diagnostic>,
    /// The compiler's complete log.
    pub log: String,
}

/// One message of the compiler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// Path of the file, such as `kernels/regression/02_fused.cu`.
    pub file: String,
    /// The line number, counted from 1.
    pub line: u32,
    /// The column of the compiler's caret, counted from 1, if there is one.
    pub column: Option<u32>,
    /// True for an error, false for a warning.
    pub is_error: bool,
    /// The message's text as the compiler printed it.
    pub message: String,
    /// The source text of the line, if it is known.
    pub text: Option<String>,
}

impl Diagnostic {
    /// Returns the source line with a caret below it at the message's column; empty if the line is not known.
    #[must_use]
    pub fn excerpt(&self) -> String {
        let Some(text) = self.text.as_deref().map(str::trim_end) else { return String::new() };
        let number = format!("{:5} | ", self.line);
        let Some(column) = self.column else { return format!("{number}{text}") };
        // Tabs are kept, so that the caret is in the right column at any tab width.
        let before: String =
            text.chars().take(column as usize - 1).map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
        format!("{number}{text}\n      | {before}^")
    }
}

impl CompileError {
    /// Parses a log of NVRTC. Its messages begin with `path(line): error: message` or `warning #n: message`, and quote the source line with
    /// a caret below it.
    pub(crate) fn new(path: String, architecture: String, log: String, sources: &[(&str, &str)]) -> Self {
        let lines: Vec<&str> = log.lines().collect();
        let read = |(at, line): (usize, &&str)| -> Option<Diagnostic> {
            let (place, rest) = line.split_once("): ")?;
            let (file, number) = place.rsplit_once('(')?;
            let number: u32 = number.parse().ok()?;
            let kind = ["catastrophic error", "error", "warning"].into_iter().find(|k| rest.starts_with(k))?;
            let message = rest[kind.len()..].split_once(": ").map_or(rest, |(_, m)| m).trim().to_owned();
            let source = sources.iter().find(|(name, _)| *name == file.trim()).map(|(_, text)| *text);
            let text = source.and_then(|t| t.lines().nth((number as usize).checked_sub(1)?)).map(str::to_owned);
            // The caret's line comes before the next message. The quoted line may be indented differently from the source.
            let caret = lines[at + 1..]
                .iter()
                .take(4)
                .take_while(|l| !l.contains("): error") && !l.contains("): warning"))
                .position(|l| l.trim() == "^");
            let column = caret.zip(text.as_deref()).and_then(|(below, text)| {
                let (quoted, pointer) = (lines.get(at + below)?, lines[at + 1 + below]);
                let spaces = |l: &str| l.chars().take_while(|c| c.is_whitespace()).count();
                let within = (pointer.chars().count() - 1).checked_sub(spaces(quoted))?;
                u32::try_from(within + spaces(text) + 1).ok()
            });
            let is_error = kind != "warning";
            Some(Diagnostic { file: file.trim().to_owned(), line: number, column, is_error, message, text })
        };
        let diagnostics = lines.iter().enumerate().filter_map(read).collect();
        Self { path, architecture, diagnostics, log }
    }

    /// Returns the first error whose location the log states, if any.
    #[must_use]
    pub fn first(&self) -> Option<&Diagnostic> {
        self.diagnostics.iter().find(|d| d.is_error)
    }
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.first() {
            Some(first) => {
                write!(f, "{}, line {}: {}", first.file, first.line, first.message)?;
                let excerpt = first.excerpt();
                if !excerpt.is_empty() {
                    write!(f, "\n{excerpt}")?;
                }
            }
            None => write!(f, "{} does not compile for {}", self.path, self.architecture)?,
        }
        // The only message has already been shown in full.
        if self.diagnostics.len() == 1 && self.first().is_some() {
            return Ok(());
        }
        write!(f, "\n{}", self.log.trim_end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complaints_are_read_with_line_and_caret() {
        let log = "kernels/x.cu(1): warning #177-D: variable was declared but never referenced\n  int a;\n      ^\n\n\
            Remark: something else\n\n\
            kernels/x.cu(2): error: identifier \"q\" is undefined\n      int b = q;\n              ^\n\n\
            kernels/y.cuh(7): error: no caret here\n\n2 errors detected in the compilation of \"kernels/x.cu\".\n";
        let sources = [("kernels/x.cu", "int a;\n\tint b = q;\n")];
        let e = CompileError::new("kernels/x.cu".into(), "sm_90".into(), log.into(), &sources);
        let places: Vec<_> = e.diagnostics.iter().map(|d| (d.line, d.column, d.is_error)).collect();
        assert_eq!(places, [(1, Some(5), false), (2, Some(10), true), (7, None, true)]);
        let first = e.first().unwrap();
        assert_eq!(first.message, "identifier \"q\" is undefined");
        assert_eq!(first.excerpt(), "    2 | \tint b = q;\n      | \t        ^");
        assert_eq!(e.diagnostics[0].message, "variable was declared but never referenced");
        assert_eq!(e.diagnostics[2].excerpt(), "");
        assert!(e.to_string().starts_with("kernels/x.cu, line 2: identifier"));
    }

    #[test]
    fn a_graph_is_told_with_its_kernels() {
        let words = |n: usize, sticky| {
            let kernels = (0..n).map(|i| format!("k{i} in x.cu")).collect();
            Error::Graph { graph: "step".into(), kernels, why: "illegal address".into(), sticky }.to_string()
        };
        assert_eq!(words(0, false), "The graph `step`, which launches no kernel, failed: illegal address.");
        assert_eq!(words(1, false), "The graph `step`, which launches k0 in x.cu, failed: illegal address.");
        assert!(words(2, false).contains("launches k0 in x.cu and k1 in x.cu, failed"));
        assert!(words(6, false).contains("k4 in x.cu and k5 in x.cu, failed"));
        assert!(words(7, false).contains("k3 in x.cu, k4 in x.cu and 2 other kernels, failed"));
        assert!(words(1, true).contains("restart the kernel"));
    }

    #[test]
    fn every_error_says_what_to_do() {
        let check = |e: Error, expect: &str| assert!(e.to_string().contains(expect), "{e}");
        check(Error::NoDriver, "--device cpu");
        check(Error::DriverTooOld { found: "11.4".into(), needed: "12.0".into() }, "Update the driver");
        let missing = |which| Error::Library { which, driver_cuda: None, fault: None };
        check(missing(Library::Nvrtc), "pip install nvidia-cuda-nvrtc");
        check(missing(Library::Cublas), "pip install nvidia-cublas");
        check(missing(Library::Cudnn), "pip install nvidia-cudnn-cu13");
        check(missing(Library::Cupti), "pip install nvidia-cuda-cupti");
        let failed = |which| Error::Library { which, driver_cuda: None, fault: Some(("/x".into(), "y".into())) };
        check(
            failed(Library::Cublas),
            "cuBLAS at /x cannot be used: y. Install it again with `pip install --force-reinstall",
        );
        check(failed(Library::Cudnn), "pip install --force-reinstall nvidia-cudnn");
        check(failed(Library::Cupti), "pip install --force-reinstall nvidia-cuda");
        check(Error::NoSuchDevice { index: 3, count: 1 }, "the only one is cuda:0");
        check(Error::NoSuchDevice { index: 3, count: 2 }, "cuda:0 to cuda:1");
        check(Error::OutOfMemory { what: "x".into(), needed: 2 << 30, free: 1 << 20, total: 1 << 30 }, "2.0 GiB");
        check(
            Error::PinnedInUse { what: "A copy to the host", loan: "read" },
            "drop the value that `Pinned::read` returned",
        );
        check(Error::ContextLost("illegal address".into()), "restart the kernel");
    }
}
