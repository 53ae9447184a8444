use super::common::{poison, refused, same_bits};
use warpbook_data::philox::philox4x32_4;
use warpbook_nn::ops::augment::{Augment, Draw, cpu};

const MEAN: [f32; 3] = [0.1, 0.5, 0.4];
const DEVIATION: [f32; 3] = [0.2, 0.25, 0.3];

fn plain() -> Augment<'static> {
    Augment { seed: 0xfeed_beef_0123, step: 9, ..Augment::normalise([3, 5, 4], &MEAN, &DEVIATION) }
}

fn images(n: usize) -> Vec<u8> {
    (0..n * 60).map(|i| (i * 37 % 251) as u8).collect()
}

/// One element of a batch, computed as the documentation says.
fn element(a: &Augment<'_>, image: &[u8], slot: u32, [y, x, c]: [usize; 3]) -> f32 {
    let words = philox4x32_4(a.seed, [slot, 0, 0x6175_6772, a.step]);
    let places = 2 * a.padding as u64 + 1;
    let shift = |word: u32| (u64::from(word) * places / (1 << 32)) as isize - a.padding as isize;
    let x = if a.flip && words[2] >= 1 << 31 { a.width - 1 - x } else { x };
    let (row, column) = (y as isize + shift(words[0]), x as isize + shift(words[1]));
    let inside = (0..a.height as isize).contains(&row) && (0..a.width as isize).contains(&column);
    let at = (c * a.height * a.width) as isize + row * a.width as isize + column;
    let value = if inside { image[at as usize] } else { 0 };
    (f32::from(value) / 255.0 - a.mean[c]) / a.deviation[c]
}

#[test]
fn every_element_is_as_documented() {
    let images = images(7);
    let indices: Vec<u32> = (0..100).map(|i| i * 3 % 7).collect();
    for (padding, flip) in [(0, false), (0, true), (2, false), (1, true), (9, true)] {
        let a = Augment { padding, flip, ..plain() };
        let mut out = poison(100 * 60);
        cpu::gather(&a, &images, &indices, &mut out).unwrap();
        for (slot, (out, index)) in out.chunks(60).zip(&indices).enumerate() {
            let image = &images[*index as usize * 60..][..60];
            for (i, got) in out.iter().enumerate() {
                let place = [i / 12, i / 3 % 4, i % 3];
                assert_eq!(*got, element(&a, image, slot as u32, place), "{a:?}, slot {slot}, {place:?}");
            }
        }
    }
}

#[test]
fn draws_cover_every_crop_and_both_directions() {
    let a = Augment { padding: 1, flip: true, ..plain() };
    let mut seen = std::collections::BTreeMap::new();
    for slot in 0..1800 {
        let d = a.draw(slot);
        *seen.entry((d.row, d.column, d.flip)).or_insert(0) += 1;
    }
    assert_eq!(seen.len(), 18);
    // About 100 draws of each kind are expected, with a standard deviation of 10.
    assert!(seen.values().all(|n| (50..150).contains(n)), "{seen:?}");
    assert!((0..100).any(|slot| a.draw(slot) != Augment { step: 10, ..a }.draw(slot)), "steps differ");
    assert!((0..100).all(|slot| !plain().draw(slot).flip));
}

#[test]
fn threads_change_no_bit() {
    let (images, indices) = (images(7), [3, 1, 4, 1, 5, 0, 2, 6, 5]);
    same_bits("augment", || {
        let mut out = poison(9 * 60);
        cpu::gather(&Augment { padding: 2, flip: true, ..plain() }, &images, &indices, &mut out).unwrap();
        vec![out]
    });
}

