//! How texts are compared with what a reader looks for.

/// A text without capitals, in which what a reader looks for is found however it is written.
pub fn folded(text: &str) -> String {
    text.to_lowercase()
}
