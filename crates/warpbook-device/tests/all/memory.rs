//! Tests arenas, slices, page-locked arrays, queued fills and copies, and modules on a real GPU.

use crate::common::{axpy, kernel, spec};
use half::{bf16, f16};
use std::panic::{AssertUnwindSafe, catch_unwind};
use warpbook_device::{Arena, ArenaPlan, Compiler, CudaDevice, Error, Slice, Stream, testing};

/// Number of cycles of a kernel that delays the copy behind it by some ten milliseconds.
const LATE: i64 = 20_000_000;

/// Queues a kernel that sets the first element of `y` after [`LATE`] cycles.
fn late(device: &CudaDevice, stream: &Stream, y: &Slice<f32>, value: f32) {
    let kernel = kernel(device, "late", 32);
    // SAFETY: the arguments match `late(y, value, cycles)`. y has at least one element, and freeing y waits until the launch has ended.
    unsafe { kernel.launch(stream, kernel.shape(1), &[y, &value, &LATE]) }.unwrap();
}

#[test]
fn the_kernels_of_these_tests_compile() {
    // This part needs NVRTC but no GPU.
    let compiler = Compiler::new(None).unwrap_or_else(|e| panic!("{e}"));
    let spec = spec("axpy", 128);
    let compiled = compiler.compile(&spec, &spec.tiles[0], "sm_90").unwrap_or_else(|e| panic!("{e}"));
    for entry in ["axpy", "late", "narrow", "shared", "stray"] {
        assert!(compiled.stats_of(entry).is_some_and(|s| s.registers > 0), "{entry}");
    }
}

#[test]
fn slices_of_an_arena_are_kernel_arguments() {
    let Some(device) = testing::gpu("slices_of_an_arena_are_kernel_arguments") else { return };
    let (stream, kernel) = (device.stream().unwrap(), kernel(&device, "axpy", 128));
    let arena = Arena::new(&device, 1 << 20).unwrap();
    let odd = arena.slice::<u8>(3).unwrap();
    let (x, y) = (arena.slice::<f32>(1000).unwrap(), arena.slice::<f32>(1000).unwrap());
    for address in [odd.at(0), x.at(0), y.at(0)] {
        assert!(address.is_aligned(256), "{address:?}");
    }
    assert!(!x.overlaps(&y) && !x.overlaps(&odd));
    assert_eq!(arena.used(), 256 + 4096 + 4000);
    assert!(x.to_vec().unwrap().iter().chain(&y.to_vec().unwrap()).all(|v| *v == 0.0), "an arena is zeros at first");

    let values: Vec<f32> = (0..1000).map(|i| i as f32).collect();
    x.write(&values).unwrap();
    axpy(&kernel, &stream, &y, &x, 2.0).unwrap();
    axpy(&kernel, &stream, &y.range(10..20), &x.range(0..10), 1.0).unwrap();
    stream.synchronize().unwrap();
    let want = |i: usize| 2.0 * i as f32 + if (10..20).contains(&i) { (i - 10) as f32 } else { 0.0 };
    assert_eq!(y.to_vec().unwrap(), (0..1000).map(want).collect::<Vec<_>>());
    assert_eq!(y.range(998..).to_vec().unwrap(), [want(998), want(999)]);
    assert_eq!(x.to_vec().unwrap(), values);
    assert_eq!(odd.to_vec().unwrap(), [0; 3]);
}

#[test]
fn an_arena_that_is_full_says_so() {
    let Some(device) = testing::gpu("an_arena_that_is_full_says_so") else { return };
    let arena = Arena::new(&device, 4096).unwrap();
    arena.slice::<f32>(10).unwrap();
    let error = arena.slice::<f32>(1000).unwrap_err();
    assert!(matches!(error, Error::ArenaFull { asked: 4000, left: 3840, total: 4096, .. }), "{error}");
    assert_eq!(arena.left(), 3840, "what was refused takes nothing");
    assert!(arena.slice::<u64>(usize::MAX / 4).is_err());
    assert_eq!(arena.slice::<f32>(960).unwrap().len(), 960);
    assert_eq!(arena.left(), 0);
    assert!(arena.slice::<f32>(0).unwrap().to_vec().unwrap().is_empty());
    assert!(arena.planned::<f32>("x").unwrap_err().to_string().contains("without a plan"));
    let total = device.memory().unwrap().1 as usize;
    assert!(matches!(Arena::new(&device, total * 2), Err(Error::OutOfMemory { .. })));
}

