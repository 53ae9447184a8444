#![allow(unsafe_code)]

use super::live::is_live;
use super::{LiveKernel, Matmul, failed, is_cpu, sizes, skipped, takes_type};
use crate::{Error, Event, Lab, Result};
use rayon::prelude::*;
use warpbook_device::{
    Bench, Buffer, ClockWatch, Cublas, CublasLt, CudaDevice, DevicePtr, LibraryGemm, LtPlan, Samples, Stream,
};
use warpbook_nn::gemm::{Arrays, Judge, Plan, Product, Rehearsed, Verdict, obstacle, rehearse};
use warpbook_nn::philox::gaussians;
use warpbook_nn::storage::Storage;
use warpbook_record::matmul::{CUBLAS, Form, LT_ALGORITHMS, STANDARD_EDGE, WORKSPACE_BYTES, traffic};
use warpbook_record::{
    Check, Dtype, KernelStats, Measurement, Outcome, Problem, Run, Rung, Runner, Span, SpanGroup, Tile, Traffic,
};

/// Rungs within so many times of the fastest are timed in turn with it.
const IN_TURN_WITHIN: f64 = 5.0;

/// Seconds that a rung may be expected to take for one product: a naive kernel at the largest sizes would take minutes with its
/// warm-up, its checks and its samples.
const LIMIT_S: f64 = 1.0;

/// The matrices of one problem.
struct Prepared {
    product: Product,
    a: Storage,
    b: Storage,
    c: Storage,
    workspace: Buffer<u8>,
    judge: Judge,
    stream: Stream,
}

/// What runs a rung.
enum Way {
    Ours(Box<Plan>),
    Cublas(Cublas),
    CublasLt(LtPlan),
}

struct Entrant {
    rung: Rung,
    way: Way,
    tile: Option<String>,
    stats: Vec<KernelStats>,
    choice: Option<String>,
    traffic: Vec<Traffic>,
    verdict: Verdict,
    samples: Samples,
}

impl Prepared {
    fn draw(device: &CudaDevice, product: Product, seed: u64) -> Result<Self> {
        let [a, b, c] = product.elements();
        let dtype = product.form.dtype;
        let matrix = |stream, elements| -> Result<Storage> {
            let drawn = gaussians(device, seed, stream, elements)?;
            Ok(match dtype {
                Dtype::F16 | Dtype::Bf16 => Storage::from_f32(device, &drawn.to_vec()?, dtype)?,
                _ => Storage::F32(drawn),
            })
        };
        let (a, b) = (matrix(0, a)?, matrix(1, b)?);
        let c = Storage::zeros(device, c, product.form.out)?;
        // SAFETY: A and B have just been drawn with as many elements as the product says.
        let judge = unsafe { Judge::new(device, &product, a.at(0), b.at(0)) }?;
        let workspace = device.zeros(WORKSPACE_BYTES as usize)?;
        Ok(Self { product, a, b, c, workspace, judge, stream: device.stream()? })
    }

    fn queue(&self, way: &Way) -> warpbook_device::Result<()> {
        let (a, b, c) = (self.a.at(0), self.b.at(0), self.c.at(0));
        let null = DevicePtr::NULL;
        let arrays = Arrays { a, b, c, bias: null, mask: null, workspace: self.workspace.at(0) };
        match way {
            // SAFETY: the arrays are those of the product, and live as long as `self`, which waits before it goes.
            Way::Ours(plan) => unsafe { plan.launch(&self.stream, &arrays) },
            // SAFETY: as above.
            Way::Cublas(cublas) => unsafe { cublas.gemm(&self.stream, &library_call(&self.product), a, b, c) },
            // SAFETY: as above; the workspace is as large as the plan was told.
            Way::CublasLt(plan) => unsafe { plan.launch(&self.stream, a, b, c, &self.workspace) },
        }
    }

    /// Runs it once over a C of NaNs, and holds the result against the reference. What is not known to end is given a limit.
    fn judge(&self, way: &Way, limit_s: Option<f64>) -> Result<Verdict> {
        self.c.fill_bytes(0xff)?;
        self.queue(way)?;
        if let Some(limit_s) = limit_s {
            self.stream.synchronize_within(limit_s)?;
        }
        // SAFETY: C has the product's elements.
        Ok(unsafe { self.judge.judge(&self.stream, self.c.at(0)) }?)
    }
}

