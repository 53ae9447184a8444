//! Figures of the rungs whose warps use tensor cores: fragments, and the positions of 16-byte pieces of tiles in shared
//! memory.

use super::{A, B, C, LANES, STOP, Subject, size};
use warpbook_charts::diagram::{Diagram, Matrix, Sign};
use warpbook_charts::words::counted;

/// Edge length of the blocks that wmma multiplies.
const BLOCK: usize = 16;

pub(super) fn wmma(of: &Subject<'_>) -> Diagram {
    let [bm, bn, wm, wn] = ["BM", "BN", "WM", "WN"].map(|n| size(of.tile, n));
    let cell = 192.0 / bm.max(bn) as f64;
    let (warps_m, warps_n) = (bm / wm, bn / wn);
    let mut c = Matrix::new("C of a block", bm, bn)
        .cell(cell, cell)
        .rule(BLOCK, BLOCK)
        .caption(&format!("{bm} × {bn}; framed: warps"))
        .tint(0..wm, 0..wn, C, "part of one warp")
        .shade(0..BLOCK, 0..BLOCK, C, "one instruction");
    for warp in 0..warps_m * warps_n {
        let (row, column) = (warp / warps_n * wm, warp % warps_n * wn);
        c = c.frame(row..row + wm, column..column + wn);
    }
    let block = |name: &str, tone, caption: &str| {
        Matrix::new(name, BLOCK, BLOCK).cell(6.5, 6.5).shade(0..BLOCK, 0..BLOCK, tone, "").caption(caption)
    };
    let blocks = (wm / BLOCK) * (wn / BLOCK);
    of.figure("blocks of 16 × 16 × 16")
        .subtitle(&format!("{} warps of {wm} × {wn} each, in blocks of 16 × 16", warps_m * warps_n))
        .describe(&format!(
            "A block's tile of {bm} × {bn} is shared out to {} warps of {wm} × {wn}, each of which multiplies blocks of 16 × 16 × 16, one \
             by one instruction of the whole warp.",
            warps_m * warps_n
        ))
        .put(c)
        .put(Sign::arrow("one of them"))
        .put(block("A", A, "16-bit"))
        .put(Sign::new("×"))
        .put(block("B", B, "16-bit"))
        .put(Sign::new("+="))
        .put(block("C", C, "f32, 8 a lane"))
        .note("Which lane holds which element only wmma knows: fragments come from shared memory and leave by way of it.")
        .table(["of a warp, for 16 of k", "number"])
        .figures(["blocks of A loaded", &(wm / BLOCK).to_string()])
        .figures(["blocks of B loaded", &(wn / BLOCK).to_string()])
        .figures(["multiplications of 16 × 16 × 16", &blocks.to_string()])
        .figures(["sums a lane", &(blocks * BLOCK * BLOCK / LANES).to_string()])
}

/// Number of 16-byte pieces in 128 bytes, which span all banks once.
pub(super) const PIECES: usize = 8;

/// Returns the position of piece c of a row, or the piece at a position, since the mapping is its own inverse. It is
/// `swizzle` in `kernels/matmul/mma.cuh` for rows of 128 bytes, and TMA's 128-byte swizzle.
pub(super) fn swizzled(row: usize, piece: usize) -> usize {
    piece ^ (row % PIECES)
}

/// Returns the row and the piece stored at a position, with the swizzle for 64-byte rows, two of which fill a line of
/// all banks.
fn swizzled_by_two(line: usize, place: usize) -> (usize, usize) {
    let row = 2 * line + place / 4;
    (row, (place % 4) ^ (row / 2 % 4))
}

/// Draws lines of 128 bytes, labelled with the row and the piece stored at each position; one piece of each row is
/// shaded.
pub(super) fn lines_of_pieces(
    name: &str,
    lines: usize,
    kept: impl Fn(usize, usize) -> (usize, usize),
    read: usize,
    tone: usize,
    label: &str,
) -> Matrix {
    Matrix::new(name, lines, PIECES)
        .cell(27.0, 17.0)
        .write(|line, place| {
            let (row, piece) = kept(line, place);
            format!("{row}.{piece}")
        })
        .fill(label, |line, place| (kept(line, place).1 == read).then_some(tone))
        .at_column(0, "0–3")
        .at_column(2, "8–11")
        .at_column(4, "16–19")
        .at_column(6, "24–27")
}

/// Returns how many of eight reads, one piece from each row, access the same banks.
fn conflict(lines: usize, kept: impl Fn(usize, usize) -> (usize, usize), read: usize) -> usize {
    (0..PIECES).map(|place| (0..lines).filter(|line| kept(*line, place).1 == read).count()).max().unwrap_or(0)
}

/// Returns a count such as "8 wavefronts".
fn wavefronts(count: usize) -> String {
    counted(count, "wavefront")
}

/// Returns the lane and register of `mma.m16n8k16` that hold an element of A (16 x 16).
fn holder_a(row: usize, k: usize) -> (usize, usize) {
    // Register a[i] holds row g + 8 (i % 2), and columns k = 2 t + 8 (i / 2) and k + 1.
    (row % 8 * 4 + k % 8 / 2, row / 8 + k / 8 * 2)
}

/// Returns the lane and register that hold an element of B (16 x 8).
fn holder_b(k: usize, column: usize) -> (usize, usize) {
    // Registers b0 and b1 hold column g, with the same k as a[0] and a[2].
    (column * 4 + k % 8 / 2, k / 8)
}

/// Returns the lane and register that hold an element of the result (16 x 8).
fn holder_d(row: usize, column: usize) -> (usize, usize) {
    // Register d[i] holds row g + 8 (i / 2) and column 2 t + i % 2.
    (row % 8 * 4 + column / 2, row / 8 * 2 + column % 2)
}

