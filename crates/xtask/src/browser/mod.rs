//! Checks of the viewer in a real browser: its contents, its controls, and its resistance to hostile records.

mod axe;
mod hostile;
mod left;
mod passing;
mod reading;
mod speed;
mod tabs;
mod views;

use crate::drivers::webdriver::Browser;
use crate::process::{cargo, log_file, run};
use crate::publish;
use crate::site::serve;
use crate::steps::Report;
use crate::workspace::{Workspace, files_below, replace_dir, write_atomic};
use anyhow::{Context, Result, bail, ensure};
use serde_json::json;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A check of the page, which starts with a fresh state of the browser.
type Check = fn(&Browser, &Stage) -> Result<()>;

/// The checks by name, in the order in which they run.
const CHECKS: &[(&str, Check)] = &[
    ("the page shows all records", shows_all_records),
    ("a fresh record is shown next to the published one", views::beside::shown),
    ("the page shows charts", shows_charts),
    ("light", light),
    ("dark", dark),
    ("phone", phone),
    ("a record is opened by ?src=", opens_src),
    ("a malformed record gets a message", malformed),
    ("a missing record gets a message", missing),
    ("a record that fails shows no other one's figures", failed_alone),
    ("a record of another site is asked about", asks_about_other_sites),
    ("a link to two records compares them", two_sources),
    ("dark prints light", prints_light),
    ("a hostile record runs nothing", hostile::runs_nothing),
    ("nothing is loaded from elsewhere", loads_only_its_own),
    ("the single file opens from disk", single_file),
    ("each tab shows its part", tabs::each_tab),
    ("each tab fits a phone", tabs::each_tab_on_a_phone),
    ("tabs follow the arrow keys", tabs::arrow_keys),
    ("a link shows the same view, and Back the one before", tabs::links_and_back),
    ("a dropped record opens", dropped),
    ("an unreadable file leaves the open record alone", unreadable),
    ("addresses other than http and https are refused", refused),
    ("two records are compared", compared),
    ("a record of an unknown experiment is shown and compared", tabs::unknown_experiment),
    ("links by size and by id show their problem", tabs::links_to_problems),
    ("marks follow the arrow keys and open their rung", views::marks::by_keyboard),
    ("every chart has marks to go to", views::marks::in_each_chart),
    ("a rung's panel opens, steps along the ladder and leads back", views::rung_panel::by_keyboard),
    ("headline and table lead to a rung's panel", views::rung_panel::from_headline_and_table),
    ("a rung's panel is in the address and fits a phone", views::rung_panel::by_link_and_touch),
    ("a press on the legend isolates a series", views::marks::legend),
    ("a tap shows what a mark says", views::marks::by_touch),
    ("the share menu follows the keyboard and fits a phone", passing::menu),
    ("pasted text opens", passing::pasted),
    ("what was opened from disk outlives a reload until it is forgotten", passing::kept),
    ("a link carries a record", passing::carried_by_a_link),
    ("a hostile link runs nothing", passing::hostile_links),
    ("charts are saved and collected in a report", passing::pictures_and_report),
    ("a shared file opens from disk and connects to nothing", passing::shared_file),
    ("a page follows the files that its program serves", passing::follows_files),
    ("thirty dropped records are a class board", views::board::of_dropped_records),
    ("a folder is a class board", views::board::of_a_folder),
    ("progress files are a class in its exercises", views::board::of_progress_files),
    ("a plot is brushed, zoomed and shown whole", views::plots::brushed),
    ("charts fit a phone", views::plots::fit_a_phone),
    ("type and shape are chosen apart, and lines picked", views::plots::chosen_apart),
    ("a page that is left while it begins reports no error", left::while_it_begins),
    ("a page that is left while it works reports no error", left::while_it_works),
    ("what is opened begins at its top, with the focus on its heading", reading::begins_at_the_top),
    ("ticks lead to a comparison that is a page of its own", reading::ticks),
    ("a question hides all records", reading::only_the_question),
    ("unknown names in a link are reported", reading::names_in_vain),
    ("a comparison opens at comparable problems and names the changes", reading::comparisons),
    ("titles are short lines, and records that are not kept are reported", reading::titles_and_what_is_kept),
    (WIDTHS, views::looks::no_page_is_too_wide),
    ("kernels lie below the roofs of their types", views::looks::kernels_lie_below_their_roofs),
    ("a rung is compared with the one that it grew from", views::looks::what_changed),
    ("figures of a heat map do not touch", views::looks::heat_map),
    ("a ladder has a tick a decade, and tells of L2 where kernels are timed", views::looks::ladders),
    ("long tables are folded and searched", views::looks::tables),
    ("an X-ray has ticks and whole headings", views::looks::xrays),
    ("a row of the guide says its pair and the reason", views::looks::guide_cards),
    ("first screens show the result", views::looks::first_screens),
    (FIRST_CHARTS, views::looks::first_charts),
    ("a report is printed without cuts", views::looks::printed_report),
    ("a board fills a projector", views::looks::projected_board),
    (FORCED, views::looks::forced_colours),
    ("what is shared of a class opens on its board", passing::shared_class),
    (TIMELINE, views::plots::timeline),
    (SPEED, speed::measured),
    // This check looks at every text drawn after it starts.
    (NAMES, views::looks::timelines),
    (AXE, axe::check),
];
/// The name of the check that measures waiting times.
const SPEED: &str = "what a reader waits for";
/// The name of the check that opens each part of each record at several widths.
const WIDTHS: &str = "no part of a record is wider than the window";
/// The name of the check that opens each record at two widths.
const FIRST_CHARTS: &str = "every record's first chart begins on the first screen";
/// The name of the check that needs axe-core.
const AXE: &str = "axe-core finds nothing on any view";

