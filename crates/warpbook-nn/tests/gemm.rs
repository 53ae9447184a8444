//! Every rung and tile of the matrix product on a GPU, against f64 on the processor.

use warpbook_device::{Compiler, CudaDevice, testing};
use warpbook_nn::gemm::cpu::{Operands, reference_rows};
use warpbook_nn::gemm::{Arrays, Beside, Gemm, Plan, Product, obstacle};
use warpbook_nn::philox::gaussian;
use warpbook_nn::storage::{Storage, rounded};
use warpbook_record::matmul::{Finish, Form, rungs, takes};
use warpbook_record::{Dtype, Requires, Rung, Tile, Tolerance};

/// What a byte around C is filled with; as f16, bf16 and f32 a number that no product here gives.
const GUARD: u8 = 0xa5;
/// Elements around C that nobody may touch.
const FENCE: usize = 4096;

struct Case {
    product: Product,
    /// Elements that A and B begin after a multiple of 16 bytes.
    offset: usize,
    device: CudaDevice,
    host: [Vec<f32>; 4],
    arrays: [Storage; 4],
    c: Storage,
    c0: Vec<f32>,
}

impl Case {
    fn new(device: &CudaDevice, product: Product, offset: usize, values: impl Fn(u32, usize) -> f32) -> Self {
        let [a, b, c] = product.elements();
        let (dtype, out) = (product.form.dtype, product.form.out);
        let draw = |stream: u32, n: usize, dtype| -> Vec<f32> {
            (0..n).map(|i| rounded(values(stream, i), if dtype == Dtype::Tf32 { Dtype::F32 } else { dtype })).collect()
        };
        let host = [
            draw(0, a + offset, dtype),
            draw(1, b + offset, dtype),
            draw(2, product.n as usize, Dtype::F32),
            draw(3, c, out),
        ];
        let types = [dtype, dtype, Dtype::F32, out];
        let arrays = std::array::from_fn(|i| Storage::from_f32(device, &host[i], types[i]).unwrap());
        let c0 = draw(4, c, out);
        let c = Storage::zeros(device, c + 2 * FENCE, out).unwrap();
        Self { product, offset, device: device.clone(), host, arrays, c, c0 }
    }

    /// The whole of C's array after a product by that rung and tile, guards included; twice, as bits of f32.
    fn run(&self, rung: &Rung, tile: &Tile) -> Vec<f32> {
        let aligned = [self.offset == 0; 2];
        let plan = Plan::new(&self.device, rung, tile, &self.product, aligned).unwrap_or_else(|e| panic!("{e}"));
        let workspace = self.device.zeros::<u8>(plan.workspace_bytes() as usize).unwrap();
        let stream = self.device.stream().unwrap();
        let once = || {
            self.c.fill_bytes(GUARD).unwrap();
            let mut before = self.c.to_f32().unwrap();
            if self.product.beta != 0.0 {
                let (columns, ld) = (self.product.n as usize, self.product.ldc as usize);
                for row in 0..self.product.m as usize {
                    let (to, from) = (FENCE + row * ld, row * ld);
                    before[to..to + columns].copy_from_slice(&self.c0[from..from + columns]);
                }
                self.c.write_f32(&before).unwrap();
            }
            let [a, b, bias, mask] = &self.arrays;
            let arrays = Arrays {
                a: a.at(self.offset),
                b: b.at(self.offset),
                c: self.c.at(FENCE),
                bias: bias.at(0),
                mask: mask.at(0),
                workspace: workspace.at(0),
            };
            // SAFETY: the arrays have the elements that the product says, and live past the wait.
            unsafe { plan.launch(&stream, &arrays) }.unwrap_or_else(|e| panic!("{e}"));
            stream.synchronize().unwrap_or_else(|e| panic!("{e}"));
            self.c.to_f32().unwrap()
        };
        let (first, second) = (once(), once());
        let same = first.iter().zip(&second).all(|(a, b)| a.to_bits() == b.to_bits());
        assert!(same, "{} {}: other bits on a second run of {:?}", rung.id, tile.id, self.product);
        first
    }

