//! Chooses the rung and tile for a product: see `README.md`.

pub(crate) mod candidates;
pub(crate) mod cost_model;
pub(crate) mod findings;
pub(crate) mod measured;

use crate::choose::candidates::{candidate, candidates};
use crate::choose::cost_model::Limits;
use crate::{Findings, Product};
use warpbook_kernels::matmul::{Row, rows};
use warpbook_record::{DeviceInfo, Tile};

/// A rung's row and one of its tiles, with the reason for choosing them.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// Row of the rung in the catalogue.
    pub row: Row,
    /// Tile with which the rung's kernel is compiled.
    pub tile: Tile,
    /// Reason for the choice, in a sentence.
    pub why: String,
    /// Measured or expected microseconds of the product.
    pub us: f64,
}

/// Chooses the rung and tile for a product on a device without timing: by the finding for the product if there is one, otherwise by the cost model. `None` if
/// no row supports the product.
#[must_use]
pub fn choose(product: &Product, device: &DeviceInfo, found: &Findings) -> Option<Choice> {
    choose_from(&rows(), product, device, found)
}

/// Like [`choose`], among the given rows.
#[must_use]
pub fn choose_from(rows: &[Row], product: &Product, device: &DeviceInfo, found: &Findings) -> Option<Choice> {
    if let Some(finding) = found.find(product)
        && let Some((row, tile)) = finding.kernel(rows, product, device)
    {
        let why = format!("found to take {:.1} us on this device", finding.us);
        return Some(Choice { row: row.clone(), tile: tile.clone(), why, us: finding.us });
    }
    let best = candidates(rows, product, device).into_iter().next()?;
    let us = best.estimate.us();
    let by = if best.is_measured { "the costs of its tile" } else { "the rates of the device" };
    let why = format!("expected to take {us:.1} us by {by}{}", Limits::for_device(device).origin);
    Some(Choice { row: best.row.clone(), tile: best.tile.clone(), why, us })
}

