//! Tests of the lesson's sentences with the published record.

use std::path::Path;
use warpbook::charts::Table;
use warpbook::lesson::*;
use warpbook::prelude::experiment::*;
use warpbook::prelude::nn::*;
use warpbook::prelude::*;
use warpbook::record::Runner;

fn published() -> Run {
    let here = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    read_record(Path::new(&here).join("../../data/results/regression-h200.json")).unwrap()
}

#[test]
fn a_prediction_is_the_bytes_over_the_ceiling() {
    let run = published();
    let problem = run.main_problem().unwrap().clone();
    let (fused_us, _) = predict(&run, &problem, 2, 2).unwrap();
    let ceiling = run.ceiling(&problem).unwrap().bytes_per_s();
    let want = problem.bytes as f64 / ceiling * 1e6;
    assert!((fused_us - want).abs() < 1e-6 * want, "{fused_us} {want}");
    // Four times the bytes from slower memory take at least four times as long.
    let (unfused_us, _) = predict(&run, &problem, 8, 4).unwrap();
    assert!(unfused_us >= 4.0 * fused_us, "{unfused_us} {fused_us}");
}

#[test]
fn a_part_of_a_record_keeps_what_was_asked_for() {
    let run = published();
    let part = only(&run, &["02_fused"]);
    assert_eq!(part.rungs.len(), 1);
    assert_eq!(part.measurements.len(), 1);
    assert!(part.parts.iter().all(|s| s.rung == "02_fused") && !part.parts.is_empty());
    assert_eq!(
        median_us(&part, "02_fused"),
        run.measurement("02_fused", run.main_problem().unwrap()).unwrap().median_us()
    );
    assert_eq!(median_us(&part, "01_unfused"), None);
}

#[test]
fn comparisons_are_computed_and_missing_rungs_said() {
    let run = published();
    let faster = against(&run, "02_fused", "01_unfused");
    let ratio = median_us(&run, "01_unfused").unwrap() / median_us(&run, "02_fused").unwrap();
    assert!(faster.contains(&format!("{ratio:.2}")) || faster.contains(&format!("{ratio:.1}")), "{faster}");
    let nothing = only(&run, &[]);
    for sentence in [
        against(&nothing, "02_fused", "01_unfused"),
        outcome(&nothing, "02_fused", 2, 2),
        does_it_help(&nothing, "Does it?", "02b_fused_staged", "02_fused"),
        between_kernels(&nothing, "02_fused"),
        price_of_the_data(&nothing),
        last_word(&nothing),
    ] {
        assert!(!sentence.is_empty() && !sentence.contains("NaN"), "{sentence}");
    }
}

#[test]
fn the_price_of_the_data_is_without_the_launch_where_that_was_timed() {
    let mut run = published();
    run.parts.retain(|p| p.name != "only the launch");
    assert!(price_of_the_data(&run).ends_with("was not measured."), "{}", price_of_the_data(&run));
    let main = run.main_problem().unwrap().clone();
    let reads =
        run.parts_of("02_fused", &main, PartGroup::Ablation).into_iter().find(|p| p.name == "only the reads").unwrap();
    let mut launch = reads.clone();
    let us = reads.median_us().unwrap();
    (launch.name, launch.samples_us) = ("only the launch".into(), vec![us / 4.0]);
    run.parts.push(launch);
    let said = price_of_the_data(&run);
    assert!(said.contains(&format!("the other {}", warpbook::figures::time(us * 0.75))), "{said}");
}

#[test]
fn the_exchange_by_itself_needs_a_gpu() {
    let lab = Lab::open("cpu").unwrap();
    let run = published();
    let said = price_of_the_exchange(&lab, &run, run.main_problem().unwrap(), &["05_persistent"]).unwrap();
    assert!(said.len() == 1 && said[0].contains("needs a GPU"), "{said:?}");
}

