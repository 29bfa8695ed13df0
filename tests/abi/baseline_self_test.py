"""Proves that baseline.py can fail: breaks a copy of the headers in each way it claims to see.

    baseline_self_test.py ROOT
"""

import contextlib
import io
import pathlib
import re
import shutil
import sys
import tempfile

import baseline

# header, old text, new text, words the message must contain
BREAKS = [
    ("session.h", "  int64_t step;       /* from 1 */\n  int64_t epoch;      /* from 0 */\n",
     "  int64_t epoch;\n  int64_t step;\n", "`struct plait_step_result 1 int64_t step` is now `struct plait_step_result 1 int64_t epoch`"),
    ("session.h", "  double grad_norm; ", "  float grad_norm; ", "is now `struct plait_step_result 5 float grad_norm`"),
    ("session.h", "  int64_t samples;    /* number", "  int64_t more;\n  int64_t samples;    /* number", "is now `struct plait_step_result 3 int64_t more`"),
    ("session.h", "  uint32_t finished; ", "  uint32_t ended; ", "uint32_t finished` is now `struct plait_step_result 9 uint32_t ended`"),
    ("base.h", "#define PLAIT_ERR_MEMORY 8u ", "#define PLAIT_ERR_MEMORY 15u ", "`constant PLAIT_ERR_MEMORY 8u` is now `constant PLAIT_ERR_MEMORY 15u`"),
    ("base.h", "#define PLAIT_LOG_ERROR 3u", "", "`constant PLAIT_LOG_ERROR 3u` is gone"),
    ("session.h", "plait_session_save(plait_session *session, const char *path);", "plait_session_save(plait_session *session, const char *path, uint64_t size);",
     "is now `function plait_error *PLAIT_CALL plait_session_save(plait_session *, const char *, uint64_t)`"),
    ("engine.h", "uint32_t PLAIT_CALL plait_error_code(", "uint64_t PLAIT_CALL plait_error_code(", "is now `function uint64_t PLAIT_CALL plait_error_code("),
    ("engine.h", "PLAIT_API const char *PLAIT_CALL plait_version(void);", "", "plait_version(void)` is gone"),
    ("plugin.h", "(uint32_t code, const char *text, uint64_t size, plait_error *cause);", "(uint32_t code, const char *text, plait_error *cause);",
     "is now `struct plait_host 3 plait_error *(PLAIT_CALL *error_new)(uint32_t, const char *, plait_error *)`"),
    ("build.h", "typedef uint32_t plait_value;", "typedef uint64_t plait_value;", "is now `type typedef uint64_t plait_value`"),
    ("tensor.h", "#define PLAIT_MAX_NDIM 8", "#define PLAIT_MAX_NDIM 9", "PLAIT_MAX_NDIM"),
    ("dataset.h", "  plait_shape shape;", "  plait_shape shape;\n  uint64_t more;", "does not begin with struct_size and so never grows"),
]
GROWTH = ("session.h", "\n} plait_step_result;", "\n  uint64_t more;\n} plait_step_result;", "`struct plait_step_result 20 uint64_t more` is not in baseline_v1.txt")
NO_CHANGE = [
    ("session.h", "plait_session_save(plait_session *session, const char *path);", "plait_session_save(plait_session  *s,\n const char *where);"),
    ("base.h", "/* Log levels. */", "/* How loud. */"),
    ("engine.h", "typedef struct plait_engine plait_engine;\n", "typedef struct plait_engine  plait_engine; // the engine\n"),
]


def outcome(root, *, update=False):
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        status = baseline.main(root, update)
    return status, said.getvalue()


@contextlib.contextmanager
def changed(root, header, old, new):
    file = pathlib.Path(root, "abi/plait", header)
    text = file.read_text()
    pattern = r"\s+".join(re.escape(word) for word in re.split(r"\s+", old))  # however the header is laid out
    replaced, times = re.subn(pattern, lambda _: new, text)
    assert times == 1, f"{header} has {times} times: {old}"
    file.write_text(replaced)
    yield
    file.write_text(text)


def expect(status, words, found, what):
    if found[0] != status or words not in found[1]:
        sys.exit(f"{what}: expected status {status} and `{words}`, found status {found[0]} and:\n{found[1]}")


def test(root):
    expect(0, "as shipped", outcome(root), "the tree as it is")
    for header, old, new in NO_CHANGE:
        with changed(root, header, old, new):
            expect(0, "as shipped", outcome(root), new)
    for header, old, new, words in BREAKS:
        with changed(root, header, old, new):
            expect(1, words, outcome(root), new)
            expect(1, words, outcome(root, update=True), "--update with " + new)
    expect(0, "as shipped", outcome(root), "after putting everything back")

    draft = pathlib.Path(root, "abi/plait/draft.h")
    draft.write_text("#define PLAIT_DRAFT 1u\n")
    expect(1, "`constant PLAIT_DRAFT 1u` is not in baseline_v1.txt", outcome(root), "a header nobody has recorded")
    shipped = pathlib.Path(root, "tests/abi/baseline_v1.txt")
    text = shipped.read_text()
    shipped.write_text(text + "draft draft.h\n")
    expect(0, "as shipped", outcome(root), "a draft")
    shipped.write_text(text)
    draft.unlink()

    with changed(root, *GROWTH[:3]):
        expect(1, GROWTH[3], outcome(root), "growth")
        expect(1, "plait_step_result.more has no AT line", outcome(root, update=True), "recorded growth without a layout")
        layout = pathlib.Path(root, "tests/abi/layout_v1.c")
        layout.write_text(layout.read_text() + "AT(plait_step_result, more, 168);\n")
        expect(0, "as shipped", outcome(root), "recorded growth")
    expect(1, "`struct plait_step_result 20 uint64_t more` is gone", outcome(root), "growth taken back")

    # A new ABI number starts a list of its own, for which anything goes.
    with changed(root, "base.h", "#define PLAIT_ABI_VERSION 1", "#define PLAIT_ABI_VERSION 2"):
        expect(1, "is not in baseline_v2.txt", outcome(root), "a new ABI")
        expect(0, "ABI 2", outcome(root, update=True), "a new ABI, recorded")

    exports = pathlib.Path(root, "abi/exports.txt")
    exports.write_text(exports.read_text().replace("plait_version\n", "") + "plait_other\n")
    expect(1, "plait_version is declared but not in abi/exports.txt", outcome(root), "an export forgotten")
    expect(1, "plait_other is not declared but in abi/exports.txt", outcome(root), "an export too many")
    print(f"{len(BREAKS)} breaks, all seen")


def main(source):
    with tempfile.TemporaryDirectory() as root:
        shutil.copytree(pathlib.Path(source, "abi"), pathlib.Path(root, "abi"))
        pathlib.Path(root, "tests/abi").mkdir(parents=True)
        for file in pathlib.Path(source, "tests/abi").glob("*_v*.*"):
            shutil.copy(file, pathlib.Path(root, "tests/abi"))
        for line in pathlib.Path(root, "tests/abi/baseline_v1.txt").read_text().splitlines():
            if line.startswith("draft "):  # what happens to come next is no part of this test
                pathlib.Path(root, "abi/plait", line.split()[1]).unlink(missing_ok=True)
        test(root)


if __name__ == "__main__":
    main(sys.argv[1])
