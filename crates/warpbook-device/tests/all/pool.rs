//! Tests a pool of device memory on a real GPU.

use warpbook_device::{Pool, testing};

#[test]
fn what_is_given_back_is_used_again() {
    let Some(device) = testing::gpu("what_is_given_back_is_used_again") else { return };
    let before = device.allocated();
    let pool = Pool::new(&device);
    let first = pool.array::<f32>(3_000_000).unwrap();
    first.write(&vec![7.0; 3_000_000]).unwrap();
    let address = first.at(0);
    assert_eq!(device.allocated() - before, pool.used().reserved);
    drop(first);
    for _ in 0..10 {
        let again = pool.array::<f32>(3_000_000).unwrap();
        assert_eq!(again.at(0), address);
        assert!(again.to_vec().unwrap().iter().all(|v| *v == 7.0), "nobody has cleared it");
    }
    let used = pool.used();
    assert_eq!((used.allocated, used.requests, used.new_segments), (0, 11, 1));
    let [a, b] = [100usize, 200].map(|len| pool.array::<u8>(len).unwrap());
    assert!(!a.overlaps(&b) && a.at(0).is_aligned(512) && b.at(0).is_aligned(512));
    drop(a);
    pool.empty_cache();
    assert_eq!(pool.used().segments, 1, "one array keeps its segment");
    drop(b);
    pool.empty_cache();
    assert_eq!((pool.used().reserved, device.allocated()), (0, before));
}

/// Allocates three quarters of the memory twice; the second time, the pool has to release its first
/// segment.
#[test]
fn unused_segments_make_room() {
    let Some(device) = testing::gpu("unused_segments_make_room") else { return };
    let (free, _) = device.memory().unwrap();
    let pool = Pool::new(&device);
    let most = usize::try_from(free / 5 * 3).unwrap();
    drop(pool.array::<u8>(most).unwrap());
    let larger = pool.array::<u8>(most + (64 << 20)).unwrap();
    assert_eq!(pool.used().segments, 1);
    drop(larger);
    let error = pool.array::<u8>(usize::MAX / 4).unwrap_err().to_string();
    assert!(error.contains("A segment of"), "{error}");
    assert_eq!(pool.used().allocated, 0);
}
