#!/usr/bin/env python3
"""Times the pairs of Warpbook's optimisation guide that PyTorch has, the slow way and the fast one.

A record of the guide is of one pair, and this script runs that pair at the sizes of the record:

    warpbook run guide --pair pinned --out ours.json
    python3 guide.py --like ours.json --out pytorch.json
    warpbook merge ours.json pytorch.json --out both.json

The pairs, with their ways in the ladder's order:

    made-on-device   on_the_host, on_the_device: the same numbers by int64 arithmetic
    copy-back        each, once: .item() in the loop, or one copy at its end
    batches          one_by_one, batches: from page-locked memory
    pinned           pageable_to_device, pinned_to_device, pageable_to_host, pinned_to_host
    loader           synchronous, pinned, workers (a DataLoader with four of them), resident
    allocation       driver (torch.cuda.empty_cache() in the loop), pool
    fusion           launches, graph, compiled
    jit-expression   first_call, next_process, later_calls of torch.compile
    small-network    operations, graph
    layout           nchw, nhwc (channels_last)
    precision        fp32, tf32, fp16, bf16
    checkpointing    kept, checkpointed (checkpoint_sequential)
    accumulation     at_once, accumulated

The other pairs are about the inside of a kernel, or about the chip, and PyTorch has no second way for them: their records are
refused.

Inputs are the pair's own where they follow from an element's place; Gaussian numbers and first weights are drawn by torch's
generator from the same distribution. Every result is compared with the same in float64, before the timed loop and after it,
with the pair's tolerance. Of a training the first step is compared, by its gradients or by its losses; the losses and
gradients of the timed steps have to be finite. A sample is what the pair times: all of the loop, with its waits.

Ways are timed one after the other, so that each has the device's memory to itself. Where Warpbook's record counts memory, so
does this one: what PyTorch has allocated at most while the way was timed, or captured as a graph, without what
other ways and libraries hold.
"""

from __future__ import annotations

import copy
import json
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import warpbook_record as wr
from warpbook_record import Check, Problem, Way

ABOUT = __doc__
# 0x9e3779b97f4a7c15 as int64, in which products wrap around as they do in Warpbook.
GOLDEN = -7046029254386353131
EPSILON_F32 = 2.0**-23
# Number of rows that are compared in a matrix product.
ROWS = 16

# A way's builder gets torch and the inputs, and returns a function that does the timed work once. Lessons 40 to 44 show the lines
# in which the two ways of a pair differ; test_guide.py compares the lessons with these functions.
Run = Callable[[], Any]


# ---- inputs that follow from an element's place, as in crates/warpbook-experiments/src/guide/ ------------------------------------


def numbers(torch: Any, n: int, device: str) -> Any:
    """Returns numbers between -1 and 1, f32 [n]."""
    place = torch.arange(n, device=device)
    return ((place * GOLDEN >> 40) & 0xFFFFFF) / 2**23 - 1


def small(torch: Any, n: int, device: str) -> Any:
    """Returns numbers 0, 1, 2 or 3, f32 [n]; their sums are exact."""
    return (numbers(torch, n, device).abs() * 4).floor().clamp(max=3)


def ternary(torch: Any, n: int, device: str) -> Any:
    """Returns numbers -1, 0 or 1, f32 [n]."""
    place = torch.arange(n, device=device)
    return ((place * GOLDEN >> 40) & 0xFFFFFF) % 3 - 1.0


def pixels(torch: Any, first: int, n: int) -> Any:
    """Returns bytes on the host, u8 [n], from place `first` on."""
    place = torch.arange(first, first + n)
    return ((place * GOLDEN >> 56) & 0xFF).to(torch.uint8)


# ---- lesson 40: transfers --------------------------------------------------------------------------------------------


def on_the_host(torch: Any, d: Any) -> Run:
    n, device = d.n, d.device

    def run() -> Any:
        x = numbers(torch, n, "cpu").to(device)
        return x

    return run


def on_the_device(torch: Any, d: Any) -> Run:
    n, device = d.n, d.device

    def run() -> Any:
        x = numbers(torch, n, device)
        return x

    return run


def copied_each(torch: Any, d: Any) -> Run:
    a, b = d.x.chunk(2)

    def run() -> Any:
        sums = []
        for _ in range(100):
            sums.append((a * b).sum().item())
        return sums

    return run


def copied_once(torch: Any, d: Any) -> Run:
    a, b = d.x.chunk(2)

    def run() -> Any:
        sums = []
        for _ in range(100):
            sums.append((a * b).sum())
        sums = torch.stack(sums).cpu()
        return sums

    return run


