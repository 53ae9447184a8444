//! The commands that make every published measurement, each once on a GPU machine, as a shell script: [`script`].

use std::fmt::Write;

/// A GPU that records are published for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Gpu {
    /// NVIDIA H200: all records.
    H200,
    /// NVIDIA H100: regression, matrix product, training step, convolutions, softmax and the guide.
    H100,
}

impl Gpu {
    /// All GPUs that records are published for.
    pub const ALL: [Self; 2] = [Self::H200, Self::H100];

    /// Returns the GPU's name as used in file names.
    pub const fn id(self) -> &'static str {
        match self {
            Self::H200 => "h200",
            Self::H100 => "h100",
        }
    }
}

/// A published file with the commands that make it.
#[derive(Debug)]
pub struct Made {
    /// The file, relative to the repository.
    pub file: String,
    /// Number of GPUs that the commands need.
    pub gpus: usize,
    /// The commands in order; each needs the results of the one before.
    pub steps: Vec<String>,
    /// Records that are merged into the file by the last command.
    parts: Vec<String>,
    /// The end of the names of the intermediate files.
    ending: String,
}

/// Folders of the image data sets, and a folder for intermediate records; all relative to the repository.
const MNIST: &str = "data/mnist";
const CIFAR10: &str = "data/cifar10";
const SCRATCH: &str = "target/publish";

impl Made {
    fn new(file: String, gpus: usize, ending: String) -> Self {
        Self { file, gpus, steps: Vec::new(), parts: Vec::new(), ending }
    }

    /// Returns a record, without commands yet, on a number of GPUs: "data/results/matmul-h200.json".
    fn record(name: &str, gpu: Gpu, gpus: usize) -> Self {
        let on = if gpus == 1 { gpu.id().to_owned() } else { format!("{}-x{gpus}", gpu.id()) };
        Self::new(format!("data/results/{name}-{on}.json"), gpus, format!("{on}.json"))
    }

    fn scratch(&self, name: &str) -> String {
        format!("{SCRATCH}/{name}-{}", self.ending)
    }

    fn step(mut self, step: String) -> Self {
        self.steps.push(step);
        self
    }

    /// Adds a `warpbook` command that writes the record.
    fn ours(self, command: &str) -> Self {
        let step = format!("warpbook {command} --out {}", self.file);
        self.step(step)
    }

    /// Adds a command that writes an intermediate file of this name, whose record is merged into the final record at the end.
    fn part(mut self, command: &str, name: &str) -> Self {
        let part = self.scratch(name);
        self.parts.push(part.clone());
        self.step(format!("{command} --out {part}"))
    }

    /// Adds a script of `notebooks/pytorch` with its options, which measures in PyTorch what the record `like` measures.
    fn pytorch_like(self, like: &str, script: &str, options: &str, name: &str) -> Self {
        let options = if options.is_empty() { String::new() } else { format!(" {options}") };
        self.part(&format!("python3 notebooks/pytorch/{script}.py --like {like}{options}"), name)
    }

    /// Adds a script that measures in PyTorch what our record measures.
    fn pytorch(self, script: &str, options: &str, name: &str) -> Self {
        let like = self.file.clone();
        self.pytorch_like(&like, script, options, name)
    }

    /// Adds the final command, which merges the parts.
    fn merged(self) -> Self {
        if self.parts.is_empty() {
            return self;
        }
        let step = format!("warpbook merge {0} {1} --out {0}", self.file, self.parts.join(" "));
        self.step(step)
    }
}

/// The guide's pairs of a slow and a fast way, with true if PyTorch measures the pair as well.
const PAIRS: [(&str, bool); 23] = [
    ("accumulation", true),
    ("allocation", true),
    ("bank-conflicts", false),
    ("batches", true),
    ("checkpointing", true),
    ("coalescing", false),
    ("copy-back", true),
    ("divergence", false),
    ("fusion", true),
    ("gather", false),
    ("jit-expression", true),
    ("latency", false),
    ("layout", true),
    ("loader", true),
    ("made-on-device", true),
    ("memory-latency", false),
    ("occupancy", false),
    ("pinned", true),
    ("power", false),
    ("precision", true),
    ("reduction", false),
    ("small-network", true),
    ("vector-loads", false),
];

