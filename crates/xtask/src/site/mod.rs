//! The page: built, and served next to the notebooks.

pub(crate) mod serve;
pub(crate) mod web;
