#!/usr/bin/env python3
"""Times the convolutions that Warpbook runs, with PyTorch, which calls cuDNN.

The work is one pass of a convolution without a bias: y of x and the weight, dx of dy and the weight, or dw of x and dy.
Layers, batches and types are those of a record that Warpbook wrote:

    warpbook run convolution --out ours.json
    python3 convolution.py --like ours.json --out pytorch.json
    warpbook merge ours.json pytorch.json --out both.json

The ways, in the ladder's order:

    torch_conv_nchw  torch.backends.cudnn.benchmark on: cuDNN's engines are timed for this shape and the fastest is kept;
                     captured in a CUDA graph and replayed; images and weights contiguous, channels first
    torch_conv_nhwc  the same with images and weights in memory format channels_last

Images, gradients and weights are standard Gaussian numbers, rounded to their type; results have that type too. tf32
multiplies f32 arrays on tensor cores (torch.backends.cudnn.allow_tf32), f32 does not. The ways are timed in turn, a
sample of each per round.

Every element is compared with the same pass in float64 before the timed loop and after it. An error counts beyond the
rounding to the result's type, relative to the sum of the magnitudes of the element's terms, as Warpbook's own rungs are
judged; cuDNN may have taken FFT or Winograd's algorithm, whose transforms round too, so the tolerance is 16 units of the
type larger than that of a sum of products.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import warpbook_record as wr
from matmul import TYPES, tolerance, wide
from warpbook_record import Candidate, Check, Problem, Way

FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT = "forward", "input-gradient", "weight-gradient"
PASSES = (FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT)


# ---- the ways: each builds a function that queues the pass and returns its result ------------------------------------


def in_format(torch: Any, work: Arrays, name: str) -> Callable[[], Any]:
    memory_format = getattr(torch, name)
    x, weight, dy = (v.contiguous(memory_format=memory_format) for v in (work.x, work.weight, work.dy))
    return lambda: apply(torch, work.of, x, weight, dy)


def channels_first(torch: Any, work: Arrays) -> Callable[[], Any]:
    return in_format(torch, work, "contiguous_format")


def channels_last(torch: Any, work: Arrays) -> Callable[[], Any]:
    return in_format(torch, work, "channels_last")


IDEA = "cuDNN's engines are timed for this shape, the fastest is captured in a CUDA graph; "
WAYS = (
    Way("torch_conv_nchw", "PyTorch, cuDNN, channels first", IDEA + "channels first.", channels_first, graph=True),
    Way("torch_conv_nhwc", "PyTorch, cuDNN, channels last", IDEA + "channels last.", channels_last, graph=True),
)


# ---- the work and its reference --------------------------------------------------------------------------------------

REFERENCE = "the same pass in f64 on the GPU, every element, beyond the rounding to its type"


@dataclass(frozen=True)
class Pass:
    """A pass of a convolution with square images, square windows and a stride of one pixel."""

    kind: str
    batch: int
    side: int
    channels: int
    filters: int
    kernel: int
    padding: int
    seed: int
    dtype: str

    @staticmethod
    def of(problem: Problem) -> Pass:
        sizes = (problem.count(name) for name in ("batch", "side", "channels", "filters", "kernel"))
        padding, seed = problem.count("padding", least=0), problem.count("seed", least=0, default=1)
        return Pass(problem.size("pass"), *sizes, padding, seed, problem.dtype)

    @property
    def out_side(self) -> int:
        return self.side + 2 * self.padding - self.kernel + 1

    @property
    def flops(self) -> int:
        return 2 * self.batch * self.out_side**2 * self.filters * self.kernel**2 * self.channels

    @property
    def terms(self) -> int:
        """Number of products that are summed for an element of the result."""
        taps = self.kernel**2
        terms = {FORWARD: taps * self.channels, INPUT_GRADIENT: taps * self.filters}
        return terms.get(self.kind, self.batch * self.out_side**2)


@dataclass(frozen=True)
class Arrays:
    """The arrays of a pass in PyTorch's shapes: x and dy [batch][channels][rows][columns], weight [filters][channels][..]."""

    of: Pass
    x: Any
    weight: Any
    dy: Any


def apply(torch: Any, of: Pass, x: Any, weight: Any, dy: Any) -> Any:
    if of.kind == FORWARD:
        return torch.nn.functional.conv2d(x, weight, padding=of.padding)
    pair, wanted = [of.padding] * 2, [of.kind == INPUT_GRADIENT, of.kind == WEIGHT_GRADIENT, False]
    given = torch.ops.aten.convolution_backward(dy, x, weight, None, [1, 1], pair, [1, 1], False, [0, 0], 1, wanted)
    return given[0] if of.kind == INPUT_GRADIENT else given[1]


def judge(torch: Any, work: Arrays, results: list[Any]) -> list[Check]:
    of, half_epsilon = work.of, TYPES[work.of.dtype][1] / 2
    bound = tolerance(of.dtype, of.terms) + 32 * half_epsilon
    # f16 numbers below the smallest normal number are spaced further apart, relative to their size.
    tiny = 1e-7 if of.dtype == "f16" else 1e-37
    x, weight, dy = (wide(torch, v, of.dtype) for v in (work.x, work.weight, work.dy))
    want, magnitude = apply(torch, of, x, weight, dy), apply(torch, of, x.abs(), weight.abs(), dy.abs())
    checks = []
    for result in results:
        error = (result.double() - want).abs()
        # clamp and max keep NaN, and NaN fails `<=`.
        beyond = (error - half_epsilon * want.abs()).clamp(min=0)
        wrong = int((beyond <= bound * magnitude + tiny).logical_not().sum())
        relative = float((beyond / magnitude.clamp(min=1e-300)).max())
        checks.append(Check(REFERENCE, float(error.max()), relative, bound, wrong == 0 and relative <= bound))
    return checks


# ---- the ladder ------------------------------------------------------------------------------------------------------


class Convolution(wr.InTurn):
    experiment = "convolution"
    script = "convolution.py"
    description = __doc__
    ways = WAYS

    @staticmethod
    def read(problem: Problem) -> Pass:
        return Pass.of(problem)

    def obstacle(self, way: Way, problem: Problem) -> str | None:
        if problem.dtype not in TYPES:
            return f"multiplies {', '.join(TYPES)}, not {problem.dtype}"
        if self.read(problem).kind not in PASSES:
            return f"knows the passes {', '.join(PASSES)}"
        return self.machine.lacks((8, 0)) if problem.dtype in ("tf32", "bf16") else None

    def figure(self, problem: Problem, us: float) -> str:
        return f"{self.read(problem).flops / us * 1e-6:.4g} TFLOP/s"

    def prepare(self, problem: Problem) -> Arrays:
        p, torch = self.read(problem), self.torch
        torch.backends.cudnn.benchmark = True
        torch.backends.cudnn.allow_tf32 = p.dtype == "tf32"
        generator = torch.Generator(device=self.device).manual_seed(p.seed)

        def draw(*shape: int) -> Any:
            return torch.randn(shape, generator=generator, device=self.device).to(getattr(torch, TYPES[p.dtype][0]))

        x, weight = draw(p.batch, p.channels, p.side, p.side), draw(p.filters, p.channels, p.kernel, p.kernel)
        return Arrays(p, x, weight, draw(p.batch, p.filters, p.out_side, p.out_side))

    def candidate(self, way: Way, prepared: Arrays) -> Candidate:
        return Candidate(self.torch, way, prepared)

    def judge(self, prepared: Arrays, results: list[Any]) -> list[Check]:
        return judge(self.torch, prepared, results)


if __name__ == "__main__":
    sys.exit(wr.main(Convolution))
