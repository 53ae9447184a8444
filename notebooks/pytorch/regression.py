#!/usr/bin/env python3
"""Times the linear regression that Warpbook runs, written the ways a PyTorch user would write it.

The work is y = w x + b by batch gradient descent on the mean squared error, with plain SGD; sizes, epochs, learning
rate, start, true line and range of x are those of a record that Warpbook wrote:

    warpbook run regression --out ours.json
    python3 regression.py --like ours.json --out pytorch.json
    warpbook merge ours.json pytorch.json --out both.json

    python3 regression.py --like ours.json --out first.json --size 100k --ways cpu,eager       a first look
    python3 regression.py --like ours.json --out one.json --size 5M --trace trace.json         a timeline, too

The ways, in the ladder's order:

    pytorch_cpu       forward, F.mse_loss, backward and SGD step on the CPU, up to 10 M points; timed by its clock
    pytorch_linear    nn.Linear(features, 1) on the GPU, as most people write it
    pytorch_eager     the same loop with w * x + b written out
    pytorch_compiled  forward and loss through torch.compile, the optimiser's step eager
    pytorch_graph     the eager training step, all epochs captured in one CUDA graph
    pytorch_expert    the gradient written out, without autograd, through torch.compile, all epochs in one CUDA graph

A sample is the whole descent; the weights are reset and the logged losses are overwritten with NaN before it,
untimed. The losses stay on the device. Compilation and capture come before the first warm-up.

Every result is compared with the same descent in double precision, before the timed loop and after it; a way whose
error exceeds the tolerance of crates/warpbook-kernels/src/tolerance.rs is a failed row. All is IEEE binary32: TF32 is off.
The points are drawn by torch's own generator, from the same distribution as Warpbook's but not the same bits. With
several features X is [n][d] of normal(0, 1), the true w_j is (-1)^j 3 / (1 + j), and all w start where w does.

nn.Linear is a matrix product even with one feature. Its gradient is then one sum over all points, which cuBLAS or a
CPU library may add up in long serial runs: on a CPU such sums missed the tolerance, so on some devices pytorch_linear
may be a failed row. In a CUDA graph on an H200 it took 203 us per epoch at 5 M points, where w * x + b took 98.

The parts of an epoch are those of pytorch_eager: each of its four calls is repeated back to back between two events.
Where the GPU finishes before the CPU has queued the next call, that is the time of the queueing. One such epoch is
traced by torch.profiler: the record has the operators that the host called, and what they led to on the GPU.

--trace FILE keeps PyTorch's own trace of five epochs of each way, at the problem that the record shows first, or at the
first of --size: every operator, launch, kernel and copy, under the name of its way. Open it at https://ui.perfetto.dev
or chrome://tracing; a name that ends in .gz is packed.
"""

from __future__ import annotations

import functools
import math
import operator
import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import warpbook_record as wr
from warpbook_record import Bench, Check, Problem, Samples, Way

# Defaults, as in Warpbook, if a record says nothing else: the weights before the first epoch, the line around which the
# points are
# drawn, the range of x with one feature, and the number of epochs between logged losses.
INITIAL_W, INITIAL_B = 0.83, 0.7645
TRUE_W, TRUE_B = 3.0, 2.0
X_MIN, X_MAX = 0.0, 10.0
LOG_EVERY = 10
# Number of calls per sample of a part.
REPEATS = 20

EPSILON_F32 = 2.0**-23
REFERENCE = "the same descent in f64: w, b and the logged losses"

# Number of epochs of each way in the trace.
TRACED = 5

# The CPU's way is skipped if it would take longer than all others together.
CPU_MAX_POINTS = 10_000_000
CPU_MAX_SECONDS = 120.0
CPU_PROBE_EPOCHS = 2


# ---- the ways: each builds a function that runs one epoch, and stores its loss in `slot` if there is one -------------
#
# d has x, f32 [n] or [n][features]; y, f32 [n]; the parameters w and b; the learning rate; and the number of features.


