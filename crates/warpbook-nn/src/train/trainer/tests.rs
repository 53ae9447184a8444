use super::*;
use crate::network::{Network, batch_norm, flatten, linear};
use crate::train::Precision;
use crate::train::engine::{Ahead, TrainedSteps};
use std::sync::Mutex;
use warpbook_data::synthetic_digits;
use warpbook_device::{CudaDevice, Stream, testing};

/// A CPU engine that queues steps like a GPU engine, and records how many were queued each time.
#[derive(Debug)]
struct Queueing(CpuTraining, Arc<Mutex<Vec<usize>>>);

/// A CPU engine that takes a while to prepare a training, like a GPU engine that compiles, and records in which order it was called.
#[derive(Debug)]
struct Planning(CpuTraining, Arc<Mutex<Vec<String>>>);

/// Time that a [`Planning`] engine takes to prepare a training.
const PLANNING: Duration = Duration::from_millis(500);

macro_rules! as_on_the_cpu {
    () => {
        fn prepare_steps(&mut self, batches: &Batches<'_>) -> Result<(), TrainError> {
            self.0.prepare_steps(batches)
        }

        fn queue_step(&mut self) -> Result<(), TrainError> {
            self.0.queue_step()
        }

        fn wait(&mut self) -> Result<(), TrainError> {
            self.0.wait()
        }

        fn step_outcomes(&mut self, count: usize) -> Result<Vec<crate::train::StepOutcome>, TrainError> {
            self.0.step_outcomes(count)
        }

        fn stream(&self) -> Option<Arc<Stream>> {
            None
        }

        fn weights(&self) -> Result<Weights, TrainError> {
            self.0.weights()
        }

        fn gradients(&self) -> Result<Weights, TrainError> {
            self.0.gradients()
        }

        fn state(&self) -> Result<State, TrainError> {
            self.0.state()
        }

        fn restore(&mut self, state: &State) -> Result<(), TrainError> {
            self.0.restore(state)
        }

        fn peak_bytes(&self) -> u64 {
            self.0.peak_bytes()
        }
    };
}

impl Engine for Queueing {
    fn steps_at_once(&self) -> usize {
        5
    }

    fn train(&mut self, batches: &Batches<'_>) -> Result<TrainedSteps, TrainError> {
        self.1.lock().unwrap().push(batches.learning_rates.len());
        self.0.train(batches)
    }

    fn evaluate(&mut self, set: Samples<'_>, part: std::ops::Range<usize>) -> Result<Score, TrainError> {
        self.0.evaluate(set, part)
    }

    as_on_the_cpu!();
}

impl Engine for Planning {
    fn steps_at_once(&self) -> usize {
        2
    }

    fn make_ready(&mut self, ahead: &Ahead<'_>) -> Result<bool, TrainError> {
        std::thread::sleep(PLANNING);
        let Ahead { steps, batches, test, .. } = ahead;
        let test = test.as_ref().map(|(_, part)| part.clone());
        self.1.lock().unwrap().push(format!("ready for {steps:?} of {}, {}; {test:?}", batches[0].0, batches[1].0));
        Ok(true)
    }

    fn train(&mut self, batches: &Batches<'_>) -> Result<TrainedSteps, TrainError> {
        self.1.lock().unwrap().push(format!("{} steps", batches.learning_rates.len()));
        self.0.train(batches)
    }

    fn evaluate(&mut self, set: Samples<'_>, part: std::ops::Range<usize>) -> Result<Score, TrainError> {
        self.1.lock().unwrap().push(format!("evaluation of {part:?}"));
        self.0.evaluate(set, part)
    }

    as_on_the_cpu!();
}

fn recipe() -> Recipe {
    let network = Network::new([1, 28, 28], [flatten(), linear(10)]).unwrap();
    Recipe { network, batch: 8, epochs: 2, learning_rate: 0.01, ..Recipe::mnist() }
}

