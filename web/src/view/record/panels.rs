//! The charts and tables of each tab.

use crate::app::{App, ChartMsg, Msg, SheetMsg};
use crate::record::charts::{breakdown_name, has_data, training_charts};
use crate::record::quantities::{quantity, quantity_id};
use crate::record::{Tab, charts_of};
use crate::tables as sheets;
use crate::text::format;
use crate::view::choosers::rung_choice;
use crate::view::controls::{Send, press};
use crate::view::{chart, environment, rung, sheet, timeline};
use warpbook_charts as charts;
use warpbook_record::{ChartKind, Problem, Profiled, Quantity, Run, Xray};
use web_sys::HtmlInputElement;
use yew::{Event, Html, TargetCast, html};

/// Shows a tab's content; `problem` is the page's problem, and `shown` is the problem that the tab has figures of.
pub fn panel(
    app: &App,
    send: &Send,
    run: &Run,
    (tab, problem, shown): (Tab, Option<&Problem>, Option<&Problem>),
) -> Html {
    match (tab, shown) {
        (Tab::Environment | Tab::Compare, _) => environment::environment(run),
        (Tab::Source, _) => rung::panel(app, send, run, problem),
        (_, None) => html! { <p class="empty">{ "The record has no measurements." }</p> },
        (Tab::Ladder, Some(problem)) => ladder(app, send, run, problem),
        (Tab::Sweep, Some(problem)) => sweep(app, send, run, problem),
        (Tab::HeatMap, Some(problem)) => {
            let name = file_name(run, &["heat-map", problem.dtype.label()]);
            chart::chart(send, app.options().shapes(run, problem.dtype), &name)
        }
        (Tab::Roofline, Some(problem)) => {
            let name = file_name(run, &["roofline", &problem.short]);
            chart::chart(send, app.options().roofline(run, problem), &name)
        }
        (Tab::Loss, Some(problem)) => loss(app, send, run, problem),
        (Tab::Breakdown, Some(problem)) => breakdown(app, run, send, problem),
        (Tab::Xray, Some(problem)) => xray(app, send, run, problem),
        (Tab::Profile, Some(problem)) => profile(app, send, run, problem),
        (Tab::Table, Some(problem)) => html! {
            <>
                { sheet::sheet(app, send, "rungs", &sheets::rungs(run, problem), run) }
                { sheet::sheet(app, send, "kernels", &sheets::kernels(run, problem), run) }
            </>
        },
    }
}

/// Returns the name of a file saved from a record.
fn file_name(run: &Run, what: &[&str]) -> String {
    format::slug(&[&[run.experiment.as_str(), &run.environment.device.name], what].concat())
}

/// Shows the ladder: one quantity for each rung.
fn ladder(app: &App, send: &Send, run: &Run, problem: &Problem) -> Html {
    let quantity = quantity(run, problem, app.link.quantity);
    let drawn = app.options().ladder(run, problem, quantity);
    let name = file_name(run, &["ladder", quantity_id(quantity), &problem.short]);
    let all = run.ladder(problem).len();
    html! {
        <>
            { chart::chart(send, drawn, &name) }
            if all > charts::STORY && quantity != Quantity::PeakMemory && !app.sheets.is_unfolded("ladder") {
                <button type="button" class="small" id="unfold-ladder" onclick={press(send, Msg::Sheet(SheetMsg::Unfold("ladder")))}>
                    { format!("Show all {all} rungs") }
                </button>
            }
        </>
    }
}

/// Shows the sweep: one quantity over sizes.
fn sweep(app: &App, send: &Send, run: &Run, problem: &Problem) -> Html {
    let drawn = Tab::Sweep.drawn_at(run, problem);
    let quantity = quantity(run, drawn, app.link.quantity);
    let line = drawn.sweep.as_ref().map_or("", |s| &s.line);
    let name = file_name(run, &["sweep", quantity_id(quantity), line]);
    html! {
        <>
            { chart::chart(send, app.options().sweep_of(&[run], quantity, Some(drawn), None), &name) }
            { picks(app, send, run, drawn) }
        </>
    }
}

/// A sweep with more rungs than this highlights only some lines.
const MANY: usize = 8;

/// Shows check boxes that highlight the lines of rungs in a sweep of many rungs.
fn picks(app: &App, send: &Send, run: &Run, of: &Problem) -> Html {
    let drawn = |id: &str| run.measurements.iter().any(|m| m.rung == id && m.problem.same_line(of));
    let rungs: Vec<_> = run.rungs.iter().filter(|r| drawn(&r.id)).collect();
    if rungs.len() <= MANY {
        return Html::default();
    }
    html! {
        <details open={!app.link.picked.is_empty()}>
            <summary>{ "Highlighted lines, in addition to the fastest and the references" }</summary>
            <div class="picks">
                { for rungs.into_iter().map(|r| {
                    let id = r.id.to_string();
                    let on = app.link.picked.contains(&id);
                    let changed = send.reform(move |e: Event| {
                        let on = e.target_unchecked_into::<HtmlInputElement>().checked();
                        Msg::Chart(ChartMsg::Pick(id.clone(), on))
                    });
                    html! {
                        <label key={r.id.to_string()} class="tick">
                            <input type="checkbox" value={r.id.to_string()} checked={on} onchange={changed} />{ &r.title }
                        </label>
                    }
                }) }
            </div>
        </details>
    }
}

