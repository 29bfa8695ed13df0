"""plait plot, and what a run prints at its end."""

import json
import os
import re
import threading
import unittest
import xml.etree.ElementTree

from support import Case, TINY


class Plot(Case):
    def lines(self, name, rows):
        (self.folder / name).mkdir()
        self.write(f"{name}/metrics.ndjson", "".join(json.dumps(row) + "\n" for row in rows))

    def steps(self, values):
        return [dict(step=10 * (i + 1), loss=v, lr=0.1) for i, v in enumerate(values)]

    def test_the_loss_of_a_run(self):
        self.write("t.toml", TINY)
        self.expect(0, "run", "t.toml", "run.log_every=1", "evaluate.every=10", "--run-dir", "r", "-q")
        out = self.expect(0, "plot", "r").out.splitlines()  # 80 columns, where there is no window
        self.assertEqual(out[0], "r: loss")
        self.assertEqual(len(out), 16)
        self.assertRegex(out[-1], r"^ +step 1 +40$")
        self.assertTrue(all(len(line) <= 80 for line in out))
        self.assertEqual(self.expect(0, "plot", "r/metrics.ndjson").out.splitlines()[1:], out[1:])
        small = self.expect(0, "plot", "r", "--columns", "30", "--rows", "6").out.splitlines()
        self.assertEqual(len(small), 6)
        self.assertTrue(all(len(line) <= 30 for line in small))
        curves = json.loads(self.expect(0, "plot", "r", "--value", "eval/accuracy", "--value", "loss", "--json").out)["curves"]
        self.assertEqual([step for step, _ in curves[0]["points"]], [10, 20, 30, 40])
        self.assertEqual(len(curves[1]["points"]), 40)

    def test_a_line_falls_from_corner_to_corner(self):
        self.lines("r", self.steps([4, 3, 2, 1]))
        out = self.expect(0, "plot", "r", "--columns", "20", "--rows", "6", env={"LC_ALL": "C"}).out
        rows = out.splitlines()[1:-2]
        self.assertEqual([row.split()[0] for row in (rows[0], rows[-1])], ["4", "1"])
        columns = [row.rfind("*") for row in rows]
        self.assertEqual(columns, sorted(columns))
        self.assertTrue(all("*" in row for row in rows), rows)

    def test_several_runs_and_values(self):
        self.lines("a", self.steps([4, 3, 2, 1]))
        self.lines("b", self.steps([1, 2, 3, 4]))
        out = self.expect(0, "plot", "a", "b").out
        self.assertIn("* a   + b", out)
        self.assertIn("* a loss   + a lr", self.expect(0, "plot", "a", "b", "--value", "loss", "--value", "lr").out)
        self.expect(0, "plot", "a", "b", "--svg", "out.svg")
        self.fails(2, ["plot", "a", "--svg", "out.png"],
                   "--svg writes SVG, found the name 'out.png'")
        self.fails(2, ["plot", "a", "--svg", "out.svg"], "[plot] 'out.svg' exists; choose another name, or replace it with --yes")
        self.fails(2, ["plot", "a", "--svg", "-", "--json"], "[plot] --svg - and --json would both write to standard output")
        self.write("-", "a file of that name is none of its business")
        self.assertEqual(self.expect(0, "plot", "a", "b", "--svg", "-").out, (self.folder / "out.svg").read_text())
        self.expect(0, "plot", "a/metrics.ndjson", "b", "--svg", "out.svg", "--yes")
        picture = xml.etree.ElementTree.parse(self.folder / "out.svg").getroot()
        lines = picture.findall("{http://www.w3.org/2000/svg}polyline")
        self.assertEqual(len(lines), 2)
        points = [tuple(map(float, point.split(","))) for point in lines[0].get("points").split()]
        self.assertEqual(len(points), 4)
        self.assertEqual(points, sorted(points))  # to the right, and down: y grows downwards

    def test_names_of_runs(self):
        for name in ("x", "y"):
            (self.folder / name).mkdir()
            self.lines(f"{name}/r", self.steps([4, 3]))
        self.assertIn("* x/r   + y/r", self.expect(0, "plot", "x/r", "y/r").out)
        self.lines("a<b>", self.steps([4, 3]))
        self.expect(0, "plot", "a<b>/", "x/r", "--svg", "out.svg")
        names = [text.text for text in xml.etree.ElementTree.parse(self.folder / "out.svg").iter("{http://www.w3.org/2000/svg}text")]
        self.assertIn("a<b>", names)
        self.assertIn("r", names)

    def test_long_names_share_the_legend(self):
        names = [f"a-run-with-a-long-name-{i}" for i in range(6)]
        for name in names:
            self.lines(name, self.steps([4, 3]))
        for columns in (80, 40):
            out = self.expect(0, "plot", *names, "--columns", columns, env={"LC_ALL": "C.UTF-8"}).out.splitlines()
            self.assertTrue(all(len(line) <= columns for line in out), out)
            self.assertRegex(out[-1], r"\* …\S*-0   \+ …\S*-1")

    def test_metrics_that_come_through_a_pipe(self):
        os.mkfifo(self.folder / "pipe")
        writer = threading.Thread(target=lambda: self.write("pipe", '{"step": 1, "loss": 2}\n{"step": 2, "loss": 1}'))
        writer.start()
        curve, = json.loads(self.expect(0, "plot", "pipe", "--json").out)["curves"]
        writer.join()
        self.assertEqual(curve["points"], [[1, 2], [2, 1]])

    def test_values_that_differ_in_the_last_digit(self):
        self.lines("r", self.steps([1, 1.0000000000000002, 1]))
        self.expect(0, "plot", "r", "--svg", "out.svg")
        self.assertLess((self.folder / "out.svg").stat().st_size, 10_000)
        self.assertEqual(len(self.expect(0, "plot", "r").out.splitlines()), 16)
        self.lines("one", [dict(step=5, loss=1)])
        self.expect(0, "plot", "one", "--svg", "out.svg", "--yes")
        self.assertIn("step 5", self.expect(0, "plot", "one").out)
        self.lines("far", [dict(step=-9 * 10**18, loss=1), dict(step=9 * 10**18, loss=2), dict(step=1, loss=3)])
        self.assertEqual(len(self.expect(0, "plot", "far").out.splitlines()), 16)

    def test_what_a_resumed_run_has_made_again_counts_once(self):
        again = [dict(event="resume", from_step=20, time=1.0), dict(step=30, loss=9), dict(event="evaluate", step=30, loss=5, dataset="eval")]
        self.lines("r", self.steps([4, 3, 2, 1]) + again)
        wrong = ['{"step": "x", "loss": 1}', '{"step": 40, "event": 5, "loss": [1]}', "7", "null", '{"event": "resume", "from_step": "x"}']
        self.write("r/metrics.ndjson", (self.folder / "r/metrics.ndjson").read_text() + "\n".join([*wrong, '{"step": 40, "lo']))
        loss, evaluated = json.loads(self.expect(0, "plot", "r", "--json", "--value", "loss", "--value", "eval/loss").out)["curves"]
        self.assertEqual(loss["points"], [[10, 4], [20, 3], [30, 9]])
        self.assertEqual(evaluated["points"], [[30, 5]])

    def test_values_that_are_not_finite_and_logarithms(self):
        self.lines("r", [*self.steps([100, 10, 1, 0]), dict(step=50, loss="nan"), dict(step=60, loss="inf")])
        out = self.expect(0, "plot", "r", "--log").out.splitlines()
        self.assertRegex(out[1], r"^ *100 ")
        self.assertRegex(out[-3], r"^ *1 ")
        self.lines("zero", self.steps([0, 0]))
        self.fails(2, ["plot", "zero", "--log"], "no value is above 0")
        self.fails(2, ["plot", "zero", "--log", "--svg", "log.svg"], "no value is above 0")
        self.assertEqual(len(self.expect(0, "plot", "zero").out.splitlines()), 16)

    def test_statistics(self):
        self.write("t.toml", TINY)
        self.expect(0, "run", "t.toml", "--run-dir", "r", "statistics.every=10", 'statistics.figures=["l2", "q90"]', "checkpoint.every=20")
        name = "gradients/model.linear1.weight/l2"
        [curve] = json.loads(self.expect(0, "plot", "r", "--json", "--value", name).out)["curves"]
        self.assertEqual([step for step, _ in curve["points"]], [10, 20, 30, 40])
        self.assertIn(name.encode(), next((self.folder / "r").glob("events.out.tfevents.*")).read_bytes())
        # What a resumed run makes again counts once.
        self.expect(0, "run", "t.toml", "--run-dir", "r", "--resume", "must", "statistics.every=10", 'statistics.figures=["l2", "q90"]', "run.steps=60")
        [again] = json.loads(self.expect(0, "plot", "r", "--json", "--value", name).out)["curves"]
        self.assertEqual(again["points"][:4], curve["points"])
        self.assertEqual(len(again["points"]), 6)
        self.fails(2, ["plot", "r", "--value", name[:-1]], f"did you mean '{name}'?")
        self.assertNotIn("gradients/", self.expect(0, "compare", "r", "r/../r").out)
        self.fails(2, ["run", "t.toml", "statistics.every=5", 'statistics.figures=["l3"]'], "statistics.figures: there is no 'l3' (did you mean 'l1'?)")

    def test_faults(self):
        self.fails(2, ["plot", "nowhere"], "there is no run 'nowhere'")
        (self.folder / "empty").mkdir()
        self.fails(2, ["plot", "empty"], "'empty' has no metrics.ndjson; name a run directory, such as those in runs/")
        self.lines("none", [])
        self.fails(2, ["plot", "none"], "has no values yet", "run.log_every")
        self.write("t.toml", TINY)
        self.expect(0, "run", "t.toml", "--run-dir", "many/one")
        self.fails(2, ["plot", "many"], "name one of the runs in it, such as the newest: many/one")
        self.lines("r", self.steps([1, 2]))
        self.fails(2, ["plot", "r", "--value", "los"], "run 'r' has no values 'los' (did you mean 'loss'?); there are: loss, lr")
        self.fails(3, ["plot", "r", "--svg", "no/where.svg"], "cannot write 'no/where.svg'")
        self.fails(2, ["plot"], "plait plot needs RUN")


