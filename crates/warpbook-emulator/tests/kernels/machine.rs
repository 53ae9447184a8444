//! An emulated GPU for tests, which also records launches as jobs.

use crate::job::{Buffer, Job, Piece};
use std::cell::{Cell, RefCell};
use std::sync::LazyLock;
use warpbook_device::Compiler;
use warpbook_emulator::{Argument, Gpu, Kernel, LIMITS, Launch, Module, Report};
use warpbook_kernels::Launch as Shape;
use warpbook_record::{KernelSpec, Tile};

/// The compiler NVRTC, without which these tests cannot run.
pub static COMPILER: LazyLock<Compiler> = LazyLock::new(|| Compiler::new(None).unwrap_or_else(|e| panic!("{e}")));

/// Returns the PTX of a kernel, compiled for a tile.
pub fn ptx(spec: &KernelSpec, tile: &Tile) -> String {
    ptx_for(spec, tile, "compute_80")
}

pub fn ptx_for(spec: &KernelSpec, tile: &Tile, architecture: &str) -> String {
    COMPILER.compile_to_ptx(spec, tile, architecture).unwrap_or_else(|e| panic!("{e}"))
}

/// A type of elements in a buffer.
pub trait Element: Copy {
    fn bytes(self) -> Vec<u8>;
    fn read(bytes: &[u8]) -> Self;
}

macro_rules! elements {
    ($($t:ident),*) => {$(
        impl Element for $t {
            fn bytes(self) -> Vec<u8> {
                self.to_le_bytes().to_vec()
            }
            fn read(bytes: &[u8]) -> Self {
                Self::from_le_bytes(bytes.try_into().unwrap())
            }
        }
    )*};
}
elements!(u8, u32, u64, f32, f64);

/// The way in which a test runs its kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Runs each kernel three times, with its blocks and warps in different orders and all checks on. No check may find a fault.
    Verdict,
    /// Runs each kernel once with all checks and counts.
    Checked,
    /// Runs each kernel once without checks.
    Plain,
}

thread_local! {
    pub static MODE: Cell<Mode> = const { Cell::new(Mode::Verdict) };
    /// Number of the barrier that is removed from the PTX of kernels, or `None`.
    pub static LOST_BARRIER: Cell<Option<usize>> = const { Cell::new(None) };
    /// Jobs of the launches so far, with their titles; `None` if launches are not recorded.
    pub static JOBS: RefCell<Option<Vec<(String, Job)>>> = const { RefCell::new(None) };
}

#[derive(Default)]
pub struct Machine {
    pub gpu: Gpu,
    /// Number of thread instructions run so far. `seconds` is the time they took.
    pub thread_steps: u64,
    pub seconds: f64,
    /// Address and size in bytes of each buffer, and true if the buffer is still unwritten.
    buffers: Vec<(u64, usize, bool)>,
    /// Title and PTX of the kernel that was compiled last.
    compiled: (String, String),
}

