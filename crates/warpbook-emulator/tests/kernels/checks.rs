//! Tests verdicts: their counts and notes, and correct kernels in which the checks must not find a fault.

use crate::learners::kernel;
use crate::machine::{LOST_BARRIER, Machine, real};
use crate::{products, regression};
use warpbook_emulator::{AccessKind, Argument, Cause, Fault, Launch, LineCounts, Order, Transfers, Verdict};
use warpbook_kernels::guide;
use warpbook_record::{Dim, KernelSpec};

/// Returns the verdict on a source text whose entry is `k`.
fn verdict(machine: &mut Machine, text: &str, launch: &Launch, arguments: &[Argument]) -> Result<Verdict, Fault> {
    let kernel = kernel(machine, text);
    machine.gpu.verdict(&kernel, launch, arguments)
}

/// Returns the verdict on a kernel `k(unsigned* x, unsigned* y)` with this body. Each array has 256 numbers, and `y` is zero.
fn verdict_on(body: &str, blocks: u32, threads: u32) -> Result<Verdict, Fault> {
    let mut machine = Machine::default();
    let x = machine.put(&(0..256u32).map(|i| i * 7 % 61).collect::<Vec<_>>());
    let y = machine.put(&[0u32; 256]);
    let text =
        format!("extern \"C\" __global__ void k(unsigned* x, unsigned* y) {{\nunsigned t = threadIdx.x;\n{body}\n}}\n");
    let launch = Launch { budget: 1_000_000, ..Launch::new(blocks, threads) };
    verdict(&mut machine, &text, &launch, &[x, y])
}

