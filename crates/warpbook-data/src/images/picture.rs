//! Decodes, turns and scales one PNG or JPEG image.

use crate::error::{Error, Result};
use png::{ColorType, Transformations};
use std::io::{Cursor, Read};
use std::path::Path;
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

/// Upper limit on the width and height of an image in pixels.
pub(crate) const MOST_SIDE: usize = 16_384;
/// Upper limit in bytes on the size of a file, and on the size of the decoded image.
const MOST_BYTES: usize = 256 << 20;

/// A decoded image, turned upright.
pub(crate) struct Picture {
    pub(crate) height: usize,
    pub(crate) width: usize,
    /// Number of values per pixel: 1 for grey, 2 for grey and alpha, 3 for colour, 4 for colour and alpha.
    pub(crate) samples: usize,
    /// True if the EXIF data say that the file stores the image in another orientation.
    pub(crate) was_turned: bool,
    /// Pixels u8 `[height][width][samples]`.
    pixels: Vec<u8>,
}

impl Picture {
    /// Reads a file. The format is detected from the first bytes, not from the name.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let refuse = |why: String| Error::read(path, why);
        let file = std::fs::File::open(path).map_err(|e| refuse(e.to_string()))?;
        let mut bytes = Vec::new();
        file.take(MOST_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(|e| refuse(e.to_string()))?;
        if bytes.len() > MOST_BYTES {
            return Err(refuse(format!("it is longer than {} MiB", MOST_BYTES >> 20)));
        }
        let picture = match &*bytes {
            [0x89, b'P', b'N', b'G', ..] => Self::png(&bytes),
            [0xff, 0xd8, ..] => Self::jpeg(&bytes),
            other => Err(match known_format(other) {
                Some(format) => {
                    format!("it is a {format} image, despite its name; convert it to PNG or JPEG")
                }
                None => "it is neither a PNG nor a JPEG image".into(),
            }),
        };
        picture.map_err(refuse)
    }

    fn png(bytes: &[u8]) -> Result<Self, String> {
        let damaged = |e: png::DecodingError| format!("the PNG image is damaged ({e})");
        let mut decoder = png::Decoder::new_with_limits(Cursor::new(bytes), png::Limits { bytes: MOST_BYTES });
        decoder.set_transformations(Transformations::normalize_to_color8());
        decoder.set_ignore_text_chunk(true);
        decoder.set_ignore_iccp_chunk(true);
        let mut reader = decoder.read_info().map_err(damaged)?;
        let size = (reader.info().height as usize, reader.info().width as usize);
        let length = reader.output_buffer_size();
        let mut pixels = vec![0; Self::allowed(size, length)?];
        let about = reader.next_frame(&mut pixels).map_err(damaged)?;
        let samples = match about.color_type {
            ColorType::Grayscale => 1,
            ColorType::GrayscaleAlpha => 2,
            ColorType::Rgb => 3,
            _ => 4,
        };
        let upright = reader.info().exif_metadata.as_deref().map_or(1, orientation);
        Ok(Self::new(size, samples, pixels)?.turned(upright))
    }

    fn jpeg(bytes: &[u8]) -> Result<Self, String> {
        let options = DecoderOptions::default()
            .set_max_width(MOST_SIDE)
            .set_max_height(MOST_SIDE)
            .set_strict_mode(true)
            .jpeg_set_out_colorspace(ColorSpace::RGB);
        let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
        decoder.decode_headers().map_err(|e| format!("the JPEG image is damaged ({e})"))?;
        if decoder.input_colorspace() == Some(ColorSpace::Luma) {
            decoder.set_options(options.jpeg_set_out_colorspace(ColorSpace::Luma));
        }
        let size = decoder.info().map_or((0, 0), |i| (usize::from(i.height), usize::from(i.width)));
        Self::allowed(size, decoder.output_buffer_size())?;
        let pixels = decoder.decode().map_err(|e| format!("the JPEG image is damaged ({e})"))?;
        let samples = decoder.output_colorspace().map_or(3, |c| c.num_components());
        let upright = decoder.exif().map_or(1, |exif| orientation(exif));
        Ok(Self::new(size, samples, pixels)?.turned(upright))
    }

