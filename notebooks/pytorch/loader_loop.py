#!/usr/bin/env python3
"""Times whole trainings of the MNIST CNN in PyTorch with the loader in the loop, on the problems of a Warpbook record.

    warpbook run loop --data DIR --out ours.json
    python3 loader_loop.py --like ours.json --data DIR --out pytorch.json
    warpbook merge ours.json pytorch.json --out both.json

The problem says the batch, the epochs, the images, the loader's workers, how often losses are read, and which share of the test images has to be right.
Each problem is trained in fp32, and with autocast to fp16 and GradScaler, in three ways:

    losses    a DataLoader with page-locked memory, whose workers convert and normalise image by image; the loss is read after every step, or as
              often as the problem says
    loader    the same without reading losses
    resident  all images lie on the GPU, normalised; a step picks its shuffled samples there

with shuffling, TF32 off, cuDNN's fastest algorithms, SGD with momentum 0.9, and a learning rate of 0.05 that StepLR halves every five epochs. On a CPU
the ways in fp32 run. A sample is a whole training: the time of all steps of all epochs, loader included; starting the workers counts, as they start
anew in every epoch unless --persistent is given. The test images are classified once, after the clock has stopped. Peak memory is what PyTorch has
allocated at most, images on the GPU included.

Checked: the share of test images that are right.
"""

from __future__ import annotations

import argparse
import gzip
import struct
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import training
import warpbook_record as wr
from batches import IMAGES, normalised
from warpbook_record import Check, Problem, Way


def idx(path: Path) -> tuple[tuple[int, ...], bytes]:
    """Returns the shape and bytes of one of MNIST's files, which may be gzipped."""
    packed = path.with_name(path.name + ".gz")
    try:
        raw = path.read_bytes() if path.exists() else gzip.decompress(packed.read_bytes())
    except OSError as e:
        raise wr.Refused(f"{path} cannot be read, nor {packed.name} next to it: {e}. Name MNIST's folder with --data.") from e
    if len(raw) < 4 or raw[:3] != b"\0\0\x08" or len(raw) < 4 + 4 * raw[3]:
        raise wr.Refused(f"{path} is not an IDX file of bytes.")
    shape = struct.unpack_from(f">{raw[3]}I", raw, 4)
    data = raw[4 + 4 * raw[3] :]
    count = 1
    for size in shape:
        count *= size
    if len(data) != count:
        raise wr.Refused(f"{path} has the shape {shape}, which takes {count} bytes, but it has {len(data)}.")
    return shape, data


# Shape of the images, their bytes, and the bytes of their labels.
Files = tuple[tuple[int, ...], bytes, bytes]


def images_and_labels(folder: Path, part: str) -> Files:
    """Returns the shape and bytes of the images of `train` or `t10k`, and the bytes of their labels."""
    shape, images = idx(folder / f"{part}-images-idx3-ubyte")
    (count, *_), labels = idx(folder / f"{part}-labels-idx1-ubyte")
    if len(shape) != 3 or count != shape[0]:
        raise wr.Refused(f"{folder} has {count} labels, but its images have the shape {shape}.")
    return shape, images, labels


class Images:
    """A map-style data set: each image is converted and normalised separately, as transforms do it."""

    def __init__(self, torch: Any, images: Any, labels: Any):
        self.torch, self.images, self.labels = torch, images, labels

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, at: int) -> tuple[Any, int]:
        return normalised(self.images[at], *IMAGES["mnist"][2:]), int(self.labels[at])


def resident_batches(torch: Any, x: Any, y: Any, batch: int) -> Any:
    for picked in torch.randperm(len(x), device=x.device).split(batch):
        yield x[picked], y[picked]


@dataclass(frozen=True)
class Work:
    """The sizes of a problem: what is trained, and what the loader does."""

    batch: int
    epochs: int
    workers: int
    read_losses: int
    images: int
    test_images: int
    # Share of correct test images, in percent.
    accuracy: float

    @staticmethod
    def of(problem: Problem) -> Work:
        if problem.size("network") != "mnist":
            raise wr.Refused(f"The problem `{problem.id}` does not train the MNIST CNN.")
        data = problem.size("data")
        if not str(data).startswith("MNIST"):
            raise wr.Refused(
                f"The record was made with {data}, which only Warpbook has. Run `warpbook run loop --data DIR` with MNIST's files, and give that "
                "record to --like."
            )
        counts = (problem.count(name) for name in ("batch", "epochs"))
        more = (problem.count(name) for name in ("read_losses", "images", "test_images"))
        return Work(*counts, problem.count("workers", least=0), *more, problem.number("accuracy"))


