//! Sends messages around the ring of ranks: each rank sends to the next rank and receives from the previous one.

use crate::reduce::{add, packed, put, round};
use crate::watch::Shared;
use crate::{Error, Reduce, Result, Wire};
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::ops::Range;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

/// Interval at which a waiting rank checks whether the work has been aborted.
const POLL: Duration = Duration::from_millis(50);
/// Time to wait for the reason why a neighbour ended.
const REASON: Duration = Duration::from_secs(3);
/// Largest message of a broadcast in bytes. Long arrays are split, so that the next rank can forward the first pieces
/// before all have arrived.
const PIECE: usize = 256 << 10;

/// Code of an operation in the header of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Kind {
    Broadcast = 1,
    AllReduce = 2,
    AllGather = 3,
}

impl Kind {
    fn name(code: u8) -> &'static str {
        match code {
            1 => "a broadcast",
            2 => "an all-reduce",
            3 => "an all-gather",
            _ => "something unknown",
        }
    }
}

/// A rank's two connections in the ring. A separate thread sends, because otherwise all ranks could block while each
/// waits for the next one to read.
#[derive(Debug)]
pub(crate) struct Ring {
    rank: usize,
    world: usize,
    shared: Arc<Shared>,
    queue: Option<mpsc::Sender<Vec<u8>>>,
    writer: Option<JoinHandle<()>>,
    next: TcpStream,
    before: TcpStream,
    operation: u32,
}

impl Ring {
    pub fn new(rank: usize, world: usize, [next, before]: [TcpStream; 2], shared: Arc<Shared>) -> io::Result<Self> {
        before.set_read_timeout(Some(POLL))?;
        next.set_write_timeout(None)?;
        let mut to = next.try_clone()?;
        let (queue, messages) = mpsc::channel::<Vec<u8>>();
        // A write error can be ignored here: the receiving rank notices that the connection ended, and the work is
        // aborted.
        let writer =
            std::thread::spawn(move || while messages.recv().is_ok_and(|bytes| to.write_all(&bytes).is_ok()) {});
        Ok(Self { rank, world, shared, queue: Some(queue), writer: Some(writer), next, before, operation: 0 })
    }

    fn neighbour(&self) -> usize {
        (self.rank + self.world - 1) % self.world
    }

    /// Runs an operation, and records its start and end for the watch.
    fn watched<R>(&mut self, operation: impl FnOnce(&mut Self) -> Result<R>) -> Result<R> {
        self.check()?;
        self.operation = self.operation.wrapping_add(1);
        self.shared.begin();
        let done = operation(self);
        self.shared.end();
        done
    }

    fn check(&self) -> Result<()> {
        if self.shared.is_aborted() { Err(self.over()) } else { Ok(()) }
    }

    /// Returns the error that explains why the work was stopped.
    fn over(&self) -> Error {
        let why = self.shared.why_within(REASON);
        Error::Lost(why.unwrap_or_else(|| crate::watch::died(self.neighbour())))
    }

    fn send(&self, kind: Kind, body: Vec<u8>) -> Result<()> {
        let mut message = Vec::with_capacity(13 + body.len());
        message.push(kind as u8);
        message.extend(self.operation.to_le_bytes());
        message.extend((body.len() as u64).to_le_bytes());
        message.extend(body);
        let sent = self.queue.as_ref().is_some_and(|queue| queue.send(message).is_ok());
        if sent { Ok(()) } else { Err(self.over()) }
    }

