// Converts elements of any dtype to and from the interpreter's f32 or f64.
#pragma once

#include <cstddef>
#include <cstdint>

namespace plait::cpu::interp {

// dst[i] = src[i] for n dense elements of `dtype`. T is float or double.
template <class T>
void load_elements(uint32_t dtype, const void* src, T* dst, size_t n);

// dst[i] = src[i], rounded as described in map.hpp.
template <class T>
void store_elements(uint32_t dtype, const T* src, void* dst, size_t n);

}  // namespace plait::cpu::interp