/// Returns the expected microseconds of a product with one of a row's tiles; `None` if the kernel cannot run the product, or cuts tiles along k.
#[must_use]
pub fn expected_us(row: &Row, tile: &Tile, product: &Product, device: &DeviceInfo) -> Option<f64> {
    candidate(row, tile, product, device).map(|c| c.estimate.us())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::Finding;
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
        // A small product with odd sides is not copied; for a large one copies cost little.
        assert!(chosen(&h200, (531, 69, 63), Dtype::Bf16).starts_with("17_unaligned "));
        assert!(chosen(&h200, (4097, 4095, 4093), Dtype::Bf16).starts_with("14_overlapped_store "));
        check(&h200, cube, Dtype::Tf32, "16_tf32_registers 256x128s4c1g4");
        check(&h200, (512, 512, 512), Dtype::Tf32, "16_tf32_registers 64x64s12c1g8");
        check(&h200, cube, Dtype::F32, "08_double_buffered 128x256x16s4");
        check(&h200, (256, 256, 256), Dtype::F32, "08_double_buffered 32x16x8s3k8");
        check(&h200, (64, 4096, 11008), Dtype::F32, "08_double_buffered 32x64x16s3k8");
        check(&h200, (8192, 8192, 128), Dtype::F32, "08_double_buffered 128x128x8s4");
        check(&a100, cube, Dtype::F32, "08_double_buffered 128x256x16s4");
        // This device has less shared memory than the cheapest tile needs.
        let rtx = DeviceInfo { shared_bytes_per_block: Some(101_376), ..device("RTX", (8, 6), 84) };
        check(&rtx, (64, 4096, 11008), Dtype::F32, "08_double_buffered 32x32x8s3k8");
        check(&a100, cube, Dtype::Tf32, "10_mma_swizzled 128x256x32s4");
        check(&a100, (64, 64, 64), Dtype::Bf16, "10_mma_swizzled 128x128x32s3w64");
        // The large tile does not fit into this device's shared memory.
        check(&rtx, cube, Dtype::Bf16, "10_mma_swizzled 128x128x32s3w64");
        check(&t4, cube, Dtype::F16, "09_wmma 128x128x32");
        check(&t4, cube, Dtype::Bf16, "07_warp_tile 128x128x8");
        check(&t4, (64, 64, 64), Dtype::F32, "07_warp_tile 64x64x8");
    }

    #[test]
    fn the_fastest_come_first_and_begin_with_the_choice() {
        let rows = rows();
        for (m, n, k) in [(4096, 4096, 4096), (531, 69, 63), (64, 4096, 11008), (1000, 1000, 1000)] {
            let product = Product::new(m, n, k, form(Dtype::Bf16));
            let all = candidates(&rows, &product, &h200());
            let choice = choose(&product, &h200(), &Findings::default()).unwrap();
            assert_eq!((all[0].row, all[0].tile, all[0].estimate.us()), (&choice.row, &choice.tile, choice.us));
            let us: Vec<f64> = all.iter().map(|c| c.estimate.us()).collect();
            assert!(us.len() > 10 && us.windows(2).all(|w| w[0] <= w[1]) && us[0] > 0.0);
            // Cutting tiles along k never pays, so stream-k is not considered.
            assert!(all.iter().all(|c| c.is_measured && !c.row.capabilities().unwrap().streams));
            assert_eq!(expected_us(all[1].row, all[1].tile, &product, &h200()), Some(us[1]));
        }
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

    /// Checks shapes from a survey on an H200 for which one class of tiles was clearly the fastest. Classes differ in the rung and in the number of blocks that
    /// share k.
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
        // With few tiles and a long k, it pays to share k.
        for ((m, n, k), form, expected) in [
            ((944, 56, 7568), (true, false), "15_split_k"),
            ((64, 32, 13200), (false, false), "15d_split_over_workspace"),
        ] {
            let (rung, split, _) = chosen((m, n, k), form);
            assert!(rung == expected && split >= 2, "{m}x{n}x{k}: {rung}, {split}");
        }
        // The small tiles fill half of the SMs and k is short, so exchanging sums would cost more than it gains.
        let (rung, split, _) = chosen((3008, 192, 320), (true, false));
        assert_eq!((&*rung, split), ("15b_small_tiles", 1));
        // If rows begin in the middle of lines, L2 is the limit, and clusters read what their tiles share only once.
        for ((m, n, k), form) in [((1896, 808, 3592), (true, true)), ((9264, 280, 1416), (false, true))] {
            assert!(cluster((m, n, k), form) >= 2, "{m}x{n}x{k}");
        }
        assert!(cluster((448, 1216, 9792), (false, true)) >= 2);
        // If k is very short, the largest tile is chosen, since it stores most efficiently.
        let (rung, _, area) = chosen((13376, 9600, 256), (true, true));
        assert_eq!((&*rung, area), ("14_overlapped_store", 128 * 256));
        // An odd product with a long k is divided without a copy.
        assert_eq!(chosen((27, 45, 9427), (true, false)).0, "17b_unaligned_in_parts");
    }

    #[test]
    fn a_reason_names_what_the_time_is_expected_by() {
        let why = |dtype, info: &DeviceInfo| {
            choose(&Product::new(4096, 4096, 4096, form(dtype)), info, &Findings::default()).unwrap().why
        };
        let h100 = DeviceInfo { name: "NVIDIA H100 80GB HBM3".into(), ..h200() };
        for (dtype, info) in [(Dtype::Tf32, &h200()), (Dtype::F32, &h200()), (Dtype::Bf16, &h100)] {
            assert!(why(dtype, info).ends_with(" us by the costs of its tile"), "{}", why(dtype, info));
        }
        // There are no measurements on other devices, and the sentence must say so.
        let a100 = device("A100", (8, 0), 108);
        let scaled = ", in proportion to an H100's SMs and clock";
        assert!(why(Dtype::F32, &a100).ends_with(&format!("by the costs of its tile{scaled}")));
        assert!(why(Dtype::Bf16, &a100).ends_with(&format!("by the rates of the device{scaled}")));
    }

    #[test]
    fn tf32_on_a_t4_has_none() {
        let product = Product::new(8, 8, 8, form(Dtype::Tf32));
        assert!(choose(&product, &device("T4", (7, 5), 40), &Findings::default()).is_none());
    }

    /// A new row is chosen because of its costs and its fallback, not because of its id.
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
    fn a_finding_overrules_the_costs_where_its_kernel_runs() {
        let product = Product::new(4096, 4096, 4096, form(Dtype::Bf16));
        let chosen = |rung: &str, tile: &str, info: &DeviceInfo| {
            let findings = Findings { findings: vec![Finding::new(&product, rung, tile, 1.0)] };
            let choice = choose(&product, info, &findings).unwrap();
            (format!("{} {}", choice.row.rung.id, choice.tile.id), choice.why)
        };
        let found = chosen("13_persistent_cluster", "128x256s4c2g8", &h200());
        assert_eq!(found, ("13_persistent_cluster 128x256s4c2g8".into(), "found to take 1.0 us on this device".into()));
        let by_costs = choose(&product, &h200(), &Findings::default()).unwrap();
        let by_costs = format!("{} {}", by_costs.row.rung.id, by_costs.tile.id);
        // Cases: a tile that the row no longer has, a row that no longer exists, and a row that does not support the type.
        for (rung, tile) in
            [("13_persistent_cluster", "gone"), ("gone", "128x256s4c2g8"), ("16_tf32_registers", "64x64s12c1g8")]
        {
            assert_eq!(chosen(rung, tile, &h200()).0, by_costs);
        }
        // This device lacks the instructions that the found kernel uses.
        assert!(chosen("13_persistent_cluster", "128x256s4c2g8", &device("A100", (8, 0), 108)).0.starts_with("10_"));
    }
}
