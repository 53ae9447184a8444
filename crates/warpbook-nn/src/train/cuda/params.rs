//! A network's parameters on a GPU: all trained parameters are in one array, so that one launch updates them.

use super::rank_step::JOIN;
use crate::network::{Arrangement, Network, Op, ParamId, ParamSpec};
use crate::ops::muon::cuda::FilterPlace;
use crate::ops::optimizer::grouped::CELL;
use crate::train::TrainError;
use crate::weights::Weights;
use std::ops::Range;
use warpbook_device::{Communicator, CudaDevice, Slice, Stream};
use warpbook_gemm::DeviceArray;
use warpbook_gemm::storage::Storage;
use warpbook_record::Dtype;

/// Parameters begin at multiples of this number of elements, so that parameters in half precision also begin at multiples of 128 bytes.
pub(super) const ALIGNMENT: usize = CELL;

/// Weights, their gradients and the optimiser's state; the running statistics, which are not trained, are separate.
#[derive(Debug)]
pub(super) struct Params {
    network: Network,
    arrangement: Arrangement,
    /// Range of each parameter: in the arrays of trained parameters, or in `running`.
    ranges: Vec<Range<usize>>,
    pub weights: Slice<f32>,
    /// Gradients of the parameters before `rounded`.
    gradients: Slice<f32>,
    /// Gradients of linear layers' weights if products are in half precision; the parameters with such gradients come last.
    rounded: Option<Storage>,
    pub slots: Vec<Slice<f32>>,
    /// Weights in half precision.
    copy: Option<Storage>,
    statistics: Statistics,
}

/// Running statistics of batch normalisations.
#[derive(Debug, Clone)]
pub(super) struct Statistics {
    pub running: Slice<f32>,
    /// Statistics before the last step with a finite loss; empty if the network is not trained.
    pub before: Slice<f32>,
}

/// Bytes of a network's parameters on a GPU, and of the arrays for their training.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::train) struct ParamBytes {
    pub weights: u64,
    pub gradients: u64,
    /// Bytes of the optimiser's state.
    pub state: u64,
    /// Bytes of the weights' copy in half precision.
    pub copy: u64,
    /// Bytes of the running statistics, which training keeps twice.
    pub running: u64,
}

impl ParamBytes {
    /// Computes the bytes that [`Params::new`] allocates. `slots`: arrays of the optimiser's state; `None` without training.
    pub fn new(network: &Network, slots: Option<usize>, dtype: Dtype) -> Self {
        let padded = |s: &ParamSpec| s.len().next_multiple_of(ALIGNMENT) as u64;
        let halves = is_half(dtype);
        let mut bytes = Self::default();
        for (spec, rounded) in network.params().iter().zip(rounded_params(network, halves)) {
            let n = padded(spec);
            if !spec.role.is_trained() {
                bytes.running += 4 * n * if slots.is_some() { 2 } else { 1 };
                continue;
            }
            bytes.weights += 4 * n;
            bytes.copy += if halves { dtype.bytes() * n } else { 0 };
            if let Some(slots) = slots {
                bytes.gradients += n * if rounded { dtype.bytes() } else { 4 };
                bytes.state += 4 * n * slots as u64;
            }
        }
        bytes
    }

    pub fn total(&self) -> u64 {
        self.weights + self.gradients + self.state + self.copy + self.running
    }
}

/// Returns true if products of this type are in half precision.
pub(in crate::train) fn is_half(dtype: Dtype) -> bool {
    matches!(dtype, Dtype::F16 | Dtype::Bf16)
}

