//! Two to eight records compared with the first of them.

mod rows;

use super::chart;
use super::choosers::problem_chooser;
use super::controls::{Send, heading, press, scrolled, tick_box};
use crate::app::{App, CompareMsg, HEADING, Msg};
use crate::library::Entry;
use crate::record::comparison::{chosen, labels, problem_label};
use crate::record::facts::{DifferingFact, author, differences};
use crate::record::problems;
use crate::text::format::{self, NONE};
use warpbook_charts::{self as charts, Comparison, MAX_LABEL, Verdict};
use warpbook_record::{Problem, Run};
use web_sys::HtmlInputElement;
use yew::{Event, Html, TargetCast, html};

/// Shows the comparison page.
pub fn page(app: &App, send: &Send) -> Html {
    html! {
        <>
            { heading("Comparison") }
            <section id="panel" class="comparison" aria-labelledby={HEADING}>{ compare(app, send) }</section>
        </>
    }
}

/// Compares the ticked records: a verdict in a sentence, ratios in a chart and a table, and the differences between
/// environments.
fn compare(app: &App, send: &Send) -> Html {
    // The link's order decides which record is the baseline.
    let ticked = app.ticked();
    let place = |e: &Entry| app.link.ticked.iter().position(|k| *k == e.key);
    let mut ticked: Vec<(&Entry, &Run)> = ticked;
    ticked.sort_by_cached_key(|(e, _)| place(e));
    if ticked.len() < 2 {
        let text = if app.library.entries.len() < 2 {
            "Open a second record to compare this one with."
        } else {
            "Tick two or more records in the list to compare them."
        };
        return html! { <p class="empty">{ text }</p> };
    }
    let runs: Vec<&Run> = ticked.iter().map(|(_, run)| *run).collect();
    let records: Vec<(&str, &str, &Run)> = ticked.iter().map(|(e, run)| (&*e.key, &*e.name, *run)).collect();
    let labels = labels(&app.link.labels, &records);
    let legend = legend(send, &ticked, &labels);
    let body = match Comparison::from_runs(&runs) {
        Ok(all) => compared(app, send, &all.labelled(&labels), legend),
        Err(why) => html! { <>{ legend }<p class="empty">{ why.to_string() }</p></> },
    };
    let (differ, same) = differences(&runs);
    html! {
        <>
            { body }
            <section class="sheet">
                <h2>{ "Differences between the environments" }</h2>
                if differ.is_empty() {
                    <p>{ "None." }</p>
                } else {
                    { table("Differences between the environments", &differ, &labels) }
                }
                if !same.is_empty() {
                    <details>
                        <summary>{ format!("Identical settings ({})", same.len()) }</summary>
                        { table("Identical settings", &same, &labels) }
                    </details>
                }
            </section>
        </>
    }
}

/// Shows the figures for one problem, and a summary of all problems.
fn compared(app: &App, send: &Send, all: &Comparison<'_>, legend: Html) -> Html {
    let first = all.runs[0];
    let drifts = (1..all.runs.len()).any(|i| all.drift(i).is_some());
    let all = if app.link.normalised && drifts { all.clone().normalised() } else { all.clone() };
    let asked = app.link.problem.as_ref().and_then(|c| c.find(first));
    let Some(problem) = chosen(&all, asked, first.main_problem()) else {
        return html! { <>{ legend }<p class="empty">{ "The records have no problem in common." }</p></> };
    };
    let at = all.at(problem);
    let incomparable = (1..all.runs.len()).map(|i| at.counts(i).count(Verdict::NotComparable)).sum::<usize>();
    let headline = all.runs[0].descriptor.headline;
    let line = problems::on_a_line(first, problem);
    let normalise = send.reform(|on: bool| Msg::Compare(CompareMsg::Normalise(on)));
    let anyway = send.reform(|on: bool| Msg::Compare(CompareMsg::Anyway(on)));
    let sweep = app.options().sweep_labelled(&all.runs, &all.labels, headline, line).ok();
    html! {
        <>
            { sentences(&problem_label(problem), &at) }
            if all.problems.len() > 1 {
                { sentences(&format!("All {} problems", all.problems.len()), &all) }
            }
            { legend }
            <div class="toolbar">
                { problem_choice(send, &all, problem) }
                if drifts {
                    { tick_box("normalise", "Correct for the drift of unchanged rungs", app.link.normalised, normalise) }
                }
                if incomparable > 0 {
                    { tick_box("anyway", &format!("Show what is not comparable anyway ({incomparable})"), app.link.anyway, anyway) }
                }
            </div>
            { chart::chart(send, app.options().comparison(&at, app.link.anyway), "compare") }
            { rows::rows(send, &at, app.link.anyway) }
            if all.problems.len() > 1 { { rows::moved(&all) } }
            <details class="rule">
                <summary>{ "When a rung counts as faster or slower" }</summary>
                <p>{ charts::noise_rule() }</p>
                <p>{ "Drift is the median change of the libraries and other frameworks whose version is the same in both records, on the \
                      same kind of device; without any, of the kernels whose source is the same." }</p>
            </details>
            { for sweep.map(|drawn| chart::chart(send, Ok(drawn), "compare-sweep")) }
        </>
    }
}

