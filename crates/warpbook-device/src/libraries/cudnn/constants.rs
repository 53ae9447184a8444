//! Constants of cudnn_graph.h.

use super::descriptor::{DataType, Note};

/// The values `CUDNN_DATA_FLOAT`, `_HALF` and `_BFLOAT16`.
pub(super) const FLOAT: DataType = DataType(0);
pub(super) const HALF: DataType = DataType(2);
pub(super) const BFLOAT16: DataType = DataType(9);
/// Minimum alignment of arrays in bytes.
pub(super) const ALIGNMENT: u64 = 16;

/// Kinds of descriptors: values of `cudnnBackendDescriptorType_t`.
pub(super) mod kind {
    use std::ffi::c_int;

    pub const CONVOLUTION: c_int = 1;
    pub const ENGINE: c_int = 2;
    pub const CONFIGURATION: c_int = 3;
    pub const HEURISTICS: c_int = 4;
    pub const PLAN: c_int = 5;
    pub const FORWARD: c_int = 10;
    pub const WEIGHT_GRADIENT: c_int = 11;
    pub const INPUT_GRADIENT: c_int = 12;
    pub const GRAPH: c_int = 15;
    pub const VARIANT_PACK: c_int = 16;
    pub const TENSOR: c_int = 17;
}

pub(super) mod attribute {
    use std::ffi::c_int;

    pub const COMPUTE_TYPE: c_int = 100;
    pub const MODE: c_int = 101;
    pub const DILATIONS: c_int = 102;
    pub const STRIDES: c_int = 103;
    pub const POST_PADDINGS: c_int = 104;
    pub const PRE_PADDINGS: c_int = 105;
    pub const DIMENSIONS: c_int = 106;
    pub const HEURISTICS_MODE: c_int = 200;
    pub const HEURISTICS_GRAPH: c_int = 201;
    pub const HEURISTICS_RESULTS: c_int = 202;
    pub const CONFIGURATION_ENGINE: c_int = 300;
    pub const PLAN_HANDLE: c_int = 400;
    pub const PLAN_CONFIGURATION: c_int = 401;
    pub const PLAN_WORKSPACE: c_int = 402;
    pub const GRAPH_HANDLE: c_int = 800;
    pub const GRAPH_OPERATIONS: c_int = 801;
    pub const TENSOR_ALIGNMENT: c_int = 900;
    pub const TENSOR_TYPE: c_int = 901;
    pub const TENSOR_SIDES: c_int = 902;
    pub const TENSOR_STRIDES: c_int = 903;
    pub const TENSOR_ID: c_int = 906;
    pub const PACK_IDS: c_int = 1000;
    pub const PACK_ADDRESSES: c_int = 1001;
    pub const PACK_WORKSPACE: c_int = 1003;
    pub const ENGINE_INDEX: c_int = 1301;
    pub const ENGINE_NOTES: c_int = 1303;
}

/// Properties of an engine's arithmetic, `CUDNN_NUMERICAL_NOTE_*`.
pub(super) mod note {
    use super::Note;

    pub const TENSOR_CORES: Note = Note(0);
    pub const ROUNDS_INPUTS: Note = Note(1);
    pub const SHORT_SUMS: Note = Note(2);
    pub const FFT: Note = Note(3);
    pub const NOT_DETERMINISTIC: Note = Note(4);
    pub const WINOGRAD: [Note; 4] = [Note(5), Note(6), Note(7), Note(8)];
    /// Number of possible numerical notes.
    pub const COUNT: usize = 10;
}