def predict(x: Any, w: Any, b: Any) -> Any:
    return w * x + b if x.dim() == 1 else x @ w + b


def training_loop(torch: Any, d: Descent, loss_of: Callable[[], Any]) -> Callable[[Any], None]:
    """The training loop of a tutorial."""
    optimizer = torch.optim.SGD([d.w, d.b], lr=d.learning_rate)

    def epoch(slot: Any) -> None:
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of()
        loss.backward()
        if slot is not None:
            slot.copy_(loss.detach())
        optimizer.step()

    return epoch


def linear(torch: Any, d: Descent) -> Callable[[Any], None]:
    model = torch.nn.Linear(d.features, 1, device=d.x.device)
    d.w, d.b = model.weight, model.bias
    x, y, mse_loss = d.x.reshape(-1, d.features), d.y[:, None], torch.nn.MSELoss()
    return training_loop(torch, d, lambda: mse_loss(model(x), y))


def eager(torch: Any, d: Descent) -> Callable[[Any], None]:
    mse_loss = torch.nn.functional.mse_loss
    return training_loop(torch, d, lambda: mse_loss(predict(d.x, d.w, d.b), d.y))


def compiled(torch: Any, d: Descent) -> Callable[[Any], None]:
    def forward_and_loss(x: Any, y: Any, w: Any, b: Any) -> Any:
        return torch.nn.functional.mse_loss(predict(x, w, b), y)

    # This compiles the backward pass too.
    loss_of = torch.compile(forward_and_loss)
    return training_loop(torch, d, lambda: loss_of(d.x, d.y, d.w, d.b))


def closed_form(torch: Any, d: Descent) -> Callable[[Any], None]:
    rate = 2.0 * d.learning_rate / d.x.shape[0]

    def step(x: Any, y: Any, w: Any, b: Any, logged: bool) -> Any:
        error = predict(x, w, b) - y
        loss = (error * error).mean() if logged else None
        # A product and a sum can be fused with earlier operations; a matrix product is left to cuBLAS.
        w.sub_((x * error).sum() if x.dim() == 1 else error @ x, alpha=rate)
        b.sub_(error.sum(), alpha=rate)
        return loss

    # Tuning makes the fused kernels up to 15 % faster; the rest of max-autotune takes seconds and gains nothing. With
    # several
    # features it would replace cuBLAS by slower kernels.
    tuned = {"coordinate_descent_tuning": True} if d.features == 1 else None
    fused = torch.compile(step, dynamic=False, options=tuned)

    @torch.no_grad()
    def epoch(slot: Any) -> None:
        loss = fused(d.x, d.y, d.w, d.b, slot is not None)
        if slot is not None:
            slot.copy_(loss)

    return epoch


WAYS = (
    Way(
        "pytorch_cpu",
        "PyTorch, CPU",
        "Forward, loss, backward and the SGD step run eagerly on every core of the CPU.",
        eager,
        on_gpu=False,
    ),
    Way(
        "pytorch_linear",
        "PyTorch, nn.Linear",
        "nn.Linear and SGD, as most people write it: the forward pass and the gradients are matrix products.",
        linear,
    ),
    Way(
        "pytorch_eager",
        "PyTorch, eager",
        "The training loop of a tutorial with w * x + b: every operation is a kernel that is launched from Python.",
        eager,
    ),
    Way(
        "pytorch_compiled",
        "PyTorch, compiled",
        "torch.compile turns forward, loss and backward into fewer kernels; the optimiser's step stays eager.",
        compiled,
    ),
    Way(
        "pytorch_graph",
        "PyTorch, CUDA graph",
        "All epochs of the eager training loop are captured once as a CUDA graph and replayed with a single launch.",
        eager,
        graph=True,
    ),
    Way(
        "pytorch_expert",
        "PyTorch, expert",
        "The gradient is written out without autograd and compiled, and all epochs are replayed as a CUDA graph.",
        closed_form,
        graph=True,
    ),
)