/// Seeds of the published surveys on an H200 whose products are in its findings.
const SURVEYS: [u64; 2] = [227_483_302, 564_025_333];
/// Seed of a published survey on an H200 whose products are not in the findings, and which therefore judges them.
const SURVEY_OF_NEW_PRODUCTS: u64 = 918_273_645;
/// Seed of the survey that an H100's findings come from.
const SURVEY_OF_FINDINGS: u64 = 877_590_639;

/// Returns every published measurement on a GPU, in an order in which they can be made.
pub fn published(gpu: Gpu) -> Vec<Made> {
    let mut all = vec![regression(gpu), matmul(gpu), convolution(gpu), training(gpu), softmax(gpu)];
    all.extend(PAIRS.map(|pair| guide(gpu, pair)));
    if gpu == Gpu::H200 {
        all.extend([mnist_to_99(), looped()]);
        all.extend(speedruns());
        all.extend([mnist_trainings(), cifar10_trainings(3, 5), cifar10_trainings(20, 3)]);
        all.extend(SURVEYS.map(survey));
        all.push(survey(SURVEY_OF_NEW_PRODUCTS));
    }
    all.push(findings(gpu));
    if gpu == Gpu::H200 {
        all.extend([tensor_parallel(2), tensor_parallel(4), scaling()]);
    }
    all
}

fn regression(gpu: Gpu) -> Made {
    let on_gpu = "--ways pytorch_linear,pytorch_eager,pytorch_compiled,pytorch_graph,pytorch_expert --samples 15";
    Made::record("regression", gpu, 1)
        .ours(
            "run regression --points 100000,500000,1000000,5000000,10000000,50000000,200000000 --also 5000000x16 --epochs 200 --lr 0.01 --noise 0.1 \
             --seed 1 --counters",
        )
        .pytorch("regression", on_gpu, "regression-pytorch")
        .pytorch("regression", "--ways pytorch_cpu --size 100k,500k,1M --samples 3", "regression-pytorch-cpu")
        .part(
            "warpbook xray regression --rung 05_persistent --points 5000000 --epochs 20 --lr 0.01 --noise 0.1 --seed 1 --no-parts",
            "regression-xray",
        )
        .merged()
}

/// Shapes of the matrix product in fp32 and bf16; the constants below list further shapes, with their types.
const PRODUCTS: &str = "256x256x256,512x512x512,1024x1024x1024,2048x2048x2048,4096x4096x4096,8192x8192x8192,16384x16384x16384,1000x1000x1000,\
                        4097x4095x4093,128x8192x8192,8192x8192x128,64x4096x11008,65536x512x512";
const MORE_PRODUCTS: &str = "256x256x256:tf32,256x256x256:fp16,512x512x512:tf32,512x512x512:fp16,1024x1024x1024:tf32,1024x1024x1024:fp16,\
                             2048x2048x2048:tf32,2048x2048x2048:fp16,4096x4096x4096:tf32,4096x4096x4096:fp16,8192x8192x8192:tf32,\
                             8192x8192x8192:fp16,16384x16384x16384:tf32,1000x1000x1000:tf32,1000x1000x1000:fp16,1536x1536x1536:bf16,\
                             1536x1536x1536:bf16:nt,3000x5000x7000:bf16,3000x5000x7000:bf16:nt";
