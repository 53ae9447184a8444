//! Batches loaded ahead for your own training loop.

use super::TrainError;
use super::cuda::{IN_FLIGHT, Loader, Slot, gather, workers};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use warpbook_data::Dataset;
use warpbook_device::{CudaDevice, Slice, Stream};

/// Batches of images for your own training loop: while the loop uses one, another thread gathers the next two and, for a GPU, copies them
/// from page-locked memory on a separate stream. [`Trainer`](super::Trainer) loads its batches in the same way.
///
/// ```
/// use warpbook_data::synthetic_digits;
/// use warpbook_nn::train::Prefetcher;
///
/// let digits = synthetic_digits(100, 1, 1).train;
/// let mut batches = Prefetcher::on_cpu(&digits, 32, 0..100)?;
/// let mut sizes = Vec::new();
/// while let Some(batch) = batches.next_batch()? {
///     let (images, labels) = batch.on_cpu().expect("the batches are on the CPU");
///     assert_eq!(images.len(), labels.len() * digits.pixels());
///     sizes.push(batch.len());
/// }
/// assert_eq!(sizes, [32, 32, 32, 4]);
/// # Ok::<(), warpbook_nn::train::TrainError>(())
/// ```
#[derive(Debug)]
pub struct Prefetcher {
    stream: Option<Arc<Stream>>,
    lent: Option<Batch>,
    loaded: Receiver<Result<Batch, TrainError>>,
    /// Sends free batches to the thread; dropped to end the thread.
    room: Option<Sender<Batch>>,
    thread: Option<JoinHandle<()>>,
}

/// A batch of a [`Prefetcher`]; its images are valid until the next batch is requested.
#[derive(Debug)]
pub struct Batch {
    indices: Vec<u32>,
    pixels: usize,
    place: BatchMemory,
}

#[derive(Debug)]
enum BatchMemory {
    Cpu { images: Vec<u8>, labels: Vec<u8> },
    Cuda(Slot),
}

impl Batch {
    /// Returns the number of images.
    #[must_use]
    pub fn len(&self) -> usize {
        self.indices.len()
    }

    /// Returns true if the batch has no images, which never happens.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.indices.is_empty()
    }

    /// Returns the indices of the batch's images in the data set.
    #[must_use]
    pub fn indices(&self) -> &[u32] {
        &self.indices
    }

    /// Returns the images u8 `[n][channels][height][width]` and labels u8 `[n]` in device memory, for kernels on the prefetcher's stream; `None` on the
    /// CPU.
    #[must_use]
    pub fn on_gpu(&self) -> Option<(Slice<u8>, Slice<u8>)> {
        let BatchMemory::Cuda(slot) = &self.place else { return None };
        let [images, labels] = slot.on_device(self.len(), self.pixels);
        Some((images, labels))
    }

    /// Returns the images u8 `[n][channels][height][width]` and labels u8 `[n]` in host memory; `None` on a GPU.
    #[must_use]
    pub fn on_cpu(&self) -> Option<(&[u8], &[u8])> {
        let BatchMemory::Cpu { images, labels } = &self.place else { return None };
        Some((&images[..self.len() * self.pixels], &labels[..self.len()]))
    }
}

/// The loading thread's inputs.
struct Load<I> {
    set: Dataset,
    order: I,
    batch: usize,
    copies: Option<Stream>,
    workers: Option<rayon::ThreadPool>,
}

impl<I: Iterator<Item = u32>> Load<I> {
    /// Fills each free batch, until the order ends, an image is missing or the receiver is gone.
    fn run(mut self, room: &Receiver<Batch>, loaded: &Sender<Result<Batch, TrainError>>) {
        for mut batch in room {
            batch.indices.clear();
            batch.indices.extend(self.order.by_ref().take(self.batch));
            if batch.is_empty() {
                return;
            }
            let filled = self.fill(&mut batch);
            let is_last = filled.is_err();
            if loaded.send(filled.map(|()| batch)).is_err() || is_last {
                return;
            }
        }
    }

    fn fill(&self, batch: &mut Batch) -> Result<(), TrainError> {
        let (set, workers, n) = (&self.set, self.workers.as_ref(), batch.indices.len());
        if let Some(i) = batch.indices.iter().find(|i| **i as usize >= set.len()) {
            let why = format!("The order names image {i}, but the data set has {} images, numbered from 0.", set.len());
            return Err(TrainError::Setting(why));
        }
        match (&mut batch.place, &self.copies) {
            (BatchMemory::Cuda(slot), Some(copies)) => slot.load(copies, workers, set, &batch.indices),
            (BatchMemory::Cpu { images, labels }, _) => {
                gather(set, &batch.indices, workers, &mut images[..n * batch.pixels], &mut labels[..n]);
                Ok(())
            }
            (BatchMemory::Cuda(_), None) => {
                unreachable!("a batch on a GPU is made together with the stream of its copies")
            }
        }
    }
}

