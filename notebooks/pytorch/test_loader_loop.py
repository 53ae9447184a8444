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
from testing import WITH_GPU, InFolder, torch_or_skip


def idx(*shape: int, data: bytes) -> bytes:
    return b"\0\0\x08" + bytes([len(shape)]) + struct.pack(f">{len(shape)}I", *shape) + data


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
            ("short", "6 bytes, but has 5"),
            ("none", "Name MNIST's folder by --data"),
        ]:
            self.refused(lambda name=name: loader_loop.idx(self.folder / name), expect)
        (self.folder / "train-images-idx3-ubyte").write_bytes(idx(2, 1, 1, data=b"12"))
        (self.folder / "train-labels-idx1-ubyte").write_bytes(idx(3, data=b"123"))
        self.refused(lambda: loader_loop.images_and_labels(self.folder, "train"), "3 labels for images of (2, 1, 1)")

    def test_settings_are_checked_before_anything_runs(self):
        out = str(self.folder / "o.json")
        a = loader_loop.parse(["--data", "d", "--out", out, "--epochs", "3"])
        self.assertEqual((a.data, a.epochs, a.persistent), (Path("d"), 3, False))
        self.refused(lambda: loader_loop.parse(["--data", "d", "--out", out, "--epochs", "0"]), "at least one")
        self.refused(lambda: loader_loop.parse(["--data", "d", "--out", str(self.folder / "no/o.json")]), "no folder")
        with contextlib.redirect_stderr(io.StringIO()) as said, mock.patch.object(wr, "load_torch", side_effect=wr.Refused("no torch")):
            self.assertEqual(loader_loop.main(["--data", "d", "--out", out]), 2)
        self.assertIn("no torch", said.getvalue())

    def test_the_file_says_what_it_was_measured_on(self):
        rows = [loader_loop.Row(512, "amp-fp16", "loader", 2360, 12.5, 1 << 20, 0.99)]
        value = json.loads(json.dumps(loader_loop.written(WITH_GPU, 20, rows)))
        self.assertEqual((value["format"], value["device"], value["epochs"]), (1, "NVIDIA Test", 20))
        self.assertEqual(value["rows"][0]["precision"], "amp-fp16")
        self.assertEqual(value["rows"][0]["steps"], 2360)


class Loops(InFolder):
    def test_every_feed_trains_on_all_images(self):
        torch = torch_or_skip(self)
        for part, count in (("train", 40), ("t10k", 10)):
            # Of each label another half of the image is white.
            pixels = b"".join((b"\xff" * 392 + b"\0" * 392) if i % 2 else (b"\0" * 392 + b"\xff" * 392) for i in range(count))
            (self.folder / f"{part}-images-idx3-ubyte").write_bytes(idx(count, 28, 28, data=pixels))
            (self.folder / f"{part}-labels-idx1-ubyte").write_bytes(idx(count, data=bytes(i % 2 for i in range(count))))
        trained = loader_loop.Trained(torch, "cpu", self.folder, 3, False)
        for feed in loader_loop.FEEDS:
            row = trained.run(16, False, feed)
            # The last batch of an epoch has 8 images.
            self.assertEqual((row.steps, row.feed, row.precision, row.peak_bytes), (9, feed, "fp32", 0))
            self.assertEqual(row.accuracy, 1.0)
            self.assertGreater(row.seconds, 0.0)


if __name__ == "__main__":
    unittest.main()
