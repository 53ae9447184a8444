//! Rules for output files: a command overwrites neither an input nor a file that was not named, and loses no finished
//! result.

mod claims;
mod record_writer;
mod reserved;
mod writable;

pub use claims::{Files, Kind, trace_of};
pub use record_writer::{RecordWriter, print_written, write_finished};
pub use reserved::{ReservedNames, exit_now, reserve};
