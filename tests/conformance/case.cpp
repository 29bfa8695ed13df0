#include "tests/conformance/case.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "kit/dtype.hpp"
#include "kit/shape.hpp"
#include "plugins/support/elements.hpp"

namespace conformance {

Attr flag(const char* name, bool v) { return {name, PLAIT_OPT_BOOL, v, 0, "", {}}; }
Attr number(const char* name, int64_t v) { return {name, PLAIT_OPT_INT, v, 0, "", {}}; }
Attr real(const char* name, double v) { return {name, PLAIT_OPT_REAL, 0, v, "", {}}; }
Attr text(const char* name, const char* v) { return {name, PLAIT_OPT_TEXT, 0, 0, v, {}}; }
Attr list(const char* name, std::vector<int64_t> v) {
  return {name, PLAIT_OPT_INTS, 0, 0, "", std::move(v)};
}

plait_shape shape(uint32_t dtype, const std::vector<int64_t>& dims) {
  return plait::Shape(dims, dtype).raw();
}

uint64_t bytes_of(const plait_shape& s) { return plait::kit::bytes(s); }

std::vector<std::vector<unsigned char>> fill(const Case& c) {
  std::vector<std::vector<unsigned char>> all;
  uint64_t state = 0x9E3779B97F4A7C15u;
  for (const Input& in : c.inputs) {
    std::vector<unsigned char> data(bytes_of(in.shape));
    const int64_t n = plait::kit::elements(in.shape);
    for (int64_t i = 0; i < n; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      double v = in.low + (in.high - in.low) * static_cast<double>(state >> 40) * 0x1p-24;
      if (!plait::kit::is_float(in.shape.dtype)) v = std::floor(v);
      plait::support::write_element(in.shape.dtype, data.data(), i, v);
    }
    for (auto [at, v] : in.set) plait::support::write_element(in.shape.dtype, data.data(), at, v);
    all.push_back(std::move(data));
  }
  return all;
}

namespace {

struct Ops {
  std::set<std::string, std::less<>> only, without;
  bool large = true;
  bool has(const std::string& op) const {
    return (only.empty() || only.contains(op)) && !without.contains(op);
  }
};
Ops& chosen_ops() {
  static Ops ops;
  return ops;
}

}  // namespace

void choose_ops(std::string_view list) {
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    const std::string_view name = list.substr(0, comma);
    if (name.starts_with('-'))
      chosen_ops().without.emplace(name.substr(1));
    else if (!name.empty())
      chosen_ops().only.emplace(name);
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
}

bool is_chosen(const std::string& op) { return chosen_ops().has(op); }
void leave_out_large() { chosen_ops().large = false; }

std::vector<Case> all_cases() {
  std::vector<Case> all;
  for (auto* add : {add_matmul_cases, add_map_cases, add_reduce_cases, add_row_cases,
                    add_layout_cases, add_random_cases, add_attention_cases,
                    add_attention_cached_cases, add_quantized_cases, add_float8_cases,
                    add_halves_cases, add_statistics_cases, add_grouped_cases, add_draw_cases})
    add(all);
  std::erase_if(all, [](const Case& c) {
    return !chosen_ops().has(c.op) || (c.large && !chosen_ops().large);
  });
  return all;
}

}  // namespace conformance
