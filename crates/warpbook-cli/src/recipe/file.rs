//! Recipes in TOML files.

use super::computed_by::{ComputedBy, ConvolutionBy};
use super::images::Images;
use super::keys::{Keys, Source};
use super::plan::Plan;
use std::path::Path;
use toml::Spanned;
use toml::de::DeValue;
use warpbook::data::NAMES;
use warpbook::device::read_file;
use warpbook::gemm::ProductBy;
use warpbook::nn::network::{Layer, Network, residual};
use warpbook::nn::ops::muon::Muon;
use warpbook::nn::ops::optimizer::Optimizer;
use warpbook::nn::ops::optimizer::groups::Group;
use warpbook::nn::ops::schedule::Schedule;
use warpbook::nn::train::{Augmentation, CudaOptions, Initial, Loss, Precision, Recipe, Views};

const KEYS: [&str; 23] = [
    "name",
    "data",
    "input",
    "batch",
    "accumulate",
    "epochs",
    "steps",
    "seed",
    "learning_rate",
    "clip",
    "shuffle",
    "network",
    "segments",
    "optimizer",
    "schedule",
    "loss",
    "augmentation",
    "groups",
    "initial",
    "views",
    "normalise",
    "product",
    "convolution",
];
/// Keys of all learning-rate schedules together.
const SCHEDULE_KEYS: [&str; 11] =
    ["kind", "by", "every", "gamma", "period", "minimum", "total", "end", "rise", "start_divisor", "end_divisor"];
/// Largest recipe file in bytes.
const LONGEST: u64 = 1 << 20;

/// Reads a recipe; errors name the file, the line and the key.
pub fn read(path: &Path) -> Result<Plan, String> {
    let refuse = |why: String| format!("{} cannot be read: {why}", path.display());
    let bytes = read_file(path, LONGEST).map_err(|e| refuse(e.to_string()))?;
    let text = std::str::from_utf8(&bytes).map_err(|_| refuse("it is not UTF-8. Save it as UTF-8.".into()))?;
    parse(path, text)
}

/// Parses a recipe from a file's text.
pub fn parse(path: &Path, text: &str) -> Result<Plan, String> {
    let source = Source { path, text };
    let table = source.parse()?;
    let keys = Keys::new(&source, table.get_ref(), 0, "", &KEYS)?;
    let images = images(&keys, path)?;
    let input = input(&keys, &images)?;
    let network = network(&source, &keys, input, &images)?;
    let network = match keys.whole("segments", 1)? {
        None => network,
        Some(n) => {
            let n = usize::try_from(n).unwrap_or(usize::MAX);
            network.checkpointed(n).or_else(|why| keys.refuse("segments", format!("cannot be used: {why}")))?
        }
    };
    let (mean, deviation) = normalise(&keys, &images, input[0])?;
    let (schedule, schedule_by_step) = schedule(&keys)?;
    let above_0 = |n: f64| n > 0.0 && n.is_finite();
    let learning_rate = keys.number("learning_rate", above_0, "above 0")?;
    let epochs = keys.whole("epochs", 1)?.unwrap_or(10);
    let batch = keys.whole("batch", 1)?.unwrap_or(128) as usize;
    let accumulate = keys.whole("accumulate", 1)?.unwrap_or(1) as usize;
    if accumulate > batch {
        return keys.refuse(
            "accumulate",
            format!("is {accumulate}, and a batch has {batch} samples: it cannot be made in more parts."),
        );
    }
    let recipe = Recipe {
        name: keys.text("name")?.map_or_else(|| stem(path), str::to_owned),
        network,
        loss: loss(&keys)?,
        optimizer: optimizer(&keys)?,
        learning_rate: keys.needed("learning_rate", learning_rate, "learning_rate = 0.01")?,
        schedule,
        schedule_by_step,
        clip: keys.number("clip", above_0, "above 0")?,
        batch,
        accumulate,
        epochs: u32::try_from(epochs).or_else(|_| keys.refuse("epochs", "is at most 4294967295."))?,
        steps: keys.whole("steps", 1)?,
        mean,
        deviation,
        groups: groups(&source, &keys)?,
        initial: initial(&source, &keys)?,
        // `choice` accepts only valid words, so parsing succeeds.
        views: keys
            .choice("views", &Views::NAMED.map(|(name, _)| name))?
            .and_then(|word| word.parse().ok())
            .unwrap_or_default(),
        augmentation: augmentation(&keys)?,
        shuffle: keys.flag("shuffle")?.unwrap_or(true),
        seed: keys.whole("seed", 0)?.unwrap_or(1),
    };
    recipe.grouped().or_else(|e| keys.refuse("groups", format!("cannot be used: {e}")))?;
    Ok(Plan { recipe, images, by: by(&source, &keys)? })
}

