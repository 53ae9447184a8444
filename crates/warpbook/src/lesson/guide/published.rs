//! Published records of the pairs, measured on a GPU. They are used in a lab without a GPU.

use super::memory_ratio;
use crate::lesson::Guesses;
use crate::lesson::counted::counted;
use crate::prelude::*;
use std::path::{Path, PathBuf};
use warpbook_experiments::Pair;
use warpbook_record::DeviceKind;

/// Start of the note which says that a record was not measured here.
const PUBLISHED: &str = "There is no GPU in this lab. ";

/// Returns the published record of a pair, by the name of its records, with a note on its origin.
pub(in crate::lesson) fn published(record: &str) -> Option<Run> {
    Pair::of_record(record)?;
    let (mut run, file) = record_of_an_h200(record)?;
    let on = &run.environment.device.name;
    let day = run.created.split('T').next().unwrap_or_default();
    let note = format!("{PUBLISHED}What follows is the published record {file}, measured on {on} ({day}).");
    run.notes.push(note);
    Some(run)
}

/// Returns a published record of an H200 and its path in the repository: from a folder above the working directory, such as a notebook's, or from the checkout
/// that this crate was compiled from.
pub(in crate::lesson) fn record_of_an_h200(record: &str) -> Option<(Run, String)> {
    let file = format!("data/results/{record}-h200.json");
    let here = std::env::current_dir().ok();
    let above = here.iter().flat_map(|here| here.ancestors()).map(Path::to_owned);
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let run = above.chain([sources]).find_map(|folder: PathBuf| read_record(folder.join(&file)).ok())?;
    Some((run, file))
}

/// Returns the note on the origin of a published record; `None` for a record that was measured here.
pub(in crate::lesson) fn label(run: &Run) -> Option<&String> {
    run.notes.iter().find(|note| note.starts_with(PUBLISHED))
}

fn is_of_gpu(run: &Run) -> bool {
    run.environment.device.kind == DeviceKind::Cuda
}

/// Returns the published record that is shown next to a record from a CPU.
pub(super) fn beside(run: &Run) -> Option<Run> {
    if is_of_gpu(run) { None } else { published(&run.experiment) }
}

/// Returns this record if it was measured on a GPU, otherwise the published record of the same pair. If there is no published record, returns this record.
#[must_use]
pub fn of_a_gpu(run: &Run) -> Run {
    beside(run).unwrap_or_else(|| run.clone())
}

/// Shows a record at its main size and over all sizes, with its counters and its origin.
pub(super) fn overview(run: &Run) -> Panel {
    let heading = label(run).cloned().unwrap_or_else(|| format!("Measured here, on {}:", run.environment.device.name));
    let mut panel = Panel::column([&heading]);
    if let Some(problem) = run.main_problem() {
        panel = panel.and(&draw().ladder(run, problem, run.descriptor.headline));
    }
    if let Some(counted) = counted(run) {
        panel = panel.and(&counted);
    }
    panel.and(&draw().sweep(&[run]))
}

/// Says where a figure of a record comes from, if it was not measured here.
fn from(run: &Run) -> String {
    label(run)
        .map_or_else(String::new, |_| format!(" (The record is the published one of {}.)", run.environment.device.name))
}

/// Returns how many warps of a rung's kernel can be resident on an SM at a size, according to the driver, and the registers per thread; `None` if no device was
/// asked.
fn resident_warps(run: &Run, rung: &str, size: u64) -> Option<(u32, u32)> {
    let problem = run.problems().into_iter().find(|p| p.size() == size)?;
    let kernel = run.measurement(rung, problem)?.kernels.first()?;
    let threads: u32 = kernel.block?.iter().product();
    Some((kernel.blocks_per_multiprocessor? * threads.div_ceil(32), kernel.registers))
}

impl Guesses {
    /// Compares a guess of the ratio of two rungs' device memory at a size with the measured [`memory_ratio`]. Without a GPU it uses the published record, and
    /// says so.
    pub fn memory(
        &mut self,
        run: &Run,
        guess: impl Into<Option<f64>>,
        (larger, smaller, size): (&str, &str, u64),
    ) -> String {
        let run = of_a_gpu(run);
        let what = format!("Memory of {} divided by the memory of {}", titled(&run, larger), titled(&run, smaller));
        format!("{}{}", self.times(&what, guess, memory_ratio(&run, larger, smaller, size)), from(&run))
    }

    /// Compares a guess of how many warps of a rung's kernel can be resident on an SM at a size with the driver's figure. Without a GPU it uses the published
    /// record, and says so.
    pub fn warps(&mut self, run: &Run, guess: impl Into<Option<u32>>, rung: &str, size: u64) -> String {
        let run = of_a_gpu(run);
        let found = resident_warps(&run, rung, size);
        let what = match found {
            Some((_, registers)) => format!("Warps that fit on an SM, with {registers} registers per thread"),
            None => "Warps that fit on an SM (only a GPU's driver says how many)".to_owned(),
        };
        let count = self.count(&what, guess.into().map(|warps| warps as usize), found.map(|(warps, _)| warps as usize));
        format!("{count}{}", from(&run))
    }

