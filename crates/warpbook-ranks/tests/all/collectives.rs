//! Tests collectives between ranks that are threads of one process. The results must be exact to the bit.

use half::{bf16, f16};
use std::net::TcpListener;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use warpbook_ranks::{Collective, Error, Group, Launcher, Limits, Placement, Reduce, Wire};

fn limits() -> Limits {
    Limits { join: Duration::from_secs(60), silence: Duration::from_secs(30), stall: Duration::from_secs(60) }
}

/// Runs `work` on every rank, and returns the results in rank order.
fn together<R: Send>(world: usize, work: impl Fn(&mut Group) -> R + Sync) -> Vec<R> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut listener = Some(listener);
    std::thread::scope(|scope| {
        let mut all = Vec::new();
        for rank in 0..world {
            let (listener, work) = (listener.take(), &work);
            let host = "127.0.0.1".to_owned();
            let token = "test".to_owned();
            let placement =
                Placement { rank, local_rank: rank, world, host, port, token, launcher: Launcher::Warpbook };
            all.push(scope.spawn(move || {
                let mut group = Group::join(&placement, limits(), listener).unwrap();
                let made = work(&mut group);
                group.finish().unwrap();
                made
            }));
        }
        all.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn value(rank: usize, i: usize) -> f32 {
    ((i * 7 + rank * 13) % 101) as f32 / 7.0 - 6.0
}

#[test]
fn values_are_broadcast() {
    for (world, len) in [(1, 2_000_003), (2, 1), (3, 200_001), (5, 17)] {
        for root in [0, world - 1] {
            let all = together(world, |group| {
                let mut values: Vec<f32> = (0..len).map(|i| value(group.rank(), i)).collect();
                group.broadcast(&mut values, root).unwrap();
                values
            });
            let expect: Vec<f32> = (0..len).map(|i| value(root, i)).collect();
            assert!(all.iter().all(|values| *values == expect), "{world} ranks, {len} values of rank {root}");
        }
    }
}

/// Computes the expected results in the order in which the ring adds: part p begins at rank p.
fn expected(world: usize, len: usize, reduce: Reduce, round: &dyn Fn(f32) -> f32) -> Vec<f32> {
    let part_of = |i: usize| (0..world).find(|p| (len * p / world..len * (p + 1) / world).contains(&i)).unwrap();
    let sum = |i: usize| {
        let first = part_of(i);
        let sum = (1..world).fold(value(first, i), |sum, step| value((first + step) % world, i) + round(sum));
        round(if reduce == Reduce::Mean { sum / world as f32 } else { sum })
    };
    (0..len).map(sum).collect()
}

#[test]
fn values_are_reduced_to_the_same_bits_everywhere() {
    let rounds: [(Wire, &(dyn Fn(f32) -> f32 + Sync)); 3] = [
        (Wire::F32, &|v| v),
        (Wire::F16, &|v| f16::from_f32(v).to_f32()),
        (Wire::Bf16, &|v| bf16::from_f32(v).to_f32()),
    ];
    for (world, len) in [(1, 23), (2, 1), (2, 1000), (3, 2), (3, 100_003), (4, 0), (5, 23)] {
        for (wire, round) in rounds {
            for reduce in [Reduce::Sum, Reduce::Mean] {
                let all = together(world, |group| {
                    let mut values: Vec<f32> = (0..len).map(|i| value(group.rank(), i)).collect();
                    group.all_reduce(&mut values, reduce, wire).unwrap();
                    values
                });
                let expect = expected(world, len, reduce, round);
                for (rank, values) in all.iter().enumerate() {
                    assert!(*values == expect, "{world} ranks, {len} values, {wire:?}, {reduce:?}: rank {rank}");
                }
            }
        }
    }
}

#[test]
fn bytes_and_metrics_of_all_ranks_come_in_their_order() {
    let all = together(4, |group| {
        let rank = group.rank();
        group.barrier().unwrap();
        let gathered = group.all_gather(&vec![rank as u8; rank]).unwrap();
        let sums = group.sum_f64(&[0.1 * rank as f64, 1.0]).unwrap();
        (gathered, sums, group.of_first(100 + rank as u64).unwrap())
    });
    for (gathered, sums, first) in all {
        assert_eq!(gathered, [vec![], vec![1], vec![2, 2], vec![3, 3, 3]]);
        assert_eq!((sums, first), (vec![0.0 + 0.1 + 0.2 + 0.1 * 3.0, 4.0], 100));
    }
}

#[test]
fn an_abort_is_heard_by_all_and_stays() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut listener = Some(listener);
    std::thread::scope(|scope| {
        for rank in 0..3 {
            let listener = listener.take();
            let (host, token) = ("127.0.0.1".to_owned(), String::new());
            let placement =
                Placement { rank, local_rank: rank, world: 3, host, port, token, launcher: Launcher::Warpbook };
            scope.spawn(move || {
                let mut group = Group::join(&placement, limits(), listener).unwrap();
                // The other ranks may be told of the abort before they have left the barrier.
                assert!(group.barrier().is_ok() || rank != 1);
                if rank == 1 {
                    group.abort("the loss is NaN.");
                }
                let why = group.all_reduce(&mut [0.0; 9], Reduce::Sum, Wire::F32).unwrap_err();
                assert!(matches!(&why, Error::Lost(why) if why == "Rank 1: the loss is NaN."), "{why}");
                assert!(group.barrier().is_err() && group.aborter().why_within(Duration::ZERO).is_some());
                assert!(group.finish().is_err());
            });
        }
    });
}

#[test]
fn who_waits_for_others_says_so() {
    static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let place = |rank: usize, host: &str| {
        let (host, token, launcher) = (host.to_owned(), "waits".to_owned(), Launcher::Torchrun);
        Placement { rank, local_rank: rank, world: 3, host, port, token, launcher }
    };
    let limits = Limits::stall_after(Duration::from_secs(4));
    assert_eq!(limits.join, Duration::from_secs(4));
    assert_eq!(Limits::stall_after(Duration::from_secs(1000)).join, Duration::from_secs(120));
    let begun = Instant::now();
    let join = |place: &Placement, listener: Option<TcpListener>| {
        Group::join_telling(place, limits, listener, |text| TOLD.lock().unwrap().push(text.to_owned())).unwrap_err()
    };
    std::thread::scope(|scope| {
        scope.spawn(|| join(&place(0, "127.0.0.1"), Some(listener)));
        // This rank looks up a host name that does not exist, which may take a long time.
        scope.spawn(|| join(&place(1, "nobody.invalid"), None));
    });
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    let told = TOLD.lock().unwrap();
    let names = |rank: usize, whom: &str| {
        let begin = format!("Rank {rank} waits for {whom} at ");
        told.iter().any(|t| t.starts_with(&begin) && t.contains(" s more") && t.contains("RANK and WORLD_SIZE"))
    };
    assert!(names(0, "ranks 1, 2") && names(1, "rank 0"), "{told:?}");
}
