//! `warpbook train` and `warpbook eval`.

use crate::args::{EvalArgs, TrainArgs};
use crate::at_once;
use crate::cold;
use crate::failure::{Failure, INTERRUPTED, USAGE};
use crate::infer::{self, failure};
use crate::output::{complain, say};
use crate::ranks::{self, Role};
use crate::recipe::{AMP_RECIPE, ComputedBy, Images, Opened, Plan, SPEEDRUN, TrainedWeights, recipe_file};
use crate::save::{Files, Keeper, Kind, exit_now, trace_of};
use crate::signals::{Asked, on_request_to_end};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use warpbook::data::{Rows, Source, Splits};
use warpbook::device::Choice;
use warpbook::gemm::{OwnProduct, ProductBy};
use warpbook::nn::infer::Frozen;
use warpbook::nn::network::amp_recipe;
use warpbook::nn::train::{
    CudaOptions, Ended, Event, Flow, Loader, Place, Ranks, Recipe, Residency, Score, Trainer, ensure_host_memory,
};
use warpbook::nn::weights::Weights;
use warpbook::{Lab, Sets, TrainingRun, Trains, Underway, figures, ranks_line, training_line};

/// Trains, and keeps a checkpoint after every epoch.
pub fn train(args: &TrainArgs) -> Result<ExitCode, Failure> {
    ranks::ensure_one_kind(&args.together, args.place.device.choice()?)?;
    let role = Role::of(&args.together)?;
    at_once::target(args)?;
    let whole = at_once::is_asked(args) || args.cold.is_some();
    if let (Role::Rank(place), true) = (&role, (whole || args.profile.is_some()) && !asks_for_ranks(args)) {
        return Err(Failure::usage(format!(
            "--seeds, --hold-out, --cold and --profile are for one process, and {} say that this one is rank {} of {}: unset them.",
            place.launcher.variables(),
            place.rank,
            place.world
        )));
    }
    if !matches!(role, Role::Alone) && (whole || args.profile.is_some()) {
        return Err(Failure::usage(
            format!(
                "{} --seeds, --hold-out, --cold and --profile are for one rank: leave out --gpus and --ranks, or them.",
                if args.recipe == SPEEDRUN {
                    "cifar10-speedrun trains at once unless --checkpoint or --out is said."
                } else {
                    ""
                }
            )
            .trim_start(),
        ));
    }
    match role {
        Role::Alone if args.cold.is_some() && args.cold_result.is_none() => train_cold(args),
        Role::Alone if at_once::is_asked(args) => train_at_once(args),
        Role::Alone => train_watched(args, choice(args)?, None),
        Role::Launcher(count) => ranks::launch(count, args.together.gpus.is_some()),
        Role::Rank(placement) => {
            let choice = ranks::device(&placement, &args.together, args.place.device.choice()?)?;
            ranks::work(&placement, &args.together, |ranks| train_watched(args, choice, Some(ranks)))
        }
    }
}

/// Reports whether the command line itself asks for several ranks.
fn asks_for_ranks(args: &TrainArgs) -> bool {
    args.together.gpus.is_some() || args.together.ranks.is_some()
}

/// The device of a process that trains alone.
fn choice(args: &TrainArgs) -> Result<Choice, Failure> {
    Ok(ranks::device_alone(&args.together, args.place.device.choice()?))
}

