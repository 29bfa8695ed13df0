#!/usr/bin/env python3
"""Writes tokenizers.json beside this script: small tokenizers of every kind, and what the libraries that define them make of texts.

    golden_tokenizers.py [--check]

Needs tokenizers, tiktoken and sentencepiece, as requirements_tokenizers.txt pins them. With --check the ids
and texts are made again with the tokenizers of the file, and compared.

tokenizers.json: `texts`; `cases`, each a `name`, the `type` of the tokenizer, its `options` in TOML, `file`, the
name of the file, `text` or `base64`, its content, `ids`, a list for each text, `wrapped`, the ids of texts[0] with the
tokens around them, `decoded`, a text for each list of ids, and `plain`, where it differs from `ids`.
"""

import argparse
import base64
import io
import json
import pathlib
import random
import sys

import sentencepiece
import tiktoken
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

FILE = pathlib.Path(__file__).resolve().parent / "tokenizers.json"
WORDS = ("the of and to in that is was he for it with as his on be at by had not are but from or have an they which one you "
         "were all her she there would their we him been has when who will no more if out so up said what its about than "
         "into them can only other time new some could these two may first then do any like my now over such our man me "
         "even most made after also did many before must through years where much your way well down should because long "
         "each just state people those too good little world very still see own work men day get here old between life "
         "weights gradient layer learning training neural network token attention parameter optimizer").split()
