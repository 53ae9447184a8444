#!/usr/bin/env python3
"""Times training steps of a Warpbook experiment named "training" in PyTorch.

The networks, batches and optimisers are those of the record's problems (crates/warpbook-nn/src/train/recipe.rs):

    python3 training.py --like ours.json --out pytorch.json
    warpbook merge ours.json pytorch.json --out both.json

The ways, in the ladder's order:

    torch_fp32            fp32, TF32 off
    torch_tf32            fp32 with TF32 in products and convolutions
    torch_amp_fp16        torch.autocast with fp16 and GradScaler, as most tutorials write it
    torch_amp_fp16_graph  the same, channels_last, with the whole step in a CUDA graph and a fused optimiser
    torch_amp_bf16_graph  bf16 through torch.compile, channels_last, with the whole step in a CUDA graph and a fused optimiser

each of them as torch_..._gathered, and

    torch_amp_fp16_own        torch_amp_fp16, channels_last, with Warpbook's product and convolutions as its layers (warpbook_op.py)
    torch_amp_fp16_own_graph  the same as torch_amp_fp16_graph

A step is forward, loss, backward and the optimiser, dropout on. The first five take batches that lie on the GPU, normalised
already. A gathered step begins with what Warpbook's steps do, too: it chooses the next batch of a shuffled epoch, gathers its
samples from the data set, crops and flips CIFAR-10's at random, and normalises images. The data set lies on the GPU as it is
stored, its values drawn: 60000 images of MNIST's shape or 50000 of CIFAR-10's in bytes, with int64 labels, or 50 batches of fp32
rows and targets for the AMP recipe. In the ways with a graph all of that is in the graph, and in the compiled way it is compiled.
The order of an epoch is drawn before its first step, within the time of that step. Ways are timed in turn.

Before the timed loop, and after it, the loss of a batch (dropout off) is compared with the same loss in float64 of the same
weights, relative to it; and a gathered step must have taken the samples whose turn it was.

Peak memory is that of building a way and making four steps, without the data set and the batches that lie ready. What gathering
allocates is counted: the epoch's order (8 bytes a sample) and what drawing it takes, the batch in bytes with its border and its
crops, the random numbers, and the normalised batch. cuDNN and torch.compile try out algorithms once for all ways of the same
arithmetic and layout, so the memory of these trials is in the first of them, which gathers nothing.

--accuracy DIR [--epochs N] [--seeds N] trains instead of timing: the CIFAR-10 CNN on the binary files in DIR, with random crops
and flips, and prints the test accuracy of each seed in fp32 and in fp16 with GradScaler.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import warpbook_record as wr
import warpbook_op
from batches import CLASSES, IMAGES, READY, DataSet, Gathered, Ready, augmented, normalised
from warpbook_record import Check, Problem, Way

REFERENCE = "the loss of a batch without dropout in float64, of the same weights"


# ---- the networks, as crates/warpbook-nn/src/network/presets.rs has them ---------------------------------------------


def mnist(torch: Any, sizes: Sizes) -> Any:
    nn = torch.nn
    return nn.Sequential(
        nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.25), nn.Flatten(),
        nn.Linear(9216, 128), nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, 10),
    )  # fmt: skip


def cifar10(torch: Any, sizes: Sizes) -> Any:
    nn = torch.nn
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(64, 128, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(2048, 512), nn.ReLU(),
        nn.Linear(512, 10),
    )  # fmt: skip


def amp_recipe(torch: Any, sizes: Sizes) -> Any:
    nn, edge = torch.nn, sizes.features
    return nn.Sequential(
        nn.Linear(edge, edge), nn.ReLU(), nn.Linear(edge, edge), nn.ReLU(), nn.Linear(edge, edge)
    )


NETWORKS = {"mnist": mnist, "cifar10": cifar10, "amp-recipe": amp_recipe}


@dataclass(frozen=True)
class Sizes:
    network: str
    batch: int
    features: int

    @staticmethod
    def of(problem: Problem) -> Sizes:
        network = problem.size("network")
        if network not in NETWORKS:
            raise wr.Refused(f"`{network}` is not one of the networks {', '.join(NETWORKS)}.")
        return Sizes(network, problem.count("batch"), problem.count("features", default=1))

    def inputs(self, torch: Any, device: str) -> tuple[Any, Any]:
        """Returns samples and targets of shape [READY][batch]."""
        generator = torch.Generator(device=device).manual_seed(1)
        shape = (self.features,) if self.network == "amp-recipe" else IMAGES[self.network][1]
        x = torch.randn((READY, self.batch, *shape), generator=generator, device=device)
        if self.network == "amp-recipe":
            return x, torch.randn(x.shape, generator=generator, device=device)
        return x, torch.randint(CLASSES, (READY, self.batch), generator=generator, device=device)

    def loss(self, torch: Any) -> Any:
        return torch.nn.MSELoss() if self.network == "amp-recipe" else torch.nn.CrossEntropyLoss()

    def optimizer(self, torch: Any, model: Any, fused: bool) -> Any:
        parameters, optim = model.parameters(), torch.optim
        # By default PyTorch uses its `foreach` optimisers on a GPU, as most scripts do; `fused=False` would switch those off too.
        chosen = {"fused": True} if fused else {}
        if self.network == "cifar10":
            return optim.Adam(parameters, lr=1e-3, capturable=fused, **chosen)
        if self.network == "mnist":
            return optim.SGD(parameters, lr=0.05, momentum=0.9, **chosen)
        return optim.SGD(parameters, lr=1e-3, **chosen)


@dataclass
class Inputs:
    """The inputs that the ways of a problem share; each is drawn when a way first needs it."""

    torch: Any
    sizes: Sizes
    device: str

    @cached_property
    def ready(self) -> tuple[Any, Any]:
        return self.sizes.inputs(self.torch, self.device)

    @cached_property
    def data(self) -> DataSet:
        s = self.sizes
        return DataSet(self.torch, s.network, s.batch, s.features, self.device)


# ---- the ways --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Options:
    dtype: str | None = None
    tf32: bool = False
    channels_last: bool = False
    compiled: bool = False
    # True if a step gathers its batch from the data set.
    gathered: bool = False
    # True if linear layers and convolutions are Warpbook's.
    own: bool = False
    # The largest allowed relative error of the loss in the check.
    tolerance: float = 1e-5

    @property
    def arithmetic(self) -> str:
        """The record's name of the type of products and convolutions."""
        return {"float16": "f16", "bfloat16": "bf16"}.get(self.dtype or "", "tf32" if self.tf32 else "f32")