/// Shows the losses and other logs of trainings.
fn loss(app: &App, send: &Send, run: &Run, problem: &Problem) -> Html {
    // The ladder's problem may have no logged losses.
    let has = |p: &Problem| run.train_logs.iter().any(|l| l.problem == *p);
    let problem = if has(problem) { problem } else { run.train_logs.first().map_or(problem, |l| &l.problem) };
    html! {
        <>
            { for training_charts(&app.options(), run, problem).into_iter().map(|(what, drawn)| {
                let name = file_name(run, &[what]);
                html! { <div key={name.clone()}>{ chart::chart(send, drawn, &name) }</div> }
            }) }
            { sheet::sheet(app, send, "trainings", &sheets::trainings(run, problem), run) }
        </>
    }
}

/// Shows every SM's activity in a run of a rung, with a chooser if several rungs have X-rays.
fn xray(app: &App, send: &Send, run: &Run, problem: &Problem) -> Html {
    let all: Vec<&Xray> = run.xrays.iter().filter(|x| x.problem == *problem).collect();
    let Some(shown) = all.iter().find(|x| app.link.rung.as_ref() == Some(&x.rung)).or(all.first()) else {
        return html! { <p class="empty">{ "The record has no X-ray." }</p> };
    };
    let ids: Vec<&str> = all.iter().map(|x| &*x.rung).collect();
    let name = file_name(run, &["xray", &shown.rung, &problem.short]);
    html! {
        <>
            if all.len() > 1 { { rung_choice(send, run, "xrayed", &ids, Some(&shown.rung)) } }
            { chart::chart(send, app.options().xray_of(run, shown), &name) }
        </>
    }
}

/// Shows a rung's kernels below the roofs, device memory, clocks and power over time, and hardware counters.
fn profile(app: &App, send: &Send, run: &Run, problem: &Problem) -> Html {
    let profiles: Vec<&Profiled> = run.profiled.iter().filter(|p| p.problem == *problem).collect();
    let mut drawn: Vec<(String, _)> = Vec::new();
    // One rung is shown at a time, since the kernels of several rungs share names.
    let rungs = charts::kernel_rungs(run, problem);
    let us = |id: &&str| run.measurement(id, problem).and_then(|m| m.median_us()).unwrap_or(f64::INFINITY);
    let asked = rungs.iter().find(|id| app.link.rung.as_deref() == Some(**id));
    let shown = asked.or_else(|| rungs.iter().min_by(|a, b| us(a).total_cmp(&us(b)))).copied();
    let kernels = shown.and_then(|id| app.options().kernel_roofline(run, problem, Some(id)).ok());
    let kernels = kernels.map(|c| (file_name(run, &["kernels", shown.unwrap_or_default(), &problem.short]), c));
    for p in &profiles {
        let until = run.spans_of(&p.rung, problem).iter().map(|s| s.start_us + s.duration_us).fold(0.0, f64::max);
        let head = [run.rung(&p.rung).map_or(p.rung.as_str(), |r| &*r.title), problem.label.as_str()];
        drawn.extend(app.options().memory(p, until, head).ok().map(|c| (format!("memory-{}", p.rung), c)));
    }
    drawn.extend(app.options().clocks(run, problem).ok().map(|c| ("clocks".to_owned(), c)));
    drawn.extend(app.options().power(run, problem).ok().map(|c| ("power".to_owned(), c)));
    let settled = charts::power_in_words(run, problem);
    let counted = sheets::counters(run, problem);
    let sources: Vec<&str> = profiles.iter().filter(|p| !p.counters.is_empty()).map(|p| p.source.as_str()).collect();
    html! {
        <>
            if rungs.len() > 1 { { rung_choice(send, run, "profiled", &rungs, shown) } }
            { for kernels.iter().map(|(name, drawn)| html! { <div key={name.clone()}>{ chart::chart(send, Ok(drawn.clone()), name) }</div> }) }
            if kernels.is_none() && drawn.is_empty() && counted.rows.is_empty() {
                <p class="empty">{ "Memory, clocks and counters were not recorded for this problem." }</p>
            }
            { for drawn.into_iter().map(|(what, drawn)| {
                let name = file_name(run, &[&what, &problem.short]);
                html! { <div key={name.clone()}>{ chart::chart(send, Ok(drawn), &name) }</div> }
            }) }
            if !settled.is_empty() {
                <p class="policy">{ settled.join(" ") }</p>
            }
            { sheet::sheet(app, send, "counters", &counted, run) }
            if !sources.is_empty() {
                <p class="policy">{ charts::counted_by(sources) }</p>
            }
        </>
    }
}

/// Shows the charts of parts in the record's order; a chart draws another problem if this one has no such parts.
fn breakdown(app: &App, run: &Run, send: &Send, problem: &Problem) -> Html {
    let all = charts_of(run).into_iter().filter_map(|kind| Some((kind, breakdown_name(kind)?)));
    let present = all.filter(|(kind, _)| has_data(run, *kind));
    html! {
        <>
            { for present.map(|(kind, name)| {
                let name = file_name(run, &[&name]);
                let shown = || chart::chart(send, app.options().chart_but_timeline(run, problem, kind), &name);
                match kind {
                    ChartKind::Timeline => html! {
                        <div key={name.clone()}>{ timeline::timeline(app, send, run, problem, &name) }</div>
                    },
                    _ => html! { <div key={name.clone()}>{ shown() }</div> },
                }
            }) }
        </>
    }
}
