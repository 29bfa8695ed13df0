// What two datasets say of their numbers, compared.
#include "kit/dataset_texts.hpp"

#include <doctest/doctest.h>

#include <map>
#include <vector>

using plait::kit::contradiction;
using plait::kit::FieldTexts;

namespace {

using Texts = std::vector<std::string>;
using All = std::map<uint32_t, Texts>;  // by what they are for

FieldTexts field(const char* who, const All& all) {
  return {who, [&all](uint32_t what, uint64_t i) -> const char* {
            const auto of = all.find(what);
            return of == all.end() || i >= of->second.size() ? nullptr : of->second[i].c_str();
          }};
}

std::string between(const All& own, const All& other, std::vector<int64_t> dims) {
  plait_field f{"y", PLAIT_FIELD_INPUT, 0, {PLAIT_F32, static_cast<uint32_t>(dims.size()), {}}};
  for (size_t i = 0; i < dims.size(); ++i) f.shape.dims[i] = dims[i];
  return contradiction(f, field("A", own), field("B", other));
}

std::string classes(const Texts& own, const Texts& other) {
  return between({{PLAIT_TEXT_CLASS, own}}, {{PLAIT_TEXT_CLASS, other}}, {});
}

std::string columns(const Texts& own, const Texts& other) {
  return between({{PLAIT_TEXT_COLUMN, own}}, {{PLAIT_TEXT_COLUMN, other}},
                 {static_cast<int64_t>(own.size())});
}

}  // namespace

TEST_CASE("classes have the same numbers") {
  CHECK(classes({"a", "b"}, {"a", "b"}).empty());
  CHECK(classes({"a", "b"}, {}).empty());  // the other dataset does not say
  CHECK(classes({}, {"a", "b"}).empty());
  CHECK(classes({"a", "b", "c"}, {"a", "c"}) ==
        "field 'y': class 1 is 'b' in A (of 3) and 'c' in B (of 2)");
  CHECK(classes({"a"}, {"a", "b"}).empty());  // the last ones of one dataset alone
  CHECK(classes({"a", "b"}, {"a"}).empty());
  CHECK(classes({"b", "a"}, {"a", "b"}) ==
        "field 'y': class 0 is 'b' in A (of 2) and 'a' in B (of 2)");
}

TEST_CASE("a column of ids is named") {
  const All own{{PLAIT_TEXT_COLUMN, {"city", "kind"}},
                {PLAIT_TEXT_CLASS, {"Oslo"}},
                {PLAIT_TEXT_CLASS + 1, {"x", "y"}}};
  All other = own;
  CHECK(between(own, other, {2}).empty());
  other[PLAIT_TEXT_CLASS + 1] = {"x", "z"};
  CHECK(between(own, other, {2}) ==
        "field 'y': class of column 'kind', 1 is 'y' in A (of 2) and 'z' in B (of 2)");
}

TEST_CASE("columns have the same places, whatever they are called") {
  CHECK(columns({"x", "y"}, {"x", "y"}).empty());
  CHECK(columns({"x", "y"}, {}).empty());
  CHECK(columns({"0", "1"}, {"x", "y"}).empty());  // a file without names
  CHECK(columns({"x", "y"}, {"y", "x"}) ==
        "field 'y': column 0 is 'x' in A (of 2) and 'y' in B (of 2)");
  CHECK(columns({"x", "y"}, {"id", "x", "y"}) ==
        "field 'y': column 0 is 'x' in A (of 2) and 'id' in B (of 3)");
}

TEST_CASE("columns of a category stand for the same texts") {
  CHECK(columns({"c = a", "c = b"}, {"c = a", "c = d"}) ==
        "field 'y': column 1 is 'c = b' in A (of 2) and 'c = d' in B (of 2)");
  CHECK(columns({"x", "c = a"}, {"x", "c = a", "c = b"}) ==
        "field 'y': column 2 is missing in A (of 2) and 'c = b' in B (of 3)");
  CHECK(columns({"x", "c = a", "d = k"}, {"x", "c = a", "c = b"}) ==
        "field 'y': column 2 is 'd = k' in A (of 3) and 'c = b' in B (of 3)");
  CHECK(columns({"0 = a", "1"}, {"c = a", "x"}).empty());
}
