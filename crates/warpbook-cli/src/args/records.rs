//! Options of `warpbook merge`, `warpbook view` and `warpbook share`.

use clap::Args;
use std::path::PathBuf;

pub(super) const MERGE_EXAMPLES: &str = "\
Examples:
  warpbook run regression --sweep --out ours.json
  python3 notebooks/pytorch/regression.py --like ours.json --out pytorch.json
  warpbook merge ours.json pytorch.json --out regression.json
  warpbook xray regression --rung 05_persistent --epochs 20 --kib 400 --out xray.json
  warpbook merge regression.json xray.json --out regression.json       an X-ray comes without its measurement

Run both right after another: figures of one chart should come from one GPU in one state.";

#[derive(Debug, Args)]
pub struct MergeArgs {
    /// Record that keeps its environment, ceilings and notes, followed by the records whose rungs or X-rays are added.
    #[arg(required = true, num_args = 2.., value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// File for the record; an existing file is replaced.
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
}

pub(super) const VIEW_EXAMPLES: &str = "\
Examples:
  warpbook view                              the records that come with the page
  warpbook view regression.json old.json     these, in the browser
  warpbook view class/                       all records of a folder
  warpbook view --live regression.json       the same while a run writes it: the page follows the file
  warpbook view --text regression.json       tables in the terminal
  warpbook view --html report.html regression.json
                                             a page of their charts and tables, to be sent to somebody

The page is the viewer that `cargo xtask web` builds; the program has it inside if it was built after that. WARPBOOK_VIEWER names \
another. Without any, a simpler page takes its place.";

#[derive(Debug, Args)]
pub struct ViewArgs {
    /// Records, as `warpbook run` and the notebooks write them, or folders of them.
    pub files: Vec<PathBuf>,
    /// Print tables to the terminal and open nothing.
    #[arg(long, requires = "files", conflicts_with_all = ["html", "no_open"])]
    pub text: bool,
    /// Write the charts and tables into this HTML file and open nothing.
    #[arg(long, value_name = "FILE", requires = "files")]
    pub html: Option<PathBuf>,
    /// Write the page and print its path, but open no browser.
    #[arg(long)]
    pub no_open: bool,
    /// Serve the page to this machine's browsers, and update it whenever a record is written. The files may come later.
    #[arg(long, requires = "files", conflicts_with_all = ["text", "html"])]
    pub live: bool,
    /// First port to try with --live.
    #[arg(long, value_name = "N", requires = "live", default_value_t = 8617)]
    pub port: u16,
}

pub(super) const SHARE_EXAMPLES: &str = "\
Examples:
  warpbook share regression.json                     regression.html
  warpbook share class/ --out class.html             all records of a folder: the class board compares them
  warpbook share mine.json published.json --out both.html

The file needs nothing else: any browser opens it, from disk or from a web site. Its policy forbids every connection, so that nothing of \
the records or of whoever reads them leaves it.";

#[derive(Debug, Args)]
pub struct ShareArgs {
    /// Records, as `warpbook run` and the notebooks write them, or folders of them.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// File for the page. An existing file is replaced only if it is named here. [default: the record's name with .html, or records.html]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}
