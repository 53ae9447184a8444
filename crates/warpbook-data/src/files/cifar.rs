//! CIFAR-10, from its binary or its Python files.
//!
//! A binary file has 10,000 records. Each record is a label followed by 3072 bytes: 32 x 32 bytes of red, then green, then blue. A Python file is a pickle; see
//! [`crate::files::pickle`] (Krizhevsky, 2009).

use crate::error::{Error, Result};
use crate::files::file::{InputFile, Verdict, md5};
use crate::files::pickle;
use crate::files::recipes::{CIFAR_ARCHIVES, CIFAR_PYTHON_FILES};
use crate::{Dataset, Origin, Splits};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

pub(crate) const CLASSES: [&str; 10] =
    ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"];
pub(crate) const SHAPE: [usize; 3] = [3, 32, 32];
pub(crate) const PIXELS: usize = 3 * 32 * 32;
/// Number of images in a file.
pub(crate) const MOST: usize = 10_000;
/// Upper limit on the bytes of a file in either layout: 10,000 records, plus the overhead of a pickle.
const LONGEST: usize = MOST * (PIXELS + 1) + (2 << 20);
/// Upper limit on the bytes that an archive unpacks to.
const ARCHIVE: u64 = 7 * LONGEST as u64;

const BATCHES: [&str; 6] =
    ["data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch"];

/// The two layouts of the published files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layout {
    Binary,
    Python,
}

impl Layout {
    const BOTH: [Self; 2] = [Self::Binary, Self::Python];

    fn file_name(self, batch: &str) -> String {
        match self {
            Self::Binary => format!("{batch}.bin"),
            Self::Python => batch.to_owned(),
        }
    }

    fn folder(self) -> &'static str {
        match self {
            Self::Binary => "cifar-10-batches-bin",
            Self::Python => "cifar-10-batches-py",
        }
    }

    fn read(self, path: &Path, bytes: &[u8]) -> Result<Images> {
        match self {
            Self::Binary => records(path, bytes),
            Self::Python => pickle::batch(path, bytes),
        }
    }
}

/// Pixels and labels.
pub(crate) type Images = (Vec<u8>, Vec<u8>);

/// Reads CIFAR-10 from its archive (`cifar-10-binary.tar.gz` or `cifar-10-python.tar.gz`), or from a folder with the archive or the files in it.
///
/// # Errors
/// If a file is missing or damaged.
pub fn cifar10(path: impl AsRef<Path>) -> Result<Splits> {
    let path = path.as_ref();
    if path.is_file() {
        return from_archive(path);
    }
    match find(path) {
        Some(Found::Archive(archive)) => from_archive(&archive),
        Some(Found::Files(folder, layout)) => from_files(&folder, layout),
        None => Err(Error::read(
            path,
            "neither cifar-10-binary.tar.gz nor data_batch_1.bin nor data_batch_1 is there. Get it with `warpbook data fetch \
             cifar10`, or name another folder",
        )),
    }
}

/// Returns true if a folder contains a file of the set.
pub(crate) fn is_in(folder: &Path) -> bool {
    find(folder).is_some()
}

enum Found {
    Archive(PathBuf),
    Files(PathBuf, Layout),
}

/// Finds the archive or the files in a folder. The archive is preferred, because its hash is known.
fn find(folder: &Path) -> Option<Found> {
    let names = CIFAR_ARCHIVES.iter().flat_map(|(name, _)| [name, name.strip_suffix(".gz").unwrap_or(name)]);
    let archive = names.map(|name| folder.join(name)).find(|p| p.is_file());
    if let Some(archive) = archive {
        return Some(Found::Archive(archive));
    }
    Layout::BOTH.into_iter().find_map(|layout| {
        let folders = [folder.to_owned(), folder.join(layout.folder())];
        let found = folders.into_iter().find(|f| f.join(layout.file_name(BATCHES[0])).is_file())?;
        Some(Found::Files(found, layout))
    })
}

fn from_files(folder: &Path, layout: Layout) -> Result<Splits> {
    let mut verdict = Verdict::new();
    let mut batches = Vec::new();
    for batch in BATCHES {
        let path = folder.join(layout.file_name(batch));
        let bytes = read_limited(&path)?;
        batches.push(layout.read(&path, &bytes)?);
        let sum = CIFAR_PYTHON_FILES.iter().find(|(name, _)| layout == Layout::Python && *name == batch);
        verdict.note(&path, sum.map(|(_, sum)| md5(&bytes) == *sum));
    }
    splits(batches, verdict.origin())
}

