//! Builds the graph of a convolution, and asks cuDNN's heuristics for engines that can run it.

use super::constants::{ALIGNMENT, FLOAT, attribute, kind, note};
use super::convolution::{ConvolutionPass, LibraryConvolution, Operand};
use super::descriptor::{ConvolutionMode, DataType, Descriptor, Heuristics, Note, OfHandle};
use super::library::Cudnn9;
use crate::Result;
use crate::libraries::loader::{Handle, Status};
use std::sync::Arc;

/// The value `CUDNN_CROSS_CORRELATION`.
const CROSS_CORRELATION: ConvolutionMode = ConvolutionMode(1);
/// cuDNN's heuristics, in the order in which they are asked: `CUDNN_HEUR_MODE_A`, then `CUDNN_HEUR_MODE_FALLBACK`, which
/// suggests engines that support most shapes.
pub(super) const HEURISTICS: [Heuristics; 2] = [Heuristics(3), Heuristics(2)];
/// Largest number of suggestions read from each heuristic.
const SUGGESTIONS: usize = 32;

/// Builds the graph of one pass. It has a single operation, whose arrays have the ids of [`Operand::id_offset`].
pub(super) fn graph(
    library: &Arc<Cudnn9>,
    handle: Handle,
    shape: &LibraryConvolution,
    pass: ConvolutionPass,
) -> Result<Result<Arc<Descriptor>, Status>> {
    let dtype = shape.data_type()?;
    let sides =
        [Operand::Weight, Operand::X, Operand::Y].map(|operand| shape.sides(operand).map(|sides| (operand, sides)));
    let sides = sides.into_iter().collect::<Result<Vec<_>>>()?;
    Ok(described(library, handle, shape, pass, dtype, &sides))
}

fn described(
    library: &Arc<Cudnn9>,
    handle: Handle,
    shape: &LibraryConvolution,
    pass: ConvolutionPass,
    dtype: DataType,
    sides: &[(Operand, [i64; 4])],
) -> Result<Arc<Descriptor>, Status> {
    let pair = |[rows, columns]: [u32; 2]| [i64::from(rows), i64::from(columns)];
    let convolution = Descriptor::new(library, kind::CONVOLUTION)?
        .with(attribute::COMPUTE_TYPE, &[FLOAT])?
        .with(attribute::MODE, &[CROSS_CORRELATION])?
        .with(attribute::DIMENSIONS, &[2i64])?
        .with(attribute::DILATIONS, &[1i64, 1])?
        .with(attribute::STRIDES, &pair(shape.stride))?
        .with(attribute::PRE_PADDINGS, &pair(shape.padding))?
        .with(attribute::POST_PADDINGS, &pair(shape.padding))?
        .finalized()?;
    let (kind, first) = pass.operation();
    // The attributes of alpha, beta and the convolution come first. Beta is 0, so the result overwrites the output.
    let mut operation = Descriptor::new(library, kind)?
        .with(first, &[1f32])?
        .with(first + 1, &[0f32])?
        .with_part(first + 2, &convolution)?;
    for (operand, sides) in sides {
        let array = Descriptor::new(library, kind::TENSOR)?
            .with(attribute::TENSOR_TYPE, &[dtype])?
            .with(attribute::TENSOR_SIDES, sides)?
            .with(attribute::TENSOR_STRIDES, &shape.strides(*sides))?
            .with(attribute::TENSOR_ALIGNMENT, &[ALIGNMENT as i64])?
            .with(attribute::TENSOR_ID, &[i64::from(operand.id_offset())])?
            .finalized()?;
        operation = operation.with_part(first + operand.id_offset(), &array)?;
    }
    Descriptor::new(library, kind::GRAPH)?
        .with(attribute::GRAPH_HANDLE, &[OfHandle(handle)])?
        .with_part(attribute::GRAPH_OPERATIONS, &operation.finalized()?)?
        .finalized()
}

/// An engine that the heuristics suggest, together with its configuration.
pub(super) struct Suggestion {
    pub configuration: Arc<Descriptor>,
    /// Keeps the heuristics alive, because the configuration depends on them.
    _heuristics: Arc<Descriptor>,
    pub engine: i64,
    pub notes: Vec<Note>,
    /// Position among the suggestions, from 1.
    pub rank: usize,
}

impl Suggestion {
    pub fn is_deterministic(&self) -> bool {
        !self.notes.contains(&note::NOT_DETERMINISTIC)
    }

    /// Describes the engine, for example "engine 46 on tensor cores".
    pub fn words(&self) -> String {
        let has = |note| self.notes.contains(&note);
        let method = match () {
            () if has(note::FFT) => " by FFT",
            () if note::WINOGRAD.iter().any(|n| has(*n)) => " by Winograd",
            () => "",
        };
        let place = if has(note::TENSOR_CORES) { "on tensor cores" } else { "without tensor cores" };
        format!("engine {}{method} {place}", self.engine)
    }
}

/// Returns the engines that one of the heuristics suggests.
pub(super) fn suggested(
    library: &Arc<Cudnn9>,
    graph: &Arc<Descriptor>,
    mode: Heuristics,
) -> Result<Vec<Suggestion>, Status> {
    let heuristics = Descriptor::new(library, kind::HEURISTICS)?
        .with_part(attribute::HEURISTICS_GRAPH, graph)?
        .with(attribute::HEURISTICS_MODE, &[mode])?
        .finalized()?;
    let results = heuristics.descriptors(attribute::HEURISTICS_RESULTS, kind::CONFIGURATION, SUGGESTIONS)?;
    let read = |configuration: Arc<Descriptor>| {
        let engine = configuration.descriptors(attribute::CONFIGURATION_ENGINE, kind::ENGINE, 1)?;
        let engine = engine.first().ok_or(0)?;
        Ok::<_, Status>(Suggestion {
            engine: engine.value(attribute::ENGINE_INDEX, -1i64)?,
            notes: engine.values(attribute::ENGINE_NOTES, [Note::default(); note::COUNT])?,
            configuration,
            _heuristics: heuristics.clone(),
            rank: 0,
        })
    };
    Ok(results.into_iter().filter_map(|configuration| read(configuration).ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::libraries::cudnn::constants::HALF;
    use crate::libraries::cudnn::{convolution, library};
    use crate::libraries::loader::tests::installed;

    /// Checks that the library accepts our constants. The library loads its engines for this check, so it needs a
    /// driver.
    #[test]
    fn descriptors_are_taken() {
        let Some(_device) = crate::testing::gpu("descriptors_are_taken by cuDNN") else { return };
        let Some(library) = installed(&library::LOADED, "descriptors_are_taken") else { return };
        let sides = [2i64, 3, 7, 5];
        let array = |alignment: i64| {
            Descriptor::new(&library, kind::TENSOR)?
                .with(attribute::TENSOR_TYPE, &[HALF])?
                .with(attribute::TENSOR_SIDES, &sides)?
                .with(attribute::TENSOR_STRIDES, &convolution::tests::shape().strides(sides))?
                .with(attribute::TENSOR_ALIGNMENT, &[alignment])?
                .with(attribute::TENSOR_ID, &[7i64])?
                .finalized()
        };
        let made = array(16).unwrap_or_else(|status| panic!("{}", library.describe(status)));
        assert_eq!(made.values(attribute::TENSOR_SIDES, [0i64; 8]).unwrap(), sides);
        assert_eq!(made.value(attribute::TENSOR_ID, 0i64).unwrap(), 7);
        assert!(array(0).is_err());
    }
}
