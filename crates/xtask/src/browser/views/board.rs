//! Checks of thirty records at once, of a folder of records, and of a class's progress files.

use crate::browser::views::marks::press;
use crate::browser::{READY, SOON, Stage, fits, no_errors, open_ready, scheme, window};
use crate::drivers::webdriver::Browser;
use crate::workspace::{Workspace, write_atomic};
use anyhow::{Result, ensure};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::time::Duration;
use std::time::Instant;

/// A script that drops thirty copies of a record with different people and times, some of them without a check, one
/// without a name.
pub(crate) const DROP_A_CLASS: &str = "
    return fetch('test/softmax.json').then((r) => r.text()).then((text) => {
        const dataTransfer = new DataTransfer();
        for (let i = 0; i < 30; i++) {
            const record = JSON.parse(text);
            record.author = i === 29 ? undefined : `Learner ${i + 1} <b>`;
            for (const m of record.measurements) {
                m.samples_us = m.samples_us.map((us) => us * (1 + i * i / 100));
                if (i % 7 === 3) delete m.check;
            }
            dataTransfer.items.add(new File([JSON.stringify(record)], `file-${i}.json`));
        }
        for (const kind of ['dragenter', 'dragover', 'drop'])
            document.body.dispatchEvent(new DragEvent(kind, { dataTransfer, bubbles: true, cancelable: true }));
    });";
const ROWS: &str = "document.querySelectorAll('#ranking tbody tr').length";

pub fn of_dropped_records(browser: &Browser, stage: &Stage) -> Result<()> {
    window(browser, 1440, 900, false)?;
    // Published records have no author.
    open_ready(browser, &format!("{}?view=board", stage.page))?;
    let empty = browser.eval("return [document.querySelector('main').textContent.includes('--author NAME'), !!document.querySelector('#ranking')];")?;
    ensure!(empty == json!([true, false]), "without a class the board shows {empty}");
    open_ready(browser, &stage.page)?;
    let begin = Instant::now();
    browser.eval(DROP_A_CLASS)?;
    browser.wait_until("the board", &format!("{ROWS} === 30"), SOON)?;
    let lines = "[...document.querySelectorAll('.board svg [data-value]')].filter((e) => e.dataset.value.startsWith('published: ')).length";
    browser.wait_until("the published record's line", &format!("{lines} === 1"), SOON)?;
    let took = begin.elapsed();
    ensure!(took < Duration::from_secs(5), "thirty records take {took:?}");
    browser.wait_until("its address", "location.search === '?view=board'", SOON)?;
    let said = browser.eval(
        "const text = (s) => [...document.querySelectorAll(s)].map((e) => e.textContent);
         return [text('.board svg [data-name^=Learner] circle').length, text('#unchecked li strong').join(),
            text('#ranking tbody th')[0], document.querySelectorAll('.board b').length];",
    )?;
    let unchecked = "Learner 4 <b>,Learner 11 <b>,Learner 18 <b>,Learner 25 <b>";
    ensure!(said == json!([25, unchecked, "Learner 1 <b>", 0]), "the board says {said}");
    let nameless = browser
        .eval("return [...document.querySelectorAll('#ranking tbody th')].some((e) => e.textContent === 'file-29');")?;
    ensure!(nameless == json!(true), "a record without an author is not called by its file");
    looks(browser, stage)?;
    // The keyboard alone can reach the chooser of tasks and a person's record.
    browser.eval(
        "const select = document.getElementById('task'); select.focus(); select.selectedIndex = 1; \
         select.dispatchEvent(new Event('change', { bubbles: true }));",
    )?;
    browser.wait_until("the task in the address", "location.search.includes('&task=')", SOON)?;
    browser.wait_until("the focus still there", "document.activeElement.id === 'task'", SOON)?;
    let address = browser.eval("return location.href;")?;
    let task = browser.eval("return document.getElementById('task').value;")?;
    open_ready(browser, address.as_str().unwrap_or_default())?;
    browser.wait_until("the class after a reload", &format!("{ROWS} >= 30"), READY)?;
    ensure!(browser.eval("return document.getElementById('task').value;")? == task, "the address has lost the task");
    browser.eval("document.getElementById('opened-only').click();")?;
    browser.wait_until(
        "the class alone",
        &format!("{ROWS} === 30 && !{lines} && location.search.includes('opened=only')"),
        SOON,
    )?;
    browser.eval("document.querySelector('#ranking tbody button').click();")?;
    browser.wait_until(
        "the person's record",
        "document.querySelector('.subtitle')?.textContent.includes('Run by Learner 1 <b>')",
        SOON,
    )?;
    browser.eval("history.back();")?;
    browser.wait_until("the board again", &format!("{ROWS} === 30"), SOON)?;
    no_errors(browser)
}

