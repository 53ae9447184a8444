//! The texts around a roofline, and its table.

use super::{RooflinePoint, Roofs};
use crate::draw::text::words::{bandwidth, counted, listed, rate, significant};
use crate::draw::{Frame, MAX_ENTRIES, Table};
use crate::record::{
    arithmetic_name, device, heading, joined, l2, label, medians, names, of_bound, policy_note, quoted,
};
use warpbook_record::Dtype;

impl Roofs<'_> {
    pub(super) fn frame(&self, unnamed: usize) -> Frame {
        let run = self.run;
        let medians = medians(self.points.iter().map(|p| p.measurement));
        let mut notes = vec![
            "Numbers rank the rungs, the fastest first. A point has the marker of the level of memory that it works from, and lies \
             below that level's roof. Percentages are relative to a point's own limit: the least time that its bytes and operations allow."
                .to_owned(),
        ];
        notes.extend(policy_note(run, false));
        if self.points.iter().any(|p| p.measurement.gpus() > 1) {
            notes.push(
                "For rungs on several GPUs, FLOP/s and FLOP/byte are per GPU, as the roofs are; all bytes sent over links count, \
                 since they cross the first GPU's link."
                    .into(),
            );
        }
        if !self.uncounted.is_empty() {
            let shown: Vec<String> = self.uncounted.iter().take(MAX_ENTRIES).cloned().collect();
            notes.push(format!("Left out, as their bytes were not counted: {}.", listed(&shown)));
        }
        if self.invalid > 0 {
            notes.push(format!("{} without a valid figure; the ladder says why.", counted(self.invalid, "rung")));
        }
        let unknown = self.dtypes.iter().filter(|dtype| self.peaks.iter().all(|p| p.dtype != **dtype));
        notes.extend(unknown.map(|dtype| format!("The peak of {} was not measured.", arithmetic_name(*dtype))));
        if self.dtypes.len() > 1 {
            notes.push("A point lies below the peak of its own type of arithmetic, which its figures name.".into());
        }
        if self.lower {
            notes.push(format!("The peak of {} is for rungs without tensor cores.", arithmetic_name(Dtype::F32)));
        }
        if self.points.len() > MAX_ENTRIES {
            notes.push(format!("{} of {} points are drawn; the table has all.", MAX_ENTRIES, self.points.len()));
        }
        if unnamed > 0 {
            notes.push(format!("{} did not fit; the table has all.", counted(unnamed, "name")));
        }
        Frame {
            width: self.options.px(),
            title: self.claim().unwrap_or_else(|| format!("{}: roofline", heading(run))),
            subtitle: joined([
                format!("{}: roofline", heading(run)),
                self.of_rung.clone(),
                device(run),
                label(self.problem),
                medians,
                l2(run).to_owned(),
            ]),
            description: self.description(),
            notes,
            table: self.table(),
        }
    }

    /// Returns a sentence about how close the fastest rung comes to its bound.
    fn claim(&self) -> Option<String> {
        let of_all = |p: &&RooflinePoint<'_>| !p.measurement.does_less() && p.bound.is_some();
        let fastest = self.points.iter().filter(of_all).min_by(|a, b| a.us.total_cmp(&b.us))?;
        let (bound, share) = fastest.bound?;
        let name = quoted(self.run, &fastest.measurement.rung);
        let at = of_bound(&bound, fastest.measurement.arithmetic_type(), share);
        Some(match share {
            s if s > 1.0 => format!("{name} is beyond the measured limit, at {at}"),
            s if s >= 0.8 => format!("{name} is near its limit, at {at}"),
            _ => format!("{name} has room left, at {at}"),
        })
    }

    fn description(&self) -> String {
        let run = self.run;
        let mut roofs: Vec<String> =
            self.roofs.iter().map(|r| format!("{} {}", r.level.label(), bandwidth(r.bytes_per_s))).collect();
        roofs.extend(self.peaks.iter().map(|p| format!("{} {}", p.name(), rate(p.flops_per_s))));
        let fastest = self.points.iter().max_by(|a, b| a.flops_per_s().total_cmp(&b.flops_per_s()));
        let nearest = self.points.iter().filter_map(|p| Some((p, p.bound?.1))).max_by(|a, b| a.1.total_cmp(&b.1));
        let fastest = fastest.map_or(String::new(), |p| {
            format!("; {} reaches the most FLOP/s, {}", quoted(run, &p.measurement.rung), rate(p.flops_per_s()))
        });
        let nearest = nearest.and_then(|(p, _)| {
            Some(format!("; nearest to its roof is {} with {}", quoted(run, &p.measurement.rung), p.of_bound()?))
        });
        format!(
            "Points of {} on {}, {}, by FLOP/byte and FLOP/s, below the measured roofs of {}{fastest}{}.",
            counted(self.points.len(), self.noun),
            device(run),
            label(self.problem),
            listed(&roofs),
            nearest.unwrap_or_default()
        )
    }

    fn table(&self) -> Table {
        let first = format!("roof or {}", self.noun);
        let mut table = Table::new([
            first.as_str(),
            "title",
            "level",
            "bytes moved there",
            "FLOP",
            "FLOP/byte",
            "GFLOP/s",
            "GB/s",
            "least time (ms)",
            "time (ms)",
            "% of bound",
            "bound by",
            "datasheet",
            "arithmetic",
        ]);
        let flops = self.peaks.first().map(|p| p.flops_per_s);
        let digits = |v: Option<f64>, n| v.map(|v| significant(v, n)).unwrap_or_default();
        for r in &self.roofs {
            let mut cells = vec![String::new(); 14];
            cells[0] = "roof".into();
            cells[1] = format!("{}, measured", r.level.label());
            cells[2] = r.level.label().into();
            cells[5] = digits(flops.map(|f| f / r.bytes_per_s), 4);
            cells[6] = digits(flops.map(|f| f / 1e9), 4);
            cells[7] = significant(r.bytes_per_s / 1e9, 4);
            cells[12] = r.datasheet.map(bandwidth).unwrap_or_default();
            table.push(cells);
        }
        for p in &self.peaks {
            let mut cells = vec![String::new(); 14];
            cells[0] = "roof".into();
            cells[1] = format!("{}, measured", p.name());
            cells[6] = significant(p.flops_per_s / 1e9, 4);
            cells[12] = p.datasheet.map(rate).unwrap_or_default();
            table.push(cells);
        }
        for p in &self.points {
            let m = p.measurement;
            table.push([
                m.rung.clone(),
                names(self.run, &m.rung).0,
                p.level.label().to_owned(),
                p.bytes.to_string(),
                m.operations().to_string(),
                significant(p.intensity(), 4),
                significant(p.flops_per_s() / 1e9, 4),
                significant(p.bytes as f64 / (p.us * 1e-6) / 1e9, 4),
                digits(p.bound.map(|(b, _)| b.us / 1e3), 4),
                significant(p.us / 1e3, 5),
                digits(p.bound.map(|(_, f)| f * 100.0), 3),
                p.bound.map_or("", |(b, _)| b.label()).to_owned(),
                String::new(),
                m.arithmetic_type().label().to_owned(),
            ]);
        }
        table
    }
}
