//! Small measurements for lessons, in addition to the ceilings: how shared memory serves a warp's addresses, how long an exchange between blocks takes,
//! and the bandwidth of L2 when several blocks read the same lines.

use crate::{Bench, CudaDevice, Error, LaunchOptions, Result, Samples};
use warpbook_kernels as kernels;
use warpbook_record::Dim;

/// Number of rounds per launch of the reading kernel and of the exchanging kernel; enough to make start-up and tear-down negligible.
const READ_ROUNDS: u32 = 2000;
const EXCHANGE_ROUNDS: u32 = 1000;
/// Time in nanoseconds after which a block stops waiting for another block.
const LIMIT_NS: u64 = 2_000_000_000;
/// Number of passes over an array that fits into L2.
const CACHE_ROUNDS: u32 = 64;
/// Number of 64-bit words in a block's slot of `PairExchange`, and number of slots that rounds use alternately.
const SLOT_WORDS: usize = 8;
const TURNS: usize = 2;

/// Measures the cycles that an SM's shared memory takes for one read by a warp when many reads are in flight. Lane l reads `bytes` bytes (4, 8 or 16) at
/// `offsets[l]`. Returns the minimum of several launches.
///
/// # Errors
/// Returns an error if `bytes` is not 4, 8 or 16, or if an offset is not a multiple of `bytes` or exceeds [`kernels::READ_SPAN`]; also the device's
/// errors.
pub fn shared_read_cycles(device: &CudaDevice, bytes: u32, offsets: &[u32; 32]) -> Result<f64> {
    let last = kernels::READ_SPAN.saturating_sub(bytes);
    let fits = |o: &u32| o.is_multiple_of(bytes) && *o <= last;
    if !kernels::READ_WIDTHS.contains(&bytes) || !offsets.iter().all(fits) {
        return Err(Error::Argument(format!(
            "A lane reads 4, 8 or 16 bytes at a multiple of that, up to {last}; {bytes} bytes at {offsets:?} were requested."
        )));
    }
    let spec = kernels::shared_reads(bytes);
    let tile = &spec.tiles[0];
    let (kernel, stream) = (device.kernel(&spec, tile)?, device.stream()?);
    let shape = kernel.shape(1);
    let places = device.buffer_from(offsets)?;
    let out = device.zeros::<f32>(shape.block[0] as usize)?;
    let clocks = device.zeros::<u64>(1)?;
    let mut least = u64::MAX;
    for _ in 0..5 {
        // SAFETY: the arguments match `reads(offsets, out, clocks, rounds)`, which runs in one block; the offsets were checked, and `out` has one element per
        // thread.
        unsafe { kernel.launch(&stream, shape, &[&places, &out, &clocks, &READ_ROUNDS]) }?;
        stream.synchronize()?;
        least = least.min(clocks.to_vec()?.first().copied().unwrap_or(u64::MAX));
    }
    let reads = u64::from(shape.block[0]) / 32 * tile.size(Dim::Items) * u64::from(READ_ROUNDS);
    Ok(least as f64 / reads as f64)
}

/// Measures the latency of a multiply-add with operands in registers, using a dependent chain in one warp. Returns the minimum of several launches, in
/// cycles and in nanoseconds.
///
/// # Errors
/// The device's errors.
pub fn register_latency(device: &CudaDevice) -> Result<(f64, f64)> {
    /// Number of rounds; this many take about ten milliseconds.
    const ROUNDS: u32 = 1 << 16;
    let spec = kernels::registers();
    let tile = &spec.tiles[0];
    let (kernel, stream) = (device.kernel(&spec, tile)?, device.stream()?);
    let mut shape = kernel.shape(1);
    shape.grid = [1, 1, 1];
    let (out, clocks) = (device.zeros::<f32>(shape.block[0] as usize)?, device.zeros::<u64>(2)?);
    let mut least = [u64::MAX; 2];
    for _ in 0..3 {
        // SAFETY: the arguments match `registers(out, clocks, rounds)`, which runs in one block, and `out` has one element per thread.
        unsafe { kernel.launch(&stream, shape, &[&out, &clocks, &ROUNDS]) }?;
        stream.synchronize()?;
        for (least, now) in least.iter_mut().zip(clocks.to_vec()?) {
            *least = now.min(*least);
        }
    }
    let made = tile.size(Dim::Items) as f64 * f64::from(ROUNDS);
    Ok((least[0] as f64 / made, least[1] as f64 / made))
}

