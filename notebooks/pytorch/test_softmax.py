"""Tests of softmax.py that need neither PyTorch nor a GPU: python3 -m unittest, in this folder."""

from __future__ import annotations

import math
import sys
import unittest
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent))

import softmax
import warpbook_record as wr
from testing import WITH_GPU, InFolder, like, problem, torch_or_skip


class SoftmaxRows(InFolder):
    def test_sizes_are_read_from_the_record(self):
        settings = self.settings(softmax.Softmax, like("softmax", [problem("s", "f32", rows=64, columns=1000)]))
        ladder = softmax.Softmax(None, settings, WITH_GPU, say=lambda line: None)
        self.assertEqual(ladder.read(settings.problems[0]), softmax.Rows(64, 1000, 1))
        self.assertEqual(ladder.figure(settings.problems[0], 0.512), "1000 GB/s", "read once and written once")
        self.assertIsNone(ladder.obstacle(softmax.WAYS[0], settings.problems[0]))
        half = wr.Problem(problem("s", "f16", rows=64, columns=1000))
        self.assertEqual(ladder.obstacle(softmax.WAYS[0], half), "is written for f32, not for f16")
        missing = like("softmax", [problem("s", "f32", rows=64)])
        self.refused(lambda: self.settings(softmax.Softmax, missing), "has no size `columns`")

    def test_the_tolerance_grows_with_the_root_of_the_columns(self):
        self.assertEqual(softmax.tolerance(1024), (8 * 32 + 32) * 2.0**-23)

    def test_ways_call_torch_softmax(self):
        calls = []
        torch = SimpleNamespace(softmax=lambda x, dim: (calls.append((x, dim)), x)[1])
        torch.compile = lambda function, **options: (calls.append(options), function)[1]
        self.assertEqual(softmax.eager(torch, 2)(), 2)
        self.assertEqual(softmax.compiled(torch, 3)(), 3)
        self.assertEqual(calls, [(2, 1), {"dynamic": False}, (3, 1), (3, 1)])

    def test_right_rows_pass_and_wrong_ones_do_not(self):
        torch = torch_or_skip(self)
        settings = self.settings(softmax.Softmax, like("softmax", [problem("s", "f32", rows=64, columns=1000)]))
        ladder = softmax.Softmax(torch, settings, wr.Machine("2"))
        x = ladder.prepare(settings.problems[0])
        right = torch.softmax(x, dim=1)
        off, nan, columns = right.clone(), right.clone(), torch.softmax(x, dim=0)
        off[63, 999] *= 1.001
        nan[5, 5] = math.nan
        for elements in (1 << 24, 3000, 1):
            with mock.patch.object(softmax, "PANEL_ELEMENTS", elements):
                checks = ladder.judge(x, [right, off, nan, columns])
            self.assertEqual([c.passed for c in checks], [True, False, False, False], checks)
            self.assertTrue(math.isnan(checks[2].max_rel_error))
            self.assertLess(checks[0].max_rel_error, checks[0].tolerance / 4)


if __name__ == "__main__":
    unittest.main()
