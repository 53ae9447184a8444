//! Rules for files that a command writes: no input is overwritten, nor a file that was not named, and no finished result is lost.

mod claims;
mod record_writer;
mod reserved;
mod writable;

pub use claims::{Files, Kind, trace_of};
pub use record_writer::{RecordWriter, print_written, write_finished};
pub use reserved::{ReservedNames, exit_now, reserve};
