//! The changes of a rung against the rung before it.

use super::source::{MAX_COLOURED_BYTES, closure, file, files, own_files, tokens};
use crate::record::rungs::title;
use crate::text::difference::{Kind, Piece, difference};
use crate::text::format;
use crate::view::controls::Send;
use warpbook_charts::{changes, lines_in_common};
use warpbook_record::{Problem, Run, Rung};
use yew::{Html, html};

/// Shows changes in the launch, in the kernels' files and in their includes, or the whole source if there is no rung to
/// compare with.
pub fn changed(send: &Send, run: &Run, (problem, rung, before): (Option<&Problem>, &Rung, Option<&Rung>)) -> Html {
    let Some(before) = before else {
        return html! { <><p class="quiet">{ "No rung of its kind comes before it." }</p>{ files(send, run, rung) }</> };
    };
    let (new, old) = (own_files(rung), own_files(before));
    let others = problem.map(|p| changes(run, p, before, rung)).unwrap_or_default();
    let since = format!("Since {}", title(before));
    if new.is_empty() || old.is_empty() {
        let which = if new.is_empty() { rung } else { before };
        let why = format!("The record has no source of {}, so there are no lines to compare.", title(which));
        return html! { <><h3>{ since }</h3>{ list(&others) }<p class="quiet">{ why }</p>{ files(send, run, rung) }</> };
    }
    let (included, no_longer) = (apart(run, rung, before), apart(run, before, rung));
    let names = |what: &str, paths: &[&str]| (!paths.is_empty()).then(|| format!("{what}: {}", paths.join(", ")));
    let text = |path: &str| run.sources.get(path).map_or("", String::as_str);
    let alike = |old: &str, new: &str| {
        let (old, new) = (text(old), text(new));
        lines_in_common(old, new) as f64 / new.lines().filter(|l| !l.trim().is_empty()).count().max(1) as f64
    };
    let Pairs { both, pairs, added, removed } = Pairs::match_files(&old, &new, alike);
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

/// A new file that shares at least this fraction of its lines with an old one is compared with it.
const LEAST_ALIKE: f64 = 0.2;

/// The files of two rungs, paired for comparison.
#[derive(Debug, PartialEq, Eq)]
struct Pairs<'a> {
    /// Files that both rungs use.
    both: Vec<&'a str>,
    /// The later rung's other files, each with the most similar file of the earlier rung.
    pairs: Vec<(&'a str, &'a str)>,
    /// The later rung's files without a counterpart.
    added: Vec<&'a str>,
    /// The earlier rung's files that are no longer used.
    removed: Vec<&'a str>,
}

impl<'a> Pairs<'a> {
    /// Pairs files; `alike` returns the fraction of a file's lines that another file also has. A file may be paired with one
    /// that both rungs use, since it may have been derived from that file.
    fn match_files(old: &[&'a str], new: &[&'a str], alike: impl Fn(&str, &str) -> f64) -> Self {
        let (both, fresh): (Vec<&str>, Vec<&str>) = new.iter().copied().partition(|p| old.contains(p));
        let (mut pairs, mut added): (Vec<(&str, &str)>, Vec<&str>) = (Vec::new(), Vec::new());
        for path in fresh {
            let likeness = old.iter().map(|o| (alike(o, path), *o));
            // On a tie, the file that is no longer used wins, since the new one replaced it.
            let best = likeness.max_by(|a, b| a.0.total_cmp(&b.0).then(both.contains(&b.1).cmp(&both.contains(&a.1))));
            match best.filter(|(part, _)| *part >= LEAST_ALIKE) {
                Some((_, from)) => pairs.push((from, path)),
                None => added.push(path),
            }
        }
        let is_gone = |p: &&str| !new.contains(p) && pairs.iter().all(|(from, _)| from != p);
        let removed = old.iter().copied().filter(is_gone).collect();
        Self { both, pairs, added, removed }
    }
}

fn list(of: &[String]) -> Html {
    html! { if !of.is_empty() { <ul class="changes">{ for of.iter().map(|c| html! { <li>{ c }</li> }) }</ul> } }
}

/// Returns the files that one rung includes and another does not.
fn apart<'a>(run: &'a Run, one: &'a Rung, other: &Rung) -> Vec<&'a str> {
    let (own, others) = (own_files(one), closure(&run.sources, other));
    let all = closure(&run.sources, one).into_iter();
    all.filter(|p| !own.contains(p) && !others.contains(p)).collect()
}

/// Shows the differences between two files line by line.
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
        let alike = |old: &str, new: &str| match (old, new) {
            ("cluster", "many") => 0.9,
            ("persistent", "chip") | ("shared", "many") => 0.5,
            _ => 0.1,
        };
        let found = Pairs::match_files(&["chip", "cluster", "shared"], &["shared", "many"], alike);
        let expect =
            Pairs { both: vec!["shared"], pairs: vec![("cluster", "many")], added: vec![], removed: vec!["chip"] };
        assert_eq!(found, expect);
        assert_eq!(Pairs::match_files(&["a"], &["a", "b"], alike).added, ["b"]);
        let grown = Pairs::match_files(&["persistent"], &["chip", "persistent"], alike);
        assert_eq!(
            (grown.pairs, grown.added.len()),
            (vec![("persistent", "chip")], 0),
            "out of a file that is still used"
        );
    }
}
