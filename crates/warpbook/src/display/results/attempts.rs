use super::emulated::counts;
use crate::display::html::{Facts, escape, heading, note, printable};
use crate::display::{KernelView, Show, figures};
use std::cmp::Reverse;
use warpbook_charts::{Table, draw};
use warpbook_lab::{Attempt, Compilation};
use warpbook_record::{Check, KernelStats, LineCounts, Measurement, Outcome};

/// Returns what the compiler and the device report about a kernel, such as its registers.
fn facts(attempt: &Attempt) -> Facts {
    let Compilation::Code(compiled) = attempt.compiled() else { return Facts::new() };
    // A rung may launch other kernels before and after the edited one.
    let is_own = |k: &&KernelStats| k.file == compiled.file && k.entry == compiled.entry;
    let stats = attempt.measurement().and_then(|m| m.kernels.iter().find(is_own)).unwrap_or(compiled);
    let spills = |s: &KernelStats| match s.spill_store_bytes + s.spill_load_bytes {
        0 => "none".to_owned(),
        _ => format!(
            "{} B stored and {} B loaded a thread: it has more values than registers",
            s.spill_store_bytes, s.spill_load_bytes
        ),
    };
    let shared = u64::from(stats.static_shared_bytes) + u64::from(stats.dynamic_shared_bytes);
    let resident = stats.blocks_per_multiprocessor.zip(stats.occupancy).map(|(blocks, share)| {
        format!("{blocks} blocks at once on a multiprocessor, {} of the threads it can hold", figures::percent(share))
    });
    Facts::new()
        .add("compiled for", attempt.architecture())
        .add("registers a thread", stats.registers.to_string())
        .add("spills", spills(stats))
        .add("shared memory a block", figures::bytes(shared))
        .maybe("occupancy", resident)
}

/// Returns the emulator's counts by source line.
fn counted(attempt: &Attempt) -> Option<Table> {
    counts(attempt.measurement()?.emulated.as_ref()?, &attempt.run().sources)
}

/// Names the line with the most wasteful accesses to memory, and says how to draw them.
fn wasteful(attempt: &Attempt) -> Option<String> {
    let emulated = attempt.measurement()?.emulated.as_ref().filter(|_| !attempt.is_unchanged())?;
    let waste = |line: &LineCounts| {
        line.sectors.saturating_sub(line.ideal_sectors) + line.wavefronts.saturating_sub(line.ideal_wavefronts)
    };
    let drawn = emulated.lines.iter().filter(|line| waste(line) > 0 && attempt.lanes(line.line).is_ok());
    let line = drawn.max_by_key(|line| (waste(line), Reverse(line.line)))?.line;
    Some(format!(
        "Line {line} takes the most sectors and wavefronts beyond the fewest possible: in a notebook, `attempt.lanes({line})?` draws what each lane of a warp accesses there."
    ))
}

/// Returns the emulator's remarks, which do not report errors.
fn remarks(attempt: &Attempt) -> &[String] {
    attempt.measurement().and_then(|m| m.emulated.as_ref()).map_or(&[], |e| &e.notes)
}

/// Verdict on a kernel that the learner has not changed; it does not count as a success.
const UNCHANGED: &str = "Unchanged: nothing was tried. The compiler makes the same code of it as of the rung's own kernel with its own sizes; edit it, and try again.";

/// Returns the result of the check in a sentence.
fn verdict(attempt: &Attempt, m: &Measurement) -> String {
    match &m.outcome {
        Outcome::Measured if attempt.is_unchanged() => UNCHANGED.into(),
        Outcome::Skipped { .. } if attempt.is_unchanged() && m.emulated.is_some() => UNCHANGED.into(),
        Outcome::Skipped { why } if attempt.is_unchanged() => format!("{UNCHANGED} It was not run: {why}."),
        Outcome::Skipped { .. } if m.emulated.is_some() => {
            format!("{} {IN_EMULATOR}", m.check.as_ref().map_or_else(String::new, |c| right(attempt, c)))
        }
        Outcome::Measured => m.check.as_ref().map_or_else(String::new, |c| right(attempt, c)),
        Outcome::Skipped { why } => format!("It compiles; it was not run: {why}."),
        // A finding's sentence names the emulator itself.
        Outcome::Failed { error } if m.emulated.as_ref().is_some_and(|e| e.finding.is_none()) => {
            let stop = if error.ends_with(['.', '!', '?']) { "" } else { "." };
            format!("{error}{stop} {WRONG_IN_EMULATOR}")
        }
        Outcome::Failed { error } => error.clone(),
    }
}

