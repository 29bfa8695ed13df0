"""Reads the public C headers as convention 4 and 6 of base.h promise them.

    tags.py ROOT                 prints a line per fault; exit 1 when there is any
    tags.py ROOT --self-test     proves that each fault is seen

Every function, callback and slot of a table has a tag [thread: ...; blocks: ...], in its own comment, in that of the declarations right
above it, or in that of its struct. Every call that returns an error must be looked at by its caller: PLAIT_MUST_USE.
"""

import pathlib
import re
import sys

THREADS = ("any", "owner", "plan", "compute")
PIECE = re.compile(r"/\*(?P<comment>.*?)\*/|(?P<gap>\n[ \t]*(?=\n))|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*|(?P<code>[{};]|[^\s{};/]+|/)", re.S | re.M)
TAG = re.compile(r"\[thread: (\w+)[^;\]]*; blocks: [^\]]*\w[^\]]*\]")
LIKE_A_TAG = re.compile(r"\[ ?(?:thread|blocks)\b[^\]]*\]")
FUNCTION = re.compile(r"(?:\bPLAIT_CALL |\(PLAIT_CALL \*)(\w+)")
CONVENTION = "[thread: ...; blocks: ...]"  # as base.h writes of it


def tag_of(comment):
    """The tag of a comment, None without one; what looks like one and is none, as a list."""
    text = re.sub(r"\s*\n[ *]*", " ", comment)
    tag = TAG.search(text)
    wrong = [t for t in LIKE_A_TAG.findall(text)
             if t != CONVENTION and not (TAG.fullmatch(t) and TAG.fullmatch(t)[1] in THREADS)]
    return tag and tag[0], wrong


def declarations(text):
    """(line, statement, tag) of each declaration; of a struct with its members, each of those."""
    text = re.sub(r"#ifdef __cplusplus\n.*?#endif", "", text, flags=re.S)
    tag, of_struct, words, depth = None, None, [], 0
    for piece in PIECE.finditer(text):
        line = text.count("\n", 0, piece.start()) + 1
        if piece["comment"] is not None:
            if not text[:piece.start()].rpartition("\n")[2].strip():  # not one behind a member
                tag, wrong = tag_of(piece["comment"])
                yield from ((line, "wrong tag", w) for w in wrong)
        elif piece["gap"] is not None:
            tag = None
        elif piece["code"] == "{":
            of_struct, words, depth = tag, [], depth + 1
        elif piece["code"] == "}":
            words, depth = [], depth - 1
        elif piece["code"] == ";":
            yield line, " ".join(words), tag or (of_struct if depth else None)
            words = []
        elif piece["code"]:
            words.append(piece["code"])


def faults(root):
    seen = 0
    for header in sorted(pathlib.Path(root, "abi/plait").glob("*.h")):
        for line, statement, tag in declarations(header.read_text()):
            where = f"{header.name}:{line}: "
            if statement == "wrong tag":
                yield where + f"{tag} is no tag; write [thread: {'|'.join(THREADS)}; blocks: no|yes|on ...]"
                continue
            name = FUNCTION.search(statement)
            if not name:
                continue
            seen += 1
            if not tag:
                yield where + f"{name[1]} has no tag; say [thread: ...; blocks: ...] in its comment (base.h, convention 6)"
            if re.match(r"(?:PLAIT_API )?plait_error \*", statement):
                yield where + f"{name[1]} returns an error that its caller may ignore; put PLAIT_MUST_USE before it"
    if seen < 100:
        yield f"only {seen} functions found; this script reads the headers wrongly"


# header, text, what replaces it, words of the message
BREAKS = [
    ("plait.h", "Safe in a signal handler. [thread: any; blocks: no] */", "Safe in a signal handler. */", "plait_session_cancel has no tag"),
    ("plait.h", "Safe in a signal handler. [thread: any; blocks: no] */", "Safe in a signal handler. [thread: any] */", "[thread: any] is no tag"),
    ("plait.h", "[thread: owner; blocks: no] */\nPLAIT_API uint32_t PLAIT_CALL plait_error_code",
     "[thread: owner; blocks: no] */\n\nPLAIT_API uint32_t PLAIT_CALL plait_error_code", "plait_error_code has no tag"),
    ("plait.h", "PLAIT_MUST_USE plait_error *PLAIT_CALL plait_session_save(", "plait_error *PLAIT_CALL plait_session_save(",
     "plait_session_save returns an error that its caller may ignore"),
    ("option.h", "[thread: plan; blocks: no]", "", "get_bool has no tag"),
    ("option.h", "PLAIT_MUST_USE plait_error *(PLAIT_CALL *get_texts)", "plait_error *(PLAIT_CALL *get_texts)", "get_texts returns an error"),
    ("layer.h", "Pure. [thread: any; blocks: no] */", "Pure. [thread: some; blocks: no] */", "[thread: some; blocks: no] is no tag"),
    ("device.h", "void(PLAIT_CALL *graph_close)", "\n  void(PLAIT_CALL *graph_close)", "graph_close has no tag"),
    ("tensor.h", "  void(PLAIT_CALL *deleter)", "  /* Frees. */\n  void(PLAIT_CALL *deleter)", "deleter has no tag"),
]


def self_test(root):
    import shutil
    import tempfile
    with tempfile.TemporaryDirectory() as copy:
        shutil.copytree(pathlib.Path(root, "abi"), pathlib.Path(copy, "abi"))
        for header, old, new, words in BREAKS:
            file = pathlib.Path(copy, "abi/plait", header)
            text = file.read_text()
            assert old in text, f"{header} has no: {old}"
            file.write_text(text.replace(old, new, 1))
            found = list(faults(copy))
            if not any(words in fault for fault in found):
                yield f"`{words}` expected with `{new}`, found {found}"
            file.write_text(text)


def main(root, what=faults):
    found = list(what(root))
    print("\n".join(found) if found else f"{what.__name__}: none")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], self_test if "--self-test" in sys.argv[2:] else faults))