#[test]
fn correct_kernels_are_not_accused() {
    let kernels = [
        ("stores of the same value", 3, 64, "if (x[t] > 5) y[0] = 1;"),
        (
            "a maximum whose start is not set",
            1,
            32,
            "float best; bool any = false;\n#pragma unroll 1\nfor (int i = 0; i < 8; ++i) {\nfloat v = x[(t + i) % 256];\n\
             if (v > 3.0f && (!any || v > best)) best = v, any = true;\n}\nif (any) y[t] = best;",
        ),
        (
            "warps that hand on through a named barrier",
            1,
            96,
            "__shared__ unsigned s[32];\nif (t < 32) { s[t] = x[t]; asm volatile(\"bar.arrive 1, 64;\" ::: \"memory\"); }\n\
             else if (t < 64) { asm volatile(\"bar.sync 1, 64;\" ::: \"memory\"); y[t] = s[63 - t]; }",
        ),
        (
            "halves of a warp that exchange",
            1,
            32,
            "__shared__ unsigned s[32];\nunsigned half = t < 16 ? 0xffffu : 0xffff0000u;\ns[t] = x[t];\nif (t < 16) {\n__syncwarp(half);\n\
             y[t] = s[15 - t];\n} else {\n__syncwarp(half);\ny[t] = s[47 - t] + 1;\n}\n__syncwarp();\ny[32 + t] = s[31 - t];",
        ),
        (
            "a lock with fences",
            4,
            1,
            "while (atomicCAS(y + 9, 0u, 1u) != 0u) {}\n__threadfence();\ny[0] += 1;\n__threadfence();\natomicExch(y + 9, 0u);",
        ),
        (
            "a flag that is released and acquired",
            2,
            32,
            "unsigned flag = 0;\nif (blockIdx.x == 0) {\ny[t] = x[t];\n__syncthreads();\n\
             if (t == 0) asm volatile(\"st.release.gpu.u32 [%0], 1;\" :: \"l\"(y + 255) : \"memory\");\n} else {\n\
             if (t == 0) do asm volatile(\"ld.acquire.gpu.u32 %0, [%1];\" : \"=r\"(flag) : \"l\"(y + 255) : \"memory\"); while (flag == 0);\n\
             __syncthreads();\ny[32 + t] = y[31 - t];\n}",
        ),
        (
            "a volatile flag between warps",
            1,
            64,
            "__shared__ volatile unsigned flag;\n__shared__ unsigned s[32];\nif (t == 0) flag = 0;\n__syncthreads();\nif (t < 32) {\n\
             s[t] = x[t];\n__threadfence_block();\n__syncwarp();\nif (t == 0) { __threadfence_block(); flag = 1; }\n} else {\n\
             while (flag == 0) {}\n__threadfence_block();\ny[t] = s[63 - t];\n}",
        ),
        (
            "groups of lanes with equal values",
            1,
            32,
            "unsigned same = __match_any_sync(~0u, t % 3);\ny[t] = __reduce_add_sync(same, t);",
        ),
        ("lanes that exit before others shuffle", 1, 32, "if (t >= 24) return;\ny[t] = __shfl_xor_sync(~0u, x[t], 1);"),
        (
            "a sum over blocks in the last one",
            4,
            32,
            "__shared__ bool is_last;\ny[blockIdx.x * 32 + t] = x[t];\n__syncthreads();\nif (t == 0) {\n__threadfence();\n\
             is_last = atomicAdd(y + 255, 1u) == 3;\n__threadfence();\n}\n__syncthreads();\n\
             if (is_last) y[128 + t] = y[t] + y[32 + t] + y[64 + t] + y[96 + t];",
        ),
        (
            "a scan that looks back over blocks",
            6,
            32,
            "volatile unsigned* flags = y + 200;\ny[blockIdx.x * 32 + t] = x[t];\n__threadfence();\n__syncwarp();\nif (t == 0) {\n\
             unsigned sum = 0;\nfor (int i = 0; i < 32; ++i) sum += y[blockIdx.x * 32 + i];\n\
             if (blockIdx.x > 0) { while (flags[blockIdx.x - 1] == 0) {} __threadfence(); sum += y[210 + blockIdx.x - 1]; }\n\
             y[210 + blockIdx.x] = sum;\n__threadfence();\nflags[blockIdx.x] = 1;\n}",
        ),
        (
            "readers of several warps whose last one writes",
            1,
            128,
            "if (t % 32 == 0) {\nunsigned v = x[0];\n__threadfence();\nif (atomicAdd(y, 1u) == 3) { __threadfence(); x[0] = v + 1; }\n}",
        ),
        (
            "readers of several blocks whose last one writes",
            5,
            32,
            "if (t < 3) {\nunsigned v = x[0] + x[1];\n__threadfence();\nif (atomicAdd(y, 1u) == 14) { __threadfence(); x[0] = v; x[1] = v; }\n}",
        ),
        (
            "two buffers in turn",
            1,
            96,
            "__shared__ unsigned s[2][96];\ns[0][t] = x[t];\n#pragma unroll 1\nfor (int i = 0; i < 5; ++i) {\n__syncthreads();\n\
             s[(i + 1) & 1][t] = s[i & 1][(t + 17) % 96] + 1;\n}\n__syncthreads();\ny[t] = s[1][95 - t];",
        ),
        (
            "blocks that take work from a queue",
            3,
            64,
            "__shared__ unsigned item;\nwhile (true) {\nif (t == 0) item = atomicAdd(y + 255, 1u);\n__syncthreads();\nunsigned own = item;\n\
             __syncthreads();\nif (own >= 3) break;\ny[own * 64 + t] = x[t] + own;\n}",
        ),
        (
            "neighbours in a warp that hand on in steps",
            1,
            32,
            "__shared__ unsigned s[32];\ns[t] = x[t];\n__syncwarp();\n#pragma unroll 1\nfor (int by = 1; by < 32; by *= 2) {\n\
             unsigned v = t >= by ? s[t - by] : 0;\n__syncwarp();\ns[t] += v;\n__syncwarp();\n}\ny[t] = s[31 - t];",
        ),
        (
            "a maximum that is looked at before the atomic operation",
            2,
            64,
            "volatile unsigned* best = y;\nif (x[t] > *best) atomicMax(y, x[t]);",
        ),
        (
            "structures with holes that are copied whole",
            1,
            32,
            "struct Item { unsigned char a; unsigned b; };\n__shared__ Item s[32];\ns[t].a = t;\ns[t].b = x[t];\n__syncthreads();\n\
             Item own = s[31 - t];\ny[t] = own.a + own.b;",
        ),
        (
            "one lane that waits for its warp",
            1,
            64,
            "__shared__ volatile unsigned flag;\n__shared__ unsigned s[32];\nif (t == 0) flag = 0;\n__syncthreads();\nif (t < 32) {\n\
             s[t] = x[t];\n__syncwarp();\nif (t == 0) { __threadfence_block(); flag = 1; }\n} else {\n\
             if (t == 32) { while (flag == 0) {} __threadfence_block(); }\n__syncwarp();\ny[t] = s[63 - t];\n}",
        ),
        (
            "a fence of the block after one of the GPU",
            2,
            1,
            "volatile unsigned* flag = y + 255;\nif (blockIdx.x == 0) {\ny[0] = x[0];\n__threadfence();\n__threadfence_block();\n*flag = 1;\n} else {\n\
             while (*flag == 0) {}\n__threadfence();\ny[1] = y[0];\n}",
        ),
        (
            "bytes of a word that several threads write",
            1,
            64,
            "__shared__ unsigned char s[64];\ns[t] = x[t];\n__syncthreads();\nif (t < 16) y[t] = ((unsigned*)s)[t];",
        ),
    ];
    let accused = kernels.iter().filter_map(|(name, blocks, threads, body)| {
        let fault = verdict_on(body, *blocks, *threads).err()?;
        Some(format!("{name}: {:?}: {fault}", fault.cause))
    });
    let accused: Vec<String> = accused.collect();
    assert!(accused.is_empty(), "{}", accused.join("\n"));
}

