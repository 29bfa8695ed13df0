// What a loader and the fields of a dataset may be, on both sides of every bound.
#include "engine/data/batch_slots.hpp"

#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <vector>

#include "engine/base/error.hpp"

namespace {

using namespace plait;
using namespace plait::data;

std::string refusal(const std::function<void()>& f, uint32_t code) {
  try {
    f();
  } catch (const Error& e) {
    CHECK(e.code() == code);
    return e.text();
  }
  return "";
}

std::string config_fault(const DataLoaderConfig& c) {
  return refusal([&] { check_config(c); }, PLAIT_ERR_INVALID);
}

std::string fields_fault(const std::vector<plait_field>& fields) {
  const auto n = static_cast<uint32_t>(fields.size());
  return refusal([&] { check_fields(fields.data(), n, "data"); }, PLAIT_ERR_PLUGIN);
}

plait_field field(const char* name, uint32_t ndim = 0, int64_t extent = 1,
                  uint32_t role = PLAIT_FIELD_INPUT, uint32_t dtype = PLAIT_F32) {
  plait_field f{name, role, 0, {dtype, ndim, {}}};
  for (int64_t& dim : f.shape.dims) dim = extent;
  return f;
}

}  // namespace

TEST_CASE("the numbers of a loader") {
  CHECK(config_fault({.batch = 1, .limit = 0, .prefetch = -1, .first_batch = 0}) == "");
  CHECK(config_fault({.batch = 1, .prefetch = 1024}) == "");
  CHECK(config_fault({.batch = 1, .prefetch = 1025}) ==
        "[data] prefetch is 1025, expected 0 to 1024 batches, or -1");
  CHECK(config_fault({.batch = 0}) == "[data] batch is 0, expected 1 or more");
  CHECK(config_fault({.batch = 1, .limit = -1}) == "[data] limit is -1, expected 0 or more");
  CHECK(config_fault({.batch = 1, .first_batch = -1}) ==
        "[data] first_batch is -1, expected 0 or more");
  CHECK(config_fault({.batch = 4, .row_begin = 3}) == "");
  CHECK(config_fault({.batch = 4, .row_begin = -1}) ==
        "[data] row_begin is -1, expected a row of the batch");
  CHECK(config_fault({.batch = 4, .row_begin = 1, .rows = 3}) == "");
  CHECK(config_fault({.batch = 4, .row_begin = 1, .rows = 4}) ==
        "[data] rows is 4, expected rows inside the batch");
  CHECK(config_fault({.batch = 4, .rows = -1}) ==
        "[data] rows is -1, expected rows inside the batch");
  CHECK(rows_of({.batch = 4, .row_begin = 1}) == 3);  // the rest
  CHECK(rows_of({.batch = 4, .row_begin = 1, .rows = 1}) == 1);
}

TEST_CASE("the fields of a dataset") {
  const plait_field x = field("x");
  CHECK(fields_fault({x}) == "");
  CHECK(fields_fault({}) == "data declares no fields, expected at least one; tell its author");
  std::vector<std::string> names;
  for (int i = 0; i < 1001; ++i) names.push_back("x" + std::to_string(i));
  std::vector<plait_field> many;
  for (const std::string& name : names) many.push_back(field(name.c_str()));
  CHECK(fields_fault(many) == "data declares 1001 fields, expected at most 1000; tell its author");
  many.pop_back();
  CHECK(fields_fault(many) == "");
  CHECK(fields_fault({field("x", PLAIT_MAX_NDIM - 1)}) == "");
  CHECK(fields_fault({field("x", PLAIT_MAX_NDIM)}).find("data: field 0 'x' has ndim ") == 0);
  CHECK(fields_fault({field("x", 2, 0)}) == "");
  CHECK(fields_fault({x, field("y", 1, -1)}) ==
        "data: field 1 'y' has a negative extent in dimension 0; tell its author");
  CHECK(fields_fault({field("x", 1, INT64_MAX / 4)}) == "");
  CHECK(fields_fault({field("x", 1, INT64_MAX / 4 + 1)}) ==
        "data: field 0 'x' is larger than any memory; tell its author");
  CHECK(fields_fault({field("x", 0, 1, 0)}) ==
        "data: field 0 'x' has the unknown role 0; tell its author");
  CHECK(fields_fault({field("x", 0, 1, PLAIT_FIELD_WEIGHT + 1)}) != "");
  CHECK(fields_fault({field("x", 0, 1, PLAIT_FIELD_INPUT, 0)}) ==
        "data: field 0 'x' has the unknown element type 0; tell its author");
}

TEST_CASE("names of fields, and weights of samples") {
  const plait_field w = field("w", 0, 1, PLAIT_FIELD_WEIGHT);
  CHECK(fields_fault({field("x"), w}) == "");
  CHECK(fields_fault({field("weight", 0, 1, PLAIT_FIELD_WEIGHT)}) == "");
  CHECK(fields_fault({field("weight")}) ==
        "data: field 0 'weight' has the name of the sample weights, but not their role; tell its "
        "author");
  CHECK(fields_fault({w, field("v", 0, 1, PLAIT_FIELD_WEIGHT)}) ==
        "data: field 1 'v' is a second weight, expected at most one; tell its author");
  for (const plait_field& wrong :
       {field("w", 1, 1, PLAIT_FIELD_WEIGHT), field("w", 0, 1, PLAIT_FIELD_WEIGHT, PLAIT_F64)})
    CHECK(fields_fault({wrong}) ==
          "data: field 0 'w' is a weight, expected one f32 per sample; tell its author");
  CHECK(fields_fault({field("x"), field("y"), field("x")}) ==
        "data: field 2 'x' has the name of field 0: no name may be there twice; tell its author");
  CHECK(fields_fault({field("x"), field("")}) == "data: field 1 has no name; tell its author");
  CHECK(fields_fault({field("a\nb")}).find("has a control character in its name") !=
        std::string::npos);
}

TEST_CASE("the number of samples is counted in doubles, too") {
  const plait_field x = field("x");
  const auto fault = [&](int64_t samples) {
    plait_dataset_info info{};
    info.n_samples = samples;
    info.fields = &x;
    info.n_fields = 1;
    return refusal([&] { check_info(info, "data"); }, PLAIT_ERR_PLUGIN);
  };
  constexpr int64_t kMost = int64_t{1} << 53;
  CHECK(fault(0) == "");
  CHECK(fault(kMost) == "");
  CHECK(fault(kMost + 1) ==
        "data reports 9007199254740993 samples, expected 0 to 2^53; tell its author");
  CHECK(fault(-1) == "data reports -1 samples, expected 0 to 2^53; tell its author");
}