/// Checks that only Chromium runs. One browser is enough for rules and figures; Firefox lets no script paste, and
/// without a GPU it draws the long timeline at 12 frames a second. Only Chromium emulates forced colours.
const CHROMIUM_ONLY: &[&str] = &[AXE, SPEED, TIMELINE, NAMES, WIDTHS, FIRST_CHARTS, FORCED, "pasted text opens"];
const FORCED: &str = "where the system sets the colours, one tab is marked";
/// The name of a check that observes drawing with a script that must run before the page's own, which Firefox does not
/// support.
const NAMES: &str = "a timeline's names are whole";
const TIMELINE: &str = "a timeline of 100,000 spans moves, and goes to Perfetto";

/// Checks that need Chromium without other load on the machine.
const MEASURED: &[&str] = &[SPEED, TIMELINE];

/// The time limit for a page to become ready.
const READY: Duration = Duration::from_secs(30);
/// The time limit for the page's response to a press.
const SOON: Duration = Duration::from_secs(10);
/// The messages on the page, as a JavaScript expression.
const ALERTS: &str = "[...document.querySelectorAll('[role=alert]')].filter((e) => e.checkVisibility()) \
    .map((e) => e.textContent.trim()).filter((t) => t)";
const HOSTILE: &str = "\"'><script>window.__pwned=1</script><img src=x onerror=\"window.__pwned=1\">\
    <svg onload=\"window.__pwned=1\"></svg><a href=\"javascript:window.__pwned=1\">a</a>";

/// The pages and files that the checks open.
#[derive(Clone)]
pub struct Stage {
    /// The address of the page, in a folder below the site's root; ends with a slash.
    page: String,
    /// The address of the page's first record.
    record: String,
    /// The address of the single-file page on disk.
    file: String,
    /// The folder for screenshots, and for files that a check writes.
    shots: PathBuf,
    /// The port, which no other browser's checks use.
    port: u16,
    /// The folder of the page on disk.
    folder: PathBuf,
    /// The text of the hostile record.
    hostile: String,
    /// The path of the `warpbook` program.
    program: PathBuf,
    /// The script of axe-core; empty if it cannot be loaded.
    axe: String,
}

