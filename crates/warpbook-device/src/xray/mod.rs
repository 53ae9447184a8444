//! Records the marks of kernels, which show when each warp was in which phase, and on which SM.
//!
//! While there is an [`Xray`], kernels with marks (`kernels/xray.cuh`) are compiled with these marks. Each warp then writes its marks to its own ring
//! buffer. The host stores the address of the rings in a variable of the kernel's module, so that code that launches the kernel does not have to pass it.
//! The clocks of the SMs are compared before and after a run.

mod align;
#[cfg(test)]
mod code_tests;
mod decode;
pub(crate) mod rings;

pub use align::Clocks;
pub use decode::WarpMarks;
pub use rings::UnmarkedKernel;

use crate::{CudaDevice, Error, Kernel, LaunchOptions, Result, Stream};
use align::{Probe, Probes};
use decode::decode;
use rings::Marking;
use std::collections::BTreeMap;
use std::sync::Arc;
use warpbook_kernels::Launch;
use warpbook_kernels::xray::{CLOCK_ROUNDS, sm_clocks};

/// Makes newly loaded kernels include their marks until this value is dropped. There can be only one `Xray` at a time.
pub struct Xray {
    device: CudaDevice,
    marking: Arc<Marking>,
    clocks: Kernel,
}

/// The marks of one run.
#[derive(Debug, Clone, PartialEq)]
pub struct Marks {
    /// The launched kernels that have marks.
    pub kernels: Vec<KernelMarks>,
    /// The launched kernels that have no marks.
    pub unmarked: Vec<UnmarkedKernel>,
    /// The clocks of the SMs, aligned with each other.
    pub clocks: Clocks,
}

/// The marks of a kernel's last launch.
#[derive(Debug, Clone, PartialEq)]
pub struct KernelMarks {
    /// Entry point of the kernel.
    pub entry: String,
    /// Path of the kernel's source below `kernels/`.
    pub file: String,
    /// Id of the kernel's tile.
    pub tile: String,
    /// Names of the kernel's phases, by phase number; see [`warpbook_kernels::xray::Marks`].
    pub phases: Vec<String>,
    /// Number of blocks in the launch.
    pub blocks: u64,
    /// Number of warps per block.
    pub warps: u64,
    /// For each warp that recorded something: the block, the warp within the block, and the marks.
    pub marks: Vec<(u64, u64, WarpMarks)>,
}

/// Number of 64-bit words that the clock-comparing kernel uses for each block: two cache lines.
const CLOCK_WORDS: usize = 32;
/// Time in nanoseconds after which the clock-comparing kernel stops waiting for an answer.
const CLOCK_LIMIT_NS: u64 = 2_000_000_000;

impl Xray {
    /// Makes kernels of this device (and its clones) include their marks if they are loaded from now on.
    ///
    /// # Errors
    /// Returns an error if another `Xray` exists; also the compiler's errors.
    pub fn begin(device: &CudaDevice) -> Result<Self> {
        device.0.bind_for("X-rays")?;
        let spec = sm_clocks();
        let mut clocks = device.kernel(&spec, &spec.tiles[0])?;
        // Each block reserves more than half of an SM's shared memory, so that no SM runs two blocks.
        let info = device.info();
        let half = info.shared_bytes_per_multiprocessor.unwrap_or(0) / 2 + 1024;
        let most = info.shared_bytes_per_block.unwrap_or(48 << 10);
        clocks.reserve_shared(u32::try_from(half.min(most)).unwrap_or(48 << 10))?;
        let marking = device.0.extension::<Marking>();
        if !marking.begin() {
            let why = "is being made on this device already: wait for it to end".into();
            return Err(Error::Unsupported { what: "An X-ray".into(), why });
        }
        Ok(Self { device: device.clone(), marking, clocks })
    }

    /// Stops adding marks to kernels loaded from now on. Kernels that already have marks continue to record.
    pub fn pause(&self) {
        self.marking.pause();
    }

    /// Returns the number of modules compiled with marks.
    #[must_use]
    pub fn marked(&self) -> usize {
        self.marking.marked().len()
    }

    /// Allocates a ring for every warp of the launches so far, using at most `most_bytes` in total, and returns the number of rings. Launches before this
    /// call record nothing.
    ///
    /// # Errors
    /// Returns an error if the rings do not fit into memory.
    pub fn allocate(&self, most_bytes: u64) -> Result<u64> {
        self.device.synchronize()?;
        let all = self.marking.marked();
        let needed: Vec<u64> = all.iter().map(|m| m.rings_needed()).collect();
        let sum = needed.iter().sum::<u64>().max(1);
        let mut bytes = 0;
        for (marked, rings) in all.iter().zip(needed).filter(|(_, rings)| *rings > 0) {
            let share = (u128::from(most_bytes) * u128::from(rings) / u128::from(sum)) as u64;
            bytes += marked.allocate(&self.device, share)?;
        }
        Ok(bytes)
    }

