#include "tests/unit/support/golden.hpp"

#include <cmath>

#include "tests/unit/support/golden_file.hpp"

namespace plait::fake {

std::map<std::string, Tensor> read_golden(const std::string& file) {
  const test::GoldenFile golden(file + ".safetensors");
  std::map<std::string, Tensor> all;
  for (const auto& e : golden.header().entries)
    all[e.name] = Tensor(e.shape, golden.values(e), e.dtype == "I64" ? PLAIT_I64 : PLAIT_F32);
  return all;
}

bool close(const Tensor& a, const Tensor& b, double tolerance) {
  if (a.dims != b.dims) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (!(std::abs(a.v[i] - b.v[i]) <= tolerance * (1 + std::abs(b.v[i])))) return false;
  return true;
}

}  // namespace plait::fake
