//! Prints lines to the terminal, or to the file or pipe that replaces it.

use std::io::{self, ErrorKind, Write};
use std::sync::OnceLock;

/// The reason why the first lost line could not be written.
static LOST: OnceLock<String> = OnceLock::new();

/// Prints a line to stdout. If the reader is gone, as after `| head`, the run continues; other errors are reported at
/// the end (see [`lost`]).
pub fn say(text: &str) {
    let mut out = io::stdout().lock();
    if let Err(why) = writeln!(out, "{}", printable(text)).and_then(|()| out.flush())
        && is_loss(&why)
    {
        let _ = LOST.set(why.to_string());
    }
}

/// Returns the reason why a line could not be written, if one was lost.
pub fn lost() -> Option<&'static str> {
    LOST.get().map(String::as_str)
}

/// Returns true if an error loses output that somebody would read. A closed pipe loses none.
pub fn is_loss(why: &io::Error) -> bool {
    why.kind() != ErrorKind::BrokenPipe
}

/// Prints a line to stderr.
pub fn warn(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", printable(text));
}

/// Makes text safe for a terminal. All output passes through here, so that no text in a record, a recipe or a network's
/// file can control the terminal.
fn printable(text: &str) -> String {
    warpbook::printable(&text.replace("\r\n", "\n"))
}

/// Joins the lines of a record's text into one line.
pub fn one_line(text: &str) -> String {
    printable(&text.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_is_printed_controls_the_terminal() {
        assert_eq!(
            printable("a\u{1b}[31mred\u{7}\r\nb\tc\u{9b}2J\u{202e}d"),
            "a\u{fffd}[31mred\u{fffd}\nb\tc\u{fffd}2J\u{fffd}d"
        );
        assert_eq!(printable("größe 寸法 é\n"), "größe 寸法 é\n");
        assert_eq!(one_line(" a\n  b\u{1b} "), "a b\u{fffd}");
    }
}
