#!/usr/bin/env python3
"""Training speed of PyTorch on an MLP, tuned: prints one JSON line of steps per second.

    mlp_torch.py [--what neuron_mlp|wide_mlp] [--mode eager|compile] [--threads 1] [--data FOLDER]

neuron_mlp is 784-120-84-10 at batch 32; wide_mlp is 784-2048-2048-2048-2048-10 at batch 1024. Both: f32,
ReLU, cross-entropy, SGD 0.01, batches as views of one preloaded tensor, no .item() in the loop.
Each mode has variants; all are timed briefly and the fastest is the one reported (`variant`).
With --rounds-on-input a round is run for every line read from stdin, each answered by a JSON line:
for alternating with another engine without starting Python and compiling again.
"""

import argparse
import sys

from peer_common import import_torch, load_mnist, median, mlp, report, steps_per_second, tune_process

MODELS = {
    "neuron_mlp": ([784, 120, 84, 10], 32),
    "wide_mlp": ([784, 2048, 2048, 2048, 2048, 10], 1024),
}
RATE = 0.01


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--what", choices=MODELS, default="neuron_mlp")
    parser.add_argument("--mode", choices=("eager", "compile"), default="eager")
    parser.add_argument("--variant", choices=sorted({v for m in VARIANTS.values() for v in m}))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--data", default="", help="folder with the IDX .gz files; else synthetic")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="per round")
    parser.add_argument("--untuned", action="store_true", help="as a user gets it by default")
    parser.add_argument("--rounds-on-input", action="store_true")
    options = parser.parse_args()
    if options.variant and options.variant not in VARIANTS[options.mode]:
        parser.error(f"mode {options.mode} has the variants {', '.join(VARIANTS[options.mode])}")
    return options


def optimizer_step(torch, model, **options):
    """The usual loop of a PyTorch program."""
    loss_of = torch.nn.functional.cross_entropy
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE, **options)

    def step(x, y):
        optimizer.zero_grad(set_to_none=True)
        loss_of(model(x), y).backward()
        optimizer.step()

    return step


def manual_step(torch, model):
    """Without module hooks and without an optimizer object: the least Python that eager allows."""
    F = torch.nn.functional
    parameters = list(model.parameters())
    linears = list(zip(parameters[::2], parameters[1::2]))

    def step(x, y):
        for w, b in linears[:-1]:
            x = torch.relu(F.linear(x, w, b))
        w, b = linears[-1]
        gradients = torch.autograd.grad(F.cross_entropy(F.linear(x, w, b), y), parameters)
        with torch.no_grad():
            torch._foreach_add_(parameters, gradients, alpha=-RATE)

    return step


def compiled_parts_step(torch, model):
    """torch.compile around the model with its loss, and around the optimizer."""
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE, foreach=True)
    forward = torch.compile(lambda x, y: torch.nn.functional.cross_entropy(model(x), y))
    update = torch.compile(optimizer.step)

    def step(x, y):
        optimizer.zero_grad(set_to_none=True)
        forward(x, y).backward()
        update()

    return step


def compiled_whole_step(torch, model):
    """Forward, backward and update as one compiled graph (torch.func), run without autograd."""
    parameters = [p.detach().clone() for p in model.parameters()]
    F = torch.nn.functional

    def loss_of(parameters, x, y):
        for w, b in zip(parameters[:-2:2], parameters[1:-2:2]):
            x = torch.relu(F.linear(x, w, b))
        return F.cross_entropy(F.linear(x, *parameters[-2:]), y)

    def whole(parameters, x, y):
        gradients, loss = torch.func.grad_and_value(loss_of)(parameters, x, y)
        for parameter, gradient in zip(parameters, gradients):
            parameter.sub_(gradient, alpha=RATE)
        return loss

    compiled = torch.compile(whole, fullgraph=True)

    def step(x, y):
        with torch.inference_mode():
            compiled(parameters, x, y)

    return step


