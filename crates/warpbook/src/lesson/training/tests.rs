use super::*;
use warpbook_device::testing;
use warpbook_experiments::Trains;
use warpbook_record::MemoryLevel;
use warpbook_record::{Course, StepValue};

fn published() -> Run {
    read_record(testing::manifest_dir(env!("CARGO_MANIFEST_DIR")).join("../../data/results/training-h200.json"))
        .unwrap()
}

fn us(run: &Run, problem: &Problem, id: &str) -> f64 {
    run.measurement(id, problem).unwrap().median_us().unwrap()
}

#[test]
fn the_fp16_ladder_is_one_column_of_the_ladder() {
    let all = fp16_ladder();
    assert_eq!((all.first(), all.last()), (Some(&"01_direct"), Some(&"13_last_block_fp16")));
    assert!(all.is_sorted() && all.iter().all(|id| !id.ends_with("bf16")), "{all:?}");
    assert_eq!(before("07_fused_fp16"), Some("06_amp_fp16"));
    assert_eq!((before("01_direct"), before("stock_fp16")), (None, None));
    let run = published();
    assert!(all.iter().all(|id| run.rung(id).is_some()), "the published record has all of them");
    assert!(idea("08_graph_fp16").starts_with("One CUDA graph, fp16: ") && idea("99").contains("no rung `99`"));
}

#[test]
fn a_gain_is_the_ratio_of_two_medians() {
    let run = published();
    let p = run.main_problem().unwrap();
    let said = gain(&run, p, "05_nhwc");
    let ratio = figures::times(us(&run, p, "04_tf32") / us(&run, p, "05_nhwc"));
    assert!(said.contains(&format!("{ratio} as fast")) && said.contains("tf32 tensor cores takes"), "{said}");
    // The fp16 rung is compared with the fp16 rung before it, not with the bf16 rung between them in the record.
    let said = gain(&run, p, "07_fused_fp16");
    assert!(said.contains("AMP, fp16 takes") && said.contains("Peak memory"), "{said}");
    for alone in ["01_direct", "cpu_all_threads"] {
        let said = gain(&run, p, alone);
        assert!(said.ends_with(" images/s.") && !said.contains("as fast"), "{said}");
    }
    // A rung in between that was not measured is skipped.
    let part = without(&run, &["04_tf32"]);
    assert!(gain(&part, p, "05_nhwc").contains("Implicit GEMM takes"));
    let said = gain(&without(&run, &["05_nhwc"]), p, "05_nhwc");
    assert!(said.contains("was not measured"), "{said}");
    let steps = every_step(&part, p, &["03_implicit_gemm", "04_tf32", "05_nhwc"]).rows;
    assert_eq!(steps[1][1], "not measured");
    let ratio = figures::times(us(&run, p, "03_implicit_gemm") / us(&run, p, "05_nhwc"));
    assert_eq!((steps[2][3].as_str(), steps[2][4].as_str()), (&*format!("{ratio} as fast"), &*ratio));
}

#[test]
fn least_times_are_flops_and_bytes_over_ceilings() {
    let run = published();
    let p = run.main_problem().unwrap();
    let rows = least_times(&run, p).rows;
    let flops = run.peaks.arithmetic(Dtype::F16).unwrap().flops_per_s();
    assert_eq!(rows[2][2], figures::time(p.flops as f64 / flops * 1e6));
    let memory = run.peaks.level(MemoryLevel::Dram).unwrap().bytes_per_s();
    assert_eq!(rows[3][2], figures::time(p.bytes as f64 / memory * 1e6));
    let mut unknown = run.clone();
    unknown.peaks = warpbook_record::Peaks::default();
    assert!(least_times(&unknown, p).rows.iter().all(|r| r[1] == "not measured" && r[2].is_empty()));
}

#[test]
fn operations_that_moved_begin_with_the_largest_change() {
    let run = published();
    let p = run.main_problem().unwrap();
    let (was, now) = (run.breakdown("01_direct", p).unwrap(), run.breakdown("02_im2col", p).unwrap());
    let moved = moved(&run, p, "02_im2col");
    let difference = |name: &str| {
        let time_of = |b: &Breakdown| b.operations.iter().find(|o| o.name == name).and_then(OperationTime::median_us);
        time_of(now).unwrap_or(0.0) - time_of(was).unwrap_or(0.0)
    };
    let n = moved.rows.len() - 3;
    let changes: Vec<f64> = moved.rows[..n].iter().map(|r| difference(&r[0]).abs()).collect();
    assert!((2..=MOST_CHANGED).contains(&n) && changes.windows(2).all(|w| w[0] >= w[1]), "{changes:?}");
    assert_eq!(moved.rows[0][3], figures::time_difference(difference(&moved.rows[0][0])));
    assert_eq!(moved.rows[n][3], figures::time_difference(now.sum_us() - was.sum_us()));
    let launches = |b: &Breakdown| b.operations.iter().map(|o| o.launches).sum::<u64>().to_string();
    assert_eq!(moved.rows[n + 2][1..3], [launches(was), launches(now)]);
    // Operations that a product's epilogue computes no longer appear.
    let fused = super::moved(&run, p, "07_fused_fp16");
    assert!(fused.rows.iter().any(|r| r[0] == "relu2 forward" && r[2] == "none"), "{:?}", fused.rows);
}

