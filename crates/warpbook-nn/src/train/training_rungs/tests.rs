use super::{Way, rungs_with_product, ways};
use crate::network::{Network, conv2d, flatten, linear};
use crate::ops::muon::Muon;
use crate::ops::optimizer::groups::Group;
use crate::train::{CudaOptions, Recipe};
use warpbook_gemm::ProductBy;
use warpbook_record::{KernelSpec, Schedule};

fn way(id: &str) -> Way {
    ways().into_iter().find(|w| w.id == id).unwrap()
}

fn entries(id: &str, recipe: &Recipe) -> Vec<String> {
    way(id).specs(recipe).iter().map(|s| s.entry.to_string()).collect()
}

#[test]
fn ids_are_unique_and_in_order() {
    let ids: Vec<&str> = ways().iter().map(|w| w.id).collect();
    let numbers: Vec<Option<u32>> = ids.iter().map(|id| id[..2].parse().ok()).collect();
    let ladder = numbers.iter().take_while(|n| n.is_some()).count();
    assert!(ladder > 10 && numbers[..ladder].is_sorted(), "{ids:?}");
    assert!(numbers[ladder..].iter().all(Option::is_none), "those next to the ladder come after it: {ids:?}");
    let different: std::collections::HashSet<&str> = ids.iter().copied().collect();
    assert_eq!(different.len(), ids.len());
    for w in ways() {
        assert!(w.idea.ends_with('.') && !w.title.is_empty(), "{}", w.id);
    }
}

/// fp16 and bf16 are two columns of one ladder; variants name their base.
#[test]
fn neighbours_differ_in_one_thing() {
    let changes = |a: &CudaOptions, b: &CudaOptions| {
        let changed = [
            a.precision != b.precision,
            a.layout != b.layout,
            a.convolution != b.convolution,
            a.product != b.product,
            a.fused != b.fused,
            a.graph != b.graph,
            a.overlap != b.overlap,
            a.dependent != b.dependent,
            a.last_block != b.last_block,
        ];
        changed.iter().filter(|c| **c).count()
    };
    let (variants, all): (Vec<Way>, Vec<Way>) = ways().into_iter().partition(|w| w.base.is_some());
    assert_eq!(variants.len(), 11);
    let own = rungs_with_product(ProductBy::Naive);
    for w in variants.iter().chain(&own) {
        let base = way(w.base.unwrap());
        assert_eq!(changes(&base.options, &w.options), 1, "{} and {}", base.id, w.id);
    }
    for column in ["fp16", "bf16"] {
        let other = if column == "fp16" { "bf16" } else { "fp16" };
        let ladder: Vec<&Way> = all.iter().filter(|w| !w.id.ends_with(other)).collect();
        for pair in ladder.windows(2) {
            let found = changes(&pair[0].options, &pair[1].options);
            assert_eq!(found, 1, "{} and {}", pair[0].id, pair[1].id);
        }
    }
}

#[test]
fn a_gpu_that_launches_nothing_early_has_plain_graphs() {
    let check = |id, cc, expect| assert_eq!(way(id).schedule_on(cc), expect, "{id} on {cc:?}");
    for id in ["12_dependent_launch_bf16", "13_last_block_fp16", "naive_products_fp16"] {
        check(id, Some((9, 0)), Schedule::OverlappedGraph);
        check(id, Some((8, 9)), Schedule::Graph);
    }
    check("11_few_channels_fp16", Some((9, 0)), Schedule::Graph);
    check("07_fused_fp16", Some((8, 0)), Schedule::Launches);
}

#[test]
fn fused_operations_are_no_kernels() {
    let count = |all: &[String], entry: &str| all.iter().filter(|e| *e == entry).count();
    let (plain, fused) = (entries("06_amp_fp16", &Recipe::mnist()), entries("07_fused_fp16", &Recipe::mnist()));
    assert_eq!((count(&plain, "relu_forward"), count(&fused, "relu_forward")), (1, 0));
    // The ReLU after the last hidden linear layer keeps its own backward kernel, because a dropout follows.
    assert_eq!((count(&plain, "relu_backward"), count(&fused, "relu_backward")), (1, 1));
    let rows = entries("07_fused_bf16", &Recipe::amp_recipe());
    assert_eq!(rows.iter().filter(|e| e.starts_with("relu")).count(), 0, "{rows:?}");
    assert_eq!(count(&rows, "gather_rows"), 2, "inputs in bf16, targets in fp32");
}

