//! Merges two records of the same work.

use super::Run;

impl Run {
    /// Adds the rungs and figures of another record of the same experiment on the same device, for example from another
    /// framework. The new rungs come after the CPU rungs at the start of the ladder. If both records describe a
    /// problem, this record's description is kept.
    ///
    /// If the other record has only X-rays, its X-rays are added to a ladder but not its measurements, which were made
    /// alongside an X-ray at one problem. The X-ray contains their times.
    ///
    /// # Errors
    /// If the experiments, devices or rules of timing differ, or if both records have the same measurement or X-ray.
    /// The error is a sentence, and the record does not change.
    pub fn absorb(&mut self, mut other: Run) -> Result<(), String> {
        let differ = |what: &str, ours: &str, theirs: &str| {
            Err(format!(
                "The two records do not belong together: {what} is {ours} in the first and {theirs} in the second."
            ))
        };
        if self.experiment != other.experiment {
            return differ("the experiment", &self.experiment, &other.experiment);
        }
        let (ours, theirs) = (&self.environment.device, &other.environment.device);
        if (ours.kind, &ours.name) != (theirs.kind, &theirs.name) {
            return differ("the device", &ours.name, &theirs.name);
        }
        if self.environment.driver.is_some()
            && other.environment.driver.is_some()
            && self.environment.driver != other.environment.driver
        {
            let name = |d: &Option<String>| d.clone().unwrap_or_default();
            return differ("the driver", &name(&self.environment.driver), &name(&other.environment.driver));
        }
        if (self.policy.timed_by, self.policy.l2) != (other.policy.timed_by, other.policy.l2) {
            return Err("The two records were timed in different ways, so their figures do not belong in one.".into());
        }
        if other.is_of_xrays() && !self.is_of_xrays() {
            other.measurements.clear();
        }
        self.share_rungs_with(&other)?;
        let after_cpu = self.rungs.iter().take_while(|r| r.is_cpu()).count();
        let new: Vec<_> = other.rungs.into_iter().filter(|r| self.rung(&r.id).is_none()).collect();
        self.rungs.splice(after_cpu..after_cpu, new);
        self.sources.extend(other.sources);
        self.measurements.extend(other.measurements);
        self.train_logs.extend(other.train_logs);
        self.parts.extend(other.parts);
        self.spans.extend(other.spans);
        self.breakdowns.extend(other.breakdowns);
        self.profiled.extend(other.profiled);
        self.xrays.extend(other.xrays);
        self.problems.extend(other.problems);
        self.problems = self.all_problems();
        for note in other.notes {
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
        for library in other.environment.libraries {
            if !self.environment.libraries.contains(&library) {
                self.environment.libraries.push(library);
            }
        }
        if !other.command.is_empty() {
            self.command = format!("{} && {}", self.command, other.command);
        }
        self.resolve_problems()
    }

    /// Returns true if all measurements were made alongside an X-ray.
    fn is_of_xrays(&self) -> bool {
        !self.xrays.is_empty() && self.measurements.iter().all(|m| self.xray(&m.rung, &m.problem).is_some())
    }

    /// Checks that rungs in both records are the same, including their kernels, and that the records did not measure
    /// them at the same problem.
    fn share_rungs_with(&self, other: &Run) -> Result<(), String> {
        for theirs in &other.rungs {
            let Some(ours) = self.rung(&theirs.id) else { continue };
            if let Some(m) =
                other.measurements.iter().find(|m| m.rung == ours.id && self.measurement(&m.rung, &m.problem).is_some())
            {
                return Err(format!(
                    "Both records have the rung {} at {}. Nothing was merged.",
                    ours.id, m.problem.short
                ));
            }
            if ours != theirs {
                return Err(format!("The rung {} is described in two ways. Nothing was merged.", ours.id));
            }
        }
        if let Some(x) = other.xrays.iter().find(|x| self.xray(&x.rung, &x.problem).is_some()) {
            return Err(format!(
                "Both records have an X-ray of {} at {}. Nothing was merged.",
                x.rung, x.problem.short
            ));
        }
        let changed =
            other.sources.iter().find(|(path, text)| self.sources.get(*path).is_some_and(|ours| ours != *text));
        changed.map_or(Ok(()), |(path, _)| {
            Err(format!("The two records were measured with different versions of {path}. Nothing was merged."))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::tests::*;
    use crate::{Part, PartGroup, Runner};

    #[test]
    fn records_of_the_same_work_are_joined() {
        let (p, q, r) = (problem("p"), problem("q"), problem("r"));
        let ours = Run {
            problems: vec![p.clone()],
            measurements: vec![timed("01", &p, 10.0)],
            command: "ours".into(),
            ..run()
        };
        let part = Part {
            rung: "eager".into(),
            problem: r.clone(),
            group: PartGroup::Operation,
            name: "forward".into(),
            samples_us: vec![1.0],
        };
        // This is the same problem with a different label.
        let p_of_theirs = p.with(|p| p.label = "theirs".into());
        let theirs = Run {
            rungs: vec![rung("eager", GPU, Runner::External("PyTorch".into()))],
            problems: vec![p_of_theirs.clone(), q.clone()],
            measurements: vec![timed("eager", &p_of_theirs, 20.0), timed("eager", &q, 30.0)],
            parts: vec![part],
            notes: vec!["a note".into()],
            command: "theirs".into(),
            ..run()
        };
        let mut joined = ours.clone();
        joined.absorb(theirs.clone()).expect("they belong together");
        assert_eq!(joined.problems, [p.clone(), q, r], "each once, also what only a part has");
        assert_eq!(joined.rungs.iter().map(|r| &*r.id).take(3).collect::<Vec<_>>(), ["cpu", "eager", "library"]);
        assert_eq!(joined.rungs.len(), ours.rungs.len() + 1);
        assert_eq!(joined.ladder(&p).len(), 2);
        assert_eq!(joined.measurement("eager", &p).map(|m| m.problem.label.as_str()), Some(""));
        assert_eq!((joined.command.as_str(), joined.notes.len(), joined.parts.len()), ("ours && theirs", 1, 1));
        let again = Run::from_json(joined.to_json().expect("JSON").as_bytes()).expect("a record");
        assert_eq!(format!("{again:?}"), format!("{joined:?}"));

        let refused = |change: &dyn Fn(&mut Run), expect: &str| {
            let mut other = theirs.clone();
            change(&mut other);
            let mut run = ours.clone();
            let sentence = run.absorb(other).expect_err(expect);
            assert!(sentence.contains(expect), "{sentence}");
            assert_eq!(run, ours, "nothing is taken over");
        };
        refused(
            &|o| o.experiment = "products".into(),
            "the experiment is sums in the first and products in the second",
        );
        refused(&|o| o.environment.device.name = "TPU".into(), "the device is GPU in the first and TPU in the second");
        refused(&|o| o.policy.l2 = crate::L2State::Cold, "timed in different ways");
        let of_01 = |o: &mut Run, problem: &crate::Problem| {
            o.rungs = ours.rungs.iter().filter(|r| r.id == "01").cloned().collect();
            o.measurements = vec![timed("01", problem, 5.0)];
            o.parts.clear();
        };
        refused(&|o| of_01(o, &p), "Both records have the rung 01 at ");
        refused(
            &|o| {
                of_01(o, &problem("s"));
                o.rungs[0].title = "another".into();
            },
            "The rung 01 is described in two ways",
        );
    }

    fn xray(rung: &str, problem: &crate::Problem) -> crate::Xray {
        crate::Xray {
            rung: rung.into(),
            problem: problem.clone(),
            phases: Vec::new(),
            kernels: Vec::new(),
            unmarked_kernels: Vec::new(),
            sms: Vec::new(),
            blocks: Vec::new(),
            clock_mhz: 1980.0,
            marked_us: vec![11.0],
            unmarked_us: vec![10.0],
        }
    }

    /// Merges an X-ray record of `warpbook xray` into a record of `warpbook run`.
    #[test]
    fn an_x_ray_joins_the_ladder_of_its_experiment() {
        let (p, q) = (problem("p"), problem("q"));
        let ours = Run {
            problems: vec![p.clone()],
            measurements: vec![timed("01", &p, 10.0), timed("02", &p, 9.0)],
            command: "run".into(),
            ..run()
        };
        let xrayed = |rung: &str, problem: &crate::Problem| Run {
            rungs: ours.rungs.iter().filter(|r| r.id == rung).cloned().collect(),
            problems: vec![problem.clone()],
            measurements: vec![timed(rung, problem, 10.5)],
            xrays: vec![xray(rung, problem)],
            notes: vec![format!("X-ray of {rung}: a note")],
            command: format!("xray {rung}"),
            ..run()
        };
        let mut joined = ours.clone();
        joined.absorb(xrayed("01", &p)).expect("the same problem");
        joined.absorb(xrayed("02", &q)).expect("another problem");
        assert_eq!((&joined.measurements, &joined.rungs), (&ours.measurements, &ours.rungs), "the ladder is as it was");
        assert!(joined.xray("01", &p).is_some() && joined.xray("02", &q).is_some());
        assert_eq!((joined.main_problem(), &joined.problems), (Some(&p), &vec![p.clone(), q.clone()]));
        assert_eq!((joined.notes.len(), joined.command.as_str()), (2, "run && xray 01 && xray 02"));
        let again = Run::from_json(joined.to_json().expect("JSON").as_bytes()).expect("a record");
        assert_eq!(again, joined);

        let before = joined.clone();
        let why = joined.absorb(xrayed("02", &q)).expect_err("a second X-ray");
        assert!(why.contains("Both records have an X-ray of 02 at "), "{why}");
        assert_eq!(joined, before, "nothing is taken over");
        // X-ray records, and a ladder that already has an X-ray, merge their measurements like any others.
        let mut two = xrayed("01", &p);
        two.absorb(xrayed("02", &q)).expect("two X-rays");
        assert_eq!((two.measurements.len(), two.xrays.len()), (2, 2));
        let mut with_one = xrayed("02", &q);
        with_one.measurements.push(timed("01", &q, 20.0));
        let mut joined = ours.clone();
        joined.absorb(with_one).expect("a ladder at another problem");
        assert_eq!(joined.measurements.len(), 4);
    }

    /// Two records may have the same rungs at different problems, such as two networks measured one after the other.
    #[test]
    fn a_rung_of_both_has_the_problems_of_both() {
        let (p, q) = (problem("p"), problem("q"));
        let record = |p: &crate::Problem, us: f64| Run {
            problems: vec![p.clone()],
            measurements: vec![timed("01", p, us)],
            sources: [("k.cu".to_owned(), "kernel".to_owned())].into(),
            notes: vec!["the same note".into()],
            ..run()
        };
        let mut joined = record(&p, 10.0);
        joined.absorb(record(&q, 20.0)).expect("other problems");
        assert_eq!(joined.rungs, run().rungs);
        assert_eq!([&p, &q].map(|p| joined.measurement("01", p).and_then(|m| m.median_us())), [Some(10.0), Some(20.0)]);
        assert_eq!((joined.notes.len(), joined.sources.len()), (1, 1));
        let mut changed = record(&problem("r"), 30.0);
        changed.sources.insert("k.cu".into(), "another kernel".into());
        let why = joined.absorb(changed).expect_err("another kernel");
        assert!(why.contains("different versions of k.cu"), "{why}");
    }
}
