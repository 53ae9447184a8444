//! Requests to end the program: Ctrl-C, SIGTERM from a scheduler or `docker stop`, and SIGHUP from a closed terminal.

use crate::output::warn;

/// A kind of request to end the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndRequest {
    /// Ctrl-C; a second one ends the program at once.
    ByHand,
    /// SIGTERM or SIGHUP, which may come several times for one reason.
    BySystem,
}

/// Calls `handler` on a separate thread at each request; must be called only once. If no handler can be set, prints
/// `otherwise`, which says what Ctrl-C does instead.
pub fn on_request_to_end(otherwise: &str, handler: impl Fn(EndRequest) + Send + 'static) {
    if let Err(why) = listen(handler) {
        warn(&format!("{otherwise}: {why}"));
    }
}

#[cfg(unix)]
fn listen(handler: impl Fn(EndRequest) + Send + 'static) -> std::io::Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    // Under nohup the process ignores SIGHUP, and closing the terminal must not change that.
    let signals: &[i32] = if is_ignored(SIGHUP) { &[SIGINT, SIGTERM] } else { &[SIGINT, SIGTERM, SIGHUP] };
    let mut signals = signal_hook::iterator::Signals::new(signals)?;
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        signals
            .forever()
            .for_each(|signal| handler(if signal == SIGINT { EndRequest::ByHand } else { EndRequest::BySystem }));
    })?;
    Ok(())
}

/// Makes writes beyond the user's file size limit fail with an error, as on a full disk; by default the system would
/// end the program.
pub fn survive_file_limits() {
    #[cfg(unix)]
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, std::sync::Arc::default());
}

#[cfg(not(unix))]
fn listen(handler: impl Fn(EndRequest) + Send + 'static) -> Result<(), ctrlc::Error> {
    ctrlc::set_handler(move || handler(EndRequest::ByHand))
}

/// Returns true if this process ignores a signal, or if the system does not say.
#[cfg(unix)]
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_none_or(|mask| mask >> (signal - 1) & 1 == 1)
}
