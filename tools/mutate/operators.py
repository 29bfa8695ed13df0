"""Finds the places of a C++ source at which a mutant can be planted: a small change that a test should notice.

The text is not parsed. The sources are in one format (clang-format), so that spaces tell a comparison from a template and a product from
a pointer. A place that was guessed wrong gives a mutant that does not compile, which is counted apart.

Comments, strings, directives, static_assert, arguments of errors and messages, and what only reserves memory or prefetches are left out;
so are the examples of ops, which are inputs of tests.
"""

import dataclasses
import re

STRING = "\x01"  # stands for each character of a string or character literal in a masked text
HIDDEN = "\x02"  # for arguments of messages

LITERAL = re.compile(r'//[^\n]*|/\*.*?\*/|(?:u8|u|U|L)?R"(?P<tag>[^(\s]*)\(.*?\)(?P=tag)"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])+\'',
                     re.DOTALL)
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.MULTILINE)
ATTRIBUTE = re.compile(r"\[\[[^\]]*\]\]")
# Calls whose arguments are hidden; a deletion may still remove the whole call.
ERROR = re.compile(r"\b(?:fail\w*|throw_\w+|\w*[Ee]rror|strf|check_failed|add_problem|problems_?\.add)\(")
# Calls that are hidden as a whole.
MESSAGE = re.compile(r"\b(?:\w*log_?(?:\.|->)\w+|host_?\.log|\w+\.(?:warn|info|debug|notice)|static_assert|alignas|reserve|\w+(?:\.|->)reserve|"
                     r"\w*spin\w*|\w+\.shrink_to_fit|prefetch(?:t[012]|nta)|__builtin_prefetch)\(")
EXAMPLES = re.compile(r"\bstd::vector<OpExample> \w+\([^)]*\) (?=\{)")

REPLACED = {
    "comparison": {"<": ("<=", ">="), "<=": ("<", ">"), ">": (">=", "<="), ">=": (">", "<"), "==": ("!=",), "!=": ("==",)},
    "arithmetic": {"+": ("-",), "-": ("+",), "*": ("/",), "/": ("*",), "%": ("*",), "+=": ("-=",), "-=": ("+=",), "*=": ("/=",)},
    "logic": {"&&": ("||",), "||": ("&&",)},
    "bits": {"&": ("|",), "|": ("&",), "<<": (">>",), ">>": ("<<",), "^": ("|",)},
}
WORDS = {
    "boolean": {"true": "false", "false": "true"},
    "extreme": {"std::min": "std::max", "std::max": "std::min", "std::min_element": "std::max_element", "std::max_element": "std::min_element",
                "std::any_of": "std::all_of", "std::all_of": "std::any_of", "std::floor": "std::ceil", "std::ceil": "std::floor"},
}
NUMBER = re.compile(r"(?<![\w.'])(\d+)(?:(\.\d+(?:e[-+]?\d+)?|e[-+]?\d+)f?|u?l{0,2}\b)(?![\w.'])")
CONDITION = re.compile(r"\b(?:if|while) \(")
RETURN = re.compile(r"\breturn ([^;]+);")
KEYWORDS = ("return if for while else do switch case default break continue throw using const constexpr static auto template typedef struct class "
            "enum namespace public private protected friend virtual explicit inline extern try catch goto delete new static_cast operator co_return")
STATEMENT = re.compile(r"(?<=\n)[ \t]+(?!(?:" + "|".join(KEYWORDS.split()) + r")\b)(?:\*|\+\+|--)?[A-Za-z_][\w:]*(?:<[\w:, ]*>)?"
                       r"(?=\(|\[|\.|->|\+\+|--|;| (?:[-+*/|&^%]|<<|>>)?= )")
OPERATORS = (*REPLACED, *WORDS, "number", "condition", "return", "deletion")


@dataclasses.dataclass(frozen=True)
class Mutation:
    """text[start:end] of the file becomes `new`."""
    file: str
    operator: str
    start: int
    end: int
    new: str


def masked(text):
    """The text, as long as before, without what must not be changed."""
    def over(pattern, fill, source):
        return pattern.sub(lambda m: re.sub(r"[^\n]", fill, m.group()), source)

    def literal(m):
        return re.sub(r"[^\n]", " " if m.group().startswith(("//", "/*")) else STRING, m.group())

    out = over(ATTRIBUTE, " ", over(DIRECTIVE, " ", LITERAL.sub(literal, text)))
    for pattern, whole in ((ERROR, False), (MESSAGE, True)):
        at = 0
        while m := pattern.search(out, at):
            end = closing(out, m.end() - 1)
            begin = m.start() if whole else m.end()
            hidden = re.sub(r"[^\n]", HIDDEN, out[begin:end if whole else end - 1])
            out = out[:begin] + hidden + out[begin + len(hidden):]
            at = m.end()
    for m in EXAMPLES.finditer(out):
        end = closing(out, m.end())
        out = out[:m.end() + 1] + re.sub(r"[^\n]", HIDDEN, out[m.end() + 1:end - 1]) + out[end - 1:]
    return out


