//! The class board: each person's best result at a task, the distribution, and who has no valid result.

use super::chart;
use super::class;
use super::controls::{DIALOG, Send, heading, press, scrolled, tick_box};
use crate::app::{App, Msg, ViewMsg};
use crate::browser;
use crate::library::Entry;
use crate::text::format::{NONE, significant};
use warpbook_charts::words::{counted, listed, time, times};
use warpbook_charts::{Board, BoardEntry, BoardTask};
use warpbook_record::Run;
use web_sys::HtmlSelectElement;
use yew::{Event, Html, TargetCast, classes, html};

/// Records that were read, with their entries.
type ReadEntries<'a> = Vec<(&'a Entry, &'a Run)>;

/// Shows the board of all records that were read.
pub fn board(app: &App, send: &Send) -> Html {
    let entries = app.on_board();
    let all = entries.iter().filter_map(|e| Some((*e, e.run()?)));
    let (published, read): (ReadEntries, ReadEntries) = all.partition(|(e, _)| e.is_published);
    let records: Vec<(&str, &Run)> = read.iter().map(|(e, run)| (&*e.name, *run)).collect();
    let published: Vec<&Run> = published.iter().map(|(_, run)| *run).collect();
    // The board is drawn only once all records have been read; otherwise thirty records would draw it thirty times.
    let board = Board::from_records(if app.busy() { &[] } else { &records }).with_published(&published);
    let asked = app.link.board.as_deref().unwrap_or_default();
    let task = board.tasks.iter().find(|t| t.id() == asked).or(board.tasks.first());
    let large = app.class.is_large.then_some("projector");
    html! {
        <section class={classes!("overview", "board", large)} aria-label="Class board">
            <header class="heading">
                { heading("Class board") }
                <p class="policy">
                    { "The best checked time of each person at a task. A person is a record's author (" }<code>{ "--author" }</code>
                    { " or " }<code>{ "WARPBOOK_AUTHOR" }</code>{ " at the run) or, without one, its file name. If a record has kernels of the \
                       learner's own, only these count." }
                </p>
            </header>
            <div class="toolbar">
                { for task.map(|t| tasks(send, &board, t)) }
                { opened_only(app, send) }
                { for task.map(|_| chart::save_csv(send, &board.table(), "class-board")) }
                <p class="size" role="status">{ count(app, &board, records.len()) }</p>
            </div>
            { class::class(app, send) }
            { match task {
                Some(task) => of_task(app, send, task, &read),
                None if app.busy() => html! { <p class="empty">{ "Reading the records." }</p> },
                None if !app.class.people().is_empty() => Html::default(),
                None => html! {
                    <div class="empty">
                        <p>
                            { "No record is open yet. Drop the records of the whole class anywhere on this page: each person gets a line. To put a \
                               name into a record, run with " }<code>{ "--author NAME" }</code>{ ". Progress files of the exercises are shown \
                               here, too: " }<code>{ "warpbook exercise list" }</code>{ " names the folder that yours is in." }
                        </p>
                        <button type="button" class="primary" onclick={|_| browser::click(DIALOG)}>{ "Open records" }</button>
                    </div>
                },
            } }
        </section>
    }
}

fn count(app: &App, board: &Board<'_>, records: usize) -> String {
    let records = counted(records, "record");
    match board.people.len() {
        _ if app.busy() => format!("{records} so far"),
        0 => String::new(),
        1 => format!("1 person, {records}"),
        n => format!("{n} people, {records}"),
    }
}

fn tasks(send: &Send, board: &Board<'_>, now: &BoardTask<'_>) -> Html {
    let change =
        send.reform(|e: Event| Msg::View(ViewMsg::Board(e.target_unchecked_into::<HtmlSelectElement>().value())));
    let now = now.id();
    html! {
        <label class="size task">
            { "Task" }
            <select id="task" onchange={change}>
                { for board.tasks.iter().map(|t| {
                    let id = t.id();
                    let (chosen, label) = (id == now, format!("{} ({})", t.name(), t.entries.len()));
                    html! { <option value={id} selected={chosen}>{ label }</option> }
                }) }
            </select>
        </label>
    }
}

