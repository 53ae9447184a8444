#!/usr/bin/env python3
"""Times the matrix products that Warpbook runs, with torch.matmul.

The work is C = op(A) op(B); shapes and types are those of a record that Warpbook wrote:

    warpbook run matmul --out ours.json
    python3 matmul.py --like ours.json --out pytorch.json
    warpbook merge ours.json pytorch.json --out both.json

    python3 matmul.py --like ours.json --out first.json --size "4096^3 bf16,1024^3" --ways torch_matmul    a first look

The ways, in the ladder's order:

    torch_matmul          torch.matmul, called from Python
    torch_matmul_graph    the same, captured in a CUDA graph and replayed
    torch_compile_matmul  through torch.compile (max-autotune-no-cudagraphs), called from Python; tuned for each shape,
                          which takes most of the script's time

A and B are standard Gaussian numbers, rounded to their type; C has that type too. tf32 multiplies f32 matrices on
tensor cores (torch.backends.cuda.matmul.allow_tf32), f32 does not, and partial sums of f16 and bf16 stay in f32.

The ways are timed in turn, a sample of each per round. A product shorter than the policy's threshold is repeated
within a sample: the graph holds that many products, the other ways are called that often from Python. Small products
called from Python therefore show what a call costs, not what the GPU needs.

Every element of C is compared with the product in float64 before the timed loop and after it. An error counts beyond
the rounding to C's type, relative to the sum of the magnitudes of the element's terms |A||B|, as Warpbook's own rungs
are judged.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import warpbook_record as wr
from warpbook_record import Candidate, Check, Problem, Way


# ---- the ways: each builds a function that queues the product and returns C ------------------------------------------


def eager(torch: Any, a: Any, b: Any) -> Callable[[], Any]:
    return lambda: torch.matmul(a, b)


def compiled(torch: Any, a: Any, b: Any) -> Callable[[], Any]:
    def product(a: Any, b: Any) -> Any:
        return torch.matmul(a, b)

    return wr.compile_now(torch, product, a, b, mode="max-autotune-no-cudagraphs")


WAYS = (
    Way("torch_matmul", "torch.matmul", "PyTorch picks a cuBLAS kernel; every product is launched from Python.", eager),
    Way(
        "torch_matmul_graph",
        "torch.matmul, CUDA graph",
        "The same product, captured once in a CUDA graph and replayed without Python.",
        eager,
        graph=True,
    ),
    Way(
        "torch_compile_matmul",
        "torch.compile, max-autotune",
        "torch.compile times Triton's kernels against cuBLAS's for this shape and keeps the fastest.",
        compiled,
    ),
)


# ---- the work and its reference --------------------------------------------------------------------------------------

# PyTorch's name of each type of A, B and C, and the distance from 1 to the next number of C's type.
TYPES = {
    "f32": ("float32", 2.0**-23),
    "tf32": ("float32", 2.0**-23),
    "f16": ("float16", 2.0**-10),
    "bf16": ("bfloat16", 2.0**-7),
}
REFERENCE = "the same product in f64 on the GPU, every element, beyond the rounding to C's type"
# Number of rows and columns of C that are computed in f64 at a time, and the limit on the elements of A's rows or B's columns.
PANEL, PANEL_ELEMENTS = 2048, 1 << 25


@dataclass(frozen=True)
class Product:
    """C = op(A) op(B): op(A) is m x k and op(B) k x n; a transposed A is stored k x m, a transposed B n x k."""

    m: int
    n: int
    k: int
    trans_a: bool
    trans_b: bool
    seed: int
    dtype: str

    @staticmethod
    def of(problem: Problem) -> Product:
        m, n, k = (problem.count(name) for name in ("m", "n", "k"))
        flags = problem.flag("trans_a"), problem.flag("trans_b")
        return Product(m, n, k, *flags, problem.count("seed", least=0, default=1), problem.dtype)


def tolerance(dtype: str, k: int) -> float:
    """Returns the bound that Tolerance::product in crates/warpbook-kernels/src/tolerance.rs returns."""
    root = math.sqrt(max(k, 1))
    of_factors = max(2.0**-8 / root, 2.0**-13) * 2 if dtype == "tf32" else 0.0
    return 8 * root * 2.0**-23 + of_factors


def spans(length: int, step: int) -> Iterator[slice]:
    return (slice(i, min(i + step, length)) for i in range(0, length, step))


def judge(torch: Any, a: Any, b: Any, dtype: str, results: list[Any]) -> list[Check]:
    """Compares every element of each C with op(A) op(B) in f64, by the rule of kernels/matmul/reference.cu.

    C is judged panel by panel, so that no f64 copy of a whole matrix is needed.
    """
    (m, k), n = a.shape, b.shape[1]
    half_epsilon, bound = TYPES[dtype][1] / 2, tolerance(dtype, k)
    # f16 numbers below the smallest normal number are spaced further apart, relative to their size.
    tiny = 1e-7 if dtype == "f16" else 1e-37
    step = max(1, min(PANEL, PANEL_ELEMENTS // k))
    # Largest error, largest relative error and number of wrong elements of each result.
    found = [torch.zeros(3, dtype=torch.float64, device=a.device) for _ in results]
    for rows in spans(m, step):
        wide_a = wide(torch, a[rows], dtype)
        for columns in spans(n, step):
            wide_b = wide(torch, b[:, columns], dtype)
            want, magnitude = wide_a @ wide_b, wide_a.abs() @ wide_b.abs()
            for c, worst in zip(results, found):
                error = (c[rows, columns].double() - want).abs()
                # clamp and maximum keep NaN, and NaN fails `<=`.
                beyond = (error - half_epsilon * want.abs()).clamp(min=0)
                right = beyond <= bound * magnitude + tiny
                relative = beyond / magnitude.clamp(min=1e-300)
                worst[:2] = torch.maximum(worst[:2], torch.stack([error.max(), relative.max()]))
                worst[2] += right.logical_not().sum()
    checks = []
    for absolute, relative, wrong in (worst.tolist() for worst in found):
        checks.append(Check(REFERENCE, absolute, relative, bound, wrong == 0 and relative <= bound))
    return checks


def wide(torch: Any, matrix: Any, dtype: str) -> Any:
    """Converts to f64. tf32 numbers first lose their last 13 bits, which tensor cores do not read."""
    if dtype == "tf32":
        matrix = (matrix.contiguous().view(torch.int32) & ~0x1FFF).view(torch.float32)
    return matrix.double()


# ---- the ladder ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Prepared:
    """The matrices op(A) and op(B), as views of their stored form."""

    a: Any
    b: Any
    dtype: str


class Matmul(wr.InTurn):
    experiment = "matmul"
    script = "matmul.py"
    description = __doc__
    ways = WAYS

    @staticmethod
    def read(problem: Problem) -> Product:
        return Product.of(problem)

    def obstacle(self, way: Way, problem: Problem) -> str | None:
        if problem.dtype not in TYPES:
            return f"multiplies {', '.join(TYPES)}, not {problem.dtype}"
        out, default = problem.size("out", default=problem.dtype), "f32" if problem.dtype == "tf32" else problem.dtype
        if out not in (default, problem.dtype):
            return f"torch.matmul writes C as {default}, not as {out}"
        return self.machine.lacks((8, 0)) if problem.dtype in ("tf32", "bf16") else None

    def figure(self, problem: Problem, us: float) -> str:
        p = self.read(problem)
        return f"{2 * p.m * p.n * p.k / us * 1e-6:.4g} TFLOP/s"

    def prepare(self, problem: Problem) -> Prepared:
        p, torch = self.read(problem), self.torch
        torch.backends.cuda.matmul.allow_tf32 = p.dtype == "tf32"
        generator = torch.Generator(device=self.device).manual_seed(p.seed)

        def draw(rows: int, columns: int, transposed: bool) -> Any:
            shape = (columns, rows) if transposed else (rows, columns)
            stored = torch.randn(shape, generator=generator, device=self.device)
            stored = stored.to(getattr(torch, TYPES[p.dtype][0]))
            return stored.T if transposed else stored

        return Prepared(draw(p.m, p.k, p.trans_a), draw(p.k, p.n, p.trans_b), p.dtype)

    def candidate(self, way: Way, prepared: Prepared) -> Candidate:
        return Candidate(self.torch, way, prepared.a, prepared.b)

    def judge(self, prepared: Prepared, results: list[Any]) -> list[Check]:
        return judge(self.torch, prepared.a, prepared.b, prepared.dtype, results)


if __name__ == "__main__":
    sys.exit(wr.main(Matmul))
