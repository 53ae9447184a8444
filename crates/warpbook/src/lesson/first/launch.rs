//! Kernels that a learner writes as text: compiled, and launched in the emulator.
#![allow(unsafe_code)]

use crate::prelude::*;
use std::borrow::Cow;
use warpbook_charts::highlight::without_comments;
use warpbook_device::KernelArg;
use warpbook_kernels::Launch;
use warpbook_record::{Dim, Emulated, Grid, KernelSpec, LIVE, Requires};

/// File name that error messages use for a kernel given as text.
pub(super) const FILE: &str = "kernel.cu";

/// Opens the lab of the first lessons, and the device that its kernels run on: the GPU if there is one, otherwise the emulated GPU.
///
/// # Errors
/// If `WARPBOOK_DEVICE` names a device that does not exist.
pub fn open() -> Result<(Lab, CudaDevice)> {
    let lab = Lab::new()?;
    if let Some(device) = lab.device().cuda().cloned() {
        return Ok((lab, device));
    }
    let lab = lab.emulated()?;
    let device = lab.device().cuda().cloned().ok_or_else(|| Error::Setting("The emulator did not open.".into()))?;
    Ok((lab, device))
}

/// Returns the shape of a launch of `blocks` blocks with `threads` threads each.
#[must_use]
pub fn shape(blocks: u32, threads: u32) -> Launch {
    shape_2d([blocks, 1], [threads, 1])
}

/// Returns the shape of a launch in two dimensions: blocks in x and y, and threads of a block in x and y.
#[must_use]
pub fn shape_2d([across, down]: [u32; 2], [x, y]: [u32; 2]) -> Launch {
    Launch { grid: [across, down, 1], block: [x, y, 1], dynamic_shared_bytes: 0 }
}

/// Compiles CUDA C++ with one kernel for a device.
///
/// # Errors
/// If the text has no kernel, does not compile, or NVRTC is missing, as on macOS.
pub fn compile(device: &CudaDevice, source: &str) -> Result<Kernel> {
    let spec = KernelSpec {
        file: Cow::Owned(format!("{LIVE}{FILE}")),
        entry: Cow::Owned(entry(source)?.to_owned()),
        source: Cow::Owned(source.to_owned()),
        headers: Vec::new(),
        defines: Vec::new(),
        tiles: Vec::new(),
        grid: Grid::One,
        requires: Some(Requires::Nothing),
        waits: false,
    };
    Ok(device.kernel(&spec, &Tile::new("text", &[(Dim::Threads.name(), 1)]))?)
}

/// Returns the name of the only kernel in a source text.
fn entry(source: &str) -> Result<&str> {
    let wrong = |why: &str| Error::Setting(why.into());
    let code = without_comments(source);
    let mut kernels = code.match_indices("__global__");
    let (at, _) = kernels.next().ok_or_else(|| {
        wrong("The text has no kernel: a kernel begins with `extern \"C\" __global__ void`, its name and `(`.")
    })?;
    if kernels.next().is_some() {
        return Err(wrong("The text has two kernels: write one kernel a cell."));
    }
    if !code[..at].trim_end().ends_with("extern \"C\"") {
        return Err(wrong("Write `extern \"C\"` before `__global__`: without it C++ gives the kernel another name."));
    }
    let rest = code[at..].split_once("void").map_or("", |(_, rest)| rest.trim_start());
    let bounds = rest.strip_prefix("__launch_bounds__").and_then(|rest| rest.split_once(')'));
    let rest = bounds.map_or(rest, |(_, rest)| rest);
    let name = rest.split_once('(').map(|(name, _)| name.trim()).filter(|name| !name.is_empty());
    // The name is looked up in the caller's text, because `code` does not outlive this function.
    name.and_then(|name| source.find(name).map(|at| &source[at..at + name.len()]))
        .ok_or_else(|| wrong("The kernel has no name: after `__global__ void` come its name and `(`."))
}

