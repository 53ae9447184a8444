//! The headline of a record: the first sentence and figures that a reader sees.

use crate::draw::clean;
use crate::draw::text::words::{bytes, counted, memory, percent, possessive, short, significant, time, times};
use crate::record::ladder_table::sample;
use crate::record::measure::{Measure, peak_bytes};
use crate::record::names::{label, name, quoted};
use crate::record::verdict::{bound_name, divergence, excess_reason, of_bound, usable, verdict};
use warpbook_record::{Measurement, Outcome, Problem, Quantity, Run, Runner, TrainLog};

/// Largest number of rungs that the fastest is compared with.
const MOST_AGAINST: usize = 3;
/// Largest number of comparisons in the sentence.
const MOST_SAID: usize = 2;
const VS_FRAMEWORKS: &str = "vs frameworks";

const FASTEST: &str = " is the fastest";
const RATIO: &str = "Times as fast";
const ACCURACY: &str = "Accuracy";
const RIGHT: &str = "Test samples right";
const TIME: &str = "Time";
/// Name of the size that tells trainings of the same work apart.
const SEED: &str = "seed";

/// The headline of a problem: the fastest rung, its lead, its share of the bound, and the result of its check. For a
/// training without measurements, it has the final results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Headline {
    /// Id of the rung in the headline.
    pub rung: String,
    /// Result in one or two sentences, which name the problem only if they compare a slow way with a fast one.
    pub sentence: String,
    /// Further sentences, which may be empty: the reason for the ratio of a slow and a fast way, or the share of the
    /// bound and the outcome of the check.
    pub more: String,
    /// The headline in figures, the most important first.
    pub tiles: Vec<HeadlineTile>,
}

/// A figure with its label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeadlineTile {
    /// Label, such as "Fastest".
    pub label: String,
    /// Value, such as "432 µs".
    pub value: String,
    /// Detail, such as "On-chip".
    pub detail: String,
}

impl HeadlineTile {
    fn new(label: impl Into<String>, value: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { label: label.into(), value: value.into(), detail: detail.into() }
    }
}

/// Returns the headline of a problem. [`Run::fastest`] is compared with the fastest rung of another framework, the
/// fastest GPU library, the record's fastest kernels and the baseline, unless these are the same rung.
///
/// If the record compares a slow way with a fast one ([`Run::slow_and_fast`]), the headline is their ratio and the
/// reason. Returns `None` if the problem has no checked measurement and no logged training.
#[must_use]
pub fn headline(run: &Run, problem: &Problem) -> Option<Headline> {
    if let Some(pair) = of_pair(run, problem) {
        return Some(pair);
    }
    let measured = run.fastest(problem).and_then(|m| Some((m, usable(m.median_us())?)));
    match measured {
        Some((fastest, us)) => Some(of_measurement(run, problem, fastest, us)),
        None => logged(run, problem).and_then(|(log, seeds)| of_training(run, log, seeds)),
    }
}

/// Returns the log of Warpbook's fastest training of a problem, and the number of its seeds. If there is no such training,
/// returns the problem's first log, or else the record's.
fn logged<'r>(run: &'r Run, problem: &Problem) -> Option<(&'r TrainLog, usize)> {
    let first = || run.train_logs.iter().find(|l| l.problem == *problem).or(run.train_logs.first());
    fastest_training(run, problem, false).or_else(|| first().map(|log| (log, 1)))
}

/// Returns the log of the fastest training of a problem by Warpbook or by a framework, among those that ran to their end and
/// did not diverge, and the number of its seeds. A rung that was trained from several seeds counts by the training with the
/// median time.
fn fastest_training<'r>(run: &'r Run, problem: &Problem, by_framework: bool) -> Option<(&'r TrainLog, usize)> {
    let runs_there = |l: &TrainLog| run.rung(&l.rung).is_some_and(|r| r.framework().is_some() == by_framework);
    let total_s = |l: &TrainLog| {
        let course = l.course.as_ref().filter(|c| c.is_finished() && runs_there(l) && divergence(l).is_none())?;
        usable(Some(course.total_s))
    };
    let median_of_seeds = |l: &'r TrainLog| {
        let same = |other: &&TrainLog| other.rung == l.rung && differ_in_seed(&other.problem, &l.problem);
        let mut timed: Vec<(&TrainLog, f64)> =
            run.train_logs.iter().filter(same).filter_map(|l| Some((l, total_s(l)?))).collect();
        timed.sort_by(|a, b| a.1.total_cmp(&b.1));
        let middle = timed.len().checked_sub(1)? / 2;
        Some((timed[middle], timed.len()))
    };
    let of_problem = run.train_logs.iter().filter(|l| l.problem == *problem);
    let fastest = of_problem.filter_map(median_of_seeds).min_by(|a, b| a.0.1.total_cmp(&b.0.1));
    fastest.map(|((log, _), seeds)| (log, seeds))
}

