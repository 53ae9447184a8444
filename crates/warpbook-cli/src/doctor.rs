//! The command `warpbook doctor`.

use crate::args::DoctorArgs;
use crate::failure::{DEVICE, Failure};
use crate::output::{one_line, say};
use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;
use warpbook::device::{Bench, Compiler, Inventory, Recorder};
use warpbook::{Lab, figures, trial};
use warpbook_record::{DeviceKind, Grid, KernelSpec, Outcome, Source, Tile};

/// A small kernel for testing the compiler.
const TRIAL: Source = Source {
    path: "doctor.cu",
    text: "extern \"C\" __global__ void trial(float* x /* [blocks] */) { x[blockIdx.x] = threadIdx.x; }\n",
};

/// Runs all checks and prints a line for each.
pub fn examine(args: &DoctorArgs) -> Result<ExitCode, Failure> {
    let choice = args.device.choice()?;
    let inventory = Inventory::take();
    // Prints a check's result and returns true if it succeeded. Only the trial run must succeed.
    let report = |what: &str, found: Result<String, String>| {
        let (verdict, text) = match &found {
            Ok(text) => ("ok", text),
            Err(remedy) => ("missing", remedy),
        };
        say(&format!("{what:<10} {verdict:<8} {}", one_line(text)));
        found.is_ok()
    };

    report("driver", driver(&inventory));
    report("GPUs", gpus(&inventory));
    report("NVML", nvml(&inventory));
    report("NVRTC", nvrtc(&inventory));
    report("compiler", compiler(&inventory));
    report("CUPTI", cupti(&inventory));
    report("cache", cache());
    report("viewer", viewer());
    report("terminal", Ok(terminal()));
    if !report("trial run", trial_run(choice)) {
        say("\nThe lab cannot run here.");
        return Ok(ExitCode::from(DEVICE));
    }
    say(if inventory.gpus().next().is_some() {
        "\nThe lab can run."
    } else {
        "\nThe lab can run, on the CPU: the GPU's rungs will be listed as skipped."
    });
    Ok(ExitCode::SUCCESS)
}

fn version((major, minor): (u32, u32)) -> String {
    format!("{major}.{minor}")
}

fn driver(i: &Inventory) -> Result<String, String> {
    let cuda = i.cuda.as_ref().map_err(ToString::to_string)?;
    let of_kernel = i.driver.as_ref().map(|d| format!("{d}, ")).unwrap_or_default();
    Ok(format!("{of_kernel}supports CUDA {}", version(*cuda)))
}

fn gpus(i: &Inventory) -> Result<String, String> {
    let names: Vec<String> = i
        .gpus()
        .map(|d| {
            let architecture = d.architecture().unwrap_or_default();
            format!("cuda:{} {} ({architecture}, {})", d.index, d.name, figures::bytes(d.memory_bytes))
        })
        .collect();
    match (&i.cuda, names.is_empty()) {
        (Err(_), _) => Err("without a driver none can be seen; the CPU's rungs run all the same".into()),
        (Ok(_), true) => Err("the driver shows none. Check CUDA_VISIBLE_DEVICES and nvidia-smi.".into()),
        (Ok(_), false) => Ok(names.join("; ")),
    }
}

fn nvml(i: &Inventory) -> Result<String, String> {
    match &i.driver {
        Some(_) => Ok("clocks, power and throttling will be in the records".into()),
        None => Err(
            "clocks and throttling will not be in the records; libnvidia-ml comes with the NVIDIA driver, so install that."
                .into(),
        ),
    }
}

fn nvrtc(i: &Inventory) -> Result<String, String> {
    let found = i.nvrtc.as_ref().map_err(ToString::to_string)?;
    Ok(format!("{} at {}", version(found.version()), found.path().display()))
}

