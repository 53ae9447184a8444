//! Tests of the exercises: their texts, and their verdicts in the emulator and on a GPU, if there is one.

mod files;
mod gpu;
mod names;
mod texts;
mod verdicts;
