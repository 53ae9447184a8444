//! Checks that the page reports no error if the reader leaves it while it is loading or computing.

use super::{Stage, no_errors, open_ready};
use crate::drivers::webdriver::Browser;
use anyhow::Result;
use std::time::Duration;

/// While the reader leaves the page, this script makes the module call a function that takes six seconds, with a
/// pending callback that would enter the module again. Firefox aborts the function, since it ends the process of a page
/// that is gone.
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

/// Checks that no callback enters the module after the browser aborted a call of it.
pub fn while_it_works(browser: &Browser, stage: &Stage) -> Result<()> {
    for _ in 0..2 {
        open_ready(browser, &stage.record)?;
        browser.eval(WORK)?;
        browser.open("about:blank")?;
        std::thread::sleep(Duration::from_millis(500));
    }
    no_errors(browser)
}

/// Checks that the page reports no error if the reader repeatedly leaves it while it is loading.
pub fn while_it_begins(browser: &Browser, stage: &Stage) -> Result<()> {
    for i in 0..30 {
        browser.open("about:blank")?;
        browser.open(&stage.record)?;
        std::thread::sleep(Duration::from_millis(10 * (i % 10)));
    }
    browser.open("about:blank")?;
    no_errors(browser)
}
