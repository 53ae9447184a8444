//! Tests code of the kind that learners write: mathematical functions, operations on bits, warps and blocks, atomics, `printf`, and kernels with faults.

use crate::machine::{COMPILER, Machine, real};
use warpbook_emulator::{Argument, Cause, Fault, Kernel, Launch, Module, Order, Report};
use warpbook_record::{Grid, KernelSpec, Source, Tile};

/// Compiles a source text whose entry is `k`.
pub fn kernel(machine: &mut Machine, text: &str) -> Kernel {
    let tile = Tile::new("t", &[("THREADS", 64)]);
    let mut spec = KernelSpec::new(Source { path: "mine.cu", text: "" }, "k", std::slice::from_ref(&tile), Grid::One);
    spec.source = text.to_owned().into();
    let text = COMPILER.compile_to_ptx(&spec, &tile, "compute_80").unwrap_or_else(|e| panic!("{e}"));
    let module = Module::parse(&text).unwrap_or_else(|e| panic!("{e}"));
    machine.gpu.load(&module).unwrap().kernel("k").unwrap_or_else(|e| panic!("{e}"))
}

fn launch(machine: &mut Machine, text: &str, launch: &Launch, arguments: &[Argument]) -> Result<Report, Fault> {
    let kernel = kernel(machine, text);
    machine.gpu.launch_checked(&kernel, launch, arguments).map(|verdict| verdict.report)
}

/// Runs `body` in `k(const float* x, float* y, unsigned n)` with one thread per element of x, and returns y.
fn map(x: &[f32], body: &str) -> Vec<f32> {
    let mut machine = Machine::default();
    let (on_x, on_y) = (machine.put(x), machine.room::<f32>(x.len()));
    let text = format!(
        "extern \"C\" __global__ void k(const float* x, float* y, unsigned n) {{\n\
         unsigned i = blockIdx.x * blockDim.x + threadIdx.x;\nif (i >= n) return;\nfloat v = x[i];\n{body}\n}}\n"
    );
    let shape = Launch::new((x.len() as u32).div_ceil(64), 64);
    launch(&mut machine, &text, &shape, &[on_x, on_y.clone(), Argument::U32(x.len() as u32)])
        .unwrap_or_else(|e| panic!("{e}"));
    machine.get(&on_y, x.len())
}

#[test]
fn functions_of_mathematics_are_near_the_true_values() {
    let x: Vec<f32> = real(200, 1).iter().map(|v| 50.0 * v).collect();
    type Function = fn(f64) -> f64;
    let functions: [(&str, Function); 9] = [
        ("sinf(v)", f64::sin),
        ("cosf(v * 1e5f)", |v| (f64::from(v as f32 * 1e5)).cos()),
        ("expf(v * 0.1f)", |v| f64::from(v as f32 * 0.1).exp()),
        ("logf(fabsf(v) + 1)", |v| f64::from(v.abs() as f32 + 1.0).ln()),
        ("tanhf(v)", f64::tanh),
        ("rsqrtf(fabsf(v))", |v| 1.0 / v.abs().sqrt()),
        ("(float)sqrt((double)v * v + 1)", |v| (v * v + 1.0).sqrt()),
        ("powf(fabsf(v), 0.3f)", |v| v.abs().powf(f64::from(0.3f32))),
        ("cbrtf(v)", f64::cbrt),
    ];
    for (text, function) in functions {
        for (v, got) in x.iter().zip(map(&x, &format!("y[i] = {text};"))) {
            let want = function(f64::from(*v));
            assert!((f64::from(got) - want).abs() <= 4e-7 * want.abs().max(0.1), "{text} of {v} is {got}, not {want}");
        }
    }
}