/// Reads the groups of parameters that have their own settings.
fn groups(source: &Source<'_>, keys: &Keys<'_>) -> Result<Vec<Group>, String> {
    let known = ["params", "rate", "momentum", "weight_decay", "muon", "steps", "normalise", "schedule"];
    let group = |value: &Spanned<DeValue<'_>>| {
        let DeValue::Table(table) = value.get_ref() else {
            return source.refuse(value.span().start, "`groups` is a list of tables: write [[groups]] before each.");
        };
        let own = Keys::new(source, table, value.span().start, "groups.", &known)?;
        let at_least_0 = |n: f64| n >= 0.0 && n.is_finite();
        let schedule = match own.table("schedule", &SCHEDULE_KEYS)? {
            None => None,
            Some(table) if table.text("by")?.is_some() => return table.refuse("by", "is the recipe's: leave it out."),
            Some(_) => Some(schedule(&own)?.0),
        };
        let muon = if own.flag("muon")?.unwrap_or(false) {
            let usual = Muon::default();
            let steps = own.whole("steps", 1)?.map_or(usual.steps, |n| u32::try_from(n).unwrap_or(u32::MAX));
            Some(Muon { steps, normalise: own.flag("normalise")?.unwrap_or(usual.normalise) })
        } else {
            None
        };
        let example = "params = \"*.bias\", the names of the parameters.";
        Ok(Group {
            params: own.needed("params", own.text("params")?, example)?.to_owned(),
            rate: own.number("rate", at_least_0, "at least 0")?.unwrap_or(1.0),
            schedule,
            momentum: own.number("momentum", at_least_0, "at least 0")?,
            weight_decay: own.number("weight_decay", at_least_0, "at least 0")?,
            muon,
        })
    };
    keys.list("groups")?.unwrap_or_default().iter().map(group).collect()
}

/// Reads how the weights are initialised.
fn initial(source: &Source<'_>, keys: &Keys<'_>) -> Result<Initial, String> {
    let Some(own) = keys.table("initial", &["whiten", "identity", "factors"])? else { return Ok(Initial::default()) };
    let factor = |value: &Spanned<DeValue<'_>>| {
        let DeValue::Table(table) = value.get_ref() else {
            return source
                .refuse(value.span().start, "`initial.factors` is a list of { params = \"head.*\", factor = 0.5 }.");
        };
        let own = Keys::new(source, table, value.span().start, "initial.factors.", &["params", "factor"])?;
        let params = own.needed("params", own.text("params")?, "params = \"head.*\".")?;
        let factor = own.number("factor", f64::is_finite, "as 0.5")?;
        Ok((params.to_owned(), own.needed("factor", factor, "factor = 0.5.")?))
    };
    Ok(Initial {
        whiten: own.text("whiten")?.map(str::to_owned),
        identity: own.flag("identity")?.unwrap_or(false),
        factors: own.list("factors")?.unwrap_or_default().iter().map(factor).collect::<Result<_, _>>()?,
    })
}