#[test]
fn what_a_lesson_measures_itself_comes_out_on_a_gpu() {
    if warpbook::device::testing::gpu("what_a_lesson_measures_itself_comes_out_on_a_gpu").is_none() {
        return;
    }
    let lab = Lab::new().unwrap().with_bench(Bench::quick());
    let reads = shared_wavefronts(&lab).unwrap();
    println!("{}\n{}", reads.table().text(), reads.sentence());
    assert!(reads.reads.iter().all(|r| r.cycles.is_some_and(|c| c > 0.5 && c < 40.0)), "{reads:?}");
    let together = same_lines(&lab, &lab.peaks().unwrap()).unwrap();
    println!("{}\n{}", together.table().text(), together.sentence());
    assert_eq!(together.rates.len(), 4);
    if let Some(ceiling) = mma_sync_ceiling(&lab, Dtype::Bf16).unwrap() {
        let product = Matmul::new().dtypes([Dtype::Bf16]).rungs(["10_mma_swizzled"]).transfers(false);
        let run = lab.run(&product).unwrap();
        let said = mma_sync(&run, run.main_problem().unwrap(), "10_mma_swizzled", Some(&ceiling));
        println!("{said}");
        assert!(said.contains("of that.") && !said.contains("NaN"), "{said}");
        // The ceiling is measured with the rung's instruction, so the rung is below it.
        let share = product.problems()[0].flops as f64
            / (run.measurements[0].median_us().unwrap() * 1e-6 * ceiling.flops_per_s());
        assert!(share > 0.2 && share < 1.1, "{share}");
    }
    match wgmma_counters(&lab, Dtype::Bf16) {
        Ok(Some(counted)) => {
            println!("{}", counted.text());
            let kernel = &counted.kernels[0];
            let tensor_pipe = kernel.value(warpbook::record::counters::metric::TENSOR);
            assert!(counted.kernels.len() == 1 && tensor_pipe.is_some_and(|percent| percent > 50.0), "{counted:?}");
            assert!(kernel.stalls().first().is_some_and(|(_, warps)| *warps > 1.0), "{:?}", kernel.stalls());
        }
        Ok(None) => println!("no wgmma here"),
        Err(why) => println!("not counted: {why}"),
    }
    let experiment = Regression::new().rungs(["05_persistent", "05b_persistent_alternating"]).parts(false);
    let run = lab.run(&experiment).unwrap();
    let rungs = ["05_persistent", "05b_persistent_alternating"];
    let said = price_of_the_exchange(&lab, &run, run.main_problem().unwrap(), &rungs).unwrap();
    println!("{}", said.join("\n"));
    assert!(said.len() >= 3 && said[0].contains("that do nothing else takes"), "{said:?}");
}

#[test]
fn the_kernels_of_the_unfused_rung_are_named() {
    let run = published();
    let table = kernels_against_bytes(&run, &run.main_problem().unwrap().clone());
    let names: Vec<&str> = table.rows.iter().map(|r| r[0].as_str()).collect();
    assert!(["forward", "loss", "gradient w", "gradient b"].iter().all(|n| names.contains(n)), "{names:?}");
}

const LADDER: [&str; 5] = ["01_unfused", "02_fused", "04_fused_graph", "05_persistent", "06_on_chip"];

fn sized(points: u64, features: u64) -> Problem {
    Regression::new().points([points]).features(features).problems().remove(0)
}

/// Measures a record on the CPU, at a size that takes almost no time.
fn of_the_cpu() -> Run {
    let lab = Lab::open("cpu").unwrap().with_bench(Bench::quick());
    lab.run(&Regression::new().points([2000, 4000]).epochs(10)).unwrap()
}

fn column(table: &Table, header: &str) -> Vec<String> {
    let at = table.headers.iter().position(|h| h == header).unwrap_or_else(|| panic!("{header}: {:?}", table.headers));
    table.rows.iter().map(|r| r[at].clone()).collect()
}

#[test]
fn a_later_run_replaces_what_it_measured_again_and_nothing_else() {
    let story = published();
    let five = story.main_problem().unwrap().clone();
    let mut again = only(&story, &["06_on_chip"]);
    again.measurements[0].samples_us = vec![1.0];
    let both = with(&story, &again);
    assert_eq!(median_us(&both, "06_on_chip"), Some(1.0));
    assert_eq!(both.measurements.len(), story.measurements.len());
    let order = |run: &Run| run.rungs.iter().map(|r| r.id.to_string()).collect::<Vec<_>>();
    assert_eq!(order(&both), order(&story));
    let small = sized(100_000, 1);
    assert_eq!(both.measurement("06_on_chip", &small), story.measurement("06_on_chip", &small));
    // Rungs that were missing are added.
    let part = with(&only(&story, &["02_fused"]), &again);
    assert_eq!(order(&part), ["02_fused", "06_on_chip"]);
    assert_eq!(part.main_problem(), Some(&five));
    assert_eq!(with(&story, &without(&story, &order(&story).iter().map(String::as_str).collect::<Vec<_>>())), story);
}

