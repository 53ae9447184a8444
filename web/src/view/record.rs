//! One record: its heading, its tabs, and what each shows.

use super::{HEADING, Send, chart, facts, rung, sheet, timeline};
use crate::app::{App, Msg};
use crate::browser;
use crate::facts::notices;
use crate::format;
use crate::library::Entry;
use crate::link::{
    Choice, Tab, breakdown_name, charts_of, has_data, profiled, quantities, quantity, quantity_id, training_charts,
};
use crate::problems::{self, Group};
use crate::sheet as sheets;
use warpbook_charts as charts;
use warpbook_record::{ChartKind, Problem, Profiled, Quantity, Run, Xray};
use web_sys::{HtmlInputElement, HtmlSelectElement, KeyboardEvent, MouseEvent};
use yew::{Callback, Event, Html, TargetCast, html};

/// The record, at the tab that the link names or at its first.
pub fn record(app: &App, send: &Send, entry: &Entry, run: &Run) -> Html {
    let tabs = Tab::of(run);
    let tab = app.link.tab.filter(|t| tabs.contains(t)).or(tabs.first().copied()).unwrap_or(Tab::Ladder);
    let problem = app.link.problem_of(run);
    let shown = problem.map(|p| tab.problem_at(run, p));
    let panel = match (tab, shown) {
        (Tab::Environment | Tab::Compare, _) => facts::environment(run),
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
    };
    let choice = shown.map(|p| match tab {
        Tab::Sweep => line_choice(send, run, p),
        Tab::HeatMap => dtype_choice(send, run, p),
        _ if tab.has_problem() => problem_choice(send, run, p, tab),
        _ => html! {},
    });
    // What is drawn over sizes need not be what the rest of the page shows.
    let of = shown.filter(|_| tab.has_quantity()).map(|p| drawn_of(run, p, tab));
    html! {
        <>
            { heading(send, entry, run, (problem, tab)) }
            { tab_list(send, &tabs, tab) }
            <div role="tabpanel" id="panel" tabindex="0" aria-labelledby={format!("tab-{}", tab.id())}>
                if tab.has_problem() || tab.has_quantity() || tab == Tab::HeatMap {
                    <div class="toolbar">
                        { for of.map(|p| quantity_choice(send, run, p, quantity(run, p, app.link.quantity))) }
                        { for choice }
                    </div>
                }
                { panel }
            </div>
        </>
    }
}

fn heading(send: &Send, entry: &Entry, run: &Run, (problem, tab): (Option<&Problem>, Tab)) -> Html {
    let (measured, skipped, failed) = run.counts();
    let counts: Vec<String> = [(measured, "measured"), (skipped, "skipped"), (failed, "failed")]
        .into_iter()
        .filter(|(n, _)| *n > 0)
        .map(|(n, what)| format!("{n} {what}"))
        .collect();
    let title = if entry.title.is_empty() { &entry.name } else { &entry.title };
    let others = [
        (run.train_logs.len(), "training"),
        (run.xrays.len(), "X-ray"),
        (run.profiled.len().max(run.breakdowns.len()), "profile"),
    ];
    let made = match (run.measurements.len(), others.iter().find(|(n, _)| *n > 0)) {
        (0, Some((n, what))) => format::counted(*n, what),
        (0, None) => "No measurement".into(),
        (n, _) => format!("{} ({})", format::counted(n, "measurement"), counts.join(", ")),
    };
    let facts = [
        run.environment.device.name.clone(),
        crate::facts::author(run).map_or_else(String::new, |author| format!("Run by {author}")),
        format::date(&run.created),
        made,
    ];
    let notices = notices(run);
    // A rung's panel says its own figures.
    let is_rung = tab == Tab::Source;
    let headline = problem.filter(|_| !is_rung).and_then(|p| charts::headline(run, p));
    html! {
        <header class="heading">
            <h1 id={HEADING} tabindex="-1">{ title }</h1>
            <p class="subtitle">
                { for facts.iter().filter(|f| !f.is_empty()).map(|f| html! { <span>{ f }</span> }) }
            </p>
            { for headline.map(|h| tiles(&h)) }
            { for problem.filter(|_| !is_rung).map(|p| rung::winners(send, run, p)) }
            if !notices.is_empty() {
                <ul class="notices" aria-label="To know before reading the figures">
                    { for notices.iter().map(|n| html! { <li>{ n }</li> }) }
                </ul>
            }
            <details class="how" hidden={is_rung}>
                <summary>{ "How it was measured, and how to repeat it" }</summary>
                <p class="policy">{ format::policy(run) }</p>
                if !run.notes.is_empty() {
                    <ul class="notes">{ for run.notes.iter().map(|n| html! { <li>{ n }</li> }) }</ul>
                }
                if !run.command.is_empty() {
                    <div class="command">
                        <code tabindex="0" aria-label="The command that repeats this run">{ &run.command }</code>
                        { copy(send, "the command", &run.command, "Copy the command") }
                    </div>
                }
            </details>
        </header>
    }
}

