//! The list of records next to the open one.

use super::controls::{Send, press};
use super::share;
use crate::app::{App, CompareMsg, LibraryMsg, Msg, ViewMsg};
use crate::library::{Entry, Origin, State};
use crate::record::Tab;
use crate::text::format;
use wasm_bindgen::JsCast;
use web_sys::HtmlInputElement;
use yew::{Event, Html, classes, html};

/// Shows the list of records.
pub fn list(app: &App, send: &Send) -> Html {
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
            { share::kept(app, send) }
        </nav>
    }
}

fn item(app: &App, send: &Send, entry: &Entry, chosen: bool, several: bool) -> Html {
    let select = press(send, Msg::View(ViewMsg::Select(entry.key.clone())));
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

/// Shows a button that closes a record, unless the record comes with the page.
pub fn close(send: &Send, entry: &Entry) -> Option<Html> {
    if matches!(entry.origin, Origin::Bundled(_)) {
        return None;
    }
    let what = if entry.origin == Origin::Disk { "Close and forget" } else { "Close" };
    Some(html! {
        <button type="button" class="close" aria-label={format!("{what} {}", title_of(entry))} title={what}
            onclick={press(send, Msg::Library(LibraryMsg::Close(entry.key.clone())))}>{ "×" }</button>
    })
}

/// Returns a record's title or, if it has none, its file name.
pub fn title_of(entry: &Entry) -> &str {
    if entry.title.is_empty() { &entry.name } else { &entry.title }
}

/// Returns the record's device, author and date, and its loading state.
pub fn details_of(entry: &Entry) -> Vec<String> {
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

/// Shows a check box that adds a record to the comparison.
pub fn compare_tick(app: &App, send: &Send, entry: &Entry) -> Html {
    let key = entry.key.clone();
    let changed = send.reform(move |e: Event| {
        let on = e.target().and_then(|t| t.dyn_into::<HtmlInputElement>().ok()).is_some_and(|i| i.checked());
        Msg::Compare(CompareMsg::Tick(key.clone(), on))
    });
    let ticked = app.link.ticked.contains(&entry.key);
    html! {
        <label class="tick">
            <input type="checkbox" checked={ticked} onchange={changed} />
            { "Compare" }<span class="visually-hidden">{ format!(" {}, {}", title_of(entry), entry.name) }</span>
        </label>
    }
}

/// Shows a button for the comparison, once there is something to compare.
pub fn compare_button(app: &App, send: &Send) -> Option<Html> {
    let count = app.link.ticked.len();
    (count > 1 && !app.link.compares()).then(|| {
        html! {
            <button type="button" class="primary small" id="compare" onclick={press(send, Msg::View(ViewMsg::Tab(Tab::Compare)))}>
                { format!("Compare {count} records") }
            </button>
        }
    })
}
