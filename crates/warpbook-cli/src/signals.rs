//! Who asks the program to end: a person by Ctrl-C, a scheduler or `docker stop` by SIGTERM, a terminal that is closed by SIGHUP.

use crate::output::complain;

/// How the program is asked to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// Ctrl-C: a second one means at once.
    ByHand,
    /// SIGTERM or SIGHUP, which may come several times for one reason.
    BySystem,
}

/// Calls `handler` on a thread of its own each time; to be called once. Where that is not possible, `otherwise` says what Ctrl-C then does.
pub fn on_request_to_end(otherwise: &str, handler: impl Fn(Asked) + Clone + Send + 'static) {
    let by_hand = handler.clone();
    if let Err(why) = ctrlc::set_handler(move || by_hand(Asked::ByHand)) {
        complain(&format!("{otherwise}: {why}"));
    }
    by_system(handler);
}

#[cfg(unix)]
fn by_system(handler: impl Fn(Asked) + Send + 'static) {
    use signal_hook::consts::{SIGHUP, SIGTERM};
    // Under nohup, which lets the system ignore SIGHUP, a closed terminal is to change nothing.
    let signals: &[i32] = if is_ignored(SIGHUP) { &[SIGTERM] } else { &[SIGTERM, SIGHUP] };
    // Without them a signal ends the program at once, as it always did.
    if let Ok(mut signals) = signal_hook::iterator::Signals::new(signals) {
        std::thread::spawn(move || signals.forever().for_each(|_| handler(Asked::BySystem)));
    }
}

#[cfg(not(unix))]
fn by_system(_: impl Fn(Asked) + Send + 'static) {}

/// Whether the system ignores a signal for this process; taken for granted where it does not say.
#[cfg(unix)]
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_none_or(|mask| mask >> (signal - 1) & 1 == 1)
}