impl Machine {
    /// Copies elements into a new buffer, and returns its address.
    pub fn put<T: Element>(&mut self, values: &[T]) -> Argument {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.bytes()).collect();
        let address = self.gpu.allocate(bytes.len() as u64).unwrap();
        self.gpu.write(address, &bytes).unwrap();
        self.buffers.push((address, bytes.len(), false));
        Argument::U64(address)
    }

    /// Allocates a buffer for a number of elements and leaves it unwritten, so that the emulator reports reads of it.
    pub fn room<T>(&mut self, length: usize) -> Argument {
        let bytes = length * size_of::<T>();
        let address = self.gpu.allocate(bytes as u64).unwrap();
        self.buffers.push((address, bytes, true));
        Argument::U64(address)
    }

    pub fn get<T: Element>(&mut self, buffer: &Argument, length: usize) -> Vec<T> {
        let Argument::U64(address) = buffer else { panic!("{buffer:?} is no buffer") };
        let mut bytes = vec![0; length * size_of::<T>()];
        self.gpu.read(*address, &mut bytes).unwrap();
        bytes.chunks(size_of::<T>()).map(T::read).collect()
    }

    pub fn kernel(&mut self, spec: &KernelSpec, tile: &Tile) -> Kernel {
        let mut text = ptx(spec, tile);
        if let Some(number) = LOST_BARRIER.get() {
            let (at, barrier) = text.match_indices("bar.sync").nth(number).unwrap_or_else(|| panic!("no barrier"));
            text.replace_range(at..at + barrier.len(), "//");
        }
        let module = Module::parse(&text).unwrap_or_else(|e| panic!("{}: {e}", spec.file));
        self.compiled = (format!("{} {} {}", spec.file, spec.entry, tile.id), text);
        self.gpu.load(&module).unwrap().kernel(&spec.entry).unwrap_or_else(|e| panic!("{}: {e}", spec.file))
    }

    /// Compiles a kernel for a tile, and runs it with a launch shape.
    pub fn run(&mut self, spec: &KernelSpec, tile: &Tile, shape: Shape, arguments: &[Argument]) -> Report {
        let kernel = self.kernel(spec, tile);
        self.launch(&kernel, shape, false, arguments)
    }

    pub fn launch(&mut self, kernel: &Kernel, shape: Shape, is_cooperative: bool, arguments: &[Argument]) -> Report {
        let Shape { grid, block, dynamic_shared_bytes } = shape;
        let plain = Launch::new(1, 1);
        let launch = Launch { grid, block, dynamic_shared: dynamic_shared_bytes.into(), is_cooperative, ..plain };
        self.note_job(kernel, &launch, arguments);
        let start = std::time::Instant::now();
        let report = match MODE.get() {
            Mode::Verdict => self.gpu.verdict(kernel, &launch, arguments).map(|verdict| verdict.report),
            Mode::Checked => self.gpu.launch_checked(kernel, &launch, arguments).map(|verdict| verdict.report),
            Mode::Plain => self.gpu.launch(kernel, &launch, arguments),
        };
        let report = report.unwrap_or_else(|e| panic!("{}: {e}", kernel.name()));
        self.seconds += start.elapsed().as_secs_f64();
        self.thread_steps += report.thread_steps;
        self.buffers.iter_mut().for_each(|(.., is_new)| *is_new = false);
        report
    }

    /// Stores the title and the PTX of the kernel that is launched next.
    pub fn compiled(&mut self, title: &str, ptx: &str) {
        self.compiled = (title.to_owned(), ptx.to_owned());
    }

    /// Adds the next launch to the jobs, if launches are being recorded.
    pub fn note_job(&mut self, kernel: &Kernel, launch: &Launch, arguments: &[Argument]) {
        if JOBS.with_borrow(Option::is_none) {
            return;
        }
        let starts: Vec<u64> = self.buffers.iter().map(|(start, ..)| *start).collect();
        let mut contents = |(start, length, is_new): &(u64, usize, bool)| {
            let mut bytes = vec![0; *length];
            self.gpu.read(*start, &mut bytes).unwrap();
            if *is_new { Buffer::New(*length as u64) } else { Buffer::Bytes(bytes) }
        };
        let buffers = self.buffers.iter().map(&mut contents).collect();
        let piece = |word: &[u8]| {
            let address = word.try_into().map_or(0, u64::from_le_bytes);
            match starts.iter().position(|start| *start == address) {
                Some(number) => Piece::Address(number),
                None => Piece::Bytes(word.to_vec()),
            }
        };
        let pieces = |argument: &Argument| argument.bytes().chunks(8).map(piece).collect();
        let job = Job {
            kernel: kernel.name().to_owned(),
            grid: launch.grid,
            block: launch.block,
            dynamic_shared: launch.dynamic_shared,
            is_cooperative: launch.is_cooperative,
            buffers,
            arguments: arguments.iter().map(pieces).collect(),
            ptx: self.compiled.1.clone(),
        };
        JOBS.with_borrow_mut(|jobs| jobs.iter_mut().for_each(|jobs| jobs.push((self.compiled.0.clone(), job.clone()))));
    }
}

/// Returns the launch shape of a kernel for a number of items.
pub fn over_items(spec: &KernelSpec, tile: &Tile, items: usize) -> Shape {
    warpbook_kernels::over_items(spec, tile, items as u64, LIMITS.multiprocessors)
}

/// Returns small whole numbers, so that their sums are exact.
pub fn whole(length: usize, seed: usize) -> Vec<f32> {
    (0..length).map(|i| ((i * 7919 + seed * 104_729) % 17) as f32 - 8.0).collect()
}

/// Returns numbers between -1 and 1.
pub fn real(length: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..length).map(|_| next()).collect()
}

/// Fails if the error of any element exceeds `share` times the largest reference value.
pub fn assert_close(name: &str, got: &[f32], want: &[f64], share: f64) {
    let largest = want.iter().fold(0f64, |a, b| a.max(b.abs())).max(1e-30);
    assert_eq!(got.len(), want.len());
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        let error = (f64::from(*got) - want).abs();
        assert!(error <= share * largest, "{name}: element {i} is {got}, not {want}");
    }
}