/// What the record says first: a sentence for those who hear the page, and its figures for those who see it.
fn tiles(headline: &charts::Headline) -> Html {
    html! {
        <section class="headline" aria-label="In short">
            <p class="visually-hidden">{ &headline.sentence }</p>
            <dl class="tiles" aria-hidden="true">
                { for headline.tiles.iter().map(|t| html! {
                    <div key={t.label.clone()}>
                        <dt>{ &t.label }</dt>
                        <dd><strong>{ &t.value }</strong><span class="detail">{ &t.detail }</span></dd>
                    </div>
                }) }
            </dl>
        </section>
    }
}

/// A button that puts a text onto the clipboard.
pub fn copy(send: &Send, what: &'static str, text: &str, label: &'static str) -> Html {
    let text = text.to_owned();
    let press = send.reform(move |_: MouseEvent| Msg::Copy(what, text.clone()));
    html! { <button type="button" class="small" aria-label={label} onclick={press}>{ "Copy" }</button> }
}

/// Tabs after the ARIA pattern: one stop for the Tab key, arrows among them.
fn tab_list(send: &Send, tabs: &[Tab], shown: Tab) -> Html {
    let keys = {
        let (send, tabs) = (send.clone(), tabs.to_vec());
        Callback::from(move |e: KeyboardEvent| {
            let at = tabs.iter().position(|t| *t == shown).unwrap_or(0);
            let to = match e.key().as_str() {
                "ArrowRight" => (at + 1) % tabs.len(),
                "ArrowLeft" => (at + tabs.len() - 1) % tabs.len(),
                "Home" => 0,
                "End" => tabs.len() - 1,
                _ => return,
            };
            if e.ctrl_key() || e.alt_key() || e.meta_key() {
                return;
            }
            e.prevent_default();
            browser::focus(&format!("tab-{}", tabs[to].id()));
            send.emit(Msg::Show(tabs[to]));
        })
    };
    html! {
        <div class="tabs" role="tablist" aria-label="Parts of the record" onkeydown={keys}>
            { for tabs.iter().map(|tab| {
                let tab = *tab;
                let on = tab == shown;
                html! {
                    <button key={tab.id()} type="button" role="tab" id={format!("tab-{}", tab.id())} aria-controls="panel"
                        aria-selected={on.to_string()} tabindex={if on { "0" } else { "-1" }}
                        onclick={send.reform(move |_: MouseEvent| Msg::Show(tab))}>{ tab.label() }</button>
                }
            }) }
        </div>
    }
}

