//! Sorted lists, by one compiled sort for all of them.
//!
//! The standard library's sorts are compiled anew for every type and comparison; thirty of them were a fifth of the page's code.

use std::cmp::Ordering;

/// Sorts a list; what compares as equal keeps its order.
pub fn sort_by<T>(items: &mut [T], mut compare: impl FnMut(&T, &T) -> Ordering) {
    let from = sorted(items.len(), &mut |a, b| compare(&items[a], &items[b]));
    reorder(items, from);
}

/// Puts at each place the item of the place that is named there.
fn reorder<T>(items: &mut [T], mut from: Vec<usize>) {
    // Each cycle of the permutation, one exchange an item.
    for start in 0..items.len() {
        let mut at = start;
        while from[at] != start {
            let next = from[at];
            items.swap(at, next);
            from[at] = at;
            at = next;
        }
        from[at] = at;
    }
}

/// Sorts a list by a key of its items, asked for once each; what has equal keys keeps its order.
pub fn sort_by_key<T, K: Ord>(items: &mut [T], key: impl FnMut(&T) -> K) {
    let keys: Vec<K> = items.iter().map(key).collect();
    reorder(items, sorted(keys.len(), &mut |a, b| keys[a].cmp(&keys[b])));
}

/// Sorts a list by its items' own order.
pub fn sort<T: Ord>(items: &mut [T]) {
    sort_by(items, T::cmp);
}

/// The places of a list's items in order.
fn sorted(len: usize, compare: &mut dyn FnMut(usize, usize) -> Ordering) -> Vec<usize> {
    let mut places: Vec<usize> = (0..len).collect();
    places.sort_by(|a, b| compare(*a, *b));
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_sorted_as_the_standard_library_does() {
        let mut seed = 1_u32;
        for len in 0..200 {
            let mut list: Vec<(u32, usize)> = (0..len)
                .map(|i| {
                    seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    (seed >> 29, i)
                })
                .collect();
            let mut expect = list.clone();
            expect.sort_by_key(|e| e.0);
            sort_by_key(&mut list, |e| e.0);
            assert_eq!(list, expect);
            expect.sort_by(|a, b| b.cmp(a));
            sort_by(&mut list, |a, b| b.cmp(a));
            assert_eq!(list, expect);
            expect.sort();
            sort(&mut list);
            assert_eq!(list, expect);
        }
    }
}