fn library_call(p: &Product) -> LibraryGemm {
    LibraryGemm {
        m: p.m,
        n: p.n,
        k: p.k,
        lda: p.lda,
        ldb: p.ldb,
        ldc: p.ldc,
        trans_a: p.form.trans_a,
        trans_b: p.form.trans_b,
        alpha: p.alpha,
        beta: p.beta,
        dtype: p.form.dtype,
    }
}

/// A few samples, to choose by.
fn trial(bench: &Bench) -> Bench {
    Bench { warmup: 1, samples: 5.min(bench.samples), budget_s: 0.1, ..bench.clone() }
}

impl Matmul {
    /// Every rung at one size; what goes wrong becomes a row. `lost` says why the GPU cannot be used any more.
    pub(super) fn run_on_gpu(
        &self,
        lab: &Lab,
        device: &CudaDevice,
        problem: &Problem,
        run: &mut Run,
        lost: &mut Option<String>,
    ) {
        let (m, n, k, dtype) = sizes(problem);
        let side = |v: u64| u32::try_from(v).unwrap_or(u32::MAX);
        let product = Product::new(side(m), side(n), side(k), self.form(dtype));
        let rungs = run.rungs.clone();
        lab.tell(&Event::Preparing(&format!("drawing {} and the reference", problem.label())));
        let cancelled = || lab.bench().cancel.is_cancelled();
        let prepared = match &lost {
            Some(why) => Err(why.clone()),
            None if cancelled() => Err("interrupted before it began".into()),
            None => Prepared::draw(device, product, self.seed).map_err(|e| e.to_string()),
        };
        if prepared.is_ok() {
            self.compile_all(device, &rungs, &product);
        }
        // A row for each rung, in the ladder's order.
        let mut rows: Vec<Option<Measurement>> = rungs.iter().map(|_| None).collect();
        // Kernels that nobody has tried yet come after all others, which are measured by then.
        for live in [false, true] {
            let mut entrants: Vec<(usize, Entrant)> = Vec::new();
            for (place, rung) in rungs.iter().enumerate().filter(|(_, r)| is_live(r) == live) {
                lab.tell(&Event::Started { rung, problem });
                let why_not = obstacle(rung, product.form, device.info().compute_capability)
                    .or_else(|| lab.obstacle(rung))
                    .or_else(|| (!takes_type(rung, dtype)).then(|| format!("does not take {}", dtype.label())))
                    .or_else(|| too_slow(run, rung, problem))
                    .or_else(|| cancelled().then(|| "interrupted before it began".into()));
                rows[place] = match (&prepared, why_not) {
                    _ if is_cpu(rung) => Some(super::cpu::beside_a_gpu(self, lab, rung, problem)),
                    (_, Some(why)) => Some(skipped(rung, problem, why)),
                    (_, None) if lost.is_some() => Some(skipped(rung, problem, lost.clone().unwrap_or_default())),
                    (Err(error), _) => Some(failed(rung, problem, error)),
                    (Ok(prepared), None) => match self.enter(lab, device, prepared, rung, problem, run) {
                        Ok(entrant) if entrant.verdict.passed() => {
                            entrants.push((place, entrant));
                            None
                        }
                        Ok(entrant) => Some(wrong(&entrant, problem)),
                        Err(Error::Device(warpbook_device::Error::Cancelled)) => {
                            Some(skipped(rung, problem, "interrupted"))
                        }
                        Err(Error::Device(
                            e @ (warpbook_device::Error::NoCublas { .. } | warpbook_device::Error::Unsupported { .. }),
                        )) => Some(skipped(rung, problem, e.to_string())),
                        Err(error) => {
                            note_loss(&error, rung, lost);
                            Some(failed(rung, problem, self.sentence(rung, &error)))
                        }
                    },
                };
            }
            let Ok(prepared) = &prepared else { continue };
            if let Err(error) = time(lab, device, prepared, entrants.iter_mut().map(|(_, e)| e).collect())
                && !matches!(error, Error::Device(warpbook_device::Error::Cancelled))
            {
                if let Some((_, e)) = entrants.last() {
                    note_loss(&error, &e.rung, lost);
                }
                run.notes.push(format!("{}: timing ended early: {error}", problem.label()));
            }
            for (place, entrant) in entrants {
                rows[place] = Some(self.finish(prepared, entrant, problem, lost));
            }
        }
        for row in rows.into_iter().flatten() {
            run.measurements.push(row);
            if let Some(measurement) = run.measurements.last() {
                lab.tell(&Event::Finished { measurement, run });
            }
        }
        if let (Ok(prepared), true, None) = (&prepared, self.transfers && !cancelled(), &*lost) {
            match time_transfers(lab, prepared, problem, run) {
                Ok(spans) => run.spans.extend(spans),
                Err(Error::Device(warpbook_device::Error::Cancelled)) => {}
                Err(error) => run.notes.push(format!("The transfers could not be timed: {error}")),
            }
        }
    }

