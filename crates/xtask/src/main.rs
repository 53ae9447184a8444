//! The developer's commands: `cargo xtask lab`, `test`, `web`, `notebooks`, `handout` and `publish`.
#![forbid(unsafe_code)]

mod browser;
mod drivers;
mod gpu;
mod handout;
mod lab;
mod lessons;
mod process;
mod publish;
mod site;
mod steps;
mod test;
mod tools;
mod workspace;
mod yardstick;

use clap::{Args, Parser, Subcommand};
use lessons::notebooks;
use publish::commands::Gpu;
use site::web;
use std::path::PathBuf;
use std::process::ExitCode;
use workspace::Workspace;

/// Warpbook's own commands.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", version, disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Install nothing: if something is missing, name it and fail.
    #[arg(long, global = true)]
    no_install: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Run the quick suite, then open JupyterLab and the viewer with its record.
    Lab(LabArgs),
    /// Run every check: format, lints, docs, tests, kernels, notebooks, the viewer in a browser.
    Test {
        /// Run only steps that need no Python, wasm or browser: format, lints, docs, tests, kernels, published files.
        #[arg(long)]
        quick: bool,
        /// Run only steps whose names contain one of these texts, as "viewer,notebooks".
        #[arg(long, value_name = "TEXT", value_delimiter = ',')]
        only: Vec<String>,
    },
    /// Build the viewer into web/dist.
    Web,
    /// Execute all notebooks on this machine's device.
    Notebooks {
        /// Store the outputs in the notebooks.
        #[arg(long)]
        write: bool,
    },
    /// Copy the repository for a class, without the exercises' solutions and wrong answers.
    Handout {
        /// New folder outside of this checkout.
        dir: PathBuf,
    },
    /// Write all files that are generated from data/results: its index, the JSON Schema, the tables of README.md and data/README.md, pictures.
    Publish {
        /// Write nothing, and fail if a file is stale.
        #[arg(long)]
        check: bool,
        /// Write nothing, and print a shell script with the command that makes each published record on a GPU machine.
        #[arg(long, conflicts_with = "check")]
        commands: bool,
        /// GPU that --commands is for. [default: h200]
        #[arg(long, value_enum, requires = "commands")]
        gpu: Option<Gpu>,
    },
}

/// Arguments of `cargo xtask lab`.
#[derive(Args)]
struct LabArgs {
    /// Stop before serving.
    #[arg(long)]
    no_serve: bool,
    /// Leave Jupyter out: no Python, no evcxr.
    #[arg(long)]
    no_notebooks: bool,
    /// Device of the quick suite: cuda:0, cpu or best.
    #[arg(long, env = "WARPBOOK_DEVICE")]
    device: Option<String>,
    /// JupyterLab's port on 127.0.0.1; if it is busy, the next free one is taken.
    #[arg(long, default_value_t = 8888)]
    port: u16,
    /// Viewer's port on 127.0.0.1; if it is busy, the next free one is taken.
    #[arg(long, default_value_t = 8787)]
    viewer_port: u16,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = Workspace::find(!cli.no_install).and_then(|w| match cli.command {
        Command::Lab(args) => lab::run_lab(&w, &args),
        Command::Test { quick, only } => test::run_all(&w, quick, only),
        Command::Web => web::run(&w),
        Command::Notebooks { write } => notebooks::run(&w, write),
        Command::Handout { dir } => handout::run(&w, &dir),
        Command::Publish { commands: true, gpu, .. } => publish::print_commands(gpu.unwrap_or(Gpu::H200)),
        Command::Publish { check, .. } => publish::run(&w, check),
    });
    match result {
        Ok(code) => code,
        Err(e) => {
            eprintln!("error: {e:#}");
            ExitCode::FAILURE
        }
    }
}
