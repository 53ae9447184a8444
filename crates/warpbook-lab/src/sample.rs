//! An experiment for tests that is never run.

use crate::settings::{Configurable, Preset, Setting};
use crate::{Experiment, Lab, Plan, Prepared, Result, settings};
use warpbook_record::{Dtype, Inputs, Problem, count};

pub(crate) struct Sample;

pub(crate) fn problem() -> Problem {
    Problem::new("1,000 elements", "1 k", vec![count("elements", 1000, "elements")], Dtype::F32)
}

impl Experiment for Sample {
    fn plan(&self, _: Option<&Lab>) -> Result<Plan> {
        let rungs = warpbook_kernels::regression::rungs();
        Ok(Plan { inputs: Inputs::of_all("nothing"), ..settings::plan(self, vec![problem()], rungs) })
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
