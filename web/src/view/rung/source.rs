//! The source of a rung's kernels.

use crate::record::rungs::{framework, requires, runner};
use crate::text::format;
use crate::text::highlight::{class, includes, lines};
use crate::view::controls::{Send, copy};
use std::collections::BTreeMap;
use warpbook_charts::highlight::Token;
use warpbook_record::{KernelSpec, Run, Rung};
use yew::{Html, html};

/// Files longer than this are shown without colours, since each coloured token is an element.
pub const MAX_COLOURED_BYTES: usize = 200_000;

/// Shows the rung's files and their includes; the first is open.
pub fn files(send: &Send, run: &Run, rung: &Rung) -> Html {
    let files = files_of(&run.sources, rung);
    html! {
        <>
            { for files.iter().enumerate().map(|(i, (path, text))| html! {
                <div key={path.to_string()} class="copied">
                    { file(path, *text, i == 0) }
                    { for text.map(|text| copy(send, "the file", text, "Copy the file")) }
                </div>
            }) }
            if let Some(name) = framework(rung) {
                <p class="empty">{ format!("This rung is of {name}, whose code is not in the record.") }</p>
            } else if files.is_empty() {
                <p class="empty">{ "The record keeps the source of kernels; this rung has none." }</p>
            }
        </>
    }
}

/// Shows what runs the rung, what it needs, its kernels with their tiles, and the choice for each problem.
pub fn about(run: &Run, rung: &Rung) -> Html {
    html! {
        <>
            <p>{ runner(rung) }{ " " }{ requires(&rung.requires) }{ variant(run, rung) }</p>
            if !rung.kernels().is_empty() {
                <details>
                    <summary>{ format::counted(rung.kernels().len(), "kernel") }{ " and the permitted tiles" }</summary>
                    <ul class="kernels">{ for rung.kernels().iter().map(kernel) }</ul>
                </details>
            }
            { choices(run, rung) }
        </>
    }
}

/// Returns a sentence about the rung that this one is a variant of.
fn variant(run: &Run, rung: &Rung) -> Option<String> {
    let base = rung.variant_of.as_deref()?;
    let title = run.rung(base).map_or(base, |r| r.title.as_ref());
    Some(format!(" A variant of {title}."))
}

/// Shows what the rung's rule chose for each problem, and why.
fn choices(run: &Run, rung: &Rung) -> Html {
    let chosen = run.measurements.iter().filter(|m| m.rung == rung.id);
    let chosen: Vec<(&str, &str)> =
        chosen.filter_map(|m| Some((m.problem.label.as_str(), m.choice.as_deref()?))).collect();
    html! {
        if !chosen.is_empty() {
            <h3>{ "Chosen by size" }</h3>
            <dl class="choices">
                { for chosen.iter().map(|(problem, why)| html! { <div><dt>{ *problem }</dt><dd>{ format::versions(why) }</dd></div> }) }
            </dl>
        }
    }
}

fn kernel(spec: &KernelSpec) -> Html {
    let tiles: Vec<String> = spec
        .tiles
        .iter()
        .map(|t| {
            let sizes: Vec<_> = t.defines.iter().map(|d| format!("{} {}", d.name, d.value)).collect();
            format!("{} ({})", t.id, sizes.join(", "))
        })
        .collect();
    let defines: Vec<String> = spec.defines.iter().map(|d| format!("{}={}", d.name, d.value)).collect();
    html! {
        <li>
            <code>{ spec.entry.as_ref() }</code>{ format!(": {}", spec.grid.sentence()) }
            if !defines.is_empty() { { format!("; compiled with {}", defines.join(", ")) } }
            if let Some(needs) = &spec.requires { { format!("; needs {}", needs.sentence()) } }
            if !tiles.is_empty() {
                <span class="detail">{ format!("Tiles: {}", tiles.join("; ")) }</span>
            }
        </li>
    }
}

