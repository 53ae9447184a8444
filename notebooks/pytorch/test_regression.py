"""Tests of regression.py that need neither torch nor a GPU: python3 -m unittest, in this folder."""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import random
import sys
import tempfile
import unittest
from dataclasses import replace
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent))

import regression as r

SCHEMA_FILE = Path(__file__).resolve().parents[2] / "data/schema/run.v1.schema.json"
GPU = r.device_record(
    kind="cuda", index=0, name="NVIDIA Test", memory_bytes=1 << 36, multiprocessors=132, compute_capability=[9, 0]
)


def points(n: int, features: int, seed: int = 1) -> tuple[list[list[float]], list[float]]:
    """Rows of x in [0, 1) and y around a plane."""
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
    """The descent as the formula says it, over every point in every epoch."""
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
    """Gives the reference's own result, off by an error, in a time that it is told."""

    def __init__(self, result: r.Result, us: float, probe_s: float = 0.001):
        self.given, self.us, self.probe, self.runs = result, us, probe_s, 0

    def once(self) -> r.Result:
        self.runs += 1
        return self.given

    def timed(self, batch: int) -> tuple[float, float]:
        assert batch == 1, "a region with a setup is not repeated within a sample"
        self.runs += 1
        return self.us, self.us + 1

    def result(self) -> r.Result:
        return self.given

    def probe_s(self, epochs: int) -> float:
        return self.probe


class FakeBackend:
    """A stand-in for PyTorch: `behaviour` makes a way's descent out of the reference's result."""

    def __init__(self, gpu: dict | None = None, behaviour: dict | None = None):
        self.machine = r.Machine("2.11.0+cu130", gpu, "580.1" if gpu else None, "13.0" if gpu else None)
        self.behaviour, self.released, self.drawn = behaviour or {}, 0, 0

    def draw(self, problem: r.Problem):
        self.drawn += 1
        return points(50, problem.features, problem.seed)

    def moments(self, data) -> tuple[r.Moments, r.Moments]:
        x, y = data
        return moments(x[:40], y[:40]), moments(x[40:], y[40:])

    def descent(self, way: r.Way, data, problem: r.Problem) -> FakeDescent:
        result = self.moments(data)[0].descend(problem.learning_rate, problem.epochs)
        make = self.behaviour.get(way.id, lambda result: FakeDescent(result, 5000.0))
        return make(result)

    def parts(self, data, problem: r.Problem, bench: r.Bench):
        return [(name, [1.5, 2.5]) for name in ("forward", "loss", "backward", "optimiser step")]

    def release(self) -> None:
        self.released += 1


def run(backend: FakeBackend, arguments: str = "", lines: list[str] | None = None) -> dict:
    settings = r.settings_of(["--out", "fake.json", "--points", "50", *arguments.split()])
    return r.Experiment(settings, backend, say=(lines if lines is not None else []).append).run()


def outcomes(record: dict) -> dict[str, dict]:
    return {m["rung"]: m["outcome"] for m in record["measurements"]}


