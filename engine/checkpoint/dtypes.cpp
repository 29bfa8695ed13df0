#include "engine/checkpoint/dtypes.hpp"

#include <plait/tensor.h>

#include "engine/checkpoint/safetensors.hpp"

namespace plait::checkpoint {

namespace {

// In the order of the reference implementation; Plait's type is in the third column.
constexpr DtypeInfo kFacts[] = {
    {"BOOL", 8, PLAIT_BOOL}, {"F4", 4, 0},           {"F6_E2M3", 6, 0},
    {"F6_E3M2", 6, 0},       {"U8", 8, PLAIT_U8},    {"I8", 8, 0},
    {"F8_E5M2", 8, 0},       {"F8_E4M3", 8, 0},      {"F8_E8M0", 8, 0},
    {"F8_E4M3FNUZ", 8, 0},   {"F8_E5M2FNUZ", 8, 0},  {"I16", 16, 0},
    {"U16", 16, 0},          {"F16", 16, PLAIT_F16}, {"BF16", 16, PLAIT_BF16},
    {"I32", 32, PLAIT_I32},  {"U32", 32, 0},         {"F32", 32, PLAIT_F32},
    {"C64", 64, 0},          {"F64", 64, PLAIT_F64}, {"I64", 64, PLAIT_I64},
    {"U64", 64, 0},
};

const DtypeInfo* fact_of(uint32_t dtype) {
  for (const DtypeInfo& f : kFacts)
    if (dtype != 0 && f.dtype == dtype) return &f;
  return nullptr;
}

}  // namespace

const DtypeInfo* dtype_info(std::string_view name) {
  for (const DtypeInfo& f : kFacts)
    if (name == f.name) return &f;
  return nullptr;
}

int dtype_order(uint32_t dtype) {
  const DtypeInfo* f = fact_of(dtype);
  return f ? static_cast<int>(f - kFacts) : -1;
}

const char* dtype_name(uint32_t dtype) {
  const DtypeInfo* f = fact_of(dtype);
  return f ? f->name : "";
}

uint32_t dtype_from_name(std::string_view name) {
  const DtypeInfo* f = dtype_info(name);
  return f ? f->dtype : 0;
}

uint64_t dtype_bytes(uint32_t dtype) {
  const DtypeInfo* f = fact_of(dtype);
  return f ? f->bits / 8u : 0;
}

}  // namespace plait::checkpoint
