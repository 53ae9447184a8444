//! Memory over time while arrays are allocated and released, by the driver or by a pool that keeps freed memory.

use super::Shown;
use crate::guide::prepared::Arrays;
use std::time::Instant;
use warpbook_device::{Buffer, CudaDevice, MemoryPoint, MemoryWatch, Pool, Stream};
use warpbook_gemm::{DeviceArrays, Gemm, Product, Workspace};
use warpbook_kernels::matmul::Form;
use warpbook_lab::activity::{Timelines, rounded};
use warpbook_lab::experiment::{Prepared, Trials};
use warpbook_lab::profile::memory_at;
use warpbook_lab::{Error, Result};
use warpbook_record::{Dtype, MemoryAt, Problem, Profiled, Span, count};

/// Number of rows and columns of the matrices, in a full run and in a quick one.
const EDGE: [u32; 2] = [10_000, 512];

/// Records a run of each rung until its memory is released. Also records a program that allocates matrices, multiplies
/// them, drops them and releases the memory; its memory comes from a pool or from the driver, as in the rung.
pub(in crate::guide) fn record(shown: &Shown<'_>, rungs: &[(&'static str, bool)]) -> Result<Timelines> {
    let arrays = Arrays::new(shown.lab, shown.pair, shown.work, shown.problem.size())?;
    let edge = EDGE[usize::from(shown.quick)];
    let problem = of_matrices(edge);
    shown.each(rungs, |rung, pooled| {
        let mut found = Timelines::default();
        let run = a_run(shown, &arrays, rung)?;
        found.profiled.push(profiled(rung, shown.problem, run));
        let MatrixTimeline { spans, memory } = matrices(shown.device, edge, pooled)?;
        found.spans.extend(spans.into_iter().map(|step| step.span(rung, &problem)));
        found.profiled.push(profiled(rung, &problem, memory));
        Ok(found)
    })
}

fn profiled(rung: &str, problem: &Problem, memory: Vec<MemoryAt>) -> Profiled {
    Profiled { memory, ..Profiled::new(rung, problem.clone(), "the lab's own allocations, by the host's clock") }
}

/// Returns the problem under which the matrix program is recorded; it is not one of the pair's sizes.
fn of_matrices(edge: u32) -> Problem {
    let edge = u64::from(edge);
    let label = format!("matrices of {edge} x {edge}, allocated, dropped and released");
    Problem::new(label, format!("{edge}²"), vec![count("matrix", edge, "rows and columns")], Dtype::F32)
        .with(|p| p.id = format!("allocation {}", p.id))
}

/// Records changes of a device's memory, timed with the host's clock.
struct Watch {
    watch: MemoryWatch,
    begin: Instant,
}

impl Watch {
    fn begin(device: &CudaDevice) -> Self {
        Self { watch: device.watch_memory(), begin: Instant::now() }
    }

    fn us(&self) -> f64 {
        self.begin.elapsed().as_secs_f64() * 1e6
    }

    fn end(self) -> Vec<MemoryAt> {
        since(self.begin, &self.watch.take())
    }
}

/// Converts memory points to the form that records use.
fn since(begin: Instant, points: &[MemoryPoint]) -> Vec<MemoryAt> {
    let us = |at: Instant| rounded(at.saturating_duration_since(begin).as_secs_f64() * 1e6);
    points.iter().map(|point| memory_at(us(point.at), point)).collect()
}

/// Records the memory of one run of a rung, from the first allocation until its pool is released.
fn a_run(shown: &Shown<'_>, arrays: &Arrays, id: &str) -> Result<Vec<MemoryAt>> {
    let unknown = || Error::UnknownRung { name: id.to_owned(), nearest: Vec::new() };
    let rung = shown.measured.rung(id).ok_or_else(unknown)?;
    let candidate = arrays.candidate(rung, &mut Trials::new(shown.lab, rung, shown.problem))?;
    candidate.reset()?;
    let watch = Watch::begin(shown.device);
    candidate.launch()?;
    candidate.stream().map_or(Ok(()), Stream::synchronize)?;
    drop(candidate);
    Ok(watch.end())
}

/// A step of the program, timed with the host's clock.
struct Step {
    name: &'static str,
    start_us: f64,
    duration_us: f64,
}

impl Step {
    fn span(self, rung: &str, problem: &Problem) -> Span {
        Span {
            rung: rung.to_owned(),
            problem: problem.clone(),
            name: self.name.to_owned(),
            operation: String::new(),
            stream: "host".into(),
            start_us: rounded(self.start_us),
            duration_us: rounded(self.duration_us),
            bytes: None,
            correlation: None,
        }
    }
}

struct MatrixTimeline {
    spans: Vec<Step>,
    memory: Vec<MemoryAt>,
}

