//! `warpbook merge` and `warpbook view`: what is done with records.

use clap::Args;
use std::path::PathBuf;

pub(super) const MERGE_EXAMPLES: &str = "\
Examples:
  warpbook run regression --sweep --out ours.json
  python3 notebooks/pytorch/regression.py --like ours.json --out pytorch.json
  warpbook merge ours.json pytorch.json --out regression.json

Run both right after another: figures of one chart should come from one GPU in one state.";

#[derive(Debug, Args)]
pub struct MergeArgs {
    /// The record that gives the environment, the ceilings and the notes, then those whose rungs are added.
    #[arg(required = true, num_args = 2.., value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// File for the record; one that exists is replaced.
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
}

pub(super) const VIEW_EXAMPLES: &str = "\
Examples:
  warpbook view                              the records that come with the page
  warpbook view regression.json old.json     these, in the browser
  warpbook view --text regression.json       tables in the terminal
  warpbook view --html report.html regression.json
                                             a page of their charts and tables, to be sent to somebody

The page is the viewer that `cargo xtask web` builds (or the one that WARPBOOK_VIEWER names). Where it is not built, a
simpler page takes its place.";

#[derive(Debug, Args)]
pub struct ViewArgs {
    /// Records, as `warpbook run` and the notebooks write them.
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
}
