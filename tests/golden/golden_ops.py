"""Forward values and input gradients of the ops, from PyTorch in float64.

Every case stores its inputs, the output `y`, an upstream gradient `dy`, and for each differentiable
input `x` the gradient `dx` = d(sum(y * dy))/dx.
"""

import torch
import torch.nn.functional as F

from golden_data import Golden, Inputs, backward, leaf

# Softplus written exactly: torch's own turns linear above 20, which is off by 2e-9 there.
ACTIVATIONS = {
    "relu": (F.relu, {}),
    "gelu": (F.gelu, {"formula": "0.5 x (1 + erf(x / sqrt 2))"}),
    "gelu_tanh": (
        lambda x: F.gelu(x, approximate="tanh"),
        {"formula": "0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))"},
    ),
    "silu": (F.silu, {}),
    "tanh": (torch.tanh, {}),
    "sigmoid": (torch.sigmoid, {}),
    "leaky_relu": (lambda x: F.leaky_relu(x, 0.01), {"slope": 0.01}),
    "softplus": (lambda x: torch.logaddexp(x, torch.zeros_like(x)), {}),
}

# (name, shape of op(a), shape of op(b)); the stored a or b is transposed where the case says so.
MATMULS = [
    ("", (5, 7), (7, 3)),
    ("row.", (1, 17), (17, 3)),
    ("batch.", (3, 5, 7), (3, 7, 4)),
    ("batch2.", (2, 3, 5, 4), (2, 3, 4, 6)),
    ("shared_b.", (3, 5, 7), (7, 4)),
]


def make():
    golden = Golden()
    inputs = Inputs(20240601)
    add_matmuls(golden, inputs)
    add_linears(golden, inputs)
    add_activations(golden, inputs)
    add_softmaxes(golden, inputs)
    add_norms(golden, inputs)
    add_embedding(golden, inputs)
    return golden


def add_matmuls(golden, inputs):
    for name, a_shape, b_shape in MATMULS:
        for transpose_a in (False, True):
            for transpose_b in (False, True):
                a = leaf(inputs.normal(*swapped(a_shape, transpose_a)))
                b = leaf(inputs.normal(*swapped(b_shape, transpose_b)))
                y = (a.mT if transpose_a else a) @ (b.mT if transpose_b else b)
                dy = inputs.normal(*y.shape)
                backward(y, dy)
                golden.add(
                    f"matmul.{name}ta{int(transpose_a)}_tb{int(transpose_b)}",
                    {"op": "matmul", "transpose_a": transpose_a, "transpose_b": transpose_b},
                    {"a": a, "b": b, "y": y, "dy": dy, "da": a.grad, "db": b.grad},
                )


def swapped(shape, transposed):
    return (*shape[:-2], shape[-1], shape[-2]) if transposed else shape


def add_linears(golden, inputs):
    """y = act(x w^T + b), the GEMM with fused epilogue. x (B,I), w (O,I), b (O), y (B,O)."""
    for activation in ["none", *ACTIVATIONS]:
        x = leaf(inputs.normal(6, 13))
        w, b = leaf(inputs.normal(9, 13, scale=0.5)), leaf(inputs.normal(9))
        y = F.linear(x, w, b)
        if activation != "none":
            y = ACTIVATIONS[activation][0](y)
        dy = inputs.normal(6, 9)
        backward(y, dy)
        golden.add(
            f"linear.{activation}",
            {"op": "linear", "activation": activation},
            {"x": x, "w": w, "b": b, "y": y, "dy": dy, "dx": x.grad, "dw": w.grad, "db": b.grad},
        )


def add_unary(golden, inputs, case, attributes, function, x):
    x = leaf(x)
    y = function(x)
    dy = inputs.normal(*y.shape)
    backward(y, dy)
    golden.add(case, attributes, {"x": x, "y": y, "dy": dy, "dx": x.grad})


def add_activations(golden, inputs):
    for name, (function, attributes) in ACTIVATIONS.items():
        attributes = dict(attributes, op=name)
        x = inputs.normal(5, 7, scale=2)
        x[0, 0] = 0.0  # the kink: gradient of relu at 0 is 0, of leaky_relu the slope
        add_unary(golden, inputs, f"{name}.5x7", attributes, function, x)
        # Tails, where a careless formula overflows or cancels.
        wide = inputs.normal(3, 17, scale=30)
        add_unary(golden, inputs, f"{name}.wide", attributes, function, wide)


def add_softmaxes(golden, inputs):
    for op, function in (("softmax", torch.softmax), ("log_softmax", torch.log_softmax)):
        for case, x in (
            ("5x7", inputs.normal(5, 7)),
            ("3x17", inputs.normal(3, 17, scale=3)),
            ("2x3x5", inputs.normal(2, 3, 5)),
            ("one_column", inputs.normal(4, 1)),
            ("huge", inputs.normal(3, 9, scale=500)),
        ):
            attributes = {"op": op, "axis": -1}
            add_unary(
                golden, inputs, f"{op}.{case}", attributes, lambda x: function(x, -1), x
            )


def add_norms(golden, inputs):
    """Over the last axis, C values: layer_norm with gain and bias, rms_norm with gain."""
    epsilon = 1e-5
    shapes = {"5x7": (5, 7), "3x17": (3, 17), "2x3x5": (2, 3, 5), "constant_row": (2, 7)}
    for case, shape in shapes.items():
        for op in ("layer_norm", "rms_norm"):
            values = inputs.normal(*shape) + (0.5 if case == "3x17" else 0.0)
            if case == "constant_row":
                values[0] = 0.75  # variance 0: epsilon alone keeps it finite
            x = leaf(values)
            gain = leaf(inputs.normal(shape[-1]) + 1)
            bias = leaf(inputs.normal(shape[-1]))
            if op == "layer_norm":
                y = F.layer_norm(x, shape[-1:], gain, bias, epsilon)
            else:
                y = F.rms_norm(x, shape[-1:], gain, epsilon)
            dy = inputs.normal(*shape)
            backward(y, dy)
            tensors = {"x": x, "gain": gain, "y": y, "dy": dy, "dx": x.grad, "dgain": gain.grad}
            if op == "layer_norm":
                tensors |= {"bias": bias, "dbias": bias.grad}
            golden.add(f"{op}.{case}", {"op": op, "eps": epsilon}, tensors)


def add_embedding(golden, inputs):
    """y[i,:] = table[ids[i],:]; the gradient of a row sums over all of its uses."""
    for case, shape in (("5", (5,)), ("4x5", (4, 5))):
        table = leaf(inputs.normal(11, 6))
        ids = inputs.integers(11, *shape)
        ids.flat[-2:] = ids.flat[0]  # repeated for certain
        ids.flat[1] = 10  # and the last row is used
        y = F.embedding(torch.tensor(ids), table)
        dy = inputs.normal(*shape, 6)
        backward(y, dy)
        golden.add(
            f"embedding.{case}",
            {"op": "gather", "rows": 11},
            {"table": table, "ids": ids, "y": y, "dy": dy, "dtable": table.grad},
        )
