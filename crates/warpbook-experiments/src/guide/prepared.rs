//! The arrays of one size, and the halves of a pair, ready to run.

use super::launch::{queue, whole};
use super::pair::{Half, How, PairWork, Program};
use super::{Pair, half_of};
use std::cell::RefCell;
use warpbook_device::{Buffer, CudaDevice, Kernel, Pinned, Pool, Stream};
use warpbook_kernels::Launch;
use warpbook_lab::experiment::{Candidate, Closures, Details, Prepared, Trials, on_cpu, on_gpu};
use warpbook_lab::{Error, Event, Lab, Result};
use warpbook_record::{Check, KernelSpec, Rung};

pub(super) struct Arrays {
    pair: &'static Pair,
    pub work: PairWork,
    pub size: u64,
    pub x: Vec<f32>,
    pub want: Vec<f64>,
    /// Output of a half that runs on the CPU, or of the host's part of a half on the GPU.
    pub out: RefCell<Vec<f32>>,
    gpu: Option<PairBuffers>,
}

pub(super) struct PairBuffers {
    pub device: CudaDevice,
    pub stream: Stream,
    pub x: Buffer<f32>,
    pub y: Buffer<f32>,
}

impl Arrays {
    pub fn new(lab: &Lab, pair: &'static Pair, work: PairWork, size: u64) -> Result<Self> {
        let floats = warpbook_charts::words::counted(work.inputs as usize, "float");
        lab.tell(&Event::Preparing(&format!("making {floats} and the reference")));
        let x = (pair.input)(&work);
        let want = (pair.want)(&x, &work, size);
        let gpu = |device: &CudaDevice| {
            device.ensure_free(pair.title.to_owned(), 4 * (work.inputs + work.outputs))?;
            let y = device.zeros(work.outputs as usize)?;
            Ok::<_, Error>(PairBuffers {
                device: device.clone(),
                stream: device.stream()?,
                x: device.buffer_from(&x)?,
                y,
            })
        };
        let gpu = lab.device().cuda().map(gpu).transpose()?;
        let out = RefCell::new(vec![f32::NAN; work.outputs as usize]);
        Ok(Self { pair, work, size, x, want, out, gpu })
    }

    /// Returns the GPU with copies of the arrays.
    ///
    /// # Errors
    /// If there is no GPU.
    pub fn on_gpu(&self) -> Result<&PairBuffers> {
        Ok(self.gpu.as_ref().ok_or(warpbook_device::Error::NeedsCuda("This rung"))?)
    }

    pub fn check(&self, got: &[f32]) -> Check {
        let pairs = got.iter().map(|v| f64::from(*v)).zip(self.want.iter().copied());
        Check::over("the same in f64 on the CPU, every element", pairs, 1.0, self.pair.tolerance)
    }

    /// Returns the tolerance of the pair's results.
    pub fn tolerance(&self) -> f64 {
        self.pair.tolerance
    }

    pub fn numbers(&self) -> [u32; 2] {
        [self.work.n, self.work.argument].map(|v| u32::try_from(v).unwrap_or(u32::MAX))
    }

    /// Loads a kernel with the tile that belongs to the size.
    fn kernel(&self, on: &PairBuffers, half: &Half, spec: &KernelSpec) -> Result<Kernel> {
        let tile = half.tile(spec, self.size).ok_or_else(|| Error::Setting(format!("{} has no tile.", spec.path())))?;
        Ok(on.device.kernel(spec, tile)?)
    }

