//! Loading of records: from the page's site, from other sites, from disk, and again when they change.

mod disk;
mod live;
mod records;
mod unknown_names;
