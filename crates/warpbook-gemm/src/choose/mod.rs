//! Which rung and tile computes a product.

pub(crate) mod cost_model;
pub(crate) mod findings;
mod learned;

use crate::choose::cost_model::{Estimate, estimate, suits};
use crate::{Findings, Product};
use warpbook_kernels::matmul::{Cost, Row, rows};
use warpbook_record::{DeviceInfo, Tile};

/// A rung's row, one of its tiles, and why they were chosen.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// The row.
    pub row: Row,
    /// The tile.
    pub tile: Tile,
    /// The reason, in a sentence.
    pub why: String,
}

/// The rung and tile for a product on a device of these limits: what tuning found there, else the least expected time, else the last row
/// of the ladder with a fallback that runs there. Times are expected by the rows' costs; for 16-bit types on some devices a network
/// corrects them, see `learned`. `None` where no such row takes the product.
#[must_use]
pub fn choose(product: &Product, device: &DeviceInfo, tuned: &Findings) -> Option<Choice> {
    choose_from(&rows(), product, device, tuned)
}

/// [`choose`] among the given rows.
#[must_use]
pub fn choose_from(rows: &[Row], product: &Product, device: &DeviceInfo, tuned: &Findings) -> Option<Choice> {
    let (form, cc) = (product.form, device.compute_capability);
    let taking: Vec<&Row> = rows.iter().filter(|r| r.kernel().is_some() && r.obstacle(form, cc).is_none()).collect();
    let choice = |row: &Row, tile: &str, why: String| {
        Some(Choice { row: row.clone(), tile: row.kernel()?.tile(tile)?.clone(), why })
    };
    let found = tuned.find(product).filter(|f| f.covers(rows, form, cc)).and_then(|f| {
        let row = taking.iter().find(|r| r.rung.id == *f.rung)?;
        choice(row, &f.tile, format!("tuned on this device: {:.1} us", f.us))
    });
    let by = match is_learned(product, device) {
        true => "the costs of its tile and a network that was trained on measured times",
        false => "the costs of its tile",
    };
    let by_time = || {
        let costs = taking.iter().flat_map(|row| expected(row, product, device));
        let (Estimate { us, .. }, row, tile) = costs.min_by(|a, b| a.0.us.total_cmp(&b.0.us))?;
        choice(row, tile, format!("expected to take {us:.1} us by {by}"))
    };
    let by_ladder = || {
        let (row, [large, small]) = taking.iter().rev().find_map(|r| Some((r, r.fallback?)))?;
        let tiles = u64::from(product.m).div_ceil(128) * u64::from(product.n).div_ceil(128);
        let tile = if tiles >= u64::from(device.multiprocessors) { large } else { small };
        choice(row, tile, "the last rung of the ladder that runs on this device".into())
    };
    found.or_else(by_time).or_else(by_ladder)
}

/// A rung's row and one of its tiles, with the time that the costs expect.
#[derive(Debug, Clone, PartialEq)]
pub struct Expected {
    /// The row.
    pub row: Row,
    /// The tile.
    pub tile: Tile,
    /// Microseconds of the product, its copies included; `None` of a tile without costs.
    pub us: Option<f64>,
    /// What these depend on, see `expect`: the inputs of the network that corrects them. None of a tile without costs.
    pub terms: Vec<f32>,
}

/// The `count` tiles of least expected time for a product on a device, the cheapest first; of every rung that takes it and has costs
/// there. Tiles of these rungs that have no costs themselves come last.
#[must_use]
pub fn cheapest(product: &Product, device: &DeviceInfo, count: usize) -> Vec<Expected> {
    cheapest_of(product, device, count, None)
}

/// Whether a tile of a row is one of those that are asked for.
pub type Wanted<'w> = dyn Fn(&Row, &Tile) -> bool + 'w;