/// Returns true if two problems are the same but for the seed.
fn differ_in_seed(a: &Problem, b: &Problem) -> bool {
    let sizes = |p: &Problem| p.sizes.iter().filter(|size| size.name != SEED).cloned().collect::<Vec<_>>();
    a == b || a.dtype == b.dtype && sizes(a) == sizes(b)
}

/// Returns the rungs of a problem as heights from 0 to 1, in the ladder's order: the logarithm of the speed, scaled
/// between the slowest and the fastest. Rungs without a valid figure are left out.
#[must_use]
pub fn sparkline(run: &Run, problem: &Problem) -> Vec<f64> {
    let sound = run.ladder(problem).into_iter().map(|row| row.measurement).filter(|m| run.is_sound(m));
    let speeds: Vec<f64> = sound.filter_map(|m| Some(-usable(m.median_us())?.ln())).collect();
    let (low, high) = speeds.iter().fold((f64::MAX, f64::MIN), |(a, b), v| (a.min(*v), b.max(*v)));
    let height = |v: f64| if high > low { (v - low) / (high - low) } else { 1.0 };
    speeds.into_iter().map(height).collect()
}

/// Returns a record's summary for an overview: the sentences of its main problem's [`headline`], which may be empty;
/// its [`sparkline`]; and cells for the overview's tables. For a slow and a fast way, the cells are both ways, their
/// ratio and the reason; for a training to an accuracy or a logged training, they are the problem, the time with the
/// rung, and the accuracy.
#[must_use]
pub fn record_summary(run: &Run) -> (String, Vec<f64>, Vec<String>) {
    let Some(problem) = run.main_problem() else { return Default::default() };
    let heights = sparkline(run, problem);
    if let Some(sentence) = of_own(run) {
        return (sentence, heights, Vec::new());
    }
    let Some(found) = headline(run, problem) else { return (String::new(), heights, Vec::new()) };
    let cell = |t: &HeadlineTile| format!("{} · {}", t.value, t.detail);
    let cells = match found.tiles.as_slice() {
        [ratio, slow, fast, ..] if ratio.label == RATIO => {
            vec![cell(slow), cell(fast), ratio.value.clone(), found.more.clone()]
        }
        [fastest, .., accuracy] if accuracy.label == ACCURACY => {
            vec![label(problem), cell(fastest), accuracy.value.clone()]
        }
        [right, .., total] if right.label == RIGHT && total.label == TIME => {
            let work = format!("{}, {}", label(problem), total.detail);
            vec![work, format!("{} · {}", total.value, name(run, &found.rung)), right.value.clone()]
        }
        _ => Vec::new(),
    };
    let verb = if found.sentence.contains(FASTEST) { FASTEST } else { "”" };
    let sentence = found.sentence.replacen(&format!("{verb}:"), &format!("{verb} at {}:", label(problem)), 1);
    (format!("{sentence} {}", found.more).trim().to_owned(), heights, cells)
}

/// Describes the learner's fastest own kernel, if the record has any, for the main problem or else for the first problem
/// with one.
fn of_own(run: &Run) -> Option<String> {
    let is_own = |m: &&Measurement| {
        !matches!(m.outcome, Outcome::Skipped { .. }) && run.rung(&m.rung).is_some_and(crate::record::kind::is_own)
    };
    let all = || run.measurements.iter().filter(is_own);
    let first = all().find(|m| Some(&m.problem) == run.main_problem()).or_else(|| all().next())?;
    let problem = &first.problem;
    let sound = all().filter(|m| m.problem == *problem && run.is_sound(m));
    let timed = sound.filter_map(|m| Some((m, usable(m.median_us())?)));
    let Some((m, us)) = timed.min_by(|a, b| a.1.total_cmp(&b.1)) else {
        let why = verdict(run, first).err().unwrap_or_default();
        return Some(format!("{} does not count at {}: {why}.", quoted(run, &first.rung), label(problem)));
    };
    let base = run.rung(&m.rung).and_then(|r| r.variant_of.as_deref());
    let of_base = base.and_then(|id| Some((quoted(run, id), usable(run.measurement(id, problem)?.median_us())?)));
    let against = of_base.map_or(String::new(), |(base, base_us)| match base_us / us {
        ratio if ratio >= 1.0 => format!(", {} as fast as {base}", times(ratio)),
        ratio => format!(", {} the time of {base}", times(1.0 / ratio)),
    });
    Some(format!("{} at {}: {}{against}. Its result passed the check.", quoted(run, &m.rung), label(problem), time(us)))
}

