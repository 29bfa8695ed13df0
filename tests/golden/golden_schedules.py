"""Learning rate schedules as closed formulas, tabulated for steps s = 1 … 200.

Words: `rate` the peak, `minimum` the floor, `delay` D, `warmup` W, `decay_until` N, all in steps.
The step index starts at 1 (the first update uses s = 1). N is an absolute step: delay and warmup are
inside it, so a run of N steps ends exactly at the minimum. Each table also stores
`decay_steps` = N - D - W, the length of the decaying part alone, `minimum_factor` = minimum / rate,
and beside the rates `factor` (200), what the schedule alone multiplies: rate(s) / rate.

    s <= D                rate(s) = 0
    D < s <= D + W        rate(s) = rate (s - D) / W
    D + W < s <= N        rate(s) = minimum + (rate - minimum) shape(t),  t = (s - D - W) / (N - D - W)
    s > N                 rate(s) = minimum

with 0 < t <= 1 and shape(1) = 0:

    linear                shape(t) = 1 - t
    cosine                shape(t) = (1 + cos(pi t)) / 2

Three schedules differ after warmup:

    constant              rate(s) = rate, for ever (no N, no minimum)
    warmup_stable_decay   rate(s) = rate while s <= N - C, where C is `cooldown`; then the decay above
                          with t = (s - (N - C)) / C; shape linear, cosine, or sqrt: 1 - sqrt(t)
    inverse_sqrt          rate(s) = max(minimum, rate sqrt(W' / (s - D))),  W' = max(W, 1); no N.
                          At s = D + W this is the rate itself, so warmup meets it without a step.
"""

import math

import numpy as np

from golden_data import Golden

STEPS = 200

SHAPES = {
    "linear": lambda t: 1 - t,
    "cosine": lambda t: (1 + math.cos(math.pi * t)) / 2,
    "sqrt": lambda t: 1 - math.sqrt(t),
}


def value(s, schedule, rate, minimum=0.0, delay=0, warmup=0, decay_until=0, cooldown=0, shape=None):
    start = delay + warmup
    if s <= delay:
        return 0.0
    if s <= start:
        return rate * (s - delay) / warmup
    if schedule == "constant":
        return rate
    if schedule == "inverse_sqrt":
        return max(minimum, rate * math.sqrt(max(warmup, 1) / (s - delay)))
    if s > decay_until:
        return minimum
    if schedule == "warmup_stable_decay":
        start = decay_until - cooldown
        if s <= start:
            return rate
    t = (s - start) / (decay_until - start)
    return minimum + (rate - minimum) * SHAPES[shape or schedule](t)


TABLES = {
    "constant": dict(schedule="constant", rate=0.01),
    "constant.warmup": dict(schedule="constant", rate=0.01, warmup=20),
    "constant.delay_warmup": dict(schedule="constant", rate=0.01, delay=7, warmup=20),
    "linear": dict(schedule="linear", rate=0.01, decay_until=200),
    "linear.minimum": dict(schedule="linear", rate=0.01, minimum=0.001, decay_until=150),
    "linear.delay_warmup": dict(
        schedule="linear", rate=0.02, minimum=0.001, delay=5, warmup=13, decay_until=160
    ),
    "cosine": dict(schedule="cosine", rate=0.01, decay_until=1000),
    "cosine.minimum": dict(schedule="cosine", rate=0.01, minimum=0.001, decay_until=150),
    "cosine.warmup": dict(schedule="cosine", rate=3e-4, minimum=3e-5, warmup=20, decay_until=200),
    "cosine.delay_warmup": dict(
        schedule="cosine", rate=0.02, minimum=0.001, delay=5, warmup=13, decay_until=160
    ),
    "cosine.delay": dict(schedule="cosine", rate=0.02, delay=9, decay_until=120),
    "wsd.linear": dict(
        schedule="warmup_stable_decay", shape="linear", rate=0.01, warmup=20, decay_until=180,
        cooldown=40,
    ),
    "wsd.cosine": dict(
        schedule="warmup_stable_decay", shape="cosine", rate=0.01, minimum=0.002, delay=5,
        warmup=20, decay_until=180, cooldown=60,
    ),
    "wsd.sqrt": dict(
        schedule="warmup_stable_decay", shape="sqrt", rate=0.01, minimum=0.0005, warmup=20,
        decay_until=190, cooldown=50,
    ),
    "inverse_sqrt": dict(schedule="inverse_sqrt", rate=0.01),
    "inverse_sqrt.warmup": dict(schedule="inverse_sqrt", rate=0.01, warmup=25),
    "inverse_sqrt.delay_warmup": dict(
        schedule="inverse_sqrt", rate=0.01, minimum=0.004, delay=6, warmup=25
    ),
}  # fmt: skip


def make():
    golden = Golden()
    for name, options in TABLES.items():
        rates = np.array([value(s, **options) for s in range(1, STEPS + 1)])
        attributes = dict(minimum=0.0, delay=0, warmup=0) | options
        if "decay_until" in options:
            attributes["decay_steps"] = (
                options["decay_until"] - attributes["delay"] - attributes["warmup"]
            )
        attributes["minimum_factor"] = attributes["minimum"] / options["rate"]
        golden.add(f"schedule.{name}", attributes, {"rate": rates, "factor": rates / options["rate"]})
    return golden
