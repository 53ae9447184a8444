"""Tests of mnist_to_99.py that need no GPU, and PyTorch only where it is there: python3 -m unittest, in this folder."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import math
import re
import sys
import time
import unittest
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent))

import mnist_to_99
import training
import warpbook_record as wr
from mnist_to_99 import Epoch, Phases
from test_loader_loop import idx
from test_training import capture
from testing import WITH_GPU, InFolder, like, problem, torch_or_skip

RECIPE = Path(__file__).resolve().parents[2] / "crates/warpbook-nn/src/train/recipe.rs"


class Clock(unittest.TestCase):
    def test_phases_add_up(self):
        times = iter([10.5, 12.0, 13.0, 15.0])
        phases = Phases(10.0, 0.25, lambda: next(times))
        taken = [phases.mark(name) for name in ("import", "train", "test", "train")]
        self.assertEqual(taken, [0.5, 1.5, 1.0, 2.0])
        self.assertEqual(phases.seconds, {"interpreter": 0.25, "import": 0.5, "train": 3.5, "test": 1.0})
        self.assertEqual((phases.total, phases.since), (5.25, "process"))
        self.assertEqual((Phases(0.0, None).since, Phases(0.0, None).total), ("script", 0.0))

    def test_the_age_of_the_process_is_read(self):
        stat = f"7 (a) name) S {' '.join(['1'] * 18)} 250 0 0"
        with mock.patch.object(wr, "read_text", lambda path: stat), mock.patch.object(mnist_to_99.os, "sysconf", lambda name: 100):
            with mock.patch.multiple(time, create=True, CLOCK_BOOTTIME=7, clock_gettime=lambda clock: 4.0):
                self.assertEqual(mnist_to_99.process_age_s(), 1.5)
        for text in ("", "7 (python3) S 1", stat.replace(" 250", " many")):
            with mock.patch.object(wr, "read_text", lambda path, text=text: text):
                self.assertIsNone(mnist_to_99.process_age_s(), text)

    def test_ages_that_do_not_fit_are_left_out(self):
        of = mnist_to_99.interpreter_s
        self.assertAlmostEqual(of(1.5, 1.25), 0.25)
        self.assertEqual(of(1.0, 1.005), 0.0, "the process's is of whole ticks")
        self.assertEqual([of(None, 1.0), of(1.0, 2.0), of(1e9, 1.0)], [None] * 3)


class Settings(InFolder):
    def parse(self, *more: str) -> Any:
        return mnist_to_99.parse(["--data", "d", *more])

    def test_settings_are_checked_before_anything_runs(self):
        a = self.parse()
        self.assertEqual((a.data, a.way, a.to, a.epochs, a.seed), (Path("d"), "graph", 0.99, 20, 1))
        self.assertEqual((a.compile, a.search, a.started_at, a.out), (False, False, None, None))
        self.assertEqual(self.parse("--started-at", f"{time.time() - 1:.9f}", "--way", "eager").way, "eager")
        for expect, *words in [
            ("a training takes at least one", "--epochs", "0"),
            ("choose a share", "--to", "99"),
            ("choose a share", "--to", "nan"),
            ("at least 0", "--seed", "-1"),
            ("not a time within the last hour", "--started-at", "5"),
            ("not a time within the last hour", "--started-at", f"{time.time() + 60}"),
            ("invalid choice: 'fast'", "--way", "fast"),
            ("no folder", "--out", str(self.folder / "no/o.json")),
        ]:
            self.refused(lambda words=words: self.parse(*words), expect)
        self.refused(lambda: mnist_to_99.parse([]), "--data")

    def test_without_a_gpu_nothing_is_trained(self):
        cudnn = SimpleNamespace(benchmark=True, allow_tf32=True)
        torch = SimpleNamespace(cuda=SimpleNamespace(is_available=lambda: False), backends=SimpleNamespace(cudnn=cudnn))
        for loaded, expect in ((mock.Mock(return_value=torch), "PyTorch finds none"), (mock.Mock(side_effect=wr.Refused("no torch")), "no torch")):
            with contextlib.redirect_stderr(io.StringIO()) as said, mock.patch.object(wr, "load_torch", loaded):
                self.assertEqual(mnist_to_99.main(["--data", "d"], time.perf_counter()), 2)
            self.assertIn(expect, said.getvalue())
        self.assertEqual((cudnn.benchmark, cudnn.allow_tf32), (False, False))

    def test_settings_are_those_of_warpbook_s_recipe(self):
        text = re.search(r"pub fn mnist\(\) -> Self \{(.*?)\n    \}", RECIPE.read_text(encoding="utf-8"), re.S)[1]
        for setting in (
            f"batch: {mnist_to_99.BATCH},",
            f"learning_rate: {mnist_to_99.RATE},",
            f"Schedule::Step {{ every: {mnist_to_99.HALVED_EVERY}, gamma: 0.5 }}",
            f"epochs: {self.parse().epochs},",
            f"seed: {self.parse().seed},",
            "momentum: 0.9, nesterov: false, weight_decay: 0.0",
            "mnist_cnn(0.25, 0.5)",
            "mean: vec![0.1307],",
            "deviation: vec![0.3081],",
            "augmentation: None,",
            "shuffle: true,",
        ):
            self.assertIn(setting, text)

    def test_ways_are_named_as_those_of_training(self):
        named = training.OPTIONS["torch_amp_fp16_graph_gathered"]
        self.assertEqual((named.dtype, named.channels_last, named.gathered), ("float16", True, True))
        self.assertIn("torch_amp_fp16_graph_gathered of training.py", mnist_to_99.__doc__)
        self.assertEqual(mnist_to_99.WAYS, ("eager", "graph"))


class Line(InFolder):
    def line(self, *more: str, accuracy: float = 0.9912, caller_s: float | None = None) -> dict[str, Any]:
        arguments = ["--data", "d", *more]
        phases = Phases(0.0, 0.125, iter([1.0, 3.0]).__next__)
        phases.mark("import")
        phases.mark("train")
        epochs = [Epoch(1.5, 0.25, 0.975), Epoch(1.25, 0.25, accuracy)]
        return mnist_to_99.written(mnist_to_99.parse(arguments), arguments, WITH_GPU, 236, epochs, phases, caller_s)

    def test_the_line_says_what_was_measured_and_on_what(self):
        value = json.loads(json.dumps(self.line("--way", "eager", "--seed", "3", caller_s=3.5), allow_nan=False))
        self.assertRegex(value.pop("created"), r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        expect = {
            "format": 1,
            "script": "mnist_to_99.py",
            "command": "python3 notebooks/pytorch/mnist_to_99.py --data d --way eager --seed 3",
            "torch": "2.11.0+cu130",
            "cuda": "13.0",
            "driver": "580.1",
            "device": "NVIDIA Test",
            "way": "torch_amp_fp16_eager",
            "compiled": False,
            "searched": False,
            "seed": 3,
            "batch": 512,
            "to": 0.99,
            "reached": True,
            "epochs": 2,
            "steps": 236,
            "accuracy": 0.9912,
            "each_epoch": [
                {"train_s": 1.5, "test_s": 0.25, "accuracy": 0.975},
                {"train_s": 1.25, "test_s": 0.25, "accuracy": 0.9912},
            ],
            "phases_s": {"interpreter": 0.125, "import": 1.0, "train": 2.0},
            "wall_s": 3.125,
            "since": "process",
            "caller_s": 3.5,
        }
        self.assertEqual(value, expect)
        self.assertFalse(self.line(accuracy=0.98)["reached"])

    def test_it_is_printed_and_written_and_its_code_says_whether_it_was_reached(self):
        out = self.folder / "o.json"
        for accuracy, code in ((0.99, 0), (0.98, 1)):
            line = self.line(accuracy=accuracy)
            with contextlib.redirect_stdout(io.StringIO()) as said, mock.patch.object(mnist_to_99, "run", lambda *_, line=line: line):
                self.assertEqual(mnist_to_99.main(["--data", "d", "--out", str(out)], time.perf_counter()), code)
            self.assertEqual([json.loads(text) for text in said.getvalue().splitlines()], [line])
            self.assertEqual(json.loads(out.read_text(encoding="utf-8")), line)
        self.assertEqual([path.name for path in self.folder.iterdir()], ["o.json"], "no temporary file is left")


# This program replaces the script's processes: it prints its line, and writes its machine to the file.
PROCESS = """
import json, pathlib, sys
words = sys.argv[1:]
options = dict(zip(words, words[1:]))
seed = int(options["--seed"])
if "--machine" in options:
    pathlib.Path(options["--machine"]).write_text(MACHINE)
