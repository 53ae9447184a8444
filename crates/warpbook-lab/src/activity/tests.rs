use super::*;
use warpbook_device::ActivityKind;
use warpbook_record::count;

fn kernel(name: &str, blocks: u32, (start_ns, duration_ns): (u64, u64), stream: u32, node: u64) -> Activity {
    Activity {
        kind: ActivityKind::Kernel { grid: [blocks, 1, 1], block: [128, 1, 1], registers: 32, shared_bytes: 0 },
        name: name.into(),
        start_ns,
        duration_ns,
        stream,
        correlation: 0,
        graph: Some((1, node)),
    }
}

fn fill(bytes: u64, start_ns: u64, node: u64) -> Activity {
    let kind = ActivityKind::Fill { bytes };
    Activity {
        kind,
        name: "fill".into(),
        start_ns,
        duration_ns: 100,
        stream: 7,
        correlation: 0,
        graph: Some((1, node)),
    }
}

/// Returns one graph replay that begins at `at`: a fill, two convolutions with the same kernel and grid, and an update.
/// The second convolution runs on another stream while the first is still running.
fn replay(launch: u32, at: u64, slower: u64) -> Vec<Activity> {
    let all = vec![
        fill(64, at, 10),
        kernel("conv", 8, (at + 200, 1000 + slower), 7, 11),
        kernel("conv", 8, (at + 700, 1000), 9, 12),
        kernel("sgd", 4, (at + 2000 + slower, 500), 7, 13),
    ];
    all.into_iter().map(|a| Activity { correlation: launch, ..a }).collect()
}

/// Returns the operations of one replay, launched one by one outside a graph.
fn operations() -> Vec<Operation> {
    let alone = |activity: Activity, correlation| Activity { correlation, graph: None, ..activity };
    let operation = |name: &str, flops, activities| Operation {
        name: name.into(),
        flops,
        bytes: 1000,
        written_bytes: 500,
        activities,
    };
    vec![
        operation(
            "conv1 forward",
            100,
            // The activities are not in queue order.
            vec![alone(kernel("conv", 8, (200, 900), 7, 0), 2), alone(fill(64, 300, 0), 1)],
        ),
        operation("conv1 weight gradient", 200, vec![alone(kernel("conv", 8, (2000, 900), 7, 0), 3)]),
        operation("check", 0, vec![]),
        operation("optimiser", 0, vec![alone(kernel("sgd", 4, (4000, 400), 7, 0), 4)]),
    ]
}

fn recording() -> Recording {
    // CUPTI delivers activities sorted by start.
    let mut activities: Vec<Activity> =
        [replay(31, 10_000, 0), replay(32, 20_000, 40), replay(33, 30_000, 20)].into_iter().flatten().collect();
    activities.sort_by_key(|a| a.start_ns);
    Recording { operations: operations(), runs: 3, activities, source: "a test".into(), dtype: Some(Dtype::F16) }
}

fn problem() -> Problem {
    Problem::new("p", "p", vec![count("n", 1, "")], Dtype::F32)
}

fn told(b: &Breakdown) -> Vec<(&str, u64, Vec<f64>)> {
    b.operations.iter().map(|o| (o.name.as_str(), o.launches, o.samples_us.clone())).collect()
}

#[test]
fn runs_are_taken_apart_by_operation() {
    let (b, spans) = recording().taken_apart("08_graph", &problem()).unwrap();
    let expect = [
        ("conv1 forward", 2, vec![1.1, 1.14, 1.12]),
        ("conv1 weight gradient", 1, vec![1.0; 3]),
        ("optimiser", 1, vec![0.5; 3]),
    ];
    assert_eq!(told(&b), expect);
    assert_eq!(b.operations[0].kernels, ["fill", "conv"], "in the order in which they were queued");
    let work: Vec<_> = b.operations.iter().map(|o| (o.flops, o.bytes, o.written_bytes, o.dtype)).collect();
    assert_eq!(work, [(100, 1000, 500, Some(Dtype::F16)), (200, 1000, 500, Some(Dtype::F16)), (0, 1000, 500, None)]);
    assert_eq!(b.whole_us, [2.5, 2.54, 2.52]);
    // The fill, both convolutions together, and the update run; the device is idle for 0.1 and 0.3 us.
    assert_eq!(b.busy_us, [2.1, 2.1, 2.1]);
    assert_eq!(b.between_us, [7.5, 7.46]);
    // The third run has the median length.
    let shown: Vec<_> =
        spans.iter().map(|s| (s.name.as_str(), s.operation.as_str(), s.stream.as_str(), s.start_us)).collect();
    assert_eq!(
        shown,
        [
            ("fill", "conv1 forward", "0", 0.0),
            ("conv", "conv1 forward", "0", 0.2),
            ("conv", "conv1 weight gradient", "1", 0.7),
            ("sgd", "optimiser", "0", 2.02),
        ]
    );
    assert_eq!(spans[1].duration_us, 1.02);
}

