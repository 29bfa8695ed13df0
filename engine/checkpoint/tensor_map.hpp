// weights.map.json: where the parameters of a model are in files that another library wrote.
//   {"format": "plait.tensor_map/1", "weights": PATH, "parameters": {NAME: {"tensor": NAME,
//    "rows": [FIRST, END], "transposed": true, "column": true}}, "ignored": [PATTERN]}
// or, since plait.tensor_map/2, {"tensors": [NAME, ..]} in place of a tensor: a parameter (n, ..)
// whose n slices along its first dimension are tensors of their own, of equal shapes and types. All
// else is said of each slice.
// A parameter is the whole tensor, or rows of it; the tensor is transposed first where the map says
// so; of a column only the rows count. "columns" in place of "rows" are columns of a matrix. Of an
// ignored tensor parts may be left out, and overlap. Names of parameters are without the model's.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/json_value.hpp"

namespace plait::checkpoint {

// Maps without "tensors" are written as the first version, which older engines read.
inline constexpr char kTensorMapFormat[] = "plait.tensor_map/1",
                      kTensorMapOfSlices[] = "plait.tensor_map/2";

struct TensorPlace {
  std::string tensor;
  int64_t row = 0, n_rows = 0;  // n_rows 0: all rows from `row` on
  bool transposed = false;
  bool column = false;      // a parameter (n) of a tensor (n, 1)
  bool of_columns = false;  // `row` and `n_rows` count columns
  // In place of `tensor`: the tensor of each slice of the parameter along its first dimension, of
  // which `row` and the rest count. Empty: the parameter is in one tensor.
  std::vector<std::string> tensors = {};
  bool sliced() const { return !tensors.empty(); }
  // The tensor, or all of them.
  std::span<const std::string> all_tensors() const {
    return sliced() ? std::span<const std::string>(tensors) : std::span(&tensor, 1);
  }
};

// A parameter in a matrix (rows, columns), or with 0 columns a vector, that is written, 0 where no
// block is.
struct TensorBlock {
  std::string tensor;
  int64_t row = 0, column = 0, rows = 0, columns = 0;
};

struct TensorMap {
  std::string weights;  // as in Weights(); a relative path starts at the map's folder
  std::map<std::string, TensorPlace, std::less<>> parameters;
  // Tensors that no parameter needs, or parameters that are not written; patterns with * and ?.
  std::vector<std::string> ignored;
  std::map<std::string, TensorBlock, std::less<>> blocks;  // of what is written; not in the file
};

bool is_tensor_map(const JsonValue& json);
// Errors: PLAIT_ERR_DATA naming `where` and the key; PLAIT_ERR_UNIMPLEMENTED for a newer format.
TensorMap parse_tensor_map(const JsonValue& json, const std::string& where);
std::string tensor_map_text(const TensorMap& map);

// The shape of the parameter at a place of a tensor of that shape, or of tensors that all have it;
// `fault` tells why there is none.
std::vector<int64_t> shape_at(const TensorPlace& place, std::span<const int64_t> tensor,
                              std::string& fault);

// A parameter, its place in a tensor of known shape and the rows that it takes there.
struct PlacedRows {
  std::string_view parameter;  // borrowed: a parameter may have many slices
  int64_t row = 0, n_rows = 0;
  int64_t slice = -1;  // of the parameter along its first dimension; -1: all of it
};
// Sorts the parts of a tensor by their rows. Returns what is wrong with them: rows (of n_rows) that
// no part has, or that two different parts share; "" if nothing is. word: "row", or "column".
std::string cover_rows(std::vector<PlacedRows>& parts, int64_t n_rows, const char* word = "row");

}  // namespace plait::checkpoint
