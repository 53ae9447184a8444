//! Ranks are the processes that work on one training run. This crate covers how they start, find each other,
//! communicate, and end together.
//!
//! [`Placement`] describes a rank's place, as given by its launcher: Warpbook's own ([`Launch`]), torchrun, srun or
//! mpirun. [`Group::join`] is the rendezvous: all ranks meet at rank 0, and from then on heartbeats watch them.
//! [`Collective`] declares the ranks' joint operations, which [`Group`] runs in host memory over TCP. NCCL is in
//! `warpbook-device`; ranks that use it also meet here.
//!
//! This crate depends on no neural network, data set or GPU. It is the only crate that opens sockets between ranks or
//! starts them as processes.
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

/// The result type of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;
