//! Figures of the rungs on Hopper's tensor cores: TMA tiles, sums distributed over a warpgroup, and the waits between
//! warps.

use super::tensor_cores::{PIECES, lines_of_pieces, swizzled};
use super::{A, B, C, STOP, Subject, size};
use std::collections::BTreeSet;
use warpbook_charts::diagram::{Diagram, Matrix, Product, Sign, Timeline};

/// Number of rows that a warpgroup multiplies at once.
const M: usize = 64;

/// Returns the warp, lane and register that hold an element of the 64 x N sums, as in `MULTIPLY` in
/// `kernels/matmul/hopper.cuh`.
fn holder(row: usize, column: usize) -> (usize, usize, usize) {
    // d[4 j + 2 h + i] holds row 16 (warp % 4) + lane / 4 + 8 h and column 8 j + 2 (lane % 4) + i.
    let (j, h, i) = (column / 8, row % 16 / 8, column % 2);
    (row / 16, row % 8 * 4 + column % 8 / 2, 4 * j + 2 * h + i)
}

pub(super) fn wgmma_tma(of: &Subject<'_>) -> Diagram {
    let (bm, bn) = (size(of.tile, "BM"), size(of.tile, "BN"));
    let (rows, columns) = (6, 8);
    let a = Matrix::new("A in memory", rows, columns)
        .cell(15.0, 15.0)
        .tint(2..4, 0..columns, A, "what the block reads of A")
        .shade(2..4, 3..4, A, "one box")
        .caption(&format!("{bm} rows of 128 bytes"));
    let stage = lines_of_pieces("in shared memory", 8, |line, place| (line, swizzled(line, place)), 2, A, "")
        .caption("8 rows of it: row.piece, swizzled");
    let mut sums = Matrix::new(&format!("sums of a warpgroup, {M} × {bn}"), M, bn)
        .cell(330.0 / bn as f64, 2.6)
        .rule(16, 8)
        .caption("four warps, 16 rows each");
    for warp in 0..4 {
        let rows = warp * 16..warp * 16 + 16;
        sums = if warp % 2 == 0 { sums.tint(rows, 0..bn, C, "") } else { sums.tint(rows, 0..bn, 5, "") };
        sums = sums.at_row(warp * 16 + 8, &format!("warp {warp}"));
    }
    sums = sums.shade(0..16, 0..8, C, "16 × 8 of a warp").frame(0..16, 0..8);
    let zoom = Matrix::new("16 × 8 of them, by lane", 16, 8)
        .cell(22.0, 13.0)
        .fill("", |r, c| ((r / 8 + c % 2) % 2 == 0).then_some(C))
        .write(|r, c| holder(r, c).1.to_string())
        .rule(8, 8)
        .caption("the shade changes with the register");
    let mut diagram = of.figure("boxes by TMA, sums by warpgroups")
        .subtitle(&format!("a tile of {bm} × {bn} a block, {} warpgroups; 128 bytes of k at a time", bm / M))
        .describe(&format!(
            "One thread asks for a box of {bm} rows of 128 bytes, which TMA copies into shared memory, swizzled; a warpgroup multiplies 64 \
             rows of it by {bn} columns, and of its sums lane l of a warp holds row l / 4 and columns 2 (l mod 4) and the next, 8 rows and 8 \
             columns apart."
        ))
        .put(a)
        .put(Sign::arrow("one thread asks, TMA copies"))
        .put(stage)
        .row(&format!("wgmma.m64n{bn}: 128 threads multiply straight from shared memory"))
        .put(sums)
        .put(Sign::arrow("enlarged"))
        .put(zoom)
        .note("B comes the same way, in its own boxes; both lie in shared memory in the layout that wgmma reads.")
        .note("d[4 j + 2 h + i] of a lane is row 16 (warp mod 4) + lane / 4 + 8 h, column 8 j + 2 (lane mod 4) + i.")
        .table(["lane", "row of its warp's 16", "column of each 8", "registers of the first 8 columns"]);
    for lane in 0..32 {
        let (row, column) = (lane / 4, 2 * (lane % 4));
        let held = [(row, column), (row, column + 1), (row + 8, column), (row + 8, column + 1)];
        let registers: Vec<String> = held.iter().map(|(r, c)| format!("d[{}]", holder(*r, *c).2)).collect();
        diagram = diagram.figures([
            lane.to_string(),
            format!("{row}, {}", row + 8),
            format!("{column}, {}", column + 1),
            registers.join(", "),
        ]);
    }
    diagram
}

