use std::fmt;
use std::path::{Path, PathBuf};

/// Result of reading data.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The reason why data cannot be used. Each error message says what to do.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file is not in the expected format.
    #[error("{}, byte {offset}: {why}", path.display())]
    Format {
        /// Path of the file, or of the file within an archive.
        path: PathBuf,
        /// Byte offset of the error; for a compressed file, this is an offset into the unpacked data.
        offset: u64,
        /// Describes the expected content and the content that was found.
        why: String,
    },
    /// A file or folder cannot be read.
    #[error("{} cannot be read: {why}", path.display())]
    Read {
        /// Path of the file or folder.
        path: PathBuf,
        /// Reason that the operating system gives.
        why: String,
    },
    /// The files of a data set were not found.
    #[error(
        "{}The files of {name} were not found {}. Get them with `warpbook data fetch {name}`, or name the folder that holds them with \
         --data DIR or WARPBOOK_DATA; `synthetic` needs no files.",
        misnamed.as_ref().map_or(String::new(), |p| format!("WARPBOOK_DATA names {}, which is not a folder. ", p.display())),
        Places(places)
    )]
    Missing {
        /// Name of the data set.
        name: &'static str,
        /// The folders that were searched.
        places: Vec<PathBuf>,
        /// The path in WARPBOOK_DATA, if it is one of these folders but is not a folder.
        misnamed: Option<PathBuf>,
    },
    /// The arguments are wrong: arrays that do not match, an unknown name, or a part that cannot be split off.
    #[error("{0}")]
    Setting(String),
}

impl Error {
    pub(crate) fn format(path: &Path, offset: u64, why: impl Into<String>) -> Self {
        Self::Format { path: path.to_owned(), offset, why: why.into() }
    }

    pub(crate) fn read(path: &Path, why: impl fmt::Display) -> Self {
        Self::Read { path: path.to_owned(), why: why.to_string() }
    }
}

struct Places<'a>(&'a [PathBuf]);

impl fmt::Display for Places<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            [] => f.write_str("(no cache folder is known)"),
            places => {
                let places: Vec<_> = places.iter().map(|p| p.display().to_string()).collect();
                write!(f, "in {}", places.join(" or "))
            }
        }
    }
}
