//! The commands `warpbook train` and `warpbook speedrun`: choosing a mode from the command line, and starting it.

mod processes;
mod ranks;
mod settings;
mod speedrun;
mod watched;
mod whole;

use crate::args::{CommandLine, RunsOn, SpeedrunArgs, TrainArgs, WatchedArgs, WholeArgs};
use crate::failure::Failure;
use crate::processes::{RankSettings, device_of, work};
use crate::recipe::SPEEDRUN;
use processes::WholeProcesses;
use ranks::{Launcher, Role};
use settings::Settings;
use speedrun::Speedrun;
use std::process::ExitCode;
use warpbook::ranks::Placement;
use watched::Watched;
use whole::{Goal, ProcessResult};

/// The modes in which a process trains.
enum Mode {
    /// Trains in this process alone, showing the steps.
    Watched(Watched),
    /// Trains from each seed without output in between.
    Speedrun(Speedrun),
    /// Starts a new process for each seed.
    WholeProcesses(WholeProcesses),
    /// Starts ranks without training itself.
    Launcher(Launcher),
    /// Trains as one of several ranks, showing the steps.
    Rank(Rank),
}

/// A rank of a training with several ranks.
struct Rank {
    placement: Placement,
    settings: RankSettings,
    training: Watched,
}

/// Trains a network, and saves a checkpoint after every epoch if checkpoints are requested.
pub fn train(args: TrainArgs) -> Result<ExitCode, Failure> {
    Mode::of_train(args)?.run()
}

/// Trains from several seeds and measures the time and accuracy of each.
pub fn speedrun(args: SpeedrunArgs) -> Result<ExitCode, Failure> {
    Mode::of_speedrun(args)?.run()
}

impl Mode {
    fn run(self) -> Result<ExitCode, Failure> {
        match self {
            Self::Watched(training) => training.run(None),
            Self::Speedrun(trainings) => trainings.run(),
            Self::WholeProcesses(processes) => processes.run(),
            Self::Launcher(launcher) => launcher.run(),
            Self::Rank(rank) => work(&rank.placement, &rank.settings, |ranks| rank.training.run(Some(ranks))),
        }
    }

    /// Returns the mode of `warpbook speedrun`.
    fn of_speedrun(args: SpeedrunArgs) -> Result<Self, Failure> {
        if let Some(place) = Placement::from_environment()? {
            return Err(is_a_rank("A speedrun is", &place));
        }
        let command = args.command();
        let SpeedrunArgs { whole, training } = args;
        let (at_once, device) = (whole.cold.is_none() || training.recipe == SPEEDRUN, training.place.device.choice()?);
        let seed_of_process = whole.cold_seed;
        let settings = Settings { args: training, edge: None, init: None, seed_of_process, device };
        Self::alone(settings, (whole, at_once), WatchedArgs::default(), command)
    }

    /// Returns the mode of `warpbook train`, which can also time whole trainings.
    fn of_train(args: TrainArgs) -> Result<Self, Failure> {
        let (asked, named) = (args.together.count(), args.training.place.device.choice()?);
        ranks::ensure_one_kind(asked, named)?;
        let role = Role::new(&args.together)?;
        let at_once = trains_at_once(&args);
        let is_whole = at_once || args.whole.cold.is_some();
        ensure_goal_is_of_whole_trainings(&args.whole, is_whole, args.training.out.is_some())?;
        ensure_one_process(&args, &role, is_whole)?;
        let command = args.command();
        let TrainArgs { training, edge, init, watched, together, whole } = args;
        let seed_of_process = whole.cold_seed;
        let settings = |device| Settings { args: training, edge, init, seed_of_process, device };
        match role {
            Role::Alone => {
                let settings = settings(ranks::device_alone(asked, named));
                Self::alone(settings, (whole, at_once), watched, command)
            }
            Role::Launcher(count) => {
                ranks::settings(&together)?;
                Ok(Self::Launcher(Launcher { count, on_gpus: matches!(asked, Some((RunsOn::Gpus, _))) }))
            }
            Role::Rank(placement) => {
                let settings = settings(device_of(&placement, asked.map(|(on, _)| on), named)?);
                let training = Watched { settings, args: watched, command, data_note: whole.data_note, result: None };
                Ok(Self::Rank(Rank { placement, settings: ranks::settings(&together)?, training }))
            }
        }
    }

