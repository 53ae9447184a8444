//! Sortable tables as data, without markup.

mod kernels;
mod rungs;
mod sheet;
mod trainings;

pub use kernels::{counters, kernels};
pub use rungs::rungs;
pub use sheet::{Cell, Column, Row, Sheet, Sort, Tone};
pub use trainings::trainings;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::sample_run;

    #[test]
    fn rows_are_as_long_as_the_columns() {
        let run = sample_run();
        let problem = run.main_problem().unwrap();
        for sheet in [rungs(&run, problem), kernels(&run, problem), trainings(&run, problem)] {
            assert!(!sheet.rows.is_empty(), "{}", sheet.title);
            assert!(sheet.rows.iter().all(|r| r.cells.len() == sheet.columns.len()), "{}", sheet.title);
            let file = sheet.table();
            assert!(file.rows.iter().all(|r| r.len() == file.headers.len()), "{}", sheet.title);
        }
    }

    #[test]
    fn a_file_has_plain_numbers_of_one_unit() {
        let mut run = sample_run();
        run.train_logs.clear();
        let csv = rungs(&run, run.main_problem().unwrap()).table().csv();
        let mut lines = csv.lines();
        assert!(
            lines.next().unwrap().starts_with("rung,title,median (ms),MAD (ms),wall (ms),epoch time (ms),"),
            "{csv}"
        );
        assert!(lines.next().unwrap().starts_with("02_fused,Fused,3.0000,0.030,3.3000,0.015000,1.000,"), "{csv}");
        let csv = kernels(&run, run.main_problem().unwrap()).table().csv();
        assert!(csv.lines().next().unwrap().contains("Occupancy (%)"), "{csv}");
        assert!(
            csv.lines().nth(1).unwrap().starts_with("02_fused,pass; regression/02_fused.cu,sm_90,40,192,"),
            "{csv}"
        );
    }
}