/// Shows one verdict sentence for each record.
fn sentences(about: &str, of: &Comparison<'_>) -> Html {
    let all: Vec<String> = (1..of.runs.len()).map(|i| of.sentence(i)).collect();
    html! {
        <div class="verdict">
            <h2>{ about }</h2>
            { for all.iter().map(|s| html! { <p>{ s }</p> }) }
        </div>
    }
}

/// Shows the records with editable labels; any of them can become the baseline.
fn legend(send: &Send, ticked: &[(&Entry, &Run)], labels: &[String]) -> Html {
    let item = |(i, ((entry, run), label)): (usize, (&(&Entry, &Run), &String))| {
        let edit = {
            let key = entry.key.clone();
            send.reform(move |e: Event| {
                Msg::Compare(CompareMsg::Label(key.clone(), e.target_unchecked_into::<HtmlInputElement>().value()))
            })
        };
        let first = press(send, Msg::Compare(CompareMsg::First(entry.key.clone())));
        let by = author(run).map_or_else(String::new, |author| format!(", run by {author}"));
        let what =
            format!("{}, {}{by}, {} ({})", entry.title, entry.device, format::short_date(&entry.created), entry.name);
        html! {
            <li key={entry.key.clone()}>
                <div class="row">
                    <input type="text" class="label" value={label.clone()} maxlength={MAX_LABEL.to_string()} onchange={edit}
                        aria-label={format!("Label of record {}", i + 1)} />
                    if i > 0 {
                        <button type="button" class="small" onclick={first}
                            aria-label={format!("Use as the baseline: {label}")}>{ "Use as the baseline" }</button>
                    }
                    <span class="quiet">{ what }</span>
                </div>
            </li>
        }
    };
    html! { <ol class="compared">{ for ticked.iter().zip(labels).enumerate().map(item) }</ol> }
}

/// Shows a chooser of the problems that the records share, each with its type.
fn problem_choice(send: &Send, all: &Comparison<'_>, now: &Problem) -> Html {
    let shared: Vec<&Problem> = all.problems.iter().filter_map(|of| of[0]).collect();
    if shared.len() < 2 {
        return html! {};
    }
    problem_chooser(send, &problems::grouped(shared), now, problem_label)
}

fn table(title: &str, rows: &[DifferingFact], names: &[String]) -> Html {
    let value = |v: &Option<String>| match v {
        Some(v) => html! { <td>{ v }</td> },
        None => html! { <td class="quiet">{ NONE }</td> },
    };
    let table = html! {
        <table class="wrap">
            <thead>
                <tr>
                    <th scope="col">{ "Fact" }</th>
                    { for names.iter().map(|n| html! { <th scope="col">{ n }</th> }) }
                </tr>
            </thead>
            <tbody>
                { for rows.iter().map(|d| html! {
                    <tr><th scope="row">{ &d.name }</th>{ for d.values.iter().map(value) }</tr>
                }) }
            </tbody>
        </table>
    };
    scrolled(title, table)
}