def parts_of_an_epoch(torch: Any, d: Descent) -> list[tuple[str, Callable[[], None]]]:
    """Returns the calls of an eager epoch, each with its own constant inputs."""
    mse_loss = torch.nn.functional.mse_loss
    # The prediction is a leaf, so that the loss records only its own graph.
    prediction = predict(d.x, d.w, d.b).detach().requires_grad_()
    loss = mse_loss(predict(d.x, d.w, d.b), d.y)
    # A rate of zero keeps the weights unchanged.
    optimizer = torch.optim.SGD([d.w, d.b], lr=0.0)

    def backward() -> None:
        loss.backward(retain_graph=True)
        # zero_grad(set_to_none=True) does the same: backward then stores the gradients instead of adding them.
        d.w.grad = d.b.grad = None

    def step() -> None:
        if d.w.grad is None:
            loss.backward(retain_graph=True)
        optimizer.step()

    return [
        ("forward", lambda: predict(d.x, d.w, d.b)),
        ("loss", lambda: mse_loss(prediction, d.y)),
        ("backward", backward),
        ("optimiser step", step),
    ]


# ---- the work and its reference --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Work:
    """The sizes of a problem."""

    points: int
    train_points: int
    features: int
    epochs: int
    learning_rate: float
    noise: float
    seed: int
    start: tuple[float, float] = (INITIAL_W, INITIAL_B)
    truth: tuple[float, float] = (TRUE_W, TRUE_B)
    range: tuple[float, float] = (X_MIN, X_MAX)

    @staticmethod
    def of(problem: Problem) -> Work:
        work = Work(
            points=problem.count("points", least=2),
            train_points=problem.count("train_points"),
            features=problem.count("features", default=1),
            epochs=problem.count("epochs"),
            learning_rate=problem.number("learning_rate"),
            noise=problem.number("noise"),
            seed=problem.count("seed", least=0),
            start=(problem.real("start_w", INITIAL_W), problem.real("start_b", INITIAL_B)),
            truth=(problem.real("true_w", TRUE_W), problem.real("true_b", TRUE_B)),
            range=(problem.real("x_min", X_MIN), problem.real("x_max", X_MAX)),
        )
        if work.train_points > work.points:
            raise wr.Refused(f"The problem `{problem.id}` trains on more points than it has.")
        return work


def f32(value: float) -> float:
    """Rounds to the nearest binary32 number."""
    try:
        return struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


def dot(a: list[float], b: list[float]) -> float:
    return sum(map(operator.mul, a, b))


def truth(features: int, w: float = TRUE_W) -> list[float]:
    """Returns the weights of the plane around which the points are drawn."""
    return [(-1) ** j * w / (1 + j) for j in range(features)]


@dataclass(frozen=True)
class Result:
    """The result of a descent."""

    w: list[float]
    b: float
    # Each loss is that of the weights with which its epoch began.
    losses: list[float]

    def values(self) -> list[float]:
        return [*self.w, self.b, *self.losses]


