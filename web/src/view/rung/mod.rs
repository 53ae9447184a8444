//! The panel of a rung: figures, source, and changes against the rung before.

mod changed;
mod figures;
mod roof;
mod source;
mod swipe;

use super::choosers::problem_choice;
use super::controls::{Send, option, option_group, press, select};
use crate::app::{App, Msg, OpenedFrom, RUNG_HEADING as HEADING, RungMsg};
use crate::record::Tab;
use crate::record::rungs::{framework, neighbour, shown, title};
use swipe::swipe;
use warpbook_charts::{gain_caption, rung_before};
use warpbook_record::{Problem, Run, Rung};
use yew::{Event, Html, html};

/// Shows the panel of the rung that the link names, or else of the problem's fastest kernel rung.
pub fn panel(app: &App, send: &Send, run: &Run, problem: Option<&Problem>) -> Html {
    let Some(rung) = shown(run, problem, app.link.rung.as_deref()) else {
        return html! { <p class="empty">{ "The record has no rungs." }</p> };
    };
    let before = problem.and_then(|p| rung_before(run, p, &rung.id));
    let to = |by: isize| neighbour(run, problem, &rung.id, by).is_some();
    let on_step = send.reform(|by: isize| Msg::Rung(RungMsg::Step(by)));
    let content = html! {
            <section class="rung-panel" aria-labelledby={HEADING}>
                <div class="toolbar">
                    <div class="stepper">
                    { step(send, "Previous rung", "[", -1, to(-1)) }
                    { chooser(send, run, rung) }
                    { step(send, "Next rung", "]", 1, to(1)) }
                    </div>
                    { for problem.map(|p| problem_choice(send, run, p, Tab::Source)) }
                    <button type="button" class="unprinted" aria-keyshortcuts="Escape"
                        onclick={press(send, Msg::Rung(RungMsg::Leave))}>
                        { "Back " }<kbd aria-hidden="true">{ "Esc" }</kbd>
                    </button>
                </div>
                <div>
                    <h2 id={HEADING} tabindex="-1">{ title(rung) }<code class="detail">{ rung.id.as_ref() }</code></h2>
                    { for problem.map(|p| html! { <p class="printed">{ &p.label }</p> }) }
                    { for problem.map(|p| html! {
                        <p class="brought" role="status" aria-live="polite">{ gain_caption(run, p, &rung.id) }</p>
                    }) }
                    <p class="idea">{ rung.idea.as_ref() }</p>
                </div>
                <div class="sides">
                    <div class="figures">
                        { for problem.map(|p| figures::figures(run, p, rung)) }
                        { for problem.map(|p| roof::roof(run, p, rung, before)) }
                    </div>
                    <div class="texts">
                        { toggle(send, app.link.whole) }
                        if app.link.whole {
                            { source::files(send, run, rung) }
                        } else {
                            { changed::changed(send, run, (problem, rung, before)) }
                        }
                        { source::about(run, rung) }
                    </div>
                </div>
            </section>
    };
    swipe(&app.swipe, on_step, content)
}

/// Shows buttons that open the panels of the headline's rung and of the fastest kernel rung.
pub fn winners(send: &Send, run: &Run, problem: &Problem, first: &str) -> Html {
    let kernels = run.fastest_kernels(problem).map(|(m, _)| m.rung.as_str());
    let mut rungs: Vec<&Rung> = std::iter::once(first).chain(kernels).filter_map(|id| run.rung(id)).collect();
    rungs.dedup_by_key(|r| &r.id);
    html! {
        <div class="row winners unprinted">
            { for rungs.into_iter().enumerate().map(|(i, rung)| {
                let id = format!("open-winner-{i}");
                let open = RungMsg::Open(rung.id.to_string(), String::new(), OpenedFrom::Id(id.clone()));
                let press = press(send, Msg::Rung(open));
                let what = if rung.kernels().is_empty() { "Figures" } else { "Code & changes" };
                let what = if i == 0 { what.to_owned() } else { format!("{what}: {}", title(rung)) };
                html! { <button type="button" class="link" {id} onclick={press}>{ what }</button> }
            }) }
        </div>
    }
}

/// Shows a step button. At the ladder's ends it is disabled, not removed, so that it keeps the focus.
fn step(send: &Send, label: &'static str, key: &'static str, by: isize, can: bool) -> Html {
    let arrow = if by < 0 { "←" } else { "→" };
    html! {
        <button type="button" class="step unprinted" aria-label={label} title={format!("{label} ({key})")} aria-keyshortcuts={key}
            aria-disabled={(!can).to_string()} onclick={press(send, Msg::Rung(RungMsg::Step(by)))}>
            <span aria-hidden="true">{ arrow }</span>{ " " }<kbd aria-hidden="true">{ key }</kbd>
        </button>
    }
}

/// Shows a chooser of all rungs, grouped by what runs them.
fn chooser(send: &Send, run: &Run, rung: &Rung) -> Html {
    let options = |label, of: fn(&Rung) -> bool| {
        let rungs = run.rungs.iter().filter(move |r| of(r));
        option_group(label, rungs.map(|r| option(&r.id, &format!("{} ({})", r.title, r.id), r.id == rung.id)))
    };
    let all = [
        options("Kernels", |r| !r.kernels().is_empty()),
        options("CPU and libraries", |r| r.kernels().is_empty() && framework(r).is_none()),
        options("Other frameworks", |r| framework(r).is_some()),
    ];
    select("Rung", Some("rung"), send.reform(|id: String| Msg::Rung(RungMsg::Show(id))), all.into_iter().collect())
}

/// Shows a switch between the whole source and the changes.
fn toggle(send: &Send, whole: bool) -> Html {
    let choice = |label: &'static str, value: &'static str, this: bool| {
        let press = send.reform(move |_: Event| Msg::Rung(RungMsg::Whole(this)));
        html! {
            <label>
                <input type="radio" name="code" {value} checked={this == whole} onchange={press} />
                <span>{ label }</span>
            </label>
        }
    };
    html! {
        <fieldset class="segments unprinted">
            <legend class="visually-hidden">{ "Code" }</legend>
            { choice("What changed", "changed", false) }
            { choice("Source", "source", true) }
        </fieldset>
    }
}