    /// Returns the number of bytes that an image of (height, width) decodes to. Refuses an image that is too large.
    fn allowed((h, w): (usize, usize), length: Option<usize>) -> Result<usize, String> {
        let sides = 1..=MOST_SIDE;
        match length.filter(|l| sides.contains(&h) && sides.contains(&w) && *l <= MOST_BYTES) {
            Some(length) => Ok(length),
            None => Err(format!(
                "its height and width are {h} x {w} pixels; the sides must be 1 to {MOST_SIDE} pixels, and the decoded image at most {} MiB",
                MOST_BYTES >> 20
            )),
        }
    }

    fn new((height, width): (usize, usize), samples: usize, pixels: Vec<u8>) -> Result<Self, String> {
        if pixels.len() != height * width * samples || !(1..=4).contains(&samples) {
            return Err(format!(
                "{height} x {width} pixels of {samples} samples were decoded to {} bytes",
                pixels.len()
            ));
        }
        Ok(Self { height, width, samples, was_turned: false, pixels })
    }

    /// Turns and mirrors the image, which has an EXIF orientation from 1 to 8, so that it is upright.
    fn turned(self, orientation: u16) -> Self {
        if !(2..=8).contains(&orientation) {
            return self;
        }
        let swaps = orientation >= 5;
        let (from_below, from_right) = (matches!(orientation, 3 | 4 | 6 | 7), matches!(orientation, 2 | 3 | 7 | 8));
        let (height, width) = if swaps { (self.width, self.height) } else { (self.height, self.width) };
        let mut pixels = Vec::with_capacity(self.pixels.len());
        for (y, x) in (0..height).flat_map(|y| (0..width).map(move |x| (y, x))) {
            let (row, column) = if swaps { (x, y) } else { (y, x) };
            let row = if from_below { self.height - 1 - row } else { row };
            let column = if from_right { self.width - 1 - column } else { column };
            pixels.extend_from_slice(&self.pixels[(row * self.width + column) * self.samples..][..self.samples]);
        }
        Self { height, width, was_turned: true, pixels, ..self }
    }

    /// Crops the image to its centre of at most this size.
    pub(crate) fn centre(&self, height: usize, width: usize) -> Self {
        let (height, width) = (height.min(self.height), width.min(self.width));
        let (top, left) = ((self.height - height) / 2, (self.width - width) / 2);
        let row = |y: usize| &self.pixels[((top + y) * self.width + left) * self.samples..][..width * self.samples];
        let pixels = (0..height).flat_map(row).copied().collect();
        Self { height, width, samples: self.samples, was_turned: self.was_turned, pixels }
    }

    /// Fills u8 `[channels][height][width]` with the image scaled to this size. Alpha is dropped.
    pub(crate) fn fill(&self, to: &mut [u8], channels: usize, height: usize, width: usize) {
        for (c, plane) in to.chunks_exact_mut(height * width).enumerate() {
            let from = self.plane(channels, c);
            if (height, width) == (self.height, self.width) {
                plane.iter_mut().zip(from).for_each(|(to, from)| *to = from.round() as u8);
            } else {
                scale(&from, (self.height, self.width), plane, (height, width));
            }
        }
    }

    /// Returns channel `c` of `channels`. Colours are converted to grey by the luma of ITU-R BT.601, as in JPEG.
    fn plane(&self, channels: usize, c: usize) -> Vec<f32> {
        let value = |p: &[u8]| match (p, channels) {
            ([grey] | [grey, _], _) => f32::from(*grey),
            ([r, g, b, ..], 1) => 0.299 * f32::from(*r) + 0.587 * f32::from(*g) + 0.114 * f32::from(*b),
            (p, _) => f32::from(p[c]),
        };
        self.pixels.chunks_exact(self.samples).map(value).collect()
    }
}

/// Returns the orientation, 1 to 8, from EXIF data: tag 0x112 of the first directory of a TIFF file (CIPA DC-008, 4.6.4). Returns 1, which means upright, if
/// the data contain no orientation.
fn orientation(exif: &[u8]) -> u16 {
    let is_little = exif.starts_with(b"II");
    let number = |at: usize, len: usize| {
        let bytes = exif.get(at..at.checked_add(len)?)?.iter().map(|b| usize::from(*b));
        Some(if is_little { bytes.rev().fold(0, |n, b| n << 8 | b) } else { bytes.fold(0, |n, b| n << 8 | b) })
    };
    let found = || {
        let directory = number(4, 4)?;
        let mut entries = (0..number(directory, 2)?).map(|i| directory + 2 + 12 * i);
        let entry = entries.find(|entry| number(*entry, 2) == Some(0x112))?;
        number(entry + 8, 2)
    };
    found().and_then(|n| u16::try_from(n).ok()).unwrap_or(1)
}

