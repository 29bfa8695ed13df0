"""Makes the wheel of the package plait (PEP 517, PEP 660), from the standard library alone.

    pip install bindings/python                                               uses the library that is installed
    pip install bindings/python --config-settings prefix=/opt/plait           takes library and plugins of that installation along

prefix: where `cmake --install` has put Plait; lib/libplait.so.1 and the plugins beside it.
"""

import base64
import hashlib
import pathlib
import re
import sysconfig
import zipfile

HERE = pathlib.Path(__file__).resolve().parent


def project(key):
    """A key of [project] in pyproject.toml; Python before 3.11 has no reader of TOML."""
    return re.search(rf'^{key} = "(.*)"$', (HERE / "pyproject.toml").read_text(), re.MULTILINE)[1]


def of_library(prefix):
    """{path in the wheel: file} of an installation."""
    for library in sorted(pathlib.Path(prefix).glob("lib*/**/libplait.so.1")):
        plugins = sorted(library.parent.glob("plait/plugins-*/*.so"))  # by the number of the ABI
        if plugins:
            return {"plait/lib/libplait.so.1": library, **{f"plait/lib/{file.relative_to(library.parent)}": file for file in plugins}}
    raise SystemExit(f"[python] there is no libplait.so.1 with plugins below {prefix}/lib; install Plait there: cmake --install build/dev --prefix {prefix}")


def written(folder, tag, files):
    """A wheel; files: {path in it: bytes or file}. Returns its name."""
    name, version = project("name"), project("version")
    info, wheel = f"{name}-{version}.dist-info", f"{name}-{version}-{tag}.whl"
    metadata = "\n".join(("Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", f"Summary: {project('description')}",
                          f"Requires-Python: {project('requires-python')}", ""))
    pure = "true" if tag.endswith("any") else "false"
    files = {**files, f"{info}/METADATA": metadata.encode(),
             f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: plait\nRoot-Is-Purelib: {pure}\nTag: {tag}\n".encode()}
    record = ""
    with zipfile.ZipFile(pathlib.Path(folder) / wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in files.items():
            content = content if isinstance(content, bytes) else content.read_bytes()
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record += f"{path},sha256={digest},{len(content)}\n"
            archive.writestr(path, content)
        archive.writestr(f"{info}/RECORD", record + f"{info}/RECORD,,\n")
    return wheel


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    prefix = (config_settings or {}).get("prefix")
    sources = {f"plait/{file.name}": file for file in sorted((HERE / "plait").glob("*.py"))}
    platform = re.sub(r"\W", "_", sysconfig.get_platform())
    return written(wheel_directory, f"py3-none-{platform}" if prefix else "py3-none-any", {**sources, **(of_library(prefix) if prefix else {})})


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    return written(wheel_directory, "py3-none-any", {"plait.pth": f"{HERE}\n".encode()})
