//! The handle of an exercise, which gives access to its texts, tries, hints and solution.

use super::answers::{explain, judge_answers, judge_function};
use super::definition::{Ceiling, Definition, KernelTask, Task, TimeTarget};
use super::judge::{LikelyCause, code, compile, hint, judge, spec, time_on_gpu, wrong_on_gpu};
use super::keep::{Keeper, now, progress_folder};
use super::source_hash;
use super::texts::{Texts, exercises_folder, read_text};
use super::tried::{Tried, TryTime};
use crate::{Error, Lab, Result};
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use warpbook_device::{Bench, Compiler, CudaDevice, Device, cuda_peaks};
use warpbook_record::{Dtype, ExerciseProgress, LIVE, MemoryLevel, Peaks, Verdict, nearest};

/// Number of different wrong tries after which the solution can be shown.
const TRIES_BEFORE_SOLUTION: usize = 3;
/// Environment variable that lets an instructor see solutions at any time.
const INSTRUCTOR: &str = "WARPBOOK_SOLUTIONS";

/// An exercise that a learner works on. Tries, hints and the solution are noted in the learner's progress file.
#[derive(Debug)]
pub struct Exercise {
    definition: Definition,
    texts: Texts,
    task: String,
    keeper: Keeper,
    device: Device,
    bench: Bench,
    /// The device's ceilings, which all exercises of a lab share.
    peaks: Arc<OnceLock<Peaks>>,
    compiler: OnceLock<Compiler>,
    /// The stub compiled to PTX, which tries are compared with.
    stub: OnceLock<String>,
}

/// A hint of an exercise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hint {
    /// Number of the hint, counted from 1.
    pub number: usize,
    /// Total number of hints of the exercise.
    pub of: usize,
    /// The hint as the learner reads it.
    pub text: String,
}

/// The solution of an exercise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Solution {
    /// Id of the exercise.
    pub exercise: &'static str,
    /// Source in CUDA C++.
    pub source: String,
}

/// Draws a new random seed.
fn new_seed() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Finds an exercise by its id, such as "E05", "e5" or "5", or by its folder's name.
///
/// # Errors
/// If there is no such exercise; the message suggests the id that is most similar.
pub fn find_exercise(all: &[Definition], id: &str) -> Result<Definition> {
    let wanted = id.trim();
    let digits = wanted.strip_prefix(['E', 'e']).unwrap_or(wanted);
    let by_number = digits.parse::<u32>().ok().map(|number| format!("E{number:02}"));
    let is_it = |one: &&Definition| {
        by_number.as_deref() == Some(one.id)
            || one.id.eq_ignore_ascii_case(wanted)
            || one.folder.eq_ignore_ascii_case(wanted)
    };
    all.iter().find(is_it).cloned().ok_or_else(|| {
        let near = nearest(wanted, all.iter().map(|one| one.id));
        let near = near.first().map_or_else(String::new, |id| format!(" Did you mean {id}?"));
        let range = all.first().zip(all.last()).map_or_else(String::new, |(first, last)| {
            format!(
                " There are {} exercises, from {} to {}; `warpbook exercise list` shows them.",
                all.len(),
                first.id,
                last.id
            )
        });
        Error::Setting(format!("There is no exercise `{wanted}`.{near}{range}"))
    })
}

impl Exercise {
    /// Opens an exercise for the author of a lab, with the texts in [`exercises_folder`] and the progress in [`progress_folder`].
    ///
    /// # Errors
    /// If the exercise's folder is missing, or its task cannot be read.
    ///
    /// [`exercises_folder`]: super::exercises_folder
    pub fn new(lab: &Lab, definition: Definition) -> Result<Self> {
        Self::in_folders(lab, definition, &exercises_folder()?, progress_folder())
    }

