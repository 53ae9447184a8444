//! Aligns the clocks of all SMs to a common time scale.

use std::collections::BTreeMap;

/// A probe of another SM's clock: the reference SM's clock when it asked and when it received the answer, and the other SM's clock when it
/// answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Probe {
    pub(super) asked: i64,
    pub(super) answered: i64,
    pub(super) received: i64,
}

/// The probes of one launch of the kernel that compares clocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Probes {
    /// Id of the reference SM, which asks the others.
    pub(super) reference: u32,
    /// The probes of each other SM, by its id.
    pub(super) probes: BTreeMap<u32, Vec<Probe>>,
    /// The reference SM's clock, and the global time in nanoseconds, at the beginning and at the end.
    pub(super) stamps: [(i64, u64); 2],
}

/// The lead of an SM's clock over the reference SM's clock.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Offset {
    clocks: f64,
    /// Largest possible error of the offset, in either direction.
    error: f64,
}

impl Offset {
    /// Computes the offset from the probes. Each answer was given after the question was asked and before the answer was received, so each
    /// probe bounds the offset on both sides. All bounds are consistent as long as the clocks run at the same rate; if they are not, the error
    /// is large enough to cover every bound.
    fn fit(probes: &[Probe]) -> Option<Self> {
        let bounds = probes.iter().map(|p| (p.answered - p.received, p.answered - p.asked));
        let least = bounds.clone().map(|(low, _)| low).max()?;
        let most = bounds.clone().map(|(_, high)| high).min()?;
        let clocks = (least + most) as f64 / 2.0;
        // A clock is read in whole ticks, which adds an error of one tick.
        let error = if least <= most {
            (most - least) as f64 / 2.0 + 1.0
        } else {
            let far = bounds.map(|(low, high)| (low as f64 - clocks).abs().max((high as f64 - clocks).abs()));
            far.fold(0.0, f64::max)
        };
        Some(Self { clocks, error })
    }
}

/// The clocks of a device's SMs, aligned with each other.
#[derive(Debug, Clone, PartialEq)]
pub struct Clocks {
    offsets: BTreeMap<u32, Offset>,
    clocks_per_ns: f64,
}

impl Clocks {
    /// Fits the clocks to the probes before and after a run. `None` if no time has passed between the two.
    pub(super) fn fit(before: &Probes, after: &Probes) -> Option<Self> {
        let zero = Offset { clocks: 0.0, error: 0.0 };
        let mut offsets = BTreeMap::from([(before.reference, zero)]);
        for (sm, probes) in &before.probes {
            // Offsets relative to a different reference SM cannot be combined with the others.
            let same = before.reference == after.reference;
            let later = after.probes.get(sm).filter(|_| same).map_or(&[][..], Vec::as_slice);
            if let Some(offset) = Offset::fit(&[probes, later].concat()) {
                offsets.insert(*sm, offset);
            }
        }
        let ([(begin, from_ns), _], [_, (end, to_ns)]) = (before.stamps, after.stamps);
        let ahead = offsets.get(&after.reference).map_or(0.0, |o| o.clocks);
        let clocks_per_ns = ((end - begin) as f64 - ahead) / to_ns.checked_sub(from_ns)? as f64;
        (clocks_per_ns.is_finite() && clocks_per_ns > 0.0).then_some(Self { offsets, clocks_per_ns })
    }

    /// Returns clocks with known offsets. Each SM is given as (id, offset, error), in ticks.
    pub(crate) fn known(sms: &[(u32, f64, f64)], clocks_per_ns: f64) -> Self {
        let offsets = sms.iter().map(|(sm, clocks, error)| (*sm, Offset { clocks: *clocks, error: *error })).collect();
        Self { offsets, clocks_per_ns }
    }

    /// Converts a value of an SM's clock to nanoseconds on a scale shared by all SMs; `None` if the SM was not probed.
    #[must_use]
    pub fn ns(&self, sm: u32, clock: u64) -> Option<f64> {
        Some((clock as f64 - self.offsets.get(&sm)?.clocks) / self.clocks_per_ns)
    }

    /// Returns the error of an SM's times relative to the reference SM, in nanoseconds in either direction.
    #[must_use]
    pub fn error_ns(&self, sm: u32) -> Option<f64> {
        Some(self.offsets.get(&sm)?.error / self.clocks_per_ns)
    }

    /// Returns the largest error of any SM in nanoseconds.
    #[must_use]
    pub fn largest_error_ns(&self) -> f64 {
        self.offsets.values().map(|o| o.error / self.clocks_per_ns).fold(0.0, f64::max)
    }

    /// Returns the ids of the reference SM and of all SMs that were probed, in ascending order.
    pub fn sms(&self) -> impl Iterator<Item = u32> {
        self.offsets.keys().copied()
    }