/// Reads which kernels or libraries compute products and convolutions on a GPU, for all layers or for one layer. A
/// kernel's file is looked up in the recipe's folder.
fn by(source: &Source<'_>, keys: &Keys<'_>) -> Result<ComputedBy, String> {
    let folder = source.path.parent().unwrap_or(Path::new(""));
    let named = |text: &str| text.replace('_', "-").parse().map_or_else(|_: String| ProductBy::read(folder, text), Ok);
    let product = match keys.text("product")? {
        None => None,
        Some(text) => Some(named(text).or_else(|why| keys.refuse("product", format!("cannot be used: {why}")))?),
    };
    // `choice` accepts only valid words, so parsing succeeds.
    let convolution = keys.choice("convolution", &ConvolutionBy::NAMES)?.and_then(|word| word.parse().ok());
    Ok(ComputedBy { product, convolution })
}

fn stem(path: &Path) -> String {
    path.file_stem().map_or_else(|| "own".into(), |s| s.to_string_lossy().into_owned())
}

/// Reads the name of a data set, or a folder relative to the folder of the recipe's file.
fn images(keys: &Keys<'_>, path: &Path) -> Result<Images, String> {
    let example = "data = \"mnist\", or another data set, or a folder with a subfolder of images for each class.";
    let word = keys.needed("data", keys.text("data")?, example)?;
    if let Some(name) = NAMES.into_iter().find(|n| *n == word) {
        return Ok(Images::Known(name));
    }
    let folder = path.parent().unwrap_or(Path::new("")).join(word);
    if folder.is_dir() {
        return Ok(Images::Folder(folder));
    }
    keys.refuse(
        "data",
        format!(
            "is \"{word}\", which is not a data set ({}), and there is no folder {}.",
            NAMES.join(", "),
            folder.display()
        ),
    )
}

/// Returns the shape of an image, which is given by the data set or by the file.
fn input(keys: &Keys<'_>, images: &Images) -> Result<[usize; 3], String> {
    let given = keys.numbers("input")?;
    let size = |n: &f64| (1.0..=16_384.0).contains(n) && n.fract() == 0.0;
    let given = match given.as_deref() {
        None => None,
        Some(&[c, h, w]) if [c, h, w].iter().all(size) => Some([c as usize, h as usize, w as usize]),
        Some(_) => return keys.refuse("input", "must be [channels, height, width], such as [3, 32, 32]."),
    };
    match (given, images.about().map(|a| a.shape)) {
        (Some(given), Some(shape)) if given != shape => {
            keys.refuse("input", format!("is {given:?}, and images of this data set are {shape:?}: leave it out."))
        }
        (Some([c, ..]), None) if c != 1 && c != 3 => {
            keys.refuse("input", "must begin with 1 channel, for grey, or 3, for colour.")
        }
        (Some(shape), _) | (None, Some(shape)) => Ok(shape),
        (None, None) => {
            let example =
                "input = [3, 64, 64], the channels, height and width that the folder's images are brought to.";
            keys.needed("input", None, example)
        }
    }
}

/// Reads the network; an error names the line of the first wrong layer.
fn network(source: &Source<'_>, keys: &Keys<'_>, input: [usize; 3], images: &Images) -> Result<Network, String> {
    let list = keys.needed("network", keys.list("network")?, "network = [\"flatten\", \"linear 10\"].")?;
    let layers = layers(source, list)?;
    let network = Network::new(input, layers.clone()).or_else(|e| {
        // Every prefix that contains the first wrong layer is wrong, so bisection finds it.
        let fits = |n: &usize| Network::new(input, layers[..*n].to_vec()).is_ok();
        let lengths: Vec<usize> = (1..=layers.len()).collect();
        let first = lengths.partition_point(fits);
        let at = list.get(first).map_or_else(|| keys.at("network"), |layer| layer.span().start);
        source.refuse(at, format!("`network`: {e}"))
    })?;
    match images.about().map(|a| a.classes.len()) {
        Some(classes) if network.output() != classes.into() => {
            let at = list.last().map_or_else(|| keys.at("network"), |l| l.span().start);
            let output = network.output();
            source.refuse(at, format!("`network` ends with {output} outputs; this data set has {classes} classes: end it with \"linear {classes}\"."))
        }
        _ => Ok(network),
    }
}

