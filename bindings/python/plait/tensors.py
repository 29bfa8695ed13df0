"""Tensors between Python and the library: what a host feeds, and what it gets back, without a copy where that is possible.

In: whatever has a buffer (array.array, memoryview, NumPy) or speaks DLPack (PyTorch, JAX, CuPy). Out: Tensor, which has both as well.
"""

import array
import ctypes
import math
import struct
import sys
import weakref

from plait import _abi

HOST, CUDA, PINNED = 1, 2, 3  # types of devices in DLPack
_LEGACY_STREAM = 1  # CUDA's default stream, as DLPack numbers it


class _Kind:
    """An element type: its name, id of the ABI, code and bits of DLPack, format of the module struct, type string of NumPy."""

    def __init__(self, name, number, code, bits, letter=None, typestr=None):
        self.name, self.number, self.code, self.bits, self.letter, self.typestr = name, number, code, bits, letter, typestr
        self.bytes = bits // 8


_KINDS = [_Kind("f32", 1, 2, 32, "f", "<f4"), _Kind("f64", 2, 2, 64, "d", "<f8"), _Kind("bf16", 3, 4, 16), _Kind("f16", 4, 2, 16, "e", "<f2"),
          _Kind("i32", 5, 0, 32, "i", "<i4"), _Kind("i64", 6, 0, 64, "q", "<i8"), _Kind("u8", 7, 1, 8, "B", "|u1"), _Kind("bool", 8, 6, 8, "?", "|b1")]
KINDS = {kind.name: kind for kind in _KINDS}
_OF_DLPACK = {(kind.code, kind.bits): kind for kind in _KINDS}
_OF_LETTER = {kind.letter: kind for kind in _KINDS if kind.letter} | {"l": KINDS["i64"], "c": KINDS["u8"]}

_python = ctypes.pythonapi
_python.PyCapsule_GetPointer.restype, _python.PyCapsule_GetPointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
_python.PyCapsule_GetName.restype, _python.PyCapsule_GetName.argtypes = ctypes.c_char_p, [ctypes.py_object]
_python.PyCapsule_New.restype, _python.PyCapsule_New.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class _Buffer(ctypes.Structure):  # Py_buffer
    _fields_ = [("buf", ctypes.c_void_p), ("obj", ctypes.py_object), ("len", ctypes.c_ssize_t), ("itemsize", ctypes.c_ssize_t), ("readonly", ctypes.c_int),
                ("ndim", ctypes.c_int), ("format", ctypes.c_char_p), ("shape", ctypes.POINTER(ctypes.c_ssize_t)),
                ("strides", ctypes.POINTER(ctypes.c_ssize_t)), ("suboffsets", ctypes.POINTER(ctypes.c_ssize_t)), ("internal", ctypes.c_void_p)]


_python.PyObject_GetBuffer.restype, _python.PyObject_GetBuffer.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.POINTER(_Buffer), ctypes.c_int]
_python.PyBuffer_Release.restype, _python.PyBuffer_Release.argtypes = None, [ctypes.POINTER(_Buffer)]
_CONTIGUOUS, _FORMAT = 0x0038, 0x0004  # PyBUF_C_CONTIGUOUS, PyBUF_FORMAT


