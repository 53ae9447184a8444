//! The command line that repeats a run, for the run's record.

use std::path::Path;

/// A command line to which the device is added once the device is open.
#[derive(Debug, Clone)]
pub struct CommandLine {
    /// Words of the command line before `--device`.
    before: Vec<String>,
    /// Words of the command line after `--device`.
    after: Vec<String>,
}

impl CommandLine {
    /// Starts a command line with the command's name, a recipe, and the folder of the images.
    pub fn new(command: &str, recipe: &str, data: Option<&Path>) -> Self {
        let mut before = vec!["warpbook".to_owned(), command.to_owned(), recipe.to_owned()];
        before.extend(data.into_iter().flat_map(|folder| ["--data".to_owned(), folder.display().to_string()]));
        Self { before, after: Vec::new() }
    }

    /// Adds an option if it has a value.
    pub fn option(&mut self, name: &str, value: Option<impl ToString>) {
        self.after.extend(value.into_iter().flat_map(|value| [format!("--{name}"), value.to_string()]));
    }

    /// Adds an option with a file if there is one.
    pub fn file(&mut self, name: &str, path: Option<&Path>) {
        self.option(name, path.map(Path::display));
    }

    /// Adds an option that has no value, if it is on.
    pub fn flag(&mut self, name: &str, is_on: bool) {
        self.after.extend(is_on.then(|| format!("--{name}")));
    }

    /// Returns the command line for a device, quoted for a shell.
    pub fn on(&self, device: &str) -> String {
        let device = ["--device", device].map(str::to_owned);
        let words = self.before.iter().chain(&device).chain(&self.after);
        words.map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
    }
}

/// Quotes a word for a shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=+,@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}
