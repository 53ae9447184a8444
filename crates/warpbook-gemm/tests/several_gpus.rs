//! Tests products over several GPUs. A machine with one GPU computes its shares on separate streams: the panels and the order of work are the same.

use std::sync::Arc;
use std::time::Duration;
use warpbook_device::{Communicator, CudaDevice, Library, Route, Stream, testing};
use warpbook_gemm::philox::gaussians;
use warpbook_gemm::storage::Storage;
use warpbook_gemm::tensor_parallel::{Doing, Options, Split, TensorParallel};
use warpbook_gemm::{DeviceArrays, Judge, Product};
use warpbook_kernels::matmul::Form;
use warpbook_record::Dtype;

/// A product with its operands on the first GPU, and one C for each way of computing it.
struct Work {
    product: Product,
    a: Storage,
    b: Storage,
    c: Storage,
    stream: Stream,
}

impl Work {
    fn new(device: &CudaDevice, (m, n, k): (u32, u32, u32), dtype: Dtype) -> Self {
        let out = if dtype == Dtype::Tf32 { Dtype::F32 } else { dtype };
        let product = Product::new(m, n, k, Form { out, ..Form::plain(dtype) });
        let [a, b, c] = product.elements();
        let drawn = |stream, len| {
            let values = gaussians(device, 7, stream, len).unwrap().to_vec().unwrap();
            Storage::from_f32(device, &values, dtype).unwrap()
        };
        let (a, b, c) = (drawn(0, a), drawn(1, b), Storage::zeros(device, c, out).unwrap());
        Self { product, a, b, c, stream: device.stream().unwrap() }
    }

    fn arrays(&self) -> DeviceArrays {
        DeviceArrays::new(&self.a, &self.b, &self.c)
    }

    fn over(&self, devices: &[CudaDevice], options: &Options) -> TensorParallel {
        TensorParallel::new(devices, &self.product, &self.arrays(), options).unwrap()
    }

    /// Returns C of a run that started from NaNs. Two more runs follow immediately and must give the same result.
    fn run(&self, over: &TensorParallel) -> Vec<f32> {
        self.c.fill_bytes(0xff).unwrap();
        over.queue(&self.stream).unwrap();
        self.stream.synchronize().unwrap();
        let once = self.c.to_f32().unwrap();
        self.c.fill_bytes(0xff).unwrap();
        for _ in 0..2 {
            over.queue(&self.stream).unwrap();
        }
        self.stream.synchronize().unwrap();
        let again = self.c.to_f32().unwrap();
        let same = once.iter().zip(&again).all(|(a, b)| a.to_bits() == b.to_bits());
        assert!(same, "{over:?}: other bits in a later run");
        once
    }

    fn assert_right(&self, judge: &Judge, over: &TensorParallel) {
        let c = self.run(over);
        assert!(c.iter().all(|v| v.is_finite()), "{over:?}: an element was not written");
        let verdict = judge.judge(&self.stream, &self.c).unwrap();
        assert!(verdict.passed(), "{over:?}: {verdict:?}");
    }
}

/// Shapes large enough for panels of any tile, shapes with odd sides, and very small ones.
const SHAPES: [(u32, u32, u32); 5] = [(2048, 1024, 512), (1000, 520, 333), (777, 129, 1025), (70, 64, 40), (1, 1, 1)];

/// Returns the devices of the runs: one device, the same device listed twice and three times, and all GPUs.
fn teams(all: &[CudaDevice]) -> Vec<Vec<CudaDevice>> {
    let first = &all[0];
    let mut teams: Vec<Vec<CudaDevice>> = (1..=3).map(|n| vec![first.clone(); n]).collect();
    if all.len() > 1 {
        teams.push(all[..2].to_vec());
        teams.push(all.to_vec());
        // One GPU has two shares, and another has one.
        teams.push(vec![first.clone(), all[1].clone(), first.clone()]);
    }
    teams
}

/// Returns true if all GPUs can access the first one's memory.
fn are_linked(team: &[CudaDevice]) -> bool {
    team.iter().all(|device| team[0].connect(device).unwrap() != Route::Host)
}

fn dtypes(device: &CudaDevice) -> Vec<Dtype> {
    let mut all = vec![Dtype::F32, Dtype::F16];
    if device.info().compute_capability >= Some((8, 0)) {
        all.extend([Dtype::Bf16, Dtype::Tf32]);
    }
    all
}

fn same_bits(a: &[f32], b: &[f32]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits())
}

