"""What a call of the library raises: one class for each code of base.h."""

import contextlib
import ctypes
import signal
import threading

from plait import _abi


class Error(RuntimeError):
    """An error of the library. Its text is the whole chain of causes, a line each; `code` is PLAIT_ERR_*."""

    code = 14


class InvalidError(Error):
    """An argument of the call is wrong."""

    code = 1


class ConfigError(Error):
    """The experiment, an override or a setting is wrong; the text has all problems."""

    code = 2


class NotFoundError(Error):
    """A named file, item, parameter or value does not exist."""

    code = 3


class UnimplementedError(Error):
    """This build, plugin or device does not support it."""

    code = 4


class FileError(Error):
    """The operating system refused; the text has path and reason."""

    code = 5


class DataError(Error):
    """Data is malformed, truncated or out of range."""

    code = 6


class PluginError(Error):
    """A plugin could not be loaded or violated the ABI."""

    code = 7


class OutOfMemoryError(Error):
    """Out of memory; the text says how much was requested."""

    code = 8


class NumericError(Error):
    """Training cannot continue because of values that are not finite."""

    code = 9


class Cancelled(Error):
    """A run or an evaluation was stopped on request; the text names the checkpoint, if there is one."""

    code = 10


class StateError(Error):
    """A call in the wrong order or on the wrong thread."""

    code = 11


class DeviceError(Error):
    """A device is missing or has failed."""

    code = 12


class PeerError(Error):
    """Another rank died, hangs, failed or disagrees."""

    code = 13


class InternalError(Error):
    """A bug in the engine; please report the text."""

    code = 14


_CLASSES = {kind.code: kind for kind in Error.__subclasses__()}


def check(error):
    """Raises what a call returned, unless it is NULL."""
    if not error:
        return
    code, text = _abi.lib.plait_error_code(error), _abi.lib.plait_error_full_text(error)
    message = text.decode(errors="replace")
    _abi.lib.plait_error_free(error)
    raise _CLASSES.get(code, InternalError)(message)


def _interrupts_come_here():
    """Whether Ctrl-C is a KeyboardInterrupt in this thread."""
    return threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is signal.default_int_handler


@contextlib.contextmanager
def interrupts_behind(on_interrupt=None):
    """Ctrl-C meanwhile is raised behind it: in a callback of C it might come before any `try`, and be lost. Gives a list, empty until it comes.

    on_interrupt() is called at the first one, which Python handles only between two instructions: a call of C is over by then, or in a callback.
    """
    came = []
    if not _interrupts_come_here():
        yield came
        return

    def note(*_):
        came.append(True)
        if on_interrupt and len(came) == 1:
            on_interrupt()

    signal.signal(signal.SIGINT, note)
    try:
        yield came
    except Error as e:
        if came:
            raise KeyboardInterrupt from e
        raise
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if came:
        raise KeyboardInterrupt


def interruptible(function, stop):
    """function(), a call of C that stop() ends: Ctrl-C calls stop() at once and is raised behind it.

    In a thread of its own, as this one would see Ctrl-C only when the call is over.
    """
    if not _interrupts_come_here():
        return function()
    outcome, ended = [], threading.Event()

    def work():
        try:
            outcome.append((function(), None))
        except BaseException as e:
            outcome.append((None, e))
        ended.set()

    with interrupts_behind(lambda: None if ended.is_set() else stop()):
        threading.Thread(target=work, name="plait.call", daemon=True).start()
        ended.wait()
        result, error = outcome.pop()
        try:
            if error:
                raise error
            return result
        finally:
            del error  # its traceback has this frame


def call(name, *arguments):
    with interrupts_behind():
        check(getattr(_abi.lib, name)(*arguments))


def text_of(name, *arguments):
    """The text that a call makes, its last out-parameter."""
    made = ctypes.c_void_p()
    with interrupts_behind():  # or the text would stay
        check(getattr(_abi.lib, name)(*arguments, ctypes.byref(made)))
        return taken(made)


def taken(made):
    """The content of a plait_text, which is freed."""
    try:
        return ctypes.string_at(_abi.lib.plait_text_data(made), _abi.lib.plait_text_size(made)).decode(errors="replace")
    finally:
        _abi.lib.plait_text_free(made)
