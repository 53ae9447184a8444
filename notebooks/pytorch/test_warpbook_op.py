"""Tests of warpbook_op.py that need no GPU, and PyTorch only where it is there: python3 -m unittest, in this folder."""

from __future__ import annotations

import ctypes
import json
import math
import os
import re
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent))

import warpbook_op
import warpbook_record as wr
from testing import torch_or_skip

ARGUMENTS = Path(__file__).resolve().parents[2] / "crates/warpbook-op/src/arguments.rs"


class Library(unittest.TestCase):
    def test_the_structs_are_those_of_the_library(self):
        text = ARGUMENTS.read_text(encoding="utf-8")
        types = {"u32": ctypes.c_uint32, "i32": ctypes.c_int32, "f32": ctypes.c_float, "[u32; 2]": ctypes.c_uint32 * 2}
        for name, ours in (("CProduct", warpbook_op.Product), ("CConvolution", warpbook_op.Convolution)):
            body = re.search(rf"pub struct {name} \{{(.*?)\n\}}", text, re.S)
            fields = re.findall(r"pub (\w+): ([^,]+),", body[1])
            self.assertEqual([(field, types[kind]) for field, kind in fields], list(ours._fields_))

    def test_a_library_that_is_not_there_says_how_to_build_it(self):
        with tempfile.TemporaryDirectory() as folder:
            for variables in ({"CARGO_TARGET_DIR": folder}, {warpbook_op.VARIABLE: f"{folder}/none.so"}):
                with mock.patch.dict(os.environ, variables, clear=True):
                    with self.assertRaisesRegex(wr.Unavailable, "cargo build --release -p warpbook-op"):
                        warpbook_op.library_file()
            named = Path(folder, "some.so")
            named.touch()
            with mock.patch.dict(os.environ, {warpbook_op.VARIABLE: str(named)}):
                self.assertEqual(warpbook_op.library_file(), named.resolve())

    def test_a_check_is_a_line_of_text_or_json(self):
        line = lambda as_json, right=True: warpbook_op.checked_line("linear", (5, 3, 2), "float16", "mine.cu", 1.2e-7, math.nan, right, as_json)
        self.assertEqual(line(False), "ok    linear (5, 3, 2) float16 by mine.cu: 1.2e-07 from float64, nan from differences")
        self.assertTrue(line(False, right=False).startswith("WRONG linear (5, 3, 2)"))
        expect = {"layer": "linear (5, 3, 2)", "dtype": "float16", "by": "mine.cu", "from_float64": "1.2e-07", "from_differences": "nan", "right": True}
        self.assertEqual(json.loads(line(True)), expect)

    def test_an_installed_library_lies_next_to_the_module(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, {}, clear=True):
            beside = Path(folder).resolve() / warpbook_op.library_name()
            beside.touch()
            with mock.patch.object(warpbook_op, "__file__", str(Path(folder, "warpbook_op.py"))):
                self.assertEqual(warpbook_op.library_file(), beside)

    def test_windows_are_counted_as_pytorch_does(self):
        self.assertEqual([warpbook_op.output_side(*side) for side in ((7, 3, 1, 1), (9, 3, 2, 0), (5, 5, 1, 0))], [7, 4, 1])


def on_the_cpu(torch, name, tensor, of, *arguments):
    """Computes on the CPU what the library queues, from the numbers in the struct and the arrays in memory."""
    flat = lambda t, n: torch.as_strided(t, (n,), (1,))
    if name == "warpbook_gemm":
        a, b, bias, _, c = arguments
        a, b = a.reshape(-1).view(-1, of.lda).float(), b.reshape(-1).view(-1, of.ldb).float()
        product = of.alpha * ((a.T if of.trans_a else a) @ (b.T if of.trans_b else b))
        assert product.shape == (of.m, of.n) and of.ldc == of.n and of.beta == 0
        assert (bias is None) == (of.epilogue == warpbook_op.PLAIN)
        flat(c, of.m * of.n).copy_((product if bias is None else product + bias).reshape(-1))
        return
    assert of.layout == warpbook_op.CHANNELS_LAST

    def image(t, *shape):
        n, c, h, w = shape
        return flat(t, n * c * h * w).view(n, h, w, c).permute(0, 3, 1, 2).float()

    sides = [
        (size + 2 * padding - kernel) // stride + 1
        for size, kernel, stride, padding in zip(of.size, of.kernel, of.stride, of.padding)
    ]
    x_shape, w_shape = (of.batch, of.channels, *of.size), (of.filters, of.channels, *of.kernel)
    y_shape, pairs = (of.batch, of.filters, *sides), (list(of.stride), list(of.padding))
    put = lambda to, value: flat(to, value.numel()).copy_(value.permute(0, 2, 3, 1).reshape(-1))
    if name == "warpbook_conv2d_forward":
        x, weight, bias, relu, y = arguments
        assert relu == 0
        put(y, torch.nn.functional.conv2d(image(x, *x_shape), image(weight, *w_shape), bias, *pairs))
    elif name == "warpbook_conv2d_input_gradient":
        dy, weight, mask, dx = arguments
        assert mask is None
        put(dx, torch.nn.grad.conv2d_input(x_shape, image(weight, *w_shape), image(dy, *y_shape), *pairs))
    else:
        x, dy, dweight, dbias = arguments
        put(dweight, torch.nn.grad.conv2d_weight(image(x, *x_shape), w_shape, image(dy, *y_shape), *pairs))
        if dbias is not None:
            dbias.copy_(image(dy, *y_shape).sum((0, 2, 3)))


