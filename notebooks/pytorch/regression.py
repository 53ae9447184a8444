#!/usr/bin/env python3
"""Times the linear regression that Warpbook runs, written the ways a PyTorch user would write it.

The work is y = w x + b by batch gradient descent on the mean squared error: 200 epochs of plain SGD over 80 % of the
points. The record has Warpbook's format (schema 1), so that `warpbook merge ours.json pytorch.json` puts both into one.

    python3 regression.py --out pytorch.json                          5 M points, the ways below, an epoch's parts
    python3 regression.py --out pytorch.json --sweep --also 5000000x16
                                                                      the published sizes, and one with 16 features
    python3 regression.py --out first.json --quick --ways cpu,eager   a first look

The ways, in the ladder's order:

    pytorch_cpu       forward, F.mse_loss, backward and SGD step on the processor; timed by its clock
    pytorch_eager     the same on the GPU, as a tutorial has it
    pytorch_compiled  forward and loss through torch.compile, the optimiser's step eager
    pytorch_graph     the eager training step, all epochs captured in one CUDA graph
    pytorch_expert    the gradient written out, without autograd, through torch.compile, all epochs in one CUDA graph

What is timed, and how, is as in crates/warpbook-device/src/bench.rs: three warm-ups, then 25 samples or as many as two
seconds allow, at least one. A sample is the whole descent; the weights are put back and the logged losses poisoned
before it, untimed. The losses stay on the device. Compilation and capture come before the first warm-up. A GPU way is
timed by CUDA events, and beside them by the processor's clock with the final synchronisation included.

Every result is held against the same descent in double precision, before the timed loop and after it; a way that is off
by more than the tolerance of crates/warpbook-record/src/check.rs is a failed row. torch.backends.cuda.matmul.allow_tf32
stays False: all is IEEE binary32. The points are drawn by torch's own generator, from the same distribution as ours but
not the same bits.

The forward pass is w * x + b, and X @ w + b with several features. nn.Linear(1, 1) would be a matrix product: in a CUDA
graph on an H200 it took 203 us an epoch at 5 M points where w * x + b took 98, and on the processor its long serial
sums missed the tolerance.

With several features X is [n][d] of normal(0, 1), the true w_j is (-1)^j 3 / (1 + j), and all w start where w does.

The parts of an epoch (the spans) are of pytorch_eager: each of the four calls is repeated back to back, eagerly,
between two events. Where the GPU is done sooner than the processor has queued the next call, that is the time of the
queueing.

Exit codes: 0; 1 a row failed; 2 the settings, the file or PyTorch; 130 interrupted, what was finished is written.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import functools
import gc
import json
import math
import operator
import os
import platform
import re
import shlex
import struct
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol

# As in crates/warpbook-record/src/regression.rs.
STANDARD_POINTS = 5_000_000
SWEEP_POINTS = (100_000, 500_000, 1_000_000, 5_000_000, 10_000_000, 50_000_000, 200_000_000)
INITIAL_W, INITIAL_B = 0.83, 0.7645
LOG_EVERY = 10
# As in crates/warpbook/src/regression/.
QUICK_POINTS = (100_000, 500_000, 1_000_000, 5_000_000)
MAX_EPOCHS = 10_000
MAX_POINTS = 1 << 40
REPEATS = 20
INPUTS = "x evenly spaced on [0, 10) in shuffled order, y = 3 x + 2 + Gaussian noise (Philox)"
INPUTS_OF_SEVERAL = "X of normal(0, 1), y = X w + 2 + Gaussian noise, w_j = (-1)^j 3 / (1 + j)"

SCHEMA = 1
# The most samples that a measurement keeps.
MAX_SAMPLES = 1000
# The reference's descent takes features^2 steps an epoch in plain Python.
MAX_FEATURES = 256
EPSILON_F32 = 2.0**-23
REFERENCE = "the same descent in f64: w, b and the logged losses"

# The processor's way is left out where it would take the time of all the others together.
CPU_MAX_POINTS = 10_000_000
CPU_MAX_SECONDS = 20.0
CPU_PROBE_EPOCHS = 2

Samples = tuple[list[float], list[float]]


# ---- numbers ---------------------------------------------------------------------------------------------------------


def f32(value: float) -> float:
    """The nearest binary32."""
    try:
        return struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


def decimal(value: float) -> float:
    """The number that the shortest decimal form of its binary32 says: 0.01 and not 0.009999999776."""
    single = f32(value)
    for digits in range(9):
        short = float(f"{single:.{digits}e}")
        if f32(short) == single:
            return short
    return single


def real(value: float) -> float | str:
    """As a record writes it: JSON has no NaN and no infinity."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def median(samples: list[float]) -> float:
    """Median; NaN of none."""
    ordered = sorted(samples)
    middle = len(ordered) // 2
    if not ordered:
        return math.nan
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def dot(a: list[float], b: list[float]) -> float:
    return sum(map(operator.mul, a, b))


def short_count(n: int) -> str:
    """5_000_000 as "5 M", 1_500 as "1.5 k"."""
    for unit, name in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if n >= unit:
            return f"{n / unit:.4g} {name}"
    return str(n)


def short_time(us: float) -> str:
    """12345.6 as "12.35 ms"."""
    for unit, name in ((1e6, "s"), (1e3, "ms")):
        if us >= unit:
            return f"{us / unit:.4g} {name}"
    return f"{us:.4g} us"


# ---- settings --------------------------------------------------------------------------------------------------------


class Refused(Exception):
    """What cannot be begun, in a sentence."""


@dataclass(frozen=True)
class Way:
    """One way to write the descent: a rung of the record."""

    id: str
    title: str
    idea: str
    on_gpu: bool = True

    @property
    def short(self) -> str:
        return self.id.removeprefix("pytorch_")


WAYS = (
    Way(
        "pytorch_cpu",
        "PyTorch, CPU",
        "Forward, loss, backward and the SGD step run eagerly on every core of the processor.",
        on_gpu=False,
    ),
    Way(
        "pytorch_eager",
        "PyTorch, eager",
        "The training loop of a tutorial: every operation is a kernel that is launched from Python.",
    ),
    Way(
        "pytorch_compiled",
        "PyTorch, compiled",
        "torch.compile turns forward, loss and backward into fewer kernels; the optimiser's step stays eager.",
    ),
    Way(
        "pytorch_graph",
        "PyTorch, CUDA graph",
        "All epochs of the eager training loop are captured once as a CUDA graph and replayed with a single launch.",
    ),
    Way(
        "pytorch_expert",
        "PyTorch, expert",
        "The gradient is written out without autograd and compiled, and all epochs are replayed as a CUDA graph.",
    ),
)


