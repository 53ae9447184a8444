"""Tests of speedrun.py that need no GPU, and PyTorch only where it is there: python3 -m unittest, in this folder."""

from __future__ import annotations

import contextlib
import io
import json
import random
import sys
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent))

import speedrun as s
import warpbook_record as wr
from test_training import capture
from testing import GPU, WITHOUT_GPU, InFolder, like, problem, torch_or_skip

RECIPE = Path(__file__).resolve().parents[2] / "crates/warpbook-cli/recipes/cifar10-speedrun.toml"


def record(dtype: str = "bf16", device: dict[str, Any] = GPU, **other: Any) -> dict[str, Any]:
    """Returns a record as `warpbook speedrun cifar10-speedrun` writes it."""
    sizes = {"recipe": "cifar10-speedrun", "data": "CIFAR-10", "samples": 40, "test_samples": 20, "batch": 8, "views": "flips"}
    sizes |= {"from": "images on the device", "accuracy": 10.0, **other}
    of = like("time-to-accuracy", [problem("speedrun 10 %", dtype, **{k: v for k, v in sizes.items() if v is not None})], device)
    # Warpbook writes such a policy: it has no budget and is timed by the clock.
    of["policy"] |= {"timed_by": "wall_clock", "budget_s": "Infinity", "batch_below_us": 0.0}
    return of


class Recipe(unittest.TestCase):
    def test_settings_are_those_of_warpbook_s_recipe(self):
        text = RECIPE.read_text(encoding="utf-8")
        total = 25 * s.EPOCHS
        for setting in (
            f"epochs = {s.EPOCHS}\n",
            "batch = 2000\n",
            f"steps = {s.ITERATIONS}\nrate = {s.MUON_RATE}\nmomentum = {s.MUON_MOMENTUM}\n",
            f'params = "whiten.bias"\nrate = {s.BIAS_RATE}\nweight_decay = {s.BIAS_DECAY}\nschedule = {{ kind = "linear", total = {s.whitening_steps(total)} }}',
            f'params = "bn*.bias"\nrate = {s.BIAS_RATE}\nweight_decay = {s.BIAS_DECAY}\n',
            f'params = "head.weight"\nrate = {s.HEAD_RATE}\nweight_decay = {s.HEAD_DECAY}\n',
            f'kind = "linear"\nby = "step"\ntotal = {total}\n',
            f'factors = [{{ params = "head.weight", factor = {s.HEAD_FACTOR} }}]',
            f"smoothing = {s.SMOOTHING}\n",
            f"momentum = {s.MOMENTUM}\nnesterov = true\n",
            f"crop = {s.SHIFT}\nflip = true\nreflect = true\nalternate = true\n",
            "mean = [{}, {}, {}]".format(*s.MEAN),
            "deviation = [{:.4f}, {:.4f}, {:.4f}]".format(*s.DEVIATION),
            '"conv2d 64 3x3 padding 1 no_bias", "max_pool 2", "batch_norm momentum 0.4 epsilon 1e-12 no_scale", "gelu"',
            '"max_pool 3", "flatten", "linear 10 no_bias name head"',
        ):
            self.assertIn(setting.replace("e-05", "e-5"), text)
        self.assertEqual((s.whitening_steps(200), s.whitening_steps(175)), (75, 66))

    def test_muon_s_numbers_are_those_of_warpbook(self):
        text = (RECIPE.parents[2] / "warpbook-nn/src/ops/muon/mod.rs").read_text(encoding="utf-8")
        self.assertIn("COEFFICIENTS: [f64; 3] = [{:.4f}, {:.4f}, {:.4f}];".format(*s.COEFFICIENTS), text)
        self.assertIn("EPSILON: f64 = 1e-7;", text)
        self.assertEqual(s.EPSILON, 1e-7)
        text = (RECIPE.parents[2] / "warpbook-nn/src/train/initial.rs").read_text(encoding="utf-8")
        self.assertIn(f"WHITENED: usize = {s.WHITENED};", text)
        self.assertIn("EPSILON: f64 = 5e-4;", text)
        self.assertEqual(s.FLOOR, 5e-4)

    def test_the_views_weights_add_up(self):
        for views in s.VIEWS.values():
            self.assertEqual(sum(weight for *_, weight in views), 1.0)
        self.assertEqual(len(s.VIEWS["flips_and_shifts"]), 6)


