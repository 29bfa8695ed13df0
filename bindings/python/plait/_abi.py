"""The C ABI as ctypes sees it: structs, callbacks and functions of the host's headers, and the library.

Names and members are as in the headers, which say what they mean; tests/python compares each struct with its header.
"""

import ctypes
import os
import pathlib
from ctypes import POINTER, c_char_p, c_double, c_int32, c_int64, c_size_t, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p

ABI_VERSION = 1
NTS = 2**64 - 1  # a length that means: the text ends in NUL
STRUCTS = {}  # name in C: class


def _struct(name, *members):
    kind = type(name, (ctypes.Structure,), {"_fields_": [(member, of) for of, words in members for member in words.split()]})
    STRUCTS[name] = kind
    return kind


def sized(kind, /, **members):
    """A struct that begins with its own size. An unknown member, or a number that does not fit into it, is an error, not lost as in ctypes."""
    known = dict(kind._fields_)
    made = kind(struct_size=ctypes.sizeof(kind))
    for name, value in members.items():
        if name not in known:
            raise TypeError(f"[python] unknown option '{name}'; known are: {', '.join(list(known)[1:])}")
        setattr(made, name, value)
        if isinstance(value, int) and getattr(made, name) != value:
            raise ValueError(f"[python] {name} is {value}, which does not fit into {known[name].__name__.removeprefix('c_')}")
    return made


Error, Text, Handle = c_void_p, c_void_p, c_void_p
LogSink = ctypes.CFUNCTYPE(None, c_void_p, c_uint32, c_void_p, c_uint64)
LateCallback = ctypes.CFUNCTYPE(None, c_void_p, c_void_p, c_uint64)
Deleter = ctypes.CFUNCTYPE(None, c_void_p)

# tensor.h
Device = _struct("plait_dl_device", (c_int32, "type id"))
Dtype = _struct("plait_dl_dtype", (c_uint8, "code bits"), (c_uint16, "lanes"))
DlTensor = _struct("plait_dl_tensor", (c_void_p, "data"), (Device, "device"), (c_int32, "ndim"), (Dtype, "dtype"), (POINTER(c_int64), "shape strides"),
                   (c_uint64, "byte_offset"))
DlManaged = _struct("plait_dl_managed", (c_uint32, "major minor"), (c_void_p, "manager_ctx deleter"), (c_uint64, "flags"), (DlTensor, "tensor"))

# engine.h, session.h, models.h
EngineOptions = _struct("plait_engine_options", (c_size_t, "struct_size"), (LogSink, "log"), (c_void_p, "log_user"), (c_uint32, "log_level no_default_plugins"),
                        (POINTER(c_char_p), "plugin_paths"), (c_uint32, "n_plugin_paths keep_plugins_loaded"), (c_char_p, "data_folder"),
                        (LateCallback, "on_late"), (c_void_p, "on_late_user"))
ExperimentOptions = _struct("plait_experiment_options", (c_size_t, "struct_size"), (POINTER(c_char_p), "overrides"), (c_uint32, "n_overrides reserved"))
JobOptions = _struct("plait_job_options", (c_size_t, "struct_size"), (c_uint32, "rank size local_rank local_size"), (c_char_p, "rendezvous"),
                     (c_char_p, "secret"), (c_uint64, "secret_size"), (c_double, "connect_timeout timeout"))
MetricValue = _struct("plait_metric_value", (c_char_p, "name"), (c_double, "value"))
StepResult = _struct("plait_step_result", (c_size_t, "struct_size"), (c_int64, "step epoch samples"), (c_double, "loss grad_norm learning_rate seconds"),
                     (c_uint32, "skipped finished"), (c_int64, "tokens skipped_steps"),
                     (c_double, "grad_norm_clipped mean_loss samples_per_s tokens_per_s tflops tflops_full mfu mfu_full"),
                     (POINTER(MetricValue), "metrics"), (c_uint32, "n_metrics reserved"))
StepCallback = ctypes.CFUNCTYPE(c_uint32, c_void_p, POINTER(StepResult))
SessionOptions = _struct("plait_session_options", (c_size_t, "struct_size"), (c_char_p, "run_dir"), (c_uint32, "no_files resume progress reserved"),
                         (StepCallback, "on_step"), (c_void_p, "on_step_user"), (c_char_p, "command"), (c_int64, "stop_after"))
