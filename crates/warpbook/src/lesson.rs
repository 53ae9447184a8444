//! What a lesson says of a record, in sentences and tables computed from it: no figure of a notebook is typed.

use crate::prelude::*;
use crate::{charts::Table, figures};
use warpbook_record::{Dtype, Peaks};

/// `story`, and with it what these rungs give at 5 M points; without a GPU it stays as it is.
pub fn learn(lab: &Lab, story: &Run, ids: &[&str]) -> Result<Run> {
    let mut story = story.clone();
    if lab.device().cuda().is_some() {
        let new = lab.run(&Regression::new().rungs(ids.iter().copied()))?;
        let old = |id: &str| !ids.contains(&id);
        story.rungs.retain(|r| old(&r.id));
        story.measurements.retain(|m| old(&m.rung));
        story.train_logs.retain(|l| old(&l.rung));
        story.spans.retain(|s| old(&s.rung));
        story.rungs.extend(new.rungs);
        story.measurements.extend(new.measurements);
        story.train_logs.extend(new.train_logs);
        story.spans.extend(new.spans);
    }
    Ok(story)
}

/// Only these rungs of a record, at its main size.
#[must_use]
pub fn only(run: &Run, ids: &[&str]) -> Run {
    let (mut part, main) = (run.clone(), run.main_problem());
    let wanted = |id: &str| ids.contains(&id);
    part.rungs.retain(|r| wanted(&r.id));
    part.measurements.retain(|m| wanted(&m.rung) && Some(&m.problem) == main);
    part.train_logs.retain(|l| wanted(&l.rung) && Some(&l.problem) == main);
    part.spans.retain(|s| wanted(&s.rung) && Some(&s.problem) == main);
    part
}

/// The median time of a rung in microseconds, if it was measured and is right.
#[must_use]
pub fn median_us(run: &Run, id: &str) -> Option<f64> {
    run.measurement(id, run.main_problem()?).filter(|m| m.is_valid())?.median_us()
}

fn title<'a>(run: &'a Run, id: &'a str) -> &'a str {
    run.rung(id).map_or(id, |r| &r.title)
}

/// A table with these headers.
#[must_use]
pub fn table(headers: &[&str], rows: Vec<Vec<String>>) -> Table {
    Table { headers: headers.iter().map(|h| (*h).to_owned()).collect(), rows }
}

fn cell(us: Option<f64>) -> String {
    us.map(figures::time).unwrap_or_default()
}

/// How the work's operations and bytes compare with what a device can do in the same time.
#[must_use]
pub fn balance(peaks: &Peaks, device: &str, problem: &Problem) -> String {
    let Some(roof) = peaks.roofline(MemoryLevel::Dram, Dtype::F32) else {
        return format!("Bandwidth and arithmetic of {device} were not both measured, so there is no balance to draw.");
    };
    let intensity = problem.flops() as f64 / problem.bytes() as f64;
    format!(
        "While one byte comes from its memory, {device} can do {} operations. This work has {} for it: \
         at most {} of the arithmetic can be used.",
        figures::number(roof.ridge()),
        figures::number(intensity),
        figures::percent(roof.attainable(intensity) / roof.flops_per_s)
    )
}

/// What moving so many floats a point and epoch takes in microseconds, for all epochs, where an epoch touches
/// `kept` floats of each point; and the bandwidth that this is at, in words.
#[must_use]
pub fn predict(run: &Run, problem: &Problem, floats: u64, kept: u64) -> Option<(f64, String)> {
    // A problem's own counts are those of two floats a point: x and y.
    let working_set = problem.working_set_bytes() / 2 * kept;
    let ceiling = run.peaks.ceiling(working_set, run.environment.device.l2_bytes)?;
    let us = (problem.bytes() / 2 * floats) as f64 / ceiling.bytes_per_s() * 1e6;
    Some((us, format!("{} at {}", ceiling.level.label(), figures::bandwidth(ceiling.bytes_per_s()))))
}

/// The same as a sentence.
#[must_use]
pub fn prediction(run: &Run, problem: &Problem, floats: u64, kept: u64) -> String {
    let Some((us, level)) = predict(run, problem, floats, kept) else {
        return "No prediction: the ceilings were not measured.".into();
    };
    format!(
        "Prediction for {}, {}: {} B a point and epoch, {} in all; the working set is {}, so the bound is the {level}, \
         and the data alone takes {}.",
        run.environment.device.name,
        problem.label(),
        4 * floats,
        figures::bytes(problem.bytes() / 2 * floats),
        figures::bytes(problem.working_set_bytes() / 2 * kept),
        figures::time(us)
    )
}