/// An argument of a kernel that the emulator runs: an array, or a number.
#[derive(Debug, Clone, PartialEq)]
pub enum Given {
    /// An array of floats.
    Floats(Vec<f32>),
    /// An array of whole numbers.
    Ints(Vec<i32>),
    /// A float.
    Float(f32),
    /// A whole number.
    Int(i32),
}

impl From<&[f32]> for Given {
    fn from(values: &[f32]) -> Self {
        Self::Floats(values.to_vec())
    }
}

impl From<&Vec<f32>> for Given {
    fn from(values: &Vec<f32>) -> Self {
        Self::Floats(values.clone())
    }
}

impl From<&[i32]> for Given {
    fn from(values: &[i32]) -> Self {
        Self::Ints(values.to_vec())
    }
}

impl From<&Vec<i32>> for Given {
    fn from(values: &Vec<i32>) -> Self {
        Self::Ints(values.clone())
    }
}

impl From<f32> for Given {
    fn from(value: f32) -> Self {
        Self::Float(value)
    }
}

impl From<i32> for Given {
    fn from(value: i32) -> Self {
        Self::Int(value)
    }
}

/// An argument on the device.
enum Held {
    Floats(Buffer<f32>),
    Ints(Buffer<i32>),
    Float(f32),
    Int(i32),
}

impl Held {
    fn new(device: &CudaDevice, given: &Given) -> Result<Self> {
        Ok(match given {
            Given::Floats(values) => Self::Floats(device.buffer_from(values)?),
            Given::Ints(values) => Self::Ints(device.buffer_from(values)?),
            Given::Float(value) => Self::Float(*value),
            Given::Int(value) => Self::Int(*value),
        })
    }

    fn argument(&self) -> &dyn KernelArg {
        match self {
            Self::Floats(values) => values,
            Self::Ints(values) => values,
            Self::Float(value) => value,
            Self::Int(value) => value,
        }
    }

    /// Copies the argument back to the host.
    fn given(self) -> Result<Given> {
        Ok(match self {
            Self::Floats(values) => Given::Floats(values.to_vec()?),
            Self::Ints(values) => Given::Ints(values.to_vec()?),
            Self::Float(value) => Given::Float(value),
            Self::Int(value) => Given::Int(value),
        })
    }
}

/// Runs a kernel in the emulator with all checks on, and returns the arguments after the run with the emulator's counts.
pub(super) fn run_checked(source: &str, shape: Launch, given: &[Given]) -> Result<(Vec<Given>, Emulated)> {
    let device = CudaDevice::emulated();
    let (kernel, stream) = (compile(&device, source)?, device.stream()?);
    let held = given.iter().map(|given| Held::new(&device, given)).collect::<Result<Vec<_>>>()?;
    let arguments: Vec<&dyn KernelArg> = held.iter().map(Held::argument).collect();
    // SAFETY: the emulator checks the sizes of the arguments against the kernel's parameters, and each access against the emulator's own buffers.
    let launch = || unsafe { kernel.launch(&stream, shape, &arguments) };
    let ((), emulated) = device.checked(launch)?;
    let after = held.into_iter().map(Held::given).collect::<Result<Vec<_>>>()?;
    Ok((after, emulated))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_is_found_by_its_name_and_what_is_missing_is_named() {
        let check = |source: &str, expect: &str| assert_eq!(entry(source).unwrap(), expect);
        check("extern \"C\" __global__ void ten_i(int* y) {}", "ten_i");
        check("// __global__ is a word\nextern \"C\" __global__ void __launch_bounds__(64) sum(float* y) {}", "sum");
        let refuse = |source: &str, expect: &str| {
            let why = entry(source).unwrap_err().to_string();
            assert!(why.contains(expect), "{why}");
        };
        refuse("void f() {}", "no kernel");
        refuse("__global__ void f(int* y) {}", "Write `extern \"C\"`");
        refuse("extern \"C\" __global__ void a() {} extern \"C\" __global__ void b() {}", "two kernels");
    }
}
