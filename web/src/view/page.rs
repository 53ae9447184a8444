//! The whole page: top bar, notices, questions and the current view.

use super::controls::{DIALOG, Send, heading, press};
use super::list::list;
use super::{board, compare, overview, record, report, share};
use crate::app::{App, DiskMsg, LibraryMsg, Msg, NoticeMsg, ViewMsg, WindowMsg};
use crate::browser;
use web_sys::{HtmlInputElement, MouseEvent};
use yew::{Callback, Event, Html, TargetCast, classes, html};

/// Shows the whole page.
pub fn page(app: &App, send: &Send) -> Html {
    // Views that are not about one record also use the width of the list.
    let is_wide = app.shows_all() || app.only_asks() || (app.link.is_apart() && !app.link.compares());
    // A board may be projected for a class, so it fills the whole window.
    let whole = app.link.board.is_some().then_some("whole");
    html! {
        <>
            <a class="skip" href="#main" onclick={|e: MouseEvent| { e.prevent_default(); browser::focus("main"); }}>
                { "Skip to the record" }
            </a>
            { top(app, send) }
            { for (!app.notices.alerts.is_empty()).then(|| alerts(app, send)) }
            { for (!app.foreign.is_empty()).then(|| foreign(app, send)) }
            <p class={if app.notices.told { "told" } else { "visually-hidden" }} role="status" aria-live="polite">{ &app.notices.said }</p>
            <div class={classes!("columns", is_wide.then_some("all"), whole)}>
                if !is_wide { { list(app, send) } }
                <main id="main" tabindex="-1" aria-busy={app.busy().to_string()}>
                    { share::carried(app) }
                    { main(app, send) }
                </main>
            </div>
            <footer>
                { "Records are read in this browser; nothing is sent anywhere." }
            </footer>
            if app.hover {
                <div class="drop-here" aria-hidden="true"><p>{ "Drop to open the record" }</p></div>
            }
        </>
    }
}

fn top(app: &App, send: &Send) -> Html {
    let files = send.clone();
    let chosen = Callback::from(move |e: Event| {
        let input: HtmlInputElement = e.target_unchecked_into();
        if let Some(list) = input.files() {
            files.emit(Msg::Disk(DiskMsg::Files(browser::files(&list))));
        }
        // Resetting the value lets the reader choose the same file again.
        input.set_value("");
    });
    html! {
        <header class="top">
            <button type="button" class="brand" onclick={press(send, Msg::View(ViewMsg::Overview))} title="All records">
                <svg viewBox="0 0 24 24" width="24" height="24" aria-hidden="true">
                    <path d="M3 20V13h4v7zM10 20V8h4v12zM17 20V3h4v17z" fill="currentColor" />
                </svg>
                { "Warpbook" }
            </button>
            { share::live(app) }
            <div class="actions">
                <input type="file" id={DIALOG} class="visually-hidden" multiple={true} accept=".json,application/json"
                    aria-label="Record files" tabindex="-1" aria-hidden="true" onchange={chosen} />
                <button type="button" class="primary" onclick={|_| browser::click(DIALOG)}>{ "Open records" }</button>
                { share::share_menu(app, send) }
                <button type="button" onclick={press(send, Msg::Window(WindowMsg::Theme))} aria-pressed={app.dark.to_string()}>{ "Dark" }</button>
            </div>
        </header>
    }
}

fn alerts(app: &App, send: &Send) -> Html {
    html! {
        <div class="alerts">
            { for app.notices.alerts.iter().map(|(number, text)| {
                let number = *number;
                html! {
                    <div key={number} class="alert">
                        <p role="alert">{ text }</p>
                        <button type="button" onclick={press(send, Msg::Notice(NoticeMsg::Dismiss(number)))}>
                            { "Dismiss" }
                        </button>
                    </div>
                }
            }) }
        </div>
    }
}

/// Asks before opening records on other sites. Otherwise the link's author would learn who follows it.
fn foreign(app: &App, send: &Send) -> Html {
    html! {
        <section class="alerts" aria-label="Questions">
            { for app.foreign.iter().map(|(address, host)| {
                let answer = |yes: bool| press(send, Msg::Library(LibraryMsg::Permit(address.clone(), yes)));
                html! {
                    <div key={address.clone()} class="alert ask" role="group" aria-label="A record on another site">
                        <p>{ "The link names a record on another site, " }<strong>{ host }</strong>{ ": " }<code>{ address }</code></p>
                        <div class="row">
                            <button type="button" class="primary" onclick={answer(true)}>{ "Open it" }</button>
                            <button type="button" onclick={answer(false)}>{ "Leave it out" }</button>
                        </div>
                    </div>
                }
            }) }
        </section>
    }
}

fn main(app: &App, send: &Send) -> Html {
    if app.link.compares() {
        return compare::page(app, send);
    }
    if app.link.board.is_some() {
        return board::board(app, send);
    }
    if app.link.report {
        return report::report(app, send);
    }
    if app.shows_all() {
        return overview::overview(app, send);
    }
    match app.chosen() {
        Some(entry) => match entry.run() {
            Some(run) => record::record(app, send, entry, run),
            None => html! { <p class="empty">{ format!("Reading {}.", entry.name) }</p> },
        },
        None if app.only_asks() => html! {
            <section class="empty">
                <h1>{ "Nothing is open yet" }</h1>
                <p>{ "Answer the question above first." }</p>
            </section>
        },
        None if app.busy() => html! { <p class="empty">{ "Reading." }</p> },
        None if !app.library.entries.is_empty() => html! {
            <div class="empty">
                { heading("The record was not opened") }
                <p>{ "The message above says why." }</p>
                <button type="button" class="primary" onclick={press(send, Msg::View(ViewMsg::Overview))}>
                    { "Show all records" }
                </button>
            </div>
        },
        None => html! {
            <div class="empty">
                <h1>{ "No record is open" }</h1>
                <p>{ "A record is the JSON file that a Warpbook run writes. Open one from your disk, or drop it onto this page." }</p>
                <button type="button" class="primary" onclick={|_| browser::click(DIALOG)}>{ "Open records" }</button>
                { share::paste(send) }
            </div>
        },
    }
}
