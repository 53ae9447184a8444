//! The program `warpbook`: the lab's experiments from a terminal.
#![forbid(unsafe_code)]

mod args;
mod datasets;
mod devices;
mod doctor;
mod exercises;
mod experiments;
mod failure;
mod files;
mod inference;
mod output;
mod processes;
mod recipe;
mod records;
mod scaling;
mod signals;
mod train;

use args::{Asked, Command, SurveyCommand, TuneCommand};
use failure::{Failure, USAGE};
use std::process::ExitCode;

fn main() -> ExitCode {
    let _names = files::ReservedNames;
    signals::survive_file_limits();
    // A bug is reported in one line; if RUST_BACKTRACE is set, the panic shows where the bug is.
    if std::env::var_os("RUST_BACKTRACE").is_none() {
        std::panic::set_hook(Box::new(|info| {
            let place = info.location().map(ToString::to_string).unwrap_or_default();
            let what = info.payload_as_str().unwrap_or("it stopped");
            output::warn(&format!("This is a bug in Warpbook: {what} ({place}). RUST_BACKTRACE=1 shows more."));
        }));
    }
    warpbook::gemm::tell_of_tuning(output::warn);
    let tuning = warpbook::gemm::Tuning::of_environment().map_err(Failure::usage);
    let asked = tuning.and_then(|_| args::parse(std::env::args_os()).map_err(Failure::from));
    let done = asked.and_then(|(command, asked)| match command {
        Command::Devices(args) => devices::list(&args),
        Command::Run(args) => experiments::run(&args, if let Asked::Run(chosen) = asked { Some(chosen) } else { None }),
        Command::Xray(_) => match asked {
            Asked::Xray(chosen) => experiments::xray(&chosen),
            _ => Err(Failure::usage(
                "Name an experiment and a rung, as in `warpbook xray matmul --rung 14_overlapped_store`.",
            )),
        },
        Command::Scaling(args) => scaling::scaling(&args),
        Command::Tune(args) => match args.what {
            TuneCommand::Matmul(args) => experiments::tune_matmul(&args),
        },
        Command::Survey(args) => match args.what {
            SurveyCommand::Matmul(args) => experiments::survey_matmul(&args),
        },
        Command::Attempt(args) => experiments::attempt(&args),
        Command::Work(args) => experiments::work(&args),
        Command::Exercise(args) => exercises::exercise(&args),
        Command::Merge(args) => records::merge(&args),
        Command::Train(args) => train::train(*args),
        Command::Speedrun(args) => train::speedrun(*args),
        Command::Eval(args) => inference::eval(&args),
        Command::Freeze(args) => inference::freeze(&args),
        Command::Predict(args) => inference::predict(&args),
        Command::Data(args) => datasets::data(&args),
        Command::View(args) => records::view(&args),
        Command::Share(args) => records::share(&args),
        Command::Doctor(args) => doctor::examine(&args),
    });
    let code = done.unwrap_or_else(|Failure { code, sentence }| {
        output::warn(&sentence);
        ExitCode::from(code)
    });
    match output::lost() {
        Some(why) if code == ExitCode::SUCCESS => {
            output::warn(&format!("Standard output cannot be written: {why}."));
            ExitCode::from(USAGE)
        }
        _ => code,
    }
}
