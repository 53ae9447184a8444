//! What a rung changed over the rung before it.

use super::source::{MAX_COLOURED_BYTES, closure, file, files, own_files, tokens};
use crate::difference::{Kind, Piece, difference};
use crate::format;
use crate::markup::html;
use crate::view::Send;
use warpbook_charts::changes;
use warpbook_record::{Problem, Run, Rung};
use yew::Html;

/// In the launch, in the files of its kernels, and in what these include; without anything to compare with, its source.
pub fn changed(send: &Send, run: &Run, (problem, rung, before): (Option<&Problem>, &Rung, Option<&Rung>)) -> Html {
    let Some(before) = before else {
        return html! { <><p class="quiet">{ "No rung of its kind comes before it." }</p>{ files(send, run, rung) }</> };
    };
    let (new, old) = (own_files(rung), own_files(before));
    let others = problem.map(|p| changes(run, p, before, rung)).unwrap_or_default();
    let since = format!("Since {}", format::title(before));
    if new.is_empty() || old.is_empty() {
        let which = if new.is_empty() { rung } else { before };
        let why = format!("The record has no source of {}, so there are no lines to compare.", format::title(which));
        return html! { <><h3>{ since }</h3>{ list(&others) }<p class="quiet">{ why }</p>{ files(send, run, rung) }</> };
    }
    let (included, no_longer) = (apart(run, rung, before), apart(run, before, rung));
    let names = |what: &str, paths: &[&str]| (!paths.is_empty()).then(|| format!("{what}: {}", paths.join(", ")));
    let Pairs { both, pairs, added, removed } = Pairs::of(&old, &new);
    let others: Vec<String> = others
        .into_iter()
        .chain(names("Same source", &both))
        .chain(names("No longer used", &removed))
        .chain(names("Newly included", &included))
        .chain(names("No longer included", &no_longer))
        .collect();
    let folded = added.iter().chain(&included);
    html! {
        <>
            <h3>{ since }</h3>
            { list(&others) }
            { for pairs.iter().map(|(old, new)| pair(run, old, new)) }
            { for folded.map(|path| file(path, run.sources.get(*path).map(String::as_str), pairs.is_empty())) }
        </>
    }
}

/// The files of two rungs, put next to each other.
#[derive(Debug, PartialEq, Eq)]
struct Pairs<'a> {
    /// Files of both.
    both: Vec<&'a str>,
    /// The others in their order.
    pairs: Vec<(&'a str, &'a str)>,
    /// Of the later, without a counterpart.
    added: Vec<&'a str>,
    /// Of the earlier.
    removed: Vec<&'a str>,
}

impl<'a> Pairs<'a> {
    fn of(old: &[&'a str], new: &[&'a str]) -> Self {
        let only = |one: &[&'a str], other: &[&'a str]| -> Vec<&'a str> {
            one.iter().copied().filter(|p| !other.contains(p)).collect()
        };
        let both = new.iter().copied().filter(|p| old.contains(p)).collect();
        let (mut removed, mut added) = (only(old, new), only(new, old));
        let paired = removed.len().min(added.len());
        let pairs = removed.drain(..paired).zip(added.drain(..paired)).collect();
        Self { both, pairs, added, removed }
    }
}

fn list(of: &[String]) -> Html {
    html! { if !of.is_empty() { <ul class="changes">{ for of.iter().map(|c| html! { <li>{ c }</li> }) }</ul> } }
}

/// The files that one rung includes and another does not.
fn apart<'a>(run: &'a Run, one: &'a Rung, other: &Rung) -> Vec<&'a str> {
    let (own, others) = (own_files(one), closure(&run.sources, other));
    let all = closure(&run.sources, one).into_iter();
    all.filter(|p| !own.contains(p) && !others.contains(p)).collect()
}

/// Two files line by line.
fn pair(run: &Run, old: &str, new: &str) -> Html {
    let text = |path: &str| run.sources.get(path).map(String::as_str);
    let title = format!("{old} → {new}");
    let (Some(before), Some(after)) = (text(old), text(new)) else {
        return html! { <p class="quiet">{ format!("The record does not hold both files of {title}.") }</p> };
    };
    let is_long = before.len().max(after.len()) > MAX_COLOURED_BYTES;
    let Some(found) = difference(before, after).filter(|_| !is_long) else {
        return html! { <p class="quiet">{ format!("{title}: too long to compare line by line.") }</p> };
    };
    let count = format!("{} added, {} removed", format::counted(found.added, "line"), found.removed);
    html! {
        <div class="file" key={title.clone()}>
            <p class="between"><code>{ &title }</code><span class="detail">{ &count }</span></p>
            <pre class="scroll code" tabindex="0" aria-label={format!("{title}: {count}")}><code class="difference">
                { for found.pieces.iter().map(piece) }
            </code></pre>
        </div>
    }
}

fn piece(of: &Piece<'_>) -> Html {
    match of {
        Piece::Skipped(n) => {
            html! { <span class="skipped">{ format!("{} as before\n", format::counted(*n, "line")) }</span> }
        }
        Piece::Line(kind, number, line) => {
            let (number, text) = (number.to_string(), html! { <>{ tokens(line) }{ "\n" }</> });
            match kind {
                Kind::Same => html! { <span class="line" data-line={number}>{ text }</span> },
                Kind::Added => html! { <ins class="line" data-line={number}>{ text }</ins> },
                Kind::Removed => html! { <del class="line" data-line={number}>{ text }</del> },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_paired_once_those_of_both_are_out() {
        let found = Pairs::of(&["chip", "cluster", "shared"], &["shared", "many"]);
        let expect =
            Pairs { both: vec!["shared"], pairs: vec![("chip", "many")], added: vec![], removed: vec!["cluster"] };
        assert_eq!(found, expect);
        assert_eq!(Pairs::of(&["a"], &["a", "b"]).added, ["b"]);
    }
}
