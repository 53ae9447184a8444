//! The exercises: their texts.

mod files;
mod texts;
