"""Tests of training.py that need no GPU, and PyTorch only where it is there: python3 -m unittest, in this folder."""

from __future__ import annotations

import sys
import unittest
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent))

import training
import warpbook_record as wr
from testing import WITH_GPU, WITHOUT_GPU, InFolder, like, problem, torch_or_skip


class TrainingSteps(InFolder):
    def ladder(self, torch, *problems, machine=WITH_GPU):
        settings = self.settings(training.TrainingSteps, like("training", list(problems)))
        return training.TrainingSteps(torch, settings, machine, say=lambda line: None), settings.problems

    def test_sizes_are_read_from_the_record(self):
        ladder, problems = self.ladder(
            None,
            problem("m", "f32", network="mnist", batch=512),
            problem("a", "f32", network="amp-recipe", batch=64, features=128),
        )
        self.assertEqual(ladder.read(problems[0]), training.Sizes("mnist", 512, 1))
        self.assertEqual(ladder.read(problems[1]), training.Sizes("amp-recipe", 64, 128))
        self.assertEqual(ladder.figure(problems[0], 512.0), "1e+06 samples/s")
        self.assertIsNone(ladder.obstacle(training.WAYS[0], problems[0]))
        unknown = like("training", [problem("m", "f32", network="vgg", batch=512)])
        self.refused(lambda: self.settings(training.TrainingSteps, unknown), "`vgg` is none of the networks")

    def test_without_a_gpu_nothing_is_trained(self):
        ladder, problems = self.ladder(None, problem("m", "f32", network="mnist", batch=8), machine=WITHOUT_GPU)
        self.assertEqual(ladder.obstacle(training.WAYS[0], problems[0]), "trains on a GPU")

    def test_every_way_has_its_options(self):
        self.assertEqual([way.id for way in training.WAYS], list(training.OPTIONS))

    def test_a_loss_that_is_off_fails_and_so_does_nan(self):
        ladder, _ = self.ladder(None, problem("m", "f32", network="mnist", batch=8))
        checks = ladder.judge(None, [(2.0, 2.00001, 1e-5), (2.0, 2.1, 1e-5), (float("nan"), 2.0, 1e-2)])
        self.assertEqual([check.passed for check in checks], [True, False, False])

    def test_a_captured_step_comes_after_its_warm_up(self):
        calls = []
        step = training.Training.__new__(training.Training)
        step.torch, step.static, step.tf32 = None, ("x", "y"), lambda: calls.append("tf32")
        step.step = lambda x, y: calls.append((x, y))
        step.optimizer = SimpleNamespace(zero_grad=lambda set_to_none: calls.append("no gradients"))

        def capture(torch, warm_up, work):
            warm_up()
            calls.append("capture")
            work()
            return "graph"

        with mock.patch.object(wr, "capture", capture):
            step.capture()
        self.assertEqual(calls, ["tf32", *[("x", "y")] * 4, "no gradients", "capture", ("x", "y")])
        self.assertEqual(step.graph, "graph")

    def test_networks_have_the_parameters_of_warpbook_s(self):
        torch = torch_or_skip(self)
        counts = {"mnist": 1_199_882, "cifar10": 1_147_466, "amp-recipe": 3 * (16 * 16 + 16)}
        for name, build in training.NETWORKS.items():
            model = build(torch, training.Sizes(name, 4, 16))
            self.assertEqual(sum(p.numel() for p in model.parameters()), counts[name])
            x, y = training.Sizes(name, 4, 16).inputs(torch, "cpu")
            loss = training.Sizes(name, 4, 16).loss(torch)(model(x[0]), y[0])
            self.assertTrue(torch.isfinite(loss))


if __name__ == "__main__":
    unittest.main()
