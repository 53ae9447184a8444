//! Tests ranks as threads and as processes, in a single executable.

mod collectives;
mod processes;