    /// Returns the next message from the previous rank. If `len` is given, any other length is an error.
    fn receive(&mut self, kind: Kind, len: Option<usize>) -> Result<Vec<u8>> {
        let mut head = [0; 13];
        self.read(&mut head)?;
        let operation = u32::from_le_bytes([head[1], head[2], head[3], head[4]]);
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&head[5..]);
        let found = u64::from_le_bytes(bytes);
        if head[0] != kind as u8 || operation != self.operation || len.is_some_and(|len| len as u64 != found) {
            let length = |len: u64| format!(" with {len} bytes");
            let why = format!(
                "The ranks do different things: rank {} is at {}{} (operation {}), and rank {} at {}{} (operation {operation}).",
                self.rank,
                Kind::name(kind as u8),
                len.map_or_else(String::new, |len| length(len as u64)),
                self.operation,
                self.neighbour(),
                Kind::name(head[0]),
                length(found),
            );
            self.shared.abort(&why);
            return Err(self.over());
        }
        let mut body = vec![0; usize::try_from(found).unwrap_or(usize::MAX)];
        self.read(&mut body)?;
        Ok(body)
    }

    fn read(&mut self, mut to: &mut [u8]) -> Result<()> {
        while !to.is_empty() {
            match self.before.read(to) {
                Ok(0) => return Err(self.over()),
                Ok(n) => to = &mut to[n..],
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => self.check()?,
                Err(_) => return Err(self.over()),
            }
        }
        Ok(())
    }

    pub fn broadcast(&mut self, values: &mut [f32], root: usize) -> Result<()> {
        self.watched(|ring| {
            for piece in values.chunks_mut(PIECE / 4) {
                let bytes = if ring.rank == root {
                    packed(piece, Wire::F32)
                } else {
                    let bytes = ring.receive(Kind::Broadcast, Some(4 * piece.len()))?;
                    put(&bytes, Wire::F32, piece);
                    bytes
                };
                // The rank before the root does not forward the values, because the root already has them. This also
                // holds if the root is the only rank.
                if (ring.rank + 1) % ring.world != root {
                    ring.send(Kind::Broadcast, bytes)?;
                }
            }
            Ok(())
        })
    }

    /// Reduces the values of all ranks over the ring: every part of the values goes around the ring once to be summed,
    /// and once more to distribute the sum. Each rank sends 2 (n - 1) / n of the values. Source: Patarasuk and Yuan,
    /// "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009.
    ///
    /// # Errors
    /// If another rank is lost, or the ranks call different operations.
    pub fn all_reduce(&mut self, values: &mut [f32], reduce: Reduce, wire: Wire) -> Result<()> {
        self.watched(|ring| {
            let (rank, world) = (ring.rank, ring.world);
            let len = values.len();
            let part = |at: usize| values_range(len, at % world, world);
            // The part that starts at this rank is completely summed at the previous rank. All parts are added in ring
            // order.
            for step in 0..world - 1 {
                let (out, into) = (part(rank + world - step), part(rank + 2 * world - step - 1));
                ring.send(Kind::AllReduce, packed(&values[out], wire))?;
                let bytes = ring.receive(Kind::AllReduce, Some(wire.bytes() * into.len()))?;
                add(&bytes, wire, &mut values[into]);
            }
            let whole = part(rank + 1);
            if reduce == Reduce::Mean {
                let count = world as f32;
                values[whole.clone()].iter_mut().for_each(|v| *v /= count);
            }
            // The other ranks receive the sum rounded, so this rank must round its own copy, too.
            round(&mut values[whole], wire);
            for step in 0..world - 1 {
                let (out, into) = (part(rank + 1 + world - step), part(rank + world - step));
                ring.send(Kind::AllReduce, packed(&values[out], wire))?;
                let bytes = ring.receive(Kind::AllReduce, Some(wire.bytes() * into.len()))?;
                put(&bytes, wire, &mut values[into]);
            }
            Ok(())
        })
    }

    pub fn all_gather(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        self.watched(|ring| {
            let (rank, world) = (ring.rank, ring.world);
            let mut all = vec![Vec::new(); world];
            all[rank] = bytes.to_vec();
            for step in 0..world - 1 {
                let (out, into) = ((rank + world - step) % world, (rank + 2 * world - step - 1) % world);
                ring.send(Kind::AllGather, all[out].clone())?;
                all[into] = ring.receive(Kind::AllGather, None)?;
            }
            Ok(all)
        })
    }

    /// Sends all queued messages, and then closes the connections.
    pub fn close(&mut self) {
        drop(self.queue.take());
        if self.shared.is_aborted() {
            // If the work was aborted, a rank that does not read must not block this one.
            let _ = self.next.shutdown(Shutdown::Both);
        }
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
        let _ = self.next.shutdown(Shutdown::Write);
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.close();
    }
}

/// Returns the index range of part `at` when `len` values are divided into `parts` parts.
fn values_range(len: usize, at: usize, parts: usize) -> Range<usize> {
    len * at / parts..len * (at + 1) / parts
}
