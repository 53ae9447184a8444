//! Tests of ranks as threads and as processes, in one executable.

mod collectives;
mod processes;
