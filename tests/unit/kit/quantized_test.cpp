// kit/quantized.hpp: what rows of weights become, and what they take.
#include "kit/quantized.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

namespace {

using namespace plait::kit;

std::vector<float> floats(const std::string& hex) {
  std::vector<float> all;
  for (size_t i = 0; i + 8 <= hex.size(); i += 8)
    all.push_back(
        std::bit_cast<float>(static_cast<uint32_t>(std::stoul(hex.substr(i, 8), nullptr, 16))));
  return all;
}
std::vector<uint8_t> bytes(const std::string& hex) {
  std::vector<uint8_t> all;
  for (size_t i = 0; i + 2 <= hex.size(); i += 2)
    all.push_back(static_cast<uint8_t>(std::stoul(hex.substr(i, 2), nullptr, 16)));
  return all;
}

// Levels of the definition, and rows, that tests/golden/golden_nf4.py made with NumPy.
TEST_CASE("nf4: levels and rows equal what NumPy computes") {
  std::ifstream file(PLAIT_SOURCE_FOLDER "/tests/golden/nf4.txt");
  std::string kind, first, second, third;
  int levels = 0, rows = 0;
  while (file >> kind >> first >> second) {
    if (kind == "level") {
      CHECK(std::abs(double{kNf4[std::stoul(first)]} - std::strtod(second.c_str(), nullptr)) <
            1e-6);
      ++levels;
      continue;
    }
    file >> third;
    const std::vector<float> x = floats(first), expected = floats(third);
    const QuantRow row{QuantFormat::kNf4, static_cast<int64_t>(x.size())};
    CAPTURE(row.columns);
    std::vector<uint8_t> q(static_cast<size_t>(row.bytes()));
    std::vector<float> scales(static_cast<size_t>(row.floats()));
    quantize_part(row, x.data(), 0, row.columns, q.data(), scales.data());
    CHECK(q == bytes(second));
    CHECK(scales == expected);
    ++rows;
  }
  CHECK(levels == 16);
  CHECK(rows == 9);
}

// Half the widest step between levels, of a scale that is itself rounded to half a step of 255.
TEST_CASE("nf4: weights read back are near, and no greater than the greatest") {
  std::vector<float> x(1000);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = std::sin(static_cast<float>(i * i)) * static_cast<float>(1 + i / 100);
  const QuantRow row{QuantFormat::kNf4, 1000};
  std::vector<uint8_t> q(static_cast<size_t>(row.bytes()));
  std::vector<float> scales(static_cast<size_t>(row.floats()));
  quantize_part(row, x.data(), 0, row.columns, q.data(), scales.data());
  float top = 0;
  for (const float v : x) top = std::max(top, std::abs(v));
  for (int64_t i = 0; i < row.columns; ++i) {
    const double w = row.weight(q.data(), scales.data(), i);
    const float scale = row.scale(q.data(), scales.data(), i / kNf4Block);
    CHECK(std::abs(w - x[static_cast<size_t>(i)]) <= 0.152 * scale + scales[1] / 2 + 1e-6);
    CHECK(std::abs(w) <= top);
  }
}

TEST_CASE("bytes of a weight: at most 0.53 in rows of 768 columns or more as nf4") {
  for (const int64_t columns : {768, 1024, 2304, 3072, 16384, 50257}) {
    const QuantRow row{QuantFormat::kNf4, columns};
    CHECK(static_cast<double>(row.bytes() + 4 * row.floats()) <=
          0.53 * static_cast<double>(columns));
  }
  const QuantRow row{QuantFormat::kInt8, 65};
  CHECK(row.bytes() == 65);
  CHECK(row.floats() == 3);
}

}  // namespace

TEST_CASE("int8: products with the numbers of the greatest float are finite") {
  constexpr float kMost = std::numeric_limits<float>::max();
  const float w[] = {kMost, -kMost, kMost / 4, 0, 1};
  uint8_t q[std::size(w)];
  const float scale = quantize_block(w, std::size(w), q);
  CHECK(scale == kMost / 128);
  CHECK(std::isfinite(scale * 128));
  CHECK(q[0] == 255);
  CHECK(q[1] == 1);
  CHECK(q[2] == 128 + 32);
  CHECK(q[3] == 128);
}
