"""Tests of trainings.py that need no GPU, and PyTorch only where it is there: python3 -m unittest, in this folder."""

from __future__ import annotations

import contextlib
import io
import json
import math
import random
import re
import sys
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent))

import trainings as t
import warpbook_record as wr
from test_loader_loop import idx
from testing import SCHEMA_FILE, WITH_GPU, WITHOUT_GPU, InFolder, has_required, like, problem, torch_or_skip

ROOT = Path(__file__).resolve().parents[2]
RECIPE = ROOT / "crates/warpbook-nn/src/train/recipe.rs"


def log(of: dict[str, Any], rung: str = "13_last_block_fp16", device: str = "NVIDIA Test in amp-fp16", **changed: Any) -> dict[str, Any]:
    """Returns the log of a problem as Warpbook writes it; `changed` overrides words of its recipe, or parts of its course."""
    sizes = {size["name"]: size["value"] for size in of["sizes"]}
    words = {"recipe": sizes["network"], "device": device, **t.RECIPES[sizes["network"]].words}
    words |= {"gradient clipping": "none", "batch": str(sizes["batch"]), "epochs": "2", "seed": str(sizes["seed"])}
    course = {"data": "MNIST: the original files", "log_every": 2, "first_step": 0}
    for name, value in changed.items():
        if name in course:
            course[name] = value
        else:
            words[name.replace("_", " ")] = value
    return {"rung": rung, "problem": of["id"], "course": {**course, "recipe": [list(pair) for pair in words.items()]}}


def trained(network: str = "mnist", samples: int = 20, batch: int = 8, steps: int = 6, seed: int = 1) -> dict[str, Any]:
    sizes = {"network": network, "samples": samples, "batch": batch, "steps": steps, "rate": 0.05, "seed": seed}
    return problem(f"{network} {batch}", "f32", **sizes)


class Words(InFolder):
    def jobs(self, *logs: dict[str, Any], problems: list[dict[str, Any]]) -> list[t.Job]:
        record = like("train", problems, train_logs=list(logs))
        return t.jobs_of(self.folder / "like.json", wr.read_like(self.write(record), "train"))

    def test_a_log_says_what_is_trained(self):
        p = trained()
        [job] = self.jobs(log(p, epochs="3", gradient_clipping="to a norm of 0.5"), problems=[p])
        self.assertEqual((job.name, job.precision, job.way.id), ("mnist", "amp-fp16", "torch_amp_fp16"))
        self.assertEqual((job.batch, job.epochs, job.steps, job.seed, job.clip, job.log_every), (8, 3, 6, 1, 0.5, 2))
        self.assertEqual((job.samples, job.steps_per_epoch), (20, 3))
        for name, way in t.WAYS.items():
            [job] = self.jobs(log(p, device=f"NVIDIA H100 80GB in {name}"), problems=[p])
            self.assertEqual((job.precision, job.way), (name, way))
        [job] = self.jobs(log(p, device="the CPU in fp32"), problems=[p])
        self.assertEqual((job.precision, job.way.id, job.way.on_gpu), ("fp32", "torch_cpu", False))

    def test_each_training_of_a_merged_record_is_followed_once(self):
        p, q = trained(), trained(batch=4, steps=10)
        logs = [log(p), log(p, "as_another_rung"), log(p, device="NVIDIA Test in fp32"), log(q)]
        jobs = self.jobs(*logs, problems=[p, q])
        self.assertEqual([(j.precision, j.batch) for j in jobs], [("amp-fp16", 8), ("fp32", 8), ("amp-fp16", 4)])

    def test_other_trainings_are_refused(self):
        p = trained()
        for changed, expect in [
            ({"recipe": "cifar10-speedrun"}, "trains mnist and cifar10, not cifar10-speedrun"),
            ({"optimiser": "SGD, momentum 0.5"}, "its optimiser is `SGD, momentum 0.5`, but this script trains with `SGD, momentum 0.9`"),
            ({"learning_rate": "0.1"}, "its learning rate is `0.1`"),
            ({"parameters conv*.weight": "Muon"}, "knows no parameters conv*.weight"),
            ({"ranks": "2 ranks"}, "knows no ranks"),
            ({"first_step": 5}, "training that was gone on with"),
            ({"data": "synthetic digits: drawn by a program (seed 1)"}, "which this script does not draw"),
            ({"device": "NVIDIA Test in fp8"}, "whose precision is not one of fp32"),
        ]:
            self.refused(lambda changed=changed: self.jobs(log(p, **changed), problems=[p]), expect)
        self.refused(lambda: self.jobs(log(p) | {"course": None}, problems=[p]), "does not say what was trained")
        self.refused(lambda: self.jobs(problems=[p]), "has no training to follow")

    def test_words_are_those_of_warpbook_s_recipes(self):
        text = RECIPE.read_text(encoding="utf-8")
        for name, settings in {
            "mnist": ["momentum: 0.9, nesterov: false, weight_decay: 0.0", "learning_rate: 0.05,", "Step { every: 5, gamma: 0.5 }"],
            "cifar10": ["Optimizer::adam()", "learning_rate: 1e-3,", "Schedule::Constant", "Augmentation::new(4, true)"],
        }.items():
            body = re.search(rf"pub fn {name}\(\) -> Self \{{(.*?)\n    \}}", text, re.S)[1]
            for setting in settings:
                self.assertIn(setting, body)
        self.assertEqual((t.RECIPES["mnist"].halved_every, t.RECIPES["cifar10"].halved_every), (5, None))

    def test_arguments(self):
        out, record = str(self.folder / "o.json"), self.write(like("train", [trained()]))
        self.assertEqual(t.parse(["--like", "a", "--data", "d", "--out", out]).data, Path("d"))
        self.refused(lambda: t.parse(["--like", "a", "--data", "d", "--out", str(self.folder / "no/o.json")]), "no folder")
        self.refused(lambda: t.parse(["--like", str(record), "--data", "d", "--out", str(record)]), "would replace")
        self.refused(lambda: t.parse(["--like", "a", "--out", out]), "--data")