/// Trains, alone or as one of several ranks, of which rank 0 speaks and writes for all.
fn train_watched(args: &TrainArgs, choice: Choice, ranks: Option<&Ranks>) -> Result<ExitCode, Failure> {
    let is_first = ranks.is_none_or(|ranks| ranks.rank() == 0);
    if let (Some(data), Some(_)) = (args.from.data.as_ref().filter(|data| data.to_str().is_none()), &args.checkpoint) {
        return Err(Failure::usage(format!(
            "--data {}: this name is not valid UTF-8, so the checkpoint cannot say where its images are. Rename the folder, or leave out --checkpoint.",
            data.display()
        )));
    }
    let mut files = inputs(args);
    if let (Some(path), true) = (&args.checkpoint, is_first) {
        files.claim("--checkpoint", path, Kind::Checkpoint)?;
    }
    if let Some(path) = &args.resume {
        files.reads("--resume", path);
    }
    // Of several processes it is the record of all.
    let out = args.out.as_deref().filter(|_| is_first && args.cold.is_none());
    let out = files.optional("--out", out, Kind::Record)?;
    let profiled = files.profile(args.profile.as_deref())?;
    let mut lab = Lab::on(choice)?;
    if let Some(author) = &args.author {
        lab = lab.with_author(author);
    }
    let Planned { recipe, data, by, images } = planned(args)?;
    let weights = args.init.as_deref().map(|path| Weights::load(&recipe.network, path)).transpose();
    if let (Some(id), None) = (&args.rung, lab.device().cuda()) {
        return Err(Failure::usage(format!("--rung {id} trains on a GPU; choose --device cuda:0.")));
    }
    let said = ComputedBy { product: args.product, convolution: args.convolution };
    said.check(lab.device().cuda().is_some())?;
    let mut session = lab
        .train(recipe, data.sets())
        .precision(args.place.precision)
        .loader(loader(args)?)
        .log_every(args.log_every)
        .command(args.command(&lab.device().info().selector()));
    if let Some(id) = &args.rung {
        session = session.rung(id)?;
    }
    if lab.device().cuda().is_some() {
        session = session.change(|options| said.or(by).of(options));
    }
    if let Some(weights) = weights.map_err(|e| Failure::usage(e.to_string()))? {
        session = session.weights(weights);
    }
    if let Some(path) = &args.resume {
        session = session.resume(path);
    }
    if let Some(images) = images {
        session = session.trained_on(images);
    }
    if let Some(path) = &args.checkpoint {
        session = session.checkpoint(path);
    }
    if let Some(path) = &out {
        session = session.out(path);
    }
    if let Some(budget) = args.time_budget {
        session = session.time_budget(budget);
    }
    if let Some(ranks) = ranks {
        session = session.ranks(ranks);
    }
    let underway = session.start()?;
    if is_first {
        introduce(&underway, &data);
    }
    let stopped = interrupt_flag();
    let classified = underway.is_classified();
    let heard = |event: &Event| {
        if let Some(line) = training_line(event, classified).filter(|_| is_first) {
            if matches!(event, Event::NotKept { .. }) { complain(&line) } else { say(&line) }
        }
        if stopped.load(Ordering::Relaxed) { Flow::Stop } else { Flow::Continue }
    };
    let (mut run, unprofiled) = match &profiled {
        Some(path) => profile(&lab, underway, &heard, (args, path))?,
        None => (underway.finish(&mut |event| heard(event)), None),
    };
    if let Some(file) = &args.cold_result {
        cold::leave_watched(args, &lab, data.sets(), &mut run, file)?;
    }
    let interrupted = stopped.load(Ordering::Relaxed);
    if is_first {
        return conclude(run, args, (interrupted, unprofiled));
    }
    run.into_parts()
        .2
        .map_or(Ok(ExitCode::from(if interrupted { INTERRUPTED } else { 0 })), |error| Err(failure(error)))
}

