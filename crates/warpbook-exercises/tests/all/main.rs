//! The exercises: their texts, their verdicts in the emulator, and on a GPU where there is one.

mod files;
mod gpu;
mod names;
mod texts;
mod verdicts;
