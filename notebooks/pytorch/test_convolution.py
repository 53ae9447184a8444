"""Tests of convolution.py that need neither PyTorch nor a GPU: python3 -m unittest, in this folder."""

from __future__ import annotations

import math
import sys
import unittest
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import convolution
import warpbook_record as wr
from testing import WITH_GPU, InFolder, like, problem, torch_or_skip


def layer(kind: str, dtype: str = "f32", **more: Any) -> dict[str, Any]:
    sizes = {"batch": 3, "side": 9, "channels": 4, "filters": 5, "kernel": 3, "padding": 1} | more
    return problem(f"layer {kind}", dtype, layer="mnist-2", **{"pass": kind}, **sizes)


class Convolutions(InFolder):
    def ladder(self, *problems: dict[str, Any], torch: Any = None) -> convolution.Convolution:
        settings = self.settings(convolution.Convolution, like("convolution", list(problems)))
        machine = wr.Machine("2") if torch else WITH_GPU
        return convolution.Convolution(torch, settings, machine, say=lambda line: None)

    def test_sizes_are_read_from_the_record(self):
        p = convolution.Pass.of(wr.Problem(layer("forward", "f16", padding=0)))
        self.assertEqual(p, convolution.Pass("forward", 3, 9, 4, 5, 3, 0, 1, "f16"))
        self.assertEqual((p.out_side, p.flops, p.terms), (7, 2 * 3 * 49 * 5 * 36, 36))
        terms = lambda kind: convolution.Pass.of(wr.Problem(layer(kind))).terms
        self.assertEqual((terms("input-gradient"), terms("weight-gradient")), (45, 3 * 81))

    def test_what_it_does_not_do_says_why(self):
        ladder = self.ladder(layer("forward"))
        of = lambda p: ladder.obstacle(convolution.WAYS[0], wr.Problem(p))
        self.assertIsNone(of(layer("weight-gradient", "bf16")))
        self.assertEqual(of(layer("forward", "f64")), "multiplies f32, tf32, f16, bf16, not f64")
        self.assertIn("knows the passes", of(layer("sideways")))
        self.assertEqual(ladder.figure(wr.Problem(layer("forward")), 0.087480), "1 TFLOP/s")

    def test_right_results_pass_and_wrong_ones_do_not(self):
        torch = torch_or_skip(self)
        for kind in convolution.PASSES:
            for dtype in ("f32", "bf16"):
                ladder = self.ladder(layer(kind, dtype), torch=torch)
                work = ladder.prepare(ladder.settings.problems[0])
                # Every memory format must give the same result.
                right = [way.build(torch, work)() for way in convolution.WAYS]
                off, nan = right[0].clone(), right[0].clone()
                off.view(-1)[-1] += 100.0
                nan.view(-1)[0] = math.nan
                checks = ladder.judge(work, [*right, off, nan])
                self.assertEqual([c.passed for c in checks], [True, True, False, False], (kind, dtype, checks))

    def test_gradients_are_those_of_autograd(self):
        torch = torch_or_skip(self)
        work = self.ladder(layer("forward"), torch=torch).prepare(wr.Problem(layer("forward")))
        x, weight = work.x.clone().requires_grad_(), work.weight.clone().requires_grad_()
        torch.nn.functional.conv2d(x, weight, padding=1).backward(work.dy)
        for kind, want in (("input-gradient", x.grad), ("weight-gradient", weight.grad)):
            of = convolution.Pass.of(wr.Problem(layer(kind)))
            got = convolution.apply(torch, of, work.x, work.weight, work.dy)
            self.assertTrue(torch.allclose(got, want, atol=1e-4), kind)


if __name__ == "__main__":
    unittest.main()
