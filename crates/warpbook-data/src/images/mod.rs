//! Decodes single images from PNG and JPEG, scales them to a network's input size, writes them as PNG, and reads
//! folders of them.

pub(crate) mod encode;
pub(crate) mod fit;
pub(crate) mod folder;
pub(crate) mod picture;
