//! Which rung and tile a product is given.

use super::plan::given;
use super::{Product, obstacle};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use warpbook_record::matmul::{Form, Operands, rungs, takes};
use warpbook_record::{DeviceInfo, Dtype, Rung, Tile};

/// A rung, one of its tiles, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// The rung.
    pub rung: Rung,
    /// The tile.
    pub tile: Tile,
    /// In a sentence.
    pub why: String,
}

/// What a tile costs: microseconds of a launch, of a wave of tiles, and of 128 bytes of k in a wave. Measured on an NVIDIA H200 over
/// the shapes of the published record (least squares of the relative error): Hopper's rungs in bf16, as tf32 takes as long for as
/// many bytes, but the rung that only takes tf32; CUDA cores in fp32.
struct Cost {
    rung: &'static str,
    tile: &'static str,
    launch_us: f64,
    wave_us: f64,
    k_us: f64,
}

const fn cost(rung: &'static str, tile: &'static str, [launch_us, wave_us, k_us]: [f64; 3]) -> Cost {
    Cost { rung, tile, launch_us, wave_us, k_us }
}

/// The rung that products on CUDA cores are given.
const CUDA_CORES: &str = "08_double_buffered";

const COSTS: [Cost; 24] = [
    cost("14_overlapped_store", "128x256s4c2g8", [1.45, 1.60, 0.709]),
    cost("14_overlapped_store", "128x256s4c1g1", [1.43, 1.40, 0.712]),
    cost("14_overlapped_store", "128x256s4c1g8", [1.46, 1.47, 0.704]),
    cost("14_overlapped_store", "128x256s4c1g16", [1.50, 1.75, 0.701]),
    cost("14_overlapped_store", "128x128s6c1g8", [1.48, 0.74, 0.358]),
    cost("14_overlapped_store", "128x64s8c1g8", [1.17, 0.49, 0.257]),
    cost("14_overlapped_store", "128x64s6c1x2g1", [1.37, 0.41, 0.272]),
    cost("14_overlapped_store", "64x256s4c1g16", [1.29, 1.13, 0.378]),
    cost("15_split_k", "128x128s6k2", [0.00, 2.75, 0.440]),
    cost("15_split_k", "128x64s8k1", [0.12, 0.94, 0.270]),
    cost("15_split_k", "64x128s8k2", [0.00, 2.10, 0.337]),
    cost("15_split_k", "64x64s12k1", [0.00, 1.23, 0.181]),
    cost("15_split_k", "64x64s12k2", [0.29, 1.52, 0.265]),
    cost("16_tf32_registers", "256x128s4c1g4", [0.00, 2.78, 0.672]),
    cost("16_tf32_registers", "128x128s6c1g8", [0.00, 1.30, 0.344]),
    cost("16_tf32_registers", "128x64s8c1g8", [0.78, 1.02, 0.226]),
    cost("16_tf32_registers", "64x64s12c1g8", [0.14, 1.51, 0.146]),
    cost(CUDA_CORES, "128x256x8s4", [11.3, 5.46, 5.108]),
    cost(CUDA_CORES, "128x256x16s4", [11.3, 8.00, 5.07]),
    cost(CUDA_CORES, "128x128x8s4", [4.04, 1.07, 2.721]),
    cost(CUDA_CORES, "64x128x8s4k4", [1.78, 2.69, 1.426]),
    cost(CUDA_CORES, "32x64x16s3k8", [1.58, 2.00, 0.389]),
    cost(CUDA_CORES, "32x32x8s3k8", [1.62, 0.56, 0.249]),
    cost(CUDA_CORES, "32x16x8s3k8", [1.89, 0.21, 0.188]),
];

/// Microseconds that a block waits for a row of 128 bytes in a wave where it lies in two lines of the level-2 cache. Measured like
/// the costs. Neighbouring blocks find less of each other's lines there, so those that share their tiles by design gain.
const STRADDLING_ROW_US: f64 = 0.0025;

/// Microseconds of a transposing copy, and of a MiB of it.
const TURN_US: [f64; 2] = [4.0, 0.7];

