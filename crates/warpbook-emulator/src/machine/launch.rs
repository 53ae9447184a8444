//! A launch: which blocks are resident, and in which order blocks and warps run.

use super::LIMITS;
use super::block::Block;
use super::memory::Memory;
use super::names::Names;
use super::observer::Observer;
use crate::compute::{LANES, Word};
use crate::{Cause, Fault, Kernel, Thread};

/// The order in which blocks and warps run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// Lower block and warp numbers run first.
    #[default]
    Forwards,
    /// Higher block and warp numbers run first.
    Backwards,
    /// A random order with the given seed.
    Random(u64),
}

/// The settings of a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Launch {
    /// Number of blocks along each axis.
    pub grid: [u32; 3],
    /// Number of threads of a block along each axis.
    pub block: [u32; 3],
    /// Size of the dynamic shared memory of a block, in bytes.
    pub dynamic_shared: u64,
    /// True if all blocks have to be resident at the same time.
    pub is_cooperative: bool,
    /// The order in which blocks and warps run.
    pub order: Order,
    /// Maximum number of instructions, summed over all warps. A kernel that exceeds it is stopped with a fault.
    pub budget: u64,
    /// Maximum number of instructions, summed over all threads. A kernel that exceeds it is stopped like one that exceeds `budget`.
    pub thread_budget: u64,
}

impl Launch {
    /// Creates a one-dimensional launch of `blocks` blocks with `threads` threads each.
    #[must_use]
    pub fn new(blocks: u32, threads: u32) -> Self {
        Self {
            grid: [blocks, 1, 1],
            block: [threads, 1, 1],
            dynamic_shared: 0,
            is_cooperative: false,
            order: Order::Forwards,
            budget: 1 << 32,
            thread_budget: u64::MAX,
        }
    }
}

/// An argument of a kernel.
#[derive(Debug, Clone, PartialEq)]
pub enum Argument {
    /// An address in global memory, or any other 8-byte value.
    U64(u64),
    /// A 4-byte integer.
    U32(u32),
    /// A single-precision number.
    F32(f32),
    /// A double-precision number.
    F64(f64),
    /// The bytes of a structure.
    Bytes(Vec<u8>),
}

impl Argument {
    /// Returns the bytes of the argument as the kernel reads them.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        match self {
            Self::U64(v) => v.to_le_bytes().to_vec(),
            Self::U32(v) => v.to_le_bytes().to_vec(),
            Self::F32(v) => v.to_le_bytes().to_vec(),
            Self::F64(v) => v.to_le_bytes().to_vec(),
            Self::Bytes(bytes) => bytes.clone(),
        }
    }
}

/// Summary of a launch that ended without a fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Number of instructions that warps executed.
    pub steps: u64,
    /// Number of instructions that threads executed: the sum of active lanes over all warp instructions.
    pub thread_steps: u64,
    /// Number of blocks that are resident at the same time.
    pub resident_blocks: u32,
    /// The output of the kernel's `printf`.
    pub printed: String,
}

/// The position of a block in its grid, and the sizes of the launch.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    pub(crate) block: [u32; 3],
    pub(crate) blocks: [u32; 3],
    pub(crate) threads: [u32; 3],
    /// Size in bytes of the block's shared memory, including the dynamic part, and size of the dynamic part alone.
    pub(crate) shared_bytes: u64,
    pub(crate) dynamic_shared: u64,
    /// Index of the block among the resident blocks. A later block reuses the index of a block that has ended.
    pub(crate) resident: usize,
}

impl Identity {
    pub(crate) fn threads_of_block(&self) -> u32 {
        self.threads.iter().product()
    }

    /// Returns a mask of the lanes of a warp that have a thread.
    pub(crate) fn lanes(&self, warp: u32) -> u32 {
        u32::MAX >> (32 - (self.threads_of_block() - warp * 32).min(32))
    }

    /// Returns the three-dimensional index of a thread, given its number in the block.
    pub(crate) fn index(&self, number: u32) -> [u32; 3] {
        index(number, self.threads)
    }

    /// Returns the thread that runs in a lane of a warp.
    pub(crate) fn thread(&self, warp: u32, lane: usize) -> Thread {
        Thread { block: self.block, thread: self.index(warp * 32 + u32::take(lane as u64)) }
    }

    pub(crate) fn linear_block(&self) -> u32 {
        self.block[0] + self.blocks[0] * (self.block[1] + self.blocks[1] * self.block[2])
    }
}

