//! A small roofline with the rung's point, which moves from rung to rung.

use warpbook_charts::{RoofPoint, RooflinePoints, roofline_points};
use warpbook_record::{MemoryLevel, Problem, Run, Rung};
use yew::{Html, html};

/// The picture's width in its own units, which are about CSS pixels.
const WIDTH: f64 = 340.0;
const HEIGHT: f64 = 190.0;

/// Shows the ceilings, all rungs of the problem, and a line from the rung before to this one; shows nothing if there is
/// no roofline.
pub fn roof(run: &Run, problem: &Problem, rung: &Rung, before: Option<&Rung>) -> Html {
    let Some(drawn) = roofline_points(run, problem, (WIDTH, HEIGHT)) else { return html! {} };
    let find = |id: &str| drawn.points.iter().find(|p| p.rung == id);
    let (now, then) = (find(&rung.id), before.and_then(|b| find(&b.id)));
    let said = match (now, then) {
        (Some(now), Some(then)) => format!("{}; before, {}", now.sentence, then.sentence),
        (Some(now), None) => now.sentence.clone(),
        (None, _) => "This rung has no place here: its bytes were not counted, or it has no valid figure".into(),
    };
    html! {
        <figure class="roof">
            <figcaption>{ format!("Roofline. {said}.") }</figcaption>
            { picture(&drawn, now, then, &said) }
            <div class="ends" aria-hidden="true"><span>{ "↑ FLOP/s" }</span><span>{ "FLOP/byte →" }</span></div>
            <ul class="roofs">{ for drawn.lines.iter().map(|l| html! {
                <li key={l.label.clone()} class={class(l.level)}>{ &l.label }</li>
            }) }</ul>
        </figure>
    }
}

fn picture(drawn: &RooflinePoints, now: Option<&RoofPoint>, then: Option<&RoofPoint>, said: &str) -> Html {
    let number = |v: f64| format!("{v:.1}");
    let line = |class: &'static str, from: (f64, f64), to: (f64, f64)| {
        html! { <line {class} x1={number(from.0)} y1={number(from.1)} x2={number(to.0)} y2={number(to.1)} /> }
    };
    let disc = |class: &'static str, r: &'static str, at: (f64, f64)| {
        html! { <circle key={class} {class} {r} cx={number(at.0)} cy={number(at.1)} /> }
    };
    html! {
        <svg viewBox={format!("-8 -8 {} {}", WIDTH + 16.0, HEIGHT + 16.0)} role="img" aria-label={format!("Roofline: {said}")}>
            <g>{ for drawn.lines.iter().map(|l| line(class(l.level), l.from, l.to)) }</g>
            <g>{ for drawn.points.iter().map(|p| html! {
                <circle class="other" r="3" cx={number(p.at.0)} cy={number(p.at.1)} />
            }) }</g>
            <g>{ for now.zip(then).map(|(now, then)| line("trail", then.at, now.at)) }</g>
            <g>{ for then.map(|p| disc("then", "5", p.at)) }</g>
            // Every rung uses the same element, so that the style can animate its move.
            <g>{ for now.map(|p| disc("now", "7", p.at)) }</g>
        </svg>
    }
}

/// Returns the style class of a memory level, in the charts' colours.
fn class(level: Option<MemoryLevel>) -> &'static str {
    match level {
        None => "roof-line arithmetic",
        Some(MemoryLevel::Registers) => "roof-line registers",
        Some(MemoryLevel::Shared) => "roof-line shared",
        Some(MemoryLevel::L2) => "roof-line l2",
        Some(MemoryLevel::Dram) => "roof-line dram",
        Some(MemoryLevel::Link) => "roof-line link",
        Some(_) => "roof-line",
    }
}