/// Matrix products of linear layers, forwards and backwards, in fp16 and bf16: the shape, and which operands are transposed.
const LAYERS: [(&str, &str); 18] = [
    ("512x128x9216", ":nt"),
    ("512x9216x128", ""),
    ("128x9216x512", ":tn"),
    ("1024x128x9216", ":nt"),
    ("1024x9216x128", ""),
    ("128x9216x1024", ":tn"),
    ("512x10x128", ":nt"),
    ("512x128x10", ""),
    ("10x128x512", ":tn"),
    ("128x512x2048", ":nt"),
    ("128x2048x512", ""),
    ("512x2048x128", ":tn"),
    ("512x512x2048", ":nt"),
    ("512x2048x512", ""),
    ("512x2048x512", ":tn"),
    ("512x10x512", ":nt"),
    ("512x512x10", ""),
    ("10x512x512", ":tn"),
];
const LARGE_LAYERS: [(&str, &str); 3] = [("512x4096x4096", ":nt"), ("512x4096x4096", ""), ("4096x4096x512", ":tn")];

fn matmul(gpu: Gpu) -> Made {
    let both = |(shape, operands): &(&str, &str)| format!("{shape}:fp16{operands},{shape}:bf16{operands}");
    let layers: Vec<String> = LAYERS.iter().chain(&LARGE_LAYERS).map(both).collect();
    let of_layers = format!(
        "warpbook run matmul --shape none --dtype fp32,bf16 --also {} --seed 1 --no-transfers --rungs as_chosen,cublas,cublaslt",
        layers.join(",")
    );
    let made = Made::record("matmul", gpu, 1);
    let like = made.scratch("matmul-layers");
    made.ours(&format!("run matmul --shape {PRODUCTS} --dtype fp32,bf16 --also {MORE_PRODUCTS} --seed 1"))
        .part(&of_layers, "matmul-layers")
        .pytorch_like(&like, "matmul", "--ways torch_matmul,torch_matmul_graph --budget 0.2", "matmul-layers-pytorch")
        .part(
            "warpbook xray matmul --rung 12_warp_specialised --shape 2048x2048x2048 --dtype bf16 --seed 1 --no-transfers",
            "matmul-xray",
        )
        .merged()
}

fn convolution(gpu: Gpu) -> Made {
    Made::record("convolution", gpu, 1)
        .ours(
            "run convolution --layer mnist-1,mnist-2,cifar10-1,cifar10-2,cifar10-3 --pass forward,input-gradient,weight-gradient --dtype fp16,bf16 \
             --seed 1",
        )
        .pytorch("convolution", "", "convolution-pytorch")
        .merged()
}

fn training(gpu: Gpu) -> Made {
    Made::record("training", gpu, 1)
        .ours("run training --network mnist,cifar10,amp-recipe --batch published --seed 1")
        .pytorch("training", "--samples 25 --budget 0.3", "training-pytorch")
        .merged()
}

fn softmax(gpu: Gpu) -> Made {
    let made = Made::record("softmax", gpu, 1);
    let ours = format!("cargo run --release -p warpbook --example softmax -- 65536 {}", made.file);
    made.step(ours).pytorch("softmax", "", "softmax-pytorch").merged()
}

fn guide(gpu: Gpu, (pair, has_pytorch): (&str, bool)) -> Made {
    let name = format!("guide-{pair}");
    let ours = Made::record(&name, gpu, 1).ours(&format!("run guide --pair {pair} --counters"));
    if has_pytorch { ours.pytorch("guide", "", &format!("{name}-pytorch")).merged() } else { ours }
}

fn mnist_to_99() -> Made {
    Made::record("mnist-to-99", Gpu::H200, 1)
        .ours(&format!("speedrun mnist --data {MNIST} --precision amp-fp16 --epochs 8 --cold 10 --to 99"))
        .pytorch("mnist_to_99", &format!("--data {MNIST} --cold 5"), "mnist-to-99-pytorch")
        .merged()
}

fn looped() -> Made {
    Made::record("loop", Gpu::H200, 1)
        .ours(&format!("run loop --data {MNIST} --samples 3 --budget 60"))
        .pytorch("loader_loop", &format!("--data {MNIST} --budget 1"), "loop-pytorch")
        .merged()
}

