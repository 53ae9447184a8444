//! Checks of records going into the page and out of it: pasted text, records in the browser's storage, links that carry
//! a record, pictures, the report, self-contained files, and a page that follows its files.

use super::views::marks;
use super::{ALERTS, SOON, Stage, alerts, drop_file, fits, media, no_errors, open_ready, window};
use crate::drivers::webdriver::Browser;
use crate::process::{Guard, command};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::Duration;

/// A script that captures the page's copies and saved files, instead of the clipboard and the disk.
const INTERCEPT: &str = "
    window.__copied = null; window.__saved = [];
    navigator.clipboard.writeText = (text) => { window.__copied = text; return Promise.resolve(); };
    const make = URL.createObjectURL.bind(URL);
    URL.createObjectURL = (blob) => { window.__saved.push(blob); return make(blob); };
    HTMLAnchorElement.prototype.click = () => {};";
const DROPPED: &str = "document.querySelector('h1')?.textContent === 'Dropped here'";

fn press(browser: &Browser, selector: &str) -> Result<()> {
    let found =
        browser.eval(&format!("const e = document.querySelector({}); e?.click(); return !!e;", json!(selector)))?;
    ensure!(found == json!(true), "there is no {selector}");
    Ok(())
}

fn press_text(browser: &Browser, text: &str) -> Result<()> {
    let found = browser.eval(&format!(
        "const e = [...document.querySelectorAll('button')].find((b) => b.textContent.trim() === {}); e?.click(); return !!e;",
        json!(text)
    ))?;
    ensure!(found == json!(true), "there is no button {text}");
    Ok(())
}

/// Pastes records onto the page and into the text field.
pub fn pasted(browser: &Browser, stage: &Stage) -> Result<()> {
    open_ready(browser, &stage.page)?;
    let paste = |text: &str| {
        browser.eval(&format!(
            "return fetch('test/softmax.json').then((r) => r.text()).then((record) => {{
                const clipboardData = new DataTransfer();
                clipboardData.setData('text/plain', {text});
                document.body.dispatchEvent(new ClipboardEvent('paste', {{ clipboardData, bubbles: true }}));
            }});"
        ))
    };
    paste("'words of no record'")?;
    std::thread::sleep(Duration::from_millis(200));
    ensure!(
        browser.eval(&format!("return {ALERTS};"))? == json!([]),
        "words that were copied for something else get an alert"
    );
    paste("record.slice(0, 500)")?;
    browser.wait_until("why it was not opened", &format!("{ALERTS}.some((t) => t.startsWith('pasted.json'))"), SOON)?;
    paste("record")?;
    browser.wait_until("the pasted record", "document.querySelector('h1').textContent === 'Row softmax'", SOON)?;
    press(browser, "#forget")?;
    open_ready(browser, &stage.page)?;
    press(browser, ".paste summary")?;
    browser.eval(
        "return fetch('test/softmax.json').then((r) => r.text()).then((text) => {
            const area = document.getElementById('paste');
            area.value = text;
            area.dispatchEvent(new Event('input', { bubbles: true }));
        });",
    )?;
    browser.wait_until(
        "the record of the field",
        "document.querySelector('h1').textContent === 'Row softmax'",
        SOON,
    )?;
    no_errors(browser)
}

/// Checks that an opened record is still there after a reload, also by its link, and that a deleted record stays deleted.
pub fn kept(browser: &Browser, stage: &Stage) -> Result<()> {
    open_ready(browser, &stage.page)?;
    drop_file(browser, "good", None)?;
    browser.wait_until("the dropped record", DROPPED, SOON)?;
    let key = "new URLSearchParams(location.search).get('record')?.startsWith('disk-')";
    browser.wait_until("its address", key, SOON)?;
    browser.wait_until(
        "the way to forget it",
        "document.querySelector('.records #forget')?.checkVisibility()",
        SOON,
    )?;
    let address = browser.eval("return location.href;")?;
    let address = address.as_str().context("the page has no address")?;
    browser.open("about:blank")?;
    open_ready(browser, address)?;
    browser.wait_until("the record of the visit before", DROPPED, SOON)?;
    ensure!(browser.eval(&format!("return {ALERTS};"))? == json!([]), "the link to a kept record gets an alert");
    press(browser, "#forget")?;
    browser.wait_until("no record from disk", "!document.querySelector('#forget')", SOON)?;
    std::thread::sleep(Duration::from_millis(300));
    open_ready(browser, &stage.page)?;
    let named = browser.eval("return document.body.textContent.includes('Dropped here');")?;
    ensure!(named == json!(false), "a forgotten record is there again");
    no_errors(browser)
}

