//! Figures of the rungs on CUDA cores: the elements that a thread computes, and what its warp reads for them.

use super::{A, B, C, LANES, Subject, size};
use std::collections::BTreeSet;
use warpbook_charts::diagram::{Diagram, Matrix, Product, Sign, Timeline};
use warpbook_record::Tile;

/// The elements of a block's tile that a thread computes: every combination of these rows and columns.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Share {
    rows: Vec<usize>,
    columns: Vec<usize>,
}

/// Returns a thread's element in `kernels/matmul/01_naive.cu`, where consecutive threads take consecutive rows.
fn naive_share(tile: &Tile, thread: usize) -> Share {
    let bm = size(tile, "BM");
    Share { rows: vec![thread % bm], columns: vec![thread / bm] }
}

/// Returns a thread's element in `kernels/matmul/02_coalesced.cu` and `03_shared_tile.cu`, where consecutive threads take
/// consecutive columns.
fn row_share(tile: &Tile, thread: usize) -> Share {
    let bn = size(tile, "BN");
    Share { rows: vec![thread / bn], columns: vec![thread % bn] }
}

/// Returns a thread's elements in `kernels/matmul/04_register_1d.cu`: `TM` elements in one column, `BM / TM` rows apart.
fn share_1d(tile: &Tile, thread: usize) -> Share {
    let (bm, bn, tm) = (size(tile, "BM"), size(tile, "BN"), size(tile, "TM"));
    Share { rows: (0..tm).map(|i| thread / bn + i * (bm / tm)).collect(), columns: vec![thread % bn] }
}

/// Returns a thread's elements in `kernels/matmul/05_register_2d.cu`.
fn share_2d(tile: &Tile, thread: usize) -> Share {
    let [bm, bn, tm, tn] = ["BM", "BN", "TM", "TN"].map(|n| size(tile, n));
    let across = bn / tn;
    Share {
        rows: (0..tm).map(|i| thread / across + i * (bm / tm)).collect(),
        columns: (0..tn).map(|j| thread % across + j * across).collect(),
    }
}

/// Mirrors `place` in `kernels/matmul/cuda_cores.cuh`: returns the indices in groups of four whose starts are `apart` elements apart.
fn in_fours(first: usize, count: usize, apart: usize) -> Vec<usize> {
    (0..count).map(|i| first + i / 4 * apart + i % 4).collect()
}

/// Returns a thread's elements in `kernels/matmul/06_vectorised.cu`.
fn share_of_fours(tile: &Tile, thread: usize) -> Share {
    let [bm, bn, tm, tn] = ["BM", "BN", "TM", "TN"].map(|n| size(tile, n));
    Share {
        rows: in_fours(thread / (bn / tn) * 4, tm, 4 * bm / tm),
        columns: in_fours(thread % (bn / tn) * 4, tn, 4 * bn / tn),
    }
}

/// Returns a thread's elements in `kernels/matmul/07_warp_tile.cu` and `08_double_buffered.cu`.
fn share_of_warp_tile(tile: &Tile, thread: usize) -> Share {
    let [bn, tm, tn, wm, wn] = ["BN", "TM", "TN", "WM", "WN"].map(|n| size(tile, n));
    let (warp, lane, across) = (thread / LANES, thread % LANES, wn / tn);
    let row = warp / (bn / wn) * wm + (lane / 2 / across * 2 + lane % 2) * 4;
    let column = warp % (bn / wn) * wn + lane / 2 % across * 4;
    Share { rows: in_fours(row, tm, 4 * wm / tm), columns: in_fours(column, tn, 4 * wn / tn) }
}

/// Returns the rows and the columns of all elements of the first warp.
fn of_warp(share: impl Fn(usize) -> Share) -> (BTreeSet<usize>, BTreeSet<usize>) {
    let all: Vec<Share> = (0..LANES).map(share).collect();
    (all.iter().flat_map(|s| s.rows.clone()).collect(), all.iter().flat_map(|s| s.columns.clone()).collect())
}

/// Merges neighbouring values into ranges.
fn runs<'a>(values: impl IntoIterator<Item = &'a usize>) -> Vec<std::ops::Range<usize>> {
    let mut out: Vec<std::ops::Range<usize>> = Vec::new();
    for &v in values {
        match out.last_mut() {
            Some(last) if last.end == v => last.end = v + 1,
            _ => out.push(v..v + 1),
        }
    }
    out
}

