//! The table of every figure of a problem's rungs.

use super::sheet::{Cell, Column, Key, Row, Sheet, Tone, rung_cell, words};
use crate::text::format;
use crate::text::search::folded;
use warpbook_charts::{LadderTable, LadderTableRow};
use warpbook_record::{Column as Figure, Measurement, Outcome, Problem, Run};

/// Returns the columns: the descriptor's first, then all others that the record has data for.
fn ladder_columns(run: &Run, problem: &Problem) -> Vec<Figure> {
    let mut all: Vec<Figure> = LadderTable::for_problem(run, problem).headers.iter().map(|h| h.column).collect();
    let mut add = |column: Figure, after: Option<Figure>| {
        if !all.contains(&column) {
            let at = after.and_then(|a| all.iter().position(|c| *c == a)).map_or(all.len(), |at| at + 1);
            all.insert(at, column);
        }
    };
    add(Figure::Wall, Some(Figure::Mad));
    add(Figure::OfBound, None);
    add(Figure::BoundBy, Some(Figure::OfBound));
    add(Figure::Check, None);
    add(Figure::Tile, None);
    add(Figure::Samples, None);
    all
}

/// Returns a cell of the ladder's table. Rows are sorted by its number, or by its text if it has none.
fn ladder_cell(column: Figure, cell: &warpbook_charts::Cell, m: Option<&Measurement>) -> Cell {
    if cell.text.is_empty() {
        return Cell::number(None, format::number);
    }
    let key = cell.number.map_or_else(|| Key::Text(folded(&cell.text)), Key::Number);
    let failed = || m.and_then(|m| m.check.as_ref()).is_some_and(|c| !c.passed);
    let (text, tone) = match column {
        Figure::Check => (format::sentence_case(&cell.text), if failed() { Tone::Bad } else { Tone::Good }),
        _ => (cell.text.clone(), Tone::Plain),
    };
    Cell { text, detail: cell.detail.clone(), key, tone }
}

/// Returns the reason why a row has no figures; a skipped rung is shown in a quiet tone, and a failed rung stands out.
fn note_cell(row: &LadderTableRow, m: Option<&Measurement>) -> Option<Cell> {
    let skipped = m.is_some_and(|m| matches!(m.outcome, Outcome::Skipped { .. }));
    let note = Cell::text(format::sentence_case(row.note.as_ref()?));
    Some(note.tone(if skipped { Tone::Quiet } else { Tone::Bad }))
}

const CHOSEN: &str = "Chosen for this size";

/// Returns the table of every figure of the rungs for a problem.
pub fn rungs(run: &Run, problem: &Problem) -> Sheet {
    let table = LadderTable::with(run, problem, &ladder_columns(run, problem));
    let heads = table.headers.iter().map(|h| Column {
        label: format::sentence_case(&h.text),
        numeric: h.numeric,
        in_file: None,
    });
    let columns = std::iter::once(words("Rung")).chain(heads).chain([words("Remark"), words(CHOSEN)]).collect();
    let mut sheet = Sheet::new(format!("All rungs at {}", problem.label), columns);
    let mut file = table.file();
    file.headers.push("chosen for this size".into());
    // The table has one row for each of these measurements, in this order.
    let measurements: Vec<&Measurement> = run.ladder(problem).iter().map(|r| r.measurement).collect();
    for (i, row) in table.rows.iter().enumerate() {
        let m = measurements.get(i).copied();
        let choice = m.and_then(|m| m.choice.as_deref()).unwrap_or_default();
        if let Some(row) = file.rows.get_mut(i) {
            row.push(choice.to_owned());
        }
        // A rung whose check failed keeps its cells, since they show the error.
        let wrong = m.and_then(|m| m.check.as_ref()).is_some_and(|c| !c.passed);
        let (remark, note) = if wrong { (note_cell(row, m), None) } else { (None, note_cell(row, m)) };
        let less = row.less_work.map(|share| format!("Does {} of the operations", format::percent(share)));
        let remark = remark.or(less.map(Cell::text));
        let none = || Cell::number(None, format::number);
        let figures = table.headers.iter().zip(&row.cells).map(|(h, c)| {
            let cell = ladder_cell(h.column, c, m);
            let best = row.fastest && h.column == Figure::Median;
            if best { cell.detail("fastest").tone(Tone::Good) } else { cell }
        });
        let cells = std::iter::once(rung_cell(run, &row.rung))
            .chain(figures)
            .chain([remark.unwrap_or_else(none), if choice.is_empty() { none() } else { Cell::text(choice) }])
            .collect();
        sheet.rows.push(Row { note, ..Row::new(&row.rung, cells) });
    }
    sheet.file = Some(file);
    sheet.without_empty()
}

#[cfg(test)]
mod tests {
    use super::super::sheet::{Sort, column};
    use super::*;
    use crate::testing::{sample, sample_run};
    use crate::text::format::NONE;

