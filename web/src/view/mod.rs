//! How the page looks. All text is in text nodes; only what `warpbook-charts` drew is put in as markup.

mod board;
mod chart;
mod compare;
mod drawing;
mod facts;
mod overview;
mod pass;
mod record;
mod report;
mod rung;
mod sheet;
mod timeline;

pub use drawing::focus_mark;
pub use rung::Begun;

use crate::app::sources::Act;
use crate::app::{App, Msg};
use crate::browser;
use crate::format;
use crate::library::{Entry, Origin, State};
use crate::link::Tab;
use wasm_bindgen::JsCast;
use web_sys::{HtmlInputElement, MouseEvent};
use yew::{Callback, Event, Html, TargetCast, classes, html};

/// Where messages go.
type Send = Callback<Msg>;

/// The id of the page's heading, which has the focus once a reader came to another view.
pub const HEADING: &str = "heading";

const DIALOG: &str = "file-dialog";

/// The whole page.
pub fn page(app: &App, send: &Send) -> Html {
    // What is not about one record has the list's room too.
    let is_wide = app.shows_all() || app.only_asks() || (app.link.is_apart() && !app.link.compares());
    // A board may be shown to a class: it has the whole window.
    let whole = app.link.board.is_some().then_some("whole");
    html! {
        <>
            <a class="skip" href="#main" onclick={|e: MouseEvent| { e.prevent_default(); browser::focus("main"); }}>
                { "Skip to the record" }
            </a>
            { top(app, send) }
            { for (!app.alerts.is_empty()).then(|| alerts(app, send)) }
            { for (!app.foreign.is_empty()).then(|| foreign(app, send)) }
            <p class={if app.told { "told" } else { "visually-hidden" }} role="status" aria-live="polite">{ &app.said }</p>
            <div class={classes!("columns", is_wide.then_some("all"), whole)}>
                if !is_wide { { list(app, send) } }
                <main id="main" tabindex="-1" aria-busy={app.busy().to_string()}>
                    { pass::carried(app) }
                    { main(app, send) }
                </main>
            </div>
            <footer>
                { "Records are read in this browser; nothing of them is sent anywhere." }
            </footer>
            if app.hover {
                <div class="drop-here" aria-hidden="true"><p>{ "Drop to open the record" }</p></div>
            }
        </>
    }
}

fn top(app: &App, send: &Send) -> Html {
    let theme = send.reform(|_: MouseEvent| Msg::Theme);
    let files = send.clone();
    let chosen = Callback::from(move |e: Event| {
        let input: HtmlInputElement = e.target_unchecked_into();
        if let Some(list) = input.files() {
            files.emit(Msg::Opened(Act::Files(browser::files(&list))));
        }
        // So that the same file can be chosen again.
        input.set_value("");
    });
    html! {
        <header class="top">
            <button type="button" class="brand" onclick={send.reform(|_: MouseEvent| Msg::Overview)} title="All records">
                <svg viewBox="0 0 24 24" width="24" height="24" aria-hidden="true">
                    <path d="M3 20V13h4v7zM10 20V8h4v12zM17 20V3h4v17z" fill="currentColor" />
                </svg>
                { "Warpbook" }
            </button>
            { pass::live(app) }
            <div class="actions">
                <input type="file" id={DIALOG} class="visually-hidden" multiple={true} accept=".json,application/json"
                    aria-label="Record files" tabindex="-1" aria-hidden="true" onchange={chosen} />
                <button type="button" class="primary" onclick={|_| browser::click(DIALOG)}>{ "Open records" }</button>
                { pass::pass_on(app, send) }
                <button type="button" onclick={theme} aria-pressed={app.dark.to_string()}>{ "Dark" }</button>
            </div>
        </header>
    }
}

fn alerts(app: &App, send: &Send) -> Html {
    html! {
        <div class="alerts">
            { for app.alerts.iter().map(|(number, text)| {
                let number = *number;
                html! {
                    <div key={number} class="alert">
                        <p role="alert">{ text }</p>
                        <button type="button" onclick={send.reform(move |_: MouseEvent| Msg::Dismiss(number))}>
                            { "Dismiss" }
                        </button>
                    </div>
                }
            }) }
        </div>
    }
}