/// The times at which the k block of a stage is requested, arrives and is multiplied, in units of about one
/// multiplication.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Iteration {
    asked: f64,
    come: f64,
    begun: f64,
    done: f64,
}

/// Durations in the same unit: from a request to its arrival, between two arrivals, of one multiplication, and of a
/// block-wide barrier with the work that follows it.
const LATENCY: f64 = 2.6;
const APART: f64 = 0.7;
const MULTIPLY: f64 = 1.0;
const BARRIER: f64 = 0.45;

/// Returns the iterations of a ring of stages. Without a producer warp, the block requests k block b + stages - 1 when
/// all of its threads have finished k block b.
fn ring(blocks: usize, stages: usize, producer: bool) -> Vec<Iteration> {
    let mut iterations: Vec<Iteration> = Vec::new();
    for b in 0..blocks {
        let free = match (producer, b.checked_sub(if producer { stages } else { stages - 1 })) {
            (_, None) => 0.0,
            (true, Some(before)) => iterations[before].done,
            // The request comes after the barrier that ends the previous use of this stage.
            (false, Some(before)) => iterations[before].done + BARRIER,
        };
        let asked = free.max(iterations.last().map_or(0.0, |t| t.asked));
        let come = (asked + LATENCY).max(iterations.last().map_or(0.0, |t| t.come + APART));
        let ready = iterations.last().map_or(0.0, |t| t.done + if producer { 0.0 } else { BARRIER });
        let begun = come.max(ready);
        iterations.push(Iteration { asked, come, begun, done: begun + MULTIPLY });
    }
    iterations
}

fn ring_timeline(iterations: &[Iteration], stages: usize, end: f64, labelled: bool) -> Timeline {
    let names: Vec<String> = (0..stages).map(|s| format!("stage {s}")).chain(["tensor cores".to_owned()]).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let label = |text| if labelled { text } else { "" };
    let mut timeline = Timeline::new(&names);
    for (b, t) in iterations.iter().enumerate() {
        let stage = b % stages;
        timeline = timeline.wait(stage, (t.asked, t.come), A, "", label("on its way"));
        if t.begun > t.come {
            timeline = timeline.wait(stage, (t.come, t.begun), C, "", label("has come"));
        }
        timeline =
            timeline.span(stage, (t.begun, t.done), C, &b.to_string(), label("multiplied, by number of its k block"));
        timeline = timeline.span(stages, (t.begun, t.done), C, &b.to_string(), "");
        let idle = (b.checked_sub(1).map_or(0.0, |p| iterations[p].done), t.begun);
        timeline = timeline.wait(stages, idle, STOP, "", label("tensor cores wait"));
    }
    timeline.until(end)
}

pub(super) fn warp_specialised(of: &Subject<'_>) -> Diagram {
    let (bm, bn, stages) = (size(of.tile, "BM"), size(of.tile, "BN"), size(of.tile, "STAGES").clamp(2, 8));
    let blocks = 2 * stages + 1;
    let (before, after) = (ring(blocks, stages, false), ring(blocks, stages, true));
    let done = |iterations: &[Iteration]| iterations.last().map_or(0.0, |t| t.done);
    let end = done(&before).max(done(&after));
    let idle = |iterations: &[Iteration]| done(iterations) - iterations[0].begun - blocks as f64 * MULTIPLY;
    of.figure("a producer and its consumers")
        .subtitle(&format!("a ring of {stages} stages of {bm} × {bn} tiles, the first {blocks} blocks of k; times are made up"))
        .describe(&format!(
            "Without a producer all threads meet after each stage before the next one is asked for, and the tensor cores wait; with one, \
             a stage is asked for as soon as the consumers have emptied it, and they wait only for the first. {} consumers multiply 64 rows \
             each.",
            bm / M
        ))
        .row("11: all threads wait for the stage, multiply, meet, and one of them asks for the next")
        .put(ring_timeline(&before, stages, end, true))
        .row("12: a producer waits at “empty” and asks; the consumers wait at “full” and multiply")
        .put(ring_timeline(&after, stages, end, false))
        .note("Two barriers a stage: full, which counts the bytes that TMA brings, and empty, at which each consumer arrives.")
        .note("Times are made up to show the order: a stage comes so long after it was asked for, and never two at once.")
        .table(["picture", "stages under way at most", "time between multiplications, in multiplications"])
        .figures(["11", &(stages - 1).to_string(), &format!("{:.2}", idle(&before))])
        .figures(["12", &stages.to_string(), &format!("{:.2}", idle(&after))])
}

