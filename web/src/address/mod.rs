//! The page's address: what it shows in the query, and a record that it carries in the fragment.

pub mod fragment;
mod link;
pub mod percent;
mod problem_choice;
mod query;

pub use link::{About, Link, key_of};
pub use problem_choice::ProblemChoice;