/// What ladder and sweep draw.
fn quantity_choice(send: &Send, run: &Run, problem: &Problem, now: Quantity) -> Html {
    html! {
        <fieldset class="segments">
            <legend class="visually-hidden">{ "Quantity" }</legend>
            { for quantities(run, problem).into_iter().map(|q| html! {
                <label key={quantity_id(q)}>
                    <input type="radio" name="quantity" value={quantity_id(q)} checked={q == now}
                        onchange={send.reform(move |_: Event| Msg::Quantity(q))} />
                    <span>{ format::sentence_case(&charts::quantity_name(run, q)) }</span>
                </label>
            }) }
        </fieldset>
    }
}

/// Problems to choose from, in their groups where there are several; a press shows the one of the option's id.
pub fn chooser(send: &Send, what: &'static str, groups: &[Group<'_>], now: &Problem) -> Html {
    let option = |p: &Problem| html! { <option value={p.id.clone()} selected={*p == *now}>{ &p.label }</option> };
    html! {
        <label class="size">
            { what }
            <select id="problem" onchange={on_choice(send)}>
                if let [group] = groups {
                    { for group.problems.iter().map(|p| option(p)) }
                } else {
                    { for groups.iter().map(|g| html! {
                        <optgroup label={g.label.clone()}>{ for g.problems.iter().map(|p| option(p)) }</optgroup>
                    }) }
                }
            </select>
        </label>
    }
}

/// Shows the problem whose id is chosen.
fn on_choice(send: &Send) -> Callback<Event> {
    send.reform(|e: Event| Msg::Problem(Choice::Id(e.target_unchecked_into::<HtmlSelectElement>().value())))
}

pub fn problem_choice(send: &Send, run: &Run, now: &Problem, tab: Tab) -> Html {
    let mut all: Vec<&Problem> = run.every_problem();
    all.retain(|p| {
        *p == now
            || match tab {
                Tab::Breakdown => {
                    let taken_apart = run.breakdowns.iter().map(|b| &b.problem);
                    let over_time = run.spans.iter().map(|s| &s.problem);
                    run.parts.iter().map(|part| &part.problem).chain(taken_apart).chain(over_time).any(|of| of == *p)
                }
                Tab::Xray => run.xrays.iter().any(|x| x.problem == **p),
                Tab::Profile => profiled(run).contains(p),
                Tab::Loss => run.train_logs.iter().any(|l| l.problem == **p),
                Tab::Roofline => run.measurements.iter().any(|m| m.problem == **p && !m.traffic.is_empty()),
                _ => run.measurements.iter().any(|m| m.problem == **p),
            }
    });
    match all.as_slice() {
        [] | [_] => html! { <p class="size">{ &now.label }</p> },
        _ if problems::apart(&all).is_some() => choosers(send, &all, now),
        _ => chooser(send, "Problem", &problems::grouped(all), now),
    }
}

/// Choosers of type, shape and layout, where these can be chosen apart.
fn choosers(send: &Send, all: &[&Problem], now: &Problem) -> Html {
    let Some(values) = problems::apart(all) else { return Html::default() };
    let of_now = problems::facets(now);
    let select = |facet: usize, what: &'static str, id: &'static str| {
        let options = values[facet].iter().filter_map(|v| Some((v, problems::with_facet(all, now, facet, v)?)));
        html! {
            <label class="size">
                { what }
                <select id={id} onchange={on_choice(send)}>
                    { for options.map(|(value, p)| html! {
                        <option value={p.id.clone()} selected={*value == of_now[facet]}>
                            { if value.is_empty() { "as stored" } else { value } }
                        </option>
                    }) }
                </select>
            </label>
        }
    };
    html! {
        <>
            if values[0].len() > 1 { { select(0, "Type", "dtype") } }
            { select(1, "Shape", "problem") }
            if values[2].len() > 1 { { select(2, "Layout", "layout") } }
        </>
    }
}