    /// Compares a guess of the rung with the smallest error at the main size, given by its title, with the errors found by the check.
    pub fn accuracy<'g>(&mut self, run: &Run, guess: impl Into<Option<&'g str>>, rungs: &[&str]) -> String {
        let run = of_a_gpu(run);
        let guess = guess.into();
        let titles: Vec<String> = rungs.iter().map(|id| titled(&run, id)).collect();
        if let Some(guess) = guess.filter(|guess| !titles.iter().any(|title| title == guess.trim())) {
            return format!("{guess} is not a guess: write one of {}.", titles.join(", "));
        }
        let error = |id: &&str| {
            let m = run.measurement(id, run.main_problem()?).filter(|m| m.is_valid())?;
            Some((titled(&run, id), m.check.as_ref()?.max_rel_error))
        };
        let mut errors: Vec<(String, f64)> = rungs.iter().filter_map(error).collect();
        errors.sort_by(|a, b| a.1.total_cmp(&b.1));
        let all: Vec<String> = errors.iter().map(|(title, error)| format!("{title} {error:.1e}")).collect();
        let said = self.word("The most accurate", guess, errors.first().map(|(title, _)| &**title));
        match all.is_empty() {
            true => said,
            false => format!("{said} The largest relative errors: {}.{}", all.join(", "), from(&run)),
        }
    }
}

/// Returns a rung's title, or its id if the record does not have it.
fn titled(run: &Run, id: &str) -> String {
    run.rung(id).map_or_else(|| id.to_owned(), |r| r.title.to_string())
}

#[cfg(test)]
mod tests {
    use super::super::{latencies, measured, place};
    use super::*;

    fn lab() -> Lab {
        Lab::on(Choice::Cpu).unwrap().with_bench(Bench { samples: 3, budget_s: 0.05, ..Bench::quick() })
    }

    #[test]
    fn without_a_gpu_a_pair_that_needs_one_is_the_published_record() {
        let lab = lab();
        assert!(place(&lab).contains("NVIDIA H200"), "{}", place(&lab));
        let run = measured(&lab, "divergence").unwrap();
        assert!(label(&run).is_some() && is_of_gpu(&run), "{:?}", run.notes);
        let text = Guesses::new("").pair(&run, ("01_divergent", "02_uniform", 32), 4.0).text();
        assert!(
            text.starts_with("There is no GPU in this lab. What follows is the published record data/results/guide-"),
            "{text}"
        );
        assert!(
            text.contains("On NVIDIA H200, “One kind per warp” is ") && text.contains("What the hardware counted"),
            "{text}"
        );
        assert!(!text.contains("not both measured"), "{text}");
    }

    #[test]
    fn a_pair_that_runs_on_a_cpu_keeps_its_own_figures_beside_the_published_ones() {
        let lab = lab();
        let run = measured(&lab, "bank-conflicts").unwrap();
        assert!(label(&run).is_none() && !is_of_gpu(&run));
        let cpu = run.environment.device.name.clone();
        let mut guesses = Guesses::new("");
        let page = guesses.pair(&run, ("cpu_direct", "cpu_tiles", run.main_problem().unwrap().size()), 2.0).text();
        assert!(page.contains(&format!("On {cpu}, ")) && page.contains("on NVIDIA H200"), "{page}");
        // A question about rungs that need a GPU is answered from the published record.
        let page = guesses.pair(&run, ("02_shared_tile", "03_padded", 4096), 2.0).text();
        assert!(page.contains("On NVIDIA H200, “Padded tile” is ") && !page.contains("not both measured"), "{page}");
        assert!(page.contains(&format!("Measured here, on {cpu}:")), "{page}");
    }

    #[test]
    fn latencies_and_warps_are_the_published_ones_without_a_gpu() {
        let lab = lab();
        let run = lab.run(&Guide::pair("memory-latency").unwrap().quick()).unwrap();
        let text = latencies(&lab, &run).unwrap().text();
        for part in ["published record", "DRAM", "L2", "shared memory", "NVIDIA H200"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let run = published("guide-occupancy").unwrap();
        let (warps, registers) = resident_warps(&run, "01_held", 128).unwrap();
        // The registers, which threads get in multiples of eight, suffice for this many blocks of four warps.
        assert_eq!(warps, 65_536 / (registers.next_multiple_of(8) * 128) * 4);
        assert!(
            Guesses::new("")
                .warps(&run, 1600, "01_held", 128)
                .contains(&format!("with {registers} registers per thread: {warps}. You guessed 1600, "))
        );
        assert!(Guesses::new("").warps(&run, 16, "cpu_held", 128).contains("only a GPU's driver"));
        let (kept, parts) = ("01_kept", "02_checkpointed");
        let run = published("guide-checkpointing").unwrap();
        let ratio = memory_ratio(&run, kept, parts, 8).unwrap();
        assert!(
            Guesses::new("")
                .memory(&run, 30.0, (kept, parts, 8))
                .contains(&format!(": {ratio:.2} times. You guessed 30.00 times, "))
        );
    }

    #[test]
    fn the_most_accurate_is_the_one_with_the_smallest_error() {
        let mut run = published("guide-precision").unwrap();
        let types = ["02_tf32", "03_fp16", "04_bf16"];
        assert!(
            Guesses::new("")
                .accuracy(&run, "bf16", &types)
                .starts_with("The most accurate: fp16. You guessed bf16. The largest relative errors: fp16 ")
        );
        assert!(Guesses::new("").accuracy(&run, "fp8", &types).contains("write one of tf32, fp16, bf16"));
        for m in &mut run.measurements {
            if let (true, Some(check)) = (m.rung == types[2], &mut m.check) {
                check.max_rel_error = 0.0;
            }
        }
        assert!(
            Guesses::new("").accuracy(&run, "bf16", &types).starts_with("The most accurate: bf16, as you guessed.")
        );
    }

    #[test]
    fn every_pair_has_a_published_record_of_its_halves() {
        for pair in PAIRS {
            let run = published(&format!("guide-{}", pair.name)).unwrap_or_else(|| panic!("{}", pair.name));
            let problem = run.main_problem().unwrap();
            for half in pair.compared {
                assert!(run.measurement(half, problem).is_some_and(|m| m.is_valid()), "{}: {half}", pair.name);
            }
        }
        assert!(published("regression").is_none(), "no pair of the guide");
    }
}
