//! Pictures of work that overlaps: host and device with a queue between them, and copies next to kernels.

use super::{BLUE, GREEN, GREY, VERMILLION, counted};
use crate::figures;
use crate::prelude::*;
use warpbook_charts::ChartError;
use warpbook_charts::diagram::{Diagram, Timeline};

/// Draws the host that launches kernels, the queue in which they wait, and the device that runs them: a launch returns before its kernel has begun, and the
/// host must wait at the end to be sure that the results are ready. The times have no unit.
///
/// # Errors
/// [`ChartError::NothingToDraw`] if there are not 1 to 6 launches.
pub fn launch_returns(launches: usize) -> std::result::Result<Chart, ChartError> {
    if !(1..=6).contains(&launches) {
        return Err(ChartError::NothingToDraw("Choose 1 to 6 launches.".into()));
    }
    let (call, kernel, begins) = (1.0, 4.0, 2.0);
    let ends = begins + kernel * launches as f64;
    let waiting: Vec<String> = (0..launches).map(|i| format!("queue, place {i}")).collect();
    let lanes: Vec<&str> = ["host"].into_iter().chain(waiting.iter().map(String::as_str)).chain(["device"]).collect();
    let device = lanes.len() - 1;
    let mut time = Timeline::new(&lanes);
    for i in 0..launches {
        let (at, runs) = (call * i as f64, begins + kernel * i as f64);
        let name = format!("kernel {i}");
        time = time
            .span(0, (at, at + call), BLUE, &format!("{i}"), "a launch, which only queues")
            .wait(1 + i, (at + call, runs), GREY, &name, "a kernel that waits")
            .span(device, (runs, runs + kernel), GREEN, &name, "a kernel that runs")
            .link((0, at + call), (1 + i, at + call));
    }
    let returned = call * launches as f64;
    let time = time
        .wait(0, (returned, returned + 1.5), VERMILLION, "other work", "the host is free")
        .wait(0, (returned + 1.5, ends), GREY, "waits", "the host waits for the device")
        .link((device, ends), (0, ends));
    Diagram::new("A launch returns at once; the device works later")
        .subtitle("kernels of one stream run in the order in which they were queued")
        .describe(&format!(
            "The host queues {} one after another and is free again before the first has ended; a wait ends when the last one has.",
            counted(launches, "kernel")
        ))
        .note("A clock that is read right after the launches measures the queueing. Wait first, then read it.")
        .put(time)
        .table(["what", "begins", "ends"])
        .figures(["launches on the host".to_owned(), "0".to_owned(), returned.to_string()])
        .figures(["kernels on the device".to_owned(), begins.to_string(), ends.to_string()])
        .draw()
}

/// Returns when each stage of each chunk begins, if each stage has one engine and each chunk goes through the stages in order.
fn begins(chunks: usize, stages: &[f64]) -> Vec<Vec<f64>> {
    let mut free = vec![0.0; stages.len()];
    let mut all = Vec::new();
    for _ in 0..chunks {
        let mut ready = 0.0_f64;
        let mut its = Vec::new();
        for (stage, length) in stages.iter().enumerate() {
            let begin = ready.max(free[stage]);
            (ready, free[stage]) = (begin + length, begin + length);
            its.push(begin);
        }
        all.push(its);
    }
    all
}

/// Draws a copy to the device, a kernel and a copy back, which take these microseconds in all: one after another, and cut into chunks that overlap. The second
/// picture assumes that a chunk takes its share of each time, and that the two directions of the link and the kernels do not slow each other down.
///
/// # Errors
/// [`ChartError::NothingToDraw`] if there are not 2 to 8 chunks, or a time is not positive.
pub fn overlapped_copy(chunks: usize, stages_us: [f64; 3]) -> std::result::Result<Chart, ChartError> {
    if !(2..=8).contains(&chunks) || stages_us.iter().any(|us| !(*us > 0.0 && us.is_finite())) {
        return Err(ChartError::NothingToDraw("Choose 2 to 8 chunks, and times above 0.".into()));
    }
    let whole: f64 = stages_us.iter().sum();
    let stages = stages_us.map(|us| us / chunks as f64);
    let starts = begins(chunks, &stages);
    let overlapped = starts[chunks - 1][2] + stages[2];
    let lanes = ["copy to the device", "kernel", "copy back"];
    let labels = ["copied to the device", "computed", "copied back"];
    let tones = [BLUE, GREEN, VERMILLION];
    let empty = || Timeline::new(&lanes).until(whole).in_microseconds();
    let mut at = 0.0;
    let one = stages_us.iter().enumerate().fold(empty(), |t, (stage, us)| {
        at += us;
        t.span(stage, (at - us, at), tones[stage], "all", labels[stage])
    });
    let many = starts.iter().enumerate().fold(empty(), |t, (chunk, its)| {
        its.iter().enumerate().fold(t, |t, (stage, begin)| {
            t.span(stage, (*begin, begin + stages[stage]), tones[stage], &chunk.to_string(), labels[stage])
        })
    });
    let saved = figures::times(whole / overlapped);
    Diagram::new(&format!("Copies that overlap with kernels: {saved} as fast with {chunks} chunks"))
        .subtitle("a GPU copies in both directions while it computes, if chunks are in different streams and in page-locked memory")
        .describe(&format!(
            "One after another the three stages take {}; in {chunks} chunks that overlap they take {} if none slows the others down.",
            figures::time(whole),
            figures::time(overlapped)
        ))
        .row(&format!("All at once, one stage after another: {}", figures::time(whole)))
        .put(one)
        .row(&format!("In {chunks} chunks, each in a stream of its own: {}", figures::time(overlapped)))
        .put(many)
        .table(["way", "time (µs)"])
        .figures(["one after another".to_owned(), format!("{whole:.1}")])
        .figures([format!("{chunks} chunks, overlapped"), format!("{overlapped:.1}")])
        .draw()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_is_free_before_the_device_has_ended() {
        let chart = launch_returns(3).unwrap();
        assert_eq!(chart.table.rows, [["launches on the host", "0", "3"], ["kernels on the device", "2", "14"]]);
        assert!(launch_returns(0).is_err());
    }

    #[test]
    fn chunks_take_the_slowest_stage_and_the_ends_of_the_others() {
        // Three equal stages of four chunks take 6 quarters of a stage instead of 12.
        let chart = overlapped_copy(4, [40.0, 40.0, 40.0]).unwrap();
        assert_eq!(chart.table.rows, [["one after another", "120.0"], ["4 chunks, overlapped", "60.0"]]);
        assert_eq!(begins(2, &[1.0, 3.0]), [[0.0, 1.0], [1.0, 4.0]]);
        assert!(overlapped_copy(1, [1.0; 3]).is_err() && overlapped_copy(2, [0.0, 1.0, 1.0]).is_err());
    }
}
