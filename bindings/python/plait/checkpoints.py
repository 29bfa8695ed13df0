"""Checkpoints as things: listed, verified, compared, rewritten, given to other programs. No experiment, plan or device is needed.

A checkpoint is named by its folder, by best or latest in ckpt/, or by a run directory, of which the newest complete one is taken. What the
functions return is a dict as plait/checkpoint.h, adapters.h and models.h describe it.
"""

import ctypes
import json

from plait import _abi, tensors, toml
from plait.errors import text_of
from plait.handles import chosen, encoded, texts

_COMPARED = {"everything": 0, "tensors": 1, "parameters": 2}  # PLAIT_COMPARE_*
_WRITTEN = {None: 0, **{name: tensors.KINDS[name].number for name in ("f32", "bf16", "f16")}}


class Checkpoints:
    """Engine.checkpoints. progress, where a function takes it, is called as progress(done, total), in bytes; True stops the call."""

    def __init__(self, engine):
        self._engine = engine

    def _json(self, name, *arguments):
        return json.loads(text_of(name, self._engine.handle, *arguments))

    def _with_progress(self, name, progress, *arguments):
        """Of the functions that take a callback and its pointer."""
        callback, raised = _progress(progress)
        try:
            return self._json(name, *arguments, ctypes.cast(callback, ctypes.c_void_p), None)
        except Exception as e:
            raise raised[0] if raised else e

    def list(self, place):
        """Those of a folder, at most eight levels deep: a list of dicts, of each folder first the one that a run resumes from."""
        return self._json("plait_checkpoint_list", encoded(place))["checkpoints"]

    def describe(self, checkpoint):
        """What its manifest says: {"step", "samples", "tensors", "files", "settings", ...}."""
        return self._json("plait_checkpoint_describe", encoded(checkpoint))

    def verify(self, checkpoint, progress=None):
        """Reads every byte: {"intact", "faults", ...}."""
        return self._with_progress("plait_checkpoint_verify", progress, encoded(checkpoint))

    def compare(self, a, b, what="everything", progress=None):
        """{"equal", "changed", "only_a", ...}; what: "everything", "tensors" (no state, no settings) or "parameters"."""
        return self._with_progress("plait_checkpoint_compare", progress, encoded(a), encoded(b), chosen("what", what, _COMPARED))

    def convert(self, checkpoint, to, shards=0, max_shard_bytes=0, optimizer=True, progress=None):
        """Writes it again, in the newest format, each tensor whole in one file."""
        callback, raised = _progress(progress)
        options = _abi.sized(_abi.ConvertOptions, max_shard_bytes=max_shard_bytes, shards=shards, no_optimizer=not optimizer, progress=callback)
        try:
            return self._json("plait_checkpoint_convert", encoded(checkpoint), encoded(to), ctypes.byref(options))
        except Exception as e:
            raise raised[0] if raised else e

    def export(self, checkpoint, to, names=(), max_shard_bytes=0, format=None, experiment=None, dtype=None):
        """Writes the parameters for other programs: to a file NAME.safetensors or a folder.

        names: ["OURS=THEIRS"]. format: {"type": "hf"}, which needs the experiment of the checkpoint. dtype: "f32", "bf16", "f16"; None: as they are.
        """
        words, text = texts(names), toml.document(format).encode() if format else None
        options = _abi.sized(_abi.ExportOptions, max_shard_bytes=max_shard_bytes, names=words, n_names=len(words or ()), format=text,
                             format_size=len(text or b""), experiment=experiment.handle if experiment else None,
                             dtype=chosen("dtype", dtype, _WRITTEN))
        return self._json("plait_checkpoint_export", encoded(checkpoint), encoded(to), ctypes.byref(options))

    def adapters(self, place):
        """Those of a folder that have adapters: a list of dicts, each with its adapters."""
        return self._json("plait_checkpoint_adapters", encoded(place))["checkpoints"]

    def add_adapter(self, checkpoint, name, other, to, model=None):
        """Writes the checkpoint again with one adapter more, `name`, which `other` has."""
        return self._json("plait_checkpoint_add_adapter", encoded(checkpoint), encoded(model), encoded(name), encoded(other), encoded(to))

    def remove_adapter(self, checkpoint, name, to, model=None):
        """Writes the checkpoint again, to `to`, without the adapter `name`."""
        return self._json("plait_checkpoint_remove_adapter", encoded(checkpoint), encoded(model), encoded(name), encoded(to))


def _progress(function):
    """(the callback, what the function has raised). Without a function the callback is NULL."""
    raised = []
    if function is None:
        return _abi.Progress(), raised

    @_abi.Progress
    def progress(_, done, total):
        try:
            return 1 if function(done, total) else 0
        except BaseException as e:
            raised.append(e)
            return 1
    return progress, raised
