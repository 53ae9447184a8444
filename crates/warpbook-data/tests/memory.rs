//! Checks that hostile files do not make the readers allocate more than a file of their kind may contain. The test runs in a process of its own, because the
//! allocator counts every allocation in the process.

use flate2::{Compression, write::GzEncoder};
use peak_alloc::PeakAlloc;
use std::fs;
use std::io::Write;
use std::path::Path;
use warpbook_data::{self as data, Result};

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

const MIB: usize = 1 << 20;

/// Creates a gzip stream of `start` followed by this many MiB of `fill`.
fn bomb(start: &[u8], mib: usize, fill: &[u8]) -> Vec<u8> {
    let mut gz = GzEncoder::new(Vec::new(), Compression::fast());
    gz.write_all(start).unwrap();
    let chunk = fill.repeat(MIB / fill.len());
    (0..mib).for_each(|_| gz.write_all(&chunk).unwrap());
    gz.finish().unwrap()
}

/// Checks that the file is refused and that at most this many MiB were allocated at once.
#[track_caller]
fn expect<T>(most_mib: usize, read: impl FnOnce() -> Result<T>) {
    let before = ALLOCATOR.current_usage();
    ALLOCATOR.reset_peak_usage();
    let refused = read().err();
    let peak = ALLOCATOR.peak_usage().saturating_sub(before);
    println!("{:.1} MiB: {}", peak as f64 / MIB as f64, refused.as_ref().map_or(String::new(), ToString::to_string));
    assert!(refused.is_some(), "it is not refused");
    assert!(peak <= most_mib * MIB, "{peak} bytes were held: {refused:?}");
}

/// Creates a tar header for a file of this size.
fn tar_header(name: &str, kind: tar::EntryType, size: u64) -> Vec<u8> {
    let mut header = tar::Header::new_gnu();
    header.set_path(name).unwrap();
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_cksum();
    header.as_bytes().to_vec()
}

#[test]
fn hostile_data_is_cheap() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path();
    let images = |n: u32| [&[0, 0, 8, 3][..], &n.to_be_bytes(), &[0, 0, 0, 28, 0, 0, 0, 28]].concat();

    let mnist = place.join("mnist");
    fs::create_dir(&mnist).unwrap();
    let write = |folder: &Path, name: &str, bytes: &[u8]| fs::write(folder.join(name), bytes).unwrap();
    write(&mnist, "train-labels-idx1-ubyte.gz", b"");
    // The headers announce 100,000 images with nothing after the header, 2 images followed by 1 GiB, and 4 billion images.
    write(&mnist, "train-images-idx3-ubyte.gz", &bomb(&images(100_000), 0, b"\0"));
    expect(4, || data::mnist(&mnist));
    write(&mnist, "train-images-idx3-ubyte.gz", &bomb(&images(2), 1024, b"\0"));
    expect(4, || data::mnist(&mnist));
    write(&mnist, "train-images-idx3-ubyte.gz", &bomb(&images(u32::MAX), 8, b"\0"));
    expect(4, || data::mnist(&mnist));

    let cifar = place.join("cifar-10-binary.tar.gz");
    let tar_of = |header: &[u8], mib, fill: &[u8]| fs::write(&cifar, bomb(header, mib, fill)).unwrap();
    let file = tar::EntryType::Regular;
    // The archives contain a name of 1 GiB, a batch of 8 GiB, a batch that announces 30 MiB but is empty, endless pickles, and other files.
    tar_of(&tar_header("x", tar::EntryType::GNULongName, 1 << 30), 1024, b"a");
    expect(4, || data::cifar10(&cifar));
    tar_of(&tar_header("x", tar::EntryType::XHeader, 1 << 30), 1024, b"a");
    expect(4, || data::cifar10(&cifar));
    tar_of(&tar_header("data_batch_1.bin", file, 1 << 33), 1, b"\0");
    expect(4, || data::cifar10(&cifar));
    tar_of(&tar_header("data_batch_1.bin", file, 30_730_000), 0, b"\0");
    expect(4, || data::cifar10(&cifar));
    for fill in [&b"]]"[..], b"((", b"K\0", b"))", b"q\0", b"NN"] {
        tar_of(&[tar_header("data_batch_1", file, 30_000_000), b"\x80\x02".to_vec()].concat(), 40, fill);
        // The limit covers the file itself, the array while it doubles, and the values.
        expect(120, || data::cifar10(&cifar));
    }
    tar_of(&tar_header("other", file, 1 << 30), 1024, b"\0");
    expect(4, || data::cifar10(&cifar));

    let class = place.join("images/cat");
    fs::create_dir_all(&class).unwrap();
    let side = 16_000u32;
    let mut png = Vec::new();
    let mut encoder = png::Encoder::new(&mut png, side, side);
    encoder.set_color(png::ColorType::Rgba);
    encoder.write_header().unwrap().write_chunk(png::chunk::IDAT, b"\x78\x9c").unwrap();
    write(&class, "a.png", &png);
    expect(4, || data::image_folder(place.join("images"), 3, None));
}
