//! Runs the emulator in a browser, and measures how many thread instructions per second it executes with all checks and counts on.
//!
//! ```sh
//! cargo build --release -p warpbook-emulator --example page --target wasm32-unknown-unknown
//! WARPBOOK_PAGE=target/wasm32-unknown-unknown/release/examples/page.wasm \
//!     cargo test -p warpbook-emulator --test kernels a_page -- --nocapture
//! ```
//!
//! The test writes `page.html` next to the module, with kernels that NVRTC has compiled. The page runs each kernel, and shows the rates and their geometric
//! mean. Open the page in a browser, or run `chromium --headless --virtual-time-budget=60000 --dump-dom page.html`.
//!
//! The module has no imports. It receives the text of a job byte by byte, so that the page does not need access to the module's memory.

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

/// Prepares the job whose text has been received. Returns 1, or 0 if the text is not a job.
#[unsafe(no_mangle)]
pub extern "C" fn prepare() -> u32 {
    let text = TEXT.take();
    let job = str::from_utf8(&text).ok().and_then(Job::read).and_then(|job| job.prepare().ok());
    JOB.with_borrow_mut(|place| *place = job);
    JOB.with_borrow(|place| place.is_some().into())
}

/// Runs the job once. Returns the number of instructions that its threads executed, or -1 if there was a fault.
#[unsafe(no_mangle)]
#[allow(clippy::cast_precision_loss)]
pub extern "C" fn run() -> f64 {
    let verdict = JOB.with_borrow_mut(|job| job.as_mut().and_then(|job| job.run().ok()));
    verdict.map_or(-1.0, |verdict| verdict.report.thread_steps as f64)
}
