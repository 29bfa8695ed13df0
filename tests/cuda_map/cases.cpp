#include "tests/cuda_map/cases.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <random>
#include <set>

#include "kit/dtype.hpp"
#include "kit/ops/map.hpp"
#include "kit/shape.hpp"
#include "plugins/support/elements.hpp"

namespace cuda_map {
namespace {

using conformance::Input;

constexpr uint32_t kExact[] = {
    PLAIT_MAP_COPY,      PLAIT_MAP_ADD,   PLAIT_MAP_SUB,  PLAIT_MAP_MUL,    PLAIT_MAP_DIV,
    PLAIT_MAP_MAX,       PLAIT_MAP_MIN,   PLAIT_MAP_NEG,  PLAIT_MAP_ABS,    PLAIT_MAP_SQRT,
    PLAIT_MAP_RSQRT,     PLAIT_MAP_RECIP, PLAIT_MAP_RELU, PLAIT_MAP_SIGN,   PLAIT_MAP_FLOOR,
    PLAIT_MAP_LT,        PLAIT_MAP_LE,    PLAIT_MAP_EQ,   PLAIT_MAP_SELECT, PLAIT_MAP_FMA,
    PLAIT_MAP_IS_FINITE, PLAIT_MAP_AND,   PLAIT_MAP_OR,   PLAIT_MAP_NOT};

bool wide(const Case& c) {
  const auto is_f64 = [](const plait_shape& s) { return s.dtype == PLAIT_F64; };
  return std::any_of(c.outputs.begin(), c.outputs.end(), is_f64) ||
         std::any_of(c.inputs.begin(), c.inputs.end(),
                     [&](const Input& in) { return is_f64(in.shape); });
}

double rounded(const plait_map_instr& in, const double* r, bool f64) {
  const auto f32 = [](double v) { return static_cast<float>(v); };
  if (in.op == PLAIT_MAP_FMA)
    return f64 ? std::fma(r[in.a], r[in.b], r[in.c])
               : double{std::fma(f32(r[in.a]), f32(r[in.b]), f32(r[in.c]))};
  if (f64) return plait::kit::evaluate_map(in, r);
  if (in.op == PLAIT_MAP_RSQRT) return double{1.0f / std::sqrt(f32(r[in.a]))};
  return double{f32(plait::kit::evaluate_map(in, r))};
}

// The index in x of what belongs to element e of y.
int64_t index_in(const plait_shape& x, const plait_shape& y, int64_t e) {
  int64_t at = 0, step = 1;
  for (uint32_t j = y.ndim; j-- > 0; e /= y.dims[j]) {
    if (j + x.ndim < y.ndim) break;
    const int64_t extent = x.dims[j + x.ndim - y.ndim];
    if (extent != 1) at += e % y.dims[j] * step;
    step *= extent;
  }
  return at;
}

using Dims = std::vector<int64_t>;

// Dims that broadcast to y: as large, or some extents 1, or without the first ones.
Dims broadcast(const Dims& y, std::mt19937& random) {
  if (random() % 2) return y;
  Dims x = y;
  for (int64_t& extent : x)
    if (random() % 2) extent = 1;
  x.erase(x.begin(), x.begin() + static_cast<ptrdiff_t>(random() % (x.size() + 1)));
  return x;
}

uint32_t any_type(std::mt19937& random, bool with_f64) {
  constexpr uint32_t kTypes[] = {PLAIT_F32, PLAIT_F32, PLAIT_BF16, PLAIT_F16,  PLAIT_I32,
                                 PLAIT_I64, PLAIT_U8,  PLAIT_BOOL, PLAIT_BF16, PLAIT_F64};
  return kTypes[random() % (with_f64 ? std::size(kTypes) : std::size(kTypes) - 1)];
}

}  // namespace

std::vector<Case> conformance_cases() {
  std::vector<Case> cases;
  conformance::add_map_cases(cases);
  std::erase_if(cases, [](const Case& c) { return plait::kit::elements(c.outputs[0]) == 0; });
  return cases;
}

Case random_case(uint32_t seed) {
  std::mt19937 random(seed);
  const auto n_inputs = static_cast<uint32_t>(1 + random() % 12);
  const auto n_instrs = static_cast<uint32_t>(1 + random() % (seed % 4 ? 20 : 90));
  Dims y;
  for (uint32_t rank = random() % 5, j = 0; j < rank; ++j)
    y.push_back(1 + random() % (rank == 1 ? 900 : rank == 2 ? 40 : 8));
  if (!y.empty() && random() % 2) y.back() = (y.back() + 7) / 8 * 8;  // vectors end with the row
  const bool same_types = random() % 3 == 0, with_f64 = random() % 4 == 0;
  const uint32_t type = any_type(random, with_f64);
  const auto shape = [&](const Dims& dims) {
    return conformance::shape(same_types ? type : any_type(random, with_f64), dims);
  };
  Case c{"random map " + std::to_string(seed), "map", {}, {}};
  for (uint32_t i = 0; i < n_inputs; ++i) {
    const plait_shape s = shape(broadcast(y, random));
    c.inputs.push_back({s, s.dtype == PLAIT_U8 || s.dtype == PLAIT_BOOL ? 0.0 : -4.0,
                        s.dtype == PLAIT_BOOL ? 2.0 : 5.0});
  }
  for (uint32_t i = 0; i < n_instrs; ++i) {
    const uint32_t exist = n_inputs + i;
    const auto any = [&] {  // often a recent one
      return static_cast<uint32_t>(random() % 2 ? exist - 1 - random() % std::min(exist, 5u)
                                                : random() % exist);
    };
    const bool constant = random() % 12 == 0;
    const uint32_t op = constant ? PLAIT_MAP_CONST : kExact[random() % std::size(kExact)];
    c.map.instrs.push_back(
        {op, any(), any(), any(), constant ? static_cast<double>(random() % 64) / 8 - 4 : 0});
  }
  const uint32_t n_outputs = 1 + random() % 4;
  for (uint32_t i = 0; i < n_outputs; ++i) {
    c.map.outputs.push_back(i ? random() % (n_inputs + n_instrs) : n_inputs + n_instrs - 1);
    c.outputs.push_back(shape(y));
  }
  return c;
}

std::vector<Generated> generate(const std::vector<Case>& cases) {
  std::vector<Generated> all;
  std::set<std::string> seen;
  for (const Case& c : cases) {
    const conformance::Desc d(c, 1);
    plait::cuda::map::Source source = plait::cuda::map::generate(d.get());
    if (seen.insert(source.name).second) all.push_back({c, std::move(source)});
  }
  return all;
}

std::vector<Generated> all_sources(uint32_t random) {
  std::vector<Case> cases = conformance_cases();
  for (uint32_t seed = 1; seed <= random; ++seed) cases.push_back(random_case(seed));
  return generate(cases);
}

std::vector<Bytes> evaluate(const Case& c) {
  const auto inputs = conformance::fill(c);
  const plait_shape& y = c.outputs[0];
  const bool f64 = wide(c);
  std::vector<Bytes> found;
  for (const plait_shape& s : c.outputs) found.emplace_back(conformance::bytes_of(s));
  std::vector<double> r(inputs.size() + c.map.instrs.size());
  for (int64_t e = 0; e < plait::kit::elements(y); ++e) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      const plait_shape& x = c.inputs[i].shape;
      const double v = plait::support::read_element(x.dtype, inputs[i].data(), index_in(x, y, e));
      r[i] = f64 ? v : double{static_cast<float>(v)};
    }
    for (size_t i = 0; i < c.map.instrs.size(); ++i)
      r[inputs.size() + i] = rounded(c.map.instrs[i], r.data(), f64);
    for (size_t i = 0; i < c.outputs.size(); ++i)
      plait::support::write_element(c.outputs[i].dtype, found[i].data(), e, r[c.map.outputs[i]]);
  }
  return found;
}

}  // namespace cuda_map