#[test]
fn a_library_leaves_kernels_to_us_and_a_rung_is_shown() {
    let mnist = Recipe::mnist();
    let has = |id: &str, entry: &str| entries(id, &mnist).iter().any(|e| e == entry);
    // Biases and masks have kernels after a library; dw of fp16 is widened. The convolutions' own
    // kernels are gone.
    assert!(has("stock_fp16", "bias_forward") && has("stock_fp16", "widen") && has("stock_fp16", "relu_backward"));
    assert!(has("09_overlap_fp16", "input_gradient") && !has("stock_fp16", "input_gradient"));
    assert!(has("stock_products_fp16", "bias_forward") && !has("stock_products_fp16", "widen"));
    assert_eq!(way("stock_fp16").library(), Some("cuDNN and cuBLASLt"));
    assert!(ways().iter().all(|w| w.library().is_some() == w.id.starts_with("stock")));
    let files = |id: &str| way(id).specs(&mnist).iter().map(|s| s.file.to_string()).collect::<Vec<_>>();
    for (id, file) in [
        ("naive_products_fp16", "matmul/01_naive.cu"),
        ("tiled_products_fp16", "matmul/03_shared_tile.cu"),
        ("tiled_products_fp32", "matmul/03_shared_tile.cu"),
    ] {
        // The product runs forward with and without a ReLU, and for both gradients, one of which has a
        // mask in some network.
        let count = files(id).iter().filter(|f| *f == file).count();
        assert!((3..=5).contains(&count), "{id}: {count}");
        let specs = way(id).specs(&mnist);
        assert!(specs.iter().filter(|s| s.file == file).all(|s| s.tiles.len() == 1), "{id}");
        assert!(!files("09_overlap_fp16").contains(&file.to_string()));
    }
}

#[test]
fn a_layer_of_few_channels_has_an_input_gradient_where_it_is_needed() {
    use crate::network::{batch_norm, conv2d, flatten, linear};
    let gradients = |channels: usize, is_first: bool| -> Vec<KernelSpec> {
        let before = (!is_first).then(batch_norm);
        let layers = before.into_iter().chain([conv2d(8, 2), flatten(), linear(10)]);
        let network = Network::new([channels, 12, 12], layers.collect::<Vec<_>>()).unwrap();
        let specs = way("11_few_channels_fp16").specs(&Recipe { network, ..Recipe::mnist() });
        assert!(specs.iter().any(|s| s.entry == "few_forward"), "{channels} channels");
        specs.into_iter().filter(|s| s.entry == "input_gradient").collect()
    };
    for (channels, vectors) in [(4, 0), (8, 1)] {
        assert_eq!(gradients(channels, true), []);
        let [spec] = &gradients(channels, false)[..] else { panic!("one kernel") };
        let define = |name: &str| spec.defines.iter().find(|d| d.name == name).map(|d| d.value);
        // Copies use vectors of 16 bytes if the channels fill them.
        assert_eq!(["VECTORS_A", "VECTORS_B"].map(define), [Some(vectors); 2], "{channels} channels");
    }
}

#[test]
fn of_few_channels_a_weight_gradient_expands_the_pool_s() {
    use crate::network::{conv2d, flatten, linear, max_pool, relu};
    let layers = [conv2d(32, 3).padding(1), relu(), max_pool(2), flatten(), linear(10)];
    let recipe = Recipe { network: Network::new([3, 32, 32], layers).unwrap(), ..Recipe::cifar10() };
    let has = |id: &str, cc, entry: &str| way(id).specs_on(Some(cc), &recipe).iter().any(|s| s.entry == entry);
    assert!(has("10_windows_fp16", (9, 0), "max_backward_adjacent"));
    for id in ["11_few_channels_fp16", "11_few_channels_bf16", "12_dependent_launch_fp16", "12_dependent_launch_bf16"] {
        let gradient = way(id).specs(&recipe).into_iter().find(|s| s.entry == "few_gradient").unwrap();
        assert!(gradient.defines.iter().any(|d| d.name == "POOL" && d.value == 1), "{id}");
        assert!(!has(id, (9, 0), "max_backward_adjacent") && !has(id, (8, 0), "max_backward_adjacent"), "{id}");
    }
    // Below 8.0 the implicit product computes the gradient, from y's gradient.
    assert!(has("11_few_channels_fp16", (7, 5), "max_backward_adjacent"));
    // In the first network the kernel reads the gradient of y, since no pool follows.
    let gradient = way("11_few_channels_fp16").specs(&Recipe::mnist()).into_iter().find(|s| s.entry == "few_gradient");
    assert!(gradient.is_some_and(|s| s.defines.iter().all(|d| d.name != "POOL")));
}

