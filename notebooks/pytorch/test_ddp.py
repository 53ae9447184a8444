"""Tests of ddp.py that need no GPU, and PyTorch only where it is there: python3 -m unittest, in this folder."""

from __future__ import annotations

import contextlib
import io
import json
import re
import sys
import unittest
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent))

import ddp
import warpbook_record as wr
from testing import InFolder, torch_or_skip
from training import NETWORKS

ROOT = Path(__file__).resolve().parents[2]
READER = ROOT / "crates/warpbook-experiments/src/scaling/pytorch.rs"
PUBLISHED = ROOT / "data/results"


def fake_torch(gpus: int) -> Any:
    """A fake PyTorch with this many GPUs."""
    cuda = SimpleNamespace(device_count=lambda: gpus, get_device_name=lambda i: f"NVIDIA Test {i}")
    return SimpleNamespace(__version__="2.11.0+cu130", version=SimpleNamespace(cuda="13.0"), cuda=cuda)


def result(way: str, ranks: int, *samples_us: float, batch: int = 8) -> dict[str, Any]:
    return {"way": way, "ranks": ranks, "batch_per_rank": batch, "samples_us": list(samples_us)}


class Arguments(InFolder):
    def fails(self, expect: str, *words: str):
        with self.subTest(expect), contextlib.redirect_stderr(io.StringIO()) as said:
            with self.assertRaises(SystemExit) as caught:
                ddp.parsed(list(words))
        self.assertEqual(caught.exception.code, 2)
        self.assertIn(expect, said.getvalue())

    def test_ways_are_those_that_the_place_takes(self):
        self.assertEqual(ddp.parsed(["--gpus", "2"]).ways, [*ddp.WAYS, ddp.ONE_PROCESS])
        self.assertEqual(ddp.parsed(["--ranks", "2"]).ways, ["ddp_fp32"])
        self.assertEqual(ddp.parsed(["--ranks", "2", "--ways", "ddp_amp_bf16"]).ways, ["ddp_amp_bf16"])
        a = ddp.parsed(["--gpus", "2"])
        self.assertEqual((a.network, a.batch, a.steps, a.repeats, a.out), ("cifar10", [512], 50, 15, None))
        self.assertEqual(ddp.parsed(["--gpus", "4", "--batch", "512", "128"]).batch, [512, 128])

    def test_what_is_wrong_is_said(self):
        self.fails("one of the arguments --gpus --ranks is required")
        self.fails("not allowed with argument", "--gpus", "2", "--ranks", "2")
        self.fails("choose at least 1 rank", "--gpus", "0")
        self.fails("choose at least 1 rank", "--ranks", "-1")
        self.fails("torch.nn.DataParallel does nothing on the CPU", "--ranks", "2", "--ways", "dp_fp32")
        self.fails("invalid choice: 'vgg'", "--gpus", "2", "--network", "vgg")
        self.fails("invalid choice: 'ddp_fp64'", "--gpus", "2", "--ways", "ddp_fp64")
        for name in ("batch", "edge", "steps", "repeats"):
            self.fails(f"--{name} 0: choose at least 1", "--gpus", "2", f"--{name}", "0")
        self.fails("--batch 0: choose at least 1", "--gpus", "2", "--batch", "8", "0")
        self.fails("name each size once", "--gpus", "2", "--batch", "8", "8")
        self.fails("no folder", "--gpus", "2", "--out", str(self.folder / "none/ddp.json"))

    def test_more_gpus_than_there_are_are_refused(self):
        with mock.patch.dict(sys.modules, torch=fake_torch(1)), self.assertRaises(SystemExit) as caught:
            ddp.main(["--gpus", "2"])
        self.assertEqual(str(caught.exception), "--gpus 2: PyTorch sees 1.")

    def test_without_pytorch_it_says_so(self):
        with mock.patch.dict(sys.modules, torch=None), self.assertRaises(SystemExit) as caught:
            ddp.main(["--ranks", "2"])
        self.assertIn("PyTorch is not installed", str(caught.exception))

    def test_numbers_of_ranks_double(self):
        expect = {1: [1], 2: [1, 2], 3: [1, 2, 3], 4: [1, 2, 4], 6: [1, 2, 4, 6], 8: [1, 2, 4, 8]}
        self.assertEqual({most: ddp.numbers(most) for most in expect}, expect)


