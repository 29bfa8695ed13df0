"""Texts of every kind through `plait data tokenize`, compared with the libraries that define the tokenizers.

    python check_tokenizers.py PLAIT [--texts N] [--seed S] [--only NAME...] [--folder DIR]
        [--files FILE...]                                   needs requirements_tokenizers.txt

For each tokenizer of tokenizers.json that is the library tokenizers' or tiktoken's, and of --folder (with tokenizer.json, or
vocab.json and merges.txt): every code point alone and between letters, N random strings of bytes
(not UTF-8 becomes U+FFFD), N strings of blanks, joined emoji, combining marks, special tokens and
pieces of words, and the files. A text that differs is left out where it has a code point that
is newer than the tables of Python, or whose normal form is newer than those of the library.
"""

import argparse
import json
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import unicodedata

import tiktoken
from golden_tokenizers import FILE, SPECIALS, WORDS, ranks_of
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

PART = 200000  # texts
TOGETHER = 32  # code points
PIECES = [*WORDS[:60], *SPECIALS, "<|endoftext|>", "</s>", "<unk>", "xyz", "Prince", "\r\n", "\n\n", "\t", "  ", "   ", "\u00a0", "\u3000", "\u200d", "\ufe0f",
          "\u0301", "\u0302", "👍🏽", "👨‍👩‍👧", "🇩🇪", "1", "12345", "½", "Ⅷ", "'s", "'LL", "é", "E\u0301", "ß", "ſ", "中文", "日本", "한국", "Привет", "...", "!?", "_", "-"]


def code_points():
    """All that a text can have, so many in a text; and alone those that have a meaning."""
    every = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    lines = [f"a{c}b {c}1{c}{c}" for c in every]
    alone = [c for c in every if unicodedata.category(c) not in ("Cn", "Co")]
    return alone + ["\n".join(lines[i:i + TOGETHER]) for i in range(0, len(lines), TOGETHER)]


def newer_than_library():
    """Code points that Python does not know, or normalises and the library does not."""
    forms = {form: getattr(normalizers, form)() for form in ("NFC", "NFD", "NFKC", "NFKD")}
    every = (chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000)
    return {
        c
        for c in every if unicodedata.category(c) == "Cn" or any(
            unicodedata.normalize(form, c) != c and library.normalize_str(c) == c
            for form, library in forms.items())
    }


def texts(n, seed):
    draw = random.Random(seed)
    noise = [draw.randbytes(draw.randint(1, 24)).decode(errors="replace") for _ in range(n)]
    return noise + ["".join(draw.choice(PIECES) for _ in range(draw.randint(1, 10))) for _ in range(n)]


def documents(stem):
    """The ids of each document of the files that plait wrote."""
    index, data = stem.with_suffix(".idx").read_bytes(), stem.with_suffix(".bin").read_bytes()
    code, n = index[17], struct.unpack_from("<Q", index, 18)[0]
    kind, size = {8: ("H", 2), 4: ("i", 4)}[code]
    lengths, offsets = struct.unpack_from(f"<{n}i", index, 34), struct.unpack_from(f"<{n}q", index, 34 + 4 * n)
    return [list(struct.unpack_from(f"<{length}{kind}", data, at)) for length, at in zip(lengths, offsets)] if size else []


def tokenizers(folder):
    """Name, the words that name the tokenizer to plait, a function from texts to ids."""
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="check_tokenizers."))
    for case in json.loads(FILE.read_text())["cases"]:
        if case["type"] == "sentencepiece":
            continue  # Debian's library is the one that plait calls
        place = scratch / case["name"]
        place.mkdir()
        (place / case["file"]).write_text(case["text"])
        if case["type"] == "hf":
            library = Tokenizer.from_str(case["text"])
            yield case["name"], [place], lambda all_, t=library: [e.ids for e in t.encode_batch(all_, add_special_tokens=False)]
            continue
        pattern, specials = (line.split(" = ", 1)[1] for line in case["options"].splitlines())
        pattern = pattern.removeprefix("'''").removesuffix("'''")
        ranks = ranks_of(case["text"])
        encoding = tiktoken.Encoding(case["name"], pat_str=pattern, mergeable_ranks=ranks,
                                     special_tokens={"<|endoftext|>": len(ranks), "<|end|>": len(ranks) + 7})
        words = [place / case["file"], "--option", f"pattern={json.dumps(pattern)}", "--option", f"specials={specials}"]
        yield case["name"], words, lambda all_, e=encoding: e.encode_batch(all_, allowed_special="all")
    if folder:
        if (folder / "tokenizer.json").exists():
            library = Tokenizer.from_file(str(folder / "tokenizer.json"))
        else:
            library = Tokenizer(models.BPE.from_file(str(folder / "vocab.json"), str(folder / "merges.txt")))
            library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
            library.decoder = decoders.ByteLevel()
            library.add_special_tokens(["<|endoftext|>"])
        yield str(folder), [folder], lambda all_: [e.ids for e in library.encode_batch(all_, add_special_tokens=False)]


def check_all(plait, words, encode, all_texts, newer):
    """The number of texts whose ids differ; in parts, for the library's results are large."""
    differ = 0
    for first in range(0, len(all_texts), PART):
        with tempfile.TemporaryDirectory() as scratch:
            differ += check(plait, words, encode, all_texts[first:first + PART],
                            pathlib.Path(scratch), newer)
    return differ


def check(plait, words, encode, all_texts, folder, newer):
    """The number of texts whose ids differ, of one call."""
    (folder / "t.jsonl").write_text("".join(json.dumps({"text": t}) + "\n" for t in all_texts))
    done = subprocess.run([plait, "data", "tokenize", folder / "t.jsonl", "--tokenizer", *words, "--out", folder / "o", "--yes"],
                          capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    found, expected = documents(folder / "o"), encode(all_texts)
    differ = [
        i for i in range(len(all_texts))
        if found[i] != expected[i] and newer.isdisjoint(all_texts[i])
    ]
    for i in differ[:3]:
        first = next((k for k, (a, b) in enumerate(zip(found[i], expected[i])) if a != b), 0)
        part = slice(max(first - 3, 0), first + 10)
        print(f"  {all_texts[i][:80]!r}: found {found[i][part]}, expected {expected[i][part]}, "
              f"from id {part.start} on", file=sys.stderr)
    return len(differ)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("plait", type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("--files", nargs="*", default=[], type=pathlib.Path)
    parser.add_argument("--texts", type=int, default=100000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", default=[], help="names of tokenizers")
    parser.add_argument("--folder", type=lambda path: pathlib.Path(path).resolve())
    a = parser.parse_args()
    all_texts = code_points() + texts(a.texts, a.seed) + [path.read_text() for path in a.files]
    faults, newer = 0, newer_than_library()
    for name, words, encode in tokenizers(a.folder):
        if a.only and name not in a.only:
            continue
        differ = check_all(a.plait, words, encode, all_texts, newer)
        faults += differ
        print(f"{name}: {differ} of {len(all_texts)} texts differ", flush=True)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