#[test]
fn rows_have_the_bits_of_one_gpu() {
    let all = testing::gpus("rows_have_the_bits_of_one_gpu");
    let Some(first) = all.first() else { return };
    for dtype in dtypes(first) {
        for shape in SHAPES {
            let work = Work::new(first, shape, dtype);
            let judge = Judge::new(first, &work.product, &work.a, &work.b).unwrap();
            let one = work.over(std::slice::from_ref(first), &Options::new(Split::Rows));
            assert_eq!((one.gpus(), one.link_bytes()), (1, 0));
            work.assert_right(&judge, &one);
            let expect = work.c.to_f32().unwrap();
            for team in teams(&all) {
                for options in [Options::new(Split::Rows), Options::new(Split::Rows).panels(3)] {
                    let over = work.over(&team, &options);
                    assert!(same_bits(&work.run(&over), &expect), "{over:?} {shape:?} {dtype:?}");
                }
                if are_linked(&team) {
                    let over = work.over(&team, &Options::new(Split::Rows).stores());
                    assert!(same_bits(&work.run(&over), &expect), "{over:?} {shape:?} {dtype:?}");
                }
            }
        }
    }
}

#[test]
fn k_is_within_the_bounds_of_a_product() {
    let all = testing::gpus("k_is_within_the_bounds_of_a_product");
    let Some(first) = all.first() else { return };
    for dtype in dtypes(first) {
        for shape in SHAPES {
            let work = Work::new(first, shape, dtype);
            let judge = Judge::new(first, &work.product, &work.a, &work.b).unwrap();
            for team in teams(&all) {
                for options in [Options::new(Split::K), Options::new(Split::K).panels(3)] {
                    let over = work.over(&team, &options);
                    let (m, n, k) = shape;
                    let shares = (k.div_ceil(64) as usize).min(team.len());
                    assert_eq!(over.gpus(), shares, "{over:?}");
                    assert_eq!(over.link_bytes(), (shares as u64 - 1) * u64::from(m) * u64::from(n) * 4);
                    work.assert_right(&judge, &over);
                }
            }
        }
    }
}

#[test]
fn operands_that_have_changed_are_given_out_anew() {
    let all = testing::gpus("operands_that_have_changed_are_given_out_anew");
    let Some(first) = all.first() else { return };
    let team = if all.len() > 1 { all[..2].to_vec() } else { vec![first.clone(); 2] };
    for split in [Split::Rows, Split::K] {
        let work = Work::new(first, (512, 256, 512), Dtype::F32);
        let over = work.over(&team, &Options::new(split));
        let before = work.run(&over);
        let twice: Vec<f32> = work.a.to_f32().unwrap().iter().map(|v| v * 2.0).collect();
        work.a.write_f32(&twice).unwrap();
        over.distribute().unwrap();
        let after = work.run(&over);
        assert!(before.iter().zip(&after).all(|(a, b)| (a * 2.0).to_bits() == b.to_bits()), "{over:?}");
    }
}

fn communicators(test: &str, devices: &[CudaDevice]) -> Option<Arc<Vec<Communicator>>> {
    match Communicator::all(devices, Duration::from_secs(120)) {
        Ok(all) => Some(Arc::new(all)),
        Err(why) if why.is_missing(Library::Nccl) => {
            testing::skip(test, "needs NCCL, which is installed for GPUs", why);
            None
        }
        Err(why) => panic!("{why}"),
    }
}

/// With one GPU, the communicator has a single rank, whose rows and whose whole K are already in place.
#[test]
fn nccl_gives_the_same_as_copies() {
    let name = "nccl_gives_the_same_as_copies";
    let _one = testing::one_at_a_time();
    let all = testing::gpus(name);
    let Some(first) = all.first() else { return };
    let mut counts = vec![1];
    counts.extend((all.len() > 1).then_some(2));
    counts.extend((all.len() > 2).then_some(all.len()));
    for count in counts {
        let Some(ranks) = communicators(name, &all[..count]) else { return };
        for dtype in dtypes(first) {
            for shape in SHAPES.into_iter().filter(|(_, _, k)| *k >= 64 * count as u32) {
                let work = Work::new(first, shape, dtype);
                let judge = Judge::new(first, &work.product, &work.a, &work.b).unwrap();
                for panels in [1, 3] {
                    let by = |split| Options::new(split).panels(panels);
                    let rows = work.over(&all[..count], &by(Split::Rows).nccl(ranks.clone()));
                    let copied = work.over(&all[..count], &by(Split::Rows));
                    assert!(same_bits(&work.run(&rows), &work.run(&copied)), "{rows:?} {shape:?} {dtype:?}");
                    assert_eq!(rows.link_bytes(), copied.link_bytes());
                    work.assert_right(&judge, &work.over(&all[..count], &by(Split::K).nccl(ranks.clone())));
                }
            }
        }
        assert!(ranks.iter().all(|r| r.async_error().is_none()));
    }
}

