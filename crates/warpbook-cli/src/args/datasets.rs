//! Options of `warpbook data`.

use clap::{Args, Subcommand};
use std::path::PathBuf;

pub(super) const DATA_EXAMPLES: &str = "\
Examples:
  warpbook data list
  warpbook data fetch mnist                  into the cache, or into WARPBOOK_DATA/mnist
  warpbook data fetch cifar10 --dir cifar
  WARPBOOK_MIRROR=http://server/data/ warpbook data fetch mnist
                                             from a server of your own, as in a class

Files are compared with their published SHA-256. What breaks off goes on from there the next time.
Exit code 0: all files are there and as published; 2: they are not.";

#[derive(Debug, Args)]
pub struct DataArgs {
    #[command(subcommand)]
    pub what: DataCommand,
}

#[derive(Debug, Subcommand)]
pub enum DataCommand {
    /// Download the files of a data set and check them.
    #[command(after_help = DATA_EXAMPLES)]
    Fetch(FetchArgs),
    /// List the data sets and where their files are.
    #[command(after_help = DATA_EXAMPLES)]
    List,
}

#[derive(Debug, Args)]
pub struct FetchArgs {
    /// Data set: mnist, fashion-mnist or cifar10.
    pub name: String,
    /// Folder for its files; created if missing. [default: the set's name in WARPBOOK_DATA, or in data in the cache]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Your own mirror instead of the public ones, e.g. a class's server: the URL of a folder with the files, http or https; several with commas.
    #[arg(long, value_name = "URL[,..]", value_delimiter = ',', env = "WARPBOOK_MIRROR")]
    mirror: Vec<String>,
    /// Try the next mirror after this many seconds without data.
    #[arg(long, value_name = "SECONDS", default_value_t = 20.0, allow_hyphen_values = true)]
    timeout: f64,
}

impl FetchArgs {
    /// Returns the user's mirrors, each ending in a slash; an empty list means that the public mirrors are used.
    pub fn mirrors(&self) -> Result<Vec<String>, String> {
        let given = self.mirror.iter().map(|m| m.trim()).filter(|m| !m.is_empty());
        let mirror = |m: &str| match m.starts_with("https://") || m.starts_with("http://") {
            true => Ok(format!("{}/", m.trim_end_matches('/'))),
            false => Err(format!("`{m}` is not a mirror: write a URL that begins with https:// or http://.")),
        };
        given.map(mirror).collect()
    }

    /// Returns the time without data after which the next mirror is tried.
    pub fn stall(&self) -> Result<std::time::Duration, String> {
        if !(0.1..=3600.0).contains(&self.timeout) {
            return Err(format!("--timeout {}: choose a number of seconds from 0.1 to 3600.", self.timeout));
        }
        Ok(std::time::Duration::from_secs_f64(self.timeout))
    }
}
