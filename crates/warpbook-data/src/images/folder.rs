//! Reading of images from a folder with a subfolder for each class.

use crate::error::{Error, Result};
use crate::images::picture::{MOST_SIDE, Picture};
use crate::{Dataset, Origin};
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

/// Upper limit on the bytes of all images together.
const MOST_TOTAL: usize = 8 << 30;

/// Reads PNG and JPEG images from a folder with a subfolder for each class. The subfolders are numbered in the order of their names, and an image's
/// label is its subfolder's number. `channels` is 1 for grey or 3 for colour. `resize` is the (height, width) to which images are scaled, whatever
/// their aspect ratio; with `None`, all images must have the same size. Images are first turned upright, as their EXIF data say. Other entries are
/// skipped, and [`Dataset::note`] counts them. [`Dataset::split`] divides the result into training and test sets.
///
/// # Errors
/// If there are no subfolders or one is empty, an image cannot be read, or sizes differ.
pub fn image_folder(folder: impl AsRef<Path>, channels: usize, resize: Option<(usize, usize)>) -> Result<Dataset> {
    let folder = folder.as_ref();
    if !matches!(channels, 1 | 3) {
        return Err(Error::Setting(format!("{channels} channels are not supported; choose 1 (grey) or 3 (colour).")));
    }
    if let Some((h, w)) = resize.filter(|(h, w)| [h, w].iter().any(|s| !(1..=MOST_SIDE).contains(*s))) {
        return Err(Error::Setting(format!(
            "Images cannot be scaled to {h} x {w}; choose sides from 1 to {MOST_SIDE}."
        )));
    }
    let (classes, passed_over) = classes(folder)?;
    let files: Vec<(PathBuf, u8)> =
        classes.iter().zip(0..).flat_map(|((_, files), label)| files.iter().map(move |f| (f.clone(), label))).collect();
    let (height, width) = match resize {
        Some(size) => size,
        None => Picture::read(&files[0].0).map(|p| (p.height, p.width))?,
    };
    let pixels = channels * height * width;
    if pixels.saturating_mul(files.len()) > MOST_TOTAL {
        return Err(Error::Setting(format!(
            "{}: {} images of {channels} x {height} x {width} need more than {} GiB; give a smaller size to scale them to.",
            folder.display(),
            files.len(),
            MOST_TOTAL >> 30
        )));
    }
    let mut images = vec![0; pixels * files.len()];
    images.par_chunks_mut(pixels).zip(&files).try_for_each(|(to, (path, _))| {
        let picture = Picture::read(path)?;
        let (h, w) = (picture.height, picture.width);
        if resize.is_none() && (h, w) != (height, width) {
            let why = format!(
                "its height and width are {h} x {w} pixels, but {} has {height} x {width}. Give a size to scale all images to",
                files[0].0.display()
            );
            return Err(Error::read(path, why));
        }
        picture.fill(to, channels, height, width);
        Ok(())
    })?;
    let name = folder.file_name().map_or_else(|| folder.display().to_string(), |n| n.to_string_lossy().into_owned());
    let labels = files.into_iter().map(|(_, label)| label).collect();
    let names = classes.into_iter().map(|(name, _)| name).collect();
    let origin = Origin::Folder { passed_over: passed_over.to_string() };
    Dataset::checked(name, [channels, height, width], images, labels, names, origin)
}

/// Classes by name, each with its images by name.
type Classes = Vec<(String, Vec<PathBuf>)>;