class Layers(unittest.TestCase):
    def setUp(self):
        self.torch = torch_or_skip(self)
        patch = mock.patch.object(warpbook_op, "call", on_the_cpu)
        patch.start()
        self.addCleanup(patch.stop)

    def same(self, ours, theirs, arguments):
        torch = self.torch
        results = []
        for f in (ours, theirs):
            given = [None if a is None else a.clone().requires_grad_() for a in arguments]
            y = f(*given)
            (y * torch.linspace(-1, 1, y.numel()).view(y.shape)).sum().backward()
            results.append([y, *(a.grad for a in given if a is not None)])
        for a, b in zip(*results, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)

    def test_a_linear_layer_is_pytorch_s(self):
        torch = self.torch
        weight, bias = torch.randn(4, 3), torch.randn(4)
        for x in (torch.randn(5, 3), torch.randn(2, 6, 3), torch.randn(3)):
            self.same(warpbook_op.linear, torch.nn.functional.linear, [x, weight, bias])
        self.same(warpbook_op.linear, torch.nn.functional.linear, [torch.randn(5, 3), weight, None])

    def test_a_convolution_is_pytorch_s(self):
        torch = self.torch
        for stride, padding, kernel in (((1, 1), (0, 0), (3, 3)), ((2, 1), (1, 2), (3, 5)), ((1, 1), (1, 1), (1, 1))):
            x, weight, bias = torch.randn(2, 3, 7, 9), torch.randn(4, 3, *kernel), torch.randn(4)
            ours = lambda x, w, b=None: warpbook_op.conv2d(x, w, b, stride, padding)
            theirs = lambda x, w, b=None: torch.nn.functional.conv2d(x, w, b, stride, padding)
            self.same(ours, theirs, [x, weight, bias])
            self.same(ours, theirs, [x, weight])

    def test_a_network_is_converted_and_back(self):
        torch = self.torch
        nn = torch.nn
        model = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 25, 3))
        x = torch.randn(2, 1, 5, 5)
        want, names = model(x), list(model.state_dict())
        ours = warpbook_op.converted(model)
        self.assertEqual([type(layer).__name__ for layer in ours], ["Conv2d", "ReLU", "Flatten", "Linear"])
        self.assertIsInstance(ours[0], warpbook_op.modules()[1])
        torch.testing.assert_close(ours(x), want, rtol=1e-4, atol=1e-4)
        self.assertEqual(list(ours.state_dict()), names)
        self.assertIs(type(warpbook_op.reverted(ours)[0]), nn.Conv2d)

    def test_a_kernel_computes_the_linear_layers_only(self):
        torch = self.torch
        nn = torch.nn
        model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Flatten(), nn.Linear(4 * 9, 3))
        asked = []
        with mock.patch.object(warpbook_op, "kernel_number", lambda *of: asked.append(of) or 7):
            ours = warpbook_op.converted(model, kernel="tiles/mine.cu@03_shared_tile:BM=16,BN=16")
            self.assertIs(type(ours[0]), nn.Conv2d)
            self.assertIsInstance(ours[2], warpbook_op.modules()[0])
            ours(torch.randn(2, 1, 5, 5)).sum().backward()
        whole = f"{Path('tiles/mine.cu').resolve()}@03_shared_tile:BM=16,BN=16"
        self.assertEqual({(name, number) for _, name, number in asked}, {(whole, warpbook_op.F32)})
        self.assertEqual(len(asked), 3, "forwards and in both gradients")
        self.assertNotIn("kernel", vars(warpbook_op.reverted(ours)[2]))
        self.assertEqual(warpbook_op.named("03_shared_tile"), "03_shared_tile")

    def test_what_there_is_no_kernel_for_is_refused(self):
        nn = self.torch.nn
        for layer in (nn.Conv2d(4, 4, 3, groups=2), nn.Conv2d(4, 4, 3, dilation=2), nn.Conv2d(4, 4, 3, padding="same")):
            with self.assertRaisesRegex(wr.Refused, "without groups"):
                warpbook_op.converted(nn.Sequential(layer))
            self.assertIs(type(layer), nn.Conv2d)
        with self.assertRaisesRegex(RuntimeError, "fp32, fp16 and bf16"):
            warpbook_op.linear(self.torch.ones(1, 2, dtype=self.torch.float64), self.torch.ones(3, 2, dtype=self.torch.float64))

    def test_differences_find_a_wrong_gradient(self):
        torch = self.torch
        generator = torch.Generator().manual_seed(1)
        arguments = [torch.randn(5, 3, requires_grad=True), torch.randn(4, 3, requires_grad=True)]
        error = lambda f: warpbook_op.directional_error(torch, f, arguments, generator)
        self.assertLess(error(warpbook_op.linear), 1e-5)

        class Wrong(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, weight):
                ctx.save_for_backward(x, weight)
                return x @ weight.T

            @staticmethod
            def backward(ctx, dy):
                x, weight = ctx.saved_tensors
                return dy @ weight, 1.01 * (dy.T @ x)

        self.assertGreater(error(Wrong.apply), 1e-4)


class OnTheCpu(unittest.TestCase):
    def test_a_tensor_on_the_cpu_is_refused(self):
        torch = torch_or_skip(self)
        with self.assertRaisesRegex(RuntimeError, "call .cuda"):
            warpbook_op.linear(torch.ones(2, 3), torch.ones(4, 3))


if __name__ == "__main__":
    unittest.main()
