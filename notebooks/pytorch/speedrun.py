#!/usr/bin/env python3
"""Trains Warpbook's recipe cifar10-speedrun in PyTorch, from images on the GPU to the accuracy, once from each seed.

    warpbook speedrun cifar10-speedrun --precision amp-bf16 --seeds 10 --to 90 --data DIR --out ours.json
    python3 speedrun.py --like ours.json --data DIR --seeds 10 --out pytorch.json
    warpbook merge ours.json pytorch.json --out both.json

The ways, which are trained in turn, a seed of each:

    torch_compiled_bf16        the network through torch.compile (--mode, which brings its own CUDA graphs), the rest of a step called from Python
    torch_compiled_graph_bf16  the network compiled without them, and the whole step in one CUDA graph, so that the host only replays it

Network, optimiser and schedule are those of crates/warpbook-cli/recipes/cifar10-speedrun.toml, after Jordan, "94% on CIFAR-10 in 3.29 Seconds on a
Single GPU", 2024, and Jordan et al., "Muon: An optimizer for hidden layers in neural networks", 2024; this is code of our own from that description.
The weights stay in fp32 and the network computes in bf16 (torch.autocast), channels last. Muon's products are in bf16, those of filters of one
shape in one batch. In both ways cropping, normalising and the update of the weights are compiled, and the whitening layer's bias is left out of the
backward pass once its rate is 0.

The clock runs from the images on the GPU, as bytes, to the number of correct test images on the host: whitening and first weights, all steps, and one
evaluation with the views of the record. Before it starts, everything is compiled and captured and one whole training is made; each training then
begins with new weights. How long that took is in the record's notes. torch.compile keeps what it has compiled for the next process, so delete its cache
(TORCHINDUCTOR_CACHE_DIR) to see the whole time.

Not the same as in Warpbook: the random numbers of weights, order, crops and flips. Another number of epochs than 8 is part of the rung's name.

The files are those of CIFAR-10's binary version, data_batch_1.bin to data_batch_5.bin and test_batch.bin. The record of --like says which images they
have to be; this script can compare only their number.

For a record that was made on a CPU the way without a graph runs in fp32, to try the script.

Exit codes: 0; 1 the mean accuracy was not reached; 2 the arguments, a file or PyTorch; 130 interrupted, finished trainings are in the record.
"""

from __future__ import annotations

import argparse
import math
import shlex
import sys
import time
from pathlib import Path
from typing import Any

import warpbook_record as wr
from mnist_to_99 import EXPERIMENT, Timed, notes_on_seeds, row_of
from trainings import Images, images_of

OURS = "warpbook speedrun cifar10-speedrun --precision amp-bf16 --seeds 10 --to 90"
RECIPE, FROM = "cifar10-speedrun", "images on the device"
WAYS = ("compiled", "graph")
MODES = ("max-autotune", "max-autotune-no-cudagraphs", "reduce-overhead", "default", "none")
# The modes of torch.compile without CUDA graphs of its own, for code that is captured as a whole or reads large arrays.
WITHOUT_GRAPHS = {"max-autotune": "max-autotune-no-cudagraphs", "reduce-overhead": "default"}
# Number of steps before a capture.
WARM_UP = 3

# ---- the recipe ------------------------------------------------------------------------------------------------------

EPOCHS = 8
MEAN, DEVIATION = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
SIDE = 32
# Largest shift of a crop in pixels.
SHIFT = 2
# Channels of the three blocks, and rows and columns of the whitening filters.
WIDTHS, PATCH = (64, 256, 256), 2
# Number of images that the whitening filters are computed from, and what is added to the eigenvalues.
WHITENED, FLOOR = 5000, 5e-4
SMOOTHING = 0.2
# Muon: rate, Nesterov momentum, number of Newton-Schulz iterations, coefficients of their polynomial, and what is added to the norm.
MUON_RATE, MUON_MOMENTUM, ITERATIONS = 0.24, 0.6, 3
COEFFICIENTS, EPSILON = (3.4445, -4.7750, 2.0315), 1e-7
# SGD with Nesterov momentum: rates and weight decays, of the mean of a batch's losses.
MOMENTUM = 0.85
BIAS_RATE, BIAS_DECAY = 106.0, 3.774e-5
HEAD_RATE, HEAD_DECAY, HEAD_FACTOR = 0.020447, 0.19563, 0.10825
# The whitening layer's bias is trained for this share of the steps.
WHITENING_SHARE = 3 / 8

