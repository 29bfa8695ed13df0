"""The tool that plants mutants: which places it finds in a text, and a small project whose tests find some mutants and miss others."""

import contextlib
import json
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import types
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools/mutate"
sys.path.insert(0, str(TOOL))
import mutate  # noqa: E402
import operators  # noqa: E402
import suite  # noqa: E402
import switched  # noqa: E402


def after(text):
    """{operator: the lines that its mutants become}"""
    found = {}
    for m in operators.mutations("x.cpp", text):
        found.setdefault(m.operator, set()).add(operators.difference(text, m)[2])
    return found


class Places(unittest.TestCase):
    def test_each_operator(self):
        for line, operator, expected in (
                ("  if (a < b) return 7;", "comparison", {"if (a <= b) return 7;", "if (a >= b) return 7;"}),
                ("  c = a + b;", "arithmetic", {"c = a - b;"}),
                ("  x -= y;", "arithmetic", {"x += y;"}),
                ("  c = a && b;", "logic", {"c = a || b;"}),
                ("  c = a << b;", "bits", {"c = a >> b;"}),
                ("  open = true;", "boolean", {"open = false;"}),
                ("  c = std::min(a, b);", "extreme", {"c = std::max(a, b);"}),
                ("  c = a[3];", "number", {"c = a[4];", "c = a[2];"}),
                ("  c = a * 0.5f;", "number", {"c = a * 2 * 0.5f;"}),
                ("  while (ready()) ++n;", "condition", {"while (!(ready())) ++n;"}),
                ("  if (int n = f(); n > 0) g();", "condition", {"if (int n = f(); !(n > 0)) g();"}),
                ("  return a + b;", "return", {"return {};"}),
                ("\n  f(a,\n    b);", "deletion", {";"}),
                ("\n  x.y[2] = z;", "deletion", {";"}),
                ("\n  fail_invalid(\"bad \" + name);", "deletion", {";"})):
            self.assertEqual(after(line + "\n").get(operator), expected, line)

    def test_what_is_left_alone(self):
        for line in ('// a < b && true', '/* if (a) return 1; */', '#if A < 3 && true', 'static_assert(a < b && 3);', 'fail_invalid(strf("%d", a + 3));',
                     'log_.warn("x" + text(a - 3));', 'f("a < b && 1");', "f('<');", 'R"(a < b)";', 'std::vector<int> v;', 'const T& x = y;', 'char* p = q;',
                     'name = "a" + b;', '[[likely]] f();', 'v.reserve(3);', 'return {};', 'f(*p, -q);', 'if constexpr (a) {',
                     'prefetcht0(ptr[p + 3]);', '__builtin_prefetch(p + 3);', 'std::vector<OpExample> examples() { all.push_back({a, 3}); return all; }'):
            wrong = {op: lines for op, lines in after(f"  {line}\n").items() if op != "deletion"}
            self.assertEqual(wrong, {}, line)
        examples = "std::vector<OpExample> all;\n  f(3);\nstd::vector<OpExample> of(int a) {\n  f(a, 7);\n  if (a < b) f(8);\n}\nint g() { return 5; }\n"
        self.assertEqual(after(examples).get("comparison"), None)
        self.assertEqual(after(examples)["number"], {"f(4);", "f(2);", "int g() { return 6; }", "int g() { return 4; }"})
        for line in ("int x = 3;", "return a;", "const auto b = f();", "log_.info(a);", "using A = B;", "A(const A&) = delete;", "A() = default;"):
            self.assertNotIn("deletion", after(f"\n  {line}\n"), line)

    def test_lines_keep_their_numbers(self):
        text = "int f(int a) {\n  g(a,\n    2);\n  return a < 3;\n}\n"
        for m in operators.mutations("x.cpp", text):
            self.assertEqual(operators.apply(text, m).count("\n"), text.count("\n"))
        self.assertEqual({operators.difference(text, m)[0] for m in operators.mutations("x.cpp", text)}, {2, 3, 4})

    def test_the_sources_of_this_tree_have_all_operators(self):
        root, found = TOOL.parents[1], set()
        for path in (root / "engine/session").glob("*.cpp"):
            found |= {m.operator for m in operators.mutations(path.name, path.read_text())}
        self.assertEqual(found, set(operators.OPERATORS))

    def test_an_equivalent_is_one_place(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            known = {("a.cpp", "if (a < b) f();", "if (a <= b) f();")}
            for copies, planted in ((1, False), (2, True)):
                (root / "a.cpp").write_text("  if (a < b) f();\n" * copies)
                lines = {operators.difference(text, m)[2] for m, text in mutate.drawn(root, ["a.cpp"], 1, known)}
                self.assertEqual("if (a <= b) f();" in lines, planted)
                self.assertIn("if (a >= b) f();", lines)

    def test_equivalents(self):
        entry = "engine/a.cpp\n- if (a < b) f();\n+ if (a <= b) f();\n= f() does nothing for equal ones\n"
        self.assertEqual(mutate.known_equivalents("# text\n\n" + entry), {("engine/a.cpp", "if (a < b) f();", "if (a <= b) f();")})
        for wrong in (entry.replace("= f()", "f()"), "engine/a.cpp\n- a\n", entry.rsplit("\n", 2)[0]):
            with self.assertRaises(SystemExit):
                mutate.known_equivalents(wrong)
        for file, before, after in mutate.known_equivalents(mutate.EQUIVALENT.read_text()):
            with self.subTest(file=file, before=before):
                self.assertEqual(operators.one_line((TOOL.parents[1] / file).read_text()).count(before), 1, "an entry is of a line that is there once")
                self.assertNotEqual(before, after)


SOURCE = """#include "x.hpp"
namespace plait {
namespace {
constexpr int kMost = 1 << 4;
const auto twice = [](int a) { return a + a; };
struct Pair {
  Pair(int a, int b) : first{a}, second{b} { check(a); }
  int sum() const noexcept { return first + second; }
  static constexpr int most() { return 1 + 2; }
  int first = 3, second = 4;
};
}  // namespace
template <class T>
auto largest(const std::vector<T>& values, T least = T{}) -> T {
  for (const T& value : values) {
    if (value > least) least = value;
  }
  return least;
}
}  // namespace plait
"""


class Switches(unittest.TestCase):
    def test_bodies_of_functions(self):
        found = [" ".join(SOURCE[b:e].split()) for b, e in switched.bodies(SOURCE)]
        self.assertEqual(found, ["return a + a;", "check(a);", "return first + second;",
                                 "for (const T& value : values) { if (value > least) least = value; } return least;"])

    def test_a_function_is_written_once_per_mutant(self):
        places = [m for m in operators.mutations("x.cpp", SOURCE) if m.operator == "comparison"]
        text = switched.planted(SOURCE, dict(enumerate(places, 5)))
        rest = text[text.index("#line 1\n"):]
        self.assertIn(" if (planted_mutants::on(5)) {\n#line 14\n", rest)
        for condition, n in (("value >= least", 1), ("value <= least", 1), ("value > least", 1), ("first + second", 1), ("1 << 4", 1)):
            self.assertEqual(rest.count(condition), n, condition)
        outside = next(m for m in operators.mutations("x.cpp", SOURCE) if m.operator == "bits")
        self.assertIsNone(switched.body_of(switched.bodies(SOURCE), outside))

    def test_what_is_planted_runs(self):
        source = ("#include <cstdio>\n#include <stdexcept>\nint next(int a) {\n  return a + 1;\n}\nconstexpr int kNone = 0;\n"
                  "int main(int n, char**) {\n  std::printf(\"%d %d\\n\", next(n), __LINE__);\n  return n < 1;\n}\n")
        places = dict(enumerate(m for m in operators.mutations("x.cpp", source) if m.operator in ("arithmetic", "comparison")))
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "x.cpp").write_text(switched.planted(source, places))
            subprocess.run(["c++", "-std=c++20", "-Wall", "-Wextra", "-Werror", "-o", "x", "x.cpp"], cwd=folder, check=True)
            (pathlib.Path(folder) / "seen").mkdir()
            for number, output, code in ((-1, "2 8\n", 0), (0, "0 8\n", 0), (1, "2 8\n", 1), (2, "2 8\n", 1)):
                done = subprocess.run(["./x"], cwd=folder, capture_output=True, text=True, env={switched.CHOSEN: str(number), switched.REACHED: "seen"})
                self.assertEqual((done.stdout, done.returncode), (output, code), number)
            self.assertEqual({p.name for p in (pathlib.Path(folder) / "seen").iterdir()}, {"0", "1", "2"})


