//! Requests lane by lane: the bytes that each lane of a warp accesses with one instruction.

use crate::Thread;
use crate::compute::LANES;
use crate::machine::{AccessKind, LOCAL_WINDOW, Request, SHARED_WINDOW, lanes};

/// The bytes that the lanes of one warp access with one instruction, in shared memory or in one buffer of global memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WarpRequest {
    /// Name of the file as it was given to the compiler.
    pub file: String,
    /// Line number, counted from 1.
    pub line: u32,
    /// The kind of access: a load, a store or an atomic operation.
    pub kind: AccessKind,
    /// True for shared memory, false for global memory.
    pub is_shared: bool,
    /// Name of the buffer, such as "argument 1 (`x`)", or "shared memory" for any address in shared memory.
    pub buffer: String,
    /// The thread of the lowest lane that takes part.
    pub thread: Thread,
    /// Number of bytes that each lane accesses.
    pub bytes: u32,
    /// Offset of each lane's first byte in the buffer; `None` for lanes that do not take part or that access another buffer.
    pub offsets: [Option<u64>; LANES],
}

/// Maximum number of requests that are kept for a source line.
const OF_A_LINE: usize = 4;

/// The first request of each instruction.
#[derive(Debug)]
pub(super) struct FirstRequests {
    /// True for each instruction that has already made a request.
    has_come: Vec<bool>,
    found: Vec<(u32, WarpRequest)>,
}

impl FirstRequests {
    pub(super) fn new(instructions: usize) -> Self {
        Self { has_come: vec![false; instructions], found: Vec::new() }
    }

    /// Keeps a request if it is the first one of its instruction. Ignores local memory and instructions without a source line.
    pub(super) fn note(&mut self, request: &Request) {
        let moment = request.moment;
        if std::mem::replace(&mut self.has_come[moment.at as usize], true) {
            return;
        }
        let (Some(position), Some(first)) = (&moment.step().position, lanes(moment.active).next()) else { return };
        let address = request.addresses[first];
        let is_shared = address & SHARED_WINDOW != 0;
        let (start, end, name) = match moment.memory.find(address) {
            _ if is_shared => (SHARED_WINDOW, SHARED_WINDOW + moment.shared.len() as u64, "shared memory"),
            Some(buffer) if address & LOCAL_WINDOW == 0 => {
                (buffer.start, buffer.end(), moment.names.find(buffer.start).unwrap_or("a buffer"))
            }
            _ => return,
        };
        let mut offsets = [None; LANES];
        for lane in lanes(moment.active) {
            let address = request.addresses[lane];
            offsets[lane] = (start..end).contains(&address).then(|| address - start);
        }
        let request = WarpRequest {
            file: position.file.to_string(),
            line: position.line,
            kind: request.kind,
            is_shared,
            buffer: name.to_owned(),
            thread: moment.thread(first),
            bytes: u32::try_from(request.bytes()).unwrap_or(0),
            offsets,
        };
        self.found.push((moment.at, request));
    }

    /// Returns the recorded requests, sorted by file, line and instruction.
    pub(super) fn finish(mut self) -> Vec<WarpRequest> {
        self.found.sort_by(|(a, x), (b, y)| (&x.file, x.line, a).cmp(&(&y.file, y.line, b)));
        let mut all: Vec<WarpRequest> = Vec::new();
        for (_, request) in self.found {
            let of_its_line = all.iter().rev().take_while(|r| (r.line, &r.file) == (request.line, &request.file));
            if of_its_line.count() < OF_A_LINE {
                all.push(request);
            }
        }
        all
    }
}