/// Tone that highlights one thread's sums among the sums of its warp.
const THREAD: usize = 3;
/// Number of floats in a 128-byte line.
const LINE: usize = 32;

/// Returns how many lines and how many elements a warp reads at one step of k, in a corner of large matrices, where each row starts a new line.
fn lines(elements: impl Iterator<Item = (usize, usize)>) -> (usize, usize) {
    let elements: BTreeSet<(usize, usize)> = elements.collect();
    let lines: BTreeSet<(usize, usize)> = elements.iter().map(|(row, column)| (*row, column / LINE)).collect();
    (elements.len(), lines.len())
}

fn counted_lines((elements, lines): (usize, usize)) -> String {
    match (elements, lines) {
        (1, _) => "1 element, the same for all lanes".into(),
        (n, 1) => format!("{n} elements in 1 line"),
        (n, lines) => format!("{n} elements in {lines} lines"),
    }
}

pub(super) fn naive(of: &Subject<'_>) -> Diagram {
    one_element(of, |lane| naive_share(of.tile, lane))
        .note("A line is 128 bytes, which a warp can read at once: here a row of 32 numbers of 4 bytes.")
        .note("Neighbouring threads take neighbouring rows, so each of them needs a different line, for 4 bytes of it at a time.")
}

pub(super) fn coalesced(of: &Subject<'_>) -> Diagram {
    one_element(of, |lane| row_share(of.tile, lane))
        .note("A line is 128 bytes, which a warp can read at once: here a row of 32 numbers of 4 bytes.")
        .note("Neighbouring threads take neighbouring columns: of B and C the warp uses whole lines, and of A all need the same.")
}

/// Draws a rung whose threads compute one element each: the elements that the lanes of a warp read at one step of k, and the elements that they write.
fn one_element(of: &Subject<'_>, share: impl Fn(usize) -> Share) -> Diagram {
    let places: Vec<(usize, usize)> = (0..LANES).map(&share).map(|s| (s.rows[0], s.columns[0])).collect();
    let (a, b) = (lines(places.iter().map(|p| (p.0, 0))), lines(places.iter().map(|p| (0, p.1))));
    let c = lines(places.iter().copied());
    let corner = |name: &str| Matrix::new(name, LINE, LINE).cell(5.9, 5.9);
    let (mut of_a, mut of_b, mut of_c) = (corner("A"), corner("B"), corner("C"));
    let (rows, columns) = of_warp(&share);
    for r in runs(&rows) {
        of_a = of_a.shade(r.clone(), 0..1, A, "read of A at the first step of k");
        of_a = of_a.tint(r.clone(), 1..LINE, A, "at later steps");
        for c in runs(&columns) {
            of_c = of_c.shade(r.clone(), c, C, "written at the end");
        }
    }
    for c in runs(&columns) {
        of_b = of_b.shade(0..1, c.clone(), B, "read of B at the first step of k");
        of_b = of_b.tint(1..LINE, c, B, "at later steps");
    }
    let last = LANES - 1;
    if places[0].0 == places[last].0 {
        of_b = of_b.at_column(0, "lane 0").at_column(last, "lane 31");
        of_c = of_c.at_column(0, "lane 0").at_column(last, "lane 31");
    } else {
        of_a = of_a.at_row(0, "lane 0").at_row(last, "lane 31");
    }
    let mut diagram = of
        .figure("what a warp reads and writes")
        .subtitle("a corner of each matrix, fp32, row-major; the 32 lanes of a warp")
        .describe(&format!(
            "At each step of k a warp reads of A {}, and of B {}; at the end it writes {} of C.",
            counted_lines(a),
            counted_lines(b),
            counted_lines(c)
        ))
        .put(of_a.caption(&counted_lines(a)))
        .put(Sign::new("×"))
        .put(of_b.caption(&counted_lines(b)))
        .put(Sign::new("="))
        .put(of_c.caption(&counted_lines(c)))
        .table(["matrix", "lanes", "different elements", "lines of 128 bytes"]);
    for (name, (elements, lines)) in [("A, each step", a), ("B, each step", b), ("C, once", c)] {
        diagram = diagram.figures([name, "32", &elements.to_string(), &lines.to_string()]);
    }
    diagram
}