/// Drives the viewer in `dist`, as a step of `cargo xtask test`.
pub fn check(w: &Workspace, dist: &Path) -> Result<Report> {
    let records = publish::records(w)?;
    let Some(record) = records.first() else { bail!("data/results holds no record that the page could show") };
    let root = w.target.join("xtask/site");
    // The path has several folders, since the page must work from any of them.
    replace_dir(&root, |root| {
        let folder = root.join("any/sub path");
        for file in files_below(dist, &[])? {
            write_atomic(&folder.join(file.strip_prefix(dist)?), fs::read(&file)?)?;
        }
        let half = record.text.len() / 2;
        let half = (half..).find(|&i| record.text.is_char_boundary(i)).unwrap_or(0);
        write_atomic(&folder.join("test/half.json"), &record.text[..half])?;
        write_atomic(&folder.join("test/good.json"), &record.text)?;
        write_atomic(&folder.join("test/softmax.json"), fs::read(w.path("web/tests/softmax.json"))?)?;
        write_atomic(&folder.join("test/traced.json"), views::plots::traced_record(&record.text)?)?;
        speed::records(&record.text, &folder.join("test"))?;
        write_atomic(&folder.join("test/hostile.json"), hostile::record(&record.run)?)?;
        views::board::class(w, &folder.join("test/class"))?;
        views::beside::own_lab(w, &folder, &root.join("any/lab"))
    })?;
    // With a test selected, Cargo uses the same features as for all tests, and compiles little again.
    run(cargo(w).args(["build", "--workspace", "--bin", "warpbook", "--test", "rules"]))?;
    let rules = axe::script(w)?;
    let site = serve::folder(&root, 0)?;
    let page = format!("{}any/sub%20path/", site.url());
    let stage = Stage {
        record: format!("{page}?record={}", record.file),
        page,
        file: format!("file://{}", root.join("any/sub%20path/warpbook.html").display()),
        shots: w.target.join("xtask"),
        port: 21617,
        hostile: fs::read_to_string(root.join("any/sub path/test/hostile.json"))?,
        folder: root.join("any/sub path"),
        program: w.target.join("debug/warpbook"),
        axe: rules.as_ref().cloned().unwrap_or_default(),
    };
    let mut report = Report { note: format!("screenshots: {}/page-*.png", w.show(&stage.shots)), ..Report::default() };
    if let Err(why) = &rules {
        println!("{AXE}: skipped: {why}");
        report.skipped.push((AXE.to_owned(), why.clone()));
    }
    let chosen = |chosen: fn(&str) -> bool| CHECKS.iter().filter(move |(name, _)| chosen(name));
    let has_rules = rules.is_ok();
    let chromium = Browser::chromium(w)?;
    let mut log = log_file(&w.log("browser"))?;
    // Checks that measure times run alone; after them, both browsers run their checks at the same time.
    let measured = chosen(|name| MEASURED.contains(&name));
    drive(&chromium, &site.url(), &stage, measured, "", &mut report, &mut log)?;
    let others = chosen(|name| !MEASURED.contains(&name)).filter(|(name, _)| has_rules || *name != AXE);
    // Firefox's screenshots and files go to a folder inside Chromium's.
    let other = Stage { shots: stage.shots.join("firefox"), port: stage.port + 1, ..stage.clone() };
    let in_firefox = || -> Result<Report> {
        let (mut report, mut log) = (Report::default(), log_file(&w.log("browser-firefox"))?);
        let checks = chosen(|name| !CHROMIUM_ONLY.contains(&name));
        drive(&Browser::firefox(w)?, &site.url(), &other, checks, "Firefox: ", &mut report, &mut log)?;
        Ok(report)
    };
    let of_firefox = std::thread::scope(|scope| {
        let firefox = scope.spawn(in_firefox);
        drive(&chromium, &site.url(), &stage, others, "", &mut report, &mut log)?;
        firefox.join().unwrap_or_else(|_| bail!("the checks in Firefox ended with a panic"))
    })?;
    report.passed += of_firefox.passed;
    report.failed += of_firefox.failed;
    report.errors.extend(of_firefox.errors);
    Ok(report)
}