#[test]
fn a_planned_arena_shares_memory_over_time() {
    let Some(device) = testing::gpu("a_planned_arena_shares_memory_over_time") else { return };
    let mut plan = ArenaPlan::new();
    plan.add("weights", 4000, 0, 9).add("first", 1 << 20, 0, 4).add("second", 1 << 20, 5, 9);
    let arena = Arena::with_layout(&device, plan.layout()).unwrap();
    assert_eq!(arena.bytes(), (1 << 20) + 4096);
    let block = |name| arena.planned::<f32>(name).unwrap();
    let (weights, first, second) = (block("weights"), block("first"), block("second"));
    assert_eq!((weights.len(), first.len()), (1000, 1 << 18));
    assert!(first.overlaps(&second) && !first.overlaps(&weights) && !second.overlaps(&weights));
    weights.write(&[1.0; 1000]).unwrap();
    first.fill_bytes(0xff).unwrap();
    assert!(second.to_vec().unwrap().iter().all(|v| v.is_nan()));
    assert_eq!(weights.to_vec().unwrap(), [1.0; 1000]);
    assert!(arena.planned::<f32>("third").unwrap_err().to_string().contains("weights, first, second"));
    assert!(matches!(arena.slice::<u8>(1), Err(Error::ArenaFull { left: 0, .. })));
}

#[test]
fn memory_is_counted_and_lives_as_long_as_its_slices() {
    let Some(device) = testing::gpu("memory_is_counted_and_lives_as_long_as_its_slices") else { return };
    assert_eq!((device.allocated(), device.peak_allocated()), (0, 0));
    let buffer = device.buffer_from(&[1.0f32, 2.0, 3.0, 4.0]).unwrap();
    let arena = Arena::new(&device, 1000).unwrap();
    assert_eq!((device.allocated(), device.peak_allocated()), (1016, 1016));
    let (part, slice) = (buffer.range(1..3), arena.slice::<u8>(10).unwrap());
    drop(buffer);
    drop(arena);
    assert_eq!(device.allocated(), 1016);
    assert_eq!((part.to_vec().unwrap(), slice.to_vec().unwrap()), (vec![2.0, 3.0], vec![0; 10]));
    drop(slice);
    assert_eq!((device.allocated(), device.peak_allocated()), (16, 1016));
    device.reset_peak();
    assert_eq!(device.peak_allocated(), 16);
    drop(part.clone());
    assert_eq!(device.allocated(), 16);
    drop(part);
    assert_eq!((device.clone().allocated(), device.peak_allocated()), (0, 16));
}

#[test]
fn slices_are_parts_and_casts_of_the_same_bytes() {
    let Some(device) = testing::gpu("slices_are_parts_and_casts_of_the_same_bytes") else { return };
    let buffer = device.buffer_from(&[0x0403_0201u32, 0x0807_0605]).unwrap();
    let bytes = buffer.cast::<u8>();
    assert_eq!((bytes.len(), bytes.bytes(), bytes.at(0)), (8, 8, buffer.at(0)));
    assert_eq!(bytes.range(2..7).to_vec().unwrap(), [3, 4, 5, 6, 7]);
    assert_eq!(bytes.range(4..).cast::<u16>().to_vec().unwrap(), [0x0605, 0x0807]);
    assert_eq!(bytes.range(1..).range(..2).at(1), buffer.at(0).offset(2));
    assert!(bytes.range(8..).is_empty() && !bytes.range(8..).overlaps(&bytes));
    assert!(bytes.range(..3).overlaps(&bytes.range(2..)) && !bytes.range(..2).overlaps(&bytes.range(2..)));
    let fails = |work: &dyn Fn()| catch_unwind(AssertUnwindSafe(work)).is_err();
    assert!(fails(&|| drop(bytes.range(..9))));
    assert!(fails(&|| drop(bytes.range(..6).cast::<u32>())), "six bytes are not a whole number of u32");
    assert!(fails(&|| drop(bytes.range(2..6).cast::<u32>())), "not aligned");
    assert!(fails(&|| _ = bytes.at(9)));
}

