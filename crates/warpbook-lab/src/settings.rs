//! Settings of experiments: command-line options, the command in a record that repeats a run, and errors for invalid
//! values.

use crate::{Error, Experiment, Plan, Result};
use warpbook_record::{Dtype, Problem, Rung, nearest};

/// A setting of an experiment: an option of `warpbook run NAME`, and part of the command in a record.
pub struct Setting<E> {
    /// Name of the option, without dashes.
    pub name: &'static str,
    /// Form of a value, such as "N[,N..]"; `None` for a flag.
    pub value: Option<&'static str>,
    /// Help text, in a sentence or two.
    pub help: &'static str,
    /// Applies the setting from its text. Several values are separated by commas; a flag has no value.
    pub set: fn(E, &str) -> Result<E, String>,
    /// Returns the setting as text; `None` if it has its initial value.
    pub get: fn(&E) -> Option<String>,
}

/// A preset of an experiment's settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Preset {
    /// One problem size and all rungs.
    #[default]
    Standard,
    /// Small sizes, which take at most a minute on two cores.
    Quick,
    /// All sizes of the published record.
    Sweep,
}

/// An experiment that the command line can create.
pub trait Configurable: Experiment + Sized + 'static {
    /// Name on the command line.
    const NAME: &'static str;
    /// Summary in one line.
    const ABOUT: &'static str;
    /// Description in one paragraph.
    const DETAILS: &'static str;
    /// Example command lines, one per line.
    const EXAMPLES: &'static str;

    /// Returns the settings of a preset.
    fn preset(preset: Preset) -> Self;

    /// Returns the settings that can be changed, in the order in which they are offered.
    fn offered() -> Vec<Setting<Self>>;

    /// Returns the experiments that this one consists of, each with its own record; usually just itself.
    fn each(self) -> Vec<Box<dyn Experiment>> {
        vec![Box::new(self)]
    }
}

/// Returns the plan of an experiment that the command line can create, with its name, and with the command and settings
/// that repeat it. Settings without a text are omitted.
pub fn plan<E: Configurable>(experiment: &E, problems: Vec<Problem>, rungs: Vec<Rung>) -> Plan {
    let mut command = format!("warpbook run {}", E::NAME);
    let mut values = Vec::new();
    for setting in E::offered() {
        let Some(text) = (setting.get)(experiment) else { continue };
        command += &format!(" --{}", setting.name);
        if setting.value.is_some() {
            command += &format!(" {text}");
        }
        values.push((setting.name.to_owned(), text));
    }
    command += &format!(" --device {}", Plan::DEVICE);
    Plan { command, settings: Some((E::NAME, values)), ..Plan::new(E::NAME, problems, rungs) }
}

/// An option on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OptionInfo {
    /// Name of the option, without dashes.
    pub name: &'static str,
    /// Form of a value; `None` for a flag.
    pub value: Option<&'static str>,
    /// Help text of the option.
    pub help: &'static str,
}

type Make<T> = Box<dyn Fn(Preset, &[(String, String)]) -> Result<T> + Send + Sync>;

/// An experiment in the lists of the command line and the lab.
pub struct Entry {
    /// Name on the command line.
    pub name: &'static str,
    /// Summary in one line.
    pub about: &'static str,
    /// Description in one paragraph.
    pub details: &'static str,
    /// Example command lines, one per line.
    pub examples: &'static str,
    /// The available options.
    pub options: Vec<OptionInfo>,
    make: Make<Box<dyn Experiment>>,
    make_each: Make<Vec<Box<dyn Experiment>>>,
}

impl Entry {
    /// Creates the entry for an experiment.
    #[must_use]
    pub fn new<E: Configurable>() -> Self {
        let info = |s: Setting<E>| OptionInfo { name: s.name, value: s.value, help: s.help };
        let set_up = |preset, values: &[(String, String)]| -> Result<E> {
            let settings = E::offered();
            let mut experiment = E::preset(preset);
            for (name, text) in values {
                let Some(setting) = settings.iter().find(|s| s.name == name) else {
                    let near = nearest(name, settings.iter().map(|s| s.name)).join(", ");
                    return Err(Error::Setting(format!(
                        "{} has no setting `{name}`. The nearest are {near}.",
                        E::NAME
                    )));
                };
                experiment =
                    (setting.set)(experiment, text).map_err(|why| Error::Setting(format!("--{name}: {why}.")))?;
            }
            Ok(experiment)
        };
        Self {
            name: E::NAME,
            about: E::ABOUT,
            details: E::DETAILS,
            examples: E::EXAMPLES,
            options: E::offered().into_iter().map(info).collect(),
            make: Box::new(move |preset, values| Ok(Box::new(set_up(preset, values)?))),
            make_each: Box::new(move |preset, values| Ok(set_up(preset, values)?.each())),
        }
    }