    /// An error of a rung, as its row tells it.
    fn sentence(&self, rung: &Rung, error: &Error) -> String {
        match (self.live_of(rung), error) {
            (Some(live), Error::Device(warpbook_device::Error::StillRunning { limit_s, .. })) if live.isolated => {
                format!(
                    "The kernel was still running after {limit_s} s and was stopped. A loop that never ends, or a barrier that not \
                     all threads reach, does that. It ran in a process of its own, so nothing else was lost."
                )
            }
            (Some(live), Error::Device(warpbook_device::Error::Launch { why, sticky: true, .. })) if live.isolated => {
                format!(
                    "The kernel failed: {why}. Most often it reads or writes outside of its arrays: look at its guards and at how it \
                     computes addresses. It ran in a process of its own, so nothing else was lost."
                )
            }
            _ => error.to_string(),
        }
    }

    /// Compiles what will be tried, on all threads, into the compiler's cache; what does not compile is told where it is used.
    fn compile_all(&self, device: &CudaDevice, rungs: &[Rung], product: &Product) {
        let Ok(compiler) = device.compiler() else { return };
        let mut jobs = Vec::new();
        for rung in rungs.iter().filter(|r| obstacle(r, product.form, device.info().compute_capability).is_none()) {
            for tile in self.wanted_tiles(rung) {
                jobs.extend(Plan::spec(rung, product).map(|spec| (spec, tile)));
            }
        }
        jobs.par_iter().for_each(|(spec, tile)| {
            let _ = compiler.compile(spec, tile, &device.architecture_of(spec));
        });
    }

    /// The tiles of a rung that are tried.
    fn wanted_tiles(&self, rung: &Rung) -> Vec<Tile> {
        let permitted = rung.kernels().first().map(|k| k.tiles.clone()).unwrap_or_default();
        let asked = self.tile.as_deref().and_then(|id| permitted.iter().find(|t| t.id == id).cloned());
        match asked {
            Some(tile) => vec![tile],
            None if self.tiles => permitted,
            None => permitted.into_iter().take(1).collect(),
        }
    }

    /// Compiles a rung, chooses its tile or algorithm, and holds it against the reference once.
    fn enter(
        &self,
        lab: &Lab,
        device: &CudaDevice,
        prepared: &Prepared,
        rung: &Rung,
        problem: &Problem,
        run: &mut Run,
    ) -> Result<Entrant> {
        let trial = trial(lab.bench());
        let (way, tile, choice) = match &rung.runner {
            Runner::Library(_) if rung.id == CUBLAS => (Way::Cublas(Cublas::open(device)?), None, None),
            Runner::Library(_) => {
                let call = library_call(&prepared.product);
                let (found, way) = best_algorithm(
                    device,
                    &trial,
                    prepared,
                    CublasLt::open(device)?.plans(&call, LT_ALGORITHMS, WORKSPACE_BYTES)?,
                )?;
                let choice =
                    format!("The fastest of {found} algorithms that it suggested of {LT_ALGORITHMS} asked for.");
                (way, None, Some(choice))
            }
            _ => {
                if let Some(live) = self.live_of(rung) {
                    try_small(device, rung, prepared.product.form, live.limit_s())?;
                }
                let plan = self.best_tile(device, &trial, prepared, rung, problem, run)?;
                let (tile, choice) = (plan.tile().to_owned(), plan.preparation());
                (Way::Ours(Box::new(plan)), Some(tile), choice)
            }
        };
        let stats = if let Way::Ours(plan) = &way { plan.stats() } else { Vec::new() };
        let tiles = rung.kernels().first().and_then(|k| k.tile(tile.as_deref()?));
        let traffic = tiles.map(|t| traffic(&rung.id, t, problem)).unwrap_or_default();
        let verdict = prepared.judge(&way, self.live_of(rung).map(LiveKernel::limit_s))?;
        Ok(Entrant { rung: rung.clone(), way, tile, stats, choice, traffic, verdict, samples: Samples::default() })
    }