    /// Returns the mode of a process that trains alone.
    fn alone(
        settings: Settings,
        (whole, at_once): (WholeArgs, bool),
        watched: WatchedArgs,
        command: CommandLine,
    ) -> Result<Self, Failure> {
        let (goal, result) = (Goal::new(&whole)?, ProcessResult::asked(&whole));
        if result.is_none() && whole.cold.is_some() {
            return match watched.given() {
                Some(name) => Err(Failure::usage(format!(
                    "--{name} does not go with --cold, whose processes train from the beginning to the end and keep nothing: leave one of them out."
                ))),
                None => Ok(Self::WholeProcesses(WholeProcesses { settings, goal })),
            };
        }
        if !at_once {
            let result = result.map(|result| (result, goal));
            return Ok(Self::Watched(Watched { settings, args: watched, command, data_note: whole.data_note, result }));
        }
        match option_of_watched(&watched, settings.init.is_some()) {
            Some(name) => Err(Failure::usage(format!(
                "--{name} does not go with --seeds or --hold-out, which time whole trainings: leave out --seeds and --hold-out, or --{name}."
            ))),
            None => Ok(Self::Speedrun(Speedrun { settings, hold_out: whole.hold_out, goal, command, result })),
        }
    }
}

/// Returns the name of a given option that trainings without output in between do not support.
fn option_of_watched(watched: &WatchedArgs, has_init: bool) -> Option<&'static str> {
    let rung = watched.rung.as_ref().map(|_| "rung");
    watched.given().or(rung).or(has_init.then_some("init"))
}

/// Returns true if `warpbook train` trains without output in between.
fn trains_at_once(args: &TrainArgs) -> bool {
    let WholeArgs { seeds, hold_out, cold, .. } = &args.whole;
    // With several processes, --out is the record of all processes, which no single process writes.
    let has_record = args.training.out.is_some() && cold.is_none();
    let is_kept = has_record || option_of_watched(&args.watched, args.init.is_some()).is_some();
    seeds.is_some() || hold_out.is_some() || args.training.recipe == SPEEDRUN && !is_kept
}

/// Returns an error if an option for the record of whole trainings is given for a training of another kind, or if a
/// description of the images has no record to be in.
fn ensure_goal_is_of_whole_trainings(whole: &WholeArgs, is_whole: bool, has_record: bool) -> Result<(), Failure> {
    let why = match (whole.to, &whole.data_note) {
        _ if is_whole => return Ok(()),
        (Some(_), _) => "--to is for the record of whole trainings: add --seeds N, or --cold N for whole processes.",
        (None, Some(_)) if !has_record => {
            "--data-note is for the record of whole trainings or of --out: add --seeds N, --cold N or --out FILE."
        }
        (None, _) => return Ok(()),
    };
    Err(Failure::usage(why))
}

/// Returns an error if several ranks are requested for work that needs one process.
fn ensure_one_process(args: &TrainArgs, role: &Role, is_whole: bool) -> Result<(), Failure> {
    if !(is_whole || args.watched.profile.is_some()) {
        return Ok(());
    }
    match role {
        Role::Alone => Ok(()),
        Role::Rank(place) if args.together.count().is_none() => {
            Err(is_a_rank("--seeds, --hold-out, --cold and --profile are", place))
        }
        Role::Launcher(_) | Role::Rank(_) => {
            let why = match &*args.training.recipe {
                SPEEDRUN => "cifar10-speedrun is timed as a whole training unless --checkpoint or --out is given. ",
                _ => "",
            };
            Err(Failure::usage(format!(
                "{why}Whole trainings (--seeds, --hold-out, --cold) and --profile are for one rank: leave out --gpus and --ranks, or these options."
            )))
        }
    }
}