/// Trains, and writes what was done in some steps; gives why that could not be written, too.
fn profile(
    lab: &Lab,
    underway: Underway<'_>,
    heard: &dyn Fn(&Event) -> Flow,
    (args, path): (&TrainArgs, &Path),
) -> Result<(TrainingRun, Option<String>), Failure> {
    let schedule = args.profile_schedule;
    let listener = &mut |event: &Event| heard(event);
    let (run, profile) = match args.counters {
        true => underway.finish_with_counters(schedule.steps(), listener)?,
        false => underway.finish_with_profile(schedule.steps(), listener)?,
    };
    if profile.cycles.iter().all(|c| (c.steps.len() as u64) < schedule.active()) {
        complain(&format!(
            "There is no profile: it takes a training of {}. Choose more --steps, a smaller --batch or a shorter --profile-schedule.",
            figures::counted(schedule.needed() as usize, "step")
        ));
        return Ok((run, None));
    }
    say(&profile.text());
    let trace = trace_of(path);
    let written = Keeper::new(path.to_owned()).finish(&profile.record(lab));
    let written = written.and_then(|_| profile.cycles[0].save_trace(&trace).map_err(|why| why.to_string()));
    if written.is_ok() {
        say(&format!("Profile: {}, and as a trace for ui.perfetto.dev {}", path.display(), trace.display()));
    }
    Ok((run, written.err()))
}

/// The files that a training reads, except the checkpoint that it resumes.
fn inputs(args: &TrainArgs) -> Files {
    let mut files = Files::reading("the recipe", recipe_file(&args.recipe));
    args.init.iter().for_each(|path| files.reads("--init", path));
    let kernel = args.product.and_then(ProductBy::kernel).and_then(OwnProduct::file);
    kernel.iter().for_each(|path| files.reads("--product", path));
    files
}

/// The file for the record of whole trainings, which their first process writes.
fn record_of_all(args: &TrainArgs) -> Result<Option<Keeper>, Failure> {
    let out = args.out.as_deref().filter(|_| args.cold_result.is_none());
    Ok(inputs(args).optional("--out", out, Kind::Record)?.map(Keeper::new))
}

/// Trains without a word in between, once for each seed.
fn train_at_once(args: &TrainArgs) -> Result<ExitCode, Failure> {
    let out = record_of_all(args)?;
    let Planned { recipe, data, by, .. } = planned(args)?;
    let Data::Images(splits) = &data else {
        return Err(Failure::usage(format!("--seeds and --hold-out are for images; {AMP_RECIPE} has none.")));
    };
    let said = ComputedBy { product: args.product, convolution: args.convolution };
    let mut lab = Lab::on(choice(args)?)?;
    if let Some(author) = &args.author {
        lab = lab.with_author(author);
    }
    let place = match Place::new(lab.device(), args.place.precision).map_err(failure)? {
        Place::Cuda(device, options) => {
            Place::Cuda(device, said.or(by).of(CudaOptions { loader: loader(args)?, ..options }))
        }
        Place::Cpu => {
            said.check(false)?;
            Place::Cpu
        }
    };
    say(&splits.train.note());
    at_once::train(args, &lab, &place, (&recipe, splits), out)
}

/// Trains in whole processes, once for each seed.
fn train_cold(args: &TrainArgs) -> Result<ExitCode, Failure> {
    cold::validate(args)?;
    let out = record_of_all(args)?;
    let Planned { recipe, data, .. } = planned(args)?;
    let Data::Images(splits) = &data else {
        return Err(Failure::usage(format!("--cold is for images; {AMP_RECIPE} has none.")));
    };
    say(&splits.train.note());
    cold::launch(args, recipe.seed, out)
}