#[test]
fn kernels_follow_the_recipe_and_the_options() {
    let mnist = entries("06_amp_fp16", &Recipe::mnist());
    for entry in ["gather", "max_backward_adjacent", "dropout", "cross_entropy", "global_norm", "sgd_momentum"] {
        assert!(mnist.iter().any(|e| e == entry), "{entry} in {mnist:?}");
    }
    assert!(!entries("06_amp_bf16", &Recipe::mnist()).iter().any(|e| e == "global_norm"), "nothing is scaled");
    assert!(entries("01_direct", &Recipe::cifar10()).iter().any(|e| e == "adam"));
    let last = |id: &str, recipe: &Recipe| -> Vec<String> {
        entries(id, recipe).into_iter().filter(|e| e.ends_with("_last")).collect()
    };
    let [mnist, cifar10, rows] = [Recipe::mnist(), Recipe::cifar10(), Recipe::amp_recipe()];
    let update = ["sum_squares_last", "sgd_momentum_last"];
    assert_eq!(last("13_last_block_fp16", &mnist), [&["cross_entropy_last"][..], &update].concat());
    assert_eq!(last("13_last_block_bf16", &mnist), ["cross_entropy_last", "sgd_momentum_last"]);
    let clipped = Recipe { clip: Some(1.0), ..Recipe::mnist() };
    assert_eq!(last("13_last_block_bf16", &clipped), [&["cross_entropy_last"][..], &update].concat());
    assert_eq!(last("13_last_block_bf16", &cifar10).last().map(String::as_str), Some("adam_last"));
    assert_eq!(last("13_last_block_fp16", &rows)[0], "mse_last");
    assert!(last("12_dependent_launch_fp16", &mnist).is_empty());
    // Groups have their own kernels, and no last blocks; a frozen weight creates groups.
    let group = Group { muon: Some(Muon::default()), ..Group::new("conv*.weight") };
    let grouped = entries("13_last_block_bf16", &Recipe { groups: vec![group], ..Recipe::mnist() });
    for entry in ["mean_loss", "judge_step", "update_groups", "muon_direction", "muon_update", "finish_step"] {
        assert!(grouped.iter().any(|e| e == entry), "{entry} in {grouped:?}");
    }
    assert!(grouped.iter().all(|e| !e.ends_with("_last") && e != "sgd_momentum"), "{grouped:?}");
    let frozen = Network::new([1, 28, 28], [conv2d(4, 3).frozen(), flatten(), linear(10)]).unwrap();
    let frozen = entries("13_last_block_bf16", &Recipe { network: frozen, ..Recipe::mnist() });
    assert!(frozen.iter().any(|e| e == "update_groups") && !frozen.iter().any(|e| e == "muon_update"));
    // The work of a last block has no kernel of its own.
    let alone = ["mean_loss", "sum_squares", "global_norm", "judge_step", "prepare", "finish_step"];
    assert!(entries("13_last_block_fp16", &mnist).iter().all(|e| !alone.contains(&e.as_str())));
    assert!(alone.iter().all(|e| entries("12_dependent_launch_fp16", &mnist).iter().any(|k| k == e)));
    assert!(!entries("01_direct", &Recipe::mnist().without_dropout()).iter().any(|e| e == "dropout"));
    let layout = |id| way(id).specs(&Recipe::mnist())[1].defines.clone();
    assert_ne!(layout("04_tf32"), layout("05_nhwc"));
}
