"""Objects of the library, each closed when nothing uses it any more, or at the end of the interpreter."""

import ctypes
import json
import os
import weakref

from plait import _abi
from plait.errors import InvalidError, StateError, check, interrupts_behind, text_of


class Handle:
    """Owns an object; `parents` are what it was made from, which must outlive its callbacks. A context manager: the end closes it."""

    _close = None  # the function that frees it
    _instead = ""  # of a copy
    _is = ""  # what repr() says

    def __init__(self, make, *arguments, parents=()):
        made = ctypes.c_void_p()
        with interrupts_behind():  # or what is made would stay open
            check(getattr(_abi.lib, make)(*arguments, ctypes.byref(made)))
            self._pointer, self._parents, self._process = made, parents, os.getpid()
            # Finalizers run at the end of the interpreter, too, the newest first: before what a callback needs is gone.
            self._finalizer = weakref.finalize(self, _released, self._close, made, parents, self._process)

    @property
    def _handle(self):
        """Errors: InvalidError behind close(), StateError in a process that was forked from the one that made it: the threads of the library are not there."""
        if os.getpid() != self._process:
            raise StateError(f"[python] this {type(self).__name__} was made in another process ({self._process}), of which this one ({os.getpid()}) is a "
                             "fork; make it in each process, or start processes by multiprocessing.get_context(\"spawn\")")
        pointer = self._pointer  # once: another thread may close it
        if not pointer:
            raise InvalidError(f"[python] this {type(self).__name__} is closed; make another one, or use it inside of its `with`")
        return pointer

    @property
    def handle(self):
        """The pointer, for calls of the ABI that this package does not have."""
        return self._handle

    def __repr__(self):
        return f"<plait.{type(self).__name__}{self._is and ' ' + self._is}{'' if self._finalizer.alive else ', closed'}>"

    def close(self):
        """Frees it; later calls on it fail. What was made from it can still be used."""
        self._pointer = ctypes.c_void_p()  # first: another thread must not take it to something freed
        self._finalizer()

    def __reduce_ex__(self, _):
        """Of copy and pickle."""
        raise TypeError(f"[python] a {type(self).__name__} is an object of the library in this process: it cannot be copied or pickled; share it, or make "
                        "another as this one was made" + self._instead)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _json(self, name, *arguments):
        return json.loads(text_of(name, self._handle, *arguments))


def _released(close, handle, parents, process):
    if os.getpid() == process:  # a fork has a copy of the memory, not the threads that closing waits for
        getattr(_abi.lib, close)(handle)
    del parents  # they live until here


def encoded(text):
    """A text or path as the library takes it; None stays."""
    if text is None or isinstance(text, bytes):
        return text
    return os.fspath(text).encode(errors="surrogateescape")  # as Python reads names of files that are not UTF-8


def chosen(name, value, known):
    """known[value], where a user chose by a word."""
    try:
        return known[value]
    except (KeyError, TypeError):
        raise ValueError(f"[python] {name} is {value!r}, expected one of {', '.join(map(repr, known))}") from None


def texts(words):
    """(n) texts as an array of C, of one text or several; None where there are none."""
    words = [encoded(word) for word in ([words] if isinstance(words, (str, bytes, os.PathLike)) else words or ())]
    return (ctypes.c_char_p * len(words))(*words) if words else None