#[test]
fn branches_that_overlap_are_told_apart() {
    let mut r = recording();
    r.activities.iter_mut().for_each(|a| a.stream = 7);
    let (_, spans) = r.taken_apart("09_overlap", &problem()).unwrap();
    let streams: Vec<&str> = spans.iter().map(|s| s.stream.as_str()).collect();
    assert_eq!(streams, ["0", "0", "0.1", "0"]);
}

#[test]
fn a_fill_that_became_a_kernel_keeps_its_place() {
    let mut r = recording();
    for a in r.activities.iter_mut().filter(|a| a.name == "fill") {
        *a = Activity { kind: kernel("memset", 1, (0, 0), 0, 0).kind, name: "memset".into(), ..a.clone() };
    }
    let (b, _) = r.taken_apart("08_graph", &problem()).unwrap();
    assert_eq!(b.operations[0].kernels, ["memset", "conv"]);
    assert_eq!(b.operations.len(), 3);
}

#[test]
fn what_is_not_known_has_its_kernels_name() {
    // The run has one kernel more than the operations, so activities are matched by kind and order.
    let mut r = recording();
    for run in 0..3u32 {
        let at = 10_000 * u64::from(run + 1) + 4000;
        r.activities.push(Activity { correlation: 31 + run, ..kernel("own", 1, (at, 250), 7, 14) });
    }
    let (b, spans) = r.taken_apart("08_graph", &problem()).unwrap();
    let names: Vec<&str> = b.operations.iter().map(|o| o.name.as_str()).collect();
    assert_eq!(names, ["conv1 forward", "conv1 weight gradient", "optimiser", "own"]);
    assert_eq!((b.operations[3].flops, b.operations[3].samples_us.clone()), (0, vec![0.25; 3]));
    assert_eq!(spans.last().map(|s| (s.name.as_str(), s.operation.as_str())), Some(("own", "")));
    // Without operations, the breakdown is by kernel.
    let (b, _) = Recording { operations: vec![], ..recording() }.taken_apart("08", &problem()).unwrap();
    assert_eq!(told(&b), [("fill", 1, vec![0.1; 3]), ("conv", 2, vec![2.0, 2.04, 2.02]), ("sgd", 1, vec![0.5; 3])]);
}

#[test]
fn nodes_may_be_numbered_in_another_order() {
    let mut r = recording();
    // The second convolution is queued before the first, so only their starts tell them apart.
    for a in &mut r.activities {
        a.graph = a.graph.map(|(graph, node)| (graph, 100 - node));
    }
    let (b, spans) = r.taken_apart("08_graph", &problem()).unwrap();
    assert_eq!(b.operations[0].samples_us, [1.1, 1.14, 1.12]);
    assert_eq!(spans[2].operation, "conv1 weight gradient");
}

#[test]
fn launches_one_by_one_are_split_by_their_number() {
    // Each activity has its own driver call.
    let mut r = recording();
    for (i, a) in r.activities.iter_mut().enumerate() {
        (a.graph, a.correlation) = (None, 100 + i as u32);
    }
    let (b, _) = r.taken_apart("01", &problem()).unwrap();
    assert_eq!((b.whole_us.len(), b.operations.len()), (3, 3));
}

#[test]
fn runs_that_differ_are_refused() {
    let refused = |change: &dyn Fn(&mut Recording), expect: &str| {
        let mut r = recording();
        change(&mut r);
        let why = r.taken_apart("08", &problem()).unwrap_err();
        assert!(why.contains(expect), "{why}");
    };
    refused(&|r| drop(r.activities.pop()), "11 activities were recorded in 3 runs");
    refused(&|r| r.activities[7].name = "adam".into(), "sgd in the first is adam in run 2");
    refused(&|r| r.activities.clear(), "0 activities");
    refused(&|r| r.runs = 0, "in 0 runs");
}
