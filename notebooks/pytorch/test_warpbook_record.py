"""Tests of what the scripts share; they need neither PyTorch nor a GPU: python3 -m unittest, in this folder."""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import sys
import unittest
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent))

import warpbook_record as wr
from testing import GPU, WITH_GPU, WITHOUT_GPU, InFolder, check, like, outcomes, problem

SIZES = [problem("100 k", "f32", n=100_000), problem("5 M × 16", "f32", n=5_000_000), problem("4096³", "bf16", n=4096)]
CPU = wr.device_record(kind="cpu", index=0, name="A CPU", memory_bytes=1, multiprocessors=1)


class FakeCandidate:
    """A fake candidate that takes a given time; its result is its error."""

    def __init__(self, log: list[tuple[str, int]], way: str, us: float, errors: list[float]):
        self.log, self.way, self.us, self.errors = log, way, us, errors

    def once(self) -> float:
        return self.errors.pop(0)

    def timed(self, batch: int) -> tuple[float, float]:
        self.log.append((self.way, batch))
        return self.us, self.us + 1


class Toy(wr.InTurn):
    """A ladder of three ways; `behaviour` replaces some of their candidates."""

    experiment, script, description = "toy", "toy.py", "A toy."
    ways = (
        wr.Way("pytorch_a", "A", "The first.", lambda: None, on_gpu=False),
        wr.Way("pytorch_b", "B", "The second.", lambda: None),
        wr.Way("pytorch_c", "C", "The third.", lambda: None, graph=True),
    )

    behaviour: dict[str, Callable[[Toy], FakeCandidate]] = {}

    def __init__(self, torch, settings, machine, **outputs):
        super().__init__(torch, settings, machine, **({"say": lambda line: self.lines.append(line)} | outputs))
        self.lines, self.log, self.prepared, self.released = [], [], 0, 0

    @staticmethod
    def read(problem: wr.Problem) -> int:
        return problem.count("n")

    def prepare(self, problem: wr.Problem) -> str:
        self.prepared += 1
        return "inputs"

    def candidate(self, way: wr.Way, prepared: str) -> FakeCandidate:
        return self.behaviour.get(way.short, lambda toy: toy.give(way.short))(self)

    def give(self, way: str, us: float = 100.0, errors: tuple[float, ...] = (1e-4, 2e-4)) -> FakeCandidate:
        return FakeCandidate(self.log, way, us, list(errors))

    def judge(self, prepared: str, results: list[float]) -> list[wr.Check]:
        return [check(error) for error in results]

    def figure(self, problem: wr.Problem, us: float) -> str:
        return f"{us / 10:g} per thing"

    def release(self) -> None:
        self.released += 1


