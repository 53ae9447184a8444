//! Tests that the CUDA implementation gives the same bits as the CPU implementation.

use warpbook_data::philox::{fill_gaussians, fill_permutation, fill_uniforms, gaussian, permute};
use warpbook_device::testing;
use warpbook_gemm::philox::{Philox, gaussians, permutation};

#[test]
fn gpu_and_cpu_draw_the_same_bits() {
    let Some(device) = testing::gpu("gpu_and_cpu_draw_the_same_bits") else { return };
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
fn gpu_and_cpu_permute_alike() {
    let Some(device) = testing::gpu("gpu_and_cpu_permute_alike") else { return };
    for (seed, n) in [(0u64, 1usize), (5, 2), (5, 1023), (u64::MAX, 65_537)] {
        let got = permutation(&device, seed, n).unwrap().to_vec().unwrap();
        for (i, g) in got.iter().enumerate() {
            assert_eq!(*g, permute(seed, i as u64, n as u64), "index {i} of {n}");
        }
    }
}

/// Parts of sequences equal the sequences of the CPU, both if they are queued one after another and if they are
/// replayed from a graph.
#[test]
fn parts_are_queued_and_captured() {
    let Some(device) = testing::gpu("parts_are_queued_and_captured") else { return };
    let (n, first) = (10_007, u64::from(u32::MAX) - 5000);
    let philox = Philox::new(&device).unwrap();
    let stream = device.stream().unwrap();
    let (z, u) = (device.zeros::<f32>(n).unwrap(), device.zeros::<f32>(n).unwrap());
    let order = device.zeros::<u64>(n).unwrap();
    let queue = || {
        philox.gaussians_into(&stream, &z, 3, 1, first)?;
        philox.uniform_into(&stream, &u, 3, 2, first)?;
        philox.permutation_into(&stream, &order, 3, 77, 60_000)
    };
    let bits = |v: &[f32]| v.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
    let (mut z_want, mut u_want, mut order_want) = (vec![0.0; n], vec![0.0; n], vec![0; n]);
    fill_gaussians(&mut z_want, 3, 1, first);
    fill_uniforms(&mut u_want, 3, 2, first);
    fill_permutation(&mut order_want, 3, 77, 60_000);
    let check = || {
        stream.synchronize().unwrap();
        assert_eq!(bits(&z.to_vec().unwrap()), bits(&z_want));
        assert_eq!(bits(&u.to_vec().unwrap()), bits(&u_want));
        assert_eq!(order.to_vec().unwrap(), order_want);
    };
    queue().unwrap();
    check();
    let graph = stream.capture_owning("parts", (), |()| queue()).unwrap();
    z.fill_bytes(0).unwrap();
    u.fill_bytes(0).unwrap();
    order.fill_bytes(0).unwrap();
    graph.launch(&stream).unwrap();
    check();
    let refused = philox.permutation_into(&stream, &order, 3, 60_000 - n as u64 + 1, 60_000).unwrap_err();
    assert!(refused.to_string().contains("request fewer"), "{refused}");
}
