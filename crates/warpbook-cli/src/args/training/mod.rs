//! Options of `warpbook train`, `warpbook speedrun` and `warpbook scaling`.

mod command;
mod ranks;
mod scaling;
mod schedule;
mod settings;
mod speedrun;
mod train;
mod whole;

pub use command::CommandLine;
pub use ranks::{RanksArgs, RunsOn};
pub use scaling::ScalingArgs;
pub use settings::TrainingArgs;
pub use speedrun::SpeedrunArgs;
pub use train::{TrainArgs, WatchedArgs};
pub use whole::WholeArgs;

pub(super) use scaling::{SCALING_ABOUT, SCALING_EXAMPLES};
pub(super) use speedrun::{SPEEDRUN_ABOUT, SPEEDRUN_EXAMPLES};
pub(super) use train::TRAIN_EXAMPLES;
pub(super) use whole::OPTIONS_OF_WHOLE_TRAININGS;
