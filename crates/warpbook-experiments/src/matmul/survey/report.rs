//! The results of a survey, and the limits that they must satisfy.

use super::shapes::{Drawn, Sides};
use serde::{Deserialize, Serialize};
use std::fmt::Write;
use warpbook_record::{Dtype, Environment, Policy};

/// Lowest allowed geometric mean of the ratios to the library's best, for each kind of sides.
const LEAST_MEAN: f64 = 1.0;
/// Lowest allowed geometric mean of the ratios to the library's first choice.
const LEAST_MEAN_TO_FIRST: f64 = 1.05;
/// Ratio that most products must reach, and the lowest allowed fraction of products that reach it.
const MOST_REACH: f64 = 0.9;
const LEAST_SHARE: f64 = 0.95;
/// Lowest allowed ratio of any product.
const LEAST_OF_ANY: f64 = 0.75;

/// Median times of a product in microseconds, all timed in rounds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// Time of the choice of `gemm()`, in microseconds.
    pub ours_us: f64,
    /// Time in microseconds of the first algorithm that cuBLASLt suggests and that gives the right result.
    pub first_us: f64,
    /// Time in microseconds of the fastest suggested algorithm; never more than `first_us`.
    pub best_us: f64,
}

impl Times {
    /// Returns the time of the library's best algorithm divided by the time of `gemm()`; above 1, `gemm()` is faster.
    #[must_use]
    pub fn to_best(&self) -> f64 {
        self.best_us / self.ours_us
    }

    /// Returns the time of the library's first choice divided by the time of `gemm()`; above 1, `gemm()` is faster.
    #[must_use]
    pub fn to_first(&self) -> f64 {
        self.first_us / self.ours_us
    }
}

/// The rung and the tile that `gemm()` chose.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Picked {
    /// Id of the rung.
    pub rung: String,
    /// Id of the tile.
    pub tile: String,
}

/// A product of a survey, with the result of the comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Compared {
    /// The product that was compared.
    #[serde(flatten)]
    pub drawn: Drawn,
    /// The chosen rung and tile with the reason, as a sentence.
    pub choice: Option<String>,
    /// The chosen rung and tile; `None` in older reports, which only contain the sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub picked: Option<Picked>,
    /// Time in seconds to make the first plan of the product, if it times kernels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_s: Option<f64>,
    /// Number of the library's algorithms that give the right result.
    pub algorithms: usize,
    /// Median times; `None` if an error occurred.
    pub times: Option<Times>,
    /// The error as a sentence, if one occurred.
    pub error: Option<String>,
}

/// The summary of a group of products.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Name of the group.
    pub name: String,
    /// Number of products that were timed.
    pub count: usize,
    /// Geometric mean of the ratios to the library's best.
    pub to_best: f64,
    /// Geometric mean of the ratios to the library's first choice.
    pub to_first: f64,
    /// Fraction of products whose ratio to the best is at least 0.9.
    pub share_of_0_9: f64,
    /// Smallest ratio to the library's best.
    pub least: f64,
    /// The product with the smallest ratio, as text.
    pub least_at: String,
}

/// A limit on a summary figure, and the measured value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bound {
    /// Name of the summary figure to which the limit applies.
    pub what: String,
    /// Lowest allowed value.
    pub least: f64,
    /// Measured value.
    pub found: f64,
}

impl Bound {
    /// Returns true if the measured value satisfies the limit; NaN never does.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.found >= self.least
    }
}

/// The report of a survey.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Seed with which the survey can be repeated.
    pub seed: u64,
    /// Time when the survey ended, as RFC 3339; empty in older reports.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub created: String,
    /// Environment in which the survey ran.
    pub environment: Environment,
    /// Settings of the timing, such as the number of samples.
    pub policy: Policy,
    /// Version of cuBLASLt: (major, minor, patch).
    pub cublaslt: (u32, u32, u32),
    /// Results of the products, in the order in which they were drawn.
    pub products: Vec<Compared>,
}

/// Returns the summary of the products that `keep` accepts; `None` if none of them was timed.
fn summary(name: &str, products: &[Compared], keep: impl Fn(&Drawn) -> bool) -> Option<Summary> {
    let timed: Vec<(&Drawn, Times)> =
        products.iter().filter(|c| keep(&c.drawn)).filter_map(|c| Some((&c.drawn, c.times?))).collect();
    let count = timed.len();
    let (at, least) = timed.iter().map(|(d, t)| (d, t.to_best())).min_by(|a, b| a.1.total_cmp(&b.1))?;
    let mean = |ratio: fn(&Times) -> f64| (timed.iter().map(|(_, t)| ratio(t).ln()).sum::<f64>() / count as f64).exp();
    let reach = timed.iter().filter(|(_, t)| t.to_best() >= MOST_REACH).count();
    Some(Summary {
        name: name.into(),
        count,
        to_best: mean(Times::to_best),
        to_first: mean(Times::to_first),
        share_of_0_9: reach as f64 / count as f64,
        least,
        least_at: at.to_string(),
    })
}

