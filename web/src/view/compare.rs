//! Two or more records side by side.

use super::{Send, chart};
use crate::app::{App, Msg};
use crate::facts::{Difference, differences};
use crate::format::NONE;
use crate::link::Size;
use warpbook_charts as charts;
use warpbook_record::{Problem, Run};
use web_sys::HtmlSelectElement;
use yew::{Event, Html, TargetCast, html};

/// The ticked records: their ladders in one chart, their sweeps in another, and what differs between their environments.
pub fn compare(app: &App, send: &Send) -> Html {
    let ticked = app.ticked();
    if ticked.len() < 2 {
        let text = if app.library.entries.len() < 2 {
            "Open a second record to compare this one with."
        } else {
            "Tick two or more records in the list to compare them."
        };
        return html! { <p class="empty">{ text }</p> };
    }
    let runs: Vec<&Run> = ticked.iter().map(|(_, run)| *run).collect();
    let names: Vec<String> = ticked.iter().map(|(e, _)| format!("{}, {} ({})", e.title, e.device, e.name)).collect();
    let sizes = common_sizes(&runs);
    let preferred = [app.link.size.map(|s| s.size), runs[0].main_problem().map(Problem::size)];
    let size = preferred.into_iter().flatten().find(|s| sizes.contains(s)).or(sizes.last().copied());
    // What must not stand in one chart is said once, by the first.
    let sweep = charts::sweep(&runs).ok().filter(|_| runs.iter().any(|r| r.problems().len() > 1));
    let (differ, same) = differences(&runs);
    html! {
        <>
            <ol class="compared">{ for names.iter().map(|n| html! { <li>{ n }</li> }) }</ol>
            { for size.filter(|_| sizes.len() > 1).map(|now| size_choice(send, &runs, &sizes, now)) }
            if let Some(size) = size {
                { chart::chart(send, charts::compare(&runs, size), "compare") }
            } else {
                <p class="empty">{ "The records have no size in common." }</p>
            }
            { for sweep.map(|drawn| chart::chart(send, Ok(drawn), "compare-sweep")) }
            <section class="sheet">
                <h2>{ "Differences between the environments" }</h2>
                if differ.is_empty() {
                    <p>{ "None." }</p>
                } else {
                    { table("Differences between the environments", &differ, &names) }
                }
                if !same.is_empty() {
                    <details>
                        <summary>{ "What is the same" }</summary>
                        { table("What is the same", &same, &names) }
                    </details>
                }
            </section>
        </>
    }
}

/// The sizes that every record has, smallest first.
fn common_sizes(runs: &[&Run]) -> Vec<u64> {
    let of = |run: &Run| run.problems().iter().map(|p| p.size()).collect::<Vec<_>>();
    let mut sizes = runs.first().map(|r| of(r)).unwrap_or_default();
    for run in runs {
        let theirs = of(run);
        sizes.retain(|s| theirs.contains(s));
    }
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

fn size_choice(send: &Send, runs: &[&Run], sizes: &[u64], now: u64) -> Html {
    let label = |size: u64| {
        let problems = runs[0].problems();
        problems.iter().find(|p| p.size() == size).map_or_else(|| size.to_string(), |p| p.short_label())
    };
    let changed = send.reform(|e: Event| {
        let value = e.target_unchecked_into::<HtmlSelectElement>().value();
        Msg::Size(Size { size: value.parse().unwrap_or(0), nth: 0 })
    });
    html! {
        <div class="toolbar">
            <label class="size">
                { "Size" }
                <select id="size" onchange={changed}>
                    { for sizes.iter().map(|s| html! {
                        <option value={s.to_string()} selected={*s == now}>{ label(*s) }</option>
                    }) }
                </select>
            </label>
        </div>
    }
}

fn table(title: &str, rows: &[Difference], names: &[String]) -> Html {
    let value = |v: &Option<String>| match v {
        Some(v) => html! { <td>{ v }</td> },
        None => html! { <td class="quiet">{ NONE }</td> },
    };
    html! {
        <div class="scroll" tabindex="0" role="region" aria-label={format!("Table: {title}")}>
            <table class="wrap">
                <thead>
                    <tr>
                        <th scope="col">{ "Fact" }</th>
                        { for (1..=names.len()).map(|n| html! { <th scope="col">{ format!("Record {n}") }</th> }) }
                    </tr>
                </thead>
                <tbody>
                    { for rows.iter().map(|d| html! {
                        <tr><th scope="row">{ &d.name }</th>{ for d.values.iter().map(value) }</tr>
                    }) }
                </tbody>
            </table>
        </div>
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open::tests::sample_run;

    #[test]
    fn only_sizes_of_every_record_are_offered() {
        let one = sample_run();
        let mut two = one.clone();
        two.measurements.truncate(2);
        assert_eq!(common_sizes(&[&one, &one]), [1_000_000, 5_000_000]);
        assert_eq!(common_sizes(&[&one, &two]), [5_000_000]);
        two.measurements.clear();
        assert!(common_sizes(&[&one, &two]).is_empty());
    }
}
