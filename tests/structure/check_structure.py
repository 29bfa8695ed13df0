"""Reads the tree as text and fails where a rule of the structure is broken.

    check_structure.py ROOT     prints one line per fault, file:line first; exit 1 when there is any

1. Includes go downward only: engine/modules.txt and MAY_INCLUDE say which module may use which, and the table in ARCHITECTURE.md says
   the same as engine/modules.txt.
2. No source file is longer than 800 lines; no line of C or C++ is wider than 100 columns, in abi/plait/ 124.
3. engine/ names no item of a plugin: the engine knows layers, optimizers, devices only through tables.
4. engine/ and plugins/ end no process and print nothing: errors are returned, lines go to the host's log.
5. No code compares the name of a core op (the headings of abi/plait/OPS.md): it asks a property of the definition.
6. A plugin's folder is named nowhere else, neither in sources nor in CMake: the folder is the registration, as CONTRIBUTING.md says.
7. The glossary of ARCHITECTURE.md has at most 20 words: a reader learns them all first.
8. A link of a page (*.md) names a file of the tree, and a heading where it has a "#".
"""

import pathlib
import re
import sys

KIND_FOLDERS = ("devices", "layers", "optimizers", "schedules", "data", "tokenizers", "formats", "metrics", "comm", "peft")
PLUGIN_MAY = ("abi", "bindings/cpp", "kit", "plugins/support")

# module -> modules it may include, besides itself. Order is from the lowest layer up; an include of a higher layer is a fault.
MAY_INCLUDE = {
    "abi": (),
    "kit": ("abi",),
    "bindings/cpp": ("abi",),
    "plugins/support": ("abi", "bindings/cpp", "kit"),
    "bindings/cli": ("abi", "bindings/cpp", "kit"),
    "bindings/python": ("abi", "bindings/cpp"),
    "bindings/rust": ("abi", "bindings/cpp"),
}

# Names of items that live in plugins and mean nothing else inside the engine.
ITEMS = {
    "linear", "attention", "decoder_block", "mlp", "transformer", "embedding_layer", "sgd", "adam", "adamw", "rmsprop", "adagrad", "lion", "muon", "adafactor", "lamb", "lora",
    "dora", "cpu", "cuda", "reference", "onednn", "gloo", "nccl", "shm", "idx", "csv", "npy", "synthetic", "accuracy",
    "perplexity", "cosine", "inverse_sqrt", "mnist",
}

# What ends the process or writes to streams that are the host's, as code calls it. A name behind a dot or an arrow is a member of ours.
BANNED = re.compile(r"(?<![\w.>])(?:(?:std)?::)?(abort|_?exit|_Exit|quick_exit|terminate|raise|assert|printf|fprintf|vprintf|vfprintf|"
                    r"dprintf|puts|fputs|putchar|putc|fputc|fwrite|perror|__builtin_trap)\s*\(|\b(stdout|stderr|STDOUT_FILENO|STDERR_FILENO)\b|"
                    r"\bstd::(cout|cerr|clog)\b")
DEFINED = re.compile(r"\b(?:void|bool|auto|int)\s+(?:\w+::)?$")  # before a name: that is where one of ours is declared

# file, name -> why it may
ALLOWED = {
    ("engine/observe/progress.cpp", "STDERR_FILENO"): "the progress line, which the host asks for with plait_session_options.progress",
    ("engine/config/problem.hpp", "raise"): "Problems::raise() throws",
}

SOURCES = {".c", ".cc", ".cpp", ".h", ".hpp", ".cu", ".cuh", ".inc"}
LONGEST = 800
WIDEST = {".c": 100, ".h": 100, ".cpp": 100, ".hpp": 100}  # what clang-format leaves as it is: comments and long strings
MOST_WORDS = 20
COMPARED = re.compile(r'\bname\s*[!=]=\s*"(\w+)"')
PLUGIN_FOLDER = re.compile(rf"\bplugins/(?:{'|'.join(KIND_FOLDERS)})/\w+")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
# Not std::thread::x, std::thread& and declarations without a call. That of the kit throws a std::system_error.
THREAD = re.compile(r"std::thread\s*[({]|std::jthread\b|std::async\b|\bpthread_create\b|\bkit::start_thread\b")
THREAD_ERRORS = ("engine/base/thread.cpp", "plugins/support/thread.hpp", "plugins/devices/cpu/thread_limit.cpp")  # these make an error of it
STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
TREES = ("abi", "kit", "bindings", "engine", "plugins", "tests", "examples", "tools")


def module_of(path):
    """The module a file of the tree (relative, with '/') belongs to, or None where no rule applies."""
    parts = path.split("/")
    if parts[0] in ("abi", "kit"):
        return parts[0]
    if parts[0] == "plugins" and len(parts) > 3 and parts[1] in KIND_FOLDERS:
        return "/".join(parts[:3])
    if parts[0] in ("plugins", "engine", "bindings") and len(parts) > 2:
        return "/".join(parts[:2])
    return None


