//! The ranks of a run, from the rendezvous to the end.

use crate::rendezvous::{self, Met};
use crate::ring::Ring;
use crate::watch::{Seen, Shared, died, judge, silent};
use crate::wire::Message;
use crate::{Collective, Error, Placement, Reduce, Result, Wire};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time limits for waiting for other ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Time limit for all ranks to arrive at the rendezvous.
    pub join: Duration,
    /// Longest time that a rank may be silent. Heartbeats are sent every second, or four times during this period if
    /// that is more often.
    pub silence: Duration,
    /// Time limit for a rank that is alive to arrive at an operation that other ranks have reached.
    pub stall: Duration,
}

impl Default for Limits {
    /// Returns the default limits: two minutes for the rendezvous, 30 seconds of silence, and ten minutes for an
    /// operation.
    fn default() -> Self {
        Self { join: Duration::from_secs(120), silence: Duration::from_secs(30), stall: Duration::from_secs(600) }
    }
}

impl Limits {
    /// Returns limits with this time for an operation. The same time also limits the silence of a rank, but to at most
    /// 30 seconds, and the rendezvous, but to at most two minutes.
    #[must_use]
    pub fn stall_after(stall: Duration) -> Self {
        let default = Self::default();
        Self { stall, silence: default.silence.min(stall), join: default.join.min(stall) }
    }

    fn beat(&self) -> Duration {
        (self.silence / 4).clamp(Duration::from_millis(20), Duration::from_secs(1))
    }
}

/// Time for which a finished rank waits for the other ranks to say goodbye.
const GOODBYE: Duration = Duration::from_secs(5);

/// The control connections between rank 0 and the other ranks, and the state that is reported over them.
#[derive(Debug)]
struct Control {
    rank: usize,
    shared: Arc<Shared>,
    /// The connections: rank 0 has one to each other rank, and every other rank has one to rank 0.
    streams: Vec<Mutex<TcpStream>>,
    /// The last known state of every rank. Ranks other than 0 keep only the state of rank 0 and their own up to date.
    seen: Mutex<Vec<Seen>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Control {
    /// Returns the rank at the other end of connection `at`.
    fn peer(&self, at: usize) -> usize {
        if self.rank == 0 { at + 1 } else { 0 }
    }

    fn send(&self, at: usize, message: &Message) {
        // A write error can be ignored, because the thread that reads from this connection notices that the rank is
        // lost.
        let _ = message.write(&mut *lock(&self.streams[at]));
    }

    fn send_all(&self, message: &Message) {
        (0..self.streams.len()).for_each(|at| self.send(at, message));
    }

    /// Ends the work of all ranks, and tells them the reason.
    fn abort(&self, why: &str) {
        if self.shared.abort(why) {
            self.send_all(&Message::Abort(why.to_owned()));
        }
    }

    /// Reads messages from the rank at the other end of connection `at` until it says goodbye.
    fn listen(&self, at: usize, mut from: TcpStream) {
        let peer = self.peer(at);
        loop {
            match Message::read(&mut from) {
                Ok(Message::Beat { begun, waiting_ms }) => {
                    let now =
                        Seen { heard: Instant::now(), begun, waiting: Duration::from_millis(waiting_ms), left: false };
                    lock(&self.seen)[peer] = now;
                }
                Ok(Message::Abort(why)) => {
                    self.abort(&why);
                    return;
                }
                Ok(Message::Bye) => {
                    lock(&self.seen)[peer].left = true;
                    return;
                }
                Ok(_) => {}
                Err(_) => {
                    let left = std::mem::replace(&mut lock(&self.seen)[peer].left, true);
                    if !left && !self.shared.has_ended() {
                        self.abort(&died(peer));
                    }
                    return;
                }
            }
        }
    }

    /// Sends this rank's heartbeats and watches the other ranks until the work is over.
    fn beat(&self, limits: Limits) {
        while !self.shared.has_ended() && !self.shared.is_aborted() {
            let (begun, waiting_ms) = self.shared.progress();
            self.send_all(&Message::Beat { begun, waiting_ms });
            let wrong = {
                let mut seen = lock(&self.seen);
                let own =
                    Seen { heard: Instant::now(), begun, waiting: Duration::from_millis(waiting_ms), left: false };
                seen[self.rank] = own;
                if self.rank == 0 {
                    judge(&seen, limits.silence, limits.stall)
                } else {
                    let time = seen[0].heard.elapsed();
                    (time > limits.silence && !seen[0].left).then(|| silent(0, time))
                }
            };
            if let Some(why) = wrong {
                return self.abort(&why);
            }
            // This waits for the next heartbeat, but returns early if the work has ended.
            self.shared.why_within(limits.beat());
        }
    }

    fn everybody_left(&self) -> bool {
        let seen = lock(&self.seen);
        (0..self.streams.len()).all(|at| seen[self.peer(at)].left)
    }
}

/// One rank of a run, after the rendezvous. It has collectives over TCP, and all ranks watch each other.
///
/// Dropping a group before [`Group::finish`] was called ends the work of all ranks.
#[derive(Debug)]
pub struct Group {
    placement: Placement,
    limits: Limits,
    ring: Ring,
    control: Arc<Control>,
    threads: Vec<JoinHandle<()>>,
}

/// A handle that can end the work of all ranks of a group from any thread; see [`Group::aborter`].
#[derive(Debug, Clone)]
pub struct Aborter(Arc<Control>);

impl Aborter {
    /// Ends the work of all ranks. Their operations then fail with an error that states this rank's number and this
    /// reason.
    pub fn abort(&self, why: &str) {
        self.0.abort(&format!("Rank {}: {why}", self.0.rank));
    }