class Verdicts(unittest.TestCase):
    def verdict(self, *runs, name="t"):
        """What is found when runs of the test, with the mutant and without it, end like this: (result, seconds); and their limits."""
        test, limits, runs = types.SimpleNamespace(name=name, whole=name, limit=300.0), [], list(runs)

        def passes(test, execute, limit, stop=None, variables=None):
            limits.append(limit)
            return runs.pop(0)

        s = object.__new__(suite.Suite)
        s.space, s.clean, s.passes = types.SimpleNamespace(execute=None), {name: test}, passes
        s.durations, s.reliable, s.reliable_lock = {name: 1.0}, {name: True}, threading.Lock()
        found = []
        s._finds(test, found)
        self.assertEqual(runs, [])
        return found, limits

    def test_a_test_that_fails(self):
        self.assertEqual(self.verdict((False, 1)), ([("killed", "t")], [30]))
        self.assertEqual(self.verdict((True, 1)), ([], [30]))

    def test_only_a_mutant_that_takes_too_long_again_is_found_by_it(self):
        self.assertEqual(self.verdict((None, 30), (True, 1), (None, 30)), ([("timed out", "t")], [30, 300, 30]))
        self.assertEqual(self.verdict((None, 30), (True, 20), (True, 70)), ([], [30, 300, 120]))  # the machine is busy
        self.assertEqual(self.verdict((None, 30), (True, 1), (False, 2)), ([("killed", "t")], [30, 300, 30]))
        self.assertEqual(self.verdict((None, 30), (None, 300)), ([], [30, 300]))


