"""plait generate: prompts continued on the command line, as a user would."""

import json
import os
import pty
import shutil
import signal
import subprocess
import time
import unittest

from support import Case, PLAIT, ROOT, TINY

WEIGHTS = ROOT / "tests/golden/stories260k/model.safetensors"
HF = ROOT / "tests/golden/hf"
NAMES = {"attn_norm.gain": "input_layernorm", "attn.q.weight": "self_attn.q_proj", "attn.k.weight": "self_attn.k_proj",
         "attn.v.weight": "self_attn.v_proj", "attn.out.weight": "self_attn.o_proj", "mlp_norm.gain": "post_attention_layernorm",
         "mlp.gate.weight": "mlp.gate_proj", "mlp.up.weight": "mlp.up_proj", "mlp.down.weight": "mlp.down_proj"}
RULES = [f"model.h*.{ours}=model.layers.*.{theirs}.weight" for ours, theirs in NAMES.items()]
RULES += ["model.embed.weight=model.embed_tokens.weight", "model.norm.gain=model.norm.weight"]
# The trained Llama of tests/golden/stories260k.
STORIES = f"""\
[batch]
global = 1
[generate]
length = 257
temperature = 0.0
[data.train]
type = "tokens"
path = "absent.bin"
length = 256
[model]
load = "{WEIGHTS}"
load_names = {json.dumps(RULES)}
layers = [
  {{type = "embedding", name = "embed", vocabulary = 512, width = 64}},
  {{type = "decoder_block", name = "h", repeat = 5, heads = 8, kv_heads = 4, ffn = 172, norm = "rms_norm", mlp = "swiglu", rope = "half"}},
  {{type = "rms_norm", name = "norm"}},
  {{type = "linear", name = "head", out = 512, bias = false, tie = {{weight = "model.embed.weight"}}}},
]
[loss]
type = "cross_entropy"
[optimizer]
type = "sgd"
"""


def read_safetensors(path):
    """The header without metadata, and the bytes behind it."""
    file = path.read_bytes()
    n = int.from_bytes(file[:8], "little")
    header = json.loads(file[8:8 + n])
    header.pop("__metadata__", None)
    return header, bytearray(file[8 + n:])


def write_safetensors(path, header, data):
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


