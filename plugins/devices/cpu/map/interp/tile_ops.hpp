// The arithmetic of the interpreter: one function per operation, over a tile of n elements.
#pragma once

#include <cstddef>

#include "plugins/devices/cpu/map/expr.hpp"

namespace plait::cpu::interp {

// dst[i] = op(a[i], b[i], c[i]); operands beyond the op's arity are not touched. dst may be one of
// the operands. Any alignment.
template <class T>
using TileOp = void (*)(const T* a, const T* b, const T* c, T* dst, size_t n);

// Tables by PLAIT_MAP_ number; null for CONST and COPY.
const TileOp<float>* tile_ops_f32();  // Highway, for the best instruction set of this machine
const TileOp<double>* tile_ops_f64();

template <class T>
const TileOp<T>* tile_ops();
template <>
inline const TileOp<float>* tile_ops<float>() {
  return tile_ops_f32();
}
template <>
inline const TileOp<double>* tile_ops<double>() {
  return tile_ops_f64();
}

}  // namespace plait::cpu::interp