/// [`cheapest`] among the tiles that `wanted` names, of rungs without costs too.
#[must_use]
pub fn cheapest_of(product: &Product, device: &DeviceInfo, count: usize, wanted: Option<&Wanted<'_>>) -> Vec<Expected> {
    let rows = rows();
    let taking = rows.iter().filter(|r| r.obstacle(product.form, device.compute_capability).is_none());
    let mut all: Vec<Expected> = taking
        .flat_map(|row| {
            let costed = expected(row, product, device);
            let estimate = |tile: &Tile| costed.iter().find(|(_, _, id)| *id == tile.id).map(|(estimate, ..)| estimate);
            let kernel = row.kernel().filter(|_| wanted.is_some() || !costed.is_empty());
            let tiles = kernel.map_or(&[][..], |kernel| &kernel.tiles);
            // Copies may divide C into panels; these are not known here.
            let whole = [product.m, product.n];
            let suits = |tile: &Tile| row.capabilities().is_none_or(|can| suits(can, tile, product, whole, device));
            let tiles = tiles.iter().filter(|tile| fits(tile, device) && wanted.is_none_or(|wanted| wanted(row, tile)));
            let tiles = tiles.filter(|tile| suits(tile));
            let expected = |tile: &Tile| {
                let estimate = estimate(tile);
                let terms = estimate.map_or_else(Vec::new, |estimate| estimate.terms.to_vec());
                Expected { row: row.clone(), us: estimate.map(|estimate| estimate.us), tile: tile.clone(), terms }
            };
            tiles.map(expected).collect::<Vec<_>>()
        })
        .collect();
    all.sort_by(|a, b| a.us.unwrap_or(f64::INFINITY).total_cmp(&b.us.unwrap_or(f64::INFINITY)));
    all.truncate(count);
    all
}

/// What is expected of a product with each of a row's tiles that has costs and fits the device.
fn expected<'r>(row: &'r Row, product: &Product, device: &DeviceInfo) -> Vec<(Estimate, &'r Row, &'static str)> {
    let holds = |c: &&warpbook_kernels::matmul::Costs| {
        c.dtypes.contains(&product.form.dtype) && c.requires.met_by(device.compute_capability)
    };
    let (Some(costs), Some(can), Some(kernel)) = (row.costs.as_ref().filter(holds), row.capabilities(), row.kernel())
    else {
        return Vec::new();
    };
    let is_learned = is_learned(product, device);
    let tiles = costs.tiles.iter().filter_map(|cost| Some((cost, kernel.tile(cost.tile).filter(|t| fits(t, device))?)));
    let of = |(cost, tile): (&'static Cost, &Tile)| {
        let estimate = estimate(cost, tile, can, product, device)?;
        Some((if is_learned { learned::corrected(estimate) } else { estimate }, row, cost.tile))
    };
    tiles.filter_map(of).collect()
}

/// Reports whether a network corrects the times that the costs predict for a product.
fn is_learned(product: &Product, device: &DeviceInfo) -> bool {
    product.form.dtype.bytes() == 2 && learned::holds(device)
}

/// Reports whether a block on the device has enough shared memory for a tile.
fn fits(tile: &Tile, device: &DeviceInfo) -> bool {
    device.shared_bytes_per_block.is_none_or(|most| tile.dynamic_shared_bytes() <= most)
}

#[cfg(test)]
pub(crate) mod tests {
    use crate::Finding;
    use super::*;
    use warpbook_kernels::matmul::{Cost, Costs, Form};
    use warpbook_record::{DeviceKind, Dim, Dtype, Requires};

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

    pub fn h200() -> DeviceInfo {
        device("H200", (9, 0), 132)
    }

    fn form(dtype: Dtype) -> Form {
        Form { out: if dtype == Dtype::Tf32 { Dtype::F32 } else { dtype }, ..Form::plain(dtype) }
    }

    fn chosen(info: &DeviceInfo, (m, n, k): (u32, u32, u32), dtype: Dtype) -> String {
        let choice =
            choose(&Product::new(m, n, k, form(dtype)), info, &Findings::default()).expect("some rung runs everywhere");
        format!("{} {}", choice.row.rung.id, choice.tile.id)
    }

