// Graphs written as text, for tests of passes: read one, run the pass, compare the lines.
#pragma once

#include <doctest/doctest.h>

#include <string>

#include "engine/program/text/parse.hpp"
#include "engine/program/text/print.hpp"
#include "tests/unit/program/graph_fixture.hpp"

namespace plait::program {

// The lines of both texts, blanks around them and empty lines left out: " " in front of a line of
// both, "-" of one that is missing in `found`, "+" of one that is not expected. Empty when there is
// no difference.
std::string line_diff(const std::string& expected, const std::string& found);

struct TextFixture : GraphFixture {
  // `lines`: what stands in the braces of a program.
  void read(const std::string& lines, const std::string& float_type = "f32");
  // Fails the test with the difference.
  void expect(const std::string& lines, const std::string& float_type = "f32") const;
  // Lets `pass` run on `lines`, twice where it must find nothing more to do.
  template <class Pass>
  void expect_after(Pass&& pass, const std::string& lines, const std::string& after) {
    read(lines);
    pass();
    expect(after);
  }
  template <class Pass>
  void expect_unchanged(Pass&& pass, const std::string& lines) {
    expect_after(pass, lines, lines);
  }
};

}  // namespace plait::program
