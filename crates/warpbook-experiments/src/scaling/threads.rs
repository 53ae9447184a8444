//! Ranks as threads of this process, with the same rendezvous and collectives as processes.

use super::{Measured, Scaling};
use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;
use warpbook_device::{Bench, Choice, Inventory};
use warpbook_lab::{Error, Lab, Result};
use warpbook_nn::train::{Ranks, RanksOptions, TrainError};
use warpbook_ranks::{Alone, Collective, Group, Launcher, Limits, Placement};
use warpbook_record::Run;

/// Time after which a missing rank counts as lost.
const LIMIT: Duration = Duration::from_secs(120);

/// Runs `work` on `count` ranks, each of them a thread that uses the given number of threads for CPU loops, and returns
/// the results in order. An error ends all ranks; the error of the rank with the lowest number is returned.
pub(super) fn together<R: Send>(
    world: usize,
    threads: usize,
    work: &(dyn Fn(usize, Box<dyn Collective>) -> Result<R> + Sync),
) -> Result<Vec<R>> {
    let failed = |e: std::io::Error| Error::Setting(format!("No port can be opened on 127.0.0.1: {e}."));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
    let port = listener.local_addr().map_err(failed)?.port();
    let mut listener = Some(listener);
    std::thread::scope(|scope| {
        let mut all = Vec::new();
        for rank in 0..world {
            let (listener, host, token) = (listener.take(), Ipv4Addr::LOCALHOST.to_string(), format!("{port} threads"));
            let placement =
                Placement { rank, local_rank: rank, world, host, port, token, launcher: Launcher::Warpbook };
            all.push(scope.spawn(move || {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
                let pool =
                    pool.map_err(|e| Error::Setting(format!("The threads of a rank cannot be started: {e}.")))?;
                pool.install(|| {
                    let limits = Limits { join: LIMIT, ..Limits::stall_after(LIMIT) };
                    let group: Box<dyn Collective> = match world {
                        1 => Box::new(Alone::default()),
                        _ => Box::new(Group::join(&placement, limits, listener).map_err(TrainError::from)?),
                    };
                    work(rank, group)
                })
            }));
        }
        let lost = || Error::Setting("A rank has ended by a panic.".into());
        let ended: Vec<Result<R>> = all.into_iter().map(|t| t.join().unwrap_or_else(|_| Err(lost()))).collect();
        ended.into_iter().collect()
    })
}

/// Runs `work` on this many CPU ranks, each a thread of this process with an equal share of its threads, and returns
/// the results in order. Ranks meet, communicate and end like processes. An error of one rank ends all ranks, and is
/// returned.
///
/// # Errors
/// If a rank fails (returns the first error), or if there are no ranks or more than 64.
pub fn on_threads<R: Send>(
    world: usize,
    options: RanksOptions,
    work: impl Fn(&Ranks) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    if !(1..=64).contains(&world) {
        return Err(Error::Setting(format!("{world} ranks: choose from 1 to 64.")));
    }
    let threads = (std::thread::available_parallelism().map_or(1, usize::from) / world).max(1);
    together(world, threads, &|_, group| {
        let ranks = Ranks::new(group, options);
        let made = work(&ranks);
        match &made {
            // If the ranks ended early, `work` has already reported it.
            Ok(_) => drop(ranks.finish()),
            Err(error) => ranks.aborter().abort(&error.to_string()),
        }
        made
    })
}

impl Scaling {
    /// Runs all measurements in this process. Ranks are threads: on the CPU each rank has the same fraction of the
    /// machine's threads, however many ranks there are; on GPUs each rank has its own GPU. `warpbook scaling` starts a
    /// process for each rank instead.
    ///
    /// # Errors
    /// If a setting is out of range, there are too few GPUs, or a rank fails.
    pub fn run(&self, lab: &Lab) -> Result<Run> {
        self.validate(lab)?;
        let most = self.worlds().iter().copied().max().unwrap_or(1);
        let threads = self.threads_a_rank(lab);
        let mut all: Vec<Measured> = Vec::new();
        if lab.device().cuda().is_some() {
            let gpus = Inventory::cuda_devices()?.len();
            if most > gpus {
                return Err(Error::Setting(format!(
                    "{most} ranks, and there are {gpus} GPUs: choose fewer, or measure ranks on the CPU with Lab::open(\"cpu\")."
                )));
            }
        }
        for world in self.worlds() {
            let of_rank = |rank: usize, group: Box<dyn Collective>| {
                // If there are several ranks, each has its own device.
                let choice = lab.device().cuda().map_or(Choice::Cpu, |_| Choice::Cuda(rank as u32));
                let own = Lab::on(choice)?.with_bench(Bench { cancel: lab.cancel(), ..lab.bench().clone() });
                // A recorder records all GPUs of the process and cannot tell them apart, so timelines are recorded only
                // on the CPU.
                let this = Self { timelines: self.timelines && own.device().cuda().is_none(), ..self.clone() };
                let ranks = Ranks::new(group, this.options);
                let measured = if *world == 1 {
                    this.work(&own, None, &mut |_| {})
                } else {
                    this.work(&own, Some(&ranks), &mut |_| {})
                };
                match &measured {
                    Ok(_) => ranks.finish()?,
                    Err(error) => ranks.aborter().abort(&error.to_string()),
                }
                measured
            };
            all.extend(together(*world, threads, &of_rank)?.swap_remove(0));
        }
        if self.one_process {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
            let pool = pool.map_err(|e| Error::Setting(format!("Threads cannot be started: {e}.")))?;
            all.extend(pool.install(|| self.work_in_one_process(lab, &mut |_| {}))?);
        }
        let command =
            format!("Scaling::new({most}) on {}, run from a program or notebook", lab.device().info().selector());
        Ok(self.record(lab, &all, command, "a thread"))
    }

    /// Returns the number of threads for the CPU loops of a rank. It does not depend on the number of ranks, so that
    /// more ranks use more threads.
    #[must_use]
    pub fn threads_a_rank(&self, lab: &Lab) -> usize {
        let most = self.worlds().iter().copied().max().unwrap_or(1);
        (lab.cpu_threads() as usize / most).max(1)
    }
}
