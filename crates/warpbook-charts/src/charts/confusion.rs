//! Confusion matrices: true classes against predicted classes.

use crate::draw::text::words::{listed, percent, plain};
use crate::draw::{
    At, BLUE, Canvas, Chart, ChartError, Drawn, Font, Frame, MARGIN, MarkData, Options, Paint, Stroke, Table,
    VERMILLION, WIDTH, clean,
};

/// The counts of a classifier's answers for each class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Confusion<'a> {
    /// Title, such as "MNIST: test images".
    pub title: &'a str,
    /// Subtitle: the origin of the images, and the classifier.
    pub subtitle: &'a str,
    /// Names of the classes, in the order of the rows and columns.
    pub classes: &'a [String],
    /// Numbers of samples `[class][predicted class]`: a square matrix, row by row.
    pub counts: &'a [u64],
}

/// Maximum number of classes drawn; a larger matrix is shown only as a table.
const MOST: usize = 32;
const CELL: f64 = 26.0;
const LEGEND: f64 = 50.0;
const BAND: f64 = 76.0;
/// Height of the line that names the columns.
const AXIS: f64 = 18.0;
/// Width reserved for the share of a class that is classified correctly.
const RECALL: f64 = 58.0;
const FIGURE: Font = Font { size: 12.0, bold: false, paint: Paint::INK };
/// Shading of a cell by its share of its class: the smallest share, the opacity, and the label of the range.
const BANDS: [(f64, f64, &str); 5] = [
    (0.0, 0.10, "up to 1 %"),
    (0.01, 0.20, "1 to 5 %"),
    (0.05, 0.32, "5 to 20 %"),
    (0.2, 0.44, "20 to 50 %"),
    (0.5, 0.56, "over 50 %"),
];

impl Options {
    /// Draws a confusion matrix: a row for each class, a column for each predicted class, and each cell shaded by its share of the row. Correct cells, on the
    /// diagonal, have a frame, and each row shows its share of correct samples.
    ///
    /// # Errors
    /// Returns [`ChartError::NothingToDraw`] if there are no samples, or not as many counts as pairs of classes.
    pub fn confusion(&self, of: &Confusion<'_>) -> Result<Chart, ChartError> {
        let n = of.classes.len();
        if n.checked_mul(n) != Some(of.counts.len()) {
            let why = format!("{n} classes have {n} x {n} counts, and there are {}.", of.counts.len());
            return Err(ChartError::NothingToDraw(why));
        }
        let total: u128 = of.counts.iter().map(|c| u128::from(*c)).sum();
        if total == 0 {
            return Err(ChartError::NothingToDraw("Nothing was classified.".into()));
        }
        let matrix = ConfusionMatrix { of, n, total: total as f64 };
        matrix.draw()
    }
}

struct ConfusionMatrix<'a> {
    of: &'a Confusion<'a>,
    n: usize,
    total: f64,
}

struct ConfusionLayout {
    left: f64,
    cell: f64,
    header: f64,
    /// True if the column names fit above their columns and need no rotation.
    upright: bool,
}