#[test]
fn parts_of_a_record_by_size_and_by_rung() {
    let run = published();
    let wide = sized(5_000_000, 16);
    let part = at(&run, &wide);
    assert!(part.main_problem() == Some(&wide) && median_us(&part, "08_multivariate").is_some());
    let rest = without(&run, &[LESS_WORK]);
    assert!(rest.rung(LESS_WORK).is_none() && rest.measurements.iter().all(|m| m.rung != LESS_WORK));
    assert_eq!(rest.rungs.len() + 1, run.rungs.len());
}

#[test]
fn several_features_are_more_bytes_a_point() {
    let run = published();
    let (us, level) = predict(&run, &sized(5_000_000, 16), 17, 17).unwrap();
    let memory = run.peaks.level(MemoryLevel::Dram).unwrap().bytes_per_s();
    let want = 4e6 * 17.0 * 4.0 * 200.0 / memory * 1e6;
    assert!((us - want).abs() < 1e-6 * want && level.starts_with("the DRAM"), "{us} {want} {level}");
}

#[test]
fn bounds_are_those_of_the_record() {
    let run = published();
    let main = run.main_problem().unwrap().clone();
    let table = bounds(&run, &main, &LADDER);
    assert_eq!(column(&table, "bound by"), ["DRAM", "L2", "L2", "L2", "arithmetic"]);
    let bytes = column(&table, "bytes a point and epoch, from where");
    assert_eq!(bytes[..2], ["32 B DRAM", "8 B L2"]);
    assert!(bytes[4].contains("registers") && bytes[4].contains("shared memory"), "{bytes:?}");
    let m = run.measurement("05_persistent", &main).unwrap();
    let share = run.bound(m).unwrap().us / m.median_us().unwrap();
    assert_eq!(column(&table, "share")[3], warpbook::figures::percent(share));
    // The bytes of other frameworks were not counted.
    let theirs = bounds(&run, &main, &["pytorch_eager", "no_such_rung"]);
    assert_eq!(column(&theirs, "bytes a point and epoch, from where"), ["not counted", "not measured"]);
    // Other frameworks are compared with the least bytes of the work.
    let eager = run.measurement("pytorch_eager", &main).unwrap();
    let least = run.least_time(&main).unwrap().us / eager.median_us().unwrap();
    assert_eq!(column(&theirs, "share"), [warpbook::figures::percent(least), String::new()]);
}

#[test]
fn what_is_beyond_the_bound_is_named_after_how_epochs_meet() {
    let run = published();
    let table = beyond(&run, run.main_problem().unwrap(), &LADDER);
    let between = column(&table, "between two epochs");
    assert_eq!(between[..3], ["5 launches", "2 launches", "2 launches in a graph"]);
    assert!(between[3..].iter().all(|b| b.contains("exchange")), "{between:?}");
    assert!(column(&table, "beyond them").iter().all(|b| b.starts_with('+')), "{:?}", table.rows);
}

#[test]
fn steps_are_compared_with_the_last_measured_one() {
    let run = published();
    let steps = [("01_unfused", "one"), ("no_such_rung", "none"), ("02_fused", "two"), ("06_on_chip", "three")];
    let table = bought(&run, &steps);
    let us = |id: &str| median_us(&run, id).unwrap();
    let times = warpbook::figures::times;
    let ratio = times(us("01_unfused") / us("02_fused"));
    assert_eq!(
        column(&table, "as fast as the last"),
        ["", "", &ratio, &times(us("02_fused") / us("06_on_chip"))],
        "{:?}",
        table.rows
    );
    assert_eq!(column(&table, "as fast as the first")[3], times(us("01_unfused") / us("06_on_chip")));
    assert_eq!(column(&table, "what is new")[2], "two");
}

#[test]
fn the_chip_is_counted_and_the_rule_speaks() {
    let run = published();
    let main = run.main_problem().unwrap().clone();
    let room = storage(&run.environment.device, &main);
    assert!(room.contains("132 SMs") && room.contains("256 KiB") && room.contains("228 KiB"), "{room}");
    assert!(choice(&run, "06_on_chip", &main).contains("in registers"));
    assert!(choice(&run, "06_on_chip", &sized(100_000, 1)).contains("one cluster"));
    assert!(choice(&run, "06_on_chip", &sized(123, 1)).contains("not measured here"));
    assert!(cycles(&run, 1000).contains("505 ns"), "{}", cycles(&run, 1000));
}

