use std::path::PathBuf;

/// What can go wrong in the lab, each with what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The device's.
    #[error(transparent)]
    Device(#[from] warpbook_device::Error),
    /// A setting of an experiment that makes no sense.
    #[error("{0}")]
    Setting(String),
    /// A rung that is not there.
    #[error("There is no rung `{name}`. {}", did_you_mean(.nearest))]
    UnknownRung {
        /// What was asked for.
        name: String,
        /// The nearest names.
        nearest: Vec<String>,
    },
    /// A file that cannot be written.
    #[error("{path} cannot be written: {why}. Nothing was lost from memory; choose another place and write again.")]
    Write {
        /// Which file.
        path: PathBuf,
        /// Why.
        why: std::io::Error,
    },
    /// A file that cannot be read.
    #[error("{path} cannot be read: {why}.")]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        why: std::io::Error,
    },
    /// A file that is no record.
    #[error("{path}: {why}")]
    NotARecord {
        /// Which file.
        path: PathBuf,
        /// Why.
        why: warpbook_record::ReadError,
    },
    /// A chart that cannot be drawn.
    #[error("{0}")]
    Chart(#[from] warpbook_charts::ChartError),
}

/// The usual result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

fn did_you_mean(nearest: &[String]) -> String {
    let quoted: Vec<String> = nearest.iter().map(|n| format!("`{n}`")).collect();
    match quoted.as_slice() {
        [] => String::new(),
        [one] => format!("Did you mean {one}?"),
        [rest @ .., last] => format!("Did you mean {} or {last}?", rest.join(", ")),
    }
}
