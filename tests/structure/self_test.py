"""Proves that check_structure.py can fail: plants each fault it claims to find in a small tree of its own."""

import pathlib
import sys
import tempfile

import check_structure

MODULES = "# a comment\nbase:\nprogram: base\nconfig: base\ndata: base\nobserve: base\nsession: base program config data observe\n"
TABLE = """
| module | contents | may use |
|---|---|---|
| `engine/base/` | errors | abi |
| `engine/program/` | graph | base |
| `engine/config/` | TOML | base |
| `engine/data/` | order | base |
| `engine/observe/` | metrics | base |
| `engine/session/` | the loop | all above |
"""

GOOD = {
    "abi/plait/base.h": "#include <stdint.h>\n",
    "abi/plait/plugin.h": "#include <plait/base.h>\n",
    "bindings/cpp/plait/plugin.hpp": "#include <plait/plugin.h>\n#include <string>\n",
    "bindings/cli/main.cpp": '#include "bindings/cli/verbs.hpp"\n#include <plait/base.h>\n#include <CLI/CLI.hpp>\n',
    "bindings/cli/verbs.hpp": "",
    "engine/modules.txt": MODULES,
    "ARCHITECTURE.md": TABLE + "## Glossary\n\n| word | meaning here |\n|---|---|\n" + "".join(f"| w{i} | is {i} |\n" for i in range(20)),
    "engine/base/error.hpp": "#include <plait/base.h>\n",
    "engine/config/config.hpp": '#include "engine/base/error.hpp"\n',
    "engine/session/loop.cpp": '#include "engine/config/config.hpp"\nconst char *help = "sgd is one"; // not "sgd"\n',
    "plugins/support/simd.hpp": "#include <plait/plugin.hpp>\n",
    "plugins/layers/dense/dense.cpp": '#include "plugins/support/simd.hpp"\nconst char *name = "linear";\n',
    "plugins/layers/norm/norm.hpp": "",
    "engine/base/thread.cpp": "std::thread start() { std::thread t; return t; }  // std::thread(f)\nauto n = std::thread::hardware_concurrency();\n",
    "engine/observe/progress.cpp": "void show() { ::write(STDERR_FILENO, line, n); }\n",
    "engine/base/own.cpp": 'void abort(int) noexcept;\nvoid End::abort() { group_.abort(); item->abort(1); snprintf(b, n, "exit(1)"); }  // exit(1)\n',
    "examples/embed_c/main.c": "#include <plait/base.h>\n",
    "abi/plait/OPS.md": "# Ops\n\n## matmul\n\nx * y\n",
    "engine/program/passes.cpp": 'bool f() { return name == "auto" || g.apply1("matmul", {a, b}); }  // name == "matmul"\n',
    "plugins/CMakeLists.txt": "# plugins/layers/dense is found\nfile(GLOB folders layers/*)\n",
    "tests/unit/base/x_test.cpp": '#include "engine/base/error.hpp"\n',
}

