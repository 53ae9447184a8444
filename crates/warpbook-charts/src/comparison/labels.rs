//! Short names that tell records apart.

use crate::common::{device, joined};
use crate::text::clean;
use warpbook_record::Run;

/// The most characters of a label.
pub const MAX_LABEL: usize = 40;

/// The shortest of a record's facts that tell all of these apart: their devices, who made them, their dates, their commits; what
/// they have in common is not repeated. Numbers, where nothing does.
#[must_use]
pub fn record_labels(runs: &[&Run]) -> Vec<String> {
    let when = |run: &Run, n: usize| -> String {
        clean(&run.created).chars().take(n).map(|c| if c == 'T' { ' ' } else { c }).collect()
    };
    let devices: Vec<String> = runs.iter().map(|r| device(r)).collect();
    let one_device = devices.windows(2).all(|w| w[0] == w[1]);
    let authors: Vec<String> = runs.iter().map(|r| clean(r.author.as_deref().unwrap_or_default())).collect();
    let commits =
        runs.iter().map(|r| clean(r.environment.commit.as_deref().unwrap_or_default()).chars().take(12).collect());
    let named = |facts: &[String]| -> Vec<String> {
        let both = devices.iter().zip(facts).map(|(d, f)| if one_device { f.clone() } else { joined([d, f]) });
        both.collect()
    };
    let days: Vec<String> = runs.iter().map(|r| when(r, 10)).collect();
    let minutes: Vec<String> = runs.iter().map(|r| when(r, 16)).collect();
    let commits: Vec<String> = commits.collect();
    let candidates = [devices.clone(), named(&authors), named(&days), named(&minutes), named(&commits)];
    let tells = |names: &Vec<String>| names.iter().enumerate().all(|(i, n)| !n.is_empty() && !names[..i].contains(n));
    let short = |names: Vec<String>| names.into_iter().map(|n| n.chars().take(MAX_LABEL).collect()).collect();
    let found = candidates.into_iter().map(short).find(tells);
    found.unwrap_or_else(|| (1..=runs.len()).map(|n| format!("record {n}")).collect())
}
