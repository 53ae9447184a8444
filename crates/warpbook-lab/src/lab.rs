use crate::{Error, Event, Experiment, Result, driver, print_line};
use std::sync::{Arc, OnceLock};
use warpbook_device::{Bench, Cancel, Choice, ClockWatch, CudaDevice, Device, Inventory, Nvrtc, cpu_peaks, cuda_peaks};
use warpbook_gemm::{Tuning, tell_of_tuning};
use warpbook_record::{Environment, Peaks, Run, Rung, Schedule};

type Listener = Arc<dyn Fn(&Event) + Send + Sync>;

/// A measuring instrument: a device, a bench for timing, and a listener for progress.
pub struct Lab {
    device: Device,
    bench: Bench,
    watch: ClockWatch,
    peaks: Arc<OnceLock<Peaks>>,
    listener: Option<Listener>,
    author: Option<String>,
    isolated: bool,
}

impl std::fmt::Debug for Lab {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Lab on {}", self.device.info().name)
    }
}

impl Lab {
    /// Opens a lab on the device that `WARPBOOK_DEVICE` names, or else on the best device.
    ///
    /// # Errors
    /// If the named device is missing.
    pub fn new() -> Result<Self> {
        Self::on(Choice::from_env()?)
    }

    /// Opens a lab on a device by name: `cuda:0`, `cpu`, `emulator` or `best`.
    ///
    /// # Errors
    /// If the name is unknown, or the device is missing.
    pub fn open(device: &str) -> Result<Self> {
        Self::on(device.parse()?)
    }

    /// Opens a lab on a chosen device. From now on this process prints a line when timing kernels for a product takes
    /// longer than a second, unless the program set another listener.
    ///
    /// # Errors
    /// If the device is missing, or `WARPBOOK_TUNE` is not the name of a mode of tuning.
    pub fn on(choice: Choice) -> Result<Self> {
        Tuning::of_environment().map_err(|why| Error::Setting(format!("{why}.")))?;
        tell_of_tuning(print_line);
        let device = Device::open(choice)?;
        let watch = ClockWatch::new(device.cuda().and_then(CudaDevice::uuid));
        Ok(Self {
            device,
            bench: Bench::default(),
            watch,
            peaks: Arc::default(),
            listener: None,
            author: None,
            isolated: false,
        })
    }

    /// Returns the lab with another bench, which defines how runs are timed.
    #[must_use]
    pub fn with_bench(mut self, bench: Bench) -> Self {
        self.bench = Bench { cancel: self.bench.cancel, ..bench };
        self
    }

    /// Returns the lab with ceilings shared with another lab on the same device. The first lab that needs the ceilings measures them.
    #[must_use]
    pub fn with_ceilings_of(mut self, other: &Self) -> Self {
        self.peaks = other.shared_peaks();
        self
    }

    /// Returns the lab with a listener for progress.
    #[must_use]
    pub fn with_listener(mut self, listener: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        self.listener = Some(Arc::new(listener));
        self
    }

    /// Returns the lab with an author for its records.
    #[must_use]
    pub fn with_author(mut self, name: impl Into<String>) -> Self {
        self.author = Some(name.into());
        self
    }

    /// Declares that this process may be sacrificed, because a kernel that hangs in it harms nothing else.
    #[must_use]
    pub fn isolated(mut self, isolated: bool) -> Self {
        self.isolated = isolated;
        self
    }

    /// Returns true if this process may be sacrificed; see [`isolated`](Self::isolated).
    #[must_use]
    pub fn is_isolated(&self) -> bool {
        self.isolated
    }

    /// Returns the author that is stored in records.
    #[must_use]
    pub fn author(&self) -> Option<&str> {
        self.author.as_deref()
    }

    /// Returns the device that the lab measures.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Returns true if the device is the emulated GPU, on which rungs are checked but have no times.
    #[must_use]
    pub fn is_emulated(&self) -> bool {
        self.device.cuda().is_some_and(CudaDevice::is_emulated)
    }

    /// Returns a lab on the emulated GPU with the same listener, author and cancel handle.
    ///
    /// # Errors
    /// See [`Lab::on`].
    pub fn emulated(&self) -> Result<Self> {
        let lab = Self::on(Choice::Emulator)?;
        Ok(Self { bench: self.bench.clone(), listener: self.listener.clone(), author: self.author.clone(), ..lab })
    }

    /// Returns the bench, which defines how runs are timed.
    #[must_use]
    pub fn bench(&self) -> &Bench {
        &self.bench
    }

    /// Returns a handle that stops an experiment: it ends after the current sample and returns the rows so far.
    #[must_use]
    pub fn cancel(&self) -> Cancel {
        self.bench.cancel.clone()
    }

    /// Runs an experiment: plans it, checks every rung before and after timing it, and returns the record. A failed
    /// rung becomes a row of the record, and earlier results are kept.
    ///
    /// # Errors
    /// If a setting is out of range, or the device cannot be used at all.
    pub fn run(&self, experiment: &dyn Experiment) -> Result<Run> {
        driver::run(self, experiment)
    }