    #[test]
    fn every_device_and_type_has_a_rung() {
        let (h200, a100, t4) = (h200(), device("A100", (8, 0), 108), device("T4", (7, 5), 40));
        let check = |info: &DeviceInfo, shape, dtype, expect: &str| assert_eq!(chosen(info, shape, dtype), expect);
        let cube = (4096, 4096, 4096);
        check(&h200, cube, Dtype::Bf16, "14_overlapped_store 128x256s4c2g8");
        check(&h200, (8192, 8192, 8192), Dtype::F16, "14_overlapped_store 128x256s4c2g8");
        check(&h200, (8192, 8192, 128), Dtype::Bf16, "14_overlapped_store 128x256s4c1g1");
        check(&h200, (1000, 1000, 1000), Dtype::Bf16, "15b_small_tiles 64x144s7k1c4");
        check(&h200, (1024, 1024, 1024), Dtype::Bf16, "15b_small_tiles 128x64s8k1");
        check(&h200, (64, 4096, 11008), Dtype::Bf16, "15_split_k 64x64s12k2");
        // Small and of odd sides: nothing is copied. Of a large one copies cost little.
        assert!(chosen(&h200, (531, 69, 63), Dtype::Bf16).starts_with("17_unaligned "));
        assert!(chosen(&h200, (4097, 4095, 4093), Dtype::Bf16).starts_with("14_overlapped_store "));
        check(&h200, cube, Dtype::Tf32, "16_tf32_registers 256x128s4c1g4");
        check(&h200, (512, 512, 512), Dtype::Tf32, "16_tf32_registers 64x64s12c1g8");
        check(&h200, cube, Dtype::F32, "08_double_buffered 128x256x16s4");
        check(&h200, (256, 256, 256), Dtype::F32, "08_double_buffered 32x16x8s3k8");
        check(&h200, (64, 4096, 11008), Dtype::F32, "08_double_buffered 32x64x16s3k8");
        check(&h200, (8192, 8192, 128), Dtype::F32, "08_double_buffered 128x128x8s4");
        check(&a100, cube, Dtype::F32, "08_double_buffered 128x256x16s4");
        // A device with less shared memory than the cheapest tile needs.
        let rtx = DeviceInfo { shared_bytes_per_block: Some(101_376), ..device("RTX", (8, 6), 84) };
        check(&rtx, (64, 4096, 11008), Dtype::F32, "08_double_buffered 32x32x8s3k8");
        check(&a100, cube, Dtype::Tf32, "10_mma_swizzled 128x256x32s4");
        check(&a100, (64, 64, 64), Dtype::Bf16, "10_mma_swizzled 128x128x32s3w64");
        check(&t4, cube, Dtype::F16, "09_wmma 128x128x32");
        check(&t4, cube, Dtype::Bf16, "07_warp_tile 128x128x8");
        check(&t4, (64, 64, 64), Dtype::F32, "07_warp_tile 64x64x8");
    }

    #[test]
    fn the_cheapest_come_first_and_begin_with_the_choice() {
        for (m, n, k) in [(4096, 4096, 4096), (531, 69, 63), (64, 4096, 11008), (1000, 1000, 1000)] {
            let product = Product::new(m, n, k, form(Dtype::Bf16));
            let all = cheapest(&product, &h200(), usize::MAX);
            let choice = choose(&product, &h200(), &Findings::default()).unwrap();
            assert_eq!((&all[0].row, &all[0].tile), (&choice.row, &choice.tile));
            let us: Vec<f64> = all.iter().map_while(|e| e.us).collect();
            assert!(us.len() > 10 && us.windows(2).all(|w| w[0] <= w[1]) && us[0] > 0.0);
            // Then come the tiles that nobody has costs of.
            assert!(all.len() > us.len() && all[us.len()..].iter().all(|e| e.us.is_none()));
            assert_eq!(cheapest(&product, &h200(), 3), all[..3]);
        }
        // Nothing was measured there.
        let product = Product::new(64, 64, 64, form(Dtype::Bf16));
        assert_eq!(cheapest(&product, &device("T4", (7, 5), 40), 3), []);
    }

