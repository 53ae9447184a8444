//! Products of several rungs on two streams, captured as one graph and replayed, compared with f64.

use warpbook_data::philox::gaussian;
use warpbook_device::{Buffer, CudaDevice, Stream, testing};
use warpbook_gemm::cpu::{Operands, reference_rows};
use warpbook_gemm::storage::{Storage, rounded};
use warpbook_gemm::{DeviceArrays, Findings, Plan, Product, Workspace, choose};
use warpbook_kernels::Tolerance;
use warpbook_kernels::matmul::{Epilogue, Form, rows};
use warpbook_record::Dtype;

/// One product with its plan, its workspace, and its own arrays.
struct Node {
    plan: Plan,
    workspace: Workspace,
    bias: Buffer<f32>,
    bias_gradient: Buffer<f32>,
}

/// A matrix on the device, and its elements.
struct Matrix {
    storage: Storage,
    dtype: Dtype,
}

impl Matrix {
    fn new(device: &CudaDevice, elements: u32, dtype: Dtype) -> Self {
        Self { storage: Storage::zeros(device, elements as usize, dtype).unwrap(), dtype }
    }

    fn draw(&self, seed: u64, stream: u32) {
        let values: Vec<f32> = (0..self.storage.len()).map(|i| gaussian(seed, i as u64, stream)).collect();
        self.storage.write_f32(&values).unwrap();
    }

    /// The matrix's elements as a product of this type reads them.
    fn read(&self, dtype: Dtype) -> Vec<f32> {
        self.storage.to_f32().unwrap().iter().map(|v| rounded(*v, dtype)).collect()
    }
}

impl Node {
    /// Plans a product by the rung with this id if the device supports it, otherwise by the rung that is chosen automatically.
    fn new(device: &CudaDevice, rung: &str, product: Product) -> Self {
        let cc = device.info().compute_capability;
        let row = rows().into_iter().find(|r| r.rung.id == rung).unwrap();
        let (row, tile) = if row.obstacle(product.form, cc).is_none() {
            let tile = row.kernel().unwrap().tiles[0].clone();
            (row, tile)
        } else {
            let choice = choose(&product, device.info(), &Findings::default()).unwrap();
            (choice.row, choice.tile)
        };
        let plan = Plan::new(device, &row, &tile, &product, [true; 2]).unwrap();
        let workspace = Workspace::for_plans(device, [&plan]).unwrap();
        let (bias, sums) = (device.zeros(product.n as usize).unwrap(), device.zeros(product.n as usize).unwrap());
        Self { plan, workspace, bias, bias_gradient: sums }
    }

    fn queue(&self, stream: &Stream, a: &Matrix, b: &Matrix, c: &Matrix) -> warpbook_device::Result<()> {
        let product = self.plan.product();
        let mut arrays = DeviceArrays::new(&a.storage, &b.storage, &c.storage);
        arrays.epilogue.bias = product.form.epilogue.has_bias().then(|| (&self.bias).into());
        arrays.bias_gradient = product.bias_gradient.then(|| (&self.bias_gradient).into());
        self.plan.launch_checked(stream, &arrays, &self.workspace)
    }

    fn draw_bias(&self, seed: u64, stream: u32) {
        let values: Vec<f32> = (0..self.bias.len()).map(|i| gaussian(seed, i as u64, stream)).collect();
        self.bias.write(&values).unwrap();
    }

    /// Checks C and the bias gradient after a replay; `before` is the previous content of C.
    fn check(&self, a: &Matrix, b: &Matrix, c: &Matrix, before: Option<&[f32]>, name: &str) {
        let p = self.plan.product();
        let (m, n, k) = (p.m as usize, p.n as usize, p.k as usize);
        let (a, b) = (a.read(p.form.dtype), b.read(p.form.dtype));
        let zeros = vec![0.0; m * n];
        let before = before.unwrap_or(&zeros);
        let rows: Vec<usize> = (0..m).collect();
        let expected = |a: &[f32], b: &[f32], c: &[f32], alpha, beta| {
            let (lda, ldb, ldc) = (p.lda as usize, p.ldb as usize, p.ldc as usize);
            let (trans_a, trans_b) = (p.form.trans_a, p.form.trans_b);
            let ops = Operands { a, b, m, n, k, lda, ldb, ldc, trans_a, trans_b, alpha, beta };
            reference_rows(&ops, c, &rows).unwrap()
        };
        let abs = |v: &[f32]| v.iter().map(|v| v.abs()).collect::<Vec<_>>();
        let want = expected(&a, &b, before, p.alpha, p.beta);
        let scale = expected(&abs(&a), &abs(&b), &abs(before), p.alpha.abs(), p.beta.abs());
        let bias = self.bias.to_vec().unwrap();
        let Tolerance(tolerance) = Tolerance::product(p.form.dtype, p.k.into());
        for (i, got) in c.storage.to_f32().unwrap().iter().enumerate() {
            let want = match p.form.epilogue {
                Epilogue::BiasRelu => (want[i] + f64::from(bias[i % n])).max(0.0),
                _ => want[i],
            };
            let bound = tolerance * scale[i] + p.form.out.epsilon() * want.abs() + 1e-30;
            let error = (f64::from(*got) - want).abs();
            assert!(error <= bound, "{name}, {}: element {i} is {got}, not {want}", self.plan.rung());
        }
        if p.bias_gradient {
            for (j, got) in self.bias_gradient.to_vec().unwrap().iter().enumerate() {
                let column = (0..k).map(|r| f64::from(b[r * p.ldb as usize + j]));
                let (want, scale) = column.fold((0.0, 0.0), |(sum, size), v| (sum + v, size + v.abs()));
                let error = (f64::from(*got) - f64::from(p.alpha) * want).abs();
                assert!(error <= 1e-5 * scale, "{name}: bias gradient {j} is {got}, not {want}");
            }
        }
    }
}

