//! A training in words: its recipe, its samples, and the lines of its progress.

use crate::figures;
use warpbook_nn::data::{Dataset, Origin};
use warpbook_nn::network::Layer;
use warpbook_nn::ops::optimizer::Optimizer;
use warpbook_nn::ops::schedule::Schedule;
use warpbook_nn::train::{Event, Loss, Place, Recipe, Samples, Score, Trainer};
use warpbook_ranks::Wire;
use warpbook_record::{Dtype, Problem, count, setting};

/// The recipe: names, each with what it is.
pub(super) fn recipe(recipe: &Recipe, place: &str) -> Vec<(String, String)> {
    let plain = figures::plain;
    let mut words = vec![
        ("recipe", recipe.name.clone()),
        ("device", place.to_owned()),
        ("network", network(recipe)),
        ("parameters", recipe.network.parameter_count().to_string()),
        ("loss", loss(recipe.loss)),
        ("optimiser", optimizer(&recipe.optimizer)),
        ("learning rate", learning_rate(recipe)),
        ("gradient clipping", recipe.clip.map_or("none".into(), |most| format!("to a norm of {}", plain(most)))),
        (
            "batch",
            match recipe.accumulate {
                1 => recipe.batch.to_string(),
                parts => format!("{} in {parts} parts, whose gradients are added up", recipe.batch),
            },
        ),
        ("epochs", recipe.epochs.to_string()),
    ];
    words.extend(recipe.steps.map(|steps| ("steps", format!("at most {steps}"))));
    if !recipe.mean.is_empty() {
        let list = |values: &[f32]| {
            let words: Vec<String> = values.iter().map(|v| figures::number(f64::from(*v))).collect();
            words.join(", ")
        };
        words.push(("pixels", format!("less {}, over {}", list(&recipe.mean), list(&recipe.deviation))));
        let augmentation = recipe.augmentation.map_or("none".into(), |a| match (a.crop, a.flip) {
            (0, false) => "none".to_owned(),
            (0, true) => "half of the images mirrored".into(),
            (crop, flip) => {
                let flip = if flip { ", half of them mirrored" } else { "" };
                format!("cropped at random from a border of {crop} pixels{flip}")
            }
        });
        words.push(("augmentation", augmentation));
    }
    words.push(("order", if recipe.shuffle { "shuffled every epoch".into() } else { "as the samples are".into() }));
    words.push(("seed", recipe.seed.to_string()));
    words.into_iter().map(|(name, what)| (name.to_owned(), what)).collect()
}

/// How several ranks train: "4 ranks with 32 samples of a batch each; gradients in fp32, in 2 buckets: 1.0 MiB, 12 KiB". Empty of one alone.
pub fn ranks(trainer: &Trainer) -> String {
    let Some(ranks) = trainer.ranks() else { return String::new() };
    let options = ranks.options();
    let types = match (trainer.place(), options.wire) {
        (Place::Cuda(..), _) => "in the types that they are kept in",
        (Place::Cpu, Wire::F32) => "in fp32",
        (Place::Cpu, Wire::F16) => "in fp16",
        (Place::Cpu, Wire::Bf16) => "in bf16",
    };
    let buckets = trainer.buckets();
    let sizes: Vec<String> = buckets.iter().take(8).map(|bytes| figures::bytes(*bytes)).collect();
    let more = if buckets.len() > sizes.len() { ", ..." } else { "" };
    let norm = if options.synchronised_norm { "; batch normalisation synchronised" } else { "" };
    let plural = if buckets.len() == 1 { "" } else { "s" };
    format!(
        "{} ranks with {} samples of a batch each; gradients {types}, in {} bucket{plural}: {}{more}{norm}",
        ranks.world(),
        trainer.recipe().batch.div_ceil(ranks.world()),
        buckets.len(),
        sizes.join(", "),
    )
}

fn network(recipe: &Recipe) -> String {
    let layers: Vec<String> = recipe.network.layers().iter().map(Layer::to_string).collect();
    format!("{}: {}", recipe.network.input(), layers.join("; "))
}

fn loss(loss: Loss) -> String {
    match loss {
        Loss::CrossEntropy { smoothing: 0.0 } => "cross entropy".into(),
        Loss::CrossEntropy { smoothing } => {
            format!("cross entropy, label smoothing {}", figures::short(f64::from(smoothing)))
        }
        Loss::Mse => "mean squared error".into(),
    }
}

