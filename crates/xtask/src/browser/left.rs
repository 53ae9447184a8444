//! Tests with a page that its reader leaves while it works.

use super::{Stage, no_errors, open_ready};
use crate::drivers::webdriver::Browser;
use anyhow::Result;
use std::time::Duration;

/// Script by which the page, while its reader leaves it, makes its module call a function that takes six seconds, with a callback due that enters the module
/// again. Firefox ends the function, since it ends the process of a page that is gone.
const WORK: &str = "addEventListener('pagehide', () => {
    document.querySelector = () => {
        delete document.querySelector;
        Promise.resolve().then(() => dispatchEvent(new Event('resize')));
        const end = Date.now() + 6000;
        while (Date.now() < end) {}
        return null;
    };
    dispatchEvent(new Event('resize'));
});";

/// Checks that a callback does not enter the module after the browser has ended a run of it half-way.
pub fn while_it_works(browser: &Browser, stage: &Stage) -> Result<()> {
    for _ in 0..2 {
        open_ready(browser, &stage.record)?;
        browser.eval(WORK)?;
        browser.open("about:blank")?;
        std::thread::sleep(Duration::from_millis(500));
    }
    no_errors(browser)
}

/// Checks that the page reports no error if its reader leaves it again and again while it begins.
pub fn while_it_begins(browser: &Browser, stage: &Stage) -> Result<()> {
    for i in 0..30 {
        browser.open("about:blank")?;
        browser.open(&stage.record)?;
        std::thread::sleep(Duration::from_millis(10 * (i % 10)));
    }
    browser.open("about:blank")?;
    no_errors(browser)
}