@dataclass(frozen=True)
class Settings:
    """What is run, and where it is written."""

    out: Path
    # (points, features), in the order of the runs.
    sizes: tuple[tuple[int, int], ...] = ((STANDARD_POINTS, 1),)
    epochs: int = 200
    learning_rate: float = 0.01
    noise: float = 0.1
    seed: int = 1
    ways: tuple[Way, ...] = WAYS
    parts: bool = True
    quick: bool = False

    def command(self) -> str:
        """The command that repeats it."""
        features = self.sizes[0][1]
        listed = [points for points, f in self.sizes if f == features]
        words = ["python3", "notebooks/pytorch/regression.py", "--out", str(self.out)]
        words += ["--points", ",".join(map(str, listed)), "--features", str(features), "--epochs", str(self.epochs)]
        words += ["--lr", str(self.learning_rate), "--noise", str(self.noise), "--seed", str(self.seed)]
        for points, f in self.sizes:
            words += ["--also", f"{points}x{f}"] if f != features else []
        words += ["--ways", ",".join(way.short for way in self.ways)]
        words += ["--quick"] if self.quick else []
        words += [] if self.parts else ["--no-parts"]
        return shlex.join(words)

    def problems(self) -> list[Problem]:
        return [
            Problem(points, train_points(points), self.epochs, self.learning_rate, self.noise, self.seed, features)
            for points, features in self.sizes
        ]

    def wants_parts(self, problem: Problem) -> bool:
        """Parts are timed at the standard size, or at the only one."""
        return self.parts and (len(self.sizes) == 1 or problem.points == STANDARD_POINTS)