#[test]
fn queued_fills_set_what_they_are_told_and_no_more() {
    let Some(device) = testing::gpu("queued_fills_set_what_they_are_told_and_no_more") else { return };
    let stream = device.stream().unwrap();
    let floats = device.zeros::<f32>(1003).unwrap();
    stream.fill_value(&floats.range(1..1002), -1.25).unwrap();
    stream.fill(&floats.range(500..501), 0xff).unwrap();
    stream.fill_value(&floats.range(7..7), 3.0).unwrap();
    let (shorts, halves) = (device.zeros::<u16>(7).unwrap(), device.zeros::<f16>(7).unwrap());
    stream.fill_value(&shorts.range(1..6), 0xabcd).unwrap();
    stream.fill_value(&halves.range(..3), f16::from_f32(0.5)).unwrap();
    let (bytes, words) = (device.zeros::<i8>(5).unwrap(), device.zeros::<u64>(2).unwrap());
    stream.fill_value(&bytes.range(1..2), -3).unwrap();
    stream.fill(&words, 0x11).unwrap();
    stream.synchronize().unwrap();
    let read = floats.to_vec().unwrap();
    assert!(read[0] == 0.0 && read[1002] == 0.0 && read[500].is_nan());
    assert!(read[1..500].iter().chain(&read[501..1002]).all(|v| *v == -1.25));
    assert_eq!(shorts.to_vec().unwrap(), [0, 0xabcd, 0xabcd, 0xabcd, 0xabcd, 0xabcd, 0]);
    assert_eq!(halves.to_vec().unwrap(), [0.5f32, 0.5, 0.5, 0.0, 0.0, 0.0, 0.0].map(f16::from_f32));
    assert_eq!(bytes.to_vec().unwrap(), [0, -3, 0, 0, 0]);
    assert_eq!(words.to_vec().unwrap(), [0x1111_1111_1111_1111; 2]);
}

#[test]
fn copies_within_the_device_are_ordered_with_kernels() {
    let Some(device) = testing::gpu("copies_within_the_device_are_ordered_with_kernels") else { return };
    let stream = device.stream().unwrap();
    let (a, b) = (device.zeros::<f32>(100).unwrap(), device.zeros::<f32>(102).unwrap());
    late(&device, &stream, &a, 7.0);
    stream.copy(&a, &b.range(1..101)).unwrap();
    stream.synchronize().unwrap();
    let read = b.to_vec().unwrap();
    assert!(read[1] == 7.0 && read.iter().sum::<f32>() == 7.0, "{:?}", &read[..3]);
    stream.copy(&b.range(0..2), &b.range(2..4)).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(b.range(..5).to_vec().unwrap(), [0.0, 7.0, 0.0, 7.0, 0.0]);
    let fails = |work: &dyn Fn()| catch_unwind(AssertUnwindSafe(work)).is_err();
    assert!(fails(&|| drop(stream.copy(&a, &b))), "lengths differ");
    assert!(fails(&|| drop(stream.copy(&b.range(0..2), &b.range(1..3)))), "they overlap");
}

#[test]
fn values_go_through_page_locked_memory_and_come_back() {
    let Some(device) = testing::gpu("values_go_through_page_locked_memory_and_come_back") else { return };
    let (stream, kernel) = (device.stream().unwrap(), kernel(&device, "axpy", 128));
    for len in [0usize, 1, 7, 100_003] {
        let values: Vec<f32> = (0..len).map(|i| i as f32 * 0.5 - 3.0).collect();
        let (from, to) = (device.pinned_from(&values).unwrap(), device.pinned::<f32>(len).unwrap());
        assert!(to.read().unwrap().iter().all(|v| *v == 0.0));
        let (x, y) = (device.zeros::<f32>(len).unwrap(), device.zeros::<f32>(len).unwrap());
        stream.copy_to_device(&from, &x).unwrap();
        if len > 0 {
            axpy(&kernel, &stream, &y, &x, 2.0).unwrap();
        }
        stream.copy_to_host(&y, &to).unwrap();
        // Nothing but `read` waits for the stream.
        assert_eq!(*to.read().unwrap(), values.iter().map(|v| 2.0 * v).collect::<Vec<_>>()[..]);
        assert_eq!(*from.read().unwrap(), values[..]);
    }
}

