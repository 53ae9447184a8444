"""Tests of training.py that need no GPU, and PyTorch only where it is there: python3 -m unittest, in this folder."""

from __future__ import annotations

import contextlib
import sys
import unittest
import warnings
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent))

import batches
import training
import test_warpbook_op
import warpbook_op
import warpbook_record as wr
from testing import WITH_GPU, WITHOUT_GPU, InFolder, like, outcomes, problem, torch_or_skip


def capture(torch, warm_up, work):
    """Returns a graph whose replay repeats the work."""
    warm_up()
    return SimpleNamespace(replay=work)


def stuck(torch, warm_up, work):
    """Returns a graph whose replay does nothing."""
    warm_up()
    return SimpleNamespace(replay=lambda: None)


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
        self.refused(lambda: self.settings(training.TrainingSteps, unknown), "`vgg` is not one of the networks")

    def test_without_a_gpu_nothing_is_trained(self):
        ladder, problems = self.ladder(None, problem("m", "f32", network="mnist", batch=8), machine=WITHOUT_GPU)
        self.assertEqual(ladder.obstacle(training.WAYS[0], problems[0]), "trains on a GPU")

    def test_every_way_has_its_options(self):
        self.assertEqual([way.id for way in training.WAYS], list(training.OPTIONS))
        self.assertEqual(len(training.WAYS), 12)

    def test_every_way_has_one_that_gathers(self):
        for plain, gathered in zip(training.WAYS[:5], training.WAYS[5:10], strict=True):
            options, more = training.OPTIONS[plain.id], training.OPTIONS[gathered.id]
            self.assertEqual(gathered.id, f"{plain.id}_gathered")
            self.assertEqual(gathered.title.replace(" gathered,", ""), plain.title)
            self.assertIn("gathered", gathered.title[:26], "what a chart shows of it")
            self.assertEqual((gathered.graph, replace(more, gathered=False)), (plain.graph, options))
            self.assertEqual((options.gathered, more.gathered), (False, True))
            self.assertTrue(gathered.idea.startswith(plain.idea) and "without the data set" in gathered.idea)
            self.assertEqual("in the graph" in gathered.idea, plain.graph)

    def test_a_loss_that_is_off_fails_and_so_does_nan(self):
        ladder, _ = self.ladder(None, problem("m", "f32", network="mnist", batch=8))
        checks = ladder.judge(None, [(2.0, 2.00001, 1e-5), (2.0, 2.1, 1e-5), (float("nan"), 2.0, 1e-2)])
        self.assertEqual([check.passed for check in checks], [True, False, False])

    def test_a_captured_step_comes_after_its_warm_up(self):
        calls = []
        step = training.Training.__new__(training.Training)
        step.torch, step.tf32 = None, lambda: calls.append("tf32")
        step.batches = SimpleNamespace(start=lambda: calls.append("start"))
        step.step = lambda: calls.append("step")
        step.optimizer = SimpleNamespace(zero_grad=lambda set_to_none: calls.append("no gradients"))

        def capture(torch, warm_up, work):
            warm_up()
            calls.append("capture")
            work()
            return SimpleNamespace(replay=lambda: calls.append("replay"))

        with mock.patch.object(wr, "capture", capture):
            step.capture()
            self.assertEqual(calls, ["tf32", *["start", "step"] * 4, "no gradients", "capture", "step"])
            calls.clear()
            step.repeat(2)
        self.assertEqual(calls, ["start", "replay"] * 2, "what is captured is not run, so it starts no batch")

    def on_the_cpu(self, torch):
        """Pretends that the CPU is a GPU with 100 bytes in use before a way is built, and a later peak of 1,000,100."""

        class Stopwatch:
            def __init__(self, torch):
                pass

            def __call__(self, region):
                return wr.cpu_stopwatch(region)

        stack = contextlib.ExitStack()
        cuda = {"synchronize": lambda: None, "reset_peak_memory_stats": lambda: None, "empty_cache": lambda: None}
        cuda |= {"memory_allocated": lambda: 100, "max_memory_allocated": lambda: 1_000_100}
        stack.enter_context(mock.patch.multiple(torch.cuda, **cuda))
        stack.enter_context(mock.patch.multiple(wr, CudaStopwatch=Stopwatch, capture=capture))
        stack.enter_context(mock.patch.object(torch, "compile", lambda f, dynamic: f))
        stack.enter_context(mock.patch.multiple(warpbook_op, call=test_warpbook_op.on_the_cpu, library=lambda: None))
        stack.enter_context(mock.patch.dict(batches.IMAGES, mnist=(9, (1, 28, 28), 0.1307, 0.3081)))
        # On CPU tensors, CUDA's autocast has no effect and they stay in fp32; torch.amp warns that there is no CUDA.
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        return stack

    def test_every_way_trains_on_its_batches_and_is_recorded(self):
        torch = torch_or_skip(self)
        problems = [
            problem("m", "f32", network="mnist", batch=4),
            problem("a", "f32", network="amp-recipe", batch=2, features=8),
        ]
        built, tf32, candidate = [], [], training.TrainingSteps.candidate

        def build(ladder, way, prepared):
            made = candidate(ladder, way, prepared)
            built.append((type(made.batches).__name__, made.batches.captured))
            # The settings must be the same in the steps whose peak is measured and in those that are timed.
            tf32.append(torch.backends.cuda.matmul.allow_tf32)
            self.assertTrue(torch.backends.cudnn.benchmark)
            return made

        with self.on_the_cpu(torch), mock.patch.object(training.TrainingSteps, "candidate", build):
            ladder, _ = self.ladder(torch, *problems)
            ladder.device = "cpu"
            record = ladder.run()
        self.check_record(record)
        self.assertEqual([row["outcome"]["status"] for row in record["measurements"]], ["measured"] * 24)
        # Ready batches are copied if a way needs them channels last, and the copy is not counted either.
        copied = training.READY * 4 * 28 * 28 * 4
        peaks = [row["peak_bytes"] for row in record["measurements"]]
        mnist = [1_000_000] * 3 + [1_000_000 - copied] * 2 + [1_000_000] * 5 + [1_000_000 - copied] * 2
        self.assertEqual(peaks, mnist + [1_000_000] * 12)
        dtypes = [*["f32", "tf32", "f16", "f16", "bf16"] * 2, "f16", "f16"] * 2
        self.assertEqual([row["dtype"] for row in record["measurements"]], dtypes)
        graphs = [False, False, False, True, True]
        self.assertEqual(tf32, [*[False, True, False, False, False] * 2, False, False] * 2)
        kinds = [(kind, graph) for kind in ("Ready", "Gathered") for graph in graphs]
        self.assertEqual(built, [*kinds, ("Ready", False), ("Ready", True)] * 2)

    def test_ways_with_our_layers_need_the_library(self):
        problems = [problem("m", "f32", network="mnist", batch=8)]
        ladder, [first] = self.ladder(None, *problems)
        missing = mock.Mock(side_effect=wr.Unavailable("needs the library"))
        with mock.patch.object(warpbook_op, "library", missing):
            why = {way.id: ladder.obstacle(way, first) for way in training.WAYS}
        self.assertEqual({name for name, text in why.items() if text}, {way.id for way in training.OWN_WAYS})
        self.assertEqual(set(why.values()), {None, "needs the library"})

    def test_a_gathered_step_that_repeats_a_batch_fails(self):
        torch = torch_or_skip(self)
        rows = problem("a", "f32", network="amp-recipe", batch=2, features=8)
        with self.on_the_cpu(torch), mock.patch.object(wr, "capture", stuck):
            ladder, _ = self.ladder(torch, rows)
            ladder.device = "cpu"
            found = outcomes(ladder.run())
        self.assertEqual(found["torch_amp_fp16_graph"], {"status": "measured"})
        for graph in ("torch_amp_fp16_graph_gathered", "torch_amp_bf16_graph_gathered"):
            self.assertEqual(found[graph], wr.failed("RuntimeError: the step did not take batch 4 of the epoch"))

    def test_data_sets_are_drawn_only_for_ways_that_gather(self):
        inputs = training.Inputs(torch_or_skip(self), training.Sizes("amp-recipe", 2, 8), "cpu")
        self.assertEqual((len(inputs.data), inputs.data is inputs.data), (100, True), "once for all of them")
        self.assertNotIn("ready", vars(inputs))

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
