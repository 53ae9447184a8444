//! The command `warpbook devices`.

use crate::args::DevicesArgs;
use crate::failure::Failure;
use crate::output::say;
use serde_json::json;
use std::process::ExitCode;
use warpbook::Show;
use warpbook::device::Inventory;

/// Prints the table of devices.
pub fn list(args: &DevicesArgs) -> Result<ExitCode, Failure> {
    let inventory = Inventory::take();
    say(&if args.json { as_json(&inventory) } else { inventory.text() });
    Ok(ExitCode::SUCCESS)
}

fn as_json(i: &Inventory) -> String {
    let version = |(major, minor): (u32, u32)| format!("{major}.{minor}");
    let value = json!({
        "devices": i.devices,
        "clocks": i.clocks,
        "driver": i.driver,
        "cuda": i.cuda.as_ref().ok().copied().map(version),
        "cuda_missing": i.cuda.as_ref().err().map(ToString::to_string),
        "nvrtc": i.nvrtc.as_ref().ok().map(|n| json!({ "version": version(n.version()), "path": n.path() })),
        "nvrtc_missing": i.nvrtc.as_ref().err().map(ToString::to_string),
    });
    format!("{value:#}")
}
