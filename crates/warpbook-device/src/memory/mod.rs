//! Arrays on the device and page-locked arrays on the host: allocation, and copies between them.

pub(crate) mod allocation;
pub(crate) mod arena;
pub(crate) mod borrow;
pub(crate) mod buffer;
pub(crate) mod copies;
pub(crate) mod counters;
pub(crate) mod element;
pub(crate) mod peer;
pub(crate) mod pinned;
pub(crate) mod pool;
pub(crate) mod slice;
pub(crate) mod tensor_map;
pub(crate) mod trial;
