//! Chart of the latencies of the levels of memory.

use crate::draw::text::words::significant;
use crate::draw::{Axis, BLUE, Bar, BarRow, Bars, Chart, ChartError, Content, Frame, MarkData, Options, Table, clean};

impl Options {
    /// Draws the time that an instruction waits for its input, with one bar in nanoseconds for each level of memory, in the given order. A level whose value is
    /// not a positive number has a row that says so.
    ///
    /// # Errors
    /// Returns [`ChartError::NothingToDraw`] if no level has a latency.
    pub fn latencies(&self, levels: &[(&str, f64)], [title, subtitle]: [&str; 2]) -> Result<Chart, ChartError> {
        let usable = |ns: f64| Some(ns).filter(|ns| ns.is_finite() && *ns > 0.0);
        let first = levels.iter().find_map(|(name, ns)| Some((*name, usable(*ns)?)));
        let Some((first_name, least)) = first else {
            return Err(ChartError::NothingToDraw("No latency was measured.".into()));
        };
        let mut table = Table::new(["level", "latency (ns)"]);
        let mut rows = Vec::new();
        let mut phrases = Vec::new();
        for (name, ns) in levels {
            let name = clean(name);
            let content = match usable(*ns) {
                None => Content::Reason("not measured".into()),
                Some(ns) => {
                    let times = ns / least;
                    let label = if times > 1.0 {
                        format!("{} · {} times {}", nanoseconds(ns), significant(times, 2), clean(first_name))
                    } else {
                        nanoseconds(ns)
                    };
                    table.push([name.as_str(), &significant(ns, 3)]);
                    phrases.push(format!("{name} {}", nanoseconds(ns)));
                    Content::Bar(Bar {
                        value: ns,
                        spread: None,
                        data: MarkData { name: name.clone(), value: label.clone(), ..MarkData::default() },
                        label,
                        note: String::new(),
                        remark: String::new(),
                        color: BLUE,
                        hollow: false,
                        parts: Vec::new(),
                    })
                }
            };
            rows.push(BarRow { name, id: String::new(), content });
        }
        let description = format!("Bars of the latency of each level: {}.", phrases.join(", "));
        let [title, subtitle] = [clean(title), clean(subtitle)];
        let frame = Frame { width: self.px(), title, subtitle, description, notes: Vec::new(), table };
        let axis = Some(Axis::from_zero(levels.iter().filter_map(|(_, ns)| usable(*ns))));
        let caption = "from an instruction's start until the next can use its result; shorter is better".to_owned();
        Bars {
            frame,
            rows,
            axis,
            base: None,
            tick: nanoseconds,
            caption,
            reference_lines: Vec::new(),
            legend: Vec::new(),
        }
        .draw()
    }
}

/// Formats a time such as "31.4 ns".
fn nanoseconds(ns: f64) -> String {
    format!("{} ns", significant(ns, 3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_level_has_a_bar_or_a_reason() {
        let chart = Options::default()
            .latencies(&[("registers", 2.0), ("L1", f64::NAN), ("L2", 130.0)], ["Latencies", "on a GPU"])
            .unwrap();
        assert_eq!(chart.table.rows, [["registers", "2.00"], ["L2", "130"]]);
        let drawn = chart.svg.to_string();
        assert!(drawn.contains("65 times registers") && drawn.contains("not measured"), "{drawn}");
        assert!(chart.description.contains("registers 2.00 ns, L2 130 ns"), "{}", chart.description);
        let error = Options::default().latencies(&[("L1", 0.0)], ["", ""]).unwrap_err().to_string();
        assert!(error.contains("No latency"), "{error}");
    }
}
