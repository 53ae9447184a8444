//! The timeline of each GPU in one run of a product, from events.
//!
//! Each GPU has its own clock. An event that goes from the first GPU to another GPU and back bounds the difference between the two clocks from both sides. The
//! middle of the bounds is used, and half of the round trip is the stated error.

use warpbook_device::{CudaDevice, Event, Result, Stream};

/// Kind of work in a [`Stretch`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    /// The multiplication of a panel.
    Multiplying,
    /// A copy of a panel to the first GPU, or the NCCL kernel that sends the panel.
    Communicating,
    /// The sum of partial products.
    Adding,
}

impl Doing {
    /// Returns the name of the work in a timeline.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Multiplying => "multiplication",
            Self::Communicating => "communication",
            Self::Adding => "sum",
        }
    }
}

/// A stretch of time on a GPU's stream.
#[derive(Debug, Clone, PartialEq)]
pub struct Stretch {
    /// Index of the stretch's GPU among the devices.
    pub rank: usize,
    /// The kind of work that took the time.
    pub doing: Doing,
    /// Index of the panel, from 0.
    pub panel: usize,
    /// Start in microseconds from the start of the run.
    pub start_us: f64,
    /// Duration in microseconds.
    pub duration_us: f64,
    /// Bytes sent to the first GPU.
    pub bytes: Option<u64>,
}

impl Stretch {
    fn interval(&self) -> (f64, f64) {
        (self.start_us, self.start_us + self.duration_us)
    }
}

/// One run of a product over several GPUs.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Timeline {
    /// Stretches in the order in which they were queued.
    pub stretches: Vec<Stretch>,
    /// Time from the start of the run to its end, in microseconds.
    pub whole_us: f64,
    /// Largest error between the clocks of two GPUs, in microseconds.
    pub clock_error_us: f64,
}

impl Timeline {
    /// Returns the microseconds during which there was communication.
    #[must_use]
    pub fn communicating_us(&self) -> f64 {
        length(&self.intervals(Doing::Communicating))
    }

    /// Returns the microseconds of communication during which no GPU multiplied, so that overlap did not hide it.
    #[must_use]
    pub fn exposed_us(&self) -> f64 {
        let (communicating, multiplying) = (self.intervals(Doing::Communicating), self.intervals(Doing::Multiplying));
        let both = union([communicating, multiplying.clone()].concat());
        length(&both) - length(&multiplying)
    }

    fn intervals(&self, doing: Doing) -> Vec<(f64, f64)> {
        union(self.stretches.iter().filter(|s| s.doing == doing).map(Stretch::interval).collect())
    }
}

/// Sorts intervals and merges those that overlap.
fn union(mut all: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut apart: Vec<(f64, f64)> = Vec::new();
    for (start, end) in all {
        match apart.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => apart.push((start, end)),
        }
    }
    apart
}

fn length(apart: &[(f64, f64)]) -> f64 {
    apart.iter().map(|(start, end)| end - start).sum()
}

/// Collects the times of a run while it is queued.
#[derive(Debug, Default)]
pub(super) struct Trace {
    open: Vec<(Stretch, [Event; 2])>,
}

impl Trace {
    /// Queues work between two events; without a trace, only the work.
    ///
    /// # Errors
    /// If the work fails, or the driver reports an error.
    pub fn around(
        trace: Option<&mut Self>,
        (device, stream): (&CudaDevice, &Stream),
        (rank, doing, panel): (usize, Doing, usize),
        bytes: Option<u64>,
        work: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let Some(trace) = trace else { return work() };
        let begun = trace.begin(device, stream)?;
        work()?;
        trace.end(begun, (device, stream), (rank, doing, panel), bytes)
    }

    /// Records an event before some work.
    ///
    /// # Errors
    /// If the driver reports an error.
    pub fn begin(&self, device: &CudaDevice, stream: &Stream) -> Result<Event> {
        let event = device.event()?;
        event.record(stream)?;
        Ok(event)
    }

    /// Records an event after the work.
    ///
    /// # Errors
    /// If the driver reports an error.
    pub fn end(
        &mut self,
        begun: Event,
        (device, stream): (&CudaDevice, &Stream),
        (rank, doing, panel): (usize, Doing, usize),
        bytes: Option<u64>,
    ) -> Result<()> {
        let ended = self.begin(device, stream)?;
        self.open.push((Stretch { rank, doing, panel, start_us: 0.0, duration_us: 0.0, bytes }, [begun, ended]));
        Ok(())
    }

