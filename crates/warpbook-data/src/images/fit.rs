//! Scales one image to the input size of a network.

use crate::error::{Error, Result};
use crate::identity::Fit;
use crate::images::picture::{MOST_SIDE, Picture};
use std::path::Path;

/// An image that is ready as the input of a network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fitted {
    /// Pixels u8 `[channels][height][width]`.
    pub pixels: Vec<u8>,
    /// The steps applied to the image, such as "300 x 400 RGB: its centre of 300 x 300, scaled to 28 x 28, made grey".
    pub note: String,
}

/// Reads a PNG or JPEG image, turns it upright as its EXIF data say, scales it to `[channels, height, width]` as `fit` says, and makes it grey or
/// colour. Alpha is dropped. With [`Fit::Whole`] the pixels are exactly those that [`crate::image_folder`] reads.
///
/// # Errors
/// If the file cannot be read or is not such an image, or if the shape has neither 1 nor 3 channels.
pub fn fit_image(path: impl AsRef<Path>, [channels, height, width]: [usize; 3], fit: Fit) -> Result<Fitted> {
    if !matches!(channels, 1 | 3) || ![height, width].iter().all(|s| (1..=MOST_SIDE).contains(s)) {
        return Err(Error::Setting(format!(
            "Images cannot be scaled to {channels} x {height} x {width}; choose 1 or 3 channels and sides from 1 to {MOST_SIDE}."
        )));
    }
    let picture = Picture::read(path.as_ref())?;
    let (h, w) = match fit {
        Fit::Whole => (picture.height, picture.width),
        Fit::Centre => proportional((picture.height, picture.width), (height, width)),
    };
    let centre = picture.centre(h, w);
    let mut pixels = vec![0; channels * height * width];
    centre.fill(&mut pixels, channels, height, width);
    let grey = picture.samples <= 2;
    let steps = [
        picture.was_turned.then(|| "turned upright as its EXIF data say".to_owned()),
        ((h, w) != (picture.height, picture.width)).then(|| format!("its centre of {h} x {w}")),
        ((h, w) != (height, width)).then(|| format!("scaled to {height} x {width}")),
        (channels == 1 && !grey).then(|| "made grey".to_owned()),
        (channels == 3 && grey).then(|| "its grey taken for red, green and blue".to_owned()),
        (picture.samples % 2 == 0).then(|| "transparency left out".to_owned()),
    ];
    let steps: Vec<String> = steps.into_iter().flatten().collect();
    let steps = if steps.is_empty() { "unchanged".into() } else { steps.join(", ") };
    let kind = if grey { "grey" } else { "RGB" };
    Ok(Fitted { pixels, note: format!("{} x {} {kind}: {steps}", picture.height, picture.width) })
}

/// Returns the largest (height, width) within a picture that has the aspect ratio of another.
fn proportional((h, w): (usize, usize), (height, width): (usize, usize)) -> (usize, usize) {
    let part = |of: usize, by: usize, over: usize| ((of * by + over / 2) / over).max(1);
    if w * height > h * width { (h, part(h, width, height).min(w)) } else { (part(w, height, width).min(h), w) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image_folder;
    use crate::images::picture::tests::{write_png, write_turned_jpeg};
    use png::ColorType;

    #[test]
    fn the_centre_has_the_network_s_proportions() {
        let check = |from, to, expect| assert_eq!(proportional(from, to), expect, "{from:?} {to:?}");
        check((300, 400), (28, 28), (300, 300));
        check((400, 300), (28, 28), (300, 300));
        check((28, 28), (28, 28), (28, 28));
        check((100, 100), (10, 20), (50, 100));
        check((100, 100), (20, 10), (100, 50));
        check((1, 16_384), (28, 28), (1, 1));
        check((5, 3), (1, 16_384), (1, 3));
    }

    #[test]
    fn an_image_is_cut_scaled_and_made_grey() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.png");
        // Columns 0 and 5 are red; the columns between them are white.
        let row: Vec<u8> = (0..6).flat_map(|x| if x % 5 == 0 { [255, 0, 0] } else { [255; 3] }).collect();
        write_png(&path, (4, 6), ColorType::Rgb, &row.repeat(4));
        let fitted = fit_image(&path, [1, 2, 2], Fit::Centre).unwrap();
        assert_eq!(fitted.pixels, [255; 4]);
        assert_eq!(fitted.note, "4 x 6 RGB: its centre of 4 x 4, scaled to 2 x 2, made grey");
        let all = fit_image(&path, [1, 2, 2], Fit::Whole).unwrap();
        assert_eq!((&*all.note, all.pixels[0] < 255), ("4 x 6 RGB: scaled to 2 x 2, made grey", true));
        let whole = fit_image(&path, [3, 4, 6], Fit::Centre).unwrap();
        assert_eq!((&*whole.note, &whole.pixels[24..30]), ("4 x 6 RGB: unchanged", &[0, 255, 255, 255, 255, 0][..]));
        write_png(&path, (2, 2), ColorType::GrayscaleAlpha, &[9, 0, 8, 0, 7, 0, 6, 0]);
        let colour = fit_image(&path, [3, 2, 2], Fit::Centre).unwrap();
        assert_eq!(colour.pixels, [9, 8, 7, 6].repeat(3));
        assert_eq!(colour.note, "2 x 2 grey: its grey taken for red, green and blue, transparency left out");
    }

    #[test]
    fn an_image_has_the_pixels_that_a_folder_s_image_has() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("left/phone.jpg");
        std::fs::create_dir(folder.path().join("left")).unwrap();
        let rgb: Vec<u8> = (0..20 * 50).flat_map(|i| [(i / 50 * 9) as u8, (i % 50 * 5) as u8, 70]).collect();
        for orientation in [1, 6] {
            write_turned_jpeg(&path, (20, 50), &rgb, orientation);
            let set = image_folder(folder.path(), 3, Some((8, 8))).unwrap();
            let fitted = fit_image(&path, set.shape(), set.identity().fit).unwrap();
            assert_eq!(fitted.pixels, set.image(0), "{orientation}");
            assert_eq!(fitted.note.contains("turned upright"), orientation == 6, "{}", fitted.note);
        }
    }

    #[test]
    fn what_is_no_image_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        std::fs::write(&path, "text").unwrap();
        let check = |shape, expect: &str| {
            let error = fit_image(&path, shape, Fit::Centre).unwrap_err().to_string();
            assert!(error.contains(expect), "{error}");
        };
        check([1, 8, 8], "a.txt cannot be read: it is neither a PNG nor a JPEG image");
        check([2, 8, 8], "choose 1 or 3 channels");
        check([1, 0, 8], "sides from 1");
    }
}
