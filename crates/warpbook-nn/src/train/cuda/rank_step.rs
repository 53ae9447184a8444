//! A rank on a GPU. Its gradients are reduced on a separate stream, so that the reductions are captured with the step and run during the
//! backward pass.

use super::params::{ALIGNMENT, Params};
use super::passes::{OfRanks, Reduction};
use super::program::Link;
use crate::network::Network;
use crate::train::{Bucket, Ranks, TrainError, plan_buckets};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use warpbook_device::{Communicator, CudaDevice, Error, NcclId, NcclReduce, Slice, Stream};
use warpbook_gemm::DeviceArray;
use warpbook_ranks::Shard;

/// Longest wait for the other ranks' GPUs.
pub(super) const JOIN: Duration = Duration::from_secs(180);

/// A rank's communicator, its stream, and the arrays to reduce.
#[derive(Debug)]
pub(super) struct RankStep {
    pub ranks: Ranks,
    communicator: Arc<Communicator>,
    pub link: Arc<Link>,
    /// For each bucket, the network's last operation with gradients in it, true if that operation's bias is among them, and the arrays.
    buckets: Vec<(usize, bool, Vec<DeviceArray>)>,
    /// The parameters of [`Reduction::ready`], for all buckets but the last.
    ready: Vec<Range<usize>>,
    /// Memory for the weights and the optimiser's state of all early parameters, if their updates may have to be reverted: `[1 + state
    /// arrays][n]`.
    kept: Option<Slice<f32>>,
}

/// Connects this GPU with the GPUs of the other ranks.
pub(super) fn join(device: &CudaDevice, ranks: &Ranks) -> Result<Communicator, TrainError> {
    ensure_own_gpus(device, ranks)?;
    let id = if ranks.rank() == 0 { NcclId::new(device)?.bytes().to_vec() } else { Vec::new() };
    let all = ranks.all_gather(&id)?;
    let id: [u8; 128] = all[0].as_slice().try_into().map_err(|_| {
        TrainError::Setting("Rank 0 sent no NCCL identifier: start the same version of Warpbook on every rank.".into())
    })?;
    Ok(Communicator::new(device, NcclId::from_bytes(id), (ranks.rank(), ranks.world()), JOIN)?)
}

impl RankStep {
    /// Reduces every bucket once, so that all connections exist before a step is captured. `keeps` is the result of
    /// [`CudaOptions::updates_provisionally`](super::CudaOptions).
    ///
    /// # Errors
    /// If memory runs out, a rank is lost, or NCCL or the driver reports an error.
    pub fn new(
        device: &CudaDevice,
        ranks: &Ranks,
        communicator: Communicator,
        network: &Network,
        params: &Params,
        keeps: bool,
    ) -> Result<Self, TrainError> {
        let communicator = Arc::new(communicator);
        let planned = plan_buckets(network, &params.gradient_bytes(), ranks.options().bucket_bytes);
        let reduced_arrays = |bucket: &Bucket| {
            let node = first_node(network, bucket);
            let bias = network.nodes()[node].params.get(1);
            (node, bias.is_none_or(|id| bucket.params.contains(id)), arrays(params, bucket))
        };
        let buckets = planned.iter().map(reduced_arrays).collect();
        // The running statistics are reduced after the buckets.
        let link = Link::new(device, planned.len() + 1)?;
        let ready = ready(params, &planned);
        // Below this size the additional launches cost more than an early update gains.
        let bytes: usize = planned.iter().rev().skip(1).map(|bucket| bucket.bytes).sum();
        let keeps = keeps && bytes >= ranks.options().bucket_bytes;
        let early = params.weights.len() - ready.last().map_or(params.weights.len(), |range| range.start);
        let arrays = 1 + params.slots.len();
        let kept = (keeps && early > 0).then(|| device.zeros(arrays * early)).transpose()?.map(|all| all.range(..));
        let rank_step = Self { ranks: ranks.clone(), communicator, link: Arc::new(link), buckets, ready, kept };
        let stream = device.stream()?;
        for (.., arrays) in &rank_step.buckets {
            reduce(&rank_step.communicator, &stream, arrays, NcclReduce::Sum)?;
        }
        if let Some(statistics) = params.statistics() {
            // The running statistics are not zero; their mean over the ranks leaves them unchanged.
            let own: DeviceArray = (&statistics.running).into();
            reduce(&rank_step.communicator, &stream, &[own], NcclReduce::Mean)?;
        }
        rank_step.wait(&stream)?;
        Ok(rank_step)
    }

    /// Returns the reductions of a step: each bucket with the operation after whose backward pass it is ready. Each rank's gradients are already
    /// weighted by its share of the global batch, since NCCL reduces windows only by sums.
    pub fn reductions(&self) -> Vec<Reduction> {
        let reduction = |(i, (node, with_bias, arrays)): (usize, &(usize, bool, Vec<DeviceArray>))| {
            let (communicator, arrays) = (self.communicator.clone(), arrays.clone());
            Reduction {
                node: *node,
                with_bias: *with_bias,
                name: format!("bucket {} all-reduce", i + 1),
                ready: self.ready.get(i).cloned(),
                launch: Box::new(move |s| reduce(&communicator, s, &arrays, NcclReduce::Sum)),
            }
        };
        self.buckets.iter().enumerate().map(reduction).collect()
    }

