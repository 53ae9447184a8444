"""Tests of mnist_to_99.py that need no GPU, and PyTorch only where it is there: python3 -m unittest, in this folder."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
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
from testing import WITH_GPU, InFolder, torch_or_skip

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
            ("from 0 up", "--seed", "-1"),
            ("no time within the last hour", "--started-at", "5"),
            ("no time within the last hour", "--started-at", f"{time.time() + 60}"),
            ("invalid choice: 'fast'", "--way", "fast"),
            ("no folder", "--out", str(self.folder / "no/o.json")),
        ]:
            self.refused(lambda words=words: self.parse(*words), expect)
        self.refused(lambda: mnist_to_99.parse([]), "--data")

    def test_without_a_gpu_nothing_is_trained(self):
        cudnn = SimpleNamespace(benchmark=True, allow_tf32=True)
        torch = SimpleNamespace(cuda=SimpleNamespace(is_available=lambda: False), backends=SimpleNamespace(cudnn=cudnn))
        for loaded, expect in ((mock.Mock(return_value=torch), "finds no GPU"), (mock.Mock(side_effect=wr.Refused("no torch")), "no torch")):
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
        """Images of which one half is white: the upper one of label 0, the lower one of label 1."""
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

                # Both the batches that a step takes and the one at the end of the epoch.
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
