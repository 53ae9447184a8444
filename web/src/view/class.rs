//! A class in its exercises: a grid of people and exercises, and a ranking of one exercise.

use super::controls::{Send, button, option, press, scrolled, select, tick_box};
use crate::app::{App, ClassMsg, Msg};
use crate::library::class::{Class, Placed, RankBy, Standing, standing};
use crate::text::format::{NONE, significant};
use warpbook_charts::words::{counted, percent, time};
use yew::{Html, html};

/// Shows the progress files that were opened, or nothing if there are none.
pub fn class(app: &App, send: &Send) -> Html {
    let class = &app.class;
    let Some(ranked) = class.ranked_exercise() else { return Html::default() };
    let large = send.reform(|on: bool| Msg::Class(ClassMsg::Large(on)));
    html! {
        <section class="exercises" aria-label="Exercises of the class">
            <h2>{ "Exercises" }</h2>
            <div class="toolbar">
                { tick_box("large-type", "Large type, for a projector", class.is_large, large) }
                { button("Close the class", press(send, Msg::Class(ClassMsg::Close))) }
                <p class="size" role="status">{ counted(class.people().len(), "learner") }</p>
            </div>
            { grid(send, class, ranked) }
            { ranking(send, class, ranked) }
            <p class="hint">
                { "Progress files are read here and not kept: after a reload, drop them again. A new file with the same name \
                   replaces that person's progress." }
            </p>
        </section>
    }
}

fn grid(send: &Send, class: &Class, ranked: &str) -> Html {
    let exercises = class.exercises();
    let head = |id: &str| {
        let choose = press(send, Msg::Class(ClassMsg::Exercise(id.to_owned())));
        let label = format!("Rank {id}");
        html! {
            <th scope="col">
                <button type="button" class="link" aria-pressed={(id == ranked).to_string()} aria-label={label} onclick={choose}>{ id }</button>
            </th>
        }
    };
    let cell = |now: Standing| html! { <td class={now.class()}>{ now.words() }</td> };
    let table = html! {
        <table id="class-grid">
            <thead><tr><th scope="col">{ "Learner" }</th>{ for exercises.iter().map(|id| head(id)) }</tr></thead>
            <tbody>
                { for class.people().iter().map(|person| html! {
                    <tr key={person.person.clone()}>
                        <th scope="row">{ &person.person }</th>
                        { for exercises.iter().map(|id| cell(standing(person.exercise(id)))) }
                    </tr>
                }) }
            </tbody>
        </table>
    };
    scrolled("learners and exercises", table)
}

fn ranking(send: &Send, class: &Class, exercise: &str) -> Html {
    let choose = send.reform(|id: String| Msg::Class(ClassMsg::Exercise(id)));
    let exercises = class.exercises();
    let options = exercises.iter().map(|id| option(id, id, *id == exercise)).collect();
    let order = send
        .reform(|by: String| Msg::Class(ClassMsg::RankBy(if by == "share" { RankBy::Share } else { RankBy::Counts })));
    let by_share = class.by == RankBy::Share;
    let orders = [option("counts", "counts", !by_share), option("share", "share of the GPU's ceiling", by_share)];
    let placed = class.ranking(exercise);
    let counts = placed.iter().find_map(|p| Some(p.best?.counts.first()?.name.clone()));
    let row = |(i, p): (usize, &Placed<'_>)| {
        let count = p.best.and_then(|t| t.counts.first()?.count).map(|n| significant(n, 3));
        let took = p.best.and_then(|t| t.time_us).map(time);
        let share =
            p.best.and_then(|t| Some(format!("{} of {}", percent(t.share?), t.gpu.as_deref().unwrap_or("its GPU"))));
        let minutes = p.progress.minutes_to_right.map(|m| format!("{m:.0}"));
        let cell = |text: Option<String>| html! { <td class="number">{ text.unwrap_or_else(|| NONE.into()) }</td> };
        let now = standing(Some(p.progress));
        html! {
            <tr key={p.person.to_owned()}>
                { cell(p.progress.best().is_some_and(|v| v.is_right()).then(|| (i + 1).to_string())) }
                <th scope="row">{ p.person }</th>
                <td class={now.class()}>{ now.words() }</td>
                if counts.is_some() { { cell(count) } }
                { cell(took) }
                { cell(share) }
                { cell(minutes) }
                { cell(Some(p.progress.hints.to_string())) }
            </tr>
        }
    };
    let table = html! {
        <table id="class-ranking">
            <thead>
                <tr>
                    <th scope="col" class="number">{ "Place" }</th>
                    <th scope="col">{ "Learner" }</th>
                    <th scope="col">{ "State" }</th>
                    { for counts.iter().map(|name| html! { <th scope="col" class="number">{ name }</th> }) }
                    <th scope="col" class="number">{ "Time" }</th>
                    <th scope="col" class="number">{ "Share of the ceiling" }</th>
                    <th scope="col" class="number">{ "Minutes to right" }</th>
                    <th scope="col" class="number">{ "Hints" }</th>
                </tr>
            </thead>
            <tbody>{ for placed.iter().enumerate().map(row) }</tbody>
        </table>
    };
    html! {
        <>
            <div class="toolbar">
                { select("Ranking of", Some("class-exercise"), choose, options) }
                if class.has_shares(exercise) { { select("by", Some("class-order"), order, orders.into_iter().collect()) } }
            </div>
            { scrolled("ranking of the exercise", table) }
        </>
    }
}
