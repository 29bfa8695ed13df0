"""Python values as TOML, for overrides and experiments that are made in a program."""

import json
import math
import re


def value(of, path=""):
    """An inline TOML value: None is not one. path: of the key, for an error."""
    if isinstance(of, bool):
        return "true" if of else "false"
    if isinstance(of, int):
        return str(of)
    if isinstance(of, float):
        return repr(of) if math.isfinite(of) else {math.inf: "inf", -math.inf: "-inf"}.get(of, "nan")
    if isinstance(of, (list, tuple)):
        return "[" + ", ".join(value(one, f"{path}[{i}]") for i, one in enumerate(of)) + "]"
    if isinstance(of, dict):
        return "{" + ", ".join(f"{key(name, path)} = {value(one, _below(path, name))}" for name, one in of.items()) + "}"
    if hasattr(of, "__fspath__") or isinstance(of, str):
        return json.dumps(str(of), ensure_ascii=False).replace("\x7f", "\\u007f")  # JSON's escapes are TOML's
    if hasattr(of, "item"):  # a number of NumPy
        return value(of.item(), path)
    raise TypeError(f"[python] {path + ' is ' if path else ''}{of!r}{'' if of is None else f' ({type(of).__name__})'}, which is no value of TOML" +
                    ("; leave the key out where it has none" if of is None else ""))


def _below(path, name):
    return f"{path}.{name}" if path else name


def key(name, path=""):
    if not isinstance(name, str):
        raise TypeError(f"[python] the key {name!r}{' of ' + path if path else ''} is a {type(name).__name__}, expected str")
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name, ensure_ascii=False)


def document(of):
    """A dict as a document: {"run": {"steps": 100}}."""
    lines = [f"{key(name)} = {value(one, name)}" for name, one in of.items() if not isinstance(one, dict)]
    for name, table in of.items():
        if isinstance(table, dict):
            lines += ["", f"[{key(name)}]", *(f"{key(inner, name)} = {value(one, _below(name, inner))}" for inner, one in table.items())]
    return "\n".join(lines) + "\n"


def overrides(of):
    """Overrides as the library takes them: of a dict {"run.steps": 100}, or of texts "run.steps=100", "~data.eval"."""
    if isinstance(of, dict):
        return [f"{path}={value(one, path)}" for path, one in of.items()]
    return [of] if isinstance(of, str) else list(of or ())
