//! Times kernels when a product is first planned on a device, and keeps the findings for other processes.

use crate::choose::Choice;
use crate::choose::candidates::{Candidate, candidates};
use crate::plan::trial::median_us;
use crate::{Budget, Finding, Findings, Plan, Product};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use warpbook_device::{CudaDevice, Result, driver_version, is_busy, write_atomic_with_folder};
use warpbook_kernels::matmul::{Row, rows};
use warpbook_record::DeviceInfo;

/// Timing that takes less than this duration is not reported.
const SILENT: Duration = Duration::from_secs(1);

/// Called with a message when timing takes longer than a second.
type Listener = Box<dyn Fn(&str) + Send + Sync>;
static LISTENER: OnceLock<Listener> = OnceLock::new();

/// Calls `listener` with a sentence if timing takes longer than a second. Only the first call in a process has an effect; without a call nothing is reported.
pub fn tell_of_tuning(listener: impl Fn(&str) + Send + Sync + 'static) {
    let _ = LISTENER.set(Box::new(listener));
}

/// Findings of this process, with the result of [`path_of`] as the key. All handles share them, so that several handles on one kind of device make the same
/// choices even if nothing can be written. The lock is held while a product is timed, since two products timed at once disturb each other.
static FOUND: LazyLock<Mutex<HashMap<PathBuf, Finding>>> = LazyLock::new(Mutex::default);

/// Chooses a kernel by the finding for the product on this kind of device, made by this process or an earlier one. If there is none, times the candidates with
/// the least expected times, unless the thread is busy. If nothing can be timed, the inner error gives the reason.
pub(crate) fn choose(
    device: &CudaDevice,
    product: &Product,
    budget: &Budget,
    published: &Findings,
) -> std::result::Result<Choice, String> {
    let (rows, info) = (rows(), device.info());
    let path = path_of(device, product);
    let choice = |finding: &Finding| {
        let (row, tile) = finding.kernel(&rows, product, info).filter(|_| finding.is_of(product))?;
        let why = format!("timed on this device: {:.1} us", finding.us);
        Some(Choice { row: row.clone(), tile: tile.clone(), why, us: finding.us })
    };
    let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    let home = warpbook_record::cache_folder().map(|home| home.join(&path));
    let known = found.get(&path).cloned().or_else(|| read(home.as_deref()?));
    if let Some((finding, choice)) = known.and_then(|finding| choice(&finding).map(|choice| (finding, choice))) {
        found.insert(path, finding);
        return Ok(choice);
    }
    if is_busy() {
        return Err("the thread is measuring or capturing".into());
    }
    let tried = to_try(&rows, product, info, budget, published);
    if tried.first().is_some_and(|best| best.estimate.us() < budget.least_us) {
        return Err(format!("below {:.0} us the model chooses as well", budget.least_us));
    }
    // The bias gradient is computed by the same separate kernel, whichever kernel is chosen.
    let alone = Product { bias_gradient: false, ..*product };
    let finding = time(device, &alone, &tried, budget).map_err(|e| e.to_string())??;
    if let Some((home, text)) = home.zip(serde_json::to_vec(&finding).ok()) {
        // If the home folder is not writable, only the finding is lost.
        let _ = write_atomic_with_folder(home, &text);
    }
    let choice = choice(&finding).ok_or("what was found cannot be run")?;
    found.insert(path, finding);
    Ok(choice)
}

/// Saves a finding for later processes on this kind of device.
///
/// # Errors
/// If there is no cache folder, or it cannot be written.
pub fn keep_finding(device: &CudaDevice, product: &Product, finding: &Finding) -> std::io::Result<PathBuf> {
    let none = || std::io::Error::other("WARPBOOK_CACHE is empty, or no home folder is known");
    let path = warpbook_record::cache_folder().ok_or_else(none)?.join(path_of(device, product));
    write_atomic_with_folder(&path, &serde_json::to_vec(finding)?)?;
    Ok(path)
}

/// Reads a saved finding; returns `None` if there is none, or it cannot be read.
fn read(path: &Path) -> Option<Finding> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

/// Returns the path of a finding below the cache folder. Each finding has a small file, which is replaced as a whole, so that several processes may write. The
/// folder's name contains the device, the driver and the version of the kernels.
fn path_of(device: &CudaDevice, product: &Product) -> PathBuf {
    Path::new("products").join(folder_of(device.info(), &driver_version().unwrap_or_default())).join(file_of(product))
}

fn folder_of(device: &DeviceInfo, driver: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c.to_ascii_lowercase() } else { '-' };
    let name: String = device.name.chars().map(plain).collect();
    format!("{name}-{}-{driver}-{}", device.multiprocessors, &*CATALOGUE)
}