/// Runs checks in a browser; `WARPBOOK_VIEWER_CHECK` in the environment selects checks by a part of their names.
fn drive<'a>(
    browser: &Browser,
    site: &str,
    stage: &Stage,
    checks: impl Iterator<Item = &'a (&'a str, Check)>,
    prefix: &str,
    report: &mut Report,
    log: &mut impl Write,
) -> Result<()> {
    let wanted = std::env::var("WARPBOOK_VIEWER_CHECK").unwrap_or_default();
    for (name, check) in checks.map(|(name, check)| (format!("{prefix}{name}"), check)) {
        if !name.contains(&wanted) {
            continue;
        }
        let begin = std::time::Instant::now();
        let result = reset(browser, site).and_then(|()| check(browser, stage));
        writeln!(log, "{name}: {result:?}")?;
        match result {
            Ok(()) => {
                println!("{name}: ok ({:.1} s)", begin.elapsed().as_secs_f64());
                report.passed += 1;
            }
            Err(e) => {
                report.failed += 1;
                report.errors.push(format!("{name}: {e:#}"));
                let _ = browser.screenshot(&stage.shots.join("page-failed.png"));
            }
        }
    }
    Ok(())
}

/// Restores the initial state of every check: desktop window, light theme, empty page, no errors, empty storage.
fn reset(browser: &Browser, site: &str) -> Result<()> {
    window(browser, 1280, 900, false)?;
    scheme(browser, "light")?;
    browser.open("about:blank")?;
    browser.forget(site.trim_end_matches('/'))?;
    browser.console_errors().map(drop)
}

fn window(browser: &Browser, width: u32, height: u32, phone: bool) -> Result<()> {
    browser.window(width, height, phone)
}

fn scheme(browser: &Browser, name: &str) -> Result<()> {
    media(browser, "", name)
}

/// Emulates the medium "print" or, if `medium` is empty, the screen, with a preferred colour scheme.
fn media(browser: &Browser, medium: &str, scheme: &str) -> Result<()> {
    browser.media(medium, scheme)
}

/// Checks that the page is no wider than the window.
fn fits(browser: &Browser, what: &str, width: u32) -> Result<()> {
    let wide = browser.eval("return document.documentElement.scrollWidth;")?;
    ensure!(wide.as_f64().is_some_and(|w| w <= f64::from(width) + 1.0), "{what} is {wide} px wide at {width} px");
    Ok(())
}

/// Opens an address and waits until the page is ready and shows a chart.
fn open_ready(browser: &Browser, url: &str) -> Result<()> {
    browser.open(url)?;
    let ready =
        browser.wait_until("the mark data-warpbook-ready", "document.body.dataset.warpbookReady !== undefined", READY);
    if let Err(e) = ready {
        bail!("{e}; console: {:?}", browser.console_errors()?);
    }
    browser.wait_until("a chart", "document.querySelector('svg')", READY)
}

fn no_errors(browser: &Browser) -> Result<()> {
    let errors = browser.console_errors()?;
    ensure!(errors.is_empty(), "the console has errors: {}", errors.join("; "));
    Ok(())
}

/// Checks on a desktop and on a phone: the first words of each record, a search, and the way in and back.
fn shows_all_records(browser: &Browser, stage: &Stage) -> Result<()> {
    for (width, height, is_phone) in [(1440, 900, false), (360, 740, true)] {
        window(browser, width, height, is_phone)?;
        open_ready(browser, &stage.page)?;
        let said = browser.eval("return [...document.querySelectorAll('.card .said')].map((e) => e.textContent);")?;
        let said: Vec<String> = serde_json::from_value(said)?;
        ensure!(said.len() > 1 && said.iter().all(|s| s.contains("fast")), "the records say {said:?}");
        fits(browser, "the page", width)?;
        browser.screenshot(&stage.shots.join(format!("page-records-{width}.png")))?;
    }
    browser.eval("document.querySelector('.card .open').click();")?;
    browser.wait_until("the record's winner", "document.querySelector('.tiles strong')", SOON)?;
    let address = browser.eval("return location.search;")?;
    ensure!(address.as_str().is_some_and(|a| a.contains("record=")), "the address is {address}");
    browser.eval("history.back();")?;
    browser.wait_until("all records again", "document.querySelector('.cards')", SOON)?;
    no_errors(browser)
}

