//! Encoding of images as PNG files.

use crate::error::{Error, Result};
use png::{BitDepth, ColorType};

/// Encodes pixels, u8 `[channels][height][width]`, as a PNG file, in grey for 1 channel and in colour for 3.
///
/// # Errors
/// If this shape cannot be stored as a PNG image, or the number of bytes does not match the shape.
pub fn png([channels, height, width]: [usize; 3], pixels: &[u8]) -> Result<Vec<u8>> {
    let refuse = |why: String| {
        Error::Setting(format!("An image of {channels} x {height} x {width} cannot be written as PNG: {why}"))
    };
    let colour = match channels {
        1 => ColorType::Grayscale,
        3 => ColorType::Rgb,
        _ => return Err(refuse("choose 1 channel (grey) or 3 (colour).".into())),
    };
    let plane = height.saturating_mul(width);
    if plane == 0 || plane.saturating_mul(channels) != pixels.len() {
        return Err(refuse(format!("there are {} bytes.", pixels.len())));
    }
    let [Ok(w), Ok(h)] = [width, height].map(u32::try_from) else { return Err(refuse("a side is too long.".into())) };
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, w, h);
    encoder.set_color(colour);
    encoder.set_depth(BitDepth::Eight);
    let interleaved: Vec<u8> = (0..plane).flat_map(|i| (0..channels).map(move |c| pixels[c * plane + i])).collect();
    let mut writer = encoder.write_header().map_err(|e| refuse(e.to_string()))?;
    writer.write_image_data(&interleaved).map_err(|e| refuse(e.to_string()))?;
    writer.finish().map_err(|e| refuse(e.to_string()))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fit, fit_image};

    #[test]
    fn an_image_comes_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.png");
        for shape in [[1, 3, 5], [3, 2, 4]] {
            let pixels: Vec<u8> = (0..shape.iter().product::<usize>()).map(|i| i as u8 * 7).collect();
            std::fs::write(&path, png(shape, &pixels).unwrap()).unwrap();
            assert_eq!(fit_image(&path, shape, Fit::Whole).unwrap().pixels, pixels);
        }
        let check = |shape, n, expect: &str| {
            let error = png(shape, &vec![0; n]).unwrap_err().to_string();
            assert!(error.contains(expect), "{error}");
        };
        check([2, 1, 1], 2, "choose 1 channel (grey)");
        check([1, 2, 2], 3, "there are 3 bytes");
        check([1, 0, 2], 0, "there are 0 bytes");
    }
}
