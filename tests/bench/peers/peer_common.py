"""Code shared by the PyTorch peers: a tuned process, MNIST as tensors, models."""

import gzip
import json
import os
import pathlib
import statistics
import struct
import subprocess
import sys
import time

# Read by the OpenMP runtime and the allocator before main, so the process re-executes itself once.
# Binding stops a virtual machine from packing two threads on one core; the MALLOC_ values stop
# glibc from returning big blocks to the kernel and faulting them in again each step.
TUNED = {
    "OMP_PROC_BIND": "true",
    "OMP_PLACES": "cores",
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": "17179869184",
    "MALLOC_TOP_PAD_": "268435456",
    "CUDA_VISIBLE_DEVICES": "",
}
CRIPPLING = ("OPENBLAS_CORETYPE", "MKL_DEBUG_CPU_TYPE", "ATEN_CPU_CAPABILITY", "GOMP_CPU_AFFINITY")
MARK = "PLAIT_PEER_TUNED"
# On AMD, PyPI's MKL takes AVX2 code unless it believes in an Intel processor: half the rate of f32 products.
AS_INTEL = "int mkl_serv_intel_cpu_true(void) { return 1; }\nint mkl_serv_intel_cpu(void) { return 1; }\n"


def as_intel():
    """A library to load in front of MKL, on AMD and where there is a C compiler; else nothing."""
    if "AuthenticAMD" not in pathlib.Path("/proc/cpuinfo").read_text():
        return {}
    library = pathlib.Path(sys.prefix) / "plait_as_intel.so"
    if not library.exists():
        made = library.with_suffix(f".{os.getpid()}")
        command = ["cc", "-shared", "-fPIC", "-x", "c", "-o", made, "-"]
        try:
            subprocess.run(command, input=AS_INTEL, text=True, check=True)
            made.rename(library)
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"[peer] MKL runs untuned on this AMD processor, since a small library can't be made: {error}", file=sys.stderr)
            return {}
    return {"LD_PRELOAD": str(library)}


def tune_process(threads, tuned=True):
    """Makes this process one whose environment suits `threads` threads; returns only when it is."""
    if os.environ.get(MARK) == str(threads):
        return
    environment = {k: v for k, v in os.environ.items() if k not in CRIPPLING}
    environment |= {MARK: str(threads), "OMP_NUM_THREADS": str(threads)}
    if tuned:
        environment |= TUNED | as_intel()
    os.execve(sys.executable, [sys.executable, *sys.argv], environment)


def import_torch(threads, tuned=True):
    import torch

    torch.set_num_threads(threads)
    torch.set_num_interop_threads(1)
    if tuned:
        torch.set_flush_denormal(True)
    return torch


def read_idx(path):
    """The bytes of an IDX file of unsigned bytes (.gz), as a uint8 tensor of its shape."""
    import torch

    data = gzip.decompress(pathlib.Path(path).read_bytes())
    zero, kind, rank = struct.unpack(">HBB", data[:4])
    if zero != 0 or kind != 8:
        raise SystemExit(f"[peer] {path}: not an IDX file of unsigned bytes")
    shape = struct.unpack(f">{rank}I", data[4 : 4 + 4 * rank])
    return torch.frombuffer(bytearray(data[4 + 4 * rank :]), dtype=torch.uint8).reshape(shape)


def load_mnist(folder):
    """(train x, train y, test x, test y): x (N,784) f32 in 0 … 1, y (N) int64; synthetic if no folder."""
    import torch

    if not folder:
        generator = torch.Generator().manual_seed(1)
        train, test = 60000, 10000
        x = torch.rand(train + test, 784, generator=generator)
        y = torch.randint(0, 10, (train + test,), generator=generator)
        return x[:train], y[:train], x[train:], y[train:]
    parts = []
    for part in ("train", "t10k"):
        images = read_idx(f"{folder}/{part}-images-idx3-ubyte.gz")
        labels = read_idx(f"{folder}/{part}-labels-idx1-ubyte.gz")
        parts += [images.reshape(len(images), -1).float() / 255, labels.long()]
    return tuple(parts)


def mlp(widths):
    """Linear layers of these widths with ReLU between."""
    from torch import nn

    layers = []
    for inputs, outputs in zip(widths, widths[1:]):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def steps_per_second(run_steps, seconds):
    """(rate, CPUs used) of `run_steps(n)` over about `seconds`; the first calls find n.

    CPUs used = CPU time / wall time: well under the number of threads means that others were running.
    """
    steps, elapsed = 1, 0.0
    while elapsed < seconds / 10:
        start = time.perf_counter()
        run_steps(steps)
        elapsed = time.perf_counter() - start
        if elapsed < seconds / 10:
            steps *= 2
    steps = max(1, int(steps * seconds / elapsed))
    start, cpu = time.perf_counter(), time.process_time()
    run_steps(steps)
    elapsed = time.perf_counter() - start
    return steps / elapsed, (time.process_time() - cpu) / elapsed


def peak_mib():
    """The greatest resident memory of this process so far."""
    status = pathlib.Path("/proc/self/status").read_text()
    return round(int(status.split("VmHWM:")[1].split()[0]) / 1024, 1)


def report(**figures):
    """One JSON line on stdout."""
    print(json.dumps(figures), flush=True)


def median(runs):
    return statistics.median(runs)