def one_by_one(torch: Any, d: Any) -> Run:
    samples, weight, device = d.samples, d.weight, d.device

    def run() -> Any:
        outputs = []
        for sample in samples:
            outputs.append(torch.relu(sample.to(device) @ weight).cpu())
        return outputs

    return run


def in_batches(torch: Any, d: Any) -> Run:
    samples, weight, size, device = d.samples, d.weight, d.size, d.device

    def run() -> Any:
        outputs = []
        for batch in samples.split(size):
            outputs.append(torch.relu(batch.to(device) @ weight).cpu())
        return outputs

    return run


def pageable_to_device(torch: Any, d: Any) -> Run:
    x, y = d.x, torch.empty_like(d.x, device=d.device)

    def run() -> Any:
        y.copy_(x)
        return y

    return run


def pinned_to_device(torch: Any, d: Any) -> Run:
    x, y = d.x, torch.empty_like(d.x, device=d.device)
    locked = x.pin_memory()

    def run() -> Any:
        y.copy_(locked, non_blocking=True)
        return y

    return run


def pageable_to_host(torch: Any, d: Any) -> Run:
    x, y = torch.empty_like(d.x), d.x.to(d.device, copy=True)

    def run() -> Any:
        x.copy_(y)
        return x

    return run


def pinned_to_host(torch: Any, d: Any) -> Run:
    locked, y = torch.empty_like(d.x).pin_memory(), d.x.to(d.device, copy=True)

    def run() -> Any:
        locked.copy_(y, non_blocking=True)
        return locked

    return run


class Batches:
    """A data set whose samples are whole batches: a worker gathers one with a single index operation."""

    def __init__(self, images: Any, labels: Any, order: list[Any]):
        self.images, self.labels, self.order = images, labels, order

    def __len__(self) -> int:
        return len(self.order)

    def __getitem__(self, at: int) -> tuple[Any, Any]:
        return self.images[self.order[at]], self.labels[self.order[at]]


def synchronous(torch: Any, d: Any) -> Run:
    images, labels, order, device = d.images, d.labels, d.order, d.device
    step = d.new_training(device)

    def run() -> Any:
        losses = []
        for picked in order:
            x, y = images[picked].to(device), labels[picked].to(device)
            losses.append(step(x, y).item())
        return losses

    return run


def from_pinned(torch: Any, d: Any) -> Run:
    images, labels, order, device = d.images, d.labels, d.order, d.device
    step = d.new_training(device)

    def run() -> Any:
        losses = []
        for picked in order:
            x = images[picked].pin_memory().to(device, non_blocking=True)
            y = labels[picked].pin_memory().to(device, non_blocking=True)
            losses.append(step(x, y))
        return losses

    return run


def by_workers(torch: Any, d: Any) -> Run:
    device, DataLoader = d.device, torch.utils.data.DataLoader
    step = d.new_training(device)
    batches = Batches(d.images, d.labels, d.order)
    loader = DataLoader(batches, batch_size=None, num_workers=4, pin_memory=True, persistent_workers=True)

    def run() -> Any:
        losses = []
        for x, y in loader:
            x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
            losses.append(step(x, y))
        return losses

    return run


def resident(torch: Any, d: Any) -> Run:
    device = d.device
    images, labels = d.images.to(device), d.labels.to(device)
    order = [picked.to(device) for picked in d.order]
    step = d.new_training(device)

    def run() -> Any:
        losses = []
        for picked in order:
            losses.append(step(images[picked], labels[picked]))
        return losses

    return run


# ---- lesson 41: memory -----------------------------------------------------------------------------------------------


def from_the_driver(torch: Any, d: Any) -> Run:
    x, y = d.x, torch.empty_like(d.x)

    def run() -> Any:
        for _ in range(10):
            between = 2 * x
            torch.mul(between, 2, out=y)
            del between
            torch.cuda.empty_cache()
        return y

    return run


def from_the_pool(torch: Any, d: Any) -> Run:
    x, y = d.x, torch.empty_like(d.x)

    def run() -> Any:
        for _ in range(10):
            between = 2 * x
            torch.mul(between, 2, out=y)
            del between
        return y

    return run


# ---- lesson 42: launches and fusion ----------------------------------------------------------------------------------


def operations_of(torch: Any) -> Callable[[Any], Any]:
    def operations(x: Any) -> Any:
        for _ in range(4):
            x = torch.relu(x * 0.9 + 0.1)
        return x

    return operations


def launches(torch: Any, d: Any) -> Run:
    x, operations = d.x, operations_of(torch)

    def run() -> Any:
        y = operations(x)
        return y

    return run


