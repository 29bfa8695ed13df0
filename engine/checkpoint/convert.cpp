#include "engine/checkpoint/convert.hpp"

#include <plait/tensor.h>

#include <cmath>
#include <cstring>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/checkpoint/safetensors.hpp"

namespace plait::checkpoint {

bool is_convertible(uint32_t stored, uint32_t wanted) {
  const auto has = [&](uint32_t a, uint32_t b) { return stored == a && wanted == b; };
  return stored == wanted || has(PLAIT_F32, PLAIT_F64) || has(PLAIT_F64, PLAIT_F32);
}

std::string conversion_text(uint32_t stored, uint32_t wanted) {
  return std::string(dtype_name(stored)) + ", " +
         (dtype_bytes(wanted) < dtype_bytes(stored) ? "rounded to " : "converted exactly to ") +
         dtype_name(wanted);
}

namespace {

// Rounds to nearest as the processor does. Returns the number of finite values that became
// infinite, the last of them in *lost.
template <class From, class To>
size_t convert_all(const std::byte* from, std::byte* to, size_t n, double* lost) {
  size_t overflows = 0;
  for (size_t i = 0; i < n; ++i) {
    From v;
    std::memcpy(&v, from + i * sizeof v, sizeof v);
    const auto made = static_cast<To>(v);
    std::memcpy(to + i * sizeof made, &made, sizeof made);
    if (std::isfinite(v) && !std::isfinite(made)) {
      ++overflows;
      *lost = static_cast<double>(v);
    }
  }
  return overflows;
}

}  // namespace

const std::byte* Converter::convert(const std::byte* piece, size_t& size) {
  if (stored_ == wanted_) return piece;
  const size_t n = size / dtype_bytes(stored_);
  size = n * dtype_bytes(wanted_);
  converted_.resize(size);
  double lost = 0;
  const size_t overflows = wanted_ == PLAIT_F64
                               ? convert_all<float, double>(piece, converted_.data(), n, &lost)
                               : convert_all<double, float>(piece, converted_.data(), n, &lost);
  if (overflows > 0)
    fail_data("[checkpoint] " + what_ + " contains " + strf("%g", lost) + " in " +
              dtype_name(stored_) + ", expected numbers within the range of " +
              dtype_name(wanted_) + "; read it with [precision] compute = \"f64\"");
  return converted_.data();
}

}  // namespace plait::checkpoint
