//! Checks of a rung's panel: opening and closing it, its contents, the steps along the ladder, and its address.

use crate::browser::views::marks::press;
use crate::browser::{READY, SOON, Stage, fits, media, no_errors, open_ready, scheme, window};
use crate::drivers::webdriver::Browser;
use anyhow::{Result, ensure};
use serde_json::{Value, json};

const HEADING: &str = "document.getElementById('rung-heading')";
const CAPTION: &str = "document.querySelector('.brought')?.textContent";
const POINT: &str =
    "((p) => p && [p.getAttribute('cx'), p.getAttribute('cy')].join())(document.querySelector('.roof .now'))";
const CODE: &str = "document.querySelector('.texts')?.textContent";

fn text(browser: &Browser, expression: &str) -> Result<Value> {
    browser.eval(&format!("return {expression};"))
}

/// Checks the keys: Enter opens a mark, brackets step along the ladder, and Escape goes back.
pub fn by_keyboard(browser: &Browser, stage: &Stage) -> Result<()> {
    window(browser, 1440, 900, false)?;
    open_ready(browser, &stage.record)?;
    // The winner is a variant of another kernel rung, so its panel has all parts.
    browser.eval("document.querySelector('#panel svg [data-rung=\"06_on_chip\"] [data-value], #panel svg [data-rung=\"06_on_chip\"][data-value]').focus();")?;
    let mark = text(browser, "document.activeElement.closest('[data-rung]').dataset.rung")?;
    press(browser, "Enter", 13)?;
    browser.wait_until("the rung's panel", &format!("document.getElementById('rung')?.value === {mark}"), SOON)?;
    browser.wait_until("the focus there", &format!("document.activeElement === {HEADING}"), SOON)?;
    contents(browser)?;
    browser.screenshot(&stage.shots.join("page-rung.png"))?;
    media(browser, "print", "dark")?;
    fits(browser, "the printed panel", 1440)?;
    browser.screenshot(&stage.shots.join("page-rung-print.png"))?;
    media(browser, "", "light")?;
    let all = [CAPTION, POINT, CODE, "location.search"];
    let said = |browser: &Browser| all.iter().map(|what| text(browser, what)).collect::<Result<Vec<Value>>>();
    let first = said(browser)?;
    press(browser, "[", 219)?;
    browser.wait_until("the rung before", &format!("document.getElementById('rung').value !== {mark}"), SOON)?;
    let second = said(browser)?;
    for (what, (a, b)) in all.iter().zip(first.iter().zip(&second)) {
        ensure!(a != b, "{what} stays {a} on the rung before");
    }
    press(browser, "]", 221)?;
    browser.wait_until("the rung again", &format!("document.getElementById('rung').value === {mark}"), SOON)?;
    ensure!(said(browser)? == first, "the way there and back changes what is shown");
    press(browser, "Escape", 27)?;
    browser.wait_until("no panel", &format!("!{HEADING}"), SOON)?;
    let back = format!("document.activeElement.closest('[data-rung]')?.dataset.rung === {mark}");
    browser.wait_until("the focus on the mark", &back, SOON)?;
    no_errors(browser)
}

/// Checks that all parts of the panel are shown together.
fn contents(browser: &Browser) -> Result<()> {
    let parts = [
        ("the samples", ".strip circle"),
        ("the median", ".strip .median"),
        ("what it brought", ".brought[role=status]"),
        ("the roofline's point", ".roof .now"),
        ("registers, shared memory and occupancy", ".kernel-figures tbody td + td + td"),
        ("lines of the difference", ".difference :is(ins, del)"),
    ];
    for (what, selector) in parts {
        browser.wait_until(what, &format!("document.querySelector('.rung-panel {selector}')"), SOON)?;
    }
    let names = text(browser, "[...document.querySelectorAll('.figures dt')].map((e) => e.textContent).join()")?;
    let has = |name: &str| names.as_str().is_some_and(|n| n.contains(name));
    ensure!(has("% of bound") && has("Bound by") && has("Check"), "the figures are {names}");
    let top = text(browser, "document.querySelector('.difference').getBoundingClientRect().top < innerHeight")?;
    ensure!(top == json!(true), "the difference begins below the first screen");
    Ok(())
}

