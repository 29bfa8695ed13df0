"""plait board: several runs on a terminal while they train, in a pipe, and as a page."""

import base64
import codecs
import fcntl
import hashlib
import html
import html.parser
import json
import os
import pathlib
import re
import select
import shutil
import signal
import struct
import subprocess
import termios
import time
import unittest
import xml.etree.ElementTree

from support import Case, PLAIT, TIME, TINY

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
LETTERS = {"LC_ALL": "C.UTF-8", "TERM": "xterm-256color"}


class Files(Case):
    """Runs that are made of files."""

    def made(self, name, losses, state="done", steps=100, accuracy=None, **more):
        folder = self.folder / name
        folder.mkdir(parents=True)
        (folder / "run.toml").write_text(f'[run]\nname = "{len(losses)}"\n')
        (folder / "status.json").write_text(json.dumps(dict(state=state, step=len(losses), steps=steps, **more)))
        (folder / "env.json").write_text(json.dumps(dict(time=1e9, host="elsewhere", process=1)))
        # What was started last comes first.
        self.started = getattr(self, "started", 1e9) - 1
        os.utime(folder / "env.json", (self.started, self.started))
        self.add(name, [dict(step=i + 1, time=1e9 + i, loss=loss, mean_loss=loss, lr=0.1) for i, loss in enumerate(losses)])
        if accuracy is not None:
            self.add(name, [dict(event="evaluate", step=len(losses), time=1e9, dataset="eval", loss=1, accuracy=accuracy)])

    def add(self, name, rows):
        with open(self.folder / name / "metrics.ndjson", "a") as file:
            file.write("".join(json.dumps(row) + "\n" for row in rows))