/// Checks the menu by keyboard, on a desktop and on a phone.
pub fn menu(browser: &Browser, stage: &Stage) -> Result<()> {
    for (width, height, is_phone) in [(1440, 900, false), (360, 740, true)] {
        window(browser, width, height, is_phone)?;
        open_ready(browser, &stage.record)?;
        browser.eval("document.querySelector('.pass-on summary').focus();")?;
        marks::press(browser, "Enter", 13)?;
        browser.wait_until("the menu", "document.querySelector('.pass-on').open", SOON)?;
        let outside = browser.eval(
            "return [...document.querySelectorAll('.pass-on > div, .pass-on button')].map((e) => e.getBoundingClientRect())
                .filter((r) => r.left < 0 || r.right > innerWidth || r.bottom > innerHeight).length;",
        )?;
        ensure!(outside == json!(0), "{outside} parts of the menu are out of sight at {width} px");
        fits(browser, "the page with its menu", width)?;
        browser.screenshot(&stage.shots.join(format!("page-menu-{width}.png")))?;
        marks::press(browser, "Escape", 27)?;
        let left = "!document.querySelector('.pass-on').open && document.activeElement.matches('.pass-on summary')";
        browser.wait_until("its end", left, SOON)?;
    }
    browser.eval("document.querySelector('.pass-on').open = true; document.getElementById('show-report').click();")?;
    browser.wait_until("the menu closed by a choice", "!document.querySelector('.pass-on').open", SOON)?;
    no_errors(browser)
}

/// Checks that a link carrying the page's record opens in a browser without any other data.
pub fn carried_by_a_link(browser: &Browser, stage: &Stage) -> Result<()> {
    open_ready(browser, &stage.page)?;
    browser.eval(INTERCEPT)?;
    drop_file(browser, "softmax", None)?;
    browser.wait_until("the dropped record", DROPPED, SOON)?;
    press(browser, "#tab-table")?;
    press(browser, "#copy-link")?;
    browser.wait_until("the plain link", "window.__copied === location.href", SOON)?;
    press(browser, "#copy-carrying")?;
    browser.wait_until("the link", "window.__copied?.includes('#record=')", SOON)?;
    let told = "document.querySelector('.told')?.checkVisibility() && document.querySelector('.told').textContent.startsWith('Copied a link of')";
    browser.wait_until("that it was copied", told, SOON)?;
    press(browser, "#forget")?;
    let link = browser.eval("return window.__copied;")?;
    let link = link.as_str().context("no link was copied")?;
    ensure!(link.len() < 8_000, "a small record has a link of {} characters", link.len());
    browser.open("about:blank")?;
    open_after(browser, link, "[role=tab][aria-selected=true]")?;
    browser.wait_until("the record", DROPPED, SOON)?;
    browser.wait_until(
        "where it comes from",
        "document.querySelector('.carried')?.textContent.includes('nobody')",
        SOON,
    )?;
    browser.wait_until("the view of the link", "document.getElementById('tab-table').ariaSelected === 'true'", SOON)?;
    let asked = "performance.getEntriesByType('resource').some((e) => e.name.includes('record='))";
    ensure!(browser.eval(&format!("return {asked};"))? == json!(false), "the record was sent to the server");
    press(browser, "#tab-environment")?;
    browser.wait_until("the record in the address still", "location.hash.startsWith('#record=')", SOON)?;
    no_errors(browser)
}

