"""What a shell offers behind a line: asked of plait itself, and of real shells that have loaded the scripts."""

import os
import pathlib
import pty
import re
import select
import shlex
import shutil
import subprocess
import time
import unittest

from support import Case, PLAIT, TIME, TINY


class Completion(Case):
    def setUp(self):
        super().setUp()
        self.write("t.toml", TINY)

    def environment(self):
        """With plait as a command, for the scripts call what the line begins with."""
        return {**super().environment(), "PATH": f"{pathlib.Path(PLAIT).parent}:{os.environ['PATH']}", "HOME": str(self.folder)}


class Offers(Completion):
    def offers(self, *words):
        """{candidate: help}, in order."""
        lines = self.expect(0, "__complete", "fish", *words).out.splitlines()
        return dict(line.split("\t") if "\t" in line else (line, "") for line in lines)

    def names(self, *words):
        return list(self.offers(*words))

    def test_verbs_and_options(self):
        self.assertEqual(self.names("pl"), ["plan", "plot", "plugins"])
        self.assertEqual(self.names("--json", "--data", "x", "pl"), ["plan", "plot", "plugins"])
        self.assertEqual(self.names("run", "--re"), ["--resume"])  # not --report, of plugins
        self.assertEqual(self.names("run", "--resume", ""), ["auto", "never", "must"])
        self.assertEqual(self.names("run", "--resume=a"), ["--resume=auto"])
        self.assertEqual(self.names("--data", "d", "run", "demo", "--se"), ["--set"])
        self.assertEqual(self.names("data", ""), ["get", "tokenize", "show"])
        self.assertEqual(self.names("data", "tokenize", "--st"), ["--strict"])
        self.assertEqual(self.names("checkpoint", ""), ["ls", "verify", "diff", "convert"])
        self.assertEqual(self.names("checkpoint", "diff", "--only", ""), ["tensors", "parameters"])
        self.assertEqual(self.names("help", "pro"), ["profile"])
        self.assertEqual(self.names("completion", ""), ["bash", "zsh", "fish"])
        self.assertIn("--json", self.names("check", "--"))
        self.assertEqual(self.names("new", "demo", "--from", "mnist_m"), ["mnist_mlp"])
        self.assertEqual(self.names("run", ""), [":files"])
        self.assertEqual(self.names("--data", ""), [":folders"])
        self.assertEqual(self.names("data", "get", ""), ["mnist", "fashion-mnist", "tinyshakespeare"])
        self.assertEqual(self.names("run", "t.toml", "--ranks", ""), [])  # a number, and no file
        self.assertEqual(self.names("submit", "t.toml", "--ra"), ["--ranks", "--ranks-per-node"])
        self.assertEqual(self.names("submit", "t.toml", "optimizer.lea"), ["optimizer.learning_rate="])
        self.assertEqual(self.names("plugins", "adamw"), ["adamw"])
        self.assertEqual(self.names("ops", "matmu"), ["matmul"])
        self.assertEqual(self.names("nonsense", "x"), [])
        self.assertEqual(self.names("export", ""), ["hf", "peft", ":files"])
        self.assertEqual(self.names("export", "h"), ["hf", ":files"])
        self.assertEqual(self.names("import", ""), ["hf", "peft"])
        self.assertEqual(self.names("import", "hf", ""), [":folders"])

    def test_what_keys_data_and_sweep_take(self):
        self.assertEqual(self.names("data", "get", ""), ["mnist", "fashion-mnist", "tinyshakespeare"])
        self.assertEqual(self.names("data", "get", "mnist", ""), [])
        self.assertTrue({"optimizer.groups", "optimizer.groups.match"} <= set(self.names("keys", "optimizer.g")))
        self.assertEqual(self.names("keys", "optimizer.learning"), ["optimizer.learning_rate"])
        self.assertIn("learning_rate", self.names("keys", "learn"))
        self.assertTrue({"run", "optimizer", "optimizer.schedule", "adamw"} <= set(self.names("keys", "")))
        self.assertNotIn("learning_rate", self.names("keys", ""))
        self.assertIn("optimizer", self.names("keys", "run", "op"))
        self.assertEqual(self.names("sweep", "t.toml", "--metric", ""), ["mean_loss", "eval/loss", "eval/accuracy"])
        self.assertEqual(self.names("sweep", "t.toml", "metrics[0].name=hits", "--metric", "eval/h"), ["eval/hits"])
        self.assertEqual(self.names("sweep", "t.toml", "~data.eval", "--metric", ""), ["mean_loss"])

    def test_values_of_runs_and_of_sweeps(self):
        self.expect(0, "run", "t.toml", "run.log_every=10", "--run-dir", "runs/r", "-q")
        self.assertEqual(self.names("plot", "runs/r", "--value", "eval/"), ["eval/accuracy", "eval/loss"])
        self.assertEqual(self.names("plot", "runs/r", "--value=mean"), ["--value=mean_loss"])
        for words in (["runs", "--sort", "los"], ["board", "--value", "los"], ["runs", "runs", "--value", "los"]):
            self.assertEqual(self.names(*words), ["loss"], words)
        self.assertEqual(self.plait("__complete", "fish", "plot", "nowhere", "--value", "").out, "")
        key = "optimizer.type="
        self.assertEqual(self.names("sweep", "t.toml", key + "adamw,ada"), [f"{key}adamw,{name}" for name in ("adafactor", "adagrad", "adam")])
        self.assertIn(key + "adamw,sgd,lion", self.names("sweep", "t.toml", key + "adamw,sgd,"))
        self.assertEqual(self.names("sweep", "t.toml", "run.seed=0,42,"), [])
        self.assertEqual(self.names("sweep", "t.toml", "model.load=a.safetensors,"), [])
        self.assertEqual(self.names("run", "t.toml", key + "adamw,"), [])  # one value alone

    def test_keys(self):
        self.assertEqual(self.names("run", "t.toml", "optimizer.lea"), ["optimizer.learning_rate="])
        self.assertEqual(self.names("run", "t.toml", "opt"), ["optimizer."])
        self.assertEqual(self.names("plan", "t.toml", "--set", "run.se"), ["run.seed="])
        self.assertEqual(self.offers("run", "t.toml", "model.l"), {"model.layers[0].": "linear, out = 16", "model.layers[1].": "relu",
                         "model.layers[2].": "dropout, p = 0.1", "model.layers[3].": "linear, out = 3", "model.load=": self.offers("run", "t.toml", "model.load")["model.load="],
                         **{key: self.offers("run", "t.toml", key[:-1])[key]
                            for key in ("model.load_names=", "model.load_missing=", "model.load_unexpected=")}})
        self.assertIn("width of the output [16]", self.offers("run", "t.toml", "model.layers[0].o").values())
        # A table that the file does without; with its item, that one's options.
        self.assertEqual(self.names("run", "t.toml", "optimizer.schedule."), ["optimizer.schedule.type="])
        self.assertIn("optimizer.schedule.warmup_steps=", self.names("run", "t.toml", "optimizer.schedule.type=cosine", "optimizer.schedule."))
        self.assertEqual(self.names("run", "t.toml", "optimizer.type=sgd", "optimizer.n"), ["optimizer.nesterov="])
        # Only what the file sets can be removed.
        self.assertEqual(self.names("run", "t.toml", "~optimizer."), ["~optimizer.learning_rate", "~optimizer.type"])

    def test_values(self):
        self.assertEqual(self.names("run", "t.toml", "optimizer.type=ada"), [f"optimizer.type={name}" for name in ("adafactor", "adagrad", "adam", "adamw")])
        self.assertEqual(self.names("run", "t.toml", "checkpoint.at_end="), ["checkpoint.at_end=true", "checkpoint.at_end=false"])
        self.assertEqual(self.names("run", "t.toml", "precision.compute=f"), ["precision.compute=f32", "precision.compute=f64", "precision.compute=f16"])
        self.assertEqual(self.names("run", "t.toml", "model.layers[0].parallel="), [f"model.layers[0].parallel={way}" for way in ("none", "column", "row")])
        self.assertEqual(self.names("run", "t.toml", "run.device=cp"), ["run.device=cpu"])
        self.assertIn("topology.backend=auto", self.names("run", "t.toml", "topology.backend="))
        self.assertEqual(self.names("run", "t.toml", "optimizer.learning_rate="), ["optimizer.learning_rate=0.01"])
        self.assertEqual(self.names("run", "t.toml", "model.load="), [":files"])

    def test_files_with_problems(self):
        self.write("bad.toml", '[optimizer]\ntype = "sgd"\nlearning_rat = 3\n')
        self.assertEqual(self.names("run", "bad.toml", "optimizer.mom"), ["optimizer.momentum="])
        self.assertEqual(self.names("run", "absent.toml", "run.see"), ["run.seed="])
        os.mkfifo(self.folder / "pipe")
        for unread in ("pipe", "-"):
            self.assertEqual(self.names("run", unread, "run.see"), ["run.seed="])

    def test_every_declared_key_is_offered(self):
        """Whatever `plait bind` prints can be reached."""
        values = self.expect(0, "bind", "t.toml", "--json").records[0]["values"]
        for path, value in values.items():
            key = value.get("key", path)
            self.assertIn(key + "=", self.names("run", "t.toml", key), key)


