"""The mutants of a session in the copy of the tree: which can be switched, which are built alone, which do not compile."""

import collections
import contextlib
import dataclasses
import hashlib
import json
import re

import operators
import switched
import workspace


@dataclasses.dataclass
class Mutant:
    number: int
    mutation: operators.Mutation
    text: str  # of its file
    compiles: bool = True
    switched: bool = True

    @property
    def key(self):
        m = self.mutation
        return f"{m.file}:{m.start}:{m.end}:{m.new}:{hashlib.sha256(self.text.encode()).hexdigest()[:12]}"


class Planting:
    def __init__(self, space, objects, records):
        self.space, self.objects, self.records = space, objects, records
        self.all = []

    def add(self, drawn):
        """Plants the mutants of a list of (mutation, text of its file); whether there was one."""
        new = [Mutant(len(self.all) + i, m, text) for i, (m, text) in enumerate(drawn)]
        self.all += new
        files = collections.defaultdict(list)
        for mutant in new:
            known = self.records.get(mutant.key)
            if known and known["outcome"] == "not compiled":
                mutant.compiles = False
            else:
                files[mutant.mutation.file].append(mutant)
        for mutant in [m for inside in files.values() for m in inside]:
            mutant.switched = switched.body_of(switched.bodies(mutant.text), mutant.mutation) is not None
        print(f"[mutate] {len(new)} mutants are drawn; {sum(map(len, files.values()))} in {len(files)} files are built", flush=True)
        for file in files:
            self._write(file)
        failed = self._failed([o for file in files for o in self.objects[file]])
        for file, inside in files.items():
            if not failed.isdisjoint(self.objects[file]):
                self._sort(file, inside)
        for mutant in [m for inside in files.values() for m in inside if not m.switched]:
            if self.records.get(mutant.key) is None:
                self._check_alone(mutant)
        return bool(new)

    def compiled(self):
        """Those that are switched first."""
        return sorted((m for m in self.all if m.compiles), key=lambda m: not m.switched)

    def signature(self):
        """Of all that is built."""
        planted = [[m.number, m.key] for m in self.compiled() if m.switched]
        return hashlib.sha256(json.dumps([self.records.tree, planted]).encode()).hexdigest()[:16]

    def _write(self, file):
        """The file with its mutants that are switched."""
        inside = {m.number: m.mutation for m in self.all if m.mutation.file == file and m.switched and m.compiles}
        text = next(m.text for m in self.all if m.mutation.file == file)
        self.space.write(file, workspace.PREFIX + switched.planted(text, inside) if inside else text)

    def _failed(self, objects):
        """Those that do not compile, of all that are built."""
        if not objects:
            return set()
        if self.space.ninja(["-k", "0", *objects], limit=None):
            return set()
        return {word for line in re.findall(r"^FAILED: (?:\[code=\d+\] )?(.*)$", self.space.output, re.MULTILINE) for word in line.split()}

    def _compiles(self, file):
        return self.space.ninja(self.objects[file])

    def _sort(self, file, inside):
        """Some of the new mutants of a file keep it from compiling: each is tried beside those that do not, and is not switched if it does."""
        tried = [mutant for mutant in inside if mutant.switched]
        for mutant in tried:
            mutant.switched = False
        for mutant in tried:
            mutant.switched = True
            self._write(file)
            mutant.switched = self._compiles(file)
        self._write(file)

    def _check_alone(self, mutant):
        with self.alone(mutant) as compiles:
            if not compiles:
                mutant.compiles = False
                line, before, after = operators.difference(mutant.text, mutant.mutation)
                self.records.add({"key": mutant.key, "file": mutant.mutation.file, "line": line, "operator": mutant.mutation.operator, "before": before,
                                  "after": after, "tree": self.records.tree, "outcome": "not compiled", "by": "", "seconds": 0.0})

    @contextlib.contextmanager
    def alone(self, mutant):
        """The file with this mutant, always on, and no other; whether it compiles."""
        file = mutant.mutation.file
        try:
            self.space.write(file, workspace.PREFIX + operators.apply(mutant.text, mutant.mutation))
            yield self._compiles(file)
        finally:
            self._write(file)
