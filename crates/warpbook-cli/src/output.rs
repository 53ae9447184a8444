//! Lines to the terminal, or to whatever replaces it.

use std::io::Write;

/// A line to stdout. Nobody reading it any more, as after `| head`, is no reason to stop measuring.
pub fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}

/// A line to stderr.
pub fn complain(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// A record's words for a terminal: on one line, without what would move the cursor.
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace(char::is_control, "\u{fffd}")
}
