//! Recordings of both ways of a pair over time: memory, clocks and power, and the timeline of a step. They use the size
//! that charts show, and are made after all timing.

pub(super) mod loading;
pub(super) mod memory;
pub(super) mod power;

use super::Pair;
use super::pair::PairWork;
use warpbook_device::CudaDevice;
use warpbook_lab::activity::Timelines;
use warpbook_lab::{Error, Lab, Result};
use warpbook_record::{Problem, Run};

/// A function that records both ways of a pair over time.
pub(super) type OverTime = fn(&Shown<'_>) -> Result<Timelines>;

/// The size of a pair that charts show, with its measurements.
pub(super) struct Shown<'s> {
    pub lab: &'s Lab,
    pub device: &'s CudaDevice,
    pub pair: &'static Pair,
    pub problem: &'s Problem,
    pub work: PairWork,
    /// True if the recording should be short.
    pub quick: bool,
    pub measured: &'s Run,
}

impl Shown<'_> {
    /// Calls `record` for each rung that has a valid measurement, with the argument next to the rung. An error becomes
    /// a note.
    fn each<T: Copy>(
        &self,
        rungs: &[(&'static str, T)],
        record: impl Fn(&'static str, T) -> Result<Timelines>,
    ) -> Result<Timelines> {
        let mut found = Timelines::default();
        for (rung, of) in rungs {
            let is_sound = |run: &Run| run.measurement(rung, self.problem).is_some_and(|m| run.is_sound(m));
            if !is_sound(self.measured) {
                continue;
            }
            self.lab.bench().cancel.check()?;
            match record(rung, *of) {
                Ok(more) => found.extend(more),
                Err(Error::Device(e)) if e.is_sticky() => return Err(e.into()),
                Err(e) if e.is_cancelled() => return Err(e),
                Err(e) => found.notes.push(format!("{rung}: its timeline was not recorded: {e}")),
            }
        }
        Ok(found)
    }
}