def engine_modules(root):
    """{module: modules it may use} of engine/modules.txt, from the lowest layer up."""
    lines = (root / "engine/modules.txt").read_text().split("\n")
    pairs = (line.split(":") for line in lines if line and not line.startswith("#"))
    return {name: tuple(uses.split()) for name, uses in pairs}


def module_list_faults(root):
    """Modules that use one above them, and rows of the table in ARCHITECTURE.md that say something else."""
    text, below = (root / "ARCHITECTURE.md").read_text(), []
    for name, uses in engine_modules(root).items():
        for above in sorted(set(uses) - set(below)):
            yield "engine/modules.txt", 1, f"{name} may not use {above}, which is not below it"
        row = re.search(rf"^\| `engine/{name}/` \|[^\n]*\| ([^|\n]*) \|$", text, re.M)
        said = set(below) if row and row[1] == "all above" else set(row[1].split(", ")) - {"abi", "kit"} if row else None
        if said != set(uses):
            line = text.count("\n", 0, row.start()) + 1 if row else 1
            yield "ARCHITECTURE.md", line, f"engine/{name} may use {', '.join(uses) or 'abi'} by engine/modules.txt, expected the same here"
        below.append(name)


def glossary_faults(root):
    text = (root / "ARCHITECTURE.md").read_text()
    section = re.search(r"^## Glossary\n(.*?)(?=^## |\Z)", text, re.M | re.S)
    rows = re.findall(r"^\| (?!word \|)[^|\n]+ \|", section[1], re.M) if section else []
    if len(rows) > MOST_WORDS:
        yield "ARCHITECTURE.md", text.count("\n", 0, section.start()) + 1, f"a glossary of {len(rows)} words, expected at most {MOST_WORDS}"


def allowed(root, module):
    """Modules that `module` may include, itself among them; None when nobody has said what it may use."""
    if module.startswith("engine/"):
        may = engine_modules(root).get(module.removeprefix("engine/"))
        return may if may is None else tuple("engine/" + name for name in may) + ("abi", "kit", module)
    if module in MAY_INCLUDE:
        return MAY_INCLUDE[module] + (module,)
    if module.startswith("plugins/"):
        # A header directly in the folder of a plugin kind serves the plugins of that kind alone.
        kind_folder = "/".join(module.split("/")[:2])
        return PLUGIN_MAY + (kind_folder, module)
    return None


def target_of(root, form, name):
    """The module that an include leads to; None for a foreign header; a text in a list when it leads nowhere good."""
    if name.startswith("plait/"):
        if (root / "abi" / name).exists() and form == "<":
            return "abi"
        if (root / "bindings/cpp" / name).exists() and form == "<":
            return "bindings/cpp"
        return ["no such header under abi/ or bindings/cpp/, or not written as <plait/...>"]
    if form == "<":
        return None
    module = module_of(name)
    if (root / name).exists() and module is not None:
        return module
    if name.split("/")[0] in TREES and (root / name).exists():
        return ["leads out of the modules"]
    return ["no such file; write the path from the root of the tree"]


def include_faults(root, path, lines):
    module = module_of(path)
    if module is None:
        if path.split("/")[0] in ("abi", "bindings", "engine", "plugins"):
            yield 1, "lies in no module; move it into one"
        return
    may = allowed(root, module)
    if may is None:
        yield 1, f"module {module} is unknown; say in engine/modules.txt or tests/structure/check_structure.py what it may use"
        return
    for number, line in enumerate(lines, 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        target = target_of(root, match[1], match[2])
        if isinstance(target, list):
            yield number, f"include {match[2]}: {target[0]}"
        elif target is not None and target not in may:
            yield number, f"{module} may not use {target} (include {match[2]}); it may use: {', '.join(may)}"
        elif module == "abi" and target is None and match[2] not in ("stddef.h", "stdint.h", "stdbool.h"):
            yield number, f"abi may use C's own headers and its own only, found {match[2]}"


def example_faults(lines):
    for number, line in enumerate(lines, 1):
        match = INCLUDE.match(line)
        if match and match[2].split("/")[0] in ("engine", "plugins", "kit", "abi", "bindings"):
            yield number, f"an example stands on the installed package alone, found {match[2]}"


def conformance_faults(lines):
    for number, line in enumerate(lines, 1):
        match = INCLUDE.match(line)
        if match and match[2].split("/")[0] in ("engine", "plugins") and not match[2].startswith("plugins/support/"):
            yield number, f"conformance knows only abi/, kit/ and the number formats in plugins/support/, found {match[2]}"


def without_comments(text):
    """The text with comments blanked, line numbers kept. Strings stay."""
    pattern = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"', re.S)
    return pattern.sub(lambda m: m[0] if m[0].startswith('"') else re.sub(r"[^\n]", " ", m[0]), text)


def name_faults(text):
    for number, line in enumerate(without_comments(text).split("\n"), 1):
        if INCLUDE.match(line):
            continue
        for literal in STRING.findall(line):
            if literal in ITEMS:
                yield number, f'the engine names the plugin item "{literal}"; let the item declare what is needed'


def call_faults(path, text):
    for number, line in enumerate(without_comments(text).split("\n"), 1):
        line = STRING.sub('""', line)
        for match in BANNED.finditer(line):
            name = match[1] or match[2] or match[3]
            if DEFINED.search(line[:match.start()]) or (path, name) in ALLOWED:
                continue
            yield number, f"{name} ends the process or writes to the host's streams; return an error, or log"


def thread_faults(path, text):
    if path in THREAD_ERRORS:
        text = text.replace("kit::start_thread", "start_thread")
    for number, line in enumerate(without_comments(text).split("\n"), 1):
        if THREAD.search(STRING.sub('""', line)):
            yield number, "starts a thread by itself; call start_thread(), whose error names part and limits"


def core_ops(root):
    page = root / "abi/plait/OPS.md"
    return set(re.findall(r"^## (\w+)$", page.read_text(), re.M)) if page.exists() else set()


def comparison_faults(text, ops):
    for number, line in enumerate(without_comments(text).split("\n"), 1):
        for name in COMPARED.findall(line):
            if name in ops:
                yield number, f'compares the name of an op with "{name}"; ask a property of its definition (OpDef)'


def registration_faults(path, text):
    for number, line in enumerate(text.split("\n"), 1):
        if INCLUDE.match(line):
            continue  # rule 1 has these
        for folder in PLUGIN_FOLDER.findall(line):
            if not path.startswith(folder + "/"):
                yield number, f"names {folder}; a plugin's folder is its registration, nothing else names it"


def cmake_files(root):
    yield root / "CMakeLists.txt"
    for tree in ("cmake", "kit", "bindings", "engine", "plugins"):
        yield from sorted((root / tree).rglob("CMakeLists.txt"))
        yield from sorted((root / tree).rglob("*.cmake"))


LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]+))?(?:\s+\"[^\"]*\")?\)")
CODE = re.compile(r"^ *```.*?^ *```|`[^`\n]*`", re.M | re.S)