pub(super) fn shared_tile(of: &Subject<'_>) -> Diagram {
    let [bm, bn, bk] = ["BM", "BN", "BK"].map(|n| size(of.tile, n));
    let thread = 5 * bn + 9;
    let Share { rows, columns } = row_share(of.tile, thread);
    let (row, column) = (rows[0], columns[0]);
    let tiles = |name: &str| Matrix::new(name, 4, 4).cell(19.0, 19.0);
    let a = tiles("A").tint(1..2, 0..4, A, "A's tiles, one after the other").shade(1..2, 1..2, A, "A's tile now");
    let b = tiles("B").tint(0..4, 2..3, B, "B's tiles, one after the other").shade(1..2, 2..3, B, "B's tile now");
    let c = tiles("C").shade(1..2, 2..3, C, "what is computed");
    let cell = 176.0 / bm.max(bn) as f64;
    let a_tile = Matrix::new("tile_a, transposed", bm, bk)
        .cell(cell, cell)
        .tint(0..bm, 0..bk, A, "")
        .shade(row..row + 1, 0..bk, A, "")
        .at_row(row, &format!("row {row}"));
    let b_tile = Matrix::new("tile_b", bk, bn).cell(cell, cell).tint(0..bk, 0..bn, B, "").shade(
        0..bk,
        column..column + 1,
        B,
        "",
    );
    let c_tile = Matrix::new("the tile of C", bm, bn)
        .cell(cell, cell)
        .tint(row..row + 1, 0..bn, C, "by the same warp")
        .shade(row..row + 1, column..column + 1, C, "")
        .caption(&format!("strong: thread {thread}, row {row}, column {column}"));
    let threads = bm * bn;
    let each = bm * bk / threads;
    of.figure("tiles through shared memory")
        .subtitle(&format!("tiles of {bm} × {bk} and {bk} × {bn}; a block of {threads} threads"))
        .describe(&format!(
            "A block of {threads} threads copies a tile of A and one of B into shared memory, and each thread computes one element of \
             C from a row of the one and a column of the other; thread {thread} has row {row} and column {column}."
        ))
        .put(Product::new(a, b, c))
        .put(Sign::arrow(&format!("each thread fetches {each} of A and {each} of B; a barrier")))
        .put(Product::new(a_tile, b_tile, c_tile))
        .note(&format!(
            "A block reads each number from memory once; {bn} threads use each of A's, and {bm} each of B's. From shared memory a thread \
             still reads two numbers for each multiply-add."
        ))
        .table(["who", "reads at each k", "different words of tile_a", "different words of tile_b"])
        .figures(["a thread", "2 words", "1", "1"])
        .figures(["a warp", "64 words", &words(&of_warp(|t| row_share(of.tile, t)).0), &words(&of_warp(|t| row_share(of.tile, t)).1)])
}

fn words(of: &BTreeSet<usize>) -> String {
    of.len().to_string()
}

