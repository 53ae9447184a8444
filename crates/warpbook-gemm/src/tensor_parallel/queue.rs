//! Queues a run: decides the work of each stream and the events that the stream waits for.
//!
//! All streams first wait for an event of the caller's stream, and the caller's stream waits for all of them at the end. So a run begins after everything that
//! the caller has queued before, runs of one product follow one another, and events on the caller's stream time the whole run.

use super::timeline::{Clocks, Trace};
use super::{Carrier, Doing, Member, Panel, Split, Sum, TensorParallel, Timeline};
use crate::DeviceArray;
use warpbook_device::{Communicator, CudaDevice, NcclReduce, Result, Slice, Stream};
use warpbook_record::Dtype;

/// Number of untimed runs before a timeline, and number of timed runs, of which the median is returned.
const WARM: usize = 3;
const RUNS: usize = 5;

impl TensorParallel {
    /// Queues the product on a stream of the first device, and waits for nothing. Copies between GPUs cannot be captured into a graph.
    ///
    /// # Errors
    /// If a device reports an error, for example because the stream belongs to another device.
    pub fn queue(&self, stream: &Stream) -> Result<()> {
        self.queue_traced(stream, &mut None)
    }

    /// Returns the timeline of the run with the median length among several runs. Waits for the stream.
    ///
    /// # Errors
    /// Returns the errors of [`TensorParallel::queue`].
    pub fn timeline(&self, stream: &Stream) -> Result<Timeline> {
        for _ in 0..WARM {
            self.queue(stream)?;
        }
        stream.synchronize()?;
        let mut taken = Vec::new();
        for _ in 0..RUNS {
            let sides: Vec<(&CudaDevice, &Stream)> =
                self.members.iter().map(|m| (&m.device, m.multiplying(stream))).collect();
            let clocks = Clocks::set(&sides)?;
            let device = &self.members[0].device;
            let [begin, end] = [device.event()?, device.event()?];
            let mut trace = Some(Trace::default());
            begin.record(stream)?;
            self.queue_traced(stream, &mut trace)?;
            end.record(stream)?;
            stream.synchronize()?;
            taken.push(trace.unwrap_or_default().read(&clocks, [&begin, &end])?);
        }
        taken.sort_by(|a, b| a.whole_us.total_cmp(&b.whole_us));
        Ok(taken.swap_remove(RUNS / 2))
    }

    fn queue_traced(&self, stream: &Stream, trace: &mut Option<Trace>) -> Result<()> {
        let Some((first, others)) = self.members.split_first() else { return Ok(()) };
        self.begin.record(stream)?;
        first.communicating.wait(&self.begin)?;
        for member in others {
            member.multiplying(stream).wait(&self.begin)?;
            member.communicating.wait(&self.begin)?;
        }
        let panels = self.members.iter().map(|m| m.panels.len()).max().unwrap_or(0);
        for panel in 0..panels {
            // The other GPUs are queued first, since their results still have to be sent.
            for (rank, member) in self.members.iter().enumerate().skip(1) {
                member.multiply(rank, panel, stream, trace)?;
            }
            first.multiply(0, panel, stream, trace)?;
            match (&self.sum, &self.carrier) {
                (None, Carrier::Copies) => self.copy_rows(panel, trace)?,
                (_, Carrier::Stores) => self.await_stores(panel)?,
                (None, Carrier::Nccl(all)) => self.send_rows(all, panel, trace)?,
                (Some(sum), Carrier::Copies) => self.copy_partials(sum, panel, trace)?,
                (Some(sum), Carrier::Nccl(all)) => self.reduce_partials(sum, all, panel, trace)?,
            }
        }
        for member in &self.members {
            member.done.record(&member.communicating)?;
            stream.wait(&member.done)?;
        }
        Ok(())
    }

