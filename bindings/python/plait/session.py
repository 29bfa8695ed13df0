"""A plan in execution: training with callbacks or as an iterator, own batches, evaluation, prediction, parameters, checkpoints."""

import collections.abc
import ctypes
import dataclasses
import json
import math
import os
import sys
import threading
import weakref

from plait import _abi, tensors
from plait.adapters import Adapters
from plait.errors import Cancelled, Error, InvalidError, StateError, call, check, interrupts_behind, interruptible, taken
from plait.generate import Generator
from plait.handles import Handle, chosen, encoded
from plait.notebook import Bar, in_notebook

_RESUME = {None: 0, "never": 1, "auto": 2, "must": 3}  # PLAIT_RESUME_*; None: as run.resume says
_VIEWS = {"parameter": 0, "output": 1, "result": 2}  # PLAIT_VIEW_*


@dataclasses.dataclass(frozen=True)
class Step:
    """The result of a step, for the whole global batch. Rates and means are over the steps since the last line of metrics; 0: not known."""

    step: int  # from 1
    epoch: int  # from 0
    samples: int  # so far
    loss: float
    grad_norm: float  # before clipping
    learning_rate: float  # of the first group
    seconds: float
    skipped: bool  # not finite: nothing has changed
    finished: bool
    tokens: int
    skipped_steps: int
    grad_norm_clipped: float
    mean_loss: float
    samples_per_s: float
    tokens_per_s: float
    tflops: float
    tflops_full: float
    mfu: float
    mfu_full: float
    metrics: dict  # name: value

    @classmethod
    def _of(cls, result):
        values = {name: getattr(result, name) for name in _PLAIN}
        values["skipped"], values["finished"] = bool(result.skipped), bool(result.finished)
        return cls(**values, metrics={m.name.decode(): m.value for m in result.metrics[:result.n_metrics]})


_PLAIN = [field.name for field in dataclasses.fields(Step) if field.name != "metrics"]


class _Feeds:
    """A batch as the library reads it, for one call: {field: array}."""

    def __init__(self, session, batch):
        if batch is not None and not isinstance(batch, collections.abc.Mapping):
            raise TypeError(f"[python] the batch is a {type(batch).__name__}, expected a dict {{field: array}}; plan.describe() names the fields")
        for name in batch or ():
            if not isinstance(name, str):
                raise TypeError(f"[python] the batch has the key {name!r}, expected the name of a field as a str")
        self.borrowed = {name: tensors.Borrowed(name, value).as_type(session._types.get(name)) for name, value in (batch or {}).items()}
        self.size = len(self.borrowed)
        self.array = (_abi.Feed * max(self.size, 1))(*(_abi.sized(_abi.Feed, field=name.encode(), tensor=ctypes.pointer(b.tensor))
                                                      for name, b in self.borrowed.items()))
        for stream in {b.on_stream for b in self.borrowed.values()} - {None}:
            session.wait_stream(stream)

    def samples(self):
        return next((b.tensor.shape[0] for b in self.borrowed.values() if b.tensor.ndim > 0), 0)


def _evaluation(text):
    """The evaluation of the library's JSON, which writes numbers that are not finite as texts."""
    made = json.loads(text)
    for numbers in (made, made.get("metrics", {})):
        numbers.update({name: float(value) for name, value in numbers.items() if value in ("nan", "inf", "-inf") and name != "dataset"})
    return made


