//! Timings of PyTorch's DistributedDataParallel and DataParallel, from a file written by
//! `notebooks/pytorch/ddp.py --out`.

use super::{Measured, Scaling};
use serde::Deserialize;
use std::path::Path;
use warpbook_lab::{Error, Result};
use warpbook_record::{Check, DeviceKind, Requires, Run, Rung, Runner};

/// PyTorch's timings, as `ddp.py` writes them to a file.
#[derive(Debug, Clone, Deserialize)]
pub struct PyTorch {
    script: String,
    torch: String,
    device: String,
    network: String,
    #[serde(default)]
    edge: Option<usize>,
    results: Vec<TimedWay>,
}

#[derive(Debug, Clone, Deserialize)]
struct TimedWay {
    way: String,
    ranks: usize,
    batch_per_rank: u64,
    samples_us: Vec<f64>,
}

impl PyTorch {
    /// Reads a file of timings.
    ///
    /// # Errors
    /// If the file cannot be read, or was not written by `ddp.py`.
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let refused = |why: String| {
            let path = path.display();
            Error::Setting(format!("{path} is not a file that `ddp.py --out` wrote: {why}."))
        };
        let text = std::fs::read_to_string(path).map_err(|e| refused(e.to_string()))?;
        let read: Self = serde_json::from_str(&text).map_err(|e| refused(e.to_string()))?;
        if read.script != "ddp.py" || read.results.is_empty() {
            return Err(refused("it has no results of that script".into()));
        }
        Ok(read)
    }
}

impl Scaling {
    /// Adds PyTorch's timings to a record of [`Scaling::run`] or `warpbook scaling`, if they were measured on the same
    /// device, with the same network and batches. Timings for batches that are not in the record are skipped, and a
    /// note says so.
    /// # Errors
    /// If the timings were measured on another device.
    pub fn absorb(&self, run: &mut Run, other: &PyTorch) -> Result<()> {
        let info = &run.environment.device;
        let here = if info.kind == DeviceKind::Cuda { info.name.as_str() } else { "CPU" };
        if other.device != here {
            return Err(Error::Setting(format!(
                "PyTorch's figures are of {}, and the record is of {here}: run both on the same machine.",
                other.device
            )));
        }
        if other.edge.is_some_and(|edge| other.network == "amp-recipe" && edge != self.features) {
            return Err(Error::Setting(format!(
                "PyTorch's layers are {} wide, and the record's {}.",
                other.edge.unwrap_or(0),
                self.features
            )));
        }
        let on_gpu = info.kind == DeviceKind::Cuda;
        let (mut added, mut left_out) = (0, 0);
        for timed in &other.results {
            let global = timed.batch_per_rank * timed.ranks as u64;
            let mut is_there = false;
            for network in self.networks.iter().filter(|n| n.name() == other.network) {
                for batch in self.batches_of(*network) {
                    for growth in &self.growths {
                        let has = self.worlds.contains(&timed.ranks);
                        if !has || Self::global(*growth, batch, timed.ranks) != global {
                            continue;
                        }
                        is_there = true;
                        let problem = self.problem(*network, *growth, batch, timed.ranks);
                        run.measurements.push(self.measurement(&problem, &as_measured(timed, other)));
                    }
                }
            }
            match is_there {
                true => added += 1,
                false => left_out += 1,
            }
            let id = rung_id(&timed.way);
            if is_there && run.rung(&id).is_none() {
                run.rungs.push(rung(&timed.way, &other.torch, on_gpu));
            }
        }
        let library = ("PyTorch".to_owned(), other.torch.clone());
        if added > 0 && !run.environment.libraries.contains(&library) {
            run.environment.libraries.push(library);
        }
        if left_out > 0 {
            run.notes.push(format!(
                "{left_out} of PyTorch's {} figures of {} are of other batches or numbers of ranks, and were left out.",
                other.results.len(),
                other.network
            ));
        }
        Ok(())
    }
}

fn rung_id(way: &str) -> String {
    format!("pytorch_{way}")
}

fn rung(way: &str, version: &str, on_gpu: bool) -> Rung {
    let version = version.split('+').next().unwrap_or(version);
    let types = way.trim_start_matches("ddp_").trim_start_matches("dp_").replace('_', " ");
    let (title, idea) = if way.starts_with("dp_") {
        (
            format!("PyTorch DataParallel, {types}"),
            "torch.nn.DataParallel: one process and one thread for each device, weights copied in every step.",
        )
    } else {
        (
            format!("PyTorch DDP, {types}"),
            "torch.nn.parallel.DistributedDataParallel: a process a device, gradients in buckets of 25 MiB.",
        )
    };
    Rung {
        id: rung_id(way).into(),
        title: title.into(),
        idea: idea.into(),
        requires: if on_gpu { Requires::AtLeast(7, 5) } else { Requires::Nothing },
        runner: Runner::External(format!("PyTorch {version}").into()),
        variant_of: None,
    }
}

fn as_measured(timed: &TimedWay, of: &PyTorch) -> Measured {
    Measured {
        network: of.network.clone(),
        way: rung_id(&timed.way),
        ranks: timed.ranks,
        batch: timed.batch_per_rank * timed.ranks as u64,
        samples_us: timed.samples_us.clone(),
        // The script writes no file if its results are wrong.
        check: Some(Check {
            reference: "the weights of rank 0, whose bits all ranks have before and after the timed steps".into(),
            max_abs_error: 0.0,
            max_rel_error: 0.0,
            tolerance: 0.0,
            passed: true,
        }),
        error: None,
        choice: None,
        gradients: None,
        moments: Vec::new(),
        note: None,
    }
}