    /// Queues copies of the other GPUs' rows of C to the first GPU.
    fn copy_rows(&self, panel: usize, trace: &mut Option<Trace>) -> Result<()> {
        for (rank, member) in self.members.iter().enumerate().skip(1) {
            let Some(theirs) = member.panels.get(panel) else { continue };
            member.communicating.wait(&theirs.computed)?;
            let (from, to) = (theirs.result.bytes(), self.rows_of_c(theirs));
            member
                .communicate(rank, panel, from.bytes(), trace, || member.communicating.copy_across(from, to.bytes()))?;
        }
        Ok(())
    }

    /// Waits for the other GPUs' rows of C, which their kernels store in place, and keeps C alive until the kernels have ended.
    fn await_stores(&self, panel: usize) -> Result<()> {
        for member in self.members.iter().skip(1) {
            let Some(theirs) = member.panels.get(panel) else { continue };
            member.communicating.wait(&theirs.computed)?;
            member.communicating.keep_across(theirs.result.bytes())?;
        }
        Ok(())
    }

    /// Sends the rows with NCCL. The receiving stream also waits until the panel is computed, since a receiving kernel would occupy SMs that could multiply in
    /// the meantime.
    fn send_rows(&self, all: &[Communicator], panel: usize, trace: &mut Option<Trace>) -> Result<()> {
        let senders: Vec<(usize, &Member, &Panel)> = self
            .members
            .iter()
            .enumerate()
            .skip(1)
            .filter_map(|(rank, member)| Some((rank, member, member.panels.get(panel)?)))
            .collect();
        let (Some(first), Some(root), false) = (self.members.first(), all.first(), senders.is_empty()) else {
            return Ok(());
        };
        let mut bytes = 0;
        for (_, member, theirs) in &senders {
            member.communicating.wait(&theirs.computed)?;
            first.communicating.wait(&theirs.computed)?;
            bytes += theirs.result.bytes().bytes();
        }
        let mut sides = vec![(0, first, bytes)];
        sides.extend(senders.iter().map(|(rank, member, theirs)| (*rank, *member, theirs.result.bytes().bytes())));
        around_all(&sides, panel, trace, || {
            root.group(|| {
                for (rank, member, theirs) in &senders {
                    all[*rank].send(&member.communicating, theirs.result.bytes(), 0)?;
                    root.receive(&first.communicating, self.rows_of_c(theirs).bytes(), *rank)?;
                }
                Ok(())
            })
        })
    }

    /// Queues copies of the other GPUs' partial products, and the sum of a panel.
    fn copy_partials(&self, sum: &Sum, panel: usize, trace: &mut Option<Trace>) -> Result<()> {
        let Some((first, others)) = self.members.split_first() else { return Ok(()) };
        let Some(own) = first.panels.get(panel) else { return Ok(()) };
        let partial = self.product.m as usize * self.product.n as usize;
        let (at, len) = (self.first_element(own), own.result.len());
        let mut count = 0;
        for (rank, member) in others.iter().enumerate().map(|(i, m)| (i + 1, m)) {
            // GPUs with a share come first, and have the same panels.
            let Some(theirs) = member.panels.get(panel) else { continue };
            member.communicating.wait(&theirs.computed)?;
            let begin = count * partial + at;
            let to = sum.received.range(begin..begin + len).cast::<u8>();
            let from = theirs.result.bytes();
            member.communicate(rank, panel, from.bytes(), trace, || member.communicating.copy_across(from, &to))?;
            theirs.arrived.record(&member.communicating)?;
            first.communicating.wait(&theirs.arrived)?;
            count += 1;
        }
        first.communicating.wait(&own.computed)?;
        let others = sum.received.range(at..);
        self.add(sum, (own, &f32s(&own.result)), (&others, partial, count), trace, panel)
    }