fn is_a_rank(what: &str, place: &Placement) -> Failure {
    let Placement { launcher, rank, world, .. } = place;
    Failure::usage(format!(
        "{what} for one process, and {} say that this one is rank {rank} of {world}: unset them.",
        launcher.variables()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Command, parse};

    fn mode(words: &str) -> Result<Mode, Failure> {
        let words = ["warpbook"].into_iter().chain(words.split(' '));
        match parse(words.map(Into::into)).unwrap().0 {
            Command::Train(args) => Mode::of_train(*args),
            Command::Speedrun(args) => Mode::of_speedrun(*args),
            _ => panic!("a training"),
        }
    }

    fn name(words: &str) -> &'static str {
        match mode(words).unwrap_or_else(|why| panic!("{words}: {}", why.sentence)) {
            Mode::Watched(Watched { result: None, .. }) => "watched",
            Mode::Watched(_) => "watched, a process of several",
            Mode::Speedrun(Speedrun { result: None, .. }) => "speedrun",
            Mode::Speedrun(_) => "speedrun, a process of several",
            Mode::WholeProcesses(_) => "processes",
            Mode::Launcher(_) => "launcher",
            Mode::Rank(_) => "rank",
        }
    }

    #[test]
    fn the_options_say_how_a_process_trains() {
        let check = |words: &str, expect: &str| assert_eq!(name(words), expect, "{words}");
        check("train mnist", "watched");
        check("train mnist --out r.json --checkpoint c --profile p.json", "watched");
        check("train mnist --seeds 3", "speedrun");
        check("train mnist --hold-out 500", "speedrun");
        check("train mnist --cold 3 --to 99", "processes");
        check("train mnist --ranks 2", "launcher");
        check("train mnist --ranks 1", "watched");
        // The timed recipe shows its steps if any of its results is saved.
        check("train cifar10-speedrun", "speedrun");
        for kept in ["--out r.json", "--checkpoint c", "--profile p.json", "--time-budget 5s", "--rung 01_direct"] {
            check(&format!("train cifar10-speedrun {kept}"), "watched");
        }
        check("train cifar10-speedrun --cold 3 --out r.json", "processes");
        check("speedrun mnist", "speedrun");
        check("speedrun cifar10-speedrun --seeds 10 --to 90 --out r.json", "speedrun");
        check("speedrun mnist --cold 3", "processes");
        for command in ["train", "speedrun"] {
            let child = "--cold 3 --cold-result r --cold-seed 7 --out r.json";
            check(&format!("{command} mnist {child}"), "watched, a process of several");
            check(&format!("{command} cifar10-speedrun {child}"), "speedrun, a process of several");
        }
        check(
            "train cifar10-speedrun --init w --cold 3 --cold-result r --cold-seed 7",
            "watched, a process of several",
        );
    }

    #[test]
    fn both_commands_train_the_same() {
        for words in ["mnist --seeds 3 --to 99 --batch 64 --seed 5 --out r.json", "mnist --hold-out 9 --data-note x"] {
            let trainings = ["train", "speedrun"].map(|command| match mode(&format!("{command} {words}")) {
                Ok(Mode::Speedrun(trainings)) => trainings,
                _ => panic!("{words}"),
            });
            let [one, other] = trainings
                .map(|t| (t.goal, t.hold_out, t.settings.args.out, t.settings.args.batch, t.settings.args.seed));
            assert_eq!(one, other, "{words}");
        }
    }

    #[test]
    fn options_that_do_not_go_together_are_refused_before_anything_is_opened() {
        let check = |words: &str, part: &str| {
            let why = mode(words).err().unwrap_or_else(|| panic!("{words}")).sentence;
            assert!(why.contains(part), "{words}: {why}");
        };
        check("train mnist --to 99", "--to is for the record of whole trainings: add --seeds N, or --cold N");
        check("train mnist --data-note x", "--data-note is for the record of whole trainings");
        check("train mnist --data-note x --checkpoint c", "add --seeds N, --cold N or --out FILE");
        check(
            "train mnist --to 99 --out r.json",
            "--to is for the record of whole trainings: add --seeds N, or --cold N",
        );
        check("train mnist --seeds 2 --to 101", "choose a percentage above 0, up to 100");
        check("speedrun mnist --to 0", "choose a percentage above 0, up to 100");
        for (option, value) in
            [("init", "w"), ("resume", "c"), ("checkpoint", "c"), ("time-budget", "5s"), ("profile", "p")]
        {
            check(
                &format!("train mnist --seeds 2 --{option} {value}"),
                &format!("leave out --seeds and --hold-out, or --{option}"),
            );
        }
        for (option, value) in [("resume", "c"), ("checkpoint", "c"), ("time-budget", "5s"), ("profile", "p")] {
            check(&format!("train mnist --cold 2 --{option} {value}"), &format!("--{option} does not go with --cold"));
        }
        for option in ["--seeds 2", "--hold-out 5", "--cold 2", "--profile p"] {
            check(
                &format!("train mnist --ranks 2 {option}"),
                "--profile are for one rank: leave out --gpus and --ranks",
            );
        }
        check(
            "train cifar10-speedrun --ranks 2",
            "cifar10-speedrun is timed as a whole training unless --checkpoint or --out is given",
        );
        check("train mnist --gpus 2 --device cpu", "--gpus 2 trains on GPUs");
        check("train mnist --ranks 0", "--ranks 0: choose at least 1");
        check("train mnist --ranks 2 --bucket 0", "--bucket 0: choose MiB above 0");
    }
}
