//! Exercises of the workshop, by id.

use crate::{Lab, Result};
use warpbook_lab::exercise::{Exercise, find_exercise};

/// Lets a lab open the workshop's exercises for its author.
pub trait Exercises {
    /// Opens an exercise by its id, such as "E05". Its texts are in `notebooks/exercises`; tries are noted in the author's progress file.
    ///
    /// # Errors
    /// If there is no such exercise, or its folder is missing.
    fn exercise(&self, id: &str) -> Result<Exercise>;
}

impl Exercises for Lab {
    fn exercise(&self, id: &str) -> Result<Exercise> {
        Exercise::new(self, find_exercise(&warpbook_exercises::all(), id)?)
    }
}
