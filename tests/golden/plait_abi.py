"""Predictions of plait through its C ABI, by ctypes alone, for the checks beside this file."""

import ctypes

import numpy

I32 = (0, 32)  # code and bits of an element of a DLPack tensor
NTS = 2**64 - 1  # the text ends in NUL
NEVER = 1  # PLAIT_RESUME_NEVER


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32),
                ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8),
                ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class Feed(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("field", ctypes.c_char_p),
                ("tensor", ctypes.POINTER(Tensor))]


class ExperimentOptions(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("overrides", ctypes.POINTER(ctypes.c_char_p)),
                ("n_overrides", ctypes.c_uint32), ("reserved", ctypes.c_uint32)]


class SessionOptions(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("run_dir", ctypes.c_char_p),
                ("no_files", ctypes.c_uint32), ("resume", ctypes.c_uint32),
                ("progress", ctypes.c_uint32), ("reserved", ctypes.c_uint32),
                ("on_step", ctypes.c_void_p), ("on_step_user", ctypes.c_void_p),
                ("command", ctypes.c_char_p)]


class Plait:
    """The library beside the program `plait`, with an engine."""
    def __init__(self, program):
        self._lib = ctypes.CDLL(str(program.parent.parent / "lib/libplait.so"))
        self._lib.plait_error_full_text.restype = ctypes.c_char_p
        for name in ("plait_engine_open", "plait_experiment_read", "plait_plan_make",
                     "plait_session_open", "plait_session_predict"):
            getattr(self._lib, name).restype = ctypes.c_void_p
        self._engine = self._make("plait_engine_open", None)

    def _call(self, name, *words):
        error = getattr(self._lib, name)(*words)
        if error:
            text = self._lib.plait_error_full_text(ctypes.c_void_p(error)).decode()
            self._lib.plait_error_free(ctypes.c_void_p(error))
            raise AssertionError(text)

    def _make(self, name, *words):
        made = ctypes.c_void_p()
        self._call(name, *words, ctypes.byref(made))
        return made

    def predict(self, experiment, overrides, field, ids, shape):
        """The output, f32 of that shape, for `ids`: int32 (n, ...), of the named field."""
        words = (ctypes.c_char_p * len(overrides))(*(word.encode() for word in overrides))
        options = ExperimentOptions(ctypes.sizeof(ExperimentOptions), words, len(overrides), 0)
        session_options = SessionOptions(ctypes.sizeof(SessionOptions), None, 1, NEVER)
        extents = (ctypes.c_int64 * ids.ndim)(*ids.shape)
        tensor = Tensor(ids.ctypes.data, 1, 0, ids.ndim, *I32, 1, extents, None, 0)
        feed = Feed(ctypes.sizeof(Feed), field.encode(), ctypes.pointer(tensor))
        out = numpy.empty(shape, numpy.float32)
        read = self._make("plait_experiment_read", self._engine,
                          str(experiment).encode(), ctypes.c_uint64(NTS), ctypes.byref(options))
        plan = self._make("plait_plan_make", read)
        session = self._make("plait_session_open", plan, ctypes.byref(session_options))
        self._call("plait_session_predict", session, ctypes.byref(feed), ctypes.c_uint32(1),
                   b"output", ctypes.c_void_p(out.ctypes.data), ctypes.c_uint64(out.nbytes))
        self._lib.plait_session_close(session)
        self._lib.plait_plan_close(plan)
        self._lib.plait_experiment_close(read)
        return out