/// The CIFAR-10 speedruns: with six views, with two views, and in new processes.
fn speedruns() -> [Made; 3] {
    let note = "--to 90 --data-note 'recompressed as JPEG q75'";
    let ours =
        |options: &str| format!("speedrun cifar10-speedrun --data {CIFAR10} --precision amp-bf16 {options} {note}");
    [
        // torch.compile's mode max-autotune had not finished after 198 s.
        Made::record("cifar10-speedrun", Gpu::H200, 1)
            .ours(&ours("--seeds 10"))
            .pytorch(
                "speedrun",
                &format!("--data {CIFAR10} --seeds 10 --way graph --mode default"),
                "cifar10-speedrun-pytorch",
            )
            .merged(),
        Made::record("cifar10-speedrun-flips", Gpu::H200, 1).ours(&ours("--views flips --seeds 10")),
        Made::record("cifar10-speedrun-cold", Gpu::H200, 1).ours(&ours("--views flips --cold 5")),
    ]
}

/// Returns a record of trainings that are followed step by step: the first training, with the others merged into it, and the same trainings in PyTorch.
fn trainings(name: &str, recipe: &str, data: &str, runs: &[(String, String)]) -> Made {
    let made = Made::record(name, Gpu::H200, 1);
    let train = |options: &str| format!("train {recipe} --data {data} {options} --clip inf --log-every 10");
    let [(_, first), others @ ..] = runs else { return made };
    let ours = others.iter().fold(made.ours(&train(first)), |made, (run, options)| {
        made.part(&format!("warpbook {}", train(options)), &format!("{name}-{run}"))
    });
    // PyTorch's script reads one record with all trainings.
    let mut ours = ours.merged();
    ours.parts.clear();
    ours.pytorch("trainings", &format!("--data {data}"), &format!("{name}-pytorch")).merged()
}

fn mnist_trainings() -> Made {
    let runs = [("fp32", 512), ("amp-fp16", 512), ("amp-fp16", 1024)]
        .map(|(of, batch)| (format!("{of}-{batch}"), format!("--precision {of} --batch {batch} --epochs 20")));
    trainings("train-mnist", "mnist", MNIST, &runs)
}

/// Returns the training runs of the CIFAR-10 CNN, each precision from a number of seeds.
fn cifar10_trainings(epochs: u32, seeds: u32) -> Made {
    let training = |precision: &str, seed: u32| {
        (format!("{precision}-{seed}"), format!("--precision {precision} --epochs {epochs} --seed {seed}"))
    };
    let precisions = ["fp32", "amp-fp16", "amp-bf16"];
    let runs: Vec<_> =
        precisions.iter().flat_map(|precision| (1..=seeds).map(|seed| training(precision, seed))).collect();
    trainings(&format!("train-cifar10-{epochs}-epochs"), "cifar10", CIFAR10, &runs)
}

fn survey(seed: u64) -> Made {
    let file = format!("data/surveys/matmul-h200-{seed}.json");
    Made::new(file, 1, String::new()).ours(&format!("survey matmul --seed {seed}"))
}

fn tensor_parallel(gpus: usize) -> Made {
    let ours = format!("run tensor-parallel --shape 8192x8192x8192 --dtype bf16 --gpus {gpus} --seed 1");
    Made::record("tensor-parallel", Gpu::H200, gpus).ours(&ours)
}

fn scaling() -> Made {
    let made = Made::record("scaling", Gpu::H200, 4);
    let [cifar, amp] = ["ddp-cifar10", "ddp-amp-recipe"].map(|name| made.scratch(name));
    let ddp = |network: &str, batches: &str, out: &str| {
        format!("python3 notebooks/pytorch/ddp.py --gpus 4 --network {network} --batch {batches} --out {out}")
    };
    let of_both = "--precision amp-fp16,amp-bf16,fp32";
    // The batch sizes are 512 and 128, for each GPU (weak scaling) and for all GPUs together (strong scaling).
    let ours = format!(
        "scaling --gpus 4 --network cifar10 --batch 512,128 {of_both} --synthetic --samples 7 --pytorch {cifar}"
    );
    let of_recipe = format!(
        "warpbook scaling --gpus 4 --network amp-recipe --batch 512 --growth weak {of_both} --no-one-process --samples 7 --pytorch {amp}"
    );
    made.step(ddp("cifar10", "512 256 128 64 32", &cifar))
        .ours(&ours)
        .step(ddp("amp-recipe", "512", &amp))
        .part(&of_recipe, "scaling-amp-recipe")
        .merged()
}

