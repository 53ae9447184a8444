//! Compares products by cuBLAS and cuBLASLt on a real GPU with loops in f64.

use half::{bf16, f16};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use warpbook_device::{Buffer, Cublas, CublasLt, CudaDevice, DevicePtr, Error, Library, LibraryGemm, testing};
use warpbook_record::Dtype;

const DTYPES: [Dtype; 4] = [Dtype::F32, Dtype::Tf32, Dtype::F16, Dtype::Bf16];
const WORKSPACE: usize = 32 << 20;

/// Returns a GPU and the library that `open` opens on it. If either is missing, reports the test as skipped and returns `None`.
fn on_gpu<T>(test: &str, open: impl FnOnce(&CudaDevice) -> Result<T, Error>) -> Option<(CudaDevice, T)> {
    let device = testing::gpu(test)?;
    match open(&device) {
        Ok(library) => Some((device, library)),
        Err(why) if why.is_missing(Library::Cublas) => {
            testing::skip(test, "needs cuBLAS", why);
            None
        }
        Err(why) => panic!("{why}"),
    }
}

/// Returns a multiple of 1/8 from -2 to 2. These values are exact in every type, and their products and sums are exact in f32.
fn coarse(seed: u64, i: usize) -> f32 {
    let word = (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15 ^ (seed << 17));
    ((word ^ (word >> 29)) % 33) as f32 / 8.0 - 2.0
}

/// Returns a float between 1 and 2 that uses all 24 bits of precision.
fn fine(seed: u64, i: usize) -> f32 {
    let word = (i as u64 + 1).wrapping_mul(0xbf58_476d_1ce4_e5b9 ^ (seed << 13));
    f32::from_bits(0x3f80_0000 | ((word ^ (word >> 31)) as u32 & 0x007f_ffff))
}

fn encode(dtype: Dtype, values: &[f32]) -> Vec<u8> {
    let bytes = |v: &f32| match dtype {
        Dtype::F16 => f16::from_f32(*v).to_le_bytes().to_vec(),
        Dtype::Bf16 => bf16::from_f32(*v).to_le_bytes().to_vec(),
        _ => v.to_le_bytes().to_vec(),
    };
    values.iter().flat_map(bytes).collect()
}

fn decode(dtype: Dtype, bytes: &[u8]) -> Vec<f32> {
    let wide = |b: &[u8]| match dtype {
        Dtype::F16 => f16::from_le_bytes([b[0], b[1]]).to_f32(),
        Dtype::Bf16 => bf16::from_le_bytes([b[0], b[1]]).to_f32(),
        _ => f32::from_le_bytes([b[0], b[1], b[2], b[3]]),
    };
    bytes.chunks_exact(dtype.bytes() as usize).map(wide).collect()
}

/// A product with its arrays on the device. The arrays begin `skip` elements after the start of their buffers.
struct Case {
    call: LibraryGemm,
    host: [Vec<f32>; 3],
    device: [Buffer<u8>; 3],
    skip: usize,
    /// For each element of C, the expected value in f64 and the sum of the magnitudes of its terms.
    want: Vec<(f64, f64)>,
}

impl Case {
    fn new(device: &CudaDevice, call: LibraryGemm, skip: usize, draw: fn(u64, usize) -> f32) -> Self {
        let rows = [if call.trans_a { call.k } else { call.m }, if call.trans_b { call.n } else { call.k }, call.m];
        let lengths = [(rows[0], call.lda), (rows[1], call.ldb), (rows[2], call.ldc)];
        let mut host = [0, 1, 2].map(|which| {
            let (rows, ld) = lengths[which];
            (0..skip + (rows * ld) as usize).map(|i| draw(which as u64, i)).collect::<Vec<f32>>()
        });
        if call.beta == 0.0 {
            // If beta is 0, C must not be read, so it is filled with NaN.
            host[2].fill(f32::NAN);
        }
        let device = [0, 1, 2].map(|i| device.buffer_from(&encode(call.dtype, &host[i])).unwrap());
        let want = reference(&call, host.each_ref().map(|v| &v[skip..]));
        Self { call, host, device, skip, want }
    }

    fn at(&self) -> [DevicePtr; 3] {
        self.device.each_ref().map(|b| b.at(self.skip * self.call.dtype.bytes() as usize))
    }

    /// Writes the original values of C back to the device.
    fn reset(&self) {
        self.device[2].write(&encode(self.call.dtype, &self.host[2])).unwrap();
    }