def graph_of_launches(torch: Any, d: Any) -> Run:
    x, operations = d.x, operations_of(torch)
    # Outside of the capture, so that its kernels are loaded.
    operations(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = operations(x)

    def run() -> Any:
        graph.replay()
        return y

    return run


def called(fused: Callable[[Any], Any], x: Any) -> None:
    """Compiles before anything is timed; raises `Unavailable` if that fails, as without Triton."""
    try:
        fused(x)
    except Exception as error:
        raise wr.Unavailable(f"torch.compile failed here: {wr.first_line(error)}") from error


def compiled(torch: Any, d: Any) -> Run:
    x, operations = d.x, operations_of(torch)
    fused = torch.compile(operations)
    called(fused, x)

    def run() -> Any:
        y = fused(x)
        return y

    return run


def chain_of(torch: Any) -> Callable[[Any], Any]:
    def chain(x: Any) -> Any:
        return torch.tanh(torch.clamp(x * 0.9 + 0.1, min=0) * 0.5 - x.abs() / 3)

    return chain


def fresh_caches(torch: Any) -> Any:
    """Returns a context manager under which the compiler finds no cache on the disk. PyTorch has had two names for it."""
    from torch._inductor import utils

    return getattr(utils, "fresh_cache", None) or utils.fresh_inductor_cache


def forget(torch: Any) -> None:
    """Forgets what this process has compiled, but keeps the cache on the disk."""
    from torch._inductor import utils

    torch.compiler.reset()
    (getattr(utils, "clear_caches", None) or utils.clear_inductor_caches)()


def first_call(torch: Any, d: Any) -> Run:
    x, chain, fresh = d.x, chain_of(torch), fresh_caches(torch)
    called(torch.compile(chain), x)

    def run() -> Any:
        with fresh():
            forget(torch)
            y = torch.compile(chain)(x)
            torch.cuda.synchronize()
        return y

    return run


def next_process(torch: Any, d: Any) -> Run:
    x, chain = d.x, chain_of(torch)
    called(torch.compile(chain), x)

    def run() -> Any:
        forget(torch)
        y = torch.compile(chain)(x)
        torch.cuda.synchronize()
        return y

    return run


def later_calls(torch: Any, d: Any) -> Run:
    x, chain = d.x, chain_of(torch)
    fused = torch.compile(chain)
    called(fused, x)

    def run() -> Any:
        y = fused(x)
        torch.cuda.synchronize()
        return y

    return run


def operation_by_operation(torch: Any, d: Any) -> Run:
    model, images, passes, device = copy.deepcopy(d.model).to(d.device), d.images, d.n, d.device

    def run() -> Any:
        with torch.no_grad():
            for _ in range(passes):
                x = images.to(device, non_blocking=True)
                outputs = model((x / 255 - 0.5) / 0.5).cpu()
        return outputs

    return run


def one_graph(torch: Any, d: Any) -> Run:
    model, images, passes, device = copy.deepcopy(d.model).to(d.device), d.images, d.n, d.device
    x = images.to(device)
    with torch.no_grad():
        # Outside of the capture, so that its kernels are loaded.
        outputs = torch.empty_like(model((x / 255 - 0.5) / 0.5), device="cpu").pin_memory()
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(graph):
        x.copy_(images, non_blocking=True)
        outputs.copy_(model((x / 255 - 0.5) / 0.5), non_blocking=True)

    def run() -> Any:
        for _ in range(passes):
            graph.replay()
            torch.cuda.synchronize()
        return outputs

    return run


# ---- lesson 01: the layout of an image -------------------------------------------------------------------------------


def channels_first(torch: Any, d: Any) -> Run:
    x, weight, conv2d = d.x.to(d.device).half(), d.weight.to(d.device).half(), torch.nn.functional.conv2d

    def run() -> Any:
        y = conv2d(x, weight, padding=1)
        return y

    return run


def channels_last(torch: Any, d: Any) -> Run:
    x, weight, conv2d = d.x.to(d.device).half(), d.weight.to(d.device).half(), torch.nn.functional.conv2d
    x = x.to(memory_format=torch.channels_last)
    weight = weight.to(memory_format=torch.channels_last)

    def run() -> Any:
        y = conv2d(x, weight, padding=1)
        return y

    return run


# ---- lesson 44: memory for compute -----------------------------------------------------------------------------------


def product_fp32(torch: Any, d: Any) -> Run:
    a, b = d.a.to(d.device), d.b.to(d.device)
    torch.set_float32_matmul_precision("highest")

    def run() -> Any:
        c = a @ b
        return c

    return run


def product_tf32(torch: Any, d: Any) -> Run:
    a, b = d.a.to(d.device), d.b.to(d.device)
    torch.set_float32_matmul_precision("high")

    def run() -> Any:
        c = a @ b
        return c

    return run


def product_fp16(torch: Any, d: Any) -> Run:
    a, b = d.a.to(d.device), d.b.to(d.device)
    a, b = a.half(), b.half()

    def run() -> Any:
        c = a @ b
        return c

    return run


def product_bf16(torch: Any, d: Any) -> Run:
    a, b = d.a.to(d.device), d.b.to(d.device)
    a, b = a.bfloat16(), b.bfloat16()

    def run() -> Any:
        c = a @ b
        return c

    return run


def gradients(model: Any) -> list[Any]:
    return [p.grad for p in model.parameters()]


def deep_step(torch: Any, d: Any, forward: Callable[[Any, Any], Any]) -> Run:
    """Runs a step with a whole batch at once."""
    model, x, y = d.new_model().to(d.device), d.x.to(d.device), d.y.to(d.device)
    optimizer, cross_entropy = d.new_optimizer(model), torch.nn.functional.cross_entropy

    def run() -> Any:
        optimizer.zero_grad(set_to_none=True)
        outputs = forward(model, x)
        loss = cross_entropy(outputs, y)
        loss.backward()
        optimizer.step()
        return gradients(model)

    return run


def all_kept(torch: Any, d: Any) -> Run:
    def forward(model: Any, x: Any) -> Any:
        outputs = model(x)
        return outputs

    return deep_step(torch, d, forward)


def checkpointed(torch: Any, d: Any) -> Run:
    from torch.utils.checkpoint import checkpoint_sequential

    segments = d.size

    def forward(model: Any, x: Any) -> Any:
        outputs = checkpoint_sequential(model, segments, x, use_reentrant=False)
        return outputs

    return deep_step(torch, d, forward)


def accumulated(torch: Any, d: Any) -> Run:
    model, x, y, parts = d.new_model().to(d.device), d.x.to(d.device), d.y.to(d.device), d.size
    optimizer, cross_entropy = d.new_optimizer(model), torch.nn.functional.cross_entropy

    def run() -> Any:
        optimizer.zero_grad(set_to_none=True)
        for images, labels in zip(x.chunk(parts), y.chunk(parts)):
            loss = cross_entropy(model(images), labels) / parts
            loss.backward()
        optimizer.step()
        return gradients(model)

    return run


# ---- the ladder ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sizes:
    """The swept size of a pair, and the amount of work: elements, samples, passes, or layers."""

    size: int
    n: int


def flat(torch: Any, value: Any) -> Any:
    """Flattens a result to one array of f64. A result is a tensor, several tensors, or numbers of the host."""
    if isinstance(value, (list, tuple)):
        return torch.cat([torch.as_tensor(v).detach().double().cpu().reshape(-1) for v in value])
    return value.detach().double().reshape(-1)


def overwrite(value: Any) -> None:
    """Overwrites a result with NaN, so that an old result cannot pass for a new one."""
    for part in value if isinstance(value, (list, tuple)) else [value]:
        if hasattr(part, "fill_"):
            part.detach().fill_(math.nan)


class Pair(wr.Ladder):
    """A pair of the guide. The results of its ways are compared with `want`, which is among its inputs."""

    script = "guide.py"
    description = ABOUT
    experiment = "guide"
    ways = ()
    # The largest allowed error of a result, relative to the element or to 1, whichever is larger.
    tolerance = 0.0
    reference = "every element of the same work in f64"
    # True if a run changes the weights with which the next one starts.
    trains = False
    counts_memory = False

    @classmethod
    def made_by(cls) -> str:
        return f"warpbook run guide --pair {cls.experiment.removeprefix('guide-') if cls.ways else 'NAME'}"

    # ---- what a pair fills in

    def inputs(self, s: Sizes) -> SimpleNamespace:
        """Returns what the ways of the pair read, and the reference `want` in f64."""
        raise NotImplementedError

    def bound(self, way: Way, s: Sizes) -> float:
        return self.tolerance

    def compared(self, got: Any, s: Sizes) -> Any:
        """Returns the part of a result that is compared."""
        return got

    # ---- what they share

    @staticmethod
    def takes(problem: Problem) -> bool:
        """Returns true if the problem is one that is timed. A record may also have a problem that only shows what happens over time."""
        return any(size["name"] == "size" for size in problem.record["sizes"])

    @staticmethod
    def read(problem: Problem) -> Sizes:
        return Sizes(problem.count("size"), problem.count("n"))

    def figure(self, problem: Problem, us: float) -> str:
        if self.settings.like["descriptor"].get("headline") == "throughput":
            return f"{problem.record['flops'] / us * 1e-6:.4g} TFLOP/s"
        return f"{problem.record['bytes'] / us * 1e-3:.4g} GB/s"

    def prepare(self, problem: Problem) -> SimpleNamespace:
        s, torch = self.read(problem), self.torch
        torch.manual_seed(1)
        # cuDNN's search is off, because its memory would be counted.
        torch.backends.cudnn.benchmark = torch.backends.cudnn.allow_tf32 = False
        d = self.inputs(s)
        # This call makes cuBLAS allocate its memory, which all ways share, before any way is built.
        torch.nn.Linear(8, 8, device=self.device)(torch.ones((8, 8), device=self.device)).sum().backward()
        return SimpleNamespace(**vars(d), size=s.size, n=s.n, device=self.device)

    def measure_all(self, problem: Problem, prepared: SimpleNamespace, ways: list[Way]) -> None:
        for way in ways:
            stopped = self.guarded(lambda: self.measure(problem, way, prepared))
            if isinstance(stopped, wr.Stopped):
                self.finish(way, problem, stopped.outcome)
            self.guarded(self.release)

    def measure(self, problem: Problem, way: Way, d: SimpleNamespace) -> None:
        torch, cuda = self.torch, self.torch.cuda
        held = cuda.memory_allocated()
        cuda.reset_peak_memory_stats()
        run, stopwatch = way.build(torch, d), wr.CudaStopwatch(torch)
        value = None

        def once() -> None:
            nonlocal value
            # The old result is freed first, so that the next one gets the same memory.
            value = None
            value = run()

        def checked(again: bool) -> Check:
            if value is not None:
                overwrite(value)
            once()
            cuda.synchronize()
            return self.judge(problem, way, d, value, again)

        # A way is checked before it is timed: timing a wrong way is useless.
        before = checked(again=False)
        if not before.passed:
            self.finish(way, problem, before.outcome(), check=before)
            return
        if not way.graph:
            # The peak excludes memory that only the first call needs, for example to try algorithms. A graph's peak is that of its
            # capture.
            cuda.reset_peak_memory_stats()
        samples = self.bench.gpu(lambda batch: stopwatch(once, batch), may_repeat=True)
        peak = cuda.max_memory_allocated() - held
        both = before.worse(checked(again=True))
        self.finish(way, problem, both.outcome(), samples, both)
        if self.counts_memory and both.passed:
            self.rows[way]["peak_bytes"] = peak

    def judge(self, problem: Problem, way: Way, d: SimpleNamespace, value: Any, again: bool) -> Check:
        s, torch = self.read(problem), self.torch
        got, bound = flat(torch, value), self.bound(way, s)
        if again and self.trains:
            # The weights have changed since the first step, whose result was compared.
            finite = bool(torch.isfinite(got).all())
            return Check(self.reference, 0.0, 0.0 if finite else math.nan, bound, finite)
        got = self.compared(got, s)
        want = d.want.to(got.device)
        if got.shape != want.shape:
            return Check(self.reference, math.inf, math.inf, bound, False)
        error = (got - want).abs()
        # max keeps NaN, and NaN fails `<=`.
        absolute, relative = float(error.max()), float((error / want.abs().clamp(min=1.0)).max())
        return Check(self.reference, absolute, relative, bound, relative <= bound)


def way(name: str, title: str, idea: str, build: Callable[..., Run], graph: bool = False) -> Way:
    return Way(f"pytorch_{name}", f"PyTorch, {title}", idea, build, graph=graph)


class MadeOnDevice(Pair):
    experiment = "guide-made-on-device"
    ways = (
        way("on_the_host", "on the host", "Made by int64 arithmetic on all threads of the host, and copied.", on_the_host),
        way("on_the_device", "on the device", "The same operations on tensors of the device.", on_the_device),
    )

    def inputs(self, s: Sizes) -> SimpleNamespace:
        return SimpleNamespace(want=numbers(self.torch, s.n, "cpu").double())


class CopyBack(Pair):
    experiment = "guide-copy-back"
    ways = (
        way("each", "copied back each time", "`.item()` in the loop.", copied_each),
        way("once", "copied back once", "The sums are stacked on the device and copied at the end.", copied_once),
    )

    def inputs(self, s: Sizes) -> SimpleNamespace:
        x = small(self.torch, 2 * s.n, self.device)
        a, b = x.double().chunk(2)
        return SimpleNamespace(x=x, want=(a * b).sum().expand(100))


class InBatches(Pair):
    experiment = "guide-batches"
    tolerance = 64 * EPSILON_F32
    ways = (
        way("one_by_one", "one by one", "A copy, a product, a ReLU and a copy back for every sample.", one_by_one),
        way("batches", "in batches", "The same for a batch.", in_batches),
    )

    def inputs(self, s: Sizes) -> SimpleNamespace:
        torch, width = self.torch, 64
        j, o = torch.arange(width)[:, None], torch.arange(width)
        weight = ((j * 7 + o * 13) % 17 - 8.0) / 32.0
        samples = numbers(torch, s.n * width, "cpu").view(s.n, width)
        want = torch.relu(samples.double() @ weight.double()).view(-1)
        return SimpleNamespace(samples=samples.pin_memory(), weight=weight.to(self.device), want=want)


class Pinned(Pair):
    experiment = "guide-pinned"
    ways = (
        way("pageable_to_device", "to the device, pageable", "copy_ from an ordinary tensor.", pageable_to_device),
        way("pinned_to_device", "to the device, pinned", "copy_ from one whose memory was pinned.", pinned_to_device),
        way("pageable_to_host", "to the host, pageable", "copy_ into an ordinary tensor.", pageable_to_host),
        way("pinned_to_host", "to the host, pinned", "copy_ into one whose memory was pinned.", pinned_to_host),
    )

    def inputs(self, s: Sizes) -> SimpleNamespace:
        x = numbers(self.torch, s.n, "cpu")
        return SimpleNamespace(x=x, want=x.double())


class Loader(Pair):
    experiment = "guide-loader"
    tolerance = 5e-4
    reference = "the losses of the first steps in f64 on the CPU"
    trains = counts_memory = True
    ways = (
        way("synchronous", "load, copy, train, wait", "From pageable memory; `.item()` waits for each step.", synchronous),
        way("pinned", "page-locked", "Neither copies nor losses are waited for.", from_pinned),
        way("workers", "DataLoader, four workers", "Gathered ahead by four processes, which send batches to this one.", by_workers),
        way("resident", "all images on the GPU", "Nothing is loaded.", resident),
    )

    def inputs(self, s: Sizes) -> SimpleNamespace:
        torch, count = self.torch, 4 * s.n
        images = pixels(torch, count, count * 3 * 64 * 64).view(count, 3, 64, 64)
        labels = (pixels(torch, 0, count) % 10).long()
        generator = torch.Generator().manual_seed(1)
        # There are four epochs, each with a new order of the images.
        order = [picked for _ in range(4) for picked in torch.randperm(count, generator=generator).split(s.n)]

        def new_training(device: str, double: bool = False) -> Callable[[Any, Any], Any]:
            torch.manual_seed(1)
            nn = torch.nn
            layers = (nn.Conv2d(3, 16, 3, stride=2), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(16 * 15 * 15, 10))
            model = nn.Sequential(*layers).to(device)
            model = model.double() if double else model
            optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)

            def step(x: Any, y: Any) -> Any:
                optimizer.zero_grad(set_to_none=True)
                x = (x.double() if double else x.float()) / 255
                loss = nn.functional.cross_entropy(model((x - 0.5) / 0.25), y)
                loss.backward()
                optimizer.step()
                return loss.detach()

            return step

        exact = new_training("cpu", double=True)
        want = torch.stack([exact(images[picked], labels[picked]) for picked in order])
        return SimpleNamespace(images=images, labels=labels, order=order, new_training=new_training, want=want)