class Settings(InFolder):
    def settings(self, of: Any, *more: str) -> wr.Settings:
        arguments = self.arguments(of, "--data", "d", *more)
        return s.settings_of(s.parse(arguments), arguments)

    def test_the_work_is_that_of_the_record(self):
        settings = self.settings(record())
        self.assertEqual([way.id for way in settings.ways], ["torch_compiled_bf16", "torch_compiled_graph_bf16"])
        self.assertEqual((settings.bench.warmup, settings.bench.samples), (1, 10))
        self.assertTrue(settings.command.startswith("python3 notebooks/pytorch/speedrun.py --like"))
        for expect, other in (
            ("has recipe mnist", {"recipe": "mnist"}),
            ("has from the start of a process", {"from": "the start of a process"}),
            ("has type f32", {"dtype": "f32"}),
            ("has no accuracy to reach", {"accuracy": None}),
            ("has no accuracy to reach", {"accuracy": 0.0}),
            ("has the views one", {"views": None}),
            ("no size `test_samples`", {"test_samples": None}),
        ):
            self.refused(lambda other=other: self.settings(record(**other)), expect)
        self.refused(lambda: self.settings(record(device=WITHOUT_GPU.device)), "trains with f32")

    def test_a_rung_s_name_says_what_is_unusual(self):
        def ids(*more: str) -> list[str]:
            return [way.id for way in self.settings(record(), *more).ways]

        self.assertEqual(ids("--epochs", "9", "--way", "graph"), ["torch_compiled_graph_bf16_9_epochs"])
        self.assertEqual(ids("--mode", "none"), ["torch_eager_bf16", "torch_graph_bf16"])
        self.assertEqual(ids("--mode", "reduce-overhead", "--way", "compiled"), ["torch_compiled_bf16_reduce_overhead"])
        ways = self.settings(record("f32", WITHOUT_GPU.device)).ways
        self.assertEqual([(way.id, way.on_gpu) for way in ways], [("torch_compiled_fp32", False)])

    def test_views_are_chosen_among_the_record_s(self):
        of = record()
        of["problems"] += record(views="flips_and_shifts")["problems"]
        self.assertEqual(self.settings(of).problems[0].size("views"), "flips")
        self.assertEqual(self.settings(of, "--views", "flips_and_shifts").problems[0].size("views"), "flips_and_shifts")
        self.refused(lambda: self.settings(record(), "--views", "flips_and_shifts"), "has no problem with the views flips_and_shifts, but with flips")

    def test_arguments_are_checked(self):
        for expect, *words in (
            ("choose from 1 to 1000", "--seeds", "0"),
            ("at least one", "--epochs", "0"),
            ("at least 0", "--seed", "-1"),
            ("would replace", "--out", str(self.folder / "like.json")),
            ("invalid choice: 'one'", "--views", "one"),
        ):
            self.refused(lambda words=words: self.settings(record(), *words), expect)
        self.refused(lambda: self.settings(record("f32", WITHOUT_GPU.device), "--way", "graph"), "has no CUDA graphs")

    def test_without_a_gpu_a_gpu_s_record_is_refused(self):
        torch = torch_or_skip(self)
        arguments = self.arguments(record(), "--data", "d")
        with contextlib.redirect_stderr(io.StringIO()) as said, mock.patch.object(torch.cuda, "is_available", lambda: False):
            self.assertEqual(s.main(arguments), 2)
        self.assertIn("bf16 needs a GPU", said.getvalue())


class Parts(unittest.TestCase):
    def test_a_window_is_shifted_reflected_and_mirrored(self):
        torch = torch_or_skip(self)
        images = torch.randint(256, (5, 3, 32, 32), dtype=torch.uint8)
        picked, rows, columns = torch.tensor([4, 0, 2]), torch.tensor([-2, 0, 1]), torch.tensor([2, 0, -1])
        mirrored = torch.tensor([False, True, True])
        given = s.window(torch, images, picked, rows, columns, mirrored)
        bordered = torch.nn.functional.pad(images.float(), (2,) * 4, mode="reflect")
        for i in range(3):
            top, left = rows[i] + 2, columns[i] + 2
            expect = bordered[picked[i], :, top : top + 32, left : left + 32]
            torch.testing.assert_close(given[i].float(), expect.flip(2) if mirrored[i] else expect)

    def test_patches_are_white_after_the_filters(self):
        torch = torch_or_skip(self)
        torch.manual_seed(1)
        x = torch.nn.functional.avg_pool2d(torch.randn(20, 3, 34, 34), 3, 1)
        filters = s.whitening_filters(torch, x)
        self.assertEqual(tuple(filters.shape), (24, 3, 2, 2))
        self.assertTrue(torch.equal(filters[:12], -filters[12:]))
        seen = torch.nn.functional.conv2d(x, filters[:12]).permute(1, 0, 2, 3).flatten(1)
        covariance = seen @ seen.T / seen.size(1)
        off = covariance - torch.diag(covariance.diag())
        # The smallest eigenvalues are small next to what is added to them.
        self.assertLess(off.abs().max().item(), 1e-3)
        self.assertTrue((covariance.diag() <= 1.001).all() and covariance.diag().max() > 0.95)

    def test_directions_become_nearly_orthogonal(self):
        torch = torch_or_skip(self)
        torch.manual_seed(1)
        for rows, columns in ((16, 40), (40, 16)):
            x = s.orthogonalised(torch, torch.randn(2, rows, columns), False)
            values = torch.linalg.svdvals(x)
            self.assertTrue(values.min() > 0.3 and values.max() < 1.4, values)
            # The same matrix as a batch of one, and by the definition.
            one = torch.randn(rows, columns, dtype=torch.float64)
            (a, b, c), expect = s.COEFFICIENTS, one / one.norm()
            for _ in range(3):
                gram = expect @ expect.T
                expect = a * expect + (b * gram + c * gram @ gram) @ expect
            torch.testing.assert_close(s.orthogonalised(torch, one[None].float(), False)[0].double(), expect, atol=1e-3, rtol=1e-3)


