//! Records which threads write the words of a buffer, and how often each word is read.

use crate::counts::Counter;
use crate::machine::{AccessKind, LOCAL_WINDOW, Observer, Request, SHARED_WINDOW, index, lanes};
use crate::{Argument, Fault, Gpu, Kernel, Launch, Thread, Verdict};

/// Size of a word in bytes.
const WORD: u64 = 4;
/// Marks a word that no thread has written.
const NOBODY: u64 = u64::MAX;

/// The accesses of one launch to the 4-byte words of one buffer.
#[derive(Debug, Clone)]
pub struct Touched {
    start: u64,
    grid: [u32; 3],
    block: [u32; 3],
    /// Number of the thread that wrote each word last. Threads are numbered block by block.
    writers: Vec<u64>,
    /// Number of times that each word was read.
    reads: Vec<u32>,
}

impl Touched {
    fn new((start, words): (u64, usize), launch: &Launch) -> Self {
        let (grid, block) = (launch.grid, launch.block);
        Self { start, grid, block, writers: vec![NOBODY; words], reads: vec![0; words] }
    }

    /// Returns the thread that wrote a word last; `None` if no thread wrote it, or if the buffer has no such word.
    #[must_use]
    pub fn writer(&self, word: usize) -> Option<Thread> {
        let number = self.writers.get(word).copied().filter(|number| *number != NOBODY)?;
        let threads = self.block.iter().map(|size| u64::from(*size)).product::<u64>().max(1);
        let position = |number: u64, sizes| index(u32::try_from(number).unwrap_or(u32::MAX), sizes);
        Some(Thread { block: position(number / threads, self.grid), thread: position(number % threads, self.block) })
    }

    /// Returns how many times a word was read. An atomic operation counts as a read and a write.
    #[must_use]
    pub fn reads(&self, word: usize) -> u32 {
        self.reads.get(word).copied().unwrap_or(0)
    }
}

/// An observer that records the accesses to some buffers.
struct Recorder(Vec<Touched>);

impl Recorder {
    fn note(&mut self, kind: AccessKind, address: u64, bytes: u64, thread: u64) {
        let is_in = |buffer: &&mut Touched| {
            address >= buffer.start && address < buffer.start + WORD * buffer.writers.len() as u64
        };
        let Some(buffer) = self.0.iter_mut().find(is_in) else { return };
        let word = |address: u64| usize::try_from((address - buffer.start) / WORD).unwrap_or(0);
        let words = word(address)..(word(address + bytes - 1) + 1).min(buffer.writers.len());
        if kind != AccessKind::Load {
            buffer.writers[words.clone()].fill(thread);
        }
        if kind != AccessKind::Store {
            buffer.reads[words].iter_mut().for_each(|reads| *reads = reads.saturating_add(1));
        }
    }
}

impl Observer for Recorder {
    fn access(&mut self, request: &Request) -> Result<(), Fault> {
        let (moment, addresses) = (request.moment, request.addresses);
        let first = u64::from(moment.identity.linear_block()) * u64::from(moment.identity.threads_of_block());
        for lane in lanes(moment.active).filter(|lane| addresses[*lane] & (SHARED_WINDOW | LOCAL_WINDOW) == 0) {
            let thread = first + u64::from(moment.warp) * 32 + lane as u64;
            self.note(request.kind, addresses[lane], request.bytes(), thread);
        }
        Ok(())
    }
}

impl Gpu {
    /// Runs a kernel like [`Gpu::launch_checked`], and records which threads access the words of some buffers. Each buffer is given by its address and its
    /// number of words.
    ///
    /// # Errors
    /// Returns the fault that was found, as [`Gpu::verdict`] does.
    pub fn launch_recorded(
        &mut self,
        kernel: &Kernel,
        launch: &Launch,
        arguments: &[Argument],
        buffers: &[(u64, usize)],
    ) -> Result<(Verdict, Vec<Touched>), Fault> {
        let mut recorder = Recorder(buffers.iter().map(|buffer| Touched::new(*buffer, launch)).collect());
        let mut counter = Counter::new(kernel);
        let (report, notes) = self.checked(kernel, launch, arguments, &mut [&mut counter, &mut recorder])?;
        Ok((Verdict { report, counts: counter.finish(), notes }, recorder.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Module;

    #[test]
    fn the_last_writer_and_the_reads_of_a_word_are_known() {
        let ptx = ".version 7.0\n.target sm_80\n.address_size 64\n.entry k(.param .u64 a) {\n\
            .reg .b64 %rd<4>; .reg .b32 %r<6>;\n\
            ld.param.u64 %rd1, [a];\n\
            mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x;\n\
            mad.lo.u32 %r4, %r2, %r3, %r1;\n\
            mul.wide.u32 %rd2, %r4, 4; add.u64 %rd3, %rd1, %rd2;\n\
            ld.global.u32 %r5, [%rd3]; st.global.u32 [%rd3], %r4; ret; }";
        let mut gpu = Gpu::new();
        let kernel = gpu.load(&Module::parse(ptx).unwrap()).unwrap().kernel("k").unwrap();
        let buffer = gpu.allocate(4 * 100).unwrap();
        gpu.write(buffer, &[0; 400]).unwrap();
        let launch = Launch::new(2, 40);
        let (_, touched) = gpu.launch_recorded(&kernel, &launch, &[Argument::U64(buffer)], &[(buffer, 100)]).unwrap();
        let thread = |block, thread| Some(Thread { block: [block, 0, 0], thread: [thread, 0, 0] });
        assert_eq!((touched[0].writer(0), touched[0].writer(79)), (thread(0, 0), thread(1, 39)));
        assert_eq!((touched[0].writer(80), touched[0].writer(1000)), (None, None));
        assert_eq!((touched[0].reads(79), touched[0].reads(80)), (1, 0));
    }
}
