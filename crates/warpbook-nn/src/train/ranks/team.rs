//! A thread that talks to the other ranks, so that the backward pass goes on meanwhile.

use crate::train::TrainError;
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use warpbook_ranks::{Aborter, Collective, Error};

type Operation = Box<dyn FnOnce(&mut dyn Collective) + Send>;

enum Job {
    Operation(Operation),
    Finish(mpsc::Sender<warpbook_ranks::Result<()>>),
}

/// The thread. Operations run one after the other in the order in which they were queued, which is the same on all ranks.
#[derive(Debug)]
pub(super) struct Team {
    rank: usize,
    world: usize,
    aborter: Aborter,
    jobs: Mutex<Option<mpsc::Sender<Job>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// What an operation will come to.
#[derive(Debug)]
pub(in crate::train) struct Pending<R>(mpsc::Receiver<warpbook_ranks::Result<R>>);

impl<R> Pending<R> {
    /// Waits for it.
    pub fn wait(self) -> Result<R, TrainError> {
        Ok(self.0.recv().unwrap_or_else(|_| Err(over()))?)
    }
}

fn over() -> Error {
    Error::Lost("The ranks have ended their work already.".into())
}

impl Team {
    pub fn new(collective: Box<dyn Collective>) -> Self {
        let (rank, world, aborter) = (collective.rank(), collective.world(), collective.aborter());
        let (jobs, queued) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let mut collective = collective;
            while let Ok(job) = queued.recv() {
                match job {
                    Job::Operation(operation) => operation(&mut *collective),
                    Job::Finish(reply) => {
                        let _ = reply.send(collective.finish());
                        return;
                    }
                }
            }
        });
        Self { rank, world, aborter, jobs: Mutex::new(Some(jobs)), thread: Mutex::new(Some(thread)) }
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

    /// Queues a job; where nobody takes it any more, its answer never comes, which the wait for it tells.
    fn push(&self, job: Job) {
        if let Some(jobs) = &*self.jobs.lock().unwrap_or_else(PoisonError::into_inner) {
            let _ = jobs.send(job);
        }
    }

    pub fn queue<R: Send + 'static>(
        &self,
        operation: impl FnOnce(&mut dyn Collective) -> warpbook_ranks::Result<R> + Send + 'static,
    ) -> Pending<R> {
        let (reply, done) = mpsc::channel();
        self.push(Job::Operation(Box::new(move |collective| {
            // Who has asked may have failed meanwhile.
            let _ = reply.send(operation(collective));
        })));
        Pending(done)
    }

    pub fn finish(&self) -> Result<(), TrainError> {
        let (reply, done) = mpsc::channel();
        self.push(Job::Finish(reply));
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
