"""The scripts in this folder share this module: Warpbook's timing policy, checks and record format (schema 2).

A script takes its problems from a record that `warpbook run` wrote, times PyTorch on them, and writes a record of its
own:

    warpbook run matmul --out ours.json
    python3 matmul.py --like ours.json --out pytorch.json
    warpbook merge ours.json pytorch.json --out both.json

The new record has the same experiment, descriptor, problem ids and timing policy, so that the two can be merged. A
script supplies its ways (short functions that build the work), its inputs and its check against f64; `Ladder` does
the rest: what cannot run becomes a skipped row, what goes wrong a failed row, and the others go on.

Timing is as in crates/warpbook-device/src/timing/bench.rs: warm-ups, then as many samples as the policy wants or its
budget allows, at least one. A GPU is timed by CUDA events, and also by the CPU's clock with the final synchronisation
included.

Exit codes: 0; 1 a row failed; 2 the arguments, a file or PyTorch; 130 interrupted, finished problems are written.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import gc
import json
import math
import os
import platform
import re
import shlex
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

SCHEMA = 2
# Upper limit on the number of samples that a measurement keeps.
MAX_SAMPLES = 1000

# Times in microseconds: by CUDA events (or the CPU's clock), and by the CPU's clock.
Samples = tuple[list[float], list[float]]
# Runs a region this many times; returns its time and its wall time, both in microseconds per repetition.
Timed = Callable[[int], tuple[float, float]]


class Refused(Exception):
    """The reason why the script cannot start, as a sentence that says what to do."""


class Unavailable(Exception):
    """The reason why a way cannot run on this machine; its row is skipped, not failed."""


# ---- numbers ---------------------------------------------------------------------------------------------------------


def real(value: float) -> float | str:
    """Returns a number in a record's form, since JSON has no NaN and no infinity."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def median(samples: list[float]) -> float:
    """Returns the median; NaN of an empty list."""
    ordered = sorted(samples)
    middle = len(ordered) // 2
    if not ordered:
        return math.nan
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def worst(errors: Iterable[float]) -> float:
    """Returns the largest error; NaN if one of them is NaN."""
    errors = list(errors)
    return math.nan if any(map(math.isnan, errors)) else max(errors, default=0.0)


def short_time(us: float) -> str:
    """Formats microseconds: 12345.6 becomes "12.35 ms"."""
    for unit, name in ((1e6, "s"), (1e3, "ms")):
        if us >= unit:
            return f"{us / unit:.4g} {name}"
    return f"{us:.4g} us"


# ---- the record given by --like --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Problem:
    """A problem as a record states it."""

    record: dict[str, Any]

    @property
    def id(self) -> str:
        return self.record["id"]

    @property
    def label(self) -> str:
        return self.record["label"]

    @property
    def short(self) -> str:
        return self.record["short"]

    @property
    def dtype(self) -> str:
        return self.record["dtype"]

    def size(self, name: str, default: Any = None) -> Any:
        """Returns the value of a named size."""
        value = next((size.get("value") for size in self.record["sizes"] if size["name"] == name), default)
        if value is None:
            raise Refused(f"The problem `{self.id}` has no size `{name}`: is it a problem of this experiment?")
        return value

    def count(self, name: str, least: int = 1, default: int | None = None) -> int:
        value = self.size(name, default)
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise Refused(f"The problem `{self.id}` has {name} {value!r}; it must be a whole number of at least {least}.")
        return value

    def number(self, name: str) -> float:
        value = self.size(name)
        if not isinstance(value, (int, float)) or not 0 <= value < math.inf:
            raise Refused(f"The problem `{self.id}` has {name} {value!r}; it must be a number of at least 0.")
        return float(value)

    def real(self, name: str, default: float) -> float:
        """Returns a number that may be negative."""
        value = self.size(name, default)
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not math.isfinite(value):
            raise Refused(f"The problem `{self.id}` has {name} {value!r}; it must be a number.")
        return float(value)

    def flag(self, name: str) -> bool:
        """Returns a size that is a flag: 1, true or "yes" for true, and 0 or absent for false."""
        value = str(self.size(name, default=0)).lower()
        if value not in ("0", "false", "no", "1", "true", "yes"):
            raise Refused(f"The problem `{self.id}` has {name} {value!r}; it must be 1 or 0.")
        return value in ("1", "true", "yes")


