use crate::display::{figures, html};
use std::collections::BTreeSet;
use warpbook_charts::Table;
use warpbook_charts::highlight::without_comments;
use warpbook_record::{Run, Rung};

/// Returns the number of lines in a rung's kernel files that contain code, not counting shared headers. Zero for a rung
/// without kernels.
#[must_use]
pub fn lines_of_code(rung: &Rung) -> usize {
    let files: BTreeSet<(&str, &str)> = rung.kernels().iter().map(|k| (&*k.file, &*k.source)).collect();
    files.into_iter().map(|(_, source)| count(source)).sum()
}

pub(crate) fn count(source: &str) -> usize {
    without_comments(source).lines().filter(|l| !l.trim().is_empty()).count()
}

/// Returns a table of lines of code and speed at the record's main size.
#[must_use]
pub fn lines_against_speed(run: &Run) -> Table {
    let ladder = run.main_problem().map(|p| run.ladder(p)).unwrap_or_default();
    let rows = ladder.iter().filter_map(|row| {
        let rung = row.rung?;
        // In a record from a file, sources are stored separately from the rungs.
        let files: BTreeSet<&str> = rung.kernels().iter().map(|k| &*k.file).collect();
        let lines: usize = match lines_of_code(rung) {
            0 => files.iter().filter_map(|f| run.sources.get(*f)).map(|s| count(s)).sum(),
            lines => lines,
        };
        let time = row.measurement.median_us().filter(|_| row.measurement.is_valid());
        Some([
            rung.title.to_string(),
            if lines > 0 { lines.to_string() } else { String::new() },
            time.map(figures::time).unwrap_or_default(),
            row.speed_up.map(figures::times).unwrap_or_default(),
        ])
    });
    html::table(["rung", "lines of CUDA C++", "median time", "speed-up"], rows.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blank_lines_and_comments_do_not_count() {
        let check = |source: &str, expect| assert_eq!(count(source), expect, "{source:?}");
        check("", 0);
        check("// a\n\n/* b\n c */\n", 0);
        check("int a; // b\n\n\"/*\"\n}\n", 3);
    }

    #[test]
    fn a_file_counts_once_a_rung() {
        let rungs = warpbook_kernels::regression::rungs();
        let lines = |id: &str| lines_of_code(rungs.iter().find(|r| r.id == id).unwrap());
        assert_eq!(lines("cpu_1_thread"), 0);
        // Both rungs use the same file, with different schedules.
        assert_eq!(lines("02_fused"), lines("04_fused_graph"));
        let fused = rungs.iter().find(|r| r.id == "02_fused").unwrap();
        assert_eq!(lines("02_fused"), count(&fused.kernels()[0].source));
    }
}
