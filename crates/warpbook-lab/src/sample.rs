//! An experiment for tests, which is never run.

use crate::settings::{Configurable, Preset, Setting};
use crate::{Experiment, Lab, Prepared, Result, settings};
use warpbook_record::{Dtype, Problem, Rung, count};

pub(crate) struct Sample;

pub(crate) fn problem() -> Problem {
    Problem::new("1,000 elements", "1 k", vec![count("elements", 1000, "elements")], Dtype::F32)
}

impl Experiment for Sample {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn inputs(&self) -> String {
        "nothing".into()
    }

    fn command(&self, device: &str) -> String {
        settings::command(self, device)
    }

    fn problems(&self) -> Vec<Problem> {
        vec![problem()]
    }

    fn rungs(&self) -> Vec<Rung> {
        warpbook_kernels::regression::rungs()
    }

    fn settings(&self) -> Option<(&'static str, Vec<(String, String)>)> {
        Some(settings::values(self))
    }

    fn prepare<'a>(&'a self, _: &'a Lab, _: &Problem) -> Result<Box<dyn Prepared + 'a>> {
        unreachable!("it is never run")
    }
}

impl Configurable for Sample {
    const NAME: &'static str = "sample";
    const ABOUT: &'static str = "An experiment for tests";
    const DETAILS: &'static str = "";
    const EXAMPLES: &'static str = "";

    fn preset(_: Preset) -> Self {
        Self
    }

    fn offered() -> Vec<Setting<Self>> {
        vec![Setting { name: "points", value: Some("N"), help: "", set: |e, _| Ok(e), get: |_| Some("1000".into()) }]
    }
}
