"""A copy of the tree, in which mutants are planted and built; the tree itself is never touched.

Where the system allows it, commands see the copy at the path of the tree, in a mount namespace of their own: a copied build folder is then
up to date, and every path that is compiled into a test leads into the copy. Elsewhere the copy is built once at its own path.
"""

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import time

# A mutant may leave something unused or always true. The pragmas stand before the first line of its file.
WARNINGS = ("unused-variable unused-parameter unused-function unused-but-set-variable unused-but-set-parameter unused-value unused-label empty-body "
            "type-limits sign-compare parentheses misleading-indentation dangling-else int-in-bool-context bool-compare div-by-zero return-type "
            "implicit-fallthrough uninitialized maybe-uninitialized array-bounds stringop-overflow stringop-overread nonnull restrict overflow "
            "tautological-compare switch sequence-point logical-not-parentheses duplicated-branches shift-count-overflow shift-count-negative "
            "shift-negative-value free-nonheap-object aggressive-loop-optimizations address bool-operation narrowing unused-result")
NOT_SOURCES = ("build", "data", "runs", ".git", ".cache")
PRAGMAS = "".join(f'#pragma GCC diagnostic ignored "-W{w}"\n' for w in WARNINGS.split())
PREFIX = '#pragma GCC diagnostic ignored "-Wpragmas"\n' + PRAGMAS + "#line 1\n"


def run(command, limit=None, stop=None, **how):
    """(exit code, output); the code is None when the command ran past the limit or stop() became true. Its whole process group is then
    killed."""
    ends = time.monotonic() + limit if limit is not None else None
    with subprocess.Popen([str(c) for c in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", start_new_session=True, **how) as process:
        try:
            while True:
                try:
                    output, _ = process.communicate(timeout=0.2)
                    return process.returncode, output
                except subprocess.TimeoutExpired:
                    if (stop and stop()) or (ends is not None and time.monotonic() > ends):
                        kill(process)
                        return None, process.communicate()[0]
        except BaseException:
            kill(process)
            raise


def kill(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def write_whole(path, text):
    """Replaces a file at once: an interruption leaves the old one or the new one."""
    part = path.with_name(path.name + ".part")
    part.write_text(text)
    part.replace(path)


class Workspace:
    def __init__(self, root, own_path=False):
        self.root, self.folder = root, root / "build/mutate"
        self.tree = self.folder / "tree"
        self.tree.mkdir(parents=True, exist_ok=True)
        self.prefix = [] if own_path else self._namespace()
        self.seen_at = root if self.prefix else self.tree  # where commands see the copy
        self.build = self.seen_at / "build/dev"

    def _namespace(self):
        """What a command is prefixed with, [] where mount namespaces are not allowed."""
        bind, how, then = 'mount --bind "$0" "$1" && cd "$1" && shift && exec ', ["unshare", "-m"], ""
        if os.geteuid() != 0:  # as root of a user namespace, and then as oneself again
            how, then = ["unshare", "-rm"], f"unshare -U --map-user={os.geteuid()} --map-group={os.getegid()} "
        prefix = how + ["sh", "-c", bind + then + '"$@"', str(self.tree), str(self.root)]
        try:
            code, _ = run(prefix + ["true"], limit=20)
        except FileNotFoundError:
            code = 1
        return prefix if code == 0 else []

    def execute(self, command, limit=None, stop=None, cwd=None, env=None):
        """Like run(), in the copy."""
        if self.prefix:  # the folder is one of the namespace
            return run(self.prefix + ["env", "-C", cwd or self.root, *command], limit, stop, env=env)
        return run(command, limit, stop, env=env, cwd=cwd or self.tree)

    def listed(self):
        """The files of the tree, relative to the root, without what is built, loaded or trained there."""
        found = []
        for folder, folders, files in os.walk(self.root):
            at = os.path.relpath(folder, self.root)
            folders[:] = [f for f in folders if f != "__pycache__" and (at != "." or f not in NOT_SOURCES)]
            found += [os.path.normpath(os.path.join(at, f)) for f in files]
        return sorted(found)

    def prepare(self):
        """Makes the copy equal to the tree, and returns a digest of it. A file that differs gets a new time, so that it is built again."""
        new = not (self.tree / "CMakeLists.txt").exists()
        names, digest = self.listed(), hashlib.sha256()
        known = set(names)
        for name in names:
            source, target = self.root / name, self.tree / name
            content = source.read_bytes()
            digest.update(name.encode() + b"\0" + hashlib.sha256(content).digest())
            if target.is_file() and target.read_bytes() == content:
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            target.unlink(missing_ok=True)
            (shutil.copy2 if new else shutil.copy)(source, target)
        for folder, folders, files in os.walk(self.tree):
            if folder == str(self.tree):
                folders[:] = [f for f in folders if f != "build"]
            for file in files:
                path = os.path.join(folder, file)
                if os.path.relpath(path, self.tree) not in known:
                    os.unlink(path)
        self._copy_build()
        return digest.hexdigest()[:16]

    def _copy_build(self):
        target = self.tree / "build/dev"
        if target.exists():
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        if not self.prefix:
            self._checked(["cmake", "--preset", "dev"])
            return
        part = target.with_name("dev.part")
        shutil.rmtree(part, ignore_errors=True)
        subprocess.run(["cp", "-a", "--reflink=auto", self.root / "build/dev", part], check=True)
        part.rename(target)

    def _checked(self, command):
        code, output = self.execute(command)
        if code != 0:
            raise SystemExit(f"[mutate] {' '.join(map(str, command))} failed:\n{output[-3000:]}")
        return output

    def ninja(self, targets, limit=1200):
        """Whether the targets could be built."""
        code, self.output = self.execute(["ninja", "-C", self.build, *targets], limit)
        return code == 0

    def build_all(self):
        if not self.ninja(["all"], limit=None):
            raise SystemExit(f"[mutate] the copy in {self.tree} could not be built:\n{self.output[-3000:]}")

    def targets(self):
        """{output: rule} of the build, relative to the build folder."""
        lines = self._checked(["ninja", "-C", self.build, "-t", "targets", "all"]).splitlines()
        return dict(line.rsplit(": ", 1) for line in lines if ": " in line)

    def libraries(self):
        """The libraries that programs load when they run."""
        return [out for out, rule in self.targets().items() if re.search("(SHARED|MODULE)_LIBRARY_LINKER", rule)]

    def objects(self):
        """{source, relative to the root: its objects}."""
        found = {}
        for entry in json.loads((self.tree / "build/dev/compile_commands.json").read_text()):
            source = os.path.relpath(entry["file"], self.seen_at)
            words = entry["command"].split()
            found.setdefault(source, []).append(entry.get("output") or words[words.index("-o") + 1])
        return found

    def write(self, name, text):
        (self.tree / name).write_text(text)
