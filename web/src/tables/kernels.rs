//! Tables of kernels: what the compiler, the device and the counters report.

use super::sheet::{Cell, Row, Sheet, Tone, figures, rung_cell, shapes, words};
use crate::text::format;
use warpbook_record::{Problem, Run};

/// Returns the table of compiler and device figures of each kernel that was measured for a problem.
pub fn kernels(run: &Run, problem: &Problem) -> Sheet {
    let mut sheet = Sheet::new(
        "Kernels",
        vec![
            words("Rung"),
            words("Kernel"),
            words("Architecture"),
            figures("Registers", "Registers"),
            figures("Static shared memory", "Static shared memory (bytes)"),
            figures("Dynamic shared memory", "Dynamic shared memory (bytes)"),
            figures("Spills", "Spills (bytes)"),
            shapes("Grid"),
            shapes("Block"),
            figures("Blocks per SM", "Blocks per SM"),
            figures("Occupancy", "Occupancy (%)"),
        ],
    );
    let shape = |d: Option<[u32; 3]>| {
        let volume = d.map(|d| d.iter().map(|n| f64::from(*n)).product());
        let [x, y, z] = d.unwrap_or_default();
        Cell::number(volume, |_| if y <= 1 && z <= 1 { x.to_string() } else { format!("{x} × {y} × {z}") })
    };
    for row in run.ladder(problem) {
        for k in &row.measurement.kernels {
            let spilled = u64::from(k.spill_store_bytes) + u64::from(k.spill_load_bytes);
            let spills = Cell::number(Some(spilled as f64), |v| if v > 0.0 { format!("{v} B") } else { "none".into() });
            let shared = |n: u32| Cell::number(Some(f64::from(n)), |_| format::bytes(u64::from(n)));
            let cells = vec![
                rung_cell(run, &row.measurement.rung),
                Cell::text(&k.entry).detail(&k.file),
                Cell::text(&k.architecture),
                Cell::number(Some(f64::from(k.registers)), |v| format!("{v}")),
                shared(k.static_shared_bytes),
                shared(k.dynamic_shared_bytes),
                if spilled > 0 { spills.tone(Tone::Bad) } else { spills },
                shape(k.grid),
                shape(k.block),
                Cell::number(k.blocks_per_multiprocessor.map(f64::from), |v| format!("{v}")),
                Cell::number(k.occupancy.map(|o| o * 100.0), |v| format!("{v:.0} %")),
            ];
            sheet.rows.push(Row::new(&row.measurement.rung, cells));
        }
    }
    sheet
}

/// Returns the table of hardware counters for each kernel counted for a problem.
pub fn counters(run: &Run, problem: &Problem) -> Sheet {
    let mut sheet = Sheet::new("Hardware counters", vec![words("Rung"), words("Kernel")]);
    for profiled in run.profiled.iter().filter(|p| p.problem == *problem) {
        for kernel in &profiled.counters {
            let mut cells = vec![rung_cell(run, &profiled.rung), Cell::text(&kernel.kernel)];
            let is_first = sheet.rows.is_empty();
            let mut all = warpbook_charts::counters_of(kernel);
            // The column of the warps' stall reasons is the most informative, so it is moved from the right edge to the front.
            all.rotate_right(1);
            for c in all {
                if is_first {
                    let heading = format::sentence_case(c.heading);
                    sheet.columns.push(if c.in_words { words(&heading) } else { figures(&heading, c.in_file) });
                }
                cells.push(match c.number {
                    None if !c.text.is_empty() => Cell::text(c.text),
                    number => Cell::number(number, |_| c.text.clone()),
                });
            }
            sheet.rows.push(Row::new(&profiled.rung, cells));
        }
    }
    sheet.without_empty()
}
