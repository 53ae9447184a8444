//! One record: heading, tabs and their contents.

mod panels;

use super::choosers::{dtype_choice, line_choice, problem_choice, quantity_choice};
use super::controls::{Send, copy, heading as view_heading, press};
use super::rung;
use crate::app::{App, Msg, ViewMsg};
use crate::browser;
use crate::library::Entry;
use crate::record::quantities::quantity;
use crate::record::{Summary, Tab, facts};
use warpbook_charts as charts;
use warpbook_record::{Problem, Run};
use web_sys::KeyboardEvent;
use yew::{Callback, Html, html};

/// Shows the record at the tab that the link names, or else at the first tab.
pub fn record(app: &App, send: &Send, entry: &Entry, run: &Run) -> Html {
    let tabs = Tab::for_record(run);
    let tab = app.link.tab.filter(|t| tabs.contains(t)).or(tabs.first().copied()).unwrap_or(Tab::Ladder);
    let problem = app.link.problem_of(run);
    let shown = problem.map(|p| tab.problem_at(run, p));
    let choice = shown.map(|p| match tab {
        Tab::Sweep => line_choice(send, run, p),
        Tab::HeatMap => dtype_choice(send, run, p),
        _ if tab.has_problem() => problem_choice(send, run, p, tab),
        _ => html! {},
    });
    // A chart over sizes may draw a different problem from the page's.
    let drawn = shown.filter(|_| tab.has_quantity()).map(|p| tab.drawn_at(run, p));
    html! {
        <>
            { heading(app, send, entry, run, (problem, tab)) }
            { tab_list(send, &tabs, tab) }
            <div role="tabpanel" id="panel" tabindex="0" aria-labelledby={format!("tab-{}", tab.id())}>
                if tab.has_problem() || tab.has_quantity() || tab == Tab::HeatMap {
                    <div class="toolbar">
                        { for drawn.map(|p| quantity_choice(send, run, p, quantity(run, p, app.link.quantity))) }
                        { for choice }
                    </div>
                }
                { panels::panel(app, send, run, (tab, problem, shown)) }
            </div>
            { below(send, run, problem, tab) }
        </>
    }
}

/// Shows the heading: what is computed, the problem and the device; then the result as a sentence and in figures.
fn heading(app: &App, send: &Send, entry: &Entry, run: &Run, (problem, tab): (Option<&Problem>, Tab)) -> Html {
    let title = if entry.title.is_empty() { &entry.name } else { &entry.title };
    let facts = facts(run, problem, app.library.computes(entry));
    // A rung's panel has its own figures.
    let is_rung = tab == Tab::Source;
    let headline = problem.filter(|_| !is_rung).and_then(|p| charts::headline(run, p));
    html! {
        <header class="heading">
            { view_heading(title) }
            <p class="subtitle">
                { for facts.iter().map(|f| html! { <span>{ f }</span> }) }
            </p>
            { for headline.zip(problem).map(|(h, p)| tiles(&h, rung::winners(send, run, p, &h.rung))) }
        </header>
    }
}

/// Shows the part below the charts: notices, and how the figures were measured.
fn below(send: &Send, run: &Run, problem: Option<&Problem>, tab: Tab) -> Html {
    let more = problem.and_then(|p| charts::headline(run, p)).map_or_else(String::new, |h| h.more);
    let Summary { made, notices, policy } = Summary::from_run(run);
    html! {
        <div class="below">
            <p>{ more }</p>
            if !notices.is_empty() {
                <p class="notices">{ notices.join(" ") }</p>
            }
            <details class="how" hidden={tab == Tab::Source}>
                <summary>{ "How it was measured, and how to repeat it" }</summary>
                <p class="policy">{ format!("{made}. {policy}") }</p>
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
        </div>
    }
}

/// Shows the result as a sentence with buttons for its code, and as figures for sighted readers.
fn tiles(headline: &charts::Headline, winners: Html) -> Html {
    html! {
        <section class="headline" aria-label="In short">
            <p>{ &headline.sentence }</p>
            { winners }
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

/// Shows the tabs in ARIA's tab pattern: one Tab stop, with arrow keys between the tabs.
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
            send.emit(Msg::View(ViewMsg::Tab(tabs[to])));
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
                        onclick={press(send, Msg::View(ViewMsg::Tab(tab)))}>{ tab.label() }</button>
                }
            }) }
        </div>
    }
}