def parse_count(text: str) -> int:
    """A count: 5000000, 5_000_000, 5M, 1.5M, 100k."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kKmMgG]?)", text.strip().replace("_", ""))
    if not match:
        raise argparse.ArgumentTypeError(f"`{text}` is no count: write it as 5000000, 5M or 100k.")
    whole, _, fraction = match[1].partition(".")
    zeros = {"": 0, "k": 3, "m": 6, "g": 9}[match[2].lower()]
    if len(fraction.rstrip("0")) > zeros:
        raise argparse.ArgumentTypeError(f"`{text}` is no whole number.")
    return int(whole + fraction[:zeros].ljust(zeros, "0"))


def parse_counts(text: str) -> list[int]:
    return [parse_count(part) for part in text.split(",")]


def parse_size(text: str) -> tuple[int, int]:
    """POINTSxFEATURES."""
    points, cross, features = text.lower().partition("x")
    if not cross:
        raise argparse.ArgumentTypeError(f"`{text}` is no size: write POINTSxFEATURES, as in 5000000x16.")
    return parse_count(points), parse_count(features)


def parse_number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"`{text}` is no number.") from None


class Parser(argparse.ArgumentParser):
    def error(self, message: str):
        raise Refused(message)


def parser() -> Parser:
    p = Parser(
        prog="regression.py",
        description=__doc__.split("\n\n")[0],
        epilog="The ways: " + ", ".join(way.short for way in WAYS) + ". See the head of the script for what is timed.",
        allow_abbrev=False,
    )
    p.add_argument("--out", required=True, metavar="FILE", help="file for the record; an existing one is replaced")
    p.add_argument("--points", type=parse_counts, metavar="N[,N..]", help="points, test points included [default: 5M]")
    p.add_argument("--sweep", action="store_true", help="the published sizes: 100 k to 200 M points")
    p.add_argument("--features", type=parse_count, default=1, metavar="D", help="features of each point [default: 1]")
    p.add_argument("--also", type=parse_size, action="append", default=[], metavar="NxD", help="one more size: 5Mx16")
    p.add_argument("--epochs", type=parse_count, default=200, metavar="N", help="passes over the points [default: 200]")
    p.add_argument("--lr", type=parse_number, default=0.01, metavar="R", help="learning rate [default: 0.01]")
    p.add_argument("--noise", type=parse_number, default=0.1, metavar="S", help="standard deviation [default: 0.1]")
    p.add_argument("--seed", type=parse_count, default=1, metavar="N", help="seed of the points [default: 1]")
    p.add_argument("--ways", metavar="WAY[,WAY..]", help="only these ways [default: all]")
    p.add_argument("--no-parts", action="store_true", help="leave out the timing of an epoch's parts")
    p.add_argument("--quick", action="store_true", help="few samples; sizes up to 5 M points where none are named")
    return p


def parse_ways(text: str | None) -> tuple[Way, ...]:
    if text is None:
        return WAYS
    wanted = {name.strip().removeprefix("pytorch_") for name in text.split(",") if name.strip()}
    known = [way.short for way in WAYS]
    for name in sorted(wanted - set(known)):
        raise Refused(f"There is no way `{name}`. The ways are {', '.join(known)}.")
    if not wanted:
        raise Refused("No way was named. Leave --ways out to run all of them.")
    return tuple(way for way in WAYS if way.short in wanted)


def settings_of(arguments: list[str]) -> Settings:
    """Reads the command line; what is wrong with it is a `Refused`."""
    a = parser().parse_args(arguments)
    if a.sweep and (a.points or a.quick):
        raise Refused(f"--sweep names the sizes itself: leave {'--points' if a.points else '--quick'} out.")
    points = a.points or (SWEEP_POINTS if a.sweep else QUICK_POINTS if a.quick else (STANDARD_POINTS,))
    # Each size once: a row's problem is its key.
    sizes = tuple(dict.fromkeys([(p, a.features) for p in points] + a.also))
    settings = Settings(
        out=Path(a.out),
        sizes=sizes,
        epochs=a.epochs,
        learning_rate=decimal(a.lr),
        noise=decimal(a.noise),
        seed=a.seed,
        ways=parse_ways(a.ways),
        parts=not a.no_parts,
        quick=a.quick,
    )
    validate(settings)
    return settings


def validate(s: Settings) -> None:
    for points, features in s.sizes:
        if points < 2:
            raise Refused(f"{points} points are too few: 80 % are trained on and the rest tested, so 2 are the least.")
        if points > MAX_POINTS:
            raise Refused(f"{points} points are too many: the most is {MAX_POINTS} (2^40).")
        if not 1 <= features <= MAX_FEATURES:
            raise Refused(f"{features} features: choose from 1 to {MAX_FEATURES}.")
    if not 1 <= s.epochs <= MAX_EPOCHS:
        raise Refused(f"{s.epochs} epochs: choose from 1 to {MAX_EPOCHS}.")
    if not 0 < s.learning_rate < math.inf:
        raise Refused(f"A learning rate of {s.learning_rate} does not descend: choose a number above 0, as 0.01.")
    if not 0 <= s.noise < math.inf:
        raise Refused(f"A noise of {s.noise} is no standard deviation: choose a number from 0 up.")
    if s.seed >= 1 << 64:
        raise Refused(f"A seed of {s.seed} is too large: it has 64 bits.")
    check_writable(s.out)


def check_writable(out: Path) -> None:
    """Before minutes are spent on a record that has no place."""
    folder = out.parent
    if out.is_dir():
        raise Refused(f"{out} is a folder; name a file for the record.")
    if not folder.is_dir():
        raise Refused(f"There is no folder {folder} for the record.")
    if not os.access(folder, os.W_OK):
        raise Refused(f"The folder {folder} cannot be written to.")


# ---- the work and its reference --------------------------------------------------------------------------------------


def train_points(points: int) -> int:
    """Training points of so many: 80 %, rounded down."""
    return points * 4 // 5


def truth(features: int) -> list[float]:
    """The weights that the points are drawn around."""
    return [(-1) ** j * 3.0 / (1 + j) for j in range(features)]


@dataclass(frozen=True)
class Problem:
    """The sizes of a piece of work, as warpbook_record::Problem::Regression."""

    points: int
    train_points: int
    epochs: int
    learning_rate: float
    noise: float
    seed: int
    features: int = 1

    def record(self) -> dict[str, Any]:
        return {
            "kind": "regression",
            "points": self.points,
            "train_points": self.train_points,
            "epochs": self.epochs,
            "learning_rate": real(self.learning_rate),
            "noise": real(self.noise),
            "seed": self.seed,
            "dtype": "f32",
            "features": self.features,
        }

    def label(self) -> str:
        return f"{short_count(self.points)} points" + (f" x {self.features}" if self.features > 1 else "")


@dataclass(frozen=True)
class Result:
    """What a descent gives."""

    w: list[float]
    b: float
    # Each of the weights that its epoch began with.
    losses: list[float]

    def values(self) -> list[float]:
        return [*self.w, self.b, *self.losses]


@dataclass(frozen=True)
class Moments:
    """Means and centred second moments of a set of points, in double precision.

    They are all that a descent on the mean squared error of a linear model needs to know of the points. With one
    feature they are the numbers of crates/warpbook/src/regression/reference.rs; with several, sxx is the Gram matrix.
    """

    n: int
    mean_x: list[float]
    mean_y: float
    # Sums of (x_i - mean)(x_j - mean), of (x_i - mean)(y - mean) and of (y - mean)^2.
    sxx: list[list[float]]
    sxy: list[float]
    syy: float

    def mean_error(self, w: list[float], b: float) -> float:
        return dot(w, self.mean_x) + b - self.mean_y

    def loss(self, w: list[float], b: float) -> float:
        """Mean of (X w + b - y)^2."""
        mean_error = self.mean_error(w, b)
        quadratic = dot(w, [dot(row, w) for row in self.sxx])
        return (quadratic - 2 * dot(w, self.sxy) + self.syy) / self.n + mean_error * mean_error

    def gradient(self, w: list[float], b: float) -> tuple[list[float], float]:
        """Derivatives of the loss by w and b."""
        mean_error = self.mean_error(w, b)
        by_w = [
            2 * ((dot(row, w) - sxy) / self.n + mean_error * mean)
            for row, sxy, mean in zip(self.sxx, self.sxy, self.mean_x)
        ]
        return by_w, 2 * mean_error

    def descend(self, learning_rate: float, epochs: int) -> Result:
        """`epochs` steps from the initial weights; the loss is logged in every tenth."""
        # The binary32 numbers that the ways begin with, and not the decimals.
        w, b, rate = [f32(INITIAL_W)] * len(self.mean_x), f32(INITIAL_B), f32(learning_rate)
        losses = []
        for epoch in range(1, epochs + 1):
            if epoch % LOG_EVERY == 0:
                losses.append(self.loss(w, b))
            by_w, by_b = self.gradient(w, b)
            w = [value - rate * step for value, step in zip(w, by_w)]
            b -= rate * by_b
        return Result(w, b, losses)


def tolerance(points: int, epochs: int) -> float:
    """Tolerance::descent of crates/warpbook-record/src/check.rs, in f32."""
    depth = 256 + math.log2(max(points, 2))
    return EPSILON_F32 * 0.5 * (depth + epochs)


@dataclass(frozen=True)
class Check:
    """A result held against the reference."""

    max_abs_error: float
    max_rel_error: float
    tolerance: float
    passed: bool

    @staticmethod
    def of(got: Result, want: Result, bound: float) -> Check:
        """Check::compare at a scale of 1: what is not a number fails, and so does a loss too many or too few."""
        pairs = list(zip(got.values(), want.values()))
        absolute = worst([abs(g - w) for g, w in pairs])
        relative = worst([abs(g - w) / max(abs(w), 1.0) for g, w in pairs])
        complete = len(got.w) == len(want.w) and len(got.losses) == len(want.losses)
        # `<=` and not `not >`: NaN must fail.
        return Check(absolute, relative, bound, complete and relative <= bound)

    def worse(self, other: Check) -> Check:
        """The worse of two checks of the same thing, as of before and after the timed loop."""
        pick = other if math.isnan(other.max_rel_error) or other.max_rel_error > self.max_rel_error else self
        return Check(pick.max_abs_error, pick.max_rel_error, pick.tolerance, self.passed and other.passed)

    def record(self) -> dict[str, Any]:
        return {
            "reference": REFERENCE,
            "max_abs_error": real(self.max_abs_error),
            "max_rel_error": real(self.max_rel_error),
            "tolerance": real(self.tolerance),
            "passed": self.passed,
        }


def worst(errors: list[float]) -> float:
    return math.nan if any(map(math.isnan, errors)) else max(errors, default=0.0)


# ---- timing ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bench:
    """The one way of taking times: crates/warpbook-device/src/bench.rs.

    `once(batch)` runs the region so often and gives its time and its wall time, both in microseconds and of one.
    """

    warmup: int = 3
    samples: int = 25
    budget_s: float = 2.0
    batch_below_us: float = 50.0

    def gpu(self, once: Callable[[int], tuple[float, float]], may_repeat: bool = False) -> Samples:
        """A region with a setup may not be repeated within a sample."""
        last_us = 0.0
        for _ in range(max(self.warmup, 1)):
            last_us, _ = once(1)
        return self.collect(self.batch_for(last_us) if may_repeat else 1, once)

    def cpu(self, once: Callable[[int], tuple[float, float]]) -> Samples:
        first = once(1)
        # A region that takes the whole budget by itself has warmed up by running once, and that run counts.
        if first[0] * 1e-6 >= self.budget_s:
            return [first[0]], [first[1]]
        return self.collect(1, once)

    def collect(self, batch: int, once: Callable[[int], tuple[float, float]]) -> Samples:
        us, wall_us = [], []
        begun = time.perf_counter()
        for _ in range(max(self.samples, 1)):
            sample = once(batch)
            us.append(sample[0])
            wall_us.append(sample[1])
            if time.perf_counter() - begun >= self.budget_s:
                break
        return us, wall_us

    def batch_for(self, us: float) -> int:
        """Repetitions that bring a region over the threshold, with a margin of two."""
        if us >= self.batch_below_us:
            return 1
        return min(max(math.ceil(2 * self.batch_below_us / max(us, 0.1)), 1), 1000)

    def policy(self, on_gpu: bool, inputs: str) -> dict[str, Any]:
        return {
            "timed_by": "cuda_events" if on_gpu else "wall_clock",
            "l2": "warm",
            "warmup": self.warmup,
            "samples": self.samples,
            "budget_s": self.budget_s,
            "batch_below_us": self.batch_below_us,
            "inputs": inputs,
        }


QUICK_BENCH = Bench(warmup=1, samples=7, budget_s=0.5)


# ---- the record ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Machine:
    """What the backend says of itself."""

    torch_version: str
    # A GPU as the record's DeviceInfo; None where there is none.
    gpu: dict[str, Any] | None = None
    driver: str | None = None
    cuda: str | None = None

    def obstacle(self, way: Way) -> str | None:
        """Why a way cannot run here; None if it can."""
        if not way.on_gpu:
            return None
        needs = "needs a GPU of compute capability 7.5 or later"
        if self.gpu is None:
            return f"{needs}; PyTorch finds no GPU here"
        major, minor = self.gpu["compute_capability"]
        return f"{needs}; {self.gpu['name']} has {major}.{minor}" if (major, minor) < (7, 5) else None


def rung_record(way: Way, torch_version: str) -> dict[str, Any]:
    return {
        "id": way.id,
        "title": way.title,
        "idea": way.idea,
        "requires": {"at_least": [7, 5]} if way.on_gpu else "nothing",
        # Without the build's suffix, as in 2.11.0+cu130; the environment's libraries have it.
        "runner": {"external": f"PyTorch {torch_version.partition('+')[0]}"},
    }


def measurement_record(
    way: Way, problem: Problem, outcome: dict[str, str], samples: Samples = ([], []), check: Check | None = None
) -> dict[str, Any]:
    us, wall_us = samples
    return {
        "rung": way.id,
        "problem": problem.record(),
        "tile": None,
        "outcome": outcome,
        "samples_us": [real(v) for v in us[:MAX_SAMPLES]],
        "samples_total": len(us),
        "wall_us": [real(v) for v in wall_us[:MAX_SAMPLES]],
        "check": check.record() if check else None,
        "kernels": [],
    }


def skipped(why: str) -> dict[str, str]:
    return {"status": "skipped", "why": why}


def failed(error: str) -> dict[str, str]:
    return {"status": "failed", "error": error}


def judge(check: Check, result: Result, problem: Problem, train_loss: float) -> dict[str, str]:
    """How a measurement ended that ran to its end; worded as in crates/warpbook/src/regression/mod.rs."""
    if not all(map(math.isfinite, [*result.values(), train_loss])):
        odd = (i for i, loss in enumerate(result.losses) if not math.isfinite(loss))
        at = next((LOG_EVERY * (i + 1) for i in odd), problem.epochs)
        return failed(
            f"the descent diverged: by epoch {at} the loss is no longer a finite number. "
            f"A smaller learning rate than {problem.learning_rate} may help."
        )
    if not check.passed:
        return failed(
            f"the result is off the reference by {check.max_rel_error:.1e}, "
            f"more than the tolerance of {check.tolerance:.1e}"
        )
    return {"status": "measured"}


def train_log_record(way: Way, problem: Problem, result: Result, train_loss: float, test_loss: float) -> dict[str, Any]:
    names = ["w"] if problem.features == 1 else [f"w{j}" for j in range(problem.features)]
    return {
        "rung": way.id,
        "problem": problem.record(),
        "losses": [{"epoch": LOG_EVERY * (i + 1), "loss": real(loss)} for i, loss in enumerate(result.losses)],
        "parameters": {name: real(value) for name, value in zip([*names, "b"], [*result.w, result.b])},
        "train_loss": real(train_loss),
        "test_loss": real(test_loss),
    }


def span_record(way: Way, problem: Problem, name: str, samples_us: list[float]) -> dict[str, Any]:
    return {
        "rung": way.id,
        "problem": problem.record(),
        "group": "operation",
        "name": name,
        "samples_us": [real(v) for v in samples_us],
    }


def environment_record(machine: Machine) -> dict[str, Any]:
    return {
        "device": machine.gpu or cpu_device(),
        "driver": machine.driver,
        "cuda": machine.cuda,
        "nvrtc": None,
        "clocks": None,
        "cpu": cpu_model(read_text("/proc/cpuinfo")),
        "cpu_threads": cpu_threads(),
        "os": os_name(),
        "warpbook": warpbook_version(),
        "commit": commit(),
        "debug_assertions": False,
        "libraries": [["PyTorch", machine.torch_version]],
    }


def device_record(**known: Any) -> dict[str, Any]:
    """A DeviceInfo; what is not known is null."""
    fields = (
        "kind index name memory_bytes multiprocessors compute_capability l2_bytes shared_bytes_per_multiprocessor "
        "shared_bytes_per_block registers_per_multiprocessor max_sm_mhz max_memory_mhz"
    )
    return dict.fromkeys(fields.split()) | known


def cpu_device() -> dict[str, Any]:
    """The processor as the device of a run without a GPU."""
    return device_record(
        kind="cpu",
        index=0,
        name=cpu_model(read_text("/proc/cpuinfo")),
        memory_bytes=memory_bytes(),
        multiprocessors=cpu_threads(),
    )


def cpu_model(cpuinfo: str) -> str:
    """As crates/warpbook-device/src/cpu.rs reads it."""

    def value(key: str) -> str | None:
        line = next((line for line in cpuinfo.splitlines() if line.startswith(key)), "")
        return line.partition(":")[2].strip() or None

    implementer = value("CPU implementer")
    arm = f"Arm CPU, implementer {implementer}" if implementer else None
    return value("model name") or value("Hardware") or arm or "processor"


def cpu_threads() -> int:
    """Hardware threads that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def memory_bytes() -> int:
    """Main memory; 0 where it is not known."""
    match = re.search(r"^MemTotal:\s*(\d+) kB", read_text("/proc/meminfo"), re.MULTILINE)
    return int(match[1]) * 1024 if match else 0


