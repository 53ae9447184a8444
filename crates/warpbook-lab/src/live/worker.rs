//! Runs learners' kernels in separate processes, so that a crash or an endless loop affects only that process.

use super::{LiveKernel, Preset};
use crate::settings::Entry;
use crate::{Error, Experiment, Lab, Result, read_record};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use warpbook_device::{Bench, Choice};
use warpbook_record::{Problem, Run};

/// The environment variable with the path of the worker's program.
const WORKER: &str = "WARPBOOK_WORKER";
/// Seconds that a worker may take in addition to the kernel's limit: for starting, drawing inputs, computing the
/// reference, and timing the other rungs.
const OVERHEAD_S: f64 = 120.0;
/// Time for a worker to exit after writing its record; a process whose kernel hangs cannot always end itself.
const GRACE: Duration = Duration::from_secs(2);

/// A request to a worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request {
    experiment: String,
    settings: Vec<(String, String)>,
    problem: String,
    live: LiveKernel,
    device: String,
    warmup: u32,
    samples: u32,
    budget_s: f64,
    batch_below_us: f64,
}

impl Request {
    /// Creates the request; `None` for an experiment that cannot be recreated by name.
    fn new(lab: &Lab, experiment: &dyn Experiment, problem: &Problem, live: &LiveKernel) -> Option<Self> {
        let (bench, device) = (lab.bench(), lab.device().info().selector());
        let (name, settings) = experiment.plan(None).ok()?.settings?;
        Some(Self {
            experiment: name.into(),
            settings,
            problem: problem.id.clone(),
            live: live.clone(),
            device,
            warmup: bench.warmup,
            samples: bench.samples,
            budget_s: bench.budget_s,
            batch_below_us: bench.batch_below_us,
        })
    }

    fn bench(&self) -> Bench {
        Bench {
            warmup: self.warmup,
            samples: self.samples,
            budget_s: self.budget_s,
            batch_below_us: self.batch_below_us,
            ..Bench::default()
        }
    }

    /// Reads a request.
    ///
    /// # Errors
    /// If the file cannot be read, or is not a request.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(|why| Error::Read { path: path.to_owned(), why })?;
        serde_json::from_str(&text).map_err(|e| Error::Setting(format!("{} is not a request: {e}.", path.display())))
    }

    /// Opens the lab that the request describes.
    ///
    /// # Errors
    /// If the device is missing.
    pub fn lab(&self) -> Result<Lab> {
        Ok(Lab::on(self.device.parse::<Choice>()?)?.with_bench(self.bench()).isolated(true))
    }

    /// Runs the request with one of the experiments that the program knows.
    ///
    /// # Errors
    /// See [`Lab::attempt_at`]; also if this version lacks the experiment or the problem.
    pub fn run(&self, lab: &Lab, known: &[Entry]) -> Result<Run> {
        let unknown = |what: &str, name: &str| Error::Setting(format!("This version has no {what} `{name}`."));
        let entry = known.iter().find(|entry| entry.name == self.experiment);
        let entry = entry.ok_or_else(|| unknown("experiment", &self.experiment))?;
        let experiment = entry.make(Preset::Standard, &self.settings)?;
        let plan = experiment.plan(None)?;
        let problem = plan.problems.into_iter().find(|p| p.id == self.problem);
        let problem = problem.ok_or_else(|| unknown("problem", &self.problem))?;
        let base = plan.rungs.into_iter().find(|r| r.id == self.live.base.id);
        // Records, and therefore requests, do not contain the rungs' sources.
        let base = base.ok_or_else(|| unknown("rung", &self.live.base.id))?;
        let live = LiveKernel { base, ..self.live.clone() };
        lab.attempt_here(&*experiment, &problem, &live)
    }
}

/// The outcome of a worker's run.
pub(super) enum Isolated {
    /// The worker finished with this record.
    Finished(Box<Run>),
    /// The worker was stopped, or ended without a result, for this reason.
    Failed(String),
    /// There is no worker program, it rejected the request (for example because it has another version), or it does not
    /// know the experiment.
    Unavailable,
}

/// Returns the path of the worker's program, if it can be found.
fn find() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os(WORKER) {
        // If the variable is set but empty, the kernel runs in this process.
        return Some(PathBuf::from(named)).filter(|p| p.is_file());
    }
    let name = format!("warpbook{}", std::env::consts::EXE_SUFFIX);
    let own = std::env::current_exe().ok().filter(|p| p.file_name().is_some_and(|n| *n == *name));
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
    let built = ["release", "debug"].map(|profile| target.join(profile).join(&name));
    let newest = built.into_iter().filter(|p| p.is_file()).max_by_key(|p| p.metadata().and_then(|m| m.modified()).ok());
    let on_path = || {
        let folders = std::env::var_os("PATH")?;
        std::env::split_paths(&folders).map(|f| f.join(&name)).find(|p| p.is_file())
    };
    own.or(newest).or_else(on_path)
}

/// The temporary files of one worker, removed on drop.
struct Files(PathBuf);

impl Files {
    fn new() -> std::io::Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("warpbook-worker-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        Ok(Self(folder))
    }

    fn request(&self) -> PathBuf {
        self.0.join("request.json")
    }

    fn record(&self) -> PathBuf {
        self.0.join("record.json")
    }

