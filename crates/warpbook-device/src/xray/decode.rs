//! Decodes the records of marks that kernels wrote on the device.

use warpbook_kernels::xray::Marks;

/// The marks of one warp, each with its phase and the SM's clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WarpMarks {
    /// Id of the SM on which the warp ran.
    pub sm: u32,
    /// The phase and the SM's clock of each mark.
    pub marks: Vec<(u8, u64)>,
    /// Indices in `marks` in front of which marks are missing, because the ring had no room for them.
    pub gaps: Vec<usize>,
}

/// Half the range of the clock's lower 32 bits: a record that seems to be at least this far ahead is assumed to be older.
const BEHIND: u32 = 1 << 31;

/// Decodes the marks of one warp's last launch. `ring` has the layout of `kernels/xray.cuh`, with zeros in slots that were never written.
/// `None` if there are no marks.
///
/// Successive marks must be less than 2^31 ticks apart, which is about a second.
pub(super) fn decode(ring: &[[u32; 2]]) -> Option<WarpMarks> {
    let half = ring.len() / 2;
    let (header, first) = (*ring.first()?, *ring.get(1)?);
    let sm = (header[1] & !BEHIND).checked_sub(1)?;
    if first[1] >> 8 != 1 {
        return None;
    }
    // The header is written before the first mark; in between, the lower 32 bits of the clock may have wrapped around.
    let carried = header[1] & BEHIND != 0 && first[0] & BEHIND == 0;
    let high = u64::from(header[0]) + u64::from(carried);
    let number = |r: &[u32; 2]| r[1] >> 8;
    let mut records: Vec<[u32; 2]> = Vec::new();
    records.extend(ring[1..half].iter().enumerate().take_while(|(i, r)| number(r) as usize == i + 1).map(|(_, r)| r));
    if records.len() + 1 == half {
        let mut later: Vec<[u32; 2]> = ring[half..].iter().copied().filter(|r| number(r) as usize >= half).collect();
        later.sort_by_key(number);
        records.extend(later);
    }
    let mut marks = WarpMarks { sm, marks: Vec::new(), gaps: Vec::new() };
    let (mut clock, mut last) = (high << 32 | u64::from(first[0]), first);
    // Records after the last mark come from an earlier launch that made more marks, perhaps on another SM whose clock differs.
    for record in records {
        let ahead = record[0].wrapping_sub(last[0]);
        if ahead >= BEHIND {
            // This also ends the loop for a warp that returned early and therefore has no end mark.
            break;
        }
        clock += u64::from(ahead);
        if !marks.marks.is_empty() && number(&record) != number(&last) + 1 {
            marks.gaps.push(marks.marks.len());
        }
        let phase = (record[1] & 0xff) as u8;
        marks.marks.push((phase, clock));
        if usize::from(phase) == Marks::END {
            break;
        }
        last = record;
    }
    Some(marks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Writes marks into a ring in the same way as the device.
    fn write(ring: &mut [[u32; 2]], sm: u32, marks: &[(u8, u64)]) {
        let half = ring.len() / 2;
        let before = marks[0].1.saturating_sub(7);
        ring[0] = [(before >> 32) as u32, (sm + 1) | (before as u32 & BEHIND)];
        for (number, (phase, clock)) in (1usize..).zip(marks) {
            let slot = if number < half { number } else { half | (number & (half - 1)) };
            ring[slot] = [*clock as u32, (number as u32) << 8 | u32::from(*phase)];
        }
    }

    fn marks() -> impl Strategy<Value = Vec<(u8, u64)>> {
        // Clock values just below a wrap-around of the lower 32 bits are as likely as other starting values.
        let begin = prop_oneof![0..1u64 << 50, (1..1u64 << 18).prop_map(|n| (n << 32) - 5), Just(10)];
        (begin, proptest::collection::vec((2..=u8::MAX, 0..1u64 << 30), 0..80)).prop_map(|(begin, steps)| {
            let mut at = begin.max(7);
            let mut all = vec![(0, at)];
            for (phase, step) in steps {
                at += step;
                all.push((phase, at));
            }
            all
        })
    }

    proptest! {
        #[test]
        fn marks_are_read_as_they_were_made(marks in marks(), sm in 0..200u32, log in 2..8u32) {
            let mut ring = vec![[0; 2]; 1 << log];
            write(&mut ring, sm, &marks);
            let got = decode(&ring).unwrap();
            prop_assert_eq!(got.sm, sm);
            let half = ring.len() / 2;
            if marks.len() < ring.len() {
                prop_assert_eq!(got.marks, marks);
                prop_assert!(got.gaps.is_empty());
            } else {
                // The ring keeps the marks in its first half, and as many of the last marks as fit into its second half.
                let kept = half - 1 + half;
                let gap = marks.len() - kept;
                let want: Vec<_> = marks[..half - 1].iter().chain(&marks[half - 1 + gap..]).copied().collect();
                // The upper half of the clock may have advanced during a gap, which cannot be detected.
                let lower = |all: &[(u8, u64)]| all.iter().map(|(p, c)| (*p, *c as u32)).collect::<Vec<_>>();
                let hidden = want[half - 1].1 - want[half - 2].1 >= u64::from(BEHIND);
                if hidden {
                    prop_assert_eq!(lower(&got.marks[..half - 1]), lower(&want[..half - 1]));
                } else {
                    prop_assert_eq!(got.marks, want);
                    prop_assert_eq!(got.gaps, vec![half - 1]);
                }
            }
        }

        #[test]
        fn what_an_earlier_launch_left_is_not_read(earlier in marks(), later in marks()) {
            // The later launch must begin after the earlier one has ended.
            let shift = earlier.last().unwrap().1 - later[0].1.min(earlier.last().unwrap().1) + 1000;
            let later: Vec<(u8, u64)> = later.iter().map(|(p, c)| (*p, c + shift)).collect();
            let far = later.last().unwrap().1 - earlier[0].1 >= u64::from(BEHIND);
            let mut ring = vec![[0; 2]; 256];
            write(&mut ring, 3, &earlier);
            write(&mut ring, 3, &later);
            let got = decode(&ring).unwrap();
            prop_assert_eq!(&got.marks[..later.len()], &later[..]);
            prop_assert!(far || got.marks.len() == later.len());
        }

        #[test]
        fn nothing_is_read_beyond_the_end(earlier in marks(), mut later in marks()) {
            // The earlier launch ran on another SM, whose clock can have any value.
            later.push((Marks::END as u8, later.last().unwrap().1 + 5));
            let mut ring = vec![[0; 2]; 256];
            write(&mut ring, 7, &earlier);
            write(&mut ring, 3, &later);
            let got = decode(&ring).unwrap();
            prop_assert_eq!((got.sm, got.marks), (3, later));
        }

        #[test]
        fn any_words_are_read(words in proptest::collection::vec(any::<[u32; 2]>(), 0..70)) {
            let _ = decode(&words);
        }
    }

    #[test]
    fn an_untouched_ring_is_nobody_s() {
        assert_eq!(decode(&[[0; 2]; 16]), None);
        assert_eq!(decode(&[]), None);
        assert_eq!(decode(&[[5, 1]]), None);
    }
}