class Allocation(Pair):
    experiment = "guide-allocation"
    ways = (
        way(
            "driver",
            "emptied each time",
            "`torch.cuda.empty_cache()` gives free memory back to the driver. Arrays of up to 1 MiB share segments of 2 MiB, which stay "
            "while another array is in them.",
            from_the_driver,
        ),
        way("pool", "caching allocator", "As it is.", from_the_pool),
    )

    def inputs(self, s: Sizes) -> SimpleNamespace:
        x = numbers(self.torch, s.n, self.device)
        return SimpleNamespace(x=x, want=4 * x.double())


class Fusion(Pair):
    experiment = "guide-fusion"
    tolerance = 16 * EPSILON_F32
    ways = (
        way("launches", "eager", "Each product, sum and ReLU is a kernel.", launches),
        way("graph", "CUDA graph", "The same kernels, started together.", graph_of_launches, graph=True),
        way("compiled", "torch.compile", "One kernel of all.", compiled),
    )

    def inputs(self, s: Sizes) -> SimpleNamespace:
        x = numbers(self.torch, s.n, self.device)
        return SimpleNamespace(x=x, want=operations_of(self.torch)(x.double()))


class JitExpression(Pair):
    experiment = "guide-jit-expression"
    tolerance = 32 * EPSILON_F32
    ways = (
        way("first_call", "first call", "torch.compile with empty caches.", first_call),
        way("next_process", "found on disk", "Traced again; what Inductor compiled is on the disk.", next_process),
        way("later_calls", "later calls", "It is loaded.", later_calls),
    )

    def inputs(self, s: Sizes) -> SimpleNamespace:
        x = numbers(self.torch, s.n, self.device)
        return SimpleNamespace(x=x, want=chain_of(self.torch)(x.double()))


