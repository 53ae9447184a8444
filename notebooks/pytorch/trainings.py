#!/usr/bin/env python3
"""Trains in PyTorch what a record of `warpbook train` trained, and follows it step by step in the same format.

    warpbook train mnist --data DIR --precision amp-fp16 --log-every 10 --out ours.json
    python3 trainings.py --like ours.json --data DIR --out pytorch.json
    warpbook merge ours.json pytorch.json --out both.json

The record may have several trainings, merged by `warpbook merge`: each of them is trained, in the order of the record, and
the new record is written after every epoch. The recipes mnist and cifar10 are known, with the batch, epochs, steps, seed,
gradient clipping and precision of the record; all else has to be as crates/warpbook-nn/src/train/recipe.rs has it. The ways
are named after the precision:

    torch_cpu        fp32 on the CPU, for a record that was made on one
    torch_fp32       fp32, TF32 off
    torch_tf32       fp32 with TF32 in products and convolutions
    torch_amp_fp16   torch.autocast with fp16 and GradScaler
    torch_amp_bf16   torch.autocast with bf16

A log has the loss of the training batches, the loss scale that each step used, the steps that were skipped, the learning rate,
the norm of all gradients before they were clipped, and after each epoch the loss and the accuracy on training and test
images, its seconds, and at the end what PyTorch has allocated and reserved at most.

The images lie on the device as bytes; each epoch has another order, with a smaller batch at its end; CIFAR-10's are cropped
and mirrored at random. Losses and norms stay on the device until an epoch is over, so that no step waits for the host. The
code is eager, as most tutorials write it; its seconds are no benchmark of PyTorch, which training.py times. Weights, order,
dropout and crops are drawn by torch's own generator from the record's seed: the same distributions, other numbers. A batch
of the training images was seen with dropout, the test images without, in the types of the training.

Images that a program has drawn are refused, since this script does not draw them.

Exit codes: 0; 1 a loss was not finite; 2 the arguments, a file or PyTorch; 130 interrupted, the steps until then are written.
"""

from __future__ import annotations

import argparse
import math
import re
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import training
import warpbook_record as wr
from batches import IMAGES, augmented, normalised
from loader_loop import images_and_labels

EXPERIMENT = "train"
OURS = "warpbook train mnist --data DIR"
# Number of test images in a batch.
TESTED = 1000


# ---- what is trained -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Recipe:
    """The fixed part of a recipe: its words in a record, and its optimiser."""

    words: dict[str, str]
    optimizer: Callable[[Any, Any], Any]
    # Number of epochs after which the learning rate is halved; None if it stays constant.
    halved_every: int | None


# The words of a recipe that say what is trained, as opposed to how Warpbook computes it.
TOLD = {"recipe", "device", "network", "parameters", "loss", "optimiser", "learning rate", "gradient clipping", "batch", "epochs"}
TOLD |= {"steps", "pixels", "augmentation", "test images", "order", "seed"}
COMMON = {
    "loss": "cross entropy",
    "test images": "seen once, as they are",
    "order": "shuffled every epoch",
}
RECIPES = {
    "mnist": Recipe(
        COMMON
        | {
            "network": "1 x 28 x 28: conv2d 32, 3x3; relu; conv2d 64, 3x3; relu; max_pool 2; dropout 0.25; flatten; linear 128; relu; "
            "dropout 0.5; linear 10",
            "optimiser": "SGD, momentum 0.9",
            "learning rate": "0.05, times 0.5 every 5 epochs",
            "pixels": "normalised with mean 0.131 and standard deviation 0.308",
            "augmentation": "none",
        },
        lambda torch, parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9),
        5,
    ),
    "cifar10": Recipe(
        COMMON
        | {
            "network": "3 x 32 x 32: conv2d 32, 3x3, padding 1; relu; max_pool 2; conv2d 64, 3x3, padding 1; relu; max_pool 2; "
            "conv2d 128, 3x3, padding 1; relu; max_pool 2; flatten; linear 512; relu; linear 10",
            "optimiser": "Adam, betas 0.9 and 0.999, epsilon 1e-8",
            "learning rate": "0.001",
            "pixels": "normalised with means 0.500, 0.500, 0.500 and standard deviations 0.500, 0.500, 0.500",
            "augmentation": "random crops after padding by 4 black pixels; random horizontal flips",
        },
        lambda torch, parameters: torch.optim.Adam(parameters, lr=1e-3),
        None,
    ),
}