    /// Opens an exercise with texts and progress in other folders. Without a folder for progress, no progress is saved.
    ///
    /// # Errors
    /// See [`Exercise::new`].
    pub fn in_folders(lab: &Lab, definition: Definition, exercises: &Path, progress: Option<PathBuf>) -> Result<Self> {
        let texts = Texts::find(&definition, exercises)?;
        let task = texts.read("task.md")?;
        let keeper = Keeper::new(lab.author(), progress);
        Ok(Self {
            definition,
            texts,
            task,
            keeper,
            device: lab.device().clone(),
            bench: lab.bench().clone(),
            peaks: lab.shared_peaks(),
            compiler: OnceLock::new(),
            stub: OnceLock::new(),
        })
    }

    /// Returns the data of the exercise: its id, title, lesson and task.
    #[must_use]
    pub fn definition(&self) -> &Definition {
        &self.definition
    }

    /// Returns the task, in Markdown.
    #[must_use]
    pub fn task(&self) -> &str {
        &self.task
    }

    /// Returns the stub, the source that a learner starts with.
    ///
    /// # Errors
    /// If the stub cannot be read.
    pub fn stub(&self) -> Result<String> {
        self.texts.read("stub.cu")
    }

    /// Returns the path of the learner's file, such as `notebooks/work/E05.cu`, whether the file exists or not.
    #[must_use]
    pub fn file(&self) -> &Path {
        self.texts.work()
    }