class Builds(unittest.TestCase):
    def test_a_mutant_that_was_built_alone_is_in_no_library_when_another_is_tried(self):
        calls = []
        session = object.__new__(mutate.Session)
        session.others_built = False
        session.space = types.SimpleNamespace(ninja=lambda targets: True, build_all=lambda: calls.append("all"))
        session.suite = types.SimpleNamespace(runtime=[], hunt=lambda *_, variables=None, **__: calls.append("switched" if variables else "alone"))
        mutants = types.SimpleNamespace(alone=lambda mutant: contextlib.nullcontext(True))
        for is_switched in (True, False, False, True, True):
            mutant = types.SimpleNamespace(mutation=types.SimpleNamespace(file="a.cpp"), switched=is_switched, number=0)
            session.hunt(mutants, mutant, 1, set())
        self.assertEqual(calls, ["switched", "alone", "alone", "all", "switched", "switched"])


class Order(unittest.TestCase):
    def test_the_seconds_of_a_part_are_those_that_it_took(self):
        with tempfile.TemporaryDirectory() as folder:
            s = object.__new__(suite.Suite)
            s.durations, s.durations_file = {"t": 100.0}, pathlib.Path(folder) / "durations.json"
            s.space, s.passes = types.SimpleNamespace(execute=None), lambda *_, **__: (True, 40.0)
            part = types.SimpleNamespace(name="t:x", whole="t", limit=900.0)
            self.assertEqual((s.seconds(part), s.limit(part)), (2, 150))  # no longer than its whole
            self.assertFalse(s._finds(part, []))
            self.assertEqual((s.seconds(part), s.limit(part)), (40, 240))
            self.assertEqual(json.loads(s.durations_file.read_text()), {"t": 100, "t:x": 40})
            new = types.SimpleNamespace(name="u", whole="u", limit=900.0)
            self.assertEqual((s.seconds(new), s.limit(new)), (20, 900))

    def test_times_of_ctest(self):
        with tempfile.TemporaryDirectory() as folder:
            build = pathlib.Path(folder)
            self.assertEqual(suite.durations_of_ctest(build), {})
            (build / "Testing/Temporary").mkdir(parents=True)
            (build / "Testing/Temporary/CTestCostData.txt").write_text("unit_a 3 1.5\nunit_b 0 7\n---\nunit_c\n")
            self.assertEqual(suite.durations_of_ctest(build), {"unit_a": 1.5})

    def test_the_cases_of_an_op_or_of_a_source_file(self):
        entry = {"name": "conformance_cpu", "command": ["/b/tests/bin/conformance", "--op=-a,-b", "/b/lib/cpu.so"], "properties": []}
        test = suite.Test(entry, "/b")
        part = test.of_ops(["gather", "gather_grad"])
        self.assertEqual((part.name, part.command),
                         ("conformance_cpu:gather+gather_grad", ["/b/tests/bin/conformance", "--op=gather,gather_grad", "/b/lib/cpu.so"]))
        part = test.of_files([pathlib.Path("/s/x_test.cpp"), pathlib.Path("/s/y_test.cpp")])
        self.assertEqual((part.name, part.command[1:]), ("conformance_cpu:x_test+y_test", ["--source-file=*/x_test.cpp,*/y_test.cpp"]))
        self.assertEqual((test.name, test.parts, part.parts), ("conformance_cpu", ["tests/bin/conformance", "lib/cpu.so"], test.parts))