/// Returns the name of an unsupported format, by a file's first bytes.
fn known_format(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("WebP"),
        [b'B', b'M', ..] => Some("BMP"),
        [b'I', b'I', b'*', 0, ..] | [b'M', b'M', 0, b'*', ..] => Some("TIFF"),
        [b'G', b'I', b'F', b'8', ..] => Some("GIF"),
        [_, _, _, _, b'f', b't', b'y', b'p', b'a', b'v', b'i', b'f', ..] => Some("AVIF"),
        [_, _, _, _, b'f', b't', b'y', b'p', b'h' | b'm', ..] => Some("HEIC"),
        _ => None,
    }
}

/// Scales with a triangle filter as wide as a pixel of the coarser grid: linear between pixels when enlarging, a weighted mean when reducing. It
/// filters rows first, then columns.
fn scale(from: &[f32], (h, w): (usize, usize), to: &mut [u8], (height, width): (usize, usize)) {
    let (across, down) = (weights(w, width), weights(h, height));
    let mut rows = Vec::with_capacity(h * width);
    for row in from.chunks_exact(w) {
        rows.extend(across.iter().map(|(first, weights)| dot(weights, row[*first..].iter())));
    }
    for (line, (first, weights)) in to.chunks_exact_mut(width).zip(&down) {
        for (x, to) in line.iter_mut().enumerate() {
            let column = rows[first * width + x..].iter().step_by(width);
            *to = dot(weights, column).round().clamp(0.0, 255.0) as u8;
        }
    }
}

fn dot<'a>(weights: &[f32], values: impl Iterator<Item = &'a f32>) -> f32 {
    weights.iter().zip(values).map(|(w, v)| w * v).sum()
}

