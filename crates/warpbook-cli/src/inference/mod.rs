//! The commands `warpbook freeze`, `warpbook eval` and `warpbook predict`.

mod evaluate;
mod freeze;
mod predict;
mod speed;

pub use evaluate::eval;
pub use freeze::freeze;
pub use predict::predict;