def way(name: str, title: str, idea: str, on_gpu: bool = True) -> wr.Way:
    return wr.Way(f"torch_{name}", f"PyTorch, {title}", idea, build=lambda: None, on_gpu=on_gpu)


CPU = way("cpu", "CPU", "Eager PyTorch in fp32 on every core of the CPU.", on_gpu=False)
# The ways on a GPU, by the record's name of the precision.
WAYS = {
    "fp32": way("fp32", "fp32", "Eager PyTorch, TF32 off."),
    "tf32": way("tf32", "TF32", "Eager PyTorch with TF32 in products and convolutions."),
    "amp-fp16": way("amp_fp16", "AMP, fp16", "torch.autocast with fp16 and GradScaler, as most tutorials write it."),
    "amp-bf16": way("amp_bf16", "AMP, bf16", "torch.autocast with bf16."),
}


@dataclass(frozen=True)
class Job:
    """One training of the record."""

    problem: wr.Problem
    way: wr.Way
    name: str
    # One of fp32, tf32, amp-fp16 and amp-bf16.
    precision: str
    batch: int
    epochs: int
    # Largest number of steps.
    steps: int
    seed: int
    clip: float | None
    log_every: int
    # The record's words that say what was trained, and on which samples.
    words: dict[str, str]
    data: str

    @property
    def samples(self) -> int:
        return self.problem.count("samples")

    @property
    def steps_per_epoch(self) -> int:
        return math.ceil(self.samples / self.batch)


def job_of(path: Path, problem: wr.Problem, log: dict[str, Any]) -> Job:
    """Returns the training of a log; raises `Refused` if this script does not know it."""

    def refuse(why: str) -> wr.Refused:
        return wr.Refused(f"{path}: {problem.label}: {why}")

    course = log.get("course")
    if not isinstance(course, dict):
        raise refuse(f"its log does not say what was trained. Train again with the current warpbook: `{OURS} --out FILE`.")
    words, data = dict(course["recipe"]), course["data"]
    name = words.get("recipe", "")
    if name not in RECIPES:
        raise refuse(f"this script trains {' and '.join(RECIPES)}, not {name or 'a recipe without a name'}.")
    for key, value in RECIPES[name].words.items():
        if words.get(key) != value:
            raise refuse(f"its {key} is `{words.get(key)}`, but this script trains with `{value}`.")
    more = [key for key in words if key.startswith("parameters ") or key in ("initial weights", "ranks")]
    if more or course.get("first_step"):
        raise refuse(f"this script knows no {more[0] if more else 'training that was gone on with'}.")
    if "drawn by a program" in data:
        raise refuse(f"its images are {data}, which this script does not draw: train with files, `{OURS} --out FILE`.")
    device = words["device"]
    precision = "fp32" if device == "the CPU in fp32" else device.rpartition(" in ")[2]
    if precision not in WAYS:
        raise refuse(f"it was trained on `{device}`, whose precision is not one of {', '.join(WAYS)}.")
    clip = re.fullmatch(r"to a norm of (\S+)", words["gradient clipping"])
    return Job(
        problem,
        CPU if device.startswith("the CPU") else WAYS[precision],
        name,
        precision,
        problem.count("batch"),
        int(words["epochs"]),
        problem.count("steps"),
        problem.count("seed", least=0),
        float(clip[1]) if clip else None,
        max(int(course.get("log_every", 1)), 1),
        words,
        data,
    )


def jobs_of(path: Path, like: dict[str, Any]) -> list[Job]:
    """Returns the trainings of a record, each precision of a problem once."""
    problems = {p["id"]: wr.Problem(p) for p in like["problems"]}
    found: dict[tuple[str, str], Job] = {}
    for log in like.get("train_logs", []):
        job = job_of(path, problems[log["problem"]], log)
        found.setdefault((job.way.id, job.problem.id), job)
    if not found:
        raise wr.Refused(f"{path} has no training to follow. Make one with `{OURS} --out FILE`.")
    return list(found.values())


# ---- the images ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Images:
    """Bytes [n][c][h][w] and labels int64 [n] on the device."""

    name: str
    x: Any
    y: Any

    def inputs(self, x: Any) -> Any:
        return normalised(x, *IMAGES[self.name][2:])


