//! Tests of class boards.

use crate::common::{check_layout, check_svg};
use crate::sample;
use std::path::Path;
use warpbook_charts::*;
use warpbook_record::{Grid, KernelSpec, Measurement, Run, Rung, Runner, Schedule, Source, Tile};

/// Makes a person's record: the ladder with all times multiplied by a factor.
fn person_record(person: Option<&str>, slower: f64) -> Run {
    let mut run = sample::h200();
    run.author = person.map(str::to_owned);
    run.measurements.iter_mut().flat_map(|m| &mut m.samples_us).for_each(|us| *us *= slower);
    run
}

fn drop_checks(run: &mut Run, which: impl Fn(&Measurement) -> bool) {
    run.measurements.iter_mut().filter(|m| which(m)).for_each(|m| m.check = None);
}

fn names(task: &BoardTask<'_>) -> Vec<String> {
    task.ranked().map(|(e, ..)| e.person.clone()).collect()
}

#[test]
fn each_person_is_once_at_a_task_with_their_best() {
    let (ada, again, bob, nameless) = (
        person_record(Some("Ada"), 2.0),
        person_record(Some(" Ada "), 1.5),
        person_record(Some("Bob"), 1.7),
        person_record(None, 3.0),
    );
    let records = [("a.json", &ada), ("b.json", &bob), ("a2.json", &again), ("carl.json", &nameless)];
    let board = Board::from_records(&records);
    assert_eq!(board.people, ["Ada", "Bob", "carl"]);
    assert_eq!(board.tasks.len(), ada.problems().len());
    for task in &board.tasks {
        assert_eq!(names(task), ["Ada", "Bob", "carl"], "{}", task.name());
        assert_eq!(task.ranked().next().unwrap().0.record, 2);
        let chart = draw().ranking(task).unwrap();
        check_svg(&chart);
        check_layout(&chart);
        assert!(chart.title.starts_with("Ada is the fastest of 3 people: "), "{}", chart.title);
        assert_eq!(chart.table.rows.len(), 3);
    }
    let table = board.table();
    assert_eq!(table.rows.len(), 3 * board.tasks.len());
    assert!(table.rows.iter().all(|r| r.len() == table.headers.len()));
}

#[test]
fn published_records_are_lines_and_nobody() {
    let (ada, published) = (person_record(Some("Ada"), 2.0), person_record(None, 1.0));
    let board = Board::from_records(&[("a.json", &ada)]).with_published(&[&published]);
    assert_eq!(board.people, ["Ada"]);
    for task in &board.tasks {
        assert_eq!((names(task), task.published.len()), (vec!["Ada".to_owned()], 1), "{}", task.name());
        let chart = draw().ranking(task).unwrap();
        check_svg(&chart);
        check_layout(&chart);
        assert!(chart.svg.as_str().contains(&format!(">{}, ", task.published[0].0)), "{}", chart.svg.as_str());
        assert_eq!(chart.table.rows.len(), 1);
    }
    assert!(Board::from_records(&[]).with_published(&[&published]).tasks.is_empty());
}

#[test]
fn another_device_or_another_cache_is_another_task() {
    let (one, mut two, mut three) =
        (person_record(Some("Ada"), 1.0), person_record(Some("Bob"), 1.0), person_record(Some("Carl"), 1.0));
    two.environment.device.name = "Other".into();
    three.policy.l2 = warpbook_record::L2State::Cold;
    let board = Board::from_records(&[("a", &one), ("b", &two), ("c", &three)]);
    let all: Vec<(Vec<String>, Vec<String>)> = board.tasks.iter().map(|t| (names(t), t.absent.clone())).collect();
    assert_eq!(board.tasks.len(), 3 * one.problems().len());
    assert!(all.iter().all(|(there, absent)| there.len() == 1 && absent.len() == 2), "{all:?}");
    let mut ids: Vec<String> = board.tasks.iter().map(BoardTask::id).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), board.tasks.len());
}

