"""The tests share this module: records as `warpbook run` writes them, a machine, and a check of the scripts' records."""

from __future__ import annotations

import json
import math
import tempfile
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any

import warpbook_record as wr

SCHEMA_FILE = Path(__file__).resolve().parents[2] / "data/schema/run.v2.schema.json"
GPU = wr.device_record(
    kind="cuda", index=0, name="NVIDIA Test", memory_bytes=1 << 36, multiprocessors=132, compute_capability=[9, 0]
)
WITH_GPU = wr.Machine("2.11.0+cu130", GPU, "580.1", "13.0")
WITHOUT_GPU = wr.Machine("2.11.0+cu130")


def problem(short: str, dtype: str, **sizes: Any) -> dict[str, Any]:
    """Returns a problem; its id consists of its sizes, as in Warpbook."""
    return {
        "id": " ".join([*(f"{name}={value}" for name, value in sizes.items()), dtype]),
        "label": f"{short} {dtype}",
        "short": short,
        "sizes": [{"name": name, "value": value} for name, value in sizes.items()],
        "dtype": dtype,
        "flops": 1000,
        "bytes": 1000,
        "working_set_bytes": 1000,
    }


def like(experiment: str, problems: list[dict[str, Any]], device: dict[str, Any] = GPU, **more: Any) -> dict[str, Any]:
    """Returns a record as Warpbook writes it; the scripts do not use its measurements."""
    on_gpu = device["kind"] == "cuda"
    return {
        "schema": 2,
        "experiment": experiment,
        "title": f"The title of {experiment}",
        "author": "somebody else",
        "command": f"warpbook run {experiment}",
        "environment": {"device": device},
        "policy": {
            "timed_by": "cuda_events" if on_gpu else "wall_clock",
            "l2": "warm",
            "warmup": 2,
            "samples": 5,
            "budget_s": 1.5,
            "batch_below_us": 50.0,
            "inputs": "x drawn in some way; several features: Gaussian x",
            "inputs_by_work": [{"data": "x drawn in some way"}, {"work": "several features", "data": "Gaussian x"}],
        },
        "descriptor": {"headline": "time", "baseline": {"rung": "first"}, "charts": ["ladder", "sweep"]},
        "problems": problems,
        "main_problem": problems[0]["id"] if problems else None,
        **more,
    }


class InFolder(unittest.TestCase):
    """A test that has a temporary folder for its records."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def write(self, record: Any, name: str = "like.json") -> Path:
        path = self.folder / name
        path.write_text(record if isinstance(record, str) else json.dumps(record), encoding="utf-8")
        return path

    def arguments(self, record: Any, *more: str) -> list[str]:
        return ["--like", str(self.write(record)), "--out", str(self.folder / "out.json"), *more]

    def settings(self, kind: type[wr.Ladder], record: Any, *more: str) -> wr.Settings:
        return kind.settings_of(self.arguments(record, *more))

    def refused(self, work: Callable[[], Any], expect: str):
        with self.subTest(expect), self.assertRaises(wr.Refused) as caught:
            work()
        self.assertIn(expect, str(caught.exception))

    def check_record(self, record: dict[str, Any]):
        """Checks that the record is JSON, that its parts refer to each other, and that Warpbook's schema accepts it."""
        record = json.loads(json.dumps(record, allow_nan=False))
        self.assertEqual(record["schema"], 2)
        problems, rungs = ({p["id"] for p in record["problems"]}, {r["id"] for r in record["rungs"]})
        self.assertIn(record.get("main_problem"), problems | {None})
        for row in record["measurements"] + record["train_logs"] + record["parts"]:
            self.assertIn(row["problem"], problems)
            self.assertIn(row["rung"], rungs)
        pairs = [(m["problem"], m["rung"]) for m in record["measurements"]]
        self.assertEqual(sorted(pairs), sorted((p, r) for p in problems for r in rungs), "a row for each")
        for row in record["measurements"]:
            measured = row["outcome"] == {"status": "measured"}
            self.assertEqual(measured, bool(row["samples_us"]) and row["check"]["passed"], row)
        if SCHEMA_FILE.is_file():
            schema = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
            # The descriptor is copied, and in these tests it is invented.
            schema["required"] = [key for key in schema["required"] if key != "descriptor"]
            has_required(self, {k: v for k, v in record.items() if k != "descriptor"}, schema, schema)


def has_required(test: unittest.TestCase, value: Any, schema: dict, root: dict, path: str = "run"):
    """Checks required keys and plain types."""
    if "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rpartition("/")[2]]
    if any(isinstance(value, list) and of.get("type") == "array" for of in schema.get("anyOf", [])):
        schema = next(of for of in schema["anyOf"] if of.get("type") == "array")
    kinds = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}
    if isinstance(kind := schema.get("type"), str) and kind in kinds:
        test.assertIsInstance(value, kinds[kind], path)
    if isinstance(value, dict):
        for key in schema.get("required", []):
            test.assertIn(key, value, path)
        for key, of in schema.get("properties", {}).items():
            if key in value:
                has_required(test, value[key], of, root, f"{path}.{key}")
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        for item in value:
            has_required(test, item, schema["items"], root, f"{path}[]")


def outcomes(record: dict[str, Any]) -> dict[str, dict[str, str]]:
    """Returns the outcomes of the last problem's rows, by rung."""
    return {m["rung"]: m["outcome"] for m in record["measurements"]}


def check(error: float = 0.0, tolerance: float = 1e-3) -> wr.Check:
    return wr.Check("a reference", error, error, tolerance, not math.isnan(error) and error <= tolerance)


def torch_or_skip(test: unittest.TestCase) -> Any:
    try:
        import torch
    except Exception:  # The import fails if the module is missing, or present without its libraries.
        test.skipTest("PyTorch is not installed")
    return torch
