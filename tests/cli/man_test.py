"""The manual page agrees with the program: it has every verb and option, and no others."""

import re
import shutil
import subprocess
import unittest

from support import Case, ROOT

PAGE = ROOT / "bindings/cli/plait.1"


def plain(roff):
    """Text of the page without escapes and fonts."""
    return re.sub(r"\\f[A-Z]", "", roff).replace("\\-", "-")


def sections(text):
    """Verb -> its part of the page."""
    parts = re.split(r"^\.SS (\S+)$", text.split("\n.SH VERBS\n")[1].split("\n.SH ")[0], flags=re.M)
    return dict(zip(parts[1::2], parts[2::2]))


def options_in_page(text):
    """The options that have a paragraph of their own."""
    return {name for line in re.findall(r"^\.TP\n(\..*)$", text, re.M) for name in re.findall(r"(?<![\w-])--?[a-zA-Z][a-z-]*", line)}


class Page(Case):
    def help_of(self, *verbs):
        return self.expect(0, *verbs, "--help").out

    def listed(self, text, title):
        """Names in a part of a help text: of verbs or options."""
        part = re.search(rf"^{title}:\n((?:  .*\n)+)", text, re.M)
        heads = re.findall(r"^  (\S+)", part[1], re.M) if part else []
        return {name for head in heads for name in re.split(r"[,=]", head)}

    def options(self, *verbs):
        """Including the options of the verb's subcommands."""
        text = self.help_of(*verbs)
        found = self.listed(text, "Options") - {"-h", "--help"}
        for inner in self.listed(text, "Subcommands") if verbs else ():
            found |= self.options(*verbs, inner)
        return found

    def setUp(self):
        super().setUp()
        self.text = plain(PAGE.read_text())
        self.verbs = sections(self.text)

    def test_verbs(self):
        known = self.listed(self.help_of(), "Subcommands")
        self.assertIn("run", known)
        self.assertEqual(set(self.verbs), known)
        for verb, part in self.verbs.items():
            self.assertIn(f"plait {verb}", part)
            for inner in self.listed(self.help_of(verb), "Subcommands"):
                self.assertIn(f"plait {verb} {inner}", part)

    def test_options(self):
        common = self.text.split("\n.SH OPTIONS OF EVERY VERB\n")[1].split("\n.SH ")[0]
        self.assertEqual(options_in_page(common), self.options() | {"-h", "--help"})
        some = set()
        for verb, part in self.verbs.items():
            self.assertEqual(options_in_page(part), self.options(verb), verb)
            some |= options_in_page(part)
        self.assertTrue({"--run-dir", "--resume", "--checkpoint", "--to"} <= some)

    def test_words_of_options(self):
        modes = re.search(r"--resume ([a-z|]+)", self.help_of("run"))[1].split("|")
        page = re.search(r"--resume \"? ?([a-z|]+)", self.verbs["run"])[1]
        self.assertEqual(set(page.split("|")), set(modes))
        for code in range(6):
            self.assertIn(f"\n.TP\n.B {code}\n", self.text.split("\n.SH EXIT STATUS")[1])

    def test_variables(self):
        """Those that env reports, and the ones read anywhere in the tree."""
        read = set()
        for folder in ("engine", "bindings/cli", "plugins"):
            for path in (ROOT / folder).rglob("*.[ch]pp"):
                # However it is asked for: a text that is the name of a variable and nothing else. Constants of the ABI are none.
                read |= set(re.findall(r'"(PLAIT_(?!ERR_|KIND_|OPT_)[A-Z_]+)"', path.read_text()))
        self.assertTrue({"PLAIT_DATA", "PLAIT_RANK"} <= read)
        for name in read:
            self.assertIn(name, self.text)

    @unittest.skipUnless(shutil.which("groff"), "needs groff")
    def test_it_is_sound_roff(self):
        done = subprocess.run(["groff", "-man", "-Tascii", "-ww", "-z", str(PAGE)], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main()