/// Measures the time of one exchange of sums among `blocks` blocks, as in the persistent rungs of the regression, with no other work. Samples are in
/// microseconds.
///
/// # Errors
/// Returns an error if there are more blocks than can be resident at once; also the device's errors.
pub fn exchange(device: &CudaDevice, bench: &Bench, blocks: u32) -> Result<Samples> {
    let spec = kernels::exchanges();
    let (kernel, stream) = (device.kernel(&spec, &spec.tiles[0])?, device.stream()?);
    let room = kernel.stats().blocks_per_multiprocessor.unwrap_or(0) * device.info().multiprocessors;
    if blocks == 0 || blocks > room {
        return Err(Error::Argument(format!("{blocks} blocks cannot wait for each other: {room} fit at once.")));
    }
    let mut shape = kernel.shape(1);
    shape.grid = [blocks, 1, 1];
    let out = device.zeros::<f32>(blocks as usize)?;
    let words = device.zeros::<u64>(TURNS * SLOT_WORDS * blocks as usize)?;
    let control = device.zeros::<u32>(2)?;
    let options = LaunchOptions { cooperative: true, ..LaunchOptions::default() };
    let mut samples = bench.cuda(device, &stream, None, None, || {
        // SAFETY: the arguments match `exchanges(out, words, control, blocks, rounds, limit_ns)`; `out` has one element per block, `words` has two slots per
        // block, and all blocks are resident at once.
        unsafe {
            kernel.launch_with(&stream, shape, options, &[&out, &words, &control, &blocks, &EXCHANGE_ROUNDS, &LIMIT_NS])
        }
    })?;
    if control.to_vec()?.get(1).is_some_and(|failed| *failed != 0) {
        return Err(Error::Argument(format!(
            "{blocks} blocks waited for each other until the time limit: stop other programs that use this GPU, and measure again."
        )));
    }
    // The mean of ones is one, regardless of the number of rounds.
    if out.to_vec()?.iter().any(|v| (v - 1.0).abs() > 1e-3) {
        return Err(Error::Argument(format!("{blocks} blocks exchanged wrong sums.")));
    }
    for us in samples.us.iter_mut().chain(&mut samples.wall_us) {
        *us /= f64::from(EXCHANGE_ROUNDS);
    }
    Ok(samples)
}

