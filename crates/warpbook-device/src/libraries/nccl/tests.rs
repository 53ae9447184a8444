use super::communicator::{Communicator, NcclReduce};
use super::handle::NcclId;
use crate::{CudaDevice, Library, Slice};
use std::sync::Arc;
use std::time::Duration;
use warpbook_record::Dtype;

#[test]
fn communicators_may_change_threads() {
    fn check<T: Send + Sync + 'static>() {}
    check::<Communicator>();
    check::<NcclId>();
}

/// Tests a communicator with a single rank: queueing, capturing and aborting do not need a second
/// GPU.
#[test]
fn one_rank_reduces_to_what_it_has() {
    let _one = crate::testing::one_at_a_time();
    let Some(device) = crate::testing::gpu("one_rank_reduces_to_what_it_has") else { return };
    let id = match NcclId::new(&device) {
        Ok(id) => id,
        Err(why) if why.is_missing(Library::Nccl) => {
            return crate::testing::skip("one_rank_reduces_to_what_it_has", "needs NCCL", why);
        }
        Err(why) => panic!("{why}"),
    };
    let ranks =
        Arc::new(Communicator::new(&device, NcclId::from_bytes(id.bytes()), (0, 1), Duration::from_secs(120)).unwrap());
    let stream = device.stream().unwrap();
    let values = device.buffer_from(&[1.0f32, -2.0, 8.0]).unwrap();
    let bytes = values.range(..).cast::<u8>();
    for (reduce, expect) in [
        (NcclReduce::Sum, [1.0, -2.0, 8.0]),
        (NcclReduce::Mean, [1.0, -2.0, 8.0]),
        (NcclReduce::Weighted(0.5), [0.5, -1.0, 4.0]),
    ] {
        values.range(..).write(&[1.0, -2.0, 8.0]).unwrap();
        ranks.all_reduce(&stream, &bytes, Dtype::F32, reduce).unwrap();
        stream.synchronize().unwrap();
        assert_eq!(values.to_vec().unwrap(), expect, "{reduce:?}");
    }
    values.range(..).write(&[1.0, -2.0, 8.0]).unwrap();
    let resources = (ranks.clone(), bytes.clone());
    let graph = stream
        .capture_owning("a reduction", resources, |(ranks, bytes)| {
            ranks.group(|| ranks.all_reduce(&stream, bytes, Dtype::F32, NcclReduce::Weighted(0.5)))
        })
        .unwrap();
    graph.launch(&stream).unwrap();
    graph.launch(&stream).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(values.to_vec().unwrap(), [0.25, -0.5, 2.0]);
    assert_eq!(ranks.async_error(), None);
    drop(graph);
    ranks.abort();
    assert!(ranks.all_reduce(&stream, &bytes, Dtype::F32, NcclReduce::Sum).is_err());
}

#[test]
fn communicators_of_one_process_are_for_different_devices() {
    let _one = crate::testing::one_at_a_time();
    let name = "communicators_of_one_process_are_for_different_devices";
    let Some(device) = crate::testing::gpu(name) else { return };
    let limit = Duration::from_secs(120);
    let error = |devices: &[CudaDevice]| Communicator::all(devices, limit).unwrap_err().to_string();
    assert!(error(&[]).contains("none was named"), "{}", error(&[]));
    let twice = error(&[device.clone(), device.clone()]);
    assert!(twice.contains("is named twice"), "{twice}");
    let all = match Communicator::all(std::slice::from_ref(&device), limit) {
        Ok(all) => all,
        Err(why) if why.is_missing(Library::Nccl) => return crate::testing::skip(name, "needs NCCL", why),
        Err(why) => panic!("{why}"),
    };
    let [one] = &all[..] else { panic!("one communicator") };
    assert_eq!((one.rank(), one.world()), (0, 1));
    let stream = device.stream().unwrap();
    let [from, to] = [[1.0f32, -2.0, 8.0], [0.0; 3]].map(|v| device.buffer_from(&v).unwrap());
    let arrays = (&from.range(..).cast::<u8>(), &to.range(..).cast::<u8>());
    one.reduce(&stream, arrays, Dtype::F32, NcclReduce::Sum, 0).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(to.to_vec().unwrap(), [1.0, -2.0, 8.0]);
}

/// Tests one thread that queues work on two GPUs: a reduction to the first GPU, and a send to it.
#[test]
fn one_thread_queues_for_two_gpus() {
    let name = "one_thread_queues_for_two_gpus";
    let _one = crate::testing::one_at_a_time();
    let Some([first, second]) = crate::testing::two_gpus(name) else { return };
    let devices = [first, second];
    let all = match Communicator::all(&devices, Duration::from_secs(120)) {
        Ok(all) => all,
        Err(why) if why.is_missing(Library::Nccl) => return crate::testing::skip(name, "needs NCCL", why),
        Err(why) => panic!("{why}"),
    };
    let n = 100_003;
    let streams = devices.each_ref().map(|d| d.urgent_stream().unwrap());
    let values = |d: usize| (0..n).map(|i| (i % 97) as f32 + 1000.0 * d as f32).collect::<Vec<f32>>();
    let arrays: Vec<_> = devices.iter().enumerate().map(|(d, on)| on.buffer_from(&values(d)).unwrap()).collect();
    let bytes: Vec<Slice<u8>> = arrays.iter().map(|a| a.range(..).cast()).collect();
    let to = devices[0].zeros::<f32>(n).unwrap();
    let to_bytes = to.range(..).cast::<u8>();
    all[0]
        .group(|| {
            all[0].reduce(&streams[0], (&bytes[0], &to_bytes), Dtype::F32, NcclReduce::Sum, 0)?;
            all[1].reduce(&streams[1], (&bytes[1], &bytes[1]), Dtype::F32, NcclReduce::Sum, 0)
        })
        .unwrap();
    streams.iter().for_each(|s| s.synchronize().unwrap());
    let sums: Vec<f32> = values(0).iter().zip(values(1)).map(|(a, b)| a + b).collect();
    assert!(to.to_vec().unwrap() == sums);
    all[0]
        .group(|| {
            all[1].send(&streams[1], &bytes[1], 0)?;
            all[0].receive(&streams[0], &to_bytes, 1)
        })
        .unwrap();
    streams.iter().for_each(|s| s.synchronize().unwrap());
    assert!(to.to_vec().unwrap() == values(1) && arrays[1].to_vec().unwrap() == values(1));
}
