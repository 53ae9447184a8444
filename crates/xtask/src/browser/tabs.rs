//! Checks of a record's tabs: contents, keyboard navigation, links and Back.

use super::{SOON, Stage, compare_with_dropped, fits, no_errors, open_ready, window};
use crate::drivers::webdriver::Browser;
use anyhow::{Result, ensure};
use serde_json::json;

/// Opens each tab in turn and passes its name to `look`.
fn through_tabs(browser: &Browser, mut look: impl FnMut(&str) -> Result<()>) -> Result<()> {
    let ids = browser.eval("return [...document.querySelectorAll('[role=tab]')].map((t) => t.id);")?;
    let ids: Vec<String> = serde_json::from_value(ids)?;
    ensure!(ids.len() >= 4, "the page has only the tabs {ids:?}");
    for id in ids {
        browser.eval(&format!("document.getElementById('{id}').click();"))?;
        let shown = format!("document.getElementById('panel').getAttribute('aria-labelledby') === '{id}'");
        browser.wait_until(&id, &shown, SOON)?;
        look(&id)?;
    }
    Ok(())
}

/// Checks each tab, also with the hostile record, since each tab shows different texts of it.
pub(super) fn each_tab(browser: &Browser, stage: &Stage) -> Result<()> {
    for record in ["good", "hostile"] {
        open_ready(browser, &format!("{}?src=test/{record}.json", stage.page))?;
        through_tabs(browser, |id| {
            let content = match id {
                "tab-table" => "table tbody tr",
                "tab-source" => ".line, p",
                "tab-environment" => "dl dd",
                _ => "svg rect, svg polyline, p",
            };
            browser.wait_until(id, &format!("document.getElementById('panel').querySelector('{content}')"), SOON)?;
            let smuggled =
                browser.eval("return document.querySelectorAll('#warpbook :is(script, img, iframe)').length;")?;
            ensure!(smuggled == json!(0), "text of a record became an element in {id}");
            Ok(())
        })?;
        ensure!(
            browser.eval("return window.__pwned === undefined;")? == json!(true),
            "text of a record ran as a script"
        );
    }
    no_errors(browser)
}

pub(super) fn each_tab_on_a_phone(browser: &Browser, stage: &Stage) -> Result<()> {
    window(browser, 390, 844, true)?;
    open_ready(browser, &stage.record)?;
    through_tabs(browser, |id| fits(browser, id, 390))
}

pub(super) fn arrow_keys(browser: &Browser, stage: &Stage) -> Result<()> {
    open_ready(browser, &stage.record)?;
    browser.eval("document.querySelector('[role=tab][aria-selected=true]').focus();")?;
    let at = |place: i32| {
        format!(
            "((tabs) => tabs.at({place}) === document.activeElement && tabs.at({place}).ariaSelected === 'true' && \
             tabs.filter((t) => t.tabIndex === 0).length === 1)([...document.querySelectorAll('[role=tab]')])"
        )
    };
    let keys = [("ArrowRight", 39, 1), ("ArrowLeft", 37, 0), ("ArrowLeft", 37, -1), ("Home", 36, 0), ("End", 35, -1)];
    for (key, code, place) in keys {
        browser.key(key, code)?;
        browser.wait_until(&format!("the tab that {key} leads to"), &at(place), SOON)?;
    }
    Ok(())
}

pub(super) fn links_and_back(browser: &Browser, stage: &Stage) -> Result<()> {
    let selected = |id: &str| format!("document.getElementById('tab-{id}')?.ariaSelected === 'true'");
    open_ready(browser, &format!("{}?show=bandwidth", stage.page))?;
    browser.wait_until("the bandwidth", "document.querySelector('input[value=bandwidth]').checked", SOON)?;
    browser.open(&format!("{}?tab=table", stage.page))?;
    browser.wait_until("the table", &selected("table"), SOON)?;
    browser.wait_until("its rows", "document.querySelector('#panel table tbody tr')", SOON)?;
    browser.eval("document.getElementById('tab-environment').click();")?;
    browser.wait_until("the address of the environment", "location.search === '?tab=environment'", SOON)?;
    browser.eval("history.back();")?;
    browser.wait_until("the table again", &selected("table"), SOON)?;
    no_errors(browser)
}

pub(super) fn unknown_experiment(browser: &Browser, stage: &Stage) -> Result<()> {
    open_ready(browser, &format!("{}?src=test/softmax.json", stage.page))?;
    browser.wait_until("its title", "document.querySelector('h1').textContent === 'Row softmax'", SOON)?;
    browser.wait_until(
        "who ran it",
        "document.querySelector('.subtitle').textContent.includes('Run by Grace')",
        SOON,
    )?;
    browser.wait_until("its headline", "document.querySelector('input[value=bandwidth]').checked", SOON)?;
    browser.screenshot(&stage.shots.join("page-softmax.png"))?;
    let shows = [
        ("ladder", "svg", "One pass"),
        ("sweep", "svg", "columns"),
        ("roofline", "svg", "A warp a row"),
        ("table", "table", "Effective bandwidth"),
        ("source", ".difference", "Milakov"),
    ];
    for (tab, element, text) in shows {
        browser.eval(&format!("document.getElementById('tab-{tab}').click();"))?;
        let shown = format!(
            "[...document.querySelectorAll('#panel[aria-labelledby=tab-{tab}] {element}')].some((e) => \
             e.textContent.includes('{text}'))"
        );
        browser.wait_until(&format!("{text} in {tab}"), &shown, SOON)?;
    }
    compare_with_dropped(browser, "softmax", -2)?;
    no_errors(browser)
}

pub(super) fn links_to_problems(browser: &Browser, stage: &Stage) -> Result<()> {
    let links = [
        ("size=4096", "65536 × 4096 fp32"),
        ("problem=rows=65536+columns=256+fp32", "65536 × 256 fp32"),
        ("problem=gone", "65536 × 1024 fp32"),
    ];
    for (query, label) in links {
        open_ready(browser, &format!("{}?src=test/softmax.json&{query}", stage.page))?;
        let shown = format!("document.getElementById('problem')?.selectedOptions[0].textContent === '{label}'");
        browser.wait_until(query, &shown, SOON)?;
    }
    browser.eval(
        "const select = document.getElementById('problem'); select.selectedIndex = 0; \
         select.dispatchEvent(new Event('change', { bubbles: true }));",
    )?;
    let shown = "decodeURIComponent(location.search).includes('problem=rows=65536+columns=256+fp32')";
    browser.wait_until("the address of another problem", shown, SOON)?;
    no_errors(browser)
}