@dataclass(frozen=True)
class Fed:
    """A `Fed` says how a way's data are loaded, and whether products and convolutions are in fp16."""

    half: bool
    resident: bool = False
    reads_losses: bool = False


FEEDS = {
    "losses": (
        "each loss read",
        "A DataLoader's workers convert and normalise image by image, batches are copied from page-locked memory, and `loss.item()` waits for the GPU.",
    ),
    "loader": (
        "loader",
        "A DataLoader's workers convert and normalise image by image, and batches are copied from page-locked memory; no loss is read.",
    ),
    "resident": (
        "images on the GPU",
        "All images lie on the GPU, normalised, and each step picks its shuffled samples there; no loss is read.",
    ),
}
PRECISIONS = {"fp32": ("PyTorch, fp32", "TF32 off."), "amp_fp16": ("PyTorch AMP fp16", "autocast and GradScaler.")}


def not_a_region(*_: Any) -> Any:
    raise NotImplementedError("a sample is a whole training")


def way(feed: str, precision: str) -> Way:
    (how, idea), (title, types) = FEEDS[feed], PRECISIONS[precision]
    # A CPU can train only in fp32.
    return Way(f"torch_{feed}_{precision}", f"{title}, {how}", f"{idea} {types}", not_a_region, on_gpu=precision != "fp32")


WAYS = tuple(way(feed, precision) for precision in PRECISIONS for feed in FEEDS)
FED = {
    way(feed, precision).id: Fed(precision != "fp32", feed == "resident", feed == "losses") for precision in PRECISIONS for feed in FEEDS
}


def resident_batches(torch: Any, x: Any, y: Any, batch: int) -> Any:
    for picked in torch.randperm(len(x), device=x.device).split(batch):
        yield x[picked], y[picked]


@dataclass(frozen=True)
class Trained:
    """The result of a whole training."""

    seconds: float
    steps: int
    peak_bytes: int
    # Number of correct test images.
    correct: int


class Trainings:
    """The trainings of a problem, one after the other."""

    def __init__(self, torch: Any, device: str, work: Work, files: tuple[Files, Files], persistent: bool):
        self.torch, self.device, self.work, self.persistent = torch, device, work, persistent
        counts = (work.images, work.test_images)
        self.train, self.test = (self.tensors(part, count) for part, count in zip(files, counts))

    def tensors(self, files: Files, count: int) -> tuple[Any, Any]:
        """Returns the first images and labels in the files' form."""

        def tensor(raw: bytes) -> Any:
            return self.torch.frombuffer(bytearray(raw), dtype=self.torch.uint8)

        (_, *shape), images, labels = files
        return tensor(images).view(-1, 1, *shape)[:count], tensor(labels).long()[:count]

    def batches(self, fed: Fed) -> Callable[[], Any]:
        """Returns a function that gives the batches of an epoch."""
        (images, labels), work = self.train, self.work
        if fed.resident:
            x, y = normalised(images.to(self.device), *IMAGES["mnist"][2:]), labels.to(self.device)
            return lambda: resident_batches(self.torch, x, y, work.batch)
        loader = self.torch.utils.data.DataLoader(
            Images(self.torch, images, labels), work.batch, shuffle=True, num_workers=work.workers, pin_memory=self.device == "cuda",
            persistent_workers=self.persistent and work.workers > 0,
        )  # fmt: skip
        return lambda: ((x.to(self.device, non_blocking=True), y.to(self.device, non_blocking=True)) for x, y in loader)

    def run(self, fed: Fed) -> Trained:
        torch, cuda, work = self.torch, self.torch.cuda, self.work
        torch.manual_seed(1)
        # Convolutions use TF32 by default.
        torch.backends.cudnn.allow_tf32 = False
        torch.backends.cudnn.benchmark = True
        if self.device == "cuda":
            cuda.empty_cache()
            cuda.reset_peak_memory_stats()
        held = cuda.memory_allocated() if self.device == "cuda" else 0
        model = training.mnist(torch, training.Sizes("mnist", work.batch, 1)).to(self.device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=5, gamma=0.5)
        scaler = torch.amp.GradScaler(self.device, enabled=fed.half)
        take, criterion, steps, losses = self.batches(fed), torch.nn.CrossEntropyLoss(), 0, []
        self.synchronize()
        begin = time.perf_counter()
        for _ in range(work.epochs):
            for x, y in take():
                optimizer.zero_grad(set_to_none=True)
                with torch.autocast(self.device, dtype=torch.float16, enabled=fed.half):
                    loss = criterion(model(x), y)
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
                steps += 1
                if fed.reads_losses and steps % work.read_losses == 0:
                    losses.append(loss.item())
            schedule.step()
        self.synchronize()
        seconds = time.perf_counter() - begin
        peak = cuda.max_memory_allocated() - held if self.device == "cuda" else 0
        return Trained(seconds, steps, peak, self.correct(model, fed.half))

    def synchronize(self) -> None:
        if self.device == "cuda":
            self.torch.cuda.synchronize()

    def correct(self, model: Any, half: bool) -> int:
        torch, (images, labels) = self.torch, self.test
        model.eval()
        right = 0
        with torch.no_grad(), torch.autocast(self.device, dtype=torch.float16, enabled=half):
            for x, y in zip(images.split(1000), labels.split(1000)):
                x = normalised(x.to(self.device), *IMAGES["mnist"][2:])
                right += (model(x).argmax(1).cpu() == y).sum().item()
        return right