READY_OPTIONS = {
    "torch_fp32": Options(),
    "torch_tf32": Options(tf32=True, tolerance=2e-3),
    "torch_amp_fp16": Options("float16", tolerance=1e-2),
    "torch_amp_fp16_graph": Options("float16", channels_last=True, tolerance=1e-2),
    "torch_amp_bf16_graph": Options("bfloat16", channels_last=True, compiled=True, tolerance=2e-2),
}
OPTIONS = READY_OPTIONS | {f"{name}_gathered": replace(o, gathered=True) for name, o in READY_OPTIONS.items()}
OPTIONS |= {
    name: Options("float16", channels_last=True, own=True, tolerance=1e-2)
    for name in ("torch_amp_fp16_own", "torch_amp_fp16_own_graph")
}


class Training:
    """A network with its optimiser, and the steps of one way, with the methods that `InTurn` needs of a candidate."""

    def __init__(self, torch: Any, way: Way, inputs: Inputs):
        self.torch, self.way, self.options = torch, way, OPTIONS[way.id]
        self.stopwatch, self.graph = wr.CudaStopwatch(torch), None
        cuda, options, sizes = torch.cuda, self.options, inputs.sizes
        source = inputs.data if options.gathered else inputs.ready
        self.tf32()
        cuda.synchronize()
        held = cuda.memory_allocated()
        cuda.reset_peak_memory_stats()
        torch.manual_seed(1)
        model = NETWORKS[sizes.network](torch, sizes).to(inputs.device)
        if options.channels_last and sizes.network in IMAGES:
            model = model.to(memory_format=torch.channels_last)
        if options.own:
            model = warpbook_op.converted(model)
        self.batches: Ready | Gathered
        if options.gathered:
            self.batches = Gathered(torch, source, sizes.batch, way.graph, options.channels_last, options.compiled)
        else:
            self.batches = Ready(torch, source, way.graph, options.channels_last)
            held += self.batches.copied
        self.model, self.loss = model, sizes.loss(torch)
        self.forward = torch.compile(model, dynamic=False) if options.compiled else model
        self.optimizer = sizes.optimizer(torch, model, way.graph)
        self.scaler = torch.amp.GradScaler("cuda", enabled=options.dtype == "float16")
        if way.graph:
            self.capture()
        else:
            self.repeat(4)
        cuda.synchronize()
        self.peak_bytes = cuda.max_memory_allocated() - held

    def autocast(self) -> Any:
        dtype = getattr(self.torch, self.options.dtype) if self.options.dtype else None
        return self.torch.autocast("cuda", dtype=dtype or self.torch.float16, enabled=dtype is not None)

    def tf32(self) -> None:
        """Sets whether products use TF32. This is set again for each way, because the ways are timed in turn."""
        self.torch.backends.cuda.matmul.allow_tf32 = self.options.tf32
        self.torch.backends.cudnn.allow_tf32 = self.options.tf32
        self.torch.backends.cudnn.benchmark = True

    def step(self) -> Any:
        x, y = self.batches.take()
        self.optimizer.zero_grad(set_to_none=True)
        with self.autocast():
            loss = self.loss(self.forward(x), y)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss

    def capture(self) -> None:
        self.tf32()

        def warm_up() -> None:
            for _ in range(4):
                self.batches.start()
                self.step()
            self.optimizer.zero_grad(set_to_none=True)

        self.graph = wr.capture(self.torch, warm_up, self.step)

    def repeat(self, batch: int) -> None:
        for _ in range(batch):
            self.batches.start()
            if self.graph is not None:
                self.graph.replay()
            else:
                self.step()

    def timed(self, batch: int) -> tuple[float, float]:
        self.tf32()
        us, wall_us = self.stopwatch(lambda: self.repeat(batch))
        return us / batch, wall_us / batch

    def once(self) -> tuple[float, float, float]:
        """Returns the loss of a batch in this way and in float64, and the tolerance."""
        import copy

        self.tf32()
        self.repeat(1)
        self.model.eval()
        x, y = self.batches.checked()
        with self.torch.no_grad():
            with self.autocast():
                got = self.loss(self.model(x), y).item()
            exact = copy.deepcopy(self.model)
            # Warpbook's layers do not accept float64.
            exact = (warpbook_op.reverted(exact) if self.options.own else exact).double()
            want = self.loss(exact(x.double()), y.double() if y.is_floating_point() else y).item()
        self.model.train()
        return got, want, self.options.tolerance