/// Sentence that follows the verdict on a kernel that gave the right result in the emulator.
const IN_EMULATOR: &str = "It ran in the emulator, which has no times: a GPU tells how fast it is.";

/// Sentence that follows the error of a kernel that gave a wrong result in the emulator.
const WRONG_IN_EMULATOR: &str = "It ran in the emulator, not on a GPU.";

/// Returns the verdict on a kernel whose result is right.
fn right(attempt: &Attempt, check: &Check) -> String {
    format!(
        "Right: at {} its largest error is {:.1e} and the tolerance {:.1e}. The reference is {}.",
        attempt.problem().label,
        check.max_rel_error,
        check.tolerance,
        check.reference
    )
}

/// Returns a sentence that compares the kernel's speed with the rungs timed in the same run.
fn speed(attempt: &Attempt, m: &Measurement) -> Option<String> {
    let us = m.median_us().filter(|_| m.is_valid())?;
    let others =
        attempt.run().measurements.iter().filter(|o| o.rung != m.rung && o.problem == m.problem && o.is_valid());
    let against: Vec<String> = others
        .filter_map(|o| {
            let title = attempt.run().rung(&o.rung).map_or(o.rung.as_str(), |r| &r.title);
            Some(format!("{} as fast as {title}", figures::times(o.median_us()? / us)))
        })
        .collect();
    let rate = warpbook_charts::rate_text(attempt.run(), m).map_or_else(String::new, |rate| format!(", {rate}"));
    let against = if against.is_empty() { String::new() } else { format!(": {}", against.join(", ")) };
    Some(format!("{}{rate}{against}.", figures::time(us)))
}

/// Draws the times of all rungs in one chart, which is shown above the table of times.
fn comparison(attempt: &Attempt) -> Option<warpbook_charts::Chart> {
    let several = attempt.run().measurements.iter().filter(|m| m.is_valid()).count() > 1;
    if several && attempt.is_right() && !attempt.is_unchanged() {
        draw().ladder(attempt.run(), attempt.problem(), attempt.run().descriptor.headline).ok()
    } else {
        None
    }
}

impl Show for Attempt {
    fn html(&self) -> String {
        let title = heading(&self.rung().id);
        if let Compilation::Broken(error) = self.compiled() {
            return format!("{title}{}", error.html());
        }
        let Some(m) = self.measurement() else { return title };
        let said = escape(&verdict(self, m));
        let said = match m.outcome {
            Outcome::Failed { .. } => format!("<div class=\"wb-error\" role=\"alert\">{said}</div>"),
            Outcome::Skipped { .. } if m.emulated.is_none() => note(&verdict(self, m)),
            Outcome::Skipped { .. } | Outcome::Measured => format!("<p>{said}</p>"),
        };
        let speed = speed(self, m).map_or_else(String::new, |s| format!("<p>{}</p>", escape(&s)));
        let chart = comparison(self).map_or_else(String::new, |c| c.html());
        let source = crate::display::html::details("Source", &KernelView::for_rung(self.rung()).html());
        let remarks: String = remarks(self).iter().map(|remark| note(remark)).collect();
        let counted = counted(self).map_or_else(String::new, |table| table.html());
        let wasteful = wasteful(self).map_or_else(String::new, |sentence| note(&sentence));
        format!("{title}{said}{speed}{remarks}{}{counted}{wasteful}{chart}{source}", facts(self).html())
    }

