#!/usr/bin/env python3
"""Trains the MNIST CNN in PyTorch from a cold process until 99 % of the test images are right, and says where the time went.

    python3 mnist_to_99.py --data DIR --way graph --started-at $(date +%s.%N) --out mnist-to-99.json

One way in one process, since a second training would find PyTorch, CUDA and cuDNN loaded:

    eager    torch.autocast with fp16 and GradScaler, channels_last, a fused optimiser
    graph    the same step in a CUDA graph, as torch_amp_fp16_graph_gathered of training.py

The training ends after the first epoch whose test accuracy is at least --to, or after --epochs of them. All times are seconds. `wall_s` is from the start
of the process, as the kernel has it (to a tick, which is 10 ms), to the end of the last test; where the kernel does not say, `since` is "script" and it
is from the script's first line. `caller_s` is measured from --started-at, the Unix time at which the caller started the process. Neither includes the time
that Python takes to exit; `time` before the command does. `phases_s` add up to `wall_s`:

    interpreter  from the start of the process to the script's first line
    import       this script's modules and PyTorch
    device       CUDA's context
    data         the files are read, unpacked and copied to the GPU
    build        the network, the optimiser (PyTorch imports its compiler for it), the scaler
    first_step   the first step: cuDNN and cuBLAS are loaded, algorithms chosen, with --compile kernels compiled
    capture      for `graph`, two more steps of the training and the capture
    train        all other steps, the last one of each epoch waited for
    test         the tests after each epoch

`each_epoch` has the parts of `train` and `test`, and the accuracies. --search lets cuDNN measure its algorithms (torch.backends.cudnn.benchmark), which
takes time in the first step, the first batch of 96 and the first test; without it cuDNN's heuristics choose. The first process on a machine reads PyTorch's
libraries from the disk, later ones from memory: leave it out, like Warpbook's first run, which compiles its kernels.

The same as in Warpbook's `train mnist --precision amp-fp16` (crates/warpbook-nn/src/train/recipe.rs): the network and its dropout, the files,
normalisation, no augmentation, batches of 512 in a new order each epoch with one of 96 at its end, SGD with momentum 0.9, a rate of 0.05 that is halved
every five epochs whatever their number, the distribution of the first weights, autocast's types, the scaler's settings, images that lie on the GPU as
bytes and are gathered in the step, and a test without dropout in the same types after each epoch. Not the same: the random numbers of weights, order and
dropout; the test's batches, of 1000 here and of 512 there; losses, which are not read here; the batch of 96, which is outside of the graph here.
Warpbook does not stop at an accuracy: give it the epochs that it takes. Its compiled kernels come from its cache if they are there, and so do those of
--compile from PyTorch's.

One line of JSON is printed, and written to --out under a temporary name that is then changed. Exit codes: 0; 1 the accuracy was not reached; 2 the
arguments, a file or PyTorch; 130 interrupted.

A record next to Warpbook's, of the same accuracy from as many seeds:

    warpbook speedrun mnist --precision amp-fp16 --epochs 8 --cold 10 --to 99 --data DIR --out ours.json
    python3 mnist_to_99.py --cold 10 --like ours.json --data DIR --out pytorch.json
    warpbook merge ours.json pytorch.json --out both.json

--cold N starts this script again as N + 1 processes for each way, one after the other, the ways in turn, prints the line of each, and writes the record
after each seed to --out: a row for each way, or only for the one of --way. The first process of a way is not counted. A sample is the time from the start
of a process to its end, including the time that Python takes to exit, by the clock of the process that started it, as in Warpbook's; the record has the
phases of each process until the end of the last test as parts of its row, and their medians in a note.
"""

from __future__ import annotations

import time

# The time before this line is the interpreter's.
BEGUN = time.perf_counter()

import argparse
import datetime
import json
import math
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import training
import warpbook_record as wr
from batches import IMAGES, DataSet, Gathered, normalised
from loader_loop import images_and_labels