PROJECT = {
    "CMakeLists.txt": """cmake_minimum_required(VERSION 3.25)
project(small CXX)
enable_testing()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
add_compile_options(-Wall -Wextra -Werror)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/bin)
add_library(checked STATIC engine/checked/limit.cpp engine/checked/most.cpp)
add_library(unchecked STATIC engine/unchecked/limit.cpp)
foreach(name checked unchecked)
  add_executable(unit_${name} tests/${name}.cpp)
  target_link_libraries(unit_${name} PRIVATE ${name})
  add_test(NAME unit_${name} COMMAND unit_${name})
endforeach()
add_test(NAME broken COMMAND false)
""",
    "CMakePresets.json": json.dumps({"version": 6, "configurePresets": [
        {"name": "dev", "generator": "Ninja", "binaryDir": "${sourceDir}/build/dev", "cacheVariables": {"CMAKE_BUILD_TYPE": "Debug"}}]}),
    "engine/checked/limit.cpp": "int limit(int value, int largest) {\n  if (value > largest) {\n    value = largest;\n  }\n  return value;\n}\n",
    # One that cannot be switched, and one that does not compile.
    "engine/checked/most.cpp": "constexpr int kMost = 2 + 1;\nstruct Count {\n  explicit Count(int n) : n(n) {}\n  int n;\n};\n"
                               "Count most() {\n  Count count(kMost);\n  return count;\n}\n",
    "engine/unchecked/limit.cpp": "int twice(int value) {\n  value += value;\n  return value;\n}\n",
    "tests/checked.cpp": "#include <cstring>\nint limit(int, int);\nstruct Count {\n  explicit Count(int n) : n(n) {}\n  int n;\n};\nCount most();\nint main(int n, char** words) {\n"
                         "  if (n == 1) return limit(1, 0) + most().n == 3 ? 0 : 1;\n  if (std::strcmp(words[1], \"--source-file=*/limit_test.cpp\") != 0) return 2;\n"
                         "  return limit(11, 10) == 10 && limit(3, 10) == 3 ? 0 : 1;\n}\n",
    "tests/unit/checked/limit_test.cpp": "// The cases of the program that a part of it runs.\n",
    "tests/unchecked.cpp": "int twice(int);\nint main() { return twice(0); }\n",
}
EQUIVALENT = ("engine/checked/limit.cpp\n- if (value > largest) {\n+ if (value >= largest) {\n= equal values stay what they are\n")


def results_of(output):
    return [line for line in output.splitlines() if "left out" not in line and "are built" not in line]


