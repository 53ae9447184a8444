use std::fmt;
use std::path::{Path, PathBuf};

/// The result of reading data.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why data cannot be used, each with what to do about it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file is not what it should be.
    #[error("{}, byte {offset}: {why}", path.display())]
    Format {
        /// Which file, or which file of which archive.
        path: PathBuf,
        /// Where in it; of a compressed file, in what it unpacks to.
        offset: u64,
        /// What was expected and what was found.
        why: String,
    },
    /// A file or folder cannot be read.
    #[error("{} cannot be read: {why}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// The system's reason.
        why: String,
    },
    /// The files of a data set are nowhere.
    #[error(
        "{}The files of {name} were not found {}. Get them with `warpbook data fetch {name}`, or name the folder they lie in with \
         --data DIR or WARPBOOK_DATA; `synthetic` needs no files.",
        misnamed.as_ref().map_or(String::new(), |p| format!("WARPBOOK_DATA names {}, which is not a folder. ", p.display())),
        Places(places)
    )]
    Missing {
        /// The set's name.
        name: &'static str,
        /// The places that were searched.
        places: Vec<PathBuf>,
        /// The path in WARPBOOK_DATA, if it is one of these places and not a folder.
        misnamed: Option<PathBuf>,
    },
    /// Arrays that do not fit together, an unknown name, a part that cannot be split off.
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