    /// Describes the ranks for the passes of a step with this part of a global batch.
    pub fn for_step(&self, shard: Shard) -> OfRanks {
        let norm = self.ranks.options().synchronised_norm.then(|| self.communicator.clone());
        OfRanks { shard, norm, kept: self.kept.clone() }
    }

    /// Returns the reduction of the running statistics; `None` if the network has none, or all ranks have the same statistics.
    pub fn statistics(&self, params: &Params, shard: Shard) -> Option<Reduction> {
        if self.ranks.options().synchronised_norm {
            return None;
        }
        let running: DeviceArray = (&params.statistics()?.running).into();
        let communicator = self.communicator.clone();
        let weight = NcclReduce::Weighted(shard.weight() as f32);
        let launch = move |s: &Stream| reduce(&communicator, s, std::slice::from_ref(&running), weight);
        Some(Reduction {
            node: 0,
            with_bias: true,
            name: "running statistics all-reduce".into(),
            ready: None,
            launch: Box::new(launch),
        })
    }

    /// Waits for a stream as long as all ranks are alive.
    ///
    /// # Errors
    /// If a rank is lost, or NCCL or the driver reports an error.
    pub fn wait(&self, stream: &Stream) -> Result<(), TrainError> {
        let mut why = None;
        let mut gives_up = || {
            why = self.ranks.why_over(Duration::ZERO).or_else(|| {
                let error = self.communicator.async_error()?;
                self.ranks.aborter().abort(&format!("NCCL says: {error}."));
                self.ranks.why_over(Duration::ZERO)
            });
            why.is_some()
        };
        let ended = self.ranks.aborter().watched(|| stream.synchronize_unless(&mut gives_up));
        if ended? {
            return Ok(());
        }
        // NCCL returns only once every graph that captured its operations is gone, so this thread has to drop the training in the meantime.
        let communicator = self.communicator.clone();
        std::thread::spawn(move || communicator.abort());
        let why = why.unwrap_or_else(|| "The work of the ranks is over.".into());
        Err(warpbook_ranks::Error::Lost(why).into())
    }
}

fn reduce(ranks: &Communicator, stream: &Stream, arrays: &[DeviceArray], how: NcclReduce) -> Result<(), Error> {
    ranks.group(|| arrays.iter().try_for_each(|a| ranks.all_reduce(stream, a.bytes(), a.dtype(), how)))
}

/// Returns the network's first operation with a parameter of the bucket, which the backward pass reaches last.
fn first_node(network: &Network, bucket: &Bucket) -> usize {
    let is_in = |node: &crate::network::Node| node.params.iter().any(|id| bucket.params.contains(id));
    network.nodes().iter().position(is_in).unwrap_or(0)
}

/// Returns, for each bucket except the last, the parameters whose gradients are complete after its reduction: from the bucket's first parameter to the
/// first parameter of the previous bucket. Empty if all gradients of the bucket have another type than the gradients at the end of the array.
fn ready(params: &Params, buckets: &[Bucket]) -> Vec<Range<usize>> {
    let tail = if params.gradients().1.is_some() { params.gradients().0.len() } else { 0 };
    let mut end = params.weights.len();
    let begin_of =
        |bucket: &Bucket| bucket.params.iter().map(|id| params.range(*id).start).filter(|at| *at >= tail).min();
    let [but_the_last @ .., _] = buckets else { return Vec::new() };
    let ready_range = |bucket| {
        let begin = begin_of(bucket).unwrap_or(end).min(end);
        begin..std::mem::replace(&mut end, begin)
    };
    but_the_last.iter().map(ready_range).collect()
}

/// Returns a bucket's gradients as few arrays: neighbours in memory are merged, padding between them included.
fn arrays(params: &Params, bucket: &Bucket) -> Vec<DeviceArray> {
    let (exact, rounded) = params.gradients();
    let split = exact.len();
    let mut ranges: Vec<Range<usize>> = bucket.params.iter().map(|id| params.range(*id)).collect();
    ranges.sort_unstable_by_key(|range| range.start);
    let mut runs: Vec<Range<usize>> = Vec::new();
    for range in ranges {
        match runs.last_mut() {
            Some(run) if range.start == run.end.next_multiple_of(ALIGNMENT) && range.start != split => {
                run.end = range.end
            }
            _ => runs.push(range),
        }
    }
    let exact: DeviceArray = (&exact).into();
    let array_of = |run: Range<usize>| match &rounded {
        Some(rounded) if run.start >= split => rounded.range(run.start - split..run.end - split),
        _ => exact.range(run),
    };
    runs.into_iter().map(array_of).collect()
}

/// Refuses two ranks on one GPU, which NCCL would refuse with an unclear message.
fn ensure_own_gpus(device: &CudaDevice, ranks: &Ranks) -> Result<(), TrainError> {
    let own = device.uuid().unwrap_or_default().as_bytes().to_vec();
    let all = ranks.all_gather(&own)?;
    for (rank, uuid) in all.iter().enumerate().filter(|(_, uuid)| !uuid.is_empty()) {
        if let Some(other) = all[..rank].iter().position(|o| o == uuid) {
            return Err(TrainError::Setting(format!(
                "Ranks {other} and {rank} have the same GPU, {}: give every rank its own (--gpus N takes the first N; srun has --gpus-per-task=1).",
                String::from_utf8_lossy(uuid)
            )));
        }
    }
    Ok(())
}
