"""The structs and functions of the Python package are as in the headers."""

import ctypes
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bindings/python"))
from plait import _abi

HEADERS = "\n".join(path.read_text() for path in sorted((ROOT / "abi/plait").glob("*.h")))
CODE = re.sub(r"/\*.*?\*/", "", HEADERS, flags=re.DOTALL)
SCALARS = {"size_t": ctypes.c_size_t, "double": ctypes.c_double, **{f"{sign}int{bits}_t": getattr(ctypes, f"c_{sign}int{bits}")
                                                                   for sign in ("", "u") for bits in (8, 16, 32, 64)}}
CALLBACKS = {"plait_log_sink": _abi.LogSink, "plait_late_callback": _abi.LateCallback, "plait_step_callback": _abi.StepCallback,
             "plait_progress": _abi.Progress}
TEXTS = {"const void *": ctypes.c_char_p, "const char *": ctypes.c_char_p, "const char *const *": ctypes.POINTER(ctypes.c_char_p)}


def members(struct):
    """[(name, type in C)] of a struct; a function pointer has the type "function"."""
    body = re.search(r"typedef struct(?: \w+)? \{([^}]*)\} " + struct + ";", CODE)[1]
    found = []
    for line in filter(None, (" ".join(part.split()) for part in body.split(";"))):
        if function := re.search(r"\(PLAIT_CALL \*(\w+)\)", line):
            found.append((function[1], "function"))
            continue
        kind, names = re.fullmatch(r"((?:const )?(?:struct )?\w+ (?:\*(?:const \*)?)?)(.*)", line).groups()
        found += [(name.strip(), kind.strip()) for name in names.split(",")]
    return found


def fits(kind, of):
    """Whether a member of that type in C is a member of this class."""
    if kind in SCALARS:
        return of is SCALARS[kind]
    if kind in CALLBACKS:
        return of is CALLBACKS[kind]
    if kind in _abi.STRUCTS:
        return of is _abi.STRUCTS[kind]
    if of is ctypes.c_void_p:
        return kind == "function" or kind.endswith("*")
    if kind in TEXTS:
        return of is TEXTS[kind]
    to = kind.removeprefix("const ").removesuffix("*").strip()
    return of is ctypes.POINTER(SCALARS.get(to) or _abi.STRUCTS.get(to))


class Declarations(unittest.TestCase):
    def test_structs(self):
        self.assertGreaterEqual(len(_abi.STRUCTS), 20)
        for struct, kind in _abi.STRUCTS.items():
            expected = members(struct)
            self.assertEqual([name for name, _ in kind._fields_], [name for name, _ in expected], struct)
            for (name, in_c), (_, of) in zip(expected, kind._fields_):
                self.assertTrue(fits(in_c, of), f"{struct}.{name}: {in_c}, declared as {of}")

    def test_functions(self):
        """Each has as many arguments as in the header, and of their sizes."""
        sizes = {"i": ("uint32_t",), "l": ("int64_t",), "u": ("uint64_t",), "s": ("const char *",), "b": ("const char *",)}
        for name, letters in _abi.FALLIBLE.items():
            arguments = re.search(r"plait_error \*PLAIT_CALL " + name + r"\(([^)]*)\)", CODE)[1].split(",")
            self.assertEqual(len(arguments), len(letters), name)
            for letter, argument in zip(letters, arguments):
                kind = re.sub(r"\w+$", "", " ".join(argument.split())).strip()
                self.assertIn(kind, sizes.get(letter, (kind if kind.endswith("*") or kind in ("plait_token_callback", "plait_progress") else None,)), name)
        for name in _abi.RELEASING:
            self.assertRegex(CODE, r"void PLAIT_CALL " + name + r"\(\w+ \*\w+\)")

    def test_nothing_is_left_out(self):
        """Every symbol of the library, but for what others do better here: plait_session_predict_all(), the whole text of an error."""
        exported = set((ROOT / "abi/exports.txt").read_text().split())
        declared = {*_abi.FALLIBLE, *_abi.RELEASING, *_abi._READING}
        self.assertEqual(exported - declared, {"plait_error_cause", "plait_session_predict", "plait_tokens_replaced"})
        self.assertEqual(declared - exported, set())

    def test_codes(self):
        """There is a class for each error code."""
        from plait import errors
        codes = {int(code) for code in re.findall(r"#define PLAIT_ERR_\w+ (\d+)u", HEADERS)}
        self.assertEqual(set(errors._CLASSES), codes)


if __name__ == "__main__":
    unittest.main()
