//! The marks of the charts that are on the page: where they are, which one an event is of, and which one has the focus.

use super::document;
use crate::plot::marks::{Place, Reading};
use std::collections::BTreeMap;
use wasm_bindgen::JsCast;
use web_sys::{Element, MouseEvent, SvgElement};

/// The selector of a chart's marks.
pub const MARK: &str = "[data-value]";
/// The selector of a legend's entries.
pub const LEGEND: &str = "[data-legend]";
/// The selector of marks and entries, in the order in which they were drawn.
pub const STOPS: &str = "[data-value],[data-legend]";
/// A pointer so near to a mark, in CSS pixels, is at it.
const NEAR: f64 = 12.0;

/// All elements within another that a selector names.
pub fn all(within: &Element, selector: &str) -> Vec<Element> {
    let Ok(list) = within.query_selector_all(selector) else { return Vec::new() };
    (0..list.length()).filter_map(|i| list.item(i)?.dyn_into().ok()).collect()
}

/// Whether a stop is a mark, and not an entry of the legend.
pub fn is_mark(stop: &Element) -> bool {
    stop.has_attribute("data-value")
}

/// Names that are said once for several marks.
pub struct MarkNames {
    /// The names of rungs, by id.
    rungs: BTreeMap<String, String>,
    /// The names of series, by the legend's key.
    series: BTreeMap<String, String>,
}

impl MarkNames {
    /// The names that a picture has.
    pub fn of(svg: &Element) -> Self {
        let named = |selector: &str, key: &str| {
            let each = all(svg, selector).into_iter();
            each.filter_map(|e| Some((e.get_attribute(key)?, e.get_attribute("data-name")?))).collect()
        };
        Self {
            rungs: named("[data-rung][data-name]:not([data-value])", "data-rung"),
            series: named("[data-legend][data-name]", "data-legend"),
        }
    }

    /// What a mark says of itself.
    pub fn reading(&self, mark: &Element) -> Reading {
        let said = |name: &str| {
            let around = mark.closest(&format!("[data-{name}]")).ok().flatten();
            around.and_then(|e| e.get_attribute(&format!("data-{name}"))).unwrap_or_default()
        };
        let (rung, value, series) = (said("rung"), said("value"), said("series"));
        let named = self.rungs.get(&rung).cloned().unwrap_or_else(|| said("name"));
        let series_name = self.series.get(&series).cloned().unwrap_or(series);
        let names = [named, if rung.is_empty() { value.clone() } else { series_name.clone() }, rung.clone()];
        Reading {
            name: names.into_iter().find(|n| !n.is_empty()).unwrap_or_default(),
            problem: said("problem"),
            spread: said("spread"),
            samples: said("samples"),
            series: series_name,
            rung,
            value,
        }
    }
}

/// Makes a picture a group of marks: one stop for the Tab key, arrows among them.
pub fn prepare(svg: &Element) {
    let set = |e: &Element, name: &str, value: &str| drop(e.set_attribute(name, value));
    set(svg, "role", "group");
    set(svg, "tabindex", "-1");
    let names = MarkNames::of(svg);
    for (i, mark) in all(svg, MARK).iter().enumerate() {
        let reading = names.reading(mark);
        set(mark, "role", if reading.rung.is_empty() { "img" } else { "button" });
        set(mark, "aria-label", &reading.sentence());
        set(mark, "tabindex", if i == 0 { "0" } else { "-1" });
    }
    for entry in all(svg, LEGEND) {
        let series = entry.get_attribute("data-legend").unwrap_or_default();
        let name = names.series.get(&series).unwrap_or(&series);
        set(&entry, "role", "button");
        // What is written there, such as a ceiling's rate, is part of the name.
        let written = entry.text_content().unwrap_or_default();
        let written = written.trim();
        let more = if name.contains(written) { String::new() } else { format!(", {written}") };
        set(&entry, "aria-label", &format!("Only {name}{more}"));
        set(&entry, "aria-pressed", "false");
        set(&entry, "tabindex", "-1");
    }
}

/// The mark or the entry of the legend that an event is of.
pub fn stop_of(event: &web_sys::Event) -> Option<Element> {
    let target: Element = event.target()?.dyn_into().ok()?;
    target.closest(STOPS).ok().flatten()
}

/// The mark or the entry of the legend that a pointer is at, or near.
pub fn stop_at(event: &MouseEvent) -> Option<Element> {
    if let Some(stop) = stop_of(event) {
        return Some(stop);
    }
    let target: Element = event.target()?.dyn_into().ok()?;
    let svg = target.closest("svg.wb-chart").ok().flatten()?;
    let (x, y) = (f64::from(event.client_x()), f64::from(event.client_y()));
    let beyond = |low: f64, high: f64, v: f64| (low - v).max(v - high).max(0.0);
    let near = |mark: Element| {
        let r = mark.get_bounding_client_rect();
        let away = beyond(r.left(), r.right(), x).hypot(beyond(r.top(), r.bottom(), y));
        // The box of a slanting line is too large to be near.
        (away <= NEAR && (r.width() < 3.0 * NEAR || r.height() < 3.0 * NEAR)).then_some((away, mark))
    };
    all(&svg, MARK).into_iter().filter_map(near).min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, mark)| mark)
}

/// Moves the focus, and the drawing's stop for the Tab key, to a mark.
pub fn focus(stop: &Element) {
    if let Some(svg) = stop.closest("svg.wb-chart").ok().flatten() {
        all(&svg, "[tabindex='0']").iter().for_each(|e| drop(e.set_attribute("tabindex", "-1")));
    }
    let _ = stop.set_attribute("tabindex", "0");
    if let Some(element) = stop.dyn_ref::<SvgElement>() {
        let _ = element.focus();
    }
}

/// Where stops lie among the others.
pub fn places(stops: &[Element]) -> Vec<Place> {
    let said = |e: &Element, name: &str| {
        let around = if is_mark(e) { e.closest(&format!("[{name}]")).ok().flatten() } else { None };
        around.and_then(|a| a.get_attribute(name)).unwrap_or_default()
    };
    stops.iter().map(|e| Place { rung: said(e, "data-rung"), problem: said(e, "data-problem") }).collect()
}

/// The mark that the arrow keys are at.
pub fn current(root: &Element) -> Option<Element> {
    root.query_selector(&format!("{MARK}[tabindex='0']")).ok().flatten()
}

/// All marks of the page.
pub fn on_page() -> Vec<Element> {
    document().get_element_by_id("main").map_or_else(Vec::new, |main| all(&main, MARK))
}

/// A mark of the page.
pub struct Numbered {
    /// Its number among all marks of the page.
    pub nth: usize,
    /// The id of its rung.
    pub rung: String,
}

/// Moves the focus to the first mark of the page that is wanted; returns whether there is one.
pub fn focus_mark(is_wanted: impl Fn(&Numbered) -> bool) -> bool {
    let marks = on_page();
    let numbered = places(&marks).into_iter().enumerate().map(|(nth, p)| Numbered { nth, rung: p.rung });
    let found = numbered.zip(&marks).find(|(n, _)| is_wanted(n));
    found.inspect(|(_, mark)| focus(mark)).is_some()
}
