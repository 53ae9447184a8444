//! Single images, decoded from PNG and JPEG, scaled to a network's input size, written as PNG, and folders of them.

pub(crate) mod encode;
pub(crate) mod fit;
pub(crate) mod folder;
pub(crate) mod picture;
