#!/usr/bin/env python3
"""Times training steps of PyTorch's DistributedDataParallel: the same networks as `training.py`, on 1 to N GPUs.

    python3 ddp.py --gpus 2 --network cifar10 --batch 512 --out weak.json
    python3 ddp.py --ranks 2 --network mnist --batch 32 --steps 5        on the CPU, over gloo

One process a GPU, started here and joined over TCP on 127.0.0.1. Each line is a way on a number of ranks, with the median time of a step on the
slowest rank and the efficiency, which is the time on one rank over it: weak scaling, since every rank has --batch samples. Of several batches
each is measured in the same processes, one after the other.

    ddp_fp32             fp32, TF32 off, buckets of 25 MiB
    ddp_amp_fp16         torch.autocast with fp16 and GradScaler
    ddp_amp_bf16         torch.autocast with bf16
    ddp_amp_fp16_hook    the same as ddp_amp_fp16, gradients travelling in fp16 (fp16_compress_hook)
    ddp_amp_bf16_hook    the same as ddp_amp_bf16, gradients travelling in bf16 (bf16_compress_hook)
    dp_fp32              torch.nn.DataParallel on as many GPUs: one process, fp32, TF32 off, algorithms by cuDNN's heuristics

A step is forward, loss, backward with its all-reduces, and the optimiser, on batches that lie ready on the device. Before the timed loop and after
it the weights of all ranks are compared: they have to be the same bits. `warpbook scaling --pytorch FILE` takes the file of --out into its record.

Strong scaling takes a further batch for each number of ranks, the samples of all over their number: Warpbook finds rows by the number of ranks and the
batch of all of them, so that the row of 2 ranks with 256 samples each becomes that of 2 ranks with 512 together. Rows that fit nowhere, as that of one
rank with 256 samples, Warpbook leaves out and notes.

    python3 ddp.py --gpus 4 --network cifar10 --batch 512 256 128 --out ddp.json
    warpbook scaling --gpus 4 --network cifar10 --batch 512 --pytorch ddp.json

The file has one object: what it was measured on and how, and in `results` a row for each line with its samples, in microseconds a step.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import os
import shlex
import socket
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import warpbook_record as wr
from training import NETWORKS, Sizes

WAYS = {
    "ddp_fp32": (None, None),
    "ddp_amp_fp16": ("float16", None),
    "ddp_amp_bf16": ("bfloat16", None),
    "ddp_amp_fp16_hook": ("float16", "fp16_compress_hook"),
    "ddp_amp_bf16_hook": ("bfloat16", "bf16_compress_hook"),
}
# This way uses one process for all GPUs.
ONE_PROCESS = "dp_fp32"
# The ways that are timed on a CPU.
CPU_WAYS = ("ddp_fp32",)
# Steps before the timed ones: DDP rearranges its buckets after the first.
WARM_UP = 10


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@contextlib.contextmanager
def without_search(torch: Any) -> Iterator[None]:
    """Makes cuDNN choose its algorithms by heuristics instead of trying them out."""
    cudnn = torch.backends.cudnn
    before, cudnn.benchmark = cudnn.benchmark, False
    try:
        yield
    finally:
        cudnn.benchmark = before


class Rank:
    """The model of one process, and its steps in one way."""

    def __init__(self, torch: Any, way: str, sizes: Sizes, device: str, devices: int = 1):
        dtype, hook = WAYS.get(way, (None, None))
        self.torch, self.device = torch, device
        self.dtype = getattr(torch, dtype) if dtype else None
        torch.manual_seed(1)
        model = NETWORKS[sizes.network](torch, sizes).to(device)
        if way == ONE_PROCESS:
            model = torch.nn.DataParallel(model, device_ids=list(range(devices)))
        elif torch.distributed.get_world_size() > 1:
            ids = [torch.device(device).index] if device != "cpu" else None
            model = torch.nn.parallel.DistributedDataParallel(model, device_ids=ids, gradient_as_bucket_view=True)
            if hook:
                from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

                model.register_comm_hook(None, getattr(default_hooks, hook))
        self.model = model
        self.loss = sizes.loss(torch)
        self.optimizer = sizes.optimizer(torch, model, fused=False)
        self.scaler = torch.amp.GradScaler("cuda", enabled=dtype == "float16")
        x, y = sizes.inputs(torch, device)
        # Each rank gets a different part of the data.
        shift = torch.distributed.get_rank() % len(x)
        self.x, self.y, self.at = x.roll(shift, 0), y.roll(shift, 0), 0

    def step(self) -> None:
        kind = "cpu" if self.device == "cpu" else "cuda"
        x, y = self.x[self.at % len(self.x)], self.y[self.at % len(self.y)]
        self.at += 1
        self.optimizer.zero_grad(set_to_none=True)
        with self.torch.autocast(kind, dtype=self.dtype or self.torch.bfloat16, enabled=self.dtype is not None):
            loss = self.loss(self.model(x), y)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()

    def synchronize(self) -> None:
        if self.device != "cpu":
            self.torch.cuda.synchronize()

    def ensure_the_same_weights(self) -> None:
        torch = self.torch
        own = torch.cat([p.detach().flatten().float() for p in self.model.parameters()])
        first = own.clone()
        torch.distributed.broadcast(first, 0)
        if not torch.equal(own, first):
            raise SystemExit(f"The weights of rank {torch.distributed.get_rank()} differ from those of rank 0.")

    def samples_us(self, steps: int, repeats: int) -> list[float]:
        """Times a step on the slowest rank: `repeats` samples, each the mean of `steps` steps."""
        torch, samples = self.torch, []
        for _ in range(WARM_UP):
            self.step()
        self.ensure_the_same_weights()
        for _ in range(repeats):
            self.synchronize()
            torch.distributed.barrier()
            begun = time.perf_counter()
            for _ in range(steps):
                self.step()
            self.synchronize()
            samples.append((time.perf_counter() - begun) / steps * 1e6)
        self.ensure_the_same_weights()
        slowest = torch.tensor(samples, dtype=torch.float64, device=self.device)
        torch.distributed.all_reduce(slowest, op=torch.distributed.ReduceOp.MAX)
        return slowest.tolist()


def numbers(most: int) -> list[int]:
    """Lists the numbers from 1 to the limit, each twice the one before."""
    return [n for n in (1, 2, 4, 8, 16, 32, 64) if n < most] + [most]


def work(rank: int, world: int, port: int, args: argparse.Namespace, queue: Any) -> None:
    import torch

    # NVLink multicast stays off, as in Warpbook.
    os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
    on_gpu = args.gpus is not None
    device = f"cuda:{rank}" if on_gpu else "cpu"
    if on_gpu:
        torch.cuda.set_device(rank)
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        torch.backends.cudnn.benchmark = True
    else:
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // world))
    address = f"tcp://127.0.0.1:{port}"
    torch.distributed.init_process_group("nccl" if on_gpu else "gloo", address, rank=rank, world_size=world)
    for batch in args.batch:
        for way in args.ways:
            if way == ONE_PROCESS:
                # This way is measured in a run with one process.
                continue
            sizes = Sizes(args.network, batch, args.edge)
            samples = Rank(torch, way, sizes, device).samples_us(args.steps, args.repeats)
            if rank == 0:
                queue.put((way, world, batch, samples))
        if world == 1 and ONE_PROCESS in args.ways:
            # A search result is kept per thread, and DataParallel starts new threads in each step, so every step would search.
            with without_search(torch):
                for devices in numbers(args.gpus):
                    sizes = Sizes(args.network, batch * devices, args.edge)
                    samples = Rank(torch, ONE_PROCESS, sizes, device, devices).samples_us(args.steps, args.repeats)
                    queue.put((ONE_PROCESS, devices, batch, samples))
    torch.distributed.destroy_process_group()


def parsed(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--gpus", type=int, metavar="N", help="1 to N GPUs, doubling")
    where.add_argument("--ranks", type=int, metavar="N", help="1 to N processes on the CPU, doubling")
    parser.add_argument("--network", choices=list(NETWORKS), default="cifar10")
    parser.add_argument("--batch", type=int, nargs="+", default=[512], metavar="N", help="samples of each rank; several, one after the other [default: 512]")
    parser.add_argument("--edge", type=int, default=4096, help="edge of the amp-recipe's layers [default: 4096]")
    parser.add_argument("--ways", nargs="+", choices=[*WAYS, ONE_PROCESS], help="[all; on the CPU ddp_fp32]")
    parser.add_argument("--steps", type=int, default=50, help="steps per sample [default: 50]")
    parser.add_argument("--repeats", type=int, default=15, help="number of samples [default: 15]")
    parser.add_argument("--out", type=Path, help="file for the samples, as JSON")
    args = parser.parse_args(words)
    args.ways = args.ways or ([*WAYS, ONE_PROCESS] if args.gpus is not None else list(CPU_WAYS))
    if ONE_PROCESS in args.ways and args.gpus is None:
        parser.error(f"{ONE_PROCESS} needs GPUs: torch.nn.DataParallel does nothing on the CPU")
    if (args.gpus or args.ranks or 0) < 1:
        parser.error("choose at least 1 rank")
    values = [("batch", batch) for batch in args.batch] + [(name, getattr(args, name)) for name in ("edge", "steps", "repeats")]
    for name, value in values:
        if value < 1:
            parser.error(f"--{name} {value}: choose at least 1")
    if len(set(args.batch)) < len(args.batch):
        parser.error("--batch: name each size once")
    if args.out:
        try:
            wr.check_writable(args.out)
        except wr.Refused as e:
            parser.error(str(e))
    return args


def line(results: list[dict[str, Any]]) -> str:
    """Formats the last result: the median time of a step, and the time on one rank divided by it."""
    last = results[-1]
    median = statistics.median(last["samples_us"])
    alike = (r for r in results if (r["way"], r["batch_per_rank"]) == (last["way"], last["batch_per_rank"]))
    one = statistics.median(next(alike)["samples_us"])
    work = f"{last['way']:20} {last['ranks']} ranks x {last['batch_per_rank']}"
    return f"{work}  {median:10.1f} us a step, efficiency {100 * one / median:.1f} %"


def written(args: argparse.Namespace, words: list[str], torch: Any, results: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns the content of --out; crates/warpbook-experiments/src/scaling/pytorch.rs reads some of it."""
    gpus = [torch.cuda.get_device_name(i) for i in range(args.gpus or 0)]
    driver = wr.output_of("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader") if gpus else None
    return {
        "script": "ddp.py",
        "created": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "command": shlex.join(["python3", "notebooks/pytorch/ddp.py", *words]),
        "torch": str(torch.__version__),
        "cuda": torch.version.cuda if gpus else None,
        "driver": driver,
        "device": gpus[0] if gpus else "CPU",
        "gpus": gpus,
        "network": args.network,
        "edge": args.edge,
        "warm_up": WARM_UP,
        "steps": args.steps,
        "repeats": args.repeats,
        "results": results,
    }


def main(words: list[str]) -> None:
    args = parsed(words)
    try:
        import torch
    except ImportError:
        raise SystemExit("PyTorch is not installed: `pip install torch`.") from None
    most = args.gpus or args.ranks
    if args.gpus and torch.cuda.device_count() < args.gpus:
        raise SystemExit(f"--gpus {args.gpus}: PyTorch sees {torch.cuda.device_count()}.")
    worlds = numbers(most)
    results: list[dict[str, Any]] = []
    for world in worlds:
        context = torch.multiprocessing.get_context("spawn")
        queue = context.Queue()
        torch.multiprocessing.spawn(work, (world, free_port(), args, queue), nprocs=world)
        of_ranks = [way for way in args.ways if way != ONE_PROCESS]
        alone = len(worlds) if world == 1 and ONE_PROCESS in args.ways else 0
        for _ in range(len(args.batch) * (len(of_ranks) + alone)):
            way, ranks, batch, samples = queue.get(timeout=60)
            results.append({"way": way, "ranks": ranks, "batch_per_rank": batch, "samples_us": samples})
            print(line(results), flush=True)
    if args.out:
        wr.write_record(args.out, written(args, words, torch, results))


if __name__ == "__main__":
    main(sys.argv[1:])