    /// Compares C on the device with the expected values. `bound` is the permitted error relative to the sum of the magnitudes, in addition
    /// to one rounding to C's type. Memory around C must be unchanged.
    fn check(&self, bound: f64, what: &str) {
        let (call, dtype) = (&self.call, self.call.dtype);
        let (n, ldc) = (call.n as usize, call.ldc as usize);
        let got = decode(dtype, &self.device[2].to_vec().unwrap());
        let stored = decode(dtype, &encode(dtype, &self.host[2]));
        let same = |at: usize| got[at].to_bits() == stored[at].to_bits();
        assert!((0..self.skip).all(same), "{what}: written before C");
        let half_ulp = if dtype.bytes() == 2 { dtype.epsilon() / 2.0 } else { 0.0 };
        for (i, row) in self.want.chunks(n).enumerate() {
            let start = self.skip + i * ldc;
            for (j, (want, scale)) in row.iter().enumerate() {
                let got = f64::from(got[start + j]);
                let allowed = bound * scale + half_ulp * want.abs();
                assert!((got - want).abs() <= allowed, "{what}, {call:?}: C[{i}][{j}] is {got}, not {want}");
            }
            assert!((start + n..start + ldc).all(same), "{what}, {call:?}: written behind row {i}");
        }
    }
}

fn reference(call: &LibraryGemm, [a, b, c]: [&[f32]; 3]) -> Vec<(f64, f64)> {
    let LibraryGemm { m, n, k, lda, ldb, ldc, trans_a, trans_b, alpha, beta, .. } = *call;
    let [m, n, k, lda, ldb, ldc] = [m, n, k, lda, ldb, ldc].map(|v| v as usize);
    let element = |i: usize, j: usize| {
        let term = |p: usize| {
            let a = if trans_a { a[p * lda + i] } else { a[i * lda + p] };
            let b = if trans_b { b[j * ldb + p] } else { b[p * ldb + j] };
            f64::from(alpha) * f64::from(a) * f64::from(b)
        };
        let old = if beta == 0.0 { 0.0 } else { f64::from(beta) * f64::from(c[i * ldc + j]) };
        (0..k).map(term).fold((old, old.abs()), |(sum, scale), t| (sum + t, scale + t.abs()))
    };
    (0..m * n).map(|at| element(at / n, at % n)).collect()
}

/// Returns small products of every type and transposition: square and odd sizes, single elements, and odd leading dimensions.
fn calls() -> impl Iterator<Item = LibraryGemm> {
    let shapes = [
        ((1, 1, 1), [0, 0, 0]),
        ((64, 64, 64), [0, 0, 0]),
        ((33, 129, 67), [0, 0, 0]),
        ((40, 24, 56), [1, 3, 5]),
        ((16, 32, 8), [4061, 4061, 4061]),
    ];
    let transpositions = [(false, false), (false, true), (true, false), (true, true)];
    DTYPES.into_iter().flat_map(move |dtype| {
        shapes.into_iter().flat_map(move |((m, n, k), pads)| {
            transpositions.into_iter().flat_map(move |(trans_a, trans_b)| {
                [(1.0, 0.0), (0.5, -2.0)].map(|(alpha, beta)| LibraryGemm {
                    m,
                    n,
                    k,
                    lda: if trans_a { m } else { k } + pads[0],
                    ldb: if trans_b { k } else { n } + pads[1],
                    ldc: n + pads[2],
                    trans_a,
                    trans_b,
                    alpha,
                    beta,
                    dtype,
                    out: dtype,
                })
            })
        })
    })
}

#[test]
fn cublas_multiplies_every_type_and_transposition() {
    let Some((device, cublas)) = on_gpu("cublas_multiplies_every_type_and_transposition", Cublas::open) else { return };
    println!("{cublas:?}");
    assert!(cublas.version().0 >= 12);
    let stream = device.stream().unwrap();
    for call in calls() {
        // The arrays begin either at the start of their buffers or one element later.
        for skip in [0, 1] {
            let case = Case::new(&device, call, skip, coarse);
            let [a, b, c] = case.at();
            // SAFETY: the arrays have the sizes that the call requires, and live until the stream has been waited for.
            unsafe { cublas.gemm(&stream, &call, a, b, c) }.unwrap();
            stream.synchronize().unwrap();
            // The sums are exact in f32, in whatever order the terms are added.
            case.check(0.0, "cuBLAS");
        }
    }
}