/// Checks each width in both themes.
fn looks(browser: &Browser, stage: &Stage) -> Result<()> {
    for (width, height, is_phone) in [(1440, 900, false), (360, 740, true), (320, 700, true)] {
        for theme in ["light", "dark"] {
            scheme(browser, theme)?;
            window(browser, width, height, is_phone)?;
            fits(browser, "the board", width)?;
            browser.screenshot(&stage.shots.join(format!("page-board-{width}-{theme}.png")))?;
        }
    }
    window(browser, 1440, 900, false)?;
    scheme(browser, "light")
}

/// Checks that the board opens from the folder's address, from its index, and from its files one by one.
pub fn of_a_folder(browser: &Browser, stage: &Stage) -> Result<()> {
    let each: Vec<String> = (0..10).map(|i| format!("src=test/class/{i}.json")).collect();
    for query in ["src=test/class/", "src=test/class/index.json", each.join("&").as_str()] {
        open_ready(browser, &format!("{}?{query}&opened=only", stage.page))?;
        browser.wait_until("the class", &format!("{ROWS} === 10"), READY)?;
        let first = browser.eval("return document.querySelector('#ranking tbody th').textContent;")?;
        ensure!(first == json!("Grace 0"), "the first is {first}");
    }
    no_errors(browser)
}

/// A script that drops the progress files of two people. Ada has a time on a GPU for `E05`; Bob's name looks like HTML.
const DROP_PROGRESS: &str = "
    const count = (count) => [{ name: 'sectors a request', count, bound: 4, is_most: true, is_met: count <= 4 }];
    const tried = (verdict, more) => ({ at: 180, verdict, source: 's', ...more });
    const exercise = (exercise, tries, more) => ({ exercise, begun_at: 60, count: tries.length, tries, ...more });
    const timed = { counts: count(4), time_us: 12.5, share: 0.9, gpu: 'NVIDIA H200' };
    const people = {
        'Ada': [exercise('E01', []), exercise('E05', [tried('right_and_on_target', timed)], { minutes_to_right: 2 })],
        'Bob <b>': [exercise('E01', [tried('not_yet')]),
            exercise('E05', [tried('right', { counts: count(32) })], { minutes_to_right: 2 })],
    };
    const dataTransfer = new DataTransfer();
    for (const [person, exercises] of Object.entries(people)) {
        const progress = { kind: 'warpbook-progress', format: 1, person, exercises };
        dataTransfer.items.add(new File([JSON.stringify(progress)], `${person}.json`));
    }
    for (const kind of ['dragenter', 'dragover', 'drop'])
        document.body.dispatchEvent(new DragEvent(kind, { dataTransfer, bubbles: true, cancelable: true }));";