Feed = _struct("plait_feed", (c_size_t, "struct_size"), (c_char_p, "field"), (POINTER(DlTensor), "tensor"))
Prediction = _struct("plait_prediction", (c_char_p, "value"), (c_void_p, "out"), (c_uint64, "bytes"))
ExportOptions = _struct("plait_export_options", (c_size_t, "struct_size"), (c_uint64, "max_shard_bytes"), (POINTER(c_char_p), "names"),
                        (c_uint32, "n_names reserved"), (c_char_p, "format"), (c_uint64, "format_size"), (c_void_p, "experiment"), (c_uint32, "dtype reserved2"))
ProfileOptions = _struct("plait_profile_options", (c_size_t, "struct_size"), (c_char_p, "entry_point dataset"), (c_uint32, "runs warm_up trace reserved"))

# encode.h, generate.h
ChatMessage = _struct("plait_chat_message", (c_char_p, "role text"), (c_uint64, "size"))
GeneratorOptions = _struct("plait_generator_options", (c_size_t, "struct_size"), (c_void_p, "tokenizer"))
Sampling = _struct("plait_sampling", (c_size_t, "struct_size"), (c_double, "temperature top_p min_p repetition_penalty"), (c_int64, "top_k"), (c_uint64, "seed"))
Prompt = _struct("plait_prompt", (c_size_t, "struct_size"), (POINTER(c_int32), "ids"), (c_uint64, "n_ids"), (c_char_p, "text"), (c_uint64, "size"),
                 (c_uint32, "plain unwrapped"), (POINTER(Sampling), "sampling"), (c_int64, "max_tokens min_tokens"), (POINTER(c_int32), "end_ids"),
                 (c_uint64, "n_end_ids"), (POINTER(c_char_p), "stop"), (c_uint64, "n_stop"), (c_uint32, "log_probabilities reserved"), (c_uint64, "best"),
                 (POINTER(ChatMessage), "messages"), (c_uint64, "n_messages"), (c_char_p, "chat_template adapter"))
Token = _struct("plait_token", (c_size_t, "struct_size"), (c_uint64, "sequence"), (c_int64, "index"), (c_int32, "id"), (c_uint32, "finish"), (c_void_p, "text"),
                (c_uint64, "size"), (c_double, "log_probability"), (POINTER(c_int32), "best_ids"), (POINTER(c_double), "best_log_probabilities"),
                (c_uint64, "n_best"), (c_int64, "n_reused"))
TokenCallback = ctypes.CFUNCTYPE(c_uint32, c_void_p, POINTER(Token))

# checkpoint.h, adapters.h
Progress = ctypes.CFUNCTYPE(c_uint32, c_void_p, c_uint64, c_uint64)
ConvertOptions = _struct("plait_convert_options", (c_size_t, "struct_size"), (c_uint64, "max_shard_bytes"), (c_uint32, "shards no_optimizer"),
                         (Progress, "progress"), (c_void_p, "user"))
AdapterSource = _struct("plait_adapter_source", (c_size_t, "struct_size"), (c_char_p, "path from format"))

# view.h
ViewOptions = _struct("plait_view_options", (c_size_t, "struct_size"), (c_uint32, "kind flags"), (Device, "device"), (c_void_p, "stream"))