impl Report {
    /// Returns summaries of all products, then by sides, types and transpositions.
    #[must_use]
    pub fn summaries(&self) -> Vec<Summary> {
        let summarise = |name: &str, keep: &dyn Fn(&Drawn) -> bool| summary(name, &self.products, keep);
        let mut all = vec![summarise("all", &|_| true)];
        all.extend(Sides::ALL.map(|sides| summarise(sides.label(), &|d| d.sides == sides)));
        all.extend([Dtype::Bf16, Dtype::F16].map(|dtype| summarise(dtype.label(), &|d| d.dtype == dtype)));
        let mut stored: Vec<&str> = Vec::new();
        for drawn in self.products.iter().map(|c| &c.drawn) {
            if !stored.contains(&drawn.stored()) {
                stored.push(drawn.stored());
            }
        }
        all.extend(stored.into_iter().map(|how| summarise(how, &|d| d.stored() == how)));
        all.into_iter().flatten().collect()
    }

    /// Returns the products that failed.
    pub fn failed(&self) -> impl Iterator<Item = &Compared> {
        self.products.iter().filter(|c| c.error.is_some())
    }

    /// Returns the limits that good choices must satisfy, each with the measured value.
    #[must_use]
    pub fn bounds(&self) -> Vec<Bound> {
        let bound =
            |what: String, least: f64, found: Option<f64>| Bound { what, least, found: found.unwrap_or(f64::NAN) };
        let thirds = Sides::ALL.map(|sides| {
            let found = summary("", &self.products, |d| d.sides == sides).map(|s| s.to_best);
            bound(format!("geometric mean against the best, {}", sides.label()), LEAST_MEAN, found)
        });
        let all = summary("", &self.products, |_| true);
        let of_all =
            |what: &str, least: f64, figure: fn(&Summary) -> f64| bound(what.into(), least, all.as_ref().map(figure));
        let right = 1.0 - self.failed().count() as f64 / self.products.len() as f64;
        thirds
            .into_iter()
            .chain([
                of_all("share of products at 0.9 of the best or more", LEAST_SHARE, |s| s.share_of_0_9),
                of_all("smallest ratio to the best", LEAST_OF_ANY, |s| s.least),
                of_all("geometric mean against the first choice", LEAST_MEAN_TO_FIRST, |s| s.to_first),
                bound("share of products that were right and timed".into(), 1.0, Some(right)),
            ])
            .collect()
    }

    /// Returns the 50th and 95th percentile of the seconds for making first plans; `None` if plans timed nothing.
    #[must_use]
    pub fn plan_s(&self) -> Option<[f64; 2]> {
        let mut all: Vec<f64> = self.products.iter().filter_map(|c| c.plan_s).collect();
        all.sort_by(f64::total_cmp);
        let last = all.len().checked_sub(1)?;
        Some([50, 95].map(|percent| all[last * percent / 100]))
    }

