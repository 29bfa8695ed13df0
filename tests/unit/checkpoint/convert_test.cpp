// Elements that are read as another type: every stored float, exact where it can be.
#include "engine/checkpoint/convert.hpp"

#include <doctest/doctest.h>
#include <plait/tensor.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>

#include "engine/base/error.hpp"

namespace {

using namespace plait;
using checkpoint::Converter, checkpoint::is_convertible;

const std::string kWhat = "tensor 'w' of 'file'";

template <class To, class From>
std::vector<To> converted(uint32_t stored, uint32_t wanted, const std::vector<From>& values) {
  Converter converter(stored, wanted, kWhat);
  const auto bytes = std::as_bytes(std::span(values));
  size_t size = bytes.size();
  const std::byte* made = converter.convert(bytes.data(), size);
  REQUIRE(size == values.size() * sizeof(To));
  std::vector<To> result(values.size());
  std::memcpy(result.data(), made, size);
  return result;
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();

}  // namespace

TEST_CASE("floats are convertible to each other, other types to themselves") {
  for (const uint32_t stored : {PLAIT_F32, PLAIT_F64, PLAIT_BF16, PLAIT_F16}) {
    CHECK(is_convertible(stored, PLAIT_F32));
    CHECK(is_convertible(stored, PLAIT_F64));
    CHECK(is_convertible(stored, PLAIT_BF16));
    CHECK(is_convertible(stored, PLAIT_F16));
  }
  CHECK(is_convertible(PLAIT_I32, PLAIT_I32));
  CHECK(!is_convertible(PLAIT_I32, PLAIT_F32));
  CHECK(!is_convertible(PLAIT_F32, PLAIT_I32));
  CHECK(!is_convertible(PLAIT_I32, PLAIT_F16));
  CHECK(checkpoint::conversion_text(PLAIT_BF16, PLAIT_F32) == "BF16, converted exactly to F32");
  CHECK(checkpoint::conversion_text(PLAIT_F64, PLAIT_F32) == "F64, rounded to F32");
  CHECK(checkpoint::conversion_text(PLAIT_F16, PLAIT_BF16) == "F16, rounded to BF16");
  CHECK(checkpoint::conversion_text(PLAIT_BF16, PLAIT_F16) == "BF16, rounded to F16");
}

TEST_CASE("16-bit floats are exact in f32 and f64, subnormal and infinite ones too") {
  const std::vector<uint16_t> brain{0x3f80, 0xc049, 0x0001, 0x8000, 0x7f80, 0x7f7f};
  const std::vector<float> brain_values{1, -3.140625f, 0x1p-133f, -0.0f, kInfinity, 0x1.fep127f};
  const std::vector<uint16_t> half{0x3c00, 0xc248, 0x0001, 0x8000, 0xfc00, 0x7bff};
  const std::vector<float> half_values{1, -3.140625f, 0x1p-24f, -0.0f, -kInfinity, 65504};
  const auto check = [](uint32_t stored, const auto& bits, const std::vector<float>& expected) {
    const auto narrow = converted<float>(stored, PLAIT_F32, bits);
    const auto wide = converted<double>(stored, PLAIT_F64, bits);
    for (size_t i = 0; i < expected.size(); ++i) {
      CAPTURE(i);
      CHECK(std::bit_cast<uint32_t>(narrow[i]) == std::bit_cast<uint32_t>(expected[i]));
      CHECK(wide[i] == static_cast<double>(expected[i]));
    }
  };
  check(PLAIT_BF16, brain, brain_values);
  check(PLAIT_F16, half, half_values);
}

TEST_CASE("a finite f64 beyond the range of f32 is refused, an infinite one is kept") {
  CHECK(converted<float>(PLAIT_F64, PLAIT_F32, std::vector<double>{-HUGE_VAL})[0] == -kInfinity);
  CHECK_THROWS_WITH_AS(converted<float>(PLAIT_F64, PLAIT_F32, std::vector<double>{1, 1e39}),
                       doctest::Contains("tensor 'w' of 'file' contains 1e+39 in F64"), Error);
}

TEST_CASE("bf16 is the nearest to what is stored, rounded once") {
  const auto rounded = [](uint32_t stored, const auto& values) {
    return converted<uint16_t>(stored, PLAIT_BF16, values);
  };
  // Halfway goes to even; a hair above halfway, which f32 cannot tell from it, goes up.
  CHECK(rounded(PLAIT_F32, std::vector<float>{1.00390625F, 1.01171875F, -kInfinity, 0x1p-133F}) ==
        std::vector<uint16_t>{0x3f80, 0x3f82, 0xff80, 0x0001});
  CHECK(rounded(PLAIT_F64,
                std::vector<double>{1.00390625, 1.00390625 + 0x1p-40, 1.01171875 - 0x1p-40, -3}) ==
        std::vector<uint16_t>{0x3f80, 0x3f81, 0x3f81, 0xc040});
  CHECK(rounded(PLAIT_F16, std::vector<uint16_t>{0x3c00, 0x3c07}) ==
        std::vector<uint16_t>{0x3f80, 0x3f81});
  const uint16_t nan = rounded(PLAIT_F64, std::vector<double>{NAN})[0];
  CHECK((nan & 0x7fffu) > 0x7f80u);
  for (const double beyond : {0x1.ffp127, 1e39, -1e300})
    CHECK_THROWS_WITH_AS(rounded(PLAIT_F64, std::vector<double>{1, beyond}),
                         doctest::Contains("within the range of BF16; read it with [precision] "
                                           "master = true"),
                         Error);
}

TEST_CASE("to f16 a double is rounded once, and what is too large is refused") {
  // Just above the middle of 1 and the next number of f16: by way of f32 it would become 1.
  const std::vector<double> values{1 + 0x1p-11 + 0x1p-40, 1 + 0x1p-11, -0x1p-24, 65504};
  CHECK(converted<uint16_t>(PLAIT_F64, PLAIT_F16, values) ==
        std::vector<uint16_t>{0x3c01, 0x3c00, 0x8001, 0x7bff});
  CHECK_THROWS_WITH_AS((converted<uint16_t>(PLAIT_F32, PLAIT_F16, std::vector<float>{7e4f})),
                       doctest::Contains("within the range of F16"), Error);
}