class Loops(wr.Ladder):
    experiment = "loop"
    script = "loader_loop.py"
    description = __doc__
    ways = WAYS

    @classmethod
    def made_by(cls) -> str:
        return "warpbook run loop --data DIR"

    @staticmethod
    def add_options(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--data", required=True, type=Path, metavar="DIR", help="the folder with MNIST's four files, packed by gzip or not")
        parser.add_argument("--persistent", action="store_true", help="keep the loader's workers from one epoch to the next")

    @staticmethod
    def read(problem: Problem) -> Work:
        return Work.of(problem)

    def __init__(self, torch: Any, settings: wr.Settings, machine: wr.Machine, **named: Any):
        if machine.gpu:
            # On a machine with a GPU, fp32 runs there, too.
            settings = replace(settings, ways=tuple(replace(way, on_gpu=True) for way in settings.ways))
        super().__init__(torch, settings, machine, **named)
        folder = settings.options.data
        self.files = tuple(images_and_labels(folder, part) for part in ("train", "t10k"))
        for problem in settings.problems:
            work = self.read(problem)
            for wanted, ((there, *_), *_) in zip((work.images, work.test_images), self.files):
                if wanted > there:
                    raise wr.Refused(f"{problem.label} has {wanted} images, and {folder} has {there}. Name the folder that the record was made with.")

    def figure(self, problem: Problem, us: float) -> str:
        work = self.read(problem)
        return f"{work.epochs * work.images / us * 1e6:.4g} images/s"

    def prepare(self, problem: Problem) -> Trainings:
        return Trainings(self.torch, self.device, self.read(problem), self.files, self.settings.options.persistent)

    def measure_all(self, problem: Problem, prepared: Trainings, ways: list[Way]) -> None:
        for way in ways:
            runs: list[Trained] = []

            def timed(_: int, way: Way = way, runs: list[Trained] = runs) -> tuple[float, float]:
                runs.append(prepared.run(FED[way.id]))
                return (runs[-1].seconds * 1e6,) * 2

            samples = self.guarded(lambda timed=timed: self.bench.cpu(timed))
            if isinstance(samples, wr.Stopped):
                self.finish(way, problem, samples.outcome)
                continue
            # Trainings that only warmed up are not counted.
            counted = runs[-len(samples[0]) :]
            check = self.judge(prepared.work, counted)
            self.finish(way, problem, check.outcome(), samples, check)
            self.rows[way] |= {"test": [{"correct": run.correct, "of": prepared.work.test_images} for run in counted]}
            if self.machine.gpu:
                self.rows[way] |= {"peak_bytes": max(run.peak_bytes for run in counted)}
            if FED[way.id].half:
                self.rows[way] |= {"dtype": "f16"}

    @staticmethod
    def judge(work: Work, runs: list[Trained]) -> Check:
        """Checks that the mean share of correct test images is the one that the problem asks for; the error is the missing share."""
        percent = 100.0 * sum(run.correct for run in runs) / (work.test_images * len(runs))
        # A difference caused by rounding is ignored.
        lack = max(work.accuracy - percent, 0.0) if percent < work.accuracy - 1e-10 else 0.0
        return Check(f"a mean accuracy of {work.accuracy:g} % or more", lack, lack / work.accuracy, 0.0, lack == 0.0)


if __name__ == "__main__":
    sys.exit(wr.main(Loops))
