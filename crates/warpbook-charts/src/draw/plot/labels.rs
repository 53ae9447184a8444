//! Placement of labels in a plot: beside points and along lines, without overlaps.

pub(crate) type Xy = (f64, f64);

/// A rectangle of the canvas.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Area {
    pub(crate) left: f64,
    pub(crate) top: f64,
    pub(crate) right: f64,
    pub(crate) bottom: f64,
}

impl Area {
    pub(crate) fn around((x, y): Xy, half: f64) -> Self {
        Self { left: x - half, top: y - half, right: x + half, bottom: y + half }
    }

    /// Returns true if a position lies inside the area or on its border.
    pub(crate) fn has(&self, (x, y): Xy) -> bool {
        (self.left - 0.5..=self.right + 0.5).contains(&x) && (self.top - 0.5..=self.bottom + 0.5).contains(&y)
    }

    fn meets(&self, other: &Self) -> bool {
        self.left < other.right && other.left < self.right && self.top < other.bottom && other.top < self.bottom
    }

    fn holds(&self, other: &Self) -> bool {
        self.left <= other.left && other.right <= self.right && self.top <= other.top && other.bottom <= self.bottom
    }

    /// Returns the part of a line inside the area, by the algorithm of Liang and Barsky.
    pub(crate) fn clip(&self, (a, b): (Xy, Xy)) -> Option<(Xy, Xy)> {
        let (dx, dy) = (b.0 - a.0, b.1 - a.1);
        let mut range = (0.0, 1.0);
        let sides = [(-dx, a.0 - self.left), (dx, self.right - a.0), (-dy, a.1 - self.top), (dy, self.bottom - a.1)];
        for (p, q) in sides {
            if p == 0.0 {
                if q < 0.0 {
                    return None;
                }
            } else if p < 0.0 {
                range.0 = f64::max(range.0, q / p);
            } else {
                range.1 = f64::min(range.1, q / p);
            }
        }
        let at = |t: f64| (a.0 + t * dx, a.1 + t * dy);
        (range.0 <= range.1).then(|| (at(range.0), at(range.1)))
    }
}

/// A label along a line: its middle, and the line's slope in degrees.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Along {
    pub(crate) middle: Xy,
    pub(crate) degrees: f64,
}

/// A label beside a point: the left end of its text, and the end of a leader line to it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct PointLabel {
    pub(crate) left: Xy,
    pub(crate) leader: Option<Xy>,
}

/// Half the height of a line of small text.
const HALF: f64 = 7.5;
/// Distance between a line and the middle of the text along it.
const OFF: f64 = 9.5;

/// A candidate position for a label: its cost, its box, and its leader.
type Choice = (f64, Area, Option<(Xy, Xy)>);

/// A plot with its occupied areas.
pub(crate) struct Room {
    area: Area,
    lines: Vec<(Xy, Xy)>,
    markers: Vec<Area>,
    labels: Vec<Area>,
    leaders: Vec<(Xy, Xy)>,
}

impl Room {
    pub(crate) fn new(area: Area) -> Self {
        Self { area, lines: Vec::new(), markers: Vec::new(), labels: Vec::new(), leaders: Vec::new() }
    }

    pub(crate) fn line(&mut self, points: &[Xy]) {
        self.lines.extend(points.windows(2).map(|w| (w[0], w[1])));
    }

    pub(crate) fn marker(&mut self, at: Xy) {
        self.markers.push(Area::around(at, 6.0));
    }

    fn is_free(&self, area: &Area) -> bool {
        self.area.holds(area)
            && !self.labels.iter().chain(&self.markers).any(|l| l.meets(area))
            && !self.lines.iter().any(|l| area.clip(*l).is_some())
    }

    /// Finds a position along a line for a text of the given width, as near as possible to the end that `from` selects:
    /// 0 is the first end, 1 the last. Returns `None` if there is no room.
    pub(crate) fn along(&mut self, (a, b): (Xy, Xy), width: f64, from: f64) -> Option<Along> {
        // Lines run from left to right, so that no text is upside down.
        let (a, b, from) = if b.0 < a.0 { (b, a, 1.0 - from) } else { (a, b, from) };
        let (dx, dy) = (b.0 - a.0, b.1 - a.1);
        let length = dx.hypot(dy);
        if !(length.is_finite() && length >= width) {
            return None;
        }
        let (ux, uy) = (dx / length, dy / length);
        let free = length - width;
        let steps = (free / 6.0).floor() as usize;
        // Positions above the line win, unless they are much further away.
        let mut places: Vec<(f64, f64, f64)> = (0..=steps)
            .map(|step| step as f64 * 6.0)
            .flat_map(|away| [(away, away, -OFF), (away + 60.0, away, OFF)])
            .collect();
        places.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (_, away, side) in places {
            let begin = if from < 0.5 { away } else { free - away };
            let at = |along: f64| (a.0 + ux * along - uy * side, a.1 + uy * along + ux * side);
            let count = (width / 7.0).ceil().max(1.0) as usize;
            let boxes: Vec<Area> =
                (0..=count).map(|i| Area::around(at(begin + width * i as f64 / count as f64), 5.5)).collect();
            if boxes.iter().all(|b| self.is_free(b)) {
                self.labels.extend(boxes);
                return Some(Along { middle: at(begin + width / 2.0), degrees: uy.atan2(ux).to_degrees() });
            }
        }
        None
    }

