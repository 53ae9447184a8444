//! Tests of ranks as threads and as processes, in one binary.

mod collectives;
mod processes;
