//! Checks of the appearance of charts, tables and panels: visibility, overlaps, and texts about them.

use crate::browser::{READY, SOON, Stage, fits, media, no_errors, open_ready, scheme, window};
use crate::drivers::webdriver::Browser;
use anyhow::{Result, ensure};
use serde_json::{Value, json};

/// Returns the files of the page's records.
fn files(browser: &Browser) -> Result<Vec<String>> {
    let files = browser.eval(
        "return fetch('data/index.json').then((r) => r.json()).then((index) => index.records.map((r) => r.file));",
    )?;
    Ok(serde_json::from_value(files)?)
}

fn open_tab(browser: &Browser, stage: &Stage, file: &str, tab: &str) -> Result<()> {
    browser.open(&format!("{}?record={file}&tab={tab}", stage.page))?;
    let shown = format!("document.getElementById('panel')?.getAttribute('aria-labelledby') === 'tab-{tab}'");
    browser.wait_until(
        &format!("{tab} of {file}"),
        &format!("document.body.dataset.warpbookReady !== undefined && {shown}"),
        READY,
    )
}

/// Checks that no part of any record is wider than the window.
pub fn no_page_is_too_wide(browser: &Browser, stage: &Stage) -> Result<()> {
    open_ready(browser, &stage.page)?;
    let files = files(browser)?;
    // A page too wide for a desktop would also be too wide for a tablet.
    for (width, height, is_phone) in [(320, 700, true), (768, 1000, false)] {
        window(browser, width, height, is_phone)?;
        for file in &files {
            open_tab(browser, stage, file, "source")?;
            let wide = browser.eval(
                "const rest = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 30)));
                 return (async () => {
                    const wide = [];
                    for (const id of [...document.querySelectorAll('[role=tab]')].map((t) => t.id)) {
                        document.getElementById(id).click();
                        await rest();
                        const is = document.documentElement.scrollWidth;
                        if (is > innerWidth + 1) wide.push(`${id}: ${is} px`);
                    }
                    return wide;
                 })();",
            )?;
            ensure!(wide == json!([]), "{file} at {width} px is too wide: {wide}");
        }
    }
    no_errors(browser)
}

/// Checks that in forced colours only the chosen tab is underlined.
pub fn forced_colours(browser: &Browser, stage: &Stage) -> Result<()> {
    scheme(browser, "forced")?;
    open_ready(browser, &stage.record)?;
    let found = browser.eval(
        "const line = (tab) => getComputedStyle(tab).borderBottomColor;
         const ground = getComputedStyle(document.body).backgroundColor;
         const tabs = [...document.querySelectorAll('[role=tab]')];
         return {
             forced: matchMedia('(forced-colors: active)').matches,
             tabs: tabs.length,
             marked: tabs.filter((tab) => line(tab) !== ground).map((tab) => tab.getAttribute('aria-selected')),
         };",
    )?;
    ensure!(found["forced"] == true && found["tabs"].as_u64() > Some(1), "colours are not forced: {found}");
    ensure!(found["marked"] == json!(["true"]), "not the chosen tab alone is marked: {found}");
    no_errors(browser)
}

/// Checks that every kernel lies below a roof of the chart, and that all names differ.
pub fn kernels_lie_below_their_roofs(browser: &Browser, stage: &Stage) -> Result<()> {
    window(browser, 1440, 900, false)?;
    for file in ["guide-precision-h200.json", "training-h200.json", "regression-h200.json"] {
        open_tab(browser, stage, file, "profile")?;
        browser.wait_until("the chart", "document.querySelector('#panel figure svg [data-value]')", SOON)?;
        let rungs = browser.eval("return [...document.querySelectorAll('#profiled option')].map((o) => o.value);")?;
        let rungs: Vec<String> = serde_json::from_value(rungs)?;
        ensure!(rungs.len() > 2, "{file} offers the rungs {rungs:?}");
        for rung in rungs {
            browser.eval(&format!(
                "const s = document.getElementById('profiled'); s.value = {}; s.dispatchEvent(new Event('change', {{ bubbles: true }}));",
                json!(rung)
            ))?;
            browser.wait_until(
                "the rung in the address",
                &format!("new URLSearchParams(location.search).get('rung') === {}", json!(rung)),
                SOON,
            )?;
            let seen = browser.eval(
                "const svg = document.querySelector('#panel figure svg');
                 const box = (e) => e.getBoundingClientRect();
                 const lines = [...svg.querySelectorAll('[data-value]:not([data-rung])')].filter((g) => /arithmetic/.test(g.dataset.value));
                 const top = Math.min(...lines.map((g) => box(g).top));
                 const points = [...svg.querySelectorAll('[data-rung][data-value]')];
                 const above = points.filter((g) => !/1\\d\\d % of|above/.test(g.dataset.value) && box(g).bottom < top - 1);
                 return [points.length, above.map((g) => g.dataset.value), lines.length];",
            )?;
            ensure!(
                seen[0].as_u64().is_some_and(|n| n > 0) && seen[2].as_u64().is_some_and(|n| n > 0),
                "{rung} of {file} has {seen}"
            );
            ensure!(seen[1] == json!([]), "{rung} of {file} has points above every roof: {seen}");
        }
    }
    open_tab(browser, stage, "guide-precision-h200.json", "profile")?;
    let types = browser.eval(
        "return [...document.querySelectorAll('#panel figure svg [data-value]')].map((g) => g.dataset.value).join();",
    )?;
    ensure!(types.as_str().is_some_and(|t| t.contains("bf16 arithmetic: ")), "the roofs are {types}");
    no_errors(browser)
}