/// Returns, for each of the `to` pixels, the first `from` pixel that contributes to it, and the weights, which add up to 1.
fn weights(from: usize, to: usize) -> Vec<(usize, Vec<f32>)> {
    let ratio = from as f32 / to as f32;
    let reach = ratio.max(1.0);
    let pixel_weights = |i: usize| {
        let centre = (i as f32 + 0.5) * ratio - 0.5;
        let first = (centre - reach).ceil().max(0.0) as usize;
        let last = ((centre + reach).floor() as usize).min(from - 1);
        let first = first.min(last);
        let raw: Vec<f32> = (first..=last).map(|j| (1.0 - (j as f32 - centre).abs() / reach).max(0.0)).collect();
        let sum: f32 = raw.iter().sum();
        let even = 1.0 / raw.len() as f32;
        (first, raw.into_iter().map(|w| if sum > 0.0 { w / sum } else { even }).collect())
    };
    (0..to).map(pixel_weights).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::files::fuzz::mutate;
    use png::BitDepth;
    use proptest::prelude::*;
    use std::fs;

    pub(crate) fn write_png(path: &Path, (h, w): (u32, u32), colour: ColorType, pixels: &[u8]) {
        let mut encoder = png::Encoder::new(fs::File::create(path).unwrap(), w, h);
        encoder.set_color(colour);
        encoder.set_depth(BitDepth::Eight);
        encoder.write_header().unwrap().write_image_data(pixels).unwrap();
    }

    pub(crate) fn write_jpeg(path: &Path, (h, w): (u32, u32), rgb: &[u8]) {
        let encoder = jpeg_encoder::Encoder::new_file(path, 100).unwrap();
        encoder.encode(rgb, w as u16, h as u16, jpeg_encoder::ColorType::Rgb).unwrap();
    }

    fn picture(height: usize, width: usize, pixels: Vec<u8>) -> Picture {
        Picture { height, width, samples: 1, was_turned: false, pixels }
    }

    /// Creates EXIF data that contain only the orientation, in either byte order.
    fn exif(orientation: u8, is_little: bool) -> Vec<u8> {
        let number = |n: u32, len: usize| match is_little {
            true => n.to_le_bytes()[..len].to_vec(),
            false => n.to_be_bytes()[4 - len..].to_vec(),
        };
        let mut bytes = if is_little { b"II".to_vec() } else { b"MM".to_vec() };
        // The fields are 42, the directory's offset, and two entries: the width of the image, then the orientation.
        let fields = [(42, 2), (8, 4), (2, 2), (0x100, 2), (3, 2), (1, 4), (7, 2), (0, 2)];
        let lies = [(0x112, 2), (3, 2), (1, 4), (u32::from(orientation), 2), (0, 2), (0, 4)];
        fields.iter().chain(&lies).for_each(|(n, len)| bytes.extend(number(*n, *len)));
        bytes
    }

    /// Writes a JPEG with EXIF data, as a phone does.
    pub(crate) fn write_turned_jpeg(path: &Path, size: (u32, u32), rgb: &[u8], orientation: u8) {
        write_jpeg(path, size, rgb);
        let (jpeg, data) = (fs::read(path).unwrap(), [&b"Exif\0\0"[..], &exif(orientation, false)].concat());
        let length = (data.len() as u16 + 2).to_be_bytes();
        fs::write(path, [&jpeg[..2], &[0xff, 0xe1], &length, &data, &jpeg[2..]].concat()).unwrap();
    }

    #[test]
    fn images_are_turned_as_their_exif_data_say() {
        // Each stored image appears as a b c over d e f when turned upright (CIPA DC-008, 4.6.4, "Orientation").
        let seen = vec![1, 2, 3, 4, 5, 6];
        let stored: [(u16, usize, [u8; 6]); 8] = [
            (1, 2, [1, 2, 3, 4, 5, 6]),
            (2, 2, [3, 2, 1, 6, 5, 4]),
            (3, 2, [6, 5, 4, 3, 2, 1]),
            (4, 2, [4, 5, 6, 1, 2, 3]),
            (5, 3, [1, 4, 2, 5, 3, 6]),
            (6, 3, [3, 6, 2, 5, 1, 4]),
            (7, 3, [6, 3, 5, 2, 4, 1]),
            (8, 3, [4, 1, 5, 2, 6, 3]),
        ];
        for (orientation, height, pixels) in stored {
            let turned = picture(height, 6 / height, pixels.to_vec()).turned(orientation);
            assert_eq!((turned.height, turned.width, &turned.pixels), (2, 3, &seen), "{orientation}");
            assert_eq!(turned.was_turned, orientation > 1);
        }
    }

    #[test]
    fn exif_data_are_read_in_both_orders_and_whatever_they_hold() {
        for turned in 1..=8 {
            assert_eq!(
                (orientation(&exif(turned, true)), orientation(&exif(turned, false))),
                (turned.into(), turned.into())
            );
        }
        let whole = exif(6, false);
        assert!((0..whole.len()).all(|n| matches!(orientation(&whole[..n]), 1 | 6)));
        for bad in [&[0xff; 64][..], b"II*\0\xff\xff\xff\xff", b""] {
            assert_eq!(picture(2, 3, vec![0; 6]).turned(orientation(bad)).height, 2);
        }
    }

    #[test]
    fn a_phone_s_jpeg_and_a_png_with_exif_data_are_upright() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("phone.jpg");
        // The left half is white. After a clockwise quarter turn, the upper half is white.
        let rgb: Vec<u8> = (0..16 * 32).flat_map(|i| [if i % 32 < 16 { 255 } else { 0 }; 3]).collect();
        write_turned_jpeg(&path, (16, 32), &rgb, 6);
        let read = Picture::read(&path).unwrap();
        assert_eq!((read.height, read.width, read.was_turned), (32, 16, true));
        let grey = filled(&read, 1, (32, 16));
        assert!(grey[..16 * 14].iter().all(|p| *p > 240) && grey[16 * 18..].iter().all(|p| *p < 15));
        let path = folder.path().join("a.png");
        let mut info = png::Info::with_size(3, 2);
        info.exif_metadata = Some(exif(8, true).into());
        info.bit_depth = BitDepth::Eight;
        let encoder = png::Encoder::with_info(fs::File::create(&path).unwrap(), info).unwrap();
        encoder.write_header().unwrap().write_image_data(&[1, 2, 3, 4, 5, 6]).unwrap();
        let read = Picture::read(&path).unwrap();
        assert_eq!((read.height, read.width, read.pixels), (3, 2, vec![3, 6, 2, 5, 1, 4]));
    }

    #[test]
    fn a_grey_jpeg_stays_grey() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.jpg");
        let encoder = jpeg_encoder::Encoder::new_file(&path, 100).unwrap();
        encoder.encode(&[90; 64], 8, 8, jpeg_encoder::ColorType::Luma).unwrap();
        let read = Picture::read(&path).unwrap();
        assert_eq!((read.samples, read.pixels.len()), (1, 64));
        assert!(read.pixels.iter().all(|p| p.abs_diff(90) < 3));
    }

    #[test]
    fn a_format_that_is_not_read_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.png");
        for (bytes, name) in
            [(&b"RIFF\0\0\0\0WEBPVP8 "[..], "WebP"), (b"BM..", "BMP"), (b"II*\0", "TIFF"), (b"GIF89a", "GIF")]
        {
            fs::write(&path, bytes).unwrap();
            let error = Picture::read(&path).err().unwrap().to_string();
            assert!(error.contains(&format!("it is a {name} image")) && error.contains("convert it"), "{error}");
        }
    }

    fn filled(picture: &Picture, channels: usize, (h, w): (usize, usize)) -> Vec<u8> {
        let mut out = vec![0; channels * h * w];
        picture.fill(&mut out, channels, h, w);
        out
    }

    #[test]
    fn every_kind_of_pixel_becomes_planes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.png");
        let check = |colour, pixels: &[u8], grey: [u8; 2], rgb: [u8; 6]| {
            write_png(&path, (1, 2), colour, pixels);
            let picture = Picture::read(&path).unwrap();
            assert_eq!(filled(&picture, 1, (1, 2)), grey, "{colour:?}");
            assert_eq!(filled(&picture, 3, (1, 2)), rgb, "{colour:?}");
        };
        check(ColorType::Grayscale, &[7, 9], [7, 9], [7, 9, 7, 9, 7, 9]);
        check(ColorType::GrayscaleAlpha, &[7, 0, 9, 255], [7, 9], [7, 9, 7, 9, 7, 9]);
        check(ColorType::Rgb, &[255, 0, 0, 1, 2, 3], [76, 2], [255, 1, 0, 2, 0, 3]);
        check(ColorType::Rgba, &[0, 255, 0, 0, 1, 2, 3, 9], [150, 2], [0, 1, 255, 2, 0, 3]);
    }

    #[test]
    fn a_jpeg_is_near_what_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.png");
        let pixels: Vec<u8> = (0..20 * 30).flat_map(|i| [100 + i / 30, 50 + i % 30, 200].map(|v| v as u8)).collect();
        write_jpeg(&path, (20, 30), &pixels);
        let picture = Picture::read(&path).unwrap();
        assert_eq!((picture.height, picture.width), (20, 30));
        let planes = filled(&picture, 3, (20, 30));
        assert!(pixels.chunks(3).enumerate().all(|(i, p)| (0..3).all(|c| planes[c * 600 + i].abs_diff(p[c]) < 12)));
    }

    #[test]
    fn scaling_keeps_what_is_even_and_means_what_is_not() {
        let uneven = picture(2, 2, vec![0, 100, 100, 200]);
        assert_eq!(filled(&uneven, 1, (1, 1)), [100]);
        assert_eq!(filled(&uneven, 1, (2, 4))[..4], [0, 25, 75, 100]);
        let even = picture(7, 9, vec![77; 63]);
        for size in [(1, 1), (3, 3), (7, 20), (50, 2)] {
            assert!(filled(&even, 1, size).iter().all(|p| *p == 77), "{size:?}");
        }
    }

    #[test]
    fn weights_add_up_to_one_within_the_image() {
        for (from, to) in [(1, 1), (1, 9), (9, 1), (28, 32), (32, 28), (640, 28), (3, 16_384), (16_384, 3)] {
            for (first, weights) in weights(from, to) {
                assert!(
                    (weights.iter().sum::<f32>() - 1.0).abs() < 1e-4 && first + weights.len() <= from,
                    "{from} {to}"
                );
            }
        }
    }

    proptest! {
        #[test]
        fn no_damage_makes_it_panic(
            jpeg: bool,
            edits in prop::collection::vec((any::<u16>(), any::<u8>(), 0u8..4), 1..6),
        ) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("a");
            let pixels = [9; 3 * 17 * 13];
            if jpeg { write_jpeg(&path, (17, 13), &pixels) } else { write_png(&path, (17, 13), ColorType::Rgb, &pixels) }
            let mut bytes = fs::read(&path).unwrap();
            mutate(&mut bytes, &edits);
            fs::write(&path, bytes).unwrap();
            if let Ok(picture) = Picture::read(&path) {
                prop_assert!(picture.pixels.len() <= MOST_BYTES);
            }
        }
    }
}