class End(Case):
    def test_first_last_lowest_and_highest(self):
        self.write("t.toml", TINY)
        out = self.expect(0, "run", "t.toml", "run.log_every=1", "evaluate.every=10").out
        self.assertRegex(out, r"\n +first +last +lowest \(step\) +highest \(step\)\n")
        row = re.search(r"^eval/accuracy +(\S+) +(\S+) +(\S+) \((\d+)\) +(\S+) \((\d+)\)$", out, re.M)
        self.assertTrue(row, out)
        self.assertLessEqual(float(row[3]), min(float(row[1]), float(row[2])))
        self.assertGreaterEqual(float(row[5]), max(float(row[1]), float(row[2])))
        self.assertIn(int(row[4]), (10, 20, 30, 40))
        self.assertNotIn("lowest", self.expect(0, "run", "t.toml", "-q").out)

    def test_a_run_that_stops_early_says_so(self):
        self.write("t.toml", TINY)
        stop = ["evaluate.every=5", "evaluate.early_stop.metric=loss", "evaluate.early_stop.patience=1", "evaluate.early_stop.min_delta=100"]
        out = self.expect(0, "run", "t.toml", *stop).out
        self.assertIn("done after step 10:", out)
        self.assertIn("stopped early, after 10 of 40 steps: evaluate.early_stop", out)
        self.assertIn("stopped early: loss has not improved on ", self.expect(0, "status", "runs").out)
        self.assertTrue(self.expect(0, "run", "t.toml", *stop, "--json").event("done")["stopped_early"])
        self.assertNotIn("stopped_early", self.expect(0, "run", "t.toml", "--json").event("done"))

    @unittest.skipUnless(hasattr(os, "openpty"), "needs terminals")
    def test_the_curve_of_the_loss_on_a_terminal(self):
        self.write("t.toml", TINY)
        text = self.on_terminal("run", "t.toml", "run.log_every=1", env={"LC_ALL": "C.UTF-8"})
        self.assertIn("\u2514\u2500", text)
        self.assertTrue(any("\u2800" < letter < "\u2900" for letter in text))


if __name__ == "__main__":
    unittest.main()