/// Returns the row and column of a tile, counted in tiles, as in `Tiles::at` in `kernels/matmul/persistent.cuh`.
fn tile_at(index: usize, rank: usize, (rows, columns): (usize, usize), group: usize, cluster: usize) -> (usize, usize) {
    let a_group = group * columns;
    let first = index / a_group * group;
    let (height, within) = (group.min(rows - first), index % a_group);
    ((first + within % height) * cluster + rank, within / height)
}

pub(super) fn persistent_cluster(of: &Subject<'_>) -> Diagram {
    let [bm, bn, cluster] = ["BM", "BN", "CLUSTER"].map(|n| size(of.tile, n));
    let cluster = cluster.clamp(1, 4);
    // The figure groups two rows of clusters, fewer than the kernel, since more would not fit.
    let group = 2;
    let (rows, columns) = (8 / cluster, 8);
    let at_once = 12 / cluster;
    let grid = |name: &str, place: &dyn Fn(usize, usize) -> (usize, usize), rows: usize| {
        let places: Vec<((usize, usize), usize)> = (0..rows * columns)
            .flat_map(|i| (0..cluster).map(move |rank| (i, rank)))
            .map(|(i, r)| (place(i, r), i))
            .collect();
        let index = |row, column| places.iter().find(|p| p.0 == (row, column)).map(|p| p.1);
        let first: Vec<(usize, usize)> = places.iter().filter(|p| p.1 < at_once).map(|p| p.0).collect();
        let read = |of: fn(&(usize, usize)) -> usize| first.iter().map(of).collect::<BTreeSet<_>>().len();
        let (of_a, of_b) = (read(|p| p.0), read(|p| p.1));
        let drawn = Matrix::new(name, rows * cluster, columns)
            .cell(32.0, 17.0)
            .fill("under way together", |r, c| index(r, c).filter(|i| *i < at_once).map(|_| C))
            .write(|r, c| index(r, c).map_or(String::new(), |i| i.to_string()))
            .rule(cluster, 1)
            .caption(&format!("they read {of_a} rows of A and {of_b} columns of B"));
        (drawn, of_a, of_b)
    };
    let (plain, plain_a, plain_b) = grid("row by row", &|i, r| (i / columns * cluster + r, i % columns), rows);
    let grouped = grid("in groups", &|i, r| tile_at(i, r, (rows, columns), group, cluster), rows);
    let (grouped, grouped_a, grouped_b) = grouped;
    let mut diagram = of.figure("the order of the tiles, and one fetch for a cluster")
        .subtitle(&format!("tiles of {bm} × {bn}; clusters of {cluster} tiles above each other, numbered in the order in which they are computed"))
        .describe(&format!(
            "Shaded are the tiles of C that are under way at one time. In groups of rows, column by column, they read {grouped_a} rows of A \
             and {grouped_b} columns of B, row by row {plain_a} and {plain_b}. The {cluster} blocks of a cluster fetch each its own tile of A, \
             and together one tile of B, which goes to all of them."
        ))
        .row(&format!("The first {} tiles, which are under way together", at_once * cluster))
        .put(plain)
        .put(grouped)
        .row(&format!("A stage in shared memory of each block of a cluster: B's tile of {bn} columns in {cluster} parts, multicast"));
    for rank in 0..cluster {
        let mut stage = Matrix::new(&format!("block {rank} of the cluster"), 1, 1 + cluster)
            .cell(96.0, 24.0)
            .shade(0..1, 0..1, rank, &format!("fetched by block {rank}"))
            .write(|_, c| if c == 0 { format!("A, rows of {rank}") } else { format!("B, part {}", c - 1) });
        for part in 0..cluster {
            stage = stage.shade(0..1, part + 1..part + 2, part, &format!("fetched by block {part}"));
        }
        diagram = diagram.put(stage);
    }
    let kernel = size(of.tile, "GROUP");
    diagram
        .note(&format!("Drawn are groups of {group} rows of clusters; the kernel's have {kernel}."))
        .note("A stage is free only when the consumers of all blocks of the cluster have read it, as each of them writes into all.")
        .table(["order", "tiles at once", "rows of A read", "columns of B read"])
        .figures(["row by row", &(at_once * cluster).to_string(), &plain_a.to_string(), &plain_b.to_string()])
        .figures(["in groups", &(at_once * cluster).to_string(), &grouped_a.to_string(), &grouped_b.to_string()])
}

