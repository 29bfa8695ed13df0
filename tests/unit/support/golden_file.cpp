#include "tests/unit/support/golden_file.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>

#include "kit/half.hpp"

namespace plait::test {

GoldenFile::GoldenFile(const std::string& name)
    : path_(std::string(PLAIT_SOURCE_FOLDER) + "/tests/golden/" + name) {
  std::ifstream file(path_, std::ios::binary);
  bytes_.assign(std::istreambuf_iterator<char>(file), {});
  header_ = kit::read_safetensors_header(bytes_, bytes_.size(), path_);
}

std::vector<double> GoldenFile::values(const kit::SafetensorsEntry& entry) const {
  const char *at = bytes_.data() + header_.data_start + entry.begin,
             *end = bytes_.data() + header_.data_start + entry.end;
  const auto take = [&](auto v) {
    std::memcpy(&v, at, sizeof v);
    at += sizeof v;
    return v;
  };
  std::vector<double> all;
  while (at < end)
    all.push_back(entry.dtype == "F64"    ? take(double{})
                  : entry.dtype == "F32"  ? double{take(float{})}
                  : entry.dtype == "BF16" ? double{kit::from_bf16(take(uint16_t{}))}
                  : entry.dtype == "I64"  ? static_cast<double>(take(int64_t{}))
                                          : static_cast<double>(take(int32_t{})));
  return all;
}

std::vector<double> GoldenFile::values(const std::string& tensor) const {
  const auto found = std::find_if(header_.entries.begin(), header_.entries.end(),
                                  [&](const auto& e) { return e.name == tensor; });
  REQUIRE_MESSAGE(found != header_.entries.end(), path_, " has no tensor ", tensor);
  return values(*found);
}

std::vector<std::string> GoldenFile::names(const std::string& prefix) const {
  std::vector<std::string> found;
  for (const kit::SafetensorsEntry& e : header_.entries)
    if (e.name.starts_with(prefix)) found.push_back(e.name.substr(prefix.size()));
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace plait::test
