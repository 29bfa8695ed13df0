// Maps of tensors: parsed strictly, written as they are read, and tried on the rows of tensors.
#include "engine/checkpoint/tensor_map.hpp"

#include "tests/unit/error_of.hpp"

using namespace plait;
using namespace plait::checkpoint;
using test::error_of;

namespace {

TensorMap parse(const std::string& text) { return parse_tensor_map(parse_json(text), "m.json"); }
std::string map_of(const std::string& parameters, const std::string& rest = "") {
  return "{\"format\": \"plait.tensor_map/1\", \"weights\": \"w\", \"parameters\": " + parameters +
         rest + "}";
}

}  // namespace

TEST_CASE("a map is written as it is read") {
  TensorMap map;
  map.weights = "/models/x";
  map.parameters["a"] = {"t", 0, 0, false};
  map.parameters["b"] = {"u", 3, 5, true};
  map.parameters["c"] = {"v", 0, 0, true, true};
  map.parameters["d"] = {"w", 2, 3, false, false, true};
  map.ignored = {"*.bias"};
  CHECK(tensor_map_text(map).find("plait.tensor_map/1") != std::string::npos);
  map.parameters["e"] = {"", 1, 2, true, false, false, {"x.0", "x.1", "x.2"}};
  CHECK(tensor_map_text(map).find("plait.tensor_map/2") != std::string::npos);
  const TensorMap again = parse(tensor_map_text(map));
  CHECK(tensor_map_text(again) == tensor_map_text(map));
  CHECK(again.parameters.at("b").row == 3);
  CHECK(again.parameters.at("b").n_rows == 5);
  CHECK(again.parameters.at("b").transposed);
  CHECK(!again.parameters.at("b").column);
  CHECK(again.parameters.at("c").column);
  CHECK(!again.parameters.at("c").of_columns);
  CHECK(again.parameters.at("d").of_columns);
  CHECK(again.parameters.at("d").n_rows == 3);
  CHECK(!again.parameters.at("d").sliced());
  CHECK(again.parameters.at("d").all_tensors()[0] == "w");
  CHECK(again.parameters.at("e").tensors == std::vector<std::string>{"x.0", "x.1", "x.2"});
  CHECK(again.parameters.at("e").all_tensors().size() == 3);
  CHECK(again.parameters.at("e").transposed);
  CHECK(again.parameters.at("e").n_rows == 2);
  CHECK(is_tensor_map(parse_json(tensor_map_text(map))));
  CHECK(!is_tensor_map(parse_json("{\"weight_map\": {}}")));
  CHECK(!is_tensor_map(parse_json("[]")));
}

TEST_CASE("a malformed map names the key and what was expected") {
  const std::pair<std::string, const char*> cases[] = {
      {map_of("[]"), "key 'parameters': expected an object"},
      {map_of("{\"a\": 1}"), "key 'parameters.a': expected an object"},
      {map_of("{\"a\": {}}"), "key 'parameters.a.tensor': expected the name"},
      {map_of("{\"a\": {\"tensor\": 1}}"), "key 'parameters.a.tensor'"},
      {map_of("{\"a\": {\"tensor\": \"t\", \"row\": [0, 1]}}"),
       "'parameters.a.row': expected no such key"},
      {map_of("{\"a\": {\"tensor\": \"t\", \"rows\": [0]}}"), "[FIRST, END]"},
      {map_of("{\"a\": {\"tensor\": \"t\", \"rows\": [2, 2]}}"), "FIRST < END"},
      {map_of("{\"a\": {\"tensor\": \"t\", \"rows\": [-1, 2]}}"), "[FIRST, END]"},
      {map_of("{\"a\": {\"tensor\": \"t\", \"rows\": [0, 9223372036854775808]}}"), "[FIRST, END]"},
      {map_of("{\"a\": {\"tensor\": \"t\", \"rows\": [0.5, 2]}}"), "[FIRST, END]"},
      {map_of("{\"a\": {\"tensor\": \"t\", \"transposed\": 1}}"), "expected true or false"},
      {map_of("{\"a\": {\"tensor\": \"t\", \"column\": \"x\"}}"), "'parameters.a.column'"},
      {map_of("{\"a\": {\"tensor\": \"t\", \"columns\": [3, 2]}}"), "'parameters.a.columns'"},
      {map_of("{\"a\": {\"tensor\": \"t\", \"columns\": [0, 2], \"rows\": [0, 2]}}"),
       "'parameters.a.columns': expected neither rows nor transposed nor column beside it"},
      {map_of("{\"a\": {\"tensor\": \"t\", \"columns\": [0, 2], \"transposed\": true}}"),
       "'parameters.a.columns': expected neither rows"},
      {map_of("{\"a\": {\"tensors\": \"t\"}}"),
       "'parameters.a.tensors': expected a list of the names of tensors, at least one"},
      {map_of("{\"a\": {\"tensors\": []}}"), "'parameters.a.tensors': expected a list"},
      {map_of("{\"a\": {\"tensors\": [\"t\", 1]}}"), "'parameters.a.tensors': expected a list"},
      {map_of("{\"a\": {\"tensor\": \"t\", \"tensors\": [\"t\"]}}"),
       "'parameters.a.tensors': expected no key tensor beside it"},
      {map_of("{}", ", \"ignored\": 1"), "key 'ignored': expected a list"},
      {map_of("{}", ", \"ignored\": [1]"), "key 'ignored': expected a list"},
      {"{\"format\": \"plait.tensor_map/1\", \"parameters\": {}}", "key 'weights'"},
      {"{\"format\": \"plait.tensor_map/3\"}", "import the model again"},
  };
  for (const auto& [text, says] : cases) {
    const Error found = error_of([&text = text] { parse(text); });
    CAPTURE(found.text());
    CHECK(found.text().find("m.json") != std::string::npos);
    CHECK(found.text().find(says) != std::string::npos);
  }
}