pub(super) fn overlapped_store(of: &Subject<'_>) -> Diagram {
    let bn = size(of.tile, "BN");
    // 64 columns of 16 bits take 128 bytes.
    let chunks = (bn / 64).clamp(1, 8);
    let (work, direct, pack, stage, write, copy) = (5.0, 2.4, 0.35, 0.62, 0.4, 0.55);
    let tiles = 3;
    let mut before = Timeline::new(&["TMA, in", "tensor cores", "stores from registers"]);
    let mut after = Timeline::new(&["TMA, in", "tensor cores", "to shared memory", "TMA, out"]);
    let ahead = 1.6;
    let fetch = |timeline: Timeline, tile: usize, begun: f64, last: f64, label: &str| {
        // The first few stages are loaded before the tile begins, and the others during its multiplications.
        let first = (last - ahead + 0.3).max(0.0);
        let stop = if tile == 0 { begun } else { last + 0.3 };
        let timeline = timeline.span(0, (first, stop.max(first + 0.2)), A, "", label);
        timeline.span(0, (begun.max(stop), begun + work - ahead), A, &format!("tile {tile}"), "")
    };
    let (mut t, mut done) = (ahead, ahead);
    for i in 0..tiles {
        before = fetch(before, i, t, done, "tiles of A and B on their way");
        before = before.span(1, (t, t + work), C, &format!("tile {i}"), "multiplied");
        before = before.span(2, (t + work, t + work + direct), B, &format!("tile {i}"), "C on its way out");
        before = before.wait(1, (t + work, t + work + direct), STOP, "", "tensor cores wait");
        done = t + work;
        t = done + direct;
    }
    let end = t;
    (t, done) = (ahead, ahead);
    // The times when the last chunk of a buffer has been read, and when the copy engine becomes free.
    let mut read = [0.0f64; 2];
    let mut engine = 0.0f64;
    for i in 0..=tiles {
        if i > 0 {
            // The previous tile is stored at the same time, one chunk during each of the first stages of this tile.
            for chunk in 0..chunks {
                let begun = (t + chunk as f64 * stage + 0.1).max(read[chunk % 2]);
                after = after.span(2, (begun, begun + write), B, &chunk.to_string(), "");
                engine = engine.max(begun + write);
                after = after.span(3, (engine, engine + copy), B, &chunk.to_string(), "");
                engine += copy;
                // A chunk may be overwritten once it has been read, even before it reaches memory.
                read[chunk % 2] = engine - copy / 2.0;
            }
        }
        if i < tiles {
            after = fetch(after, i, t, done, "");
            after = after.span(1, (t, t + work), C, &format!("tile {i}"), "");
            done = t + work;
            after = after.wait(1, (done, done + pack), STOP, "", "");
            t = done + pack;
        }
    }
    let spared = end - t;
    of.figure("C leaves while the next tile is multiplied")
        .subtitle(&format!("tiles of {} × {bn}, C in {chunks} chunks of 64 columns of 16 bits; times are made up", size(of.tile, "BM")))
        .describe(&format!(
            "Stores from registers keep the tensor cores waiting until all of a tile of C is on its way; rounded to 16 bits it can wait in \
             registers, and leaves in {chunks} chunks by way of two buffers in shared memory and the copy engine, while the first stages of the \
             next tile are multiplied."
        ))
        .row("13: the consumers store their sums, 4 bytes at a time")
        .put(before.until(end))
        .row("14: the tile waits in half the registers, and is stored in chunks during the next one's first stages")
        .put(after.until(end))
        .note("A chunk waits until the one before the last has been read out of its buffer. Times are made up to show the order.")
        .note("If C is fp32 or is also read, there are no registers for a waiting tile: it is stored before the next one begins.")
        .table(["picture", "tensor cores wait for"])
        .figures(["13", "all stores of the tile"])
        .figures(["14", "the rounding of the tile's sums to 16 bits"])
        .figures(["spared over three tiles, in the picture", &format!("{spared:.1} of {end:.1}")])
}

