//! `warpbook`: the lab's experiments from a terminal.
#![forbid(unsafe_code)]

mod args;
mod at_once;
mod attempt;
mod cold;
mod data;
mod devices;
mod doctor;
mod download;
mod failure;
mod infer;
mod live;
mod merge;
mod output;
mod progress;
mod ranks;
mod recipe;
mod run;
mod save;
mod scaling;
mod share;
mod shelf;
mod signals;
mod survey;
mod train;
mod tune;
mod view;
mod viewer;
mod xray;

use args::{Asked, Command, SurveyCommand, TuneCommand};
use failure::{Failure, USAGE};
use std::process::ExitCode;

fn main() -> ExitCode {
    let _names = save::Reserved;
    signals::survive_file_limits();
    // A bug is reported as one line; where it is, a developer learns from RUST_BACKTRACE.
    if std::env::var_os("RUST_BACKTRACE").is_none() {
        std::panic::set_hook(Box::new(|info| {
            let place = info.location().map(ToString::to_string).unwrap_or_default();
            let what = info.payload_as_str().unwrap_or("it stopped");
            output::complain(&format!("This is a bug in Warpbook: {what} ({place}). RUST_BACKTRACE=1 shows more."));
        }));
    }
    warpbook::gemm::tell_of_tuning(output::complain);
    let tuning = warpbook::gemm::Tuning::of_environment().map_err(Failure::usage);
    let asked = tuning.and_then(|_| args::parse(std::env::args_os()).map_err(Failure::from));
    let done = asked.and_then(|(command, asked)| match command {
        Command::Devices(args) => devices::list(&args),
        Command::Run(args) => run::start(&args, if let Asked::Run(chosen) = asked { Some(chosen) } else { None }),
        Command::Xray(_) => match asked {
            Asked::Xray(chosen) => xray::xray(&chosen),
            _ => Err(Failure::usage(
                "Name an experiment and a rung, as in `warpbook xray matmul --rung 14_overlapped_store`.",
            )),
        },
        Command::Scaling(args) => scaling::scaling(&args),
        Command::Tune(args) => match args.what {
            TuneCommand::Matmul(args) => tune::matmul(&args),
        },
        Command::Survey(args) => match args.what {
            SurveyCommand::Matmul(args) => survey::matmul(&args),
        },
        Command::Attempt(args) => attempt::attempt(&args),
        Command::Work(args) => attempt::work(&args),
        Command::Merge(args) => merge::merge(&args),
        Command::Train(args) => train::train(&args),
        Command::Eval(args) => train::eval(&args),
        Command::Freeze(args) => infer::freeze(&args),
        Command::Predict(args) => infer::predict(&args),
        Command::Data(args) => data::data(&args),
        Command::View(args) => view::view(&args),
        Command::Share(args) => share::share(&args),
        Command::Doctor(args) => doctor::examine(&args),
    });
    let code = done.unwrap_or_else(|Failure { code, sentence }| {
        output::complain(&sentence);
        ExitCode::from(code)
    });
    match output::lost() {
        Some(why) if code == ExitCode::SUCCESS => {
            output::complain(&format!("Standard output cannot be written: {why}."));
            ExitCode::from(USAGE)
        }
        _ => code,
    }
}