def read_like(path: Path, experiment: str, command: str | None = None) -> dict[str, Any]:
    """Reads the record of an experiment that `warpbook run` or another command wrote; raises `Refused` for anything else."""
    run = f"`{command or f'warpbook run {experiment}'} --out FILE`"
    again = f"Run the experiment again with the current warpbook, {run}, and give FILE to --like."
    try:
        record = json.loads(path.read_text(encoding="utf-8-sig"), parse_constant=refuse_constant)
    except OSError as error:
        raise Refused(f"{path} could not be read: {error.strerror or error}. {run} writes such a record.") from None
    except UnicodeDecodeError:
        raise Refused(f"{path} is not UTF-8 text; a record is a JSON text file.") from None
    except (ValueError, RecursionError) as error:
        raise Refused(f"{path} is not valid JSON: {error}. It may have been cut off. {again}") from None

    def need(at: str, kind: type | tuple[type, ...], where: Any = record) -> Any:
        value = where
        for key in at.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        if not isinstance(value, kind) or isinstance(value, bool):
            raise Refused(f"{path} is JSON, but not a Warpbook record: `{at}` is missing or wrong. {again}")
        return value

    schema = need("schema", int)
    if schema < SCHEMA:
        raise Refused(f"{path} has format {schema}, but this script reads format {SCHEMA}. {again}")
    if schema > SCHEMA:
        raise Refused(f"{path} has format {schema}, but this script reads format {SCHEMA}: use the script of that version of Warpbook.")
    theirs = need("experiment", str)
    if theirs != experiment:
        raise Refused(f"{path} is a record of {theirs}; this script needs one of {experiment}, as {run} writes it.")
    need("title", str)
    for key in ("policy.warmup", "policy.samples"):
        need(key, int)
    for key in ("budget_s", "batch_below_us"):
        # JSON has no infinity.
        if record["policy"].get(key) != real(math.inf):
            need(f"policy.{key}", (int, float))
    need("policy.inputs", (str, list))
    for key in ("policy.timed_by", "environment.device.kind", "environment.device.name"):
        need(key, str)
    l2 = need("policy.l2", str)
    if l2 != "warm":
        raise Refused(f"{path} was timed with a {l2} L2 and cannot be merged with this script's times: its L2 is warm.")
    for problem in need("problems", list):
        for key in ("id", "label", "short", "dtype"):
            need(key, str, problem)
        for size in need("sizes", list, problem):
            need("name", str, size)
    if not record["problems"]:
        raise Refused(f"{path} has no problems to time. {again}")
    return record


def refuse_constant(name: str) -> float:
    raise ValueError(f"it contains {name}")


# ---- settings --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Way:
    """One way to do the work in PyTorch: a rung of the record."""

    id: str
    title: str
    idea: str
    # Builds the work. Its arguments and result depend on the script.
    build: Callable[..., Any]
    on_gpu: bool = True
    # True if the work is captured in a CUDA graph and replayed.
    graph: bool = False

    @property
    def short(self) -> str:
        return self.id.removeprefix("pytorch_")


@dataclass(frozen=True)
class Settings:
    """The settings of a run; they say what is run and where the record is written."""

    like: dict[str, Any]
    out: Path
    problems: tuple[Problem, ...]
    ways: tuple[Way, ...]
    bench: Bench
    command: str
    author: str | None = None
    parts: bool = True
    # Path for PyTorch's own trace.
    trace: Path | None = None
    # All arguments, including those of `Ladder.add_options`.
    options: argparse.Namespace | None = None

    @property
    def main_problem(self) -> Problem | None:
        """Returns the problem that the like-record shows first, or the only one."""
        main = [p for p in self.problems if p.id == self.like.get("main_problem") or len(self.problems) == 1]
        return next(iter(main), None)


class Parser(argparse.ArgumentParser):
    def error(self, message: str):
        raise Refused(message)


def plain(name: str) -> str:
    """Normalises a size for comparisons: "5 M × 16" and "5mx16" are the same."""
    return re.sub(r"\s", "", name).lower().replace("×", "x").replace("³", "^3")


