//! A chart: a picture with its texts and its figures, or the reason why there is none.

use crate::draw::svg::Svg;
use crate::draw::table::Table;
use std::fmt;

/// A picture with its texts and its figures.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// Title, such as "Linear regression: time".
    pub title: String,
    /// Description in one sentence; also the SVG's `<desc>`.
    pub description: String,
    /// The picture.
    pub svg: Svg,
    /// The figures in the picture, and the reasons for missing ones.
    pub table: Table,
}

/// The reason why there is no chart; displayed as a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChartError {
    /// The record lacks the chart's data; the sentence says what is missing.
    NothingToDraw(String),
    /// The records cannot share one chart; the sentence states the difference.
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
