//! What tests that need a GPU begin with.

use crate::{Choice, CudaDevice, Device};
use std::io::Write;

/// A GPU, or `None` where there is none, which is printed and, if `WARPBOOK_SKIP_LOG` names a file, appended to it.
///
/// # Panics
/// Under `WARPBOOK_REQUIRE_GPU=1` where there is none.
#[must_use]
pub fn gpu(test: &str) -> Option<CudaDevice> {
    match Device::open(Choice::Cuda(0)) {
        Ok(Device::Cuda(device)) => Some(device),
        Ok(Device::Cpu(_)) => unreachable!("a CUDA device was asked for"),
        Err(why) => {
            assert!(std::env::var("WARPBOOK_REQUIRE_GPU").as_deref() != Ok("1"), "{test} needs a GPU: {why}");
            println!("skipped: needs a GPU: {test}");
            append(&format!("{test}\tneeds a GPU\n"));
            None
        }
    }
}

fn append(line: &str) {
    let Some(path) = std::env::var_os("WARPBOOK_SKIP_LOG") else { return };
    // One write a line: tests of one process share the file.
    let written =
        std::fs::OpenOptions::new().create(true).append(true).open(path).and_then(|mut f| f.write_all(line.as_bytes()));
    if let Err(why) = written {
        println!("the log of skipped tests cannot be written: {why}");
    }
}
