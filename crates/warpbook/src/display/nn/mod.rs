//! Display of networks, tensors, trainings and images.

pub(crate) mod confusion;
pub(crate) mod images;
pub(crate) mod networks;
pub(crate) mod own_layers;
pub(crate) mod precisions;
pub(crate) mod predictions;
pub(crate) mod tensors;
pub(crate) mod trainings;
