"""Checks that the public C headers follow conventions 4 and 6 of base.h.

    tags.py ROOT                 prints one line per fault; exits with 1 if there is any
    tags.py ROOT --self-test     proves that each kind of fault is found

Every function, callback and slot of a table has a tag [thread: ...; blocks: ...]: in its own comment, in
that of the declarations right above it, or in that of its struct. A function that returns an error has
PLAIT_MUST_USE, and `Errors:` with at least one code of base.h: in its own comment, or in that of its
struct. (Headers in UNEXPLAINED lack the latter.)
"""

import pathlib
import re
import sys

THREADS = ("any", "owner", "plan", "compute")
PIECE = re.compile(r"/\*(?P<comment>.*?)\*/|(?P<gap>\n[ \t]*(?=\n))|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*|(?P<code>[{};]|[^\s{};/]+|/)", re.S | re.M)
TAG = re.compile(r"\[thread: (\w+)[^;\]]*; blocks: [^\]]*\w[^\]]*\]")
LIKE_A_TAG = re.compile(r"\[ ?(?:thread|blocks)\b[^\]]*\]")
FUNCTION = re.compile(r"(?:\bPLAIT_CALL |\(PLAIT_CALL \*)(\w+)")
CONVENTION = "[thread: ...; blocks: ...]"  # as base.h describes it
UNEXPLAINED = ("optimizer.h",)
ERRORS = re.compile(r"\bErrors: (.*)", re.S)
CODE = re.compile(r"\bPLAIT_ERR_\w+")


def tag_of(comment):
    """The tag of a comment or None, and a list of texts that look like a tag but are malformed."""
    text = re.sub(r"\s*\n[ *]*", " ", comment)
    tag = TAG.search(text)
    wrong = [t for t in LIKE_A_TAG.findall(text)
             if t != CONVENTION and not (TAG.fullmatch(t) and TAG.fullmatch(t)[1] in THREADS)]
    return tag and tag[0], wrong


def codes_of(comment):
    """The codes that the comment names after `Errors:`; None without that word."""
    errors = ERRORS.search(comment)
    return errors and CODE.findall(errors[1])


def declarations(text):
    """(line, statement, tag) of each declaration; a struct includes its members, which also follow one by one."""
    text = re.sub(r"#ifdef __cplusplus\n.*?#endif", "", text, flags=re.S)
    tag, tag_of_struct, codes, codes_of_struct, words, depth = None, None, None, None, [], 0
    for piece in PIECE.finditer(text):
        line = text.count("\n", 0, piece.start()) + 1
        if piece["comment"] is not None:
            if not text[:piece.start()].rpartition("\n")[2].strip():  # not a comment behind a member
                tag, wrong = tag_of(piece["comment"])
                codes = codes_of(piece["comment"])
                yield from ((line, "wrong tag", w, None) for w in wrong)
        elif piece["gap"] is not None:
            tag, codes = None, None
        elif piece["code"] == "{":
            tag_of_struct, codes_of_struct, codes, words, depth = tag, codes, None, [], depth + 1
        elif piece["code"] == "}":
            words, depth = [], depth - 1
        elif piece["code"] == ";":
            inherited = (tag_of_struct, codes_of_struct) if depth else (None, None)
            yield line, " ".join(words), tag or inherited[0], inherited[1] if codes is None else codes
            words, codes = [], None
        elif piece["code"]:
            words.append(piece["code"])


def faults(root):
    seen = explained = 0
    folder = pathlib.Path(root, "abi/plait")
    known = set(re.findall(r"#define (PLAIT_ERR_\w+)", (folder / "base.h").read_text()))
    for header in sorted(folder.glob("*.h")):
        for line, statement, tag, codes in declarations(header.read_text()):
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
            if header.name in UNEXPLAINED or not re.match(r"(?:PLAIT_API |PLAIT_MUST_USE )*plait_error \*", statement):
                continue
            explained += 1
            if codes is None:
                yield where + f"{name[1]} names no errors; add `Errors:` with codes and the state afterwards to its comment"
            elif not codes:
                yield where + f"{name[1]} has no PLAIT_ERR_* code after `Errors:`"
            for code in sorted(set(codes or ()) - known):
                yield where + f"{name[1]} names {code}, which base.h does not define"
    if seen < 100 or explained < 75:
        yield f"only {seen} functions, {explained} of them with errors, found; this script reads the headers wrongly"


# header, text, its replacement, words of the message
BREAKS = [
    ("session.h", "signal handler. [thread: any; blocks: no] */", "signal handler. */", "plait_session_cancel has no tag"),
    ("session.h", "signal handler. [thread: any; blocks: no] */", "signal handler. [thread: any] */", "[thread: any] is no tag"),
    ("engine.h", "[thread: owner; blocks: no] */\nPLAIT_API uint32_t PLAIT_CALL plait_error_code",
     "[thread: owner; blocks: no] */\n\nPLAIT_API uint32_t PLAIT_CALL plait_error_code", "plait_error_code has no tag"),
    ("session.h", "PLAIT_MUST_USE plait_error *PLAIT_CALL plait_session_save(", "plait_error *PLAIT_CALL plait_session_save(",
     "plait_session_save returns an error that its caller may ignore"),
    ("engine.h", "Errors: PLAIT_ERR_STATE when the plan has no pipeline.", "Fails without a pipeline.", "plait_plan_picture names no errors"),
    ("engine.h", "Errors: PLAIT_ERR_STATE when the plan has no pipeline.", "Errors: without a pipeline.",
     "plait_plan_picture has no PLAIT_ERR_* code"),
    ("engine.h", "Errors: PLAIT_ERR_STATE when the plan has no pipeline.", "Errors: PLAIT_ERR_LONELY.",
     "plait_plan_picture names PLAIT_ERR_LONELY, which base.h does not define"),
    ("engine.h", "/* Closes a plan. [thread: owner; blocks: no] */\nPLAIT_API void PLAIT_CALL plait_plan_close(plait_plan *plan);",
     "PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_plan_close(plait_plan *plan);", "plait_plan_close names no errors"),
    ("option.h", "Errors: PLAIT_ERR_INVALID for an undeclared name", "Fails for an undeclared name", "get_bool names no errors"),
    ("build.h", "Errors: PLAIT_ERR_MEMORY. */", "*/", "constant names no errors"),
    ("comm.h", "Errors: PLAIT_ERR_PEER as from finish(), each time; it may be the cause of an error that says", "", "status names no errors"),
    ("device.h", "Errors: PLAIT_ERR_DEVICE. The event is not recorded.", "Fails.", "event_record names no errors"),
    ("op.h", "Errors: any error of `b` unchanged; PLAIT_ERR_UNIMPLEMENTED for", "Errors: for", "gradient has no PLAIT_ERR_* code"),
    ("dataset.h", "Errors: PLAIT_ERR_IO when a file", "Errors when a file", "read names no errors"),
    ("option.h", "[thread: plan; blocks: no]", "", "get_bool has no tag"),
    ("option.h", "PLAIT_MUST_USE plait_error *(PLAIT_CALL *get_texts)", "plait_error *(PLAIT_CALL *get_texts)", "get_texts returns an error"),
    ("layer.h", "Pure.\n   * [thread: any; blocks: no] */", "Pure. [thread: some; blocks: no] */", "[thread: some; blocks: no] is no tag"),
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
