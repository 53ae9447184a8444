//! Compares the machine code of kernels with and without their marks.

use crate::{Compiled, Compiler};
use rayon::prelude::*;
use std::borrow::Cow;
use warpbook_kernels::HEADERS;
use warpbook_kernels::xray::Marks;
use warpbook_record::{KernelSpec, Source, Tile};

/// Removes the marks from a source; the remaining lines keep their numbers.
fn without_marks(text: &str) -> String {
    let is_mark = |l: &str| (l.starts_with("MARK(") || l.starts_with("MARK_BEGIN(")) && l.ends_with(");");
    let kept = text.lines().map(|l| if is_mark(l.trim()) || l.trim() == "#include \"xray.cuh\"" { "" } else { l });
    let stripped = kept.collect::<Vec<_>>().join("\n") + "\n";
    assert!(!stripped.contains("MARK("), "a mark that does not have a line for itself");
    stripped
}

/// Returns up to two rows for each kernel with marks, with the architecture that has all of its instructions.
fn marked() -> Vec<(KernelSpec, Marks, String)> {
    let mut rows: Vec<(KernelSpec, Marks, String)> = Vec::new();
    for (spec, requires) in warpbook_kernels::all() {
        let Some(marks) = Marks::for_kernel(&spec) else { continue };
        let seen = rows.iter().filter(|(s, ..)| (&s.file, &s.entry) == (&spec.file, &spec.entry)).count();
        let newest = requires.architectures().into_iter().find(|a| a.starts_with("sm_90"));
        // Two rows may be different forms of a kernel, such as f32 and 16-bit elements.
        if let Some(architecture) = newest.filter(|_| seen < 2) {
            rows.push((spec, marks, architecture.into_owned()));
        }
    }
    rows
}

fn compile(compiler: &Compiler, spec: &KernelSpec, tile: &Tile, architecture: &str) -> Compiled {
    compiler.compile(spec, tile, architecture).unwrap_or_else(|e| panic!("{}: {e}", spec.file))
}

#[test]
fn marks_that_are_off_leave_the_code_as_it_is() {
    let stripped = |h: &Source| Source { path: h.path, text: without_marks(h.text).leak() };
    let headers: Vec<Source> = HEADERS.iter().map(|h| if h.path == "xray.cuh" { *h } else { stripped(h) }).collect();
    let without = Compiler::with_headers(headers.leak()).unwrap_or_else(|e| panic!("{e}"));
    let with = Compiler::with_headers(HEADERS).unwrap_or_else(|e| panic!("{e}"));
    let rows = marked();
    assert!(rows.len() >= 30, "{} rows", rows.len());
    rows.par_iter().for_each(|(spec, _, architecture)| {
        let plain = KernelSpec { source: Cow::Owned(without_marks(&spec.source)), ..spec.clone() };
        assert_ne!(plain.source, spec.source);
        let tile = &spec.tiles[0];
        let [a, b] = [(&with, spec), (&without, &plain)].map(|(c, s)| compile(c, s, tile, architecture));
        assert!(a.cubin == b.cubin, "{} with {}: marks that are off change its code", spec.file, tile.id);
    });
}

#[test]
fn marks_that_are_on_fit_into_registers_and_shared_memory() {
    let compiler = Compiler::new(None).unwrap_or_else(|e| panic!("{e}"));
    let rows = marked();
    let compare = |(spec, marks, architecture): &(KernelSpec, Marks, String)| {
        let (mut report, mut wrong) = (String::new(), Vec::new());
        let on = marks.on(spec);
        // Only the first tiles and the last are compiled, because all of them would take minutes.
        let few = spec.tiles.len().min(3);
        for tile in spec.tiles.iter().take(few).chain(spec.tiles.last()) {
            let both = [spec, &on].map(|s| compile(&compiler, s, tile, architecture));
            let [off, on] = both.each_ref().map(|c| c.stats_of(&spec.entry).cloned().unwrap_or_default());
            let [spill, more] = [&off, &on].map(|s| s.spill_store_bytes + s.spill_load_bytes);
            let shared = u64::from(on.static_shared_bytes) + tile.dynamic_shared_bytes();
            let name = format!("{} {} {} {architecture}", spec.file, spec.entry, tile.id);
            report +=
                &format!("{name}: {} registers, {} with marks, {more} bytes spilled\n", off.registers, on.registers);
            assert!(both[0].cubin != both[1].cubin, "{name}: marks were not compiled");
            // A block on Hopper can have at most 227 KiB of shared memory.
            if (spill == 0 && more > 0) || shared > 232_448 {
                wrong.push(format!("{name}: {more} bytes spilled, {shared} bytes of shared memory"));
            }
        }
        (report, wrong)
    };
    let (reports, wrong): (Vec<String>, Vec<Vec<String>>) = rows.par_iter().map(compare).unzip();
    let wrong = wrong.concat();
    println!("{}", reports.concat());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
