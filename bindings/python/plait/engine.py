"""From an engine to a plan: plugins, experiments, jobs, datasets. Nothing here uses a device."""

import ctypes
import json
import logging

from plait import _abi, tensors, toml
from plait.checkpoints import Checkpoints
from plait.errors import call, check, interrupts_behind, taken, text_of
from plait.handles import Handle, encoded, texts
from plait.tokenizers import Tokenizer

_LEVELS = (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR)  # of PLAIT_LOG_*


def version():
    """The version of the library, "0.1.0"."""
    return _abi.lib.plait_version().decode()


def inspect_plugin(path):
    """The metadata of a plugin file, read without loading it."""
    path = encoded(path)
    return json.loads(text_of("plait_plugin_inspect", path, len(path)))


class Engine(Handle):
    """Loaded plugins and a log.

    plugins: files or folders that are searched first. default_plugins: whether the usual folders are searched, too. data: the first place of
    relative data paths. log: called as log(level of the module logging, text); None: logging.getLogger("plait"). on_late: called as
    on_late(text) when a function of a plugin hangs (run.plugin_timeout).
    """

    _close = "plait_engine_close"

    def __init__(self, plugins=(), default_plugins=True, data=None, log=None, level=logging.INFO, on_late=None):
        log = log or logging.getLogger("plait").log

        @_abi.LogSink
        def sink(_, number, text, size):
            log(_LEVELS[min(number, 3)], ctypes.string_at(text, size).decode(errors="replace"))

        @_abi.LateCallback
        def late(_, text, size):
            on_late(ctypes.string_at(text, size).decode(errors="replace"))

        lowest = next((i for i, one in enumerate(_LEVELS) if level <= one), 3)
        self._callbacks, paths = (sink, late), texts(plugins)
        options = _abi.sized(_abi.EngineOptions, log=sink, log_level=lowest, no_default_plugins=not default_plugins, plugin_paths=paths,
                             n_plugin_paths=len(paths or ()), data_folder=encoded(data))
        if on_late:
            options.on_late = late
        super().__init__("plait_engine_open", ctypes.byref(options), parents=self._callbacks)
        self._is = version()

    def load(self, path):
        """Loads one plugin file."""
        path = encoded(path)
        call("plait_engine_load", self._handle, path, len(path))

    def describe(self):
        """Version, plugins, all items with their options, the keys of an experiment."""
        return self._json("plait_engine_describe")

    def ops(self):
        """The ops that layers can use: [{"name", "signature", "help", "attributes", "dtypes", "gradient", ...}]."""
        return self._json("plait_engine_ops")["ops"]

    def devices(self):
        """Devices, the preferred one first: name, whether it can be used here, and what it found."""
        return self._json("plait_engine_devices")["devices"]

    def experiment(self, source, overrides=()):
        """An experiment of a TOML file (a path), or of a dict. overrides: {"run.steps": 100}, or ["run.steps=100", "~data.eval"]."""
        return Experiment(self, source, overrides)

    def check(self, path, overrides=()):
        """All problems of a file, planning included: a list of dicts with file, line, column, path, message, hint; empty if there are none."""
        options, path = _experiment_options(overrides), encoded(path)
        return json.loads(text_of("plait_experiment_check", self._handle, path, len(path), ctypes.byref(options)))

    def dataset(self, of, name="dataset"):
        """A dataset of its type and options, {"type": "csv", "path": "a.csv"}."""
        text = toml.document(of).encode()
        return Dataset("plait_dataset_parse", self, text, len(text), encoded(name))

    @property
    def checkpoints(self):
        """Checkpoints listed, verified, compared, rewritten, exported; see Checkpoints."""
        return Checkpoints(self)

    def tokenizer(self, of, name="tokenizer"):
        """A tokenizer of its type and options, {"type": "hf", "path": "tokenizer.json"}."""
        return Tokenizer(self, of, name)

    def import_model(self, folder, to, **options):
        """A folder with experiment.toml of the model that another library wrote: options as of `plait import`, type="hf" unless it is given."""
        text = toml.document({"type": "hf", **options}).encode()
        return self._json("plait_model_import", text, len(text), encoded(folder), encoded(to))


def _experiment_options(overrides):
    words = texts(toml.overrides(overrides))
    return _abi.sized(_abi.ExperimentOptions, overrides=words, n_overrides=len(words or ()))


