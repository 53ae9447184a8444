//! Runs a kernel that is right in the emulator on a GPU, where it is compared with the reference at every size, and timed.
#![allow(unsafe_code)]

use crate::exercise::case::{Case, Role, Values};
use crate::exercise::definition::KernelTask;
use crate::exercise::draw::Draw;
use std::cell::Cell;
use warpbook_device::{Bench, Buffer, CudaDevice, Kernel, KernelArg, Result, Stream};
use warpbook_kernels::Launch;

/// Number of guard words before and after each array, which the kernel must not write.
const GUARD: usize = 1024;
/// Value of the guard words: a NaN that does not occur elsewhere.
const GUARD_WORD: u32 = 0x7fc0_beef;
/// Value of outputs before a launch, which is NaN as a float and -1 as an integer.
const POISON: u32 = u32::MAX;
/// Seconds after which a kernel is assumed to loop forever.
const LIMIT_S: f64 = 5.0;
/// First random stream for the timed inputs, so that they differ from the inputs of the other sizes.
const TIMED: u32 = 1 << 20;

/// The arrays of a case on the device, each between guard words.
struct Arrays {
    case: Case,
    /// For each argument, the array with its guards; `None` for a scalar.
    buffers: Vec<Option<Buffer<u32>>>,
}

/// Returns the words of an array before a launch, including its guards.
fn words(role: &Role) -> Option<Vec<u32>> {
    let length = role.array()?.len();
    let guard = || std::iter::repeat_n(GUARD_WORD, GUARD);
    let before: Vec<u32> = match role.before() {
        Some(values) => values.bytes().as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect(),
        None => vec![POISON; length],
    };
    Some(guard().chain(before).chain(guard()).collect())
}

impl Arrays {
    fn new(device: &CudaDevice, case: Case) -> Result<Self> {
        let buffer = |role: &Role| words(role).map(|words| device.buffer_from(&words)).transpose();
        let buffers = case.arguments().iter().map(|argument| buffer(&argument.role)).collect::<Result<_>>()?;
        Ok(Self { case, buffers })
    }

    /// Writes the inputs, and fills the outputs with poison again.
    fn restore(&self) -> Result<()> {
        for (argument, buffer) in self.case.arguments().iter().zip(&self.buffers) {
            if let (Some(buffer), Some(words)) = (buffer, words(&argument.role)) {
                buffer.write(&words)?;
            }
        }
        Ok(())
    }

    /// Queues one launch of the kernel on the stream.
    fn launch(&self, kernel: &Kernel, stream: &Stream) -> Result<()> {
        let mut arguments: Vec<Box<dyn KernelArg>> = Vec::new();
        for (argument, buffer) in self.case.arguments().iter().zip(&self.buffers) {
            arguments.push(match (&argument.role, buffer) {
                (Role::Int(value), _) => Box::new(*value),
                (Role::Unsigned(value), _) => Box::new(*value),
                (Role::Float(value), _) => Box::new(*value),
                (_, Some(buffer)) => Box::new(buffer.at(GUARD)),
                // This case cannot occur: all other roles are arrays, which have a buffer.
                (_, None) => Box::new(0u64),
            });
        }
        let (grid, block) = (self.case.grid(), self.case.block());
        let shape = Launch { grid, block, dynamic_shared_bytes: self.case.dynamic_shared_bytes() };
        let arguments: Vec<&dyn KernelArg> = arguments.iter().map(|argument| &**argument).collect();
        // SAFETY: a run in the emulator has shown that the kernel takes these arguments and stays within these arrays, and every caller waits for the stream
        // before the arrays are dropped.
        unsafe { kernel.launch(stream, shape, &arguments) }
    }

    /// Returns a sentence about the first error in the arrays after a launch; `None` if all of them are right.
    fn wrong(&self) -> Result<Option<String>> {
        for (argument, buffer) in self.case.arguments().iter().zip(&self.buffers) {
            let Some(buffer) = buffer else { continue };
            let (name, at) = (argument.name, self.case.name());
            let words = buffer.to_vec()?;
            let (before, rest) = words.split_at(GUARD);
            let (array, after) = rest.split_at(rest.len() - GUARD);
            if before.iter().chain(after).any(|word| *word != GUARD_WORD) {
                return Ok(Some(format!("At {at}, the kernel wrote outside of `{name}`.")));
            }
            let bytes: Vec<u8> = array.iter().flat_map(|word| word.to_le_bytes()).collect();
            if let Role::Input(values) = &argument.role
                && values.bytes() != bytes
            {
                return Ok(Some(format!("At {at}, `{name}` has other elements than before the launch.")));
            }
            let Some((expected, tolerance)) = argument.role.expected() else { continue };
            let (got, expected) = (expected.with_bytes(&bytes).numbers(), Values::numbers(expected));
            let mut pairs = got.iter().zip(&expected).enumerate();
            if let Some((i, (got, expected))) = pairs.find(|(_, (got, expected))| !tolerance.holds(**got, **expected)) {
                return Ok(Some(format!("At {at}, `{name}[{i}]` is {got} and should be {expected}.")));
            }
        }
        Ok(None)
    }
}

/// Runs a kernel with two inputs at every size. Returns a sentence that says what is wrong; `None` if everything is right.
///
/// The emulator must have found the kernel right at all of these sizes.
pub(in crate::exercise) fn wrong_on_gpu(
    device: &CudaDevice,
    kernel: &Kernel,
    task: &KernelTask,
    seed: u64,
) -> Result<Option<String>> {
    let stream = device.stream()?;
    for (at, size) in (0u32..).zip(task.sizes) {
        for input in 0..2 {
            let arrays = Arrays::new(device, (task.case)(*size, &mut Draw::new(seed, 2 * at + input)))?;
            arrays.launch(kernel, &stream)?;
            stream.synchronize_within(LIMIT_S)?;
            if let Some(wrong) = arrays.wrong()? {
                return Ok(Some(wrong));
            }
        }
    }
    Ok(None)
}

/// Times a kernel at the size of its time target. Launches alternate between two inputs, and both results are compared with the reference before and after
/// timing. Returns the median in microseconds, or a sentence that says what is wrong.
pub(in crate::exercise) fn time_on_gpu(
    device: &CudaDevice,
    bench: &Bench,
    kernel: &Kernel,
    (task, size): (&KernelTask, crate::exercise::Size),
    seed: u64,
) -> Result<std::result::Result<f64, String>> {
    let stream = device.stream()?;
    let arrays = |input: u32| Arrays::new(device, (task.case)(size, &mut Draw::new(seed, TIMED + input)));
    let both = [arrays(0)?, arrays(1)?];
    let check = || -> Result<Option<String>> {
        for arrays in &both {
            arrays.restore()?;
            arrays.launch(kernel, &stream)?;
            stream.synchronize_within(LIMIT_S)?;
            if let Some(wrong) = arrays.wrong()? {
                return Ok(Some(wrong));
            }
        }
        Ok(None)
    };
    if let Some(wrong) = check()? {
        return Ok(Err(wrong));
    }
    let turn = Cell::new(0);
    let samples = bench.cuda(device, &stream, None, None, || {
        turn.set(1 - turn.get());
        both[turn.get()].launch(kernel, &stream)
    })?;
    Ok(match check()? {
        Some(wrong) => Err(wrong),
        None => Ok(samples.median_us()),
    })
}
