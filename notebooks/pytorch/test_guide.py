"""Tests of guide.py that need no GPU, and PyTorch only where it is there: python3 -m unittest, in this folder."""

from __future__ import annotations

import contextlib
import io
import json
import math
import re
import sys
import unittest
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent))

import guide
import warpbook_record as wr
from testing import WITH_GPU, WITHOUT_GPU, InFolder, like, outcomes, problem, torch_or_skip

FOLDER = Path(__file__).resolve().parent
LESSONS = [FOLDER.parent / "01_memory_access.ipynb", *sorted(FOLDER.parent.glob("4[0-4]_*.ipynb"))]
CRATE = FOLDER.parents[1] / "crates/warpbook-experiments/src/guide"
# Small sizes of each pair: the swept size, and the amount of work.
SMALL = {
    "guide-made-on-device": (4096, 4096),
    "guide-copy-back": (10, 100),
    "guide-batches": (48, 100),
    "guide-pinned": (4, 1024),
    "guide-loader": (3, 3),
    "guide-allocation": (1000, 1000),
    "guide-fusion": (1024, 1024),
    "guide-jit-expression": (1024, 1024),
    "guide-small-network": (3, 2),
    "guide-layout": (1, 1),
    "guide-precision": (48, 48),
    "guide-checkpointing": (3, 8),
    "guide-accumulation": (2, 8),
}


def record_of(kind: type[guide.Pair], size: int | None = None, n: int | None = None, **more: Any) -> dict[str, Any]:
    sizes = dict(zip(("size", "n"), SMALL[kind.experiment])) | {k: v for k, v in (("size", size), ("n", n)) if v}
    return like(kind.experiment, [problem("s", "f32", **sizes)], **more)


