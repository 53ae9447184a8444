//! The changes from rung to rung of a ladder: which rung a rung is compared with, and the gain over it.

use crate::draw::text::words::{percent, time, times};
use crate::record::names::{label, quoted};
use crate::record::noise::Ratio;
use crate::record::verdict::{bound_name, of_bound, usable, verdict};
use warpbook_record::{Bound, KernelSpec, KernelStats, Measurement, Problem, Run, Rung, Runner};

/// Returns the rung that another is compared with for a problem: the rung that it is a variant of, or else an earlier
/// rung with the same kind of runner, such as kernels, and a valid figure for all of the work. Among several earlier
/// rungs, arithmetic of the same type is preferred, then the most similar source, then the nearest rung. If none has
/// such a figure, it is the nearest rung with the same kind of runner. The first kernel rung is compared with the last
/// CPU rung. The same rung in another type does not count.
#[must_use]
pub fn rung_before<'a>(run: &'a Run, problem: &Problem, rung: &str) -> Option<&'a Rung> {
    let at = run.rungs.iter().position(|r| r.id == rung)?;
    let this = &run.rungs[at];
    let base = this.variant_of.as_deref().and_then(|id| run.rung(id));
    let earlier = || run.rungs[..at].iter().rev().filter(|r| !matches!(r.runner, Runner::Chosen(_)));
    let is_sound = |r: &&Rung| run.measurement(&r.id, problem).is_some_and(|m| run.is_sound(m) && !m.does_less());
    let kind = |r: &Rung| run.measurement(&r.id, problem).map_or(problem.dtype, Measurement::arithmetic_type);
    let stem = |r: &Rung| r.title.replace(kind(r).label(), "");
    let is_twin = |r: &Rung| kind(r) != kind(this) && stem(r) == stem(this);
    let alike = || earlier().filter(|r| way(r) == way(this) && !is_twin(r));
    let of_type = || alike().filter(is_sound).filter(|r| kind(r) == kind(this));
    let nearest = || {
        let sound: Vec<&Rung> =
            if of_type().next().is_some() { of_type().collect() } else { alike().filter(is_sound).collect() };
        let all: Vec<(f64, &Rung)> = sound.into_iter().map(|r| (likeness(run, r, this), r)).collect();
        let most = all.iter().map(|a| a.0).fold(0.0, f64::max);
        all.into_iter().find(|a| a.0 >= most).map(|a| a.1)
    };
    let by_cpu = || earlier().filter(|r| way(this) == Way::Kernels && way(r) == Way::Cpu).find(is_sound);
    base.or_else(nearest).or_else(|| alike().next()).or_else(by_cpu)
}

/// Returns the fraction of two rungs' kernel sources that they share, from 0 to 1, by lines of their files and by the
/// macros that they are compiled with. Returns 0 if either has no source.
fn likeness(run: &Run, old: &Rung, new: &Rung) -> f64 {
    let [a, b] = [old, new].map(|rung| {
        let mut files: Vec<&str> = rung.kernels().iter().map(|k| k.file.as_ref()).collect();
        files.sort();
        files.dedup();
        files
    });
    let text = |file: &str| run.sources.get(file).map_or("", String::as_str);
    let lines = |files: &[&str]| files.iter().map(|f| text(f).lines().count()).sum::<usize>();
    // The lines of files that both rungs use count as equal.
    let [both, only_a, only_b] = [
        a.iter().copied().filter(|f| b.contains(f)).collect::<Vec<_>>(),
        a.iter().copied().filter(|f| !b.contains(f)).collect(),
        b.iter().copied().filter(|f| !a.contains(f)).collect(),
    ];
    let joined = |files: &[&str]| files.iter().map(|f| text(f)).collect::<Vec<_>>().join("\n");
    let [made_a, made_b] = [old, new].map(|rung| {
        let define = |k: &KernelSpec| k.defines.iter().map(|d| format!("{}={}", d.name, d.value)).collect::<Vec<_>>();
        let each = |k: &KernelSpec| format!("{} {}", k.entry, define(k).join(" "));
        rung.kernels().iter().map(each).collect::<Vec<_>>().join("\n")
    });
    let common = lines(&both) + lines_in_common(&joined(&only_a), &joined(&only_b)) + lines_in_common(&made_a, &made_b);
    let all = lines(&a) + lines(&b) + made_a.lines().count() + made_b.lines().count();
    if lines(&a) == 0 || lines(&b) == 0 { 0.0 } else { 2.0 * common as f64 / all as f64 }
}

/// Counts the lines that two texts share, in any order. Repeated lines count as often as both texts contain them.
/// Leading and trailing blanks are ignored, and empty lines do not count.
#[must_use]
pub fn lines_in_common(a: &str, b: &str) -> usize {
    let [a, b] = [a, b].map(|text| {
        let mut lines: Vec<&str> = text.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
        lines.sort();
        lines
    });
    let (mut i, mut j, mut common) = (0, 0, 0);
    while i < a.len() && j < b.len() {
        match a[i].cmp(b[j]) {
            std::cmp::Ordering::Less => i += 1,
            std::cmp::Ordering::Greater => j += 1,
            std::cmp::Ordering::Equal => {
                (i, j, common) = (i + 1, j + 1, common + 1);
            }
        }
    }
    common
}

#[derive(PartialEq, Eq)]
enum Way {
    Kernels,
    Cpu,
    Library,
    Elsewhere,
}