/// The rung and tile for a product on a device of these limits: what was tuned there, else what the costs say, else the last rung of
/// the ladder that the device takes.
#[must_use]
pub fn choose(product: &Product, device: &DeviceInfo, tuned: &Findings) -> Option<Choice> {
    let (form, cc) = (product.form, device.compute_capability);
    let known = rungs();
    let takes = |id: &str| known.iter().find(|r| r.id == id).filter(|r| obstacle(r, form, cc).is_none());
    let choice = |rung: &str, tile: &str, why: String| {
        let rung = takes(rung)?;
        let tile = rung.kernels().first()?.tile(tile)?.clone();
        Some(Choice { rung: rung.clone(), tile, why })
    };
    if let Some(f) = tuned.find(product)
        && let Some(found) = choice(&f.rung, &f.tile, format!("tuned here: {:.1} us", f.us))
    {
        return Some(found);
    }
    let by_cost = COSTS
        .iter()
        .filter_map(|c| Some((expected_us(c, product, device)?, c)))
        .min_by(|a, b| a.0.total_cmp(&b.0))
        .and_then(|(us, c)| choice(c.rung, c.tile, format!("expected to take {us:.1} us by its tile's costs")));
    if by_cost.is_some() {
        return by_cost;
    }
    let fills = |tile: u64| {
        let tiles = u64::from(product.m).div_ceil(tile) * u64::from(product.n).div_ceil(tile);
        tiles >= u64::from(device.multiprocessors)
    };
    let large = fills(128);
    let ladder = [
        ("10_mma_swizzled", if large { "128x256x32s4" } else { "128x128x32s3w64" }),
        ("09_wmma", "128x128x32"),
        ("07_warp_tile", if large { "128x128x8" } else { "64x64x8" }),
    ];
    ladder.iter().find_map(|(rung, tile)| choice(rung, tile, "the last rung of the ladder that runs here".into()))
}

/// What a product takes with a tile, by its costs; `None` where the rung does not run or take it.
fn expected_us(cost: &Cost, product: &Product, device: &DeviceInfo) -> Option<f64> {
    let known = rungs();
    let rung = known.iter().find(|r| r.id == cost.rung)?;
    let cc = device.compute_capability;
    // On CUDA cores asynchronous copies take f32 alone, and came with compute capability 8.0.
    let asynchronous = product.form.dtype == Dtype::F32 && cc >= Some((8, 0));
    if obstacle(rung, product.form, cc).is_some() || (cost.rung == CUDA_CORES && !asynchronous) {
        return None;
    }
    let tile = rung.kernels().first()?.tile(cost.tile)?;
    if device.shared_bytes_per_block.is_some_and(|most| tile.size("DYNAMIC_SHARED_BYTES") > most) {
        return None;
    }
    let split = tile.size("SPLIT");
    let (m, n) = (u64::from(product.m), u64::from(product.n));
    let beside = tile.size("CLUSTER_N");
    let above = tile.size("CLUSTER") / beside;
    let tiles =
        m.div_ceil(tile.size("BM")).next_multiple_of(above) * n.div_ceil(tile.size("BN")).next_multiple_of(beside);
    // Blocks on one multiprocessor hide each other's waits, but on CUDA cores they share what one alone would compute with.
    let beside_each_other = if cost.rung == CUDA_CORES { 1 } else { tile.size("BLOCKS_PER_SM") };
    let at_once = u64::from(device.multiprocessors).max(1) * beside_each_other;
    let waves = (tiles * split).div_ceil(at_once) as f64;
    let k_blocks = (u64::from(product.k) * product.form.dtype.bytes()).div_ceil(128).div_ceil(split) as f64;
    // Rows that a block fetches itself, of 128 bytes each, which lie across lines where the matrix' rows are no multiple of one.
    // Copies end at multiples of 16 bytes.
    let straddles = |ld: u32| {
        let bytes = (u64::from(ld) * product.form.dtype.bytes()).next_multiple_of(16);
        if bytes.is_multiple_of(128) { 0.0 } else { 1.0 }
    };
    let rows_a = straddles(product.lda) * (tile.size("BM") / beside) as f64;
    let rows_b = straddles(product.ldb) * (tile.size("BN") / above) as f64;
    let k_us = cost.k_us.max(STRADDLING_ROW_US * (rows_a + rows_b));
    let product_us = cost.launch_us + waves * (cost.wave_us + k_blocks * k_us);
    Some(product_us + turns_us(product, takes(cost.rung)?.operands))
}

/// What the transposing copies take that come first.
fn turns_us(product: &Product, operands: Operands) -> f64 {
    let (form, given) = (product.form, given(product.form, operands));
    let turn = |turns: bool, count: u32| {
        let mib = f64::from(count) * f64::from(product.k) * form.dtype.bytes() as f64 / f64::from(1 << 20);
        if turns { TURN_US[0] + TURN_US[1] * mib } else { 0.0 }
    };
    turn(form.trans_a != given.trans_a, product.m) + turn(form.trans_b != given.trans_b, product.n)
}