fn optimizer(optimizer: &Optimizer) -> String {
    let plain = figures::plain;
    let decay = |d: f64| if d == 0.0 { String::new() } else { format!(", weight decay {}", plain(d)) };
    let adam = |name: &str, [a, b]: [f64; 2], epsilon: f64, d: f64| {
        format!("{name}, betas {} and {}, epsilon {}{}", plain(a), plain(b), plain(epsilon), decay(d))
    };
    match *optimizer {
        Optimizer::Sgd { momentum, nesterov, weight_decay } => {
            let momentum = match (momentum, nesterov) {
                (0.0, _) => String::new(),
                (m, true) => format!(", Nesterov momentum {}", plain(m)),
                (m, false) => format!(", momentum {}", plain(m)),
            };
            format!("SGD{momentum}{}", decay(weight_decay))
        }
        Optimizer::Adam { betas, epsilon, weight_decay } => adam("Adam", betas, epsilon, weight_decay),
        Optimizer::AdamW { betas, epsilon, weight_decay } => adam("AdamW", betas, epsilon, weight_decay),
    }
}

fn learning_rate(recipe: &Recipe) -> String {
    let plain = figures::plain;
    let rate = plain(recipe.learning_rate);
    let (time, times) = if recipe.schedule_by_step { ("step", "steps") } else { ("epoch", "epochs") };
    match recipe.schedule {
        Schedule::Constant => rate,
        Schedule::Step { every: 1, gamma } => format!("{rate}, times {} every {time}", plain(gamma)),
        Schedule::Step { every, gamma } => format!("{rate}, times {} every {every} {times}", plain(gamma)),
        Schedule::Cosine { period, minimum } => {
            format!("{rate}, half a cosine down to {} in {period} {times}", plain(minimum))
        }
        Schedule::Linear { total, end } => {
            format!("{rate}, down to {} in {total} {times}", plain(recipe.learning_rate * end))
        }
        Schedule::OneCycle { total, rise, start_divisor, end_divisor } => format!(
            "one cycle over {total} {times}: from {} up to {rate} in {} of them, then down to {}",
            figures::number(recipe.learning_rate / start_divisor),
            figures::percent(rise),
            figures::number(recipe.learning_rate / start_divisor / end_divisor)
        ),
    }
}

/// Where samples come from in a few words, as "MNIST" or "synthetic digits".
pub(super) fn data_label(samples: Samples<'_>) -> String {
    let of = |set: &Dataset| match set.origin() {
        Origin::Modified { .. } => format!("{}, not the original files", set.name()),
        Origin::Noted { what } => format!("{}, {what}", set.name()),
        _ => set.name().to_owned(),
    };
    match samples {
        Samples::Images(set) => of(set),
        Samples::Rows(rows) if rows.seed().is_some() => "Gaussian numbers".into(),
        Samples::Rows(_) => "own numbers".into(),
    }
}

/// What the samples are, as a sentence without its full stop.
pub(super) fn data_note(samples: Samples<'_>) -> String {
    match samples {
        Samples::Images(set) => set.note(),
        Samples::Rows(rows) => match rows.seed() {
            Some(seed) => format!("{rows:?}, Gaussian: drawn by a program (seed {seed})"),
            None => format!("{rows:?}: own data"),
        },
    }
}

/// The remark that results with samples other than the published ones need.
pub(super) fn data_warning(samples: Samples<'_>) -> Option<String> {
    let Samples::Images(set) = samples else { return None };
    match set.origin() {
        Origin::Synthetic { .. } => Some(format!("Trained and tested on synthetic images: {}.", set.note())),
        Origin::Modified { .. } | Origin::Noted { .. } => {
            Some(format!("Trained on files that are not the originals: {}.", set.note()))
        }
        Origin::Original | Origin::Own => None,
    }
}

