//! Lists the opcodes that the interpreter supports, mostly from its own tables.

use super::decode_memory::{reduction, update};
use crate::compute::{self, Conversion, combination, comparison};
use crate::ptx::Type;

const TYPES: &str = "b8 u8 s8 b16 u16 s16 f16 bf16 b32 u32 s32 f32 tf32 f16x2 bf16x2 b64 u64 s64 f64";
/// Types that only arithmetic and conversions support.
const PACKED: [&str; 5] = ["f16", "bf16", "tf32", "f16x2", "bf16x2"];
const COMPARISONS: &str = "eq ne lt le gt ge lo ls hi hs equ neu ltu leu gtu geu num nan";
const ROUNDINGS: [&str; 10] = ["", "rn.", "rz.", "rm.", "rp.", "rna.", "rni.", "rzi.", "rmi.", "rpi."];
const UPDATES: [&str; 11] = ["add", "add.noftz", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec"];
/// Opcodes that have few forms, separated by spaces.
const OTHERS: &str = "activemask.b32 bar.arrive bar.red.and.pred bar.red.or.pred bar.red.popc.u32 bar.sync bar.warp.sync barrier.sync bra brkpt brx.idx \
    call.vprintf call.__assertfail call.(functions) cvta.const.u64 cvta.global.u64 cvta.local.u64 cvta.shared.u64 cvta.to.const.u64 cvta.to.global.u64 \
    cvta.to.local.u64 cvta.to.shared.u64 exit fence.acq_rel.cta fence.acq_rel.gpu fence.sc.cta fence.sc.gpu isspacep.global isspacep.local isspacep.shared \
    match.all.sync.b32 match.all.sync.b64 match.any.sync.b32 match.any.sync.b64 membar.cta membar.gl membar.sys nanosleep.u32 prefetch.global.L2 ret \
    shfl.sync.bfly.b32 shfl.sync.down.b32 shfl.sync.idx.b32 shfl.sync.up.b32 trap vote.sync.all.pred vote.sync.any.pred vote.sync.ballot.b32 \
    vote.sync.uni.pred";

/// Returns every supported opcode with its modifiers, sorted. Modifiers that change no value, such as hints for caches and scopes, are left out.
#[must_use]
pub fn supported() -> Vec<String> {
    let others = OTHERS.split_whitespace().map(str::to_owned);
    let mut all: Vec<String> = compute::opcodes().map(str::to_owned).chain(others).collect();
    let plain = TYPES.split(' ').filter(|name| !PACKED.contains(name));
    for (name, ty) in plain.filter_map(|name| Some((name, Type::parse(name)?))) {
        for compared in COMPARISONS.split(' ').filter(|compared| comparison(compared, ty).is_some()) {
            all.push(format!("setp.{compared}.{name}"));
            let combined = ["and", "or", "xor"].into_iter().filter(|c| combination(c).is_some());
            all.extend(combined.map(|c| format!("setp.{compared}.{c}.{name}")));
        }
        let (loads, stores) = (" .const .global .local .param .shared", " .global .local .param .shared");
        for (opcode, spaces) in [("ld", loads), ("st", stores)] {
            for (elements, vector) in [(1, ""), (2, ".v2"), (4, ".v4")] {
                let fits = spaces.split(' ').filter(|_| elements * ty.bytes() <= 16);
                all.extend(fits.map(|space| format!("{opcode}{space}{vector}.{name}")));
            }
        }
    }
    for name in TYPES.split(' ') {
        for operation in UPDATES.into_iter().filter(|operation| update(operation, name).is_some()) {
            let is_reduction = !matches!(operation, "exch" | "cas");
            for space in ["", ".global", ".shared"] {
                all.push(format!("atom{space}.{operation}.{name}"));
                all.extend(is_reduction.then(|| format!("red{space}.{operation}.{name}")));
            }
            all.extend(reduction(operation, name).map(|_| format!("redux.sync.{operation}.{name}")));
        }
    }
    for (to, from) in TYPES.split(' ').flat_map(|to| TYPES.split(' ').map(move |from| (to, from))) {
        for rounding in ROUNDINGS {
            let names = ["", "sat."].map(|saturation| format!("cvt.{rounding}{saturation}{to}.{from}"));
            all.extend(names.into_iter().filter(|name| Conversion::parse(name).is_some()));
        }
    }
    all.sort();
    all
}