# Views of a test image: rows down, columns right, mirrored, and the weight of its outputs.
View = tuple[int, int, bool, float]
VIEWS: dict[str, tuple[View, ...]] = {
    "flips": tuple((0, 0, mirrored, 1 / 2) for mirrored in (False, True)),
    "flips_and_shifts": tuple(
        (shift, shift, mirrored, 1 / 8 if shift else 1 / 4) for shift in (0, -1, 1) for mirrored in (False, True)
    ),
}


def network(torch: Any) -> Any:
    """Returns the network; `with_bias` says whether the whitening layer's bias gets a gradient."""
    nn = torch.nn

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            width = 2 * 3 * PATCH * PATCH
            self.whiten = nn.Conv2d(3, width, PATCH)
            self.whiten.weight.requires_grad_(False)
            layers = [nn.GELU()]
            for before, channels in zip((width, *WIDTHS), WIDTHS):
                layers += [filters(before, channels), nn.MaxPool2d(2), normalisation(channels), nn.GELU()]
                layers += [filters(channels, channels), normalisation(channels), nn.GELU()]
            self.head = nn.Linear(WIDTHS[-1], 10, bias=False)
            self.layers = nn.Sequential(*layers, nn.MaxPool2d(3), nn.Flatten(), self.head)

        def forward(self, x: Any, with_bias: bool = False) -> Any:
            bias = self.whiten.bias if with_bias else self.whiten.bias.detach()
            return self.layers(nn.functional.conv2d(x, self.whiten.weight, bias))

    def filters(before: int, channels: int) -> Any:
        return nn.Conv2d(before, channels, 3, padding=1, bias=False)

    def normalisation(channels: int) -> Any:
        layer = nn.BatchNorm2d(channels, eps=1e-12, momentum=0.4)
        layer.weight.requires_grad_(False)
        # Without this counter, which a fixed momentum does not need, a step has a kernel less for each layer.
        layer.num_batches_tracked = None
        return layer

    return Network()


def whitening_filters(torch: Any, x: Any) -> Any:
    """Returns filters [24, 3, 2, 2] whose outputs for patches of normalised images [n, 3, h, w] are uncorrelated with variance 1, with both signs."""
    patches = x.unfold(2, PATCH, 1).unfold(3, PATCH, 1)
    patches = patches.permute(0, 2, 3, 1, 4, 5).flatten(3).flatten(0, 2)
    covariance = (patches.T @ patches).double() / len(patches)
    values, vectors = torch.linalg.eigh(covariance)
    first = (vectors / (values.clamp(min=0) + FLOOR).sqrt()).T.reshape(-1, 3, PATCH, PATCH)
    return torch.cat([first, -first]).float()


def window(torch: Any, images: Any, picked: Any, rows: Any, columns: Any, mirrored: Any) -> Any:
    """Returns images [n] of bytes, each shifted by its rows and columns and then mirrored if it is marked.

    Beyond its edge an image goes on reflected, without repeating the edge.
    """

    def places(shift: Any) -> Any:
        at = (torch.arange(SIDE, device=images.device) + shift[:, None]).abs()
        return torch.where(at < SIDE, at, 2 * (SIDE - 1) - at)

    across = places(columns)
    across = torch.where(mirrored[:, None], across.flip(1), across)
    channels = torch.arange(3, device=images.device)
    return images[picked[:, None, None, None], channels[:, None, None], places(rows)[:, None, :, None], across[:, None, None, :]]