/// Says what a training came to, and where it is kept.
fn conclude(
    run: TrainingRun,
    args: &TrainArgs,
    (interrupted, unprofiled): (bool, Option<String>),
) -> Result<ExitCode, Failure> {
    if let Some(course) = run.log().course.as_ref().filter(|c| c.skipped_total > 0) {
        say(&format!("{} of {} steps skipped: a gradient had overflowed", course.skipped_total, course.made()));
    }
    if run.ended() == Some(Ended::OutOfTime) {
        say("the time budget is used up");
    }
    if let Some(course) = &run.log().course {
        let bytes = |bytes: Option<u64>, what: &str| bytes.map(|b| format!(", {} {what}", figures::bytes(b)));
        say(&format!(
            "{:.1} s in all{}{}",
            course.total_s,
            bytes(course.peak_allocated_bytes, "allocated").unwrap_or_default(),
            bytes(course.peak_reserved_bytes, "reserved").unwrap_or_default(),
        ));
    }
    let unwritten = match run.written() {
        None => None,
        Some(Ok(path)) => {
            let path = path.display();
            say(&format!("Record: {path}\nView it with: warpbook view {path}"));
            None
        }
        Some(Err(_)) => args.out.as_ref().and_then(|path| Keeper::new(path.clone()).finish(run.record()).err()),
    };
    unwritten.iter().chain(&unprofiled).for_each(|why| complain(why));
    let (_, trainer, error) = run.into_parts();
    if let Some(error) = error {
        // The checkpoint has what was kept before.
        return Err(failure(error));
    }
    if let Some(kept) = trainer.kept_in() {
        say(&format!("step {} is kept in {}", trainer.step(), kept.display()));
    }
    let elsewhere = trainer.kept_in() != args.checkpoint.as_deref();
    if let (Some(path), true) = (&args.checkpoint, elsewhere) {
        complain(&kept_elsewhere(path, trainer.kept_in()));
    }
    Ok(ExitCode::from(match () {
        () if interrupted => INTERRUPTED,
        () if unwritten.is_some() || unprofiled.is_some() || elsewhere => USAGE,
        () => 0,
    }))
}

/// Says where the newest checkpoint is, if it is not in its own file.
fn kept_elsewhere(path: &Path, kept: Option<&Path>) -> String {
    let shown = path.display();
    match kept.map(Path::display) {
        Some(kept) if path.is_file() => {
            format!("{shown} still holds an earlier checkpoint; the newest one is in {kept}.")
        }
        Some(kept) => format!("{shown} could not be written; the checkpoint is in {kept}."),
        None => format!("No checkpoint was written to {shown}."),
    }
}

/// The loss and the accuracy of weights, or of a frozen network, over the test images.
pub fn eval(args: &EvalArgs) -> Result<ExitCode, Failure> {
    let data = args.from.data.as_deref();
    match &args.weights {
        None if Frozen::is_in(&args.recipe) => infer::evaluate(Path::new(&args.recipe), args)?,
        None => {
            let known = TrainedWeights::alone(&args.recipe, "eval", data)?;
            evaluate_checkpoint(args, Path::new(&args.recipe), known)?;
        }
        Some(file) if Frozen::is_in(file) => {
            infer::ensure_recipe(file, &args.recipe)?;
            infer::evaluate(file, args)?;
        }
        Some(file) => evaluate_checkpoint(args, file, TrainedWeights::with_recipe(&args.recipe, file, data)?)?,
    };
    Ok(ExitCode::SUCCESS)
}

fn evaluate_checkpoint(args: &EvalArgs, file: &Path, known: TrainedWeights) -> Result<(), Failure> {
    if args.usage.repeat.is_some() {
        return Err(Failure::usage(format!(
            "--repeat times a frozen network: make one with warpbook freeze {} --out FILE.",
            file.display()
        )));
    }
    let test = known.test()?;
    let place = known.by.at(args.usage.place.place()?);
    let mut trainer = Trainer::on(&place, known.recipe, &test, Some(&known.weights)).map_err(failure)?;
    let score = trainer.evaluate(&test).and_then(Score::finite).map_err(failure)?;
    say(&format!("{}\n{}, on {}", test.note(), words(&score), trainer.place()));
    Ok(())
}

fn loader(args: &TrainArgs) -> Result<Loader, Failure> {
    let wrong = |name: &str, value: &str, allowed: &str| {
        Err(Failure::usage(format!("--{name} {value}: choose from {allowed}.")))
    };
    let resident = match args.resident.as_str() {
        "auto" => Residency::Auto,
        "on" => Residency::On,
        "off" => Residency::Off,
        other => return wrong("resident", other, "auto, on and off"),
    };
    let pinned = match args.pin.as_str() {
        "on" => true,
        "off" => false,
        other => return wrong("pin", other, "on and off"),
    };
    if args.workers > 1024 {
        return wrong("workers", &args.workers.to_string(), "0 to 1024");
    }
    Ok(Loader { resident, workers: args.workers, pinned })
}

