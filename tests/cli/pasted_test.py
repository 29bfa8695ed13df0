"""Every command that plait prints works when it is pasted into a shell."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import time
import unittest

from support import Case, PLAIT, ROOT, TIME, TINY

VERBS = re.findall(r"^  ([a-z]+) ", subprocess.run([PLAIT, "--help"], capture_output=True, text=True).stdout.split("Subcommands:")[1], re.M)
# What stands for something of the reader's.
PLACEHOLDER = re.compile(r"(?<![\w-])(NAME|FILE|FOLDER|TEMPLATE|DIR|RUN|MODEL|SET|WORD|CHECKPOINT|OUT|FORMAT|VERB)(?![\w=])")
START = re.compile(rf"(?<![\w/.'-])plait (?:{'|'.join(VERBS)}|--help|help)\b")
# An argument, as opposed to the words of the sentence around the command.
ARGUMENT = re.compile(r"""\s+('[^'\n]*'|"[^"\n]*"|-{1,2}[\w][\w=-]*|[~\w./\[\]+-]*(?:[=/.*]|\d)[^\s;,)`']*|%s)""")


def commands_in(text, names=()):
    """The commands in a text: up to the first word that is no option, path, key=value or one of `names`."""
    known = "|".join(map(re.escape, sorted((*names, *VERBS, "FILE", "NAME", "FOLDER", "RUN", "SET", "TEMPLATE", "MODEL", "get", "show", "tokenize"), key=len, reverse=True)))
    argument, found = re.compile(ARGUMENT.pattern % f"(?:{known})(?![\\w'])"), []
    for match in START.finditer(text):
        end = match.end()
        if text.startswith(" needs", end):  # what the sentence is about
            continue
        while more := argument.match(text, end):
            end = more.end()
        found.append(text[match.start():end].rstrip(".:"))
    return found


class Pasted(Case):
    NAMES = ("tiny", "mnist_mlp", "demo", "t", "m1", "mnist", "adamw", "r", "model", "loss.svg", "must", "auto", "two", "weights.safetensors", "train")

    def setUp(self):
        super().setUp()
        self.write("t.toml", TINY)

    def shell(self, command):
        env = {**self.environment(), "PATH": f"{pathlib.Path(PLAIT).parent}:{os.environ['PATH']}"}
        return subprocess.run(["bash", "-c", command], cwd=self.folder, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIME)

    def paste(self, text, least=1):
        """Runs what the text tells to run, but for downloads; the commands."""
        commands = commands_in(text, self.NAMES)
        self.assertGreaterEqual(len(commands), least, text)
        for command in commands:
            if PLACEHOLDER.search(command) or command.startswith("plait data get"):
                continue
            done = self.shell(command)
            self.assertEqual(done.returncode, 0, f"{command}\n{done.stdout}\n{done.stderr}\nof: {text}")
        return commands

    def after(self, *words, code=0, least=1):
        outcome = self.expect(code, *words)
        return self.paste(outcome.out + outcome.err, least)

    def test_the_reader_of_this_test(self):
        text = "no file; plait data get mnist or plait data get tinyshakespeare downloads it, see plait run --help; to resume: plait run 'a b' x.y=1 --run-dir r"
        self.assertEqual(commands_in(text, ("mnist", "tinyshakespeare", "r")), ["plait data get mnist", "plait data get tinyshakespeare", "plait run --help",
                                                               "plait run 'a b' x.y=1 --run-dir r"])

    def test_new(self):
        for name in ("demo", "sub/m1", "sub dir/m1"):
            [command] = self.after("new", name)
            self.assertEqual(command, "plait run " + (f"'{name}'" if " " in name else name))

    def test_templates(self):
        """With the data in place, their first commands run; steps and sizes are cut down."""
        text = "".join(f"line {i}: to be, or not to be\n" for i in range(3000))
        for set_name in ("tinyshakespeare", "mnist"):
            (self.folder / "data" / set_name).mkdir(parents=True)
        (self.folder / "data/tinyshakespeare/input.txt").write_text(text)
        records = self.expect(0, "new", "poet", "--from", "shakespeare", "--json").records[0]
        self.assertEqual(len(records["next"]), 3)
        cut = " run.steps=2 batch.global=2 batch.eval=2 evaluate.every=0 evaluate.batches=1 optimizer.schedule.warmup_steps=0"
        for command in records["next"][1:]:
            done = self.shell(command + (cut if command.startswith("plait run") else ""))
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        shutil.copytree(self.folder / "data/tinyshakespeare", self.folder / "my data/x/tinyshakespeare")
        spaced = self.expect(0, "new", "poet2", "--from", "shakespeare", "--json", "--data", "my data/x").records[0]["next"]
        self.assertEqual(len(spaced), 3)
        # A new folder in one that is called data is not the data folder.
        inside = self.expect(0, "new", "data/poet2", "--from", "shakespeare", "--json", "--data", "my data/x").records[0]["next"]
        self.assertEqual(inside, [*spaced[:2], spaced[2].replace("poet2", "data/poet2")])
        for command in spaced[1:]:
            done = self.shell(command + (cut if command.startswith("plait run") else ""))
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for name in ("mnist_mlp", "mnist_3d", "pipelines", "tiny"):
            for command in self.expect(0, "new", f"my_{name}", "--from", name, "--json").records[0]["next"]:
                if not command.startswith("plait run"):
                    continue
                words = command.replace("plait run", "plait plan", 1)
                made_up = '{type="synthetic",samples=2000,shape=[28,28],classes=10}'
                done = self.shell(words + (f" 'data.train={made_up}' 'data.eval={made_up}'" if "mnist" in name else ""))
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_hints(self):
        self.expect(0, "run", "t.toml", "--run-dir", "r", "-q")
        self.after("run", "t.toml", "--run-dir", "r", code=2)  # there is a run already: the whole command
        self.after("run", "t.toml", "run.steps=50", "optimizer.beta1=0.8", "--run-dir", "r", code=2)
        self.after("new", "--list", least=0)
        self.after("plugins", "linaer", code=2, least=2)
        self.after("ops", "matmull", code=2)
        self.after("keys", "sed", code=2)
        self.after("chekc", code=2, least=0)
        self.after("run", code=2, least=1)
        self.after("run", "t.toml", "--rum-dir", "d", code=2)
        self.after("plot", "none", code=2, least=0)
        self.expect(0, "run", "t.toml", "-q")  # so that there are runs to list
        self.after("compare", "none", code=2)
        self.after("eval", "t.toml", code=2)
        self.after("plan", "t.toml", least=0)
        self.after("--help", least=2)
        self.after("data", "show", least=0)
        self.after("env", least=0)
        self.after("sweep", "t.toml", "run.seed=1,2", "run.steps=2", least=1)

    def test_an_interrupted_run(self):
        (self.folder / "a b").mkdir()
        self.write("a b/t.toml", TINY)
        words = ["run", "a b/t.toml", "run.steps=1000000000", "model.layers[0].out=17", "--set", "run.log_every=100", "--run-dir", "my run"]
        run = subprocess.Popen([PLAIT, *words], cwd=self.folder, env=self.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        metrics, end = self.folder / "my run/metrics.ndjson", time.monotonic() + TIME
        while not (metrics.exists() and metrics.stat().st_size) and time.monotonic() < end:
            time.sleep(0.02)
        run.send_signal(signal.SIGINT)
        out, _ = run.communicate(timeout=TIME)
        self.assertEqual(run.returncode, 4, out)
        told = self.expect(0, "status", "my run").out
        for text in (out, told):
            [command] = commands_in(text, ("must",))
            self.assertIn("--resume must", command)
            step = re.search(r'"step":(\d+)', metrics.read_text().splitlines()[-1])[1]
            done = self.shell(command + f" run.steps={int(step) + 5}")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_until(self):
        self.paste(self.expect(0, "run", "t.toml", "--run-dir", "r", "--until", "10").out)

    def test_other_optimizer(self):
        """The key that a message names can be put behind the command."""
        self.expect(0, "run", "t.toml", "optimizer.type=sgd", "--run-dir", "r", "-q")
        err = self.fails(2, ["run", "t.toml", "run.steps=60", "--run-dir", "r", "--resume", "must"]).err
        key, value = re.search(r"resume with (\S+) = (\S+),", err).groups()
        self.expect(0, "run", "t.toml", "run.steps=60", f"{key}={value}", "--run-dir", "r", "--resume", "must")

    def test_examples_of_help(self):
        self.expect(0, "new", "demo", "--from", "tiny")
        self.expect(0, "data", "show")
        for verb in [*VERBS, "data get", "data show", "data tokenize"]:
            text = self.expect(0, "help", *verb.split()).out
            self.assertIn("\nExamples:\n  ", text, verb)
            for command in text.split("\nExamples:\n")[1].split("\n\n")[0].splitlines():
                command = command.strip()
                if PLACEHOLDER.search(command) or "*.txt" in command or command.startswith("plait data get") or "fish" in command:
                    continue
                if command.startswith("plait new "):
                    command += " --yes"
                if command.startswith("plait submit "):  # there may be no Slurm, and no plugin for GPUs
                    command = command.replace(" run.device=cuda", "") + " --print"
                done = self.shell(command.replace("~/.zfunc", "."))
                self.assertEqual(done.returncode, 0, f"{command}\n{done.stdout}\n{done.stderr}")

    def test_the_man_page(self):
        page = re.sub(r"\\f[A-Z]", "", (ROOT / "bindings/cli/plait.1").read_text()).replace("\\-", "-").replace("\\(aq", "'")
        for line in page.split(".SH EXAMPLES\n.nf\n")[1].split(".fi")[0].splitlines():
            if line.startswith("plait") and not PLACEHOLDER.search(line):
                for command in line.split("&&"):
                    verb = command.split()[1]
                    self.assertIn(verb, VERBS)


if __name__ == "__main__":
    unittest.main()