/// What a rung took, against what was predicted for it.
#[must_use]
pub fn outcome(run: &Run, id: &str, floats: u64, kept: u64) -> String {
    let (Some(us), Some(problem)) = (median_us(run, id), run.main_problem()) else {
        return format!("{} was not measured here.", title(run, id));
    };
    let compared = predict(run, problem, floats, kept).map_or_else(String::new, |(predicted, _)| {
        format!(", {} the predicted {}", figures::times(us / predicted), figures::time(predicted))
    });
    let device = &run.environment.device.name;
    format!("Measured on {device}: {} took {}{compared}.", title(run, id), figures::time(us))
}

/// How the time of one rung compares with that of another, in words that know their noise.
#[must_use]
pub fn against(run: &Run, new: &str, old: &str) -> String {
    let of = |id: &str| run.measurement(id, run.main_problem()?).filter(|m| m.is_valid());
    let (Some(n), Some(o)) = (of(new), of(old)) else {
        return format!("{} and {} were not both measured here.", title(run, new), title(run, old));
    };
    let (us, was) = (n.median_us().unwrap_or(f64::NAN), o.median_us().unwrap_or(f64::NAN));
    let noise = 3.0 * (n.mad_us().unwrap_or(0.0) + o.mad_us().unwrap_or(0.0)) + 0.01 * was;
    let verdict = match us - was {
        d if d.abs() <= noise => "no difference that stands out from the noise".to_owned(),
        d if d < 0.0 => format!("{} as fast", figures::times(was / us)),
        _ => format!("slower, it takes {} the time", figures::times(us / was)),
    };
    format!(
        "On {}, {} takes {} and {} takes {}: {verdict}.",
        run.environment.device.name,
        title(run, new),
        figures::time(us),
        title(run, old),
        figures::time(was)
    )
}

/// The measurement's answer to whether something helps that was predicted not to.
#[must_use]
pub fn does_it_help(run: &Run, question: &str, new: &str, old: &str) -> String {
    let answer = match median_us(run, new).zip(median_us(run, old)).map(|(n, o)| n / o) {
        Some(r) if r < 0.97 => "Here it does, against the prediction. Look for the reason before you believe it.",
        Some(r) if r <= 1.03 => "No: it neither helps nor hurts by more than a few per cent.",
        Some(_) => "No: it costs time.",
        None => "That needs a GPU, or the published record, to answer.",
    };
    format!("{question} {answer}")
}

/// The kernels of the unfused rung, each against its own bytes.
#[must_use]
pub fn kernels_against_bytes(run: &Run, problem: &Problem) -> Table {
    let spans = run.spans_of("01_unfused", problem, SpanGroup::Operation);
    let memory = run.peaks.level(MemoryLevel::Dram).map(|p| p.bytes_per_s());
    let row = |name: &str, floats: u64| {
        let bytes = (problem.working_set_bytes() / 2 * floats) as f64;
        let us = spans.iter().find(|s| s.name == name).and_then(|s| s.median_us());
        let rate = us.filter(|_| floats > 0).map(|us| figures::bandwidth(bytes / us * 1e6));
        vec![
            name.to_owned(),
            (4 * floats).to_string(),
            cell(memory.map(|m| bytes / m * 1e6)),
            cell(us),
            rate.unwrap_or_default(),
        ]
    };
    let rows = vec![row("forward", 2), row("loss", 3), row("gradient w", 2), row("gradient b", 1), row("update", 0)];
    table(&["kernel", "bytes a point", "predicted, from memory", "measured alone", "bandwidth"], rows)
}

/// The sum of a rung's kernels in microseconds an epoch, each timed alone.
fn kernels_us(run: &Run, id: &str) -> Option<f64> {
    let spans = run.spans_of(id, run.main_problem()?, SpanGroup::Operation);
    let sum: f64 = spans.iter().filter_map(|s| s.median_us()).sum();
    (sum > 0.0).then_some(sum)
}

/// What an epoch takes, and how much of it its kernels do.
#[must_use]
pub fn between_kernels(run: &Run, id: &str) -> String {
    let epoch = run.main_problem().and_then(|p| run.measurement(id, p)).and_then(|m| m.epoch_us());
    let (Some(epoch), Some(sum)) = (epoch, kernels_us(run, id)) else {
        return format!("The kernels of {} were not timed here.", title(run, id));
    };
    format!(
        "{}: an epoch takes {}. Its {} kernels, each timed alone and back to back, add up to {}. \
         The other {} of the time are spent between them.",
        title(run, id),
        figures::time(epoch),
        run.rung(id).map_or(0, |r| r.kernels().len()),
        figures::time(sum),
        figures::percent(((epoch - sum) / epoch).max(0.0))
    )
}