FORMAT = 1
WAYS = ("eager", "graph")
BATCH = 512
# Number of test images in a batch.
TESTED = 1000
RATE = 0.05
HALVED_EVERY = 5
# Number of steps before the capture.
WARM_UP = 3
# The work that a record describes; Warpbook's record must have the same.
EXPERIMENT = "time-to-accuracy"
OURS = "warpbook speedrun mnist --precision amp-fp16 --epochs 8 --cold 10 --to 99"
WORK = {"recipe": "mnist", "data": "MNIST", "samples": 60_000, "test_samples": 10_000, "batch": BATCH, "from": "the start of a process"}
# An interpreter starts in less than a minute. A longer time means that the two clocks do not match.
MOST_INTERPRETER_S = 60.0


# ---- the clock -------------------------------------------------------------------------------------------------------


def process_age_s() -> float | None:
    """Returns the seconds since this process was started, to a tick of the kernel; None if the system does not say."""
    try:
        # The program's name comes first, in parentheses; it may contain blanks and parentheses itself.
        started = int(wr.read_text("/proc/self/stat").rpartition(")")[2].split()[19])
        return time.clock_gettime(time.CLOCK_BOOTTIME) - started / os.sysconf("SC_CLK_TCK")
    except (AttributeError, IndexError, OSError, ValueError):
        return None


def interpreter_s(age: float | None, script: float) -> float | None:
    """Returns the interpreter's start time, from the ages of the process and of the script; None if the ages do not fit."""
    if age is None or not -0.1 <= age - script <= MOST_INTERPRETER_S:
        return None
    return max(age - script, 0.0)


class Phases:
    """Seconds of a process's consecutive phases."""

    def __init__(self, begun: float, interpreter: float | None, clock: Callable[[], float] = time.perf_counter):
        self.clock, self.last = clock, begun
        self.since = "script" if interpreter is None else "process"
        self.seconds = {"interpreter": interpreter or 0.0}

    def mark(self, name: str) -> float:
        """Ends a phase, or another part of it; returns its seconds."""
        now = self.clock()
        taken, self.last = now - self.last, now
        self.seconds[name] = self.seconds.get(name, 0.0) + taken
        return taken

    @property
    def total(self) -> float:
        return sum(self.seconds.values())


# ---- the training ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Epoch:
    """Seconds of an epoch's steps, without earlier phases, and of its test; and the share of correct test images."""

    train_s: float
    test_s: float
    accuracy: float


class Files(DataSet):
    """MNIST's images and labels on the device, in the files' form."""

    def __init__(self, torch: Any, folder: Path, part: str, device: str):
        self.torch, self.network = torch, "mnist"
        shape, images, labels = images_and_labels(folder, part)
        if shape[1:] != IMAGES["mnist"][1][1:]:
            raise wr.Refused(f"{folder} has images of {shape[1]} x {shape[2]}; this network takes 28 x 28.")

        def tensor(raw: bytes) -> Any:
            return torch.frombuffer(bytearray(raw), dtype=torch.uint8).to(device)

        self.inputs, self.targets = tensor(images).view(shape[0], 1, *shape[1:]), tensor(labels).long()