/// Returns the three-dimensional index of a block or thread number. The first axis changes fastest.
pub(crate) fn index(number: u32, [x, y, _]: [u32; 3]) -> [u32; 3] {
    [number % x, number / x % y, number / x / y]
}

/// Number of rounds in which no block ends, after which more blocks start.
const ROUNDS: u32 = 64;

/// The state of a running grid.
pub(super) struct Grid<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) memory: &'a mut Memory,
    pub(super) parameters: Vec<u8>,
    pub(super) names: Names,
    pub(super) observers: Vec<&'a mut dyn Observer>,
    pub(super) budget: u64,
    pub(super) thread_budget: u64,
    pub(super) steps: u64,
    pub(super) thread_steps: u64,
    pub(super) printed: String,
}

/// Runs a grid to its end, and calls the observers along the way.
pub(crate) fn run<'a>(
    memory: &'a mut Memory,
    kernel: &'a Kernel,
    launch: &Launch,
    arguments: &[Argument],
    observers: Vec<&'a mut dyn Observer>,
) -> Result<Report, Fault> {
    let resident_blocks = resident_blocks(kernel, launch)?;
    let mut grid = Grid {
        kernel,
        memory,
        parameters: parameters(kernel, arguments)?,
        names: Names::new(kernel, arguments),
        observers,
        budget: launch.budget,
        thread_budget: launch.thread_budget,
        steps: 0,
        thread_steps: 0,
        printed: String::new(),
    };
    let blocks: u32 = launch.grid.iter().product();
    let mut random = Random(if let Order::Random(seed) = launch.order { seed } else { 0 });
    // A random order visits the blocks with a stride that is coprime to their number, and so reaches each block once.
    let (first, stride) = match launch.order {
        Order::Random(_) => (random.below(blocks), coprime(random.below(blocks), blocks)),
        _ => (0, 1),
    };
    let number = |at: u32| match launch.order {
        Order::Backwards => blocks - 1 - at,
        _ => u32::take((u64::from(first) + u64::from(at) * u64::from(stride)) % u64::from(blocks)),
    };
    let mut queue = (0..blocks).map(number);
    // A new block reuses the entry of a block that has ended. Only a few blocks run at first, so that their registers stay in the CPU's caches.
    let mut resident: Vec<Option<Block>> = (0..blocks.min(resident_blocks)).map(|_| None).collect();
    let (mut begun, mut rounds) = (1, 0);
    // A random order may leave out the only warps that can run. If nothing ran in a round, the next round runs all warps in order.
    let mut is_in_order = false;
    loop {
        let mut has_run = false;
        rounds += 1;
        for (place, block) in resident.iter_mut().enumerate().take(begun) {
            if block.is_none()
                && let Some(number) = queue.next()
            {
                let identity = Identity {
                    block: index(number, launch.grid),
                    blocks: launch.grid,
                    threads: launch.block,
                    shared_bytes: kernel.shared_bytes + launch.dynamic_shared,
                    dynamic_shared: launch.dynamic_shared,
                    resident: place,
                };
                grid.observers.iter_mut().for_each(|observer| observer.block_starts(&identity));
                *block = Some(Block::new(kernel, identity, grid.memory));
            }
            let Some(running) = block else { continue };
            let order = |turn: usize, warps: usize| match launch.order {
                Order::Backwards => warps - 1 - turn,
                Order::Random(_) if !is_in_order => random.below(u32::take(warps as u64)) as usize,
                _ => turn,
            };
            has_run |= running.turn(&mut grid, order)?;
            if running.has_ended() {
                block.take().into_iter().for_each(|block| block.give_back(grid.memory));
                (has_run, rounds) = (true, 0);
            }
        }
        let Some(waiting) = resident.iter().flatten().next() else {
            if queue.len() > 0 {
                continue;
            }
            let Grid { steps, thread_steps, printed, .. } = grid;
            return Ok(Report { steps, thread_steps, resident_blocks, printed });
        };
        if begun < resident.len() && (!has_run || rounds > ROUNDS) {
            // The running blocks may be waiting for blocks that have not started.
            (begun, rounds) = ((2 * begun).min(resident.len()), 0);
        } else if !has_run && (is_in_order || !matches!(launch.order, Order::Random(_))) {
            let fault = waiting.waiting(kernel);
            if !resident.iter_mut().flatten().fold(false, |any, block| block.give_up_joins() | any) {
                return Err(fault);
            }
        }
        is_in_order = !has_run;
    }
}

