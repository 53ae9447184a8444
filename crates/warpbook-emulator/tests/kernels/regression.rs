//! Tests linear regression: with separate launches for each epoch, and with all epochs in a single launch that has a barrier across the grid.

use crate::machine::{Machine, assert_close, over_items, real};
use warpbook_emulator::{Argument, Gpu, LIMITS, Module};
use warpbook_kernels::{Launch, regression};
use warpbook_record::{Dim, KernelSpec, Tile};

const RATE: f32 = 0.01;
const START: [f32; 2] = [0.83, 0.7645];

fn kernels(id: &str) -> Vec<KernelSpec> {
    let rungs = regression::rungs();
    rungs.iter().find(|rung| rung.id == id).unwrap_or_else(|| panic!("{id}")).kernels().to_vec()
}

/// Returns points that are scattered around a line.
fn points(n: usize) -> (Vec<f32>, Vec<f32>) {
    let x: Vec<f32> = real(n, 5).iter().map(|v| 5.0 * v + 5.0).collect();
    let y = x.iter().zip(real(n, 6)).map(|(x, noise)| 3.0 * x + 2.0 + 0.1 * noise).collect();
    (x, y)
}

/// Returns the weights and losses after `epochs` epochs, computed in double precision.
fn descend(x: &[f32], y: &[f32], epochs: usize) -> ([f64; 2], Vec<f64>) {
    let (mut w, mut b) = (f64::from(START[0]), f64::from(START[1]));
    let n = x.len() as f64;
    let losses = (0..epochs).map(|_| {
        let (mut loss, mut dw, mut db) = (0.0, 0.0, 0.0);
        for (x, y) in x.iter().zip(y) {
            let error = w * f64::from(*x) + b - f64::from(*y);
            (loss, dw, db) = (loss + error * error, dw + error * f64::from(*x), db + error);
        }
        (w, b) = (w - f64::from(RATE) * 2.0 * dw / n, b - f64::from(RATE) * 2.0 * db / n);
        loss / n
    });
    let losses = losses.collect();
    ([w, b], losses)
}

fn find<'s>(specs: &'s [KernelSpec], entry: &str) -> &'s KernelSpec {
    specs.iter().find(|spec| spec.entry == entry).unwrap_or_else(|| panic!("{entry}"))
}

/// Runs each epoch as separate kernels: one or more passes over the points, and then the update.
pub fn by_epochs(id: &str, n: usize) -> Machine {
    let (mut machine, specs) = (Machine::default(), kernels(id));
    let (x, y) = points(n);
    let tile = &specs[0].tiles[0];
    let shape = over_items(&specs[0], tile, n);
    let blocks = shape.grid[0];
    let [on_x, on_y, weights] = [&x[..], &y[..], &START[..]].map(|values| machine.put(values));
    let [pred, err] = [n, n].map(|length| machine.room::<f32>(length));
    let (partial, loss) = (machine.room::<f32>(3 * blocks as usize), machine.room::<f32>(1));
    let count = Argument::U64(n as u64);
    let epochs = 3;
    let (want, losses) = descend(&x, &y, epochs);
    for want in &losses {
        let mut run = |entry: &str, arguments: &[Argument]| {
            let spec = find(&specs, entry);
            let tile = &spec.tiles[0];
            let shape = if entry == "update" { over_items(spec, tile, 1) } else { shape };
            machine.run(spec, tile, shape, arguments);
        };
        let args = |all: &[&Argument]| all.iter().map(|a| (*a).clone()).collect::<Vec<_>>();
        if id == "01_unfused" {
            run("forward", &args(&[&on_x, &weights, &pred, &count]));
            run("loss", &args(&[&pred, &on_y, &err, &partial, &count]));
            run("gradient_w", &args(&[&err, &on_x, &partial, &count]));
            run("gradient_b", &args(&[&err, &partial, &count]));
        } else {
            let (columns, first) = (Argument::U32(blocks), Argument::U32(0));
            run("pass", &args(&[&on_x, &on_y, &weights, &partial, &count, &columns, &first]));
        }
        let numbers = [Argument::F32(1.0 / n as f32), Argument::F32(RATE)];
        run("update", &args(&[&partial, &Argument::U32(blocks), &numbers[0], &numbers[1], &weights, &loss]));
        assert_close(id, &machine.get(&loss, 1), &[*want], 1e-5);
    }
    assert_close(id, &machine.get(&weights, 2), &want, 1e-5);
    machine
}

/// Returns the number of groups of points that each thread keeps in registers.
fn registers_of(tile: &Tile) -> u64 {
    tile.get("REGISTER_GROUPS").map_or(0, i64::unsigned_abs)
}

