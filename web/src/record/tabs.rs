//! The tabs of a record's page, and which of them a record has content for.

use super::charts::{has_data, is_of_training, part_group};
use super::problems::on_a_line;
use warpbook_record::{Breakdown, ChartKind, Descriptor, Measurement, Outcome, Problem, Run};

/// A tab of a record's page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tab {
    /// One quantity for each rung.
    Ladder,
    /// One quantity over several sizes.
    Sweep,
    /// Problems by rungs; each cell is a ratio to the fastest library.
    HeatMap,
    /// The rungs below the device's ceilings.
    Roofline,
    /// The losses and other logs of trainings.
    Loss,
    /// The parts of a run, of a pass and of an SM's time, with tiles and transfers.
    Breakdown,
    /// The activity of every SM over time.
    Xray,
    /// The roofline of kernels; device memory, clocks and power over time; hardware counters.
    Profile,
    /// Every figure in tables.
    Table,
    /// One rung: figures, source and changes.
    Source,
    /// The environment in which the record was made.
    Environment,
    /// Several records side by side, on a page of its own.
    Compare,
}

impl Tab {
    /// All tabs in order.
    pub const ALL: [Self; 12] = [
        Self::Ladder,
        Self::Sweep,
        Self::HeatMap,
        Self::Roofline,
        Self::Loss,
        Self::Breakdown,
        Self::Xray,
        Self::Profile,
        Self::Table,
        Self::Source,
        Self::Environment,
        Self::Compare,
    ];

    /// Returns the tab's name in an address.
    pub const fn id(self) -> &'static str {
        match self {
            Self::Ladder => "ladder",
            Self::Sweep => "sweep",
            Self::HeatMap => "heatmap",
            Self::Roofline => "roofline",
            Self::Loss => "loss",
            // The first version used this name; links must keep working.
            Self::Breakdown => "operations",
            Self::Xray => "xray",
            Self::Profile => "profile",
            Self::Table => "table",
            // The first version used this name; links must keep working.
            Self::Source => "source",
            Self::Environment => "environment",
            Self::Compare => "compare",
        }
    }

    /// Returns the tab's name on the page.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Ladder => "Ladder",
            Self::Sweep => "Sweep",
            Self::HeatMap => "Heat map",
            Self::Roofline => "Roofline",
            Self::Loss => "Loss",
            Self::Breakdown => "Breakdown",
            Self::Xray => "X-ray",
            Self::Profile => "Profile",
            Self::Table => "Table",
            Self::Source => "Code & changes",
            Self::Environment => "Environment",
            Self::Compare => "Compare",
        }
    }

    /// Returns `true` if the tab shows one problem, which the reader can choose.
    pub const fn has_problem(self) -> bool {
        !matches!(self, Self::Sweep | Self::HeatMap | Self::Source | Self::Environment | Self::Compare)
    }

    /// Returns `true` if the tab shows one quantity, which the reader can choose.
    pub const fn has_quantity(self) -> bool {
        matches!(self, Self::Ladder | Self::Sweep)
    }

    /// Returns the problem that the tab shows when the page is at `problem`. If the tab has no figures of that problem,
    /// another one is returned; a record may have X-rays of a problem that it did not measure.
    pub fn problem_at<'a>(self, run: &'a Run, problem: &'a Problem) -> &'a Problem {
        let with_figures =
            |all: Vec<&'a Problem>| if all.contains(&problem) { problem } else { all.first().unwrap_or(&problem) };
        match self {
            Self::Xray => with_figures(run.xrays.iter().map(|x| &x.problem).collect()),
            Self::Profile => with_figures(profiled(run)),
            Self::Ladder | Self::Roofline | Self::Table => {
                let is_measured = run.measurements.iter().any(|m| m.problem == *problem);
                if is_measured { problem } else { run.main_problem().unwrap_or(problem) }
            }
            _ => problem,
        }
    }

    /// Returns the problems that the tab offers: the problems with figures in it, and the current problem.
    pub fn problems<'a>(self, run: &'a Run, now: &Problem) -> Vec<&'a Problem> {
        let mut all = run.every_problem();
        all.retain(|p| *p == now || self.has_figures_at(run, p));
        all
    }

    fn has_figures_at(self, run: &Run, problem: &Problem) -> bool {
        match self {
            Self::Breakdown => {
                let taken_apart = run.breakdowns.iter().map(|b| &b.problem);
                let over_time = run.spans.iter().map(|s| &s.problem);
                run.parts.iter().map(|part| &part.problem).chain(taken_apart).chain(over_time).any(|of| of == problem)
            }
            Self::Xray => run.xrays.iter().any(|x| x.problem == *problem),
            Self::Profile => profiled(run).contains(&problem),
            Self::Loss => run.train_logs.iter().any(|l| l.problem == *problem),
            Self::Roofline => run.measurements.iter().any(|m| m.problem == *problem && !m.traffic.is_empty()),
            _ => run.measurements.iter().any(|m| m.problem == *problem),
        }
    }

    /// Returns the problem that the tab draws when the page is at `problem`; a sweep may need a problem on another
    /// line.
    pub fn drawn_at<'a>(self, run: &'a Run, problem: &'a Problem) -> &'a Problem {
        if self == Self::Sweep { on_a_line(run, problem).unwrap_or(problem) } else { problem }
    }

    /// Returns the tab that shows a kind of chart; `None` for a kind that this version does not know.
    fn showing(chart: ChartKind) -> Option<Self> {
        match chart {
            ChartKind::Ladder => Some(Self::Ladder),
            ChartKind::Sweep => Some(Self::Sweep),
            ChartKind::HeatMap => Some(Self::HeatMap),
            ChartKind::Roofline => Some(Self::Roofline),
            _ if is_of_training(chart) => Some(Self::Loss),
            ChartKind::Breakdown | ChartKind::Timeline => Some(Self::Breakdown),
            ChartKind::Xray => Some(Self::Xray),
            _ => part_group(chart).map(|_| Self::Breakdown),
        }
    }

    /// Returns a record's tabs: the ladder, the descriptor's charts in its order, the profiles, and the tabs of every
    /// record. If the measurements alone say nothing, as in a profile, the record starts with the tabs that have
    /// content.
    pub fn for_record(run: &Run) -> Vec<Self> {
        let mut tabs: Vec<Self> = Vec::new();
        let named = charts_of(run).into_iter().filter(|c| has_data(run, *c)).filter_map(Self::showing);
        let recorded = [(Self::Xray, !run.xrays.is_empty()), (Self::Profile, has_profile(run))];
        for tab in named.chain(recorded.into_iter().filter(|(_, has)| *has).map(|(tab, _)| tab)) {
            if tab != Self::Ladder && !tabs.contains(&tab) {
                tabs.push(tab);
            }
        }
        let told = |m: &Measurement| run.is_sound(m) || m.check.is_some() || m.outcome != Outcome::Measured;
        if run.measurements.is_empty() && !run.train_logs.is_empty() && !tabs.contains(&Self::Loss) {
            tabs.insert(0, Self::Loss);
        }
        if tabs.is_empty() || run.measurements.iter().any(told) {
            tabs.insert(0, Self::Ladder);
        }
        tabs.extend((!run.measurements.is_empty() || tabs[0] == Self::Ladder).then_some(Self::Table));
        tabs.extend((!run.rungs.is_empty()).then_some(Self::Source));
        tabs.push(Self::Environment);
        tabs
    }
}

