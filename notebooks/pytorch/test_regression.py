"""Tests of regression.py that need neither PyTorch nor a GPU: python3 -m unittest, in this folder."""

from __future__ import annotations

import gzip
import json
import math
import random
import sys
import unittest
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent))

import regression as r
import warpbook_record as wr
from testing import WITH_GPU, WITHOUT_GPU, InFolder, like, outcomes, problem, torch_or_skip


def work(points: int = 50, features: int = 1, short: str | None = None, **changed: Any) -> dict[str, Any]:
    """Returns a problem of the regression."""
    sizes = {"points": points, "train_points": points * 4 // 5, "features": features, "epochs": 200}
    sizes |= {"learning_rate": 0.01, "noise": 0.1, "seed": 1}
    dtype = changed.pop("dtype", "f32")
    return problem(short or f"{points} × {features}", dtype, **(sizes | changed))


def points(n: int, features: int, seed: int = 1) -> tuple[list[list[float]], list[float]]:
    """Returns rows of x in [0, 1) and y around a plane."""
    rng = random.Random(seed)
    x = [[rng.random() for _ in range(features)] for _ in range(n)]
    return x, [r.dot(r.truth(features), row) + 2 + 0.1 * rng.gauss(0, 1) for row in x]


def moments(x: list[list[float]], y: list[float]) -> r.Moments:
    n, d = len(x), len(x[0])
    mean_x, mean_y = [sum(row[j] for row in x) / n for j in range(d)], sum(y) / n
    dx = [[row[j] - mean_x[j] for j in range(d)] for row in x]
    dy = [v - mean_y for v in y]
    sxx = [[sum(row[i] * row[j] for row in dx) for j in range(d)] for i in range(d)]
    sxy = [sum(row[j] * e for row, e in zip(dx, dy)) for j in range(d)]
    return r.Moments(n, mean_x, mean_y, sxx, sxy, sum(e * e for e in dy))


def literal(x: list[list[float]], y: list[float], rate: float, epochs: int) -> r.Result:
    """Runs the descent literally by its formula, over every point in every epoch."""
    n, rate = len(x), r.f32(rate)
    w, b, losses = [r.f32(r.INITIAL_W)] * len(x[0]), r.f32(r.INITIAL_B), []
    for epoch in range(1, epochs + 1):
        errors = [r.dot(w, row) + b - v for row, v in zip(x, y)]
        if epoch % r.LOG_EVERY == 0:
            losses.append(sum(e * e for e in errors) / n)
        by_w = [2 / n * sum(e * row[j] for e, row in zip(errors, x)) for j in range(len(w))]
        w = [v - rate * g for v, g in zip(w, by_w)]
        b -= rate * 2 / n * sum(errors)
    return r.Result(w, b, losses)


class FakeDescent:
    """A fake descent that returns the reference's result plus an error, and takes a given time."""

    def __init__(self, result: r.Result, us: float = 5000.0, probe_s: float = 0.001):
        self.given, self.us, self.probe = result, us, probe_s

    def once(self) -> r.Result:
        return self.given

    def timed(self, batch: int) -> tuple[float, float]:
        assert batch == 1, "a region with a setup is not repeated within a sample"
        return self.us, self.us + 1

    def result(self) -> r.Result:
        return self.given

    def probe_s(self, epochs: int) -> float:
        return self.probe


class Fake(r.Regression):
    """The ladder without PyTorch: `behaviour` makes a way's descent from the reference's result."""

    def __init__(self, settings: wr.Settings, machine: wr.Machine, **behaviour):
        super().__init__(None, settings, machine, say=lambda line: self.lines.append(line))
        self.lines, self.drawn, self.released, self.behaviour = [], 0, 0, behaviour

    def draw(self, work: r.Work):
        self.drawn += 1
        return points(50, work.features, work.seed)

    def moments(self, data) -> tuple[r.Moments, r.Moments]:
        x, y = data
        return moments(x[:40], y[:40]), moments(x[40:], y[40:])

    def descent(self, way: wr.Way, p: r.Prepared) -> FakeDescent:
        return self.behaviour.get(way.short, FakeDescent)(p.reference)

    def parts(self, way: wr.Way, p: r.Prepared):
        return [(name, [1.5, 2.5]) for name in ("forward", "loss", "backward", "optimiser step")]

    def trace(self, way: wr.Way, problem: wr.Problem, p: r.Prepared):
        event = {"ph": "X", "name": "mul_kernel", "ts": 1.0, "dur": 2.0, "cat": "kernel", "args": {"stream": 7}}
        return wr.span_records(way, problem, [event])

    def trace_of_ways(self, ways: list[wr.Way], p: r.Prepared, path: Path) -> None:
        path.write_text(" ".join(way.short for way in ways), encoding="utf-8")

    def release(self) -> None:
        self.released += 1


class Problems(InFolder):
    def test_sizes_are_read_from_the_record(self):
        settings = self.settings(r.Regression, like("regression", [work(100, 16, noise=0)]))
        self.assertEqual(r.Work.of(settings.problems[0]), r.Work(100, 80, 16, 200, 0.01, 0.0, 1))
        without_features = work()
        without_features["sizes"] = [s for s in without_features["sizes"] if s["name"] != "features"]
        self.assertEqual(r.Work.of(wr.Problem(without_features)).features, 1)

    def test_start_line_and_range_are_those_of_the_record(self):
        usual = r.Work.of(wr.Problem(work()))
        self.assertEqual((usual.start, usual.truth, usual.range), ((0.83, 0.7645), (3.0, 2.0), (0.0, 10.0)))
        own = {"start_w": -1, "start_b": 0.5, "true_w": -2.0, "true_b": 7, "x_min": -5, "x_max": 5}
        other = r.Work.of(wr.Problem(work(**own)))
        self.assertEqual((other.start, other.truth, other.range), ((-1.0, 0.5), (-2.0, 7.0), (-5.0, 5.0)))
        self.assertEqual(r.truth(3, -2.0), [-2.0, 1.0, -2.0 / 3])
        # A descent of no epochs ends where it begins.
        x, y = points(9, 2)
        self.assertEqual(moments(x, y).descend(0.01, 0, other.start), r.Result([-1.0, -1.0], 0.5, []))

    def test_sizes_that_no_descent_has_are_refused(self):
        def refused(changed: dict[str, Any], expect: str):
            record = like("regression", [work(**changed)])
            self.refused(lambda: self.settings(r.Regression, record), expect)

        refused({"points": 1, "train_points": 1}, "has points 1; it must be a whole number of at least 2")
        refused({"train_points": 51}, "trains on more points than it has")
        refused({"train_points": 0}, "has train_points 0")
        refused({"epochs": 0}, "has epochs 0")
        refused({"learning_rate": "fast"}, "has learning_rate 'fast'")
        refused({"seed": -1}, "has seed -1")
        refused({"true_b": "high"}, "has true_b 'high'; it must be a number")

    def test_what_the_record_says_has_no_option(self):
        for option in "--points --also --sweep --features --epochs --lr --noise --seed --quick".split():
            arguments = self.arguments(like("regression", [work()]), option)
            self.refused(lambda: r.Regression.settings_of(arguments), option)


class Reference(unittest.TestCase):
    def test_moments_descend_as_the_formula_does(self):
        for n, features, epochs in ((1, 1, 10), (37, 1, 45), (300, 1, 200), (50, 3, 100), (5, 16, 30)):
            x, y = points(n, features, seed=n)
            got, want = moments(x, y).descend(0.01, epochs), literal(x, y, 0.01, epochs)
            self.assertEqual(len(got.losses), epochs // 10)
            self.assertEqual(len(want.losses), epochs // 10)
            for a, b in zip(got.values(), want.values()):
                self.assertAlmostEqual(a, b, delta=1e-9 * max(abs(b), 1), msg=f"{n} {features}")

    def test_it_is_the_minimum_that_is_descended_to(self):
        m = moments(*points(200, 2))
        far = m.descend(0.3, 5000)
        by_w, by_b = m.gradient(far.w, far.b)
        self.assertLess(max(map(abs, [*by_w, by_b])), 1e-9)

    def test_a_descent_may_diverge_without_an_exception(self):
        m = moments(*points(30, 1))
        self.assertFalse(math.isfinite(m.descend(1e30, 200).losses[-1]))

    def test_numbers_are_rounded_to_binary32(self):
        self.assertEqual((r.f32(0.01), r.f32(-1e300)), (0.009999999776482582, -math.inf))

    def test_the_loss_of_no_points_is_nan(self):
        self.assertTrue(math.isnan(r.Moments(0, [0.0], 0.0, [[0.0]], [0.0], 0.0).loss([1.0], 1.0)))

    def test_the_tolerance_is_warpbooks(self):
        # The values are those in the published record.
        self.assertEqual(r.tolerance(80_000, 200), 2.8150541328164904e-05)
        self.assertEqual(r.tolerance(0, 1), r.EPSILON_F32 * 0.5 * 258)

    def test_checks(self):
        def check(got: list[float], want: list[float], expect: bool):
            pair = [r.Result([v[0]], v[1], v[2:]) for v in (got, want)]
            self.assertEqual(r.compare(*pair, 1e-3).passed, expect, f"{got} {want}")

        check([1.0, 100.05], [1.0, 100.0], True)
        check([1e-3, 1.0], [0.0, 1.0], True)
        check([1.0, 1.01], [1.0, 1.0], False)
        check([math.nan, 1.0], [1.0, 1.0], False)
        check([1.0, 1.0], [1.0, math.nan], False)
        check([math.inf, 1.0], [math.inf, 1.0], False)
        check([1.0, 1.0, 0.5], [1.0, 1.0, 0.5, 0.4], False)


class Rows(InFolder):
    def run_fake(self, *arguments: str, problems=None, machine: wr.Machine = WITH_GPU, **behaviour):
        settings = self.settings(r.Regression, like("regression", problems or [work()]), *arguments)
        fake = Fake(settings, machine, **behaviour)
        record = fake.run()
        self.check_record(record)
        return fake, record

    def test_without_a_gpu_the_cpu_runs_and_the_others_say_why_not(self):
        fake, record = self.run_fake(machine=WITHOUT_GPU)
        self.assertEqual(len(fake.lines), 6, "one line per measurement")
        self.assertEqual(record["environment"]["device"]["kind"], "cpu")
        self.assertEqual(outcomes(record)["pytorch_cpu"], {"status": "measured"})
        for way in r.WAYS[1:]:
            self.assertIn("PyTorch finds no GPU here", outcomes(record)[way.id]["why"])
        self.assertEqual([log["rung"] for log in record["train_logs"]], ["pytorch_cpu"])
        self.assertEqual(record["parts"], [])

    def test_with_a_gpu_every_way_is_measured(self):
        fake, record = self.run_fake(problems=[work(), work(60, 2)])
        self.assertEqual([m["outcome"]["status"] for m in record["measurements"]], ["measured"] * 12)
        self.assertEqual(record["notes"], [])
        row = record["measurements"][2]
        self.assertEqual((row["rung"], row["samples_total"]), ("pytorch_eager", 5))
        self.assertEqual((row["samples_us"][0], row["wall_us"][0]), (5000.0, 5001.0))
        one, two = record["train_logs"][0], record["train_logs"][6]
        self.assertEqual((set(one["parameters"]), set(two["parameters"])), ({"w", "b"}, {"w0", "w1", "b"}))
        self.assertEqual([p["epoch"] for p in one["losses"]], list(range(10, 201, 10)))
        self.assertEqual([r["requires"] for r in record["rungs"]], ["nothing"] + [{"at_least": [7, 5]}] * 5)
        self.assertIn("pytorch_eager     5 ms (25 us per epoch, 5 samples)", fake.lines[2])
        self.assertGreater(fake.released, 12)

    def test_parts_are_timed_at_the_main_problem(self):
        problems = [work(100, short="100"), work(50, short="50")]
        of = lambda *arguments: self.run_fake(*arguments, problems=problems)[1]["parts"]
        parts = ("forward", "loss", "backward", "optimiser step")
        want = [("pytorch_eager", problems[0]["id"], "operation", name, [1.5, 2.5]) for name in parts]
        self.assertEqual([tuple(part.values()) for part in of()], want)
        self.assertEqual({part["problem"] for part in of("--size", "50")}, {problems[1]["id"]}, "or at the only one")
        self.assertEqual((of("--no-parts"), of("--ways", "graph")), ([], []))

    def test_an_epoch_is_traced_at_the_main_problem(self):
        problems = [work(100, short="100"), work(50, short="50")]
        of = lambda *arguments: self.run_fake(*arguments, problems=problems)[1]["spans"]
        want = ("pytorch_eager", problems[0]["id"], "mul_kernel", "0", 0.0, 2.0)
        self.assertEqual([tuple(span.values()) for span in of()], [want])
        self.assertEqual((of("--no-parts"), of("--ways", "graph")), ([], []))

    def test_a_trace_that_fails_is_a_note(self):
        fake = Fake(self.settings(r.Regression, like("regression", [work()])), WITH_GPU)
        fake.trace = lambda way, problem, prepared: 1 // 0
        record = fake.run()
        self.assertEqual(record["spans"], [])
        self.assertIn("could not be traced: ZeroDivisionError", record["notes"][0])

    def test_a_trace_is_kept_of_the_ways_that_ran(self):
        problems, path = [work(100, short="100"), work(50, short="50")], self.folder / "trace.json"

        def kept(*arguments: str, **more: Any) -> str:
            path.unlink(missing_ok=True)
            fake, record = self.run_fake("--trace", str(path), *arguments, problems=problems, **more)
            self.assertEqual(record["notes"], [])
            self.assertTrue(any("ui.perfetto.dev" in line for line in fake.lines))
            return path.read_text(encoding="utf-8")

        self.assertEqual(kept(), "cpu linear eager compiled graph expert")
        self.assertEqual(kept("--ways", "cpu,graph", "--no-parts"), "cpu graph")
        self.assertEqual(kept(machine=WITHOUT_GPU), "cpu")
        wrong = lambda result: FakeDescent(replace(result, b=result.b + 1e-3))
        self.assertEqual(kept("--ways", "eager,graph", eager=wrong), "graph")

    def test_a_trace_that_cannot_be_kept_is_a_note(self):
        fake = Fake(self.settings(r.Regression, like("regression", [work()]), "--trace", str(self.folder / "t.json")), WITH_GPU)
        fake.trace_of_ways = lambda ways, prepared, path: 1 // 0
        record = fake.run()
        self.assertIn("No trace could be kept: ZeroDivisionError", record["notes"][0])
        self.assertEqual(outcomes(record)["pytorch_graph"], {"status": "measured"})

    def test_a_trace_does_not_replace_a_record(self):
        record = like("regression", [work()])
        for name, expect in (("out.json", "would replace"), ("like.json", "would replace"), ("no/t.json", "no folder")):
            self.refused(lambda: self.settings(r.Regression, record, "--trace", str(self.folder / name)), expect)

    def test_parts_that_fail_are_a_note(self):
        settings = self.settings(r.Regression, like("regression", [work()]))
        fake = Fake(settings, WITH_GPU)
        fake.parts = lambda way, prepared: 1 // 0
        record = fake.run()
        self.assertEqual(record["parts"], [])
        self.assertIn("could not be timed: ZeroDivisionError", record["notes"][0])

    def test_a_wrong_result_is_a_failed_row_without_samples(self):
        _, record = self.run_fake(graph=lambda result: FakeDescent(replace(result, b=result.b + 1e-3)))
        row = next(m for m in record["measurements"] if m["rung"] == "pytorch_graph")
        self.assertIn("off the reference by", row["outcome"]["error"])
        self.assertEqual((row["samples_us"], row["check"]["passed"]), ([], False))
        self.assertEqual(outcomes(record)["pytorch_expert"], {"status": "measured"})

    def test_a_result_that_goes_wrong_while_it_is_timed_fails(self):
        class Spoilt(FakeDescent):
            def result(self) -> r.Result:
                return replace(self.given, b=math.nan)

        _, record = self.run_fake(eager=Spoilt)
        self.assertIn("diverged", outcomes(record)["pytorch_eager"]["error"])

    def test_a_divergence_says_so(self):
        _, record = self.run_fake("--ways", "eager", problems=[work(learning_rate=1e30)])
        self.assertIn("by epoch 10 the loss", outcomes(record)["pytorch_eager"]["error"])

    def test_the_cpu_is_left_out_where_it_would_take_long(self):
        slow = lambda result: FakeDescent(result, probe_s=2.0)
        _, record = self.run_fake("--ways", "cpu", cpu=slow)
        self.assertIn("would take about 200 s", outcomes(record)["pytorch_cpu"]["why"])
        fake, record = self.run_fake("--ways", "cpu", problems=[work(10_000_001)])
        self.assertIn("above 10 M points", outcomes(record)["pytorch_cpu"]["why"])
        self.assertEqual(fake.drawn, 0)

    def test_the_cpu_is_measured_up_to_10_m_points_with_and_without_a_gpu(self):
        # A descent takes ten seconds, which is longer than the time budget for the samples.
        slow = lambda result: FakeDescent(result, us=10e6, probe_s=0.1)
        for machine in (WITH_GPU, WITHOUT_GPU):
            problems = [work(100_000), work(10_000_000), work(50_000_000)]
            _, record = self.run_fake("--ways", "cpu", problems=problems, machine=machine, cpu=slow)
            rows = record["measurements"]
            self.assertEqual([row["outcome"]["status"] for row in rows], ["measured", "measured", "skipped"])
            self.assertEqual([row["samples_total"] for row in rows], [1, 1, 0])
            self.assertEqual([log["problem"] for log in record["train_logs"]], [p["id"] for p in problems[:2]])
            self.assertEqual(record["rungs"][0]["requires"], "nothing")

    def test_another_type_is_skipped(self):
        _, record = self.run_fake("--ways", "eager", problems=[work(dtype="f64")])
        self.assertEqual(outcomes(record)["pytorch_eager"]["why"], "is written for f32, not for f64")


class WithTorch(InFolder):
    """Tests that run on a CPU, if PyTorch is installed."""

    def ladder(self, torch: Any, problem: dict[str, Any]) -> tuple[r.Regression, wr.Problem]:
        settings = self.settings(r.Regression, like("regression", [problem]), "--ways", "cpu", "--samples", "2")
        return r.Regression(torch, settings, WITHOUT_GPU, say=lambda line: None), settings.problems[0]

    def test_torch_s_trace_has_the_epochs_of_each_way(self):
        torch = torch_or_skip(self)
        for name in ("trace.json", "trace.json.gz"):
            path = self.folder / name
            record = like("regression", [work(2000, epochs=40)])
            settings = self.settings(r.Regression, record, "--samples", "2", "--trace", str(path))
            kept = r.Regression(torch, settings, WITHOUT_GPU, say=lambda line: None).run()
            self.assertEqual(kept["notes"], [])
            raw = path.read_bytes()
            text = gzip.decompress(raw) if name.endswith("gz") else raw
            events = [e for e in json.loads(text)["traceEvents"] if e.get("ph") == "X"]
            names = [e["name"] for e in events]
            self.assertEqual(names.count("pytorch_cpu"), 1)
            self.assertEqual(names.count("Optimizer.step#SGD.step"), r.TRACED)
            self.assertEqual(names.count("aten::mse_loss"), r.TRACED, "and none of the warm-up")
            self.assertEqual([p.name for p in self.folder.iterdir() if "trace" in p.name and p != path], [] if name == "trace.json" else ["trace.json"])

    def test_torch_finds_the_same_moments(self):
        torch = torch_or_skip(self)
        for features in (1, 3):
            ladder, problem = self.ladder(torch, work(200, features, epochs=30))
            ladder.CHUNK = 64
            data = ladder.draw(r.Work.of(problem))
            x, y = data.x[:160].tolist(), data.y[:160].tolist()
            got, want = ladder.moments(data)[0].descend(0.01, 30), literal(x, y, 0.01, 30)
            for a, b in zip(got.values(), want.values()):
                self.assertAlmostEqual(a, b, delta=1e-9 * max(abs(b), 1))

    def test_every_way_descends_as_the_reference_does(self):
        torch = torch_or_skip(self)
        # There is no compiler, so the ways call the functions themselves.
        self.enterContext(mock.patch.object(torch, "compile", lambda function, **options: function))
        for features in (1, 3):
            ladder, problem = self.ladder(torch, work(2000, features, epochs=40))
            p = ladder.prepare(problem)
            for build in (r.linear, r.eager, r.compiled, r.closed_form):
                descent = r.Descent(torch, wr.Way("w", "w", "w", build), p.data.x[:1600], p.data.y[:1600], p.work)
                check = r.compare(descent.once(), p.reference, r.tolerance(1600, 40))
                self.assertTrue(check.passed, f"{build.__name__} {features}: {check}")


if __name__ == "__main__":
    unittest.main()