#[test]
fn what_was_not_checked_does_not_count_and_is_named() {
    let (mut none, mut some) = (person_record(Some("Ada"), 1.0), person_record(Some("Bob"), 1.0));
    drop_checks(&mut none, |_| true);
    let board = Board::from_records(&[("b", &some)]);
    let (fastest, best) = board.tasks[0].entries[0].best.unwrap();
    let (rung, problem) = (fastest.rung.clone(), fastest.problem.clone());
    let mut wrong = some.clone();
    wrong.author = Some("Carl".into());
    drop_checks(&mut some, |m| m.rung == rung);
    wrong.measurements.iter_mut().filter(|m| m.rung == rung).flat_map(|m| &mut m.check).for_each(|c| c.passed = false);

    let board = Board::from_records(&[("a", &none), ("b", &some), ("c", &wrong)]);
    let task = board.tasks.iter().find(|t| *t.problem == problem).unwrap();
    assert_eq!(names(task), ["Bob", "Carl"]);
    assert!(task.ranked().all(|(_, m, us)| m.rung != rung && us > best));
    let unchecked: Vec<&BoardEntry<'_>> = task.unchecked().collect();
    let said = |who: &str| unchecked.iter().find(|e| e.person == who).unwrap().missing.join("\n");
    assert!(said("Ada").contains("was not checked") && said("Ada").lines().count() > 1);
    assert!(
        said("Bob").ends_with("its result was not checked") && said("Carl").contains("check failed: relative error")
    );
    let chart = draw().ranking(task).unwrap();
    assert!(chart.svg.as_str().contains("1 person is without a checked figure"));
    let nobody = Board::from_records(&[("a", &none)]);
    assert!(draw().ranking(&nobody.tasks[0]).unwrap_err().to_string().starts_with("Nobody has a checked figure"));
    assert!(Board::from_records(&[]).tasks.is_empty());
}

#[test]
fn a_learners_own_kernel_counts_before_the_ladders() {
    let mut run = person_record(Some("Ada"), 1.0);
    let problem = run.main_problem().unwrap().clone();
    let base = Board::from_records(&[("a", &run)]);
    let ladder = base.tasks.iter().find(|t| *t.problem == problem).unwrap().ranked().next().unwrap().2;
    let rung = run.rungs.iter().find(|r| matches!(r.runner, Runner::Kernels { .. })).unwrap().clone();
    let source = Source { path: "live/mine.cu", text: "" };
    let specs = vec![KernelSpec::new(source, "mine", &[Tile::new("t1", &[])], Grid::Resident)];
    run.rungs.push(Rung {
        id: "mine".into(),
        title: "Mine".into(),
        variant_of: Some(rung.id.clone()),
        runner: Runner::Kernels { specs, schedule: Schedule::Launches },
        ..rung
    });
    run.measurements.push(sample::measured("mine", &problem, ladder * 10.0, 0.01));
    let board = Board::from_records(&[("a", &run)]);
    let task = board.tasks.iter().find(|t| *t.problem == problem).unwrap();
    let (entry, m, _) = task.ranked().next().unwrap();
    assert_eq!((&*m.rung, &*entry.rung), ("mine", "Mine"));
}

/// Compares the drawing with a file, so that page, notebook and test draw the same bytes; `WARPBOOK_BLESS=1` rewrites
/// the file.
#[test]
fn the_board_is_drawn_as_it_was() {
    let records: Vec<(String, Run)> = (0..30_u32)
        .map(|i| (format!("{i}.json"), person_record(Some(&format!("Learner {i}")), 1.0 + f64::from(i * i) / 90.0)))
        .collect();
    let named: Vec<(&str, &Run)> = records.iter().map(|(n, r)| (n.as_str(), r)).collect();
    let board = Board::from_records(&named);
    let chart = draw().ranking(&board.tasks[0]).unwrap();
    check_svg(&chart);
    check_layout(&chart);
    golden("board.svg", &chart);
    for width in [280, 360, 480, 600, 1200] {
        let chart = Options::of_width(width).ranking(&board.tasks[0]).unwrap();
        assert_eq!(chart.svg.size().0, width);
        check_svg(&chart);
        check_layout(&chart);
    }
    golden("board-phone.svg", &Options::phone().ranking(&board.tasks[0]).unwrap());
}

fn golden(name: &str, chart: &Chart) {
    let file = Path::new(&std::env::var_os("CARGO_MANIFEST_DIR").unwrap()).join("tests/golden").join(name);
    if std::env::var_os("WARPBOOK_BLESS").is_some() {
        std::fs::write(&file, chart.svg.standalone()).unwrap();
    }
    let golden = std::fs::read_to_string(&file).unwrap();
    assert!(golden == chart.svg.standalone(), "{} is drawn otherwise: WARPBOOK_BLESS=1 writes it anew", file.display());
}
