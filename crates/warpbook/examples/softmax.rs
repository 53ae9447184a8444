//! A custom experiment: row softmax on five rungs. `cargo run --release -p warpbook --example softmax -- [ROWS]
//! [OUT.json]`
//!
//! The lab checks and times each rung, and the page shows the record without any code for softmax.

use std::cell::RefCell;
use warpbook::prelude::experiment::*;
use warpbook::prelude::*;

struct Softmax {
    rows: u64,
    columns: Vec<u64>,
}

/// Creates a rung whose kernel assigns `lanes` threads to a row; each keeps `vectors` x 4 elements in registers.
macro_rules! cuda {
    ($id:literal, $title:literal, $summary:literal, $path:literal, $lanes:literal, $vectors:literal) => {{
        let size = |threads| [("THREADS", threads), ("LANES", $lanes), ("VECTORS", $vectors)];
        let tiles = [256, 128].map(|threads| Tile::new(format!("t{threads}"), &size(threads)));
        let source = Source { path: $path, text: include_str!($path) };
        Rung::cuda($id, $title, $summary, KernelSpec::new(source, "softmax", &tiles, Grid::Cover))
    }};
}

impl Experiment for Softmax {
    /// Counts five FLOPs for each element: a maximum, a difference, an exponential, a sum and a product. As bytes it
    /// counts one read of x and one write of y.
    fn plan(&self, _: Option<&Lab>) -> Result<Plan> {
        let problem = |&columns: &u64| {
            let sizes = vec![count("rows", self.rows, "rows"), count("columns", columns, "columns")];
            let (elements, short) = (self.rows * columns, format!("{} × {columns}", self.rows));
            Problem::new(format!("{short} fp32"), short, sizes, Dtype::F32).with(|p| {
                (p.flops, p.bytes, p.written_bytes) = (5 * elements, 8 * elements, 4 * elements);
                p.working_set_bytes = p.bytes;
                p.sweep = Some(SweepPoint { size: columns, line: format!("{} rows", self.rows) });
            })
        };
        let problems: Vec<Problem> = self.columns.iter().map(problem).collect();
        let rungs = vec![
            Rung::cpu("cpu_1_thread", "CPU, one thread", "Maximum, exponentials, quotient.", "1 thread"),
            Rung::cpu("cpu_all_threads", "CPU, all threads", "The threads share the rows.", "all threads"),
            cuda!("01_naive", "Naive", "A thread takes a row.", "softmax/naive.cu", 1, 1),
            cuda!("02_warp", "One warp per row", "Coalesced loads, and shuffles.", "softmax/warp.cu", 32, 1),
            cuda!("03_online", "One pass", "Registers hold a row; 16-byte loads.", "softmax/online.cu", 32, 8),
        ];
        Ok(Plan {
            inputs: "x standard Gaussian (Philox, seed 1)".into(),
            main_problem: problems.iter().find(|p| p.size() == 1024).cloned(),
            descriptor: Descriptor {
                headline: Quantity::Bandwidth,
                quantities: vec![Quantity::Bandwidth, Quantity::Time, Quantity::SpeedUp],
                axis: SweepAxis { caption: "columns".into(), unit: "columns".into(), doubling: true },
                ..Descriptor::default()
            },
            ..Plan::new("softmax", problems, rungs)
        })
    }

    fn prepare<'a>(&'a self, lab: &'a Lab, problem: &Problem) -> Result<Box<dyn Prepared + 'a>> {
        let [rows, columns] = ["rows", "columns"].map(|name| problem.count(name).unwrap_or(0) as usize);
        let (mut x, mut want) = (vec![0.0f32; rows * columns], vec![0.0f64; rows * columns]);
        on_rows(true, columns, &mut x, |row, x| {
            (row * columns..).zip(x).for_each(|(i, x)| *x = gaussian(1, i as u64, 0));
        });
        on_rows(true, columns, &mut want, |row, want| {
            let x = x[row * columns..][..columns].iter().map(|v| f64::from(*v));
            let largest = x.clone().fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = x.clone().map(|v| (v - largest).exp()).sum();
            want.iter_mut().zip(x).for_each(|(want, v)| *want = (v - largest).exp() / sum);
        });
        let gpu = |d: &CudaDevice| Ok::<_, Error>((d.clone(), d.stream()?, d.buffer_from(&x)?, d.zeros(x.len())?));
        let gpu = lab.device().cuda().map(gpu).transpose()?;
        let y = RefCell::new(vec![f32::NAN; x.len()]);
        Ok(Box::new(Inputs { columns, x, y, want, gpu }))
    }
}