/// Returns the measured times of matrix products from which `gemm()` chooses its kernels; they become part of the program when it is built again.
fn findings(gpu: Gpu) -> Made {
    let file = format!("data/findings/nvidia-{}.json", gpu.id());
    let made = Made::new(file, 1, format!("{}.json", gpu.id()));
    let make = |from: &[String], made: Made| {
        let step = format!("python3 data/findings/make.py {} > {}", from.join(" "), made.file);
        made.step(step)
    };
    if gpu == Gpu::H200 {
        let from = [matmul(gpu)].into_iter().chain(SURVEYS.map(survey)).map(|made| made.file);
        return make(&from.collect::<Vec<_>>(), made);
    }
    let from = ["products", "survey"].map(|name| made.scratch(name));
    let surveys = [
        format!("warpbook survey matmul --published --tune full --no-findings --out {}", from[0]),
        format!("warpbook survey matmul --seed {SURVEY_OF_FINDINGS} --tune quick --no-findings --out {}", from[1]),
    ];
    make(&from, surveys.into_iter().fold(made, Made::step))
}

/// Returns the script that makes every published measurement once on machines with a GPU, and then the tables and pictures.
pub fn script(gpu: Gpu) -> String {
    let id = gpu.id();
    let mut text = format!(
        "# Makes every measurement that this repository publishes from an NVIDIA {} once. `cargo xtask publish --commands --gpu {id}` prints it.\n\
         # Each command stands for itself: run the file as a whole with `bash`, or copy single commands, in the repository's folder.\n\
         #\n\
         # Before: `cargo install --path crates/warpbook-cli` for the current kernels, `pip install torch ./notebooks/pytorch`, and\n\
         # `cargo build --release -p warpbook-op` for our layers in PyTorch.\n",
        id.to_uppercase()
    );
    let all = published(gpu);
    let has_note = all.iter().flat_map(|made| &made.steps).any(|step| step.contains("--data-note"));
    let recompressed = if has_note { ", here recompressed as JPEG q75: leave --data-note out for others" } else { "" };
    let _ = writeln!(
        text,
        "# {MNIST} has MNIST's four files, and {CIFAR10} CIFAR-10's six binary files{recompressed}.\n\n\
         mkdir -p {SCRATCH}\n\
         # Experiments without --data look for these files here, too.\n\
         export WARPBOOK_DATA=\"$PWD/data\""
    );
    let mut gpus = 0;
    for made in &all {
        if made.gpus != gpus {
            gpus = made.gpus;
            let _ = writeln!(text, "\n# ---- On {gpus} GPU{} ----", if gpus == 1 { "" } else { "s" });
        }
        let _ = write!(text, "\n# {}\n{}\n", made.file, made.steps.join(" &&\n  "));
    }
    text += "\n# Tables, pictures and the list of records\ncargo xtask publish\n\
             # Lessons that read or quote a record: cargo xtask notebooks --write\n";
    text
}

#[cfg(test)]
mod tests {
    use super::super::{Record, records};
    use super::*;
    use crate::workspace::{Workspace, files_below};
    use std::collections::BTreeSet;
    use std::fs;

    fn workspace() -> Workspace {
        Workspace::find(false).unwrap()
    }

    /// Returns every command of a GPU's list.
    fn steps(gpu: Gpu) -> Vec<String> {
        published(gpu).into_iter().flat_map(|made| made.steps).collect()
    }