    /// Returns the report as JSON, including [`Self::summaries`] and [`Self::bounds`] for readers that cannot compute
    /// them.
    ///
    /// # Errors
    /// If a number of the report cannot be represented in JSON.
    pub fn to_json(&self) -> serde_json::Result<String> {
        #[derive(Serialize)]
        struct Written<'a> {
            summaries: Vec<Summary>,
            bounds: Vec<Bound>,
            #[serde(flatten)]
            report: &'a Report,
        }
        let written = Written { summaries: self.summaries(), bounds: self.bounds(), report: self };
        serde_json::to_string_pretty(&written).map(|text| text + "\n")
    }

    /// Returns the summaries, the slowest products and the limits as text.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        let mut line = |l: String| {
            let _ = writeln!(text, "{l}");
        };
        line(format!(
            "{:<20}{:>6}{:>10}{:>10}{:>8}{:>10}  smallest at",
            "", "count", "to best", "to first", "≥ 0.9", "smallest"
        ));
        for s in self.summaries() {
            let share = format!("{:.1} %", 100.0 * s.share_of_0_9);
            line(format!(
                "{:<20}{:>6}{:>10.3}{:>10.3}{share:>8}{:>10.3}  {}",
                s.name, s.count, s.to_best, s.to_first, s.least, s.least_at
            ));
        }
        if let Some([half, most]) = self.plan_s() {
            line(format!("First plans took {half:.2} s (50th percentile) and {most:.2} s (95th)."));
        }
        for bound in self.bounds() {
            let verdict = if bound.holds() { "kept  " } else { "MISSED" };
            line(format!("{verdict}  {}: {:.3}, at least {:.2}", bound.what, bound.found, bound.least));
        }
        text
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::shapes::draw;
    use super::*;

    /// Returns a report whose products have these times, in the order `gemm()`, first choice, best.
    fn report(times: &[[f64; 3]]) -> Report {
        let drawn = draw(1, times.len() as u32);
        let compared = |(drawn, [ours_us, first_us, best_us]): (Drawn, &[f64; 3])| Compared {
            drawn,
            choice: None,
            picked: None,
            plan_s: None,
            algorithms: 32,
            times: Some(Times { ours_us: *ours_us, first_us: *first_us, best_us: *best_us }),
            error: None,
        };
        let lab = warpbook_lab::Lab::open("cpu").unwrap();
        Report {
            created: String::new(),
            seed: 1,
            environment: lab.environment(),
            policy: lab.bench().policy(true, "none".into()),
            cublaslt: (13, 0, 0),
            products: drawn.into_iter().zip(times).map(compared).collect(),
        }
    }

    fn missed(report: &Report) -> Vec<String> {
        report.bounds().into_iter().filter(|b| !b.holds()).map(|b| b.what).collect()
    }

    #[test]
    fn means_are_geometric_and_the_smallest_is_named() {
        // For each kind of sides, one product is twice as fast as the library's best, and another half as fast.
        let report = report(&[
            [1.0, 4.0, 2.0],
            [1.0, 4.0, 2.0],
            [1.0, 4.0, 2.0],
            [2.0, 4.0, 1.0],
            [2.0, 4.0, 1.0],
            [4.0, 4.0, 1.0],
        ]);
        let all = report.summaries();
        let close = |a: f64, b: f64| (a - b).abs() < 1e-12;
        assert_eq!((&*all[0].name, all[0].count, all[0].least), ("all", 6, 0.25));
        assert!(close(all[0].to_best, 0.5_f64.powf(1.0 / 6.0)), "{}", all[0].to_best);
        assert!(close(all[0].to_first, 2.0_f64.powf(8.0 / 6.0)), "{}", all[0].to_first);
        assert!(close(all[0].share_of_0_9, 0.5));
        assert_eq!(all[0].least_at, report.products[5].drawn.to_string());
        let odd = all.iter().find(|s| s.name == "odd").unwrap();
        assert!(odd.count == 2 && close(odd.to_best, 1.0) && close(odd.to_first, 8.0_f64.sqrt()));
        // The groups by sides, by types and by transpositions must each contain every product once.
        for names in
            [Sides::ALL.map(Sides::label).to_vec(), vec!["bf16", "fp16"], vec!["A, B as they are", "A transposed"]]
        {
            assert_eq!(
                all.iter().filter(|s| names.contains(&&*s.name)).map(|s| s.count).sum::<usize>(),
                6,
                "{names:?}"
            );
        }
    }

    #[test]
    fn each_bound_is_missed_by_what_it_is_about() {
        let good = [1.0, 1.1, 1.05];
        let mut times = vec![good; 120];
        assert_eq!(missed(&report(&times)), Vec::<String>::new());
        // Six of 120 products below 0.9 are 5 %, which is allowed; a seventh is too many.
        (0..6).for_each(|i| times[i] = [1.0, 1.1, 0.8]);
        assert_eq!(missed(&report(&times)), Vec::<String>::new());
        times[6] = [1.0, 1.1, 0.8];
        assert_eq!(missed(&report(&times)), ["share of products at 0.9 of the best or more"]);
        let mut times = vec![good; 120];
        times[7] = [1.0, 1.1, 0.74];
        assert_eq!(missed(&report(&times)), ["smallest ratio to the best"]);
        assert_eq!(missed(&report(&vec![[1.0, 1.04, 1.02]; 120])), ["geometric mean against the first choice"]);
        // One third of the products are slower than the library, the others are faster.
        let mut times = vec![[1.0, 1.2, 1.1]; 120];
        (0..120).filter(|i| i % 3 == 1).for_each(|i| times[i] = [1.0, 1.2, 0.99]);
        assert_eq!(missed(&report(&times)), ["geometric mean against the best, odd"]);
    }

    #[test]
    fn what_failed_or_was_not_timed_keeps_no_bound() {
        let mut one_wrong = report(&[[1.0, 1.2, 1.1]; 12]);
        (one_wrong.products[3].times, one_wrong.products[3].error) = (None, Some("wrong".into()));
        assert_eq!(missed(&one_wrong), ["share of products that were right and timed"]);
        assert_eq!(one_wrong.summaries()[0].count, 11);
        let nothing = report(&[]);
        assert_eq!((missed(&nothing).len(), nothing.summaries().len()), (7, 0));
        assert!(nothing.text().contains("MISSED"));
    }

    #[test]
    fn first_plans_are_summed_up_by_percentiles() {
        let mut report = report(&[[1.0, 1.2, 1.1]; 21]);
        assert_eq!(report.plan_s(), None);
        (0..21).for_each(|i| report.products[i].plan_s = Some(f64::from(20 - i as u32)));
        assert_eq!(report.plan_s(), Some([10.0, 19.0]));
        assert!(report.text().contains("First plans took 10.00 s (50th percentile) and 19.00 s (95th)."));
    }

    #[test]
    fn a_report_is_read_again_and_its_text_has_every_bound() {
        let report = report(&[[1.0, 1.2, 1.1]; 24]);
        let text = report.to_json().unwrap();
        assert_eq!(serde_json::from_str::<Report>(&text).unwrap(), report);
        assert!(text.contains("\"sides\": \"odd\"") && text.contains("\"best_us\": 1.1"), "{text}");
        let written: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (written["summaries"][0]["count"].as_u64(), written["bounds"].as_array().unwrap().len()),
            (Some(24), 7)
        );
        assert_eq!(report.text().matches("kept  ").count(), report.bounds().len());
    }
}