/// Describes a record's slow and fast way, with the memory of both if it differs, and the reason.
fn of_pair(run: &Run, problem: &Problem) -> Option<Headline> {
    let (slow, fast) = named_pair(run, problem)?;
    let (slow_us, fast_us) = (usable(slow.median_us())?, usable(fast.median_us())?);
    let [slow_name, fast_name] = [slow, fast].map(|m| name(run, &m.rung));
    let ratio = times(slow_us / fast_us);
    let with = shortened(&label(problem));
    let sentence = format!("With {with}, “{fast_name}” is {ratio} as fast as “{slow_name}”.");
    let held = fast.peak_bytes.zip(slow.peak_bytes).filter(|(a, b)| a != b).map(|(a, b)| {
        let [a, b] = [a, b].map(bytes);
        format!("“{fast_name}” holds {a} of the device's memory, and “{slow_name}” {b}.")
    });
    let reason = Some(clean(&run.descriptor.reason)).filter(|reason| !reason.is_empty());
    let more: Vec<String> = held.into_iter().chain(reason).collect();
    let mut tiles = vec![
        HeadlineTile::new(RATIO, ratio, format!("as {slow_name}")),
        HeadlineTile::new("Slow way", time(slow_us), slow_name),
        HeadlineTile::new("Fast way", time(fast_us), fast_name),
    ];
    tiles.extend(bound_tile(run, fast));
    tiles.extend(check_tile(fast));
    Some(Headline { rung: fast.rung.clone(), sentence, more: more.join(" "), tiles })
}

/// Shortens a large number at the start of a label: "512 MiB walked through" for "524288 KiB walked through", and
/// "4 M elements" for "4194304 elements".
fn shortened(label: &str) -> String {
    let found = label.split_once(' ').and_then(|(n, unit)| Some((n.parse::<u64>().ok()?, unit)));
    match found.map(|(n, unit)| (n, unit, unit.strip_prefix("KiB"))) {
        Some((n, _, Some(rest))) => format!("{}{rest}", bytes(n.saturating_mul(1024))),
        Some((n, unit, None)) if n > 0 && n.is_multiple_of(1 << 20) => format!("{} M {unit}", n >> 20),
        _ => label.to_owned(),
    }
}

/// Returns the slow and the fast way, if the record names both and both have a figure.
fn named_pair<'a>(run: &'a Run, problem: &Problem) -> Option<(&'a Measurement, &'a Measurement)> {
    let (slow, fast) = run.slow_and_fast(problem)?;
    (run.descriptor.compared == [&*slow.rung, &*fast.rung]).then_some((slow, fast))
}

/// Makes the tile for the share of the bound that a measurement reached.
fn bound_tile(run: &Run, m: &Measurement) -> Option<HeadlineTile> {
    let (bound, share) = run.bound(m).zip(run.fraction_of_bound(m)).filter(|(_, share)| share.is_finite())?;
    let name = bound_name(&bound, m.arithmetic_type());
    Some(HeadlineTile::new("% of bound", percent(share), name + excess_reason(&bound, share)))
}

/// Makes the tile for the check of a sound measurement, which always passed.
fn check_tile(m: &Measurement) -> Option<HeadlineTile> {
    let check = m.check.as_ref()?;
    let (error, tolerance) = (significant(check.max_rel_error, 2), significant(check.tolerance, 2));
    let detail = if check.tolerance == 0.0 { "exact".into() } else { format!("error {error} of at most {tolerance}") };
    Some(HeadlineTile::new("Check", "passed", detail))
}