/// The whole training as a problem.
pub(super) fn problem(recipe: &Recipe, train: Samples<'_>) -> Problem {
    let label = format!("{}, batch {}, {}", recipe.name, recipe.batch, data_label(train));
    let steps = recipe.total_steps(train.len());
    let sizes = vec![
        setting("network", recipe.name.as_str()),
        count("samples", train.len() as u64, "samples"),
        count("batch", recipe.batch as u64, "samples"),
        count("steps", steps, ""),
        // Charts say a "learning_rate" as that of the whole training.
        setting(if recipe.schedule == Schedule::Constant { "learning_rate" } else { "rate" }, recipe.learning_rate),
        setting("seed", recipe.seed),
    ];
    Problem::new(label, format!("{} {}", recipe.name, recipe.batch), sizes, Dtype::F32).with(|p| {
        let items = steps.saturating_mul(recipe.batch as u64);
        p.flops = recipe.network.training_flops().saturating_mul(items);
        p.items = Some(items);
    })
}

/// A score in words; without labels there is no accuracy.
pub(crate) fn score(score: &Score, classified: bool) -> String {
    let loss = format!("test loss {:.4}", score.loss);
    if !classified {
        return loss;
    }
    let percent = 100.0 * score.accuracy();
    format!("{loss}, accuracy {percent:.2} % ({} of {})", score.correct, score.of)
}

/// What a training tells, as a line; nothing of single steps. `classified` says whether its samples have labels.
///
/// ```
/// use warpbook::nn::train::Event;
/// let event = Event::Batches { epoch: 1, batch: 100, step: 100, loss: 1.25, learning_rate: 1e-3 };
/// assert_eq!(
///     warpbook::training_line(&event, true).unwrap(),
///     "epoch 1, batch 100, step 100: loss 1.2500, learning rate 1.000e-3"
/// );
/// ```
#[must_use]
pub fn training_line(event: &Event, classified: bool) -> Option<String> {
    match event {
        Event::Batches { epoch, batch, loss, learning_rate, step } => Some(format!(
            "epoch {epoch}, batch {batch}, step {step}: loss {loss:.4}, learning rate {learning_rate:.3e}"
        )),
        Event::Epoch { epoch, seconds, test, .. } => {
            Some(format!("epoch {epoch}: {seconds:.2} s; {}", score(test, classified)))
        }
        Event::OutOfTime { epoch, seconds, test, .. } => Some(format!(
            "epoch {epoch}, as far as the time budget allows: {seconds:.2} s; {}",
            score(test, classified)
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpbook_nn::data::{Rows, synthetic_digits};

    #[test]
    fn recipes_are_told_in_words() {
        let told = |r: &Recipe| {
            recipe(r, "the CPU in fp32").into_iter().map(|(n, w)| format!("{n}: {w}\n")).collect::<String>()
        };
        let text = told(&Recipe::mnist());
        for part in [
            "network: 1 x 28 x 28: conv2d 32, 3x3",
            "loss: cross entropy\n",
            "optimiser: SGD, momentum 0.9\n",
            "learning rate: 0.05, times 0.5 every 5 epochs\n",
            "pixels: less 0.131, over 0.308\n",
            "augmentation: none\n",
            "order: shuffled every epoch\n",
            "parameters: 1199882\n",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        let text = told(&Recipe { steps: Some(7), shuffle: false, ..Recipe::cifar10() });
        for part in [
            "optimiser: Adam, betas 0.9 and 0.999, epsilon 1e-8\n",
            "augmentation: cropped at random from a border of 4 pixels, half of them mirrored\n",
            "steps: at most 7\n",
            "order: as the samples are\n",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        let one_cycle = Recipe { schedule: Schedule::one_cycle(100), schedule_by_step: true, ..Recipe::mnist() };
        assert!(told(&one_cycle).contains("one cycle over 100 steps: from 0.00200 up to 0.05 in 30 % of them"));
        assert!(!told(&Recipe::amp_recipe()).contains("pixels"));
    }

    #[test]
    fn what_samples_are_is_marked() {
        let digits = synthetic_digits(20, 10, 3);
        let samples: Samples<'_> = (&digits.train).into();
        assert!(problem(&Recipe::mnist(), samples).label.ends_with("synthetic digits"));
        assert!(data_warning(samples).unwrap().contains("drawn by a program (seed 3)"));
        let rows = Rows::gaussian(8, [4, 2], 9);
        assert!(data_note((&rows).into()).contains("Gaussian: drawn by a program (seed 9)"));
        let own = Rows::new(vec![0.0; 8], vec![0.0; 4], [4, 2]).unwrap();
        assert!(data_note((&own).into()).contains("own data") && data_warning((&own).into()).is_none());
    }
}
