"""Ten steps in a row that are not finite: exit code 5, and a file that says which samples they had."""

import json
import re
import unittest

from support import RankCase

NUMERIC = 5  # exit code
BATCH, SAMPLES = 16, 200
ENDLESS = ["optimizer.type=sgd", "optimizer.learning_rate=1e30"]


class NonFinite(RankCase):
    def ends(self, folder, *words):
        """The step that the error names, and the file of it."""
        done = self.expect(NUMERIC, "run", "t.toml", *ENDLESS, "--run-dir", folder, *words)
        step = int(re.search(r"10 steps in a row were not finite, up to step (\d+); ", done.err)[1])
        self.assertIn(f"'{folder}/nonfinite/step-{step}.json' has the figures and the samples of step {step}", done.err)
        path, = (self.folder / folder / "nonfinite").iterdir()
        self.assertEqual(path.name, f"step-{step}.json")
        return step, json.loads(path.read_text()), done.err

    def test_the_step_is_noted(self):
        step, noted, err = self.ends("r", "data.train.shuffle=false")
        first = (step - 1) * BATCH % (SAMPLES // BATCH * BATCH + BATCH)
        self.assertEqual((noted["schema"], noted["step"], noted["steps_in_a_row"]), (1, step, 10))
        self.assertEqual((noted["epoch"], noted["batch"]), ((step - 1) // 13, step - 1))  # of 13 batches
        self.assertEqual(noted["samples"], list(range(first, min(first + BATCH, SAMPLES))))
        self.assertIn(noted["loss"], ("nan", "inf"))
        self.assertEqual(noted["learning_rate"], 1e30)
        if noted["first"]:  # an earlier step may have been over when it was looked for
            self.assertIn(noted["first"], err)

    def test_ranks_note_it_once_and_alike(self):
        one, two = self.ends("one")[1], self.ends("two", "topology.data=2", "--ranks", "2")[1]
        self.assertEqual([len(set(noted["samples"])) for noted in (one, two)], [BATCH, BATCH])
        self.assertEqual({key: one[key] for key in ("step", "epoch", "batch", "samples")},
                         {key: two[key] for key in ("step", "epoch", "batch", "samples")})

    def test_nothing_is_noted_where_it_ends_well(self):
        self.expect(0, "run", "t.toml", "--run-dir", "r", "-q")
        self.assertFalse((self.folder / "r/nonfinite").exists())


if __name__ == "__main__":
    unittest.main()
