//! Breaks the recorded steps of a training run down by operation: times, and achieved rates computed from the work.

use super::counters::counted_on;
use super::record::RUNG;
use super::{Cycle, DeviceWork, HardwareCounters, METRICS, Profile, RangeCounters, StepTime};
use crate::activity::{Operation, Recording, by_operation, run_among};
use warpbook_charts::words::counted;
use warpbook_device::{Activity, CudaDevice, Recorder};
use warpbook_nn::train::{Place, Samples, TrainError, Trainer};
use warpbook_record::Dtype;

impl Profile {
    /// Breaks the recorded steps of a training run down into operations; `skipped` contains the numbers of steps that
    /// changed no weights. To do so, it runs one additional step, one operation at a time, and undoes it. If that is
    /// impossible, a note gives the reason.
    pub fn take_apart(&mut self, trainer: &mut Trainer, samples: Samples<'_>, skipped: &[u64]) {
        let Place::Cuda(device, options) = trainer.place().clone() else { return };
        // Without CUPTI, no kernels are recorded, and the source already gives the reason.
        let has_kernels = |c: &Cycle| c.work.iter().any(|w| !w.is_range());
        if !self.cycles.iter().any(has_kernels) {
            return;
        }
        let dtype = Some(options.precision.products()).filter(|d| *d != Dtype::F32);
        match operations_of(&device, trainer, samples) {
            Ok(operations) => self.cycles.iter_mut().for_each(|c| c.take_apart(&operations, dtype, skipped)),
            Err(why) => {
                let why = why.to_string();
                let note = format!("The steps could not be taken apart by operation: {}.", why.trim_end_matches('.'));
                self.cycles.iter_mut().for_each(|c| c.notes.push(note.clone()));
            }
        }
    }
}

impl Profile {
    /// Reads hardware counters of the kernels in a training step, for the first cycle. For this, the step is repeated
    /// one operation at a time, and the trainer's state is restored afterwards. If counters cannot be read, a note
    /// gives the reason.
    pub fn count_step(&mut self, trainer: &mut Trainer, samples: Samples<'_>) {
        let Some(cycle) = self.cycles.first_mut() else { return };
        match counters_of_step(trainer, samples) {
            Ok(counters) => {
                cycle.notes.extend(counters.notes.iter().map(|n| format!("A step: {n}")));
                cycle.counters.push(RangeCounters { range: None, counters });
            }
            Err(why) => {
                let why = why.to_string();
                cycle.notes.push(format!("No hardware counters of a step: {}.", why.trim_end_matches('.')));
            }
        }
    }
}

fn counters_of_step(trainer: &mut Trainer, samples: Samples<'_>) -> crate::Result<HardwareCounters> {
    let Place::Cuda(device, _) = trainer.place().clone() else {
        return Err(warpbook_device::Error::NeedsCuda("A reading of hardware counters").into());
    };
    let counted = trainer.with_state_restored(|trainer| {
        trainer.prepare_steps(samples)?;
        trainer.wait()?;
        let step = || Ok(trainer.step_by_operation(&mut |_| Ok(()))?);
        Ok(counted_on(&device, &METRICS, || Ok(()), step))
    })?;
    Ok(counted??)
}

/// Runs one step on a full batch; returns its operations with the device's activities.
fn operations_of(
    device: &CudaDevice,
    trainer: &mut Trainer,
    samples: Samples<'_>,
) -> Result<Vec<Operation>, TrainError> {
    let recorder = Recorder::start(device)?;
    trainer.with_state_restored(|trainer| {
        trainer.prepare_steps(samples)?;
        trainer.wait()?;
        match by_operation(&recorder, |after| trainer.step_by_operation(after))? {
            (operations, 0) => Ok(operations),
            (_, lost) => Err(TrainError::Setting(format!("CUPTI lost {} of a step", counted(lost as usize, "record")))),
        }
    })
}