class Logs(unittest.TestCase):
    def log(self, log_every: int = 2) -> t.Log:
        p = wr.Problem(trained(samples=20, batch=8))
        words = {"recipe": "mnist", "device": "NVIDIA Test in amp-fp16", "batch": "8 in 2 parts", "products": "mine.cu"}
        return t.Log(t.Job(p, t.WAYS["amp-fp16"], "mnist", "amp-fp16", 8, 2, 6, 1, None, log_every, words, "MNIST"))

    def test_losses_are_means_and_the_last_of_an_epoch_of_fewer(self):
        log = self.log()
        log.add(1, 0.05, [1.0, 3.0, 5.0], [1.0, 2.0, 3.0], [])
        log.add(2, 0.025, [2.0, 2.0, math.nan], [1.0, math.inf, math.nan], [])
        steps = [(p["epoch"], p["step"], p["loss"]) for p in log.losses]
        self.assertEqual(steps, [(1, 2, 2.0), (1, 3, 5.0), (2, 5, 2.0), (2, 6, "NaN")])
        self.assertEqual([(p["step"], p["value"]) for p in log.norms], [(2, 1.5), (3, 3.0), (5, 1.0)])
        self.assertEqual([(p["step"], p["value"]) for p in log.rates], [(1, 0.05), (4, 0.025)])
        self.assertEqual((log.scales, log.skipped, log.steps), ([], [], 6))

    def test_skipped_steps_are_those_after_which_the_scale_fell(self):
        log = self.log(3)
        log.add(1, 0.05, [1.0] * 3, [math.inf, 2.0, 4.0], [65536.0, 32768.0, 32768.0, 65536.0])
        log.add(2, 0.05, [1.0] * 2, [5.0, 7.0], [65536.0, 65536.0, 32768.0])
        self.assertEqual(log.skipped, [1, 5])
        self.assertEqual([(p["step"], p["value"]) for p in log.scales], [(1, 65536.0), (2, 32768.0), (4, 65536.0)])
        self.assertEqual([p["value"] for p in log.norms], [3.0, 5.0], "without the steps that were skipped")

    def test_a_log_without_an_epoch_has_its_last_loss(self):
        log = self.log()
        record = log.record("PyTorch")
        self.assertEqual((record["train_loss"], record["test_loss"]), ("NaN", "NaN"))
        log.add(1, 0.05, [1.0, 3.0], [1.0, 2.0], [])
        record = log.record("PyTorch")
        self.assertEqual(record["train_loss"], 2.0)
        # The record leaves out the words that say how Warpbook computed the work.
        self.assertEqual(record["course"]["recipe"], [["recipe", "mnist"], ["device", "PyTorch"], ["batch", "8"]])
        self.assertNotIn("peak_allocated_bytes", record["course"])