/// Lays out the arguments in the kernel's parameter memory.
fn parameters(kernel: &Kernel, arguments: &[Argument]) -> Result<Vec<u8>, Fault> {
    let name = &kernel.name;
    if arguments.len() != kernel.parameters.len() {
        let (expected, given) = (kernel.parameters.len(), arguments.len());
        return Err(Fault::new(Cause::Launch, format!("`{name}` takes {expected} arguments, not {given}.")));
    }
    let mut all = Vec::new();
    for (index, (parameter, argument)) in kernel.parameters.iter().zip(arguments).enumerate() {
        let bytes = argument.bytes();
        if bytes.len() as u64 != parameter.bytes {
            let (number, expected, given) = (index + 1, parameter.bytes, bytes.len());
            let message = format!("Argument {number} of `{name}` has {expected} bytes, not {given}.");
            return Err(Fault::new(Cause::Launch, message));
        }
        all.resize(usize::try_from(parameter.offset).unwrap_or(0), 0);
        all.extend(bytes);
    }
    Ok(all)
}

/// Limit on the size of a block's registers and local memory, in bytes.
const BLOCK_BYTES: u64 = 512 << 20;
/// Limit on the size of the registers of all resident blocks, in bytes. A cooperative launch may exceed it.
const RESIDENT_BYTES: u64 = 256 << 20;

/// Returns how many blocks can be resident at the same time within the limits of the GPU.
fn resident_blocks(kernel: &Kernel, launch: &Launch) -> Result<u32, Fault> {
    let refuse = |message: String| Err(Fault::new(Cause::Launch, message));
    let name = &kernel.name;
    let product = |sizes: [u32; 3]| sizes.iter().fold(1u64, |all, size| all.saturating_mul((*size).into()));
    let (threads, blocks) = (product(launch.block), product(launch.grid));
    if threads == 0 || blocks == 0 || blocks > u64::from(u32::MAX) {
        return refuse(format!(
            "A grid of {:?} blocks of {:?} threads cannot be launched: each size must be at least 1, and a grid may have at most {} blocks.",
            launch.grid,
            launch.block,
            u32::MAX
        ));
    }
    let most = kernel.most_threads.min(LIMITS.block_threads.into());
    if threads > most {
        return refuse(format!("A block of `{name}` may have {most} threads, not {threads}."));
    }
    let shared = kernel.shared_bytes.saturating_add(launch.dynamic_shared);
    if shared > LIMITS.block_shared_bytes {
        return refuse(format!("A block may have {} bytes of shared memory, not {shared}.", LIMITS.block_shared_bytes));
    }
    let on_one = LIMITS.resident_blocks(u32::try_from(threads).unwrap_or(u32::MAX), shared);
    let at_once = u64::from(on_one) * u64::from(LIMITS.multiprocessors);
    if launch.is_cooperative && blocks > at_once {
        return refuse(format!(
            "Of a cooperative launch all {blocks} blocks have to be resident, but only {at_once} can be."
        ));
    }
    let rows = kernel.rows.len() as u64;
    let block_bytes = (rows * 8 + kernel.frame_bytes) * LANES as u64 * threads.div_ceil(32);
    if block_bytes > BLOCK_BYTES {
        return refuse(format!(
            "A block of `{name}` takes {block_bytes} bytes for its registers and arrays, more than {BLOCK_BYTES}."
        ));
    }
    let by_memory = if launch.is_cooperative { at_once } else { (RESIDENT_BYTES / block_bytes.max(1)).max(1) };
    Ok(u32::try_from(at_once.min(by_memory)).unwrap_or(1))
}

/// Marsaglia's xorshift64*, which is good enough for choosing an order.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u32) -> u32 {
        let mut x = self.0 ^ 0x9e37_79b9_7f4a_7c15;
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        self.0 = x ^ 0x9e37_79b9_7f4a_7c15;
        u32::take(x.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % limit.max(1)
    }
}

/// Returns the smallest number from `from` upwards that is coprime to `with`.
fn coprime(from: u32, with: u32) -> u32 {
    let divisor = |mut a: u32, mut b: u32| {
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    (from.max(1)..).find(|number| divisor(*number, with) == 1).unwrap_or(1)
}
