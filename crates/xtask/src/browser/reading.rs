//! Checks that opening a part moves the reader to its top and the focus to its heading, that a comparison opens at a
//! problem with something to compare, and that unknown names in links are reported.

use super::views::marks::press;
use super::{ALERTS, READY, SOON, Stage, alerts, drop_file, no_errors, open_ready, window};
use crate::drivers::webdriver::Browser;
use anyhow::{Result, ensure};
use serde_json::{Value, json};
use std::time::Duration;

/// A JavaScript condition: the heading is in sight and has the focus.
const AT_HEADING: &str = "((h) => h && document.activeElement === h && h.getBoundingClientRect().top >= 0 && \
    h.getBoundingClientRect().bottom <= innerHeight)(document.querySelector('h1'))";

fn heading(text: &str) -> String {
    format!("document.querySelector('h1')?.textContent === {}", json!(text))
}

/// Opens all cards by keyboard, then the records of the list at the side, then the board, the report and a comparison.
pub fn begins_at_the_top(browser: &Browser, stage: &Stage) -> Result<()> {
    for (width, height, is_phone) in [(1440, 900, false), (360, 740, true)] {
        window(browser, width, height, is_phone)?;
        let last = "document.querySelectorAll('.open').length - 1";
        for place in ["0", "9", last] {
            open_ready(browser, &stage.page)?;
            browser.eval(&format!(
                "const card = document.querySelectorAll('.open')[{place}]; card.scrollIntoView({{ block: 'center' }}); card.focus();"
            ))?;
            press(browser, "Enter", 13)?;
            browser.wait_until("the record", "document.querySelector('[role=tab]')", SOON)?;
            browser.wait_until(&format!("card {place} at its heading"), AT_HEADING, SOON)?;
        }
        browser.eval("[...document.querySelectorAll('.records .select')].at(-1).click();")?;
        browser.wait_until("the last of the list", "document.querySelector('.record:last-child.current')", SOON)?;
        browser.wait_until("the last of the list at its heading", AT_HEADING, SOON)?;
        let list =
            browser.eval("return document.querySelector('.records').getBoundingClientRect().height <= innerHeight;")?;
        ensure!(list == json!(true), "the list makes the page longer than what it shows");
    }
    window(browser, 1440, 900, false)?;
    open_ready(browser, &stage.page)?;
    for (button, title) in [("#show-board", "Class board"), ("#show-report", "Report"), (".brand", "Records")] {
        browser.eval(&format!("scrollTo(0, 1e6); document.querySelector('{button}').click();"))?;
        browser.wait_until(title, &heading(title), SOON)?;
        browser.wait_until(&format!("{title} at its heading"), AT_HEADING, SOON)?;
    }
    browser.eval(
        "const boxes = [...document.querySelectorAll('.tick input')]; boxes.at(-2).click(); boxes.at(-1).click();",
    )?;
    browser.wait_until("the comparison at its heading", &format!("{} && {AT_HEADING}", heading("Comparison")), SOON)?;
    no_errors(browser)
}

/// Checks that one ticked box changes nothing, that two ticked boxes compare their records, and that no part of another record
/// is shown.
pub fn ticks(browser: &Browser, stage: &Stage) -> Result<()> {
    open_ready(browser, &stage.page)?;
    let tick =
        |place: i32| browser.eval(&format!("[...document.querySelectorAll('.card .tick input')].at({place}).click();"));
    tick(3)?;
    std::thread::sleep(Duration::from_millis(400));
    let stays = browser.eval("return [document.querySelectorAll('.open').length > 9, document.querySelectorAll('.card .tick input')[3].checked, !!document.querySelector('[role=tab]')];")?;
    ensure!(stays == json!([true, true, false]), "one tick leads to {stays}");
    let titles = browser.eval("return [3, 4].map((i) => document.querySelectorAll('.card .open')[i].title);")?;
    tick(4)?;
    browser.wait_until("the comparison", &heading("Comparison"), SOON)?;
    browser.wait_until("both records", "document.querySelectorAll('.compared li').length === 2", SOON)?;
    let seen = browser.eval(
        "const items = [...document.querySelectorAll('.compared li')].map((e) => e.textContent);
         return [document.querySelectorAll('[role=tab], .tiles').length, items, !!document.querySelector('.records .select')];",
    )?;
    let named = titles.as_array().into_iter().flatten().filter_map(Value::as_str);
    ensure!(seen[0] == 0 && seen[2] == true, "next to the comparison are {seen}");
    for name in named {
        ensure!(seen[1].to_string().contains(name), "{name} was ticked, and compared are {}", seen[1]);
    }
    // The check opens a record, and returns to the comparison by the record's button.
    browser.eval("document.querySelector('.records .select').click();")?;
    browser.wait_until(
        "a record",
        "document.querySelector('[role=tab]') && !document.querySelector('.compared')",
        SOON,
    )?;
    browser.eval("document.getElementById('compare').click();")?;
    browser.wait_until("the comparison again", "document.querySelectorAll('.compared li').length === 2", SOON)?;
    no_errors(browser)
}