def os_name() -> str:
    """As Rust names it: "linux x86_64"."""
    rust = {"darwin": "macos", "amd64": "x86_64", "arm64": "aarch64"}
    return " ".join(rust.get(name, name) for name in (platform.system().lower(), platform.machine().lower()))


def warpbook_version() -> str:
    """From the workspace that the script lies in; "unknown" of a copy outside it."""
    text = read_text(Path(__file__).resolve().parent / "../../Cargo.toml")
    match = re.search(r'^\[workspace\.package\][^\[]*?^version = "([^"]+)"', text, re.MULTILINE | re.DOTALL)
    return match[1] if match else "unknown"


def commit() -> str | None:
    told = os.environ.get("WARPBOOK_COMMIT")
    return told or output_of("git", "-C", str(Path(__file__).resolve().parent), "rev-parse", "--short=12", "HEAD")


def output_of(*command: str) -> str | None:
    """The first line that a program prints; None where it is missing or fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return next(iter(done.stdout.strip().splitlines()), None)


def read_text(path: str | Path) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def new_run(settings: Settings, machine: Machine, bench: Bench) -> dict[str, Any]:
    # A record has one text for its inputs; that of one feature is the one that records are compared by.
    one = any(features == 1 for _, features in settings.sizes)
    return {
        "schema": SCHEMA,
        "experiment": "regression",
        "title": "Fused linear regression",
        "created": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "command": settings.command(),
        "environment": environment_record(machine),
        "policy": bench.policy(machine.gpu is not None, INPUTS if one else INPUTS_OF_SEVERAL),
        "peaks": {"bandwidth": [], "compute": []},
        "rungs": [rung_record(way, machine.torch_version) for way in settings.ways],
        "sources": {},
        "measurements": [],
        "train_logs": [],
        "spans": [],
        "notes": [],
    }


def write_record(path: Path, run: dict[str, Any]) -> None:
    """Writes to a temporary name beside it and renames, so that the file is the old record or the whole new one."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with open(part, "w", encoding="utf-8") as file:
            json.dump(run, file, indent=2, ensure_ascii=False, allow_nan=False)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink()
        raise