/// A chooser of lines or types: each option has a name and the problem that is shown for it.
fn stand_ins(send: &Send, what: &'static str, options: &[(String, &Problem)], now: &str) -> Html {
    match options {
        [] => html! {},
        [(only, _)] => html! { <p class="size">{ only }</p> },
        _ => html! {
            <label class="size">
                { what }
                <select id="problem" onchange={on_choice(send)}>
                    { for options.iter().map(|(label, p)| html! {
                        <option value={p.id.clone()} selected={label == now}>{ label }</option>
                    }) }
                </select>
            </label>
        },
    }
}

/// The lines of a sweep.
fn line_choice(send: &Send, run: &Run, now: &Problem) -> Html {
    let on = drawn_of(run, now, Tab::Sweep);
    let lines = problems::lines(run);
    let of_now = lines.iter().find(|l| l.problems.contains(&on)).map_or("", |l| &l.label);
    let options: Vec<_> =
        lines.iter().filter_map(|l| Some((l.label.clone(), problems::like(&l.problems, on)?))).collect();
    stand_ins(send, "Line", &options, of_now)
}

/// The types that there is a heat map of.
fn dtype_choice(send: &Send, run: &Run, now: &Problem) -> Html {
    let dtypes = problems::dtypes_with_library(run);
    let options: Vec<_> =
        dtypes.iter().filter_map(|(d, all)| Some((d.label().to_owned(), problems::like(all, now)?))).collect();
    stand_ins(send, "Type", &options, now.dtype.label())
}

/// The problem that a chart is drawn of, where that of the page is none that the chart could show.
fn drawn_of<'a>(run: &'a Run, problem: &'a Problem, tab: Tab) -> &'a Problem {
    if tab == Tab::Sweep { problems::on_a_line(run, problem).unwrap_or(problem) } else { problem }
}

/// Of what is saved of a record.
fn file_name(run: &Run, what: &[&str]) -> String {
    format::slug(&[&[run.experiment.as_str(), &run.environment.device.name], what].concat())
}

fn ladder(app: &App, send: &Send, run: &Run, problem: &Problem) -> Html {
    let quantity = quantity(run, problem, app.link.quantity);
    let drawn = app.options().ladder(run, problem, quantity);
    let name = file_name(run, &["ladder", quantity_id(quantity), &problem.short]);
    chart::chart(send, drawn, &name)
}

fn sweep(app: &App, send: &Send, run: &Run, problem: &Problem) -> Html {
    let of = drawn_of(run, problem, Tab::Sweep);
    let quantity = quantity(run, of, app.link.quantity);
    let line = of.sweep.as_ref().map_or("", |s| &s.line);
    let name = file_name(run, &["sweep", quantity_id(quantity), line]);
    html! {
        <>
            { chart::chart(send, app.options().sweep_of(&[run], quantity, Some(of), None), &name) }
            { picks(app, send, run, of) }
        </>
    }
}

/// Of how many rungs a sweep lets only some stand out.
const MANY: usize = 8;

