//! Divides a product into shares and panels. This module only computes numbers and uses no device.

use std::ops::Range;

/// Largest number of panels that is chosen automatically; a caller may ask for more.
pub(super) const MOST_CHOSEN: u32 = 16;

/// Maximum number of times that the last panel is halved.
const MOST_HALVINGS: u32 = 3;

/// Assumed overhead of a panel in microseconds: launches, and an event for which another GPU waits. The choice depends on its square root.
const PANEL_US: f64 = 5.0;

/// Divides 0..total into consecutive shares for this number of devices. Each share is a whole number of units, except the last share that is not empty. If the
/// units cannot be divided evenly, the first devices get one more, since the first device has nothing to send.
///
/// ```
/// use warpbook_gemm::tensor_parallel::shares;
///
/// assert_eq!(shares(1000, 2, 128), [0..512, 512..1000]);
/// assert_eq!(shares(100, 3, 64), [0..64, 64..100, 100..100]);
/// ```
///
/// # Panics
/// If the unit is 0.
#[must_use]
pub fn shares(total: u32, devices: usize, unit: u32) -> Vec<Range<u32>> {
    let (units, count) = (u64::from(total.div_ceil(unit)), devices.max(1) as u64);
    // Rounds up, so that the first devices get the remainder.
    let end = |device: u64| {
        let elements = (units * device).div_ceil(count) * u64::from(unit);
        u32::try_from(elements.min(u64::from(total))).unwrap_or(total)
    };
    (0..count).map(|device| end(device)..end(device + 1)).collect()
}

/// Divides a share into this number of panels, or into one panel per unit if there are fewer units. The panels are consecutive and not empty, and each panel
/// except the last is a whole number of units.
///
/// # Panics
/// If the unit is 0.
#[must_use]
pub fn panels(share: Range<u32>, count: u32, unit: u32) -> Vec<Range<u32>> {
    let within = shares(share.len() as u32, count.max(1) as usize, unit);
    within.into_iter().filter(|p| !p.is_empty()).map(|p| share.start + p.start..share.start + p.end).collect()
}

/// Returns the number of panels with the least expected time, up to `most`. `compute_us` returns the time of all multiplications for a given number of panels,
/// and `copy_us` is the time of all communication.
///
/// Panels go through two stages, multiplication and communication. With p panels, the total is the time of the slower stage plus the time of the faster stage
/// for the first or last panel: max(compute + copy / p, copy + compute / p). With more panels, less time is exposed at the ends, but each panel costs some
/// microseconds and may leave part of its last wave of tiles empty. `compute_us` includes that cost.
#[must_use]
pub fn panel_count(most: u32, compute_us: impl Fn(u32) -> f64, copy_us: f64) -> u32 {
    let expected = |count: u32| {
        let (compute, n) = (compute_us(count), f64::from(count));
        (compute + copy_us / n).max(copy_us + compute / n) + n * PANEL_US
    };
    (1..=most.clamp(1, MOST_CHOSEN)).min_by(|a, b| expected(*a).total_cmp(&expected(*b))).unwrap_or(1)
}

/// Divides a share like [`panels`], then halves the last panel while it has at least two units, at most `halvings` times, since no multiplication hides the
/// communication of the last panel.
///
/// # Panics
/// If the unit is 0.
#[must_use]
pub fn tapered(share: Range<u32>, count: u32, halvings: u32, unit: u32) -> Vec<Range<u32>> {
    let mut all = panels(share, count, unit);
    for _ in 0..halvings {
        let Some(last) = all.pop() else { break };
        all.extend(panels(last, 2, unit));
    }
    all
}

