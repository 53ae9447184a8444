//! The data of sortable tables, without markup.

use crate::record::rungs::framework;
use crate::text::format::NONE;
use crate::text::search::folded;
use std::cmp::Ordering;
use warpbook_charts::Table;
use warpbook_record::Run;

/// The sort key of a cell.
#[derive(Debug, Clone, PartialEq)]
pub enum Key {
    /// A number.
    Number(f64),
    /// A text; numbers come first.
    Text(String),
    /// No value; always last.
    Missing,
}

/// The visual weight of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// A normal cell.
    Plain,
    /// A good result.
    Good,
    /// A bad result.
    Bad,
    /// A result of less importance.
    Quiet,
}

/// A cell of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// The main line.
    pub text: String,
    /// A second, smaller line; usually empty.
    pub detail: String,
    /// The sort key.
    pub key: Key,
    /// The visual weight.
    pub tone: Tone,
}

impl Cell {
    /// Creates a cell with a number and its text; both are empty if there is no value.
    pub fn number(value: Option<f64>, text: impl Fn(f64) -> String) -> Self {
        match value {
            Some(v) => Self { text: text(v), detail: String::new(), key: Key::Number(v), tone: Tone::Plain },
            None => Self { text: NONE.into(), detail: String::new(), key: Key::Missing, tone: Tone::Quiet },
        }
    }

    /// Creates a cell of text.
    pub fn text(text: impl Into<String>) -> Self {
        let text = text.into();
        Self { key: Key::Text(folded(&text)), text, detail: String::new(), tone: Tone::Plain }
    }

    pub fn detail(self, detail: impl Into<String>) -> Self {
        Self { detail: detail.into(), ..self }
    }

    pub fn tone(self, tone: Tone) -> Self {
        Self { tone, ..self }
    }

    pub fn place(self, place: usize) -> Self {
        Self { key: Key::Number(place as f64), ..self }
    }
}

/// A column's heading and type.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// The heading.
    pub label: String,
    /// `true` if the column contains numbers, which are right-aligned.
    pub numeric: bool,
    /// The heading in a file, where figures are plain numbers in one unit; `None` for texts.
    pub in_file: Option<&'static str>,
}

pub fn words(label: &str) -> Column {
    Column { label: label.into(), numeric: false, in_file: None }
}

pub fn shapes(label: &str) -> Column {
    Column { label: label.into(), numeric: true, in_file: None }
}

pub fn figures(label: &str, in_file: &'static str) -> Column {
    Column { label: label.into(), numeric: true, in_file: Some(in_file) }
}

/// A sortable table.
#[derive(Debug, Clone, PartialEq)]
pub struct Sheet {
    /// The table's heading.
    pub title: String,
    /// The columns; the first one names the row.
    pub columns: Vec<Column>,
    /// The rows, in their order before the reader sorts them.
    pub rows: Vec<Row>,
    /// The table for a file, if another module builds it.
    pub file: Option<Table>,
}

/// A row of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The row's cells, one for each column.
    pub cells: Vec<Cell>,
    /// The id of the row's rung.
    pub rung: String,
    /// The reason why the row has no figures; it replaces every cell but the first.
    pub note: Option<Cell>,
}

impl Row {
    pub fn new(rung: &str, cells: Vec<Cell>) -> Self {
        Self { cells, rung: rung.to_owned(), note: None }
    }
}

/// The sort order of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sort {
    /// The index of the column.
    pub column: usize,
    /// `true` if the largest comes first.
    pub descending: bool,
}

impl Sort {
    /// Returns the order after a press on a column's heading: ascending, descending, then the record's order.
    pub fn pressed(now: Option<Self>, column: usize) -> Option<Self> {
        match now.filter(|s| s.column == column) {
            None => Some(Self { column, descending: false }),
            Some(s) if !s.descending => Some(Self { column, descending: true }),
            Some(_) => None,
        }
    }
}

impl Sheet {
    pub fn new(title: impl Into<String>, columns: Vec<Column>) -> Self {
        Self { title: title.into(), columns, rows: Vec::new(), file: None }
    }

    /// Returns the table without columns that are empty in every row; the first column stays.
    pub fn without_empty(mut self) -> Self {
        let empty = |at: usize| self.rows.iter().all(|r| r.cells.get(at).is_none_or(|c| c.key == Key::Missing));
        let kept: Vec<bool> = (0..self.columns.len()).map(|at| at == 0 || !empty(at)).collect();
        let keep = |at: &mut usize| {
            *at += 1;
            kept.get(*at - 1).copied().unwrap_or(true)
        };
        let mut at = 0;
        self.columns.retain(|_| keep(&mut at));
        for row in &mut self.rows {
            let mut at = 0;
            row.cells.retain(|_| keep(&mut at));
        }
        self
    }