#[test]
fn products_on_two_streams_are_replayed_as_one_graph() {
    let Some(device) = testing::gpu("products_on_two_streams_are_replayed_as_one_graph") else { return };
    let bf16 = Form::plain(Dtype::Bf16);
    let into_f32 = |form: Form| Form { out: Dtype::F32, ..form };
    let relu = Form { epilogue: Epilogue::BiasRelu, ..bf16 };
    let tf32 = into_f32(Form { trans_a: true, ..Form::plain(Dtype::Tf32) });
    let gradient = into_f32(Form { trans_a: true, ..bf16 });
    let node = |rung, m, n, k, form| Node::new(&device, rung, Product::new(m, n, k, form));
    // The first stream: a layer, a second layer on its output, and a product whose rows are copied first.
    let layer = node("14_overlapped_store", 300, 264, 200, bf16);
    let second = node("13_persistent_cluster", 300, 96, 264, relu);
    let odd = node("15b_small_tiles", 150, 77, 333, bf16);
    // The second stream: a product whose A is transposed first, a weight gradient with a bias gradient, and a product on
    // CUDA cores.
    let transposed = node("14_overlapped_store", 136, 200, 392, tf32);
    let weights = Product::new(200, 96, 1000, gradient).scaled(0.5, 0.0).with_bias_gradient();
    let weights = Node::new(&device, "15_split_k", weights);
    let on_cuda_cores = node("08_double_buffered", 65, 130, 70, Form::plain(Dtype::F32));
    // The first stream again, after the second: a product that reads the weight gradient and adds to C.
    let last = Product::new(40, 96, 200, Form::plain(Dtype::F32)).scaled(1.0, 1.0);
    let last = Node::new(&device, "07_warp_tile", last);
    if device.info().compute_capability == Some((9, 0)) {
        assert!(transposed.workspace.bytes() > 0 && odd.workspace.bytes() > 0, "both copy operands at the same time");
    }

    let matrix = |elements, dtype| Matrix::new(&device, elements, dtype);
    let (x, w1, y1) = (matrix(300 * 200, Dtype::Bf16), matrix(200 * 264, Dtype::Bf16), matrix(300 * 264, Dtype::Bf16));
    let (w2, y2) = (matrix(264 * 96, Dtype::Bf16), matrix(300 * 96, Dtype::Bf16));
    let (a3, b3, c3) = (matrix(150 * 333, Dtype::Bf16), matrix(333 * 77, Dtype::Bf16), matrix(150 * 77, Dtype::Bf16));
    let (a4, b4, c4) = (matrix(136 * 392, Dtype::F32), matrix(392 * 200, Dtype::F32), matrix(136 * 200, Dtype::F32));
    let (x5, dy5, dw5) =
        (matrix(1000 * 200, Dtype::Bf16), matrix(1000 * 96, Dtype::Bf16), matrix(200 * 96, Dtype::F32));
    let (a6, b6, c6) = (matrix(65 * 70, Dtype::F32), matrix(70 * 130, Dtype::F32), matrix(65 * 130, Dtype::F32));
    let (a7, c7) = (matrix(40 * 200, Dtype::F32), matrix(40 * 96, Dtype::F32));

    let (one, two) = (device.stream().unwrap(), device.stream().unwrap());
    let (forked, joined) = (device.event().unwrap(), device.event().unwrap());
    let work = || {
        forked.record(&one)?;
        two.wait(&forked)?;
        layer.queue(&one, &x, &w1, &y1)?;
        transposed.queue(&two, &a4, &b4, &c4)?;
        second.queue(&one, &y1, &w2, &y2)?;
        weights.queue(&two, &x5, &dy5, &dw5)?;
        odd.queue(&one, &a3, &b3, &c3)?;
        on_cuda_cores.queue(&two, &a6, &b6, &c6)?;
        joined.record(&two)?;
        one.wait(&joined)?;
        last.queue(&one, &a7, &dw5, &c7)
    };
    let graph = one.capture_owning("seven products", (), |()| work()).unwrap();
    // At least seven products and two levels of column sums; Hopper adds a copy or more.
    assert!(graph.nodes() >= 9, "{} nodes", graph.nodes());

    for seed in [1, 2] {
        let inputs = [&x, &w1, &w2, &a3, &b3, &a4, &b4, &x5, &dy5, &a6, &b6, &a7, &c7];
        inputs.iter().zip(0..).for_each(|(matrix, stream)| matrix.draw(seed, stream));
        [&y1, &y2, &c3, &c4, &dw5, &c6].iter().for_each(|m| m.storage.fill_bytes(0xff).unwrap());
        second.draw_bias(seed, 100);
        weights.bias_gradient.fill_bytes(0xff).unwrap();
        let before = c7.read(c7.dtype);
        graph.launch(&one).unwrap();
        one.synchronize().unwrap();
        layer.check(&x, &w1, &y1, None, "layer");
        second.check(&y1, &w2, &y2, None, "second layer");
        odd.check(&a3, &b3, &c3, None, "rows without alignment");
        transposed.check(&a4, &b4, &c4, None, "transposed");
        weights.check(&x5, &dy5, &dw5, None, "weight gradient");
        on_cuda_cores.check(&a6, &b6, &c6, None, "on CUDA cores");
        last.check(&a7, &dw5, &c7, Some(&before), "on both streams' results");
    }
}