    /// Finds the nearest free position beside a marker for a text of the given width. Returns `None` if there is none.
    pub(crate) fn point_label(&mut self, (x, y): Xy, width: f64) -> Option<PointLabel> {
        let mut best: Option<Choice> = None;
        for gap in [10.0, 22.0, 36.0, 56.0, 84.0, 120.0] {
            for right in [true, false] {
                for step in 0..=80i32 {
                    let down = f64::from(if step % 2 == 0 { step / 2 } else { -(step + 1) / 2 }) * 4.0;
                    let left = if right { x + gap } else { x - gap - width };
                    let area = Area { left, right: left + width, top: y + down - HALF, bottom: y + down + HALF };
                    let near = if right { left } else { left + width };
                    let leader = (gap > 10.0 || down.abs() > 5.0).then(|| {
                        let inwards = if right { 2.0 } else { -2.0 };
                        ((x, y), (near - inwards, y + down))
                    });
                    // Steep leaders would run along other points.
                    let steep = (down.abs() - gap).max(0.0) * 0.7;
                    // Positions to the lower right win, so that names keep the order of their points.
                    let side = if right { 0.0 } else { 40.0 } + if down < 0.0 { 15.0 } else { 0.0 };
                    let price = down.abs() + gap * 0.6 + steep + side + self.crossed(leader);
                    if best.as_ref().is_none_or(|b| price < b.0) && price < 1e6 && self.is_free(&area) {
                        best = Some((price, area, leader));
                    }
                }
            }
        }
        let (_, area, leader) = best?;
        self.labels.push(area);
        self.leaders.extend(leader);
        Some(PointLabel { left: (area.left, area.top + HALF), leader: leader.map(|l| l.1) })
    }

    /// Returns the penalty of a leader for crossings: infinite for other labels, finite for markers and other leaders.
    fn crossed(&self, leader: Option<(Xy, Xy)>) -> f64 {
        let Some((from, to)) = leader else { return 0.0 };
        if self.labels.iter().any(|l| l.clip((from, to)).is_some()) {
            return f64::INFINITY;
        }
        let others = self.markers.iter().filter(|m| !m.holds(&Area::around(from, 0.5)));
        let markers = others.filter(|m| m.clip((from, to)).is_some()).count();
        let leaders = self.leaders.iter().filter(|l| cross(**l, (from, to))).count();
        (markers * 30 + leaders * 60) as f64
    }
}

fn cross((a, b): (Xy, Xy), (c, d): (Xy, Xy)) -> bool {
    let side = |p: Xy, q: Xy, r: Xy| (q.0 - p.0) * (r.1 - p.1) - (q.1 - p.1) * (r.0 - p.0);
    side(a, b, c) * side(a, b, d) < 0.0 && side(c, d, a) * side(c, d, b) < 0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLOT: Area = Area { left: 0.0, top: 0.0, right: 400.0, bottom: 300.0 };

    #[test]
    fn points_at_one_place_have_labels_apart() {
        let mut room = Room::new(PLOT);
        let points: Vec<Xy> = (0..8).map(|i| (150.0, 150.0 + f64::from(i))).collect();
        points.iter().for_each(|p| room.marker(*p));
        room.line(&[(0.0, 300.0), (400.0, 0.0)]);
        let places: Vec<PointLabel> = points.iter().map(|p| room.point_label(*p, 90.0).unwrap()).collect();
        for (i, a) in places.iter().enumerate() {
            for b in &places[..i] {
                let apart = (a.left.0 - b.left.0).abs() >= 90.0 || (a.left.1 - b.left.1).abs() >= 2.0 * HALF;
                assert!(apart, "{a:?} and {b:?}");
            }
            let text = Area { left: a.left.0, right: a.left.0 + 90.0, top: a.left.1 - HALF, bottom: a.left.1 + HALF };
            assert_eq!(text.clip(((0.0, 300.0), (400.0, 0.0))), None, "{a:?}");
        }
        assert_eq!(room.point_label((150.0, 150.0), 500.0), None);
    }

    #[test]
    fn a_label_along_a_line_is_above_it_or_nowhere() {
        let mut room = Room::new(PLOT);
        let line = ((0.0, 300.0), (400.0, 0.0));
        room.line(&[line.0, line.1]);
        let first = room.along(line, 100.0, 1.0).unwrap();
        assert!((first.degrees + 36.87).abs() < 0.01, "{first:?}");
        // Above the line means a smaller y at the same x.
        assert!(first.middle.1 < 300.0 - first.middle.0 * 0.75, "{first:?}");
        let second = room.along((line.1, line.0), 100.0, 0.0).unwrap();
        assert_ne!(first, second);
        assert_eq!(room.along(line, 501.0, 0.0), None);
        assert_eq!(room.along(((0.0, 0.0), (f64::NAN, 0.0)), 10.0, 0.0), None);
    }

    #[test]
    fn lines_are_clipped() {
        assert_eq!(PLOT.clip(((-10.0, 10.0), (500.0, 10.0))), Some(((0.0, 10.0), (400.0, 10.0))));
        assert_eq!(PLOT.clip(((-10.0, 10.0), (-1.0, 10.0))), None);
        assert_eq!(PLOT.clip(((10.0, 10.0), (20.0, 20.0))), Some(((10.0, 10.0), (20.0, 20.0))));
    }
}