impl Cycle {
    /// Finds the operations of each step, with the help of a step that was run one operation at a time.
    pub(super) fn take_apart(&mut self, operations: &[Operation], dtype: Option<Dtype>, skipped: &[u64]) {
        let (mut found, mut unlike, mut unchanged) = (Vec::new(), 0, 0);
        for (number, step) in self.steps.clone().into_iter().enumerate() {
            if skipped.contains(&step.number) {
                unchanged += 1;
                continue;
            }
            match self.found_in(&step, operations) {
                Some(of_step) => {
                    for (place, known, operation) in of_step {
                        self.work[place].operation.clone_from(&operations[operation].name);
                        // All steps get the order of the known step, however their branches overlap.
                        let (correlation, graph) = (number as u32, Some((0, known as u64)));
                        found.push(Activity { correlation, graph, ..activity(&self.work[place]) });
                    }
                }
                None => unlike += 1,
            }
        }
        if unchanged > 0 {
            self.notes.push(format!(
                "{} changed no weight, as a gradient had overflowed, and {} not taken apart by operation.",
                counted(unchanged, "recorded step"),
                if unchanged == 1 { "is" } else { "are" }
            ));
        }
        if unlike > 0 {
            self.notes.push(format!(
                "{} could not be taken apart by operation: the kernels do not match a step on a whole batch.",
                counted(unlike, "recorded step")
            ));
        }
        let runs = self.steps.len() - unlike - unchanged;
        if runs == 0 {
            return;
        }
        let (operations, source) = (operations.to_vec(), self.source.clone());
        let recording = Recording { operations, runs, activities: found, source, dtype };
        match recording.taken_apart(RUNG, &self.problem()) {
            Ok((breakdown, _)) => self.operations = Some(breakdown),
            Err(why) => self.notes.push(format!("The steps could not be taken apart by operation: {why}.")),
        }
    }

    /// Finds a step's operations. Returns for each piece of work its index, its index among the activities of all
    /// operations, and the operation's index.
    fn found_in(&self, step: &StepTime, operations: &[Operation]) -> Option<Vec<(usize, usize, usize)>> {
        let during = step.start_us..step.start_us + step.duration_us;
        let mut of_step: Vec<(usize, Activity)> = (self.work.iter().enumerate())
            .filter(|(_, w)| !w.is_range() && during.contains(&w.start_us))
            .map(|(place, w)| (place, activity(w)))
            .collect();
        of_step.sort_by_key(|(_, a)| (a.correlation, a.graph.map(|g| g.1), a.start_ns));
        let found = run_among(operations, &of_step.iter().map(|(_, a)| a).collect::<Vec<_>>())?;
        let places = of_step.iter().map(|(place, _)| *place);
        Some(places.zip(found).filter_map(|(place, f)| f.map(|(known, o)| (place, known, o))).collect())
    }
}