#[test]
fn the_last_word_is_not_of_less_work() {
    let word = last_word(&published());
    assert!(word.contains("On the chip") && !word.contains("Sufficient"), "{word}");
}

#[test]
fn small_and_large_are_two_sizes_of_the_same_work() {
    let table = small_and_large(&published());
    assert_eq!(table.headers[1..], ["an epoch at 100 k", "x and y alone", "an epoch at 200 M", "x and y alone"]);
    assert!(table.rows.iter().all(|r| r.len() == 5 && !r[0].contains("Sufficient") && !r[0].contains("CPU")));
}

#[test]
fn pairs_that_were_not_measured_are_left_out() {
    let run = published();
    let pairs = [("01_unfused", "pytorch_eager"), ("06_on_chip", "no_such_rung")];
    assert_eq!(against_each(&run, &pairs), [against(&run, "01_unfused", "pytorch_eager")]);
    assert!(against_each(&run, &pairs[1..])[0].contains("nothing to compare"));
}

#[test]
fn another_framework_is_run_only_where_it_is_missing_and_a_gpu_there() {
    let lab = Lab::open("cpu").unwrap();
    let story = published();
    // The program would be noticed if it ran.
    let (same, said) = learn_from(&lab, &story, "false", &[]);
    assert!(same == story && said.contains("PyTorch, expert already") && said.contains("nothing was run"), "{said}");
    let theirs: Vec<&str> =
        story.rungs.iter().filter(|r| matches!(r.runner, Runner::External(_))).map(|r| &*r.id).collect();
    let ours = without(&story, &theirs);
    let (same, said) = learn_from(&lab, &ours, "false", &[]);
    assert!(same == ours && said.contains("no GPU"), "{said}");
    // Without a GPU, measuring kernels adds no results.
    assert_eq!(learn(&lab, &ours, &["02_fused"]).unwrap(), ours);
    assert_eq!(learn_at(&lab, &ours, &Regression::new().points([1000])).unwrap(), ours);
}

#[test]
fn records_without_these_figures_are_said_to_be() {
    let full = published();
    let ids: Vec<&str> = full.rungs.iter().map(|r| &*r.id).collect();
    let empty = without(&full, &ids);
    let mut bare = empty.clone();
    bare.peaks = warpbook::record::Peaks::default();
    bare.environment.device = of_the_cpu().environment.device;
    for run in [of_the_cpu(), empty, bare] {
        let problem = run.main_problem().cloned().unwrap_or_else(|| sized(5_000_000, 1));
        let sentences = [
            balance(&run.peaks, "this", &problem),
            prediction(&run, &problem, 8, 4),
            outcome(&run, "06_on_chip", 2, 2),
            against(&run, "06_on_chip", "05_persistent"),
            against_each(&run, &[("06_on_chip", "05_persistent")]).join(" "),
            between_kernels(&run, "01_unfused"),
            price_of_the_data(&run),
            cycles(&run, 1000),
            storage(&run.environment.device, &problem),
            choice(&run, "06_on_chip", &problem),
            last_word(&run),
        ];
        for said in &sentences {
            assert!(said.ends_with('.') && !said.contains("NaN") && !said.contains("not a number"), "{said}");
        }
        let tables = [
            bounds(&run, &problem, &LADDER),
            beyond(&run, &problem, &LADDER),
            bought(&run, &[("cpu_1_thread", "first"), ("06_on_chip", "last")]),
            small_and_large(&run),
            results(&run),
            epochs(&run, &LADDER),
            kernels_against_bytes(&run, &problem),
        ];
        for table in &tables {
            let width = table.headers.len();
            assert!(table.rows.iter().all(|r| r.len() == width), "{:?}", table.rows);
            let text = table.rows.concat().join(" ");
            assert!(!text.contains("NaN") && !text.contains("infinite") && !text.contains("not a number"), "{text}");
        }
    }
}