# ---- the experiment --------------------------------------------------------------------------------------------------


class Descent(Protocol):
    """A way ready to run on the points of one problem."""

    def once(self) -> Result:
        """The whole descent from the initial weights."""

    def timed(self, batch: int) -> tuple[float, float]:
        """The same, timed: microseconds, and again by the processor's clock. `batch` is 1, since it has a setup."""

    def result(self) -> Result:
        """What the last descent gave."""

    def probe_s(self, epochs: int) -> float:
        """Seconds of so many epochs."""


class Backend(Protocol):
    """What runs the ways: PyTorch, or a test's stand-in."""

    machine: Machine

    def draw(self, problem: Problem) -> Any:
        """The points."""

    def moments(self, data: Any) -> tuple[Moments, Moments]:
        """Of the training points and of the test points."""

    def descent(self, way: Way, data: Any, problem: Problem) -> Descent:
        """A way on these points, compiled and captured."""

    def parts(self, data: Any, problem: Problem, bench: Bench) -> list[tuple[str, list[float]]]:
        """The parts of an eager epoch by name, in microseconds."""

    def release(self) -> None:
        """Frees what the last way left."""


@dataclass(frozen=True)
class Prepared:
    """The points of one problem, and the descent that every way is held against."""

    problem: Problem
    data: Any
    train: Moments
    test: Moments
    reference: Result


