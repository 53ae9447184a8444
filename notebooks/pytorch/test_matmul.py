"""Tests of matmul.py that need neither PyTorch nor a GPU: python3 -m unittest, in this folder."""

from __future__ import annotations

import math
import sys
import unittest
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import matmul
import warpbook_record as wr
from testing import GPU, WITH_GPU, InFolder, like, problem, torch_or_skip


def product(dtype: str, m: int = 30, n: int = 20, k: int = 40, **more: Any) -> dict[str, Any]:
    return problem(f"{m} × {n} × {k}", dtype, m=m, n=n, k=k, seed=1, **more)


class Products(InFolder):
    def ladder(self, *problems: dict[str, Any], machine: wr.Machine = WITH_GPU) -> matmul.Matmul:
        settings = self.settings(matmul.Matmul, like("matmul", list(problems)))
        return matmul.Matmul(None, settings, machine, say=lambda line: None)

    def test_sizes_are_read_from_the_record(self):
        def check(sizes: dict[str, Any], expect: matmul.Product):
            settings = self.settings(matmul.Matmul, like("matmul", [problem("s", "bf16", **sizes)]))
            self.assertEqual(matmul.Product.of(settings.problems[0]), expect)

        plain = {"m": 3, "n": 4, "k": 5}
        check(plain, matmul.Product(3, 4, 5, False, False, 1, "bf16"))
        check(plain | {"trans_a": 1, "seed": 0}, matmul.Product(3, 4, 5, True, False, 0, "bf16"))
        check(plain | {"trans_a": 0, "trans_b": "yes"}, matmul.Product(3, 4, 5, False, True, 1, "bf16"))
        for sizes in ({"m": 3, "n": 4}, plain | {"k": 0}, plain | {"m": "many"}, plain | {"trans_a": "maybe"}):
            record = like("matmul", [problem("s", "bf16", **sizes)])
            self.refused(lambda: self.settings(matmul.Matmul, record), "The problem `")

    def test_types_and_what_they_need(self):
        ladder = self.ladder(product("f32"))
        turing = replace(WITH_GPU, gpu=GPU | {"compute_capability": [7, 5]})
        old = self.ladder(product("f32"), machine=turing)
        for dtype, on_turing in (("f32", True), ("tf32", False), ("f16", True), ("bf16", False)):
            p = wr.Problem(product(dtype))
            self.assertIsNone(ladder.obstacle(matmul.WAYS[0], p), dtype)
            self.assertEqual(old.obstacle(matmul.WAYS[0], p) is None, on_turing, dtype)
        why = ladder.obstacle(matmul.WAYS[0], wr.Problem(product("f64")))
        self.assertEqual(why, "multiplies f32, tf32, f16, bf16, not f64")
        of_type = lambda out: ladder.obstacle(matmul.WAYS[0], wr.Problem(product("bf16", out=out)))
        self.assertEqual((of_type("bf16"), of_type("f32")), (None, "torch.matmul writes C as bf16, not as f32"))
        self.assertIsNone(ladder.obstacle(matmul.WAYS[0], wr.Problem(product("tf32", out="f32"))))

    def test_the_figure_is_operations_per_second(self):
        p = wr.Problem(product("f32", 4096, 4096, 4096))
        self.assertEqual(self.ladder(product("f32")).figure(p, 2000.0), "68.72 TFLOP/s")

    def test_the_tolerance_is_warpbooks(self):
        self.assertEqual(matmul.tolerance("bf16", 4096), 8 * 64 * 2.0**-23)
        self.assertEqual(matmul.tolerance("f32", 4096), matmul.tolerance("f16", 4096))
        self.assertEqual(matmul.tolerance("tf32", 4096), 8 * 64 * 2.0**-23 + 2.0**-12)
        self.assertEqual(matmul.tolerance("tf32", 16), 8 * 4 * 2.0**-23 + 2.0**-9)

    def test_panels_cover_every_row_once(self):
        for length, step in ((10, 3), (9, 3), (1, 5), (2048, 2048)):
            rows = [i for span in matmul.spans(length, step) for i in range(length)[span]]
            self.assertEqual(rows, list(range(length)))

    def test_ways_call_torch_matmul(self):
        calls = []
        torch = SimpleNamespace(matmul=lambda a, b: (calls.append((a, b)), a * b)[1])
        torch.compile = lambda function, **options: (calls.append(options), function)[1]
        self.assertEqual(matmul.eager(torch, 2, 3)(), 6)
        compiled = matmul.compiled(torch, 4, 5)
        options = {"dynamic": False, "mode": "max-autotune-no-cudagraphs"}
        self.assertEqual(calls, [(2, 3), options, (4, 5)], "it is compiled before it is timed")
        self.assertEqual(compiled(), 20)

    def test_a_compiler_that_fails_is_a_skipped_row(self):
        def fails(*inputs):
            raise RuntimeError("backend='inductor' raised:\nNo Triton\nmore")

        torch = SimpleNamespace(matmul=None, compile=lambda function, **options: fails)
        with self.assertRaises(wr.Unavailable) as caught:
            matmul.compiled(torch, 1, 2)
        expect = "torch.compile failed here: RuntimeError: backend='inductor' raised: No Triton"
        self.assertEqual(str(caught.exception), expect)