/// Returns the problems with recordings other than times.
fn profiled(run: &Run) -> Vec<&Problem> {
    run.profiled.iter().map(|p| &p.problem).chain(run.breakdowns.iter().map(|b| &b.problem)).collect()
}

/// Returns `true` if a record has profiles other than timelines: memory, clocks and power over time, counters, or work
/// for a roofline.
fn has_profile(run: &Run) -> bool {
    let counted = |b: &Breakdown| b.operations.iter().any(|o| o.flops > 0 && o.bytes > 0);
    run.profiled.iter().any(|p| p.memory.len() > 1 || p.power.len() > 1 || !p.counters.is_empty())
        || !run.peaks.bandwidth.is_empty() && run.breakdowns.iter().any(counted)
}

/// Returns the charts that the descriptor names, or the default charts if it names none that this version knows.
pub fn charts_of(run: &Run) -> Vec<ChartKind> {
    let known: Vec<ChartKind> = run.descriptor.charts.iter().copied().filter(|c| Tab::showing(*c).is_some()).collect();
    if known.is_empty() { Descriptor::default().charts } else { known }
}

#[cfg(test)]
mod tests {
    use super::super::charts::training_charts;
    use super::*;
    use crate::address::Link;
    use crate::testing::{hostile, sample, sample_run, training_run};
    use warpbook_charts::Options;

