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


@contextlib.contextmanager
def interrupts_behind(on_interrupt=None):
    """Ctrl-C meanwhile calls on_interrupt() and is raised behind it: in a callback of C it might come before any `try`, and be lost."""
    handler, came = signal.default_int_handler, []
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGINT) is not handler:
        yield
        return

    def note(*_):
        came.append(True)
        if on_interrupt:
            on_interrupt()

    signal.signal(signal.SIGINT, note)
    try:
        yield
    except Error as e:
        if came:
            raise KeyboardInterrupt from e
        raise
    finally:
        signal.signal(signal.SIGINT, handler)
    if came:
        raise KeyboardInterrupt


def call(name, *arguments, on_interrupt=None):
    with interrupts_behind(on_interrupt):
        check(getattr(_abi.lib, name)(*arguments))


def text_of(name, *arguments):
    """The text that a call makes, its last out-parameter."""
    made = ctypes.c_void_p()
    call(name, *arguments, ctypes.byref(made))
    return taken(made)


def taken(made):
    """The content of a plait_text, which is freed."""
    try:
        return ctypes.string_at(_abi.lib.plait_text_data(made), _abi.lib.plait_text_size(made)).decode(errors="replace")
    finally:
        _abi.lib.plait_text_free(made)