impl Prefetcher {
    /// Loads batches into host memory. `order` gives the indices of the images, for any number of epochs; each batch takes the next `batch`
    /// of them, and the last batch takes the rest.
    ///
    /// # Errors
    /// If the batch has no image, or no thread can be started.
    pub fn on_cpu<I>(set: &Dataset, batch: usize, order: I) -> Result<Self, TrainError>
    where
        I: IntoIterator<Item = u32, IntoIter: Send + 'static>,
    {
        let place = || Ok(BatchMemory::Cpu { images: vec![0; batch * set.pixels()], labels: vec![0; batch] });
        Self::start(
            None,
            place,
            Load { set: set.clone(), order: order.into_iter(), batch, copies: None, workers: None },
        )
    }

    /// Loads batches into device memory, for kernels that are queued on `stream`; for `batch` and `order` see [`Prefetcher::on_cpu`].
    ///
    /// # Errors
    /// If the batch has no image; if three batches do not fit into device memory, or cannot be page-locked; if no thread can be started.
    pub fn on_gpu<I>(
        device: &CudaDevice,
        stream: &Arc<Stream>,
        set: &Dataset,
        batch: usize,
        order: I,
    ) -> Result<Self, TrainError>
    where
        I: IntoIterator<Item = u32, IntoIter: Send + 'static>,
    {
        let loader = Loader::default();
        let place = || Ok(BatchMemory::Cuda(Slot::new(device, loader.pinned, batch, set.pixels())?));
        let (copies, workers) = (Some(device.stream()?), workers(&loader)?);
        let load = Load { set: set.clone(), order: order.into_iter(), batch, copies, workers };
        Self::start(Some(stream.clone()), place, load)
    }

    fn start<I: Iterator<Item = u32> + Send + 'static>(
        stream: Option<Arc<Stream>>,
        place: impl Fn() -> Result<BatchMemory, TrainError>,
        load: Load<I>,
    ) -> Result<Self, TrainError> {
        if load.batch == 0 {
            return Err(TrainError::Setting("A batch needs at least 1 image; it has 0.".into()));
        }
        let (room, free) = channel();
        let (loads, loaded) = channel();
        for _ in 0..IN_FLIGHT {
            // The receiver exists, so this cannot fail.
            let _ = room.send(Batch { indices: Vec::new(), pixels: load.set.pixels(), place: place()? });
        }
        let thread = std::thread::Builder::new().name("prefetcher".into()).spawn(move || load.run(&free, &loads));
        let thread =
            thread.map_err(|e| TrainError::Setting(format!("No thread can be started to load batches: {e}.")))?;
        Ok(Self { stream, lent: None, loaded, room: Some(room), thread: Some(thread) })
    }

    /// Returns the next batch; `None` after the last one. Kernels queued on the prefetcher's stream from now on wait for the copy of this batch, and the
    /// previous batch is overwritten once all work queued on this stream until now has ended.
    ///
    /// # Errors
    /// If the order names an image that does not exist; if the driver reports an error. No further batch follows an error.
    pub fn next_batch(&mut self) -> Result<Option<&Batch>, TrainError> {
        if let (Some(used), Some(room)) = (self.lent.take(), &self.room) {
            if let (BatchMemory::Cuda(slot), Some(stream)) = (&used.place, &self.stream) {
                slot.consumed(stream)?;
            }
            // Fails only if everything is loaded and the thread has ended.
            let _ = room.send(used);
        }
        let Ok(batch) = self.loaded.recv() else {
            self.end();
            return Ok(None);
        };
        let batch = batch?;
        if let (BatchMemory::Cuda(slot), Some(stream)) = (&batch.place, &self.stream) {
            slot.ready(stream)?;
        }
        Ok(Some(self.lent.insert(batch)))
    }

    /// Waits for the thread, and propagates its panic.
    fn end(&mut self) {
        self.room = None;
        if let Some(Err(panic)) = self.thread.take().map(JoinHandle::join) {
            std::panic::resume_unwind(panic);
        }
    }
}

impl Drop for Prefetcher {
    fn drop(&mut self) {
        self.room = None;
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::{Duration, Instant};
    use warpbook_data::synthetic_digits;
    use warpbook_device::testing;

    /// Returns an order of two epochs over 50 images, each shuffled differently.
    fn order() -> impl Iterator<Item = u32> + Send + 'static {
        (0..2).flat_map(|epoch| (0..50).map(move |i| (i * 7 + epoch * 3) % 50))
    }