fn open_after(browser: &Browser, url: &str, selector: &str) -> Result<()> {
    browser.open(url)?;
    browser.wait_until(selector, &format!("document.querySelector({})", json!(selector)), super::READY)
}

/// Checks links that are broken, hostile, or far too long when unpacked.
pub fn hostile_links(browser: &Browser, stage: &Stage) -> Result<()> {
    for fragment in ["#record=%", "#record=AAAA", "#record=q1YqSy0qzszPU7JSMlTSUSpJLS4BAA"] {
        browser.open("about:blank")?;
        alerts(browser, &format!("{}{fragment}", stage.page))?;
        let says = browser.eval(&format!("return {ALERTS};"))?.to_string();
        ensure!(says.contains("in the link was not opened"), "{fragment} is answered {says}");
    }
    let pack = |source: &str| {
        browser.eval(&format!(
            "const stream = ({source}).pipeThrough(new CompressionStream('deflate-raw'));
             return new Response(stream).arrayBuffer().then((b) => new Uint8Array(b).toBase64?.({{ alphabet: 'base64url', omitPadding: true }})
                ?? btoa([...new Uint8Array(b)].map((c) => String.fromCharCode(c)).join('')).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', ''));"
        ))
    };
    open_ready(browser, &stage.page)?;
    let bomb = pack("new Blob(Array(300).fill(' '.repeat(1 << 20))).stream()")?;
    let hostile = pack(&format!("new Blob([{}]).stream()", json!(stage.hostile)))?;
    let at = |data: &Value| format!("{}#record={}&name=%3Cb%3E", stage.page, data.as_str().unwrap_or_default());
    browser.open("about:blank")?;
    alerts(browser, &at(&bomb))?;
    let says = browser.eval(&format!("return {ALERTS};"))?.to_string();
    ensure!(says.contains("64 MiB"), "a record of 300 MiB is answered {says}");
    browser.open("about:blank")?;
    open_after(browser, &at(&hostile), ".carried")?;
    std::thread::sleep(Duration::from_millis(500));
    let smuggled = browser
        .eval("return window.__pwned !== undefined || !!document.querySelector('#warpbook :is(script, iframe)');")?;
    ensure!(smuggled == json!(false), "text of a record in a link became an element or ran");
    no_errors(browser)
}

/// Saves each file of a chart, and the report: chosen charts with notes, which survive a reload.
pub fn pictures_and_report(browser: &Browser, stage: &Stage) -> Result<()> {
    open_ready(browser, &stage.record)?;
    browser.eval(INTERCEPT)?;
    for (button, mime, least) in
        [("Save SVG", "image/svg+xml", 2_000), ("Save PNG", "image/png", 10_000), ("Save CSV", "text/csv", 200)]
    {
        press_text(browser, button)?;
        let saved = format!("window.__saved.some((b) => b.type === '{mime}' && b.size > {least})");
        browser.wait_until(button, &saved, SOON)?;
    }
    let drawn = browser.eval(
        "return createImageBitmap(window.__saved.find((b) => b.type === 'image/png')).then((image) => {
            const canvas = new OffscreenCanvas(image.width, image.height).getContext('2d');
            canvas.drawImage(image, 0, 0);
            const dots = canvas.getImageData(0, 0, image.width, image.height).data;
            const colours = new Set();
            for (let i = 0; i < dots.length; i += 4) colours.add(dots[i] << 16 | dots[i + 1] << 8 | dots[i + 2]);
            return [image.width, [...dots.slice(0, 3)], colours.size];
        });",
    )?;
    ensure!(drawn[0] == json!(1440) && drawn[1] == json!([255, 255, 255]), "the PNG is {drawn}");
    ensure!(drawn[2].as_u64().is_some_and(|n| n > 8), "the PNG has only {} colours", drawn[2]);
    press_text(browser, "Add to report")?;
    press(browser, "#tab-roofline")?;
    browser.wait_until("the roofline", "document.querySelector('#panel svg')", SOON)?;
    press_text(browser, "Add to report")?;
    press(browser, "#show-report")?;
    browser.wait_until("both charts", "document.querySelectorAll('.item img').length === 2", SOON)?;
    browser.eval(
        "const note = document.getElementById('note-0'); note.value = 'Mine *own*'; \
         note.dispatchEvent(new Event('change', { bubbles: true }));",
    )?;
    browser.wait_until("the address", "location.search === '?view=report'", SOON)?;
    browser.open(&format!("{}?view=report", stage.page))?;
    browser.wait_until(
        "the note after a reload",
        "document.getElementById('note-0')?.value === 'Mine *own*'",
        super::READY,
    )?;
    let shown = "[...document.querySelectorAll('.item img')].every((i) => i.complete && i.naturalWidth > 600)";
    browser.wait_until("both pictures", shown, SOON)?;
    browser.eval(INTERCEPT)?;
    press_text(browser, "Save HTML")?;
    let text = browser.eval("return window.__saved.at(-1).text();")?;
    let text = text.as_str().unwrap_or_default();
    ensure!(
        text.matches("<img src=\"data:image/svg+xml;base64,").count() == 2
            && text.contains(">Mine *own*</p>")
            && text.matches("<p class=\"source\">").count() == 2,
        "the report is {text:.300}"
    );
    for (width, height, is_phone) in [(1440, 900, false), (360, 740, true), (320, 700, true)] {
        window(browser, width, height, is_phone)?;
        fits(browser, "the report", width)?;
        browser.screenshot(&stage.shots.join(format!("page-report-{width}.png")))?;
    }
    media(browser, "print", "dark")?;
    let printed = browser.eval(
        "return [...document.querySelectorAll('.note.printed, .unprinted, textarea')].filter((e) => e.checkVisibility()).map((e) => e.textContent);",
    )?;
    ensure!(printed == json!(["Mine *own*"]), "besides the charts it prints {printed}");
    no_errors(browser)
}