def without_code(page):
    return CODE.sub(lambda code: "\n" * code[0].count("\n"), page.read_text())


def anchors(page):
    """The names of a page's headings, as a forge makes them."""
    headings = re.findall(r"^#+ (.*)$", without_code(page), re.M)
    return {re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in headings}


def link_faults(root):
    pages = [page for where in ("*.md", *(f"{tree}/**/*.md" for tree in TREES)) for page in sorted(root.glob(where))]
    for page in pages:
        for number, line in enumerate(without_code(page).split("\n"), 1):
            for path, anchor in LINK.findall(line):
                target = page.parent / path if path else page
                if not target.exists():
                    yield page.relative_to(root).as_posix(), number, f"links to {path}, which does not exist"
                elif anchor and anchor not in anchors(target):
                    yield page.relative_to(root).as_posix(), number, f"links to #{anchor}, which is no heading of {target.name}"


def unused_permissions(root):
    for path, name in ALLOWED:
        file = root / path
        if file.exists() and not re.search(rf"\b{name}\b", without_comments(file.read_text())):
            yield path, 1, f"may use {name} and doesn't; take that out of ALLOWED"


def faults(root):
    root = pathlib.Path(root)
    ops = core_ops(root)
    for file in cmake_files(root):
        if file.exists():
            path = file.relative_to(root).as_posix()
            for number, what in registration_faults(path, re.sub(r"#[^\n]*", "", file.read_text())):
                yield path, number, what
    for tree in TREES:
        for file in sorted((root / tree).rglob("*")):
            if file.suffix not in SOURCES or not file.is_file():
                continue
            path = file.relative_to(root).as_posix()
            text = file.read_text(encoding="utf-8", errors="replace")
            lines = text.split("\n")
            if len(lines) - 1 > LONGEST:
                yield path, LONGEST + 1, f"{len(lines) - 1} lines; no file has more than {LONGEST}: find its two ideas"
            widest = 124 if path.startswith("abi/plait/") else WIDEST.get(file.suffix, 1000)
            for number, line in enumerate(lines, 1):
                if len(line) > widest:
                    yield path, number, f"{len(line)} columns; no line has more than {widest}: wrap it"
            found = []
            if tree == "examples":
                found += example_faults(lines)
            elif path.startswith(("tests/conformance/", "tests/support/")):
                found += conformance_faults(lines)
            elif tree not in ("tests", "tools"):
                found += include_faults(root, path, lines)
            if tree == "engine":
                found += name_faults(text)
            if tree in ("engine", "kit", "plugins"):
                found += call_faults(path, text)
                found += comparison_faults(text, ops)
            if tree in ("engine", "plugins"):
                found += thread_faults(path, text)
            if tree in ("engine", "kit", "plugins", "bindings"):
                found += registration_faults(path, without_comments(text))
            for number, what in found:
                yield path, number, what
    yield from unused_permissions(root)
    yield from module_list_faults(root)
    yield from glossary_faults(root)
    yield from link_faults(root)


def main():
    if len(sys.argv) != 2 or not pathlib.Path(sys.argv[1], "abi").is_dir():
        print("usage: check_structure.py ROOT (a checkout)", file=sys.stderr)
        return 2
    count = 0
    for path, line, what in faults(sys.argv[1]):
        print(f"{path}:{line}: {what}")
        count += 1
    print(f"{count} faults")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
