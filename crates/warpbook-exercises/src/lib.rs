//! The exercises of the workshop: signatures, inputs, host references, causes of wrong answers, and target counts.
//!
//! Tasks, stubs, hints, solutions and wrong answers are files under `notebooks/exercises/`, which are read at run time. The crate `warpbook_lab` defines the
//! types, and compiles, runs and judges a learner's kernel.
#![forbid(unsafe_code)]

mod causes;
mod first;
mod memory;
mod products;
mod shared;

use warpbook_lab::exercise::Definition;

/// Returns all exercises, in the order of their ids. An id is never reused for another exercise.
#[must_use]
pub fn all() -> Vec<Definition> {
    vec![
        first::FIRST_KERNEL,
        first::GUARD,
        first::MANY_BLOCKS,
        first::TWO_DIMENSIONS,
        first::SAXPY,
        first::GRID_STRIDE,
        first::HISTOGRAM,
        first::BARRIER,
        memory::COALESCED,
        memory::STRUCT_OF_ARRAYS,
        memory::SORTED_WORK,
        shared::WARP_SUM,
        shared::SUM,
        shared::STENCIL,
        shared::TRANSPOSE,
        shared::SCAN,
        products::PRODUCT,
        products::TILES,
        shared::SOFTMAX,
        first::QUIZ,
    ]
}
