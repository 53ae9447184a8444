#!/usr/bin/env python3
"""Times whole trainings of the MNIST CNN in PyTorch with the loader in the loop, as lesson 30_mixed_precision does with Warpbook's.

    python3 loader_loop.py --data DIR --out loader-loop.json

Each setting (batch 512 in fp32, 512 and 1024 with autocast to fp16 and GradScaler) is trained in three ways:

    resident           all images lie on the GPU, normalised; a step picks its shuffled samples there
    loader             a DataLoader with two workers and page-locked memory; the workers convert and normalise image by image
    loader_and_losses  the same, and `loss.item()` after every step

with shuffling, TF32 off, cuDNN's fastest algorithms, SGD with momentum 0.9, and a learning rate of 0.05 that StepLR halves every five epochs. The time is that of all steps
of all epochs, loader included; starting the workers counts, as they start anew in every epoch unless --persistent is given. The test
accuracy is taken once, after the clock has stopped. Peak memory is what PyTorch has allocated at most, images on the GPU included.

The file has one object: what it was measured on, and a row for each training. It is written to a temporary name and renamed.
"""

from __future__ import annotations

import argparse
import gzip
import struct
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import training
import warpbook_record as wr
from batches import IMAGES, normalised

# Batch, and whether products and convolutions are in fp16.
SETTINGS = ((512, False), (512, True), (1024, True))
FEEDS = ("resident", "loader", "loader_and_losses")
WORKERS = 2
FORMAT = 1


@dataclass(frozen=True)
class Row:
    """A training, as crates/warpbook/src/lesson/precision/feed.rs reads it."""

    batch: int
    precision: str
    feed: str
    steps: int
    seconds: float
    peak_bytes: int
    accuracy: float


def idx(path: Path) -> tuple[tuple[int, ...], bytes]:
    """Shape and bytes of a file of MNIST's, which may be packed by gzip."""
    packed = path.with_name(path.name + ".gz")
    try:
        raw = path.read_bytes() if path.exists() else gzip.decompress(packed.read_bytes())
    except OSError as e:
        raise wr.Refused(f"{path} cannot be read, nor {packed.name} next to it: {e}. Name MNIST's folder by --data.") from e
    if len(raw) < 4 or raw[:3] != b"\0\0\x08" or len(raw) < 4 + 4 * raw[3]:
        raise wr.Refused(f"{path} is not an IDX file of bytes.")
    shape = struct.unpack_from(f">{raw[3]}I", raw, 4)
    data = raw[4 + 4 * raw[3] :]
    count = 1
    for size in shape:
        count *= size
    if len(data) != count:
        raise wr.Refused(f"{path} is of {shape}, {count} bytes, but has {len(data)}.")
    return shape, data


def images_and_labels(folder: Path, part: str) -> tuple[tuple[int, ...], bytes, bytes]:
    """Shape and bytes of the images of `train` or `t10k`, and their labels."""
    shape, images = idx(folder / f"{part}-images-idx3-ubyte")
    (count, *_), labels = idx(folder / f"{part}-labels-idx1-ubyte")
    if len(shape) != 3 or count != shape[0]:
        raise wr.Refused(f"{folder} has {count} labels for images of {shape}.")
    return shape, images, labels


class Images:
    """A map-style data set: each image is converted and normalised by itself, as transforms do it."""

    def __init__(self, torch: Any, images: Any, labels: Any):
        self.torch, self.images, self.labels = torch, images, labels

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, at: int) -> tuple[Any, int]:
        return normalised(self.images[at], *IMAGES["mnist"][2:]), int(self.labels[at])


def resident_batches(torch: Any, x: Any, y: Any, batch: int) -> Any:
    for picked in torch.randperm(len(x), device=x.device).split(batch):
        yield x[picked], y[picked]


