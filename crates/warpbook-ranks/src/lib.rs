//! Ranks, the processes that work on one training: how they start, find each other, communicate, and end together.
//!
//! [`Placement`] is a rank's place, as given by its launcher: Warpbook's ([`Launch`]), torchrun, srun or mpirun.
//! [`Group::join`] is the rendezvous: all ranks meet at rank 0, and heartbeats then watch them. [`Collective`] has
//! their joint operations; [`Group`] runs them in host memory over TCP. NCCL is in `warpbook-device`, and its ranks
//! also meet here.
//!
//! The crate knows no network, no data and no GPU. It is the only one that opens sockets between ranks or starts them
//! as processes.
#![forbid(unsafe_code)]

mod collective;
mod error;
mod group;
mod launch;
mod placement;
mod reduce;
mod rendezvous;
mod ring;
mod shard;
mod watch;
mod wire;

pub use collective::{Collective, Reduce, Wire};
pub use error::Error;
pub use group::{Aborter, Alone, Group, Limits};
pub use launch::{ENDED_BY_ANOTHER, Launch, Line, Outcome, end_with_launcher, launched_listener};
pub use placement::{Launcher, Placement};
pub use shard::{Shard, shard};

/// The result of joining, launching and collectives.
pub type Result<T> = std::result::Result<T, Error>;
