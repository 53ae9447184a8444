//! A rung's figures for a problem: samples, bound, check and kernels.

use crate::plot::sample_plot::SamplePlot;
use crate::text::format::{self, NONE, percent, significant};
use warpbook_charts::excess_reason;
use warpbook_charts::words::time;
use warpbook_record::{KernelStats, Measurement, Outcome, Problem, Run, Rung};
use yew::{Html, html};

/// The strip's width in its own units, which are about CSS pixels.
const WIDTH: f64 = 340.0;
const HEIGHT: f64 = 64.0;
const EDGE: f64 = 6.0;

/// Shows the figures, or a sentence if nothing was measured.
pub fn figures(run: &Run, problem: &Problem, rung: &Rung) -> Html {
    let Some(m) = run.measurement(&rung.id, problem) else {
        return html! { <p class="quiet">{ format!("The record has no figures of this rung at {}.", problem.label) }</p> };
    };
    html! {
        <>
            { samples(m) }
            <dl class="short">{ for facts(run, m).into_iter().map(|(name, value, tone)| html! {
                <div key={name}><dt>{ name }</dt><dd class={tone}>{ value }</dd></div>
            }) }</dl>
            { kernels(&m.kernels) }
        </>
    }
}

type Fact = (&'static str, String, Option<&'static str>);

/// Returns names and values, with a style class if the value is good or bad.
fn facts(run: &Run, m: &Measurement) -> Vec<Fact> {
    let mut out: Vec<Fact> = Vec::new();
    match &m.outcome {
        Outcome::Measured => {}
        Outcome::Skipped { why } => out.push(("Skipped", why.clone(), Some("quiet"))),
        Outcome::Failed { error } => out.push(("Failed", error.clone(), Some("bad"))),
    }
    let share = run.fraction_of_bound(m).filter(|s| s.is_finite() && run.is_sound(m));
    let bound = run.bound(m).filter(|b| b.us.is_finite() && run.on_device(m));
    let reached = |s| percent(s) + bound.map_or("", |b| excess_reason(&b, s));
    out.extend(share.map(|s| ("% of bound", reached(s), None)));
    out.extend(bound.map(|b| ("Bound by", format!("{}: at least {}", b.label(), time(b.us)), None)));
    out.push(match &m.check {
        None => ("Check", "not made".into(), Some("quiet")),
        Some(c) => {
            let word = if c.passed { "passed" } else { "FAILED" };
            let (error, most) = (significant(c.max_rel_error, 2), significant(c.tolerance, 2));
            ("Check", format!("{word}: error {error} of at most {most}"), Some(if c.passed { "good" } else { "bad" }))
        }
    });
    out.extend(m.tile.clone().filter(|t| !t.is_empty()).map(|tile| ("Tile", tile, None)));
    out.extend(m.choice.clone().filter(|c| !c.is_empty()).map(|choice| ("Chosen", format::versions(&choice), None)));
    out
}

/// Shows a strip of the samples with the median and the MAD.
fn samples(m: &Measurement) -> Html {
    let Some(strip) = SamplePlot::from_samples(&m.samples_us) else {
        return html! { <p class="quiet">{ "No samples were kept." }</p> };
    };
    let x = |v: f64| EDGE + v * (WIDTH - 2.0 * EDGE);
    let n = m.samples_total.max(m.samples_us.len() as u64);
    let number = |v: f64| format!("{v:.1}");
    let median = m.median_us().map_or_else(|| NONE.to_owned(), time);
    let said = format!("{median} ± {} (MAD), median of {n}", m.mad_us().map_or_else(|| NONE.to_owned(), time));
    let ends = format!("{} to {}", time(strip.ends.0), time(strip.ends.1));
    html! {
        <figure class="strip">
            <figcaption><strong>{ median.clone() }</strong>{ said.strip_prefix(&median).unwrap_or_default().to_owned() }</figcaption>
            <svg viewBox={format!("0 0 {WIDTH} {HEIGHT}")} role="img" aria-label={format!("Samples: {said}; from {ends}")}>
                <rect class="band" x={number(x(strip.band.0))} y="0" height={HEIGHT.to_string()}
                    width={number((x(strip.band.1) - x(strip.band.0)).max(1.0))} />
                { for strip.dots.iter().map(|(across, down)| html! {
                    <circle cx={number(x(*across))} cy={number(EDGE + down * (HEIGHT - 2.0 * EDGE))} r="2.5" />
                }) }
                <line class="median" x1={number(x(strip.median))} x2={number(x(strip.median))} y1="0" y2={HEIGHT.to_string()} />
            </svg>
            <div class="ends" aria-hidden="true">
                <span>{ time(strip.ends.0) }</span><span>{ "first sample at the top" }</span><span>{ time(strip.ends.1) }</span>
            </div>
        </figure>
    }
}

/// Shows what the compiler and the device report about the kernels, one row each.
fn kernels(all: &[KernelStats]) -> Html {
    if all.is_empty() {
        return html! {};
    }
    let spills = |k: &KernelStats| u64::from(k.spill_store_bytes) + u64::from(k.spill_load_bytes);
    let any_spill = all.iter().any(|k| spills(k) > 0);
    html! {
        <div class="scroll" tabindex="0" role="region" aria-label="Table: kernels">
            <table class="kernel-figures">
                <thead><tr>
                    <th scope="col">{ "Kernel" }</th>
                    <th scope="col" class="number">{ "Registers" }</th>
                    <th scope="col" class="number">{ "Shared memory" }</th>
                    <th scope="col" class="number">{ "Occupancy" }</th>
                    if any_spill { <th scope="col" class="number">{ "Spills" }</th> }
                </tr></thead>
                <tbody>{ for all.iter().map(|k| html! {
                    <tr>
                        <th scope="row">{ &k.entry }</th>
                        <td class="number">{ k.registers }</td>
                        <td class="number">{ format::bytes(u64::from(k.static_shared_bytes) + u64::from(k.dynamic_shared_bytes)) }</td>
                        <td class="number">{ k.occupancy.map_or_else(|| NONE.to_owned(), percent) }</td>
                        if any_spill { <td class="number">{ format::bytes(spills(k)) }</td> }
                    </tr>
                }) }</tbody>
            </table>
        </div>
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::sample_run;

    #[test]
    fn figures_say_bound_check_and_tile() {
        let mut run = sample_run();
        let facts_of = |run: &Run, i: usize| facts(run, &run.measurements[i]);
        let expect: Vec<Fact> = vec![
            ("% of bound", "1.7 %".into(), None),
            ("Bound by", "arithmetic: at least 15.2 µs".into(), None),
            ("Check", "passed: error 1.0e-6 of at most 3.0e-5".into(), Some("good")),
            ("Tile", "t512x8".into(), None),
            ("Chosen", "800000 training points lie in one cluster.".into(), None),
        ];
        assert_eq!(facts_of(&run, 3), expect);
        run.measurements[3].check = None;
        run.measurements[3].outcome = Outcome::Failed { error: "no".into() };
        let failed = facts_of(&run, 3);
        assert_eq!(failed[0], ("Failed", "no".into(), Some("bad")));
        assert!(
            failed.iter().all(|f| f.0 != "% of bound") && failed.contains(&("Check", "not made".into(), Some("quiet")))
        );
    }
}