#[test]
fn stores_of_the_same_value_are_noted() {
    let verdict = verdict_on("if (x[t] > 5) y[3] = 1;", 2, 64).unwrap();
    let [note] = verdict.notes.as_slice() else { panic!("{:?}", verdict.notes) };
    assert_eq!(note.position.as_ref().map(|position| position.line), Some(3));
    assert!(note.message.contains("write the same value to element 3 of argument 2"), "{}", note.message);
    assert!(!note.message.contains("here and in") && note.message.ends_with("more than once."), "{}", note.message);
}

#[test]
fn results_are_those_of_one_run_and_a_fault_leaves_memory_alone() {
    let mut machine = Machine::default();
    let x = machine.put(&[1u32; 64]);
    let text = "extern \"C\" __global__ void k(unsigned* x, unsigned n) { if (threadIdx.x < n) x[threadIdx.x] += 2; }";
    verdict(&mut machine, text, &Launch::new(1, 96), &[x.clone(), Argument::U32(64)]).unwrap();
    assert_eq!(machine.get::<u32>(&x, 64), [3; 64]);
    verdict(&mut machine, text, &Launch::new(1, 96), &[x, Argument::U32(65)]).unwrap_err();
}

#[test]
fn a_kernel_after_another_sees_what_that_one_wrote() {
    let mut machine = Machine::default();
    let (x, y) = (machine.room::<u32>(64), machine.room::<u32>(64));
    let half = "extern \"C\" __global__ void k(unsigned* x, unsigned* y) { if (threadIdx.x < 32) x[threadIdx.x] = 1; }";
    let copy = "extern \"C\" __global__ void k(unsigned* x, unsigned* y) { y[threadIdx.x] = x[threadIdx.x]; }";
    let arguments = [x, y];
    verdict(&mut machine, half, &Launch::new(1, 64), &arguments).unwrap();
    verdict(&mut machine, copy, &Launch::new(1, 32), &arguments).unwrap();
    let fault = verdict(&mut machine, copy, &Launch::new(1, 64), &arguments).unwrap_err();
    assert_eq!(fault.thread.map(|thread| thread.thread), Some([32, 0, 0]), "{fault}");
}