    /// Waits up to `time` for the work to be aborted, and returns the reason if it was.
    #[must_use]
    pub fn why_within(&self, time: Duration) -> Option<String> {
        self.0.shared.why_within(time)
    }

    /// Runs `wait`, which waits for the other ranks in the caller's own way, for example on a GPU. The wait counts as
    /// an operation and has the same time limit, so every rank must reach it.
    pub fn watched<R>(&self, wait: impl FnOnce() -> R) -> R {
        self.0.shared.begin();
        let done = wait();
        self.0.shared.end();
        done
    }

    /// Returns `true` if the work has finished.
    #[must_use]
    pub fn has_finished(&self) -> bool {
        self.0.shared.has_ended()
    }
}

impl Group {
    /// Meets all ranks. Rank 0 listens at the placement's address, or uses the listener that it was given (see
    /// [`crate::launched_listener`]).
    ///
    /// # Errors
    /// Returns an error if the port is in use or belongs to another machine, rank 0 cannot be reached, a rank does not
    /// arrive in time, two ranks have the same number, or ranks were started with different numbers of ranks. The
    /// message says which of these happened.
    pub fn join(placement: &Placement, limits: Limits, listener: Option<TcpListener>) -> Result<Self> {
        Self::join_telling(placement, limits, listener, |_| ())
    }

    /// Like [`Group::join`], but reports while it waits: after two seconds, and then every ten seconds, it calls `tell`
    /// with a sentence that names the missing ranks and the remaining time.
    ///
    /// # Errors
    /// See [`Group::join`].
    pub fn join_telling(
        placement: &Placement,
        limits: Limits,
        listener: Option<TcpListener>,
        tell: fn(&str),
    ) -> Result<Self> {
        let Met { control, ring } = rendezvous::meet(placement, &limits, listener, tell)?;
        let shared = Arc::new(Shared::new());
        let failed = |e: std::io::Error| Error::Lost(format!("A connection between ranks failed: {e}."));
        let ring = Ring::new(placement.rank, placement.world, ring, shared.clone()).map_err(failed)?;
        let mut readers = Vec::new();
        for stream in &control {
            stream.set_read_timeout(None).map_err(failed)?;
            // A rank that is stopped reads nothing, and must not block the other ranks.
            stream.set_write_timeout(Some(limits.silence)).map_err(failed)?;
            readers.push(stream.try_clone().map_err(failed)?);
        }
        let seen = Seen { heard: Instant::now(), begun: 0, waiting: Duration::ZERO, left: false };
        let control = Arc::new(Control {
            rank: placement.rank,
            shared,
            streams: control.into_iter().map(Mutex::new).collect(),
            seen: Mutex::new(vec![seen; placement.world]),
        });
        let mut threads: Vec<JoinHandle<()>> = Vec::new();
        for (at, from) in readers.into_iter().enumerate() {
            let control = control.clone();
            threads.push(std::thread::spawn(move || control.listen(at, from)));
        }
        let beating = control.clone();
        threads.push(std::thread::spawn(move || beating.beat(limits)));
        Ok(Self { placement: placement.clone(), limits, ring, control, threads })
    }