class Project(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="plait-mutate-"))
        self.addCleanup(shutil.rmtree, self.root)
        for name, text in PROJECT.items():
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text(text)
        self.equivalent = self.root / "build/equivalent.txt"
        for command in (["cmake", "--preset", "dev"], ["cmake", "--build", "build/dev"]):
            subprocess.run(command, cwd=self.root, check=True, stdout=subprocess.DEVNULL)
        self.equivalent.write_text(EQUIVALENT)

    def start(self, *more):
        command = [sys.executable, "-B", TOOL / "mutate.py", self.root, "--count", "100", "--equivalent", self.equivalent, *more]
        return subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def done(self, *more):
        process = self.start(*more)
        output, _ = process.communicate(timeout=240)
        for name, text in PROJECT.items():
            self.assertEqual((self.root / name).read_text(), text)
        return process.returncode, output

    def test_what_the_tests_miss_is_told(self):
        code, output = self.done("--only", "engine/checked")
        self.assertEqual(code, 0, output)
        self.assertIn(" 0 survived", output)
        self.assertIn("100.0 % found", output)
        self.assertIn("; 1 others did not compile", output)
        self.assertIn("killed by unit_checked (", output)
        self.assertIn("killed by unit_checked:limit_test", output)
        code, output = self.done()
        self.assertEqual(code, 1, output)
        self.assertIn("engine/unchecked/limit.cpp:2: survived", output)
        self.assertIn("- value += value;\n+ value -= value;\n", output)
        self.assertIn("left out, since it fails without a mutant: broken", output)
        # A test that is written finds it, and the entry of an equivalent one is not planted.
        (self.root / "tests/unchecked.cpp").write_text("int twice(int);\nint main() { return twice(2) == 4 ? 0 : 1; }\n")
        subprocess.run(["cmake", "--build", "build/dev"], cwd=self.root, check=True, stdout=subprocess.DEVNULL)
        self.equivalent.write_text("")
        process = self.start()
        output, _ = process.communicate(timeout=240)
        self.assertIn("1 survived", output)
        self.assertIn("+ if (value >= largest) {", output)

    def test_what_there_was_no_time_for_runs_in_a_second_round(self):
        code, output = self.done("--only", "engine/checked", "--seconds", "0", "--seconds-again", "0")
        self.assertEqual(code, 1, output)
        self.assertIn("survived 0 of ", output)
        self.assertRegex(output, r"\[again 1/(\d+)\] survived")
        self.assertRegex(output, r"(\d+) killed, 0 timed out, (\d+) survived; .*\n.* \2 of the survivors have tests")
        again = self.done("--only", "engine/checked", "--seconds", "0", "--seconds-again", "0")[1]
        self.assertNotIn("[again", again)  # it had its time
        code, output = self.done("--only", "engine/checked", "--seconds", "0", "--seconds-again", "120")
        self.assertEqual(code, 0, output)
        self.assertRegex(output, r"\[again \d+/\d+\] killed by unit_checked")
        self.assertIn("100.0 % found", output)
        self.assertNotIn("no time", output)

    def test_the_mutants_of_a_module_by_its_own_programs(self):
        def module(*words):
            command = [sys.executable, "-B", TOOL / "module.py", self.root, *words, "--equivalent", self.equivalent]
            done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=240)
            for name, text in PROJECT.items():
                self.assertEqual((self.root / name).read_text(), text)
            return done.returncode, done.stdout

        code, output = module("engine/unchecked", "unit_unchecked")
        self.assertEqual(code, 0, output)
        self.assertIn("engine/unchecked/limit.cpp:2: arithmetic\n- value += value;\n+ value -= value;\n", output)
        code, output = module("engine/checked", "unit_checked")
        self.assertEqual(code, 0, output)
        self.assertIn("1 others did not compile", output)
        self.assertNotIn("+ if (value >= largest) {", output)  # equivalent
        self.assertRegex(module("engine/checked", "unit_unchecked")[1], r"reaches 0 and finds 0; (\d+) are left(.|\n)* 0 of \1 found")
        self.assertIn("no source that is built begins with 'engine/none'", module("engine/none", "unit_checked")[1])

    def test_an_interrupted_session_continues(self):
        process = self.start("--own-path")
        first = next(line for line in process.stdout if line.startswith("[1/"))
        process.send_signal(signal.SIGTERM)
        rest = process.communicate(timeout=60)[0]
        self.assertEqual(process.returncode, 130, rest)
        known = self.root / "build/mutate/known.jsonl"
        before = known.read_text()
        code, output = self.done("--own-path")
        self.assertEqual(code, 1, output)
        self.assertIn(first, output)
        self.assertTrue(known.read_text().startswith(before))
        keys = [json.loads(line)["key"] for line in known.read_text().splitlines()]
        self.assertEqual(len(keys), len(set(keys)))
        again = self.done("--own-path")[1]  # the same seed, and nothing left to do
        self.assertEqual(results_of(again), results_of(output))


if __name__ == "__main__":
    unittest.main()
