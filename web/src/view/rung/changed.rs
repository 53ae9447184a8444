//! What a rung changed over the rung before it.

use super::source::{MAX_COLOURED_BYTES, closure, file, files, own_files, tokens};
use crate::difference::{Kind, Piece, difference};
use crate::format;
use crate::view::Send;
use warpbook_charts::changes;
use warpbook_record::{Problem, Run, Rung};
use yew::{Html, html};

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
    let others: Vec<String> = others
        .into_iter()
        .chain(names("Newly included", &included))
        .chain(names("No longer included", &no_longer))
        .collect();
    html! {
        <>
            <h3>{ since }</h3>
            { list(&others) }
            { for (0..new.len().max(old.len())).map(|i| pair(run, old.get(i).copied(), new.get(i).copied())) }
            { for included.iter().map(|path| file(path, run.sources.get(*path).map(String::as_str), false)) }
        </>
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

/// Two files line by line; of one that has no counterpart all lines are new, or gone.
fn pair(run: &Run, old: Option<&str>, new: Option<&str>) -> Html {
    if old == new {
        let path = new.unwrap_or_default();
        return html! { <p class="quiet">{ format!("Both have the same source, {path}.") }</p> };
    }
    let text = |path: Option<&str>| path.map_or(Some(""), |p| run.sources.get(p).map(String::as_str));
    let title = [old, new].into_iter().flatten().collect::<Vec<_>>().join(" → ");
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