    /// Returns the placement of this rank.
    #[must_use]
    pub fn placement(&self) -> &Placement {
        &self.placement
    }

    /// Returns the time limits of the group.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Returns a handle that can end the work of all ranks from another thread.
    #[must_use]
    pub fn aborter(&self) -> Aborter {
        Aborter(self.control.clone())
    }

    /// Waits until all ranks have finished, and says goodbye to them.
    ///
    /// # Errors
    /// Returns an error if a rank failed or died before it finished.
    pub fn finish(mut self) -> Result<()> {
        self.barrier()?;
        self.ring.close();
        self.control.shared.set_ended();
        self.control.send_all(&Message::Bye);
        let begun = Instant::now();
        while !self.control.everybody_left() && begun.elapsed() < GOODBYE {
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.control.shared.has_ended() && !self.control.shared.is_aborted() {
            self.aborter().abort("it ended before its work was done.");
        }
        self.control.shared.set_ended();
        self.ring.close();
        for stream in &self.control.streams {
            let _ = lock(stream).shutdown(Shutdown::Both);
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Collective for Group {
    fn rank(&self) -> usize {
        self.placement.rank
    }

    fn world(&self) -> usize {
        self.placement.world
    }

    fn broadcast(&mut self, values: &mut [f32], root: usize) -> Result<()> {
        self.ring.broadcast(values, root)
    }

    fn all_reduce(&mut self, values: &mut [f32], reduce: Reduce, wire: Wire) -> Result<()> {
        self.ring.all_reduce(values, reduce, wire)
    }

    fn all_gather(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        self.ring.all_gather(bytes)
    }

    fn abort(&self, why: &str) {
        Self::aborter(self).abort(why);
    }

    fn aborter(&self) -> Aborter {
        Self::aborter(self)
    }

    fn finish(self: Box<Self>) -> Result<()> {
        Self::finish(*self)
    }
}

/// A group of one rank, whose collectives return the rank's own values. With it, code for several ranks also works
/// without other ranks.
#[derive(Debug)]
pub struct Alone(Arc<Control>);

impl Default for Alone {
    fn default() -> Self {
        Self(Arc::new(Control {
            rank: 0,
            shared: Arc::new(Shared::new()),
            streams: Vec::new(),
            seen: Mutex::new(Vec::new()),
        }))
    }
}

impl Alone {
    fn check(&self) -> Result<()> {
        self.0.shared.why_within(Duration::ZERO).map_or(Ok(()), |why| Err(Error::Lost(why)))
    }
}

impl Collective for Alone {
    fn rank(&self) -> usize {
        0
    }

    fn world(&self) -> usize {
        1
    }

    fn broadcast(&mut self, _values: &mut [f32], _root: usize) -> Result<()> {
        self.check()
    }

    fn all_reduce(&mut self, values: &mut [f32], _reduce: Reduce, wire: Wire) -> Result<()> {
        crate::reduce::round(values, wire);
        self.check()
    }

    fn all_gather(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        self.check().map(|()| vec![bytes.to_vec()])
    }

    fn abort(&self, why: &str) {
        Collective::aborter(self).abort(why);
    }

    fn aborter(&self) -> Aborter {
        Aborter(self.0.clone())
    }

    fn finish(self: Box<Self>) -> Result<()> {
        self.check()?;
        self.0.shared.set_ended();
        Ok(())
    }
}