fn read_limited(path: &Path) -> Result<Vec<u8>> {
    let refuse = |e: std::io::Error| Error::read(path, e);
    let length = fs::metadata(path).map_err(refuse)?.len();
    if length > LONGEST as u64 {
        return Err(too_long(path, length));
    }
    let mut bytes = Vec::with_capacity(length as usize);
    InputFile::open(path)?.take(LONGEST as u64 + 1).read_to_end(&mut bytes).map_err(refuse)?;
    if bytes.len() > LONGEST { Err(too_long(path, bytes.len() as u64)) } else { Ok(bytes) }
}

fn too_long(path: &Path, length: u64) -> Error {
    let why = format!("a file of CIFAR-10 has at most {LONGEST} bytes, but this one has {length}.");
    Error::format(path, LONGEST as u64, why)
}

fn from_archive(path: &Path) -> Result<Splits> {
    let mut source = InputFile::open(path)?;
    let mut found: Vec<Option<Images>> = BATCHES.map(|_| None).to_vec();
    let has_long_names = read_archive(path, &mut source, &mut found)?;
    if let Some(missing) = found.iter().position(Option::is_none) {
        let name = BATCHES[missing];
        let why = match has_long_names {
            true => {
                "Some of its names are longer than 100 characters, and such files are skipped: pack it with shorter folder names."
            }
            false => "Download it again.",
        };
        return source.refuse(format!("the archive contains neither {name}.bin nor {name}. {why}"));
    }
    // The rest of the file must be read too, since zeros as padding follow the end of a tar archive.
    std::io::copy(&mut Read::take(&mut source, ARCHIVE), &mut std::io::sink())
        .or_else(|e| source.refuse(format!("it cannot be unpacked ({e}). Download it again.")))?;
    let hash = source.finish("the archive")?;
    let mut verdict = Verdict::new();
    verdict.note(path, Some(CIFAR_ARCHIVES.iter().any(|(_, sum)| *sum == hash)));
    splits(found.into_iter().flatten().collect(), verdict.origin())
}

/// Reads the batches of an archive without writing to disk. Returns true if the archive also has files that are not read.
fn read_archive(path: &Path, source: &mut InputFile, found: &mut [Option<Images>]) -> Result<bool> {
    let damaged = |e: std::io::Error| {
        Error::format(path, 0, format!("it is not an intact .tar.gz archive ({e}). Download it again."))
    };
    let mut has_long_names = false;
    let mut archive = tar::Archive::new(Read::take(source, ARCHIVE));
    // Entries are read raw, since the crate would otherwise read long names of any length into memory, and this data set has no long names.
    for entry in archive.entries().map_err(damaged)?.raw(true) {
        let mut entry = entry.map_err(damaged)?;
        let kind = entry.header().entry_type();
        has_long_names |= kind.is_gnu_longname() || kind.is_pax_local_extensions();
        let name = entry.path().map_err(damaged)?.file_name().map(|n| n.to_string_lossy().into_owned());
        let batch = Layout::BOTH.iter().find_map(|layout| {
            let i = BATCHES.iter().position(|b| Some(layout.file_name(b)) == name)?;
            Some((*layout, i))
        });
        let Some((layout, i)) = batch.filter(|_| entry.header().entry_type().is_file()) else { continue };
        let within = path.join(name.unwrap_or_default());
        if entry.size() > LONGEST as u64 {
            return Err(too_long(&within, entry.size()));
        }
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).map_err(damaged)?;
        if bytes.len() as u64 != entry.size() {
            let (read, size) = (bytes.len(), entry.size());
            let why = format!("the archive ends within this file, after {read} of {size} bytes. Download it again.");
            return Err(Error::format(&within, read as u64, why));
        }
        found[i] = Some(layout.read(&within, &bytes)?);
    }
    Ok(has_long_names)
}

/// Reads the records of a binary file.
fn records(path: &Path, bytes: &[u8]) -> Result<Images> {
    const RECORD: usize = PIXELS + 1;
    let (records, rest) = bytes.as_chunks::<RECORD>();
    if records.is_empty() || records.len() > MOST || !rest.is_empty() {
        let (at, length) = (records.len() * RECORD, bytes.len());
        let why = format!(
            "the file should be 1 to {MOST} records of {RECORD} bytes, but has {length} bytes. Download it again."
        );
        return Err(Error::format(path, at as u64, why));
    }
    if let Some(i) = records.iter().position(|r| usize::from(r[0]) >= CLASSES.len()) {
        return Err(bad_label(path, i * RECORD, i, i64::from(records[i][0])));
    }
    let mut images = Vec::with_capacity(records.len() * PIXELS);
    records.iter().for_each(|r| images.extend_from_slice(&r[1..]));
    Ok((images, records.iter().map(|r| r[0]).collect()))
}

