//! Every rung and tile of the matrix product on a GPU is compared with f64 on the CPU.

use std::sync::Arc;
use warpbook_data::parallel::collect;
use warpbook_data::philox::gaussian;
use warpbook_device::{Compiler, CudaDevice, testing};
use warpbook_gemm::cpu::{Operands, reference_rows};
use warpbook_gemm::storage::{Storage, rounded};
use warpbook_gemm::{DeviceArray, DeviceArrays, Gemm, Judge, Plan, Product, Workspace, gelu};
use warpbook_kernels::Tolerance;
use warpbook_kernels::matmul::{Epilogue, Form, Row, rows};
use warpbook_record::{Dtype, Requires, Tile};

/// Value of the bytes around C. Read as f16, bf16 or f32, they are numbers that no product in these tests gives.
const GUARD: u8 = 0xa5;
/// Number of elements around C that must not be written.
const FENCE: usize = 4096;

struct Case {
    product: Product,
    /// Number of elements between a multiple of 16 bytes and the start of A and B.
    offset: usize,
    device: CudaDevice,
    host: [Vec<f32>; 4],
    arrays: [Storage; 4],
    c: Storage,
    /// Values of C before the product.
    c0: Vec<f32>,
    /// Values of the bias gradient before the product.
    sums0: Vec<f32>,
}

impl Case {
    fn new(device: &CudaDevice, product: Product, offset: usize, values: impl Fn(u32, usize) -> f32) -> Self {
        let [a, b, c] = product.elements();
        let (dtype, out) = (product.form.dtype, product.form.out);
        let draw = |stream: u32, n: usize, dtype| -> Vec<f32> {
            (0..n).map(|i| rounded(values(stream, i), if dtype == Dtype::Tf32 { Dtype::F32 } else { dtype })).collect()
        };
        // Pads to whole vectors of 16 bytes, since compute-sanitizer assumes that a cp.async which reads fewer bytes reads all of them.
        let padded = |elements: usize| (elements + offset).next_multiple_of(8);
        let host = [
            draw(0, padded(a), dtype),
            draw(1, padded(b), dtype),
            draw(2, product.n as usize, Dtype::F32),
            draw(3, c, out),
        ];
        let types = [dtype, dtype, Dtype::F32, out];
        let arrays = std::array::from_fn(|i| Storage::from_f32(device, &host[i], types[i]).unwrap());
        let c0 = draw(4, c, out);
        let c = Storage::zeros(device, c + 2 * FENCE, out).unwrap();
        let sums0 = draw(5, product.n as usize, Dtype::F32);
        Self { product, offset, device: device.clone(), host, arrays, c, c0, sums0 }
    }

    /// Fills C's array with guards, and with the previous values of C.
    fn reset_c(&self) {
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
    }

    /// Returns the case's arrays on the device, without a bias gradient.
    fn device_arrays(&self) -> DeviceArrays {
        let [a, b, bias, mask] = &self.arrays;
        let [a_len, b_len, c_len] = self.product.elements();
        let part = |storage: &Storage, first, len| DeviceArray::from(storage).range(first..first + len);
        let mut arrays =
            DeviceArrays::new(part(a, self.offset, a_len), part(b, self.offset, b_len), part(&self.c, FENCE, c_len));
        let epilogue = self.product.form.epilogue;
        arrays.epilogue.bias = epilogue.has_bias().then(|| bias.into());
        arrays.epilogue.mask = epilogue.has_mask().then(|| mask.into());
        arrays
    }