    /// Creates the experiment with these settings, given as names and texts.
    ///
    /// # Errors
    /// If the experiment has no such setting, or the text is invalid.
    pub fn make(&self, preset: Preset, values: &[(String, String)]) -> Result<Box<dyn Experiment>> {
        (self.make)(preset, values)
    }

    /// Creates all experiments that an entry consists of, with these settings: see [`Configurable::each`].
    ///
    /// # Errors
    /// See [`Entry::make`].
    pub fn make_each(&self, preset: Preset, values: &[(String, String)]) -> Result<Vec<Box<dyn Experiment>>> {
        (self.make_each)(preset, values)
    }
}

/// The selected rungs of a ladder, and their selected tile.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Selection {
    /// Ids of the rungs; `None` for all.
    pub rungs: Option<Vec<String>>,
    /// Id of the tile; `None` lets the experiment choose.
    pub tile: Option<String>,
}

/// An experiment whose rungs can be selected.
pub trait Selects: Sized {
    /// Returns the selected rungs and tile.
    fn selection(&self) -> &Selection;
    /// Returns the selected rungs and tile, for changing them.
    fn selection_mut(&mut self) -> &mut Selection;
}

impl Selection {
    /// Returns the selected rungs of `all`.
    pub fn select(&self, all: impl IntoIterator<Item = Rung>) -> Vec<Rung> {
        let chosen = |r: &Rung| self.rungs.as_ref().is_none_or(|wanted| wanted.iter().any(|w| *w == r.id));
        all.into_iter().filter(chosen).collect()
    }

    /// Checks that every named rung exists and that at least one selected rung has the tile.
    ///
    /// # Errors
    /// If the list of rungs is empty, there is no rung of a name, or no selected rung has the tile.
    pub fn validate(&self, all: &[Rung]) -> Result<()> {
        if self.rungs.as_ref().is_some_and(Vec::is_empty) {
            return Err(Error::Setting("No rung was named. Leave the list out to run all of them.".into()));
        }
        for name in self.rungs.iter().flatten() {
            if !all.iter().any(|r| r.id == *name) {
                let nearest = nearest(name, all.iter().map(|r| &*r.id)).into_iter().map(str::to_owned).collect();
                return Err(Error::UnknownRung { name: name.clone(), nearest });
            }
        }
        let Some(tile) = &self.tile else { return Ok(()) };
        let chosen = self.select(all.iter().cloned());
        let mut tiles: Vec<&str> =
            chosen.iter().flat_map(Rung::kernels).flat_map(|k| &k.tiles).map(|t| t.id.as_ref()).collect();
        tiles.sort_unstable();
        tiles.dedup();
        if tiles.contains(&tile.as_str()) {
            return Ok(());
        }
        Err(Error::Setting(format!("There is no tile `{tile}`. The rows permit {}.", tiles.join(", "))))
    }

    /// Returns the settings shared by experiments with a selection.
    pub fn settings<E: Selects>() -> [Setting<E>; 2] {
        [
            Setting {
                name: "rungs",
                value: Some("ID[,ID..]"),
                help: "Rungs to run, by id, with commas between them. [default: all]",
                set: |mut e, text| {
                    e.selection_mut().rungs = Some(list(text, |id| Ok(id.to_owned()))?);
                    Ok(e)
                },
                get: |e| e.selection().rungs.as_ref().map(|r| r.join(",")),
            },
            Setting {
                name: "tile",
                value: Some("ID"),
                help: "Id of the tile to use in the rungs whose kernels offer it.",
                set: |mut e, text| {
                    e.selection_mut().tile = Some(text.trim().to_owned());
                    Ok(e)
                },
                get: |e| e.selection().tile.clone(),
            },
        ]
    }
}

/// Parses values separated by commas.
///
/// # Errors
/// Returns the error of the first invalid value.
pub fn list<T>(text: &str, one: impl Fn(&str) -> Result<T, String>) -> Result<Vec<T>, String> {
    text.split(',').map(str::trim).filter(|t| !t.is_empty()).map(one).collect()
}

/// Joins values with commas for [`list`].
pub fn joined(each: impl Iterator<Item = String>) -> String {
    each.collect::<Vec<_>>().join(",")
}

