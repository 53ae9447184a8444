//! Buttons, choosers, boxes and tables that all views share.

use crate::app::{HEADING, Msg, NoticeMsg};
use web_sys::{HtmlInputElement, HtmlSelectElement, InputEvent, KeyboardEvent, MouseEvent};
use yew::{Callback, Event, Html, TargetCast, html};

/// The callback that receives messages.
pub type Send = Callback<Msg>;

/// The id of the input that opens the browser's file dialog.
pub const DIALOG: &str = "file-dialog";

/// Shows a view's heading.
pub fn heading(text: &str) -> Html {
    html! { <h1 id={HEADING} tabindex="-1">{ text }</h1> }
}

/// Returns a callback that sends a message.
pub fn press(send: &Send, msg: Msg) -> Callback<MouseEvent> {
    send.reform(move |_: MouseEvent| msg.clone())
}

/// Shows a small button.
pub fn button(label: &'static str, press: Callback<MouseEvent>) -> Html {
    html! { <button type="button" class="small" onclick={press}>{ label }</button> }
}

/// Shows a button that copies a text to the clipboard.
pub fn copy(send: &Send, what: &'static str, text: &str, label: &'static str) -> Html {
    let press = press(send, Msg::Notice(NoticeMsg::Copy(what, text.to_owned())));
    html! { <button type="button" class="small" aria-label={label} onclick={press}>{ "Copy" }</button> }
}

/// Shows a chooser for one of several options.
pub fn select(what: &'static str, id: Option<&'static str>, chosen: Callback<String>, options: Html) -> Html {
    let change = chosen.reform(|e: Event| e.target_unchecked_into::<HtmlSelectElement>().value());
    html! { <label class="size">{ what }<select {id} onchange={change}>{ options }</select></label> }
}

/// Shows an option of a chooser.
pub fn option(value: &str, label: &str, selected: bool) -> Html {
    html! { <option value={value.to_owned()} {selected}>{ label }</option> }
}

/// Shows a labelled group of options; nothing if it is empty.
pub fn option_group(label: &str, mut options: impl Iterator<Item = Html>) -> Html {
    match options.next() {
        None => Html::default(),
        Some(first) => html! { <optgroup label={label.to_owned()}>{ first }{ for options }</optgroup> },
    }
}

/// Shows a tick box.
pub fn tick_box(id: &'static str, label: &str, on: bool, changed: Callback<bool>) -> Html {
    let change = changed.reform(|e: Event| e.target_unchecked_into::<HtmlInputElement>().checked());
    html! { <label class="tick"><input type="checkbox" {id} checked={on} onchange={change} />{ label }</label> }
}

/// Shows a search field.
pub fn search(id: Option<String>, value: &str, typed: Callback<String>, key: Option<Callback<KeyboardEvent>>) -> Html {
    let input = typed.reform(|e: InputEvent| e.target_unchecked_into::<HtmlInputElement>().value());
    html! {
        <label class="size">
            { "Search" }<input type="search" {id} value={value.to_owned()} oninput={input} onkeydown={key} />
        </label>
    }
}

/// Shows a table that scrolls sideways independently of the page.
pub fn scrolled(title: &str, table: Html) -> Html {
    html! { <div class="scroll" tabindex="0" role="region" aria-label={format!("Table: {title}")}>{ table }</div> }
}
