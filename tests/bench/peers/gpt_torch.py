#!/usr/bin/env python3
"""Training speed of PyTorch on a GPT, tuned: prints JSON lines of tokens per second.

    gpt_torch.py [--vocabulary 50304] [--width 768] [--layers 12] [--heads 12] [--batch 4] [--length 256]
                 [--dtype f32|bf16] [--mode eager|compile] [--threads 2] [--device cpu|cuda] [--lora RANK]
                 [--rounds-on-input]

GPT-2's shape: positions are learned, norms before attention and MLP, GELU by tanh, the head tied to the
embedding, no dropout. Random tokens, cross-entropy, AdamW at 3e-4 on f32 parameters; bf16 through autocast.
Attention is scaled_dot_product_attention with is_causal, the optimizer the fused one. `compile` is torch.compile
around the model with its loss; its variants are timed, and the fastest is the one reported (`variant`).
--lora RANK trains LoRA of the library peft on the four linear layers of each block, beside frozen weights, which are bf16
themselves with --dtype bf16.
With --rounds-on-input a round is run for every line read from stdin, each answered by a JSON line. `peak_mib` is the
greatest resident memory of the process so far.
"""

import argparse
import contextlib
import os
import sys

from peer_common import import_torch, median, peak_mib, report, steps_per_second, tune_process

RATE = 3e-4
BATCHES = 8  # different ones, cycled over
VARIANTS = {  # of each mode: options of torch.compile
    "eager": {"plain": None},
    "compile": {"inductor": {}, "inductor_max": {"max_autotune": True, "max_autotune_gemm_backends": "CPP,ATEN"}},
}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, value in dict(vocabulary=50304, width=768, layers=12, heads=12, batch=4, length=256, threads=2, rounds=3).items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--dtype", choices=("f32", "bf16"), default="f32")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--lora", type=int, default=0, help="rank; 0: everything is trained")
    parser.add_argument("--mode", choices=VARIANTS, default="eager")
    parser.add_argument("--variant", choices=sorted({v for m in VARIANTS.values() for v in m}))
    parser.add_argument("--seconds", type=float, default=6.0, help="per round")
    parser.add_argument("--untuned", action="store_true", help="as a user gets it by default")
    parser.add_argument("--rounds-on-input", action="store_true")
    options = parser.parse_args()
    if options.variant and options.variant not in VARIANTS[options.mode]:
        parser.error(f"mode {options.mode} has the variants {', '.join(VARIANTS[options.mode])}")
    return options


def gpt(torch, o):
    """A module: ids (B,T) and labels (B,T), int64, to the mean loss."""
    nn, F = torch.nn, torch.nn.functional

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.attn_norm, self.mlp_norm = nn.LayerNorm(o.width), nn.LayerNorm(o.width)
            self.qkv, self.out = nn.Linear(o.width, 3 * o.width), nn.Linear(o.width, o.width)
            self.up, self.down = nn.Linear(o.width, 4 * o.width), nn.Linear(4 * o.width, o.width)

        def forward(self, x):
            b, t, c = x.shape
            q, k, v = (part.view(b, t, o.heads, c // o.heads).transpose(1, 2) for part in self.qkv(self.attn_norm(x)).split(c, 2))
            a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(a.transpose(1, 2).reshape(b, t, c))
            return x + self.down(F.gelu(self.up(self.mlp_norm(x)), approximate="tanh"))

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.positions = nn.Embedding(o.vocabulary, o.width), nn.Embedding(o.length, o.width)
            self.blocks = nn.ModuleList(Block() for _ in range(o.layers))
            self.norm = nn.LayerNorm(o.width)
            for p in self.parameters():
                if p.dim() == 2:
                    nn.init.normal_(p, std=0.02)

        def forward(self, ids, labels):
            x = self.embed(ids) + self.positions.weight[: ids.shape[1]]
            for block in self.blocks:
                x = block(x)
            logits = F.linear(self.norm(x), self.embed.weight)
            return F.cross_entropy(logits.view(-1, o.vocabulary).float(), labels.reshape(-1))

    torch.manual_seed(0)
    return Gpt()


def with_lora(torch, o, model):
    import peft

    if o.dtype == "bf16":
        model = model.to(torch.bfloat16)
    config = peft.LoraConfig(r=o.lora, lora_alpha=o.lora, target_modules=["qkv", "out", "up", "down"])
    return peft.get_peft_model(model, config)  # factors are f32


def runner(torch, o, variant):
    """A function that trains n steps, cycling over the batches."""
    torch.compiler.reset()
    model = gpt(torch, o)
    model = (with_lora(torch, o, model) if o.lora else model).to(o.device)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=RATE, fused=True)
    compiling = VARIANTS[o.mode][variant]
    forward = model if compiling is None else torch.compile(model, options=compiling)
    low = torch.autocast(o.device, dtype=torch.bfloat16) if o.dtype == "bf16" else contextlib.nullcontext()
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(0, o.vocabulary, (BATCHES, o.batch, o.length + 1), generator=generator).to(o.device)
    position = 0

    def run_steps(count):
        nonlocal position
        for _ in range(count):
            ids = tokens[position]
            with low:
                loss = forward(ids[:, :-1], ids[:, 1:])
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            position = (position + 1) % BATCHES
        if o.device == "cuda":
            torch.cuda.synchronize()

    run_steps(3)
    return run_steps


def go_on_with_fastest(torch, o):
    """Times the variants and starts this script again with the best: the memory of the others must not count."""
    rates = {}
    for variant in VARIANTS[o.mode]:
        try:
            rates[variant] = steps_per_second(runner(torch, o, variant), o.seconds / 2)[0]
        except Exception as error:  # no compiler, another PyTorch: say so and go on without
            print(f"[peer] variant {variant}: {type(error).__name__}: {error}", file=sys.stderr)
    if not rates:
        raise SystemExit(f"[peer] no variant of mode {o.mode} runs here")
    told = ", ".join(f"{name} {rate * o.batch * o.length:.0f} tokens/s" for name, rate in rates.items())
    print(f"[peer] {told}", file=sys.stderr)
    os.execv(sys.executable, [sys.executable, *sys.argv, "--variant", max(rates, key=rates.get)])


def main():
    o = arguments()
    if o.device == "cpu":
        tune_process(o.threads, tuned=not o.untuned)
    torch = import_torch(o.threads, tuned=not o.untuned)
    if not o.variant and len(VARIANTS[o.mode]) > 1:
        go_on_with_fastest(torch, o)
    variant = o.variant or next(iter(VARIANTS[o.mode]))
    run_steps = runner(torch, o, variant)
    figures = dict(mode=o.mode, dtype=o.dtype, threads=o.threads, tuned=not o.untuned, variant=variant, torch=torch.__version__)
    tokens = o.batch * o.length

    def one_round():
        rate, cpus = steps_per_second(run_steps, o.seconds)
        return dict(tokens_per_s=round(rate * tokens, 1), cpus=round(cpus, 2), peak_mib=peak_mib())

    if o.rounds_on_input:
        report(**figures, ready=True)
        for _ in sys.stdin:
            report(**figures, **one_round())
        return
    rounds = [one_round() for _ in range(o.rounds)]
    report(**figures, tokens_per_s=median([r["tokens_per_s"] for r in rounds]), runs=rounds)


if __name__ == "__main__":
    main()