    /// Records one run, which `run` queues on the stream.
    ///
    /// # Errors
    /// The errors of the run and the device, and [`Error::StillRunning`] after `limit_s` seconds. Also returns an error if the clocks could not be
    /// compared.
    pub fn record(&self, stream: &Stream, limit_s: f64, run: impl FnOnce() -> Result<()>) -> Result<Marks> {
        let all = self.marking.marked();
        all.iter().try_for_each(|m| m.clear())?;
        let (before, after) = (self.ask(stream)?, self.ask(stream)?);
        // The clock comparison and the run are queued directly after each other, so that the clocks do not drift in between.
        before.launch(self, stream)?;
        self.marking.set_recording(true);
        let ran = run();
        self.marking.set_recording(false);
        ran?;
        after.launch(self, stream)?;
        stream.synchronize_within(limit_s)?;
        let unlike = || Error::Unsupported {
            what: "An X-ray".into(),
            why: "found its start and end at the same time on this GPU's clock".into(),
        };
        let clocks = Clocks::fit(&before.read()?, &after.read()?).ok_or_else(unlike)?;
        let mut kernels = Vec::new();
        for marked in &all {
            let blocks = marked.blocks();
            let mut launched: Vec<KernelMarks> = (marked.marks.entries.iter().zip(&blocks))
                .map(|(entry, blocks)| KernelMarks {
                    entry: entry.clone(),
                    file: marked.file.clone(),
                    tile: marked.tile.clone(),
                    phases: marked.marks.phases.clone(),
                    blocks: *blocks,
                    warps: marked.warps,
                    marks: Vec::new(),
                })
                .collect();
            marked.read(|entry, warp, ring| {
                if let Some(marks) = decode(ring) {
                    launched[entry].marks.push((warp / marked.warps, warp % marked.warps, marks));
                }
            })?;
            kernels.extend(launched.into_iter().filter(|k| !k.marks.is_empty()));
        }
        Ok(Marks { kernels, unmarked: self.marking.unmarked(), clocks })
    }

    /// Prepares a launch of the kernel that asks every SM for the value of its clock.
    fn ask(&self, stream: &Stream) -> Result<Question> {
        let blocks = self.device.info().multiprocessors as usize;
        let rounds = CLOCK_ROUNDS as usize;
        let question = Question {
            words: self.device.zeros(blocks * CLOCK_WORDS)?,
            samples: self.device.zeros(blocks * rounds * 3)?,
            sms: self.device.zeros(blocks)?,
            stamps: self.device.zeros(4)?,
            failed: self.device.zeros(1)?,
        };
        stream.synchronize()?;
        Ok(question)
    }
}

impl Drop for Xray {
    fn drop(&mut self) {
        self.marking.end();
    }
}

/// The arrays for a launch of `sm_clocks`, the kernel that compares clocks.
struct Question {
    words: crate::Buffer<u64>,
    samples: crate::Buffer<i64>,
    sms: crate::Buffer<u32>,
    stamps: crate::Buffer<u64>,
    failed: crate::Buffer<u32>,
}

impl Question {
    fn launch(&self, xray: &Xray, stream: &Stream) -> Result<()> {
        let shared = xray.clocks.stats().dynamic_shared_bytes;
        let shape =
            Launch { grid: [self.sms.len() as u32, 1, 1], dynamic_shared_bytes: shared, ..xray.clocks.shape(1) };
        let options = LaunchOptions { cooperative: true, ..LaunchOptions::default() };
        // SAFETY: the arguments match `sm_clocks(words, samples, sms, stamps, failed, rounds, limit_ns)`. `ask` has created the arrays with the lengths for
        // this number of blocks, and they live until the stream has been waited for.
        unsafe {
            xray.clocks.launch_with(
                stream,
                shape,
                options,
                &[&self.words, &self.samples, &self.sms, &self.stamps, &self.failed, &CLOCK_ROUNDS, &CLOCK_LIMIT_NS],
            )
        }
    }

    fn read(&self) -> Result<Probes> {
        if self.failed.to_vec()? != [0] {
            let why = "an SM did not answer in time: other programs may be using this GPU".into();
            return Err(Error::Unsupported { what: "The comparison of the SMs' clocks".into(), why });
        }
        let (samples, sms, stamps) = (self.samples.to_vec()?, self.sms.to_vec()?, self.stamps.to_vec()?);
        let rounds = CLOCK_ROUNDS as usize;
        let mut probes: BTreeMap<u32, Vec<Probe>> = BTreeMap::new();
        for (sm, samples) in sms.iter().zip(samples.chunks_exact(rounds * 3)).skip(1) {
            let probe = |p: &[i64]| Probe { asked: p[0], answered: p[1], received: p[2] };
            probes.entry(*sm).or_default().extend(samples.chunks_exact(3).map(probe));
        }
        let reference = sms.first().copied().unwrap_or(0);
        probes.remove(&reference);
        Ok(Probes { reference, probes, stamps: [(stamps[0] as i64, stamps[1]), (stamps[2] as i64, stamps[3])] })
    }
}
