//! The view of the report: the chosen charts with notes, as they are printed and saved.

use super::controls::{Send, button, heading, press};
use crate::app::{App, Msg, ReportMsg};
use crate::report::{Item, data_address};
use web_sys::{HtmlInputElement, HtmlTextAreaElement};
use yew::{Event, Html, TargetCast, html};

/// Shows the whole report.
pub fn report(app: &App, send: &Send) -> Html {
    let report = &app.report;
    let title =
        send.reform(|e: Event| Msg::Report(ReportMsg::Title(e.target_unchecked_into::<HtmlInputElement>().value())));
    let is_empty = report.items.is_empty();
    html! {
        <section class="overview report" aria-label="Report">
            <header class="heading">
                { heading(report.heading()) }
                <p class="policy unprinted">
                    { "Charts that you chose, with your notes. They stay in this browser until you remove them." }
                </p>
            </header>
            <div class="toolbar unprinted">
                <label class="size">
                    { "Title" }
                    <input type="text" class="label" id="report-title" value={report.title.clone()} placeholder="Report" maxlength="200" onchange={title} />
                </label>
                if !is_empty {
                    { act(send, "Save HTML", ReportMsg::Save) }
                    { act(send, "Print", ReportMsg::Print) }
                    { act(send, "Empty the report", ReportMsg::Clear) }
                }
            </div>
            if is_empty {
                <p class="empty">{ "The report is empty: “Add to report” is below each chart." }</p>
            }
            <ol class="items">
                { for report.items.iter().enumerate().map(|(i, of)| item(send, i, of, report.items.len())) }
            </ol>
        </section>
    }
}

fn act(send: &Send, label: &'static str, msg: ReportMsg) -> Html {
    button(label, press(send, Msg::Report(msg)))
}

fn item(send: &Send, i: usize, item: &Item, count: usize) -> Html {
    let note = send.reform(move |e: Event| {
        Msg::Report(ReportMsg::Note(i, e.target_unchecked_into::<HtmlTextAreaElement>().value()))
    });
    let id = format!("note-{i}");
    html! {
        <li key={i} class="item">
            <h2 class="visually-hidden">{ &item.title }</h2>
            <img src={data_address(&item.svg)} alt={item.description.clone()} />
            if !item.source.is_empty() {
                <p class="source detail">
                    { &item.source }
                    if !item.link.is_empty() { { " " }<a href={item.link.clone()}>{ &item.link }</a> }
                </p>
            }
            <div class="unprinted">
                <label for={id.clone()}>{ "Note" }</label>
                <textarea {id} rows="3" value={item.note.clone()} onchange={note} />
                <div class="row">
                    if i > 0 { { act(send, "Move up", ReportMsg::Shift(i, -1)) } }
                    if i + 1 < count { { act(send, "Move down", ReportMsg::Shift(i, 1)) } }
                    { act(send, "Take out", ReportMsg::Remove(i)) }
                </div>
            </div>
            if !item.note.trim().is_empty() { <p class="note printed">{ item.note.trim() }</p> }
        </li>
    }
}
