//! The tab with a record's environment.

use crate::record::facts::{Section, sections};
use warpbook_record::Run;
use yew::{Html, html};

/// Shows everything that the record says about its environment.
pub fn environment(run: &Run) -> Html {
    html! {
        <div class="facts">
            { for sections(run).iter().map(section) }
            if !run.notes.is_empty() {
                <section>
                    <h2>{ "Remarks" }</h2>
                    <ul>{ for run.notes.iter().map(|n| html! { <li>{ n }</li> }) }</ul>
                </section>
            }
        </div>
    }
}

fn section(section: &Section) -> Html {
    html! {
        <section>
            <h2>{ section.title }</h2>
            <dl>
                { for section.facts.iter().map(|(name, value)| html! {
                    <div><dt>{ name }</dt><dd>{ value }</dd></div>
                }) }
            </dl>
        </section>
    }
}
