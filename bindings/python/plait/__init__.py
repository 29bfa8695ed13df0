"""Trains neural networks with Plait from Python, through its C ABI: no dependencies but the library.

    import plait

    experiment = plait.Engine().experiment("experiment.toml", {"run.steps": 300})
    with experiment.plan().session(bar=True) as session:
        for step in session.train():
            if step.step % 100 == 0:
                print(step.step, step.loss, session.evaluate()["metrics"])
        session.predict({"x": array})         # a Tensor: numpy.asarray(t), torch.from_dlpack(t), t.tolist()

Functions raise the subclass of Error that belongs to the code which base.h names. Objects close themselves, or at the end of a `with`.
"""

from plait.adapters import Adapters
from plait.checkpoints import Checkpoints
from plait.engine import Dataset, Engine, Experiment, Job, Plan, inspect_plugin, version
from plait.errors import (Cancelled, ConfigError, DataError, DeviceError, Error, FileError, InternalError, InvalidError, NotFoundError, NumericError,
                          OutOfMemoryError, PeerError, PluginError, StateError, UnimplementedError)
from plait.generate import Generator, Token
from plait.session import Session, Step
from plait.tensors import Tensor
from plait.tokenizers import Tokenizer, chat_templates, chat_text

__all__ = ["Adapters", "Cancelled", "Checkpoints", "ConfigError", "DataError", "Dataset", "DeviceError", "Engine", "Error", "Experiment", "FileError",
           "Generator", "InternalError", "InvalidError", "Job", "NotFoundError", "NumericError", "OutOfMemoryError", "PeerError", "Plan", "PluginError",
           "Session", "StateError", "Step", "Tensor", "Token", "Tokenizer", "UnimplementedError", "chat_templates", "chat_text", "inspect_plugin", "version"]
__version__ = "0.1.0"