TEST_CASE("the shape at a place") {
  std::string fault;
  const std::vector<int64_t> matrix{6, 4}, cube{2, 3, 4}, number;
  CHECK(shape_at({"t"}, matrix, fault) == std::vector<int64_t>{6, 4});
  CHECK(shape_at({"t", 2, 3}, matrix, fault) == std::vector<int64_t>{3, 4});
  CHECK(shape_at({"t", 1, 3, true}, matrix, fault) == std::vector<int64_t>{3, 6});
  CHECK(shape_at({"t", 1, 3, false, false, true}, matrix, fault) == std::vector<int64_t>{6, 3});
  CHECK(shape_at({"t"}, number, fault).empty());
  const std::vector<int64_t> row{1, 6}, column{6, 1};
  CHECK(shape_at({"t", 0, 0, true, true}, row, fault) == std::vector<int64_t>{6});
  CHECK(shape_at({"t", 2, 3, false, true}, column, fault) == std::vector<int64_t>{3});
  const TensorPlace slices{"", 1, 3, true, false, false, {"a", "b"}};
  CHECK(shape_at(slices, matrix, fault) == std::vector<int64_t>{2, 3, 6});
  CHECK(shape_at({"", 0, 0, false, false, false, {"a", "b"}}, number, fault) ==
        std::vector<int64_t>{2});
  CHECK(fault.empty());
  const struct {
    TensorPlace place;
    std::vector<int64_t> shape;
    const char* fault;
  } cases[] = {
      {{"t", 4, 3}, matrix, "it has 6 rows, the map takes rows 4 to 7"},
      {{"t", 6, 0}, matrix, "it has 6 rows, the map takes rows 6 to 6"},
      {{"t", 2, 3, true}, matrix, "it has 4 rows when transposed, the map takes rows 2 to 5"},
      {{"t", 2, 3, false, false, true}, matrix, "it has 4 columns, the map takes columns 2 to 5"},
      {{"t", 0, 0, true}, cube, "it has 3 dimensions, and only 2 can be transposed"},
      {{"t", 0, 2, false, false, true}, cube, "it has 3 dimensions, and only 2 have columns"},
      {{"t", 0, 2, false, false, true}, {6}, "it has 1 dimensions, and only 2 have columns"},
      {{"t", 0, 1}, number, "it is a single number, which has no rows"},
      {{"t", 0, 0, false, true}, row, "it is no single column"},
      {{"t", 0, 0, true, true}, column, "it is no single row"},
      {{"t", 0, 0, false, true}, number, "it is no single column"},
      {{"t", INT64_MAX, INT64_MAX},
       matrix,
       "it has 6 rows, the map takes rows 9223372036854775807 to 18446744073709551614"}};
  for (const auto& one : cases) {
    shape_at(one.place, one.shape, fault);
    CHECK(fault == one.fault);
  }
}

TEST_CASE("parts cover the rows of a tensor without gap or overlap") {
  using Parts = std::vector<PlacedRows>;
  const auto fault_of = [](Parts parts, int64_t rows) { return cover_rows(parts, rows); };
  CHECK(fault_of({{"b", 2, 4}, {"a", 0, 2}}, 6).empty());
  CHECK(fault_of({{"a", 0, 6}, {"tied", 0, 6}}, 6).empty());
  CHECK(fault_of({{"a", 0, 2}, {"b", 3, 3}}, 6) == "no parameter has its row 2 of 6");
  CHECK(fault_of({{"a", 0, 2}}, 6) == "no parameter has its row 2 of 6");
  CHECK(fault_of({{"a", 1, 5}}, 6) == "no parameter has its row 0 of 6");
  CHECK(fault_of({{"a", 0, 4}, {"b", 3, 3}}, 6) == "'a' and 'b' overlap in its rows");
  CHECK(fault_of({{"a", 0, 4}, {"b", 0, 6}}, 6) == "'a' and 'b' overlap in its rows");
  CHECK(fault_of({{"a", 0, 6, 0}, {"a", 0, 6, 2}}, 6) == "slices of 'a' share its rows");
  CHECK(fault_of({{"a", 0, 6, 2}, {"a", 0, 6, 0}}, 6) == "slices of 'a' share its rows");
  CHECK(fault_of({{"a", 0, 6, 0}, {"b", 0, 6, 0}}, 6).empty());
}
