"""The tests of a build, in the order in which they may find a mutant, and their processes."""

import collections
import copy
import json
import os
import pathlib
import re
import shutil
import threading
import time

import switched
import workspace

# They read sources or install, or need a machine that does nothing else: no mutant of code is for them.
LEFT_OUT = re.compile(r"structure|install$|mutate|chaos$|endurance$|hosts$|cli_load$|abi_(headers|baseline|tags|symbols|.*self_test)")
UNKNOWN_SECONDS = 20.0  # of a test that has not run yet
PART_SECONDS = 2.0  # of a part of one that has not run yet
START_SECONDS = 2.0  # to link and start any test


def words(text):
    """The words of a name in the singular: "plugins/layers/norm" and "unit_layer_items" have one in common."""
    return {w.removesuffix("s") for w in re.split(r"[^a-z0-9]+", text.lower()) if w} - {"cpp", "engine", "plugin"}


class Test:
    def __init__(self, entry, build):
        of = {p["name"]: p["value"] for p in entry["properties"]}
        self.name, self.command = entry["name"], entry["command"]
        self.whole = self.name  # the test that this is a part of
        self.cwd, self.limit = of.get("WORKING_DIRECTORY"), float(of.get("TIMEOUT", 300))
        self.skipped_code = of.get("SKIP_RETURN_CODE")
        self.usable = "PASS_REGULAR_EXPRESSION" not in of and not LEFT_OUT.match(self.name)
        self.set = dict(e.split("=", 1) for e in of.get("ENVIRONMENT", []) if "=" in e)
        self.unset = [m.split("=", 1)[0] for m in of.get("ENVIRONMENT_MODIFICATION", []) if m.endswith("=unset:")]
        # What of the build it names: the program, and others in arguments and variables.
        named = [os.path.relpath(part, build) for word in self.command + list(self.set.values()) for part in word.split(":") if part.startswith(f"{build}/")]
        self.parts = list(dict.fromkeys(named))
        self.program = self.parts[0] if self.command[0].startswith(f"{build}/") else None

    def of_files(self, files):
        """The test cases of these source files of a doctest program, as a test of their own."""
        return self._part([f.stem for f in files], ["--source-file=" + ",".join(f"*/{f.name}" for f in files)])

    def of_ops(self, ops):
        """The cases of these ops of the program conformance."""
        return self._part(ops, ["--op=" + ",".join(ops), *[a for a in self.command[1:] if not a.startswith("--op=")]])

    def _part(self, names, arguments):
        part = copy.copy(self)
        part.name, part.command = f"{self.name}:{'+'.join(names)}", [self.command[0], *arguments]
        return part

    def environment(self):
        env = {k: v for k, v in os.environ.items() if k not in self.unset}
        return env | self.set