class WithTorch(InFolder):
    """Tests that run on a CPU, if PyTorch is installed."""

    def prepared(self, torch: Any, dtype: str, **more: Any) -> matmul.Prepared:
        settings = self.settings(matmul.Matmul, like("matmul", [product(dtype, **more)]))
        ladder = matmul.Matmul(torch, settings, wr.Machine("2"))
        prepared = ladder.prepare(settings.problems[0])
        self.assertEqual(torch.backends.cuda.matmul.allow_tf32, dtype == "tf32")
        torch.backends.cuda.matmul.allow_tf32 = False
        return prepared

    def test_right_products_pass_and_wrong_ones_do_not(self):
        torch = torch_or_skip(self)
        self.addCleanup(setattr, matmul, "PANEL", matmul.PANEL)
        for panel in (7, 2048):
            matmul.PANEL = panel
            for dtype in matmul.TYPES:
                p = self.prepared(torch, dtype)
                right = p.a @ p.b
                self.assertEqual(right.dtype, getattr(torch, matmul.TYPES[dtype][0]))
                wrong = {"off": right.clone(), "nan": right.clone(), "inf": right.clone()}
                wrong["off"][29, 19] += 1.0
                wrong["nan"][8, 8] = math.nan
                wrong["inf"][0, 0] = math.inf
                checks = matmul.judge(torch, p.a, p.b, dtype, [right, *wrong.values()])
                self.assertEqual([c.passed for c in checks], [True, False, False, False], f"{dtype} {checks}")
                self.assertTrue(math.isnan(checks[2].max_rel_error) and math.isinf(checks[3].max_abs_error))
                self.assertGreater(checks[1].max_rel_error, checks[1].tolerance)

    def test_errors_count_beyond_the_rounding_of_c(self):
        torch = torch_or_skip(self)
        a, b = torch.ones(1, 4, dtype=torch.bfloat16), torch.full((4, 1), 1.0, dtype=torch.bfloat16)
        near = lambda value: matmul.judge(torch, a, b, "bf16", [torch.tensor([[value]])])[0]
        # The half step of bf16 at 4 is 2^-8 of it.
        self.assertEqual(near(4 + 4 * 2.0**-8).max_rel_error, 0.0)
        beyond = near(4 + 8 * 2.0**-8)
        self.assertEqual((beyond.max_abs_error, beyond.max_rel_error, beyond.passed), (2.0**-5, 2.0**-8, False))

    def test_tf32_is_judged_by_what_tensor_cores_read(self):
        torch = torch_or_skip(self)
        numbers = torch.tensor([1.0 + 2.0**-11, -(1.0 + 2.0**-10 + 2.0**-20)])
        self.assertEqual(matmul.wide(torch, numbers, "tf32").tolist(), [1.0, -(1.0 + 2.0**-10)])
        self.assertEqual(matmul.wide(torch, numbers, "f32").tolist(), numbers.tolist())

    def test_transposed_matrices_are_views_of_how_they_are_stored(self):
        torch = torch_or_skip(self)
        p = self.prepared(torch, "f16", trans_a=1, trans_b="yes")
        self.assertEqual((tuple(p.a.shape), tuple(p.b.shape)), ((30, 40), (40, 20)))
        self.assertEqual((p.a.stride(), p.b.stride()), ((1, 30), (1, 40)))
        self.assertTrue(matmul.judge(torch, p.a, p.b, "f16", [p.a @ p.b])[0].passed)
        self.assertAlmostEqual(p.a.double().std().item(), 1.0, delta=0.1)


if __name__ == "__main__":
    unittest.main()