/// Parses a count, such as 5000000, 5_000_000, 5M, 1.5M or 100k.
///
/// # Errors
/// If the text is not a count.
pub fn parse_count(text: &str) -> Result<u64, String> {
    let plain: String = text.trim().chars().filter(|c| *c != '_').collect();
    let (digits, scale) = match plain.char_indices().last() {
        Some((at, 'k' | 'K')) => (plain[..at].trim_end(), 1_000),
        Some((at, 'm' | 'M')) => (plain[..at].trim_end(), 1_000_000),
        Some((at, 'g' | 'G')) => (plain[..at].trim_end(), 1_000_000_000),
        _ => (plain.as_str(), 1),
    };
    let bad = || format!("`{text}` is not a count: write a whole number, such as 5000000, 5_000_000, 5M or 100k");
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let is_digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !is_digits(whole) || !is_digits(fraction) || (digits.contains('.') && fraction.is_empty()) {
        return Err(bad());
    }
    let too_large = || format!("`{text}` is too large");
    let whole: u64 = whole.parse().map_err(|_| too_large())?;
    let mut parts = 0;
    let mut unit = scale;
    for b in fraction.bytes() {
        if unit % 10 != 0 {
            // The fraction must not be finer than one item: 1.5 and 1.2345k are invalid.
            return Err(bad());
        }
        unit /= 10;
        parts += u64::from(b - b'0') * unit;
    }
    whole.checked_mul(scale).and_then(|n| n.checked_add(parts)).ok_or_else(too_large)
}

/// Parses a number, such as 0.01.
///
/// # Errors
/// If the text is not a number.
pub fn parse_real(text: &str) -> Result<f32, String> {
    text.trim().parse().map_err(|_| format!("`{text}` is not a number: write one such as 0.01"))
}

/// Parses a shape m x n x k, such as 128x8192x8192, or 4096 for a cube.
///
/// # Errors
/// If the text is not a shape.
pub fn parse_shape(text: &str) -> Result<(u64, u64, u64), String> {
    let sizes = text.split(['x', 'X', '×']).map(parse_count).collect::<Result<Vec<u64>, _>>()?;
    match sizes[..] {
        [edge] => Ok((edge, edge, edge)),
        [m, n, k] => Ok((m, n, k)),
        _ => Err(format!(
            "`{text}` is not a shape: write m, n and k with an x between them, such as 128x8192x8192, or one number for a cube"
        )),
    }
}

/// Parses a type of matrices; fp32 and f32 are the same.
///
/// # Errors
/// If the text is not a type.
pub fn parse_dtype(text: &str) -> Result<Dtype, String> {
    match text.trim().to_ascii_lowercase().as_str() {
        "fp32" | "f32" => Ok(Dtype::F32),
        "tf32" => Ok(Dtype::Tf32),
        "fp16" | "f16" => Ok(Dtype::F16),
        "bf16" => Ok(Dtype::Bf16),
        _ => Err(format!("`{text}` is not a type of a matrix: choose fp32, tf32, fp16 or bf16")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_and_types_are_read() {
        let check = |text: &str, expect: Option<(u64, u64, u64)>| assert_eq!(parse_shape(text).ok(), expect, "{text}");
        check("4096", Some((4096, 4096, 4096)));
        check("128x8192x8k", Some((128, 8192, 8000)));
        check("1 x 2 x 3", Some((1, 2, 3)));
        check("1x2", None);
        check("1x2x3x4", None);
        check("", None);
        check("axbxc", None);
        assert_eq!(parse_dtype(" BF16").ok(), Some(Dtype::Bf16));
        assert_eq!(parse_dtype("f32").ok(), Some(Dtype::F32));
        assert!(parse_dtype("int8").unwrap_err().contains("choose fp32"));
    }

    #[test]
    fn counts_are_read() {
        let check = |text: &str, expect: Option<u64>| assert_eq!(parse_count(text).ok(), expect, "{text}");
        check("5000000", Some(5_000_000));
        check("5_000_000", Some(5_000_000));
        check("5M", Some(5_000_000));
        check("100k", Some(100_000));
        check("1.5M", Some(1_500_000));
        check("1.250k", Some(1_250));
        check(" 2 G ", Some(2_000_000_000));
        check("0", Some(0));
        check("1.5", None);
        check("1.2345k", None);
        check("1.", None);
        check("-5", None);
        check("", None);
        check("M", None);
        check("5e6", None);
        check("5MM", None);
        check("é", None);
        check("18446744073709551616", None);
        check("99999999999999G", None);
    }
}