/// Returns the panels with the least expected time for a share whose results are copied one after another, each once it is multiplied. `compute_us` returns the
/// time of a panel with a given number of rows, and `copy_us` is the time of copying a row.
///
/// # Panics
/// If the unit is 0.
#[must_use]
pub fn copied_panels(share: &Range<u32>, unit: u32, compute_us: impl Fn(u32) -> f64, copy_us: f64) -> Vec<Range<u32>> {
    let expected = |panels: &[Range<u32>]| {
        let (mut multiplied, mut arrived) = (0.0, 0.0f64);
        for panel in panels {
            let rows = panel.end - panel.start;
            multiplied += compute_us(rows) + PANEL_US;
            arrived = arrived.max(multiplied) + f64::from(rows) * copy_us + PANEL_US;
        }
        arrived
    };
    let counts = (1..=MOST_CHOSEN).flat_map(|count| (0..=MOST_HALVINGS).map(move |halvings| (count, halvings)));
    let all = counts.map(|(count, halvings)| tapered(share.clone(), count, halvings, unit));
    let all = all.map(|panels| (expected(&panels), panels));
    all.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, panels)| panels).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns cases of sizes, devices and units, such as nothing left over, less than a unit, and fewer units than devices.
    fn cases() -> impl Iterator<Item = (u32, usize, u32)> {
        let totals = [1, 2, 63, 64, 65, 127, 128, 129, 1000, 4097, 8192, u32::MAX];
        let devices = [1, 2, 3, 4, 7, 8];
        totals
            .into_iter()
            .flat_map(move |t| devices.into_iter().flat_map(move |d| [1, 64, 128, 256].map(|u| (t, d, u))))
    }

    #[test]
    fn shares_cover_everything_once() {
        for (total, devices, unit) in cases() {
            let shares = shares(total, devices, unit);
            let case = format!("{total} over {devices} in {unit}: {shares:?}");
            assert_eq!(shares.len(), devices, "{case}");
            assert_eq!((shares[0].start, shares[devices - 1].end), (0, total), "{case}");
            assert!(shares.windows(2).all(|w| w[0].end == w[1].start), "{case}");
            assert!(shares.iter().all(|s| s.start.is_multiple_of(unit) || s.is_empty()), "{case}");
            // The shares are as even as units allow, and the first is no smaller than any other.
            let units = |s: &Range<u32>| s.len().div_ceil(unit as usize);
            let most = shares.iter().map(units).max().unwrap();
            assert_eq!(units(&shares[0]), most, "{case}");
            let whole = shares.iter().filter(|s| s.end < total).map(units);
            assert!(whole.into_iter().all(|n| n + 1 >= most), "{case}");
        }
    }

    #[test]
    fn panels_cover_a_share_once() {
        for (total, devices, unit) in cases() {
            for share in shares(total, devices, unit) {
                for count in [0, 1, 3, 16, 100] {
                    let panels = panels(share.clone(), count, unit);
                    let case = format!("{share:?} in {count} of {unit}: {panels:?}");
                    let covered: u64 = panels.iter().map(|p| u64::from(p.end - p.start)).sum();
                    assert_eq!(covered, share.len() as u64, "{case}");
                    assert!(panels.len() as u32 <= count.max(1) && panels.iter().all(|p| !p.is_empty()), "{case}");
                    assert!(
                        panels.windows(2).all(|w| w[0].end == w[1].start && (w[0].len() as u32).is_multiple_of(unit)),
                        "{case}"
                    );
                    let ends = panels.first().zip(panels.last()).map(|(a, b)| a.start..b.end);
                    assert_eq!(ends.unwrap_or(share.clone()), share, "{case}");
                }
            }
        }
    }

    #[test]
    fn what_comes_last_is_small() {
        let heights = |all: &[Range<u32>]| all.iter().map(|p| p.end - p.start).collect::<Vec<_>>();
        assert_eq!(heights(&tapered(4096..8192, 4, 0, 128)), [1024; 4]);
        assert_eq!(heights(&tapered(4096..8192, 4, 2, 128)), [1024, 1024, 1024, 512, 256, 256]);
        assert_eq!(heights(&tapered(0..300, 2, 3, 128)), [256, 44], "no panel is less than a unit, but for a rest");
        assert!(tapered(5..5, 4, 2, 128).is_empty());
        // A wave of tiles is 512 rows, and a smaller panel takes as long. A copy takes a third of its panel's multiplication.
        let waves = |rows: u32| 85.0 * f64::from(rows.div_ceil(512));
        let chosen = heights(&copied_panels(&(4096..8192), 128, waves, 0.05));
        assert_eq!((chosen.iter().sum::<u32>(), chosen.last()), (4096, Some(&512)), "{chosen:?}");
        assert!(chosen.len() < 8 && chosen[0] > 512, "{chosen:?}");
        // Cases: nothing to copy, and nothing to multiply.
        assert_eq!(heights(&copied_panels(&(0..4096), 128, waves, 0.0)), [4096]);
        assert!(copied_panels(&(7..7), 128, waves, 0.05).is_empty());
        // Copies take longer here, but any choice must cover the share.
        let slow = copied_panels(&(0..1000), 128, waves, 5.0);
        assert!(
            slow[0].start == 0 && slow.last().unwrap().end == 1000 && slow.windows(2).all(|w| w[0].end == w[1].start)
        );
    }

    #[test]
    fn panels_weigh_what_stays_uncovered_against_what_each_costs() {
        // A panel's overhead is 5 microseconds, so the result is about the square root of 170 / 5.
        assert_eq!(panel_count(100, |_| 800.0, 170.0), 6);
        // Cases: nothing to communicate, or almost nothing.
        assert_eq!(panel_count(100, |_| 800.0, 0.0), 1);
        assert_eq!(panel_count(100, |_| 800.0, 4.0), 1);
        // Communication takes longer than multiplication, so only the first panel's multiplication stays uncovered.
        assert_eq!(panel_count(100, |_| 80.0, 1000.0), 4);
        assert_eq!(panel_count(2, |_| 800.0, 170.0), 2);
        assert_eq!(panel_count(0, |_| 800.0, 170.0), 1);
        assert_eq!(panel_count(100, |_| 1e6, 1e6), MOST_CHOSEN);
        // Panels that are not whole waves take longer.
        let waves = |n: u32| if n.is_power_of_two() { 800.0 } else { 900.0 };
        assert_eq!(panel_count(100, waves, 170.0), 8);
    }
}
