//! Lines to the terminal, or to whatever replaces it.

use std::io::{self, ErrorKind, Write};
use std::sync::OnceLock;

/// Why the first line was lost that could not be written.
static LOST: OnceLock<String> = OnceLock::new();

/// A line to stdout. Nobody reading it any more, as after `| head`, is no reason to stop measuring; what else goes wrong is told at the end, see [`lost`].
pub fn say(text: &str) {
    let mut out = io::stdout().lock();
    if let Err(why) = writeln!(out, "{text}").and_then(|()| out.flush())
        && is_loss(&why)
    {
        let _ = LOST.set(why.to_string());
    }
}

/// Why not all lines could be written, if so.
pub fn lost() -> Option<&'static str> {
    LOST.get().map(String::as_str)
}

/// Whether somebody misses what could not be written.
pub fn is_loss(why: &io::Error) -> bool {
    why.kind() != ErrorKind::BrokenPipe
}

/// A line to stderr.
pub fn complain(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// A record's words for a terminal: on one line, without what would move the cursor.
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace(char::is_control, "\u{fffd}")
}