CL100K = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
          r"\s*[\r\n]+|\s+(?!\S)|\s+")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK = (r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+",
            r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|"""
            r" ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
POSSESSIVE = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|"
              r"\s*[\r\n]|\s+(?!\S)|\s")
SPECIALS = ["<|begin|>", "<|end|>"]


def corpus():
    """Sentences of words, frequent ones first, so that there is something to merge."""
    draw = random.Random(11)
    sentences = []
    for _ in range(2000):
        words = [WORDS[int(len(WORDS) * draw.random() ** 2)] for _ in range(draw.randint(3, 12))]
        sentences.append(" ".join(words).capitalize() + draw.choice([".", ",", "!", " 42.", "'s."]))
    return sentences + ["naïve café Привет мир 中文字符 日本語 👍🏽 ٣٤٥ Ⅷ"] * 40


def texts():
    fixed = ["The weights aren't the gradient's.", "", " ", "a", "   leading and trailing  ", "tabs\t\tand\n\n\nlines\r\n  x\r\ny ",
             "I'LL DON'T we'Ve 'ſ", "1 12 123 1234567 ½Ⅷ٣٤٥", "naïve cafe\u0301 ÉCOLE Straße ﬁn", "Привет, мир! 中文字符テスト 한국어",
             "👍🏽👨‍👩‍👧 e\u0301\u0302 \u200d\ufe0f", "x=[1,2]; y->z // <a href='#'>", "\u00a0\u2003\u3000wide\u2028spaces\u0085",
             "the<|end|>The <|begin|> xyz  café", "  xyz  Prince Princes aPrince Prince.", "the▁Ġ<0x41>##</w>", "a" * 200,
             "of the " * 30, "\U0001E900\U0001E922 \u1C89\uA7DA\uA7DC", "!!!???...\n\n///", "of\u0000the"]
    draw = random.Random(12)
    letters = list("aeothsnr'  \t\n.,019AéИ中👍ſ-/\u0301\u00a0<|>")
    pieces = list(WORDS[:40]) + SPECIALS + ["xyz", "Prince", "café", "</s>", "<unk>"]
    made = ["".join(draw.choice(letters) for _ in range(draw.randint(3, 30))) for _ in range(30)]
    made += ["".join(draw.choice(pieces + letters) for _ in range(draw.randint(2, 12))) for _ in range(30)]
    codes = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    return fixed + made + ["".join(chr(draw.choice(codes)) + draw.choice(["", "a", " ", "1"]) for _ in range(9)) for _ in range(20)]


def trained(tokenizer, size=400, byte_level=True, **options):
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet()) if byte_level else []
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, show_progress=False, **options)
    tokenizer.train_from_iterator(corpus(), trainer)
    return tokenizer


def byte_level(split, normalizer=None, **model):
    tokenizer = Tokenizer(models.BPE(**model))
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = split
    tokenizer.decoder = decoders.ByteLevel()
    return trained(tokenizer, special_tokens=SPECIALS)


def with_byte_tokens(tokenizer):
    state = json.loads(tokenizer.to_str())
    vocabulary = state["model"]["vocab"]
    for byte in range(256):
        vocabulary.setdefault(f"<0x{byte:02X}>", len(vocabulary))
    state["model"]["byte_fallback"] = True
    return Tokenizer.from_str(json.dumps(state))


def split_by(*patterns):
    steps = [pre_tokenizers.Split(Regex(p), "isolated") for p in patterns]
    return pre_tokenizers.Sequence(steps + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def metaspace(scheme, split):
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trained(tokenizer, 300, False, special_tokens=["<unk>", "<s>", "</s>"], limit_alphabet=50)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=split)
    tokenizer.decoder = decoders.Metaspace(prepend_scheme=scheme)
    tokenizer.add_tokens([AddedToken("Prince", single_word=True), AddedToken("xyz", lstrip=True, rstrip=True, normalized=False),
                          AddedToken("café")])
    return tokenizer


def hf_tokenizers():
    plain = pre_tokenizers.ByteLevel(add_prefix_space=False)
    yield "gpt2", byte_level(plain)
    llama3 = byte_level(split_by(CL100K), ignore_merges=True)
    around = processors.TemplateProcessing(single="<|begin|> $A <|end|>", special_tokens=[(s, llama3.token_to_id(s)) for s in SPECIALS])
    llama3.post_processor = processors.Sequence([processors.ByteLevel(), around])
    yield "llama3", llama3
    yield "qwen2", byte_level(split_by(CL100K.replace(r"\p{N}{1,3}", r"\p{N}")), normalizers.NFC())
    yield "o200k", byte_level(split_by(O200K))
    yield "deepseek", byte_level(split_by(*DEEPSEEK))
    yield "starcoder", byte_level(pre_tokenizers.Sequence([pre_tokenizers.Digits(True), plain]))
    yield "prefix", byte_level(pre_tokenizers.ByteLevel(add_prefix_space=True))

    llama2 = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
    llama2.pre_tokenizer = pre_tokenizers.Metaspace()
    trained(llama2, 300, False, special_tokens=["<unk>", "<s>", "</s>"], limit_alphabet=50)
    llama2 = with_byte_tokens(llama2)
    llama2.pre_tokenizer = None
    llama2.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    llama2.decoder = decoders.Sequence(steps + [decoders.Strip(" ", 1, 0)])
    llama2.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    yield "llama2", llama2
    gemma = Tokenizer.from_str(llama2.to_str())
    gemma.normalizer = normalizers.Replace(" ", "▁")
    gemma.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    gemma.decoder = decoders.Sequence(steps)
    yield "gemma", gemma

    yield "metaspace_always", metaspace("always", True)
    yield "metaspace_first", metaspace("first", False)
    yield "metaspace_never", metaspace("never", True)

    unigram = Tokenizer(models.Unigram())
    unigram.normalizer = normalizers.NFKC()
    unigram.pre_tokenizer = pre_tokenizers.Metaspace()
    unigram.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=300, special_tokens=["<unk>", "<s>", "</s>"], unk_token="<unk>", show_progress=False)
    unigram.train_from_iterator(corpus(), trainer)
    unigram.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 1))
    yield "unigram", unigram

    affixes = dict(continuing_subword_prefix="##", end_of_word_suffix="</w>")
    words = Tokenizer(models.BPE(unk_token="<unk>", **affixes))
    words.normalizer = normalizers.Sequence([normalizers.Lowercase(), normalizers.Strip(), normalizers.NFKD()])
    words.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation(), pre_tokenizers.Digits(False)])
    words.decoder = decoders.BPEDecoder("</w>")
    trained(words, 300, False, special_tokens=["<unk>"], limit_alphabet=60, **affixes)
    # In lower case: from 0.23 on, the library decodes the normalized text instead of the content.
    words.add_tokens([AddedToken("prince"), AddedToken("xyz")])
    yield "words", words
    pieces = Tokenizer(models.BPE(unk_token="<unk>"))
    pieces.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Whitespace(), pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.Split(Regex("[aeiou]+"), "merged_with_next"),
         pre_tokenizers.CharDelimiterSplit("z"), pre_tokenizers.BertPreTokenizer()])
    yield "pieces", trained(pieces, 300, False, special_tokens=["<unk>"], limit_alphabet=50)


def hf_case(name, content, all_texts):
    tokenizer = Tokenizer.from_str(content)
    ids = [tokenizer.encode(t, add_special_tokens=False).ids for t in all_texts]
    case = {"name": name, "type": "hf", "options": "", "file": "tokenizer.json", "text": content, "ids": ids,
            "wrapped": tokenizer.encode(all_texts[0]).ids, "decoded": [tokenizer.decode(i, skip_special_tokens=False) for i in ids]}
    tokenizer.encode_special_tokens = True
    case["plain"] = {str(n): p for n, t in enumerate(all_texts) if (p := tokenizer.encode(t, add_special_tokens=False).ids) != ids[n]}
    return case


def ranks_of(content):
    pairs = (line.split() for line in content.splitlines())
    return {base64.b64decode(token): int(rank) for token, rank in pairs}


def tiktoken_case(name, content, pattern, all_texts):
    ranks = ranks_of(content)
    specials = {"<|endoftext|>": len(ranks), "<|end|>": len(ranks) + 7}
    encoding = tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=ranks, special_tokens=specials)
    ids = [encoding.encode(t, allowed_special="all") for t in all_texts]
    options = f"pattern = '''{pattern}'''\nspecials = [\"<|endoftext|>\", \"<|end|>={len(ranks) + 7}\"]"
    return {"name": name, "type": "tiktoken", "options": options, "file": "r.tiktoken", "text": content, "ids": ids, "wrapped": ids[0],
            "decoded": [encoding.decode(i) for i in ids],
            "plain": {str(n): p for n, t in enumerate(all_texts) if (p := encoding.encode(t, disallowed_special=())) != ids[n]}}


def sentencepiece_case(name, model, all_texts):
    # The engine's library is older: where two ways to write a text have the same score, it may take the other.
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    ids = [processor.encode(t) for t in all_texts]
    return {"name": name, "type": "sentencepiece", "options": "", "file": "m.model", "base64": base64.b64encode(model).decode(), "ids": ids,
            "wrapped": [processor.bos_id()] + ids[0], "decoded": [processor.decode(i) for i in ids], "plain": {}}


def make():
    all_texts = texts()
    cases = [hf_case(name, tokenizer.to_str(), all_texts) for name, tokenizer in hf_tokenizers()]
    gpt2 = json.loads(cases[0]["text"])["model"]
    stand_ins = {c: b for b, c in enumerate(sorted_alphabet())}
    vocabulary = sorted(((bytes(stand_ins[c] for c in t), i) for t, i in gpt2["vocab"].items() if t not in SPECIALS), key=lambda x: x[1])
    ranks = "".join(f"{base64.b64encode(t).decode()} {n}\n" for n, (t, _) in enumerate(vocabulary))
    cases += [tiktoken_case("cl100k", ranks, POSSESSIVE, all_texts), tiktoken_case("o200k_ranks", ranks, O200K, all_texts)]
    for kind in ("unigram", "bpe"):
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(corpus()), model_writer=model, vocab_size=600 if kind == "bpe" else 320, model_type=kind, byte_fallback=kind == "bpe",
            user_defined_symbols=["<sep>"], control_symbols=["<ctl>"], minloglevel=2, num_threads=1, normalization_rule_name="identity")
        cases.append(sentencepiece_case("sentencepiece_" + kind, model.getvalue(), all_texts))
    return {"texts": all_texts, "cases": cases}


def sorted_alphabet():
    """The character of GPT-2's alphabet for each byte."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(b) if b in printable else chr(next(others)) for b in range(256)]


def check():
    golden = json.loads(FILE.read_text())
    failures = 0
    for case in golden["cases"]:
        if case["type"] == "hf":
            new = hf_case(case["name"], case["text"], golden["texts"])
        elif case["type"] == "tiktoken":
            new = tiktoken_case(case["name"], case["text"], case["options"].split("'''")[1], golden["texts"])
        else:
            new = sentencepiece_case(case["name"], base64.b64decode(case["base64"]), golden["texts"])
        failures += new != case
        print(f"{case['name']}: {'equal' if new == case else 'DIFFERENT'}")
    return 1 if failures else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    if parser.parse_args().check:
        return check()
    golden = make()
    FILE.write_text(json.dumps(golden, ensure_ascii=True, separators=(",", ":")))
    print(f"{FILE.name}: {len(golden['cases'])} tokenizers, {len(golden['texts'])} texts, {FILE.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