class Experiment(Handle):
    """A checked configuration. See Engine.experiment()."""

    _close = "plait_experiment_close"

    def __init__(self, engine, source, overrides=()):
        options = ctypes.byref(_experiment_options(overrides))
        if isinstance(source, dict):
            text = toml.document(source).encode()
            super().__init__("plait_experiment_parse", engine.handle, text, len(text), None, options, parents=(engine,))
            self._is = "of a dict"
        else:
            path = encoded(source)
            super().__init__("plait_experiment_read", engine.handle, path, len(path), options, parents=(engine,))
            self._is = repr(path.decode(errors="replace"))

    def toml(self):
        """The complete commented TOML."""
        return text_of("plait_experiment_bind", self._handle)

    def describe(self):
        """Every value by its path: value and origin."""
        return self._json("plait_experiment_describe")

    def dataset(self, name="train"):
        """The samples of [data.NAME], as the experiment reads them; see Dataset."""
        return Dataset("plait_dataset_open", self, encoded(name))

    def plan(self, job=None):
        """The plan of a rank. job None: this process as the environment describes it (torchrun, srun, mpirun, plait run), else a single rank."""
        return Plan(self, job)

    def every_rank(self):
        """The plans of all ranks, which are proved to match: memory, calls, stages."""
        return self._json("plait_plan_every_rank")

    def replay(self, profile):
        """(how long a step would take in this layout, by a table of Session.profile(); the schedule as SVG, None without a pipeline)"""
        text, made = json.dumps(profile).encode(), [ctypes.c_void_p(), ctypes.c_void_p()]
        with interrupts_behind():
            check(_abi.lib.plait_plan_replay(self._handle, text, len(text), *map(ctypes.byref, made)))
            found, svg = (taken(one) if one else None for one in made)
        return json.loads(found), svg


class Job(Handle):
    """This process as one of the ranks that train together; without arguments as the environment describes it."""

    _close = "plait_job_close"

    def __init__(self, rank=None, size=None, rendezvous=None, secret=None, local_rank=0, local_size=0, connect_timeout=0, timeout=0):
        options = None
        if rank is not None:
            options = _abi.sized(_abi.JobOptions, rank=rank, size=size or 1, local_rank=local_rank, local_size=local_size, rendezvous=encoded(rendezvous),
                                 secret=secret, secret_size=len(secret or b""), connect_timeout=connect_timeout, timeout=timeout)
        super().__init__("plait_job_open", options and ctypes.byref(options))
        own = self.describe()
        self._is = f"rank {own['rank']} of {own['size']}"

    def describe(self):
        """{"rank", "size", "rendezvous", "source", ...}: which of the ranks this process is, where they meet, and what says so."""
        return self._json("plait_job_describe")

    def fail(self, text):
        """Tells the other ranks that this one has failed before its session was opened."""
        text = encoded(text)
        call("plait_job_fail", self._handle, text, len(text))


class Plan(Handle):
    """Programs, kernels and memory of a run; nothing is allocated on a device. See Experiment.plan()."""

    _close = "plait_plan_close"

    def __init__(self, experiment, job=None):
        found = job or Job()
        if job is not None or found.describe()["size"] > 1:
            super().__init__("plait_plan_make_for", experiment.handle, found.handle, parents=(experiment,))
        else:
            super().__init__("plait_plan_make", experiment.handle, parents=(experiment,))
        self._is = experiment._is

    def describe(self):
        """{"name", "steps", "parameter_count", "topology", "layers", "parameters", "outputs", "entry_points", "memory", ...}"""
        return self._json("plait_plan_describe")

    def ir(self, program=None):
        """The programs as text; program: the name of one."""
        name = encoded(program)
        return text_of("plait_plan_ir", self._handle, name, len(name or b""))

    def picture(self):
        """The schedule of the pipeline as SVG."""
        return text_of("plait_plan_picture", self._handle)

    def session(self, run_dir=None, **options):
        """A session that trains by this plan; see Session."""
        from plait.session import Session
        return Session(self, run_dir, **options)


class Dataset(Handle):
    """Samples to look at: len(d), d[i] a dict of tensors by field. See Experiment.dataset() and Engine.dataset()."""

    _close = "plait_dataset_close"

    def __init__(self, make, owner, *arguments):
        super().__init__(make, owner.handle, *arguments, parents=(owner,))
        self._described = self._json("plait_dataset_describe")
        self._is = f"{self._described['type']}, {len(self)} samples"

    def describe(self):
        """{"type", "samples", "fields": [{"name", "role", "dtype", "shape", ...}], ...}"""
        return self._described

    def __len__(self):
        return self._described["samples"]

    def __getitem__(self, index):
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(f"[python] sample {index} of a dataset of {len(self)}")
        sample = {}
        for number, field in enumerate(self._described["fields"]):
            sample[field["name"]] = to = tensors.Tensor(field["dtype"], field["shape"])
            call("plait_dataset_read", self._handle, index % len(self), number, to.address, to.nbytes)
        return sample