class Borrowed:
    """A tensor of the host as the library reads it, while this object lives: `tensor` is a plait_dl_tensor."""

    def __init__(self, name, value):
        self.name = name
        self._buffer = self._capsule = None
        self._refuse_mask(name, value)
        try:
            view = memoryview(value)
        except (TypeError, ValueError, BufferError):
            if not hasattr(value, "__dlpack__"):
                raise TypeError(f"[python] '{name}' is a {type(value).__name__}, expected a NumPy array, a tensor of DLPack (PyTorch, JAX, CuPy) or "
                                "another object with a buffer, such as array.array") from None
            self._of_dlpack(name, value)
            return
        self._of_buffer(name, view)

    def _refuse_mask(self, name, value):
        masked = sys.modules.get("numpy.ma")  # without it nobody has made one
        if masked and isinstance(value, masked.MaskedArray):
            raise TypeError(f"[python] '{name}' is a masked array, whose mask nothing would read; give value.filled(...), or the weights of samples as 'weight'")

    def _of_buffer(self, name, view):
        if not view.c_contiguous:
            view = memoryview(view.tobytes()).cast(view.format, view.shape)
        buffer = _Buffer()
        _python.PyObject_GetBuffer(view, ctypes.byref(buffer), _CONTIGUOUS | _FORMAT)
        self._buffer = buffer
        kind = _OF_LETTER.get(view.format.lstrip("<=@|"))
        if kind is None or kind.bytes != view.itemsize:
            raise TypeError(f"[python] '{name}' has elements of the format '{view.format}', expected one of " + ", ".join(KINDS))
        self._shape = (ctypes.c_int64 * view.ndim)(*view.shape)
        self.tensor = _abi.DlTensor(buffer.buf, _abi.Device(HOST, 0), view.ndim, _abi.Dtype(kind.code, kind.bits, 1), self._shape, None, 0)

    def _of_dlpack(self, name, value):
        device, _ = value.__dlpack_device__()
        # Work on other streams of the host is behind the default stream's, and the session waits for that one.
        self._capsule = value.__dlpack__(stream=_LEGACY_STREAM) if device == CUDA else value.__dlpack__()
        title = _python.PyCapsule_GetName(self._capsule)
        address = _python.PyCapsule_GetPointer(self._capsule, title)
        if title == b"dltensor_versioned":
            address += _abi.DlManaged.tensor.offset
        elif title != b"dltensor":
            raise TypeError(f"[python] '{name}' gave the capsule '{title}', expected dltensor")
        self.tensor = _abi.DlTensor.from_address(address)
        if not self._is_row_major():
            if not hasattr(value, "contiguous"):
                raise ValueError(f"[python] '{name}' is not row-major without gaps; make a contiguous copy")
            self._of_dlpack(name, value.contiguous())

    def _is_row_major(self):
        t, step = self.tensor, 1
        for i in reversed(range(t.ndim if t.strides else 0)):
            if t.shape[i] == 0:
                return True
            if t.shape[i] != 1 and t.strides[i] != step:
                return False
            step *= t.shape[i]
        return True

    @property
    def dtype(self):
        """Its name, as of Tensor."""
        kind = _OF_DLPACK.get((self.tensor.dtype.code, self.tensor.dtype.bits))
        return kind.name if kind else f"of {self.tensor.dtype.bits} bits, code {self.tensor.dtype.code} of DLPack"

    def as_type(self, wanted):
        """Itself, or a copy as i32 where it is i64 in host memory and i32 is wanted. Errors: ValueError for a number that i32 does not have."""
        if (self.dtype, wanted) != ("i64", "i32") or self.tensor.device.type not in (HOST, PINNED):
            return self
        shape = tuple(self.tensor.shape[:self.tensor.ndim])
        numbers = Tensor("i64", shape, (self.tensor.data or 0) + self.tensor.byte_offset, self)
        try:
            return Borrowed(self.name, numbers.narrowed())
        except OverflowError as e:
            raise ValueError(f"[python] '{self.name}' has the number {e}, expected i32, from -2147483648 to 2147483647") from None

    @property
    def on_stream(self):
        """The stream behind which the tensor is written, None on the host."""
        return _LEGACY_STREAM if self.tensor.device.type == CUDA else None

    def __del__(self):
        if getattr(self, "_buffer", None) is not None:
            _python.PyBuffer_Release(ctypes.byref(self._buffer))


