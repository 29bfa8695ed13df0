"""plait new on a terminal: the questions, their defaults, and the experiments made of the answers."""

import os
import pty
import select
import struct
import time
import unittest
import zlib

from support import Case, PLAIT, TIME

IDX_IMAGES = bytes([0, 0, 8, 3, 0, 0, 0, 40, 0, 0, 0, 4, 0, 0, 0, 4]) + bytes(range(16)) * 40
IDX_LABELS = bytes([0, 0, 8, 1, 0, 0, 0, 40]) + bytes(i % 10 for i in range(40))


def png(width, height, color):
    """An image of one colour, (red, green, blue)."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = zlib.compress((b"\0" + bytes(color) * width) * height)
    head = struct.pack(">2I5B", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


class Questions(Case):
    def asked(self, words, answers):
        """Types each answer behind its question; (exit code, screen)."""
        child, terminal = pty.fork()
        if child == 0:
            os.chdir(self.folder)
            os.execve(PLAIT, ["plait", "new", *words], self.environment())
        screen, end, seen = "", time.monotonic() + TIME, 0
        answers = list(answers)
        try:
            while time.monotonic() < end:
                if select.select([terminal], [], [], 0.2)[0]:
                    screen += os.read(terminal, 4096).decode()
                if screen[seen:].endswith("]: ") and answers:
                    seen = len(screen)
                    os.write(terminal, (answers.pop(0) + "\n").encode())
        except OSError:  # plait has ended
            pass
        os.close(terminal)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), screen.replace("\r\n", "\n")

    def makes(self, words, answers, name="demo"):
        code, screen = self.asked(words, answers)
        self.assertEqual(code, 0, screen)
        self.assertIn(f"made {name}/experiment.toml\n", screen)
        return (self.folder / name / "experiment.toml").read_text(), screen

    def accepted(self, name, *words):
        told = self.expect(0, "check", name, *words)
        self.assertEqual(told.out, f"{name}/experiment.toml: no problems\n")
        for line in told.err.splitlines():  # what was found in the data is no problem
            self.assertRegex(line, r"^\[data-(csv|split|images)\] ")

    def test_defaults_are_the_tiny_one(self):
        toml, screen = self.makes([], ["", ""])
        self.assertIn("synthetic", toml)
        self.assertIn("train it: plait run demo\n", screen)
        self.accepted("demo")

    def test_nothing_is_asked_without_a_terminal_or_with_a_template(self):
        self.expect(0, "new", "a")
        self.assertNotIn("?", self.makes(["b", "--from", "tiny"], [], "b")[1])
        self.assertNotIn("?", self.makes(["c", "--yes"], [], "c")[1])

    def test_images(self):
        for images, labels in (("train-images", "train-labels"), ("t10k-images", "t10k-labels")):
            (self.folder / f"{images}-idx3-ubyte").write_bytes(IDX_IMAGES)
            (self.folder / f"{labels}-idx1-ubyte").write_bytes(IDX_LABELS)
        toml, _ = self.makes(["demo"], ["2", "train-images-idx3-ubyte", "", "", "", "10", "2", "2"])
        self.assertIn('images = "../t10k-images-idx3-ubyte"\nlabels = "../t10k-labels-idx1-ubyte"\n', toml)
        self.accepted("demo", "batch.global=40")
        self.expect(0, "run", "demo", "run.epochs=1", "batch.global=40", "-q")
        _, screen = self.makes(["other"], ["2", "", "", "none", "", "", ""], "other")  # not there yet: MNIST
        self.assertIn("then:\n  plait data get mnist\n  plait run other --data data\n", screen)

    def test_tables(self):
        self.write("own.csv", "a,b,y\n" + "".join(f"{i},{i * 0.5},{i % 3}\n" for i in range(64)))
        toml, _ = self.makes(["demo"], ["3", "", "", "", "own.csv", "", "2"])
        self.assertIn("out = 3}", toml)  # the largest label is 2
        self.assertIn("\ndata = 2 ", toml)
        self.accepted("demo")
        self.expect(0, "run", "demo", "run.epochs=1", "-q")
        toml, screen = self.makes(["price"], ["4", "nothing.csv", "own.csv", "z", "b", "none", "3", "x", "1"], "price")
        self.assertIn("there is no 'nothing.csv' here", screen)
        self.assertIn("there is no such column", screen)
        self.assertIn("a whole number from 1 to 1024, please", screen)
        self.assertIn('target = ["b"]\ntarget_type = "f32"\n', toml)
        self.accepted("price")

    def test_images_that_are_not_idx_files(self):
        for name, color in (("red", (220, 20, 20)), ("dark blue", (20, 20, 120))):
            (self.folder / "photos" / name).mkdir(parents=True)
            for i in range(20):
                (self.folder / "photos" / name / f"{i}.png").write_bytes(png(24 + i, 20, color))
        (self.folder / "labels-idx1-ubyte").write_bytes(IDX_LABELS)
        (self.folder / "images-idx3-ubyte").write_bytes(IDX_IMAGES)
        self.write("own.csv", "a,b\n1,2\n")
        toml, screen = self.makes(["demo"], ["2", "own.csv", "photos/red", "photos", "own.csv", "none", "", ""])
        self.assertIn("'own.csv' is not an IDX file of images", screen)
        self.assertIn("'photos/red' has no folder of images, PNG or JPEG, for each class", screen)
        self.assertIn("2 classes: dark blue, red", screen)
        self.assertIn("'own.csv' is not a folder", screen)
        self.assertIn('type = "images"\npath = "../photos"\n', toml)
        self.accepted("demo")
        self.assertIn("accuracy 1.0000", self.expect(0, "run", "demo", "-q").out)
        answers = ["2", "images-idx3-ubyte", "photos", "own.csv", "", "", "10", "", ""]
        _, screen = self.makes(["idx"], answers, "idx")
        self.assertIn("'photos' is a folder, not an IDX file of labels", screen)
        self.assertIn("'own.csv' is not an IDX file of labels", screen)

    def test_tables_with_texts_and_gaps(self):
        kinds = ("setosa", "virginica", "versicolor")
        lines = [f"{i % 7},{'red' if i % 2 else 'blue'},{kinds[i % 3]}\n" for i in range(60)]
        self.write("flowers.csv", "width,colour,kind\n" + "".join(lines) + "NA,red,setosa\n")
        toml, _ = self.makes(["demo"], ["3", "flowers.csv", "kind", "", "", "", ""])
        self.assertIn('categories = ["*"]', toml)
        self.assertIn('missing = "mean"', toml)
        self.accepted("demo")
        self.expect(0, "run", "demo", "run.epochs=1", "-q")
        toml, screen = self.makes(["own"], ["3", "flowers.csv", "kind", "", "no.csv", "flowers.csv", "", ""], "own")
        self.assertIn("there is no 'no.csv' here", screen)
        self.accepted("own")

    def test_numbers_of_any_unit_are_learned(self):
        rows = [(i % 6 + 1, 10 + (i * 37) % 120) for i in range(120)]
        self.write("houses.csv", "rooms;area;price;town\n" + "".join(
            f"{r};{a},5;{900 * a + 2000 * r};{'north' if i % 3 else 'south'}\n" for i, (r, a) in enumerate(rows)))
        self.write("other.csv", "rooms;area\n1;2,5\n")
        toml, screen = self.makes(["demo"], ["4", "houses.csv", "town", "", "other.csv", "none", "", ""])
        self.assertIn("column 'town' holds texts", screen)
        self.assertIn("'other.csv' has no column 'price'", screen)
        self.assertIn('decimal = ","', toml)
        self.accepted("demo")
        out = self.expect(0, "run", "demo", "-q").out
        loss = float(out.split("evaluated on")[1].split("\nloss ")[1].split()[0])
        self.assertLess(loss, 0.2)  # of a variance of 1

    def test_a_text(self):
        self.write("input.txt", "to be, or not to be: that is the question\n" * 400)
        _, screen = self.makes(["poet"], ["5", "", "", "2"], "poet")
        self.expect(0, *screen.split("then:\n  plait ")[1].split("\n")[0].split())
        self.accepted("poet")
        self.expect(0, "run", "poet", "run.steps=1", "evaluate.every=0", "optimizer.schedule.warmup_steps=0", "-q")

    def test_files_that_were_named_stay_where_they_are(self):
        (self.folder / "data").mkdir()
        (self.folder / "d").mkdir()
        self.write("data/input.txt", "to be, or not to be: that is the question\n" * 400)
        _, screen = self.makes(["data/poet", "--data", "d"], ["5", "data/input.txt", "", "2"], "data/poet")
        self.assertIn("plait data tokenize data/input.txt --tokenizer bytes --append-eod --out data/poet/text\n", screen)
        self.assertIn("plait run data/poet\n", screen)

    def test_existing_folders_and_no_answers(self):
        self.expect(0, "new", "demo")
        code, screen = self.asked(["demo"], [])
        self.assertEqual(code, 2)
        self.assertIn("already exists", screen)
        code, screen = self.asked(["new"], ["\x04"])  # the end of the input
        self.assertEqual(code, 2)
        self.assertIn("plait new NAME --from TEMPLATE asks none", screen)


if __name__ == "__main__":
    unittest.main()