class LikeRecord(InFolder):
    def test_what_is_no_record_of_the_experiment_is_refused(self):
        def refused(record, expect: str):
            path = self.write(record)
            self.refused(lambda: wr.read_like(path, "toy"), expect)

        good = like("toy", SIZES)
        self.assertEqual(wr.read_like(self.write(good), "toy"), good)
        # Older records have a sentence alone, and those of two days a list in its place.
        inputs = ("inputs", "inputs_by_work")
        other = {key: value for key, value in good["policy"].items() if key not in inputs}
        for older in (good["policy"][key] for key in inputs):
            record = good | {"policy": other | {"inputs": older}}
            self.assertEqual(wr.read_like(self.write(record), "toy"), record)
        self.refused(lambda: wr.read_like(self.folder / "none.json", "toy"), "could not be read")
        self.refused(lambda: wr.read_like(self.folder, "toy"), "could not be read")
        refused("", "is not valid JSON")
        refused('{"schema": 2, "title": NaN}', "it contains NaN")
        refused("[" * 100_000, "is not valid JSON")
        refused("[]", "`schema` is missing")
        refused({"schema": "2"}, "`schema` is missing or wrong")
        refused({"schema": True}, "`schema` is missing or wrong")
        again = "Run the experiment again with the current warpbook, `warpbook run toy --out FILE`"
        refused({"schema": 1, "experiment": "toy"}, f"has format 1, but this script reads format 2. {again}")
        refused({"schema": 3}, "use the script of that version of Warpbook")
        refused(like("matmul", SIZES), "is a record of matmul; this script needs one of toy")
        refused(good | {"problems": None}, "`problems` is missing")
        refused(good | {"problems": []}, "has no problems")
        refused(good | {"problems": [SIZES[0] | {"id": 7}]}, "`id` is missing or wrong")
        refused(good | {"problems": [SIZES[0] | {"sizes": [{"value": 7}]}]}, "`name` is missing")
        refused(good | {"policy": good["policy"] | {"samples": "many"}}, "`policy.samples` is missing or wrong")
        refused(good | {"policy": good["policy"] | {"inputs": None}}, "`policy.inputs` is missing or wrong")
        refused(good | {"policy": good["policy"] | {"l2": "cold"}}, "was timed with a cold L2")
        refused(good | {"environment": {}}, "`environment.device.kind` is missing")
        path = self.folder / "latin.json"
        path.write_bytes(b'{"schema": 2, "title": "\xe4"}')
        self.refused(lambda: wr.read_like(path, "toy"), "is not UTF-8")

    def test_sizes_are_read_by_name(self):
        p = wr.Problem(problem("s", "f32", n=5, rate=0.01, zero=0, t="yes", odd="NaN", real=5.0, on=True, off="false"))
        self.assertEqual((p.count("n"), p.count("zero", least=0), p.count("none", default=3)), (5, 0, 3))
        self.assertEqual((p.number("rate"), p.number("n")), (0.01, 5.0))
        self.assertEqual([p.flag(name) for name in ("t", "on", "zero", "off", "none")], [True] * 2 + [False] * 3)
        self.refused(lambda: p.size("none"), "has no size `none`")
        self.refused(lambda: p.count("zero"), "has zero 0; it must be a whole number of at least 1")
        self.refused(lambda: p.count("real"), "whole number")
        self.refused(lambda: p.count("on"), "whole number")
        self.refused(lambda: p.number("odd"), "has odd 'NaN'; it must be a number of at least 0")
        self.refused(lambda: p.flag("n"), "it must be 1 or 0")