class Training:
    """The network with its optimiser, and the steps of one way."""

    def __init__(self, torch: Any, way: str, data: Files, seed: int, compiled: bool = False, batch: int = BATCH):
        self.torch, self.data, self.captured, self.graph = torch, data, way == "graph", None
        self.device = data.inputs.device.type
        self.half = self.device == "cuda"
        torch.manual_seed(seed)
        sizes = training.Sizes("mnist", batch, 1)
        self.model = training.mnist(torch, sizes).to(self.device, memory_format=torch.channels_last)
        self.forward = torch.compile(self.model, dynamic=False) if compiled else self.model
        self.batches = Gathered(torch, data, batch, self.captured, True, compiled)
        self.loss = sizes.loss(torch)
        self.optimizer = sizes.optimizer(torch, self.model, fused=True)
        for p in self.model.parameters():
            # If the scaler skipped the first step, the fused optimiser would start with momentum from uninitialised memory.
            self.optimizer.state[p]["momentum_buffer"] = torch.zeros_like(p)
        # A graph reads the rate from memory, so it must be a tensor.
        self.rate = torch.tensor(RATE, device=self.device) if self.captured else None
        self.scaler = torch.amp.GradScaler(self.device, enabled=self.half)
        self.steps = self.epochs = 0

    def synchronize(self) -> None:
        if self.device == "cuda":
            self.torch.cuda.synchronize()

    def autocast(self) -> Any:
        return self.torch.autocast(self.device, dtype=self.torch.float16, enabled=self.half)

    def set_rate(self, rate: float) -> None:
        if self.rate is not None:
            self.rate.fill_(rate)
        self.optimizer.param_groups[0]["lr"] = rate if self.rate is None else self.rate

    def update(self, forward: Callable[[Any], Any], x: Any, y: Any) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        with self.autocast():
            loss = self.loss(forward(x), y)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()

    def step(self) -> None:
        self.update(self.forward, *self.batches.take())

    def made(self, step: Callable[[], None], count: int) -> None:
        """Runs this many steps with the next batches."""
        for _ in range(count):
            self.batches.start()
            step()
        self.steps += count

    def begin(self, mark: Callable[[str], Any]) -> None:
        """Runs the first steps of the first epoch. With a graph they run before the capture, which itself runs no step."""
        self.set_rate(RATE)

        def first() -> None:
            self.made(self.step, 1)
            self.synchronize()
            mark("first_step")

        def warm_up() -> None:
            first()
            self.made(self.step, min(WARM_UP, self.batches.count) - 1)
            self.optimizer.zero_grad(set_to_none=True)

        if not self.captured:
            return first()
        self.graph = wr.capture(self.torch, warm_up, self.step)
        self.synchronize()
        mark("capture")

    def epoch(self) -> None:
        """Runs the rest of an epoch; every image is used once."""
        self.set_rate(RATE * 0.5 ** (self.epochs // HALVED_EVERY))
        step = self.step if self.graph is None else self.graph.replay
        self.made(step, self.batches.count - (self.steps if self.epochs == 0 else 0))
        rest = self.batches.order[self.batches.batches.numel() :]
        if len(rest):
            # A smaller batch has another shape, so it is neither compiled nor part of the graph.
            self.update(self.model, *self.data.batch(rest, True))
            self.steps += 1
        self.epochs += 1
        self.synchronize()

    def accuracy(self, test: Files) -> float:
        """Returns the share of correct images, without dropout."""
        torch, right = self.torch, []
        self.model.eval()
        with torch.no_grad(), self.autocast():
            for images, labels in zip(test.inputs.split(TESTED), test.targets.split(TESTED)):
                x = normalised(images.contiguous(memory_format=torch.channels_last), *IMAGES["mnist"][2:])
                right.append((self.model(x).argmax(1) == labels).sum())
        self.model.train()
        return torch.stack(right).sum().item() / len(test)


def trained(of: Training, test: Files, epochs: int, to: float, phases: Phases) -> list[Epoch]:
    """Trains until this share of test images is correct, but at most this number of epochs."""
    done: list[Epoch] = []
    of.begin(phases.mark)
    while not done or (len(done) < epochs and done[-1].accuracy < to):
        of.epoch()
        train_s = phases.mark("train")
        accuracy = of.accuracy(test)
        done.append(Epoch(train_s, phases.mark("test"), accuracy))
    return done


# ---- the command line ------------------------------------------------------------------------------------------------


def written(
    a: argparse.Namespace, arguments: list[str], machine: wr.Machine, steps: int, epochs: list[Epoch], phases: Phases, caller_s: float | None
) -> dict[str, Any]:
    """Returns the printed line, which is also the content of --out; times are in seconds."""

    def rounded(seconds: dict[str, float]) -> dict[str, float]:
        return {name: round(value, 6) for name, value in seconds.items()}

    return {
        "format": FORMAT,
        "script": "mnist_to_99.py",
        "created": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "command": shlex.join(["python3", "notebooks/pytorch/mnist_to_99.py", *arguments]),
        "torch": machine.torch_version,
        "cuda": machine.cuda,
        "driver": machine.driver,
        "device": machine.device["name"],
        "way": f"torch_amp_fp16_{a.way}",
        "compiled": a.compile,
        "searched": a.search,
        "seed": a.seed,
        "batch": BATCH,
        "to": a.to,
        "reached": epochs[-1].accuracy >= a.to,
        "epochs": len(epochs),
        "steps": steps,
        "accuracy": epochs[-1].accuracy,
        "each_epoch": [rounded(asdict(epoch)) for epoch in epochs],
        "phases_s": rounded(phases.seconds),
        "wall_s": round(phases.total, 6),
        "since": phases.since,
        "caller_s": None if caller_s is None else round(caller_s, 6),
    }


def parse(arguments: list[str]) -> argparse.Namespace:
    raw = argparse.RawDescriptionHelpFormatter
    p = wr.Parser("mnist_to_99.py", description=__doc__, formatter_class=raw, allow_abbrev=False)
    p.add_argument("--data", required=True, type=Path, metavar="DIR", help="the folder with MNIST's four files, packed by gzip or not")
    p.add_argument("--way", choices=WAYS, help="[default: graph; with --cold both, in turn]")
    p.add_argument("--compile", action="store_true", help="compile the step's forward and backward pass with torch.compile")
    p.add_argument("--search", action="store_true", help="let cuDNN measure its algorithms and choose the fastest")
    p.add_argument("--to", type=float, metavar="SHARE", help="share of test images that must be correct, from 0 to 1 [default: 0.99, or --like's]")
    p.add_argument("--epochs", type=int, default=20, metavar="N", help="largest number of passes over the images [default: 20]")
    p.add_argument("--seed", type=int, default=1, metavar="N", help="seed of weights, order and dropout [default: 1]")
    p.add_argument("--started-at", type=float, metavar="SECONDS", help="Unix time at which the caller started this: $(date +%%s.%%N)")
    p.add_argument("--out", type=Path, metavar="FILE", help="file for the line that is printed, or with --cold for the record")
    p.add_argument("--cold", type=int, metavar="N", help="train in N new processes, each from another seed, and write a record")
    p.add_argument("--like", type=Path, metavar="FILE", help=f"the record that --cold's is to be merged with: {OURS} --out FILE")
    p.add_argument("--author", metavar="NAME", help="who ran it, for the record of --cold")
    # --cold passes this option to the processes that it starts; they write their machine to the file.
    p.add_argument("--machine", type=Path, help=argparse.SUPPRESS)
    a = p.parse_args(arguments)
    check_cold(a)
    a.ways = WAYS if a.way is None else (a.way,)
    a.way = "graph" if a.way is None else a.way
    a.to = 0.99 if a.to is None else a.to
    if a.epochs < 1:
        raise wr.Refused(f"--epochs {a.epochs}: a training takes at least one.")
    if not 0.0 <= a.to <= 1.0:
        raise wr.Refused(f"--to {a.to}: choose a share from 0 to 1, as 0.99.")
    if a.seed < 0:
        raise wr.Refused(f"--seed {a.seed}: choose a whole number of at least 0.")
    if a.started_at is not None and not 0.0 <= time.time() - a.started_at <= 3600.0:
        raise wr.Refused(f"--started-at {a.started_at}: that is not a time within the last hour, in seconds since 1970.")
    if a.out is not None:
        wr.check_writable(a.out)
    return a


def check_cold(a: argparse.Namespace) -> None:
    """Checks that the options of --cold fit together."""
    of_cold = {"--like": a.like, "--author": a.author}
    if a.cold is None:
        for name in (name for name, value in of_cold.items() if value is not None):
            raise wr.Refused(f"{name} is for the record of --cold N.")
        return
    if not 1 <= a.cold <= wr.MAX_SAMPLES:
        raise wr.Refused(f"--cold {a.cold}: choose from 1 to {wr.MAX_SAMPLES} processes.")
    if a.like is None or a.out is None:
        raise wr.Refused(f"--cold needs --like FILE, a record as `{OURS} --out FILE` writes it, and --out FILE for the new one.")
    if a.to is not None or a.started_at is not None:
        raise wr.Refused("--to and --started-at are for a single process: with --cold the accuracy is that of --like.")
    if a.out.exists() and a.like.exists() and a.out.samefile(a.like):
        raise wr.Refused("--out would replace the record given by --like; name another file.")


# ---- whole processes -------------------------------------------------------------------------------------------------


def settings_of(a: argparse.Namespace, arguments: list[str]) -> wr.Settings:
    """Returns the work of the like-record and its way here; raises `Refused` if the work is another."""
    like = wr.read_like(a.like, EXPERIMENT, OURS)
    problems = [wr.Problem(p) for p in like["problems"]]
    problem = next((p for p in problems if p.id == like.get("main_problem")), problems[0])
    for name, value in {**WORK, "type": "f16"}.items():
        theirs = problem.dtype if name == "type" else problem.size(name)
        if theirs != value:
            raise wr.Refused(f"{a.like} has {name} {theirs}, but this script trains with {value}: make it with `{OURS}`, on MNIST's original files.")
    if not 0.0 < problem.number("accuracy") <= 100.0:
        raise wr.Refused(f"{a.like} has an accuracy of {problem.number('accuracy')} %: make it with `{OURS}`.")
    more = [name for name, on in (("compiled", a.compile), ("searched", a.search)) if on]

    def way_of(name: str) -> wr.Way:
        what = {"eager": "eager", "graph": "CUDA graph"}[name]
        return wr.Way(
            "_".join(["torch_amp_fp16", name, *more]),
            ", ".join([f"PyTorch, AMP fp16, {what}", *more]),
            "torch.autocast with fp16 and GradScaler, channels_last, a fused optimiser; it ends with the first epoch that reaches the accuracy.",
            build=lambda: None,
            graph=name == "graph",
        )

    bench = wr.Bench(warmup=1, samples=a.cold, budget_s=math.inf, batch_below_us=0.0)
    command = shlex.join(["python3", "notebooks/pytorch/mnist_to_99.py", *arguments])
    return wr.Settings(like, a.out, (problem,), tuple(way_of(name) for name in a.ways), bench, command, a.author)


def process(a: argparse.Namespace, way: str, to: float, seed: int, machine: Path | None) -> tuple[float, dict[str, Any]]:
    """Runs a process that trains from a seed; returns its seconds from start to end, and its line."""
    words = ["--data", a.data, "--way", way, "--to", repr(to), "--epochs", a.epochs, "--seed", seed]
    flags = [*(["--compile"] if a.compile else []), *(["--search"] if a.search else []), *(["--machine", machine] if machine else [])]
    command = [sys.executable, str(Path(__file__).resolve()), *map(str, words + flags)]
    begun = time.perf_counter()
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    seconds = time.perf_counter() - begun
    try:
        # An uncaught exception also exits with 1.
        line = json.loads(done.stdout) if done.returncode in (0, 1) else None
    except ValueError:
        line = None
    if line is None:
        raise wr.Refused(f"The process that trains from seed {seed} gave no result (exit code {done.returncode}); its output is above.")
    print(done.stdout.strip(), flush=True)
    return seconds, line


Timed = list[tuple[float, dict[str, Any]]]


def row_of(settings: wr.Settings, way: wr.Way, timed: Timed) -> dict[str, Any]:
    """Returns the row of a way's processes: their times and accuracies, and whether the mean accuracy is the requested one."""
    (problem,) = settings.problems
    of, target = problem.count("test_samples"), problem.number("accuracy")
    right = [round(line["accuracy"] * of) for _, line in timed]
    lack = max(target - 100.0 * sum(right) / (of * len(right)), 0.0)
    # A difference caused by rounding is ignored.
    lack = 0.0 if lack < 1e-10 else lack
    check = wr.Check(f"a mean accuracy of {target:g} % or more", lack, lack / target, 0.0, lack == 0.0)
    us = [seconds * 1e6 for seconds, _ in timed]
    row = wr.measurement_record(way, problem, {"status": "measured"}, (us, us), check)
    return {**row, "test": [{"correct": correct, "of": of} for correct in right]}


def phases_of(timed: Timed) -> dict[str, list[float]]:
    """Returns the seconds of each phase in each process, in order; a phase that a process lacks takes 0."""
    names = list(dict.fromkeys(name for _, line in timed for name in line["phases_s"]))
    return {name: [line["phases_s"].get(name, 0.0) for _, line in timed] for name in names}


def parts_of(settings: wr.Settings, way: wr.Way, timed: Timed) -> list[dict[str, Any]]:
    """Returns the phases as parts of a record's row."""
    (problem,) = settings.problems
    return [
        {"rung": way.id, "problem": problem.id, "group": "phase", "name": name, "samples_us": [s * 1e6 for s in seconds]}
        for name, seconds in phases_of(timed).items()
    ]


def notes_of(way: wr.Way, timed: Timed) -> list[str]:
    walls, epochs = sorted(line["wall_s"] for _, line in timed), sorted(line["epochs"] for _, line in timed)
    phases = ", ".join(f"{name} {wr.median(seconds):.2f}" for name, seconds in phases_of(timed).items())
    return [
        f"{way.title}: until the end of the last test a process took {walls[0]:.2f} to {walls[-1]:.2f} s, without what Python takes to end. "
        f"Medians of its phases in seconds: {phases}.",
        f"{way.title}: {epochs[0]} to {epochs[-1]} epochs were trained; one process before the first is not counted.",
    ]


def notes_on_seeds(settings: wr.Settings, seed: int, count: int) -> list[str]:
    seeds = f"samples are of the seeds {seed} to {seed + count - 1}, in this order" if count > 1 else f"sample is of the seed {seed}"
    left = [] if count >= settings.bench.samples else [f"{count} of {settings.bench.samples} trainings are done."]
    return [f"The {seeds}.", *left]


def run_cold(a: argparse.Namespace, arguments: list[str]) -> bool:
    """Writes the record of whole processes; returns whether each way reached the mean accuracy. Loading PyTorch would keep the driver awake."""
    settings = settings_of(a, arguments)
    to = settings.problems[0].number("accuracy") / 100.0
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "machine.json"
        for name in a.ways:
            process(a, name, to, a.seed, file)
        record = wr.new_record(settings, wr.Machine(**json.loads(wr.read_text(file))))
    timed: dict[str, Timed] = {name: [] for name in a.ways}
    for count, seed in enumerate(range(a.seed, a.seed + a.cold), 1):
        # The ways take turns, so that all of them see the same state of the machine.
        for name in a.ways:
            timed[name].append(process(a, name, to, seed, None))
        done = [(way, timed[name]) for way, name in zip(settings.ways, a.ways)]
        record |= {
            "measurements": [row_of(settings, way, rows) for way, rows in done],
            "parts": [part for way, rows in done for part in parts_of(settings, way, rows)],
            "notes": [note for way, rows in done for note in notes_of(way, rows)] + notes_on_seeds(settings, a.seed, count),
        }
        wr.write_record(a.out, record)
    for way, name in zip(settings.ways, a.ways):
        seconds = wr.median([seconds for seconds, _ in timed[name]])
        wr.print_line(f"{way.title}: median of {a.cold} processes {seconds:.3f} s")
    wr.print_line(f"Record: {a.out}")
    return all(row["check"]["passed"] for row in record["measurements"])


# ---- one process -----------------------------------------------------------------------------------------------------


def run(a: argparse.Namespace, arguments: list[str], phases: Phases) -> dict[str, Any]:
    torch = wr.load_torch()
    torch.backends.cudnn.allow_tf32, torch.backends.cudnn.benchmark = False, a.search
    phases.mark("import")
    if not torch.cuda.is_available():
        raise wr.Refused("This script trains on a GPU, but PyTorch finds none.")
    torch.cuda.init()
    torch.cuda.synchronize()
    phases.mark("device")
    train, test = (Files(torch, a.data, part, "cuda") for part in ("train", "t10k"))
    torch.cuda.synchronize()
    phases.mark("data")
    of = Training(torch, a.way, train, a.seed, a.compile)
    of.synchronize()
    phases.mark("build")
    epochs = trained(of, test, a.epochs, a.to, phases)
    caller_s = None if a.started_at is None else time.time() - a.started_at
    # This comes after the timed part, because nvidia-smi takes some time.
    machine = wr.look(torch, {"environment": {"device": {"kind": "cuda"}}})
    if a.machine is not None:
        a.machine.write_text(json.dumps(asdict(machine)), encoding="utf-8")
    return written(a, arguments, machine, of.steps, epochs, phases, caller_s)


def main(arguments: list[str], begun: float) -> int:
    phases = Phases(begun, interpreter_s(process_age_s(), time.perf_counter() - begun))
    try:
        a = parse(arguments)
        if a.cold is not None:
            return 0 if run_cold(a, arguments) else 1
        line = run(a, arguments, phases)
        print(json.dumps(line, ensure_ascii=False, allow_nan=False), flush=True)
        if a.out is not None:
            wr.write_record(a.out, line)
    except (wr.Refused, wr.Unavailable) as e:
        wr.print_line(str(e))
        return 2
    except KeyboardInterrupt:
        wr.print_line("Interrupted.")
        return 130
    return 0 if line["reached"] else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], BEGUN))