    /// Returns the ceilings of the device, measured once for each lab; the emulator has none.
    ///
    /// # Errors
    /// If the device reports an error.
    pub fn peaks(&self) -> Result<Peaks> {
        if let Some(peaks) = self.peaks.get() {
            return Ok(peaks.clone());
        }
        let measured = match &self.device {
            Device::Cuda(device) => cuda_peaks(device, &self.bench)?,
            Device::Emulator(_) => Peaks::default(),
            Device::Cpu(info) => cpu_peaks(&self.bench, info.l2_bytes, info.memory_bytes)?,
        };
        Ok(self.peaks.get_or_init(|| measured).clone())
    }

    /// Returns the shared cell of the ceilings, which is empty until they are measured.
    pub(crate) fn shared_peaks(&self) -> Arc<OnceLock<Peaks>> {
        self.peaks.clone()
    }

    /// Returns the environment of a run that starts now: host, device and versions.
    #[must_use]
    pub fn environment(&self) -> Environment {
        let cpu = Device::open(Choice::Cpu).map(|d| d.info().clone());
        let (cuda, gpu) = (self.device.cuda(), self.device.gpu());
        let version = |(major, minor): (u32, u32)| format!("{major}.{minor}");
        let nvrtc = match cuda {
            Some(device) => device.compiler().ok().map(|c| c.nvrtc().version()),
            None => Nvrtc::load(None).ok().map(|n| n.version()),
        };
        Environment {
            device: self.device.info().clone(),
            driver: gpu.and(Inventory::driver_version()),
            cuda: gpu.map(|d| version(d.driver_cuda())),
            nvrtc: nvrtc.map(version),
            clocks: self.watch.report(),
            cpu: cpu.as_ref().map_or_else(|_| "CPU".into(), |c| c.name.clone()),
            cpu_threads: cpu.map_or(1, |c| c.multiprocessors),
            os: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            warpbook: env!("CARGO_PKG_VERSION").into(),
            commit: option_env!("WARPBOOK_COMMIT").map(str::to_owned),
            debug_assertions: cfg!(debug_assertions),
            libraries: Vec::new(),
        }
    }

    /// Returns the reason why a rung cannot run here; `None` if it can.
    #[must_use]
    pub fn obstacle(&self, rung: &Rung) -> Option<String> {
        let info = self.device.info();
        if rung.requires.met_by(info.compute_capability) {
            let overlaps = rung.schedule() == Some(Schedule::OverlappedGraph);
            let lacks = overlaps && self.device.cuda().is_some_and(|d| !d.has_programmatic_launch());
            return lacks.then(|| "needs a driver for CUDA 12.3 or later, for overlapped launches in a graph".into());
        }
        let here = match info.compute_capability {
            Some((major, minor)) => format!("{} has {major}.{minor}", info.name),
            None => "this lab runs on the CPU".into(),
        };
        Some(format!("needs {}; {here}", rung.requires.sentence()))
    }

    /// Returns the number of hardware threads that the process may use.
    #[must_use]
    pub fn cpu_threads(&self) -> u32 {
        Device::open(Choice::Cpu).map_or(1, |d| d.info().multiprocessors)
    }

    /// Returns the size of main memory in bytes; 0 if it is unknown.
    #[must_use]
    pub fn host_memory_bytes(&self) -> u64 {
        Device::open(Choice::Cpu).map_or(0, |d| d.info().memory_bytes)
    }

    /// Returns the watch that observes the GPU's clocks.
    #[must_use]
    pub fn watch(&self) -> &ClockWatch {
        &self.watch
    }

    /// Reports an event to the listener.
    pub fn tell(&self, event: &Event) {
        if let Some(listener) = &self.listener {
            listener(event);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// Returns what a notebook's first cell says if `WARPBOOK_TUNE` is set to this. The test runs itself again as another
    /// process, since a variable belongs to a whole process.
    #[test]
    fn a_malformed_tuning_is_an_error_of_a_lab() {
        const CHILD: &str = "WARPBOOK_TEST_OF_TUNING";
        if std::env::var_os(CHILD).is_some() {
            println!("opened: {}", Lab::open("cpu").map_or_else(|why| why.to_string(), |lab| format!("{lab:?}")));
            return;
        }
        let opened = |tune: &str| {
            let mut child = Command::new(std::env::current_exe().unwrap());
            child.args(["--exact", "lab::tests::a_malformed_tuning_is_an_error_of_a_lab", "--nocapture"]);
            let done = child.env(CHILD, "1").env(Tuning::VARIABLE, tune).output().unwrap();
            String::from_utf8_lossy(&done.stdout).into_owned()
        };
        let refused = opened("fast");
        let why = "opened: WARPBOOK_TUNE: unknown tuning `fast`: choose off, quick or full.";
        assert!(refused.contains(why), "{refused}");
        for known in ["off", "quick", "full", ""] {
            assert!(opened(known).contains("opened: Lab on "), "{known}: {}", opened(known));
        }
    }
}