    /// Returns the rate of the clocks in MHz.
    #[must_use]
    pub fn mhz(&self) -> f64 {
        self.clocks_per_ns * 1e3
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Simulates clocks that run at the same rate but start at different values, and messages that take from 200 to 2000 ticks.
    fn asked(offsets: &[i64], delays: &[(i64, i64)], begin: i64, rate: f64) -> Probes {
        let mut now = begin;
        let start = (begin, (begin as f64 / rate) as u64);
        let mut all = BTreeMap::new();
        for (sm, offset) in (1u32..).zip(offsets) {
            let probes = delays.iter().map(|(there, back)| {
                let asked = now;
                now += there + back + 50;
                Probe { asked, answered: asked + there + offset, received: asked + there + back }
            });
            all.insert(sm, probes.collect());
        }
        Probes { reference: 0, probes: all, stamps: [start, (now, (now as f64 / rate) as u64)] }
    }

    proptest! {
        #[test]
        fn known_offsets_are_recovered_within_the_stated_error(
            offsets in proptest::collection::vec(-1_000_000_000_000i64..1_000_000_000_000, 1..20),
            delays in proptest::collection::vec((200..2000i64, 200..2000i64), 1..16),
            later in proptest::collection::vec((200..2000i64, 200..2000i64), 1..16),
            begin in 2_000_000_000_000i64..1 << 50,
            pause in 1_000_000..1_000_000_000i64,
            rate in 0.5..2.5f64,
        ) {
            let before = asked(&offsets, &delays, begin, rate);
            let after = asked(&offsets, &later, before.stamps[1].0 + pause, rate);
            let clocks = Clocks::fit(&before, &after).unwrap();
            let fastest = delays.iter().chain(&later).map(|(there, back)| there + back).min().unwrap();
            for (sm, offset) in (1u32..).zip(&offsets) {
                let found = clocks.offsets[&sm];
                prop_assert!((found.clocks - *offset as f64).abs() <= found.error, "{found:?} of {offset}");
                // The error is at most half of the fastest probe's round trip.
                prop_assert!(found.error <= fastest as f64 / 2.0 + 1.0, "{found:?}, {fastest}");
                // The two clock values denote the same moment on two SMs.
                let at = begin + 12_345;
                let (here, there) = (clocks.ns(0, at as u64).unwrap(), clocks.ns(sm, (at + offset) as u64).unwrap());
                prop_assert!((here - there).abs() <= clocks.error_ns(sm).unwrap() + 1.0, "{here} {there}");
            }
            prop_assert!((clocks.mhz() / (rate * 1e3) - 1.0).abs() < 1e-2, "{} {rate}", clocks.mhz());
            prop_assert_eq!((clocks.error_ns(0), clocks.ns(99, 0)), (Some(0.0), None));
            let largest = clocks.sms().filter_map(|sm| clocks.error_ns(sm)).fold(0.0, f64::max);
            prop_assert_eq!(clocks.largest_error_ns(), largest);
        }

        #[test]
        fn clocks_that_drift_have_the_error_of_their_drift(drift in 10_000i64..1_000_000) {
            let delays = [(500, 500); 4];
            let before = asked(&[700], &delays, 1_000_000, 2.0);
            let after = asked(&[700 + drift], &delays, 5_000_000, 2.0);
            let found = Clocks::fit(&before, &after).unwrap().offsets[&1];
            for truth in [700, 700 + drift] {
                prop_assert!((found.clocks - truth as f64).abs() <= found.error, "{found:?} {truth}");
            }
        }
    }

    #[test]
    fn another_reference_is_set_against_the_first() {
        let before = asked(&[40_000, -70_000], &[(500, 500); 4], 1_000_000, 2.0);
        let mut after = asked(&[40_000, -70_000], &[(500, 500); 4], 9_000_000, 2.0);
        // SM 1 is the reference in these probes; its clock is 40 000 ticks ahead.
        after.reference = 1;
        after.probes = BTreeMap::from([(0, Vec::new()), (2, Vec::new())]);
        after.stamps.iter_mut().for_each(|s| s.0 += 40_000);
        let clocks = Clocks::fit(&before, &after).unwrap();
        assert!((clocks.mhz() - 2000.0).abs() < 1.0, "{}", clocks.mhz());
        assert_eq!(clocks.sms().collect::<Vec<_>>(), [0, 1, 2]);
    }

    #[test]
    fn no_time_is_no_rate() {
        let probes = Probes { reference: 0, probes: BTreeMap::new(), stamps: [(5, 5); 2] };
        assert_eq!(Clocks::fit(&probes, &probes), None);
    }
}