fn of_measurement(run: &Run, problem: &Problem, fastest: &Measurement, us: f64) -> Headline {
    let title = name(run, &fastest.rung);
    let measure = Measure::new(run, run.descriptor.headline);
    let figure = match measure.quantity {
        // The headline states the time, since a speed-up needs its baseline, the fastest rung need not use the least
        // memory, and an unknown rate has no value.
        Quantity::Time | Quantity::SpeedUp | Quantity::PeakMemory => time(us),
        _ if measure.lacking(run, problem).is_some() => time(us),
        _ => measure.text(measure.value_of(fastest, us, None)),
    };
    // A rung without a rival is not called the fastest.
    let sound = run.ladder(problem).into_iter().filter(|row| run.is_sound(row.measurement));
    let is_alone = sound.filter(|row| usable(row.measurement.median_us()).is_some()).count() < 2;
    let (of_tile, verb) = if is_alone { ("Result", "") } else { ("Fastest", FASTEST) };
    let mut tiles = vec![HeadlineTile::new(of_tile, figure.clone(), title.clone())];
    let mut sentence = match goal(problem) {
        Some((goal, from)) => format!("“{title}” reaches {goal} in {} from {from}", time(us)),
        None => format!("“{title}”{verb}: {figure}"),
    };
    let mut more = Vec::new();
    let mut ratios = Vec::new();
    for (kind, other, ratio) in against(run, problem, fastest, us) {
        if ratios.len() < MOST_SAID {
            ratios.push(format!("{} as fast as “{other}”", times(ratio)));
        }
        tiles.push(HeadlineTile::new(kind, times(ratio), other));
    }
    if !ratios.is_empty() {
        sentence += &format!(", {}", ratios.join(" and "));
    }
    sentence += ".";
    let bound = run.bound(fastest).zip(run.fraction_of_bound(fastest)).filter(|(_, share)| share.is_finite());
    if let Some((bound, share)) = bound {
        more.push(format!("It runs at {}.", of_bound(&bound, fastest.arithmetic_type(), share)));
    }
    tiles.extend(bound_tile(run, fastest));
    // Only sound measurements are compared, so this check has passed.
    if fastest.check.is_some() {
        more.push("Its result passed the check.".to_owned());
    }
    tiles.extend(check_tile(fastest));
    if let Some((mean, _)) = fastest.accuracy() {
        let (mean, over) = (in_percent(mean), format!("mean of {} {}", fastest.test.len(), sample(run)));
        more.push(format!("Its accuracy is {mean}, the {over}."));
        tiles.push(HeadlineTile::new(ACCURACY, mean, over));
    }
    Headline { rung: fastest.rung.clone(), sentence, more: more.join(" "), tiles }
}

/// Returns the goal of a training to an accuracy, such as "90 % on CIFAR-10", and where its time begins, such as "the start
/// of a process". Returns `None` for other work.
fn goal(problem: &Problem) -> Option<(String, String)> {
    let (accuracy, data) = (problem.real("accuracy")?, clean(problem.text("data")?));
    let data = data.split_once(", ").map_or_else(|| data.clone(), |(set, note)| format!("{set} ({note})"));
    Some((format!("{} % on {data}", short(accuracy)), clean(problem.text("from")?)))
}

fn in_percent(accuracy: f64) -> String {
    format!("{:.2} %", accuracy * 100.0)
}

/// Returns the rungs that the fastest is compared with: the kind, the rung, and the speed-up.
fn against(run: &Run, problem: &Problem, fastest: &Measurement, us: f64) -> Vec<(&'static str, String, f64)> {
    let external = run.fastest_of(problem, |r| matches!(r.runner, Runner::External(_)));
    let baseline = run.baseline(problem).and_then(|m| Some((m, usable(m.median_us())?)));
    let others = [
        (VS_FRAMEWORKS, external),
        ("vs libraries", run.fastest_library(problem)),
        ("vs kernels", run.fastest_kernels(problem)),
        ("vs the baseline", baseline),
    ];
    let mut seen = vec![fastest.rung.as_str()];
    let mut found = Vec::new();
    for (kind, other) in others {
        let Some((m, other_us)) = other.filter(|(m, _)| !seen.contains(&m.rung.as_str())) else { continue };
        seen.push(&m.rung);
        found.push((kind, name(run, &m.rung), other_us / us));
    }
    found.truncate(MOST_AGAINST);
    found
}

/// Returns the finding for a problem's rungs, such as "“On the chip” is 5.7× as fast as PyTorch's best"; `None` without a
/// valid figure.
pub(crate) fn claim(run: &Run, problem: &Problem) -> Option<String> {
    if let Some((slow, fast)) = named_pair(run, problem) {
        let ratio = usable(slow.median_us())? / usable(fast.median_us())?;
        let [slow, fast] = [slow, fast].map(|m| quoted(run, &m.rung));
        return Some(format!("{fast} is {} as fast as {slow}", times(ratio)));
    }
    let (fastest, us) = run.fastest(problem).and_then(|m| Some((m, usable(m.median_us())?)))?;
    let title = quoted(run, &fastest.rung);
    let Some((kind, other, ratio)) = against(run, problem, fastest, us).into_iter().next() else {
        return Some(match fastest.accuracy() {
            Some((mean, _)) => format!("{title} reaches {} in {}", in_percent(mean), time(us)),
            None => format!("{title} takes {}", time(us)),
        });
    };
    let framework = run.fastest_of(problem, |r| matches!(r.runner, Runner::External(_)));
    let framework = framework.and_then(|(m, _)| run.rung(&m.rung)?.framework()).map(without_version);
    let other = match framework.filter(|_| kind == VS_FRAMEWORKS) {
        Some(framework) if !framework.is_empty() => format!("{} best", possessive(&framework)),
        _ => format!("“{other}”"),
    };
    Some(match ratio {
        r if r < 1.005 => format!("{title} is as fast as {other}"),
        r => format!("{title} is {} as fast as {other}", times(r)),
    })
}