    /// What C should be, and the sum of the magnitudes that were added, row by row without gaps.
    fn want(&self) -> (Vec<f64>, Vec<f64>) {
        let p = &self.product;
        let exact = |v: &[f32]| v.iter().map(|v| rounded(*v, p.form.dtype)).collect::<Vec<_>>();
        let (a, b) = (exact(&self.host[0][self.offset..]), exact(&self.host[1][self.offset..]));
        let rows: Vec<usize> = (0..p.m as usize).collect();
        let of = |a: &[f32], b: &[f32], c: &[f32], alpha: f32, beta: f32| {
            let ops = Operands {
                a,
                b,
                m: p.m as usize,
                n: p.n as usize,
                k: p.k as usize,
                lda: p.lda as usize,
                ldb: p.ldb as usize,
                ldc: p.ldc as usize,
                trans_a: p.form.trans_a,
                trans_b: p.form.trans_b,
                alpha,
                beta,
            };
            reference_rows(&ops, c, &rows).unwrap()
        };
        let magnitude = |v: &[f32]| v.iter().map(|v| v.abs()).collect::<Vec<_>>();
        let mut want = of(&a, &b, &self.c0, p.alpha, p.beta);
        let sums = of(&magnitude(&a), &magnitude(&b), &magnitude(&self.c0), p.alpha.abs(), p.beta.abs());
        for (i, v) in want.iter_mut().enumerate() {
            let (row, column) = (i / p.n as usize, i % p.n as usize);
            let bias = f64::from(self.host[2][column]);
            let mask = self.host[3][row * p.ldc as usize + column];
            match p.form.finish {
                Finish::None => {}
                Finish::Bias => *v += bias,
                Finish::BiasRelu => *v = if *v + bias < 0.0 { 0.0 } else { *v + bias },
                Finish::ReluMask => *v = if mask > 0.0 { *v } else { 0.0 },
            }
        }
        (want, sums)
    }

    fn check(&self, rung: &Rung, tile: &Tile, want: &(Vec<f64>, Vec<f64>)) {
        let p = &self.product;
        let got = self.run(rung, tile);
        let what = || format!("{} {} of {p:?}, offset {}", rung.id, tile.id, self.offset);
        let guard = self.guard();
        let (columns, ld) = (p.n as usize, p.ldc as usize);
        let Tolerance(tolerance) = Tolerance::product(p.form.dtype, p.k.into());
        for (i, value) in got.iter().enumerate() {
            let inside =
                i.checked_sub(FENCE).map(|i| (i / ld, i % ld)).filter(|(r, c)| *r < p.m as usize && *c < columns);
            let Some((row, column)) = inside else {
                assert_eq!(value.to_bits(), guard.to_bits(), "{}: touched element {i} beside C", what());
                continue;
            };
            let (w, magnitude) = (want.0[row * columns + column], want.1[row * columns + column]);
            let g = f64::from(*value);
            if w.is_nan() || w.is_infinite() {
                assert!(g == w || (g.is_nan() && w.is_nan()), "{}: element ({row}, {column}) is {g}, not {w}", what());
                continue;
            }
            let beyond = ((g - w).abs() - 0.5 * p.form.out.epsilon() * w.abs()).max(0.0);
            // What is below the smallest normal f16 is rounded more coarsely.
            let tiny = if p.form.out == Dtype::F16 { 1e-7 } else { 1e-30 };
            assert!(
                beyond <= tolerance * magnitude + tiny,
                "{}: element ({row}, {column}) is {g}, not {w}; {:.1e} of {magnitude:.2e}, more than {tolerance:.1e}",
                what(),
                beyond / magnitude
            );
        }
    }

    fn guard(&self) -> f32 {
        let bytes = [GUARD; 4];
        match self.product.form.out {
            Dtype::F16 => half::f16::from_le_bytes([GUARD; 2]).to_f32(),
            Dtype::Bf16 => half::bf16::from_le_bytes([GUARD; 2]).to_f32(),
            _ => f32::from_le_bytes(bytes),
        }
    }
}

fn normal(stream: u32, i: usize) -> f32 {
    gaussian(7, i as u64, stream)
}

fn kernels(device: &CudaDevice) -> Vec<Rung> {
    let cc = device.info().compute_capability;
    rungs().into_iter().filter(|r| !r.kernels().is_empty() && r.requires.met_by(cc)).collect()
}

fn takes_it(device: &CudaDevice, rung: &Rung, form: Form) -> bool {
    obstacle(rung, form, device.info().compute_capability).is_none()
}

