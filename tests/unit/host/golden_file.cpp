#include "tests/unit/host/golden_file.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <fstream>
#include <iterator>

#include "kit/half.hpp"

namespace host {

GoldenFile::GoldenFile(const std::string& name)
    : path_(std::string(PLAIT_SOURCE_FOLDER) + "/tests/golden/" + name) {
  std::ifstream file(path_, std::ios::binary);
  uint64_t size = 0;
  REQUIRE(file.read(reinterpret_cast<char*>(&size), sizeof size));
  std::string head(size, ' ');
  file.read(head.data(), static_cast<std::streamsize>(size));
  header_ = nlohmann::json::parse(head);
  data_.assign(std::istreambuf_iterator<char>(file), {});
}

std::vector<double> GoldenFile::values(const std::string& tensor) const {
  const nlohmann::json& t = header_.at(tensor);
  const std::string type = t["dtype"];
  const size_t end = t["data_offsets"][1];
  std::vector<double> all;
  for (size_t at = t["data_offsets"][0]; at < end;) {
    const auto take = [&](auto v) {
      std::memcpy(&v, data_.data() + at, sizeof v);
      at += sizeof v;
      return v;
    };
    all.push_back(type == "F64"    ? take(double{})
                  : type == "F32"  ? double{take(float{})}
                  : type == "BF16" ? double{plait::kit::from_bf16(take(uint16_t{}))}
                  : type == "I64"  ? static_cast<double>(take(int64_t{}))
                                   : static_cast<double>(take(int32_t{})));
  }
  return all;
}

std::vector<std::string> GoldenFile::names(const std::string& prefix) const {
  std::vector<std::string> found;
  for (const auto& [name, entry] : header_.items())
    if (name.starts_with(prefix)) found.push_back(name.substr(prefix.size()));
  return found;
}

}  // namespace host
