//! The page's markup. All text is in text nodes; only drawings of `warpbook-charts` are inserted as markup.

mod board;
mod chart;
mod choosers;
mod class;
mod compare;
mod controls;
mod environment;
mod list;
mod overview;
mod page;
mod record;
mod report;
mod rung;
mod share;
mod sheet;
mod timeline;

pub use page::page;
