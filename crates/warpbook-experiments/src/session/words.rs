//! Describes a training run in words: its recipe, its samples, and its progress.

use warpbook_charts::words as figures;
use warpbook_data::{Dataset, Origin};
use warpbook_nn::network::Layer;
use warpbook_nn::ops::optimizer::Optimizer;
use warpbook_nn::ops::optimizer::groups::Rule;
use warpbook_nn::ops::schedule::Schedule;
use warpbook_nn::train::{Augmentation, Event, Loss, Place, Recipe, Samples, Score, Trainer, Views};
use warpbook_ranks::Wire;
use warpbook_record::{Dtype, Inputs, Problem, count, setting};

/// Describes the recipe completely, except for the data, as pairs of a name and a text.
pub(super) fn recipe(recipe: &Recipe, place: &str) -> Vec<(String, String)> {
    let plain = figures::plain;
    let mut words = vec![
        ("recipe", recipe.name.clone()),
        ("device", place.to_owned()),
        ("network", network(recipe)),
        ("parameters", recipe.network.parameter_count().to_string()),
        ("loss", loss(recipe.loss)),
        ("optimiser", optimizer(&recipe.optimizer)),
        ("learning rate", learning_rate(recipe.learning_rate, recipe.schedule, recipe.schedule_by_step)),
        (
            "gradient clipping",
            match recipe.clip {
                None => "none".into(),
                Some(f64::INFINITY) => "none; the norm is recorded".into(),
                Some(most) => format!("to a norm of {}", plain(most)),
            },
        ),
        (
            "batch",
            match recipe.accumulate {
                1 => recipe.batch.to_string(),
                parts => format!("{} in {parts} parts, whose gradients are added up", recipe.batch),
            },
        ),
        ("epochs", recipe.epochs.to_string()),
    ];
    let grouped = recipe.grouped().ok().flatten();
    let all_are_grouped = grouped.as_ref().is_some_and(|g| g.rule_of_parameter.iter().all(|of| *of != Some(0)));
    if all_are_grouped {
        // Leave out settings that apply to no parameter, which would be misleading.
        words.retain(|(name, _)| *name != "optimiser" && *name != "learning rate");
    }
    words.extend(recipe.steps.map(|steps| ("steps", format!("at most {steps}"))));
    words.extend(initial(recipe).map(|how| ("initial weights", how)));
    let segments = recipe.network.segments().len();
    if segments > 1 {
        words.push(("activations", format!("kept between {segments} segments of the network, computed again within")));
    }
    if !recipe.mean.is_empty() {
        words.push(("pixels", pixels(&recipe.mean, &recipe.deviation)));
        words.push(("augmentation", augmentation(recipe.augmentation)));
        words.push(("test images", views(recipe.views).into()));
    }
    words.push(("order", if recipe.shuffle { "shuffled every epoch".into() } else { "as the samples are".into() }));
    words.push(("seed", recipe.seed.to_string()));
    let mut words: Vec<(String, String)> = words.into_iter().map(|(name, what)| (name.to_owned(), what)).collect();
    let rules = grouped.iter().flat_map(|g| g.rules.iter().skip(1));
    let groups = recipe.groups.iter().zip(rules);
    let at = words.iter().position(|(name, _)| name == "gradient clipping").unwrap_or(words.len());
    let told: Vec<_> = groups.map(|(g, rule)| (format!("parameters {}", g.params), group(rule, recipe))).collect();
    words.splice(at..at, told);
    words
}

/// Describes how pixels in [0, 1] are normalised, such as "normalised with mean 0.131 and standard deviation 0.308".
fn pixels(mean: &[f32], deviation: &[f32]) -> String {
    let list = |values: &[f32]| {
        let words: Vec<String> = values.iter().map(|v| figures::number(f64::from(*v))).collect();
        format!("{} {}", if values.len() == 1 { "" } else { "s" }, words.join(", "))
    };
    format!("normalised with mean{} and standard deviation{}", list(mean), list(deviation))
}