/// Boxes that let the lines of rungs stand out of a sweep of many.
fn picks(app: &App, send: &Send, run: &Run, of: &Problem) -> Html {
    let drawn = |id: &str| run.measurements.iter().any(|m| m.rung == id && m.problem.same_line(of));
    let rungs: Vec<_> = run.rungs.iter().filter(|r| drawn(&r.id)).collect();
    if rungs.len() <= MANY {
        return Html::default();
    }
    html! {
        <details open={!app.link.picked.is_empty()}>
            <summary>{ "Lines that stand out, next to the fastest and what they are held against" }</summary>
            <div class="picks">
                { for rungs.into_iter().map(|r| {
                    let id = r.id.to_string();
                    let on = app.link.picked.contains(&id);
                    let changed = send.reform(move |e: Event| {
                        let on = e.target_unchecked_into::<HtmlInputElement>().checked();
                        Msg::Pick(id.clone(), on)
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

fn loss(app: &App, send: &Send, run: &Run, problem: &Problem) -> Html {
    // The ladder's problem may be one that no loss was kept of.
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

/// What every SM did in a run of a rung, which can be chosen where several were X-rayed.
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
            { chart::chart(send, app.options().xray(run, shown), &name) }
        </>
    }
}

/// A chooser of rungs, by their ids.
fn rung_choice(send: &Send, run: &Run, id: &'static str, all: &[&str], shown: Option<&str>) -> Html {
    let title = |id: &str| run.rung(id).map_or_else(|| id.to_owned(), |r| r.title.to_string());
    let chosen = send.reform(|e: Event| Msg::Rung(e.target_unchecked_into::<HtmlSelectElement>().value()));
    html! {
        <label class="size">
            { "Rung" }
            <select {id} onchange={chosen}>
                { for all.iter().map(|id| html! {
                    <option value={(*id).to_owned()} selected={shown == Some(*id)}>{ title(id) }</option>
                }) }
            </select>
        </label>
    }
}

/// The kernels of a rung below the roofs, device memory, clocks and power over time, and hardware counters.
fn profile(app: &App, send: &Send, run: &Run, problem: &Problem) -> Html {
    let of: Vec<&Profiled> = run.profiled.iter().filter(|p| p.problem == *problem).collect();
    let mut drawn: Vec<(String, _)> = Vec::new();
    // One rung at a time: the kernels of several have the same names.
    let rungs = charts::kernel_rungs(run, problem);
    let us = |id: &&str| run.measurement(id, problem).and_then(|m| m.median_us()).unwrap_or(f64::INFINITY);
    let asked = rungs.iter().find(|id| app.link.rung.as_deref() == Some(**id));
    let shown = asked.or_else(|| rungs.iter().min_by(|a, b| us(a).total_cmp(&us(b)))).copied();
    let kernels = shown.and_then(|id| app.options().kernel_roofline(run, problem, Some(id)).ok());
    let kernels = kernels.map(|c| (file_name(run, &["kernels", shown.unwrap_or_default(), &problem.short]), c));
    for p in &of {
        let until = run.spans_of(&p.rung, problem).iter().map(|s| s.start_us + s.duration_us).fold(0.0, f64::max);
        let rung = run.rung(&p.rung).map_or(p.rung.as_str(), |r| &r.title);
        let head = [&format!("{rung}: device memory over time"), problem.label.as_str()];
        drawn.extend(app.options().memory(p, until, head).ok().map(|c| (format!("memory-{}", p.rung), c)));
    }
    drawn.extend(app.options().clocks(run, problem).ok().map(|c| ("clocks".to_owned(), c)));
    drawn.extend(app.options().power(run, problem).ok().map(|c| ("power".to_owned(), c)));
    let settled = charts::power_in_words(run, problem);
    let counted = sheets::counters(run, problem);
    let sources: Vec<&str> = of.iter().filter(|p| !p.counters.is_empty()).map(|p| p.source.as_str()).collect();
    html! {
        <>
            if rungs.len() > 1 { { rung_choice(send, run, "profiled", &rungs, shown) } }
            { for kernels.iter().map(|(name, drawn)| html! { <div key={name.clone()}>{ chart::chart(send, Ok(drawn.clone()), name) }</div> }) }
            if kernels.is_none() && drawn.is_empty() && counted.rows.is_empty() {
                <p class="empty">{ "Of this problem neither memory, clocks nor counters were recorded." }</p>
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

/// The charts of parts, in the record's order; each of another problem where this one has no such parts.
fn breakdown(app: &App, run: &Run, send: &Send, problem: &Problem) -> Html {
    let all = charts_of(run).into_iter().filter_map(|kind| Some((kind, breakdown_name(kind)?)));
    let present = all.filter(|(kind, _)| has_data(run, *kind));
    html! {
        <>
            { for present.map(|(kind, name)| {
                let name = file_name(run, &[&name]);
                let shown = || chart::chart(send, app.options().chart(run, problem, kind), &name);
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
