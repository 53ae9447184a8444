//! Decodes single PNG and JPEG images, scales them to a network's input size, writes them as PNG, and reads folders of
//! images.

pub(crate) mod encode;
pub(crate) mod fit;
pub(crate) mod folder;
pub(crate) mod picture;