@dataclass(frozen=True)
class Moments:
    """Means and centred second moments of a set of points, in double precision.

    They are all that a descent on the mean squared error of a linear model needs to know of the points. With one
    feature they are the numbers of crates/warpbook-experiments/src/regression/reference.rs; with several, sxx is the Gram matrix.
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
        """Returns the mean of (X w + b - y)^2; NaN without points."""
        if self.n == 0:
            return math.nan
        mean_error = self.mean_error(w, b)
        quadratic = dot(w, [dot(row, w) for row in self.sxx])
        return (quadratic - 2 * dot(w, self.sxy) + self.syy) / self.n + mean_error * mean_error

    def gradient(self, w: list[float], b: float) -> tuple[list[float], float]:
        """Returns the derivatives of the loss with respect to w and b."""
        mean_error = self.mean_error(w, b)
        by_w = [
            2 * ((dot(row, w) - sxy) / self.n + mean_error * mean)
            for row, sxy, mean in zip(self.sxx, self.sxy, self.mean_x)
        ]
        return by_w, 2 * mean_error

    def descend(
        self, learning_rate: float, epochs: int, start: tuple[float, float] = (INITIAL_W, INITIAL_B)
    ) -> Result:
        """Runs `epochs` steps from weights that all begin with the same number; the loss is logged in every tenth."""
        # The ways begin with binary32 numbers, so the decimals are rounded first.
        w, b, rate = [f32(start[0])] * len(self.mean_x), f32(start[1]), f32(learning_rate)
        losses = []
        for epoch in range(1, epochs + 1):
            if epoch % LOG_EVERY == 0:
                losses.append(self.loss(w, b))
            by_w, by_b = self.gradient(w, b)
            w = [value - rate * step for value, step in zip(w, by_w)]
            b -= rate * by_b
        return Result(w, b, losses)


def tolerance(points: int, epochs: int) -> float:
    """Returns the bound that Tolerance::descent in crates/warpbook-kernels/src/tolerance.rs returns for f32."""
    depth = 256 + math.log2(max(points, 2))
    return EPSILON_F32 * 0.5 * (depth + epochs)


def compare(got: Result, want: Result, bound: float) -> Check:
    """Compares like Check::compare at a scale of 1: NaN fails, and so does a wrong number of losses."""
    pairs = list(zip(got.values(), want.values()))
    absolute = wr.worst(abs(g - w) for g, w in pairs)
    relative = wr.worst(abs(g - w) / max(abs(w), 1.0) for g, w in pairs)
    complete = len(got.w) == len(want.w) and len(got.losses) == len(want.losses)
    # `<=` and not `not >`: NaN must fail.
    return Check(REFERENCE, absolute, relative, bound, complete and relative <= bound)


def outcome(check: Check, result: Result, work: Work, train_loss: float) -> dict[str, str]:
    """Describes a completed descent, in the words of crates/warpbook-experiments/src/regression/mod.rs."""
    if all(map(math.isfinite, [*result.values(), train_loss])):
        return check.outcome()
    odd = (i for i, loss in enumerate(result.losses) if not math.isfinite(loss))
    at = next((LOG_EVERY * (i + 1) for i in odd), work.epochs)
    return wr.failed(
        f"the descent diverged: by epoch {at} the loss is no longer a finite number. "
        f"A smaller learning rate than {work.learning_rate} may help."
    )


# ---- a way on the points of a problem --------------------------------------------------------------------------------


class Descent:
    """A way that is ready to run: x is f32 [n][features] and y f32 [n], on its device."""

    def __init__(self, torch: Any, way: Way, x: Any, y: Any, work: Work):
        self.torch, self.y, self.features = torch, y, work.features
        # With one feature, x is a plain array.
        self.x = x[:, 0] if work.features == 1 else x
        self.total, self.learning_rate, self.start = work.epochs, work.learning_rate, work.start
        self.w = torch.nn.Parameter(torch.empty(work.features, device=x.device))
        self.b = torch.nn.Parameter(torch.empty(1, device=x.device))
        self.losses = torch.empty(work.epochs // LOG_EVERY, device=x.device)
        # The tensor is split once, so that the loop does not index it.
        self.slots = self.losses.unbind()
        self.stopwatch = wr.CudaStopwatch(torch) if x.is_cuda else wr.cpu_stopwatch
        self.epoch = way.build(torch, self)
        self.graph = wr.capture(torch, self.warm_up, self.epochs) if way.graph else None

    def warm_up(self) -> None:
        self.reset()
        # Runs up to the first logged epoch, so that the kernels that store the loss are loaded as well.
        self.epochs(min(LOG_EVERY, self.total))

    def epochs(self, count: int | None = None) -> None:
        for epoch in range(1, (count or self.total) + 1):
            self.epoch(self.slots[epoch // LOG_EVERY - 1] if epoch % LOG_EVERY == 0 else None)

    def queue(self) -> None:
        """Queues the whole descent."""
        self.graph.replay() if self.graph else self.epochs()

    def reset(self) -> None:
        """Resets the weights and overwrites the losses with NaN, so that old results cannot pass for new ones."""
        with self.torch.no_grad():
            self.w.fill_(self.start[0])
            self.b.fill_(self.start[1])
            self.losses.fill_(math.nan)

    def once(self) -> Result:
        self.reset()
        self.queue()
        return self.result()

    def timed(self, batch: int) -> tuple[float, float]:
        """Returns the microseconds of a descent, and again by the CPU's clock. `batch` is 1, because a descent has a setup."""
        self.reset()
        return self.stopwatch(self.queue, batch)

    def result(self) -> Result:
        """Returns the result of the last descent."""
        return Result(self.w.flatten().tolist(), self.b.item(), self.losses.tolist())

    def probe_s(self, epochs: int) -> float:
        """Returns the seconds of this many epochs."""
        self.reset()
        # The first epoch has cold caches and first allocations.
        self.epochs(1)
        us, _ = self.stopwatch(lambda: self.epochs(epochs))
        return us * 1e-6