    /// The fastest tile of a rung, or the one that was asked for; the times of all become spans.
    fn best_tile(
        &self,
        device: &CudaDevice,
        trial: &Bench,
        prepared: &Prepared,
        rung: &Rung,
        problem: &Problem,
        run: &mut Run,
    ) -> Result<Plan> {
        let wanted = self.wanted_tiles(rung);
        let mut plans = Vec::new();
        let mut first_error = None;
        for tile in &wanted {
            match Plan::new(device, rung, tile, &prepared.product, [true; 2]) {
                Ok(plan) => plans.push(Way::Ours(Box::new(plan))),
                Err(e) if e.is_sticky() => return Err(e.into()),
                // As a tile that wants more shared memory than there is.
                Err(e) => first_error = first_error.or(Some(e)),
            }
        }
        let (best, times) = fastest(device, trial, prepared, &plans)?;
        // Of a sweep the standard size is enough to see what a tile does.
        let (m, n, k, _) = sizes(problem);
        let kept = self.shapes.len() == 1 || [m, n, k].iter().all(|v| *v == STANDARD_EDGE);
        for (way, samples) in plans.iter().zip(&times).filter(|_| kept) {
            if let Way::Ours(plan) = way {
                run.spans.push(Span {
                    rung: rung.id.to_string(),
                    problem: problem.clone(),
                    group: SpanGroup::Tile,
                    name: plan.tile().to_owned(),
                    samples_us: samples.us.clone(),
                });
            }
        }
        match (plans.into_iter().nth(best.unwrap_or(0)), first_error) {
            (Some(Way::Ours(plan)), _) => Ok(*plan),
            (_, Some(e)) => Err(e.into()),
            _ => Err(Error::Setting(format!("{} has no tile.", rung.id))),
        }
    }

    /// The row of a rung that was timed, after holding it against the reference once more.
    fn finish(
        &self,
        prepared: &Prepared,
        entrant: Entrant,
        problem: &Problem,
        lost: &mut Option<String>,
    ) -> Measurement {
        if entrant.samples.us.is_empty() {
            let why = lost.clone().unwrap_or_else(|| "interrupted before it was timed".into());
            return skipped(&entrant.rung, problem, why);
        }
        let last = match prepared.judge(&entrant.way, None) {
            Ok(verdict) => verdict,
            Err(error) => {
                note_loss(&error, &entrant.rung, lost);
                return failed(&entrant.rung, problem, error);
            }
        };
        let mut m = if last.passed() {
            measured(&entrant, problem)
        } else {
            wrong(&Entrant { verdict: last, ..entrant }, problem)
        };
        if let Some(check) = m.check.take() {
            m.check = Some(check.worse(as_check(&last)));
        }
        m
    }
}

/// Those that are close are timed in turn, the others each alone.
fn time(lab: &Lab, device: &CudaDevice, prepared: &Prepared, mut entrants: Vec<&mut Entrant>) -> Result<()> {
    let first_look = Bench { warmup: 1, samples: 1, ..lab.bench().clone() };
    let mut fastest = f64::INFINITY;
    let mut looks = Vec::new();
    for e in &entrants {
        let us = first_look.cuda(device, &prepared.stream, None, None, || prepared.queue(&e.way))?.median_us();
        fastest = fastest.min(us);
        looks.push(us);
    }
    let close = |us: f64| us <= IN_TURN_WITHIN * fastest;
    let ways: Vec<&Way> = entrants.iter().zip(&looks).filter(|(_, us)| close(**us)).map(|(e, _)| &e.way).collect();
    let mut together = in_turn(device, lab.bench(), prepared, &ways, Some(lab.watch()))?.into_iter();
    for (e, us) in entrants.iter_mut().zip(&looks) {
        e.samples = if close(*us) {
            together.next().unwrap_or_default()
        } else {
            // A product that takes the whole budget has warmed up by being checked.
            let slow = us * 1e-6 > lab.bench().budget_s / 4.0;
            let bench = if slow { Bench { warmup: 1, samples: 3, ..lab.bench().clone() } } else { lab.bench().clone() };
            bench.cuda(device, &prepared.stream, Some(lab.watch()), None, || prepared.queue(&e.way))?
        };
    }
    Ok(())
}

