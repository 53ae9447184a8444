//! Lines to the terminal, or to whatever replaces it.

use std::io::Write;

/// A line to stdout. Nobody reading it any more, as after `| head`, is no reason to stop measuring.
pub fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{}", printable(text)).and_then(|()| out.flush());
}

/// A line to stderr.
pub fn complain(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{}", printable(text));
}

/// All that the program prints passes through here, so no text of a record, a recipe or a network's file controls the terminal.
fn printable(text: &str) -> String {
    warpbook::printable(&text.replace("\r\n", "\n"))
}

/// A record's words on one line.
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