#[test]
fn losses_are_read_as_often_as_is_asked() {
    let digits = synthetic_digits(56, 8, 1);
    let made = |every: Option<u64>| {
        let mut trainer = Trainer::new(recipe(), &digits.train, None).unwrap();
        let (queued, mut losses) = (Arc::new(Mutex::new(Vec::new())), Vec::new());
        let initial = recipe().initial_weights(&digits.train).unwrap();
        trainer.engine = Box::new(Queueing(CpuTraining::new(&recipe(), 8, &initial, None).unwrap(), queued.clone()));
        if let Some(every) = every {
            trainer = trainer.read_losses_every(every);
        }
        let listener = &mut |event: Event| {
            if let Event::Step { loss, .. } = event {
                losses.push(loss);
            }
            Flow::Continue
        };
        trainer.train(&digits.train, &digits.test, 100, listener).unwrap();
        let queued = queued.lock().unwrap().clone();
        (queued, losses)
    };
    let (queued, losses) = made(None);
    assert_eq!((queued, losses.len()), (vec![5, 2, 5, 2], 14));
    assert_eq!(made(Some(1)), (vec![1; 14], losses.clone()));
    assert_eq!(made(Some(0)).0, vec![1; 14], "at least one");
    assert_eq!(made(Some(3)), (vec![3, 3, 1, 3, 3, 1], losses.clone()));
    assert_eq!(made(Some(99)).0, vec![5, 2, 5, 2]);
}

/// Kernels are timed and compiled before an epoch's clock starts, for the smaller last batch and the evaluation too.
#[test]
fn all_is_planned_before_the_clock_of_an_epoch_starts() {
    let digits = synthetic_digits(20, 6, 1);
    let made = |recipe: Recipe, until: u64| {
        let initial = recipe.initial_weights(&digits.train).unwrap();
        let (calls, mut events) = (Arc::new(Mutex::new(Vec::new())), Vec::new());
        let mut trainer = Trainer::new(recipe.clone(), &digits.train, None).unwrap();
        trainer.engine = Box::new(Planning(CpuTraining::new(&recipe, 8, &initial, None).unwrap(), calls.clone()));
        let listener = &mut |event: Event| {
            events.push(event.clone());
            // The answer to the first event does not end a training that has made no step.
            if matches!(event, Event::Ready { .. }) { Flow::Stop } else { Flow::Continue }
        };
        let ended = trainer.train_until(until, &digits.train, &digits.test, 100, listener).unwrap();
        let calls = calls.lock().unwrap().clone();
        (ended, calls, events)
    };
    let (ended, calls, events) = made(recipe(), u64::MAX);
    let epoch = ["2 steps", "1 steps", "evaluation of 0..6"];
    assert_eq!((ended, &*calls[0]), (Ended::Finished, "ready for 0..6 of 8, 4; Some(0..6)"));
    assert_eq!(calls[1..], [epoch, epoch].concat());
    let Event::Ready { seconds } = events[0] else { panic!("{events:?}") };
    assert!(seconds >= PLANNING.as_secs_f64(), "{seconds}");
    let epochs = events.iter().filter_map(|e| if let Event::Epoch { seconds, .. } = e { Some(*seconds) } else { None });
    let epochs: Vec<f64> = epochs.collect();
    assert!(epochs.len() == 2 && epochs.iter().all(|s| *s < PLANNING.as_secs_f64()), "{epochs:?}");
    // Without an evaluation none is prepared, and without a step nothing is.
    assert_eq!(made(recipe(), 2).1, ["ready for 0..2 of 8, 4; None", "2 steps"]);
    assert_eq!(made(recipe(), 0).1, Vec::<String>::new());
}