    /// Returns C's array with its guards, and the bias gradient, after a product by this row's kernel and tile. The product runs twice, and both results must
    /// have the same bits.
    fn run(&self, row: &Row, tile: &Tile) -> (Vec<f32>, Vec<f32>) {
        let aligned = [self.offset == 0; 2];
        let plan = Plan::new(&self.device, row, tile, &self.product, aligned).unwrap_or_else(|e| panic!("{e}"));
        let workspace = Workspace::for_plans(&self.device, [&plan]).unwrap();
        let stream = self.device.stream().unwrap();
        let once = || {
            self.reset_c();
            let mut arrays = self.device_arrays();
            let sums = self.device.buffer_from(&self.sums0).unwrap();
            arrays.bias_gradient = self.product.bias_gradient.then(|| (&sums).into());
            plan.run(&stream, &arrays, &workspace, None).unwrap_or_else(|e| panic!("{e}"));
            (self.c.to_f32().unwrap(), sums.to_vec().unwrap())
        };
        let (first, second) = (once(), once());
        let same = |a: &[f32], b: &[f32]| a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits());
        let repeats = same(&first.0, &second.0) && same(&first.1, &second.1);
        assert!(repeats, "{} {}: other bits on a second run of {:?}", row.rung.id, tile.id, self.product);
        first
    }

    /// Returns the expected C, and the scale of the rounding errors of its elements, row by row without gaps.
    fn want(&self) -> (Vec<f64>, Vec<f64>) {
        let p = &self.product;
        let exact = |v: &[f32]| v.iter().map(|v| rounded(*v, p.form.dtype)).collect::<Vec<_>>();
        let (a, b) = (exact(&self.host[0][self.offset..]), exact(&self.host[1][self.offset..]));
        let rows: Vec<usize> = (0..p.m as usize).collect();
        let product = |a: &[f32], b: &[f32], c: &[f32], alpha: f32, beta: f32| {
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
        let mut want = product(&a, &b, &self.c0, p.alpha, p.beta);
        let mut sums = product(&magnitude(&a), &magnitude(&b), &magnitude(&self.c0), p.alpha.abs(), p.beta.abs());
        for (i, v) in want.iter_mut().enumerate() {
            let (row, column) = (i / p.n as usize, i % p.n as usize);
            let bias = f64::from(self.host[2][column]);
            let mask = self.host[3][row * p.ldc as usize + column];
            match p.form.epilogue {
                Epilogue::None => {}
                Epilogue::Bias => *v += bias,
                Epilogue::BiasRelu => *v = if *v + bias < 0.0 { 0.0 } else { *v + bias },
                Epilogue::ReluMask => *v = if mask <= 0.0 { 0.0 } else { *v },
                Epilogue::Gelu | Epilogue::BiasGelu => {
                    let x = if p.form.epilogue == Epilogue::BiasGelu { *v + bias } else { *v };
                    *v = gelu(x);
                    // The slope of gelu is at most 1.13, and erff adds an error of its own.
                    sums[i] = 1.13 * sums[i] + x.abs();
                }
            }
        }
        (want, sums)
    }

    /// Compiles the kernels under test on all threads.
    fn compile(&self, jobs: &[(&Row, &Tile)]) {
        let aligned = [self.offset == 0; 2];
        collect(jobs.len(), &|i| {
            let (row, tile) = jobs[i];
            Plan::new(&self.device, row, tile, &self.product, aligned).unwrap_or_else(|e| panic!("{e}"));
        });
    }

    fn check(&self, row: &Row, tile: &Tile, want: &(Vec<f64>, Vec<f64>)) {
        let p = &self.product;
        let (got, sums) = self.run(row, tile);
        let what = || format!("{} {} of {p:?}, offset {}", row.rung.id, tile.id, self.offset);
        let guard = self.guard();
        let (columns, ld) = (p.n as usize, p.ldc as usize);
        let Tolerance(tolerance) = Tolerance::product(p.form.dtype, p.k.into());
        for (i, value) in got.iter().enumerate() {
            let inside =
                i.checked_sub(FENCE).map(|i| (i / ld, i % ld)).filter(|(r, c)| *r < p.m as usize && *c < columns);
            let Some((row, column)) = inside else {
                assert_eq!(value.to_bits(), guard.to_bits(), "{}: touched element {i} outside C", what());
                continue;
            };
            let (w, magnitude) = (want.0[row * columns + column], want.1[row * columns + column]);
            let g = f64::from(*value);
            if w.is_nan() || w.is_infinite() {
                assert!(g == w || (g.is_nan() && w.is_nan()), "{}: element ({row}, {column}) is {g}, not {w}", what());
                continue;
            }
            let (error, rounding) = ((g - w).abs(), 0.5 * p.form.out.epsilon() * w.abs());
            // `max` would turn NaN into 0.
            let beyond = if error <= rounding { 0.0 } else { error - rounding };
            // Values below the smallest normal f16 are rounded more coarsely.
            let tiny = if p.form.out == Dtype::F16 { 1e-7 } else { 1e-30 };
            assert!(
                beyond <= tolerance * magnitude + tiny,
                "{}: element ({row}, {column}) is {g}, not {w}; {:.1e} of {magnitude:.2e}, more than {tolerance:.1e}",
                what(),
                beyond / magnitude
            );
        }
        self.check_bias_gradient(&sums, &what());
    }

    fn check_bias_gradient(&self, got: &[f32], what: &str) {
        let p = &self.product;
        if !p.bias_gradient {
            return;
        }
        let (ldb, b) = (p.ldb as usize, &self.host[1][self.offset..]);
        let (alpha, beta) = (f64::from(p.alpha), f64::from(p.beta));
        for (j, got) in got.iter().enumerate() {
            let at = |r: usize| f64::from(b[if p.form.trans_b { j * ldb + r } else { r * ldb + j }]);
            let before = beta * f64::from(self.sums0[j]);
            let want = alpha * (0..p.k as usize).map(at).sum::<f64>() + before;
            let magnitude = alpha.abs() * (0..p.k as usize).map(|r| at(r).abs()).sum::<f64>() + before.abs();
            let error = (f64::from(*got) - want).abs();
            let bound = 8.0 * f64::from(p.k).sqrt() * 2f64.powi(-24) * magnitude + 1e-30;
            assert!(error <= bound, "{what}: bias gradient {j} is {got}, not {want}");
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

fn kernels(device: &CudaDevice) -> Vec<Row> {
    let cc = device.info().compute_capability;
    rows().into_iter().filter(|r| r.kernel().is_some() && r.rung.requires.met_by(cc)).collect()
}

fn takes_it(device: &CudaDevice, row: &Row, form: Form) -> bool {
    row.obstacle(form, device.info().compute_capability).is_none()
}

fn every_form(dtype: Dtype) -> Vec<Form> {
    let plain = Form::plain(if dtype == Dtype::Tf32 { Dtype::F32 } else { dtype });
    let plain = Form { dtype, ..plain };
    let mut forms: Vec<Form> = [(false, false), (true, false), (false, true), (true, true)]
        .map(|(trans_a, trans_b)| Form { trans_a, trans_b, ..plain })
        .into();
    forms.extend(Epilogue::ALL[1..].iter().map(|epilogue| Form { epilogue: *epilogue, ..plain }));
    if matches!(dtype, Dtype::F16 | Dtype::Bf16) {
        forms.push(Form { out: Dtype::F32, ..plain });
    }
    forms
}

/// Returns the forms in which rungs are tested: all forms in bf16, fp32 and tf32, and only the plain form in types that add no new case. In fp16 the WMMA rung
/// is tested in all forms, since the first tensor cores store fp16 fragments differently and support no other type.
fn tried(row: &Row, dtype: Dtype) -> Vec<Form> {
    let all = every_form(dtype);
    let on_cuda_cores = row.capabilities().is_some_and(|c| c.dtypes[0].0 == Dtype::F32);
    match dtype {
        Dtype::F16 if row.rung.id == "09_wmma" => all,
        Dtype::F16 => all[..1].to_vec(),
        Dtype::Bf16 if on_cuda_cores => all[..1].to_vec(),
        _ => all,
    }
}

#[test]
fn every_form_of_every_rung_compiles() {
    let compiler = Compiler::new(None).unwrap_or_else(|e| panic!("{e}"));
    let rows: Vec<Row> = rows().into_iter().filter(|r| r.kernel().is_some()).collect();
    let mut forms = Vec::new();
    for row in &rows {
        for dtype in [Dtype::F32, Dtype::Tf32, Dtype::F16, Dtype::Bf16] {
            let takes = tried(row, dtype).into_iter().filter(|f| row.obstacle(*f, Some((9, 0))).is_none());
            forms.extend(takes.map(|form| (row, form)));
        }
    }
    assert!(forms.len() > 100, "only {} were tried", forms.len());
    collect(forms.len(), &|i| {
        let (row, form) = forms[i];
        let spec = Plan::spec(row, &Product::new(1, 1, 1, form)).unwrap();
        let architecture = match &spec.requires {
            Some(Requires::Exactly(name)) => name.to_string(),
            _ => "sm_90".into(),
        };
        let built = compiler.compile(&spec, &spec.tiles[0], &architecture).unwrap_or_else(|e| panic!("{e}"));
        assert!(built.stats_of("gemm").is_some_and(|s| s.registers > 0), "{} in {form:?}", row.rung.id);
    });
}

#[test]
fn every_tile_of_every_rung_is_right() {
    let Some(device) = testing::gpu("every_tile_of_every_rung_is_right") else { return };
    for dtype in [Dtype::F32, Dtype::Tf32, Dtype::F16, Dtype::Bf16] {
        let form = every_form(dtype)[0];
        let product = Product::new(300, 520, 392, form);
        let case = Case::new(&device, product, 0, normal);
        let want = case.want();
        let taking: Vec<Row> = kernels(&device).into_iter().filter(|r| takes_it(&device, r, form)).collect();
        let mut jobs = Vec::new();
        for row in &taking {
            // Every tile is tested in a rung's first type, and only the first tile in the other types.
            let tiles = &row.kernel().unwrap().tiles;
            let every = row.capabilities().is_some_and(|c| c.dtypes[0].0 == dtype);
            jobs.extend(tiles[..if every { tiles.len() } else { 1 }].iter().map(|tile| (row, tile)));
        }
        case.compile(&jobs);
        jobs.iter().for_each(|(row, tile)| case.check(row, tile, &want));
    }
}

/// Covers cases that the first tiles do not: k shared by slices and clusters, and slices that get no part of k.
#[test]
fn every_tile_that_shares_k_takes_every_form_and_odd_shapes() {
    let Some(device) = testing::gpu("every_tile_that_shares_k_takes_every_form_and_odd_shapes") else { return };
    let shares_k =
        |row: &Row| ["15_split_k", "15d_split_over_workspace", "17_unaligned", "18_stream_k"].contains(&&*row.rung.id);
    for (i, form) in every_form(Dtype::Bf16).into_iter().enumerate() {
        for (j, (m, n, k)) in [(69, 63, 531), (131, 257, 33), (65, 129, 2049)].into_iter().enumerate() {
            let tight = Product::new(m, n, k, form);
            // Rows either have no gaps and an aligned address, or gaps and an odd address.
            let (product, offset) = match (i + j) % 2 {
                0 => (tight, 0),
                _ => (tight.leading(tight.lda + 2, tight.ldb + 4, tight.ldc + 1).scaled(0.5, -1.0), 1 + 2 * j),
            };
            let case = Case::new(&device, product, offset, normal);
            let want = case.want();
            let rows = kernels(&device);
            let taking = rows.iter().filter(|r| shares_k(r) && takes_it(&device, r, form));
            let jobs: Vec<(&Row, &Tile)> =
                taking.flat_map(|row| row.kernel().unwrap().tiles.iter().map(move |tile| (row, tile))).collect();
            case.compile(&jobs);
            jobs.iter().for_each(|(row, tile)| case.check(row, tile, &want));
        }
    }
}

/// Tests few tiles with a long k, so that every tile has several parts of k. Rows are copied first, C has panels, and the sums are stored after the copies.
#[test]
fn a_k_in_many_parts_is_right() {
    let Some(device) = testing::gpu("a_k_in_many_parts_is_right") else { return };
    let rows = kernels(&device);
    let Some(row) = rows.iter().find(|r| r.rung.id == "15d_split_over_workspace") else {
        println!("skipped: a k in many parts needs a GPU of Hopper");
        return;
    };
    let shapes = [(136, 200, 4096), (72, 65, 9000), (136, 264, 5001)];
    let tiles = &row.kernel().unwrap().tiles;
    for (i, form) in every_form(Dtype::Bf16).into_iter().enumerate() {
        let (m, n, k) = shapes[i % shapes.len()];
        let product = loose_where_odd(Product::new(m, n, k, form));
        let product = if k % 2 == 0 { product } else { product.with_bias_gradient() };
        let case = Case::new(&device, product, usize::from(n % 2 != 0), normal);
        let want = case.want();
        case.compile(&tiles.iter().map(|tile| (row, tile)).collect::<Vec<_>>());
        for tile in tiles {
            let plan = Plan::new(&device, row, tile, &product, [n % 2 == 0; 2]).unwrap_or_else(|e| panic!("{e}"));
            assert!(plan.k_splits() > 1, "{}: one part of {product:?}", tile.id);
            assert!(plan.preparation().is_some_and(|text| text.contains("parts")));
            case.check(row, tile, &want);
        }
    }
}

/// If n is odd, returns the product with padded rows, unaligned addresses and factors; otherwise returns it unchanged.
fn loose_where_odd(tight: Product) -> Product {
    if tight.n.is_multiple_of(2) {
        return tight;
    }
    tight.leading(tight.lda + 3, tight.ldb + 1, tight.ldc + 5).scaled(0.5, -1.0)
}

/// Returns the rung that cuts tiles along k, if the device supports it.
fn stream_k(device: &CudaDevice) -> Option<Row> {
    let row = kernels(device).into_iter().find(|r| r.rung.id == "18_stream_k");
    if row.is_none() {
        println!("skipped: tiles are cut along k on a GPU of Hopper");
    }
    row
}

fn bits_of(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| v.to_bits()).collect()
}

/// Tests fewer tiles than SMs and more, by TMA and by warps, with copies, edges and a k that ends within a block; also checks that a graph gives
/// the same bits.
#[test]
fn tiles_that_are_cut_along_k_are_right() {
    let Some(device) = testing::gpu("tiles_that_are_cut_along_k_are_right") else { return };
    let Some(row) = stream_k(&device) else { return };
    // Each of these shapes has tiles that are cut on 132 SMs; the last three also have whole tiles.
    let shapes =
        [(300, 520, 4096), (264, 391, 6001), (136, 648, 8200), (1500, 2904, 328), (1470, 2901, 391), (2300, 2904, 520)];
    let tiles = &row.kernel().unwrap().tiles;
    let mut forms: Vec<Form> = every_form(Dtype::Bf16);
    forms.extend([Form::plain(Dtype::F16), Form { out: Dtype::F32, ..Form::plain(Dtype::Tf32) }]);
    for (i, form) in forms.into_iter().enumerate() {
        let (m, n, k) = shapes[i % shapes.len()];
        let product = loose_where_odd(Product::new(m, n, k, form));
        let case = Case::new(&device, product, usize::from(n % 2 != 0), normal);
        let want = case.want();
        case.compile(&tiles.iter().map(|tile| (&row, tile)).collect::<Vec<_>>());
        let mut cut = 0;
        for tile in tiles {
            case.check(&row, tile, &want);
            let plan = Arc::new(Plan::new(&device, &row, tile, &product, [n % 2 == 0; 2]).unwrap());
            cut += usize::from(plan.preparation().is_some_and(|text| text.contains("along k into")));
            let workspace = Workspace::for_plans(&device, [&*plan]).unwrap();
            let bound = plan.bind(&case.device_arrays(), &workspace).unwrap();
            let stream = device.stream().unwrap();
            let graph = stream.capture_owning("a product", (), |()| bound.launch(&stream)).unwrap();
            let (once, _) = case.run(&row, tile);
            for _ in 0..3 {
                case.reset_c();
                graph.launch(&stream).unwrap();
                stream.synchronize().unwrap();
                let again = case.c.to_f32().unwrap();
                assert!(bits_of(&again) == bits_of(&once), "{} of {product:?}: other bits in a graph", tile.id);
            }
        }
        assert!(device.info().multiprocessors != 132 || cut > 0, "no tile is cut of {product:?}");
    }
}

/// The flags of one plan are stored where other plans leave sums and copies, and a launch may start before the previous launch has ended.
#[test]
fn products_with_tiles_that_are_cut_follow_each_other() {
    let Some(device) = testing::gpu("products_with_tiles_that_are_cut_follow_each_other") else { return };
    let Some(row) = stream_k(&device) else { return };
    let rows = kernels(&device);
    let rung = |id: &str| rows.iter().find(|r| r.rung.id == id).expect("another rung of Hopper");
    let in_parts = rung("15d_split_over_workspace");
    let form = Form::plain(Dtype::Bf16);
    let case = |row: &Row, tile: &str, (m, n, k)| {
        let case = Case::new(&device, Product::new(m, n, k, form), 0, normal);
        let tile = row.kernel().unwrap().tile(tile).unwrap().clone();
        case.check(row, &tile, &case.want());
        let (want, _) = case.run(row, &tile);
        let plan = Arc::new(Plan::new(&device, row, &tile, &case.product, [true; 2]).unwrap());
        (case, plan, bits_of(&want))
    };
    let cases = [
        case(&row, "128x256s4c1g8", (1500, 2904, 328)),
        case(&row, "128x128s6c2g8", (300, 520, 4096)),
        case(in_parts, "128x128s6c1", (136, 200, 4096)),
        // B is copied to the memory where the first product leaves sums.
        case(&row, "192x128s4c1g8", (1500, 2901, 328)),
        case(&row, "128x256s4c1g8", (1100, 3000, 328)),
        // Both operands are copied, and k is divided.
        case(in_parts, "64x64s12c1", (137, 203, 4001)),
        case(rung("17b_unaligned_in_parts"), "32x32s8k4", (27, 45, 4427)),
    ];
    let workspace = Workspace::for_plans(&device, cases.iter().map(|(_, plan, _)| &**plan)).unwrap();
    let bound: Vec<_> =
        cases.iter().map(|(case, plan, _)| plan.bind(&case.device_arrays(), &workspace).unwrap()).collect();
    let stream = device.stream().unwrap();
    for round in 0..50 {
        cases.iter().for_each(|(case, ..)| case.reset_c());
        // The order of the products differs in each round; some products run twice in a row, and at the end each product runs once.
        for i in 0..4 * bound.len() {
            bound[(i * (round % 4 + 1) + i / bound.len() + round) % bound.len()].launch(&stream).unwrap();
        }
        bound.iter().for_each(|b| b.launch(&stream).unwrap());
        stream.synchronize().unwrap();
        for (case, plan, want) in &cases {
            let got = bits_of(&case.c.to_f32().unwrap());
            assert!(got == *want, "{} {} of {:?}: other bits", plan.rung(), plan.tile(), case.product);
        }
    }
}

#[test]
fn every_rung_takes_every_form_and_shape() {
    let Some(device) = testing::gpu("every_rung_takes_every_form_and_shape") else { return };
    let shapes = [(1, 1, 1), (17, 33, 5), (129, 130, 67), (64, 264, 200), (200, 77, 1), (3, 513, 1030)];
    for dtype in [Dtype::F32, Dtype::Tf32, Dtype::F16, Dtype::Bf16] {
        let all = kernels(&device);
        let forms = every_form(dtype);
        for (i, form) in forms.into_iter().enumerate() {
            for (j, (m, n, k)) in shapes.into_iter().enumerate() {
                let tight = Product::new(m, n, k, form);
                // The cases alternate between rows without gaps, rows of a multiple of 16 bytes, and unaligned rows.
                let (product, offset) = match (i + j) % 3 {
                    0 => (tight, 0),
                    1 => {
                        let up = |v: u32| v.next_multiple_of(8) + 8;
                        (tight.leading(up(tight.lda), up(tight.ldb), up(tight.ldc)), 0)
                    }
                    _ => (tight.leading(tight.lda + 3, tight.ldb + 1, tight.ldc + 5), 1),
                };
                let product = if (i + j) % 2 == 0 { product } else { product.scaled(-0.5, 2.0).with_bias_gradient() };
                let case = Case::new(&device, product, offset, normal);
                let want = case.want();
                let taking = all.iter().filter(|r| takes_it(&device, r, form) && tried(r, dtype).contains(&form));
                let jobs: Vec<(&Row, &Tile)> = taking.map(|row| (row, &row.kernel().unwrap().tiles[0])).collect();
                case.compile(&jobs);
                jobs.iter().for_each(|(row, tile)| case.check(row, tile, &want));
            }
        }
    }
}

// The kernels of the bias gradient use no TMA, which racecheck does not support.
#[test]
fn the_bias_gradient_is_summed_in_two_levels() {
    let Some(device) = testing::gpu("the_bias_gradient_is_summed_in_two_levels") else { return };
    let row = rows().into_iter().find(|r| r.rung.id == "02_coalesced").expect("a rung of the CUDA cores");
    // Cases: one chunk of rows, several chunks with a remainder, and more columns than one tile.
    for (m, n, k) in [(3, 33, 5), (17, 70, 4099), (5, 32, 1024)] {
        for trans_b in [false, true] {
            let form = Form { trans_b, ..Form::plain(Dtype::F32) };
            let product = Product::new(m, n, k, form).scaled(-0.5, 2.0).with_bias_gradient();
            let case = Case::new(&device, product, 0, normal);
            case.check(&row, &row.kernel().unwrap().tiles[0], &case.want());
        }
    }
}

#[test]
fn nan_and_infinity_propagate() {
    let Some(device) = testing::gpu("nan_and_infinity_propagate") else { return };
    // A has a NaN, B an infinity, and there are zeros next to them.
    let values = |stream: u32, i: usize| match (stream, i) {
        (0, 333) => f32::NAN,
        (0, _) if i.is_multiple_of(97) => 0.0,
        (1, 500) => f32::INFINITY,
        (1, 2001) => f32::NEG_INFINITY,
        // The old values of C do not matter if beta is 0.
        (4, _) => f32::NAN,
        _ => normal(stream, i),
    };
    for dtype in [Dtype::F32, Dtype::Tf32, Dtype::F16, Dtype::Bf16] {
        let form = every_form(dtype)[0];
        let case = Case::new(&device, Product::new(130, 70, 99, form), 0, values);
        let want = case.want();
        assert!(want.0.iter().any(|v| v.is_nan()) && want.0.iter().any(|v| v.is_finite()));
        for row in kernels(&device) {
            if takes_it(&device, &row, form) {
                case.check(&row, &row.kernel().unwrap().tiles[0], &want);
            }
        }
    }
}

#[test]
fn the_check_on_the_device_finds_every_wrong_element() {
    let Some(device) = testing::gpu("the_check_on_the_device_finds_every_wrong_element") else { return };
    let (m, n, k) = (70, 45, 33);
    let product = Product::new(m, n, k, Form::plain(Dtype::F32));
    let draw = |stream, len: u32| -> Vec<f32> { (0..len as usize).map(|i| normal(stream, i)).collect() };
    let (a, b) = (draw(0, m * k), draw(1, k * n));
    let on_device = |host: &[f32]| device.buffer_from(host).unwrap();
    let judge = Judge::new(&device, &product, &on_device(&a), &on_device(&b)).unwrap();
    let element = |i: usize| -> f64 {
        let (row, column) = (i / n as usize, i % n as usize);
        let term = |p| f64::from(a[row * k as usize + p]) * f64::from(b[p * n as usize + column]);
        (0..k as usize).map(term).sum()
    };
    let right: Vec<f32> = (0..(m * n) as usize).map(|i| element(i) as f32).collect();
    let stream = device.stream().unwrap();
    let judged = |c: &[f32]| judge.judge(&stream, &on_device(c)).unwrap();
    let verdict = judged(&right);
    assert!(verdict.passed() && verdict.first_wrong.is_none(), "{verdict:?}");
    // Elements that were not written are NaN, since the output was poisoned.
    for wrong in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e3, right[1777] + 1e-3] {
        let mut c = right.clone();
        c[1777] = wrong;
        let verdict = judged(&c);
        assert!(!verdict.passed() && verdict.wrong == 1, "{wrong}: {verdict:?}");
        assert_eq!(verdict.first_wrong, Some((1777 / n, 1777 % n)), "{wrong}");
        assert!(verdict.max_error > verdict.tolerance, "{wrong}: {verdict:?}");
    }
    assert_eq!(judged(&vec![f32::NAN; right.len()]).wrong, u64::from(m * n));
}

#[test]
fn one_entry_chooses_and_is_right() {
    let Some(device) = testing::gpu("one_entry_chooses_and_is_right") else { return };
    let gemm = Gemm::new(&device);
    let stream = device.stream().unwrap();
    let (m, n, k) = (130u32, 94u32, 71u32);
    let form = Form { out: Dtype::F32, epilogue: Epilogue::BiasRelu, ..Form::plain(Dtype::Bf16) };
    let product = Product::new(m, n, k, form);
    let values = |stream, len: u32| -> Vec<half::bf16> {
        (0..len as usize).map(|i| half::bf16::from_f32(normal(stream, i))).collect()
    };
    let (host_a, host_b) = (values(0, m * k), values(1, k * n));
    let host_bias: Vec<f32> = (0..n as usize).map(|i| normal(2, i)).collect();
    let (a, b) = (device.buffer_from(&host_a).unwrap(), device.buffer_from(&host_b).unwrap());
    let (bias, c) = (device.buffer_from(&host_bias).unwrap(), device.zeros::<f32>((m * n) as usize).unwrap());
    let plain = DeviceArrays::new(&a, &b, &c);
    let arrays = plain.clone().bias(&bias);
    let plan = gemm.plan_for(&product, &arrays).unwrap();
    let workspace = Workspace::for_plans(&device, [&*plan]).unwrap();
    gemm.gemm(&stream, &product, &arrays, &workspace).unwrap();
    stream.synchronize().unwrap();
    let check = |got: Vec<f32>| {
        for (i, got) in got.iter().enumerate() {
            let (row, column) = (i / n as usize, i % n as usize);
            let at = |p: usize| {
                f64::from(host_a[row * k as usize + p].to_f32()) * f64::from(host_b[p * n as usize + column].to_f32())
            };
            let want = ((0..k as usize).map(at).sum::<f64>() + f64::from(host_bias[column])).max(0.0);
            assert!((f64::from(*got) - want).abs() < 1e-4 * (1.0 + want), "({row}, {column}): {got} {want}");
        }
    };
    check(c.to_vec().unwrap());
    // The same plan is found again, and can be bound to arrays.
    assert!(Arc::ptr_eq(&plan, &gemm.plan_for(&product, &arrays).unwrap()));
    let bound = plan.bind(&arrays, &workspace).unwrap();
    c.fill_bytes(0xff).unwrap();
    bound.launch(&stream).unwrap();
    stream.synchronize().unwrap();
    check(c.to_vec().unwrap());
    // Bad calls return descriptive errors, and write nothing.
    let refused = |product: &Product, arrays: &DeviceArrays, workspace: &Workspace| {
        gemm.gemm(&stream, product, arrays, workspace).unwrap_err().to_string()
    };
    assert!(refused(&Product::new(m + 1, n, k, form), &arrays, &workspace).contains("A has"));
    assert!(refused(&product, &plain, &workspace).contains("bias is missing"));
    assert!(refused(&product, &arrays.clone().mask(&c), &workspace).contains("mask is passed"));
    let f16 = Form { out: Dtype::F32, ..Form::plain(Dtype::F16) };
    assert!(refused(&Product::new(m, n, k, f16), &plain, &workspace).contains("A is bf16"));
    assert!(refused(&product.leading(k - 1, n, n), &arrays, &workspace).contains("lda is"));
    let long = Product::new(m, n, k, Form { epilogue: Epilogue::None, ..form }).with_bias_gradient();
    assert!(refused(&long, &plain, &workspace).contains("bias_gradient is missing"));
    if plan.workspace_bytes() > 0 {
        let none = Workspace::new(&device, 0).unwrap();
        assert!(refused(&product, &arrays, &none).contains("Workspace::for_plans"));
    }
}