    /// Queues the sum of a panel's partial products with NCCL, and the rounding of the sum to the type of C.
    fn reduce_partials(&self, sum: &Sum, all: &[Communicator], panel: usize, trace: &mut Option<Trace>) -> Result<()> {
        let Some(first) = self.members.first() else { return Ok(()) };
        let Some(own) = first.panels.get(panel) else { return Ok(()) };
        let c = self.rows_of_c(own);
        let is_f32 = c.dtype() == Dtype::F32;
        let mut sides = Vec::new();
        for (rank, member) in self.members.iter().enumerate() {
            for theirs in self.members.iter().filter_map(|m| m.panels.get(panel)) {
                // All kernels of a reduction begin only when there is something to add, since a waiting kernel would occupy SMs.
                member.communicating.wait(&theirs.computed)?;
            }
            let bytes = if rank == 0 { own.result.bytes().bytes() } else { 0 };
            sides.push((rank, member, bytes));
        }
        around_all(&sides, panel, trace, || {
            all[0].group(|| {
                for (communicator, member) in all.iter().zip(&self.members) {
                    let Some(theirs) = member.panels.get(panel) else { continue };
                    let is_root = communicator.rank() == 0;
                    let from = theirs.result.bytes();
                    let to = if is_root && is_f32 { c.bytes() } else { from };
                    communicator.reduce(&member.communicating, (from, to), Dtype::F32, NcclReduce::Sum, 0)?;
                }
                Ok(())
            })
        })?;
        if is_f32 {
            return Ok(());
        }
        self.add(sum, (own, &f32s(&own.result)), (&sum.received.range(..), 0, 0), trace, panel)
    }

    /// Queues a panel of C from partial products that are on the first GPU.
    fn add(
        &self,
        sum: &Sum,
        (own, partial): (&Panel, &Slice<f32>),
        others: (&Slice<f32>, usize, usize),
        trace: &mut Option<Trace>,
        panel: usize,
    ) -> Result<()> {
        let first = &self.members[0];
        let side = (&first.device, &first.communicating);
        let c = self.rows_of_c(own);
        Trace::around(trace.as_mut(), side, (0, Doing::Adding, panel), None, || {
            sum.add.queue(&first.communicating, partial, others, &c)
        })
    }

    /// Returns the offset of a panel's first element in C.
    fn first_element(&self, panel: &Panel) -> usize {
        panel.rows.start as usize * self.product.n as usize
    }

    /// Returns a panel's part of C on the first GPU.
    fn rows_of_c(&self, panel: &Panel) -> DeviceArray {
        let at = self.first_element(panel);
        self.arrays.c.range(at..at + panel.result.len())
    }

    /// Returns how the product is split.
    #[must_use]
    pub fn split(&self) -> Split {
        self.split
    }
}

impl Member {
    /// Returns the stream on which the member multiplies. For the first GPU, this is the caller's stream.
    fn multiplying<'s>(&'s self, stream: &'s Stream) -> &'s Stream {
        self.multiplying.as_ref().unwrap_or(stream)
    }

    /// Queues a panel's product.
    fn multiply(&self, rank: usize, panel: usize, stream: &Stream, trace: &mut Option<Trace>) -> Result<()> {
        let Some(own) = self.panels.get(panel) else { return Ok(()) };
        let on = self.multiplying(stream);
        let what = (rank, Doing::Multiplying, panel);
        Trace::around(trace.as_mut(), (&self.device, on), what, None, || own.multiply.launch(on))?;
        own.computed.record(on)
    }

    fn communicate(
        &self,
        rank: usize,
        panel: usize,
        bytes: usize,
        trace: &mut Option<Trace>,
        work: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let what = (rank, Doing::Communicating, panel);
        Trace::around(trace.as_mut(), (&self.device, &self.communicating), what, Some(bytes as u64), work)
    }
}

/// Queues work that several GPUs do together, between two events on each GPU's stream.
fn around_all(
    sides: &[(usize, &Member, usize)],
    panel: usize,
    trace: &mut Option<Trace>,
    work: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let Some(open) = trace else { return work() };
    let mut begun = Vec::new();
    for (_, member, _) in sides {
        begun.push(open.begin(&member.device, &member.communicating)?);
    }
    work()?;
    for ((rank, member, bytes), begin) in sides.iter().zip(begun) {
        let bytes = (*bytes > 0).then_some(*bytes as u64);
        open.end(begin, (&member.device, &member.communicating), (*rank, Doing::Communicating, panel), bytes)?;
    }
    Ok(())
}

fn f32s(array: &DeviceArray) -> Slice<f32> {
    array.bytes().cast()
}