def with_config(make, **options):
    """`make` compiled with inductor's settings as given, the others as they come."""

    def configured(torch, model):
        import torch._inductor.config as config

        for name, value in (INDUCTOR_DEFAULTS | options).items():
            setattr(config, name, value)
        return make(torch, model)

    return configured


INDUCTOR_DEFAULTS = dict(
    cpp_wrapper=False, max_autotune=False, max_autotune_gemm_backends="ATEN,TRITON,CPP"
)
MAX = dict(max_autotune=True, max_autotune_gemm_backends="CPP,ATEN")

VARIANTS = {
    "eager": {
        "foreach": lambda torch, model: optimizer_step(torch, model, foreach=True),
        "fused": lambda torch, model: optimizer_step(torch, model, fused=True),
        "manual": manual_step,
    },
    "compile": {
        "parts": with_config(compiled_parts_step),
        "whole": with_config(compiled_whole_step),
        "whole_cpp": with_config(compiled_whole_step, cpp_wrapper=True),
        "whole_max": with_config(compiled_whole_step, **MAX),
        "whole_cpp_max": with_config(compiled_whole_step, cpp_wrapper=True, **MAX),
    },
}


def forget_compiled(torch):
    """Each variant is compiled anew, with the guards it needs for that."""
    torch.compiler.set_stance("default")
    torch.compiler.reset()


def runner(torch, options, variant, batches):
    """A function that trains n steps, cycling over the batches."""
    torch.manual_seed(0)
    if options.mode == "compile":
        forget_compiled(torch)
    model = mlp(MODELS[options.what][0])
    step = VARIANTS[options.mode][variant](torch, model)
    position = 0

    def run_steps(count):
        nonlocal position
        for _ in range(count):
            x, y = batches[position]
            step(x, y)
            position += 1
            if position == len(batches):
                position = 0

    run_steps(20 if options.what == "neuron_mlp" else 2)
    if variant.startswith("whole") and not options.untuned:
        # Shapes and modules never change from here on; checking that costs a tenth of a small step.
        torch.compiler.set_stance(skip_guard_eval_unsafe=True)
    return run_steps


def fastest(torch, options, batches):
    """(variant, rates of all): each is timed briefly; one that cannot be built here is reported."""
    rates = {}
    for variant in [options.variant] if options.variant else VARIANTS[options.mode]:
        try:
            run_steps = runner(torch, options, variant, batches)
            rates[variant] = round(steps_per_second(run_steps, min(1.0, options.seconds))[0], 2)
        except Exception as error:  # no compiler, another PyTorch: say so and go on without
            print(f"[peer] variant {variant}: {type(error).__name__}: {error}", file=sys.stderr)
    if not rates:
        raise SystemExit(f"[peer] no variant of mode {options.mode} runs here")
    return max(rates, key=rates.get), rates


def main():
    options = arguments()
    tune_process(options.threads, tuned=not options.untuned)
    torch = import_torch(options.threads, tuned=not options.untuned)
    batch = MODELS[options.what][1]
    x, y, _, _ = load_mnist(options.data)
    whole = len(x) // batch * batch
    batches = list(zip(x[:whole].split(batch), y[:whole].split(batch)))

    variant, variants = fastest(torch, options, batches)
    run_steps = runner(torch, options, variant, batches)
    figures = dict(
        what=options.what,
        mode=options.mode,
        threads=options.threads,
        tuned=not options.untuned,
        variant=variant,
        torch=torch.__version__,
    )
    if options.rounds_on_input:
        report(**figures, ready=True)
        for _ in sys.stdin:
            rate, cpus = steps_per_second(run_steps, options.seconds)
            report(**figures, steps_per_s=round(rate, 2), cpus=round(cpus, 2))
        return
    rounds = [steps_per_second(run_steps, options.seconds) for _ in range(options.rounds)]
    runs, cpus = [round(rate, 2) for rate, _ in rounds], [round(used, 2) for _, used in rounds]
    report(**figures, steps_per_s=median(runs), runs=runs, cpus=cpus, variants=variants)


if __name__ == "__main__":
    main()
