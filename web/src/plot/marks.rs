//! The texts of a chart's marks, and how the arrow keys move between marks.

/// The texts of a mark, including the texts that its groups provide for all of their marks. Absent texts are empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reading {
    /// The mark's name.
    pub name: String,
    /// The rung's id.
    pub rung: String,
    /// The problem's label.
    pub problem: String,
    /// The value as shown.
    pub value: String,
    /// The value's spread, such as "± 1.2 µs".
    pub spread: String,
    /// The number of samples behind the value, which is their median.
    pub samples: String,
    /// The name of the mark's series in the legend.
    pub series: String,
}

impl Reading {
    /// Returns the tooltip's lines below the name.
    pub fn lines(&self) -> Vec<String> {
        let value = [self.value.as_str(), &self.spread].into_iter().filter(|t| !t.is_empty()).collect::<Vec<_>>();
        let samples = if self.samples.is_empty() { String::new() } else { format!("median of {}", self.samples) };
        let id = if self.rung == self.name { "" } else { &self.rung };
        let series = if self.series == self.name { "" } else { &self.series };
        // The mark of a reference line has its value as its name.
        let value = if self.value == self.name { String::new() } else { value.join(" ") };
        let lines = [value, self.problem.clone(), samples, series.to_owned(), id.to_owned()];
        lines.into_iter().filter(|t| !t.is_empty()).collect()
    }

    /// Returns all texts as one sentence for screen readers.
    pub fn sentence(&self) -> String {
        let mut all = vec![self.name.clone()];
        all.extend(self.lines());
        all.join(", ")
    }
}

/// The rung and problem of a mark, for [`step`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MarkPosition {
    /// The rung's id; empty for an entry of the legend.
    pub rung: String,
    /// The problem's label.
    pub problem: String,
}

/// Returns the number of the mark that a key moves to; `None` if the key does nothing.
///
/// Left and right follow the order of drawing. Up and down go to the same rung in the next row if rows are problems, to
/// the same problem on the next line if lines are rungs, and otherwise act like left and right.
pub fn step(places: &[MarkPosition], from: usize, key: &str) -> Option<usize> {
    let last = places.len().checked_sub(1)?;
    let across = |forward: bool| {
        let here = places.get(from)?;
        let neighbour = if forward { places.get(from + 1) } else { from.checked_sub(1).and_then(|i| places.get(i)) };
        let other = |i: &usize| {
            let there = &places[*i];
            (there.rung == here.rung) != (there.problem == here.problem)
        };
        let row = row_of(places);
        let mut ahead: Box<dyn Iterator<Item = usize>> =
            if forward { Box::new(from + 1..places.len()) } else { Box::new((0..from).rev()) };
        let found = if here.rung.is_empty() { None } else { ahead.find(|i| other(i) && row(here) != row(&places[*i])) };
        found.or_else(|| neighbour.map(|_| if forward { from + 1 } else { from - 1 }))
    };
    match key {
        "ArrowRight" => Some((from + 1).min(last)),
        "ArrowLeft" => Some(from.saturating_sub(1)),
        "ArrowDown" => across(true),
        "ArrowUp" => across(false),
        "Home" => Some(0),
        "End" => Some(last),
        _ => None,
    }
}

/// Returns the key that the marks of one row share: the problem if rows are problems, else the rung.
fn row_of(places: &[MarkPosition]) -> fn(&MarkPosition) -> &str {
    let rows_are_problems =
        places.windows(2).filter(|w| w[0].problem == w[1].problem && w[0].rung != w[1].rung).count();
    let rows_are_rungs = places.windows(2).filter(|w| w[0].rung == w[1].rung && w[0].problem != w[1].problem).count();
    if rows_are_problems >= rows_are_rungs { |p| &p.problem } else { |p| &p.rung }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(all: &[(&str, &str)]) -> Vec<MarkPosition> {
        all.iter().map(|(rung, problem)| MarkPosition { rung: (*rung).into(), problem: (*problem).into() }).collect()
    }

    #[test]
    fn arrows_go_along_rows_and_across_them() {
        // The tests use two rows of a heat map, two lines of a sweep, and a ladder.
        let cells = places(&[("a", "1"), ("b", "1"), ("c", "1"), ("a", "2"), ("b", "2")]);
        let lines = places(&[("a", "1"), ("a", "2"), ("a", "3"), ("b", "2"), ("b", "3")]);
        let ladder = places(&[("a", "1"), ("b", "1"), ("c", "1")]);
        let check =
            |all: &[MarkPosition], from, key, to| assert_eq!(step(all, from, key), to, "{key} from {from} of {all:?}");
        check(&cells, 1, "ArrowDown", Some(4));
        check(&cells, 4, "ArrowUp", Some(1));
        check(&cells, 2, "ArrowRight", Some(3));
        check(&lines, 1, "ArrowDown", Some(3));
        check(&lines, 4, "ArrowUp", Some(2));
        check(&ladder, 0, "ArrowDown", Some(1));
        check(&ladder, 2, "ArrowUp", Some(1));
        check(&ladder, 2, "ArrowDown", None);
        check(&ladder, 0, "ArrowLeft", Some(0));
        check(&ladder, 0, "End", Some(2));
        check(&ladder, 0, "a", None);
        check(&[], 0, "Home", None);
    }

    #[test]
    fn a_mark_is_read_out_once() {
        let mark = Reading {
            name: "On-chip".into(),
            rung: "06_on_chip".into(),
            problem: "5 M points".into(),
            value: "432 µs".into(),
            spread: "± 1 µs".into(),
            samples: "30".into(),
            series: "GPU kernels".into(),
        };
        let expect = "On-chip, 432 µs ± 1 µs, 5 M points, median of 30, GPU kernels, 06_on_chip";
        assert_eq!(mark.sentence(), expect);
        let line = Reading { name: "DRAM: 4 TB/s".into(), value: "DRAM: 4 TB/s".into(), ..Reading::default() };
        assert_eq!(line.sentence(), "DRAM: 4 TB/s");
    }
}