    /// Returns the published files that a machine with a GPU has measured.
    fn measured(w: &Workspace) -> Vec<String> {
        let mut files: Vec<String> = fs::read_dir(w.path("data"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .chain(
                ["results", "surveys", "findings"]
                    .iter()
                    .flat_map(|of| files_below(&w.path("data").join(of), &[]).unwrap()),
            )
            .filter(|path| path.extension().is_some_and(|e| e == "json"))
            .map(|path| w.show(&path))
            .collect();
        // The list of records is generated, and the reports of tests on a GPU are written by a test run.
        files.retain(|file| file != "data/results/index.json" && !file.starts_with("data/gpu-tests"));
        files
    }

    #[test]
    fn every_published_measurement_has_its_commands() {
        let all: Vec<Made> = Gpu::ALL.into_iter().flat_map(published).collect();
        let files: Vec<&str> = all.iter().map(|made| made.file.as_str()).collect();
        assert_eq!(files.iter().collect::<BTreeSet<_>>().len(), files.len(), "a file is made once");
        let w = workspace();
        let measured = measured(&w);
        assert!(measured.len() > 30, "{measured:?}");
        let missing: Vec<_> = measured.iter().filter(|file| !files.contains(&file.as_str())).collect();
        assert!(missing.is_empty(), "add their commands to publish/commands.rs: {missing:?}");
        for record in records(&w).unwrap() {
            let device = record.run.environment.device.name.to_lowercase();
            let gpu = Gpu::ALL.into_iter().find(|gpu| device.contains(gpu.id())).expect("the GPU is known");
            let file = format!("data/results/{}", record.file);
            assert!(published(gpu).iter().any(|made| made.file == file), "{file} is of {device}");
        }
    }

    #[test]
    fn every_command_reads_only_what_an_earlier_one_has_written() {
        for gpu in Gpu::ALL {
            let mut written = BTreeSet::new();
            for made in published(gpu) {
                for step in &made.steps {
                    let words: Vec<&str> = step.split(' ').collect();
                    for (i, word) in words.iter().enumerate().filter(|(_, word)| word.ends_with(".json")) {
                        let is_written = i > 0 && ["--out", ">", "65536"].contains(&words[i - 1]);
                        assert!(is_written || written.contains(*word), "{word} is not there yet: {step}");
                    }
                    written.extend(words.into_iter().filter(|word| word.ends_with(".json")).map(str::to_owned));
                }
                assert!(made.steps.iter().any(|step| step.ends_with(&made.file)), "{}: {:?}", made.file, made.steps);
            }
        }
    }

    #[test]
    fn paths_are_relative_and_inside_of_the_repository() {
        for step in Gpu::ALL.into_iter().flat_map(steps) {
            for word in step.split([' ', '=', ',']) {
                assert!(!word.starts_with(['/', '~', '$', '\\']) && !word.contains(".."), "{word}: {step}");
            }
        }
    }

    /// Returns a command's options with their values; flags have none.
    fn options(command: &str) -> Vec<(&str, &str)> {
        let mut parts = command.split(" --");
        parts.next();
        parts.map(|part| part.split_once(' ').unwrap_or((part, ""))).map(|(name, value)| (name, value.trim())).collect()
    }

    /// Returns what is listed but missing in the commands of a record, if anything. The record may name more options and other files, and does
    /// not name `--counters`.
    fn differs(listed: &str, recorded: &[&str]) -> Option<String> {
        // Older records name the command `train` for what is now `speedrun`.
        let named =
            |command: &str| command.split(' ').take(3).collect::<Vec<_>>().join(" ").replace(" speedrun ", " train ");
        let is_left_out = |name: &str| ["out", "data", "like", "pytorch", "counters"].contains(&name);
        let same = |command: &&&str| {
            let theirs = options(command);
            named(command) == named(listed)
                && options(listed).iter().all(|option| is_left_out(option.0) || theirs.contains(option))
        };
        recorded.iter().find(same).is_none().then(|| format!("`{listed}` is not in the record's {recorded:?}"))
    }

    #[test]
    fn records_were_made_by_the_listed_commands() {
        let mut compared = 0;
        let w = workspace();
        let all: Vec<Made> = Gpu::ALL.into_iter().flat_map(published).collect();
        let made_by = |r: &Record| all.iter().find(|made| made.file == format!("data/results/{}", r.file)).unwrap();
        for record in records(&w).unwrap() {
            let mut recorded: Vec<&str> = record.run.command.split(" && ").collect();
            // Options of timing are in the record's policy, and not in the command of its own run.
            let policy = &record.run.policy;
            let run = format!("{} --samples {} --budget {}", recorded[0], policy.samples, policy.budget_s);
            recorded.push(&run);
            let listed = made_by(&record)
                .steps
                .iter()
                .filter(|step| step.starts_with("warpbook ") && !step.starts_with("warpbook merge"));
            for step in listed {
                assert_eq!(differs(step, &recorded), None, "{}", record.file);
                compared += 1;
            }
        }
        assert!(compared > 35, "{compared}");
    }

    #[test]
    fn a_record_made_by_another_command_is_found() {
        let recorded = [
            "warpbook train mnist --data /tmp/mnist --seeds 3 --to 99 --log-every 100",
            "warpbook run matmul --shape 8x8x8 --seed 1",
        ];
        assert_eq!(differs("warpbook run matmul --shape 8x8x8 --out m.json", &recorded), None);
        assert_eq!(differs("warpbook speedrun mnist --data data/mnist --seeds 3 --to 99", &recorded), None);
        for other in [
            "warpbook run matmul --shape 9x9x9",
            "warpbook run regression --seed 1",
            "warpbook speedrun mnist --seeds 3 --cold 2",
        ] {
            assert!(differs(other, &recorded).is_some(), "{other}");
        }
    }

    #[test]
    fn scripts_of_pytorch_have_the_listed_options() {
        let w = workspace();
        let folder = w.path("notebooks/pytorch");
        let common = fs::read_to_string(folder.join("warpbook_record.py")).unwrap();
        let scripts =
            Gpu::ALL.into_iter().flat_map(steps).filter(|step| step.starts_with("python3 notebooks/pytorch/"));
        let mut used = BTreeSet::new();
        for step in scripts {
            let path = step.split(' ').nth(1).unwrap();
            let text = fs::read_to_string(w.path(path)).unwrap_or_else(|e| panic!("{path}: {e}"));
            for (name, _) in options(&step) {
                let option = format!("\"--{name}\"");
                assert!(text.contains(&option) || common.contains(&option), "{path} has no --{name}");
            }
            used.insert(path.to_owned());
        }
        assert!(used.len() >= 10, "{used:?}");
        let guide = fs::read_to_string(folder.join("guide.py")).unwrap();
        for (pair, has_pytorch) in PAIRS {
            assert_eq!(guide.contains(&format!("\"guide-{pair}\"")), has_pytorch, "{pair}");
        }
    }

    #[test]
    fn the_script_names_each_file_before_its_commands() {
        let text = script(Gpu::H100);
        assert!(
            text.starts_with("# Makes every measurement") && text.ends_with("cargo xtask notebooks --write\n"),
            "{text}"
        );
        assert!(text.contains("\n# data/results/guide-layout-h100.json\nwarpbook run guide --pair layout --counters --out data/results/guide-layout-h100.json &&\n  python3"));
        assert!(
            text.contains("\n# ---- On 1 GPU ----\n")
                && !text.contains("On 4 GPUs")
                && text.matches("data/cifar10").count() == 1
        );
        assert!(text.contains("\nexport WARPBOOK_DATA=\"$PWD/data\"\n") && !text.contains("JPEG"));
        let of_h200 = script(Gpu::H200);
        assert!(of_h200.contains("\n# data/results/loop-h200.json\n"));
        assert!(
            of_h200.contains("\n# ---- On 4 GPUs ----\n") && of_h200.contains("\n# data/mnist has MNIST's four files")
        );
    }
}
