//! One record: its heading, its tabs, and what each shows.

use super::{Send, chart, compare, facts, sheet, source};
use crate::app::{App, Msg};
use crate::browser;
use crate::facts::notices;
use crate::format;
use crate::library::Entry;
use crate::link::{Quantity, Size, Tab};
use crate::sheet as sheets;
use warpbook_charts as charts;
use warpbook_record::{Dtype, Problem, Run, SpanGroup};
use web_sys::{HtmlSelectElement, KeyboardEvent, MouseEvent};
use yew::{Callback, Event, Html, TargetCast, html};

/// The record, at the tab that the link names or at its first.
pub fn record(app: &App, send: &Send, entry: &Entry, run: &Run) -> Html {
    let mut tabs = Tab::of(run);
    // With nothing to compare with, the tab would be a dead end.
    if app.library.entries.len() < 2 && app.link.tab != Some(Tab::Compare) {
        tabs.retain(|t| *t != Tab::Compare);
    }
    let tab = app.link.tab.filter(|t| tabs.contains(t)).unwrap_or(Tab::Ladder);
    let problem = app.link.size.and_then(|s| s.find(run)).or_else(|| run.main_problem());
    let panel = match (tab, problem) {
        (Tab::Compare, _) => compare::compare(app, send),
        (Tab::Environment, _) => facts::environment(run),
        (Tab::Source, _) => source::source(app, send, run),
        (Tab::Sweep, _) => sweep(run, send),
        (_, None) => html! { <p class="empty">{ "The record has no measurements." }</p> },
        (Tab::Ladder, Some(problem)) => ladder(app, send, run, problem),
        (Tab::Roofline, Some(problem)) => {
            let name = file_name(run, &["roofline", &problem.short_label()]);
            chart::chart(send, charts::roofline(run, problem), &name)
        }
        (Tab::Loss, Some(problem)) => loss(app, send, run, problem),
        (Tab::Operations, Some(problem)) => operations(run, send, problem),
        (Tab::Table, Some(problem)) => html! {
            <>
                { sheet::sheet(app, send, "rungs", &sheets::rungs(run, problem), run) }
                { sheet::sheet(app, send, "kernels", &sheets::kernels(run, problem), run) }
            </>
        },
    };
    let sizes = tab.has_size() && tab != Tab::Compare;
    html! {
        <>
            if tab == Tab::Compare { <h1>{ "Comparison" }</h1> } else { { heading(send, entry, run) } }
            { tab_list(send, &tabs, tab) }
            <div role="tabpanel" id="panel" tabindex="0" aria-labelledby={format!("tab-{}", tab.id())}>
                if sizes || tab == Tab::Ladder {
                    <div class="toolbar">
                        { for problem.filter(|_| tab == Tab::Ladder).map(|p| quantities(send, shown(app.link.quantity, p), p)) }
                        { for problem.filter(|_| sizes).map(|p| size_choice(send, run, p, tab)) }
                    </div>
                }
                { panel }
            </div>
        </>
    }
}