    fn text(&self) -> String {
        let title = printable(&self.rung().id);
        if let Compilation::Broken(error) = self.compiled() {
            return format!("{title}\n{}", error.text());
        }
        let Some(m) = self.measurement() else { return title };
        let parts = [Some(title), Some(printable(&verdict(self, m))), speed(self, m)];
        let remarks = remarks(self).iter().map(|remark| printable(remark));
        let counted = counted(self).map(|table| printable(&table.text()));
        let tables = [Some(facts(self).text()), counted, wasteful(self)];
        parts
            .into_iter()
            .flatten()
            .chain(remarks)
            .chain(tables.into_iter().flatten())
            .filter(|p| !p.is_empty())
            .collect::<Vec<_>>()
            .join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prelude::*;

    use warpbook_experiments::Attempts;
    use warpbook_record::Finding;

    /// Tries a kernel; this needs NVRTC but no GPU, since it runs in the emulator.
    fn attempted(live: &LiveKernel) -> Attempt {
        let attempt = Lab::open("cpu").unwrap().attempt(live).unwrap();
        assert!(!attempt.text().contains("NVRTC"), "{}", attempt.text());
        attempt
    }

    #[test]
    fn a_source_that_does_not_compile_shows_line_and_caret() {
        let live =
            LiveKernel::for_rung("02_coalesced").unwrap().replacing("float sum = 0.0f;", "float sum = zero;").unwrap();
        let attempt = attempted(&live);
        let line = live.text().lines().position(|l| l.contains("= zero")).unwrap() + 1;
        let text = attempt.text();
        assert!(text.contains(&format!("live/mine.cu, line {line}: identifier \"zero\" is undefined")), "{text}");
        assert!(text.contains(&format!("{line:5} |     float sum = zero;\n      |                 ^")), "{text}");
        assert!(attempt.html().contains("zero;\n      |                 ^</pre>"), "{}", attempt.html());
        assert!(!attempt.compiles() && attempt.error().is_some() && !attempt.is_right());
    }

    #[test]
    fn without_a_gpu_a_kernel_runs_in_the_emulator() {
        let live = LiveKernel::for_rung("05_register_2d").unwrap().named("big").size("STAGES", 1);
        let attempt = attempted(&live);
        for form in [attempt.text(), attempt.html()] {
            assert!(form.contains("05_register_2d+big") && form.contains("registers a thread"), "{form}");
            assert!(form.contains("Right: at 64") && form.contains("It ran in the emulator"), "{form}");
        }
        let text = attempt.text();
        assert!([" us", " µs", " ms", "FLOP/s", "as fast as"].iter().all(|time| !text.contains(time)), "{text}");
        assert!(text.contains("sectors, at least") && text.contains("big.cu:"), "{text}");
        let stats = &attempt.measurement().unwrap().kernels[0];
        assert!(stats.registers > 64 && stats.file == "live/big.cu" && stats.architecture == "sm_80");
        assert_eq!(attempt.run().sources["live/big.cu"], live.text());
        // The kernel spills, since it has more values than registers.
        let tight = LiveKernel::for_rung("05_register_2d").unwrap().size("BLOCKS_PER_SM", 8);
        assert!(attempted(&tight).text().contains("more values than registers"));
    }

    #[test]
    fn a_wrong_kernel_says_that_it_ran_in_the_emulator_and_shows_its_counts() {
        let live = LiveKernel::for_rung("02_coalesced").unwrap().replacing("sum = 0.0f", "sum = 1.0f").unwrap();
        let mut attempt = attempted(&live);
        for form in [attempt.text(), attempt.html()] {
            assert!(form.contains("elements are wrong") && !form.contains("Right:"), "{form}");
            assert!(form.contains(&format!(" {WRONG_IN_EMULATOR}")) && form.contains("sectors, at least"), "{form}");
        }
        let row = &mut attempt.run.measurements[0];
        row.outcome = Outcome::Failed { error: "2 elements are wrong".into() };
        assert!(attempt.text().contains(&format!("2 elements are wrong. {WRONG_IN_EMULATOR}")), "{}", attempt.text());
        let emulated = attempt.run.measurements[0].emulated.as_mut().unwrap();
        emulated.finding = Some(Finding::default());
        assert!(!attempt.text().contains(WRONG_IN_EMULATOR), "{}", attempt.text());
    }

    #[test]
    fn the_line_with_the_most_wasteful_accesses_is_named_with_the_method_that_draws_them() {
        let live = LiveKernel::for_rung("05_register_2d").unwrap().named("big").size("STAGES", 1);
        let mut attempt = attempted(&live);
        let emulated = attempt.run.measurements[0].emulated.as_mut().unwrap();
        let line = emulated.requests.iter().find(|request| request.file == "live/big.cu").unwrap().line;
        for counts in &mut emulated.lines {
            (counts.sectors, counts.wavefronts) = (counts.ideal_sectors, counts.ideal_wavefronts);
        }
        assert!(!attempt.text().contains("attempt.lanes("), "{}", attempt.text());
        let emulated = attempt.run.measurements[0].emulated.as_mut().unwrap();
        emulated.lines.iter_mut().find(|counts| counts.line == line).unwrap().sectors += 1;
        for form in [attempt.text(), attempt.html()] {
            assert!(form.contains(&format!("attempt.lanes({line})?")), "{form}");
        }
        assert!(attempt.lanes(line).unwrap().title.starts_with(&format!("Line {line}: ")));
    }

    #[test]
    fn an_untouched_kernel_is_no_attempt() {
        let live = |id: &str| LiveKernel::for_rung(id).unwrap();
        let commented = format!("// Mine.\n{}", live("02_coalesced").text().replace('\n', "  \n\n"));
        for live in [
            live("02_coalesced"),
            live("02_coalesced").named("mine").size("BN", 32).shape(512, 512, 512),
            live("02_coalesced").source(commented),
            live("08_double_buffered").size("STAGES", 4),
        ] {
            let attempt = attempted(&live);
            assert!(attempt.is_unchanged(), "{}", live.text());
            for form in [attempt.text(), attempt.html()] {
                assert!(form.contains("Unchanged: nothing was tried.") && !form.contains("Right:"), "{form}");
            }
            let mut run = attempt;
            run.run.measurements[0].outcome = Outcome::Measured;
            assert!(run.text().contains("Unchanged: nothing was tried.") && !run.text().contains("Right:"));
        }
        // The compiler makes the same code if a variable is renamed or the factors of a product are swapped.
        let renamed = live("02_coalesced").source(live("02_coalesced").text().replace("sum", "total"));
        assert!(attempted(&renamed).is_unchanged());
        let replaced = live("02_coalesced").replacing("sum = 0.0f", "sum = 1.0f").unwrap();
        for live in [
            live("02_coalesced").size("BN", 64).size("BM", 4),
            replaced,
            live("06_vectorised").tile("128x128x16").unwrap(),
        ] {
            assert!(!attempted(&live).text().contains("Unchanged"), "{}", live.text());
        }
    }

    #[test]
    fn the_figures_are_those_of_the_kernel_that_was_edited() {
        let regression = Regression::new();
        let problem = regression.problems().remove(0);
        let fused = Experiment::rungs(&regression).into_iter().find(|r| r.id == "02_fused").unwrap();
        let live = LiveKernel::variant(&fused).unwrap();
        let mut attempt = Lab::open("cpu").unwrap().attempt_at(&regression, &problem, &live).unwrap();
        let own = attempt.measurement().unwrap().kernels[0].clone();
        let other = |entry: &str| KernelStats { entry: entry.into(), registers: 7, ..own.clone() };
        let timed =
            KernelStats { registers: 99, blocks_per_multiprocessor: Some(3), occupancy: Some(0.5), ..own.clone() };
        attempt.run.measurements[0].kernels = vec![other("before"), timed, other("update")];
        assert!(attempt.text().contains("registers a thread     99"), "{}", attempt.text());
        assert!(attempt.text().contains("3 blocks at once"), "{}", attempt.text());
    }

    #[test]
    fn a_source_without_the_kernel_says_so() {
        let live = LiveKernel::for_rung("01_naive").unwrap().source("__global__ void other() {}");
        let attempt = attempted(&live);
        assert!(attempt.text().contains("defines no kernel"), "{}", attempt.text());
        // The static_assert's message comes from the kernel's own text.
        let uneven = LiveKernel::for_rung("02_coalesced").unwrap().size("THREADS", 200);
        assert!(attempted(&uneven).text().contains("one thread for each element of the tile"));
    }

    #[test]
    fn its_source_travels_with_a_ladder() {
        let live = LiveKernel::for_rung("02_coalesced").unwrap().named("a<b").named("ours");
        let attempt = attempted(&live);
        let ladder = crate::display::results::runs::tests::sample_run();
        let both = attempt.merged_into(&ladder).unwrap();
        assert_eq!(both.rungs.len(), ladder.rungs.len() + 1);
        assert!(both.sources.contains_key("live/ours.cu"));
        // The second merge replaces the first.
        assert_eq!(attempt.merged_into(&both).unwrap(), both);
    }

    #[test]
    fn settings_that_make_no_sense_are_refused() {
        let lab = Lab::open("cpu").unwrap();
        let check = |live: LiveKernel, expect: &str| {
            let sentence = lab.attempt(&live).unwrap_err().to_string();
            assert!(sentence.contains(expect), "{sentence}");
        };
        let live = |id: &str| LiveKernel::for_rung(id).unwrap();
        check(live("02_coalesced").named("../x"), "letters from a to z, digits");
        check(live("02_coalesced").size("BM", 0), "BM must be");
        check(live("02_coalesced").time_limit(f64::NAN), "time limit");
        check(live("14_overlapped_store").dtype(Dtype::F32), "takes fp16, bf16, tf32, not fp32");
        assert!(LiveKernel::for_rung("02_coalessed").unwrap_err().to_string().contains("02_coalesced"));
        assert!(LiveKernel::for_rung("cublas").is_err());
        assert!(live("08_double_buffered").tile("1x1").unwrap_err().to_string().contains("128x256x8s4"));
        assert!(live("02_coalesced").replacing("nothing like it", "").unwrap_err().to_string().contains("no passage"));
        assert!(live("02_coalesced").replacing("row", "").unwrap_err().to_string().contains("times"));
    }
}