class OnTheCpu(InFolder):
    def setUp(self):
        super().setUp()
        # Fewer channels, so that a step takes milliseconds.
        narrow = mock.patch.object(s, "WIDTHS", (24, 32, 32))
        narrow.start()
        self.addCleanup(narrow.stop)

    def files(self, train: int = 40, test: int = 20) -> Path:
        """Writes noise whose upper half is brighter for label 0, and whose lower half for label 1, as CIFAR-10's binary files."""
        rng = random.Random(3)

        def image(label: int) -> bytes:
            return bytes(rng.randrange(128) + (127 if at % 1024 // 512 == label else 0) for at in range(3072))

        for part in [*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"]:
            labels = [i % 2 for i in range(test if part.startswith("test") else train // 5)]
            (self.folder / part).write_bytes(b"".join(bytes([label]) + image(label) for label in labels))
        return self.folder

    def training(self, torch: Any, way: str = "compiled", epochs: int = 2) -> s.Speedrun:
        train, test = s.images_of(torch, "cifar10", self.files(), "cpu")
        return s.Speedrun(torch, way, train, test, 8, "flips", epochs, "none")

    def test_the_network_has_the_recipe_s_parameters_and_first_weights(self):
        torch = torch_or_skip(self)
        with mock.patch.object(s, "WIDTHS", (64, 256, 256)):
            of = self.training(torch)
        of.begin(3)
        parameters = dict(of.model.named_parameters())
        # Warpbook's records say this number; it includes the scales of the batch normalisation, which are not trained.
        self.assertEqual(sum(p.numel() for p in parameters.values()), 1_972_792)
        filters = [p for p in of.trained if p.dim() == 4]
        self.assertEqual([tuple(p.shape[:2]) for p in filters], [(64, 24), (64, 64), (256, 64), (256, 256), (256, 256), (256, 256)])
        self.assertEqual([len(alike) for alike in of.alike], [1, 1, 1, 3])
        for p in filters:
            first = p[: p.size(1)].detach()
            self.assertTrue(torch.equal(first[:, :, 1, 1], torch.eye(p.size(1))) and first.sum() == p.size(1))
        self.assertLess(of.model.head.weight.abs().max().item(), 0.10826 / 16)

    def test_a_seed_says_the_first_weights_whatever_was_trained_before(self):
        torch = torch_or_skip(self)
        of = self.training(torch)
        of.begin(3)
        first = [p.detach().clone() for p in of.trained]
        of.run(4)
        self.assertFalse(any(torch.equal(a, b) for a, b in zip(first, of.trained)))
        of.begin(3)
        self.assertTrue(all(torch.equal(a, b) for a, b in zip(first, of.trained)))
        self.assertFalse(any(momentum.any() for momentum in of.momenta))

    def test_a_step_changes_the_weights_as_the_recipe_says(self):
        torch = torch_or_skip(self)
        of = self.training(torch)
        of.begin(1)
        of.made.fill_(4)
        before = [p.detach().clone() for p in of.trained]
        gradients = [torch.randn_like(p) for p in of.trained]
        for momentum in of.momenta:
            momentum.fill_(0.5)
        with torch.no_grad():
            of.changed(of.made, tuple(gradients))
        # Step 5 of 10, and 5 of the whitening layer's 4.
        left = 1 - 4 / 10
        for i, (old, new, g) in enumerate(zip(before, of.trained, gradients)):
            if old.dim() == 4:
                direction = (g + 0.6 * (0.6 * 0.5 + g)).flatten(1)
                step = s.orthogonalised(torch, direction[None], False)[0].view_as(old)
                expect = old * len(old) ** 0.5 / old.norm() - 0.24 * left * step
            else:
                is_head, is_whitening = i == len(before) - 2, i == len(before) - 1
                rate, decay = (0.020447, 0.19563) if is_head else (106.0, 3.774e-5)
                g = g + decay * old
                expect = old - rate * (0.0 if is_whitening else left) * (g + 0.85 * (0.85 * 0.5 + g))
            torch.testing.assert_close(new.detach(), expect, atol=1e-4, rtol=1e-4)
        with torch.no_grad():
            kept = of.model.whiten.bias.detach().clone()
            of.changed(of.made, tuple(gradients[:-1]))
        self.assertTrue(torch.equal(kept, of.model.whiten.bias), "without its gradient the whitening layer's bias stays")

    def test_every_image_is_seen_once_an_epoch_and_flips_alternate(self):
        torch = torch_or_skip(self)
        for way in s.WAYS:
            of = self.training(torch, way, epochs=3)
            seen, window = [], of.window

            def watched(images: Any, picked: Any, rows: Any, columns: Any, mirrored: Any, window: Any = window, seen: list[Any] = seen) -> Any:
                if len(images) == 40:
                    seen.extend(zip(picked.tolist(), mirrored.tolist(), rows.tolist(), columns.tolist()))
                return window(images, picked, rows, columns, mirrored)

            of.window = watched
            with mock.patch.object(wr, "capture", capture):
                seconds = of.prepare(1)
            seen.clear()
            of.run(2)
            self.assertGreater(seconds, 0.0)
            epochs = [seen[at : at + 40] for at in (0, 40, 80)]
            self.assertEqual([len(epoch) for epoch in epochs], [40] * 3)
            flips = [{picked: mirrored for picked, mirrored, *_ in epoch} for epoch in epochs]
            self.assertTrue(all(sorted(flip) == list(range(40)) for flip in flips))
            self.assertEqual(flips[0], flips[2])
            self.assertEqual(flips[0], {picked: not mirrored for picked, mirrored in flips[1].items()})
            self.assertNotEqual([picked for picked, *_ in epochs[0]], [picked for picked, *_ in epochs[1]])
            self.assertEqual({row for *_, row, _ in seen} | {column for *_, column in seen}, set(range(-2, 3)))

    def test_it_learns_and_writes_a_record_that_merges(self):
        torch_or_skip(self)
        of = record("f32", WITHOUT_GPU.device, accuracy=75.0, samples=80, batch=16)
        arguments = self.arguments(of, "--data", str(self.files(train=80)), "--seeds", "2", "--seed", "4", "--epochs", "4", "--mode", "none", "--author", "Ada")
        with contextlib.redirect_stderr(io.StringIO()) as said:
            code = s.main(arguments)
        self.assertEqual(code, 0, said.getvalue())
        written = json.loads((self.folder / "out.json").read_text(encoding="utf-8"))
        self.check_record(written)
        for key in ("experiment", "title", "descriptor", "problems"):
            self.assertEqual(written[key], of[key])
        self.assertEqual((written["author"], written["policy"]["samples"]), ("Ada", 2))
        (rung,), (row,) = written["rungs"], written["measurements"]
        self.assertEqual((rung["id"], rung["runner"]["external"][:7]), ("torch_eager_fp32_4_epochs", "PyTorch"))
        self.assertEqual((len(row["samples_us"]), [t["of"] for t in row["test"]], row["steps"]), (2, [20, 20], 20))
        self.assertIn("each training then has 20 steps, 4 epochs of 5.", written["notes"][0])
        self.assertEqual(written["notes"][-1], "The samples are of the seeds 4 to 5, in this order.")
        self.assertIn("seed 5: ", said.getvalue())

    def test_files_that_are_not_those_of_the_record_are_refused(self):
        torch_or_skip(self)
        folder = self.files(test=10)
        for data, expect in ((folder, "has 10 test images, but the record is of 20"), (folder / "none", "cannot be read")):
            with contextlib.redirect_stderr(io.StringIO()) as said:
                code = s.main(self.arguments(record("f32", WITHOUT_GPU.device), "--data", str(data), "--mode", "none"))
            self.assertEqual(code, 2)
            self.assertIn(expect, said.getvalue())


if __name__ == "__main__":
    unittest.main()