#[test]
fn bits_are_counted_and_moved() {
    let x: Vec<f32> = (0..100).map(|i| (i * 1_234_567) as f32).collect();
    type Function = fn(u32) -> u32;
    let functions: [(&str, Function); 10] = [
        ("__popc(b)", |b| b.count_ones()),
        ("__clz(b)", |b| b.leading_zeros()),
        ("__ffs(b)", |b| if b == 0 { 0 } else { b.trailing_zeros() + 1 }),
        ("__brev(b)", |b| b.reverse_bits()),
        ("__byte_perm(b, 0x01020304, 0x2450)", |b| (b & 0xff) | 0x04_0300 | (b >> 16 & 0xff) << 24),
        ("__umulhi(b, 123456789u)", |b| ((u64::from(b) * 123_456_789) >> 32) as u32),
        ("__funnelshift_l(b, ~b, 5)", |b| (!b << 5) | (b >> 27)),
        ("b % 7 + b / 13", |b| b % 7 + b / 13),
        ("(unsigned)((int)b % -7)", |b| (b as i32 % -7) as u32),
        ("(b & 0xff00ff) | (~b & 0x1200)", |b| b & 0xff_00ff | !b & 0x1200),
    ];
    for (text, function) in functions {
        let got = map(&x, &format!("unsigned b = __float_as_uint(v); y[i] = __uint_as_float({text});"));
        for (v, got) in x.iter().zip(got) {
            let want = function(v.to_bits());
            // Move instructions preserve all bits of a NaN.
            assert_eq!(got.to_bits(), want, "{text} of {:#x}", v.to_bits());
        }
    }
}

#[test]
fn lanes_and_threads_work_together() {
    let mut machine = Machine::default();
    let out = machine.room::<u32>(64 * 12);
    let text = r#"
        __shared__ unsigned total;
        extern "C" __global__ void k(unsigned* out) {
            unsigned t = threadIdx.x, lane = t % 32, *o = out + t * 12;
            o[0] = __shfl_up_sync(~0u, t, 1);
            o[1] = __shfl_sync(~0u, t, lane / 8, 8);
            o[2] = __ballot_sync(~0u, t % 3 == 0);
            o[3] = __match_any_sync(~0u, t % 5);
            o[4] = __reduce_add_sync(~0u, t);
            o[5] = __reduce_max_sync(~0u, t ^ 9);
            if (t == 0) total = 0;
            o[6] = __syncthreads_count(t % 4 == 1);
            atomicAdd(&total, t);
            atomicMax(&total, 5u);
            o[7] = __syncthreads_or(t == 70);
            o[8] = total;
            // Half of the lanes only.
            if (lane < 16) {
                o[9] = __activemask();
                o[10] = __shfl_xor_sync(0xffffu, t, 1);
            } else {
                o[9] = 0, o[10] = __any_sync(0xffff0000u, lane == 20);
            }
            __syncwarp();
            o[11] = __all_sync(~0u, t < 60);
        }"#;
    launch(&mut machine, text, &Launch::new(1, 64), std::slice::from_ref(&out)).unwrap_or_else(|e| panic!("{e}"));
    let got: Vec<u32> = machine.get(&out, 64 * 12);
    for t in 0..64u32 {
        let (lane, first) = (t % 32, t / 32 * 32);
        let warp = || first..first + 32;
        let mask = |holds: &dyn Fn(u32) -> bool| warp().filter(|u| holds(*u)).fold(0u32, |all, u| all | 1 << (u % 32));
        let want = [
            if lane == 0 { t } else { t - 1 },
            first + lane / 8 * 8 + lane / 8,
            mask(&|u| u % 3 == 0),
            mask(&|u| u % 5 == t % 5),
            warp().sum(),
            warp().map(|u| u ^ 9).max().unwrap(),
            16,
            0,
            2016,
            if lane < 16 { 0xffff } else { 0 },
            if lane < 16 { t ^ 1 } else { 1 },
            u32::from(first == 0),
        ];
        assert_eq!(got[t as usize * 12..][..12], want, "thread {t}");
    }
}

