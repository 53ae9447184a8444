//! Commands that run experiments or their kernels.

mod attempt;
mod progress;
mod run;
mod survey;
mod tune;
mod xray;

pub use attempt::{attempt, work};
pub use run::start as run;
pub use survey::matmul as survey_matmul;
pub use tune::matmul as tune_matmul;
pub use xray::xray;