impl Params {
    /// Allocates zeros. `dtype` is the type of the products' operands. `slots` is the number of arrays of the optimiser's state, or
    /// `None` without training, which also needs no gradients. Gradients that are summed over `ranks` are allocated where the other ranks' GPUs can
    /// read them.
    ///
    /// # Errors
    /// If memory runs out, the other ranks do not allocate in time, or NCCL or the driver reports an error.
    pub fn new(
        device: &CudaDevice,
        network: &Network,
        arrangement: Arrangement,
        slots: Option<usize>,
        dtype: Dtype,
        ranks: Option<&Communicator>,
    ) -> Result<Self, TrainError> {
        let halves = is_half(dtype);
        let is_rounded = rounded_params(network, halves);
        let (mut exact, mut last, mut others) = (0, 0, 0);
        let range = |(spec, rounded): (&ParamSpec, &bool)| {
            let end = match (spec.role.is_trained(), *rounded) {
                (true, false) => &mut exact,
                (true, true) => &mut last,
                (false, _) => &mut others,
            };
            let first = *end;
            *end = (first + spec.len()).next_multiple_of(ALIGNMENT);
            first..first + spec.len()
        };
        let mut ranges: Vec<Range<usize>> = network.params().iter().zip(&is_rounded).map(range).collect();
        for (range, _) in ranges.iter_mut().zip(&is_rounded).filter(|(_, rounded)| **rounded) {
            *range = range.start + exact..range.end + exact;
        }
        let trained = exact + last;
        let zeros = |len: usize| Ok::<_, TrainError>(device.zeros::<f32>(len)?.range(..));
        let (exact_gradients, rounded_gradients) = if slots.is_some() { (exact, last) } else { (0, 0) };
        let halves_of = |len: usize| match ranks {
            Some(ranks) => Storage::zeros_of_ranks(ranks, len, dtype, JOIN),
            None => Storage::zeros(device, len, dtype),
        };
        Ok(Self {
            network: network.clone(),
            arrangement,
            ranges,
            weights: zeros(trained)?,
            gradients: match ranks {
                Some(ranks) => ranks.zeros(exact_gradients, JOIN)?.range(..),
                None => zeros(exact_gradients)?,
            },
            rounded: (rounded_gradients > 0).then(|| halves_of(rounded_gradients)).transpose()?,
            slots: (0..slots.unwrap_or(0)).map(|_| zeros(trained)).collect::<Result<_, _>>()?,
            copy: halves.then(|| Storage::zeros(device, trained, dtype)).transpose()?,
            statistics: Statistics {
                running: zeros(others)?,
                before: zeros(if slots.is_some() { others } else { 0 })?,
            },
        })
    }

    /// Returns the range of each parameter in the array of its kind, and its number of rows.
    pub fn filter_places(&self) -> Vec<FilterPlace> {
        let filter_place = |(at, spec): (&Range<usize>, &ParamSpec)| FilterPlace { at: at.clone(), out: spec.shape[0] };
        self.ranges.iter().zip(self.network.params()).map(filter_place).collect()
    }

    /// Returns a weight in the type that products read.
    pub fn operand(&self, id: ParamId) -> DeviceArray {
        let range = self.ranges[id].clone();
        match &self.copy {
            Some(copy) => DeviceArray::from(copy).range(range),
            None => (&self.weights.range(range)).into(),
        }
    }

    /// Returns all weights in half precision.
    pub fn copy(&self) -> Option<DeviceArray> {
        self.copy.as_ref().map(DeviceArray::from)
    }

    /// Returns the values of a parameter in f32.
    pub fn master(&self, id: ParamId) -> Slice<f32> {
        let array = if self.network.params()[id].role.is_trained() { &self.weights } else { &self.statistics.running };
        array.range(self.ranges[id].clone())
    }

    /// Returns the gradient of a trained parameter, except for a linear layer's weight.
    pub fn gradient(&self, id: ParamId) -> Slice<f32> {
        self.gradients.range(self.ranges[id].clone())
    }

    /// Returns the number of bytes per value of each parameter's gradient.
    pub fn gradient_bytes(&self) -> Vec<usize> {
        let half = self.rounded.as_ref().map_or(4, |_| 2);
        let is_half = |range: &Range<usize>| self.rounded.is_some() && range.start >= self.gradients.len();
        let bytes_of = |(range, spec): (&Range<usize>, &ParamSpec)| {
            if spec.role.is_trained() && is_half(range) { half } else { 4 }
        };
        self.ranges.iter().zip(self.network.params()).map(bytes_of).collect()
    }

    /// Returns the range of a parameter in the array of its kind; trained parameters with half-precision gradients follow the others.
    pub fn range(&self, id: ParamId) -> Range<usize> {
        self.ranges[id].clone()
    }

    /// Returns the gradient of any trained parameter.
    pub fn gradient_array(&self, id: ParamId) -> DeviceArray {
        let (range, split) = (self.ranges[id].clone(), self.gradients.len());
        match &self.rounded {
            Some(rounded) if range.start >= split => {
                DeviceArray::from(rounded).range(range.start - split..range.end - split)
            }
            _ => (&self.gradient(id)).into(),
        }
    }

