//! Access to the browser: address, files, fetches, downloads and the clipboard.
//!
//! Browsers may refuse any of these (storage for pages from disk, the clipboard without https), so nothing here may
//! panic.

pub mod marks;
mod pack;
mod picture;
pub mod store;

pub use pack::{pack, unpack};
pub use picture::save_png;

use crate::library::open::check_size;
use gloo_events::EventListener;
use js_sys::{Reflect, Uint8Array};
use std::cell::Cell;
use std::rc::Rc;
use warpbook_record::MAX_BYTES;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::{JsFuture, spawn_local};
use web_sys::{Blob, BlobPropertyBag, Document, HtmlAnchorElement, HtmlElement, HtmlTextAreaElement, Window};

/// Returns the window, which always exists where this code runs.
pub fn window() -> Window {
    web_sys::window().expect("the page runs in a window")
}

/// Returns the document, which always exists where this code runs.
pub fn document() -> Document {
    window().document().expect("a window has a document")
}

/// Returns the query of the page's address.
pub fn query() -> String {
    window().location().search().unwrap_or_default()
}

/// Sets the query of the page's address, either as a new step of the history or in place.
pub fn set_query(query: &str, new_step: bool) {
    let location = window().location();
    if location.search().is_ok_and(|now| now == query) {
        return;
    }
    let Ok(history) = window().history() else { return };
    // Setting an empty query changes nothing, so the path is set instead; the fragment stays.
    let start = if query.is_empty() { location.pathname().unwrap_or_default() } else { query.to_owned() };
    let url = format!("{start}{}", fragment());
    // Browsers refuse to set the query if the page has no origin; the address then does not change.
    let _ = if new_step {
        history.push_state_with_url(&JsValue::NULL, "", Some(&url))
    } else {
        history.replace_state_with_url(&JsValue::NULL, "", Some(&url))
    };
}

/// Returns the fragment of the page's address with its `#`; empty if there is none.
pub fn fragment() -> String {
    window().location().hash().unwrap_or_default()
}

/// Removes the fragment from the page's address.
pub fn drop_fragment() {
    let location = window().location();
    let url = format!("{}{}", location.pathname().unwrap_or_default(), location.search().unwrap_or_default());
    if let Ok(history) = window().history() {
        let _ = history.replace_state_with_url(&JsValue::NULL, "", Some(&url));
    }
}

/// Returns the page's address without its query and its fragment.
pub fn place() -> String {
    let address = address();
    address.split(['?', '#']).next().unwrap_or_default().to_owned()
}

/// Returns the page's whole address.
pub fn address() -> String {
    window().location().href().unwrap_or_default()
}

/// Returns `true` if nobody else can open the page's address.
pub fn is_local() -> bool {
    let host = window().location().hostname().unwrap_or_default();
    from_disk() || matches!(host.as_str(), "localhost" | "127.0.0.1" | "[::1]")
}

/// Returns `true` if the page was opened from disk, where it cannot fetch anything.
pub fn from_disk() -> bool {
    window().location().protocol().is_ok_and(|p| p == "file:")
}

/// Returns the text of the element that holds a self-contained page's records.
pub fn embedded() -> Option<String> {
    document().get_element_by_id("warpbook-embedded")?.text_content()
}

/// Fetches an address, up to the size of the largest record.
///
/// # Errors
/// Returns an error, a sentence for the page's reader, if the address cannot be fetched or its content is too large.
pub async fn fetch(address: &str) -> Result<Vec<u8>, String> {
    let unreachable = |_| {
        let reason = if from_disk() {
            "A page that was opened from disk cannot fetch files from there. Open the record with the button, or drop it here."
        } else {
            "The server cannot be reached, or it does not let this page read its files (CORS)."
        };
        reason.to_owned()
    };
    if from_disk() && !address.starts_with("http") {
        return Err(unreachable(JsValue::NULL));
    }
    let response = JsFuture::from(window().fetch_with_str(address)).await.map_err(unreachable)?;
    let response: web_sys::Response = response.dyn_into().map_err(unreachable)?;
    if !response.ok() {
        return Err(format!("The server answered {} {}.", response.status(), response.status_text()));
    }
    if let Some(length) = response.headers().get("content-length").ok().flatten().and_then(|l| l.parse::<f64>().ok()) {
        check_size(length)?;
    }
    let Some(body) = response.body() else { return Ok(Vec::new()) };
    read_stream(&body).await.map_err(|why| why.unwrap_or_else(|| unreachable(JsValue::NULL)))
}

