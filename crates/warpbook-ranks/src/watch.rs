//! Keeps track of which ranks are alive and waiting, and of the reason why the work was aborted.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The state of a rank's work, which its threads share.
#[derive(Debug)]
pub(crate) struct Shared {
    started: Instant,
    /// Number of operations started so far.
    begun: AtomicU64,
    /// Start of the current operation in milliseconds since `started`, plus 1; 0 if no operation is
    /// running.
    since: AtomicU64,
    is_over: AtomicBool,
    ended: AtomicBool,
    why: Mutex<Option<String>>,
    told: Condvar,
}

impl Shared {
    pub fn new() -> Self {
        Self {
            started: Instant::now(),
            begun: AtomicU64::new(0),
            since: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            why: Mutex::new(None),
            told: Condvar::new(),
        }
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX - 1)
    }

    pub fn begin(&self) {
        self.begun.fetch_add(1, Ordering::SeqCst);
        self.since.store(self.now_ms() + 1, Ordering::SeqCst);
    }

    pub fn end(&self) {
        self.since.store(0, Ordering::SeqCst);
    }

    /// Returns the number of operations started so far, and the milliseconds spent in the current
    /// one.
    pub fn progress(&self) -> (u64, u64) {
        let (begun, since) = (self.begun.load(Ordering::SeqCst), self.since.load(Ordering::SeqCst));
        (begun, if since == 0 { 0 } else { (self.now_ms() + 1).saturating_sub(since).max(1) })
    }

    fn why_lock(&self) -> MutexGuard<'_, Option<String>> {
        self.why.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Aborts the work. Only the first reason is kept; returns true if this was the first.
    pub fn abort(&self, why: &str) -> bool {
        let mut held = self.why_lock();
        if held.is_some() || self.has_ended() {
            return false;
        }
        *held = Some(why.to_owned());
        self.is_over.store(true, Ordering::SeqCst);
        self.told.notify_all();
        true
    }

    pub fn is_aborted(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    /// Marks the work as finished, or as no longer needed.
    pub fn set_ended(&self) {
        self.ended.store(true, Ordering::SeqCst);
        self.told.notify_all();
    }

    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::SeqCst)
    }

    /// Waits up to `time` for the work to be aborted, and returns the reason if it was.
    pub fn why_within(&self, time: Duration) -> Option<String> {
        let held = self.why_lock();
        let (held, _) = self
            .told
            .wait_timeout_while(held, time, |why| why.is_none() && !self.has_ended())
            .unwrap_or_else(PoisonError::into_inner);
        held.clone()
    }
}

/// The state of a rank, as last reported to the rank that watches it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen {
    pub heard: Instant,
    pub begun: u64,
    pub waiting: Duration,
    /// True if the rank has said goodbye.
    pub left: bool,
}

/// Returns what is wrong with the ranks, if anything. `seen` is in rank order and includes rank 0.
pub(crate) fn judge(seen: &[Seen], silence: Duration, stall: Duration) -> Option<String> {
    for (rank, s) in seen.iter().enumerate().skip(1).filter(|(_, s)| !s.left) {
        if s.heard.elapsed() > silence {
            return Some(silent(rank, s.heard.elapsed()));
        }
    }
    let (waiter, longest) = seen.iter().enumerate().max_by_key(|(_, s)| s.waiting)?;
    if longest.waiting <= stall {
        return None;
    }
    let behind = |s: &Seen| s.begun < longest.begun;
    let late: Vec<String> =
        seen.iter().enumerate().filter(|(_, s)| behind(s)).map(|(rank, _)| rank.to_string()).collect();
    let waited = longest.waiting;
    Some(match late.as_slice() {
        [] => format!(
            "All ranks have waited for each other for {waited:.0?} in operation {}: their messages do not arrive. Check the network between them.",
            longest.begun
        ),
        [one] => format!(
            "Rank {one} hangs: rank {waiter} has waited {waited:.0?} for it in operation {}, which it has not come to.",
            longest.begun
        ),
        many => format!(
            "Ranks {} hang: rank {waiter} has waited {waited:.0?} for them in operation {}, which they have not come to.",
            many.join(", "),
            longest.begun
        ),
    })
}

/// Returns the message about a rank that has been silent for too long.
pub(crate) fn silent(rank: usize, time: Duration) -> String {
    format!(
        "Rank {rank} has not been heard from for {time:.0?}: its process was stopped, or its machine or the network is down."
    )
}

/// Returns the message about a rank whose connection has ended.
pub(crate) fn died(rank: usize) -> String {
    format!("Rank {rank} died: its connection has ended, and it did not say why.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_hangs_is_named() {
        let second = Duration::from_secs(1);
        let seen = |begun, waiting: u64| Seen {
            heard: Instant::now(),
            begun,
            waiting: Duration::from_secs(waiting),
            left: false,
        };
        let verdict = |all: &[Seen]| judge(all, 60 * second, 10 * second);
        assert_eq!(verdict(&[seen(5, 9), seen(4, 0), seen(5, 8)]), None);
        let one = verdict(&[seen(5, 11), seen(4, 0), seen(5, 8)]).unwrap();
        assert!(one.starts_with("Rank 1 hangs: rank 0 has waited 11s for it in operation 5"), "{one}");
        assert!(verdict(&[seen(5, 11), seen(4, 0), seen(3, 0)]).unwrap().starts_with("Ranks 1, 2 hang"));
        assert!(verdict(&[seen(5, 11), seen(5, 11)]).unwrap().contains("Check the network"));
        let mut silent = seen(5, 0);
        silent.heard = Instant::now().checked_sub(61 * second).unwrap_or(silent.heard);
        let all = [seen(5, 0), silent];
        assert!(
            verdict(&all).is_none_or(|why| why.starts_with("Rank 1 has not been heard from for")),
            "a machine may be up for less"
        );
        silent.left = true;
        assert_eq!(verdict(&[seen(5, 0), silent]), None, "it has done its work");
    }

    #[test]
    fn the_first_reason_stays() {
        let shared = Shared::new();
        assert_eq!((shared.why_within(Duration::ZERO), shared.progress()), (None, (0, 0)));
        shared.begin();
        assert!(shared.progress().1 >= 1);
        shared.end();
        assert_eq!(shared.progress(), (1, 0));
        assert!(shared.abort("a") && !shared.abort("b") && shared.is_aborted());
        assert_eq!(shared.why_within(Duration::from_secs(9)).as_deref(), Some("a"));
    }
}
