"""Checks the machine code of all kernels against limits.toml: registers, bytes of local memory, the
instructions that some must have, and those that none may have.

code_test.py FOLDER...    of .fatbin files; PLAIT_CUOBJDUMP and PLAIT_NVDISASM name the tools,
                          which are otherwise looked for in PATH and in Python's packages
"""

import collections
import concurrent.futures
import fnmatch
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tomllib

LIMITS = pathlib.Path(__file__).with_name("limits.toml")
SKIPPED = 77
INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/ +(?:@!?U?P[T\d]+ +)?([A-Z][A-Z0-9_.]*)")

Kernel = collections.namedtuple("Kernel", "architecture registers stack instructions")


def tool(name):
    """The path of a tool, "" if there is none."""
    given = os.environ.get("PLAIT_" + name.upper(), "")
    if os.access(given, os.X_OK):
        return given
    wheels = [str(found) for folder in sys.path
              for found in pathlib.Path(folder or ".").glob("nvidia/*/bin/" + name)]
    return shutil.which(name) or next(iter(wheels), "")


def run(cuobjdump, nvdisasm, option, file):
    """cuobjdump calls nvdisasm, which it finds in PATH."""
    path = os.path.dirname(nvdisasm) + os.pathsep + os.environ.get("PATH", "")
    done = subprocess.run([cuobjdump, option, str(file)], capture_output=True, text=True,
                          env={**os.environ, "PATH": path})
    if done.returncode != 0:
        sys.exit(f"{cuobjdump} {option} {file} failed: {done.stderr}")
    return done.stdout


def kernels_of(cuobjdump, nvdisasm, file):
    """By (architecture, name)."""
    kernels, architecture, name = {}, "", ""
    for line in run(cuobjdump, nvdisasm, "-res-usage", file).splitlines():
        if found := re.match(r"arch = (\S+)", line):
            architecture = found[1]
        elif found := re.match(r" Function (\S+):", line):
            name = found[1]
        elif found := re.match(r" +REG:(\d+) STACK:(\d+) SHARED:\d+ LOCAL:(\d+)", line):
            if name:
                kernels[architecture, name] = Kernel(architecture, int(found[1]),
                                                     int(found[2]) + int(found[3]),
                                                     collections.Counter())
            name = ""
    for line in run(cuobjdump, nvdisasm, "-sass", file).splitlines():
        if found := re.match(r"arch = (\S+)", line):
            architecture = found[1]
        elif found := re.match(r"\t*\s*Function : (\S+)", line):
            name = found[1]
        elif found := INSTRUCTION.search(line):
            kernels[architecture, name].instructions[found[1]] += 1
    return kernels


def adds_floats(instruction):
    """Whether it is an atomic sum of floats, whose order differs from run to run."""
    parts = instruction.split(".")
    return parts[0] in ("RED", "REDG", "ATOM", "ATOMG", "ATOMS") and any(
        re.match(r"(B?F)(16|32|64)", part) for part in parts[1:])


def limit_of(limits, name, what):
    """The limit of a kernel, and the pattern of the exception that gives it, "" if none does."""
    for exception in limits["exceptions"]:
        if what in exception and fnmatch.fnmatchcase(name, exception["kernels"]):
            return exception[what], exception["kernels"]
    return limits[what], ""


def faults_of(limits, name, kernel, used):
    """used: patterns of exceptions; those that were needed are added."""
    faults = []
    for what in ("registers", "stack"):
        found = getattr(kernel, what)
        limit, pattern = limit_of(limits, name, what)
        if found > limit:
            unit = "bytes of local memory" if what == "stack" else what
            faults.append(f"uses {found} {unit}, expected at most {limit}")
        if pattern and found > limits[what]:
            used.add((pattern, what))
    for instruction in kernel.instructions:
        if adds_floats(instruction):
            faults.append(f"has {instruction}, an atomic sum of floats")
    for rule in limits["needs"]:
        if fnmatch.fnmatchcase(name, rule["kernels"]):
            used.add((rule["kernels"], rule["instruction"]))
            if not any(i.startswith(rule["instruction"]) for i in kernel.instructions):
                faults.append(f"has no {rule['instruction']}: {rule['reason']}")
    return [f"{name} for {kernel.architecture}: {fault}" for fault in faults]


def main():
    cuobjdump, nvdisasm = tool("cuobjdump"), tool("nvdisasm")
    if not cuobjdump or not nvdisasm:
        print("skipped: no " + ("nvdisasm" if cuobjdump else "cuobjdump") +
              " (a CUDA toolkit has it, or pip install nvidia-cuda-cuobjdump nvidia-cuda-nvdisasm)")
        return SKIPPED
    limits = tomllib.loads(LIMITS.read_text())
    files = sorted(file for folder in sys.argv[1:]
                   for file in pathlib.Path(folder).glob("*.fatbin"))
    faults, used, n = [], set(), 0
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for kernels in pool.map(lambda file: kernels_of(cuobjdump, nvdisasm, file), files):
            n += len(kernels)
            for (_, name), kernel in kernels.items():
                faults += faults_of(limits, name, kernel, used)
    for exception in limits["exceptions"]:
        for what in ("registers", "stack"):
            if what in exception and (exception["kernels"], what) not in used:
                faults.append(f"{LIMITS.name}: no kernel of '{exception['kernels']}' needs more "
                              f"{what} than others; take the exception out")
    for rule in limits["needs"]:
        if (rule["kernels"], rule["instruction"]) not in used:
            faults.append(f"{LIMITS.name}: there is no kernel '{rule['kernels']}'")
    if n == 0:
        faults.append("no kernels found in " + " ".join(sys.argv[1:]))
    print("\n".join(faults) or f"{n} kernels in {len(files)} files are within their limits")
    return 1 if faults else 0


sys.exit(main())