/// Reads a stream, up to the size of the largest record, since a sender need not declare the length. `Err(None)` means
/// that the stream itself failed.
async fn read_stream(body: &web_sys::ReadableStream) -> Result<Vec<u8>, Option<String>> {
    let failed = |_| None;
    let reader: web_sys::ReadableStreamDefaultReader =
        body.get_reader().dyn_into().map_err(|_: js_sys::Object| None)?;
    let mut bytes = Vec::new();
    loop {
        let part = JsFuture::from(reader.read()).await.map_err(failed)?;
        let value = Reflect::get(&part, &"value".into()).map_err(failed)?;
        if value.is_undefined() {
            return Ok(bytes);
        }
        let part = Uint8Array::new(&value);
        if bytes.len() + part.length() as usize > MAX_BYTES {
            let _ = reader.cancel();
            check_size((bytes.len() + part.length() as usize) as f64).map_err(Some)?;
        }
        bytes.extend(part.to_vec());
    }
}

/// Fetches a text of the page's own site if its tag is no longer `etag`; returns it with its new tag.
///
/// # Errors
/// Returns an error if the server does not answer, or answers with anything but the text.
pub async fn fetch_new(address: &str, etag: &str) -> Result<Option<(String, String)>, ()> {
    let request = web_sys::RequestInit::new();
    request.set_cache(web_sys::RequestCache::NoStore);
    let headers = web_sys::Headers::new().map_err(drop)?;
    if !etag.is_empty() {
        headers.set("If-None-Match", etag).map_err(drop)?;
    }
    request.set_headers(&headers);
    let response = JsFuture::from(window().fetch_with_str_and_init(address, &request)).await.map_err(drop)?;
    let response: web_sys::Response = response.dyn_into().map_err(drop)?;
    if response.status() == 304 {
        return Ok(None);
    }
    let body = response.body().filter(|_| response.ok()).ok_or(())?;
    let etag = response.headers().get("etag").ok().flatten().unwrap_or_default();
    let bytes = read_stream(&body).await.map_err(drop)?;
    Ok(Some((String::from_utf8_lossy(&bytes).into_owned(), etag)))
}

/// Returns the page's origin, such as `https://example.org`; "null" for a page from disk.
pub fn site() -> String {
    window().location().origin().unwrap_or_default()
}

/// Copies a file list, which the browser empties once its event is over.
pub fn files(list: &web_sys::FileList) -> Vec<web_sys::File> {
    (0..list.length()).filter_map(|i| list.get(i)).collect()
}

/// Reads a file that the reader chose, unless it is too large.
///
/// # Errors
/// Returns an error, a sentence for the page's reader, if the file is too large or cannot be read.
pub async fn read_file(file: &web_sys::File) -> Result<Vec<u8>, String> {
    check_size(file.size())?;
    let failed = |_| "The browser could not read the file; it may have been moved or changed.".to_owned();
    let buffer = JsFuture::from(file.array_buffer()).await.map_err(failed)?;
    Ok(Uint8Array::new(&buffer).to_vec())
}

/// Lets the browser paint, so that a message is visible before long work begins.
pub async fn pause() {
    wait(20).await;
}

/// Waits for this many milliseconds.
pub async fn wait(ms: i32) {
    let promise = js_sys::Promise::new(&mut |resolve, _| {
        let _ = window().set_timeout_with_callback_and_timeout_and_arguments_0(&resolve, ms);
    });
    let _ = JsFuture::from(promise).await;
}

/// Saves a text as a file.
pub fn save(name: &str, mime: &str, text: &str) {
    let options = BlobPropertyBag::new();
    options.set_type(mime);
    let blob = Blob::new_with_str_sequence_and_options(&js_sys::Array::of1(&text.into()), &options);
    let _ = blob.and_then(|blob| save_blob(name, &blob));
}

fn save_blob(name: &str, blob: &Blob) -> Result<(), JsValue> {
    let url = web_sys::Url::create_object_url_with_blob(blob)?;
    let anchor: HtmlAnchorElement = document().create_element("a")?.dyn_into()?;
    anchor.set_href(&url);
    anchor.set_download(name);
    anchor.click();
    // The URL is revoked later, since the download may not have started yet.
    let revoke = wasm_bindgen::closure::Closure::once_into_js(move || web_sys::Url::revoke_object_url(&url));
    window().set_timeout_with_callback_and_timeout_and_arguments_0(revoke.unchecked_ref(), 10_000)?;
    Ok(())
}

