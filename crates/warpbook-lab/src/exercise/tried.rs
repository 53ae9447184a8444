//! The result of trying a learner's answer.

use super::judge::{Judged, LikelyCause, WrongElement};
use super::picture::Picture;
use crate::emulated::lanes_of_line;
use std::collections::BTreeMap;
use warpbook_charts::{Chart, ChartError, most_wasteful};
use warpbook_device::CompileError;
use warpbook_record::{Emulated, TargetCount, Try, Verdict, WarpRequest};

/// The result of one try of an exercise.
#[derive(Debug, Clone)]
pub struct Tried {
    /// Id of the exercise, such as "E05".
    pub exercise: &'static str,
    /// Title of the exercise.
    pub title: &'static str,
    /// The verdict of the judge.
    pub verdict: Verdict,
    /// The main finding, in one line.
    pub sentence: String,
    /// The likely cause if the attempt is wrong or misses a target.
    pub cause: Option<LikelyCause>,
    /// The first wrong element, if a result is wrong.
    pub wrong: Option<WrongElement>,
    /// Counts that have a target; empty unless the answer is right.
    pub targets: Vec<TargetCount>,
    /// The case whose costs were counted, such as "n = 1000".
    pub counted: Option<String>,
    /// The source line with the most wasteful accesses to memory, if a right answer misses a target because of them.
    pub worst_line: Option<u32>,
    /// The emulator's findings and counts, by source line.
    pub emulated: Emulated,
    /// Output of the first launch in which `printf` printed something.
    pub printed: String,
    /// Shows which thread wrote which element and how often inputs were read, for the launch that went wrong, or else for the first launch.
    pub picture: Option<Picture>,
    /// The compiler's error if the source does not compile.
    pub compile_error: Option<Box<CompileError>>,
    /// The time on a GPU, if there is one and the answer is right.
    pub time: Option<TryTime>,
    /// Further remarks, such as that the progress could not be written.
    pub remarks: Vec<String>,
    /// Seed that the inputs were drawn from.
    pub seed: u64,
    /// Number of thread instructions executed in all launches together.
    pub thread_steps: u64,
    /// The tried source, or the given answers.
    pub source: String,
    /// Path of the source in messages and counts, such as "live/E05.cu".
    pub path: String,
}

/// The time of a correct kernel on a GPU.
#[derive(Debug, Clone, PartialEq)]
pub struct TryTime {
    /// Name of the GPU.
    pub gpu: String,
    /// Median time in microseconds.
    pub us: f64,
    /// Achieved share of the measured ceiling.
    pub share: f64,
    /// Share of the ceiling that the time target asks for.
    pub target: f64,
}

impl TryTime {
    /// Returns true if the time earns the second star.
    #[must_use]
    pub fn is_on_target(&self) -> bool {
        self.share >= self.target
    }
}

impl Tried {
    pub(super) fn new((exercise, title): (&'static str, &'static str), path: String, source: &str) -> Self {
        Self {
            exercise,
            title,
            verdict: Verdict::NotYet,
            sentence: String::new(),
            cause: None,
            wrong: None,
            targets: Vec::new(),
            counted: None,
            worst_line: None,
            emulated: Emulated::default(),
            printed: String::new(),
            picture: None,
            compile_error: None,
            time: None,
            remarks: Vec::new(),
            seed: 0,
            thread_steps: 0,
            source: source.into(),
            path,
        }
    }

    pub(super) fn judged(self, judged: Judged, seed: u64) -> Self {
        let is_on_target = !judged.targets.is_empty() && judged.targets.iter().all(|target| target.is_met);
        let verdict = match judged.is_right {
            false => Verdict::NotYet,
            true if is_on_target => Verdict::RightAndOnTarget,
            true => Verdict::Right,
        };
        let sentence = match verdict {
            Verdict::Right if judged.targets.is_empty() => "All elements are right at every size.".into(),
            Verdict::Right => missed(&judged.targets),
            Verdict::RightAndOnTarget => "All elements are right at every size, and the counts are on target.".into(),
            _ => judged.sentence,
        };
        let Judged { cause, wrong, targets, counted, worst_line, emulated, printed, picture, thread_steps, .. } =
            judged;
        Self {
            verdict,
            sentence,
            cause,
            wrong,
            targets,
            counted,
            worst_line,
            emulated,
            printed,
            picture,
            thread_steps,
            seed,
            ..self
        }
    }

