//! A chart with its table and its files.

use super::Send;
use super::drawing::Drawing;
use crate::app::Msg;
use crate::browser;
use warpbook_charts::{Chart, ChartError, Table};
use web_sys::MouseEvent;
use yew::{AttrValue, Html, html};

/// The chart, or the sentence that says why there is none; `name` is that of its files.
pub fn chart(send: &Send, drawn: Result<Chart, ChartError>, name: &str) -> Html {
    let chart = match drawn {
        Ok(chart) => chart,
        Err(why) => return html! { <p class="empty">{ why.to_string() }</p> },
    };
    let svg = {
        let (text, file) = (chart.svg.standalone(), format!("{name}.svg"));
        send.reform(move |_: MouseEvent| {
            browser::save(&file, "image/svg+xml", &text);
            Msg::Say(format!("Saved {file}."))
        })
    };
    let id = format!("chart-{name}");
    html! {
        <figure key={id.clone()} class="chart" aria-labelledby={id.clone()}>
            <figcaption id={id} class="visually-hidden">{ &chart.title }</figcaption>
            <Drawing svg={AttrValue::from(chart.svg.as_str().to_owned())} send={send.clone()} />
            <div class="row">
                <button type="button" class="small" onclick={svg}>{ "Save SVG" }</button>
                { save_csv(send, &chart.table, name) }
            </div>
            <details>
                <summary>{ "The figures as a table" }</summary>
                { table(&chart.table, &chart.title) }
            </details>
        </figure>
    }
}

/// A button that saves a table.
pub fn save_csv(send: &Send, table: &Table, name: &str) -> Html {
    let (text, file) = (table.csv(), format!("{name}.csv"));
    let save = send.reform(move |_: MouseEvent| {
        browser::save(&file, "text/csv", &text);
        Msg::Say(format!("Saved {file}."))
    });
    html! { <button type="button" class="small" onclick={save}>{ "Save CSV" }</button> }
}

fn table(table: &Table, title: &str) -> Html {
    html! {
        <div class="scroll" tabindex="0" role="region" aria-label={format!("Table: {title}")}>
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
        </div>
    }
}

/// Figures are right-aligned; what is longer than a name may take several lines.
fn class(cell: &str) -> Option<&'static str> {
    let figure = cell.trim_start_matches(['-', '−']).starts_with(|c: char| c.is_ascii_digit());
    if figure { Some("number") } else { (cell.chars().count() > 24).then_some("long") }
}