/// Returns the k blocks that a rank sums, as in `kernels/matmul/15_split_k.cu`.
fn share_of_k(blocks: usize, split: usize, rank: usize) -> std::ops::Range<usize> {
    let (share, more) = (blocks / split, blocks % split);
    let first = rank * share + rank.min(more);
    first..first + share + usize::from(rank < more)
}

/// Edge lengths of the square products whose tiles are counted.
const EDGES: [usize; 3] = [256, 512, 1024];

/// Draws the split-k kernel without a split.
fn all_of_k(of: &Subject<'_>) -> Diagram {
    let (bm, bn) = (size(of.tile, "BM"), size(of.tile, "BN"));
    let (tiles, blocks) = (6, 10);
    let a = Matrix::new("A", tiles, blocks).cell(19.0, 15.0).shade(2..3, 0..blocks, A, "rows of the tile, all of k");
    let b = Matrix::new("B", blocks, tiles).cell(19.0, 10.0).shade(0..blocks, 3..4, B, "columns of the tile, all of k");
    let c = Matrix::new("C, a square a tile", tiles, tiles)
        .cell(19.0, 15.0)
        .tint(0..tiles, 0..tiles, C, "tiles of other blocks")
        .shade(2..3, 3..4, C, "the block's tile");
    let mut diagram = of
        .figure("a small tile for every SM")
        .subtitle(&format!("tiles of {bm} × {bn}; drawn for {blocks} blocks of k"))
        .describe(&format!(
            "Each block sums all of k for one tile of {bm} × {bn}; small products have enough of such tiles to give every SM work, and \
             no sums are exchanged."
        ))
        .put(Product::new(a, b, c))
        .table(["m = n", "tiles"]);
    for edge in EDGES {
        diagram = diagram.figures([edge.to_string(), (edge.div_ceil(bm) * edge.div_ceil(bn)).to_string()]);
    }
    diagram
}