def time_repeated(stopwatch: Callable[..., tuple[float, float]], call: Callable[[], None], bench: Bench) -> list[float]:
    """Times a short call back to back; returns microseconds per call."""

    def region() -> None:
        for _ in range(REPEATS):
            call()

    us, _ = bench.gpu(lambda batch: stopwatch(region, batch), may_repeat=True)
    return [v / REPEATS for v in us]


# ---- the ladder ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Prepared:
    """The points of one problem, and the descent that every way is compared with."""

    work: Work
    data: Any
    train: Moments
    test: Moments
    reference: Result


class Regression(wr.Ladder):
    experiment = "regression"
    script = "regression.py"
    description = __doc__
    ways = WAYS
    # Number of elements of X that are converted to double precision at a time.
    CHUNK = 1 << 24

    @staticmethod
    def add_options(parser: Any) -> None:
        parser.add_argument("--no-parts", action="store_true", help="leave out the timing of an epoch's parts")
        trace_help = "keep PyTorch's trace of five epochs of each way, for https://ui.perfetto.dev"
        parser.add_argument("--trace", type=Path, metavar="FILE", help=trace_help)

    @staticmethod
    def read(problem: Problem) -> Work:
        return Work.of(problem)

    def obstacle(self, way: Way, problem: Problem) -> str | None:
        if problem.dtype != "f32":
            return f"is written for f32, not for {problem.dtype}"
        if not way.on_gpu and self.read(problem).points > CPU_MAX_POINTS:
            return f"the CPU's way is left out above {CPU_MAX_POINTS // 10**6} M points, where it takes too long"
        return None

    def figure(self, problem: Problem, us: float) -> str:
        return f"{wr.short_time(us / self.read(problem).epochs)} per epoch"

    def prepare(self, problem: Problem) -> Prepared:
        work = self.read(problem)
        data = self.draw(work)
        # The reference is computed from the points that the ways read, not from those that were meant to be drawn.
        train, test = self.moments(data)
        return Prepared(work, data, train, test, train.descend(work.learning_rate, work.epochs, work.start))

    def measure_all(self, problem: Problem, prepared: Prepared, ways: list[Way]) -> None:
        for way in ways:
            stopped = self.guarded(lambda: self.measure(problem, way, prepared))
            if isinstance(stopped, wr.Stopped):
                self.finish(way, problem, stopped.outcome)
            self.guarded(self.release)

    def measure(self, problem: Problem, way: Way, p: Prepared) -> None:
        descent, bound = self.descent(way, p), tolerance(p.train.n, p.work.epochs)
        if way.on_gpu:
            first, last, samples = self.time_on_gpu(descent, p, bound)
        else:
            estimate = descent.probe_s(CPU_PROBE_EPOCHS) / CPU_PROBE_EPOCHS * p.work.epochs
            if estimate > CPU_MAX_SECONDS:
                limit = f"the CPU's way is left out above {CPU_MAX_SECONDS:.0f} s"
                raise wr.Unavailable(f"one descent would take about {estimate:.0f} s; {limit}")
            first, last, samples = self.time_on_cpu(descent)
        check = compare(first, p.reference, bound).worse(compare(last, p.reference, bound))
        train_loss, test_loss = p.train.loss(last.w, last.b), p.test.loss(last.w, last.b)
        losses = {LOG_EVERY * (i + 1): loss for i, loss in enumerate(last.losses)}
        names = ["w"] if p.work.features == 1 else [f"w{j}" for j in range(p.work.features)]
        parameters = dict(zip([*names, "b"], [*last.w, last.b]))
        final = {"train_loss": train_loss, "test_loss": test_loss}
        self.record["train_logs"].append(wr.train_log_record(way, problem, losses, parameters, **final))
        self.finish(way, problem, outcome(check, last, p.work, train_loss), samples, check)

    def time_on_gpu(self, descent: Descent, p: Prepared, bound: float) -> tuple[Result, Result, Samples]:
        # A way is checked before it is timed: timing a wrong way is useless.
        first = descent.once()
        if not compare(first, p.reference, bound).passed:
            return first, first, ([], [])
        samples = self.bench.gpu(descent.timed)
        return first, descent.result(), samples

    def time_on_cpu(self, descent: Descent) -> tuple[Result, Result, Samples]:
        # The first repetition is checked before the others are timed, so that a long one is not run twice.
        results: list[Result] = []

        def timed(batch: int) -> tuple[float, float]:
            times = descent.timed(batch)
            if not results:
                results.append(descent.result())
            return times

        samples = self.bench.cpu(timed)
        return results[0], descent.result(), samples

    def after(self, problem: Problem, prepared: Prepared) -> None:
        """Adds to the record the parts of the first shown problem, and writes PyTorch's trace if one is requested."""
        if self.settings.trace and problem == (self.settings.main_problem or self.settings.problems[0]):
            self.keep_trace(problem, prepared, self.settings.trace)
        way = next((way for way in self.settings.ways if way.id == "pytorch_eager"), None)
        if way is None or self.machine.obstacle(way) or self.interrupted:
            return
        if not self.settings.parts or problem != self.settings.main_problem:
            return
        timed = self.guarded(lambda: self.parts(way, prepared))
        if not isinstance(timed, wr.Stopped):
            self.record["parts"] += [wr.part_record(way, problem, name, us) for name, us in timed]
            parts = ", ".join(f"{name} {wr.short_time(wr.median(us))}" for name, us in timed)
            self.say(self.line(problem, "parts", parts))
        elif not self.interrupted:
            self.record["notes"].append(f"The parts of an epoch could not be timed: {timed.outcome.get('error')}")
        traced = self.guarded(lambda: self.trace(way, problem, prepared))
        if not isinstance(traced, wr.Stopped):
            self.record["spans"] += traced
            self.say(self.line(problem, "trace", f"{len(traced)} operators, kernels and copies of an epoch"))
        elif not self.interrupted:
            self.record["notes"].append(f"An epoch could not be traced: {traced.outcome.get('error')}")

    def keep_trace(self, problem: Problem, prepared: Prepared, path: Path) -> None:
        """Keeps the trace of the ways that were measured."""
        ways = [way for way, row in self.rows.items() if row["outcome"]["status"] == "measured"]
        kept = self.guarded(lambda: self.trace_of_ways(ways, prepared, path)) if ways else None
        if isinstance(kept, wr.Stopped):
            self.record["notes"].append(f"No trace could be kept: {kept.outcome.get('error') or kept.outcome.get('why')}")
            self.say(self.line(problem, "trace", self.record["notes"][-1]))
        elif ways:
            self.say(self.line(problem, "trace", f"{path}: {TRACED} epochs of each way; open it at https://ui.perfetto.dev"))

    # ---- what runs in PyTorch

    def draw(self, work: Work) -> SimpleNamespace:
        """Draws points in shuffled order, X f32 [n][d] and y f32 [n]; the first `train_points` are the training set."""
        torch, n, d, device = self.torch, work.points, work.features, self.device
        if device == "cpu" and n * (d + 1) * 4 > wr.memory_bytes() / 4 * 3 > 0:
            raise MemoryError(f"{n} points of {d} features do not fit into main memory")
        generator = torch.Generator(device=device).manual_seed(work.seed)
        if d == 1:
            order = torch.randperm(n, generator=generator, device=device)
            low, high = work.range
            # The largest float below the end keeps the interval half open after rounding.
            end = torch.nextafter(torch.tensor(high), torch.tensor(-math.inf)).item()
            x = (low + order.double() * ((high - low) / n)).float().clamp_(max=end)[:, None]
            y = x[:, 0] * work.truth[0] + work.truth[1]
        else:
            x = torch.randn((n, d), generator=generator, device=device)
            y = x @ torch.tensor(truth(d, work.truth[0]), dtype=torch.float32, device=device) + work.truth[1]
        y += work.noise * torch.randn(n, generator=generator, device=device)
        return SimpleNamespace(x=x, y=y, train=work.train_points)

    def moments(self, data: SimpleNamespace) -> tuple[Moments, Moments]:
        """Returns the moments of the training points and of the test points."""
        n = data.train
        return self.moments_of(data.x[:n], data.y[:n]), self.moments_of(data.x[n:], data.y[n:])

    def moments_of(self, x: Any, y: Any) -> Moments:
        """Computes moments in two passes in f64, the second about the means, so that nothing cancels."""
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

    def descent(self, way: Way, p: Prepared) -> Descent:
        """Returns a way on these points, compiled and captured."""
        device, train = self.device if way.on_gpu else "cpu", p.data.train
        return Descent(self.torch, way, p.data.x[:train].to(device), p.data.y[:train].to(device), p.work)

    def parts(self, way: Way, p: Prepared) -> list[tuple[str, list[float]]]:
        """Returns the microseconds of the parts of an eager epoch, by name."""
        eager_descent = self.descent(way, p)
        eager_descent.reset()
        calls = parts_of_an_epoch(self.torch, eager_descent)
        return [(name, time_repeated(eager_descent.stopwatch, call, self.bench)) for name, call in calls]

    def trace_of_ways(self, ways: list[Way], p: Prepared, path: Path) -> None:
        """Traces the ways. Each is warmed up first, so that the trace has no compilation or capture."""
        short = replace(p, work=replace(p.work, epochs=TRACED))
        descents = {way.id: self.descent(way, short) for way in ways}
        for descent in descents.values():
            descent.warm_up()
        wr.keep_trace(self.torch, path, {name: d.queue for name, d in descents.items()}, self.machine.gpu is not None)

    def trace(self, way: Way, problem: Problem, p: Prepared) -> list[dict[str, Any]]:
        """Returns PyTorch's own trace of an eager epoch that logs no loss. An earlier trace is dropped, because the first one is slower."""
        eager_descent = self.descent(way, p)
        eager_descent.warm_up()
        traces = [wr.trace_of(self.torch, lambda: eager_descent.epoch(None)) for _ in range(2)]
        return wr.span_records(way, problem, traces[-1])


if __name__ == "__main__":
    sys.exit(wr.main(Regression))