/// Converts device work back to a recorded activity.
fn activity(w: &DeviceWork) -> Activity {
    let ns = |us: f64| (us * 1e3).round() as u64;
    Activity {
        kind: w.kind.clone(),
        name: w.name.clone(),
        start_ns: ns(w.start_us),
        duration_ns: ns(w.duration_us),
        stream: w.stream,
        correlation: w.correlation,
        graph: w.graph,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Lab;
    use crate::profile::cycle::{Joint, device_work};
    use std::collections::BTreeMap;
    use warpbook_device::ActivityKind;

    fn kernel(name: &str, blocks: u32, start_ns: u64, duration_ns: u64) -> Activity {
        Activity {
            kind: ActivityKind::Kernel { grid: [blocks, 1, 1], block: [128, 1, 1], registers: 32, shared_bytes: 0 },
            name: name.into(),
            start_ns,
            duration_ns,
            stream: 7,
            correlation: 0,
            graph: None,
        }
    }

    fn copy(name: &str, start_ns: u64, correlation: u32) -> Activity {
        let kind = ActivityKind::Copy { bytes: 64 };
        Activity { kind, name: name.into(), stream: 1, correlation, ..kernel("", 1, start_ns, 500) }
    }

    /// Returns a step's operations: two convolutions with one kernel, and an update whose gradient is first filled with
    /// zeros.
    fn operations() -> Vec<Operation> {
        let operation = |name: &str, flops, bytes, activities: Vec<Activity>| Operation {
            name: name.into(),
            flops,
            bytes,
            written_bytes: bytes / 2,
            activities,
        };
        let clear = Activity { kind: ActivityKind::Fill { bytes: 64 }, correlation: 3, ..kernel("fill", 1, 20, 5) };
        let alone = |name, blocks, correlation| Activity { correlation, ..kernel(name, blocks, 0, 5) };
        vec![
            operation("batch", 0, 0, vec![]),
            operation("conv1 forward", 8_000, 4_000, vec![alone("conv", 8, 1)]),
            operation("conv1 weight gradient", 8_000, 6_000, vec![alone("conv", 8, 2)]),
            operation("optimiser", 0, 3_000, vec![clear, alone("sgd", 4, 4)]),
        ]
    }

    /// Returns a step that begins at `at`: a copy of its settings, the graph, whose two convolutions overlap, and a
    /// copy of its result.
    fn step(at: u64, launch: u32, blocks: u32, is_numbered: bool) -> Vec<Activity> {
        let node = |a: Activity, n: u64| Activity {
            correlation: launch + 1,
            graph: Some((3, if is_numbered { n } else { 0 })),
            ..a
        };
        vec![
            copy("copy to the device", at, launch),
            node(kernel("conv", blocks, at + 1_000, 4_000), 1),
            node(Activity { stream: 9, ..kernel("conv", blocks, at + 3_000, 4_000) }, 2),
            // The driver fills memory with a kernel.
            node(kernel("memset", 1, at + 8_000, 500), 3),
            node(kernel("sgd", 4, at + 9_000, 1_000), 4),
            copy("copy to the host", at + 12_000, launch + 2),
        ]
    }

    /// Returns a cycle of steps of 20 µs each, with these activities.
    fn cycle(steps: Vec<Vec<Activity>>) -> Cycle {
        let (count, activities) = (steps.len(), steps.concat());
        let step = |i: usize| StepTime { number: 12 + i as u64, start_us: 20.0 * i as f64, duration_us: 20.0 };
        Cycle {
            number: 0,
            first_step: 12,
            source: "a test".into(),
            began_us: 0.0,
            has_device: true,
            allocated_bytes: None,
            lost: 0,
            whole_us: 20.0 * count as f64,
            steps: (0..count).map(step).collect(),
            ranges: Vec::new(),
            work: device_work(&activities, &BTreeMap::new(), Joint { ns: 0, us: 0.0 }),
            calls: Vec::new(),
            memory: Vec::new(),
            overhead: None,
            counters: Vec::new(),
            operations: None,
            notes: Vec::new(),
        }
    }

    fn two_steps(is_numbered: bool) -> Cycle {
        cycle(vec![step(2_000, 10, 8, is_numbered), step(22_000, 20, 8, is_numbered)])
    }

    #[test]
    fn the_operations_of_a_graph_have_rates() {
        // CUPTI numbers the nodes of a graph only if it saw the capture.
        for is_numbered in [true, false] {
            let mut cycle = two_steps(is_numbered);
            assert!(cycle.operations_table(10).rows.is_empty(), "nothing is known yet");
            cycle.take_apart(&operations(), Some(Dtype::F16), &[]);
            assert_eq!(cycle.notes, [""; 0]);
            let rows = cycle.operations_table(10).rows;
            let rates =
                |row: &[String]| [row[0].clone(), row[1].clone(), row[2].clone(), row[5].clone(), row[6].clone()];
            // The convolutions do 8000 FLOP with 4000 and 6000 bytes in 4 µs each, and the update moves 3000 bytes in
            // 1.5 µs. The operation without kernels is left out.
            let [flops, forward, weight, update] = [
                warpbook_charts::words::rate(2e9),
                warpbook_charts::words::bandwidth(1e9),
                warpbook_charts::words::bandwidth(1.5e9),
                warpbook_charts::words::bandwidth(2e9),
            ];
            let expect = [
                ["conv1 forward", "2", "8.00 µs", &flops, &forward],
                ["conv1 weight gradient", "2", "8.00 µs", &flops, &weight],
                ["optimiser", "2", "3.00 µs", "", &update],
            ];
            assert_eq!(rows.iter().map(|row| rates(row)).collect::<Vec<_>>(), expect.map(|row| row.map(str::to_owned)));
            // The device was busy for 21 µs in total; the copies in it belong to no operation.
            assert_eq!(rows[0][4], warpbook_charts::words::percent(8.0 / 21.0));
            let text = cycle.text();
            assert!(text.contains("operation") && text.contains("conv1 weight gradient"), "{text}");
        }
    }

    #[test]
    fn a_kernel_has_the_rates_of_the_operations_that_it_alone_makes() {
        let mut cycle = two_steps(true);
        cycle.take_apart(&operations(), None, &[]);
        let kernels = cycle.kernels(10);
        let row =
            |name: &str| kernels.rows.iter().find(|r| r[0] == name).unwrap_or_else(|| panic!("{name}: {kernels:?}"));
        // The step does 16 000 FLOP with 10 000 bytes in 8 µs.
        assert_eq!(row("conv")[5..], [warpbook_charts::words::rate(2e9), warpbook_charts::words::bandwidth(1.25e9)]);
        assert_eq!(row("sgd")[5..], ["", ""], "the update is a fill too");
    }

    #[test]
    fn a_record_has_the_breakdown_of_a_step_and_operations_in_its_timeline() {
        let mut cycle = two_steps(true);
        cycle.take_apart(&operations(), Some(Dtype::F16), &[]);
        let run = Profile { device: "a GPU".into(), cycles: vec![cycle] }.record(&Lab::open("cpu").unwrap());
        let run = warpbook_record::Run::from_json(run.to_json().unwrap().as_bytes()).unwrap();
        let [breakdown] = &run.breakdowns[..] else { panic!("{:?}", run.breakdowns) };
        assert_eq!(breakdown.whole_us, [9.0, 9.0], "from the first kernel to the end of the last");
        let told: Vec<_> = breakdown
            .operations
            .iter()
            .map(|o| (&*o.name, o.launches, o.samples_us.clone(), o.flops, o.bytes, o.dtype))
            .collect();
        let conv = |name, bytes| (name, 1, vec![4.0; 2], 8_000, bytes, Some(Dtype::F16));
        let update = ("optimiser", 2, vec![1.5; 2], 0, 3_000, None);
        assert_eq!(told, [conv("conv1 forward", 4_000), conv("conv1 weight gradient", 6_000), update]);
        let operations: Vec<&str> = run.spans[..6].iter().map(|s| s.operation.as_str()).collect();
        let expect = ["", "conv1 forward", "conv1 weight gradient", "optimiser", "optimiser", ""];
        assert_eq!(operations, expect);
        assert!(run.descriptor.charts.contains(&warpbook_record::ChartKind::Roofline));
    }

    #[test]
    fn an_evaluation_before_a_step_is_no_part_of_it() {
        let of_evaluation = |at: u64| Activity { correlation: 5, graph: Some((2, at)), ..kernel("conv", 8, at, 50) };
        let evaluation = vec![of_evaluation(500), of_evaluation(600)];
        // If the update of an unnumbered graph begins before its fill, the last kernel of a kind is the step's.
        let mut overlapping = step(2_000, 10, 8, false);
        overlapping[4].start_ns = 9_500;
        for (step, fills) in [(step(2_000, 10, 8, true), 1), (overlapping, 0)] {
            let mut cycle = cycle(vec![[evaluation.clone(), step].concat()]);
            cycle.take_apart(&operations(), None, &[]);
            assert_eq!(cycle.notes, [""; 0]);
            let names: Vec<&str> = cycle.work.iter().map(|w| w.operation.as_str()).collect();
            assert_eq!(names[..5], ["", "", "", "conv1 forward", "conv1 weight gradient"]);
            let found = cycle.operations.unwrap();
            assert_eq!(
                (found.operations[0].samples_us.as_slice(), found.operations[2].launches),
                (&[4.0][..], 1 + fills)
            );
        }
    }

    #[test]
    fn steps_that_are_not_as_the_others_are_left_out_and_said() {
        // The second step has fewer samples, and the third changed no weights.
        let steps = || vec![step(2_000, 10, 8, true), step(22_000, 20, 5, true), step(42_000, 30, 8, true)];
        let mut some = cycle(steps());
        some.take_apart(&operations(), None, &[14]);
        assert_eq!(some.operations.as_ref().map(|b| b.whole_us.len()), Some(1));
        assert!(some.work.iter().all(|w| w.start_us < 20.0 || w.operation.is_empty()));
        let said = some.notes.join(" ");
        assert!(
            said.contains("1 recorded step changed no weight") && said.contains("1 recorded step could not"),
            "{said}"
        );
        let mut none = cycle(steps());
        none.take_apart(&operations(), None, &[12, 14]);
        assert!(none.operations.is_none() && none.operations_table(10).rows.is_empty());
        assert!(none.notes[0].contains("2 recorded steps changed no weight"), "{:?}", none.notes);
    }
}
