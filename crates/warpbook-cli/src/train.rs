//! `warpbook train` and `warpbook eval`.

use crate::args::{EvalArgs, TrainArgs};
use crate::failure::{Failure, INTERRUPTED};
use crate::infer::{self, failure};
use crate::output::{complain, say};
use crate::recipe::{AMP_RECIPE, Plan};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use warpbook::figures;
use warpbook::nn::data::{Rows, Splits};
use warpbook::nn::infer::Frozen;
use warpbook::nn::network::amp_recipe;
use warpbook::nn::train::{
    CudaOptions, Event, Flow, Loader, Place, Recipe, Residency, Samples, Score, TrainError, Trainer, ways,
};
use warpbook::nn::weights::Weights;

/// Trains, and keeps a checkpoint after every epoch.
pub fn train(args: &TrainArgs) -> Result<ExitCode, Failure> {
    let place = match (args.place.place()?, &args.rung) {
        (Place::Cuda(device, options), None) => Place::Cuda(device, CudaOptions { loader: loader(args)?, ..options }),
        (Place::Cuda(device, _), Some(id)) => {
            Place::Cuda(device, CudaOptions { loader: loader(args)?, ..options_of_rung(id)? })
        }
        (Place::Cpu, Some(id)) => {
            return Err(Failure::usage(format!("--rung {id} trains on a GPU; choose --device cuda:0.")));
        }
        (Place::Cpu, None) => Place::Cpu,
    };
    let (recipe, data) = planned(args)?;
    let weights = args.init.as_deref().map(|path| Weights::load(&recipe.network, path)).transpose();
    let weights = weights.map_err(|e| Failure::usage(e.to_string()))?;
    let mut trainer = Trainer::on(&place, recipe, data.train(), weights.as_ref()).map_err(failure)?;
    if let Some(path) = &args.resume {
        trainer.resume(path).map_err(failure)?;
    }
    introduce(&trainer, &data);
    let stopped = interrupt_flag();
    let started = Instant::now();
    let done = run(&mut trainer, &data, args, &stopped);
    // After an error the file keeps what the last whole epoch left.
    done.map_err(failure)?;
    if let Some(path) = &args.checkpoint {
        trainer.save(path).map_err(failure)?;
        say(&format!("step {} is kept in {}", trainer.step(), path.display()));
    }
    let seconds = started.elapsed().as_secs_f64();
    say(&format!("{seconds:.1} s in all, {} allocated", figures::bytes(trainer.bytes())));
    Ok(ExitCode::from(if stopped.load(Ordering::Relaxed) { INTERRUPTED } else { 0 }))
}

/// The loss and the accuracy of weights, or of a frozen network, over the test images.
pub fn eval(args: &EvalArgs) -> Result<ExitCode, Failure> {
    match &args.weights {
        None if matches!(args.recipe.as_str(), "mnist" | "cifar10") || args.recipe.ends_with(".toml") => {
            return Err(Failure::usage(format!(
                "Name the checkpoint, too: warpbook eval {} FILE. A frozen network is named alone.",
                args.recipe
            )));
        }
        None => infer::evaluate(Path::new(&args.recipe), args)?,
        Some(file) if Frozen::is_in(file) => infer::evaluate(file, args)?,
        Some(file) => evaluate_checkpoint(args, file)?,
    };
    Ok(ExitCode::SUCCESS)
}

fn evaluate_checkpoint(args: &EvalArgs, file: &Path) -> Result<(), Failure> {
    if args.usage.repeat.is_some() {
        return Err(Failure::usage(format!(
            "--repeat times a frozen network: make one with warpbook freeze {} {} --out FILE.",
            args.recipe,
            file.display()
        )));
    }
    let plan = Plan::find(&args.recipe)?;
    let test = plan.open(args.from.data.as_deref())?.test;
    let weights = Weights::load(&plan.recipe.network, file).map_err(|e| Failure::usage(e.to_string()))?;
    let mut trainer = Trainer::on(&args.usage.place.place()?, plan.recipe, &test, Some(&weights)).map_err(failure)?;
    let score = trainer.evaluate(&test).map_err(failure)?;
    say(&format!("{}\n{}, on {}", test.note(), words(&score), trainer.place()));
    Ok(())
}

fn options_of_rung(id: &str) -> Result<CudaOptions, Failure> {
    let all = ways();
    all.iter().find(|w| w.id == id).map(|w| w.options).ok_or_else(|| {
        let ids: Vec<&str> = all.iter().map(|w| w.id).collect();
        Failure::usage(format!("`{id}` is no rung of training; choose from {}.", ids.join(", ")))
    })
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
    fn train(&self) -> Samples<'_> {
        match self {
            Self::Images(splits) => (&splits.train).into(),
            Self::Rows { train, .. } => train.into(),
        }
    }

    fn test(&self) -> Samples<'_> {
        match self {
            Self::Images(splits) => (&splits.test).into(),
            Self::Rows { test, .. } => test.into(),
        }
    }

    fn note(&self) -> String {
        match self {
            Self::Images(splits) => splits.train.note(),
            Self::Rows { train, .. } => format!("{train:?}, Gaussian"),
        }
    }
}

