"""Compares the public C headers with the ABI as it was shipped.

    baseline.py ROOT             prints a line per difference; exit 1 when there is any
    baseline.py ROOT --update    records what has been added; refuses while anything shipped has changed

tests/abi/baseline_v<N>.txt lists ABI N as one line per constant, type, struct member and function. A line that is gone is a broken
promise: either put it back, or raise PLAIT_ABI_VERSION (and then the entry symbol and the SONAME, too). A new line is growth, and is
recorded with --update; only structs that begin with struct_size may grow. Parameter names and comments are no part of the ABI.
`draft NAME.h` in the list says of a header that nobody may rely on it yet; take the line out and record the header when it is done.
"""

import pathlib
import re
import sys

ATTRIBUTES = {"PLAIT_API", "PLAIT_MUST_USE", "PLAIT_EXPORT"}
OF_THE_BUILD = ATTRIBUTES | {"PLAIT_CALL", "PLAIT_SANITIZER"}  # other values elsewhere
TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[A-Za-z_]\w*|\d\w*|[^\s\w]')
CONSTANT = re.compile(r"#define (\w+) (.+)")
QUALIFIERS = {"const", "struct", "volatile"}


def stripped(text):
    """Without comments, joined continuation lines, and what only C++ sees."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.S).replace("\\\n", " ")
    return re.sub(r"#ifdef __cplusplus\n.*?#endif", "", text, flags=re.S)


def joined(tokens):
    """Tokens as C is usually written, so that the way a header is wrapped does not matter."""
    text = " ".join(t for t in tokens if t not in ATTRIBUTES)
    text = re.sub(r"\* (?=[\w*])", "*", text)
    text = re.sub(r" ?([(\[]) ?", r"\1", text)
    return re.sub(r" ([),;\]])", r"\1", text)


def without_names(tokens):
    """A parameter list without names, which are not part of the ABI. No parameter is a function."""
    parameters, current = [], []
    for t in tokens + [","]:
        if t != ",":
            current.append(t)
            continue
        if len(current) > 1 and current[-1].isidentifier() and not set(current[:-1]) <= QUALIFIERS:
            current.pop()
        parameters.append(joined(current))
        current = []
    return ", ".join(parameters)


def declaration(tokens):
    """A member, typedef or function as one line; the last parenthesis of a function holds its parameters."""
    if tokens[-1] != ")":
        return joined(tokens)
    depth, at = 0, len(tokens) - 1
    for at in range(len(tokens) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(tokens[at], 0)
        if depth == 0:
            break
    return joined(tokens[:at]) + "(" + without_names(tokens[at + 1:-1]) + ")"


def constants(text):
    for name, value in CONSTANT.findall(text):
        if name not in OF_THE_BUILD and "(" not in value:
            yield f"constant {name} {joined(TOKEN.findall(value))}"


def statements(text):
    """Each statement outside of braces, as tokens."""
    depth, current = 0, []
    for t in TOKEN.findall(re.sub(r"(?m)^\s*#.*$", "", text)):
        depth += {"{": 1, "}": -1}.get(t, 0)
        if t == ";" and depth == 0:
            yield current
            current = []
        else:
            current.append(t)


def described(tokens):
    if "{" not in tokens:
        kind = "type" if tokens[0] in ("typedef", "struct") else "function"
        yield f"{kind} {declaration(tokens)}"
        return
    name = tokens[tokens.index("struct") + 1]
    members = tokens[tokens.index("{") + 1:len(tokens) - tokens[::-1].index("}") - 1]
    index, current = 0, []
    for t in members:
        if t != ";":
            current.append(t)
            continue
        yield f"struct {name} {index} {declaration(current)}"
        index, current = index + 1, []


def abi_of(root, drafts=()):
    lines = []
    for header in sorted(pathlib.Path(root, "abi/plait").glob("*.h")):
        if header.name in drafts:
            continue
        text = stripped(header.read_text())
        lines += constants(text)
        for statement in statements(text):
            lines += described(statement)
    return lines


def thing(line):
    """The subject of a line: a changed line and its successor have the same subject."""
    words = line.split()
    if words[0] == "struct":
        return " ".join(words[:3])
    if words[0] == "constant":
        return " ".join(words[:2])
    return re.search(r"(plait_\w+)\)?\s*(?:\(|$)", line)[1] if "(" in line else words[-1]


def version_of(lines):
    return next(line.split()[2] for line in lines if line.startswith("constant PLAIT_ABI_VERSION "))


def grows_rightly(line, old):
    words = line.split()
    if words[0] != "struct":
        return True
    first = f"struct {words[1]} 0 "
    shipped = [o for o in old if o.startswith(first)]
    return not shipped or shipped[0] == first + "size_t struct_size"


def differences(old, new, version):
    """(broken, grown): lists of messages, and of lines."""
    current = {thing(line): line for line in new}
    broken = []
    for line in old:
        if line in new:
            continue
        now = current.get(thing(line))
        broken.append(f"ABI {version} has changed: `{line}` " + (f"is now `{now}`" if now else "is gone") +
                      "; put it back, or raise PLAIT_ABI_VERSION")
    things = {thing(line) for line in old}
    grown = [line for line in new if line not in old and thing(line) not in things]
    broken += [f"`{line}` is new in a struct that does not begin with struct_size and so never grows; make a new struct"
               for line in grown if not grows_rightly(line, old)]
    return broken, grown


def layout_faults(root, lines):
    """Every struct and member must be asserted in a layout file, or a moved member would go unseen by the compiler."""
    asserted = "".join(path.read_text() for path in pathlib.Path(root, "tests/abi").glob("layout_v*.c"))
    for line in lines:
        if not line.startswith("struct "):
            continue
        _, struct, index, rest = line.split(None, 3)
        pointer = re.search(r"\*(\w+)\)\(", rest)
        member = pointer[1] if pointer else re.sub(r"\[.*", "", rest).split()[-1].lstrip("*")
        if f"AT({struct}, {member}," not in asserted:
            yield f"{struct}.{member} has no AT line in tests/abi/layout_v*.c; add one"
        if index == "0" and not re.search(rf"(SIZE|AT_LEAST)\({struct},", asserted):
            yield f"{struct} has no SIZE line in tests/abi/layout_v*.c; add one"


def export_faults(root, lines):
    declared = {thing(line) for line in lines if line.startswith("function ")}
    file = pathlib.Path(root, "abi/exports.txt")
    listed = {line for line in file.read_text().splitlines() if line and not line.startswith("#")}
    for name in sorted(declared ^ listed):
        yield f"{name} is {'declared but not in' if name in declared else 'not declared but in'} abi/exports.txt; make them agree"


def main(root, update=False):
    version = version_of(abi_of(root))
    file = pathlib.Path(root, f"tests/abi/baseline_v{version}.txt")
    listed = file.read_text().splitlines() if file.exists() else []
    drafts = [line for line in listed if line.startswith("draft ")]
    old = [line for line in listed if line and line[0] != "#" and line not in drafts]
    new = abi_of(root, {line.split()[1] for line in drafts})
    broken, grown = differences(old, new, version)
    if update and not broken:
        head = f"# ABI {version}, as shipped. Written by tests/abi/baseline.py --update; lines are only ever added.\n"
        file.write_text(head + "".join(line + "\n" for line in drafts + new))
        grown = []
    faults = broken + [f"`{line}` is not in {file.name}; if it is meant to be public, record it: baseline.py ROOT --update"
                       for line in grown]
    faults += list(layout_faults(root, new)) + list(export_faults(root, new))
    print("\n".join(faults) if faults else f"ABI {version}: {len(new)} lines, as shipped")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], "--update" in sys.argv[2:]))