class Once(Files):
    def test_one_screen(self):
        self.made("runs/x/a", [4, 3, 2, 1], accuracy=0.5)
        self.made("runs/b", [1, 2, 3], state="failed")
        out = self.expect(0, "board", env={"LC_ALL": "C"}).out
        lines = out.splitlines()
        self.assertEqual(lines[0], "runs  1 done, 1 failed")
        self.assertEqual(lines[1].split(), ["run", "state", "step", "mean_loss", "eval/accuracy", "rate"])
        self.assertEqual(lines[2].split()[:6], ["*", "x/a", "done", "4/100", "1", "0.5"])
        self.assertEqual(lines[3].split()[:4], ["+", "b", "failed", "3/100"])
        self.assertEqual(lines[4], "loss")
        self.assertIn("* x/a   + b", lines[-1])
        self.assertEqual(out, self.expect(0, "board", "--once", env={"LC_ALL": "C"}).out)
        self.assertIn("1 of 2 runs; --limit 0 shows all", self.expect(0, "board", "--limit", "1").out)
        # Its curves are those of the runs that are listed.
        one = self.expect(0, "board", "--limit", "1", "--once", env={"LC_ALL": "C"}).out
        self.assertIn("x/a", one)
        self.assertNotIn("+ b", one)

    def test_names_are_whole(self):
        """They are to be copied."""
        name = "of-a-long-name/20261127-190827-1ae759"
        self.made(f"runs/{name}", [2, 1], accuracy=0.5)
        for out in (self.expect(0, "board").out, self.on_terminal("board", "--once", columns=60)):
            self.assertRegex(out, f" {name}  done ")
        self.assertIn("1ae759  done ", self.on_terminal("board", "--once", columns=40))

    def average(self, losses):
        """Each counts 2 % less than the one after it, as on the progress bar."""
        weights = [0.98 ** (len(losses) - 1 - i) for i in range(len(losses))]
        return sum(w * x for w, x in zip(weights, losses)) / sum(weights)

    def test_records(self):
        self.made("runs/a", [4, 3, 2, 1], accuracy=0.5)
        self.made("runs/b", [])
        record, = self.expect(0, "board", "--json").records
        self.assertEqual((record["schema"], record["count"], record["states"]), (1, 2, {"done": 2}))
        a, b = record["runs"]
        self.assertEqual((a["name"], a["run"], a["values"]["eval/accuracy"], a["step"]), ("a", "runs/a", 0.5, 4))
        self.assertAlmostEqual(a["average_loss"], self.average([4, 3, 2, 1]))
        self.assertEqual((b["average_loss"], b["seconds_left"], b["values"]), (None, None, {}))

    def test_several_folders_and_a_run(self):
        self.made("one/a", [2, 1])
        self.made("two/a", [2, 1])
        self.made("two/b", [2, 1])
        names = lambda *words: [run["name"] for run in self.expect(0, "board", *words, "--json").records[0]["runs"]]
        self.assertEqual(names("one", "two/b", "one/a/"), ["one/a", "two/b"])
        self.assertEqual(names("two"), ["a", "b"])
        self.assertEqual(names("two/a"), ["a"])
        self.assertEqual(names("two/a/"), ["a"])

    def test_what_runs_comes_first(self):
        self.write("t.toml", TINY)
        self.expect(0, "run", "t.toml", "--run-dir", "runs/old", "-q")
        command = [PLAIT, "run", "t.toml", "run.steps=100000000", "run.log_every=10", "--run-dir", "runs/live", "-q"]
        with subprocess.Popen(command, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
            try:
                end = time.monotonic() + 30
                while not (self.folder / "runs/live/metrics.ndjson").exists() and time.monotonic() < end:
                    time.sleep(0.05)
                self.made("runs/new", [1])
                os.utime(self.folder / "runs/new/env.json")
                runs = self.expect(0, "board", "--json").records[0]["runs"]
                self.assertEqual([(r["name"], r["state"]) for r in runs], [("live", "running"), ("new", "done"), ("old", "done")])
            finally:
                run.kill()
        runs = self.expect(0, "board", "--json").records[0]["runs"]
        self.assertEqual([(r["name"], r["state"]) for r in runs], [("new", "done"), ("live", "lost"), ("old", "done")])
        self.assertIsNone(runs[1]["seconds_left"])

    def test_names_are_untrusted(self):
        """No control character reaches the terminal, and no line is longer than it."""
        self.made("runs/\x1b[2J\x9b31m\u202eevil", [2, 1])
        (pathlib.Path(os.fsencode(self.folder).decode()) / "runs").joinpath(os.fsdecode(b"bytes\xff\x80")).mkdir()
        shutil.copytree(self.folder / "runs/\x1b[2J\x9b31m\u202eevil", self.folder / "runs" / os.fsdecode(b"bytes\xff\x80"), dirs_exist_ok=True)
        self.made("runs/" + "wide\u4e2d\u6587" * 20, [2, 1])
        for letters in ({"LC_ALL": "C"}, LETTERS):
            out = self.expect(0, "board", env=letters).out
            self.assertFalse(re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\ufffd]", out), ascii(out))
            self.assertTrue(all(len(line) <= 80 for line in out.splitlines()))
        self.expect(0, "board", "--json")

    def test_faults(self):
        self.fails(2, ["board"], "the runs in 'runs' cannot be listed")
        (self.folder / "runs").mkdir()
        self.assertEqual(self.expect(0, "board").out, "there are no runs in runs; plait run FILE makes one\n")
        self.made("runs/a", [2, 1])
        self.fails(2, ["board", "--value", "los"], "no run has values 'los' (did you mean 'loss'?); there are: loss, lr, mean_loss")
        self.fails(2, ["board", "--value", "loss", "--value", "lr"], "--html")
        self.fails(3, ["board", "--html", "no/where.html"], "cannot write 'no/where.html'")
        self.expect(0, "board", "--html", "out.html")
        page, out = (self.folder / "out.html").read_text(), self.expect(0, "board", "--html", "-").out
        self.assertEqual((out[:200], out[-200:]), (page[:200], page[-200:]))
        self.assertLess(abs(len(out) - len(page)), 100)  # which has the time
        self.fails(2, ["board", "--html", "-", "--json"], "[board] --html - and --json would both write to standard output")
        self.assertFalse((self.folder / "-").exists())
        before = (self.folder / "out.html").read_bytes()
        words = ["sh", "-c", 'ulimit -f 1; exec "$0" board --yes --html out.html', PLAIT]
        full = subprocess.run(words, cwd=self.folder, env=self.environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIME)
        self.assertEqual(full.returncode, 3)
        self.assertIn("cannot write 'out.html': File too large", full.stderr)
        self.assertEqual((self.folder / "out.html").read_bytes(), before)
        self.assertEqual([path.name for path in self.folder.glob("out.html*")], ["out.html"])
        os.chmod(self.folder / "out.html", 0o640)
        (self.folder / "link").symlink_to("out.html")
        (self.folder / "dangling").symlink_to("made.html")
        for name in ("link", "dangling"):
            self.expect(0, "board", "--yes", "--html", name)
            self.assertTrue((self.folder / name).is_symlink())
        self.assertEqual(os.stat(self.folder / "out.html").st_mode & 0o777, 0o640)
        self.assertEqual((self.folder / "made.html").read_bytes()[:15], b"<!DOCTYPE html>")
        self.assertIn("<!DOCTYPE html>", self.expect(0, "board", "--html", "/dev/stdout").out)  # a pipe
        self.made("runs/none", [])
        (self.folder / "runs/none/metrics.ndjson").unlink()
        os.mkfifo(self.folder / "runs/none/metrics.ndjson")
        self.assertIn("none", self.expect(0, "board").out)
        self.fails(2, ["board", "--html", "out.html"], "[board] 'out.html' exists; choose another name, or replace it with --yes")
        self.expect(0, "board", "--yes", "--html", "out.html")


class Window(Files):
    """A terminal with plait board in it."""

    def open(self, *words, columns=80, rows=24, env=None, **more):
        self.screen, terminal = os.openpty()
        self.resize(columns, rows)
        self.before = termios.tcgetattr(terminal)
        self.terminal = terminal

        def own():  # a session whose terminal it is, so that a lost terminal is a signal
            os.setsid()
            fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen([PLAIT, "board", *words], cwd=self.folder, stdin=terminal, stdout=terminal, stderr=terminal,
                                        env={**self.environment(), **LETTERS, **(env or {})}, preexec_fn=own, **more)
        self.addCleanup(self.close)
        self.text, self.decoder = "", codecs.getincrementaldecoder("utf-8")("replace")

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for end in (self.screen, self.terminal):
            try:
                os.close(end)
            except OSError:
                pass

    def resize(self, columns, rows):
        fcntl.ioctl(self.screen, termios.TIOCSWINSZ, struct.pack("4H", rows, columns, 0, 0))

    def press(self, keys):
        os.write(self.screen, keys.encode())

    def read(self, seconds):
        if select.select([self.screen], [], [], seconds)[0]:
            self.text += self.decoder.decode(os.read(self.screen, 1 << 16))  # may end in the middle of a letter

    def shown(self):
        """Lines of the newest whole screen, without colors."""
        whole = self.text.split("\x1b[H")[1:-1]  # the last one may still be coming
        text = whole[-1].removesuffix("\x1b[J").removesuffix("\r\r\n").removesuffix("\x1b[0m") if whole else ""
        return [re.sub("\x1b\\[[0-9;]*[mK]", "", line) for line in text.split("\r\r\n")]

    def until(self, seen):
        """Waits for a screen of which seen() is true."""
        end = time.monotonic() + TIME
        while not seen(self.shown()):
            self.assertLess(time.monotonic(), end, "\n".join(self.shown()))
            self.assertIsNone(self.process.poll(), self.text)
            self.read(0.5)
        return self.shown()

    def until_text(self, text):
        return self.until(lambda lines: any(text in line for line in lines))

    def ends(self):
        end = time.monotonic() + TIME
        while self.process.poll() is None and time.monotonic() < end:
            try:
                self.read(0.1)
            except OSError:
                break
        return self.process.wait(TIME)

    def restored(self):
        """The cursor is there, the first screen is, and the terminal echoes as before."""
        self.read(0.1)
        self.assertEqual(self.text.count("\x1b[?1049h"), self.text.count("\x1b[?1049l"))
        self.assertGreater(self.text.rfind("\x1b[?25h"), self.text.rfind("\x1b[?25l"))
        self.assertGreater(self.text.rfind("\x1b[?7h"), self.text.rfind("\x1b[?7l"))
        self.assertEqual(termios.tcgetattr(self.terminal), self.before)

    def test_a_second_interrupt_ends_a_view_that_is_stuck(self):
        """Nobody reads what it writes, so it waits for the terminal."""
        self.made("runs/a", list(range(1000, 0, -1)))
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(signal=number):
                self.open(columns=1000, rows=400)  # more than a terminal holds
                unread, end = [], time.monotonic() + TIME
                while len(unread) < 5 or unread[-1] == 0 or unread[-1] != unread[-5]:  # it draws every second
                    self.assertLess(time.monotonic(), end)
                    time.sleep(0.5)
                    unread.append(struct.unpack("i", fcntl.ioctl(self.screen, termios.FIONREAD, bytes(4)))[0])
                self.process.send_signal(number)
                with self.assertRaises(subprocess.TimeoutExpired):
                    self.process.wait(1)
                self.process.send_signal(number)
                self.assertEqual(self.process.wait(TIME), -number)
                self.assertEqual(termios.tcgetattr(self.terminal), self.before)

    def test_it_follows_the_files(self):
        self.made("runs/a", [4, 3, 2])
        self.open()
        self.until_text("3/100")
        self.add("runs/a", [dict(step=50, time=1e9 + 50, loss=1.5)])
        self.until_text("50/100")
        self.made("runs/b", [7, 7])
        lines = self.until(lambda lines: sum("/100" in line for line in lines) == 2)
        self.assertEqual(len(lines), 24)
        # The file is replaced by a shorter one.
        (self.folder / "runs/a/metrics.ndjson").write_text(json.dumps(dict(step=9, loss=1)) + "\n")
        (self.folder / "runs/a/status.json").write_text(json.dumps(dict(state="failed", step=9, steps=100)))
        self.until_text(" 9/100")
        self.press("q")
        self.assertEqual(self.ends(), 0)
        self.restored()

    def test_only_new_bytes_are_read(self):
        """What has been read is not read again: its place in the file may hold anything but for the last bytes."""
        self.made("runs/a", list(range(1000, 0, -1)), steps=5000)
        self.open()
        self.until(lambda lines: any("1000 ┤" in line for line in lines))
        with open(self.folder / "runs/a/metrics.ndjson", "r+") as file:
            file.write("x" * 1000)
        self.add("runs/a", [dict(step=2000, time=1e9 + 2000, loss=1.5)])
        self.assertTrue(any("1000 ┤" in line for line in self.until_text("2000/5000")))
        self.press("q")
        self.assertEqual(self.ends(), 0)

    def test_keys(self):
        for i in range(8):
            self.made(f"runs/r{i}", [4, 3, 2, 1])
        self.open(env={"NO_COLOR": ""})
        lines = self.until_text("r0")
        self.assertTrue(lines[-1].startswith("q quit  ↑↓ run"))
        self.assertEqual(sum("━" in line for line in lines[2:10]), 6)
        self.assertIn("\x1b[36m━", self.text)
        self.press("\x1b[B\x1b[B")
        self.until(lambda lines: lines[3].startswith("> "))
        self.press(" ")
        self.until(lambda lines: lines[3].startswith(">   r1"))
        self.press("\x1b[F \x1bOA")
        self.until(lambda lines: lines[9].startswith("  ━ r7") and lines[8].startswith(">   r6"))
        self.press("m")
        self.until_text("lr")
        self.press("M")
        self.press("l")
        self.until_text("loss (logarithmic)")
        self.press("\x1b[200~\x1bZ\xff?")  # nothing that it knows
        self.press("\x1b[H")
        self.until(lambda lines: lines[2].startswith("> "))
        self.press("q")
        self.assertEqual(self.ends(), 0)
        self.restored()

    def test_sizes(self):
        for i in range(30):
            self.made(f"runs/a-run-with-a-long-name-{i}", [4, 3, 2, 1], accuracy=0.5)
        for columns, rows in ((80, 24), (40, 24), (132, 50), (20, 8), (10, 4), (1, 1)):
            with self.subTest(columns=columns, rows=rows):
                self.open(columns=columns, rows=rows)
                lines = self.until(lambda lines: len(lines) > 1 or (rows == 1 and lines != [""]))
                self.assertLessEqual(len(lines), rows)
                self.assertTrue(all(len(line) <= columns for line in lines), lines)
                if columns >= 40:
                    self.assertEqual(len(lines), rows)
                    self.assertRegex(lines[2], r"-0 .* (4/100|done)")
                    self.assertTrue(any("┤" in line for line in lines), lines)
                self.resize(60, 20)
                os.kill(self.process.pid, signal.SIGWINCH)
                self.until(lambda lines: len(lines) == 20)
                self.press("q")
                self.assertEqual(self.ends(), 0)
                self.restored()

    def test_what_a_narrow_window_shows(self):
        self.made("runs/mnist/20261125-174400-abc123", [4, 3, 2, 1], state="interrupted", steps=4000, accuracy=0.5)
        self.open(columns=40)
        lines = self.until(lambda lines: len(lines) == 24)
        self.assertEqual(lines[1].split(), ["run", "state", "step", "mean_loss"])
        self.assertRegex(lines[2], r"^  ━ …\S*-abc123  interr…  4/4000 +1$")
        self.assertRegex(lines[-1], "^q quit  ")

    def test_a_limit(self):
        for i in range(6):
            self.made(f"runs/{i}", [3, 2, 1])
        self.open("--limit", "2", columns=80)
        lines = self.until(lambda lines: len(lines) == 24)
        self.assertEqual([line.split()[1] for line in lines[2:4]], ["0", "1"])
        self.assertFalse([line for line in lines[4:] if re.search("[━╌] [2-5]", line)])

    def test_without_letters_and_colors(self):
        self.made("runs/a", [4, 3, 2, 1])
        self.made("runs/b", [1, 2, 3, 4])
        self.open(env={"LC_ALL": "C"})
        lines = self.until(lambda lines: any("+ b" in line for line in lines))
        self.assertTrue(self.text.isascii())
        self.assertFalse(re.search("\x1b\\[[1-9][0-9;]*m", self.text), "a color in spite of NO_COLOR")
        self.assertTrue(any("* a" in line for line in lines))

    def test_every_end_puts_the_terminal_back(self):
        self.made("runs/a", [4, 3, 2, 1])
        for number, code in ((signal.SIGINT, 0), (signal.SIGTERM, -signal.SIGTERM), (signal.SIGHUP, -signal.SIGHUP), (signal.SIGQUIT, -signal.SIGQUIT)):
            with self.subTest(signal=number):
                self.open()
                self.until_text("4/100")
                self.process.send_signal(number)
                self.assertEqual(self.ends(), code)
                self.restored()
        self.open()
        self.until_text("4/100")
        self.press("\x03")
        self.assertEqual(self.ends(), 0)
        self.restored()

    def test_stopped_and_continued(self):
        self.made("runs/a", [4, 3, 2, 1])
        self.open()
        self.until_text("4/100")
        self.process.send_signal(signal.SIGTSTP)
        end = time.monotonic() + TIME
        # The session has no shell, so its group is an orphan, for which SIGTSTP does nothing but pass the handler.
        while self.text.count("\x1b[?1049l") < 1 and time.monotonic() < end:
            self.read(0.5)
        self.process.send_signal(signal.SIGCONT)
        while self.text.count("\x1b[?1049h") < 2 and time.monotonic() < end:
            self.read(0.5)
        self.assertEqual((self.text.count("\x1b[?1049l"), self.text.count("\x1b[?1049h")), (1, 2))
        self.press("q")
        self.assertEqual(self.ends(), 0)
        self.restored()

    def test_a_terminal_that_is_gone(self):
        self.made("runs/a", [4, 3, 2, 1])
        self.open()
        self.until_text("4/100")
        os.close(self.screen)
        self.assertIn(self.process.wait(TIME), (0, -signal.SIGHUP))

    def test_a_folder_that_is_empty_or_goes_away(self):
        (self.folder / "runs").mkdir()
        self.open()
        self.until_text("there are no runs in runs")
        self.made("runs/a", [4, 3, 2, 1])
        self.until_text("4/100")
        shutil.rmtree(self.folder / "runs")
        self.until_text("cannot be listed")
        self.press("q")
        self.assertEqual(self.ends(), 0)
        self.restored()


class Reader(html.parser.HTMLParser):
    """Elements of a page with their attributes, and the text of each kind of them."""
    EMPTY = {"meta", "input", "br", "link", "img"}

    def __init__(self, text):
        super().__init__()
        self.open, self.elements, self.texts = [], [], {}
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, f"</{tag}> closes another element"

    def handle_data(self, text):
        self.texts.setdefault(self.open[-1] if self.open else "", []).append(text)


EVIL = """<script>document.title = "evil"</script>"'&amp;<img src=x onerror=alert(1)>"""


class Page(Files):
    def page(self, *words):
        self.expect(0, "board", "--yes", "--html", "out.html", *words)
        self.text = (self.folder / "out.html").read_text()
        return Reader(self.text)

    def charts(self):
        """The charts as XML, by the title of each."""
        found = re.findall(r'<svg [^>]*class="chart".*?</svg>', self.text, re.S)
        return {chart.get("aria-label"): chart for chart in map(xml.etree.ElementTree.fromstring, found)}

    def test_runs_and_curves(self):
        self.made("runs/a", [4, 3, 2, 1], accuracy=0.5)
        self.made("runs/b", [1, 2, 3], state="failed", message="[data] a file is gone")
        page = self.page()
        self.assertEqual(page.open, [])
        charts = self.charts()
        self.assertEqual(list(charts), ["loss", "eval/accuracy", "eval/loss", "lr", "mean_loss"])
        space = "{http://www.w3.org/2000/svg}"
        lines = charts["loss"].findall(f"{space}polyline")
        self.assertEqual([line.get("data-run") for line in lines], ["0", "1"])
        self.assertEqual([len(line.get("points").split()) for line in lines], [4, 3])
        self.assertEqual(len(charts["eval/accuracy"].findall(f"{space}circle")), 1)
        # The script finds values again by the ranges of the axes.
        left, right, first, last = map(float, charts["loss"].get("data-x").split())
        bottom, top, low, high, log = map(float, charts["loss"].get("data-y").split())
        self.assertEqual((first, last, low, high, log), (1, 4, 1, 4, 0))
        corner = [tuple(map(float, p.split(","))) for p in lines[0].get("points").split()]
        self.assertEqual((corner[0], corner[-1]), ((left, top), (right, bottom)))
        for text in ("a file is gone", "run.name = &quot;4&quot;", "1.0000 (4)", "failed"):
            self.assertIn(text, self.text)

    def test_many_settings_are_folded(self):
        for name in ("a", "b"):
            self.made("runs/" + name, [2, 1])
            (self.folder / f"runs/{name}/run.toml").unlink()
            self.write(f"runs/{name}/run.toml", "[run]\n" + "".join(f'key{k} = "{name}"\n' for k in range(20)))
        self.assertEqual(self.page().open, [])
        rows = re.findall(r"<tr data-run.*?</tr>", self.text, re.S)[:2]
        for row in rows:
            self.assertEqual(row.split("<details>")[0].count("<code>"), 6)
            self.assertIn("<summary>14 more</summary>", row)
            self.assertEqual(row.count("<code>"), 20)

    def test_it_needs_nothing_else(self):
        self.made("runs/a", [4, 3, 2, 1])
        page = self.page()
        for tag, attributes in page.elements:
            self.assertNotIn(tag, ("link", "img", "iframe", "object", "base"))
            self.assertFalse({"src", "href", "style"} & set(attributes), (tag, attributes))
            self.assertFalse([name for name in attributes if name.startswith("on")])
        self.assertEqual(set(re.findall(r"https?://[^\"' ]*", self.text)), {"http://www.w3.org/2000/svg"})
        self.assertNotRegex("".join(page.texts["style"]), r"url\(|@import")

    def test_texts_are_escaped(self):
        name = EVIL.replace("/", "\u2215")
        self.made("runs/" + name, [4, 3, 2, 1], message=EVIL)
        (self.folder / "runs" / name / "overrides.txt").write_text(EVIL + "=1\n")
        self.add("runs/" + name, [{"step": 5, EVIL: 1, "loss": 1}, {"event": "evaluate", "step": 5, "dataset": EVIL, EVIL: 1}])
        self.made("runs/" + os.fsdecode(b"\xff\x1b"), [1, 2])
        page = self.page()
        self.assertEqual(page.open, [])
        self.assertEqual(sum(tag == "script" for tag, _ in page.elements), 1)
        self.assertNotIn("img", [tag for tag, _ in page.elements])
        self.assertIn(name, page.texts["bdi"])
        self.assertIn("\ufffd ", page.texts["bdi"])
        self.assertTrue(any(EVIL in text for text in page.texts["td"]))
        self.assertIn(EVIL, self.charts())
        digest = base64.b64encode(hashlib.sha256("".join(page.texts["script"]).encode()).digest()).decode()
        policy, = [a["content"] for tag, a in page.elements if a.get("http-equiv") == "Content-Security-Policy"]
        self.assertEqual(policy, f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'")

    def test_many(self):
        for i in range(30):
            self.made(f"runs/r{i}", [i + 4, 3, 2, 1])
        self.assertEqual(sum("data-switch" in a for _, a in self.page().elements), 20)
        self.assertIn("20 of 30 runs; --limit 0 shows all", self.text)
        self.assertEqual(sum("data-switch" in a for _, a in self.page("--limit", "0").elements), 30)
        looks = {(line.get("stroke"), line.get("stroke-dasharray")) for line in self.charts()["loss"].iter("{http://www.w3.org/2000/svg}polyline")}
        self.assertEqual(len(looks), 24)
        self.page("--value", "lr", "--value", "loss", "--log")
        self.assertEqual(list(self.charts()), ["lr", "loss"])
        self.fails(2, ["board", "--html", "los.html", "--value", "los"], "(did you mean 'loss'?)")
        self.add("runs/r0", [{"step": 9, **{f"value{i:02}": 1.0 for i in range(40)}}])
        self.page()
        self.assertEqual(len(self.charts()), 24)
        self.assertIn("24 of 43 values", self.text)

    def test_no_runs(self):
        (self.folder / "runs").mkdir()
        self.assertEqual(self.page().open, [])
        self.assertIn("there are no runs", self.text)

    @unittest.skipUnless(BROWSER, "needs chromium, to look at the page with a browser")
    def test_in_a_browser(self):
        name = EVIL.replace("/", "\u2215")
        self.made("runs/" + name, [4, 3, 2, 1], accuracy=0.5)
        self.made("runs/b", [1, 2, 3])
        self.page()
        command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={self.folder}/profile", "--enable-logging=stderr",
                   "--virtual-time-budget=2000"]
        url = f"file://{self.folder}/out.html"
        done = subprocess.run([*command, "--dump-dom", url], capture_output=True, text=True, timeout=TIME)
        self.assertEqual(done.returncode, 0, done.stderr)
        # The page's own script ran, nothing else did, and nothing was refused.
        self.assertRegex(done.stdout, r'<html[^>]* class="live"')
        self.assertRegex(done.stdout, "<title>Runs in runs</title>")
        self.assertNotIn("CONSOLE", done.stderr)
        # A curve is switched off, and the mouse is at the first point of the other.
        act = """<script>
          document.querySelector('input[data-switch="1"]').click();
          const chart = document.querySelector("svg.chart"), [left] = chart.dataset.x.split(" "), [, top_] = chart.dataset.y.split(" ");
          const at = new DOMPoint(left, top_).matrixTransform(chart.getScreenCTM());
          chart.dispatchEvent(new MouseEvent("mousemove", {clientX: at.x, clientY: at.y}));
        </script></body>"""
        self.write("act.html", re.sub('<meta http-equiv="Content-Security-Policy"[^>]*>', "", self.text).replace("</body>", act))
        dom = subprocess.run([*command, "--dump-dom", f"file://{self.folder}/act.html"], capture_output=True, text=True, timeout=TIME).stdout
        curves = re.findall(r'<polyline [^>]*class="([^"]*)" data-run="(\d)"', dom)
        self.assertEqual(curves[:2], [("curve", "0"), ("curve off faint", "1")])
        self.assertIn(html.escape(name + ": 4 at step 1", quote=False), re.search(r'<div id="tip"[^>]*>(.*?)</div>', dom)[1].replace("&nbsp;", " "))
        picture = self.folder / "page.png"
        done = subprocess.run([*command, f"--screenshot={picture}", "--window-size=900,700", url], capture_output=True, timeout=TIME)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(picture.read_bytes()[:8], b"\x89PNG\r\n\x1a\n")
        self.assertGreater(picture.stat().st_size, 10_000)


if __name__ == "__main__":
    unittest.main()