    fn on_cpu<'p>(&'p self, run: super::pair::CpuFunction) -> Closures<'p> {
        let launch = move || {
            run(&self.x, &mut self.out.borrow_mut(), self.work.n, self.size);
            Ok(())
        };
        on_cpu(launch, move || Ok(self.check(&self.out.borrow())))
    }

    /// Creates a candidate that launches one kernel, whose result stays on the device.
    fn by_kernel<'p>(&'p self, on: &'p PairBuffers, kernel: Kernel, shape: Launch, adds: bool) -> Closures<'p> {
        let details = Details::of_kernel(&kernel, shape);
        let launch = move || {
            if adds {
                on.stream.fill(&on.y, 0)?;
            }
            queue(&on.stream, (&kernel, shape), &on.x, &on.y, self.numbers())
        };
        let check = move || on.y.to_vec().map(|y| self.check(&y)).map_err(Error::from);
        on_gpu(&on.stream, launch, check).poisoning(&on.y).details(details)
    }

    /// Creates a candidate that launches the kernel once for each operation, or replays all launches as a graph.
    fn operations<'p>(&'p self, on: &'p PairBuffers, kernel: Kernel, in_a_graph: bool) -> Result<Closures<'p>> {
        let shape = kernel.shape(self.work.n);
        let details = Details::of_kernel(&kernel, shape);
        let [n, operations] = self.numbers();
        let all = move || -> warpbook_device::Result<()> {
            (0..operations).try_for_each(|number| {
                let from = if number == 0 { whole(&on.x) } else { whole(&on.y) };
                queue(&on.stream, (&kernel, shape), &from, &on.y, [n, number])
            })
        };
        let check = move || on.y.to_vec().map(|y| self.check(&y)).map_err(Error::from);
        let closures = if in_a_graph {
            let graph = on.stream.capture_owning("the guide's operations", (), |()| all())?;
            on_gpu(&on.stream, move || graph.launch(&on.stream), check)
        } else {
            on_gpu(&on.stream, all, check)
        };
        Ok(closures.poisoning(&on.y).details(details).as_launched())
    }

    /// Creates a candidate that computes a sum of products for each output.
    fn sums<'p>(&'p self, on: &'p PairBuffers, kernel: Kernel, copied_each: bool) -> Closures<'p> {
        let shape = kernel.shape(self.work.n / 4);
        let details = Details::of_kernel(&kernel, shape);
        let [n, _] = self.numbers();
        let launch = move || {
            let mut out = self.out.borrow_mut();
            on.stream.fill(&on.y, 0)?;
            for slot in 0..on.y.len() {
                queue(&on.stream, (&kernel, shape), &on.x, &on.y, [n, slot as u32])?;
                if copied_each {
                    on.stream.synchronize()?;
                    on.y.range(slot..=slot).read(&mut out[slot..=slot])?;
                }
            }
            if !copied_each {
                on.stream.synchronize()?;
                on.y.read(&mut out)?;
            }
            Ok(())
        };
        on_gpu(&on.stream, launch, move || Ok(self.check(&self.out.borrow()))).details(details).as_launched()
    }

    /// Creates a candidate that copies samples to the device, computes the layer, and copies them back.
    fn batches<'p>(&'p self, on: &'p PairBuffers, kernel: Kernel, one_by_one: bool) -> Result<Closures<'p>> {
        let samples = self.work.n as usize;
        let batch = if one_by_one { 1 } else { (self.size as usize).clamp(1, samples) };
        let [features, neurons] = [self.x.len(), self.want.len()].map(|len| len / samples);
        let from = on.device.pinned_from(&self.x)?;
        let to: Pinned<f32> = on.device.pinned(self.want.len())?;
        let details = Details::of_kernel(&kernel, kernel.shape((batch * neurons) as u64));
        let out = to.range(..);
        let launch = move || {
            for first in (0..samples).step_by(batch) {
                let here = batch.min(samples - first);
                let (x, y) = (on.x.range(..here * features), on.y.range(..here * neurons));
                on.stream.copy_to_device(&from.range(first * features..(first + here) * features), &x)?;
                let shape = kernel.shape((here * neurons) as u64);
                queue(&on.stream, (&kernel, shape), &x, &y, [here as u32, 0])?;
                on.stream.copy_to_host(&y, &to.range(first * neurons..(first + here) * neurons))?;
                // The host waits for each sample's result before it sends the next sample.
                on.stream.synchronize()?;
            }
            Ok(())
        };
        // The copies overwrite the device's input, so the check restores it for the next candidate.
        let check = move || {
            on.x.write(&self.x)?;
            Ok(self.check(&out.read()?))
        };
        Ok(on_gpu(&on.stream, launch, check).details(details).as_launched())
    }

    /// Creates a candidate that computes y ten times through an intermediate array, which is newly allocated each time.
    fn allocations<'p>(&'p self, on: &'p PairBuffers, kernel: Kernel, pooled: bool) -> Closures<'p> {
        let shape = kernel.shape(self.work.n);
        let details = Details::of_kernel(&kernel, shape);
        let pool = Pool::new(&on.device);
        let launch = move || {
            for _ in 0..10 {
                let between = pool.array::<f32>(self.work.n as usize)?;
                queue(&on.stream, (&kernel, shape), &on.x, &between, self.numbers())?;
                queue(&on.stream, (&kernel, shape), &between, &on.y, self.numbers())?;
                drop(between);
                if !pooled {
                    pool.empty_cache();
                }
            }
            Ok(())
        };
        let check = move || on.y.to_vec().map(|y| self.check(&y)).map_err(Error::from);
        on_gpu(&on.stream, launch, check).poisoning(&on.y).details(details).as_launched()
    }

    /// Creates a candidate that generates a new x on all host threads and copies it to the device.
    fn made<'p>(&'p self, on: &'p PairBuffers) -> Closures<'p> {
        let launch = move || on.y.write(&(self.pair.input)(&self.work));
        let check = move || on.y.to_vec().map(|y| self.check(&y)).map_err(Error::from);
        on_gpu(&on.stream, launch, check).poisoning(&on.y).as_launched()
    }

    /// Creates a candidate that copies x to the device, or copies y to the host.
    fn copy<'p>(&'p self, on: &'p PairBuffers, pinned: bool, to_device: bool) -> Result<Closures<'p>> {
        if !to_device {
            on.y.write(&self.x)?;
        }
        let locked = if pinned { Some(on.device.pinned_from(&self.x)?) } else { None };
        let read = locked.as_ref().map(|p| p.range(..));
        let launch = move || match (&locked, to_device) {
            (Some(locked), true) => on.stream.copy_to_device(locked, &on.y),
            (Some(locked), false) => on.stream.copy_to_host(&on.y, locked),
            (None, true) => on.y.write(&self.x),
            (None, false) => on.y.read(&mut self.out.borrow_mut()),
        };
        let check = move || match (&read, to_device) {
            (_, true) => on.y.to_vec().map(|y| self.check(&y)).map_err(Error::from),
            (Some(locked), false) => Ok(self.check(&locked.read()?)),
            (None, false) => Ok(self.check(&self.out.borrow())),
        };
        let closures = on_gpu(&on.stream, launch, check).as_launched();
        Ok(if to_device { closures.poisoning(&on.y) } else { closures })
    }
}