#[test]
fn all_algorithms_of_cublaslt_agree() {
    let Some((device, lt)) = on_gpu("all_algorithms_of_cublaslt_agree", CublasLt::open) else { return };
    println!("{lt:?}");
    let stream = device.stream().unwrap();
    let workspace = device.zeros::<u8>(WORKSPACE).unwrap();
    for call in calls() {
        for skip in [0, 1] {
            let case = Case::new(&device, call, skip, coarse);
            let [a, b, c] = case.at();
            let plans = lt.plans_at(&call, case.at(), 32, WORKSPACE as u64).unwrap();
            assert!(!plans.is_empty() && plans.len() <= 32);
            let mut ran = 0;
            for plan in &plans {
                assert!(plan.workspace_bytes() <= WORKSPACE);
                case.reset();
                // SAFETY: the arrays have the sizes that the call requires, and live until the stream has been waited for; nothing else uses the workspace.
                match unsafe { plan.launch(&stream, a, b, c, &workspace) } {
                    Ok(()) => {
                        stream.synchronize().unwrap();
                        case.check(0.0, &format!("{plan:?}"));
                        ran += 1;
                    }
                    // The device may refuse some of the suggested algorithms.
                    Err(why) => assert!(matches!(why, Error::Unsupported { .. }), "{why}"),
                }
            }
            assert!(ran > 0, "{call:?}: none of {} algorithms runs", plans.len());
        }
    }
}

#[test]
fn fp32_is_not_tf32() {
    let Some((device, cublas)) = on_gpu("fp32_is_not_tf32", Cublas::open) else { return };
    let Some((_, lt)) = on_gpu("fp32_is_not_tf32", CublasLt::open) else { return };
    let (stream, workspace) = (device.stream().unwrap(), device.zeros::<u8>(WORKSPACE).unwrap());
    // With so few terms, the rounding errors of TF32 do not cancel out.
    let (m, n, k) = (256, 192, 32);
    for (dtype, bound) in
        // The bounds are for a sum of k terms in f32, and for operands truncated to 11 bits, both with a safety factor of two.
        [(Dtype::F32, f64::from(k + 4) * 2f64.powi(-24)), (Dtype::Tf32, 2f64.powi(-8))]
    {
        let call = LibraryGemm {
            m,
            n,
            k,
            lda: k,
            ldb: n,
            ldc: n,
            trans_a: false,
            trans_b: false,
            alpha: 1.0,
            beta: 0.0,
            dtype,
            out: dtype,
        };
        let case = Case::new(&device, call, 0, fine);
        let [a, b, c] = case.at();
        // SAFETY: the arrays have the sizes that the call requires, and live until the stream has been waited for.
        unsafe { cublas.gemm(&stream, &call, a, b, c) }.unwrap();
        stream.synchronize().unwrap();
        case.check(bound, "cuBLAS");
        for plan in lt.plans(&call, 32, WORKSPACE as u64).unwrap() {
            case.reset();
            // SAFETY: the arrays have the sizes that the call requires, and live until the stream has been waited for; nothing else uses the workspace.
            if unsafe { plan.launch(&stream, a, b, c, &workspace) }.is_ok() {
                stream.synchronize().unwrap();
                case.check(bound, "cuBLASLt");
            }
        }
    }
}

#[test]
fn products_are_captured() {
    let Some((device, cublas)) = on_gpu("products_are_captured", Cublas::open) else { return };
    let Some((_, lt)) = on_gpu("products_are_captured", CublasLt::open) else { return };
    let (stream, workspace) = (device.stream().unwrap(), device.zeros::<u8>(WORKSPACE).unwrap());
    for call in calls().filter(|call| call.m == 33) {
        let case = Case::new(&device, call, 0, coarse);
        let [a, b, c] = case.at();
        // SAFETY: the arrays have the sizes that the call requires, and outlive the graph.
        let by_cublas = || unsafe { cublas.gemm(&stream, &call, a, b, c) };
        let plans = lt.plans(&call, 1, WORKSPACE as u64).unwrap();
        // SAFETY: the arrays and the workspace have the sizes that the call requires, and outlive the graph.
        let by_lt = || unsafe { plans[0].launch(&stream, a, b, c, &workspace) };
        for product in [&by_cublas as &dyn Fn() -> Result<(), Error>, &by_lt] {
            product().unwrap();
            stream.synchronize().unwrap();
            // SAFETY: the arrays and the workspace outlive the graph.
            let graph = unsafe { stream.capture(product) }.unwrap();
            assert!(graph.nodes() > 0);
            case.reset();
            graph.launch(&stream).unwrap();
            stream.synchronize().unwrap();
            case.check(0.0, "a graph");
        }
    }
}

