#!/usr/bin/env python3
"""Speed of the library tokenizers on one core, and the files that it is measured with.

    tokenize_hf.py --make FOLDER [--prose FILE]...     texts and tokenizers, trained on these texts
    tokenize_hf.py TOKENIZER.json TEXT [--seconds 1]   one round for every line on stdin

FOLDER gets sources.txt, the files of this tree; scripts.txt, made-up words in many scripts; prose.txt, if prose
is given: documents of a few KB, each ended by NUL. And a tokenizer.json of 16,000 tokens in the manner of each of
gpt2 (bytes, its own pattern), llama3 (bytes, a pattern of its file, ignore_merges), llama2 (characters, whole
documents, bytes in place of unknown ones) and t5 (unigram). The library's fastest call is used, `encode_batch_fast`,
without the time that a list of ids would take in Python.
"""

import argparse
import json
import os
import pathlib
import random
import subprocess
import sys

from peer_common import report, steps_per_second

ROOT = pathlib.Path(__file__).resolve().parents[3]
VOCABULARY = 16000
SHARE = 4  # one document of so many trains
DOCUMENT = 4000  # characters at least
MASK = (1 << 64) - 1
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
          r"\s*[\r\n]+|\s+(?!\S)|\s+")
# Letters of the scripts, as ranges, with a weight each.
SCRIPTS = {"latin": (0x61, 0x7A, 6), "accents": (0xE0, 0xF6, 1), "greek": (0x3B1, 0x3C9, 1), "cyrillic": (0x430, 0x44F, 2),
           "arabic": (0x627, 0x64A, 1), "devanagari": (0x905, 0x939, 1), "han": (0x4E00, 0x5200, 2), "hangul": (0xAC00, 0xAE00, 1),
           "emoji": (0x1F600, 0x1F640, 0.3)}


def documents(lines):
    """Lines joined to documents of at least DOCUMENT characters."""
    found, part, size = [], [], 0
    for line in lines:
        part.append(line)
        size += len(line)
        if size >= DOCUMENT:
            found.append("".join(part))
            part, size = [], 0
    return found + (["".join(part)] if part else [])


def sources():
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files"], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    wanted = [name for name in sorted(listed) if name.endswith((".md", ".hpp", ".cpp", ".h", ".py", ".toml", ".cmake"))]
    return [document for name in wanted for document in documents((ROOT / name).read_text().splitlines(True))]


def scripts(words=300_000):
    draw = random.Random(3)
    kinds, weights = zip(*(((low, high), weight) for low, high, weight in SCRIPTS.values()))
    lexicon = []
    for _ in range(40_000):
        low, high = draw.choices(kinds, weights)[0]
        lexicon.append("".join(chr(draw.randint(low, high)) for _ in range(draw.randint(1, 2 + int(8 * draw.random() ** 2)))))
    lines = []
    for _ in range(words // 12):
        line = [lexicon[int(len(lexicon) * draw.random() ** 4)] for _ in range(12)]  # frequent words first
        lines.append(" ".join(line) + draw.choice([".", ",", " 1969", "!", "\n", "\r\n\r\n", "  "]) + "\n")
    return documents(lines)


def made(manner):
    """(tokenizer, trainer, what is changed behind the training)."""
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

    bytes_, common = pre_tokenizers.ByteLevel.alphabet(), dict(vocab_size=VOCABULARY, show_progress=False)
    if manner == "gpt2":
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
        return tokenizer, trainers.BpeTrainer(initial_alphabet=bytes_, special_tokens=["<|endoftext|>"], **common), None
    if manner == "llama3":
        tokenizer = Tokenizer(models.BPE(ignore_merges=True))
        split = pre_tokenizers.Split(Regex(LLAMA3), "isolated")
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
        tokenizer.decoder = decoders.ByteLevel()
        return tokenizer, trainers.BpeTrainer(initial_alphabet=bytes_, special_tokens=["<|end_of_text|>"], **common), None
    unknown = "<tokenize_hf:unk>"  # such a text is no piece of the unigram trainer's, which would write it twice
    if manner == "llama2":
        tokenizer = Tokenizer(models.BPE(unk_token=unknown, fuse_unk=True, byte_fallback=True))
        tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
        bytes_ = [f"<0x{byte:02X}>" for byte in range(256)]

        def whole(t):  # trained on words, since merges over words are rare; applied to whole documents
            t.pre_tokenizer = None
            t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])

        return tokenizer, trainers.BpeTrainer(special_tokens=[unknown, *bytes_], limit_alphabet=2000, **common), whole
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer, tokenizer.pre_tokenizer, tokenizer.decoder = normalizers.NFKC(), pre_tokenizers.Metaspace(), decoders.Metaspace()
    return tokenizer, trainers.UnigramTrainer(special_tokens=[unknown], unk_token=unknown, **common), None


def make(folder, prose):
    folder.mkdir(parents=True, exist_ok=True)
    texts = {"sources": sources(), "scripts": scripts()}
    if prose:
        texts["prose"] = documents(line for path in prose for line in pathlib.Path(path).read_text().splitlines(True))
    for name, parts in texts.items():
        (folder / f"{name}.txt").write_text("".join(part.replace("\0", "") + "\0" for part in parts), newline="")
    some = [part for parts in texts.values() for part in parts[::SHARE]]
    for manner in ("gpt2", "llama3", "llama2", "t5"):
        if (folder / f"{manner}.json").exists():  # training takes a minute or two
            continue
        tokenizer, trainer, then = made(manner)
        tokenizer.train_from_iterator(some, trainer)
        if then:
            then(tokenizer)
        tokenizer.save(str(folder / f"{manner}.json"))
    print(json.dumps({"texts": sorted(texts)}))


def measure(path, text, seconds):
    import tokenizers

    tokenizer = tokenizers.Tokenizer.from_file(path)
    content = pathlib.Path(text).read_bytes()
    parts = content.decode().removesuffix("\0").split("\0")
    total, n = 0, 0
    for encoding in tokenizer.encode_batch_fast(parts, add_special_tokens=False):
        n += len(encoding.ids)
        for number in encoding.ids:
            total = (total * 31 + number) & MASK

    def run(times):
        for _ in range(times):
            tokenizer.encode_batch_fast(parts, add_special_tokens=False)

    report(ready=True, ids=n, sum=total, tokenizers=tokenizers.__version__)
    for _ in sys.stdin:
        rate, cpus = steps_per_second(run, seconds)
        report(mb_per_s=round(rate * len(content) * 1e-6, 3), cpus=round(cpus, 2))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", help="TOKENIZER.json and TEXT")
    parser.add_argument("--make", type=pathlib.Path)
    parser.add_argument("--prose", action="append", default=[])
    parser.add_argument("--seconds", type=float, default=1.0, help="per round")
    options = parser.parse_args()
    if options.make:
        return make(options.make, options.prose)
    if len(options.files) != 2:
        parser.error("a tokenizer.json and a text are needed, or --make FOLDER")
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    return measure(*options.files, options.seconds)


if __name__ == "__main__":
    main()
