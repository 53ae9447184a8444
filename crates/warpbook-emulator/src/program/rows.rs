//! The kinds of register rows: rows have a value for each of the 32 lanes of a warp.

use crate::compute::mask;
use crate::machine::{Identity, LIMITS};

/// The values of a row when a warp starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum RowKind {
    /// A register of this size in bytes, which is unwritten at first.
    Register(u8),
    /// A constant, which is the same in all lanes.
    Constant(u64),
    /// The address of dynamic shared memory plus an offset.
    DynamicShared(i64),
    /// A special register, given by its index in [`SPECIALS`].
    Special(usize),
}

impl RowKind {
    /// Returns a mask of the register's bits; 0 if the row is not a register.
    pub(crate) fn register_mask(self) -> u64 {
        match self {
            Self::Register(bytes) => mask(bytes),
            _ => 0,
        }
    }
}

/// The lane for which special registers are computed when its warp starts.
pub(crate) struct Lane<'a> {
    pub(crate) identity: &'a Identity,
    pub(crate) warp: u32,
    pub(crate) number: u32,
}

impl Lane<'_> {
    fn thread(&self) -> [u32; 3] {
        self.identity.index(self.warp * 32 + self.number)
    }
}

/// A special register: its name, and the function that computes its value in a lane.
type Special = (&'static str, fn(&Lane) -> u64);

pub(crate) const SPECIALS: [Special; 25] = [
    ("%tid.x", |lane| lane.thread()[0].into()),
    ("%tid.y", |lane| lane.thread()[1].into()),
    ("%tid.z", |lane| lane.thread()[2].into()),
    ("%ntid.x", |lane| lane.identity.threads[0].into()),
    ("%ntid.y", |lane| lane.identity.threads[1].into()),
    ("%ntid.z", |lane| lane.identity.threads[2].into()),
    ("%ctaid.x", |lane| lane.identity.block[0].into()),
    ("%ctaid.y", |lane| lane.identity.block[1].into()),
    ("%ctaid.z", |lane| lane.identity.block[2].into()),
    ("%nctaid.x", |lane| lane.identity.blocks[0].into()),
    ("%nctaid.y", |lane| lane.identity.blocks[1].into()),
    ("%nctaid.z", |lane| lane.identity.blocks[2].into()),
    ("%laneid", |lane| lane.number.into()),
    ("%warpid", |lane| lane.warp.into()),
    ("%nwarpid", |_| u64::from(LIMITS.multiprocessor_threads / 32)),
    ("%smid", |lane| u64::from(lane.identity.linear_block() % LIMITS.multiprocessors)),
    ("%nsmid", |_| LIMITS.multiprocessors.into()),
    ("%gridid", |_| 1),
    ("%lanemask_eq", |lane| 1 << lane.number),
    ("%lanemask_lt", |lane| (1 << lane.number) - 1),
    ("%lanemask_le", |lane| (2 << lane.number) - 1),
    ("%lanemask_gt", |lane| 0xffff_ffff & !((2 << lane.number) - 1)),
    ("%lanemask_ge", |lane| 0xffff_ffff & !((1 << lane.number) - 1)),
    ("%dynamic_smem_size", |lane| lane.identity.dynamic_shared),
    ("%total_smem_size", |lane| lane.identity.shared_bytes),
];