pub(super) fn split_k(of: &Subject<'_>) -> Diagram {
    if size(of.tile, "SPLIT") == 1 {
        return all_of_k(of);
    }
    let (bm, bn) = (size(of.tile, "BM"), size(of.tile, "BN"));
    let (split, blocks) = (4, 10);
    let mut a = Matrix::new("A", 4, blocks).cell(19.0, 17.0);
    let mut b = Matrix::new("B", blocks, 4).cell(19.0, 10.0);
    for rank in 0..split {
        let k = share_of_k(blocks, split, rank);
        a = a.shade(0..4, k.clone(), rank, &format!("summed by block {rank}"));
        b = b.shade(k, 0..4, rank, "");
    }
    let c = Matrix::new(&format!("one tile of C, {bm} × {bn}"), 4, 4).cell(26.0, 17.0).tint(0..4, 0..4, 7, "");
    let mut diagram = of.figure("a cluster shares the k of one tile")
        .subtitle(&format!("drawn for {split} blocks a cluster and {blocks} blocks of k"))
        .describe(&format!(
            "Each of the {split} blocks of a cluster sums a part of k for the whole tile; then each finishes {} of its {bn} columns, and is \
             sent what the other blocks have of them.",
            bn / split
        ))
        .put(Product::new(a, b, c))
        .row(&format!("Sums of the blocks, in parts of {} columns, and the tile that the cluster makes of them", bn / split));
    for rank in 0..split {
        let sums = Matrix::new(&format!("block {rank}"), 1, split)
            .cell(22.0, 86.0)
            .shade(0..1, 0..split, rank, "")
            .write(|_, part| part.to_string())
            .frame(0..1, 1..2);
        diagram = diagram.put(sums).put(Sign::new(if rank + 1 < split { "+" } else { "=" }));
    }
    let finished = Matrix::new("C", 1, split).cell(22.0, 86.0).write(|_, part| part.to_string()).frame(0..1, 1..2);
    let finished = (0..split).fold(finished, |m, part| m.shade(0..1, part..part + 1, part, ""));
    diagram = diagram
        .put(finished)
        .note("Framed: the parts that the other blocks send to block 1 through distributed shared memory, and the part that it writes.")
        .note("It adds the sums of the others to its own in the order of the blocks, so that every run gives the same bits.")
        .table(["block", "blocks of k", "columns it finishes"]);
    for rank in 0..split {
        let k = share_of_k(blocks, split, rank);
        let columns = format!("{} to {}", rank * bn / split, (rank + 1) * bn / split - 1);
        diagram = diagram.figures([rank.to_string(), format!("{} to {}", k.start, k.end - 1), columns]);
    }
    diagram
}

/// Returns the first of two adjacent columns that a lane of the first two warps reads in each box of 32 columns, as in
/// `lane_column` in `kernels/matmul/16_tf32_registers.cu`.
fn lane_column(warp: usize, lane: usize) -> usize {
    let piece = (warp % 2 * 2 + lane / 16) ^ (lane / 8 % 2 * 5);
    piece * 4 + lane / 4 % 2 * 2
}

/// Returns which warp and lane group (lane / 4) hold one of 32 columns.
fn column_holder(column: usize) -> Option<(usize, usize)> {
    let lanes = (0..2).flat_map(|warp| (0..8).map(move |g| (warp, g)));
    lanes.into_iter().find(|(warp, g)| lane_column(*warp, 4 * g) == column / 2 * 2)
}

