//! Tests charts at a phone's width: they have their own layout, and drawing them again gives the same bytes.

use crate::common::{QUANTITIES, check_layout, check_svg};
use crate::sample;
use std::path::PathBuf;
use warpbook_charts::*;
use warpbook_record::{ChartKind, Dtype, Problem, Run};

/// Returns all kinds except the timeline, which the page draws itself.
fn kinds() -> impl Iterator<Item = ChartKind> {
    ChartKind::ALL.into_iter().filter(|kind| *kind != ChartKind::Timeline)
}

fn records() -> Vec<(&'static str, Run, Problem)> {
    vec![
        ("regression", sample::full(), sample::problem(5_000_000)),
        ("products", sample::products(), sample::cube(4096, Dtype::Bf16)),
        ("softmax", sample::softmax(), sample::softmax().main_problem().unwrap().clone()),
        ("recorded", sample::recorded(), sample::problem(5_000_000)),
    ]
}

#[test]
fn charts_fit_a_phone_with_texts_of_full_size() {
    let mut drawn = 0;
    for (name, run, problem) in records() {
        for width in [280, 360, 480, 600, 1200] {
            let options = Options::of_width(width);
            let of_kinds = kinds().map(|kind| options.chart(&run, &problem, kind));
            let ladders = QUANTITIES.iter().map(|q| options.ladder(&run, &problem, *q));
            for chart in of_kinds.chain(ladders).filter_map(Result::ok) {
                assert_eq!(chart.svg.size().0, width, "{} of {name}", chart.title);
                check_svg(&chart);
                check_layout(&chart);
                drawn += 1;
            }
        }
    }
    assert!(drawn > 100, "{drawn}");
}

#[test]
fn no_text_is_smaller_than_12_pixels() {
    for (_, run, problem) in records() {
        for options in [Options::default(), Options::phone()] {
            for chart in kinds().filter_map(|kind| options.chart(&run, &problem, kind).ok()) {
                for size in chart.svg.as_str().split("font-size=\"").skip(1) {
                    let size: f64 = size.split('"').next().unwrap().parse().unwrap();
                    assert!(size >= 120.0, "{size} in {}", chart.title);
                }
            }
        }
    }
}

/// Compares with the charts in tests/golden; `WARPBOOK_UPDATE_GOLDEN=1` rewrites them.
#[test]
fn the_same_record_gives_the_same_bytes_at_a_phones_width() {
    let folder = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR").unwrap()).join("tests/golden");
    let (run, options) = (sample::softmax(), Options::phone());
    let problem = run.main_problem().unwrap();
    for (name, kind) in [("ladder", ChartKind::Ladder), ("sweep", ChartKind::Sweep), ("roofline", ChartKind::Roofline)]
    {
        let svg = options.chart(&run, problem, kind).unwrap().svg.standalone();
        let file = folder.join(format!("softmax-phone-{name}.svg"));
        if std::env::var_os("WARPBOOK_UPDATE_GOLDEN").is_some() {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(&file, &svg).unwrap();
        }
        let expect = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        assert!(svg == expect, "{} differs; look at it, then run with WARPBOOK_UPDATE_GOLDEN=1", file.display());
    }
}

#[test]
fn a_window_shows_a_part_of_a_plot() {
    let (run, problem) = (sample::products(), sample::cube(4096, Dtype::Bf16));
    let all = Options::default().sweep_of(&[&run], Quantity::Throughput, Some(&problem), None).unwrap();
    let window = Window::new((900.0, 5000.0), (3e14, 8e14));
    let part = Options { window, ..Options::default() };
    let part = part.sweep_of(&[&run], Quantity::Throughput, Some(&problem), None).unwrap();
    check_svg(&part);
    check_layout(&part);
    let marks = |c: &Chart| c.svg.as_str().matches("data-value=").count();
    assert!(marks(&part) < marks(&all) && marks(&part) > 4, "{} of {}", marks(&part), marks(&all));
    assert!(part.svg.as_str().contains(" 9e2 5e3 log 3e14 8e14 linear\""), "{}", part.svg.as_str());
    assert_eq!(part.table, all.table);
    let window = Window::new((10.0, 1000.0), (1e13, 1e15));
    for width in [360, 720] {
        let roofline = Options { window, ..Options::of_width(width) }.roofline(&run, &problem).unwrap();
        check_svg(&roofline);
        check_layout(&roofline);
        assert!(roofline.svg.as_str().contains("data-plot="));
    }
}

#[test]
fn of_many_lines_a_few_stand_out() {
    let (run, problem) = (sample::products(), sample::cube(4096, Dtype::Bf16));
    let sweep = |picked: &[&str]| {
        let picked = picked.iter().map(|id| (*id).to_owned()).collect();
        let options = Options { picked, ..Options::default() };
        options.sweep_of(&[&run], Quantity::Throughput, Some(&problem), None).unwrap()
    };
    let named = |c: &Chart, title: &str| c.svg.as_str().contains(&format!(">{title}</text>"));
    let few = sweep(&[]);
    assert!(named(&few, "Stores overlapped") && !named(&few, "Naive"), "{}", few.svg.as_str());
    assert!(few.svg.as_str().contains(">Grey: "), "{}", few.svg.as_str());
    assert!(named(&sweep(&["01_naive"]), "Naive"));
    // The size 1000 is not joined to 1024, but it is drawn.
    assert!(few.svg.as_str().contains("not multiples of 64"));
    assert_eq!(few.table.rows.iter().filter(|r| r[0] == "14_overlapped_store" && r[1] == "1000").count(), 1);
}