def names_of(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def choose_problems(problems: tuple[Problem, ...], text: str | None) -> tuple[Problem, ...]:
    """Returns the problems of these sizes: by `short`, or by `label` if one size has several types."""
    if text is None:
        return problems
    wanted = {plain(name): name for name in names_of(text)}
    known = {plain(name) for p in problems for name in (p.short, p.label)}
    sizes = ", ".join(dict.fromkeys(p.short for p in problems))
    for name in wanted.keys() - known:
        raise Refused(f"The record has no size `{wanted[name]}`. Its sizes are: {sizes}")
    if not wanted:
        raise Refused(f"No size was named. The sizes are: {sizes}")
    return tuple(p for p in problems if {plain(p.short), plain(p.label)} & wanted.keys())


def choose_ways(ways: tuple[Way, ...], text: str | None) -> tuple[Way, ...]:
    """Returns the ways of these names, in the ladder's order."""
    if text is None:
        return ways
    wanted, known = names_of(text), ", ".join(way.short for way in ways)
    for name in wanted:
        if not any(name in (way.id, way.short) for way in ways):
            raise Refused(f"`{name}` is not a way. The ways are: {known}")
    if not wanted:
        raise Refused(f"No way was named. The ways are: {known}")
    return tuple(way for way in ways if way.id in wanted or way.short in wanted)


def check_writable(out: Path) -> None:
    """Raises `Refused` if the record cannot be written, before minutes are spent on it."""
    if out.exists() and not out.is_file():
        raise Refused(f"{out} is not a file; name a file for the record.")
    if not out.parent.is_dir():
        raise Refused(f"There is no folder {out.parent} for the record; make it first.")
    if not os.access(out.parent, os.W_OK):
        raise Refused(f"The folder {out.parent} cannot be written to; choose another --out.")


# ---- timing ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bench:
    """The timing policy, which is the same as in crates/warpbook-device/src/timing/bench.rs."""

    warmup: int = 3
    samples: int = 25
    budget_s: float = 2.0
    batch_below_us: float = 50.0

    @staticmethod
    def of(policy: dict[str, Any]) -> Bench:
        return Bench(policy["warmup"], policy["samples"], float(policy["budget_s"]), float(policy["batch_below_us"]))

    def gpu(self, timed: Timed, may_repeat: bool = False) -> Samples:
        """Times a region on the GPU. A region with a setup must not be repeated within a sample."""
        batch = self.warm_up(timed)
        return self.collect(batch if may_repeat else 1, timed)

    def cpu(self, timed: Timed) -> Samples:
        """Times a region with a setup by the CPU's clock."""
        first = timed(1)
        # A region that takes the whole budget has warmed up by running once, and that run counts.
        if first[0] * 1e-6 >= self.budget_s:
            return [first[0]], [first[1]]
        return self.collect(1, timed)

    def warm_up(self, timed: Timed) -> int:
        """Warms up; returns the repetitions per sample."""
        last_us = 0.0
        for _ in range(max(self.warmup, 1)):
            last_us, _ = timed(1)
        return self.batch_for(last_us)

    def collect(self, batch: int, timed: Timed) -> Samples:
        us, wall_us = [], []
        begun = time.perf_counter()
        for _ in range(max(self.samples, 1)):
            sample = timed(batch)
            us.append(sample[0])
            wall_us.append(sample[1])
            if time.perf_counter() - begun >= self.budget_s:
                break
        return us, wall_us

    def in_turn(self, regions: list[tuple[Timed, int]]) -> list[Samples]:
        """Takes a sample of each region per round, so that all see the same clocks; each has its own repetitions per sample."""
        samples: list[Samples] = [([], []) for _ in regions]
        begun = time.perf_counter()
        for turn in range(max(self.samples, 1) + 1):
            for (timed, batch), (us, wall_us) in zip(regions, samples):
                # The first round of a batch is not counted, because a graph's first launch also uploads it.
                if turn or batch > 1:
                    sample = timed(batch)
                if turn:
                    us.append(sample[0])
                    wall_us.append(sample[1])
            if turn and time.perf_counter() - begun >= self.budget_s * len(regions):
                break
        return samples

    def batch_for(self, us: float) -> int:
        """Returns the repetitions that bring a region over the threshold, with a margin of two."""
        if us >= self.batch_below_us:
            return 1
        return min(max(math.ceil(2 * self.batch_below_us / max(us, 0.1)), 1), 1000)


class CudaStopwatch:
    """Times a region with events on the current stream."""

    def __init__(self, torch: Any):
        self.torch = torch
        self.start, self.end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def __call__(self, region: Callable[[], Any], batch: int = 1) -> tuple[float, float]:
        self.torch.cuda.synchronize()
        clock = time.perf_counter()
        self.start.record()
        for _ in range(batch):
            region()
        self.end.record()
        self.torch.cuda.synchronize()
        wall_us = (time.perf_counter() - clock) * 1e6
        return self.start.elapsed_time(self.end) * 1e3 / batch, wall_us / batch


def cpu_stopwatch(region: Callable[[], Any], batch: int = 1) -> tuple[float, float]:
    clock = time.perf_counter()
    for _ in range(batch):
        region()
    us = (time.perf_counter() - clock) * 1e6 / batch
    return us, us


# ---- checks and rows -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Check:
    """A comparison of a result with a reference, in the form of crates/warpbook-record/src/measured/check.rs."""

    reference: str
    max_abs_error: float
    max_rel_error: float
    tolerance: float
    passed: bool

    def worse(self, other: Check) -> Check:
        """Returns the worse of two checks of the same thing: before and after the timed loop."""
        pick = other if math.isnan(other.max_rel_error) or other.max_rel_error > self.max_rel_error else self
        return replace(pick, passed=self.passed and other.passed)

    def record(self) -> dict[str, Any]:
        errors = ("max_abs_error", "max_rel_error", "tolerance")
        return {"reference": self.reference, **{key: real(getattr(self, key)) for key in errors}, "passed": self.passed}

    def outcome(self) -> dict[str, str]:
        if self.passed:
            return {"status": "measured"}
        error, bound = f"{self.max_rel_error:.1e}", f"{self.tolerance:.1e}"
        return failed(f"the result is off the reference by {error}, more than the tolerance of {bound}")


def skipped(why: str) -> dict[str, str]:
    return {"status": "skipped", "why": why}


def failed(error: str) -> dict[str, str]:
    return {"status": "failed", "error": error}


def measurement_record(
    way: Way, problem: Problem, outcome: dict[str, str], samples: Samples = ([], []), check: Check | None = None
) -> dict[str, Any]:
    us, wall_us = samples
    return {
        "rung": way.id,
        "problem": problem.id,
        "tile": None,
        "outcome": outcome,
        "samples_us": [real(v) for v in us[:MAX_SAMPLES]],
        "samples_total": len(us),
        "wall_us": [real(v) for v in wall_us[:MAX_SAMPLES]],
        "check": check.record() if check else None,
        "kernels": [],
    }


def train_log_record(
    way: Way, problem: Problem, losses: dict[int, float], parameters: dict[str, float], **final: float
) -> dict[str, Any]:
    """Returns a log for a record; `losses` are by epoch, and `final` has train_loss and test_loss."""
    return {
        "rung": way.id,
        "problem": problem.id,
        "losses": [{"epoch": epoch, "loss": real(loss)} for epoch, loss in losses.items()],
        "parameters": {name: real(value) for name, value in parameters.items()},
        **{name: real(loss) for name, loss in final.items()},
    }


def part_record(way: Way, problem: Problem, name: str, samples_us: list[float]) -> dict[str, Any]:
    """Returns the record of an operation's time within a pass."""
    times = [real(v) for v in samples_us[:MAX_SAMPLES]]
    return {"rung": way.id, "problem": problem.id, "group": "operation", "name": name, "samples_us": times}


def trace_of(torch: Any, call: Callable[[], Any]) -> list[dict[str, Any]]:
    """Returns PyTorch's own trace of a call: the events of the file that torch.profiler writes for Perfetto."""
    kinds = torch.profiler.ProfilerActivity
    with torch.profiler.profile(activities=[kinds.CPU, kinds.CUDA]) as profile:
        call()
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profile.export_chrome_trace(str(path))
        return json.loads(path.read_text(encoding="utf-8"))["traceEvents"]


def keep_trace(torch: Any, path: Path, calls: dict[str, Callable[[], Any]], on_gpu: bool) -> None:
    """Writes the trace of consecutive calls, each under its name, in the format of https://ui.perfetto.dev."""
    kinds = torch.profiler.ProfilerActivity
    with torch.profiler.profile(activities=[kinds.CPU, kinds.CUDA] if on_gpu else [kinds.CPU]) as profile:
        for name, call in calls.items():
            with torch.profiler.record_function(name):
                call()
                if on_gpu:
                    torch.cuda.synchronize()
    with tempfile.TemporaryDirectory(dir=path.resolve().parent) as folder:
        # The file keeps its name, because PyTorch decides by the suffix whether to compress it.
        part = Path(folder) / path.name
        profile.export_chrome_trace(str(part))
        os.replace(part, path.resolve())


def span_records(way: Way, problem: Problem, events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The kernels, copies and fills of a trace, and the operators that the host called, without those that others call.

    Times are microseconds from the first of them; streams are numbered in the order of their first use.
    """
    complete = sorted((e for e in events if e.get("ph") == "X"), key=lambda e: (e["ts"], -e["dur"]))
    kept, ends, streams = [], {}, {}
    for event in complete:
        if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset"):
            args = event.get("args", {})
            stream = str(streams.setdefault(args.get("stream"), len(streams)))
            kept.append((event, stream, {k: args[k] for k in ("bytes", "correlation") if isinstance(args.get(k), int)}))
        elif event.get("cat") == "cpu_op" and event["ts"] >= ends.get(event["tid"], -math.inf):
            ends[event["tid"]] = event["ts"] + event["dur"]
            kept.append((event, "host", {}))
    zero = min((event["ts"] for event, *_ in kept), default=0)
    return [
        {
            "rung": way.id,
            "problem": problem.id,
            "name": event["name"],
            "stream": stream,
            "start_us": real(round(event["ts"] - zero, 3)),
            "duration_us": real(round(event["dur"], 3)),
            **more,
        }
        for event, stream, more in kept
    ]


def rung_record(way: Way, torch_version: str) -> dict[str, Any]:
    return {
        "id": way.id,
        "title": way.title,
        "idea": way.idea,
        "requires": {"at_least": [7, 5]} if way.on_gpu else "nothing",
        # The version has no build suffix, such as in 2.11.0+cu130; the environment's libraries have it.
        "runner": {"external": f"PyTorch {torch_version.partition('+')[0]}"},
    }


# ---- the machine -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Machine:
    """The machine as PyTorch describes it."""

    torch_version: str
    # The GPU as the record's DeviceInfo; None without a GPU, or if the like-record was made on a CPU.
    gpu: dict[str, Any] | None = None
    driver: str | None = None
    cuda: str | None = None
    why_no_gpu: str = "PyTorch finds no GPU here"

    @property
    def device(self) -> dict[str, Any]:
        return self.gpu or cpu_device()

    def obstacle(self, way: Way) -> str | None:
        """Returns the reason why a way cannot run here; None if it can."""
        return self.lacks((7, 5)) if way.on_gpu else None

    def lacks(self, capability: tuple[int, int]) -> str | None:
        """Returns the reason why there is no GPU of at least this compute capability; None if there is one."""
        needs = f"needs a GPU of compute capability {capability[0]}.{capability[1]} or later"
        if self.gpu is None:
            return f"{needs}; {self.why_no_gpu}"
        major, minor = self.gpu["compute_capability"]
        return f"{needs}; {self.gpu['name']} has {major}.{minor}" if (major, minor) < capability else None


def look(torch: Any, like: dict[str, Any]) -> Machine:
    """Describes the current GPU, unless the like-record was made on a CPU: records of two devices cannot be merged."""
    version = str(torch.__version__)
    if like["environment"]["device"]["kind"] == "cpu":
        return Machine(version, why_no_gpu="the record given by --like was made on a CPU")
    if not torch.cuda.is_available():
        return Machine(version)
    index = torch.cuda.current_device()
    p = torch.cuda.get_device_properties(index)
    gpu = device_record(
        kind="cuda",
        index=index,
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
    return Machine(version, gpu, driver, torch.version.cuda)


def environment_record(machine: Machine) -> dict[str, Any]:
    return {
        "device": machine.device,
        "driver": machine.driver,
        "cuda": machine.cuda,
        "nvrtc": None,
        "clocks": None,
        "cpu": cpu_model(),
        "cpu_threads": cpu_threads(),
        "os": os_name(),
        "warpbook": warpbook_version(),
        "commit": commit(),
        "debug_assertions": False,
        "libraries": [["PyTorch", machine.torch_version]],
    }


def device_record(**known: Any) -> dict[str, Any]:
    """Returns a DeviceInfo; unknown values are null."""
    fields = (
        "kind index name memory_bytes multiprocessors compute_capability l2_bytes shared_bytes_per_multiprocessor "
        "shared_bytes_per_block registers_per_multiprocessor max_sm_mhz max_memory_mhz"
    )
    return dict.fromkeys(fields.split()) | known


def cpu_device() -> dict[str, Any]:
    """Returns the CPU as the device of a run without a GPU."""
    memory = memory_bytes()
    return device_record(kind="cpu", index=0, name=cpu_model(), memory_bytes=memory, multiprocessors=cpu_threads())


def cpu_model(cpuinfo: str | None = None) -> str:
    """Returns the CPU's name as crates/warpbook-device/src/cpu.rs reads it, because merging compares names."""
    text = read_text("/proc/cpuinfo") if cpuinfo is None else cpuinfo

    def value(key: str) -> str | None:
        line = next((line for line in text.splitlines() if line.startswith(key)), "")
        return line.partition(":")[2].strip() or None

    implementer = value("CPU implementer")
    arm = f"Arm CPU, implementer {implementer}" if implementer else None
    return value("model name") or value("Hardware") or arm or sysctl("machdep.cpu.brand_string") or "CPU"


def cpu_threads() -> int:
    """Returns the number of hardware threads that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def memory_bytes() -> int:
    """Returns the size of main memory; 0 if it is unknown."""
    match = re.search(r"^MemTotal:\s*(\d+) kB", read_text("/proc/meminfo"), re.MULTILINE)
    return int(match[1]) * 1024 if match else int(sysctl("hw.memsize") or 0)


def sysctl(name: str) -> str | None:
    """Returns a system value of macOS."""
    return output_of("sysctl", "-n", name) if sys.platform == "darwin" else None


def os_name() -> str:
    """Returns the system in Rust's words: "linux x86_64"."""
    rust = {"darwin": "macos", "amd64": "x86_64", "arm64": "aarch64"}
    return " ".join(rust.get(name, name) for name in (platform.system().lower(), platform.machine().lower()))


def warpbook_version() -> str:
    """Returns the version of the workspace that contains this script; "unknown" for a copy elsewhere."""
    text = read_text(Path(__file__).resolve().parent / "../../Cargo.toml")
    match = re.search(r'^\[workspace\.package\][^\[]*?^version = "([^"]+)"', text, re.MULTILINE | re.DOTALL)
    return match[1] if match else "unknown"


def commit() -> str | None:
    given = os.environ.get("WARPBOOK_COMMIT")
    return given or output_of("git", "-C", str(Path(__file__).resolve().parent), "rev-parse", "--short=12", "HEAD")


def output_of(*command: str) -> str | None:
    """Returns the first line that a program prints; None if the program is missing or fails."""
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


def write_record(path: Path, run: dict[str, Any]) -> None:
    """Writes to a temporary name in the same folder and renames it, so that the file is always the old record or the whole new one."""
    # Without this, a rename would replace a link instead of the file it points to.
    path = path.resolve()
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with open(part, "w", encoding="utf-8") as file:
            json.dump(run, file, indent=2, ensure_ascii=False, allow_nan=False)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            part.unlink()
        if isinstance(error, OSError):
            raise Refused(f"The record could not be written: {error}") from None
        raise


def new_record(s: Settings, machine: Machine) -> dict[str, Any]:
    """Returns a record without rows that can be merged with the like-record."""
    main = s.main_problem
    bench = {"warmup": s.bench.warmup, "samples": s.bench.samples, "budget_s": real(s.bench.budget_s)}
    return {
        "schema": SCHEMA,
        # The keys that make two records mergeable are copied unchanged.
        **{key: s.like[key] for key in ("experiment", "title", "descriptor") if key in s.like},
        **({"author": s.author} if s.author else {}),
        "created": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "command": s.command,
        "environment": environment_record(machine),
        "policy": s.like["policy"] | bench,
        "peaks": {"bandwidth": [], "compute": []},
        "problems": [problem.record for problem in s.problems],
        **({"main_problem": main.id} if main else {}),
        "rungs": [rung_record(way, machine.torch_version) for way in s.ways],
        "sources": {},
        "measurements": [],
        "train_logs": [],
        "parts": [],
        "spans": [],
        "notes": [],
    }


# ---- the ladder ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stopped:
    """The reason why some work has no result, as a row's outcome."""

    outcome: dict[str, str]


def print_line(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


class Ladder:
    """Runs every way on every problem. A script overrides the members under "what a script fills in"."""

    # ---- what a script fills in
    experiment: str
    script: str
    description: str
    ways: tuple[Way, ...]

    @classmethod
    def made_by(cls) -> str:
        """Returns the command that writes a record for --like."""
        return f"warpbook run {cls.experiment}"

    @staticmethod
    def add_options(parser: argparse.ArgumentParser) -> None:
        """Adds the script's own options to those that all scripts have."""

    @staticmethod
    def takes(problem: Problem) -> bool:
        """Returns true if ways are timed on the problem."""
        return True

    @staticmethod
    def read(problem: Problem) -> Any:
        """Returns the sizes of a problem; raises `Refused` if one is missing."""
        raise NotImplementedError

    def obstacle(self, way: Way, problem: Problem) -> str | None:
        """Returns the reason why a way does not take a problem; None if it does."""

    def prepare(self, problem: Problem) -> Any:
        """Returns the inputs of a problem, and the data that its check needs."""
        raise NotImplementedError

    def measure_all(self, problem: Problem, prepared: Any, ways: list[Way]) -> None:
        """Calls `finish` with the row of each way."""
        raise NotImplementedError

    def figure(self, problem: Problem, us: float) -> str:
        """Returns a time in the experiment's usual unit, for the progress line."""
        raise NotImplementedError

    def after(self, problem: Problem, prepared: Any) -> None:
        """Measures what the record has besides rows; by default nothing."""

    # ---- what they share
    def __init__(
        self,
        torch: Any,
        settings: Settings,
        machine: Machine,
        say: Callable[[str], None] = print_line,
        keep: Callable[[dict[str, Any]], None] = lambda run: None,
    ):
        self.torch, self.settings, self.machine, self.bench = torch, settings, machine, settings.bench
        # `keep` is called with the record after each problem.
        self.say, self.keep = say, keep
        self.device = "cuda" if machine.gpu else "cpu"
        self.interrupted = False
        self.record = self.new_record()
        # The rows of the current problem.
        self.rows: dict[Way, dict[str, Any]] = {}

    @classmethod
    def settings_of(cls, arguments: list[str]) -> Settings:
        """Reads the command line and the like-record; raises `Refused` if they are wrong."""
        raw = argparse.RawDescriptionHelpFormatter
        codes = "Exit codes: 0; 1 a row failed; 2 the arguments, a file or PyTorch; 130 interrupted."
        p = Parser(cls.script, None, cls.description, codes, formatter_class=raw, allow_abbrev=False)
        like_help = f"record that `{cls.made_by()}` wrote; its problems and timing are used"
        p.add_argument("--like", required=True, metavar="FILE", help=like_help)
        p.add_argument("--out", required=True, metavar="FILE", help="file for the new record; an old one is replaced")
        p.add_argument("--size", metavar="SIZE[,..]", help="only these sizes of the record, as 100k,1M,5Mx16 or 4096^3")
        p.add_argument("--ways", metavar="WAY[,..]", help="only these ways")
        p.add_argument("--samples", metavar="N", help="samples of each measurement [default: as in the record]")
        p.add_argument("--budget", metavar="SECONDS", help="time for these samples [default: as in the record]")
        p.add_argument("--author", metavar="NAME", help="who ran it, for the new record")
        cls.add_options(p)
        a = p.parse_args(arguments)
        out = Path(a.out)
        check_writable(out)
        if out.exists() and Path(a.like).exists() and out.samefile(a.like):
            raise Refused("--out would replace the record given by --like; name another file.")
        like = read_like(Path(a.like), cls.experiment, cls.made_by())
        bench = Bench.of(like["policy"])
        if a.samples is not None:
            if not a.samples.isdecimal() or int(a.samples) < 1:
                raise Refused(f"`{a.samples}` samples: choose a whole number of at least 1.")
            bench = replace(bench, samples=int(a.samples))
        if a.budget is not None:
            if not re.fullmatch(r"\d+(\.\d*)?|\.\d+", a.budget):
                raise Refused(f"A budget of `{a.budget}`: choose a number of seconds, as 2 or 0.5.")
            bench = replace(bench, budget_s=float(a.budget))
        problems = choose_problems(tuple(filter(cls.takes, map(Problem, like["problems"]))), a.size)
        if not problems:
            raise Refused(f"{a.like} has no problem that this script times. `{cls.made_by()} --out FILE` writes one that has.")
        for problem in problems:
            cls.read(problem)
        command = shlex.join(["python3", f"notebooks/pytorch/{cls.script}", *arguments])
        parts, trace = not getattr(a, "no_parts", False), getattr(a, "trace", None)
        if trace is not None:
            check_writable(trace)
            if trace.resolve() in (out.resolve(), Path(a.like).resolve()):
                raise Refused("--trace would replace the record of --out or --like; name another file.")
        return Settings(like, out, problems, choose_ways(cls.ways, a.ways), bench, command, a.author, parts, trace, a)

    def new_record(self) -> dict[str, Any]:
        return new_record(self.settings, self.machine)

    def run(self) -> dict[str, Any]:
        rows = self.record["measurements"]
        for problem in self.settings.problems:
            self.run_problem(problem)
            self.keep(self.record)
        if self.interrupted:
            measured = sum(row["outcome"]["status"] == "measured" for row in rows)
            self.record["notes"].append(f"Interrupted after {measured} of {len(rows)} measurements.")
        return self.record

    def run_problem(self, problem: Problem) -> None:
        self.rows = {}
        able = []
        for way in self.settings.ways:
            obstacle = self.machine.obstacle(way) or self.obstacle(way, problem)
            if obstacle:
                self.finish(way, problem, skipped(obstacle))
            else:
                able.append(way)
        # If no way can run, no inputs are drawn.
        prepared = self.guarded(lambda: self.prepare(problem)) if able else None
        if isinstance(prepared, Stopped):
            for way in able:
                self.finish(way, problem, prepared.outcome)
        elif able:
            self.measure_all(problem, prepared, able)
            self.after(problem, prepared)
        self.record["measurements"] += [self.rows[way] for way in self.settings.ways]
        # The inputs are freed before the next ones are drawn.
        prepared = None
        self.guarded(self.release)

    def finish(
        self,
        way: Way,
        problem: Problem,
        outcome: dict[str, str],
        samples: Samples = ([], []),
        check: Check | None = None,
    ) -> None:
        """Adds the row of a way, and prints its outcome."""
        self.rows[way] = measurement_record(way, problem, outcome, samples, check)
        if outcome["status"] == "measured":
            us, taken = median(samples[0]), len(samples[0])
            text = f"{short_time(us)} ({self.figure(problem, us)}, {taken} sample{'s' if taken > 1 else ''})"
        else:
            text = f"{outcome['status']}: {outcome.get('why') or outcome.get('error')}"
        self.say(self.line(problem, way.id, text))

    def line(self, problem: Problem, name: str, text: str) -> str:
        labels = max(len(p.label) for p in self.settings.problems)
        return f"{problem.label:>{labels}}  {name:{max(len(way.id) for way in self.ways)}}  {text}"

    def guarded(self, work: Callable[[], Any]) -> Any:
        """Returns the result of the work, or the reason why it failed. After an interrupt nothing more is started."""
        if self.interrupted:
            return Stopped(skipped("interrupted before it was timed"))
        try:
            return work()
        except KeyboardInterrupt:
            self.interrupted = True
            return Stopped(skipped("interrupted"))
        except Unavailable as why:
            return Stopped(skipped(str(why)))
        except Exception as error:  # A way may fail in any manner; the others go on.
            return Stopped(failed(first_line(error)))

    def release(self) -> None:
        """Frees compiled code and allocated memory; the next problem compiles for its own shapes."""
        self.torch._dynamo.reset()
        gc.collect()
        if self.machine.gpu:
            self.torch.cuda.empty_cache()


class InTurn(Ladder):
    """A ladder whose ways on a problem are timed in turn: a sample of each per round."""

    def candidate(self, way: Way, prepared: Any) -> Candidate:
        """Returns a way on these inputs, compiled."""
        raise NotImplementedError

    def judge(self, prepared: Any, results: list[Any]) -> list[Check]:
        """Compares each of the results with the reference."""
        raise NotImplementedError

    def measure_all(self, problem: Problem, prepared: Any, ways: list[Way]) -> None:
        candidates = self.each(problem, dict.fromkeys(ways), lambda way, _: self.candidate(way, prepared))
        # A way is checked before it is timed: timing a wrong way is useless.
        before = self.check_all(problem, prepared, candidates)
        for way, check in before.items():
            if not check.passed:
                self.finish(way, problem, check.outcome(), check=check)
        right = {way: candidates[way] for way, check in before.items() if check.passed}
        batches = self.each(problem, right, lambda _, candidate: self.bench.warm_up(candidate.timed))
        regions = [(right[way].timed, batch) for way, batch in batches.items()]
        timed = self.guarded(lambda: self.bench.in_turn(regions))
        if isinstance(timed, Stopped):
            for way in batches:
                self.finish(way, problem, timed.outcome)
            return
        samples = dict(zip(batches, timed))
        after = self.check_all(problem, prepared, {way: right[way] for way in batches})
        for way, check in after.items():
            both = before[way].worse(check)
            self.finish(way, problem, both.outcome(), samples[way], both)

    def each(self, problem: Problem, items: dict[Way, Any], work: Callable[[Way, Any], Any]) -> dict[Way, Any]:
        """Returns the work's result for each way. A way whose work fails gets its row and is left out."""
        given = {}
        for way, item in items.items():
            got = self.guarded(lambda: work(way, item))
            if isinstance(got, Stopped):
                self.finish(way, problem, got.outcome)
            else:
                given[way] = got
        return given

    def check_all(self, problem: Problem, prepared: Any, candidates: dict[Way, Candidate]) -> dict[Way, Check]:
        results = self.each(problem, candidates, lambda _, candidate: candidate.once())
        checks = self.guarded(lambda: self.judge(prepared, list(results.values()))) if results else []
        if isinstance(checks, Stopped):
            for way in results:
                self.finish(way, problem, checks.outcome)
            return {}
        return dict(zip(results, checks))


class Candidate:
    """A way on the inputs of one problem. The way builds a function that queues the work and returns its result."""

    def __init__(self, torch: Any, way: Way, *inputs: Any):
        self.torch, self.way = torch, way
        self.call = way.build(torch, *inputs)
        self.stopwatch = CudaStopwatch(torch)
        self.result: Any = None
        self.graph: Any = None
        self.captured = 0

    def once(self) -> Any:
        """Returns the result of one call, over memory full of NaN, so that an old result cannot pass for a new one."""
        region = self.region(1)
        if self.result is not None:
            self.result.fill_(math.nan)
        region()
        self.torch.cuda.synchronize()
        return self.result

    def timed(self, batch: int) -> tuple[float, float]:
        us, wall_us = self.stopwatch(self.region(batch))
        return us / batch, wall_us / batch

    def region(self, batch: int) -> Callable[[], Any]:
        """Returns a region of this many calls from Python, or of a graph of this many calls, which is captured here."""
        if not self.way.graph:
            return lambda: self.repeat(batch)
        if batch != self.captured:
            self.graph = capture(self.torch, self.call, lambda: self.repeat(batch))
            self.captured = batch
        return self.graph.replay

    def repeat(self, batch: int) -> None:
        for _ in range(batch):
            # The old result is freed first, so that the next one gets the same memory.
            self.result = None
            self.result = self.call()


# ---- PyTorch ---------------------------------------------------------------------------------------------------------


def load_torch() -> Any:
    # Without this, torch.compile prints a table for every product that it tunes.
    os.environ.setdefault("TORCHINDUCTOR_AUTOTUNE_NUM_CHOICES_DISPLAYED", "0")
    try:
        import torch
    except ModuleNotFoundError as error:
        if error.name == "torch":
            raise Refused("PyTorch is not installed: pip install torch") from None
        raise Refused(f"PyTorch could not be loaded: {first_line(error)}") from None
    except Exception as error:  # A wheel without its libraries raises various errors.
        raise Refused(f"PyTorch could not be loaded: {first_line(error)}") from None
    matmul = torch.backends.cuda.matmul
    # Products are computed as the record's types say: in full precision unless a problem is in tf32, and summed in f32.
    matmul.allow_tf32 = False
    matmul.allow_fp16_reduced_precision_reduction = False
    matmul.allow_bf16_reduced_precision_reduction = False
    # Inductor recommends TF32 in every compilation.
    warnings.filterwarnings("ignore", message=".*TensorFloat32.*")
    return torch


def capture(torch: Any, warm_up: Callable[[], Any], work: Callable[[], Any]) -> Any:
    """Returns a CUDA graph of the work, after a warm-up on a side stream as PyTorch's notes on CUDA graphs recommend."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        warm_up()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph


def compile_now(torch: Any, function: Callable[..., Any], *inputs: Any, **options: Any) -> Callable[[], Any]:
    """Runs torch.compile for these inputs before anything is timed; raises `Unavailable` if it fails, as without Triton."""
    compiled = torch.compile(function, dynamic=False, **options)
    try:
        compiled(*inputs)
    except Exception as error:
        raise Unavailable(f"torch.compile failed here: {first_line(error)}") from error
    return lambda: compiled(*inputs)


def first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [""]
    # The line "backend='inductor' raised:" alone says nothing, so the next one is added.
    text = " ".join(lines[:2]) if lines[0].endswith(":") else lines[0]
    return f"{type(error).__name__}: {text}".rstrip(": ")


# ---- the command line ------------------------------------------------------------------------------------------------


def start(kind: type[Ladder], arguments: list[str]) -> int:
    settings = kind.settings_of(arguments)
    torch = load_torch()
    machine = look(torch, settings.like)
    ladder = kind(torch, settings, machine, keep=lambda run: write_record(settings.out, run))
    print_line(f"PyTorch {machine.torch_version} on {machine.device['name']}, {torch.get_num_threads()} CPU threads")
    theirs, ours = settings.like["environment"]["device"]["name"], machine.device["name"]
    if theirs != ours:
        print_line(f"Note: the record given by --like was made on {theirs}; records of two devices cannot be merged.")
    run = ladder.run()
    write_record(settings.out, run)
    print_line(f"Record: {settings.out}")
    if ladder.interrupted:
        return 130
    return int(any(m["outcome"]["status"] == "failed" for m in run["measurements"]))


def main(kind: type[Ladder], arguments: list[str] | None = None) -> int:
    """Runs a script; returns its exit code."""
    try:
        return start(kind, sys.argv[1:] if arguments is None else arguments)
    except Refused as refused:
        print_line(str(refused))
        return 2
    except KeyboardInterrupt:
        print_line("Interrupted.")
        return 130
