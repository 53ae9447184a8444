//! Measures the bandwidth of the links between GPUs for different transfer sizes.

use crate::timing::peaks;
use crate::{Bench, Buffer, Communicator, CudaDevice, Error, Event, NcclReduce, Result, Slice, Stream};
use warpbook_record::{Access, BandwidthPeak, Dtype, LinkCurve, LinkPoint, LinkTransfer, MemoryLevel, Peaks};

/// Smallest and largest transfer size in bytes; each size is four times the previous one.
const LEAST_BYTES: u64 = 64 << 10;
const MOST_BYTES: u64 = 256 << 20;
/// Number of bytes of each GPU's memory that are left free.
const RESERVE: u64 = 1 << 30;

/// Returns the transfer sizes in bytes at which `arrays` arrays fit into the free memory at the same time.
fn sizes(free: u64, arrays: u64) -> Vec<u64> {
    let most = free.saturating_sub(RESERVE) / arrays.max(1);
    std::iter::successors(Some(LEAST_BYTES), |b| Some(b * 4)).take_while(|b| *b <= MOST_BYTES.min(most)).collect()
}

/// One GPU's side of a transfer: a stream, and an event that marks the end of its work.
struct Side {
    device: CudaDevice,
    stream: Stream,
    done: Event,
}

impl Side {
    fn new(device: &CudaDevice) -> Result<Self> {
        Ok(Self { device: device.clone(), stream: device.stream()?, done: device.untimed_event()? })
    }

    /// Returns an array filled with random values.
    fn array(&self, bytes: u64) -> Result<Buffer<f32>> {
        let array = self.device.zeros((bytes / 4) as usize)?;
        peaks::fill(&self.device, &array)?;
        Ok(array)
    }
}

/// Queues work on all sides so that it runs between two points of the first side's stream, where events can time it.
fn between(sides: &[Side], begin: &Event, work: impl FnOnce() -> Result<()>) -> Result<()> {
    let Some((first, others)) = sides.split_first() else { return Ok(()) };
    begin.record(&first.stream)?;
    others.iter().try_for_each(|side| side.stream.wait(begin))?;
    work()?;
    for side in others {
        side.done.record(&side.stream)?;
        first.stream.wait(&side.done)?;
    }
    Ok(())
}

fn free(devices: &[CudaDevice]) -> Result<u64> {
    devices.iter().try_fold(u64::MAX, |least, d| Ok(least.min(d.memory()?.0)))
}

/// Measures copies from the second GPU to the first, alone and together with copies in the opposite direction. Uses [`CudaDevice::connect`] to
/// enable direct copies if possible.
///
/// # Errors
/// [`Error::Argument`] if both are the same device; the devices' errors.
pub fn copy_curves(to: &CudaDevice, from: &CudaDevice, bench: &Bench) -> Result<[LinkCurve; 2]> {
    let (a, b) = (to.info().index, from.info().index);
    if a == b {
        return Err(Error::Argument(format!("cuda:{a} has no link to itself: name two GPUs.")));
    }
    let route = to.connect(from)?;
    let devices = [to.clone(), from.clone()];
    let sizes = sizes(free(&devices)?, 2);
    let sides = [Side::new(to)?, Side::new(from)?];
    let most = sizes.last().copied().unwrap_or(LEAST_BYTES);
    let [to_out, from_out] = [sides[0].array(most)?, sides[1].array(most)?];
    let [to_in, from_in] = [to.zeros::<f32>(to_out.len())?, from.zeros::<f32>(from_out.len())?];
    let begin = to.event()?;
    let measure = |bytes: u64, both: bool| -> Result<LinkPoint> {
        let part = |array: &Slice<f32>| array.range(..(bytes / 4) as usize);
        let samples = bench.cuda(to, &sides[0].stream, None, None, || {
            between(&sides, &begin, || {
                // The source device queues each copy, and its copy engine writes into the other device's memory.
                sides[1].stream.copy_across(&part(&from_out), &part(&to_in))?;
                if both { sides[0].stream.copy_across(&part(&to_out), &part(&from_in)) } else { Ok(()) }
            })
        })?;
        Ok(LinkPoint { bytes, samples_us: samples.us })
    };
    let curve = |transfer, both: bool, method: String| -> Result<LinkCurve> {
        let points = sizes.iter().map(|bytes| measure(*bytes, both)).collect::<Result<_>>()?;
        Ok(LinkCurve { transfer, gpus: 2, method, points })
    };
    let one = curve(LinkTransfer::OneWay, false, format!("copies from cuda:{b} to cuda:{a}, {route}"))?;
    let both = curve(LinkTransfer::BothWays, true, format!("copies between cuda:{a} and cuda:{b} at once, {route}"))?;
    Ok([one, both])
}