fn layers(source: &Source<'_>, list: &[Spanned<DeValue<'_>>]) -> Result<Vec<Layer>, String> {
    list.iter().map(|value| layer(source, value)).collect()
}

fn layer(source: &Source<'_>, value: &Spanned<DeValue<'_>>) -> Result<Layer, String> {
    let at = value.span().start;
    match value.get_ref() {
        DeValue::String(words) => words.parse().or_else(|e| source.refuse(at, format!("`network`: {e}"))),
        DeValue::Table(table) if table.contains_key("layer") => {
            let keys = Keys::new(source, table, at, "network.", &["layer", "product", "convolution"])?;
            let words = keys.needed("layer", keys.text("layer")?, "layer = \"linear 128\".")?;
            let layer: Layer = words.parse().or_else(|e| keys.refuse("layer", format!("is not a layer: {e}")))?;
            let ComputedBy { product, convolution } = by(source, &keys)?;
            let layer = if let Some(product) = product { layer.product(product) } else { layer };
            let own = CudaOptions::new(Precision::Fp32).convolution;
            Ok(if let Some(by) = convolution { layer.method(by.method(own)) } else { layer })
        }
        DeValue::Table(table) => {
            let keys = Keys::new(source, table, at, "network.", &["residual", "name"])?;
            let branch =
                keys.needed("residual", keys.list("residual")?, "{ residual = [\"conv2d 32 3x3 padding 1\"] }.")?;
            let branch = residual(layers(source, branch)?);
            Ok(if let Some(name) = keys.text("name")? { branch.named(name) } else { branch })
        }
        _ => source.refuse(
            at,
            "`network`: a layer is a text such as \"conv2d 32 3x3\", { residual = [..] } with the layers of a branch, or { layer = \"linear 128\", \
             product = \"tiled\" } with what computes it.",
        ),
    }
}

fn optimizer(keys: &Keys<'_>) -> Result<Optimizer, String> {
    let adam: &[&str] = &["betas", "epsilon", "weight_decay"];
    let kinds: [(&str, &[&str]); 3] =
        [("sgd", &["momentum", "nesterov", "weight_decay"]), ("adam", adam), ("adam_w", adam)];
    let Some((kind, own)) = keys.kind("optimizer", &kinds)? else { return Ok(Optimizer::sgd()) };
    let any = |name: &str, usual: f64| own.number(name, f64::is_finite, "as 0.01").map(|n| n.unwrap_or(usual));
    let betas = match own.numbers("betas")?.as_deref() {
        None => [0.9, 0.999],
        Some(&[first, second]) => [first, second],
        Some(_) => return own.refuse("betas", "must be two numbers, such as [0.9, 0.999]."),
    };
    let optimizer = match kind {
        "sgd" => Optimizer::Sgd {
            momentum: any("momentum", 0.0)?,
            nesterov: own.flag("nesterov")?.unwrap_or(false),
            weight_decay: any("weight_decay", 0.0)?,
        },
        "adam" => Optimizer::Adam { betas, epsilon: any("epsilon", 1e-8)?, weight_decay: any("weight_decay", 0.0)? },
        _ => Optimizer::AdamW { betas, epsilon: any("epsilon", 1e-8)?, weight_decay: any("weight_decay", 0.01)? },
    };
    optimizer.check().or_else(|e| keys.refuse("optimizer", format!("cannot be used: {e}")))?;
    Ok(optimizer)
}

