//! A test of an epoch's timeline from CUPTI's activity records. It has its own binary, since CUPTI records the whole
//! process.

use warpbook::charts::draw;
use warpbook::device::{Bench, Recorder, testing};
use warpbook::record::ChartKind;
use warpbook::{Lab, Regression};

#[test]
fn an_epoch_of_each_rung_has_its_kernels() {
    let Some(device) = testing::gpu("an_epoch_of_each_rung_has_its_kernels") else { return };
    if let Err(why) = Recorder::start(&device) {
        println!("skipped: the timeline of an epoch needs a GPU whose activity can be recorded: {why}");
        return;
    }
    let lab = Lab::open("cuda").unwrap().with_bench(Bench::quick());
    let ids = ["01_unfused", "02_fused", "03_fused_streams", "04_fused_graph", "05_persistent"];
    let run = lab.run(&Regression::new().points([100_000]).rungs(ids)).unwrap();
    assert!(run.notes.iter().all(|n| !n.contains("timeline")), "{:?}", run.notes);
    let problem = run.main_problem().unwrap();
    let kernels = |id: &str| run.spans_of(id, problem).len();
    // The rungs launch four kernels and the update; a pass and the update; several partial passes and the update; and
    // the same launches as a graph.
    assert_eq!((kernels("01_unfused"), kernels("02_fused"), kernels("04_fused_graph")), (5, 2, 2));
    assert!(kernels("03_fused_streams") > 2);
    assert_eq!(kernels("05_persistent"), 0);
    assert!(draw().timelines(&run, problem, &ids).is_ok());
    // The page shows the recordings that the record contains.
    assert!(
        run.descriptor.charts.contains(&ChartKind::Timeline)
            && draw().chart(&run, problem, ChartKind::Timeline).is_ok()
    );
    assert!(run.breakdowns.is_empty());
}