class SmallNetwork(Pair):
    experiment = "guide-small-network"
    tolerance = 256 * EPSILON_F32
    reference = "the outputs in f64 on the CPU, of the same weights"
    counts_memory = True
    ways = (
        way("operations", "eager", "A launch for each operation, without gradients.", operation_by_operation),
        way("graph", "CUDA graph", "One graph, copies included.", one_graph, graph=True),
    )

    def inputs(self, s: Sizes) -> SimpleNamespace:
        torch, nn = self.torch, self.torch.nn
        model = nn.Sequential(nn.Linear(100, 50), nn.ReLU(), nn.Linear(50, 10))
        images = pixels(torch, 0, 100 * s.size).view(s.size, 100)
        with torch.no_grad():
            want = model.double()((images.double() / 255 - 0.5) / 0.5).view(-1)
        return SimpleNamespace(model=model.float(), images=images.pin_memory(), want=want)


class Layout(Pair):
    experiment = "guide-layout"
    counts_memory = True
    ways = (
        way("nchw", "channels first", "conv2d in fp16, in the layout that tensors have by default.", channels_first),
        way("nhwc", "channels last", "Images and weight in torch.channels_last.", channels_last),
    )

    def inputs(self, s: Sizes) -> SimpleNamespace:
        torch = self.torch
        torch.backends.cudnn.benchmark = True
        images, edge, channels = s.size, 32, 64
        count = images * edge * edge * channels
        both = ternary(torch, count + channels * 9 * channels, "cpu")
        # Like Warpbook, the inputs store the pixels first, then the channels.
        x = both[:count].view(images, edge, edge, channels).permute(0, 3, 1, 2).contiguous()
        weight = both[count:].view(channels, 3, 3, channels).permute(0, 3, 1, 2).contiguous()
        wide = [v.to(self.device).double() for v in (x, weight)]
        want = torch.nn.functional.conv2d(*wide, padding=1).cpu().view(-1)
        return SimpleNamespace(x=x, weight=weight, want=want)