class Arguments(InFolder):
    def test_bad_arguments_are_refused_with_a_sentence(self):
        def refused(arguments: str, expect: str):
            self.refused(lambda: self.settings(Toy, like("toy", SIZES), *arguments.split()), expect)

        self.refused(lambda: Toy.settings_of([]), "--like, --out")
        files = lambda like, out: lambda: Toy.settings_of(["--like", str(like), "--out", str(out)])
        self.refused(files("a.json", "/nowhere/at/all/a.json"), "There is no folder /nowhere/at/all")
        self.refused(files("a.json", self.folder), "is not a file")
        path = self.write(like("toy", SIZES))
        self.refused(files(path, path), "would replace the record")
        refused("--colour red", "--colour")
        refused("--way b", "--way")
        refused("--ways b,gpu", "`gpu` is not a way. The ways are: a, b, c")
        refused("--ways ,", "No way was named")
        refused("--size 7k", "no size `7k`. Its sizes are: 100 k, 5 M × 16, 4096³")
        refused("--size ,", "No size was named")
        refused("--samples 0", "`0` samples: choose a whole number of at least 1")
        refused("--samples few", "`few` samples")
        refused("--budget -1", "A budget of `-1`: choose a number of seconds")
        refused("--budget nan", "A budget of `nan`")
        wrong = [problem("s", "f32", m=5)]
        self.refused(lambda: self.settings(Toy, like("toy", wrong)), "has no size `n`")

    def test_sizes_are_chosen_by_their_short_form(self):
        def chosen(text: str) -> list[str]:
            return [p.short for p in self.settings(Toy, like("toy", SIZES), "--size", text).problems]

        self.assertEqual(chosen("100k"), ["100 k"])
        self.assertEqual(chosen("5mX16, 100 K"), ["100 k", "5 M × 16"], "in the record's order")
        self.assertEqual(chosen("5 M × 16"), ["5 M × 16"])
        self.assertEqual(chosen("4096^3"), ["4096³"])
        self.assertEqual(chosen("4096³ bf16"), ["4096³"])

    def test_ways_come_in_the_ladders_order(self):
        ways = self.settings(Toy, like("toy", SIZES), "--ways", "c,pytorch_a,c").ways
        self.assertEqual([way.id for way in ways], ["pytorch_a", "pytorch_c"])

    def test_the_timing_is_that_of_the_record_unless_it_is_given(self):
        self.assertEqual(self.settings(Toy, like("toy", SIZES)).bench, wr.Bench(2, 5, 1.5, 50.0))
        given = self.settings(Toy, like("toy", SIZES), "--samples", "9", "--budget", ".5")
        self.assertEqual(given.bench, wr.Bench(2, 9, 0.5, 50.0))
        policy = Toy(None, given, WITH_GPU).run()["policy"]
        self.assertEqual(policy, like("toy", SIZES)["policy"] | {"samples": 9, "budget_s": 0.5})

    def test_the_command_repeats_the_settings(self):
        settings = self.settings(Toy, like("toy", SIZES), "--size", "5 M × 16", "--ways", "b")
        self.assertEqual(settings.command.split()[:3], ["python3", "notebooks/pytorch/toy.py", "--like"])
        self.assertTrue(settings.command.endswith("--size '5 M × 16' --ways b"), settings.command)

    def main(self, arguments: list[str], **behaviour) -> tuple[int, str]:
        kind = type("Toy", (Toy,), {"behaviour": behaviour})
        with contextlib.redirect_stderr(io.StringIO()) as said:
            return wr.main(kind, arguments), said.getvalue()

    def test_what_is_refused_ends_with_code_2_and_one_line(self):
        code, said = self.main(self.arguments({"schema": 1}))
        self.assertEqual((code, said.count("\n")), (2, 1))

    def test_without_torch_it_says_what_to_install(self):
        # With None in sys.modules, the import fails as if the package were not installed.
        with mock.patch.dict(sys.modules, {"torch": None}):
            code, said = self.main(self.arguments(like("toy", SIZES)))
        self.assertEqual((code, said), (2, "PyTorch is not installed: pip install torch\n"))

    def loaded(self):
        """Pretends that PyTorch is installed."""
        torch = SimpleNamespace(__version__="2.11.0", get_num_threads=lambda: 4)
        return mock.patch.multiple(wr, load_torch=lambda: torch, look=lambda torch, like: WITH_GPU)

    def test_exit_codes_tell_how_the_rows_ended(self):
        def stop(toy: Toy):
            raise KeyboardInterrupt

        with self.loaded():
            arguments = self.arguments(like("toy", SIZES))
            self.assertEqual(self.main(arguments)[0], 0)
            self.assertEqual(self.main(arguments, b=lambda toy: toy.give("b", errors=(1.0,)))[0], 1)
            self.assertEqual(self.main(arguments, b=stop)[0], 130)
        record = json.loads((self.folder / "out.json").read_text(encoding="utf-8"))
        self.assertEqual(record["notes"], ["Interrupted after 0 of 9 measurements."])

    def test_another_device_is_announced(self):
        announced = "was made on NVIDIA Other; records of two devices cannot be merged"
        with self.loaded():
            self.assertNotIn(announced, self.main(self.arguments(like("toy", SIZES)))[1])
            other = like("toy", SIZES, GPU | {"name": "NVIDIA Other"})
            self.assertIn(announced, self.main(self.arguments(other))[1])


class Numbers(unittest.TestCase):
    def test_what_json_lacks_is_text(self):
        numbers = [1.5, math.nan, math.inf, -math.inf]
        self.assertEqual(list(map(wr.real, numbers)), [1.5, "NaN", "Infinity", "-Infinity"])

    def test_medians_and_worst_errors(self):
        self.assertEqual((wr.median([3.0, 1.0, 2.0]), wr.median([1.0, 2.0])), (2.0, 1.5))
        self.assertTrue(math.isnan(wr.median([])))
        self.assertEqual((wr.worst([1.0, 3.0]), wr.worst([])), (3.0, 0.0))
        self.assertTrue(math.isnan(wr.worst([1.0, math.nan, 3.0])))

    def test_short_times(self):
        self.assertEqual([wr.short_time(t) for t in (5.25, 2300.0, 1.5e6)], ["5.25 us", "2.3 ms", "1.5 s"])

    def test_a_cpu_is_named_as_warpbook_names_it(self):
        self.assertEqual(wr.cpu_model("processor\t: 0\nmodel name\t: Intel(R) Xeon(R)\n"), "Intel(R) Xeon(R)")
        self.assertEqual(wr.cpu_model("CPU implementer\t: 0x41\n"), "Arm CPU, implementer 0x41")
        with mock.patch("warpbook_record.sysctl", lambda name: None):
            self.assertEqual(wr.cpu_model(""), "CPU")

    def test_first_lines(self):
        check = lambda text, expect: self.assertEqual(wr.first_line(RuntimeError(text)), expect)
        check("inductor raised:\nNoTriton: none\n\nmore", "RuntimeError: inductor raised: NoTriton: none")
        check("\n  one\ntwo", "RuntimeError: one")
        check("", "RuntimeError")

    def test_the_worse_of_two_checks_keeps_a_failure(self):
        good, bad = check(1e-9), check(math.nan)
        for worse in (good.worse(bad), bad.worse(good)):
            self.assertFalse(worse.passed)
            self.assertTrue(math.isnan(worse.max_rel_error))
        self.assertEqual(check(1e-9).worse(check(1e-8)).max_rel_error, 1e-8)
        self.assertEqual(bad.record()["max_rel_error"], "NaN")
        self.assertEqual(good.outcome(), {"status": "measured"})
        off = "the result is off the reference by 2.0e-03, more than the tolerance of 1.0e-03"
        self.assertEqual(check(2e-3).outcome(), wr.failed(off))