/// Calls `f` with the index and the elements of each row, on this thread or on all threads.
fn on_rows<T: Send>(all: bool, columns: usize, data: &mut [T], f: impl Fn(usize, &mut [T]) + Sync) {
    let threads = if all { std::thread::available_parallelism().map_or(1, usize::from) } else { 1 };
    let (share, f) = ((data.len() / columns).div_ceil(threads).max(1), &f);
    std::thread::scope(|scope| {
        for (i, part) in data.chunks_mut(share * columns).enumerate() {
            scope.spawn(move || part.chunks_mut(columns).enumerate().for_each(|(j, row)| f(i * share + j, row)));
        }
    });
}

struct Inputs {
    columns: usize,
    x: Vec<f32>,
    y: RefCell<Vec<f32>>,
    want: Vec<f64>,
    gpu: Option<(CudaDevice, Stream, Buffer<f32>, Buffer<f32>)>,
}

impl Prepared for Inputs {
    fn candidate<'p>(&'p self, rung: &Rung, trials: &mut Trials<'_>) -> Result<Box<dyn Candidate + 'p>> {
        let (columns, rows) = (self.columns, self.x.len() / self.columns);
        // The tolerance is relative to each element. It allows for rounding in a sum of `columns` terms and for the
        // error of the exponential.
        let tolerance = (8.0 * (columns as f64).sqrt() + 32.0) * f64::from(f32::EPSILON);
        let check = move |y: &[f32]| {
            let pairs = y.iter().map(|v| f64::from(*v)).zip(self.want.iter().copied());
            Check::over("softmax in f64 on the CPU, every element", pairs, f64::MIN_POSITIVE, tolerance)
        };
        let (Some(spec), Some((device, stream, x, y))) = (rung.kernels().first(), &self.gpu) else {
            let (all, x) = (rung.id == "cpu_all_threads", &self.x);
            let launch = move || {
                on_rows(all, columns, &mut self.y.borrow_mut(), |row, y| {
                    let x = &x[row * columns..][..columns];
                    let largest = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                    y.iter_mut().zip(x).for_each(|(y, v)| *y = (v - largest).exp());
                    let inverse = 1.0 / y.iter().sum::<f32>();
                    y.iter_mut().for_each(|y| *y *= inverse);
                });
                Ok(())
            };
            return Ok(Box::new(on_cpu(launch, move || Ok(check(&self.y.borrow())))));
        };
        trials.fastest_tile(spec, |tile| {
            let (kernel, rows, columns) = (device.kernel(spec, tile)?, rows as u32, columns as u32);
            let shape = kernel.shape(u64::from(rows) * tile.get("LANES").unwrap_or(1).unsigned_abs());
            let traffic = vec![Traffic { level: MemoryLevel::Dram, bytes: 8 * self.x.len() as u64 }];
            let details = Details { traffic, ..Details::of_kernel(&kernel, shape) };
            // SAFETY: the arguments match `softmax(x, y, rows, columns)`, and x and y have rows x columns elements.
            let launch = move || unsafe { kernel.launch(stream, shape, &[x, y, &rows, &columns]) };
            let check = move || y.to_vec().map(|y| check(&y)).map_err(Error::from);
            Ok(on_gpu(stream, launch, check).poisoning(y).details(details))
        })
    }
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let rows = arguments.next().and_then(|r| r.parse().ok()).unwrap_or(65_536);
    let softmax = Softmax { rows, columns: vec![256, 512, 1024, 2048, 4096] };
    let run = Lab::new()?.run(&softmax)?;
    println!("{}", run.text());
    write_record(&run, arguments.next().unwrap_or("softmax.json".into())).map(|_| ())
}
