//! Notebooks: executed, looked at in JupyterLab, and tried outside of the repository.

pub(crate) mod jupyter;
pub(crate) mod notebooks;
pub(crate) mod outside;
