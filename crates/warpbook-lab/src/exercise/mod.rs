//! Exercises: what a learner's kernel is asked for, and how it is judged.
//!
//! A [`Definition`] is an exercise: signature, sizes, a function that draws inputs and computes the reference on the host, causes of wrong answers,
//! and targets in counts. How one is written is in this folder's README.

mod case;
mod causes;
mod definition;
mod draw;
mod targets;

pub use case::{Case, CaseArgument, Role, Size, Tolerance, Values};
pub use causes::{Mistake, Wrong};
pub use definition::{Answer, Ceiling, Definition, FunctionCase, FunctionTask, KernelTask, Question, Task, TimeTarget};
pub use draw::Draw;
pub use targets::{Bound, Costs, Target};
