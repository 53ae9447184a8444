//! Commands that merge, show and share records.

mod live;
mod merge;
mod read;
mod share;
mod view;
mod viewer;

pub use merge::merge;
pub use share::share;
pub use view::view;
pub use viewer::Viewer;