/// Returns the pasted text, unless it was pasted into a field.
pub fn pasted(event: &web_sys::Event) -> Option<String> {
    if is_field(event) {
        return None;
    }
    let event: &web_sys::ClipboardEvent = event.dyn_ref()?;
    event.clipboard_data()?.get_data("text/plain").ok()
}

/// Opens the browser's print dialog.
pub fn print() {
    let _ = window().print();
}

/// Returns a text that the browser stored during an earlier visit to this page.
pub fn remembered(what: &str) -> Option<String> {
    storage()?.get_item(&local(what)).ok().flatten()
}

/// Stores a text for the next visit to this page, or deletes it if empty; returns whether that worked.
pub fn remember(what: &str, text: &str) -> bool {
    let Some(storage) = storage() else { return false };
    if text.is_empty() {
        return storage.remove_item(&local(what)).is_ok();
    }
    storage.set_item(&local(what), text).is_ok()
}

/// Returns a storage key that other pages of the site do not share.
fn local(what: &str) -> String {
    format!("warpbook-{what} {}", window().location().pathname().unwrap_or_default())
}

/// Copies a text to the clipboard; returns whether that worked.
pub async fn copy(text: &str) -> bool {
    // The clipboard is undefined on pages not served securely, although its type says otherwise.
    let navigator = window().navigator();
    let present = Reflect::get(&navigator, &"clipboard".into()).is_ok_and(|c| c.is_object());
    (present && JsFuture::from(navigator.clipboard().write_text(text)).await.is_ok()) || copy_by_selection(text)
}

fn copy_by_selection(text: &str) -> bool {
    let try_copy = || -> Result<bool, JsValue> {
        let document = document();
        let before = document.active_element();
        let area: HtmlTextAreaElement = document.create_element("textarea")?.dyn_into()?;
        area.set_value(text);
        area.set_class_name("visually-hidden");
        let body = document.body().ok_or(JsValue::NULL)?;
        body.append_child(&area)?;
        area.select();
        let command: js_sys::Function = Reflect::get(&document, &"execCommand".into())?.dyn_into()?;
        let done = command.call1(&document, &"copy".into())?.is_truthy();
        area.remove();
        if let Some(element) = before.and_then(|e| e.dyn_into::<HtmlElement>().ok()) {
            element.focus()?;
        }
        Ok(done)
    };
    try_copy().unwrap_or(false)
}

/// Moves the keyboard's focus; returns whether the element exists.
pub fn focus(id: &str) -> bool {
    let element = document().get_element_by_id(id).and_then(|e| e.dyn_into::<HtmlElement>().ok());
    element.is_some_and(|e| e.focus().is_ok())
}

/// Returns `true` if the page has an element with this id.
pub fn is_there(id: &str) -> bool {
    document().get_element_by_id(id).is_some()
}

/// Returns `true` if the event comes from a text field.
pub fn is_field(event: &web_sys::Event) -> bool {
    let target = event.target().and_then(|t| t.dyn_into::<web_sys::Element>().ok());
    target.is_some_and(|t| t.matches("input:not([type=radio]):not([type=checkbox]), textarea").unwrap_or(false))
}

/// Returns the page's scroll position in CSS pixels.
pub fn scrolled() -> f64 {
    window().scroll_y().unwrap_or(0.0)
}

/// Scrolls the page to a position in CSS pixels.
pub fn scroll(to: f64) {
    window().scroll_to_with_x_and_y(0.0, to);
}

/// Scrolls the page until an element is at the top.
pub fn scroll_to(selector: &str) {
    if let Some(element) = document().query_selector(selector).ok().flatten() {
        element.scroll_into_view();
    }
}

/// Scrolls a list sideways, without moving the page, until an item is in sight.
pub fn reveal(item: &str) {
    let item = document().query_selector(item).ok().flatten().and_then(|e| e.dyn_into::<HtmlElement>().ok());
    if let Some((item, list)) = item.and_then(|i| i.parent_element().map(|p| (i, p))) {
        list.set_scroll_left(item.offset_left() - (list.client_width() - item.offset_width()) / 2);
    }
}