if seed == 66:
    raise SystemExit(2)
print(json.dumps({"seed": seed, "accuracy": 0.99 + 0.0001 * seed, "epochs": 5 + seed, "wall_s": 2.0 + seed,
                  "phases_s": {"import": 1.5, "train": 0.5 + seed}, "options": options}))
"""


class Cold(InFolder):
    def like(self, **other: Any) -> dict[str, Any]:
        sizes = {**mnist_to_99.WORK, "accuracy": 99.0, **other}
        record = like("time-to-accuracy", [problem("mnist 99 %", sizes.pop("type", "f16"), **sizes)])
        # Warpbook writes such a policy: it has no budget and is timed by the clock.
        record["policy"] |= {"timed_by": "wall_clock", "budget_s": "Infinity", "batch_below_us": 0.0}
        return record

    def words(self, record: Any, *more: str) -> list[str]:
        return ["--data", "d", "--cold", "2", *self.arguments(record, *more)]

    def run_cold(self, *more: str, record: Any = None) -> tuple[int, list[str], str]:
        script = self.folder / "process.py"
        script.write_text(PROCESS.replace("MACHINE", repr(json.dumps(mnist_to_99.asdict(WITH_GPU)))), encoding="utf-8")
        out, err = io.StringIO(), io.StringIO()
        with mock.patch.object(mnist_to_99, "__file__", str(script)), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = mnist_to_99.main(self.words(record or self.like(), *more), time.perf_counter())
        return code, out.getvalue().splitlines(), err.getvalue()

    def record(self) -> dict[str, Any]:
        return json.loads((self.folder / "out.json").read_text(encoding="utf-8"))

    def test_every_process_is_a_sample_of_a_record_that_merges(self):
        code, lines, said = self.run_cold("--seed", "3", "--way", "graph", "--search", "--author", "Ada")
        self.assertEqual(code, 0, said)
        self.assertEqual([json.loads(line)["seed"] for line in lines], [3, 3, 4], "the first is not counted")
        options = json.loads(lines[1])["options"]
        self.assertEqual((options["--to"], options["--epochs"], options["--way"]), ("0.99", "20", "graph"))
        record, theirs = self.record(), self.like()
        self.check_record(record)
        for key in ("experiment", "title", "descriptor", "problems"):
            self.assertEqual(record[key], theirs[key])
        self.assertEqual(record["policy"], theirs["policy"] | {"warmup": 1, "samples": 2})
        self.assertEqual((record["author"], record["environment"]["device"]["name"]), ("Ada", "NVIDIA Test"))
        (rung,), (row,) = record["rungs"], record["measurements"]
        self.assertEqual((rung["id"], rung["runner"]), ("torch_amp_fp16_graph_searched", {"external": "PyTorch 2.11.0"}))
        self.assertEqual(row["test"], [{"correct": 9903, "of": 10_000}, {"correct": 9904, "of": 10_000}])
        # Python takes a few milliseconds to start.
        self.assertTrue(len(row["samples_us"]) == 2 and all(us > 1e3 for us in row["samples_us"]), row["samples_us"])
        self.assertEqual(row["check"]["reference"], "a mean accuracy of 99 % or more")
        self.assertIn("The samples are of the seeds 3 to 4, in this order.", record["notes"])
        self.assertIn("took 5.00 to 6.00 s", record["notes"][0])
        self.assertIn("Medians of its phases in seconds: import 1.50, train 4.00.", record["notes"][0])
        parts = [(part["rung"], part["group"], part["name"], part["samples_us"]) for part in record["parts"]]
        self.assertEqual(parts, [(rung["id"], "phase", "import", [1.5e6, 1.5e6]), (rung["id"], "phase", "train", [3.5e6, 4.5e6])])

    def test_without_a_way_both_are_rows_and_their_processes_come_in_turn(self):
        code, lines, said = self.run_cold("--seed", "3")
        self.assertEqual(code, 0, said)
        ran = [(line["seed"], line["options"]["--way"]) for line in map(json.loads, lines)]
        self.assertEqual(ran, [(seed, way) for seed in (3, 3, 4) for way in mnist_to_99.WAYS])
        record = self.record()
        self.check_record(record)
        self.assertEqual([rung["id"] for rung in record["rungs"]], ["torch_amp_fp16_eager", "torch_amp_fp16_graph"])
        self.assertEqual([rung["title"] for rung in record["rungs"]], ["PyTorch, AMP fp16, eager", "PyTorch, AMP fp16, CUDA graph"])
        self.assertTrue(all(len(row["samples_us"]) == 2 for row in record["measurements"]))
        self.assertEqual({part["rung"] for part in record["parts"]}, {rung["id"] for rung in record["rungs"]})
        self.assertEqual(sum("samples are of the seeds 3 to 4" in note for note in record["notes"]), 1)

    def test_a_missed_accuracy_is_told(self):
        code, _, _ = self.run_cold(record=self.like(accuracy=99.5))
        check = self.record()["measurements"][0]["check"]
        self.assertEqual((code, check["passed"]), (1, False))
        self.assertTrue(math.isclose(check["max_abs_error"], 0.485) and math.isclose(check["max_rel_error"], 0.485 / 99.5), check)

    def test_what_is_done_before_a_process_fails_is_kept(self):
        code, lines, said = self.run_cold("--seed", "65", "--way", "eager")
        self.assertEqual((code, len(lines)), (2, 2))
        self.assertIn("seed 66 gave no result (exit code 2)", said)
        record = self.record()
        self.assertEqual(len(record["measurements"][0]["samples_us"]), 1)
        self.assertEqual(record["notes"][-1], "1 of 2 trainings are done.")

    def test_other_work_is_refused(self):
        for other, expect in (
            ({"data": "synthetic digits"}, "has data synthetic digits"),
            ({"batch": 128}, "trains with 512"),
            ({"from": "images on the device"}, "the start of a process"),
            ({"type": "f32"}, "has type f32"),
            ({"accuracy": 0.0}, "an accuracy of 0.0 %"),
            ({"accuracy": "high"}, "it must be a number"),
        ):
            arguments = self.words(self.like(**other))
            self.refused(lambda arguments=arguments: mnist_to_99.settings_of(mnist_to_99.parse(arguments), arguments), expect)
        self.refused(lambda: mnist_to_99.settings_of(mnist_to_99.parse(self.words(like("softmax", []))), []), "--cold 10 --to 99 --out FILE")

    def test_options_of_a_record_belong_to_it(self):
        record, parse = self.like(), mnist_to_99.parse
        self.refused(lambda: parse(["--data", "d", "--like", "l"]), "--like is for the record of --cold N")
        self.refused(lambda: parse(["--data", "d", "--author", "Ada"]), "--author is for the record")
        self.refused(lambda: parse(["--data", "d", "--cold", "2"]), "--cold needs --like FILE")
        self.refused(lambda: parse(self.words(record, "--to", "0.9")), "the accuracy is that of --like")
        self.refused(lambda: parse(self.words(record, "--out", str(self.folder / "like.json"))), "would replace the record")
        for count in ("0", "1001"):
            self.refused(lambda count=count: parse(self.words(record, "--cold", count)), "choose from 1 to 1000")


class Epochs(unittest.TestCase):
    def train(self, epochs: int, to: float, *accuracies: float) -> tuple[list[Epoch], list[str]]:
        calls, given = [], iter(accuracies)
        of = SimpleNamespace(
            begin=lambda mark: (calls.append("begin"), mark("first_step")),
            epoch=lambda: calls.append("epoch"),
            accuracy=lambda test: next(given),
        )
        times = iter(range(1, 100))
        return mnist_to_99.trained(of, None, epochs, to, Phases(0.0, 0.0, lambda: float(next(times)))), calls

    def test_the_first_epoch_that_is_good_enough_is_the_last(self):
        done, calls = self.train(20, 0.99, 0.97, 0.9899, 0.99, 0.995)
        self.assertEqual([epoch.accuracy for epoch in done], [0.97, 0.9899, 0.99])
        self.assertEqual(calls, ["begin", "epoch", "epoch", "epoch"])
        self.assertEqual(done[0], Epoch(1.0, 1.0, 0.97))

    def test_it_ends_after_the_most_epochs(self):
        self.assertEqual([epoch.accuracy for epoch in self.train(2, 0.99, 0.5, 0.6, 0.99)[0]], [0.5, 0.6])
        self.assertEqual(len(self.train(1, 0.0, 0.1, 0.2)[0]), 1)


class OnTheCpu(InFolder):
    def files(self, train: int = 70, test: int = 30):
        """Returns images with one white half: the upper half for label 0, the lower half for label 1."""
        for part, count in (("train", train), ("t10k", test)):
            pixels = b"".join((b"\xff" * 392 + b"\0" * 392) if i % 2 else (b"\0" * 392 + b"\xff" * 392) for i in range(count))
            labels = idx(count, data=bytes(i % 2 for i in range(count)))
            (self.folder / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(count, 28, 28, data=pixels)))
            (self.folder / f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(labels))

    def test_images_of_another_size_are_refused(self):
        torch = torch_or_skip(self)
        for name, data in (("images-idx3", idx(1, 2, 2, data=b"1234")), ("labels-idx1", idx(1, data=b"1"))):
            (self.folder / f"train-{name}-ubyte").write_bytes(data)
        self.refused(lambda: mnist_to_99.Files(torch, self.folder, "train", "cpu"), "images of 2 x 2")

    def test_every_way_sees_every_image_once_an_epoch_and_learns(self):
        torch = torch_or_skip(self)
        self.files()
        for way in mnist_to_99.WAYS:
            train, test = (mnist_to_99.Files(torch, self.folder, part, "cpu") for part in ("train", "t10k"))
            self.assertEqual((train.inputs.shape, train.inputs.dtype, train.targets.dtype), ((70, 1, 28, 28), torch.uint8, torch.int64))
            marks, seen, rates = [], [], []
            with mock.patch.object(wr, "capture", capture):
                of = mnist_to_99.Training(torch, way, train, 1, batch=16)
                batch, update = train.batch, of.update

                def gathered(indices, channels_last, batch=batch, seen=seen):
                    self.assertTrue(channels_last)
                    seen.extend(indices.tolist())
                    return batch(indices, channels_last)

                def updated(*arguments, of=of, update=update, rates=rates):
                    rates.append(float(of.optimizer.param_groups[0]["lr"]))
                    update(*arguments)

                # This covers the batches that the steps take and the batch at the end of the epoch.
                of.batches.batch = train.batch = gathered
                of.update = updated
                of.begin(marks.append)
                before = 3 if way == "graph" else 1
                self.assertEqual((of.steps, len(seen)), (before, 16 * before))
                for epoch in range(1, 8):
                    of.epoch()
                    self.assertEqual((of.steps, of.epochs, len(seen)), (5 * epoch, epoch, 70 * epoch))
                    self.assertEqual(sorted(seen[-70:]), list(range(70)), "every image once")
                self.assertNotEqual(seen[:70], seen[70:140], "in another order each epoch")
            self.assertEqual(marks, ["first_step", "capture"] if way == "graph" else ["first_step"])
            torch.testing.assert_close(torch.tensor(rates), torch.tensor([0.05] * 25 + [0.025] * 10))
            self.assertEqual(of.accuracy(test), 1.0)
            self.assertTrue(of.model.training, "dropout is on again")

    def test_a_seed_says_the_first_weights_and_momentum_is_zero(self):
        torch = torch_or_skip(self)
        self.files()
        train = mnist_to_99.Files(torch, self.folder, "train", "cpu")
        weights = lambda seed: next(mnist_to_99.Training(torch, "eager", train, seed, batch=16).model.parameters())
        self.assertTrue(torch.equal(weights(1), weights(1)))
        self.assertFalse(torch.equal(weights(1), weights(2)))
        of = mnist_to_99.Training(torch, "graph", train, 1, batch=16)
        self.assertTrue(all(not of.optimizer.state[p]["momentum_buffer"].any() for p in of.model.parameters()))
        self.assertTrue(of.model[0].weight.is_contiguous(memory_format=torch.channels_last))


if __name__ == "__main__":
    unittest.main()
