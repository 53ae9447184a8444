//! Tests profiles and X-rays of these experiments.

use warpbook_data::synthetic_digits;
use warpbook_experiments::{Matmul, Regression, Training, Trains};
use warpbook_lab::{Experiment, Lab};
use warpbook_nn::train::Recipe;

#[test]
fn a_cpu_says_what_a_gpu_would_show() {
    let lab = Lab::open("cpu").unwrap();
    let said = |e: &dyn Experiment, rung| lab.xray(e, rung).unwrap_err().to_string();
    let text = said(&Matmul::new(), "14_overlapped_store");
    assert!(text.contains("needs a GPU") && text.contains("load") && text.contains("multiply"), "{text}");
    let text = said(&Regression::new(), "05_persistent");
    assert!(text.contains("needs a GPU") && text.contains("exchange"), "{text}");
    let text = said(&Matmul::new(), "01_naive");
    assert!(text.contains("no marks") && text.contains("03_shared_tile") && text.contains("15_split_k"), "{text}");
    let text = said(&Matmul::new(), "14_overlaped_store");
    assert!(text.contains("14_overlapped_store"), "{text}");
    let text = said(&Training::quick(), "13_last_block_bf16");
    assert!(text.contains("needs a GPU") && text.contains("multiply"), "{text}");
}

#[test]
fn a_training_on_the_cpu_is_profiled_by_its_operations() {
    let lab = Lab::open("cpu").unwrap();
    let digits = synthetic_digits(96, 16, 1);
    let recipe = Recipe { batch: 16, epochs: 1, ..Recipe::mnist() };
    let underway = lab.train(recipe, &digits).start().unwrap();
    let go_on = &mut |_: &warpbook_nn::train::Event| warpbook_nn::train::Flow::Continue;
    let (run, profile) = underway.finish_with_profile((1, 1, 2), go_on).unwrap();
    assert_eq!(run.log().losses.len(), 1);
    let cycle = &profile.cycles[0];
    let count = |name: &str| cycle.ranges.iter().filter(|r| r.name == name).count();
    for name in ["load", "forward", "loss", "backward", "update", "conv1 forward", "conv2 backward", "fc1 backward"] {
        assert_eq!(count(name), 2, "{name} in {:?}", cycle.ranges.iter().map(|r| &r.name).collect::<Vec<_>>());
    }
    // The range of each operation is nested in the range of its pass.
    for r in cycle.ranges.iter().filter(|r| r.name.ends_with(" forward")) {
        assert_eq!(r.parent.map(|p| &*cycle.ranges[p].name), Some("forward"), "{r:?}");
    }
    assert!(cycle.table().rows.iter().any(|r| r[0] == "backward" && r[1] == "2"), "{:?}", cycle.table().rows);
    let record = profile.record(&lab);
    assert!(record.spans.iter().any(|s| s.name == "conv2 forward" && s.stream == "host"), "{:?}", record.spans);
    let operations = &record.breakdowns[0].operations;
    assert!(
        operations.iter().any(|o| o.name == "update") && operations.iter().all(|o| o.name != "forward"),
        "{operations:?}"
    );
    assert!(cycle.chrome_trace().contains("conv1 backward"));
}
