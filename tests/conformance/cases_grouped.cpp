// Cases of top_k, of rows sorted into groups, and of the products of groups: empty groups, all rows
// in one group, numbers of rows at the edges of tiles, matrices of some groups alone.
#include <cmath>
#include <limits>
#include <utility>

#include "kit/dtype.hpp"
#include "kit/shape.hpp"
#include "tests/conformance/case.hpp"

namespace conformance {
namespace {

using Dims = std::vector<int64_t>;

std::string named(const char* op, const plait_shape& s) {
  return std::string(op) + " " + plait::kit::dtype_name(s.dtype) + " " + plait::Shape(s).text();
}

void top_k(std::vector<Case>& out, uint32_t type, Dims dims, int64_t k,
           std::vector<std::pair<int64_t, double>> set = {}) {
  const plait_shape x = shape(type, dims);
  const int64_t extent = dims.back();
  dims.back() = k;
  const plait_shape y = shape(type, dims), index = shape(PLAIT_I32, dims);
  // Whole numbers in a small range: many are equal.
  out.push_back({named("top_k", x) + ", " + std::to_string(k),
                 "top_k",
                 {{x, -3, 3, std::move(set)}},
                 {y, index},
                 {number("k", k)},
                 {},
                 0});
  Input at{index, 0, static_cast<double>(extent)};
  // Each row names each place once at most.
  for (int64_t i = 0; i < plait::kit::elements(index); ++i)
    at.set.push_back({i, static_cast<double>((i / k * 3 + i % k) % extent)});
  if (plait::kit::elements(index) > 0) at.set[0].second = static_cast<double>(extent + 7);
  out.push_back({named("top_k_grad", x) + ", " + std::to_string(k),
                 "top_k_grad",
                 {{y, -2, 2}, at},
                 {x},
                 {number("extent", extent)},
                 {},
                 0});
}

struct Tokens {
  Dims dims;  // of the tokens
  int64_t each, width, groups = 1;
  int64_t count() const {
    int64_t n = 1;
    for (const int64_t d : dims) n *= d;
    return n;
  }
  Dims with(int64_t last) const {
    Dims all = dims;
    all.push_back(last);
    return all;
  }
};

// A permutation of all rows.
Input places(uint32_t type, const Tokens& t) {
  Input place{shape(type, t.with(t.each)), 0, 1};
  const int64_t rows = t.count() * t.each;
  int64_t step = rows / 2 + 1;
  const auto shares = [](int64_t a, int64_t b) {
    while (b != 0) std::swap(a %= b, b);
    return a > 1;
  };
  while (rows > 1 && shares(rows, step)) ++step;
  for (int64_t i = 0; i < rows; ++i) place.set.push_back({i, static_cast<double>(i * step % rows)});
  return place;
}

void group(std::vector<Case>& out, uint32_t type, uint32_t index, const Tokens& t) {
  const int64_t rows = t.count() * t.each;
  const plait_shape x = shape(type, t.with(t.width)), of_rows = shape(type, {rows, t.width});
  Input at{shape(index, t.with(t.each)), 0, static_cast<double>(t.groups)};
  if (rows > 4 && index != PLAIT_U8) at.set = {{1, -1}, {3, static_cast<double>(t.groups)}};
  out.push_back({named("group_rows", x),
                 "group_rows",
                 {{x, -2, 2}, at},
                 {of_rows, shape(PLAIT_I32, t.with(t.each)), shape(PLAIT_I32, {t.groups + 1})},
                 {number("groups", t.groups)},
                 {},
                 0});
}

// Where groups of 0 to 5 rows begin, and how many rows there are.
std::vector<double> small_groups(int64_t groups) {
  std::vector<double> offsets{0};
  for (int64_t g = 0; g < groups; ++g)
    offsets.push_back(offsets.back() + static_cast<double>(g * 5 % 6));
  return offsets;
}

// The weights' type is w, as that of y and of dy; that of the rows is `type`.
void ungroup(std::vector<Case>& out, uint32_t type, uint32_t w, const Tokens& t) {
  const Input rows{shape(type, {t.count() * t.each, t.width}), -1, 1};
  const Input weights{shape(w, t.with(t.each)), -1, 1}, place = places(PLAIT_I32, t);
  const plait_shape y = shape(w, t.with(t.width));
  const double scale = 1 + static_cast<double>(t.each);
  Case c{named("ungroup_rows", rows.shape), "ungroup_rows", {rows, weights, place}, {y}};
  c.scale = scale;
  out.push_back(c);
  c = {named("ungroup_rows, no weights,", rows.shape), "ungroup_rows", {rows, place}, {y}};
  c.scale = scale;
  out.push_back(c);
  c = {named("ungroup_rows_grad", rows.shape),
       "ungroup_rows_grad",
       {{y, -1, 1}, rows, weights, place},
       {rows.shape, weights.shape}};
  c.scale = 1 + std::sqrt(static_cast<double>(t.width));
  out.push_back(c);
  out.push_back({named("ungroup_rows_grad, no weights,", rows.shape),
                 "ungroup_rows_grad",
                 {{y, -1, 1}, place},
                 {rows.shape}});
}

// Places outside of the rows, and rows that no place names.
void ungroup_some(std::vector<Case>& out, uint32_t type) {
  const plait_shape rows = shape(type, {6, 5}), weights = shape(type, {3, 2}),
                    y = shape(type, {3, 5});
  const Input place{
      shape(PLAIT_I32, {3, 2}), 0, 1, {{0, 4}, {1, -1}, {2, 7}, {3, 1}, {4, 0}, {5, 3}}};
  Case c{named("ungroup_rows, some,", rows),
         "ungroup_rows",
         {{rows, -1, 1}, {weights, -1, 1}, place},
         {y}};
  c.scale = 3;
  out.push_back(c);
  c = {named("ungroup_rows_grad, some,", rows),
       "ungroup_rows_grad",
       {{y, -1, 1}, {rows, -1, 1}, {weights, -1, 1}, place},
       {rows, weights}};
  c.scale = 4;
  out.push_back(c);
  out.push_back({named("ungroup_rows_grad, some, no weights,", rows),
                 "ungroup_rows_grad",
                 {{y, -1, 1}, place},
                 {rows}});
}

struct Groups {
  std::vector<double> offsets;  // of all groups
  int64_t rows, inputs, outputs;
  int64_t first = 0, own = 0;  // own 0: all
};

void products(std::vector<Case>& out, uint32_t type, uint32_t y_type, const Groups& g) {
  const int64_t total = static_cast<int64_t>(g.offsets.size()) - 1, own = g.own ? g.own : total;
  Input offsets{shape(PLAIT_I32, {total + 1}), 0, 1};
  for (size_t i = 0; i < g.offsets.size(); ++i)
    offsets.set.push_back({static_cast<int64_t>(i), g.offsets[i]});
  const plait_shape x = shape(type, {g.rows, g.inputs}), y = shape(y_type, {g.rows, g.outputs});
  for (const bool transposed : {false, true}) {
    const plait_shape b = transposed ? shape(type, {own, g.outputs, g.inputs})
                                     : shape(type, {own, g.inputs, g.outputs});
    Case c{named("grouped_matmul", x) + " " + plait::Shape(b).text() + (transposed ? "^T" : ""),
           "grouped_matmul",
           {{x, -1, 1}, {b, -1, 1}, offsets},
           {y},
           {flag("transpose_b", transposed), number("first", g.first)}};
    c.scale = 1 + std::sqrt(static_cast<double>(g.inputs));
    out.push_back(c);
  }
  const plait_shape b = shape(type, {g.rows, g.outputs});
  Case c{named("grouped_matmul_grad", x) + " " + plait::Shape(b).text(),
         "grouped_matmul_grad",
         {{x, -1, 1}, {b, -1, 1}, offsets},
         {shape(y_type, {own, g.inputs, g.outputs})},
         {number("first", g.first), number("groups", g.own)}};
  c.scale = 1 + std::sqrt(static_cast<double>(g.rows));
  // The product of a group is split among threads where there are few groups.
  c.same_over_threads = false;
  out.push_back(c);
}

}  // namespace

void add_grouped_cases(std::vector<Case>& out) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const uint32_t type : {PLAIT_F32, PLAIT_F64, PLAIT_BF16, PLAIT_F16}) {
    top_k(out, type, {7, 5}, 2);
    top_k(out, type, {3, 2, 9}, 9, {{4, nan}, {7, nan}});
    group(out, type, PLAIT_I32, {{9}, 2, 7, 4});
    ungroup(out, type, type, {{5}, 2, 33});
    ungroup_some(out, type);
    products(out, type, type, {{0, 3, 3, 10}, 11, 9, 7});
  }
  top_k(out, PLAIT_F32, {1}, 1);
  top_k(out, PLAIT_F32, {0, 4}, 2);
  top_k(out, PLAIT_F32, {3000, 64}, 8);
  top_k(out, PLAIT_F32, {2, 300}, 300);
  top_k(out, PLAIT_F32, {4, 6}, 3, {{0, 1}, {1, 1}, {2, 1}, {3, 1}, {4, 1}, {5, 1}, {9, nan}});
  group(out, PLAIT_F32, PLAIT_I64, {{2, 3}, 1, 1, 1});
  group(out, PLAIT_F32, PLAIT_U8, {{700}, 4, 33, 60});
  group(out, PLAIT_F32, PLAIT_I32, {{700}, 4, 3, 255});  // of digits of 8 bits one,
  group(out, PLAIT_F32, PLAIT_I32, {{700}, 4, 3, 256});  // two,
  group(out, PLAIT_BF16, PLAIT_I64, {{40, 30}, 1, 2, 1000});
  group(out, PLAIT_F32, PLAIT_I32, {{600}, 2, 1, 70000});  // and three
  group(out, PLAIT_BF16, PLAIT_I32, {{0}, 2, 5, 3});
  group(out, PLAIT_F32, PLAIT_I32, {{4}, 2, 0, 3});
  for (const uint32_t type : {PLAIT_BF16, PLAIT_F16}) {
    ungroup(out, type, PLAIT_F32, {{2, 3}, 2, 17});
    products(out, type, PLAIT_F32, {{0, 0, 70, 71}, 71, 33, 40});
    products(out, type, type, {{0, 128, 129, 290}, 300, 136, 200});  // in whole 8
    products(out, type, PLAIT_F32, {{0, 400, 410}, 410, 456, 136});  // more steps than stages
    products(out, type, PLAIT_F32, {{3, 3, 70, 90, 90}, 96, 72, 8, 1, 2});
  }
  ungroup(out, PLAIT_F32, PLAIT_F32, {{600}, 4, 130});
  ungroup(out, PLAIT_F32, PLAIT_F32, {{1}, 1, 1});
  ungroup(out, PLAIT_F32, PLAIT_F32, {{0}, 2, 3});
  ungroup(out, PLAIT_F32, PLAIT_F32, {{3}, 2, 0});
  products(out, PLAIT_F32, PLAIT_F32, {{0, 63, 127, 192, 193, 200}, 200, 65, 130});
  products(out, PLAIT_F32, PLAIT_F32, {{0, 256, 513, 513}, 513, 20, 300});
  products(out, PLAIT_F32, PLAIT_F32, {{0, 300}, 300, 70, 90});              // one group
  products(out, PLAIT_F32, PLAIT_F32, {{0, 5, 9, 20, 31}, 31, 8, 6, 1, 2});  // a rank's groups
  products(out, PLAIT_F32, PLAIT_F32, {{0, 5, 9, 20}, 20, 8, 6, 2, 2});      // one is padding
  // More groups than a warp has lanes: all, from the first, from another one.
  const std::vector<double> many = small_groups(75);
  const auto rows = static_cast<int64_t>(many.back());
  for (const uint32_t type : {PLAIT_F32, PLAIT_F64, PLAIT_BF16, PLAIT_F16})
    products(out, type, type, {many, rows + 3, 16, 24, 20, 40});
  for (const int64_t own : {31, 32, 33, 64, 65})
    products(out, PLAIT_F32, PLAIT_F32, {many, rows, 3, 5, own == 64 ? 0 : 10, own});
  products(out, PLAIT_F32, PLAIT_F32, {{0, 0, 0}, 4, 3, 2});          // none in a group
  products(out, PLAIT_F32, PLAIT_F32, {{5, 8, 0, 3, 12}, 10, 3, 2});  // they descend
  products(out, PLAIT_F32, PLAIT_F32, {{0, 5, 3, 8}, 10, 40, 30});    // they descend
  products(out, PLAIT_F32, PLAIT_F32, {{0, 0}, 0, 3, 2});
  products(out, PLAIT_F32, PLAIT_F32, {{0, 2, 3}, 3, 0, 2});
  products(out, PLAIT_F32, PLAIT_F32, {{0, 2, 3}, 3, 4, 0});
  products(out, PLAIT_F32, PLAIT_F32, {{0, 1}, 1, 1, 1});
  // Wider than the tiles of a GPU take.
  products(out, PLAIT_F32, PLAIT_F32, {{0, 0}, 0, (1 << 20) + 1, 0});
  products(out, PLAIT_F32, PLAIT_F32, {{0, 0}, 0, 0, (1 << 20) + 1});
}

}  // namespace conformance