class Generate(Case):
    def setUp(self):
        super().setUp()
        self.write("stories.toml", STORIES)

    def test_ids_and_texts(self):
        """One prompt streams, several come in order, and each is what it is alone."""
        told = self.expect(0, "generate", "stories.toml", "--ids", "1,403", "--max-tokens", "8")
        ids = told.out.strip().split(" -> ")[1]
        self.assertEqual(len(ids.split(",")), 8)
        self.assertIn("8 tokens in", told.err)
        self.assertIn("ended by length", told.err)
        self.assertIn("ended by length: generate.max_tokens = 8", told.err)
        short = self.expect(0, "generate", "stories.toml", "--ids", "1,403", "--length", "7", "--max-tokens", "100")
        self.assertIn("5 tokens in", short.err)
        self.assertIn("ended by length: generate.length = 7, the prompt included; --length N allows more", short.err)
        many = self.expect(0, "generate", "stories.toml", "--ids", "1,403", "--ids", "1", "--ids", "5,6,7", "--max-tokens", "8",
                           "--slots", "2").out.splitlines()
        self.assertEqual(many[0], f"1,403 -> {ids}")
        self.assertEqual(len(many), 3)
        text = self.expect(0, "generate", "stories.toml", "--prompt", "abc", "--tokenizer", "bytes", "--max-tokens", "20").out
        self.assertTrue(text.startswith("abc"))
        self.write("prompts", 'abc\n\n{"prompt": "xyz"}\n')
        two = self.expect(0, "generate", "stories.toml", "--file", "prompts", "--tokenizer", "bytes", "--max-tokens", "20").out
        self.assertEqual(two.split("xyz")[0].rstrip("\n"), text.rstrip("\n"))

    def test_an_adapter_for_each_prompt(self):
        """Untrained ones change nothing; the numbers of trained ones are in tests/unit/host."""
        adapters = '[[model.adapters]]\nnames = ["poems", "code"]\ntype = "lora"\n' \
                   'match = ["model.h*.attn.q.weight"]\n'
        by_sample = STORIES.replace("[model]", '[model]\nadapter_field = "adapter"')
        self.write("by_sample.toml", by_sample + adapters)
        self.write("all.toml", STORIES + adapters)
        words = ("--tokenizer", "bytes", "--max-tokens", "6", "--prompt", "abc")
        told = self.expect(0, "generate", "stories.toml", *words).out
        with_code = self.expect(0, "generate", "by_sample.toml", *words, "--adapter", "code")
        self.assertEqual(with_code.out, told)
        self.fails(2, ("generate", "by_sample.toml", *words, "--adapter", "prose"),
                   "has no adapter 'prose'; there are: poems, code")
        self.fails(2, ("generate", "all.toml", *words, "--adapter", "code"),
                   "[generate] the adapter of the prompt is 'code', and every sequence takes all adapters of 'model': poems, code; "
                   "set model.adapter_field")
        self.write("prompts", '{"prompt": "abc", "adapter": "poems"}\n'
                              '{"prompt": "abc", "adapter": "x"}\n')
        self.fails(2, ("generate", "by_sample.toml", "--tokenizer", "bytes", "--file", "prompts"),
                   "has no adapter 'x'")
        self.write("prompts", '{"prompt": "abc", "adapter": 1}\n')
        self.fails(2, ("generate", "by_sample.toml", "--tokenizer", "bytes", "--file", "prompts"),
                   "prompts:1: expected a line of text, or {\"prompt\": \"...\"}, which may have")
        self.write("prompts", 'abc\n{"prompt": "abc", "adaptor": "poems"}\n')
        self.fails(2, ("generate", "by_sample.toml", "--tokenizer", "bytes", "--file", "prompts"),
                   'prompts:2: unknown key "adaptor"; a line has "prompt" and may have an "adapter"')

    def test_records(self):
        out = self.expect(0, "generate", "stories.toml", "--ids", "1", "--max-tokens", "5", "--json")
        tokens = [r for r in out.records if r["event"] == "token"]
        done = out.event("sequence")
        self.assertEqual([t["id"] for t in tokens], done["ids"])
        self.assertEqual((done["finish"], done["prompt"], [t["index"] for t in tokens]), ("length", "1", list(range(5))))

    def test_imported(self):
        """An imported folder generates as it is; its end ids stand in the file."""
        self.expect(0, "import", "hf", HF / "llama", "llama")
        toml = (self.folder / "llama/experiment.toml").read_text()
        self.assertIn("[generate]\nlength = 64", toml)
        self.assertNotIn("[tokenizer]", toml)
        self.expect(0, "generate", "llama", "--ids", "1,2,3", "--max-tokens", "4")
        plan = self.expect(0, "plan", "llama", "generate.only=true", "generate.slots=3").out
        for part in ("prefill", "decode", "cache"):
            self.assertIn(part, plan)

    def test_imported_for_conversations(self):
        """End ids that the model does not have are left out; its chat template is known by its markers."""
        shutil.copytree(HF / "llama", self.folder / "model")
        config = json.loads((HF / "llama/config.json").read_text())
        user = "{{ '<|user|>\\n' + message['content'] %s + '\\n' }}{{ '<|assistant|>' }}"
        templates = {"{{ '<|im_start|>' + message['role'] }}": "chatml", "{{ bos_token + '[INST] ' }}": "mistral",
                     "{{ bos_token + '[INST] <<SYS>>' }}": "llama2", "{{ '<start_of_turn>' }}": "gemma",
                     "{{ '<|start_header_id|>' }}": "llama3", "{{ '<|' + message['role'] + '|>\\n' }}<|end|><|assistant|>": "phi3",
                     "{{ '<|' + message['role'] + '|>' }}<|end|><|assistant|>": None, "<|im_start|>user<|im_sep|>": None, user % "+ eos_token": "zephyr", user % "": "tulu", "[AVAILABLE_TOOLS][INST]": None, "{{ 'You:' }}": None}
        self.write("model/config.json", json.dumps(config | {"eos_token_id": [-1, 5, 4000000000, 96]}))
        for i, (template, name) in enumerate(templates.items()):
            both = [{"name": "tool_use", "template": "<|im_start|>"}, {"name": "default", "template": template}]
            self.write("model/tokenizer_config.json", json.dumps({"chat_template": both if i % 2 else template}))
            self.expect(0, "import", "hf", "model", f"taken{i}")
            toml = (self.folder / f"taken{i}/experiment.toml").read_text()
            self.assertIn("end = [5]", toml)
            self.assertIn(f'chat_template = "{name}"', toml) if name else self.assertNotIn("chat_template", toml)
        self.write("model/chat_template.jinja", "{{ '<start_of_turn>' }}")
        self.expect(0, "import", "hf", "model", "last")
        self.assertIn('chat_template = "gemma"', (self.folder / "last/experiment.toml").read_text())

    def test_a_run_trains_and_generates(self):
        self.write("t.txt", "to be or not to be that is the question " * 60)
        self.expect(0, "data", "tokenize", "t.txt", "--tokenizer", "chars", "--option", "path=t.txt", "--out", "train")
        self.write("chars.toml", """\
[run]
name = "chars"
steps = 60
[batch]
global = 8
[data.train]
type = "tokens"
path = "train.bin"
length = 32
[tokenizer]
type = "chars"
path = "t.txt"
[model]
layers = [
  {type = "embedding", name = "embed", vocabulary = 16, width = 32},
  {type = "decoder_block", name = "h", repeat = 2, heads = 2, rope = "half"},
  {type = "linear", name = "head", out = 16},
]
[loss]
type = "cross_entropy"
[optimizer]
type = "adamw"
learning_rate = 0.01
""")
        self.expect(0, "run", "chars.toml", "--data", ".", "--run-dir", "here")
        said = self.expect(0, "generate", "chars.toml", "--checkpoint", "here", "--prompt", "to be", "--temperature", "0", "--max-tokens", "12",
                           "--data", ".").out
        self.assertEqual(said.strip(), "to be or not to be"[:17])
        self.fails(2, ["generate", "chars.toml", "--checkpoint", "here", "--prompt", "to be?", "--data", "."], "[tokenizer.chars] the character '?'")
        self.assertEqual(self.expect(0, "generate", "chars.toml", "--checkpoint", "here", "--prompt", "to be", "--temperature", "0", "--stop", "not",
                                     "--data", ".").out.rstrip("\n"), "to be or ")
        (self.folder / "runs").mkdir()
        for name in ("1-older", "2-newer"):
            shutil.copytree(self.folder / "here", self.folder / "runs" / name)
        self.fails(2, ["generate", "chars.toml", "--checkpoint", "runs", "--prompt", "to be", "--data", "."],
                   "'runs' is not a checkpoint and contains none; it holds runs, such as 'runs/2-newer'")

    def test_mistakes(self):
        cases = [
            (["--ids", "1"], ['model.load=""', 'model.load_names=[]'], "the model has initial values only"),
            ([], [], "there is no prompt; give --prompt TEXT"),
            (["--ids", "1,x"], [], "'x' is no token id"),
            (["--prompt", "hello"], [], "a text needs a tokenizer, and the experiment has no [tokenizer]; give --tokenizer T"),
            (["--ids", "1,900"], [], "token 1 of the prompt is 900, the model has ids 0 to 511"),
            (["--ids", "1", "--top-p", "2"], [], "generate.top_p"),
            (["--prompt", "a", "--tokenizer", "nothing"], [], "nothing"),
            (["--file", "absent"], [], "'absent' cannot be read"),
            (["--ids", "1", "--checkpoint", "absent"], [], "absent"),
            (["--ids", "1"], ["model.layers[1].causal=false"], "'model.h0' is not causal"),
            (["--prompt", "a", "--tokenizer", "bytes", "--option", "path=x"], [], "path"),
            (["--chat", "--prompt", "a"], [], "--prompt excludes --chat"),
            (["--chat", "--tokenizer", "bytes"], [], "give --template NAME, or set generate.chat_template; there are: chatml, llama2, "),
            (["--prompt", "a", "--system", "b"], [], "--system requires --chat"),
            (["--ids", "1"], ['generate.input="words"', 'model.layers[0].from=["tokens"]'], "tokens"),
        ]
        for words, overrides, part in cases:
            with self.subTest(words=words, overrides=overrides):
                done = self.plait("generate", "stories.toml", *words, *overrides)
                self.assertNotEqual(done.code, 0)
                self.assertIn(part, done.err)

    def test_a_classifier(self):
        self.write("t.toml", TINY)
        self.expect(0, "run", "t.toml", "--run-dir", "r", "-q", "run.steps=2")
        self.fails(2, ["generate", "r", "--ids", "1"], "dataset 'synthetic' of [data.train] has no `length` of tokens", "plait predict")

    def test_needs_no_training(self):
        """A file with a model and its weights is enough; those of another model are not."""
        model = STORIES[STORIES.index("[model]"):STORIES.index("[loss]")]
        self.write("model.toml", "[generate]\nlength = 257\n" + model)
        self.expect(0, "generate", "model.toml", "--ids", "1", "--max-tokens", "2")
        writer, critic = (model.replace("[model]", f"[models.{name}]").replace('"model.', f'"{name}.') for name in ("writer", "critic"))
        two = writer.replace("load =", "#").replace("load_names =", "#") + critic
        self.write("two.toml", "[generate]\nlength = 257\nmodel = \"writer\"\n" + two)
        self.fails(2, ["generate", "two.toml", "--ids", "1"], "the model has initial values only")

    def test_one_of_many_fails(self):
        """A row of the embedding is no number: the sequences that read it fail, the others are printed."""
        header, data = read_safetensors(WEIGHTS)
        embedding = header["model.embed_tokens.weight"]
        begin, end = embedding["data_offsets"]
        size = (end - begin) // 512
        header["lm_head.weight"] = embedding | {"data_offsets": [len(data), len(data) + end - begin]}
        data += data[begin:end]
        data[begin + 500 * size:begin + 501 * size] = b"\xff" * size  # NaN
        write_safetensors(self.folder / "broken.safetensors", header, data)
        self.write("broken.toml", STORIES.replace(str(WEIGHTS), "broken.safetensors").replace(', tie = {weight = "model.embed.weight"}', "")
                   .replace("load_names = [", 'load_names = ["model.head.weight=lm_head.weight", '))
        done = self.plait("generate", "broken.toml", "--ids", "1", "--ids", "2,500", "--ids", "5", "--max-tokens", "3")
        self.assertEqual(done.code, 5, done.err)
        self.assertIn("sequence 1, token 0 after its prompt, cannot be drawn", done.err)
        lines = done.out.splitlines()
        self.assertEqual([line.split(" -> ")[0] for line in lines], ["1", "2,500", "5"])
        self.assertEqual([len(line.split(" -> ")[1].split(",")) for line in lines[::2]], [3, 3])

    def test_slots_of_prompts(self):
        """Several prompts share a step; --slots and the experiment decide otherwise."""
        ids = [word for _ in range(10) for word in ("--ids", "1")]
        for words, slots in (([], 8), (["--slots", "3"], 3), (["generate.slots=2"], 2)):
            out = self.expect(0, "generate", "stories.toml", *ids, "--max-tokens", "2", "--json", *words)
            first = [r["sequence"] for r in out.records if r["event"] == "token"]
            self.assertEqual(first[:slots + 1], [*range(slots), 0])

    def test_interrupt_of_a_chat(self):
        """Ctrl-C ends the turn of the model; at the prompt it ends the program, as Ctrl-D does."""
        for at_prompt in (signal.SIGINT, None):
            user, terminal = pty.openpty()
            done = subprocess.Popen([PLAIT, "generate", "stories.toml", "--chat", "--template", "chatml", "--tokenizer", "bytes",
                                     "generate.length=60000"], cwd=self.folder, env=self.environment(), stdin=terminal,
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            os.close(terminal)
            for _ in range(2):
                os.write(user, b"hello\n")
                self.assertTrue(done.stdout.read(4))
                done.send_signal(signal.SIGINT)
                while done.stdout.read(1) != b"\n":  # the end of the turn
                    pass
            self.assertIsNone(done.poll())
            if at_prompt:
                done.send_signal(at_prompt)
            else:
                os.write(user, b"\x04")
            _, err = done.communicate(timeout=60)
            os.close(user)
            self.assertEqual(done.returncode, -signal.SIGINT if at_prompt else 0, err)

    def test_a_conversation_that_outgrows_the_cache(self):
        """The message tells of the conversation; of a first message that is too long, of the prompt alone."""
        words = [PLAIT, "generate", "stories.toml", "--chat", "--template", "chatml", "--tokenizer", "bytes", "--max-tokens", "3"]
        for lines, says in ((["hello", "x" * 200], True), (["x" * 300], False)):
            done = subprocess.run(words, cwd=self.folder, env=self.environment(), input="\n".join(lines), capture_output=True, text=True)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("the prompt has", done.stderr)
            self.assertEqual("the conversation so far, of 3 messages; begin a new one" in done.stderr, says, done.stderr)

    def chat(self, lines, *words):
        """A conversation whose lines come through a pipe."""
        return subprocess.run([
            PLAIT, "generate", "stories.toml", "--chat", "--template", "chatml", "--tokenizer",
            "bytes", *words
        ],
                              cwd=self.folder,
                              env=self.environment(),
                              input="\n".join(lines),
                              capture_output=True,
                              text=True)

    def kept(self, name="talk.json"):
        return [(m["role"], m["content"])
                for m in json.loads((self.folder / name).read_text())["messages"]]

    def test_a_conversation_on_a_terminal_that_outgrows_the_cache(self):
        """What does not fit is not sent; the rest can be kept, or continued with more room."""
        user, terminal = pty.openpty()
        words = [PLAIT, "generate", "stories.toml", "--chat", "--template", "chatml",
                 "--tokenizer", "bytes", "--max-tokens", "3"]
        done = subprocess.Popen(words, cwd=self.folder, env=self.environment(), stdin=terminal,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        os.close(terminal)

        def say(line, *says, stream=done.stderr):
            os.write(user, line.encode() + b"\n")
            for text in says:
                self.assertIn(text, stream.readline())

        say("hello",
            "the answer ends after 3 tokens, by generate.max_tokens; --max-tokens N allows more")
        say(
            "x" * 200, "[generate] the prompt has",
            "the conversation so far, of 3 messages; begin a new one with /new, write less, or "
            "keep this one with /save FILE, and continue it with --conversation FILE --length 514",
            "your message was not sent")
        say("/save", "give the name of a file")
        say("/save stories.toml", "'stories.toml' exists")
        say("/save talk.json", "the conversation is kept in talk.json")
        self.assertEqual([role for role, _ in self.kept()], ["user", "assistant"])
        say("hi", "the answer ends after 3 tokens")
        say(
            "y" * 100, "the prompt has",
            "write less, or start this command again with --conversation talk.json --length 514, "
            "which continues this one",
            "your message was not sent")
        say("/new", "a new conversation; talk.json has the last one, /save FILE keeps this one")
        say("x" * 100, "the answer ends after 3 tokens")
        say("/new", "a new conversation; the last one is not kept, /save FILE keeps this one")
        os.write(user, b"\x04")
        _, err = done.communicate(timeout=60)
        os.close(user)
        self.assertEqual((done.returncode, err), (0, ""))
        first = self.kept()
        self.assertEqual([text for role, text in first if role == "user"], ["hello", "hi"])
        more = self.chat(["y" * 100], "--max-tokens", "3", "--length", "514", "--conversation",
                         "talk.json")
        self.assertEqual(more.returncode, 0, more.stderr)
        self.assertIn("continues the conversation in talk.json, of 4 messages", more.stderr)
        self.assertEqual((self.kept()[:4], self.kept()[4]), (first, ("user", "y" * 100)))
        self.assertEqual(len(self.kept()), 6)

    def test_an_answer_that_fills_the_cache(self):
        done = self.chat(["hello"], "--conversation", "talk.json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(
            "the answer ends here: the conversation has the 257 tokens of generate.length; start "
            "this command again with --conversation talk.json --length 514, which continues this "
            "one",
            done.stderr)
        self.assertEqual([role for role, _ in self.kept()], ["user", "assistant"])

    def test_other_keys_of_a_conversation_stay(self):
        before = {"title": "talk", "messages": [{"role": "system", "content": "You are", "id": 7},
                                                {"role": "user", "content": "a", "name": "Ann"},
                                                {"role": "assistant", "content": "b"}], "tags": [1]}
        self.write("talk.json", json.dumps(before))
        done = self.chat(["hello"], "--conversation", "talk.json", "--max-tokens", "3")
        self.assertEqual(done.returncode, 0, done.stderr)
        after = json.loads((self.folder / "talk.json").read_text())
        self.assertEqual(list(after), ["title", "messages", "tags"])
        self.assertEqual(after["messages"][:3], before["messages"])
        self.assertEqual([m["role"] for m in after["messages"][3:]], ["user", "assistant"])
        self.assertEqual({**after, "messages": 0}, {**before, "messages": 0})

    def test_conversations_that_cannot_be_continued(self):
        for content, *says in (("hello", "is not one JSON object",
                                "give another file"), ('{"messages": 3}', "has no list 'messages'"),
                               ('{"messages": [{"role": "user"}]}',
                                "has no text 'content' in message 0"),
                               ('{"messages": [{"role": "user", "content": 3}]}',
                                "has no text 'content' in message 0"),
                               ('{"messages": [7]}', "has no text 'role' in message 0"),
                               ('{"messages": [{"role": "user", "content": "a"}]}',
                                "ends with a message of the user"),
                               ('{"messages": []}\n{"messages": []}', "is not one JSON object")):
            with self.subTest(content=content):
                self.write("talk.json", content)
                done = self.chat(["hello"], "--conversation", "talk.json")
                self.assertEqual(done.returncode, 2, done.stderr)
                for text in says:
                    self.assertIn(text, done.stderr)
                self.assertEqual((self.folder / "talk.json").read_text(), content)
        self.write(
            "talk.json",
            json.dumps({
                "messages": [{"role": "user", "content": "a"},
                             {"role": "assistant", "content": "b"}]
            }))
        done = self.chat(["hello"], "--conversation", "talk.json", "--system", "You are")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("--system begins a conversation, and 'talk.json' holds one", done.stderr)
        done = self.chat(["hello"], "--conversation", "absent/talk.json", "--max-tokens", "3")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("absent/talk.json", done.stderr)

    def test_interrupt(self):
        """Ctrl-C ends the sequence and keeps what there is."""
        done = subprocess.Popen([PLAIT, "generate", "stories.toml", "--ids", "1", "generate.length=60000"], cwd=self.folder,
                                env=self.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        said = done.stdout.read(5)
        self.assertEqual(said, "1 -> ")
        while "," not in said:  # the second id is being written
            said += done.stdout.read(1)
        done.send_signal(signal.SIGINT)
        out, err = done.communicate(timeout=60)
        self.assertEqual(done.returncode, 4, err)
        self.assertIn("ended by cancelled", err)
        self.assertGreater(len((said + out).split(",")), 1)


if __name__ == "__main__":
    unittest.main()
