"""The adapters of a session: listed, merged into the model, taken out of it again, and exchanged one by one."""

import ctypes

from plait import _abi, toml
from plait.handles import encoded


class Adapters:
    """Session.adapters. model: NULL in the ABI, None here: the only one with adapters. Like a save, all ranks of a job make these calls."""

    def __init__(self, session):
        self._session = session

    def list(self):
        """[{"name", "model", "parameters", "bytes", "entries": [{"type", "options", "targets", ...}], ...}]"""
        return self._session._texts("plait_session_adapters")[0]["adapters"]

    def merge(self, name=None, model=None, final=False):
        """Writes what all adapters, or one, change into the model. final: nothing is kept for unmerge()."""
        if name is None:
            self._session._call("plait_session_merge", bool(final))
        else:
            self._session._call("plait_session_merge_adapter", encoded(model), encoded(name), bool(final))

    def unmerge(self):
        """Puts back every byte."""
        self._session._call("plait_session_unmerge")

    def load(self, name, path, source_name=None, format=None, model=None):
        """Gives one adapter the parameters of a checkpoint, weights, or with format {"type": "peft", ...} of a folder. source_name: its name there."""
        text = toml.document(format).encode() if format else None
        source = _abi.sized(_abi.AdapterSource, path=encoded(path), format=text)
        setattr(source, "from", encoded(source_name))
        self._session._call("plait_session_load_adapter", encoded(model), encoded(name), ctypes.byref(source))

    def reset(self, name, model=None):
        """Its initial values, which change nothing."""
        self._session._call("plait_session_reset_adapter", encoded(model), encoded(name))

    def save(self, name, path, model=None):
        """A checkpoint of this adapter alone, in the folder `path`."""
        self._session._call("plait_session_save_adapter", encoded(model), encoded(name), encoded(path))