pub(super) fn tf32_registers(of: &Subject<'_>) -> Diagram {
    let (bm, bn) = (size(of.tile, "BM"), size(of.tile, "BN"));
    // Draws the lines that the first 16 lanes access at the same time, labelled by their rows.
    let lines = |name: &str, row_of: fn(usize) -> usize, tone, label: &str| {
        let places: Vec<(usize, usize)> =
            (0..16).map(|l| (row_of(l % 4), swizzled(row_of(l % 4), lane_column(0, l) / 4))).collect();
        lines_of_pieces(name, 8, |row, place| (row, swizzled(row, place)), PIECES, tone, "")
            .fill(label, move |row, place| places.contains(&(row, place)).then_some(tone))
    };
    let columns = Matrix::new("a box of 32 columns", 1, 32)
        .cell(16.0, 17.0)
        .fill("warp 0", |_, column| column_holder(column).filter(|h| h.0 == 0).map(|_| B))
        .write(|_, column| column_holder(column).map_or(String::new(), |h| h.1.to_string()))
        .rule(1, 4)
        .caption("lane / 4; shaded: warp 0, the others: warp 1");
    let mut diagram = of.figure("B goes through registers, as it lies")
        .subtitle(&format!("a tile of {bm} × {bn}: {} consumers, each with 64 columns as the rows of its instruction", bn / M))
        .describe(&format!(
            "Tensor cores read tf32 in shared memory only along k, and B runs along n; so A and B change places, and a thread brings B's \
             elements in registers. Its two columns are chosen so that 16 lanes find all 32 banks, both where they read B and where they \
             write C. A tile has {bm} rows of A, which stay in shared memory."
        ))
        .row("Row.piece at each place of 128 bytes: shaded is what 16 lanes read or write at once")
        .put(lines("B's tile, a row a k", |t| t, B, "read at once, from all 32 banks").caption("rows: lane mod 4"))
        .put(lines("C on its way out", |t| 2 * t, C, "written at once, to all 32 banks").caption("rows: 2 (lane mod 4)"))
        .row("The lanes that bring a column to the instruction")
        .put(columns)
        .note("A thread has two neighbouring columns: rows lane / 4 and lane / 4 + 8 of its warp's 16 in the instruction, at k = lane mod 4 and 4 more.")
        .note("Its sums are of the same two columns, so that C leaves in pairs, through shared memory and the copy engine.")
        .table(["lane", "columns of warp 0", "columns of warp 1", "k of each 8"]);
    for lane in 0..32 {
        let registers = |warp| {
            let first = lane_column(warp, lane);
            format!("{first}, {}", first + 1)
        };
        diagram =
            diagram.figures([lane.to_string(), registers(0), registers(1), format!("{}, {}", lane % 4, lane % 4 + 4)]);
    }
    diagram
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warpgroup_holds_each_sum_once() {
        for n in [64, 128, 256] {
            let mut held = vec![0; 4 * 32 * n / 2];
            for row in 0..M {
                for column in 0..n {
                    let (warp, lane, d) = holder(row, column);
                    let (j, h, i) = (d / 4, d / 2 % 2, d % 2);
                    assert_eq!((row, column), (16 * warp + lane / 4 + 8 * h, 8 * j + 2 * (lane % 4) + i));
                    held[(warp * 32 + lane) * n / 2 + d] += 1;
                }
            }
            assert!(held.iter().all(|n| *n == 1));
        }
    }

    #[test]
    fn every_tile_is_computed_once() {
        for (rows, columns, group, cluster) in [(4, 8, 2, 2), (5, 3, 2, 2), (1, 7, 8, 1), (9, 1, 4, 2)] {
            let mut iterations = vec![0; rows * cluster * columns];
            for i in 0..rows * columns {
                for rank in 0..cluster {
                    let (row, column) = tile_at(i, rank, (rows, columns), group, cluster);
                    iterations[row * columns + column] += 1;
                }
            }
            assert!(iterations.iter().all(|n| *n == 1), "{rows} {columns} {group} {cluster}");
        }
    }

    #[test]
    fn lanes_served_together_find_all_banks() {
        assert!((0..32).all(|column| column_holder(column).is_some()));
        for warp in 0..2 {
            for first in [0, 16] {
                let rows: [fn(usize) -> usize; 4] = [|t| t, |t| t + 4, |t| 2 * t, |t| 2 * t + 1];
                for row_of in rows {
                    // Count pairs of banks, which are eight bytes wide.
                    let banks: BTreeSet<usize> = (first..first + 16)
                        .map(|l| {
                            let column = lane_column(warp, l);
                            swizzled(row_of(l % 4), column / 4) * 2 + column / 2 % 2
                        })
                        .collect();
                    assert_eq!(banks.len(), 16, "warp {warp}, lanes from {first} on, rows from {} on", row_of(0));
                }
            }
        }
    }

    #[test]
    fn k_is_shared_out_without_gaps() {
        for (blocks, split) in [(10, 4), (3, 4), (8, 2), (172, 8)] {
            let all: Vec<usize> = (0..split).flat_map(|r| share_of_k(blocks, split, r)).collect();
            assert_eq!(all, (0..blocks).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_stage_is_asked_for_when_it_is_free() {
        let (stages, blocks) = (4, 12);
        let idle = |iterations: &[Iteration]| iterations.windows(2).map(|w| w[1].begun - w[0].done).sum::<f64>();
        let (alone, with_producer) = (ring(blocks, stages, false), ring(blocks, stages, true));
        assert!(idle(&with_producer) < idle(&alone));
        for b in stages..blocks {
            assert!(with_producer[b].asked >= with_producer[b - stages].done);
            assert!(alone[b].asked >= alone[b + 1 - stages].done);
        }
    }
}