fn every_form(dtype: Dtype) -> Vec<Form> {
    let plain = Form::plain(if dtype == Dtype::Tf32 { Dtype::F32 } else { dtype });
    let plain = Form { dtype, ..plain };
    let mut forms: Vec<Form> = [(false, false), (true, false), (false, true), (true, true)]
        .map(|(trans_a, trans_b)| Form { trans_a, trans_b, ..plain })
        .into();
    forms.extend([Finish::Bias, Finish::BiasRelu, Finish::ReluMask].map(|finish| Form { finish, ..plain }));
    if matches!(dtype, Dtype::F16 | Dtype::Bf16) {
        forms.push(Form { out: Dtype::F32, ..plain });
    }
    forms
}

/// The forms that rungs are tried in: all of them in bf16, fp32 and tf32, the plain one where types differ in nothing else.
fn tried(rung: &Rung, dtype: Dtype) -> Vec<Form> {
    let all = every_form(dtype);
    let on_cuda_cores = takes(&rung.id).is_some_and(|t| t.dtypes[0] == Dtype::F32);
    match dtype {
        Dtype::F16 => all[..1].to_vec(),
        Dtype::Bf16 if on_cuda_cores => all[..1].to_vec(),
        _ => all,
    }
}

#[test]
fn every_form_of_every_rung_compiles() {
    let compiler = Compiler::new(None).unwrap_or_else(|e| panic!("{e}"));
    let mut compiled = 0;
    for rung in rungs().iter().filter(|r| !r.kernels().is_empty()) {
        for dtype in [Dtype::F32, Dtype::Tf32, Dtype::F16, Dtype::Bf16] {
            for form in tried(rung, dtype).into_iter().filter(|f| obstacle(rung, *f, Some((9, 0))).is_none()) {
                let spec = Plan::spec(rung, &Product::new(1, 1, 1, form)).unwrap();
                let architecture = match &spec.requires {
                    Some(Requires::Exactly(name)) => name.to_string(),
                    _ => "sm_90".into(),
                };
                let built = compiler.compile(&spec, &spec.tiles[0], &architecture).unwrap_or_else(|e| panic!("{e}"));
                assert!(built.stats_of("gemm").is_some_and(|s| s.registers > 0), "{} in {form:?}", rung.id);
                compiled += 1;
            }
        }
    }
    assert!(compiled > 100, "only {compiled} were tried");
}

#[test]
fn every_tile_of_every_rung_is_right() {
    let Some(device) = testing::gpu("every_tile_of_every_rung_is_right") else { return };
    for dtype in [Dtype::F32, Dtype::Tf32, Dtype::F16, Dtype::Bf16] {
        let form = every_form(dtype)[0];
        let product = Product::new(300, 520, 392, form);
        let case = Case::new(&device, product, 0, normal);
        let want = case.want();
        let taking: Vec<Rung> = kernels(&device).into_iter().filter(|r| takes_it(&device, r, form)).collect();
        for rung in taking {
            // Every tile in a rung's first type; in the others the one that products are given first.
            let tiles = &rung.kernels()[0].tiles;
            let every = takes(&rung.id).is_some_and(|t| t.dtypes[0] == dtype);
            for tile in &tiles[..if every { tiles.len() } else { 1 }] {
                case.check(&rung, tile, &want);
            }
        }
    }
}

#[test]
fn every_rung_takes_every_form_and_shape() {
    let Some(device) = testing::gpu("every_rung_takes_every_form_and_shape") else { return };
    let shapes = [(1, 1, 1), (17, 33, 5), (129, 130, 67), (64, 264, 200), (200, 77, 1), (3, 513, 1030)];
    for dtype in [Dtype::F32, Dtype::Tf32, Dtype::F16, Dtype::Bf16] {
        let rungs = kernels(&device);
        let forms = every_form(dtype);
        for (i, form) in forms.into_iter().enumerate() {
            for (j, (m, n, k)) in shapes.into_iter().enumerate() {
                let tight = Product::new(m, n, k, form);
                // By turns: rows without gaps, rows of a multiple of 16 bytes, and rows that are multiples of nothing.
                let (product, offset) = match (i + j) % 3 {
                    0 => (tight, 0),
                    1 => {
                        let up = |v: u32| v.next_multiple_of(8) + 8;
                        (tight.leading(up(tight.lda), up(tight.ldb), up(tight.ldc)), 0)
                    }
                    _ => (tight.leading(tight.lda + 3, tight.ldb + 1, tight.ldc + 5), 1),
                };
                let product = if (i + j) % 2 == 0 { product } else { product.scaled(-0.5, 2.0) };
                let case = Case::new(&device, product, offset, normal);
                let want = case.want();
                for rung in rungs.iter().filter(|r| takes_it(&device, r, form) && tried(r, dtype).contains(&form)) {
                    case.check(rung, &rung.kernels()[0].tiles[0], &want);
                }
            }
        }
    }
}

