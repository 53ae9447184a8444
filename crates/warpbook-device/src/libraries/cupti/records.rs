//! The first fields of CUPTI's records, which have been the same since CUDA 12.0; later versions only added fields at the end. The definitions are from
//! cupti_activity.h, whose structs are packed and aligned to 8 bytes. The offsets of these fields are multiples of their sizes, so C's layout is the same.

use super::activity::{Activity, ActivityKind, Call};
use super::name::readable;

/// Values of `CUpti_ActivityKind`.
pub(super) const MEMCPY: u32 = 1;
pub(super) const MEMSET: u32 = 2;
pub(super) const DRIVER: u32 = 4;
pub(super) const CONCURRENT_KERNEL: u32 = 10;
pub(super) const EXTERNAL_CORRELATION: u32 = 39;

/// The fields of `CUpti_ActivityKernel9` and later, up to `graphId`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct KernelRecord {
    pub kind: u32,
    pub cache_config: [u8; 2],
    pub registers: u16,
    pub partitioned_cache: [u32; 2],
    pub start: u64,
    pub end: u64,
    pub completed: u64,
    pub device: u32,
    pub context: u32,
    pub stream: u32,
    pub grid: [i32; 3],
    pub block: [i32; 3],
    pub static_shared: i32,
    pub dynamic_shared: i32,
    pub local_per_thread: u32,
    pub local_total: u32,
    pub correlation: u32,
    pub grid_id: i64,
    /// The address of a zero-terminated string owned by the library; it is stored as a number, so that it cannot be dereferenced by accident.
    pub name: usize,
    pub reserved: usize,
    pub queued: u64,
    pub submitted: u64,
    pub launch: [u8; 4],
    pub shared_executed: u32,
    pub graph_node: u64,
    pub shared_limit: u32,
    pub graph: u32,
}

/// The fields of `CUpti_ActivityMemcpy5` and later, up to `graphId`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct CopyRecord {
    pub kind: u32,
    pub copy_kind: u8,
    pub memory_kinds: [u8; 2],
    pub flags: u8,
    pub bytes: u64,
    pub start: u64,
    pub end: u64,
    pub device: u32,
    pub context: u32,
    pub stream: u32,
    pub correlation: u32,
    pub runtime_correlation: u32,
    pub pad: u32,
    pub reserved: usize,
    pub graph_node: u64,
    pub graph: u32,
    pub channel: u32,
}

/// The fields of `CUpti_ActivityMemset4` and later, up to `graphId`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct FillRecord {
    pub kind: u32,
    pub value: u32,
    pub bytes: u64,
    pub start: u64,
    pub end: u64,
    pub device: u32,
    pub context: u32,
    pub stream: u32,
    pub correlation: u32,
    pub flags: u16,
    pub memory_kind: u16,
    pub pad: u32,
    pub reserved: usize,
    pub graph_node: u64,
    pub graph: u32,
    pub channel: u32,
}

/// The struct `CUpti_ActivityAPI`, for calls of the driver.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct CallRecord {
    pub kind: u32,
    pub callback: u32,
    pub start: u64,
    pub end: u64,
    pub process: u32,
    pub thread: u32,
    pub correlation: u32,
    pub returned: u32,
}

/// The struct `CUpti_ActivityExternalCorrelation`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct RangeRecord {
    pub kind: u32,
    pub external_kind: u32,
    pub id: u64,
    pub correlation: u32,
    pub reserved: u32,
}

impl CallRecord {
    pub fn call(&self, name: String, zero: u64) -> Option<Call> {
        let (start_ns, duration_ns) = times(self.start, self.end, zero)?;
        Some(Call { name, start_ns, duration_ns, thread: self.thread, correlation: self.correlation })
    }
}

impl KernelRecord {
    pub fn activity(&self, name: &str, zero: u64) -> Option<Activity> {
        let positive = |n: [i32; 3]| n.map(i32::unsigned_abs);
        let shared = [self.static_shared, self.dynamic_shared].map(|n| u64::from(n.unsigned_abs()));
        let kind = ActivityKind::Kernel {
            grid: positive(self.grid),
            block: positive(self.block),
            registers: self.registers.into(),
            shared_bytes: shared[0] + shared[1],
        };
        let (start_ns, duration_ns) = times(self.start, self.end, zero)?;
        let graph = node(self.graph, self.graph_node);
        let (stream, correlation) = (self.stream, self.correlation);
        Some(Activity { kind, name: readable(name), start_ns, duration_ns, stream, correlation, graph })
    }
}

