"""Plants many mutants in one source, each switched on by a variable of the environment: one build then serves them all.

A function is written once for each of its mutants and once as it is: "{ if (on(17)) { a mutant's body } else { the body } }". What
stands outside of functions, or in one that may be evaluated when it is compiled (constexpr), cannot be switched.
"""

import collections
import re

import operators

CHOSEN, REACHED = "MUTANT_ON", "MUTANT_REACHED"  # variables: the mutant's number; a folder for a file per mutant that was reached

# Without #include of the sources' own headers, and in front of their first line. errno stays: the sources look at it.
PRELUDE = """#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <unistd.h>
namespace planted_mutants {
[[maybe_unused]] static void reach(int number, const char* folder) {
  static bool written[LIMIT];
  if (__atomic_load_n(&written[number], __ATOMIC_RELAXED)) return;
  __atomic_store_n(&written[number], true, __ATOMIC_RELAXED);
  const int kept = errno;
  char path[4096];
  ::snprintf(path, sizeof path, "%s/%d", folder, number);
  if (const int file = ::open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666); file >= 0) ::close(file);
  errno = kept;
}
[[maybe_unused]] static bool on(int number) {
  static const char* const folder = ::getenv("REACHED");
  static const char* const chosen = ::getenv("CHOSEN");
  static const int on = chosen ? ::atoi(chosen) : -1;
  if (folder) reach(number, folder);
  return on == number;
}
}
"""

SCOPE = re.compile(r"^\s*(?:inline\s+)?(?:template\s*<.*>\s*)?(?:namespace|class|struct|union|extern)\b", re.DOTALL)
FUNCTION = re.compile(r"\)(?:\s*(?:const|noexcept|override|final|mutable|&&?))*(?:\s*->\s*[\w:<>,&*\s]+)?\s*$")
COMPILED = re.compile(r"\bconst(?:expr|eval)\b")
CONSTRUCTOR = re.compile(r"\)\s*(?:noexcept\s*)?:(?!:).*\}\s*$", re.DOTALL)  # its last member is given in braces


def bodies(text):
    """(begin, end) between the outer braces of each function of a source that is not constexpr."""
    clean, found = operators.masked(text), []

    def scan(at, end):
        header = at
        while at < end:
            c = clean[at]
            if c == "{":
                after = min(operators.closing(clean, at), end)
                before = clean[header:at]
                if FUNCTION.search(before) or CONSTRUCTOR.search(before):
                    if not COMPILED.search(before):
                        found.append((at + 1, after - 1))
                    header = after
                elif SCOPE.search(before):
                    scan(at + 1, after - 1)
                    header = after
                at = after  # an initializer's braces belong to the header
            elif c in "([":  # a default argument may have braces
                at = operators.closing(clean, at)
            else:
                if c == ";":
                    header = at + 1
                at += 1

    scan(0, len(clean))
    return found


def body_of(found, mutation):
    return next(((b, e) for b, e in found if b <= mutation.start and mutation.end <= e), None)


def planted(text, numbered):
    """The source with mutants: numbered is {number: mutation inside a function}."""
    of_body, found = collections.defaultdict(list), bodies(text)
    for number, mutation in numbered.items():
        of_body[body_of(found, mutation)].append((number, mutation))
    out, at = [], 0
    for (begin, end), inside in sorted(of_body.items()):
        line = f"\n#line {text.count(chr(10), 0, begin) + 1}\n"
        out.append(text[at:begin])
        for number, m in inside:
            out.append(f" if (planted_mutants::on({number})) {{{line}{text[begin:m.start]}{m.new}{text[m.end:end]}\n}} else")
        out.append(f" {{{line}{text[begin:end]}}}")
        at = end
    prelude = PRELUDE.replace("LIMIT", str(max(numbered) + 1)).replace("REACHED", REACHED).replace("CHOSEN", CHOSEN)
    return prelude + "#line 1\n" + "".join(out) + text[at:]
