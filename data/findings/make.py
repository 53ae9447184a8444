#!/usr/bin/env python3
"""Makes a device's file of findings: the fastest kernel of ours for each product of a record,
the chooser's included (`as_chosen`, with the tile that it took), and what surveys have chosen and timed.

    python3 data/findings/make.py data/results/matmul-h200.json data/surveys/matmul-h200-*.json > data/findings/nvidia-h200.json

All are of one device. The first file in which a product is counts. Products come in the order of their files, at most 100 KB in all.
"""

import json
import pathlib
import statistics
import sys

MOST = 100 << 10
# The rungs that the chooser takes.
CHOSEN = ("07", "08", "09", "10", "13", "14", "15", "16", "17")


def choice(text):
    """Rung and tile of a sentence such as `15_split_k with the tile 64x64s12k4: ...`."""
    rung, _, rest = (text or "").partition(" with the tile ")
    return (rung, rest.split(":")[0]) if rest else None


def chosen(measured):
    """Rung and tile of a row whose kernel the chooser took; older records say the rung in words only."""
    rung = measured.get("chosen")
    return (rung, measured.get("tile")) if rung else choice(measured.get("choice"))


def picked(product):
    """Rung and tile of a survey's product; older surveys say them in words only."""
    pick = product.get("picked")
    return (pick["rung"], pick["tile"]) if pick else choice(product["choice"])


def of_record(record):
    own = {r["id"] for r in record["rungs"] if "kernels" in r["runner"] and r["id"].startswith(CHOSEN)}
    problems = {p["id"]: p for p in record["problems"]}
    best = {}
    for m in record["measurements"]:
        if m["outcome"]["status"] != "measured" or not m["samples_us"]:
            continue
        kernel = (m["rung"], m.get("tile")) if m["rung"] in own else chosen(m) if m["rung"] == "as_chosen" else None
        us = statistics.median(m["samples_us"])
        if kernel and kernel[1] and us < best.get(m["problem"], (None, float("inf")))[1]:
            best[m["problem"]] = (kernel, us)
    for id, (kernel, us) in best.items():
        sizes = {s["name"]: s["value"] for s in problems[id]["sizes"]}
        yield sizes, problems[id]["dtype"], bool(sizes.get("trans_a")), bool(sizes.get("trans_b")), kernel, us


def of_survey(survey):
    for p in survey["products"]:
        kernel = picked(p)
        if p["times"] and kernel and not p["error"]:
            yield p, p["dtype"], p["trans_a"], p["trans_b"], kernel, p["times"]["ours_us"]


def main():
    lines, seen, devices, sources = [], set(), set(), []
    for path in map(pathlib.Path, sys.argv[1:]):
        file = json.loads(path.read_text())
        device = file["environment"]["device"]
        devices.add((device["name"], device["multiprocessors"]))
        sources.append(path.name)
        for sizes, dtype, trans_a, trans_b, (rung, tile), us in of_record(file) if "rungs" in file else of_survey(file):
            key = (sizes["m"], sizes["n"], sizes["k"], dtype, trans_a, trans_b)
            if key in seen:
                continue
            seen.add(key)
            finding = {"m": sizes["m"], "n": sizes["n"], "k": sizes["k"], "dtype": dtype}
            finding |= {"trans_a": True} if trans_a else {}
            finding |= {"trans_b": True} if trans_b else {}
            finding |= {"rung": rung, "tile": tile, "us": float(f"{us:.4g}")}
            lines.append(json.dumps(finding, separators=(",", ":")))
    if len(devices) != 1:
        raise SystemExit(f"These files are of {len(devices)} devices, and findings are of one.")
    ((name, multiprocessors),) = devices
    head = json.dumps({"device": name, "multiprocessors": multiprocessors, "from": ", ".join(sources)})[:-1]
    while len(text := head + ', "findings": [\n' + ",\n".join(lines) + "\n]}\n") > MOST:
        lines.pop()
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
