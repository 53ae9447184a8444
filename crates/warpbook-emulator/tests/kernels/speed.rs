//! Measures thread instructions per second: `cargo test -p warpbook-emulator --test kernels speed -- --nocapture`.

use crate::machine::{MODE, Machine, Mode};
use crate::{products, regression, softmax};

/// Returns the rate of the fastest of several runs, in millions of thread instructions per second.
fn rate(run: impl Fn() -> Machine) -> f64 {
    let runs = (0..20).map(|_| run()).map(|machine| machine.thread_steps as f64 / machine.seconds / 1e6);
    runs.fold(0.0, f64::max)
}

#[test]
fn thread_instructions_a_second() {
    for mode in [Mode::Plain, Mode::Checked] {
        MODE.set(mode);
        let mean = measure();
        println!("{mode:?}: geometric mean {mean:.0} million thread instructions per second");
        // The bound is low because the emulator reaches only a third of its usual speed when other work shares the core.
        assert!(mean > 10.0, "{mode:?}: {mean}");
    }
}

/// Returns the geometric mean of the rates of a few kernels, in millions of thread instructions per second.
fn measure() -> f64 {
    let square = [128, 128, 64];
    let rates = [
        ("regression 02", rate(|| regression::by_epochs("02_fused", 40_000))),
        ("product 02", rate(|| products::check("02_coalesced", square, products::PLAIN))),
        ("product 03", rate(|| products::check("03_shared_tile", square, products::PLAIN))),
        ("product 05", rate(|| products::check("05_register_2d", square, products::PLAIN))),
        ("softmax", rate(|| softmax::check(softmax::WARP, 32, 1, [64, 512]))),
    ];
    for (name, rate) in rates {
        println!("{name}: {rate:.0} million thread instructions per second");
    }
    let mean = rates.iter().map(|(_, rate)| rate.ln()).sum::<f64>() / rates.len() as f64;
    mean.exp()
}