/// Returns the counts of a kernel's body, which is the third line of the source text.
fn counts(body: &str, threads: u32) -> LineCounts {
    let verdict = verdict_on(body, 1, threads).unwrap_or_else(|e| panic!("{e}"));
    let found = verdict.counts.lines.iter().find(|line| line.line == 3);
    found.unwrap_or_else(|| panic!("{:?}", verdict.counts)).clone()
}

/// Checks that a verdict tries three orders: each of these kernels leaves its array in one of them only.
#[test]
fn a_fault_that_needs_one_of_the_orders_is_found() {
    let orders = [Order::Forwards, Order::Backwards, Order::Random(0x5eed)];
    let conditions = ["turn == warp", "turn == 7 - warp", "turn != warp && turn != 7 - warp"];
    for (i, condition) in conditions.into_iter().enumerate() {
        let text = format!(
            "extern \"C\" __global__ void k(unsigned* turns, unsigned* outside) {{\nunsigned warp = threadIdx.x / 32;\n\
             if (threadIdx.x % 32 != 0) return;\nunsigned turn = atomicAdd(turns, 1u);\nif ({condition}) *outside = 1;\n}}\n"
        );
        let run = |order: Option<Order>| {
            let mut machine = Machine::default();
            let (turns, launch) = (machine.put(&[0u32]), Launch::new(1, 256));
            let kernel = kernel(&mut machine, &text);
            let arguments = [turns, Argument::U64(0)];
            match order {
                Some(order) => machine.gpu.launch_checked(&kernel, &Launch { order, ..launch }, &arguments),
                None => machine.gpu.verdict(&kernel, &launch, &arguments),
            }
        };
        assert_eq!(run(None).unwrap_err().cause, Cause::OutOfBounds, "{condition}");
        for (j, order) in orders.into_iter().enumerate() {
            // In the random order, warps may also come as in one of the others.
            let is_known = i == j || j < 2;
            assert!(!is_known || run(Some(order)).is_err() == (i == j), "{condition} in {order:?}");
        }
    }
}

#[test]
fn counts_are_those_of_the_accesses() {
    let copy = counts("y[t] = x[t];", 64);
    assert_eq!((copy.global_requests, copy.global_sectors, copy.global_ideal), (4, 16, 16));
    assert_eq!(copy.global_bytes, 2 * 64 * 4);
    let strided = counts("y[t] = x[t * 8];", 32);
    assert_eq!((strided.global_requests, strided.global_sectors, strided.global_ideal), (2, 36, 8));
    let wide = counts("((uint4*)y)[t] = ((const uint4*)x)[t];", 32);
    assert_eq!((wide.global_requests, wide.global_sectors, wide.global_ideal), (2, 32, 32));
    let shared = counts("__shared__ unsigned s[1024]; s[t * 32] = t; __syncwarp(); y[t] = s[t * 32];", 32);
    assert_eq!((shared.shared_requests, shared.shared_wavefronts, shared.shared_ideal), (2, 64, 2));
    let both = counts("y[t] = x[2 * t] + x[2 * t + 96];", 64);
    let loads = Transfers { requests: 4, sectors: 4 * 8, bytes: 2 * 64 * 4 };
    assert_eq!((both.global_loads, both.global_stores), (loads, Transfers { requests: 2, sectors: 8, bytes: 64 * 4 }));
    let words = counts("__shared__ uint4 s[32]; s[t] = {t, t, t, t}; __syncwarp(); y[t] = s[31 - t].x + s[0].w;", 32);
    assert_eq!((words.shared_words_loaded, words.global_loads.requests), (2 * 32, 0));
    let parted = counts("if (t % 32 < 8) atomicAdd(y + t % 4, x[t]);", 64);
    assert_eq!((parted.divergent_branches, parted.atomics, parted.lanes_on_one_address), (2, 2, 4));
    assert!(parted.mean_lanes() > 8.0 && parted.mean_lanes() < 32.0, "{}", parted.mean_lanes());
    let own =
        "unsigned own[8];\n#pragma unroll 1\nfor (int i = 0; i < 8; ++i) own[i] = x[i] + t;\ny[t] = own[x[t] % 8];";
    assert_eq!(verdict_on(own, 1, 32).unwrap().counts.total().local_bytes, 9 * 32 * 4);
}

