//! Checks of brushed plots, of charts at a phone's width, and of the timeline.

use crate::browser::views::marks::press;
use crate::browser::{SOON, Stage, fits, no_errors, open_ready, window};
use crate::drivers::webdriver::Browser;
use anyhow::{Result, ensure};
use serde_json::{Value, json};

const PLOT: &str = "document.querySelector('#panel svg [data-plot]')";
const ZOOMED: &str = "location.search.includes('zoom=')";
/// The number of spans in the timeline's test record.
pub const SPANS: usize = 100_000;

fn drag(browser: &Browser, from: (f64, f64), to: (f64, f64)) -> Result<()> {
    let at = |share: f64| (from.0 + (to.0 - from.0) * share, from.1 + (to.1 - from.1) * share);
    browser.drag(&[0.0, 0.25, 0.5, 0.75, 1.0].map(at))
}

/// Checks the brush, its address, the keys and the buttons, on a sweep and a roofline.
pub fn brushed(browser: &Browser, stage: &Stage) -> Result<()> {
    for tab in ["sweep", "roofline"] {
        open_ready(browser, &format!("{}&tab={tab}", stage.record))?;
        browser.wait_until("a plot", PLOT, SOON)?;
        let ticks = "[...document.querySelectorAll('#panel svg > text')].map((e) => e.textContent).join()";
        let before = browser.eval(&format!("return {ticks};"))?;
        // The position of the plot's middle on the screen.
        let place = browser.eval(
            "const g = document.querySelector('#panel svg [data-plot]'), svg = g.closest('svg');
             svg.scrollIntoView({ block: 'center' });
             const at = g.dataset.plot.split(' ').map(Number), of = svg.getBoundingClientRect();
             const scale = of.width / svg.viewBox.baseVal.width * 10;
             return [of.left + (at[0] * 2 + at[2]) / 3 * scale, of.top + (at[1] * 2 + at[3]) / 3 * scale,
                     of.left + (at[0] + at[2] * 2) / 3 * scale, of.top + (at[1] + at[3] * 2) / 3 * scale];",
        )?;
        let at = |i: usize| place[i].as_f64().unwrap_or(0.0);
        drag(browser, (at(0), at(1)), (at(2), at(3)))?;
        browser.wait_until("the brush in the address", ZOOMED, SOON)?;
        browser.wait_until("other ticks", &format!("{ticks} !== {before}"), SOON)?;
        let address = browser.eval("return location.href;")?;
        browser.screenshot(&stage.shots.join(format!("page-brushed-{tab}.png")))?;
        open_ready(browser, address.as_str().unwrap_or_default())?;
        browser.wait_until("the same part by its link", &format!("{ZOOMED} && {ticks} !== {before}"), SOON)?;
        browser.eval("document.querySelector('#panel svg.wb-chart').focus();")?;
        press(browser, "0", 48)?;
        browser.wait_until("all of it by a key", &format!("!({ZOOMED}) && {ticks} === {before}"), SOON)?;
        browser.wait_until("the focus still on the chart", "document.activeElement.matches('svg.wb-chart')", SOON)?;
        press(browser, "+", 187)?;
        browser.wait_until("a step nearer", ZOOMED, SOON)?;
        browser.eval("[...document.querySelectorAll('.zoom button')].at(-1).click();")?;
        browser.wait_until("all of it by the button", &format!("!({ZOOMED})"), SOON)?;
    }
    no_errors(browser)
}

