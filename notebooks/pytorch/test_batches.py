"""Tests of batches.py; they need PyTorch, and one of them a GPU: python3 -m unittest, in this folder."""

from __future__ import annotations

import sys
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent))

import batches
import warpbook_record as wr
from testing import torch_or_skip

# Small data sets with the same kinds of samples.
FEW = {"mnist": (20, (1, 5, 4), 0.1307, 0.3081), "cifar10": (21, (3, 6, 6), 0.5, 0.5)}


class OfADataSet(unittest.TestCase):
    def setUp(self):
        self.torch = torch_or_skip(self)
        patch = mock.patch.dict(batches.IMAGES, FEW)
        patch.start()
        self.addCleanup(patch.stop)

    def data(self, network: str = "mnist", batch: int = 6, features: int = 8) -> batches.DataSet:
        return batches.DataSet(self.torch, network, batch, features, "cpu")


class Published(unittest.TestCase):
    def test_data_sets_have_the_sizes_of_the_published_ones(self):
        self.assertEqual(batches.IMAGES["mnist"], (60_000, (1, 28, 28), 0.1307, 0.3081))
        self.assertEqual(batches.IMAGES["cifar10"], (50_000, (3, 32, 32), 0.5, 0.5))


class Augmentation(OfADataSet):
    def test_a_crop_is_a_window_of_the_image_within_black(self):
        torch = self.torch
        images = torch.randint(1, 256, (4, 3, 6, 5), dtype=torch.uint8)
        rows, columns = torch.tensor([4, 0, 8, 3]), torch.tensor([4, 8, 1, 0])
        mirrored = torch.tensor([False, False, True, True])
        got = batches.crop_and_flip(torch, images, rows, columns, mirrored)
        for i, image in enumerate(images):
            for y in range(6):
                for x in range(5):
                    from_y = y + int(rows[i]) - 4
                    from_x = (4 - x if mirrored[i] else x) + int(columns[i]) - 4
                    inside = 0 <= from_y < 6 and 0 <= from_x < 5
                    want = image[:, from_y, from_x] if inside else torch.zeros(3)
                    self.assertEqual(got[i, :, y, x].tolist(), want.tolist(), (i, y, x))
        self.assertTrue(torch.equal(got[0], images[0]), "from the fourth row and column on it is the image itself")
        self.assertEqual(batches.normalised(got[1], 0.5, 0.5).min().item(), -1.0, "black outside")

    def test_every_place_is_drawn_and_half_the_images_are_flipped(self):
        torch = self.torch
        torch.manual_seed(3)
        n = 4000
        # The position of the bright pixel shows where the crop begins; the pixel next to it shows whether the image is flipped.
        images = torch.zeros((n, 1, 16, 16), dtype=torch.uint8)
        images[:, 0, 8, 7], images[:, 0, 8, 8] = 200, 100
        got = batches.augmented(torch, images)
        bright, dim = (got == 200).nonzero(), (got == 100).nonzero()
        self.assertEqual((len(bright), len(dim)), (n, n))
        turned = dim[:, 3] < bright[:, 3]
        self.assertAlmostEqual(turned.float().mean().item(), 0.5, delta=0.05)
        column = torch.where(turned, 15 - bright[:, 3], bright[:, 3])
        places = torch.stack([8 - bright[:, 2], 7 - column]).unique(dim=1)
        self.assertEqual(places.tolist(), [[y for y in range(-4, 5) for _ in range(9)], list(range(-4, 5)) * 9])

    def test_bytes_are_normalised_as_the_recipes_say(self):
        x = batches.normalised(self.torch.tensor([0, 51, 255], dtype=self.torch.uint8), 0.1307, 0.3081)
        for got, byte in zip(x.tolist(), (0.0, 0.2, 1.0)):
            self.assertAlmostEqual(got, (byte - 0.1307) / 0.3081, places=6)


