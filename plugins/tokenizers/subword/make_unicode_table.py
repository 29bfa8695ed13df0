#!/usr/bin/env python3
"""Writes unicode_table.cpp, the classes of all code points of Unicode 16, which the tokenizers library follows.

Needs the packages unicodedata2 (16.0.0) and regex, then clang-format:

    python3 make_unicode_table.py > unicode_table.cpp && clang-format -i unicode_table.cpp
"""

import regex
import unicodedata2

CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co Cn".split()
ALPHABETIC, SPACE = 32, 64


def class_of(code):
    text = chr(code)
    category = unicodedata2.category(text)
    value = CATEGORIES.index(category)
    # The package regex may know a later Unicode: what 16 has not assigned has no property.
    if category not in ("Cn", "Cs") and regex.match(r"\p{Alphabetic}", text):
        value |= ALPHABETIC
    return value | (SPACE if regex.match(r"\p{White_Space}", text) else 0)


def main():
    assert unicodedata2.unidata_version == "16.0.0", unicodedata2.unidata_version
    print("// Written by make_unicode_table.py; do not edit. Each number begins a run of code points of one")
    print("// class: the first code point << 8 | the class of unicode.hpp.")
    print('#include "plugins/tokenizers/subword/unicode.hpp"\n')
    print("namespace plait::subword {")
    print("const uint32_t kUnicodeRuns[] = {")
    last = None
    for code in range(0x110000):
        if (value := class_of(code)) != last:
            print(f"0x{code << 8 | value:X},")
            last = value
    print("};")
    print("const size_t kUnicodeRunCount = sizeof kUnicodeRuns / sizeof kUnicodeRuns[0];")
    print("}  // namespace plait::subword")


if __name__ == "__main__":
    main()