/// Draws a block's tile with one thread's elements, the tiles in shared memory, and the thread's registers.
fn register_tile(of: &Subject<'_>, what: &str, share: impl Fn(usize) -> Share) -> Diagram {
    let [bm, bn, bk] = ["BM", "BN", "BK"].map(|n| size(of.tile, n));
    let (warp_rows, warp_columns) = of_warp(&share);
    // Highlight a lane in the middle, since a lane in the corner would be hard to see.
    let lane = 5;
    let thread = share(lane);
    let cell = 350.0 / bm.max(bn) as f64;
    let step = 1.min(bk - 1);
    let mut a = Matrix::new("tile_a", bm, bk).cell(5.0, cell);
    let mut b = Matrix::new("tile_b", bk, bn).cell(cell, 5.0);
    let mut c = Matrix::new(&format!("the block's tile of C, {bm} × {bn}"), bm, bn).cell(cell, cell);
    for r in runs(&warp_rows) {
        a = a.tint(r.clone(), step..step + 1, A, "");
        for columns in runs(&warp_columns) {
            c = c.tint(r.clone(), columns, C, "elements of its warp");
        }
    }
    for columns in runs(&warp_columns) {
        b = b.tint(step..step + 1, columns, B, "");
    }
    for r in runs(&thread.rows) {
        a = a.shade(r.clone(), step..step + 1, A, "what the thread reads of A at one k");
        for columns in runs(&thread.columns) {
            c = c.shade(r.clone(), columns, THREAD, &format!("elements of thread {lane}"));
        }
    }
    for columns in runs(&thread.columns) {
        b = b.shade(step..step + 1, columns, B, "what it reads of B");
    }
    let (tm, tn) = (thread.rows.len(), thread.columns.len());
    let register = |name: &str, rows, columns| Matrix::new(name, rows, columns).cell(18.0, 18.0);
    let of_a = register("", tm, 1).shade(0..tm, 0..1, A, "").write(|i, _| format!("a{i}"));
    let of_b = register("", 1, tn).shade(0..1, 0..tn, B, "").write(|_, j| format!("b{j}"));
    let sums = register("its registers", tm, tn).shade(0..tm, 0..tn, THREAD, "").caption("sums += a b");
    let (a_words, b_words) = (warp_rows.len(), warp_columns.len());
    of.figure(what)
        .subtitle(&format!("{bm} × {bn} of C a block, {tm} × {tn} a thread; one step of k"))
        .describe(&format!(
            "Thread {lane} computes {tm} × {tn} elements of its block's tile of C: {} and {}. At each k it reads {} numbers \
             for {} multiply-adds.",
            few("row", &thread.rows),
            few("column", &thread.columns),
            tm + tn,
            tm * tn
        ))
        .put(Product::new(a, b, c))
        .put(Product::new(of_a, of_b, sums))
        .table(["who, at each k", "reads", "multiply-adds", "different words of tile_a", "different words of tile_b"])
        .figures(["a thread", &(tm + tn).to_string(), &(tm * tn).to_string(), &tm.to_string(), &tn.to_string()])
        .figures([
            "a warp",
            &(LANES * (tm + tn)).to_string(),
            &(LANES * tm * tn).to_string(),
            &a_words.to_string(),
            &b_words.to_string(),
        ])
}

/// Returns a short list such as "row 5", "rows 0, 16, 32 … 112" or "rows 4–7, 68–71".
fn few(what: &str, values: &[usize]) -> String {
    let runs = runs(values);
    let all: Vec<String> = runs
        .iter()
        .map(|r| if r.len() == 1 { r.start.to_string() } else { format!("{}–{}", r.start, r.end - 1) })
        .collect();
    match all.as_slice() {
        _ if values.len() == 1 => format!("{what} {}", values[0]),
        [first, second, third, .., last] if all.len() > 5 => format!("{what}s {first}, {second}, {third} … {last}"),
        _ => format!("{what}s {}", all.join(", ")),
    }
}

pub(super) fn register_1d(of: &Subject<'_>) -> Diagram {
    register_tile(of, "a column of sums in registers", |t| share_1d(of.tile, t))
        .note("tile_a is drawn transposed: in shared memory both tiles are stored as [k][…], so the values multiplied at one k form a row.")
        .note("A number of B, once in a register, serves all sums of the thread; the numbers of A are the same for the whole warp.")
}

pub(super) fn register_2d(of: &Subject<'_>) -> Diagram {
    register_tile(of, "a tile of sums in registers", |t| share_2d(of.tile, t))
        .note("tile_a is drawn transposed: in shared memory both tiles are stored as [k][…], so the values multiplied at one k form a row.")
        .note("Each number of A and of B, once in a register, serves eight multiply-adds.")
}

