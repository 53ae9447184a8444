//! Reads MNIST's IDX files; Fashion-MNIST uses the same format.
//!
//! A file is two zero bytes, the type of its elements (8: u8), the number of its dimensions, each dimension as a big-endian
//! u32, and the elements (LeCun, Cortes and Burges, "The MNIST database of handwritten digits").

use crate::error::{Error, Result};
use crate::files::file::{InputFile, Verdict, sha256_of};
use crate::files::recipes::{MNIST_UNPACKED, recipe};
use crate::{Dataset, Splits};
use std::path::{Path, PathBuf};

/// A data set whose files have the IDX format.
pub(crate) struct Set {
    name: &'static str,
    pub(crate) classes: [&'static str; 10],
    /// The subfolder in which torchvision stores the files.
    torchvision: &'static str,
    /// SHA-256 of the unpacked files, by name.
    unpacked: &'static [(&'static str, &'static str)],
}

pub(crate) const MNIST: Set = Set {
    name: "mnist",
    classes: ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"],
    torchvision: "MNIST/raw",
    unpacked: &MNIST_UNPACKED,
};

pub(crate) const FASHION_MNIST: Set = Set {
    name: "fashion-mnist",
    classes: ["T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot"],
    torchvision: "FashionMNIST/raw",
    unpacked: &[],
};

const SIDE: usize = 28;
/// Upper limit on the number of images, larger than any set of this kind. A header with a larger number is refused.
const MOST: usize = 1_000_000;

/// Reads MNIST from a folder with its four files, which may be packed (`.gz`).
///
/// # Errors
/// If a file is missing or damaged.
pub fn mnist(folder: impl AsRef<Path>) -> Result<Splits> {
    read(folder.as_ref(), &MNIST)
}

/// Reads Fashion-MNIST from a folder with its four files, which may be packed (`.gz`).
///
/// # Errors
/// If a file is missing or damaged.
pub fn fashion_mnist(folder: impl AsRef<Path>) -> Result<Splits> {
    read(folder.as_ref(), &FASHION_MNIST)
}

/// Returns true if a folder contains a file of the set.
pub(crate) fn is_in(folder: &Path, set: &Set) -> bool {
    find(folder, set, "train-images", 3).is_some()
}

/// Finds the file of a part, such as `train-images`: a packed file is preferred, since its hash is known.
fn find(folder: &Path, set: &Set, part: &str, dimensions: usize) -> Option<PathBuf> {
    let folders = [folder.to_owned(), folder.join("raw"), folder.join(set.torchvision)];
    let names = ["-", "."].map(|dash| format!("{part}{dash}idx{dimensions}-ubyte"));
    let names: Vec<String> = names.iter().map(|n| format!("{n}.gz")).chain(names.clone()).collect();
    folders.iter().flat_map(|f| names.iter().map(|n| f.join(n))).find(|p| p.is_file())
}

/// Returns the set whose published files are in a folder. All sets of this kind use the same file names, so the hash of the labels decides.
fn published_in(folder: &Path, set: &Set) -> Option<&'static Set> {
    let labels = find(folder, set, "train-labels", 1)?;
    set_with(&labels, &sha256_of(&labels)?)
}

/// Returns the set that has a file of this name with this SHA-256.
fn set_with(path: &Path, hash: &str) -> Option<&'static Set> {
    let has = |set: &&Set| [true, false].iter().any(|packed| published(path, set, *packed) == Some(hash));
    [&MNIST, &FASHION_MNIST].into_iter().find(has)
}

pub(crate) fn read(folder: &Path, set: &Set) -> Result<Splits> {
    let set = published_in(folder, set).unwrap_or(set);
    let mut verdict = Verdict::new();
    let (train, test) =
        (read_split(folder, set, "train", &mut verdict)?, read_split(folder, set, "t10k", &mut verdict)?);
    let (title, origin) = (recipe(set.name).map_or(set.name, |r| r.title), verdict.origin());
    let dataset = |(images, labels)| {
        let classes = set.classes.map(str::to_owned).to_vec();
        Dataset::checked(title.to_owned(), [1, SIDE, SIDE], images, labels, classes, origin.clone())
    };
    Ok(Splits { train: dataset(train)?, test: dataset(test)? })
}

