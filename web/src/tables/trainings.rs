//! The table of trainings.

use super::sheet::{Cell, Row, Sheet, Tone, figures, rung_cell, words};
use crate::text::format;
use warpbook_record::{Problem, Run};

/// Returns the table of the final results of trainings for a problem.
pub fn trainings(run: &Run, problem: &Problem) -> Sheet {
    let logs: Vec<_> = run.train_logs.iter().filter(|l| l.problem == *problem).collect();
    let mut sheet = Sheet::new(
        "Results of the training",
        vec![
            words("Rung"),
            words("Parameters"),
            figures("Training loss", "Training loss"),
            figures("Test loss", "Test loss"),
            words("Diverged"),
        ],
    );
    let watched = logs.iter().any(|l| l.course.is_some());
    if watched {
        sheet.columns.extend([
            figures("Test accuracy", "Test accuracy (%)"),
            figures("Seconds", "Seconds"),
            figures("Peak bytes", "Peak bytes"),
            words("Ended"),
        ]);
    }
    for log in logs {
        let parameters: Vec<_> = log.parameters.iter().map(|(name, v)| format!("{name} = {}", precise(*v))).collect();
        let loss = |v: f64| Cell::number(Some(v), precise);
        let mut cells = vec![
            rung_cell(run, &log.rung),
            Cell::text(parameters.join(", ")),
            loss(log.train_loss),
            if log.test_loss.is_nan() && !log.diverged() { Cell::number(None, precise) } else { loss(log.test_loss) },
            if log.diverged() { Cell::text("Yes").tone(Tone::Bad) } else { Cell::text("No") },
        ];
        if watched {
            let course = log.course.as_deref();
            let accuracy = course.and_then(|c| c.epochs.iter().rev().find_map(|p| p.test?.accuracy()));
            let percent = |a: f64| format!("{:.2}", a);
            let bytes = course.and_then(|c| c.peak_allocated_bytes).map(|b| b as f64);
            cells.extend([
                Cell::number(accuracy.map(|a| 100.0 * a), percent),
                Cell::number(course.map(|c| c.total_s), |s| format::significant(s, 4)),
                Cell::number(bytes, |b| format::bytes(b as u64)),
                Cell::text(course.map_or("", |c| c.ended.as_str())),
            ]);
        }
        sheet.rows.push(Row::new(&log.rung, cells));
    }
    sheet
}

/// Formats a loss with six digits, since the losses of good rungs differ only in later digits.
fn precise(v: f64) -> String {
    format::significant(v, 6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::sample_run;

    #[test]
    fn a_diverged_training_says_so() {
        let run = sample_run();
        let sheet = trainings(&run, run.main_problem().unwrap());
        assert_eq!(sheet.rows[0].cells[4].text, "Yes");
        assert_eq!(sheet.rows[0].cells[1].text, "b = 2.00000, w = 3.00000");
    }
}