    /// Builds a record that has only an X-ray.
    fn xrayed() -> Run {
        let mut value = sample();
        for list in ["measurements", "train_logs", "parts", "spans", "breakdowns"] {
            value[list] = serde_json::json!([]);
        }
        value["descriptor"]["charts"] = serde_json::json!(["xray"]);
        value["xrays"] = serde_json::json!([{
            "rung": "02_fused", "problem": "points=1000000 epochs=200 fp32", "phases": ["start", "load"],
            "kernels": [{"entry": "pass", "file": "regression/02_fused.cu", "tile": "t512x8", "blocks": 1, "warps": 1}],
            "sms": [{"sm": 0, "error_ns": 0.0}], "clock_mhz": 1980.0, "marked_us": [2.0], "unmarked_us": [1.9],
            "blocks": [{"kernel": 0, "block": 0, "sm": 0, "start_ns": 0, "end_ns": 900,
                        "warps": [{"warp": 0, "phases": "0:100 1:800", "start_ns": 0}]}]
        }]);
        crate::library::open::open(value.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn a_record_of_an_xray_begins_with_it() {
        let mut run = xrayed();
        assert_eq!(Tab::for_record(&run), [Tab::Xray, Tab::Source, Tab::Environment]);
        let problem = Link::default().problem_of(&run).unwrap();
        assert_eq!(problem.short, "1 M");
        assert!(Options::default().xray_of(&run, &run.xrays[0]).is_ok());
        let chosen = Link::parse("?problem=points=1000000+epochs=200+fp32");
        assert_eq!(chosen.problem_of(&run), Some(problem));
        hostile::show(&run);
        // Charts without a mention in the descriptor also count, such as after merging records.
        run.descriptor.charts = vec![ChartKind::Ladder];
        assert_eq!(Tab::for_record(&run)[0], Tab::Xray);
        run.xrays.clear();
        assert_eq!(Tab::for_record(&run), [Tab::Ladder, Tab::Table, Tab::Source, Tab::Environment]);
    }

    #[test]
    fn an_x_ray_of_another_problem_is_shown_next_to_the_ladder() {
        let mut run = sample_run();
        let main = run.main_problem().unwrap().clone();
        let mut xray = xrayed().xrays.remove(0);
        xray.problem = main.clone().with(|p| p.id = "looked into".into());
        let looked_into = xray.problem.clone();
        run.problems.push(looked_into.clone());
        run.xrays.push(xray);
        assert!(Tab::for_record(&run).contains(&Tab::Xray), "it is shown also where the descriptor does not name it");
        let at = |tab: Tab, problem| tab.problem_at(&run, problem).id.as_str();
        assert_eq!((at(Tab::Xray, &main), at(Tab::Xray, &looked_into)), ("looked into", "looked into"));
        for tab in [Tab::Ladder, Tab::Table, Tab::Roofline] {
            assert_eq!((at(tab, &main), at(tab, &looked_into)), (&*main.id, &*main.id), "{tab:?}");
        }
        assert_eq!(at(Tab::Loss, &looked_into), "looked into", "it chooses by itself");
        assert_ne!(at(Tab::Profile, &looked_into), "looked into");
        hostile::show(&run);
        let text = run.to_json().unwrap();
        assert!(crate::library::open::open(text.as_bytes()).is_ok());
    }

    #[test]
    fn a_profile_begins_with_what_there_is_to_see() {
        let mut value = sample();
        for list in ["train_logs", "parts"] {
            value[list] = serde_json::json!([]);
        }
        // The steps' times are not checked, so they cannot make a ladder.
        for m in value["measurements"].as_array_mut().unwrap() {
            m.as_object_mut().unwrap().remove("check");
            m.as_object_mut().unwrap().remove("traffic");
        }
        let main = value["main_problem"].clone();
        value["descriptor"]["charts"] = serde_json::json!(["ladder", "timeline", "breakdown"]);
        value["profiled"] = serde_json::json!([{
            "rung": "02_fused", "problem": main, "source": "CUPTI 130001",
            "memory": [{"at_us": 0.0, "allocated_bytes": 0}, {"at_us": 5.0, "allocated_bytes": 4_194_304}],
            "counters": [{"kernel": "pass", "grid": [4], "values": [{"metric": "gpu__time_duration.sum", "value": 2000.0},
                          {"metric": "dram__bytes_read.sum", "value": 4096.0}]}]
        }]);
        let mut run = crate::library::open::open(value.to_string().as_bytes()).unwrap();
        use Tab::{Breakdown, Environment, Profile, Source, Table};
        assert_eq!(Tab::for_record(&run), [Breakdown, Profile, Table, Source, Environment]);
        let problem = run.main_problem().unwrap().clone();
        let sheet = crate::tables::counters(&run, &problem);
        let headings: Vec<&str> = sheet.columns.iter().map(|c| c.label.as_str()).collect();
        assert_eq!(headings, ["Rung", "Kernel", "Time", "DRAM read"]);
        let csv = sheet.table().csv();
        assert_eq!(
            csv.lines().collect::<Vec<_>>(),
            ["Rung,Kernel,time (µs),DRAM read (bytes)", "02_fused,pass,2,4096"]
        );
        assert!(Options::default().memory(&run.profiled[0], 11.0, ["memory", ""]).is_ok());
        hostile::show(&run);
        // Clock and power readings alone are enough for a profile.
        let reading = |at_us, watts| serde_json::json!({"at_us": at_us, "sm_mhz": 1900, "watts": watts, "limit_watts": 700.0, "flops": 9});
        value["profiled"] = serde_json::json!([{
            "rung": "02_fused", "problem": main, "source": "NVML", "power": [reading(0.0, 90.0), reading(5e4, 690.5)]
        }]);
        let read = crate::library::open::open(value.to_string().as_bytes()).unwrap();
        assert_eq!(Tab::for_record(&read), [Breakdown, Profile, Table, Source, Environment]);
        assert!(
            Options::default().clocks(&read, &problem).is_ok() && Options::default().power(&read, &problem).is_ok()
        );
        hostile::show(&read);
        // Without a profile, the record opens with a ladder that says why it has no bars.
        run.profiled.clear();
        run.breakdowns.clear();
        run.spans.clear();
        assert_eq!(Tab::for_record(&run)[..2], [Tab::Ladder, Table]);
    }

    #[test]
    fn tabs_are_those_that_the_descriptor_names_and_the_record_has_something_for() {
        let mut run = sample_run();
        use Tab::{Breakdown, Environment, HeatMap, Ladder, Loss, Profile, Roofline, Source, Sweep, Table};
        assert_eq!(
            Tab::for_record(&run),
            [Ladder, Sweep, Roofline, Breakdown, Loss, Profile, Table, Source, Environment],
            "no library, so no heat map"
        );
        run.descriptor.charts.retain(|c| *c != ChartKind::Roofline);
        assert!(!Tab::for_record(&run).contains(&Roofline));
        // A problem on another line of a sweep does not count as another size.
        run.measurements.retain(|m| m.problem.size() == 5_000_000);
        run.parts.clear();
        assert!(Tab::for_record(&run).contains(&Breakdown), "what was recorded of a run");
        run.breakdowns.clear();
        run.spans.clear();
        assert!(run.problems().len() == 2 && !Tab::for_record(&run).contains(&Sweep));
        assert!(!Tab::for_record(&run).contains(&Breakdown));
        let mut run = sample_run();
        run.descriptor.charts = vec![ChartKind::HeatMap];
        run.rungs[0].runner = warpbook_record::Runner::Library("cuBLAS".into());
        run.breakdowns.clear();
        assert_eq!(Tab::for_record(&run), [Ladder, HeatMap, Table, Source, Environment]);
        // A later version's record may have only kinds of charts that this one does not know.
        run.descriptor.charts = vec![ChartKind::Other];
        assert_eq!(Tab::for_record(&run), [Ladder, Sweep, Roofline, Table, Source, Environment]);
        run.measurements.iter_mut().for_each(|m| m.traffic.clear());
        assert!(!Tab::for_record(&run).contains(&Roofline), "no bytes were counted");
        assert_eq!(Link::parse("?tab=roofline").tab, Some(Roofline));
        assert!(Tab::for_record(&sample_run()).contains(&Loss));
    }

    #[test]
    fn a_record_of_a_training_alone_begins_with_its_losses() {
        let mut run = training_run();
        let problem = run.main_problem().unwrap().clone();
        // The record also has the training's kernels.
        assert_eq!(Tab::for_record(&run), [Tab::Loss, Tab::Profile, Tab::Source, Tab::Environment]);
        let drawn = |run: &Run| -> Vec<&str> {
            training_charts(&Options::default(), run, &problem)
                .into_iter()
                .filter(|(_, c)| c.is_ok())
                .map(|(name, _)| name)
                .collect()
        };
        assert_eq!(drawn(&run), ["loss", "accuracy", "learning-rate", "loss-scale"], "no norm was computed");
        run.descriptor.charts = vec![ChartKind::Other];
        assert_eq!(Tab::for_record(&run)[0], Tab::Loss);
        assert_eq!(drawn(&run), ["loss"]);
    }
}
