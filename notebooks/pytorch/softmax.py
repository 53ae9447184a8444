#!/usr/bin/env python3
"""Times the row softmax of a Warpbook experiment named "softmax", with torch.softmax.

The work is y = exp(x - max of its row) / sum of those of its row, for x f32 [rows][columns]; the sizes are those of a
record of that experiment:

    python3 softmax.py --like ours.json --out pytorch.json
    warpbook merge ours.json pytorch.json --out both.json

The ways, in the ladder's order:

    torch_softmax           torch.softmax, called from Python
    torch_softmax_compiled  the same through torch.compile, which generates a kernel for this shape

x holds standard Gaussian numbers. The ways are timed in turn, a sample of each per round; a softmax shorter than the
policy's threshold is repeated within a sample.

Every element is compared with torch.softmax in float64, before the timed loop and after it, relative to itself. The
tolerance is that of a sum of `columns` positive terms in f32, whose roundings grow with the root of their number (see
Tolerance::product in crates/warpbook-kernels/src/tolerance.rs), and of 32 units more for x - max, exp and the division.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import warpbook_record as wr
from warpbook_record import Candidate, Check, Problem, Way


# ---- the ways: each builds a function that queues the softmax and returns its result ---------------------------------


def eager(torch: Any, x: Any) -> Callable[[], Any]:
    return lambda: torch.softmax(x, dim=1)


def compiled(torch: Any, x: Any) -> Callable[[], Any]:
    def softmax(x: Any) -> Any:
        return torch.softmax(x, dim=1)

    return wr.compile_now(torch, softmax, x)


WAYS = (
    Way("torch_softmax", "torch.softmax", "PyTorch's own kernel, launched from Python.", eager),
    Way(
        "torch_softmax_compiled",
        "torch.softmax, compiled",
        "torch.compile generates a Triton kernel for this shape.",
        compiled,
    ),
)


# ---- the work and its reference --------------------------------------------------------------------------------------

REFERENCE = "torch.softmax in f64, every element, relative to itself"
# Number of elements that are compared at a time.
PANEL_ELEMENTS = 1 << 24


@dataclass(frozen=True)
class Rows:
    """The sizes of x, f32 [rows][columns]."""

    rows: int
    columns: int
    seed: int

    @staticmethod
    def of(problem: Problem) -> Rows:
        return Rows(problem.count("rows"), problem.count("columns"), problem.count("seed", least=0, default=1))


def tolerance(columns: int) -> float:
    return (8 * math.sqrt(columns) + 32) * 2.0**-23


def judge(torch: Any, x: Any, results: list[Any]) -> list[Check]:
    """Compares every element of each result with the softmax in f64, some rows at a time."""
    bound, step = tolerance(x.shape[1]), max(1, PANEL_ELEMENTS // x.shape[1])
    # Largest error and largest relative error of each result.
    found = [torch.zeros(2, dtype=torch.float64, device=x.device) for _ in results]
    for i in range(0, x.shape[0], step):
        want = torch.softmax(x[i : i + step].double(), dim=1)
        for y, worst in zip(results, found):
            error = (y[i : i + step].double() - want).abs()
            # f32 numbers below the smallest normal number are spaced further apart, relative to their size. maximum keeps NaN.
            relative = error / want.clamp(min=2.0**-126)
            worst.copy_(torch.maximum(worst, torch.stack([error.max(), relative.max()])))
    # `<=` and not `not >`: NaN must fail.
    errors = (worst.tolist() for worst in found)
    return [Check(REFERENCE, absolute, relative, bound, relative <= bound) for absolute, relative in errors]


# ---- the ladder ------------------------------------------------------------------------------------------------------


class Softmax(wr.InTurn):
    experiment = "softmax"
    script = "softmax.py"
    description = __doc__
    ways = WAYS

    @staticmethod
    def read(problem: Problem) -> Rows:
        return Rows.of(problem)

    def obstacle(self, way: Way, problem: Problem) -> str | None:
        return None if problem.dtype == "f32" else f"is written for f32, not for {problem.dtype}"

    def figure(self, problem: Problem, us: float) -> str:
        p = self.read(problem)
        # Each element is read once and written once.
        return f"{2 * 4 * p.rows * p.columns / us * 1e-3:.4g} GB/s"

    def prepare(self, problem: Problem) -> Any:
        p = self.read(problem)
        generator = self.torch.Generator(device=self.device).manual_seed(p.seed)
        return self.torch.randn((p.rows, p.columns), generator=generator, device=self.device)

    def candidate(self, way: Way, prepared: Any) -> Candidate:
        return Candidate(self.torch, way, prepared)

    def judge(self, prepared: Any, results: list[Any]) -> list[Check]:
        return judge(self.torch, prepared, results)


if __name__ == "__main__":
    sys.exit(wr.main(Softmax))
