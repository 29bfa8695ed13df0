#!/usr/bin/env python3
"""Speed of GPT-2 124M through llama.cpp, tuned: prints one JSON line.

    generate_llama.py [--dtype f32|bf16|q8_0] [--flash] [--threads 2] [--prompt 256] [--tokens 64] [--rounds 3]

Random weights, written as GGUF; greedy, one sequence. `first_s` is the prompt and the choice of a token, `tokens_per_s` the rate of
those behind it. The library is called through its C functions, so that Python costs a few microseconds a token.
"""

import argparse
import ctypes
import pathlib
import statistics
import tempfile
import time

from peer_common import peak_mib, report, tune_process

VOCABULARY, WIDTH, BLOCKS, HEADS, CONTEXT = 50304, 768, 12, 12, 1024


def write_model(path, dtype):
    """GPT-2's shape: matrices of `dtype`, norms, biases and positions of f32. The head is the table of tokens."""
    import gguf
    import numpy

    kind = dict(f32=gguf.GGMLQuantizationType.F32, bf16=gguf.GGMLQuantizationType.BF16, q8_0=gguf.GGMLQuantizationType.Q8_0)[dtype]
    random = numpy.random.default_rng(0)
    writer = gguf.GGUFWriter(path, "gpt2")
    writer.add_vocab_size(VOCABULARY)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(4 * WIDTH)
    writer.add_block_count(BLOCKS)
    writer.add_head_count(HEADS)
    writer.add_layer_norm_eps(1e-5)
    writer.add_tokenizer_model("none")

    def matrix(name, rows, columns, quantized=True):
        values = random.normal(0, 0.02, (rows, columns)).astype(numpy.float32)
        to = kind if quantized else gguf.GGMLQuantizationType.F32
        writer.add_tensor(f"{name}.weight", gguf.quants.quantize(values, to), raw_dtype=to)

    def vector(name, size, value):
        writer.add_tensor(name, numpy.full(size, value, numpy.float32))

    def norm(name):
        vector(f"{name}.weight", WIDTH, 1)
        vector(f"{name}.bias", WIDTH, 0)

    matrix("token_embd", VOCABULARY, WIDTH)
    matrix("position_embd", CONTEXT, WIDTH, quantized=False)
    norm("output_norm")
    for block in range(BLOCKS):
        norm(f"blk.{block}.attn_norm")
        norm(f"blk.{block}.ffn_norm")
        for name, out, inputs in (("attn_qkv", 3, 1), ("attn_output", 1, 1), ("ffn_up", 4, 1), ("ffn_down", 1, 4)):
            matrix(f"blk.{block}.{name}", out * WIDTH, inputs * WIDTH)
            vector(f"blk.{block}.{name}.bias", out * WIDTH, 0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


class Model:
    """One sequence of a model with a cache for `length` tokens."""

    def __init__(self, path, length, threads, flash):
        import llama_cpp
        import numpy

        self.llama, self.numpy = llama_cpp, numpy
        # Its log tells of every tensor. The function must stay alive.
        self.silent = llama_cpp.llama_log_callback(lambda level, text, data: None)
        llama_cpp.llama_log_set(self.silent, ctypes.c_void_p(0))
        llama_cpp.llama_backend_init()
        self.model = llama_cpp.llama_model_load_from_file(str(path).encode(), llama_cpp.llama_model_default_params())
        settings = llama_cpp.llama_context_default_params()
        settings.n_ctx = length
        settings.n_batch = settings.n_ubatch = 512
        settings.n_threads = settings.n_threads_batch = threads
        settings.flash_attn_type = 1 if flash else 0
        self.context = llama_cpp.llama_init_from_model(self.model, settings)
        if not self.model or not self.context:
            raise SystemExit("[peer] llama.cpp did not load its model")

    def forget(self):
        self.llama.llama_memory_clear(self.llama.llama_get_memory(self.context), True)

    def next(self, tokens):
        """The likeliest token behind these."""
        ids = (self.llama.llama_token * len(tokens))(*tokens)
        if self.llama.llama_decode(self.context, self.llama.llama_batch_get_one(ids, len(tokens))):
            raise SystemExit("[peer] llama.cpp did not decode")
        logits = self.llama.llama_get_logits_ith(self.context, -1)
        return int(self.numpy.ctypeslib.as_array(logits, (VOCABULARY,)).argmax())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dtype", choices=("f32", "bf16", "q8_0"), default="f32")
    parser.add_argument("--flash", action="store_true", help="its flash attention")
    for name, value in dict(threads=2, prompt=256, tokens=64, rounds=3).items():
        parser.add_argument(f"--{name}", type=int, default=value)
    o = parser.parse_args()
    tune_process(o.threads)
    import llama_cpp
    import numpy

    prompt = numpy.random.default_rng(1).integers(0, VOCABULARY, o.prompt).tolist()
    rounds = []
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "gpt2.gguf"
        write_model(path, o.dtype)
        model = Model(path, o.prompt + o.tokens, o.threads, o.flash)
        for _ in range(1 + o.rounds):
            model.forget()
            start = time.perf_counter()
            token = model.next(prompt)
            first = time.perf_counter()
            for _ in range(o.tokens - 1):
                token = model.next([token])
            rate = (o.tokens - 1) / (time.perf_counter() - first)
            rounds.append(dict(first_s=round(first - start, 4), tokens_per_s=round(rate, 2)))
    rounds = rounds[1:]  # the first one touches the memory
    rates = [r["tokens_per_s"] for r in rounds]
    figures = dict(dtype=o.dtype, flash=o.flash, threads=o.threads, llama_cpp_python=llama_cpp.__version__)
    median = statistics.median(rates)
    report(**figures, first_s=min(r["first_s"] for r in rounds), tokens_per_s=max(rates), median=median, runs=rounds, peak_mib=peak_mib())


if __name__ == "__main__":
    main()