/// Creating or destroying a handle waits for the whole device, which CUDA forbids while one of its streams is being captured. Without
/// precautions, the capture on the other thread would become invalid. Tests run on threads of the same process, so handles are created and
/// destroyed at any time.
#[test]
fn handles_are_made_and_ended_while_another_thread_captures() {
    let name = "handles_are_made_and_ended_while_another_thread_captures";
    let Some((device, cublas)) = on_gpu(name, Cublas::open) else { return };
    let stream = device.stream().unwrap();
    let call = calls().find(|c| c.m == 33).unwrap();
    let case = Case::new(&device, call, 0, coarse);
    let [a, b, c] = case.at();
    // SAFETY: the arrays have the sizes that the call requires, and outlive the graphs.
    let product = || unsafe { cublas.gemm(&stream, &call, a, b, c) };
    product().unwrap();
    stream.synchronize().unwrap();
    let pause = || std::thread::sleep(Duration::from_millis(2));
    let ended = AtomicBool::new(false);
    let (handles, captures) = std::thread::scope(|scope| {
        let others = scope.spawn(|| {
            let mut handles = 0;
            while !ended.load(Ordering::Relaxed) {
                Cublas::open(&device)?;
                CublasLt::open(&device)?;
                handles += 2;
            }
            Ok::<_, Error>(handles)
        });
        let capture = || {
            // SAFETY: the arrays outlive the graph.
            let graph = unsafe {
                stream.capture(|| {
                    product()?;
                    // The pause gives the other thread time to disturb the capture.
                    pause();
                    product()
                })
            }?;
            case.reset();
            graph.launch(&stream)?;
            stream.synchronize()
        };
        let captures: Vec<Result<(), Error>> = (0..100)
            .map(|_| {
                pause();
                capture()
            })
            .collect();
        ended.store(true, Ordering::Relaxed);
        (others.join().unwrap().unwrap(), captures)
    });
    let failed: Vec<_> = captures.iter().filter_map(|c| c.as_ref().err()).collect();
    assert!(failed.is_empty(), "{} of {} captures failed: {}", failed.len(), captures.len(), failed[0]);
    case.check(0.0, "a graph");
    assert!(handles >= 4, "{handles} handles were made during {} captures", captures.len());
}

#[test]
fn what_cannot_run_is_refused_in_words() {
    let Some((device, cublas)) = on_gpu("what_cannot_run_is_refused_in_words", Cublas::open) else { return };
    let Some((_, lt)) = on_gpu("what_cannot_run_is_refused_in_words", CublasLt::open) else { return };
    let stream = device.stream().unwrap();
    let call = calls().find(|c| c.dtype == Dtype::F16 && c.m == 64).unwrap();
    let case = Case::new(&device, call, 1, coarse);
    let [a, b, c] = case.at();
    let refused = |result: Result<(), Error>, expect: &str| {
        let error = result.unwrap_err();
        assert!(matches!(error, Error::Unsupported { .. }) && error.to_string().contains(expect), "{error}");
    };
    let flat = LibraryGemm { lda: 63, ..call };
    // SAFETY: the call is refused before anything is launched.
    refused(
        unsafe { cublas.gemm(&stream, &flat, a, b, c) },
        "leading dimension of at least 64, the length of a row of A",
    );
    refused(
        lt.plans(&flat, 32, WORKSPACE as u64).map(|_| ()),
        "leading dimension of at least 64, the length of a row of A",
    );
    let plan = lt.plans(&call, 1, WORKSPACE as u64).unwrap().remove(0);
    let workspace = device.zeros::<u8>(WORKSPACE).unwrap();
    // SAFETY: the call is refused before anything is launched.
    refused(unsafe { plan.launch(&stream, a, b, c, &workspace) }, "request plans with the actual address");
    if plan.workspace_bytes() > 0 {
        let [a, b, c] = case.device.each_ref().map(|b| b.at(0));
        let none = device.zeros::<u8>(0).unwrap();
        // SAFETY: the call is refused before anything is launched.
        refused(unsafe { plan.launch(&stream, a, b, c, &none) }, "needs a workspace of");
    }
}