/// The fastest way that a tuner has found for a product.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Rows of C.
    pub m: u32,
    /// Columns of C.
    pub n: u32,
    /// Terms of a sum.
    pub k: u32,
    /// Type of A and B.
    pub dtype: Dtype,
    /// Whether A is stored transposed.
    #[serde(default)]
    pub trans_a: bool,
    /// Whether B is stored transposed.
    #[serde(default)]
    pub trans_b: bool,
    /// The rung's id.
    pub rung: String,
    /// The tile's id.
    pub tile: String,
    /// Its median time in microseconds.
    pub us: f64,
}

/// What tuners have found on one device. Never required.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Findings {
    /// One a product.
    #[serde(default)]
    pub findings: Vec<Finding>,
}

impl Findings {
    /// Where those of a device are kept: beside the compiled kernels; `None` where there is no place for them.
    #[must_use]
    pub fn path(device: &DeviceInfo) -> Option<PathBuf> {
        let letters = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
        let name: String = device.name.chars().map(letters).collect();
        Some(warpbook_device::cache_folder()?.join(format!("tuned-matmul-{name}.json")))
    }

    /// Those of a device; none where there is no file, or one that cannot be read.
    #[must_use]
    pub fn of(device: &DeviceInfo) -> Self {
        Self::path(device).map(|p| Self::read(&p)).unwrap_or_default()
    }

    fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// That of a product.
    #[must_use]
    pub fn find(&self, p: &Product) -> Option<&Finding> {
        let Form { dtype, trans_a, trans_b, .. } = p.form;
        self.findings
            .iter()
            .find(|f| (f.m, f.n, f.k, f.dtype, f.trans_a, f.trans_b) == (p.m, p.n, p.k, dtype, trans_a, trans_b))
    }

    /// Keeps a finding, in place of an earlier one of the same product.
    pub fn keep(&mut self, finding: Finding) {
        let key = |f: &Finding| (f.m, f.n, f.k, f.dtype, f.trans_a, f.trans_b);
        self.findings.retain(|f| key(f) != key(&finding));
        self.findings.push(finding);
    }