/// Checks the board of two people's progress files: states are words, large type has at least 24 px, Tab reaches the
/// controls in order, and the page is no wider than the window.
pub fn of_progress_files(browser: &Browser, stage: &Stage) -> Result<()> {
    window(browser, 1920, 1080, false)?;
    open_ready(browser, &stage.page)?;
    browser.eval(DROP_PROGRESS)?;
    browser.wait_until("both people", "document.querySelectorAll('#class-grid tbody tr').length === 2", SOON)?;
    let rows = |table: &str| {
        browser.eval(&format!(
            "return [...document.querySelectorAll('#{table} tbody tr')].map((row) => [...row.children].slice(0, 3).map((c) => c.textContent));"
        ))
    };
    let grid = rows("class-grid")?;
    let states = json!([["Ada", "begun", "★ on target"], ["Bob <b>", "1 try", "✓ right"]]);
    ensure!(grid == states, "the grid says {grid}");
    let said = browser.eval("return document.querySelector('.exercises [role=status]').textContent;")?;
    ensure!(said == json!("2 learners"), "the class is announced as {said}");
    browser.eval("document.getElementById('large-type').click();")?;
    browser.wait_until("large type", "document.querySelector('.projector .exercises')", SOON)?;
    let small = browser.eval(
        "const size = (e) => parseFloat(getComputedStyle(e).fontSize);
         const says = (e) => e.matches('select') || [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
         return [...document.querySelectorAll('.exercises :not(option)')].filter((e) => says(e) && size(e) < 24)
            .map((e) => `${e.textContent}: ${size(e)} px`);",
    )?;
    ensure!(small == json!([]), "in large type, these are smaller than 24 px: {small}");
    browser.eval("document.getElementById('large-type').focus();")?;
    for stop in ["Close the class", "Table: learners and exercises", "Rank E01", "Rank E05"] {
        tab_to(browser, stop)?;
    }
    press(browser, "Enter", 13)?;
    let chosen = "document.querySelector('[aria-label=\"Rank E05\"]').ariaPressed === 'true'";
    browser.wait_until("the ranking of E05", chosen, SOON)?;
    let ranking = rows("class-ranking")?;
    let places = json!([["1", "Ada", "★ on target"], ["2", "Bob <b>", "✓ right"]]);
    ensure!(ranking == places, "the ranking says {ranking}");
    for stop in ["class-exercise", "class-order", "Table: ranking of the exercise"] {
        tab_to(browser, stop)?;
    }
    browser.screenshot(&stage.shots.join("page-class-1920.png"))?;
    for (width, height, is_phone) in [(1920, 1080, false), (1440, 900, false), (320, 700, true)] {
        window(browser, width, height, is_phone)?;
        fits(browser, "the class in large type", width)?;
    }
    browser.eval("document.getElementById('large-type').click();")?;
    browser.wait_until("ordinary type", "!document.querySelector('.projector')", SOON)?;
    fits(browser, "the class", 320)?;
    browser.screenshot(&stage.shots.join("page-class-320.png"))?;
    no_errors(browser)
}

/// Presses Tab, and checks that the focus reaches an element with this id, label or text.
fn tab_to(browser: &Browser, stop: &str) -> Result<()> {
    press(browser, "Tab", 9)?;
    let focused = "((e) => e.id || e.ariaLabel || e.textContent)(document.activeElement)";
    browser.wait_until(&format!("the focus on {stop}"), &format!("{focused} === '{stop}'"), SOON)
}

/// Writes records of ten people and an index into a folder.
pub fn class(w: &Workspace, folder: &Path) -> Result<()> {
    let record: Value = serde_json::from_slice(&fs::read(w.path("web/tests/softmax.json"))?)?;
    let mut files = Vec::new();
    for i in 0..10_u32 {
        let mut record = record.clone();
        record["author"] = format!("Grace {i}").into();
        for m in record["measurements"].as_array_mut().into_iter().flatten() {
            let times: Vec<f64> = m["samples_us"].as_array().into_iter().flatten().filter_map(Value::as_f64).collect();
            m["samples_us"] = times.iter().map(|us| us * (1.0 + f64::from(i) / 10.0)).collect();
        }
        files.push(json!({ "file": format!("{i}.json") }));
        write_atomic(&folder.join(format!("{i}.json")), record.to_string())?;
    }
    write_atomic(&folder.join("index.json"), json!({ "records": files }).to_string())
}