#[test]
fn our_kernels_next_to_libraries_are_compared_where_both_are() {
    use warpbook::lesson::stock::{largest_gain, own_and_library, where_it_pays};
    let here = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    let run = read_record(Path::new(&here).join("../../data/results/training-h200.json")).unwrap();
    let rows = own_and_library(&run).rows;
    assert_eq!(rows.len(), run.problems().len());
    let main = run.main_problem().unwrap();
    let (ours, ours_us) = run.fastest_kernels(main).unwrap();
    let row = rows.iter().find(|row| row[0].starts_with(&*main.short)).unwrap();
    assert_eq!(row[1], run.rung(&ours.rung).unwrap().title);
    let external =
        run.fastest_of(main, |r| matches!(r.runner, Runner::Library(_) | Runner::External(_))).unwrap().1 / ours_us;
    let ratio: f64 = row[5].trim_end_matches(['×', 'x']).parse().unwrap();
    assert!((ratio / external - 1.0).abs() < 0.01, "{ratio} {external}");
    let most = warpbook::figures::times(largest_gain(&run).unwrap());
    assert!(rows.iter().any(|row| row.last() == Some(&most)), "{most}");
    assert!(where_it_pays(&run).contains(&format!("to {most} (")), "{}", where_it_pays(&run));
    assert!(where_it_pays(&run).contains(&format!("of {}", rows.len())), "{}", where_it_pays(&run));
    let nothing = only(&run, &[]);
    assert!(largest_gain(&nothing).is_none());
    assert!(own_and_library(&nothing).rows.is_empty() && where_it_pays(&nothing).contains("nothing to compare"));
}

#[test]
fn shapes_at_which_the_library_wins_are_those_of_the_record() {
    use warpbook::lesson::stock::where_the_library_wins;
    let here = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    let run = read_record(Path::new(&here).join("../../data/results/matmul-h200.json")).unwrap();
    let all = where_the_library_wins(&run);
    let ratio = |p: &Problem| {
        let ours = run.measurement("as_chosen", p)?.median_us()?;
        Some(run.fastest_of(p, |r| matches!(r.runner, Runner::Library(_)))?.1 / ours)
    };
    let mut ratios: Vec<f64> = run.problems().into_iter().filter_map(ratio).collect();
    let measured = ratios.len();
    ratios.retain(|r| *r < 1.0);
    ratios.sort_by(f64::total_cmp);
    assert_eq!(all.headers[0], format!("{} of {measured} problems", ratios.len()));
    let shown: Vec<&str> = all.rows.iter().map(|row| &*row[4]).collect();
    assert_eq!(shown, ratios.iter().map(|r| warpbook::figures::times(*r)).collect::<Vec<_>>());
    assert!(where_the_library_wins(&only(&run, &["cublas"])).rows.is_empty());
}

#[test]
fn trainings_are_compared_by_their_steps() {
    use warpbook::lesson::stock::{same_losses, steps_over_tiles, trainings};
    let lab = Lab::open("cpu").unwrap();
    let digits = synthetic_digits(64, 32, 1);
    let recipe = Recipe { batch: 32, epochs: 2, ..Recipe::mnist() };
    let train = |seed| lab.train(Recipe { seed, ..recipe.clone() }, &digits).run().unwrap();
    let all = [train(1), train(1), train(2)];
    let rows = trainings(&all).rows;
    assert_eq!((&*rows[0][0], &*rows[0][1], &*rows[0][3]), ("CPU", "2", "1.00×"));
    assert!(rows.iter().all(|row| row[4].ends_with('%')), "{rows:?}");
    // The time leaves out the first epoch and covers only the 2 steps of the second.
    let seconds = all[1].last_epoch().unwrap().seconds;
    assert_eq!(rows[1][2], warpbook::figures::time(seconds * 1e6 / 2.0));
    assert_eq!(same_losses(&all), "The same losses, bit for bit: CPU and CPU. Losses of their own: CPU.");
    assert_eq!(same_losses(&all[1..]), "Losses of their own: CPU and CPU.");
    let chart =
        steps_over_tiles(&all, &[(8, "cpu_all_threads"), (32, "cpu_all_threads")], &["cpu_all_threads"]).unwrap();
    assert_eq!(chart.table.headers, ["edge of the tile", "tiled products", "CPU"]);
    assert!(steps_over_tiles(&all, &[(8, "tiled_8_products_fp16")], &["stock_products_fp16"]).is_err());
}