/// Checks that the first screen has the result as a sentence and, if there is room, in figures.
fn first_screen(browser: &Browser) -> Result<()> {
    let below = browser.eval(
        "return [...document.querySelectorAll('.headline > p, .tiles > div')].filter((e) => e.getBoundingClientRect().bottom > innerHeight)
            .map((e) => e.textContent);",
    )?;
    ensure!(below == json!([]), "below the first screen are {below}");
    let shown = browser.eval("return document.querySelectorAll('.tiles > div').length;")?;
    ensure!(shown.as_u64().is_some_and(|n| n >= 4), "the heading has {shown} figures");
    Ok(())
}

fn shows_charts(browser: &Browser, stage: &Stage) -> Result<()> {
    window(browser, 360, 740, true)?;
    open_ready(browser, &stage.record)?;
    first_screen(browser)?;
    browser.screenshot(&stage.shots.join("page-first-phone.png"))?;
    window(browser, 1440, 900, false)?;
    open_ready(browser, &stage.record)?;
    first_screen(browser)?;
    browser.screenshot(&stage.shots.join("page-first.png"))?;
    let alerts = browser.eval(&format!("return {ALERTS};"))?;
    ensure!(alerts == json!([]), "it shows the messages {alerts}");
    no_errors(browser)
}

fn light(browser: &Browser, stage: &Stage) -> Result<()> {
    open_ready(browser, &stage.record)?;
    ensure!(lightness(browser)? > 0.7, "the page is not light");
    browser.screenshot(&stage.shots.join("page-light.png"))
}

fn dark(browser: &Browser, stage: &Stage) -> Result<()> {
    scheme(browser, "dark")?;
    open_ready(browser, &stage.record)?;
    ensure!(lightness(browser)? < 0.3, "the page is not dark where the reader asks for it");
    no_errors(browser)?;
    browser.screenshot(&stage.shots.join("page-dark.png"))
}

/// Returns the mean of the background's red, green and blue, from 0 to 1. A canvas converts any CSS colour into these.
fn lightness(browser: &Browser) -> Result<f64> {
    let script = "
        const seen = (e) => getComputedStyle(e).backgroundColor;
        const clear = (c) => c === 'transparent' || /, 0\\)$/.test(c);
        const color = [document.body, document.documentElement].map(seen).find((c) => !clear(c));
        const canvas = Object.assign(document.createElement('canvas'), { width: 1, height: 1 }).getContext('2d');
        canvas.fillStyle = color ?? 'white';
        canvas.fillRect(0, 0, 1, 1);
        const [r, g, b] = canvas.getImageData(0, 0, 1, 1).data;
        return (r + g + b) / 765;";
    browser.eval(script)?.as_f64().context("the page has no background")
}

fn phone(browser: &Browser, stage: &Stage) -> Result<()> {
    window(browser, 390, 844, true)?;
    open_ready(browser, &stage.record)?;
    fits(browser, "the page", 390)?;
    no_errors(browser)?;
    browser.screenshot(&stage.shots.join("page-phone.png"))
}

fn opens_src(browser: &Browser, stage: &Stage) -> Result<()> {
    open_ready(browser, &format!("{}?src=test/good.json", stage.page))?;
    no_errors(browser)
}

fn alerts(browser: &Browser, url: &str) -> Result<()> {
    browser.open(url)?;
    browser.wait_until("an element with role=alert and a message", &format!("{ALERTS}.length"), READY)
}

fn malformed(browser: &Browser, stage: &Stage) -> Result<()> {
    alerts(browser, &format!("{}?src=test/half.json", stage.page))?;
    no_errors(browser)
}

/// Checks a missing record. The browser itself reports the missing file on the console, which is no fault of the page.
fn missing(browser: &Browser, stage: &Stage) -> Result<()> {
    alerts(browser, &format!("{}?src=test/none.json", stage.page))?;
    let errors = browser.console_errors()?;
    let own: Vec<_> = errors.iter().filter(|e| !e.contains("Failed to load resource")).collect();
    ensure!(own.is_empty(), "the console has errors: {own:?}");
    Ok(())
}