@dataclass
class Experiment:
    """Runs every way at every size; what goes wrong becomes a row."""

    settings: Settings
    backend: Backend
    say: Callable[[str], None] = field(default=lambda line: print(line, file=sys.stderr, flush=True))
    # Called with the record after each size.
    keep: Callable[[dict[str, Any]], None] = lambda run: None
    interrupted: bool = False

    @property
    def bench(self) -> Bench:
        return QUICK_BENCH if self.settings.quick else Bench()

    def run(self) -> dict[str, Any]:
        run = new_run(self.settings, self.backend.machine, self.bench)
        for problem in self.settings.problems():
            self.run_problem(problem, run)
            self.keep(run)
        if self.interrupted:
            measured = sum(m["outcome"]["status"] == "measured" for m in run["measurements"])
            run["notes"].append(f"Interrupted after {measured} of {len(run['measurements'])} measurements.")
        return run

    def run_problem(self, problem: Problem, run: dict[str, Any]) -> None:
        ways = self.settings.ways
        obstacles = {way: self.backend.machine.obstacle(way) or self.too_large(way, problem) for way in ways}
        prepared: Prepared | str = "not needed"
        if not self.interrupted and not all(obstacles.values()):
            prepared = self.guarded(lambda: self.prepare(problem))
        for way, obstacle in obstacles.items():
            if obstacle or self.interrupted:
                row = measurement_record(way, problem, skipped(obstacle or "interrupted before it began"))
            elif isinstance(prepared, str):
                row = measurement_record(way, problem, failed(prepared))
            else:
                ran = self.guarded(lambda: self.measure(way, prepared, run))
                if isinstance(ran, str):
                    ran = measurement_record(way, problem, skipped(ran) if self.interrupted else failed(ran))
                row = ran
                self.guarded(self.backend.release)
            run["measurements"].append(row)
            self.say(progress_line(row, problem))
        if isinstance(prepared, Prepared):
            self.time_parts(prepared, run)
        # The points go before the next ones are drawn.
        prepared = "dropped"
        self.guarded(self.backend.release)

    def guarded(self, work: Callable[[], Any]) -> Any:
        """What the work gives, or why it gave nothing."""
        try:
            return work()
        except KeyboardInterrupt:
            self.interrupted = True
            return "interrupted"
        except Exception as error:  # A way may fail in any manner; the others go on.
            return first_line(error)

    def too_large(self, way: Way, problem: Problem) -> str | None:
        if way.on_gpu or problem.points <= CPU_MAX_POINTS:
            return None
        return f"the processor's way is left out above {short_count(CPU_MAX_POINTS)} points, where it takes too long"

    def prepare(self, problem: Problem) -> Prepared:
        data = self.backend.draw(problem)
        # The reference is of what the ways will read, not of what they should have been given.
        train, test = self.backend.moments(data)
        return Prepared(problem, data, train, test, train.descend(problem.learning_rate, problem.epochs))

    def measure(self, way: Way, p: Prepared, run: dict[str, Any]) -> dict[str, Any]:
        descent = self.backend.descent(way, p.data, p.problem)
        bound = tolerance(p.train.n, p.problem.epochs)
        if way.on_gpu:
            first, last, samples = self.time_on_gpu(descent, p, bound)
        else:
            estimate = descent.probe_s(CPU_PROBE_EPOCHS) / CPU_PROBE_EPOCHS * p.problem.epochs
            if estimate > CPU_MAX_SECONDS:
                why = f"one descent would take about {estimate:.0f} s; the processor is given {CPU_MAX_SECONDS:.0f} s"
                return measurement_record(way, p.problem, skipped(why))
            first, last, samples = self.time_on_cpu(descent)
        check = Check.of(first, p.reference, bound).worse(Check.of(last, p.reference, bound))
        train_loss, test_loss = p.train.loss(last.w, last.b), p.test.loss(last.w, last.b)
        run["train_logs"].append(train_log_record(way, p.problem, last, train_loss, test_loss))
        return measurement_record(way, p.problem, judge(check, last, p.problem, train_loss), samples, check)

    def time_on_gpu(self, descent: Descent, p: Prepared, bound: float) -> tuple[Result, Result, Samples]:
        # Correct, then timed: a way that is wrong is not worth its time.
        first = descent.once()
        if not Check.of(first, p.reference, bound).passed:
            return first, first, ([], [])
        samples = self.bench.gpu(descent.timed)
        return first, descent.result(), samples

    def time_on_cpu(self, descent: Descent) -> tuple[Result, Result, Samples]:
        # The first repetition is the one that is checked before the rest are timed; a long one is not done twice.
        results: list[Result] = []

        def once(batch: int) -> tuple[float, float]:
            times = descent.timed(batch)
            if not results:
                results.append(descent.result())
            return times

        samples = self.bench.cpu(once)
        return results[0], descent.result(), samples

    def time_parts(self, p: Prepared, run: dict[str, Any]) -> None:
        eager = next((way for way in self.settings.ways if way.id == "pytorch_eager"), None)
        if eager is None or self.backend.machine.obstacle(eager):
            return
        if self.interrupted or not self.settings.wants_parts(p.problem):
            return
        timed = self.guarded(lambda: self.backend.parts(p.data, p.problem, self.bench))
        if isinstance(timed, str):
            if self.interrupted:
                return
            run["notes"].append(f"The parts of an epoch could not be timed: {timed}")
            return
        run["spans"] += [span_record(eager, p.problem, name, us) for name, us in timed]
        parts = ", ".join(f"{name} {short_time(median(us))}" for name, us in timed)
        self.say(f"{p.problem.label():>18}  {'parts of an epoch':17} {parts}")


def progress_line(row: dict[str, Any], problem: Problem) -> str:
    outcome = row["outcome"]
    if outcome["status"] == "measured":
        us = median(row["samples_us"])
        text = f"{short_time(us)} ({short_time(us / problem.epochs)} an epoch, {row['samples_total']} samples)"
    else:
        text = f"{outcome['status']}: {outcome.get('why') or outcome.get('error')}"
    return f"{problem.label():>18}  {row['rung']:17} {text}"


def first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [""]
    # "backend='inductor' raised:" alone says nothing.
    text = " ".join(lines[:2]) if lines[0].endswith(":") else lines[0]
    return f"{type(error).__name__}: {text}".rstrip(": ")


# ---- PyTorch ---------------------------------------------------------------------------------------------------------


def load_torch() -> Any:
    try:
        import torch
    except ModuleNotFoundError as error:
        if error.name == "torch":
            raise Refused("PyTorch is not installed: pip install torch") from None
        raise Refused(f"PyTorch could not be loaded: {first_line(error)}") from None
    except Exception as error:  # A wheel without its libraries raises this and that.
        raise Refused(f"PyTorch could not be loaded: {first_line(error)}") from None
    return torch


