#include "tests/comm/cases.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "kit/dtype.hpp"
#include "plugins/support/elements.hpp"

namespace comm_test {
namespace {

using plait::kit::dtype_bytes;
using plait::kit::dtype_name;

bool rows_in(const Case& c) {
  return c.kind == PLAIT_COMM_REDUCE_SCATTER || c.kind == PLAIT_COMM_ALL_TO_ALL;
}
bool rows_out(const Case& c) {
  return c.kind == PLAIT_COMM_ALL_GATHER || c.kind == PLAIT_COMM_ALL_TO_ALL;
}
bool reduces(const Case& c) { return c.reduction != 0; }
bool has_place(uint32_t kind) { return kind != PLAIT_COMM_ALL_TO_ALL && kind != PLAIT_COMM_SEND; }

// Largest relative error of one rounding.
double half_ulp(uint32_t dtype) {
  switch (dtype) {
    case PLAIT_F64:
      return 0x1p-53;
    case PLAIT_BF16:
      return 0x1p-8;
    case PLAIT_F16:
      return 0x1p-11;
    default:
      return 0x1p-24;
  }
}

// The reduction of one element, and how far the result may be from it.
struct Expected {
  double value, tolerance;
};
Expected reduce(const Case& c, uint32_t ranks, uint64_t i) {
  double sum = 0, size = 0, most = -INFINITY, least = INFINITY;
  for (uint32_t r = 0; r < ranks; ++r) {
    const double v = element(c.dtype, r, i);
    sum += v;
    size += std::abs(v);
    most = std::max(most, v);
    least = std::min(least, v);
  }
  if (c.reduction == PLAIT_COMM_MAX) return {most, 0};
  if (c.reduction == PLAIT_COMM_MIN) return {least, 0};
  if (c.dtype == PLAIT_U8) return {std::fmod(sum, 256), 0};
  if (!plait::kit::is_float(c.dtype)) return {sum, 0};
  // One rounding to the type, and those of the additions: in f32 at least.
  const double additions = ranks * size * (c.dtype == PLAIT_F64 ? 0x1p-53 : 0x1p-24);
  return {sum, half_ulp(c.dtype) * (std::abs(sum) + additions) + additions};
}

Expected expected(const Case& c, uint32_t ranks, uint32_t rank, uint64_t i) {
  const uint32_t row = static_cast<uint32_t>(c.n ? i / c.n : 0);
  const uint64_t column = c.n ? i % c.n : 0;
  switch (c.kind) {
    case PLAIT_COMM_ALL_REDUCE:
      return reduce(c, ranks, i);
    case PLAIT_COMM_REDUCE_SCATTER:
      return reduce(c, ranks, rank * c.n + i);
    case PLAIT_COMM_ALL_GATHER:
      return {element(c.dtype, row, column), 0};
    case PLAIT_COMM_BROADCAST:
      return {element(c.dtype, c.root, i), 0};
    case PLAIT_COMM_SEND:
      return {element(c.dtype, (rank + ranks - 1) % ranks, i), 0};
    default:  // all to all: row `rank` of what rank `row` brought
      return {element(c.dtype, row, rank * c.n + column), 0};
  }
}

}  // namespace

std::string Case::text() const {
  constexpr const char* kKinds[] = {"?",          "barrier",   "all_reduce", "reduce_scatter",
                                    "all_gather", "broadcast", "all_to_all", "message"};
  constexpr const char* kReductions[] = {"", " sum", " max", " min"};
  return std::string(kKinds[kind]) + kReductions[reduction] + " of " + std::to_string(n) + " " +
         dtype_name(dtype) + (in_place ? " in place" : "") +
         (kind == PLAIT_COMM_BROADCAST ? " from " + std::to_string(root) : "");
}

bool Case::same_on_all() const {
  return kind == PLAIT_COMM_ALL_REDUCE || kind == PLAIT_COMM_ALL_GATHER ||
         kind == PLAIT_COMM_BROADCAST;
}

std::vector<Case> all_cases(uint32_t ranks) {
  using Reductions = std::initializer_list<uint32_t>;
  std::vector<Case> cases;
  const auto add = [&](uint32_t kind, uint32_t dtype, uint32_t reduction, uint64_t n) {
    for (const bool in_place : {false, true})
      if (!in_place || has_place(kind)) cases.push_back({kind, dtype, reduction, 0, n, in_place});
    if (kind == PLAIT_COMM_BROADCAST && ranks > 1)
      cases.push_back({kind, dtype, reduction, ranks - 1, n, true});
  };
  // n: elements of a call that has no rows; row: of one that has one a rank.
  const auto add_all = [&](uint64_t n, uint64_t row, uint32_t dtype, Reductions reductions) {
    for (const uint32_t reduction : reductions) {
      add(PLAIT_COMM_ALL_REDUCE, dtype, reduction, n);
      add(PLAIT_COMM_REDUCE_SCATTER, dtype, reduction, row);
    }
    add(PLAIT_COMM_ALL_GATHER, dtype, 0, row);
    add(PLAIT_COMM_BROADCAST, dtype, 0, n);
    add(PLAIT_COMM_ALL_TO_ALL, dtype, 0, row);
    if (ranks > 1) add(PLAIT_COMM_SEND, dtype, 0, n);
  };
  constexpr uint32_t kTypes[] = {PLAIT_F32, PLAIT_F64, PLAIT_BF16, PLAIT_F16,
                                 PLAIT_I32, PLAIT_I64, PLAIT_U8};
  for (const uint64_t n : {0, 1, 10, 1000})
    for (const uint32_t dtype : kTypes)
      add_all(n, n, dtype, {PLAIT_COMM_SUM, PLAIT_COMM_MAX, PLAIT_COMM_MIN});
  // Large enough for every way a backend has to cut a tensor. Not every type in every way: they
  // only differ in how two are added.
  for (const uint32_t dtype : {PLAIT_F32, PLAIT_BF16})
    add_all(100000, 100000 / ranks, dtype, {PLAIT_COMM_SUM, PLAIT_COMM_MAX});
  const bool everything = std::getenv("PLAIT_TEST_ALL");
  for (const uint32_t dtype : kTypes)
    if (everything)
      add_all(1000000, 1000000 / ranks, dtype, {PLAIT_COMM_SUM, PLAIT_COMM_MAX, PLAIT_COMM_MIN});
    else if (dtype == PLAIT_F32)
      add_all(1000000, 1000000 / ranks, dtype, {PLAIT_COMM_SUM});
    else if (ranks <= 2)
      add(PLAIT_COMM_ALL_REDUCE, dtype, PLAIT_COMM_SUM, 1000000);
  return cases;
}

double element(uint32_t dtype, uint32_t rank, uint64_t i) {
  const uint64_t mixed = (i * 40503u + rank * 2654435761u + 12345u) * 0x9e3779b97f4a7c15u >> 40;
  const auto whole = static_cast<double>(mixed % 251);
  switch (dtype) {
    case PLAIT_F32:
      return (whole - 125) * (mixed % 7 == 0 ? 65536 : 0.125);
    case PLAIT_F64:
      return (whole - 125) * (mixed % 7 == 0 ? 0x1p40 : 0.125);
    case PLAIT_BF16:
    case PLAIT_F16:  // 7 bits and a sign: exact in both
      return (static_cast<double>(mixed % 127) - 63) * (mixed % 5 == 0 ? 4 : 0.125);
    case PLAIT_I32:
      return (whole - 125) * 100003;
    case PLAIT_I64:
      return (whole - 125) * 1099511627791.0;
    default:
      return whole;
  }
}

Bytes input(const Case& c, uint32_t ranks, uint32_t rank) {
  const uint64_t n = rows_in(c) ? c.n * ranks : c.n;
  Bytes bytes(n * dtype_bytes(c.dtype));
  for (uint64_t i = 0; i < n; ++i)
    plait::support::write_element(c.dtype, bytes.data(), static_cast<int64_t>(i),
                                  element(c.dtype, rank, i));
  return bytes;
}

uint64_t out_elements(const Case& c, uint32_t ranks) { return rows_out(c) ? c.n * ranks : c.n; }

std::string fault(const Case& c, uint32_t ranks, uint32_t rank, const void* out) {
  return fault(c, ranks, rank, out, 0, out_elements(c, ranks));
}

std::string fault(const Case& c, uint32_t ranks, uint32_t rank, const void* out, uint64_t first,
                  uint64_t last) {
  for (uint64_t i = first; i < last; ++i) {
    const double got = plait::support::read_element(c.dtype, out, static_cast<int64_t>(i));
    const Expected want = expected(c, ranks, rank, i);
    if (!(std::abs(got - want.value) <= want.tolerance))
      return "element " + std::to_string(i) + " is " + std::to_string(got) + ", expected " +
             std::to_string(want.value) + (reduces(c) ? " give or take " : "") +
             (reduces(c) ? std::to_string(want.tolerance) : "");
  }
  return "";
}

}  // namespace comm_test
