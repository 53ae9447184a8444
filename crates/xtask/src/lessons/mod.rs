//! Notebooks: execution, JupyterLab, and use outside of the repository.

pub(crate) mod jupyter;
pub(crate) mod notebooks;
pub(crate) mod outside;
