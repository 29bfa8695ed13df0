"""Commands that Plait prints to be pasted, and the scripts of plait submit: whatever a path or a value is, bash reads it back as it was."""

import json
import os
import re
import shutil
import subprocess
import unittest

from support import PLAIT, TIME, TINY, Case

# Programs that note their arguments, each ended by a NUL.
NOTES = '#!/bin/sh\nprintf "%s\\0" "$@" > "$TAKEN/{name}"\n'
# What a shell would run if a word were not quoted.
RUN = "touch run-by-the-shell"
SPECIAL = " '\"\\$`!#&;|<>(){}[]*?~^=%,:@+-.\t\n\r\x01\x1b\x7f"
# Around a command: what could end the quotes, the line or the comment in which a word stands.
AROUND = ["$({})", "`{}`", ";{};", "'; {}; '", '"; {}; "', "\n{}\n", "a\n{} #", "&& {}", "| {}", "a' $({}) 'b", "\\'; {} #", "'\n{}\n'", '"\n{}\n"',
          "\\\n{}", "$'\\n{}'", "EOF\n{}", "#\n{}", "\r\n{}\r\n", "<({})"]
NASTY = list(dict.fromkeys([
    *SPECIAL[:-9], *(f"a{c}b" for c in SPECIAL), *(f"{c}{c}" for c in "'\"\\$`-~#!\n"), *(around.format(RUN) for around in AROUND),
    *"$HOME ${HOME} $$ $? $@ $1 ~root ~/x a=~ ** [a-z]* {a,b} {1..9} !$ ^a^b $'\\x41' $\"x\" \\n %n%s --help - -rf --run-dir --json=1 @file '\\'' \"'\" nul if then done }".split(),
    "%j %a", "a  b", " a", "a ", "a.toml b.toml", "é ü", "日本語", "\u202ea", "a\u00a0b", "\ufeffa", "x" * 200,
]))


def toml(text):
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")  # which JSON does not need


class Quoting(Case):
    def setUp(self):
        super().setUp()
        self.assertGreaterEqual(len(NASTY), 100)
        self.write("t.toml", TINY.replace("steps = 40", "steps = 2"))
        self.taken = self.folder / "taken"
        self.bin = self.folder / "bin"
        for path in (self.bin, self.taken):
            path.mkdir()
        for name in ("plait", "srun", "scontrol"):
            (self.bin / name).write_text(NOTES.format(name=name))
            (self.bin / name).chmod(0o755)

    def shell(self, program, *words):
        """What `program` is given where bash runs the words."""
        environment = {**self.environment(), "PATH": f"{self.bin}:/usr/bin:/bin", "TAKEN": str(self.taken), "HOME": "/nowhere", "SLURM_JOB_ID": "7"}
        done = subprocess.run(["bash", *words], cwd=self.folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIME)
        self.assertEqual((done.returncode, done.stderr), (0, ""), words)
        self.assertFalse((self.folder / "run-by-the-shell").exists(), words)
        self.assertEqual([path.name for path in self.taken.iterdir()], [program], words)
        note = self.taken / program
        given = note.read_bytes().decode().split("\0")[:-1]
        note.unlink()
        return given

    def groups(self, size):
        """The texts in groups: a path, a run directory and values."""
        texts = NASTY + NASTY[: -len(NASTY) % size]
        for file, run, *values in zip(*(texts[i::size] for i in range(size))):
            file, run = (f"./{text}" if text.startswith("-") else text for text in (f"{file}.toml", f"{run}.run"))
            (self.folder / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(self.folder / "t.toml", self.folder / file)
            yield file, run, [f"wandb.group={toml(text)}" for text in values]

    def same(self, given, expected):
        """Paths may have a ./ in front."""
        self.assertEqual([word.removeprefix("./") for word in given], [word.removeprefix("./") for word in expected])

    def test_commands_that_go_on(self):
        for file, run, values in self.groups(5):
            with self.subTest(file=file, run=run, values=values):
                words = ["run", file, *(word for value in values for word in ("--set", value)), "--run-dir", run]
                out = self.expect(0, *words, "--until", "1").out
                command = re.search(r"to resume: (plait run .* --resume must)$", out, re.M)
                self.assertTrue(command, out)
                self.same(self.shell("plait", "-c", command[1]), [*words, "--resume", "must"])
                # There is a run already.
                err = self.expect(2, *words).err
                command = re.search(r"\((plait run .* --resume auto)\), or name another folder", err)
                self.assertTrue(command, err)
                self.same(self.shell("plait", "-c", command[1]), [*words, "--resume", "auto"])

    def test_scripts_of_submit(self):
        for file, run, values in self.groups(6):
            with self.subTest(file=file, run=run, values=values):
                words = ["submit", file, *values, "--run-dir", run, "--print"]
                if re.search(r"[\x00-\x1f\x7f]", run):  # it would be a line of options for sbatch
                    self.fails(2, words, "has a line break or another control character")
                    continue
                self.write("script", self.expect(0, *words).out)
                given = self.shell("srun", "script")
                self.assertEqual(given[:3], ["--kill-on-bad-exit=0", os.path.realpath(PLAIT), "run"])
                self.assertEqual(os.path.normpath(self.folder / given[3]), os.path.normpath(self.folder / file))
                self.same(given[4:], [*values, "--run-dir", run, "--resume", "auto"])

    def test_files_that_become_toml(self):
        for name in ("a\x7fb.csv", 'a"b\\c.csv', "a\nb.csv"):
            self.write(name, "x,y\n1,2\n3,4\n")
            self.assertEqual(self.expect(0, "--json", "data", "show", name).records[0]["samples"], 2, name)
        (self.folder / os.fsdecode(b"a\xff.csv")).write_text("x,y\n1,2\n")
        self.fails(2, ["data", "show", os.fsdecode(b"a\xff.csv")], "is not UTF-8, as texts of an experiment are; give it in UTF-8; a file can be renamed")


if __name__ == "__main__":
    unittest.main()