    fn words(&self) -> PathBuf {
        self.0.join("words.txt")
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs a kernel in a worker.
///
/// # Errors
/// If the worker's files cannot be written.
pub(super) fn run(lab: &Lab, experiment: &dyn Experiment, problem: &Problem, live: &LiveKernel) -> Result<Isolated> {
    match (Request::new(lab, experiment, problem, live), find()) {
        (Some(request), Some(program)) => run_program(lab, &request, &program),
        _ => Ok(Isolated::Unavailable),
    }
}

fn run_program(lab: &Lab, request: &Request, program: &Path) -> Result<Isolated> {
    let write = |why| Error::Write { path: std::env::temp_dir(), why };
    let files = Files::new().map_err(write)?;
    let text = serde_json::to_string(request).map_err(|e| Error::Setting(e.to_string()))?;
    std::fs::write(files.request(), text).map_err(write)?;
    let words = std::fs::File::create(files.words()).map_err(write)?;
    let mut command = Command::new(program);
    command.arg("work").arg(files.request()).arg("--out").arg(files.record());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(words);
    let Ok(mut child) = command.spawn() else { return Ok(Isolated::Unavailable) };
    let limit = Duration::from_secs_f64(OVERHEAD_S + 2.0 * request.live.limit_s);
    let ended = wait(lab, &mut child, &files.record(), limit);
    if let Ok(run) = read_record(files.record()) {
        return Ok(Isolated::Finished(Box::new(run)));
    }
    let said = std::fs::read_to_string(files.words()).unwrap_or_default();
    Ok(match ended {
        Some(status) if status.code() == Some(2) && said.contains("unrecognized subcommand") => Isolated::Unavailable,
        Some(status) => {
            let last = said.lines().rfind(|l| !l.trim().is_empty()).unwrap_or("it printed nothing");
            Isolated::Failed(format!("The process that ran the kernel ended ({status}): {last}"))
        }
        None if lab.bench().cancel.is_cancelled() => return Err(warpbook_device::Error::Cancelled.into()),
        None => Isolated::Failed(format!(
            "The process that ran the kernel was stopped after {:.0} s. Nothing else was lost.",
            limit.as_secs_f64()
        )),
    })
}

/// Waits for the worker's end; kills it after the limit and returns `None`.
fn wait(lab: &Lab, child: &mut Child, record: &Path, limit: Duration) -> Option<ExitStatus> {
    let begun = Instant::now();
    let mut written: Option<Instant> = None;
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        if written.is_none() && record.exists() {
            written = Some(Instant::now());
        }
        let lingers = written.is_some_and(|w| w.elapsed() > GRACE);
        if lingers || begun.elapsed() > limit || lab.bench().cancel.is_cancelled() {
            let _ = child.kill();
            let _ = child.wait();
            return None;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use crate::sample::{Sample, problem};
    use warpbook_device::testing;

    fn lab() -> Lab {
        Lab::open("cpu").unwrap()
    }

    /// Returns the outcome if a shell script is the worker; it is called as `work REQUEST --out RECORD`.
    fn outcome_of(script: &str) -> Isolated {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("worker");
        std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        run_program(&lab(), &request(&LiveKernel::for_rung("02_coalesced").unwrap().time_limit(0.1)), &program).unwrap()
    }

    fn request(live: &LiveKernel) -> Request {
        Request::new(&lab(), &Sample, &problem(), live).unwrap()
    }

    #[test]
    fn a_worker_s_end_is_told() {
        let not = |script: &str, expect: &str| match outcome_of(script) {
            Isolated::Failed(why) => assert!(why.contains(expect), "{why}"),
            _ => panic!("{script} gave a record"),
        };
        not("echo first >&2; echo last words >&2; exit 3", "exit status: 3): last words");
        not("kill -9 $$", "signal: 9");
        not("echo '{}' > \"$4\"", "it printed nothing");
        assert!(matches!(
            outcome_of("echo \"error: unrecognized subcommand 'work'\" >&2; exit 2"),
            Isolated::Unavailable
        ));
        assert!(matches!(
            run_program(&lab(), &request(&LiveKernel::for_rung("01_naive").unwrap()), Path::new("/no/such")),
            Ok(Isolated::Unavailable)
        ));
    }

    #[test]
    fn a_worker_that_lingers_after_its_record_is_ended() {
        let here = testing::manifest_dir(env!("CARGO_MANIFEST_DIR"));
        let published = here.join("../../data/results/regression-h200.json");
        let begun = Instant::now();
        let script = format!("cp '{}' \"$4\"; sleep 60", published.display());
        assert!(matches!(outcome_of(&script), Isolated::Finished(_)));
        assert!(begun.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn a_request_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("request.json");
        let lab = lab().with_bench(Bench { samples: 3, ..Bench::quick() });
        let live = LiveKernel::for_rung("08_double_buffered").unwrap().size("BM", 64).named("x");
        let request = Request::new(&lab, &Sample, &problem(), &live).unwrap();
        std::fs::write(&path, serde_json::to_string(&request).unwrap()).unwrap();
        let read = Request::read(&path).unwrap();
        // The request omits the catalogue's sources and contains the kernel's own.
        let text = |r: &Request| serde_json::to_string(r).unwrap();
        assert_eq!((text(&read), read.bench().samples, read.device.as_str()), (text(&request), 3, "cpu"));
        assert_eq!(read.live.text(), live.text());
        std::fs::write(&path, "{}").unwrap();
        assert!(Request::read(&path).unwrap_err().to_string().contains("is not a request"));
    }
}