/// Measures all-reduces of fp32 values over several GPUs, given their communicators, which must all belong to this process.
///
/// # Errors
/// NCCL's and the devices' errors.
///
/// # Panics
/// Panics if the numbers of communicators and devices differ.
pub fn all_reduce_curve(devices: &[CudaDevice], communicators: &[Communicator], bench: &Bench) -> Result<LinkCurve> {
    assert_eq!(devices.len(), communicators.len(), "a communicator for each device");
    let (Some(first), Some(first_rank)) = (devices.first(), communicators.first()) else {
        return Err(Error::Argument("An all-reduce needs a GPU, but none was named.".into()));
    };
    let sizes = sizes(free(devices)?, 1);
    let sides = devices.iter().map(Side::new).collect::<Result<Vec<_>>>()?;
    let most = sizes.last().copied().unwrap_or(LEAST_BYTES);
    let arrays = sides.iter().map(|side| side.array(most)).collect::<Result<Vec<_>>>()?;
    let begin = first.event()?;
    let measure = |bytes: u64| -> Result<LinkPoint> {
        let parts: Vec<Slice<u8>> = arrays.iter().map(|a| a.range(..(bytes / 4) as usize).cast()).collect();
        let samples = bench.cuda(first, &sides[0].stream, None, None, || {
            between(&sides, &begin, || {
                first_rank.group(|| {
                    // The reduction is a mean rather than a sum, so that the values stay finite after any number of repetitions.
                    let mut each = communicators.iter().zip(&sides).zip(&parts);
                    each.try_for_each(|((c, side), part)| {
                        c.all_reduce(&side.stream, part, Dtype::F32, NcclReduce::Mean)
                    })
                })
            })
        })?;
        Ok(LinkPoint { bytes, samples_us: samples.us })
    };
    let points = sizes.iter().map(|bytes| measure(*bytes)).collect::<Result<_>>()?;
    let gpus = u32::try_from(devices.len()).unwrap_or(u32::MAX);
    let method = format!("ncclAllReduce of fp32 over {gpus} GPUs, NCCL {}", first_rank.version());
    Ok(LinkCurve { transfer: LinkTransfer::AllReduce, gpus, method, points })
}

/// Returns the ceiling of the level [`MemoryLevel::Link`]: the size at which one-way copies were fastest. `None` if no such copies were measured.
#[must_use]
pub fn link_peak(peaks: &Peaks) -> Option<BandwidthPeak> {
    let curve = peaks.link(LinkTransfer::OneWay)?;
    let (point, _) = curve.best()?;
    Some(BandwidthPeak {
        level: MemoryLevel::Link,
        access: Access::Read,
        method: curve.method.clone(),
        bytes: point.bytes,
        samples_us: point.samples_us.clone(),
        datasheet_bytes_per_s: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use std::time::Duration;

    #[test]
    fn sizes_fit_and_grow_fourfold() {
        let (kib, mib) = (1u64 << 10, 1u64 << 20);
        let all = [64 * kib, 256 * kib, mib, 4 * mib, 16 * mib, 64 * mib, 256 * mib];
        assert_eq!(sizes(u64::MAX, 2), all);
        assert_eq!(sizes(RESERVE + 8 * mib, 2), all[..4]);
        assert!(sizes(RESERVE, 1).is_empty() && sizes(0, 0).is_empty());
    }

    #[test]
    fn the_ceiling_is_the_fastest_size() {
        let point = |bytes, us| LinkPoint { bytes, samples_us: vec![us] };
        let points = vec![point(100, 2.0), point(400, 4.0), point(1600, 17.0)];
        let curve = LinkCurve { transfer: LinkTransfer::OneWay, gpus: 2, method: "copies".into(), points };
        let peaks = Peaks { links: vec![curve], ..Peaks::default() };
        let peak = link_peak(&peaks).unwrap();
        assert_eq!((peak.level, peak.bytes, peak.bytes_per_s()), (MemoryLevel::Link, 400, 1e8));
        assert!(link_peak(&Peaks::default()).is_none());
    }

    #[test]
    fn a_gpu_has_no_link_to_itself() {
        let Some(device) = testing::gpu("a_gpu_has_no_link_to_itself") else { return };
        let error = copy_curves(&device, &device, &Bench::quick()).unwrap_err().to_string();
        assert!(error.contains("name two GPUs"), "{error}");
    }

    #[test]
    fn links_are_measured_between_two_gpus() {
        let name = "links_are_measured_between_two_gpus";
        let _one = testing::one_at_a_time();
        let Some([first, second]) = testing::two_gpus(name) else { return };
        let bench = Bench { samples: 5, budget_s: 0.2, ..Bench::default() };
        let [one, both] = copy_curves(&first, &second, &bench).unwrap();
        let show = |curve: &LinkCurve| {
            for p in &curve.points {
                println!("{} {} bytes: {:.1} GB/s", curve.method, p.bytes, curve.bytes_per_s(p).unwrap() * 1e-9);
            }
            curve.best().unwrap().1
        };
        let (one, both) = (show(&one), show(&both));
        assert!(one > 1e9 && both > 0.9 * one, "{one} {both}");
        let devices = [first, second];
        match Communicator::all(&devices, Duration::from_secs(120)) {
            Ok(ranks) => assert!(show(&all_reduce_curve(&devices, &ranks, &bench).unwrap()) > 1e9),
            Err(why) if why.is_missing(crate::Library::Nccl) => testing::skip(name, "needs NCCL", why),
            Err(why) => panic!("{why}"),
        }
    }
}