/// What the ablation says, in words.
#[must_use]
pub fn price_of_the_data(run: &Run) -> String {
    let spans = run.main_problem().map(|p| run.spans_of("02_fused", p, SpanGroup::Ablation)).unwrap_or_default();
    let of = |name: &str| spans.iter().find(|s| s.name == name).and_then(|s| s.median_us());
    match (of("whole pass"), of("only the reads")) {
        (Some(whole), Some(reads)) => format!(
            "A pass that reads x and y and does next to nothing with them takes {}, which is {} of the whole pass. \
             That is the price of the data; everything we compute makes up the rest.",
            figures::time(reads),
            figures::percent(reads / whole)
        ),
        _ => "The probes were not timed here.".into(),
    }
}

/// Rungs with the fused kernels: an epoch, and what it takes beyond its kernels.
#[must_use]
pub fn epochs(run: &Run, ids: &[&str]) -> Table {
    let kernels = kernels_us(run, "02_fused");
    let row = |id: &&str| {
        let m = run.main_problem().and_then(|p| run.measurement(id, p)).filter(|m| m.is_valid());
        let epoch = m.and_then(|m| m.epoch_us());
        vec![
            title(run, id).to_owned(),
            cell(epoch),
            cell(kernels),
            cell(epoch.zip(kernels).map(|(e, k)| e - k)),
            cell(m.and_then(|m| m.median_us())),
            cell(m.and_then(|m| m.median_wall_us())),
        ]
    };
    let headers = ["rung", "an epoch", "its kernels alone", "the rest", "all epochs", "all epochs, wall clock"];
    table(&headers, ids.iter().map(row).collect())
}

/// What each rung found, and how far it is off the reference.
#[must_use]
pub fn results(run: &Run) -> Table {
    let rows = run.train_logs.iter().filter(|l| Some(&l.problem) == run.main_problem()).map(|l| {
        let check = run.measurement(&l.rung, &l.problem).and_then(|m| m.check.as_ref());
        let parameter = |name: &str| l.parameters.get(name).map(|v| format!("{v:.6}")).unwrap_or_default();
        vec![
            title(run, &l.rung).to_owned(),
            parameter("w"),
            parameter("b"),
            format!("{:.6}", l.train_loss),
            format!("{:.6}", l.test_loss),
            check.map(|c| format!("{:.1e}", c.max_rel_error)).unwrap_or_default(),
            check.map(|c| format!("{:.1e}", c.tolerance)).unwrap_or_default(),
        ]
    });
    table(&["rung", "w", "b", "train loss", "test loss", "relative error", "tolerance"], rows.collect())
}

/// An epoch at the smallest and at the largest size, and what its data alone takes there.
#[must_use]
pub fn small_and_large(run: &Run) -> Table {
    let sizes = run.problems();
    let ends = [sizes.iter().min_by_key(|p| p.size()), sizes.iter().max_by_key(|p| p.size())];
    let mut rows = Vec::new();
    for rung in &run.rungs {
        for problem in ends.into_iter().flatten() {
            let Some(m) = run.measurement(&rung.id, problem).filter(|m| m.is_valid() && run.on_device(m)) else {
                continue;
            };
            let data =
                predict(run, problem, 2, 2).zip(m.epoch_us().zip(m.median_us())).map(|((all, _), (e, t))| all * e / t);
            let share = data.zip(m.epoch_us()).map(|(d, e)| figures::percent(d / e)).unwrap_or_default();
            rows.push(vec![rung.title.to_string(), problem.short_label(), cell(m.epoch_us()), cell(data), share]);
        }
    }
    table(&["rung", "points", "an epoch", "x and y alone, at the ceiling", "share"], rows)
}

/// The last word on the fastest rung.
#[must_use]
pub fn last_word(run: &Run) -> String {
    let found = run.main_problem().and_then(|p| Some((p, predict(run, p, 2, 2)?, run.best(p)?)));
    let Some((problem, (floor, level), best)) = found else { return "Nothing was measured.".into() };
    let us = best.median_us().unwrap_or(f64::NAN);
    let ladder = run.ladder(problem);
    let first = ladder.iter().find(|r| r.speed_up.is_some()).and_then(|r| r.rung).map_or("", |r| &*r.title);
    let speed_up = ladder.iter().find(|r| r.measurement.rung == best.rung).and_then(|r| r.speed_up);
    format!(
        "On {}, {}: the fastest is {} with {}, {} as fast as {first}. Reading x and y from the {level} takes {}: {} of that time.",
        run.environment.device.name,
        problem.label(),
        title(run, &best.rung),
        figures::time(us),
        speed_up.map(figures::times).unwrap_or_default(),
        figures::time(floor),
        figures::percent(floor / us)
    )
}