impl CopyRecord {
    pub fn activity(&self, zero: u64) -> Option<Activity> {
        // The numbers are values of `CUpti_ActivityMemcpyKind`.
        let name = match self.copy_kind {
            1 => "copy to the device",
            2 => "copy to the host",
            8 => "copy on the device",
            10 => "copy between devices",
            _ => "copy",
        };
        let (start_ns, duration_ns) = times(self.start, self.end, zero)?;
        let (kind, graph) = (ActivityKind::Copy { bytes: self.bytes }, node(self.graph, self.graph_node));
        let (stream, correlation) = (self.stream, self.correlation);
        Some(Activity { kind, name: name.into(), start_ns, duration_ns, stream, correlation, graph })
    }
}

impl FillRecord {
    pub fn activity(&self, zero: u64) -> Option<Activity> {
        let (start_ns, duration_ns) = times(self.start, self.end, zero)?;
        let (kind, graph) = (ActivityKind::Fill { bytes: self.bytes }, node(self.graph, self.graph_node));
        let (stream, correlation) = (self.stream, self.correlation);
        Some(Activity { kind, name: "fill".into(), start_ns, duration_ns, stream, correlation, graph })
    }
}

/// Returns start and duration; `None` if CUPTI has no times, or they are contradictory.
fn times(start: u64, end: u64, zero: u64) -> Option<(u64, u64)> {
    if start == 0 || end < start {
        return None;
    }
    Some((start.saturating_sub(zero), end - start))
}

/// Returns the ids of the graph and the node; `None` if the node's id is 0, which means that there is no node.
fn node(graph: u32, node: u64) -> Option<(u32, u64)> {
    (node != 0).then_some((graph, node))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers are `offsetof` in the headers of CUDA 12.9 (`CUpti_ActivityKernel9`) and 13.0 (`CUpti_ActivityKernel10`).
    #[test]
    fn fields_lie_where_the_headers_have_them() {
        use std::mem::offset_of;
        macro_rules! offsets {
            ($record:ident, $($field:ident),*) => { [$(offset_of!($record, $field)),*] };
        }
        let kernel = offsets!(KernelRecord, registers, start, end, stream, grid, block, static_shared, dynamic_shared);
        assert_eq!(kernel, [6, 16, 24, 48, 52, 64, 76, 80]);
        assert_eq!(offsets!(KernelRecord, correlation, grid_id, name, graph_node, graph), [92, 96, 104, 144, 156]);
        let copy = offsets!(CopyRecord, copy_kind, bytes, start, stream, correlation, graph_node, graph);
        assert_eq!(copy, [4, 8, 16, 40, 44, 64, 72]);
        assert_eq!(offsets!(FillRecord, bytes, start, stream, correlation, graph_node, graph), [8, 16, 40, 44, 64, 72]);
        assert_eq!(offsets!(CallRecord, callback, start, end, thread, correlation), [4, 8, 16, 28, 32]);
        assert_eq!(offsets!(RangeRecord, external_kind, id, correlation), [4, 8, 16]);
        assert_eq!([size_of::<CallRecord>(), size_of::<RangeRecord>()], [40, 24]);
        // Nothing is read beyond the end of the shortest record.
        assert_eq!([size_of::<KernelRecord>(), size_of::<CopyRecord>(), size_of::<FillRecord>()], [160, 80, 80]);
    }

    #[test]
    fn times_are_from_the_recorders_start() {
        assert_eq!(times(1500, 1600, 1000), Some((500, 100)));
        assert_eq!(times(900, 1600, 1000), Some((0, 700)), "before the start by the error of the clocks");
        assert_eq!((times(0, 0, 0), times(5, 4, 0)), (None, None));
        assert_eq!((node(3, 0), node(3, 7)), (None, Some((3, 7))));
    }
}
