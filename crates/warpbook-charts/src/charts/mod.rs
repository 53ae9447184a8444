//! The charts of a record, each in its own file or folder. A chart uses another chart's module only to draw with it.

pub(crate) mod board;
pub(crate) mod confusion;
pub(crate) mod curves;
pub mod diagram;
pub(crate) mod exponents;
pub(crate) mod kinds;
pub(crate) mod ladder;
pub(crate) mod lanes;
pub(crate) mod latencies;
pub(crate) mod parts;
pub(crate) mod roofline;
pub(crate) mod shapes;
pub(crate) mod sweep;
pub(crate) mod timeline;
pub(crate) mod training;
pub(crate) mod xray;