/// Shows a check box that hides the published results in the chart.
fn opened_only(app: &App, send: &Send) -> Html {
    let of_page = app.library.entries.iter().filter(|e| e.is_published).count();
    if of_page == 0 || of_page == app.library.entries.len() {
        return html! {};
    }
    let change = send.reform(|on: bool| Msg::View(ViewMsg::OpenedOnly(on)));
    tick_box("opened-only", "Hide published records", app.link.opened_only, change)
}

fn of_task(app: &App, send: &Send, task: &BoardTask<'_>, read: &[(&Entry, &Run)]) -> Html {
    let unchecked: Vec<&BoardEntry<'_>> = task.unchecked().collect();
    html! {
        <>
            <div class="class">
                { chart::chart(send, app.options().ranking(task), "class") }
                { ranking(send, task, read) }
            </div>
            <section class="sheet" id="unchecked">
                <h2>{ "Not counted" }</h2>
                if unchecked.is_empty() {
                    <p>{ "Every result was checked and is correct." }</p>
                } else {
                    <p class="policy">{ "These runs do not count: their results are wrong or were not checked." }</p>
                    <ul class="missing">
                        { for unchecked.iter().map(|e| html! {
                            <li><strong>{ &e.person }</strong>{ format!(": {}", e.missing.join("; ")) }</li>
                        }) }
                    </ul>
                }
            </section>
            if !task.absent.is_empty() {
                <section class="sheet">
                    <h2>{ "No result for this task" }</h2>
                    <p>{ listed(&task.absent) }</p>
                </section>
            }
        </>
    }
}

fn ranking(send: &Send, task: &BoardTask<'_>, read: &[(&Entry, &Run)]) -> Html {
    let best = task.ranked().next().map(|(_, _, us)| us);
    let row = |(i, e): (usize, &BoardEntry<'_>)| {
        let open = read.get(e.record).map(|(entry, _)| {
            let select = press(send, Msg::View(ViewMsg::Select(entry.key.clone())));
            html! {
                <button type="button" class="link" onclick={select} title={format!("Open {}", entry.name)}>{ &e.person }</button>
            }
        });
        let figure = |f: &dyn Fn(f64) -> String| e.best.map_or_else(|| NONE.to_owned(), |(_, us)| f(us));
        let check = e.best.and_then(|(m, _)| m.check.as_ref());
        html! {
            <tr key={e.person.clone()}>
                <td class="number">{ if e.best.is_some() { (i + 1).to_string() } else { NONE.into() } }</td>
                <th scope="row">{ open }</th>
                <td>{ if e.rung.is_empty() { NONE } else { &e.rung } }</td>
                <td class="number">{ figure(&time) }</td>
                <td class="number">{ figure(&|us| best.map(|b| times(us / b)).unwrap_or_default()) }</td>
                <td class="number" title={check.map(|c| format!("of at most {}", significant(c.tolerance, 2)))}>
                    { check.map_or_else(|| NONE.into(), |c| significant(c.max_rel_error, 2)) }
                </td>
            </tr>
        }
    };
    let table = html! {
        <table id="ranking">
            <thead>
                <tr>
                    <th scope="col" class="number">{ "Place" }</th>
                    <th scope="col">{ "Person" }</th>
                    <th scope="col">{ "Rung" }</th>
                    <th scope="col" class="number">{ "Median" }</th>
                    <th scope="col" class="number">{ "Of the fastest" }</th>
                    <th scope="col" class="number">{ "Error" }</th>
                </tr>
            </thead>
            <tbody>{ for task.entries.iter().enumerate().map(row) }</tbody>
        </table>
    };
    scrolled("the class at this task", table)
}