#[test]
fn all_time_of_a_breakdown_is_in_its_groups() {
    let run = published();
    let p = run.main_problem().unwrap();
    for b in run.breakdowns.iter().filter(|b| b.problem == *p) {
        let known = ["batch", "images", "loss", "norm of the gradients", "check", "optimiser", "end of the step"];
        let layers = ["conv", "fc", "relu", "pool", "dropout"];
        for o in &b.operations {
            assert!(known.contains(&&*o.name) || layers.iter().any(|l| o.name.starts_with(l)), "{}", o.name);
        }
    }
    let rows = where_it_goes(&run, p, &["01_direct", "cpu_all_threads"]).rows;
    let b = run.breakdown("01_direct", p).unwrap();
    let convolutions: f64 =
        b.operations.iter().filter(|o| o.name.starts_with("conv")).filter_map(OperationTime::median_us).sum();
    assert_eq!(rows[0][1], figures::time(convolutions));
    assert_eq!((rows[0].len(), rows[1].len(), rows[1][1].as_str()), (8, 8, "not taken apart"));
    let rows = launches(&run, p, &["01_direct", "cpu_all_threads"]).rows;
    assert_eq!(
        (rows[0][2].parse().ok(), rows[1][2].as_str()),
        (Some(b.operations.iter().map(|o| o.launches).sum::<u64>()), "not taken apart")
    );
}

#[test]
fn one_rung_s_step_is_drawn_though_another_is_faster() {
    let run = published();
    let p = run.main_problem().unwrap();
    let chart = taken_apart(&run, p, "01_direct").unwrap().html();
    assert!(chart.contains("Direct convolutions") && !chart.contains("Last blocks"));
    assert!(slowest(&run, p, "01_direct").contains("conv2 weight gradient"));
    let none = without(&run, &["01_direct"]);
    assert!(taken_apart(&none, p, "01_direct").is_err());
    assert!(
        slowest(&none, p, "01_direct").contains("CUPTI") && moved(&none, p, "02_im2col").rows[0][0].contains("CUPTI")
    );
    let said = last_word(&run, p);
    let best = fp16_ladder().into_iter().map(|id| us(&run, p, id)).fold(f64::INFINITY, f64::min);
    assert!(said.contains(&figures::times(us(&run, p, "01_direct") / best)), "{said}");
    assert!(last_word(&only(&run, &[]), p).starts_with("No rung"));
}

#[test]
fn breakdowns_and_spans_go_where_their_rung_goes() {
    let all = published();
    let p = all.main_problem().unwrap().clone();
    let run = at(&all, &p);
    assert!(run.breakdowns.len() < all.breakdowns.len() && run.breakdowns.iter().all(|b| b.problem == p));
    let part = only(&run, &["05_nhwc"]);
    assert!(part.breakdown("05_nhwc", &p).is_some() && part.breakdowns.len() == 1);
    assert!(!part.spans.is_empty() && part.spans.iter().all(|s| s.rung == "05_nhwc" && s.problem == p));
    let rest = without(&run, &["05_nhwc"]);
    assert_eq!(rest.breakdowns.len() + 1, run.breakdowns.len());
    assert_eq!(rest.spans.len() + part.spans.len(), run.spans.len());
    let again = with(&rest, &part);
    assert_eq!(again.breakdown("05_nhwc", &p), run.breakdown("05_nhwc", &p));
    assert_eq!(with(&again, &part).spans.len(), run.spans.len(), "not twice");
}

#[test]
fn the_loss_scale_s_course_in_words() {
    let run = published();
    let mut log = run.train_logs[0].clone();
    assert!(scaling_of(&log).contains("was not scaled"));
    let course = |skipped: &[u64]| Course {
        loss_scales: [(1, 65536.0), (3, 32768.0)].map(|(step, value)| StepValue { step, value }).to_vec(),
        skipped_steps: skipped.to_vec(),
        skipped_total: skipped.len() as u64,
        steps: 100,
        ..Course::default()
    };
    let check = |skipped: &[u64], log: &mut TrainLog, expect: &str| {
        log.course = Some(Box::new(course(skipped)));
        let said = scaling_of(log);
        assert!(said.contains(expect) && said.contains("over 100 steps"), "{said}");
    };
    check(&[], &mut log, "No step was skipped.");
    check(&[2], &mut log, "1 step was skipped, since a gradient had overflowed, the first at step 2.");
    check(&[2, 3], &mut log, "2 steps were skipped");
}

#[test]
fn trainings_are_compared_and_parameters_told() {
    let (splits, said) = digits(96, 32);
    assert_eq!((splits.train.len(), splits.test.len()), (96, 32));
    assert!(said.contains("96 images") && said.contains(&splits.train.note()), "{said}");
    let lab = Lab::open("cpu").unwrap();
    let layers = [conv2d(4, 5), relu(), max_pool(4), flatten(), linear(10)];
    let recipe =
        Recipe { network: Network::new([1, 28, 28], layers).unwrap(), batch: 32, epochs: 1, ..Recipe::mnist() };
    let training = lab.train(recipe, &splits).run().unwrap();
    let rows = side_by_side(&[("small", &training)]).rows;
    let right = training.last_epoch().unwrap().test.unwrap();
    assert_eq!((rows[0][0].as_str(), rows[0][1].as_str()), ("small", "3"));
    assert_eq!(rows[0][5], format!("{:.2} %", 100.0 * right.accuracy().unwrap()));
    assert!(scaling(&training).contains("was not scaled"));
    let weights = training.weights().unwrap();
    assert!(learned(&weights, "conv1.bias").starts_with("The 4 elements of conv1.bias are "));
    assert!(learned(&weights, "conv9.bias").contains("no `conv9.bias`"));
}
