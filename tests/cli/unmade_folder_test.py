"""Places at which no folder can be made: every command that makes one says what is in the way, and what to do."""

import os
import subprocess
import unittest

from support import PLAIT, TIME, TINY, Case


class UnmadeFolder(Case):
    def setUp(self):
        super().setUp()
        self.write("t.toml", TINY)
        self.write("a.txt", "a text")
        self.write("file", "in the way")
        (self.folder / "bin").mkdir()
        self.write("bin/sbatch", "#!/bin/sh\nexit 1\n")  # never comes to be called
        (self.folder / "bin/sbatch").chmod(0o755)
        self.expect(0, "run", "t.toml", "--run-dir", "r", "run.steps=2", "-q")

    def environment(self):
        return {**super().environment(), "PATH": f"{self.folder}/bin:{os.environ['PATH']}"}

    def commands(self, at):
        """Each with the end of its message."""
        run = "another place for the run's files, with --run-dir or run.out"
        return ((["run", "t.toml", "--run-dir", f"{at}/x"], run),
                (["run", "t.toml", f"run.out={at}/x"], run),
                (["sweep", "t.toml", "optimizer.learning_rate=0.1,0.2", "--dir", f"{at}/x"], "another place, with --dir"),
                (["submit", "t.toml", "--run-dir", f"{at}/x/r"], "another place, with --run-dir"),
                (["data", "tokenize", "a.txt", "--tokenizer", "bytes", "--out", f"{at}/x/o"], "another place, with --out"),
                (["new", f"{at}/x"], "another place, as plait new NAME"),
                (["export", "r", f"{at}/x"], "another place"),
                (["checkpoint", "convert", "r", f"{at}/x/y"], "another place"))

    def check(self, at, cause):
        for command, end in self.commands(at):
            with self.subTest(command=" ".join(command)):
                done = self.fails(3, command, "cannot make the folder '", cause)
                self.assertRegex(done.err, f"; (remove the link, or )?name {end}\n$")

    def test_below_a_file(self):
        self.check("file", "file, not a folder")

    def test_a_link_to_what_is_not_there(self):
        """The link and its target are named; the link itself may be the name that is given, too."""
        (self.folder / "gone").symlink_to("nowhere/at all")
        self.check("gone", "is a link to 'nowhere/at all', which is not there; remove the link, or ")
        for command, part in ((["new", "gone"], "cli"), (["run", "t.toml", "--run-dir", "gone"], "files")):
            self.fails(3, command, f"[{part}] cannot make the folder 'gone': it is a link to 'nowhere/at all', which is not there; remove the link, or name")
        (self.folder / "round").symlink_to("round")
        self.fails(3, ["new", "round"], "cannot make the folder 'round': it is a link that leads back to itself; remove the link, or name another place")

    def test_where_the_system_takes_none(self):
        self.check("/proc", "'/proc' takes no new files")

    def test_a_disk_that_is_read_only(self):
        (self.folder / "disk").mkdir()
        mount = ["unshare", "-m", "-r", "sh", "-c", 'mount -t tmpfs -o ro none disk && exec "$@"', "sh"]
        if subprocess.run([*mount, "true"], cwd=self.folder, capture_output=True, timeout=TIME).returncode:
            self.skipTest("no file systems can be mounted here")
        for command, end in self.commands("disk"):
            done = subprocess.run([*mount, PLAIT, *command], cwd=self.folder, env=self.environment(),
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIME)
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertRegex(done.stderr, f"cannot make the folder .*: the disk is read-only; name {end}\n$")

    def test_a_missing_folder_of_a_file(self):
        self.fails(3, ["export", "r", "none/w.safetensors"], "there is no folder 'none'; make it, or name another place")


if __name__ == "__main__":
    unittest.main()
