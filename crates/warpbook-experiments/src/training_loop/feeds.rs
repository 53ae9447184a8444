//! Feeds, which move batches and losses between host and GPU, and complete training runs that use them.

use crate::training::failure;
use warpbook_data::Splits;
use warpbook_device::Cancel;
use warpbook_lab::{Lab, Result};
use warpbook_nn::train::{
    CudaOptions, Ended, Flow, Loader, Place, Precision, Recipe, Residency, Score, TrainError, Trainer,
};

/// The way in which batches and losses move between host and GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Feed {
    /// All images are on the GPU, and losses are read after many steps.
    Resident,
    /// Workers gather batches, which are copied one by one; losses are read after many steps.
    Loader,
    /// Batches are loaded as with `Loader`, and every loss is read before the next step begins.
    LoaderAndLosses,
}

impl Feed {
    /// All feeds, in the order of their declaration.
    pub const ALL: [Self; 3] = [Self::Resident, Self::Loader, Self::LoaderAndLosses];

    fn loader(self, workers: usize) -> Loader {
        let resident = if self == Self::Resident { Residency::On } else { Residency::Off };
        Loader { resident, workers, ..Loader::default() }
    }
}

/// A rung of this ladder: a precision and a feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Way {
    /// Id of the rung.
    pub id: &'static str,
    /// Precision of the training.
    pub precision: Precision,
    /// Feed of the training.
    pub feed: Feed,
}

/// The rungs of the ladder, from the loop that most people write first to a loop that never waits.
pub const WAYS: [Way; 6] = [
    Way { id: "losses_fp32", precision: Precision::Fp32, feed: Feed::LoaderAndLosses },
    Way { id: "loader_fp32", precision: Precision::Fp32, feed: Feed::Loader },
    Way { id: "resident_fp32", precision: Precision::Fp32, feed: Feed::Resident },
    Way { id: "losses_amp_fp16", precision: Precision::AmpFp16, feed: Feed::LoaderAndLosses },
    Way { id: "loader_amp_fp16", precision: Precision::AmpFp16, feed: Feed::Loader },
    Way { id: "resident_amp_fp16", precision: Precision::AmpFp16, feed: Feed::Resident },
];

impl Way {
    /// Returns the way whose rung has this id.
    pub fn by_id(id: &str) -> Option<Self> {
        WAYS.into_iter().find(|way| way.id == id)
    }
}

/// Returns the place for a training loop: the lab's GPU with this feed. On the CPU all feeds are the same.
///
/// # Errors
/// If the lab's device does not support this precision.
pub fn place(lab: &Lab, (precision, feed): (Precision, Feed), workers: usize) -> Result<Place> {
    Ok(match Place::new(lab.device(), precision).map_err(failure)? {
        Place::Cuda(device, options) => Place::Cuda(device, CudaOptions { loader: feed.loader(workers), ..options }),
        Place::Cpu => Place::Cpu,
    })
}

/// A complete training run that is prepared once and then runs repeatedly from the same initial weights.
pub struct WholeLoop<'s> {
    trainer: Trainer,
    splits: &'s Splits,
    /// Losses of all steps in the last training run.
    losses: Vec<f64>,
}

impl<'s> WholeLoop<'s> {
    /// Allocates memory, compiles kernels and captures graphs. With a resident feed, the images are copied to the GPU.
    /// Losses are read after at most `read_every` steps; with `None`, the device decides.
    ///
    /// # Errors
    /// If the recipe does not suit these images, or the training does not fit into memory.
    pub fn new(place: &Place, recipe: Recipe, splits: &'s Splits, read_every: Option<u64>) -> Result<Self> {
        let mut trainer = Trainer::on(place, recipe, &splits.train, None).map_err(failure)?;
        if let Some(steps) = read_every {
            trainer = trainer.read_losses_every(steps);
        }
        trainer.prepare_whole_training(&splits.train, &splits.test).map_err(failure)?;
        Ok(Self { trainer, splits, losses: Vec::new() })
    }

    /// Restores the initial weights.
    ///
    /// # Errors
    /// If the device reports an error.
    pub fn restart(&mut self) -> std::result::Result<(), TrainError> {
        self.losses.clear();
        self.trainer.restart(&self.splits.train)
    }

    /// Runs all steps of all epochs and waits for the last one, without evaluation.
    ///
    /// # Errors
    /// If a loss is not finite, a setting of the schedule is out of range, or the device reports an error.
    pub fn run(&mut self, cancel: &Cancel) -> std::result::Result<Ended, TrainError> {
        let losses = &mut self.losses;
        self.trainer.train_remaining_steps(&self.splits.train, &mut |outcomes| {
            losses.extend(outcomes.iter().map(|o| o.loss));
            if cancel.is_cancelled() { Flow::Stop } else { Flow::Continue }
        })
    }

    /// Classifies the test images and returns the score.
    ///
    /// # Errors
    /// If the images have another shape than the network's input, or the device reports an error.
    pub fn test(&mut self) -> std::result::Result<Score, TrainError> {
        self.trainer.evaluate(&self.splits.test)
    }

    /// Returns the number of steps completed so far.
    pub fn steps(&self) -> u64 {
        self.trainer.step()
    }

    /// Returns the mean loss of each epoch.
    pub fn losses(&self) -> Vec<f64> {
        let per_epoch = self.splits.train.len().div_ceil(self.trainer.recipe().batch).max(1);
        self.losses.chunks(per_epoch).map(|epoch| epoch.iter().sum::<f64>() / epoch.len() as f64).collect()
    }

    /// Returns the peak number of bytes allocated on a GPU; `None` on the CPU.
    pub fn peak_bytes(&self) -> Option<u64> {
        matches!(self.trainer.place(), Place::Cuda(..)).then(|| self.trainer.bytes())
    }
}
