#include "engine/checkpoint/tensor_map.hpp"

#include <algorithm>

#include "engine/base/error.hpp"
#include "engine/base/json.hpp"
#include "engine/base/text.hpp"

namespace plait::checkpoint {
namespace {

using Kind = JsonValue::Kind;

// Reads the values of a map, and says where a fault is.
struct MapReader {
  const std::string& where;

  [[noreturn]] void bad(const std::string& key, const std::string& expected) const {
    fail_data("[weights] '" + where + "', key '" + printable(key) + "': expected " + expected);
  }
  const JsonValue& get(const JsonValue& of, const std::string& path, const char* key, Kind kind,
                       const char* expected) const {
    const JsonValue* found = of.find(key);
    if (!found || !found->is(kind)) bad(path + key, expected);
    return *found;
  }

  bool flag(const JsonValue& json, const std::string& path, const char* key) const {
    const JsonValue* value = json.find(key);
    if (value && !value->is(Kind::kBool)) bad(path + "." + key, "true or false");
    return value && value->whole != 0;
  }
  TensorPlace place(const JsonValue& json, const std::string& path) const {
    if (!json.is(Kind::kObject)) bad(path, "an object {\"tensor\": NAME}");
    TensorPlace place;
    if (json.find("tensors"))
      slices(json, path, place);
    else
      place.tensor = get(json, path + ".", "tensor", Kind::kText, "the name of a tensor").text;
    for (const std::string& key : json.keys)
      if (key != "tensor" && key != "tensors" && key != "rows" && key != "columns" &&
          key != "transposed" && key != "column")
        bad(path + "." + key,
            "no such key; there are: tensor, tensors, rows, columns, transposed, column");
    place.transposed = flag(json, path, "transposed");
    place.column = flag(json, path, "column");
    place.of_columns = json.find("columns") != nullptr;
    if (place.of_columns && (place.transposed || place.column || json.find("rows")))
      bad(path + ".columns", "neither rows nor transposed nor column beside it");
    range(json, path, place.of_columns ? "columns" : "rows", place);
    return place;
  }
  void slices(const JsonValue& json, const std::string& path, TensorPlace& to) const {
    constexpr char kExpected[] = "a list of the names of tensors, at least one";
    const std::string key = path + ".tensors";
    if (json.find("tensor")) bad(key, "no key tensor beside it");
    const JsonValue& list = get(json, path + ".", "tensors", Kind::kList, kExpected);
    if (list.items.empty()) bad(key, kExpected);
    for (const JsonValue& one : list.items) {
      if (!one.is(Kind::kText)) bad(key, kExpected);
      to.tensors.push_back(one.text);
    }
  }
  void range(const JsonValue& json, const std::string& path, const char* key,
             TensorPlace& to) const {
    const JsonValue* rows = json.find(key);
    if (!rows) return;
    const bool two = rows->is(Kind::kList) && rows->items.size() == 2 &&
                     rows->items[0].is(Kind::kWhole) && rows->items[1].is(Kind::kWhole) &&
                     rows->items[1].whole <= INT64_MAX &&
                     rows->items[0].whole < rows->items[1].whole;
    if (!two) bad(path + "." + key, "[FIRST, END] with FIRST < END");
    to.row = static_cast<int64_t>(rows->items[0].whole);
    to.n_rows = static_cast<int64_t>(rows->items[1].whole) - to.row;
  }
};

}  // namespace

bool is_tensor_map(const JsonValue& json) {
  const JsonValue* format = json.is(Kind::kObject) ? json.find("format") : nullptr;
  return format && format->is(Kind::kText) && format->text.starts_with("plait.tensor_map/");
}

TensorMap parse_tensor_map(const JsonValue& json, const std::string& where) {
  const MapReader reader{where};
  const JsonValue& format = reader.get(json, "", "format", Kind::kText, "its format");
  if (format.text != kTensorMapFormat && format.text != kTensorMapOfSlices)
    fail(PLAIT_ERR_UNIMPLEMENTED, "[weights] '" + where + "' has the format '" +
                                      printable(format.text) + "', expected '" + kTensorMapFormat +
                                      "' or '" + kTensorMapOfSlices +
                                      "'; read it with a newer version, or import the model again");
  TensorMap map;
  map.weights = reader.get(json, "", "weights", Kind::kText, "the path of the weights").text;
  const JsonValue& parameters =
      reader.get(json, "", "parameters", Kind::kObject, "an object {PARAMETER: place}");
  for (size_t i = 0; i < parameters.items.size(); ++i)
    map.parameters[parameters.keys[i]] =
        reader.place(parameters.items[i], "parameters." + parameters.keys[i]);
  if (json.find("ignored"))
    for (const JsonValue& one :
         reader.get(json, "", "ignored", Kind::kList, "a list of patterns").items) {
      if (!one.is(Kind::kText)) reader.bad("ignored", "a list of patterns");
      map.ignored.push_back(one.text);
    }
  return map;
}

std::string tensor_map_text(const TensorMap& map) {
  const bool of_slices = std::any_of(map.parameters.begin(), map.parameters.end(),
                                     [](const auto& p) { return p.second.sliced(); });
  JsonWriter w(true);
  w.object().field("format", of_slices ? kTensorMapOfSlices : kTensorMapFormat);
  w.field("weights", map.weights);
  w.key("parameters").object();
  for (const auto& [name, place] : map.parameters) {
    w.key(name).object();
    if (place.sliced())
      w.texts("tensors", place.tensors);
    else
      w.field("tensor", place.tensor);
    if (place.n_rows > 0)
      w.key(place.of_columns ? "columns" : "rows")
          .array()
          .value(place.row)
          .value(place.row + place.n_rows)
          .end_array();
    if (place.transposed) w.field("transposed", true);
    if (place.column) w.field("column", true);
    w.end_object();
  }
  w.end_object().texts("ignored", map.ignored).end_object();
  return w.text() + "\n";
}

namespace {

// Of one tensor.
std::vector<int64_t> slice_at(const TensorPlace& place, std::span<const int64_t> tensor,
                              std::string& fault) {
  std::vector<int64_t> shape(tensor.begin(), tensor.end());
  fault.clear();
  if (place.transposed && shape.size() != 2)
    fault = strf("it has %zu dimensions, and only 2 can be transposed", shape.size());
  else if (place.transposed)
    std::swap(shape[0], shape[1]);
  if (place.of_columns && shape.size() != 2)
    fault = strf("it has %zu dimensions, and only 2 have columns", shape.size());
  if (fault.empty() && place.column) {
    if (shape.size() != 2 || shape[1] != 1)
      fault = "it is no single " + std::string(place.transposed ? "row" : "column");
    else
      shape.pop_back();
  }
  if (!fault.empty() || (place.row == 0 && place.n_rows == 0)) return shape;
  if (shape.empty()) {
    fault = "it is a single number, which has no rows";
    return shape;
  }
  int64_t& extent = shape[place.of_columns ? 1 : 0];
  const char* what = place.of_columns ? "columns" : "rows";
  if (place.row >= extent || place.n_rows > extent - place.row)
    fault = strf("it has %ld %s%s, the map takes %s %ld to %lu", static_cast<long>(extent), what,
                 place.transposed ? " when transposed" : "", what, static_cast<long>(place.row),
                 static_cast<unsigned long>(place.row) + static_cast<unsigned long>(place.n_rows));
  else
    extent = place.n_rows > 0 ? place.n_rows : extent - place.row;
  return shape;
}

}  // namespace

std::vector<int64_t> shape_at(const TensorPlace& place, std::span<const int64_t> tensor,
                              std::string& fault) {
  std::vector<int64_t> shape = slice_at(place, tensor, fault);
  if (place.sliced()) shape.insert(shape.begin(), static_cast<int64_t>(place.tensors.size()));
  return shape;
}

std::string cover_rows(std::vector<PlacedRows>& parts, int64_t n_rows, const char* word) {
  std::sort(parts.begin(), parts.end(), [](const PlacedRows& a, const PlacedRows& b) {
    return a.row != b.row ? a.row < b.row : a.n_rows < b.n_rows;
  });
  int64_t next = 0;
  const PlacedRows* before = nullptr;
  for (const PlacedRows& part : parts) {
    // Parameters that are equal, as a tied head, may share a tensor.
    if (before && part.row == before->row && part.n_rows == before->n_rows) {
      if (part.slice < 0 || part.parameter != before->parameter) continue;
      return "slices of '" + printable(part.parameter) + "' share its " + word + "s";
    }
    if (part.row < next)
      return "'" + printable(before->parameter) + "' and '" + printable(part.parameter) +
             "' overlap in its " + word + "s";
    if (part.row > next) break;
    next = part.row + part.n_rows;
    before = &part;
  }
  if (next == n_rows) return "";
  return strf("no parameter has its %s %lld of %lld", word, static_cast<long long>(next),
              static_cast<long long>(n_rows));
}

}  // namespace plait::checkpoint
