//! A job: a kernel launch in text form that a page or another machine can repeat. It has the shape, buffers, arguments and PTX.

use warpbook_emulator::{Argument, Fault, Gpu, Kernel, Launch, Module, Verdict};

/// A kernel with everything that its launch needs.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Job {
    /// The kernel's name in the PTX.
    pub kernel: String,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub dynamic_shared: u64,
    pub is_cooperative: bool,
    pub buffers: Vec<Buffer>,
    /// The pieces of each argument: a structure may consist of numbers and addresses.
    pub arguments: Vec<Vec<Piece>>,
    pub ptx: String,
}

/// The contents of a buffer in global memory before the launch.
#[derive(Debug, Clone, PartialEq)]
pub enum Buffer {
    Bytes(Vec<u8>),
    /// A number of bytes that are still unwritten.
    New(u64),
}

/// A part of an argument.
#[derive(Debug, Clone, PartialEq)]
pub enum Piece {
    /// The address of a buffer, given by its index in the job.
    Address(usize),
    Bytes(Vec<u8>),
}

/// A job whose buffers are in the memory of an emulated GPU.
pub struct Prepared {
    gpu: Gpu,
    kernel: Kernel,
    pub launch: Launch,
    arguments: Vec<Argument>,
}

impl Job {
    /// Parses a job: a line for each property, then the line `ptx`, then the PTX. Returns `None` if the text is not a job.
    pub fn read(text: &str) -> Option<Self> {
        let (head, ptx) = text.split_once("\nptx\n")?;
        let mut job = Self { ptx: ptx.to_owned(), ..Self::default() };
        for line in head.lines() {
            let (name, rest) = line.split_once(' ')?;
            let sizes = || -> Option<[u32; 3]> {
                let sizes: Option<Vec<u32>> = rest.split(' ').map(|size| size.parse().ok()).collect();
                sizes?.try_into().ok()
            };
            let piece = |word: &str| match word.strip_prefix('@') {
                Some(number) => Some(Piece::Address(number.parse().ok()?)),
                None => Some(Piece::Bytes(from_hex(word)?)),
            };
            match name {
                "kernel" => job.kernel = rest.to_owned(),
                "grid" => job.grid = sizes()?,
                "block" => job.block = sizes()?,
                "shared" => job.dynamic_shared = rest.parse().ok()?,
                "cooperative" => job.is_cooperative = rest == "1",
                "new" => job.buffers.push(Buffer::New(rest.parse().ok()?)),
                "buffer" => job.buffers.push(Buffer::Bytes(from_hex(rest)?)),
                "argument" => job.arguments.push(rest.split(' ').map(piece).collect::<Option<_>>()?),
                _ => return None,
            }
        }
        Some(job)
    }

    /// Copies the buffers to the memory of an emulated GPU, and decodes the kernel.
    pub fn prepare(&self) -> Result<Prepared, String> {
        let mut gpu = Gpu::new();
        let module = Module::parse(&self.ptx).map_err(|why| why.to_string())?;
        let kernel = gpu.load(&module).map_err(|why| why.to_string())?.kernel(&self.kernel);
        let kernel = kernel.map_err(|why| why.to_string())?;
        let mut addresses = Vec::new();
        for buffer in &self.buffers {
            let length = match buffer {
                Buffer::New(length) => *length,
                Buffer::Bytes(bytes) => bytes.len() as u64,
            };
            let address = gpu.allocate(length).map_err(|why| why.to_string())?;
            if let Buffer::Bytes(bytes) = buffer {
                gpu.write(address, bytes).map_err(|why| why.to_string())?;
            }
            addresses.push(address);
        }
        let bytes = |piece: &Piece| match piece {
            Piece::Address(number) => addresses.get(*number).map(|address| address.to_le_bytes().to_vec()),
            Piece::Bytes(bytes) => Some(bytes.clone()),
        };
        let argument =
            |pieces: &Vec<Piece>| Some(Argument::Bytes(pieces.iter().map(bytes).collect::<Option<Vec<_>>>()?.concat()));
        let arguments = self.arguments.iter().map(argument).collect::<Option<Vec<_>>>();
        let arguments = arguments.ok_or("An argument names a buffer that is not there.")?;
        let (grid, block, is_cooperative) = (self.grid, self.block, self.is_cooperative);
        let launch = Launch { grid, block, dynamic_shared: self.dynamic_shared, is_cooperative, ..Launch::new(1, 1) };
        Ok(Prepared { gpu, kernel, launch, arguments })
    }
}

impl Prepared {
    /// Runs the kernel once with all checks and counts on.
    pub fn run(&mut self) -> Result<Verdict, Fault> {
        self.gpu.launch_checked(&self.kernel, &self.launch, &self.arguments)
    }
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    text.as_bytes().chunks(2).map(|pair| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok()).collect()
}