def images_of(torch: Any, name: str, folder: Path, device: str) -> tuple[Images, Images]:
    """Returns the training images and the test images."""

    def tensor(raw: bytes) -> Any:
        return torch.frombuffer(bytearray(raw), dtype=torch.uint8).to(device)

    if name == "mnist":
        sets = []
        for part in ("train", "t10k"):
            shape, images, labels = images_and_labels(folder, part)
            if shape[1:] != IMAGES["mnist"][1][1:]:
                raise wr.Refused(f"{folder} has images of {shape[1]} x {shape[2]}; this network takes 28 x 28.")
            sets.append(Images(name, tensor(images).view(shape[0], 1, *shape[1:]), tensor(labels).long()))
        return sets[0], sets[1]
    inner = folder / "cifar-10-batches-bin"
    try:
        x, y, test_x, test_y = training.cifar_files(torch, inner if inner.is_dir() else folder, device)
    except (OSError, RuntimeError) as e:
        raise wr.Refused(f"CIFAR-10's binary files cannot be read from {folder}: {e}. Name their folder with --data.") from e
    return Images(name, x, y), Images(name, test_x, test_y)


# ---- a training ------------------------------------------------------------------------------------------------------


@dataclass
class Log:
    """The log of a training, in the form of crates/warpbook-record/src/measured/course.rs."""

    job: Job
    losses: list[dict[str, Any]] = field(default_factory=list)
    norms: list[dict[str, Any]] = field(default_factory=list)
    rates: list[dict[str, Any]] = field(default_factory=list)
    scales: list[dict[str, Any]] = field(default_factory=list)
    skipped: list[int] = field(default_factory=list)
    epochs: list[dict[str, Any]] = field(default_factory=list)
    steps: int = 0
    total_s: float = 0.0
    allocated: int | None = None
    reserved: int | None = None
    ended: str = ""

    @staticmethod
    def changed(points: list[dict[str, Any]], step: int, value: float) -> None:
        """Adds a point if a value differs from the one before."""
        if not points or points[-1]["value"] != wr.real(value):
            points.append({"step": step, "value": wr.real(value)})

    def add(self, epoch: int, rate: float, losses: list[float], norms: list[float], scales: list[float]) -> None:
        """Adds the steps of an epoch. `scales` also has the scale after the last step, and is empty without a scaler."""
        for i, loss in enumerate(losses):
            self.changed(self.rates, self.steps + i + 1, rate)
            if scales:
                self.changed(self.scales, self.steps + i + 1, scales[i])
        # A scaler lowers its scale only after a step whose gradients overflowed.
        skipped = [i for i in range(len(losses)) if scales and scales[i + 1] < scales[i]]
        self.skipped += [self.steps + i + 1 for i in skipped]
        every = self.job.log_every
        for begin in range(0, len(losses), every):
            some = range(begin, min(begin + every, len(losses)))
            step = self.steps + some[-1] + 1
            mean = sum(losses[i] for i in some) / len(some)
            self.losses.append({"epoch": epoch, "step": step, "loss": wr.real(mean)})
            known = [norms[i] for i in some if i not in skipped and math.isfinite(norms[i])]
            if known:
                self.norms.append({"step": step, "value": sum(known) / len(known)})
        self.steps += len(losses)

    def record(self, of: str) -> dict[str, Any]:
        """Returns the log for a record; `of` is its entry for the device."""
        job, last = self.job, self.epochs[-1] if self.epochs else {}
        here = {"device": of, "batch": str(job.batch)}
        course = {
            "recipe": [[name, here.get(name, what)] for name, what in job.words.items() if name in TOLD],
            "data": job.data,
            "log_every": job.log_every,
            "steps": self.steps,
            "steps_per_epoch": job.steps_per_epoch,
            "learning_rates": self.rates,
            "loss_scales": self.scales,
            "skipped_steps": self.skipped,
            "skipped_total": len(self.skipped),
            "gradient_norms": self.norms,
            "epochs": self.epochs,
            "total_s": self.total_s,
            **({"peak_allocated_bytes": self.allocated} if self.allocated is not None else {}),
            **({"peak_reserved_bytes": self.reserved} if self.reserved is not None else {}),
            "ended": self.ended,
        }
        return {
            "rung": job.way.id,
            "problem": job.problem.id,
            "losses": self.losses,
            "train_loss": last.get("train_loss", self.losses[-1]["loss"] if self.losses else "NaN"),
            "test_loss": last.get("test_loss", "NaN"),
            "course": course,
        }