def closing(text, at):
    """The position behind the bracket that closes the one at `at`."""
    depth = 0
    for i in range(at, len(text)):
        if text[i] in "([{":
            depth += 1
        elif text[i] in ")]}":
            depth -= 1
            if depth == 0:
                return i + 1
    return len(text)


def mutations(file, text):
    """All mutations of a file, in the order of the text."""
    clean = masked(text)
    found = []
    for operator, table in REPLACED.items():
        symbols = "|".join(re.escape(s) for s in sorted(table, key=len, reverse=True))
        for m in re.finditer(rf"(?<=[ \n])(?:{symbols})(?=[ \n])", clean):
            before, after = clean[:m.start()].rstrip()[-1:], clean[m.end():].lstrip()[:1]
            if STRING in (before, after) or HIDDEN in (before, after) or before in ",(" or not before:
                continue  # texts are joined; or it is no operator of two operands
            found += [Mutation(file, operator, m.start(), m.end(), new) for new in table[m.group()]]
    for operator, table in WORDS.items():
        for m in re.finditer(rf"(?<![\w:])(?:{'|'.join(sorted(table, key=len, reverse=True))})\b", clean):
            found.append(Mutation(file, operator, m.start(), m.end(), table[m.group()]))
    found += numbers(file, text, clean) + conditions(file, text, clean) + returns(file, text, clean) + deletions(file, text, clean)
    return sorted(found, key=lambda m: (m.start, m.end, m.new))


def numbers(file, text, clean):
    found = []
    for m in NUMBER.finditer(clean):
        old = text[m.start():m.end()]
        if m.group(2):  # a real number
            new = ["2 * " + old] if float(m.group(1) + m.group(2)) else [old.replace("0.0", "1.0")]
        else:
            value, suffix = int(m.group(1)), old[len(m.group(1)):]
            new = [f"{value + 1}{suffix}"] + ([f"{value - 1}{suffix}"] if value > 1 else [])
        found += [Mutation(file, "number", m.start(), m.end(), n) for n in new if n != old]
    return found


def conditions(file, text, clean):
    found = []
    for m in CONDITION.finditer(clean):
        begin, end = m.end(), closing(clean, m.end() - 1) - 1
        if (semicolon := clean.rfind(";", begin, end)) >= 0:
            begin = semicolon + 1
        part = clean[begin:end]
        if re.search(r" = |^\s*(?:const )?auto\b|^!\(", part) or not part.strip() or clean[:m.start()].rstrip().endswith("constexpr"):
            continue
        begin += len(part) - len(part.lstrip())
        found.append(Mutation(file, "condition", begin, end, f"!({text[begin:end]})"))
    return found


def returns(file, text, clean):
    found = []
    for m in RETURN.finditer(clean):
        value = text[m.start(1):m.end(1)]
        if value in ("{}", "0", "nullptr", "std::nullopt", "false", "*this", '""') or "{" in value and "[" in value[:2]:
            continue
        found.append(Mutation(file, "return", m.start(1), m.end(1), "{}"))
    return found


def deletions(file, text, clean):
    found = []
    for m in STATEMENT.finditer(clean):
        begin = m.end() - len(m.group().lstrip())
        before = clean[:begin].rstrip()[-1:]
        if before not in ";{})":
            continue  # the middle of a statement, or a member initializer
        end, depth = begin, 0
        while end < len(clean) and not (clean[end] == ";" and depth == 0):
            depth += (clean[end] in "([{") - (clean[end] in ")]}")
            if depth < 0:
                break
            end += 1
        if depth != 0 or end == len(clean) or clean[end] != ";":
            continue
        if re.search(r"= (?:delete|default)$", clean[begin:end]):
            continue  # a declaration, not a statement
        found.append(Mutation(file, "deletion", begin, end + 1, ";" + "\n" * text.count("\n", begin, end)))
    return found


def apply(text, mutation):
    return text[:mutation.start] + mutation.new + text[mutation.end:]


def one_line(text):
    return " ".join(text.split())


def difference(text, mutation):
    """(line number, the lines before, the lines after), the lines as one with single spaces."""
    begin = text.rfind("\n", 0, mutation.start) + 1
    end = text.find("\n", mutation.end)
    end = len(text) if end < 0 else end
    after = text[begin:mutation.start] + mutation.new + text[mutation.end:end]
    return text.count("\n", 0, mutation.start) + 1, one_line(text[begin:end]), one_line(after)