    /// Turns the verdict on the unchanged stub into UNCHANGED, with a sentence that says how it is known to be unchanged.
    /// This does not count as a try, but shows what has to be repaired or made faster.
    pub(super) fn untouched(self, why: &str) -> Self {
        let mut result = self.sentence;
        if let Some(first) = result.get_mut(..1) {
            first.make_ascii_lowercase();
        }
        let sentence = format!("{why} Its result: {result}");
        Self { verdict: Verdict::Unchanged, sentence, cause: None, picture: None, worst_line: None, ..self }
    }

    /// Returns the verdict in one line.
    #[must_use]
    pub fn line(&self) -> String {
        format!("{} {}: {}", self.exercise, self.verdict.words(), self.sentence)
    }

    /// Draws which sectors of global memory and which banks of shared memory the lanes of a warp access in a line of the source, both for reads and for writes.
    /// The picture shows the first warp that runs the line, at the case whose costs were counted.
    ///
    /// # Errors
    /// [`ChartError::NothingToDraw`] if the answer is not right, or if the line accesses neither kind of memory.
    pub fn lanes(&self, line: u32) -> Result<Chart, ChartError> {
        if self.counted.is_none() {
            return Err(ChartError::NothingToDraw("Accesses are drawn once the kernel is right.".into()));
        }
        self.draw_requests(&self.own_requests(), line)
    }

    /// Draws the most wasteful request of [`Tried::worst_line`]. Returns `None` if no target was missed because of accesses to memory.
    #[must_use]
    pub fn worst_lanes(&self) -> Option<Chart> {
        let request = self.worst_request()?;
        self.draw_requests(std::slice::from_ref(&request), request.line).ok()
    }

    /// Returns the request that [`Tried::worst_lanes`] draws.
    #[must_use]
    pub fn worst_request(&self) -> Option<WarpRequest> {
        let line = self.worst_line.filter(|_| self.verdict == Verdict::Right)?;
        let here: Vec<WarpRequest> = self.own_requests().into_iter().filter(|request| request.line == line).collect();
        most_wasteful(&here).cloned()
    }

    /// Returns the first requests of the learner's own lines.
    fn own_requests(&self) -> Vec<WarpRequest> {
        self.emulated.requests.iter().filter(|request| request.file == self.path).cloned().collect()
    }

    fn draw_requests(&self, requests: &[WarpRequest], line: u32) -> Result<Chart, ChartError> {
        lanes_of_line(requests, line, &BTreeMap::from([(self.path.clone(), self.source.clone())]))
    }

    /// Returns the id of the likely cause.
    #[must_use]
    pub fn cause_id(&self) -> Option<&str> {
        self.cause.as_ref().map(|cause| cause.id.as_str())
    }

    /// Returns the try in the form that progress files use.
    pub(super) fn record(&self, at: u64) -> Try {
        Try {
            at,
            verdict: self.verdict,
            source: format!("{:016x}", super::source_hash(&self.source)),
            cause: self.cause_id().map(str::to_owned),
            counts: self.targets.clone(),
            time_us: self.time.as_ref().map(|time| time.us),
            share: self.time.as_ref().map(|time| time.share),
            gpu: self.time.as_ref().map(|time| time.gpu.clone()),
        }
    }
}

/// Returns a sentence that names the missed targets.
fn missed(targets: &[TargetCount]) -> String {
    let one = |target: &TargetCount| {
        let count = target.count.map_or_else(|| "none".into(), number);
        let bound = if target.is_most { "at most" } else { "at least" };
        format!("{} {count}, target {bound} {}", target.name, number(target.bound))
    };
    let missed: Vec<String> = targets.iter().filter(|target| !target.is_met).map(one).collect();
    format!("All elements are right; not on target: {}.", missed.join("; "))
}

/// Formats a count with up to three decimal places.
fn number(count: f64) -> String {
    let text = format!("{count:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missed_targets_are_named_with_their_counts() {
        let target = |count, is_met| TargetCount {
            name: "sectors a request".into(),
            count: Some(count),
            bound: 4.0,
            is_most: true,
            is_met,
        };
        assert_eq!(
            missed(&[target(31.25, false), target(4.0, true)]),
            "All elements are right; not on target: sectors a request 31.25, target at most 4."
        );
    }
}