# Functions that return an error, by their arguments: H a handle, s a text that ends in NUL, b bytes with u their number, p a pointer, i and l
# integers of 32 and 64 bits.
_LETTERS = {"H": c_void_p, "s": c_char_p, "b": c_char_p, "u": c_uint64, "p": c_void_p, "i": c_uint32, "l": c_int64}
FALLIBLE = {
    "plait_engine_open": "pp", "plait_engine_load": "Hbu", "plait_engine_describe": "Hp", "plait_engine_ops": "Hp", "plait_engine_devices": "Hp",
    "plait_plugin_inspect": "bup", "plait_experiment_read": "Hbupp", "plait_experiment_parse": "Hbuspp", "plait_experiment_check": "Hbupp",
    "plait_experiment_bind": "Hp", "plait_experiment_describe": "Hp", "plait_job_open": "pp", "plait_job_describe": "Hp", "plait_job_fail": "Hbu",
    "plait_plan_make": "Hp", "plait_plan_make_for": "HHp", "plait_plan_describe": "Hp", "plait_plan_ir": "Hbup", "plait_plan_picture": "Hp",
    "plait_plan_every_rank": "Hp", "plait_session_open": "Hpp", "plait_session_run": "Hp", "plait_session_step": "Hpip", "plait_session_evaluate": "Hsp",
    "plait_session_predict_all": "Hpipi", "plait_session_any_rank": "Hip", "plait_session_save": "Hs", "plait_session_load": "Hs",
    "plait_session_load_parameters": "Hs", "plait_session_describe": "Hp", "plait_session_read": "Hspu", "plait_session_write": "Hspu",
    "plait_session_view": "Hsp", "plait_session_view_of": "Hspp", "plait_session_wait_stream": "Hp", "plait_session_profile": "Hppp",
    "plait_checkpoint_export": "Hsspp", "plait_model_import": "Hbussp", "plait_generator_open": "Hpp", "plait_generator_add": "Hpp",
    "plait_generator_step": "Hppp", "plait_generator_cancel": "Hu", "plait_dataset_open": "Hsp", "plait_dataset_parse": "Hbusp", "plait_dataset_describe": "Hp",
    "plait_dataset_read": "Hlipu", "plait_plan_replay": "Hbupp", "plait_tokenizer_open": "Hbusp", "plait_tokenizer_describe": "Hp",
    "plait_tokenizer_encode": "Hbuip", "plait_tokenizer_decode": "Hpuip", "plait_chat_templates": "p", "plait_chat_render": "spuip",
    "plait_chat_encode": "Hspuip", "plait_checkpoint_list": "Hsp", "plait_checkpoint_describe": "Hsp", "plait_checkpoint_verify": "Hsppp",
    "plait_checkpoint_compare": "Hssippp", "plait_checkpoint_convert": "Hsspp", "plait_checkpoint_adapters": "Hsp",
    "plait_checkpoint_add_adapter": "Hsssssp", "plait_checkpoint_remove_adapter": "Hssssp", "plait_session_merge": "Hi",
    "plait_session_merge_adapter": "Hssi", "plait_session_unmerge": "H", "plait_session_save_model": "Hs", "plait_session_adapters": "Hp",
    "plait_session_load_adapter": "Hssp", "plait_session_reset_adapter": "Hss", "plait_session_save_adapter": "Hsss",
}
RELEASING = ("plait_error_free", "plait_text_free", "plait_engine_close", "plait_experiment_close", "plait_job_close", "plait_plan_close",
             "plait_session_close", "plait_session_cancel", "plait_generator_close", "plait_dataset_close", "plait_tokenizer_close", "plait_tokens_free")
_READING = {"plait_error_code": (c_uint32, Error), "plait_error_text": (c_char_p, Error), "plait_error_full_text": (c_char_p, Error),
            "plait_text_data": (c_void_p, Text), "plait_text_size": (c_uint64, Text),
            "plait_tokens_data": (c_void_p, c_void_p), "plait_tokens_size": (c_uint64, c_void_p), "plait_abi_version": (c_uint32,), "plait_version": (c_char_p,)}


def _candidates():
    """Where the library may be, the first that is there."""
    if named := os.environ.get("PLAIT_LIBRARY"):
        return [named]
    own = pathlib.Path(__file__).resolve().parent
    beside = [own / "lib/libplait.so.1", own.parents[2] / "build/dev/lib/libplait.so.1"]  # of a wheel that has it; of a source tree
    return [str(path) for path in beside if path.exists()] + ["libplait.so.1"]


def _opened():
    tried = []
    for path in _candidates():
        try:
            return ctypes.CDLL(path)
        except OSError as e:
            tried.append(f"  {path}: {e}")
    raise ImportError("[python] libplait.so.1 cannot be loaded:\n" + "\n".join(tried) +
                      "\ninstall Plait (cmake --install), or set PLAIT_LIBRARY to the file")


def _declared(library):
    missing = [name for name in (*FALLIBLE, *RELEASING, *_READING) if not hasattr(library, name)]
    if missing:
        raise ImportError(f"[python] {library._name} has no {missing[0]}: it is older than this package; install the package of that library")
    for name, letters in FALLIBLE.items():
        function = getattr(library, name)
        function.restype, function.argtypes = c_void_p, [_LETTERS[letter] for letter in letters]
    for name in RELEASING:
        function = getattr(library, name)
        function.restype, function.argtypes = None, [c_void_p]
    for name, (result, *arguments) in _READING.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


lib = _declared(_opened())
if lib.plait_abi_version() != ABI_VERSION:
    raise ImportError(f"[python] {lib._name} has ABI {lib.plait_abi_version()}, expected {ABI_VERSION}; install the package of that library")