    #[test]
    fn columns_are_the_descriptors_and_what_else_there_is() {
        let mut run = sample_run();
        run.train_logs.clear();
        let labels = |run: &Run, problem: &Problem| {
            rungs(run, problem).columns.iter().map(|c| c.label.clone()).collect::<Vec<_>>().join(", ")
        };
        let problem = run.main_problem().unwrap().clone();
        assert_eq!(
            labels(&run, &problem),
            "Rung, Median, MAD, Wall, Epoch time, Speed-up, Effective bandwidth, % of bound, Bound by, Check, Tile, Samples"
        );
        run.descriptor.columns = vec![Figure::ItemRate, Figure::Throughput, Figure::Median, Figure::Other];
        run.measurements.iter_mut().for_each(|m| (m.tile, m.wall_us) = (None, Vec::new()));
        // The number of items is not known, and without peaks the bound of the work is not known either.
        run.peaks = Default::default();
        assert_eq!(labels(&run, &problem), "Rung, FLOP/s, Median, Check, Samples");
    }

    #[test]
    fn rows_are_sorted_by_figures_not_by_texts() {
        let mut run = sample_run();
        run.train_logs.clear();
        let sheet = rungs(&run, run.main_problem().unwrap());
        let sorted = |descending| column(&sheet, &sheet.sorted(Some(Sort { column: 1, descending })), "Rung");
        // The medians are 2.60 ms and 3.00 ms.
        assert_eq!(sorted(false), ["Fused in a graph", "Fused"]);
        assert_eq!(sorted(true), ["Fused", "Fused in a graph"]);
        run.measurements[0].samples_us = vec![900.0];
        let sheet = rungs(&run, run.main_problem().unwrap());
        let sorted = column(&sheet, &sheet.sorted(Some(Sort { column: 1, descending: false })), "Rung");
        assert_eq!(sorted, ["Fused", "Fused in a graph"], "900 µs before 2.60 ms");
    }

    #[test]
    fn a_rung_that_failed_its_check_shows_no_times() {
        let mut value = sample();
        value["measurements"][1]["check"]["passed"] = false.into();
        value["measurements"][1]["check"]["max_rel_error"] = "NaN".into();
        let run = crate::library::open::open(value.to_string().as_bytes()).unwrap();
        let sheet = rungs(&run, run.main_problem().unwrap());
        let rows = sheet.sorted(None);
        assert_eq!(column(&sheet, &rows, "Check"), ["Passed", "FAILED"]);
        assert!(sheet.rows[1].note.is_none() && sheet.rows[1].cells.iter().any(|c| c.detail.contains("not a number")));
        assert!(column(&sheet, &rows, "Remark")[1].starts_with("Check failed"));
        // The other rung's training diverged, so no row has a time and the column is gone.
        assert!(sheet.columns.iter().all(|c| !["Median", "Speed-up", "MAD"].contains(&c.label.as_str())), "{sheet:?}");
        assert!(!sheet.table().csv().contains("2.6000"));
    }

    #[test]
    fn a_skipped_rung_says_why_in_place_of_figures() {
        let mut value = sample();
        value["measurements"][1]["outcome"] = serde_json::json!({"status": "skipped", "why": "no GPU"});
        let run = crate::library::open::open(value.to_string().as_bytes()).unwrap();
        let sheet = rungs(&run, run.main_problem().unwrap());
        assert_eq!(
            sheet.rows[1].note.as_ref().map(|n| (n.text.as_str(), n.tone)),
            Some(("Skipped: no GPU", Tone::Quiet))
        );
        assert!(sheet.table().csv().contains("skipped: no GPU"));
        // The sample's first training diverged; the chart draws no bar for it either.
        let note = sheet.rows[0].note.as_ref();
        assert_eq!(note.map(|n| (n.text.as_str(), n.tone)), Some(("Diverged at epoch 20", Tone::Bad)));
    }

    #[test]
    fn rungs_say_what_bounds_them_what_was_chosen_and_whose_they_are() {
        let run = sample_run();
        let at = |short: &str| *run.problems().iter().find(|p| p.short == short).unwrap();
        let sheet = rungs(&run, at("1 M"));
        let get = |sheet: &Sheet, label: &str| column(sheet, &sheet.sorted(None), label);
        assert_eq!(get(&sheet, CHOSEN), [NONE, "800000 training points lie in one cluster."]);
        // The first rung's bytes were not counted, so its bound is one read of its inputs per pass.
        assert_eq!(get(&sheet, "Bound by"), ["DRAM", "arithmetic"]);
        assert!(sheet.rows[1].cells.iter().any(|c| c.detail == "at least 15.2 µs"), "{sheet:?}");
        assert!(sheet.rows[1].cells[1].detail == "fastest" && sheet.rows[1].cells[1].tone == Tone::Good);
        let several = rungs(&run, at("5 M × 16"));
        assert!(several.columns.iter().all(|c| c.label != CHOSEN));
        assert_eq!(several.rows[0].cells[0].detail, "pytorch_eager, PyTorch 2.11.0");
        assert!(several.table().csv().lines().nth(1).unwrap().starts_with("pytorch_eager,\"PyTorch, eager\",90.000"));
    }

    #[test]
    fn a_rung_that_does_less_of_the_work_says_so_and_is_not_the_fastest() {
        let mut run = sample_run();
        run.measurements[3].flops = Some(16_000_000);
        let problem = run.measurements[3].problem.clone();
        let sheet = rungs(&run, &problem);
        assert_eq!(column(&sheet, &sheet.sorted(None), "Remark"), [NONE, "Does 1.2 % of the operations"]);
        assert_eq!([0, 1].map(|i| sheet.rows[i].cells[1].detail.clone()), ["fastest", ""]);
    }
}