/// The text of `atomicAdd` for `__half` and `__half2` in `cuda_fp16.h`.
const HALVES: &str = "__device__ unsigned short add(unsigned short* to, unsigned short v) {\n\
    unsigned short old; asm volatile(\"{ atom.add.noftz.f16 %0,[%1],%2; }\" : \"=h\"(old) : \"l\"(to), \"h\"(v) : \"memory\"); return old; }\n\
    __device__ unsigned add(unsigned* to, unsigned v) {\n\
    unsigned old; asm volatile(\"{ atom.add.noftz.f16x2 %0,[%1],%2; }\" : \"=r\"(old) : \"l\"(to), \"r\"(v) : \"memory\"); return old; }\n";

#[test]
fn halves_are_added_as_one_and_counted_and_checked() {
    let run = |body: &str| {
        let mut machine = Machine::default();
        let (x, y) = (machine.put(&(0..64u32).collect::<Vec<_>>()), machine.put(&[0x0001_3c00u32; 4]));
        let text = format!(
            "{HALVES}extern \"C\" __global__ void k(unsigned* x, unsigned* y) {{\nunsigned t = threadIdx.x;\n{body}\n}}\n"
        );
        let verdict = verdict(&mut machine, &text, &Launch::new(1, 64), &[x, y.clone()]);
        verdict.map(|verdict| (verdict.counts.total(), machine.get::<u32>(&y, 4)))
    };
    // 64 times 0.25 is added to 1, 64 times the smallest denormal to itself, and 64 pairs of 1 and -0.5 to the next word.
    let body = "add((unsigned short*)y, 0x3400); add((unsigned short*)y + 1, 1); add(y + 1, 0xb8003c00);";
    let (counts, sums) = run(body).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(sums, [0x0041_4c40, 0xd000_5410, 0x0001_3c00, 0x0001_3c00]);
    assert_eq!((counts.atomics, counts.lanes_on_one_address), (3 * 2, 3 * 64));
    let fault = run("add((unsigned short*)y + t, 1);").unwrap_err();
    assert!(fault.to_string().contains("updates 2 bytes at offset 16 of argument 2"), "{fault}");
    let fault = run("add((unsigned*)((char*)y + 2), 1);").unwrap_err();
    assert_eq!(fault.cause, Cause::Misaligned, "{fault}");
    let fault = run("add((unsigned short*)y, 1); if (t == 7) x[0] = ((unsigned short*)y)[0];").unwrap_err();
    assert_eq!(fault.cause, Cause::Race, "{fault}");
}