pub(super) fn vectorised(of: &Subject<'_>) -> Diagram {
    let [bm, bn, bk] = ["BM", "BN", "BK"].map(|n| size(of.tile, n));
    // `load_vec4` in `kernels/matmul/cuda_cores.cuh` reads A along k, and reads B along the columns.
    let of_a = |row: usize, k: usize| row * (bk / 4) + k / 4;
    let of_b = |k: usize, column: usize| k * (bn / 4) + column / 4;
    let chosen = of_a(3, 0);
    let (rows, columns) = (8.min(bm), 12.min(bn));
    let a = Matrix::new("A in memory", rows, bk)
        .cell(20.0, 15.0)
        .fill(&format!("A's four of thread {chosen}"), |row, k| (of_a(row, k) == chosen).then_some(A))
        .write(|row, k| if k % 4 == 0 { of_a(row, k).to_string() } else { String::new() })
        .rule(1, 4)
        .caption("16 bytes along k");
    let a_tile = Matrix::new("tile_a [k][row]", bk, rows)
        .cell(20.0, 15.0)
        .fill("", |k, row| (of_a(row, k) == chosen).then_some(A))
        .write(|k, row| if k % 4 == 0 { of_a(row, k).to_string() } else { String::new() })
        .rule(4, 1)
        .caption("4 times 4 bytes");
    let first = chosen * 4 % bn;
    let b = Matrix::new("B in memory, and tile_b", bk, columns)
        .cell(20.0, 15.0)
        .fill(&format!("B's four of thread {chosen}"), |k, column| (of_b(k, first + column) == chosen).then_some(B))
        .write(|k, column| if column % 4 == 0 { of_b(k, first + column).to_string() } else { String::new() })
        .rule(1, 4)
        .at_column(0, &format!("column {first}"))
        .caption("16 bytes along the row, kept as they are");
    register_tile(of, "everything in fours", |t| share_of_fours(of.tile, t))
        .row("Into shared memory: the number of the thread that brings an element")
        .put(a)
        .put(Sign::arrow("transposed"))
        .put(a_tile)
        .put(b)
        .note("A thread's rows and columns come in fours, which it reads from shared memory with one instruction each.")
        .note(
            "tile_b keeps the fours of B. The fours of A lie along k, and are transposed on the way, one number at a time.",
        )
}

pub(super) fn warp_tile(of: &Subject<'_>) -> Diagram {
    let [bn, tn, wm, wn] = ["BN", "TN", "WM", "WN"].map(|n| size(of.tile, n));
    // These are the first groups of four of each lane; the others repeat the pattern.
    let lanes = |share: &dyn Fn(usize) -> Share| -> Vec<(usize, usize)> {
        (0..LANES).map(share).map(|s| (s.rows[0] / 4, s.columns[0] / 4)).collect()
    };
    let (strip, compact) = (lanes(&|t| share_of_fours(of.tile, t)), lanes(&|t| share_of_warp_tile(of.tile, t)));
    let pieces = |name: &str, places: &[(usize, usize)]| {
        let extent = |of: fn(&(usize, usize)) -> usize| places.iter().map(of).max().unwrap_or(0) + 1;
        let (rows, columns) = (extent(|p| p.0), extent(|p| p.1));
        let lane = |row, column| places.iter().position(|p| *p == (row, column));
        Matrix::new(name, rows, columns)
            .cell(21.0, 16.0)
            .fill("", |row, column| lane(row, column).filter(|l| *l < 8).map(|_| C))
            .write(|row, column| lane(row, column).map_or(String::new(), |l| l.to_string()))
            .caption(&format!("{rows} fours of A and {columns} of B: {}", rows + columns))
    };
    let across = wn / tn;
    register_tile(of, "a compact part for each warp", |t| share_of_warp_tile(of.tile, t))
        .row("A warp's first fours by lane, each 4 × 4 elements; shaded: lanes 0 to 7")
        .put(pieces("06, a strip", &strip))
        .put(pieces("07, a rectangle", &compact))
        .note(&format!(
            "A warp has {wm} × {wn} of the tile, {} warps side by side, {across} lanes side by side.",
            bn / wn
        ))
        .note(
            "Shared memory gives a word to all lanes that ask for it at once: the fewer different fours a warp asks for, the fewer \
             wavefronts a read takes.",
        )
}

