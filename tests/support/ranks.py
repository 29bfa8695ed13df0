"""Code shared by tests that start jobs of several ranks: a model, and the environment variables of a
rank."""

import os
import re

# A model with dropout and an optimizer with state, so that a resume has something to get wrong. WIDTH and STEPS stand for numbers.
MODEL = """\
[run]
name = "ranks"
steps = STEPS
log_every = 1
progress = false
[batch]
global = 24
[data.train]
type = "synthetic"
samples = 500
shape = [8]
classes = 3
[model]
layers = [{type = "linear", out = WIDTH, parallel = "column"}, {type = "relu"}, {type = "dropout", p = 0.1},
          {type = "linear", out = 4, parallel = "row"}]
[loss]
type = "cross_entropy"
[optimizer]
type = "adamw"
learning_rate = 0.01
"""
# What a test itself may have been started by is none of its jobs'.
OTHERS = re.compile(r"(PLAIT_(?!BIN)|OMPI|PMI|MPI|SLURM|TORCHELASTIC|(LOCAL_|GROUP_|ROLE_)?(RANK|WORLD_SIZE)$|MASTER_)")


def model(width, steps):
    return MODEL.replace("WIDTH", str(width)).replace("STEPS", str(steps))


def environment(**more):
    """This process's, without a word of ranks."""
    kept = {name: value for name, value in os.environ.items() if not OTHERS.match(name)}
    kept.update(NO_COLOR="1", **more)
    return kept


def variables(rank, size, rendezvous, here=None):
    """Of one rank. `here`: the ranks on its machine, all when left out."""
    here = list(range(size)) if here is None else here
    return dict(PLAIT_RANK=str(rank), PLAIT_WORLD_SIZE=str(size), PLAIT_LOCAL_RANK=str(here.index(rank)),
                PLAIT_LOCAL_WORLD_SIZE=str(len(here)), PLAIT_RENDEZVOUS=rendezvous)
