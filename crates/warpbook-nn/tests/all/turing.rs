//! Training on a GPU of compute capability 7.5, such as a Tesla T4. Needs NVRTC but no GPU. `cuda/conv/`, `cuda/train.rs` and `gemm.rs`
//! force newer GPUs to use the kernels that only such a GPU would choose.

use std::sync::atomic::{AtomicUsize, Ordering};
use warpbook_device::Compiler;
use warpbook_gemm::{Findings, Plan, Product, choose};
use warpbook_kernels::matmul::{Epilogue, Form};
use warpbook_nn::network::{Node, Op};
use warpbook_nn::ops::conv2d::cuda::Method;
use warpbook_nn::train::{Precision, Recipe, Way, ways};
use warpbook_record::{DeviceInfo, DeviceKind, Dim, Dtype, KernelSpec, Requires, Tile};

const T4: (u32, u32) = (7, 5);
/// Limits of a block: shared memory, and threads.
const MOST_SHARED_BYTES: u64 = 64 << 10;
const MOST_THREADS: u64 = 1024;

fn t4() -> DeviceInfo {
    DeviceInfo {
        kind: DeviceKind::Cuda,
        index: 0,
        name: "Tesla T4".into(),
        memory_bytes: 15 << 30,
        multiprocessors: 40,
        compute_capability: Some(T4),
        l2_bytes: Some(4 << 20),
        shared_bytes_per_multiprocessor: Some(MOST_SHARED_BYTES),
        shared_bytes_per_block: Some(MOST_SHARED_BYTES),
        registers_per_multiprocessor: Some(1 << 16),
        max_sm_mhz: None,
        max_memory_mhz: None,
    }
}

fn recipes() -> [Recipe; 3] {
    [Recipe::mnist(), Recipe::cifar10(), Recipe::amp_recipe()]
}

/// Removes duplicates and keeps the order.
fn once<T: PartialEq>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut all = Vec::new();
    for item in items {
        if !all.contains(&item) {
            all.push(item);
        }
    }
    all
}