/// Measures the bandwidth of L2 in bytes per second when `group` consecutive blocks request the same lines at nearly the same time. With a group of 1,
/// all blocks request different lines.
///
/// # Errors
/// Returns an error if `group` is 0 or exceeds the number of blocks that can be resident; also the device's errors.
pub fn read_together(device: &CudaDevice, bench: &Bench, group: u32) -> Result<f64> {
    let spec = kernels::read_together();
    let (kernel, stream) = (device.kernel(&spec, &spec.tiles[0])?, device.stream()?);
    let mut shape = kernel.shape(u64::MAX >> 16);
    let readers = shape.grid[0].checked_div(group).unwrap_or(0);
    if readers == 0 {
        return Err(Error::Argument(format!("A group of {group} blocks: choose from 1 to {}.", shape.grid[0])));
    }
    shape.grid = [readers * group, 1, 1];
    // The array takes half of L2; parts of a larger one could be evicted before they are read again.
    let bytes = (device.info().l2_bytes.unwrap_or(4 << 20) / 2).max(1 << 18) / 64 * 64;
    let data = device.zeros::<f32>((bytes / 4) as usize)?;
    crate::timing::peaks::fill(device, &data)?;
    let out = device.zeros::<f32>(shape.grid[0] as usize)?;
    let samples = bench.cuda(device, &stream, None, None, || {
        // SAFETY: the arguments match `read_together(data, out, n, rounds, group)`; `out` has one element per block, and the number of blocks is a multiple of
        // the group.
        unsafe { kernel.launch(&stream, shape, &[&data, &out, &(bytes / 4), &CACHE_ROUNDS, &group]) }
    })?;
    Ok((bytes * u64::from(group) * u64::from(CACHE_ROUNDS)) as f64 / samples.median_us() * 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn spread(apart: u32) -> [u32; 32] {
        std::array::from_fn(|lane| lane as u32 * apart)
    }

    #[test]
    fn conflicts_take_a_cycle_each() {
        let Some(device) = testing::gpu("conflicts_take_a_cycle_each") else { return };
        let check = |bytes: u32, offsets: [u32; 32], want: f64| {
            let got = shared_read_cycles(&device, bytes, &offsets).unwrap();
            println!("{bytes} bytes at {:?} ...: {got:.2} cycles", &offsets[..4]);
            assert!(got > 0.8 * want && got < 1.4 * want, "{bytes} bytes at {offsets:?}: {got} cycles, not {want}");
        };
        check(4, spread(4), 1.0);
        check(4, spread(8), 2.0);
        check(4, spread(16), 4.0);
        check(4, spread(64), 16.0);
        // The lanes' 16-byte reads cover 512 bytes.
        check(16, spread(16), 4.0);
    }

    #[test]
    fn an_instruction_s_latency_is_some_cycles() {
        let Some(device) = testing::gpu("an_instruction_s_latency_is_some_cycles") else { return };
        let (cycles, ns) = register_latency(&device).unwrap();
        println!("{cycles:.2} cycles, {ns:.2} ns");
        // The latency is four cycles from Volta on, and six before; clock frequencies are between 0.5 and 3 GHz.
        assert!((3.5..7.0).contains(&cycles) && (0.3..2.5).contains(&(cycles / ns)), "{cycles} cycles, {ns} ns");
    }

    #[test]
    fn an_exchange_takes_longer_among_more_blocks() {
        let Some(device) = testing::gpu("an_exchange_takes_longer_among_more_blocks") else { return };
        let bench = Bench::quick();
        let us = |blocks| exchange(&device, &bench, blocks).unwrap().median_us();
        let (few, all) = (us(2), us(device.info().multiprocessors));
        println!("2 blocks: {few:.3} us; {}: {all:.3} us", device.info().multiprocessors);
        assert!(few > 0.1 && few < all && all < 50.0, "{few} {all}");
        let error = exchange(&device, &bench, 1 << 20).unwrap_err().to_string();
        assert!(error.contains("fit at once"), "{error}");
    }

    #[test]
    fn reading_together_is_no_slower_than_apart() {
        let Some(device) = testing::gpu("reading_together_is_no_slower_than_apart") else { return };
        let bench = Bench::quick();
        let rate = |group| read_together(&device, &bench, group).unwrap();
        let [apart, two, four] = [1, 2, 4].map(rate);
        println!("1: {:.0} GB/s, 2: {:.0} GB/s, 4: {:.0} GB/s", apart * 1e-9, two * 1e-9, four * 1e-9);
        assert!(apart > 1e10 && two > 0.8 * apart && four > 0.8 * apart, "{apart} {two} {four}");
        assert!(read_together(&device, &bench, 0).is_err() && read_together(&device, &bench, 1 << 20).is_err());
    }

    #[test]
    fn addresses_that_do_not_fit_are_refused() {
        let Some(device) = testing::gpu("addresses_that_do_not_fit_are_refused") else { return };
        for (bytes, offsets) in [(4, spread(100)), (16, spread(8)), (3, spread(3)), (0, spread(0))] {
            let error = shared_read_cycles(&device, bytes, &offsets).unwrap_err().to_string();
            assert!(error.contains("4, 8 or 16 bytes"), "{error}");
        }
    }
}
