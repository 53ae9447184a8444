"""Starts the Rust kernel in a build folder that is kept: kernel.py EVCXR FOLDER CONNECTION_FILE

Two kernels must not build in one folder, so each takes the first of FOLDER/0, FOLDER/1, ... that no other holds.
"""

import fcntl
import os
import sys
import time

# What a package is compiled for cannot be said in a variable, but Cargo reads this above the folder that it builds in.
# Debug assertions are for cells: in packages they cost the first cell a seventh of its time, and CPU rungs a part of their speed.
# The facade, the lab, records, charts, the table of kernels and file formats are slow to optimise, and optimising one saves only
# milliseconds a chart.
NOT_OPTIMISED = ["warpbook", "warpbook-charts", "warpbook-kernels", "warpbook-lab", "warpbook-record", "object", "png", "safetensors", "tar"]
CONFIG = """\
[profile.dev.package."*"]
debug-assertions = false
overflow-checks = false
""" + "".join(f"\n[profile.dev.package.{name}]\nopt-level = 0\n" for name in NOT_OPTIMISED)


def configure(base):
    folder = os.path.join(base, ".cargo")
    os.makedirs(folder, exist_ok=True)
    part = os.path.join(folder, f"config.{os.getpid()}.part")
    with open(part, "w") as file:
        file.write(CONFIG)
    os.replace(part, os.path.join(folder, "config.toml"))


# Seconds to wait for a folder that another kernel holds. The process of a kernel that has just ended may hold its folder until its GPU is released.
PATIENCE_S = 5.0


def lock(base, slot):
    """Locks a build folder and returns the lock's file, or None if another kernel holds it."""
    file = os.open(os.path.join(base, f"{slot}.lock"), os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(file)
        return None
    return file


def first_free(base):
    """Returns a free folder and its lock. It prefers a folder that was built in before, since building in a new one takes a minute longer."""
    built = [slot for slot in range(64) if os.path.isdir(os.path.join(base, str(slot)))]
    until = time.monotonic() + PATIENCE_S
    while built and time.monotonic() < until:
        for slot in built:
            if (file := lock(base, slot)) is not None:
                return slot, file
        time.sleep(0.1)
    for slot in range(64):
        if (file := lock(base, slot)) is not None:
            return slot, file
    return None, None


evcxr, base, connection = sys.argv[1:4]
base = os.environ.get("WARPBOOK_EVCXR_DIR", base)
try:
    configure(base)
    slot, file = first_free(base)
    if file is not None:
        folder = os.path.join(base, str(slot))
        os.makedirs(folder, exist_ok=True)
        # Left open over exec: the lock is held as long as the kernel lives.
        os.set_inheritable(file, True)
        os.environ["EVCXR_TMPDIR"] = folder
except OSError as error:
    # A folder that cannot be written costs time, not the kernel: evcxr then builds in a temporary one.
    print(f"The build folder {base} cannot be used: {error}", file=sys.stderr)
# Code that is optimised once and for all takes a fifth less time without what makes the next build of it faster.
os.environ.setdefault("CARGO_INCREMENTAL", "0")
os.environ.setdefault("CARGO_PROFILE_DEV_LTO", "off")
os.execv(evcxr, [evcxr, "--control_file", connection])