    #[test]
    fn batches_come_in_order_and_are_whole() {
        let set = synthetic_digits(50, 10, 1).train;
        let mut batches = Prefetcher::on_cpu(&set, 16, order()).unwrap();
        let (mut seen, mut sizes) = (Vec::new(), Vec::new());
        while let Some(batch) = batches.next_batch().unwrap() {
            let (images, labels) = batch.on_cpu().unwrap();
            assert!(batch.on_gpu().is_none() && !batch.is_empty());
            for ((i, image), label) in batch.indices().iter().zip(images.chunks(set.pixels())).zip(labels) {
                assert!(image == set.image(*i as usize) && *label == set.label(*i as usize), "{i}");
            }
            seen.extend_from_slice(batch.indices());
            sizes.push(batch.len());
        }
        assert_eq!((sizes, seen), (vec![16, 16, 16, 16, 16, 16, 4], order().collect()));
        assert!(batches.next_batch().unwrap().is_none(), "it stays at its end");
    }

    #[test]
    fn two_batches_are_loaded_while_one_is_used() {
        let set = synthetic_digits(50, 10, 1).train;
        let taken = Arc::new(AtomicUsize::new(0));
        let count = taken.clone();
        let order = (0..50).inspect(move |_| {
            count.fetch_add(1, Ordering::SeqCst);
        });
        let mut batches = Prefetcher::on_cpu(&set, 5, order).unwrap();
        let reaches = |expect: usize| {
            let begun = Instant::now();
            while taken.load(Ordering::SeqCst) < expect && begun.elapsed() < Duration::from_secs(20) {
                std::thread::sleep(Duration::from_millis(1));
            }
            // Gives the thread time to load one batch too many.
            std::thread::sleep(Duration::from_millis(30));
            assert_eq!(taken.load(Ordering::SeqCst), expect);
        };
        assert_eq!(batches.next_batch().unwrap().unwrap().indices(), [0, 1, 2, 3, 4]);
        reaches(15);
        assert_eq!(batches.next_batch().unwrap().unwrap().indices(), [5, 6, 7, 8, 9]);
        reaches(20);
        // Dropping the batches must end a thread that still has batches to load.
        drop(batches);
        assert_eq!(Arc::strong_count(&taken), 1, "the thread has ended");
    }

    #[test]
    fn what_cannot_be_loaded_is_refused() {
        let set = synthetic_digits(50, 10, 1).train;
        let none = Prefetcher::on_cpu(&set, 0, 0..50).unwrap_err().to_string();
        assert!(none.contains("at least 1 image"), "{none}");
        let mut batches = Prefetcher::on_cpu(&set, 20, 0..60).unwrap();
        assert_eq!(batches.next_batch().unwrap().map(Batch::len), Some(20));
        assert_eq!(batches.next_batch().unwrap().map(Batch::len), Some(20));
        let missing = batches.next_batch().unwrap_err().to_string();
        assert_eq!(missing, "The order names image 50, but the data set has 50 images, numbered from 0.");
        assert!(batches.next_batch().unwrap().is_none());
    }

    #[test]
    #[should_panic(expected = "no more numbers")]
    fn a_panic_of_the_order_is_not_lost() {
        let set = synthetic_digits(50, 10, 1).train;
        let order = (0..9).inspect(|i| assert!(*i < 5, "no more numbers"));
        let mut batches = Prefetcher::on_cpu(&set, 5, order).unwrap();
        while batches.next_batch().unwrap().is_some() {}
    }

    #[test]
    fn a_batch_on_a_gpu_lasts_until_its_work_has_ended() {
        let Some(device) = testing::gpu("a_batch_on_a_gpu_lasts_until_its_work_has_ended") else { return };
        let set = synthetic_digits(2000, 10, 1).train;
        let (pixels, stream) = (set.pixels(), Arc::new(device.stream().unwrap()));
        let numbers: Vec<u32> = (0..4).flat_map(|epoch| (0..2000).map(move |i| (i * 7 + epoch) % 2000)).collect();
        let (kept, labels) = (device.zeros(numbers.len() * pixels).unwrap(), device.zeros(numbers.len()).unwrap());
        let [from, to] = [(); 2].map(|()| device.zeros::<u8>(256 << 20).unwrap());
        let mut batches = Prefetcher::on_gpu(&device, &stream, &set, 300, numbers.clone()).unwrap();
        let mut at = 0;
        while let Some(batch) = batches.next_batch().unwrap() {
            assert!(batch.on_cpu().is_none());
            let (images, own) = batch.on_gpu().unwrap();
            // The stream is far behind the host, which waits for nothing, so a batch that is overwritten too early would be seen below.
            stream.copy(&from, &to).unwrap();
            stream.copy(&images, &kept.range(at * pixels..(at + batch.len()) * pixels)).unwrap();
            stream.copy(&own, &labels.range(at..at + batch.len())).unwrap();
            at += batch.len();
        }
        stream.synchronize().unwrap();
        assert_eq!(at, numbers.len());
        let (kept, labels) = (kept.to_vec().unwrap(), labels.to_vec().unwrap());
        for ((i, image), label) in numbers.iter().zip(kept.chunks(pixels)).zip(labels) {
            assert!(image == set.image(*i as usize) && label == set.label(*i as usize), "image {i}");
        }
    }
}