class Training:
    """A network with its optimiser, and its steps."""

    def __init__(self, torch: Any, job: Job, train: Images, test: Images, device: str):
        self.torch, self.job, self.train, self.test, self.device = torch, job, train, test, device
        torch.manual_seed(job.seed)
        self.tf32(job.precision == "tf32")
        self.model = training.NETWORKS[job.name](torch, training.Sizes(job.name, job.batch, 1)).to(device)
        self.optimizer = RECIPES[job.name].optimizer(torch, self.model.parameters())
        every = RECIPES[job.name].halved_every
        schedulers = torch.optim.lr_scheduler
        self.schedule = schedulers.StepLR(self.optimizer, every, 0.5) if every else None
        self.half = {"amp-fp16": torch.float16, "amp-bf16": torch.bfloat16}.get(job.precision)
        self.scaler = torch.amp.GradScaler(device, enabled=self.half == torch.float16)
        self.one = torch.ones((), device=device)

    def tf32(self, on: bool) -> None:
        self.torch.backends.cuda.matmul.allow_tf32 = self.torch.backends.cudnn.allow_tf32 = on
        self.torch.backends.cudnn.benchmark = True

    def autocast(self) -> Any:
        return self.torch.autocast(self.device, dtype=self.half or self.torch.float16, enabled=self.half is not None)

    def synchronize(self) -> None:
        if self.device == "cuda":
            self.torch.cuda.synchronize()

    def step(self, picked: Any) -> tuple[Any, Any, Any]:
        """Returns the loss, the norm of the gradients and the number of correct samples, all on the device."""
        torch, x, y = self.torch, self.train.x[picked], self.train.y[picked]
        if self.job.name == "cifar10":
            x = augmented(torch, x)
        self.optimizer.zero_grad(set_to_none=True)
        with self.autocast():
            outputs = self.model(self.train.inputs(x))
            loss = torch.nn.functional.cross_entropy(outputs, y)
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.optimizer)
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.job.clip or math.inf)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss.detach(), norm.detach(), (outputs.argmax(1) == y).sum()

    def scale(self) -> Any:
        """Returns the loss scale on the device, because `get_scale` would wait for it."""
        return self.scaler.scale(self.one)

    def tested(self) -> tuple[float, int]:
        """Returns the mean loss over the test images, and the number of correct ones."""
        torch, F = self.torch, self.torch.nn.functional
        self.model.eval()
        losses, right = [], []
        with torch.no_grad(), self.autocast():
            for x, y in zip(self.test.x.split(TESTED), self.test.y.split(TESTED)):
                outputs = self.model(self.test.inputs(x))
                losses.append(F.cross_entropy(outputs.float(), y, reduction="sum"))
                right.append((outputs.argmax(1) == y).sum())
        self.model.train()
        return torch.stack(losses).sum().item() / len(self.test.y), int(torch.stack(right).sum())

    def epochs(self, log: Log) -> Iterator[None]:
        """Trains, and pauses after each epoch. An epoch that --steps cuts short is not tested, as in Warpbook."""
        torch, job, cuda = self.torch, self.job, self.torch.cuda
        if self.device == "cuda":
            cuda.reset_peak_memory_stats()
        begun = time.perf_counter()
        for epoch in range(1, job.epochs + 1):
            rate, clock, seen = self.optimizer.param_groups[0]["lr"], time.perf_counter(), 0
            losses, norms, right, scales = [], [], [], []
            for picked in torch.randperm(len(self.train.y), device=self.device).split(job.batch):
                if log.steps + len(losses) == job.steps:
                    break
                scales.append(self.scale())
                loss, norm, correct = self.step(picked)
                losses.append(loss), norms.append(norm), right.append(correct)
                seen += len(picked)
            if not losses:
                break
            scales.append(self.scale())
            self.synchronize()
            seconds = time.perf_counter() - clock
            numbers = [torch.stack([v.float() for v in values]).tolist() for values in (losses, norms, scales)]
            log.add(epoch, rate, *numbers[:2], numbers[2] if self.scaler.is_enabled() else [])
            if self.schedule:
                self.schedule.step()
            if len(losses) == job.steps_per_epoch:
                test_loss, correct = self.tested()
                log.epochs.append(
                    {
                        "epoch": epoch,
                        "step": log.steps,
                        "seconds": seconds,
                        "train_loss": wr.real(sum(numbers[0]) / len(losses)),
                        "test_loss": wr.real(test_loss),
                        "train": {"correct": int(torch.stack(right).sum()), "of": seen},
                        "test": {"correct": correct, "of": len(self.test.y)},
                    }
                )
            log.total_s = time.perf_counter() - begun
            if self.device == "cuda":
                log.allocated, log.reserved = cuda.max_memory_allocated(), cuda.max_memory_reserved()
            yield