pub(super) fn double_buffered(of: &Subject<'_>) -> Diagram {
    let (stages, bk) = (size(of.tile, "STAGES").clamp(3, 8), size(of.tile, "BK").min(16));
    let tiles = 5;
    let mut before = Timeline::new(&["into shared memory", "multiply-adds"]);
    let mut t = 0.0;
    for i in 0..tiles - 1 {
        before = before.span(0, (t, t + 1.3), A, &format!("tile {i}"), "tiles of A and B on their way");
        before = before.span(1, (t + 1.4, t + 2.9), C, &format!("tile {i}"), "tiles multiplied");
        t += 3.0;
    }
    let mut after = Timeline::new(&["copies (cp.async)", "multiply-adds"]);
    // The first STAGES - 1 tiles are requested before the loop; each iteration requests one more.
    let begin = 1.4;
    after = after.span(0, (0.0, begin), A, &format!("tiles 0 to {}", stages - 2), "");
    for i in 0..tiles {
        let from = begin + 0.1 + i as f64 * 1.6;
        after = after.span(1, (from, from + 1.5), C, &format!("tile {i}"), "");
        after = after.span(0, (from, from + 1.5), A, &format!("tile {}", i + stages - 1), "");
    }
    let mut within = Timeline::new(&["copies of a later tile", "fragments read", "multiply-adds"]);
    for kk in 0..bk {
        let from = kk as f64;
        let next = (kk + 1) % bk;
        let text = format!("k {next}");
        within = within.span(1, (from, from + 0.45), B, &text, "fragments of the next k");
        within = within.span(2, (from, from + 0.97), C, &format!("k {kk}"), "");
        if kk % 4 == 0 {
            within = within.span(0, (from + 0.45, from + 0.95), A, "", "");
        }
    }
    of.figure("copies, reads and multiply-adds at the same time")
        .subtitle(&format!("a ring of {stages} tiles of {bk} k; not to scale"))
        .describe(&format!(
            "While a tile is multiplied, the tile {} iterations later is copied into shared memory, and while one k is multiplied, the \
             fragments of the next are read.",
            stages - 1
        ))
        .row("07: a tile comes, then it is multiplied")
        .put(before)
        .row(&format!("08: while a tile is multiplied, the one {} iterations later arrives", stages - 1))
        .put(after)
        .row("Within a tile: fragments of k + 1 are read while k is multiplied")
        .put(within)
        .note("One barrier a tile: it says that the next tile has come for all, and that all are done with the last one.")
        .table(["while tile t is multiplied", "what happens"])
        .figures(["tile t + 1", "has come"])
        .figures([format!("tile t + {}", stages - 1).as_str(), "is asked for, a few copies at a time"])
}

#[cfg(test)]
mod tests {
    use super::super::tests::first_tile;
    use super::*;

    /// Checks that every element of the tile belongs to exactly one thread.
    fn check(rung: &str, share: impl Fn(&Tile, usize) -> Share) {
        let tile = first_tile(rung);
        let (bm, bn) = (size(&tile, "BM"), size(&tile, "BN"));
        let threads = bm * bn / size(&tile, "TM") / size(&tile, "TN");
        assert!(tile.get("THREADS").is_none_or(|t| t == threads as i64), "{tile:?}");
        let mut owners = vec![0; bm * bn];
        for t in 0..threads {
            let s = share(&tile, t);
            s.rows.iter().for_each(|r| s.columns.iter().for_each(|c| owners[r * bn + c] += 1));
        }
        assert!(owners.iter().all(|n| *n == 1), "{rung}");
        // The drawing shows the elements of the warp as ranges of rows and columns, so every element in these ranges must belong to the warp.
        let (rows, columns) = of_warp(|t| share(&tile, t));
        let each = share(&tile, 0);
        assert_eq!(rows.len() * columns.len(), LANES * each.rows.len() * each.columns.len(), "{rung}");
    }

    #[test]
    fn the_threads_share_out_the_tile() {
        check("01_naive", naive_share);
        check("02_coalesced", row_share);
        check("03_shared_tile", row_share);
        check("04_register_1d", share_1d);
        check("05_register_2d", share_2d);
        check("06_vectorised", share_of_fours);
        check("07_warp_tile", share_of_warp_tile);
        check("08_double_buffered", share_of_warp_tile);
    }

    #[test]
    fn what_a_warp_reads_at_once() {
        let lanes = |share: &dyn Fn(usize) -> Share| -> Vec<(usize, usize)> {
            (0..LANES).map(share).map(|s| (s.rows[0], s.columns[0])).collect()
        };
        let naive = lanes(&|t| naive_share(&first_tile("01_naive"), t));
        assert_eq!(lines(naive.iter().map(|p| (p.0, 0))), (32, 32));
        assert_eq!(lines(naive.iter().copied()), (32, 32));
        let coalesced = lanes(&|t| row_share(&first_tile("02_coalesced"), t));
        assert_eq!(lines(coalesced.iter().map(|p| (p.0, 0))), (1, 1));
        assert_eq!(lines(coalesced.iter().copied()), (32, 1));
        assert_eq!(few("row", &[0, 16, 32, 48, 64, 80]), "rows 0, 16, 32 … 80");
        assert_eq!(few("row", &[4, 5, 6, 7, 68, 69]), "rows 4–7, 68–69");
    }
}
