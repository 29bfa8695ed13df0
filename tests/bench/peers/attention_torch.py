#!/usr/bin/env python3
"""Speed of PyTorch's scaled_dot_product_attention on a GPU: a JSON line for each size and backend.

    attention_torch.py [--rounds 7]

Causal, bf16, the sizes of tests/bench/cuda (cuda_bench), forward with the log-sum-exp that a backward pass needs. `tflops`
counts the half of the products that the mask leaves. Times are medians of events around CUDA graphs of several calls.
"""

import argparse
import json

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

SIZES = [(32, 1024, 12, 12, 64), (4, 2048, 32, 32, 128), (1, 8192, 32, 8, 128)]  # B, T, H, G, d
CALLS = 20  # in a graph


def milliseconds(call, rounds):
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(CALLS):
            call()
    times = []
    for _ in range(rounds):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / CALLS)
    return sorted(times)[rounds // 2]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    for b, t, h, g, d in SIZES:
        # As a model has them: token by token, the heads of a token side by side. Gradients are asked for, so that the
        # log-sum-exp is written.
        q, k, v = (torch.randn(b, t, n, d, device="cuda", dtype=torch.bfloat16, requires_grad=True).transpose(1, 2) for n in (h, g, g))
        flops = 2 * b * h * t * t * d
        for name, backend in (("cudnn", SDPBackend.CUDNN_ATTENTION), ("flash", SDPBackend.FLASH_ATTENTION)):
            found = {"what": "attention", "size": [b, t, h, g, d], "backend": name, "torch": torch.__version__, "cudnn": torch.backends.cudnn.version()}
            try:
                with sdpa_kernel(backend):
                    ms = milliseconds(lambda: scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=g != h), rounds)
                found.update(ms=ms, tflops=flops / ms * 1e-9)
            except RuntimeError as refused:
                found["error"] = str(refused)[:200]
            print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