# ---- the command line ------------------------------------------------------------------------------------------------


def parse(arguments: list[str]) -> argparse.Namespace:
    raw = argparse.RawDescriptionHelpFormatter
    p = wr.Parser("trainings.py", description=__doc__, formatter_class=raw, allow_abbrev=False)
    p.add_argument("--like", required=True, type=Path, metavar="FILE", help=f"record that `{OURS} --out FILE` wrote, or several merged")
    p.add_argument("--data", required=True, type=Path, metavar="DIR", help="folder with the files of the data set that was trained on")
    p.add_argument("--out", required=True, type=Path, metavar="FILE", help="file for the new record; an old one is replaced")
    p.add_argument("--author", metavar="NAME", help="who ran it, for the new record")
    a = p.parse_args(arguments)
    wr.check_writable(a.out)
    if a.out.exists() and a.like.exists() and a.out.samefile(a.like):
        raise wr.Refused("--out would replace the record given by --like; name another file.")
    return a


def settings_of(a: argparse.Namespace, jobs: list[Job], like: dict[str, Any], arguments: list[str]) -> wr.Settings:
    problems = tuple({job.problem.id: job.problem for job in jobs}.values())
    ways = tuple({job.way.id: job.way for job in jobs}.values())
    command = shlex.join(["python3", "notebooks/pytorch/trainings.py", *arguments])
    return wr.Settings(like, a.out, problems, ways, wr.Bench.of(like["policy"]), command, a.author)


def followed(torch: Any, job: Job, folder: Path, machine: wr.Machine, keep: Callable[[dict[str, Any]], None]) -> Log:
    """Trains once; `keep` is called with the log after each epoch and at the end."""
    device = "cuda" if job.way.on_gpu else "cpu"
    train, test = images_of(torch, job.name, folder, device)
    if len(train.y) != job.samples:
        raise wr.Refused(f"{folder} has {len(train.y)} training images, but the record was trained on {job.samples}: name its folder with --data.")
    log, of = Log(job), f"PyTorch {machine.torch_version.partition('+')[0]} on {machine.device['name']} in {job.precision}"
    try:
        for _ in Training(torch, job, train, test, device).epochs(log):
            keep(log.record(of))
            wr.print_line(progress(log))
        log.ended = "finished"
    except KeyboardInterrupt:
        log.ended = f"stopped after step {log.steps} of {job.steps}"
        raise
    finally:
        keep(log.record(of))
    return log


def progress(log: Log) -> str:
    job, epoch = log.job, log.epochs[-1] if log.epochs else None
    head = f"{job.problem.label}, {job.precision}, step {log.steps}: loss {float(log.losses[-1]['loss']):.4f}"
    if epoch is None or epoch["step"] != log.steps:
        return head
    right = epoch["test"]
    return f"{head}; epoch {epoch['epoch']}, {epoch['seconds']:.2f} s, test accuracy {100 * right['correct'] / right['of']:.2f} %"


def run(a: argparse.Namespace, arguments: list[str]) -> int:
    like = wr.read_like(a.like, EXPERIMENT, OURS)
    jobs = jobs_of(a.like, like)
    torch = wr.load_torch()
    machine = wr.look(torch, like)
    if machine.gpu is None and any(job.way.on_gpu for job in jobs):
        raise wr.Refused(f"{a.like} was trained on a GPU, and {machine.why_no_gpu}.")
    record = wr.new_record(settings_of(a, jobs, like, arguments), machine)
    code = 0
    for job in jobs:
        done = list(record["train_logs"])

        def keep(log: dict[str, Any]) -> None:
            record["train_logs"] = [*done, log]
            wr.write_record(a.out, record)

        log = followed(torch, job, a.data, machine, keep)
        if not all(math.isfinite(float(point["loss"])) for point in log.losses):
            code = 1
    wr.print_line(f"Record: {a.out}")
    return code


def main(arguments: list[str]) -> int:
    try:
        return run(parse(arguments), arguments)
    except (wr.Refused, wr.Unavailable) as e:
        wr.print_line(str(e))
        return 2
    except KeyboardInterrupt:
        wr.print_line("Interrupted.")
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