/// Checks that each rung is compared with the right rung, and that the comparison has lines.
pub fn what_changed(browser: &Browser, stage: &Stage) -> Result<()> {
    window(browser, 1440, 900, false)?;
    let rungs = [
        ("training-h200.json", "07_fused_fp16", "AMP, fp16", false),
        ("training-h200.json", "07_fused_bf16", "AMP, bf16", false),
        ("training-h200.json", "06_amp_bf16", "Channels last", false),
        ("training-h200.json", "13_last_block_fp16", "Dependent launches, fp16", true),
        ("regression-h200.json", "03_fused_streams", "Fused", false),
        ("regression-h200.json", "06_on_chip", "Alternating direction", true),
        ("matmul-h200.json", "18_stream_k", "Stores overlapped", true),
    ];
    for (file, rung, before, has_lines) in rungs {
        browser.open(&format!("{}?record={file}&tab=source&rung={rung}", stage.page))?;
        browser.wait_until("the panel", "document.querySelector('.texts h3')", READY)?;
        let seen = browser.eval("return [document.querySelector('.texts h3').textContent, document.querySelectorAll('.difference').length];")?;
        ensure!(seen[0] == json!(format!("Since {before}")), "{rung} is compared: {seen}");
        ensure!(!has_lines || seen[1].as_u64().is_some_and(|n| n > 0), "{rung} has no lines that changed: {seen}");
    }
    // Code on the first screen must fit into its columns.
    browser.open(&format!("{}?record=matmul-h200.json&tab=source", stage.page))?;
    browser.wait_until("the kernels", "document.querySelector('.kernel-figures')", READY)?;
    let cut = browser.eval(
        "const t = document.querySelector('.kernel-figures'); return t.scrollWidth - t.parentElement.clientWidth;",
    )?;
    ensure!(cut.as_f64().is_some_and(|px| px <= 1.0), "the table of kernels is cut by {cut} px");
    comments(browser)?;
    no_errors(browser)
}

/// Checks that comments in added and removed lines have the contrast that WCAG requires, in both themes.
fn comments(browser: &Browser) -> Result<()> {
    for theme in ["light", "dark"] {
        scheme(browser, theme)?;
        let least = browser.eval(
            "const canvas = Object.assign(document.createElement('canvas'), { width: 1, height: 1 }).getContext('2d', { willReadFrequently: true });
             const paint = (colours) => {
                for (const c of colours) { canvas.fillStyle = c; canvas.fillRect(0, 0, 1, 1); }
                return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3).map((v) => v / 255)
                    .map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
             };
             const light = ([r, g, b]) => 0.2126 * r + 0.7152 * g + 0.0722 * b;
             const seen = (e) => getComputedStyle(e);
             const all = [...document.querySelectorAll('.difference :is(ins, del) .hl-comment')].map((e) => {
                const under = [seen(document.body).backgroundColor, seen(e.closest('.code')).backgroundColor, seen(e.closest('ins, del')).backgroundColor];
                const [a, b] = [light(paint(under)), light(paint([...under, seen(e).color]))].sort((x, y) => y - x);
                return (a + 0.05) / (b + 0.05);
             });
             return all.length ? Math.min(...all) : 0;",
        )?;
        ensure!(least.as_f64().is_some_and(|c| c >= 4.5), "comments have a contrast of {least} in {theme}");
    }
    scheme(browser, "light")
}