/// Runs all epochs in one launch.
fn at_once(id: &str, n: usize, tile: &Tile, blocks: u32) {
    let (mut machine, specs) = (Machine::default(), kernels(id));
    let spec = &specs[0];
    let (x, y) = points(n);
    let (epochs, every) = (6usize, 2usize);
    let entries = epochs / every;
    let [on_x, on_y, weights] = [&x[..], &y[..], &START[..]].map(|values| machine.put(values));
    let (losses, partial) = (machine.room::<f32>(entries), machine.room::<f32>(entries * blocks as usize));
    let words = machine.put(&vec![0u64; 2 * blocks as usize * 8]);
    let control = machine.put(&[0u32; 2]);
    let arguments = [
        on_x,
        on_y,
        Argument::U64(n as u64),
        Argument::U32(epochs as u32),
        Argument::U32(every as u32),
        Argument::F32(RATE),
        Argument::F32(1.0 / n as f32),
        weights.clone(),
        losses.clone(),
        partial,
        words,
        control.clone(),
        Argument::U32(blocks),
        Argument::U64(1 << 40),
    ];
    let threads = tile.size(Dim::Threads);
    let groups = (n / 4) as u64;
    let in_shared = groups.div_ceil(threads * u64::from(blocks)).saturating_sub(registers_of(tile));
    let dynamic = if id == "05_persistent" { 0 } else { in_shared * threads * 32 };
    let shape = Launch { grid: [blocks, 1, 1], block: [threads as u32, 1, 1], dynamic_shared_bytes: dynamic as u32 };
    let kernel = machine.kernel(spec, tile);
    let report = machine.launch(&kernel, shape, true, &arguments);
    assert!(report.resident_blocks >= blocks);
    let (want, all) = descend(&x, &y, epochs);
    let logged: Vec<f64> = all.into_iter().skip(every - 1).step_by(every).collect();
    assert_eq!(machine.get::<u32>(&control, 2), [epochs as u32 + 1, 0]);
    assert_close(id, &machine.get(&weights, 2), &want, 1e-5);
    assert_close(id, &machine.get(&losses, entries), &logged, 1e-5);
}

#[test]
fn epochs_of_kernels_descend_as_the_cpu_does() {
    for id in ["01_unfused", "02_fused", "02b_fused_staged"] {
        by_epochs(id, 1003);
        by_epochs(id, 150_000);
    }
}

#[test]
fn blocks_that_wait_for_one_another_are_resident_and_take_turns() {
    for (n, blocks) in [(5002, 3), (60_000, 4)] {
        let tiles = &kernels("05_persistent")[0].tiles;
        at_once("05_persistent", n, &tiles[0], blocks);
    }
    for (n, blocks, registers) in [(9001, 2, 4), (40_003, 4, 8)] {
        let tiles = &kernels("06_on_chip")[0].tiles;
        let tile = tiles.iter().find(|tile| registers_of(tile) == registers).unwrap();
        at_once("06_on_chip", n, tile, blocks);
    }
}

#[test]
fn more_blocks_than_are_resident_are_refused() {
    let specs = kernels("05_persistent");
    let mut machine = Machine::default();
    let kernel = machine.kernel(&specs[0], &specs[0].tiles[0]);
    let launch = warpbook_emulator::Launch { is_cooperative: true, ..warpbook_emulator::Launch::new(17, 512) };
    let arguments: Vec<Argument> =
        [8, 8, 8, 4, 4, 4, 4, 8, 8, 8, 8, 8, 4, 8].map(|bytes| Argument::Bytes(vec![0; bytes])).into();
    let fault = machine.gpu.launch(&kernel, &launch, &arguments).unwrap_err();
    assert!(fault.message.contains("all 17 blocks have to be resident, but only 16 can be"), "{fault}");
    assert_eq!(LIMITS.multiprocessors, 4);
}

#[test]
fn a_cluster_is_refused_by_name() {
    let specs = kernels("06_on_chip");
    let spec = find(&specs, "descend_in_cluster");
    // NVRTC does not compile clusters for the emulated compute capability 8.0, so this kernel is compiled for 9.0.
    let text = crate::machine::ptx_for(spec, spec.tiles.last().unwrap(), "compute_90");
    let module = Module::parse(&text).unwrap();
    let refusal = Gpu::new().load(&module).unwrap().kernel(&spec.entry).unwrap_err();
    assert!(refusal.to_string().contains("cluster") && refusal.line > 0, "{refusal}");
}
