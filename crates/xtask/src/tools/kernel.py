"""Starts the Rust kernel in a build folder that is kept: kernel.py EVCXR FOLDER CONNECTION_FILE

Two kernels must not build in one folder, so each takes the first of FOLDER/0, FOLDER/1, ... that no other holds.
"""

import fcntl
import os
import sys

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


evcxr, base, connection = sys.argv[1:4]
base = os.environ.get("WARPBOOK_EVCXR_DIR", base)
try:
    configure(base)
    for slot in range(64):
        # Left open over exec: the lock is held as long as the kernel lives.
        lock = os.open(os.path.join(base, f"{slot}.lock"), os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            continue
        folder = os.path.join(base, str(slot))
        os.makedirs(folder, exist_ok=True)
        os.set_inheritable(lock, True)
        os.environ["EVCXR_TMPDIR"] = folder
        break
except OSError as error:
    # A folder that cannot be written costs time, not the kernel: evcxr then builds in a temporary one.
    print(f"The build folder {base} cannot be used: {error}", file=sys.stderr)
# Code that is optimised once and for all takes a fifth less time without what makes the next build of it faster.
os.environ.setdefault("CARGO_INCREMENTAL", "0")
os.environ.setdefault("CARGO_PROFILE_DEV_LTO", "off")
os.execv(evcxr, [evcxr, "--control_file", connection])