/// Reads images and labels of `train` or `t10k`.
fn read_split(folder: &Path, set: &Set, split: &str, verdict: &mut Verdict) -> Result<(Vec<u8>, Vec<u8>)> {
    let find = |what: &str, dimensions| {
        let name = format!("{split}-{what}");
        find(folder, set, &name, dimensions).ok_or_else(|| {
            let file = format!("{name}-idx{dimensions}-ubyte.gz");
            Error::read(
                &folder.join(file),
                format!("it does not exist. Get it with `warpbook data fetch {}`, or name another folder", set.name),
            )
        })
    };
    let (image_path, label_path) = (find("images", 3)?, find("labels", 1)?);
    let images = elements(&image_path, "images", [SIDE, SIDE], set, verdict)?;
    let labels = elements(&label_path, "labels", [], set, verdict)?;
    let n = images.len() / (SIDE * SIDE);
    if labels.len() != n {
        let why = format!("{} labels, but {} has {n} images. Download both again.", labels.len(), image_path.display());
        return Err(Error::format(&label_path, 4, why));
    }
    if let Some(i) = labels.iter().position(|l| usize::from(*l) >= set.classes.len()) {
        let why = format!("label {i} is {}; labels are 0 to 9. Download it again.", labels[i]);
        return Err(Error::format(&label_path, 8 + i as u64, why));
    }
    Ok((images, labels))
}

/// Reads the elements of a file, which has some number of items of this shape.
fn elements<const D: usize>(
    path: &Path,
    what: &str,
    shape: [usize; D],
    set: &Set,
    verdict: &mut Verdict,
) -> Result<Vec<u8>> {
    let mut source = InputFile::open(path)?;
    let magic = source.take_bytes(4, "the magic number")?;
    let expect = [0, 0, 8, D as u8 + 1];
    if magic != expect {
        return source.refuse_at(
            0,
            format!("an IDX file of {what} begins with the bytes {expect:02x?}, but this one begins with {magic:02x?}. Download it again."),
        );
    }
    let n = dimension(&mut source)?;
    if n == 0 || n > MOST {
        return source
            .refuse_at(4, format!("its header announces {n} {what}; 1 to {MOST} are allowed. Download it again."));
    }
    for (i, side) in shape.into_iter().enumerate() {
        let found = dimension(&mut source)?;
        if found != side {
            let which = ["rows", "columns"].get(i).unwrap_or(&"elements");
            return source.refuse_at(
                8 + 4 * i as u64,
                format!("its images have {found} {which}, but the images of {} have {side}.", set.name),
            );
        }
    }
    let elements = source.take_bytes(n * shape.iter().product::<usize>(), what)?;
    let packed = source.is_packed();
    let hash = source.finish(what)?;
    verdict.note(path, published(path, set, packed).map(|sum| sum == hash));
    Ok(elements)
}

fn dimension(source: &mut InputFile) -> Result<usize> {
    let bytes = source.take_bytes(4, "the dimensions")?;
    Ok(bytes.iter().fold(0, |v, b| v << 8 | usize::from(*b)))
}

