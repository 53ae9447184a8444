"""Twenty steps of a small network in PyTorch, for tests to follow: `crates/warpbook-nn/tests/all/golden_small.rs`.

    python3 notebooks/pytorch/golden.py crates/warpbook-nn/tests/golden

It writes small.init.safetensors (initial weights), small.images.safetensors (images u8 [n][c][h][w], labels u8) and small.golden.json: for
each optimiser the losses, the norms of the first step's gradients, and at the end the logits of four images with running statistics.
Made with PyTorch 2.11 on the CPU, in f32 with one thread.
"""

import json
import struct
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

SHAPE = (3, 12, 12)
CLASSES = 5
IMAGES = 120
BATCH = 24
STEPS = 20
SMOOTHING = 0.1
MEAN = [0.45, 0.5, 0.55]
DEVIATION = [0.25, 0.3, 0.2]
OPTIMIZERS = {
    "adam": dict(learning_rate=2e-3, weight_decay=1e-3),
    "sgd_nesterov": dict(learning_rate=2e-2, momentum=0.9, weight_decay=5e-4),
}


class Small(nn.Module):
    """The network with the same layers and names as `network` in golden_small.rs."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.bn1 = nn.BatchNorm2d(8)
        self.conv2 = nn.Conv2d(8, 8, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(8)
        self.conv3 = nn.Conv2d(8, 12, 2)
        self.fc1 = nn.Linear(12 * 2 * 2, 16)
        self.fc2 = nn.Linear(16, CLASSES)

    def forward(self, x):
        x = F.gelu(self.bn1(self.conv1(x)))
        x = x + F.relu(self.bn2(self.conv2(x)))
        x = F.max_pool2d(x, 2, stride=1)
        x = F.avg_pool2d(F.gelu(self.conv3(x)), 2)
        # Dropout is off, because its random numbers differ from Warpbook's.
        x = F.relu(self.fc1(torch.flatten(x, 1)))
        return self.fc2(x)


def write_safetensors(arrays, path):
    """Writes the format of https://huggingface.co/docs/safetensors without a package."""
    names = {np.dtype("float32"): "F32", np.dtype("uint8"): "U8"}
    header, data = {}, b""
    for name, array in sorted(arrays.items()):
        array = np.ascontiguousarray(array)
        end = len(data) + array.nbytes
        header[name] = {"dtype": names[array.dtype], "shape": list(array.shape), "data_offsets": [len(data), end]}
        data += array.tobytes()
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    part = path.with_suffix(".part")
    part.write_bytes(struct.pack("<Q", len(text)) + text + data)
    part.replace(path)


def make_images():
    """Draws noise that is brighter in one colour and one corner, depending on the class, so that there is something to learn."""
    random = np.random.default_rng(7)
    labels = random.integers(0, CLASSES, IMAGES).astype(np.uint8)
    images = random.integers(0, 200, (IMAGES, *SHAPE))
    for image, label in zip(images, labels):
        row, column = divmod(int(label), 3)
        image[label % 3, 6 * row : 6 * row + 6, 4 * column : 4 * column + 4] += 55
    return images.astype(np.uint8), labels


def make_optimizer(name, settings, parameters):
    if name == "adam":
        return torch.optim.Adam(parameters, lr=settings["learning_rate"], weight_decay=settings["weight_decay"])
    return torch.optim.SGD(
        parameters,
        lr=settings["learning_rate"],
        momentum=settings["momentum"],
        nesterov=True,
        weight_decay=settings["weight_decay"],
    )


def train(name, settings, initial, images, labels):
    model = Small()
    model.load_state_dict(initial)
    model.train()
    optimizer = make_optimizer(name, settings, model.parameters())
    losses, norms = [], {}
    for step in range(STEPS):
        first = step * BATCH % IMAGES
        optimizer.zero_grad()
        loss = F.cross_entropy(
            model(images[first : first + BATCH]), labels[first : first + BATCH], label_smoothing=SMOOTHING
        )
        loss.backward()
        if step == 0:
            norms = {n: float(p.grad.double().norm()) for n, p in model.named_parameters()}
        optimizer.step()
        losses.append(float(loss.detach()))
    model.eval()
    with torch.no_grad():
        logits = model(images[:4]).tolist()
    return dict(settings, losses=losses, gradient_norms=norms, logits=logits)


def main(folder):
    torch.manual_seed(3)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    model = Small()
    initial = {name: value.clone() for name, value in model.state_dict().items()}
    images, labels = make_images()
    mean, deviation = (torch.tensor(v).view(1, 3, 1, 1) for v in (MEAN, DEVIATION))
    x = (torch.from_numpy(images).float() / 255 - mean) / deviation
    y = torch.from_numpy(labels).long()
    runs = {name: train(name, settings, initial, x, y) for name, settings in OPTIMIZERS.items()}
    folder.mkdir(parents=True, exist_ok=True)
    weights = {name: v.numpy() for name, v in initial.items() if not name.endswith("num_batches_tracked")}
    write_safetensors(weights, folder / "small.init.safetensors")
    write_safetensors({"images": images, "labels": labels}, folder / "small.images.safetensors")
    about = dict(
        framework=f"PyTorch {torch.__version__}",
        batch=BATCH,
        smoothing=SMOOTHING,
        mean=MEAN,
        deviation=DEVIATION,
        runs=runs,
    )
    (folder / "small.golden.json").write_text(json.dumps(about, indent=1) + "\n")
    for name, run in runs.items():
        print(f"{name}: loss {run['losses'][0]:.5f} to {run['losses'][-1]:.5f}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
