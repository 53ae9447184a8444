//! A chain of operations that is compiled at run time.

use crate::guide::expression::Expression;
use crate::guide::launch::queue;
use crate::guide::pair::PairWork;
use crate::guide::prepared::Arrays;
use warpbook_lab::experiment::{Candidate, Details, on_gpu};
use warpbook_lab::{Error, Result};

/// The chain of operations as text.
const CHAIN: &str = "tanh(max(x * 0.9 + 0.1, 0) * 0.5 - abs(x) / 3)";

fn chain() -> Result<Expression> {
    Expression::parse(CHAIN).map_err(Error::Setting)
}

pub(in crate::guide) fn work(n: u64) -> PairWork {
    PairWork::each(n, chain().map_or(0, |chain| chain.operations()))
}

pub(in crate::guide) fn want(x: &[f32], _: &PairWork, _: u64) -> Vec<f64> {
    // If the chain did not parse, every comparison would fail.
    let chain = chain().ok();
    x.iter().map(|x| chain.as_ref().map_or(f64::NAN, |chain| chain.at(f64::from(*x)))).collect()
}

/// The state of the chain's kernel before a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::guide) enum Compiled {
    /// Every call compiles the kernel again.
    Anew,
    /// The kernel is already compiled; every call reads it from disk and loads it, as a new process would.
    OnDisk,
    /// The kernel is already compiled and loaded.
    Loaded,
}

/// Creates a candidate that computes the chain on the GPU; every run waits for the result.
pub(in crate::guide) fn on_the_gpu(arrays: &Arrays, compiled: Compiled) -> Result<Box<dyn Candidate + '_>> {
    let on = arrays.on_gpu()?;
    let spec = chain()?.kernel();
    let tile = spec.tiles.first().cloned().ok_or_else(|| Error::Setting(format!("{} has no tile.", spec.path())))?;
    // Compile now, so that the kernel is on disk before anything is timed.
    let loaded = on.device.kernel(&spec, &tile)?;
    let details = Details::of_kernel(&loaded, loaded.shape(arrays.work.n));
    let launch = move || {
        let kernel = match compiled {
            Compiled::Anew => on.device.kernel_anew(&spec, &tile)?,
            Compiled::OnDisk => on.device.kernel(&spec, &tile)?,
            Compiled::Loaded => loaded.clone(),
        };
        queue(&on.stream, (&kernel, kernel.shape(arrays.work.n)), &on.x, &on.y, arrays.numbers())?;
        // The kernel must live until it has run.
        on.stream.synchronize()
    };
    let check = move || on.y.to_vec().map(|y| arrays.check(&y)).map_err(Error::from);
    Ok(Box::new(on_gpu(&on.stream, launch, check).poisoning(&on.y).details(details).as_launched()))
}

/// Computes the chain on the CPU, one operation at a time on the whole array.
pub(in crate::guide) fn by_arrays(x: &[f32], y: &mut [f32]) {
    if let Ok(chain) = chain() {
        y.copy_from_slice(&chain.array_by_array(x));
    }
}

/// Computes the chain on the CPU, one element at a time, by walking the expression tree.
pub(in crate::guide) fn by_elements(x: &[f32], y: &mut [f32]) {
    if let Ok(chain) = chain() {
        y.iter_mut().zip(x).for_each(|(y, x)| *y = chain.at(f64::from(*x)) as f32);
    }
}
