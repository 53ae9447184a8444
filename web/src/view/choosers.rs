//! Choosers for a record's charts: problem, quantity, rung.

use super::controls::{Send, option, option_group, select};
use crate::address::ProblemChoice;
use crate::app::{ChartMsg, Msg, RungMsg};
use crate::record::Tab;
use crate::record::problems::{self, Group};
use crate::record::quantities::{quantities, quantity_id};
use crate::text::format;
use warpbook_charts as charts;
use warpbook_record::{Problem, Quantity, Run};
use yew::{Callback, Event, Html, html};

/// Shows a chooser of the quantity in the ladder and the sweep.
pub fn quantity_choice(send: &Send, run: &Run, problem: &Problem, now: Quantity) -> Html {
    html! {
        <fieldset class="segments">
            <legend class="visually-hidden">{ "Quantity" }</legend>
            { for quantities(run, problem).into_iter().map(|q| html! {
                <label key={quantity_id(q)}>
                    <input type="radio" name="quantity" value={quantity_id(q)} checked={q == now}
                        onchange={send.reform(move |_: Event| Msg::Chart(ChartMsg::Quantity(q)))} />
                    <span>{ format::sentence_case(&charts::quantity_name(run, q)) }</span>
                </label>
            }) }
        </fieldset>
    }
}

/// Shows a chooser of problems, grouped if there are several groups.
pub fn problem_chooser(send: &Send, groups: &[Group<'_>], now: &Problem, label: impl Fn(&Problem) -> String) -> Html {
    let options =
        |g: &Group<'_>| -> Vec<Html> { g.problems.iter().map(|p| option(&p.id, &label(p), *p == now)).collect() };
    let all = match groups {
        [group] => options(group).into_iter().collect(),
        _ => groups.iter().map(|g| option_group(&g.label, options(g).into_iter())).collect(),
    };
    select("Problem", Some("problem"), on_choice(send), all)
}

/// Returns a callback that shows the problem with the chosen id.
fn on_choice(send: &Send) -> Callback<String> {
    send.reform(|id: String| Msg::Chart(ChartMsg::Problem(ProblemChoice::Id(id))))
}

/// Shows choosers for the problems that a tab can show: one list, or one chooser each for type, shape and layout.
pub fn problem_choice(send: &Send, run: &Run, now: &Problem, tab: Tab) -> Html {
    let all = tab.problems(run, now);
    match all.as_slice() {
        // A single problem is already named in the record's heading.
        [] | [_] => html! {},
        _ => facet_choosers(send, &all, now).unwrap_or_else(|| {
            problem_chooser(send, &problems::grouped(all.clone()), now, |p| problems::label_among(p, &all))
        }),
    }
}

/// Shows choosers of type, shape and layout, if these can be chosen separately.
fn facet_choosers(send: &Send, all: &[&Problem], now: &Problem) -> Option<Html> {
    let values = problems::apart(all)?;
    let of_now = problems::facets(now);
    let chooser = |facet: usize, what: &'static str, id: &'static str| {
        let options = values[facet].iter().filter_map(|v| Some((v, problems::with_facet(all, now, facet, v)?)));
        let options = options.map(|(value, p)| {
            option(&p.id, if value.is_empty() { "as stored" } else { value }, *value == of_now[facet])
        });
        select(what, Some(id), on_choice(send), options.collect())
    };
    Some(html! {
        <>
            if values[0].len() > 1 { { chooser(0, "Type", "dtype") } }
            { chooser(1, "Shape", "problem") }
            if values[2].len() > 1 { { chooser(2, "Layout", "layout") } }
        </>
    })
}

/// Shows a chooser of lines or types; each option has a name and the problem shown for it.
fn stand_ins(send: &Send, what: &'static str, options: &[(String, &Problem)], now: &str) -> Html {
    match options {
        [] => html! {},
        [(only, _)] => html! { <p class="size">{ only }</p> },
        _ => {
            let options = options.iter().map(|(label, p)| option(&p.id, label, label == now));
            select(what, Some("problem"), on_choice(send), options.collect())
        }
    }
}

/// Shows a chooser of a sweep's lines.
pub fn line_choice(send: &Send, run: &Run, now: &Problem) -> Html {
    let on = Tab::Sweep.drawn_at(run, now);
    let lines = problems::lines(run);
    let of_now = lines.iter().find(|l| l.problems.contains(&on)).map_or("", |l| &l.label);
    let options: Vec<_> =
        lines.iter().filter_map(|l| Some((l.label.clone(), problems::like(&l.problems, on)?))).collect();
    stand_ins(send, "Line", &options, of_now)
}

/// Shows a chooser of the types that have a heat map.
pub fn dtype_choice(send: &Send, run: &Run, now: &Problem) -> Html {
    let dtypes = problems::dtypes_with_library(run);
    let options: Vec<_> =
        dtypes.iter().filter_map(|(d, all)| Some((d.label().to_owned(), problems::like(all, now)?))).collect();
    stand_ins(send, "Type", &options, now.dtype.label())
}

/// Shows a chooser of rungs by id.
pub fn rung_choice(send: &Send, run: &Run, id: &'static str, all: &[&str], shown: Option<&str>) -> Html {
    let title = |id: &str| run.rung(id).map_or_else(|| id.to_owned(), |r| r.title.to_string());
    let options = all.iter().map(|id| option(id, &title(id), shown == Some(*id)));
    select("Rung", Some(id), send.reform(|id: String| Msg::Rung(RungMsg::Show(id))), options.collect())
}
