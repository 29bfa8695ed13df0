"""Makes the checkpoints that tests/golden/checkpoints keeps of each format (see its README.md).

    make_checkpoints.py PLAIT FORMAT_VERSION

Trains a tiny model on the device `reference` and keeps, for one rank and for four, the checkpoint behind step 5 and the losses of
the steps behind it. Run it once when the format gets a new version, into a new folder; never replace an old one.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent / "checkpoints"
STEPS, SAVED = 10, 5
LAYOUTS = {
    "one": [],
    "grid": ["topology.data=2", "topology.tensor=2", "topology.zero=1", "model.layers[0].parallel=column", "model.layers[3].parallel=row"],
}


def losses(run):
    lines = [json.loads(line) for line in (run / "metrics.ndjson").read_text().splitlines()]
    return {str(line["step"]): line["loss"] for line in lines if "loss" in line and "event" not in line and line["step"] > SAVED}


def make(plait, version):
    out = HERE / f"v{version}"
    if out.exists():
        sys.exit(f"'{out}' exists; a checkpoint that was released is never replaced")
    expected = {}
    with tempfile.TemporaryDirectory() as scratch:
        for name, words in LAYOUTS.items():
            run = pathlib.Path(scratch, name)
            subprocess.run([plait, "run", HERE / "experiment.toml", "--run-dir", run, "-q", f"run.steps={STEPS}",
                            f"checkpoint.every={SAVED}", *words], check=True, cwd=scratch, stdout=subprocess.DEVNULL,
                           env={**os.environ, "OMP_NUM_THREADS": "1"})
            shutil.copytree(run / "ckpt" / f"step-{SAVED:010}", out / name)
            expected[name] = losses(run)
    (out / "losses.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    make(pathlib.Path(sys.argv[1]).resolve(), int(sys.argv[2]))