/// Checks that figures of neighbouring cells do not touch.
pub fn heat_map(browser: &Browser, stage: &Stage) -> Result<()> {
    for (width, height, is_phone) in [(1440, 900, false), (360, 740, true)] {
        window(browser, width, height, is_phone)?;
        open_tab(browser, stage, "matmul-h200.json", "heatmap")?;
        browser.wait_until("the heat map", "document.querySelector('#panel figure svg')", SOON)?;
        let least = browser.eval(
            "const boxes = [...document.querySelectorAll('#panel figure svg text')].filter((t) => /^>?[\\d.]+$/.test(t.textContent))
                .map((t) => t.getBoundingClientRect()).sort((a, b) => a.top - b.top || a.left - b.left);
             let least = 1e9, pairs = 0;
             for (let i = 1; i < boxes.length; i++)
                if (Math.abs(boxes[i].top - boxes[i - 1].top) < 1) { pairs++; least = Math.min(least, boxes[i].left - boxes[i - 1].right); }
             return [least, pairs];",
        )?;
        ensure!(least[1].as_u64().is_some_and(|n| n > 20), "the heat map has {least}");
        ensure!(least[0].as_f64().is_some_and(|px| px >= 3.0), "two figures are {} px apart at {width} px", least[0]);
    }
    no_errors(browser)
}

/// Checks that a ladder's axis over several decades has a tick for each, and that L2 is mentioned only if kernels are
/// timed.
pub fn ladders(browser: &Browser, stage: &Stage) -> Result<()> {
    window(browser, 1440, 900, false)?;
    let texts = "[...document.querySelectorAll('#panel figure svg text')].map((t) => t.textContent)";
    open_tab(browser, stage, "regression-h200.json", "ladder")?;
    browser.wait_until("the ladder", "document.querySelector('#panel figure svg [data-value]')", SOON)?;
    let ticks = browser.eval(&format!("return {texts}.filter((t) => /^10*\\s(µs|ms|s)$/.test(t));"))?;
    ensure!(ticks.as_array().is_some_and(|t| t.len() >= 4), "the axis has the ticks {ticks}");
    let all = browser.eval(&format!("return {texts}.join(' ');"))?;
    ensure!(all.as_str().is_some_and(|t| t.contains("warm L2")), "the ladder of kernels does not tell of L2");
    for file in ["mnist-to-99-h200.json", "scaling-h200-x4.json", "guide-loader-h200.json"] {
        browser.open(&format!("{}?record={file}", stage.page))?;
        browser.wait_until("a chart", "document.querySelector('#panel figure svg [data-value]')", READY)?;
        let said = browser.eval(&format!("return {texts}.filter((t) => /(warm|cold) L2/i.test(t));"))?;
        ensure!(said == json!([]), "{file} says {said}");
    }
    no_errors(browser)
}

/// Checks that long tables are folded and searchable, and that the warps' stall reasons are visible.
pub fn tables(browser: &Browser, stage: &Stage) -> Result<()> {
    window(browser, 1440, 900, false)?;
    open_tab(browser, stage, "training-h200.json", "table")?;
    browser.wait_until("the table", "document.querySelector('#unfold-kernels')", SOON)?;
    let tall = "document.documentElement.scrollHeight";
    let folded = browser.eval(&format!("return {tall};"))?;
    ensure!(folded.as_f64().is_some_and(|px| px < 8000.0), "the page is {folded} px tall");
    let rows = "[...document.querySelectorAll('[aria-labelledby=sheet-kernels] tbody tr')]";
    browser.eval(
        "const f = document.getElementById('search-kernels'); f.value = 'COLUMN_sums'; f.dispatchEvent(new Event('input', { bubbles: true }));",
    )?;
    let found = format!("{rows}.length && {rows}.every((r) => r.textContent.includes('column_sums'))");
    browser.wait_until("the rows that were searched for", &found, SOON)?;
    browser.eval(
        "const f = document.getElementById('search-kernels'); f.value = ''; f.dispatchEvent(new Event('input', { bubbles: true }));",
    )?;
    browser.wait_until("the way to all rows", "document.querySelector('#unfold-kernels')", SOON)?;
    browser.eval("document.getElementById('unfold-kernels').click();")?;
    browser.wait_until("all rows", &format!("{rows}.length > 400"), SOON)?;
    open_tab(browser, stage, "regression-h200.json", "profile")?;
    browser.wait_until("the counters", "document.querySelector('[aria-labelledby=sheet-counters] th')", SOON)?;
    let waits = browser.eval(
        "const head = [...document.querySelectorAll('[aria-labelledby=sheet-counters] thead th')].find((e) => e.textContent.includes('Warps wait for'));
         return head ? head.getBoundingClientRect().right - innerWidth : 1e9;",
    )?;
    ensure!(waits.as_f64().is_some_and(|px| px <= 0.0), "what warps wait for is {waits} px beyond the window");
    no_errors(browser)
}

