// Element types of stored tensors that are read as another type: any float as f64 and 16-bit floats
// as f32 exactly, f64 as f32, and any as bf16 or f16, rounded to nearest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace plait::checkpoint {

// Whether tensors of type `stored` may be read as type `wanted`: equal types, or any
// float as another one.
bool is_convertible(uint32_t stored, uint32_t wanted);
// Whether that may change a number.
bool rounds(uint32_t stored, uint32_t wanted);

// "F64, rounded to F32". stored != wanted.
std::string conversion_text(uint32_t stored, uint32_t wanted);

// Converts the pieces in which a tensor is read.
class Converter {
 public:
  // what: "tensor 'x' of 'file'", for messages; borrowed.
  Converter(uint32_t stored, uint32_t wanted, const std::string& what)
      : stored_(stored), wanted_(wanted), what_(what) {}
  // The bytes of whole elements as the wanted type; valid until the next call. `size` becomes the
  // size of the result. Errors: PLAIT_ERR_DATA for a finite number beyond the range of the type.
  const std::byte* convert(const std::byte* piece, size_t& size);

 private:
  const uint32_t stored_, wanted_;
  const std::string& what_;
  std::vector<std::byte> converted_;
};

}  // namespace plait::checkpoint