    /// Reads the times once all the work has ended; `begin` and `end` are events of the first GPU around all of it.
    ///
    /// # Errors
    /// If an event was not recorded, or has not happened yet.
    pub fn read(self, clocks: &Clocks, [begin, end]: [&Event; 2]) -> Result<Timeline> {
        let zero = clocks.at(0, begin)?;
        let mut stretches = Vec::new();
        for (stretch, [start, end]) in self.open {
            let start_us = (clocks.at(stretch.rank, &start)? - zero).max(0.0);
            stretches.push(Stretch { start_us, duration_us: start.elapsed_us(&end)?, ..stretch });
        }
        Ok(Timeline { stretches, whole_us: begin.elapsed_us(end)?, clock_error_us: clocks.error_us })
    }
}

/// Clocks of several GPUs, relative to the first.
#[derive(Debug)]
pub(super) struct Clocks {
    /// Reference point of each GPU: an event, and its time in microseconds by the first GPU's clock.
    zeros: Vec<(Event, f64)>,
    error_us: f64,
}

impl Clocks {
    /// Number of round trips of an event, of which the fastest is used.
    const ROUNDS: usize = 8;

    /// Measures how far the GPUs' clocks differ, so that their spans can be drawn on one timeline. The streams must be idle.
    ///
    /// # Errors
    /// If the driver reports an error.
    pub fn set(sides: &[(&CudaDevice, &Stream)]) -> Result<Self> {
        let mut clocks = Self { zeros: Vec::new(), error_us: 0.0 };
        let Some(((first, here), others)) = sides.split_first() else { return Ok(clocks) };
        let zero = first.event()?;
        zero.record(here)?;
        here.synchronize()?;
        for (device, there) in others {
            let mut best: Option<(f64, Event, f64)> = None;
            for _ in 0..Self::ROUNDS {
                let [asked, answered, back] = [first.event()?, device.event()?, first.event()?];
                asked.record(here)?;
                there.wait(&asked)?;
                answered.record(there)?;
                here.wait(&answered)?;
                back.record(here)?;
                here.synchronize()?;
                let way = asked.elapsed_us(&back)?;
                if best.as_ref().is_none_or(|(least, ..)| way < *least) {
                    best = Some((way, answered, zero.elapsed_us(&asked)? + way / 2.0));
                }
            }
            if let Some((way, answered, at)) = best {
                clocks.error_us = clocks.error_us.max(way / 2.0);
                clocks.zeros.push((answered, at));
            }
        }
        clocks.zeros.insert(0, (zero, 0.0));
        Ok(clocks)
    }

    /// Returns the time of an event on a GPU, by the first GPU's clock.
    fn at(&self, rank: usize, event: &Event) -> Result<f64> {
        let (zero, at) = &self.zeros[rank];
        Ok(at + zero.elapsed_us(event)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stretch(doing: Doing, start_us: f64, end_us: f64) -> Stretch {
        Stretch { rank: 0, doing, panel: 0, start_us, duration_us: end_us - start_us, bytes: None }
    }

    #[test]
    fn what_no_multiplication_covers_is_exposed() {
        use Doing::{Adding, Communicating, Multiplying};
        let times = |stretches: &[Stretch]| {
            let timeline = Timeline { stretches: stretches.to_vec(), ..Timeline::default() };
            (timeline.communicating_us(), timeline.exposed_us())
        };
        assert_eq!(times(&[]), (0.0, 0.0));
        assert_eq!(times(&[stretch(Communicating, 1.0, 4.0)]), (3.0, 3.0));
        // Two GPUs multiply one after the other. Adding up sums does not count as hiding communication.
        let all = [
            stretch(Multiplying, 0.0, 10.0),
            stretch(Communicating, 8.0, 12.0),
            stretch(Multiplying, 11.0, 14.0),
            stretch(Communicating, 9.0, 11.0),
            stretch(Communicating, 20.0, 22.0),
            stretch(Adding, 20.0, 30.0),
        ];
        assert_eq!(times(&all), (6.0, 3.0));
        let covered =
            [stretch(Multiplying, 0.0, 5.0), stretch(Multiplying, 5.0, 9.0), stretch(Communicating, 4.0, 9.0)];
        assert_eq!(times(&covered), (5.0, 0.0));
    }
}
