"""Prints what there is of CUDA as JSON: the driver's version, its devices, and an NVRTC with its version and path."""

import ctypes
import json
import os


def load(names):
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None


def loaded_path(part):
    with open("/proc/self/maps") as maps:
        for line in maps:
            fields = line.split(None, 5)
            if len(fields) == 6 and part in os.path.basename(fields[5]):
                return fields[5].strip()
    return None


found = {"driver": None, "devices": 0, "nvrtc": None, "nvrtc_path": None}

driver = load(["libcuda.so.1", "libcuda.so"])
if driver is not None:
    version = ctypes.c_int(0)
    if driver.cuDriverGetVersion(ctypes.byref(version)) == 0:
        found["driver"] = version.value
    count = ctypes.c_int(0)
    if driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0:
        found["devices"] = count.value

names = ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"]
roots = [os.environ.get(v) for v in ("CUDA_HOME", "CUDA_PATH")] + ["/usr/local/cuda"]
folders = [os.path.join(r, lib) for r in roots if r for lib in ("lib64", "lib", "targets/x86_64-linux/lib")]
candidates = [os.environ["WARPBOOK_NVRTC"]] if os.environ.get("WARPBOOK_NVRTC") else []
candidates += names + [os.path.join(f, n) for f in folders for n in names]
nvrtc = load(candidates)
if nvrtc is not None:
    major, minor = ctypes.c_int(0), ctypes.c_int(0)
    if nvrtc.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)) == 0:
        found["nvrtc"] = [major.value, minor.value]
        found["nvrtc_path"] = loaded_path("libnvrtc.so")

print(json.dumps(found))
