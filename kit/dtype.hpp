// Element types: one table of what is known of each.
#pragma once

#include <plait/tensor.h>

#include <cstdint>
#include <iterator>
#include <string_view>

namespace plait::kit {

struct Dtype {
  uint32_t id;  // PLAIT_F32, ...
  const char* name;
  uint64_t bytes;  // of one element
  bool is_float;   // which layers compute in: the 8-bit floats are operands of products alone
  bool is_index;
};

inline constexpr Dtype kDtypes[] = {
    {0, "?", 0, false, false},
    {PLAIT_F32, "f32", 4, true, false},
    {PLAIT_F64, "f64", 8, true, false},
    {PLAIT_BF16, "bf16", 2, true, false},
    {PLAIT_F16, "f16", 2, true, false},
    {PLAIT_I32, "i32", 4, false, true},
    {PLAIT_I64, "i64", 8, false, true},
    {PLAIT_U8, "u8", 1, false, true},
    {PLAIT_BOOL, "bool", 1, false, false},
    {PLAIT_F8E4M3, "f8e4m3", 1, false, false},
    {PLAIT_F8E5M2, "f8e5m2", 1, false, false},
};

// The row of a type; that of id 0 for one that does not exist.
constexpr const Dtype& dtype_row(uint32_t id) { return kDtypes[id < std::size(kDtypes) ? id : 0]; }
constexpr uint64_t dtype_bytes(uint32_t id) { return dtype_row(id).bytes; }  // 0: no such type
constexpr const char* dtype_name(uint32_t id) { return dtype_row(id).name; }
constexpr bool is_float(uint32_t id) { return dtype_row(id).is_float; }
// May hold row numbers or classes.
constexpr bool is_index(uint32_t id) { return dtype_row(id).is_index; }
constexpr bool is_f8(uint32_t id) { return id == PLAIT_F8E4M3 || id == PLAIT_F8E5M2; }
// 0: there is no type of that name.
constexpr uint32_t dtype_named(std::string_view name) {
  for (const Dtype& row : kDtypes)
    if (row.id != 0 && name == row.name) return row.id;
  return 0;
}

}  // namespace plait::kit
