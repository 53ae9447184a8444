//! A table that can be sorted by mouse and by keyboard.

use super::chart;
use super::controls::{Send, press, scrolled, search};
use crate::app::{App, Msg, OpenedFrom, RungMsg, SheetMsg};
use crate::tables::{Cell, Column, Row, Sheet, Tone};
use crate::text::format;
use warpbook_record::Run;
use web_sys::MouseEvent;
use yew::{Callback, Html, classes, html};

/// A table with more rows than this starts folded and has a search field.
const FOLDED_FROM: usize = 50;
const FOLDED: usize = 20;

/// Shows the sheet; `id` is its name among the page's tables.
pub fn sheet(app: &App, send: &Send, id: &'static str, sheet: &Sheet, run: &Run) -> Html {
    if sheet.rows.is_empty() {
        return html! {};
    }
    let sort = app.sheets.sort_of(id);
    let heading = |(i, column): (usize, &Column)| {
        let now = sort.filter(|s| s.column == i);
        let (order, arrow) = match now {
            None => ("none", "↕"),
            Some(s) if s.descending => ("descending", "↓"),
            Some(_) => ("ascending", "↑"),
        };
        html! {
            <th scope="col" aria-sort={order} class={column.numeric.then_some("number")}>
                <button type="button" onclick={press(send, Msg::Sheet(SheetMsg::Sort(id, i)))}>
                    <span class={(!column.label.contains(' ')).then_some("word")}>{ &column.label }</span><span class="arrow" aria-hidden="true">{ arrow }</span>
                </button>
            </th>
        }
    };
    let name = format::slug(&[&run.experiment, &run.environment.device.name, id]);
    let wanted = app.sheets.search_in(id);
    let rows = Sheet::having(sheet.sorted(sort), wanted);
    let (found, is_long) = (rows.len(), sheet.rows.len() > FOLDED_FROM);
    let most = if app.sheets.is_unfolded(id) || found <= FOLDED_FROM { found } else { FOLDED };
    let typed = send.reform(move |text: String| Msg::Sheet(SheetMsg::Search(id, text)));
    let body = rows.into_iter().take(most).enumerate();
    let table = html! {
        <table class="sortable">
            <thead><tr>{ for sheet.columns.iter().enumerate().map(heading) }</tr></thead>
            <tbody>{ for body.map(|(i, r)| row(send, sheet, r, (run, format!("open-{id}-{i}")))) }</tbody>
        </table>
    };
    html! {
        <section class="sheet" aria-labelledby={format!("sheet-{id}")}>
            <div class="row between">
                <h2 id={format!("sheet-{id}")}>{ &sheet.title }</h2>
                { chart::save_csv(send, &sheet.table(), &name) }
            </div>
            if is_long {
                <div class="toolbar">
                    { search(Some(format!("search-{id}")), wanted, typed, None) }
                    <p class="size" role="status">{ format!("{} of {} rows", most, sheet.rows.len()) }</p>
                </div>
            }
            { scrolled(&sheet.title, table) }
            if most < found {
                <button type="button" class="small" id={format!("unfold-{id}")} onclick={press(send, Msg::Sheet(SheetMsg::Unfold(id)))}>
                    { format!("Show all {found} rows") }
                </button>
            }
        </section>
    }
}

fn row(send: &Send, sheet: &Sheet, row: &Row, (run, id): (&Run, String)) -> Html {
    let open = RungMsg::Open(row.rung.clone(), String::new(), OpenedFrom::Id(id.clone()));
    let to_panel = run.rung(&row.rung).map(|_| press(send, Msg::Rung(open)));
    let first = row.cells.first().map(|c| name(c, to_panel, id));
    let others = row.cells.iter().zip(&sheet.columns).skip(1).map(|(c, column)| cell(c, column.numeric));
    match &row.note {
        Some(note) => html! {
            <tr>
                { for first }
                <td class={classes!("note", tone(note))} colspan={(sheet.columns.len() - 1).to_string()}>
                    <span>{ &note.text }</span>
                </td>
            </tr>
        },
        None => html! { <tr>{ for first }{ for others }</tr> },
    }
}

/// Shows the row's name, which opens the rung's panel if the record has the rung.
fn name(cell: &Cell, to_panel: Option<Callback<MouseEvent>>, id: String) -> Html {
    let text = match to_panel {
        Some(press) => html! {
            <button type="button" {id} class="link" title="Open the rung" onclick={press}>{ &cell.text }</button>
        },
        None => html! { { &cell.text } },
    };
    html! { <th scope="row">{ text }{ detail(cell) }</th> }
}

fn cell(cell: &Cell, numeric: bool) -> Html {
    let long = cell.text.chars().count() > 24;
    let class = classes!(numeric.then_some("number"), long.then_some("long"), tone(cell));
    html! { <td {class}>{ &cell.text }{ detail(cell) }</td> }
}

fn detail(cell: &Cell) -> Html {
    html! { if !cell.detail.is_empty() { <span class="detail">{ &cell.detail }</span> } }
}

fn tone(cell: &Cell) -> Option<&'static str> {
    match cell.tone {
        Tone::Plain => None,
        Tone::Good => Some("good"),
        Tone::Bad => Some("bad"),
        Tone::Quiet => Some("quiet"),
    }
}
