//! Drawing primitives: SVG, texts, axes, colours. Nothing here depends on records.

pub(crate) mod backend;
pub(crate) mod canvas;
pub(crate) mod chart;
pub(crate) mod colour;
pub(crate) mod frame;
pub(crate) mod mark_data;
pub(crate) mod options;
pub(crate) mod plot;
pub(crate) mod svg;
pub(crate) mod table;
pub(crate) mod text;

pub(crate) use backend::DASHES;
pub(crate) use canvas::{At, Canvas, Drawn, Font, MARGIN, MARKERS, Marker, Paint, Stroke, WIDTH, line_height};
pub(crate) use chart::{Chart, ChartError};
pub(crate) use colour::{
    AMBER, BLUE, BROWN, GREY, INDIGO, OLIVE, PURPLE, Rgb, SERIES, SKY, STEEL, UMBER, VERMILLION, VIOLET,
};
pub(crate) use frame::{Frame, MAX_ENTRIES};
pub(crate) use mark_data::{MarkData, shared_samples};
pub(crate) use options::{Options, Rungs, is_narrow};
pub(crate) use plot::bars::{Bar, BarRow, Bars, Content, ReferenceLine, Segment};
pub(crate) use plot::labels::{Along, Area, PointLabel, Room, Xy};
pub(crate) use plot::lines::{Guide, Lines, Series};
pub(crate) use plot::ticks::{Axis, LOG_FROM, less_is_better, linear_ticks, plot_words};
pub(crate) use table::Table;
pub(crate) use text::clean;
