//! Two or more records side by side.

use super::{Send, chart, record};
use crate::app::App;
use crate::facts::{Difference, author, differences};
use crate::format::NONE;
use crate::problems;
use warpbook_charts as charts;
use warpbook_record::{Problem, Run};
use yew::{Html, html};

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
    let names: Vec<String> = ticked
        .iter()
        .map(|(e, run)| {
            let by = author(run).map_or_else(String::new, |author| format!(", run by {author}"));
            format!("{}, {}{by} ({})", e.title, e.device, e.name)
        })
        .collect();
    let shared = problems::shared(&runs);
    let asked = app.link.problem.as_ref().and_then(|c| c.find(runs[0]));
    let now = chosen(&shared, asked.into_iter().chain(runs[0].main_problem()));
    // What must not share one chart is said once, by the first.
    let sweep = now.and_then(|now| sweep(&runs, now).ok());
    let (differ, same) = differences(&runs);
    html! {
        <>
            <ol class="compared">{ for names.iter().map(|n| html! { <li>{ n }</li> }) }</ol>
            { for now.filter(|_| shared.len() > 1).map(|now| problem_choice(send, &shared, now[0])) }
            if let Some(now) = now {
                { chart::chart(send, ladders(&runs, now), "compare") }
            } else {
                <p class="empty">{ "The records have no problem in common." }</p>
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

/// The problem of each record that is shown: the first of those that are wanted and shared, else the last that is shared.
fn chosen<'s, 'a>(
    shared: &'s [Vec<&'a Problem>],
    wanted: impl Iterator<Item = &'a Problem>,
) -> Option<&'s [&'a Problem]> {
    let of = |p: &Problem| shared.iter().find(|s| *s[0] == *p);
    wanted.filter_map(of).next().or(shared.last()).map(Vec::as_slice)
}

/// The ladders of the records, each at its problem.
fn ladders(runs: &[&Run], of: &[&Problem]) -> Result<charts::Chart, charts::ChartError> {
    let cut: Vec<Run> = runs.iter().zip(of).map(|(run, problem)| problems::only(run, problem)).collect();
    charts::compare(&cut.iter().collect::<Vec<_>>(), of[0].size())
}

/// The headline quantity of the first record over the sizes of the records, along the line of a problem.
fn sweep(runs: &[&Run], of: &[&Problem]) -> Result<charts::Chart, charts::ChartError> {
    let line = problems::on_a_line(runs[0], of[0]);
    charts::sweep_of(runs, runs[0].descriptor.headline, line, None)
}

fn problem_choice(send: &Send, shared: &[Vec<&Problem>], now: &Problem) -> Html {
    let groups = problems::grouped(shared.iter().map(|s| s[0]).collect());
    html! { <div class="toolbar">{ record::chooser(send, "Problem", &groups, now) }</div> }
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
    fn the_problem_asked_for_comes_before_the_main_one() {
        let one = sample_run();
        let mut two = one.clone();
        let runs = [&one, &one];
        let shared = problems::shared(&runs);
        let main = || one.main_problem().into_iter();
        let short = |of: Option<&[&Problem]>| of.map(|of| of[0].short.clone());
        assert_eq!(short(chosen(&shared, main())).as_deref(), Some("5 M"));
        let small = one.problems()[1];
        assert_eq!(short(chosen(&shared, std::iter::once(small).chain(main()))).as_deref(), Some("1 M"));
        two.measurements.retain(|m| m.problem == *small);
        let runs = [&one, &two];
        let shared = problems::shared(&runs);
        assert_eq!(short(chosen(&shared, main())).as_deref(), Some("1 M"), "the main problem is not shared");
        assert!(chosen(&[], main()).is_none());
    }

    #[test]
    fn records_are_drawn_together_at_any_problem_that_they_share() {
        let mut one = sample_run();
        one.train_logs.clear();
        let runs = [&one, &one];
        for of in problems::shared(&runs) {
            let chart = ladders(&runs, &of).unwrap();
            assert!(chart.svg.as_str().contains(&of[0].label), "{}", of[0].label);
        }
        assert!(sweep(&runs, &problems::shared(&runs)[0]).is_ok());
        // Without a place on a line, as an odd shape.
        let mut odd = one.clone();
        let problem = odd.problems()[0].with(|p| p.sweep = None);
        odd.measurements.retain(|m| m.problem == problem);
        odd.measurements.iter_mut().for_each(|m| m.problem = problem.clone());
        let runs = [&odd, &odd];
        assert!(ladders(&runs, &problems::shared(&runs)[0]).is_ok());
        assert!(sweep(&runs, &problems::shared(&runs)[0]).is_err());
    }
}
