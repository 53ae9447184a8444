//! The scaling of work over several devices.

use crate::{Measurement, Run};

impl Run {
    /// Returns the measurement of the same rung on one device, which is at size 1 on the same line of a sweep over
    /// numbers of devices.
    #[must_use]
    pub fn on_one(&self, m: &Measurement) -> Option<&Measurement> {
        let is_one = |other: &&Measurement| {
            other.rung == m.rung && other.problem.size() == 1 && other.problem.same_line(&m.problem)
        };
        self.measurements.iter().find(|other| is_one(other) && self.is_sound(other))
    }

    /// Returns the scaling efficiency: the item rate divided by the item rate of the same number of single devices.
    /// With the same work for each device (weak scaling) it is t(1) / t(N); with a fixed total (strong scaling) it is
    /// t(1) / (N t(N)). Returns `None` if either rate was not measured.
    #[must_use]
    pub fn scaling_efficiency(&self, m: &Measurement) -> Option<f64> {
        let (one, devices) = (self.on_one(m)?.items_per_s()?, m.problem.size());
        (self.is_sound(m) && devices > 0).then_some(m.items_per_s()? / (one * devices as f64))
    }
}
