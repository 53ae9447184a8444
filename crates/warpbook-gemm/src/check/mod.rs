//! Products checked element by element: on a GPU by the judge, and a learner's kernel before it is timed.

pub(crate) mod flaw;
pub(crate) mod judge;
mod judge_launch;
pub(crate) mod rehearsal;
