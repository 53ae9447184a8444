"""The batches of training.py: some that lie ready on the device, or new ones that every step gathers from the data set.

`Ready` and `Gathered` are used alike: `start` on the host before a step; `take` within it, which a CUDA graph may capture; and
`checked` for the batch that the loss is checked with.
"""

from __future__ import annotations

from typing import Any

import warpbook_record as wr

# The image data sets: number of samples, [channels, height, width], and mean and deviation of pixels between 0 and 1.
IMAGES = {"mnist": (60_000, (1, 28, 28), 0.1307, 0.3081), "cifar10": (50_000, (3, 32, 32), 0.5, 0.5)}
CLASSES = 10
# Number of ready batches.
READY = 8
# Number of batches in the AMP recipe's data set: AMP_BATCHES in crates/warpbook-experiments/src/training/workload.rs.
AMP_BATCHES = 50
# Width in pixels of the black border from which random crops are taken.
BORDER = 4


def normalised(x: Any, mean: float, deviation: float) -> Any:
    """Converts bytes to numbers whose mean is 0."""
    return (x.float() / 255 - mean) / deviation


def crop_and_flip(torch: Any, x: Any, rows: Any, columns: Any, mirrored: Any) -> Any:
    """Crops windows of images [n, c, h, w] within a black border, at these rows and columns [n], and mirrors those that `mirrored` marks."""
    n, _, height, width = x.shape
    bordered = torch.nn.functional.pad(x, (BORDER,) * 4)
    windows = bordered.unfold(2, height, 1).unfold(3, width, 1)
    x = windows[torch.arange(n, device=x.device), :, rows, columns]
    return torch.where(mirrored[:, None, None, None], x.flip(3), x)


def augmented(torch: Any, x: Any) -> Any:
    """Crops at random and mirrors half of the images; the random numbers are drawn on the device."""
    n = x.shape[0]
    rows, columns = torch.randint(2 * BORDER + 1, (2, n), device=x.device)
    return crop_and_flip(torch, x, rows, columns, torch.rand(n, device=x.device) < 0.5)


class DataSet:
    """Samples on the device in their stored form: bytes and labels, or rows of fp32 and their targets. The values are random."""

    def __init__(self, torch: Any, network: str, batch: int, features: int, device: str):
        self.torch, self.network = torch, network
        draws = {"generator": torch.Generator(device=device).manual_seed(1), "device": device}
        if network == "amp-recipe":
            shape = (AMP_BATCHES * batch, features)
            self.inputs, self.targets = torch.randn(shape, **draws), torch.randn(shape, **draws)
            return
        count, shape, mean, _ = IMAGES[network]
        # Pixels reach from 0 to twice the mean, so the mean of the normalised images is 0, as in the data set.
        most = min(round(2 * 255 * mean), 255)
        self.inputs = torch.randint(most + 1, (count, *shape), dtype=torch.uint8, **draws)
        self.targets = torch.randint(CLASSES, (count,), **draws)

    def __len__(self) -> int:
        return len(self.inputs)

    def batch(self, indices: Any, channels_last: bool) -> tuple[Any, Any]:
        """Returns the samples of these indices in the form that a network takes, with random crops and flips for CIFAR-10."""
        x, y = self.inputs.index_select(0, indices), self.targets.index_select(0, indices)
        if self.network == "amp-recipe":
            return x, y
        if self.network == "cifar10":
            x = augmented(self.torch, x)
        if channels_last:
            x = x.contiguous(memory_format=self.torch.channels_last)
        _, _, mean, deviation = IMAGES[self.network]
        return normalised(x, mean, deviation), y


class Ready:
    """Normalised batches that are ready on the device. They are taken in turn; a graph takes the same one every time."""

    def __init__(self, torch: Any, inputs: tuple[Any, Any], captured: bool, channels_last: bool = False):
        self.x, self.y = inputs
        self.captured, self.at = captured, -1
        # Number of bytes in a copy of the batches.
        self.copied = 0
        if channels_last and self.x.dim() == 5:
            self.x = torch.stack([b.contiguous(memory_format=torch.channels_last) for b in self.x])
            self.copied = self.x.numel() * self.x.element_size()
        self.static = (self.x[0].clone(), self.y[0].clone())

    def start(self) -> None:
        self.at = (self.at + 1) % len(self.x)

    def take(self) -> tuple[Any, Any]:
        return self.static if self.captured else (self.x[self.at], self.y[self.at])

    def checked(self) -> tuple[Any, Any]:
        return self.static


class Gathered:
    """Batches of a shuffled data set. The order changes with every epoch; the last samples are left out if they fill no batch.

    In a graph the device counts the batches, so that every replay takes the next one; otherwise a batch is a slice of the
    order.
    """

    def __init__(
        self,
        torch: Any,
        data: DataSet,
        size: int,
        captured: bool,
        channels_last: bool = False,
        compiled: bool = False,
    ):
        self.torch, self.captured, self.channels_last = torch, captured, channels_last
        self.batch = torch.compile(data.batch, dynamic=False) if compiled else data.batch
        device = data.inputs.device
        self.at, self.count = -1, len(data) // size
        if self.count == 0:
            raise wr.Unavailable(f"the data set has {len(data)} samples, fewer than a batch of {size}")
        self.order = torch.empty(len(data), dtype=torch.int64, device=device)
        # Batches share the memory of `order`, so a captured graph sees each new order.
        self.batches = self.order[: self.count * size].view(self.count, size)
        self.position = torch.zeros(1, dtype=torch.int64, device=device)
        # Indices of the samples in the last step.
        self.indices: Any = None

    def start(self) -> None:
        self.at = (self.at + 1) % self.count
        if self.at == 0:
            self.torch.randperm(len(self.order), out=self.order)

    def take(self) -> tuple[Any, Any]:
        if self.captured:
            self.indices = self.batches.index_select(0, self.position)[0]
            self.position.add_(1).remainder_(self.count)
        else:
            self.indices = self.batches[self.at]
        return self.batch(self.indices, self.channels_last)

    def checked(self) -> tuple[Any, Any]:
        """Crops and flips the last step's batch again and returns it; raises an error if the step did not take the right batch."""
        if not self.torch.equal(self.indices, self.batches[self.at]):
            raise RuntimeError(f"the step did not take batch {self.at} of the epoch")
        return self.batch(self.indices, self.channels_last)
