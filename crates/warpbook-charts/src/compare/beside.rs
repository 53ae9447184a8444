//! A sentence that compares the reader's record with a published one of the same experiment.

use super::{ComparedRow, Comparison, Verdict};
use crate::draw::text::words::times;
use crate::record::{device, label};
use warpbook_record::{DeviceKind, Run};

/// Compares the reader's record with a published one in a sentence. The sentence is about the fastest Warpbook rung
/// that both records timed, for the published record's main problem, or else for the last problem that both have. If
/// nothing can be compared, the sentence says why.
#[must_use]
pub fn beside(own: &Run, published: &Run) -> String {
    let (here, there) = (device(own), device(published));
    let kinds = [own, published].map(|r| r.environment.device.kind == DeviceKind::Cuda);
    match kinds {
        [false, true] => {
            return format!(
                "Your record is from a CPU, {here}: its times are not compared with the published times of {there}."
            );
        }
        [true, false] => {
            return format!("The published record is from a CPU: the times of your {here} are not compared with it.");
        }
        _ => {}
    }
    let both = match Comparison::from_runs(&[published, own]) {
        Ok(both) => both,
        Err(e) => return format!("Your record cannot be compared with the published one from {there}: {e}"),
    };
    let judged =
        |verdict: Option<Verdict>| matches!(verdict, Some(Verdict::Improved | Verdict::Worse | Verdict::WithinNoise));
    // Rungs that do less work are left out, as in the choice of a record's fastest rung.
    let whole = |row: &ComparedRow<'_>| row.cells.iter().filter_map(|c| c.measurement).all(|m| !m.does_less());
    let rows = || both.rows.iter().filter(|r| !r.reference && judged(r.cells[1].verdict) && whole(r));
    let main = published.main_problem();
    let problem =
        rows().map(|r| r.problem).find(|p| Some(*p) == main).or_else(|| rows().map(|r| r.problem).next_back());
    let of_problem = rows().filter(|r| Some(r.problem) == problem);
    let timed = of_problem.filter_map(|r| Some((r, r.cells[0].us?, r.cells[1].us?)));
    let Some((row, us, own_us)) = timed.min_by(|a, b| a.2.total_cmp(&b.2)) else {
        let why = both.rows.iter().map(|r| r.cells[1].why.as_str()).find(|why| !why.is_empty());
        let why = why.map_or_else(String::new, |why| format!(": {why}"));
        return format!("Nothing in your record can be compared with the published one from {there}{why}.");
    };
    let ratio = match row.cells[1].verdict {
        Some(Verdict::WithinNoise) => "as long as".to_owned(),
        _ => format!("{} as long as", times(own_us / us)),
    };
    let same =
        if here == there { format!("the published one, a {there} too") } else { format!("the published {there}") };
    format!("On your {here}, \u{201c}{}\u{201d} takes {ratio} on {same}, at {}.", row.title, label(row.problem))
}