    /// Writes them to a temporary name and renames it.
    ///
    /// # Errors
    /// The file system's.
    pub fn write(&self, path: &Path) -> std::io::Result<()> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let text = serde_json::to_string_pretty(self).map_err(std::io::Error::other)?;
        let temporary = path.with_extension(format!("{}.part", std::process::id()));
        std::fs::write(&temporary, text + "\n")?;
        std::fs::rename(&temporary, path).inspect_err(|_| {
            let _ = std::fs::remove_file(&temporary);
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpbook_record::DeviceKind;

    fn device(name: &str, cc: (u32, u32), multiprocessors: u32) -> DeviceInfo {
        DeviceInfo {
            kind: DeviceKind::Cuda,
            index: 0,
            name: name.into(),
            memory_bytes: 1 << 34,
            multiprocessors,
            compute_capability: Some(cc),
            l2_bytes: None,
            shared_bytes_per_multiprocessor: None,
            shared_bytes_per_block: None,
            registers_per_multiprocessor: None,
            max_sm_mhz: None,
            max_memory_mhz: None,
        }
    }

    fn chosen(info: &DeviceInfo, (m, n, k): (u32, u32, u32), dtype: Dtype) -> String {
        let form = Form { out: if dtype == Dtype::Tf32 { Dtype::F32 } else { dtype }, ..Form::plain(dtype) };
        let choice =
            choose(&Product::new(m, n, k, form), info, &Findings::default()).expect("some rung runs everywhere");
        format!("{} {}", choice.rung.id, choice.tile.id)
    }

    #[test]
    fn every_device_and_type_has_a_rung() {
        let (h200, a100, t4) = (device("H200", (9, 0), 132), device("A100", (8, 0), 108), device("T4", (7, 5), 40));
        let check = |info: &DeviceInfo, shape, dtype, expect: &str| assert_eq!(chosen(info, shape, dtype), expect);
        let cube = (4096, 4096, 4096);
        check(&h200, cube, Dtype::Bf16, "14_overlapped_store 128x256s4c1g8");
        check(&h200, (8192, 8192, 8192), Dtype::F16, "14_overlapped_store 128x256s4c1g16");
        check(&h200, (8192, 8192, 128), Dtype::Bf16, "14_overlapped_store 128x256s4c1g1");
        check(&h200, (1000, 1000, 1000), Dtype::Bf16, "14_overlapped_store 128x64s6c1x2g1");
        check(&h200, (1024, 1024, 1024), Dtype::Bf16, "15_split_k 128x64s8k1");
        check(&h200, (64, 4096, 11008), Dtype::Bf16, "15_split_k 64x64s12k2");
        check(&h200, cube, Dtype::Tf32, "16_tf32_registers 256x128s4c1g4");
        check(&h200, (512, 512, 512), Dtype::Tf32, "16_tf32_registers 64x64s12c1g8");
        check(&h200, cube, Dtype::F32, "08_double_buffered 128x256x16s4");
        check(&h200, (256, 256, 256), Dtype::F32, "08_double_buffered 32x16x8s3k8");
        check(&h200, (64, 4096, 11008), Dtype::F32, "08_double_buffered 32x64x16s3k8");
        check(&h200, (8192, 8192, 128), Dtype::F32, "08_double_buffered 128x128x8s4");
        check(&a100, cube, Dtype::F32, "08_double_buffered 128x256x16s4");
        // Less shared memory than the tile that others are given.
        let rtx = DeviceInfo { shared_bytes_per_block: Some(101_376), ..device("RTX", (8, 6), 84) };
        check(&rtx, (64, 4096, 11008), Dtype::F32, "08_double_buffered 32x32x8s3k8");
        check(&a100, cube, Dtype::Tf32, "10_mma_swizzled 128x256x32s4");
        check(&a100, (64, 64, 64), Dtype::Bf16, "10_mma_swizzled 128x128x32s3w64");
        check(&t4, cube, Dtype::F16, "09_wmma 128x128x32");
        check(&t4, cube, Dtype::Bf16, "07_warp_tile 128x128x8");
        check(&t4, (64, 64, 64), Dtype::F32, "07_warp_tile 64x64x8");
    }

    #[test]
    fn tf32_goes_where_least_is_copied() {
        let info = device("H200", (9, 0), 132);
        let chosen = |trans_a, trans_b, out| {
            let form = Form { trans_a, trans_b, out, ..Form::plain(Dtype::Tf32) };
            choose(&Product::new(4096, 4096, 4096, form), &info, &Findings::default()).unwrap().rung.id
        };
        assert_eq!(chosen(false, false, Dtype::F32), "16_tf32_registers");
        assert_eq!(chosen(true, false, Dtype::F32), "16_tf32_registers");
        assert_eq!(chosen(false, true, Dtype::F32), "14_overlapped_store");
        assert_eq!(chosen(true, true, Dtype::F32), "14_overlapped_store");
        assert_eq!(chosen(false, false, Dtype::Bf16), "14_overlapped_store");
    }

    #[test]
    fn tf32_on_a_t4_has_none() {
        let form = Form { out: Dtype::F32, ..Form::plain(Dtype::Tf32) };
        let product = Product::new(8, 8, 8, form);
        assert!(choose(&product, &device("T4", (7, 5), 40), &Findings::default()).is_none());
    }

    #[test]
    fn a_finding_is_kept_once_and_goes_before_the_costs() {
        let mut all = Findings::default();
        let finding = |tile: &str| Finding {
            m: 4096,
            n: 4096,
            k: 4096,
            dtype: Dtype::Bf16,
            trans_a: false,
            trans_b: false,
            rung: "13_persistent_cluster".into(),
            tile: tile.into(),
            us: 1.0,
        };
        all.keep(finding("128x128s6c2g8"));
        all.keep(finding("128x256s4c2g8"));
        assert_eq!(all.findings.len(), 1);
        let product = Product::new(4096, 4096, 4096, Form::plain(Dtype::Bf16));
        let info = device("H200", (9, 0), 132);
        let choice = choose(&product, &info, &all).unwrap();
        assert_eq!((&*choice.rung.id, &*choice.tile.id), ("13_persistent_cluster", "128x256s4c2g8"));
        // One that names what is not there is passed over.
        all.keep(finding("gone"));
        assert_eq!(choose(&product, &info, &all).unwrap().rung.id, "14_overlapped_store");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b.json");
        all.write(&path).unwrap();
        assert_eq!(Findings::read(&path), all);
        std::fs::write(&path, "{\"findings\": [{").unwrap();
        assert_eq!(Findings::read(&path), Findings::default());
    }

    #[test]
    fn every_cost_is_of_a_tile_that_is_there() {
        for c in &COSTS {
            let known = rungs();
            let rung = known.iter().find(|r| r.id == c.rung).unwrap();
            assert!(rung.kernels()[0].tile(c.tile).is_some(), "{} {}", c.rung, c.tile);
        }
    }
}