class Results(InFolder):
    def test_a_line_has_the_median_and_the_efficiency(self):
        results = [result("ddp_fp32", 1, 90.0, 100.0, 500.0), result("dp_fp32", 1, 7.0), result("ddp_fp32", 2, 150.0, 100.0)]
        self.assertEqual(ddp.line(results[:1]).split(), "ddp_fp32 1 ranks x 8 100.0 us a step, efficiency 100.0 %".split())
        self.assertEqual(ddp.line(results).split(), "ddp_fp32 2 ranks x 8 125.0 us a step, efficiency 80.0 %".split())
        # These results have another batch size.
        results = [result("ddp_fp32", 1, 100.0), result("ddp_fp32", 1, 60.0, batch=4), result("ddp_fp32", 2, 80.0, batch=4)]
        self.assertEqual(ddp.line(results).split(), "ddp_fp32 2 ranks x 4 80.0 us a step, efficiency 75.0 %".split())

    def test_published_ways_are_known(self):
        records = [json.loads(path.read_text(encoding="utf-8")) for path in PUBLISHED.glob("scaling-*.json")]
        published = {rung["id"] for record in records for rung in record["rungs"] if rung["id"].startswith("pytorch_")}
        self.assertLessEqual(published, {f"pytorch_{way}" for way in (*ddp.WAYS, ddp.ONE_PROCESS)})
        self.assertIn("pytorch_ddp_fp32", published)

    def test_names_are_as_the_reader_takes_them_apart(self):
        text = READER.read_text(encoding="utf-8")
        # The prefix means one process, or one process for each device; the rest names the types.
        self.assertIn('way.starts_with("dp_")', text)
        self.assertIn('trim_start_matches("ddp_").trim_start_matches("dp_")', text)
        self.assertTrue(ddp.ONE_PROCESS.startswith("dp_"))
        for way, (dtype, hook) in ddp.WAYS.items():
            types = {None: "fp32", "float16": "amp_fp16", "bfloat16": "amp_bf16"}[dtype]
            self.assertEqual(way, f"ddp_{types}" + ("_hook" if hook else ""))
            self.assertIn(hook, (None, f"{types.removeprefix('amp_')}_compress_hook"))
        self.assertEqual(list(NETWORKS), ["mnist", "cifar10", "amp-recipe"])

    def file(self, gpus: int, *words: str) -> dict[str, Any]:
        results = [result("ddp_fp32", 1, 100.0), result("ddp_fp32", 2, 125.0)]
        with mock.patch.object(wr, "output_of", lambda *command: "580.1"):
            return ddp.written(ddp.parsed(list(words)), list(words), fake_torch(gpus), results)

    def test_the_file_says_what_was_measured_and_how(self):
        value = json.loads(json.dumps(self.file(2, "--gpus", "2", "--batch", "8", "--steps", "3", "--repeats", "4")))
        self.assertEqual(value["command"], "python3 notebooks/pytorch/ddp.py --gpus 2 --batch 8 --steps 3 --repeats 4")
        self.assertRegex(value["created"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        self.assertEqual((value["steps"], value["repeats"], value["warm_up"]), (3, 4, ddp.WARM_UP))
        self.assertEqual((value["driver"], value["cuda"], value["torch"]), ("580.1", "13.0", "2.11.0+cu130"))
        self.assertEqual((value["device"], value["gpus"]), ("NVIDIA Test 0", ["NVIDIA Test 0", "NVIDIA Test 1"]))
        cpu = self.file(2, "--ranks", "2")
        self.assertEqual((cpu["device"], cpu["gpus"], cpu["driver"], cpu["cuda"]), ("CPU", [], None, None))

    def test_the_reader_finds_its_fields_and_takes_others(self):
        text, value = READER.read_text(encoding="utf-8"), self.file(2, "--gpus", "2")
        self.assertNotIn("deny_unknown_fields", text)
        for name, has in (("PyTorch", value), ("TimedWay", value["results"][0])):
            body = re.search(rf"struct {name} \{{(.*?)\n\}}", text, re.S)
            fields = dict(re.findall(r"^    (?:pub )?(\w+): (.+),$", body[1], re.M))
            self.assertTrue(fields)
            kinds = {"String": str, "usize": int, "u64": int, "Option<usize>": int, "Vec<f64>": list, "Vec<TimedWay>": list}
            for field, kind in fields.items():
                self.assertIsInstance(has[field], kinds[kind], field)
        self.assertIn(f'read.script != "{value["script"]}"', text)


class Search(unittest.TestCase):
    def test_one_process_does_not_search_and_others_do(self):
        said, put = [], []
        torch = fake_torch(2)
        cudnn = SimpleNamespace(benchmark=False, allow_tf32=True)
        torch.backends = SimpleNamespace(cudnn=cudnn, cuda=SimpleNamespace(matmul=SimpleNamespace(allow_tf32=True)))
        torch.cuda.set_device = lambda rank: None
        torch.distributed = SimpleNamespace(
            init_process_group=lambda *a, **k: None, destroy_process_group=lambda: said.append(("end", cudnn.benchmark))
        )

        class Rank:
            def __init__(self, torch, way, sizes, device, devices=1):
                self.about = (way, devices, sizes.batch)

            def samples_us(self, steps, repeats):
                said.append((*self.about, cudnn.benchmark))
                return [1.0] * repeats

        args = ddp.parsed(["--gpus", "2", "--batch", "8", "--repeats", "3", "--ways", "dp_fp32", "ddp_fp32"])
        queue = SimpleNamespace(put=put.append)
        with mock.patch.dict(sys.modules, torch=torch), mock.patch.object(ddp, "Rank", Rank), mock.patch.dict("os.environ"):
            ddp.work(0, 1, 1, args, queue)
        expect = [("ddp_fp32", 1, 8, True), ("dp_fp32", 1, 8, False), ("dp_fp32", 2, 16, False), ("end", True)]
        self.assertEqual(said, expect)
        expect = [("ddp_fp32", 1, 8, 3), ("dp_fp32", 1, 8, 3), ("dp_fp32", 2, 8, 3)]
        self.assertEqual([(*about, len(samples)) for *about, samples in put], expect)
        self.assertFalse(cudnn.allow_tf32)

    def test_searching_goes_on_after_an_error(self):
        torch = SimpleNamespace(backends=SimpleNamespace(cudnn=SimpleNamespace(benchmark=True)))
        with self.assertRaises(RuntimeError), ddp.without_search(torch):
            self.assertFalse(torch.backends.cudnn.benchmark)
            raise RuntimeError
        self.assertTrue(torch.backends.cudnn.benchmark)


class OnTheCpu(InFolder):
    def test_ranks_train_together_and_write_a_file(self):
        torch_or_skip(self)
        out = self.folder / "ddp.json"
        words = ["--ranks", "2", "--network", "amp-recipe", "--edge", "8", "--batch", "4", "2", "--steps", "2", "--repeats", "3"]
        with contextlib.redirect_stdout(io.StringIO()) as said:
            ddp.main([*words, "--out", str(out)])
        value = json.loads(out.read_text(encoding="utf-8"))
        rows = [(r["way"], r["ranks"], r["batch_per_rank"]) for r in value["results"]]
        self.assertEqual(rows, [("ddp_fp32", ranks, batch) for ranks in (1, 2) for batch in (4, 2)])
        self.assertTrue(all(len(r["samples_us"]) == 3 and min(r["samples_us"]) > 0 for r in value["results"]))
        self.assertEqual((value["device"], value["edge"], len(said.getvalue().splitlines())), ("CPU", 8, 4))
        self.assertEqual([path.name for path in self.folder.iterdir()], ["ddp.json"], "no temporary file is left")


if __name__ == "__main__":
    unittest.main()