#[test]
fn calls_local_arrays_switches_and_atomic_loops_work() {
    let mut machine = Machine::default();
    let (out, counts) = (machine.room::<u32>(96), machine.put(&[0u32; 4]));
    let sum = machine.put(&[0.0f64]);
    let text = r#"
        __device__ unsigned table[4] = {3, 1, 4, 1};
        __constant__ unsigned scale[2] = {10, 100};
        __device__ __noinline__ unsigned mixed(unsigned a, const unsigned* b) { return a * b[a % 4] + b[3]; }
        __device__ double add(double* at, double v) {
            unsigned long long* word = (unsigned long long*)at;
            unsigned long long old = *word, seen;
            do {
                seen = old;
                old = atomicCAS(word, seen, __double_as_longlong(v + __longlong_as_double(seen)));
            } while (old != seen);
            return __longlong_as_double(old);
        }
        extern "C" __global__ void k(unsigned* out, unsigned* counts, double* sum) {
            unsigned t = blockIdx.x * blockDim.x + threadIdx.x, own[8];
            for (unsigned j = 0; j < 8; ++j) own[(j + t) % 8] = j * t;
            unsigned v = mixed(t, table) + own[t % 5] * scale[t % 2];
            switch (t % 7) {
                case 0: v += 1; break;
                case 1: v *= 3; break;
                case 2: v ^= 0x55; break;
                case 3: v -= 7; break;
                case 4: v = v / 3; break;
                case 5: v <<= 2; break;
                default: v = ~v;
            }
            out[t] = v;
            atomicInc(counts, 9);
            atomicExch(counts + 1, t);
            atomicOr(counts + 2, 1u << (t % 32));
            add(sum, t);
        }"#;
    let arguments = [out.clone(), counts.clone(), sum.clone()];
    for order in [Order::Forwards, Order::Backwards, Order::Random(3)] {
        machine.gpu.write(address(&counts), &[0; 16]).unwrap();
        machine.gpu.write(address(&sum), &[0; 8]).unwrap();
        let shape = Launch { order, ..Launch::new(2, 48) };
        launch(&mut machine, text, &shape, &arguments).unwrap_or_else(|e| panic!("{e}"));
        let table = [3u32, 1, 4, 1];
        for (t, got) in (0u32..).zip(machine.get::<u32>(&out, 96)) {
            let own = (t % 5 + 8 - t % 8) % 8 * t;
            let v = (t * table[t as usize % 4] + 1).wrapping_add(own * [10, 100][t as usize % 2]);
            let arms = [v + 1, v * 3, v ^ 0x55, v.wrapping_sub(7), v / 3, v << 2, !v];
            assert_eq!(got, arms[t as usize % 7], "thread {t}");
        }
        let counts: Vec<u32> = machine.get(&counts, 4);
        assert_eq!((counts[0], counts[2], counts[3]), (96 % 10, u32::MAX, 0));
        assert_eq!(machine.get::<f64>(&sum, 1), [(0..96).sum::<i32>() as f64]);
    }
}

fn address(buffer: &Argument) -> u64 {
    let Argument::U64(address) = buffer else { panic!("{buffer:?}") };
    *address
}

#[test]
fn what_a_kernel_prints_is_in_the_report() {
    let text = r#"extern "C" __global__ void k(float v) {
        if (threadIdx.x < 2) printf("thread %u: %d %5.2f|%-6s|%c %g %llx%%\n", threadIdx.x, -3, v, "ab", 'z', 1e-7, 1ull << 40);
    }"#;
    let report = launch(&mut Machine::default(), text, &Launch::new(1, 64), &[Argument::F32(1.5)]).unwrap();
    let line = |t: u32| format!("thread {t}: -3  1.50|ab    |z 1e-07 10000000000%\n");
    assert_eq!(report.printed, line(0) + &line(1));
}