    /// Copies the stub to the learner's file, unless the file exists, and returns its path.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn open(&self) -> Result<PathBuf> {
        self.kernel_only("open")?;
        let path = self.texts.open()?;
        // The time spent on the exercise counts from now. If the progress file cannot be written, the first try reports it.
        let _ = self.keeper.change(|progress| _ = progress.begin(self.definition.id, now()));
        Ok(path)
    }

    /// Renames the learner's file to `E05.1.cu` and so on, and puts the stub in its place. Returns the new path of the old file, if there was one. The progress
    /// is kept.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn reset(&self) -> Result<Option<PathBuf>> {
        self.kernel_only("reset")?;
        self.texts.reset()
    }

    /// Tries the learner's file.
    ///
    /// # Errors
    /// If there is no such file; see also [`Exercise::try_source`].
    pub fn try_file(&self) -> Result<Tried> {
        self.kernel_only("try_file")?;
        let path = self.texts.work();
        if !path.is_file() {
            return Err(Error::Setting(format!(
                "{} does not exist yet: `open()` puts the stub there.",
                path.display()
            )));
        }
        self.try_path(path)
    }

    /// Tries the source in any file.
    ///
    /// # Errors
    /// If the file cannot be read; see also [`Exercise::try_source`].
    pub fn try_path(&self, path: &Path) -> Result<Tried> {
        self.try_source(&read_text(path)?)
    }

    /// Compiles a source, runs it in the emulator at every size with random inputs, and compares its results with the reference. Each try is noted in the
    /// progress.
    ///
    /// # Errors
    /// If there is no NVRTC, the stub cannot be read, or the exercise does not ask for a kernel. A source that does not compile gives a verdict, not an error.
    pub fn try_source(&self, source: &str) -> Result<Tried> {
        self.try_seeded(source, new_seed())
    }

    /// Tries a source like [`Exercise::try_source`], with inputs drawn from the seed of an earlier verdict.
    ///
    /// # Errors
    /// See [`Exercise::try_source`].
    pub fn try_seeded(&self, source: &str, seed: u64) -> Result<Tried> {
        let Task::Kernel(task) = &self.definition.task else { return Err(self.other_kind("try_source")) };
        let compiler = self.compiler()?;
        let file = format!("{}.cu", self.definition.id);
        let name = (file.as_str(), task.entry);
        let tried = self.blank(format!("{LIVE}{file}"), source);
        let tried = match compile(compiler, name, source)? {
            Err(error) => {
                let first = error.diagnostics.iter().find(|d| d.is_error);
                let what = first.map_or_else(
                    || "The source does not compile.".into(),
                    |d| format!("It does not compile. Line {}: {}.", d.line, d.message.trim_end_matches('.')),
                );
                let sentence = first.and_then(|d| hint(&d.message)).unwrap_or("The compiler's message names the line.");
                let cause = LikelyCause { id: "does_not_compile".into(), sentence: sentence.into() };
                Tried { sentence: what, cause: Some(cause), compile_error: Some(error), ..tried }
            }
            Ok(ptx) => {
                let tried = tried.judged(judge(task, &ptx, seed), seed);
                if self.is_stub(source)? {
                    tried.untouched("The stub is unchanged, so nothing was tried.")
                } else {
                    const SAME: &str =
                        "The compiler makes the same code of this as of the stub: so far your edit changes nothing.";
                    // No stub is on target, so such a try needs no comparison.
                    let is_same =
                        tried.verdict != Verdict::RightAndOnTarget && code(&ptx) == *self.stub_code(compiler, name)?;
                    // A stub that is right, but slow, is no answer under other names.
                    if is_same && tried.verdict.is_right() {
                        tried.untouched(SAME)
                    } else {
                        let mut tried = self.on_gpu(task, tried, name);
                        tried.remarks.extend(is_same.then(|| SAME.into()));
                        tried
                    }
                }
            }
        };
        Ok(self.note(tried, &[]))
    }

    /// Runs a kernel that is right in the emulator on the GPU, if there is one. It must be right there too, and is timed if the exercise has a time target.
    fn on_gpu(&self, task: &KernelTask, tried: Tried, name: (&str, &'static str)) -> Tried {
        let Some(device) = self.device.gpu().filter(|_| tried.verdict.is_right()) else { return tried };
        let gpu = device.info().name.clone();
        match self.run_on_gpu(device, task, &tried, name) {
            Ok(Ok(time)) => Tried { time, ..tried },
            Ok(Err(wrong)) => {
                let id = "wrong_on_gpu".into();
                let sentence = "It is right in the emulator, and wrong on the GPU. Does it rely on an order of blocks or warps, or on small sizes?".into();
                let cause = Some(LikelyCause { id, sentence });
                Tried { verdict: Verdict::NotYet, sentence: format!("On {gpu}: {wrong}"), cause, ..tried }
            }
            Err(why) => {
                let mut tried = tried;
                tried.remarks.push(format!("It was judged in the emulator and not run on {gpu}: {why}"));
                tried
            }
        }
    }

    /// Runs a kernel on a GPU. Returns the time, if the exercise has a time target, or a sentence that says what is wrong.
    fn run_on_gpu(
        &self,
        device: &CudaDevice,
        task: &KernelTask,
        tried: &Tried,
        name: (&str, &'static str),
    ) -> Result<std::result::Result<Option<TryTime>, String>> {
        let (spec, tile) = spec(name, &tried.source);
        let kernel = device.kernel(&spec, &tile)?;
        if let Some(wrong) = wrong_on_gpu(device, &kernel, task, tried.seed)? {
            return Ok(Err(wrong));
        }
        let Some(TimeTarget { size, work, ceiling, share: target }) = task.time else { return Ok(Ok(None)) };
        let us = match time_on_gpu(device, &self.bench, &kernel, (task, size), tried.seed)? {
            Ok(us) => us,
            Err(wrong) => return Ok(Err(wrong)),
        };
        let peaks = match self.peaks.get() {
            Some(peaks) => peaks,
            None => {
                let measured = cuda_peaks(device, &self.bench)?;
                self.peaks.get_or_init(|| measured)
            }
        };
        let memory = |written| peaks.level_for(MemoryLevel::Dram, written).map(|peak| peak.bytes_per_s());
        let peak = match ceiling {
            Ceiling::Copy => memory(0.5),
            Ceiling::Read => memory(0.0),
            Ceiling::MultiplyAdds => peaks.arithmetic(Dtype::F32).map(|peak| peak.flops_per_s()),
        };
        let share = work as f64 / (us * 1e-6) / peak.unwrap_or(f64::NAN);
        let gpu = device.info().name.clone();
        Ok(Ok(share.is_finite().then_some(TryTime { gpu, us, share, target })))
    }

    /// Answers the questions, in their order; an empty text skips a question.
    ///
    /// # Errors
    /// If the exercise does not ask questions.
    pub fn answer(&self, answers: &[&str]) -> Result<Tried> {
        let Task::Answers(questions) = self.definition.task else { return Err(self.other_kind("answer")) };
        let tried = self.blank(String::new(), &answers.join("\n"));
        let is_empty = answers.iter().all(|answer| answer.trim().is_empty());
        let tried = match is_empty {
            true => Tried { verdict: Verdict::Unchanged, sentence: "No question is answered yet.".into(), ..tried },
            false => {
                let mut tried = tried.judged(judge_answers(questions, answers), 0);
                if questions.len() == answers.len() {
                    // The explanation that the cause gives is not repeated.
                    let is_told = |line: &String| tried.cause.as_ref().is_some_and(|c| line.ends_with(&c.sentence));
                    let explained: Vec<String> =
                        explain(questions, answers).into_iter().filter(|line| !is_told(line)).collect();
                    tried.remarks.extend(explained);
                }
                let all_right = "All answers are right.".to_owned();
                if tried.verdict.is_right() { Tried { sentence: all_right, ..tried } } else { tried }
            }
        };
        Ok(self.note(tried, answers))
    }

    /// Tries a Rust function that maps lists of numbers to lists of numbers.
    ///
    /// # Errors
    /// If the exercise does not ask for a function.
    pub fn try_with(&self, function: impl Fn(&[Vec<f64>]) -> Vec<Vec<f64>>) -> Result<Tried> {
        let Task::Function(task) = &self.definition.task else { return Err(self.other_kind("try_with")) };
        let seed = new_seed();
        let tried = self.blank(String::new(), "").judged(judge_function(task, &function, seed), seed);
        Ok(self.note(tried, &[]))
    }

    /// Shows a hint, counted from 1, and notes this in the progress.
    ///
    /// # Errors
    /// If there is no such hint.
    pub fn hint(&self, number: usize) -> Result<Hint> {
        let hints = self.texts.hints()?;
        let count = hints.len();
        let Some(text) = number.checked_sub(1).and_then(|at| hints.into_iter().nth(at)) else {
            let id = self.definition.id;
            return Err(Error::Setting(match count {
                0 => format!("{id} has no hints."),
                _ => format!("{id} has no hint {number}: its hints are 1 to {count}."),
            }));
        };
        let shown = u32::try_from(number).unwrap_or(u32::MAX);
        let _ = self.keeper.change(|progress| {
            let exercise = progress.begin(self.definition.id, now());
            exercise.hints = exercise.hints.max(shown);
        });
        Ok(Hint { number, of: count, text })
    }

    /// Shows the solution, once an attempt was right or after three different attempts, and records this in the progress. An instructor sees it at any time if
    /// the environment has `WARPBOOK_SOLUTIONS=show`.
    ///
    /// # Errors
    /// If it is too early, or the folder has no solution, for example in a copy for learners.
    pub fn solution(&self) -> Result<Solution> {
        let is_instructor = std::env::var(INSTRUCTOR).is_ok_and(|word| word.trim() == "show");
        self.solution_if(is_instructor)
    }

    pub(super) fn solution_if(&self, is_instructor: bool) -> Result<Solution> {
        let source = self.texts.solution()?;
        let progress = self.progress();
        let is_right = progress.best().is_some_and(Verdict::is_right);
        let tries = progress.different_tries();
        if !(is_right || tries >= TRIES_BEFORE_SOLUTION || is_instructor) {
            let left = TRIES_BEFORE_SOLUTION - tries;
            let more = if left == 1 { "one more try".into() } else { format!("{left} more tries") };
            return Err(Error::Setting(format!(
                "The solution of {} opens once a try is right, or after {more} with different code. Hints are available at any time. \
                 (Instructors: set {INSTRUCTOR}=show.)",
                self.definition.id
            )));
        }
        let _ = self.keeper.change(|progress| progress.begin(self.definition.id, now()).solution_shown = true);
        Ok(Solution { exercise: self.definition.id, source })
    }

    /// Returns the learner's progress in this exercise.
    #[must_use]
    pub fn progress(&self) -> ExerciseProgress {
        let known = self.keeper.read().ok().and_then(|all| all.exercise(self.definition.id).cloned());
        known.unwrap_or_default()
    }

    /// Returns the path of the file that keeps the learner's progress, which the page's class board opens; `None` if no folder is known for it.
    #[must_use]
    pub fn progress_file(&self) -> Option<&Path> {
        self.keeper.path()
    }

    fn blank(&self, path: String, source: &str) -> Tried {
        Tried::new((self.definition.id, self.definition.title), path, source)
    }

    /// Records an attempt in the learner's progress. If the progress file cannot be written, the verdict is still returned, with a remark.
    fn note(&self, mut tried: Tried, answers: &[&str]) -> Tried {
        let at = now();
        let record = tried.record(at);
        let nvrtc = self.compiler.get().map(|compiler| compiler.nvrtc().version());
        let kept = self.keeper.change(|progress| {
            progress.device = Some(self.device.info().clone());
            progress.warpbook = env!("CARGO_PKG_VERSION").into();
            progress.nvrtc = nvrtc.map(|(major, minor)| format!("{major}.{minor}")).or(progress.nvrtc.take());
            let exercise = progress.begin(self.definition.id, at);
            if !answers.is_empty() {
                exercise.answers = answers.iter().map(|answer| (*answer).to_owned()).collect();
            }
            exercise.add(record);
        });
        if let (Err(why), Some(path)) = (kept, self.keeper.path()) {
            tried
                .remarks
                .push(format!("This try is not in your progress: {} cannot be written: {why}.", path.display()));
        }
        tried
    }

    fn compiler(&self) -> Result<&Compiler> {
        if let Some(compiler) = self.compiler.get() {
            return Ok(compiler);
        }
        // With a GPU, use the version of the compiler that fits its driver.
        let compiler = match self.device.cuda() {
            Some(device) => device.compiler()?.clone(),
            None => Compiler::new(None)?,
        };
        Ok(self.compiler.get_or_init(|| compiler))
    }

    /// Returns true if a source equals the stub, apart from comments and white space.
    fn is_stub(&self, source: &str) -> Result<bool> {
        Ok(source_hash(source) == source_hash(&self.stub()?))
    }

    fn stub_code(&self, compiler: &Compiler, name: (&str, &'static str)) -> Result<&String> {
        if let Some(stub) = self.stub.get() {
            return Ok(stub);
        }
        // If the stub does not compile, no try has the same code.
        let ptx = compile(compiler, name, &self.stub()?)?.unwrap_or_default();
        Ok(self.stub.get_or_init(|| code(&ptx)))
    }

    fn kernel_only(&self, method: &str) -> Result<()> {
        match self.definition.task {
            Task::Kernel(_) => Ok(()),
            _ => Err(self.other_kind(method)),
        }
    }

    fn other_kind(&self, method: &str) -> Error {
        let id = self.definition.id;
        Error::Setting(match self.definition.task {
            Task::Kernel(_) => {
                format!(
                    "{id} asks for a kernel: `try_source(r##\"...\"##)` or `open()` and `try_file()` take one, not `{method}`."
                )
            }
            Task::Answers(questions) => {
                format!(
                    "{id} asks {} questions: `answer(&[\"...\"])` takes the answers, not `{method}`.",
                    questions.len()
                )
            }
            Task::Function(_) => {
                format!(
                    "{id} asks for a Rust function, in a notebook: `try_with(|lists| ...)` takes it, not `{method}`."
                )
            }
        })
    }
}