class Tensor:
    """Memory with an element type and a shape, row-major: numpy.asarray(t), torch.from_dlpack(t), memoryview(t.buffer()), t.tolist(),
    and where NumPy is installed t[0], t[:, 1].

    dtype: "f32", "f64", "bf16", "f16", "i32", "i64", "u8" or "bool". The memory lives as long as the tensor, or what was made of it.
    copy.copy(), copy.deepcopy() and pickle make a copy of the numbers, on the host and writable, of a view too.
    """

    def __init__(self, dtype, shape, address=None, owner=None, device=(HOST, 0), read_only=False):
        self._kind, self.shape, self.device, self.read_only = KINDS[dtype], tuple(shape), tuple(device), read_only
        self.dtype, self.size = dtype, math.prod(self.shape)
        self.nbytes = self.size * self._kind.bytes
        if address is None:
            owner = ctypes.create_string_buffer(max(self.nbytes, 1))
            address = ctypes.addressof(owner)
        self.address, self._owner = address, owner

    def _on_host(self):
        if self.device[0] not in (HOST, PINNED):
            raise TypeError("[python] the tensor lies on a device; give it to torch.from_dlpack() or read it with Session.read()")

    def buffer(self):
        """A memoryview of the elements; of bf16, which Python does not know, of its 16 bits."""
        self._on_host()
        memory = (ctypes.c_char * self.nbytes).from_address(self.address)
        memory.keeps = self
        view = memoryview(memory).cast("B").cast(self._kind.letter or "H")
        view = view.cast("B").cast(self._kind.letter or "H", self.shape) if self.shape and self.size else view
        return view.toreadonly() if self.read_only else view

    @property
    def __array_interface__(self):
        self._on_host()
        if self._kind.typestr is None:
            raise AttributeError(f"[python] NumPy has no {self.dtype}; numpy.asarray() makes f32 of it")  # by __array__
        return {"version": 3, "shape": self.shape, "typestr": self._kind.typestr, "data": (self.address, self.read_only)}

    def tolist(self):
        """Nested lists of numbers; of a scalar the number."""
        self._on_host()
        raw = ctypes.string_at(self.address, self.nbytes)
        if self._kind.letter:
            flat = list(struct.unpack(f"={self.size}{self._kind.letter}", raw))
        else:  # bf16: the upper half of an f32
            flat = [struct.unpack("=f", struct.pack("=I", bits << 16))[0] for bits in struct.unpack(f"={self.size}H", raw)]
        for axis in reversed(range(1, len(self.shape))):
            extent = self.shape[axis]
            flat = [flat[i * extent:(i + 1) * extent] for i in range(math.prod(self.shape[:axis]))]
        return flat if self.shape else flat[0]

    def item(self):
        """The only element."""
        if self.size != 1:
            raise ValueError(f"[python] item() of a tensor of {self.size} elements, expected one")
        found = self.tolist()
        for _ in self.shape:
            found = found[0]
        return found

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, stream=None, max_version=None, dl_device=None, copy=None):
        versioned = max_version is not None and max_version[0] >= 1
        if dl_device is not None and tuple(dl_device) != self.device:
            raise BufferError(f"[python] the tensor lies on device {self.device}, not {tuple(dl_device)}; Session.read() copies to the host")
        if copy:
            return _exported(self.copy(), versioned)
        if self.read_only and not versioned:
            raise BufferError("[python] the tensor is read-only, which this consumer of DLPack cannot know; copy() it first")
        return _exported(self, versioned)

    def copy(self):
        """The same in memory of its own, on the host."""
        self._on_host()
        made = Tensor(self.dtype, self.shape)
        ctypes.memmove(made.address, self.address, self.nbytes)
        return made

    def __copy__(self):
        return self.copy()

    def __deepcopy__(self, _):
        return self.copy()

    def __reduce__(self):
        self._on_host()
        return _of_bytes, (self.dtype, self.shape, ctypes.string_at(self.address, self.nbytes))

    def narrowed(self):
        """The numbers of an i64 as i32, in memory of their own. Errors: OverflowError with the first number that i32 does not have."""
        made = Tensor("i32", self.shape)
        try:
            import numpy
            wide, narrow = numpy.asarray(self).reshape(-1), numpy.asarray(made).reshape(-1)
            narrow[:] = wide
            outside = wide[narrow != wide].tolist()
        except ImportError:
            wide = array.array("q", ctypes.string_at(self.address, self.nbytes) if self.nbytes else b"")
            outside = [n for n in wide if not -2**31 <= n < 2**31]
            ctypes.memmove(made.address, b"" if outside else array.array("i", wide).tobytes(), 0 if outside else made.nbytes)
        if outside:
            raise OverflowError(outside[0])
        return made

    def __getitem__(self, index):
        """A part, as NumPy's indexing: an array that shows this memory where NumPy makes views, a number; of bf16 a copy as f32."""
        try:
            import numpy
        except ImportError:
            raise TypeError("[python] parts of a tensor need NumPy, which is not installed; tolist() and buffer() need nothing") from None
        return numpy.asarray(self)[index]

    def __iter__(self):
        return iter(self[...])  # of a bf16 one copy, not one for each row

    def __setitem__(self, index, value):
        if self._kind.typestr is None:
            raise TypeError(f"[python] NumPy has no {self.dtype}, so parts of it cannot be written; buffer() has its bits, torch.from_dlpack() its numbers")
        self[...][index] = value

    def __array__(self, dtype=None, copy=None):
        """For numpy.asarray() of bf16, which NumPy does not know: a copy as f32, read-only unless a copy is asked for: a write would change no tensor."""
        import numpy
        if self._kind.typestr:
            found = numpy.asarray(self)
        else:
            found = (numpy.frombuffer(self.copy().buffer(), numpy.uint16).astype(numpy.uint32) << 16).view(numpy.float32).reshape(self.shape)
        dtype = found.dtype if dtype is None else numpy.dtype(dtype)
        converted = found.dtype != dtype or not self._kind.typestr
        if converted and copy is False:
            raise ValueError(f"[python] an array of {dtype} of a tensor of {self.dtype} is a copy, and copy=False was given; use numpy.asarray()")
        if not converted:
            return found.copy() if copy else found
        found = found.astype(dtype)
        found.flags.writeable = bool(copy or self._kind.typestr)
        return found

    def __len__(self):
        return self.shape[0] if self.shape else 0

    def __repr__(self):
        return f"<plait.Tensor {self.dtype} {self.shape}>"


