//! Rules for output files: a command never overwrites an input or a file that the user did not name, and never loses a
//! finished result.

mod claims;
mod record_writer;
mod reserved;
mod writable;

pub use claims::{Files, Kind, trace_of};
pub use record_writer::{RecordWriter, print_written, write_finished};
pub use reserved::{ReservedNames, exit_now, reserve};
