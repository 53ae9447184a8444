//! Case-insensitive search.

/// Folds a text to lower case for searching.
pub fn folded(text: &str) -> String {
    text.to_lowercase()
}
