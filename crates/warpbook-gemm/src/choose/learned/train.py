#!/usr/bin/env python3
"""Trains the network that corrects the expected times of products, from surveys with candidates:

    warpbook survey matmul --candidates 14 --out first.json
    warpbook survey matmul --published --candidates 14 --out published.json
    python3 crates/warpbook-gemm/src/choose/learned/train.py first.json second.json ... --published published.json

Prints how good its choices are at products that were left out of the training, and writes h200.json next to this script.
Needs numpy and scikit-learn.
"""

import argparse
import json
import os
import pathlib
import warnings

import numpy as np
from sklearn.neural_network import MLPRegressor

FAR = 4.0  # As in learned.rs: inputs and outputs are limited alike.
MOST = 0.7
# Of the seeds tried, these take the tile in clusters where two are level at 4096 cubed: it is 2 % faster in the mean of its kind of products.
SEEDS = range(2, 5)
FOLDS = 5
# Times close to the fastest matter most, so they are seen twice.
CLOSE = 1.35
# The published products are few, and are to be chosen well.
PUBLISHED = 12


class Timed:
    """The candidates of all products: of each its product, terms, expected and measured microseconds."""

    def __init__(self, paths):
        rows, self.library = [], []
        for path in paths:
            for product in json.loads(pathlib.Path(path).read_text())["products"]:
                tried = [t for t in product.get("tried", []) if t["us"] and t.get("terms")]
                if product["times"] and tried:
                    rows += [(len(self.library), t["terms"], t["us"]) for t in tried]
                    self.library.append(product["times"]["best_us"])
        if not rows:
            raise SystemExit("These surveys have no candidates with terms: run `warpbook survey matmul --candidates 14 --out F`.")
        self.product, terms, us = zip(*rows)
        self.product, self.terms, self.us = np.array(self.product), np.array(terms), np.array(us)
        self.library = np.array(self.library)
        # The first term is the logarithm of what the costs expect.
        self.expected = np.exp(self.terms[:, 0])
        self.target = np.clip(np.log(self.us / self.expected), -MOST, MOST)
        fastest = np.full(len(self.library), np.inf)
        np.minimum.at(fastest, self.product, self.us)
        self.is_close = self.us < CLOSE * fastest[self.product]

    def fit(self, which):
        """Mean and deviation of the terms, and the members, trained with these candidates."""
        mean, deviation = self.terms[which].mean(0), self.terms[which].std(0) + 1e-6
        seen = np.concatenate([which, which[self.is_close[which]]])
        inputs = np.clip((self.terms[seen] - mean) / deviation, -FAR, FAR)
        member = lambda seed: MLPRegressor(
            hidden_layer_sizes=(64, 64), alpha=0.02, max_iter=60, learning_rate_init=2e-3, batch_size=256, random_state=seed
        )
        return mean, deviation, [member(seed).fit(inputs, self.target[seen]) for seed in SEEDS]

    def corrected(self, fitted, which):
        mean, deviation, members = fitted
        inputs = np.clip((self.terms[which] - mean) / deviation, -FAR, FAR)
        return self.expected[which] * np.exp(np.clip(np.mean([m.predict(inputs) for m in members], 0), -MOST, MOST))

    def report(self, name, us):
        """How the candidate with the least of these times compares with the library's best and with the fastest candidate."""
        chosen, fastest = [], []
        for product in range(len(self.library)):
            of = np.flatnonzero(self.product == product)
            chosen.append(self.us[of[np.argmin(us[of])]])
            fastest.append(self.us[of].min())
        chosen, fastest = np.array(chosen), np.array(fastest)
        ratio = self.library / chosen
        print(
            f"{name:24} at 0.9 of the library's best or more: {np.mean(ratio >= 0.9):.3f}, mean {np.exp(np.log(ratio).mean()):.3f}, "
            f"of the fastest candidate {np.exp(np.log(fastest / chosen).mean()):.3f}; spread {np.std(np.log(self.us / us)):.3f}"
        )


def write(path, fitted):
    mean, deviation, members = fitted
    short = lambda values: [float(f"{v:.4g}") for v in values]
    layers = lambda member: [
        {"weights": [short(row) for row in weights.T], "bias": short(bias)}
        for weights, bias in zip(member.coefs_, member.intercepts_)
    ]
    network = {"mean": short(mean), "deviation": short(deviation), "members": [layers(m) for m in members]}
    unfinished = path.with_suffix(".tmp")
    unfinished.write_text(json.dumps(network, separators=(",", ":")) + "\n")
    os.replace(unfinished, path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("surveys", nargs="+", help="files of `warpbook survey matmul --candidates N --out F`")
    parser.add_argument("--published", metavar="FILE", help=f"one with the published products, which count {PUBLISHED} times")
    args = parser.parse_args()
    timed = Timed(args.surveys + [args.published] * (PUBLISHED if args.published else 0))
    # All epochs are meant to be run.
    warnings.filterwarnings("ignore", message="Stochastic Optimizer: Maximum iterations")
    print(f"{len(timed.us)} times of {len(timed.library)} products")
    timed.report("by the costs", timed.expected)
    fold = np.random.default_rng(0).integers(0, FOLDS, len(timed.library))[timed.product]
    unseen = np.empty(len(timed.us))
    for i in range(FOLDS):
        tested = np.flatnonzero(fold == i)
        unseen[tested] = timed.corrected(timed.fit(np.flatnonzero(fold != i)), tested)
    timed.report("corrected, unseen", unseen)
    timed.report("the fastest candidate", timed.us)
    write(pathlib.Path(__file__).with_name("h200.json"), timed.fit(np.arange(len(timed.us))))


if __name__ == "__main__":
    main()