/// Checks that the output of `warpbook share` opens from disk, shows its records, and connects to nothing.
pub fn shared_file(browser: &Browser, stage: &Stage) -> Result<()> {
    let out = stage.shots.join("shared.html");
    let shared = warpbook(stage)
        .args(["share", "--out"])
        .arg(&out)
        .args([
            stage.folder.join("test/softmax.json"),
            stage.folder.join("test/hostile.json"),
            stage.folder.join("test/good.json"),
        ])
        .output()
        .context("the warpbook program cannot be started")?;
    ensure!(shared.status.success(), "warpbook share ended with {}", String::from_utf8_lossy(&shared.stderr));
    let url = format!("file://{}", out.display());
    open_after(browser, &url, ".card .open")?;
    let cards = browser.eval("return document.querySelectorAll('.card').length;")?;
    ensure!(cards == json!(3), "it shows {cards} records");
    browser.screenshot(&stage.shots.join("page-shared.png"))?;
    press(browser, ".card .open")?;
    browser.wait_until("the record", "document.querySelector('#panel svg')", SOON)?;
    let styled = "getComputedStyle(document.querySelector('.top')).display === 'flex'";
    ensure!(browser.eval(&format!("return {styled};"))? == json!(true), "its style does not apply");
    browser.eval(INTERCEPT)?;
    press_text(browser, "Save PNG")?;
    browser.wait_until("a PNG", "window.__saved.some((b) => b.type === 'image/png')", SOON)?;
    no_errors(browser)?;
    let policy = browser.eval("return document.querySelector('meta[http-equiv]').content;")?;
    let policy = policy.as_str().unwrap_or_default();
    ensure!(policy.contains("connect-src 'none'") && !policy.contains("script-src 'self'"), "its policy is {policy}");
    // The browser must obey the policy, not just contain it.
    let reached = browser.eval(&format!(
        "return fetch({0}).then(() => 'fetched', () => new Promise((done) => {{
            const script = Object.assign(document.createElement('script'), {{ textContent: 'window.__ran = 1' }});
            document.body.append(script);
            done(window.__ran ? 'ran' : 'nothing');
        }}));",
        json!(stage.page)
    ))?;
    ensure!(reached == json!("nothing"), "a script of its own could have {reached}");
    ensure!(browser.eval("return window.__pwned === undefined;")? == json!(true), "text of a record ran as a script");
    browser.console_errors().map(drop)
}

