//! The exercises: their texts, their verdicts in the emulator, and on a GPU where there is one.

mod files;
mod names;
mod texts;