/// Returns the finding for memory, such as "“fp16” takes 94 % of the memory of “fp32”": the lowest memory of these rungs
/// compared with the baseline. Returns `None` if no memory was counted.
pub(crate) fn claim_of_memory(run: &Run, problem: &Problem, among: impl Fn(&str) -> bool) -> Option<String> {
    let (least, bytes) = least_memory(run, problem, &among)?;
    let title = quoted(run, &least.rung);
    let baseline = run.baseline(problem).filter(|m| m.rung != least.rung && among(&m.rung));
    Some(match baseline.and_then(|m| Some((quoted(run, &m.rung), peak_bytes(m)?))) {
        // Rounding to whole percents would give 100 %.
        Some((other, of)) if bytes >= 0.995 * of => format!("{title} takes as much memory as {other}"),
        Some((other, of)) => format!("{title} takes {} of the memory of {other}", percent(bytes / of)),
        None => format!("{title} takes the least memory: {}", memory(bytes)),
    })
}

/// Returns the measurement with the lowest peak memory for a problem, among those that do all of the work, with its
/// bytes.
pub(crate) fn least_memory<'a>(
    run: &'a Run,
    problem: &Problem,
    among: impl Fn(&str) -> bool,
) -> Option<(&'a Measurement, f64)> {
    let rows = run.ladder(problem).into_iter().map(|row| row.measurement);
    let ranked = rows.filter(|m| run.is_sound(m) && !m.does_less() && !run.repeats_a_rung(m) && among(&m.rung));
    ranked.filter_map(|m| Some((m, peak_bytes(m)?))).min_by(|a, b| a.1.total_cmp(&b.1))
}

/// Removes the version from a framework's name: "PyTorch" for "PyTorch 2.11.0".
fn without_version(framework: &str) -> String {
    let framework = clean(framework);
    let words = framework.split(' ').take_while(|w| !w.starts_with(|c: char| c.is_ascii_digit()));
    words.collect::<Vec<_>>().join(" ")
}

/// Describes the final results of a training, which has the median time of this many seeds.
fn of_training(run: &Run, log: &TrainLog, seeds: usize) -> Option<Headline> {
    let title = name(run, &log.rung);
    if let Some(why) = divergence(log) {
        let tiles = vec![HeadlineTile::new("Training", "diverged", title.clone())];
        return Some(Headline {
            rung: log.rung.clone(),
            sentence: format!("“{title}” {why}."),
            more: String::new(),
            tiles,
        });
    }
    let course = log.course.as_deref()?;
    let last = course.epochs.last()?;
    let mut tiles = Vec::new();
    let mut sentence =
        format!("“{title}” trained for {}", counted(usize::try_from(last.epoch).unwrap_or(usize::MAX), "epoch"));
    if let Some((right, accuracy)) = last.test.and_then(|right| Some((right, right.accuracy()?))) {
        let share = format!("{} %", significant(accuracy * 100.0, 4));
        sentence += &format!(": {share} of the test samples are right");
        tiles.push(HeadlineTile::new(RIGHT, share, format!("{} of {}", right.correct, right.of)));
    }
    let loss = significant(last.test_loss, 4);
    sentence += &format!(", with a test loss of {loss}");
    tiles.push(HeadlineTile::new("Test loss", loss, "after the last epoch"));
    if course.total_s.is_finite() && course.total_s > 0.0 {
        let total = time(course.total_s * 1e6);
        sentence += &format!(", in {total}");
        if seeds > 1 {
            sentence += &format!(", the median of {seeds} seeds");
        }
        let other = fastest_training(run, &log.problem, true).filter(|(other, _)| other.rung != log.rung);
        if let Some((other, course_of_other)) = other.and_then(|(other, _)| Some((other, other.course.as_deref()?))) {
            let ratio = times(course_of_other.total_s / course.total_s);
            sentence += &format!(": {ratio} as fast as “{}”", name(run, &other.rung));
        }
        tiles.push(HeadlineTile::new(TIME, total, format!("{} steps", course.made())));
    }
    Some(Headline { rung: log.rung.clone(), sentence: format!("{sentence}."), more: String::new(), tiles })
}