impl Prepared for Arrays {
    fn candidate<'p>(&'p self, rung: &Rung, _trials: &mut Trials<'_>) -> Result<Box<dyn Candidate + 'p>> {
        let unknown = || Error::Setting(format!("{} is not a rung of the pair {}.", rung.id, self.pair.name));
        let half = half_of(self.pair, rung).ok_or_else(unknown)?;
        if let How::Cpu { run, .. } = half.how {
            return Ok(Box::new(self.on_cpu(run)));
        }
        if let How::Made { make, .. } = half.how {
            if rung.variant_of.is_some() {
                return Err(Error::Setting(format!(
                    "{} runs several kernels of the engine, which cannot be replaced one by one. Try your kernel in place of a rung of the matrix product.",
                    half.id
                )));
            }
            return make(self);
        }
        let on = self.on_gpu()?;
        let kernel = || {
            let spec = rung.kernels().first().ok_or_else(unknown)?;
            self.kernel(on, half, spec)
        };
        Ok(Box::new(match half.how {
            How::Cpu { run, .. } => self.on_cpu(run),
            How::Made { make, .. } => return make(self),
            How::Kernel { threads, adds, .. } => {
                let kernel = kernel()?;
                let shape = kernel.shape(threads(self.work.n, self.size));
                self.by_kernel(on, kernel, shape, adds)
            }
            How::Host { program, .. } => match program {
                Program::Whole => {
                    let kernel = kernel()?;
                    let shape = kernel.shape(self.work.n);
                    self.by_kernel(on, kernel, shape, false).as_launched()
                }
                Program::Operations { in_a_graph } => self.operations(on, kernel()?, in_a_graph)?,
                Program::Sums { copied_each } => self.sums(on, kernel()?, copied_each),
                Program::Batches { one_by_one } => self.batches(on, kernel()?, one_by_one)?,
                Program::Made => self.made(on),
                Program::Allocations { pooled } => self.allocations(on, kernel()?, pooled),
                Program::Copy { pinned, to_device } => self.copy(on, pinned, to_device)?,
            },
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guide::PAIRS;
    use warpbook_device::Choice;

    #[test]
    fn one_wrong_element_is_found() {
        let lab = Lab::on(Choice::Cpu).unwrap();
        for pair in PAIRS {
            let size = pair.quick[0];
            let arrays = Arrays::new(&lab, pair, (pair.work)(size, true), size).unwrap();
            let mut y: Vec<f32> = arrays.want.iter().map(|v| *v as f32).collect();
            assert!(arrays.check(&y).passed, "{pair:?}");
            let last = y.len() - 1;
            y[last] += 1e-3 * y[last].abs().max(1.0);
            assert!(!arrays.check(&y).passed, "{pair:?}");
            y[last] = f32::NAN;
            assert!(!arrays.check(&y).passed, "{pair:?}");
        }
    }
}