    #[test]
    fn tf32_goes_where_least_is_copied() {
        let chosen = |trans_a, trans_b, out| {
            let form = Form { trans_a, trans_b, out, ..Form::plain(Dtype::Tf32) };
            choose(&Product::new(4096, 4096, 4096, form), &h200(), &Findings::default()).unwrap().row.rung.id
        };
        assert_eq!(chosen(false, false, Dtype::F32), "16_tf32_registers");
        assert_eq!(chosen(true, false, Dtype::F32), "16_tf32_registers");
        assert_eq!(chosen(false, true, Dtype::F32), "14_overlapped_store");
        assert_eq!(chosen(true, true, Dtype::F32), "14_overlapped_store");
        assert_eq!(chosen(false, false, Dtype::Bf16), "14_overlapped_store");
    }

    /// Shapes of a survey on an H200 where one class of tiles was clearly ahead: by rung, and by how many blocks share k.
    #[test]
    fn clear_measurements_are_followed() {
        let choice = |(m, n, k), (trans_a, trans_b)| {
            let form = Form { trans_a, trans_b, ..Form::plain(Dtype::Bf16) };
            choose(&Product::new(m, n, k, form), &h200(), &Findings::default()).unwrap()
        };
        let chosen = |shape, form| {
            let Choice { row, tile, .. } = choice(shape, form);
            (row.rung.id, tile.size(Dim::Split), tile.size(Dim::Bm) * tile.size(Dim::Bn))
        };
        let cluster = |shape, form| choice(shape, form).tile.size(Dim::Cluster);
        // Few tiles and a long k: it pays to share it.
        for ((m, n, k), form, expected) in [
            ((944, 56, 7568), (true, false), "15_split_k"),
            ((64, 32, 13200), (false, false), "15d_split_over_workspace"),
        ] {
            let (rung, split, _) = chosen((m, n, k), form);
            assert!(rung == expected && split >= 2, "{m}x{n}x{k}: {rung}, {split}");
        }
        // As many small tiles as half of the SMs and a short k: an exchange costs more than it gains.
        let (rung, split, _) = chosen((3008, 192, 320), (true, false));
        assert_eq!((&*rung, split), ("15b_small_tiles", 1));
        // Where rows begin in the middle of lines, L2 is the limit, and clusters read what their tiles share once.
        for ((m, n, k), form) in [((1896, 808, 3592), (true, true)), ((9264, 280, 1416), (false, true))] {
            assert!(cluster((m, n, k), form) >= 2, "{m}x{n}x{k}");
        }
        assert_eq!(cluster((448, 1216, 9792), (false, true)), 4);
        // Hardly any k: the largest tile stores most at a time.
        let (rung, _, area) = chosen((13376, 9600, 256), (true, true));
        assert_eq!((&*rung, area), ("14_overlapped_store", 128 * 256));
        // Odd, with a long k: it is divided without a copy.
        assert_eq!(chosen((27, 45, 9427), (true, false)).0, "17b_unaligned_in_parts");
    }

    /// A network decides for 16-bit types on an H200, and only there.
    #[test]
    fn a_reason_names_what_the_time_is_expected_by() {
        let why = |dtype, info: &DeviceInfo| {
            choose(&Product::new(4096, 4096, 4096, form(dtype)), info, &Findings::default()).unwrap().why
        };
        let network = " by the costs of its tile and a network that was trained on measured times";
        for dtype in [Dtype::Bf16, Dtype::F16] {
            assert!(why(dtype, &h200()).ends_with(network), "{}", why(dtype, &h200()));
        }
        let h100 = DeviceInfo { name: "NVIDIA H100 80GB HBM3".into(), ..h200() };
        for (dtype, info) in [(Dtype::Tf32, &h200()), (Dtype::F32, &h200()), (Dtype::Bf16, &h100)] {
            assert!(why(dtype, info).ends_with(" us by the costs of its tile"), "{}", why(dtype, info));
        }
    }

