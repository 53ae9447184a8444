//! The page's address: the query describes the view, and the fragment may carry a record.

pub mod fragment;
mod link;
pub mod percent;
mod problem_choice;
mod query;

pub use link::{About, Link, key_of};
pub use problem_choice::ProblemChoice;