/// Checks that a shared class opens on its board, with the authors' names on the cards.
pub fn shared_class(browser: &Browser, stage: &Stage) -> Result<()> {
    let out = stage.folder.join("class.html");
    let shared = warpbook(stage).args(["share", "--out"]).arg(&out).arg(stage.folder.join("test/class")).output()?;
    ensure!(shared.status.success(), "warpbook share ended with {}", String::from_utf8_lossy(&shared.stderr));
    browser.open(&format!("file://{}", out.display()))?;
    browser.wait_until("the board", "document.querySelectorAll('#ranking tbody tr').length === 10", super::READY)?;
    press(browser, ".brand")?;
    browser.wait_until("all records", "document.querySelectorAll('.card').length === 10", SOON)?;
    let titles = browser
        .eval("return new Set([...document.querySelectorAll('.card .title')].map((e) => e.textContent)).size;")?;
    ensure!(titles == json!(10), "ten people's cards have {titles} titles");
    no_errors(browser)
}

fn warpbook(stage: &Stage) -> std::process::Command {
    let mut program = command(&stage.program);
    program.env("WARPBOOK_VIEWER", stage.folder.join("warpbook.html")).current_dir(&stage.folder);
    program
}

/// Checks that a page served by the program reloads a rewritten record without moving the reader.
pub fn follows_files(browser: &Browser, stage: &Stage) -> Result<()> {
    let (file, later) = (stage.shots.join("live.json"), stage.shots.join("later.json"));
    let record: Value = serde_json::from_slice(&fs::read(stage.folder.join("test/softmax.json"))?)?;
    let write = |path: &std::path::Path, title: &str| {
        let mut record = record.clone();
        record["title"] = title.into();
        crate::workspace::write_atomic(path, record.to_string())
    };
    write(&file, "First")?;
    let _ = fs::remove_file(&later);
    let mut live = warpbook(stage);
    live.args(["view", "--live", "--no-open", "--port", &stage.port.to_string()]).args([&file, &later]);
    let child =
        live.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().context("the warpbook program cannot be started")?;
    let mut server = Guard::new(child);
    let mut url = String::new();
    BufReader::new(server.child().stdout.take().context("its output is piped")?).read_line(&mut url)?;
    open_ready(browser, url.trim())?;
    let title = |text: &str| format!("document.querySelector('h1').textContent === '{text}'");
    browser.wait_until("the record", &title("First"), SOON)?;
    press(browser, "#tab-table")?;
    browser.wait_until("the table", "document.querySelector('#panel table tbody tr')", SOON)?;
    browser.eval("window.__same = document.querySelector('#panel table'); window.scrollTo(0, 300);")?;
    write(&file, "Second")?;
    browser.wait_until("the record anew", &title("Second"), SOON)?;
    let state = browser.eval(
        "return [document.getElementById('tab-table').ariaSelected, window.__same.isConnected, window.scrollY > 100, location.search];",
    )?;
    ensure!(state == json!(["true", true, true, "?tab=table"]), "the page has lost its state: {state}");
    write(&later, "Later")?;
    browser.wait_until("a second record", "document.querySelectorAll('.record').length === 2", SOON)?;
    browser.wait_until(
        "that it follows",
        "document.querySelector('.live')?.textContent === 'Follows the files'",
        SOON,
    )?;
    no_errors(browser)?;
    server.stop(Duration::from_millis(100));
    browser.wait_until("that it does not any more", "document.querySelector('.live.lost')", SOON)?;
    ensure!(
        browser.eval(&format!("return {};", title("Second")))? == json!(true),
        "the record is gone with its server"
    );
    browser.console_errors().map(drop)
}
