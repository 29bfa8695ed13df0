// weights.map.json: where the parameters of a model are in files that another library wrote.
//   {"format": "plait.tensor_map/1", "weights": PATH, "parameters": {NAME: {"tensor": NAME,
//    "rows": [FIRST, END], "transposed": true}}, "ignored": [PATTERN]}
// A parameter is the whole tensor, or rows of it; the tensor is transposed first where the map says
// so. Names of parameters are without the model's.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/json_value.hpp"

namespace plait::checkpoint {

inline constexpr char kTensorMapFormat[] = "plait.tensor_map/1";

struct TensorPlace {
  std::string tensor;
  int64_t row = 0, n_rows = 0;  // n_rows 0: all rows from `row` on
  bool transposed = false;
};

struct TensorMap {
  std::string weights;  // as in Weights(); a relative path starts at the map's folder
  std::map<std::string, TensorPlace, std::less<>> parameters;
  std::vector<std::string> ignored;  // tensors that no parameter needs; patterns with * and ?
};

bool is_tensor_map(const JsonValue& json);
// Errors: PLAIT_ERR_DATA naming `where` and the key; PLAIT_ERR_UNIMPLEMENTED for a newer format.
TensorMap parse_tensor_map(const JsonValue& json, const std::string& where);
std::string tensor_map_text(const TensorMap& map);

// The shape of the parameter at a place of a tensor of that shape; `fault` tells why there is none.
std::vector<int64_t> shape_at(const TensorPlace& place, std::span<const int64_t> tensor,
                              std::string& fault);

// A parameter, its place in a tensor of known shape and the rows that it takes there.
struct PlacedRows {
  std::string parameter;
  int64_t row = 0, n_rows = 0;
};
// Sorts the parts of a tensor by their rows. Returns what is wrong with them: rows (of n_rows) that
// no part has, or that two different parts share; "" if nothing is.
std::string cover_rows(std::vector<PlacedRows>& parts, int64_t n_rows);

}  // namespace plait::checkpoint