def build(*_: Any) -> Callable[[], Any]:
    raise NotImplementedError("a training is a candidate itself")


def way(name: str, title: str, idea: str, graph: bool = False) -> Way:
    return Way(name, title, idea, build, graph=graph)


def gathered(plain: Way) -> Way:
    """Returns the same way with steps that gather their batch."""
    graph = "; all of that is in the graph" if plain.graph else ""
    idea = (
        f"{plain.idea} Each step takes a new shuffled batch: gathered from the stored data set, images normalised, CIFAR-10's "
        f"cropped and flipped at random{graph}. Peak memory is without the data set, but with all that gathering allocates."
    )
    # Charts cut the ends of long titles, so the word comes early.
    return replace(plain, id=f"{plain.id}_gathered", title=plain.title.replace(",", ", gathered,", 1), idea=idea)


READY_WAYS = (
    way("torch_fp32", "PyTorch, fp32", "Eager PyTorch, TF32 off."),
    way("torch_tf32", "PyTorch, TF32", "Eager PyTorch with TF32 in products and convolutions."),
    way("torch_amp_fp16", "PyTorch AMP, fp16", "torch.autocast and GradScaler, as most tutorials write it."),
    way(
        "torch_amp_fp16_graph",
        "PyTorch AMP, fp16, CUDA graph",
        "channels_last, a fused optimiser, and the whole step in a CUDA graph.",
        graph=True,
    ),
    way(
        "torch_amp_bf16_graph",
        "PyTorch AMP, bf16, compiled, CUDA graph",
        "torch.compile, channels_last, a fused optimiser, and the whole step in a CUDA graph.",
        graph=True,
    ),
)
OWN = "Linear layers and convolutions are Warpbook's, as torch.autograd.Functions; "
OWN_WAYS = (
    way("torch_amp_fp16_own", "PyTorch AMP, fp16, our layers", OWN + "channels_last, launched from Python."),
    way(
        "torch_amp_fp16_own_graph",
        "PyTorch AMP, fp16, our layers, CUDA graph",
        OWN + "channels_last, a fused optimiser, and the whole step in a CUDA graph.",
        graph=True,
    ),
)
WAYS = READY_WAYS + tuple(gathered(plain) for plain in READY_WAYS) + OWN_WAYS