/// Checks that the headline opens the winner's panel with one press, that each row of the table opens its rung's panel, and that both
/// panels lead back.
pub fn from_headline_and_table(browser: &Browser, stage: &Stage) -> Result<()> {
    for (address, id) in
        [(stage.record.clone(), "open-winner-0"), (format!("{}&tab=table", stage.record), "open-rungs-2")]
    {
        browser.open(&address)?;
        browser.wait_until("the button", &format!("document.getElementById('{id}')"), READY)?;
        let below = format!("document.getElementById('{id}').getBoundingClientRect().bottom > innerHeight");
        ensure!(
            id != "open-winner-0" || text(browser, &below)? == json!(false),
            "the way to the winner is below the first screen"
        );
        browser.eval(&format!("document.getElementById('{id}').click();"))?;
        browser.wait_until("the rung's panel", HEADING, SOON)?;
        browser.wait_until("its caption", CAPTION, SOON)?;
        browser.wait_until("the focus there", &format!("document.activeElement === {HEADING}"), SOON)?;
        press(browser, "Escape", 27)?;
        browser.wait_until("the focus where it was", &format!("document.activeElement?.id === '{id}'"), SOON)?;
    }
    no_errors(browser)
}

/// Checks that the address names the rung, the problem and the code, on a desktop and on a phone, where a swipe steps along the
/// ladder.
pub fn by_link_and_touch(browser: &Browser, stage: &Stage) -> Result<()> {
    open_ready(browser, &format!("{}&tab=source", stage.record))?;
    browser.wait_until("the panel", HEADING, SOON)?;
    browser.eval("document.querySelector('input[name=code][value=source]').click();")?;
    browser.wait_until("the address of the source", "location.search.includes('code=source')", SOON)?;
    let other = "const s = document.getElementById('problem'); s.selectedIndex = s.selectedIndex ? 0 : 1;
         s.dispatchEvent(new Event('change', { bubbles: true }));";
    browser.eval(other)?;
    browser.wait_until("the address of the problem", "location.search.includes('problem=')", SOON)?;
    browser.eval("document.querySelector('.step').click();")?;
    browser.wait_until("the address of the rung", "location.search.includes('rung=')", SOON)?;
    let address = text(browser, "location.href")?;
    let shown = text(browser, &format!("{CAPTION} + document.getElementById('problem').value"))?;
    window(browser, 360, 740, true)?;
    scheme(browser, "dark")?;
    open_ready(browser, address.as_str().unwrap_or_default())?;
    ensure!(
        text(browser, &format!("{CAPTION} + document.getElementById('problem').value"))? == shown,
        "the link shows other things"
    );
    let source = "document.querySelector('.file .line') && document.querySelector('input[value=source]').checked";
    browser.wait_until("the whole source", source, SOON)?;
    fits(browser, "the source", 360)?;
    browser.eval("document.querySelector('input[name=code][value=changed]').click();")?;
    browser.wait_until("what changed", "!location.search.includes('code=')", SOON)?;
    fits(browser, "what changed", 360)?;
    browser.screenshot(&stage.shots.join("page-rung-phone.png"))?;
    let caption = text(browser, CAPTION)?;
    let swipe = "const at = document.querySelector('.brought');
         const send = (kind, x) => at.dispatchEvent(new PointerEvent(kind,
            { bubbles: true, pointerType: 'touch', isPrimary: true, clientX: x, clientY: 300 }));
         send('pointerdown', 300); send('pointerup', 100);";
    browser.eval(swipe)?;
    browser.wait_until("the next rung", &format!("{CAPTION} !== {caption}"), SOON)?;
    no_errors(browser)
}
