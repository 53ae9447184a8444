//! Counts sectors of global memory and wavefronts of shared memory from the addresses of a warp's lanes.

use crate::compute::{LANES, Lanes};
use crate::machine::lanes;

/// Size of a sector in bytes.
pub(super) const SECTOR: u64 = 32;
/// Number of banks in shared memory; each is 4 bytes wide.
const BANKS: usize = 32;

/// Counts the distinct sectors that the lanes access. Each lane accesses `bytes` bytes.
pub(super) fn sectors(addresses: &Lanes, mask: u32, bytes: u64) -> u64 {
    // Accesses are aligned and no wider than a sector, so each lane touches one sector.
    let mut all = [0; 32];
    let mut count = 0;
    for lane in lanes(mask) {
        let sector = addresses[lane] / SECTOR;
        debug_assert!(bytes <= SECTOR);
        // The search starts at the latest sector, because neighbouring lanes mostly share one.
        if !all[..count].iter().rev().any(|known| *known == sector) {
            all[count] = sector;
            count += 1;
        }
    }
    count as u64
}

/// Returns the groups of lanes that are served together and have an active lane: the whole warp if each lane accesses up to 4 bytes, half a warp for 8 bytes,
/// and a quarter for 16.
///
/// The two quarters of a half-warp are served as one group if each lane has the same address as lane `lane ^ 1`, or each has the same address as lane `lane ^
/// 2`. No manual documents this: Nsight Compute showed it on an H200 for the loads of `matmul/06_vectorised` and `matmul/07_warp_tile`.
fn groups(addresses: &Lanes, mask: u32, bytes: u64) -> impl Iterator<Item = u32> {
    let size = usize::try_from(128 / bytes.max(4)).unwrap_or(LANES);
    let part = move |size: usize, at: usize| mask & (u32::MAX >> (LANES - size)) << (at * size);
    let is_shared = move |half: u32| {
        let in_pairs = |apart: usize| {
            lanes(half).all(|lane| half >> (lane ^ apart) & 1 == 0 || addresses[lane] == addresses[lane ^ apart])
        };
        in_pairs(1) || in_pairs(2)
    };
    (0..LANES / size)
        .filter_map(move |at| match part(16, at / 2) {
            half if size == 8 && is_shared(half) => (at % 2 == 0).then_some(half),
            _ => Some(part(size, at)),
        })
        .filter(|group| *group != 0)
}

/// Counts the wavefronts that serve the lanes. Each group needs as many wavefronts as there are distinct words in its fullest bank.
pub(super) fn wavefronts(addresses: &Lanes, mask: u32, bytes: u64) -> u64 {
    let of_group = |group: u32| {
        let mut words = [0; 32];
        let mut count = 0;
        let mut in_bank = [0u64; BANKS];
        for lane in lanes(group) {
            for word in addresses[lane] / 4..=(addresses[lane] + bytes - 1) / 4 {
                if !words[..count].iter().rev().any(|known| *known == word) {
                    words[count] = word;
                    count += 1;
                    in_bank[usize::try_from(word).unwrap_or(0) % BANKS] += 1;
                }
            }
        }
        in_bank.into_iter().max().unwrap_or(0)
    };
    groups(addresses, mask, bytes).map(of_group).sum()
}

/// Counts the wavefronts that would serve the lanes without bank conflicts.
pub(super) fn ideal_wavefronts(addresses: &Lanes, mask: u32, bytes: u64) -> u64 {
    groups(addresses, mask, bytes).count() as u64
}

/// Returns the largest number of active lanes that have the same address.
pub(super) fn most_on_one_address(addresses: &Lanes, mask: u32) -> u64 {
    let sharing = |lane: usize| lanes(mask).filter(|other| addresses[*other] == addresses[lane]).count();
    lanes(mask).map(sharing).max().unwrap_or(0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strided(stride: u64) -> Lanes {
        std::array::from_fn(|lane| 4096 + lane as u64 * stride)
    }

    #[test]
    fn sectors_are_those_that_lanes_touch() {
        assert_eq!(sectors(&strided(4), u32::MAX, 4), 4);
        assert_eq!(sectors(&strided(16), u32::MAX, 16), 16);
        assert_eq!(sectors(&strided(128), u32::MAX, 4), 32);
        assert_eq!(sectors(&strided(0), u32::MAX, 4), 1);
        assert_eq!(sectors(&strided(4), 0xff, 4), 1);
        assert_eq!(sectors(&strided(4), 0, 4), 0);
    }

    #[test]
    fn wavefronts_are_the_words_of_the_fullest_bank() {
        assert_eq!(wavefronts(&strided(4), u32::MAX, 4), 1);
        assert_eq!(wavefronts(&strided(8), u32::MAX, 4), 2);
        assert_eq!(wavefronts(&strided(128), u32::MAX, 4), 32);
        assert_eq!(wavefronts(&strided(132), u32::MAX, 4), 1);
        assert_eq!(wavefronts(&strided(0), u32::MAX, 4), 1);
        assert_eq!(wavefronts(&strided(1), u32::MAX, 1), 1);
        assert_eq!((wavefronts(&strided(8), u32::MAX, 8), ideal_wavefronts(&strided(8), u32::MAX, 8)), (2, 2));
        assert_eq!((wavefronts(&strided(16), u32::MAX, 16), ideal_wavefronts(&strided(16), u32::MAX, 16)), (4, 4));
        assert_eq!((wavefronts(&strided(32), u32::MAX, 16), ideal_wavefronts(&strided(32), 0xff, 16)), (8, 1));
    }

    #[test]
    fn quarters_that_share_addresses_in_pairs_are_served_as_one() {
        let actual_and_ideal = |vector: fn(u64) -> u64| {
            let addresses: Lanes = std::array::from_fn(|lane| 16 * vector(lane as u64));
            (wavefronts(&addresses, u32::MAX, 16), ideal_wavefronts(&addresses, u32::MAX, 16))
        };
        // First, all lanes of a half-warp load one vector, as the product 06_vectorised loads A. Then a half-warp loads eight vectors, each by two lanes that
        // are next to each other or two apart.
        assert_eq!(actual_and_ideal(|lane| lane / 16), (2, 2));
        assert_eq!(actual_and_ideal(|lane| lane / 2), (2, 2));
        assert_eq!(actual_and_ideal(|lane| lane / 4 * 2 + lane % 2), (2, 2));
        // Four vectors for a half-warp, each read by lanes four apart, and one vector for each lane.
        assert_eq!(actual_and_ideal(|lane| lane % 4), (4, 4));
        assert_eq!(actual_and_ideal(|lane| lane), (4, 4));
    }

    #[test]
    fn lanes_on_one_address_are_counted() {
        let addresses: Lanes = std::array::from_fn(|lane| (lane as u64 / 5) * 4);
        assert_eq!(most_on_one_address(&addresses, u32::MAX), 5);
        assert_eq!(most_on_one_address(&addresses, 1), 1);
    }
}