/// Runs a kernel `k(float* x, unsigned n)` on 100 elements, and returns its fault.
fn fault(body: &str, blocks: u32) -> Fault {
    let mut machine = Machine::default();
    let x = machine.put(&real(100, 1));
    let text = format!(
        "extern \"C\" __global__ void k(float* x, unsigned n) {{\nunsigned i = blockIdx.x * blockDim.x + threadIdx.x;\n{body}\n}}\n"
    );
    let shape = Launch { budget: 2_000_000, ..Launch::new(blocks, 64) };
    launch(&mut machine, &text, &shape, &[x, Argument::U32(100)]).unwrap_err()
}

#[test]
fn faults_name_cause_place_and_thread() {
    let told = |fault: Fault| {
        let text = fault.to_string();
        (fault.cause, fault.position.map(|position| position.line), text)
    };
    let (cause, line, text) = told(fault("x[i] = 1;", 2));
    assert_eq!((cause, line), (Cause::OutOfBounds, Some(3)), "{text}");
    assert!(text.contains("writes 4 bytes at offset 400 of argument 1, which has 400 bytes"), "{text}");
    assert!(text.contains("block (1, 0, 0), thread (36, 0, 0)"), "{text}");
    let (cause, _, text) = told(fault("if (i == 3) x[0] = ((float*)((char*)x + 2))[i];", 1));
    assert_eq!(cause, Cause::Misaligned, "{text}");
    let (cause, line, text) = told(fault("if (i < 7)\n__trap();", 1));
    assert_eq!((cause, line), (Cause::Trap, Some(4)), "{text}");
    let (cause, line, text) = told(fault("if (i == 5) __assertfail(\"i < 5\", \"mine.cu\", 3, \"k\", 1);", 1));
    assert_eq!((cause, line), (Cause::Trap, Some(3)), "{text}");
    assert!(text.contains("The assertion `i < 5` failed.") && text.contains("thread (5, 0, 0)"), "{text}");
    let (cause, _, text) = told(fault("while (atomicAdd(x, 0.0f) != 77.0f) {}", 1));
    assert_eq!(cause, Cause::Endless, "{text}");
    assert!(text.contains("line 3"), "{text}");
    let (cause, _, text) =
        told(fault("if (i < 32)\nx[i] = __shfl_xor_sync(~0u, x[i], 1); else asm volatile(\"bar.sync 3, 64;\");", 1));
    assert_eq!(cause, Cause::Barrier, "{text}");
    let (cause, line, text) =
        told(fault("__shared__ float s[8];\ns[i] = x[i];\n__syncthreads();\nx[i] = s[i ^ 1];", 1));
    assert_eq!((cause, line), (Cause::OutOfBounds, Some(4)), "{text}");
    assert!(text.contains("offset 32 of the block's shared memory, which has 32 bytes"), "{text}");
}

#[test]
fn launches_that_a_gpu_refuses_are_refused() {
    let mut machine = Machine::default();
    let kernel = kernel(&mut machine, "extern \"C\" __global__ void __launch_bounds__(128) k(int* x) {}");
    let mut refused = |launch: Launch, arguments: &[Argument]| {
        let fault = machine.gpu.launch(&kernel, &launch, arguments).unwrap_err();
        assert_eq!(fault.cause, Cause::Launch);
        fault.message
    };
    let x = [Argument::U64(0)];
    assert_eq!(refused(Launch::new(1, 256), &x), "A block of `k` may have 128 threads, not 256.");
    assert!(refused(Launch::new(0, 32), &x).contains("cannot be launched"));
    assert!(refused(Launch::new(1, 32), &[]).contains("takes 1 arguments, not 0"));
    assert!(refused(Launch::new(1, 32), &[Argument::U32(1)]).contains("has 8 bytes, not 4"));
    let large = Launch { dynamic_shared: 1 << 20, ..Launch::new(1, 32) };
    assert!(refused(large, &x).contains("may have 166912 bytes of shared memory"));
}
