//! A record drawn: [`Run`](warpbook_record::Run) -> [`Chart`], an SVG with a title, a sentence for screen readers and the table behind it.
//!
//! No experiment is known here by name: what differs between them comes from [`Run::descriptor`](warpbook_record::Run::descriptor)
//! and from the problems' data. [`LadderTable`] is the ladder as a table, for all who show it. [`highlight`] cuts the kernels' source
//! into tokens to colour, and [`diagram`] draws tiles, accesses and timelines.
//!
//! The same record gives the same bytes in a notebook, in a test and on a page: texts are measured with a table of this
//! crate's own, never in a DOM or with a font file. The crate does no I/O and knows no clock.
//!
//! The crate has three floors, and imports go only downwards. `draw` writes SVG and knows no record; `record` says what a record holds, in figures
//! and in words, and draws nothing; `charts`, with a file or a folder for each chart, and `compare` draw what `record` says.
#![forbid(unsafe_code)]

mod charts;
mod compare;
mod draw;
mod record;

pub use charts::board::{Board, BoardEntry, BoardTask};
pub use charts::confusion::{Confusion, confusion};
pub use charts::curves::links::link_bandwidth;
pub use charts::curves::memory::memory;
pub use charts::curves::power::{clocks, power, power_in_words};
pub use charts::curves::scaling::{scaling_efficiency, scaling_throughput};
pub use charts::curves::{Curve, Scale, curves};
pub use charts::diagram;
pub use charts::exponents::{ExponentRow, FormatRange, exponents};
pub use charts::kinds::chart;
pub use charts::ladder::ladder;
pub use charts::latencies::latencies;
pub use charts::parts::breakdown::breakdown;
pub use charts::parts::operations::{ablation, operations};
pub use charts::parts::tiles::tiles;
pub use charts::parts::transfers::transfers;
pub use charts::roofline::{RoofLine, RoofPoint, RooflinePoints, roofline, roofline_points};
pub use charts::roofline::{kernel_roofline, kernel_rungs};
pub use charts::shapes::shapes;
pub use charts::sweep::{sweep, sweep_bandwidth, sweep_labelled, sweep_of, sweep_throughput};
pub use charts::timeline::{timeline, timelines};
pub use charts::training::accuracy::accuracy;
pub use charts::training::course::{gradient_norm, learning_rate, loss_scale};
pub use charts::training::loss::loss_curve;
pub use charts::xray::xray;
pub use compare::{ComparedCell, ComparedRow, Comparison, Counts, Drift, MAX_RECORDS, Verdict, beside, compare};
pub use draw::chart::{Chart, ChartError};
pub use draw::options::{Guess, Options, Window};
pub use draw::svg::Svg;
pub use draw::table::Table;
pub use draw::text::{clean, escape, highlight, words};
pub use record::changes::{changes, climb_caption, lines_in_common, rung_before};
pub use record::counters::{COUNTERS_MEANING, Counter, counted_by, counters, counters_of, counters_under};
pub use record::headline::{Headline, HeadlineTile, headline, in_short, sparkline};
pub use record::ladder_table::{Cell, Header, LadderTable, LadderTableRow, ladder_table};
pub use record::measure::{quantity_name, rate_text};
pub use record::names::{MAX_LABEL, record_labels};
pub use record::noise::{LEAST_SAMPLES, Ratio, THRESHOLD, noise_rule};
pub use record::timing::DEBUG_ASSERTIONS;
pub use record::verdict::past_bound;
pub use warpbook_record::Quantity;