/// Compiles the trial kernel for the first GPU, or for the oldest architecture if there is none.
fn compiler(i: &Inventory) -> Result<String, String> {
    let compiler = Compiler::new(i.cuda.as_ref().ok().copied())
        .map_err(|_| "no kernel can be compiled without NVRTC; see the line above".to_owned())?;
    let architecture = i.gpus().next().and_then(warpbook_record::DeviceInfo::architecture);
    let architecture = architecture.unwrap_or_else(|| "sm_75".into());
    let tile = Tile::new("t32", &[("THREADS", 32)]);
    let spec = KernelSpec::new(TRIAL, "trial", std::slice::from_ref(&tile), Grid::One);
    let compiled = compiler.compile(&spec, &tile, &architecture).map_err(|e| {
        format!("a kernel for {architecture} does not compile: {e} A newer NVRTC may: pip install --upgrade nvidia-cuda-nvrtc.")
    })?;
    let whence = if compiled.from_cache { "from the cache" } else { "compiled now" };
    Ok(format!("a kernel for {architecture}, {} of code, {whence}", figures::bytes(compiled.cubin.len() as u64)))
}

fn cupti(i: &Inventory) -> Result<String, String> {
    let (version, path) = Recorder::find(i.cuda.as_ref().ok().copied()).map_err(|e| e.to_string())?;
    let version = figures::versions(&format!("CUPTI {version}"));
    Ok(format!("{} at {}", version.trim_start_matches("CUPTI "), path.display()))
}

fn cache() -> Result<String, String> {
    let none = "kernels are compiled at every start: name a folder in WARPBOOK_CACHE";
    let folder = warpbook::record::cache_folder().ok_or(none)?;
    let probe = folder.join(format!("doctor-{}.part", std::process::id()));
    let tried = std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(&probe, "x"));
    let _ = std::fs::remove_file(&probe);
    tried.map_err(|e| format!("{} cannot be written ({e}), so {none} that can", folder.display()))?;
    let (count, bytes) = usage(&folder);
    Ok(format!("{} with {count} compiled files, {}", folder.display(), figures::bytes(bytes)))
}

fn usage(folder: &Path) -> (usize, u64) {
    let Ok(entries) = std::fs::read_dir(folder) else { return (0, 0) };
    let sizes = entries.flatten().filter_map(|e| e.metadata().ok()).filter(std::fs::Metadata::is_file);
    sizes.fold((0, 0), |(n, b), m| (n + 1, b + m.len()))
}

fn viewer() -> Result<String, String> {
    crate::records::Viewer::find()
        .map(|v| v.to_string())
        .ok_or_else(|| "`warpbook view` shows a simpler page; `cargo xtask web` builds the full one.".into())
}

fn terminal() -> String {
    let is = |yes| if yes { "a terminal" } else { "no terminal" };
    let (out, err) = (std::io::stdout().is_terminal(), std::io::stderr().is_terminal());
    let shown = if err { "progress bars" } else { "plain lines" };
    format!("stdout is {}, stderr is {}: {shown} are shown", is(out), is(err))
}

/// Runs a small experiment from start to end.
fn trial_run(choice: warpbook::device::Choice) -> Result<String, String> {
    let lab =
        Lab::on(choice).map_err(|e| e.to_string())?.with_bench(Bench { samples: 2, budget_s: 0.05, ..Bench::quick() });
    let info = lab.device().info().clone();
    let run = lab.run(&*trial()).map_err(|e| e.to_string())?;
    for m in &run.measurements {
        if let Outcome::Failed { error } = &m.outcome {
            return Err(format!("{} ran on {} and {} failed: {error}", run.title, info.name, m.rung));
        }
    }
    let (measured, skipped, _) = run.counts();
    let on = if info.kind == DeviceKind::Cuda { format!("cuda:{} {}", info.index, info.name) } else { info.name };
    let skipped = if skipped > 0 { format!(", {skipped} need a GPU") } else { String::new() };
    Ok(format!("{measured} rungs ran and were checked on {on}{skipped}"))
}
