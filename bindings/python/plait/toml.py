"""Python values as TOML, for overrides and experiments that are made in a program."""

import json
import math
import re


def value(of):
    """An inline TOML value: None is not one."""
    if isinstance(of, bool):
        return "true" if of else "false"
    if isinstance(of, int):
        return str(of)
    if isinstance(of, float):
        return repr(of) if math.isfinite(of) else {math.inf: "inf", -math.inf: "-inf"}.get(of, "nan")
    if isinstance(of, (list, tuple)):
        return "[" + ", ".join(value(one) for one in of) + "]"
    if isinstance(of, dict):
        return "{" + ", ".join(f"{key(name)} = {value(one)}" for name, one in of.items()) + "}"
    if hasattr(of, "__fspath__") or isinstance(of, str):
        return json.dumps(str(of), ensure_ascii=False).replace("\x7f", "\\u007f")  # JSON's escapes are TOML's
    if hasattr(of, "item"):  # a number of NumPy
        return value(of.item())
    raise TypeError(f"[python] {of!r} is a {type(of).__name__}, which is no value of TOML")


def key(name):
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name, ensure_ascii=False)


def document(of):
    """A dict as a document: {"run": {"steps": 100}}."""
    lines = [f"{key(name)} = {value(one)}" for name, one in of.items() if not isinstance(one, dict)]
    for name, table in of.items():
        if isinstance(table, dict):
            lines += ["", f"[{key(name)}]", *(f"{key(inner)} = {value(one)}" for inner, one in table.items())]
    return "\n".join(lines) + "\n"


def overrides(of):
    """Overrides as the library takes them: of a dict {"run.steps": 100}, or of texts "run.steps=100", "~data.eval"."""
    if isinstance(of, dict):
        return [f"{path}={value(one)}" for path, one in of.items()]
    return [of] if isinstance(of, str) else list(of or ())
