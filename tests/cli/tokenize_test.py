"""plait data tokenize: the files that it writes, read here by their definition, and what it refuses."""

import base64
import gzip
import json
import os
import resource
import signal
import struct
import subprocess
import time
import unittest

from support import Case, PLAIT, ROOT, TIME

TEXTS = ("The first document.\n", "Ünïcode, 5 €", "", "x" * 3000)


def read(folder, name):
    """The documents of NAME.bin and NAME.idx, and the facts of NAME.json."""
    idx, data = (folder / f"{name}.idx").read_bytes(), (folder / f"{name}.bin").read_bytes()
    assert idx[:9] == b"MMIDIDX\0\0"
    version, code, n, starts = struct.unpack_from("<QBQQ", idx, 9)
    assert (version, starts) == (1, n + 1)
    kind, size = {8: ("H", 2), 4: ("i", 4)}[code]
    lengths = struct.unpack_from(f"<{n}i", idx, 34)
    offsets = struct.unpack_from(f"<{n}q", idx, 34 + 4 * n)
    assert struct.unpack_from(f"<{n + 1}q", idx, 34 + 12 * n) == tuple(range(n + 1))
    assert len(idx) == 34 + 12 * n + 8 * (n + 1)
    documents = [list(struct.unpack_from(f"<{length}{kind}", data, offset)) for length, offset in zip(lengths, offsets)]
    assert len(data) == size * sum(lengths)
    return documents, json.loads((folder / f"{name}.json").read_text())


