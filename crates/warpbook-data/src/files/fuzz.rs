//! Fuzz targets. As tests they try about a thousand inputs each; `cargo bolero test data::fuzz::pickles` (and so on) runs one for as long as you like. A reader
//! may refuse an input, but must not panic or return more data than a file of its kind can contain.

use crate::files::cifar::{self, MOST, PIXELS};
use crate::files::{idx, pickle};
use crate::images::picture;
use crate::mnist;
use crate::philox::uniform;
use bolero::check;
use flate2::{Compression, write::GzEncoder};
use std::cell::OnceCell;
use std::fs;
use std::io::Write;
use std::path::Path;
use tempfile::TempDir;

/// Damages the contents of a file. Each edit flips bits, or cuts off, inserts or repeats bytes at an offset.
pub(crate) fn mutate(bytes: &mut Vec<u8>, edits: &[(u16, u8, u8)]) {
    for (at, value, kind) in edits {
        let at = usize::from(*at) * bytes.len() / (1 << 16);
        match kind {
            _ if bytes.is_empty() => bytes.push(*value),
            0 => bytes[at] ^= value,
            1 => bytes.truncate(at),
            2 => bytes.insert(at, *value),
            _ => bytes.extend_from_within(at..),
        }
    }
}

pub(crate) fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut gz = GzEncoder::new(Vec::new(), Compression::fast());
    gz.write_all(bytes).unwrap();
    gz.finish().unwrap()
}

thread_local! {
    static FOLDER: OnceCell<TempDir> = const { OnceCell::new() };
}

/// Calls `run` with a folder that contains a small valid MNIST data set.
fn in_folder(run: impl FnOnce(&Path)) {
    FOLDER.with(|cell| {
        run(cell
            .get_or_init(|| {
                let folder = tempfile::tempdir().unwrap();
                idx::tests::write_set(folder.path(), 2);
                folder
            })
            .path());
    });
}

/// Passes inputs to a target. bolero keeps its own inputs next to this file; if the sources are missing, as with packed tests on another machine,
/// the target gets only the drawn inputs.
macro_rules! try_inputs {
    ($target:expr) => {
        if Path::new(env!("CARGO_MANIFEST_DIR")).join("src/data/fuzz.rs").exists() {
            check!().for_each($target);
        } else {
            drawn($target);
        }
    };
}

/// Draws a thousand inputs of up to 512 random bytes, the same in every run.
fn drawn(target: impl Fn(&[u8])) {
    for i in 0..1000 {
        let draw = |at: u64, below: f32| (uniform(7, 1024 * i + at, 0) * below) as usize;
        let bytes: Vec<u8> = (0..draw(0, 512.0) as u64).map(|at| draw(at + 1, 256.0) as u8).collect();
        target(&bytes);
    }
}

#[test]
fn drawn_inputs_differ_in_length_and_content() {
    let seen = std::cell::RefCell::new(std::collections::BTreeSet::new());
    drawn(|bytes| {
        seen.borrow_mut().insert(bytes.to_vec());
    });
    let seen = seen.into_inner();
    assert!(seen.len() > 900 && seen.iter().any(|b| b.len() > 400), "{} inputs", seen.len());
    let values: std::collections::BTreeSet<u8> = seen.iter().flatten().copied().collect();
    assert_eq!(values.len(), 256);
}

#[test]
fn pickles() {
    try_inputs!(|bytes: &[u8]| {
        for bytes in [bytes, &[b"\x80\x02}(", bytes].concat()] {
            if let Ok((images, labels)) = pickle::batch(Path::new("data_batch_1"), bytes) {
                assert!(images.len() == labels.len() * PIXELS && labels.len() <= MOST);
            }
        }
    });
}

#[test]
fn idx_files() {
    try_inputs!(|bytes: &[u8]| {
        in_folder(|folder| {
            let path = folder.join("t10k-labels.idx1-ubyte");
            for bytes in [bytes, &[b"\0\0\x08\x01\0\0\0\x02", bytes].concat()] {
                fs::write(&path, bytes).unwrap();
                if let Ok(splits) = mnist(folder) {
                    assert!(splits.test.len() == 2 && splits.test.labels().iter().all(|l| *l < 10));
                }
            }
        });
    });
}

#[test]
fn archives() {
    try_inputs!(|bytes: &[u8]| {
        in_folder(|folder| {
            let path = folder.join("cifar-10-binary.tar.gz");
            for bytes in [bytes, &packed(bytes)] {
                fs::write(&path, bytes).unwrap();
                assert!(cifar::cifar10(&path).is_err(), "six batches by chance");
            }
        });
    });
}

#[test]
fn pictures() {
    try_inputs!(|bytes: &[u8]| {
        in_folder(|folder| {
            let path = folder.join("picture");
            for start in [&b"\x89PNG\r\n\x1a\n"[..], b"\xff\xd8\xff", b""] {
                fs::write(&path, [start, bytes].concat()).unwrap();
                if let Ok(picture) = picture::Picture::read(&path) {
                    assert!(picture.height * picture.width <= picture::MOST_SIDE.pow(2));
                }
            }
        });
    });
}