    /// Returns all gradients, as the optimiser reads them: in f32, and in half precision.
    pub fn gradients(&self) -> (Slice<f32>, Option<DeviceArray>) {
        (self.gradients.clone(), self.rounded.as_ref().map(DeviceArray::from))
    }

    /// Reads the gradients in PyTorch's layout.
    ///
    /// # Errors
    /// If the driver reports an error.
    pub fn read_gradients(&self) -> Result<Weights, TrainError> {
        let mut all = self.gradients.to_vec()?;
        if let Some(rounded) = &self.rounded {
            all.extend(rounded.to_f32()?);
        }
        self.unpacked(&all, &vec![0.0; self.statistics.running.len()])
    }

    /// Writes values given in PyTorch's layout.
    ///
    /// # Errors
    /// If the weights do not match the network, or the driver reports an error.
    pub fn write(&self, weights: &Weights) -> Result<(), TrainError> {
        let checked = Weights::new(&self.network, weights.values().to_vec())?;
        let trained = self.packed(&checked, true);
        self.weights.write(&trained)?;
        if let Some(copy) = &self.copy {
            copy.write_f32(&trained)?;
        }
        let running = self.packed(&checked, false);
        Ok(if running.is_empty() { Ok(()) } else { self.statistics.running.write(&running) }?)
    }

    /// Writes a set of the optimiser's state.
    ///
    /// # Errors
    /// If the values do not match the network, or the driver reports an error.
    pub fn write_slot(&self, slot: usize, values: &Weights) -> Result<(), TrainError> {
        let checked = Weights::new(&self.network, values.values().to_vec())?;
        Ok(self.slots[slot].write(&self.packed(&checked, true))?)
    }

    /// Returns the running statistics, if there are any.
    pub fn statistics(&self) -> Option<&Statistics> {
        Some(&self.statistics).filter(|s| !s.running.is_empty())
    }

    /// Queues restoring the statistics from before the step that broke.
    ///
    /// # Errors
    /// If the driver reports an error.
    pub fn restore_statistics(&self, stream: &Stream) -> warpbook_device::Result<()> {
        self.statistics().map_or(Ok(()), |s| stream.copy(&s.before, &s.running))
    }

    /// Returns the values of the trained parameters, or of the untrained parameters, in the order of their array.
    fn packed(&self, weights: &Weights, trained: bool) -> Vec<f32> {
        let mut packed = vec![0.0; if trained { self.weights.len() } else { self.statistics.running.len() }];
        for (id, spec) in self.network.params().iter().enumerate().filter(|(_, s)| s.role.is_trained() == trained) {
            debug_assert_eq!(spec.len(), self.ranges[id].len());
            packed[self.ranges[id].clone()].copy_from_slice(&self.arrangement.store(id, &weights.values()[id]));
        }
        packed
    }

    /// Reads the weights in PyTorch's layout.
    ///
    /// # Errors
    /// If the driver reports an error.
    pub fn read(&self) -> Result<Weights, TrainError> {
        let running = &self.statistics.running;
        let running = if running.is_empty() { Vec::new() } else { running.to_vec()? };
        self.unpacked(&self.weights.to_vec()?, &running)
    }

    /// Reads an array of trained parameters in PyTorch's layout; untrained parameters are zero.
    ///
    /// # Errors
    /// If the driver reports an error.
    pub fn read_trained(&self, array: &Slice<f32>) -> Result<Weights, TrainError> {
        self.unpacked(&array.to_vec()?, &vec![0.0; self.statistics.running.len()])
    }

    fn unpacked(&self, trained: &[f32], running: &[f32]) -> Result<Weights, TrainError> {
        let loaded = |(id, spec): (usize, &ParamSpec)| {
            let from = if spec.role.is_trained() { trained } else { running };
            self.arrangement.load(id, &from[self.ranges[id].clone()])
        };
        Ok(Weights::new(&self.network, self.network.params().iter().enumerate().map(loaded).collect())?)
    }
}

/// Returns, for each parameter, true if its gradient is kept in half precision when products are: the weights of linear layers. A product rounds
/// these gradients to the type of its operands, as autocast's products do; gradients of convolutions are sums of many parts, added up in
/// f32.
pub(in crate::train) fn rounded_params(network: &Network, halves: bool) -> Vec<bool> {
    let mut rounded = vec![false; network.params().len()];
    for node in network.nodes().iter().filter(|n| halves && matches!(n.op, Op::Linear { .. })) {
        rounded[node.params[0]] = true;
    }
    rounded
}
