"""Tests of loader_loop.py that need no GPU, and PyTorch only where it is there: python3 -m unittest, in this folder."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import struct
import sys
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent))

import loader_loop
import warpbook_record as wr
from testing import WITH_GPU, WITHOUT_GPU, InFolder, like, outcomes, problem, torch_or_skip


def idx(*shape: int, data: bytes) -> bytes:
    return b"\0\0\x08" + bytes([len(shape)]) + struct.pack(f">{len(shape)}I", *shape) + data


def looped(batch: int = 16, **more):
    """Returns a problem as `warpbook run loop` describes it."""
    sizes = {"network": "mnist", "data": "MNIST, modified", "images": 40, "test_images": 10, "batch": batch, "epochs": 3, "workers": 0}
    return problem(f"mnist {batch}", "f32", **{**sizes, "read_losses": 1, "accuracy": 20.0, **more})


class Files(InFolder):
    def test_files_are_read_packed_or_not(self):
        plain = idx(2, 3, 1, data=bytes(range(6)))
        (self.folder / "a").write_bytes(plain)
        (self.folder / "b.gz").write_bytes(gzip.compress(plain))
        for name in "ab":
            self.assertEqual(loader_loop.idx(self.folder / name), ((2, 3, 1), bytes(range(6))))

    def test_what_is_wrong_with_a_file_is_said(self):
        (self.folder / "text").write_text("hello")
        (self.folder / "short").write_bytes(idx(2, 3, data=b"12345"))
        (self.folder / "cut").write_bytes(idx(2, 3, data=b"")[:9])
        for name, expect in [
            ("text", "not an IDX file"),
            ("cut", "not an IDX file"),
            ("short", "6 bytes, but it has 5"),
            ("none", "Name MNIST's folder with --data"),
        ]:
            self.refused(lambda name=name: loader_loop.idx(self.folder / name), expect)
        (self.folder / "train-images-idx3-ubyte").write_bytes(idx(2, 1, 1, data=b"12"))
        (self.folder / "train-labels-idx1-ubyte").write_bytes(idx(3, data=b"123"))
        self.refused(lambda: loader_loop.images_and_labels(self.folder, "train"), "3 labels, but its images have the shape (2, 1, 1)")


class InMnist(InFolder):
    def setUp(self):
        super().setUp()
        for part, count in (("train", 40), ("t10k", 10)):
            # Odd and even labels have different white halves of the image.
            pixels = b"".join((b"\xff" * 392 + b"\0" * 392) if i % 2 else (b"\0" * 392 + b"\xff" * 392) for i in range(count))
            (self.folder / f"{part}-images-idx3-ubyte").write_bytes(idx(count, 28, 28, data=pixels))
            (self.folder / f"{part}-labels-idx1-ubyte").write_bytes(idx(count, data=bytes(i % 2 for i in range(count))))

    def arguments(self, record, *more: str) -> list[str]:
        return super().arguments(record, "--data", str(self.folder), *more)

    def ladder(self, torch, *problems, machine=WITH_GPU, more: tuple[str, ...] = ()):
        device = {} if machine.gpu else {"device": wr.cpu_device()}
        settings = self.settings(loader_loop.Loops, like("loop", list(problems), **device), *more)
        return loader_loop.Loops(torch, settings, machine, say=lambda line: None), settings.problems


class Loops(InMnist):
    def test_the_work_is_read_from_the_record(self):
        ladder, (first,) = self.ladder(None, looped(read_losses=5, workers=2))
        self.assertEqual(ladder.read(first), loader_loop.Work(16, 3, 2, 5, 40, 10, 20.0))
        self.assertEqual(ladder.figure(first, 1e6), "120 images/s")
        # Three trainings would be enough for a comparison, but all ways are offered.
        self.assertEqual([way.id for way in ladder.ways], list(loader_loop.FED))
        self.assertEqual(len(ladder.ways), 6)
        self.assertEqual([way.on_gpu for way in ladder.settings.ways], [True] * 6)
        on_cpu, _ = self.ladder(None, looped(), machine=WITHOUT_GPU)
        self.assertEqual([way.on_gpu for way in on_cpu.settings.ways], [False] * 3 + [True] * 3)

    def test_what_it_cannot_train_on_is_refused(self):
        def settings(**more):
            return lambda: self.settings(loader_loop.Loops, like("loop", [looped(**more)]))

        self.refused(settings(network="cifar10"), "does not train the MNIST CNN")
        self.refused(settings(data="synthetic digits"), "`warpbook run loop --data DIR` with MNIST's files")
        self.refused(settings(epochs=0), "at least 1")
        self.refused(lambda: self.ladder(None, looped(images=41)), "has 40. Name the folder that the record was made with")
        self.refused(lambda: loader_loop.Loops.settings_of(["--like", "l", "--out", "o"]), "--data")
        self.refused(lambda: self.settings(loader_loop.Loops, like("training", [looped()])), "`warpbook run loop --data DIR --out FILE`")

    def test_errors_end_the_script_with_a_sentence(self):
        arguments = self.arguments(like("loop", [looped()]))
        with contextlib.redirect_stderr(io.StringIO()) as said, mock.patch.object(wr, "load_torch", side_effect=wr.Refused("no torch")):
            self.assertEqual(wr.main(loader_loop.Loops, arguments), 2)
        self.assertIn("no torch", said.getvalue())

    def test_the_mean_accuracy_has_to_be_reached(self):
        def judged(*correct: int, accuracy: float = 90.0):
            work = loader_loop.Work(16, 3, 0, 1, 40, 10, accuracy)
            return loader_loop.Loops.judge(work, [loader_loop.Trained(1.0, 9, 0, n) for n in correct])

        self.assertEqual([judged(9).passed, judged(8, 10).passed, judged(8, 9).passed], [True, True, False])
        self.assertAlmostEqual(judged(8, 9).max_abs_error, 5.0)
        self.assertEqual(judged(9).reference, "a mean accuracy of 90 % or more")
        self.assertTrue(judged(7, 7, 7, accuracy=70.0).passed)

    def measured(self, ladder, seconds: list[float]):
        """Runs the ladder with trainings of these times; returns the record and the list of trainings."""
        made, times = [], iter(seconds)

        def run(_, fed):
            made.append(fed)
            return loader_loop.Trained(next(times), 9, len(made) << 20, 9)

        with mock.patch.object(loader_loop.Trainings, "__init__", lambda of, torch, device, work, *_: setattr(of, "work", work)):
            with mock.patch.object(loader_loop.Trainings, "run", run), mock.patch.object(ladder, "release"):
                return ladder.run(), made

    def test_a_long_training_is_made_once_and_a_short_one_again(self):
        ladder, _ = self.ladder(None, looped(), more=("--ways", "torch_losses_fp32,torch_resident_amp_fp16", "--samples", "2", "--budget", "5"))
        record, made = self.measured(ladder, [6.0, 1.0, 2.0, 3.0])
        self.check_record(record)
        first, second = record["measurements"]
        # The second way's first training only warms up.
        self.assertEqual((first["samples_us"], second["samples_us"]), ([6e6], [2e6, 3e6]))
        self.assertEqual((first["peak_bytes"], second["peak_bytes"]), (1 << 20, 4 << 20))
        self.assertEqual((first["test"], second["test"]), ([{"correct": 9, "of": 10}], [{"correct": 9, "of": 10}] * 2))
        self.assertEqual((first.get("dtype"), second["dtype"]), (None, "f16"))
        self.assertEqual([fed.half for fed in made], [False, True, True, True])
        self.assertEqual([fed.resident for fed in made], [False, True, True, True])

    def test_an_accuracy_that_is_missed_fails_the_row(self):
        ladder, _ = self.ladder(None, looped(accuracy=95.0), more=("--ways", "torch_loader_fp32", "--budget", "0"))
        record, _ = self.measured(ladder, [1.0])
        self.assertEqual(outcomes(record)["torch_loader_fp32"]["status"], "failed")


class Trained(InMnist):
    def test_every_way_trains_on_all_images(self):
        torch = torch_or_skip(self)
        files = tuple(loader_loop.images_and_labels(self.folder, part) for part in ("train", "t10k"))
        trainings = loader_loop.Trainings(torch, "cpu", loader_loop.Work(16, 3, 2, 2, 40, 10, 20.0), files, False)
        for way in loader_loop.WAYS[:3]:
            run = trainings.run(loader_loop.FED[way.id])
            # The last batch of an epoch has 8 images.
            self.assertEqual((run.steps, run.peak_bytes, run.correct), (9, 0, 10))
            self.assertGreater(run.seconds, 0.0)
        fewer = loader_loop.Trainings(torch, "cpu", loader_loop.Work(16, 3, 0, 1, 16, 4, 20.0), files, False)
        self.assertEqual([len(part) for part in (*fewer.train, *fewer.test)], [16, 16, 4, 4])

    def test_a_cpu_s_record_gets_rows_in_fp32(self):
        torch = torch_or_skip(self)
        ladder, _ = self.ladder(torch, looped(), machine=WITHOUT_GPU, more=("--budget", "0"))
        record = json.loads(json.dumps(ladder.run(), allow_nan=False))
        self.check_record(record)
        status = {rung: outcome["status"] for rung, outcome in outcomes(record).items()}
        self.assertEqual(status, {way.id: "skipped" if way.on_gpu else "measured" for way in loader_loop.WAYS})
        rows = [row for row in record["measurements"] if row["samples_us"]]
        self.assertTrue(all("peak_bytes" not in row and row["test"] == [{"correct": 10, "of": 10}] for row in rows))


if __name__ == "__main__":
    unittest.main()