#[test]
fn what_does_not_fit_is_said() {
    let images = images(2);
    let mut out = poison(60);
    let a = plain();
    refused(cpu::gather(&a, &images, &[2], &mut out), "index 0 is 2; there are 2, so it must be at most 1");
    refused(cpu::gather(&a, &[], &[0], &mut out), "index 0 is 0; there are 0");
    refused(cpu::gather(&a, &images[1..], &[0], &mut out), "images has the shape [1][3][5][4]");
    refused(cpu::gather(&a, &images, &[0, 1], &mut out), "out has the shape [2][5][4][3]");
    refused(cpu::gather(&Augment { mean: &MEAN[1..], ..a }, &images, &[0], &mut out), "mean has the shape [3]");
    refused(cpu::gather(&Augment { deviation: &[1.0, 0.0, 1.0], ..a }, &images, &[0], &mut out), "a deviation is 0");
    refused(cpu::gather(&Augment { width: 0, ..a }, &images, &[0], &mut out), "width must be at least 1");
    refused(cpu::gather(&Augment { padding: usize::MAX, ..a }, &images, &[0], &mut out), "below 2^30");
    assert!(out.iter().all(|v| v.is_nan()), "nothing is written");
    cpu::gather(&a, &images, &[], &mut []).unwrap();
}

#[test]
fn a_border_may_mirror_the_image() {
    let (images, a) = (images(3), Augment { padding: 3, reflect: true, flip: true, ..plain() });
    let mut out = poison(200 * 60);
    let indices: Vec<u32> = (0..200).map(|i| i % 3).collect();
    cpu::gather(&a, &images, &indices, &mut out).unwrap();
    for (slot, out) in out.chunks(60).enumerate() {
        let (image, draw) = (&images[slot % 3 * 60..][..60], a.draw(slot as u32));
        for (i, got) in out.iter().enumerate() {
            let (y, x, c) = (i / 12, i / 3 % 4, i % 3);
            let x = if draw.flip { 3 - x } else { x };
            // Reflected by hand: the columns 0 1 2 3 4 have 3 2 1 before them and 3 2 1 after them.
            let row = [3, 2, 1, 0, 1, 2, 3, 4, 3, 2, 1][y + draw.row];
            let column = [3, 2, 1, 0, 1, 2, 3, 2, 1, 0][x + draw.column];
            let value = f32::from(image[c * 20 + row * 4 + column]) / 255.0;
            assert_eq!(*got, (value - MEAN[c]) / DEVIATION[c], "slot {slot}, {i}");
        }
    }
    refused(
        cpu::gather(&Augment { padding: 4, ..a }, &images, &[0], &mut [0.0; 60]),
        "less than the image's height and width",
    );
}

#[test]
fn flips_alternate_from_a_choice_at_random() {
    let flipped =
        |epoch, step, index| Augment { flip: true, epoch: Some(epoch), step, ..plain() }.draw_of(7, index).flip;
    let first: Vec<bool> = (0..1000).map(|i| flipped(0, 3, i)).collect();
    let count = first.iter().filter(|f| **f).count();
    assert!((430..570).contains(&count), "{count} of 1000 are mirrored");
    for (index, first) in (0..).zip(&first) {
        assert_eq!([1, 2, 3].map(|epoch| flipped(epoch, 9 + epoch, index)), [!first, *first, !first]);
    }
    assert!(!Augment { epoch: Some(1), ..plain() }.draw_of(0, 0).flip, "without flips there are none");
}

#[test]
fn a_view_is_the_same_for_all() {
    let (images, view) = (images(2), Draw { row: 2, column: 0, flip: true });
    let a = Augment { padding: 1, reflect: true, view: Some(view), ..plain() };
    let mut out = poison(120);
    cpu::gather(&a, &images, &[0, 1], &mut out).unwrap();
    for (image, out) in images.chunks(60).zip(out.chunks(60)) {
        // The view is shifted one row down and mirrored, and the mirrored image is shifted one column to the left.
        for (at, (row, column)) in [((0, 0), (1, 2)), ((4, 3), (3, 1)), ((2, 1), (3, 1))] {
            let got = out[(at.0 * 4 + at.1) * 3];
            assert_eq!(got, (f32::from(image[row * 4 + column]) / 255.0 - MEAN[0]) / DEVIATION[0], "{at:?}");
        }
    }
    refused(cpu::gather(&Augment { padding: 0, ..a }, &images, &[0], &mut out[..60]), "the view's largest offset");
}