pub(crate) fn bad_label(path: &Path, at: usize, i: usize, label: i64) -> Error {
    Error::format(path, at as u64, format!("label {i} is {label}; labels are 0 to 9. Download it again."))
}

/// Creates the training and test sets; the last batch is the test set.
fn splits(mut batches: Vec<Images>, origin: Origin) -> Result<Splits> {
    let test = batches.pop().unwrap_or_default();
    let mut train = (Vec::with_capacity(batches.iter().map(|b| b.0.len()).sum()), Vec::new());
    for (images, labels) in batches {
        train.0.extend_from_slice(&images);
        train.1.extend_from_slice(&labels);
    }
    let dataset = |(images, labels)| {
        let classes = CLASSES.map(str::to_owned).to_vec();
        Dataset::checked("CIFAR-10".into(), SHAPE, images, labels, classes, origin.clone())
    };
    Ok(Splits { train: dataset(train)?, test: dataset(test)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::fuzz::{mutate, packed};
    use flate2::{Compression, write::GzEncoder};
    use proptest::prelude::*;
    use std::io::Write;

    fn binary(n: usize, salt: usize) -> Vec<u8> {
        let record = |i: usize| {
            std::iter::once(((i + salt) % 10) as u8).chain((0..PIXELS).map(move |p| ((p + i + salt) % 256) as u8))
        };
        (0..n).flat_map(record).collect()
    }

    fn python(n: usize, salt: usize) -> Vec<u8> {
        let (images, labels) = records(Path::new("x"), &binary(n, salt)).unwrap();
        pickle::tests::written(&images, &labels)
    }

    fn file(layout: Layout, n: usize, salt: usize) -> Vec<u8> {
        match layout {
            Layout::Binary => binary(n, salt),
            Layout::Python => python(n, salt),
        }
    }

    fn write_files(folder: &Path, layout: Layout) {
        fs::create_dir_all(folder).unwrap();
        for (i, batch) in BATCHES.iter().enumerate() {
            fs::write(folder.join(layout.file_name(batch)), file(layout, i + 1, i)).unwrap();
        }
    }

    fn archive(layout: Layout, size: Option<u64>) -> Vec<u8> {
        let mut tar = tar::Builder::new(Vec::new());
        let mut add = |name: String, bytes: &[u8], size: u64| {
            let mut header = tar::Header::new_ustar();
            header.set_size(size);
            header.set_path(name).unwrap();
            header.set_cksum();
            tar.append(&header, bytes).unwrap();
        };
        add(format!("{}/readme.html", layout.folder()), b"read me", 7);
        for (i, batch) in BATCHES.iter().enumerate() {
            let bytes = file(layout, i + 1, i);
            let name = format!("{}/{}", layout.folder(), layout.file_name(batch));
            add(name, &bytes, size.unwrap_or(bytes.len() as u64));
        }
        tar.into_inner().unwrap()
    }

    #[test]
    fn all_layouts_hold_the_same_images() {
        let folder = tempfile::tempdir().unwrap();
        let mut read = Vec::new();
        for layout in Layout::BOTH {
            let place = folder.path().join(format!("{layout:?}"));
            write_files(&place.join(layout.folder()), layout);
            read.push(cifar10(&place).unwrap());
            read.push(cifar10(place.join(layout.folder())).unwrap());
            let tar = folder.path().join("any-name.tar.gz");
            let all = archive(layout, None);
            // The archive may be packed, packed in two concatenated pieces, or unpacked by a browser that keeps the name.
            for bytes in [packed(&all), [packed(&all[..700]), packed(&all[700..])].concat(), all.clone()] {
                fs::write(&tar, bytes).unwrap();
                read.push(cifar10(&tar).unwrap());
            }
        }
        for splits in &read {
            assert_eq!((splits.train.len(), splits.test.len(), splits.train.shape()), (15, 6, [3, 32, 32]));
            assert_eq!(
                (splits.train.images(), splits.train.labels()),
                (read[0].train.images(), read[0].train.labels())
            );
            assert_eq!((splits.test.images(), splits.test.labels()), (read[0].test.images(), read[0].test.labels()));
            assert!(matches!(splits.test.origin(), Origin::Modified { .. }));
        }
        assert_eq!(read[0].test.image(2)[7], 7 + 2 + 5);
        assert!(read[0].test.note().contains("no hash of data_batch_1.bin is published"), "{}", read[0].test.note());
        assert!(read[5].test.note().contains("data_batch_1 differs"), "{}", read[5].test.note());
    }

    #[test]
    fn each_damage_is_refused_where_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path();
        write_files(place, Layout::Binary);
        let check = |name: &str, bytes: &[u8], expect: &str| {
            let good = fs::read(place.join(name)).unwrap();
            fs::write(place.join(name), bytes).unwrap();
            let error = cifar10(place).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains(expect), "{error}");
            fs::write(place.join(name), good).unwrap();
        };
        check("data_batch_2.bin", &[], "byte 0: the file should be 1 to 10000 records of 3073 bytes");
        check("data_batch_2.bin", &binary(2, 0)[..6000], "byte 3073: the file should be");
        check("test_batch.bin", &[binary(2, 0), vec![9]].concat(), "byte 6146: the file should be");
        check("data_batch_1.bin", &binary(MOST + 1, 0), "records of 3073 bytes, but has 30733073");
        let mut label = binary(2, 0);
        label[3073] = 10;
        check("data_batch_3.bin", &label, "byte 3073: label 1 is 10");
        fs::File::create(place.join("data_batch_4.bin")).unwrap().set_len(1 << 40).unwrap();
        assert!(cifar10(place).unwrap_err().to_string().contains("at most"));
        fs::remove_file(place.join("data_batch_4.bin")).unwrap();
        assert!(cifar10(place).unwrap_err().to_string().contains("data_batch_4.bin cannot be read"));
    }

    #[test]
    fn archives_that_lie_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cifar-10-binary.tar.gz");
        let check = |bytes: &[u8], expect: &str| {
            fs::write(&path, bytes).unwrap();
            let error = cifar10(folder.path()).unwrap_err().to_string();
            assert!(error.contains("cifar-10-binary.tar.gz") && error.contains(expect), "{error}");
        };
        let good = archive(Layout::Binary, None);
        check(b"", "the archive contains neither data_batch_1.bin");
        let long = {
            let mut tar = tar::Builder::new(Vec::new());
            let mut header = tar::Header::new_gnu();
            header.set_size(4);
            tar.append_data(&mut header, format!("{}/data_batch_1.bin", "x".repeat(120)), &b"data"[..]).unwrap();
            tar.into_inner().unwrap()
        };
        check(&packed(&long), "longer than 100 characters");
        check(&packed(b""), "the archive contains neither data_batch_1.bin nor data_batch_1");
        check(&packed(&good)[..1000], "not an intact .tar.gz");
        check(&packed(&good[..good.len() / 2]), "data_batch_5.bin, byte 0: the archive ends within this file");
        check(&packed(&archive(Layout::Binary, Some(1 << 33))), "at most");
        // These zeros unpack to twice the limit for an archive.
        let bomb = {
            let mut gz = GzEncoder::new(Vec::new(), Compression::fast());
            gz.write_all(&good).unwrap();
            let zeros = vec![0; 1 << 20];
            (0..(2 * ARCHIVE) >> 20).for_each(|_| gz.write_all(&zeros).unwrap());
            gz.finish().unwrap()
        };
        check(&bomb, "should end here");
    }

    #[test]
    fn a_folder_without_it_says_what_would_do() {
        let folder = tempfile::tempdir().unwrap();
        let error = cifar10(folder.path()).unwrap_err().to_string();
        assert!(error.contains("warpbook data fetch cifar10"), "{error}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn no_damage_to_an_archive_makes_it_panic_or_swell(
            python: bool,
            outside: bool,
            edits in prop::collection::vec((any::<u16>(), any::<u8>(), 0u8..4), 1..6),
        ) {
            let mut bytes = archive(if python { Layout::Python } else { Layout::Binary }, None);
            if outside {
                bytes = packed(&bytes);
            }
            mutate(&mut bytes, &edits);
            let bytes = if outside { bytes } else { packed(&bytes) };
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("cifar-10-binary.tar.gz");
            fs::write(&path, bytes).unwrap();
            if let Ok(splits) = cifar10(&path) {
                prop_assert_eq!(splits.train.images().len(), splits.train.len() * PIXELS);
                prop_assert!(splits.train.len() <= 5 * MOST);
            }
        }
    }
}