/// Presses a hidden button, such as the file dialog's.
pub fn click(id: &str) {
    if let Some(element) = document().get_element_by_id(id).and_then(|e| e.dyn_into::<HtmlElement>().ok()) {
        element.click();
    }
}

/// Sets an attribute of an element; does nothing if there is no element.
pub fn set_attribute(element: Option<impl AsRef<web_sys::Element>>, name: &str, value: &str) {
    if let Some(element) = element {
        let _ = element.as_ref().set_attribute(name, value);
    }
}

/// Returns the width available for a chart in CSS pixels: the open panel's width, at most that of a notebook's chart.
pub fn chart_width() -> u32 {
    const MOST: i32 = 720;
    // If there is no panel yet, the window's width minus the borders of the page and the panel is used.
    let outside = || window().inner_width().ok().and_then(|w| w.as_f64()).map_or(MOST, |w| w as i32 - 34);
    let figure = document().query_selector(".marks").ok().flatten();
    let room = figure.map(|f| f.client_width()).filter(|w| *w > 0).unwrap_or_else(outside);
    u32::try_from(room.clamp(280, MOST)).unwrap_or(720)
}

/// Returns an element's text colour.
pub fn ink(element: &web_sys::Element) -> String {
    let style = window().get_computed_style(element).ok().flatten();
    style.and_then(|s| s.get_property_value("color").ok()).unwrap_or_else(|| "#888".into())
}

const PERFETTO: &str = "https://ui.perfetto.dev";
/// The interval and the time limit for pinging Perfetto, in milliseconds.
const PING: (i32, f64) = (50, 60_000.0);

/// Opens Perfetto in a new window and pings it until it answers, as its protocol requires; then sends it a trace.
/// Returns whether the window opened.
pub fn open_perfetto(events: &str, title: &str) -> bool {
    let Ok(Some(other)) = window().open_with_url_and_target(PERFETTO, "_blank") else { return false };
    let (events, title) = (events.to_owned(), title.to_owned());
    let begun = js_sys::Date::now();
    let heard: Rc<Cell<bool>> = Rc::default();
    let listener = {
        let (other, heard) = (other.clone(), heard.clone());
        EventListener::new(&window(), "message", move |event| {
            let Some(event) = event.dyn_ref::<web_sys::MessageEvent>() else { return };
            if event.origin() == PERFETTO && event.data() == "PONG" && !heard.replace(true) {
                let _ = hand_over(&other, &events, &title);
            }
        })
    };
    spawn_local(async move {
        while !heard.get() && js_sys::Date::now() - begun < PING.1 && !other.closed().unwrap_or(true) {
            let _ = other.post_message(&"PING".into(), PERFETTO);
            wait(PING.0).await;
        }
        drop(listener);
    });
    true
}

/// Sends Perfetto the message that opens a trace.
fn hand_over(other: &Window, events: &str, title: &str) -> Result<(), JsValue> {
    let bytes = Uint8Array::from(events.as_bytes());
    let trace = js_sys::Object::new();
    Reflect::set(&trace, &"buffer".into(), &bytes.buffer())?;
    Reflect::set(&trace, &"title".into(), &title.into())?;
    let message = js_sys::Object::new();
    Reflect::set(&message, &"perfetto".into(), &trace)?;
    other.post_message(&message, PERFETTO)
}

/// Sets the window's title.
pub fn set_title(title: &str) {
    document().set_title(title);
}

/// Returns `true` if the page is dark: by the reader's earlier choice, or else by the system's theme.
pub fn dark() -> bool {
    match storage().and_then(|s| s.get_item("warpbook-theme").ok().flatten()).as_deref() {
        Some("dark") => true,
        Some("light") => false,
        _ => window().match_media("(prefers-color-scheme: dark)").ok().flatten().is_some_and(|m| m.matches()),
    }
}

/// Returns `true` if the reader chose light or dark earlier.
pub fn theme_was_chosen() -> bool {
    storage().and_then(|s| s.get_item("warpbook-theme").ok().flatten()).is_some()
}

/// Makes the page light or dark; `keep` stores the choice for the next visit.
pub fn set_theme(dark: bool, keep: bool) {
    let name = if dark { "dark" } else { "light" };
    set_attribute(document().document_element(), "data-theme", name);
    if let Some(storage) = storage().filter(|_| keep) {
        let _ = storage.set_item("warpbook-theme", name);
    }
}

fn storage() -> Option<web_sys::Storage> {
    window().local_storage().ok().flatten()
}
