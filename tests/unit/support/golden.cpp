#include "tests/unit/support/golden.hpp"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "kit/safetensors.hpp"

namespace plait::fake {

std::map<std::string, Tensor> read_golden(const std::string& file) {
  const auto path =
      std::filesystem::path(PLAIT_SOURCE_FOLDER) / "tests" / "golden" / (file + ".safetensors");
  std::ifstream in(path, std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(in), {});
  std::map<std::string, Tensor> all;
  const auto header = kit::read_safetensors_header(bytes, bytes.size(), path.string());
  for (const auto& e : header.entries) {
    const char* data = bytes.data() + header.data_start + e.begin;
    std::vector<double> values((e.end - e.begin) / 8);
    for (size_t i = 0; i < values.size(); ++i) {
      int64_t integer;
      std::memcpy(&values[i], data + 8 * i, 8);
      std::memcpy(&integer, data + 8 * i, 8);
      if (e.dtype == "I64") values[i] = static_cast<double>(integer);
    }
    all[e.name] = Tensor(e.shape, values, e.dtype == "I64" ? PLAIT_I64 : PLAIT_F32);
  }
  return all;
}

bool close(const Tensor& a, const Tensor& b, double tolerance) {
  if (a.dims != b.dims) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (!(std::abs(a.v[i] - b.v[i]) <= tolerance * (1 + std::abs(b.v[i])))) return false;
  return true;
}

}  // namespace plait::fake
