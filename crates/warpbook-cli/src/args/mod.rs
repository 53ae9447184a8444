//! The command line, with one file for each group of commands.

mod common;
mod datasets;
mod devices;
mod exercises;
mod experiments;
mod inference;
mod records;
mod training;

pub use datasets::{DataArgs, DataCommand, FetchArgs};
pub use devices::{DevicesArgs, DoctorArgs};
pub use exercises::{ExerciseArgs, ExerciseCommand};
pub use experiments::{AttemptArgs, Chosen, ChosenXray, RunArgs, SurveyArgs, SurveyCommand, SurveyMatmulArgs};
pub use experiments::{TuneArgs, TuneCommand, TuneMatmulArgs, WorkArgs, XrayArgs};
pub use inference::{EvalArgs, FreezeArgs, PredictArgs};
pub use records::{MergeArgs, ShareArgs, ViewArgs};
pub use training::{CommandLine, RanksArgs, RunsOn, ScalingArgs};
pub use training::{SpeedrunArgs, TrainArgs, TrainingArgs, WatchedArgs, WholeArgs};

use crate::failure::USAGE;
use crate::output::is_loss;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use datasets::DATA_EXAMPLES;
use devices::{DEVICES_EXAMPLES, DOCTOR_EXAMPLES};
use exercises::EXERCISE_EXAMPLES;
use experiments::{ATTEMPT_ABOUT, ATTEMPT_EXAMPLES, RUN_EXAMPLES, SURVEY_EXAMPLES, TUNE_EXAMPLES};
use experiments::{XRAY_ABOUT, XRAY_EXAMPLES};
use inference::{EVAL_EXAMPLES, FREEZE_EXAMPLES, PREDICT_EXAMPLES};
use records::{MERGE_EXAMPLES, SHARE_EXAMPLES, VIEW_EXAMPLES};
use std::io::Write;
use training::{OPTIONS_OF_WHOLE_TRAININGS, SCALING_ABOUT, SCALING_EXAMPLES};
use training::{SPEEDRUN_ABOUT, SPEEDRUN_EXAMPLES, TRAIN_EXAMPLES};
use warpbook::settings::Entry;

/// A CUDA optimisation lab: kernels in steps, each checked and timed.
#[derive(Debug, Parser)]
#[command(name = "warpbook", version, about, long_about = LONG_ABOUT, after_help = EXAMPLES, propagate_version = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

const LONG_ABOUT: &str = "\
A CUDA optimisation lab. An experiment does the same work in several ways, its rungs: from one CPU thread \
through plain kernels to the fastest that the GPU allows. Each rung is checked against a reference and then timed, and \
all of it becomes a record (JSON) that `warpbook view` and the notebooks open. Without a GPU the CPU's rungs run \
and the others are listed as skipped.";

const EXAMPLES: &str = "\
Examples:
  warpbook devices                       the devices of this machine
  warpbook doctor                        checks of driver, compiler and cache, with remedies
  warpbook run regression --quick        a first record within a minute
  warpbook run regression --points 50M   one size, all rungs
  warpbook xray matmul --rung 14_overlapped_store   the timeline of every SM in a run
  warpbook attempt mine.cu --like 02_coalesced   a kernel of your own
  warpbook exercise watch                the workshop's exercises, tried at each save
  warpbook view regression.json          the record in the browser
  warpbook share regression.json         one HTML file that shows it, to share
  warpbook data fetch mnist              images to train on
  warpbook train mnist                   a network that reads digits
  warpbook speedrun mnist --seeds 5      the time and the accuracy of whole trainings
  warpbook predict digits.safetensors a.png    the classes of an image, once the network is frozen

Exit codes:
    0  everything was measured, or skipped for lack of hardware
    1  a rung failed: an error, a wrong result, a descent that diverged
    2  bad usage or settings, an output that cannot be written, a file that is not a record
    3  the device cannot be used
    4  another rank of the same training failed, died or hangs (train --gpus, --ranks)
  130  interrupted (Ctrl-C); the record has the measurements so far";