#[test]
fn a_checkpoint_that_cannot_be_written_goes_elsewhere_and_comes_back() {
    let digits = synthetic_digits(24, 8, 1);
    let folder = tempfile::tempdir().unwrap();
    let (place, away) = (folder.path().join("place"), folder.path().join("away"));
    let path = place.join("c.st");
    let kept = |comes_back: bool| {
        let mut trainer = Trainer::new(recipe(), &digits.train, None).unwrap().checkpoint(&path);
        let mut told = Vec::new();
        let ended = trainer.train(&digits.train, &digits.test, 100, &mut |event| {
            match event {
                // The test replaces the folder with a file.
                Event::Step { step: 2, .. } => {
                    std::fs::rename(&place, &away).unwrap();
                    std::fs::write(&place, "").unwrap();
                }
                Event::Step { step: 4, .. } if comes_back => {
                    std::fs::remove_file(&place).unwrap();
                    std::fs::rename(&away, &place).unwrap();
                }
                Event::NotKept { why, instead } => told.push((why, instead)),
                _ => {}
            }
            Flow::Continue
        });
        assert!(matches!(ended, Ok(Ended::Finished)), "{ended:?}");
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].0.contains("c.st"), "{told:?}");
        (trainer.checkpoint_file().unwrap().to_owned(), told[0].1.clone().unwrap())
    };
    let (at, elsewhere) = kept(true);
    assert!(at == path && path.is_file() && !elsewhere.exists());
    let (at, elsewhere) = kept(false);
    assert!(at == elsewhere && elsewhere.is_file());
    assert!(std::fs::read(elsewhere).unwrap() == std::fs::read(away.join("c.st")).unwrap());
    std::fs::remove_file(at).unwrap();
}

#[test]
fn one_row_for_a_normalisation_is_known_before_the_first_step() {
    let network = Network::new([1, 28, 28], [flatten(), linear(10), batch_norm()]).unwrap();
    let recipe = Recipe { network, batch: 8, epochs: 2, learning_rate: 0.01, ..Recipe::mnist() };
    let refused = |recipe: Recipe, samples: usize| {
        let digits = synthetic_digits(samples, 8, 1);
        let mut trainer = Trainer::new(recipe, &digits.train, None).unwrap();
        let done = trainer.train(&digits.train, &digits.test, 100, &mut |_| Flow::Continue);
        (done.err().map(|why| why.to_string()), trainer.step())
    };
    let check = |recipe: Recipe, samples: usize, part: &str| {
        let (why, steps) = refused(recipe, samples);
        assert!(why.as_ref().is_some_and(|why| why.contains(part)) && steps == 0, "{why:?}");
    };
    check(recipe.clone(), 25, "The last batch of an epoch has 1 sample (25 samples in batches of 8), so bn");
    check(
        Recipe { accumulate: 8, ..recipe.clone() },
        24,
        "Each batch has 8 samples in 8 parts (24 samples in batches of 8)",
    );
    check(Recipe { accumulate: 2, ..recipe.clone() }, 27, "has 3 samples in 2 parts");
    check(Recipe { batch: 1, ..recipe.clone() }, 8, "Each batch has 1 sample (8 samples in batches of 1), so bn");
    // The training ends before the batch that has only one sample.
    assert_eq!(refused(Recipe { steps: Some(3), ..recipe.clone() }, 25), (None, 3));
    assert_eq!(refused(recipe, 26), (None, 8));
}

#[test]
fn a_gpu_that_reads_every_loss_stops_at_once() {
    let Some(device) = testing::gpu("a_gpu_that_reads_every_loss_stops_at_once") else { return };
    let digits = synthetic_digits(56, 8, 1);
    let made = |device: &CudaDevice, every: u64| {
        let place = Place::Cuda(device.clone(), crate::train::CudaOptions::new(Precision::Fp32));
        let trainer = Trainer::on(&place, recipe(), &digits.train, None).unwrap();
        let mut trainer = trainer.read_losses_every(every);
        trainer.train(&digits.train, &digits.test, 100, &mut |_| Flow::Stop).unwrap();
        trainer.step()
    };
    assert_eq!((made(&device, 1), made(&device, 3), made(&device, 1000)), (1, 3, 7));
}
