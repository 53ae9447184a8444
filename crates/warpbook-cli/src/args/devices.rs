//! Options of `warpbook devices` and `warpbook doctor`.

use super::common::DeviceArg;
use clap::Args;

pub(super) const DEVICES_EXAMPLES: &str = "\
Examples:
  warpbook devices
  warpbook devices --json | jq '.devices[0].name'";

#[derive(Debug, Args)]
pub struct DevicesArgs {
    /// Print JSON instead of a table.
    #[arg(long)]
    pub json: bool,
}

pub(super) const DOCTOR_EXAMPLES: &str = "\
Examples:
  warpbook doctor
  warpbook doctor --device cpu

Exit code 0: the lab can run (the CPU is enough); 3: it cannot.";

#[derive(Debug, Args)]
pub struct DoctorArgs {
    #[command(flatten)]
    pub device: DeviceArg,
}