/// Returns the SHA-256 that a file should have.
fn published(path: &Path, set: &Set, packed: bool) -> Option<&'static str> {
    let name = path.file_name()?.to_str()?.replace(".idx", "-idx");
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    if packed {
        recipe(set.name)?.files.iter().find(|f| f.name.strip_suffix(".gz") == Some(name)).map(|f| f.sha256)
    } else {
        set.unpacked.iter().find(|(n, _)| *n == name).map(|(_, sum)| *sum)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::Origin;
    use crate::files::fuzz::{mutate, packed};
    use proptest::prelude::*;
    use std::fs;

    fn images(n: u32) -> Vec<u8> {
        let header = [&[0, 0, 8, 3][..], &n.to_be_bytes(), &28u32.to_be_bytes(), &28u32.to_be_bytes()].concat();
        header.into_iter().chain((0..n * 784).map(|i| (i % 251) as u8)).collect()
    }

    fn labels(n: u32) -> Vec<u8> {
        [0, 0, 8, 1].into_iter().chain(n.to_be_bytes()).chain((0..n).map(|i| (i % 10) as u8)).collect()
    }

    #[test]
    fn published_files_are_what_they_are_whatever_they_are_called() {
        let labels = Path::new("train-labels-idx1-ubyte.gz");
        for set in [&MNIST, &FASHION_MNIST] {
            let hash = published(labels, set, true).unwrap();
            assert_eq!(set_with(labels, hash).map(|s| s.name), Some(set.name));
        }
        let unpacked = Path::new("train-labels-idx1-ubyte");
        assert_eq!(set_with(unpacked, MNIST_UNPACKED[1].1).map(|s| s.name), Some("mnist"));
        assert!(set_with(labels, MNIST_UNPACKED[0].1).is_none());
    }

    /// Writes a small valid set with packed training files and unpacked test files.
    pub(crate) fn write_set(folder: &Path, n: u32) {
        fs::create_dir_all(folder).unwrap();
        let write = |name: &str, bytes: Vec<u8>| fs::write(folder.join(name), bytes).unwrap();
        write("train-images-idx3-ubyte.gz", packed(&images(n)));
        write("train-labels-idx1-ubyte.gz", packed(&labels(n)));
        write("t10k-images-idx3-ubyte", images(2));
        write("t10k-labels.idx1-ubyte", labels(2));
    }

    fn set() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        write_set(folder.path(), 12);
        folder
    }

    #[test]
    fn packed_and_unpacked_files_are_read() {
        let folder = set();
        let Splits { train, test } = mnist(folder.path()).unwrap();
        assert_eq!((train.len(), test.len(), train.shape(), train.label(11)), (12, 2, [1, 28, 28], 1));
        assert_eq!(train.image(3)[5], ((3 * 784 + 5) % 251) as u8);
        let Origin::Modified { why } = train.origin() else { panic!("{:?}", train.origin()) };
        assert_eq!(why, "not the original files: train-images-idx3-ubyte.gz differs from the published one");
        assert_eq!(fashion_mnist(folder.path()).unwrap().test.classes()[9], "ankle boot");
    }

    #[test]
    fn whether_a_file_is_packed_is_told_by_its_content() {
        let folder = set();
        let write = |name: &str, bytes: Vec<u8>| fs::write(folder.path().join(name), bytes).unwrap();
        let expect = mnist(folder.path()).unwrap().train.images().to_vec();
        // A file may be unpacked by a browser that keeps the name, packed without `.gz` in its name, or packed in three concatenated
        // pieces.
        write("train-labels-idx1-ubyte.gz", labels(12));
        write("t10k-images-idx3-ubyte", packed(&images(2)));
        let all = images(12);
        write("train-images-idx3-ubyte.gz", [&all[..7], &all[7..1000], &all[1000..]].map(packed).concat());
        let Splits { train, test } = mnist(folder.path()).unwrap();
        assert!(**train.images() == *expect && test.len() == 2 && train.label(11) == 1);
        write("train-images-idx3-ubyte.gz", b"\n<!DOCTYPE HTML>\n<title>Log in</title>".to_vec());
        let error = mnist(folder.path()).unwrap_err().to_string();
        assert!(error.contains("this is a web page"), "{error}");
    }

    #[test]
    fn torchvision_s_folders_are_found() {
        let folder = tempfile::tempdir().unwrap();
        write_set(&folder.path().join("MNIST/raw"), 3);
        assert_eq!(mnist(folder.path()).unwrap().train.len(), 3);
        assert_eq!(mnist(folder.path().join("MNIST")).unwrap().train.len(), 3);
    }

    /// Replaces an unpacked test file by one that must be refused; returns the error.
    fn refused(name: &str, bytes: &[u8]) -> String {
        let folder = set();
        let (path, gz) = (folder.path().join(name), name.ends_with(".gz"));
        fs::write(&path, if gz { packed(bytes) } else { bytes.to_vec() }).unwrap();
        let error = mnist(folder.path()).unwrap_err().to_string();
        assert!(error.starts_with(&path.display().to_string()), "{error}");
        error
    }

    #[test]
    fn each_damage_is_refused_where_it_is() {
        let (i, l) = ("t10k-images-idx3-ubyte", "t10k-labels.idx1-ubyte");
        let check = |name: &str, bytes: &[u8], expect: &str| {
            let error = refused(name, bytes);
            assert!(error.contains(expect), "{error}");
        };
        let with = |mut bytes: Vec<u8>, at: usize, new: &[u8]| {
            bytes[at..at + new.len()].copy_from_slice(new);
            bytes
        };
        check(i, &[], "byte 0: the file ends here, in the magic number, but 4 bytes were expected from byte 0 on");
        check(i, &labels(2), "byte 0: an IDX file of images begins with the bytes [00, 00, 08, 03]");
        check(i, &with(images(2), 2, &[0x0d]), "[00, 00, 0d, 03]");
        check(i, &with(images(2), 4, &[0x80, 0, 0, 0]), "byte 4: its header announces 2147483648 images");
        check(i, &with(images(2), 4, &[0; 4]), "byte 4: its header announces 0 images");
        check(
            i,
            &with(images(2), 8, &[0x80, 0, 0, 0]),
            "byte 8: its images have 2147483648 rows, but the images of mnist have 28",
        );
        check(i, &with(images(2), 12, &[0, 0, 0, 29]), "byte 12: its images have 29 columns");
        check(i, &images(2)[..10], "byte 10: the file ends here, in the dimensions");
        check(
            i,
            &images(2)[..1000],
            "byte 1000: the file ends here, in images, but 1568 bytes were expected from byte 16 on",
        );
        check(i, &[images(2), vec![0]].concat(), "byte 1584: images should end here");
        check(l, &with(labels(2), 9, &[10]), "byte 9: label 1 is 10; labels are 0 to 9");
        check(l, &labels(3), "byte 4: 3 labels, but ");
        let gz = "train-images-idx3-ubyte.gz";
        check(gz, &images(12)[..5000], "byte 5000: the file ends here");
        check(gz, &[images(12), vec![7; 1 << 20]].concat(), "byte 9424: images should end here");
    }

    #[test]
    fn a_damaged_gzip_stream_is_refused() {
        let good = packed(&images(12));
        for bytes in [&good[..good.len() / 2], &good[..good.len() - 3], b"no gzip at all", b""] {
            let folder = set();
            fs::write(folder.path().join("train-images-idx3-ubyte.gz"), bytes).unwrap();
            let error = mnist(folder.path()).unwrap_err().to_string();
            assert!(error.contains(", byte ") && error.contains("Download "), "{error}");
        }
    }

    #[test]
    fn a_bomb_is_read_no_further_than_its_header_says() {
        // Two images followed by 64 MiB of zeros pack into 64 KiB.
        let bomb = packed(&[images(2), vec![0; 64 << 20]].concat());
        let folder = set();
        let path = folder.path().join("t10k-images-idx3-ubyte.gz");
        fs::write(&path, bomb).unwrap();
        let mut source = InputFile::open(&path).unwrap();
        assert_eq!(source.take_bytes(16 + 2 * 784, "images").unwrap().capacity(), 16 + 2 * 784);
        assert!(mnist(folder.path()).unwrap_err().to_string().contains("byte 1584: images should end here"));
    }

    #[test]
    fn a_missing_file_is_named() {
        let folder = set();
        fs::remove_file(folder.path().join("t10k-labels.idx1-ubyte")).unwrap();
        let error = mnist(folder.path()).unwrap_err().to_string();
        assert!(error.contains("t10k-labels-idx1-ubyte.gz") && error.contains("warpbook data fetch mnist"), "{error}");
    }

    proptest! {
        #[test]
        fn no_damage_makes_it_panic_or_swell(
            gz: bool,
            images_not_labels: bool,
            edits in prop::collection::vec((any::<u16>(), any::<u8>(), 0u8..4), 1..6),
        ) {
            let folder = set();
            let mut bytes = if images_not_labels { images(12) } else { labels(12) };
            if gz {
                bytes = packed(&bytes);
            }
            mutate(&mut bytes, &edits);
            let (what, dimensions) = if images_not_labels { ("images", 3) } else { ("labels", 1) };
            let stem = format!("train-{what}-idx{dimensions}-ubyte");
            fs::remove_file(folder.path().join(format!("{stem}.gz"))).unwrap();
            let name = if gz { format!("{stem}.gz") } else { stem };
            fs::write(folder.path().join(name), bytes).unwrap();
            if let Ok(splits) = mnist(folder.path()) {
                prop_assert_eq!((splits.train.len(), splits.train.images().len()), (12, 12 * 784));
            }
        }
    }
}