class Arguments(unittest.TestCase):
    def refused(self, arguments: str, expect: str):
        with self.subTest(arguments), self.assertRaises(r.Refused) as caught:
            r.settings_of(arguments.split())
        self.assertIn(expect, str(caught.exception))

    def test_bad_input_is_refused_with_a_sentence(self):
        self.refused("", "--out")
        self.refused("--out a.json --points abc", "`abc` is no count")
        self.refused("--out a.json --points -5", "`-5` is no count")
        self.refused("--out a.json --points 1.5", "no whole number")
        self.refused("--out a.json --points 5,", "is no count")
        self.refused("--out a.json --points 1", "1 points are too few")
        self.refused("--out a.json --points 2000G", "too many")
        self.refused("--out a.json --features 0", "0 features")
        self.refused("--out a.json --features 257", "257 features")
        self.refused("--out a.json --also 5000000", "POINTSxFEATURES")
        self.refused("--out a.json --also 1x16", "too few")
        self.refused("--out a.json --epochs 0", "choose from 1 to 10000")
        self.refused("--out a.json --epochs 10001", "choose from 1 to 10000")
        self.refused("--out a.json --lr fast", "`fast` is no number")
        self.refused("--out a.json --lr 0", "does not descend")
        self.refused("--out a.json --lr nan", "does not descend")
        self.refused("--out a.json --lr 1e39", "does not descend")
        self.refused("--out a.json --noise -1", "no standard deviation")
        self.refused("--out a.json --noise inf", "no standard deviation")
        self.refused(f"--out a.json --seed {1 << 64}", "64 bits")
        self.refused("--out a.json --ways eager,gpu", "There is no way `gpu`. The ways are cpu, eager")
        self.refused("--out a.json --ways ,", "No way was named")
        self.refused("--out a.json --sweep --points 100", "leave --points out")
        self.refused("--out a.json --sweep --quick", "leave --quick out")
        self.refused("--out a.json --colour red", "--colour")
        self.refused("--out /nowhere/at/all/a.json", "There is no folder /nowhere/at/all")
        self.refused("--out /tmp", "is a folder")

    def test_bad_input_ends_with_code_2(self):
        with contextlib.redirect_stderr(io.StringIO()) as said:
            self.assertEqual(r.main(["--out", "a.json", "--points", "1"]), 2)
        self.assertEqual(said.getvalue().count("\n"), 1)

    def test_without_torch_it_says_what_to_install(self):
        # None in sys.modules makes an import fail as that of a package that is not there.
        with mock.patch.dict(sys.modules, {"torch": None}), contextlib.redirect_stderr(io.StringIO()) as said:
            self.assertEqual(r.main(["--out", "a.json"]), 2)
        self.assertEqual(said.getvalue(), "PyTorch is not installed: pip install torch\n")

    def test_sizes(self):
        def check(arguments: str, expect: list[tuple[int, int]]):
            sizes = r.settings_of(f"--out a.json {arguments}".split()).sizes
            self.assertEqual(list(sizes), expect, arguments)

        check("", [(5_000_000, 1)])
        check("--points 100k,1.5M,5_000", [(100_000, 1), (1_500_000, 1), (5_000, 1)])
        check("--points 10,20,10 --also 10x1", [(10, 1), (20, 1)])
        check("--features 4 --points 10 --also 5Mx16 --also 20X1", [(10, 4), (5_000_000, 16), (20, 1)])
        check("--sweep --also 5000000x16", [(n, 1) for n in r.SWEEP_POINTS] + [(5_000_000, 16)])
        check("--quick", [(n, 1) for n in r.QUICK_POINTS])

    def test_ways_come_in_the_ladders_order(self):
        ways = r.settings_of("--out a.json --ways expert,pytorch_cpu,expert".split()).ways
        self.assertEqual([way.id for way in ways], ["pytorch_cpu", "pytorch_expert"])

    def test_the_command_repeats_the_settings(self):
        for arguments in (
            "--out a.json",
            "--out a.json --points 100k --also 5Mx16 --features 3 --lr 1e-5 --seed 9 --ways cpu,graph --no-parts",
            "--out a.json --quick --noise 0",
        ):
            settings = r.settings_of(arguments.split())
            self.assertEqual(r.settings_of(settings.command().split()[2:]), settings)

    def test_problems_are_those_of_our_records(self):
        problem = r.settings_of("--out a.json --lr .01 --noise 0.100000001".split()).problems()[0].record()
        ours = {
            "kind": "regression",
            "points": 5_000_000,
            "train_points": 4_000_000,
            "epochs": 200,
            "learning_rate": 0.01,
            "noise": 0.1,
            "seed": 1,
            "dtype": "f32",
            "features": 1,
        }
        self.assertEqual(problem, ours)
        for n, expect in ((2, 1), (5, 4), (9, 7), (1 << 40, 879_609_302_220)):
            self.assertEqual(r.train_points(n), expect)


