// The images of tests/golden/images, and what Pillow makes of them.
#pragma once

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "plugins/data/images/decode.hpp"

namespace images_test {

using nlohmann::json;
using Values = std::vector<uint8_t>;

inline std::string golden_path(const std::string& name) {
  return std::string(PLAIT_SOURCE_FOLDER "/tests/golden/") + name;
}
inline const json& golden() {
  static const json all = [] {
    std::ifstream file(golden_path("images.json"));
    return json::parse(file);
  }();
  return all;
}
inline std::string content_of(const std::string& image) {
  std::ifstream file(golden_path("images/" + image), std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
inline Values values_of(const json& hex) {
  const auto& text = hex.get_ref<const std::string&>();
  Values values;
  for (size_t i = 0; i + 1 < text.size(); i += 2)
    values.push_back(static_cast<uint8_t>(std::stoi(text.substr(i, 2), nullptr, 16)));
  return values;
}

inline constexpr int64_t kManyPixels = 1000000;

inline plait::data::images::Pixels decoded(const std::string& file, int channels,
                                           int64_t max_pixels = kManyPixels) {
  plait::data::images::Pixels pixels;
  plait::data::images::decode({"data.images", "path", "x"},
                              {reinterpret_cast<const uint8_t*>(file.data()), file.size()},
                              channels, max_pixels, pixels);
  return pixels;
}
// The text of the error with which decoding fails; "": none.
inline std::string decode_error(const std::string& file, int64_t max_pixels = kManyPixels) {
  try {
    decoded(file, 3, max_pixels);
  } catch (const plait::Error& e) {
    return e.code() == PLAIT_ERR_DATA ? e.what() : "another code";
  }
  return "";
}

}  // namespace images_test
