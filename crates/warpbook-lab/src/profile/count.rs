//! Hardware counters for a range in a profile.

use super::cycle::Joint;
use super::{Profiler, RangeCounters, counters, us};
use crate::Result;
use std::time::Instant;
use warpbook_device::Recorder;

impl Profiler<'_> {
    /// Runs a part of the program under a name, like [`Profiler::range`]. In a recorded step, the part runs again to read its hardware counters: once to warm
    /// up, once for each pass of the hardware (about ten), and once for the names of the kernels. It must therefore launch the same work each time, and be safe
    /// to repeat: a training run, for example, advances by that many steps. In each cycle, only the first part with each name is counted. The cycle's clock
    /// excludes the time for counting.
    ///
    /// If counters cannot be read, the profile continues and the cycle gives the reason:
    /// [`Cycle::notes`](super::Cycle::notes).
    ///
    /// ```no_run
    /// # use warpbook_lab::Lab;
    /// # let lab = Lab::new()?;
    /// # let device = lab.device().cuda().expect("a GPU");
    /// # let (stream, x, y) = (device.stream()?, device.zeros::<f32>(1 << 20)?.range(..), device.zeros::<f32>(1 << 20)?.range(..));
    /// let profile = lab.profile(|p| p.counters("copy", || Ok(stream.copy(&x, &y)?)))?;
    /// println!("{}", profile.text());
    /// # Ok::<(), warpbook_lab::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the part fails, or the device reports an error.
    pub fn counters(&mut self, name: &str, mut part: impl FnMut() -> Result<()>) -> Result<()> {
        let place = self.recording.as_ref().map(|recording| recording.ranges.len());
        self.range(name, |_| part())?;
        let Some((place, recording)) = place.zip(self.recording.as_mut()) else { return Ok(()) };
        let is_counted =
            |c: &RangeCounters| c.range.and_then(|r| recording.ranges.get(r)).is_some_and(|r| r.name == name);
        if recording.earlier.counters.iter().any(is_counted) {
            return Ok(());
        }
        let Some(device) = self.device else {
            return self.not_counted(name, "there is no GPU with counters");
        };
        // Only one profiler can be active, so the recorder stops and the data that it has recorded is kept.
        let Some(recorder) = self.recorder.take() else {
            let why = format!("the times come from {}", self.source);
            return self.not_counted(name, &why);
        };
        device.synchronize()?;
        let paused = Instant::now();
        recording.open.iter().for_each(|_| recorder.leave());
        recording.keep(&recorder.finish()?);
        recording.keep_memory();
        let found = counters::counted_on(device, &counters::METRICS, || Ok(()), &mut part);
        match Recorder::with_calls(device) {
            Ok(recorder) => {
                // If CUPTI rejects a range, the rest of the work is recorded without a range.
                for place in &recording.open {
                    let _ = recorder.enter(*place as u64 + 1);
                }
                self.recorder = Some(recorder);
            }
            Err(why) => recording.earlier.notes.push(format!(
                "What the device did after the counters of {name} were read is missing, since it could not be recorded again: {why}"
            )),
        }
        // Allocations and frees during counting are discarded.
        drop(recording.memory.as_ref().map(warpbook_device::MemoryWatch::take));
        let now_ns = self.recorder.as_ref().map_or(Ok(0), Recorder::now_ns)?;
        let pause = paused.elapsed();
        recording.begin += pause;
        recording.step_begin += pause;
        recording.joint = Joint { ns: now_ns, us: us(recording.begin.elapsed()) };
        match found? {
            Ok(counters) => {
                let note = |n: &String| format!("{name}: {n}");
                recording.earlier.notes.extend(counters.notes.iter().map(note));
                recording.earlier.counters.push(RangeCounters { range: Some(place), counters });
                Ok(())
            }
            Err(error) if error.is_sticky() => Err(error.into()),
            Err(why) => self.not_counted(name, &why.to_string()),
        }
    }

    /// Notes the reason for missing counters, once per cycle.
    fn not_counted(&mut self, name: &str, why: &str) -> Result<()> {
        let note = format!("No hardware counters of {name}: {}.", why.trim_end_matches('.'));
        if let Some(recording) = &mut self.recording
            && !recording.earlier.notes.contains(&note)
        {
            recording.earlier.notes.push(note);
        }
        Ok(())
    }
}
