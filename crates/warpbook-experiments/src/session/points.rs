//! Lists of logged values that stay within the size limit of a record.

use warpbook_record::StepValue;

/// A logged loss, stored as sums over its steps.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Point {
    pub epoch: u64,
    pub step: u64,
    pub loss: f64,
    pub steps: u64,
    pub norm: f64,
    pub norms: u64,
}

impl Point {
    /// Merges two points; the result has the position of the later one.
    fn and(self, later: Self) -> Self {
        Self {
            epoch: later.epoch,
            step: later.step,
            loss: self.loss + later.loss,
            steps: self.steps + later.steps,
            norm: self.norm + later.norm,
            norms: self.norms + later.norms,
        }
    }
}

/// A list of points within the size limit of a record. When the list is full, neighbouring points are merged in pairs.
#[derive(Debug)]
pub(super) struct PointList {
    most: usize,
    pub all: Vec<Point>,
    /// The number of log entries merged into each point, and into the last point so far.
    pub lines: [u64; 2],
}

impl PointList {
    pub fn new(most: usize) -> Self {
        Self { most, all: Vec::new(), lines: [1, 1] }
    }

    pub fn push(&mut self, point: Point) {
        match self.all.last_mut().filter(|_| self.lines[1] < self.lines[0]) {
            Some(last) => {
                *last = last.and(point);
                self.lines[1] += 1;
            }
            None => {
                if self.all.len() >= self.most {
                    self.all =
                        self.all.chunks(2).map(|pair| pair[1..].iter().fold(pair[0], |a, b| a.and(*b))).collect();
                    self.lines[0] *= 2;
                }
                self.all.push(point);
                self.lines[1] = 1;
            }
        }
    }
}

/// A list of changes within the size limit of a record. When the list is full, it keeps only every second change, then
/// every fourth, and so on.
#[derive(Debug)]
pub(super) struct Changes {
    most: usize,
    pub all: Vec<StepValue>,
    last: Option<f64>,
    /// One of every `every[0]` changes is kept; `every[1]` counts the changes since the last kept one.
    pub every: [u64; 2],
}

impl Changes {
    pub fn new(most: usize) -> Self {
        Self { most, all: Vec::new(), last: None, every: [1, 0] }
    }

    pub fn push(&mut self, step: u64, value: f64) {
        if self.last == Some(value) {
            return;
        }
        self.last = Some(value);
        self.every[1] += 1;
        if self.every[1] < self.every[0] && !self.all.is_empty() {
            return;
        }
        self.every[1] = 0;
        self.all.push(StepValue { step, value });
        if self.all.len() > self.most {
            let mut i = 0;
            self.all.retain(|_| {
                i += 1;
                i % 2 == 1
            });
            self.every[0] *= 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_points_than_a_record_keeps_become_means_of_several() {
        let mut points = PointList::new(8);
        for step in 1..=37 {
            points.push(Point { step, loss: step as f64, steps: 1, norm: 1.0, norms: 1, ..Point::default() });
        }
        assert!(points.all.len() <= 8 && points.lines[0] == 8, "{points:?}");
        let (steps, loss) = points.all.iter().fold((0, 0.0), |(n, sum), p| (n + p.steps, sum + p.loss));
        assert_eq!((steps, loss), (37, (1..=37).sum::<u64>() as f64), "none is lost");
        assert_eq!(points.all.iter().map(|p| p.step).collect::<Vec<_>>(), [8, 16, 24, 32, 37]);
    }

    #[test]
    fn only_changes_are_kept_and_of_many_every_second() {
        let mut changes = Changes::new(100);
        [(1, 2.0), (2, 2.0), (3, 1.0), (4, 1.0)].iter().for_each(|(s, v)| changes.push(*s, *v));
        assert_eq!(changes.all.iter().map(|p| (p.step, p.value)).collect::<Vec<_>>(), [(1, 2.0), (3, 1.0)]);
        let mut many = Changes::new(10);
        (1..=100).for_each(|step| many.push(step, step as f64));
        assert!(many.all.len() <= 10 && many.all[0].step == 1 && many.all.is_sorted_by(|a, b| a.step < b.step));
        assert!(many.all.last().unwrap().step > 80 && many.every[0] == 16, "{many:?}");
    }
}
