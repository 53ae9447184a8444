//! Writes the sectors or banks that the lanes of a warp access as a text for terminals.

use std::fmt::Write;
use warpbook_record::WarpRequest;

/// Number of lanes in a line of text.
const ROW: usize = 8;

/// Returns the sector of global memory, or the bank of shared memory, that each lane accesses first, with eight lanes in a line of text. Lanes that do not take
/// part have a dash.
pub(super) fn places(request: &WarpRequest) -> String {
    let (name, place): (_, fn(u64) -> u64) = match request.is_shared {
        true => ("banks", |offset| offset / 4 % 32),
        false => ("sectors", |offset| offset / 32),
    };
    let cell = |offset: &Option<u64>| offset.map_or_else(|| "-".into(), |offset| place(offset).to_string());
    let cells: Vec<String> = request.offsets.iter().map(cell).collect();
    let width = cells.iter().map(String::len).max().unwrap_or(0);
    let mut text = String::new();
    for (row, cells) in cells.chunks(ROW).enumerate() {
        let (first, last) = (ROW * row, ROW * row + cells.len() - 1);
        _ = write!(text, "  {name} of lanes {first:>2} to {last:>2}:");
        cells.iter().for_each(|cell| _ = write!(text, "  {cell:>width$}"));
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_lane_has_its_sector_or_its_bank() {
        let request = |is_shared, stride: u64| {
            let offsets = (0..32).map(|lane| (lane != 9).then_some(lane * stride)).collect();
            WarpRequest { is_shared, bytes: 4, offsets, ..WarpRequest::default() }
        };
        let sectors = places(&request(false, 128));
        assert!(sectors.starts_with("  sectors of lanes  0 to  7:    0    4    8   12"), "{sectors}");
        assert!(sectors.contains("lanes  8 to 15:   32    -   40") && sectors.lines().count() == 4, "{sectors}");
        let banks = places(&request(true, 128));
        assert!(banks.ends_with("  banks of lanes 24 to 31:  0  0  0  0  0  0  0  0\n"), "{banks}");
    }
}