class Session(Handle):
    """Trains by a plan.

    run_dir: the folder of the run; None: a new one in run.out. files = False: the session writes none. resume: "never", "auto", "must" or
    None, as run.resume says. bar: a progress bar in a notebook or terminal. stop_after: a step behind which a run saves and raises Cancelled.
    One thread uses it at a time, but for cancel(). Batches have the element types of the fields; i64 in host memory, as NumPy and PyTorch make
    labels, is converted where a field is i32. A fork() of the process cannot use it: processes are started by "spawn".
    """

    _close = "plait_session_close"
    _instead = "; state_dict() gives copies of its parameters, save() writes a checkpoint"

    def __init__(self, plan, run_dir=None, files=True, resume=None, bar=False, stop_after=0):
        self._run = None  # of train(), while it runs in a thread
        self._on_step = self._raised = self._interrupted = None
        described = plan.describe()
        self._alone = described["topology"]["ranks"] == 1
        self._outputs = {o["name"]: o for o in described["outputs"]}
        self._types = {name: kind for e in described["entry_points"] for name, kind in zip(e["fields"], e["field_dtypes"])}
        self._bar = Bar(described["steps"]) if bar and in_notebook() else None

        # A cycle of references is not wanted: the callback reaches the session by this list alone.
        hook = self._hook = []

        @_abi.StepCallback
        def on_step(_, result):
            return hook[0](result.contents) if hook else 0

        options = _abi.sized(_abi.SessionOptions, run_dir=encoded(run_dir), no_files=not files, resume=chosen("resume", resume, _RESUME),
                             progress=bool(bar) and self._bar is None, on_step=on_step, command=" ".join(["python", *sys.argv]).encode(), stop_after=stop_after)
        super().__init__("plait_session_open", plan.handle, ctypes.byref(options), parents=(plan, on_step))
        self.plan, self._is = plan, plan._is

    # --- training

    def run(self, on_step=None):
        """Trains to the end: steps, evaluations, checkpoints, early stopping. Returns the last Step.

        on_step(step) is called after each one; True saves and stops (Cancelled is raised), and so does an exception, Ctrl-C included, which
        run() raises again.
        """
        return self._ran(on_step)

    def _ran(self, on_step):
        result = _abi.sized(_abi.StepResult)
        with interrupts_behind() as came:
            self._refuse_inside()
            self._on_step, self._raised, self._interrupted = on_step, None, came
            self._hook[:] = [self._stepped]
            try:
                check(_abi.lib.plait_session_run(self._handle, ctypes.byref(result)))
            except Error as e:
                if self._raised is None:
                    raise
                raise self._raised from (None if isinstance(e, Cancelled) else e)
            finally:
                self._hook.clear()
                self._on_step = self._raised = self._interrupted = None
                if self._bar:
                    self._bar.end()
        return Step._of(result)

    def _refuse_inside(self, what="run() or train()"):
        if self._hook or (self._run is not None and threading.current_thread() is not self._run.thread):
            raise StateError(f"[python] {what} inside of a run of the same session, or before a loop over train() has ended; call it behind that")

    def _stepped(self, result):
        """Behind each step of a run. No exception may leave it."""
        try:
            asked = False
            if self._bar or self._on_step:
                step = Step._of(result)
                if self._bar:
                    self._bar.update(step)
                asked = self._on_step and self._on_step(step)
            if self._interrupted:  # here, where the run is sure to serve it: behind the run it would end the next one
                self.cancel()
            return 1 if asked or self._interrupted else 0
        except BaseException as e:
            self._raised = e
            return 1

    def train(self):
        """Trains to the end as run() does, and gives each Step: `for step in session.train(): ...`.

        Between two steps the session may be used, but for run(), step(), load() and profile(). A break saves and stops.
        """
        with interrupts_behind():
            self._refuse_inside()
            run = self._run = _Run(self)
            # The end of the interpreter must not find the thread inside of the library. Before the session is closed: the newest is first.
            at_exit = weakref.finalize(self, run.stop)
        try:
            try:
                yield from run.steps()
            finally:
                self._leave(run, at_exit)
        finally:
            self._leave(run, at_exit)  # again: Ctrl-C may have come before the first began

    def _leave(self, run, at_exit):
        with interrupts_behind():
            at_exit.detach()
            try:
                run.stop()
            finally:
                if self._run is run:
                    self._run = None

    def step(self, batch=None):
        """One step on the samples of a batch {field: array}; None: on the next batch of [data.train]. Evaluates and saves nothing."""
        self._refuse_inside("step()")
        if batch is not None and not len(batch):
            raise ValueError("[python] the batch has no fields; step() without one takes the next batch of [data.train]")
        feeds, result = _Feeds(self, batch), _abi.sized(_abi.StepResult)
        self._call("plait_session_step", ctypes.byref(feeds.array), feeds.size, ctypes.byref(result))
        return Step._of(result)

    def cancel(self):
        """Asks a run to save and stop behind the current step, or an evaluation to end; without one the next. Any thread.

        A session that is closed has nothing left to stop.
        """
        try:
            handle = self._handle
        except InvalidError:
            return
        _abi.lib.plait_session_cancel(handle)

    def _end_request(self, dataset="train"):
        """No later call is stopped by a cancel() that may have come when its call was over already.

        Nothing takes a request back, but an evaluation that it stops serves it. Not where several ranks would have to make that one together.
        """
        if not self._alone:
            return
        for name in dict.fromkeys((dataset, "train")):
            self.cancel()
            made = ctypes.c_void_p()
            try:
                check(_abi.lib.plait_session_evaluate(self._handle, encoded(name), ctypes.byref(made)))
            except Cancelled:
                return
            except Error:
                continue  # there is no such dataset
            taken(made)

    # --- results

    def evaluate(self, dataset="eval"):
        """{"loss", "samples", "seconds", "metrics", ...} on [data.NAME]; a loss of nothing but ignored labels is nan. Ctrl-C ends it, and a loop over train() that it is called in."""
        asked = []

        def evaluated():
            made = ctypes.c_void_p()
            check(_abi.lib.plait_session_evaluate(self._handle, encoded(dataset), ctypes.byref(made)))
            return taken(made)

        def stop():
            asked.append(True)
            self.cancel()

        if self._run is not None:
            return _evaluation(self._run.inside(evaluated, self.cancel))
        try:
            return _evaluation(interruptible(evaluated, stop))
        except KeyboardInterrupt as e:
            if asked and not isinstance(e.__cause__, Cancelled):
                self._end_request(dataset)
            raise

    def predict(self, batch, *values):
        """What the model makes of a batch {field: array}: the Tensor (n, ...) of "output"; of several named values a dict."""
        feeds, names = _Feeds(self, batch), values or ("output",)
        made = {}
        for name in names:
            described = self._outputs.get(name, {"dtype": "u8", "shape": [0]})  # of an unknown one the library says what there is
            made[name] = tensors.Tensor(described["dtype"], [feeds.samples(), *described["shape"]])
        wanted = (_abi.Prediction * len(made))(*(_abi.Prediction(name.encode(), t.address, t.nbytes) for name, t in made.items()))
        self._call("plait_session_predict_all", ctypes.byref(feeds.array), feeds.size, ctypes.byref(wanted), len(made))
        return made if len(values) > 1 else made[names[0]]

    def describe(self):
        """{"step", "samples", "parameters", "last_evaluation", "device", "run_dir", ...}: the session as it is now."""
        return self._texts("plait_session_describe")[0]

    def profile(self, entry_point="train_step", dataset="eval", runs=1, warm_up=0, trace=False):
        """Makes steps, or evaluates batches, and measures their kernels: the table, and with trace also the trace for Chrome's viewer (None on other ranks)."""
        self._refuse_inside("profile()")
        options = _abi.sized(_abi.ProfileOptions, entry_point=encoded(entry_point), dataset=encoded(dataset), runs=runs, warm_up=warm_up, trace=trace)
        table, of_trace = self._texts("plait_session_profile", ctypes.byref(options), n=2)
        return (table, of_trace) if trace else table

    # --- parameters

    def parameters(self):
        """{name: {"shape", "dtype", "group"}}"""
        return {p.pop("name"): p for p in self.describe()["parameters"]}

    def read(self, parameter):
        """A copy of the whole tensor of a parameter. Collective where it is distributed."""
        described = self.parameters().get(parameter, {"dtype": "u8", "shape": [0]})  # as in predict()
        to = tensors.Tensor(described["dtype"], described["shape"])
        self._call("plait_session_read", encoded(parameter), to.address, to.nbytes)
        return to

    def write(self, parameter, value):
        """Copies an array, of the shape and element type of the parameter, into it."""
        borrowed = tensors.Borrowed(parameter, value)
        tensor, described = borrowed.tensor, self.parameters().get(parameter)
        shape = tensor.shape[:tensor.ndim]
        if described and ((borrowed.dtype, shape) != (described["dtype"], described["shape"]) or borrowed.on_stream):
            raise ValueError(f"[python] write of {borrowed.dtype} {shape}{' on a device' if borrowed.on_stream else ''} to '{parameter}', "
                             f"expected {described['dtype']} {described['shape']} in host memory")
        self._call("plait_session_write", encoded(parameter), (tensor.data or 0) + tensor.byte_offset, math.prod(shape) * tensor.dtype.bits // 8)

    def state_dict(self):
        """{name: copy} of all parameters. Collective."""
        return {name: self.read(name) for name in self.parameters()}

    def load_state_dict(self, values):
        """Writes the parameters of a dict {name: array}; others stay as they are."""
        for name, value in values.items():
            self.write(name, value)

    def view(self, name, kind="parameter", read_only=False):
        """A Tensor that shows memory of the session, without a copy: of a parameter, an "output" or a "result". Later calls change its content."""
        options = _abi.sized(_abi.ViewOptions, kind=chosen("kind", kind, _VIEWS), flags=1 if read_only else 0)

        def shown():
            made = ctypes.c_void_p()
            with interrupts_behind():  # or the view would stay
                check(_abi.lib.plait_session_view_of(self._handle, encoded(name), ctypes.byref(options), ctypes.byref(made)))
                return tensors.of_view(made.value)

        return self._do(shown)

    def wait_stream(self, stream):
        """Later work of the session waits for what is on a stream of CUDA now: behind writes through a view, torch.cuda.current_stream().cuda_stream."""
        self._call("plait_session_wait_stream", stream)

    # --- checkpoints

    def save(self, path=None):
        """A checkpoint in the run directory, or in the folder `path`."""
        self._call("plait_session_save", encoded(path))

    def load(self, path, parameters_only=False):
        """Reads a checkpoint, all of it or its parameters."""
        self._refuse_inside("load()")
        self._call("plait_session_load_parameters" if parameters_only else "plait_session_load", encoded(path))

    def save_model(self, path):
        """A checkpoint in the folder `path` of the model alone, without adapters."""
        self._call("plait_session_save_model", encoded(path))

    @property
    def adapters(self):
        """Adapters listed, merged, exchanged; see Adapters."""
        return Adapters(self)

    def any_rank(self, own):
        """Whether any rank passes True; also a barrier. Collective."""
        found = ctypes.c_uint32()
        self._call("plait_session_any_rank", bool(own), ctypes.byref(found))
        return bool(found.value)

    def generator(self, tokenizer=None):
        """Generates text, token after token; see Generator. tokenizer: of prompts and texts; None: that of the experiment."""
        return self._do(lambda: Generator(self, tokenizer))

    # --- calls

    def _do(self, function):
        """On the thread of train(), where that runs: a session serves one thread at a time."""
        return function() if self._run is None else self._run.inside(function)

    def _call(self, name, *arguments):
        self._do(lambda: call(name, self._handle, *arguments))

    def _texts(self, name, *arguments, n=1):
        def made():
            handles = [ctypes.c_void_p() for _ in range(n)]
            with interrupts_behind():  # or the texts would stay
                check(getattr(_abi.lib, name)(self._handle, *arguments, *map(ctypes.byref, handles)))
                return [taken(one) if one else None for one in handles]

        return [text and json.loads(text) for text in self._do(made)]


class _Run:
    """A run in a thread of its own that waits behind each step, so that its steps can be given one by one.

    What is called on the session meanwhile is done by that thread, inside of the callback.
    """

    def __init__(self, session):
        self.session, self.lock = session, threading.Condition()
        self.step = self.task = self.error = None  # what the thread has made; what it is to do
        self.waits = self.goes_on = self.ended = self.stopping = False  # waits: in the callback
        self.asked = False  # the session to stop
        self.thread = threading.Thread(target=self._work, name="plait.train", daemon=True)
        self.process = os.getpid()

    def _work(self):
        error = None
        try:
            self.session._ran(self._behind_step)
        except BaseException as e:
            error = e
        with self.lock:
            self.error, self.ended = error, True
            self.lock.notify_all()

    def _behind_step(self, step):
        with self.lock:
            self.step, self.goes_on, self.waits = step, self.stopping, True
            self.lock.notify_all()
            while True:
                self.lock.wait_for(lambda: self.task or self.goes_on)
                task = self.task
                if task is None:
                    self.waits = False
                    return self.stopping
                self.lock.release()  # so that the thread that waits for it can be interrupted
                try:
                    task()
                finally:
                    self.lock.acquire()
                self.task = None
                self.lock.notify_all()

    def steps(self):
        """Ctrl-C meanwhile stops the run, and is raised when the thread has answered."""
        with interrupts_behind():
            self.thread.start()
        while True:
            with interrupts_behind(self._ask), self.lock:
                self.lock.wait_for(lambda: self.step or self.ended)
                step, self.step = self.step, None
            if step is None:
                break
            yield step
            self.session.handle  # raises in a fork of this process, where nobody makes the next step
            with interrupts_behind(), self.lock:
                self.goes_on = True
                self.lock.notify_all()
        if self.error:
            error, self.error = self.error, None
            raise error

    def _ask(self):
        self.asked = True
        self.session.cancel()

    def inside(self, function, on_interrupt=None):
        """Has the thread do it between two steps: its result, or what it raises. Ctrl-C meanwhile calls on_interrupt() and is raised behind it."""
        if threading.current_thread() is self.thread:
            return function()
        self.session.handle  # as in steps()
        outcome = []

        def task():
            try:
                outcome.append((function(), None))
            except BaseException as e:
                outcome.append((None, e))

        with interrupts_behind(on_interrupt):
            with self.lock:
                if not self.ended:
                    if self.task or not self.waits or self.goes_on:
                        raise StateError("[python] the session makes a step, or works for another thread; use it in the body of the loop over train()")
                    self.task = task
                    self.lock.notify_all()
                    self.lock.wait_for(lambda: outcome)
            if not outcome:
                task()  # the run is over
            result, error = outcome[0]
            if error:
                raise error
            return result

    def stop(self):
        """After a break: the run saves and stops. Raises what kept it from that."""
        if not self.thread.ident or os.getpid() != self.process:
            return  # it was never started, or is not in this fork
        with self.lock:
            if not self.waits and not self.ended:
                self._ask()  # an evaluation may take long; what waits behind a step needs no more than its answer
            self.stopping = self.goes_on = True
            self.lock.notify_all()
        self.thread.join()
        if self.asked:
            self.asked = False
            self.session._end_request()
        if self.error and not isinstance(self.error, Cancelled):
            raise self.error
