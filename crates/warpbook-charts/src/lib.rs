//! Draws a record: [`Run`](warpbook_record::Run) -> [`Chart`], an SVG with a title, a sentence for screen readers and the table behind it.
//!
//! The crate knows no experiment by name. Differences between experiments come from [`Run::descriptor`](warpbook_record::Run::descriptor) and from the
//! problems' data. [`LadderTable`] is the ladder as a table, for the page, the notebooks and the command line. [`highlight`] splits a kernel's source into
//! tokens for colouring, and [`diagram`] draws tiles, accesses and timelines.
//!
//! A record gives the same bytes in a notebook, in a test and on a page: texts are measured with this crate's own table, never in a DOM or
//! with a font file. The crate does no I/O and reads no clock.
//!
//! The crate has three layers, and imports go only downwards. `draw` writes SVG and does not depend on records; `record` derives figures and texts from a
//! record, and draws nothing; `charts`, with a file or a folder for each chart, and `compare` draw what `record` derives.
#![forbid(unsafe_code)]

mod charts;
mod compare;
mod draw;
mod record;

pub use charts::board::{Board, BoardEntry, BoardTask};
pub use charts::confusion::Confusion;
pub use charts::curves::power::power_in_words;
pub use charts::curves::{Curve, Scale};
pub use charts::diagram;
pub use charts::exponents::{ExponentRow, FormatRange};
pub use charts::ladder::STORY;
pub use charts::lanes::most_wasteful;
pub use charts::roofline::{CeilingLine, RoofPoint, RooflinePoints, kernel_rungs, roofline_points};
pub use compare::{ComparedCell, ComparedRow, Comparison, Counts, Drift, MAX_RECORDS, Verdict, beside};
pub use draw::chart::{Chart, ChartError};
pub use draw::options::{Guess, Options, Rungs, Window};
pub use draw::svg::Svg;
pub use draw::table::Table;
pub use draw::text::{clean, escape, highlight, words};
pub use record::changes::{changes, gain_caption, lines_in_common, rung_before};
pub use record::counters::{COUNTERS_MEANING, Counter, counted_by, counters, counters_of, counters_under};
pub use record::headline::{Headline, HeadlineTile, headline, record_summary, sparkline};
pub use record::ladder_table::{Cell, Header, LadderTable, LadderTableRow, ladder_table};
pub use record::measure::{quantity_name, rate_text};
pub use record::names::{MAX_LABEL, record_labels};
pub use record::noise::{LEAST_SAMPLES, Ratio, THRESHOLD, noise_rule};
pub use record::timing::DEBUG_ASSERTIONS;
pub use record::verdict::excess_reason;
pub use warpbook_record::Quantity;

/// Returns the options of a notebook's charts: `draw().ladder(&run, problem, Quantity::Time)`. Charts of another width need their own [`Options`].
#[must_use]
pub fn draw() -> Options {
    Options::default()
}
