"""Tables of numbers and texts as people have them, trained on as they are."""

import gzip
import random
import unittest

from support import Case

MODEL = """\
[model]
layers = [{type = "linear", out = 3}]
[loss]
type = "cross_entropy"
[[metrics]]
type = "accuracy"
[optimizer]
type = "adam"
learning_rate = 0.05
"""
RUN = "[run]\nsteps = 60\n[batch]\nglobal = 30\n"


def flowers(n, seed, separator=",", header=True):
    """Lines of length, width, colour and kind; the kind follows from the length."""
    draw, lines = random.Random(seed), []
    for _ in range(n):
        kind = draw.randrange(3)
        lines.append([f"{kind * 3 + draw.random():.3f}", f"{2000 + draw.random():.3f}", draw.choice(["red", "blue"]), f"kind {kind}"])
    names = [["length", "width", "colour", "kind"]] if header else []
    return "".join(separator.join(line) + "\n" for line in names + lines)


class Csv(Case):
    def train(self, *overrides):
        """Accuracy at the end."""
        done = self.expect(0, "run", "t.toml", "--json", *overrides)
        return done.event("done")["evaluation"]["metrics"]["accuracy"]

    def test_texts_a_semicolon_and_gzip(self):
        data = 'type = "csv"\npath = "{}"\ntarget = "kind"\ntarget_type = "class"\ncategories = "colour"\ninput = ["length"]\n'
        self.write("t.toml", RUN + "[data.train]\n" + data.format("a.csv") + "[data.eval]\n" + data.format("b.csv.gz") +
                   'fit_on = "a.csv"\n' + MODEL)
        self.write("a.csv", flowers(90, 1, ";"))
        (self.folder / "b.csv.gz").write_bytes(gzip.compress(flowers(60, 2).encode()))
        self.assertGreater(self.train(), 0.9)
        self.assertIn("3 classes: 0 'kind 0', 1 'kind 1', 2 'kind 2'", self.expect(0, "check", "t.toml").err)

    def test_no_header(self):
        self.write("t.toml", RUN + '[data.train]\ntype = "csv"\npath = "a.csv"\ntarget = "3"\ntarget_type = "class"\ninput = ["0"]\n'
                   '[data.eval]\ntype = "csv"\npath = "a.csv"\ntarget = "3"\ntarget_type = "class"\ninput = ["0"]\n' + MODEL)
        self.write("a.csv", flowers(90, 1, header=False))
        self.assertGreater(self.train(), 0.9)
        self.fails(2, ["check", "t.toml", "data.train.header=true"], "set header = false")


if __name__ == "__main__":
    unittest.main()