class Numbers(unittest.TestCase):
    def test_decimals_are_the_shortest_of_their_binary32(self):
        for value in (0.01, 0.1, 0.83, 3.0, 1e-5, 0.0, 123456.7):
            self.assertEqual(r.decimal(r.f32(value)), value)
        self.assertEqual(r.f32(0.01), 0.009999999776482582)
        self.assertTrue(math.isnan(r.decimal(math.nan)))

    def test_what_json_lacks_is_text(self):
        numbers = [1.5, math.nan, math.inf, -math.inf]
        self.assertEqual(list(map(r.real, numbers)), [1.5, "NaN", "Infinity", "-Infinity"])

    def test_short_forms(self):
        self.assertEqual([r.short_count(n) for n in (7, 1_500, 5_000_000, 200_000_000)], ["7", "1.5 k", "5 M", "200 M"])
        self.assertEqual([r.short_time(t) for t in (5.25, 2300.0, 1.5e6)], ["5.25 us", "2.3 ms", "1.5 s"])

    def test_a_processor_is_named_as_ours_is(self):
        self.assertEqual(r.cpu_model("processor\t: 0\nmodel name\t: Intel(R) Xeon(R)\n"), "Intel(R) Xeon(R)")
        self.assertEqual(r.cpu_model("CPU implementer\t: 0x41\n"), "Arm CPU, implementer 0x41")
        self.assertEqual(r.cpu_model(""), "processor")


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
        x, y = points(200, 2)
        m = moments(x, y)
        far = m.descend(0.3, 5000)
        by_w, by_b = m.gradient(far.w, far.b)
        self.assertLess(max(map(abs, [*by_w, by_b])), 1e-9)

    def test_a_descent_may_diverge_without_an_exception(self):
        m = moments(*points(30, 1))
        self.assertFalse(math.isfinite(m.descend(1e30, 200).losses[-1]))

    def test_the_tolerance_is_ours(self):
        # As the published record has them.
        self.assertEqual(r.tolerance(80_000, 200), 2.8150541328164904e-05)
        self.assertEqual(r.tolerance(0, 1), r.EPSILON_F32 * 0.5 * 258)

    def test_checks(self):
        def check(got: list[float], want: list[float], expect: bool):
            pair = [r.Result([v[0]], v[1], v[2:]) for v in (got, want)]
            self.assertEqual(r.Check.of(*pair, 1e-3).passed, expect, f"{got} {want}")

        check([1.0, 100.05], [1.0, 100.0], True)
        check([1e-3, 1.0], [0.0, 1.0], True)
        check([1.0, 1.01], [1.0, 1.0], False)
        check([math.nan, 1.0], [1.0, 1.0], False)
        check([1.0, 1.0], [1.0, math.nan], False)
        check([math.inf, 1.0], [math.inf, 1.0], False)
        check([1.0, 1.0, 0.5], [1.0, 1.0, 0.5, 0.4], False)
        good, bad = r.Check(0.0, 1e-9, 1e-3, True), r.Check(math.nan, math.nan, 1e-3, False)
        for worse in (good.worse(bad), bad.worse(good)):
            self.assertFalse(worse.passed)
            self.assertTrue(math.isnan(worse.max_rel_error))

    def test_torch_finds_the_same_moments(self):
        try:
            import torch
        except Exception:  # Not there, or there without its libraries.
            self.skipTest("PyTorch is not installed")
        backend = r.TorchBackend(torch)
        backend.CHUNK = 64
        for features in (1, 3):
            data = backend.draw(r.Problem(200, 160, 30, 0.01, 0.1, 1, features))
            x, y = data.x[:160].tolist(), data.y[:160].tolist()
            got, want = backend.moments(data)[0].descend(0.01, 30), literal(x, y, 0.01, 30)
            for a, b in zip(got.values(), want.values()):
                self.assertAlmostEqual(a, b, delta=1e-9 * max(abs(b), 1))


class Timing(unittest.TestCase):
    def test_short_regions_are_repeated(self):
        for us, expect in ((100.0, 1), (50.0, 1), (10.0, 10), (0.0, 1000)):
            self.assertEqual(r.Bench().batch_for(us), expect)

    def test_warm_ups_samples_and_budget(self):
        batches = []
        once = lambda batch: (batches.append(batch), (10.0, 11.0))[1]
        us, wall_us = r.Bench().gpu(once)
        self.assertEqual((len(us), len(wall_us), batches), (25, 25, [1] * 28))
        batches.clear()
        self.assertEqual(r.Bench().gpu(once, may_repeat=True)[0], [10.0] * 25)
        self.assertEqual(batches, [1] * 3 + [10] * 25)
        self.assertEqual(len(r.Bench(budget_s=0.0).gpu(once)[0]), 1, "one is always taken")

    def test_a_long_region_of_the_processor_runs_once(self):
        once = lambda batch: (3e6, 3e6)
        self.assertEqual(r.Bench().cpu(once), ([3e6], [3e6]))