class Graph:
    """A fake CUDA graph: it records PyTorch's calls on the CPU during the capture, and repeats them."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def replay(self) -> None:
        for function, arguments, options, outputs in self.calls:
            again = function(*arguments, **options)
            if not isinstance(again, tuple):
                again, outputs = (again,), (outputs,)
            for new, old in zip(again, outputs):
                if new is not old and not new._is_view():
                    old.copy_(new)


def recording(torch: Any) -> Any:
    from torch.utils._python_dispatch import TorchDispatchMode

    class Recording(TorchDispatchMode):
        def __init__(self, graph: Graph):
            super().__init__()
            self.graph = graph

        def __torch_dispatch__(self, function: Any, types: Any, arguments: Any = (), options: Any = None) -> Any:
            outputs = function(*arguments, **(options or {}))
            self.graph.calls.append((function, arguments, options or {}, outputs))
            return outputs

    return Recording


class Stopwatch:
    def __init__(self, torch: Any):
        pass

    def __call__(self, region: Any, batch: int) -> tuple[float, float]:
        return wr.cpu_stopwatch(region, batch)


def as_a_gpu(torch: Any) -> contextlib.ExitStack:
    """Pretends that the CPU is a GPU with 100 bytes in use before a way is built, and a peak of 1100 while it is timed."""
    stack = contextlib.ExitStack()
    cuda = {"synchronize": lambda: None, "reset_peak_memory_stats": lambda: None, "empty_cache": lambda: None}
    cuda |= {"memory_allocated": lambda: 100, "max_memory_allocated": lambda: 1100}
    stack.enter_context(mock.patch.multiple(torch.cuda, CUDAGraph=Graph, graph=recording(torch), **cuda))
    stack.enter_context(mock.patch.object(torch.Tensor, "pin_memory", lambda tensor: tensor.clone()))
    stack.enter_context(mock.patch.object(wr, "CudaStopwatch", Stopwatch))
    # There is no compiler, so the ways call the functions themselves.
    stack.enter_context(mock.patch.object(torch, "compile", lambda function, **options: function))
    stack.enter_context(warnings.catch_warnings())
    warnings.simplefilter("ignore")
    return stack


class Pairs(InFolder):
    def test_every_pair_is_here_or_left_out_with_a_reason(self):
        text = "".join(path.read_text(encoding="utf-8") for path in (CRATE / "pairs").glob("*.rs"))
        records = set(re.findall(r'record: "(guide-[a-z-]+)"', text))
        self.assertEqual(len(records), 23)
        here = {kind.experiment for kind in guide.PAIRS}
        self.assertEqual(here | {f"guide-{name}" for name in guide.LEFT_OUT}, records)
        self.assertEqual(len(guide.PAIRS) + len(guide.LEFT_OUT), len(records), "none is in both")
        for kind in guide.PAIRS:
            self.assertIn(f"    {kind.experiment.removeprefix('guide-')} ", guide.ABOUT)
            self.assertGreaterEqual(len(kind.ways), 2)

    def test_tolerances_are_the_pairs_own(self):
        text = "".join(path.read_text(encoding="utf-8") for path in (CRATE / "pairs").glob("*.rs"))
        found = dict(re.findall(r'record: "(guide-[a-z-]+)".*?tolerance: ([^\n]*),\n', text, re.DOTALL))
        for kind in guide.PAIRS:
            if kind is guide.Precision:
                continue
            value = eval(found[kind.experiment].replace("f32::EPSILON as f64", repr(guide.EPSILON_F32)))
            self.assertEqual(kind.tolerance, value, kind.experiment)

    def test_a_pair_that_pytorch_does_not_have_is_refused(self):
        for name, expect in [("coalescing", "inside of a kernel"), ("power", "the chip's power")]:
            arguments = self.arguments(like(f"guide-{name}", [problem("s", "f32", size=1, n=1)]))
            with contextlib.redirect_stderr(io.StringIO()) as said:
                self.assertEqual(guide.main(arguments), 2)
            self.assertIn(f"PyTorch cannot show both ways of the pair {name}: ", said.getvalue())
            self.assertIn(expect, said.getvalue())

    def test_records_of_anything_else_are_refused(self):
        for record, expect in [
            (like("softmax", [problem("s", "f32", size=1, n=1)]), "`warpbook run guide --pair NAME --out FILE`"),
            ("not JSON", "is not valid JSON"),
            ('["experiment"]', "not a Warpbook record"),
        ]:
            with contextlib.redirect_stderr(io.StringIO()) as said:
                self.assertEqual(guide.main(self.arguments(record)), 2)
            self.assertIn(expect, said.getvalue())
        self.refused(lambda: guide.Pair.settings_of([]), "--like")
        self.refused(lambda: self.settings(guide.Pinned, like("guide-pinned", [problem("s", "f32", size=4)])), "no size `n`")
        self.assertEqual(guide.Pinned.made_by(), "warpbook run guide --pair pinned")

    def test_what_is_recorded_over_time_only_is_left_out(self):
        record = record_of(guide.Allocation)
        record["problems"].append(problem("10000", "f32", matrix=10000))
        settings = self.settings(guide.Allocation, record)
        self.assertEqual([p.short for p in settings.problems], ["s"])
        record["problems"] = record["problems"][1:]
        self.refused(lambda: self.settings(guide.Allocation, record), "has no problem that this script times")

    def test_a_record_finds_its_pair(self):
        for kind in guide.PAIRS:
            self.assertIs(guide.pair_of(self.arguments(record_of(kind))), kind)

    def test_without_a_gpu_every_row_says_why(self):
        for kind in guide.PAIRS:
            settings = self.settings(kind, record_of(kind))
            record = kind(SimpleNamespace(_dynamo=SimpleNamespace(reset=lambda: None)), settings, WITHOUT_GPU, say=lambda line: None).run()
            self.check_record(record)
            self.assertEqual({"PyTorch finds no GPU here" in row["why"] for row in outcomes(record).values()}, {True})

    def test_tf32_and_bf16_need_a_gpu_that_has_them(self):
        settings = self.settings(guide.Precision, record_of(guide.Precision))
        turing = wr.Machine("2", WITH_GPU.gpu | {"compute_capability": [7, 5]})
        ladder = guide.Precision(None, settings, turing, say=lambda line: None)
        able = [way.short for way in guide.Precision.ways if ladder.obstacle(way, settings.problems[0]) is None]
        self.assertEqual(able, ["fp32", "fp16"])

    def test_the_progress_line_has_the_headline_s_figure(self):
        for headline, expect in (("throughput", "1 TFLOP/s"), ("time", "1000 GB/s")):
            record = record_of(guide.Precision, descriptor={"headline": headline})
            record["problems"][0] |= {"flops": 10**6, "bytes": 10**6}
            settings = self.settings(guide.Precision, record)
            ladder = guide.Precision(None, settings, WITH_GPU, say=lambda line: None)
            self.assertEqual(ladder.figure(settings.problems[0], 1.0), expect)


class Rows(InFolder):
    def ladder(self, kind: type[guide.Pair], **sizes: int) -> guide.Pair:
        settings = self.settings(kind, record_of(kind, **sizes), "--samples", "2", "--budget", "0.01")
        ladder = kind(torch_or_skip(self), settings, WITH_GPU, say=lambda line: None)
        ladder.device = "cpu"
        return ladder

    def test_every_way_is_measured_and_right(self):
        torch = torch_or_skip(self)
        for kind in guide.PAIRS:
            with self.subTest(kind.experiment), as_a_gpu(torch):
                record = self.ladder(kind).run()
                self.check_record(record)
                self.assertEqual(outcomes(record), {way.id: {"status": "measured"} for way in kind.ways})
                peaks = {row.get("peak_bytes") for row in record["measurements"]}
                self.assertEqual(peaks, {1000} if kind.counts_memory else {None})

    def test_every_size_of_the_sweep_is_taken(self):
        torch = torch_or_skip(self)
        for kind, sizes in [
            (guide.Checkpointing, [(1, 8), (2, 8), (8, 8)]),
            (guide.Accumulation, [(1, 8), (4, 8)]),
            (guide.InBatches, [(1, 9), (9, 9), (16, 9)]),
        ]:
            for size, n in sizes:
                with self.subTest(f"{kind.experiment} {size}"), as_a_gpu(torch):
                    statuses = {row["status"] for row in outcomes(self.ladder(kind, size=size, n=n).run()).values()}
                    self.assertEqual(statuses, {"measured"})

    def test_wrong_results_fail(self):
        torch = torch_or_skip(self)

        def off(build: Any, change: Any) -> Any:
            def wrong(torch: Any, d: Any) -> Any:
                run = build(torch, d)
                return lambda: change(run())

            return wrong

        def shifted(value: Any) -> Any:
            if isinstance(value, list):
                return [*value[:-1], value[-1] + 1.0]
            value = value.clone()
            value.view(-1)[0] += 1.0
            return value

        changes = {
            "shifted": shifted,
            "nan": lambda value: [v * math.nan for v in value] if isinstance(value, list) else value * math.nan,
            "short": lambda value: value[:-1],
        }
        for kind in guide.PAIRS:
            for name, change in changes.items():
                with self.subTest(f"{kind.experiment} {name}"), as_a_gpu(torch):
                    ways = tuple(wr.replace(way, build=off(way.build, change)) for way in kind.ways)
                    wrong = type(kind.__name__, (kind,), {"ways": ways})
                    record = self.ladder(wrong).run()
                    self.assertEqual({row["status"] for row in outcomes(record).values()}, {"failed"})
                    self.assertEqual({row["samples_total"] for row in record["measurements"]}, {0}, "not worth timing")

    def test_a_result_that_goes_wrong_while_it_is_timed_fails(self):
        torch = torch_or_skip(self)

        def spoilt(build: Any) -> Any:
            def wrong(torch: Any, d: Any) -> Any:
                run, calls = build(torch, d), []

                def once() -> Any:
                    calls.append(None)
                    value = run()
                    return value if len(calls) == 1 else [v.detach() * math.nan for v in value]

                return once

            return wrong

        for kind in (guide.Checkpointing, guide.InBatches):
            with as_a_gpu(torch):
                ways = tuple(wr.replace(way, build=spoilt(way.build)) for way in kind.ways)
                record = self.ladder(type(kind.__name__, (kind,), {"ways": ways})).run()
            self.assertEqual({row["status"] for row in outcomes(record).values()}, {"failed"})
            self.assertTrue(all("peak_bytes" not in row for row in record["measurements"]))

    def test_an_old_result_does_not_pass_for_a_new_one(self):
        torch = torch_or_skip(self)

        class Once(guide.Pinned):
            ways = (guide.way("stale", "", "", lambda torch, d: lambda y=d.x.clone(): y),)

        with as_a_gpu(torch):
            row = outcomes(self.ladder(Once).run())["pytorch_stale"]
        self.assertIn("off the reference by nan", row["error"])

    def test_numbers_are_those_of_warpbook(self):
        torch = torch_or_skip(self)
        golden, mask = 0x9E3779B97F4A7C15, (1 << 64) - 1
        words = [(i * golden & mask) for i in range(1000)]
        self.assertEqual(guide.numbers(torch, 1000, "cpu").tolist(), [(w >> 40) / 2**23 - 1 for w in words])
        self.assertEqual(guide.ternary(torch, 1000, "cpu").tolist(), [(w >> 40) % 3 - 1.0 for w in words])
        self.assertEqual(guide.pixels(torch, 7, 900).tolist(), [w >> 56 for w in words[7:907]])
        self.assertEqual(set(guide.small(torch, 1000, "cpu").tolist()), {0.0, 1.0, 2.0, 3.0})

    def test_types_and_bounds_of_the_product(self):
        torch = torch_or_skip(self)
        with as_a_gpu(torch):
            record = self.ladder(guide.Precision).run()
        self.assertEqual([row.get("dtype") for row in record["measurements"]], [None, "tf32", "f16", "bf16"])
        errors = [row["check"]["max_rel_error"] for row in record["measurements"]]
        bounds = [row["check"]["tolerance"] for row in record["measurements"]]
        # The bounds must not be so wide that another type's rounding would pass.
        self.assertLess(bounds[0], errors[2])
        self.assertLess(bounds[2], errors[3])
        self.assertEqual(torch.get_float32_matmul_precision(), "highest")
        self.assertEqual((guide.Precision.known(1), guide.Precision.known(3)), ([0], [0, 1, 2]))
        self.assertEqual((guide.Precision.known(4096)[0], guide.Precision.known(4096)[-1]), (0, 4095))

    def test_the_loader_s_order_is_the_same_for_every_way(self):
        ladder = self.ladder(guide.Loader)
        with as_a_gpu(ladder.torch):
            d = ladder.prepare(ladder.settings.problems[0])
            losses = [guide.flat(ladder.torch, way.build(ladder.torch, d)()) for way in guide.Loader.ways]
        self.assertEqual((len(d.order), sorted(ladder.torch.cat(d.order[:4]).tolist())), (16, list(range(12))))
        self.assertFalse(ladder.torch.equal(ladder.torch.cat(d.order[:4]), ladder.torch.cat(d.order[4:8])))
        for other in losses[1:]:
            self.assertTrue(ladder.torch.equal(losses[0], other))


def lines_of(text: str) -> list[str]:
    """Returns lines of code without indentation, types and comments."""
    stripped = (re.sub(r": Any\b| -> Any\b", "", line.strip()) for line in text.splitlines())
    return [line for line in stripped if line and not line.startswith("#")]


class Lessons(unittest.TestCase):
    """Lessons 01 and 40 to 44 show the lines of guide.py in which the ways of a pair differ."""

    def blocks(self) -> list[tuple[str, str]]:
        """Returns the section's text and the code of each Python block."""
        found = []
        for path in LESSONS:
            for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
                text = "".join(cell["source"]) if cell["cell_type"] == "markdown" else ""
                found += [(text, block) for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL)]
        return found

    def test_shown_lines_are_those_that_are_timed(self):
        self.assertEqual(len(LESSONS), 6)
        source = lines_of((FOLDER / "guide.py").read_text(encoding="utf-8"))
        for _, block in self.blocks():
            for part in re.split(r"\n\s*\n", block):
                lines = lines_of(part)
                self.assertTrue(lines)
                at = [i for i in range(len(source)) if source[i : i + len(lines)] == lines]
                self.assertTrue(at, f"not in guide.py, one after another: {lines}")

    def test_every_pair_shows_a_slow_and_a_fast_way(self):
        shown: dict[str, int] = {}
        for text, block in self.blocks():
            [name] = re.findall(r"--pair ([a-z-]+)", text)
            shown[name] = len(re.findall(r"^# ", block, re.MULTILINE))
            self.assertLessEqual(max(len(lines_of(part)) for part in re.split(r"\n\s*\n", block)), 8, name)
        self.assertEqual(set(shown), {kind.experiment.removeprefix("guide-") for kind in guide.PAIRS})
        self.assertGreaterEqual(min(shown.values()), 2, f"a comment says which way it is: {shown}")

    def test_blocks_are_python(self):
        for _, block in self.blocks():
            compile(block, "a lesson", "exec")


if __name__ == "__main__":
    unittest.main()
