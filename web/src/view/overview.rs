//! The overview: all records as cards and tables. It is shown if the link names no record.

use super::controls::{Send, button, heading, option, press, search, select};
use super::list::{close, compare_button, compare_tick, details_of, title_of};
use super::share;
use crate::app::{App, Msg, ViewMsg};
use crate::library::{Entry, Filter};
use yew::{Html, html};

/// The search is shown if there are at least this many records.
const SEARCH_FROM: usize = 5;

/// Shows the cards of the records that pass the filter.
pub fn overview(app: &App, send: &Send) -> Html {
    let all = &app.library.entries;
    let shown: Vec<&Entry> = all.iter().filter(|e| app.filter.keeps(e)).collect();
    // A published record that is shown next to one of the reader's records is not repeated among the experiments.
    let beside: Vec<&str> = shown.iter().filter_map(|e| Some(e.beside.as_ref()?.file.as_str())).collect();
    let group = |cells: usize, published: bool| -> Vec<&Entry> {
        let is_here = |e: &&&Entry| match (published, e.is_published) {
            (true, true) => e.cells.len() == cells && !beside.contains(&e.key.as_str()),
            (false, true) => beside.contains(&e.key.as_str()),
            (of_published, _) => !of_published,
        };
        shown.iter().filter(is_here).copied().collect()
    };
    html! {
        <section class="overview" aria-label="All records">
            <header class="heading">
                { heading("Records") }
                <p class="policy">
                    { "Warpbook is a lab for CUDA optimisation. Each record has the same work done in several ways, checked and timed. Tick \
                       two or more to compare them." }
                </p>
                if all.len() >= SEARCH_FROM { { toolbar(app, send, shown.len()) } }
                <div class="row ways">
                    { for compare_button(app, send) }
                    if all.len() > 1 {
                        { button("Class board", press(send, Msg::View(ViewMsg::Board(String::new())))) }
                    }
                    { share::paste(send) }
                </div>
                { share::kept(app, send) }
            </header>
            if shown.is_empty() {
                <p class="empty">{ "No record matches: change the search." }</p>
            }
            { cards(app, send, "Your records", &group(0, false)) }
            { cards(app, send, "Experiments", &group(0, true)) }
            { table(app, send, ("Guide: two ways to do the same work", &["Pair", "Slow way", "Fast way", "Ratio", "Reason"]), &group(4, true)) }
            { table(app, send, ("Training runs", &["Training", "Time", "Accuracy"]), &group(3, true)) }
        </section>
    }
}

/// Shows a group of records as cards, each pair below the sentence that compares them; a repeated sentence is shown
/// once.
fn cards(app: &App, send: &Send, title: &str, shown: &[&Entry]) -> Html {
    if shown.is_empty() {
        return Html::default();
    }
    let mut said: Vec<&str> = Vec::new();
    html! {
        <>
            <h2>{ title }</h2>
            <ul class="cards">
                { for paired(shown).into_iter().map(|(entry, beside)| {
                    let verdict = entry.beside.as_ref().map_or("", |b| &b.verdict);
                    let new = if said.contains(&verdict) { "" } else { verdict };
                    said.push(verdict);
                    item(app, send, entry, beside, new)
                }) }
            </ul>
        </>
    }
}

/// Shows a group of records as a table. If no column has the title, the first cell names the record.
fn table(app: &App, send: &Send, (title, heads): (&'static str, &[&'static str]), shown: &[&Entry]) -> Html {
    if shown.is_empty() {
        return Html::default();
    }
    html! {
        <>
            <h2>{ title }</h2>
            <table class="pairs">
                <thead><tr>{ for heads.iter().map(|h| html! { <th scope="col">{ *h }</th> }) }</tr></thead>
                <tbody>
                    { for shown.iter().map(|entry| {
                        let (name, cells) = match entry.cells.split_first() {
                            Some((first, rest)) if heads.len() <= entry.cells.len() => (first.as_str(), rest),
                            _ => (title_of(entry), entry.cells.as_slice()),
                        };
                        html! {
                            <tr key={entry.key.clone()}>
                                <th scope="row">{ open(send, entry, "open link", html! { name }) }{ compare_tick(app, send, entry) }</th>
                                { for cells.iter().map(|c| html! { <td title={c.clone()}>{ c }</td> }) }
                            </tr>
                        }
                    }) }
                </tbody>
            </table>
        </>
    }
}

/// Shows a button that opens a record.
fn open(send: &Send, entry: &Entry, class: &'static str, what: Html) -> Html {
    let select = press(send, Msg::View(ViewMsg::Select(entry.key.clone())));
    html! { <button type="button" {class} onclick={select} title={entry.name.clone()}>{ what }</button> }
}