    /// Returns the rows in the given order. Equal rows keep their order, and missing values come last.
    pub fn sorted(&self, sort: Option<Sort>) -> Vec<&Row> {
        let mut rows: Vec<_> = self.rows.iter().collect();
        if let Some(Sort { column, descending }) = sort {
            rows.sort_by(|a, b| {
                let (a, b) = (a.cells.get(column).map(|c| &c.key), b.cells.get(column).map(|c| &c.key));
                order(a.unwrap_or(&Key::Missing), b.unwrap_or(&Key::Missing), descending)
            });
        }
        rows
    }

    /// Returns the rows with a cell that contains a text, ignoring case; all rows if the text is empty.
    pub fn having<'s>(rows: Vec<&'s Row>, wanted: &str) -> Vec<&'s Row> {
        let wanted = folded(wanted.trim());
        let has = |row: &&Row| {
            let note = row.note.as_ref();
            row.cells.iter().chain(note).any(|c| [&c.text, &c.detail].iter().any(|t| folded(t).contains(&wanted)))
        };
        if wanted.is_empty() { rows } else { rows.into_iter().filter(has).collect() }
    }

    /// Returns the sheet as a table that can be saved as CSV.
    pub fn table(&self) -> Table {
        if let Some(file) = &self.file {
            return file.clone();
        }
        let cell = |c: &Cell, column: &Column| match (&c.key, c.text.as_str(), c.detail.as_str()) {
            (Key::Missing, ..) => String::new(),
            (Key::Number(v), ..) if column.in_file.is_some() => v.to_string(),
            (_, text, "") => text.to_owned(),
            (_, text, detail) => format!("{text}; {detail}"),
        };
        // In a file the row's name is the rung's id, as in other files.
        let row = |r: &Row| {
            let others = r.cells.iter().zip(&self.columns).skip(1).map(|(c, column)| cell(c, column));
            std::iter::once(r.rung.clone()).chain(others).collect()
        };
        Table {
            headers: self.columns.iter().map(|c| c.in_file.unwrap_or(&c.label).to_owned()).collect(),
            rows: self.rows.iter().map(row).collect(),
        }
    }
}

fn order(a: &Key, b: &Key, descending: bool) -> Ordering {
    let present = match (a, b) {
        (Key::Missing, Key::Missing) => return Ordering::Equal,
        (Key::Missing, _) => return Ordering::Greater,
        (_, Key::Missing) => return Ordering::Less,
        (Key::Number(a), Key::Number(b)) => a.total_cmp(b),
        (Key::Text(a), Key::Text(b)) => a.cmp(b),
        (Key::Number(_), Key::Text(_)) => Ordering::Less,
        (Key::Text(_), Key::Number(_)) => Ordering::Greater,
    };
    if descending { present.reverse() } else { present }
}

/// Returns a cell with a rung's name, sorted by its place in the ladder.
pub fn rung_cell(run: &Run, id: &str) -> Cell {
    let place = run.rungs.iter().position(|r| r.id == id);
    let title = place.map_or("", |p| run.rungs[p].title.as_ref());
    let framework = place.and_then(|p| framework(&run.rungs[p]));
    let cell = match (title, framework) {
        ("", None) => Cell::text(id),
        ("", Some(name)) => Cell::text(id).detail(name),
        (_, None) => Cell::text(title).detail(id),
        (_, Some(name)) => Cell::text(title).detail(format!("{id}, {name}")),
    };
    cell.place(place.unwrap_or(run.rungs.len()))
}

/// Returns a column's texts in the order of the given rows.
#[cfg(test)]
pub fn column(sheet: &Sheet, rows: &[&Row], label: &str) -> Vec<String> {
    let at = sheet.columns.iter().position(|c| c.label == label).unwrap();
    rows.iter().map(|r| r.cells[at].text.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::format;

    #[test]
    fn missing_figures_come_last_either_way() {
        let cell = |v| Row::new("", vec![Cell::number(v, format::number)]);
        let rows = vec![cell(None), cell(Some(2.0)), cell(Some(f64::NAN)), cell(Some(1.0))];
        let sheet = Sheet { rows, ..Sheet::new("", vec![figures("v", "v (s)")]) };
        let texts = |descending| {
            let sorted = sheet.sorted(Some(Sort { column: 0, descending }));
            column(&sheet, &sorted, "v")
        };
        assert_eq!(texts(false), ["1.00", "2.00", "not a number", NONE]);
        assert_eq!(texts(true), ["not a number", "2.00", "1.00", NONE]);
        assert_eq!(column(&sheet, &sheet.sorted(None), "v"), [NONE, "2.00", "not a number", "1.00"]);
    }

    #[test]
    fn a_heading_sorts_up_then_down_then_not() {
        let first = Sort::pressed(None, 2);
        assert_eq!(first, Some(Sort { column: 2, descending: false }));
        let second = Sort::pressed(first, 2);
        assert_eq!(second, Some(Sort { column: 2, descending: true }));
        assert_eq!(Sort::pressed(second, 2), None);
        assert_eq!(Sort::pressed(second, 1), Some(Sort { column: 1, descending: false }));
    }
}