fn file_of(p: &Product) -> String {
    let stored = |transposed: bool| if transposed { 't' } else { 'n' };
    let (dtype, out) = (p.form.dtype.label(), p.form.out.label());
    let (a, b) = (stored(p.form.trans_a), stored(p.form.trans_b));
    format!("{}x{}x{}-{dtype}-{out}-{a}{b}-{}-{}-{}.json", p.m, p.n, p.k, p.lda, p.ldb, p.ldc)
}

/// Version of the kernels: a hash of the catalogue's sources, tiles and costs.
static CATALOGUE: LazyLock<String> = LazyLock::new(|| {
    let mut hash = Sha256::new();
    for row in rows() {
        hash.update(format!("{row:?}"));
    }
    hash.finalize().iter().take(6).map(|byte| format!("{byte:02x}")).collect()
});

/// Returns the candidates to time: the fastest by the cost model, and the kernel published for the nearest product, however slow the model expects it to be.
fn to_try<'r>(
    rows: &'r [Row],
    product: &Product,
    device: &DeviceInfo,
    budget: &Budget,
    published: &Findings,
) -> Vec<Candidate<'r>> {
    let mut all = candidates(rows, product, device);
    let near = published.nearest(product).and_then(|f| f.kernel(rows, product, device));
    let at = near.and_then(|(row, tile)| all.iter().position(|c| c.row.rung.id == row.rung.id && c.tile.id == tile.id));
    let most_us = all.first().map_or(0.0, |best| budget.within * best.estimate.us());
    let count = all.iter().take(budget.candidates).take_while(|c| c.estimate.us() <= most_us).count();
    match at.filter(|at| *at >= count) {
        Some(at) => {
            let near = all.remove(at);
            all.truncate(count.min(budget.candidates - 1));
            all.push(near);
        }
        None => all.truncate(count),
    }
    // Each candidate runs once to warm up, and at least once for its time.
    let mut gpu_us = 0.0;
    all.retain(|c| {
        gpu_us += 3.0 * c.estimate.us();
        gpu_us <= budget.gpu_s * 1e6
    });
    all
}