/// Returns the records in order, each of the reader's records with the published one next to it.
fn paired<'a>(shown: &[&'a Entry]) -> Vec<(&'a Entry, Option<&'a Entry>)> {
    let mut out: Vec<(&Entry, Option<&Entry>)> = Vec::new();
    let mut taken: Vec<&str> = Vec::new();
    for entry in shown {
        let file = entry.beside.as_ref().map(|b| b.file.as_str());
        let other = shown.iter().find(|o| file == Some(o.key.as_str()) && !taken.contains(&o.key.as_str())).copied();
        taken.extend(other.map(|o| o.key.as_str()));
        out.push((entry, other));
    }
    out.retain(|(entry, _)| !taken.contains(&entry.key.as_str()));
    out
}

/// Shows a card, or a pair of cards with their verdict in a sentence.
fn item(app: &App, send: &Send, entry: &Entry, beside: Option<&Entry>, verdict: &str) -> Html {
    if entry.beside.is_none() {
        return card(app, send, entry);
    }
    html! {
        <li key={format!("{} beside", entry.key)} class="pair">
            if !verdict.is_empty() { <p class="beside">{ verdict.to_owned() }</p> }
            <ul class="cards">
                { card(app, send, entry) }
                if let Some(other) = beside { { card(app, send, other) } }
            </ul>
        </li>
    }
}

fn card(app: &App, send: &Send, entry: &Entry) -> Html {
    let what = html! {
        <>
                <span class="title">
                    // In a class many records are of the same experiment, so the author is named.
                    { title_of(entry) }{ if entry.author.is_empty() { String::new() } else { format!(": {}", entry.author) } }
                </span>
                if !entry.computes.is_empty() { <span class="work">{ &entry.computes }</span> }
                <span class="made">{ details_of(entry).join(" · ") }</span>
                if !entry.headline.is_empty() { <span class="said">{ &entry.headline }</span> }
                { sparkline(&entry.ladder) }
        </>
    };
    // The check box is next to the bars, or below the text if there are no bars.
    let class = if has_bars(&entry.ladder) { "open" } else { "open bare" };
    html! {
        <li key={entry.key.clone()} class="card">
            { open(send, entry, class, what) }
            <div class="row between">{ compare_tick(app, send, entry) }{ close(send, entry) }</div>
        </li>
    }
}

/// Returns true if a ladder has enough rungs for a picture.
fn has_bars(heights: &[f64]) -> bool {
    heights.iter().filter(|h| h.is_finite()).count() >= 2
}

/// Shows one bar per rung, the fastest in the accent colour. The headline has the same content for screen readers.
fn sparkline(heights: &[f64]) -> Html {
    const HEIGHT: f64 = 36.0;
    const STEP: f64 = 7.0;
    if !has_bars(heights) {
        return html! {};
    }
    let heights: Vec<f64> = heights.iter().filter(|h| h.is_finite()).map(|h| h.clamp(0.0, 1.0)).take(60).collect();
    let best = heights.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).map(|(i, _)| i);
    let bar = |(i, height): (usize, &f64)| {
        let tall = 3.0 + height * (HEIGHT - 3.0);
        let class = if best == Some(i) { "best" } else { "" };
        html! {
            <rect x={(i as f64 * STEP).to_string()} y={format!("{:.1}", HEIGHT - tall)} width="5" height={format!("{tall:.1}")} {class} />
        }
    };
    let width = heights.len() as f64 * STEP;
    html! {
        <svg class="sparkline" viewBox={format!("0 0 {width} {HEIGHT}")} width={width.to_string()} height={HEIGHT.to_string()}
            aria-hidden="true">{ for heights.iter().enumerate().map(bar) }</svg>
    }
}

fn toolbar(app: &App, send: &Send, left: usize) -> Html {
    let all = &app.library.entries;
    let filter = &app.filter;
    let (before, count) = (filter.clone(), format!("{left} of {}", all.len()));
    let typed = send.reform(move |text: String| Msg::View(ViewMsg::Filter(Filter { text, ..before.clone() })));
    html! {
        <div class="toolbar" role="search">
            { search(None, &filter.text, typed, None) }
            { choice(send, "Experiment", &all.iter().map(|e| e.experiment.as_str()).collect::<Vec<_>>(), filter, |f| &mut f.experiment) }
            { choice(send, "Device", &all.iter().map(|e| e.device.as_str()).collect::<Vec<_>>(), filter, |f| &mut f.device) }
            <p class="size" role="status">{ count }</p>
        </div>
    }
}

/// Shows a chooser of one value that occurs in the records, or of all values.
fn choice(
    send: &Send,
    what: &'static str,
    values: &[&str],
    filter: &Filter,
    part: fn(&mut Filter) -> &mut String,
) -> Html {
    let mut known: Vec<&str> = values.iter().copied().filter(|v| !v.is_empty()).collect();
    known.sort();
    known.dedup();
    if known.len() < 2 {
        return html! {};
    }
    let now = part(&mut filter.clone()).clone();
    let before = filter.clone();
    let changed = send.reform(move |value: String| {
        let mut filter = before.clone();
        *part(&mut filter) = value;
        Msg::View(ViewMsg::Filter(filter))
    });
    let all = std::iter::once(option("", "all", now.is_empty()));
    select(what, None, changed, all.chain(known.iter().map(|v| option(v, v, now == **v))).collect())
}