#[test]
fn what_is_no_number_stays_so() {
    let Some(device) = testing::gpu("what_is_no_number_stays_so") else { return };
    // NaN in A, infinity in B, zeros beside them.
    let values = |stream: u32, i: usize| match (stream, i) {
        (0, 333) => f32::NAN,
        (0, _) if i.is_multiple_of(97) => 0.0,
        (1, 500) => f32::INFINITY,
        (1, 2001) => f32::NEG_INFINITY,
        // What C held does not matter where beta is 0.
        (4, _) => f32::NAN,
        _ => normal(stream, i),
    };
    for dtype in [Dtype::F32, Dtype::Tf32, Dtype::F16, Dtype::Bf16] {
        let form = every_form(dtype)[0];
        let case = Case::new(&device, Product::new(130, 70, 99, form), 0, values);
        let want = case.want();
        assert!(want.0.iter().any(|v| v.is_nan()) && want.0.iter().any(|v| v.is_finite()));
        for rung in kernels(&device) {
            if takes_it(&device, &rung, form) {
                case.check(&rung, &rung.kernels()[0].tiles[0], &want);
            }
        }
    }
}

#[test]
fn one_entry_chooses_and_is_right() {
    let Some(device) = testing::gpu("one_entry_chooses_and_is_right") else { return };
    let gemm = Gemm::new(&device).unwrap();
    let stream = device.stream().unwrap();
    let (m, n, k) = (130u32, 94u32, 71u32);
    let form = Form { out: Dtype::F32, finish: Finish::BiasRelu, ..Form::plain(Dtype::Bf16) };
    let product = Product::new(m, n, k, form);
    let values = |stream, len: u32| -> Vec<half::bf16> {
        (0..len as usize).map(|i| half::bf16::from_f32(normal(stream, i))).collect()
    };
    let (host_a, host_b) = (values(0, m * k), values(1, k * n));
    let host_bias: Vec<f32> = (0..n as usize).map(|i| normal(2, i)).collect();
    let (a, b) = (device.buffer_from(&host_a).unwrap(), device.buffer_from(&host_b).unwrap());
    let (bias, c) = (device.buffer_from(&host_bias).unwrap(), device.zeros::<f32>((m * n) as usize).unwrap());
    let beside = Beside { bias: Some(&bias), mask: None };
    // SAFETY: the arrays outlive the wait below.
    unsafe { gemm.gemm(&stream, &product, (&a, &b, &c), beside) }.unwrap();
    stream.synchronize().unwrap();
    let got = c.to_vec().unwrap();
    for (i, got) in got.iter().enumerate() {
        let (row, column) = (i / n as usize, i % n as usize);
        let at = |p: usize| {
            f64::from(host_a[row * k as usize + p].to_f32()) * f64::from(host_b[p * n as usize + column].to_f32())
        };
        let want = ((0..k as usize).map(at).sum::<f64>() + f64::from(host_bias[column])).max(0.0);
        assert!((f64::from(*got) - want).abs() < 1e-4 * (1.0 + want), "({row}, {column}): {got} {want}");
    }
    // Bad calls say what is wrong, and touch nothing.
    let refused = |product: &Product, beside| {
        // SAFETY: as above.
        unsafe { gemm.gemm(&stream, product, (&a, &b, &c), beside) }.unwrap_err().to_string()
    };
    assert!(refused(&Product::new(m + 1, n, k, form), beside).contains("A has"));
    assert!(refused(&product, Beside::default()).contains("bias needs"));
    assert!(refused(&Product::new(m, n, k, Form::plain(Dtype::F16)), beside).contains("the arrays are bf16"));
    assert!(refused(&product.leading(k - 1, n, n), beside).contains("lda is"));
}
