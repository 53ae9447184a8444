//! A thread that communicates with the other ranks while the backward pass continues.

use super::trace::{RankThread, Trace};
use crate::train::TrainError;
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::Instant;
use warpbook_ranks::{Aborter, Collective, Error};

type Operation = Box<dyn FnOnce(&mut dyn Collective) + Send>;

enum TeamJob {
    Operation(Operation),
    Finish(mpsc::Sender<warpbook_ranks::Result<()>>),
}

/// The communicating thread. Operations run in the order in which they were queued, which is equal on all ranks.
#[derive(Debug)]
pub(super) struct Team {
    rank: usize,
    world: usize,
    aborter: Aborter,
    trace: Trace,
    jobs: Mutex<Option<mpsc::Sender<TeamJob>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// The future result of an operation.
#[derive(Debug)]
pub(in crate::train) struct Pending<R>(mpsc::Receiver<warpbook_ranks::Result<R>>);

impl<R> Pending<R> {
    /// Waits for the result.
    ///
    /// # Errors
    /// If the operation fails, for example because a rank is lost, or if the ranks have already ended their
    /// work.
    pub fn wait(self) -> Result<R, TrainError> {
        Ok(self.0.recv().unwrap_or_else(|_| Err(already_ended()))?)
    }
}

fn already_ended() -> Error {
    Error::Lost("The ranks have ended their work already.".into())
}

impl Team {
    pub fn new(collective: Box<dyn Collective>, trace: Trace) -> Self {
        let (rank, world, aborter) = (collective.rank(), collective.world(), collective.aborter());
        let (jobs, queued) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let mut collective = collective;
            while let Ok(job) = queued.recv() {
                match job {
                    TeamJob::Operation(operation) => operation(&mut *collective),
                    TeamJob::Finish(reply) => {
                        let _ = reply.send(collective.finish());
                        return;
                    }
                }
            }
        });
        Self { rank, world, aborter, trace, jobs: Mutex::new(Some(jobs)), thread: Mutex::new(Some(thread)) }
    }

    pub fn rank(&self) -> usize {
        self.rank
    }

    pub fn world(&self) -> usize {
        self.world
    }

    pub fn aborter(&self) -> Aborter {
        self.aborter.clone()
    }

    /// Queues a job. If the thread has ended, no answer comes, and waiting for it reports an error.
    fn push(&self, job: TeamJob) {
        if let Some(jobs) = &*self.jobs.lock().unwrap_or_else(PoisonError::into_inner) {
            let _ = jobs.send(job);
        }
    }

    pub fn queue<R: Send + 'static>(
        &self,
        name: &str,
        operation: impl FnOnce(&mut dyn Collective) -> warpbook_ranks::Result<R> + Send + 'static,
    ) -> Pending<R> {
        let (reply, done) = mpsc::channel();
        let (trace, name) = (self.trace.clone(), name.to_owned());
        self.push(TeamJob::Operation(Box::new(move |collective| {
            let begun = Instant::now();
            let result = operation(collective);
            trace.add(RankThread::Communication, &name, begun);
            // The caller may have failed in the meantime, so an error is ignored.
            let _ = reply.send(result);
        })));
        Pending(done)
    }

    pub fn finish(&self) -> Result<(), TrainError> {
        let (reply, done) = mpsc::channel();
        self.push(TeamJob::Finish(reply));
        Pending(done).wait()
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        drop(self.jobs.get_mut().unwrap_or_else(PoisonError::into_inner).take());
        if let Some(thread) = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = thread.join();
        }
    }
}
