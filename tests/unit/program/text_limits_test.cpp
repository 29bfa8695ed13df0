// The text form of programs at its limits: the deepest parentheses, the last segment, no blanks.
#include "engine/base/error.hpp"
#include "engine/program/text/expression.hpp"
#include "tests/unit/error_of.hpp"
#include "tests/unit/program/text_fixture.hpp"

using namespace plait;
using namespace plait::program;

TEST_CASE_FIXTURE(TextFixture, "199 parentheses in one another, and no more") {
  const auto with = [](size_t n) {
    return "%1 f32 () = map() [" + std::string(n, '(') + "1.0" + std::string(n, ')') + "]";
  };
  read(with(199));
  expect("%1 f32 () = map() [1.0]");
  const std::string error = test::error_of([&] { read(with(200)); }, PLAIT_ERR_INVALID);
  CHECK(error == "[program] test:2:220: found '1.0', expected fewer parentheses in one another");
}

TEST_CASE_FIXTURE(TextFixture, "the last segment that there is") {
  const char* lines = "%1 f32 () at 2147483647:0 = persistent \"x\"";
  read(lines);
  expect(lines);
}

TEST_CASE_FIXTURE(TextFixture, "numbers end where no exponent has a sign") {
  const std::string x = "%1 f32 () at 0:0 = persistent \"x\"\n";
  read(x + "%2 f32 () = map(%1) [2.0-x0+1e-3*3+x0-4]");
  expect(x + "%2 f32 () = map(%1) [2.0 - x0 + 0.001 * 3.0 + x0 - 4.0]");
}

TEST_CASE_FIXTURE(TextFixture,
                  "a name that is not known is refused on either side, and as a result") {
  const auto refused = [&](const std::string& expression) {
    return test::error_of([&] { read("%1 f32 () = map() [" + expression + "]"); },
                          PLAIT_ERR_INVALID);
  };
  const std::string rest = "found 't0', expected an operand x0 to x";
  CHECK(refused("t0 + 1.0").starts_with("[program] test:2:20: " + rest));
  CHECK(refused("1.0 + t0").starts_with("[program] test:2:26: " + rest));
  CHECK(refused("1.0, t0").starts_with("[program] test:2:25: " + rest));
  CHECK(refused("-t0").starts_with("[program] test:2:21: " + rest));
  CHECK(refused("(t0)").starts_with("[program] test:2:21: " + rest));
  CHECK(refused("exp(t0)").starts_with("[program] test:2:24: " + rest));
}