class Tokenize(Case):
    def tokenize(self, *words):
        return self.expect(0, "data", "tokenize", *words)

    def test_bytes_of_lines(self):
        self.write("a.jsonl", "".join(json.dumps({"id": i, "text": t}, ensure_ascii=i == 1) + "\n\n" for i, t in enumerate(TEXTS)))
        out = self.tokenize("a.jsonl", "--tokenizer", "bytes", "--out", "o").out
        documents, facts = read(self.folder, "o")
        self.assertEqual([bytes(d).decode() for d in documents], list(TEXTS))
        self.assertEqual((facts["documents"], facts["dtype"], facts["eod"]), (4, "u16", None))
        self.assertEqual(facts["tokens"], sum(map(len, documents)))
        self.assertEqual(facts["tokenizer"]["type"], "bytes")
        self.assertIn(f"{facts['tokens']} tokens of 4 documents, 257 ids, in o.bin", out)

    def test_any_number_of_threads(self):
        """The same files, also packed, with end tokens, and from several files in their order."""
        lines = "".join(json.dumps({"body": f"document {i} " * (i % 7)}) + "\n" for i in range(500))
        (self.folder / "b.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
        self.write("b.jsonl", lines)
        self.write("end.txt", "one\ntext")
        for name, file, threads in (("one", "b.jsonl", 1), ("five", "b.jsonl.gz", 5)):
            self.tokenize(file, "end.txt", "--tokenizer", "bytes", "--field", "body", "--append-eod", "--threads", threads, "--out", name)
        self.assertEqual(read(self.folder, "one")[0], read(self.folder, "five")[0])
        for extension in ("bin", "idx"):
            self.assertEqual((self.folder / f"one.{extension}").read_bytes(), (self.folder / f"five.{extension}").read_bytes())
        documents, facts = read(self.folder, "one")
        self.assertEqual((len(documents), facts["eod"]), (501, 256))
        self.assertEqual({d[-1] for d in documents}, {256})
        self.assertEqual(bytes(documents[-1][:-1]), b"one\ntext")

    @unittest.skipIf(resource.getrlimit(resource.RLIMIT_STACK)[1] != resource.RLIM_INFINITY, "the stacks of threads are limited here")
    def test_no_thread_can_be_started(self):
        """A stack that no address space has room for: one thread takes all documents."""
        self.write("c.jsonl", "".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
        words = [PLAIT, "data", "tokenize", "c.jsonl", "--tokenizer", "bytes", "--threads", "3", "--out", "c"]
        done = subprocess.run(words, cwd=self.folder, env=self.environment(), capture_output=True, text=True, timeout=TIME,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_STACK, (1 << 47, resource.RLIM_INFINITY)))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual([bytes(d).decode() for d in read(self.folder, "c")[0]], list(TEXTS))

    def test_chars(self):
        self.write("t.txt", "to be or not to be")
        record, = self.expect(0, "data", "tokenize", "t.txt", "--tokenizer", "chars", "--option", "path=t.txt", "--out", "c", "--json").records
        documents, facts = read(self.folder, "c")
        alphabet = sorted(set("to be or not to be"))
        self.assertEqual("".join(alphabet[i] for i in documents[0]), "to be or not to be")
        self.assertEqual(record["files"], ["c.bin", "c.json", "c.idx"])
        self.assertEqual({k: v for k, v in record.items() if k != "files"}, facts)
        self.assertEqual(facts["tokenizer"]["vocabulary"], len(alphabet))

    def test_files_of_published_models(self):
        """A folder, tokenizer.json, a file of ranks, a .model: each is read by its own type, with the ids of its library."""
        golden = json.loads((ROOT / "tests/golden/tokenizers.json").read_text())
        cases = {case["name"]: case for case in golden["cases"]}
        self.write("t.txt", golden["texts"][0])
        for name, given, options in (("llama3", "llama3", ()), ("gemma", "gemma/tokenizer.json", ()),
                                     ("o200k_ranks", "o200k_ranks/r.tiktoken", ("--option", "encoding=o200k_base", "--option", "specials=[]")),
                                     ("sentencepiece_bpe", "sentencepiece_bpe/m.model", ()), ("sentencepiece_unigram", "sentencepiece_unigram", ())):
            with self.subTest(name):
                case = cases[name]
                (self.folder / name).mkdir()
                content = case["text"].encode() if "text" in case else base64.b64decode(case["base64"])
                file = "tokenizer.model" if given == "sentencepiece_unigram" else case["file"]  # a folder has this one
                (self.folder / name / file).write_bytes(content)
                self.tokenize("t.txt", "--tokenizer", given, *options, "--out", "o", "--yes")
                documents, facts = read(self.folder, "o")
                self.assertEqual(documents, [case["ids"][0]])
                self.assertEqual(facts["tokenizer"]["type"], case["type"])
        (self.folder / "empty").mkdir()
        self.write("llama3/config.json", '{"model_type": "llama"}')
        for code, given, *says in (
                (2, "./empty", "neither tokenizer.json nor vocab.json", "give the folder of a model"),
                (1, "llama3/config.json", "this is no tokenizer.json, which has a model"),
                (2, "none/tokenizer.json", "none/tokenizer.json", "No such file")):
            with self.subTest(given):
                self.fails(code, ["data", "tokenize", "t.txt", "--tokenizer", given, "--out", "o", "--yes"], *says)

    def test_not_utf8(self):
        (self.folder / "l.txt").write_bytes(b"caf\xe9 \xff")
        done = self.tokenize("l.txt", "--tokenizer", "chars", "--option", "characters=caf \ufffd", "--out", "o")
        self.assertIn("2 sequences of bytes were not UTF-8 and became U+FFFD, the first in l.txt", done.err)
        self.assertEqual(read(self.folder, "o")[1]["replaced"], 2)
        self.fails(1, ["data", "tokenize", "l.txt", "--tokenizer", "chars", "--option", "characters=caf", "--strict", "--out", "p"],
                   "l.txt: [tokenizer] the text is not UTF-8 at byte 3")

    def test_refused(self):
        self.write("a.txt", "abc")
        self.write("bad.jsonl", '{"text": "fine"}\n{"text": 3}\n')
        self.write("broken.jsonl", '{"text": "fine"}\n{"text": \n')
        self.write("list.jsonl", "[1]\n")
        (self.folder / "cut.txt.gz").write_bytes(gzip.compress(b"some text that was cut off" * 100)[:-12])
        chars = ["--tokenizer", "chars", "--option", "characters=ab"]
        byte = ["--tokenizer", "bytes"]
        for file, words, *says in (
                ("a.txt", ["--tokenizer", "byte"], "unknown tokenizer 'byte' (did you mean 'bytes'?)"),
                ("a.txt", ["--tokenizer", "chars"], "give either path, a text file, or characters", "--option KEY=VALUE gives an option"),
                ("a.txt", ["--tokenizer", "x.vocab"], "--tokenizer 'x.vocab': expected a type", "plait plugins tokenizer"),
                ("a.txt", [*byte, "--option", "a=1"], "--option a: a: unknown key 'a'"),
                ("a.txt", [*byte, "--option", "a"], "--option 'a': expected KEY=VALUE"),
                ("a.txt", [*chars, "--append-eod"], "'chars' has no token that ends a document"),
                ("none.txt", byte, "cannot read 'none.txt': No such file"),
                (".", byte, "is a folder"),
                ("bad.jsonl", byte, "'bad.jsonl' line 2: 'text' is number, expected a text"),
                ("bad.jsonl", [*byte, "--field", "body"], "line 1 has no 'body'; there are: text; choose one with --field"),
                ("broken.jsonl", byte, "'broken.jsonl' line 2 is not JSON"),
                ("list.jsonl", byte, "'list.jsonl' line 1 is array, expected an object")):
            with self.subTest(file=file, words=words):
                self.fails(2, ["data", "tokenize", file, *words, "--out", "o"], *says)
        self.fails(1, ["data", "tokenize", "a.txt", *chars, "--out", "o"], "a.txt: ", "the character 'c' at byte 2 is none of the 2 tokens")
        self.fails(3, ["data", "tokenize", "cut.txt.gz", *byte, "--out", "o"], "'cut.txt.gz' cannot be read to its end")
        self.fails(3, ["data", "tokenize", "a.txt", *byte, "--out", "a.txt/o"], "cannot make the folder 'a.txt': ",
                   "is a file, not a folder; name another place, with --out")
        self.assertEqual(sorted(p.name for p in self.folder.iterdir() if p.name.startswith("o.")), [])

    def test_the_folder_is_made(self):
        self.write("a.txt", "abc")
        self.expect(0, "data", "tokenize", "a.txt", "--tokenizer", "bytes", "--out", "new/in/o")
        self.assertTrue((self.folder / "new/in/o.bin").is_file())

    def test_files_that_exist(self):
        self.write("a.txt", "abc")
        self.tokenize("a.txt", "--tokenizer", "bytes", "--out", "o")
        self.write("a.txt", "abcd")
        self.fails(2, ["data", "tokenize", "a.txt", "--tokenizer", "bytes", "--out", "o"], "'o.bin' exists", "--yes")
        self.assertEqual(len(read(self.folder, "o")[0][0]), 3)
        self.tokenize("a.txt", "--tokenizer", "bytes", "--out", "o", "--yes")
        self.assertEqual(len(read(self.folder, "o")[0][0]), 4)

    def test_interrupted(self):
        """A killed run leaves no files that look complete, and the next one is not disturbed by what it left."""
        os.mkfifo(self.folder / "slow.txt")
        process = subprocess.Popen([PLAIT, "data", "tokenize", "slow.txt", "--tokenizer", "bytes", "--out", "o"],
                                   cwd=self.folder, env=self.environment())
        with open(self.folder / "slow.txt", "wb") as pipe:
            pipe.write(b"some text")
            pipe.flush()
            process.send_signal(signal.SIGKILL)
            process.wait()
        self.assertFalse([p for p in self.folder.iterdir() if p.suffix in (".bin", ".idx", ".json")])
        self.write("a.txt", "abc")
        self.tokenize("a.txt", "--tokenizer", "bytes", "--out", "o")
        self.assertEqual(bytes(read(self.folder, "o")[0][0]), b"abc")

    def start(self, *words):
        return subprocess.Popen([PLAIT, "data", "tokenize", *words], cwd=self.folder, env=self.environment(),
                                stderr=subprocess.PIPE, text=True)

    def stop_at_first_mark(self, signal_, *words):
        """The run's exit code; it was stopped as soon as it could go on, at the first mark of some."""
        for _ in range(5):
            process = self.start(*words)
            while process.poll() is None and not (self.folder / "o.resume").exists():
                time.sleep(0.001)
            process.send_signal(signal_)
            said = process.communicate()[1]
            if (self.folder / "o.resume").exists():
                return process.returncode, said
            self.assertEqual(process.returncode, 0)  # it was faster
            for extension in ("bin", "idx", "json"):
                (self.folder / f"o.{extension}").unlink()
        self.fail("never stopped in time")

    def test_resumed(self):
        """Killed, or asked to stop: the same command goes on, and the files are those of a run without a stop."""
        lines = (json.dumps({"text": f"document {i} " * (1 + i % 90)}) for i in range(25000))
        self.write("long.jsonl", "\n\n".join(lines) + "\n")
        (self.folder / "packed.jsonl.gz").write_bytes(gzip.compress((self.folder / "long.jsonl").read_bytes(), 1))
        (self.folder / "end.txt").write_bytes(b"text \xff")
        for first in ("long.jsonl", "packed.jsonl.gz"):
            words = [first, "end.txt", "long.jsonl", "--tokenizer", "chars", "--option",
                     "characters=0123456789 documentx\ufffd", "--threads", "2"]
            self.tokenize(*words, "--out", "whole", "--yes")
            for signal_, code in ((signal.SIGKILL, -9), (signal.SIGINT, 4)):
                with self.subTest(first=first, signal=signal_):
                    found, said = self.stop_at_first_mark(signal_, *words, "--out", "o")
                    self.assertEqual(found, code)
                    self.assertFalse((self.folder / "o.bin").exists())
                    if code == 4:
                        self.assertIn("the same command continues from there", said)
                    done = self.tokenize(*words, "--out", "o")
                    self.assertRegex(done.err, r"going on behind document \d+, where an earlier run stopped")
                    for extension in ("bin", "idx", "json"):
                        self.assertEqual((self.folder / f"o.{extension}").read_bytes(),
                                         (self.folder / f"whole.{extension}").read_bytes(), extension)
                        (self.folder / f"o.{extension}").unlink()
                    self.assertEqual([p.name for p in self.folder.iterdir() if p.name.startswith("o.")], [])
        # Other texts, other options, --restart: from the start. Damaged: said.
        self.stop_at_first_mark(signal.SIGKILL, *words, "--out", "o")
        state = (self.folder / "o.resume").read_text()
        self.assertIn("is of other texts or options; starting anew", self.tokenize(*words, "--plain", "--out", "o").err)
        for content, code, words_, says in ((state, 0, ["--restart"], "is of an interrupted run; starting anew"),
                                            (state.replace('"place"', '"plaice"'), 2, [], "is damaged; start anew with --restart"),
                                            ("{", 0, [], "")):
            self.write("o.resume", content)
            for extension in ("bin", "lengths"):
                (self.folder / f"o.{extension}.part").write_bytes(bytes(1 << 26))
            done = self.expect(code, "data", "tokenize", *words, *words_, "--out", "o", "--yes")
            self.assertIn(says, done.err)
            if code == 0:
                self.assertEqual((self.folder / "o.bin").read_bytes(), (self.folder / "whole.bin").read_bytes())


MODEL = """\
[batch]
global = 1
[run]
steps = 2
[data.train]
type = "tokens"
path = "bytes.bin"
length = 8
[model]
layers = [{type = "embedding", vocabulary = 300, width = 4}, {type = "linear", out = 300}]
[loss]
type = "cross_entropy"
[optimizer]
type = "sgd"
"""


class TokenizerOfTheModel(Case):
    """Ids of another tokenizer are an error wherever both tokenizers are known and of one type, else a warning."""

    def setUp(self):
        super().setUp()
        self.write("a.txt", "the cat sat on the mat " * 9)
        self.write("b.txt", "quick " + "the cat sat on the mat " * 9)
        for name, tokenizer, *options in (("other", "chars", "--option", "path=b.txt"), ("chars", "chars", "--option", "path=a.txt"), ("bytes", "bytes")):
            self.expect(0, "data", "tokenize", "a.txt", "--tokenizer", tokenizer, *options, "--out", name)

    def test_of_the_experiment(self):
        fingerprints = [read(self.folder, name)[1]["tokenizer"]["fingerprint"] for name in ("other", "chars")]
        self.write("t.toml", MODEL.replace("bytes.bin", "other.bin") + '[tokenizer]\ntype = "chars"\npath = "a.txt"\n')
        for verb in ("check", "plan", "run"):
            self.fails(2, [verb, "t.toml"], "t.toml:5:1: data.train: its ids are of tokenizer 'chars' by '",
                       f"/other.json' (fingerprint {fingerprints[0]}), and [tokenizer] is 'chars' of '",
                       f"a.txt' ({fingerprints[1]}): an id is another text in them",
                       "make the tokens with the tokenizer of the model")
        self.expect(0, "check", "t.toml", "data.train.path=chars.bin")
        self.expect(0, "run", "t.toml", "data.train.path=chars.bin", "--run-dir", "r")
        # One of another type may have the same ids, as one that was exported.
        self.fails(0, ["check", "t.toml", "data.train.path=bytes.bin"], "data.train: its ids are of tokenizer 'bytes' by '",
                   ", a tokenizer of another type: make sure that an id is the same text in both")
        # Files of others do not say it; nor does a tokenizer that is not there.
        (self.folder / "other.json").unlink()
        self.expect(0, "check", "t.toml")
        (self.folder / "a.txt").unlink()
        self.fails(0, ["check", "t.toml", "data.train.path=chars.bin"],
                   "[plan] [tokenizer] cannot be opened, so the tokens of datasets are not compared with it")

    def test_of_two_datasets(self):
        """Without [tokenizer], also inside of a blend and beside fine_tune."""
        self.write("t.toml", MODEL.replace("bytes.bin", "other.bin"))
        self.expect(0, "check", "t.toml")
        eval = 'data.eval={type = "%s", %s, length = 8}'
        chars, other = (eval % ("tokens", f'path = "{name}.bin"') for name in ("chars", "other"))
        self.expect(0, "check", "t.toml", other)
        self.fails(2, ["check", "t.toml", chars], "data.eval: its ids are of tokenizer 'chars' by '",
                   "and data.train has ids of tokenizer 'chars' by '")
        parts = ", ".join(f'{{type = "tokens", path = "{name}.bin", length = 8}}' for name in ("other", "chars"))
        self.fails(2, ["check", "t.toml", f'data.train={{type = "blend", parts = [{parts}]}}'],
                   "data.train: its ids are of tokenizer 'chars' by '")
        self.write("f.jsonl", '{"prompt": "a cat", "completion": " sat"}\n')
        tune = eval % ("fine_tune", 'files = ["f.jsonl"], tokenizer = {type = "%s"%s}')
        self.expect(0, "check", "t.toml", tune % ("chars", ', path = "b.txt"'))
        self.fails(2, ["check", "t.toml", tune % ("chars", ', path = "a.txt"')],
                   "data.eval: its ids are of tokenizer 'chars' by the key tokenizer, override")


if __name__ == "__main__":
    unittest.main()
