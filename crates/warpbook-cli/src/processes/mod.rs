//! Runs the program as several processes: as ranks that work together, or as trainings one after the other.

mod program;
mod rank;

pub use program::{TemporaryFolder, count_request, count_requests_to_end, this_program, this_program_again};
pub use rank::{RankSettings, bucket_bytes, device_of, wire, work};