class Precision(Pair):
    experiment = "guide-precision"
    reference = "the product of the unrounded inputs in f64, sixteen rows"
    counts_memory = True
    ways = (
        way("fp32", "fp32", 'torch.set_float32_matmul_precision("highest"), the default.', product_fp32),
        way("tf32", "tf32", 'torch.set_float32_matmul_precision("high").', product_tf32),
        way("fp16", "fp16", "Both factors as torch.float16.", product_fp16),
        way("bf16", "bf16", "Both factors as torch.bfloat16.", product_bf16),
    )
    DTYPES = {"pytorch_tf32": "tf32", "pytorch_fp16": "f16", "pytorch_bf16": "bf16"}

    def obstacle(self, way: Way, problem: Problem) -> str | None:
        return self.machine.lacks((8, 0)) if way.id in ("pytorch_tf32", "pytorch_bf16") else None

    def bound(self, way: Way, s: Sizes) -> float:
        """Returns the bound; `tolerance` in crates/warpbook-experiments/src/guide/made/product.rs derives it."""
        bounds = {"pytorch_tf32": 16 * 2.0**-10, "pytorch_fp16": 8 * 2.0**-10, "pytorch_bf16": 8 * 2.0**-7}
        return bounds.get(way.id, 64 * EPSILON_F32 * math.sqrt(max(s.n / 1024, 1)))

    @staticmethod
    def known(n: int) -> list[int]:
        count = min(ROWS, n)
        return [i * (n - 1) // max(count - 1, 1) for i in range(count)]

    def inputs(self, s: Sizes) -> SimpleNamespace:
        torch, n = self.torch, s.n
        a, b = torch.randn((2, n, n))
        want = a[self.known(n)].to(self.device).double() @ b.to(self.device).double()
        return SimpleNamespace(a=a, b=b, want=(want / math.sqrt(n)).cpu().view(-1))

    def compared(self, got: Any, s: Sizes) -> Any:
        # The result is scaled like Warpbook's product, so that its elements are about as large as the factors'.
        return got.view(s.n, s.n)[self.known(s.n)].reshape(-1) / math.sqrt(s.n)

    def measure_all(self, problem: Problem, prepared: SimpleNamespace, ways: list[Way]) -> None:
        super().measure_all(problem, prepared, ways)
        for row in self.rows.values():
            if row["outcome"]["status"] == "measured" and row["rung"] in self.DTYPES:
                row["dtype"] = self.DTYPES[row["rung"]]

    def release(self) -> None:
        self.torch.set_float32_matmul_precision("highest")
        super().release()


class Deep(Pair):
    """The convolutional network that is trained by a step of checkpointing or accumulation."""

    tolerance = 5e-4
    reference = "the first step's gradients in f64, of the whole batch without checkpoints, relative to the largest"
    trains = counts_memory = True

    def inputs(self, s: Sizes) -> SimpleNamespace:
        torch, nn = self.torch, self.torch.nn
        # The sizes match `sizes` in crates/warpbook-experiments/src/guide/made/training.rs.
        channels, batch = (32, 128) if s.n >= 32 else (4, 4)
        images = pixels(torch, batch, batch * 16 * 16).view(batch, 1, 16, 16)
        x, y = (images / 255 - 0.1307) / 0.3081, (pixels(torch, 0, batch) % 10).long()

        def new_model() -> Any:
            torch.manual_seed(1)
            stack = [(nn.Conv2d(channels if i else 1, channels, 3, padding=1), nn.GELU()) for i in range(s.n)]
            layers = [layer for pair in stack for layer in pair]
            return nn.Sequential(*layers, nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64 * channels, 10))

        def new_optimizer(model: Any) -> Any:
            return torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9)

        exact = new_model().to(self.device).double()
        nn.functional.cross_entropy(exact(x.to(self.device).double()), y.to(self.device)).backward()
        want = self.compared(flat(torch, gradients(exact)), s)
        return SimpleNamespace(x=x, y=y, new_model=new_model, new_optimizer=new_optimizer, want=want)

    def compared(self, got: Any, s: Sizes) -> Any:
        return got / got.abs().max()


