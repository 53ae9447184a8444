//! Checks without a GPU: every kernel compiles, and spills nothing.

use super::bench::TYPES;
use warpbook_device::Compiler;
use warpbook_kernels::nn::conv2d as rows;
use warpbook_record::Dtype;

#[test]
fn every_form_of_the_implicit_product_compiles() {
    let compiler = Compiler::new(None).unwrap_or_else(|e| panic!("{e}"));
    let turing = || rows::turing_forms().into_iter();
    let newer = TYPES.into_iter().flat_map(rows::forms).chain(turing()).map(|form| (form, "sm_90"));
    for (form, architecture) in newer.chain(turing().map(|form| (form, "sm_75"))) {
        let spec = form.spec();
        for tile in &spec.tiles {
            let built = compiler.compile(&spec, tile, architecture).unwrap_or_else(|e| panic!("{form:?}: {e}"));
            let stats = built.stats_of(&spec.entry).unwrap();
            assert_eq!(stats.spill_store_bytes + stats.spill_load_bytes, 0, "{form:?} {}", tile.id);
            // A block on sm_75 has at most 64 KiB of shared memory.
            assert!(!form.turing || tile.dynamic_shared_bytes() <= 64 << 10, "{form:?} {}", tile.id);
        }
    }
}

#[test]
fn what_a_library_leaves_to_do_compiles() {
    let compiler = Compiler::new(None).unwrap_or_else(|e| panic!("{e}"));
    for dtype in [Dtype::F32, Dtype::F16, Dtype::Bf16] {
        for spec in warpbook_kernels::nn::library(dtype) {
            for architecture in ["sm_75", "sm_90", "sm_120"] {
                let built = compiler.compile(&spec, &spec.tiles[0], architecture).unwrap_or_else(|e| panic!("{e}"));
                let stats = built.stats_of(&spec.entry).unwrap();
                assert_eq!(stats.spill_store_bytes + stats.spill_load_bytes, 0, "{} in {dtype:?}", spec.entry);
            }
        }
    }
}