/// What is trained on, and judged by.
enum Data {
    Images(Splits),
    /// Random numbers.
    Rows {
        train: Rows,
        test: Rows,
    },
}

impl Data {
    fn sets(&self) -> Sets<'_> {
        match self {
            Self::Images(splits) => splits.into(),
            Self::Rows { train, test } => (train, test).into(),
        }
    }
}

/// A larger layer would have more than 2^31 weights.
const MOST_EDGE: usize = 46_340;
/// Batches of an epoch of random numbers.
const RANDOM_BATCHES: usize = 50;

/// What the command line asks for.
struct Planned {
    recipe: Recipe,
    data: Data,
    by: ComputedBy,
    /// Where the images come from.
    images: Option<Source>,
}

fn planned(args: &TrainArgs) -> Result<Planned, Failure> {
    if args.recipe == AMP_RECIPE {
        if args.from.data.is_some() {
            return Err(Failure::usage(format!("{AMP_RECIPE} is trained on random numbers: leave out --data.")));
        }
        let edge = args.edge.unwrap_or(4096);
        if !(1..=MOST_EDGE).contains(&edge) {
            return Err(Failure::usage(format!("--edge {edge}: choose from 1 to {MOST_EDGE}.")));
        }
        let recipe = configured(Recipe { network: amp_recipe(edge), ..Recipe::amp_recipe() }, args)?;
        let all = RANDOM_BATCHES + 1;
        let bytes = |batch: usize| [all, batch, 2 * edge, 4].into_iter().fold(1, usize::saturating_mul) as u64;
        ensure_host_memory(recipe.batch, bytes).map_err(|why| {
            Failure::usage(format!("{why} All {all} batches are kept in memory: choose a smaller --edge or --batch."))
        })?;
        let rows = |batches: usize, seed| Rows::gaussian(batches * recipe.batch, [edge; 2], seed);
        let data = Data::Rows { train: rows(RANDOM_BATCHES, recipe.seed), test: rows(1, recipe.seed ^ 1 << 63) };
        return Ok(Planned { recipe, data, by: ComputedBy::default(), images: None });
    }
    if args.edge.is_some() {
        return Err(Failure::usage(format!("--edge is a setting of {AMP_RECIPE}; {} has none.", args.recipe)));
    }
    let plan = Plan::find(&args.recipe)?;
    let opened = plan.open(args.from.data.as_deref())?;
    ensure_an_output_each(&plan.recipe, &opened, &args.recipe)?;
    let Opened { splits, images } = opened;
    let recipe = configured(plan.recipe, args)?;
    Ok(Planned { recipe, data: Data::Images(splits), by: plan.by, images: Some(images.source()) })
}

/// An error unless the network of a recipe's file has an output for each class of a folder, which is not known before the folder is read.
fn ensure_an_output_each(recipe: &Recipe, opened: &Opened, file: &str) -> Result<(), Failure> {
    let (outputs, classes) = (recipe.network.output(), opened.splits.train.classes().len());
    match &opened.images {
        Images::Folder(folder) if outputs != classes.into() => Err(Failure::usage(format!(
            "{file}: `network` ends with {outputs} outputs, and {} has {classes} classes: end it with \"linear {classes}\".",
            folder.display()
        ))),
        _ => Ok(()),
    }
}