/// Returns true for two of every four registers, so that neighbours look different.
fn checked(register: usize) -> bool {
    (register ^ register >> 1).is_multiple_of(2)
}

pub(super) fn mma_swizzled(of: &Subject<'_>) -> Diagram {
    let read = 2;
    let straight = |line: usize, place: usize| (line, place);
    let mixed = |line: usize, place: usize| (line, swizzled(line, place));
    let (before, after) = (conflict(8, straight, read), conflict(8, mixed, read));
    let fragment = |name: &str, rows, columns, holder: fn(usize, usize) -> (usize, usize), strong, caption: &str| {
        Matrix::new(name, rows, columns)
            .cell(15.5, 13.0)
            .fill("", move |r, c| checked(holder(r, c).1).then_some(strong))
            .write(move |r, c| holder(r, c).0.to_string())
            .rule(8, 8)
            .caption(caption)
    };
    let mut diagram = of.figure("where pieces lie, and who holds what")
        .subtitle("lines of 128 bytes in shared memory, above them their banks; mma.m16n8k16 of 16-bit types")
        .describe(&format!(
            "Pieces of 16 bytes of eight rows in shared memory: kept in order, the same piece of eight rows lies in the same four banks, \
             {before} reads one after the other; with piece c of row r at place c XOR r it lies in all 32 banks, {after} read."
        ))
        .row("Row.piece at each place: what ldmatrix reads at once is one piece of each of eight rows")
        .put(lines_of_pieces("in order", 8, straight, read, STOP, "read at once, from the same four banks").caption(&wavefronts(before)))
        .put(lines_of_pieces("piece c of row r at c ^ r", 8, mixed, read, C, "read at once, from all 32 banks").caption(&wavefronts(after)));
    // Rows of A have BK elements of 16 bits.
    if size(of.tile, "BK") * 2 == 64 {
        let by_two_wavefronts = conflict(4, swizzled_by_two, read);
        let by_two = lines_of_pieces(
            "rows of 64 bytes: c ^ r / 2",
            4,
            swizzled_by_two,
            read,
            C,
            "read at once, from all 32 banks",
        );
        diagram = diagram.put(by_two.rule(0, 4).caption(&wavefronts(by_two_wavefronts)));
    }
    diagram = diagram
        .row("The lane that holds an element; the shade changes with its register")
        .put(fragment("A, 16 × 16", 16, 16, holder_a, A, "4 registers of 2 a lane"))
        .put(Sign::new("×"))
        .put(fragment("B, 16 × 8", 16, 8, holder_b, B, "2 registers of 2"))
        .put(Sign::new("+="))
        .put(fragment("C, 16 × 8", 16, 8, holder_d, C, "4 sums in f32"))
        .note("With g = lane / 4 and t = lane mod 4: A's row is g or g + 8, its k 2 t and 2 t + 1, and 8 more; B's column is g; C's row is g or g + 8, its columns 2 t and 2 t + 1.")
        .table(["lane", "rows of A", "k of A and B", "column of B", "rows of C", "columns of C"]);
    for lane in 0..LANES {
        let (g, t) = (lane / 4, lane % 4);
        diagram = diagram.figures([
            lane.to_string(),
            format!("{g}, {}", g + 8),
            format!("{}, {}, {}, {}", 2 * t, 2 * t + 1, 2 * t + 8, 2 * t + 9),
            g.to_string(),
            format!("{g}, {}", g + 8),
            format!("{}, {}", 2 * t, 2 * t + 1),
        ]);
    }
    diagram
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that every element has exactly one position, and that each register of a lane holds as many elements as
    /// it packs.
    fn check(rows: usize, columns: usize, holder: fn(usize, usize) -> (usize, usize), registers: usize, packed: usize) {
        let mut held = vec![0; LANES * registers];
        for row in 0..rows {
            for column in 0..columns {
                let (lane, register) = holder(row, column);
                held[lane * registers + register] += 1;
            }
        }
        assert!(held.iter().all(|n| *n == packed), "{held:?}");
    }

    #[test]
    fn lanes_share_the_fragments_as_the_kernels_say() {
        check(16, 16, holder_a, 4, 2);
        check(16, 8, holder_b, 2, 2);
        check(16, 8, holder_d, 4, 1);
        for lane in 0..LANES {
            let (g, t) = (lane / 4, lane % 4);
            for i in 0..4 {
                assert_eq!(holder_d(g + 8 * (i / 2), 2 * t + i % 2), (lane, i));
                assert_eq!(holder_a(g + 8 * (i % 2), 2 * t + 8 * (i / 2)), (lane, i));
                assert_eq!(holder_a(g + 8 * (i % 2), 2 * t + 8 * (i / 2) + 1), (lane, i));
            }
            assert_eq!((holder_b(2 * t, g), holder_b(2 * t + 8, g)), ((lane, 0), (lane, 1)));
        }
    }

    #[test]
    fn the_swizzle_spreads_a_column_over_all_banks() {
        for piece in 0..PIECES {
            assert_eq!(conflict(8, |line, place| (line, place), piece), 8);
            assert_eq!(conflict(8, |line, place| (line, swizzled(line, place)), piece), 1);
        }
        for piece in 0..PIECES / 2 {
            assert_eq!(conflict(4, |line, place| (2 * line + place / 4, place % 4), piece), 4);
            assert_eq!(conflict(4, swizzled_by_two, piece), 1);
        }
        // The swizzle is its own inverse.
        assert!((0..8).all(|r| (0..PIECES).all(|c| swizzled(r, swizzled(r, c)) == c)));
    }
}