/// Records the memory of one matrix that is dropped and released, then of two matrices and their product. Without a
/// pool, dropped memory returns to the driver at once.
fn matrices(device: &CudaDevice, edge: u32, pooled: bool) -> Result<MatrixTimeline> {
    let len = edge as usize * edge as usize;
    device.ensure_free(format!("Three matrices of {edge} x {edge} in fp32"), 12 * len as u64)?;
    let stream = device.stream()?;
    let multiply = Multiply::new(device, edge)?;
    let pool = Pool::new(device);
    let release = || {
        pool.empty_cache();
        Ok(())
    };
    let returned = || if pooled { Ok(()) } else { release() };
    let watch = Watch::begin(device);
    let mut spans = Vec::new();
    let mut step = |name, of: &mut dyn FnMut() -> Result<()>| {
        let start_us = watch.us();
        of()?;
        spans.push(Step { name, start_us, duration_us: watch.us() - start_us });
        Ok::<(), Error>(())
    };
    let (mut a, mut b, mut c) = (None, None, None);
    step("allocate one matrix", &mut || {
        a = Some(pool.array::<f32>(len)?);
        Ok(())
    })?;
    step("drop it", &mut || {
        a = None;
        returned()
    })?;
    step("release", &mut || release())?;
    step("allocate two and room for their product", &mut || {
        for matrix in [&mut a, &mut b, &mut c] {
            *matrix = Some(pool.array::<f32>(len)?);
        }
        Ok(())
    })?;
    step("fill and multiply", &mut || {
        if let (Some(a), Some(b), Some(c)) = (&a, &b, &c) {
            stream.fill_value(a, 1.0f32)?;
            stream.fill_value(b, 1.0f32)?;
            multiply.run(&stream, &DeviceArrays::new(&**a, &**b, &**c))?;
        }
        Ok(stream.synchronize()?)
    })?;
    step("drop the two", &mut || {
        (a, b) = (None, None);
        returned()
    })?;
    step("drop the product", &mut || {
        c = None;
        returned()
    })?;
    step("release", &mut || release())?;
    Ok(MatrixTimeline { spans, memory: watch.end() })
}

/// A matrix product that is compiled before the recording begins.
struct Multiply {
    gemm: Gemm,
    product: Product,
    workspace: Workspace,
}

impl Multiply {
    /// Prepares an edge x edge product in fp32, on tensor cores if they support the size.
    fn new(device: &CudaDevice, edge: u32) -> Result<Self> {
        let has_tf32 = device.info().compute_capability.is_some_and(|(major, _)| major >= 8);
        let dtype = if has_tf32 { Dtype::Tf32 } else { Dtype::F32 };
        let product = Product::new(edge, edge, edge, Form { out: Dtype::F32, ..Form::plain(dtype) });
        let matrix = || -> Result<Buffer<f32>> { Ok(device.zeros(edge as usize * edge as usize)?) };
        let [a, b, c] = [matrix()?, matrix()?, matrix()?];
        let (gemm, arrays, stream) = (Gemm::new(device), DeviceArrays::new(&a, &b, &c), device.stream()?);
        let workspace = Workspace::new(device, gemm.plan_for(&product, &arrays)?.workspace_bytes())?;
        let this = Self { gemm, product, workspace };
        this.run(&stream, &arrays)?;
        stream.synchronize()?;
        Ok(this)
    }

    fn run(&self, stream: &Stream, arrays: &DeviceArrays) -> Result<()> {
        Ok(self.gemm.gemm(stream, &self.product, arrays, &self.workspace)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn changes_have_the_times_since_the_start() {
        let begin = Instant::now();
        let point = |us, change, allocated, pool_allocated, pool_reserved| MemoryPoint {
            at: begin + Duration::from_micros(us),
            change,
            of_pool: pool_reserved > 0,
            allocated,
            pool_allocated,
            pool_reserved,
        };
        let all = since(begin + Duration::from_micros(2), &[point(0, 0, 100, 0, 0), point(7, 64, 164, 40, 64)]);
        let figures: Vec<_> =
            all.iter().map(|m| (m.at_us, m.allocated_bytes, m.pool_allocated_bytes, m.pool_reserved_bytes)).collect();
        assert_eq!(figures, [(0.0, 100, 0, 0), (5.0, 164, 40, 64)]);
    }

    #[test]
    fn matrices_are_a_problem_of_their_own() {
        let pair = crate::guide::Guide::pair("allocation").unwrap();
        let all = warpbook_lab::Experiment::problems(&pair);
        for edge in EDGE {
            let problem = of_matrices(edge);
            assert!(all.iter().all(|p| p.id != problem.id), "{}", problem.id);
            assert!(problem.label.contains(&format!("{edge} x {edge}")), "{}", problem.label);
        }
    }
}
