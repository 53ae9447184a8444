//! How anything is drawn: SVG, texts, axes, colours. Nothing here knows a record.

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
