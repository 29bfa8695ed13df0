// Words of commands to paste: the library and the command line quote them alike.
#include "kit/shell_word.hpp"

#include <doctest/doctest.h>

#include <string>

#include "bindings/cli/terminal/terminal.hpp"

namespace {

TEST_CASE("words are quoted alike in messages of the library and of the command line") {
  using plait::kit::shell_word;
  CHECK(shell_word("") == "''");
  CHECK(shell_word("runs/a-1_b.toml") == "runs/a-1_b.toml");
  CHECK(shell_word("it's") == "'it'\\''s'");
  CHECK(shell_word("a\nb'\\") == "$'a\\012b\\'\\\\'");
  CHECK(shell_word("\xc3\xa4 \xc2\x9b \xff") == "$'\xc3\xa4 \\302\\233 \\377'");
  CHECK(plait::kit::path_word("-a") == "./-a");
  // Every pair of bytes, alone and between others.
  for (int a = 0; a < 256; ++a)
    for (int b = 0; b < 256; ++b) {
      const std::string two{static_cast<char>(a), static_cast<char>(b)};
      for (const std::string& text : {two, "x'" + two + "\\y"})
        if (shell_word(text) != plait::cli::shell_quoted(text) ||
            plait::kit::path_word(text) != plait::cli::path_word(text)) {
          CAPTURE(a);
          CAPTURE(b);
          CHECK(shell_word(text) == plait::cli::shell_quoted(text));
        }
    }
}

}  // namespace
