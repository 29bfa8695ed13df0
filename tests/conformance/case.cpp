#include "tests/conformance/case.hpp"

#include <cmath>

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

std::string& chosen_op() {
  static std::string name;
  return name;
}

}  // namespace

void choose_op(std::string name) { chosen_op() = std::move(name); }

std::vector<Case> all_cases() {
  std::vector<Case> all;
  for (auto* add : {add_matmul_cases, add_map_cases, add_reduce_cases, add_row_cases,
                    add_layout_cases, add_random_cases, add_attention_cases,
                    add_attention_cached_cases, add_quantized_cases, add_statistics_cases})
    add(all);
  if (!chosen_op().empty()) std::erase_if(all, [](const Case& c) { return c.op != chosen_op(); });
  return all;
}

}  // namespace conformance