/// Lists the subfolders as classes, and counts the other entries.
fn classes(folder: &Path) -> Result<(Classes, PassedOver)> {
    let (mut classes, mut all) = (Vec::new(), PassedOver::default());
    for sub in entries(folder)? {
        if !sub.is_dir() {
            all.note(&sub);
            continue;
        }
        let (files, others): (Vec<_>, Vec<_>) = entries(&sub)?.into_iter().partition(|p| is_image(p));
        if files.is_empty() {
            let mut here = PassedOver::default();
            others.iter().for_each(|p| here.note(p));
            let found = if others.is_empty() { String::new() } else { format!(", but {here}") };
            return Err(Error::read(
                &sub,
                format!("it contains no PNG or JPEG image{found}; every subfolder is a class"),
            ));
        }
        others.iter().for_each(|p| all.note(p));
        // A lossy conversion could give two folders the same class name.
        let Some(name) = sub.file_name().and_then(|name| name.to_str()) else {
            return Err(Error::read(
                &sub,
                "its name is not valid UTF-8; rename the folder, since its name becomes the class's name",
            ));
        };
        classes.push((name.to_owned(), files));
    }
    match classes.len() {
        0 => Err(Error::read(
            folder,
            "there are no subfolders; put the images of each class into a subfolder named after the class",
        )),
        1..=256 => Ok((classes, all)),
        n => Err(Error::read(folder, format!("it has {n} subfolders, but at most 256 classes are supported"))),
    }
}

/// The number of skipped entries of each kind.
#[derive(Default)]
struct PassedOver(BTreeMap<String, usize>);

impl PassedOver {
    fn note(&mut self, path: &Path) {
        let kind = match path.extension() {
            _ if path.is_dir() => "folder".into(),
            Some(extension) => format!(".{}", extension.to_string_lossy().to_lowercase()),
            None => "file without an extension".into(),
        };
        *self.0.entry(kind).or_default() += 1;
    }
}

/// Writes a list such as "1 .bmp and 9 .webp", or nothing if no entries were skipped.
impl fmt::Display for PassedOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (kind, count)) in self.0.iter().enumerate() {
            let before = if i == 0 {
                ""
            } else if i + 1 == self.0.len() {
                " and "
            } else {
                ", "
            };
            write!(f, "{before}{count} {kind}")?;
        }
        Ok(())
    }
}

/// Returns the entries of a folder, sorted by name, without hidden files.
fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let refuse = |e| Error::read(folder, e);
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(refuse)? {
        let entry = entry.map_err(refuse)?;
        if !entry.file_name().to_string_lossy().starts_with('.') {
            paths.push(entry.path());
        }
    }
    paths.sort();
    Ok(paths)
}