class Suite:
    """The tests of a workspace; jobs: how many run at once."""

    def __init__(self, space, jobs):
        self.space, self.jobs = space, jobs
        self.durations_file = space.folder / "durations.json"
        self.durations = durations_of_ctest(space.root / "build/dev")
        if self.durations_file.exists():
            self.durations |= json.loads(self.durations_file.read_text())
        self.tests = self._listed(space.execute, space.build)
        # The same tests of the tree itself, which has no mutant.
        self.clean = {t.name: t for t in self._listed(workspace.run, space.root / "build/dev")}
        page = space.root / "abi/plait/OPS.md"
        self.ops = re.findall(r"^## (\w+)$", page.read_text(), re.MULTILINE) if page.exists() else []
        self.targets = space.targets()
        self.runtime = space.libraries() + [out for out in ("bin/plait",) if out in self.targets]
        self.folders = {os.path.dirname(out) for out in self.runtime} - {"bin", ""}
        self.built = set()  # what ninja need not look at again for this mutant
        self.opens = {}  # program -> whether it may load a plugin
        self.reliable = {}  # name -> whether it passes without a mutant
        self.reached = {}  # name -> numbers of the mutants that it reaches
        self.kills = collections.defaultdict(collections.Counter)  # module -> test -> mutants found
        self.ninja_lock, self.reliable_lock = threading.Lock(), threading.Lock()

    def _listed(self, execute, build):
        code, output = execute(["ctest", "--test-dir", str(build), "--show-only=json-v1"])
        if code != 0:
            raise SystemExit(f"[mutate] ctest does not list the tests of {build}:\n{output[-2000:]}")
        found = [Test(e, str(build)) for e in json.loads(output[output.index("{"):])["tests"] if e.get("command")]
        return [t for t in found if t.usable]

    def seconds(self, test):
        return self.durations.get(test.name, UNKNOWN_SECONDS if test.name == test.whole else PART_SECONDS)

    def ordered(self, file):
        """The tests, first those that find most mutants of the file in a second, by what is known: the mutants of its module, and of the engine
        or of plugins, that each has found, and whether its name and the file's have words in common."""
        module = module_of(file)
        of_file, of_module, others = words(file), words(module), collections.Counter()
        for other, kills in self.kills.items():
            if other != module and other.split("/")[0] == module.split("/")[0]:
                others.update(kills)

        def chance(test):
            of_test = words(test.name)
            near = len(of_test & of_file) + (2 if test.name.startswith("unit_") and of_test & of_module else 0)
            return 0.02 + near + 2 * self.kills[module][test.name] + 0.2 * others[test.name]

        return sorted(self.tests + self._parts(file), key=lambda t: (-chance(t) / (START_SECONDS + self.seconds(t)), t.name))

    def _parts(self, file):
        """Parts of test programs with a name in common with the file, as tests: they may take a second, and the program minutes."""
        found, of_file = [], words(pathlib.PurePosixPath(file).stem)
        alike = [len(of_file & words(op)) for op in self.ops]
        ops = [op for op, n in zip(self.ops, alike) if n == max(alike) > 0]
        for test in [t for t in self.tests if t.program]:
            folder = self.space.root / "tests/unit" / os.path.basename(test.program).removeprefix("unit_")
            files = [f for f in sorted(folder.rglob("*_test.cpp")) if words(f.stem.removesuffix("_test")) & of_file]
            if files and test.name == os.path.basename(test.program):
                how = lambda t: t.of_files(files)
            elif ops and test.name.startswith("conformance_") and not any(re.match("--op=[^-]", a) for a in test.command):
                how = lambda t: t.of_ops(ops)
            else:
                continue
            found.append(how(test))
            self.clean.setdefault(found[-1].name, how(self.clean[test.name]))
        return found

    def passes(self, test, execute, limit, stop=None, variables=None):
        """(True, False, or None where it ran past the limit; seconds)"""
        started = time.monotonic()
        code, _ = execute(test.command, limit, stop, cwd=test.cwd, env=test.environment() | (variables or {}))
        spent = time.monotonic() - started
        return (None if code is None else code in (0, test.skipped_code)), spent

    def is_reliable(self, test):
        """Whether it passes without a mutant; it runs once. A test that fails anyway finds none."""
        with self.reliable_lock:
            if test.name not in self.reliable:
                clean = self.clean[test.name]
                self.reliable[test.name], seconds = self.passes(clean, workspace.run, clean.limit)
                if self.reliable[test.name]:
                    self._keep_seconds(test, seconds)
                else:
                    print(f"[mutate] left out, since it fails without a mutant: {test.name}", flush=True)
        return bool(self.reliable[test.name])

    def _keep_seconds(self, test, seconds):
        self.durations[test.name] = max(round(seconds, 2), self.durations.get(test.name, 0))
        workspace.write_whole(self.durations_file, json.dumps(self.durations, indent=1, sort_keys=True))

    def limit(self, test):
        """Of a part that has not run yet, a little more than its whole test takes."""
        if test.name in self.durations:
            return max(30.0, 6 * self.durations[test.name])
        return max(30.0, 1.5 * self.durations[test.whole]) if test.whole in self.durations else test.limit

    def learn(self, known, learned):
        """Runs each test of a complete build once, to learn which mutants, all switched off, it reaches. known: {test: numbers of mutants, None
        of a test that fails}, of an earlier call; learned: called with all that is known after each test."""
        self.reached, stopped, take = dict(known), [], threading.Lock()
        folder = "build/reached"
        queue = sorted((t for t in self.tests if t.name not in known), key=lambda t: -self.seconds(t))

        def work():
            while True:
                with take:
                    if stopped or not queue:
                        return
                    test = queue.pop(0)
                target = self.space.tree / folder / test.name
                shutil.rmtree(target, ignore_errors=True)
                target.mkdir(parents=True)
                target.chmod(0o777)  # tests of other users
                for _ in range(2):  # one may fail because the machine is busy
                    passed, seconds = self.passes(test, self.space.execute, 3 * test.limit, stop=lambda: bool(stopped),
                                                  variables={switched.REACHED: f"{self.space.seen_at}/{folder}/{test.name}"})
                    if stopped:
                        return
                    if passed:
                        break
                with take:
                    self.reached[test.name] = sorted(int(f.name) for f in target.iterdir()) if passed else None
                    if passed:
                        self._keep_seconds(test, seconds)
                    learned(self.reached)
                shutil.rmtree(target, ignore_errors=True)

        in_threads([work] * self.jobs, failed=stopped.append)
        for name, numbers in self.reached.items():
            self.reliable[name] = numbers is not None
            if numbers is None:
                print(f"[mutate] left out, since it fails without a mutant: {name}", flush=True)

    def reaches(self, test, number):
        """Whether the test, or the one that it is a part of, reaches a mutant."""
        return number in (self.reached.get(test.whole) or ())

    def hunt(self, file, seconds, ran, wanted=lambda test: True, ready=lambda test: True, variables=None):
        """Runs tests, of those that are wanted, until one finds the mutant in `file`, or until none ends within `seconds`: (outcome, the test's
        name, 0), or ("survived", "42 of 120 tests", how many are left). ran: names of the tests that have run before, which this call adds
        to; ready(test): before it runs, False if it cannot find the mutant; variables: of the environment of the tests, over their own."""
        started, found, take = time.monotonic(), [], threading.Lock()
        every = [t for t in self.ordered(file) if self.reliable.get(t.name, True) and wanted(t)]
        queue = [t for t in every if t.name not in ran]

        def work():
            while not found:
                with take:
                    left = seconds - (time.monotonic() - started)
                    test = next((t for t in queue if min(self.seconds(t), seconds / 2) <= left), None)
                    if test is None:
                        return
                    queue.remove(test)
                if ready(test) and self._finds(test, found, variables):
                    return
                ran.add(test.name)

        in_threads([work] * self.jobs, failed=found.append)
        if not found:
            return "survived", f"{len(every) - len(queue)} of {len(every)} tests", len(queue)
        self.kills[module_of(file)][found[0][1]] += 1
        return *found[0], 0

    def concerned(self, test, file, begun_ns):
        """Builds what the test needs for the mutant in `file` since begun_ns. A program that is not linked again does not contain the change, and may load it only from a plugin."""
        with self.ninja_lock:
            parts = [p for p in test.parts if p in self.targets and p not in self.built]
            if parts and not self.space.ninja(parts):
                raise SystemExit(f"[mutate] the program of {test.name} could not be built:\n{self.space.output[-3000:]}")
            self.built.update(parts)
        if test.program is None:
            return True
        program = self.space.tree / "build/dev" / test.program
        return program.stat().st_mtime_ns >= begun_ns or not file.startswith("engine/") and self._opens_libraries(test.program, program)

    def _opens_libraries(self, name, program):
        """Whether the program may load a plugin: it contains the path of a folder of libraries."""
        if name not in self.opens:
            text = program.read_bytes()
            self.opens[name] = any(f"{self.space.build}/{folder}".encode() in text for folder in self.folders)
        return self.opens[name]

    def _finds(self, test, found, variables=None):
        limit = self.limit(test)
        passed, seconds = self.passes(test, self.space.execute, limit, stop=lambda: bool(found), variables=variables)
        if passed is None and not found and self.is_reliable(test):
            # Not because the machine is busy: also again, and not without the mutant.
            if not (limit := self._limit_now(test, limit)):
                return False
            passed, seconds = self.passes(test, self.space.execute, limit, stop=lambda: bool(found), variables=variables)
        if passed:
            if test.name not in self.durations:
                self._keep_seconds(test, seconds)
            return False
        if found or not self.is_reliable(test):
            return False
        found.append(("timed out" if passed is None else "killed", test.name))
        return True

    def _limit_now(self, test, limit):
        """The limit on the machine as busy as it is now; None if the test does not pass without the mutant."""
        clean = self.clean[test.name]
        passed, seconds = self.passes(clean, workspace.run, max(limit, clean.limit))
        return max(limit, 6 * seconds) if passed else None


def in_threads(functions, failed):
    """Runs the functions at once, to their end. An exception in one, or an interruption of this thread, is given to failed(), so that the
    others can end, and raised."""
    raised = []

    def guarded(function):
        try:
            function()
        except BaseException as e:
            raised.append(e)
            failed(e)

    threads = [threading.Thread(target=guarded, args=[f]) for f in functions]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    except KeyboardInterrupt as e:
        failed(e)  # which stops them
        raise
    if raised:
        raise raised[0]


def durations_of_ctest(build):
    """{test: seconds}, as ctest has last measured them."""
    file = build / "Testing/Temporary/CTestCostData.txt"
    lines = file.read_text().splitlines() if file.exists() else []
    found = [line.rsplit(" ", 2) for line in lines[:lines.index("---")] if line] if "---" in lines else []
    return {name: float(seconds) for name, runs, seconds in found if int(runs) > 0}


def module_of(file):
    parts = pathlib.PurePosixPath(file).parts
    return "/".join(parts[:3] if parts[0] == "plugins" else parts[:2])