/// Records on other sites that a link names: whoever made the link would otherwise learn who follows it.
fn foreign(app: &App, send: &Send) -> Html {
    html! {
        <section class="alerts" aria-label="Questions">
            { for app.foreign.iter().map(|(address, host)| {
                let answer = |yes: bool| {
                    let address = address.clone();
                    send.reform(move |_: MouseEvent| Msg::Permit(address.clone(), yes))
                };
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

fn list(app: &App, send: &Send) -> Html {
    let chosen = app.chosen().map(|e| e.key.as_str());
    let several = app.library.entries.len() > 1;
    html! {
        <nav class="records" aria-label="Records">
            <h2>{ "Records" }</h2>
            { for compare_button(app, send) }
            if app.library.entries.is_empty() {
                <p class="quiet">{ if app.busy() { "Reading the list." } else { "None yet." } }</p>
            }
            <ul>
                { for app.library.entries.iter().map(|e| item(app, send, e, chosen == Some(&e.key), several)) }
            </ul>
            <p class="hint">
                { "Drop record files anywhere on the page, or paste a record's text." }
                if several { { " Tick two or more to compare them." } }
            </p>
            { pass::kept(app, send) }
        </nav>
    }
}

fn item(app: &App, send: &Send, entry: &Entry, chosen: bool, several: bool) -> Html {
    let select = {
        let key = entry.key.clone();
        send.reform(move |_: MouseEvent| Msg::Select(key.clone()))
    };
    let (title, details) = (title_of(entry), details_of(entry));
    let close = close(send, entry);
    let tick = several.then(|| compare_tick(app, send, entry));
    html! {
        <li key={entry.key.clone()} class={classes!("record", chosen.then_some("current"))}>
            <button type="button" class="select" aria-current={chosen.then_some("true")} onclick={select}
                title={entry.name.clone()}>
                <span class="title">{ title }</span>
                { for details.iter().map(|d| html! { <span class="detail">{ d }</span> }) }
            </button>
            if several || close.is_some() {
                <div class="row">{ for tick }{ for close }</div>
            }
        </li>
    }
}

/// A button that closes a record which does not come with the page.
fn close(send: &Send, entry: &Entry) -> Option<Html> {
    if matches!(entry.origin, Origin::Bundled(_)) {
        return None;
    }
    let key = entry.key.clone();
    let what = if entry.origin == Origin::Disk { "Close and forget" } else { "Close" };
    Some(html! {
        <button type="button" class="close" aria-label={format!("{what} {}", title_of(entry))} title={what}
            onclick={send.reform(move |_: MouseEvent| Msg::Close(key.clone()))}>{ "×" }</button>
    })
}

/// What a record is called.
fn title_of(entry: &Entry) -> &str {
    if entry.title.is_empty() { &entry.name } else { &entry.title }
}

/// Where, by whom and when it was made, and how far it is.
fn details_of(entry: &Entry) -> Vec<String> {
    let state = match (&entry.state, &entry.origin) {
        (State::Reading, _) => "reading",
        (State::Failed, _) => "not opened; press to try again",
        (_, Origin::Address(_)) => "from the link",
        (_, Origin::Disk) => "from your disk",
        (_, Origin::Fragment) => "inside the link",
        _ => "",
    };
    let by = if entry.author.is_empty() { String::new() } else { format!("run by {}", entry.author) };
    let all = [entry.device.clone(), by, format::short_date(&entry.created), state.to_owned()];
    all.into_iter().filter(|d| !d.is_empty()).collect()
}

/// A box that ticks a record for the comparison.
fn compare_tick(app: &App, send: &Send, entry: &Entry) -> Html {
    let key = entry.key.clone();
    let changed = send.reform(move |e: Event| {
        let on = e.target().and_then(|t| t.dyn_into::<HtmlInputElement>().ok()).is_some_and(|i| i.checked());
        Msg::Tick(key.clone(), on)
    });
    let ticked = app.link.ticked.contains(&entry.key);
    html! {
        <label class="tick">
            <input type="checkbox" checked={ticked} onchange={changed} />
            { "Compare" }<span class="visually-hidden">{ format!(" {}, {}", title_of(entry), entry.name) }</span>
        </label>
    }
}

/// The way to the comparison, once there is something to compare.
fn compare_button(app: &App, send: &Send) -> Option<Html> {
    let count = app.link.ticked.len();
    (count > 1 && !app.link.compares()).then(|| {
        html! {
            <button type="button" class="primary small" id="compare" onclick={send.reform(|_: MouseEvent| Msg::Show(Tab::Compare))}>
                { format!("Compare {count} records") }
            </button>
        }
    })
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
                <h1 id={HEADING} tabindex="-1">{ "The record was not opened" }</h1>
                <p>{ "The message above says why." }</p>
                <button type="button" class="primary" onclick={send.reform(|_: MouseEvent| Msg::Overview)}>
                    { "Show all records" }
                </button>
            </div>
        },
        None => html! {
            <div class="empty">
                <h1>{ "No record is open" }</h1>
                <p>{ "A record is the JSON file that a Warpbook run writes. Open one from your disk, or drop it onto this page." }</p>
                <button type="button" class="primary" onclick={|_| browser::click(DIALOG)}>{ "Open records" }</button>
                { pass::paste(send) }
            </div>
        },
    }
}
