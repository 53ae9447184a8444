//! Checks of the marks of charts: arrow keys, tooltip, Enter, Escape, the legend, touch.

use crate::browser::{SOON, Stage, no_errors, open_ready, window};
use crate::drivers::webdriver::Browser;
use anyhow::{Result, ensure};
use serde_json::json;

/// A JavaScript expression for the number of the mark with the focus; -1 if there is none.
const AT: &str = "[...document.querySelectorAll('#panel svg [data-value]')].indexOf(document.activeElement)";
const TIP: &str = "document.querySelector('.tip')";

pub(crate) fn press(browser: &Browser, key: &str, code: u32) -> Result<()> {
    browser.key(key, code)
}

fn focus_first(browser: &Browser) -> Result<()> {
    let stops = browser.eval("return document.querySelectorAll('#panel svg [tabindex=\"0\"]').length;")?;
    ensure!(stops == json!(1), "the chart has {stops} stops for the Tab key");
    browser.eval("document.querySelector('#panel svg [tabindex=\"0\"]').focus();")?;
    browser.wait_until("the first mark", &format!("{AT} === 0"), SOON)
}

/// Checks keyboard control: along the marks, back to the chart, and into a rung's panel.
pub fn by_keyboard(browser: &Browser, stage: &Stage) -> Result<()> {
    open_ready(browser, &stage.record)?;
    let unnamed = browser.eval(
        "return [...document.querySelectorAll('#panel svg [data-value]')].filter((e) => !e.ariaLabel || !e.role).length;",
    )?;
    ensure!(unnamed == json!(0), "{unnamed} marks have no accessible name");
    focus_first(browser)?;
    for (key, code, at) in [("ArrowDown", 40, 1), ("ArrowRight", 39, 2), ("ArrowUp", 38, 1), ("ArrowLeft", 37, 0)] {
        press(browser, key, code)?;
        browser.wait_until(&format!("the mark that {key} leads to"), &format!("{AT} === {at}"), SOON)?;
        let says = "document.activeElement.dataset.value";
        browser.wait_until("its tooltip", &format!("{TIP}?.textContent.includes({says})"), SOON)?;
    }
    press(browser, "Escape", 27)?;
    browser.wait_until("no tooltip", &format!("!{TIP}"), SOON)?;
    let chart = "document.activeElement.matches('#panel svg.wb-chart')";
    browser.wait_until("the focus on the chart", chart, SOON)?;
    press(browser, "ArrowRight", 39)?;
    browser.wait_until("the mark again", &format!("{AT} === 0"), SOON)?;
    let rung = browser.eval("return document.activeElement.closest('[data-rung]').dataset.rung;")?;
    press(browser, "Enter", 13)?;
    let opened = format!("document.getElementById('rung')?.value === {rung}");
    browser.wait_until("the rung's panel", &opened, SOON)?;
    browser.wait_until("the focus there", "document.activeElement.id === 'rung-heading'", SOON)?;
    no_errors(browser)
}

/// Checks the marks of all other charts of the record.
pub fn in_each_chart(browser: &Browser, stage: &Stage) -> Result<()> {
    for tab in ["sweep", "heatmap", "roofline"] {
        open_ready(browser, &format!("{}?tab={tab}", stage.page))?;
        if browser.eval(&format!("return document.getElementById('tab-{tab}')?.ariaSelected !== 'true';"))?
            == json!(true)
        {
            continue;
        }
        focus_first(browser)?;
        press(browser, "End", 35)?;
        browser.wait_until("another mark", &format!("{AT} !== 0"), SOON)?;
    }
    no_errors(browser)
}

/// Checks that a press isolates a series, and that another press shows all again.
pub fn legend(browser: &Browser, stage: &Stage) -> Result<()> {
    open_ready(browser, &stage.record)?;
    let dimmed = "document.querySelectorAll('#panel svg [data-value][data-off]').length";
    let click = "document.querySelector('#panel svg [data-legend] :is(text, rect, polyline)')\
                 .dispatchEvent(new MouseEvent('click', { bubbles: true }));";
    browser.eval(click)?;
    browser.wait_until("dimmed marks", dimmed, SOON)?;
    let wrong = browser.eval(
        "const entry = document.querySelector('#panel svg [data-legend]');
         return [...document.querySelectorAll('#panel svg [data-value][data-series]')]
            .filter((e) => e.hasAttribute('data-off') === (e.dataset.series === entry.dataset.legend)).length
            + (entry.ariaPressed === 'true' ? 0 : 1);",
    )?;
    ensure!(wrong == json!(0), "{wrong} marks are dimmed or not against the legend");
    browser.screenshot(&stage.shots.join("page-isolated.png"))?;
    browser.eval("document.querySelector('#panel svg [data-legend]').focus();")?;
    press(browser, "Enter", 13)?;
    browser.wait_until("all marks again", &format!("{dimmed} === 0"), SOON)?;
    no_errors(browser)
}

/// Checks that a tap shows the tooltip, whose button opens the rung, and that a tap elsewhere closes it.
pub fn by_touch(browser: &Browser, stage: &Stage) -> Result<()> {
    window(browser, 360, 740, true)?;
    open_ready(browser, &stage.record)?;
    let tap = "const mark = document.querySelector('#panel svg [data-value][data-rung] rect, #panel svg [data-value][data-rung] circle');
         mark.scrollIntoView({ block: 'center', inline: 'center' });
         mark.dispatchEvent(new MouseEvent('click', { bubbles: true }));";
    browser.eval(tap)?;
    browser.wait_until("the tooltip", TIP, SOON)?;
    browser.screenshot(&stage.shots.join("page-phone-tip.png"))?;
    browser.eval("document.querySelector('#panel svg.wb-chart > text').dispatchEvent(new MouseEvent('click', { bubbles: true }));")?;
    browser.wait_until("no tooltip", &format!("!{TIP}"), SOON)?;
    browser.eval(tap)?;
    browser.wait_until("its button", &format!("{TIP}?.querySelector('button')"), SOON)?;
    browser.eval(&format!("{TIP}.querySelector('button').click();"))?;
    browser.wait_until("the rung's panel", "document.getElementById('rung')", SOON)?;
    no_errors(browser)
}
