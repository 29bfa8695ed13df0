#include "engine/observe/line_text.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <string>

using plait::observe::LineText;

TEST_CASE("a line is added to, padded and cut") {
  LineText line;
  line.add("a ");
  const size_t from = line.size();
  line.addf("%d/%s", 7, "x");
  line.pad_left(from, 5);
  CHECK(line.text() == "a   7/x");
  line.pad_left(from, 5);  // it is as wide already
  CHECK(line.text(from) == "  7/x");
  line.cut(from);
  line.repeat(2, "ab");
  line.repeat(0, "c");
  CHECK(line.text() == "a abab");
  line.cut(100);
  CHECK(line.text() == "a abab");
  line.clear();
  CHECK(line.text().empty());
}

TEST_CASE("numbers that are not finite have no sign but that of infinity") {
  LineText line;
  for (const double v : {1.5, -std::nan(""), HUGE_VAL, -HUGE_VAL}) {
    line.add_real(v, "%.2g");
    line.add(" ");
  }
  CHECK(line.text() == "1.5 nan inf -inf ");
}

TEST_CASE("what does not fit is cut off") {
  const std::string rest(LineText::kCapacity - 3, '-');
  LineText line;
  line.add(rest);
  line.addf("%d", 12345);
  CHECK(line.text() == rest + "123");
  line.add("x");
  line.repeat(1 << 30, "x");
  line.pad_left(0, 2 * LineText::kCapacity);
  CHECK(line.text() == rest + "123");
  line.clear();
  line.addf("%2000d", 1);
  CHECK(line.text() == std::string(LineText::kCapacity, ' '));
  line.cut(2);
  line.add("ab");
  line.pad_left(2, 2 * LineText::kCapacity);  // blanks, as many as there is room for
  CHECK(line.text() == std::string(LineText::kCapacity - 2, ' ') + "ab");
}
