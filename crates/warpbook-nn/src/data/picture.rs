//! One PNG or JPEG image.

use super::error::{Error, Result};
use png::{ColorType, Transformations};
use std::io::{Cursor, Read};
use std::path::Path;
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

/// The widest and highest image that is read.
pub(super) const MOST_SIDE: usize = 16_384;
/// The longest file that is read, and what it may decode to, in bytes.
const MOST_BYTES: usize = 256 << 20;

/// An image as it was decoded.
pub(super) struct Picture {
    pub(super) height: usize,
    pub(super) width: usize,
    /// 1 grey, 2 grey and alpha, 3 colour, 4 colour and alpha.
    pub(super) samples: usize,
    /// u8 `[height][width][samples]`.
    pixels: Vec<u8>,
}

impl Picture {
    /// Reads a file; what it is its first bytes say, and not its name.
    pub(super) fn read(path: &Path) -> Result<Self> {
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
            _ => Err("it is neither a PNG nor a JPEG image".into()),
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
        Self::new(size, samples, pixels)
    }

    fn jpeg(bytes: &[u8]) -> Result<Self, String> {
        let options = DecoderOptions::default()
            .set_max_width(MOST_SIDE)
            .set_max_height(MOST_SIDE)
            .set_strict_mode(true)
            .jpeg_set_out_colorspace(ColorSpace::RGB);
        let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
        decoder.decode_headers().map_err(|e| format!("the JPEG image is damaged ({e})"))?;
        let size = decoder.info().map_or((0, 0), |i| (usize::from(i.height), usize::from(i.width)));
        Self::allowed(size, decoder.output_buffer_size())?;
        let pixels = decoder.decode().map_err(|e| format!("the JPEG image is damaged ({e})"))?;
        let samples = decoder.output_colorspace().map_or(3, |c| c.num_components());
        Self::new(size, samples, pixels)
    }

    /// The bytes that an image of (height, width) decodes to, unless they are too many.
    fn allowed((h, w): (usize, usize), length: Option<usize>) -> Result<usize, String> {
        let sides = 1..=MOST_SIDE;
        match length.filter(|l| sides.contains(&h) && sides.contains(&w) && *l <= MOST_BYTES) {
            Some(length) => Ok(length),
            None => Err(format!(
                "it is {h} x {w} pixels high and wide; sides of 1 to {MOST_SIDE} and {} MiB are read",
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
        Ok(Self { height, width, samples, pixels })
    }

    /// Its middle, of at most this size.
    pub(super) fn centre(&self, height: usize, width: usize) -> Self {
        let (height, width) = (height.min(self.height), width.min(self.width));
        let (top, left) = ((self.height - height) / 2, (self.width - width) / 2);
        let row = |y: usize| &self.pixels[((top + y) * self.width + left) * self.samples..][..width * self.samples];
        let pixels = (0..height).flat_map(row).copied().collect();
        Self { height, width, samples: self.samples, pixels }
    }

    /// Fills u8 `[channels][height][width]` with the image, scaled to this size; alpha is left out.
    pub(super) fn fill(&self, to: &mut [u8], channels: usize, height: usize, width: usize) {
        for (c, plane) in to.chunks_exact_mut(height * width).enumerate() {
            let from = self.plane(channels, c);
            if (height, width) == (self.height, self.width) {
                plane.iter_mut().zip(from).for_each(|(to, from)| *to = from.round() as u8);
            } else {
                scale(&from, (self.height, self.width), plane, (height, width));
            }
        }
    }

    /// Channel `c` of `channels`. Grey of colours is the luma of ITU-R BT.601, as in JPEG.
    fn plane(&self, channels: usize, c: usize) -> Vec<f32> {
        let value = |p: &[u8]| match (p, channels) {
            ([grey] | [grey, _], _) => f32::from(*grey),
            ([r, g, b, ..], 1) => 0.299 * f32::from(*r) + 0.587 * f32::from(*g) + 0.114 * f32::from(*b),
            (p, _) => f32::from(p[c]),
        };
        self.pixels.chunks_exact(self.samples).map(value).collect()
    }
}

/// Scales with a triangle filter as wide as a pixel of the coarser grid: linear between pixels when enlarging, a weighted mean
/// when reducing. First along rows, then along columns.
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

/// For each of `to` places the first of `from` places that it takes values of, and their weights, which add up to 1.
fn weights(from: usize, to: usize) -> Vec<(usize, Vec<f32>)> {
    let ratio = from as f32 / to as f32;
    let reach = ratio.max(1.0);
    let of = |i: usize| {
        let centre = (i as f32 + 0.5) * ratio - 0.5;
        let first = (centre - reach).ceil().max(0.0) as usize;
        let last = ((centre + reach).floor() as usize).min(from - 1);
        let first = first.min(last);
        let raw: Vec<f32> = (first..=last).map(|j| (1.0 - (j as f32 - centre).abs() / reach).max(0.0)).collect();
        let sum: f32 = raw.iter().sum();
        let even = 1.0 / raw.len() as f32;
        (first, raw.into_iter().map(|w| if sum > 0.0 { w / sum } else { even }).collect())
    };
    (0..to).map(of).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::data::fuzz::mutate;
    use png::BitDepth;
    use proptest::prelude::*;
    use std::fs;

    pub(in crate::data) fn write_png(path: &Path, (h, w): (u32, u32), colour: ColorType, pixels: &[u8]) {
        let mut encoder = png::Encoder::new(fs::File::create(path).unwrap(), w, h);
        encoder.set_color(colour);
        encoder.set_depth(BitDepth::Eight);
        encoder.write_header().unwrap().write_image_data(pixels).unwrap();
    }

    pub(in crate::data) fn write_jpeg(path: &Path, (h, w): (u32, u32), rgb: &[u8]) {
        let encoder = jpeg_encoder::Encoder::new_file(path, 100).unwrap();
        encoder.encode(rgb, w as u16, h as u16, jpeg_encoder::ColorType::Rgb).unwrap();
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
        let picture = Picture { height: 2, width: 2, samples: 1, pixels: vec![0, 100, 100, 200] };
        assert_eq!(filled(&picture, 1, (1, 1)), [100]);
        assert_eq!(filled(&picture, 1, (2, 4))[..4], [0, 25, 75, 100]);
        let even = Picture { height: 7, width: 9, samples: 1, pixels: vec![77; 63] };
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