#[test]
fn arithmetic_shuffles_and_barriers_are_counted() {
    let mut machine = Machine::default();
    let (x, y) = (machine.put(&real(96, 1)), machine.room::<f32>(2));
    let text = "extern \"C\" __global__ void k(const float* x, float* y) {\n\
        __shared__ float sums[3];\nunsigned t = threadIdx.x;\nfloat sum = x[t] * x[95 - t] + 1.0f;\n\
        #pragma unroll 1\nfor (int lanes = 16; lanes > 0; lanes /= 2)\nsum += __shfl_down_sync(~0u, sum, lanes);\n\
        if (t % 32 == 0) sums[t / 32] = sum;\n__syncthreads();\n\
        if (t < 32) sum = __shfl_sync(~0u, sum, 0) * 2.0f + x[0];\n__syncthreads();\n\
        if (t == 0) y[blockIdx.x] = sums[0] + sums[1] + sums[2] + sum;\n}\n";
    let counts = verdict(&mut machine, text, &Launch::new(2, 96), &[x, y]).unwrap().counts;
    let total = counts.total();
    assert_eq!(
        (total.multiply_adds, total.shuffles, total.barrier_arrivals),
        (2 * (96 + 32), 2 * (3 * 5 + 1), 2 * 2 * 3)
    );
    assert_eq!((counts.shuffles_of_a_warp, counts.barriers_of_a_block), (6, 2));
    let line = |at| counts.lines.iter().find(|line| line.line == at).unwrap();
    assert_eq!((line(7).shuffles, line(4).multiply_adds, line(9).barrier_arrivals), (2 * 3 * 5, 2 * 96, 2 * 3));
}

#[test]
fn the_first_request_of_each_access_is_kept_lane_by_lane() {
    let verdict =
        verdict_on("__shared__ unsigned s[64]; s[t] = x[t + 3]; __syncthreads(); if (t % 2) y[t] = s[63 - t];", 1, 64);
    let requests = verdict.unwrap().counts.requests;
    let told: Vec<_> = requests.iter().map(|r| (r.kind, r.is_shared, r.buffer.as_str(), r.line, r.bytes)).collect();
    let (one, two) = ("argument 1", "argument 2");
    assert_eq!(
        told,
        [
            (AccessKind::Load, false, one, 3, 4),
            (AccessKind::Store, true, "shared memory", 3, 4),
            (AccessKind::Load, true, "shared memory", 3, 4),
            (AccessKind::Store, false, two, 3, 4),
        ]
    );
    assert!((0..32).all(|lane| requests[0].offsets[lane] == Some(4 * (lane as u64 + 3))), "{requests:?}");
    assert_eq!((requests[3].offsets[0], requests[3].offsets[31], requests[2].offsets[1]), (None, Some(124), Some(248)));
    assert_eq!(requests[3].thread.thread, [1, 0, 0]);
}

#[test]
fn packed_multiply_adds_count_twice() {
    let mut machine = Machine::default();
    let (x, y) = (machine.put(&[0x3c00_3c00u32; 32]), machine.room::<u32>(32));
    let text = "extern \"C\" __global__ void k(const unsigned* x, unsigned* y) {\nunsigned two;\n\
        asm(\"fma.rn.f16x2 %0, %1, %1, %1;\" : \"=r\"(two) : \"r\"(x[threadIdx.x]));\ny[threadIdx.x] = two;\n}\n";
    let counts = verdict(&mut machine, text, &Launch::new(1, 32), &[x, y.clone()]).unwrap().counts;
    assert_eq!((counts.total().multiply_adds, machine.get::<u32>(&y, 1)), (64, vec![0x4000_4000]));
}

#[test]
fn a_table_shows_the_counts_next_to_the_source() {
    let mut machine = Machine::default();
    let (x, y) = (machine.put(&real(64, 1)), machine.room::<f32>(64));
    let text = "extern \"C\" __global__ void k(const float* x, float* y) {\n    y[threadIdx.x] = x[threadIdx.x];\n}\n";
    let counts = verdict(&mut machine, text, &Launch::new(1, 64), &[x, y]).unwrap().counts;
    let file = &counts.lines.iter().find(|line| line.line == 2).unwrap().file;
    let table = counts.table(file, text);
    let row = table.lines().nth(2).unwrap();
    assert!(
        row.contains("32.0") && row.contains("16/16") && row.ends_with("y[threadIdx.x] = x[threadIdx.x];"),
        "{table}"
    );
}