class Timing(unittest.TestCase):
    def test_short_regions_are_repeated(self):
        for us, expect in ((100.0, 1), (50.0, 1), (10.0, 10), (0.0, 1000)):
            self.assertEqual(wr.Bench().batch_for(us), expect)

    def test_warm_ups_samples_and_budget(self):
        batches = []
        timed = lambda batch: (batches.append(batch), (10.0, 11.0))[1]
        us, wall_us = wr.Bench().gpu(timed)
        self.assertEqual((len(us), len(wall_us), batches), (25, 25, [1] * 28))
        batches.clear()
        self.assertEqual(wr.Bench().gpu(timed, may_repeat=True)[0], [10.0] * 25)
        self.assertEqual(batches, [1] * 3 + [10] * 25)
        self.assertEqual(len(wr.Bench(budget_s=0.0).gpu(timed)[0]), 1, "one is always taken")

    def test_a_long_region_of_the_cpu_runs_once(self):
        self.assertEqual(wr.Bench().cpu(lambda batch: (3e6, 3e6)), ([3e6], [3e6]))

    def test_regions_are_timed_in_turn(self):
        calls = []

        def region(name: str, us: float) -> wr.Timed:
            return lambda batch: (calls.append((name, batch)), (us, us + 1))[1]

        samples = wr.Bench(samples=2).in_turn([(region("long", 90.0), 1), (region("short", 5.0), 20)])
        # The first round of the short region is not counted.
        rounds = [("short", 20)] + [("long", 1), ("short", 20)] * 2
        self.assertEqual(calls, rounds)
        self.assertEqual(samples, [([90.0] * 2, [91.0] * 2), ([5.0] * 2, [6.0] * 2)])
        one = wr.Bench(budget_s=0.0).in_turn([(region("long", 90.0), 1)])
        self.assertEqual(one, [([90.0], [91.0])], "one is always taken")

    def test_a_stopwatch_divides_by_the_repetitions(self):
        calls = []
        us, wall_us = wr.cpu_stopwatch(lambda: calls.append(1), 4)
        self.assertEqual((len(calls), us), (4, wall_us))
        events = SimpleNamespace(record=lambda: None, elapsed_time=lambda end: 0.5)
        cuda = SimpleNamespace(Event=lambda enable_timing: events, synchronize=lambda: None)
        us, wall_us = wr.CudaStopwatch(SimpleNamespace(cuda=cuda))(lambda: calls.append(1), 5)
        self.assertEqual((us, len(calls)), (100.0, 9), "milliseconds of five repetitions")

    def test_a_candidate_overwrites_its_last_result(self):
        """Before a result is taken, its memory is filled with NaN, whether it is computed or replayed."""
        filled, calls, graphs = [], [], []
        result = lambda: SimpleNamespace(fill_=filled.append)
        events = SimpleNamespace(record=lambda: None, elapsed_time=lambda end: 0.1)
        cuda = SimpleNamespace(Event=lambda enable_timing: events, synchronize=lambda: None)
        build = lambda torch, *inputs: lambda: (calls.append(inputs), result())[1]

        def capture(torch, warm_up, work):
            work()
            graphs.append(len(calls))
            return SimpleNamespace(replay=lambda: graphs.append("replay"))

        called = wr.Candidate(SimpleNamespace(cuda=cuda), replace(Toy.ways[1], build=build), "a", "b")
        first = called.once()
        self.assertEqual((calls, filled), ([("a", "b")], []))
        self.assertEqual(called.timed(4), (25.0, mock.ANY))
        self.assertEqual(len(calls), 5)
        self.assertIsNot(called.once(), first)
        self.assertEqual([math.isnan(v) for v in filled], [True])

        calls.clear(), filled.clear()
        with mock.patch.object(wr, "capture", capture):
            replayed = wr.Candidate(SimpleNamespace(cuda=cuda), replace(Toy.ways[2], build=build))
            replayed.once()
            self.assertEqual(([math.isnan(v) for v in filled], graphs), ([True], [1, "replay"]))
            replayed.timed(3)
            replayed.timed(3)
            self.assertEqual(graphs, [1, "replay", 4, "replay", "replay"], "captured once for a batch of three")


