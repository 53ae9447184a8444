//! A chart: a picture with its words and its figures, or why there is none.

use crate::draw::svg::Svg;
use crate::draw::table::Table;
use std::fmt;

/// A picture, what it says in words, and its figures.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// Its heading, as in "Linear regression: time".
    pub title: String,
    /// What it shows, in one sentence; also the SVG's `<desc>`.
    pub description: String,
    /// The picture.
    pub svg: Svg,
    /// The figures that were drawn, and the reasons where there are none.
    pub table: Table,
}

/// Why there is no chart. Displayed as a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChartError {
    /// The record has nothing of what the chart shows; the sentence says what is missing.
    NothingToDraw(String),
    /// The records must not share one chart; the sentence says what differs.
    NotComparable(String),
}

impl fmt::Display for ChartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NothingToDraw(why) | Self::NotComparable(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for ChartError {}
