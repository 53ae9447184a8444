//! Checks products element by element: the judge on a GPU, the rehearsal for a learner's kernel before it is timed, and
//! [`own_product`] for a kernel that will compute linear layers.

pub(crate) mod flaw;
pub(crate) mod judge;
mod judge_launch;
pub(crate) mod own_product;
pub(crate) mod rehearsal;
