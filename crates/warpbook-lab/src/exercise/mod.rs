//! Exercises: what a learner's kernel is asked for, and how it is judged.
//!
//! A [`Definition`] is an exercise: signature, sizes, a function that draws inputs and computes the reference on the host, causes of wrong answers,
//! and targets in counts. How one is written is in this folder's README. An [`Exercise`] is the handle of a person who works on it: it compiles and
//! judges tries in the emulator, shows hints and the solution, and notes all of it in the person's progress file. A [`Tried`] is a try's result.

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
pub use picture::{Picture, PictureCell};
pub use targets::{Bound, Costs, Target};
pub use texts::exercises_folder;
pub use tried::{Tried, TryTime};
pub use warpbook_record::{TargetCount, Verdict};

use sha2::{Digest, Sha256};
use warpbook_charts::highlight::without_comments;

/// Returns a hash of a source without its comments and white space.
fn source_hash(source: &str) -> u64 {
    let code: String = without_comments(source).split_whitespace().collect();
    hash_of_bytes(code.as_bytes())
}

/// Returns the first 8 bytes of a text's SHA-256.
fn hash_of_bytes(bytes: &[u8]) -> u64 {
    let digest = Sha256::digest(bytes);
    digest.iter().take(8).fold(0, |hash, byte| hash << 8 | u64::from(*byte))
}