impl ConfusionMatrix<'_> {
    fn count(&self, class: usize, taken_for: usize) -> u64 {
        self.of.counts[class * self.n + taken_for]
    }

    fn row_sum(&self, class: usize) -> f64 {
        (0..self.n).map(|j| self.count(class, j) as f64).sum()
    }

    /// Returns the share of a class that is classified correctly, if it has samples.
    fn recall(&self, class: usize) -> Option<f64> {
        let sum = self.row_sum(class);
        (sum > 0.0).then(|| self.count(class, class) as f64 / sum)
    }

    fn right(&self) -> f64 {
        (0..self.n).map(|i| self.count(i, i) as f64).sum()
    }

    fn layout(&self, shown: usize) -> ConfusionLayout {
        let names = || self.of.classes[..shown].iter().map(|c| Font::NOTE.width(&clean(c)));
        let widest = names().fold(0.0, f64::max);
        let left = MARGIN + widest.clamp(Font::SMALL.width("true class"), 150.0) + 10.0;
        let cell = ((WIDTH - MARGIN - RECALL - left) / shown as f64).min(44.0);
        let upright = widest <= cell - 4.0;
        ConfusionLayout { left, cell, header: if upright { 18.0 } else { widest.min(120.0) + 10.0 }, upright }
    }

    fn draw(&self) -> Result<Chart, ChartError> {
        let shown = self.n.min(MOST);
        let layout = self.layout(shown);
        let height = LEGEND + AXIS + layout.header + shown as f64 * CELL + 4.0;
        self.frame(shown).draw(height, |canvas, top| {
            draw_legend(canvas, top)?;
            let first = top + LEGEND + AXIS + layout.header;
            self.draw_headers(canvas, shown, &layout, first)?;
            for class in 0..shown {
                self.draw_row(canvas, class, shown, &layout, first + class as f64 * CELL)?;
            }
            Ok(())
        })
    }

    fn draw_headers(&self, canvas: &Canvas<'_>, shown: usize, layout: &ConfusionLayout, bottom: f64) -> Drawn {
        let middle = layout.left + shown as f64 * layout.cell / 2.0;
        canvas.text("predicted class", (middle, bottom - layout.header - AXIS / 2.0), At::Middle, Font::SMALL)?;
        canvas.text("true class", (MARGIN, bottom - 9.0), At::Left, Font::SMALL)?;
        let recall = layout.left + shown as f64 * layout.cell + RECALL - 6.0;
        canvas.text("right", (recall, bottom - 9.0), At::Right, Font::SMALL)?;
        let ink = Font { paint: Paint::INK, ..Font::NOTE };
        for (j, name) in self.of.classes[..shown].iter().enumerate() {
            let x = layout.left + (j as f64 + 0.5) * layout.cell;
            if layout.upright {
                canvas.text(name, (x, bottom - 9.0), At::Middle, ink)?;
            } else {
                canvas.upwards(name, layout.header - 8.0, (x, bottom - 5.0), ink)?;
            }
        }
        Ok(())
    }

    fn draw_row(&self, canvas: &Canvas<'_>, class: usize, shown: usize, layout: &ConfusionLayout, y: f64) -> Drawn {
        let ink = Font { paint: Paint::INK, ..Font::NOTE };
        let middle = y + CELL / 2.0;
        canvas.elided(&self.of.classes[class], layout.left - MARGIN - 10.0, (MARGIN, middle), At::Left, ink)?;
        let sum = self.row_sum(class);
        for taken_for in 0..shown {
            let count = self.count(class, taken_for);
            let left = layout.left + taken_for as f64 * layout.cell;
            let (x, rows) = ((left, left + layout.cell - 1.0), (y, y + CELL - 1.0));
            let right = class == taken_for;
            if count > 0 {
                let color = if right { BLUE } else { VERMILLION };
                canvas.marked(&self.data(class, taken_for), || {
                    canvas.rect(x, rows, Paint::faded(color, alpha(count as f64 / sum)))?;
                    self.draw_count(canvas, class, taken_for, layout.cell, (left + layout.cell / 2.0, middle))
                })?;
            }
            if right {
                frame(canvas, x, rows)?;
            }
        }
        let recall = self.recall(class).map_or("–".into(), of_all);
        let end = layout.left + shown as f64 * layout.cell + RECALL - 6.0;
        canvas.text(&recall, (end, middle), At::Right, Font::NOTE)
    }

    /// Draws a cell's count, if there is room for it.
    fn draw_count(&self, canvas: &Canvas<'_>, class: usize, taken_for: usize, cell: f64, at: (f64, f64)) -> Drawn {
        let count = plain(self.count(class, taken_for) as f64);
        if FIGURE.width(&count) > cell - 2.0 {
            return Ok(());
        }
        let title = format!("{}: {count}", self.data(class, taken_for).name);
        canvas.titled(&count, &title, at, At::Middle, Font { bold: class == taken_for, ..FIGURE })
    }

    fn data(&self, class: usize, taken_for: usize) -> MarkData {
        let names = [class, taken_for].map(|i| clean(&self.of.classes[i]));
        MarkData {
            name: format!("{} predicted as {}", names[0], names[1]),
            value: plain(self.count(class, taken_for) as f64),
            ..MarkData::default()
        }
    }

    fn frame(&self, shown: usize) -> Frame {
        let mut notes = Vec::new();
        if shown < self.n {
            notes.push(format!("{shown} of {} classes are drawn; the table has all.", self.n));
        }
        Frame {
            width: WIDTH,
            title: self.of.title.to_owned(),
            subtitle: self.of.subtitle.to_owned(),
            description: self.description(),
            notes,
            table: self.table(),
        }
    }

    fn description(&self) -> String {
        let mut wrong: Vec<(u64, usize, usize)> = (0..self.n)
            .flat_map(|i| (0..self.n).map(move |j| (i, j)))
            .filter(|(i, j)| i != j)
            .map(|(i, j)| (self.count(i, j), i, j))
            .filter(|(count, ..)| *count > 0)
            .collect();
        // The sort is stable, so equal counts stay in the order of the classes.
        wrong.sort_by_key(|w| std::cmp::Reverse(w.0));
        let name = |i: usize| clean(&self.of.classes[i]);
        let most: Vec<String> = wrong
            .iter()
            .take(3)
            .map(|(count, i, j)| format!("{} predicted as {} ({count})", name(*i), name(*j)))
            .collect();
        let confused = if most.is_empty() {
            "No mistakes.".to_owned()
        } else {
            format!("The most frequent mistakes: {}.", listed(&most))
        };
        let [total, right] = [self.total, self.right()];
        format!(
            "Confusion matrix of {}: {} of {} samples are right ({}). {confused}",
            if self.n == 1 { "1 class".to_owned() } else { format!("{} classes", self.n) },
            plain(right),
            plain(total),
            of_all(right / total)
        )
    }

    fn table(&self) -> Table {
        let classes = self.of.classes.iter().map(|c| format!("as {}", clean(c)));
        let mut table = Table::new(["class".to_owned()].into_iter().chain(classes).chain(["right, %".to_owned()]));
        for i in 0..self.n {
            let counts = (0..self.n).map(|j| self.count(i, j).to_string());
            let recall = self.recall(i).map_or(String::new(), |r| format!("{:.1}", 100.0 * r));
            table.push([self.of.classes[i].clone()].into_iter().chain(counts).chain([recall]));
        }
        table
    }
}

