//! Writes launches to files as jobs, which a page in a browser can run and a machine with a GPU can repeat under NVIDIA's tools.
//!
//! If `WARPBOOK_JOBS` names a folder, the tests write the jobs there, each with the emulator's counts by line, and with a list of the planted faults.

use crate::faults;
use crate::job::{Buffer, Job, Piece};
use crate::machine::{JOBS, MODE, Machine, Mode};
use crate::{guide, products, regression, softmax};
use std::fmt::Write;
use std::path::Path;
use warpbook_emulator::Cause;

impl Job {
    /// Returns the text of the job in the format that [`Job::read`] reads.
    fn write(&self) -> String {
        let sizes = |sizes: [u32; 3]| sizes.map(|size| size.to_string()).join(" ");
        let mut text = format!(
            "kernel {}\ngrid {}\nblock {}\nshared {}\ncooperative {}\n",
            self.kernel,
            sizes(self.grid),
            sizes(self.block),
            self.dynamic_shared,
            u8::from(self.is_cooperative)
        );
        for buffer in &self.buffers {
            _ = match buffer {
                Buffer::New(bytes) => writeln!(text, "new {bytes}"),
                Buffer::Bytes(bytes) => writeln!(text, "buffer {}", to_hex(bytes)),
            };
        }
        for pieces in &self.arguments {
            let word = |piece: &Piece| match piece {
                Piece::Address(number) => format!(" @{number}"),
                Piece::Bytes(bytes) => format!(" {}", to_hex(bytes)),
            };
            _ = writeln!(text, "argument{}", pieces.iter().map(word).collect::<String>());
        }
        text + "ptx\n" + &self.ptx
    }
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Runs a test, and returns its launches as jobs with their titles.
fn launches<R>(run: impl FnOnce() -> R) -> (Vec<(String, Job)>, R) {
    let before = MODE.replace(Mode::Checked);
    JOBS.set(Some(Vec::new()));
    let result = run();
    MODE.set(before);
    (JOBS.take().unwrap_or_default(), result)
}

/// Kernels whose counts are compared with a GPU's counts: the matrix products on CUDA cores, and the kernels of the guide.
fn counted() -> Vec<(String, Job)> {
    let run = || {
        products::products_of_whole_tiles_are_those_of_the_cpu();
        guide::elements_are_scaled_whatever_thread_takes_them();
        guide::matrices_are_transposed();
        guide::lanes_that_part_meet_again();
        guide::chains_of_operations_have_the_same_bits();
        guide::sums_of_whole_numbers_are_exact();
        guide::a_layer_of_neurons_is_that_of_the_cpu();
        guide::words_from_random_places_are_added();
        guide::walks_arrive_where_the_cpu_s_do();
        guide::lanes_follow_what_one_of_them_read();
    };
    launches(run).0
}

/// Kernels whose speed `speed.rs` measures.
fn timed() -> Vec<(&'static str, Job, u64)> {
    let square = [128, 128, 64];
    let largest = |name, run: &dyn Fn() -> Machine| {
        let jobs = launches(run).0;
        let (_, job) = jobs.into_iter().max_by_key(|(_, job)| job.grid[0]).unwrap();
        let steps = job.prepare().unwrap().run().unwrap_or_else(|e| panic!("{name}: {e}")).report.thread_steps;
        (name, job, steps)
    };
    vec![
        largest("regression 02", &|| regression::by_epochs("02_fused", 40_000)),
        largest("product 02", &|| products::check("02_coalesced", square, products::PLAIN)),
        largest("product 03", &|| products::check("03_shared_tile", square, products::PLAIN)),
        largest("product 05", &|| products::check("05_register_2d", square, products::PLAIN)),
        largest("softmax", &|| softmax::check(softmax::WARP, 32, 1, [64, 512])),
    ]
}

#[test]
fn a_job_repeats_its_launch() {
    let (jobs, machine) = launches(|| products::check("03_shared_tile", [64, 96, 32], products::PLAIN));
    let [(title, job)] = &jobs[..] else { panic!("{} jobs", jobs.len()) };
    assert!(title.contains("shared_tile"), "{title}");
    assert_eq!(Job::read(&job.write()).as_ref(), Some(job));
    let verdict = job.prepare().unwrap().run().unwrap();
    assert_eq!(verdict.report.thread_steps, machine.thread_steps);
    assert_eq!(Job::read("kernel k\ngrid 1 1\nptx\n"), None);
}

/// Checks that each planted fault is found again when its job is repeated, and writes the jobs for machines with a GPU.
#[test]
fn jobs_of_planted_faults_have_the_same_fault() {
    let out = std::env::var_os("WARPBOOK_JOBS");
    let mut list = String::from("job,cause,lines\n");
    for planted in faults::planted() {
        let (jobs, verdict) = launches(|| planted.verdict(false));
        let (name, job) = &jobs[0];
        let mut again = Job::read(&job.write()).unwrap().prepare().unwrap();
        again.launch.budget = 400_000;
        // A job has a single order. Some faults show only in other orders, and an endless wait for a plain flag is a race in this order.
        if let Err(fault) = again.run() {
            let is_known =
                fault.cause == planted.cause || (planted.cause == Cause::Endless && fault.cause == Cause::Race);
            assert!(is_known, "{name}: {fault}, and {verdict:?}");
        }
        let lines: Vec<String> = planted.lines.iter().map(u32::to_string).collect();
        _ = writeln!(list, "{name},{},{}", planted.cause.id(), lines.join(" "));
        if let Some(out) = &out {
            std::fs::write(Path::new(out).join(format!("{name}.fault")), job.write()).unwrap();
        }
    }
    let Some(out) = out else { return };
    std::fs::write(Path::new(&out).join("faults.csv"), list).unwrap();
    for (number, (title, job)) in counted().into_iter().enumerate() {
        let name = title.replace(['/', ' '], "-").replace(".cu", "");
        let path = Path::new(&out).join(format!("{number:03}-{name}"));
        std::fs::write(path.with_extension("job"), job.write()).unwrap();
        let mut table = String::from("file,line,requests,sectors,ideal_sectors,wavefronts,ideal_wavefronts,branches\n");
        for line in job.prepare().unwrap().run().unwrap_or_else(|e| panic!("{title}: {e}")).counts.lines {
            let counts = [line.global_requests, line.global_sectors, line.global_ideal, line.shared_wavefronts];
            let counts =
                counts.into_iter().chain([line.shared_ideal, line.divergent_branches]).map(|n| format!(",{n}"));
            _ = writeln!(table, "{},{}{}", line.file, line.line, counts.collect::<String>());
        }
        std::fs::write(path.with_extension("csv"), table).unwrap();
    }
}

/// If `WARPBOOK_PAGE` names a WebAssembly module, writes the page next to the module. See `examples/page/main.rs`.
#[test]
fn a_page_has_the_module_and_the_jobs() {
    let module = std::env::var_os("WARPBOOK_PAGE");
    let bytes = module.as_ref().map_or_else(|| b"\0asm".to_vec(), |path| std::fs::read(path).unwrap());
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let jobs = timed();
    assert!(jobs.iter().all(|(name, _, steps)| *steps > 100_000 && !name.is_empty()));
    let jobs: String = jobs.iter().map(|(name, job, _)| format!("[{name:?}, {:?}],", job.write())).collect();
    let page = include_str!("../../examples/page/page.html");
    let filled = page.replacen("MODULE = \"\"", &format!("MODULE = \"{digits}\""), 1).replacen(
        "JOBS = []",
        &format!("JOBS = [{jobs}]"),
        1,
    );
    assert!(filled.contains("MODULE = \"0061736d") && filled.contains("ld.global"));
    if let Some(path) = module {
        let page = Path::new(&path).with_file_name("page.html");
        std::fs::write(&page, filled).unwrap();
        println!("{}", page.display());
    }
}