fn is_image(path: &Path) -> bool {
    let extension = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
    matches!(&*extension, "png" | "jpg" | "jpeg" | "jpe" | "jfif" | "pjpeg" | "pjp") && path.is_file()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::images::picture::tests::{write_jpeg, write_png};
    use std::fs;

    fn write(path: &Path, (height, width): (u32, u32), colour: [u8; 3]) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let pixel =
            |i: u32| [colour[0], colour[1].wrapping_add((i % width) as u8), colour[2].wrapping_add((i / width) as u8)];
        let pixels: Vec<u8> = (0..height * width).flat_map(pixel).collect();
        if path.extension().unwrap() == "png" {
            write_png(path, (height, width), png::ColorType::Rgb, &pixels);
        } else {
            write_jpeg(path, (height, width), &pixels);
        }
    }

    fn two_classes() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        write(&folder.path().join("dog/b.png"), (3, 4), [10, 20, 30]);
        write(&folder.path().join("cat/a.png"), (3, 4), [200, 100, 50]);
        write(&folder.path().join("cat/c.jpg"), (3, 4), [0, 0, 0]);
        fs::write(folder.path().join("cat/notes.txt"), "none").unwrap();
        fs::write(folder.path().join(".hidden"), "none").unwrap();
        folder
    }

    fn refused(folder: &Path, resize: Option<(usize, usize)>) -> String {
        image_folder(folder, 3, resize).unwrap_err().to_string()
    }

    #[test]
    fn classes_are_the_subfolders_by_name() {
        let folder = two_classes();
        let data = image_folder(folder.path(), 3, None).unwrap();
        assert_eq!((data.classes(), data.labels().as_ref()), (&["cat".to_owned(), "dog".into()][..], &[0, 0, 1][..]));
        assert_eq!(data.shape(), [3, 3, 4]);
        let dog = data.image(2);
        assert_eq!((&dog[..3], dog[12 + 3], dog[24 + 8]), (&[10, 10, 10][..], 20 + 3, 30 + 2));
        assert_eq!(data.origin(), &Origin::Folder { passed_over: "1 .txt".into() });
    }

    #[test]
    fn what_is_passed_over_is_counted() {
        let folder = two_classes();
        let place = |name: &str| folder.path().join(name);
        write(&place("dog/saved.jfif"), (3, 4), [1, 2, 3]);
        for name in ["dog/a.webp", "cat/B.WEBP", "cat/x.bmp", "above.tiff", "dog/none"] {
            fs::write(place(name), "none").unwrap();
        }
        fs::create_dir(place("dog/more")).unwrap();
        let data = image_folder(folder.path(), 3, None).unwrap();
        assert_eq!(data.len(), 4, "the JPEG that a browser saved as .jfif is read");
        let counted = "1 .bmp, 1 .tiff, 1 .txt, 2 .webp, 1 file without an extension and 1 folder skipped";
        assert!(data.note().contains(counted), "{}", data.note());
        fs::create_dir(place("emu")).unwrap();
        fs::write(place("emu/a.webp"), "none").unwrap();
        let error = refused(folder.path(), None);
        assert!(error.contains("no PNG or JPEG image, but 1 .webp"), "{error}");
    }

    #[test]
    fn images_become_grey_and_are_scaled_when_asked() {
        let folder = two_classes();
        write_png(&folder.path().join("dog/grey.png"), (7, 9), png::ColorType::Grayscale, &[77; 63]);
        let error = refused(folder.path(), None);
        assert!(error.contains("grey.png") && error.contains("7 x 9") && error.contains("3 x 4"), "{error}");
        let data = image_folder(folder.path(), 1, Some((5, 6))).unwrap();
        assert_eq!((data.shape(), data.len()), ([1, 5, 6], 4));
        assert!(data.image(3).iter().all(|p| *p == 77));
    }

    #[test]
    fn a_folder_that_cannot_be_used_says_why() {
        let folder = tempfile::tempdir().unwrap();
        let check = |expect: &str| {
            let error = refused(folder.path(), None);
            assert!(error.contains(expect), "{error}");
        };
        check("there are no subfolders");
        fs::create_dir(folder.path().join("cat")).unwrap();
        check("cat cannot be read: it contains no PNG or JPEG");
        write(&folder.path().join("cat/a.png"), (300, 300), [1, 2, 3]);
        let good = fs::read(folder.path().join("cat/a.png")).unwrap();
        for bad in [&good[..good.len() / 2], &good[..20], b"no image", b""] {
            fs::write(folder.path().join("cat/b.png"), bad).unwrap();
            check("cat/b.png cannot be read");
        }
        assert!(refused(&folder.path().join("none"), None).contains("none cannot be read"));
        assert!(refused(folder.path(), Some((0, 5))).contains("cannot be scaled to 0 x 5"));
        assert!(image_folder(folder.path(), 2, None).unwrap_err().to_string().contains("choose 1 (grey)"));
    }

    #[test]
    fn an_image_that_says_it_is_huge_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cat/a.png");
        write(&path, (3, 4), [1, 2, 3]);
        let mut png = fs::read(&path).unwrap();
        // This overwrites the width and height in the header; the checksum is updated below.
        png[16..24].copy_from_slice(&[0x7f, 0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff]);
        let mut crc = flate2::Crc::new();
        crc.update(&png[12..29]);
        png[29..33].copy_from_slice(&crc.sum().to_be_bytes());
        fs::write(&path, png).unwrap();
        assert!(refused(folder.path(), None).contains("cat/a.png cannot be read"));
        assert!(refused(folder.path(), Some((8, 8))).contains("cat/a.png cannot be read"));
    }
}
