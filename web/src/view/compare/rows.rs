//! A comparison's rows as tables.

use crate::app::{CompareMsg, Msg};
use crate::record::comparison::{MAX_LISTED, moved as moved_rows, problem_label, said};
use crate::text::format::NONE;
use crate::view::controls::{Send, press, scrolled};
use warpbook_charts::{ComparedCell, ComparedRow, Comparison, Verdict};
use yew::{Html, classes, html};

/// Shows the rungs of one problem: first those with a figure in the baseline and in another record, then the others in
/// a collapsible section.
pub fn rows(send: &Send, at: &Comparison<'_>, anyway: bool) -> Html {
    let (held, alone): (Vec<_>, Vec<_>) = at.rows.iter().partition(|r| r.cells.iter().any(|c| c.ratio.is_some()));
    let alone: Vec<&ComparedRow<'_>> = alone;
    let list = |rows: &[&ComparedRow<'_>], title: &str| {
        let body = rows.iter().map(|row| line(Some(send), row, anyway, None));
        let table = html! { <table class="wrap verdicts">{ head(at, false) }<tbody>{ for body }</tbody></table> };
        scrolled(title, table)
    };
    html! {
        <section class="sheet">
            <h2>{ "Rung by rung" }</h2>
            { list(&held, "Rung by rung") }
            if !alone.is_empty() {
                <details>
                    <summary>{ format!("Nothing to compare with the first record ({})", alone.len()) }</summary>
                    { list(&alone, "Nothing to compare with the first record") }
                </details>
            }
        </section>
    }
}

/// Shows the rows that changed for any problem, in a collapsible section.
pub fn moved(all: &Comparison<'_>) -> Html {
    let rows = moved_rows(all);
    let more = rows.len().saturating_sub(MAX_LISTED);
    let title = format!("Changes on any problem, including references ({})", rows.len());
    if rows.is_empty() {
        return html! {};
    }
    let body = rows.iter().take(MAX_LISTED).map(|row| line(None, row, false, Some(problem_label(row.problem))));
    let table = html! { <table class="wrap verdicts">{ head(all, true) }<tbody>{ for body }</tbody></table> };
    html! {
        <details class="sheet">
            <summary>{ &title }</summary>
            { scrolled(&title, table) }
            if more > 0 { <p class="quiet">{ format!("{more} more moved less.") }</p> }
        </details>
    }
}

fn head(of: &Comparison<'_>, problems: bool) -> Html {
    html! {
        <thead>
            <tr>
                <th scope="col">{ "Rung" }</th>
                if problems { <th scope="col">{ "Problem" }</th> }
                { for of.labels.iter().map(|label| html! { <th scope="col">{ label }</th> }) }
            </tr>
        </thead>
    }
}

fn line(send: Option<&Send>, row: &ComparedRow<'_>, anyway: bool, problem: Option<String>) -> Html {
    html! {
        <tr>
            <th scope="row">
                { &row.title }
                if row.reference { <span class="detail">{ "reference" }</span> }
            </th>
            { for problem.map(|p| html! { <td>{ p }</td> }) }
            { for row.cells.iter().map(|c| cell(send, row, c, anyway)) }
        </tr>
    }
}

fn tone(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Improved => "good",
        Verdict::Worse => "bad",
        Verdict::NotComparable => "unlike",
        _ => "quiet",
    }
}

/// Shows a text below a cell's figure, unless it is empty.
fn detail(text: &str) -> Option<Html> {
    (!text.is_empty()).then(|| html! { <span class="detail">{ text }</span> })
}

fn cell(send: Option<&Send>, row: &ComparedRow<'_>, cell: &ComparedCell<'_>, anyway: bool) -> Html {
    let words = said(cell, anyway);
    if cell.verdict.is_none() {
        let text = [&words.time, &words.why].into_iter().find(|t| !t.is_empty()).map_or(NONE, String::as_str);
        return html! { <td class={cell.us.is_none().then_some("quiet")}>{ text }{ detail(&words.share) }</td> };
    }
    let verdict = cell.verdict.map(|v| {
        html! {
            <span class={classes!("badge", tone(v))}>{ v.label() }</span>
        }
    });
    // A library has a version, not a source.
    let unchanged = cell.unchanged.then_some(if row.reference { "same version" } else { "same source" });
    let hidden = cell.verdict == Some(Verdict::NotComparable) && !anyway;
    let show = send.filter(|_| hidden).map(|send| {
        html! {
            <button type="button" class="small" aria-label={format!("Show {} anyway", row.title)}
                onclick={press(send, Msg::Compare(CompareMsg::Anyway(true)))}>{ "Show anyway" }</button>
        }
    });
    html! {
        <td>
            if !words.time.is_empty() { <span>{ &words.time }</span> }
            { detail(&words.ratio) }
            { detail(&words.share) }
            <span class="detail">{ for verdict }{ for unchanged.map(|u| html! { <>{ " " }{ u }</> }) }</span>
            { detail(&words.why) }
            { for show }
        </td>
    }
}