class Machines(unittest.TestCase):
    def torch(self, available: bool):
        sizes = {"total_memory": 1 << 36, "multi_processor_count": 132, "major": 9, "minor": 0}
        properties = SimpleNamespace(name="NVIDIA Test", **sizes)
        cuda = SimpleNamespace(
            is_available=lambda: available,
            current_device=lambda: 0,
            get_device_properties=lambda index: properties,
        )
        return SimpleNamespace(__version__="2.11.0+cu130", cuda=cuda, version=SimpleNamespace(cuda="13.0"))

    def test_a_gpu_is_described(self):
        machine = wr.look(self.torch(True), like("toy", SIZES))
        self.assertEqual(machine.gpu, GPU)
        self.assertIsNone(machine.obstacle(Toy.ways[1]))

    def test_without_a_gpu_its_ways_say_why_not(self):
        needs = "needs a GPU of compute capability 7.5 or later; "
        check = lambda machine, why: self.assertEqual(machine.obstacle(Toy.ways[1]), needs + why)
        check(wr.look(self.torch(False), like("toy", SIZES)), "PyTorch finds no GPU here")
        check(wr.look(self.torch(True), like("toy", SIZES, CPU)), "the record given by --like was made on a CPU")
        check(replace(WITH_GPU, gpu=GPU | {"compute_capability": [7, 0]}), "NVIDIA Test has 7.0")
        self.assertIsNone(WITHOUT_GPU.obstacle(Toy.ways[0]))
        self.assertEqual(wr.environment_record(WITHOUT_GPU)["device"]["kind"], "cpu")