# ---- the ladder ------------------------------------------------------------------------------------------------------


class TrainingSteps(wr.InTurn):
    experiment = "training"
    script = "training.py"
    description = __doc__
    ways = WAYS

    @staticmethod
    def read(problem: Problem) -> Sizes:
        return Sizes.of(problem)

    def obstacle(self, way: Way, problem: Problem) -> str | None:
        if not self.machine.gpu:
            return "trains on a GPU"
        if OPTIONS[way.id].own:
            try:
                warpbook_op.library()
            except wr.Unavailable as e:
                return str(e)
        return None

    def figure(self, problem: Problem, us: float) -> str:
        return f"{self.read(problem).batch / us * 1e6:.4g} samples/s"

    def prepare(self, problem: Problem) -> Any:
        return Inputs(self.torch, self.read(problem), self.device)

    def candidate(self, way: Way, prepared: Any) -> Any:
        training = Training(self.torch, way, prepared)
        self.peaks[way.id] = training.peak_bytes
        return training

    def judge(self, prepared: Any, results: list[Any]) -> list[Check]:
        def check(got: float, want: float, bound: float) -> Check:
            error = abs(got - want)
            # `<=` and not `not >`: NaN must fail.
            return Check(REFERENCE, error, error / abs(want), bound, error <= bound * abs(want))

        return [check(*result) for result in results]

    def measure_all(self, problem: Problem, prepared: Any, ways: list[Way]) -> None:
        self.peaks: dict[str, int] = {}
        super().measure_all(problem, prepared, ways)
        for row in self.rows.values():
            if row["outcome"]["status"] == "measured" and row["rung"] in self.peaks:
                row["peak_bytes"] = self.peaks[row["rung"]]
                row["dtype"] = OPTIONS[row["rung"]].arithmetic


# ---- accuracy --------------------------------------------------------------------------------------------------------


def cifar_files(torch: Any, folder: Path, device: str) -> tuple[Any, Any, Any, Any]:
    def read(names: list[str]) -> tuple[Any, Any]:
        raw = b"".join((folder / name).read_bytes() for name in names)
        rows = torch.frombuffer(bytearray(raw), dtype=torch.uint8).view(-1, 3073).to(device)
        return rows[:, 1:].reshape(-1, 3, 32, 32), rows[:, 0].long()

    return *read([f"data_batch_{i}.bin" for i in range(1, 6)]), *read(["test_batch.bin"])


def accuracy(torch: Any, data: tuple[Any, Any, Any, Any], seed: int, epochs: int, half: bool) -> float:
    """Returns the share of correct test images after training with batches of 128, Adam 1e-3, random crops and flips."""
    images, labels, test, test_labels = data
    torch.manual_seed(seed)
    sizes = Sizes("cifar10", 128, 1)
    model = cifar10(torch, sizes).to(images.device)
    optimizer, scaler = sizes.optimizer(torch, model, False), torch.amp.GradScaler("cuda", enabled=half)

    def prepared(x: Any) -> Any:
        return normalised(x, *IMAGES["cifar10"][2:])

    for _ in range(epochs):
        for batch in torch.randperm(len(images), device=images.device).split(128):
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cuda", dtype=torch.float16, enabled=half):
                loss = torch.nn.functional.cross_entropy(model(prepared(augmented(torch, images[batch]))), labels[batch])
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
    model.eval()
    with torch.no_grad():
        right = sum((model(prepared(x)).argmax(1) == y).sum().item() for x, y in zip(test.split(1000), test_labels.split(1000)))
    return right / len(test)


def accuracies(arguments: list[str]) -> int:
    import argparse

    p = argparse.ArgumentParser("training.py")
    p.add_argument("--accuracy", required=True, metavar="DIR", type=Path)
    p.add_argument("--epochs", type=int, default=3)
    p.add_argument("--seeds", type=int, default=5)
    a = p.parse_args(arguments)
    torch = wr.load_torch()
    data = cifar_files(torch, a.accuracy, "cuda")
    for half in (False, True):
        found = [accuracy(torch, data, seed, a.epochs, half) for seed in range(1, a.seeds + 1)]
        each = ", ".join(f"{100 * share:.2f}" for share in found)
        print(f"{'fp16' if half else 'fp32'}, {a.epochs} epochs: {each} %; mean {100 * sum(found) / len(found):.2f} %", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(accuracies(sys.argv[1:]) if "--accuracy" in sys.argv else wr.main(TrainingSteps))