#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the GPUs and the CPU, with driver, CUDA and NVRTC.
    #[command(after_help = DEVICES_EXAMPLES)]
    Devices(DevicesArgs),
    /// Run an experiment, or the quick suite of all of them.
    #[command(after_help = RUN_EXAMPLES)]
    Run(RunArgs),
    /// Time training steps on 1 to N GPUs or processes, and print how well they scale.
    #[command(long_about = SCALING_ABOUT, after_help = SCALING_EXAMPLES)]
    Scaling(Box<ScalingArgs>),
    /// Show the timeline of every SM in a run of a rung, block by block and phase by phase.
    #[command(long_about = XRAY_ABOUT, after_help = XRAY_EXAMPLES)]
    Xray(XrayArgs),
    /// Find the fastest rung and tile for products of some sizes on this device, and remember them.
    #[command(after_help = TUNE_EXAMPLES)]
    Tune(TuneArgs),
    /// Compare the kernels chosen for products with NVIDIA's library, at random shapes.
    #[command(after_help = SURVEY_EXAMPLES)]
    Survey(SurveyArgs),
    /// Compile your own kernel in place of a rung's, check it, and time it with the ladder.
    #[command(long_about = ATTEMPT_ABOUT, after_help = ATTEMPT_EXAMPLES)]
    Attempt(AttemptArgs),
    /// Run the part of an attempt that needs a separate process.
    #[command(hide = true)]
    Work(WorkArgs),
    /// Solve the workshop's exercises: show, try, watch, hints, solutions.
    #[command(after_help = EXERCISE_EXAMPLES)]
    Exercise(ExerciseArgs),
    /// Merge records of the same work on the same device, such as Warpbook's and another framework's.
    #[command(after_help = MERGE_EXAMPLES)]
    Merge(MergeArgs),
    /// Open records in the browser, or print them.
    #[command(after_help = VIEW_EXAMPLES)]
    View(ViewArgs),
    /// Write one HTML file with the viewer and records, to share.
    #[command(after_help = SHARE_EXAMPLES)]
    Share(ShareArgs),
    /// Train a network.
    #[command(after_help = TRAIN_EXAMPLES)]
    Train(Box<TrainArgs>),
    /// Time whole trainings, seed by seed or process by process.
    #[command(long_about = SPEEDRUN_ABOUT, after_help = SPEEDRUN_EXAMPLES)]
    Speedrun(Box<SpeedrunArgs>),
    /// Classify the test images with a trained network.
    #[command(after_help = EVAL_EXAMPLES)]
    Eval(EvalArgs),
    /// Write a trained network to one file, for `predict` and `eval`.
    #[command(after_help = FREEZE_EXAMPLES)]
    Freeze(FreezeArgs),
    /// Classify PNG and JPEG images with a frozen network.
    #[command(after_help = PREDICT_EXAMPLES)]
    Predict(PredictArgs),
    /// Download data sets of images, and list them.
    #[command(after_help = DATA_EXAMPLES)]
    Data(DataArgs),
    /// Check driver, GPUs, compiler and cache, and run a small experiment.
    #[command(after_help = DOCTOR_EXAMPLES)]
    Doctor(DoctorArgs),
}

/// A request that a command's own arguments do not contain: the experiment of `run NAME` and `xray NAME` with its settings.
pub enum Asked {
    Nothing,
    Run(Chosen),
    Xray(ChosenXray),
}

/// Parses the command line.
pub fn parse(words: impl IntoIterator<Item = std::ffi::OsString>) -> Result<(Command, Asked), warpbook::Error> {
    let entries = warpbook::experiments();
    let matches = command(&entries).try_get_matches_from(words).unwrap_or_else(|e| end(&e));
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|e| e.exit());
    let named = |command: &str| {
        let (name, of_it) = matches.subcommand_matches(command)?.subcommand()?;
        Some((entries.iter().find(|e| e.name == name)?, of_it))
    };
    let asked = match (named("run"), named("xray")) {
        (Some((entry, of_it)), _) => Asked::Run(experiments::chosen(entry, of_it)?),
        (None, Some((entry, of_it))) => Asked::Xray(experiments::chosen_xray(entry, of_it)?),
        (None, None) => Asked::Nothing,
    };
    Ok((cli.command, asked))
}

/// Ends the program with the requested help, or with an error about the command line.
fn end(message: &clap::Error) -> ! {
    let printed = message.print().and_then(|()| std::io::stdout().flush());
    let lost = printed.is_err_and(|why| is_loss(&why));
    std::process::exit(if lost { USAGE.into() } else { message.exit_code() })
}

/// Returns the whole command line.
fn command(entries: &[Entry]) -> clap::Command {
    let with_runs = Cli::command().mut_subcommand("run", |command| experiments::with_experiments(command, entries));
    let whole = with_runs.mut_subcommand("xray", |command| experiments::xray_with_experiments(command, entries));
    let hidden = |option: clap::Arg| option.hide(true);
    let train = |command| {
        OPTIONS_OF_WHOLE_TRAININGS.iter().fold(command, |train: clap::Command, option| train.mut_arg(option, hidden))
    };
    taking_negative_numbers(whole.mut_subcommand("train", train))
}