/// Batches of an epoch of random numbers.
const RANDOM_BATCHES: usize = 50;

fn planned(args: &TrainArgs) -> Result<(Recipe, Data), Failure> {
    if args.recipe == AMP_RECIPE {
        let edge = args.edge.unwrap_or(4096);
        if !(1..=1 << 16).contains(&edge) {
            return Err(Failure::usage(format!("--edge {edge}: choose from 1 to 65536.")));
        }
        let recipe = Recipe { network: amp_recipe(edge), ..configured(Recipe::amp_recipe(), args) };
        let rows = |batches: usize, seed| Rows::gaussian(batches * recipe.batch, [edge; 2], seed);
        let data = Data::Rows { train: rows(RANDOM_BATCHES, recipe.seed), test: rows(1, recipe.seed ^ 1 << 63) };
        return Ok((recipe, data));
    }
    if args.edge.is_some() {
        return Err(Failure::usage(format!("--edge is a setting of {AMP_RECIPE}; {} has none.", args.recipe)));
    }
    let plan = Plan::find(&args.recipe)?;
    let data = plan.open(args.from.data.as_deref())?;
    Ok((configured(plan.recipe, args), Data::Images(data)))
}

/// The recipe with what the command line says otherwise.
fn configured(mut recipe: Recipe, args: &TrainArgs) -> Recipe {
    recipe.batch = args.batch.unwrap_or(recipe.batch);
    recipe.epochs = args.epochs.unwrap_or(recipe.epochs);
    recipe.steps = args.steps.or(recipe.steps);
    recipe.seed = args.seed.unwrap_or(recipe.seed);
    recipe.learning_rate = args.lr.unwrap_or(recipe.learning_rate);
    recipe.shuffle &= !args.no_shuffle;
    recipe.augmentation = recipe.augmentation.filter(|_| !args.no_augment);
    if args.no_dropout { recipe.without_dropout() } else { recipe }
}

fn introduce(trainer: &Trainer, data: &Data) {
    let (recipe, samples) = (trainer.recipe(), data.train().len());
    say(&data.note());
    say(&format!(
        "{samples} samples in batches of {}, {} parameters, {} steps on {}",
        recipe.batch,
        recipe.network.parameter_count(),
        recipe.total_steps(samples),
        trainer.place()
    ));
}

/// Set by Ctrl-C; a second one ends the program at once.
fn interrupt_flag() -> Arc<AtomicBool> {
    let flag = Arc::new(AtomicBool::new(false));
    let handler = {
        let flag = flag.clone();
        move || {
            if flag.swap(true, Ordering::Relaxed) {
                std::process::exit(INTERRUPTED.into());
            }
            complain("Ends after this step; Ctrl-C again ends at once, without a checkpoint.");
        }
    };
    if let Err(why) = ctrlc::set_handler(handler) {
        complain(&format!("Ctrl-C ends at once, without a checkpoint: {why}"));
    }
    flag
}

fn run(trainer: &mut Trainer, data: &Data, args: &TrainArgs, stopped: &AtomicBool) -> Result<(), TrainError> {
    let is_classified = matches!(data, Data::Images(_));
    let show = |event: Event| match event {
        Event::Batches { epoch, batch, loss, learning_rate, step } => {
            say(&format!(
                "epoch {epoch}, batch {batch}, step {step}: loss {loss:.4}, learning rate {learning_rate:.3e}"
            ));
        }
        Event::Epoch { epoch, seconds, test, .. } if is_classified => {
            say(&format!("epoch {epoch}: {seconds:.2} s; {}", words(&test)));
        }
        Event::Epoch { epoch, seconds, test, .. } => {
            say(&format!("epoch {epoch}: {seconds:.3} s; test loss {:.4}", test.loss));
        }
        _ => {}
    };
    // In turns of an epoch, so that a checkpoint can be written between them; the last is written by the caller.
    let (train, test) = (data.train(), data.test());
    let total = trainer.recipe().total_steps(train.len());
    let per_epoch = train.len().div_ceil(trainer.recipe().batch) as u64;
    while trainer.step() < total && !stopped.load(Ordering::Relaxed) {
        let end = (trainer.step() / per_epoch + 1) * per_epoch;
        trainer.train_until(end, train, test, args.log_every, &mut |event| {
            show(event);
            if stopped.load(Ordering::Relaxed) { Flow::Stop } else { Flow::Continue }
        })?;
        if let Some(path) =
            args.checkpoint.as_ref().filter(|_| trainer.step() < total && !stopped.load(Ordering::Relaxed))
        {
            trainer.save(path)?;
        }
    }
    Ok(())
}

/// As "test loss 0.0312, accuracy 99.10 % (9910 of 10000)".
pub fn words(score: &Score) -> String {
    let percent = 100.0 * score.accuracy();
    format!("test loss {:.4}, accuracy {percent:.2} % ({} of {})", score.loss, score.correct, score.of)
}