/// Checks that a phone shows charts at full width, without a scrollbar or small texts, and redraws them when it is
/// turned.
pub fn fit_a_phone(browser: &Browser, stage: &Stage) -> Result<()> {
    window(browser, 360, 740, true)?;
    for tab in ["ladder", "sweep", "heatmap", "roofline", "operations", "loss"] {
        open_ready(browser, &format!("{}&tab={tab}", stage.record))?;
        let wrong = browser.eval(
            "return [...document.querySelectorAll('#panel .drawing')].filter((d) => d.scrollWidth > d.clientWidth + 1).length
                + [...document.querySelectorAll('#panel .drawing svg text')].filter((t) => {
                    const svg = t.ownerSVGElement;
                    const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
                    return parseFloat(getComputedStyle(t).fontSize) * scale < 11.9;
                }).length;",
        )?;
        ensure!(wrong == json!(0), "{wrong} drawings scroll or texts are small in {tab}");
        fits(browser, tab, 360)?;
        browser.screenshot(&stage.shots.join(format!("page-phone-{tab}.png")))?;
    }
    open_ready(browser, &stage.record)?;
    let width = "document.querySelector('#panel svg').viewBox.baseVal.width";
    let before = browser.eval(&format!("return {width};"))?;
    window(browser, 740, 360, true)?;
    browser.wait_until("a wider chart", &format!("{width} > {before}"), SOON)?;
    no_errors(browser)
}

/// Checks that the type and the shape are chosen separately, and that a selected line is highlighted in a sweep.
pub fn chosen_apart(browser: &Browser, stage: &Stage) -> Result<()> {
    open_ready(browser, &format!("{}?record=matmul-h200.json&tab=roofline", stage.page))?;
    browser.eval(
        "const types = document.getElementById('dtype');
         types.value = [...types.options].find((o) => o.textContent === 'fp32').value;
         types.dispatchEvent(new Event('change', { bubbles: true }));",
    )?;
    browser.wait_until(
        "the same shape in fp32",
        "document.getElementById('problem').selectedOptions[0].textContent === '4096³'",
        SOON,
    )?;
    browser.wait_until("its chart", "document.querySelector('#panel svg').textContent.includes('4096³ fp32')", SOON)?;
    browser.eval("document.getElementById('tab-sweep').click();")?;
    let named = "[...document.querySelectorAll('#panel svg [data-legend]')].some((e) => e.dataset.legend === 'Naive')";
    browser.wait_until("a sweep without the slowest", &format!("{PLOT} && !({named})"), SOON)?;
    browser.eval("document.querySelector('.picks input[value=\"01_naive\"]').click();")?;
    browser.wait_until(
        "the picked line by its name",
        &format!("{named} && location.search.includes('pick=01_naive')"),
        SOON,
    )?;
    no_errors(browser)
}

/// Returns a copy of a record with [`SPANS`] spans.
pub fn traced_record(text: &str) -> Result<String> {
    let mut record: Value = serde_json::from_str(text)?;
    let (rung, problem) = (record["rungs"][8]["id"].clone(), record["main_problem"].clone());
    let spans = (0..SPANS).map(|i| {
        let stream = ["host", "7", "8", "9"][i % 4];
        let operation = format!("conv{} {}", i % 5, ["forward", "weight gradient", "update"][i % 3]);
        let (start, us) = (i as f64 * 0.9, 2.0 + (i % 7) as f64 * 0.1);
        json!({ "rung": rung, "problem": problem, "name": format!("kernel_{}", i % 11), "operation": operation,
                "stream": stream, "start_us": start, "duration_us": us })
    });
    record["spans"] = spans.collect();
    let timeline = json!("timeline");
    if let Some(charts) = record["descriptor"]["charts"].as_array_mut().filter(|charts| !charts.contains(&timeline)) {
        charts.push(timeline);
    }
    Ok(record.to_string())
}

