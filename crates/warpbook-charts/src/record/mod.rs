//! What a record says, in figures and in words. Nothing here draws.

pub(crate) mod changes;
pub(crate) mod comparable;
pub(crate) mod counters;
pub(crate) mod headline;
pub(crate) mod kind;
pub(crate) mod ladder_table;
pub(crate) mod measure;
pub(crate) mod names;
pub(crate) mod noise;
pub(crate) mod timing;
pub(crate) mod verdict;
