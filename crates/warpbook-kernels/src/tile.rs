//! Parses the sizes of tiles from their ids.

use warpbook_record::Tile;

/// Returns the numbers that follow a letter in a tile's id, or those at the beginning of the id if the letter is empty. For example, in
/// `128x192s5k1c1x2` the numbers after `c` are 1 and 2. A number that is missing counts as 1.
pub(crate) fn sizes<const N: usize>(id: &str, letter: &str) -> [i64; N] {
    let text = id.split_once(letter).map_or("", |(_, after)| after);
    let numbers = text.split(|c: char| c.is_ascii_lowercase() && c != 'x').next().unwrap_or_default();
    let mut numbers = numbers.split('x').map(|number| number.parse().unwrap_or(1));
    std::array::from_fn(|_| numbers.next().unwrap_or(1))
}

/// Returns a tile for a grid that strides over its items. For example, `t512x16b2` has 512 threads with 16 items each at a time, and two blocks per SM.
pub(crate) fn strided(id: &'static str) -> Tile {
    let ([threads, items], [blocks]) = (sizes(id, "t"), sizes(id, "b"));
    Tile::new(id, &[("THREADS", threads), ("ITEMS", items), ("BLOCKS_PER_SM", blocks)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_from_an_id() {
        let id = "128x192s12k3b2c1x4g16";
        assert_eq!(sizes(id, ""), [128, 192]);
        assert_eq!((sizes(id, "s"), sizes(id, "k"), sizes(id, "b"), sizes(id, "g")), ([12], [3], [2], [16]));
        assert_eq!((sizes(id, "c"), sizes("64x64s8c4", "c"), sizes("64x64s8", "c")), ([1, 4], [4, 1], [1, 1]));
        assert_eq!((sizes("32x64x16s3k8", ""), sizes("32x64x16s3k8", "k")), ([32, 64, 16], [8]));
    }
}