fn in_turn(
    device: &CudaDevice,
    bench: &Bench,
    prepared: &Prepared,
    ways: &[&Way],
    watch: Option<&ClockWatch>,
) -> Result<Vec<Samples>> {
    let regions: Vec<Box<dyn Fn() -> warpbook_device::Result<()> + '_>> =
        ways.iter().map(|way| Box::new(|| prepared.queue(way)) as _).collect();
    let regions: Vec<&dyn Fn() -> warpbook_device::Result<()>> = regions.iter().map(|r| &**r).collect();
    Ok(bench.cuda_in_turn(device, &prepared.stream, watch, &regions)?)
}

/// Ways within so much of the fastest are looked at again, so many of them at most.
const SECOND_LOOK_WITHIN: f64 = 1.05;
const SECOND_LOOK_AT: usize = 6;

/// Times ways in turn, and says which is the fastest. A few samples do not tell those that are close apart, so these are timed again.
fn fastest(
    device: &CudaDevice,
    trial: &Bench,
    prepared: &Prepared,
    ways: &[Way],
) -> Result<(Option<usize>, Vec<Samples>)> {
    let times = match ways {
        [] => return Ok((None, Vec::new())),
        [_] => return Ok((Some(0), Vec::new())),
        _ => in_turn(device, trial, prepared, &ways.iter().collect::<Vec<_>>(), None)?,
    };
    let mut order: Vec<usize> = (0..ways.len()).collect();
    order.sort_by(|a, b| times[*a].median_us().total_cmp(&times[*b].median_us()));
    let limit = times[order[0]].median_us() * SECOND_LOOK_WITHIN;
    order.retain(|i| times[*i].median_us() <= limit);
    order.truncate(SECOND_LOOK_AT);
    if order.len() == 1 {
        return Ok((order.first().copied(), times));
    }
    let longer = Bench { samples: 4 * trial.samples, budget_s: 2.0 * trial.budget_s, ..trial.clone() };
    let close: Vec<&Way> = order.iter().map(|i| &ways[*i]).collect();
    let again = in_turn(device, &longer, prepared, &close, None)?;
    let best = order.iter().zip(&again).min_by(|a, b| a.1.median_us().total_cmp(&b.1.median_us()));
    Ok((best.map(|(i, _)| *i), times))
}

/// The fastest of the algorithms, of those that give the right result, and how many there were.
fn best_algorithm(device: &CudaDevice, trial: &Bench, prepared: &Prepared, plans: Vec<LtPlan>) -> Result<(usize, Way)> {
    let mut ways = Vec::new();
    for plan in plans {
        let way = Way::CublasLt(plan);
        // Some are suggested that the device then refuses.
        match prepared.judge(&way, None) {
            Ok(verdict) if verdict.passed() => ways.push(way),
            Err(Error::Device(e)) if e.is_sticky() => return Err(e.into()),
            _ => {}
        }
    }
    let found = ways.len();
    let (best, _) = fastest(device, trial, prepared, &ways)?;
    match best.and_then(|i| ways.into_iter().nth(i)) {
        Some(way) => Ok((found, way)),
        None => Err(warpbook_device::Error::Unsupported {
            what: "cuBLASLt".into(),
            why: "suggested no algorithm that gives the right result".into(),
        }
        .into()),
    }
}

/// Why a rung is left out at a size, going by its best rate in this type at those before.
fn too_slow(run: &Run, rung: &Rung, problem: &Problem) -> Option<String> {
    let same = |m: &&Measurement| m.rung == rung.id && m.problem.dtype() == problem.dtype() && m.is_valid();
    let rate = run.measurements.iter().filter(same).filter_map(Measurement::flops_per_s).fold(0.0, f64::max);
    let expected_s = problem.flops() as f64 / rate;
    (rate > 0.0 && expected_s > LIMIT_S).then(|| format!("would take about {expected_s:.1} s a product"))
}

/// Tries a kernel at small products, where what is wrong can be told.
fn try_small(device: &CudaDevice, rung: &Rung, form: Form, limit_s: f64) -> Result<()> {
    let tiles = rung.kernels().iter().flat_map(|k| k.tiles.first());
    for tile in tiles {
        match rehearse(device, rung, tile, form, limit_s)? {
            Rehearsed::Right => {}
            Rehearsed::Wrong(flaw) => return Err(Error::WrongProduct(flaw.to_string())),
            Rehearsed::Outside { sizes: [m, n, k], elements: (before, after) } => {
                return Err(Error::WrongProduct(format!(
                    "In a product of {m} x {n} x {k}, memory around C was written: {before} elements before it and {after} after it. \
                     Hint: look at the guards of the edge, and whether a row of C begins every ldc elements."
                )));
            }
        }
    }
    Ok(())
}

