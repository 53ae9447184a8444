//! The number of steps that a training makes before it checks its time budget.

use std::time::{Duration, Instant};

/// A time budget, and how much of it is used.
#[derive(Debug)]
pub(super) struct Pace {
    started: Instant,
    budget: Option<Duration>,
    /// Seconds per step, measured over the last steps.
    step_s: Option<f64>,
}

impl Pace {
    pub fn new(budget: Option<Duration>) -> Self {
        Self { started: Instant::now(), budget, step_s: None }
    }

    /// Returns the number of steps to make next, at most `most`: as many as are expected to use up the rest of the budget, or one if no step has been
    /// timed yet.
    pub fn steps(&self, most: u64) -> u64 {
        let Some(budget) = self.budget else { return most };
        let left = budget.saturating_sub(self.started.elapsed()).as_secs_f64();
        let fit = self.step_s.map_or(1.0, |step_s| (left / step_s.max(1e-9)).ceil());
        (fit as u64).clamp(1, most.max(1))
    }

    /// Records the time that some steps took.
    pub fn record(&mut self, steps: u64, time: Duration) {
        self.step_s = Some(time.as_secs_f64() / steps.max(1) as f64);
    }

    /// Returns true if the budget is used up.
    pub fn is_over(&self) -> bool {
        self.budget.is_some_and(|budget| self.started.elapsed() >= budget)
    }
}

/// Mean loss since the last progress event.
#[derive(Debug, Default)]
pub(super) struct RunningLoss {
    sum: f64,
    count: u64,
}

impl RunningLoss {
    pub fn add(&mut self, loss: f64) {
        (self.sum, self.count) = (self.sum + loss, self.count + 1);
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub fn take(&mut self) -> f64 {
        let Self { sum, count } = std::mem::take(self);
        sum / count as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_as_many_as_the_time_left_allows() {
        let mut pace = Pace::new(Some(Duration::from_secs(1000)));
        assert_eq!(pace.steps(128), 1, "nothing is known yet");
        pace.record(4, Duration::from_secs(40));
        assert_eq!(pace.steps(128), 100);
        assert_eq!(pace.steps(64), 64);
        pace.record(1, Duration::from_secs(5000));
        assert_eq!(pace.steps(128), 1);
        assert!(!pace.is_over());
        let mut used_up = Pace::new(Some(Duration::ZERO));
        used_up.record(1, Duration::ZERO);
        assert!(used_up.is_over() && used_up.steps(128) == 1);
        let endless = Pace::new(None);
        assert!(!endless.is_over() && endless.steps(128) == 128);
    }
}
