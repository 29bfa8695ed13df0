// Cases of the ops that move elements: gather, scatter_add, one_hot, transpose, slice, pad, concat.
#include <algorithm>

#include "kit/dtype.hpp"
#include "tests/conformance/case.hpp"

namespace conformance {
namespace {

using Dims = std::vector<int64_t>;

std::string named(const char* op, const plait_shape& s) {
  return std::string(op) + " " + std::to_string(s.dtype) + " " + plait::Shape(s).text();
}

void transpose(std::vector<Case>& out, uint32_t type, const Dims& dims, const Dims& perm) {
  Dims to;
  for (int64_t p : perm) to.push_back(dims[static_cast<size_t>(p)]);
  const plait_shape x = shape(type, dims);
  out.push_back({named("transpose", x),
                 "transpose",
                 {{x, 0, 100}},
                 {shape(type, to)},
                 {list("perm", perm)},
                 {},
                 0});
}

void slice(std::vector<Case>& out, uint32_t type, Dims dims, int64_t axis, int64_t start,
           int64_t stop) {
  const plait_shape x = shape(type, dims);
  dims[static_cast<size_t>(axis)] = stop - start;
  out.push_back({named("slice", x),
                 "slice",
                 {{x, 0, 100}},
                 {shape(type, dims)},
                 {number("axis", axis), number("start", start), number("stop", stop)},
                 {},
                 0});
}

void pad(std::vector<Case>& out, uint32_t type, Dims dims, int64_t axis, int64_t before,
         int64_t after) {
  const plait_shape x = shape(type, dims);
  dims[static_cast<size_t>(axis)] += before + after;
  out.push_back({named("pad", x),
                 "pad",
                 {{x, 0, 100}},
                 {shape(type, dims)},
                 {number("axis", axis), number("before", before), number("after", after)},
                 {},
                 0});
}

void concat(std::vector<Case>& out, uint32_t type, Dims dims, int64_t axis, const Dims& extents) {
  Case c{"", "concat", {}, {}, {number("axis", axis)}, {}, 0};
  int64_t total = 0;
  for (int64_t e : extents) {
    dims[static_cast<size_t>(axis)] = e;
    total += e;
    c.inputs.push_back({shape(type, dims), 0, 100});
  }
  dims[static_cast<size_t>(axis)] = total;
  c.outputs = {shape(type, dims)};
  c.name = named("concat to", c.outputs[0]);
  out.push_back(c);
}

void rows_by_index(std::vector<Case>& out, uint32_t type, uint32_t index, int64_t v,
                   const Dims& count, int64_t width) {
  Dims y = count, table = {v};
  y.push_back(width);
  table.push_back(width);
  Input i{shape(index, count), 0, static_cast<double>(v)};
  const plait_shape t = shape(type, table);
  // Sums of 16-bit rows are f32.
  const plait_shape sum = shape(plait::kit::dtype_bytes(type) == 2 ? PLAIT_F32 : type, table);
  out.push_back({named("gather", t), "gather", {{t, 0, 100}, i}, {shape(type, y)}, {}, {}, 0});
  Case c{named("scatter_add to", t),
         "scatter_add",
         {{shape(type, y), 0, 3}, i},
         {sum},
         {number("rows", v)}};
  c.scale = 8;
  out.push_back(c);
  Case onto = c;
  onto.name += " onto a sum";
  onto.inputs.push_back({sum, 0, 3});
  onto.attrs.push_back(flag("accumulate", true));
  onto.in_place = {2};
  out.push_back(onto);
  // One shard of a table with three times as many rows: ids of all shards, and an invalid one.
  const double all = 3.0 * static_cast<double>(v);
  i.high = index == PLAIT_U8 ? std::min(all, 255.0) : all;
  if (index != PLAIT_U8 && count[0] > 0) i.set = {{0, all + 1}};
  out.push_back({named("gather of a part", t),
                 "gather",
                 {{t, 0, 100}, i},
                 {shape(type, y)},
                 {number("first", v), number("total", 3 * v)},
                 {},
                 0});
  c.inputs[1] = i;
  c.name = named("scatter_add to a part", t);
  c.attrs.push_back(number("first", v));
  out.push_back(c);
}

}  // namespace

void add_layout_cases(std::vector<Case>& out) {
  for (uint32_t type : {PLAIT_F32, PLAIT_F64, PLAIT_BF16, PLAIT_U8}) {
    transpose(out, type, {33, 17}, {1, 0});
    transpose(out, type, {32, 48}, {1, 0});
    transpose(out, type, {5, 6, 7}, {2, 0, 1});
    slice(out, type, {5, 6, 7}, 1, 2, 5);
    pad(out, type, {5, 6, 7}, 1, 2, 3);
    concat(out, type, {5, 0, 7}, 1, {1, 4, 0, 2});
  }
  for (const Dims& perm : {Dims{0, 1, 2, 3}, Dims{0, 2, 1, 3}, Dims{0, 2, 3, 1}, Dims{3, 2, 1, 0},
                           Dims{1, 0, 3, 2}, Dims{2, 3, 0, 1}})
    transpose(out, PLAIT_F32, {3, 18, 5, 20}, perm);
  transpose(out, PLAIT_F32, {}, {});
  transpose(out, PLAIT_F32, {0, 4}, {1, 0});
  transpose(out, PLAIT_F32, {1, 4, 1}, {2, 1, 0});
  transpose(out, PLAIT_F32, {1, 1000}, {1, 0});
  transpose(out, PLAIT_F32, {600, 700}, {1, 0});  // large enough for threads
  for (int64_t axis : {0, 1}) {
    slice(out, PLAIT_F32, {9, 33}, axis, 0, 0);
    slice(out, PLAIT_F32, {9, 33}, axis, 0, 9);
    slice(out, PLAIT_F32, {9, 33}, axis, 8, 9);
    pad(out, PLAIT_F32, {9, 33}, axis, 0, 0);
    pad(out, PLAIT_F32, {9, 33}, axis, 0, 7);
    pad(out, PLAIT_F32, {0, 33}, axis, 1, 1);
    concat(out, PLAIT_F32, {9, 33}, axis, {33});
    concat(out, PLAIT_F32, {9, 33}, axis, {0, 0});
    slice(out, PLAIT_F32, {700, 600}, axis, 1, 599);
    pad(out, PLAIT_F32, {700, 600}, axis, 5, 6);
    concat(out, PLAIT_F32, {700, 600}, axis, {300, 400});
  }
  concat(out, PLAIT_F32, {0, 3}, 0, Dims(70, 2));  // many inputs
  rows_by_index(out, PLAIT_F32, PLAIT_I32, 10, {4, 5}, 7);
  rows_by_index(out, PLAIT_F32, PLAIT_I64, 1, {3}, 1);
  rows_by_index(out, PLAIT_F32, PLAIT_U8, 200, {1000}, 130);
  rows_by_index(out, PLAIT_F32, PLAIT_I32, 40, {512}, 1000);
  rows_by_index(out, PLAIT_F32, PLAIT_I32, 3, {2500}, 5);       // each row hundreds of times
  rows_by_index(out, PLAIT_BF16, PLAIT_I64, 70000, {2100}, 8);  // row numbers of 17 bits
  rows_by_index(out, PLAIT_F64, PLAIT_I32, 600, {3, 700}, 6);
  rows_by_index(out, PLAIT_F16, PLAIT_I32, 2, {1200}, 12);
  rows_by_index(out, PLAIT_BF16, PLAIT_I32, 10, {9}, 33);
  rows_by_index(out, PLAIT_F64, PLAIT_I64, 10, {9}, 33);
  rows_by_index(out, PLAIT_F32, PLAIT_I64, 10, {0}, 33);
  rows_by_index(out, PLAIT_F32, PLAIT_I64, 10, {9}, 0);
  const Input odd{
      shape(PLAIT_I64, {6}), 0, 9, {{0, -1}, {1, 9}, {2, 1e15}, {3, -9e15}, {4, 4294967296.0}}};
  out.push_back(
      {"gather of odd indices", "gather", {{f32({9, 5})}, odd}, {f32({6, 5})}, {}, {}, 0});
  out.push_back({"gather of odd indices, whole numbers",
                 "gather",
                 {{shape(PLAIT_I32, {9, 5}), 1, 9}, odd},
                 {shape(PLAIT_I32, {6, 5})},
                 {},
                 {},
                 0});
  for (const uint32_t type : {PLAIT_BF16, PLAIT_F16})
    out.push_back({"scatter_add of 16 bits",
                   "scatter_add",
                   {{shape(type, {300, 65}), -1, 1}, {shape(PLAIT_I32, {300}), 0, 7}},
                   {f32({7, 65})},
                   {number("rows", 7)},
                   {},
                   4e-6,
                   30});
  out.push_back({"scatter_add of odd indices",
                 "scatter_add",
                 {{f32({6, 5})}, odd},
                 {f32({9, 5})},
                 {number("rows", 9)}});
  for (uint32_t index : {PLAIT_U8, PLAIT_I32, PLAIT_I64})
    out.push_back({"one_hot",
                   "one_hot",
                   {{shape(index, {5, 6}), 0, 12}},
                   {f32({5, 6, 10})},
                   {number("depth", 10)},
                   {},
                   0});
  out.push_back(
      {"one_hot of odd indices", "one_hot", {odd}, {f32({6, 9})}, {number("depth", 9)}, {}, 0});
}

}  // namespace conformance