fn failed_alone(browser: &Browser, stage: &Stage) -> Result<()> {
    for query in ["src=test/half.json", "src=test/none.json"] {
        alerts(browser, &format!("{}?{query}", stage.page))?;
        browser.wait_until("the message in place of a record", "document.querySelector('main .empty h1')", SOON)?;
        let shown = browser.eval("return !!document.querySelector('#panel, .tiles');")?;
        ensure!(shown == json!(false), "{query} shows another record's figures");
    }
    browser.eval("document.querySelector('main .empty button').click();")?;
    browser.wait_until("all records", "document.querySelector('.cards')", SOON)
}

fn asks_about_other_sites(browser: &Browser, stage: &Stage) -> Result<()> {
    let elsewhere = "https://records.invalid/a.json";
    browser.open(&format!("{}?src={elsewhere}", stage.page))?;
    browser.wait_until(
        "the question",
        "document.querySelector('.ask')?.textContent.includes('records.invalid')",
        READY,
    )?;
    let asked = "performance.getEntriesByType('resource').some((e) => e.name.includes('records.invalid'))";
    std::thread::sleep(Duration::from_millis(300));
    ensure!(browser.eval(&format!("return {asked};"))? == json!(false), "it was fetched before the reader agreed");
    no_errors(browser)?;
    browser.eval("document.querySelectorAll('.ask button')[1].click();")?;
    browser.wait_until("no question", "!document.querySelector('.ask') && !location.search.includes('src')", SOON)?;
    ensure!(browser.eval(&format!("return {asked};"))? == json!(false), "it was fetched although the reader refused");
    // The full address of the page's own site counts as the same site.
    open_ready(browser, &format!("{0}?src={0}test/good.json", stage.page))?;
    browser.wait_until("the record", "document.querySelector('#panel')", SOON)
}

fn two_sources(browser: &Browser, stage: &Stage) -> Result<()> {
    for (width, height, is_phone) in [(1440, 900, false), (320, 700, true)] {
        window(browser, width, height, is_phone)?;
        open_ready(browser, &format!("{}?src=test/good.json&src=test/softmax.json", stage.page))?;
        browser.wait_until("the comparison", "document.querySelector('h1').textContent === 'Comparison'", SOON)?;
        browser.wait_until("both records", "document.querySelectorAll('.compared li').length === 2", SOON)?;
        fits(browser, "the comparison", width)?;
    }
    no_errors(browser)
}

fn prints_light(browser: &Browser, stage: &Stage) -> Result<()> {
    scheme(browser, "dark")?;
    open_ready(browser, &stage.record)?;
    ensure!(lightness(browser)? < 0.3, "the page is not dark, so nothing is proven");
    media(browser, "print", "dark")?;
    ensure!(lightness(browser)? > 0.7, "a dark page is printed dark");
    Ok(())
}

fn loads_only_its_own(browser: &Browser, stage: &Stage) -> Result<()> {
    open_ready(browser, &stage.record)?;
    let script = "return performance.getEntriesByType('resource').map((e) => e.name);";
    let loaded: Vec<String> = serde_json::from_value(browser.eval(script)?)?;
    let here = |url: &&String| !url.starts_with(&stage.page) && !url.starts_with("data:") && !url.starts_with("blob:");
    let elsewhere: Vec<_> = loaded.iter().filter(here).collect();
    ensure!(elsewhere.is_empty(), "it loads {elsewhere:?}");
    ensure!(!loaded.is_empty(), "it loads nothing, so nothing is proven");
    Ok(())
}

fn single_file(browser: &Browser, stage: &Stage) -> Result<()> {
    open_ready(browser, &stage.file)?;
    let loaded = browser.eval(
        "return performance.getEntriesByType('resource').map((e) => e.name).filter((n) => !/^(data|blob):/.test(n));",
    )?;
    ensure!(loaded == json!([]), "it loads {loaded}");
    no_errors(browser)?;
    browser.screenshot(&stage.shots.join("page-file.png"))
}

