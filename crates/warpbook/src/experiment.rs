use crate::{Lab, Result};
use warpbook_record::{Measurement, Problem, Run, Rung};

/// Something to be measured in several ways at one or more sizes.
pub trait Experiment {
    /// Its name, as in a record and on the command line.
    fn name(&self) -> &str;

    /// The sizes.
    fn problems(&self) -> Vec<Problem>;

    /// The ways, in the ladder's order.
    fn rungs(&self) -> Vec<Rung>;

    /// Does all of it. A rung that fails is a row of the record; what was measured before stays.
    ///
    /// # Errors
    /// Settings that make no sense, and a device that cannot be used at all.
    fn run(&self, lab: &Lab) -> Result<Run>;
}

/// What a lab tells while an experiment runs.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// So many measurements lie ahead.
    Planned {
        /// How many.
        measurements: usize,
    },
    /// Something that takes a while and is not timed.
    Preparing(&'a str),
    /// A measurement begins.
    Started {
        /// The rung.
        rung: &'a Rung,
        /// The size.
        problem: &'a Problem,
    },
    /// A measurement is done; the record so far holds it.
    Finished {
        /// The measurement.
        measurement: &'a Measurement,
        /// The record so far.
        run: &'a Run,
    },
}
