use std::path::PathBuf;

/// An error of the lab. Each message says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The device reported an error.
    #[error(transparent)]
    Device(#[from] warpbook_device::Error),
    /// Training failed.
    #[error(transparent)]
    Train(#[from] warpbook_nn::train::TrainError),
    /// A setting of an experiment is invalid.
    #[error("{0}")]
    Setting(String),
    /// A kernel whose blocks wait for each other timed out.
    #[error(
        "{rung} gave up in epoch {epoch}: a block waited {limit_s} s for the sums of another. Its blocks have to run all at once; \
         if other programs use this GPU, or a debugger slows it, stop them and run again. 04_fused_graph needs no such barrier."
    )]
    GaveUp {
        /// Id of the rung.
        rung: String,
        /// Number of the epoch, from 1.
        epoch: u32,
        /// The time limit that was exceeded, in seconds.
        limit_s: f64,
    },
    /// The blocks of a kernel that wait for each other do not fit on the device.
    #[error(
        "{rung} needs {blocks} blocks at once, and this GPU has room for {room}. Choose a smaller tile, or run 04_fused_graph, \
         which needs no such room."
    )]
    NoRoom {
        /// Id of the rung.
        rung: String,
        /// Number of blocks in the launch.
        blocks: u32,
        /// Number of blocks that can be resident at once.
        room: u32,
    },
    /// A kernel computed a wrong product; the text says where, and names the most likely reason.
    #[error("{0}")]
    WrongProduct(String),
    /// There is no rung with this name.
    #[error("There is no rung `{name}`. {}", did_you_mean(.nearest))]
    UnknownRung {
        /// The name that was requested.
        name: String,
        /// The names that are most similar.
        nearest: Vec<String>,
    },
    /// A file cannot be written.
    #[error("{path} cannot be written: {why}. Nothing was lost from memory; choose another place and write again.")]
    Write {
        /// The file that cannot be written.
        path: PathBuf,
        /// The operating system's error.
        why: std::io::Error,
    },
    /// A file cannot be read.
    #[error("{path} cannot be read: {why}.")]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// The operating system's error.
        why: std::io::Error,
    },
    /// A file is not a record.
    #[error("{path}: {why}")]
    NotARecord {
        /// Path of the file.
        path: PathBuf,
        /// The error of the parser.
        why: warpbook_record::ReadError,
    },
    /// A chart cannot be drawn.
    #[error("{0}")]
    Chart(#[from] warpbook_charts::ChartError),
}

/// Result with the lab's error type.
pub type Result<T, E = Error> = std::result::Result<T, E>;

fn did_you_mean(nearest: &[String]) -> String {
    let quoted: Vec<String> = nearest.iter().map(|n| format!("`{n}`")).collect();
    match quoted.as_slice() {
        [] => String::new(),
        [one] => format!("Did you mean {one}?"),
        [rest @ .., last] => format!("Did you mean {} or {last}?", rest.join(", ")),
    }
}
