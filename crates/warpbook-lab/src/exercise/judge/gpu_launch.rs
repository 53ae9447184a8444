//! Runs a kernel that is right in the emulator on a GPU, where it is compared with the reference at every size.
#![allow(unsafe_code)]

use crate::exercise::case::{Case, Role, Values};
use crate::exercise::definition::KernelTask;
use crate::exercise::draw::Draw;
use warpbook_device::{Buffer, CudaDevice, Kernel, KernelArg, Result, Stream};
use warpbook_kernels::Launch;

/// Number of guard words before and after each array, which the kernel must not write.
const GUARD: usize = 1024;
/// Value of the guard words: a NaN that does not occur elsewhere.
const GUARD_WORD: u32 = 0x7fc0_beef;
/// Value of outputs before a launch, which is NaN as a float and -1 as an integer.
const POISON: u32 = u32::MAX;
/// Seconds after which a kernel is assumed to loop forever.
pub(super) const LIMIT_S: f64 = 5.0;

/// The arrays of a case on the device, each between guard words.
pub(super) struct Arrays {
    case: Case,
    /// For each argument, the array with its guards; `None` for a scalar.
    buffers: Vec<Option<Buffer<u32>>>,
    /// For each array that the kernel updates, its elements before a launch, without guards.
    before: Vec<Option<Buffer<u32>>>,
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
    pub(super) fn new(device: &CudaDevice, case: Case) -> Result<Self> {
        let buffer = |role: &Role| words(role).map(|words| device.buffer_from(&words)).transpose();
        let buffers = case.arguments().iter().map(|argument| buffer(&argument.role)).collect::<Result<_>>()?;
        let before = case.arguments().iter().map(|_| None).collect();
        Ok(Self { case, buffers, before })
    }

    /// Keeps copies of the arrays that the kernel updates, so that the arrays can be restored on the device.
    pub(super) fn with_copies(mut self, device: &CudaDevice) -> Result<Self> {
        for (argument, before) in self.case.arguments().iter().zip(&mut self.before) {
            if let (Role::Update { .. }, Some(words)) = (&argument.role, words(&argument.role)) {
                *before = Some(device.buffer_from(&words[GUARD..words.len() - GUARD])?);
            }
        }
        Ok(self)
    }

    /// Queues copies and fills that give updated arrays their elements before a launch, and fill outputs with poison. Inputs and guard words stay as they are,
    /// so that a kernel that has written to them is still found.
    pub(super) fn restore(&self, stream: &Stream) -> Result<()> {
        for ((argument, buffer), before) in self.case.arguments().iter().zip(&self.buffers).zip(&self.before) {
            let Some(buffer) = buffer else { continue };
            let array = buffer.range(GUARD..buffer.len() - GUARD);
            match (&argument.role, before) {
                (_, Some(before)) => stream.copy(before, &array)?,
                (Role::Output { .. } | Role::Scratch(_), None) => stream.fill_value(&array, POISON)?,
                (_, None) => {}
            }
        }
        Ok(())
    }

    /// Queues one launch of the kernel on the stream.
    pub(super) fn launch(&self, kernel: &Kernel, stream: &Stream) -> Result<()> {
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
    pub(super) fn wrong(&self) -> Result<Option<String>> {
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