/// Formats a share with one decimal if whole percents would hide mistakes. It is rounded as in the table, but never up to 100 %.
fn of_all(share: f64) -> String {
    match share * 100.0 {
        p if !(95.0..100.0).contains(&p) => percent(share),
        p => format!("{:.1} %", p.min(99.9)),
    }
}

fn alpha(share: f64) -> f64 {
    BANDS.iter().rev().find(|b| share > b.0).unwrap_or(&BANDS[0]).1
}

fn frame(canvas: &Canvas<'_>, x: (f64, f64), y: (f64, f64)) -> Drawn {
    let corners = [(x.0, y.0), (x.1, y.0), (x.1, y.1), (x.0, y.1), (x.0, y.0)];
    canvas.line(&corners, Stroke::new(Paint::MUTED, 1.2))
}

/// Draws the legend: the shades of both colours, and their meanings.
fn draw_legend(canvas: &Canvas<'_>, top: f64) -> Drawn {
    canvas.text("share of the row", (MARGIN, top + 8.0), At::Left, Font::SMALL)?;
    let left = MARGIN + 96.0;
    for (row, (color, words)) in [(BLUE, "right, framed"), (VERMILLION, "wrong")].into_iter().enumerate() {
        let y = top + 16.0 + row as f64 * 14.0;
        canvas.text(words, (MARGIN, y + 6.5), At::Left, Font::SMALL)?;
        for (i, (_, alpha, _)) in BANDS.iter().enumerate() {
            let x = left + i as f64 * BAND;
            let (x, y) = ((x, x + BAND - 2.0), (y, y + 12.0));
            canvas.rect(x, y, Paint::faded(color, *alpha))?;
            if row == 0 {
                frame(canvas, x, y)?;
            }
        }
    }
    for (i, (.., name)) in BANDS.iter().enumerate() {
        canvas.text(name, (left + (i as f64 + 0.5) * BAND - 1.0, top + 8.0), At::Middle, Font::SMALL)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::colour::{blended, contrast};

    #[test]
    fn a_row_with_mistakes_is_not_all_right() {
        let check = |right: f64, of: f64, expect: &str| assert_eq!(of_all(right / of), expect);
        check(980.0, 980.0, "100 %");
        check(978.0, 980.0, "99.8 %");
        check(984.0, 1009.0, "97.5 %");
        check(999.0, 1000.0, "99.9 %");
        check(99_999.0, 100_000.0, "99.9 %");
        check(99.0, 100.0, "99.0 %");
        check(80.0, 100.0, "80 %");
        check(0.0, 100.0, "0 %");
    }

    #[test]
    fn figures_read_on_every_shade() {
        for (_, alpha, _) in BANDS {
            for color in [BLUE, VERMILLION] {
                for (ink, paper) in [((0x1f, 0x23, 0x28), (0xff, 0xff, 0xff)), ((0xe6, 0xe6, 0xe6), (0x16, 0x18, 0x1c))]
                {
                    let ratio = contrast(ink, blended(color, alpha, paper));
                    assert!(ratio >= 4.5, "{alpha} of {color:?} on {paper:?}: {ratio}");
                }
            }
        }
        assert_eq!([0.001, 0.01, 0.0101, 0.5, 1.0].map(alpha), [0.10, 0.10, 0.20, 0.44, 0.56]);
    }
}