/// Checks that no other record is shown while the page asks whether to open a record.
pub fn only_the_question(browser: &Browser, stage: &Stage) -> Result<()> {
    browser.open(&format!("{}?src=https://records.invalid/x.json", stage.page))?;
    browser.wait_until("the question", "document.querySelector('.ask')", READY)?;
    std::thread::sleep(Duration::from_millis(500));
    let shown = browser.eval(
        "return [...document.querySelectorAll('h1, .tiles, #panel, .record')].map((e) => e.textContent.slice(0, 80));",
    )?;
    ensure!(shown == json!(["Nothing is open yet"]), "behind the question is {shown}");
    browser.eval("document.querySelectorAll('.ask button')[1].click();")?;
    browser.wait_until("all records", "document.querySelector('.cards')", SOON)?;
    no_errors(browser)
}

/// Checks that each unknown name in a link is reported once.
pub fn names_in_vain(browser: &Browser, stage: &Stage) -> Result<()> {
    let record = stage.record.split('=').next_back().unwrap_or_default();
    let links = [
        (format!("record={record}&problem=nope"), vec!["nope"]),
        (format!("record={record}&tab=source&rung=no-rung"), vec!["no-rung"]),
        ("compare=a-none.json&compare=b-none.json&tab=compare".to_owned(), vec!["a-none.json", "b-none.json"]),
        ("record=none.json".to_owned(), vec!["none.json"]),
    ];
    for (query, named) in links {
        alerts(browser, &format!("{}?{query}", stage.page))?;
        let said = browser.eval(&format!("return {ALERTS};"))?;
        let count = said.as_array().map_or(0, Vec::len);
        ensure!(count == named.len(), "{query} is answered {said}");
        ensure!(named.iter().all(|n| said.to_string().contains(n)), "{query} is answered {said}");
    }
    // A link may name a problem that only its own record has, so this name is not reported.
    open_ready(browser, &stage.record)?;
    browser.eval(
        "const s = document.getElementById('problem'); s.selectedIndex = s.selectedIndex ? 0 : 1;
         s.dispatchEvent(new Event('change', { bubbles: true }));",
    )?;
    browser.wait_until("the address of the problem", "location.search.includes('problem=')", SOON)?;
    let link = browser.eval("return location.href;")?;
    open_ready(browser, link.as_str().unwrap_or_default())?;
    ensure!(
        browser.eval(&format!("return {ALERTS};"))? == json!([]),
        "a problem of the record is answered with a message"
    );
    browser.eval("[...document.querySelectorAll('.records .select')].at(-1).click();")?;
    browser.wait_until("another record", "document.querySelector('.record:last-child.current')", SOON)?;
    ensure!(browser.eval(&format!("return {ALERTS};"))? == json!([]), "another record is answered with a message");
    no_errors(browser)
}

/// Drops a published record, changed by a script, as "mine.json".
fn drop_changed(browser: &Browser, file: &str, change: &str) -> Result<()> {
    browser.eval(&format!(
        "return fetch('data/{file}').then((r) => r.json()).then((record) => {{
            {change}
            const dataTransfer = new DataTransfer();
            dataTransfer.items.add(new File([JSON.stringify(record)], 'mine.json'));
            for (const kind of ['dragenter', 'dragover', 'drop'])
                document.body.dispatchEvent(new DragEvent(kind, {{ dataTransfer, bubbles: true, cancelable: true }}));
        }});"
    ))?;
    browser.wait_until(
        "the dropped record",
        "new URLSearchParams(location.search).get('record')?.startsWith('disk-')",
        SOON,
    )
}

/// Compares a published record with the record that was dropped last.
fn compare_with(browser: &Browser, file: &str) -> Result<()> {
    browser.eval(&format!(
        "const item = (name) => document.querySelector(`.select[title=\"${{name}}\"]`).closest('.record').querySelector('.tick input');
         item('{file}').click(); item('mine.json').click();"
    ))?;
    browser.wait_until("the comparison", "document.querySelectorAll('.compared li').length === 2", SOON)?;
    browser.wait_until("its verdict", "document.querySelector('.verdict p')", SOON)
}