#[test]
fn the_host_waits_for_the_copies_that_it_conflicts_with() {
    let Some(device) = testing::gpu("the_host_waits_for_the_copies_that_it_conflicts_with") else { return };
    let (stream, other) = (device.stream().unwrap(), device.stream().unwrap());
    let (y, host) = (device.zeros::<f32>(4).unwrap(), device.pinned::<f32>(4).unwrap());
    late(&device, &stream, &y, 5.0);
    stream.copy_to_host(&y, &host).unwrap();
    // A copy on another stream that ends sooner must not end the wait for the slow copy.
    let early = device.zeros::<f32>(2).unwrap();
    other.copy_to_device(&host.range(2..), &early).unwrap();
    other.synchronize().unwrap();
    assert_eq!(*host.read().unwrap(), [5.0, 0.0, 0.0, 0.0]);

    // The host must not overwrite an array before the device has read it.
    late(&device, &stream, &y, 6.0);
    stream.copy_to_device(&host.range(..2), &y.range(2..)).unwrap();
    host.write().unwrap().fill(9.0);
    stream.synchronize().unwrap();
    assert_eq!(y.to_vec().unwrap(), [6.0, 0.0, 5.0, 0.0]);
}

#[test]
fn what_the_host_has_borrowed_is_not_copied() {
    let Some(device) = testing::gpu("what_the_host_has_borrowed_is_not_copied") else { return };
    let stream = device.stream().unwrap();
    let (slice, host) = (device.buffer_from(&[1.0f32, 2.0]).unwrap(), device.pinned::<f32>(2).unwrap());
    let out = || stream.copy_to_host(&slice, &host);
    let into = || stream.copy_to_device(&host, &slice);
    let refused = |r: Result<(), Error>, by: &str| {
        let words = r.unwrap_err().to_string();
        assert!(words.contains(&format!("drop the value that `Pinned::{by}` returned")), "{words}");
    };
    let reading = host.read().unwrap();
    let second = host.read().unwrap();
    refused(out(), "read");
    refused(host.write().map(drop), "read");
    drop(second);
    refused(out(), "read");
    into().unwrap();
    assert_eq!(*reading, [0.0, 0.0]);
    drop(reading);

    let mut writing = host.write().unwrap();
    refused(out(), "write");
    refused(into(), "write");
    refused(host.clone().read().map(drop), "write");
    refused(host.range(1..).write().map(drop), "write");
    writing.copy_from_slice(&[3.0, 4.0]);
    drop(writing);
    into().unwrap();
    stream.fill(&slice.range(..1), 0).unwrap();
    out().unwrap();
    assert_eq!(*host.read().unwrap(), [0.0, 4.0]);
}

#[test]
fn memory_may_be_dropped_while_copies_are_queued() {
    let Some(device) = testing::gpu("memory_may_be_dropped_while_copies_are_queued") else { return };
    let stream = device.stream().unwrap();
    for _ in 0..8 {
        let slice = device.zeros::<f32>(1 << 20).unwrap();
        let (host, back) = (device.pinned_from(&vec![1.0f32; 1 << 20]).unwrap(), device.pinned(1 << 20).unwrap());
        late(&device, &stream, &slice, 1.0);
        stream.copy_to_device(&host, &slice).unwrap();
        stream.copy_to_host(&slice, &back).unwrap();
        drop(host);
        drop(back);
        // A new page-locked array may reuse the memory of the dropped one.
        let next = device.pinned_from(&vec![2.0f32; 1 << 20]).unwrap();
        assert!(next.read().unwrap().iter().all(|v| *v == 2.0), "a copy wrote to memory that was freed");
    }
    // A stream may be dropped before its copies have ended.
    let (slice, host) = (device.zeros::<f32>(1).unwrap(), device.pinned(1).unwrap());
    late(&device, &stream, &slice, 3.0);
    stream.copy_to_host(&slice, &host).unwrap();
    drop(stream);
    assert_eq!(*host.read().unwrap(), [3.0]);
}

