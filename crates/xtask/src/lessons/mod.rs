//! Notebooks: executing them, showing them in JupyterLab, and using them outside of the repository.

pub(crate) mod jupyter;
pub(crate) mod notebooks;
pub(crate) mod outside;
