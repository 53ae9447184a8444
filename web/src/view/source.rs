//! The source of a rung's kernels.

use super::{Send, record};
use crate::app::{App, Msg};
use crate::format;
use crate::highlight::{class, includes, lines};
use std::collections::BTreeMap;
use warpbook_record::{KernelSpec, Run, Rung};
use web_sys::HtmlSelectElement;
use yew::{Event, Html, TargetCast, html};

/// Longer files are shown without colours: each token is an element.
const MAX_COLOURED_BYTES: usize = 200_000;

/// A rung to choose, what it is, and its files.
pub fn source(app: &App, send: &Send, run: &Run) -> Html {
    let with_source = || run.rungs.iter().find(|r| !r.kernels().is_empty());
    let by_link = app.link.rung.as_deref().and_then(|id| run.rung(id));
    let Some(rung) = by_link.or_else(with_source).or(run.rungs.first()) else {
        return html! { <p class="empty">{ "The record has no rungs." }</p> };
    };
    let changed = send.reform(|e: Event| Msg::Rung(e.target_unchecked_into::<HtmlSelectElement>().value()));
    let files = files_of(&run.sources, rung);
    html! {
        <>
            <div class="toolbar">
                <label class="size">
                    { "Rung" }
                    <select id="rung" onchange={changed}>
                        { options(run, rung, "Kernels", |r| !r.kernels().is_empty()) }
                        { options(run, rung, "CPU and libraries", |r| {
                            r.kernels().is_empty() && format::framework(r).is_none()
                        }) }
                        { options(run, rung, "Other frameworks", |r| format::framework(r).is_some()) }
                    </select>
                </label>
            </div>
            <h2>{ rung.title.as_ref() }</h2>
            <p class="idea">{ rung.idea.as_ref() }</p>
            <p>{ format::runner(rung) }{ " " }{ format::requires(&rung.requires) }{ variant(run, rung) }</p>
            { choices(run, rung) }
            if !rung.kernels().is_empty() {
                <details>
                    <summary>{ format::counted(rung.kernels().len(), "kernel") }{ " and the permitted tiles" }</summary>
                    <ul class="kernels">{ for rung.kernels().iter().map(kernel) }</ul>
                </details>
            }
            { for files.iter().enumerate().map(|(i, (path, text))| file(send, path, *text, i == 0)) }
            if let Some(name) = format::framework(rung) {
                <p class="empty">{ format!("This rung is of {name}, whose code is not in the record.") }</p>
            } else if files.is_empty() {
                <p class="empty">{ "The record keeps the source of kernels; this rung has none." }</p>
            }
        </>
    }
}

/// The rungs of a kind, where there are some.
fn options(run: &Run, chosen: &Rung, label: &'static str, of: impl Fn(&Rung) -> bool) -> Html {
    let rungs: Vec<&Rung> = run.rungs.iter().filter(|r| of(r)).collect();
    html! {
        if !rungs.is_empty() {
            <optgroup {label}>
                { for rungs.iter().map(|r| html! {
                    <option value={r.id.to_string()} selected={r.id == chosen.id}>
                        { format!("{} ({})", r.title, r.id) }
                    </option>
                }) }
            </optgroup>
        }
    }
}

/// The rung that this one is a variant of, as a sentence.
fn variant(run: &Run, rung: &Rung) -> Option<String> {
    let base = rung.variant_of.as_deref()?;
    let title = run.rung(base).map_or(base, |r| r.title.as_ref());
    Some(format!(" A variant of {title}."))
}

/// What the rung's rule chose for each problem, and why.
fn choices(run: &Run, rung: &Rung) -> Html {
    let chosen = run.measurements.iter().filter(|m| m.rung == rung.id);
    let chosen: Vec<(&str, &str)> =
        chosen.filter_map(|m| Some((m.problem.label.as_str(), m.choice.as_deref()?))).collect();
    html! {
        if !chosen.is_empty() {
            <h3>{ "Chosen by size" }</h3>
            <dl class="choices">
                { for chosen.iter().map(|(problem, why)| html! { <div><dt>{ *problem }</dt><dd>{ *why }</dd></div> }) }
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

/// The files of a rung's kernels, then those that they include, each once; `None` where the record does not have it.
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
        // An include that the record does not have is the toolkit's.
        let found = sources.get(*path).map(|text| includes(text)).unwrap_or_default();
        found.into_iter().filter(|p| sources.contains_key(*p)).for_each(|p| add(&mut paths, p));
        at += 1;
    }
    paths.into_iter().map(|p| (p, sources.get(p).map(String::as_str))).collect()
}

fn file(send: &Send, path: &str, text: Option<&str>, open: bool) -> Html {
    let Some(text) = text else {
        return html! { <p class="empty">{ format!("The record does not hold {path}.") }</p> };
    };
    html! {
        <details key={path.to_owned()} class="file" {open}>
            <summary>{ path }</summary>
            <div class="row end">{ record::copy(send, "the file", text, "Copy the file") }</div>
            <pre class="scroll code" tabindex="0" aria-label={format!("Source of {path}")}><code>{ code(text) }</code></pre>
        </details>
    }
}

fn code(text: &str) -> Html {
    if text.len() > MAX_COLOURED_BYTES {
        return html! { { text } };
    }
    // The line break is inside the line, so that a selection copies it; the numbers are drawn by the style.
    lines(text)
        .into_iter()
        .map(|line| {
            html! {
                <span class="line">
                    { for line.into_iter().map(|t| match class(t.kind) {
                        Some(class) => html! { <span {class}>{ t.text }</span> },
                        None => html! { { t.text } },
                    }) }
                    { "\n" }
                </span>
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open::tests::sample_run;

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
        // Files that include each other end too.
        run.sources.insert("reduce.cuh".into(), "#include \"regression/02_fused.cu\"\n#include \"none.h\"".into());
        assert_eq!(names(&run).len(), 2);
        run.sources.clear();
        assert_eq!(names(&run), [("regression/02_fused.cu".into(), false)]);
    }
}