class Trained:
    """The trainings of a data set, one after the other."""

    def __init__(self, torch: Any, device: str, folder: Path, epochs: int, persistent: bool):
        self.torch, self.device, self.epochs, self.persistent = torch, device, epochs, persistent
        self.train, self.test = (self.tensors(*images_and_labels(folder, part)) for part in ("train", "t10k"))

    def tensors(self, shape: tuple[int, ...], images: bytes, labels: bytes) -> tuple[Any, Any]:
        def tensor(raw: bytes) -> Any:
            return self.torch.frombuffer(bytearray(raw), dtype=self.torch.uint8)

        return tensor(images).view(shape[0], 1, *shape[1:]), tensor(labels).long()

    def batches(self, feed: str, batch: int) -> Any:
        """Something to go through once an epoch."""
        images, labels = self.train
        if feed == "resident":
            x, y = normalised(images.to(self.device), *IMAGES["mnist"][2:]), labels.to(self.device)
            return lambda: resident_batches(self.torch, x, y, batch)
        loader = self.torch.utils.data.DataLoader(
            Images(self.torch, images, labels), batch, shuffle=True, num_workers=WORKERS, pin_memory=self.device == "cuda",
            persistent_workers=self.persistent,
        )  # fmt: skip
        return lambda: ((x.to(self.device, non_blocking=True), y.to(self.device, non_blocking=True)) for x, y in loader)

    def run(self, batch: int, half: bool, feed: str) -> Row:
        torch, cuda = self.torch, self.torch.cuda
        torch.manual_seed(1)
        # Convolutions would use TF32 by default.
        torch.backends.cudnn.allow_tf32 = False
        torch.backends.cudnn.benchmark = True
        if self.device == "cuda":
            cuda.empty_cache()
            cuda.reset_peak_memory_stats()
        held = cuda.memory_allocated() if self.device == "cuda" else 0
        model = training.mnist(torch, training.Sizes("mnist", batch, 1)).to(self.device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=5, gamma=0.5)
        scaler = torch.amp.GradScaler(self.device, enabled=half)
        take, criterion, steps, losses = self.batches(feed, batch), torch.nn.CrossEntropyLoss(), 0, []
        self.synchronize()
        begin = time.perf_counter()
        for _ in range(self.epochs):
            for x, y in take():
                optimizer.zero_grad(set_to_none=True)
                with torch.autocast(self.device, dtype=torch.float16, enabled=half):
                    loss = criterion(model(x), y)
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
                if feed == "loader_and_losses":
                    losses.append(loss.item())
                steps += 1
            schedule.step()
        self.synchronize()
        seconds = time.perf_counter() - begin
        peak = cuda.max_memory_allocated() - held if self.device == "cuda" else 0
        precision = "amp-fp16" if half else "fp32"
        return Row(batch, precision, feed, steps, seconds, peak, self.accuracy(model, half))

    def synchronize(self) -> None:
        if self.device == "cuda":
            self.torch.cuda.synchronize()

    def accuracy(self, model: Any, half: bool) -> float:
        torch, (images, labels) = self.torch, self.test
        model.eval()
        right = 0
        with torch.no_grad(), torch.autocast(self.device, dtype=torch.float16, enabled=half):
            for x, y in zip(images.split(1000), labels.split(1000)):
                x = normalised(x.to(self.device), *IMAGES["mnist"][2:])
                right += (model(x).argmax(1).cpu() == y).sum().item()
        return right / len(images)


def written(machine: wr.Machine, epochs: int, rows: list[Row]) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "torch": machine.torch_version,
        "device": machine.device["name"],
        "workers": WORKERS,
        "epochs": epochs,
        "rows": [asdict(row) for row in rows],
    }


def parse(arguments: list[str]) -> argparse.Namespace:
    p = argparse.ArgumentParser("loader_loop.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--data", required=True, type=Path, metavar="DIR", help="the folder with MNIST's four files")
    p.add_argument("--out", required=True, type=Path, metavar="FILE")
    p.add_argument("--epochs", type=int, default=20, metavar="N", help="passes over the images of each training [default: 20]")
    p.add_argument("--persistent", action="store_true", help="keep the loader's workers from one epoch to the next")
    a = p.parse_args(arguments)
    if a.epochs < 1:
        raise wr.Refused(f"--epochs {a.epochs}: a training takes at least one.")
    wr.check_writable(a.out)
    return a


def main(arguments: list[str]) -> int:
    try:
        a = parse(arguments)
        torch = wr.load_torch()
        machine = wr.look(torch, {"environment": {"device": {"kind": "cuda", "index": 0}}})
        device = "cuda" if machine.gpu else "cpu"
        trained, rows = Trained(torch, device, a.data, a.epochs, a.persistent), []
        for batch, half in SETTINGS:
            for feed in FEEDS:
                if half and device == "cpu":
                    wr.print_line(f"batch {batch}, fp16: needs a GPU")
                    continue
                rows.append(trained.run(batch, half, feed))
                r = rows[-1]
                wr.print_line(f"batch {r.batch}, {r.precision}, {r.feed}: {r.seconds:.1f} s, {r.peak_bytes} B, {100 * r.accuracy:.2f} %")
                wr.write_record(a.out, written(machine, a.epochs, rows))
    except (wr.Refused, wr.Unavailable) as e:
        print(e, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