/// Lets every option accept `-1`, so that the option's own error message can list the valid values.
fn taking_negative_numbers(command: clap::Command) -> clap::Command {
    let options = command.mut_args(|arg| {
        let takes_values = arg.get_action().takes_values() && !arg.is_positional() && !arg.is_allow_hyphen_values_set();
        if takes_values { arg.allow_negative_numbers(true) } else { arg }
    });
    options.mut_subcommands(taking_negative_numbers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpbook::device::Bench;
    use warpbook::{Experiment, Matmul, Regression};

    #[test]
    fn the_command_line_is_sound() {
        command(&warpbook::experiments()).debug_assert();
    }

    /// Splits a command into words like a shell.
    fn words_of(command: &str) -> Vec<String> {
        let (mut words, mut is_new) = (Vec::<String>::new(), true);
        for (i, part) in command.split('\'').enumerate() {
            let is_quoted = i % 2 == 1;
            for c in part.chars() {
                if c == ' ' && !is_quoted {
                    is_new = true;
                    continue;
                }
                if std::mem::take(&mut is_new) {
                    words.push(String::new());
                }
                words.last_mut().unwrap().push(c);
            }
        }
        words
    }

    fn commands_in(json: &serde_json::Value, found: &mut Vec<String>) {
        match json {
            serde_json::Value::Object(of) => of.iter().for_each(|(key, value)| match value {
                serde_json::Value::String(text) if key == "command" => {
                    found.extend(text.split(" && ").map(str::to_owned));
                }
                value => commands_in(value, found),
            }),
            serde_json::Value::Array(all) => all.iter().for_each(|value| commands_in(value, found)),
            _ => {}
        }
    }

    /// Returns the commands in all published records, whatever version wrote them, and the commands in the scripts that make the records again.
    fn published_commands(folder: &std::path::Path) -> Vec<String> {
        let mut found = Vec::new();
        for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                found.extend(published_commands(&path));
            } else if path.extension().is_some_and(|end| end == "sh") {
                let script = std::fs::read_to_string(path).unwrap();
                found.extend(script.lines().map(|line| line.trim().trim_end_matches(" &&").to_owned()));
            } else if path.extension().is_some_and(|end| end == "json") {
                commands_in(&serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap(), &mut found);
            }
        }
        found.retain(|command| command.starts_with("warpbook "));
        found
    }

    #[test]
    fn the_commands_of_published_records_are_still_commands() {
        let root = warpbook::device::testing::manifest_dir(env!("CARGO_MANIFEST_DIR"));
        let mut names = Vec::new();
        for text in published_commands(&root.join("../../data")) {
            let words = words_of(&text);
            let matches = command(&warpbook::experiments()).try_get_matches_from(&words);
            matches.unwrap_or_else(|why| panic!("{text}: {why}"));
            let (command, asked) = parse(words.iter().map(Into::into)).unwrap_or_else(|why| panic!("{text}: {why}"));
            let is_set_up = match command {
                Command::Run(_) => matches!(asked, Asked::Run(_)),
                Command::Xray(_) => matches!(asked, Asked::Xray(_)),
                _ => matches!(asked, Asked::Nothing),
            };
            assert!(is_set_up, "{text}");
            names.push(words[1].clone());
        }
        let names_of_all =
            [("run", 80), ("train", 27), ("scaling", 4), ("xray", 6), ("speedrun", 4), ("merge", 30), ("survey", 4)];
        for (name, least) in names_of_all {
            assert!(names.iter().filter(|n| *n == name).count() >= least, "{name}: {names:?}");
        }
    }

    #[test]
    fn train_takes_the_options_of_whole_trainings_and_does_not_list_them() {
        let mut all = command(&warpbook::experiments());
        let mut help = |name: &str| all.find_subcommand_mut(name).unwrap().render_long_help().to_string();
        let (train, speedrun) = (help("train"), help("speedrun"));
        let lists = |help: &str, option: &str| help.lines().any(|line| line.trim_start().starts_with(option));
        for option in ["--seeds <", "--hold-out <", "--cold <", "--to <", "--data-note <"] {
            assert!(!lists(&train, option) && lists(&speedrun, option), "{option}");
        }
        for option in ["--checkpoint <", "--resume <", "--profile <", "--gpus <", "--rung <", "--log-every <"] {
            assert!(lists(&train, option) && !lists(&speedrun, option), "{option}");
        }
    }

    fn run(words: &[&str]) -> Result<Chosen, warpbook::Error> {
        let words = ["warpbook", "run"].iter().chain(words).map(std::ffi::OsString::from);
        parse(words).map(|(_, asked)| match asked {
            Asked::Run(chosen) => chosen,
            _ => panic!("an experiment was named"),
        })
    }

    #[test]
    fn settings_reach_the_experiment_and_its_command_repeats_them() {
        let command_of = |e: &dyn Experiment| e.plan(None).unwrap().command_on("cpu");
        let command = |words: &[&str]| command_of(&*run(words).unwrap().experiments[0]);
        assert_eq!(command(&["regression"]), command_of(&Regression::new()));
        assert_eq!(command(&["regression", "--sweep"]), command_of(&Regression::sweep()));
        assert_eq!(command(&["matmul", "--quick"]), command_of(&Matmul::quick()));
        let regression = [
            "regression",
            "--points",
            "1k,2_000",
            "--points",
            "3k",
            "--epochs",
            "7",
            "--lr",
            "0.5",
            "--noise",
            "0.2",
            "--seed",
            "9",
            "--start",
            "-1,0.5",
            "--truth",
            "-2,7",
            "--features",
            "3",
            "--also",
            "5kx16",
            "--rungs",
            "02_fused,cpu_1_thread",
            "--tile",
            "t512x16b2",
            "--no-parts",
        ];
        let matmul =
            ["matmul", "--shape", "64,1x2x3", "--dtype", "tf32", "--also", "8:bf16", "--trans-a", "--no-tiles"];
        for words in [&regression[..], &matmul[..]] {
            let text = command(words);
            let again: Vec<&str> = text.split(' ').skip(2).collect();
            assert_eq!(command(&again), text);
        }
        let text = command(&regression);
        assert!(text.contains("--points 1000,2000,3000 --features 3 --also 5000x16 --epochs 7 --lr 0.5"), "{text}");
        assert!(text.contains("--seed 9 --start -1,0.5 --truth -2,7 "), "{text}");
    }

    #[test]
    fn settings_that_say_nothing_are_refused_by_name() {
        let check = |words: &[&str], expect: &str| {
            let error = run(words).err().expect("it is refused").to_string();
            assert!(error.contains(expect), "{error}");
        };
        check(&["regression", "--points", "many"], "--points: `many` is not a count");
        check(&["regression", "--also", "5M"], "--also: `5M` is not a size");
        check(&["matmul", "--dtype", "int8"], "--dtype: `int8` is not a type");
        let word = |words: &str| {
            command(&warpbook::experiments()).try_get_matches_from(words.split(' ')).unwrap_err().to_string()
        };
        for words in
            ["warpbook train mnist --epochs -1", "warpbook survey matmul --seed -1", "warpbook view --live --port -1"]
        {
            assert!(word(words).contains("invalid value '-1' for '--"), "{}", word(words));
        }
        for (words, part) in [
            ("train mnist --resident perhaps", "[possible values: auto, on, off]"),
            ("speedrun mnist --pin perhaps", "[possible values: on, off]"),
            ("train mnist --workers 2000", "2000 is not in 0..=1024"),
        ] {
            let why = word(&format!("warpbook {words}"));
            assert!(why.contains(part), "{why}");
        }
        for words in [
            "warpbook train mnist --time-budget -1s",
            "warpbook scaling --ranks 2 --rank-timeout -1m",
            "warpbook train mnist --rank-timeout -5s",
        ] {
            assert!(word(words).contains("write a time above 0 such as 90s, 5m or 1h"), "{}", word(words));
        }
        check(&["matmul", "--shape", "1x2"], "--shape: `1x2` is not a shape");
    }

    #[test]
    fn an_x_ray_is_of_a_rung_and_takes_the_experiment_s_settings() {
        let words =
            "warpbook xray matmul --rung 13_persistent_cluster --shape 512 --dtype fp16 --out x.json --device cpu";
        let Ok((Command::Xray(_), Asked::Xray(asked))) = parse(words.split(' ').map(std::ffi::OsString::from)) else {
            panic!("it is an X-ray")
        };
        assert_eq!(asked.options.rung, "13_persistent_cluster");
        let command = asked.experiment.plan(None).unwrap().command_on("cpu");
        assert!(command.contains("--shape 512") && command.contains("--dtype fp16"), "{command}");
    }

    #[test]
    fn the_timing_is_bounded() {
        let bench = |words: &[&str]| {
            let chosen = run(&[&["regression"], words].concat()).unwrap();
            chosen.run.timing.bench(chosen.quick)
        };
        assert_eq!(bench(&["--quick"]).unwrap().samples, Bench::quick().samples);
        assert_eq!(bench(&["--samples", "3", "--budget", "0.5"]).unwrap().samples, 3);
        assert!(bench(&["--samples", "0"]).is_err());
        for bad in ["-1", "nan", "inf"] {
            assert!(bench(&["--budget", bad]).is_err(), "{bad}");
        }
    }
}