class Trainings(InFolder):
    """Tests that run on the CPU, if PyTorch is installed."""

    def files(self, name: str, train: int, test: int) -> Path:
        rng, folder = random.Random(3), self.folder / name
        folder.mkdir(exist_ok=True)

        def image(label: int, pixels: int) -> bytes:
            """Returns an image with a white tenth; its position is the label."""
            return bytes(255 if i * 10 // pixels == label else rng.randrange(40) for i in range(pixels))

        if name == "mnist":
            for part, count in (("train", train), ("t10k", test)):
                labels = bytes(rng.randrange(10) for _ in range(count))
                images = b"".join(image(label, 784) for label in labels)
                (folder / f"{part}-images-idx3-ubyte").write_bytes(idx(count, 28, 28, data=images))
                (folder / f"{part}-labels-idx1-ubyte").write_bytes(idx(count, data=labels))
            return folder
        inner = folder / "cifar-10-batches-bin"
        inner.mkdir(exist_ok=True)
        for part in [*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"]:
            count = test if part.startswith("test") else train // 5
            labels = [rng.randrange(10) for _ in range(count)]
            (inner / part).write_bytes(b"".join(bytes([label]) + image(label, 3072) for label in labels))
        return folder

    def run_script(self, record: dict[str, Any], folder: Path) -> tuple[int, str, dict[str, Any]]:
        torch_or_skip(self)
        out = self.folder / "out.json"
        with contextlib.redirect_stderr(io.StringIO()) as said:
            code = t.main(["--like", str(self.write(record)), "--data", str(folder), "--out", str(out), "--author", "me"])
        return code, said.getvalue(), json.loads(out.read_text(encoding="utf-8")) if out.exists() else {}

    def of_cpu(self, *problems: dict[str, Any], **changed: Any) -> dict[str, Any]:
        logs = [log(p, "cpu_all_threads", "the CPU in fp32", **changed) for p in problems]
        return like("train", list(problems), WITHOUT_GPU.device, train_logs=logs)

    def test_a_training_is_followed_from_the_first_step_to_the_last(self):
        folder = self.files("mnist", 60, 20)
        code, said, record = self.run_script(self.of_cpu(trained(samples=60, batch=16, steps=24), epochs="6"), folder)
        self.assertEqual(code, 0, said)
        [log] = record["train_logs"]
        course = log["course"]
        self.assertEqual((course["steps"], course["steps_per_epoch"], course["ended"]), (24, 4, "finished"))
        # Sixty images in batches of sixteen: the last batch has twelve.
        self.assertEqual([p["step"] for p in log["losses"]], list(range(2, 25, 2)))
        self.assertEqual([p["step"] for p in course["gradient_norms"]], list(range(2, 25, 2)))
        rates = [(p["step"], p["value"]) for p in course["learning_rates"]]
        self.assertEqual(rates, [(1, 0.05), (21, 0.025)])
        self.assertEqual([(e["epoch"], e["step"], e["train"]["of"]) for e in course["epochs"]], [(i, 4 * i, 60) for i in range(1, 7)])
        first, last = course["epochs"][0], course["epochs"][-1]
        self.assertLess(last["test_loss"], first["test_loss"])
        self.assertGreater(last["test"]["correct"], 15, "of 20: it learned the labels")
        self.assertGreaterEqual(course["total_s"], sum(e["seconds"] for e in course["epochs"]))
        self.assertEqual((log["train_loss"], log["test_loss"]), (last["train_loss"], last["test_loss"]))
        self.assertEqual((course["loss_scales"], course["skipped_total"]), ([], 0))
        self.assertIn("test accuracy", said)
        self.assertEqual((record["author"], record["measurements"]), ("me", []))
        self.assertEqual([r["id"] for r in record["rungs"]], ["torch_cpu"])
        if SCHEMA_FILE.is_file():
            schema = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
            schema["required"] = [key for key in schema["required"] if key != "descriptor"]
            has_required(self, {k: v for k, v in record.items() if k != "descriptor"}, schema, schema)
            has_required(self, course, schema["$defs"]["Course"], schema)

    def test_cifar_10_and_several_trainings(self):
        folder = self.files("cifar", 20, 10)
        problems = [trained("cifar10", seed=seed) for seed in (1, 2)]
        code, said, record = self.run_script(self.of_cpu(*problems, gradient_clipping="to a norm of 0.001"), folder)
        self.assertEqual(code, 0, said)
        logs = record["train_logs"]
        self.assertEqual([log["problem"] for log in logs], [p["id"] for p in problems])
        self.assertEqual([log["course"]["steps"] for log in logs], [6, 6])
        self.assertNotEqual(logs[0]["losses"], logs[1]["losses"], "another seed")
        self.assertGreater(min(p["value"] for p in logs[0]["course"]["gradient_norms"]), 0.001, "before they are clipped")

    def test_a_training_may_end_within_an_epoch(self):
        folder = self.files("mnist", 20, 10)
        code, _, record = self.run_script(self.of_cpu(trained(steps=4)), folder)
        course = record["train_logs"][0]["course"]
        self.assertEqual((code, course["steps"], [e["step"] for e in course["epochs"]]), (0, 4, [3]))
        self.assertEqual([p["step"] for p in record["train_logs"][0]["losses"]], [2, 3, 4])

    def test_the_same_seed_trains_the_same(self):
        folder = self.files("mnist", 20, 10)
        first, second = (self.run_script(self.of_cpu(trained(), epochs="1"), folder)[2] for _ in range(2))
        self.assertEqual(first["train_logs"][0]["losses"], second["train_logs"][0]["losses"])

    def test_the_scaler_s_backing_off_is_logged(self):
        torch = torch_or_skip(self)
        folder, p = self.files("mnist", 20, 10), trained()
        jobs = t.jobs_of(Path("like.json"), like("train", [p], train_logs=[log(p, epochs="2")]))
        train, test = t.images_of(torch, "mnist", folder, "cpu")
        training = t.Training(torch, jobs[0], train, test, "cpu")
        training.autocast = lambda: torch.autocast("cpu", enabled=False)
        training.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
        step, calls = training.step, []

        def overflowing(picked: Any) -> Any:
            calls.append(picked)
            if len(calls) != 2:
                return step(picked)
            with mock.patch.object(torch.nn.functional, "cross_entropy", lambda x, y: x.sum() * math.inf):
                return step(picked)

        training.step = overflowing
        followed = t.Log(jobs[0])
        list(training.epochs(followed))
        self.assertEqual(followed.skipped, [2])
        self.assertEqual([(p["step"], p["value"]) for p in followed.scales], [(1, 1024.0), (3, 512.0)])
        self.assertTrue(all(math.isfinite(p["value"]) for p in followed.norms))
        self.assertTrue(all(bool(torch.isfinite(p).all()) for p in training.model.parameters()), "the step was skipped")

    def test_a_loss_that_is_not_finite_is_an_error(self):
        torch = torch_or_skip(self)
        folder = self.files("mnist", 20, 10)
        with mock.patch.object(torch.nn.functional, "cross_entropy", lambda x, y, reduction="mean": x.sum() * math.nan):
            code, said, record = self.run_script(self.of_cpu(trained()), folder)
        self.assertEqual((code, record["train_logs"][0]["losses"][0]["loss"]), (1, "NaN"), said)

    def test_an_interrupted_training_keeps_its_epochs(self):
        torch_or_skip(self)
        folder, calls, step = self.files("mnist", 20, 10), [], t.Training.step

        def interrupted(training: t.Training, picked: Any) -> Any:
            calls.append(picked)
            if len(calls) == 5:
                raise KeyboardInterrupt
            return step(training, picked)

        with mock.patch.object(t.Training, "step", interrupted):
            code, said, record = self.run_script(self.of_cpu(trained()), folder)
        course = record["train_logs"][0]["course"]
        self.assertEqual((code, len(course["epochs"]), course["ended"]), (130, 1, "stopped after step 3 of 6"), said)

    def test_files_that_are_not_those_of_the_record_are_refused(self):
        folder = self.files("mnist", 30, 10)
        code, said, record = self.run_script(self.of_cpu(trained()), folder)
        self.assertEqual((code, record), (2, {}))
        self.assertIn("has 30 training images, but the record was trained on 20", said)
        code, said, _ = self.run_script(self.of_cpu(trained("cifar10")), folder)
        self.assertEqual(code, 2)
        self.assertIn("CIFAR-10's binary files cannot be read", said)

    def test_a_gpu_s_record_needs_a_gpu(self):
        torch = torch_or_skip(self)
        p = trained()
        with mock.patch.object(torch.cuda, "is_available", lambda: False):
            code, said, record = self.run_script(like("train", [p], WITH_GPU.gpu, train_logs=[log(p)]), self.folder)
        self.assertEqual((code, record), (2, {}))
        self.assertIn("was trained on a GPU, and PyTorch finds no GPU here", said)


if __name__ == "__main__":
    unittest.main()