fn way(rung: &Rung) -> Way {
    match rung.runner {
        Runner::Kernels { .. } | Runner::Chosen(_) => Way::Kernels,
        Runner::Cpu(_) => Way::Cpu,
        Runner::Library(_) => Way::Library,
        Runner::External(_) => Way::Elsewhere,
    }
}

/// Describes the gain of a rung over [`rung_before`] in a sentence: "“Warp tile” is 1.42× as fast as “Vectorised” (412 µs
/// → 290 µs), 31 % → 44 % of the fp32 arithmetic limit." [`noise_rule`](crate::noise_rule) decides whether it is faster. For a
/// rung without a valid figure the sentence gives the reason.
#[must_use]
pub fn gain_caption(run: &Run, problem: &Problem, rung: &str) -> String {
    let title = quoted(run, rung);
    let Some(m) = run.measurement(rung, problem) else {
        return format!("{title} was not measured at {}.", label(problem));
    };
    let us = match verdict(run, m) {
        Ok(us) => us,
        Err(why) => return format!("{title}: {}.", why.trim_end_matches('.')),
    };
    let dtype = m.arithmetic_type();
    let alone = || {
        let share = share(run, m).map_or(String::new(), |(b, share)| format!(", {}", of_bound(&b, dtype, share)));
        format!("{title}: {}{share}", time(us))
    };
    let Some(before) = rung_before(run, problem, rung) else {
        return format!("{}. It is the first of its kind.", alone());
    };
    let other = quoted(run, &before.id);
    let figure = run.measurement(&before.id, problem).and_then(|m| Some((m, verdict(run, m).ok()?)));
    let Some((old, old_us)) = figure else {
        return format!("{}. {other}, the rung before it, has no valid figure at {}.", alone(), label(problem));
    };
    let much = match Ratio::between(&old.samples_us, &m.samples_us) {
        Some(ratio) if !ratio.is_faster() && !ratio.is_slower() => format!("is as fast as {other} within noise"),
        _ if us > old_us => format!("takes {} the time of {other}", times(us / old_us)),
        _ => format!("is {} as fast as {other}", times(old_us / us)),
    };
    let shares = match (share(run, old), share(run, m)) {
        (Some((a, x)), Some((b, y))) if bound_name(&a, old.arithmetic_type()) == bound_name(&b, dtype) => {
            format!(", {} → {}", percent(x), of_bound(&b, dtype, y))
        }
        (Some((a, x)), Some((b, y))) => {
            format!(", {} → {}", of_bound(&a, old.arithmetic_type(), x), of_bound(&b, dtype, y))
        }
        (None, Some((b, y))) => format!(", {}", of_bound(&b, dtype, y)),
        (_, None) => String::new(),
    };
    let less = match m.does_less() {
        true => format!(" It does {} of the operations.", percent(m.operations() as f64 / problem.flops as f64)),
        false => String::new(),
    };
    format!("{title} {much} ({} → {}){shares}.{less}", time(old_us), time(us))
}

fn share(run: &Run, m: &Measurement) -> Option<(Bound, f64)> {
    let bound = run.bound(m).filter(|b| usable(Some(b.us)).is_some())?;
    Some((bound, run.fraction_of_bound(m).filter(|f| f.is_finite())?))
}

/// Lists the other differences between the measurements of a rung and the rung before it, one phrase each: launches,
/// kernels, tile, and compiler figures.
#[must_use]
pub fn changes(run: &Run, problem: &Problem, before: &Rung, rung: &Rung) -> Vec<String> {
    let mut out = Vec::new();
    let mut put = |what: &str, a: String, b: String| {
        if a != b && !a.is_empty() && !b.is_empty() {
            out.push(format!("{what}: {a} → {b}"));
        }
    };
    let schedule = |r: &Rung| r.schedule().map_or_else(String::new, |s| s.sentence().to_owned());
    put("Launches", schedule(before), schedule(rung));
    let defines = |r: &Rung| {
        let mut all: Vec<String> = Vec::new();
        for d in r.kernels().iter().flat_map(|k| k.defines.iter()).map(|d| format!("{}={}", d.name, d.value)) {
            if !all.contains(&d) {
                all.push(d);
            }
        }
        if all.is_empty() { "no defines".to_owned() } else { all.join(", ") }
    };
    put("Compiled with", defines(before), defines(rung));
    let (Some(a), Some(b)) = (run.measurement(&before.id, problem), run.measurement(&rung.id, problem)) else {
        return out;
    };
    let entries = |m: &Measurement| m.kernels.iter().map(|k| k.entry.as_str()).collect::<Vec<_>>().join(", ");
    put("Kernels", entries(a), entries(b));
    let tile = |m: &Measurement| m.tile.clone().unwrap_or_default();
    put("Tile", tile(a), tile(b));
    let most = |m: &Measurement, of: fn(&KernelStats) -> u32| {
        m.kernels.iter().map(of).max().map_or_else(String::new, |n| n.to_string())
    };
    let registers = |k: &KernelStats| k.registers;
    put("Registers of a thread", most(a, registers), most(b, registers));
    let shared = |k: &KernelStats| k.static_shared_bytes.saturating_add(k.dynamic_shared_bytes);
    let bytes = |m: &Measurement| {
        m.kernels.iter().map(shared).max().map_or_else(String::new, |n| crate::draw::text::words::bytes(n.into()))
    };
    put("Shared memory of a block", bytes(a), bytes(b));
    let occupancy = |m: &Measurement| {
        let least = m.kernels.iter().filter_map(|k| k.occupancy).min_by(f64::total_cmp);
        least.map_or_else(String::new, percent)
    };
    put("Occupancy", occupancy(a), occupancy(b));
    out
}