/// Checks that a timeline names kernels and streams, without squeezing any name.
pub fn timelines(browser: &Browser, stage: &Stage) -> Result<()> {
    browser.at_start(
        "const write = CanvasRenderingContext2D.prototype.fillText; window.__written = [];
         CanvasRenderingContext2D.prototype.fillText = function (text, x, y, most) {
            window.__written.push([text, x, y, most ?? null, this.measureText(text).width]);
            return write.apply(this, arguments);
         };",
    )?;
    window(browser, 1440, 900, false)?;
    open_tab(browser, stage, "guide-loader-h200.json", "operations")?;
    browser.wait_until("the legend", "document.querySelector('.trace .picks li')", SOON)?;
    let kinds = browser.eval(
        "return [...document.querySelectorAll('.trace .picks li')].map((e) => e.textContent.replace('■ ', ''));",
    )?;
    let kinds: Vec<String> = serde_json::from_value(kinds)?;
    let has = |name: &str| kinds.iter().any(|k| k == name);
    ensure!(has("load and queue") && has("copy to the device") && has("gemm"), "the kinds are {kinds:?}");
    let totals =
        browser.eval("return [...document.querySelectorAll('.totals tbody th')].map((e) => e.textContent).join();")?;
    ensure!(
        totals.as_str().is_some_and(|t| t.contains("copy to the device") && t.contains("gemm")),
        "the totals are of {totals}"
    );
    for (width, height, is_phone) in [(1440, 900, false), (360, 740, true)] {
        window(browser, width, height, is_phone)?;
        open_tab(browser, stage, "scaling-h200-x4.json", "operations")?;
        browser.wait_until("the lanes", "window.__written.length > 3", SOON)?;
        let names = browser.eval("return window.__written.filter((w) => w[1] === 2);")?;
        let names: Vec<(String, f64, f64, Option<f64>, f64)> = serde_json::from_value(names)?;
        ensure!(names.iter().any(|n| n.0.contains("rank 0")), "the lanes are {names:?}");
        let most = if is_phone { 100.0 } else { 150.0 };
        let bad = names.iter().find(|n| n.0.starts_with("stream rank") || n.3.is_some() || n.4 > most);
        ensure!(bad.is_none(), "the name of a lane is squeezed: {bad:?}");
    }
    no_errors(browser)
}

/// Checks that an X-ray has ticks, complete headings on a phone, and an explanation why its span differs from the run's
/// time.
pub fn xrays(browser: &Browser, stage: &Stage) -> Result<()> {
    for (width, height, is_phone) in [(1440, 900, false), (360, 740, true)] {
        window(browser, width, height, is_phone)?;
        open_tab(browser, stage, "regression-h200.json", "xray")?;
        browser.wait_until("the X-ray", "document.querySelector('#panel figure svg')", SOON)?;
        let seen = browser.eval(
            "const svg = document.querySelector('#panel figure svg'), right = svg.getBoundingClientRect().right;
             const texts = [...svg.querySelectorAll('text')];
             return [texts.filter((t) => t.getBoundingClientRect().right > right + 1).map((t) => t.textContent),
                texts.filter((t) => /^(0|[\\d.]+\\s(ns|µs|ms))$/.test(t.textContent)).length,
                texts.map((t) => t.textContent).join(' ')];",
        )?;
        ensure!(seen[0] == json!([]), "cut at the right are {} at {width} px", seen[0]);
        let least = if is_phone { 5 } else { 8 };
        ensure!(seen[1].as_u64().is_some_and(|n| n >= least), "both axes have {} ticks at {width} px", seen[1]);
        let said = seen[2].as_str().unwrap_or_default();
        ensure!(
            said.contains("begins with the first mark and ends with the last"),
            "nothing tells why the times differ"
        );
    }
    no_errors(browser)
}