def orthogonalised(torch: Any, x: Any, half: bool) -> Any:
    """Returns matrices [n, rows, columns] near to the orthogonal ones, by the Newton-Schulz iteration; the products are in bf16 if `half`."""
    a, b, c = COEFFICIENTS
    tall = x.size(1) > x.size(2)
    x = x / (x.norm(dim=(1, 2), keepdim=True) + EPSILON)
    x = x.bfloat16() if half else x
    x = x.mT if tall else x
    for _ in range(ITERATIONS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return (x.mT if tall else x).float()


def whitening_steps(steps: int) -> int:
    """Returns the number of steps in which the whitening layer's bias is trained."""
    return math.ceil(steps * WHITENING_SHARE)


# ---- a training ------------------------------------------------------------------------------------------------------


class Speedrun:
    """The trainings of one way: compiled once, then started anew from each seed with the same memory."""

    def __init__(self, torch: Any, way: str, train: Images, test: Images, batch: int, views: str, epochs: int = EPOCHS, mode: str = "max-autotune"):
        self.torch, self.train, self.test, self.size = torch, train, test, batch
        self.views, self.captured, self.graphs = VIEWS[views], way == "graph", {}
        self.device = train.x.device.type
        self.half = self.device == "cuda"
        self.count, self.steps = len(train.y) // batch, epochs * (len(train.y) // batch)
        if self.count == 0:
            raise wr.Refused(f"There are {len(train.y)} training images, fewer than a batch of {batch}.")
        self.model = network(torch).to(self.device, memory_format=torch.channels_last)
        named = dict(self.model.named_parameters())
        filters = [p for p in named.values() if p.requires_grad and p.dim() == 4]
        biases = [p for name, p in named.items() if p.requires_grad and p.dim() == 1 and not name.startswith("whiten")]
        # The whitening layer's bias is the last one, since only the first steps train it.
        self.trained = [*filters, *biases, self.model.head.weight, self.model.whiten.bias]
        self.momenta = [torch.zeros_like(p) for p in self.trained]
        shapes = dict.fromkeys(p.shape for p in filters)
        self.alike = [[i for i, p in enumerate(filters) if p.shape == shape] for shape in shapes]
        self.biases = range(len(filters), len(filters) + len(biases))
        # A capture must not copy from the host, so these are on the device beforehand.
        self.mean, self.deviation = (torch.tensor(v, device=self.device).view(3, 1, 1) for v in (MEAN, DEVIATION))
        # What a captured step reads and changes: the number of steps made, the epoch's order, and which images are mirrored in this epoch.
        self.made = torch.zeros((), dtype=torch.int64, device=self.device)
        self.order = torch.arange(len(train.y), device=self.device)
        self.mirrored = torch.zeros(len(train.y), dtype=torch.bool, device=self.device)
        self.right = torch.zeros((), dtype=torch.int64, device=self.device)
        self.compile(mode)

    def compile(self, mode: str) -> None:
        """Sets what a step calls; torch.compile itself compiles in the first call."""

        def compiled(function: Any, mode: str) -> Any:
            return function if mode == "none" else self.torch.compile(function, dynamic=False, mode=mode)

        without_graphs = WITHOUT_GRAPHS.get(mode, mode)
        self.forward = compiled(self.model, without_graphs if self.captured else mode)
        # A CUDA graph of torch.compile's own would copy all images in every call, and refuses to change weights.
        self.window, self.update = compiled(self.cut, without_graphs), compiled(self.changed, without_graphs)

    def synchronize(self) -> None:
        if self.device == "cuda":
            self.torch.cuda.synchronize()

    def autocast(self) -> Any:
        return self.torch.autocast(self.device, dtype=self.torch.bfloat16, enabled=self.half)

    def normalised(self, images: Any) -> Any:
        """Converts bytes to fp32 of mean 0 and deviation 1."""
        return (images.float() / 255 - self.mean) / self.deviation

    def cut(self, images: Any, picked: Any, rows: Any, columns: Any, mirrored: Any) -> Any:
        """Returns the network's input: windows of these images in the network's type, channels last."""
        x = self.normalised(window(self.torch, images, picked, rows, columns, mirrored))
        x = x.bfloat16() if self.half else x
        return x.contiguous(memory_format=self.torch.channels_last)

    def begin(self, seed: int) -> None:
        """Draws new weights in the same memory, and forgets the training before."""
        torch, init = self.torch, self.torch.nn.init
        torch.manual_seed(seed)
        with torch.no_grad():
            for layer in self.model.modules():
                if isinstance(layer, (torch.nn.Conv2d, torch.nn.Linear)):
                    layer.reset_parameters()
                elif isinstance(layer, torch.nn.BatchNorm2d):
                    for values, value in ((layer.bias, 0.0), (layer.running_mean, 0.0), (layer.running_var, 1.0)):
                        values.fill_(value)
                if isinstance(layer, torch.nn.Conv2d) and layer is not self.model.whiten:
                    init.dirac_(layer.weight[: layer.in_channels])
            self.model.head.weight.mul_(HEAD_FACTOR)
            self.model.whiten.weight.copy_(whitening_filters(torch, self.normalised(self.train.x[:WHITENED])))
        torch._foreach_zero_(self.momenta)
        self.made.zero_()
        self.mirrored.copy_(torch.rand(len(self.mirrored), device=self.device) < 0.5)

    def begin_epoch(self, epoch: int) -> None:
        self.torch.randperm(len(self.order), out=self.order)
        if epoch > 0:
            self.mirrored.logical_not_()

    def step(self, with_bias: bool) -> None:
        """Makes a step; it never waits for the device."""
        torch, data, size = self.torch, self.train, self.size
        torch.compiler.cudagraph_mark_step_begin()
        picked = self.order[: self.count * size].view(self.count, size).index_select(0, (self.made % self.count).view(1))[0]
        rows, columns = torch.randint(-SHIFT, SHIFT + 1, (2, size), device=self.device)
        x = self.window(data.x, picked, rows, columns, self.mirrored.index_select(0, picked))
        with self.autocast():
            outputs = self.forward(x, with_bias)
        loss = torch.nn.functional.cross_entropy(outputs.float(), data.y.index_select(0, picked), label_smoothing=SMOOTHING)
        gradients = torch.autograd.grad(loss, self.trained if with_bias else self.trained[:-1])
        with torch.no_grad():
            self.update(self.made, gradients)
            self.made.add_(1)

    def changed(self, made: Any, gradients: tuple[Any, ...]) -> None:
        """Changes the weights: filters by Muon, biases and the head by SGD, with rates that fall to 0 along a line."""
        left = 1 - made / self.steps
        for alike in self.alike:
            self.turn([(self.trained[i], gradients[i], self.momenta[i]) for i in alike], MUON_RATE * left)
        head, whitening = len(self.trained) - 2, len(self.trained) - 1
        for i in self.biases:
            self.descend(i, gradients, BIAS_RATE * left, BIAS_DECAY)
        self.descend(head, gradients, HEAD_RATE * left, HEAD_DECAY)
        if whitening < len(gradients):
            self.descend(whitening, gradients, BIAS_RATE * (1 - made / whitening_steps(self.steps)), BIAS_DECAY)

    def descend(self, i: int, gradients: tuple[Any, ...], rate: Any, decay: float) -> None:
        weight, momentum = self.trained[i], self.momenta[i]
        gradient = gradients[i] + decay * weight
        momentum.mul_(MOMENTUM).add_(gradient)
        weight.sub_(rate * (gradient + MOMENTUM * momentum))

    def turn(self, alike: list[tuple[Any, Any, Any]], rate: Any) -> None:
        """Makes a step of Muon on (weight, gradient, momentum) of filters of one shape; each is first brought to the norm sqrt(filters)."""
        directions = []
        for _, gradient, momentum in alike:
            momentum.mul_(MUON_MOMENTUM).add_(gradient)
            # The order of a row's elements does not matter; this one is their order in memory.
            directions.append((gradient + MUON_MOMENTUM * momentum).permute(0, 2, 3, 1).flatten(1))
        turned = orthogonalised(self.torch, self.torch.stack(directions), self.half)
        for (weight, _, _), direction in zip(alike, turned):
            filters, channels, rows, columns = weight.shape
            weight.mul_(filters**0.5 / weight.norm())
            weight.sub_(rate * direction.view(filters, rows, columns, channels).permute(0, 3, 1, 2))

    def evaluate(self) -> None:
        """Leaves the number of correct test images in `right`."""
        torch, data = self.torch, self.test
        self.model.eval()
        self.right.zero_()
        with torch.no_grad():
            for picked in torch.arange(len(data.y), device=self.device).split(self.size):
                outputs = 0
                for rows, columns, mirrored, weight in self.views:
                    torch.compiler.cudagraph_mark_step_begin()
                    shifts = (torch.full_like(picked, shift) for shift in (rows, columns))
                    x = self.window(data.x, picked, *shifts, torch.full_like(picked, mirrored, dtype=torch.bool))
                    with self.autocast():
                        seen = self.forward(x, False)
                    # The product is a copy: the next call of a compiled network may reuse its outputs' memory.
                    outputs = outputs + weight * seen.float()
                self.right.add_((outputs.argmax(1) == data.y[picked]).sum())
        self.model.train()

    def prepare(self, seed: int) -> float:
        """Compiles, captures and trains once without counting it; returns the seconds that this took."""
        begun = time.perf_counter()
        self.begin(seed)
        if self.captured:
            for with_bias in (True, False):

                def step(with_bias: bool = with_bias) -> None:
                    self.step(with_bias)

                self.graphs[with_bias] = wr.capture(self.torch, lambda step=step: [step() for _ in range(WARM_UP)], step)
            self.graphs["test"] = wr.capture(self.torch, self.evaluate, self.evaluate)
        self.run(seed)
        return time.perf_counter() - begun

    def run(self, seed: int) -> tuple[float, int]:
        """Trains from a seed; returns the seconds from images on the device to the number of correct test images, and that number."""
        self.synchronize()
        begun = time.perf_counter()
        self.begin(seed)
        for step in range(self.steps):
            if step % self.count == 0:
                self.begin_epoch(step // self.count)
            with_bias = step < whitening_steps(self.steps)
            self.graphs[with_bias].replay() if self.captured else self.step(with_bias)
        self.graphs["test"].replay() if self.captured else self.evaluate()
        right = int(self.right)
        return time.perf_counter() - begun, right


# ---- the command line ------------------------------------------------------------------------------------------------


def parse(arguments: list[str]) -> argparse.Namespace:
    raw = argparse.RawDescriptionHelpFormatter
    p = wr.Parser("speedrun.py", description=__doc__, formatter_class=raw, allow_abbrev=False)
    p.add_argument("--like", required=True, type=Path, metavar="FILE", help=f"the record to merge with: {OURS} --out FILE")
    p.add_argument("--data", required=True, type=Path, metavar="DIR", help="folder with CIFAR-10's binary files")
    p.add_argument("--out", required=True, type=Path, metavar="FILE", help="file for the new record; an old one is replaced")
    p.add_argument("--seeds", type=int, default=10, metavar="N", help="number of trainings of each way, each from another seed [default: 10]")
    p.add_argument("--seed", type=int, default=1, metavar="N", help="the first seed [default: 1]")
    p.add_argument("--epochs", type=int, default=EPOCHS, metavar="N", help=f"passes over the training images [default: {EPOCHS}]")
    p.add_argument("--views", choices=list(VIEWS), help="views of each test image [default: those of the record, which has to have them]")
    p.add_argument("--way", choices=WAYS, help="[default: both, in turn; on a CPU compiled]")
    p.add_argument("--mode", choices=MODES, default=MODES[0], help=f"mode of torch.compile; none compiles nothing [default: {MODES[0]}]")
    p.add_argument("--author", metavar="NAME", help="who ran it, for the new record")
    a = p.parse_args(arguments)
    if not 1 <= a.seeds <= wr.MAX_SAMPLES:
        raise wr.Refused(f"--seeds {a.seeds}: choose from 1 to {wr.MAX_SAMPLES} trainings.")
    if a.epochs < 1:
        raise wr.Refused(f"--epochs {a.epochs}: a training takes at least one.")
    if a.seed < 0:
        raise wr.Refused(f"--seed {a.seed}: choose a whole number of at least 0.")
    wr.check_writable(a.out)
    if a.out.exists() and a.like.exists() and a.out.samefile(a.like):
        raise wr.Refused("--out would replace the record given by --like; name another file.")
    return a


def problem_of(a: argparse.Namespace, like: dict[str, Any]) -> wr.Problem:
    """Returns the problem with the views that were asked for, or the main one; raises `Refused` if this script does other work."""
    problems = [wr.Problem(p) for p in like["problems"]]
    if a.views is None:
        problem = next((p for p in problems if p.id == like.get("main_problem")), problems[0])
    else:
        found = [p for p in problems if p.size("views", "one") == a.views]
        if not found:
            has = ", ".join(dict.fromkeys(str(p.size("views", "one")) for p in problems))
            raise wr.Refused(f"{a.like} has no problem with the views {a.views}, but with {has}: make it with `{OURS} --views {a.views}`.")
        problem = found[0]
    dtype = "f32" if like["environment"]["device"]["kind"] == "cpu" else "bf16"
    for name, value in {"recipe": RECIPE, "from": FROM, "type": dtype}.items():
        theirs = problem.dtype if name == "type" else problem.size(name, "nothing said")
        if theirs != value:
            raise wr.Refused(f"{a.like} has {name} {theirs}, but this script trains with {value}: make it with `{OURS}`.")
    if problem.size("views", "one") not in VIEWS:
        raise wr.Refused(f"{a.like} has the views {problem.size('views', 'one')}, and this script knows {' and '.join(VIEWS)}.")
    if "accuracy" not in (size["name"] for size in problem.record["sizes"]) or not 0.0 < problem.number("accuracy") <= 100.0:
        raise wr.Refused(f"{a.like} has no accuracy to reach: make it with `{OURS}`.")
    for name in ("samples", "test_samples", "batch"):
        problem.count(name)
    return problem


def way_of(name: str, a: argparse.Namespace, on_gpu: bool) -> wr.Way:
    graph, compiled = name == "graph", a.mode != "none"
    more = [a.mode.replace("-", "_")] if a.mode not in (MODES[0], "none") else []
    more += [f"{a.epochs}_epochs"] if a.epochs != EPOCHS else []
    kinds = [*(["compiled"] if compiled else []), *(["graph"] if graph else [])] or ["eager"]
    dtype = "bf16" if on_gpu else "fp32"
    what = f"torch.compile ({WITHOUT_GRAPHS.get(a.mode, a.mode) if graph else a.mode})" if compiled else "not compiled"
    return wr.Way(
        "_".join(["torch", *kinds, dtype, *more]),
        ", ".join(["PyTorch", *(kind.replace("graph", "CUDA graph") for kind in kinds), dtype, *(words.replace("_", " ") for words in more)]),
        f"{what[0].upper()}{what[1:]}, channels last, Muon by batched products{'; a whole step is one CUDA graph' if graph else ''}.",
        build=lambda: None,
        on_gpu=on_gpu,
        graph=graph,
    )


def settings_of(a: argparse.Namespace, arguments: list[str]) -> wr.Settings:
    like = wr.read_like(a.like, EXPERIMENT, OURS)
    on_gpu = like["environment"]["device"]["kind"] != "cpu"
    if not on_gpu and a.way == "graph":
        raise wr.Refused(f"{a.like} was made on a CPU, which has no CUDA graphs: leave --way out.")
    a.ways = (a.way,) if a.way else WAYS if on_gpu else WAYS[:1]
    bench = wr.Bench(warmup=1, samples=a.seeds, budget_s=math.inf, batch_below_us=0.0)
    command = shlex.join(["python3", "notebooks/pytorch/speedrun.py", *arguments])
    return wr.Settings(like, a.out, (problem_of(a, like),), tuple(way_of(name, a, on_gpu) for name in a.ways), bench, command, a.author)


def ready(torch: Any, a: argparse.Namespace, problem: wr.Problem, device: str) -> dict[str, Speedrun]:
    """Returns the trainings of each way, with the images on the device."""
    train, test = images_of(torch, "cifar10", a.data, device)
    for images, name, what in ((train, "samples", "training"), (test, "test_samples", "test")):
        if len(images.y) != problem.count(name):
            raise wr.Refused(f"{a.data} has {len(images.y)} {what} images, but the record is of {problem.count(name)}: name its folder with --data.")
    torch.backends.cudnn.benchmark = True
    views, batch = problem.size("views"), problem.count("batch")
    return {name: Speedrun(torch, name, train, test, batch, views, a.epochs, a.mode) for name in a.ways}


def prepared(ways: dict[str, Speedrun], settings: wr.Settings, seed: int) -> list[str]:
    """Prepares each way; returns the notes on how long that took."""
    notes = []
    for way, of in zip(settings.ways, ways.values()):
        try:
            seconds = of.prepare(seed)
        except Exception as error:
            raise wr.Refused(f"{way.title} failed before the first training: {wr.first_line(error)}") from error
        notes.append(
            f"{way.title}: compiling, capturing and one training that is not counted took {seconds:.1f} s; "
            f"each training then has {of.steps} steps, {of.steps // of.count} epochs of {of.count}."
        )
        wr.print_line(notes[-1])
    return notes


def train_all(ways: dict[str, Speedrun], a: argparse.Namespace, settings: wr.Settings, record: dict[str, Any]) -> dict[str, Any]:
    """Trains from each seed, the ways in turn, and writes the record after each seed."""
    (problem,) = settings.problems
    notes, of = prepared(ways, settings, a.seed), problem.count("test_samples")
    timed: dict[str, Timed] = {name: [] for name in ways}
    for count, seed in enumerate(range(a.seed, a.seed + a.seeds), 1):
        for way, name in zip(settings.ways, ways):
            seconds, right = ways[name].run(seed)
            timed[name].append((seconds, {"accuracy": right / of}))
            wr.print_line(f"{way.title}, seed {seed}: {seconds:.3f} s from images on the device to an accuracy of {100 * right / of:.2f} % ({right} of {of})")
        rows = [row_of(settings, way, timed[name]) | {"steps": ways[name].steps} for way, name in zip(settings.ways, ways)]
        record |= {"measurements": rows, "notes": notes + notes_on_seeds(settings, a.seed, count)}
        wr.write_record(a.out, record)
    return record


def run(a: argparse.Namespace, arguments: list[str]) -> int:
    settings = settings_of(a, arguments)
    torch = wr.load_torch()
    machine = wr.look(torch, settings.like)
    if settings.ways[0].on_gpu and (lacks := machine.lacks((8, 0))):
        raise wr.Refused(f"bf16 {lacks}.")
    ways = ready(torch, a, settings.problems[0], "cuda" if settings.ways[0].on_gpu else "cpu")
    record = train_all(ways, a, settings, wr.new_record(settings, machine))
    for way, row in zip(settings.ways, record["measurements"]):
        seconds, shares = [us * 1e-6 for us in row["samples_us"]], [100 * t["correct"] / t["of"] for t in row["test"]]
        wr.print_line(f"{way.title}: mean of {len(shares)} seeds {sum(seconds) / len(seconds):.3f} s, {sum(shares) / len(shares):.2f} %")
    wr.print_line(f"Record: {a.out}")
    return int(not all(row["check"]["passed"] for row in record["measurements"]))


def main(arguments: list[str]) -> int:
    try:
        return run(parse(arguments), arguments)
    except (wr.Refused, wr.Unavailable) as e:
        wr.print_line(str(e))
        return 2
    except KeyboardInterrupt:
        wr.print_line("Interrupted.")
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