#[test]
fn a_timeline_tells_who_did_what() {
    let name = "a_timeline_tells_who_did_what";
    let _one = testing::one_at_a_time();
    let all = testing::gpus(name);
    let Some(first) = all.first() else { return };
    let twice = vec![first.clone(); 2];
    let mut cases = vec![
        (twice.clone(), Options::new(Split::Rows).panels(4), false),
        (twice, Options::new(Split::K).panels(4), false),
    ];
    if all.len() > 1 {
        let two = all[..2].to_vec();
        cases.push((two.clone(), Options::new(Split::Rows).panels(4), false));
        cases.push((two.clone(), Options::new(Split::K).panels(4), false));
        if let Some(ranks) = communicators(name, &two) {
            cases.push((two.clone(), Options::new(Split::Rows).panels(4).nccl(ranks.clone()), true));
            cases.push((two, Options::new(Split::K).panels(4).nccl(ranks), true));
        }
    }
    let work = Work::new(first, (4096, 2048, 2048), Dtype::F16);
    for team in [vec![first.clone(); 2], all.clone()].into_iter().filter(|team| team.len() > 1 && are_linked(team)) {
        let over = work.over(&team, &Options::new(Split::Rows).panels(4).stores());
        let timeline = over.timeline(&work.stream).unwrap();
        let multiplied = timeline.stretches.iter().filter(|s| s.doing == Doing::Multiplying).count();
        assert_eq!((multiplied, timeline.stretches.len()), (team.len(), team.len()), "{over:?} {timeline:?}");
        assert!(timeline.communicating_us() == 0.0 && over.link_bytes() > 0, "{timeline:?}");
    }
    for (team, options, is_nccl) in cases {
        let over = work.over(&team, &options);
        let timeline = over.timeline(&work.stream).unwrap();
        println!(
            "{over:?}: {:.0} us, of which {:.0} us communicating, {:.0} us exposed; clocks within {:.1} us",
            timeline.whole_us,
            timeline.communicating_us(),
            timeline.exposed_us(),
            timeline.clock_error_us
        );
        let by_k = options.split == Split::K;
        let count = |rank: usize, doing: Doing| {
            timeline.stretches.iter().filter(|s| s.rank == rank && s.doing == doing).count()
        };
        assert_eq!(count(1, Doing::Multiplying), 4, "{timeline:?}");
        assert_eq!(count(1, Doing::Communicating), 4, "{timeline:?}");
        assert_eq!(count(0, Doing::Multiplying), if by_k || is_nccl { 4 } else { 1 }, "{timeline:?}");
        assert_eq!(count(0, Doing::Adding), if by_k { 4 } else { 0 }, "{timeline:?}");
        let received = timeline.stretches.iter().filter(|s| s.rank == usize::from(!is_nccl)).filter_map(|s| s.bytes);
        assert_eq!(received.sum::<u64>(), over.link_bytes(), "{timeline:?}");
        let error = timeline.clock_error_us + 2.0;
        for s in &timeline.stretches {
            let fits = s.duration_us >= 0.0 && s.start_us + s.duration_us <= timeline.whole_us + error;
            assert!(fits, "{s:?} in {} us", timeline.whole_us);
        }
        // A panel is sent only after it is multiplied.
        for panel in 0..4 {
            let stretch = |doing: Doing| {
                timeline.stretches.iter().find(|s| s.rank == 1 && s.doing == doing && s.panel == panel).unwrap()
            };
            let (made, sent) = (stretch(Doing::Multiplying), stretch(Doing::Communicating));
            assert!(sent.start_us + 2.0 >= made.start_us + made.duration_us, "{made:?} {sent:?}");
        }
        assert!(timeline.exposed_us() <= timeline.communicating_us() + 1e-6);
    }
}

#[test]
fn what_is_not_split_is_refused() {
    let all = testing::gpus("what_is_not_split_is_refused");
    let Some(first) = all.first() else { return };
    let work = Work::new(first, (64, 64, 64), Dtype::F32);
    let refused = |devices: &[CudaDevice], product: Product, arrays: &DeviceArrays| {
        TensorParallel::new(devices, &product, arrays, &Options::new(Split::Rows)).unwrap_err().to_string()
    };
    let (one, arrays) = (std::slice::from_ref(first), work.arrays());
    let twice = [first.clone(), first.clone()];
    let by_k = TensorParallel::new(&twice, &work.product, &arrays, &Options::new(Split::K).stores());
    assert!(by_k.unwrap_err().to_string().contains("split it by rows"));
    let check = |text: String, expect: &str| assert!(text.contains(expect), "{text}");
    check(refused(&[], work.product, &arrays), "needs a GPU");
    check(refused(one, work.product.scaled(2.0, 0.0), &arrays), "alpha 1");
    let transposed = Product::new(64, 64, 64, Form { trans_b: true, ..work.product.form });
    check(refused(one, transposed, &arrays), "without transposition");
    check(refused(one, Product::new(65, 64, 64, work.product.form), &arrays), "needs 4160 elements of fp32 in A");
    let halves = Storage::zeros(first, 64 * 64, Dtype::F16).unwrap();
    check(
        refused(one, work.product, &DeviceArrays::new(&work.a, &work.b, &halves)),
        "needs 4096 elements of fp32 in C",
    );
}