class Sets(OfADataSet):
    def test_data_sets_lie_as_they_are_stored(self):
        torch = self.torch
        for network, (count, shape, mean, deviation) in FEW.items():
            data = self.data(network)
            self.assertEqual((tuple(data.inputs.shape), data.inputs.dtype), ((count, *shape), torch.uint8))
            self.assertEqual((tuple(data.targets.shape), data.targets.dtype), ((count,), torch.int64))
            self.assertTrue(0 <= data.targets.min() and data.targets.max() < 10)
            self.assertLess(abs(batches.normalised(data.inputs, mean, deviation).mean().item()), 0.1)
        rows = self.data("amp-recipe")
        self.assertEqual(tuple(rows.inputs.shape), (50 * 6, 8))
        self.assertEqual((rows.inputs.shape, rows.inputs.dtype), (rows.targets.shape, torch.float32))
        self.assertFalse(torch.equal(rows.inputs, rows.targets))
        self.assertTrue(torch.equal(rows.inputs, self.data("amp-recipe").inputs), "the same each time")

    def test_a_batch_has_the_rows_and_labels_of_its_indices(self):
        torch, indices = self.torch, self.torch.tensor([7, 0, 19, 7])
        for channels_last in (False, True):
            data = self.data("mnist")
            x, y = data.batch(indices, channels_last)
            self.assertTrue(torch.equal(x, batches.normalised(data.inputs[indices], 0.1307, 0.3081)))
            self.assertTrue(torch.equal(y, data.targets[indices]))
            rows = self.data("amp-recipe")
            x, y = rows.batch(indices, channels_last)
            self.assertTrue(torch.equal(x, rows.inputs[indices]) and torch.equal(y, rows.targets[indices]))

    def test_only_images_of_cifar_are_augmented(self):
        torch, data, indices = self.torch, self.data("cifar10"), self.torch.tensor([3, 20])
        drawn = (torch.tensor([[0, 8], [5, 4]]), torch.tensor([0.7, 0.1]))
        draws = {"randint": lambda *_, **__: drawn[0], "rand": lambda *_, **__: drawn[1]}
        with mock.patch.multiple(torch, **draws):
            x, y = data.batch(indices, True)
        want = batches.crop_and_flip(torch, data.inputs[indices], *drawn[0], torch.tensor([False, True]))
        self.assertTrue(torch.equal(x, batches.normalised(want, 0.5, 0.5)))
        self.assertTrue(torch.equal(y, data.targets[indices]))
        self.assertTrue(x.is_contiguous(memory_format=torch.channels_last), "as the network takes it")
        self.assertTrue(data.batch(indices, False)[0].is_contiguous())


