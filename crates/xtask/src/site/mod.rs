//! The viewer's page: building it, and serving it next to the notebooks.

pub(crate) mod serve;
pub(crate) mod web;
