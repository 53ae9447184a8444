//! A chart with its table and its download buttons.

mod drawing;

use super::controls::{Send, button, press, scrolled};
use crate::app::{Msg, ReportMsg};
use crate::browser;
use crate::report::{data_address, on_white};
use drawing::Drawing;
use std::rc::Rc;
use warpbook_charts::{Chart, ChartError, Table};
use wasm_bindgen_futures::spawn_local;
use web_sys::MouseEvent;
use yew::{AttrValue, Callback, Html, html};

/// Shows the chart, or the sentence that says why there is none; `name` is the base name of its files.
pub fn chart(send: &Send, drawn: Result<Chart, ChartError>, name: &str) -> Html {
    let chart = match drawn {
        Ok(chart) => Rc::new(chart),
        Err(why) => return html! { <p class="empty">{ why.to_string() }</p> },
    };
    let svg = {
        let (chart, file) = (chart.clone(), format!("{name}.svg"));
        send.reform(move |_: MouseEvent| {
            browser::save(&file, "image/svg+xml", &chart.svg.standalone());
            Msg::say(format!("Saved {file}."))
        })
    };
    let png = {
        let (chart, name, send) = (chart.clone(), name.to_owned(), send.clone());
        Callback::from(move |_: MouseEvent| {
            let (chart, name, send) = (chart.clone(), name.clone(), send.clone());
            spawn_local(async move { send.emit(Msg::say(save_png(chart, name).await)) });
        })
    };
    let add = press(send, Msg::Report(ReportMsg::Add(chart.clone())));
    let id = format!("chart-{name}");
    html! {
        <figure key={id.clone()} class="chart" aria-labelledby={id.clone()}>
            <figcaption id={id} class="visually-hidden">{ &chart.title }</figcaption>
            <Drawing svg={AttrValue::from(chart.svg.as_str().to_owned())} send={send.clone()} />
            <div class="row">
                { button("Save SVG", svg) }
                { button("Save PNG", png) }
                { save_csv(send, &chart.table, name) }
                { button("Add to report", add) }
            </div>
            <details>
                <summary>{ "The figures as a table" }</summary>
                { table(&chart.table, &chart.title) }
            </details>
        </figure>
    }
}

/// Shows a button that saves a table.
pub fn save_csv(send: &Send, table: &Table, name: &str) -> Html {
    let (text, file) = (table.csv(), format!("{name}.csv"));
    let save = send.reform(move |_: MouseEvent| {
        browser::save(&file, "text/csv", &text);
        Msg::say(format!("Saved {file}."))
    });
    button("Save CSV", save)
}

/// Saves a chart as PNG; returns a message for the reader.
async fn save_png(chart: Rc<Chart>, name: String) -> String {
    let file = format!("{name}.png");
    let source = data_address(&on_white(&chart));
    if browser::save_png(&file, &source, chart.svg.size()).await {
        format!("Saved {file}.")
    } else {
        "This browser could not draw the chart; save it as SVG.".into()
    }
}

fn table(table: &Table, title: &str) -> Html {
    let table = html! {
        <table>
            <thead>
                <tr>{ for table.headers.iter().enumerate().map(|(i, h)| html! {
                    <th scope="col" class={table.rows.iter().filter(|_| i > 0).find_map(|r| class(r.get(i)?))}>{ h }</th>
                }) }</tr>
            </thead>
            <tbody>
                { for table.rows.iter().map(|row| html! {
                    <tr>
                        { for row.iter().enumerate().map(|(i, cell)| match i {
                            0 => html! { <th scope="row">{ cell }</th> },
                            _ => html! { <td class={class(cell)}>{ cell }</td> },
                        }) }
                    </tr>
                }) }
            </tbody>
        </table>
    };
    scrolled(title, table)
}

/// Returns a cell's style class: figures are right-aligned, and long texts may wrap.
fn class(cell: &str) -> Option<&'static str> {
    let figure = cell.trim_start_matches(['-', '−']).starts_with(|c: char| c.is_ascii_digit());
    if figure { Some("number") } else { (cell.chars().count() > 24).then_some("long") }
}