class Record(unittest.TestCase):
    def validate(self, record: dict):
        text = json.dumps(record, allow_nan=False)
        schema = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
        try:
            import jsonschema
        except ImportError:
            self.has_required(json.loads(text), schema, schema)
        else:
            jsonschema.Draft202012Validator(schema).validate(json.loads(text))

    def has_required(self, value, schema: dict, root: dict, path: str = "run"):
        """Required keys and plain types, for where there is no jsonschema."""
        if "$ref" in schema:
            schema = root["$defs"][schema["$ref"].rpartition("/")[2]]
        kinds = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}
        if isinstance(kind := schema.get("type"), str) and kind in kinds:
            self.assertIsInstance(value, kinds[kind], path)
        if isinstance(value, dict):
            for key in schema.get("required", []):
                self.assertIn(key, value, path)
            for key, of in schema.get("properties", {}).items():
                if key in value:
                    self.has_required(value[key], of, root, f"{path}.{key}")
        if isinstance(value, list) and isinstance(schema.get("items"), dict):
            for item in value:
                self.has_required(item, schema["items"], root, f"{path}[]")

    def test_without_a_gpu_the_processor_runs_and_the_others_say_why_not(self):
        lines: list[str] = []
        record = run(FakeBackend(), lines=lines)
        self.validate(record)
        self.assertEqual(len(lines), 5, "one line a measurement")
        self.assertEqual(record["policy"]["timed_by"], "wall_clock")
        self.assertEqual(record["environment"]["device"]["kind"], "cpu")
        self.assertEqual(outcomes(record)["pytorch_cpu"], {"status": "measured"})
        for way in r.WAYS[1:]:
            self.assertIn("PyTorch finds no GPU here", outcomes(record)[way.id]["why"])
        self.assertEqual([log["rung"] for log in record["train_logs"]], ["pytorch_cpu"])
        self.assertEqual(record["spans"], [])

    def test_without_any_row_that_runs_no_points_are_drawn(self):
        backend = FakeBackend()
        record = run(backend, "--ways eager,expert")
        self.validate(record)
        self.assertEqual((backend.drawn, record["train_logs"]), (0, []))
        self.assertEqual({o["status"] for o in outcomes(record).values()}, {"skipped"})

    def test_with_a_gpu_every_way_is_measured(self):
        backend = FakeBackend(GPU)
        record = run(backend, "--also 60x2")
        self.validate(record)
        self.assertEqual([o["status"] for o in outcomes(record).values()], ["measured"] * 5)
        self.assertEqual(len(record["measurements"]), 10)
        self.assertEqual(record["notes"], [])
        self.assertEqual(record["peaks"], {"bandwidth": [], "compute": []})
        self.assertEqual(record["environment"]["libraries"], [["PyTorch", "2.11.0+cu130"]])
        row = record["measurements"][1]
        self.assertEqual((row["rung"], row["samples_total"], len(row["samples_us"])), ("pytorch_eager", 25, 25))
        self.assertEqual((row["samples_us"][0], row["wall_us"][0]), (5000.0, 5001.0))
        self.assertTrue(row["check"]["passed"])
        self.assertEqual(record["rungs"][0]["requires"], "nothing")
        self.assertEqual(record["rungs"][1]["requires"], {"at_least": [7, 5]})
        self.assertEqual(record["rungs"][1]["runner"], {"external": "PyTorch 2.11.0"})
        one, two = record["train_logs"][0], record["train_logs"][5]
        self.assertEqual((set(one["parameters"]), set(two["parameters"])), ({"w", "b"}, {"w0", "w1", "b"}))
        self.assertEqual([p["epoch"] for p in one["losses"]], list(range(10, 201, 10)))
        self.assertGreater(backend.released, 10)

    def test_parts_are_timed_at_the_only_size(self):
        record = run(FakeBackend(GPU))
        self.validate(record)
        names = [(s["rung"], s["group"], s["name"]) for s in record["spans"]]
        parts = ("forward", "loss", "backward", "optimiser step")
        self.assertEqual(names, [("pytorch_eager", "operation", name) for name in parts])
        for arguments in ("--no-parts", "--also 60x2", "--ways graph"):
            self.assertEqual(run(FakeBackend(GPU), arguments)["spans"], [], arguments)

    def test_the_inputs_text_is_that_of_our_records(self):
        ours = "x evenly spaced on [0, 10) in shuffled order, y = 3 x + 2 + Gaussian noise (Philox)"
        self.assertEqual(run(FakeBackend(), "--also 60x2")["policy"]["inputs"], ours)
        self.assertNotEqual(run(FakeBackend(), "--features 2")["policy"]["inputs"], ours)

    def test_a_wrong_result_is_a_failed_row_without_samples(self):
        off = lambda result: FakeDescent(replace(result, b=result.b + 1e-3), 5000.0)
        record = run(FakeBackend(GPU, {"pytorch_graph": off}))
        self.validate(record)
        row = next(m for m in record["measurements"] if m["rung"] == "pytorch_graph")
        self.assertIn("off the reference by", row["outcome"]["error"])
        self.assertEqual((row["samples_us"], row["check"]["passed"]), ([], False))
        self.assertEqual(outcomes(record)["pytorch_expert"], {"status": "measured"})

    def test_a_result_that_goes_wrong_while_it_is_timed_fails(self):
        class Spoilt(FakeDescent):
            def result(self) -> r.Result:
                return replace(self.given, b=math.nan)

        record = run(FakeBackend(GPU, {"pytorch_eager": lambda result: Spoilt(result, 5000.0)}))
        self.validate(record)
        self.assertIn("diverged", outcomes(record)["pytorch_eager"]["error"])

    def test_a_divergence_says_so(self):
        record = run(FakeBackend(GPU), "--lr 1e30 --ways eager")
        self.validate(record)
        self.assertIn("by epoch 10 the loss", outcomes(record)["pytorch_eager"]["error"])

    def test_an_error_is_a_row_and_the_rest_goes_on(self):
        def out_of_memory(result: r.Result):
            raise MemoryError("CUDA out of memory. Tried to allocate 20 GiB.\nSee the documentation.")

        record = run(FakeBackend(GPU, {"pytorch_eager": out_of_memory}))
        self.validate(record)
        error = outcomes(record)["pytorch_eager"]["error"]
        self.assertEqual(error, "MemoryError: CUDA out of memory. Tried to allocate 20 GiB.")
        self.assertEqual(outcomes(record)["pytorch_expert"], {"status": "measured"})

    def test_an_interrupt_keeps_what_is_finished(self):
        def interrupt(result: r.Result):
            raise KeyboardInterrupt

        record = run(FakeBackend(GPU, {"pytorch_compiled": interrupt}), "--also 60x2")
        self.validate(record)
        rows = [m["outcome"].get("why", "measured") for m in record["measurements"]]
        self.assertEqual(rows, ["measured"] * 2 + ["interrupted"] + ["interrupted before it began"] * 7)
        self.assertEqual(record["notes"], ["Interrupted after 2 of 10 measurements."])

    def test_the_processor_is_left_out_where_it_would_take_long(self):
        slow = lambda result: FakeDescent(result, 5000.0, probe_s=0.5)
        record = run(FakeBackend(None, {"pytorch_cpu": slow}), "--ways cpu")
        self.assertIn("would take about 50 s", outcomes(record)["pytorch_cpu"]["why"])
        large = r.settings_of("--out fake.json --points 50M --ways cpu".split())
        record = r.Experiment(large, FakeBackend(), say=lambda line: None).run()
        self.assertIn("above 10 M points", outcomes(record)["pytorch_cpu"]["why"])

    def test_an_old_gpu_is_named(self):
        record = run(FakeBackend(GPU | {"compute_capability": [7, 0]}), "--ways eager")
        why = outcomes(record)["pytorch_eager"]["why"]
        self.assertEqual(why, "needs a GPU of compute capability 7.5 or later; NVIDIA Test has 7.0")

    def test_first_lines(self):
        check = lambda text, expect: self.assertEqual(r.first_line(RuntimeError(text)), expect)
        check("inductor raised:\nNoTriton: none\n\nmore", "RuntimeError: inductor raised: NoTriton: none")
        check("\n  one\ntwo", "RuntimeError: one")
        check("", "RuntimeError")


class Files(unittest.TestCase):
    def test_a_record_is_written_under_another_name_and_renamed(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "a.json"
            path.write_text("old", encoding="utf-8")
            seen = []

            def rename(part, to, rename=os.replace):
                seen.append((path.read_text(encoding="utf-8"), json.loads(Path(part).read_text(encoding="utf-8"))))
                rename(part, to)

            with mock.patch("os.replace", rename):
                r.write_record(path, {"schema": 1})
            self.assertEqual(seen, [("old", {"schema": 1})], "whole before it takes the name")
            self.assertEqual(path.read_text(encoding="utf-8"), '{\n  "schema": 1\n}\n')
            self.assertEqual(os.listdir(folder), ["a.json"])

    def test_a_failure_leaves_the_old_record_and_nothing_beside_it(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "a.json"
            path.write_text("old", encoding="utf-8")
            with self.assertRaises(ValueError):
                r.write_record(path, {"schema": math.nan})
            with mock.patch("os.replace", side_effect=OSError("no space")), self.assertRaises(r.Refused):
                r.keep(path, {"schema": 1})
            self.assertEqual((path.read_text(encoding="utf-8"), os.listdir(folder)), ("old", ["a.json"]))


if __name__ == "__main__":
    unittest.main()