# path, content, words the fault must contain
PLANTED = [
    ("engine/base/up.hpp", '#include "engine/config/config.hpp"\n', "engine/base may not use engine/config"),
    ("engine/config/up.cpp", '\n\n#  include "engine/session/loop.hpp"\n', ":3: include engine/session/loop.hpp: no such"),
    ("engine/base/cpp.hpp", "#include <plait/plugin.hpp>\n", "engine/base may not use bindings/cpp"),
    ("engine/data/plug.cpp", '#include "plugins/support/simd.hpp"\n', "engine/data may not use plugins/support"),
    ("plugins/layers/dense/a.cpp", '#include "engine/base/error.hpp"\n', "plugins/layers/dense may not use engine/base"),
    ("plugins/layers/dense/b.cpp", '#include "plugins/layers/norm/norm.hpp"\n', "may not use plugins/layers/norm"),
    ("plugins/support/c.cpp", '#include "plugins/layers/norm/norm.hpp"\n', "plugins/support may not use"),
    ("bindings/cli/d.cpp", '#include "engine/base/error.hpp"\n', "bindings/cli may not use engine/base"),
    ("bindings/cpp/plait/e.hpp", '#include "engine/base/error.hpp"\n', "bindings/cpp may not use engine/base"),
    ("abi/plait/f.h", "#include <plait/plugin.hpp>\n", "abi may not use bindings/cpp"),
    ("abi/plait/g.h", "#include <stdio.h>\n", "abi may use C's own headers"),
    ("engine/base/h.cpp", '#include "error.hpp"\n', "write the path from the root"),
    ("engine/base/i.cpp", '#include "plait/base.h"\n', "not written as <plait/...>"),
    ("engine/base/wide.hpp", "// " + "é" * 97 + "\n// " + "é" * 98 + "\n", ":2: 101 columns; no line has more than 100"),
    ("abi/plait/wide.h", "/* " + "a" * 119 + " */\n", ":1: 125 columns; no line has more than 124"),
    ("engine/unknown/j.cpp", "", "module engine/unknown is unknown"),
    ("engine/k.cpp", "", "lies in no module"),
    ("engine/base/l.cpp", "int x;\n" * 801, "801 lines"),
    ("engine/base/m.cpp", '/* "sgd"\n */ f("adamw");\n', ':2: the engine names the plugin item "adamw"'),
    ("examples/embed_c/n.c", '#include "engine/base/error.hpp"\n', "an example stands on the installed package"),
    ("engine/data/config.cpp", '#include "engine/config/config.hpp"\n', "engine/data may not use engine/config"),
    ("engine/base/p.cpp", "void f() {\n  std::abort();\n}\n", ":2: abort ends the process"),
    ("engine/base/q.cpp", "void f() { if (bad) exit(1); }\n", "exit ends the process"),
    ("plugins/layers/dense/r.cpp", "void f() { assert (x > 0); }\n", "assert ends the process"),
    ("plugins/layers/dense/s.cpp", 'void f() { std::printf("%d", 1); }\n', "printf ends"),
    ("engine/base/t.cpp", "void f() { std::cerr << 1; }\n", "cerr ends the process or writes"),
    ("engine/base/u.cpp", "void f() { fputs(text, stderr); }\n", "fputs ends", 2),
    ("engine/base/v.cpp", "void f() { ::write(STDERR_FILENO, line, n); }\n", "STDERR_FILENO ends"),
    ("engine/observe/progress.cpp", "void show() {}\n", "may use STDERR_FILENO and doesn't"),
    ("kit/w.cpp", '#include "engine/base/error.hpp"\n', "kit may not use engine/base"),
    ("kit/x.cpp", "#include <plait/plugin.hpp>\n", "kit may not use bindings/cpp"),
    ("ARCHITECTURE.md", TABLE.replace("| order | base |", "| order | base, config |"), ":7: engine/data may use base by engine/modules.txt"),
    ("ARCHITECTURE.md", TABLE.replace("| `engine/observe/` | metrics | base |\n", ""), "engine/observe may use base by"),
    ("ARCHITECTURE.md", TABLE + "## Glossary\n\n| word | meaning here |\n|---|---|\n" + "".join(f"| w{i} | is {i} |\n" for i in range(21)),
     "a glossary of 21 words, expected at most 20"),
    ("engine/modules.txt", MODULES.replace("config: base", "config: base data"), "config may not use data, which is not below it", 2),
    ("engine/program/w.cpp", 'void f() {\n  if (op.name == "matmul") g();\n}\n', ':2: compares the name of an op with "matmul"'),
    ("plugins/support/x.cpp", 'bool f() { return desc.name != "matmul"; }\n', "compares the name of an op"),
    ("engine/base/y.cpp", 'auto f = "plugins/layers/dense/dense.cpp";\n', "names plugins/layers/dense; a plugin's folder is"),
    ("engine/base/z.cpp", "void f() {\n  t = std::thread([] {});\n}\n", ":2: starts a thread by itself"),
    ("plugins/support/x.cpp", "auto t = kit::start_thread(f);\n", "starts a thread by itself"),
    ("plugins/support/y.cpp", "auto f = std::async(g);  // std::thread(g)\n", "starts a thread by itself"),
    ("examples/README.md", "Text.\n[one](../abi/none.h)\n", ":2: links to ../abi/none.h, which does not exist"),
    ("README.md", '[a](mailto:a@b) `[](x)` [c](none.md "C")\n', ":1: links to none.md, which does not exist"),
    ("README.md", "# A\n```\n# b\n[](x)\n```\n[here](#b)\n", ":6: links to #b, which is no heading of README.md"),
    ("README.md", "# A guide\n[here](#a-guide) and [there](#b)\n", ":2: links to #b, which is no heading of README.md"),
    ("CMakeLists.txt", "add_subdirectory(plugins/layers/dense)\n", ":1: names plugins/layers/dense"),
    ("tests/conformance/o.cpp", '#include "engine/base/error.hpp"\n', "conformance knows only abi/"),
    ("tests/support/p.cpp", '#include "engine/base/error.hpp"\n', "conformance knows only abi/"),
]


def plant(root, files):
    for path, content in files:
        file = pathlib.Path(root, path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)


def lines_of(root):
    return [f"{path}:{line}: {what}" for path, line, what in check_structure.faults(root)]


def main():
    failures = []
    with tempfile.TemporaryDirectory() as root:
        plant(root, GOOD.items())
        failures += [f"a good tree is refused: {line}" for line in lines_of(root)]
    for path, content, words, *count in PLANTED:
        with tempfile.TemporaryDirectory() as root:
            plant(root, list(GOOD.items()) + [(path, content)])
            found = lines_of(root)
            if len(found) != (count or [1])[0] or not found[0].startswith(path + ":") or words not in found[0]:
                failures.append(f"planted in {path}: expected a fault with '{words}', found {found}")
    for failure in failures:
        print(failure)
    print(f"{len(PLANTED)} planted faults, {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