def _of_bytes(dtype, shape, raw):
    made = Tensor(dtype, shape)
    ctypes.memmove(made.address, raw, made.nbytes)
    return made


class _Managed(ctypes.Structure):  # DLManagedTensor, as consumers before DLPack 1.0 read it
    _fields_ = [("tensor", _abi.DlTensor), ("manager_ctx", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


_exports = {}  # address of a managed tensor: it, and what it keeps
_offered = {}  # the same address: its capsule, until a consumer has renamed it


@_abi.Deleter
def _release(address, exports=_exports):
    exports.pop(address, None)


def _holders(capsules, address):
    return sys.getrefcount(capsules[address])


_ALONE = _holders({0: object()}, 0)  # nobody but the dict


def _free_unconsumed():
    """What belongs to capsules that nobody has consumed and only this module still holds.

    A destructor of capsules would be Python, which must not run where a consumer drops a capsule that it refuses: an exception is set then.
    """
    for address in list(_offered):
        name = _python.PyCapsule_GetName(_offered[address])
        if name.startswith(b"used"):
            del _offered[address]
        elif _holders(_offered, address) == _ALONE:
            del _offered[address], _exports[address]


# A consumer's tensor may be freed when this module is gone already, at the end of the interpreter.
for _kept in (_release, _exports):
    _python.Py_IncRef(ctypes.py_object(_kept))


def _exported(tensor, versioned):
    n = len(tensor.shape)
    shape, strides, step = (ctypes.c_int64 * max(n, 1))(*tensor.shape), (ctypes.c_int64 * max(n, 1))(), 1
    for i in reversed(range(n)):
        strides[i], step = step, step * tensor.shape[i]
    managed = _abi.DlManaged() if versioned else _Managed()
    kind = tensor._kind
    managed.tensor = _abi.DlTensor(tensor.address, _abi.Device(*tensor.device), n, _abi.Dtype(kind.code, kind.bits, 1), shape, strides, 0)
    managed.deleter = ctypes.cast(_release, ctypes.c_void_p)
    if versioned:
        managed.major, managed.flags = 1, 1 if tensor.read_only else 0
    address, name = ctypes.addressof(managed), b"dltensor_versioned" if versioned else b"dltensor"
    _free_unconsumed()
    capsule = _python.PyCapsule_New(address, name, None)
    _exports[address], _offered[address] = (managed, shape, strides, tensor._owner, name), capsule
    weakref.finalize(tensor, _free_unconsumed).atexit = False
    return capsule


def of_view(managed):
    """The Tensor of a plait_dl_managed, whose deleter runs when nothing uses it any more."""
    view = _abi.DlManaged.from_address(managed)

    class Owner:
        def __del__(self, release=_abi.Deleter(view.deleter)):
            release(managed)

    t = view.tensor
    kind = _OF_DLPACK[t.dtype.code, t.dtype.bits]
    return Tensor(kind.name, t.shape[:t.ndim], (t.data or 0) + t.byte_offset, Owner(), (t.device.type, t.device.id), bool(view.flags & 1))