fn augmentation(of: Option<Augmentation>) -> String {
    let Some(a) = of else { return "none".into() };
    let crop = match (a.crop, a.reflect) {
        (0, _) => None,
        (crop, false) => Some(format!("random crops after padding by {crop} black pixels")),
        (crop, true) => Some(format!("random crops after padding by {crop} pixels by reflection")),
    };
    let flip = match (a.flip, a.alternate) {
        (false, _) => None,
        (true, false) => Some("random horizontal flips".to_owned()),
        (true, true) => Some(
            "alternating horizontal flips (in every second epoch, for half of the images from the first on)".into(),
        ),
    };
    let all: Vec<String> = crop.into_iter().chain(flip).collect();
    if all.is_empty() { "none".into() } else { all.join("; ") }
}

/// Describes the views of a test image whose predictions are combined.
fn views(views: Views) -> &'static str {
    match views {
        Views::One => "seen once, as they are",
        Views::Flips => "the mean of the outputs of two views: as they are, and mirrored",
        Views::FlipsAndShifts => {
            "the mean of the outputs of six views: as they are and mirrored, with half of the weight, and both shifted by a pixel down and right, and up \
             and left, padded by reflection"
        }
    }
}

/// Returns the views for the label of a problem; `None` for the default views.
pub(super) fn more_views(views: Views) -> Option<&'static str> {
    match views {
        Views::One => None,
        Views::Flips => Some("mirrored views"),
        Views::FlipsAndShifts => Some("mirrored and shifted views"),
    }
}

/// Describes the initial weights, if some of them are not drawn as in PyTorch.
fn initial(recipe: &Recipe) -> Option<String> {
    let initial = &recipe.initial;
    let whitens = |name: &String| {
        format!(
            "{name} whitens patches of the training images (eigenvectors of their covariance over the roots of the eigenvalues, with both \
             signs)"
        )
    };
    let mut words: Vec<String> = initial.whiten.iter().map(whitens).collect();
    let others = if initial.whiten.is_some() { "the other convolutions" } else { "convolutions" };
    words.extend(initial.identity.then(|| format!("the first filters of {others} pass on a channel each (Dirac)")));
    words.extend(initial.factors.iter().map(|(params, factor)| format!("{params} times {}", figures::plain(*factor))));
    (!words.is_empty()).then(|| format!("as PyTorch's, but {}", words.join("; ")))
}

/// Describes how the parameters of a group are updated.
fn group(rule: &Rule, recipe: &Recipe) -> String {
    let by = match (rule.muon, rule.optimizer) {
        (Some(muon), Optimizer::Sgd { momentum, nesterov, .. }) => {
            let steps = figures::counted(muon.steps as usize, "Newton-Schulz iteration");
            let scale =
                if muon.normalise { ", weights brought to the norm sqrt(filters) before each step" } else { "" };
            let nesterov = if nesterov { "Nesterov momentum" } else { "momentum" };
            format!("Muon with {steps}, {nesterov} {}{scale}", figures::plain(momentum))
        }
        (_, sgd) => optimizer(&sgd),
    };
    // The schedule of a group also starts at the recipe's learning rate.
    let schedule = rule.schedule.unwrap_or(recipe.schedule);
    let rate = learning_rate(rule.rate * recipe.learning_rate, schedule, recipe.schedule_by_step);
    format!("{by}, learning rate {rate}")
}

/// Describes training on several ranks, such as "4 ranks with 32 samples of a batch each; gradients in fp32, in 2
/// buckets: 1.0 MiB, 12 KiB". Empty for a single rank.
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
    format!(
        "{} with {} of a batch each; gradients {types}, in {}: {}{more}{norm}",
        figures::counted(ranks.world(), "rank"),
        figures::counted(trainer.recipe().batch.div_ceil(ranks.world()), "sample"),
        figures::counted(buckets.len(), "bucket"),
        sizes.join(", "),
    )
}