/// Checks that a row of the guide names the pair, the ratio and the reason.
pub fn guide_cards(browser: &Browser, stage: &Stage) -> Result<()> {
    open_ready(browser, &stage.page)?;
    let said = browser.eval("return [...document.querySelectorAll('.pairs .open[title^=guide-]')].map((e) => [e.title, [...e.closest('tr').querySelectorAll('td')].map((c) => c.textContent)]);")?;
    let said: Vec<(String, Vec<String>)> = serde_json::from_value(said)?;
    ensure!(said.len() > 20, "the guide has {} rows", said.len());
    for (file, cells) in &said {
        let is_whole = cells.len() == 4 && cells[2].ends_with('×') && cells[3].len() > 40;
        ensure!(is_whole && cells[..2].iter().all(|c| c.contains(" · ")), "{file} says: {cells:?}");
    }
    let conflicts = said.iter().find(|(file, _)| file.starts_with("guide-bank-conflicts"));
    ensure!(conflicts.is_some_and(|(_, t)| t[2] == "2.35×"), "bank conflicts say {conflicts:?}");
    no_errors(browser)
}

/// Records of different kinds whose first screens are checked.
const FIRST_SCREENS: [&str; 7] = [
    "regression-h200.json",
    "matmul-h200.json",
    "softmax-h200.json",
    "convolution-h200.json",
    "training-h200.json",
    "cifar10-speedrun-h200.json",
    "guide-coalescing-h200.json",
];

/// Checks first screens: a record's chart starts near the top with the most important rungs, the overview is
/// short, and neither scrolls sideways.
pub fn first_screens(browser: &Browser, stage: &Stage) -> Result<()> {
    for (width, height, is_phone) in
        [(320, 700, true), (390, 844, true), (768, 1000, false), (1440, 900, false), (1280, 900, false)]
    {
        window(browser, width, height, is_phone)?;
        open_ready(browser, &stage.page)?;
        fits(browser, "the overview", width)?;
        if width == 1280 {
            let tall = browser.eval("return document.documentElement.scrollHeight;")?;
            ensure!(tall.as_f64().is_some_and(|px| px <= 1350.0), "the overview is {tall} px tall");
        }
        for file in FIRST_SCREENS {
            open_tab(browser, stage, file, "ladder")?;
            browser.wait_until("the ladder", "document.querySelector('#panel [data-best]')", SOON)?;
            fits(browser, file, width)?;
            let top = browser.eval("return document.querySelector('#panel figure').getBoundingClientRect().top;")?;
            let most = if is_phone { f64::from(height) } else { 350.0 };
            ensure!(
                [320, 768].contains(&width) || top.as_f64().is_some_and(|y| y <= most),
                "the chart of {file} begins at {top} at {width} px"
            );
        }
    }
    open_tab(browser, stage, "regression-h200.json", "ladder")?;
    let rows = "new Set([...document.querySelectorAll('#panel [data-rung]')].map((e) => e.dataset.rung)).size";
    browser.wait_until("the rungs of the story", &format!("{rows} >= 6 && {rows} <= 10"), SOON)?;
    browser.eval("document.getElementById('unfold-ladder').click();")?;
    browser.wait_until("all rungs", &format!("{rows} > 15 && !document.getElementById('unfold-ladder')"), SOON)?;
    no_errors(browser)
}

/// Checks that the first chart of each record begins near the top on a desktop, and on the first screen of a phone. The
/// records in [`FIRST_SCREENS`] are left out, since [`first_screens`] checks them.
pub fn first_charts(browser: &Browser, stage: &Stage) -> Result<()> {
    open_ready(browser, &stage.page)?;
    let mut others = files(browser)?;
    others.retain(|file| !FIRST_SCREENS.contains(&file.as_str()));
    ensure!(others.len() > FIRST_SCREENS.len(), "the page's other records are {others:?}");
    let mut low = Vec::new();
    for (width, height, is_phone) in [(1440, 900, false), (390, 844, true)] {
        window(browser, width, height, is_phone)?;
        let most = if is_phone { f64::from(height) } else { 350.0 };
        for file in &others {
            // The address names no tab, since trainings have no ladder: a record opens at its first tab.
            open_ready(browser, &format!("{}?record={file}", stage.page))?;
            let top =
                browser.wait_until("its chart", "document.querySelector('#panel figure svg')", SOON).and_then(|()| {
                    browser.eval("return document.querySelector('#panel figure').getBoundingClientRect().top;")
                });
            match top {
                Ok(top) if top.as_f64().is_some_and(|y| y <= most) => {}
                Ok(top) => low.push(format!("{file} at {width} px: y = {top}")),
                Err(why) => low.push(format!("{file} at {width} px: {why:#}")),
            }
        }
    }
    ensure!(low.is_empty(), "{} first charts begin too low or are missing: {}", low.len(), low.join("; "));
    no_errors(browser)
}

