#include "engine/checkpoint/convert.hpp"

#include <plait/tensor.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/checkpoint/safetensors.hpp"
#include "kit/dtype.hpp"
#include "kit/half.hpp"

namespace plait::checkpoint {

bool is_convertible(uint32_t stored, uint32_t wanted) {
  return stored == wanted || (kit::is_float(stored) && kit::is_float(wanted));
}

bool rounds(uint32_t stored, uint32_t wanted) {
  return dtype_bytes(wanted) < dtype_bytes(stored) ||
         (stored != wanted && dtype_bytes(wanted) == dtype_bytes(stored));  // bf16 and f16
}

std::string conversion_text(uint32_t stored, uint32_t wanted) {
  return std::string(dtype_name(stored)) + ", " +
         (rounds(stored, wanted) ? "rounded to " : "converted exactly to ") + dtype_name(wanted);
}

namespace {

// A number of 16 bits.
template <uint16_t (*Round)(float), float (*Widen)(uint16_t)>
class Rounded {
 public:
  explicit Rounded(float v) : bits_(Round(v)) {}
  explicit Rounded(double v) : Rounded(narrow(v)) {}
  explicit operator float() const { return Widen(bits_); }

 private:
  // Rounded to odd, so that rounding once more gives the nearest.
  static float narrow(double v) {
    auto f = static_cast<float>(v);
    if (std::isnan(v) || static_cast<double>(f) == v) return f;
    if (std::abs(static_cast<double>(f)) > std::abs(v)) f = std::nextafter(f, 0.0f);
    return std::bit_cast<float>(std::bit_cast<uint32_t>(f) | 1u);
  }
  uint16_t bits_;
};
using Bf16 = Rounded<kit::to_bf16, kit::from_bf16>;
using F16 = Rounded<kit::to_f16, kit::from_f16>;

bool is_finite(auto v) { return std::isfinite(static_cast<double>(v)); }
bool is_finite(Bf16 v) { return std::isfinite(static_cast<float>(v)); }
bool is_finite(F16 v) { return std::isfinite(static_cast<float>(v)); }

// load(stored element) is a float or a double. Rounds to nearest as the processor does. Returns the
// number of finite values that became infinite, the last of them in *lost.
template <class Stored, class To, class Load>
size_t convert_all(const std::byte* from, std::byte* to, size_t n, double* lost, Load load) {
  size_t overflows = 0;
  for (size_t i = 0; i < n; ++i) {
    Stored bits;
    std::memcpy(&bits, from + i * sizeof bits, sizeof bits);
    const auto v = load(bits);
    const auto made = static_cast<To>(v);
    std::memcpy(to + i * sizeof made, &made, sizeof made);
    if (std::isfinite(v) && !is_finite(made)) {
      ++overflows;
      *lost = static_cast<double>(v);
    }
  }
  return overflows;
}

template <class To>
size_t convert_to(uint32_t stored, const std::byte* from, std::byte* to, size_t n, double* lost) {
  const auto same = [](auto v) { return v; };
  switch (stored) {
    case PLAIT_F32:
      return convert_all<float, To>(from, to, n, lost, same);
    case PLAIT_F64:
      return convert_all<double, To>(from, to, n, lost, same);
    case PLAIT_BF16:
      return convert_all<uint16_t, To>(from, to, n, lost, kit::from_bf16);
    default:
      return convert_all<uint16_t, To>(from, to, n, lost, kit::from_f16);
  }
}

}  // namespace

const std::byte* Converter::convert(const std::byte* piece, size_t& size) {
  if (stored_ == wanted_) return piece;
  const size_t n = size / dtype_bytes(stored_);
  size = n * dtype_bytes(wanted_);
  converted_.resize(size);
  double lost = 0;
  const auto convert = wanted_ == PLAIT_F64    ? convert_to<double>
                       : wanted_ == PLAIT_F32  ? convert_to<float>
                       : wanted_ == PLAIT_BF16 ? convert_to<Bf16>
                                               : convert_to<F16>;
  const size_t overflows = convert(stored_, piece, converted_.data(), n, &lost);
  if (overflows > 0)
    fail_data("[checkpoint] " + what_ + " contains " + strf("%g", lost) + " in " +
              dtype_name(stored_) + ", expected numbers within the range of " +
              dtype_name(wanted_) + "; read it with [precision] " +
              (dtype_bytes(wanted_) == 2 ? "master = true and frozen = \"master\""
                                         : "compute = \"f64\""));
  return converted_.data();
}

}  // namespace plait::checkpoint
