"""The size of an installed plugin, stripped: kernels for all architectures are in it.

size_test.py STRIP PLUGIN MIB"""

import pathlib
import subprocess
import sys
import tempfile

strip, plugin, most = sys.argv[1], sys.argv[2], float(sys.argv[3])
with tempfile.TemporaryDirectory() as folder:
    to = pathlib.Path(folder) / "plugin.so"
    subprocess.run([strip, "-o", to, plugin], check=True)
    found = to.stat().st_size / 2**20
print(f"{found:.1f} MiB, expected at most {most:g}")
sys.exit(0 if found <= most else 1)
