//! Tests the compiler's messages for incorrect kernels. This needs NVRTC but no GPU.

use warpbook_device::{Compiler, Error};
use warpbook_record::{Grid, KernelSpec, KernelStats, Source, Tile};

fn compile(text: &'static str) -> Result<u32, Error> {
    stats_of(text).map(|s| s.registers)
}

fn stats_of(text: &'static str) -> Result<KernelStats, Error> {
    let spec = KernelSpec::new(
        Source { path: "live/mine.cu", text },
        "mine",
        &[Tile::new("t", &[("THREADS", 32)])],
        Grid::One,
    );
    let compiled = Compiler::new(None)?.compile(&spec, &spec.tiles[0], "sm_90")?;
    Ok(compiled.stats_of("mine").cloned().unwrap_or_default())
}

#[test]
fn a_kernel_compiles_with_its_tile() {
    let text =
        "extern \"C\" __global__ void __launch_bounds__(THREADS) mine(float* out) { out[threadIdx.x] = THREADS; }";
    assert!(compile(text).unwrap() > 0);
}

#[test]
fn registers_shared_memory_and_spills_are_seen() {
    // A block of 1024 threads leaves 64 registers per thread, so a hundred values that are live at the same time do not
    // fit.
    let text = "extern \"C\" __global__ void __launch_bounds__(1024) mine(float* out) {\n\
        __shared__ float tile[1000];\n\
        tile[threadIdx.x % 1000] = out[threadIdx.x];\n\
        __syncthreads();\n\
        float v[100];\n\
        #pragma unroll\n\
        for (int i = 0; i < 100; ++i) v[i] = out[i * 1024 + threadIdx.x] * tile[i];\n\
        #pragma unroll\n\
        for (int r = 0; r < 3; ++r) {\n\
            #pragma unroll\n\
            for (int i = 0; i < 100; ++i) v[i] = v[i] * v[(i * 37 + 11) % 100] + v[(i + 53) % 100];\n\
        }\n\
        #pragma unroll\n\
        for (int i = 0; i < 100; ++i) out[i * 1024 + threadIdx.x] = v[i];\n\
    }\n";
    let stats = stats_of(text).unwrap();
    assert!((1..=64).contains(&stats.registers), "{stats:?}");
    // The size is 5024 if it is read from the machine code, because that includes the kilobyte reserved by the system.
    assert!([4000, 5024].contains(&stats.static_shared_bytes), "{stats:?}");
    assert!(stats.spill_store_bytes > 0 && stats.spill_load_bytes > 0, "{stats:?}");
}

#[test]
fn an_error_shows_path_line_text_and_log() {
    let text = "extern \"C\" __global__ void mine(float* out)\n{\n    out[0] = undefined_name;\n}\n";
    let error = compile(text).unwrap_err();
    let Error::Compile(details) = &error else { panic!("{error}") };
    let first = details.first().unwrap();
    // The source of a notebook cell is not one of the project's files, so it gets a name of its own.
    assert_eq!((first.file.as_str(), first.line, first.column), ("live/mine.cu", 3, Some(14)));
    assert!(first.message.contains("undefined_name"), "{first:?}");
    assert_eq!(first.excerpt(), "    3 |     out[0] = undefined_name;\n      |              ^");
    assert!(details.log.contains("1 error detected"), "{}", details.log);
    assert!(error.to_string().contains("live/mine.cu, line 3"), "{error}");
}

#[test]
fn an_error_in_a_building_block_points_into_it() {
    let text =
        "#include \"reduce.cuh\"\nextern \"C\" __global__ void mine(float* out) { float v[1]; block_sum<48>(v); }";
    let error = compile(text).unwrap_err().to_string();
    assert!(error.contains("reduce.cuh"), "{error}");
    assert!(error.contains("the second stage is one warp"), "{error}");
}

#[test]
fn source_that_is_no_text_is_refused() {
    assert!(matches!(compile("extern \"C\" \0"), Err(Error::Compile(_))));
}
