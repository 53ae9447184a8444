//! The emulator in a browser: how many instructions of threads it runs a second, with all checks and counts on.
//!
//! ```sh
//! cargo build --release -p warpbook-emulator --example page --target wasm32-unknown-unknown
//! WARPBOOK_PAGE=target/wasm32-unknown-unknown/release/examples/page.wasm \
//!     cargo test -p warpbook-emulator --test kernels a_page -- --nocapture
//! ```
//!
//! The test writes `page.html` next to the module, with kernels as NVRTC compiles them. The page runs each of them, and shows the rates and their
//! geometric mean: open it, or `chromium --headless --virtual-time-budget=60000 --dump-dom page.html`.
//!
//! The module has no imports. A job's text comes in byte by byte, so that the page needs no access to the module's memory.

mod job;

use job::{Job, Prepared};
use std::cell::RefCell;

thread_local! {
    static TEXT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static JOB: RefCell<Option<Prepared>> = const { RefCell::new(None) };
}

/// Appends a byte to the text of the next job.
#[unsafe(no_mangle)]
pub extern "C" fn push(byte: u8) {
    TEXT.with_borrow_mut(|text| text.push(byte));
}

/// Prepares the job whose text has come in; returns 1, or 0 if it is not a job.
#[unsafe(no_mangle)]
pub extern "C" fn prepare() -> u32 {
    let text = TEXT.take();
    let job = str::from_utf8(&text).ok().and_then(Job::read).and_then(|job| job.prepare().ok());
    JOB.with_borrow_mut(|place| *place = job);
    JOB.with_borrow(|place| place.is_some().into())
}

/// Runs the job once; returns how many instructions its threads executed, or -1 if it has a fault.
#[unsafe(no_mangle)]
#[allow(clippy::cast_precision_loss)]
pub extern "C" fn run() -> f64 {
    let verdict = JOB.with_borrow_mut(|job| job.as_mut().and_then(|job| job.run().ok()));
    verdict.map_or(-1.0, |verdict| verdict.report.thread_steps as f64)
}
