//! Ways out of the page (links, the report) and into it (pasted records, kept records).

use super::controls::{Send, press};
use crate::app::{App, DiskMsg, Msg, NoticeMsg, ReportMsg, ViewMsg};
use crate::browser;
use crate::library::Origin;
use warpbook_charts::words::counted;
use wasm_bindgen::JsCast;
use web_sys::{Element, HtmlElement, HtmlTextAreaElement, InputEvent, KeyboardEvent, MouseEvent};
use yew::{Html, TargetCast, html};

/// Shows the menu in the top bar.
pub fn share_menu(app: &App, send: &Send) -> Html {
    let link = send.reform(|_: MouseEvent| Msg::Notice(NoticeMsg::Copy("the link", browser::address())));
    let carrying = press(send, Msg::Disk(DiskMsg::CopyCarrying));
    let report = press(send, Msg::Report(ReportMsg::Show));
    let board = press(send, Msg::View(ViewMsg::Board(String::new())));
    let chosen = app.chosen().filter(|e| e.run().is_some());
    let count = app.report.items.len();
    html! {
        <details class="pass-on" onclick={chosen_in_menu} onkeydown={escaped}>
            <summary>{ "Share" }</summary>
            <div>
                <button type="button" id="copy-link" onclick={link}>{ "Copy the link" }</button>
                if chosen.is_some() {
                    <button type="button" id="copy-carrying" onclick={carrying}>{ "Copy a link with the record inside" }</button>
                }
                <button type="button" id="show-report" onclick={report}>
                    { if count == 0 { "Report".to_owned() } else { format!("Report ({})", counted(count, "chart")) } }
                </button>
                if app.library.entries.len() > 1 {
                    <button type="button" id="show-board" onclick={board}>{ "Class board" }</button>
                }
                if chosen.is_some_and(|e| e.origin == Origin::Disk) {
                    <p class="hint">
                        { "This record is on your disk only. Others who open the plain link will not see it." }
                    </p>
                }
            </div>
        </details>
    }
}

/// Closes the menu after a choice.
fn chosen_in_menu(e: MouseEvent) {
    let button = e.target_dyn_into::<Element>().and_then(|t| t.closest("button").ok().flatten());
    close_menu(button.as_ref());
}

/// Closes the menu on Escape, and moves the focus to the menu's name.
fn escaped(e: KeyboardEvent) {
    if e.key() == "Escape" {
        close_menu(e.target_dyn_into::<Element>().as_ref());
    }
}

fn close_menu(inside: Option<&Element>) {
    let Some(menu) = inside.and_then(|e| e.closest("details").ok().flatten()) else { return };
    let _ = menu.remove_attribute("open");
    let name = menu.query_selector("summary").ok().flatten().and_then(|s| s.dyn_into::<HtmlElement>().ok());
    let _ = name.map(|n| n.focus());
}

/// Shows whether the page's own server still answers, if it has one.
pub fn live(app: &App) -> Html {
    if !app.live.on {
        return html! {};
    }
    let (class, text) =
        if app.live.lost { ("live lost", "The server has ended") } else { ("live", "Follows the files") };
    html! { <span {class} role="status">{ text }</span> }
}

/// Warns that a record in a link may contain anything its author wrote.
pub fn carried(app: &App) -> Html {
    let compared = app.ticked().into_iter().map(|(entry, _)| entry).filter(|_| app.link.compares());
    if !app.chosen().into_iter().chain(compared).any(|e| e.origin == Origin::Fragment) {
        return html! {};
    }
    html! {
        <p class="notices carried" role="note">
            { "This record came inside the link. Its figures are what the link's maker put there; nobody has confirmed them." }
        </p>
    }
}

/// Shows which records were opened from disk, and a button that deletes them.
pub fn kept(app: &App, send: &Send) -> Html {
    let (on_disk, lost) = (app.library.count_on_disk(), app.not_kept.len());
    if on_disk == 0 {
        return html! {};
    }
    let records = |count| counted(count, "record");
    let kept = match on_disk.saturating_sub(lost) {
        0 => String::new(),
        1 => "1 record from your disk: this browser keeps it for your next visit, and sends it nowhere. ".into(),
        n => format!(
            "{} from your disk: this browser keeps them for your next visit, and sends them nowhere. ",
            records(n)
        ),
    };
    let lost = if lost > 0 { format!("{} from your disk for this visit only. ", records(lost)) } else { String::new() };
    let forget = press(send, Msg::Disk(DiskMsg::Forget));
    html! {
        <p class="hint kept">
            { kept }{ lost }
            <button type="button" class="small" id="forget" onclick={forget}>{ if on_disk == 1 { "Forget it" } else { "Forget them" } }</button>
        </p>
    }
}

/// Shows a field for a record's text, for readers who cannot paste onto the page.
pub fn paste(send: &Send) -> Html {
    let typed = send.reform(|e: InputEvent| {
        let area: HtmlTextAreaElement = e.target_unchecked_into();
        let text = area.value();
        area.set_value("");
        Msg::Disk(DiskMsg::Paste(text))
    });
    html! {
        <details class="paste">
            <summary>{ "Paste a record" }</summary>
            <label for="paste">{ "Paste the record's JSON text here to open it" }</label>
            <textarea id="paste" rows="3" spellcheck="false" autocomplete="off" oninput={typed} />
        </details>
    }
}