/// Checks zoom, search, selection and export to Perfetto of a timeline at 30 frames a second, or at half of that on a
/// busy machine.
pub fn timeline(browser: &Browser, stage: &Stage) -> Result<()> {
    open_ready(browser, &format!("{}?src=test/traced.json&tab=operations", stage.page))?;
    browser.wait_until("the timeline", "document.querySelector('.trace canvas')", SOON)?;
    let caption = "document.querySelector('.totals caption').textContent";
    browser.wait_until("all spans in sight", &format!("{caption}.includes('100000 spans')"), SOON)?;
    // Each key redraws the timeline; the measured rate is of a browser without a GPU.
    let rate = browser.eval(
        "const canvas = document.querySelector('.trace canvas');
         canvas.focus();
         return new Promise((done) => {
            let frames = 0;
            const begin = performance.now();
            const next = () => {
                if (frames === 60) return done(frames / (performance.now() - begin) * 1000);
                const key = frames % 2 ? '-' : '+';
                canvas.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true }));
                frames += 1;
                requestAnimationFrame(next);
            };
            requestAnimationFrame(next);
         });",
    )?;
    println!("timeline of {SPANS} spans: {:.0} frames a second (goal 30)", rate.as_f64().unwrap_or(0.0));
    ensure!(rate.as_f64().is_some_and(|r| r >= 15.0), "{rate} frames a second");
    browser.eval("document.querySelector('.trace canvas').focus();")?;
    press(browser, "0", 48)?;
    browser.wait_until("all of it", &format!("{caption}.includes('100000 spans')"), SOON)?;
    press(browser, "+", 187)?;
    browser.wait_until("a part of it", &format!("!{caption}.includes('100000 spans')"), SOON)?;
    browser.eval(
        "const field = document.getElementById('trace-search');
         field.value = 'CONV3 weight';
         field.dispatchEvent(new InputEvent('input', { bubbles: true }));",
    )?;
    let only = "[...document.querySelectorAll('.totals tbody th')].map((e) => e.textContent).join() === 'conv3 weight gradient'";
    browser.wait_until("totals of what was searched", only, SOON)?;
    browser.screenshot(&stage.shots.join("page-timeline.png"))?;
    browser.eval(
        "[...document.querySelectorAll('.trace .toolbar button')].find((b) => b.textContent === 'Next').click();",
    )?;
    browser.wait_until("one span selected", &format!("{caption}.startsWith('Selected')"), SOON)?;
    let (from, found) = ("location.search.includes('span=')", "location.search.includes('find=CONV3+weight')");
    browser.wait_until("what is shown in the address", &format!("{from} && {found}"), SOON)?;
    let said = browser.eval(&format!("return {caption};"))?;
    let address = browser.eval("return location.href;")?;
    hands_over(browser)?;
    open_ready(browser, address.as_str().unwrap_or_default())?;
    browser.wait_until("the same by its link", &format!("{caption} === {said}"), SOON)?;
    no_errors(browser)
}

/// Plays Perfetto's side of the handshake: answers the ping and receives the trace.
fn hands_over(browser: &Browser) -> Result<()> {
    browser.eval(
        "window.sent = [];
         window.open = (address) => ((window.opened = address), Object.assign(document.createElement('iframe'), {
            postMessage: (what, to) => window.sent.push([what, to]), closed: false }));
         document.querySelector('.perfetto').click();",
    )?;
    browser.wait_until("a ping", "window.sent.some(([what]) => what === 'PING')", SOON)?;
    for origin in ["https://example.org", "https://ui.perfetto.dev"] {
        let given = browser.eval("return window.sent.some(([what]) => what.perfetto);")?;
        ensure!(given == json!(false), "the trace was given to {origin} or before an answer");
        browser.eval(&format!(
            "window.dispatchEvent(new MessageEvent('message', {{ data: 'PONG', origin: '{origin}' }}));"
        ))?;
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    let events = browser.eval(
        "const [what, to] = window.sent.find(([what]) => what.perfetto);
         if (to !== 'https://ui.perfetto.dev' || window.opened !== to) return -1;
         return JSON.parse(new TextDecoder().decode(what.perfetto.buffer)).traceEvents.filter((e) => e.ph === 'X').length;",
    )?;
    ensure!(events == json!(SPANS), "Perfetto was given {events} spans");
    Ok(())
}
