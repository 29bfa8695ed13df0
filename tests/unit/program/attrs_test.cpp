// Attributes as whoever writes an op gives them.
#include "engine/program/attrs.hpp"

#include "tests/unit/error_of.hpp"

using namespace plait;
using namespace plait::program;

TEST_CASE("attributes that cannot be read are refused by their names") {
  const int64_t axes[] = {1, 0};
  const struct {
    plait_attr attr;
    const char* words;
  } kRows[] = {
      {{nullptr, PLAIT_OPT_INT, 0, 1, 0, nullptr, nullptr}, "attribute 0 is without a name"},
      {{"a", 0, 0, 1, 0, nullptr, nullptr},
       "attribute 'a' has type 0, which is none of PLAIT_OPT_BOOL to _INTS"},
      {{"a", PLAIT_OPT_INTS + 1, 0, 1, 0, nullptr, nullptr},
       "attribute 'a' has type 6, which is none of PLAIT_OPT_BOOL to _INTS"},
      {{"a", PLAIT_OPT_TEXT, 0, 0, 0, nullptr, nullptr},
       "attribute 'a' is a text, but `text` is NULL"},
      {{"a", PLAIT_OPT_INTS, 2, 0, 0, nullptr, nullptr},
       "attribute 'a' has 2 integers, but `ints` is NULL"},
      {{"a", PLAIT_OPT_INTS, 65537, 0, 0, nullptr, axes},
       "attribute 'a' has 65537 integers, expected at most 65536"},
  };
  for (const auto& row : kRows) {
    CAPTURE(row.words);
    CHECK(test::error_of([&] { Attrs::copy(&row.attr, 1, "[m] op:"); }, PLAIT_ERR_INVALID) ==
          std::string("[m] op: ") + row.words);
  }
  const plait_attr right[] = {{"axes", PLAIT_OPT_INTS, 2, 0, 0, nullptr, axes},
                              {"none", PLAIT_OPT_INTS, 0, 0, 0, nullptr, nullptr},
                              {"n", PLAIT_OPT_INT, 99999, 3, 0, nullptr, nullptr}};
  const Attrs all = Attrs::copy(right, 3);
  CHECK(all.ints("axes") == std::vector<int64_t>{1, 0});
  CHECK(all.ints("none").empty());
  CHECK(all.integer("n", 0) == 3);
}