class TorchBackend:
    """The ways in PyTorch, on the current GPU where there is one."""

    # Elements of X that are held in double precision at a time.
    CHUNK = 1 << 24

    def __init__(self, torch: Any):
        self.torch = torch
        # The default, said all the same: the ways are compared in binary32.
        torch.backends.cuda.matmul.allow_tf32 = False
        # Inductor recommends TF32 on every compilation.
        warnings.filterwarnings("ignore", message=".*TensorFloat32.*")
        self.on_gpu = torch.cuda.is_available()
        self.device = torch.device("cuda", torch.cuda.current_device()) if self.on_gpu else torch.device("cpu")
        self.machine = self.look()

    def look(self) -> Machine:
        version = str(self.torch.__version__)
        if not self.on_gpu:
            return Machine(version)
        p = self.torch.cuda.get_device_properties(self.device)
        gpu = device_record(
            kind="cuda",
            index=self.device.index,
            name=p.name,
            memory_bytes=p.total_memory,
            multiprocessors=p.multi_processor_count,
            compute_capability=[p.major, p.minor],
            l2_bytes=getattr(p, "L2_cache_size", None),
            shared_bytes_per_multiprocessor=getattr(p, "shared_memory_per_multiprocessor", None),
            shared_bytes_per_block=getattr(p, "shared_memory_per_block_optin", None),
            registers_per_multiprocessor=getattr(p, "regs_per_multiprocessor", None),
        )
        driver = output_of("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
        return Machine(version, gpu, driver, self.torch.version.cuda)

    def draw(self, problem: Problem) -> SimpleNamespace:
        """Points in shuffled order, X f32 [n][d] and y f32 [n]; the first `train_points` are trained on."""
        torch, n, d = self.torch, problem.points, problem.features
        if not self.on_gpu and n * (d + 1) * 4 > memory_bytes() / 4 * 3 > 0:
            raise MemoryError(f"{n} points of {d} features do not fit into main memory")
        generator = torch.Generator(device=self.device).manual_seed(problem.seed)
        if d == 1:
            order = torch.randperm(n, generator=generator, device=self.device)
            # The largest float below 10 keeps the interval half open after rounding.
            x = (order.double() * (10.0 / n)).float().clamp_(max=9.999999)[:, None]
            y = x[:, 0] * 3.0 + 2.0
        else:
            x = torch.randn((n, d), generator=generator, device=self.device)
            y = x @ torch.tensor(truth(d), dtype=torch.float32, device=self.device) + 2.0
        y += problem.noise * torch.randn(n, generator=generator, device=self.device)
        return SimpleNamespace(x=x, y=y, train=problem.train_points)

    def moments(self, data: SimpleNamespace) -> tuple[Moments, Moments]:
        n = data.train
        return self.moments_of(data.x[:n], data.y[:n]), self.moments_of(data.x[n:], data.y[n:])

    def moments_of(self, x: Any, y: Any) -> Moments:
        """Two passes in f64, the second about the means, so that nothing cancels."""
        torch, (n, d) = self.torch, x.shape
        rows = max(self.CHUNK // d, 1)
        chunks = [(i, min(i + rows, n)) for i in range(0, n, rows)]
        zeros = functools.partial(torch.zeros, dtype=torch.float64, device=x.device)
        mean_x, mean_y = zeros(d), zeros(())
        for i, j in chunks:
            mean_x += x[i:j].sum(0, dtype=torch.float64) / n
            mean_y += y[i:j].sum(dtype=torch.float64) / n
        sxx, sxy, syy = zeros((d, d)), zeros(d), zeros(())
        for i, j in chunks:
            dx, dy = x[i:j].double() - mean_x, y[i:j].double() - mean_y
            sxx += dx.T @ dx
            sxy += dy @ dx
            syy += dy @ dy
        return Moments(n, mean_x.tolist(), mean_y.item(), sxx.tolist(), sxy.tolist(), syy.item())

    def descent(self, way: Way, data: SimpleNamespace, problem: Problem) -> TorchDescent:
        kind = {
            "pytorch_cpu": EagerDescent,
            "pytorch_eager": EagerDescent,
            "pytorch_compiled": CompiledDescent,
            "pytorch_graph": GraphDescent,
            "pytorch_expert": ExpertDescent,
        }[way.id]
        device = self.device if way.on_gpu else "cpu"
        return kind(self.torch, data.x[: data.train].to(device), data.y[: data.train].to(device), problem)

    def parts(self, data: SimpleNamespace, problem: Problem, bench: Bench) -> list[tuple[str, list[float]]]:
        eager = EagerDescent(self.torch, data.x[: data.train], data.y[: data.train], problem)
        eager.reset()
        return [(name, time_repeated(eager.stopwatch, call, bench)) for name, call in eager.parts()]

    def release(self) -> None:
        # The next size compiles anew: a function that is recompiled for it would get symbolic shapes.
        self.torch._dynamo.reset()
        gc.collect()
        if self.on_gpu:
            self.torch.cuda.empty_cache()


class CudaStopwatch:
    """Events around a region on the current stream."""

    def __init__(self, torch: Any):
        self.torch = torch
        self.start, self.end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def __call__(self, region: Callable[[], None], batch: int = 1) -> tuple[float, float]:
        self.torch.cuda.synchronize()
        clock = time.perf_counter()
        self.start.record()
        for _ in range(batch):
            region()
        self.end.record()
        self.torch.cuda.synchronize()
        wall_us = (time.perf_counter() - clock) * 1e6
        return self.start.elapsed_time(self.end) * 1e3 / batch, wall_us / batch


def cpu_stopwatch(region: Callable[[], None], batch: int = 1) -> tuple[float, float]:
    clock = time.perf_counter()
    for _ in range(batch):
        region()
    us = (time.perf_counter() - clock) * 1e6 / batch
    return us, us


def time_repeated(stopwatch: Callable[..., tuple[float, float]], call: Callable[[], None], bench: Bench) -> list[float]:
    """Times a short call back to back; in microseconds a call."""

    def region() -> None:
        for _ in range(REPEATS):
            call()

    us, _ = bench.gpu(lambda batch: stopwatch(region, batch), may_repeat=True)
    return [v / REPEATS for v in us]


def predict(x: Any, w: Any, b: Any) -> Any:
    """The model: x is f32 [n], or [n][d] with several features."""
    return w * x + b if x.dim() == 1 else x @ w + b


class TorchDescent:
    """What the ways have in common: initial weights, logged losses, and the timing of the whole."""

    def __init__(self, torch: Any, x: Any, y: Any, problem: Problem):
        self.torch, self.y, self.problem = torch, y, problem
        # One feature is a plain array.
        self.x = x[:, 0] if problem.features == 1 else x
        self.w = torch.nn.Parameter(torch.empty(problem.features, device=x.device))
        self.b = torch.nn.Parameter(torch.empty(1, device=x.device))
        self.losses = torch.empty(problem.epochs // LOG_EVERY, device=x.device)
        # Taken apart once, so that the loop does not index.
        self.slots = self.losses.unbind()
        self.stopwatch = CudaStopwatch(torch) if x.is_cuda else cpu_stopwatch
        self.build()

    def build(self) -> None:
        """Makes what computes with w, f32 [d], and b, f32 [1]."""
        raise NotImplementedError

    def epoch(self, slot: Any | None) -> None:
        """Queues one epoch; its loss goes to the slot if there is one."""
        raise NotImplementedError

    def queue(self) -> None:
        """Queues the whole descent."""
        self.epochs(self.problem.epochs)

    def epochs(self, count: int) -> None:
        for epoch in range(1, count + 1):
            self.epoch(self.slots[epoch // LOG_EVERY - 1] if epoch % LOG_EVERY == 0 else None)

    def reset(self) -> None:
        """Puts the initial weights back and poisons the losses: nothing of the last descent can pass for new."""
        with self.torch.no_grad():
            self.w.fill_(INITIAL_W)
            self.b.fill_(INITIAL_B)
            self.losses.fill_(math.nan)

    def once(self) -> Result:
        self.reset()
        self.queue()
        return self.result()

    def timed(self, batch: int) -> tuple[float, float]:
        self.reset()
        return self.stopwatch(self.queue, batch)

    def result(self) -> Result:
        return Result(self.w.tolist(), self.b.item(), self.losses.tolist())

    def probe_s(self, epochs: int) -> float:
        self.reset()
        # One before it meets cold caches and first allocations.
        self.epochs(1)
        us, _ = self.stopwatch(lambda: self.epochs(epochs))
        return us * 1e-6

    def capture(self) -> Any:
        """All epochs as a CUDA graph, after a warm-up on a side stream as PyTorch's notes on CUDA graphs have it."""
        cuda = self.torch.cuda
        side = cuda.Stream()
        side.wait_stream(cuda.current_stream())
        with cuda.stream(side):
            self.reset()
            # Up to the first logged epoch, so that the kernels that take the loss are loaded as well.
            self.epochs(min(LOG_EVERY, self.problem.epochs))
        cuda.current_stream().wait_stream(side)
        graph = cuda.CUDAGraph()
        with cuda.graph(graph):
            self.epochs(self.problem.epochs)
        return graph


class EagerDescent(TorchDescent):
    """The training loop of a tutorial."""

    def build(self) -> None:
        self.optimizer = self.torch.optim.SGD([self.w, self.b], lr=self.problem.learning_rate)
        self.mse_loss = self.torch.nn.functional.mse_loss

    def loss(self) -> Any:
        return self.mse_loss(predict(self.x, self.w, self.b), self.y)

    def epoch(self, slot: Any | None) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss()
        loss.backward()
        if slot is not None:
            slot.copy_(loss.detach())
        self.optimizer.step()

    def parts(self) -> list[tuple[str, Callable[[], None]]]:
        """The calls of an epoch, each alone on inputs that stay what they are."""
        # A leaf, so that the loss records a graph of itself only.
        prediction = predict(self.x, self.w, self.b).detach().requires_grad_()
        loss = self.loss()

        def backward() -> None:
            loss.backward(retain_graph=True)
            # As zero_grad(set_to_none=True) leaves them: backward then stores the gradients and adds nothing up.
            self.w.grad = self.b.grad = None

        def step() -> None:
            if self.w.grad is None:
                loss.backward(retain_graph=True)
                # With a rate of zero the weights stay what they are.
                self.optimizer.param_groups[0]["lr"] = 0.0
            self.optimizer.step()

        return [
            ("forward", lambda: predict(self.x, self.w, self.b)),
            ("loss", lambda: self.mse_loss(prediction, self.y)),
            ("backward", backward),
            ("optimiser step", step),
        ]


class CompiledDescent(EagerDescent):
    """Forward and loss compiled, and with them their backward."""

    def build(self) -> None:
        super().build()
        mse_loss = self.mse_loss

        def forward_and_loss(x: Any, y: Any, w: Any, b: Any) -> Any:
            return mse_loss(predict(x, w, b), y)

        self.forward_and_loss = self.torch.compile(forward_and_loss)

    def loss(self) -> Any:
        return self.forward_and_loss(self.x, self.y, self.w, self.b)


class GraphDescent(EagerDescent):
    """The eager training loop in a CUDA graph."""

    def build(self) -> None:
        super().build()
        self.graph = self.capture()

    def queue(self) -> None:
        self.graph.replay()


class ExpertDescent(TorchDescent):
    """The gradient in closed form, compiled, in a CUDA graph."""

    def build(self) -> None:
        torch, rate = self.torch, 2.0 * self.problem.learning_rate / self.x.shape[0]

        def step(x: Any, y: Any, w: Any, b: Any, logged: bool) -> Any:
            error = predict(x, w, b) - y
            loss = (error * error).mean() if logged else None
            # A product and a sum is fused with what comes before it; a matrix product is left to cuBLAS.
            w.sub_((x * error).sum() if x.dim() == 1 else error @ x, alpha=rate)
            b.sub_(error.sum(), alpha=rate)
            return loss

        # Tuning is worth up to 15 % to the fused kernels; the rest of max-autotune brings no more for its seconds. With
        # several features it would replace the matrix products of cuBLAS by slower kernels.
        tuned = {"coordinate_descent_tuning": True} if self.problem.features == 1 else None
        # Every size is compiled for itself.
        self.step = torch.compile(step, dynamic=False, options=tuned)
        with torch.no_grad():
            self.graph = self.capture()

    def epoch(self, slot: Any | None) -> None:
        loss = self.step(self.x, self.y, self.w, self.b, slot is not None)
        if slot is not None:
            slot.copy_(loss)

    def queue(self) -> None:
        self.graph.replay()


# ---- the command line ------------------------------------------------------------------------------------------------


def start(arguments: list[str]) -> int:
    settings = settings_of(arguments)
    backend = TorchBackend(load_torch())
    say_where(backend)
    experiment = Experiment(settings, backend, keep=lambda run: keep(settings.out, run))
    run = experiment.run()
    keep(settings.out, run)
    print(f"Record: {settings.out}", file=sys.stderr)
    if experiment.interrupted:
        return 130
    return int(any(m["outcome"]["status"] == "failed" for m in run["measurements"]))


def say_where(backend: TorchBackend) -> None:
    gpu = backend.machine.gpu
    where = gpu["name"] if gpu else "the processor; it finds no GPU here"
    threads = backend.torch.get_num_threads()
    version = backend.machine.torch_version
    print(f"PyTorch {version} on {where}; {threads} CPU threads, TF32 off", file=sys.stderr, flush=True)


def keep(path: Path, run: dict[str, Any]) -> None:
    try:
        write_record(path, run)
    except OSError as error:
        raise Refused(f"The record could not be written: {error}") from None


def main(arguments: list[str] | None = None) -> int:
    try:
        return start(sys.argv[1:] if arguments is None else arguments)
    except Refused as refused:
        print(refused, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