/// Checks that a comparison opens at a problem with something to compare, and that its verdict names the changed rungs,
/// the record and the size of the change.
pub fn comparisons(browser: &Browser, stage: &Stage) -> Result<()> {
    open_ready(browser, &stage.page)?;
    let change = "for (const m of record.measurements)
        if (!m.problem.startsWith('m=1000 ') || !m.problem.endsWith('fp32')) { m.outcome = { status: 'skipped', why: 'no GPU' }; m.samples_us = []; }";
    drop_changed(browser, "matmul-h200.json", change)?;
    compare_with(browser, "matmul-h200.json")?;
    let seen = browser.eval(
        "return [document.querySelector('.verdict h2').textContent, document.querySelectorAll('#panel .verdicts .badge').length,
            !!document.querySelector('#panel svg.wb-chart')];",
    )?;
    ensure!(seen[0].as_str().is_some_and(|h| h.contains("fp32")), "it opens at {}", seen[0]);
    ensure!(seen[1].as_u64().is_some_and(|n| n > 3) && seen[2] == true, "at {} are {} verdicts", seen[0], seen[1]);
    open_ready(browser, &stage.page)?;
    browser.eval("document.getElementById('forget').click();")?;
    let change = "for (const m of record.measurements) if (m.rung === '02_fused') m.samples_us = m.samples_us.map((us) => us / 2);";
    drop_changed(browser, "regression-h200.json", change)?;
    compare_with(browser, "regression-h200.json")?;
    let said = browser.eval("return document.querySelector('.verdict p').textContent;")?;
    let said = said.as_str().unwrap_or_default();
    ensure!(
        said.starts_with("mine against regression-h200: “Fused” 2.00× as fast; 1 faster, "),
        "the verdict is {said}"
    );
    no_errors(browser)
}

/// Checks that a title of any length and direction becomes one short line, and that the page does not claim to keep a
/// record that it cannot keep.
pub fn titles_and_what_is_kept(browser: &Browser, stage: &Stage) -> Result<()> {
    window(browser, 1440, 900, false)?;
    open_ready(browser, &stage.page)?;
    drop_changed(browser, "softmax-h200.json", "record.title = '\\u202Etxet' + 'x'.repeat(100000);")?;
    browser.wait_until("its title", "document.querySelector('h1')?.textContent.startsWith('txet')", SOON)?;
    let seen = browser.eval("return [document.querySelector('h1').textContent.length, document.documentElement.scrollWidth, document.title.includes('\\u202E')];")?;
    ensure!(
        seen[0].as_u64().is_some_and(|n| n <= 200) && seen[1].as_u64().is_some_and(|w| w <= 1440) && seen[2] == false,
        "the title is shown as {seen}"
    );
    browser.eval("document.querySelector('.brand').click();")?;
    browser.wait_until("all records", "document.querySelector('.cards')", SOON)?;
    let turned = browser.eval(
        "return [...document.querySelectorAll('.card .title')].some((e) => e.textContent.includes('\\u202E'));",
    )?;
    ensure!(turned == json!(false), "a card's title turns what is around it");
    browser.eval("document.getElementById('forget').click();")?;
    let padded = "return fetch('test/good.json').then((r) => r.text()).then((text) => {
            const dataTransfer = new DataTransfer();
            dataTransfer.items.add(new File([text, ' '.repeat(17 << 20)], 'large.json'));
            for (const kind of ['dragenter', 'dragover', 'drop'])
                document.body.dispatchEvent(new DragEvent(kind, { dataTransfer, bubbles: true, cancelable: true }));
        });";
    browser.eval(padded)?;
    browser.wait_until("that it is not kept", &format!("{ALERTS}.some((t) => t.includes('cannot keep it'))"), SOON)?;
    let says = browser.eval("return document.querySelector('.kept')?.textContent;")?;
    let says = says.as_str().unwrap_or_default();
    ensure!(
        says.contains("1 record from your disk for this visit only") && !says.contains("keeps"),
        "next to that it says {says}"
    );
    // If the browser keeps a record, the page must say so.
    open_ready(browser, &stage.page)?;
    drop_file(browser, "good", None)?;
    browser.wait_until(
        "that it is kept",
        "document.querySelector('.kept')?.textContent.includes('this browser keeps it for')",
        SOON,
    )?;
    no_errors(browser)
}