/// Drops a file onto the page: a record of the site with a changed title and driver, or any other text.
fn drop_file(browser: &Browser, record: &str, text: Option<&str>) -> Result<()> {
    let text = text.map_or_else(|| "null".to_owned(), |t| json!(t).to_string());
    let script = format!(
        "return fetch('test/{record}.json').then((r) => r.json()).then((record) => {{
            record.title = 'Dropped here';
            record.environment.driver = 'another driver';
            const file = new File([{text} ?? JSON.stringify(record)], 'dropped.json');
            const dataTransfer = new DataTransfer();
            dataTransfer.items.add(file);
            for (const kind of ['dragenter', 'dragover', 'drop'])
                document.body.dispatchEvent(new DragEvent(kind, {{ dataTransfer, bubbles: true, cancelable: true }}));
        }});"
    );
    browser.eval(&script).map(drop)
}

fn dropped(browser: &Browser, stage: &Stage) -> Result<()> {
    open_ready(browser, &stage.page)?;
    drop_file(browser, "good", None)?;
    browser.wait_until("the dropped record", "document.querySelector('h1').textContent === 'Dropped here'", SOON)?;
    no_errors(browser)
}

fn unreadable(browser: &Browser, stage: &Stage) -> Result<()> {
    open_ready(browser, &stage.record)?;
    for (text, says) in [("{", "not valid JSON"), ("[]", "no Warpbook record"), ("{\"schema\":99}", "Update Warpbook")]
    {
        drop_file(browser, "good", Some(text))?;
        browser.wait_until(says, &format!("{ALERTS}.some((t) => t.includes('{says}'))"), SOON)?;
    }
    let open = browser.eval("return !!document.querySelector('#panel svg');")?;
    ensure!(open == json!(true), "the record that was open is gone");
    no_errors(browser)
}

fn refused(browser: &Browser, stage: &Stage) -> Result<()> {
    for address in ["javascript:window.__pwned=1", "data:application/json,{}", "blob:x", "file:///etc/passwd"] {
        alerts(browser, &format!("{}?src={address}", stage.page))?;
        let says = browser.eval(&format!("return {ALERTS};"))?.to_string();
        ensure!(says.contains("only http:"), "{address} is not refused but answered {says}");
    }
    no_errors(browser)
}

fn compared(browser: &Browser, stage: &Stage) -> Result<()> {
    open_ready(browser, &stage.page)?;
    compare_with_dropped(browser, "good", 0)?;
    no_errors(browser)
}

/// Drops a changed copy of a record, and compares it with the record at position `place` in the list.
fn compare_with_dropped(browser: &Browser, record: &str, place: i32) -> Result<()> {
    drop_file(browser, record, None)?;
    browser.wait_until("a second record", "document.querySelector('h1').textContent === 'Dropped here'", SOON)?;
    browser.eval(&format!(
        "const boxes = [...document.querySelectorAll('.tick input')]; boxes.at({place}).click(); boxes.at(-1).click();"
    ))?;
    browser.wait_until(
        "the chart of both",
        "document.querySelector('.compared') && document.querySelector('#panel svg')",
        SOON,
    )?;
    let differs = "document.getElementById('panel').textContent.includes('another driver')";
    browser.wait_until("what differs between them", differs, SOON)?;
    let verdict = "[...document.querySelectorAll('.verdict p')].every((p) => p.textContent.includes(' within noise'))";
    browser.wait_until("the verdict in a sentence", verdict, SOON)?;
    let rule = "document.querySelector('.rule').textContent.includes('95 % interval')";
    browser.wait_until("the noise rule", rule, SOON)?;
    browser.eval(
        "const label = document.querySelector('.compared .label'); label.value = 'mine <b>'; \
         label.dispatchEvent(new Event('change', { bubbles: true }));",
    )?;
    let labelled = "document.querySelector('#panel svg').textContent.includes('mine <b>') && \
                    decodeURIComponent(location.search).includes('label=mine+<b>')";
    browser.wait_until("a label in the chart and in the address", labelled, SOON)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn checks_have_names_of_their_own() {
        let names: BTreeSet<_> = CHECKS.iter().map(|(n, _)| n).collect();
        assert_eq!(names.len(), CHECKS.len());
    }
}