class Rows(InFolder):
    def run_toy(self, *arguments: str, problems=None, machine: wr.Machine = WITH_GPU, **behaviour):
        settings = self.settings(Toy, like("toy", problems or SIZES[:1]), *arguments)
        toy = Toy(None, settings, machine)
        toy.behaviour = behaviour
        record = toy.run()
        self.check_record(record)
        return toy, record

    def test_a_record_is_like_the_one_it_is_made_from(self):
        toy, record = self.run_toy("--author", "Ada", "--size", "100k,4096^3", problems=SIZES)
        theirs = like("toy", SIZES)
        for key in ("experiment", "title", "descriptor", "policy"):
            self.assertEqual(record[key], theirs[key], key)
        self.assertEqual(record["problems"], [SIZES[0], SIZES[2]], "those that were measured, as they are")
        self.assertEqual((record["author"], record["main_problem"]), ("Ada", SIZES[0]["id"]))
        self.assertEqual((record["peaks"], record["sources"]), ({"bandwidth": [], "compute": []}, {}))
        self.assertEqual(record["environment"]["libraries"], [["PyTorch", "2.11.0+cu130"]])
        self.assertEqual([r["requires"] for r in record["rungs"]], ["nothing"] + [{"at_least": [7, 5]}] * 2)
        self.assertEqual(record["rungs"][0]["runner"], {"external": "PyTorch 2.11.0"})
        self.assertNotIn("author", self.run_toy()[1], "another's name is not ours")
        self.assertNotIn("main_problem", self.run_toy("--size", "5Mx16,4096^3", problems=SIZES)[1])

    def test_every_way_is_measured_in_turn(self):
        toy, record = self.run_toy(b=lambda toy: toy.give("b", us=10.0))
        warm_up, rounds = [("a", 1)] * 2 + [("b", 1)] * 2 + [("c", 1)] * 2, [("a", 1), ("b", 10), ("c", 1)]
        self.assertEqual(toy.log, warm_up + [("b", 10)] + rounds * 5)
        row = record["measurements"][1]
        self.assertEqual((row["rung"], row["samples_total"], row["samples_us"]), ("pytorch_b", 5, [10.0] * 5))
        self.assertEqual(
            (row["wall_us"][0], row["check"]["max_rel_error"]), (11.0, 2e-4), "the worse of the two checks"
        )
        self.assertEqual(toy.lines[1], "100 k f32  pytorch_b  10 us (1 per thing, 5 samples)")
        self.assertGreater(toy.released, 0)

    def test_without_any_way_that_runs_no_inputs_are_drawn(self):
        toy, record = self.run_toy("--ways", "b,c", machine=WITHOUT_GPU)
        self.assertEqual(toy.prepared, 0)
        self.assertEqual({o["status"] for o in outcomes(record).values()}, {"skipped"})

    def test_a_wrong_result_is_a_failed_row_without_samples(self):
        wrong, nan = (lambda toy: toy.give("b", errors=(0.5,))), (lambda toy: toy.give("c", errors=(math.nan,)))
        toy, record = self.run_toy(b=wrong, c=nan)
        for row in record["measurements"][1:]:
            self.assertIn("off the reference by", row["outcome"]["error"])
            self.assertEqual((row["samples_us"], row["check"]["passed"]), ([], False))
        self.assertEqual(outcomes(record)["pytorch_a"], {"status": "measured"})
        self.assertEqual({way for way, _ in toy.log}, {"a"}, "what is wrong is not timed")

    def test_a_result_that_goes_wrong_while_it_is_timed_fails(self):
        _, record = self.run_toy(b=lambda toy: toy.give("b", errors=(1e-4, math.nan)))
        row = record["measurements"][1]
        self.assertEqual((row["outcome"]["status"], row["check"]["passed"]), ("failed", False))

    def test_what_cannot_run_is_skipped_and_what_breaks_failed(self):
        def unavailable(toy: Toy):
            raise wr.Unavailable("torch.compile failed here: no Triton")

        def breaks(toy: Toy):
            raise MemoryError("CUDA out of memory. Tried to allocate 20 GiB.\nSee the documentation.")

        _, record = self.run_toy(b=unavailable, c=breaks)
        self.assertEqual(outcomes(record)["pytorch_a"], {"status": "measured"})
        self.assertEqual(outcomes(record)["pytorch_b"]["why"], "torch.compile failed here: no Triton")
        error = outcomes(record)["pytorch_c"]["error"]
        self.assertEqual(error, "MemoryError: CUDA out of memory. Tried to allocate 20 GiB.")

    def test_an_error_of_the_reference_is_that_of_every_row(self):
        with mock.patch.object(Toy, "judge", side_effect=RuntimeError("no room")):
            _, record = self.run_toy()
        self.assertEqual({o["error"] for o in outcomes(record).values()}, {"RuntimeError: no room"})

    def test_an_error_of_the_inputs_is_that_of_every_row(self):
        with mock.patch.object(Toy, "prepare", side_effect=RuntimeError("no room")):
            _, record = self.run_toy("--ways", "a,b")
        self.assertEqual([o["error"] for o in outcomes(record).values()], ["RuntimeError: no room"] * 2)

    def test_an_interrupt_keeps_what_is_finished(self):
        def interrupt_the_second(toy: Toy) -> FakeCandidate:
            if toy.prepared == 2:
                raise KeyboardInterrupt
            return toy.give("b")

        seen: list[int] = []
        keep = lambda record: seen.append(len(record["measurements"]))
        toy = Toy(None, self.settings(Toy, like("toy", SIZES)), WITH_GPU, keep=keep)
        toy.behaviour = {"b": interrupt_the_second}
        record = toy.run()
        self.check_record(record)
        rows = [m["outcome"].get("why", "measured") for m in record["measurements"]]
        later = ["interrupted before it was timed"]
        self.assertEqual(rows, ["measured"] * 3 + later + ["interrupted"] + later * 4)
        self.assertEqual(record["notes"], ["Interrupted after 3 of 9 measurements."])
        self.assertEqual(seen, [3, 6, 9], "the record is kept after each problem")

    def test_samples_beyond_a_thousand_are_counted_only(self):
        way, of = Toy.ways[1], wr.Problem(SIZES[0])
        row = wr.measurement_record(way, of, {"status": "measured"}, ([1.0] * 1500, [math.nan] * 1500), check())
        self.assertEqual((len(row["samples_us"]), len(row["wall_us"]), row["samples_total"]), (1000, 1000, 1500))
        self.assertEqual(row["wall_us"][0], "NaN")


