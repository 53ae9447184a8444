//! Times several plans of one product alternately.

use crate::philox::Philox;
use crate::{DeviceArray, DeviceArrays, Plan, Product, Workspace};
use std::cell::Cell;
use warpbook_device::{Bench, CudaDevice, Result};
use warpbook_record::Dtype;

/// Largest number of sets of arrays that timing a small product cycles through, so that the operands come from DRAM.
const MOST_SETS: u64 = 16;
/// Array alignment in elements: at least 256 bytes.
const ALIGNED_TO: usize = 128;

/// Returns the median time of each plan in microseconds after a warm-up, using at most `seconds` seconds of GPU time in total; `None` if there is too little
/// free memory.
pub(crate) fn median_us(
    device: &CudaDevice,
    product: &Product,
    plans: &[Plan],
    seconds: f64,
) -> Result<Option<Vec<f64>>> {
    let Some(arena) = Arena::new(device, product, plans)? else { return Ok(None) };
    let (stream, next) = (device.stream()?, Cell::new(0));
    let launch = |plan: &Plan| {
        let arrays = &arena.sets[next.replace((next.get() + 1) % arena.sets.len())];
        plan.launch_checked(&stream, arrays, &arena.workspace)
    };
    let regions: Vec<_> = plans.iter().map(|plan| move || launch(plan)).collect();
    let regions: Vec<&dyn Fn() -> Result<()>> = regions.iter().map(|region| region as _).collect();
    let budget_s = seconds / plans.len().max(1) as f64;
    let bench = Bench { warmup: 1, samples: 7, budget_s, batch_below_us: 100.0, ..Bench::default() };
    let samples = bench.cuda_in_turn(device, &stream, None, &regions)?;
    Ok(Some(samples.iter().map(|samples| samples.median_us()).collect()))
}

/// Arrays for timing products.
struct Arena {
    sets: Vec<DeviceArrays>,
    workspace: Workspace,
}

impl Arena {
    /// Allocates sets of arrays that together exceed L2; `None` if they would take more than half of the free memory.
    fn new(device: &CudaDevice, product: &Product, plans: &[Plan]) -> Result<Option<Self>> {
        let strides = product.elements().map(|n| n.next_multiple_of(ALIGNED_TO));
        let (dtype, out) = (product.form.dtype, product.form.out);
        let widths = [dtype, dtype, out].map(|dtype| dtype.bytes() as usize);
        let set: usize = strides.iter().zip(widths).map(|(n, bytes)| n * bytes).sum();
        let l2_bytes = device.info().l2_bytes.unwrap_or(0);
        let sets = (2 * l2_bytes).div_ceil(set.max(1) as u64).clamp(1, MOST_SETS) as usize;
        let workspace = plans.iter().map(Plan::workspace_bytes).max().unwrap_or(0);
        if (sets * set) as u64 + workspace > device.memory()?.0 / 2 {
            return Ok(None);
        }
        let (philox, stream) = (Philox::new(device)?, device.stream()?);
        let words = |i: usize| (sets * strides[i] * widths[i]).div_ceil(4);
        let [a, b, c] = [device.zeros::<f32>(words(0))?, device.zeros(words(1))?, device.zeros(words(2))?];
        let bias = device.zeros::<f32>(product.n as usize)?;
        for (number, operand) in [(0, &a), (1, &b)] {
            // In 16-bit types, every second element is one half of an f32. Bits must change as in real data, since changing bits consume power.
            philox.gaussians_into(&stream, operand, 1, number, 0)?;
        }
        stream.synchronize()?;
        let set = |number: usize| {
            let part = |i: usize, array: &warpbook_device::Slice<f32>, dtype: Dtype| {
                let start = number * strides[i];
                DeviceArray::of_bytes(&array.cast(), dtype).range(start..start + product.elements()[i])
            };
            let c = part(2, &c, out);
            let arrays = DeviceArrays::new(part(0, &a, dtype), part(1, &b, dtype), c.clone());
            let epilogue = product.form.epilogue;
            let arrays = if epilogue.has_bias() { arrays.bias(&bias) } else { arrays };
            // The mask's values do not affect the time, and C has the mask's shape.
            if epilogue.has_mask() { arrays.mask(c) } else { arrays }
        };
        Ok(Some(Self { sets: (0..sets).map(set).collect(), workspace: Workspace::new(device, workspace.max(1))? }))
    }
}