#[test]
fn events_tell_when_they_have_happened() {
    let Some(device) = testing::gpu("events_tell_when_they_have_happened") else { return };
    let (stream, event, y) = (device.stream().unwrap(), device.event().unwrap(), device.zeros::<f32>(1).unwrap());
    assert!(event.has_happened().unwrap(), "one that was never recorded is waited for by nobody");
    late(&device, &stream, &y, 2.0);
    event.record(&stream).unwrap();
    event.synchronize().unwrap();
    assert!(event.has_happened().unwrap());
    assert_eq!(y.to_vec().unwrap(), [2.0]);
}

#[test]
fn narrow_arguments_arrive() {
    let Some(device) = testing::gpu("narrow_arguments_arrive") else { return };
    let (stream, kernel, out) =
        (device.stream().unwrap(), kernel(&device, "narrow", 32), device.zeros::<i32>(6).unwrap());
    let (half, brain) = (f16::from_f32(-0.1), bf16::from_f32(-0.1));
    // SAFETY: the kernel's parameters are an array, numbers of type u8, i8, u16 and i16, and two 16-bit floats; `out` has six elements.
    unsafe {
        kernel.launch(&stream, kernel.shape(1), &[&out, &200u8, &-100i8, &60_000u16, &-30_000i16, &half, &brain])
    }
    .unwrap();
    stream.synchronize().unwrap();
    let want = [200, -100, 60_000, -30_000, i32::from(half.to_bits()), i32::from(brain.to_bits())];
    assert_eq!(out.to_vec().unwrap(), want);
}

#[test]
fn kernels_of_the_same_code_share_a_module() {
    let Some(device) = testing::gpu("kernels_of_the_same_code_share_a_module") else { return };
    assert_eq!(device.loaded_modules(), 0);
    let first = kernel(&device, "axpy", 128);
    let (second, other_entry) = (kernel(&device, "axpy", 128), kernel(&device.clone(), "late", 128));
    assert_eq!(device.loaded_modules(), 1);
    let other_tile = kernel(&device, "axpy", 256);
    assert_eq!(device.loaded_modules(), 2);
    drop(other_tile);
    drop(first);
    drop(other_entry);
    assert_eq!(device.loaded_modules(), 1);
    let (stream, x, y) = (device.stream().unwrap(), device.buffer_from(&[2.0f32]).unwrap(), device.zeros(1).unwrap());
    axpy(&second, &stream, &y, &x, 3.0).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(y.to_vec().unwrap(), [6.0]);
    drop(second);
    assert_eq!(device.loaded_modules(), 0);
    // After it has been loaded again, the kernel works as before.
    axpy(&kernel(&device, "axpy", 128), &stream, &y, &x, 1.0).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(y.to_vec().unwrap(), [8.0]);
}

#[test]
fn a_pageable_copy_has_ended_when_it_was_timed() {
    let Some(device) = testing::gpu("a_pageable_copy_has_ended_when_it_was_timed") else { return };
    let stream = device.stream().unwrap();
    let values: Vec<f32> = (0..1 << 20).map(|i| i as f32).collect();
    let to = device.zeros::<f32>(values.len()).unwrap();
    let [returned, ended] = stream.time_pageable_copy(&values, &to).unwrap();
    assert!(returned <= ended, "{returned:?} {ended:?}");
    assert_eq!(to.to_vec().unwrap(), values);
}

#[test]
fn a_kernel_does_not_lower_the_shared_memory_of_another() {
    let Some(device) = testing::gpu("a_kernel_does_not_lower_the_shared_memory_of_another") else { return };
    let most = device.info().shared_bytes_per_block.unwrap() as u32 / 1024 * 1024;
    let (mut large, mut small) = (kernel(&device, "shared", 128), kernel(&device, "shared", 128));
    large.reserve_shared(most).unwrap();
    small.reserve_shared(50 << 10).unwrap();
    let (stream, out, words) = (device.stream().unwrap(), device.zeros::<f32>(1).unwrap(), most / 4);
    let mut shape = large.shape(1);
    shape.dynamic_shared_bytes = most;
    // SAFETY: the arguments match `shared(out, words)`; `out` has one element per block, and `words` is the number of words of shared memory of a block.
    unsafe { large.launch(&stream, shape, &[&out, &words]) }.unwrap();
    stream.synchronize().unwrap();
    assert_eq!(out.to_vec().unwrap(), [words as f32]);
    assert_eq!((large.stats().dynamic_shared_bytes, small.stats().dynamic_shared_bytes), (most, 50 << 10));
}