/// The recipe with what the command line says otherwise.
fn configured(mut recipe: Recipe, args: &TrainArgs) -> Result<Recipe, Failure> {
    recipe.batch = args.batch.unwrap_or(recipe.batch);
    recipe.accumulate = args.accumulate.unwrap_or(recipe.accumulate);
    // Of no samples at all the recipe says what is wrong.
    if args.accumulate.is_some() && recipe.batch > 0 && !(1..=recipe.batch).contains(&recipe.accumulate) {
        let (parts, batch) = (recipe.accumulate, recipe.batch);
        return Err(Failure::usage(format!(
            "--accumulate: a batch of {batch} cannot be made in {parts} parts: choose from 1 to {batch}."
        )));
    }
    recipe.epochs = args.epochs.unwrap_or(recipe.epochs);
    recipe.steps = args.steps.or(recipe.steps);
    recipe.seed = args.cold_seed.or(args.seed).unwrap_or(recipe.seed);
    recipe.learning_rate = args.lr.unwrap_or(recipe.learning_rate);
    recipe.clip = args.clip.or(recipe.clip);
    recipe.views = args.views.unwrap_or(recipe.views);
    recipe.shuffle &= !args.no_shuffle;
    recipe.augmentation = recipe.augmentation.filter(|_| !args.no_augment);
    if let Some(segments) = args.segments {
        let usage = |why| Failure::usage(format!("--segments: {why}"));
        recipe.network = recipe.network.checkpointed(segments).map_err(usage)?;
    }
    Ok(if args.no_dropout { recipe.without_dropout() } else { recipe })
}

fn introduce(underway: &Underway<'_>, data: &Data) {
    let (trainer, samples) = (underway.trainer(), data.sets().train.len());
    let recipe = trainer.recipe();
    say(&underway.data_note());
    let (steps, made) = (recipe.total_steps(samples), trainer.step());
    say(&format!(
        "{} in batches of {}{}, {} parameters, {} on {}",
        figures::counted(samples, "sample"),
        recipe.batch.min(samples),
        if recipe.accumulate > 1 { format!(" in {} parts", recipe.accumulate) } else { String::new() },
        recipe.network.parameter_count(),
        figures::counted(steps as usize, "step"),
        trainer.place()
    ));
    if trainer.ranks().is_some() {
        say(&ranks_line(trainer));
    }
    match made {
        0 => {}
        made if made >= steps => say(&format!(
            "the checkpoint is of step {made}, so that nothing is left to train: ask for more with --epochs or --steps"
        )),
        made => say(&format!("goes on after step {made}")),
    }
    if let Some(what) = trainer.not_compared() {
        complain(what);
    }
}

/// Set by Ctrl-C, of which a second one ends the program at once, and by SIGTERM and SIGHUP.
fn interrupt_flag() -> Arc<AtomicBool> {
    let flag = Arc::new(AtomicBool::new(false));
    let handler = {
        let flag = flag.clone();
        move |asked| match (flag.swap(true, Ordering::Relaxed), asked) {
            (true, Asked::ByHand) => exit_now(INTERRUPTED),
            (true, Asked::BySystem) => {}
            (false, Asked::ByHand) => {
                complain("Ends after the steps under way; Ctrl-C again ends at once, with what was kept before.");
            }
            (false, Asked::BySystem) => complain("The training was asked to end: it ends after the steps under way."),
        }
    };
    on_request_to_end("Ctrl-C ends at once, without a checkpoint", handler);
    flag
}

/// As "test loss 0.0312, accuracy 99.10 % (9910 of 10000)".
pub fn words(score: &Score) -> String {
    let percent = 100.0 * score.accuracy();
    format!("test loss {:.4}, accuracy {percent:.2} % ({} of {})", score.loss, score.correct, score.of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_that_is_elsewhere_is_told_with_what_its_own_file_holds() {
        let folder = tempfile::tempdir().unwrap();
        let (own, other) = (folder.path().join("c.st"), Path::new("/tmp/1-c.st"));
        assert!(
            kept_elsewhere(&own, Some(other)).ends_with("c.st could not be written; the checkpoint is in /tmp/1-c.st.")
        );
        std::fs::write(&own, "the first epoch").unwrap();
        let told = kept_elsewhere(&own, Some(other));
        assert!(told.ends_with("c.st still holds an earlier checkpoint; the newest one is in /tmp/1-c.st."), "{told}");
        assert!(kept_elsewhere(&own, None).starts_with("No checkpoint was written to "));
    }
}
