//! Compiled files, and the resource usage that the assembler reports for them.

use crate::compile::cubin;
use warpbook_record::KernelStats;

/// A file compiled for one architecture.
#[derive(Debug, Clone)]
pub struct Compiled {
    /// The machine code.
    pub cubin: Vec<u8>,
    /// Registers, spills and other statistics of each entry point, from the assembler's log.
    pub stats: Vec<KernelStats>,
    /// True if the file came from the cache on disk.
    pub from_cache: bool,
}

impl Compiled {
    /// Returns the assembler's statistics for one entry point.
    #[must_use]
    pub fn stats_of(&self, entry: &str) -> Option<&KernelStats> {
        self.stats.iter().find(|s| s.entry == entry)
    }
}

/// Reads register counts from the machine code, and shared memory and spills from the assembler's log. If the log does
/// not mention an entry, its section sizes and its stack frame (which holds spilled registers) are used instead.
pub(crate) fn stats(code: &[u8], log: &str, file: &str, architecture: &str) -> Vec<KernelStats> {
    let logged = parse_log(log);
    let of_entry = |r: cubin::Resources| {
        let said = logged.iter().find(|l| l.entry == r.entry);
        KernelStats {
            file: file.into(),
            architecture: architecture.into(),
            registers: r.registers,
            static_shared_bytes: said.map_or(r.static_shared_bytes, |l| l.shared_bytes),
            spill_store_bytes: said.map_or(r.frame_bytes, |l| l.spill_store_bytes),
            spill_load_bytes: said.map_or(r.frame_bytes, |l| l.spill_load_bytes),
            entry: r.entry,
            ..KernelStats::default()
        }
    };
    cubin::resources(code).into_iter().map(of_entry).collect()
}

/// Returns true if a log describes every entry of this cubin exactly once, with the right register count, and no other
/// entry.
pub(crate) fn tells_of(log: &str, code: &[u8]) -> bool {
    let (logged, there) = (parse_log(log), cubin::resources(code));
    let is_told = |r: &cubin::Resources| {
        let mut matching = logged.iter().filter(|l| l.entry == r.entry);
        matching.next().is_some_and(|l| l.registers == r.registers) && matching.next().is_none()
    };
    logged.len() == there.len() && there.iter().all(is_told)
}

/// One entry's statistics as `ptxas -v` prints them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Logged<'a> {
    entry: &'a str,
    registers: u32,
    shared_bytes: u32,
    spill_store_bytes: u32,
    spill_load_bytes: u32,
}

fn parse_log(log: &str) -> Vec<Logged<'_>> {
    let mut all: Vec<Logged> = Vec::new();
    for line in log.lines() {
        if let Some(entry) = line.split("Compiling entry function '").nth(1).and_then(|r| r.split('\'').next()) {
            all.push(Logged { entry, ..Logged::default() });
        }
        let Some(last) = all.last_mut() else { continue };
        let number_before = |unit: &str| -> Option<u32> { line.split_once(unit)?.0.rsplit(' ').next()?.parse().ok() };
        if let Some(n) = number_before(" bytes spill stores") {
            last.spill_store_bytes = n;
        }
        if let Some(n) = number_before(" bytes spill loads") {
            last.spill_load_bytes = n;
        }
        if let Some(n) = number_before(" registers") {
            last.registers = n;
        }
        if let Some(n) = number_before(" bytes smem") {
            last.shared_bytes = n;
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_assembler_s_log_is_read() {
        let log = "ptxas info    : 24 bytes gmem\n\
            ptxas info    : Compiling entry function 'update' for 'sm_90'\n\
            ptxas info    : Function properties for update\n\
            ptxas         .     0 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads\n\
            ptxas info    : Used 32 registers, used 1 barriers, 192 bytes smem\n\
            ptxas info    : Compiling entry function 'pass' for 'sm_90'\n\
            ptxas info    : Used 64 registers, used 0 barriers\n";
        let update =
            Logged { entry: "update", registers: 32, shared_bytes: 192, spill_store_bytes: 4, spill_load_bytes: 8 };
        assert_eq!(parse_log(log), [update, Logged { entry: "pass", registers: 64, ..Logged::default() }]);
        assert_eq!(parse_log(""), []);
    }
}
