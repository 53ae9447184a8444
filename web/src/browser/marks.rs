//! The marks of the charts on the page: positions, hit testing and focus.

use super::document;
use crate::plot::marks::{MarkPosition, Reading};
use std::collections::BTreeMap;
use wasm_bindgen::JsCast;
use web_sys::{Element, MouseEvent, SvgElement};

/// The selector of a chart's marks.
pub const MARK: &str = "[data-value]";
/// The selector of a legend's entries.
pub const LEGEND: &str = "[data-legend]";
/// The selector of marks and entries, in the order in which they were drawn.
pub const STOPS: &str = "[data-value],[data-legend]";
/// A pointer within this distance of a mark, in CSS pixels, selects it.
const NEAR: f64 = 12.0;

/// Returns the elements within another element that match a selector.
pub fn all(within: &Element, selector: &str) -> Vec<Element> {
    let Ok(list) = within.query_selector_all(selector) else { return Vec::new() };
    (0..list.length()).filter_map(|i| list.item(i)?.dyn_into().ok()).collect()
}

/// Returns `true` if the stop is a mark and not an entry of the legend.
pub fn is_mark(stop: &Element) -> bool {
    stop.has_attribute("data-value")
}

/// Names that the marks of a drawing use.
pub struct MarkNames {
    /// Names of rungs by id.
    rungs: BTreeMap<String, String>,
    /// Names of series by legend key.
    series: BTreeMap<String, String>,
}

impl MarkNames {
    /// Collects the names in a drawing.
    pub fn from_drawing(svg: &Element) -> Self {
        let named = |selector: &str, key: &str| {
            let each = all(svg, selector).into_iter();
            each.filter_map(|e| Some((e.get_attribute(key)?, e.get_attribute("data-name")?))).collect()
        };
        Self {
            rungs: named("[data-rung][data-name]:not([data-value])", "data-rung"),
            series: named("[data-legend][data-name]", "data-legend"),
        }
    }

    /// Returns the text in a mark's attributes.
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

/// Makes a drawing one Tab stop, with arrow keys to move between its marks.
pub fn prepare(svg: &Element) {
    let set = |e: &Element, name: &str, value: &str| drop(e.set_attribute(name, value));
    set(svg, "role", "group");
    set(svg, "tabindex", "-1");
    let names = MarkNames::from_drawing(svg);
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
        // A text next to the mark, such as a ceiling's rate, becomes part of the name.
        let written = entry.text_content().unwrap_or_default();
        let written = written.trim();
        let more = if name.contains(written) { String::new() } else { format!(", {written}") };
        set(&entry, "aria-label", &format!("Only {name}{more}"));
        set(&entry, "aria-pressed", "false");
        set(&entry, "tabindex", "-1");
    }
}

/// Returns the mark or legend entry that an event belongs to.
pub fn stop_of(event: &web_sys::Event) -> Option<Element> {
    let target: Element = event.target()?.dyn_into().ok()?;
    target.closest(STOPS).ok().flatten()
}

/// Returns the mark or legend entry at the pointer, or else the nearest mark.
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
        // A slanting line's bounding box is too large to measure a distance from.
        (away <= NEAR && (r.width() < 3.0 * NEAR || r.height() < 3.0 * NEAR)).then_some((away, mark))
    };
    all(&svg, MARK).into_iter().filter_map(near).min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, mark)| mark)
}

/// Moves the focus and the drawing's Tab stop to a mark.
pub fn focus(stop: &Element) {
    if let Some(svg) = stop.closest("svg.wb-chart").ok().flatten() {
        all(&svg, "[tabindex='0']").iter().for_each(|e| drop(e.set_attribute("tabindex", "-1")));
    }
    let _ = stop.set_attribute("tabindex", "0");
    if let Some(element) = stop.dyn_ref::<SvgElement>() {
        let _ = element.focus();
    }
}

/// Returns the positions of marks and legend entries for [`step`](crate::plot::marks::step).
pub fn places(stops: &[Element]) -> Vec<MarkPosition> {
    let said = |e: &Element, name: &str| {
        let around = if is_mark(e) { e.closest(&format!("[{name}]")).ok().flatten() } else { None };
        around.and_then(|a| a.get_attribute(name)).unwrap_or_default()
    };
    stops.iter().map(|e| MarkPosition { rung: said(e, "data-rung"), problem: said(e, "data-problem") }).collect()
}

/// Returns the mark that the arrow keys start from.
pub fn current(root: &Element) -> Option<Element> {
    root.query_selector(&format!("{MARK}[tabindex='0']")).ok().flatten()
}

/// Returns all marks of the page.
pub fn on_page() -> Vec<Element> {
    document().get_element_by_id("main").map_or_else(Vec::new, |main| all(&main, MARK))
}

/// A mark with its number on the page.
pub struct Numbered {
    /// The number among all marks of the page.
    pub nth: usize,
    /// The id of the mark's rung.
    pub rung: String,
}

/// Moves the focus to the first mark that `is_wanted` accepts; returns whether there is one.
pub fn focus_mark(is_wanted: impl Fn(&Numbered) -> bool) -> bool {
    let marks = on_page();
    let numbered = places(&marks).into_iter().enumerate().map(|(nth, p)| Numbered { nth, rung: p.rung });
    let found = numbered.zip(&marks).find(|(n, _)| is_wanted(n));
    found.inspect(|(_, mark)| focus(mark)).is_some()
}
