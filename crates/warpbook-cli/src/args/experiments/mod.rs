//! Options of the commands that run experiments or their kernels.

mod attempt;
mod run;
mod survey;
mod tune;
mod xray;

pub use attempt::{AttemptArgs, WorkArgs};
pub use run::{Chosen, RunArgs};
pub use survey::{SurveyArgs, SurveyCommand, SurveyMatmulArgs};
pub use tune::{TuneArgs, TuneCommand, TuneMatmulArgs};
pub use xray::{ChosenXray, XrayArgs};

pub(super) use attempt::{ATTEMPT_ABOUT, ATTEMPT_EXAMPLES};
pub(super) use run::{RUN_EXAMPLES, chosen, with_experiments};
pub(super) use survey::SURVEY_EXAMPLES;
pub(super) use tune::TUNE_EXAMPLES;
pub(super) use xray::{XRAY_ABOUT, XRAY_EXAMPLES, chosen as chosen_xray, with_experiments as xray_with_experiments};
