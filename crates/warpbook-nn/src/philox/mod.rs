//! Philox4x32-10 random numbers that are the same bits on the processor and on a GPU.
//!
//! Source: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011. Gaussian numbers are
//! made by Box and Muller's transform (1958) of single IEEE operations; permutations by a Feistel network (Luby and
//! Rackoff, 1988) that is walked until it falls into the range (Black and Rogaway, 2002).

mod cpu;
mod cuda;

pub use cpu::{gaussian, permute, philox4x32};
pub use cuda::{gaussians, permutation};