class Checkpointing(Deep):
    experiment = "guide-checkpointing"
    ways = (
        way("kept", "all activations kept", "The default.", all_kept),
        way("checkpointed", "checkpointed", "checkpoint_sequential, which keeps all of the last segment.", checkpointed),
    )


class Accumulation(Deep):
    experiment = "guide-accumulation"
    ways = (
        way("at_once", "the whole batch", "One forward and one backward pass.", all_kept),
        way("accumulated", "accumulated", "A forward and a backward pass of each part, then one step.", accumulated),
    )


PAIRS: tuple[type[Pair], ...] = (
    MadeOnDevice,
    CopyBack,
    InBatches,
    Pinned,
    Loader,
    Allocation,
    Fusion,
    JitExpression,
    SmallNetwork,
    Layout,
    Precision,
    Checkpointing,
    Accumulation,
)

# The reasons why PyTorch cannot show both ways of the other pairs.
INSIDE = "it is about the inside of a kernel, but a PyTorch program does not write kernels"
LEFT_OUT = dict.fromkeys(
    "coalescing bank-conflicts divergence reduction vector-loads latency memory-latency gather occupancy".split(), INSIDE
) | {"power": "it compares the chip's power for different numbers; the program is the same"}


def pair_of(arguments: list[str]) -> type[Pair]:
    """Returns the pair of the record that --like names. For other records this is `Pair`, whose reading of the record says what is wrong."""
    p = wr.Parser(add_help=False, allow_abbrev=False)
    p.add_argument("--like")
    try:
        experiment = json.loads(Path(p.parse_known_args(arguments)[0].like).read_text(encoding="utf-8-sig"))["experiment"]
    except (OSError, ValueError, TypeError, KeyError):
        return Pair
    for name, why in LEFT_OUT.items():
        if experiment == f"guide-{name}":
            raise wr.Refused(f"PyTorch cannot show both ways of the pair {name}: {why}.")
    return next((kind for kind in PAIRS if kind.experiment == experiment), Pair)


def main(arguments: list[str]) -> int:
    try:
        kind = pair_of(arguments)
    except wr.Refused as refused:
        wr.print_line(str(refused))
        return 2
    return wr.main(kind, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
