//! Tests the driver's rows for rungs that succeed and rungs that fail, using an experiment written for these tests.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use warpbook::device::Bench;
use warpbook::prelude::experiment::*;
use warpbook::prelude::*;
use warpbook::record::{Inputs, Measurement, Outcome, Part};

/// An experiment whose problems are numbers and whose rungs are named after their behaviour. Problem 2 cannot be
/// prepared.
struct Faulty {
    launches: Rc<Cell<usize>>,
}

const RUNGS: [&str; 6] = ["right", "wrong", "wrong_later", "failing", "unsuited", "refused"];

impl Experiment for Faulty {
    fn plan(&self, _: Option<&Lab>) -> Result<Plan, Error> {
        let problem = |n: u64| Problem::new(format!("{n}"), format!("{n}"), vec![count("n", n, "numbers")], Dtype::F32);
        let mut rungs: Vec<Rung> = RUNGS.iter().map(|id| Rung::cpu(id, id, "For the driver.", "1 thread")).collect();
        // A learner's kernel runs last, but its row stays in place.
        rungs[0].variant_of = Some("wrong".into());
        Ok(Plan { inputs: Inputs::of_all("none"), ..Plan::new("faulty", [1, 2, 3].map(problem).into(), rungs) })
    }

    fn obstacle(&self, _: &Lab, rung: &Rung, _: &Problem, _: &Run) -> Option<String> {
        (rung.id == "unsuited").then(|| "it takes other problems".into())
    }

    fn prepare<'a>(&'a self, _: &'a Lab, problem: &Problem) -> Result<Box<dyn Prepared + 'a>, Error> {
        if problem.count("n") == Some(2) {
            return Err(Error::Setting("there is nothing to prepare".into()));
        }
        Ok(Box::new(Ready(self)))
    }
}

struct Ready<'a>(&'a Faulty);

impl Prepared for Ready<'_> {
    fn candidate<'p>(&'p self, rung: &Rung, _: &mut Trials<'_>) -> Result<Box<dyn Candidate + 'p>, Error> {
        let id = rung.id.to_string();
        if id == "failing" {
            return Err(Error::Setting("it cannot be made".into()));
        }
        if id == "refused" {
            let (what, why) = ("The library".into(), "does not take this".into());
            return Err(warpbook::device::Error::Unsupported { what, why }.into());
        }
        let checks = Cell::new(0);
        let launch = || {
            self.0.launches.set(self.0.launches.get() + 1);
            Ok(())
        };
        let check = move || {
            checks.set(checks.get() + 1);
            let got = match &*id {
                "wrong" => 2.0,
                "wrong_later" if checks.get() > 1 => f64::NAN,
                _ => 1.0,
            };
            Ok(Check::compare("one", &[(got, 1.0)], 1.0, 1e-6))
        };
        Ok(Box::new(on_cpu(launch, check)))
    }

    fn extras(&self, _: &Lab, _: &Run) -> Result<Vec<Part>, Error> {
        Err(Error::Setting("no extras today".into()))
    }
}

fn lab() -> Lab {
    Lab::open("cpu").unwrap().with_bench(Bench { samples: 3, budget_s: 0.01, warmup: 1, ..Bench::default() })
}

fn row<'r>(run: &'r Run, id: &str, n: u64) -> &'r Measurement {
    run.measurements.iter().find(|m| m.rung == id && m.problem.count("n") == Some(n)).unwrap()
}

#[test]
fn whatever_happens_becomes_a_row_and_the_ladder_goes_on() {
    let run = lab().run(&Faulty { launches: Rc::default() }).unwrap();
    let ids: Vec<&str> = run.measurements.iter().map(|m| &*m.rung).collect();
    assert_eq!(ids, RUNGS.repeat(3), "a row for each rung and problem, in the ladder's order");
    for n in [1, 3] {
        let right = row(&run, "right", n);
        assert!(right.is_valid() && right.samples_us.len() == 3, "{right:?}");
        let failed = |id: &str, expect: &str| match &row(&run, id, n).outcome {
            Outcome::Failed { error } => assert!(error.contains(expect), "{id}: {error}"),
            other => panic!("{id}: {other:?}"),
        };
        failed("wrong", "off the reference");
        failed("wrong_later", "");
        failed("failing", "it cannot be made");
        let skipped = |id: &str, expect: &str| match &row(&run, id, n).outcome {
            Outcome::Skipped { why } => assert!(why.contains(expect), "{id}: {why}"),
            other => panic!("{id}: {other:?}"),
        };
        skipped("unsuited", "it takes other problems");
        skipped("refused", "does not take this");
        assert_eq!(run.fastest(&right.problem).map(|m| &*m.rung), Some("right"), "what is wrong is never the fastest");
    }
    // If a problem cannot be prepared, its rungs fail with a sentence; they do not count as skipped.
    assert!(
        matches!(&row(&run, "right", 2).outcome, Outcome::Failed { error } if error.contains("nothing to prepare"))
    );
    assert!(matches!(&row(&run, "unsuited", 2).outcome, Outcome::Skipped { .. }));
    assert!(run.notes.iter().any(|n| n.contains("no extras today")), "{:?}", run.notes);
}

#[test]
fn what_is_wrong_is_not_timed() {
    let launches = Rc::new(Cell::new(0));
    let mut run = lab().run(&Faulty { launches: launches.clone() }).unwrap();
    run.measurements.retain(|m| m.rung == "wrong");
    // At most the checked run was made, which is the only sample on a CPU.
    assert!(run.measurements.iter().all(|m| m.samples_us.len() <= 1), "{:?}", run.measurements);
    assert!(launches.get() > 0);
}

#[test]
fn events_tell_the_rows_in_their_order_and_a_run_that_is_interrupted_says_so() {
    let (lab, heard) = (lab(), Arc::new(Mutex::new(Vec::new())));
    let (cancel, told) = (lab.cancel(), heard.clone());
    let lab = lab.with_listener(move |event| match event {
        Event::Planned { measurements, .. } => assert_eq!(*measurements, 18),
        Event::Finished { measurement, run } => {
            assert_eq!(run.measurements.last().map(|m| &m.rung), Some(&measurement.rung));
            told.lock().unwrap().push(measurement.rung.clone());
            if told.lock().unwrap().len() == 6 {
                cancel.cancel();
            }
        }
        _ => {}
    });
    let run = lab.run(&Faulty { launches: Rc::default() }).unwrap();
    assert_eq!(heard.lock().unwrap().len(), 18);
    let interrupted = |m: &&Measurement| matches!(&m.outcome, Outcome::Skipped { why } if why.contains("interrupted"));
    assert_eq!(run.measurements.iter().filter(interrupted).count(), 10, "two problems but for the unsuited rung");
    assert!(run.notes.iter().any(|n| n.starts_with("Interrupted after 1 of 18")), "{:?}", run.notes);
}