fn schedule(keys: &Keys<'_>) -> Result<(Schedule, bool), String> {
    let kinds: [(&str, &[&str]); 5] = [
        ("linear", &["by", "total", "end"]),
        ("constant", &["by"]),
        ("step", &["by", "every", "gamma"]),
        ("cosine", &["by", "period", "minimum"]),
        ("one_cycle", &["by", "total", "rise", "start_divisor", "end_divisor"]),
    ];
    let Some((kind, own)) = keys.kind("schedule", &kinds)? else { return Ok((Schedule::Constant, false)) };
    let by_step = own.choice("by", &["epoch", "step"])? == Some("step");
    let any = |name: &str, usual: f64| own.number(name, f64::is_finite, "as 0.5").map(|n| n.unwrap_or(usual));
    let time =
        |name: &str| own.needed(name, own.whole(name, 1)?, "a whole number of epochs, or of steps with by = \"step\".");
    let schedule = match kind {
        "constant" => Schedule::Constant,
        "linear" => Schedule::Linear { total: time("total")?, end: any("end", 0.0)? },
        "step" => Schedule::Step { every: time("every")?, gamma: any("gamma", 0.1)? },
        "cosine" => Schedule::Cosine { period: time("period")?, minimum: any("minimum", 0.0)? },
        _ => Schedule::OneCycle {
            total: time("total")?,
            rise: any("rise", 0.3)?,
            start_divisor: any("start_divisor", 25.0)?,
            end_divisor: any("end_divisor", 1e4)?,
        },
    };
    schedule.check().or_else(|e| keys.refuse("schedule", format!("cannot be used: {e}")))?;
    Ok((schedule, by_step))
}

fn loss(keys: &Keys<'_>) -> Result<Loss, String> {
    // Data sets have class labels, while the mean squared error needs values.
    let Some((_, own)) = keys.kind("loss", &[("cross_entropy", &["smoothing"])])? else {
        return Ok(Loss::CrossEntropy { smoothing: 0.0 });
    };
    let smoothing = own.number("smoothing", |n| (0.0..1.0).contains(&n), "from 0 to below 1")?;
    Ok(Loss::CrossEntropy { smoothing: smoothing.unwrap_or(0.0) as f32 })
}

fn augmentation(keys: &Keys<'_>) -> Result<Option<Augmentation>, String> {
    let Some(own) = keys.table("augmentation", &["crop", "flip", "reflect", "alternate"])? else { return Ok(None) };
    let crop = own.whole("crop", 0)?.unwrap_or(0);
    if crop > 1024 {
        return own.refuse("crop", format!("is {crop}; it must be at most 1024 pixels."));
    }
    let flag = |name: &str| Ok::<_, String>(own.flag(name)?.unwrap_or(false));
    let (flip, reflect, alternate) = (flag("flip")?, flag("reflect")?, flag("alternate")?);
    Ok(Some(Augmentation { crop: crop as usize, flip, reflect, alternate }))
}

/// Reads the means and deviations of the pixels from the file. If the file has none, uses the data set's usual values,
/// or one half.
fn normalise(keys: &Keys<'_>, images: &Images, channels: usize) -> Result<(Vec<f32>, Vec<f32>), String> {
    let usual = images.normalisation();
    let usual = (vec![usual.0; channels], vec![usual.1; channels]);
    let Some(own) = keys.table("normalise", &["mean", "deviation"])? else { return Ok(usual) };
    let read = |name: &str, usual: Vec<f32>| -> Result<Vec<f32>, String> {
        let Some(all) = own.numbers(name)? else { return Ok(usual) };
        if all.len() != channels {
            let (many, plural) = (all.len(), if channels == 1 { "" } else { "s" });
            return own.refuse(
                name,
                format!("has {many} numbers, and images have {channels} channel{plural}: write one for each."),
            );
        }
        let (fits, words): (fn(f32) -> bool, &str) = match name {
            "mean" => (f32::is_finite, "a finite 32-bit number"),
            _ => (|n| n.is_finite() && n > 0.0, "a finite 32-bit number above 0"),
        };
        match all.iter().find(|n| !fits(**n as f32)) {
            None => Ok(all.into_iter().map(|n| n as f32).collect()),
            Some(n) => own.refuse(name, format!("has the number {n:?}; each must be {words}.")),
        }
    };
    Ok((read("mean", usual.0)?, read("deviation", usual.1)?))
}
