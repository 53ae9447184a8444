//! Options of `warpbook speedrun`.

use super::command::CommandLine;
use super::settings::TrainingArgs;
use super::whole::WholeArgs;
use clap::Args;

pub const SPEEDRUN_ABOUT: &str = "\
Time whole trainings, and write one record of their times and accuracies.

With --seeds the time runs from images on the device to the accuracy; nothing is printed, kept or profiled in between. With --cold it is the time of a \
whole process, from its start to its end. `warpbook train` shows a training step by step, and keeps, resumes and profiles it.";

pub const SPEEDRUN_EXAMPLES: &str = "\
Examples:
  warpbook speedrun cifar10-speedrun --precision amp-bf16 --seeds 10 --to 90 --out speedrun.json     time and accuracy of each seed
  warpbook speedrun cifar10-speedrun --precision amp-bf16 --seeds 10 --views flips     test images and their mirror images, without shifts
  warpbook speedrun cifar10-speedrun --precision amp-bf16 --seeds 10 --hold-out 5000 --epochs 9 --steps 200     tested on training images
  warpbook speedrun mnist --precision amp-fp16 --epochs 8 --cold 10 --to 99 --out mnist-to-99.json     whole processes

Processes of --cold print nothing, and train as `warpbook train` does, which classifies the test images after each epoch; processes of cifar10-speedrun classify \
them once, at the end.

Ctrl-C ends at once; the record has the finished trainings. See `warpbook --help` for the exit codes, and `warpbook train --help` for the file of a \
recipe of your own.";

#[derive(Debug, Args)]
pub struct SpeedrunArgs {
    #[command(flatten)]
    pub whole: WholeArgs,
    #[command(flatten)]
    pub training: TrainingArgs,
}

impl SpeedrunArgs {
    /// Returns the command that repeats the training.
    pub fn command(&self) -> CommandLine {
        let mut line = self.training.command("speedrun", false);
        self.whole.add_to(&mut line);
        line.file("out", self.training.out.as_deref());
        self.training.add_flags_to(&mut line);
        line
    }
}

#[cfg(test)]
mod tests {
    use super::SpeedrunArgs;
    use clap::{Args, Command, FromArgMatches};

    #[test]
    fn the_command_of_a_record_trains_the_same() {
        let parsed = |words: &[&str]| {
            let command = SpeedrunArgs::augment_args(Command::new("speedrun"));
            SpeedrunArgs::from_arg_matches(&command.get_matches_from([&["speedrun"], words].concat())).unwrap()
        };
        let words = [
            "cifar10-speedrun",
            "--device",
            "cpu",
            "--precision",
            "amp-bf16",
            "--seed",
            "4",
            "--views",
            "flips",
            "--cold",
            "5",
            "--to",
            "90",
            "--data-note",
            "recompressed as JPEG",
            "--out",
            "s.json",
            "--no-dropout",
        ];
        let more = ["--cold-result", "r", "--cold-seed", "9", "--cold-record", "c"];
        let text = parsed(&[&words[..], &more].concat()).command().on("cpu");
        let expect = words.map(|word| if word.contains(' ') { "'recompressed as JPEG'" } else { word });
        assert_eq!(text, format!("warpbook speedrun {}", expect.join(" ")));
        let short = parsed(&["mnist", "--seeds", "2", "--hold-out", "9"]).command().on("cuda:1");
        assert_eq!(short, "warpbook speedrun mnist --device cuda:1 --precision fp32 --seeds 2 --hold-out 9");
    }
}