fn heading(send: &Send, entry: &Entry, run: &Run) -> Html {
    let (measured, skipped, failed) = run.counts();
    let counts: Vec<String> = [(measured, "measured"), (skipped, "skipped"), (failed, "failed")]
        .into_iter()
        .filter(|(n, _)| *n > 0)
        .map(|(n, what)| format!("{n} {what}"))
        .collect();
    let title = if entry.title.is_empty() { &entry.name } else { &entry.title };
    let facts = [
        run.environment.device.name.clone(),
        format::date(&run.created),
        format!("{} ({})", format::counted(run.measurements.len(), "measurement"), counts.join(", ")),
    ];
    let notices = notices(run);
    html! {
        <header class="heading">
            <h1>{ title }</h1>
            <p class="subtitle">
                { for facts.iter().filter(|f| !f.is_empty()).map(|f| html! { <span>{ f }</span> }) }
            </p>
            <p class="policy">{ format::policy(&run.policy) }</p>
            if !run.command.is_empty() {
                <div class="command">
                    <code tabindex="0" aria-label="The command that repeats this run">{ &run.command }</code>
                    { copy(send, "the command", &run.command, "Copy the command") }
                </div>
            }
            if !notices.is_empty() || !run.notes.is_empty() {
                <ul class="notices" aria-label="To know before reading the figures">
                    { for notices.iter().chain(&run.notes).map(|n| html! { <li>{ n }</li> }) }
                </ul>
            }
        </header>
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

/// What the ladder draws.
fn quantities(send: &Send, now: Quantity, problem: &Problem) -> Html {
    html! {
        <fieldset class="segments">
            <legend class="visually-hidden">{ "Quantity" }</legend>
            { for Quantity::of(problem).into_iter().map(|q| html! {
                <label key={q.id()}>
                    <input type="radio" name="quantity" value={q.id()} checked={q == now}
                        onchange={send.reform(move |_: Event| Msg::Quantity(q))} />
                    <span>{ q.label() }</span>
                </label>
            }) }
        </fieldset>
    }
}

/// The quantity that is asked for, or the one to begin with where it says nothing of the problem.
fn shown(asked: Option<Quantity>, problem: &Problem) -> Quantity {
    asked.filter(|q| Quantity::of(problem).contains(q)).unwrap_or_else(|| Quantity::first(problem))
}

fn size_choice(send: &Send, run: &Run, now: &Problem, tab: Tab) -> Html {
    let mut problems: Vec<&Problem> = run.problems();
    let has_spans = |p: &Problem| run.spans.iter().any(|s| s.problem == *p);
    let has_log = |p: &Problem| run.train_logs.iter().any(|l| l.problem == *p);
    let is_counted = |p: &Problem| run.measurements.iter().any(|m| m.problem == *p && !m.traffic.is_empty());
    problems.retain(|p| {
        *p == now
            || match tab {
                Tab::Operations => has_spans(p),
                Tab::Loss => has_log(p),
                Tab::Roofline => is_counted(p),
                _ => true,
            }
    });
    problems.sort_by_key(|p| (p.features(), p.size()));
    if problems.len() < 2 {
        return html! { <p class="size">{ now.label() }</p> };
    }
    let changed = send.reform(|e: Event| {
        let select: HtmlSelectElement = e.target_unchecked_into();
        Msg::Size(Size::parse(&select.value()).unwrap_or(Size { size: 0, nth: 0 }))
    });
    html! {
        <label class="size">
            { "Size" }
            <select id="size" onchange={changed}>
                { for problems.iter().map(|p| {
                    let id = Size::of(run, p).id();
                    html! { <option value={id} selected={*p == now}>{ p.label() }</option> }
                }) }
            </select>
        </label>
    }
}

/// Of what is saved of a record.
fn file_name(run: &Run, what: &[&str]) -> String {
    format::slug(&[&[run.experiment.as_str(), &run.environment.device.name], what].concat())
}

fn ladder(app: &App, send: &Send, run: &Run, problem: &Problem) -> Html {
    let quantity = shown(app.link.quantity, problem);
    let drawn = charts::ladder(run, problem, quantity.into());
    let name = file_name(run, &["ladder", quantity.id(), &problem.short_label()]);
    chart::chart(send, drawn, &name)
}

/// The type of the products that a record is about, if it is about products.
fn product(run: &Run) -> Option<Dtype> {
    run.main_problem().filter(|p| matches!(p, Problem::Matmul { .. }))?.dtype()
}

fn sweep(run: &Run, send: &Send) -> Html {
    let name = |what: &str| file_name(run, &[what]);
    html! {
        <>
            { chart::chart(send, charts::sweep(&[run]), &name("sweep")) }
            if let Some(dtype) = product(run) {
                { chart::chart(send, charts::sweep_throughput(&[run], None, None), &name("sweep-throughput")) }
                { chart::chart(send, charts::shapes(run, dtype), &name("shapes")) }
            } else {
                { chart::chart(send, charts::sweep_bandwidth(&[run]), &name("sweep-bandwidth")) }
            }
        </>
    }
}

fn loss(app: &App, send: &Send, run: &Run, problem: &Problem) -> Html {
    // The ladder's size may be one that no loss was kept of.
    let has = |p: &Problem| run.train_logs.iter().any(|l| l.problem == *p);
    let problem = if has(problem) { problem } else { run.train_logs.first().map_or(problem, |l| &l.problem) };
    let name = file_name(run, &["loss"]);
    html! {
        <>
            { chart::chart(send, charts::loss_curve(run, problem), &name) }
            { sheet::sheet(app, send, "trainings", &sheets::trainings(run, problem), run) }
        </>
    }
}

fn operations(run: &Run, send: &Send, problem: &Problem) -> Html {
    let one = |group: SpanGroup, what: &str, draw: fn(&Run, &Problem) -> Result<charts::Chart, charts::ChartError>| {
        let spans: Vec<_> = run.spans.iter().filter(|s| s.group == group).collect();
        let has = |p: &Problem| spans.iter().any(|s| s.problem == *p);
        let problem = if has(problem) { problem } else { &spans.first()?.problem };
        let name = file_name(run, &[what]);
        Some(chart::chart(send, draw(run, problem), &name))
    };
    html! {
        <>
            { for one(SpanGroup::Operation, "operations", charts::operations) }
            { for one(SpanGroup::Ablation, "ablation", charts::ablation) }
            { for one(SpanGroup::Tile, "tiles", charts::tiles) }
            { for one(SpanGroup::Transfer, "transfers", charts::transfers) }
        </>
    }
}