class InTurn(OfADataSet):
    def epochs(self, captured: bool, size: int, epochs: int) -> list[list[int]]:
        """Returns the samples of each epoch. Code that a graph would replay is simply called again."""
        data = self.data("mnist")
        # Every pixel of an image is the image's number.
        data.inputs = self.torch.arange(20, dtype=self.torch.uint8).view(20, 1, 1, 1).repeat(1, 1, 5, 4)
        gathered = batches.Gathered(self.torch, data, size, captured)
        found: list[list[int]] = []
        for _ in range(epochs):
            found.append([])
            for _ in range(20 // size):
                gathered.start()
                x, y = gathered.take()
                numbers = (x[:, 0, 0, 0] * 0.3081 + 0.1307) * 255
                found[-1] += numbers.round().int().tolist()
                self.assertEqual(y.tolist(), data.targets[found[-1][-size:]].tolist())
                gathered.checked()
            self.assertEqual(int(gathered.position), 0, "the device's count has wrapped, or was not needed")
        return found

    def test_every_epoch_has_each_sample_once_in_another_order(self):
        for captured in (False, True):
            self.torch.manual_seed(1)
            found = self.epochs(captured, 5, 3)
            self.assertEqual([sorted(epoch) for epoch in found], [list(range(20))] * 3)
            self.assertEqual(len({tuple(epoch) for epoch in found}), 3)

    def test_a_graph_takes_the_batches_that_slices_are(self):
        ways = []
        for captured in (False, True):
            self.torch.manual_seed(1)
            ways.append(self.epochs(captured, 5, 2))
        self.assertEqual(ways[0], ways[1])

    def test_samples_that_fill_no_batch_are_left_out(self):
        for epoch in self.epochs(True, 6, 3):
            self.assertEqual((len(epoch), len(set(epoch))), (18, 18))

    def test_the_device_counts_the_batches_of_a_graph(self):
        gathered = batches.Gathered(self.torch, self.data("mnist"), 6, captured=True)
        seen = []
        for _ in range(5):
            gathered.start()
            gathered.take()
            seen.append((gathered.at, int(gathered.position)))
        self.assertEqual(seen, [(0, 1), (1, 2), (2, 0), (0, 1), (1, 2)])

    def test_a_step_that_takes_another_batch_is_found(self):
        for captured in (False, True):
            gathered = batches.Gathered(self.torch, self.data("mnist"), 6, captured)
            gathered.start()
            gathered.take()
            gathered.checked()
            # This simulates a replay that took the previous batch again.
            gathered.start()
            with self.assertRaisesRegex(RuntimeError, "did not take batch 1 of the epoch"):
                gathered.checked()

    def test_what_a_graph_captures_neither_waits_for_the_device_nor_depends_on_its_numbers(self):
        from torch._subclasses.fake_tensor import FakeTensorMode

        shapes = {"mnist": (6, 1, 5, 4), "cifar10": (6, 3, 6, 6), "amp-recipe": (6, 8)}
        for network, shape in shapes.items():
            # Fake tensors have no values: reading one, or using a shape that depends on one, is an error.
            with FakeTensorMode(allow_non_fake_inputs=True):
                gathered = batches.Gathered(self.torch, self.data(network), 6, captured=True, channels_last=True)
                gathered.start()
                x, y = gathered.take()
                self.assertEqual((tuple(x.shape), tuple(y.shape)[:1]), (shape, (6,)))
                with self.assertRaises(Exception):
                    int(gathered.position)

    def test_a_batch_larger_than_the_data_set_is_refused(self):
        with self.assertRaisesRegex(wr.Unavailable, "has 20 samples, fewer than a batch of 21"):
            batches.Gathered(self.torch, self.data("mnist"), 21, captured=False)

    def test_the_batch_of_a_compiled_way_is_compiled(self):
        with mock.patch.object(self.torch, "compile", lambda f, dynamic: lambda *a: ("compiled", *f(*a), dynamic)):
            gathered = batches.Gathered(self.torch, self.data("mnist"), 6, True, True, compiled=True)
        gathered.start()
        self.assertEqual(gathered.take()[::3], ("compiled", False))

    def test_ready_batches_come_in_turn_or_as_one(self):
        torch = self.torch
        inputs = (torch.arange(3.0)[:, None, None, None, None].expand(3, 2, 3, 4, 4), torch.arange(6).view(3, 2))
        for captured, want in ((False, [0, 1, 2, 0]), (True, [0] * 4)):
            ready = batches.Ready(torch, inputs, captured, channels_last=True)
            taken = []
            for _ in range(4):
                ready.start()
                x, y = ready.take()
                self.assertEqual(y.tolist(), inputs[1][int(x[0, 0, 0, 0])].tolist())
                self.assertTrue(x.is_contiguous(memory_format=torch.channels_last))
                taken.append(int(x[0, 0, 0, 0]))
            self.assertEqual((taken, ready.copied), (want, 3 * 2 * 3 * 4 * 4 * 4))
            self.assertEqual(ready.checked()[1].tolist(), [0, 1])
        rows = batches.Ready(torch, (torch.zeros(3, 2, 8), torch.zeros(3, 2, 8)), True, channels_last=True)
        self.assertEqual(rows.copied, 0, "rows have no layout")


class OnAGpu(OfADataSet):
    def test_every_replay_takes_the_next_batch_and_draws_new_crops(self):
        torch = self.torch
        if not torch.cuda.is_available():
            self.skipTest("there is no GPU")
        for compiled in (False, True):
            data = batches.DataSet(torch, "cifar10", 6, 8, "cuda")
            # All images are the same, so that batches differ only in their crops and flips; a label identifies the sample.
            data.inputs, data.targets = data.inputs[:1].repeat(21, 1, 1, 1), torch.arange(21, device="cuda")
            gathered = batches.Gathered(torch, data, 6, True, True, compiled)
            taken: dict[str, object] = {}

            def warm_up() -> None:
                for _ in range(3):
                    gathered.start()
                    gathered.take()

            def work() -> None:
                taken["x"], taken["y"] = gathered.take()

            graph, seen = wr.capture(torch, warm_up, work), []
            for replay in range(7):
                with self.subTest(compiled=compiled, replay=replay):
                    gathered.start()
                    graph.replay()
                    gathered.checked()
                    self.assertEqual(taken["y"].tolist(), gathered.batches[gathered.at].tolist())
                    self.assertFalse(any(torch.equal(taken["x"], x) for x in seen), "crops of another replay")
                    seen.append(taken["x"].clone())


if __name__ == "__main__":
    unittest.main()
