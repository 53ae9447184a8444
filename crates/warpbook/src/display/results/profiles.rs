//! The display of cycles and profiles.

use crate::display::Show;
use crate::display::html::{escape, note, printable, scroll};
use warpbook_lab::profile::{Cycle, NOTHING, Profile};

impl Show for Cycle {
    fn html(&self) -> String {
        let tables: String = self.tables().iter().map(scroll).collect();
        let remarks: String = self.remarks().iter().map(|r| note(r)).collect();
        let memory = self.memory_chart().map(|chart| chart.html()).unwrap_or_default();
        format!("<p><strong>{}</strong></p>{tables}{memory}{remarks}", escape(&self.heading()))
    }

    fn text(&self) -> String {
        printable(&Cycle::text(self))
    }
}

impl Show for Profile {
    fn html(&self) -> String {
        match self.cycles.is_empty() {
            true => format!("<p>{NOTHING}</p>"),
            false => self.cycles.iter().map(Show::html).collect(),
        }
    }

    fn text(&self) -> String {
        printable(&Profile::text(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpbook_lab::Lab;
    use warpbook_lab::profile::HardwareCounters;
    use warpbook_record::KernelCounters;

    #[test]
    fn a_profile_s_tables_and_remarks_are_in_both_forms() {
        let lab = Lab::open("cpu").unwrap();
        let mut profile = lab
            .profile(|p| {
                p.range("multiply <a>", |_| ());
                Ok(())
            })
            .unwrap();
        let kernel = KernelCounters { kernel: "axpy".into(), grid: vec![4, 1, 1], values: Vec::new() };
        let counted =
            HardwareCounters { source: "CUPTI 130001".into(), kernels: vec![kernel], notes: vec!["once".into()] };
        assert!(counted.html().contains("axpy") && counted.html().contains("once"), "{}", counted.html());
        assert_eq!(Show::text(&counted), counted.text());
        let cycle = &mut profile.cycles[0];
        cycle.source = "CUPTI 130001".into();
        let (html, text) = (cycle.html(), Show::text(cycle));
        assert!(html.contains("multiply &lt;a&gt;") && text.contains("multiply <a>"), "{html}\n{text}");
        assert!([&html, &text].iter().all(|form| form.contains("CUPTI 13.0.1") && form.contains("Cycle 0")), "{text}");
        assert!(!html.contains("device memory over time"), "nothing was allocated");
        profile.cycles.clear();
        assert!(profile.html().contains(NOTHING) && Show::text(&profile).contains(NOTHING));
    }
}