fn network(recipe: &Recipe) -> String {
    let layers: Vec<String> = recipe.network.layers().iter().map(Layer::in_full).collect();
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

fn learning_rate(first: f64, schedule: Schedule, by_step: bool) -> String {
    let plain = figures::plain;
    let rate = plain(first);
    let (time, times) = if by_step { ("step", "steps") } else { ("epoch", "epochs") };
    match schedule {
        Schedule::Constant => rate,
        Schedule::Step { every: 1, gamma } => format!("{rate}, times {} every {time}", plain(gamma)),
        Schedule::Step { every, gamma } => format!("{rate}, times {} every {every} {times}", plain(gamma)),
        Schedule::Cosine { period, minimum } => {
            format!("{rate}, half a cosine down to {} in {period} {times}", plain(minimum))
        }
        Schedule::Linear { total, end } => {
            format!("{rate}, down to {} in {total} {times}", plain(first * end))
        }
        Schedule::OneCycle { total, rise, start_divisor, end_divisor } => format!(
            "one cycle over {total} {times}: from {} up to {rate} in {} of them, then down to {}",
            figures::number(first / start_divisor),
            figures::percent(rise),
            figures::number(first / start_divisor / end_divisor)
        ),
    }
}

/// Names the source of the samples in a few words, such as "MNIST" or "synthetic digits". The user's note replaces what
/// is known of images.
pub(super) fn data_label(samples: Samples<'_>, note: Option<&str>) -> String {
    let label = |set: &Dataset| match set.origin() {
        // The label uses the text before the colon: "not the original files", or "not verified as the original files".
        Origin::Modified { why } => format!("{}, {}", set.name(), why.split(':').next().unwrap_or(why)),
        Origin::Noted { what } => format!("{}, {what}", set.name()),
        _ => set.name().to_owned(),
    };
    match (samples, note) {
        (Samples::Images(set), Some(note)) => format!("{}, {note}", set.name()),
        (Samples::Images(set), None) => label(set),
        (Samples::Rows(rows), _) if rows.seed().is_some() => "Gaussian numbers".into(),
        (Samples::Rows(_), _) => "own numbers".into(),
    }
}

/// Returns the description of the samples that a record stores as its inputs.
pub(super) fn inputs(samples: Samples<'_>) -> Inputs {
    let (work, data) = match samples {
        Samples::Images(set) => (set.name().to_owned(), set.origin().to_string()),
        Samples::Rows(rows) => match rows.seed() {
            Some(seed) => (format!("{rows:?}, Gaussian"), format!("drawn by a program (seed {seed})")),
            None => (format!("{rows:?}"), "own data".into()),
        },
    };
    Inputs::default().with(work, data)
}

/// Describes the samples in a sentence without its full stop.
pub(super) fn data_note(samples: Samples<'_>) -> String {
    inputs(samples).to_string()
}

/// Returns a warning if the samples are not the published ones; `None` if no warning is needed. The user's note replaces
/// the remark that the files are not known.
pub(super) fn data_warning(samples: Samples<'_>, note: Option<&str>) -> Option<String> {
    let Samples::Images(set) = samples else { return None };
    match set.origin() {
        Origin::Modified { .. } if note.is_some() => {
            Some(format!("Accuracies are of these images: {}.", data_label(samples, note)))
        }
        Origin::Synthetic { .. } => Some(format!("Trained and tested on synthetic images: {}.", set.note())),
        // These files may still be the originals.
        Origin::Modified { .. } => Some(format!("Accuracies are of these files: {}.", set.note())),
        Origin::Noted { .. } => Some(format!("Trained on files that are not the originals: {}.", set.note())),
        Origin::Original | Origin::Folder { .. } | Origin::Own => None,
    }
}

/// Returns the complete training run as a problem.
pub(super) fn problem(recipe: &Recipe, train: Samples<'_>, note: Option<&str>) -> Problem {
    let label = format!("{}, batch {}, {}", recipe.name, recipe.batch, data_label(train, note));
    let steps = recipe.total_steps(train.len());
    let sizes = vec![
        setting("network", recipe.name.as_str()),
        count("samples", train.len() as u64, "samples"),
        count("batch", recipe.batch as u64, "samples"),
        count("steps", steps, ""),
        // Charts treat "learning_rate" as a rate that is constant for the whole training run.
        setting(if recipe.schedule == Schedule::Constant { "learning_rate" } else { "rate" }, recipe.learning_rate),
        setting("seed", recipe.seed),
    ];
    Problem::new(label, format!("{} {}", recipe.name, recipe.batch), sizes, Dtype::F32).with(|p| {
        let items = steps.saturating_mul(recipe.batch as u64);
        p.flops = recipe.network.training_flops().saturating_mul(items);
        p.items = Some(items);
    })
}

/// Formats a score; without labels it has no accuracy.
pub(crate) fn score(score: &Score, classified: bool) -> String {
    let loss = format!("test loss {:.4}", score.loss);
    if !classified {
        return loss;
    }
    let percent = 100.0 * score.accuracy();
    format!("{loss}, accuracy {percent:.2} % ({} of {})", score.correct, score.of)
}

/// Returns the progress line for an event of a training run; `None` for single steps and a short preparation. `classified` says whether the
/// samples have labels.
///
/// ```
/// use warpbook_nn::train::Event;
/// let event = Event::Batches { epoch: 1, batch: 100, step: 100, loss: 1.25, learning_rate: 1e-3 };
/// assert_eq!(
///     warpbook_experiments::training_line(&event, true).unwrap(),
///     "epoch 1, batch 100, step 100: loss 1.2500, learning rate 1.000e-3"
/// );
/// ```
#[must_use]
pub fn training_line(event: &Event, classified: bool) -> Option<String> {
    match event {
        // Less than a second is not worth a line.
        Event::Ready { seconds } if *seconds < 1.0 => None,
        Event::Ready { seconds } => {
            Some(format!("ready after {seconds:.1} s, in which kernels were chosen and compiled"))
        }
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
        Event::NotKept { why, instead } => {
            let place = match instead {
                Some(file) => format!("it is kept in {} until that works", file.display()),
                None => "it is kept nowhere until that works".to_owned(),
            };
            Some(format!("warning: the checkpoint cannot be written: {why}. The training continues; {place}."))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpbook_data::{Rows, synthetic_digits};
    use warpbook_nn::network::{Network, batch_norm, conv2d, flatten, linear, residual};
    use warpbook_nn::ops::muon::Muon;
    use warpbook_nn::ops::optimizer::groups::Group;
    use warpbook_nn::train::Initial;

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
            "pixels: normalised with mean 0.131 and standard deviation 0.308\n",
            "augmentation: none\n",
            "test images: seen once, as they are\n",
            "order: shuffled every epoch\n",
            "parameters: 1199882\n",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        let text = told(&Recipe { steps: Some(7), shuffle: false, ..Recipe::cifar10() });
        for part in [
            "optimiser: Adam, betas 0.9 and 0.999, epsilon 1e-8\n",
            "augmentation: random crops after padding by 4 black pixels; random horizontal flips\n",
            "steps: at most 7\n",
            "order: as the samples are\n",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        let one_cycle = Recipe { schedule: Schedule::one_cycle(100), schedule_by_step: true, ..Recipe::mnist() };
        assert!(told(&one_cycle).contains("one cycle over 100 steps: from 0.00200 up to 0.05 in 30 % of them"));
        let rows = told(&Recipe::amp_recipe());
        assert!(!rows.contains("pixels") && !rows.contains("test images") && !rows.contains("initial weights"));
    }

    #[test]
    fn nothing_of_a_recipe_is_left_out() {
        let group = |params: &str| Group::new(params);
        let recipe_of = |groups: Vec<Group>| Recipe {
            network: Network::new(
                [3, 8, 8],
                [
                    conv2d(24, 2).frozen().named("whiten"),
                    residual([conv2d(24, 3).padding(1).without_bias(), batch_norm().momentum(0.4).without_scale()]),
                    flatten(),
                    linear(10),
                ],
            )
            .unwrap()
            .checkpointed(2)
            .unwrap(),
            optimizer: Optimizer::Sgd { momentum: 0.85, nesterov: true, weight_decay: 0.0 },
            learning_rate: 0.5,
            schedule: Schedule::Linear { total: 70, end: 0.0 },
            schedule_by_step: true,
            mean: vec![0.5, 0.25, 0.125],
            deviation: vec![0.5; 3],
            groups,
            initial: Initial {
                whiten: Some("whiten".into()),
                identity: true,
                factors: vec![("fc1.weight".into(), 0.25)],
            },
            views: Views::FlipsAndShifts,
            augmentation: Some(Augmentation { crop: 2, flip: true, reflect: true, alternate: true }),
            ..Recipe::mnist()
        };
        let told = |r: &Recipe| {
            recipe(r, "the CPU in fp32").into_iter().map(|(n, w)| format!("{n}: {w}\n")).collect::<String>()
        };
        let muon = Group { muon: Some(Muon::default()), rate: 0.4, momentum: Some(0.6), ..group("conv*.weight") };
        let own = Some(Schedule::Linear { total: 30, end: 0.0 });
        let shift = Group { rate: 4.0, weight_decay: Some(1e-4), schedule: own, ..group("*.bias") };
        let some = told(&recipe_of(vec![muon.clone(), shift.clone()]));
        for part in [
            "network: 3 x 8 x 8: conv2d 24, 2x2, frozen weight, named whiten; residual of 2 layers (conv2d 24, 3x3, padding 1, no bias; \
             batch_norm, momentum 0.4, no scale); flatten; linear 10\n",
            "optimiser: SGD, Nesterov momentum 0.85\n",
            "learning rate: 0.5, down to 0 in 70 steps\n",
            "parameters conv*.weight: Muon with 3 Newton-Schulz iterations, Nesterov momentum 0.6, weights brought to the norm sqrt(filters) \
             before each step, learning rate 0.2, down to 0 in 70 steps\n",
            "parameters *.bias: SGD, Nesterov momentum 0.85, weight decay 0.0001, learning rate 2, down to 0 in 30 steps\n",
            "initial weights: as PyTorch's, but whiten whitens patches",
            "the first filters of the other convolutions pass on a channel each (Dirac); fc1.weight times 0.25\n",
            "activations: kept between 2 segments of the network, computed again within\n",
            "pixels: normalised with means 0.500, 0.250, 0.125 and standard deviations 0.500, 0.500, 0.500\n",
            "augmentation: random crops after padding by 2 pixels by reflection; alternating horizontal flips",
            "test images: the mean of the outputs of six views",
        ] {
            assert!(some.contains(part), "{part} in {some}");
        }
        // If groups contain all parameters, the optimiser's own settings apply to no parameter.
        let all = told(&recipe_of(vec![muon, shift, group("*")]));
        assert!(!all.contains("optimiser: ") && !all.contains("\nlearning rate: "), "{all}");
        assert!(all.contains("parameters *: SGD, Nesterov momentum 0.85, learning rate 0.5, down to 0 in 70 steps\n"));
        let flips = Recipe { views: Views::Flips, augmentation: None, ..recipe_of(Vec::new()) };
        assert!(
            told(&flips).contains("test images: the mean of the outputs of two views: as they are, and mirrored\n")
        );
    }

    #[test]
    fn a_long_preparation_has_a_line() {
        let line = |seconds| training_line(&Event::Ready { seconds }, true);
        assert_eq!(line(0.99), None);
        assert_eq!(line(2.84).unwrap(), "ready after 2.8 s, in which kernels were chosen and compiled");
    }

    #[test]
    fn what_samples_are_is_marked() {
        let digits = synthetic_digits(20, 10, 3);
        let samples: Samples<'_> = (&digits.train).into();
        assert!(problem(&Recipe::mnist(), samples, None).label.ends_with("synthetic digits"));
        let noted = problem(&Recipe::mnist(), samples, Some("upside-down"));
        assert!(noted.label.ends_with("synthetic digits, upside-down"), "{}", noted.label);
        // A note does not hide that images are synthetic.
        for note in [None, Some("upside-down")] {
            assert!(data_warning(samples, note).unwrap().contains("drawn by a program (seed 3)"));
        }
        let rows = Rows::gaussian(8, [4, 2], 9);
        assert!(data_note((&rows).into()).contains("Gaussian: drawn by a program (seed 9)"));
        let own = Rows::new(vec![0.0; 8], vec![0.0; 4], [4, 2]).unwrap();
        assert!(data_note((&own).into()).contains("own data") && data_warning((&own).into(), None).is_none());
    }
}