    #[test]
    fn tf32_on_a_t4_has_none() {
        let product = Product::new(8, 8, 8, form(Dtype::Tf32));
        assert!(choose(&product, &device("T4", (7, 5), 40), &Findings::default()).is_none());
    }

    /// Whatever its id, a new row is chosen by its costs and its fallback.
    #[test]
    fn a_new_row_is_chosen_by_what_it_says() {
        let product = Product::new(4096, 4096, 4096, form(Dtype::Bf16));
        let id_of = |rows: &[Row], info: &DeviceInfo| {
            choose_from(rows, &product, info, &Findings::default()).map(|c| c.row.rung.id.to_string())
        };
        let mut rows = rows();
        let mut new = rows.iter().find(|r| r.rung.id == "10_mma_swizzled").unwrap().clone();
        new.rung.id = "mine".into();
        let a100 = device("A100", (8, 0), 108);
        rows.push(Row { fallback: None, ..new.clone() });
        assert_eq!(id_of(&rows, &a100).unwrap(), "10_mma_swizzled");
        *rows.last_mut().unwrap() = new.clone();
        assert_eq!(id_of(&rows, &a100).unwrap(), "mine");
        assert_eq!(id_of(&rows, &h200()).unwrap(), "14_overlapped_store");
        const CHEAP: [Cost; 1] = [Cost { tile: "128x256x32s4", launch_us: 0.0, wave_us: 0.0, k_us: 0.1 }];
        let costs = |requires| Some(Costs { dtypes: vec![Dtype::Bf16], requires, tiles: &CHEAP });
        *rows.last_mut().unwrap() = Row { costs: costs(Requires::AtLeast(8, 0)), ..new.clone() };
        assert_eq!(id_of(&rows, &h200()).unwrap(), "mine");
        *rows.last_mut().unwrap() = Row { costs: costs(Requires::AtLeast(10, 0)), ..new };
        assert_eq!(id_of(&rows, &h200()).unwrap(), "14_overlapped_store");
        assert_eq!(id_of(&[], &h200()), None);
    }

    #[test]
    fn a_finding_overrules_the_costs_only_if_every_candidate_was_tried() {
        let product = Product::new(4096, 4096, 4096, form(Dtype::Bf16));
        let info = h200();
        let tried: Vec<String> = rows()
            .iter()
            .filter(|r| r.tunable && r.obstacle(product.form, info.compute_capability).is_none())
            .map(|r| r.rung.id.to_string())
            .collect();
        let chosen = |tile: &str, tried: &[String]| {
            let finding = Finding {
                m: 4096,
                n: 4096,
                k: 4096,
                dtype: Dtype::Bf16,
                trans_a: false,
                trans_b: false,
                rung: "13_persistent_cluster".into(),
                tile: tile.into(),
                us: 1.0,
                tried: tried.to_vec(),
            };
            let choice = choose(&product, &info, &Findings { findings: vec![finding] }).unwrap();
            format!("{} {}", choice.row.rung.id, choice.tile.id)
        };
        assert_eq!(chosen("128x256s4c2g8", &tried), "13_persistent_cluster 128x256s4c2g8");
        assert_eq!(chosen("128x256s4c2g8", &tried[1..]), "14_overlapped_store 128x256s4c2g8");
        assert_eq!(chosen("128x256s4c2g8", &[]), "14_overlapped_store 128x256s4c2g8");
        // A tile that the row no longer has.
        assert_eq!(chosen("gone", &tried), "14_overlapped_store 128x256s4c2g8");
    }
}
