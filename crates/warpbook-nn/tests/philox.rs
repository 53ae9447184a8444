//! The CUDA body against the processor's, to the bit.

use warpbook_device::testing;
use warpbook_nn::philox::{gaussian, gaussians, permutation, permute};

#[test]
fn gpu_and_processor_draw_the_same_bits() {
    let Some(device) = testing::gpu("gpu_and_processor_draw_the_same_bits") else { return };
    for (seed, stream, n) in
        [(0u64, 0u32, 1usize), (1, 0, 100_003), (u64::MAX, 7, 4096), (0x1234_5678_9abc_def0, 1, 999)]
    {
        let got = gaussians(&device, seed, stream, n).unwrap().to_vec().unwrap();
        for (i, g) in got.iter().enumerate() {
            let want = gaussian(seed, i as u64, stream);
            assert_eq!(g.to_bits(), want.to_bits(), "number {i} of seed {seed}: {g} {want}");
        }
    }
}

#[test]
fn gpu_and_processor_permute_alike() {
    let Some(device) = testing::gpu("gpu_and_processor_permute_alike") else { return };
    for (seed, n) in [(0u64, 1usize), (5, 2), (5, 1023), (u64::MAX, 65_537)] {
        let got = permutation(&device, seed, n).unwrap().to_vec().unwrap();
        for (i, g) in got.iter().enumerate() {
            assert_eq!(*g, permute(seed, i as u64, n as u64), "index {i} of {n}");
        }
    }
}