class Traces(unittest.TestCase):
    def test_a_trace_becomes_the_spans_of_streams_and_of_the_host(self):
        way, problem = Toy.ways[0], wr.Problem({"id": "toy n=8"})
        event = lambda name, ts, dur, cat, tid=1, **args: {
            "ph": "X", "name": name, "ts": ts, "dur": dur, "cat": cat, "tid": tid, "args": args,
        }
        events = [
            {"ph": "M", "name": "process_name", "args": {}},
            event("aten::mul", 100.0, 10.0, "cpu_op"),
            event("aten::empty", 101.0, 2.0, "cpu_op"),
            event("cudaLaunchKernel", 104.0, 3.0, "cuda_runtime"),
            event("mul_kernel", 112.5, 4.25, "kernel", tid=7, stream=7, correlation=5),
            # This event belongs to another thread, like those of autograd.
            event("MulBackward0", 103.0, 3.0, "cpu_op", tid=2),
            event("aten::add", 110.0, 5.0, "cpu_op"),
            event("Memset (Device)", 120.0, 1.0, "gpu_memset", tid=9, stream=9, bytes=4, correlation=6),
        ]
        spans = wr.span_records(way, problem, events)
        short = [(s["name"], s["stream"], s["start_us"], s["duration_us"]) for s in spans]
        self.assertEqual(
            short,
            [
                ("aten::mul", "host", 0.0, 10.0),
                ("MulBackward0", "host", 3.0, 3.0),
                ("aten::add", "host", 10.0, 5.0),
                ("mul_kernel", "0", 12.5, 4.25),
                ("Memset (Device)", "1", 20.0, 1.0),
            ],
        )
        self.assertEqual((spans[3]["correlation"], spans[4]["bytes"], spans[0].get("correlation")), (5, 4, None))
        self.assertEqual({(s["rung"], s["problem"]) for s in spans}, {(way.id, problem.id)})
        self.assertEqual(wr.span_records(way, problem, []), [])


class Files(InFolder):
    def test_a_record_is_written_under_another_name_and_renamed(self):
        path, seen = self.write("old", "a.json"), []

        def rename(part, to, rename=os.replace):
            seen.append((path.read_text(encoding="utf-8"), json.loads(Path(part).read_text(encoding="utf-8"))))
            rename(part, to)

        with mock.patch("os.replace", rename):
            wr.write_record(path, {"schema": 2})
        self.assertEqual(seen, [("old", {"schema": 2})], "whole before it takes the name")
        self.assertEqual(path.read_text(encoding="utf-8"), '{\n  "schema": 2\n}\n')
        self.assertEqual(os.listdir(self.folder), ["a.json"])

    def test_a_failure_leaves_the_old_record_and_nothing_else(self):
        path = self.write("old", "a.json")
        with self.assertRaises(ValueError):
            wr.write_record(path, {"schema": math.nan})
        with mock.patch("os.replace", side_effect=OSError("no space")), self.assertRaises(wr.Refused):
            wr.write_record(path, {"schema": 2})
        self.assertEqual((path.read_text(encoding="utf-8"), os.listdir(self.folder)), ("old", ["a.json"]))

    @unittest.skipUnless(hasattr(os, "symlink") and os.name == "posix", "links are as on POSIX")
    def test_a_link_stays_a_link(self):
        path, link = self.write("old", "a.json"), self.folder / "link.json"
        link.symlink_to(path)
        wr.write_record(link, {"schema": 2})
        self.assertTrue(link.is_symlink())
        self.assertEqual(json.loads(path.read_text(encoding="utf-8")), {"schema": 2})


if __name__ == "__main__":
    unittest.main()