class Shells(Completion):
    def bash(self, line):
        """What bash offers behind the line, split into words as readline does."""
        words = [part for part in re.split(r"(\s+|=)", line) if part and not part.isspace()]
        if line.endswith(" "):
            words.append("")
        script = self.expect(0, "completion", "bash").out
        script += "COMP_WORDS=(" + " ".join(map(shlex.quote, words)) + f")\nCOMP_CWORD={len(words) - 1}\n"
        script += f"COMP_LINE={shlex.quote(line)}; COMP_POINT={len(line)}; COMPREPLY=(); _plait; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        done = subprocess.run(["bash", "-c", script], cwd=self.folder, env=self.environment(), capture_output=True, text=True, timeout=TIME)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.split("\n")[:-1]

    def test_bash(self):
        self.write("a b.toml", "")
        self.assertEqual(self.bash("plait pl"), ["plan", "plot", "plugins"])
        self.assertEqual(self.bash("plait run a"), ["a b.toml"])
        self.assertEqual(self.bash("plait run t.toml optimizer.lea"), ["optimizer.learning_rate="])
        self.assertEqual(self.bash("plait run t.toml optimizer.type=adamw"), ["adamw"])  # bash replaces what follows the =
        self.assertEqual(self.bash("plait run t.toml optimizer.type="), self.bash("plait run t.toml --set optimizer.type="))
        self.assertEqual(self.bash("plait run t.toml model.load=t."), ["t.toml"])
        self.assertEqual(self.bash("plait run --resume=a"), ["auto"])
        self.assertEqual(self.bash("plait sweep t.toml optimizer.type=sgd,ada"), [f"sgd,{name}" for name in ("adafactor", "adagrad", "adam", "adamw")])
        self.assertEqual(self.bash("plait sweep t.toml optimizer.type=sgd,lio"), ["sgd,lion"])
        self.assertEqual(self.bash("plait run t.toml  run.see"), ["run.seed="])  # two blanks
        (self.folder / "sub").mkdir()
        self.assertEqual(self.bash("plait --data su"), ["sub"])
        # Words before the last one may be quoted.
        for file in ("'t.toml'", r"t\.toml", '"t.toml"', "~/t.toml"):
            self.assertEqual(self.bash(f"plait run {file} model.layers[0].o"), ["model.layers[0].out="], file)

    def typed(self, command, start, line, done):
        """The screen of an interactive shell after `line`, which ends with a tab: when done(screen), or after 20 s."""
        child, terminal = pty.fork()
        if child == 0:
            os.chdir(self.folder)
            os.execvpe(command[0], command, {**self.environment(), "TERM": "dumb", "PS1": "> "})
        screen = ""
        try:
            for text, wanted in ((start + "\necho rea''dy\n", r"ready\r?\n"), (line, None)):
                os.write(terminal, text.encode())
                end = time.monotonic() + TIME if wanted else time.monotonic() + 20
                while time.monotonic() < end and not (re.search(wanted, screen) if wanted else done(screen)):
                    if select.select([terminal], [], [], 0.1)[0]:
                        screen += os.read(terminal, 4096).decode(errors="replace")
        finally:
            os.kill(child, 9)
            os.close(terminal)
            os.waitpid(child, 0)
        return screen

    @staticmethod
    def has_key(screen):
        return "learning_rate=" in screen

    def test_interactive_bash(self):
        screen = self.typed(["bash", "--norc", "-i"], "source <(plait completion bash)", "plait run t.toml optimizer.lea\t", self.has_key)
        self.assertIn("optimizer.learning_rate=", screen)

    @unittest.skipUnless(shutil.which("zsh"), "needs zsh")
    def test_interactive_zsh(self):
        script = self.expect(0, "completion", "zsh").out
        done = subprocess.run(["zsh", "-n", "-c", script], capture_output=True, text=True, timeout=TIME)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        start = "autoload -U compinit; compinit -u -D; source <(plait completion zsh)"
        screen = self.typed(["zsh", "-f", "-i"], start, "plait run t.toml optimizer.lea\t", self.has_key)
        self.assertIn("optimizer.learning_rate=", screen)

    def zsh(self, *lines):
        """[what stands on the line behind a tab, then what _plait offers], for each line typed."""
        answer = self.folder / "answer"
        start = r"""autoload -U compinit; compinit -u -D; source <(plait completion zsh)
compadd() { local -a kept; [[ $funcstack[2] != _plait ]] || { builtin compadd -O kept "$@"; offered+=($kept) }; builtin compadd "$@" }
answer() { offered=(); zle complete-word; print -rl -- "$BUFFER" $offered > answer.new; mv answer.new answer }
zle -N answer; bindkey '^I' answer"""
        answers = []
        for line in lines:
            answer.unlink(missing_ok=True)
            self.typed(["zsh", "-f", "-i"], start, line + "\t", lambda screen: answer.exists())
            self.assertTrue(answer.exists(), line)
            answers.append(answer.read_text().split("\n")[:-1])
        return answers

    @unittest.skipUnless(shutil.which("zsh"), "needs zsh")
    def test_zsh(self):
        (self.folder / "a b.toml").write_text(TINY)
        (self.folder / "sub").mkdir()
        cases = {
            "plait pl": ["plait pl", "plan", "plot", "plugins"],
            "plait run --resume=a": ["plait run --resume=auto ", "--resume=auto"],
            "plait run t.toml optimizer.type=adamw": ["plait run t.toml optimizer.type=adamw ", "optimizer.type=adamw"],
            "plait run a": [r"plait run a\ b.toml "],
            "plait run t.toml model.load=su": ["plait run t.toml model.load=sub/"],
            "plait sweep t.toml optimizer.type=sgd,lio": ["plait sweep t.toml optimizer.type=sgd,lion ", "optimizer.type=sgd,lion"],
            "plait --data su": ["plait --data sub/"],
            # The shell quotes brackets; words may be quoted in every way.
            r"plait run a\ b.toml model.layers\[0\].o": [r"plait run a\ b.toml model.layers\[0\].out=", "model.layers[0].out="],
            "plait run 'a b.toml' 'model.layers[0].o": ["plait run 'a b.toml' 'model.layers[0].out=", "model.layers[0].out="],
            "plait run ~/t.toml '~optimizer.l": ["plait run ~/t.toml '~optimizer.learning_rate' ", "~optimizer.learning_rate"],
        }
        for line, answer in zip(cases, self.zsh(*cases)):
            self.assertEqual(answer, cases[line], line)

    @unittest.skipUnless(shutil.which("fish"), "needs fish")
    def test_fish(self):
        (self.folder / "plait.fish").write_text(self.expect(0, "completion", "fish").out)
        (self.folder / "a b.toml").write_text(TINY)
        (self.folder / "my dir/in").mkdir(parents=True)
        (self.folder / "sub").mkdir()
        out, key = ["model.layers[0].out="], ["optimizer.learning_rate="]
        cases = {
            "plait pl": ["plan", "plot", "plugins"],
            "plait run --re": ["--resume"],
            "plait run --resume=a": ["--resume=auto"],
            "plait run t.toml optimizer.lea": key,
            "FOO=1 plait run t.toml optimizer.lea": key,
            "plait run t.toml optimizer.type=adamw": ["optimizer.type=adamw"],
            "plait sweep t.toml optimizer.type=sgd,lio": ["optimizer.type=sgd,lion"],
            "plait run t": ["t.toml"],
            "plait run a": ["a b.toml"],
            "plait run t.toml model.load=t": ["model.load=t.toml"],
            "plait run t.toml model.load=su": ["model.load=sub/"],
            "plait run t.toml --run-dir=my": ["--run-dir=my dir/"],
            "plait --data su": ["sub/"],
            "plait --data t": [],  # a file is no folder
            "plait run ~/t": ["~/t.toml"],
            # The word itself may be quoted in every way, and so may those before it.
            r"plait run a\ ": ["a b.toml"],
            'plait run "a b': ["a b.toml"],
            r"plait run t.toml model.load=my\ dir/": ["model.load=my dir/in/"],
            'plait run t.toml "model.load=my dir/': ["model.load=my dir/in/"],
            r"plait run a\ b.toml model.layers\[0\].o": out,
            "plait run 'a b.toml' 'model.layers[0].o": out,
            "plait run ~/t.toml model.layers[0].o": out,
            "plait run t.toml '~optimizer.l": ["~optimizer.learning_rate"],
        }
        (self.folder / "lines").write_text("\n".join(cases) + "\n")
        ask = "source plait.fish; while read -l line; echo \\[$line; complete -C $line; end < lines"
        done = subprocess.run(["fish", "--no-config", "-c", ask], cwd=self.folder, env=self.environment(),
                              capture_output=True, text=True, timeout=TIME)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        answers = re.split(r"^\[.*\n", done.stdout, flags=re.M)[1:]
        self.assertEqual(len(answers), len(cases))
        for (line, expected), answer in zip(cases.items(), answers):
            self.assertEqual([offer.split("\t")[0] for offer in answer.splitlines()], expected, line)

    @unittest.skipUnless(shutil.which("fish"), "needs fish")
    def test_interactive_fish(self):
        """As an installation has it: in a folder that fish looks into by itself."""
        place = self.folder / ".config/fish/completions"
        place.mkdir(parents=True)
        (place / "plait.fish").write_text(self.expect(0, "completion", "fish").out)
        screen = self.typed(["fish", "-i"], "cd", "plait run t.toml optimizer.lea\t", self.has_key)
        self.assertIn("optimizer.learning_rate=", screen)


if __name__ == "__main__":
    unittest.main()
