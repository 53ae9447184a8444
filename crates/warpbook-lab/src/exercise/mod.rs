//! Exercises: tasks for learners, and the judge of their kernels and answers.
//!
//! A [`Definition`] describes an exercise: signature, sizes, a function that draws inputs and computes the reference on the host, causes of wrong answers, and
//! targets for counts. The README in this folder explains how to write one. An [`Exercise`] is the handle of a learner who works on it: it compiles tries and
//! judges them in the emulator, shows hints and the solution, and notes everything in the learner's progress file. A [`Tried`] is the result of a try.

mod answers;
mod case;
mod causes;
mod definition;
mod draw;
mod handle;
mod judge;
mod keep;
mod picture;
mod targets;
mod texts;
mod tried;

pub use case::{Case, CaseArgument, Role, Size, Tolerance, Values};
pub use causes::{Mistake, Wrong};
pub use definition::{Answer, Ceiling, Definition, FunctionCase, FunctionTask, KernelTask, Question, Task, TimeTarget};
pub use draw::Draw;
pub use handle::{Exercise, Hint, Solution, find_exercise};
pub(crate) use judge::code;
pub use judge::{LikelyCause, WrongElement};
pub use keep::{keep_guesses, progress_folder};
pub use picture::{ArrayReads, Picture, PictureCell};
pub use targets::{Bound, Costs, Target};
pub use texts::exercises_folder;
pub use tried::{Tried, TryTime};
pub use warpbook_record::{TargetCount, Verdict};

use sha2::{Digest, Sha256};
use warpbook_charts::highlight::without_comments;

/// Returns a hash of a source that ignores comments and white space.
fn source_hash(source: &str) -> u64 {
    let code: String = without_comments(source).split_whitespace().collect();
    hash_of_bytes(code.as_bytes())
}

/// Returns the first 8 bytes of the SHA-256 hash of a text.
fn hash_of_bytes(bytes: &[u8]) -> u64 {
    let digest = Sha256::digest(bytes);
    digest.iter().take(8).fold(0, |hash, byte| hash << 8 | u64::from(*byte))
}