fn note_loss(error: &Error, rung: &Rung, lost: &mut Option<String>) {
    if let Error::Device(e) = error
        && e.is_sticky()
    {
        lost.get_or_insert_with(|| format!("not run: {} had failed and ended the CUDA context", rung.id));
    }
}

fn as_check(v: &Verdict) -> Check {
    Check {
        reference: "the same product in f64 on the GPU, every element, beyond the rounding to C's type".into(),
        max_abs_error: v.max_abs_error,
        max_rel_error: v.max_error,
        tolerance: v.tolerance,
        passed: v.passed(),
    }
}

fn measured(e: &Entrant, problem: &Problem) -> Measurement {
    let mut m = Measurement::without_samples(&*e.rung.id, problem.clone(), Outcome::Measured);
    m.tile.clone_from(&e.tile);
    m.kernels.clone_from(&e.stats);
    m.choice.clone_from(&e.choice);
    m.traffic.clone_from(&e.traffic);
    m.check = Some(as_check(&e.verdict));
    m.set_samples(e.samples.us.clone(), e.samples.wall_us.clone());
    m
}

fn wrong(e: &Entrant, problem: &Problem) -> Measurement {
    let v = &e.verdict;
    let at = v.first_wrong.map_or_else(String::new, |(r, c)| format!(", the first in row {r}, column {c}"));
    let error = format!("{} of {} elements are wrong{at}", v.wrong, problem.short_label());
    let tile = e.tile.clone();
    Measurement { tile, check: Some(as_check(v)), kernels: e.stats.clone(), ..failed(&e.rung, problem, error) }
}

/// What a result costs that is wanted on the host: the ways there and back, beside the fastest rung of ours and the first.
fn time_transfers(lab: &Lab, prepared: &Prepared, problem: &Problem, run: &Run) -> Result<Vec<Span>> {
    fn there_and_back<T: warpbook_device::Element>(
        bench: &Bench,
        to: &[&Buffer<T>],
        from: &Buffer<T>,
    ) -> Result<(Vec<f64>, Vec<f64>)> {
        let host: Vec<Vec<T>> = to.iter().map(|b| b.to_vec()).collect::<warpbook_device::Result<_>>()?;
        let there = bench.cpu(|| to.iter().zip(&host).try_for_each(|(b, h)| b.write(h)))?;
        // Into memory that has been used before: to find fresh pages would take longer than the copy.
        let mut result = from.to_vec()?;
        let back = bench.cpu(|| from.read(&mut result))?;
        Ok((there.us, back.us))
    }
    let bench =
        Bench { samples: 5.min(lab.bench().samples), budget_s: 0.3, batch_below_us: 0.0, ..lab.bench().clone() };
    let (there, back) = match (&prepared.a, &prepared.b, &prepared.c) {
        (Storage::F32(a), Storage::F32(b), Storage::F32(c)) => there_and_back(&bench, &[a, b], c)?,
        (Storage::F16(a), Storage::F16(b), Storage::F16(c)) => there_and_back(&bench, &[a, b], c)?,
        (Storage::Bf16(a), Storage::Bf16(b), Storage::Bf16(c)) => there_and_back(&bench, &[a, b], c)?,
        _ => return Ok(Vec::new()),
    };
    let ours: Vec<&Measurement> = run
        .measurements
        .iter()
        .filter(|m| m.problem == *problem && m.is_valid() && run.rung(&m.rung).is_some_and(|r| !r.kernels().is_empty()))
        .collect();
    let fastest =
        ours.iter().min_by(|a, b| a.median_us().unwrap_or(f64::MAX).total_cmp(&b.median_us().unwrap_or(f64::MAX)));
    let mut chosen: Vec<&&Measurement> = ours.first().into_iter().chain(fastest).collect();
    chosen.dedup_by_key(|m| m.rung.clone());
    let span = |m: &Measurement, name: &str, samples_us: &[f64]| Span {
        rung: m.rung.clone(),
        problem: problem.clone(),
        group: SpanGroup::Transfer,
        name: name.into(),
        samples_us: samples_us.to_vec(),
    };
    Ok(chosen
        .into_iter()
        .flat_map(|m| {
            [span(m, "to the device", &there), span(m, "compute", &m.samples_us), span(m, "to the host", &back)]
        })
        .collect())
}
