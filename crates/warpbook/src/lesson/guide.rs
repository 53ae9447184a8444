//! What the lessons of the optimisation guide share: a pair measured here, shown, and held against a guess.

use crate::prelude::*;

/// Where the pairs are measured, in a sentence for the top of a lesson.
#[must_use]
pub fn place(lab: &Lab) -> String {
    let name = &lab.device().info().name;
    if lab.device().cuda().is_some() {
        return format!("All pairs are measured here, on {name}.");
    }
    format!(
        "There is no GPU in this lab: it runs on the processor ({name}), with small sizes. Of each pair you see the halves that a processor has; \
         those of the GPU are compiled and listed, with the reason why they were skipped."
    )
}

/// A pair of the guide, measured here: all of its sizes on a GPU, and small ones on a processor.
///
/// # Errors
/// There is no pair of that name; as of [`Lab::run`].
pub fn measured(lab: &Lab, name: &str) -> Result<Run> {
    let pair = Guide::pair(name)?;
    lab.run(&if lab.device().cuda().is_some() { pair } else { pair.quick() })
}

/// What a record of a pair says, at the size that shows it best and over all sizes.
#[must_use]
pub fn shown(run: &Run) -> Panel {
    let Some(problem) = run.main_problem() else {
        return Panel::column([&format!("{}: nothing was measured.", run.title)]);
    };
    let said: Vec<&str> = run.notes.iter().filter(|n| n.starts_with("With ")).map(String::as_str).collect();
    Panel::column([&said.join(" ")]).and(&ladder(run, problem, run.descriptor.headline)).and(&sweep(&[run]))
}

/// The time of one rung over that of another at a size; `None` where one of them was not measured.
#[must_use]
pub fn ratio(run: &Run, slow: &str, fast: &str, size: u64) -> Option<f64> {
    let problem = run.problems().into_iter().find(|p| p.size() == size)?;
    let us = |rung: &str| run.measurement(rung, problem).filter(|m| m.is_valid())?.median_us();
    Some(us(slow)? / us(fast)?)
}

/// The most bytes of the device's memory that a rung held over those of another at a size; `None` where they were not counted.
#[must_use]
pub fn memory_ratio(run: &Run, larger: &str, smaller: &str, size: u64) -> Option<f64> {
    let problem = run.problems().into_iter().find(|p| p.size() == size)?;
    let bytes = |rung: &str| run.measurement(rung, problem).filter(|m| m.is_valid())?.peak_bytes;
    Some(bytes(larger)? as f64 / bytes(smaller)? as f64)
}

/// A guess next to what was measured.
#[must_use]
pub fn judged(guess: f64, measured: Option<f64>) -> String {
    match measured {
        Some(ratio) => format!("You guessed {guess:.1} times; measured: {ratio:.2} times."),
        None => format!("You guessed {guess:.1} times. It was not measured here: that half needs a GPU."),
    }
}

/// What is to be expected on a smaller GPU: reasoning, not a measurement.
///
/// # Errors
/// There is no pair of that name.
pub fn elsewhere(name: &str) -> Result<String> {
    let pair = Pair::named(name).map_err(Error::Setting)?;
    Ok(format!("Reasoned, not measured. The ratio on a smaller GPU: {}", pair.on_a_smaller_gpu))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Choice;

    #[test]
    fn a_guess_is_held_against_the_record() {
        let lab = Lab::on(Choice::Cpu).unwrap().with_bench(Bench { samples: 3, budget_s: 0.05, ..Bench::quick() });
        assert!(place(&lab).contains("no GPU in this lab"));
        let run = measured(&lab, "coalescing").unwrap();
        let found = ratio(&run, "cpu_lines_apart", "cpu_in_order", 32).unwrap();
        assert!(found > 0.0);
        assert_eq!(judged(2.0, Some(3.0)), "You guessed 2.0 times; measured: 3.00 times.");
        assert!(judged(2.0, ratio(&run, "01_strided", "02_coalesced", 32)).contains("needs a GPU"));
        assert_eq!(ratio(&run, "cpu_lines_apart", "cpu_in_order", 5), None, "no such size");
        assert_eq!(memory_ratio(&run, "cpu_lines_apart", "cpu_in_order", 32), None, "nobody counted");
        let html = shown(&run).page("coalescing");
        assert!(html.contains("With 32 words between neighbours"), "{html}");
        assert!(elsewhere("coalescing").unwrap().starts_with("Reasoned, not measured."));
        assert!(elsewhere("coalesing").unwrap_err().to_string().contains("coalescing"));
    }
}