/// Returns the files of a rung's kernels, then their includes, each once; the text is `None` if the record lacks it.
fn files_of<'a>(sources: &'a BTreeMap<String, String>, rung: &'a Rung) -> Vec<(&'a str, Option<&'a str>)> {
    let mut paths: Vec<&str> = Vec::new();
    let add = |paths: &mut Vec<&'a str>, path: &'a str| {
        if !paths.contains(&path) {
            paths.push(path);
        }
    };
    rung.kernels().iter().for_each(|k| add(&mut paths, &k.file));
    let mut at = 0;
    while let Some(path) = paths.get(at) {
        // An include that the record lacks belongs to the CUDA toolkit.
        let found = sources.get(*path).map(|text| includes(text)).unwrap_or_default();
        found.into_iter().filter(|p| sources.contains_key(*p)).for_each(|p| add(&mut paths, p));
        at += 1;
    }
    paths.into_iter().map(|p| (p, sources.get(p).map(String::as_str))).collect()
}

/// Returns the paths of the files of a rung's kernels and of their includes.
pub fn closure<'a>(sources: &'a BTreeMap<String, String>, rung: &'a Rung) -> Vec<&'a str> {
    files_of(sources, rung).into_iter().map(|(path, _)| path).collect()
}

/// Returns the files of a rung's kernels, each once.
pub fn own_files(rung: &Rung) -> Vec<&str> {
    let mut paths: Vec<&str> = rung.kernels().iter().map(|k| k.file.as_ref()).collect();
    let mut seen = std::collections::HashSet::new();
    paths.retain(|p| seen.insert(*p));
    paths
}

/// Shows a file's source in a collapsible section.
pub fn file(path: &str, text: Option<&str>, open: bool) -> Html {
    let Some(text) = text else {
        return html! { <p class="empty">{ format!("The record does not hold {path}.") }</p> };
    };
    html! {
        <details key={path.to_owned()} class="file" {open}>
            <summary>{ path }</summary>
            <pre class="scroll code" tabindex="0" aria-label={format!("Source of {path}")}><code>{ code(text) }</code></pre>
        </details>
    }
}

fn code(text: &str) -> Html {
    if text.len() > MAX_COLOURED_BYTES {
        return html! { { text } };
    }
    // The line break is inside the line element, so that a selection copies it; the style draws the numbers.
    lines(text).iter().map(|line| html! { <span class="line">{ tokens(line) }{ "\n" }</span> }).collect()
}

/// Shows a line's tokens in their colours.
pub fn tokens(line: &[Token<'_>]) -> Html {
    line.iter()
        .map(|t| match class(t.kind) {
            Some(class) => html! { <span {class}>{ t.text }</span> },
            None => html! { { t.text } },
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::sample_run;

    #[test]
    fn a_variant_names_its_rung() {
        let mut run = sample_run();
        assert_eq!(variant(&run, &run.rungs[0]), None);
        assert_eq!(variant(&run, &run.rungs[1]).as_deref(), Some(" A variant of Fused."));
        let mine = run.rungs.remove(1);
        run.rungs.clear();
        assert_eq!(variant(&run, &mine).as_deref(), Some(" A variant of 02_fused."));
    }

    #[test]
    fn a_rung_has_its_files_and_what_they_include() {
        let mut run = sample_run();
        let names = |run: &Run| {
            files_of(&run.sources, &run.rungs[0]).iter().map(|(p, t)| (p.to_string(), t.is_some())).collect::<Vec<_>>()
        };
        assert_eq!(names(&run), [("regression/02_fused.cu".into(), true), ("reduce.cuh".into(), true)]);
        // The search ends even if files include each other.
        run.sources.insert("reduce.cuh".into(), "#include \"regression/02_fused.cu\"\n#include \"none.h\"".into());
        assert_eq!(names(&run).len(), 2);
        run.sources.clear();
        assert_eq!(names(&run), [("regression/02_fused.cu".into(), false)]);
    }
}