/// Compiles all kernels for a T4, and reports every failure.
fn check_all(kernels: &[(KernelSpec, Tile)]) {
    let compiler = Compiler::new(None).unwrap_or_else(|e| panic!("{e}"));
    let check = |(spec, tile): &(KernelSpec, Tile)| -> Option<String> {
        let name = format!("{} of {} with {}, {:?}", spec.entry, spec.file, tile.id, spec.defines);
        if spec.requires.as_ref().is_some_and(|r| !r.met_by(Some(T4))) {
            return Some(format!("{name} does not run there"));
        }
        let built = match compiler.compile(spec, tile, "sm_75") {
            Ok(built) => built,
            Err(e) => return Some(format!("{name}: {e}")),
        };
        let Some(stats) = built.stats_of(&spec.entry) else { return Some(format!("{name} has no entry")) };
        let shared = tile.dynamic_shared_bytes() + u64::from(stats.static_shared_bytes);
        let spilled = stats.spill_store_bytes + stats.spill_load_bytes;
        let fits = shared <= MOST_SHARED_BYTES && tile.size(Dim::Threads) <= MOST_THREADS && spilled == 0;
        (!fits).then(|| {
            format!("{name}: {shared} bytes shared, {} threads, {spilled} bytes spilled", tile.size(Dim::Threads))
        })
    };
    let next = AtomicUsize::new(0);
    let work = || {
        let mut wrong = Vec::new();
        while let Some(kernel) = kernels.get(next.fetch_add(1, Ordering::Relaxed)) {
            wrong.extend(check(kernel));
        }
        wrong
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|w| w.join().unwrap_or_else(|e| std::panic::resume_unwind(e))).collect()
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn with_every_tile(spec: KernelSpec) -> Vec<(KernelSpec, Tile)> {
    spec.tiles.clone().into_iter().map(|tile| (spec.clone(), tile)).collect()
}

/// A T4 trains fp32 and fp16, but neither tf32 and bf16 nor rungs based on Hopper's instructions.
#[test]
fn ways_say_what_they_need() {
    for way in ways() {
        let Way { id, requires, options, .. } = &way;
        let (is_windows, uses_few_channels) = (id.starts_with("10_windows"), id.starts_with("11_few_channels"));
        let expected = match options.precision {
            _ if id.starts_with("12_dependent_launch") => Requires::AtLeast(9, 0),
            _ if is_windows => Requires::Exactly("sm_90a".into()),
            _ if uses_few_channels => Requires::AtLeast(8, 0),
            Precision::Fp32 | Precision::AmpFp16 => Requires::AtLeast(7, 5),
            Precision::Tf32 | Precision::AmpBf16 => Requires::AtLeast(8, 0),
        };
        assert_eq!(*requires, expected, "{id}");
    }
    let on_a_t4 = ways().iter().filter(|way| way.requires.met_by(Some(T4))).count();
    // Three rungs in fp32, five of the ladder in fp16, and eleven variants.
    assert_eq!(on_a_t4, 3 + 5 + 11);
}

#[test]
fn every_kernel_of_an_fp16_training_compiles_for_a_t4() {
    let fp16: Vec<Way> = ways().into_iter().filter(|w| w.options.precision == Precision::AmpFp16).collect();
    let specs = fp16.iter().flat_map(|way| recipes().map(|r| way.specs_on(Some(T4), &r))).flatten();
    let specs = once(specs.flat_map(with_every_tile));
    let turing = |(spec, _): &&(KernelSpec, Tile)| spec.defines.iter().any(|d| d.name == "TURING" && d.value == 1);
    let convolutions: Vec<&str> = specs.iter().filter(turing).map(|(spec, _)| &*spec.entry).collect();
    for pass in ["forward", "input_gradient", "weight_gradient"] {
        assert!(convolutions.contains(&pass), "{pass} in {convolutions:?}");
    }
    assert!(!specs.iter().any(|(spec, _)| spec.entry == "shifted_windows"));
    check_all(&specs);
}

/// The products of a recipe's linear layers, forward and both gradients, as planned by `ops::linear`.
fn linear_products(recipe: &Recipe) -> Vec<Product> {
    let plain = Form::plain(Dtype::F16);
    let products = |(node, features): (&Node, usize)| {
        let word = |n: usize| u32::try_from(n).unwrap();
        let inputs = word(recipe.network.value(node.input).elements());
        let (batch, outputs) = (word(recipe.batch), word(features));
        let product_of = |[m, n, k]: [u32; 3], form| Product::new(m, n, k, form);
        let forward = [Epilogue::None, Epilogue::Bias, Epilogue::BiasRelu, Epilogue::BiasGelu]
            .map(|epilogue| product_of([batch, outputs, inputs], Form { trans_b: true, epilogue, ..plain }));
        let backward = [Epilogue::None, Epilogue::ReluMask]
            .map(|epilogue| product_of([batch, inputs, outputs], Form { epilogue, ..plain }));
        let weights = [Dtype::F16, Dtype::F32]
            .map(|out| product_of([outputs, inputs, batch], Form { trans_a: true, out, ..plain }));
        forward.into_iter().chain(backward).chain(weights).collect::<Vec<_>>()
    };
    let linear = recipe.network.nodes().iter().filter_map(|node| match node.op {
        Op::Linear { features, .. } => Some((node, features)),
        _ => None,
    });
    linear.flat_map(products).collect()
}

/// The products of a recipe's convolutions by im2col.
fn im2col_products(recipe: &Recipe) -> Vec<Product> {
    let plain = Form::plain(Dtype::F16);
    let products = |node: &Node| {
        let g = recipe.network.conv_geometry(node, recipe.batch);
        let (oh, ow) = g.output().unwrap();
        let [pixels, filters, taps] =
            [recipe.batch * oh * ow, g.filters, g.kernel[0] * g.kernel[1] * g.channels].map(|n| n as u32);
        let ld = taps.next_multiple_of(8);
        let forward = [Epilogue::None, Epilogue::Bias, Epilogue::BiasRelu].map(|epilogue| {
            Product::new(pixels, filters, taps, Form { trans_b: true, epilogue, ..plain }).leading(ld, taps, filters)
        });
        let wide = Form { out: Dtype::F32, ..plain };
        let gradients = [
            Product::new(pixels, taps, filters, wide).leading(filters, taps, ld),
            Product::new(filters, taps, pixels, Form { trans_a: true, ..wide }).leading(filters, ld, taps),
        ];
        forward.into_iter().chain(gradients).collect::<Vec<_>>()
    };
    let nodes = recipe.network.nodes().iter().filter(|node| matches!(node.op, Op::Conv2d(_)));
    nodes.flat_map(products).collect()
}

/// On a T4, wmma computes every form.
#[test]
fn every_product_of_an_fp16_training_has_a_rung_on_a_t4() {
    let (mut kernels, mut count) = (Vec::new(), 0);
    for recipe in recipes() {
        for product in linear_products(&recipe).into_iter().chain(im2col_products(&recipe)) {
            let choice = choose(&product, &t4(), &Findings::default()).unwrap_or_else(|| panic!("{product:?}"));
            assert_eq!(choice.row.rung.id, "09_wmma", "{product:?}: {}", choice.why);
            kernels.push((Plan::spec(&choice.row, &product).unwrap(), choice.tile));
            count += 1;
        }
    }
    // Two linear layers of each CNN and three of the AMP recipe; two and three convolutions.
    assert_eq!(count, 7 * 8 + 5 * 5);
    let kernels = once(kernels);
    assert!(kernels.len() >= 8, "{}", kernels.len());
    check_all(&kernels);
    // Products in bf16 would not use tensor cores, and products in tf32 could not be computed at all, so training in these
    // types is refused.
    let choice_for = |dtype| choose(&Product::new(512, 128, 9216, Form::plain(dtype)), &t4(), &Findings::default());
    assert!(
        choice_for(Dtype::Tf32).is_none() && choice_for(Dtype::Bf16).is_some_and(|c| c.row.rung.id == "07_warp_tile")
    );
}

/// A layer's request for shifted windows or the implicit product also falls back on older GPUs.
#[test]
fn layers_fall_back_one_by_one() {
    let fp16 = ways().into_iter().find(|w| w.id == "10_windows_fp16").unwrap();
    let turing = |specs: &[KernelSpec]| -> Vec<String> {
        specs.iter().filter(|s| s.defines.iter().any(|d| d.name == "TURING")).map(|s| s.entry.to_string()).collect()
    };
    let passes = ["forward", "input_gradient", "weight_gradient"].map(str::to_owned).to_vec();
    assert_eq!(once(turing(&fp16.specs_on(Some(T4), &Recipe::mnist()))), passes);
    assert_eq!(once(turing(&fp16.specs_on(Some((8, 0)), &Recipe::mnist()))), Vec::<String>::new());
    let mut forced = fp16.clone();
    forced.options.convolution = Method::ImplicitGemmTuring;
    assert_eq!(once(turing(&forced.specs(&Recipe::mnist()))), passes, "forced on an H200");
    let fp32 = ways().into_iter().find(|w| w.id == "03_implicit_gemm").unwrap();
    assert_eq!(fp32.specs_on(Some(T4), &Recipe::mnist()), fp32.specs(&Recipe::mnist()));
}