/// Returns the fastest of some candidates; the inner error says why they were not timed.
fn time(
    device: &CudaDevice,
    product: &Product,
    candidates: &[Candidate<'_>],
    budget: &Budget,
) -> Result<std::result::Result<Finding, String>> {
    let begun = Instant::now();
    if candidates.len() < 2 {
        return Ok(Err("there is nothing to choose from within the budget".into()));
    }
    let plans = compiled(device, product, candidates, budget);
    // The arrays for timing are freed again, so they are not part of the memory that a program needs.
    let times = device.keeping_peak(|| median_us(device, product, &plans, budget.gpu_s / 2.0))?;
    let Some(times) = times else {
        return Ok(Err("there is too little free memory to time kernels".into()));
    };
    let Some((plan, us)) = plans.iter().zip(times).min_by(|a, b| a.1.total_cmp(&b.1)) else {
        return Ok(Err("no kernel could be compiled".into()));
    };
    let (took, (rung, tile)) = (begun.elapsed(), (plan.rung(), plan.tile()));
    if let Some(tell) = LISTENER.get().filter(|_| took > SILENT) {
        let (count, Product { m, n, k, form, .. }, s) = (plans.len(), product, took.as_secs_f64());
        let dtype = form.dtype.label();
        tell(&format!(
            "Timed {count} kernels for the product {m} x {n} x {k} in {dtype} for {s:.1} s; the fastest, {rung} with {tile}, is kept for this \
             device. WARPBOOK_TUNE=off chooses without timing.",
        ));
    }
    Ok(Ok(Finding::new(product, rung, tile, us)))
}

/// Plans candidates, compiling in parallel until the budget's time is over. Candidates that cannot be planned are left out.
fn compiled(device: &CudaDevice, product: &Product, candidates: &[Candidate<'_>], budget: &Budget) -> Vec<Plan> {
    let begun = Instant::now();
    let at_once = std::thread::available_parallelism().map_or(1, usize::from);
    let mut plans = Vec::new();
    for some in candidates.chunks(at_once) {
        if begun.elapsed().as_secs_f64() > budget.compilation_s {
            break;
        }
        plans.extend(std::thread::scope(|scope| {
            let plan = |c: &Candidate<'_>| Plan::new(device, c.row, c.tile, product, [true; 2]).ok();
            let threads: Vec<_> = some.iter().map(|c| scope.spawn(move || plan(c))).collect();
            threads.into_iter().filter_map(|thread| thread.join().ok()?).collect::<Vec<_>>()
        }));
    }
    plans
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tuning;
    use crate::choose::tests::h200;
    use warpbook_kernels::matmul::Form;
    use warpbook_record::Dtype;

    fn product((m, n, k): (u32, u32, u32)) -> Product {
        Product::new(m, n, k, Form::plain(Dtype::Bf16))
    }

    /// At most four kernels are tried, including the published finding of the nearest product, and fewer for a product that takes long.
    #[test]
    fn few_kernels_are_tried() {
        let (rows, device, budget) = (rows(), h200(), Tuning::Quick.budget().unwrap());
        let p = product((4000, 4096, 4096));
        let names = |published: &Findings| -> Vec<String> {
            let tried = to_try(&rows, &p, &device, &budget, published);
            tried.iter().map(|c| format!("{}/{}", c.row.rung.id, c.tile.id)).collect()
        };
        let plain = names(&Findings::default());
        assert_eq!(plain.len(), 4);
        let near = product((4096, 4096, 4096));
        let published = |tile: &str| Findings { findings: vec![Finding::new(&near, "15b_small_tiles", tile, 1.0)] };
        // A published finding that is not among the candidates takes the last place; a finding among the candidates changes nothing.
        let with = names(&published("64x64s12k1"));
        assert_eq!((&with[..3], &*with[3]), (&plain[..3], "15b_small_tiles/64x64s12k1"));
        let first = Finding {
            rung: "14_overlapped_store".into(),
            tile: "128x256s4c2g8".into(),
            ..published("").findings.remove(0)
        };
        assert!(plain.contains(&"14_overlapped_store/128x256s4c2g8".to_owned()));
        assert_eq!(names(&Findings { findings: vec![first] }), plain);
        // Kernels that are expected to take far longer are not tried, unless they are published.
        let flat = Product::new(512, 9216, 128, Form::plain(Dtype::F32));
        let us: Vec<f64> =
            to_try(&rows, &flat, &device, &budget, &Findings::default()).iter().map(|c| c.estimate.us()).collect();
        assert!((2..4).contains(&us.len()) && us.iter().all(|t| *t <= 1.5 * us[0]), "{us:?}");
        let published = Findings { findings: vec![Finding::new(&flat, "08_double_buffered", "128x256x8s4", 1.0)] };
        let tried = to_try(&rows, &flat, &device, &budget, &published);
        assert_eq!((tried.len(), &*tried.last().unwrap().tile.id), (us.len() + 1, "128x256x8s4"));
        let long =
            |p: &Product, gpu_s| to_try(&rows, p, &device, &Budget { gpu_s, ..budget }, &Findings::default()).len();
        let large = product((16384, 16384, 16384));
        assert_eq!(long(&large, 1.0), 4);
        assert!((1..4).contains(&long(&large, 0.1)), "{}", long(&large, 0.1));
        assert_eq!(long(&large, 0.001), 0);
    }

    #[test]
    fn a_file_is_of_one_product_on_one_kind_of_device() {
        let p = product((64, 32, 16));
        assert_eq!(file_of(&p), "64x32x16-bf16-bf16-nn-16-32-32.json");
        let stored = Product::new(64, 32, 16, Form { trans_a: true, out: Dtype::F32, ..p.form });
        assert_eq!(file_of(&stored), "64x32x16-bf16-fp32-tn-64-32-32.json");
        let device = DeviceInfo { name: "NVIDIA H100 80GB HBM3".into(), ..h200() };
        let folder = folder_of(&device, "580.1");
        assert!(folder.starts_with("nvidia-h100-80gb-hbm3-132-580.1-"), "{folder}");
        assert_ne!(folder, folder_of(&device, "580.2"));
        assert_ne!(folder, folder_of(&h200(), "580.1"));
        // The folder ends with the version of the kernels.
        assert_eq!((CATALOGUE.len(), folder.ends_with(&**CATALOGUE)), (12, true));
    }

    #[test]
    fn what_cannot_be_read_is_no_finding() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b.json");
        let finding = Finding::new(&product((64, 32, 16)), "15_split_k", "64x64s12k2", 1.5);
        assert_eq!(read(&path), None);
        write_atomic_with_folder(&path, &serde_json::to_vec(&finding).unwrap()).unwrap();
        assert_eq!(read(&path), Some(finding));
        std::fs::write(&path, "{\"m\": 64").unwrap();
        assert_eq!(read(&path), None);
    }

    /// Several processes may write the same finding: each writes a whole file, and the file written last stays.
    #[test]
    fn findings_are_written_as_a_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.json");
        let finding = |us: u32| Finding::new(&product((64, 32, 16)), "15_split_k", &"x".repeat(us as usize), us.into());
        std::thread::scope(|scope| {
            for writer in 1..=4 {
                let path = &path;
                scope.spawn(move || {
                    for us in 1..=50 {
                        write_atomic_with_folder(path, &serde_json::to_vec(&finding(writer * us)).unwrap()).unwrap();
                        assert!(read(path).is_some());
                    }
                });
            }
        });
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
