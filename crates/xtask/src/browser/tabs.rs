//! The tabs of a record: what each shows, how keys move between them, and how links and Back return to one.

use super::{SOON, Stage, fits, no_errors, open_ready, window};
use crate::drivers::webdriver::Browser;
use anyhow::{Result, ensure};
use serde_json::json;

/// Shows each tab in turn and hands its name on.
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

/// Also with the hostile record: each tab shows other texts of it.
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