/// Checks that a printed report has its first chart on the title's page, and that every chart fits on a page.
pub fn printed_report(browser: &Browser, stage: &Stage) -> Result<()> {
    open_ready(browser, &stage.record)?;
    for tab in ["ladder", "roofline", "sweep"] {
        browser.eval(&format!("document.getElementById('tab-{tab}').click();"))?;
        browser.wait_until(tab, &format!("document.querySelector('#panel[aria-labelledby=tab-{tab}] svg')"), SOON)?;
        browser
            .eval("[...document.querySelectorAll('button')].find((b) => b.textContent === 'Add to report').click();")?;
    }
    browser.eval("document.getElementById('show-report').click();")?;
    browser.wait_until("the charts", "document.querySelectorAll('.item img').length === 3", SOON)?;
    let source = browser.eval("return [...document.querySelectorAll('.item .source')].map((e) => e.textContent);")?;
    let has_source = |text: &Value| text.as_str().is_some_and(|t| t.contains("NVIDIA") && t.contains("2026-"));
    ensure!(
        source.as_array().is_some_and(|all| all.len() == 3 && all.iter().all(has_source)),
        "the sources are {source}"
    );
    // The window has the size of an A4 sheet with margins of 1 cm, at 96 pixels an inch.
    window(browser, 718, 1047, false)?;
    media(browser, "print", "light")?;
    let seen = browser.eval(
        "const box = (e) => e.getBoundingClientRect(), all = [...document.querySelectorAll('.item img')];
         return [box(all[0]).bottom + scrollY, Math.max(...all.map((i) => box(i).height)), Math.max(...all.map((i) => box(i).right)),
            all.map((i) => getComputedStyle(i).breakInside), all.map((i) => getComputedStyle(i.closest('.items')).display)];",
    )?;
    ensure!(seen[0].as_f64().is_some_and(|px| px <= 1047.0), "the first chart ends at {} of 1047 px", seen[0]);
    ensure!(
        seen[1].as_f64().is_some_and(|px| px <= 800.0) && seen[2].as_f64().is_some_and(|px| px <= 718.0),
        "charts are {seen}"
    );
    ensure!(
        seen[3] == json!(["avoid", "avoid", "avoid"]) && seen[4] == json!(["block", "block", "block"]),
        "charts may be cut: {seen}"
    );
    media(browser, "", "light")?;
    no_errors(browser)
}

/// Checks that the board's table is complete on a projector, in type that is readable from afar.
pub fn projected_board(browser: &Browser, stage: &Stage) -> Result<()> {
    window(browser, 1920, 1080, false)?;
    open_ready(browser, &stage.page)?;
    browser.eval(super::board::DROP_A_CLASS)?;
    browser.wait_until("the board", "document.querySelectorAll('#ranking tbody tr').length === 30", SOON)?;
    browser.wait_until("its chart", "document.querySelector('.class svg')", SOON)?;
    let seen = browser.eval(
        "const scroll = document.querySelector('#ranking').parentElement, main = document.querySelector('main').getBoundingClientRect();
         const type = [...document.querySelectorAll('.class svg text')].map((t) => t.getBoundingClientRect().height);
         return [scroll.scrollWidth - scroll.clientWidth, main.width, Math.min(...type), document.documentElement.scrollWidth];",
    )?;
    ensure!(seen[0].as_f64().is_some_and(|px| px <= 1.0), "the table is cut by {} px", seen[0]);
    ensure!(seen[1].as_f64().is_some_and(|px| px > 1880.0), "of 1920 px the board has {}", seen[1]);
    ensure!(
        seen[2].as_f64().is_some_and(|px| px >= 16.0) && seen[3].as_f64().is_some_and(|px| px <= 1920.0),
        "its type is {seen}"
    );
    browser.screenshot(&stage.shots.join("page-board-1920.png"))?;
    no_errors(browser)
}