#[test]
fn groups_of_lanes_work_by_themselves() {
    let mut machine = Machine::default();
    let y = machine.put(&[0u32; 32]);
    let text = "extern \"C\" __global__ void k(unsigned* y) {\nunsigned t = threadIdx.x, same = __match_any_sync(~0u, t % 3);\n\
                y[t] = __reduce_add_sync(same, t);\n}\n";
    verdict(&mut machine, text, &Launch::new(1, 32), std::slice::from_ref(&y)).unwrap();
    let want: Vec<u32> = (0..32).map(|t| (0..32).filter(|u| u % 3 == t % 3).sum()).collect();
    assert_eq!(machine.get::<u32>(&y, 32), want);
}

/// Runs a kernel repeatedly, each time with one of its barriers removed. Returns a message for each barrier:
/// the fault, or that no fault was found.
fn without_barriers(run: impl Fn() + std::panic::UnwindSafe + Copy) -> Vec<String> {
    let outcome = |number: usize| {
        LOST_BARRIER.set(Some(number));
        let result = std::panic::catch_unwind(run);
        LOST_BARRIER.set(None);
        match result {
            Ok(()) => "nothing is found".to_owned(),
            Err(payload) => payload.downcast_ref::<String>().cloned().unwrap_or_default(),
        }
    };
    (0..).map(outcome).take_while(|message| !message.is_empty() && message != "no barrier").collect()
}

#[test]
fn no_barrier_of_our_kernels_can_go() {
    let kernels: [fn(); 6] = [
        || drop(regression::by_epochs("02_fused", 1003)),
        || drop(products::check("03_shared_tile", [64, 64, 64], products::PLAIN)),
        || drop(products::check("04_register_1d", [128, 128, 64], products::PLAIN)),
        || drop(products::check("05_register_2d", [128, 128, 64], products::PLAIN)),
        || drop(products::check("06_vectorised", [128, 128, 64], products::PLAIN)),
        || drop(products::check("07_warp_tile", [128, 128, 64], products::PLAIN)),
    ];
    for (at, run) in kernels.into_iter().enumerate() {
        let outcomes = without_barriers(run);
        assert!(!outcomes.is_empty());
        for (number, outcome) in outcomes.iter().enumerate() {
            assert!(outcome.contains("nothing orders the two"), "kernel {at}, barrier {number}: {outcome}");
        }
    }
}

/// Returns the counts of a kernel that transposes a matrix of 64 x 64 numbers.
fn transpose(spec: &KernelSpec, elements_a_thread: u32) -> LineCounts {
    let (edge, mut machine) = (64u32, Machine::default());
    let tile = spec.tiles.last().unwrap();
    let (x, y) = (machine.put(&real(4096, 1)), machine.room::<f32>(4096));
    let kernel = machine.kernel(spec, tile);
    let threads = u32::try_from(tile.size(Dim::Threads)).unwrap();
    let launch = Launch::new(edge * edge / elements_a_thread / threads, threads);
    let arguments = [x, y, Argument::U32(edge * edge), Argument::U32(edge)];
    machine.gpu.verdict(&kernel, &launch, &arguments).unwrap_or_else(|e| panic!("{e}")).counts.total()
}

#[test]
fn counts_of_transposes_are_those_that_the_guide_tells() {
    let direct = transpose(&guide::transpose_direct(), 1);
    // One side is coalesced; on the other side each lane accesses a different sector.
    assert_eq!((direct.global_requests, direct.global_sectors, direct.global_ideal), (256, 128 * 36, 1024));
    let shared = transpose(&guide::transpose_shared(), 4);
    assert_eq!((shared.global_sectors, shared.global_ideal), (1024, 1024));
    assert_eq!((shared.shared_requests, shared.shared_wavefronts, shared.shared_ideal), (256, 128 * 33, 256));
    for spec in [guide::transpose_padded(), guide::transpose_swizzled()] {
        let counts = transpose(&spec, 4);
        assert_eq!((counts.global_sectors, counts.shared_wavefronts), (1024, 256), "{}", spec.file);
    }
}
