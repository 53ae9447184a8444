//! Rules for files that a command writes: never into what it reads, never over what nobody named, and nothing finished is lost on the way.

mod claims;
mod record_writer;
mod reserved;
mod writable;

pub use claims::{Files, Kind, trace_of};
pub use record_writer::{RecordWriter, print_written, write_finished};
pub use reserved::{ReservedNames, exit_now, reserve};
